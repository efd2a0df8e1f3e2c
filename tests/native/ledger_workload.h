/* ledger_workload.h: a store's ledger that is worked with by chance, and all that can be read of it, for
 * test_store_powercut.c.
 */
#ifndef LEAFD_TESTS_LEDGER_WORKLOAD_H
#define LEAFD_TESTS_LEDGER_WORKLOAD_H

#include "base/crc.h"
#include "store/ledger.h"
#include "store_rig.h"

typedef struct ledger_picture {
    uint64_t entries;
    uint64_t bytes;
    uint64_t floor;
    uint64_t applied;
    uint64_t term;
    uint64_t vote;
    uint32_t digest; /* of every entry's index, term, kind and bytes */
} ledger_picture_t;

static ledger_t *ledger;

static status_t sum_entry(void *context, const ledger_entry_t *entry) {
    ledger_picture_t *picture = context;
    uint64_t place[] = {entry->index, entry->term, entry->kind};
    picture->digest = crc32c(picture->digest, (const uint8_t *)place, sizeof place);
    picture->digest = crc32c(picture->digest, entry->bytes.at, entry->bytes.size);
    picture->entries++;
    picture->bytes += entry->bytes.size;
    return STATUS_OK;
}

static void sum_promise(ledger_picture_t *picture) {
    ledger_promise_t promise;
    CHECK_EQ_I64(READ_FOUND, store_ledger_promised(ledger, &promise));
    CHECK(!ledger->foreign);
    picture->floor = promise.floor;
    picture->term = promise.term;
    picture->vote = promise.vote_peer;
    picture->applied = ledger->applied;
}

/* The store's ledger; *loaded: as its start finds it. */
static void open_ledger(store_t *store, ledger_picture_t *loaded) {
    ledger_picture_t picture = {0};
    status_t status = store_ledger_open(store, 9, sum_entry, &picture, &ledger);
    CHECK_EQ_I64(STATUS_OK, status);
    if (ledger != NULL) {
        sum_promise(&picture);
    }
    *loaded = picture;
}

static ledger_picture_t take_ledger(void) {
    ledger_picture_t picture = {0};
    ledger_entry_t entry;
    for (uint64_t index = ledger != NULL ? ledger->floor + 1 : 1; ledger != NULL && index <= ledger->last; index++) {
        CHECK_EQ_I64(READ_FOUND, store_ledger_get(ledger, index, &entry));
        (void)sum_entry(&picture, &entry);
    }
    if (ledger != NULL) {
        sum_promise(&picture);
    }
    return picture;
}

static void check_ledger(const ledger_picture_t *expected, const ledger_picture_t *real) {
    CHECK_EQ_U64(expected->entries, real->entries);
    CHECK_EQ_U64(expected->bytes, real->bytes);
    CHECK_EQ_U64(expected->floor, real->floor);
    CHECK_EQ_U64(expected->term, real->term);
    CHECK_EQ_U64(expected->vote, real->vote);
    CHECK_EQ_U64(expected->applied, real->applied);
    CHECK_EQ_U64(expected->digest, real->digest);
}

static void do_ledger(store_t *store, uint64_t op, uint64_t (*below)(uint64_t n)) {
    static uint8_t fill[600];
    uint64_t dice = below(100);
    const ledger_entry_t entry = {.index = ledger != NULL ? ledger->last + 1 : 0,
                                  .term = op / 50,
                                  .kind = (uint8_t)(op % 3),
                                  .bytes = bytes_of(fill, (uint32_t)below(sizeof fill))};
    memset(fill, (int)op, sizeof fill);
    if (ledger == NULL) {
        status_t status = store_ledger_make(store, 9, 99, text("members"), &ledger);
        CHECK(status == STATUS_OK || status == STATUS_FULL);
    } else if (dice < 60) {
        status_t status = store_ledger_put(ledger, &entry);
        CHECK(status == STATUS_OK || status == STATUS_FULL);
    } else if (dice < 75 && ledger->last > ledger->applied) {
        CHECK_EQ_I64(STATUS_OK, store_ledger_touch(ledger));
        store_ledger_applied(ledger, ledger->applied + 1 + below(ledger->last - ledger->applied));
    } else if (dice < 83) {
        uint64_t left = ledger->applied + below(ledger->last - ledger->applied + 1);
        CHECK_EQ_I64(STATUS_OK, store_ledger_cut(ledger, left));
    } else if (dice < 92) {
        uint64_t floor = ledger->floor + below(ledger->applied - ledger->floor + 1);
        CHECK_EQ_I64(STATUS_OK, store_ledger_floor(ledger, floor, op / 50, text("other members")));
    } else {
        CHECK_EQ_I64(STATUS_OK, store_ledger_promise(
                                    ledger, &(ledger_promise_t){
                                                .term = op, .patience = op % 4, .vote_peer = op % 5, .vote_disk = 1}));
    }
}

#endif
