/* packet.h: one MQTT control packet as plain data, of MQTT 3.1.1 and 5; numbers and names are the standards'
 * ("MQTT Version 3.1.1" and "MQTT Version 5.0", OASIS; sections are cited as 5: 3.1.2).
 *
 *      7       4 3       0
 *     +---------+---------+-----------------+--------------------------+
 *     |  kind   |  flags  | remaining size  | variable header, payload |
 *     +---------+---------+-----------------+--------------------------+
 *          1 byte           1 to 4 bytes,      "remaining size" bytes
 *                           7 bits each, the
 *                           lowest first, bit 7: more follow
 *
 * Slices point into the input that the packet was read from, and are valid as long as that is. Not here:
 * reading (read.h), writing (write.h), properties (property.h), topics as subjects (text/topic.h), sessions.
 */
#ifndef LEAFD_MQTT_PACKET_H
#define LEAFD_MQTT_PACKET_H

#include <stdbool.h>

#include "base/bytes.h"
#include "mqtt/property.h"
#include "mqtt/reason.h"

typedef enum mqtt_kind {
    MQTT_NONE = 0,
    MQTT_CONNECT = 1,
    MQTT_CONNACK = 2,
    MQTT_PUBLISH = 3,
    MQTT_PUBACK = 4,
    MQTT_PUBREC = 5,
    MQTT_PUBREL = 6,
    MQTT_PUBCOMP = 7,
    MQTT_SUBSCRIBE = 8,
    MQTT_SUBACK = 9,
    MQTT_UNSUBSCRIBE = 10,
    MQTT_UNSUBACK = 11,
    MQTT_PINGREQ = 12,
    MQTT_PINGRESP = 13,
    MQTT_DISCONNECT = 14,
    MQTT_AUTH = 15,
} mqtt_kind_t;

/* The protocol level of CONNECT. 3 (MQTT 3.1) is refused, as nats-server does. */
typedef enum mqtt_level { MQTT_UNKNOWN = 0, MQTT_3_1_1 = 4, MQTT_5 = 5 } mqtt_level_t;

#define MQTT_PACKET_MAX 268435460u /* the largest remaining size, with five bytes of fixed header */
#define MQTT_FIXED_MAX 5u
#define MQTT_HEAD_DUP 8u /* bits of the first byte of PUBLISH */
#define MQTT_HEAD_QOS_2 4u

/* A message as PUBLISH and a will carry it. */
typedef struct mqtt_message {
    bytes_t topic;
    bytes_t payload;
    uint8_t qos;
    bool retain;
    mqtt_properties_t properties; /* 5 only */
} mqtt_message_t;

#define MQTT_CONNECT_PASSWORD 0x40u /* flags of CONNECT: it has one */
#define MQTT_CONNECT_USER 0x80u

typedef struct mqtt_login {
    mqtt_level_t level;
    bool clean; /* 3.1.1: clean session; 5: clean start */
    bool has_user;
    bool has_password;
    bool has_will;
    uint16_t keep_alive; /* seconds, 0 = none */
    bytes_t client;
    bytes_t user;
    bytes_t password;
    mqtt_message_t will;
} mqtt_login_t;

typedef struct mqtt_packet {
    mqtt_kind_t kind;
    bool dup;                     /* PUBLISH */
    uint8_t reason;               /* PUBACK to PUBCOMP, DISCONNECT, AUTH: MQTT_REASON_*; 0 with 3.1.1 */
    uint16_t id;                  /* of the packet; 0: it has none */
    bytes_t filters;              /* SUBSCRIBE, UNSUBSCRIBE: for mqtt_next_filter() */
    mqtt_properties_t properties; /* 5 only, but those of PUBLISH and of a will */
    mqtt_message_t message;       /* PUBLISH */
    mqtt_login_t login;           /* CONNECT */
} mqtt_packet_t;

/* One row of SUBSCRIBE or UNSUBSCRIBE. What the filter may be is not judged here: each row has an answer of its own. */
typedef struct mqtt_filter {
    bytes_t text;
    uint8_t qos;
    bool no_local;
    bool retain_as_published;
    uint8_t retain_handling; /* 0: retained messages are sent; 1: when the subscription is new; 2: never */
} mqtt_filter_t;

#endif
