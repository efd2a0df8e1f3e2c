/* test_plane_mqtt_streams.c: clients of MQTT and streams: what an acknowledgement means, and retained messages. The
 * journal is real, and JetStream's API is played. */
#include <inttypes.h>

#include "base/random.h"
#include "mqtt_rig.h"
#include "stream_rig.h"
#include "verbs/mqtt.h"

#define API_SUBSCRIPTION 50u

static plane_t *plane;

static void settle(void) {
    for (uint32_t i = 0; i < 4; i++) {
        rig_settle(plane);
        core_backlog(plane);
        rig_turn(plane);
    }
}

static void listen_as_api(void) {
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "$JS.API.STREAM.CREATE.*");
    rig_pack(&strings, "");
    rig_run(plane,
            (plane_command_t){
                .op = COMMAND_SUBSCRIBE, .account = RIG_ACCOUNT, .target = API_SUBSCRIPTION, .arg = SUBSCRIBE_API},
            &strings);
}

/* The stream that was asked for is made, or is there already. */
static void answer_as_api(const char *answer) {
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_MESSAGE, &event));
    CHECK_EQ_U64(API_SUBSCRIPTION, event.target);
    CHECK_TEXT("$JS.API.STREAM.CREATE.$MQTT_rmsgs", event.subject, event.subject_size);
    char reply[200];
    CHECK(event.reply_size < sizeof reply);
    memcpy(reply, event.reply, event.reply_size);
    reply[event.reply_size] = 0;
    static const char *const parts[] = {"$MQTT_rmsgs", "{}", "", "", "", "", "", "$MQTT.rmsgs.>"};
    stream_config_t config = rig_stream;
    config.max_msgs_per_subject = 1;
    config.flags = STREAM_ALLOW_DIRECT | STREAM_ALLOW_TTL;
    rig_run_with(plane, (plane_command_t){.op = COMMAND_STREAM_PUT, .target = 2, .token = 900}, &config, sizeof(config),
                 parts, 8);
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, reply);
    rig_pack(&strings, "");
    rig_pack(&strings, "");
    rig_run(plane,
            (plane_command_t){.op = COMMAND_PUBLISH,
                              .account = RIG_ACCOUNT,
                              .body = (const uint8_t *)answer,
                              .body_size = (uint32_t)strlen(answer)},
            &strings);
    settle();
}

static peer_t *first_client(const char *connect) {
    peer_t *peer = mqtt_client_with(plane, connect, NULL);
    answer_as_api("{\"type\":\"io.nats.jetstream.api.v1.stream_create_response\",\"did_create\":true}");
    return peer;
}

static void acknowledged_is_on_disk(void) {
    rig_put_stream(plane, rig_stream);
    settle();
    peer_t *three = first_client(MQTT_CONNECT_3("c"));
    mqtt_say(plane, three, "32 08 0003's/a' 0001 'x' 34 08 0003's/b' 0002 'y' 32 06 0001'z' 0003 'z'");
    MQTT_HEARD("", three); /* not even the last one, which no stream keeps: answers are in order */
    settle();
    MQTT_HEARD("40 02 0001 50 02 0002 40 02 0003", three);
    stream_state_t state;
    store_stream_state(stream_find(&plane->js, 1)->store, &state);
    CHECK_EQ_U64(2, state.messages);
}

/* What comes again with an identifier of QoS 2 is no new message, and is answered each time. */
static void no_more_answers_wait_than_may(void) {
    rig_put_stream(plane, rig_stream);
    settle();
    peer_t *five = first_client(MQTT_CONNECT_5("e")), *three = mqtt_client_3(plane);
    for (uint32_t i = 0; i < 50; i++) {
        mqtt_say(plane, five, "3c 09 0003's/a' 0001 00 'x'");
        char text[64];
        snprintf(text, sizeof text, "32 08 0003's/b' 00%02x 'y'", i + 1);
        mqtt_say(plane, three, text);
        CHECK(five->session->answers.count <= 10 && three->session->answers.count <= 10);
    }
    for (uint32_t i = 0; i < 10; i++) settle();
    CHECK_EQ_U64(50 * 4, rig_take_queue(&five->conn.out));
    CHECK_EQ_U64(50 * 4, rig_take_queue(&three->conn.out));
    stream_state_t state;
    store_stream_state(stream_find(&plane->js, 1)->store, &state);
    CHECK_EQ_U64(51, state.messages);
}

static void what_was_not_kept_is_not_acknowledged(void) {
    stream_config_t config = rig_stream;
    config.max_msgs = 1;
    config.discard = 1;
    rig_put_stream(plane, config);
    settle();
    peer_t *five = first_client(MQTT_CONNECT_5("e")), *three = mqtt_client_3(plane);
    mqtt_say(plane, five, "32 09 0003's/a' 0001 00 'x' 34 09 0003's/a' 0002 00 'x'");
    settle();
    MQTT_HEARD("40 02 0001 50 40 0002 97 3c 1f 0039'a limit of the server, the account or a stream is reached'", five);
    CHECK_EQ_U64(0, five->session->received.count);
    uint64_t id = three->id;
    mqtt_say(plane, three, "32 08 0003's/a' 0001 'x'");
    settle();
    CHECK(peer_find(plane, id) == NULL); /* it cannot be told, and has to send it again */
}

static void the_newest_is_retained(void) {
    peer_t *five = first_client(MQTT_CONNECT_5("e")), *three = mqtt_client_3(plane);
    mqtt_say(plane, five,
             "31 06 0001'a' 00 '1''1' 33 07 0001'a' 0001 00 '2' 31 07 0003'a/b' 00 '3' 31 07 0003'$/x' 00 '4'");
    settle();
    MQTT_HEARD("40 03 0001 10", five);
    mqtt_say(plane, three, "82 08 0001 0003'a/#' 01");
    settle();
    MQTT_HEARD("90 03 0001 01 31 06 0003'a/b''3' 33 06 0001'a' 0001 '2'", three);
    mqtt_say(plane, five, "31 04 0001'a' 00"); /* no more */
    settle();
    MQTT_HEARD("30 03 0001'a'", three);
    mqtt_say(plane, five, "82 07 0002 00 0001'#' 00");
    settle();
    MQTT_HEARD("90 04 0002 00 00 31 07 0003'a/b' 00 '3'", five);
    mqtt_say(plane, five, "82 07 0003 00 0001'#' 10"); /* only when it is new */
    settle();
    MQTT_HEARD("90 04 0003 00 00", five);
}

static void many_come_in_parts(void) {
    peer_t *five = first_client(MQTT_CONNECT_5("e")), *three = mqtt_client_3(plane);
    for (uint32_t i = 0; i < 600; i++) {
        char text[64];
        snprintf(text, sizeof text, "31 0a 0005'm/%03u' 00 '%02u'", (unsigned)i, (unsigned)(i % 100));
        mqtt_say(plane, five, text);
        if (i % 50 == 0) settle();
    }
    settle();
    mqtt_say(plane, three, "82 08 0001 0003'm/+' 00");
    for (uint32_t i = 0; i < 10; i++) settle();
    CHECK_EQ_U64(600, three->out_msgs);
    CHECK(three->session->reads == NULL);
}

/* Each is published right behind the SUBSCRIBE: before what is retained can have been read. */
static void what_is_replaced_comes_first(void) {
    peer_t *five = first_client(MQTT_CONNECT_5("e")), *three = mqtt_client_3(plane);
    mqtt_say(plane, five, "31 07 0003'a/b' 00 '1' 31 07 0003'a/c' 00 '1' 31 05 0001'b' 00 '1'");
    settle();
    mqtt_say(plane, three, "82 08 0001 0003'a/#' 00");
    mqtt_say(plane, five, "31 07 0003'a/b' 00 '2' 31 07 0003'a/b' 00 '3' 31 07 0003'a/d' 00 '1'");
    settle();
    /* One that replaces is one of an established subscription (3.3.1-9), as is one where there was none. */
    MQTT_HEARD("90 03 0001 00 31 06 0003'a/b''1' 30 06 0003'a/b''2' 30 06 0003'a/b''3' 30 06 0003'a/d''1'"
               "31 06 0003'a/c''1'",
               three);
    CHECK(three->session->reads == NULL);
    mqtt_say(plane, five, "82 07 0001 00 0001'b' 02");
    mqtt_say(plane, three, "31 03 0001'b' 31 04 0001'b''2'");
    settle();
    MQTT_HEARD("90 04 0001 00 02 31 05 0001'b' 00 '1' 30 04 0001'b' 00 30 05 0001'b' 00 '2'", five);
    mqtt_say(plane, three, "31 04 0001'b''3'"); /* it has been sent what is retained */
    settle();
    MQTT_HEARD("30 05 0001'b' 00 '3'", five);
}

/* The first filter's have been when the second one's come again. */
static void what_was_sent_is_not_sent_again(void) {
    peer_t *five = first_client(MQTT_CONNECT_5("e")), *three = mqtt_client_3(plane);
    mqtt_say(plane, five, "31 05 0001'a' 00 '1' 31 05 0001'b' 00 '1'");
    settle();
    mqtt_say(plane, three, "82 0a 0001 0001'a' 00 0001'b' 00");
    settle();
    MQTT_HEARD("90 04 0001 00 00 31 04 0001'a''1' 31 04 0001'b''1'", three);
    mqtt_say(plane, three, "82 06 0002 0001'b' 00");
    mqtt_say(plane, five, "31 05 0001'a' 00 '2'");
    settle();
    MQTT_HEARD("90 03 0002 00 30 04 0001'a''2' 31 04 0001'b''1'", three);
}

/* ---- what each subscriber is to have, by a model of it ----------------------------------------------------------- */

#define TOPICS 5u
#define READERS 3u
#define DUE 256u
#define STEPS 3000u

typedef struct due_message {
    uint16_t value; /* 0: no payload */
    bool retain;
} due_message_t;

typedef struct reader {
    peer_t *peer;
    uint32_t filter; /* number of its topic; TOPICS: all of them; more: it has no subscription */
    due_message_t due[TOPICS][DUE];
    uint32_t count[TOPICS];
    uint32_t heard[TOPICS];
} reader_t;

static reader_t readers[READERS];
static uint16_t retained[TOPICS]; /* values; 0: none */

static void is_due(reader_t *reader, uint32_t topic, due_message_t message) {
    if (reader->filter == topic || reader->filter == TOPICS) {
        CHECK(reader->count[topic] < DUE);
        reader->due[topic][reader->count[topic]++] = message;
    }
}

static void reader_subscribes(reader_t *reader, uint32_t filter) {
    char text[64];
    reader->filter = filter;
    snprintf(text, sizeof text, "82 08 0001 0003'd/%c' 00", filter == TOPICS ? '#' : (int)('0' + filter));
    mqtt_say(plane, reader->peer, text);
    for (uint32_t i = 0; i < TOPICS; i++) {
        if (retained[i] != 0) is_due(reader, i, (due_message_t){.value = retained[i], .retain = true});
    }
}

static void one_is_published(peer_t *from, uint32_t topic, uint16_t value, bool retain) {
    char text[64], payload[8] = "";
    if (value != 0) snprintf(payload, sizeof payload, "'%05u'", (unsigned)value);
    snprintf(text, sizeof text, "3%d %02x 0003'd/%u' %s", retain, value == 0 ? 5u : 10u, (unsigned)topic, payload);
    mqtt_say(plane, from, text);
    for (uint32_t i = 0; i < READERS; i++) {
        is_due(&readers[i], topic, (due_message_t){.value = value});
    }
    retained[topic] = retain ? value : retained[topic];
}

/* Of each topic in order; none twice. */
static void reader_hears(reader_t *reader) {
    size_t size = rig_take_queue(&reader->peer->conn.out);
    for (size_t at = 0; at < size; at += 2 + (size_t)rig_out[at + 1]) {
        if ((rig_out[at] & 0xf0) != 0x30) continue; /* SUBACK, UNSUBACK */
        uint32_t topic = (uint32_t)(rig_out[at + 6] - '0');
        CHECK(topic < TOPICS && reader->heard[topic] < reader->count[topic]);
        due_message_t due = reader->due[topic][reader->heard[topic]++];
        CHECK_EQ_U64(due.retain, rig_out[at] & 1);
        char payload[8] = "";
        if (due.value != 0) snprintf(payload, sizeof payload, "%05u", (unsigned)due.value);
        CHECK_BYTES(payload, strlen(payload), rig_out + at + 7, (size_t)rig_out[at + 1] - 5);
    }
}

static void all_is_heard(void) {
    for (uint32_t i = 0; i < READERS; i++) {
        reader_hears(&readers[i]);
        for (uint32_t topic = 0; topic < TOPICS; topic++) {
            CHECK_EQ_U64(readers[i].count[topic], readers[i].heard[topic]);
            readers[i].count[topic] = readers[i].heard[topic] = 0;
        }
    }
}

static void each_has_what_is_its(void) {
    static const char *const connects[] = {MQTT_CONNECT_3("1"), MQTT_CONNECT_3("2"), MQTT_CONNECT_3("3")};
    peer_t *from = first_client(MQTT_CONNECT_3("p"));
    uint64_t random = 11;
    uint16_t value = 0;
    for (uint32_t i = 0; i < READERS; i++) {
        readers[i] = (reader_t){.peer = mqtt_client_with(plane, connects[i], NULL), .filter = TOPICS + 1};
    }
    for (uint32_t i = 0; i < STEPS; i++) {
        reader_t *reader = &readers[random_below(&random, READERS)];
        uint32_t step = (uint32_t)random_below(&random, 12), topic = (uint32_t)random_below(&random, TOPICS);
        if (step < 6) {
            one_is_published(from, topic, step == 0 ? 0 : ++value, true);
        } else if (step == 6) { /* where one that replaces nothing stands among those that are read is not said */
            settle();
            one_is_published(from, topic, ++value, false);
        } else if (step < 9 && reader->filter > TOPICS) {
            reader_subscribes(reader, step == 8 ? TOPICS : topic);
        } else if (step < 11) {
            rig_turn(plane);
            core_backlog(plane);
        } else {
            settle();
            all_is_heard();
            if (reader->filter <= TOPICS) {
                char text[64];
                int last = reader->filter == TOPICS ? '#' : (int)('0' + reader->filter);
                snprintf(text, sizeof text, "a2 07 0002 0003'd/%c'", last);
                mqtt_say(plane, reader->peer, text);
                reader->filter = TOPICS + 1;
            }
        }
    }
    settle();
    all_is_heard();
}

static void who_comes_early_waits(void) {
    peer_t *three = mqtt_client_3(plane);
    mqtt_feed(plane, three, "82 06 0001 0001'a' 00 c000");
    MQTT_HEARD("", three);
    answer_as_api("{\"error\":{\"code\":400,\"err_code\":10058,\"description\":\"in use\"}}");
    MQTT_HEARD("90 03 0001 00 d000", three);
}

static void answers_are_for_nobody_else(void) {
    peer_t *nats = rig_client(plane), *five = first_client(MQTT_CONNECT_5("e"));
    stream_config_t all = rig_stream;
    static const char *const parts[] = {"ALL", "{}", "", "", "", "", "", "$MQTT.A.>"};
    rig_run_with(plane, (plane_command_t){.op = COMMAND_STREAM_PUT, .target = 3, .token = 901}, &all, sizeof(all),
                 parts, 8);
    settle();
    rig_feed(plane, nats, "SUB > 1\r\n");
    mqtt_say(plane, five, "33 07 0001'a' 0001 00 '1'");
    settle();
    MQTT_HEARD("40 02 0001", five);
    RIG_HEARD("HMSG a 1 25 26\r\nNATS/1.0\r\nNmqtt-Pub:1\r\n\r\n1\r\n", nats);
    mqtt_say(plane, five, "82 07 0002 00 0001'a' 01");
    settle();
    MQTT_HEARD("90 04 0002 00 01 33 07 0001'a' 0001 00 '1'", five);
    RIG_HEARD("", nats);
    stream_state_t state;
    store_stream_state(stream_find(&plane->js, 3)->store, &state);
    CHECK_EQ_U64(0, state.messages);
}

/* Not even who knows the key, which nobody hears. */
static void nobody_else_answers(void) {
    rig_put_stream(plane, rig_stream);
    settle();
    peer_t *nats = rig_client(plane), *five = first_client(MQTT_CONNECT_5("e"));
    const mqtt_desk_t *desk = plane->mqtt_desk;
    mqtt_say(plane, five, "32 09 0003's/a' 0001 00 'x'");
    char text[128];
    snprintf(text, sizeof text, "PUB $MQTT.A.%016" PRIx64 ".%016" PRIx64 ".1 2\r\n{}\r\n", desk->key, five->id);
    rig_say(plane, nats, text);
    MQTT_HEARD("", five);
    settle();
    MQTT_HEARD("40 02 0001", five);
}

static void without_a_stream_nothing_is_retained(void) {
    peer_t *three = mqtt_client_3(plane);
    answer_as_api("{\"error\":{\"code\":500,\"err_code\":10047,\"description\":\"insufficient storage\"}}");
    mqtt_say(plane, three, "31 04 0001'a''1'");
    CHECK_EQ_I64(PEER_DOOMED, three->state);
    settle();
}

static uint32_t asked(void) {
    plane_event_t event;
    uint32_t count = 0;
    while (rig_event(plane, EVENT_MESSAGE, &event)) {
        count += event.target == API_SUBSCRIPTION;
    }
    return count;
}

/* Of ten thousand that are back behind a start hundreds come before control has answered. It may never do so. */
static void those_who_come_together_ask_once(void) {
    for (uint32_t i = 0; i < 20; i++) {
        (void)mqtt_client_3(plane);
        plane->now.mono_ns += NS_PER_MS;
    }
    CHECK_EQ_U64(1, asked());
    plane->now.mono_ns += NS_PER_SECOND;
    (void)mqtt_client_3(plane);
    (void)mqtt_client_3(plane);
    CHECK_EQ_U64(1, asked());
}

#define ALONE(promise, function)                                                                                       \
    do {                                                                                                               \
        plane = mqtt_open(rig_new_directory());                                                                        \
        listen_as_api();                                                                                               \
        RUN(promise, function);                                                                                        \
        rig_close_and_remove(plane);                                                                                   \
    } while (0)

int main(void) {
    ALONE("a message of QoS 1 or 2 is acknowledged when the stream that keeps it has it on disk, in order",
          acknowledged_is_on_disk);
    ALONE("no more answers wait than messages may be unacknowledged, and the others are read later",
          no_more_answers_wait_than_may);
    ALONE("what a stream refuses is not acknowledged as a success", what_was_not_kept_is_not_acknowledged);
    ALONE("a new subscription gets the newest retained message of each topic", the_newest_is_retained);
    ALONE("many retained messages come in parts, each once", many_come_in_parts);
    ALONE("what is retained comes as such to a new subscription, and first, also where it is replaced at once",
          what_is_replaced_comes_first);
    ALONE("a subscription that has been sent what is retained is not sent it again when that is replaced",
          what_was_sent_is_not_sent_again);
    ALONE("each subscriber has what was retained when it came, as such, and then all that is published, each once",
          each_has_what_is_its);
    ALONE("who subscribes before it is known whether messages are retained waits", who_comes_early_waits);
    ALONE("what streams answer for a client of MQTT is heard and stored by nobody else", answers_are_for_nobody_else);
    ALONE("nobody but a stream says that a message has been kept", nobody_else_answers);
    ALONE("where there is no stream for them, a retained message ends the connection",
          without_a_stream_nothing_is_retained);
    ALONE("the stream is asked for once by those who come together, and again a second later",
          those_who_come_together_ask_once);
    return TEST_RESULT();
}
