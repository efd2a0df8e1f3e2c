/* throttle.c: see throttle.h. */
#include "plane/throttle.h"

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/random.h"
#include "net/conn.h"
#include "plane/account.h"
#include "plane/backlog.h"
#include "plane/mapping.h"
#include "plane/protocol.h"
#include "plane/subscription.h"
#include "plane/target.h"
#include "route/route.h"
#include "jetstream/js.h"
#include "text/text.h"

void throttle_one(plane_t *plane, peer_t *peer) {
    peer->producer = true;
    plane->throttling = true;
    if (!peer_waits(peer, WAITS_STORE)) {
        peer->next_throttled = plane->throttled;
        peer->at_throttled = &plane->throttled;
        if (peer->next_throttled != NULL) {
            peer->next_throttled->at_throttled = &peer->next_throttled;
        }
        plane->throttled = peer;
        plane->throttled_count++;
        peer_hold(plane, peer, WAITS_STORE);
    }
}

void throttle_forget(plane_t *plane, peer_t *peer) {
    if (peer_waits(peer, WAITS_STORE)) {
        *peer->at_throttled = peer->next_throttled;
        if (peer->next_throttled != NULL) {
            peer->next_throttled->at_throttled = peer->at_throttled;
        }
        plane->throttled_count--;
        peer->waits &= (uint8_t)~WAITS_STORE;
    }
}

bool throttle_waits(plane_t *plane, peer_t *peer) {
    if (peer->state == PEER_ADMITTED && (peer->producer || peer->parser.need > CONN_SCRATCH_SIZE)) {
        throttle_one(plane, peer);
        return true;
    }
    return false;
}

static bool subject_feeds(const account_t *account, bytes_t subject) {
    const route_match_t *match = route_match(account->route, subject);
    if (route_match_failed(match)) {
        return false; /* publishing it says so */
    }
    for (uint32_t i = 0; i < match->plain_count; i++) {
        if (traits_of(match->plain[i])->feeds) {
            return true;
        }
    }
    for (uint32_t i = 0; i < match->group_count; i++) {
        for (uint32_t j = 0; j < match->groups[i].count; j++) {
            if (traits_of(match->groups[i].members[j])->feeds) {
                return true;
            }
        }
    }
    return false;
}

static bool publishes(const op_t *op) {
    switch (op->kind) {
    case OP_PUB:
    case OP_HPUB:
    case OP_LEAF_MSG:
    case OP_LEAF_HMSG:
    case OP_ROUTE_MSG: return true;
    default: return false;
    }
}

/* Where mappings choose by chance they may choose differently when the message is published: such a message waits. */
static bool operation_feeds(plane_t *plane, const account_t *account, const op_t *op) {
    if (!may_be_mapped(account, op->subject)) {
        return subject_feeds(account, op->subject);
    }
    text_t out;
    return account->mappings != NULL || subject_feeds(account, mapped_subject(plane, account, op->subject, &out));
}

bool throttle_holds(plane_t *plane, peer_t *peer, const op_t *op) {
    if (!plane->throttling || !publishes(op)) {
        return false; /* a PING of a route has no account: nobody has written one there */
    }
    const account_t *account = operation_account(plane, peer, op);
    if (account == NULL || !operation_feeds(plane, account, op)) {
        return false;
    }
    throttle_one(plane, peer);
    return true;
}

static void release(plane_t *plane, peer_t *from, const peer_t *below) {
    for (peer_t *peer = from; peer != below; peer = peer->next_throttled) {
        backlog_add(plane, peer);
    }
}

/* The first ones may fill the ring anew, and the others wait again: chance says who is first. */
static void release_all(plane_t *plane) {
    if (plane->throttled == NULL) {
        return;
    }
    peer_t *first = plane->throttled;
    for (uint32_t left = random_below(&plane->random, plane->throttled_count); left != 0; left--) {
        first = first->next_throttled;
    }
    release(plane, first, NULL);
    release(plane, plane->throttled, first);
    while (plane->throttled != NULL) {
        peer_t *peer = plane->throttled;
        throttle_forget(plane, peer);
        peer_want(plane, peer);
    }
}

/* Has peers that published into a stream wait from their next input on. */
void throttle_tick(plane_t *plane) {
    if (plane->throttling && !js_lagging(&plane->js, STORE_FILE) && !js_lagging(&plane->js, STORE_MEMORY)) {
        plane->throttling = false;
        release_all(plane);
    }
}
