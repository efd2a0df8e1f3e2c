/* lanes.h: what waits for a link that is narrow (window.h), by precedence, before its socket is given any of it.
 *
 *     PING, PONG, INFO, LS+, LS-, -ERR ------------------------------------------> conn.out --room--> transport
 *     urgent   acknowledgements, flow control, JetStream's API and answers   |  ^
 *     high     what the configuration says                                   |  | frame by frame, as many as
 *     normal   messages of clients; consumers that have little left          |  | there is room for
 *     low      what the configuration says; consumers that have much left;   v  |
 *              backups
 *
 *     lane:  |frame|frame|...  of one consumer, or all messages of clients of one rank, or all answers
 *
 * The order within a lane never changes, and what has an order among itself has one lane: the messages and statuses of
 * a consumer, the messages of clients of one rank (a batch that is published atomically goes over many subjects). Lanes
 * of a rank take turns by bytes (deficit round robin). A rank goes before those below it; but each of these has an
 * eighth of what went before it while it waited, so that nobody can starve anybody: not a client that floods, nor a
 * peer that asks for answers without end. Answers of which much waits are no longer urgent.
 *
 * What is chosen is packed afterwards (net/compress.h), and a large frame that was begun goes out to its end: the
 * protocol has no other way.
 *
 * Bounds. A consumer stops when its part of `most` waits here. Messages of clients and answers are at most once: where
 * LANE_MAX of them wait, or three quarters of the memory of output are used, further ones are dropped and counted, and
 * the link lives on. A lane of which little waits may have an eighth more, and the last one is others'. At most
 * LANES_MAX consumers have a lane of their own; those beyond share one.
 *
 * Where a budget is used up (budget.h), ranks are held: lanes of these keep what they have, and their consumers are
 * told that they are full. Acknowledgements are not held, nor what consumers have delivered.
 *
 * A link without lanes pays one look at a pointer for a message.
 */
#ifndef LEAFD_PLANE_LANES_H
#define LEAFD_PLANE_LANES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/share.h"
#include "base/status.h"
#include "consume/consume.h"
#include "net/outq.h"

#define LANES_MAX 64u
#define LANE_MAX (1024u * 1024u)
#define LANE_MUCH (16u * 1024u)     /* of a consumer, with this left: it catches up; of answers */
#define LANE_SHARE 6u               /* eighths of the memory of output up to which messages wait here, .. */
#define LANE_SHARE_LITTLE 7u        /* .. those of consumers and of a lane with little among them */
#define LANE_PART 8u                /* one of so many bytes belongs to those that wait behind a higher rank, .. */
#define LANE_OWED_MAX (64u * 1024u) /* .. not more than that at once, or one frame */

typedef enum lane_rank { LANE_NONE = -1, LANE_URGENT, LANE_HIGH, LANE_NORMAL, LANE_LOW, LANE_RANKS } lane_rank_t;

/* ---- what the configuration says --------------------------------------------------------------------------------- */

typedef struct precedence precedence_t;

/* rules, one behind the other: rank ("high", "normal", "low"), kind ("subject", "stream"), pattern or name. NULL: no
 * memory, or they have another form. */
precedence_t *precedence_new(const bytes_t *rules, uint32_t count);
void precedence_free(precedence_t *precedence);

/* ---- the lanes of a link ----------------------------------------------------------------------------------------- */

typedef struct lanes lanes_t;
typedef struct lane lane_t;

/* The facts about a message that is put into a lane. */
typedef struct lane_use {
    bytes_t subject;
    const flow_t *flow; /* NULL: it is no consumer's */
    bool answer;        /* this server's own, to a subject that somebody named */
    bool bulk;          /* and one of many: a stream's backup */
    uint64_t size;      /* header and payload */
} lane_use_t;

lanes_t *lanes_new(share_t *share); /* NULL: no memory */
void lanes_free(lanes_t *lanes);
/* All that waits goes into out, in the order in which it would have gone: the lanes are empty. STATUS_NO_MEMORY: some
 * of it has. */
LEAF_MUST_USE status_t lanes_join(lanes_t *lanes, outq_t *out);
/* The lane of that message: its frame is to be emitted into lane_out, then lane_end. NULL: there is no room for it, and
 * it is counted as dropped. */
lane_t *lanes_lane(lanes_t *lanes, const precedence_t *precedence, const lane_use_t *use);
outq_t *lane_out(lane_t *lane);
/* emitted: whether the frame is there, whole. If not, it is as if nobody had asked for the lane. */
void lane_end(lanes_t *lanes, lane_t *lane, status_t emitted);
/* Into out, until that has `room` bytes or nothing is left of the ranks up to `lowest`. */
void lanes_fill(lanes_t *lanes, outq_t *out, uint64_t room, lane_rank_t lowest);
/* Ranks below that wait from now on. */
void lanes_hold(lanes_t *lanes, lane_rank_t lowest);
/* Is a consumer to wait? most: bytes of all consumers together. It is remembered. */
bool lanes_full(lanes_t *lanes, const precedence_t *precedence, const flow_t *flow, uint64_t most);
/* Has one that was told so less than half of its part now? It is forgotten. */
bool lanes_drained(lanes_t *lanes, uint64_t most);

/* The bytes that wait; 0 without lanes (NULL). */
uint64_t lanes_pending(const lanes_t *lanes);
uint64_t lanes_ranked(const lanes_t *lanes, lane_rank_t lowest); /* of that rank and the higher ones */
uint64_t lanes_going(const lanes_t *lanes);                      /* that is not held */
uint64_t lanes_held(const lanes_t *lanes);                       /* of ranks that wait */
uint64_t lanes_dropped(const lanes_t *lanes);                    /* messages, ever */

#endif
