/* mqtt_transcript.h: what the reader made of some input, as text: one line a packet, the last line how it ended. For
 * test_mqtt_read.c and the fuzzer, which compare transcripts of the same bytes fed in different ways.
 *
 *     PUBLISH topic=a/b qos=1 id=10 payload=x      fields that are empty or zero are not shown
 *     bad: 82 a packet before CONNECT
 */
#ifndef LEAFD_TESTS_MQTT_TRANSCRIPT_H
#define LEAFD_TESTS_MQTT_TRANSCRIPT_H

#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/check.h"
#include "mqtt/read.h"
#include "transcript.h"

static inline void transcript_properties(buffer_t *out, const mqtt_properties_t *properties) {
    static const char *const numbers[MQTT_PROPERTY_COUNT] = {
        [MQTT_PAYLOAD_FORMAT] = "format",
        [MQTT_MESSAGE_EXPIRY] = "expiry",
        [MQTT_SUBSCRIPTION_ID] = "subscription",
        [MQTT_SESSION_EXPIRY] = "session-expiry",
        [MQTT_SERVER_KEEP_ALIVE] = "server-keep-alive",
        [MQTT_REQUEST_PROBLEM] = "request-problem",
        [MQTT_WILL_DELAY] = "will-delay",
        [MQTT_REQUEST_RESPONSE] = "request-response",
        [MQTT_RECEIVE_MAXIMUM] = "receive-maximum",
        [MQTT_TOPIC_ALIAS_MAXIMUM] = "alias-maximum",
        [MQTT_TOPIC_ALIAS] = "alias",
        [MQTT_MAXIMUM_QOS] = "maximum-qos",
        [MQTT_RETAIN_AVAILABLE] = "retain-available",
        [MQTT_MAXIMUM_PACKET] = "maximum-packet",
        [MQTT_WILDCARDS_AVAILABLE] = "wildcards",
        [MQTT_IDS_AVAILABLE] = "ids",
        [MQTT_SHARED_AVAILABLE] = "shared",
    };
    static const char *const texts[MQTT_PROPERTY_COUNT] = {
        [MQTT_CONTENT_TYPE] = "type",
        [MQTT_RESPONSE_TOPIC] = "response",
        [MQTT_CORRELATION_DATA] = "correlation",
        [MQTT_ASSIGNED_CLIENT] = "assigned",
        [MQTT_AUTH_METHOD] = "method",
        [MQTT_AUTH_DATA] = "data",
        [MQTT_RESPONSE_INFORMATION] = "information",
        [MQTT_SERVER_REFERENCE] = "reference",
        [MQTT_REASON_STRING] = "why",
    };
    for (uint32_t which = 0; which < MQTT_PROPERTY_COUNT; which++) {
        if (numbers[which] != NULL) {
            transcript_number(out, numbers[which], mqtt_number(properties, (mqtt_property_t)which, 0));
        } else if (texts[which] != NULL) {
            transcript_field(out, texts[which], mqtt_text(properties, (mqtt_property_t)which));
        }
    }
    bytes_t pairs = properties->pairs, name, value;
    while (mqtt_next_pair(&pairs, &name, &value)) {
        transcript_field(out, "name", name);
        transcript_field(out, "value", value);
    }
}

static inline void transcript_message(buffer_t *out, const mqtt_message_t *message) {
    transcript_field(out, "topic", message->topic);
    transcript_number(out, "qos", message->qos);
    transcript_number(out, "retain", message->retain);
    transcript_properties(out, &message->properties);
    transcript_field(out, "payload", message->payload);
}

static inline void transcript_login(buffer_t *out, const mqtt_login_t *login) {
    transcript_number(out, "level", login->level);
    transcript_number(out, "clean", login->clean);
    transcript_number(out, "keep-alive", login->keep_alive);
    transcript_field(out, "client", login->client);
    if (login->has_will) {
        transcript_text(out, " will");
        transcript_message(out, &login->will);
    }
    if (login->has_user) {
        transcript_text(out, " user");
        transcript_field(out, "user", login->user);
    }
    if (login->has_password) {
        transcript_text(out, " password");
        transcript_field(out, "password", login->password);
    }
}

static inline void transcript_filters(buffer_t *out, const mqtt_packet_t *packet) {
    bytes_t filters = packet->filters;
    mqtt_filter_t filter;
    while (mqtt_next_filter(packet->kind, &filters, &filter)) {
        transcript_text(out, " filter");
        transcript_field(out, "text", filter.text);
        transcript_number(out, "qos", filter.qos);
        transcript_number(out, "no-local", filter.no_local);
        transcript_number(out, "as-published", filter.retain_as_published);
        transcript_number(out, "handling", filter.retain_handling);
    }
    check(filters.size == 0);
}

static inline void transcript_packet(buffer_t *out, const mqtt_packet_t *packet) {
    static const char *const names[16] = {"NONE",    "CONNECT",  "CONNACK",    "PUBLISH", "PUBACK",      "PUBREC",
                                          "PUBREL",  "PUBCOMP",  "SUBSCRIBE",  "SUBACK",  "UNSUBSCRIBE", "UNSUBACK",
                                          "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH"};
    transcript_text(out, names[packet->kind]);
    transcript_number(out, "id", packet->id);
    transcript_number(out, "dup", packet->kind == MQTT_PUBLISH && packet->dup);
    transcript_number(out, "reason", packet->reason);
    transcript_properties(out, &packet->properties);
    if (packet->kind == MQTT_CONNECT) {
        transcript_login(out, &packet->login);
    } else if (packet->kind == MQTT_PUBLISH) {
        transcript_message(out, &packet->message);
    }
    transcript_filters(out, packet);
    transcript_text(out, "\n");
}

static inline void transcript_inside(bytes_t slice, bytes_t input) {
    check(slice.size == 0 || (slice.at >= input.at && slice.at + slice.size <= input.at + input.size));
}

/* Feeds `input` as it would come over a socket in pieces of `step` bytes (0 = all at once), after the login where
 * `level` says so. Checks that slices lie inside what was given, and that the reader never asks for what it has. */
static inline void transcript_of(buffer_t *out, mqtt_level_t level, uint32_t max_packet, bytes_t input, uint32_t step) {
    mqtt_reader_t reader = {.level = level, .max_packet = max_packet};
    uint32_t start = 0;
    uint32_t have = step == 0 ? input.size : 0;
    for (;;) {
        uint32_t used = 0, need = 0;
        mqtt_packet_t packet;
        mqtt_fault_t fault = {.text = NULL};
        bytes_t given = bytes_of(input.at + start, have - start);
        mqtt_verdict_t verdict = mqtt_read(&reader, given, &packet, &used, &need, &fault);
        if (verdict == MQTT_PACKET) {
            check(used > 0 && used <= given.size && used <= max_packet);
            if (packet.kind == MQTT_PUBLISH) {
                transcript_inside(packet.message.topic, given);
                transcript_inside(packet.message.payload, given);
            }
            transcript_inside(packet.filters, given);
            transcript_inside(packet.properties.pairs, given);
            transcript_packet(out, &packet);
            if (packet.kind == MQTT_CONNECT) {
                reader.level = packet.login.level;
            }
            start += used;
        } else if (verdict == MQTT_BAD) {
            char text[160];
            check(fault.text != NULL && fault.reason >= 0x80);
            snprintf(text, sizeof text, "bad: %x %s\n", (unsigned)fault.reason, fault.text);
            transcript_text(out, text);
            return;
        } else {
            check(need > given.size);
            if (have == input.size) {
                transcript_text(out, given.size == 0 ? "end\n" : "more\n");
                return;
            }
            have = input.size - have < step ? input.size : have + step;
        }
    }
}

#endif
