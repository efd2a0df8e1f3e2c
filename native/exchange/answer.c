/* answer.c: the completion of a command; an alarm when it failed and nobody waits for it. */
#include "exchange/answer.h"

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/status.h"
#include "text/text.h"

/* Tells of a command that failed and whose sender does not wait for it: the sender must not believe that it was carried
 * out. */
static void tell_failure(exchange_t *exchange, const plane_command_t *command, status_t status) {
    bool ended =
        status == STATUS_NOT_FOUND
        && (command->op < COMMAND_ACCOUNT || command->op == COMMAND_UNSUBSCRIBE || command->op == COMMAND_PUBLISH);
    if (status == STATUS_OK || ended) {
        return;
    }
    text_t text;
    text.size = 0;
    text_add_literal(&text, "a command failed: number ");
    text_add_number(&text, command->op);
    text_add_literal(&text, " (account ");
    text_add_number(&text, command->account);
    text_add_literal(&text, ", target ");
    text_add_number(&text, command->target);
    text_add_literal(&text, "): ");
    text_add_literal(&text, status_name(status));
    event_alarm(exchange, ALARM_COMMAND, command->op, command->target, text_bytes(&text));
}

void exchange_answer(exchange_t *exchange, const plane_command_t *command, status_t status, uint64_t arg, uint64_t arg2,
                     bytes_t payload) {
    if (command->token == 0) {
        tell_failure(exchange, command, status);
        return;
    }
    event_entry_t *entry = event_answer(exchange, status, BYTES_NONE, BYTES_NONE, payload);
    if (entry != NULL) {
        entry->event.token = command->token;
        entry->event.account = command->account;
        entry->event.target = command->target;
        entry->event.arg = arg;
        entry->event.arg2 = arg2;
    }
    event_post(exchange, entry);
}

void exchange_complete(exchange_t *exchange, const plane_command_t *command, status_t status) {
    exchange_answer(exchange, command, status, 0, 0, BYTES_NONE);
}
