/* status.h: the one status type of the C rooms.
 *
 * Every function that can fail returns a status and is marked LEAF_MUST_USE: callers act on it or hand it up.
 * Values are small negative numbers so that they can cross into Python unchanged (see abi.h, completions).
 * What does not live here: JetStream error codes; those are rows in agent/leafd/jetstream/errors.py, and the few that
 * the hot path answers itself are in plane/js_publish.c and plane/js_fast.c.
 */
#ifndef LEAFD_BASE_STATUS_H
#define LEAFD_BASE_STATUS_H

#define LEAF_MUST_USE __attribute__((warn_unused_result))

typedef enum status {
    STATUS_OK = 0,
    STATUS_NOT_FOUND = -1, /* the thing asked for does not exist; not an error of the machine */
    STATUS_FULL = -2,      /* a bound was reached: queue, ring, journal, map; try again when it drains */
    STATUS_NO_MEMORY = -3, /* malloc said no */
    STATUS_IO = -4,        /* a system call on a file failed; errno kept by the reporter */
    STATUS_CORRUPT = -5,   /* a checksum or a structural rule failed */
    STATUS_VERSION = -6,   /* store written by a newer format */
    STATUS_IN_USE = -7,    /* store locked by another process, address in use */
    STATUS_INVALID = -8,   /* an argument breaks the contract of the call */
    STATUS_EXISTS = -9,    /* already there */
    STATUS_NO_SPACE = -10, /* disk or map full */
    STATUS_CLOSED = -11,   /* the connection or the plane is going away */
    STATUS_AGAIN = -12,    /* nothing to do now */
} status_t;

/* A short English name, for logs and failing tests. Never NULL. */
const char *status_name(status_t status);

#endif
