/* shadow.c: shadows of an account's subscriptions in the domains of the accounts whose streams it imports.
 *
 * Where a subscription and an import's local subject have something in common, that common pattern, carried back to the
 * exporter's subjects, is subscribed there with the same queue group. A shadow lives as long as its subscription and
 * its import; leaf links of the exporting account are told of it like of any other interest. Shadows have no shadows:
 * what an account imports it does not pass on, as in the reference. What does not live here: the way of a message
 * (cross.c).
 */
#include <stdlib.h>

#include "base/abi_types.h"
#include "base/check.h"
#include "base/status.h"
#include "base/visits.h"
#include "plane/account.h"
#include "plane/import.h"
#include "plane/interest.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/subscription.h"
#include "plane/target.h"
#include "route/route.h"
#include "text/rewrite.h"
#include "text/text.h"

/* Of shadow_cast: the configuration wants it for what is there already. */
#define INVITED UINT64_MAX

static void tell_links(plane_t *plane, const shadow_t *shadow, uint32_t before, uint32_t after) {
    if (shadow->announced) {
        interest_change(plane, shadow->import->exporter, shadow->target.subject, shadow->target.queue, shadow->leaf,
                        before, after);
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
    uint64_t before = subscription != NULL && subscription->peer != NULL ? subscription->peer->table.count : 0;
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

typedef struct gathering {
    route_target_t **at;
    uint64_t count;
} gathering_t;

static bool shadow_gather(void *context, route_target_t *target) {
    gathering_t *gathering = context;
    gathering->at[gathering->count++] = target;
    return true;
}

/* The exporter may be the importer itself, so nothing is added to the domain while it is walked. */
status_t shadows_add_import(plane_t *plane, import_t *import) {
    route_t *route = import->importer->route;
    uint64_t count = route_count(route);
    if (count == 0) {
        return STATUS_OK;
    }
    gathering_t gathering = {.at = malloc(count * sizeof(route_target_t *))};
    if (gathering.at == NULL) {
        return STATUS_NO_MEMORY;
    }
    route_each(route, shadow_gather, &gathering);
    status_t status = STATUS_OK;
    for (uint64_t i = 0; i < gathering.count && status == STATUS_OK; i++) {
        const route_target_t *target = gathering.at[i];
        const subscription_t *subscription = subscription_of(target);
        if (traits_of(target)->casts_shadows
            && (subscription == NULL || (subscription->flags & SUBSCRIPTION_DEAD) == 0)) {
            status = shadow_cast(plane, import, target, INVITED);
        }
    }
    free(gathering.at);
    return status;
}
