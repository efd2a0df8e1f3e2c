/* command.h: what control orders: one function a command of abi.h, and their answers.
 */
#ifndef LEAFD_PLANE_COMMAND_H
#define LEAFD_PLANE_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/status.h"

void command_run(plane_t *plane, const plane_command_t *command);
void command_done(plane_t *plane, const plane_command_t *command, status_t status);
/* With a payload; arg and arg2 for the caller. */
void command_answer(plane_t *plane, const plane_command_t *command, status_t status, uint64_t arg, uint64_t arg2,
                    bytes_t payload);
/* When everything that is in the store's open batch is on disk. */
void command_done_durable(plane_t *plane, const plane_command_t *command, uint32_t which_store, uint64_t arg,
                          bytes_t payload);
bool command_stream(plane_t *plane, const plane_command_t *command); /* false: not one of these */
bool command_consumer(plane_t *plane, const plane_command_t *command);
bool command_ingest(plane_t *plane, const plane_command_t *command);
bool command_backup(plane_t *plane, const plane_command_t *command);

typedef struct strings { /* reads the packed strings of abi.h */
    const uint8_t *at;
    uint32_t left;
} strings_t;
strings_t strings_of(const plane_command_t *command);
bytes_t strings_next(strings_t *strings); /* empty behind the end, too */
bool strings_more(const strings_t *strings);

void command_admit(plane_t *plane, const plane_command_t *command);
void command_rights(plane_t *plane, const plane_command_t *command);

void command_subscriptions(plane_t *plane, const plane_command_t *command); /* listing.c */
void command_imports(plane_t *plane, const plane_command_t *command);       /* import.c */

#endif
