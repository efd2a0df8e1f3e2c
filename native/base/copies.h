/* copies.h: byte slices that own what they point to: made here, released here. A slice that was not made here is never
 * released. Not here: bytes that grow (base/buffer.h).
 */
#ifndef LEAFD_BASE_COPIES_H
#define LEAFD_BASE_COPIES_H

#include "base/bytes.h"
#include "base/status.h"

bytes_t bytes_copy(bytes_t bytes); /* malloc; BYTES_NONE when empty or without memory */
/* All of them, or none and false. */
LEAF_MUST_USE bool bytes_copy_all(bytes_t *to, const bytes_t *from, uint32_t count);
void bytes_release(bytes_t *bytes);

#endif
