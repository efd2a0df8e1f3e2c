/* kept_scenes.h: plays a scene on copies of a store that is prepared once and closed, while a read of LMDB fails, or an
 * allocation, at one place after the other. Afterwards, with nothing failing, the stream is what it would have been,
 * after a kill as well, and an alarm told of the read. Scenes: test_store_searches_faults_memory.c,
 * test_store_looks_faults_memory.c.
 */
#ifndef LEAFD_TESTS_KEPT_SCENES_H
#define LEAFD_TESTS_KEPT_SCENES_H

#include "kept_store.h"
#include "store_faults.h"

#define CI_STRIDE 47 /* every so many places, from a drawn one on, unless LEAFD_TEST_STRIDE says otherwise */
#define SEQS_MAX 3020

static uint64_t seqs[SEQS_MAX + 1]; /* of the scene that is played */
static void (*damage)(void);
static store_hooks_t hooks;

static inline unsigned stride(void) {
    return getenv("LEAFD_TEST_STRIDE") != NULL ? test_stride() : CI_STRIDE;
}

static inline unsigned first_place(void) {
    return 1 + (unsigned)time(NULL) % stride();
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

static inline bool is_left(uint64_t seq, const uint64_t *without) {
    for (; *without != 0; without++) {
        if (*without == seq) return false;
    }
    return true;
}

/* What is there in the end. */
static inline void expect(uint64_t from, uint64_t upto, const uint64_t *without) {
    unsigned count = 0;
    for (uint64_t seq = from; seq <= upto; seq++) {
        if (is_left(seq, without)) seqs[count++] = seq;
    }
    CHECK(count <= SEQS_MAX);
    seqs[count] = 0;
}

/* ---- how a scene is played --------------------------------------------------------------------------------------- */

static inline void begin_copy(void) {
    copy_kept_store(&rig);
    rig_start(&rig);
    store_set_hooks(rig.store, hooks);
    stream = rig_stream(&rig, 1, scene->config());
    rig_sync(&rig);
}

static inline bool play_copy(unsigned n, unsigned times, int error) {
    begin_copy();
    (void)rig_alarmed(&rig, "");
    fail_from(n, times, error);
    scene->during();
    turns(6);
    bool reached = counted() >= n;
    heal();
    turns(12);
    check_stream("afterwards");
    SCENE_CHECK(fault != READ || !reached || rig_alarmed(&rig, "reading"));
    rig_checkpoint(&rig);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, scene->config());
    turns(12);
    check_stream("after a kill");
    drop_copy(&rig);
    return reached;
}

static inline void play_copies(const scene_t *next) {
    scene = next;
    fault = READ;
    failing_at = 0;
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    scene->before();
    rig_checkpoint(&rig);
    store_close(rig.store);
    rig.store = NULL;
    if (damage != NULL) damage();
    keep_store(&rig);
    for (; fault <= ALLOCATION; fault += ALLOCATION - READ) {
        unsigned most = 0;
        for (unsigned n = first_place(); play_copy(n, 1, EIO); n += stride()) {
            most = n;
            SCENE_CHECK(n < 20 * PLACES_MAX);
        }
        for (unsigned n = first_place(); n <= most; n += 3 * stride()) {
            (void)play_copy(n, 3, n % 2 == 0 ? ENOMEM : MDB_CORRUPTED);
        }
        printf("%s: %u of %s\n", scene->name, most, fault_names[fault]);
    }
    drop_kept_store(&rig);
    damage = NULL;
    hooks = (store_hooks_t){0};
}

#endif
