/* carry.h: what an MQTT message says beside its topic and payload, as headers of a NATS message, and back.
 *
 *     NATS/1.0
 *     Nmqtt-Pub:1                       its QoS; a message with this field comes from MQTT (as nats-server writes it)
 *     Nmqtt-RFlags:3                    the flags of its PUBLISH, in nats-server's retained messages, which have no QoS
 *     Nmqtt-Format:1                    payload format indicator
 *     Nmqtt-Expiry:60                   message expiry interval, in seconds
 *     Nmqtt-From:7                      the number of the session that published it, if that wants none of its own
 *     Nmqtt-Kept:9                      the mark of a message that another server of the cluster stores for sessions
 *     Nmqtt-Response:answers/1          response topic, where a stream keeps the message for clients of MQTT
 *     Content-Type:text/plain           content type
 *     Nmqtt-Correlation:0fa0            correlation data, in hexadecimal digits
 *     unit:C                            a user property
 *     Nmqtt-Property:0d0a:20            one that can be no header field, or is an order for a stream (Nats-...): name
 *                                       and value in hexadecimal digits
 *
 * Else the response topic is the message's reply, and no field. From NATS the message expiry is Nats-TTL, and any other
 * field becomes a user property, but for those of JetStream (Nats-).
 * Not here: topics as subjects (text/topic.h), what headers make a stream do.
 */
#ifndef LEAFD_SESSIONS_CARRY_H
#define LEAFD_SESSIONS_CARRY_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "mqtt/packet.h"

/* The facts beside the properties. */
typedef struct carry {
    uint8_t qos;
    bool retain;    /* out of headers only: its flags say so */
    bool from_mqtt; /* out of headers: it has one of the first two; where it has not, its QoS is 0 */
    uint32_t from;  /* 0: nothing is said */
    uint32_t mark;  /* likewise */
} carry_t;

#define CARRY_KEPT "Nmqtt-Kept"

/* Behind what is in out. properties NULL: MQTT 3.1.1. */
LEAF_MUST_USE status_t carry_to_headers(buffer_t *out, const carry_t *carried, const mqtt_properties_t *properties);

/* Reads the fields of a block. scratch: emptied; what *properties points to is there and in the block. */
LEAF_MUST_USE status_t carry_from_headers(bytes_t block, buffer_t *scratch, mqtt_properties_t *properties,
                                          carry_t *carried);

#endif
