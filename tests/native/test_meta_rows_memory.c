/* test_meta_rows_memory.c: copies of the table that servers have in common (meta/meta_rows.h), while an allocation
 * fails at each place, and bytes that are no copy or no entry.
 */
#include "failing_allocator.h"
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

int main(void) {
    RUN("a copy is taken whole or not at all, and what is none does nothing", copies_at_each_place);
    return TEST_RESULT();
}
