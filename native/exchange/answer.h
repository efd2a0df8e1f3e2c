/* answer.h: the completion of a command. What a completion waits for is another matter: held.h.
 */
#ifndef LEAFD_EXCHANGE_ANSWER_H
#define LEAFD_EXCHANGE_ANSWER_H

#include <stdint.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/status.h"
#include "exchange/exchange.h"

void exchange_complete(exchange_t *exchange, const plane_command_t *command, status_t status);
/* With a payload; arg and arg2 for the caller. */
void exchange_answer(exchange_t *exchange, const plane_command_t *command, status_t status, uint64_t arg, uint64_t arg2,
                     bytes_t payload);

#endif
