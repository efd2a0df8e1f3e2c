/* test_store_fill_faults_memory.c: a hole of a mirror is filled while a read of LMDB fails, or an allocation, at each
 * place. What is not known then is asked again, as links/holes.py does. Afterwards, with nothing failing, the stream
 * has all that its origin has, under the right subjects, after a kill as well. What is filled without a fault:
 * test_store_fill.c.
 */
#include "failing_place.h"
#include "fill_rig.h"
#include "kept_store.h"
#include "unreserved.h"

#define TRIES 60
#define PLACES_MAX 20000
#define CI_STRIDE 61 /* every so many places, from a drawn one on, unless LEAFD_TEST_STRIDE says otherwise */

#define FILL_CHECK(condition) PLACE_CHECK("the scene", condition)

static void again(unsigned *tries) {
    FILL_CHECK(++*tries < TRIES);
    rig_pass(&rig, 10 * NS_PER_MS);
    store_tick(rig.store, rig.now);
}

static void fill_one(store_stream_t *stream, uint64_t upto, uint64_t seq) {
    char subject[32];
    char payload[400];
    append_t append = message_of(seq, subject, payload);
    bool stored = false;
    unsigned tries = 0;
    status_t status = store_fill(stream, upto, &append, rig.now, &stored);
    while (status != STATUS_OK) {
        FILL_CHECK(status != STATUS_NOT_FOUND && status != STATUS_CORRUPT && status != STATUS_INVALID && !stored);
        again(&tries);
        status = store_fill(stream, upto, &append, rig.now, &stored);
    }
    FILL_CHECK(stored);
}

/* Those of a page that is gone: from its begin to its end; a newest message goes, and comes. */
static void fill_hole(store_stream_t *stream, const hole_t *hole) {
    for (uint64_t seq = hole->from; seq <= hole->upto; seq++) {
        fill_one(stream, hole->upto, seq);
    }
}

static void check_filled(store_stream_t *stream) {
    FILL_CHECK(store_sound(rig.store));
    FILL_CHECK(rig_state(stream).messages == MESSAGES && rig_state(stream).first_seq == 1);
    for (uint64_t seq = 1; seq <= MESSAGES; seq++) {
        stored_message_t found;
        FILL_CHECK(store_read(stream, seq, &found) == ENTRY_FOUND);
        check_message(&found, seq);
    }
    for (unsigned number = 0; number < SUBJECTS; number++) {
        char subject[32];
        snprintf(subject, sizeof subject, "fill.%u", number);
        bytes_t pattern = text(subject);
        filters_t filters = {.patterns = &pattern, .count = 1};
        uint64_t count = 0;
        for (uint64_t seq = 1; seq <= MESSAGES; seq++) {
            count += subject_number(seq) == number;
        }
        FILL_CHECK(store_count(stream, filters, 0) == count);
        for (uint64_t upto = MESSAGES; upto > MESSAGES / 3; upto -= 61) {
            stored_message_t found;
            FILL_CHECK(store_last_by_subject(stream, pattern, upto, &found) == ENTRY_FOUND);
            FILL_CHECK(found.seq == newest_in_model(number, upto));
        }
    }
}

/* true: the n-th was reached. */
static bool fill_while(unsigned n, unsigned times, const hole_t *hole) {
    copy_kept_store(&rig);
    rig_start(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, config);
    rig_sync(&rig);
    (void)rig_alarmed(&rig, "");
    fail_from(n, times);
    fill_hole(stream, hole);
    bool reached = counted() >= n;
    heal();
    for (unsigned tries = 0; tries < 6;) {
        again(&tries);
    }
    check_filled(stream);
    FILL_CHECK(fault != READ || !reached || rig_alarmed(&rig, "reading"));
    look_for_holes();
    FILL_CHECK(hole_count == 0);
    rig_sync(&rig);
    rig_kill(&rig);
    rig_start(&rig);
    check_filled(rig_stream(&rig, 1, config));
    drop_copy(&rig);
    return reached;
}

static unsigned stride(void) {
    return getenv("LEAFD_TEST_STRIDE") != NULL ? test_stride() : CI_STRIDE;
}

static unsigned first_place(void) {
    return 1 + (unsigned)time(NULL) % stride();
}

/* The hole is there, and its messages are not; or its page was made anew live, and they are damaged. */
static void fill_each(const char *name) {
    CHECK(hole_count == 1);
    hole_t hole = holes[0];
    for (uint64_t seq = 1; seq <= MESSAGES; seq++) {
        model[seq].there = true;
    }
    store_close(rig.store);
    rig.store = NULL;
    keep_store(&rig);
    for (fault = READ; fault < FAULTS; fault++) {
        unsigned most = 0;
        for (unsigned n = first_place(); fill_while(n, 1, &hole); n += stride()) {
            most = n;
            FILL_CHECK(n < PLACES_MAX);
        }
        for (unsigned n = first_place(); n <= most; n += 3 * stride()) {
            (void)fill_while(n, 3, &hole);
        }
        printf("%s: %u of %s\n", name, most, fault_names[fault]);
    }
    drop_kept_store(&rig);
}

static void a_hole_is_filled(void) {
    begin(rig_config(), false);
    spoil(MESSAGES / 2, 0);
    rig_start(&rig);
    (void)rig_stream(&rig, 1, config);
    look_for_holes();
    fill_each("a hole");
}

static void a_first_page_is_filled(void) {
    begin(rig_config(), false);
    spoil(1, 0);
    rig_start(&rig);
    (void)rig_stream(&rig, 1, config);
    look_for_holes();
    fill_each("the first page");
}

int main(void) {
    RUN("a hole is filled, whichever read or allocation failed", a_hole_is_filled);
    RUN("so is one before the first message", a_first_page_is_filled);
    return TEST_RESULT();
}
