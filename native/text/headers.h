/* headers.h: the "NATS/1.0" header block: find, iterate, append, strip. Blocks are not validated by the broker; a block
 * that does not look like one has no fields. Names compare case-sensitively, as the reference does for its own headers.
 */
#ifndef LEAFD_TEXT_HEADERS_H
#define LEAFD_TEXT_HEADERS_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"

/* Value of the first field `name`, blanks around it removed. false: there is none. */
bool headers_find(bytes_t block, bytes_t name, bytes_t *value);
/* Iterates: *cursor starts at 0; false at the end. */
bool headers_next(bytes_t block, uint32_t *cursor, bytes_t *name, bytes_t *value);
/* Does any field name start with `prefix`? One pass, for "Nats-" on the publish path. */
bool headers_has_prefix(bytes_t block, bytes_t prefix);
/* Copies block to out without the fields whose name `drop` accepts; an inline status in the first line is removed when
 * strip_status. Appends nothing when no field is left and *empty is set. */
LEAF_MUST_USE status_t headers_copy_without(buffer_t *out, bytes_t block, bool (*drop)(bytes_t name), bool strip_status,
                                            bool *empty);
/* Adds "name: value\r\n" before the closing blank line of the block that ends at out's end (starts one when block_start
 * == size). */
LEAF_MUST_USE status_t headers_append(buffer_t *out, uint64_t block_start, bytes_t name, bytes_t value);
/* The same with a value that is these parts, one behind the other. STATUS_INVALID: a line end is in it; out is as it
 * was. */
LEAF_MUST_USE status_t headers_append_joined(buffer_t *out, uint64_t block_start, bytes_t name, const bytes_t *parts,
                                             uint32_t count);

#endif
