/* test_plane_sources.c: what a mirror or source brings to a stream in a plane that discards what is new
 * (jetstream/ingest_refused.c), of one server and of several, here one of them: nothing is passed over, nothing comes
 * twice, and who delivers hears only of what was taken. So it is where the record of how far a source had come is
 * damaged. What members do with it: test_replicas.c.
 */
#include "stream_rig.h"

#include "disk/env.h"
#include "failing_reads.h"
#include "jetstream/replicated_private.h"
#include "meta/meta.h"
#include "store/ledger.h"

#define OWN UINT64_C(0x4141414141414141)
#define TOKEN 77u

static plane_t *plane;

static plane_event_t asked(plane_command_t command, const void *body, uint32_t size, const char *const parts[],
                           uint32_t count) {
    plane_event_t event;
    command.token = TOKEN;
    rig_run_with(plane, command, body, size, parts, count);
    for (int64_t until = 0; patient(&until);) {
        while (rig_event(plane, EVENT_DONE, &event)) {
            if (event.token == TOKEN) return event;
        }
        plane->now.mono_ns += 10 * NS_PER_MS;
        usleep(500);
        rig_turn(plane);
    }
    FAIL("command %u is not answered", command.op);
    return event;
}

static stream_t *the_stream(void) {
    return stream_find(&plane->js, 1);
}

static stream_state_t state(void) {
    stream_state_t found;
    stream_state_of(the_stream(), &found);
    return found;
}

/* As an older leafd has written it: 7, of no stamp. */
static bool has_older_position;

static void put_older_position(void) {
    uint8_t key[9] = {0, 0, 0, 1, 'O', ' ', '>', ' ', '>'}, value[8];
    store_be64(value, 7);
    CHECK_EQ_I64(STATUS_OK, store_record_put(plane->js.stores[STORE_FILE], RECORD_SOURCE, bytes_of(key, sizeof key),
                                             bytes_of(value, sizeof value)));
}

static void begin_in(const char *directory, bool again, bool shared, int64_t max_msgs, int64_t max_msg_size) {
    plane_limits_t limits = rig_limits(directory);
    limits.clustered = shared ? CLUSTERED_ROUTES | CLUSTERED_META : 0;
    plane = rig_open_with(rig_directory, limits);
    rig_account(plane, RIG_ACCOUNT, ACCOUNT_JETSTREAM, "");
    stream_config_t config = rig_stream;
    config.flags |= shared ? STREAM_REPLICATED : 0;
    config.discard = 1;
    config.max_msgs = max_msgs;
    config.max_msg_size = (int32_t)max_msg_size;
    const plane_command_t put = {.op = COMMAND_STREAM_PUT, .target = 1, .arg = again};
    CHECK_EQ_I64(STATUS_OK, asked(put, &config, sizeof config, rig_stream_strings, 8).status);
    if (!shared) {
        return;
    }
    if (has_older_position) put_older_position();
    CHECK_EQ_I64(STATUS_OK, asked((plane_command_t){.op = COMMAND_META_OPEN, .arg = OWN}, NULL, 0, NULL, 0).status);
    meta_disk_t disk = {.peer = OWN};
    CHECK(store_ledger_disk(plane->js.stores[STORE_FILE], &disk.disk));
    const plane_command_t join = {.op = COMMAND_STREAM_GROUP, .target = 1, .arg = 99};
    CHECK_EQ_I64(STATUS_OK, asked(join, &disk, sizeof disk, NULL, 0).status);
    for (int64_t until = 0; patient(&until) && the_stream()->subject_count == 0;) {
        plane->now.mono_ns += 50 * NS_PER_MS;
        usleep(500);
        rig_turn(plane);
    }
}

/* The stream discards what is new, and has room for so many messages. */
static void begin(bool shared, int64_t max_msgs, int64_t max_msg_size) {
    begin_in(rig_new_directory(), false, shared, max_msgs, max_msg_size);
}

/* The stream takes from the consumer C of the stream O, which delivers to the subject d. */
static status_t started_as(ingest_config_t config) {
    static const char *const parts[] = {"d", "C", "O", ">", ">", "", "O > >", "O"};
    const plane_command_t command = {.op = COMMAND_INGEST_START, .target = 1, .arg = 1};
    config.silence_ns = INT64_MAX;
    return asked(command, &config, sizeof config, parts, 8).status;
}

static status_t started(bool mirror) {
    return started_as((ingest_config_t){.mirror = mirror});
}

static void start(bool mirror) {
    CHECK_EQ_I64(STATUS_OK, started(mirror));
}

static ingest_state_t state_in(plane_event_t event) {
    ingest_state_t found;
    CHECK_EQ_I64(STATUS_OK, event.status);
    CHECK_EQ_U64(sizeof found, event.payload_size);
    memcpy(&found, event.payload, sizeof found);
    return found;
}

static ingest_state_t taken(void) {
    const uint64_t slot = UINT64_C(1) << 32 | 1;
    return state_in(asked((plane_command_t){.op = COMMAND_INGESTS_STATE}, &slot, sizeof slot, NULL, 0));
}

static ingest_state_t stopped(void) {
    return state_in(asked((plane_command_t){.op = COMMAND_INGEST_STOP, .target = 1, .arg = 1}, NULL, 0, NULL, 0));
}

static bytes_t text_of(const char *text) {
    return bytes_of((const uint8_t *)text, (uint32_t)strlen(text));
}

/* As C delivers it, which no client may: the origin's message `seq` as its delivery `nth`, so many bytes. */
static void deliver(uint64_t seq, uint64_t nth, int size) {
    char reply[100], payload[200];
    int length = snprintf(reply, sizeof reply, "$JS.ACK.O.C.1.%d.%d.%d000.0", (int)seq, (int)nth, (int)seq);
    CHECK(length > 0 && (size_t)length < sizeof reply);
    length = snprintf(payload, sizeof payload, "%0*d", size, (int)seq);
    CHECK(length > 0 && (size_t)length < sizeof payload);
    const message_t message = {.subject = text_of("s.a"), .reply = text_of(reply), .payload = text_of(payload)};
    ingest_frame(&plane->js, plane->js.ingests, &message, BYTES_NONE);
}

static void ask_for_credit(peer_t *origin) {
    rig_say(plane, origin, "HPUB d $JS.FC.O.C.1 36 36\r\nNATS/1.0 100 FlowControl Request\r\n\r\n\r\n");
}

static plane_event_t told(uint32_t code) {
    plane_event_t event;
    for (int64_t until = 0; patient(&until);) {
        while (rig_event(plane, EVENT_INGEST, &event)) {
            if (event.code == code) return event;
            CHECK_EQ_U64(INGEST_FIRST, event.code);
        }
        plane->now.mono_ns += NS_PER_MS;
        usleep(500);
        rig_turn(plane);
    }
    FAIL("nobody is told %u", code);
    return event;
}

static void until_stored(uint64_t messages) {
    for (int64_t until = 0; patient(&until) && state().messages < messages;) {
        plane->now.mono_ns += NS_PER_MS;
        usleep(500);
        rig_turn(plane);
    }
    CHECK_EQ_U64(messages, state().messages);
}

static void until_credit(peer_t *origin) {
    for (int64_t until = 0; patient(&until);) {
        if (strstr(rig_heard(origin), "MSG $JS.FC.O.C.1") != NULL) return;
        plane->now.mono_ns += NS_PER_MS;
        usleep(500);
        rig_turn(plane);
    }
    FAIL("no credit comes");
}

static peer_t *origin_of(void) {
    peer_t *origin = rig_client(plane);
    rig_feed(plane, origin, "SUB $JS.FC.> 1\r\n");
    rig_heard(origin);
    return origin;
}

/* Four come at once, and two have room. */
static void waits_for_room(bool shared, bool mirror) {
    begin(shared, 2, -1);
    start(mirror);
    peer_t *origin = origin_of();
    for (uint64_t i = 0; i < 4; i++) {
        deliver(5 + i, 1 + i, 8);
    }
    ask_for_credit(origin);
    CHECK_EQ_U64(6, told(INGEST_REFUSED).arg2);
    for (uint32_t i = 0; i < 20; i++) {
        rig_turn(plane);
    }
    CHECK(strstr(rig_heard(origin), "$JS.FC") == NULL);
    CHECK_EQ_U64(2, state().messages);
    ingest_state_t left = stopped();
    CHECK_EQ_U64(6, left.last_sequence);
    CHECK_EQ_U64(shared ? 2 : 1, left.lag); /* a server alone took none of the fourth */
    const plane_command_t delete = {.op = COMMAND_MESSAGE_DELETE, .target = 1, .arg = state().first_seq};
    rig_run_with(plane, delete, NULL, 0, NULL, 0);
    CHECK_EQ_U64(1, told(INGEST_ROOM).target);
    start(mirror);
    deliver(6, 1, 8); /* once more */
    deliver(7, 2, 8);
    ask_for_credit(origin);
    until_credit(origin);
    CHECK_EQ_U64(2, state().messages);
    CHECK_EQ_U64(mirror ? 7 : 3, state().last_seq);
    CHECK_EQ_U64(7, stopped().last_sequence);
    rig_close_and_remove(plane);
}

static void alone_waits(void) {
    waits_for_room(false, false);
    waits_for_room(false, true);
}

static void several_wait(void) {
    waits_for_room(true, false);
    waits_for_room(true, true);
}

/* The log has three messages under way when a source ends: the next one begins behind them. */
static void ends_behind_what_is_under_way(void) {
    begin(true, -1, -1);
    start(false);
    for (uint64_t i = 0; i < 3; i++) {
        deliver(5 + i, 1 + i, 8);
    }
    CHECK_EQ_U64(0, state().messages);
    CHECK_EQ_U64(7, stopped().last_sequence);
    CHECK_EQ_U64(3, state().messages);
    start(false);
    deliver(8, 1, 8);
    until_stored(4);
    CHECK_EQ_U64(8, stopped().last_sequence); /* nothing is under way */
    rig_close_and_remove(plane);
}

/* Its origin says that it was put back, and the source ends while the log has that under way. */
static void ends_where_it_stands_back(void) {
    const message_t says = {.subject = text_of("d"),
                            .reply = text_of("$JS.FC.O.C.1"),
                            .header = text_of("NATS/1.0 100 FlowControl Request\r\nLeafd-New-Behind: 5\r\n\r\n")};
    begin(true, -1, -1);
    CHECK_EQ_I64(STATUS_OK, started_as((ingest_config_t){.durable = 1}));
    for (uint64_t i = 0; i < 3; i++) {
        deliver(5 + i, 1 + i, 8);
    }
    until_stored(3);
    CHECK_EQ_U64(7, taken().last_sequence);
    ingest_frame(&plane->js, plane->js.ingests, &says, BYTES_NONE);
    CHECK_EQ_U64(5, stopped().last_sequence);
    CHECK_EQ_I64(STATUS_OK, started_as((ingest_config_t){.durable = 1}));
    deliver(6, 1, 8);
    until_stored(4);
    CHECK_EQ_U64(6, stopped().last_sequence);
    rig_close_and_remove(plane);
}

/* The stream goes, and who asked has an answer. */
static void ends_with_its_stream(void) {
    plane_event_t event = {0};
    uint32_t answers = 0;
    begin(true, -1, -1);
    start(false);
    deliver(5, 1, 8);
    plane_command_t stop = {.op = COMMAND_INGEST_STOP, .target = 1, .arg = 1, .token = TOKEN + 1};
    rig_run_with(plane, stop, NULL, 0, NULL, 0);
    plane_command_t remove = {.op = COMMAND_STREAM_REMOVE, .target = 1, .token = TOKEN + 2};
    rig_run_with(plane, remove, NULL, 0, NULL, 0);
    for (int64_t until = 0; patient(&until) && answers < 2;) {
        while (rig_event(plane, EVENT_DONE, &event)) {
            answers += event.token == TOKEN + 1 || event.token == TOKEN + 2;
            CHECK_EQ_I64(STATUS_OK, event.status);
        }
        plane->now.mono_ns += NS_PER_MS;
        usleep(500);
        rig_turn(plane);
    }
    CHECK_EQ_U64(2, answers);
    rig_close_and_remove(plane);
}

static void goes_on_from_an_older_leafd(void) {
    has_older_position = true;
    begin(true, -1, -1);
    has_older_position = false;
    CHECK(the_stream()->subject_count > 0);
    start(false);
    deliver(7, 1, 8);
    deliver(8, 2, 8);
    CHECK_EQ_U64(8, stopped().last_sequence);
    CHECK_EQ_U64(1, state().messages);
    rig_close_and_remove(plane);
}

/* What never fits is passed over, as on a server alone, and nothing else is. */
static void too_large(void) {
    for (uint32_t mirror = 0; mirror < 2; mirror++) {
        begin(true, -1, 100);
        start(mirror == 1);
        deliver(5, 1, 8);
        deliver(6, 2, 101);
        deliver(7, 3, 8);
        until_stored(2);
        CHECK_EQ_U64(mirror == 1 ? 7 : 2, state().last_seq);
        CHECK_EQ_U64(7, stopped().last_sequence);
        rig_close_and_remove(plane);
    }
}

/* One that does not run is said to be none, wherever it stands; an order that is not ascending is refused. */
static void states_of_some(void) {
    begin(false, -1, -1);
    start(false);
    deliver(5, 1, 8);
    until_stored(1);
    const uint64_t slots[] = {1, UINT64_C(1) << 32, UINT64_C(1) << 32 | 1, UINT64_C(1) << 32 | 2,
                              UINT64_C(2) << 32 | 1};
    ingest_state_t states[5];
    plane_event_t event = asked((plane_command_t){.op = COMMAND_INGESTS_STATE}, slots, sizeof slots, NULL, 0);
    CHECK_EQ_I64(STATUS_OK, event.status);
    CHECK_EQ_U64(sizeof states, event.payload_size);
    memcpy(states, event.payload, sizeof states);
    for (uint32_t i = 0; i < 5; i++) CHECK_EQ_U64(i == 2 ? 1 : STATE_UNKNOWN, states[i].running);
    CHECK_EQ_U64(5, states[2].last_sequence);
    const uint64_t twice[] = {slots[2], slots[2]}, back[] = {slots[3], slots[2]};
    event = asked((plane_command_t){.op = COMMAND_INGESTS_STATE}, twice, sizeof twice, NULL, 0);
    CHECK_EQ_I64(STATUS_INVALID, event.status);
    event = asked((plane_command_t){.op = COMMAND_INGESTS_STATE}, back, sizeof back, NULL, 0);
    CHECK_EQ_I64(STATUS_INVALID, event.status);
    rig_close_and_remove(plane);
}

/* ---- how far it had come, while it cannot be read ---------------------------------------------------------------- */

/* It is not told to be at its begin: no less than when it began, and all of it when reads work. */
static void what_cannot_be_read_is_not_nothing(void) {
    begin(true, -1, -1);
    start(false);
    for (uint64_t i = 0; i < 3; i++) {
        deliver(5 + i, 1 + i, 8);
    }
    until_stored(3);
    CHECK_EQ_U64(7, stopped().last_sequence);
    start(false);
    deliver(8, 1, 8);
    until_stored(4);
    uint64_t meanwhile = 8;
    for (int64_t until = 0; patient(&until) && meanwhile == 8;) { /* until a checkpoint has it */
        plane->now.mono_ns += NS_PER_SECOND;
        usleep(500);
        rig_turn(plane);
        failing_reads((failing_reads_t){.from = 1, .times = UINT32_MAX / 2, .error = EIO});
        meanwhile = taken().last_sequence;
        failing_reads((failing_reads_t){0});
    }
    CHECK_EQ_U64(7, meanwhile);
    CHECK_EQ_U64(8, taken().last_sequence);
    rig_close_and_remove(plane);
}

/* ---- how far it had come, damaged in both places ----------------------------------------------------------------- */

static void spoil_progress(void) {
    char reason[256];
    env_t *env;
    store_key_t key;
    bytes_t found = BYTES_NONE;
    core_shutdown(plane);
    rig_close(plane);
    CHECK_EQ_I64(STATUS_OK, env_open(rig_directory, 256 << 20, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    key_record(&key, RECORD_SOURCE, BYTES_NONE);
    CHECK_EQ_I64(READ_FOUND, env_write_seek(env, DB_RECORDS, key_bytes(&key), &found)); /* sealed: hidden behind it */
    CHECK(found.size > 1 && found.at[0] == RECORD_SOURCE);
    key.size = found.size;
    memcpy(key.at, found.at, found.size);
    CHECK_EQ_I64(STATUS_OK, env_write_raw(env, DB_RECORDS, key_bytes(&key), BYTES_LITERAL("spoiled, long enough")));
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    env_close(env);
    begin_in(rig_directory, true, false, -1, -1);
}

/* Three of the source, and one of a client behind them. */
static void three_and_one(void) {
    begin(false, -1, -1);
    start(false);
    for (uint64_t i = 0; i < 3; i++) {
        deliver(5 + i, 1 + i, 8);
    }
    until_stored(3);
    rig_say(plane, rig_client(plane), "PUB s.b 1\r\nx\r\n");
    until_stored(4);
}

static void messages_tell(void) {
    three_and_one();
    spoil_progress();
    start(false);
    for (uint64_t i = 0; i < 4; i++) {
        deliver(5 + i, 1 + i, 8);
    }
    until_stored(5);
    CHECK_EQ_U64(8, stopped().last_sequence);
    rig_close_and_remove(plane);
}

static void a_gap_tells_nothing(void) {
    three_and_one();
    const plane_command_t delete = {.op = COMMAND_MESSAGE_DELETE, .target = 1, .arg = 3};
    CHECK_EQ_I64(STATUS_OK, asked(delete, NULL, 0, NULL, 0).status);
    spoil_progress();
    CHECK_EQ_I64(STATUS_CORRUPT, started(false));
    CHECK_EQ_U64(3, state().messages);
    rig_close_and_remove(plane);
}

int main(void) {
    RUN("a full stream's copy waits for room, and goes on behind what it has", alone_waits);
    RUN("so does that of a stream of several servers, though more was on its way", several_wait);
    RUN("what is too large for a stream of several servers does not stop its copy", too_large);
    RUN("a source of a stream of several servers ends behind what the log has under way",
        ends_behind_what_is_under_way);
    RUN("likewise where its origin was put back, and it stands at an older sequence", ends_where_it_stands_back);
    RUN("several servers go on with a position that an older leafd has written", goes_on_from_an_older_leafd);
    RUN("who ends a source whose stream goes meanwhile has an answer", ends_with_its_stream);
    RUN("the states of several sources are told together", states_of_some);
    RUN("how far a source has come is never told as nothing while it cannot be read",
        what_cannot_be_read_is_not_nothing);
    RUN("a source whose progress is damaged goes on behind its last message here", messages_tell);
    RUN("it takes nothing, rather than all once more, where a removed message may have been a later one",
        a_gap_tells_nothing);
    return TEST_RESULT();
}
