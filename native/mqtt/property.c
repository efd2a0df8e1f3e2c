/* property.c: the table of properties, and the walk over a block of them that all others here are made of. */
#include "mqtt/property.h"

#include "base/check.h"
#include "mqtt/packet.h"
#include "text/topic.h"

typedef enum type { BYTE, TWO, FOUR, NUMBER, TEXT, DATA, PAIR } type_t;

/* The bounds of a number, and the fault when it is outside. */
typedef enum bounds { ANY, FLAG, NOT_ZERO, ALIAS } bounds_t;

#define BIT(kind) (1u << (kind))
#define MESSAGE (BIT(MQTT_PUBLISH) | BIT(MQTT_WILL))
#define OPENING (BIT(MQTT_CONNECT) | BIT(MQTT_CONNACK))
#define ANSWERS                                                                                                        \
    (BIT(MQTT_CONNACK) | BIT(MQTT_PUBACK) | BIT(MQTT_PUBREC) | BIT(MQTT_PUBREL) | BIT(MQTT_PUBCOMP) | BIT(MQTT_SUBACK) \
     | BIT(MQTT_UNSUBACK) | BIT(MQTT_DISCONNECT) | BIT(MQTT_AUTH))

typedef struct row {
    uint8_t id; /* on the wire */
    uint8_t type;
    uint8_t bounds;
    uint8_t slot; /* in numbers or in texts, by its type */
    uint32_t where;
} row_t;

/* clang-format off */
static const row_t rows[MQTT_PROPERTY_COUNT] = {
    [MQTT_PAYLOAD_FORMAT]       = {0x01, BYTE,   FLAG,     0,  MESSAGE},
    [MQTT_MESSAGE_EXPIRY]       = {0x02, FOUR,   ANY,      1,  MESSAGE},
    [MQTT_CONTENT_TYPE]         = {0x03, TEXT,   ANY,      0,  MESSAGE},
    [MQTT_RESPONSE_TOPIC]       = {0x08, TEXT,   ANY,      1,  MESSAGE},
    [MQTT_CORRELATION_DATA]     = {0x09, DATA,   ANY,      2,  MESSAGE},
    [MQTT_SUBSCRIPTION_ID]      = {0x0b, NUMBER, NOT_ZERO, 2,  BIT(MQTT_PUBLISH) | BIT(MQTT_SUBSCRIBE)},
    [MQTT_SESSION_EXPIRY]       = {0x11, FOUR,   ANY,      3,  OPENING | BIT(MQTT_DISCONNECT)},
    [MQTT_ASSIGNED_CLIENT]      = {0x12, TEXT,   ANY,      3,  BIT(MQTT_CONNACK)},
    [MQTT_SERVER_KEEP_ALIVE]    = {0x13, TWO,    ANY,      4,  BIT(MQTT_CONNACK)},
    [MQTT_AUTH_METHOD]          = {0x15, TEXT,   ANY,      4,  OPENING | BIT(MQTT_AUTH)},
    [MQTT_AUTH_DATA]            = {0x16, DATA,   ANY,      5,  OPENING | BIT(MQTT_AUTH)},
    [MQTT_REQUEST_PROBLEM]      = {0x17, BYTE,   FLAG,     5,  BIT(MQTT_CONNECT)},
    [MQTT_WILL_DELAY]           = {0x18, FOUR,   ANY,      6,  BIT(MQTT_WILL)},
    [MQTT_REQUEST_RESPONSE]     = {0x19, BYTE,   FLAG,     7,  BIT(MQTT_CONNECT)},
    [MQTT_RESPONSE_INFORMATION] = {0x1a, TEXT,   ANY,      6,  BIT(MQTT_CONNACK)},
    [MQTT_SERVER_REFERENCE]     = {0x1c, TEXT,   ANY,      6,  BIT(MQTT_CONNACK) | BIT(MQTT_DISCONNECT)},
    [MQTT_REASON_STRING]        = {0x1f, TEXT,   ANY,      7,  ANSWERS},
    [MQTT_RECEIVE_MAXIMUM]      = {0x21, TWO,    NOT_ZERO, 8,  OPENING},
    [MQTT_TOPIC_ALIAS_MAXIMUM]  = {0x22, TWO,    ANY,      9,  OPENING},
    [MQTT_TOPIC_ALIAS]          = {0x23, TWO,    ALIAS,    10, BIT(MQTT_PUBLISH)},
    [MQTT_MAXIMUM_QOS]          = {0x24, BYTE,   FLAG,     11, BIT(MQTT_CONNACK)},
    [MQTT_RETAIN_AVAILABLE]     = {0x25, BYTE,   FLAG,     12, BIT(MQTT_CONNACK)},
    [MQTT_USER_PROPERTY]        = {0x26, PAIR,   ANY,      0,
                                   MESSAGE | ANSWERS | BIT(MQTT_CONNECT) | BIT(MQTT_SUBSCRIBE) | BIT(MQTT_UNSUBSCRIBE)},
    [MQTT_MAXIMUM_PACKET]       = {0x27, FOUR,   NOT_ZERO, 13, OPENING},
    [MQTT_WILDCARDS_AVAILABLE]  = {0x28, BYTE,   FLAG,     14, BIT(MQTT_CONNACK)},
    [MQTT_IDS_AVAILABLE]        = {0x29, BYTE,   FLAG,     15, BIT(MQTT_CONNACK)},
    [MQTT_SHARED_AVAILABLE]     = {0x2a, BYTE,   FLAG,     16, BIT(MQTT_CONNACK)},
};
/* clang-format on */

/* One property as it stands in a block. */
typedef struct block_property {
    mqtt_property_t which;
    uint32_t number;
    bytes_t data; /* text, data; a pair's name */
    bytes_t value;
} block_property_t;

static bool is_number(mqtt_property_t which) {
    return rows[which].type <= NUMBER;
}

uint32_t mqtt_number_size(uint32_t number) {
    return number < 128 ? 1 : number < 16384 ? 2 : number < 2097152 ? 3 : 4;
}

uint8_t *mqtt_put_number(uint8_t *to, uint32_t number) {
    for (; number > 127; number >>= 7) {
        *to++ = (uint8_t)(number | 0x80u);
    }
    *to = (uint8_t)number;
    return to + 1;
}

int mqtt_take_number(bytes_t *input, uint32_t *number) {
    uint32_t value = 0;
    for (uint32_t i = 0; i < 4; i++) {
        if (i == input->size) {
            return 0;
        }
        uint8_t byte = input->at[i];
        value |= (uint32_t)(byte & 0x7fu) << (7 * i);
        if (byte < 0x80) {
            if (byte == 0 && i != 0) {
                return -1;
            }
            *number = value;
            *input = bytes_after(*input, i + 1);
            return 1;
        }
    }
    return -1;
}

bool mqtt_take_data(bytes_t *input, bytes_t *data) {
    if (input->size < 2 || input->size - 2 < load_be16(input->at)) {
        return false;
    }
    *data = bytes_of(input->at + 2, load_be16(input->at));
    *input = bytes_after(*input, 2 + data->size);
    return true;
}

static bool take_fixed(bytes_t *block, uint32_t size, uint32_t *number) {
    if (block->size < size) {
        return false;
    }
    *number = size == 1 ? block->at[0] : size == 2 ? load_be16(block->at) : load_be32(block->at);
    *block = bytes_after(*block, size);
    return true;
}

static bool take_value(bytes_t *block, block_property_t *found) {
    switch ((type_t)rows[found->which].type) {
    case BYTE: return take_fixed(block, 1, &found->number);
    case TWO: return take_fixed(block, 2, &found->number);
    case FOUR: return take_fixed(block, 4, &found->number);
    case NUMBER: return mqtt_take_number(block, &found->number) == 1;
    case TEXT: return mqtt_take_data(block, &found->data) && topic_text(found->data);
    case DATA: return mqtt_take_data(block, &found->data);
    case PAIR:
        return mqtt_take_data(block, &found->data) && mqtt_take_data(block, &found->value) && topic_text(found->data)
               && topic_text(found->value);
    }
    return false;
}

/* Takes one property off the front of `block`. false: there is none that is known and whole. */
static bool take_property(bytes_t *block, block_property_t *found) {
    for (uint32_t which = 0; which < MQTT_PROPERTY_COUNT && block->size != 0; which++) {
        if (rows[which].id == block->at[0]) {
            found->which = (mqtt_property_t)which;
            *block = bytes_after(*block, 1);
            return take_value(block, found);
        }
    }
    return false;
}

static bool faulty(mqtt_fault_t *fault, mqtt_reason_t reason, const char *text) {
    *fault = (mqtt_fault_t){.reason = reason, .text = text};
    return false;
}

static bool within_bounds(const block_property_t *found, mqtt_fault_t *fault) {
    switch ((bounds_t)rows[found->which].bounds) {
    case FLAG: return found->number < 2 || faulty(fault, MQTT_REASON_PROTOCOL, "a property that is neither 0 nor 1");
    case NOT_ZERO: return found->number != 0 || faulty(fault, MQTT_REASON_PROTOCOL, "a property that must not be 0");
    case ALIAS: return found->number != 0 || faulty(fault, MQTT_REASON_TOPIC_ALIAS, "topic alias 0");
    case ANY: break;
    }
    return true;
}

/* Keeps what was found; `from` is where it stood. */
static bool keep_property(mqtt_properties_t *properties, const block_property_t *found, const uint8_t *from,
                          const uint8_t *end, mqtt_fault_t *fault) {
    uint32_t bit = 1u << found->which;
    if (found->which == MQTT_USER_PROPERTY) {
        const uint8_t *first = properties->pairs.at != NULL ? properties->pairs.at : from;
        properties->pairs = bytes_of(first, (uint32_t)(end - first));
    } else if ((properties->present & bit) != 0) {
        return faulty(fault, MQTT_REASON_PROTOCOL, "a property that is there twice");
    } else if (is_number(found->which)) {
        properties->numbers[rows[found->which].slot] = found->number;
    } else {
        properties->texts[rows[found->which].slot] = found->data;
    }
    properties->present |= bit;
    return true;
}

bool mqtt_read_properties(bytes_t *input, uint32_t of, mqtt_properties_t *properties, mqtt_fault_t *fault) {
    uint32_t size;
    properties->present = 0;
    properties->pairs = BYTES_NONE;
    properties->more_count = 0;
    if (mqtt_take_number(input, &size) != 1 || size > input->size) {
        return faulty(fault, MQTT_REASON_MALFORMED, "properties that are longer than their packet");
    }
    bytes_t block = bytes_of(input->at, size);
    *input = bytes_after(*input, size);
    while (block.size != 0) {
        const uint8_t *from = block.at;
        block_property_t found;
        if (!take_property(&block, &found)) {
            return faulty(fault, MQTT_REASON_MALFORMED, "a property that is unknown, cut short or not UTF-8");
        }
        if ((rows[found.which].where & BIT(of)) == 0) {
            return faulty(fault, MQTT_REASON_MALFORMED, "a property that this packet cannot have");
        }
        if (!within_bounds(&found, fault) || !keep_property(properties, &found, from, block.at, fault)) {
            return false;
        }
    }
    if (mqtt_has(properties, MQTT_AUTH_DATA) && !mqtt_has(properties, MQTT_AUTH_METHOD)) {
        return faulty(fault, MQTT_REASON_PROTOCOL, "authentication data without a method");
    }
    return true;
}

uint32_t mqtt_number(const mqtt_properties_t *properties, mqtt_property_t which, uint32_t none) {
    check(is_number(which));
    return mqtt_has(properties, which) ? properties->numbers[rows[which].slot] : none;
}

bytes_t mqtt_text(const mqtt_properties_t *properties, mqtt_property_t which) {
    check(rows[which].type == TEXT || rows[which].type == DATA);
    return mqtt_has(properties, which) ? properties->texts[rows[which].slot] : BYTES_NONE;
}

void mqtt_set_number(mqtt_properties_t *properties, mqtt_property_t which, uint32_t value) {
    check(is_number(which));
    properties->present |= 1u << which;
    properties->numbers[rows[which].slot] = value;
}

void mqtt_set_text(mqtt_properties_t *properties, mqtt_property_t which, bytes_t value) {
    check(rows[which].type == TEXT || rows[which].type == DATA);
    check(value.size <= UINT16_MAX);
    properties->present |= 1u << which;
    properties->texts[rows[which].slot] = value;
}

bool mqtt_next_pair(bytes_t *pairs, bytes_t *name, bytes_t *value) {
    block_property_t found;
    while (take_property(pairs, &found)) {
        if (found.which == MQTT_USER_PROPERTY) {
            *name = found.data;
            *value = found.value;
            return true;
        }
    }
    return false;
}

/* Bytes of one property whose value is no pair, its identifier too. */
static uint32_t value_size(const mqtt_properties_t *properties, mqtt_property_t which) {
    const row_t *row = &rows[which];
    switch ((type_t)row->type) {
    case BYTE: return 2;
    case TWO: return 3;
    case FOUR: return 5;
    case NUMBER: return 1 + mqtt_number_size(properties->numbers[row->slot]);
    case TEXT:
    case DATA: return 3 + properties->texts[row->slot].size;
    case PAIR: break;
    }
    return 0;
}

uint32_t mqtt_properties_size(const mqtt_properties_t *properties) {
    uint32_t size = 0;
    for (uint32_t left = properties->present; left != 0; left &= left - 1) {
        size += value_size(properties, (mqtt_property_t)__builtin_ctz(left));
    }
    for (uint32_t i = 0; i < properties->more_count; i++) {
        size += 1 + mqtt_number_size(properties->more[i]);
    }
    bytes_t pairs = properties->pairs, name, value;
    while (mqtt_has(properties, MQTT_USER_PROPERTY) && mqtt_next_pair(&pairs, &name, &value)) {
        size += 5 + name.size + value.size;
    }
    return size;
}

static uint8_t *put_data(uint8_t *to, bytes_t data) {
    store_be16(to, (uint16_t)data.size);
    return bytes_write(to + 2, data);
}

static uint8_t *put_property(uint8_t *to, const mqtt_properties_t *properties, mqtt_property_t which) {
    const row_t *row = &rows[which];
    if (row->type == PAIR) {
        return to;
    }
    *to++ = row->id;
    if (!is_number(which)) {
        return put_data(to, properties->texts[row->slot]);
    }
    uint32_t number = properties->numbers[row->slot];
    switch ((type_t)row->type) {
    case BYTE: *to = (uint8_t)number; return to + 1;
    case TWO: store_be16(to, (uint16_t)number); return to + 2;
    case FOUR: store_be32(to, number); return to + 4;
    default: return mqtt_put_number(to, number);
    }
}

status_t mqtt_write_properties(buffer_t *out, const mqtt_properties_t *properties) {
    uint32_t size = mqtt_properties_size(properties);
    uint8_t *start;
    status_t status = buffer_reserve(out, 4 + (uint64_t)size, &start);
    if (status != STATUS_OK) {
        return status;
    }
    uint8_t *to = mqtt_put_number(start, size);
    for (uint32_t left = properties->present; left != 0; left &= left - 1) {
        to = put_property(to, properties, (mqtt_property_t)__builtin_ctz(left));
    }
    for (uint32_t i = 0; i < properties->more_count; i++) {
        *to++ = rows[MQTT_SUBSCRIPTION_ID].id;
        to = mqtt_put_number(to, properties->more[i]);
    }
    bytes_t pairs = properties->pairs, name, value;
    while (mqtt_has(properties, MQTT_USER_PROPERTY) && mqtt_next_pair(&pairs, &name, &value)) {
        *to++ = rows[MQTT_USER_PROPERTY].id;
        to = put_data(put_data(to, name), value);
    }
    out->size += (uint64_t)(to - start);
    return STATUS_OK;
}
