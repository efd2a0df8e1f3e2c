/* again.h: the line of connections whose input waits for its turn: what they had sent before their verdict or before
 * they were held back, and the rest of what was too much for one turn.
 *
 *     peer_again    it is acted on in this turn, in the order in which they came
 *     again_yield   it was much work: not before the next turn, so that in each turn others are read first
 *     again_run     the line; AGAIN_TIME_NS of it, then what was made is written, and others are read
 */
#ifndef LEAFD_PLANE_AGAIN_H
#define LEAFD_PLANE_AGAIN_H

#include "base/clock.h"

typedef struct plane plane_t;
typedef struct peer peer_t;

#define AGAIN_TIME_NS (4 * NS_PER_MS)

void peer_again(plane_t *plane, peer_t *peer);
void again_yield(plane_t *plane, peer_t *peer); /* says so; a peer held back for another reason comes by peer_again */
void again_run(plane_t *plane);
void again_forget(plane_t *plane, peer_t *peer); /* it goes */

#endif
