/* fuzz_input.h: a fuzz target's input, read from its start: bytes, numbers and slices; what is not there any more is
 * zero or empty. */
#ifndef LEAFD_TESTS_FUZZ_INPUT_H
#define LEAFD_TESTS_FUZZ_INPUT_H

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

typedef struct fuzz_input {
    const uint8_t *at;
    size_t left;
} fuzz_input_t;

static inline uint8_t fuzz_byte(fuzz_input_t *input) {
    if (input->left == 0) {
        return 0;
    }
    input->left--;
    return *input->at++;
}

static inline bytes_t fuzz_slice(fuzz_input_t *input, size_t size) {
    if (size > input->left) {
        size = input->left;
    }
    bytes_t slice = bytes_of(input->at, (uint32_t)size);
    input->at += size;
    input->left -= size;
    return slice;
}

/* Numbers at the edges of their types are more likely than others. */
static inline uint64_t fuzz_number(fuzz_input_t *input) {
    static const uint64_t edges[] = {0,          1,         2,       3, UINT64_MAX, INT64_MAX, (uint64_t)INT64_MIN,
                                     UINT32_MAX, INT32_MAX, 1u << 20};
    uint8_t first = fuzz_byte(input);
    if (first < sizeof(edges) / sizeof(edges[0])) {
        return edges[first];
    }
    if (first < 128) {
        return first;
    }
    uint64_t number = 0;
    bytes_t raw = fuzz_slice(input, sizeof(number));
    memcpy(&number, raw.at, raw.size);
    return number;
}

/* In memory of exactly its size, so that the sanitizer sees a read behind it. The caller frees. */
static inline uint8_t *fuzz_copy(bytes_t slice) {
    uint8_t *copy = malloc(slice.size > 0 ? slice.size : 1);
    if (copy == NULL) {
        abort();
    }
    if (slice.size > 0) {
        memcpy(copy, slice.at, slice.size);
    }
    return copy;
}

#endif
