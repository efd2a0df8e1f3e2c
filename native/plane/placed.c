/* placed.c: see placed.h. A routing domain for each account that has such streams, beside the one of its subscriptions:
 * nobody there is told of these, and no message counts as taken because of them. */
#include "plane/placed.h"

#include <stdlib.h>

#include "base/copies.h"
#include "base/map.h"
#include "base/names.h"
#include "jetstream/stream.h"
#include "plane/account.h"
#include "plane/subscription.h"
#include "route/route.h"

typedef struct placed_account {
    name_link_t id; /* its name (own copy), of no owner */
    uint32_t number;
    route_t *route;
} placed_account_t;

typedef struct placed_stream {
    name_link_t id; /* its name (own copy), of its account's number */
    placed_account_t *account;
    uint32_t count;
    route_target_t targets[]; /* one for each subject */
} placed_stream_t;

struct placed {
    map_t *accounts;
    map_t *streams;
    uint32_t last_number; /* of an account */
};

/* ---- finding ----------------------------------------------------------------------------------------------------- */

static placed_account_t *placed_account(const placed_t *placed, bytes_t name) {
    name_link_t *found = names_find(placed->accounts, 0, name);
    return found == NULL ? NULL : MAP_ENTRY(found, placed_account_t, id);
}

static placed_stream_t *placed_stream(const placed_t *placed, const placed_account_t *account, bytes_t name) {
    name_link_t *found = names_find(placed->streams, account->number, name);
    return found == NULL ? NULL : MAP_ENTRY(found, placed_stream_t, id);
}

static bool is_led_here(const route_match_t *here, bytes_t name) {
    for (uint32_t i = 0; i < here->plain_count; i++) {
        const sink_t *sink = here->plain[i]->owner;
        if (here->plain[i]->kind == TARGET_STREAM && bytes_equal(((const stream_t *)sink->object)->name, name)) {
            return true;
        }
    }
    return false;
}

bool placed_keep(const plane_t *plane, const account_t *account, bytes_t subject, uint32_t *count) {
    *count = 0;
    const placed_account_t *own = plane->placed == NULL ? NULL : placed_account(plane->placed, account->name);
    if (own == NULL) {
        return true;
    }
    const route_match_t *match = route_match(own->route, subject);
    const route_match_t *here = route_match(account->route, subject);
    if (route_match_failed(match) || route_match_failed(here)) {
        return false;
    }
    for (uint32_t i = 0; i < match->plain_count; i++) {
        const placed_stream_t *stream = match->plain[i]->owner;
        *count += !is_led_here(here, stream->id.name);
    }
    return true;
}

/* ---- changing ---------------------------------------------------------------------------------------------------- */

static void placed_drop_account(placed_t *placed, placed_account_t *account) {
    map_take(placed->accounts, &account->id.link);
    route_free(account->route);
    bytes_release(&account->id.name);
    free(account);
}

/* Out of the table, and its account with the last one. */
static void placed_drop(placed_t *placed, placed_stream_t *stream) {
    placed_account_t *account = stream->account;
    map_take(placed->streams, &stream->id.link);
    for (uint32_t i = 0; i < stream->count; i++) {
        route_remove(account->route, &stream->targets[i]);
    }
    bytes_release(&stream->id.name);
    free(stream);
    if (route_count(account->route) == 0) {
        placed_drop_account(placed, account);
    }
}

/* NULL: no memory. */
static placed_account_t *placed_account_made(placed_t *placed, bytes_t name) {
    placed_account_t *made = placed_account(placed, name);
    if (made != NULL) {
        return made;
    }
    made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return NULL;
    }
    made->id.name = bytes_copy(name);
    made->number = ++placed->last_number;
    made->route = route_new(NULL);
    if (made->route != NULL && made->id.name.size == name.size
        && names_put(&placed->accounts, &made->id) == STATUS_OK) {
        return made;
    }
    if (made->route != NULL) {
        route_free(made->route);
    }
    bytes_release(&made->id.name);
    free(made);
    return NULL;
}

static status_t placed_add(placed_t *placed, placed_account_t *account, bytes_t name, strings_t *subjects) {
    uint32_t count = strings_count(*subjects);
    placed_stream_t *stream = calloc(1, sizeof(*stream) + count * sizeof(stream->targets[0]));
    if (stream == NULL) {
        return STATUS_NO_MEMORY;
    }
    stream->account = account;
    stream->id = (name_link_t){.owner = account->number, .name = bytes_copy(name)};
    status_t status = stream->id.name.size == name.size ? names_put(&placed->streams, &stream->id) : STATUS_NO_MEMORY;
    if (status != STATUS_OK) {
        bytes_release(&stream->id.name);
        free(stream);
        return status;
    }
    while (status == STATUS_OK && stream->count < count) {
        route_target_t *target = &stream->targets[stream->count];
        *target = (route_target_t){.kind = TARGET_STREAM, .weight = 1, .owner = stream};
        status = route_add(account->route, target, strings_next(subjects), BYTES_NONE);
        stream->count += status == STATUS_OK;
    }
    if (status != STATUS_OK) {
        placed_drop(placed, stream);
    }
    return status;
}

status_t placed_put(plane_t *plane, bytes_t account, bytes_t stream, strings_t *subjects) {
    placed_t *placed = plane->placed;
    bool removes = strings_count(*subjects) == 0;
    placed_account_t *own = placed == NULL ? NULL : placed_account(placed, account);
    placed_stream_t *before = own == NULL ? NULL : placed_stream(placed, own, stream);
    if (before != NULL) {
        placed_drop(placed, before);
    }
    if (removes) {
        return STATUS_OK;
    }
    if (placed == NULL) {
        placed = plane->placed = calloc(1, sizeof(*placed));
        if (placed == NULL) {
            return STATUS_NO_MEMORY;
        }
    }
    own = placed_account_made(placed, account);
    if (own == NULL) {
        return STATUS_NO_MEMORY;
    }
    status_t status = placed_add(placed, own, stream, subjects);
    if (status != STATUS_OK && placed_account(placed, account) != NULL && route_count(own->route) == 0) {
        placed_drop_account(placed, own);
    }
    return status;
}

void placed_free(plane_t *plane) {
    placed_t *placed = plane->placed;
    if (placed == NULL) {
        return;
    }
    map_walk_t walk = {0};
    for (map_link_t *link; (link = map_next(placed->streams, &walk)) != NULL;) {
        placed_drop(placed, MAP_ENTRY(link, placed_stream_t, id.link));
    }
    map_free(&placed->streams);
    map_free(&placed->accounts);
    free(placed);
    plane->placed = NULL;
}
