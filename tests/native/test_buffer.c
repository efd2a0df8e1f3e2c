/* test_buffer.c: the growable buffer against a plain array, at its bound and over it. */
#include "base/buffer.h"

#include <stdlib.h>

#include "test.h"

static uint32_t random_state = 7;

static uint32_t random_below(uint32_t bound) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % bound;
}

static void owns_nothing_at_first(void) {
    buffer_t buffer;
    buffer_init(&buffer, 100);
    CHECK(buffer.at == NULL);
    CHECK_EQ_U64(0, buffer.capacity);
    CHECK_EQ_I64(STATUS_OK, buffer_append(&buffer, NULL, 0));
    CHECK(buffer.at == NULL);
    buffer_free(&buffer);
}

static void holds_exactly_its_bound(void) {
    buffer_t buffer;
    buffer_init(&buffer, 1000);
    uint8_t bytes[1001] = {0};
    CHECK_EQ_I64(STATUS_FULL, buffer_append(&buffer, bytes, 1001));
    CHECK_EQ_U64(0, buffer.size);
    CHECK_EQ_I64(STATUS_OK, buffer_append(&buffer, bytes, 999));
    CHECK_EQ_I64(STATUS_FULL, buffer_append(&buffer, bytes, 2));
    CHECK_EQ_U64(999, buffer.size);
    CHECK_EQ_I64(STATUS_OK, buffer_append(&buffer, bytes, 1));
    uint8_t *place;
    CHECK_EQ_I64(STATUS_FULL, buffer_reserve(&buffer, UINT64_MAX, &place));
    CHECK_EQ_U64(1000, buffer.size);
    CHECK(buffer.capacity <= 1000);
    buffer_free(&buffer);
}

static void same_as_an_array(void) {
    static uint8_t model[5000];
    uint64_t model_size = 0;
    buffer_t buffer;
    buffer_init(&buffer, sizeof model);
    for (int round = 0; round < 20000; round++) {
        uint8_t bytes[300];
        uint32_t size = random_below(sizeof bytes);
        for (uint32_t i = 0; i < size; i++) {
            bytes[i] = (uint8_t)random_below(256);
        }
        if (random_below(3) > 0) {
            bool fits = model_size + size <= sizeof model;
            CHECK_EQ_I64(fits ? STATUS_OK : STATUS_FULL, buffer_append(&buffer, bytes, size));
            if (fits) {
                memcpy(model + model_size, bytes, size);
                model_size += size;
            }
        } else {
            uint64_t drop = size < model_size ? size : model_size;
            buffer_consume(&buffer, drop);
            memmove(model, model + drop, (size_t)(model_size - drop));
            model_size -= drop;
        }
        CHECK_BYTES(model, model_size, buffer.at, buffer.size);
    }
    buffer_free(&buffer);
}

static void trim_gives_back_only_when_empty(void) {
    buffer_t buffer;
    buffer_init(&buffer, 1 << 20);
    uint8_t bytes[3000] = {0};
    CHECK_EQ_I64(STATUS_OK, buffer_append(&buffer, bytes, sizeof bytes));
    buffer_trim(&buffer, 0);
    CHECK_EQ_U64(3000, buffer.size);
    buffer_consume(&buffer, 3000);
    buffer_trim(&buffer, 1 << 16);
    CHECK(buffer.capacity >= 3000);
    buffer_trim(&buffer, 100);
    CHECK_EQ_U64(0, buffer.capacity);
    CHECK_EQ_U64(1 << 20, buffer.max);
    CHECK_EQ_I64(STATUS_OK, buffer_append(&buffer, bytes, sizeof bytes));
    buffer_free(&buffer);
}

int main(void) {
    RUN("a fresh buffer owns no memory", owns_nothing_at_first);
    RUN("a buffer takes exactly its bound and refuses one byte more without a change", holds_exactly_its_bound);
    RUN("appending and consuming at random equals the same on a plain array", same_as_an_array);
    RUN("trim gives memory back only of an empty buffer above what is to be kept", trim_gives_back_only_when_empty);
    return TEST_RESULT();
}
