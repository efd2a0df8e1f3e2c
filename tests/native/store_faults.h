/* store_faults.h: plays a scene on a store while a read of LMDB fails, or an allocation, at every place, or after
 * damage took the head of a subject. Looks whether the stream is afterwards what it would have been without. Scenes are
 * in test_store_faults_memory.c.
 */
#ifndef LEAFD_TESTS_STORE_FAULTS_H
#define LEAFD_TESTS_STORE_FAULTS_H

#include "failing_allocator.h"
#include "failing_reads.h"
#include "spoiled_heads.h"
#include "unreserved.h"

#define TRIES 40
#define HEADS_SPOILED 4 /* subjects of a scene */
#define SUBJECTS_MAX 8
#define PLACES_MAX 2000 /* a scene has fewer reads, and fewer allocations */

typedef struct scene {
    const char *name;
    stream_config_t (*config)(void);
    void (*before)(void);
    void (*during)(void);
    const uint64_t *seqs; /* that are there in the end, 0 behind the last */
    uint64_t first;
    uint64_t last;
    uint64_t subjects;
    bool cold; /* the store was opened anew: nothing is in a cache */
} scene_t;

static rig_t rig;
static store_stream_t *stream;
static const scene_t *scene;

/* ---- what fails -------------------------------------------------------------------------------------------------- */

typedef enum fault { READ, READ_ELSEWHERE, ALLOCATION, ALLOCATION_ELSEWHERE, HEAD } fault_t;

static const char *const fault_names[] = {"read", "read of the store's threads", "allocation",
                                          "allocation of the store's threads", "head"};
static fault_t fault;
static unsigned failing_at;

static inline void fail_from(unsigned n, unsigned times, int error) {
    failing_at = n;
    if (fault <= READ_ELSEWHERE) {
        failing_reads((failing_reads_t){.from = n, .times = times, .error = error, .others = fault == READ_ELSEWHERE});
    } else {
        failing_allocations(
            (failing_allocations_t){.from = n, .times = times, .others = fault == ALLOCATION_ELSEWHERE});
    }
}

static inline unsigned counted(void) {
    return fault <= READ_ELSEWHERE ? failing_reads_count() : (unsigned)failing_allocations_count();
}

static inline void heal(void) {
    failing_reads((failing_reads_t){0});
    failing_allocations((failing_allocations_t){0});
}

/* ---- how a scene is played --------------------------------------------------------------------------------------- */

#define SCENE_CHECK(condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            FAIL("%s, %s %u fails: %s", scene->name, fault_names[fault], failing_at, #condition);                      \
        }                                                                                                              \
    } while (0)

static inline void again(unsigned *tries) {
    SCENE_CHECK(++*tries < TRIES);
    rig_pass(&rig, 10 * NS_PER_MS);
    store_tick(rig.store, rig.now);
}

/* As a publisher who tries again: no other refusal is right. */
static inline appended_t insist(const append_t *append) {
    appended_t got = store_append(stream, append, rig.now);
    for (unsigned tries = 0; got.verdict == APPEND_NO_SPACE || got.verdict == APPEND_LATER;) {
        again(&tries);
        got = store_append(stream, append, rig.now);
    }
    return got;
}

static inline void store(const char *subject) {
    append_t append = {.subject = text(subject), .payload = text("payload")};
    SCENE_CHECK(insist(&append).verdict == APPEND_STORED);
}

static inline void store_all(const char *subjects) {
    char subject[] = "s.?";
    for (; *subjects != 0; subjects++) {
        subject[2] = *subjects;
        store(subject);
    }
}

static inline void delete (uint64_t seq) {
    status_t status = store_delete(stream, seq);
    for (unsigned tries = 0; status != STATUS_OK;) {
        SCENE_CHECK(status != STATUS_NOT_FOUND);
        SCENE_CHECK(status != STATUS_CORRUPT);
        again(&tries);
        status = store_delete(stream, seq);
    }
}

static inline void purge(const char *filter, uint64_t below, uint64_t keep) {
    store_purge_t request = {.filter = text(filter), .below_seq = below, .keep = keep};
    step_outcome_t step = STEP_MORE;
    for (unsigned tries = 0; step != STEP_OVER;) {
        uint64_t purged;
        status_t status = store_purge(stream, &request, &purged, &step);
        CHECK(status == STATUS_OK || step != STEP_OVER);
        if (step != STEP_OVER) {
            again(&tries);
        }
    }
}

/* So many turns of 50 ms. */
static inline void turns(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        rig_pass(&rig, 50 * NS_PER_MS);
        store_tick(rig.store, rig.now);
    }
}

/* Of each subject the newest message is the one that is there. */
static inline void check_newest(void) {
    struct {
        char subject[8];
        uint64_t seq;
    } newest[SUBJECTS_MAX] = {0};
    uint32_t count = 0, at;
    for (const uint64_t *seq = scene->seqs; *seq != 0; seq++) {
        stored_message_t message;
        SCENE_CHECK(store_read(stream, *seq, &message) == ENTRY_FOUND && message.subject.size < 8);
        for (at = 0; at < count && !bytes_equal(message.subject, text(newest[at].subject)); at++) {
        }
        SCENE_CHECK(at < SUBJECTS_MAX);
        count += at == count;
        memcpy(newest[at].subject, message.subject.at, message.subject.size);
        newest[at].seq = *seq;
    }
    for (at = 0; at < count; at++) {
        stored_message_t message;
        SCENE_CHECK(store_last_by_subject(stream, text(newest[at].subject), UINT64_MAX, &message) == ENTRY_FOUND);
        SCENE_CHECK(message.seq == newest[at].seq);
    }
}

static inline void check_stream(const char *when) {
    stream_state_t state = rig_state(stream);
    uint64_t count = 0;
    for (; scene->seqs[count] != 0; count++) {
        stored_message_t message;
        if (store_read(stream, scene->seqs[count], &message) != ENTRY_FOUND) {
            FAIL("%s, %s %u fails, %s: message %llu is gone", scene->name, fault_names[fault], failing_at, when,
                 (unsigned long long)scene->seqs[count]);
        }
    }
    if (state.messages != count || state.first_seq != scene->first || state.last_seq != scene->last
        || state.subjects != scene->subjects) {
        FAIL("%s, %s %u fails, %s: %llu messages %llu to %llu on %llu subjects", scene->name, fault_names[fault],
             failing_at, when, (unsigned long long)state.messages, (unsigned long long)state.first_seq,
             (unsigned long long)state.last_seq, (unsigned long long)state.subjects);
    }
    SCENE_CHECK(store_count(stream, (filters_t){0}, 1) == count);
    bytes_t any = text("s.*");
    SCENE_CHECK(store_count(stream, (filters_t){.patterns = &any, .count = 1}, 1) == count);
    check_newest();
}

/* Checkpoints come, in which the store's threads read and allocate. */
static inline void let_checkpoints_come(void) {
    for (unsigned i = 0; i < 20; i++) {
        rig_pass(&rig, NS_PER_SECOND);
        store_tick(rig.store, rig.now);
        usleep(500);
    }
}

/* The store was opened anew; the n-th subject may have lost its head meanwhile. */
static inline void begin_cold(unsigned n) {
    char subject[] = {'s', '.', (char)('a' + n - 1), 0};
    CHECK(store_sound(rig.store));
    store_close(rig.store);
    if (fault == HEAD) {
        failing_at = n;
        (void)spoil_head(&rig, text(subject), HEAD_FIXED_SIZE);
    }
    rig_start(&rig);
    stream = rig_stream(&rig, 1, scene->config());
    if (fault != HEAD) {
        rig_sync(&rig);
    }
}

/* A count asks for every head; it goes on turn by turn while one is counted again. */
static inline void ask_for_heads(void) {
    bytes_t any = text("s.*");
    unsigned tries = 0;
    store_tally_t *tally;
    while ((tally = store_tally_open(stream, (filters_t){.patterns = &any, .count = 1}, 0)) == NULL) {
        again(&tries);
    }
    while (store_tally_step(tally, UINT32_MAX) != STEP_OVER) {
        again(&tries);
    }
    store_tally_close(tally);
}

/* true: the n-th was reached. */
static inline bool run(unsigned n, unsigned times, int error) {
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, scene->config());
    scene->before();
    rig_checkpoint(&rig);
    if (scene->cold) {
        begin_cold(n);
    }
    (void)rig_alarmed(&rig, "");
    if (fault != HEAD) {
        fail_from(n, times, error);
    }
    scene->during();
    turns(6);
    if (fault == READ_ELSEWHERE || fault == ALLOCATION_ELSEWHERE) {
        let_checkpoints_come();
    }
    bool reached = counted() >= n;
    heal();
    turns(6);
    if (fault == HEAD) {
        ask_for_heads();
    }
    check_stream("afterwards");
    SCENE_CHECK(fault != READ || !reached || rig_alarmed(&rig, "reading"));
    rig_checkpoint(&rig);
    check_stream("after a checkpoint");
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, scene->config());
    turns(6);
    check_stream("after a kill");
    rig_close(&rig);
    return reached;
}

static inline unsigned run_each(unsigned times, unsigned step) {
    unsigned n = 1;
    for (; run(n, times, times == 1 ? EIO : n % 2 == 0 ? ENOMEM : MDB_CORRUPTED); n += step) {
        SCENE_CHECK(n < PLACES_MAX);
    }
    return n - 1;
}

static inline void play(const scene_t *next) {
    scene = next;
    for (fault = READ; fault <= ALLOCATION_ELSEWHERE; fault++) {
        bool elsewhere = fault == READ_ELSEWHERE || fault == ALLOCATION_ELSEWHERE;
        if (elsewhere && !scene->cold) {
            continue; /* the keeper waits before it tries again, and does the same for both */
        }
        unsigned step = test_stride(); /* (of some, what fails once meets as many threads as what fails three times) */
        unsigned once = run_each(1, step), thrice = elsewhere || step > 1 ? once : run_each(3, step);
        printf("%s: %u and %u of %s\n", scene->name, once, thrice, fault_names[fault]);
    }
    fault = HEAD;
    for (unsigned n = 1; scene->cold && n <= HEADS_SPOILED; n += test_stride()) {
        (void)run(n, 0, 0);
    }
    fault = READ;
}

#endif
