/* test_s2.c: S2 blocks by hand, element by element, each in memory that ends where the block does. */
#include "text/s2.h"

#include <stdlib.h>

#include "test.h"

/* The block in an allocation of its exact size, so that one byte too far is seen; out likewise. */
static status_t decode(const uint8_t *block, uint32_t size, uint8_t **out, uint32_t *out_size) {
    uint8_t *exact = malloc(size == 0 ? 1 : size);
    memcpy(exact, block, size);
    *out = NULL;
    *out_size = 0;
    status_t status = s2_size(bytes_of(exact, size), out_size);
    if (status == STATUS_OK && *out_size <= 1 << 20) {
        *out = malloc(*out_size == 0 ? 1 : *out_size);
        status = s2_decode(bytes_of(exact, size), *out, *out_size);
    }
    free(exact);
    return status;
}

#define SAYS(expected, ...)                                                                                            \
    do {                                                                                                               \
        const uint8_t block[] = {__VA_ARGS__};                                                                         \
        uint8_t *out;                                                                                                  \
        uint32_t size;                                                                                                 \
        CHECK_EQ_I64(STATUS_OK, decode(block, sizeof(block), &out, &size));                                            \
        CHECK_TEXT(expected, out, size);                                                                               \
        free(out);                                                                                                     \
        for (uint32_t cut = 0; cut < sizeof(block); cut++) {                                                           \
            CHECK_EQ_I64(STATUS_CORRUPT, decode(block, cut, &out, &size));                                             \
            free(out);                                                                                                 \
        }                                                                                                              \
    } while (0)

#define REFUSED(...)                                                                                                   \
    do {                                                                                                               \
        const uint8_t block[] = {__VA_ARGS__};                                                                         \
        uint8_t *out;                                                                                                  \
        uint32_t size;                                                                                                 \
        CHECK_EQ_I64(STATUS_CORRUPT, decode(block, sizeof(block), &out, &size));                                       \
        free(out);                                                                                                     \
    } while (0)

static void literals(void) {
    SAYS("abc", 3, 2 << 2, 'a', 'b', 'c');
    SAYS("abc", 3, 60 << 2, 2, 'a', 'b', 'c');
    SAYS("abc", 3, 61 << 2, 2, 0, 'a', 'b', 'c');
    SAYS("abc", 3, 62 << 2, 2, 0, 0, 'a', 'b', 'c');
    SAYS("abc", 3, (63 << 2), 2, 0, 0, 0, 'a', 'b', 'c');
    SAYS("abcde", 5, 2 << 2, 'a', 'b', 'c', 1 << 2, 'd', 'e');
}

static void copies(void) {
    SAYS("abcdabcd", 8, 3 << 2, 'a', 'b', 'c', 'd', 1 | 0 << 2, 4);
    SAYS("abcdcdcdc", 9, 3 << 2, 'a', 'b', 'c', 'd', 1 | 1 << 2, 2);
    SAYS("abab", 4, 1 << 2, 'a', 'b', 2 | 1 << 2, 2, 0);
    SAYS("aaaaaaaa", 8, 0, 'a', 2 | 6 << 2, 1, 0);
    SAYS("abcab", 5, 2 << 2, 'a', 'b', 'c', 3 | 1 << 2, 3, 0, 0, 0);
}

static void far_copy(void) {
    /* Offset 0x123 in the one-byte form: bits 8..10 stand in the tag. */
    uint8_t block[400] = {0};
    uint32_t size = 0;
    block[size++] = (uint8_t)(0x80 | (0x127 & 0x7f));
    block[size++] = 0x127 >> 7;
    block[size++] = 61 << 2;
    block[size++] = 0x22;
    block[size++] = 0x01;
    for (uint32_t i = 0; i < 0x123; i++) block[size++] = (uint8_t)('a' + i % 26);
    block[size++] = 1 | 0 << 2 | 1 << 5;
    block[size++] = 0x23;
    uint8_t *out;
    uint32_t out_size;
    CHECK_EQ_I64(STATUS_OK, decode(block, size, &out, &out_size));
    CHECK_EQ_U64(0x127, out_size);
    CHECK_TEXT("abcd", out + 0x123, 4);
    free(out);
}

static void repeats(void) {
    SAYS("abcdabcdabcd", 12, 3 << 2, 'a', 'b', 'c', 'd', 1 | 0 << 2, 4, 1 | 0 << 2, 0);
    SAYS("ababababababababab", 18, 1 << 2, 'a', 'b', 1 | 4 << 2, 2, 1 | 4 << 2, 0);
    /* Field 5: one more byte, and 8 on top. */
    SAYS("ababababababababab", 18, 1 << 2, 'a', 'b', 1 | 2 << 2, 2, 1 | 5 << 2, 0, 2);
}

static void long_repeats(void) {
    const struct {
        uint8_t tail[4];
        uint32_t tail_size;
        uint32_t length;
    } cases[] = {{{1 | 6 << 2, 0, 3, 0}, 4, 3 + 256 + 4}, {{1 | 5 << 2, 0, 250}, 3, 250 + 4 + 4}};
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t total = 1 + 4 + cases[i].length;
        uint8_t block[16] = {(uint8_t)(0x80 | (total & 0x7f)), (uint8_t)(total >> 7), 0, 'x', 1, 1};
        memcpy(block + 6, cases[i].tail, cases[i].tail_size);
        uint8_t *out;
        uint32_t size;
        CHECK_EQ_I64(STATUS_OK, decode(block, 6 + cases[i].tail_size, &out, &size));
        CHECK_EQ_U64(total, size);
        for (uint32_t j = 0; j < size; j++) CHECK(out[j] == 'x');
        free(out);
    }
    /* Field 7: three bytes, and 65536 + 4 on top. */
    uint32_t total = 1 + 4 + 65536 + 9 + 4;
    const uint8_t block[] = {(uint8_t)(0x80 | (total & 0x7f)),
                             (uint8_t)(0x80 | (total >> 7 & 0x7f)),
                             (uint8_t)(total >> 14),
                             0,
                             'x',
                             1,
                             1,
                             1 | 7 << 2,
                             0,
                             9,
                             0,
                             0};
    uint8_t *out;
    uint32_t size;
    CHECK_EQ_I64(STATUS_OK, decode(block, sizeof(block), &out, &size));
    CHECK_EQ_U64(total, size);
    for (uint32_t j = 0; j < size; j++) CHECK(out[j] == 'x');
    free(out);
}

static void damage(void) {
    REFUSED(0x80, 0x80, 0x80, 0x80, 0x80, 1);     /* a length without end */
    REFUSED(0xff, 0xff, 0xff, 0xff, 0x7f);        /* more than 32 bits */
    REFUSED(4, 3 << 2, 'a', 'b', 'c');            /* a literal that is cut */
    REFUSED(2, 2 << 2, 'a', 'b', 'c');            /* more than was announced */
    REFUSED(5, 2 << 2, 'a', 'b', 'c');            /* less */
    REFUSED(4, 1 | 0 << 2, 0);                    /* a repeat of nothing */
    REFUSED(8, 3 << 2, 'a', 'b', 'c', 'd', 1, 5); /* from before the beginning */
    REFUSED(7, 3 << 2, 'a', 'b', 'c', 'd', 1, 4); /* beyond the end */
    REFUSED(8, 3 << 2, 'a', 'b', 'c', 'd', 2 | 3 << 2, 0, 0);
    REFUSED(8, 3 << 2, 'a', 'b', 'c', 'd', 3 | 3 << 2, 0xff, 0xff, 0xff, 0xff);
    REFUSED(3, 63 << 2, 0xff, 0xff, 0xff, 0xff, 'a', 'b', 'c');
    REFUSED(0, 0, 'a');
    SAYS("", 0);
}

int main(void) {
    RUN("literals of every form are taken as they are, and not when a byte is missing", literals);
    RUN("copies of every form take what was written, also what they are writing", copies);
    RUN("a short copy reaches two thousand bytes back", far_copy);
    RUN("a copy without an offset takes the last one again", repeats);
    RUN("repeats of one, two and three more bytes have their length", long_repeats);
    RUN("a damaged block is refused", damage);
    return TEST_RESULT();
}
