/* shape.h: whether a command has the body and the strings that its row in the table of commands names.
 *
 * Not here: the rows (command/command_table.c), and whether what a body or a string says makes sense.
 */
#ifndef LEAFD_EXCHANGE_SHAPE_H
#define LEAFD_EXCHANGE_SHAPE_H

#include <stdbool.h>

#include "base/abi_types.h"

/* The body has the size of its structs, and each string is there, whole, with nothing behind the last one. */
bool shape_fits(const plane_command_row_t *row, const plane_command_t *command);

#endif
