/* hex.h: a hexadecimal digit as a number. */
#ifndef LEAFD_BASE_HEX_H
#define LEAFD_BASE_HEX_H

#include <stdint.h>

/* The value of a digit of either case; -1: it is not a digit. */
static inline int hex_digit(uint8_t c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

#endif
