/* command_table.h: the one table of the commands of abi.h (number, name, what they need, body, strings in order, the
 * function that runs them), and the one of its events. Python packs commands and reads events by the same rows.
 *
 * Not here: what a command does, and whether its content makes sense.
 */
#ifndef LEAFD_COMMAND_COMMAND_TABLE_H
#define LEAFD_COMMAND_COMMAND_TABLE_H

#include "base/abi_types.h"
#include "jetstream/stream.h"
#include "plane/plane.h"
#include "plane/subscription.h"

/* The object that a row's function takes: which of run's members the row has. command.c finds it, or answers
 * STATUS_NOT_FOUND. */
typedef enum command_object {
    TAKES_PLANE = 0,
    TAKES_DESCRIPTOR, /* as TAKES_PLANE; arg is an open file that is the plane's to close from here on */
    TAKES_ACCOUNT,
    TAKES_PEER,
    TAKES_LOGIN, /* as TAKES_PEER; a command that is refused closes the connection, which must not stay as it is */
    TAKES_JETSTREAM,
    TAKES_STREAM,
    TAKES_BINDING,
} command_object_t;

typedef union command_function {
    void (*plane)(plane_t *plane, const plane_command_t *command);
    void (*account)(plane_t *plane, const plane_command_t *command, account_t *account);
    void (*peer)(plane_t *plane, const plane_command_t *command, peer_t *peer);
    void (*jetstream)(js_t *js, const plane_command_t *command);
    void (*stream)(js_t *js, const plane_command_t *command, stream_t *stream);
    void (*binding)(js_t *js, const plane_command_t *command, consumer_binding_t *binding);
} command_function_t;

typedef struct command_row {
    plane_command_row_t shape;
    command_object_t object;
    command_function_t run;
} command_row_t;

/* The row of a command's number; NULL: there is no such command. */
const command_row_t *command_row(uint32_t op);

#endif
