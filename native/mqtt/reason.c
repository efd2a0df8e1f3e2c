/* reason.c: which reason codes a client may send (5: 3.4.2.1, 3.5.2.1, 3.6.2.1, 3.7.2.1, 3.14.2.1, 3.15.2.1). */
#include "mqtt/reason.h"

#include "mqtt/packet.h"

#define BIT(kind) (1u << (kind))
#define RECEIVED (BIT(MQTT_PUBACK) | BIT(MQTT_PUBREC))
#define RELEASED (BIT(MQTT_PUBREL) | BIT(MQTT_PUBCOMP))
#define ENDS BIT(MQTT_DISCONNECT)

typedef struct row {
    uint8_t reason;
    uint16_t kinds;
} row_t;

static const row_t rows[] = {
    {MQTT_REASON_SUCCESS, RECEIVED | RELEASED | ENDS},
    {MQTT_REASON_WITH_WILL, ENDS},
    {MQTT_REASON_NO_SUBSCRIBERS, RECEIVED},
    {MQTT_REASON_CONTINUE, BIT(MQTT_AUTH)},
    {MQTT_REASON_REAUTHENTICATE, BIT(MQTT_AUTH)},
    {MQTT_REASON_UNSPECIFIED, RECEIVED | ENDS},
    {MQTT_REASON_MALFORMED, ENDS},
    {MQTT_REASON_PROTOCOL, ENDS},
    {MQTT_REASON_IMPLEMENTATION, RECEIVED | ENDS},
    {MQTT_REASON_NOT_AUTHORIZED, RECEIVED},
    {MQTT_REASON_TOPIC, RECEIVED | ENDS},
    {MQTT_REASON_ID_IN_USE, RECEIVED},
    {MQTT_REASON_ID_NOT_FOUND, RELEASED},
    {MQTT_REASON_RECEIVE_MAXIMUM, ENDS},
    {MQTT_REASON_TOPIC_ALIAS, ENDS},
    {MQTT_REASON_TOO_LARGE, ENDS},
    {MQTT_REASON_RATE, ENDS},
    {MQTT_REASON_QUOTA, RECEIVED | ENDS},
    {MQTT_REASON_ADMINISTRATIVE, ENDS},
    {MQTT_REASON_PAYLOAD_FORMAT, RECEIVED | ENDS},
};

bool mqtt_reason_allowed(uint32_t kind, uint8_t reason) {
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].reason == reason) {
            return (rows[i].kinds & BIT(kind)) != 0;
        }
    }
    return false;
}

uint8_t mqtt_return_code(mqtt_reason_t reason) {
    switch (reason) {
    case MQTT_REASON_SUCCESS: return 0;
    case MQTT_REASON_VERSION: return 1;
    case MQTT_REASON_CLIENT_ID: return 2;
    case MQTT_REASON_LOGIN: return 4;
    case MQTT_REASON_NOT_AUTHORIZED:
    case MQTT_REASON_BANNED:
    case MQTT_REASON_TOO_LARGE: /* a will: mosquitto's code for it */
    case MQTT_REASON_METHOD: return 5;
    default: return 3;
    }
}

bytes_t mqtt_reason_text(mqtt_reason_t reason) {
    switch (reason) {
    case MQTT_REASON_NOT_AUTHORIZED: return BYTES_LITERAL("the user has no permission for that");
    case MQTT_REASON_FILTER: return BYTES_LITERAL("this is no topic filter, or none that a subject can carry");
    case MQTT_REASON_TOPIC: return BYTES_LITERAL("this is no topic, or none that a subject can carry");
    case MQTT_REASON_ID_NOT_FOUND: return BYTES_LITERAL("no message with that packet identifier is under way");
    case MQTT_REASON_QUOTA: return BYTES_LITERAL("a limit of the server, the account or a stream is reached");
    default: return BYTES_NONE;
    }
}
