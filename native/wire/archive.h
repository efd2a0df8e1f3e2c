/* archive.h: the entries of a stream's backup (the reference's version 2), out of bytes and into them. Pure.
 *
 *     "NATSARC1", then entries: name size (LEB128), time (zigzag LEB128, ns), sequence, header size, payload size
 *     (LEB128),
 *                               name, header block, payload
 *     state.json > consumers/<name>.. > messages (name = subject) by sequence > an entry without name and with all
 *     numbers 0
 *
 * Not here: compression (text/s2.h), the entries of state and consumers, which Python reads
 * (agent/leafd/jetstream/backup/archive.py). Reference: tests/wire/jetstream.md, "Backup".
 */
#ifndef LEAFD_WIRE_ARCHIVE_H
#define LEAFD_WIRE_ARCHIVE_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"

#define ARCHIVE_NAME_MAX (1u << 20)

typedef struct archive_entry {
    uint64_t seq;
    int64_t ts;
    uint64_t header_size;
    uint64_t payload_size;
    bytes_t name; /* point into the bytes that were read */
    bytes_t header;
    bytes_t payload;
} archive_entry_t;

/* The first entry of `from`. STATUS_OK: *used is its size. STATUS_AGAIN: it needs more bytes: *used, as far as that can
 * be said by now (0 = not even its numbers are there); sizes and seq count when *used does. STATUS_CORRUPT: not an
 * entry. */
LEAF_MUST_USE status_t archive_read(bytes_t from, archive_entry_t *entry, uint64_t *used);
LEAF_MUST_USE status_t archive_write(buffer_t *out, uint64_t seq, int64_t ts, bytes_t name, bytes_t header,
                                     bytes_t payload);

#endif
