/* reason.h: the reason codes of MQTT 5 (5: 2.4), and what a client of 3.1.1 is told in CONNACK in their place. */
#ifndef LEAFD_MQTT_REASON_H
#define LEAFD_MQTT_REASON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

typedef enum mqtt_reason {
    MQTT_REASON_SUCCESS = 0x00, /* also: normal disconnection, granted QoS 0 */
    MQTT_REASON_GRANTED_1 = 0x01,
    MQTT_REASON_GRANTED_2 = 0x02,
    MQTT_REASON_WITH_WILL = 0x04,
    MQTT_REASON_NO_SUBSCRIBERS = 0x10,
    MQTT_REASON_NO_SUBSCRIPTION = 0x11,
    MQTT_REASON_CONTINUE = 0x18,
    MQTT_REASON_REAUTHENTICATE = 0x19,
    MQTT_REASON_UNSPECIFIED = 0x80,
    MQTT_REASON_MALFORMED = 0x81,
    MQTT_REASON_PROTOCOL = 0x82,
    MQTT_REASON_IMPLEMENTATION = 0x83,
    MQTT_REASON_VERSION = 0x84,
    MQTT_REASON_CLIENT_ID = 0x85,
    MQTT_REASON_LOGIN = 0x86,
    MQTT_REASON_NOT_AUTHORIZED = 0x87,
    MQTT_REASON_UNAVAILABLE = 0x88,
    MQTT_REASON_BUSY = 0x89,
    MQTT_REASON_BANNED = 0x8a,
    MQTT_REASON_SHUTTING_DOWN = 0x8b,
    MQTT_REASON_METHOD = 0x8c,
    MQTT_REASON_KEEP_ALIVE = 0x8d,
    MQTT_REASON_TAKEN_OVER = 0x8e,
    MQTT_REASON_FILTER = 0x8f,
    MQTT_REASON_TOPIC = 0x90,
    MQTT_REASON_ID_IN_USE = 0x91,
    MQTT_REASON_ID_NOT_FOUND = 0x92,
    MQTT_REASON_RECEIVE_MAXIMUM = 0x93,
    MQTT_REASON_TOPIC_ALIAS = 0x94,
    MQTT_REASON_TOO_LARGE = 0x95,
    MQTT_REASON_RATE = 0x96,
    MQTT_REASON_QUOTA = 0x97,
    MQTT_REASON_ADMINISTRATIVE = 0x98,
    MQTT_REASON_PAYLOAD_FORMAT = 0x99,
    MQTT_REASON_RETAIN = 0x9a,
    MQTT_REASON_QOS = 0x9b,
    MQTT_REASON_ANOTHER_SERVER = 0x9c,
    MQTT_REASON_SERVER_MOVED = 0x9d,
    MQTT_REASON_SHARED = 0x9e,
    MQTT_REASON_CONNECTION_RATE = 0x9f,
    MQTT_REASON_CONNECT_TIME = 0xa0,
    MQTT_REASON_SUBSCRIPTION_IDS = 0xa1,
    MQTT_REASON_WILDCARDS = 0xa2,
} mqtt_reason_t;

/* May a packet of that kind (mqtt_kind_t) carry the code, in the direction from a client to a server? */
bool mqtt_reason_allowed(uint32_t kind, uint8_t reason);
/* Words for a refusal of an answer to a client; empty: there are none. */
bytes_t mqtt_reason_text(mqtt_reason_t reason);
/* The return code of CONNACK in 3.1.1 (3.1.1: 3.2.2.3), 0 to 5. */
uint8_t mqtt_return_code(mqtt_reason_t reason);

#endif
