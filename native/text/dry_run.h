/* dry_run.h: messages that only ask for a trace of their route (Nats-Trace-Dest with Nats-Trace-Only): they are neither
 * delivered nor stored. */
#ifndef LEAFD_TEXT_DRY_RUN_H
#define LEAFD_TEXT_DRY_RUN_H

#include <stdbool.h>

#include "base/bytes.h"

/* Does the header block ask for a trace and for nothing else? */
bool is_dry_run(bytes_t header);

#endif
