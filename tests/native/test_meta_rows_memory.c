/* test_meta_rows_memory.c: the table that servers have in common, and copies of it (meta/meta_rows.h), while an
 * allocation or a read fails at each place, and bytes that are no copy or no entry.
 */
#include "failing_allocator.h"
#include "failing_reads.h"
#include "meta/meta_rows.h"
#include "store_rig.h"

/* A copy of the table, while an allocation fails at each place: all of it is there, or nothing was done. */
static void copies_at_each_place(void) {
    rig_t rig = {.in_memory = true, .options = {.ledgers = true, .max_bytes = 1 << 26}};
    buffer_t entry;
    buffer_t state;
    buffer_t before;
    meta_verdict_t verdict;
    rig_open(&rig);
    buffer_init(&entry, UINT32_MAX);
    buffer_init(&state, UINT32_MAX);
    buffer_init(&before, UINT32_MAX);
    for (uint32_t i = 0; i < 40; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%u", i);
        entry.size = 0;
        CHECK_EQ_I64(STATUS_OK, meta_entry(&entry, text(key), text("value"), 0, false));
        CHECK(meta_rows_apply(rig.store, i + 1, bytes_of(entry.at, (uint32_t)entry.size), &verdict));
        CHECK(verdict.made);
        if (i == 19) CHECK(meta_rows_save(rig.store, &state));
    }
    bool restored = false;
    for (unsigned n = 1; !restored; n++) {
        CHECK(n < 1000);
        before.size = 0;
        failing_allocations((failing_allocations_t){.from = n, .times = 1});
        restored = meta_rows_restore(rig.store, bytes_of(state.at, (uint32_t)state.size));
        failing_allocations((failing_allocations_t){0});
        CHECK(meta_rows_save(rig.store, &before));
        CHECK(restored ? before.size == state.size : before.size > state.size);
    }
    CHECK(memcmp(before.at, state.at, state.size) == 0);
    for (uint32_t size = 1; size < state.size; size++) {
        /* Cut anywhere but between two rows it is no state, and nothing changes. */
        (void)meta_rows_restore(rig.store, bytes_of(state.at, size));
    }
    CHECK(meta_rows_restore(rig.store, bytes_of(state.at, (uint32_t)state.size)));
    for (uint32_t size = 0; size < entry.size; size++) {
        CHECK(meta_rows_apply(rig.store, 100 + size, bytes_of(entry.at, size), &verdict));
        CHECK(!verdict.made);
    }
    buffer_free(&entry);
    buffer_free(&state);
    buffer_free(&before);
    rig_close(&rig);
}

#define KEPT 30u

static void key_of(uint32_t i, char key[16]) {
    snprintf(key, 16, "row-%02u", i);
}

/* Rows that are in LMDB, and in no cache. */
static rig_t rows_on_disk(buffer_t *entry) {
    rig_t rig = {.in_memory = true, .options = {.ledgers = true, .max_bytes = 1 << 26}};
    rig_open(&rig);
    for (uint32_t i = 1; i <= KEPT; i++) {
        char key[16];
        meta_verdict_t verdict;
        key_of(i, key);
        entry->size = 0;
        CHECK_EQ_I64(STATUS_OK, meta_entry(entry, text(key), text("a value"), 0, false));
        CHECK(meta_rows_apply(rig.store, i, bytes_of(entry->at, (uint32_t)entry->size), &verdict));
        CHECK(verdict.made);
    }
    rig_checkpoint(&rig);
    rig_reopen(&rig);
    return rig;
}

/* Members apply the same entry, and whoever cannot read its table waits. */
static void rows_wait_for_reads(void) {
    buffer_t entry, whole, some;
    buffer_init(&entry, UINT32_MAX);
    buffer_init(&whole, UINT32_MAX);
    buffer_init(&some, UINT32_MAX);
    rig_t rig = rows_on_disk(&entry);
    CHECK(meta_rows_save(rig.store, &whole));
    unsigned saved = 0, waited = 0, n = 1;
    for (unsigned reads = 1; reads >= n; n++) {
        some.size = 0;
        failing_reads((failing_reads_t){.from = n, .times = 1 + n % 3, .error = EIO});
        bool all = meta_rows_save(rig.store, &some);
        reads = failing_reads_count();
        failing_reads((failing_reads_t){0});
        if (all) {
            CHECK_BYTES(whole.at, whole.size, some.at, some.size);
        }
        saved += all;
    }
    CHECK(saved > 0 && n > KEPT);
    for (uint32_t i = 1; i <= KEPT; i++) {
        char key[16];
        meta_verdict_t verdict;
        bool fits = i % 2 == 0;
        key_of(i, key);
        entry.size = 0;
        CHECK_EQ_I64(STATUS_OK, meta_entry(&entry, text(key), text("another"), fits ? i : i + 1, i % 3 == 0));
        failing_reads((failing_reads_t){.from = 1 + i % 2, .times = 4, .error = EIO});
        bool applied = meta_rows_apply(rig.store, 100 + i, bytes_of(entry.at, (uint32_t)entry.size), &verdict);
        failing_reads((failing_reads_t){0});
        waited += !applied;
        applied = applied || meta_rows_apply(rig.store, 100 + i, bytes_of(entry.at, (uint32_t)entry.size), &verdict);
        CHECK(applied && verdict.made == fits);
        CHECK_EQ_U64(fits ? 100 + i : i, verdict.revision);
    }
    CHECK(waited > 0);
    buffer_free(&entry);
    buffer_free(&whole);
    buffer_free(&some);
    rig_close(&rig);
}

int main(void) {
    RUN("a row that cannot be read is in no copy's place, and decides nothing", rows_wait_for_reads);
    RUN("a copy is taken whole or not at all, and what is none does nothing", copies_at_each_place);
    return TEST_RESULT();
}
