/* cipher.c: see cipher.h. Knows OpenSSL's libcrypto, which is opened at run time. */
#include "disk/cipher.h"

#include <dlfcn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/check.h"
#include "text/chacha20.h"
#include "text/poly1305.h"

#define TAG_SIZE SEALER_HIDDEN_SIZE
#define KEY_SIZE 32
#define BLOCK 16
#define NAME_MAX_SIZE 512
#define CHECK_PLACE 62 /* the place of the key check's name; no database has that number */
#define HIDE 64
/* Longer texts are hashed and streamed by OpenSSL one by one: the fastest there is for kilobytes, but making it ready
 * costs as much as 200 bytes. Shorter texts share calls. */
#define SHORT_TEXT 1024
#define POOL_SIZE 8192  /* bytes of key stream that texts share */
#define AT_ONCE 32      /* texts that share */
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

/* The contexts of one thread: two threads must not use one of OpenSSL's contexts at a time. */
typedef struct lane {
    EVP_MAC_CTX *hash;
    EVP_CIPHER_CTX *text;      /* a stream, set to its beginning each time */
    EVP_CIPHER_CTX *tag_block; /* aes: the bare cipher */
    EVP_CIPHER_CTX *text_block;
} lane_t;

struct cipher {
    sealer_t sealer;
    uint32_t kind;
    uint8_t hash_key[KEY_SIZE]; /* r, and zeros in place of what Poly1305 would add */
    uint8_t tag_key[KEY_SIZE];  /* chacha: for short texts; AES's keys are in the lanes alone */
    uint8_t text_key[KEY_SIZE];
    lane_t lanes[SEALER_SIDES];
};

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

static EVP_CIPHER_CTX *bare_aes(const uint8_t *key) {
    EVP_CIPHER_CTX *bare = crypto.EVP_CIPHER_CTX_new();
    if (bare != NULL
        && (crypto.EVP_EncryptInit_ex(bare, crypto.EVP_aes_256_ecb(), NULL, key, NULL) != 1
            || crypto.EVP_CIPHER_CTX_set_padding(bare, 0) != 1)) {
        crypto.EVP_CIPHER_CTX_free(bare);
        return NULL;
    }
    return bare;
}

static bool open_lane(cipher_t *cipher, lane_t *lane, EVP_MAC *poly) {
    static const uint8_t zeros[BLOCK];
    bool aes = cipher->kind == CIPHER_AES;
    const EVP_CIPHER *text = aes ? crypto.EVP_aes_256_ctr() : crypto.EVP_chacha20();
    lane->hash = crypto.EVP_MAC_CTX_new(poly);
    lane->text = crypto.EVP_CIPHER_CTX_new();
    bool done = lane->hash != NULL && lane->text != NULL
                && crypto.EVP_EncryptInit_ex(lane->text, text, NULL, cipher->text_key, zeros) == 1;
    if (done && aes) {
        lane->tag_block = bare_aes(cipher->tag_key);
        lane->text_block = bare_aes(cipher->text_key);
        done = lane->tag_block != NULL && lane->text_block != NULL;
    }
    return done;
}

static bool derive(cipher_t *cipher, bytes_t key, const uint8_t salt[CIPHER_SALT_SIZE]) {
    uint8_t prk[KEY_SIZE];
    unsigned int got = 0;
    bool done = crypto.HMAC(crypto.EVP_sha256(), salt, CIPHER_SALT_SIZE, key.at, key.size, prk, &got) != NULL
                && got == KEY_SIZE && expand(prk, cipher->kind, "hash", cipher->hash_key)
                && expand(prk, cipher->kind, "tag", cipher->tag_key)
                && expand(prk, cipher->kind, "text", cipher->text_key);
    EVP_MAC *poly = done ? crypto.EVP_MAC_fetch(NULL, "POLY1305", NULL) : NULL;
    memset(cipher->hash_key + BLOCK, 0, KEY_SIZE - BLOCK);
    done = poly != NULL;
    for (unsigned side = 0; done && side < SEALER_SIDES; side++) {
        done = open_lane(cipher, &cipher->lanes[side], poly);
    }
    if (poly != NULL) {
        crypto.EVP_MAC_free(poly);
    }
    explicit_bzero(prk, sizeof prk);
    if (cipher->kind == CIPHER_AES) {
        explicit_bzero(cipher->tag_key, KEY_SIZE);
        explicit_bzero(cipher->text_key, KEY_SIZE);
    }
    return done;
}

/* ---- sealing ----------------------------------------------------------------------------------------------------- */

/* Hashes the bytes before the text. */
static bytes_t hash_begin(uint8_t place, bytes_t name, uint8_t room[3 + NAME_MAX_SIZE]) {
    check(name.size <= NAME_MAX_SIZE);
    room[0] = place;
    store_be16(room + 1, (uint16_t)name.size);
    return bytes_of(room, (uint32_t)(bytes_write(room + 3, name) - room));
}

/* The keyed hash over place, name and text. OpenSSL's calls have no reason to fail once the contexts are there. If one
 * fails all the same, the process ends: it must not write records that nobody can open. */
static void entry_hash(const cipher_t *cipher, const lane_t *lane, uint8_t place, bytes_t name, bytes_t text,
                       uint8_t hash[BLOCK]) {
    uint8_t room[3 + NAME_MAX_SIZE];
    size_t size = 0;
    bytes_t first = hash_begin(place, name, room);
#if POLY1305_IS_THERE
    if (LEAF_LIKELY(text.size <= SHORT_TEXT)) {
        poly1305_hash(cipher->hash_key, first, text, hash);
        return;
    }
#endif
    check(crypto.EVP_MAC_init(lane->hash, cipher->hash_key, KEY_SIZE, NULL) == 1);
    check(crypto.EVP_MAC_update(lane->hash, first.at, first.size) == 1);
    check(text.size == 0 || crypto.EVP_MAC_update(lane->hash, text.at, text.size) == 1);
    check(crypto.EVP_MAC_final(lane->hash, hash, &size, BLOCK) == 1);
    check(size == BLOCK);
}

/* How many bytes the cipher makes of a block. */
static uint32_t block_room(const cipher_t *cipher) {
    return cipher->kind == CIPHER_AES ? BLOCK : CHACHA20_BLOCK_SIZE;
}

static void aes_blocks(EVP_CIPHER_CTX *bare, const uint8_t *blocks, uint32_t count, uint8_t *to) {
    int done = 0;
    check(crypto.EVP_EncryptUpdate(bare, to, &done, blocks, (int)(count * BLOCK)) == 1);
    check(done == (int)(count * BLOCK));
}

/* The PRF over hashes; tags lie block_room apart. */
static void tags_of(const cipher_t *cipher, const lane_t *lane, const uint8_t *hashes, uint32_t count, uint8_t *tags) {
    if (cipher->kind == CIPHER_AES) {
        aes_blocks(lane->tag_block, hashes, count, tags);
    } else {
        chacha20_blocks(cipher->tag_key, hashes, count, tags);
    }
}

static void tag_of(const cipher_t *cipher, const lane_t *lane, uint8_t place, bytes_t name, bytes_t text,
                   uint8_t tag[TAG_SIZE]) {
    uint8_t hash[BLOCK];
    uint8_t room[CHACHA20_BLOCK_SIZE];
    entry_hash(cipher, lane, place, name, text, hash);
    tags_of(cipher, lane, hash, 1, room);
    memcpy(tag, room, TAG_SIZE);
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* A text and the tag that its stream begins with. to may be from.at. */
typedef struct streamed {
    bytes_t from;
    uint8_t *to;
    const uint8_t *tag;
} streamed_t;

static void long_stream(const cipher_t *cipher, const lane_t *lane, const streamed_t *text) {
    uint8_t begin[TAG_SIZE];
    memcpy(begin, text->tag, sizeof begin);
    if (cipher->kind == CIPHER_CHACHA) {
        begin[3] &= 0x7f; /* its counter is little-endian; what comes after it must not pass the end of 32 bits */
    }
    check(crypto.EVP_EncryptInit_ex(lane->text, NULL, NULL, NULL, begin) == 1);
    for (uint32_t at = 0; at < text->from.size;) {
        int size = text->from.size - at < PIECE ? (int)(text->from.size - at) : PIECE;
        int done = 0;
        check(crypto.EVP_EncryptUpdate(lane->text, text->to + at, &done, text->from.at + at, size) == 1);
        check(done == size);
        at += (uint32_t)size;
    }
}

/* The blocks of which the cipher makes a stream: the tag, and those that count on from it. */
static void counters_aes(const uint8_t *tag, uint32_t count, uint8_t *to) {
    uint64_t high = load_be64(tag);
    uint64_t low = load_be64(tag + 8);
    for (uint32_t i = 0; i < count; i++) {
        store_be64(to + (size_t)i * BLOCK, high);
        store_be64(to + (size_t)i * BLOCK + 8, low);
        low++;
        high += low == 0;
    }
}

static void counters_chacha(const uint8_t *tag, uint32_t count, uint8_t *to) {
    uint32_t counter = __builtin_bswap32(load_be32(tag)) & 0x7fffffff;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(to + (size_t)i * BLOCK, tag, TAG_SIZE);
        store_be32(to + (size_t)i * BLOCK, __builtin_bswap32(counter + i));
    }
}

static void xor_over(uint8_t *to, bytes_t from, const uint8_t *stream) {
    uint32_t i = 0;
    for (; i + 8 <= from.size; i += 8) {
        uint64_t text;
        uint64_t with;
        memcpy(&text, from.at + i, sizeof text);
        memcpy(&with, stream + i, sizeof with);
        text ^= with;
        memcpy(to + i, &text, sizeof text);
    }
    for (; i < from.size; i++) {
        to[i] = from.at[i] ^ stream[i];
    }
}

/* Runs the cipher over as many texts, from the first one on, as find room together; returns their number. */
static uint32_t short_streams(const cipher_t *cipher, const lane_t *lane, const streamed_t *texts, uint32_t count) {
    uint8_t counters[POOL_SIZE];
    uint8_t stream[POOL_SIZE];
    uint32_t room = block_room(cipher);
    uint32_t blocks = 0;
    uint32_t taken = 0;
    for (; taken < count && texts[taken].from.size <= SHORT_TEXT; taken++) {
        uint32_t more = (texts[taken].from.size + room - 1) / room;
        if ((blocks + more) * room > POOL_SIZE) {
            break;
        }
        if (cipher->kind == CIPHER_AES) {
            counters_aes(texts[taken].tag, more, counters + (size_t)blocks * BLOCK);
        } else {
            counters_chacha(texts[taken].tag, more, counters + (size_t)blocks * BLOCK);
        }
        blocks += more;
    }
    if (blocks == 0) {
        return taken;
    }
    if (cipher->kind == CIPHER_AES) {
        aes_blocks(lane->text_block, counters, blocks, stream);
    } else {
        chacha20_blocks(cipher->text_key, counters, blocks, stream);
    }
    const uint8_t *at = stream;
    for (uint32_t i = 0; i < taken; i++) {
        xor_over(texts[i].to, texts[i].from, at);
        at += (size_t)(texts[i].from.size + room - 1) / room * room;
    }
    return taken;
}

/* Encrypts or decrypts all texts: the same operation. */
static void stream_over(const cipher_t *cipher, const lane_t *lane, const streamed_t *texts, uint32_t count) {
    while (count > 0) {
        uint32_t done = 1;
        if (texts->from.size > SHORT_TEXT) {
            long_stream(cipher, lane, texts);
        } else {
            done = short_streams(cipher, lane, texts, count);
        }
        texts += done;
        count -= done;
    }
}

/* ---- the sealer -------------------------------------------------------------------------------------------------- */

/* Hashes two items in a row; false: these two cannot be hashed together. */
static bool entry_hash_two(const cipher_t *cipher, const sealer_item_t items[2], uint8_t hashes[2 * BLOCK]) {
#if POLY1305_IS_THERE
    if (items[0].plain.size <= SHORT_TEXT && items[1].plain.size <= SHORT_TEXT) {
        uint8_t rooms[2][3 + NAME_MAX_SIZE];
        bytes_t firsts[2] = {hash_begin(items[0].place, items[0].name, rooms[0]),
                             hash_begin(items[1].place, items[1].name, rooms[1])};
        bytes_t seconds[2] = {items[0].plain, items[1].plain};
        poly1305_two(cipher->hash_key, firsts, seconds, hashes);
        return true;
    }
#else
    (void)cipher;
    (void)items;
    (void)hashes;
#endif
    return false;
}

static void seal_some(const cipher_t *cipher, const lane_t *lane, const sealer_item_t *items, uint32_t count) {
    uint8_t hashes[AT_ONCE * BLOCK];
    uint8_t tags[AT_ONCE * CHACHA20_BLOCK_SIZE];
    streamed_t texts[AT_ONCE];
    uint32_t two;
    for (uint32_t i = 0; i < count; i += two) {
        two = i + 1 < count && entry_hash_two(cipher, &items[i], hashes + (size_t)i * BLOCK) ? 2 : 1;
        if (two == 1) {
            entry_hash(cipher, lane, items[i].place, items[i].name, items[i].plain, hashes + (size_t)i * BLOCK);
        }
    }
    tags_of(cipher, lane, hashes, count, tags);
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *tag = tags + (size_t)i * block_room(cipher);
        texts[i] = (streamed_t){items[i].plain, items[i].to, tag};
        memcpy(items[i].to + items[i].plain.size, tag, TAG_SIZE);
    }
    stream_over(cipher, lane, texts, count);
}

static void cipher_seal(const void *context, sealer_side_t side, const sealer_item_t *items, uint32_t count) {
    const cipher_t *cipher = context;
    while (count > 0) {
        uint32_t some = count < AT_ONCE ? count : AT_ONCE;
        seal_some(cipher, &cipher->lanes[side], items, some);
        items += some;
        count -= some;
    }
}

/* In constant time: the time must not tell how many bytes of a forgery are right. */
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
    if (sealed.size < TAG_SIZE || name.size > NAME_MAX_SIZE) { /* on a damaged page a key may be anything */
        return false;
    }
    bytes_t text = bytes_of(sealed.at, sealed.size - TAG_SIZE);
    memcpy(said, sealed.at + text.size, sizeof said);
    streamed_t streamed = {text, to, said};
    stream_over(cipher, lane, &streamed, 1);
    tag_of(cipher, lane, place, name, bytes_of(to, text.size), is);
    if (same_tag(said, is)) {
        return true;
    }
    streamed.from = bytes_of(to, text.size);
    stream_over(cipher, lane, &streamed, 1); /* a caller that opens in place has its bytes back */
    return false;
}

static void cipher_hide(const void *context, sealer_side_t side, uint8_t place, bytes_t name, bytes_t text,
                        uint8_t hidden[SEALER_HIDDEN_SIZE]) {
    const cipher_t *cipher = context;
    tag_of(cipher, &cipher->lanes[side], place | HIDE, name, text, hidden);
}

/* ---- opening and closing a cipher -------------------------------------------------------------------------------- */

/* The cipher lies in pages of its own, so that keys are not in a core dump. Nor are they in swap, as far as the system
 * lets a process lock memory. */
static cipher_t *cipher_room(void) {
    void *at = mmap(NULL, sizeof(cipher_t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        return NULL;
    }
    (void)madvise(at, sizeof(cipher_t), MADV_DONTDUMP);
    (void)mlock(at, sizeof(cipher_t));
    return at;
}

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
    cipher_t *cipher = cipher_room();
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
        crypto.EVP_CIPHER_CTX_free(lane->tag_block);
        crypto.EVP_CIPHER_CTX_free(lane->text);
        crypto.EVP_CIPHER_CTX_free(lane->text_block);
    }
    explicit_bzero(cipher, sizeof *cipher);
    (void)munmap(cipher, sizeof *cipher);
}

const sealer_t *cipher_sealer(const cipher_t *cipher) {
    return &cipher->sealer;
}

void cipher_check(const cipher_t *cipher, bytes_t text, uint8_t check_value[SEALER_HIDDEN_SIZE]) {
    cipher_hide(cipher, SEALER_PLANE, CHECK_PLACE, BYTES_LITERAL("key"), text, check_value);
}
