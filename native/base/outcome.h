/* outcome.h: the three outcomes of a read as a type of their own: there, not there, not known. A switch without a
 * default judges it, so that the compiler finds who forgot one; it is never compared (tests/tidy.py). READ_UNKNOWN
 * never reaches a write, a removal, a limit or a "not found": what asked waits, is tried again, or is refused.
 * Not here: why a read failed, and steps that go on (status.h).
 */
#ifndef LEAFD_BASE_OUTCOME_H
#define LEAFD_BASE_OUTCOME_H

#include "base/status.h"

typedef enum read_outcome { READ_FOUND, READ_NONE, READ_UNKNOWN } read_outcome_t;

static inline read_outcome_t read_outcome(status_t status) {
    return status == STATUS_OK ? READ_FOUND : status == STATUS_NOT_FOUND ? READ_NONE : READ_UNKNOWN;
}

#endif
