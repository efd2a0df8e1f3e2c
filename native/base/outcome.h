/* outcome.h: the three outcomes of a read as a type of their own: there, not there, not known; those of an entry (a
 * message, a record), which may also be there without its bytes being what was stored; those of a list, which may lack
 * some; those of a look for one among many, which may also take further turns; and those of a step of a look at much:
 * it was the last one, there are more, or it got no further. A switch without a default judges them, so that the
 * compiler finds a switch that lacks one; they are never compared (tests/tidy.py). READ_UNKNOWN, ENTRY_UNKNOWN,
 * LIST_UNKNOWN, SEEK_UNKNOWN and STEP_UNKNOWN never reach a write, a removal, a limit, a "not found" or a "done": what
 * asked waits, is tried again, or is refused. No status says of what was read that it is not there: STATUS_NOT_FOUND is
 * for what was asked to do something to it. Not here: why a read failed (status.h).
 */
#ifndef LEAFD_BASE_OUTCOME_H
#define LEAFD_BASE_OUTCOME_H

#include <stdbool.h>

#include "base/status.h"

typedef enum read_outcome { READ_FOUND, READ_NONE, READ_UNKNOWN } read_outcome_t;

typedef enum entry_outcome { ENTRY_FOUND, ENTRY_NONE, ENTRY_DAMAGED, ENTRY_UNKNOWN } entry_outcome_t;

/* For a caller that hands it up. */
static inline status_t entry_status(entry_outcome_t outcome) {
    switch (outcome) {
    case ENTRY_FOUND: return STATUS_OK;
    case ENTRY_NONE: return STATUS_NOT_FOUND;
    case ENTRY_DAMAGED: return STATUS_CORRUPT;
    case ENTRY_UNKNOWN: break;
    }
    return STATUS_IO;
}

/* WHOLE: as far as its reader wanted it. LACKS: some are damaged, or may be, and were left out. */
typedef enum list_outcome { LIST_WHOLE, LIST_LACKS, LIST_UNKNOWN } list_outcome_t;

/* Likewise. */
static inline status_t list_status(list_outcome_t outcome) {
    switch (outcome) {
    case LIST_WHOLE: return STATUS_OK;
    case LIST_LACKS: return STATUS_CORRUPT;
    case LIST_UNKNOWN: break;
    }
    return STATUS_IO;
}

typedef enum seek_outcome { SEEK_FOUND, SEEK_NONE, SEEK_MORE, SEEK_UNKNOWN } seek_outcome_t;

typedef enum step_outcome { STEP_OVER, STEP_MORE, STEP_UNKNOWN } step_outcome_t;

/* What was found, and is only of use if what came next with it went well. */
static inline read_outcome_t read_if(status_t status) {
    return status == STATUS_OK ? READ_FOUND : READ_UNKNOWN;
}

/* For the condition of a loop, behind which a switch judges what ended it. */
static inline bool read_goes_on(read_outcome_t outcome) {
    switch (outcome) {
    case READ_FOUND: return true;
    case READ_NONE:
    case READ_UNKNOWN: break;
    }
    return false;
}

/* For a caller that needs no entry, but has to know. */
static inline status_t read_known(read_outcome_t outcome) {
    switch (outcome) {
    case READ_FOUND:
    case READ_NONE: return STATUS_OK;
    case READ_UNKNOWN: break;
    }
    return STATUS_IO;
}

/* What a read without turns says where a look that may take some is asked for. */
static inline seek_outcome_t seek_outcome(read_outcome_t outcome) {
    switch (outcome) {
    case READ_FOUND: return SEEK_FOUND;
    case READ_NONE: return SEEK_NONE;
    case READ_UNKNOWN: break;
    }
    return SEEK_UNKNOWN;
}

#endif
