/* crc_private.h: single ways of computing it, so that the test can hold them against each other on one machine. */
#ifndef LEAFD_BASE_CRC_PRIVATE_H
#define LEAFD_BASE_CRC_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c_by_table(uint32_t seed, const void *at, size_t size);
/* By the processor's instruction without multiplications; by tables where there is none. */
uint32_t crc32c_by_pieces(uint32_t seed, const void *at, size_t size);

#endif
