/* test_consume_pending.c: pending.c against a simple model: an array that is searched from the start. */
#include <stdlib.h>

#include "base/visits.h"
#include "consume/pending.h"
#include "test.h"

#define MODEL_MAX 4000

typedef struct model_row {
    uint64_t seq;
    uint32_t deliveries;
    bool exhausted;
} model_row_t;

static model_row_t model[MODEL_MAX];
static uint32_t model_count;
static uint64_t model_queue[MODEL_MAX];
static uint32_t model_queue_count;
static pending_t pending;
static uint64_t seed;

static uint64_t random_below(uint64_t limit) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % limit;
}

static void model_unqueue(uint64_t seq) {
    for (uint32_t i = 0; i < model_queue_count; i++) {
        if (model_queue[i] != seq) continue;
        memmove(model_queue + i, model_queue + i + 1, (model_queue_count - i - 1) * sizeof *model_queue);
        model_queue_count--;
        return;
    }
}

static bool model_queued(uint64_t seq) {
    for (uint32_t i = 0; i < model_queue_count; i++) {
        if (model_queue[i] == seq) return true;
    }
    return false;
}

static void model_remove(uint32_t i) {
    model_unqueue(model[i].seq);
    memmove(model + i, model + i + 1, (model_count - i - 1) * sizeof *model);
    model_count--;
}

static void compare(void) {
    CHECK(pending_sound(&pending));
    uint32_t in_order = 0, redelivered = 0, row = pending.head;
    for (uint32_t i = 0; i < model_count; i++) {
        redelivered += model[i].deliveries > 1;
        uint32_t found = pending_find(&pending, model[i].seq);
        CHECK(found != PENDING_NONE);
        CHECK_EQ_U64(model[i].deliveries, pending_row(&pending, found)->deliveries);
        if (model[i].exhausted) continue;
        in_order++;
        CHECK_EQ_U64(model[i].seq, pending_row(&pending, row)->seq);
        row = pending_row(&pending, row)->after;
    }
    CHECK_EQ_U64(PENDING_NONE, row);
    CHECK_EQ_U64(in_order, pending.count);
    CHECK_EQ_U64(redelivered, pending.redelivered);
    CHECK_EQ_U64(model_queue_count, pending.queued);
    CHECK_EQ_U64(PENDING_NONE, pending_find(&pending, UINT64_MAX));
}

static void step(uint64_t *next_seq) {
    uint32_t row, i = model_count > 0 ? (uint32_t)random_below(model_count) : 0;
    switch (random_below(9)) {
    case 0:
    case 1:
    case 2:
        if (model_count == MODEL_MAX) break;
        *next_seq += 1 + random_below(random_below(10) == 0 ? 1000000 : 3);
        CHECK_EQ_I64(STATUS_OK, pending_add(&pending, *next_seq, *next_seq, 0, 1, &row));
        model[model_count++] = (model_row_t){.seq = *next_seq, .deliveries = 1};
        break;
    case 3:
    case 4:
        if (model_count == 0) break;
        if (random_below(2)) i = 0; /* acks come mostly in order */
        pending_remove(&pending, pending_find(&pending, model[i].seq));
        model_remove(i);
        break;
    case 5:
        if (model_count == 0 || model[i].exhausted || model_queued(model[i].seq)) break;
        CHECK_EQ_I64(STATUS_OK, pending_queue(&pending, pending_find(&pending, model[i].seq)));
        model_queue[model_queue_count++] = model[i].seq;
        break;
    case 6:
        if (model_queue_count == 0) break;
        row = pending_first_queued(&pending);
        CHECK(row != PENDING_NONE);
        CHECK_EQ_U64(model_queue[0], pending_row(&pending, row)->seq);
        pending_count_delivery(&pending, row);
        for (uint32_t k = 0; k < model_count; k++)
            model[k].deliveries += model[k].seq == pending_row(&pending, row)->seq;
        model_unqueue(pending_row(&pending, row)->seq);
        pending_pop_queued(&pending);
        break;
    case 7:
        if (model_count == 0 || model[i].exhausted || random_below(4)) break;
        pending_exhaust(&pending, pending_find(&pending, model[i].seq));
        model_unqueue(model[i].seq);
        model[i].exhausted = true;
        break;
    default:
        if (model_queue_count == 0) break;
        pending_unqueue(&pending, pending_find(&pending, model_queue[0]));
        model_unqueue(model_queue[0]);
    }
}

static void duel(void) {
    for (uint64_t round = 1; round <= 20; round++) {
        seed = round;
        pending_init(&pending, NULL);
        model_count = model_queue_count = 0;
        uint64_t next_seq = 0;
        for (int i = 0; i < 6000; i++) {
            step(&next_seq);
            if (i % 50 == 0) compare();
        }
        compare();
        pending_clear(&pending);
        model_count = model_queue_count = 0;
        compare();
        pending_free(&pending);
    }
}

static void queue_is_first_in_first_out(void) {
    pending_init(&pending, NULL);
    uint32_t rows[100];
    for (uint32_t i = 0; i < 100; i++) CHECK_EQ_I64(STATUS_OK, pending_add(&pending, i + 1, i + 1, 0, 1, &rows[i]));
    for (uint32_t i = 100; i-- > 0;) CHECK_EQ_I64(STATUS_OK, pending_queue(&pending, rows[i]));
    CHECK_EQ_I64(STATUS_OK, pending_queue(&pending, rows[3])); /* queued already */
    pending_remove(&pending, rows[98]);
    CHECK_EQ_U64(100, pending_row(&pending, pending_first_queued(&pending))->seq);
    pending_pop_queued(&pending);
    CHECK_EQ_U64(98, pending_row(&pending, pending_first_queued(&pending))->seq);
    for (uint64_t seq = 98; seq > 0; seq--) {
        CHECK_EQ_U64(seq, pending_row(&pending, pending_first_queued(&pending))->seq);
        pending_pop_queued(&pending);
    }
    CHECK_EQ_U64(PENDING_NONE, pending_first_queued(&pending));
    pending_free(&pending);
}

static void queue_stays_small(void) {
    pending_init(&pending, NULL);
    uint32_t first, row;
    CHECK_EQ_I64(STATUS_OK, pending_add(&pending, 1, 1, 0, 1, &first));
    CHECK_EQ_I64(STATUS_OK, pending_queue(&pending, first));
    for (uint64_t seq = 2; seq < 100000; seq++) { /* expired, then acknowledged late, while nobody pulls */
        CHECK_EQ_I64(STATUS_OK, pending_add(&pending, seq, seq, 0, 1, &row));
        CHECK_EQ_I64(STATUS_OK, pending_queue(&pending, row));
        pending_remove(&pending, row);
    }
    CHECK_EQ_U64(64, pending.row_capacity);
    CHECK_EQ_U64(first, pending_first_queued(&pending));
    CHECK(pending_sound(&pending));
    pending_free(&pending);
}

/* A chain before its split has two rows on average. */
static void no_delivery_moves_many(void) {
    pending_init(&pending, NULL);
    uint32_t row;
    uint64_t all = 0;
    (void)visits_take();
    for (uint64_t seq = 1; seq <= 300000; seq++) {
        CHECK_EQ_I64(STATUS_OK, pending_add(&pending, seq << 10, seq, 0, 1, &row));
        CHECK_EQ_I64(STATUS_OK, pending_queue(&pending, row));
        uint64_t visits = visits_take();
        CHECK(visits <= 12);
        all += visits;
    }
    CHECK(all < 600000);
    CHECK(pending.row_capacity < 300000 + 2 * PENDING_SLAB);
    pending_clear(&pending);
    CHECK_EQ_U64(0, visits_take());
    pending_free(&pending);
}

/* Sequences as streams have them: each one, those of one subject among several, those of one hour. */
static void no_row_is_far_from_its_bucket(void) {
    static const uint64_t steps[] = {1, 2, 3, 7, 16, 64, 100, 1000, 1024, 65536};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        pending_init(&pending, NULL);
        uint64_t passed = 0, most = 100000;
        uint32_t added;
        for (uint64_t n = 1; n <= most; n++)
            CHECK_EQ_I64(STATUS_OK, pending_add(&pending, n * steps[i], n, 0, 1, &added));
        for (uint32_t bucket = 0; bucket < pending.rows_used; bucket++) {
            uint32_t chain = 0, row = pending.slabs[bucket / PENDING_SLAB].buckets[bucket % PENDING_SLAB];
            for (; row != PENDING_NONE; row = pending_row(&pending, row)->next) passed += ++chain;
        }
        CHECK(passed <= 2 * most); /* chance alone makes it 1.6 for each */
        pending_free(&pending);
    }
}

static void memory_is_counted(void) {
    share_t share = {.limit = 1 << 20};
    pending_init(&pending, &share);
    uint32_t row;
    uint64_t seq = 0;
    while (!pending_is_full(&pending)) {
        CHECK_EQ_I64(STATUS_OK, pending_add(&pending, seq + 1, 1, 0, 1, &row));
        seq++;
        if (seq % 2) CHECK_EQ_I64(STATUS_OK, pending_queue(&pending, row));
        CHECK_EQ_U64(share.used, pending.bytes);
    }
    CHECK(share.used <= share.limit && share.used > share.limit / 10 * 9);
    CHECK(share.used >= seq * sizeof(pending_row_t));
    pending_free(&pending);
    CHECK_EQ_U64(0, share.used);
}

static void million(void) {
    pending_init(&pending, NULL);
    uint32_t row;
    for (uint64_t seq = 1; seq <= 1000000; seq++)
        CHECK_EQ_I64(STATUS_OK, pending_add(&pending, seq * 3, seq, 0, 1, &row));
    for (uint64_t seq = 1000000; seq > 1; seq--) pending_remove(&pending, pending_find(&pending, seq * 3));
    CHECK_EQ_U64(1, pending.count);
    CHECK_EQ_U64(3, pending_row(&pending, pending.head)->seq);
    CHECK(pending_sound(&pending));
    pending_trim(&pending);
    CHECK_EQ_U64(1, pending.count);
    pending_remove(&pending, pending.head);
    pending_trim(&pending);
    CHECK(pending.slabs == NULL && pending.bytes == 0);
    CHECK_EQ_I64(STATUS_OK, pending_add(&pending, 5, 1, 0, 1, &row));
    CHECK(pending_sound(&pending));
    pending_free(&pending);
}

int main(void) {
    RUN("it agrees with an array after any sequence of changes", duel);
    RUN("the redelivery queue is first in, first out, and forgets what was acknowledged", queue_is_first_in_first_out);
    RUN("the redelivery queue does not grow with what is acknowledged while it waits there", queue_stays_small);
    RUN("no delivery and no clearing moves many rows", no_delivery_moves_many);
    RUN("looking for a row passes over less than one other", no_row_is_far_from_its_bucket);
    RUN("its memory is counted, and it is full when its share is", memory_is_counted);
    RUN("a million messages in flight come and go, and their memory with them", million);
    return TEST_RESULT();
}
