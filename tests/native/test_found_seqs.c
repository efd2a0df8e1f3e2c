/* Sequences that several filters find: each once, in order, at most FOUND_SEQS_MAX of them. */
#include "jetstream/found_seqs.h"
#include "test.h"

static found_seqs_t found;

static void each_once_and_in_order(void) {
    found.count = 0;
    for (uint32_t round = 0; round < 7; round++) {
        for (uint64_t seq = FOUND_SEQS_MAX; seq > 0; seq--) CHECK(found_seqs_add(&found, seq * 10));
    }
    CHECK(found_seqs_settle(&found));
    CHECK_EQ_U64(FOUND_SEQS_MAX, found.count);
    for (uint32_t i = 0; i < found.count; i++) CHECK_EQ_U64((i + 1) * 10, found.seqs[i]);
    CHECK_EQ_U64(0, found_seqs_below(&found, 10));
    CHECK_EQ_U64(3, found_seqs_below(&found, 31));
    CHECK_EQ_U64(FOUND_SEQS_MAX, found_seqs_below(&found, UINT64_MAX));
}

static void more_than_the_bound_are_refused(void) {
    found.count = 0;
    for (uint64_t seq = 1; seq <= FOUND_SEQS_MAX + 1; seq++) CHECK(found_seqs_add(&found, seq));
    CHECK(!found_seqs_settle(&found));
    bool all = true;
    for (uint64_t seq = 1; seq <= UINT64_C(2) * FOUND_SEQS_MAX; seq++) all = all && found_seqs_add(&found, seq);
    CHECK(!all);
    CHECK(found.count <= 2 * FOUND_SEQS_MAX);
}

int main(void) {
    RUN("what was found many times is there once, in order", each_once_and_in_order);
    RUN("more than the bound are refused, when they are added or when they are settled",
        more_than_the_bound_are_refused);
    return TEST_RESULT();
}
