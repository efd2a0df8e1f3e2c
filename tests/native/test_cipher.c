/* test_cipher.c: encryption at rest against known answers, and what it promises of any text.
 *
 * The answers were computed from the page of cipher.h by a second implementation (Python's integers and HMAC, the
 * openssl command for AES's block), which gave the values of RFC 8439 (2.3.2, 2.5.2) and FIPS 197 (C.3) first.
 */
#include "disk/cipher.h"

#include <sys/prctl.h>

#include "base/crc.h"
#include "test.h"

static const uint8_t salt[CIPHER_SALT_SIZE] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static const uint32_t kinds[] = {CIPHER_AES, CIPHER_CHACHA};
static const bytes_t name = {(const uint8_t *)"\0\0\0\1\0\0\0\0\0\0\0\7", 12};

static cipher_t *opened(uint32_t kind, const char *key, const uint8_t *with_salt) {
    char reason[200];
    cipher_t *cipher = NULL;
    CHECK_EQ_I64(STATUS_OK,
                 cipher_open(kind, bytes_of(key, (uint32_t)strlen(key)), with_salt, &cipher, reason, sizeof reason));
    return cipher;
}

static void hex_of(const uint8_t *at, size_t size, char *to) {
    for (size_t i = 0; i < size; i++) {
        snprintf(to + 2 * i, 3, "%02x", at[i]);
    }
}

static void expect_hex(const char *wanted, const uint8_t *at, size_t size) {
    char got[200];
    CHECK(size < 100);
    hex_of(at, size, got);
    CHECK_TEXT(wanted, (const uint8_t *)got, (uint32_t)strlen(got));
}

__attribute__((noinline)) static void seal(const cipher_t *cipher, sealer_side_t side, uint8_t place, bytes_t under,
                                           bytes_t plain, uint8_t *to) {
    const sealer_t *sealer = cipher_sealer(cipher);
    sealer_item_t item = {place, under, plain, to};
    sealer->seal(sealer->context, side, &item, 1);
}

static bool unseal(const cipher_t *cipher, uint8_t place, bytes_t under, const uint8_t *at, uint32_t size,
                   uint8_t *to) {
    const sealer_t *sealer = cipher_sealer(cipher);
    return sealer->open(sealer->context, SEALER_PLANE, place, under, bytes_of(at, size), to);
}

static void known_answers(void) {
    static const struct {
        uint32_t kind;
        const char *hello;
        const char *nothing;
        uint32_t long_crc;
        const char *hidden;
        const char *check;
    } rows[] = {
        {CIPHER_AES, "fc0be968c27c852a19627b86151a8e8c1e8f6725c0c650f3ec9bac", "d5b9fcc791bb98e05ea5383b6741f9cf",
         0x9c75a096, "efba5b58e426221c663a683396b03a3b", "eb8e2abd9e24212a34e4b4fc01743a98"},
        {CIPHER_CHACHA, "d063375c10d34177ec99b0fc46be3f1fe133e507087df598bcbce1", "4c820e3fea0d8e0f70ac155570a3a2d3",
         0x07c7d8c6, "ea076b89967a198c0e99ad4f354106bf", "1979bc0349f4f887712221f167bd9e4c"}};
    uint8_t plain[700];
    uint8_t sealed[sizeof plain + SEALER_HIDDEN_SIZE];
    for (size_t i = 0; i < sizeof plain; i++) {
        plain[i] = (uint8_t)i;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cipher_t *cipher = opened(rows[i].kind, "a key of tests", salt);
        const sealer_t *sealer = cipher_sealer(cipher);
        CHECK_EQ_U64(SEALER_HIDDEN_SIZE, sealer->overhead);
        seal(cipher, SEALER_KEEPER, 2, name, BYTES_LITERAL("hello, disk"), sealed);
        expect_hex(rows[i].hello, sealed, 11 + SEALER_HIDDEN_SIZE);
        seal(cipher, SEALER_JOURNALIST, 255, BYTES_NONE, BYTES_NONE, sealed);
        expect_hex(rows[i].nothing, sealed, SEALER_HIDDEN_SIZE);
        seal(cipher, SEALER_KEEPER, 3, BYTES_LITERAL("n"), bytes_of(plain, sizeof plain), sealed);
        CHECK_EQ_U64(rows[i].long_crc, crc32c(0, sealed, sizeof sealed));
        sealer->hide(sealer->context, SEALER_PLANE, 3, BYTES_LITERAL("\0\0\0\1"), BYTES_LITERAL("orders.new"), sealed);
        expect_hex(rows[i].hidden, sealed, SEALER_HIDDEN_SIZE);
        cipher_check(cipher, BYTES_NONE, sealed);
        expect_hex(rows[i].check, sealed, SEALER_HIDDEN_SIZE);
        cipher_close(cipher);
    }
}

static void every_length_comes_back(void) {
    static uint8_t plain[3000];
    static uint8_t sealed[sizeof plain + SEALER_HIDDEN_SIZE];
    static uint8_t back[sizeof sealed];
    for (size_t k = 0; k < 2; k++) {
        cipher_t *cipher = opened(kinds[k], "k", salt);
        for (uint32_t size = 0; size <= sizeof plain; size += size < 600 ? 1 : 97) {
            memset(plain, (int)size, size);
            seal(cipher, SEALER_KEEPER, 2, name, bytes_of(plain, size), sealed);
            CHECK(unseal(cipher, 2, name, sealed, size + SEALER_HIDDEN_SIZE, back));
            CHECK(memcmp(back, plain, size) == 0);
            memcpy(back, plain, size); /* in place, both ways; the other side's contexts give the same */
            seal(cipher, SEALER_JOURNALIST, 2, name, bytes_of(back, size), back);
            CHECK(memcmp(back, sealed, size + SEALER_HIDDEN_SIZE) == 0);
            CHECK(unseal(cipher, 2, name, back, size + SEALER_HIDDEN_SIZE, back));
            CHECK(memcmp(back, plain, size) == 0);
        }
        cipher_close(cipher);
    }
}

/* Items of all sizes in one call, some of them in place, give what each gives alone. */
static void together_as_alone(void) {
    enum { ITEMS = 75, SIZE = 1100 };
    static uint8_t plain[ITEMS][SIZE];
    static uint8_t sealed[ITEMS][SIZE + SEALER_HIDDEN_SIZE];
    uint8_t alone[SIZE + SEALER_HIDDEN_SIZE];
    sealer_item_t items[ITEMS];
    for (size_t k = 0; k < 2; k++) {
        cipher_t *cipher = opened(kinds[k], "k", salt);
        const sealer_t *sealer = cipher_sealer(cipher);
        for (uint32_t i = 0; i < ITEMS; i++) {
            uint32_t size = i * 397 % SIZE;
            memset(plain[i], (int)i + 1, size);
            memcpy(sealed[i], plain[i], size);
            items[i] = (sealer_item_t){(uint8_t)(i % 5), bytes_of(plain[i], i % 40),
                                       bytes_of(i % 2 == 0 ? plain[i] : sealed[i], size), sealed[i]};
        }
        sealer->seal(sealer->context, SEALER_KEEPER, items, ITEMS);
        for (uint32_t i = 0; i < ITEMS; i++) {
            uint32_t size = items[i].plain.size;
            seal(cipher, SEALER_PLANE, items[i].place, items[i].name, bytes_of(plain[i], size), alone);
            CHECK(memcmp(alone, sealed[i], size + SEALER_HIDDEN_SIZE) == 0);
        }
        sealer->seal(sealer->context, SEALER_KEEPER, items, 0);
        cipher_close(cipher);
    }
}

static void no_change_opens(void) {
    uint8_t sealed[64];
    uint8_t back[64];
    static const bytes_t plain = {(const uint8_t *)"nothing of this may change", 26};
    uint32_t size = plain.size + SEALER_HIDDEN_SIZE;
    for (size_t k = 0; k < 2; k++) {
        cipher_t *cipher = opened(kinds[k], "k", salt);
        seal(cipher, SEALER_KEEPER, 2, name, plain, sealed);
        for (uint32_t bit = 0; bit < size * 8; bit++) {
            sealed[bit / 8] ^= (uint8_t)(1u << (bit % 8));
            CHECK(!unseal(cipher, 2, name, sealed, size, back));
            sealed[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        }
        for (uint32_t shorter = 0; shorter < size; shorter++) {
            CHECK(!unseal(cipher, 2, name, sealed, shorter, back));
        }
        CHECK(!unseal(cipher, 3, name, sealed, size, back));
        CHECK(!unseal(cipher, 2, BYTES_LITERAL("\0\0\0\1\0\0\0\0\0\0\0\x08"), sealed, size, back));
        CHECK(!unseal(cipher, 2, bytes_of(name.at, 11), sealed, size, back));
        static const uint8_t long_name[4096]; /* as a key on a damaged page may be */
        CHECK(!unseal(cipher, 2, bytes_of(long_name, sizeof long_name), sealed, size, back));
        CHECK(unseal(cipher, 2, name, sealed, size, back));
        uint8_t kept[64];
        memcpy(kept, sealed, size);
        CHECK(!unseal(cipher, 3, name, kept, size, kept)); /* who opens in place still has what there was */
        CHECK(memcmp(kept, sealed, size) == 0);
        cipher_close(cipher);
    }
}

static void other_keys(void) {
    static const uint8_t other_salt[CIPHER_SALT_SIZE] = {1};
    uint8_t sealed[64];
    uint8_t back[64];
    uint8_t checks[4][SEALER_HIDDEN_SIZE];
    cipher_t *ciphers[] = {opened(CIPHER_AES, "k", salt), opened(CIPHER_AES, "K", salt),
                           opened(CIPHER_AES, "k", other_salt), opened(CIPHER_CHACHA, "k", salt)};
    seal(ciphers[0], SEALER_KEEPER, 2, name, BYTES_LITERAL("text"), sealed);
    for (size_t i = 0; i < 4; i++) {
        CHECK(unseal(ciphers[i], 2, name, sealed, 4 + SEALER_HIDDEN_SIZE, back) == (i == 0));
        cipher_check(ciphers[i], BYTES_NONE, checks[i]);
        for (size_t j = 0; j < i; j++) {
            CHECK(memcmp(checks[i], checks[j], sizeof checks[i]) != 0);
        }
    }
    for (size_t i = 0; i < 4; i++) {
        cipher_close(ciphers[i]);
    }
}

static void refusals(void) {
    static uint8_t large[CIPHER_KEY_SIZE_MAX + 1];
    cipher_t *cipher = NULL;
    char reason[200] = "";
    CHECK_EQ_I64(STATUS_INVALID, cipher_open(CIPHER_AES, BYTES_NONE, salt, &cipher, reason, sizeof reason));
    CHECK(strstr(reason, "key") != NULL);
    CHECK_EQ_I64(STATUS_INVALID,
                 cipher_open(CIPHER_AES, bytes_of(large, sizeof large), salt, &cipher, reason, sizeof reason));
    CHECK_EQ_I64(STATUS_INVALID, cipher_open(9, BYTES_LITERAL("k"), salt, &cipher, reason, sizeof reason));
    CHECK(cipher == NULL);
    cipher_close(cipher);
}

static void no_core_dump(void) {
    CHECK_EQ_I64(0, prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
    cipher_close(opened(CIPHER_AES, "k", salt));
    CHECK_EQ_I64(0, prctl(PR_GET_DUMPABLE, 0, 0, 0, 0));
    CHECK_EQ_I64(0, prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)); /* sanitizers want to look */
}

/* The flag that the kernel shows for the memory at that address. */
static bool has_flag(const void *at, const char *flag) {
    char line[512];
    bool there = false;
    bool found = false;
    FILE *maps = fopen("/proc/self/smaps", "re");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long long from;
        unsigned long long to;
        if (sscanf(line, "%llx-%llx ", &from, &to) == 2) {
            there = from <= (uintptr_t)at && (uintptr_t)at < to;
        } else if (there && strncmp(line, "VmFlags:", 8) == 0) {
            found = strstr(line, flag) != NULL;
        }
    }
    CHECK_EQ_I64(0, fclose(maps));
    return found;
}

static void keys_stay_in_memory(void) {
    cipher_t *cipher = opened(CIPHER_CHACHA, "k", salt);
    CHECK(has_flag(cipher, " dd")); /* no dump */
#ifndef __SANITIZE_ADDRESS__        /* which makes mlock do nothing */
    CHECK(has_flag(cipher, " lo"));
#endif
    cipher_close(cipher);
    CHECK_EQ_I64(0, prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
}

int main(void) {
    RUN("both ciphers give the bytes that a second implementation of their page gives", known_answers);
    RUN("a text of any length comes back, in place too, whichever thread sealed it", every_length_comes_back);
    RUN("texts that are sealed in one call are sealed as each would be alone", together_as_alone);
    RUN("no flipped bit opens, nothing cut short, nothing moved to another place or name", no_change_opens);
    RUN("another key, another store's id or the other cipher opens nothing, and its check value tells", other_keys);
    RUN("an empty key, one that is too long and an unknown cipher are refused in words", refusals);
    RUN("a process that holds a key writes no core dump", no_core_dump);
    RUN("keys lie in memory that is neither dumped nor swapped", keys_stay_in_memory);
    return TEST_RESULT();
}
