/* vouch.h: the author of a schedule that is stored at another server of ours. Rights are known where the sender is
 * connected, and what a stream takes is known where it is led: so the one tells the other, in front of the message's
 * other headers, by a line that goes from server to server alone.
 *
 *     a client publishes > link_send: vouch_for adds the line > link_take_in: vouch_take takes it off > judge_schedule
 *
 * It is believed of servers that say by their letters that they are leafd (meta/ways.h), told to these, and taken off
 * what anybody else sends. Not here: what the rights are (judge.h).
 */
#ifndef LEAFD_PLANE_VOUCH_H
#define LEAFD_PLANE_VOUCH_H

#include <stdbool.h>

#include "base/bytes.h"
#include "wire/op.h"

typedef struct peer peer_t;
typedef struct plane plane_t;
typedef struct publication publication_t;

#define VOUCH_PREFACE "NATS/1.0\r\n"
#define VOUCH_NAME "Leafd-Schedule-Author: "
#define VOUCH_LINE BYTES_LITERAL(VOUCH_PREFACE VOUCH_NAME)

/* Is what goes to that link to say who sent it, or says so already? */
bool vouch_concerns(const peer_t *link, const publication_t *publication);
/* The publication's header with that line, or without one, until the next call. false: there is no memory. */
bool vouch_for(plane_t *plane, publication_t *publication);
/* Takes the line off what came by the link; the header lives until the next call. false: there is no memory. */
bool vouch_take(plane_t *plane, const peer_t *link, publication_t *publication, op_t *op);

#endif
