/* test_plane_batches.c: atomic batches and counters in the core: what is staged is bounded and ends by itself, a batch
 * is stored whole or not at all, and sums are right. Texts are nats-server 2.15.1's (tests/wire/jetstream.md).
 */
#include "stream_rig.h"

#include "text/integer.h"

static plane_t *open_with(uint32_t flags, peer_t **peer) {
    plane_t *plane = rig_open_fresh("");
    stream_config_t config = rig_stream;
    config.flags = flags;
    config.duplicate_window_ns = 120 * NS_PER_SECOND;
    rig_put_stream(plane, config);
    rig_settle(plane);
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_DONE, &event));
    CHECK_EQ_I64(0, event.status);
    *peer = rig_client(plane);
    rig_feed(plane, *peer, "SUB _I.> 1\r\n");
    return plane;
}

static void feed_message(plane_t *plane, peer_t *peer, const char *header, const char *payload) {
    static char line[70000];
    snprintf(line, sizeof(line), "HPUB s.a _I.1 %zu %zu\r\nNATS/1.0\r\n%s\r\n%s\r\n", strlen(header) + 12,
             strlen(header) + 12 + strlen(payload), header, payload);
    rig_feed(plane, peer, line);
}

static void hears(plane_t *plane, peer_t *peer, const char *header, const char *payload, const char *expected) {
    feed_message(plane, peer, header, payload);
    rig_settle(plane);
    const char *heard = rig_heard(peer);
    CHECK(strstr(heard, expected) != NULL);
}

static uint64_t messages(plane_t *plane) {
    stream_state_t state;
    stream_state_of(stream_find(&plane->js, 1), &state);
    return state.messages;
}

static void silent_batches_end(void) {
    peer_t *a;
    plane_t *plane = open_with(STREAM_ALLOW_ATOMIC, &a);
    hears(plane, a, "Nats-Batch-Id: b\r\nNats-Batch-Sequence: 1\r\n", "x", "MSG _I.1 1 0\r\n\r\n");
    CHECK(plane->js.staged.used > 0);
    plane->now.mono_ns += 9 * NS_PER_SECOND;
    core_settle(plane);
    hears(plane, a, "Nats-Batch-Id: b\r\nNats-Batch-Sequence: 2\r\n", "x", "MSG _I.1 1 0\r\n\r\n");
    plane->now.mono_ns += 10 * NS_PER_SECOND;
    core_settle(plane);
    CHECK_EQ_U64(0, plane->js.staged.used);
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_ADVISORY, &event));
    CHECK_EQ_U64(ADVISORY_BATCH_ABANDONED, event.code);
    CHECK_EQ_U64(ABANDONED_TIMEOUT, event.arg);
    CHECK_TEXT("b", event.subject, event.subject_size);
    hears(plane, a, "Nats-Batch-Id: b\r\nNats-Batch-Sequence: 3\r\nNats-Batch-Commit: 1\r\n", "x",
          "\"err_code\":10176");
    CHECK_EQ_U64(0, messages(plane));
    rig_close_and_remove(plane);
}

/* Two that would come to more than the share of memory: the second is dropped, and the first one is whole. */
static void staged_bytes_are_bounded(void) {
    peer_t *a;
    plane_t *plane = open_with(STREAM_ALLOW_ATOMIC, &a);
    static char payload[60001];
    memset(payload, 'x', 60000);
    plane->js.staged.limit = 300000;
    hears(plane, a, "Nats-Batch-Id: a\r\nNats-Batch-Sequence: 1\r\n", payload, "MSG _I.1 1 0\r\n\r\n");
    for (int i = 1; i <= 20; i++) {
        char header[100];
        snprintf(header, sizeof(header), "Nats-Batch-Id: b\r\nNats-Batch-Sequence: %d\r\n", i);
        feed_message(plane, a, header, payload);
        CHECK(plane->js.staged.used <= 300000);
    }
    rig_settle(plane);
    CHECK(strstr(rig_heard(a), "\"err_code\":10210") != NULL);
    hears(plane, a, "Nats-Batch-Id: a\r\nNats-Batch-Sequence: 2\r\nNats-Batch-Commit: 1\r\n", "x",
          "\"seq\":2,\"batch\":\"a\",\"count\":2}");
    CHECK_EQ_U64(2, messages(plane));
    CHECK_EQ_U64(0, plane->js.staged.used);
    rig_close_and_remove(plane);
}

/* One refused message refuses all, at whatever place it stands. */
static void refused_whole(void) {
    peer_t *a;
    plane_t *plane = open_with(STREAM_ALLOW_ATOMIC, &a);
    for (int bad = 1; bad <= 5; bad++) {
        for (int i = 1; i <= 5; i++) {
            char header[200];
            snprintf(header, sizeof(header), "Nats-Batch-Id: b\r\nNats-Batch-Sequence: %d\r\n%s%s", i,
                     i == bad ? "Nats-Expected-Last-Subject-Sequence: 77\r\n" : "",
                     i == 5 ? "Nats-Batch-Commit: 1\r\n" : "");
            feed_message(plane, a, header, "x");
        }
        rig_settle(plane);
        CHECK(strstr(rig_heard(a), bad == 1 ? "\"err_code\":10071" : "\"err_code\":10164") != NULL);
        CHECK_EQ_U64(0, messages(plane));
    }
    rig_close_and_remove(plane);
}

/* One message to s.rare.x, and so many to subjects of their own behind it. */
static void fill(plane_t *plane, peer_t *peer, uint32_t count) {
    rig_feed(plane, peer, "PUB s.rare.x 1\r\nx\r\n");
    for (uint32_t i = 0; i < count; i++) {
        char line[64];
        snprintf(line, sizeof(line), "PUB s.%u.x 1\r\nx\r\n", i);
        rig_say(plane, peer, line);
        if (i % 2000 == 1999) rig_settle(plane);
    }
    rig_settle(plane);
}

/* The rig's own turns, one at a time; how many it took. */
static uint32_t turns_until_stored(plane_t *plane) {
    uint32_t turns = 0;
    while (stream_find(&plane->js, 1)->later != NULL) {
        core_settle(plane);
        CHECK(++turns < 1000);
    }
    rig_settle(plane);
    return turns;
}

static void feed_fast(plane_t *plane, peer_t *peer, const char *word, const char *header) {
    char line[400];
    snprintf(line, sizeof(line), "HPUB s.b _I.u.10.%s.$FI %zu %zu\r\nNATS/1.0\r\n%s\r\nx\r\n", word,
             strlen(header) + 12, strlen(header) + 13, header);
    rig_say(plane, peer, line);
}

static void fast_ones_wait(void) {
    peer_t *a;
    plane_t *plane = open_with(STREAM_ALLOW_BATCHED, &a);
    const char *expects = "Nats-Expected-Last-Subject-Sequence: 1\r\n"
                          "Nats-Expected-Last-Subject-Sequence-Subject: *.rare.*\r\n";
    fill(plane, a, 6000);
    (void)rig_heard(a);
    feed_fast(plane, a, "ok.1.0", expects);
    feed_fast(plane, a, "ok.4.1", "");
    feed_fast(plane, a, "ok.5.2", "Nats-Expected-Last-Subject-Sequence: 6002\r\n");
    CHECK(stream_find(&plane->js, 1)->later != NULL);
    CHECK_EQ_U64(6001, messages(plane));
    CHECK(turns_until_stored(plane) >= 5);
    CHECK_EQ_U64(6003, messages(plane));
    const char *heard = rig_heard(a);
    const char *first = strstr(heard, "{\"type\":\"ack\",\"seq\":0,\"msgs\":10}");
    CHECK(first != NULL && strstr(first + 9, "\"type\":\"ack\"") == NULL);
    const char *gap = strstr(heard, "{\"type\":\"gap\",\"last_seq\":2,\"seq\":4}");
    CHECK(gap > first && strstr(gap + 9, "\"gap\"") == NULL);
    CHECK(strstr(heard, "\"err_code\":10071") > gap); /* the subject's last one is 6003 by then */
    rig_close_and_remove(plane);
}

static void counts(void) {
    peer_t *a;
    plane_t *plane = open_with(STREAM_COUNTER | STREAM_ALLOW_ATOMIC, &a);
    hears(plane, a, "Nats-Incr: 5\r\n", "", "\"seq\":1,\"val\":\"5\"}");
    hears(plane, a, "Nats-Incr: -12\r\n", "", "\"seq\":2,\"val\":\"-7\"}");
    rig_feed(plane, a, "PUB s.a _I.2 0\r\n\r\n");
    rig_settle(plane);
    CHECK(strstr(rig_heard(a), "\"err_code\":10169") != NULL);
    char header[5000] = "Nats-Incr: ";
    memset(header + 11, '9', 4000);
    snprintf(header + 3500, sizeof(header) - 3500, "\r\n");
    hears(plane, a, header, "", "\"seq\":3,\"val\":\"9999");
    memset(header + 11, '9', 4000);
    snprintf(header + 4000, sizeof(header) - 4000, "\r\n");
    hears(plane, a, header, "", "\"err_code\":10171");
    CHECK_EQ_U64(3, messages(plane));
    rig_close_and_remove(plane);
}

static void adds(const char *a, const char *b, const char *sum) {
    integer_t numbers[2];
    uint8_t room[64];
    CHECK(integer_parse(bytes_of((const uint8_t *)a, (uint32_t)strlen(a)), &numbers[0]));
    CHECK(integer_parse(bytes_of((const uint8_t *)b, (uint32_t)strlen(b)), &numbers[1]));
    for (int i = 0; i < 2; i++) {
        bytes_t real = integer_add(numbers[i], numbers[1 - i], room);
        CHECK_TEXT(sum, real.at, real.size);
    }
}

static void integers(void) {
    adds("0", "0", "0");
    adds("-0", "+00", "0");
    adds("9", "1", "10");
    adds("-9", "-1", "-10");
    adds("1000", "-1", "999");
    adds("-1000", "1", "-999");
    adds("5", "-5", "0");
    adds("99999999999999999999999999", "1", "100000000000000000000000000");
    adds("-100000000000000000000000000", "1", "-99999999999999999999999999");
    integer_t number;
    static const char *const none[] = {"", "-", "+", "1.0", "0x1", "1_0", " 1", "1 ", "--1"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        CHECK(!integer_parse(bytes_of((const uint8_t *)none[i], (uint32_t)strlen(none[i])), &number));
    }
}

int main(void) {
    RUN("a batch that is silent for its time is dropped, and gives back its memory", silent_batches_end);
    RUN("what batches hold in memory has a bound", staged_bytes_are_bounded);
    RUN("one message that is refused refuses its whole batch", refused_whole);
    RUN("a message of a fast batch that takes long to judge waits its turns, and those behind it wait for it",
        fast_ones_wait);
    RUN("a counter stores sums, and refuses what is none", counts);
    RUN("whole numbers of any size are added as on paper", integers);
    return TEST_RESULT();
}
