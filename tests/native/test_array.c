/* test_array.c: an array keeps what it has when it grows, and when it cannot. */
#include "base/array.h"

#include <stdlib.h>

#include "test.h"

static void grows_by_doubling(void) {
    uint32_t *at = NULL;
    uint64_t capacity = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        CHECK_EQ_I64(STATUS_OK, array_reserve(&at, &capacity, i + 1u, 4, sizeof *at));
        at[i] = i;
    }
    CHECK_EQ_U64(1024, capacity);
    for (uint32_t i = 0; i < 1000; i++) CHECK_EQ_U64(i, at[i]);
    free(at);
}

static void refuses_what_has_no_room(void) {
    uint64_t *at = NULL;
    uint64_t capacity = 0;
    CHECK_EQ_I64(STATUS_OK, array_reserve(&at, &capacity, 1, 4, sizeof *at));
    at[0] = 7;
    CHECK_EQ_I64(STATUS_NO_MEMORY, array_reserve(&at, &capacity, UINT64_C(1) << 62, 4, sizeof *at));
    CHECK_EQ_U64(4, capacity);
    CHECK_EQ_U64(7, at[0]);
    free(at);
}

int main(void) {
    RUN("an array has room for what is asked, and keeps what it had", grows_by_doubling);
    RUN("more elements than memory has bytes are refused, and nothing has changed", refuses_what_has_no_room);
    return TEST_RESULT();
}
