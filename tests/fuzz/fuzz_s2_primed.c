/* Invariant: with any dictionary any bytes are a block or are refused, nothing is read outside the block and the
 * dictionary or written behind the result (the sanitizers look); and any bytes that are packed behind any dictionary
 * come back. */
#include <stddef.h>
#include <stdlib.h>

#include "base/check.h"
#include "text/s2.h"
#include "text/s2_primed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t *copy_tight(bytes_t bytes) {
    uint8_t *copy = malloc(bytes.size + 1u);
    check(copy != NULL);
    (void)bytes_write(copy, bytes);
    copy[bytes.size] = 0xaa;
    return copy;
}

static void any_block(bytes_t dictionary, bytes_t block) {
    uint32_t length;
    if (s2_size(block, &length) != STATUS_OK || length > 1 << 14) {
        return;
    }
    uint8_t *result = malloc(length + 1u);
    check(result != NULL);
    result[length] = 0xaa;
    (void)!s2_decode_primed(dictionary, block, result, length);
    check(result[length] == 0xaa);
    free(result);
}

static void there_and_back(bytes_t dictionary, bytes_t from) {
    static s2_primer_t *primer;
    static uint8_t block[S2_PRIMED_MAX * 2];
    static uint8_t result[S2_PRIMED_MAX];
    if (primer == NULL && (primer = s2_primer_new()) == NULL) {
        return;
    }
    s2_prime(primer, dictionary);
    uint32_t size = s2_encode_primed(primer, from, block, sizeof block);
    check(size != 0 || from.size == 0);
    check(size == 0 || s2_decode_primed(dictionary, bytes_of(block, size), result, from.size) == STATUS_OK);
    check(size == 0 || memcmp(result, from.at, from.size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2 || size > 8000) {
        return 0;
    }
    uint32_t split = ((uint32_t)data[0] | (uint32_t)data[1] << 8) % ((uint32_t)size - 1);
    bytes_t dictionary = bytes_of(data + 2, split < size - 2 ? split : (uint32_t)size - 2);
    bytes_t rest = bytes_of(data + 2 + dictionary.size, (uint32_t)size - 2 - dictionary.size);
    uint8_t *first = copy_tight(dictionary), *second = copy_tight(rest);
    any_block(bytes_of(first, dictionary.size), bytes_of(second, rest.size));
    there_and_back(bytes_of(first, dictionary.size), bytes_of(second, rest.size));
    free(first);
    free(second);
    return 0;
}
