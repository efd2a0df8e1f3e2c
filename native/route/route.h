/* route.h: one routing domain (an account): subscriptions with wildcards and queue groups, matching a published
 * subject.
 *
 * route/ knows subjects and opaque targets; only plane/ knows what a target is (client subscription, leaf interest,
 * stream, consumer verb, control). Matching fills a caller's array and allocates nothing. A small cache keyed by
 * subject makes the usual case one hash look-up; any change of the domain invalidates it by raising the generation.
 *
 *   trie: one node a token; children in a small hash by token; '*' and '>' have slots of their own
 */
#ifndef LEAFD_ROUTE_ROUTE_H
#define LEAFD_ROUTE_ROUTE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/bytes.h"
#include "base/status.h"

typedef struct route route_t;

/* Kept by the owner, linked into the trie; address stable while inserted. subject and queue are copied by route_add. */
typedef struct route_target {
    uint32_t kind;   /* plane's */
    uint32_t weight; /* queue members: relative weight (leaf interest counts as many), 1 for clients */
    void *owner;     /* plane's */
    bytes_t subject; /* route's copy, valid while inserted */
    bytes_t queue;   /* empty = plain */
    void *node;      /* route's */
    uint32_t slot;   /* route's */
} route_target_t;

typedef struct route_group { /* the members of one queue group that match */
    bytes_t queue;
    route_target_t *const *members;
    uint32_t count;
} route_group_t;

typedef struct route_match { /* valid until the next route_add/route_remove of this domain */
    route_target_t *const *plain;
    uint32_t plain_count;
    const route_group_t *groups;
    uint32_t group_count;
} route_match_t;

/* Counts the targets of all its routes that a subject of the pattern may match: 0 means that nobody has to be told of
 * anything there. Written by the routes' thread, read by any. */
typedef struct route_watch {
    bytes_t pattern;
    _Atomic uint32_t count;
} route_watch_t;

route_t *route_new(route_watch_t *watch); /* NULL: nothing is counted */
void route_free(route_t *route);          /* targets are the owner's */
LEAF_MUST_USE status_t route_add(route_t *route, route_target_t *target, bytes_t subject, bytes_t queue);
void route_remove(route_t *route, route_target_t *target);
/* Matches a literal subject ('*' and '>' in it are ordinary tokens). Never NULL. */
const route_match_t *route_match(route_t *route, bytes_t subject);
/* The same of a subject that nobody asks for again, as an answer's mostly is: nothing is kept, nor looked for. */
const route_match_t *route_match_once(route_t *route, bytes_t subject);
/* Is that match empty because there was no memory to find it? The message would then be lost silently. */
bool route_match_failed(const route_match_t *match);
/* Every target, in no order (bursts to a new leaf link). false from visit ends it. */
void route_each(route_t *route, bool (*visit)(void *context, route_target_t *target), void *context);
uint64_t route_count(const route_t *route);
/* The place where the cost of matching since the domain was made can be read: nodes of the trie that were looked at,
 * and groups. What the cache knew cost nothing. */
const uint64_t *route_steps(const route_t *route);
/* For tests: checks the structure, aborts when it is wrong. */
void route_check(const route_t *route);

#endif
