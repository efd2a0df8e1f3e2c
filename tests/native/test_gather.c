/* The wait of the open batch for those whose messages have just come to the disk: publishers that wait for each
 * answer, a disk that takes its time, and a clock of steps. */
#include "store/gather.h"
#include "test.h"

#define PUBLISHERS 16
#define STEP_NS INT64_C(10000)
#define US INT64_C(1000)
#define NEVER INT64_MAX

typedef enum place { AWAY, OPEN, FLYING } place_t;

typedef struct model {
    int64_t sync_ns;
    int64_t again_ns; /* from a publisher's answer to its next message */
    bool never_waits;
    gather_t gather;
    place_t places[PUBLISHERS];
    int64_t due[PUBLISHERS];
    uint32_t open;
    int64_t synced_at;
    uint64_t messages;
    uint64_t batches;
} model_t;

static void come_to_disk(model_t *model, int64_t now) {
    gather_durable(&model->gather, model->open, now);
    for (int i = 0; i < PUBLISHERS; i++) {
        if (model->places[i] == FLYING) {
            model->places[i] = AWAY;
            model->due[i] = now + model->again_ns;
            model->messages++;
        }
    }
    model->synced_at = NEVER;
}

static void close_batch(model_t *model, int64_t now) {
    gather_sealed(&model->gather, model->open, now);
    for (int i = 0; i < PUBLISHERS; i++) {
        model->places[i] = model->places[i] == OPEN ? FLYING : model->places[i];
    }
    model->open = 0;
    model->batches++;
    model->synced_at = now + model->sync_ns;
}

/* For a second. They begin in two groups. */
static void run_model(model_t *model) {
    for (int i = 0; i < PUBLISHERS; i++) {
        model->due[i] = i % 2 == 0 ? 0 : model->sync_ns / 2;
    }
    model->synced_at = NEVER;
    for (int64_t now = 0; now < NS_PER_SECOND; now += STEP_NS) {
        for (int i = 0; i < PUBLISHERS; i++) {
            if (model->places[i] == AWAY && model->due[i] <= now) {
                model->places[i] = OPEN;
                model->open++;
            }
        }
        if (model->synced_at <= now) {
            come_to_disk(model, now);
        }
        if (model->synced_at == NEVER && model->open > 0) {
            gather_opened(&model->gather, now);
            if (model->never_waits || !gather_waits(&model->gather, model->open, now)) close_batch(model, now);
        }
    }
}

static void one_batch_for_all(void) {
    model_t model = {.sync_ns = 5000 * US, .again_ns = 300 * US};
    model_t without = {.sync_ns = 5000 * US, .again_ns = 300 * US, .never_waits = true};
    run_model(&model);
    run_model(&without);
    CHECK(model.messages >= (model.batches - 2) * PUBLISHERS);
    CHECK(model.messages * 10 > without.messages * 17);
}

/* An SD card: the wait behind a sync lasts longer than a rest is. */
static void one_batch_for_all_on_a_slow_disk(void) {
    model_t model = {.sync_ns = 60 * NS_PER_MS, .again_ns = 20 * NS_PER_MS};
    run_model(&model);
    CHECK(model.messages >= (model.batches - 2) * PUBLISHERS);
    CHECK_EQ_U64(0, model.gather.usual.misses);
}

/* Where bursts are known, too: it waits once, and those who do not come are a miss of that wait alone. */
static void a_wait_behind_a_sync_is_no_rest(void) {
    const int64_t durable = 1060 * NS_PER_MS;
    gather_t gather = {.burst = 20};
    gather_sealed(&gather, 4, 1000 * NS_PER_MS);
    gather_durable(&gather, 4, durable);
    int64_t now = durable;
    for (; gather_opened(&gather, now), gather_waits(&gather, 4, now); now += STEP_NS) {
        CHECK(!gather.rested);
    }
    CHECK_EQ_I64(durable + 30 * NS_PER_MS, now);
    CHECK(!gather.rested);
    gather_sealed(&gather, 4, now);
    CHECK_EQ_U64(1, gather.usual.misses);
    CHECK_EQ_U64(0, gather.first.misses);
}

static void waits_in_vain_are_rare(void) {
    model_t model = {.sync_ns = 5000 * US, .again_ns = 4000 * US};
    model_t without = {.sync_ns = 5000 * US, .again_ns = 4000 * US, .never_waits = true};
    run_model(&model);
    run_model(&without);
    CHECK(model.messages * 20 > without.messages * 19);
}

static void others_do_not_wait(void) {
    gather_t gather = {0};
    gather_sealed(&gather, 8, 0);
    gather_durable(&gather, 8, 100 * US); /* a quick disk */
    CHECK(!gather_waits(&gather, 1, 100 * US));
    gather_sealed(&gather, 1, 200 * US);
    gather_durable(&gather, 0, 5200 * US); /* one publisher alone: its next message is all there is to wait for */
    CHECK(!gather_waits(&gather, 1, 5200 * US));
    gather_sealed(&gather, GATHER_OPS, 6000 * US);
    gather_durable(&gather, 1, 9000 * US); /* enough for a sync of their own */
    CHECK(!gather_waits(&gather, 1, 9000 * US));
}

/* A burst of so many after a rest, over so long, on a disk that takes 5 ms: how many batches it is. *first_ns: for so
 * long the first one waits for its acknowledgement. */
static int burst_batches(gather_t *gather, int64_t begin, uint32_t count, int64_t over, int64_t *first_ns) {
    const int64_t took = 5000 * US;
    int64_t synced_at = NEVER;
    uint32_t came = 0, open = 0;
    int batches = 0;
    for (int64_t now = begin; came < count || open > 0 || synced_at != NEVER; now += STEP_NS) {
        for (; came < count && begin + (int64_t)came * over / count <= now; came++) open++;
        if (synced_at <= now) {
            gather_durable(gather, open, now);
            *first_ns = batches == 1 ? now - begin : *first_ns;
            synced_at = NEVER;
        }
        if (synced_at == NEVER && open > 0) {
            gather_opened(gather, now);
            if (gather_waits(gather, open, now)) continue;
            gather_sealed(gather, open, now);
            open = 0;
            batches++;
            synced_at = now + took;
        }
    }
    return batches;
}

static void bursts_come_into_one_batch(void) {
    gather_t gather = {0};
    int64_t first_ns;
    for (int round = 1; round <= 50; round++) {
        int batches = burst_batches(&gather, round * 100 * NS_PER_MS, 10, 1000 * US, &first_ns);
        CHECK_EQ_I64(round == 1 ? 2 : 1, batches);
        CHECK(first_ns <= 6100 * US);
    }
}

/* The other nine do not come any more. */
static void bursts_end(void) {
    gather_t gather = {0};
    int64_t first_ns;
    (void)burst_batches(&gather, 100 * NS_PER_MS, 10, 1000 * US, &first_ns);
    (void)burst_batches(&gather, 200 * NS_PER_MS, 1, 1000 * US, &first_ns);
    CHECK(first_ns > 7000 * US && first_ns <= 7600 * US); /* for half of a sync, and its own */
    for (int round = 3; round < 50; round++) {
        CHECK_EQ_I64(1, burst_batches(&gather, round * 100 * NS_PER_MS, 1, 1000 * US, &first_ns));
        CHECK(first_ns <= 5100 * US);
    }
}

/* Every other burst is one message: those waits are in vain, and become rare. */
static void bursts_that_are_none_now_and_then(void) {
    gather_t gather = {0};
    int64_t first_ns;
    int late = 0;
    for (int round = 1; round <= 200; round++) {
        (void)burst_batches(&gather, round * 100 * NS_PER_MS, round % 2 == 0 ? 1 : 10, 1000 * US, &first_ns);
        late += round % 2 == 0 && first_ns > 5100 * US;
    }
    CHECK(late < 10);
}

/* Over longer than half of a sync: the first one waits no longer than that, and seldom. */
static void slow_bursts(void) {
    gather_t gather = {0};
    int64_t first_ns;
    int late = 0;
    for (int round = 1; round <= 200; round++) {
        (void)burst_batches(&gather, round * 100 * NS_PER_MS, 10, 6000 * US, &first_ns);
        CHECK(first_ns <= 7600 * US);
        late += first_ns > 5100 * US;
    }
    CHECK(late < 10);
}

static void lone_messages_never_wait(void) {
    gather_t gather = {0};
    int64_t first_ns;
    for (int round = 1; round <= 50; round++) {
        CHECK_EQ_I64(1, burst_batches(&gather, round * 20 * NS_PER_MS, 1, 0, &first_ns));
        CHECK(first_ns <= 5100 * US);
    }
    CHECK_EQ_I64(2, burst_batches(&gather, 2000 * NS_PER_MS, 2, 1000 * US, &first_ns));
    CHECK_EQ_I64(1, burst_batches(&gather, 2020 * NS_PER_MS, 2, 1000 * US, &first_ns));
    CHECK(first_ns <= 6100 * US);
}

int main(void) {
    RUN("publishers that wait for each answer come into one batch, and share its sync", one_batch_for_all);
    RUN("likewise on a disk whose sync takes sixty milliseconds", one_batch_for_all_on_a_slow_disk);
    RUN("a batch that waits behind a slow sync is not taken for one after a rest", a_wait_behind_a_sync_is_no_rest);
    RUN("those who do not come in time cost the others a twentieth at most", waits_in_vain_are_rare);
    RUN("a quick disk, one publisher alone and large batches are not waited for", others_do_not_wait);
    RUN("messages that come together after a rest are one batch from the second time on", bursts_come_into_one_batch);
    RUN("when no more than one comes, a single one has waited for the others", bursts_end);
    RUN("waits for bursts that come now and then become rare", bursts_that_are_none_now_and_then);
    RUN("a burst over more than half of a sync has its first one wait for that at most, and seldom", slow_bursts);
    RUN("lone messages do not wait; of two that come together, the first does", lone_messages_never_wait);
    return TEST_RESULT();
}
