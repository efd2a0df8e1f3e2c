/* test_memtable.c: a key that is noted again is found at its newest op, whatever is said of where it was noted before.
 *
 * Not here: the memtable under a store (test_store_duel.c).
 */
#include "disk/memtable.h"
#include "test.h"

#define RING (UINT64_C(1) << 20)
#define KEYS 3000u

static batches_t batches;
static memtable_t memtable;

static store_key_t numbered(uint32_t number) {
    store_key_t key;
    char text[24];
    int size = snprintf(text, sizeof text, "subject.%u", number);
    key_text(&key, 1, bytes_of((const uint8_t *)text, (uint32_t)size));
    return key;
}

static uint64_t an_op(uint32_t number) {
    store_key_t key = numbered(number);
    uint64_t position;
    CHECK(batch_fits(&batches, op_size(key.size, 0)));
    (void)batch_op(&batches, OP_PUT, DB_HEADS, key_bytes(&key), 0, &position);
    return position;
}

static uint64_t found_at(uint32_t number) {
    store_key_t key = numbered(number);
    batch_op_t op;
    uint64_t position;
    return memtable_find(&memtable, DB_HEADS, key_bytes(&key), &op, &position) ? position : 0;
}

static uint64_t note_again(uint32_t number, uint64_t earlier) {
    store_key_t key = numbered(number);
    uint64_t position = an_op(number);
    CHECK_EQ_I64(STATUS_OK, memtable_reserve(&memtable, 2));
    memtable_note_again(&memtable, DB_HEADS, key_bytes(&key), earlier, position);
    return position;
}

static void begin(void) {
    CHECK_EQ_I64(STATUS_OK, batches_open(&batches, RING, 4096, 4096, 1));
    memtable_open(&memtable, &batches);
}

static void end(void) {
    memtable_close(&memtable);
    batches_close(&batches);
}

static void is_found_at_its_newest(void) {
    uint64_t at[KEYS] = {0};
    begin();
    for (uint32_t round = 0; round < 4; round++) {
        for (uint32_t i = round * 7; i < KEYS; i += round + 1) { /* the table grows meanwhile */
            at[i] = note_again(i, at[i]);
            CHECK_EQ_U64(at[i], found_at(i));
        }
    }
    for (uint32_t i = 0; i < KEYS; i++) {
        CHECK_EQ_U64(at[i], found_at(i));
    }
    end();
}

static void whatever_is_said_of_the_one_before(void) {
    begin();
    uint64_t other = note_again(1, 0);
    uint64_t first = note_again(2, 0);
    uint64_t second = note_again(2, other); /* another key's */
    CHECK_EQ_U64(other, found_at(1));
    CHECK_EQ_U64(second, found_at(2));
    uint64_t third = note_again(2, first); /* one that was noted over */
    CHECK_EQ_U64(third, found_at(2));
    uint64_t fourth = note_again(2, third + 1); /* no op's */
    CHECK_EQ_U64(fourth, found_at(2));
    CHECK_EQ_U64(other, found_at(1));
    CHECK_EQ_U64(2, memtable.current.count);
    end();
}

static void also_when_a_checkpoint_has_taken_it(void) {
    begin();
    uint64_t first = note_again(1, 0);
    memtable_rotate(&memtable);
    uint64_t second = note_again(1, first);
    CHECK_EQ_U64(second, found_at(1));
    memtable_drop(&memtable);
    CHECK_EQ_U64(second, found_at(1));
    memtable_rotate(&memtable);
    memtable_drop(&memtable);
    CHECK_EQ_U64(0, found_at(1));
    uint64_t third = note_again(1, second); /* which is freed */
    CHECK_EQ_U64(third, found_at(1));
    end();
}

int main(void) {
    RUN("a key that is noted again is found at its newest op, also while the table grows", is_found_at_its_newest);
    RUN("where it is said to have been noted before may be 0, another key's, an older one's or nobody's, and changes "
        "nothing",
        whatever_is_said_of_the_one_before);
    RUN("nor does it where a checkpoint has taken what was noted before", also_when_a_checkpoint_has_taken_it);
    return TEST_RESULT();
}
