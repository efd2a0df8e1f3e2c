/* account.c: accounts, and subscriptions of every kind: made, found, marked dead, swept, listed.
 *
 * A subscription is in three places: its owner's table (a client's by sid, a leaf's by subject and queue, control's by
 * id), the account's routing domain, and, through interest.c and routed.c, in what leaf links and routes are told.
 * subscription_add and the sweep keep the three together; nobody else touches them.
 */
#include <stdlib.h>

#include "plane/account.h"

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/copies.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/status.h"
#include "base/table.h"
#include "plane/gateway_reply.h"
#include "plane/import.h"
#include "plane/interest.h"
#include "plane/mapping.h"
#include "plane/named.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/routed.h"
#include "plane/subscription.h"
#include "plane/target.h"
#include "route/route.h"
#include "text/hash8.h"
#include "text/subject.h"
#include "text/text.h"

/* About: of a subscription, its places in tables and its entry of interest beside their texts; of a node. */
#define SUBSCRIPTION_OVERHEAD 192u
#define TOKEN_COST 160u

/* ---- accounts ---------------------------------------------------------------------------------------------------- */

account_t *account_find(plane_t *plane, uint32_t id) {
    return table_find(&plane->accounts, id);
}

/* All of it or nothing. */
static status_t account_name(account_t *account, bytes_t name, bytes_t domain) {
    text_t prefix = {0};
    if (domain.size != 0) {
        text_add_literal(&prefix, "$JS.");
        text_add(&prefix, domain);
        text_add_literal(&prefix, ".API.");
    }
    bytes_t own[3];
    const bytes_t wanted[3] = {name, domain, text_bytes(&prefix)};
    if (!bytes_copy_all(own, wanted, 3)) {
        return STATUS_NO_MEMORY;
    }
    bytes_release(&account->name);
    bytes_release(&account->domain);
    bytes_release(&account->domain_prefix);
    account->name = own[0];
    account->domain = own[1];
    account->domain_prefix = own[2];
    hash8(account->name, account->js.hash8);
    return STATUS_OK;
}

static void account_number(account_t *account, uint32_t id) {
    account->js.id = id;
    js_allowances_begin(&account->js);
}

static account_t *account_make(plane_t *plane, uint32_t id, uint32_t flags, bytes_t name, bytes_t domain) {
    account_t *account = calloc(1, sizeof(*account));
    if (account == NULL) {
        return NULL;
    }
    account_number(account, id);
    account->flags = flags;
    account->mark = ++plane->account_marks;
    account->route = route_new(&plane->advised);
    if (account->route == NULL || account_name(account, name, domain) != STATUS_OK
        || (id != 0 && table_put(&plane->accounts, id, account) != STATUS_OK)
        || named_put(plane, account, account->name) != STATUS_OK) {
        table_drop(&plane->accounts, id);
        account_free(account);
        return NULL;
    }
    return account;
}

/* Turns an expected account into one that exists. What other servers ask for in it stays as it is. */
static status_t account_appears(plane_t *plane, account_t *account, uint32_t id, uint32_t flags, bytes_t domain) {
    status_t status = account_name(account, account->name, domain);
    if (status == STATUS_OK) {
        status = table_put(&plane->accounts, id, account);
    }
    if (status == STATUS_OK) {
        account_number(account, id);
        account->flags = flags;
        routed_appeared(plane, account);
    }
    return status;
}

status_t account_put(plane_t *plane, uint32_t id, uint32_t flags, bytes_t name, bytes_t domain) {
    account_t *account = account_find(plane, id);
    if (account != NULL) {
        if ((flags & ACCOUNT_JETSTREAM) == 0 || !bytes_equal(domain, account->domain)) {
            interest_withdraw_domain(plane, account);
        }
        /* Removed: nobody is left in it; the entry stays, because ids are never used again. */
        status_t status = (flags & ACCOUNT_REMOVED) == 0 ? account_name(account, name, domain) : STATUS_OK;
        if (status == STATUS_OK) {
            account->flags = flags;
        }
        return status;
    }
    account = named_expected(plane, name);
    return account != NULL                                        ? account_appears(plane, account, id, flags, domain)
           : account_make(plane, id, flags, name, domain) == NULL ? STATUS_NO_MEMORY
                                                                  : STATUS_OK;
}

account_t *account_expect(plane_t *plane, bytes_t name) {
    return account_make(plane, 0, ACCOUNT_EXPECTED, name, BYTES_NONE);
}

status_t account_trace(account_t *account, bytes_t destination, uint32_t sampling) {
    bytes_t own = BYTES_NONE;
    if (!bytes_copy_all(&own, &destination, 1)) {
        return STATUS_NO_MEMORY;
    }
    bytes_release(&account->trace);
    account->trace = own;
    account->trace_sampling = sampling;
    return STATUS_OK;
}

void account_free(account_t *account) {
    bytes_release(&account->trace);
    mappings_free(account->mappings);
    bytes_release(&account->name);
    bytes_release(&account->domain);
    bytes_release(&account->domain_prefix);
    interest_free(account->interest);
    route_free(account->route);
    free(account->js.tiers);
    free(account);
}

/* ---- tables of subscriptions ------------------------------------------------------------------------------------- */

uint64_t subscription_hash(bytes_t first, bytes_t second) {
    uint64_t hash = hash_bytes(first.at, first.size);
    return second.size == 0 ? hash : hash * 31 + hash_bytes(second.at, second.size);
}

/* Is it there, and does it live? */
static bool is_live(const subscription_t *one, uint64_t hash) {
    return one->link.hash == hash && (one->flags & SUBSCRIPTION_DEAD) == 0;
}

subscription_t *subscription_find_sid(const map_t *table, bytes_t sid) {
    uint64_t hash = subscription_hash(sid, BYTES_NONE);
    for (map_link_t *link = map_first(table, hash); link != NULL; link = link->next) {
        subscription_t *one = subscription_at(link);
        if (is_live(one, hash) && bytes_equal(bytes_of(one->sid, one->sid_size), sid)) {
            return one;
        }
    }
    return NULL;
}

/* A link's: a route has the same subject in many accounts, and from many clusters of leafs. */
static uint64_t link_hash(const account_t *account, bytes_t origin, bytes_t subject, bytes_t queue) {
    uint64_t hash = subscription_hash(subject, queue) ^ account->mark * UINT64_C(0x9E3779B97F4A7C15);
    return origin.size == 0 ? hash : hash * 31 + hash_bytes(origin.at, origin.size);
}

subscription_t *subscription_find(const map_t *table, const account_t *account, bytes_t origin, bytes_t subject,
                                  bytes_t queue) {
    uint64_t hash = link_hash(account, origin, subject, queue);
    for (map_link_t *link = map_first(table, hash); link != NULL; link = link->next) {
        subscription_t *one = subscription_at(link);
        if (is_live(one, hash) && one->account == account && bytes_equal(one->target.subject, subject)
            && bytes_equal(one->target.queue, queue) && bytes_equal(bytes_of(one->sid, one->sid_size), origin)) {
            return one;
        }
    }
    return NULL;
}

/* ---- what links are told ----------------------------------------------------------------------------------------- */

/* To links, or to other servers alone. */
static bool target_is_told(const plane_t *plane, const route_target_t *target) {
    return interest_is_announced(target)
           || (LEAF_UNLIKELY(plane->routed != NULL) && interest_is_for_servers(plane, target));
}

static status_t reserve(plane_t *plane, account_t *account, const route_target_t *target, const peer_t *link) {
    status_t status =
        interest_is_for_servers(plane, target) ? STATUS_OK : interest_reserve(account, target->subject, target->queue);
    return status == STATUS_OK ? routed_reserve(plane, account, target, link, target->subject, target->queue) : status;
}

/* Tells routes and gateways of a target that is announced. link: whose it is; NULL: nobody's. */
static void tell(plane_t *plane, account_t *account, const route_target_t *target, peer_t *link, uint32_t before,
                 uint32_t after) {
    if (LEAF_LIKELY(plane->routed == NULL)) {
        interest_change(plane, account, target->subject, target->queue, link, before, after);
        return;
    }
    if (interest_is_for_servers(plane, target)) {
        routed_change(plane, account, target, link, before, after);
        return;
    }
    if (target->kind == TARGET_ROUTE) {
        const subscription_t *one = target->owner;
        interest_speaks(link, bytes_of(one->sid, one->sid_size));
    }
    interest_change(plane, account, target->subject, target->queue, link, before, after);
    routed_change(plane, account, target, link, before, after);
    if (target->kind == TARGET_ROUTE) {
        interest_speaks(link, BYTES_NONE);
    }
}

void subscription_weigh(plane_t *plane, subscription_t *one, uint32_t weight) {
    uint32_t before = one->target.weight;
    one->target.weight = weight;
    tell(plane, one->account, &one->target, one->peer, before, weight);
    shadows_weigh(plane, one);
}

/* ---- one subscription -------------------------------------------------------------------------------------------- */

static void subscription_undo(plane_t *plane, account_t *account, map_t **table, subscription_t *one) {
    shadows_drop(plane, &one->shadows);
    route_remove(account->route, &one->target);
    if (table != NULL) {
        map_take(*table, &one->link);
    }
    free(one);
}

uint32_t subscription_cost(bytes_t subject, bytes_t queue, bytes_t sid) {
    uint64_t texts = 3 * ((uint64_t)subject.size + queue.size) + sid.size;
    return (uint32_t)(sizeof(subscription_t) + SUBSCRIPTION_OVERHEAD + texts
                      + (uint64_t)subject_token_count(subject) * TOKEN_COST);
}

static status_t add(plane_t *plane, account_t *account, map_t **table, target_kind_t kind, peer_t *peer, uint64_t only,
                    bytes_t subject, bytes_t queue, bytes_t sid, uint32_t weight, uint32_t flags,
                    subscription_t **out) {
    uint32_t cost = peer == NULL ? 0 : subscription_cost(subject, queue, sid) + routed_cost(plane, subject, queue, sid);
    peer_t *told_as = target_traits[kind].order == ORDER_LINK ? peer : NULL;
    if (cost != 0 && !memory_for_interest(plane, map_count(*table), cost)) {
        return STATUS_FULL;
    }
    subscription_t *one = calloc(1, sizeof(*one) + sid.size);
    if (one == NULL) {
        return STATUS_NO_MEMORY;
    }
    one->target.kind = kind;
    one->target.weight = weight;
    one->target.owner = one;
    one->peer = peer;
    one->only = only;
    one->account = account;
    one->flags = flags;
    one->sid_size = sid.size;
    one->born = account->born = gateway_born(plane);
    if (sid.size != 0) {
        memcpy(one->sid, sid.at, sid.size);
    }
    status_t status = route_add(account->route, &one->target, subject, queue);
    if (status == STATUS_OK && table != NULL) {
        bool by_sid = kind == TARGET_CLIENT;
        uint64_t hash = by_sid ? subscription_hash(sid, BYTES_NONE) : link_hash(account, sid, subject, queue);
        status = map_put(table, &one->link, hash);
        if (status != STATUS_OK) {
            route_remove(account->route, &one->target);
        }
    }
    if (status != STATUS_OK) {
        free(one);
        return status;
    }
    if (account->imports != NULL) {
        status = shadows_add(plane, account, &one->target);
    }
    if (status == STATUS_OK && target_is_told(plane, &one->target)) {
        status = reserve(plane, account, &one->target, told_as);
    }
    if (status != STATUS_OK) {
        subscription_undo(plane, account, table, one);
        return status;
    }
    one->cost = cost;
    plane->memory.interest.used += cost;
    plane->stats.subscriptions++;
    plane->interest_changed = true;
    if (target_is_told(plane, &one->target)) {
        tell(plane, account, &one->target, told_as, 0, weight);
    } else if (only != 0) {
        interest_tell_link(plane, only, one->target.subject, one->target.queue, weight);
    }
    *out = one;
    return STATUS_OK;
}

status_t subscription_add(plane_t *plane, account_t *account, map_t **table, target_kind_t kind, peer_t *peer,
                          bytes_t subject, bytes_t queue, bytes_t sid, uint32_t weight, uint32_t flags,
                          subscription_t **out) {
    return add(plane, account, table, kind, peer, 0, subject, queue, sid, weight, flags, out);
}

status_t subscription_add_for(plane_t *plane, account_t *account, uint64_t link, bytes_t subject, bytes_t queue,
                              uint32_t flags, subscription_t **out) {
    return add(plane, account, NULL, TARGET_CONTROL, NULL, link, subject, queue, BYTES_NONE, 1, flags, out);
}

void subscription_kill(plane_t *plane, subscription_t *subscription) {
    if ((subscription->flags & SUBSCRIPTION_DEAD) == 0) {
        subscription->flags |= SUBSCRIPTION_DEAD;
        if (subscription->peer != NULL) {
            subscription->peer->dead_count++;
        }
        subscription->next_dead = plane->dead;
        plane->dead = subscription;
    }
}

/* The link that alone is told of it; 0: it is not that kind. */
static uint64_t link_of(const route_target_t *target) {
    if (traits_of(target)->subscription) {
        const subscription_t *one = target->owner;
        return (one->flags & SUBSCRIPTION_DEAD) != 0 ? 0 : one->only;
    }
    return target->kind == TARGET_INGEST ? ((const sink_t *)target->owner)->link : 0;
}

/* The end of what one link alone was told of, unless another one listens to the same by that link: a copy takes over
 * the subject that control has listened to. */
static void untell_link(plane_t *plane, account_t *account, uint64_t link, const route_target_t *ended) {
    if (link == 0) {
        return;
    }
    const route_match_t *match = route_match(account->route, ended->subject);
    for (uint32_t i = 0; i < match->plain_count && ended->queue.size == 0; i++) {
        const route_target_t *other = match->plain[i];
        if (other != ended && link_of(other) == link && bytes_equal(other->subject, ended->subject)) {
            return;
        }
    }
    interest_tell_link(plane, link, ended->subject, ended->queue, 0);
}

void subscription_sweep(plane_t *plane) {
    while (plane->dead != NULL) {
        subscription_t *one = plane->dead;
        plane->dead = one->next_dead;
        if (target_is_told(plane, &one->target)) {
            tell(plane, one->account, &one->target, traits_of(&one->target)->order == ORDER_LINK ? one->peer : NULL,
                 one->target.weight, 0);
        } else if (one->target.kind == TARGET_CONTROL) {
            untell_link(plane, one->account, one->only, &one->target);
        }
        shadows_drop(plane, &one->shadows);
        route_remove(one->account->route, &one->target);
        if (one->peer != NULL) {
            map_take(one->peer->table, &one->link);
            one->peer->dead_count--;
        }
        plane->memory.interest.used -= one->cost;
        plane->stats.subscriptions--;
        plane->interest_changed = true;
        free(one);
    }
}

/* ---- targets inside ---------------------------------------------------------------------------------------------- */

static status_t sink_add_to(plane_t *plane, account_t *account, sink_t *sink, target_kind_t kind, bytes_t subject,
                            bytes_t queue, uint64_t link, void *object) {
    check(!sink->in);
    *sink = (sink_t){.target = {.kind = kind, .weight = 1, .owner = sink},
                     .account = account,
                     .link = link,
                     .object = object,
                     .born = gateway_born(plane)};
    account->born = sink->born;
    status_t status = route_add(account->route, &sink->target, subject, queue);
    if (status != STATUS_OK) {
        return status;
    }
    if (account->imports != NULL) {
        status = shadows_add(plane, account, &sink->target);
    }
    if (status == STATUS_OK && target_is_told(plane, &sink->target)) {
        status = reserve(plane, account, &sink->target, NULL);
    }
    if (status != STATUS_OK) {
        shadows_drop(plane, &sink->shadows);
        route_remove(account->route, &sink->target);
        return status;
    }
    sink->in = true;
    if (traits_of(&sink->target)->casts_shadows) {
        sink->next = account->sinks;
        if (sink->next != NULL) {
            sink->next->previous = sink;
        }
        account->sinks = sink;
    }
    plane->interest_changed = true;
    if (target_is_told(plane, &sink->target)) {
        tell(plane, account, &sink->target, NULL, 0, 1);
    } else if (link != 0) {
        interest_tell_link(plane, link, sink->target.subject, BYTES_NONE, 1);
    }
    return STATUS_OK;
}

status_t sink_add(plane_t *plane, account_t *account, sink_t *sink, target_kind_t kind, bytes_t subject, uint64_t link,
                  void *object) {
    return sink_add_to(plane, account, sink, kind, subject, BYTES_NONE, link, object);
}

status_t sink_add_grouped(plane_t *plane, account_t *account, sink_t *sink, target_kind_t kind, bytes_t subject,
                          bytes_t queue, void *object) {
    return sink_add_to(plane, account, sink, kind, subject, queue, 0, object);
}

void sink_remove(plane_t *plane, sink_t *sink) {
    if (!sink->in) {
        return;
    }
    if (target_is_told(plane, &sink->target)) {
        tell(plane, sink->account, &sink->target, NULL, 1, 0);
    } else if (sink->link != 0) {
        untell_link(plane, sink->account, sink->link, &sink->target);
    }
    shadows_drop(plane, &sink->shadows);
    route_remove(sink->account->route, &sink->target);
    if (traits_of(&sink->target)->casts_shadows) {
        *(sink->previous == NULL ? &sink->account->sinks : &sink->previous->next) = sink->next;
        if (sink->next != NULL) {
            sink->next->previous = sink->previous;
        }
    }
    sink->in = false;
    plane->interest_changed = true;
}

/* ---- rows of a report -------------------------------------------------------------------------------------------- */

static status_t add_row(buffer_t *rows, const subscription_t *one) {
    subscription_row_t row = {
        .messages = one->delivered,
        .max = one->max,
        .subject_size = one->target.subject.size,
        .queue_size = one->target.queue.size,
        .sid_size = one->sid_size,
        .account = one->account->js.id,
    };
    uint8_t *place;
    uint64_t size = sizeof(row) + (uint64_t)row.subject_size + row.queue_size + row.sid_size;
    status_t status = buffer_reserve(rows, size, &place);
    if (status != STATUS_OK) {
        return status;
    }
    memcpy(place, &row, sizeof(row));
    place += sizeof(row);
    memcpy(place, one->target.subject.at, row.subject_size);
    if (row.queue_size != 0) {
        memcpy(place + row.subject_size, one->target.queue.at, row.queue_size);
    }
    memcpy(place + row.subject_size + row.queue_size, one->sid, row.sid_size);
    rows->size += size;
    return STATUS_OK;
}

status_t subscription_rows(buffer_t *rows, map_link_t *chain) {
    status_t status = STATUS_OK;
    for (; status == STATUS_OK && chain != NULL; chain = chain->next) {
        const subscription_t *one = subscription_at(chain);
        if ((one->flags & SUBSCRIPTION_DEAD) == 0) {
            status = add_row(rows, one);
        }
    }
    return status;
}
