/* delivery.c: what JetStream publishes: the deliveries of consumers, and what waits for the next tick before it reaches
 * JetStream again, so that no consumer and no reader of the store is entered twice.
 *
 * Not here: who gets a message (publish.c), which message a consumer delivers (consume/).
 */
#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/check.h"
#include "consume/consume.h"
#include "exchange/held.h"
#include "net/outq.h"
#include "plane/account.h"
#include "plane/lanes.h"
#include "plane/link_part.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/publication.h"
#include "plane/window.h"
#include "wire/emit.h"

void publish_later(plane_t *plane, const publication_t *publication) {
    const message_t *message = &publication->message;
    bytes_t slices[5] = {message->subject, message->reply, message->header, message->payload, publication->copied};
    uint32_t flags = (publication->flags & ~PUBLICATION_DEFER) | PUBLICATION_INSIDE | publication_own(message->subject);
    /* Without memory it is as if nobody had been there. */
    status_t status = held_deferred(&plane->deferred, publication->account->js.id, flags, slices);
    (void)status;
    plane->more = true;
}

/* Only what is there now: an answer that calls itself again waits for the next tick like everybody. */
void publish_deferred(plane_t *plane) {
    for (uint64_t count = plane->deferred.count; count != 0; count--) {
        const held_entry_t *entry = held_first(&plane->deferred, 0);
        const uint8_t *at = entry->bytes;
        publication_t publication = {.account = account_find(plane, entry->account), .flags = entry->flags};
        bytes_t *slices[5] = {&publication.message.subject, &publication.message.reply, &publication.message.header,
                              &publication.message.payload, &publication.copied};
        uint32_t sizes[5] = {entry->subject_size, entry->reply_size, entry->header_size, entry->payload_size,
                             entry->copied_size};
        for (uint32_t i = 0; i < 5; i++) {
            *slices[i] = bytes_of(at, sizes[i]);
            at += sizes[i];
        }
        (void)publish(plane, &publication);
        held_pop(&plane->deferred);
    }
    if (plane->deferred_full) {
        plane->deferred_full = false;
        plane->drained = true;
    }
}

/* ---- deliveries of consumers ------------------------------------------------------------------------------------- */

bool peer_is_full(const plane_t *plane, peer_t *peer) {
    if (LEAF_UNLIKELY(peer->lanes != NULL)) {
        bool full = lanes_full(peer->lanes, peer->precedence, plane->flow, window_most(&peer->link->window));
        peer->full = peer->full || full;
        return full;
    }
    if (outq_pending(&peer->conn.out) <= plane->behind_bytes) {
        return false;
    }
    peer->full = true;
    return true;
}

static delivered_t deliver_now(plane_t *plane, account_t *account, const delivery_t *delivery) {
    bytes_t stored = bytes_equal(delivery->to, delivery->subject) ? BYTES_NONE : delivery->subject;
    publication_t publication = {.account = account,
                                 .message = {.subject = delivery->to,
                                             .reply = delivery->reply,
                                             .header = delivery->header,
                                             .payload = delivery->payload},
                                 .shown = judged_stored(stored),
                                 .copied = stored,
                                 .flags = PUBLICATION_DEFER | PUBLICATION_UNJUDGED};
    return publish(plane, &publication) == 0 ? DELIVERED_NO_INTEREST : DELIVERED;
}

delivered_t publish_delivery(plane_t *plane, account_t *account, const delivery_t *delivery) {
    if (plane->deferred.bytes > BEHIND_BYTES) {
        plane->deferred_full = true;
        return DELIVERED_FULL;
    }
    plane->flow = &delivery->flow;
    delivered_t done = look_at_receivers(plane, account, delivery->to, delivery->group);
    if (done == DELIVERED) {
        done = deliver_now(plane, account, delivery);
    }
    plane->flow = NULL;
    return done;
}
