/* backlog.h: the line of connections whose input waits for its turn: what they had sent before their verdict or
 * before they were held back, and the rest of what was too much for one turn.
 *
 *     backlog_add     it is acted on in this turn, in the order in which they came
 *     backlog_yield   it was much work: not before the next turn, so that in each turn others are read first
 *     backlog_run     the line; BACKLOG_TIME_NS of it, then what was made is written, and others are read
 */
#ifndef LEAFD_PLANE_BACKLOG_H
#define LEAFD_PLANE_BACKLOG_H

#include "base/clock.h"

typedef struct plane plane_t;
typedef struct peer peer_t;

#define BACKLOG_TIME_NS (4 * NS_PER_MS)

void backlog_add(plane_t *plane, peer_t *peer);
void backlog_yield(plane_t *plane, peer_t *peer); /* one held back for another reason comes by backlog_add */
void backlog_run(plane_t *plane);
void backlog_forget(plane_t *plane, peer_t *peer); /* it goes */

#endif
