/* test_store_mending_faults_memory.c: a page of data.mdb is damaged while the store runs, and a read of LMDB fails, or
 * an allocation, at each place of what mends it: heads of subjects are made anew of the messages (store/derive.h),
 * names of the definitions, and a stream that lost messages is counted again (store/reckon.h). What cannot be read
 * meanwhile is not known, and said. After a start, if not before, all of it is as the messages are. Without a fault:
 * test_store_derive.c and test_store_patch.c.
 *
 * Each run has some of the places, from a drawn one on; LEAFD_TEST_STRIDE=1 has all.
 */
#include "durables.h"
#include "failing_allocator.h"
#include "failing_reads.h"
#include "kept_store.h"
#include "unreserved.h"

#define SUBJECTS 700u
#define PLACES_MAX 40000u
#define CI_STRIDE 997u /* most places are the same walk over the messages */

typedef enum fault { READ, ALLOCATION, FAULTS } fault_t;

static const char *const fault_names[] = {"read", "allocation"};
static const char *scene;
static fault_t fault;
static unsigned failing_at;

#define MEND_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) FAIL("%s, %s %u fails: %s", scene, fault_names[fault], failing_at, #condition);              \
    } while (0)

static void fail_from(unsigned n) {
    failing_at = n;
    if (fault == READ) {
        failing_reads((failing_reads_t){.from = n, .times = 1, .error = EIO});
    } else {
        failing_allocations((failing_allocations_t){.from = n, .times = 1});
    }
}

static unsigned counted(void) {
    return fault == READ ? failing_reads_count() : (unsigned)failing_allocations_count();
}

static void heal(void) {
    failing_reads((failing_reads_t){0});
    failing_allocations((failing_allocations_t){0});
}

static void subject_of(unsigned number, char room[32]) {
    snprintf(room, 32, "many.of.them.%u", number);
}

/* Two messages of each subject, behind those of the rig. */
static void make_store(void (*more)(void)) {
    begin(rig_config());
    for (unsigned i = 0; i < 2 * SUBJECTS; i++) {
        char subject[32];
        subject_of(i % SUBJECTS, subject);
        append_t append = {.subject = text(subject), .payload = text("x")};
        CHECK_EQ_U64(APPEND_STORED, rig_append(&rig, stream, &append).verdict);
    }
    rig_checkpoint(&rig);
    if (more != NULL) more();
    rig_checkpoint(&rig);
    store_close(rig.store);
    rig.store = NULL;
    keep_store(&rig);
}

static void open_streams(void) {
    stream = rig_stream(&rig, 1, rig_config());
    (void)rig_stream(&rig, 2, rig_config());
}

/* How many subjects are not known now; each other one has its two messages. */
static unsigned unknown_subjects(void) {
    unsigned unknown = 0;
    for (unsigned i = 0; i < SUBJECTS; i++) {
        stored_message_t message;
        char subject[32];
        subject_of(i, subject);
        entry_outcome_t outcome = store_last_by_subject(stream, text(subject), UINT64_MAX, &message);
        unknown += outcome == ENTRY_UNKNOWN;
        MEND_CHECK(outcome == ENTRY_UNKNOWN || outcome == ENTRY_FOUND);
        MEND_CHECK(outcome == ENTRY_UNKNOWN || message.seq == MESSAGES + SUBJECTS + 1 + i);
    }
    return unknown;
}

static bool visit(void *context, bytes_t subject, uint64_t count, uint64_t last) {
    unsigned *seen = context;
    char room[32] = "";
    MEND_CHECK(subject.size < sizeof room);
    memcpy(room, subject.at, subject.size);
    unsigned number = (unsigned)strtoul(room + strlen("many.of.them."), NULL, 10);
    MEND_CHECK(count == 2 && last == MESSAGES + SUBJECTS + 1 + number);
    ++*seen;
    return true;
}

static void all_are_counted(void) {
    unsigned seen = 0;
    store_walk_t *walk = store_walk_open(stream, text("many.>"));
    CHECK(walk != NULL);
    step_outcome_t step = STEP_MORE;
    while (step == STEP_MORE) step = store_walk_step(walk, 10000, visit, &seen);
    MEND_CHECK(step == STEP_OVER && seen == SUBJECTS);
    store_walk_close(walk);
}

static bool heads_while(unsigned n) {
    copy_kept_store(&rig);
    rig_start(&rig);
    open_streams();
    (void)rig_alarmed(&rig, "");
    spoil(page_below("heads", 1), ZEROS);
    fail_from(n);
    ticks();
    (void)unknown_subjects();
    ticks();
    bool reached = counted() >= n;
    heal();
    ticks();
    if (unknown_subjects() > 0) MEND_CHECK(rig_alarmed(&rig, "data.mdb"));
    MEND_CHECK(rig_state(stream).messages == MESSAGES + 2 * SUBJECTS && rig_state(stream).subjects == SUBJECTS + 40);
    store_close(rig.store);
    rig_start(&rig);
    open_streams();
    MEND_CHECK(unknown_subjects() == 0);
    all_are_counted();
    MEND_CHECK(rig_state(stream).messages == MESSAGES + 2 * SUBJECTS && rig_state(stream).subjects == SUBJECTS + 40);
    drop_copy(&rig);
    return reached;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void put_durables(void) {
    for (unsigned i = 1; i <= DURABLES; i++) put_durable(i);
}

static bool names_while(unsigned n) {
    copy_kept_store(&rig);
    rig_start(&rig);
    open_streams();
    spoil(page_below("names", 1), GARBAGE);
    fail_from(n);
    ticks();
    list_outcome_t listed = store_lost_each(rig.store, BYTES_NONE, no_lost, NULL);
    ticks();
    bool reached = counted() >= n;
    heal();
    MEND_CHECK(listed == LIST_LACKS);
    ticks();
    if (store_lost_each(rig.store, BYTES_NONE, no_lost, NULL) != LIST_WHOLE) {
        MEND_CHECK(rig_alarmed(&rig, "data.mdb"));
    }
    store_close(rig.store);
    rig_start(&rig); /* makes names that are missing */
    names_are(DURABLES, 0);
    drop_copy(&rig);
    return reached;
}

/* ---- counted again ----------------------------------------------------------------------------------------------- */

/* Which ones had been removed is not known without their page. */
static void make_gaps(void) {
    for (uint64_t seq = MESSAGES / 3; seq <= MESSAGES - 200; seq += 7) {
        status_t status = STATUS_AGAIN;
        for (int64_t until = 0; status != STATUS_OK && patient(&until);) {
            status = store_delete(stream, seq);
            if (status != STATUS_OK) rig_sync(&rig);
        }
    }
    rig_checkpoint(&rig);
}

/* Nobody has the origin's messages: the hole is left. */
static void leave_hole(uint64_t upto) {
    bool stored = true;
    append_t nothing = {.force_seq = upto};
    CHECK_EQ_I64(STATUS_OK, store_fill(stream, upto, &nothing, rig.now, &stored));
    CHECK(!stored);
}

static void numbers_are_true(void) {
    uint64_t messages = 0, bytes = 0;
    for (uint64_t seq = 1; seq <= MESSAGES + 2 * SUBJECTS; seq++) {
        stored_message_t message;
        entry_outcome_t outcome = store_read(stream, seq, &message);
        MEND_CHECK(outcome != ENTRY_UNKNOWN);
        messages += outcome != ENTRY_NONE;
        bytes += outcome == ENTRY_FOUND ? message.subject.size + message.payload.size + 30 : 0;
    }
    MEND_CHECK(rig_state(stream).messages == messages && rig_state(stream).bytes == bytes);
    MEND_CHECK(rig_state(stream).subjects == SUBJECTS + 40);
    MEND_CHECK(unknown_subjects() == 0);
    all_are_counted();
}

/* A turn of a stream's count waits for the keeper's commit. */
static bool is_counted(void) {
    rig_pass(&rig, 100 * NS_PER_MS);
    rig_sync(&rig);
    usleep(200);
    return rig_alarmed(&rig, "was counted again");
}

/* A page of messages is gone, and was made anew without them. */
static bool counted_while(unsigned n) {
    uint64_t from, upto;
    copy_kept_store(&rig);
    rig_start(&rig);
    open_streams();
    spoil(page_of(MESSAGES / 2, 0, &from, &upto), ZEROS);
    ticks();
    CHECK(damaged_or_unknown(MESSAGES / 2, MESSAGES / 2) == 1);
    MEND_CHECK(is_lost_page("it was made anew"));
    leave_hole(upto);
    uint64_t before = rig_state(stream).messages;
    fail_from(n);
    bool told = false;
    for (unsigned i = 0; !told && i < 100; i++) told = is_counted();
    bool reached = counted() >= n;
    heal();
    MEND_CHECK(told || rig_state(stream).messages == before);
    for (int64_t until = 0; !told && patient(&until);) told = is_counted();
    MEND_CHECK(told);
    numbers_are_true();
    store_close(rig.store);
    rig_start(&rig);
    open_streams();
    numbers_are_true();
    drop_copy(&rig);
    return reached;
}

/* ---- at each place ----------------------------------------------------------------------------------------------- */

static unsigned stride(void) {
    return getenv("LEAFD_TEST_STRIDE") != NULL ? test_stride() : CI_STRIDE;
}

static void at_each_place(const char *name, void (*more)(void), bool (*with)(unsigned n)) {
    scene = name;
    make_store(more);
    for (fault = READ; fault < FAULTS; fault++) {
        unsigned most = 0;
        unsigned step = fault == READ ? stride() : 1 + stride() / 100;
        for (unsigned n = 1 + (unsigned)time(NULL) % step; with(n); n += step) {
            most = n;
            MEND_CHECK(n < PLACES_MAX);
        }
        printf("%s: %u of %s\n", name, most, fault_names[fault]);
    }
    drop_kept_store(&rig);
}

static void heads_are_made_anew(void) {
    at_each_place("heads", NULL, heads_while);
}

static void names_are_made_anew(void) {
    at_each_place("names", put_durables, names_while);
}

static void what_is_left_is_counted(void) {
    at_each_place("messages", make_gaps, counted_while);
}

int main(void) {
    RUN("heads that are made anew are the messages', whichever read or allocation failed", heads_are_made_anew);
    RUN("and names those of the definitions", names_are_made_anew);
    RUN("a stream that lost messages is counted again, at once or later", what_is_left_is_counted);
    return TEST_RESULT();
}
