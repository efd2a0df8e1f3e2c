/* status.c: names of the status values. */
#include "base/status.h"

const char *status_name(status_t status) {
    switch (status) {
    case STATUS_OK: return "ok";
    case STATUS_NOT_FOUND: return "not found";
    case STATUS_FULL: return "full";
    case STATUS_NO_MEMORY: return "no memory";
    case STATUS_IO: return "input/output error";
    case STATUS_CORRUPT: return "corrupt";
    case STATUS_VERSION: return "newer format";
    case STATUS_IN_USE: return "in use";
    case STATUS_INVALID: return "invalid";
    case STATUS_EXISTS: return "exists";
    case STATUS_NO_SPACE: return "no space";
    case STATUS_CLOSED: return "closed";
    case STATUS_AGAIN: return "again";
    }
    return "unknown";
}
