/* test_outq.c: the output queue: order, urgent frames that overtake a backlog at frame boundaries, slow consumers,
 * memory. */
#include "net/outq.h"

#include <stdlib.h>

#include "test.h"

static bytes_t text(const char *c) {
    return bytes_of(c, (uint32_t)strlen(c));
}

/* What the peer has received so far. */
static buffer_t peer;

/* Lets the socket take at most `size` bytes. */
static void drain(outq_t *outq, uint64_t size, int64_t now) {
    struct iovec iov[OUTQ_IOVECS];
    uint64_t size_shown;
    int count = outq_gather(outq, UINT64_MAX, iov, &size_shown);
    uint64_t taken = 0;
    for (int i = 0; i < count && taken < size; i++) {
        uint64_t piece = iov[i].iov_len < size - taken ? iov[i].iov_len : size - taken;
        CHECK_EQ_I64(STATUS_OK, buffer_append(&peer, iov[i].iov_base, piece));
        taken += piece;
    }
    outq_written(outq, taken, now);
}

static void start(outq_t *outq, uint64_t max_pending) {
    outq_init(outq, max_pending, NULL);
    buffer_init(&peer, UINT64_MAX);
}

static void stop(outq_t *outq) {
    outq_free(outq);
    buffer_free(&peer);
}

static void queue(outq_t *outq, const char *frame) {
    CHECK_EQ_I64(STATUS_OK, buffer_append(&outq->data, frame, strlen(frame)));
    CHECK_EQ_I64(STATUS_OK, outq_end(outq));
}

static void in_order_without_backlog(void) {
    outq_t outq;
    start(&outq, 1 << 20);
    struct iovec iov[OUTQ_IOVECS];
    uint64_t gathered;
    CHECK_EQ_I64(0, outq_gather(&outq, UINT64_MAX, iov, &gathered));
    queue(&outq, "[MSG 1]");
    CHECK_EQ_I64(STATUS_OK, outq_urgent(&outq, text("[PONG]")));
    queue(&outq, "[MSG 2]");
    CHECK_EQ_U64(20, outq_pending(&outq));
    CHECK_EQ_I64(1, outq_gather(&outq, UINT64_MAX, iov, &gathered));
    drain(&outq, 1000, 1);
    CHECK_TEXT("[MSG 1][PONG][MSG 2]", peer.at, peer.size);
    CHECK_EQ_U64(0, outq_pending(&outq));
    CHECK(!outq_stalled(&outq, 1000, 1));
    stop(&outq);
}

/* A frame of `size` bytes: "[dddd...d]". */
static void queue_sized(outq_t *outq, uint32_t size) {
    char frame[5000];
    memset(frame, 'd', size);
    frame[0] = '[';
    frame[size - 1] = ']';
    CHECK_EQ_I64(STATUS_OK, buffer_append(&outq->data, frame, size));
    CHECK_EQ_I64(STATUS_OK, outq_end(outq));
}

/* The peer's bytes as frames: every '[' is closed before the next one opens. Returns how many; *urgent_at: bytes before
 * "[PING]". */
static uint32_t frames(uint64_t *urgent_at) {
    uint32_t count = 0;
    bool open = false;
    *urgent_at = UINT64_MAX;
    for (uint64_t i = 0; i < peer.size; i++) {
        if (peer.at[i] == '[') {
            CHECK(!open);
            open = true;
            if (i + 6 <= peer.size && memcmp(peer.at + i, "[PING]", 6) == 0 && *urgent_at == UINT64_MAX) {
                *urgent_at = i;
            }
        } else if (peer.at[i] == ']') {
            CHECK(open);
            open = false;
            count++;
        }
    }
    CHECK(!open);
    return count;
}

static void urgent_overtakes_a_backlog(void) {
    for (uint64_t first = 0; first < 9000; first += 37) {
        outq_t outq;
        start(&outq, 1 << 24);
        for (int i = 0; i < 100; i++) {
            queue_sized(&outq, 100);
        }
        drain(&outq, first, 1);
        CHECK_EQ_I64(STATUS_OK, outq_urgent(&outq, text("[PING]")));
        queue_sized(&outq, 100);
        while (outq_pending(&outq) > 0) {
            drain(&outq, 333, 1);
        }
        uint64_t urgent_at;
        CHECK_EQ_U64(102, frames(&urgent_at));
        CHECK_EQ_U64(10106, peer.size);
        /* Not behind more than what was under way, to the next mark. */
        CHECK(urgent_at <= first + OUTQ_MARK_BYTES + 100);
        CHECK(urgent_at >= first);
        stop(&outq);
    }
}

static void urgent_waits_for_the_end_of_a_long_frame_only(void) {
    outq_t outq;
    start(&outq, 1 << 24);
    queue_sized(&outq, 4000);
    for (int i = 0; i < 50; i++) {
        queue_sized(&outq, 4000);
    }
    drain(&outq, 10, 1);
    CHECK_EQ_I64(STATUS_OK, outq_urgent(&outq, text("[PING]")));
    CHECK_EQ_I64(STATUS_OK, outq_urgent(&outq, text("[INFO]")));
    drain(&outq, 4008, 1);
    CHECK_TEXT("[PING][INFO]", peer.at + 4000, 12);
    drain(&outq, 1 << 20, 1);
    uint64_t urgent_at;
    CHECK_EQ_U64(53, frames(&urgent_at));
    CHECK_EQ_U64(4000, urgent_at);
    stop(&outq);
}

static void ordered_stays_behind(void) {
    outq_t outq;
    start(&outq, 1 << 24);
    queue_sized(&outq, 4000);
    queue_sized(&outq, 4000);
    drain(&outq, 10, 1);
    CHECK_EQ_I64(STATUS_OK, outq_ordered(&outq, text("[PONG]")));
    CHECK_EQ_I64(STATUS_OK, outq_urgent(&outq, text("[PING]")));
    drain(&outq, 1 << 20, 1);
    CHECK_TEXT("[PONG]", peer.at + peer.size - 6, 6);
    CHECK_TEXT("[PING]", peer.at + 4000, 6);
    stop(&outq);
}

/* ---- shared bytes ------------------------------------------------------------------------------------------------ */

/* A frame of head, `size` bytes of a shared body that is 9 bytes larger at either end, and a bracket. */
static void queue_shared(outq_t *outq, share_t *share, bytes_t head, uint32_t size) {
    shared_t *body;
    CHECK_EQ_I64(STATUS_OK, shared_new(share, size + 18, &body));
    memset(body->at, '?', size + 18);
    memset(body->at + 9, 's', size);
    CHECK_EQ_I64(STATUS_OK, outq_share_room(outq, head.size + 1));
    CHECK_EQ_I64(STATUS_OK, buffer_append(&outq->data, head.at, head.size));
    outq_share(outq, body, 9, size);
    CHECK_EQ_I64(STATUS_OK, buffer_append(&outq->data, "]", 1));
    CHECK_EQ_I64(STATUS_OK, outq_end(outq));
    shared_release(body);
}

static void a_body_is_once_in_memory(void) {
    outq_t queues[50];
    share_t share = {.limit = 200000};
    shared_t *body;
    CHECK_EQ_I64(STATUS_OK, shared_new(&share, 100000, &body));
    for (uint32_t i = 0; i < 50; i++) {
        outq_init(&queues[i], 1 << 20, &share);
        CHECK_EQ_I64(STATUS_OK, outq_share_room(&queues[i], 10));
        CHECK_EQ_I64(STATUS_OK, buffer_append(&queues[i].data, "[", 1));
        outq_share(&queues[i], body, 0, 100000);
        CHECK_EQ_I64(STATUS_OK, buffer_append(&queues[i].data, "]", 1));
        CHECK_EQ_I64(STATUS_OK, outq_end(&queues[i]));
        CHECK_EQ_U64(100002, outq_pending(&queues[i]));
    }
    shared_release(body);
    CHECK(share.used > 100000);
    shared_t *further;
    CHECK_EQ_I64(STATUS_FULL, shared_new(&share, 100000, &further));
    for (uint32_t i = 0; i < 49; i++) {
        outq_free(&queues[i]);
    }
    CHECK(share.used > 100000);
    outq_written(&queues[49], 100001, 1);
    CHECK(share.used < 2000);
    outq_free(&queues[49]);
    CHECK_EQ_U64(0, share.used);
}

static void what_is_shared_counts_for_each(void) {
    outq_t outq;
    start(&outq, 1000);
    queue_shared(&outq, NULL, text("["), 900);
    CHECK(outq_crowded(&outq));
    CHECK_EQ_U64(902, outq_pending(&outq));
    shared_t *body;
    CHECK_EQ_I64(STATUS_OK, shared_new(NULL, 100, &body));
    CHECK_EQ_I64(STATUS_OK, outq_share_room(&outq, 2));
    CHECK_EQ_I64(STATUS_OK, buffer_append(&outq.data, "[", 1));
    outq_share(&outq, body, 0, 100);
    shared_release(body);
    CHECK_EQ_I64(STATUS_OK, buffer_append(&outq.data, "]", 1));
    CHECK_EQ_I64(STATUS_FULL, outq_end(&outq));
    stop(&outq);
}

static void urgent_overtakes_shared_frames(void) {
    for (uint64_t first = 1; first < 7000; first += 53) {
        outq_t outq;
        start(&outq, 1 << 24);
        for (int i = 0; i < 5; i++) {
            queue_shared(&outq, NULL, text("["), 1998);
        }
        drain(&outq, first, 1);
        CHECK_EQ_I64(STATUS_OK, outq_urgent(&outq, text("[PING]")));
        while (outq_pending(&outq) > 0) {
            drain(&outq, 333, 1);
        }
        uint64_t urgent_at;
        CHECK_EQ_U64(6, frames(&urgent_at));
        CHECK_EQ_U64((first + 1999) / 2000 * 2000, urgent_at);
        stop(&outq);
    }
}

static void no_more_than_the_room(void) {
    outq_t outq;
    start(&outq, 1 << 24);
    for (int i = 0; i < 100; i++) {
        queue_shared(&outq, NULL, text("["), 998);
    }
    struct iovec iov[OUTQ_IOVECS];
    uint64_t gathered;
    CHECK(outq_gather(&outq, 1500, iov, &gathered) > 0);
    CHECK_EQ_U64(1500, gathered);
    CHECK_EQ_I64(OUTQ_IOVECS, outq_gather(&outq, UINT64_MAX, iov, &gathered));
    uint64_t sum = 0;
    for (int i = 0; i < OUTQ_IOVECS; i++) {
        sum += iov[i].iov_len;
    }
    CHECK_EQ_U64(gathered, sum);
    while (outq_pending(&outq) > 0) {
        drain(&outq, 777, 1);
    }
    uint64_t unused;
    CHECK_EQ_U64(100, frames(&unused));
    stop(&outq);
}

/* Sizes of frames and of what the socket takes at random: everything arrives once and whole, data in order. */
static void random_duel(void) {
    for (uint32_t seed = 1; seed <= 60; seed++) {
        uint32_t state = seed;
        outq_t outq;
        start(&outq, 1 << 26);
        uint32_t data_sent = 0, urgent_sent = 0;
        for (int round = 0; round < 3000; round++) {
            state = state * 1664525u + 1013904223u;
            uint32_t pick = (state >> 24) % 8, size = (state >> 8) % 3000;
            char frame[3100];
            if (pick < 2) {
                int used = snprintf(frame, sizeof frame, "[D%u ", data_sent++);
                queue_shared(&outq, NULL, bytes_of(frame, (uint32_t)used), 1 + size);
            } else if (pick < 4) {
                int used = snprintf(frame, sizeof frame, "[D%u ", data_sent++);
                memset(frame + used, 'x', size);
                frame[(uint32_t)used + size] = ']';
                CHECK_EQ_I64(STATUS_OK, buffer_append(&outq.data, frame, (uint32_t)used + size + 1));
                CHECK_EQ_I64(STATUS_OK, outq_end(&outq));
            } else if (pick < 5) {
                snprintf(frame, sizeof frame, "[U%u ]", urgent_sent++);
                CHECK_EQ_I64(STATUS_OK, outq_urgent(&outq, text(frame)));
            } else {
                drain(&outq, pick == 7 ? size * 10 : size, round);
                CHECK(outq_pending(&outq) > 0 || outq.pieces.size == 0);
            }
        }
        while (outq_pending(&outq) > 0) {
            drain(&outq, 7777, 1);
        }
        uint64_t unused;
        CHECK_EQ_U64(data_sent + urgent_sent, frames(&unused));
        uint32_t data_seen = 0;
        static uint8_t urgent_seen[3000];
        memset(urgent_seen, 0, sizeof urgent_seen);
        for (uint64_t i = 0; i + 2 < peer.size; i++) {
            if (peer.at[i] != '[') {
                continue;
            }
            uint64_t number = strtoul((const char *)peer.at + i + 2, NULL, 10);
            if (peer.at[i + 1] == 'D') {
                CHECK_EQ_U64(data_seen++, number);
            } else {
                CHECK(number < urgent_sent);
                CHECK_EQ_U64(0, urgent_seen[number]++);
            }
        }
        stop(&outq);
    }
}

static void slow_consumer_by_bytes(void) {
    outq_t outq;
    start(&outq, 1000);
    char frame[501];
    memset(frame, 'x', sizeof frame);
    CHECK_EQ_I64(STATUS_OK, buffer_append(&outq.data, frame, 500));
    CHECK_EQ_I64(STATUS_OK, outq_end(&outq));
    CHECK(!outq_crowded(&outq));
    CHECK_EQ_I64(STATUS_OK, buffer_append(&outq.data, frame, 500));
    CHECK_EQ_I64(STATUS_OK, outq_end(&outq));
    CHECK(outq_crowded(&outq));
    CHECK_EQ_I64(STATUS_OK, buffer_append(&outq.data, frame, 1));
    CHECK_EQ_I64(STATUS_FULL, outq_end(&outq));
    stop(&outq);
}

static void slow_consumer_by_time(void) {
    outq_t outq;
    start(&outq, 1 << 20);
    queue(&outq, "[MSG]");
    CHECK(!outq_stalled(&outq, 1000, 10));
    drain(&outq, 0, 1000);
    CHECK(!outq_stalled(&outq, 1009, 10));
    drain(&outq, 0, 1009);
    CHECK(outq_stalled(&outq, 1010, 10));
    drain(&outq, 1, 1010);
    CHECK(!outq_stalled(&outq, 1019, 10));
    CHECK(outq_stalled(&outq, 1020, 10));
    drain(&outq, 4, 1020);
    CHECK(!outq_stalled(&outq, 99999, 10));
    stop(&outq);
}

static void control_is_bounded(void) {
    outq_t outq;
    start(&outq, 1 << 20);
    queue_sized(&outq, 4000);
    drain(&outq, 1, 1);
    uint32_t taken = 0;
    while (outq_urgent(&outq, text("PONG\r\n")) == STATUS_OK) {
        taken++;
        CHECK(taken <= OUTQ_CONTROL_MAX / 6);
    }
    CHECK_EQ_U64(OUTQ_CONTROL_MAX / 6, taken);
    stop(&outq);
}

static void memory_follows_use(void) {
    outq_t outq;
    start(&outq, 1 << 24);
    CHECK_EQ_U64(0, outq.data.capacity);
    /* A peer that always takes a little less than what comes: the written front must not pile up. */
    for (int round = 0; round < 20000; round++) {
        queue_sized(&outq, 1000);
        drain(&outq, 990, 1);
        CHECK(outq.data.size < 2 * outq_pending(&outq) + 2 * OUTQ_KEEP_BYTES);
        buffer_consume(&peer, peer.size);
    }
    while (outq_pending(&outq) > 0) {
        drain(&outq, 100000, 1);
    }
    outq_idle(&outq);
    outq_idle(&outq);
    CHECK_EQ_U64(0, outq.data.capacity);
    CHECK_EQ_U64(0, outq.control.capacity);
    CHECK_EQ_U64(0, outq.marks.capacity);
    stop(&outq);
}

int main(void) {
    RUN("without a backlog urgent frames keep their place in the order", in_order_without_backlog);
    RUN("an urgent frame overtakes a backlog at the next frame boundary, whatever is under way",
        urgent_overtakes_a_backlog);
    RUN("an urgent frame waits for the end of a long frame and no longer",
        urgent_waits_for_the_end_of_a_long_frame_only);
    RUN("a frame that must stay in order does", ordered_stays_behind);
    RUN("the body that fifty queues share is in memory, and counted, once, until the last of them is done with it",
        a_body_is_once_in_memory);
    RUN("what is shared counts against max_pending of each queue", what_is_shared_counts_for_each);
    RUN("an urgent frame overtakes shared frames at the end of the one that is under way",
        urgent_overtakes_shared_frames);
    RUN("what is gathered is as much as the caller has room for, and no more iovecs than there are",
        no_more_than_the_room);
    RUN("random frames through a random socket arrive once and whole, data in order", random_duel);
    RUN("more than max_pending waiting is a slow consumer", slow_consumer_by_bytes);
    RUN("nothing written for the deadline is a slow consumer, any progress is a reprieve", slow_consumer_by_time);
    RUN("a flood of urgent frames is refused at its bound", control_is_bounded);
    RUN("memory stays in proportion to what waits, and goes back when idle", memory_follows_use);
    return TEST_RESULT();
}
