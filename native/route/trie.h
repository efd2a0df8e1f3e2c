/* trie.h: the subscription trie of one routing domain, private to route/.
 *
 *   one node a token:     root -- "orders" -- "*" -- ">"        plain targets and queue groups hang on the last node
 *   children of a node:   a map by token (base/map.h); the tokens '*' and '>' have slots of their own
 *   its queue groups:     a map by name
 *
 * A node that has neither targets nor children left is freed at once, so memory follows the subscriptions.
 * Not here: the cache of results (route.c).
 */
#ifndef LEAFD_ROUTE_TRIE_H
#define LEAFD_ROUTE_TRIE_H

#include "base/map.h"
#include "route/route.h"

typedef struct trie_list {
    route_target_t **at; /* one target: &one */
    route_target_t *one;
    uint32_t count;
    uint32_t capacity;
} trie_list_t;

typedef struct trie_group {
    map_link_t link; /* among its node's groups */
    trie_list_t members;
    uint32_t name_size;
    uint8_t name[];
} trie_group_t;

typedef struct trie_node trie_node_t;
struct trie_node {
    map_link_t link; /* among its parent's children */
    trie_node_t *parent;
    map_t *children; /* NULL: there are none */
    map_t *groups;   /* likewise; one client may have thousands */
    trie_node_t *star;
    trie_node_t *rest; /* '>' */
    trie_list_t plain;
    uint32_t token_size;
    uint8_t token[];
};

static inline trie_node_t *trie_child(map_link_t *link) {
    return MAP_ENTRY(link, trie_node_t, link);
}

static inline trie_group_t *trie_group(map_link_t *link) {
    return MAP_ENTRY(link, trie_group_t, link);
}

static inline bytes_t trie_group_name(const trie_group_t *group) {
    return bytes_of(group->name, group->name_size);
}

trie_node_t *trie_node_new(trie_node_t *parent, bytes_t token);
void trie_node_free(trie_node_t *node); /* with everything below; targets are the owner's */

/* Finds or makes the node of a pattern. NULL: no memory, nothing left behind. */
trie_node_t *trie_reach(trie_node_t *root, bytes_t pattern);
LEAF_MUST_USE status_t trie_attach(trie_node_t *node, route_target_t *target, bytes_t queue);
void trie_detach(trie_node_t *node, route_target_t *target);
/* Frees node and its parents as far up as they carry nothing. */
void trie_prune(trie_node_t *node);

typedef struct trie_found {
    trie_node_t **nodes;
    uint32_t count;
    uint64_t capacity;
    uint64_t steps; /* nodes that were looked at, ever */
} trie_found_t;

/* Gathers the nodes whose patterns match the literal subject and that have targets. */
LEAF_MUST_USE status_t trie_find(trie_node_t *root, bytes_t subject, trie_found_t *found);
bool trie_each(trie_node_t *node, bool (*visit)(void *context, route_target_t *target), void *context);
uint64_t trie_check(const trie_node_t *node); /* aborts when broken; returns how many targets it holds */

#endif
