/* throttle.h: back-pressure of the stores. While a store lags (its ring, or the answers that wait for its disk, have no
 * room for another message), connections that publish into streams are not read, and what they sent ahead stays where
 * it is. Nothing is refused for lack of memory, everybody else goes on.
 *
 *   publish into a stream --> throttle_fed: does the store lag now? --> this publisher waits
 *   input while somebody waits --> throttle_waits, throttle_holds: would it feed a stream? --> it waits before it is
 *                                                                                              acted on
 *   end of the tick --> throttle_tick: no store lags any more --> all go on, beginning with another one each time
 *
 * store_room says that one message of the largest size fits. Looking after each message, and before the messages of
 * others while one waits, keeps that true for every message that a connection sends.
 */
#ifndef LEAFD_PLANE_THROTTLE_H
#define LEAFD_PLANE_THROTTLE_H

#include <stdbool.h>

#include "base/check.h"
#include "jetstream/js.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "wire/op.h"

void throttle_one(plane_t *plane, peer_t *peer); /* it is not read until no store lags */
/* Notes that the peer published into a stream of that store: does the store lag now? */
static inline void throttle_fed(plane_t *plane, peer_t *peer, uint32_t which_store) {
    peer->producer = true;
    if (LEAF_UNLIKELY(js_lagging(&plane->js, which_store))) {
        throttle_one(plane, peer);
    }
}
bool throttle_waits(plane_t *plane, peer_t *peer);                 /* all input of this one waits */
bool throttle_holds(plane_t *plane, peer_t *peer, const op_t *op); /* this operation, and what is behind it, waits */
void throttle_tick(plane_t *plane);
void throttle_forget(plane_t *plane, peer_t *peer); /* it leaves */

#endif
