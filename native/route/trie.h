/* trie.h: the subscription trie of one routing domain, private to route/.
 *
 *   one node a token:     root -- "orders" -- "*" -- ">"        plain targets and queue groups hang on the last node
 *   children of a node:   small open hash table by token; the tokens '*' and '>' have slots of their own
 *
 * A node that has neither targets nor children left is freed at once, so memory follows the subscriptions. What does
 * not live here: the cache of results (route.c).
 */
#ifndef LEAFD_ROUTE_TRIE_H
#define LEAFD_ROUTE_TRIE_H

#include "route/route.h"

typedef struct trie_list {
    route_target_t **at; /* one target: &one */
    route_target_t *one;
    uint32_t count;
    uint32_t capacity;
} trie_list_t;

typedef struct trie_group {
    bytes_t queue; /* own copy; none: the slot is free */
    uint64_t hash;
    trie_list_t members;
} trie_group_t;

typedef struct trie_node trie_node_t;
struct trie_node {
    trie_node_t *parent;
    trie_node_t **children; /* open addressing, linear probing; NULL until there is one */
    trie_node_t *star;
    trie_node_t *rest; /* '>' */
    uint32_t mask;
    uint32_t child_count;
    trie_list_t plain;
    trie_group_t *groups; /* open addressing by name, linear probing: one client may have thousands */
    uint32_t group_count;
    uint32_t group_capacity; /* slots */
    uint64_t hash;
    uint32_t token_size;
    uint8_t token[];
};

trie_node_t *trie_node_new(trie_node_t *parent, bytes_t token, uint64_t hash);
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
