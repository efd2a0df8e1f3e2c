/* carry.c: see carry.h. */
#include "sessions/carry.h"

#include "base/clock.h"
#include "base/hex.h"
#include "text/decimal.h"
#include "text/headers.h"
#include "text/topic.h"
#include "text/ttl.h"

#define PAIR_ID 0x26u /* of a user property, on the wire */
#define TEXT_MAX 65535u
#define OWN BYTES_LITERAL("Nmqtt-")
#define STREAMS BYTES_LITERAL("Nats-") /* JetStream's own words */

/* ---- from MQTT's properties to headers --------------------------------------------------------------------------- */

static bool plain_byte(uint8_t byte) {
    return byte >= 0x20 && byte != 0x7f;
}

/* Would a reader of the block read the same name, and no order for a stream? What a device says beside its message must
 * not make a stream drop it, or others (Nats-Msg-Id, Nats-Rollup, Nats-Expected-...). */
static bool plain_name(bytes_t name) {
    for (uint32_t i = 0; i < name.size; i++) {
        if (!plain_byte(name.at[i]) || name.at[i] == ' ' || name.at[i] == ':') {
            return false;
        }
    }
    return name.size != 0 && !bytes_starts(name, OWN) && !bytes_starts(name, STREAMS)
           && !bytes_equal(name, BYTES_LITERAL("Content-Type"));
}

static bool plain_value(bytes_t value) {
    for (uint32_t i = 0; i < value.size; i++) {
        if (!plain_byte(value.at[i])) {
            return false;
        }
    }
    return value.size == 0 || (value.at[0] != ' ' && value.at[value.size - 1] != ' ');
}

static status_t put_text(buffer_t *out, bytes_t bytes) {
    return buffer_append(out, bytes.at, bytes.size);
}

static status_t put_hex(buffer_t *out, bytes_t bytes) {
    static const char digits[] = "0123456789abcdef";
    uint8_t *to;
    status_t status = buffer_reserve(out, 2 * (uint64_t)bytes.size, &to);
    if (status != STATUS_OK) {
        return status;
    }
    for (uint32_t i = 0; i < bytes.size; i++) {
        *to++ = (uint8_t)digits[bytes.at[i] >> 4];
        *to++ = (uint8_t)digits[bytes.at[i] & 15u];
    }
    out->size += 2 * (uint64_t)bytes.size;
    return STATUS_OK;
}

static status_t put_field(buffer_t *out, const char *name, bytes_t value) {
    status_t status = buffer_append(out, name, strlen(name));
    status = status == STATUS_OK ? put_text(out, value) : status;
    return status == STATUS_OK ? buffer_append(out, "\r\n", 2) : status;
}

static status_t put_number_field(buffer_t *out, const char *name, uint32_t number) {
    uint8_t digits[DECIMAL_MAX];
    return put_field(out, name, decimal_text(digits, number));
}

static status_t put_coded_pair(buffer_t *out, bytes_t name, bytes_t value) {
    status_t status = buffer_append(out, "Nmqtt-Property:", 15);
    status = status == STATUS_OK ? put_hex(out, name) : status;
    status = status == STATUS_OK ? buffer_append(out, ":", 1) : status;
    status = status == STATUS_OK ? put_hex(out, value) : status;
    return status == STATUS_OK ? buffer_append(out, "\r\n", 2) : status;
}

static status_t put_pair(buffer_t *out, bytes_t name, bytes_t value) {
    if (!plain_name(name) || !plain_value(value)) {
        return put_coded_pair(out, name, value);
    }
    status_t status = put_text(out, name);
    status = status == STATUS_OK ? buffer_append(out, ":", 1) : status;
    status = status == STATUS_OK ? put_text(out, value) : status;
    return status == STATUS_OK ? buffer_append(out, "\r\n", 2) : status;
}

static status_t put_properties(buffer_t *out, const mqtt_properties_t *properties) {
    status_t status = STATUS_OK;
    if (mqtt_number(properties, MQTT_PAYLOAD_FORMAT, 0) != 0) {
        status = put_number_field(out, "Nmqtt-Format:", 1);
    }
    if (status == STATUS_OK && mqtt_has(properties, MQTT_MESSAGE_EXPIRY)) {
        status = put_number_field(out, "Nmqtt-Expiry:", mqtt_number(properties, MQTT_MESSAGE_EXPIRY, 0));
    }
    bytes_t type = mqtt_text(properties, MQTT_CONTENT_TYPE);
    if (status == STATUS_OK && type.size != 0 && plain_value(type)) {
        status = put_field(out, "Content-Type:", type);
    }
    if (status == STATUS_OK && mqtt_has(properties, MQTT_CORRELATION_DATA)) {
        status = buffer_append(out, "Nmqtt-Correlation:", 18);
        status = status == STATUS_OK ? put_hex(out, mqtt_text(properties, MQTT_CORRELATION_DATA)) : status;
        status = status == STATUS_OK ? buffer_append(out, "\r\n", 2) : status;
    }
    bytes_t pairs = properties->pairs, name, value;
    while (status == STATUS_OK && mqtt_next_pair(&pairs, &name, &value)) {
        status = put_pair(out, name, value);
    }
    return status;
}

status_t carry_to_headers(buffer_t *out, const carry_t *carried, const mqtt_properties_t *properties) {
    static const char begin[] = "NATS/1.0\r\n";
    status_t status = buffer_append(out, begin, sizeof begin - 1);
    status = status == STATUS_OK ? put_number_field(out, "Nmqtt-Pub:", carried->qos) : status;
    if (status == STATUS_OK && carried->from != 0) {
        status = put_number_field(out, "Nmqtt-From:", carried->from);
    }
    if (status == STATUS_OK && carried->mark != 0) {
        status = put_number_field(out, CARRY_KEPT ":", carried->mark);
    }
    if (status == STATUS_OK && properties != NULL) {
        status = put_properties(out, properties);
    }
    return status == STATUS_OK ? buffer_append(out, "\r\n", 2) : status;
}

/* ---- from headers to MQTT's properties --------------------------------------------------------------------------- */

/* The findings in a block so far; the bytes are in scratch, which may move. */
typedef struct carrying {
    buffer_t *scratch;
    mqtt_properties_t *properties;
    carry_t *carried;
    uint32_t correlation_size;
    bytes_t ttl; /* of NATS */
} carrying_t;

/* Takes hexadecimal digits off the front, as bytes behind what is in `out`. 1: done; 0: an odd number of them, or too
 * many; -1: no memory. */
static int take_hex(bytes_t *text, buffer_t *out) {
    uint32_t digits = 0;
    while (digits < text->size && hex_digit(text->at[digits]) >= 0) {
        digits++;
    }
    uint8_t *to;
    if (digits % 2 != 0 || digits / 2 > TEXT_MAX) {
        return 0;
    }
    if (buffer_reserve(out, digits / 2, &to) != STATUS_OK) {
        return -1;
    }
    for (uint32_t i = 0; i < digits; i += 2) {
        *to++ = (uint8_t)(hex_digit(text->at[i]) * 16 + hex_digit(text->at[i + 1]));
    }
    out->size += digits / 2;
    *text = bytes_after(*text, digits);
    return 1;
}

static status_t add_pair(buffer_t *out, bytes_t name, bytes_t value) {
    uint8_t *to;
    if (name.size > TEXT_MAX || value.size > TEXT_MAX || !topic_text(name) || !topic_text(value)) {
        return STATUS_OK; /* no text of MQTT can say it */
    }
    uint64_t size = 5 + (uint64_t)name.size + value.size;
    status_t status = buffer_reserve(out, size, &to);
    if (status != STATUS_OK) {
        return status;
    }
    *to = PAIR_ID;
    store_be16(to + 1, (uint16_t)name.size);
    to = bytes_write(to + 3, name);
    store_be16(to, (uint16_t)value.size);
    (void)bytes_write(to + 2, value);
    out->size += size;
    return STATUS_OK;
}

/* Name and value lie behind each other at the end of the buffer, where the pair is to be, which is 5 bytes longer. */
static status_t add_coded_pair(buffer_t *out, bytes_t text) {
    uint8_t *to;
    uint64_t from = out->size;
    if (buffer_reserve(out, 3, &to) != STATUS_OK) {
        return STATUS_NO_MEMORY;
    }
    *to = PAIR_ID;
    out->size += 3;
    int done = take_hex(&text, out);
    uint64_t name_size = out->size - from - 3, value_at = out->size;
    if (done == 1 && bytes_take(&text, ':')) {
        done = buffer_reserve(out, 2, &to) == STATUS_OK ? 1 : -1;
        out->size += done == 1 ? 2 : 0;
        done = done == 1 ? take_hex(&text, out) : done;
    } else {
        done = done == 1 ? 0 : done;
    }
    if (done == 1 && text.size == 0) {
        uint64_t value_size = out->size - value_at - 2;
        store_be16(out->at + from + 1, (uint16_t)name_size);
        store_be16(out->at + value_at, (uint16_t)value_size);
        bool texts = topic_text(bytes_of(out->at + from + 3, (uint32_t)name_size))
                     && topic_text(bytes_of(out->at + value_at + 2, (uint32_t)value_size));
        out->size = texts ? out->size : from;
        return STATUS_OK;
    }
    out->size = from;
    return done < 0 ? STATUS_NO_MEMORY : STATUS_OK;
}

static uint32_t carried_number(bytes_t value) {
    uint64_t number;
    return decimal_parse(value, &number) && number <= UINT32_MAX ? (uint32_t)number : 0;
}

static void take_number(const carrying_t *carrying, mqtt_property_t which, bytes_t value, uint32_t most) {
    uint64_t number;
    if (decimal_parse(value, &number) && number <= most) {
        mqtt_set_number(carrying->properties, which, (uint32_t)number);
    }
}

static void take_qos(const carrying_t *carrying, uint32_t qos) {
    carrying->carried->qos = qos <= 2 ? (uint8_t)qos : 0;
    carrying->carried->from_mqtt = true;
}

/* One of our own fields. */
static status_t take_own(const carrying_t *carrying, bytes_t name, bytes_t value) {
    if (bytes_equal(name, BYTES_LITERAL("Pub"))) {
        take_qos(carrying, value.size != 0 ? (uint32_t)(value.at[0] - '0') : 0); /* nats-server may add flags */
    } else if (bytes_equal(name, BYTES_LITERAL("RFlags"))) { /* one that nats-server retains: those of its PUBLISH */
        int flags = value.size == 1 ? hex_digit(value.at[0]) : -1;
        carrying->carried->retain = flags >= 0 && (flags & 1) != 0;
        if (flags >= 0 && !carrying->carried->from_mqtt) {
            take_qos(carrying, (uint32_t)flags >> 1 & 3u);
        }
    } else if (bytes_equal(name, BYTES_LITERAL("From"))) {
        carrying->carried->from = carried_number(value);
    } else if (bytes_equal(name, BYTES_LITERAL("Kept"))) {
        carrying->carried->mark = carried_number(value);
    } else if (bytes_equal(name, BYTES_LITERAL("Response"))) {
        if (value.size != 0 && value.size <= TEXT_MAX && topic_text(value)) {
            mqtt_set_text(carrying->properties, MQTT_RESPONSE_TOPIC, value);
        }
    } else if (bytes_equal(name, BYTES_LITERAL("Format"))) {
        take_number(carrying, MQTT_PAYLOAD_FORMAT, value, 1);
    } else if (bytes_equal(name, BYTES_LITERAL("Expiry"))) {
        take_number(carrying, MQTT_MESSAGE_EXPIRY, value, UINT32_MAX);
    }
    return STATUS_OK;
}

static status_t take_field(carrying_t *carrying, bytes_t name, bytes_t value) {
    if (bytes_starts(name, OWN)) {
        return take_own(carrying, bytes_after(name, OWN.size), value);
    }
    if (bytes_equal(name, BYTES_LITERAL("Content-Type")) && value.size <= TEXT_MAX && topic_text(value)) {
        mqtt_set_text(carrying->properties, MQTT_CONTENT_TYPE, value);
        return STATUS_OK;
    }
    if (bytes_starts(name, STREAMS)) {
        carrying->ttl = bytes_equal(name, BYTES_LITERAL("Nats-TTL")) ? value : carrying->ttl;
        return STATUS_OK;
    }
    return add_pair(carrying->scratch, name, value);
}

/* Of a message of MQTT that is how long a stream keeps it. */
static void take_ttl(const carrying_t *carrying) {
    int64_t ns = 0;
    if (!carrying->carried->from_mqtt && carrying->ttl.size != 0 && ttl_parse(carrying->ttl, &ns)
        && ns / NS_PER_SECOND > 0 && ns / NS_PER_SECOND <= UINT32_MAX) {
        mqtt_set_number(carrying->properties, MQTT_MESSAGE_EXPIRY, (uint32_t)(ns / NS_PER_SECOND));
    }
}

static status_t take_correlation(carrying_t *carrying, bytes_t block) {
    bytes_t value;
    if (!headers_find(block, BYTES_LITERAL("Nmqtt-Correlation"), &value)) {
        return STATUS_OK;
    }
    int done = take_hex(&value, carrying->scratch);
    carrying->correlation_size = (uint32_t)carrying->scratch->size;
    if (done == 1 && value.size == 0) {
        mqtt_set_text(carrying->properties, MQTT_CORRELATION_DATA, BYTES_NONE);
    }
    return done < 0 ? STATUS_NO_MEMORY : STATUS_OK;
}

status_t carry_from_headers(bytes_t block, buffer_t *scratch, mqtt_properties_t *properties, carry_t *carried) {
    carrying_t carrying = {.scratch = scratch, .properties = properties, .carried = carried};
    *properties = (mqtt_properties_t){.present = 0};
    *carried = (carry_t){.qos = 0};
    scratch->size = 0;
    status_t status = take_correlation(&carrying, block);
    uint64_t pairs_at = scratch->size;
    uint32_t cursor = 0;
    bytes_t name, value;
    while (status == STATUS_OK && headers_next(block, &cursor, &name, &value)) {
        if (!bytes_equal(name, BYTES_LITERAL("Nmqtt-Property"))) {
            status = take_field(&carrying, name, value);
        } else {
            status = add_coded_pair(scratch, value);
        }
    }
    take_ttl(&carrying);
    if (status == STATUS_OK && mqtt_has(properties, MQTT_CORRELATION_DATA)) {
        mqtt_set_text(properties, MQTT_CORRELATION_DATA, bytes_of(scratch->at, carrying.correlation_size));
    }
    if (status == STATUS_OK && scratch->size != pairs_at) {
        properties->present |= 1u << MQTT_USER_PROPERTY;
        properties->pairs = bytes_of(scratch->at + pairs_at, (uint32_t)(scratch->size - pairs_at));
    }
    return status;
}
