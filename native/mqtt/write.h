/* write.h: packets of a server, put behind what is in a buffer.
 *
 * All of them return STATUS_OK, the buffer's STATUS_FULL or STATUS_NO_MEMORY, or STATUS_INVALID for a packet that is
 * larger than the client takes (5: 3.1.2.11.4); nothing was written then. An answer first goes without what only
 * explains it: its reason string and its user properties.
 */
#ifndef LEAFD_MQTT_WRITE_H
#define LEAFD_MQTT_WRITE_H

#include "base/buffer.h"
#include "base/status.h"
#include "mqtt/packet.h"

typedef struct mqtt_writer {
    mqtt_level_t level;
    uint32_t max_packet; /* that the client takes */
} mqtt_writer_t;

/* The fields of a PUBLISH beside its topic and payload. */
typedef struct mqtt_publish {
    bytes_t topic; /* empty with an alias that the client knows */
    uint32_t payload_size;
    uint16_t id; /* where qos is not 0 */
    uint8_t qos;
    bool dup;
    bool retain;
    const mqtt_properties_t *properties; /* NULL: none */
} mqtt_publish_t;

/* With 3.1.1 the reason becomes a return code, and a session is present only with return code 0. */
LEAF_MUST_USE status_t mqtt_write_connack(const mqtt_writer_t *writer, buffer_t *out, bool session_present,
                                          mqtt_reason_t reason, const mqtt_properties_t *properties);
/* Everything of a PUBLISH before its payload, which the caller puts behind it. */
LEAF_MUST_USE status_t mqtt_write_publish(const mqtt_writer_t *writer, buffer_t *out, const mqtt_publish_t *publish);
/* PUBACK, PUBREC, PUBREL, PUBCOMP. With 3.1.1 the reason cannot be said. */
LEAF_MUST_USE status_t mqtt_write_acknowledgement(const mqtt_writer_t *writer, buffer_t *out, mqtt_kind_t kind,
                                                  uint16_t id, mqtt_reason_t reason,
                                                  const mqtt_properties_t *properties);
/* SUBACK, UNSUBACK: a reason for each filter, in their order. In 3.1.1 a refused subscription is 0x80, and UNSUBACK has
 * no codes. */
LEAF_MUST_USE status_t mqtt_write_filters_answer(const mqtt_writer_t *writer, buffer_t *out, mqtt_kind_t kind,
                                                 uint16_t id, bytes_t reasons, const mqtt_properties_t *properties);
LEAF_MUST_USE status_t mqtt_write_pong(buffer_t *out);
/* 3.1.1 has none of a server: nothing is written. */
LEAF_MUST_USE status_t mqtt_write_disconnect(const mqtt_writer_t *writer, buffer_t *out, mqtt_reason_t reason,
                                             const mqtt_properties_t *properties);

#endif
