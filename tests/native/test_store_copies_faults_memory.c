/* test_store_copies_faults_memory.c: a stream is given to another store, and taken there (store/copying.h), while a
 * read of LMDB fails, or an allocation, at each place of either side. What the sender could not read is never a part
 * that lacks it, and what the receiver could not read is no end of what has to go: the copy is begun anew, as a
 * replica does. Afterwards, and after a kill, the receiver has the sender's numbers, messages, ids, records and times.
 * Copies between members of a group: test_groups_copies.c, test_replicas_copies.c.
 *
 * Each run has some of the places, from a drawn one on; LEAFD_TEST_STRIDE=1 has all.
 */
#include "failing_place.h"
#include "kept_store.h"
#include "store/copying.h"
#include "store/ledger.h"
#include "store/schedules.h"
#include "unreserved.h"

#define GROUP 7
#define COMMON 8u /* messages that the receiver had already */
#define MESSAGES 14u
#define PART 300u
#define TRIES 60u
#define PLACES_MAX 3000u
#define CI_STRIDE 5u

static rig_t sender;
static rig_t rig; /* the receiver */
static store_stream_t *from_stream;
static store_stream_t *stream;

#define COPY_CHECK(condition) PLACE_CHECK("the scene", condition)

/* ---- the two stores ---------------------------------------------------------------------------------------------- */

static void put(rig_t *to, store_stream_t *which, unsigned number) {
    char subject[] = "s.?", id[20];
    subject[2] = (char)('a' + number % 3);
    snprintf(id, sizeof id, "id %u", number);
    append_t append = {.subject = text(subject), .payload = text("payload"), .msg_id = text(id)};
    append.expires_ts = number % 4 == 0 ? to->now.wall_ns + 3600 * NS_PER_SECOND : 0;
    append.due_ts = number == MESSAGES ? to->now.wall_ns + 7200 * NS_PER_SECOND : 0;
    CHECK_EQ_U64(APPEND_STORED, store_append(which, &append, to->now).verdict);
    rig_sync(to);
}

static void put_record(rig_t *to, uint32_t kind, const char *name, const char *value) {
    uint8_t key[40];
    store_be32(key, 1);
    memcpy(key + 4, name, strlen(name));
    CHECK_EQ_I64(STATUS_OK, store_record_put(to->store, kind, bytes_of(key, 4 + (uint32_t)strlen(name)), text(value)));
}

/* Of what the receiver has, two go; others come. What is applied is noted. */
static void make_sender(void) {
    ledger_t *ledger;
    uint8_t id[4];
    store_be32(id, 1);
    sender = (rig_t){.in_memory = true, .options = {.ledgers = true}};
    rig_open(&sender);
    from_stream = rig_stream(&sender, 1, rig_config());
    for (unsigned i = 1; i <= MESSAGES; i++) put(&sender, from_stream, i);
    CHECK_EQ_I64(STATUS_OK, store_delete(from_stream, 2));
    CHECK_EQ_I64(STATUS_OK, store_delete(from_stream, 5));
    CHECK_EQ_I64(STATUS_OK, store_delete(from_stream, 10));
    CHECK_EQ_I64(STATUS_OK, store_record_put(sender.store, RECORD_STREAM, bytes_of(id, 4), text("definition")));
    put_record(&sender, RECORD_CONSUMER, "one", "consumer");
    put_record(&sender, RECORD_CONSUMER_STATE, "one", "state");
    put_record(&sender, RECORD_SESSION, "s", "session");
    put_record(&sender, RECORD_SOURCE, "from", "position");
    put_record(&sender, RECORD_SOURCE, "other", "another");
    CHECK_EQ_I64(STATUS_OK, store_ledger_make(sender.store, GROUP, 77, text("members"), &ledger));
    CHECK_EQ_I64(STATUS_OK, store_ledger_put(ledger, &(ledger_entry_t){.index = 1, .term = 1, .bytes = text("x")}));
    CHECK_EQ_I64(STATUS_OK, store_ledger_touch(ledger));
    store_ledger_note(ledger, text("note"));
    store_ledger_applied(ledger, 1);
    rig_checkpoint(&sender);
}

static void make_receiver(void) {
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    for (unsigned i = 1; i <= COMMON; i++) put(&rig, stream, i);
    put_record(&rig, RECORD_CONSUMER, "old", "its own");
    put_record(&rig, RECORD_SOURCE, "from", "an older position");
    rig_checkpoint(&rig);
    store_close(rig.store);
    rig.store = NULL;
    keep_store(&rig);
}

/* ---- a copy ------------------------------------------------------------------------------------------------------ */

static void wait_a_while(rig_t *of) {
    rig_pass(of, 10 * NS_PER_MS);
    store_tick(of->store, of->now);
}

/* All of a part. Any other answer than STATUS_OK: the copy is begun anew. */
static status_t take_part(taking_t *taking, bytes_t part) {
    status_t status = STATUS_AGAIN;
    for (unsigned tries = 0; status == STATUS_AGAIN; tries++) {
        COPY_CHECK(tries < TRIES);
        status = store_take(stream, taking, &part);
        if (status == STATUS_AGAIN && taking->defines) {
            COPY_CHECK(bytes_equal(taking->definition, text("definition")));
            taking->defines = false;
            taking->defined = true;
        } else if (status == STATUS_AGAIN) {
            rig_sync(&rig);
        }
    }
    return status;
}

static status_t copy_once(giving_t *giving, uint64_t have_seq) {
    taking_t taking = {.have_seq = have_seq};
    buffer_t bytes;
    status_t status = STATUS_OK;
    buffer_init(&bytes, 1 << 20);
    for (bool all = false; status == STATUS_OK && !all;) {
        bytes.size = 0;
        status = store_give(giving, PART, &bytes, &all);
        if (status == STATUS_OK) status = take_part(&taking, bytes_of(bytes.at, (uint32_t)bytes.size));
    }
    if (status == STATUS_OK) {
        COPY_CHECK(taking.whole && bytes_equal(taking.note, text("note")));
        do {
            rig_sync(&rig);
            status = store_take_end(stream, &taking);
        } while (status == STATUS_FULL);
    }
    buffer_free(&bytes);
    return status;
}

static void copy_until_it_is_whole(void) {
    status_t status = STATUS_AGAIN;
    for (unsigned tries = 0; status != STATUS_OK; tries++) {
        giving_t *giving;
        uint64_t index = 0;
        uint64_t have_seq = rig_state(stream).last_seq;
        COPY_CHECK(tries < TRIES);
        status = store_give_begin(from_stream, GROUP, have_seq, &giving, &index);
        COPY_CHECK(status != STATUS_CORRUPT && (status == STATUS_OK) == (giving != NULL));
        if (status != STATUS_OK) {
            wait_a_while(&sender);
            continue;
        }
        COPY_CHECK(index == 1);
        status = copy_once(giving, have_seq);
        store_give_end(giving);
        COPY_CHECK(status != STATUS_CORRUPT && status != STATUS_NOT_FOUND);
        if (status != STATUS_OK) wait_a_while(&rig);
    }
    rig_sync(&rig);
}

/* ---- what has to be there ---------------------------------------------------------------------------------------- */

static bool count_record(void *context, bytes_t key, bytes_t value) {
    (void)key, (void)value;
    ++*(unsigned *)context;
    return true;
}

static bool has_record(uint32_t kind, const char *name, const char *expected) {
    uint8_t key[40];
    bytes_t value = BYTES_NONE;
    store_be32(key, 1);
    memcpy(key + 4, name, strlen(name));
    return store_record_get(rig.store, kind, bytes_of(key, 4 + (uint32_t)strlen(name)), &value) == ENTRY_FOUND
           && bytes_equal(value, text(expected));
}

static unsigned records_of(uint32_t kind) {
    unsigned count = 0;
    uint8_t id[4];
    store_be32(id, 1);
    COPY_CHECK(store_record_each(rig.store, kind, bytes_of(id, 4), BYTES_NONE, count_record, &count) == LIST_WHOLE);
    return count;
}

static void check_copy(void) {
    stream_state_t there = rig_state(from_stream), here = rig_state(stream);
    COPY_CHECK(store_sound(rig.store));
    COPY_CHECK(here.messages == there.messages && here.bytes == there.bytes && here.subjects == there.subjects);
    COPY_CHECK(here.first_seq == there.first_seq && here.last_seq == there.last_seq);
    for (uint64_t seq = 1; seq <= MESSAGES; seq++) {
        stored_message_t original, copy;
        entry_outcome_t outcome = store_read(stream, seq, &copy);
        COPY_CHECK(outcome == store_read(from_stream, seq, &original));
        if (outcome == ENTRY_FOUND) {
            COPY_CHECK(copy.ts == original.ts && bytes_equal(copy.subject, original.subject));
            COPY_CHECK(bytes_equal(copy.payload, original.payload));
        }
    }
    COPY_CHECK(records_of(RECORD_CONSUMER) == 1 && has_record(RECORD_CONSUMER, "one", "consumer"));
    COPY_CHECK(has_record(RECORD_CONSUMER_STATE, "one", "state") && has_record(RECORD_SESSION, "s", "session"));
    COPY_CHECK(records_of(RECORD_SOURCE) == 2 && has_record(RECORD_SOURCE, "from", "position"));
    COPY_CHECK(has_record(RECORD_SOURCE, "other", "another"));
}

/* Ids of the newest and of one that is gone are duplicates; what expires does, on its time. */
static void check_times(void) {
    COPY_CHECK(rig_put_id(&rig, stream, "s.a", "id 14").verdict == APPEND_DUPLICATE);
    COPY_CHECK(rig_put_id(&rig, stream, "s.a", "id 10").verdict == APPEND_DUPLICATE);
    rig_pass(&rig, 3700 * NS_PER_SECOND);
    for (unsigned i = 0; i < 30; i++) wait_a_while(&rig);
    rig_sync(&rig);
    for (uint64_t seq = 4; seq <= MESSAGES; seq += 4) {
        stored_message_t message;
        COPY_CHECK(store_read(stream, seq, &message) == ENTRY_NONE);
    }
    COPY_CHECK(rig_state(stream).messages == MESSAGES - 3 - 3);
}

/* ---- at each place ----------------------------------------------------------------------------------------------- */

static bool copy_while(unsigned n, unsigned times) {
    copy_kept_store(&rig);
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    rig_sync(&rig);
    fail_from(n, times);
    copy_until_it_is_whole();
    bool reached = counted() >= n;
    heal();
    check_copy();
    rig_checkpoint(&rig);
    check_copy();
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    check_copy();
    check_times();
    drop_copy(&rig);
    return reached;
}

static unsigned stride(void) {
    return getenv("LEAFD_TEST_STRIDE") != NULL ? test_stride() : CI_STRIDE;
}

static unsigned first_place(void) {
    return 1 + (unsigned)time(NULL) % stride();
}

static void copies(const char *name) {
    make_sender();
    make_receiver();
    for (fault = READ; fault < FAULTS; fault++) {
        unsigned most = 0;
        for (unsigned n = first_place(); copy_while(n, 1); n += stride()) {
            most = n;
            COPY_CHECK(n < PLACES_MAX);
        }
        for (unsigned n = first_place(); n <= most; n += 3 * stride()) (void)copy_while(n, 3);
        printf("%s: %u of %s\n", name, most, fault_names[fault]);
    }
    drop_kept_store(&rig);
    rig_close(&sender);
}

static void a_copy_is_whole(void) {
    copies("a copy");
}

static void a_sealed_copy_is_whole(void) {
    CHECK_EQ_I64(0, setenv("LEAFD_TEST_SEALED", "1", 1));
    copies("a sealed copy");
    CHECK_EQ_I64(0, unsetenv("LEAFD_TEST_SEALED"));
}

int main(void) {
    RUN("a copy is whole, whichever read or allocation failed at either side", a_copy_is_whole);
    RUN("so is one of a sealed store", a_sealed_copy_is_whole);
    return TEST_RESULT();
}
