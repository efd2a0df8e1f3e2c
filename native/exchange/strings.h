/* strings.h: the packed strings of a command, as abi.h has them: each behind its size, four bytes little-endian.
 *
 * A handler of a command may take the strings of its row for there: shape.h has looked.
 */
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
bytes_t strings_next(strings_t *strings); /* empty behind the end, too; a size that is not true ends them */
bool strings_more(const strings_t *strings);
uint32_t strings_count(strings_t strings); /* how many there are from here on */
/* The next one; false: it is not all there, and nothing has changed. */
bool strings_whole(strings_t *strings, bytes_t *string);

#endif
