/* strings.h: the packed strings of a command, as abi.h has them: each behind its size, four bytes little-endian. */
#ifndef LEAFD_EXCHANGE_STRINGS_H
#define LEAFD_EXCHANGE_STRINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/bytes.h"

typedef struct strings {
    const uint8_t *at;
    uint32_t left;
} strings_t;

strings_t strings_of(const plane_command_t *command);
bytes_t strings_next(strings_t *strings); /* empty behind the end, too */
bool strings_more(const strings_t *strings);

#endif
