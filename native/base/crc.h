/* crc.h: CRC32C (Castagnoli, reflected 0x82F63B78, start and end inverted), the checksum of every stored record.
 * Hardware where the processor has it (SSE4.2, ARMv8 CRC), table otherwise; same result. */
#ifndef LEAFD_BASE_CRC_H
#define LEAFD_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* seed: 0 for the first piece, the previous result for the next one. crc32c(0,"123456789",9) == 0xE3069283. */
uint32_t crc32c(uint32_t seed, const void *at, size_t size);

#endif
