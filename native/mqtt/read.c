/* read.c: one packet off the front of the input. Each kind is a row: which flags it must have, who reads what is behind
 * the fixed header. What is left over of a packet when it was read makes it malformed.
 */
#include "mqtt/read.h"

#include "text/topic.h"

#define FLAG_RETAIN 0x01u
#define FLAG_DUP 0x08u
#define FLAGS_SECOND 0x02u /* of PUBREL, SUBSCRIBE and UNSUBSCRIBE */

#define LEVEL_WITHIN 9u /* bytes of a CONNECT that name and level are in, also those of 3.1 */
#define CONNECT_CLEAN 0x02u
#define CONNECT_WILL 0x04u
#define CONNECT_WILL_RETAIN 0x20u

#define OPTION_NO_LOCAL 0x04u
#define OPTION_AS_PUBLISHED 0x08u
#define OPTION_RESERVED 0xc0u

typedef struct reading {
    mqtt_level_t level;
    uint8_t flags;
    bytes_t left; /* of the packet */
    mqtt_packet_t *packet;
    mqtt_fault_t *fault;
} reading_t;

static bool bad(reading_t *reading, mqtt_reason_t reason, const char *text) {
    *reading->fault = (mqtt_fault_t){.reason = reason, .text = text};
    return false;
}

static bool malformed(reading_t *reading, const char *text) {
    return bad(reading, MQTT_REASON_MALFORMED, text);
}

static bool take_byte(reading_t *reading, uint8_t *byte) {
    if (reading->left.size < 1) {
        return malformed(reading, "a packet that is too short");
    }
    *byte = reading->left.at[0];
    reading->left = bytes_after(reading->left, 1);
    return true;
}

static bool take_two(reading_t *reading, uint16_t *number) {
    if (reading->left.size < 2) {
        return malformed(reading, "a packet that is too short");
    }
    *number = load_be16(reading->left.at);
    reading->left = bytes_after(reading->left, 2);
    return true;
}

static bool read_data(reading_t *reading, bytes_t *data) {
    return mqtt_take_data(&reading->left, data) || malformed(reading, "a packet that is too short");
}

static bool take_text(reading_t *reading, bytes_t *text) {
    return read_data(reading, text) && (topic_text(*text) || malformed(reading, "a text that is not UTF-8"));
}

static bool take_id(reading_t *reading) {
    return take_two(reading, &reading->packet->id)
           && (reading->packet->id != 0 || bad(reading, MQTT_REASON_PROTOCOL, "packet identifier 0"));
}

static void no_properties(mqtt_properties_t *properties) {
    properties->present = 0;
    properties->pairs = BYTES_NONE;
    properties->more_count = 0;
}

static bool take_properties(reading_t *reading, uint32_t of, mqtt_properties_t *properties) {
    if (reading->level != MQTT_5) {
        no_properties(properties);
        return true;
    }
    return mqtt_read_properties(&reading->left, of, properties, reading->fault);
}

/* The rules of a topic name (5: 3.3.2.1); also a will's topic, and one that is to be answered on. */
static bool topic_name(reading_t *reading, bytes_t topic) {
    for (uint32_t i = 0; i < topic.size; i++) {
        if (topic.at[i] == '+' || topic.at[i] == '#') {
            return bad(reading, MQTT_REASON_TOPIC, "a topic name with a wildcard");
        }
    }
    return true;
}

static bool message_properties(reading_t *reading, uint32_t of, mqtt_message_t *message) {
    return take_properties(reading, of, &message->properties)
           && topic_name(reading, mqtt_text(&message->properties, MQTT_RESPONSE_TOPIC));
}

/* -- CONNECT ------------------------------------------------------------------------------------------------------ */

static bool take_level(reading_t *reading) {
    bytes_t name;
    uint8_t level;
    if (!read_data(reading, &name) || !take_byte(reading, &level)) {
        return false;
    }
    bool known = bytes_equal(name, BYTES_LITERAL("MQTT")) || bytes_equal(name, BYTES_LITERAL("MQIsdp"));
    if (!known) {
        return bad(reading, MQTT_REASON_VERSION, "a CONNECT of another protocol");
    }
    if (name.size != 4 || (level != MQTT_3_1_1 && level != MQTT_5)) {
        return bad(reading, MQTT_REASON_VERSION, "an MQTT version other than 3.1.1 and 5");
    }
    reading->level = (mqtt_level_t)level;
    reading->packet->login.level = (mqtt_level_t)level;
    return true;
}

static bool take_connect_flags(reading_t *reading, uint8_t *flags) {
    mqtt_login_t *login = &reading->packet->login;
    if (!take_byte(reading, flags) || !take_two(reading, &login->keep_alive)) {
        return false;
    }
    login->clean = (*flags & CONNECT_CLEAN) != 0;
    login->has_will = (*flags & CONNECT_WILL) != 0;
    login->has_user = (*flags & MQTT_CONNECT_USER) != 0;
    login->has_password = (*flags & MQTT_CONNECT_PASSWORD) != 0;
    login->will.qos = (uint8_t)((*flags >> 3) & 3u);
    login->will.retain = (*flags & CONNECT_WILL_RETAIN) != 0;
    if ((*flags & 1u) != 0) {
        return malformed(reading, "a CONNECT whose reserved flag is set");
    }
    if (login->will.qos == 3 || (!login->has_will && (login->will.qos != 0 || login->will.retain))) {
        return malformed(reading, "a CONNECT with flags of a will that cannot be");
    }
    if (reading->level == MQTT_3_1_1 && login->has_password && !login->has_user) {
        return malformed(reading, "a CONNECT with a password and no user name"); /* 3.1.1: 3.1.2.9; 5 allows it */
    }
    return true;
}

static bool take_will(reading_t *reading) {
    mqtt_message_t *will = &reading->packet->login.will;
    if (!message_properties(reading, MQTT_WILL, will) || !take_text(reading, &will->topic)) {
        return false;
    }
    if (will->topic.size == 0) {
        return bad(reading, MQTT_REASON_TOPIC, "a will without a topic");
    }
    return topic_name(reading, will->topic) && read_data(reading, &will->payload);
}

static bool read_connect(reading_t *reading) {
    mqtt_login_t *login = &reading->packet->login;
    uint8_t flags;
    login->user = BYTES_NONE;
    login->password = BYTES_NONE;
    login->will.topic = BYTES_NONE;
    login->will.payload = BYTES_NONE;
    no_properties(&login->will.properties);
    return take_level(reading) && take_connect_flags(reading, &flags)
           && take_properties(reading, MQTT_CONNECT, &reading->packet->properties) && take_text(reading, &login->client)
           && (!login->has_will || take_will(reading)) && (!login->has_user || take_text(reading, &login->user))
           && (!login->has_password || read_data(reading, &login->password));
}

/* -- messages ----------------------------------------------------------------------------------------------------- */

static bool read_publish(reading_t *reading) {
    mqtt_packet_t *packet = reading->packet;
    mqtt_message_t *message = &packet->message;
    packet->dup = (reading->flags & FLAG_DUP) != 0;
    message->retain = (reading->flags & FLAG_RETAIN) != 0;
    message->qos = (uint8_t)((reading->flags >> 1) & 3u);
    if (message->qos == 3 || (message->qos == 0 && packet->dup)) {
        return malformed(reading, "a PUBLISH with flags that cannot be");
    }
    if (!take_text(reading, &message->topic) || (message->qos != 0 && !take_id(reading))
        || !message_properties(reading, MQTT_PUBLISH, message)) {
        return false;
    }
    bool alias = mqtt_has(&message->properties, MQTT_TOPIC_ALIAS);
    if (message->topic.size == 0 && !alias) {
        /* 5: 3.3.2.1; in 3.1.1 no topic may be empty (4.7.3) */
        return bad(reading, reading->level == MQTT_5 ? MQTT_REASON_PROTOCOL : MQTT_REASON_MALFORMED,
                   "a PUBLISH without a topic");
    }
    if (mqtt_has(&message->properties, MQTT_SUBSCRIPTION_ID)) {
        return bad(reading, MQTT_REASON_PROTOCOL, "a PUBLISH of a client with a subscription identifier");
    }
    message->payload = reading->left;
    reading->left = BYTES_NONE;
    return topic_name(reading, message->topic);
}

/* Reason and properties, which a packet of MQTT 5 may leave out when they say nothing. */
static bool take_reason(reading_t *reading) {
    mqtt_packet_t *packet = reading->packet;
    if (reading->level != MQTT_5 || reading->left.size == 0) {
        return true;
    }
    if (!take_byte(reading, &packet->reason)) {
        return false;
    }
    if (!mqtt_reason_allowed((uint32_t)packet->kind, packet->reason)) {
        return malformed(reading, "a reason code that this packet cannot have");
    }
    return reading->left.size == 0 || take_properties(reading, (uint32_t)packet->kind, &packet->properties);
}

static bool read_acknowledgement(reading_t *reading) {
    return take_id(reading) && take_reason(reading);
}

/* -- subscriptions ------------------------------------------------------------------------------------------------ */

static bool judge_options(reading_t *reading, const mqtt_filter_t *filter, uint8_t options) {
    bytes_t name, topics;
    bool valid;
    uint8_t reserved = reading->level == MQTT_5 ? OPTION_RESERVED : 0xfcu;
    if ((options & reserved) != 0 || filter->qos == 3 || filter->retain_handling == 3) {
        return malformed(reading, "a SUBSCRIBE with options that cannot be");
    }
    if (filter->no_local && topic_shared(filter->text, &name, &topics, &valid)) {
        return bad(reading, MQTT_REASON_PROTOCOL, "a shared subscription with No Local");
    }
    return true;
}

static bool take_filter(reading_t *reading, mqtt_kind_t kind, mqtt_filter_t *filter) {
    uint8_t options = 0;
    if (!take_text(reading, &filter->text) || (kind == MQTT_SUBSCRIBE && !take_byte(reading, &options))) {
        return false;
    }
    filter->qos = options & 3u;
    filter->no_local = (options & OPTION_NO_LOCAL) != 0;
    filter->retain_as_published = (options & OPTION_AS_PUBLISHED) != 0;
    filter->retain_handling = (uint8_t)((options >> 4) & 3u);
    return judge_options(reading, filter, options);
}

static bool read_filters(reading_t *reading) {
    mqtt_packet_t *packet = reading->packet;
    mqtt_filter_t filter;
    if (!take_id(reading) || !take_properties(reading, (uint32_t)packet->kind, &packet->properties)) {
        return false;
    }
    packet->filters = reading->left;
    if (reading->left.size == 0) {
        return bad(reading, MQTT_REASON_PROTOCOL, "a packet without a topic filter");
    }
    while (reading->left.size != 0) {
        if (!take_filter(reading, packet->kind, &filter)) {
            return false;
        }
    }
    return true;
}

bool mqtt_next_filter(mqtt_kind_t kind, bytes_t *filters, mqtt_filter_t *filter) {
    mqtt_fault_t fault;
    reading_t reading = {.level = MQTT_5, .left = *filters, .fault = &fault};
    if (filters->size == 0 || !take_filter(&reading, kind, filter)) {
        return false;
    }
    *filters = reading.left;
    return true;
}

/* -- all ---------------------------------------------------------------------------------------------------------- */

static bool read_nothing(reading_t *reading) {
    (void)reading;
    return true;
}

static bool read_auth(reading_t *reading) {
    if (reading->level != MQTT_5) {
        return malformed(reading, "an AUTH, which MQTT 3.1.1 does not have");
    }
    return take_reason(reading);
}

typedef struct row {
    bool (*read)(reading_t *reading);
    uint8_t flags;
} row_t;

/* Packets that only a server sends are not packets of a client. */
static const row_t rows[16] = {
    [MQTT_CONNECT] = {read_connect, 0},
    [MQTT_PUBLISH] = {read_publish, 0},
    [MQTT_PUBACK] = {read_acknowledgement, 0},
    [MQTT_PUBREC] = {read_acknowledgement, 0},
    [MQTT_PUBREL] = {read_acknowledgement, FLAGS_SECOND},
    [MQTT_PUBCOMP] = {read_acknowledgement, 0},
    [MQTT_SUBSCRIBE] = {read_filters, FLAGS_SECOND},
    [MQTT_UNSUBSCRIBE] = {read_filters, FLAGS_SECOND},
    [MQTT_PINGREQ] = {read_nothing, 0},
    [MQTT_DISCONNECT] = {take_reason, 0},
    [MQTT_AUTH] = {read_auth, 0},
};

/* The remaining size; 1 read, 0 more bytes are needed, -1 it does not end. Some small clients fill it up with 0x80 to a
 * fixed length, which does no harm here: a size that is longer than it has to be is taken. */
static int take_size(bytes_t *input, uint32_t *size) {
    uint32_t value = 0;
    for (uint32_t i = 0; i < 4; i++) {
        if (i == input->size) {
            return 0;
        }
        value |= (uint32_t)(input->at[i] & 0x7fu) << (7 * i);
        if (input->at[i] < 0x80) {
            *size = value;
            *input = bytes_after(*input, i + 1);
            return 1;
        }
    }
    return -1;
}

static bool judge_head(const mqtt_reader_t *reader, reading_t *reading) {
    mqtt_kind_t kind = reading->packet->kind;
    if (reader->level == MQTT_UNKNOWN && kind != MQTT_CONNECT) {
        return bad(reading, MQTT_REASON_PROTOCOL, "a packet before CONNECT");
    }
    if (rows[kind].read == NULL) {
        return bad(reading, MQTT_REASON_PROTOCOL, "a packet that clients do not send");
    }
    if (kind != MQTT_PUBLISH && reading->flags != rows[kind].flags) {
        return malformed(reading, "a packet with flags that it cannot have");
    }
    return true;
}

/* Refuses what is larger than allowed. Of a CONNECT the level is read first, so that a client of 5 can be told why (5:
 * 3.2.2.2); left: what has come of it. */
static mqtt_verdict_t refuse_large(reading_t *reading, bytes_t left) {
    if (reading->packet->kind == MQTT_CONNECT && reading->level == MQTT_UNKNOWN) {
        if (left.size < LEVEL_WITHIN) {
            return MQTT_MORE;
        }
        reading->left = bytes_of(left.at, LEVEL_WITHIN);
        if (!take_level(reading)) {
            return MQTT_BAD;
        }
    }
    bad(reading, MQTT_REASON_TOO_LARGE, "a packet that is larger than allowed");
    return MQTT_BAD;
}

mqtt_verdict_t mqtt_read(const mqtt_reader_t *reader, bytes_t input, mqtt_packet_t *packet, uint32_t *used,
                         uint32_t *need, mqtt_fault_t *fault) {
    reading_t reading = {.level = reader->level, .packet = packet, .fault = fault};
    *need = 2;
    if (input.size == 0) {
        return MQTT_MORE;
    }
    packet->kind = (mqtt_kind_t)(input.at[0] >> 4);
    reading.flags = input.at[0] & 0x0fu;
    if (!judge_head(reader, &reading)) {
        return MQTT_BAD;
    }
    uint32_t size;
    bytes_t left = bytes_after(input, 1);
    int sized = take_size(&left, &size);
    if (sized < 0) {
        malformed(&reading, "a remaining size that does not end");
        return MQTT_BAD;
    }
    if (sized == 0) {
        *need = input.size + 1;
        return MQTT_MORE;
    }
    uint32_t head = input.size - left.size, whole = head + size;
    if (whole > reader->max_packet) {
        *need = head + LEVEL_WITHIN;
        return refuse_large(&reading, left);
    }
    if (size > left.size) {
        *need = whole;
        return MQTT_MORE;
    }
    reading.left = bytes_of(left.at, size);
    packet->id = 0;
    packet->reason = MQTT_REASON_SUCCESS;
    packet->filters = BYTES_NONE;
    no_properties(&packet->properties);
    if (!rows[packet->kind].read(&reading)) {
        return MQTT_BAD;
    }
    if (reading.left.size != 0) {
        malformed(&reading, "a packet with bytes behind its end");
        return MQTT_BAD;
    }
    *used = whole;
    return MQTT_PACKET;
}
