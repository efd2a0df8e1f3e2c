/* pressure.c: nobody gives control more to do than it takes, and nobody waits for another who tries.
 *
 *   message to control --> counted for its peer and its account --released by control--> counted off
 *
 * A peer with many messages that wait, or whose account has, or anybody who sends one while the ring of messages is half full, is not
 * read until half of them are gone: its next requests stay in its socket, others' find room. While many events wait, no connection
 * is accepted (tick.c runs no command then, either).
 *
 * What does not live here: the rings (exchange.c), the pace of producers and receivers (peer.c: peer_stall).
 */
#include "plane/core.h"

#define PEER_MESSAGES_MAX 64u
#define LEAF_MESSAGES_MAX 256u           /* a link speaks for many                                     */
#define PEER_BYTES_MAX (2u * 1024u * 1024u)
#define ACCOUNT_MESSAGES_MAX 2048u
#define MESSAGES_MANY (EXCHANGE_MESSAGES / 2)
#define BYTES_MANY (EXCHANGE_MESSAGE_BYTES / 2)

/* share: 1 = the bounds, 2 = half of them. */
static bool presses(const plane_t *plane, const peer_t *peer, uint32_t share) {
    uint32_t most = peer->kind == CONN_LEAF ? LEAF_MESSAGES_MAX : PEER_MESSAGES_MAX;
    const exchange_t *exchange = &plane->exchange;
    return peer->unheard >= most / share || peer->unheard_bytes >= PEER_BYTES_MAX / share
        || (peer->account != NULL && peer->account->unheard >= ACCOUNT_MESSAGES_MAX / share)
        || exchange->posted - exchange->settled >= MESSAGES_MANY / share
        || atomic_load_explicit(&exchange->message_bytes, memory_order_relaxed) >= BYTES_MANY / share;
}

bool pressure_offer(plane_t *plane, peer_t *peer, event_entry_t *entry) {
    if (peer == NULL) {
        return event_offer(&plane->exchange, entry, 0, 0);
    }
    uint64_t size = entry == NULL ? 0 : entry->size;
    if (!event_offer(&plane->exchange, entry, peer->id, peer->account == NULL ? 0 : peer->account->id)) {
        return false;
    }
    peer->unheard++;
    peer->unheard_bytes += size;
    if (peer->account != NULL) {
        peer->account->unheard++;
    }
    if (!peer->held_back && peer->state == PEER_ADMITTED && presses(plane, peer, 1)) {
        peer->held_back = true;
        peer->next_held = plane->held_back;
        plane->held_back = peer;
        plane->stats.held_back++;
        peer_want(plane, peer);
    }
    return true;
}

static void settle(plane_t *plane, const exchange_debt_t *debt) {
    peer_t *peer = debt->peer == 0 ? NULL : table_find(&plane->peers, debt->peer);
    if (peer != NULL) {
        peer->unheard--;
        peer->unheard_bytes -= debt->size;
    }
    account_t *account = debt->account == 0 ? NULL : account_find(plane, debt->account);
    if (account != NULL && account->unheard != 0) {
        account->unheard--;
    }
}

static void watch_listeners(plane_t *plane) {
    bool shut = event_crowded(&plane->exchange);
    if (shut == plane->shut) {
        return;
    }
    plane->shut = shut;
    for (plane_listener_t *listener = plane->listeners; listener != NULL; listener = listener->next) {
        status_t status = loop_change(&plane->loop, listener->listener.fd, shut ? 0 : LOOP_READ, (void *)((uintptr_t)listener | 1u));
        (void)status; /* an unchanged one is asked again: accept_some looks at shut itself */
    }
}

void pressure_relieve(plane_t *plane) {
    exchange_debt_t debt;
    while (event_settled(&plane->exchange, &debt)) {
        settle(plane, &debt);
    }
    for (peer_t **at = &plane->held_back; *at != NULL;) {
        peer_t *peer = *at;
        if (presses(plane, peer, 2)) {
            at = &peer->next_held;
            continue;
        }
        *at = peer->next_held;
        peer->held_back = false;
        peer_again(plane, peer);
    }
    watch_listeners(plane);
}

void pressure_forget(plane_t *plane, const peer_t *peer) {
    for (peer_t **at = &plane->held_back; peer->held_back && *at != NULL; at = &(*at)->next_held) {
        if (*at == peer) {
            *at = peer->next_held;
            return;
        }
    }
}
