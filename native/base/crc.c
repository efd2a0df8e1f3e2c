/* crc.c: CRC32C by the processor's own instruction, or by eight tables ("slicing by eight") where there is none.
 *
 * The choice is made once, before main: SSE4.2 on x86, the CRC extension on 64-bit ARM. 32-bit ARM takes the tables:
 * its boards often lack the extension and a wrong guess is SIGILL.
 */
#include "base/crc.h"

#include <string.h>

#include "base/crc_private.h"

#if defined(__aarch64__)
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

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t by_hardware(uint32_t crc, const uint8_t *at, size_t size) {
    uint64_t wide = crc;
    while (size >= 8) {
        uint64_t piece;
        memcpy(&piece, at, sizeof piece);
        wide = __builtin_ia32_crc32di(wide, piece);
        at += 8;
        size -= 8;
    }
    crc = (uint32_t)wide;
    while (size-- > 0) {
        crc = __builtin_ia32_crc32qi(crc, *at++);
    }
    return crc;
}

static int hardware_present(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") != 0;
}
#elif defined(__aarch64__)
__attribute__((target("+crc"))) static uint32_t by_hardware(uint32_t crc, const uint8_t *at, size_t size) {
    while (size >= 8) {
        uint64_t piece;
        memcpy(&piece, at, sizeof piece);
        crc = __crc32cd(crc, piece);
        at += 8;
        size -= 8;
    }
    while (size-- > 0) {
        crc = __crc32cb(crc, *at++);
    }
    return crc;
}

static int hardware_present(void) {
    return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}
#else
static uint32_t by_hardware(uint32_t crc, const uint8_t *at, size_t size) {
    return by_table(crc, at, size);
}

static int hardware_present(void) {
    return 0;
}
#endif

static int use_hardware;

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
    use_hardware = hardware_present();
}

uint32_t crc32c(uint32_t seed, const void *at, size_t size) {
    return use_hardware ? ~by_hardware(~seed, at, size) : ~by_table(~seed, at, size);
}

uint32_t crc32c_by_table(uint32_t seed, const void *at, size_t size) {
    return ~by_table(~seed, at, size);
}
