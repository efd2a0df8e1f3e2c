/* judge.h: the names that a message carries beside its subject on the wire, and what its sender may do by them.
 *
 *     name behind an acknowledgement's subject     judge_shown       subscribers see it
 *                                                  judge_copied      a mirror or source stores it
 *     destination of a trace                       judge_publish     the trace is published there
 *     target, source, end of a schedule            judge_schedule    a stream acts on them later
 *
 * packaging/doc/promises.md has the table of all such names. Not here: the subject on the wire
 * (verbs/), and the gate that keeps what is not a subject out of the store (store/append.c).
 */
#ifndef LEAFD_PLANE_JUDGE_H
#define LEAFD_PLANE_JUDGE_H

#include <stdbool.h>

#include "base/abi_types.h"
#include "base/bytes.h"

typedef struct peer peer_t;
typedef struct message message_t;         /* wire/ */
typedef struct permissions permissions_t; /* route/ */
typedef struct publication publication_t;
typedef struct stream stream_t; /* jetstream/ */

/* A name that was judged: it is a subject, and its sender may publish there. Empty: there is none, or the sender may
 * not. Only judge.c makes one that is not empty. */
typedef struct judged {
    bytes_t name;
} judged_t;

judged_t judge_publish(plane_t *plane, const peer_t *peer, bytes_t subject);
/* The judged name of a delivery that comes over a link, or of another publication. */
judged_t judge_shown(plane_t *plane, const publication_t *publication);
/* May a copy store under that name what the peer delivers (NULL: this server)? The names of `origin`, the connection
 * that answered for the copy's origin, are what its owner asked for; other peers have their own rights. */
bool judge_copied(plane_t *plane, const peer_t *peer, uint64_t origin, bytes_t named);
/* The judged name of a delivery of one of our consumers: the stored subject, which was judged when it was stored. */
judged_t judged_stored(bytes_t stored);
/* May the sender act, later and in this stream, on the subjects that the message's Nats-Schedule- headers name? false:
 * it has been told. A schedule's author is written into message's header, which lives until the next call. */
bool judge_schedule(plane_t *plane, stream_t *stream, const publication_t *publication, message_t *message);
/* Whose name goes with it to a stream at another server (vouch.h), as a sender of schedules: the one that has been
 * judged, or nobody's. false: no one's rights are known. */
bool judge_author(plane_t *plane, const publication_t *publication, bytes_t *author);
/* Asks lists of permissions about a subject that a peer names: may it publish there and have it stored, may it read
 * what is there? */
bool judge_permitted(plane_t *plane, permissions_t *permissions, bool link, bytes_t subject);
bool judge_readable(const permissions_t *permissions, bool link, bytes_t subject);

#endif
