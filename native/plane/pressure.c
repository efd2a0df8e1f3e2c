/* pressure.c: nobody gives control more to do than his share. What is on its way to it, or waits there, is owed for.
 *
 *   message to control --> its sender owes for it --> control is done with it (plane_repay) --> paid
 *
 * Credit. A connection that owes all of its credit is not read until half of that is paid: its next requests stay in
 * its socket, nothing of them is lost, and what it is sent goes out as always. While its account, or all together, owe
 * much, the credit is one message, which a client that waits for its answers does not notice. The way by which a
 * message came (imports, mappings) does not matter: the connection owes. A connection that is held back owes something,
 * so there is always a payment yet to come that lets it go.
 *
 * Room. An account owes no more than what all others leave free, so that there is always some for an account that owes
 * nothing. The same holds for what no connection sent (advisories). Messages without room are refused: nobody took
 * them, their senders are told.
 *
 * Alone. A publisher of what a stream is still to be made for waits until control is done with that message: so its
 * next one does not overtake it. A link waits its flood_ns at most.
 *
 * A leaf link speaks for many, carries more than requests, and is cut by a server at its other end that cannot write
 * for long. So its credit is larger, and one that floods without a pause for its flood_ns is read again: its requests
 * beyond the credit are refused instead. That also ends a wait for an answer that would have to come over the link that
 * is held back.
 *
 * Guests. Requests of clients of servers without JetStream come by links, too, and never hold one back: guests.h.
 *
 * While many events wait, no connection is accepted (tick.c runs no command then, either).
 *
 * Not here: the rings (exchange.c), the pace of producers and receivers (peer.c: peer_stall).
 */
#include "plane/pressure.h"

#include "base/abi_types.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/table.h"
#include "exchange/exchange.h"
#include "net/loop.h"
#include "plane/account.h"
#include "plane/backlog.h"
#include "plane/guests.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/protocol.h"

#define ACCOUNT_MANY 1024u
#define ALL_MANY (EXCHANGE_MESSAGES / 2)
#define INSIDE_MAX 1024u

/* control has 16 requests of a connection in work; half of the credit must keep it busy */
const credit_t credit_client = {.messages = 64, .bytes = 2u * 1024u * 1024u, .crowded = 1, .flood_ns = INT64_MAX};
const credit_t credit_link = {
    .messages = 512, .bytes = 8u * 1024u * 1024u, .crowded = 16, .flood_ns = 5 * NS_PER_SECOND};

static bool owed_reaches(const owed_t *owed, uint64_t messages, uint64_t bytes) {
    return owed->messages >= messages || owed->bytes >= bytes;
}

/* share: 1 = does it owe all of its credit, 2 = half of it. */
static bool peer_owes(const plane_t *plane, const peer_t *peer, uint32_t share) {
    const credit_t *credit = peer->protocol->credit;
    if (owed_reaches(&plane->exchange.owed, ALL_MANY / share, plane->exchange.owed_max / 2 / share)
        || (peer->account != NULL
            && owed_reaches(&peer->account->owed, ACCOUNT_MANY / share, plane->exchange.owed_max / 4 / share))) {
        return peer->owed.messages >= credit->crowded;
    }
    return owed_reaches(&peer->owed, credit->messages / share, credit->bytes / share);
}

static bool peer_floods(const plane_t *plane, const peer_t *peer) {
    return peer->flooding_ns != 0 && plane->now.mono_ns - peer->flooding_ns > peer->protocol->credit->flood_ns;
}

/* ---- debts that are paid ----------------------------------------------------------------------------------------- */

static void peer_let_go(plane_t *plane, peer_t *peer) {
    peer_release(plane, peer, WAITS_CONTROL);
    plane->held_count--;
    backlog_add(plane, peer);
}

static void owed_pay(owed_t *owed, const exchange_debt_t *debt) {
    owed->messages--;
    owed->bytes -= debt->size;
}

static void debt_settle(plane_t *plane, const exchange_debt_t *debt) {
    if (debt->peer == GUESTS_OWE) {
        guest_pays(&plane->guests, debt->account, debt->size);
        return;
    }
    account_t *account = debt->account == 0 ? NULL : account_find(plane, debt->account);
    if (account != NULL) {
        owed_pay(&account->owed, debt);
    }
    if (debt->peer == 0) {
        owed_pay(&plane->inside, debt);
        return;
    }
    peer_t *peer = table_find(&plane->peers, debt->peer);
    if (peer == NULL) {
        return; /* gone; its account owed for it until now */
    }
    owed_pay(&peer->owed, debt);
    peer->alone -= debt->alone;
    if (peer->owed.messages < peer->protocol->credit->crowded / 2) {
        peer->flooding_ns = 0;
    }
    if (peer_waits(peer, WAITS_CONTROL) && peer->alone == 0 && !peer_owes(plane, peer, 2)) {
        peer_let_go(plane, peer);
    }
}

static void settle_all(plane_t *plane) {
    exchange_debt_t debt;
    while (event_settled(&plane->exchange, &debt)) {
        debt_settle(plane, &debt);
    }
}

/* ---- debts that are made ----------------------------------------------------------------------------------------- */

static bool leaves_room(const plane_t *plane, const owed_t *owed) {
    const owed_t *all = &plane->exchange.owed;
    return owed->messages < EXCHANGE_MESSAGES - all->messages && owed->bytes + all->bytes < plane->exchange.owed_max;
}

static bool control_room(const plane_t *plane, const peer_t *peer) {
    if (!event_room(&plane->exchange)) {
        return false;
    }
    if (peer == NULL) {
        return plane->inside.messages < INSIDE_MAX && leaves_room(plane, &plane->inside);
    }
    return (peer->account == NULL || leaves_room(plane, &peer->account->owed))
           && !(peer_floods(plane, peer) && peer_owes(plane, peer, 1));
}

bool pressure_room(plane_t *plane, const peer_t *peer) {
    if (control_room(plane, peer)) {
        return true;
    }
    settle_all(plane);
    if (control_room(plane, peer)) {
        return true;
    }
    plane->exchange.dropped++;
    return false;
}

static void peer_hold_back(plane_t *plane, peer_t *peer) {
    peer->flooding_ns = peer->flooding_ns == 0 ? plane->now.mono_ns : peer->flooding_ns;
    if (peer_floods(plane, peer)) {
        return;
    }
    plane->held_count++;
    plane->stats.held_back++;
    peer_hold(plane, peer, WAITS_CONTROL);
}

static void owed_add(owed_t *owed, uint64_t size) {
    owed->messages++;
    owed->bytes += size;
}

bool pressure_offer(plane_t *plane, peer_t *peer, event_entry_t *entry) {
    account_t *account = peer == NULL ? NULL : peer->account;
    uint64_t size = entry == NULL ? 0 : entry->size;
    bool alone = entry != NULL && entry->alone;
    if (!event_offer(&plane->exchange, entry, peer == NULL ? 0 : peer->id, account == NULL ? 0 : account->js.id)) {
        return false;
    }
    if (account != NULL) {
        owed_add(&account->owed, size);
    }
    owed_add(peer == NULL ? &plane->inside : &peer->owed, size);
    if (peer == NULL) {
        return true;
    }
    peer->alone += alone;
    if (peer_waits(peer, WAITS_CONTROL) || peer->state != PEER_ADMITTED || !(alone || peer_owes(plane, peer, 1))) {
        return true;
    }
    settle_all(plane); /* what is known at this tick's beginning may be old */
    if (peer->alone != 0 || peer_owes(plane, peer, 1)) {
        peer_hold_back(plane, peer);
    }
    return true;
}

bool pressure_room_guest(plane_t *plane, uint32_t guest) {
    for (uint32_t attempt = 0; attempt < 2; attempt++) {
        if (event_room(&plane->exchange) && guest_room(&plane->guests, guest, plane->exchange.owed_max)) {
            return true;
        }
        settle_all(plane);
    }
    plane->exchange.dropped++;
    return false;
}

bool pressure_offer_guest(plane_t *plane, uint32_t guest, event_entry_t *entry) {
    uint64_t size = entry == NULL ? 0 : entry->size;
    if (!event_offer(&plane->exchange, entry, GUESTS_OWE, guest)) {
        return false;
    }
    guest_owes(&plane->guests, guest, size);
    return true;
}

/* ---- once a tick ------------------------------------------------------------------------------------------------- */

static void watch_listeners(plane_t *plane) {
    bool shut = event_crowded(&plane->exchange);
    if (shut == plane->shut) {
        return;
    }
    plane->shut = shut;
    for (plane_listener_t *listener = plane->listeners; listener != NULL; listener = listener->next) {
        status_t status =
            loop_change(&plane->loop, listener->listener.fd, shut ? 0 : LOOP_READ, (void *)((uintptr_t)listener | 1u));
        (void)status; /* an unchanged one is asked again: accept_some looks at shut itself */
    }
}

void pressure_relieve(plane_t *plane) {
    settle_all(plane);
    watch_listeners(plane);
}

void pressure_chores(plane_t *plane, peer_t *peer) {
    if (peer_waits(peer, WAITS_CONTROL) && peer_floods(plane, peer)) {
        peer_let_go(plane, peer);
    }
}

void pressure_forget(plane_t *plane, peer_t *peer) {
    plane->held_count -= peer_waits(peer, WAITS_CONTROL);
    peer->waits &= (uint8_t)~WAITS_CONTROL;
}
