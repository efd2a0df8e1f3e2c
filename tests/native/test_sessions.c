/* test_sessions.c: what is remembered of a client of MQTT: identifiers, answers in order, what is under way to it,
 * short names of topics, and properties as headers. */
#include <stdlib.h>

#include "sessions/aliases.h"
#include "sessions/answers.h"
#include "sessions/carry.h"
#include "sessions/flight.h"
#include "sessions/ids.h"
#include "sessions/session.h"
#include "base/clock.h"
#include "test.h"

static bytes_t text(const char *text) {
    return bytes_of(text, (uint32_t)strlen(text));
}

static void a_set_has_what_was_put_in(void) {
    ids_t ids = {0};
    CHECK(!ids_has(&ids, 1) && !ids_take(&ids, 1));
    for (uint32_t id = 1; id <= UINT16_MAX; id++) CHECK_EQ_I64(STATUS_OK, ids_add(&ids, (uint16_t)id));
    CHECK_EQ_U64(UINT16_MAX, ids.count);
    CHECK_EQ_I64(STATUS_EXISTS, ids_add(&ids, 77));
    for (uint32_t id = 1; id <= UINT16_MAX; id += 2) CHECK(ids_take(&ids, (uint16_t)id));
    for (uint32_t id = 1; id <= UINT16_MAX; id++) CHECK(ids_has(&ids, (uint16_t)id) == (id % 2 == 0));
    ids_free(&ids);
    CHECK_EQ_U64(0, ids.count);
}

static void answers_go_in_order(void) {
    answers_t answers = {0};
    answer_t one;
    for (uint16_t id = 1; id <= 100; id++) answers_begin(&answers, id, 4)->waits = id % 3;
    CHECK(!answers_next(&answers, &one)); /* 1 waits for one stream */
    CHECK(answers_told(&answers, 2, 0));
    CHECK(answers_told(&answers, 2, 0x97));
    CHECK(!answers_told(&answers, 2, 0));
    CHECK(!answers_next(&answers, &one));
    CHECK(answers_told(&answers, 1, 0));
    for (uint16_t id = 1; id <= 3; id++) {
        CHECK(answers_next(&answers, &one));
        CHECK_EQ_U64(id, one.id);
        CHECK_EQ_U64(id == 2 ? 0x97 : 0, one.reason);
    }
    CHECK(!answers_next(&answers, &one)); /* 4 waits */
    for (uint16_t id = 4; id <= 100; id++) {
        for (uint32_t i = 0; i < id % 3u; i++) CHECK(answers_told(&answers, id, 0));
        CHECK(answers_next(&answers, &one));
        CHECK_EQ_U64(id, one.id);
    }
    CHECK_EQ_U64(0, answers.count);
    answers_free(&answers);
}

static void a_window_is_kept(void) {
    flight_t flight;
    uint64_t seq;
    share_t share = {.limit = UINT64_MAX};
    bytes_t packet;
    flight_init(&flight, 2, 1 << 20, &share);
    CHECK_EQ_U64(1, flight_begin(&flight, 0));
    CHECK_EQ_U64(2, flight_begin(&flight, 0));
    CHECK_EQ_U64(0, flight_begin(&flight, 0));
    CHECK_EQ_I64(STATUS_OK, flight_wait(&flight, &(flight_packet_t){.packet = text("one--"), .id_at = 3}, 0));
    CHECK_EQ_I64(STATUS_OK, flight_wait(&flight, &(flight_packet_t){.packet = text("two--"), .id_at = 3}, 0));
    CHECK(!flight_next(&flight, 0, &packet));
    CHECK(flight_acknowledged(&flight, 1, &seq));
    CHECK(!flight_acknowledged(&flight, 1, &seq));
    CHECK_EQ_U64(0, flight_begin(&flight, 0)); /* behind what waits */
    CHECK(flight_next(&flight, 0, &packet));
    CHECK_BYTES("one\0\3", 5, packet.at, packet.size);
    flight_gone(&flight);
    CHECK(flight_received(&flight, 2, &seq));
    CHECK(flight_received(&flight, 2, &seq)); /* said again */
    CHECK(!flight_next(&flight, 0, &packet));
    CHECK(flight_completed(&flight, 2));
    CHECK(flight_next(&flight, 0, &packet));
    CHECK_BYTES("two\0\4", 5, packet.at, packet.size);
    flight_gone(&flight);
    CHECK(!flight_received(&flight, 9, &seq) && !flight_completed(&flight, 9));
    flight_free(&flight);
    CHECK_EQ_U64(0, share.used);
}

static void identifiers_in_use_are_passed_over(void) {
    flight_t flight;
    uint64_t seq;
    share_t share = {.limit = UINT64_MAX};
    flight_init(&flight, UINT16_MAX, 1 << 20, &share);
    for (uint32_t i = 1; i <= UINT16_MAX; i++) CHECK_EQ_U64(i, flight_begin(&flight, 0));
    CHECK_EQ_U64(0, flight_begin(&flight, 0));
    CHECK(flight_acknowledged(&flight, 5, &seq) && flight_acknowledged(&flight, 7, &seq));
    CHECK_EQ_U64(5, flight_begin(&flight, 0));
    CHECK_EQ_U64(7, flight_begin(&flight, 0));
    flight_free(&flight);
}

static void much_that_waits_goes_in_order(void) {
    flight_t flight;
    uint64_t seq;
    share_t share = {.limit = UINT64_MAX};
    bytes_t packet;
    uint8_t bytes[1000] = {0};
    flight_init(&flight, 1, 1 << 20, &share);
    CHECK_EQ_U64(1, flight_begin(&flight, 0));
    uint32_t count = 0;
    while (flight_wait(&flight, &(flight_packet_t){.packet = bytes_of(bytes, sizeof bytes), .id_at = 4}, 0)
           == STATUS_OK) {
        store_be32(bytes, ++count);
    }
    CHECK(count > 500); /* and it is bounded */
    for (uint32_t i = 0; i < count; i++) {
        CHECK(flight_acknowledged(&flight, flight.last, &seq));
        CHECK(flight_next(&flight, 0, &packet));
        CHECK_EQ_U64(i, load_be32(packet.at));
        flight_gone(&flight);
    }
    CHECK_EQ_U64(0, flight.part->waiting.size);
    flight_free(&flight);
}

static void the_oldest_that_is_counted_goes(void) {
    flight_t flight;
    uint64_t seq;
    share_t share = {.limit = UINT64_MAX};
    bytes_t packet;
    flight_init(&flight, 1, 1 << 20, &share);
    static const flight_most_t one_waits = {.messages = 1}, two_wait = {.messages = 2};
    CHECK_EQ_U64(0, flight_bound(&flight, &one_waits, 1));
    CHECK_EQ_U64(1, flight_begin(&flight, 0));
    static const char *const texts[] = {"kept1--", "old--", "kept2--", "new--", "newest--"};
    for (uint32_t i = 0; i < 5; i++) {
        flight_packet_t one = {.packet = text(texts[i]), .id_at = 0, .counted = texts[i][0] != 'k'};
        CHECK_EQ_U64(i == 4 ? 1 : 0, one.counted ? flight_bound(&flight, &two_wait, one.packet.size) : 0);
        CHECK_EQ_I64(STATUS_OK, flight_wait(&flight, &one, 0));
    }
    static const char *const left[] = {"pt1--", "pt2--", "w--", "west--"};
    for (uint32_t i = 0; i < 4; i++) {
        CHECK(flight_acknowledged(&flight, flight.last, &seq));
        CHECK(flight_next(&flight, 0, &packet));
        CHECK_BYTES(left[i], strlen(left[i]), packet.at + 2, packet.size - 2);
        flight_gone(&flight);
        CHECK_EQ_U64(i < 2 ? 2 : 3 - i, flight.part->counted);
    }
    CHECK_EQ_U64(0, flight_waiting(&flight));
    flight_free(&flight);
    CHECK_EQ_U64(0, share.used);
}

/* Room is made for each before it waits. One that is larger than all waits alone. */
static void the_oldest_bytes_go(void) {
    static const struct {
        const char *packet;
        uint32_t dropped;
        uint64_t bytes;
    } steps[] = {{"kept-much-more", 0, 0},   {"four", 0, 4},  {"sixsix", 0, 10}, {"tw", 0, 12}, {"three", 2, 7},
                 {"longer-than-all", 2, 15}, {"kept", 0, 15}, {"xx", 1, 2}};
    static const flight_most_t most = {.bytes = 12};
    flight_t flight;
    share_t share = {.limit = UINT64_MAX};
    flight_init(&flight, 1, 1 << 20, &share);
    CHECK_EQ_U64(1, flight_begin(&flight, 0));
    for (uint32_t i = 0; i < 8; i++) {
        flight_packet_t one = {.packet = text(steps[i].packet), .counted = steps[i].packet[0] != 'k'};
        CHECK_EQ_U64(steps[i].dropped, one.counted ? flight_bound(&flight, &most, one.packet.size) : 0);
        CHECK_EQ_I64(STATUS_OK, flight_wait(&flight, &one, 0));
        CHECK_EQ_U64(steps[i].bytes, flight.part->counted_bytes);
    }
    flight_free(&flight);
    CHECK_EQ_U64(0, share.used);
}

/* 5: 3.3.2.3.3 */
static void time_that_waits_is_taken_off(void) {
    flight_t flight;
    uint64_t seq;
    share_t share = {.limit = UINT64_MAX};
    bytes_t packet;
    flight_init(&flight, 1, 1 << 20, &share);
    CHECK_EQ_U64(1, flight_begin(&flight, 0));
    flight_packet_t one = {.packet = text("id\0\0\0\x0a"), .id_at = 0, .expiry_at = 2};
    one.packet.size = 6;
    CHECK_EQ_I64(STATUS_OK, flight_wait(&flight, &one, 100 * NS_PER_SECOND));
    CHECK_EQ_I64(STATUS_OK, flight_wait(&flight, &one, 105 * NS_PER_SECOND));
    one.expiry_at = 0;
    CHECK_EQ_I64(STATUS_OK, flight_wait(&flight, &one, 105 * NS_PER_SECOND));
    CHECK(!flight_next(&flight, 110 * NS_PER_SECOND, &packet));
    CHECK(flight_acknowledged(&flight, 1, &seq));
    CHECK(flight_next(&flight, 112 * NS_PER_SECOND, &packet)); /* the first one is not any more */
    CHECK_EQ_U64(3, load_be32(packet.at + 2));
    flight_gone(&flight);
    CHECK(flight_acknowledged(&flight, 2, &seq));
    CHECK(flight_next(&flight, 500 * NS_PER_SECOND, &packet));
    CHECK_EQ_U64(10, load_be32(packet.at + 2)); /* these are just bytes */
    flight_gone(&flight);
    CHECK(flight_acknowledged(&flight, 3, &seq));
    one.expiry_at = 2;
    one.seq = 7; /* a stream has it, and lets it expire */
    CHECK_EQ_I64(STATUS_OK, flight_wait(&flight, &one, 0));
    CHECK(flight_next(&flight, 20 * NS_PER_SECOND, &packet));
    CHECK_EQ_U64(1, load_be32(packet.at + 2));
    flight_gone(&flight);
    CHECK(flight_acknowledged(&flight, 8, &seq));
    one.seq = 0;
    for (uint32_t i = 0; i < 16385; i++) CHECK_EQ_I64(STATUS_OK, flight_wait(&flight, &one, 0));
    CHECK(!flight_next(&flight, 20 * NS_PER_SECOND, &packet)); /* not all in one turn */
    CHECK(flight.lags && flight_waiting(&flight) != 0);
    CHECK(!flight_next(&flight, 20 * NS_PER_SECOND, &packet));
    CHECK(!flight.lags && flight_waiting(&flight) == 0);
    flight_free(&flight);
}

static void names_are_short(void) {
    aliases_t named = {.max = 2}, given = {.max = 2};
    bool known;
    CHECK_EQ_U64(0, alias_topic(&named, 1).size);
    CHECK_EQ_I64(STATUS_INVALID, alias_set(&named, 3, text("a")));
    CHECK_EQ_I64(STATUS_INVALID, alias_set(&named, 0, text("a")));
    CHECK_EQ_I64(STATUS_OK, alias_set(&named, 2, text("a/b")));
    CHECK_EQ_I64(STATUS_OK, alias_set(&named, 2, text("long/er")));
    bytes_t topic = alias_topic(&named, 2);
    CHECK_TEXT("long/er", topic.at, topic.size);
    CHECK_EQ_U64(7, named.bytes);
    CHECK_EQ_U64(1, alias_of(&given, text("a"), &known));
    CHECK(!known);
    CHECK_EQ_U64(2, alias_of(&given, text("b"), &known));
    CHECK_EQ_U64(1, alias_of(&given, text("a"), &known));
    CHECK(known);
    CHECK_EQ_U64(0, alias_of(&given, text("c"), &known));
    aliases_free(&named);
    aliases_free(&given);
}

static void a_will_is_its_own(void) {
    share_t share = {.limit = UINT64_MAX};
    const session_terms_t terms = {.window = 10, .alias_max = 1, .waiting_max = 1000, .waiting = &share};
    char topic[] = "w", payload[] = "gone", type[] = "t", client[] = "c";
    mqtt_properties_t properties = {.present = 0};
    mqtt_login_t login = {.level = MQTT_5, .clean = true, .has_will = true, .client = text(client)};
    login.will = (mqtt_message_t){.topic = text(topic), .payload = text(payload), .qos = 1};
    mqtt_set_text(&login.will.properties, MQTT_CONTENT_TYPE, text(type));
    session_t *session = session_new(&login, &properties, &terms);
    CHECK(session != NULL);
    topic[0] = payload[0] = type[0] = client[0] = '?';
    const mqtt_message_t *will = &session->will->message;
    CHECK_TEXT("w", will->topic.at, will->topic.size);
    CHECK_TEXT("gone", will->payload.at, will->payload.size);
    CHECK_TEXT("c", session->client.name.at, session->client.name.size);
    bytes_t own = mqtt_text(&will->properties, MQTT_CONTENT_TYPE);
    CHECK_TEXT("t", own.at, own.size);
    session_forget_will(session);
    CHECK(session->will == NULL);
    session_free(session);
}

/* What a block says, written again. */
static void check_headers(const char *block, const char *expected, uint8_t expected_qos) {
    buffer_t scratch, out;
    mqtt_properties_t properties;
    carry_t carried;
    buffer_init(&scratch, 1 << 16);
    buffer_init(&out, 1 << 16);
    CHECK_EQ_I64(STATUS_OK, carry_from_headers(text(block), &scratch, &properties, &carried));
    CHECK_EQ_U64(expected_qos, carried.qos);
    CHECK_EQ_I64(STATUS_OK, carry_to_headers(&out, &carried, &properties));
    CHECK_TEXT(expected, out.at, out.size);
    buffer_free(&scratch);
    buffer_free(&out);
}

static void headers_and_properties(void) {
#define SAME(block, qos) check_headers(block, block, qos)
    SAME("NATS/1.0\r\nNmqtt-Pub:0\r\n\r\n", 0);
    SAME("NATS/1.0\r\nNmqtt-Pub:2\r\nNmqtt-Format:1\r\nNmqtt-Expiry:4294967295\r\nContent-Type:a/b\r\n"
         "Nmqtt-Correlation:00ff\r\nk:v\r\nk:w\r\nNmqtt-Property:3a:0a\r\nNmqtt-Property::\r\nlast:\r\n\r\n",
         2);
    SAME("NATS/1.0\r\nNmqtt-Pub:0\r\nNmqtt-Property:4e6174732d4d73672d4964:37\r\n\r\n", 0); /* Nats-Msg-Id: no order */
#undef SAME
    static const char plain[] = "NATS/1.0\r\nNmqtt-Pub:0\r\nId:7\r\n\r\n";
    check_headers("NATS/1.0\r\nNats-Msg-Id: 7\r\nId: 7\r\n\r\n", plain, 0);
    check_headers("NATS/1.0 503 no\r\nId:7 \r\n\r\n", plain, 0);
    /* a message of NATS has its time to live as its expiry; one of MQTT says its own, or none */
    check_headers("NATS/1.0\r\nNats-TTL: 1m30s\r\n\r\n", "NATS/1.0\r\nNmqtt-Pub:0\r\nNmqtt-Expiry:90\r\n\r\n", 0);
    check_headers("NATS/1.0\r\nNats-TTL: 1500ms\r\n\r\n", "NATS/1.0\r\nNmqtt-Pub:0\r\nNmqtt-Expiry:1\r\n\r\n", 0);
    check_headers("NATS/1.0\r\nNats-TTL: never\r\n\r\n", "NATS/1.0\r\nNmqtt-Pub:0\r\n\r\n", 0);
    check_headers("NATS/1.0\r\nNats-TTL: 4294967296\r\n\r\n", "NATS/1.0\r\nNmqtt-Pub:0\r\n\r\n", 0);
    check_headers("NATS/1.0\r\nNats-TTL: abc\r\n\r\n", "NATS/1.0\r\nNmqtt-Pub:0\r\n\r\n", 0);
    check_headers("NATS/1.0\r\nNats-TTL: 5\r\nNmqtt-Pub:1\r\nNmqtt-Expiry:7\r\n\r\n",
                  "NATS/1.0\r\nNmqtt-Pub:1\r\nNmqtt-Expiry:7\r\n\r\n", 1);
    check_headers("NATS/1.0\r\nNmqtt-Pub:1\r\nNats-TTL: 5s\r\n\r\n", "NATS/1.0\r\nNmqtt-Pub:1\r\n\r\n", 1);
    /* what is none of ours says nothing */
    check_headers("NATS/1.0\r\nNmqtt-Pub:3\r\nNmqtt-Format:2\r\nNmqtt-Expiry:4294967296\r\nNmqtt-Correlation:0\r\n"
                  "Nmqtt-Property:3a\r\nNmqtt-Property:3:a\r\nNmqtt-Property:3a:3a:\r\nNmqtt-Property:00:3a\r\n"
                  "Nmqtt-Property:ff:\r\nk:\xff\r\nNmqtt-Subject:a\r\n\r\n",
                  "NATS/1.0\r\nNmqtt-Pub:0\r\n\r\n", 0);
    check_headers("NATS/1.0\r\nNmqtt-RTopic:a/b\r\nNmqtt-RFlags:5\r\n\r\n", "NATS/1.0\r\nNmqtt-Pub:2\r\n\r\n", 2);
    check_headers("NATS/1.0\r\nNmqtt-RFlags:7\r\n\r\n", "NATS/1.0\r\nNmqtt-Pub:0\r\n\r\n", 0);
    check_headers("NATS/1.0\r\nNmqtt-Pub:15\r\nNmqtt-RFlags: 5\r\n\r\n", "NATS/1.0\r\nNmqtt-Pub:1\r\n\r\n", 1);
    check_headers("no block", "NATS/1.0\r\nNmqtt-Pub:0\r\n\r\n", 0);
}

int main(void) {
    RUN("a set has the identifiers that were put in and not taken out", a_set_has_what_was_put_in);
    RUN("answers go in the order of the messages, each when its streams have answered", answers_go_in_order);
    RUN("no more is under way than the client takes, and what waits goes first", a_window_is_kept);
    RUN("an identifier that is in use is not given again", identifiers_in_use_are_passed_over);
    RUN("what waits is bounded, and goes in order", much_that_waits_goes_in_order);
    RUN("of those that are counted no more wait than may, and others stay", the_oldest_that_is_counted_goes);
    RUN("nor more bytes of them", the_oldest_bytes_go);
    RUN("the time that a message waits is taken off its expiry, and it does not go when none is left",
        time_that_waits_is_taken_off);
    RUN("topics have short names up to the maximum", names_are_short);
    RUN("a will is a copy", a_will_is_its_own);
    RUN("properties are headers, and come back the same", headers_and_properties);
    return TEST_RESULT();
}
