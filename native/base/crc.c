/* crc.c: CRC32C by the processor's own instruction, three at a time, or by eight tables ("slicing by
 * eight") where there is none.
 *
 * The choice is made once, before main: SSE4.2 on x86, and with it the multiplication without carries where there is
 * one; the CRC extension on 64-bit ARM. 32-bit ARM takes the tables: its boards often lack the extension and a wrong
 * guess is SIGILL.
 */
#include "base/crc.h"

#include "base/bytes.h"
#include "base/crc_private.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#define POLYNOMIAL UINT32_C(0x82F63B78)

static uint32_t tables[8][256];

static uint32_t by_table(uint32_t crc, const uint8_t *at, size_t size) {
    while (size >= 8) {
        crc ^= (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        crc = tables[7][crc & 0xFF] ^ tables[6][(crc >> 8) & 0xFF] ^ tables[5][(crc >> 16) & 0xFF]
              ^ tables[4][crc >> 24] ^ tables[3][at[4]] ^ tables[2][at[5]] ^ tables[1][at[6]] ^ tables[0][at[7]];
        at += 8;
        size -= 8;
    }
    while (size-- > 0) {
        crc = tables[0][(crc ^ *at++) & 0xFF] ^ (crc >> 8);
    }
    return crc;
}

/* One instruction waits three cycles for the one before, and one can begin in each: three pieces of the same length are
 * done at a time. What the pieces before a piece add to its checksum is their own, carried over so many zeros. */
#define PIECE_LONG 256 /* longer ones: the processor does not see ahead of time what is read next in three places */
#define PIECE_SHORT 64 /* shorter ones: carrying takes as long as what is won */

typedef struct carry {
    uint32_t by_byte[4][256];
} carry_t;
static carry_t carry_long, carry_short;

static void carry_prepare(carry_t *carry, size_t piece) {
    static const uint8_t zeros[PIECE_LONG];
    for (uint32_t bit = 0; bit < 32; bit++) {
        uint32_t carried = by_table(UINT32_C(1) << bit, zeros, piece);
        for (uint32_t byte = 0; byte < 256; byte++) {
            carry->by_byte[bit / 8][byte] ^= (byte >> (bit % 8) & 1) != 0 ? carried : 0;
        }
    }
}

#if defined(__x86_64__)
#define HARDWARE __attribute__((target("sse4.2")))
#define CRC_WORD(crc, word) __builtin_ia32_crc32di(crc, word)
typedef uint64_t crc_word_t; /* the instruction has its result in so many bits, the upper half zeros */
#define CRC_HALF(crc, half) __builtin_ia32_crc32si(crc, half)
#define CRC_BYTE(crc, byte) __builtin_ia32_crc32qi(crc, byte)
#elif defined(__aarch64__)
#define HARDWARE __attribute__((target("+crc")))
#define CRC_WORD(crc, word) __crc32cd(crc, word)
typedef uint32_t crc_word_t;
#define CRC_HALF(crc, half) __crc32cw(crc, half)
#define CRC_BYTE(crc, byte) __crc32cb(crc, byte)
#endif

#if defined(HARDWARE)
static inline uint32_t carried_over(const carry_t *carry, uint32_t crc) {
    return carry->by_byte[0][crc & 0xFF] ^ carry->by_byte[1][(crc >> 8) & 0xFF] ^ carry->by_byte[2][(crc >> 16) & 0xFF]
           ^ carry->by_byte[3][crc >> 24];
}

HARDWARE static inline uint32_t three_pieces(const carry_t *carry, size_t piece, uint32_t crc, const uint8_t *at) {
    crc_word_t first = crc, second = 0, third = 0;
    for (size_t i = 0; i < piece; i += 8) {
        first = CRC_WORD(first, load_u64(at + i));
        second = CRC_WORD(second, load_u64(at + piece + i));
        third = CRC_WORD(third, load_u64(at + 2 * piece + i));
    }
    return carried_over(carry, carried_over(carry, (uint32_t)first) ^ (uint32_t)second) ^ (uint32_t)third;
}

HARDWARE static inline uint32_t word_by_word(uint32_t crc, const uint8_t *at, size_t size) {
    crc_word_t wide = crc;
    for (; size >= 8; at += 8, size -= 8) {
        wide = CRC_WORD(wide, load_u64(at));
    }
    crc = (uint32_t)wide;
    if (size >= 4) {
        crc = CRC_HALF(crc, load_u32(at));
        at += 4;
        size -= 4;
    }
    while (size-- > 0) {
        crc = CRC_BYTE(crc, *at++);
    }
    return crc;
}

HARDWARE static __attribute__((noinline)) uint32_t long_by_hardware(uint32_t crc, const uint8_t *at, size_t size) {
    for (; size >= 3 * PIECE_LONG; at += 3 * PIECE_LONG, size -= 3 * PIECE_LONG) {
        crc = three_pieces(&carry_long, PIECE_LONG, crc, at);
    }
    for (; size >= 3 * PIECE_SHORT; at += 3 * PIECE_SHORT, size -= 3 * PIECE_SHORT) {
        crc = three_pieces(&carry_short, PIECE_SHORT, crc, at);
    }
    return word_by_word(crc, at, size);
}

HARDWARE static uint32_t by_hardware(uint32_t crc, const uint8_t *at, size_t size) {
    return size < 3 * PIECE_SHORT ? word_by_word(crc, at, size) : long_by_hardware(crc, at, size);
}
#else
static uint32_t by_hardware(uint32_t crc, const uint8_t *at, size_t size) {
    return by_table(crc, at, size);
}
#endif

#if defined(__x86_64__)
/* What the pieces before the last one add is carried over by two multiplications at once, and both go into the last
 * word. That takes so little time that pieces of four words are worth it: most messages have two hundred bytes. */
#define CARRYLESS __attribute__((target("sse4.2,pclmul")))
#define WORDS_MIN 4u
#define WORDS_MAX (PIECE_LONG / 8u)

/* x to the power of the bits of so many words, without the 33 that the multiplication and the instruction add. */
static uint64_t carry_by_words[2 * WORDS_MAX + 1];

static void carryless_prepare(void) {
    uint32_t power = UINT32_C(1) << 31;
    for (uint32_t bit = 0; bit <= 2 * WORDS_MAX * 64 - 33; bit++) {
        if (bit % 64 == 31) {
            carry_by_words[bit / 64 + 1] = power;
        }
        power = (power & 1) != 0 ? (power >> 1) ^ POLYNOMIAL : power >> 1;
    }
}

CARRYLESS static inline __m128i carried_words(uint64_t crc, size_t words) {
    __m128i by = _mm_cvtsi64_si128((long long)carry_by_words[words]);
    return _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc), by, 0);
}

CARRYLESS static uint32_t by_carryless(uint32_t crc, const uint8_t *at, size_t size) {
    while (size >= 3 * 8 * WORDS_MIN) {
        size_t words = size / 24 < WORDS_MAX ? size / 24 : WORDS_MAX, piece = words * 8;
        uint64_t first = crc, second = 0, third = 0;
        for (size_t i = 0; i < piece - 8; i += 8) {
            first = CRC_WORD(first, load_u64(at + i));
            second = CRC_WORD(second, load_u64(at + piece + i));
            third = CRC_WORD(third, load_u64(at + 2 * piece + i));
        }
        first = CRC_WORD(first, load_u64(at + piece - 8));
        second = CRC_WORD(second, load_u64(at + 2 * piece - 8));
        __m128i carried = _mm_xor_si128(carried_words(first, 2 * words), carried_words(second, words));
        crc = (uint32_t)CRC_WORD(third, load_u64(at + 3 * piece - 8) ^ (uint64_t)_mm_cvtsi128_si64(carried));
        at += 3 * piece;
        size -= 3 * piece;
    }
    return word_by_word(crc, at, size);
}
#endif

typedef uint32_t (*crc_way_t)(uint32_t crc, const uint8_t *at, size_t size);

static int hardware_present(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") != 0;
#elif defined(__aarch64__)
    return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#else
    return 0;
#endif
}

static crc_way_t way = by_table;

__attribute__((constructor)) static void prepare(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc & 1) != 0 ? (crc >> 1) ^ POLYNOMIAL : crc >> 1;
        }
        tables[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++) {
        for (int t = 1; t < 8; t++) {
            tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xFF];
        }
    }
    if (hardware_present()) {
        carry_prepare(&carry_long, PIECE_LONG);
        carry_prepare(&carry_short, PIECE_SHORT);
        way = by_hardware;
    }
#if defined(__x86_64__)
    if (way == by_hardware && __builtin_cpu_supports("pclmul") != 0) {
        carryless_prepare();
        way = by_carryless;
    }
#endif
}

uint32_t crc32c(uint32_t seed, const void *at, size_t size) {
    return ~way(~seed, at, size);
}

uint32_t crc32c_by_table(uint32_t seed, const void *at, size_t size) {
    return ~by_table(~seed, at, size);
}

uint32_t crc32c_by_pieces(uint32_t seed, const void *at, size_t size) {
    return way == by_table ? crc32c_by_table(seed, at, size) : ~by_hardware(~seed, at, size);
}
