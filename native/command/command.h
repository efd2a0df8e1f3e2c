/* command.h: what control orders: one function a command of abi.h, and their answers.
 *
 *     command.c        connections, accounts, subscriptions, limits      admit.c    logins, and rights that change
 *     command_table.c  the rows that Python packs commands by            listing.c  those that list
 *
 * JetStream's commands are in jetstream/ (js_command).
 */
#ifndef LEAFD_COMMAND_COMMAND_H
#define LEAFD_COMMAND_COMMAND_H

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
void command_admit(plane_t *plane, const plane_command_t *command);
void command_rights(plane_t *plane, const plane_command_t *command);

void command_subscriptions(plane_t *plane, const plane_command_t *command); /* listing.c */
void command_interest(plane_t *plane, const plane_command_t *command);      /* listing.c */

#endif
