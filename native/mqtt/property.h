/* property.h: the 27 properties of MQTT 5 (5: 2.2.2): one table of their types and of the packets that may have them,
 * and a block of them read and written.
 *
 *     block      size (1 to 4 bytes, as a remaining size), then that many bytes of properties
 *     property   identifier (1 byte), value by its type
 *     value      byte 1, two 2, four 4 bytes; number 1 to 4; text and data: size 2, bytes; pair: two texts
 *
 * A property is there at most once, but for user properties, which stay as they are on the wire: they are walked over
 * with mqtt_next_pair(), and passed on without being taken apart.
 */
#ifndef LEAFD_MQTT_PROPERTY_H
#define LEAFD_MQTT_PROPERTY_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "mqtt/reason.h"

/* Members of mqtt_properties_t, in the order of the table. */
typedef enum mqtt_property {
    MQTT_PAYLOAD_FORMAT = 0,
    MQTT_MESSAGE_EXPIRY,
    MQTT_CONTENT_TYPE,
    MQTT_RESPONSE_TOPIC,
    MQTT_CORRELATION_DATA,
    MQTT_SUBSCRIPTION_ID,
    MQTT_SESSION_EXPIRY,
    MQTT_ASSIGNED_CLIENT,
    MQTT_SERVER_KEEP_ALIVE,
    MQTT_AUTH_METHOD,
    MQTT_AUTH_DATA,
    MQTT_REQUEST_PROBLEM,
    MQTT_WILL_DELAY,
    MQTT_REQUEST_RESPONSE,
    MQTT_RESPONSE_INFORMATION,
    MQTT_SERVER_REFERENCE,
    MQTT_REASON_STRING,
    MQTT_RECEIVE_MAXIMUM,
    MQTT_TOPIC_ALIAS_MAXIMUM,
    MQTT_TOPIC_ALIAS,
    MQTT_MAXIMUM_QOS,
    MQTT_RETAIN_AVAILABLE,
    MQTT_USER_PROPERTY,
    MQTT_MAXIMUM_PACKET,
    MQTT_WILDCARDS_AVAILABLE,
    MQTT_IDS_AVAILABLE,
    MQTT_SHARED_AVAILABLE,
    MQTT_PROPERTY_COUNT
} mqtt_property_t;

#define MQTT_NUMBERS 18u /* properties whose value is a number */
#define MQTT_TEXTS 8u    /* text or data */

typedef struct mqtt_properties {
    uint32_t present; /* bit of mqtt_property_t */
    uint32_t numbers[MQTT_NUMBERS];
    bytes_t texts[MQTT_TEXTS];
    bytes_t pairs; /* user properties as on the wire, from the first to the last: others may stand between them */
    const uint32_t *more; /* written only: subscription identifiers beside the one that is a number above */
    uint32_t more_count;
} mqtt_properties_t;

/* The owner of a property block: a packet's kind (mqtt_kind_t), or a will. */
#define MQTT_WILL 16u

typedef struct mqtt_fault {
    mqtt_reason_t reason;
    const char *text; /* for the log, and for a client of MQTT 5 */
} mqtt_fault_t;

static inline bool mqtt_has(const mqtt_properties_t *properties, mqtt_property_t which) {
    return (properties->present & (1u << which)) != 0;
}
/* `none` where it is not there. */
uint32_t mqtt_number(const mqtt_properties_t *properties, mqtt_property_t which, uint32_t none);
bytes_t mqtt_text(const mqtt_properties_t *properties, mqtt_property_t which);
/* For packets that we make. */
void mqtt_set_number(mqtt_properties_t *properties, mqtt_property_t which, uint32_t value);
void mqtt_set_text(mqtt_properties_t *properties, mqtt_property_t which, bytes_t value);

/* Takes one user property off the front of `pairs`, past other properties; false: there is none left. */
bool mqtt_next_pair(bytes_t *pairs, bytes_t *name, bytes_t *value);

/* Takes a block off the front of `input`. false: *fault says why. */
bool mqtt_read_properties(bytes_t *input, uint32_t of, mqtt_properties_t *properties, mqtt_fault_t *fault);

/* Bytes of the properties in a block, without its size. */
uint32_t mqtt_properties_size(const mqtt_properties_t *properties);
/* The block, its size before it. */
LEAF_MUST_USE status_t mqtt_write_properties(buffer_t *out, const mqtt_properties_t *properties);

/* Numbers of 1 to 4 bytes. */
#define MQTT_NUMBER_MAX 268435455u
uint32_t mqtt_number_size(uint32_t number);
uint8_t *mqtt_put_number(uint8_t *to, uint32_t number);
/* 1: read, and taken off the front; 0: more bytes are needed; -1: it does not end after four bytes, or is longer than
 * it has to be (5: 1.5.5). */
int mqtt_take_number(bytes_t *input, uint32_t *number);
/* Text or data: two bytes of size, the bytes. false: there is less. */
bool mqtt_take_data(bytes_t *input, bytes_t *data);

#endif
