/* test_consume_pull.c: what a pull request gets. Expected texts are what nats-server 2.15.1 answered to the same. */
#include "consume_rig.h"

static void delivers_in_order(void) {
    rig_start(0);
    rig_publish("s.1", "one");
    rig_publish("s.2", "two");
    consumer_t *consumer = rig_add_plain();
    rig_pull(consumer, "in", "{\"batch\":2}");
    EXPECT("in <- s.1 | $JS.ACK.S.c.1.1.1.1700000000000000001.1 |  | one");
    EXPECT("in <- s.2 | $JS.ACK.S.c.1.2.2.1700000000000000002.0 |  | two");
    EXPECT_NOTHING();
    consumer_state_t state = rig_state(consumer);
    CHECK_EQ_U64(2, state.delivered_consumer);
    CHECK_EQ_U64(2, state.delivered_stream);
    CHECK_EQ_U64(2, state.ack_pending);
    CHECK_EQ_U64(0, state.pending);
    CHECK_EQ_U64(0, state.waiting);
    CHECK_EQ_U64(0, state.floor_stream);
}

static void waits_for_messages(void) {
    rig_start(0);
    consumer_t *consumer = rig_add_plain();
    rig_pull(consumer, "in", "");
    EXPECT_NOTHING();
    CHECK_EQ_U64(1, rig_state(consumer).waiting);
    rig_publish("s", "x");
    rig_run();
    EXPECT("in <- s | $JS.ACK.S.c.1.1.1.1700000000000000001.0 |  | x");
    CHECK_EQ_U64(0, rig_state(consumer).waiting);
}

static void invisible_waits(void) {
    rig_start(0);
    rig.stream->hold = true;
    consumer_t *consumer = rig_add_plain();
    rig_publish("s", "x");
    rig_pull(consumer, "in", "1");
    EXPECT_NOTHING();
    fake_show(rig.stream);
    consume_advanced(rig.consume, rig.stream);
    rig_run();
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.1.1");
}

static void plain_bodies(void) {
    static const struct {
        const char *body;
        int messages;
    } cases[] = {{"", 1},   {"  ", 1}, {"3", 3},   {"+2", 2}, {" 2\n", 2},         {"0", 1},
                 {"-3", 1}, {"x", 1},  {"2.5", 1}, {"{}", 1}, {"{\"batch\":0}", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig_start(0);
        consumer_t *consumer = rig_add_plain();
        rig_publish_many("s", 5);
        rig_pull(consumer, "in", cases[i].body);
        CHECK_EQ_U64(cases[i].messages, rig.deliveries);
        CHECK_EQ_U64(0, rig_state(consumer).waiting);
    }
}

static void bad_requests(void) {
    static const struct {
        const char *body, *error;
    } cases[] = {
        {"{\"batch\":\"x\"}", "json: cannot unmarshal string into Go struct field .batch of type int"},
        {"{\"batch\":1.5}", "json: cannot unmarshal number 1.5 into Go struct field .batch of type int"},
        {"{\"batch\":1e2}", "json: cannot unmarshal number 1e2 into Go struct field .batch of type int"},
        {"{\"batch\":99999999999999999999}",
         "json: cannot unmarshal number 99999999999999999999 into Go struct field .batch of type int"},
        {"{\"batch\":true}", "json: cannot unmarshal bool into Go struct field .batch of type int"},
        {"{\"batch\":[1]}", "json: cannot unmarshal array into Go struct field .batch of type int"},
        {"{\"batch\":{}}", "json: cannot unmarshal object into Go struct field .batch of type int"},
        {"{\"no_wait\":1}", "json: cannot unmarshal number into Go struct field .no_wait of type bool"},
        {"{\"expires\":\"1s\"}", "json: cannot unmarshal string into Go struct field .expires of type time.Duration"},
        {"{\"batch\"", "unexpected end of JSON input"},
        {"{\"a\":tru}", "invalid character '}' in literal true (expecting 'e')"},
        {"{\"a\":1,}", "invalid character '}' looking for beginning of object key string"},
        {"{,}", "invalid character ',' looking for beginning of object key string"},
        {"{\"a\" 1}", "invalid character '1' after object key"},
        {"{\"a\":1 2}", "invalid character '2' after object key:value pair"},
        {"{\"a\":[1 2]}", "invalid character '2' after array element"},
        {"{\"a\":\"\x01\"}", "invalid character '\\x01' in string"},
        {"{\"a\":01}", "invalid character '1' after object key:value pair"},
        {"{\"a\":1.}", "invalid character '}' in numeric literal"},
        {"{\"a\":1e}", "invalid character '}' in numeric literal"},
        {"{\"a\":-}", "invalid character '}' in numeric literal"},
        {"{} x", "invalid character 'x' after top-level value"},
        {"{\"a\":\"\\q\"}", "invalid escape sequence `\\q` in string"},
        {"{\"a\":\"\\u12g\"}", "invalid escape sequence `\\u12g\"` in string"},
        {"{\"a\":'x'}", "invalid character '\\'' looking for beginning of value"},
        {"{\"a\":\xc3\xa9}", "invalid character '\xc3\xa9' looking for beginning of value"},
        {"{\"idle_heartbeat\":1000,\"expires\":1000}", "heartbeat value too large"},
        {"{\"min_pending\":1}", "Not a Overflow Priority consumer"},
        {"{\"id\":\"x\"}", "Not a Pinned Client Priority consumer"},
        {"{\"priority\":10}", "Priority must be between 0 and 9"},
        {"{\"priority\":-1}", "Priority must be between 0 and 9"},
    };
    rig_start(0);
    consumer_t *consumer = rig_add_plain();
    rig_publish("s", "x");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[300];
        (void)snprintf(line, sizeof line, "in <*  | NATS/1.0 400 Bad Request - %s~~", cases[i].error);
        rig_pull(consumer, "in", cases[i].body);
        EXPECT(line);
        EXPECT_NOTHING();
    }
}

static void lenient_requests(void) {
    rig_start(0);
    consumer_t *consumer = rig_add_plain();
    rig_publish_many("s", 9);
    rig_pull(consumer, "in", "{\"BATCH\":2,\"unknown\":{\"a\":[1,\"\\u00e9\"]}}");
    CHECK_EQ_U64(2, rig.deliveries);
    rig_pull(consumer, "in", "{\"batch\":null,\"group\":\"x\"}");
    CHECK_EQ_U64(3, rig.deliveries);
    consumer_pull(consumer, BYTES_NONE, text("1"), rig.now);
    rig_run();
    CHECK_EQ_U64(3, rig.deliveries);
}

static void no_wait_empty(void) {
    rig_start(0);
    consumer_t *consumer = rig_add_plain();
    rig_pull(consumer, "in", "{\"batch\":5,\"no_wait\":true}");
    EXPECT("in <*  | NATS/1.0 404 No Messages~~");
    EXPECT_NOTHING();
}

static void no_wait_partial(void) {
    rig_start(0);
    consumer_t *consumer = rig_add_plain();
    rig_publish("s", "x");
    rig_pull(consumer, "in", "{\"batch\":5,\"no_wait\":true}");
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.1.1");
    EXPECT("in <*  | NATS/1.0 404 No Messages~~");
    CHECK_EQ_U64(0, rig_state(consumer).waiting);
}

static void no_wait_full(void) {
    rig_start(0);
    consumer_t *consumer = rig_add_plain();
    rig_publish_many("s", 2);
    rig_pull(consumer, "in", "{\"batch\":2,\"no_wait\":true}");
    EXPECT_DELIVERY("in <- s");
    EXPECT_DELIVERY("in <- s");
    EXPECT_NOTHING();
}

static void no_wait_with_expiry(void) {
    rig_start(0);
    consumer_t *consumer = rig_add_plain();
    rig_pull(consumer, "in", "{\"batch\":5,\"no_wait\":true,\"expires\":2000000000}");
    EXPECT_NOTHING();
    rig_pass(SECOND);
    rig_publish("s", "x");
    rig_run();
    EXPECT_DELIVERY("in <- s");
    EXPECT("in <*  | NATS/1.0 404 No Messages~~");
    rig_pull(consumer, "in", "{\"batch\":5,\"no_wait\":true,\"expires\":2000000000}");
    rig_pass(3 * SECOND);
    EXPECT("in <*  | NATS/1.0 408 Request Timeout~Nats-Pending-Messages: 5~Nats-Pending-Bytes: 0~~");
}

static void no_wait_stalled(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.max_ack_pending = 1;
    consumer_t *consumer = rig_add(&setup);
    rig_publish_many("s", 3);
    rig_pull(consumer, "in", "{\"batch\":3,\"no_wait\":true}");
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.1.1");
    EXPECT_NOTHING();
    CHECK_EQ_U64(1, rig_state(consumer).waiting);
}

static void requests_pending(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.max_ack_pending = 1;
    consumer_t *consumer = rig_add(&setup);
    rig_publish_many("s", 3);
    rig_pull(consumer, "a", "10");
    rig_skip();
    rig_pull(consumer, "b", "{\"batch\":1,\"no_wait\":true}");
    EXPECT("b <*  | NATS/1.0 408 Requests Pending~~");
    rig_start(0);
    consumer = rig_add_plain();
    rig_pull(consumer, "a", "10");
    rig_pull(consumer, "b", "{\"batch\":1,\"no_wait\":true,\"expires\":100000000}");
    EXPECT_NOTHING(); /* nothing is there at all: it waits */
    CHECK_EQ_U64(2, rig_state(consumer).waiting);
}

static void timeout(void) {
    rig_start(0);
    consumer_t *consumer = rig_add_plain();
    rig_publish_many("s", 2);
    rig_pull(consumer, "in", "{\"batch\":5,\"expires\":1500000000,\"max_bytes\":1000}");
    rig_skip();
    rig_pass(1500 * NS_PER_MS); /* who waits as long as he asked for sees his own timeout, not the status */
    EXPECT_NOTHING();
    rig_pass(1 * NS_PER_MS);
    /* a message costs subject 1, ack subject 39, payload 1 */
    EXPECT("in <*  | NATS/1.0 408 Request Timeout~Nats-Pending-Messages: 3~Nats-Pending-Bytes: 918~~");
}

static void expired_at_once(void) {
    rig_start(0);
    consumer_t *consumer = rig_add_plain();
    rig_publish("s", "x");
    rig_pull(consumer, "in", "{\"expires\":-5}");
    EXPECT("in <*  | NATS/1.0 408 Request Timeout~Nats-Pending-Messages: 0~Nats-Pending-Bytes: 0~~");
    EXPECT_NOTHING();
}

static void heartbeats(void) {
    rig_start(0);
    consumer_t *consumer = rig_add_plain();
    rig_publish_many("s", 2);
    rig_pull(consumer, "in", "{\"batch\":5,\"expires\":1500000000,\"idle_heartbeat\":600000000}");
    rig_skip();
    rig_pass(599 * NS_PER_MS);
    EXPECT_NOTHING();
    rig_pass(2 * NS_PER_MS);
    EXPECT("in <*  | NATS/1.0 100 Idle Heartbeat~Nats-Last-Consumer: 2~Nats-Last-Stream: 2~~");
    rig_pass(600 * NS_PER_MS);
    EXPECT("in <*  | NATS/1.0 100 Idle Heartbeat~Nats-Last-Consumer: 2~Nats-Last-Stream: 2~~");
    rig_pass(400 * NS_PER_MS);
    EXPECT("in <*  | NATS/1.0 408 Request Timeout~Nats-Pending-Messages: 3~Nats-Pending-Bytes: 0~~");
    EXPECT_NOTHING();
}

static void heartbeat_restarts(void) {
    rig_start(0);
    consumer_t *consumer = rig_add_plain();
    rig_pull(consumer, "in", "{\"batch\":5,\"expires\":9000000000,\"idle_heartbeat\":1000000000}");
    rig_pass(900 * NS_PER_MS);
    rig_publish("s", "x");
    rig_run();
    EXPECT_DELIVERY("in <- s");
    rig_pass(900 * NS_PER_MS);
    EXPECT_NOTHING();
    rig_pass(200 * NS_PER_MS);
    EXPECT("in <*  | NATS/1.0 100 Idle Heartbeat~Nats-Last-Consumer: 1~Nats-Last-Stream: 1~~");
}

static void max_bytes(void) {
    rig_start(0);
    consumer_t *consumer = rig_add_plain();
    rig_publish_many("s", 9);
    rig_pull(consumer, "in", "{\"batch\":5,\"max_bytes\":20}");
    EXPECT("in <*  | NATS/1.0 409 Message Size Exceeds MaxBytes~Nats-Pending-Messages: 5~Nats-Pending-Bytes: 20~~");
    EXPECT_NOTHING();
    rig_pull(consumer, "in", "{\"batch\":2,\"max_bytes\":100}"); /* twice 1 + 39 + 1 */
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.1.1.");
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.2.2.");
    EXPECT("in <*  | NATS/1.0 409 Batch Completed~Nats-Pending-Messages: 0~Nats-Pending-Bytes: 18~~");
    rig_pull(consumer, "in", "{\"batch\":5,\"max_bytes\":82}");
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.3.3.");
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.4.4.");
    EXPECT_NOTHING(); /* used up to the byte: as good as filled */
    CHECK_EQ_U64(0, rig_state(consumer).waiting);
}

static void request_limits(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.max_batch = 5;
    setup.config.max_expires_ns = 2500000000;
    setup.config.max_request_bytes = 1000;
    consumer_t *consumer = rig_add(&setup);
    rig_pull(consumer, "in", "6");
    EXPECT("in <*  | NATS/1.0 409 Exceeded MaxRequestBatch of 5~~");
    rig_pull(consumer, "in", "{\"expires\":3000000000}");
    EXPECT("in <*  | NATS/1.0 409 Exceeded MaxRequestExpires of 2.5s~~");
    rig_pull(consumer, "in", "{\"max_bytes\":2000}");
    EXPECT("in <*  | NATS/1.0 409 Exceeded MaxRequestMaxBytes of 1000~~");
    EXPECT_NOTHING();
}

static void max_waiting(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.max_waiting = 1;
    consumer_t *consumer = rig_add(&setup);
    rig_pull(consumer, "a", "1");
    rig_pull(consumer, "b", "1");
    EXPECT("b <*  | NATS/1.0 409 Exceeded MaxWaiting~~");
    rig_pull(consumer, "b", "{\"batch\":1,\"expires\":9000000000,\"idle_heartbeat\":1000000000}");
    EXPECT_NOTHING();
    CHECK_EQ_U64(1, rig_state(consumer).waiting);
}

/* How often the consumer asks whether somebody listens, to answer one request. */
static uint32_t questions_of(consumer_t *consumer, const char *body) {
    uint32_t before = rig.questions;
    consumer_pull(consumer, text("late"), text(body), rig.now);
    return rig.questions - before;
}

static void long_line(void) {
    enum { LINE = 100000, FEW = 64, SLICE = 2048 };
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.max_waiting = LINE;
    consumer_t *consumer = rig_add(&setup);
    for (uint32_t i = 0; i < LINE; i++) consumer_pull(consumer, text("in"), text("1000"), rig.now);
    CHECK(questions_of(consumer, "1") <= SLICE);
    CHECK(questions_of(consumer, "1") <= FEW);
    rig_publish_many("s", 5);
    CHECK(consumer_counted(consumer));
    CHECK(questions_of(consumer, "{\"no_wait\":true}") <= FEW);
    EXPECT("late <*  | NATS/1.0 409 Exceeded MaxWaiting~~");
    EXPECT("late <*  | NATS/1.0 409 Exceeded MaxWaiting~~");
    EXPECT("late <*  | NATS/1.0 408 Requests Pending~~");
    uint32_t before = rig.questions;
    CHECK_EQ_U64(LINE, rig_state(consumer).waiting);
    CHECK(rig.questions - before <= FEW);
}

static void long_line_empties(void) {
    enum { LINE = 5000 };
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.max_waiting = LINE;
    consumer_t *consumer = rig_add(&setup);
    for (uint32_t i = 0; i < LINE; i++) consumer_pull(consumer, text(i % 2 != 0 ? "here" : "gone"), text("1"), rig.now);
    (void)strcpy(rig.interest[0], "here");
    for (int i = 0; i < 10; i++) {
        (void)rig_state(consumer);
        rig_pass(SECOND / 10);
    }
    CHECK_EQ_U64(LINE / 2, rig_state(consumer).waiting);
    consumer_pull(consumer, text("here"), text("1"), rig.now);
    CHECK_EQ_U64(LINE / 2 + 1, rig_state(consumer).waiting);
    rig.quiet = true;
    rig_publish_many("s", LINE);
    rig_run();
    CHECK_EQ_U64(1000, rig.deliveries); /* max_ack_pending */
}

static void usual_line(void) {
    rig_start(0);
    consumer_t *consumer = rig_add_plain();
    for (uint32_t i = 0; i < 512; i++) rig_pull(consumer, i == 400 ? "gone" : "here", "1");
    (void)strcpy(rig.interest[0], "here");
    rig_pull(consumer, "here", "1");
    EXPECT_NOTHING();
    rig_pull(consumer, "here", "1");
    EXPECT("here <*  | NATS/1.0 409 Exceeded MaxWaiting~~");
    CHECK_EQ_U64(512, rig_state(consumer).waiting);
}

static void wanted_in_sum(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.max_ack_pending = 2;
    consumer_t *consumer = rig_add(&setup);
    rig_pull(consumer, "a", "9223372036854775807");
    rig_pull(consumer, "b", "9223372036854775807");
    rig_pull(consumer, "c", "4");
    (void)strcpy(rig.interest[0], "c");
    CHECK_EQ_U64(1, rig_state(consumer).waiting);
    rig_publish_many("s", 5); /* two go out, and two are wanted of the three that stay */
    rig_run();
    (void)strcpy(rig.interest[0], "*");
    rig_skip();
    rig_pull(consumer, "d", "{\"batch\":1,\"no_wait\":true}");
    EXPECT_NOTHING();
    rig_pull(consumer, "e", "{\"batch\":1,\"no_wait\":true}");
    EXPECT_NOTHING();
    rig_pull(consumer, "f", "{\"batch\":1,\"no_wait\":true}");
    EXPECT("f <*  | NATS/1.0 408 Requests Pending~~");
}

static void push_refuses(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.flags |= CONSUMER_PUSH;
    setup.deliver_subject = text("d");
    consumer_t *consumer = rig_add(&setup);
    rig_pull(consumer, "in", "1");
    EXPECT("in <*  | NATS/1.0 409 Consumer is push based~~");
}

static void round_robin(void) {
    rig_start(0);
    consumer_t *consumer = rig_add_plain();
    rig_pull(consumer, "a", "2");
    rig_pull(consumer, "b", "3");
    rig_publish_many("s", 5);
    rig_run();
    EXPECT_DELIVERY("a <- s | $JS.ACK.S.c.1.1.");
    EXPECT_DELIVERY("b <- s | $JS.ACK.S.c.1.2.");
    EXPECT_DELIVERY("a <- s | $JS.ACK.S.c.1.3.");
    EXPECT_DELIVERY("b <- s | $JS.ACK.S.c.1.4.");
    EXPECT_DELIVERY("b <- s | $JS.ACK.S.c.1.5.");
}

static void lost_interest(void) {
    rig_start(0);
    consumer_t *consumer = rig_add_plain();
    rig_pull(consumer, "a", "2");
    rig_pull(consumer, "b", "2");
    (void)strcpy(rig.interest[0], "b");
    CHECK_EQ_U64(1, rig_state(consumer).waiting);
    rig_pull(consumer, "a", "2");
    rig_publish_many("s", 2);
    rig_run();
    EXPECT_DELIVERY("b <- s | $JS.ACK.S.c.1.1.1");
    EXPECT_DELIVERY("b <- s | $JS.ACK.S.c.1.2.2");
    EXPECT_NOTHING();
}

static void no_message_is_lost_to_nobody(void) {
    rig_start(0);
    consumer_t *consumer = rig_add_plain();
    rig_publish("s", "x");
    rig.interest[0][0] = 0;
    rig_pull(consumer, "a", "2");
    EXPECT_NOTHING();
    consumer_state_t state = rig_state(consumer);
    CHECK_EQ_U64(0, state.delivered_consumer);
    CHECK_EQ_U64(1, state.pending);
    CHECK_EQ_U64(0, state.ack_pending);
    (void)strcpy(rig.interest[0], "*");
    rig_pull(consumer, "b", "1");
    EXPECT_DELIVERY("b <- s | $JS.ACK.S.c.1.1.1");
}

static void full_receiver(void) {
    rig_start(0);
    consumer_t *consumer = rig_add_plain();
    (void)strcpy(rig.full, "a");
    rig.full_after = 1;
    rig_publish_many("s", 5);
    consumer_pull(consumer, text("a"), text("3"), rig.now);
    rig_pull(consumer, "b", "2");
    EXPECT_DELIVERY("a <- s | $JS.ACK.S.c.1.1.1.");
    EXPECT_DELIVERY("b <- s | $JS.ACK.S.c.1.2.2.");
    EXPECT_DELIVERY("b <- s | $JS.ACK.S.c.1.3.3.");
    EXPECT_NOTHING();
    rig.full[0] = 0;
    consume_unblocked(rig.consume);
    rig_run();
    EXPECT_DELIVERY("a <- s | $JS.ACK.S.c.1.4.4.");
    EXPECT_DELIVERY("a <- s | $JS.ACK.S.c.1.5.5.");
}

static void ends(void) {
    rig_start(0);
    consumer_t *consumer = rig_add_plain();
    rig_pull(consumer, "a", "{\"batch\":3,\"max_bytes\":9}");
    consume_shutdown(rig.consume, rig.now);
    EXPECT("a <*  | NATS/1.0 409 Server Shutdown~Nats-Pending-Messages: 3~Nats-Pending-Bytes: 9~~");
    rig_pull(consumer, "b", "1");
    consumer_remove(consumer, rig.now);
    EXPECT("b <*  | NATS/1.0 409 Consumer Deleted~~");
    CHECK(consume_find(rig.consume, STREAM_ID, CONSUMER_ID) == NULL);
    consumer = rig_add_plain();
    rig_pull(consumer, "c", "1");
    consume_stream_removed(rig.consume, STREAM_ID, rig.now);
    EXPECT("c <*  | NATS/1.0 409 Consumer Deleted~~");
    CHECK_EQ_U64(0, consume_count(rig.consume));
}

static void headers_only(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("h");
    setup.config.flags |= CONSUMER_HEADERS_ONLY;
    consumer_t *consumer = rig_add(&setup);
    fake_append(rig.stream, "s.1", "", "x1", WALL_START + 1);
    fake_append(rig.stream, "s.2", "NATS/1.0\r\nA: b\r\n\r\n", "", WALL_START + 2);
    rig_pull(consumer, "in", "{\"batch\":1,\"max_bytes\":73}");
    /* nats-server counted 73 bytes of 30 header bytes, 3 of subject and an ack subject of 40 */
    EXPECT("in <- s.1 | $JS.ACK.S.h.1.1.1.1700000000000000001.1 | NATS/1.0~Nats-Msg-Size: 2~~ | ");
    rig_pull(consumer, "in", "1");
    EXPECT_DELIVERY("in <*  | NATS/1.0 409 Batch Completed~Nats-Pending-Messages: 0~Nats-Pending-Bytes: 1~~");
    EXPECT("in <- s.2 | $JS.ACK.S.h.1.2.2.1700000000000000002.0 | NATS/1.0~A: b~Nats-Msg-Size: 0~~ | ");
}

static void ephemeral_goes(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("e");
    setup.config.flags = 0;
    setup.config.inactive_threshold_ns = 5 * SECOND;
    consumer_t *consumer = rig_add(&setup);
    rig_run();
    rig_pass(4 * SECOND);
    rig_pull(consumer, "in", "{\"batch\":1,\"expires\":20000000000}");
    rig_pass(21 * SECOND);
    EXPECT_DELIVERY("in <*  | NATS/1.0 408 Request Timeout");
    EXPECT_NOTHING();
    rig_publish("s", "x");
    rig_pull(consumer, "in", "1"); /* its ack may take 30 s */
    rig_skip();
    rig_pass(34 * SECOND);
    EXPECT_NOTHING();
    rig_pass(2 * SECOND);
    EXPECT("gone 1 7");
    CHECK(consume_find(rig.consume, STREAM_ID, CONSUMER_ID) == NULL);
    CHECK_EQ_U64(0, rig.store->record_count);
}

static void paused(void) {
    rig_start(0);
    consumer_t *consumer = rig_add_plain();
    rig_publish_many("s", 2);
    consumer_pause(consumer, rig.now.wall_ns + 10 * SECOND, rig.now);
    rig_pull(consumer, "in", "{\"no_wait\":true}");
    EXPECT("in <*  | NATS/1.0 404 No Messages~~");
    rig_pull(consumer, "in", "{\"expires\":3000000000}");
    rig_pull(consumer, "in2", "1");
    consumer_state_t state = rig_state(consumer);
    CHECK_EQ_U64(1, state.paused);
    CHECK_EQ_I64(10 * SECOND, state.pause_remaining_ns);
    rig.now.wall_ns += 1000000 * SECOND; /* a step of the wall clock ends no pause */
    rig_pass(4 * SECOND);
    EXPECT("in <*  | NATS/1.0 408 Request Timeout~Nats-Pending-Messages: 0~Nats-Pending-Bytes: 0~~");
    EXPECT_NOTHING();
    rig_pass(7 * SECOND);
    EXPECT("advisory 5 0 0 0 0 ");
    EXPECT_DELIVERY("in2 <- s | $JS.ACK.S.c.1.1.1");
    consumer_pause(consumer, rig.now.wall_ns + 10 * SECOND, rig.now);
    rig_pull(consumer, "in3", "1");
    EXPECT_NOTHING();
    consumer_pause(consumer, 0, rig.now);
    rig_run();
    EXPECT_DELIVERY("in3 <- s | $JS.ACK.S.c.1.2.2");
}

static void fair_among_consumers(void) {
    rig_start(0);
    consumer_t *first = rig_add_plain();
    consumer_setup_t setup = rig_setup("d");
    setup.id = CONSUMER_ID + 1;
    setup.config.max_ack_pending = -1;
    consumer_t *second = rig_add(&setup);
    setup = rig_setup("c");
    setup.config.max_ack_pending = -1;
    CHECK_EQ_I64(STATUS_OK, consumer_configure(first, &setup, rig.now));
    rig_publish_many("s", 5000);
    rig.quiet = true;
    consumer_pull(first, text("a"), text("5000"), rig.now);
    consumer_pull(second, text("b"), text("5000"), rig.now);
    CHECK(consumer_counted(first) && consumer_counted(second)); /* that would be a turn of its own */
    bool again;
    consume_tick(rig.consume, rig.now, &again);
    CHECK(again);
    CHECK(rig_state(first).delivered_consumer > 0);
    CHECK_EQ_U64(rig_state(first).delivered_consumer, rig_state(second).delivered_consumer);
    rig_run();
    CHECK_EQ_U64(10000, rig.deliveries);
}

int main(void) {
    RUN("a request gets messages with the stored subject and the ack subject, in stream order", delivers_in_order);
    RUN("a request without expiry waits until there is a message", waits_for_messages);
    RUN("a message that is not durable yet is not delivered", invisible_waits);
    RUN("an empty body, a number or anything unknown is a batch size as the reference reads it", plain_bodies);
    RUN("a bad request is told why in the reference's words", bad_requests);
    RUN("unknown members, null and other letter cases are taken; without a reply nothing happens", lenient_requests);
    RUN("no_wait with nothing there ends with 404 at once", no_wait_empty);
    RUN("no_wait that gets less than asked for ends with 404", no_wait_partial);
    RUN("no_wait that is filled gets no status", no_wait_full);
    RUN("no_wait with an expiry waits for the first message, then ends with 404", no_wait_with_expiry);
    RUN("no_wait held up by max_ack_pending gets no answer", no_wait_stalled);
    RUN("no_wait behind requests that want more than there is gets 408 Requests Pending", requests_pending);
    RUN("an expired request is told what was left of messages and bytes", timeout);
    RUN("a request that is born expired is answered at once", expired_at_once);
    RUN("a waiting request gets its own heartbeats, the first after a whole interval", heartbeats);
    RUN("a delivery starts the heartbeat interval anew", heartbeat_restarts);
    RUN("max_bytes counts subject, ack subject, header and payload", max_bytes);
    RUN("limits of the consumer refuse a request and name the limit", request_limits);
    RUN("max_waiting refuses, silently when the client wants heartbeats", max_waiting);
    RUN("one request looks at few of a line of a hundred thousand, however full it is", long_line);
    RUN("who left a long line is dropped from all of it in a while, and nobody else is", long_line_empties);
    RUN("a line of the usual length makes room at once for whoever left it", usual_line);
    RUN("what all requests want together is what those that wait still want", wanted_in_sum);
    RUN("a push consumer refuses requests", push_refuses);
    RUN("waiting requests are served in turn, a message each", round_robin);
    RUN("a request whose inbox nobody listens to is dropped silently", lost_interest);
    RUN("a message that nobody took counts as not delivered", no_message_is_lost_to_nobody);
    RUN("a full receiver waits while the others are served, and goes on when it drained", full_receiver);
    RUN("waiting requests are told when the consumer, the stream or the server goes", ends);
    RUN("headers_only drops the payload and appends its size", headers_only);
    RUN("an ephemeral goes after its threshold without requests, acks awaited longer", ephemeral_goes);
    RUN("a paused consumer takes requests and delivers nothing until the time has passed", paused);
    RUN("consumers share a tick fairly", fair_among_consumers);
    rig_end();
    return TEST_RESULT();
}
