/* cipher.c: see cipher.h. Knows OpenSSL's libcrypto, which is opened at run time. */
#include "disk/cipher.h"

#include <dlfcn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "base/check.h"

#define TAG_SIZE SEALER_HIDDEN_SIZE
#define KEY_SIZE 32
#define BLOCK 16
#define NAME_MAX_SIZE 512
#define CHECK_PLACE 62 /* as a name's place: of no database */
#define HIDE 64
/* Below it AES's counter mode goes by calls of the bare cipher: setting up OpenSSL's own costs 80 ns each time. */
#define SHORT_TEXT 512
#define PIECE (1 << 30) /* OpenSSL counts in ints */

/* ---- libcrypto --------------------------------------------------------------------------------------------------- */

/* Functions by their names in libcrypto, with the types of its headers. */
#define LIBCRYPTO(X)                                                                                                   \
    X(EVP_CIPHER_CTX_new)                                                                                              \
    X(EVP_CIPHER_CTX_free)                                                                                             \
    X(EVP_CIPHER_CTX_set_padding)                                                                                      \
    X(EVP_EncryptInit_ex)                                                                                              \
    X(EVP_EncryptUpdate)                                                                                               \
    X(EVP_aes_256_ecb)                                                                                                 \
    X(EVP_aes_256_ctr)                                                                                                 \
    X(EVP_chacha20)                                                                                                    \
    X(EVP_MAC_fetch)                                                                                                   \
    X(EVP_MAC_free)                                                                                                    \
    X(EVP_MAC_CTX_new)                                                                                                 \
    X(EVP_MAC_CTX_free)                                                                                                \
    X(EVP_MAC_init)                                                                                                    \
    X(EVP_MAC_update)                                                                                                  \
    X(EVP_MAC_final)                                                                                                   \
    X(EVP_sha256)                                                                                                      \
    X(HMAC)

/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration's name */
#define MEMBER(name) __typeof__(&(name)) name;
typedef struct libcrypto {
    LIBCRYPTO(MEMBER)
    bool loaded;
} libcrypto_t;

static libcrypto_t crypto;
static pthread_once_t crypto_once = PTHREAD_ONCE_INIT;

static bool load_symbol(void *library, const char *name, void *to) {
    void *symbol = dlsym(library, name);
    memcpy(to, &symbol, sizeof symbol);
    return symbol != NULL;
}

static void load_libcrypto(void) {
    static const char *const names[] = {"libcrypto.so.3", "libcrypto.so"};
    void *library = NULL;
    for (size_t i = 0; library == NULL && i < sizeof names / sizeof *names; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    bool loaded = library != NULL;
#define LOAD(name) loaded = loaded && load_symbol(library, #name, &crypto.name);
    LIBCRYPTO(LOAD)
    crypto.loaded = loaded;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* What one thread works with: OpenSSL's contexts are not for two at once. */
typedef struct lane {
    EVP_MAC_CTX *hash;
    EVP_CIPHER_CTX *tag;
    EVP_CIPHER_CTX *text;       /* a stream, set to its beginning each time */
    EVP_CIPHER_CTX *text_block; /* aes: the bare cipher under the same key */
} lane_t;

struct cipher {
    sealer_t sealer;
    uint32_t kind;
    uint8_t hash_key[KEY_SIZE]; /* r, and zeros in place of what Poly1305 would add */
    lane_t lanes[SEALER_SIDES];
};

void cipher_cleanse(void *at, size_t size) {
    if (size > 0) {
        memset(at, 0, size);
        __asm__ volatile("" : : "r"(at) : "memory"); /* the compiler must not take it for useless */
    }
}

/* RFC 5869 for one block of output: as many bytes as SHA-256 has. */
static bool expand(const uint8_t prk[KEY_SIZE], uint32_t kind, const char *label, uint8_t key[KEY_SIZE]) {
    char info[64];
    int size = snprintf(info, sizeof info - 1, "leafd at rest %s %s", kind == CIPHER_AES ? "aes" : "chacha", label);
    check(size > 0 && (size_t)size < sizeof info - 1);
    info[size] = 1;
    unsigned int got = 0;
    return crypto.HMAC(crypto.EVP_sha256(), prk, KEY_SIZE, (const uint8_t *)info, (size_t)size + 1, key, &got) != NULL
           && got == KEY_SIZE;
}

static bool open_lane(cipher_t *cipher, lane_t *lane, EVP_MAC *poly, const uint8_t *tag_key, const uint8_t *text_key) {
    static const uint8_t zeros[BLOCK];
    bool aes = cipher->kind == CIPHER_AES;
    const EVP_CIPHER *tag = aes ? crypto.EVP_aes_256_ecb() : crypto.EVP_chacha20();
    const EVP_CIPHER *text = aes ? crypto.EVP_aes_256_ctr() : crypto.EVP_chacha20();
    lane->hash = crypto.EVP_MAC_CTX_new(poly);
    lane->tag = crypto.EVP_CIPHER_CTX_new();
    lane->text = crypto.EVP_CIPHER_CTX_new();
    bool done = lane->hash != NULL && lane->tag != NULL && lane->text != NULL
                && crypto.EVP_EncryptInit_ex(lane->tag, tag, NULL, tag_key, aes ? NULL : zeros) == 1
                && crypto.EVP_EncryptInit_ex(lane->text, text, NULL, text_key, zeros) == 1;
    if (done && aes) {
        lane->text_block = crypto.EVP_CIPHER_CTX_new();
        done = lane->text_block != NULL && crypto.EVP_CIPHER_CTX_set_padding(lane->tag, 0) == 1
               && crypto.EVP_EncryptInit_ex(lane->text_block, tag, NULL, text_key, NULL) == 1
               && crypto.EVP_CIPHER_CTX_set_padding(lane->text_block, 0) == 1;
    }
    return done;
}

static bool derive(cipher_t *cipher, bytes_t key, const uint8_t salt[CIPHER_SALT_SIZE]) {
    uint8_t prk[KEY_SIZE];
    uint8_t tag_key[KEY_SIZE];
    uint8_t text_key[KEY_SIZE];
    unsigned int got = 0;
    bool done = crypto.HMAC(crypto.EVP_sha256(), salt, CIPHER_SALT_SIZE, key.at, key.size, prk, &got) != NULL
                && got == KEY_SIZE && expand(prk, cipher->kind, "hash", cipher->hash_key)
                && expand(prk, cipher->kind, "tag", tag_key) && expand(prk, cipher->kind, "text", text_key);
    EVP_MAC *poly = done ? crypto.EVP_MAC_fetch(NULL, "POLY1305", NULL) : NULL;
    memset(cipher->hash_key + BLOCK, 0, KEY_SIZE - BLOCK);
    done = poly != NULL;
    for (unsigned side = 0; done && side < SEALER_SIDES; side++) {
        done = open_lane(cipher, &cipher->lanes[side], poly, tag_key, text_key);
    }
    if (poly != NULL) {
        crypto.EVP_MAC_free(poly);
    }
    cipher_cleanse(prk, sizeof prk);
    cipher_cleanse(tag_key, sizeof tag_key);
    cipher_cleanse(text_key, sizeof text_key);
    return done;
}

/* ---- sealing ----------------------------------------------------------------------------------------------------- */

/* The keyed hash over place, name and text. None of these calls has a reason to fail once the contexts are there; one
 * that does all the same must not go on to write what nobody can open. */
static void tag_of(const cipher_t *cipher, const lane_t *lane, uint8_t place, bytes_t name, bytes_t text,
                   uint8_t tag[TAG_SIZE]) {
    uint8_t begin[3 + NAME_MAX_SIZE];
    uint8_t hash[BLOCK];
    size_t size = 0;
    int done = 0;
    check(name.size <= NAME_MAX_SIZE);
    begin[0] = place;
    store_be16(begin + 1, (uint16_t)name.size);
    bytes_write(begin + 3, name);
    check(crypto.EVP_MAC_init(lane->hash, cipher->hash_key, KEY_SIZE, NULL) == 1);
    check(crypto.EVP_MAC_update(lane->hash, begin, 3 + (size_t)name.size) == 1);
    check(text.size == 0 || crypto.EVP_MAC_update(lane->hash, text.at, text.size) == 1);
    check(crypto.EVP_MAC_final(lane->hash, hash, &size, sizeof hash) == 1);
    check(size == BLOCK);
    if (cipher->kind == CIPHER_AES) {
        check(crypto.EVP_EncryptUpdate(lane->tag, tag, &done, hash, BLOCK) == 1);
    } else {
        static const uint8_t zeros[TAG_SIZE];
        check(crypto.EVP_EncryptInit_ex(lane->tag, NULL, NULL, NULL, hash) == 1);
        check(crypto.EVP_EncryptUpdate(lane->tag, tag, &done, zeros, TAG_SIZE) == 1);
    }
    check(done == TAG_SIZE);
}

/* Counter mode by the bare cipher: the blocks that the tag and those after it give, all in one call. */
static void short_stream(const lane_t *lane, const uint8_t tag[TAG_SIZE], bytes_t from, uint8_t *to) {
    uint8_t counters[SHORT_TEXT];
    uint8_t stream[SHORT_TEXT];
    uint64_t high = load_be64(tag);
    uint64_t low = load_be64(tag + 8);
    uint32_t size = (from.size + BLOCK - 1) / BLOCK * BLOCK;
    int done = 0;
    for (uint32_t at = 0; at < size; at += BLOCK) {
        store_be64(counters + at, high);
        store_be64(counters + at + 8, low);
        low++;
        high += low == 0;
    }
    check(crypto.EVP_EncryptUpdate(lane->text_block, stream, &done, counters, (int)size) == 1);
    check(done == (int)size);
    for (uint32_t i = 0; i < from.size; i++) {
        to[i] = from.at[i] ^ stream[i];
    }
}

/* Both ways. to may be from.at. */
static void stream_over(const cipher_t *cipher, const lane_t *lane, const uint8_t tag[TAG_SIZE], bytes_t from,
                        uint8_t *to) {
    if (from.size == 0) {
        return;
    }
    if (cipher->kind == CIPHER_AES && from.size <= SHORT_TEXT) {
        short_stream(lane, tag, from, to);
        return;
    }
    uint8_t begin[TAG_SIZE];
    memcpy(begin, tag, sizeof begin);
    if (cipher->kind == CIPHER_CHACHA) {
        begin[3] &= 0x7f; /* its counter is little-endian; what comes after it must not pass the end of 32 bits */
    }
    check(crypto.EVP_EncryptInit_ex(lane->text, NULL, NULL, NULL, begin) == 1);
    for (uint32_t at = 0; at < from.size;) {
        int size = from.size - at < PIECE ? (int)(from.size - at) : PIECE;
        int done = 0;
        check(crypto.EVP_EncryptUpdate(lane->text, to + at, &done, from.at + at, size) == 1);
        check(done == size);
        at += (uint32_t)size;
    }
}

static void cipher_seal(const void *context, sealer_side_t side, uint8_t place, bytes_t name, bytes_t plain,
                        uint8_t *to) {
    const cipher_t *cipher = context;
    uint8_t tag[TAG_SIZE];
    tag_of(cipher, &cipher->lanes[side], place, name, plain, tag);
    stream_over(cipher, &cipher->lanes[side], tag, plain, to);
    memcpy(to + plain.size, tag, sizeof tag);
}

/* In constant time: how many bytes of a forgery are right is nobody's business. */
static bool same_tag(const uint8_t a[TAG_SIZE], const uint8_t b[TAG_SIZE]) {
    uint8_t difference = 0;
    for (unsigned i = 0; i < TAG_SIZE; i++) {
        difference |= a[i] ^ b[i];
    }
    return difference == 0;
}

static bool cipher_unseal(const void *context, sealer_side_t side, uint8_t place, bytes_t name, bytes_t sealed,
                          uint8_t *to) {
    const cipher_t *cipher = context;
    const lane_t *lane = &cipher->lanes[side];
    uint8_t said[TAG_SIZE];
    uint8_t is[TAG_SIZE];
    if (sealed.size < TAG_SIZE) {
        return false;
    }
    bytes_t text = bytes_of(sealed.at, sealed.size - TAG_SIZE);
    memcpy(said, sealed.at + text.size, sizeof said);
    stream_over(cipher, lane, said, text, to);
    tag_of(cipher, lane, place, name, bytes_of(to, text.size), is);
    if (same_tag(said, is)) {
        return true;
    }
    stream_over(cipher, lane, said, bytes_of(to, text.size), to); /* who opens in place has again what it had */
    return false;
}

static void cipher_hide(const void *context, sealer_side_t side, uint8_t place, bytes_t name, bytes_t text,
                        uint8_t hidden[SEALER_HIDDEN_SIZE]) {
    const cipher_t *cipher = context;
    tag_of(cipher, &cipher->lanes[side], place | HIDE, name, text, hidden);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

status_t cipher_open(uint32_t kind, bytes_t key, const uint8_t salt[CIPHER_SALT_SIZE], cipher_t **out, char *reason,
                     size_t reason_size) {
    *out = NULL;
    if (key.size == 0 || key.size > CIPHER_KEY_SIZE_MAX || (kind != CIPHER_AES && kind != CIPHER_CHACHA)) {
        snprintf(reason, reason_size, "the key for encryption at rest is empty or too long");
        return STATUS_INVALID;
    }
    pthread_once(&crypto_once, load_libcrypto);
    if (!crypto.loaded) {
        snprintf(reason, reason_size, "encryption at rest needs libcrypto.so.3 of OpenSSL, which cannot be loaded");
        return STATUS_INVALID;
    }
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* it cannot fail */
    cipher_t *cipher = calloc(1, sizeof *cipher);
    if (cipher != NULL) {
        cipher->kind = kind;
        cipher->sealer = (sealer_t){
            .context = cipher, .overhead = TAG_SIZE, .seal = cipher_seal, .open = cipher_unseal, .hide = cipher_hide};
    }
    if (cipher == NULL || !derive(cipher, key, salt)) {
        snprintf(reason, reason_size, "no memory for encryption at rest, or libcrypto lacks what it needs for it");
        cipher_close(cipher);
        return STATUS_NO_MEMORY;
    }
    *out = cipher;
    return STATUS_OK;
}

void cipher_close(cipher_t *cipher) {
    if (cipher == NULL) {
        return;
    }
    for (unsigned side = 0; side < SEALER_SIDES; side++) { /* libcrypto overwrites what it frees */
        lane_t *lane = &cipher->lanes[side];
        crypto.EVP_MAC_CTX_free(lane->hash);
        crypto.EVP_CIPHER_CTX_free(lane->tag);
        crypto.EVP_CIPHER_CTX_free(lane->text);
        crypto.EVP_CIPHER_CTX_free(lane->text_block);
    }
    cipher_cleanse(cipher, sizeof *cipher);
    free(cipher);
}

const sealer_t *cipher_sealer(const cipher_t *cipher) {
    return &cipher->sealer;
}

void cipher_check(const cipher_t *cipher, uint8_t check_value[SEALER_HIDDEN_SIZE]) {
    cipher_hide(cipher, SEALER_PLANE, CHECK_PLACE, BYTES_LITERAL("key"), BYTES_NONE, check_value);
}
