/* named.c: see named.h.
 *
 * Not here: who is told of what is wanted in them (routed.c).
 */
#include <stdlib.h>

#include "plane/named.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/status.h"
#include "plane/account.h"
#include "plane/gateway.h"
#include "plane/memory.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/routed.h"
#include "route/route.h"

#define FNV_BASIS 2166136261u
#define FNV_PRIME 16777619u
#define EXPECTED_COST 2048u     /* about: bytes of one, beside its name and its subscriptions */
#define EXPECTED_MAX 1024u      /* accounts at a time */
#define EXPECTED_NAME_MAX 1024u /* bytes */

struct named {
    map_t *names; /* of account_t; also those that were removed */
    uint32_t expected_count;
    account_t *expected[EXPECTED_MAX];
};

status_t named_open(plane_t *plane) {
    plane->named = calloc(1, sizeof(*plane->named));
    return plane->named == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

void named_close(plane_t *plane) {
    named_t *named = plane->named;
    if (named == NULL) {
        return;
    }
    while (named->expected_count != 0) {
        account_free(named->expected[--named->expected_count]);
    }
    map_free(&named->names);
    free(named);
    plane->named = NULL;
}

static uint64_t name_hash(bytes_t name) {
    return hash_bytes(name.at, name.size);
}

/* The reference's own choice of a connection. */
static uint32_t pool_hash(bytes_t name) {
    uint32_t hash = FNV_BASIS;
    for (uint32_t i = 0; i < name.size; i++) {
        hash = (hash ^ name.at[i]) * FNV_PRIME;
    }
    return hash;
}

status_t named_put(plane_t *plane, account_t *account, bytes_t name) {
    if (plane->named == NULL) {
        return STATUS_OK;
    }
    account->pool_hash = pool_hash(name);
    return map_put(&plane->named->names, &account->named, name_hash(name));
}

account_t *named_account(const plane_t *plane, bytes_t name) {
    if (plane->named == NULL) {
        return NULL;
    }
    uint64_t hash = name_hash(name);
    for (map_link_t *link = map_first(plane->named->names, hash); link != NULL; link = link->next) {
        account_t *account = MAP_ENTRY(link, account_t, named);
        if (link->hash == hash && (account->flags & ACCOUNT_REMOVED) == 0 && bytes_equal(account->name, name)) {
            return account;
        }
    }
    return NULL;
}

account_t *named_account_again(const plane_t *plane, account_t **last, bytes_t name) {
    if (*last == NULL || ((*last)->flags & ACCOUNT_REMOVED) != 0 || !bytes_equal((*last)->name, name)) {
        *last = named_account(plane, name);
    }
    return *last;
}

/* ---- accounts that are expected ---------------------------------------------------------------------------------- */

account_t *named_expected(const plane_t *plane, bytes_t name) {
    account_t *account = named_account(plane, name);
    return account != NULL && (account->flags & ACCOUNT_EXPECTED) != 0 ? account : NULL;
}

static uint32_t expected_cost(bytes_t name) {
    return EXPECTED_COST + name.size;
}

void named_appeared(plane_t *plane, const account_t *account) {
    named_t *named = plane->named;
    for (uint32_t i = 0; i < named->expected_count; i++) {
        if (named->expected[i] == account) {
            named->expected[i] = named->expected[--named->expected_count];
            plane->memory.interest.used -= expected_cost(account->name);
            return;
        }
    }
}

/* No line remembers it. */
static void forget_last(const plane_t *plane, const account_t *account) {
    for (peer_t *peer = plane->routes; peer != NULL; peer = peer->route->next_route) {
        peer->route->last = peer->route->last == account ? NULL : peer->route->last;
    }
    peer_t *lists[] = {plane->gateways == NULL ? NULL : plane->gateways->outbound,
                       plane->gateways == NULL ? NULL : plane->gateways->inbound};
    for (uint32_t i = 0; i < 2; i++) {
        for (peer_t *peer = lists[i]; peer != NULL; peer = peer->gateway->next_gateway) {
            peer->gateway->last = peer->gateway->last == account ? NULL : peer->gateway->last;
        }
    }
}

/* Room for one more: in place of one that nobody asks for anything in any more. */
static bool expected_room(plane_t *plane, named_t *named, bytes_t name) {
    for (uint32_t i = 0; i < named->expected_count && named->expected_count == EXPECTED_MAX; i++) {
        account_t *account = named->expected[i];
        if (route_count(account->route) == 0) {
            forget_last(plane, account);
            map_take(named->names, &account->named);
            named_appeared(plane, account);
            account_free(account);
        }
    }
    return named->expected_count < EXPECTED_MAX && memory_for_interest(plane, UINT64_MAX, expected_cost(name));
}

account_t *named_account_wanted(plane_t *plane, account_t **last, bytes_t name) {
    named_t *named = plane->named;
    account_t *account = named_account_again(plane, last, name);
    if (account == NULL && name.size <= EXPECTED_NAME_MAX && expected_room(plane, named, name)) {
        account = account_expect(plane, name);
        if (account != NULL) {
            named->expected[named->expected_count++] = account;
            plane->memory.interest.used += expected_cost(name);
        }
        *last = account;
    }
    return account;
}
