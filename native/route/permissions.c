/* permissions.c: what one connection may publish, ask for and be sent; replies that allow_responses makes publishable.
 *
 * Lists are short in practice; long ones are sorted (text/subject_set.h), and connections with the same lists share
 * them. The verdicts of recent publish subjects are kept in a small direct-mapped cache with the subject's text, so a
 * steady publisher pays one comparison. The cache, like the table of replies, is there from the first use on: most
 * connections of a large fleet need neither. A pattern "subject queue" in a subscribe list speaks of that queue group
 * only. An empty allow list allows everything. Reference: tests/wire/client.md and leaf.md, "Permissions"; the order of
 * the questions is nats-server's.
 */
#include <stddef.h>
#include <stdlib.h>

#include "route/permissions.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/copies.h"
#include "base/hash.h"
#include "base/holders.h"
#include "base/leftover.h"
#include "base/map.h"
#include "base/status.h"
#include "base/visits.h"
#include "text/subject.h"
#include "text/subject_set.h"

#define VERDICT_CACHE 64u
#define VERDICT_TEXT 63u
#define REPLIES_MAX 16384u   /* tracked at once; beyond it the oldest goes */
#define EXPIRED_LOOKED_AT 4u /* of those that expired, with each new one */
#define ROW_OVERHEAD 16u     /* of an allocation */

enum { PUB_ALLOW = 0, PUB_DENY, SUB_ALLOW, SUB_DENY, MAPPED_DENY };

typedef struct queue_pattern {
    bytes_t subject;
    bytes_t queue; /* behind the subject, in the same memory */
} queue_pattern_t;

typedef struct list {
    bytes_t *plain;
    subject_set_t set; /* of those */
    queue_pattern_t *queued;
    uint32_t queued_count;
} list_t;

typedef struct verdict_slot {
    uint8_t size; /* 0 = free */
    bool allowed;
    uint8_t at[VERDICT_TEXT];
} verdict_slot_t;

typedef struct reply_slot {
    map_link_t link;
    struct reply_slot *newer;
    struct reply_slot *older;
    int64_t expires_ns;
    uint32_t left;
    uint32_t size;
    uint8_t at[];
} reply_slot_t;

/* Lists, once for all that have the same. */
typedef struct permission_set {
    map_link_t link;
    list_t lists[PERMISSION_LISTS];
    uint64_t users;
    uint32_t size;
    uint8_t *text; /* all of them, which tells sets apart */
} permission_set_t;

struct permissions {
    leftover_t leftover; /* once nobody has them */
    permission_set_t *set;
    permission_pool_t *pool;
    verdict_slot_t *cache; /* NULL until the first publish */
    uint32_t response_max;
    int64_t response_ttl_ns;
    map_t *replies; /* NULL until the first one */
    reply_slot_t *oldest;
    reply_slot_t *newest;
    holders_t *holders; /* what they take of memory is counted there */
    holder_t holder;
};

/* A failure leaves a list that can be freed. */
static status_t list_make(list_t *list, const bytes_t *at, uint32_t count) {
    if (count == 0) {
        return STATUS_OK;
    }
    list->plain = calloc(count, sizeof(*list->plain));
    if (list->plain == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        bytes_t copy = bytes_copy(at[i]);
        if (copy.at == NULL) {
            return STATUS_NO_MEMORY;
        }
        const uint8_t *blank = memchr(copy.at, ' ', copy.size);
        uint32_t subject_size = blank == NULL ? copy.size : (uint32_t)(blank - copy.at);
        bytes_t subject = bytes_of(copy.at, subject_size);
        if (subject_size + 1 >= copy.size) {
            list->plain[list->set.count++] = subject;
            continue;
        }
        if (list->queued == NULL) {
            list->queued = calloc(count - i, sizeof(*list->queued));
        }
        if (list->queued == NULL) {
            bytes_release(&copy);
            return STATUS_NO_MEMORY;
        }
        bytes_t queue = bytes_of(copy.at + subject_size + 1, copy.size - subject_size - 1);
        list->queued[list->queued_count++] = (queue_pattern_t){.subject = subject, .queue = queue};
    }
    list->set = subject_set_make(list->plain, list->set.count);
    return STATUS_OK;
}

static void permission_list_free(list_t *list) {
    for (uint32_t i = 0; i < list->set.count; i++) {
        bytes_release(&list->plain[i]);
    }
    for (uint32_t i = 0; i < list->queued_count; i++) {
        bytes_release(&list->queued[i].subject);
    }
    free(list->plain);
    free(list->queued);
}

static bool list_is_empty(const list_t *list) {
    return list->set.count == 0 && list->queued_count == 0;
}

/* ---- replies ----------------------------------------------------------------------------------------------------- */

static uint64_t slot_size(uint32_t subject_size) {
    return sizeof(reply_slot_t) + sizeof(map_link_t *) + subject_size + ROW_OVERHEAD;
}

static void age_put(permissions_t *permissions, reply_slot_t *slot) {
    slot->newer = NULL;
    slot->older = permissions->newest;
    *(permissions->newest == NULL ? &permissions->oldest : &permissions->newest->newer) = slot;
    permissions->newest = slot;
}

static void age_take(permissions_t *permissions, reply_slot_t *slot) {
    *(slot->older == NULL ? &permissions->oldest : &slot->older->newer) = slot->newer;
    *(slot->newer == NULL ? &permissions->newest : &slot->newer->older) = slot->older;
}

static void reply_drop(permissions_t *permissions, reply_slot_t *slot) {
    visits_add(1);
    map_take(permissions->replies, &slot->link);
    age_take(permissions, slot);
    holders_give(permissions->holders, &permissions->holder, slot_size(slot->size));
    free(slot);
}

static void reply_drop_oldest(holder_t *holder, void *context) {
    (void)context;
    permissions_t *permissions = (permissions_t *)((uint8_t *)holder - offsetof(permissions_t, holder));
    reply_drop(permissions, permissions->oldest);
}

static reply_slot_t *reply_find(const permissions_t *permissions, bytes_t reply, uint64_t hash) {
    for (map_link_t *link = map_first(permissions->replies, hash); link != NULL; link = link->next) {
        reply_slot_t *slot = MAP_ENTRY(link, reply_slot_t, link);
        if (link->hash == hash && bytes_equal(bytes_of(slot->at, slot->size), reply)) {
            return slot;
        }
    }
    return NULL;
}

bool permissions_tracks(const permissions_t *permissions) {
    return permissions->response_max != 0;
}

static reply_slot_t *reply_make(permissions_t *permissions, bytes_t reply, uint64_t hash) {
    uint64_t bytes = slot_size(reply.size);
    reply_slot_t *slot = map_open(&permissions->replies) == STATUS_OK ? calloc(1, sizeof(*slot) + reply.size) : NULL;
    if (slot == NULL || !holders_take(permissions->holders, &permissions->holder, bytes)) {
        free(slot);
        return NULL;
    }
    status_t status = map_put(&permissions->replies, &slot->link, hash);
    check(status == STATUS_OK); /* it is open */
    slot->size = reply.size;
    memcpy(slot->at, reply.at, reply.size);
    return slot;
}

/* All of them live equally long, so who was heard of last expires last. */
void permissions_track_reply(permissions_t *permissions, bytes_t reply, int64_t mono_ns) {
    const reply_slot_t *oldest = permissions->oldest;
    for (uint32_t i = 0; i < EXPIRED_LOOKED_AT && oldest != NULL && oldest->expires_ns <= mono_ns; i++) {
        reply_drop(permissions, permissions->oldest);
        oldest = permissions->oldest;
    }
    uint64_t hash = hash_bytes(reply.at, reply.size);
    reply_slot_t *slot = reply_find(permissions, reply, hash);
    if (slot != NULL) {
        age_take(permissions, slot);
    } else {
        if (map_count(permissions->replies) >= REPLIES_MAX) {
            reply_drop(permissions, permissions->oldest);
        }
        slot = reply_make(permissions, reply, hash);
        if (slot == NULL) {
            return;
        }
    }
    age_put(permissions, slot);
    slot->left = permissions->response_max;
    slot->expires_ns = permissions->response_ttl_ns > 0 ? mono_ns + permissions->response_ttl_ns : INT64_MAX;
}

static bool reply_allowed(permissions_t *permissions, bytes_t subject, int64_t mono_ns) {
    if (map_count(permissions->replies) == 0) {
        return false;
    }
    reply_slot_t *slot = reply_find(permissions, subject, hash_bytes(subject.at, subject.size));
    if (slot == NULL) {
        return false;
    }
    bool alive = slot->expires_ns > mono_ns;
    if (!alive || --slot->left == 0) {
        reply_drop(permissions, slot);
    }
    return alive;
}

/* ---- sets of lists ----------------------------------------------------------------------------------------------- */

/* Each list's number of patterns, and each pattern's size before it. */
static uint8_t *lists_text(const permission_lists_t *lists, uint32_t *size) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < PERMISSION_LISTS; i++) {
        total += sizeof(uint32_t);
        for (uint32_t j = 0; j < lists->count[i]; j++) {
            total += sizeof(uint32_t) + (uint64_t)lists->at[i][j].size;
        }
    }
    uint8_t *text = total > UINT32_MAX ? NULL : malloc((size_t)total);
    if (text == NULL) {
        return NULL;
    }
    uint8_t *to = text;
    for (uint32_t i = 0; i < PERMISSION_LISTS; i++) {
        memcpy(to, &lists->count[i], sizeof(uint32_t));
        to += sizeof(uint32_t);
        for (uint32_t j = 0; j < lists->count[i]; j++) {
            const bytes_t *pattern = &lists->at[i][j];
            memcpy(to, &pattern->size, sizeof(uint32_t));
            memcpy(to + sizeof(uint32_t), pattern->at, pattern->size);
            to += sizeof(uint32_t) + pattern->size;
        }
    }
    *size = (uint32_t)total;
    return text;
}

static void set_free(permission_set_t *set) {
    if (set == NULL) {
        return;
    }
    for (uint32_t i = 0; i < PERMISSION_LISTS; i++) {
        permission_list_free(&set->lists[i]);
    }
    free(set->text);
    free(set);
}

/* text: becomes the set's, or is freed. */
static permission_set_t *set_make(const permission_lists_t *lists, uint8_t *text, uint32_t size) {
    permission_set_t *set = calloc(1, sizeof(*set));
    if (set == NULL) {
        free(text);
        return NULL;
    }
    set->text = text;
    set->size = size;
    for (uint32_t i = 0; i < PERMISSION_LISTS; i++) {
        if (list_make(&set->lists[i], lists->at[i], lists->count[i]) != STATUS_OK) {
            set_free(set);
            return NULL;
        }
    }
    return set;
}

static permission_set_t *set_find(const permission_pool_t *pool, const uint8_t *text, uint32_t size, uint64_t hash) {
    for (map_link_t *link = map_first(pool->sets, hash); link != NULL; link = link->next) {
        permission_set_t *set = MAP_ENTRY(link, permission_set_t, link);
        if (link->hash == hash && set->size == size && memcmp(set->text, text, size) == 0) {
            return set;
        }
    }
    return NULL;
}

/* NULL: no memory. */
static permission_set_t *set_take(permission_pool_t *pool, const permission_lists_t *lists) {
    uint32_t size = 0;
    uint8_t *text = lists_text(lists, &size);
    if (text == NULL) {
        return NULL;
    }
    uint64_t hash = hash_bytes(text, size);
    permission_set_t *set = set_find(pool, text, size, hash);
    if (set != NULL) {
        free(text);
    } else {
        set = set_make(lists, text, size);
        if (set == NULL || map_put(&pool->sets, &set->link, hash) != STATUS_OK) {
            set_free(set);
            return NULL;
        }
    }
    set->users++;
    return set;
}

static void set_give(permission_pool_t *pool, permission_set_t *set) {
    if (set == NULL || --set->users != 0) {
        return;
    }
    map_take(pool->sets, &set->link);
    set_free(set);
    if (map_count(pool->sets) == 0) {
        map_free(&pool->sets);
    }
}

/* ---- making and freeing permissions ------------------------------------------------------------------------------ */

bool permissions_forget_some(permissions_t *permissions, uint32_t *budget) {
    if (permissions == NULL) {
        return true;
    }
    while (permissions->oldest != NULL && leftover_pay(budget, 1)) {
        reply_drop(permissions, permissions->oldest);
    }
    return permissions->oldest == NULL;
}

void permissions_free(permissions_t *permissions) {
    if (permissions == NULL) {
        return;
    }
    set_give(permissions->pool, permissions->set);
    while (permissions->oldest != NULL) {
        reply_drop(permissions, permissions->oldest);
    }
    map_free(&permissions->replies);
    free(permissions->cache);
    free(permissions);
}

static bool permissions_free_step(leftover_t *self, void *context, uint32_t *budget) {
    (void)context;
    permissions_t *permissions = (permissions_t *)self;
    if (!permissions_forget_some(permissions, budget)) {
        return false;
    }
    permissions_free(permissions);
    return true;
}

void permissions_leave(permissions_t *permissions, leftovers_t *leftovers) {
    if (permissions != NULL) {
        permissions->leftover.step = permissions_free_step;
        leftovers_add(leftovers, &permissions->leftover);
    }
}

status_t permissions_new(const permission_lists_t *lists, uint32_t response_max, int64_t response_ttl_ns,
                         holders_t *replies, permission_pool_t *pool, permissions_t **out) {
    *out = NULL;
    uint32_t patterns = 0;
    for (uint32_t i = 0; i < PERMISSION_LISTS; i++) {
        patterns += lists->count[i];
    }
    if (patterns == 0 && response_max == 0) {
        return STATUS_OK;
    }
    permissions_t *permissions = calloc(1, sizeof(*permissions));
    if (permissions == NULL) {
        return STATUS_NO_MEMORY;
    }
    permissions->pool = pool;
    permissions->set = set_take(pool, lists);
    permissions->response_max = response_max;
    permissions->response_ttl_ns = response_ttl_ns;
    permissions->holders = replies;
    permissions->holder.drop_oldest = reply_drop_oldest;
    if (permissions->set == NULL) {
        permissions_free(permissions);
        return STATUS_NO_MEMORY;
    }
    *out = permissions;
    return STATUS_OK;
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

/* The groups that a queue pattern speaks of: "g.>" is no name that "g.*" covers, as in the reference. */
static bool is_of_group(const queue_pattern_t *pattern, bytes_t queue) {
    return queue.size != 0 && subject_is_subset(queue, pattern->queue);
}

/* Plain entries that cover the subject; with a queue, entries for queues overrule them when there are any for the
 * subject. */
static bool list_allows_group(const list_t *list, bytes_t subject, bytes_t queue) {
    bool spoken = false, matched = false;
    for (uint32_t i = 0; i < list->queued_count && queue.size != 0; i++) {
        const queue_pattern_t *pattern = &list->queued[i];
        if (subject_is_subset(subject, pattern->subject)) {
            spoken = true;
            matched = matched || is_of_group(pattern, queue);
        }
    }
    return spoken ? matched : subject_set_covers(&list->set, subject);
}

/* A denial for all denies every group, whatever else is said of groups. A group that listens further than its denial
 * goes is denied, too, where only the number of tokens tells them apart ("> group" and a denied "* group"); of other
 * wildcards each message is looked at. */
static bool list_denies_group(const list_t *list, bytes_t subject, bytes_t queue) {
    for (uint32_t i = 0; i < list->queued_count; i++) {
        const queue_pattern_t *pattern = &list->queued[i];
        if (is_of_group(pattern, queue)
            && (subject_is_subset(subject, pattern->subject) || subject_matches(subject, pattern->subject))) {
            return true;
        }
    }
    return subject_set_covers(&list->set, subject);
}

/* Is there something in the list that speaks of that group and may meet a wildcard that it listens to? */
static bool list_collides_group(const list_t *list, bytes_t subject, bytes_t queue) {
    for (uint32_t i = 0; i < list->queued_count; i++) {
        if (is_of_group(&list->queued[i], queue) && subject_collides(subject, list->queued[i].subject)) {
            return true;
        }
    }
    return subject_set_collides(&list->set, subject);
}

/* Finds the entry that a message matches, for a wildcard that reaches further than the list. */
static bool list_matches_group(const list_t *list, bytes_t literal, bytes_t queue) {
    for (uint32_t i = 0; i < list->queued_count; i++) {
        if (is_of_group(&list->queued[i], queue) && subject_matches(literal, list->queued[i].subject)) {
            return true;
        }
    }
    return subject_set_matches(&list->set, literal);
}

static bool pair_allows(const permissions_t *permissions, uint32_t allow, bytes_t literal) {
    const list_t *allowed = &permissions->set->lists[allow];
    return (list_is_empty(allowed) || subject_set_matches(&allowed->set, literal))
           && !subject_set_matches(&permissions->set->lists[allow + 1].set, literal);
}

/* ---- clients ----------------------------------------------------------------------------------------------------- */

bool permissions_publish(permissions_t *permissions, bytes_t subject, int64_t mono_ns) {
    bool allowed;
    if (permissions->cache == NULL) {
        permissions->cache = calloc(VERDICT_CACHE, sizeof(*permissions->cache));
    }
    if (subject.size != 0 && subject.size <= VERDICT_TEXT && permissions->cache != NULL) {
        verdict_slot_t *slot = &permissions->cache[hash_bytes(subject.at, subject.size) % VERDICT_CACHE];
        if (slot->size != subject.size || memcmp(slot->at, subject.at, subject.size) != 0) {
            slot->size = (uint8_t)subject.size;
            memcpy(slot->at, subject.at, subject.size);
            slot->allowed = pair_allows(permissions, PUB_ALLOW, subject);
        }
        allowed = slot->allowed;
    } else {
        allowed = pair_allows(permissions, PUB_ALLOW, subject);
    }
    return allowed || reply_allowed(permissions, subject, mono_ns);
}

bool permissions_subscribe(const permissions_t *permissions, bytes_t subject, bytes_t queue, bool *filtered) {
    const list_t *allow = &permissions->set->lists[SUB_ALLOW], *deny = &permissions->set->lists[SUB_DENY];
    *filtered = false;
    if (!list_is_empty(allow) && !list_allows_group(allow, subject, queue)) {
        return false;
    }
    if (!list_is_empty(deny)) {
        if (list_denies_group(deny, subject, queue)) {
            return false;
        }
        *filtered = subject_has_wildcard(subject) && list_collides_group(deny, subject, queue);
    }
    return true;
}

bool permissions_deliver(const permissions_t *permissions, bytes_t subject, bytes_t queue) {
    return !list_matches_group(&permissions->set->lists[SUB_DENY], subject, queue);
}

bool permissions_hear(const permissions_t *permissions, bytes_t subject) {
    return pair_allows(permissions, SUB_ALLOW, subject);
}

/* ---- leaf links -------------------------------------------------------------------------------------------------- */

bool permissions_leaf_out(const permissions_t *permissions, bytes_t subject) {
    return pair_allows(permissions, PUB_ALLOW, subject);
}

bool permissions_leaf_withholds(const permissions_t *permissions, bytes_t subject) {
    return subject_set_matches(&permissions->set->lists[PUB_DENY].set, subject);
}

bool permissions_leaf_in(const permissions_t *permissions, bytes_t subject) {
    return pair_allows(permissions, SUB_ALLOW, subject);
}

bool permissions_leaf_grants(const permissions_t *permissions, bytes_t subject) {
    const list_t *allowed = &permissions->set->lists[SUB_ALLOW];
    return (list_is_empty(allowed) || subject_set_matches(&allowed->set, subject))
           && permissions_leaf_to(permissions, subject);
}

bool permissions_leaf_to(const permissions_t *permissions, bytes_t subject) {
    return !subject_set_matches(&permissions->set->lists[MAPPED_DENY].set, subject);
}

/* Wildcards that only overlap what is allowed pass here; each message is looked at later. */
static bool pair_asks(const permissions_t *permissions, uint32_t allow, bytes_t subject) {
    const list_t *allowed = &permissions->set->lists[allow], *denied = &permissions->set->lists[allow + 1];
    bool wild = subject_has_wildcard(subject);
    bool passes = list_is_empty(allowed) || subject_set_covers(&allowed->set, subject)
                  || (wild && subject_set_collides(&allowed->set, subject));
    return passes && !subject_set_covers(&denied->set, subject);
}

bool permissions_leaf_ask(const permissions_t *permissions, bytes_t subject) {
    return pair_asks(permissions, SUB_ALLOW, subject);
}

bool permissions_leaf_asked(const permissions_t *permissions, bytes_t subject) {
    return pair_asks(permissions, PUB_ALLOW, subject);
}

static bool pair_covers(const permissions_t *permissions, uint32_t allow, bytes_t subject) {
    const list_t *allowed = &permissions->set->lists[allow], *denied = &permissions->set->lists[allow + 1];
    return (list_is_empty(allowed) || subject_set_covers(&allowed->set, subject))
           && !subject_set_covers(&denied->set, subject);
}

bool permissions_route_import(const permissions_t *permissions, bytes_t subject) {
    return pair_covers(permissions, PUB_ALLOW, subject);
}

bool permissions_route_export(const permissions_t *permissions, bytes_t subject) {
    return pair_covers(permissions, SUB_ALLOW, subject);
}
