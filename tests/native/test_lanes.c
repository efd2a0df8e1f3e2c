/* test_lanes.c: what goes first to a link that carries little, and what never changes: the order within a lane. Each
 * frame is a line, "<letter><number>", as long as it is told to be. */
#include "plane/lanes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#define NOTED 65536
#define CHECK_STR(expected, real) CHECK(strcmp(expected, real) == 0)

static lanes_t *lanes;
static precedence_t *precedence;
static outq_t out;
static share_t share;
static char went[NOTED]; /* the letters of what went, in order */
static uint32_t went_count;
static unsigned last[128]; /* by letter: the number that went last */

static void begin(void) {
    lanes_free(lanes);
    precedence_free(precedence);
    outq_free(&out);
    share = (share_t){.limit = 64 << 20};
    outq_init(&out, UINT64_MAX, &share);
    lanes = lanes_new(&share);
    precedence = NULL;
    went_count = 0;
    memset(last, 0, sizeof last);
}

static void end(void) {
    lanes_free(lanes);
    precedence_free(precedence);
    outq_free(&out);
    lanes = NULL;
    precedence = NULL;
    CHECK_EQ_U64(0, share.used);
}

static bytes_t text(const char *at) {
    return bytes_of(at, (uint32_t)strlen(at));
}

static bool put(const lane_use_t *use, char letter, unsigned number, uint32_t size) {
    lane_t *lane = lanes_lane(lanes, precedence, use);
    if (lane == NULL) {
        return false;
    }
    char *frame = calloc(1, size + 32);
    CHECK(frame != NULL);
    int head = snprintf(frame, 32, "%c%u ", letter, number);
    memset(frame + head, '.', size);
    frame[(uint32_t)head + size] = '\n';
    lane_end(lanes, lane, buffer_append(&lane_out(lane)->data, frame, (uint32_t)head + size + 1));
    free(frame);
    return true;
}

static bool message(const char *subject, char letter, unsigned number, uint32_t size) {
    lane_use_t use = {.subject = text(subject), .size = size};
    return put(&use, letter, number, size);
}

static bool answer(char letter, unsigned number, uint32_t size) {
    lane_use_t use = {.subject = text("_INBOX.x"), .answer = true, .size = size};
    return put(&use, letter, number, size);
}

static bool delivery(uint64_t consumer, const char *stream, uint64_t left, char letter, unsigned number,
                     uint32_t size) {
    flow_t flow = {.id = FLOW_FIRST + consumer, .stream = text(stream), .left = left, .size = size};
    lane_use_t use = {.subject = text("_D"), .flow = &flow, .size = size};
    return put(&use, letter, number, size);
}

/* So many bytes go out; whole frames of them are noted, and each letter's numbers ascend. */
static void carried(uint64_t room, lane_rank_t lowest) {
    lanes_fill(lanes, &out, room, lowest);
    uint64_t size = outq_pending(&out);
    const char *at = (const char *)out.data.at + out.sent;
    for (const char *end_at = at + size; at < end_at;) {
        char letter = *at;
        unsigned number = (unsigned)strtoul(at + 1, NULL, 10);
        CHECK(letter == '!' || number == last[(int)letter] + 1);
        last[(int)letter] = number;
        CHECK(went_count + 1 < NOTED);
        went[went_count++] = letter;
        at = (const char *)memchr(at, '\n', (size_t)(end_at - at)) + 1;
    }
    went[went_count] = 0;
    outq_written(&out, size, 1);
}

static uint32_t count(char letter, uint32_t first) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < first && i < went_count; i++) found += went[i] == letter;
    return found;
}

static void ranks(void) {
    begin();
    for (unsigned i = 1; i <= 5; i++) {
        CHECK(delivery(1, "BULK", 1000, 'b', i, 200));
        CHECK(message("event.x", 'e', i, 200));
        CHECK(message("$JS.ACK.S.C.1", 'a', i, 200));
    }
    carried(UINT64_MAX, LANE_LOW);
    /* But for an eighth of what went before, which is one message of the last ones. */
    CHECK_STR("aaaaaeeebeebbbb", went);
    CHECK_EQ_U64(0, lanes_pending(lanes));
    end();
}

/* What somebody waits for goes before a backup's pieces. These are this server's answers, too, and keep their order. */
static void backups_last(void) {
    begin();
    lane_use_t piece = {.subject = text("_INBOX.b"), .answer = true, .bulk = true, .size = 200};
    for (unsigned i = 1; i <= 5; i++) {
        CHECK(put(&piece, 'b', i, 200));
        CHECK(message("event.x", 'e', i, 200));
        CHECK(answer('a', i, 200));
    }
    carried(UINT64_MAX, LANE_LOW);
    CHECK_STR("aaaaaeeebeebbbb", went);
    end();
}

static void small_before_bulk(void) {
    begin();
    for (unsigned i = 1; i <= 20; i++) CHECK(delivery(1, "BULK", 10000 - i, 'b', i, 300));
    for (unsigned i = 1; i <= 3; i++) CHECK(delivery(2, "SMALL", 3 - i, 's', i, 300));
    carried(UINT64_MAX, LANE_LOW);
    CHECK_EQ_U64(3, count('s', 3));
    end();
}

static void turns(void) {
    begin();
    for (unsigned i = 1; i <= 100; i++) {
        CHECK(message("core", 'c', i, 1000));
        CHECK(delivery(1, "ONE", 5, '1', i, 100));
        CHECK(delivery(2, "TWO", 5, '2', i, 500));
    }
    carried(30000, LANE_LOW);
    /* By bytes: each has had a third. */
    CHECK(last['c'] >= 9 && last['c'] <= 11);
    CHECK(last['1'] >= 88);
    CHECK(last['2'] >= 18 && last['2'] <= 22);
    end();
}

static void nobody_starves(void) {
    begin();
    for (unsigned i = 1; i <= 400; i++) CHECK(message("$JS.API.X", 'a', i, 100));
    for (unsigned i = 1; i <= 400; i++) CHECK(message("core", 'c', i, 100));
    for (unsigned i = 1; i <= 400; i++) CHECK(delivery(1, "BULK", 100000, 'b', i, 100));
    carried(30000, LANE_LOW);
    uint32_t low = count('b', went_count);
    CHECK(low >= went_count / 12 && low <= went_count / 6);
    CHECK(count('c', went_count) >= went_count / 10);
    end();
}

/* A peer that asks for answers without end, and the order of what it gets. */
static void answers_without_end(void) {
    begin();
    for (unsigned i = 1; i <= 500; i++) CHECK(answer('a', i, 200));
    for (unsigned i = 1; i <= 5; i++) CHECK(message("alarm", 'c', i, 200));
    carried(4000, LANE_LOW);
    CHECK_EQ_U64(5, last['c']);
    carried(UINT64_MAX, LANE_LOW);
    CHECK_EQ_U64(500, last['a']);
    unsigned i = 501;
    while (answer('a', i, 10000)) i++;
    CHECK(i > 600 - 1 && (uint64_t)(i - 501) * 10000 <= LANE_MAX);
    CHECK_EQ_U64(1, lanes_dropped(lanes));
    CHECK(message("other", 'o', 1, 10));
    end();
}

static void configured(void) {
    begin();
    const bytes_t rules[] = {text("high"),    text("subject"), text("alarm.>"), text("low"),
                             text("subject"), text("log.>"),   text("high"),    text("stream"),
                             text("A"),       text("normal"),  text("stream"),  text("N")};
    precedence = precedence_new(rules, 12);
    CHECK(precedence != NULL);
    for (unsigned i = 1; i <= 3; i++) {
        CHECK(message("log.x", 'l', i, 100));
        CHECK(delivery(1, "N", 100000, 'n', i, 100));
        CHECK(delivery(2, "A", 100000, 'A', i, 100));
        CHECK(message("alarm.x", 'h', i, 100));
    }
    carried(UINT64_MAX, LANE_LOW);
    CHECK(count('A', 6) == 3 && count('h', 6) == 3 && count('n', 10) == 3 && last['l'] == 3);
    const bytes_t bad[] = {text("highest"), text("subject"), text("x")};
    CHECK(precedence_new(bad, 3) == NULL);
    CHECK(precedence_new(rules, 2) == NULL);
    end();
}

/* With a budget that is nearly used up only the higher ranks go. */
static void only_the_higher(void) {
    begin();
    CHECK(delivery(1, "BULK", 10000, 'b', 1, 100));
    CHECK(message("core", 'c', 1, 100));
    CHECK(message("$JS.ACK.x", 'a', 1, 100));
    carried(UINT64_MAX, LANE_HIGH);
    CHECK_STR("a", went);
    carried(UINT64_MAX, LANE_NORMAL);
    CHECK_STR("ac", went);
    carried(UINT64_MAX, LANE_LOW);
    CHECK_STR("acb", went);
    end();
}

static void consumers_stop(void) {
    begin();
    const uint64_t most = 16384;
    flow_t one = {.id = FLOW_FIRST + 1}, two = {.id = FLOW_FIRST + 2};
    unsigned i = 1, j = 1;
    while (!lanes_full(lanes, precedence, &one, most)) CHECK(delivery(1, "ONE", 10000, '1', i++, 300));
    CHECK(lanes_pending(lanes) > most && lanes_pending(lanes) < most + 400);
    /* Another one is not held up by it. */
    while (!lanes_full(lanes, precedence, &two, most)) CHECK(delivery(2, "TWO", 10000, '2', j++, 300));
    CHECK(j > 20);
    CHECK(!lanes_drained(lanes, most));
    carried(20000, LANE_LOW);
    CHECK(lanes_drained(lanes, most));
    CHECK(!lanes_drained(lanes, most));
    carried(UINT64_MAX, LANE_LOW);
    end();
}

/* Also those that share a lane, and those that had none of their own and get one. */
static void many_consumers_in_order(void) {
    begin();
    unsigned number[128] = {0};
    uint32_t seed = 7;
    for (unsigned i = 0; i < 20000; i++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t which = 'A' + (seed >> 16) % 50u;
        CHECK(delivery(which, "S", seed >> 8, (char)which, ++number[which], (seed >> 20) % 400u));
        if (i % 16 == 0) CHECK(delivery(1000 + i, "X", 5, '!', 1, 20)); /* one of many more */
        if ((seed >> 12) % 5u == 0) carried((seed >> 10) % 3000u + 1, LANE_LOW);
        went_count = 0;
    }
    carried(UINT64_MAX, LANE_LOW);
    for (uint32_t which = 'A'; which < 'A' + 50u; which++) CHECK_EQ_U64(number[which], last[which]);
    end();
}

static void large_bodies(void) {
    begin();
    shared_t *body;
    CHECK(shared_new(&share, 100000, &body) == STATUS_OK);
    memset(body->at, '.', body->size);
    body->at[0] = '1';
    for (unsigned i = 0; i < 3; i++) {
        lane_use_t use = {.subject = text("big"), .size = body->size};
        lane_t *lane = lanes_lane(lanes, NULL, &use);
        CHECK(lane != NULL && outq_share_room(lane_out(lane), 16) == STATUS_OK);
        CHECK(buffer_append(&lane_out(lane)->data, "X", 1) == STATUS_OK);
        outq_share(lane_out(lane), body, 0, body->size);
        CHECK(buffer_append(&lane_out(lane)->data, "\n", 1) == STATUS_OK);
        lane_end(lanes, lane, STATUS_OK);
    }
    shared_release(body);
    CHECK(share.used < 200000); /* once in memory */
    CHECK_EQ_U64(3 * 100002, lanes_pending(lanes));
    CHECK(lanes_join(lanes, &out) == STATUS_OK);
    CHECK_EQ_U64(3 * 100002, outq_pending(&out));
    CHECK_EQ_U64(0, lanes_pending(lanes));
    end();
}

static void a_frame_that_failed(void) {
    begin();
    CHECK(message("core", 'c', 1, 100));
    lane_use_t use = {.subject = text("core"), .size = 100};
    lane_t *lane = lanes_lane(lanes, NULL, &use);
    CHECK(buffer_append(&lane_out(lane)->data, "half", 4) == STATUS_OK);
    lane_end(lanes, lane, STATUS_FULL);
    CHECK(message("core", 'c', 2, 100));
    carried(UINT64_MAX, LANE_LOW);
    CHECK_STR("cc", went);
    lane = lanes_lane(lanes, NULL, &use);
    lane_end(lanes, lane, STATUS_FULL);
    CHECK_EQ_U64(0, lanes_pending(lanes));
    end();
}

/* The share of output has no room: what is at most once is dropped, and nobody is closed for it. */
static bool never(void *context, const buffer_t *buffer, uint64_t more) {
    (void)context, (void)buffer, (void)more;
    CHECK(false);
    return false;
}

static void without_memory(void) {
    begin();
    share.limit = 100000;
    share.make_room = never;
    unsigned i = 1;
    while (message("core", 'c', i, 500)) i++;
    CHECK(i > 20 && lanes_dropped(lanes) == 1);
    share.limit = UINT64_MAX;
    carried(UINT64_MAX, LANE_LOW);
    CHECK_EQ_U64(i - 1, last['c']);
    end();
}

/* A thousand links that are slow together: each may have little all the same, and clients find room for theirs. */
static void among_many(void) {
    begin();
    share.limit = 1000000;
    share.make_room = never;
    for (unsigned i = 1; message("core", 'c', i, 500); i++) {
        CHECK(share.used <= 750000);
    }
    uint64_t others = 750000 - share.used; /* the lanes of other links */
    share.used += others;
    unsigned own = 1;
    while (delivery(1, "S", 100, 's', own, 100)) own++;
    CHECK(own > 100 && share.used <= 875000);
    lanes_t *other = lanes_new(&share), *first = lanes;
    uint64_t before = share.used;
    lanes = other;
    unsigned i = 1;
    while (i < 100 && message("command", 'd', i, 100)) i++;
    CHECK(i > 20 && share.used > before && share.used <= 875000);
    CHECK(share_has(&share, 125000));
    lanes_free(other);
    lanes = first;
    share.used -= others;
    end();
}

int main(void) {
    RUN("acknowledgements go first, then messages, then what catches up", ranks);
    RUN("pieces of a backup go last, in their order", backups_last);
    RUN("a stream with little left goes before one with much", small_before_bulk);
    RUN("within a rank everybody has as many bytes as the others", turns);
    RUN("what goes last still has an eighth of what goes before it", nobody_starves);
    RUN("a peer that asks for answers without end holds up nobody, and no more memory than its part",
        answers_without_end);
    RUN("the configuration says what goes first", configured);
    RUN("of a budget the last part is for the higher ranks", only_the_higher);
    RUN("a consumer stops at its part, and goes on when half of it is gone", consumers_stop);
    RUN("what a consumer delivers stays in order, with more consumers than lanes", many_consumers_in_order);
    RUN("a large body is in memory once", large_bodies);
    RUN("a frame that could not be made leaves nothing behind", a_frame_that_failed);
    RUN("without memory messages are dropped, and nobody is closed", without_memory);
    RUN("many slow links leave others an eighth of the memory, and each other room for a little", among_many);
    return TEST_RESULT();
}
