/* terse.h: the lines of messages, said by what is new in them: what two leafd send each other on a link that is far.
 *
 *     LMSG d.x $JS.ACK.T.c.1.17.17.1764424595123456789.983@t.1 200        the first one of its kind: SET
 *     LMSG d.x $JS.ACK.T.c.1.18.18.1764424595123469000.982@t.1 200        SAME: 3 to 6 bytes
 *     LMSG d.x $JS.ACK.T.c.1.19.19.1764424595123481200.981@u.2.v 200      TAIL: from the subject on it is another one
 *
 *     terse text = operations, each a byte (two bits of which, four of place) and what it has behind it:
 *       COPY              size (63 in that byte: it is a varint), so many bytes as they are
 *       SET   place       size, a line: it is remembered at that place
 *       SAME  place       news of all its numbers
 *       TAIL  place       count, news of so many of its first numbers, size, the text behind the last of these
 *     news = a mask of the numbers that are not what was expected, for each of them by how much (zigzag)
 *
 * A number is a run of digits between two of space, dot and @. It is expected to change as it did the time before. A
 * line ends with a number: so many bytes follow it, then CRLF; the two CRLF are not sent. Sizes, counts and masks are
 * varints. Each direction of a link has its own places, at most 7 KB when all are used, none without messages.
 *
 * The two ends agree only as long as each piece is read once, in order, and whole. The reader knows how long a piece
 * has to become; whether it became the right bytes is its user's business (net/compress.h has a checksum).
 *
 * Not here: what lines mean, who agrees to speak like this (agent/leafd/links/leaf.py).
 */
#ifndef LEAFD_TEXT_TERSE_H
#define LEAFD_TEXT_TERSE_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

#define TERSE_TEXT_MAX (64u * 1024u) /* bytes of one piece, in the long form */
/* A piece of that many bytes is at most so long in the terse form. */
#define TERSE_ROOM(size) ((size) + (size) / 4 + 16)

typedef struct terse terse_t; /* one direction of one link */

terse_t *terse_new(void); /* NULL: no memory */
void terse_free(terse_t *terse);

/* The next piece of what is sent, which is cut anywhere; to has TERSE_ROOM of it. Returns how much of that it took; 0:
 * what was given is no text of a link, and the link has to end. */
uint32_t terse_write(terse_t *terse, bytes_t text, uint8_t *to);
/* The same, of which nothing is sent in this form: where the lines begin is all that it keeps. */
void terse_pass(terse_t *terse, bytes_t text);
/* A piece that came becomes exactly `size` bytes. STATUS_CORRUPT: it does not; STATUS_NO_MEMORY. Both end the link. */
LEAF_MUST_USE status_t terse_read(terse_t *terse, bytes_t from, uint8_t *to, uint32_t size);

#endif
