/* command_table.h: the one table of the commands of abi.h (number, name, what they need, body, strings in order) and
 * the one of its events. Python packs commands and reads events by these rows, so no order is written twice.
 *
 * What does not live here: who runs a command, what it does, and whether its content makes sense.
 */
#ifndef LEAFD_PLANE_COMMAND_TABLE_H
#define LEAFD_PLANE_COMMAND_TABLE_H

#include <stdbool.h>

#include "base/abi_types.h"

/* The row of a command's number; NULL: there is no such command. */
const plane_command_row_t *command_row(uint32_t op);
/* Whether body and strings are what the row says: a handler may take each of them for there. */
bool command_shapely(const plane_command_row_t *row, const plane_command_t *command);

#endif
