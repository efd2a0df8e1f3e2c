/* test_plane_reads.c: a read of LMDB that fails, at every place, while a daemon starts on a stream with a consumer, and
 * while the consumer goes on. What is refused meanwhile is asked again, as control and clients do. Afterwards, with all
 * reads working, the consumer is exactly where it would have been without the fault, after another start too: every
 * message was delivered once, none that is not acknowledged is forgotten, none that is comes again; and somebody was
 * told of the fault. A source takes nothing twice. Reads of the store alone: test_store_faults_memory.c.
 */
#include "plane_reads.h"

#define MESSAGES 10
#define TAKEN 6 /* before the start: of these 1, 2 and 4 are acknowledged */

static unsigned delivered[MESSAGES + 2];

/* Deliveries are counted, each of them once for all. */
static void count_deliveries(const char *heard) {
    for (const char *at = heard; (at = strstr(at, "$JS.ACK.S.C.")) != NULL; at++) {
        unsigned long times, seq;
        READS_CHECK(sscanf(at, "$JS.ACK.S.C.%lu.%lu.", &times, &seq) == 2 && seq <= MESSAGES + 1);
        READS_CHECK(times == 1);
        delivered[seq]++;
    }
}

static void put(bool loading) {
    put_stream(loading);
    put_consumer(loading);
}

static consumer_state_t consumer_state(void) {
    consumer_state_t state;
    rig_run_with(plane, (plane_command_t){.op = COMMAND_CONSUMER_STATE, .target = 1, .arg = 1, .token = 3}, NULL, 0,
                 NULL, 0);
    plane_event_t event = answer(3);
    READS_CHECK(event.status == STATUS_OK && event.payload_size >= sizeof state);
    memcpy(&state, event.payload, sizeof state);
    exchange_release(&plane->exchange, 1);
    return state;
}

/* Ten messages, six taken, three acknowledged, all of it checkpointed; the daemon stops. */
static void prepare(void) {
    (void)rig_new_directory();
    start();
    put(false);
    join();
    for (unsigned i = 0; i < MESSAGES; i++) {
        char line[60];
        snprintf(line, sizeof line, "PUB s.%u _I.p 1\r\nx\r\n", i % 3);
        insist(line, "\"seq\":");
    }
    say("PUB $JS.API.CONSUMER.MSG.NEXT.S.C _I.d 11\r\n{\"batch\":6}\r\n");
    for (int64_t until = 0; patient(&until) && delivered[TAKEN] == 0; usleep(50)) {
        rig_turn(plane);
        (void)hear();
    }
    say("PUB $JS.ACK.S.C.1.1.1.0.0 4\r\n+ACK\r\nPUB $JS.ACK.S.C.1.2.2.0.0 4\r\n+ACK\r\nPUB $JS.ACK.S.C.1.4.4.0.0 "
        "4\r\n+ACK\r\n");
    rig_settle(plane);
    pass(21 * NS_PER_SECOND);
    rig_settle(plane);
    rig_close(plane);
}

/* A message more, an acknowledgement, and all that is left is taken. */
static void go_on(void) {
    insist("PUB s.0 _I.p 1\r\ny\r\n", "\"seq\":11");
    say("PUB $JS.ACK.S.C.1.3.3.0.0 4\r\n+ACK\r\nPUB $JS.API.CONSUMER.MSG.NEXT.S.C _I.d 11\r\n{\"batch\":9}\r\n");
    for (unsigned i = 0; i < 20; i++) {
        pass(20 * NS_PER_MS);
        (void)hear();
    }
}

static void check_consumer(const char *when) {
    consumer_state_t state = consumer_state();
    if (state.delivered_stream != MESSAGES + 1 || state.floor_stream != 4 || state.ack_pending != MESSAGES + 1 - 4
        || state.pending != 0) {
        FAIL("read %u fails, %s: delivered up to %llu, acknowledged up to %llu, %llu wait for one, %llu are to come",
             failing_at, when, (unsigned long long)state.delivered_stream, (unsigned long long)state.floor_stream,
             (unsigned long long)state.ack_pending, (unsigned long long)state.pending);
    }
    for (unsigned seq = 1; seq <= MESSAGES + 1; seq++) {
        if (delivered[seq] != 1)
            FAIL("read %u fails, %s: %u was delivered %u times", failing_at, when, seq, delivered[seq]);
    }
    stream_state_t stream;
    stream_state_of(stream_find(&plane->js, 1), &stream);
    uint64_t first = config.retention == 2 ? 5 : 1;
    READS_CHECK(stream.first_seq == first && stream.last_seq == MESSAGES + 1);
    READS_CHECK(stream.messages == MESSAGES + 2 - first);
}

/* true: the n-th read was reached. */
static bool run(unsigned n, unsigned times, int error) {
    failing_at = n;
    told = false;
    memset(delivered, 0, sizeof delivered);
    prepare();
    failing_reads((failing_reads_t){.from = n, .times = times, .error = error});
    start();
    put(true);
    join();
    go_on();
    bool reached = failing_reads_count() >= n;
    failing_reads((failing_reads_t){0});
    for (unsigned i = 0; i < 60; i++) { /* what a fault put off is done by then */
        pass(20 * NS_PER_MS);
        (void)hear();
    }
    check_consumer("afterwards");
    READS_CHECK(!reached || told);
    rig_settle(plane);
    rig_close(plane);
    start();
    put(true);
    join();
    pass(20 * NS_PER_MS);
    check_consumer("after a start");
    rig_close_and_remove(plane);
    return reached;
}

static void play(const char *name, uint8_t retention) {
    config = rig_stream;
    config.retention = retention;
    unsigned most = 0;
    for (unsigned n = 1; run(n, 1, EIO); n += test_stride()) most = n;
    for (unsigned n = 1; n <= most; n += 3 * test_stride()) (void)run(n, 3, n % 2 == 0 ? ENOMEM : MDB_CORRUPTED);
    CHECK(most > 0);
    printf("%s: %u reads\n", name, most);
}

static void a_consumer_is_where_it_was(void) {
    play("limits", 0);
}

static void a_work_queue_is_where_it_was(void) {
    play("work queue", 2);
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

static const char *const origin[] = {"d", "C", "O", ">", ">", "", "O > >", ""};

static void start_source(void) {
    ingest_config_t ingest = {.silence_ns = 60 * NS_PER_SECOND};
    unsigned tries = 0;
    for (;;) {
        rig_run_with(plane, (plane_command_t){.op = COMMAND_INGEST_START, .target = 1, .arg = 1, .token = 4}, &ingest,
                     sizeof ingest, origin, 8);
        int32_t status = answered(4);
        READS_CHECK(status != STATUS_NOT_FOUND);
        if (status == STATUS_OK) return;
        again(&tries);
    }
}

/* What the origin sends of its messages over a link, by their sequences. */
static void deliver(unsigned from, unsigned to) {
    peer_t *link = rig_leaf(plane, 0, "hub", NULL);
    for (unsigned seq = from; seq <= to; seq++) {
        char line[100];
        snprintf(line, sizeof line, "LMSG d $JS.ACK.O.C.1.%u.%u.1700000000000000000.0 1\r\nx\r\n", seq, seq);
        rig_feed(plane, link, line);
    }
    rig_settle(plane);
}

static uint64_t stored(void) {
    stream_state_t stream;
    stream_state_of(stream_find(&plane->js, 1), &stream);
    return stream.messages;
}

/* Four messages are taken, and the daemon stops; the origin sends them again, and four more. */
static bool run_source(unsigned n) {
    failing_at = n;
    told = false;
    config = rig_stream;
    (void)rig_new_directory();
    start();
    put(false);
    join();
    start_source();
    deliver(1, 4);
    READS_CHECK(stored() == 4);
    pass(21 * NS_PER_SECOND);
    rig_settle(plane);
    rig_close(plane);
    failing_reads((failing_reads_t){.from = n, .times = 1, .error = EIO});
    start();
    put(true);
    join();
    start_source();
    deliver(1, 8);
    bool reached = failing_reads_count() >= n;
    failing_reads((failing_reads_t){0});
    READS_CHECK(stored() >= 4 && stored() <= 8);
    start_source(); /* as control does when it is told that one could not be stored */
    deliver(1, 8);
    READS_CHECK(stored() == 8);
    rig_close_and_remove(plane);
    return reached;
}

static void a_source_takes_nothing_twice(void) {
    unsigned most = 0;
    for (unsigned n = 1; run_source(n); n += test_stride()) most = n;
    CHECK(most > 0);
    printf("source: %u reads\n", most);
}

/* The start asks for them before anybody may make a stream. */
static void a_definition_is_never_taken_for_missing(void) {
    unsigned n = 0, unknown = 0;
    uint8_t key[64], value[4096];
    uint32_t key_size = 0;
    start();
    put(false);
    rig_settle(plane);
    rig_close(plane);
    plane = rig_open_again("");
    int64_t size = plane_record_next(plane, RECORD_STREAM, NULL, 0, key, &key_size, value, sizeof value);
    CHECK(size > 0);
    /* One read that fails leads to the copies of the records. Where all fail from one on, it is not known. */
    for (unsigned times = 1; times <= 1000; times += 999) {
        n = 0;
        do {
            failing_reads((failing_reads_t){.from = ++n, .times = times, .error = EIO});
            int64_t got = plane_record_next(plane, RECORD_STREAM, NULL, 0, key, &key_size, value, sizeof value);
            CHECK(got == size || got == -2);
            unknown += got == -2;
        } while (failing_reads_count() >= n);
    }
    failing_reads((failing_reads_t){0});
    CHECK(unknown > 0);
    rig_close_and_remove(plane);
}

int main(void) {
    reader = rig_consumer;
    listen_to = count_deliveries;
    RUN("a consumer is where it was, whichever read failed", a_consumer_is_where_it_was);
    RUN("a work queue and its consumer are where they were", a_work_queue_is_where_it_was);
    RUN("a source takes nothing twice, whichever read failed", a_source_takes_nothing_twice);
    RUN("a stream's definition is read or not known, never missing, whichever read failed",
        a_definition_is_never_taken_for_missing);
    return TEST_RESULT();
}
