/* ttl.h: the value of Nats-TTL, how long a message may live: "never", whole seconds ("90"), or a duration of at least a
 * second ("1h30m"). */
#ifndef LEAFD_TEXT_TTL_H
#define LEAFD_TEXT_TTL_H

#include <stdbool.h>

#include "base/bytes.h"

#define TTL_NEVER (-1)

/* *ns: at least a second, or TTL_NEVER; that is also what more seconds than 292 years are, where the reference's sum
 * overflows and the message is gone at once. false: none of the forms. */
bool ttl_parse(bytes_t value, int64_t *ns);

#endif
