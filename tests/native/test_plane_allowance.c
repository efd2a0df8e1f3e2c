/* test_plane_allowance.c: what an account may store, as clients and control hear of it. Texts and order of checks are
 * nats-server 2.15.1's; that an atomic batch is whole or not there is ours: nats-server stores a part and is silent.
 */
#include "stream_rig.h"

#define REFUSED                                                                                                        \
    "{\"error\":{\"code\":400,\"err_code\":10002,\"description\":\"resource limits exceeded for account\"},"           \
    "\"stream\":\"S\",\"seq\":0}"

static plane_t *plane;
static peer_t *a;

static void allow(int64_t file, int64_t memory) {
    allowed_t allowed = {.file = file, .memory = memory};
    rig_run_with(plane, (plane_command_t){.op = COMMAND_ALLOW, .token = 1}, &allowed, sizeof(allowed), NULL, 0);
}

static void start(uint32_t flags, int64_t file) {
    plane = rig_open_fresh("");
    stream_config_t config = rig_stream;
    config.flags = flags;
    config.duplicate_window_ns = 120 * NS_PER_SECOND;
    rig_put_stream(plane, config);
    allow(file, -1);
    rig_settle(plane);
    a = rig_client(plane);
    rig_feed(plane, a, "SUB _I.> 1\r\n");
}

static void says(const char *line, const char *expected) {
    rig_feed(plane, a, line);
    rig_settle(plane);
    const char *heard = rig_heard(a);
    if (strstr(heard, expected) == NULL) FAIL("%s: heard %s, not %s", line, heard, expected);
}

/* With a header of these lines. */
static void says_with(const char *lines, const char *expected) {
    char line[400];
    int size = 12 + (int)strlen(lines);
    snprintf(line, sizeof(line), "HPUB s.a _I.1 %d %d\r\nNATS/1.0\r\n%s\r\nxxx\r\n", size, size + 3, lines);
    says(line, expected);
}

static uint64_t stored(void) {
    return store_stream_bytes(stream_find(&plane->js, 1)->store);
}

/* 36 bytes each: s.a, xxx. */
static void publishers_are_refused_as_by_the_reference(void) {
    start(0, 100);
    says("PUB s.a _I.1 3\r\nxxx\r\n", "\"seq\":1}");
    says_with("Nats-Msg-Id: m\r\n", REFUSED); /* 70 bytes */
    says("PUB s.a _I.1 3\r\nxxx\r\n", "\"seq\":2}");
    says("PUB s.a _I.1 3\r\nxxx\r\n", REFUSED);
    says_with("Nats-Expected-Last-Sequence: 9\r\n", "\"err_code\":10071");
    allow(-1, -1);
    says_with("Nats-Msg-Id: m\r\n", "\"seq\":3}"); /* no duplicate */
    allow(100, -1);
    says_with("Nats-Msg-Id: m\r\n", "\"seq\":3,\"duplicate\": true}");
    says("PUB s.a _I.1 0\r\n\r\n", REFUSED);
    rig_close_and_remove(plane);
}

static void an_atomic_batch_is_whole_or_not_there(void) {
    start(STREAM_ALLOW_ATOMIC, 390);
    char lines[200];
    for (int batch = 0; batch < 2; batch++) { /* three messages of about 100 bytes, then four */
        int last = 3 + batch;
        for (int i = 1; i <= last; i++) {
            snprintf(lines, sizeof(lines), "Nats-Batch-Id: %d\r\nNats-Batch-Sequence: %d\r\n%s", batch, i,
                     i == last ? "Nats-Batch-Commit: 1\r\n" : "");
            says_with(lines, i < last ? " 0\r\n" : batch == 0 ? "\"count\":3}" : REFUSED);
        }
        CHECK(batch == 0 ? stored() > 250 && stored() <= 390 : stored() == 0);
        rig_run_with(plane, (plane_command_t){.op = COMMAND_STREAM_PURGE, .target = 1, .token = 2}, NULL, 0,
                     (const char *const[]){""}, 1);
        rig_settle(plane);
    }
    CHECK_EQ_U64(0, plane->js.staged.used);
    allow(10, -1); /* not even its first message: refused at once, and the batch is none */
    says_with("Nats-Batch-Id: me\r\nNats-Batch-Sequence: 1\r\n", REFUSED);
    CHECK_EQ_U64(0, plane->js.staged.used);
    rig_close_and_remove(plane);
}

static void a_fast_batch_stays_where_it_was(void) {
    start(STREAM_ALLOW_BATCHED, 100);
    says("PUB s.a _I.b.2.ok.1.0.$FI 3\r\nxxx\r\n", "{\"type\":\"ack\",\"seq\":0,\"msgs\":2}");
    says("PUB s.a _I.b.2.ok.2.1.$FI 40\r\n0123456789012345678901234567890123456789\r\n", REFUSED);
    says("PUB s.a _I.b.2.ok.2.2.$FI 3\r\nxxx\r\n", "\"batch\":\"b\",\"count\":2}");
    CHECK_EQ_U64(72, stored());
    rig_close_and_remove(plane);
}

static void hears_of(uint32_t level, uint64_t bytes, uint64_t limit) {
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_ALLOWANCE, &event));
    CHECK_EQ_U64(RIG_ACCOUNT, event.account);
    CHECK_EQ_U64(level, event.code);
    CHECK_EQ_U64(0, event.target);
    CHECK_EQ_U64(bytes, event.arg);
    CHECK_EQ_U64(limit, event.arg2);
    CHECK(!rig_event(plane, EVENT_ALLOWANCE, &event));
}

static void control_hears_of_each_level_once(void) {
    start(0, 180);
    for (int i = 0; i < 4; i++) says("PUB s.a _I.1 3\r\nxxx\r\n", "\"seq\":");
    plane_event_t event;
    CHECK(!rig_event(plane, EVENT_ALLOWANCE, &event)); /* 80 % to the byte */
    says("PUB s.a _I.1 3\r\nxxx\r\n", "\"seq\":5}");
    hears_of(ALLOWANCE_LEVEL_NEAR, 180, 180);
    says("PUB s.a _I.1 3\r\nxxx\r\n", REFUSED);
    says("PUB s.a _I.1 3\r\nxxx\r\n", REFUSED);
    hears_of(ALLOWANCE_LEVEL_FULL, 180, 180);
    allow(1800, -1);
    rig_settle(plane);
    hears_of(ALLOWANCE_LEVEL_BELOW, 180, 1800);
    allow(-1, -1);
    allow(90, -1);
    rig_settle(plane);
    hears_of(ALLOWANCE_LEVEL_NEAR, 180, 90);
    rig_close_and_remove(plane);
}

/* What was refused before may come in a message that makes nothing, or in a stream that is removed. */
static void a_stream_that_goes_takes_its_bytes_along(void) {
    start(0, 40);
    says("PUB s.a _I.1 3\r\nxxx\r\n", "\"seq\":1}");
    rig_run_with(plane, (plane_command_t){.op = COMMAND_STREAM_REMOVE, .target = 1, .token = 3}, NULL, 0, NULL, 0);
    rig_settle(plane);
    rig_run_with(plane, (plane_command_t){.op = COMMAND_STREAM_PUT, .target = 2, .token = 900}, &rig_stream,
                 sizeof(rig_stream), rig_stream_strings, 8);
    rig_settle(plane);
    says("PUB s.a _I.1 3\r\nxxx\r\n", "\"seq\":1}");
    says("PUB s.a _I.1 3\r\nxxx\r\n", REFUSED);
    rig_close_and_remove(plane);
}

int main(void) {
    RUN("a publisher is refused with 10002 where the reference does it", publishers_are_refused_as_by_the_reference);
    RUN("an atomic batch that does not fit is refused as a whole", an_atomic_batch_is_whole_or_not_there);
    RUN("a fast batch stays where it was when a message of it is refused", a_fast_batch_stays_where_it_was);
    RUN("control hears of each level once", control_hears_of_each_level_once);
    RUN("a stream that is removed takes its bytes along", a_stream_that_goes_takes_its_bytes_along);
    return TEST_RESULT();
}
