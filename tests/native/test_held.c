/* test_held.c: the queue of what waits for the disk against a plain array: what comes out is what went in, in
 * that order, whatever the sizes. */
#include "exchange/held.h"

#include <stdlib.h>

#include "test.h"

#define ENTRIES 4096u
#define LARGE 200000u /* several chunks */

static uint8_t payload[LARGE];
static uint32_t random_state = 11;

static uint32_t random_below(uint32_t bound) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % bound;
}

/* batch: also what tells the entries apart. */
static void push(held_t *held, uint64_t batch, uint32_t size) {
    CHECK_EQ_I64(STATUS_OK,
                 held_message(held, batch, 1, 0, BYTES_LITERAL("s"), BYTES_NONE, BYTES_NONE, bytes_of(payload, size)));
}

static void take(held_t *held, uint64_t batch, uint32_t size) {
    const held_entry_t *entry = held_first(held, UINT64_MAX);
    CHECK(entry != NULL);
    CHECK_EQ_U64(batch, entry->batch);
    CHECK_EQ_U64(size, entry->payload_size);
    CHECK_BYTES(payload, size, entry->bytes + 1, size);
    held_pop(held);
}

static void large_behind_nothing(void) {
    held_t held = {0};
    push(&held, 1, 10);
    take(&held, 1, 10);
    for (uint64_t round = 2; round < 10; round += 3) {
        push(&held, round, LARGE);
        push(&held, round + 1, 10);
        CHECK(held_first(&held, round - 1) == NULL);
        take(&held, round, LARGE);
        push(&held, round + 2, LARGE);
        take(&held, round + 1, 10);
        take(&held, round + 2, LARGE);
        CHECK_EQ_U64(0, held.count);
        CHECK_EQ_U64(0, held.bytes);
    }
    held_free(&held);
}

static void same_as_an_array(void) {
    static uint32_t sizes[ENTRIES];
    uint64_t in = 0, out = 0;
    held_t held = {0};
    for (int round = 0; round < 60000; round++) {
        if (in - out < ENTRIES && random_below(100) < (round / 500 % 2 == 0 ? 60u : 40u)) {
            uint32_t kind = random_below(40);
            sizes[in % ENTRIES] = random_below(kind == 0 ? LARGE : kind < 8 ? 70000u : 200u);
            push(&held, in, sizes[in % ENTRIES]);
            in++;
        } else if (out < in) {
            take(&held, out, sizes[out % ENTRIES]);
            out++;
        }
        CHECK_EQ_U64(in - out, held.count);
    }
    held_free(&held);
}

int main(void) {
    for (uint32_t i = 0; i < LARGE; i++) payload[i] = (uint8_t)(i * 31u);
    RUN("an entry larger than a chunk comes out when the queue was empty before it", large_behind_nothing);
    RUN("whatever the sizes, what went in comes out in order", same_as_an_array);
    return TEST_RESULT();
}
