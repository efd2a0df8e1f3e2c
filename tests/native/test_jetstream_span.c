/* test_jetstream_span.c: what a copy acknowledges to another server's consumer, and when it wants another one. How many
 * messages may be on their way: test_span.c.
 */
#include "ingest_rig.h"

/* Of a nats-server: at most eight before one is acknowledged. */
static js_rig_t *taking_spanned(uint32_t by_flow) {
    js_rig_t *rig = js_rig_open();
    put_default(rig);
    rig->round_trip_ns = NS_PER_SECOND;
    start_as(rig, (ingest_config_t){.last_sequence = 0,
                                    .silence_ns = 600 * NS_PER_SECOND,
                                    .link = 9,
                                    .pending_known = 1,
                                    .pending = 100,
                                    .span = 8,
                                    .span_by_flow = by_flow});
    return rig;
}

static void taken_with(js_rig_t *rig, int seq, int pending) {
    char reply[80];
    snprintf(reply, sizeof(reply), "$JS.ACK.O.C.1.%d.%d.1700000000000000000.%d", seq, seq, pending);
    CHECK(js_rig_send(rig, "d", reply, "x"));
}

static ingest_state_t stopped(js_rig_t *rig) {
    plane_command_t command = {.op = COMMAND_INGEST_STOP, .target = 1, .arg = 1, .token = 7};
    ingest_stop(&rig->js, &command, stream_find(&rig->js, 1));
    plane_event_t event;
    ingest_state_t state = {0};
    while (exchange_poll(&rig->exchange, &event, 1) == 1) {
        if (event.kind == EVENT_DONE && event.token == 7) memcpy(&state, event.payload, sizeof(state));
        exchange_release(&rig->exchange, 1);
    }
    return state;
}

static void acknowledged_when_on_disk(void) {
    js_rig_t *rig = taking_spanned(0);
    rig->link_heard_ns += 3 * NS_PER_SECOND;
    rig->now.mono_ns += 3 * NS_PER_SECOND;
    taken_with(rig, 1, 99);
    taken_with(rig, 2, 98);
    taken_with(rig, 3, 97);
    JS_RIG_HEARD("", rig);
    js_rig_until_durable(rig);
    JS_RIG_HEARD("$JS.ACK.O.C.1.2.2.1700000000000000000.98 \n", rig);
    taken_with(rig, 4, 0); /* the last one there is */
    js_rig_until_durable(rig);
    JS_RIG_HEARD("$JS.ACK.O.C.1.4.4.1700000000000000000.0 \n", rig);
    CHECK_EQ_U64(8, stopped(rig).span);
    js_rig_close(rig);
}

/* Who delivers may name any consumer of this server: of one of another stream nothing is acknowledged. */
static void acknowledged_to_its_consumer_alone(void) {
    js_rig_t *rig = taking_spanned(0);
    CHECK(js_rig_send(rig, "d", "$JS.ACK.OTHER.C.1.1.1.1700000000000000000.0", "x"));
    CHECK(js_rig_send(rig, "d", "$JS.ACK.O.OTHER.1.2.2.1700000000000000000.0", "x"));
    js_rig_until_durable(rig);
    CHECK_EQ_U64(1, stored(rig));
    JS_RIG_HEARD("", rig);
    js_rig_close(rig);
}

/* All that was on its way comes in a round trip: more could be. It is made anew when the rest of that has come. */
static void a_span_that_limits_is_changed(void) {
    js_rig_t *rig = taking_spanned(0);
    rig->link_heard_ns += NS_PER_SECOND;
    rig->now.mono_ns += NS_PER_SECOND;
    for (int seq = 1; seq <= 13; seq++) {
        taken_with(rig, seq, 100 - seq);
        CHECK(!told_of(rig, INGEST_SPAN));
    }
    taken_with(rig, 14, 86); /* 6 was acknowledged last */
    CHECK(told_of(rig, INGEST_SPAN));
    CHECK_EQ_U64(14, stored(rig));
    CHECK_EQ_U64(32, stopped(rig).span);
    js_rig_close(rig);
}

/* What is acknowledged does not arrive: no more than the first eight come, and heartbeats. */
static void a_span_that_never_opens(void) {
    static const char heartbeat[] = "NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 8\r\n\r\n";
    js_rig_t *rig = taking_spanned(0);
    rig->link_heard_ns += 3 * NS_PER_SECOND;
    rig->now.mono_ns += 3 * NS_PER_SECOND;
    for (int seq = 1; seq <= 8; seq++) taken_with(rig, seq, 100 - seq);
    rig->link_heard_ns += 20 * NS_PER_SECOND;
    control(rig, "", heartbeat);
    CHECK(!told_of(rig, INGEST_SPAN));
    rig->link_heard_ns += 20 * NS_PER_SECOND;
    control(rig, "", heartbeat);
    CHECK(told_of(rig, INGEST_SPAN));
    CHECK_EQ_U64(0, stopped(rig).span);
    js_rig_close(rig);
}

/* Where flow control acknowledges, nothing is on its way when it is asked for. */
static void a_span_by_flow_control(void) {
    js_rig_t *rig = taking_spanned(1);
    rig->link_heard_ns += NS_PER_SECOND;
    rig->now.mono_ns += NS_PER_SECOND;
    for (int seq = 1; seq <= 8; seq++) taken_with(rig, seq, 100 - seq);
    CHECK(!told_of(rig, INGEST_SPAN));
    control(rig, "$JS.FC.O.C.x", "NATS/1.0 100 FlowControl Request\r\n\r\n");
    js_rig_until_durable(rig);
    JS_RIG_HEARD("$JS.FC.O.C.x NATS/1.0\r\nNats-Last-Consumer: 8\r\nNats-Last-Stream: 8\r\nLeafd-Copy: 1\r\n\r\n\n",
                 rig);
    CHECK(told_of(rig, INGEST_SPAN));
    CHECK_EQ_U64(32, stopped(rig).span);
    js_rig_close(rig);
}

int main(void) {
    RUN("what another server may not send on before it is acknowledged is, when it is on disk",
        acknowledged_when_on_disk);
    RUN("what is taken is acknowledged to no other consumer, whatever a delivery says",
        acknowledged_to_its_consumer_alone);
    RUN("a span that limits is changed when nothing is on its way", a_span_that_limits_is_changed);
    RUN("one that no acknowledgement opens is given up", a_span_that_never_opens);
    RUN("where flow control acknowledges, with its answer", a_span_by_flow_control);
    return TEST_RESULT();
}
