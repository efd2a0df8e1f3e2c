/* test_jetstream_put_back.c: a source with a durable consumer, whose origin was put back from an old copy of itself and
 * says so with its flow control. Not here: what stamps tell (test_jetstream.c), the origin's side
 * (test_consume_put_back.c).
 */
#include "ingest_rig.h"

#define ASKED "NATS/1.0 100 FlowControl Request\r\n"
#define AT_1 "Nats-Last-Consumer: 0\r\nNats-Last-Stream: 1\r\n"

/* All with the same stamp, as of a stream whose last message is of a time to come. */
static void taken(js_rig_t *rig, int consumer_seq, int stream_seq) {
    char reply[80];
    (void)snprintf(reply, sizeof(reply), "$JS.ACK.O.C.1.%d.%d.1700000000000000000.0", stream_seq, consumer_seq);
    CHECK(js_rig_send(rig, "d", reply, "x"));
}

/* Set back to what is behind the first message. */
static void begin(js_rig_t *rig, uint32_t mirror) {
    start_as(rig, (ingest_config_t){.durable = 1, .mirror = mirror, .silence_ns = INT64_MAX, .delivered_sequence = 1});
}

static void end(js_rig_t *rig) {
    plane_command_t command = {.op = COMMAND_INGEST_STOP, .target = 1, .arg = 1};
    ingest_stop(&rig->js, &command, stream_find(&rig->js, 1));
}

/* Five messages were taken, and the consumer is set back anew. */
static js_rig_t *taken_five(void) {
    js_rig_t *rig = js_rig_open();
    put_default(rig);
    begin(rig, 0);
    for (int seq = 2; seq <= 5; seq++) taken(rig, seq - 1, seq);
    CHECK_EQ_U64(4, stored(rig));
    end(rig);
    begin(rig, 0);
    CHECK(!told_of(rig, INGEST_BACK));
    return rig;
}

/* Where control was told that the origin was put back to; 0: it was not. */
static uint64_t told_back(js_rig_t *rig) {
    plane_event_t event;
    uint64_t behind = 0;
    while (exchange_poll(&rig->exchange, &event, 1) == 1) {
        behind = event.code == INGEST_BACK ? event.arg2 : behind;
        exchange_release(&rig->exchange, 1);
    }
    return behind;
}

/* The answer leaves when the position is on disk. What has sequences and stamps that were taken is taken, what is below
 * the position is not, and all of that holds after another start. */
static void stands_back(void) {
    js_rig_t *rig = taken_five();
    control(rig, "$JS.FC.O.C.1", ASKED "\r\n");
    js_rig_until_durable(rig);
    JS_RIG_HEARD("$JS.FC.O.C.1 NATS/1.0\r\n" AT_1 COPY_AT("5"), rig);
    control(rig, "$JS.FC.O.C.2", ASKED "Leafd-New-Behind: 3\r\n\r\n");
    JS_RIG_HEARD("", rig);
    CHECK_EQ_U64(3, told_back(rig));
    js_rig_until_durable(rig);
    JS_RIG_HEARD("$JS.FC.O.C.2 NATS/1.0\r\n" AT_1 COPY_AT("3"), rig);
    end(rig);
    begin(rig, 0);
    control(rig, "$JS.FC.O.C.3", ASKED "\r\n");
    js_rig_until_durable(rig);
    JS_RIG_HEARD("$JS.FC.O.C.3 NATS/1.0\r\n" AT_1 COPY_AT("3"), rig);
    for (int seq = 2; seq <= 5; seq++) taken(rig, seq - 1, seq);
    CHECK_EQ_U64(6, stored(rig));
    end(rig);
    begin(rig, 0);
    for (int seq = 2; seq <= 6; seq++) taken(rig, seq - 1, seq);
    CHECK_EQ_U64(7, stored(rig));
    CHECK_EQ_U64(0, told_back(rig));
    js_rig_close(rig);
}

/* The question is there once more in a heartbeat, if it was lost. */
static void stands_back_by_a_heartbeat(void) {
    js_rig_t *rig = taken_five();
    control(rig, "",
            "NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 0\r\nNats-Last-Stream: 1\r\n"
            "Nats-Consumer-Stalled: $JS.FC.O.C.1\r\nLeafd-New-Behind: 3\r\n\r\n");
    js_rig_until_durable(rig);
    JS_RIG_HEARD("$JS.FC.O.C.1 NATS/1.0\r\n" AT_1 COPY_AT("3"), rig);
    CHECK_EQ_U64(3, told_back(rig));
    js_rig_close(rig);
}

/* What says no sequence below what was taken moves nothing, nor does what another consumer says. */
static void stays(void) {
    static const char *const others[] = {"5", "6", "18446744073709551616", "-1", "x", ""};
    js_rig_t *rig = taken_five();
    for (uint32_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        char header[128];
        (void)snprintf(header, sizeof(header), ASKED "Leafd-New-Behind: %s\r\n\r\n", others[i]);
        control(rig, "$JS.FC.O.C.1", header);
        js_rig_until_durable(rig);
        JS_RIG_HEARD("$JS.FC.O.C.1 NATS/1.0\r\n" AT_1 COPY_AT("5"), rig);
    }
    control(rig, "$JS.FC.O.D.1", ASKED "Leafd-New-Behind: 3\r\n\r\n");
    js_rig_until_durable(rig);
    JS_RIG_HEARD("", rig);
    CHECK_EQ_U64(0, told_back(rig));
    js_rig_close(rig);
}

/* Control moves the position of a source that takes nothing now; 0: it is as new. */
static void moves_to(js_rig_t *rig, uint64_t seq) {
    uint8_t strings[] = {5, 0, 0, 0, 'O', ' ', '>', ' ', '>'};
    plane_command_t command = {.op = COMMAND_INGEST_FORGET,
                               .token = 78,
                               .target = 1,
                               .arg = seq,
                               .extra = strings,
                               .extra_size = sizeof(strings)};
    ingest_forget(&rig->js, &command, stream_find(&rig->js, 1));
    js_rig_until_durable(rig);
    plane_event_t event;
    CHECK_EQ_U64(1, exchange_poll(&rig->exchange, &event, 1));
    CHECK_EQ_I64(STATUS_OK, (status_t)event.status);
    exchange_release(&rig->exchange, 1);
}

/* All behind it is taken, whatever its stamp is. */
static void is_moved(void) {
    js_rig_t *rig = taken_five();
    end(rig);
    CHECK(!told_of(rig, INGEST_BACK));
    for (uint64_t seq = 3; seq != UINT64_MAX; seq = seq == 3 ? 0 : UINT64_MAX) {
        moves_to(rig, seq);
        uint64_t before = stored(rig);
        begin(rig, 0);
        for (int taking = 2; taking <= 5; taking++) taken(rig, taking - 1, taking);
        CHECK_EQ_U64(before + (seq == 3 ? 2 : 4), stored(rig));
        end(rig);
        CHECK(!told_of(rig, INGEST_BACK));
    }
    js_rig_close(rig);
}

/* A mirror cannot, and does not say that it takes from an origin that was put back. */
static void a_mirror_stays(void) {
    js_rig_t *rig = js_rig_open();
    put_default(rig);
    begin(rig, 1);
    for (int seq = 2; seq <= 5; seq++) taken(rig, seq - 1, seq);
    control(rig, "$JS.FC.O.C.1", ASKED "Leafd-New-Behind: 3\r\n\r\n");
    js_rig_until_durable(rig);
    JS_RIG_HEARD("$JS.FC.O.C.1 NATS/1.0\r\nNats-Last-Consumer: 4\r\nNats-Last-Stream: 5\r\n"
                 "Leafd-Last-Taken: 5\r\n\r\n\n",
                 rig);
    CHECK_EQ_U64(0, told_back(rig));
    js_rig_close(rig);
}

int main(void) {
    RUN("a source stands behind which all is new at its origin, whatever the stamps are, and after a start",
        stands_back);
    RUN("also when it hears it with a heartbeat", stands_back_by_a_heartbeat);
    RUN("it stays where nothing that it took is new, and for another consumer", stays);
    RUN("a source whose position control moves takes what is behind that", is_moved);
    RUN("a mirror stays, and says how far it is", a_mirror_stays);
    return TEST_RESULT();
}
