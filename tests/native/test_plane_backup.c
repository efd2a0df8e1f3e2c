/* test_plane_backup.c: messages and positions out of one stream and into another, through the core: what comes out goes
 * in and is the same, a run may be cut anywhere, and what cannot be stored is told. The journal's thread is real, so
 * "until" loops wait for it. */
#include "base/visits.h"
#include "store/append.h"
#include "store/record.h"
#include "stream_rig.h"
#include "wire/archive.h"

static uint8_t taken[1 << 20];

static plane_event_t done(plane_t *plane) {
    plane_event_t event;
    for (int64_t until = 0; patient(&until);) {
        core_settle(plane);
        if (rig_event(plane, EVENT_DONE, &event)) return event;
        usleep(200);
    }
    FAIL("no completion comes");
}

static void load_stream(plane_t *plane, uint64_t id, const char *name, const char *subject, int32_t max_msg_size,
                        bool stored) {
    stream_config_t config = rig_stream;
    config.max_msg_size = max_msg_size;
    config.duplicate_window_ns = 120 * NS_PER_SECOND;
    config.flags = STREAM_ALLOW_TTL;
    const char *parts[] = {name, "{}", "", "", "", "", "", subject};
    rig_run_with(plane, (plane_command_t){.op = COMMAND_STREAM_PUT, .target = id, .token = 1, .arg = stored}, &config,
                 sizeof(config), parts, subject[0] != 0 ? 8 : 7);
    CHECK_EQ_I64(STATUS_OK, done(plane).status);
}

static void put_stream(plane_t *plane, uint64_t id, const char *name, const char *subject, int32_t max_msg_size) {
    load_stream(plane, id, name, subject, max_msg_size, false);
}

static void publish_one(plane_t *plane, peer_t *peer, const char *text) {
    rig_say(plane, peer, text);
    rig_run(plane, (plane_command_t){.op = COMMAND_RECORD_PUT, .token = 2},
            &(rig_strings_t){.at = {1, 0, 0, 0, 'k', 1, 0, 0, 0, 'v'}, .size = 10});
    CHECK_EQ_I64(STATUS_OK, done(plane).status); /* in the same batch: the message is on disk */
}

/* Everything of a stream, in as many steps as it takes. */
static uint32_t export_all(plane_t *plane, uint64_t id, uint64_t last) {
    uint32_t size = 0;
    uint64_t from = 1;
    while (from != 0) {
        rig_run(plane,
                (plane_command_t){.op = COMMAND_STREAM_EXPORT, .target = id, .token = 3, .arg = from, .arg2 = last},
                NULL);
        plane_event_t event = done(plane);
        CHECK_EQ_I64(STATUS_OK, event.status);
        CHECK(size + event.payload_size <= sizeof(taken));
        if (event.payload_size != 0) memcpy(taken + size, event.payload, event.payload_size);
        size += event.payload_size;
        from = event.arg;
    }
    return size;
}

static plane_event_t import(plane_t *plane, uint64_t id, const void *entries, uint32_t size) {
    rig_run(
        plane,
        (plane_command_t){.op = COMMAND_STREAM_IMPORT, .target = id, .token = 4, .body = entries, .body_size = size},
        NULL);
    return done(plane);
}

static uint64_t needed(const plane_event_t *event) {
    uint64_t numbers[2] = {0};
    CHECK_EQ_U64(sizeof(numbers), event->payload_size);
    memcpy(numbers, event->payload, sizeof(numbers));
    CHECK_EQ_U64(0, numbers[1]);
    return numbers[0];
}

static stream_state_t state_of(plane_t *plane, uint64_t id) {
    stream_state_t state;
    store_stream_state(stream_find(&plane->js, id)->store, &state);
    return state;
}

static void fill(plane_t *plane) {
    put_stream(plane, 1, "S", "s.>", -1);
    peer_t *peer = rig_client(plane);
    publish_one(plane, peer, "PUB s.a 3\r\none\r\n");
    publish_one(plane, peer, "HPUB s.b 21 24\r\nNATS/1.0\r\nName: b\r\n\r\ntwo\r\n");
    publish_one(plane, peer, "PUB s.a 0\r\n\r\n");
    publish_one(plane, peer, "PUB s.c 4\r\nfour\r\n");
    rig_run(plane, (plane_command_t){.op = COMMAND_MESSAGE_DELETE, .target = 1, .arg = 3, .token = 5}, NULL);
    CHECK_EQ_I64(STATUS_OK, done(plane).status);
}

static void there_and_back(void) {
    plane_t *plane = rig_open_fresh("");
    fill(plane);
    static uint8_t first[1 << 16];
    uint32_t size = export_all(plane, 1, 4);
    CHECK(size > 30);
    memcpy(first, taken, size);
    put_stream(plane, 2, "T", "", -1);
    plane_event_t event = import(plane, 2, first, size);
    CHECK_EQ_I64(STATUS_OK, event.status);
    CHECK_EQ_U64(size, event.arg);
    CHECK_EQ_U64(0, needed(&event));
    CHECK_BYTES(first, size, taken, export_all(plane, 2, 4));
    stream_state_t was = state_of(plane, 1), is = state_of(plane, 2);
    CHECK_EQ_U64(was.messages, is.messages);
    CHECK_EQ_U64(was.bytes, is.bytes);
    CHECK_EQ_U64(1, is.deleted_count);
    CHECK_EQ_U64(4, is.last_seq);
    rig_run(plane, (plane_command_t){.op = COMMAND_STREAM_IMPORT, .target = 2, .token = 4, .arg = 9}, NULL);
    CHECK_EQ_I64(STATUS_OK, done(plane).status);
    CHECK_EQ_U64(9, state_of(plane, 2).last_seq);
    CHECK_EQ_I64(is.last_ts, state_of(plane, 2).last_ts);
    rig_close_and_remove(plane);
}

static void cut_anywhere(void) {
    plane_t *plane = rig_open_fresh("");
    fill(plane);
    static uint8_t all[1 << 16];
    uint32_t size = export_all(plane, 1, 4);
    memcpy(all, taken, size);
    memset(all + size, 0, 5);
    size += 5;
    for (uint32_t cut = 1; cut < size; cut++) {
        put_stream(plane, 10 + cut, "C", "", -1);
        uint8_t *part = malloc(cut);
        memcpy(part, all, cut);
        plane_event_t event = import(plane, 10 + cut, part, cut);
        free(part);
        CHECK_EQ_I64(STATUS_OK, event.status);
        CHECK(event.arg <= cut);
        uint64_t need = needed(&event), used = event.arg;
        CHECK(need == 0 || need > cut - used);
        event = import(plane, 10 + cut, all + used, size - (uint32_t)used);
        CHECK_EQ_U64(size - used, event.arg);
        CHECK_EQ_U64(IMPORT_END, needed(&event));
        CHECK_EQ_U64(3, state_of(plane, 10 + cut).messages);
    }
    rig_close_and_remove(plane);
}

static void refused(plane_t *plane, const char *reason, uint64_t seq, bytes_t subject, bytes_t header,
                    bytes_t payload) {
    buffer_t out;
    buffer_init(&out, 1 << 20);
    CHECK_EQ_I64(STATUS_OK, archive_write(&out, seq, 1700000000, subject, header, payload));
    plane_event_t event = import(plane, 2, out.at, (uint32_t)out.size);
    buffer_free(&out);
    CHECK_EQ_I64(STATUS_INVALID, event.status);
    CHECK_TEXT(reason, event.payload, event.payload_size);
}

static void what_is_refused(void) {
    plane_t *plane = rig_open_fresh("");
    put_stream(plane, 2, "T", "", 10);
    buffer_t out;
    buffer_init(&out, 1 << 20);
    bytes_t none = BYTES_NONE, a = BYTES_LITERAL("a"), text = BYTES_LITERAL("text");
    CHECK_EQ_I64(STATUS_OK, archive_write(&out, 5, 1, a, none, text));
    CHECK_EQ_I64(STATUS_OK, import(plane, 2, out.at, (uint32_t)out.size).status);
    buffer_free(&out);
    static uint8_t large[(64 << 10) + 1];
    refused(plane, "message sequence 5 out of order", 5, a, none, text);
    refused(plane, "expected message sequence", 0, a, none, text);
    refused(plane, "message sequence 6 exceeds maximum message size", 6, a, none, BYTES_LITERAL("eleven byte"));
    refused(plane, "message sequence 6 exceeds maximum payload size", 6, a, none, bytes_of(large, sizeof(large)));
    refused(plane, "failed to store message sequence 6: invalid subject", 6, BYTES_LITERAL("a b"), none, text);
    plane_event_t event = import(plane, 2, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11);
    CHECK_TEXT("archive: invalid archive stream", event.payload, event.payload_size);
    CHECK_EQ_U64(1, state_of(plane, 2).messages);
    rig_close_and_remove(plane);
}

static void left_out(void) {
    static const bytes_t names[] = {
        {(const uint8_t *)"a.*", 3}, {(const uint8_t *)"a\0b", 3}, {(const uint8_t *)"a.b", 3}};
    plane_t *plane = rig_open_fresh("");
    put_stream(plane, 2, "T", "", -1);
    buffer_t out;
    buffer_init(&out, 1 << 20);
    for (uint64_t i = 0; i < 3; i++) {
        CHECK_EQ_I64(STATUS_OK, archive_write(&out, i + 1, 1, names[i], BYTES_NONE, BYTES_LITERAL("text")));
    }
    plane_event_t event = import(plane, 2, out.at, (uint32_t)out.size);
    CHECK_EQ_U64(out.size, event.arg);
    buffer_free(&out);
    uint64_t numbers[2];
    CHECK_EQ_U64(sizeof(numbers), event.payload_size);
    memcpy(numbers, event.payload, sizeof(numbers));
    CHECK_EQ_U64(2, numbers[1]);
    stream_state_t state = state_of(plane, 2);
    CHECK_EQ_U64(1, state.messages);
    CHECK_EQ_U64(3, state.first_seq);
    rig_close_and_remove(plane);
}

static void older_than_1970(void) {
    static const int64_t times[] = {INT64_MIN, -1, 0, 5};
    plane_t *plane = rig_open_fresh("");
    put_stream(plane, 2, "T", "", -1);
    buffer_t out;
    buffer_init(&out, 1 << 20);
    for (uint64_t i = 0; i < 4; i++) {
        CHECK_EQ_I64(STATUS_OK, archive_write(&out, i + 1, times[i], BYTES_LITERAL("a"),
                                              BYTES_LITERAL("NATS/1.0\r\nNats-TTL: never\r\n\r\n"), BYTES_NONE));
    }
    CHECK_EQ_I64(STATUS_OK, import(plane, 2, out.at, (uint32_t)out.size).status);
    buffer_free(&out);
    stream_state_t state = state_of(plane, 2);
    CHECK_EQ_U64(4, state.messages);
    CHECK_EQ_I64(1, state.first_ts);
    CHECK_EQ_I64(5, state.last_ts);
    rig_close_and_remove(plane);
}

static void from_headers(void) {
    plane_t *plane = rig_open_fresh("");
    put_stream(plane, 2, "T", "", -1);
    buffer_t out;
    buffer_init(&out, 1 << 20);
    bytes_t none = BYTES_NONE, a = BYTES_LITERAL("a");
    int64_t now = plane->now.wall_ns;
    CHECK_EQ_I64(STATUS_OK, archive_write(&out, 1, now, a, BYTES_LITERAL("NATS/1.0\r\nNats-Msg-Id: id\r\n\r\n"), none));
    CHECK_EQ_I64(STATUS_OK, archive_write(&out, 2, now - 9 * NS_PER_SECOND, a,
                                          BYTES_LITERAL("NATS/1.0\r\nNats-TTL: 5s\r\n\r\n"), none));
    CHECK_EQ_I64(
        STATUS_OK,
        archive_write(&out, 3, now, a, BYTES_LITERAL("NATS/1.0\r\nNats-Stream-Source: O:x 77 > > o.a\r\n\r\n"), none));
    CHECK_EQ_I64(STATUS_OK, import(plane, 2, out.at, (uint32_t)out.size).status);
    buffer_free(&out);
    stream_t *stream = stream_find(&plane->js, 2);
    CHECK_EQ_U64(2, state_of(plane, 2).messages);
    append_t again = {.subject = a, .msg_id = BYTES_LITERAL("id")};
    CHECK_EQ_I64(APPEND_DUPLICATE, store_append(stream->store, &again, plane->now).verdict);
    bytes_t value;
    CHECK_EQ_I64(ENTRY_FOUND, store_record_get(plane->js.stores[STORE_FILE], RECORD_SOURCE,
                                               BYTES_LITERAL("\0\0\0\2O:x > >"), &value));
    CHECK_EQ_U64(77, load_be64(value.at));
    rig_close_and_remove(plane);
}

static void positions(void) {
    plane_t *plane = rig_open_fresh("");
    fill(plane);
    struct {
        consumer_config_t config;
        consumer_state_t state;
        pending_entry_t rows[2];
    } body;
    memset(&body, 0, sizeof(body));
    body.config = rig_consumer;
    body.state =
        (consumer_state_t){.delivered_consumer = 9, .delivered_stream = 3, .floor_consumer = 6, .floor_stream = 1};
    body.rows[0] = (pending_entry_t){2, 7, plane->now.wall_ns - NS_PER_SECOND, 3};
    body.rows[1] = (pending_entry_t){3, 8, plane->now.wall_ns, 1}; /* deleted */
    plane_command_t command = {.op = COMMAND_CONSUMER_IMPORT, .target = 1, .arg = 1, .token = 6};
    rig_run_with(plane, command, &body, sizeof(body), rig_consumer_strings, 6);
    CHECK_EQ_I64(STATUS_OK, done(plane).status);
    rig_run(plane, (plane_command_t){.op = COMMAND_CONSUMER_EXPORT, .target = 1, .arg = 1, .token = 7}, NULL);
    plane_event_t event = done(plane);
    CHECK_EQ_U64(sizeof(consumer_state_t) + sizeof(pending_entry_t), event.payload_size);
    consumer_state_t state;
    pending_entry_t row;
    memcpy(&state, event.payload, sizeof(state));
    memcpy(&row, event.payload + sizeof(state), sizeof(row));
    CHECK_EQ_U64(9, state.delivered_consumer);
    CHECK_EQ_U64(3, state.delivered_stream);
    CHECK_EQ_U64(6, state.floor_consumer);
    CHECK_EQ_U64(1, state.pending);
    CHECK_EQ_U64(2, row.stream_seq);
    CHECK_EQ_U64(7, row.consumer_seq);
    CHECK_EQ_U64(3, row.deliveries);
    CHECK(row.delivered_ts <= plane->now.wall_ns - NS_PER_SECOND + NS_PER_MS
          && row.delivered_ts > plane->now.wall_ns - 20 * NS_PER_SECOND);
    body.rows[1].stream_seq = 1;
    command.arg = 2;
    rig_run_with(plane, command, &body, sizeof(body), rig_consumer_strings, 6);
    CHECK_EQ_I64(STATUS_INVALID, done(plane).status);
    rig_close_and_remove(plane);
}

#define FLIGHT 6000u

/* However many are in flight: no turn looks at more than one step's, and no batch has more than one step's rows. */
static void many_in_flight(void) {
    plane_t *plane = rig_open_fresh("");
    put_stream(plane, 1, "O", "o", -1);
    peer_t *peer = rig_client(plane);
    for (uint32_t i = 0; i < FLIGHT; i += 200) {
        char text[200 * 16 + 1];
        for (uint32_t k = 0; k < 200; k++) memcpy(text + k * 15, "PUB o 4\r\nabcd\r\n", 15);
        text[200 * 15] = 0;
        publish_one(plane, peer, text);
    }
    size_t fixed = sizeof(consumer_config_t) + sizeof(consumer_state_t);
    size_t size = fixed + FLIGHT * sizeof(pending_entry_t);
    uint8_t *body = malloc(size);
    CHECK(body != NULL);
    consumer_state_t state = {.delivered_consumer = FLIGHT, .delivered_stream = FLIGHT};
    memcpy(body, &rig_consumer, sizeof(rig_consumer));
    memcpy(body + sizeof(rig_consumer), &state, sizeof(state));
    for (uint32_t i = 0; i < FLIGHT; i++) {
        pending_entry_t row = {i + 1, i + 1, plane->now.wall_ns, 1};
        memcpy(body + fixed + i * sizeof(row), &row, sizeof(row));
    }
    (void)visits_take();
    rig_run_with(plane, (plane_command_t){.op = COMMAND_CONSUMER_IMPORT, .target = 1, .arg = 1, .token = 6}, body,
                 (uint32_t)size, rig_consumer_strings, 6);
    plane_event_t event = {.status = STATUS_AGAIN};
    for (int64_t until = 0; patient(&until) && event.status == STATUS_AGAIN;) {
        rig_turn(plane);
        CHECK(visits_take() <= 2 * (uint64_t)VISITS_AN_END_MAX); /* of all of them it would be four times that */
        if (!rig_event(plane, EVENT_DONE, &event)) event.status = STATUS_AGAIN;
    }
    CHECK_EQ_I64(STATUS_OK, event.status);
    free(body);
    rig_close(plane);
    plane = rig_open_again("");
    load_stream(plane, 1, "O", "o", -1, true);
    consumer_config_t config = rig_consumer;
    rig_run_with(plane, (plane_command_t){.op = COMMAND_CONSUMER_PUT, .target = 1, .arg = 1, .arg2 = 1, .token = 7},
                 &config, sizeof(config), rig_consumer_strings, 6);
    CHECK_EQ_I64(STATUS_OK, done(plane).status);
    uint32_t rows = 0;
    for (uint64_t after = 0; after < FLIGHT;) {
        rig_run(plane,
                (plane_command_t){.op = COMMAND_CONSUMER_EXPORT, .target = 1, .arg = 1, .arg2 = after, .token = 8},
                NULL);
        event = done(plane);
        CHECK(event.payload_size > sizeof(state));
        uint32_t page = (uint32_t)((event.payload_size - sizeof(state)) / sizeof(pending_entry_t));
        pending_entry_t last;
        memcpy(&last, event.payload + sizeof(state) + (page - 1) * sizeof(last), sizeof(last));
        after = last.stream_seq;
        rows += page;
    }
    CHECK_EQ_U64(FLIGHT, rows);
    rig_close_and_remove(plane);
}

int main(void) {
    RUN("what a stream gives out makes the same stream, and sequences behind it stay taken", there_and_back);
    RUN("a run of messages may be cut anywhere and is taken up where it was", cut_anywhere);
    RUN("what cannot be stored is refused with the reference's words, and nothing of it is", what_is_refused);
    RUN("messages whose subject is not valid are left out and counted, and the rest is restored", left_out);
    RUN("messages that are older than 1970 are of its first moment", older_than_1970);
    RUN("message ids, lifetimes and how far a source had come are made anew from headers", from_headers);
    RUN("a consumer stands where it stood, with what is in flight; a position out of order is none", positions);
    RUN("a consumer with thousands in flight comes in steps, and no turn is long for it", many_in_flight);
    return TEST_RESULT();
}
