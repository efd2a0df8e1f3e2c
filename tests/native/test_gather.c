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
        bool waits = !model->never_waits && gather_waits(&model->gather, model->open, now);
        if (model->synced_at == NEVER && model->open > 0 && !waits) {
            close_batch(model, now);
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

int main(void) {
    RUN("publishers that wait for each answer come into one batch, and share its sync", one_batch_for_all);
    RUN("those who do not come in time cost the others a twentieth at most", waits_in_vain_are_rare);
    RUN("a quick disk, one publisher alone and large batches are not waited for", others_do_not_wait);
    return TEST_RESULT();
}
