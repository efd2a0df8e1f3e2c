/* gateway_reply.c: see gateway_reply.h. The whole names that came lately: one hash table, one list by age.
 *
 *     account, bare reply  -->  whole name        for as long as a subscription is young, from its last request on
 *
 * They draw on the share of outstanding replies (MEMORY_REPLIES), and the oldest go first where it is full.
 * Not here: where a message under a whole name goes (publish.c, verbs/links.c).
 */
#include <stddef.h>
#include <stdlib.h>

#include "plane/gateway_reply.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/holders.h"
#include "base/leftover.h"
#include "base/map.h"
#include "base/visits.h"
#include "plane/gateway.h"
#include "plane/import.h"
#include "plane/subscription.h"
#include "plane/target.h"
#include "route/route.h"

#define WHOLE_OVERHEAD 64u /* of an allocation, and in the table */

typedef struct whole_name {
    map_link_t link;
    struct whole_name *older, *newer;
    account_t *account;
    int64_t until_ns;
    uint32_t size;
    uint8_t at[];
} whole_name_t;

struct gateway_replies {
    map_t *map;
    whole_name_t *oldest, *newest;
    holder_t holder;
};

/* ---- requests of this cluster's clients -------------------------------------------------------------------------- */

static int64_t young_ns(const plane_t *plane) {
    int64_t far_ns = plane->gateways == NULL ? 0 : GATEWAY_YOUNG_TRIPS * plane->gateways->far_ns;
    far_ns = far_ns > GATEWAY_YOUNG_MAX_NS ? GATEWAY_YOUNG_MAX_NS : far_ns;
    return far_ns > GATEWAY_YOUNG_NS ? far_ns : GATEWAY_YOUNG_NS;
}

/* Ages up to that are young ones. */
static uint32_t young_ticks(const plane_t *plane) {
    const gateways_t *gateways = plane->gateways;
    bool all = gateways->unheard != 0 || plane->now.mono_ns < gateways->met_ns;
    return all ? UINT32_MAX : (uint32_t)((uint64_t)young_ns(plane) >> GATEWAY_TICK_SHIFT);
}

/* When the subscription there began; false: nobody asks by it. */
static bool target_born(const route_target_t *target, uint32_t *born) {
    switch ((target_kind_t)target->kind) {
    case TARGET_CLIENT:
    case TARGET_CONTROL: *born = ((const subscription_t *)target->owner)->born; return true;
    case TARGET_LEAF: {
        const subscription_t *one = target->owner;
        *born = one->born;
        return !peer_is_hub(one->peer);
    }
    case TARGET_REPLY: *born = ((const sink_t *)target->owner)->born; return true;
    default: return false;
    }
}

static bool any_young(const plane_t *plane, route_target_t *const *targets, uint32_t count, uint32_t ticks) {
    uint32_t born;
    for (uint32_t i = 0; i < count; i++) {
        if (target_born(targets[i], &born) && gateway_born(plane) - born <= ticks) {
            return true;
        }
    }
    return false;
}

/* Asked behind everything that the message's own match is needed for: this look-up may take its place. */
bytes_t gateway_reply(plane_t *plane, const account_t *account, bytes_t reply, text_t *out) {
    uint32_t ticks = young_ticks(plane);
    if (reply.size == 0 || gateway_is_reply(reply) || gateway_born(plane) - account->born > ticks) {
        return reply;
    }
    const route_match_t *match = route_match(account->route, reply);
    bool young = any_young(plane, match->plain, match->plain_count, ticks);
    for (uint32_t i = 0; i < match->group_count && !young; i++) {
        young = any_young(plane, match->groups[i].members, match->groups[i].count, ticks);
    }
    if (!young) {
        return reply;
    }
    out->size = 0;
    text_add(out, bytes_of(plane->gateways->prefix, GATEWAY_PREFIX_SIZE));
    text_add(out, reply);
    return text_is_over(out) ? reply : text_bytes(out);
}

/* ---- requests of others ------------------------------------------------------------------------------------------ */

static whole_name_t *whole_of(map_link_t *link) {
    return link == NULL ? NULL : MAP_ENTRY(link, whole_name_t, link);
}

static uint64_t whole_hash(const account_t *account, bytes_t bare) {
    uint64_t hash = hash_bytes(bare.at, bare.size) ^ account->js.id * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 32;
}

static whole_name_t *whole_find(const gateway_replies_t *replies, const account_t *account, bytes_t bare) {
    uint64_t hash = whole_hash(account, bare);
    whole_name_t *one = whole_of(map_first(replies->map, hash));
    while (one != NULL
           && (one->link.hash != hash || one->account != account
               || !bytes_equal(gateway_bare(bytes_of(one->at, one->size)), bare))) {
        one = whole_of(one->link.next);
    }
    return one;
}

static void whole_put(gateway_replies_t *replies, whole_name_t *one) {
    one->newer = NULL;
    one->older = replies->newest;
    *(replies->newest == NULL ? &replies->oldest : &replies->newest->newer) = one;
    replies->newest = one;
}

static void whole_take(gateway_replies_t *replies, whole_name_t *one) {
    *(one->older == NULL ? &replies->oldest : &one->older->newer) = one->newer;
    *(one->newer == NULL ? &replies->newest : &one->newer->older) = one->older;
}

static uint64_t whole_bytes(uint32_t size) {
    return sizeof(whole_name_t) + size + WHOLE_OVERHEAD;
}

static void whole_drop(plane_t *plane, whole_name_t *one) {
    gateway_replies_t *replies = plane->gateway_replies;
    visits_add(1);
    map_take(replies->map, &one->link);
    whole_take(replies, one);
    one->account->diverts--;
    holders_give(&plane->memory.replies, &replies->holder, whole_bytes(one->size));
    free(one);
}

static void drop_oldest(holder_t *holder, void *plane) {
    const gateway_replies_t *replies = (gateway_replies_t *)((uint8_t *)holder - offsetof(gateway_replies_t, holder));
    whole_drop(plane, replies->oldest);
}

static gateway_replies_t *replies_of(plane_t *plane) {
    if (plane->gateway_replies == NULL) {
        plane->gateway_replies = calloc(1, sizeof(*plane->gateway_replies));
        if (plane->gateway_replies != NULL) {
            plane->gateway_replies->holder.drop_oldest = drop_oldest;
        }
    }
    return plane->gateway_replies;
}

static whole_name_t *whole_new(plane_t *plane, account_t *account, bytes_t whole) {
    gateway_replies_t *replies = replies_of(plane);
    uint64_t bytes = whole_bytes(whole.size);
    if (replies == NULL || !holders_take(&plane->memory.replies, &replies->holder, bytes)) {
        return NULL;
    }
    whole_name_t *one = malloc(sizeof(*one) + whole.size);
    if (one == NULL || map_put(&replies->map, &one->link, whole_hash(account, gateway_bare(whole))) != STATUS_OK) {
        holders_give(&plane->memory.replies, &replies->holder, bytes);
        free(one);
        return NULL;
    }
    one->account = account;
    one->size = whole.size;
    account->diverts++;
    whole_put(replies, one);
    return one;
}

void gateway_reply_seen(plane_t *plane, account_t *account, bytes_t whole) {
    gateway_replies_t *replies = plane->gateway_replies;
    whole_name_t *one = replies == NULL ? NULL : whole_find(replies, account, gateway_bare(whole));
    if (one == NULL) {
        one = whole_new(plane, account, whole);
    } else {
        whole_take(replies, one);
        whole_put(replies, one);
    }
    if (one != NULL) {
        memcpy(one->at, whole.at, whole.size);
        one->until_ns = plane->now.mono_ns + young_ns(plane);
    }
}

bytes_t gateway_reply_whole(const plane_t *plane, const account_t *account, bytes_t subject) {
    const whole_name_t *one =
        plane->gateway_replies == NULL ? NULL : whole_find(plane->gateway_replies, account, subject);
    return one == NULL || one->until_ns <= plane->now.mono_ns ? BYTES_NONE : bytes_of(one->at, one->size);
}

void gateway_replies_expire_some(plane_t *plane, uint32_t *budget) {
    whole_name_t *next;
    for (whole_name_t *one = plane->gateway_replies == NULL ? NULL : plane->gateway_replies->oldest;
         one != NULL && one->until_ns <= plane->now.mono_ns; one = next) {
        if (!leftover_pay(budget, 1)) {
            plane->more = true;
            return;
        }
        next = one->newer;
        whole_drop(plane, one);
    }
}

void gateway_replies_free(plane_t *plane) {
    gateway_replies_t *replies = plane->gateway_replies;
    if (replies == NULL) {
        return;
    }
    for (whole_name_t *one = replies->oldest, *next; one != NULL; one = next) {
        next = one->newer;
        whole_drop(plane, one);
    }
    map_free(&replies->map);
    free(replies);
    plane->gateway_replies = NULL;
}
