/* crc_private.h: the table way alone, so that the test can hold it against the hardware's on the same machine. */
#ifndef LEAFD_BASE_CRC_PRIVATE_H
#define LEAFD_BASE_CRC_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c_by_table(uint32_t seed, const void *at, size_t size);

#endif
