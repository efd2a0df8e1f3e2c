/* routed.c: what the other servers of the cluster, and other clusters, are told about who wants what here, and by which
 * connection.
 *
 *   entry (account, origin, subject, queue):  ours    weight of targets here; with an origin, of leafs of that cluster
 *                                             theirs  with an origin: weight that routes ask for on behalf of it
 *                                             all     without one, where there are gateways: what our cluster wants,
 *                                                     here, behind leafs and behind routes
 *
 * A plain subject is told when `ours` leaves or reaches zero, a queue group whenever it changes (RS+ and LS+ carry the
 * absolute weight). What routes ask for themselves is told to no route, but to leafs: interest.c counts it with that of
 * our own hubs. `theirs` is what a leaf of the cluster does not have to be told, as it comes from itself. Inbound
 * gateways are told when `all` leaves or reaches zero, of queue groups, too, and with the weight 1.
 *
 * All entries are in one list in the order in which they were made, and in one hash table. A new connection is told the
 * list in slices. What changes meanwhile it hears of if it is before the place that it has got to.
 *
 *   connection of an account: the one of its own  |  the one without a pool  |  FNV-1a(name) mod pool_size
 */
#include <stdlib.h>

#include "plane/routed.h"

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/map.h"
#include "net/outq.h"
#include "plane/account.h"
#include "plane/gateway.h"
#include "plane/interest.h"
#include "plane/named.h"
#include "plane/plane.h"
#include "plane/target.h"
#include "route/permissions.h"
#include "wire/emit.h"
#include "wire/op.h"

#define GOLDEN UINT64_C(0x9E3779B97F4A7C15)
#define LACK_PART 4u

struct wanted {
    map_link_t link;
    wanted_t *before, *behind;
    uint64_t number; /* in the list's order */
    const account_t *account;
    uint64_t ours;
    uint64_t theirs;
    uint64_t all;
    uint32_t origin_size;
    uint32_t subject_size;
    uint32_t queue_size;
    uint8_t bytes[];
};

struct routed {
    map_t *all;
    uint64_t numbers; /* given out */
    wanted_t *first, *last;
};

/* ---- in a cluster or not ----------------------------------------------------------------------------------------- */

status_t routed_open(plane_t *plane) {
    routed_t *routed = calloc(1, sizeof(*routed));
    plane->routed = routed;
    return routed == NULL ? STATUS_NO_MEMORY : named_open(plane);
}

void routed_close(plane_t *plane) {
    routed_t *routed = plane->routed;
    if (routed == NULL) {
        return;
    }
    for (wanted_t *entry = routed->first, *behind; entry != NULL; entry = behind) {
        behind = entry->behind;
        free(entry);
    }
    named_close(plane);
    map_free(&routed->all);
    free(routed);
    plane->routed = NULL;
}

/* ---- the entries ------------------------------------------------------------------------------------------------- */

typedef struct wanted_key {
    const account_t *account;
    bytes_t origin;
    bytes_t subject;
    bytes_t queue;
} wanted_key_t;

static bytes_t wanted_origin(const wanted_t *entry) {
    return bytes_of(entry->bytes, entry->origin_size);
}

static bytes_t wanted_subject(const wanted_t *entry) {
    return bytes_of(entry->bytes + entry->origin_size, entry->subject_size);
}

static bytes_t wanted_queue(const wanted_t *entry) {
    return bytes_of(entry->bytes + entry->origin_size + entry->subject_size, entry->queue_size);
}

static uint64_t key_hash(const wanted_key_t *key) {
    uint64_t hash = subscription_hash(key->subject, key->queue) ^ key->account->mark * GOLDEN;
    hash = key->origin.size == 0 ? hash : hash * 31 + hash_bytes(key->origin.at, key->origin.size);
    return hash ^ hash >> 32;
}

static wanted_t *wanted_entry(map_link_t *link) {
    return MAP_ENTRY(link, wanted_t, link);
}

static wanted_t *wanted_find(const routed_t *routed, const wanted_key_t *key) {
    uint64_t hash = key_hash(key);
    for (map_link_t *link = map_first(routed->all, hash); link != NULL; link = link->next) {
        wanted_t *entry = wanted_entry(link);
        if (link->hash == hash && entry->account == key->account && bytes_equal(wanted_subject(entry), key->subject)
            && bytes_equal(wanted_queue(entry), key->queue) && bytes_equal(wanted_origin(entry), key->origin)) {
            return entry;
        }
    }
    return NULL;
}

static void wanted_append(routed_t *routed, wanted_t *entry) {
    entry->number = ++routed->numbers;
    entry->behind = NULL;
    entry->before = routed->last;
    *(routed->last == NULL ? &routed->first : &routed->last->behind) = entry;
    routed->last = entry;
}

static wanted_t *wanted_make(routed_t *routed, const wanted_key_t *key) {
    wanted_t *entry = calloc(1, sizeof(*entry) + key->origin.size + key->subject.size + key->queue.size);
    if (entry == NULL || map_put(&routed->all, &entry->link, key_hash(key)) != STATUS_OK) {
        free(entry);
        return NULL;
    }
    entry->account = key->account;
    entry->origin_size = key->origin.size;
    entry->subject_size = key->subject.size;
    entry->queue_size = key->queue.size;
    (void)bytes_write(bytes_write(bytes_write(entry->bytes, key->origin), key->subject), key->queue);
    wanted_append(routed, entry);
    return entry;
}

/* Moves on to the entry behind those that are told next. */
static void move_on(wanted_t **next, bool *told_all) {
    *next = (*next)->behind;
    *told_all = *next == NULL;
}

static void wanted_unlink(plane_t *plane, wanted_t *entry) {
    routed_t *routed = plane->routed;
    for (peer_t *peer = plane->routes; peer != NULL; peer = peer->route->next_route) {
        route_link_t *link = peer->route;
        if (link->next == entry) {
            move_on(&link->next, &link->told_all);
        }
        link->again = link->again == entry ? entry->behind : link->again;
    }
    peer_t *inbound = plane->gateways == NULL ? NULL : plane->gateways->inbound;
    for (peer_t *peer = inbound; peer != NULL; peer = peer->gateway->next_gateway) {
        if (peer->gateway->next == entry) {
            move_on(&peer->gateway->next, &peer->gateway->told_all);
        }
    }
    *(entry->before == NULL ? &routed->first : &entry->before->behind) = entry->behind;
    *(entry->behind == NULL ? &routed->last : &entry->behind->before) = entry->before;
}

static void wanted_drop(plane_t *plane, wanted_t *entry) {
    wanted_unlink(plane, entry);
    map_take(plane->routed->all, &entry->link);
    free(entry);
}

/* New at the end of the list, where those begin again that have heard all of it. */
static void wanted_renew(plane_t *plane, wanted_t *entry) {
    wanted_unlink(plane, entry);
    wanted_append(plane->routed, entry);
    for (peer_t *peer = plane->routes; peer != NULL; peer = peer->route->next_route) {
        route_link_t *link = peer->route;
        link->next = link->told_all ? entry : link->next;
        link->told_all = false;
        link->again = link->regrant != REGRANT_NONE && link->again == NULL ? entry : link->again;
    }
    peer_t *inbound = plane->gateways == NULL ? NULL : plane->gateways->inbound;
    for (peer_t *peer = inbound; peer != NULL; peer = peer->gateway->next_gateway) {
        gateway_link_t *link = peer->gateway;
        link->next = link->told_all ? entry : link->next;
        link->told_all = false;
    }
}

/* Until now nobody was told of them. */
void routed_appeared(plane_t *plane, account_t *account) {
    routed_t *routed = plane->routed;
    wanted_t *entry = routed->first;
    named_appeared(plane, account);
    for (uint64_t newest = routed->numbers; entry != NULL && entry->number <= newest;) {
        wanted_t *behind = entry->behind;
        if (entry->account == account) {
            wanted_renew(plane, entry);
        }
        entry = behind;
    }
    plane->interest_changed = true;
}

/* ---- who is told what -------------------------------------------------------------------------------------------- */

static bool carries(const route_link_t *link, const account_t *account) {
    if (link->only != NULL || link->pool_size == 0) {
        return link->only == NULL || link->only == account;
    }
    return (account->flags & ACCOUNT_PINNED) == 0 && account->pool_hash % link->pool_size == link->pool_index;
}

static bool is_imported(const permissions_t *permissions, bytes_t subject) {
    return permissions == NULL || permissions_route_import(permissions, subject);
}

/* Those by which the entry has been told, or not. */
static const permissions_t *rights_for(const peer_t *peer, const wanted_t *entry) {
    const route_link_t *link = peer->route;
    bool old = link->regrant == REGRANT_OURS && link->again != NULL && entry->number >= link->again->number;
    return old ? link->before : peer->permissions;
}

/* wanted: how many want it, 0: it is not told any more. */
static void route_say(plane_t *plane, peer_t *peer, const wanted_t *entry, uint64_t wanted) {
    bytes_t subject = wanted_subject(entry), queue = wanted_queue(entry);
    const route_link_t *link = peer->route;
    buffer_t *out = &peer->conn.out.data;
    route_names_t names = {.origin = wanted_origin(entry),
                           .account = link->only != NULL ? BYTES_NONE : entry->account->name};
    uint32_t weight = wanted > WEIGHT_MAX ? WEIGHT_MAX : (uint32_t)wanted;
    status_t status = weight != 0 ? emit_route_sub(out, &names, subject, queue, weight)
                                  : emit_route_unsub(out, &names, link->unsub_origins, subject, queue);
    if (status != STATUS_OK) {
        peer_emit_failed(plane, peer, status);
        return;
    }
    plane->told++;
    peer_emitted(plane, peer);
}

static void route_tell(plane_t *plane, peer_t *peer, const wanted_t *entry) {
    if (peer->state != PEER_DOOMED && is_imported(rights_for(peer, entry), wanted_subject(entry))) {
        route_say(plane, peer, entry, entry->ours);
    }
}

/* Has the route's first telling got beyond it? */
static bool is_told(const route_link_t *link, const wanted_t *entry) {
    return (link->told_all || entry->number < link->next->number) && carries(link, entry->account);
}

static void routes_tell(plane_t *plane, const wanted_t *entry) {
    for (peer_t *peer = plane->routes; peer != NULL; peer = peer->route->next_route) {
        if (is_told(peer->route, entry)) {
            route_tell(plane, peer, entry);
        }
    }
}

static void gateway_tell(plane_t *plane, peer_t *peer, const wanted_t *entry) {
    if (peer->state == PEER_DOOMED || (entry->account->flags & ACCOUNT_EXPECTED) != 0) {
        return;
    }
    buffer_t *out = &peer->conn.out.data;
    route_names_t names = {.account = entry->account->name};
    status_t status = gateway_begin(peer, entry->account);
    if (status == STATUS_INVALID) {
        return;
    }
    if (status == STATUS_OK) {
        bytes_t subject = wanted_subject(entry), queue = wanted_queue(entry);
        status = entry->all != 0 ? emit_route_sub(out, &names, subject, queue, 1)
                                 : emit_route_unsub(out, &names, false, subject, queue);
    }
    if (status != STATUS_OK) {
        peer_emit_failed(plane, peer, status);
        return;
    }
    plane->told++;
    peer_emitted(plane, peer);
}

static void gateways_tell(plane_t *plane, const wanted_t *entry) {
    for (peer_t *peer = plane->gateways->inbound; peer != NULL; peer = peer->gateway->next_gateway) {
        const gateway_link_t *link = peer->gateway;
        if (link->told_all || entry->number < link->next->number) {
            gateway_tell(plane, peer, entry);
        }
    }
}

/* Whose interest it is. false: neither ours that routes are told of, nor theirs on behalf of leafs. */
static bool origin_of(const route_target_t *target, const peer_t *link, bytes_t subject, bytes_t *origin) {
    if (target->kind == TARGET_ROUTE) {
        const subscription_t *one = target->owner;
        *origin = bytes_of(one->sid, one->sid_size);
        return origin->size != 0;
    }
    *origin = link_cluster(link);
    return traits_of(target)->routed && (link == NULL || !peer_is_hub(link)) && !routed_is_own(subject);
}

/* Do other clusters hear of it? Each of our servers tells what all of them want: routes bring what the others do. */
static bool is_of_cluster(const plane_t *plane, const route_target_t *target, const peer_t *link, bytes_t subject) {
    if (plane->gateways == NULL || routed_is_own(subject)) {
        return false;
    }
    return target->kind == TARGET_ROUTE || (traits_of(target)->routed && (link == NULL || !peer_is_hub(link)));
}

static status_t wanted_open(routed_t *routed, const wanted_key_t *key) {
    return wanted_find(routed, key) != NULL || wanted_make(routed, key) != NULL ? STATUS_OK : STATUS_NO_MEMORY;
}

status_t routed_reserve(plane_t *plane, account_t *account, const route_target_t *target, const peer_t *link,
                        bytes_t subject, bytes_t queue) {
    wanted_key_t key = {.account = account, .subject = subject, .queue = queue};
    if (plane->routed == NULL) {
        return STATUS_OK;
    }
    status_t status = is_of_cluster(plane, target, link, subject) ? wanted_open(plane->routed, &key) : STATUS_OK;
    if (status == STATUS_OK && origin_of(target, link, subject, &key.origin)) {
        status = wanted_open(plane->routed, &key);
    }
    return status;
}

static void wanted_end(plane_t *plane, wanted_t *entry) {
    if (entry->ours + entry->theirs + entry->all == 0) {
        wanted_drop(plane, entry);
    }
}

static void all_change(plane_t *plane, const wanted_key_t *key, uint32_t before, uint32_t after) {
    wanted_t *entry = wanted_find(plane->routed, key);
    check(entry != NULL);
    uint64_t was = entry->all;
    check(was >= before);
    entry->all = was - before + after;
    if ((was == 0) != (entry->all == 0)) {
        gateways_tell(plane, entry);
    }
    wanted_end(plane, entry);
}

void routed_change(plane_t *plane, account_t *account, const route_target_t *target, const peer_t *link,
                   uint32_t before, uint32_t after) {
    wanted_key_t key = {.account = account, .subject = target->subject, .queue = target->queue};
    if (before == after) {
        return;
    }
    if (is_of_cluster(plane, target, link, key.subject)) {
        all_change(plane, &key, before, after);
    }
    if (!origin_of(target, link, key.subject, &key.origin)) {
        return;
    }
    wanted_t *entry = wanted_find(plane->routed, &key);
    check(entry != NULL);
    uint64_t *part = target->kind == TARGET_ROUTE ? &entry->theirs : &entry->ours;
    uint64_t was = *part;
    check(was >= before);
    *part = was - before + after;
    if (part == &entry->ours && (entry->queue_size != 0 || (was == 0) != (entry->ours == 0))) {
        routes_tell(plane, entry);
    }
    wanted_end(plane, entry);
}

uint64_t routed_weight(const plane_t *plane, const account_t *account, bytes_t cluster, bytes_t subject,
                       bytes_t queue) {
    wanted_key_t key = {.account = account, .origin = cluster, .subject = subject, .queue = queue};
    const wanted_t *entry = cluster.size == 0 ? NULL : wanted_find(plane->routed, &key);
    return entry == NULL ? 0 : entry->theirs;
}

uint32_t routed_cost(const plane_t *plane, bytes_t subject, bytes_t queue, bytes_t origin) {
    if (plane->routed == NULL) {
        return 0;
    }
    uint32_t entries = plane->gateways != NULL && origin.size != 0 ? 2 : 1;
    return entries * ((uint32_t)(sizeof(wanted_t) + sizeof(wanted_t *)) + subject.size + queue.size) + origin.size;
}

/* ---- connections that come and go -------------------------------------------------------------------------------- */

static void route_tell_more(plane_t *plane, peer_t *peer, uint32_t *budget) {
    route_link_t *link = peer->route;
    for (; !link->told_all && *budget != 0 && peer->state != PEER_DOOMED; (*budget)--) {
        const wanted_t *entry = link->next;
        move_on(&link->next, &link->told_all);
        if (entry->ours != 0 && carries(link, entry->account)) {
            route_tell(plane, peer, entry);
        }
    }
}

static void regrant_tell(plane_t *plane, peer_t *peer, const wanted_t *entry) {
    const route_link_t *link = peer->route;
    bytes_t subject = wanted_subject(entry);
    bool may = is_imported(peer->permissions, subject);
    if (link->regrant == REGRANT_OURS) {
        if (may != is_imported(link->before, subject)) {
            route_say(plane, peer, entry, may ? entry->ours : 0);
        }
    } else if (may && !permissions_route_export(link->before, subject)) {
        route_say(plane, peer, entry, entry->ours);
    }
}

/* The next slice of those that other rights may change; one that is behind the first telling's place is left to it. */
static void regrant_some(plane_t *plane, peer_t *peer, uint32_t *budget) {
    route_link_t *link = peer->route;
    for (; link->again != NULL && *budget != 0 && peer->state != PEER_DOOMED; (*budget)--) {
        const wanted_t *entry = link->again;
        link->again = entry->behind;
        if (entry->ours != 0 && is_told(link, entry)) {
            regrant_tell(plane, peer, entry);
        }
    }
    if (link->again == NULL) {
        link->regrant = REGRANT_NONE;
        permissions_leave(link->before, &plane->leftovers);
        link->before = NULL;
    }
}

status_t routed_regrant(plane_t *plane, peer_t *peer, routed_regrant_t which, permissions_t *permissions) {
    route_link_t *link = peer->route;
    if (link->regrant != REGRANT_NONE) {
        permissions_leave(permissions, &plane->leftovers);
        return STATUS_FULL;
    }
    link->before = which == REGRANT_OURS ? peer->permissions : permissions;
    peer->permissions = which == REGRANT_OURS ? permissions : peer->permissions;
    if (which == REGRANT_OURS || permissions != NULL) { /* a peer without lists has refused nothing */
        link->regrant = which;
        link->again = plane->routed->first;
        uint32_t budget = TELL_FIRST;
        regrant_some(plane, peer, &budget);
    }
    return STATUS_OK;
}

status_t routed_joined(plane_t *plane, peer_t *peer, route_link_t *link) {
    peer->route = link;
    peer->server = true;
    plane->route_count++;
    link->at_route = &plane->routes;
    link->next_route = plane->routes;
    if (plane->routes != NULL) {
        plane->routes->route->at_route = &link->next_route;
    }
    plane->routes = peer;
    link->next = plane->routed->first;
    link->told_all = link->next == NULL;
    status_t status = publish_reserve_links(plane, 0);
    uint32_t budget = status == STATUS_OK ? TELL_FIRST : 0;
    route_tell_more(plane, peer, &budget);
    return status;
}

static void gateway_tell_more(plane_t *plane, peer_t *peer, uint32_t *budget) {
    gateway_link_t *link = peer->gateway;
    for (; !link->told_all && *budget != 0 && peer->state != PEER_DOOMED; (*budget)--) {
        const wanted_t *entry = link->next;
        move_on(&link->next, &link->told_all);
        if (entry->all != 0) {
            gateway_tell(plane, peer, entry);
        }
    }
}

void routed_tell_gateway(plane_t *plane, peer_t *peer) {
    gateway_link_t *link = peer->gateway;
    link->next = plane->routed->first;
    link->told_all = link->next == NULL;
    uint32_t budget = TELL_FIRST;
    gateway_tell_more(plane, peer, &budget);
}

static void tell_gateways(plane_t *plane, uint32_t *budget) {
    for (peer_t *peer = plane->gateways->inbound; peer != NULL; peer = peer->gateway->next_gateway) {
        if (peer->gateway->told_all || peer->state == PEER_DOOMED || peer_is_full(plane, peer)) {
            continue;
        }
        gateway_tell_more(plane, peer, budget);
        plane->more = plane->more || !peer->gateway->told_all;
    }
}

/* Interest that was refused is told again on another connection, as there is no asking for it; not before a part of
 * the share is free, or the next refusal would follow. */
static void lacks_ask_again(plane_t *plane) {
    static const char why[] = "there is memory for the interest that was refused: it is asked for again";
    const share_t *share = &plane->memory.interest;
    if (share->used > share->limit - share->limit / LACK_PART) {
        return;
    }
    plane->lacking = false;
    for (peer_t *peer = plane->routes; peer != NULL; peer = peer->route->next_route) {
        if (peer->route->lacks && peer->state != PEER_DOOMED) {
            peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL(why));
        }
    }
    peer_t *outbound = plane->gateways == NULL ? NULL : plane->gateways->outbound;
    for (peer_t *peer = outbound; peer != NULL; peer = peer->gateway->next_gateway) {
        if (peer->gateway->lacks && peer->state != PEER_DOOMED) {
            peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL(why));
        }
    }
}

void routed_tell(plane_t *plane) {
    uint32_t budget = TELL_MAX;
    if (LEAF_UNLIKELY(plane->lacking)) {
        lacks_ask_again(plane);
    }
    for (peer_t *peer = plane->routes; peer != NULL; peer = peer->route->next_route) {
        /* a slow link holds nobody up, and goes on when it is drained */
        const route_link_t *link = peer->route;
        bool over = link->told_all && link->regrant == REGRANT_NONE;
        if (over || peer->state == PEER_DOOMED || peer_is_full(plane, peer)) {
            continue;
        }
        route_tell_more(plane, peer, &budget);
        if (link->regrant != REGRANT_NONE) {
            regrant_some(plane, peer, &budget);
        }
        plane->more = plane->more || !link->told_all || link->regrant != REGRANT_NONE;
    }
    if (plane->gateways != NULL) {
        tell_gateways(plane, &budget);
    }
}

void routed_left(plane_t *plane, peer_t *peer) {
    route_link_t *link = peer->route;
    if (link == NULL) {
        return;
    }
    *link->at_route = link->next_route;
    if (link->next_route != NULL) {
        link->next_route->route->at_route = link->at_route;
    }
    plane->route_count--;
    peer->route = NULL;
    peer->server = false;
    permissions_leave(link->before, &plane->leftovers);
    routed_speaks(peer, BYTES_NONE);
    free(link);
}

peer_t *routed_towards(const plane_t *plane, const account_t *account, bytes_t subject) {
    for (peer_t *peer = plane->routes; peer != NULL; peer = peer->route->next_route) {
        const route_link_t *link = peer->route;
        if (link->known && memcmp(subject.at + GATEWAY_SERVER_AT, link->server, GATEWAY_HASH_SIZE) == 0
            && carries(link, account)) {
            return peer;
        }
    }
    return NULL;
}

uint32_t routed_wanting(plane_t *plane, const account_t *account, bytes_t pattern, const publication_t *publication) {
    uint32_t found = 0;
    for (peer_t *peer = plane->routes; peer != NULL; peer = peer->route->next_route) {
        if (peer->state != PEER_ADMITTED || peer->table == NULL
            || subscription_find(peer->table, account, BYTES_NONE, pattern, BYTES_NONE) == NULL) {
            continue;
        }
        found++;
        if (publication != NULL) {
            publish_over_link(plane, peer, publication);
        }
    }
    return found;
}

peer_t *routed_to(const plane_t *plane, const account_t *account, uint64_t server) {
    for (peer_t *peer = plane->routes; peer != NULL; peer = peer->route->next_route) {
        if (peer->route->peer == server && peer->route->up && carries(peer->route, account)) {
            return peer;
        }
    }
    return NULL;
}
