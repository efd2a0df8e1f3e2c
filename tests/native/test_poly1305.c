/* test_poly1305.c: the hash against RFC 8439, wherever its text is cut in two. */
#include "text/poly1305.h"

#include "test.h"

#if POLY1305_IS_THERE

#define ZEROS "00000000000000000000000000000000"
#define ONES "ffffffffffffffffffffffffffffffff"

/* 2.5.2, and A.3 numbers 7 to 11: sums and products at the modulus. */
static const struct {
    const char *key;
    const char *text;
    const char *hash;
} answers[] = {
    {"85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b",
     "43727970746f6772617068696320466f72756d2052657365617263682047726f7570", "a8061dc1305136c6c22b8baf0c0127a9"},
    {"02000000000000000000000000000000" ZEROS, ONES, "03000000000000000000000000000000"},
    {"02000000000000000000000000000000" ONES, "02000000000000000000000000000000", "03000000000000000000000000000000"},
    {"01000000000000000000000000000000" ZEROS,
     ONES "f0ffffffffffffffffffffffffffffff"
          "11000000000000000000000000000000",
     "05000000000000000000000000000000"},
    {"01000000000000000000000000000000" ZEROS,
     ONES "fbfefefefefefefefefefefefefefefe"
          "01010101010101010101010101010101",
     ZEROS},
    {"02000000000000000000000000000000" ZEROS, "fdffffffffffffffffffffffffffffff", "faffffffffffffffffffffffffffffff"},
    {"01000000000000000400000000000000" ZEROS,
     "e33594d7505e43b900000000000000003394d7505e4379cd0100000000000000" ZEROS "01000000000000000000000000000000",
     "14000000000000005500000000000000"},
    {"01000000000000000400000000000000" ZEROS, "e33594d7505e43b900000000000000003394d7505e4379cd0100000000000000" ZEROS,
     "13000000000000000000000000000000"},
    {ZEROS "36e5f6b5c5e06070f0efca96227a863e", "616263", "36e5f6b5c5e06070f0efca96227a863e"},
};

static uint32_t bytes_from(const char *hex, uint8_t *to) {
    uint32_t size = 0;
    for (; *hex != 0; hex += 2) {
        unsigned byte = 0;
        CHECK_EQ_I64(1, sscanf(hex, "%2x", &byte));
        to[size++] = (uint8_t)byte;
    }
    return size;
}

static void known_answers(void) {
    uint8_t key[POLY1305_KEY_SIZE];
    uint8_t text[100];
    uint8_t wanted[POLY1305_SIZE];
    uint8_t got[POLY1305_SIZE];
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        CHECK_EQ_U64(sizeof key, bytes_from(answers[i].key, key));
        CHECK_EQ_U64(sizeof wanted, bytes_from(answers[i].hash, wanted));
        uint32_t size = bytes_from(answers[i].text, text);
        for (uint32_t cut = 0; cut <= size; cut++) {
            poly1305_hash(key, bytes_of(text, cut), bytes_of(text + cut, size - cut), got);
            CHECK(memcmp(wanted, got, sizeof got) == 0);
        }
    }
}

/* Of any two lengths, each cut anywhere: as each alone. */
static void two_as_one(void) {
    uint8_t key[POLY1305_KEY_SIZE];
    uint8_t text[170];
    uint8_t wanted[2][POLY1305_SIZE];
    uint8_t got[2 * POLY1305_SIZE];
    (void)bytes_from(answers[0].key, key);
    for (uint32_t i = 0; i < sizeof text; i++) {
        text[i] = (uint8_t)(i * 7 + (i > 80 ? 0xf8 : 0));
    }
    for (uint32_t size = 0; size <= 80; size++) {
        for (uint32_t other = 0; other <= 80; other += 3) {
            uint32_t cut = size * other % (size + 1);
            bytes_t firsts[2] = {bytes_of(text, cut), bytes_of(text + 5, other / 2)};
            bytes_t seconds[2] = {bytes_of(text + cut, size - cut), bytes_of(text + 90, other - other / 2)};
            for (unsigned i = 0; i < 2; i++) {
                poly1305_hash(key, firsts[i], seconds[i], wanted[i]);
            }
            poly1305_two(key, firsts, seconds, got);
            CHECK(memcmp(wanted, got, sizeof got) == 0);
        }
    }
}

int main(void) {
    RUN("two texts that are hashed together are hashed as each would be alone", two_as_one);
    RUN("the hash of a text, wherever it is cut in two, is that of RFC 8439", known_answers);
    return TEST_RESULT();
}

#else

int main(void) {
    return 0;
}

#endif
