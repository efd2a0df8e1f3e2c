/* fill.h: holes that damage left in a stream, and messages that are put back into them. Nobody outside native/store,
 * native/recovery and native/jetstream includes this.
 *
 *     first_seq ...... | from ...... upto | ......... last_seq
 *                      `---- a hole ------'
 *
 *     RECORD_HOLE, key = stream id, upto 8 (after crc 4): from 8, certain 1. What lies before `from` has been tried.
 *     certain: the stream's count of messages says that all of the hole's sequences had one. Otherwise some had been
 *     removed before the damage, and nobody knows which.
 */
#ifndef LEAFD_STORE_FILL_H
#define LEAFD_STORE_FILL_H

#include "store/append.h"

#define HOLE_KEY_SIZE 12 /* of the record, behind its kind */
#define HOLE_SIZE 9      /* of its value, without crc */

typedef struct hole {
    uint64_t from;
    uint64_t upto;
    bool certain;
} hole_t;

void hole_key(uint8_t key[HOLE_KEY_SIZE], uint32_t stream, uint64_t upto);
void hole_write(uint8_t value[HOLE_SIZE], const hole_t *hole);
/* key, value: as store_record_each gives them. false: malformed. */
bool hole_read(bytes_t key, bytes_t value, hole_t *hole);

/* The message with its sequence (force_seq), stamp (force_ts) and time of its end (expires_ts) goes into the hole that
 * ends at `upto`, which from then on begins behind it, in one batch; without a subject nothing is put there. *stored:
 * false where the stream has the sequence already, had it removed, or its limits do not want the message; with true
 * they may have taken it at once.
 *
 * STATUS_NOT_FOUND: there is no such hole any more. STATUS_AGAIN: its place on its subject is being looked for: to be
 * called again with the same message. STATUS_FULL: no room now. Any other: it is not known what has to be; later. */
LEAF_MUST_USE status_t store_fill(store_stream_t *stream, uint64_t upto, const append_t *append, moment_t now,
                                  bool *stored);
/* Forgets the holes of a stream: messages that are removed by request do not come back. STATUS_FULL: no room now. */
LEAF_MUST_USE status_t store_holes_forget(store_stream_t *stream);

#endif
