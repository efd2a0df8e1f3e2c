/* test_ledger_faults_memory.c: ledgers while a read of LMDB fails, or an allocation, at every place: what could not be
 * read is never taken for what is not there, and what was refused has changed nothing.
 */
#include "disk/env.h"
#include "failing_allocator.h"
#include "failing_reads.h"
#include "store/ledger.h"
#include "store_rig.h"
#include "unreserved.h"

#define PLACES_MAX 3000
#define ENTRIES 12

typedef enum fault { READ, READ_ELSEWHERE, ALLOCATION, ALLOCATION_ELSEWHERE, FAULTS } fault_t;

static rig_t rig;
static fault_t fault;
static ledger_t *ledger;

static void fail_from(unsigned n, unsigned times) {
    if (fault <= READ_ELSEWHERE) {
        failing_reads((failing_reads_t){.from = n, .times = times, .error = EIO, .others = fault == READ_ELSEWHERE});
    } else {
        failing_allocations(
            (failing_allocations_t){.from = n, .times = times, .others = fault == ALLOCATION_ELSEWHERE});
    }
}

static unsigned counted(void) {
    return fault <= READ_ELSEWHERE ? failing_reads_count() : (unsigned)failing_allocations_count();
}

static void heal(void) {
    failing_reads((failing_reads_t){0});
    failing_allocations((failing_allocations_t){0});
}

static bytes_t bytes_at(uint64_t index) {
    static uint8_t bytes[64];
    memset(bytes, (int)index, sizeof bytes);
    return bytes_of(bytes, 10 + (uint32_t)index);
}

static status_t take(void *context, const ledger_entry_t *entry) {
    uint64_t *last = context;
    CHECK_EQ_U64(*last + 1, entry->index);
    CHECK_EQ_U64(entry->index / 3, entry->term);
    CHECK(bytes_equal(bytes_at(entry->index), entry->bytes));
    *last = entry->index;
    return STATUS_OK;
}

/* A ledger in LMDB: floor 2, applied 5, last ENTRIES. */
static void begin(void) {
    rig = (rig_t){.in_memory = true, .options = {.ledgers = true}};
    rig_open(&rig);
    CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 7, 77, text("first"), &ledger));
    for (uint64_t index = 1; index <= ENTRIES; index++) {
        const ledger_entry_t entry = {.index = index, .term = index / 3, .bytes = bytes_at(index)};
        CHECK_EQ_I64(STATUS_OK, store_ledger_put(ledger, &entry));
    }
    CHECK_EQ_I64(STATUS_OK,
                 store_ledger_promise(ledger, &(ledger_promise_t){.term = 9, .vote_peer = 4, .vote_disk = 5}));
    CHECK_EQ_I64(STATUS_OK, store_ledger_touch(ledger));
    store_ledger_applied(ledger, 5);
    CHECK_EQ_I64(STATUS_OK, store_ledger_floor(ledger, 2, 0, text("second")));
    rig_checkpoint(&rig);
    rig_reopen(&rig);
    ledger = NULL;
}

static void end(void) {
    ledger = NULL;
    rig_close(&rig);
}

static void check_all(uint64_t last) {
    ledger_promise_t promise;
    ledger_entry_t entry;
    CHECK_EQ_U64(last, ledger->last);
    CHECK_EQ_I64(READ_FOUND, store_ledger_promised(ledger, &promise));
    CHECK_EQ_U64(2, promise.floor);
    CHECK(bytes_equal(text("second"), promise.members));
    for (uint64_t index = 3; index <= last; index++) {
        CHECK_EQ_I64(READ_FOUND, store_ledger_get(ledger, index, &entry));
        CHECK_EQ_U64(index / 3, entry.term);
        CHECK(bytes_equal(bytes_at(index), entry.bytes));
    }
}

/* Opened, or refused, and then nothing of it is remembered. A new one is never made in its place. */
static unsigned open_with(unsigned n, unsigned times) {
    uint64_t last = 2;
    begin();
    fail_from(n, times);
    status_t status = store_ledger_open(rig.store, 7, take, &last, &ledger);
    unsigned places = counted();
    CHECK_EQ_I64(status == STATUS_OK, ledger != NULL);
    CHECK(status != STATUS_CORRUPT); /* at which the disk gives up its id */
    if (status != STATUS_OK) {
        status = store_ledger_make(rig.store, 7, 77, text("new"), &ledger);
        CHECK(status != STATUS_OK);
        CHECK(ledger == NULL);
        heal();
        last = 2;
        CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 7, take, &last, &ledger));
    }
    heal();
    CHECK_EQ_U64(ENTRIES, last);
    CHECK(!ledger->foreign);
    check_all(ENTRIES);
    end();
    return places;
}

/* FOUND and right, or UNKNOWN. */
static unsigned read_with(unsigned n, unsigned times) {
    uint64_t last = 2;
    ledger_entry_t entry;
    ledger_promise_t promise;
    begin();
    CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 7, take, &last, &ledger));
    fail_from(n, times);
    for (uint64_t index = 3; index <= ENTRIES; index++) {
        read_outcome_t outcome = store_ledger_get(ledger, index, &entry);
        CHECK(outcome != READ_NONE);
        CHECK(outcome == READ_UNKNOWN || bytes_equal(bytes_at(index), entry.bytes));
    }
    read_outcome_t outcome = store_ledger_promised(ledger, &promise);
    CHECK(outcome != READ_NONE);
    CHECK(outcome == READ_UNKNOWN || promise.term == 9);
    unsigned places = counted();
    heal();
    check_all(ENTRIES);
    end();
    return places;
}

static void insist(status_t (*what)(void)) {
    for (int tries = 0; what() != STATUS_OK; tries++) {
        CHECK(tries < 100);
        rig_pass(&rig, 10 * NS_PER_MS);
        store_tick(rig.store, rig.now);
    }
}

static status_t cut_some(void) {
    return store_ledger_cut(ledger, 8);
}

static status_t put_next(void) {
    const ledger_entry_t entry = {
        .index = ledger->last + 1, .term = (ledger->last + 1) / 3, .bytes = bytes_at(ledger->last + 1)};
    return store_ledger_put(ledger, &entry);
}

static status_t promise_more(void) {
    return store_ledger_promise(ledger, &(ledger_promise_t){.term = 10, .vote_peer = 1, .vote_disk = 1});
}

static status_t apply_more(void) {
    status_t status = store_ledger_touch(ledger);
    if (status == STATUS_OK) {
        store_ledger_applied(ledger, ledger->applied + 1);
    }
    return status;
}

static status_t floor_up(void) {
    return store_ledger_floor(ledger, 2, 0, text("second"));
}

/* Each write is done or refused; done again until it is, all of it is there after a crash. */
static unsigned write_with(unsigned n, unsigned times) {
    uint64_t last = 2;
    begin();
    CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 7, take, &last, &ledger));
    fail_from(n, times);
    insist(cut_some);
    for (int i = 0; i < 20; i++) {
        insist(put_next);
    }
    insist(promise_more);
    insist(apply_more);
    insist(floor_up);
    for (int i = 0; i < 20; i++) {
        rig_pass(&rig, NS_PER_SECOND);
        store_tick(rig.store, rig.now);
        struct pollfd poller = {.fd = store_wake_fd(rig.store), .events = POLLIN};
        poll(&poller, 1, 1);
    }
    unsigned places = counted();
    heal();
    check_all(28);
    rig_checkpoint(&rig);
    check_all(28);
    rig_crash(&rig);
    last = 2;
    CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 7, take, &last, &ledger));
    CHECK_EQ_U64(6, ledger->applied);
    check_all(28);
    end();
    return places;
}

/* ---- without a promise, and of another disk ---------------------------------------------------------------------- */

/* As a damaged page leaves it. */
static void forget_record(uint32_t kind) {
    char reason[RIG_REASON];
    uint8_t group[4];
    store_key_t key;
    env_t *env;
    store_be32(group, 7);
    key_record(&key, kind, bytes_of(group, sizeof group));
    CHECK_EQ_I64(STATUS_OK, env_open(rig.directory, 64 << 20, false, &env, reason, sizeof reason));
    env_seal(env, test_sealer());
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    CHECK_EQ_I64(STATUS_OK, env_write_delete(env, DB_RECORDS, key_bytes(&key)));
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    env_close(env);
}

/* Whose promise is gone is another disk's, or not known; it is never one that there is not. */
static unsigned unpromised_with(unsigned n, unsigned times) {
    uint64_t last = 2;
    begin();
    store_close(rig.store);
    forget_record(RECORD_PROMISE);
    if (n % 2 == 0) {
        forget_record(RECORD_APPLIED);
    }
    rig_start(&rig);
    fail_from(n, times);
    status_t status = store_ledger_open(rig.store, 7, take, &last, &ledger);
    unsigned places = counted();
    heal();
    CHECK(status != STATUS_OK || (ledger != NULL && ledger->foreign));
    if (status != STATUS_OK) {
        last = 2;
        CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 7, take, &last, &ledger));
        CHECK(ledger != NULL && ledger->foreign);
    }
    end();
    return places;
}

static unsigned inherit_with(unsigned n, unsigned times) {
    uint64_t last = 2;
    begin();
    CHECK_EQ_I64(STATUS_OK, store_ledger_disown(rig.store));
    rig_checkpoint(&rig);
    rig_reopen(&rig);
    fail_from(n, times);
    status_t status = store_ledger_inherit(rig.store, 7);
    unsigned places = counted();
    heal();
    for (unsigned tries = 0; status != STATUS_OK; tries++) {
        CHECK(tries < 100);
        rig_pass(&rig, 10 * NS_PER_MS);
        store_tick(rig.store, rig.now);
        status = store_ledger_inherit(rig.store, 7);
    }
    CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 7, take, &last, &ledger));
    CHECK(ledger != NULL && !ledger->foreign);
    CHECK_EQ_U64(ENTRIES, last);
    check_all(ENTRIES);
    end();
    return places;
}

static void at_every_place(unsigned (*with)(unsigned n, unsigned times)) {
    unsigned all = 0;
    for (fault = READ; fault < FAULTS; fault++) {
        unsigned places = with(0, 0);
        CHECK(places < PLACES_MAX);
        all += places;
        for (unsigned n = 1; n <= places + 1; n++) {
            with(n, 1);
            with(n, 4);
        }
    }
    CHECK(all > 5); /* else nothing was tried */
}

static void opening(void) {
    at_every_place(open_with);
}

static void reading(void) {
    at_every_place(read_with);
}

static void writing(void) {
    at_every_place(write_with);
}

static void without_a_promise(void) {
    at_every_place(unpromised_with);
}

static void inheriting(void) {
    at_every_place(inherit_with);
}

int main(void) {
    RUN("a ledger that cannot be read is not opened, and no new one takes its place", opening);
    RUN("an entry that cannot be read is not known, and not gone", reading);
    RUN("one whose promise is gone is another disk's, and never one that there is not", without_a_promise);
    RUN("what another disk had is this one's when all of it was read", inheriting);
    RUN("a write is done or refused, and what was done is there after a crash", writing);
    return TEST_RESULT();
}
