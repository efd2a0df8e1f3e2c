/* test_s2_primed.c: blocks behind a dictionary come back as they were, with the same dictionary and no other one. */
#include "base/random.h"
#include "test.h"
#include "text/s2.h"
#include "text/s2_primed.h"

#define ROOM (S2_PRIMED_MAX + 64)

static uint8_t block[2 * ROOM];
static uint8_t back[ROOM];

/* Words of a small vocabulary, so that there is much to copy; noise in between. */
static bytes_t words(uint8_t *to, uint32_t size, uint64_t seed) {
    uint64_t state = seed + 1;
    for (uint32_t at = 0; at < size;) {
        uint64_t next = random_next(&state);
        uint64_t word = next % 40 * UINT64_C(0x9e3779b97f4a7c15);
        uint32_t length = 2 + (uint32_t)(next >> 20) % 9;
        for (uint32_t i = 0; i < length && at < size; i++) {
            to[at++] = (uint8_t)(next % 7 == 0 ? random_next(&state) : word >> (i % 8 * 8));
        }
    }
    return bytes_of(to, size);
}

static bool comes_back(bytes_t dictionary, bytes_t from, uint32_t size) {
    uint32_t length = 0;
    memset(back, 0xaa, sizeof back);
    return s2_size(bytes_of(block, size), &length) == STATUS_OK && length == from.size
           && s2_decode_primed(dictionary, bytes_of(block, size), back, length) == STATUS_OK
           && memcmp(back, from.at, length) == 0 && back[length] == 0xaa;
}

static const uint32_t dictionary_sizes[] = {0, 1, 2, 3, 4, 5, 8, 100, 2047, 2048, 5000, S2_DICTIONARY_MAX};
static const uint32_t block_sizes[] = {1, 2, 3, 4, 5, 12, 60, 61, 130, 257, 1000, 4096, S2_PRIMED_MAX};

static void whatever_it_is(void) {
    static uint8_t dictionary_at[S2_DICTIONARY_MAX];
    static uint8_t from_at[S2_PRIMED_MAX];
    s2_primer_t *primer = s2_primer_new();
    for (uint32_t d = 0; d < sizeof dictionary_sizes / sizeof *dictionary_sizes; d++) {
        bytes_t dictionary = words(dictionary_at, dictionary_sizes[d], d);
        s2_prime(primer, dictionary);
        for (uint32_t b = 0; b < sizeof block_sizes / sizeof *block_sizes; b++) {
            bytes_t from = words(from_at, block_sizes[b], 1000 + b);
            uint32_t size = s2_encode_primed(primer, from, block, sizeof block);
            CHECK(size != 0 && comes_back(dictionary, from, size));
        }
    }
    s2_primer_free(primer);
}

static void a_block_in_the_dictionary_is_short(void) {
    static uint8_t dictionary_at[S2_DICTIONARY_MAX];
    s2_primer_t *primer = s2_primer_new();
    bytes_t dictionary = words(dictionary_at, sizeof dictionary_at, 5);
    s2_prime(primer, dictionary);
    for (uint32_t at = 0; at + 500 <= dictionary.size; at += 77) {
        bytes_t from = bytes_of(dictionary.at + at, 500);
        uint32_t size = s2_encode_primed(primer, from, block, sizeof block);
        CHECK(size != 0 && size <= 16 && comes_back(dictionary, from, size));
    }
    s2_primer_free(primer);
}

/* A copy begins in the dictionary and goes on in the block that it is writing. */
static void copies_cross_the_beginning(void) {
    s2_primer_t *primer = s2_primer_new();
    bytes_t dictionary = bytes_of("0123456789abcdefgh", 18);
    bytes_t from = bytes_of("abcdefghabcdefghabcdefghabcdefgh", 32);
    s2_prime(primer, dictionary);
    uint32_t size = s2_encode_primed(primer, from, block, sizeof block);
    CHECK(size != 0 && size < 8 && comes_back(dictionary, from, size));
    s2_primer_free(primer);
}

/* What one block was does not stay in the chains of the next. */
static void blocks_leave_no_trace(void) {
    static uint8_t dictionary_at[3000];
    static uint8_t from_at[2000];
    static uint8_t first[ROOM];
    s2_primer_t *primer = s2_primer_new();
    s2_prime(primer, words(dictionary_at, sizeof dictionary_at, 8));
    bytes_t from = words(from_at, sizeof from_at, 9);
    uint32_t size = s2_encode_primed(primer, from, first, sizeof first);
    CHECK(size != 0);
    for (uint32_t i = 0; i < 200; i++) {
        static uint8_t other[2000];
        (void)s2_encode_primed(primer, words(other, 1 + i * 9, i), block, i % 2 == 0 ? sizeof block : 60);
    }
    CHECK_EQ_U64(size, s2_encode_primed(primer, from, block, sizeof block));
    CHECK(memcmp(first, block, size) == 0);
    s2_primer_free(primer);
}

static void room_is_kept(void) {
    static uint8_t from_at[700];
    s2_primer_t *primer = s2_primer_new();
    bytes_t from = words(from_at, sizeof from_at, 11);
    uint32_t whole = s2_encode_primed(primer, from, block, sizeof block);
    for (uint32_t room = 0; room < whole + 40; room++) {
        memset(block, 0x55, sizeof block);
        uint32_t size = s2_encode_primed(primer, from, block, room);
        CHECK(size <= room && (size == 0 || size == whole));
        CHECK(block[room] == 0x55);
    }
    CHECK_EQ_U64(0, s2_encode_primed(primer, BYTES_NONE, block, sizeof block));
    s2_primer_free(primer);
}

/* Nothing that a block says reads outside the dictionary, or writes outside the result. */
static void damage_stays_inside(void) {
    static uint8_t dictionary_at[300];
    static uint8_t from_at[200];
    s2_primer_t *primer = s2_primer_new();
    bytes_t dictionary = words(dictionary_at, sizeof dictionary_at, 20);
    bytes_t from = words(from_at, sizeof from_at, 21);
    s2_prime(primer, dictionary);
    uint32_t size = s2_encode_primed(primer, from, block, sizeof block);
    CHECK(size != 0);
    uint8_t *tight = malloc(dictionary.size);
    CHECK(tight != NULL);
    (void)bytes_write(tight, dictionary);
    for (uint32_t bit = 0; bit < size * 8; bit++) {
        uint8_t *result = malloc(from.size);
        CHECK(result != NULL);
        block[bit / 8] ^= (uint8_t)(1u << bit % 8);
        (void)!s2_decode_primed(bytes_of(tight, dictionary.size), bytes_of(block, size), result, from.size);
        (void)!s2_decode_primed(bytes_of(tight, 1), bytes_of(block, size), result, from.size);
        (void)!s2_decode(bytes_of(block, size), result, from.size);
        block[bit / 8] ^= (uint8_t)(1u << bit % 8);
        free(result);
    }
    free(tight);
    s2_primer_free(primer);
}

int main(void) {
    RUN("a block comes back, however long it and its dictionary are", whatever_it_is);
    RUN("a block that the dictionary holds takes some bytes", a_block_in_the_dictionary_is_short);
    RUN("a copy goes on from the dictionary into the block", copies_cross_the_beginning);
    RUN("a block is the same whatever was packed before it", blocks_leave_no_trace);
    RUN("no block is written beyond its room", room_is_kept);
    RUN("a damaged block reads nothing outside its dictionary", damage_stays_inside);
    return TEST_RESULT();
}
