/* throttle.c: see throttle.h. */
#include "plane/throttle.h"

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/random.h"
#include "net/conn.h"
#include "plane/account.h"
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
    if (!peer->throttled) {
        peer->throttled = true;
        peer_want(plane, peer);
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

/* Where mappings choose by chance they may choose differently when it is published: such a message waits. */
static bool operation_feeds(plane_t *plane, const account_t *account, const op_t *op) {
    switch (op->kind) {
    case OP_PUB:
    case OP_HPUB:
    case OP_LEAF_MSG:
    case OP_LEAF_HMSG:
    case OP_ROUTE_MSG: break;
    default: return false;
    }
    if (!may_be_mapped(account, op->subject)) {
        return subject_feeds(account, op->subject);
    }
    text_t out;
    return account->mappings != NULL || subject_feeds(account, mapped_subject(plane, account, op->subject, &out));
}

bool throttle_holds(plane_t *plane, peer_t *peer, const op_t *op) {
    const account_t *account = plane->throttling ? operation_account(plane, peer, op) : NULL;
    if (account == NULL || !operation_feeds(plane, account, op)) {
        return false;
    }
    throttle_one(plane, peer);
    return true;
}

static void release_some(plane_t *plane, uint32_t from, uint32_t below) {
    uint32_t number = 0;
    for (peer_t *peer = plane->all_peers; peer != NULL; peer = peer->next) {
        if (peer->throttled && number < below && number >= from) {
            peer_again(plane, peer);
        }
        number += peer->throttled;
    }
}

/* The first ones may fill the ring anew, and the others wait again: chance says who is first. */
static void release_all(plane_t *plane) {
    uint32_t waiting = 0;
    for (const peer_t *peer = plane->all_peers; peer != NULL; peer = peer->next) {
        waiting += peer->throttled;
    }
    if (waiting == 0) {
        return;
    }
    uint32_t first = random_below(&plane->random, waiting);
    release_some(plane, first, waiting);
    release_some(plane, 0, first);
    for (peer_t *peer = plane->all_peers; peer != NULL; peer = peer->next) {
        if (peer->throttled) {
            peer->throttled = false;
            peer_want(plane, peer);
        }
    }
}

void throttle_tick(plane_t *plane) {
    bool lagging = js_lagging(&plane->js, STORE_FILE) || js_lagging(&plane->js, STORE_MEMORY);
    if (!lagging && !plane->throttling) {
        return;
    }
    plane->throttling = lagging;
    if (!lagging) {
        release_all(plane);
        return;
    }
    for (peer_t *peer = plane->all_peers; peer != NULL; peer = peer->next) {
        if (peer->producer) {
            throttle_one(plane, peer);
        }
    }
}
