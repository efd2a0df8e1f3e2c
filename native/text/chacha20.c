/* chacha20.c: see chacha20.h. The vectors are the compiler's (vector_size): of 16 bytes wherever there are such, of 32
 * with AVX2, of 64 with AVX-512; which, is looked up once, before main. */
#include "text/chacha20.h"

#include <string.h>

#define DOUBLE_ROUNDS 10
#define INLINE __attribute__((always_inline)) static inline

static const uint8_t constant[] = "expand 32-byte k";

#if defined(__clang__)
#define SHUFFLE(type, v, ...) __builtin_shufflevector((v), (v), __VA_ARGS__)
#else
#define SHUFFLE(type, v, ...) __builtin_shuffle((v), (type){__VA_ARGS__})
#endif

#define ROW_SIZE 16
#define ROWS(name) name##_16
#define ROWS_TARGET
#define EACH(a, b, c, d) (a), (b), (c), (d)
#include "text/chacha20_rows.h"
#undef ROW_SIZE
#undef ROWS
#undef ROWS_TARGET
#undef EACH

#if defined(__x86_64__)
#define ROW_SIZE 32
#define ROWS(name) name##_32
#define ROWS_TARGET __attribute__((target("avx2")))
#define EACH(a, b, c, d) (a), (b), (c), (d), (a) + 4, (b) + 4, (c) + 4, (d) + 4
#include "text/chacha20_rows.h"
#undef ROW_SIZE
#undef ROWS
#undef ROWS_TARGET
#undef EACH

#define ROW_SIZE 64
#define ROWS(name) name##_64
#define ROWS_TARGET __attribute__((target("avx512f")))
#define EACH(a, b, c, d)                                                                                               \
    (a), (b), (c), (d), (a) + 4, (b) + 4, (c) + 4, (d) + 4, (a) + 8, (b) + 8, (c) + 8, (d) + 8, (a) + 12, (b) + 12,    \
        (c) + 12, (d) + 12
#include "text/chacha20_rows.h"
#undef ROW_SIZE
#undef ROWS
#undef ROWS_TARGET
#undef EACH
#endif

typedef void (*blocks_by_t)(const uint8_t *key, const uint8_t *inputs, size_t count, uint8_t *blocks);

static blocks_by_t way_of(chacha20_way_t way) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (way == CHACHA20_ROWS_64) {
        return __builtin_cpu_supports("avx512f") ? all_64 : NULL;
    }
    if (way == CHACHA20_ROWS_32) {
        return __builtin_cpu_supports("avx2") ? all_32 : NULL;
    }
#endif
    return way == CHACHA20_ROWS_16 ? all_16 : NULL;
}

static blocks_by_t fastest = all_16;

__attribute__((constructor)) static void choose_way(void) {
    for (unsigned way = CHACHA20_WAYS; way-- > 0;) {
        blocks_by_t by = way_of((chacha20_way_t)way);
        if (by != NULL) {
            fastest = by;
            return;
        }
    }
}

void chacha20_blocks(const uint8_t key[CHACHA20_KEY_SIZE], const uint8_t *inputs, size_t count, uint8_t *blocks) {
    fastest(key, inputs, count, blocks);
}

bool chacha20_blocks_by(chacha20_way_t way, const uint8_t key[CHACHA20_KEY_SIZE], const uint8_t *inputs, size_t count,
                        uint8_t *blocks) {
    blocks_by_t by = way_of(way);
    if (by != NULL) {
        by(key, inputs, count, blocks);
    }
    return by != NULL;
}
