/* shadow.c: shadows of an account's subscriptions in the domains of the accounts whose streams it imports.
 *
 * Where a subscription and an import's local subject have something in common, that common pattern, carried back to the
 * exporter's subjects, is subscribed there with the same queue group. A shadow lives as long as its subscription and
 * its import; leaf links of the exporting account are told of it like of any other interest. Shadows have no shadows:
 * what an account imports it does not pass on, as in the reference. Not here: the way of a message
 * (cross.c).
 */
#include <stdlib.h>

#include "base/abi_types.h"
#include "base/check.h"
#include "base/status.h"
#include "base/table.h"
#include "base/visits.h"
#include "plane/account.h"
#include "plane/import.h"
#include "plane/interest.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/routed.h"
#include "plane/subscription.h"
#include "plane/target.h"
#include "route/route.h"
#include "text/rewrite.h"
#include "text/text.h"

/* The mark of shadow_cast for an import that the configuration wants for existing subscriptions. */
#define INVITED UINT64_MAX

static void tell_links(plane_t *plane, const shadow_t *shadow, uint32_t before, uint32_t after) {
    account_t *exporter = shadow->import->exporter;
    if (shadow->announced) {
        interest_change(plane, exporter, shadow->target.subject, shadow->target.queue, shadow->leaf, before, after);
    }
    if (shadow->announced && LEAF_UNLIKELY(plane->routed != NULL)) {
        routed_change(plane, exporter, &shadow->target, shadow->leaf, before, after);
    }
}

static void shadow_drop(plane_t *plane, shadow_t *shadow) {
    shadow_t **at = shadow->holder;
    while (*at != shadow) {
        check(*at != NULL);
        at = &(*at)->next_of_holder;
    }
    *at = shadow->next_of_holder;
    *(shadow->previous_of_import == NULL ? &shadow->import->shadows : &shadow->previous_of_import->next_of_import) =
        shadow->next_of_import;
    if (shadow->next_of_import != NULL) {
        shadow->next_of_import->previous_of_import = shadow->previous_of_import;
    }
    tell_links(plane, shadow, shadow->target.weight, 0);
    route_remove(shadow->import->exporter->route, &shadow->target);
    plane->memory.interest.used -= shadow->cost;
    plane->interest_changed = true;
    free(shadow);
}

void shadow_interest(const route_target_t *target, bool *announced, peer_t **origin) {
    const shadow_t *shadow = target->owner;
    *announced = shadow->announced;
    *origin = shadow->leaf;
}

void shadows_drop(plane_t *plane, shadow_t **holder) {
    for (shadow_t *next = *holder; next != NULL;) {
        shadow_t *shadow = next;
        next = shadow->next_of_holder;
        shadow_drop(plane, shadow);
    }
}

bool shadows_drop_some(plane_t *plane, import_t *import, uint32_t *budget) {
    while (import->shadows != NULL && leftover_pay(budget, 1)) {
        visits_add(1);
        shadow_drop(plane, import->shadows);
    }
    return import->shadows == NULL;
}

static const subscription_t *subscription_of(const route_target_t *target) {
    return traits_of(target)->subscription ? target->owner : NULL;
}

static shadow_t **holder_of(const route_target_t *target) {
    return traits_of(target)->subscription ? &((subscription_t *)target->owner)->shadows
                                           : &((sink_t *)target->owner)->shadows;
}

/* before: how many subscriptions and shadows its connection has, for memory_for_interest; INVITED: never refused. */
static status_t shadow_cast(plane_t *plane, import_t *import, const route_target_t *target, uint64_t before) {
    text_t common, subject;
    status_t status = rewrite_common(target->subject, import->local, common.at, sizeof(common.at), &common.size);
    if (status == STATUS_NOT_FOUND) {
        return STATUS_OK;
    }
    if (status == STATUS_OK) {
        status = rewrite_subject(&import->outward, text_bytes(&common), subject.at, sizeof(subject.at), &subject.size);
    }
    if (status != STATUS_OK) {
        return status;
    }
    const subscription_t *subscription = subscription_of(target);
    bool counts = subscription != NULL && subscription->peer != NULL;
    uint32_t cost = counts ? subscription_cost(text_bytes(&subject), target->queue, BYTES_NONE) : 0;
    if (counts && before != INVITED && !memory_for_interest(plane, before, cost)) {
        return STATUS_FULL;
    }
    shadow_t *shadow = calloc(1, sizeof(*shadow));
    if (shadow == NULL) {
        return STATUS_NO_MEMORY;
    }
    shadow->target.kind = TARGET_SHADOW;
    shadow->target.weight = target->weight;
    shadow->target.owner = shadow;
    shadow->import = import;
    shadow->subscription = subscription;
    shadow->leaf = traits_of(target)->order == ORDER_LINK ? shadow->subscription->peer : NULL;
    shadow->announced = interest_is_announced(target);
    shadow->holder = holder_of(target);
    status = shadow->announced ? interest_reserve(import->exporter, text_bytes(&subject), target->queue) : STATUS_OK;
    if (status == STATUS_OK && shadow->announced) {
        status =
            routed_reserve(plane, import->exporter, &shadow->target, shadow->leaf, text_bytes(&subject), target->queue);
    }
    if (status == STATUS_OK) {
        status = route_add(import->exporter->route, &shadow->target, text_bytes(&subject), target->queue);
    }
    if (status != STATUS_OK) {
        free(shadow);
        return status;
    }
    shadow->next_of_holder = *shadow->holder;
    *shadow->holder = shadow;
    shadow->next_of_import = import->shadows;
    if (import->shadows != NULL) {
        import->shadows->previous_of_import = shadow;
    }
    import->shadows = shadow;
    shadow->cost = cost;
    plane->memory.interest.used += cost;
    plane->interest_changed = true;
    tell_links(plane, shadow, 0, shadow->target.weight);
    return STATUS_OK;
}

status_t shadows_add(plane_t *plane, const account_t *account, const route_target_t *target) {
    if (!traits_of(target)->casts_shadows) {
        return STATUS_OK;
    }
    const subscription_t *subscription = subscription_of(target);
    uint64_t before = subscription != NULL && subscription->peer != NULL ? map_count(subscription->peer->table) : 0;
    for (import_t *import = account->imports; import != NULL; import = import->next) {
        if (import->row.kind != IMPORT_STREAM) {
            continue;
        }
        status_t status = shadow_cast(plane, import, target, before++);
        if (status != STATUS_OK) {
            shadows_drop(plane, holder_of(target));
            return status;
        }
    }
    return STATUS_OK;
}

void shadows_weigh(plane_t *plane, const subscription_t *subscription) {
    for (shadow_t *shadow = subscription->shadows; shadow != NULL; shadow = shadow->next_of_holder) {
        uint32_t before = shadow->target.weight;
        shadow->target.weight = subscription->target.weight;
        tell_links(plane, shadow, before, shadow->target.weight);
    }
}

/* ---- growth ------------------------------------------------------------------------------------------------------ */

#define GROW_COST 16u /* of the budget: of a subscription, for each import */

static bool has_shadow(const shadow_t *shadow, const import_t *import) {
    while (shadow != NULL && shadow->import != import) {
        shadow = shadow->next_of_holder;
    }
    return shadow != NULL;
}

/* false: there is no memory for it. */
static bool shadow_grow(plane_t *plane, const account_t *account, uint64_t number, const route_target_t *target) {
    const subscription_t *subscription = subscription_of(target);
    if (!traits_of(target)->casts_shadows || (subscription != NULL && (subscription->flags & SUBSCRIPTION_DEAD) != 0)) {
        return true;
    }
    for (import_t *one = account->imports; one != NULL; one = one->next) {
        visits_add(1);
        if (one->growth == number && !has_shadow(*holder_of(target), one)
            && shadow_cast(plane, one, target, INVITED) != STATUS_OK) {
            return false;
        }
    }
    return true;
}

/* Streams, ingests, control's: few beside the clients', and at once. */
static bool grow_inside(plane_t *plane, const account_t *account, uint64_t number) {
    for (const sink_t *sink = account->sinks; sink != NULL; sink = sink->next) {
        if (!shadow_grow(plane, account, number, &sink->target)) {
            return false;
        }
    }
    map_walk_t walk = {0};
    for (const subscription_t *one; (one = table_next(&plane->controls, &walk)) != NULL;) {
        if (one->account == account && !shadow_grow(plane, account, number, &one->target)) {
            return false;
        }
    }
    return true;
}

/* false: the budget is used up. */
static bool grow_peer(plane_t *plane, const account_t *account, const peer_t *peer, growth_t *growth,
                      uint32_t *budget) {
    for (; growth->place < MAP_END && !growth->failed; growth->place = map_beyond(peer->table, growth->place)) {
        map_link_t *link = map_at(peer->table, growth->place);
        if (!leftover_pay(budget, link == NULL ? 1 : GROW_COST)) {
            return false;
        }
        for (; link != NULL && !growth->failed; link = link->next) {
            growth->failed = !shadow_grow(plane, account, growth->number, &subscription_at(link)->target);
        }
    }
    return true;
}

void growth_begin(plane_t *plane, const account_t *account, growth_t *growth) {
    const import_t *import = account->imports;
    while (import != NULL && import->growth != growth->number) {
        import = import->next;
    }
    growth->inside = import == NULL;
    uint64_t count = 0;
    for (const peer_t *peer = plane->all_peers; import != NULL && peer != NULL; peer = peer->next) {
        count += peer->account == account;
    }
    growth->peers = count != 0 ? malloc(count * sizeof(*growth->peers)) : NULL;
    growth->failed = count != 0 && growth->peers == NULL;
    for (const peer_t *peer = plane->all_peers; growth->peers != NULL && peer != NULL; peer = peer->next) {
        if (peer->account == account) {
            growth->peers[growth->count++] = peer->id;
        }
    }
}

static void growth_end(plane_t *plane, account_t *account, growth_t *growth) {
    if (growth->failed) {
        imports_stop(plane, account, growth->number);
        growth->status = growth->status == STATUS_OK ? STATUS_NO_MEMORY : growth->status;
    }
    for (import_t *one = account->imports; one != NULL; one = one->next) {
        one->growth = one->growth == growth->number ? 0 : one->growth;
    }
}

bool growth_some(plane_t *plane, growth_t *growth, uint32_t *budget) {
    account_t *account = account_find(plane, growth->account);
    if (account != NULL && !growth->inside && !growth->failed) {
        growth->inside = true;
        growth->failed = !grow_inside(plane, account, growth->number);
    }
    while (account != NULL && growth->next < growth->count && !growth->failed) {
        const peer_t *peer = peer_find(plane, growth->peers[growth->next]);
        if (peer != NULL && peer->account == account && !grow_peer(plane, account, peer, growth, budget)) {
            return false;
        }
        growth->place = 0;
        growth->next++;
    }
    if (account != NULL) {
        growth_end(plane, account, growth);
    }
    free(growth->peers);
    growth->peers = NULL;
    return true;
}
