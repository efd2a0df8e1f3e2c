/* trie.c: see trie.h. */
#include "route/trie.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/map.h"
#include "text/subject.h"
#include "text/tokens.h"

#define FOUND_MIN 16

/* ---- target lists ------------------------------------------------------------------------------------------------ */

static status_t trie_list_add(trie_list_t *list, route_target_t *target) {
    if (list->count == 0 && list->capacity == 0) {
        list->at = &list->one;
        list->capacity = 1;
    }
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity * 2;
        route_target_t **grown = malloc((size_t)capacity * sizeof(*grown));
        if (grown == NULL) {
            return STATUS_NO_MEMORY;
        }
        memcpy(grown, list->at, (size_t)list->count * sizeof(*grown));
        if (list->at != &list->one) {
            free(list->at);
        }
        list->at = grown;
        list->capacity = capacity;
    }
    target->slot = list->count;
    list->at[list->count++] = target;
    return STATUS_OK;
}

static void trie_list_drop(trie_list_t *list, route_target_t *target) {
    check(target->slot < list->count);
    check(list->at[target->slot] == target);
    route_target_t *last = list->at[--list->count];
    list->at[target->slot] = last;
    last->slot = target->slot;
}

static void trie_list_free(trie_list_t *list) {
    if (list->capacity > 1) {
        free(list->at);
    }
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

trie_node_t *trie_node_new(trie_node_t *parent, bytes_t token) {
    trie_node_t *node = calloc(1, sizeof(*node) + token.size);
    if (node == NULL) {
        return NULL;
    }
    node->parent = parent;
    node->token_size = token.size;
    if (token.size != 0) {
        memcpy(node->token, token.at, token.size);
    }
    return node;
}

static void trie_group_free(trie_group_t *group) {
    trie_list_free(&group->members);
    free(group);
}

void trie_node_free(trie_node_t *node) {
    if (node == NULL) {
        return;
    }
    map_walk_t children = {0}, groups = {0};
    for (map_link_t *link; (link = map_next(node->children, &children)) != NULL;) {
        trie_node_free(trie_child(link));
    }
    for (map_link_t *link; (link = map_next(node->groups, &groups)) != NULL;) {
        trie_group_free(trie_group(link));
    }
    map_free(&node->children);
    map_free(&node->groups);
    trie_node_free(node->star);
    trie_node_free(node->rest);
    trie_list_free(&node->plain);
    free(node);
}

static trie_node_t *child_find(const trie_node_t *node, bytes_t token, uint64_t hash) {
    for (map_link_t *link = map_first(node->children, hash); link != NULL; link = link->next) {
        trie_node_t *child = trie_child(link);
        if (link->hash == hash && child->token_size == token.size && memcmp(child->token, token.at, token.size) == 0) {
            return child;
        }
    }
    return NULL;
}

static void child_drop(trie_node_t *node, trie_node_t *child) {
    map_take(node->children, &child->link);
    if (map_count(node->children) == 0) {
        map_free(&node->children);
    }
}

static trie_node_t **special_slot(trie_node_t *node, bytes_t token) {
    if (token.size != 1) {
        return NULL;
    }
    return token.at[0] == '*' ? &node->star : token.at[0] == '>' ? &node->rest : NULL;
}

trie_node_t *trie_reach(trie_node_t *root, bytes_t pattern) {
    trie_node_t *node = root;
    for (token_walk_t walk = tokens_of(pattern); !walk.done;) {
        bytes_t token = tokens_next(&walk);
        trie_node_t **slot = special_slot(node, token);
        uint64_t hash = slot == NULL ? hash_bytes(token.at, token.size) : 0;
        trie_node_t *next = slot != NULL ? *slot : child_find(node, token, hash);
        if (next == NULL) {
            next = trie_node_new(node, token);
            if (next == NULL || (slot == NULL && map_put(&node->children, &next->link, hash) != STATUS_OK)) {
                free(next);
                trie_prune(node);
                return NULL;
            }
            if (slot != NULL) {
                *slot = next;
            }
        }
        node = next;
    }
    return node;
}

void trie_prune(trie_node_t *node) {
    while (node->parent != NULL && node->plain.count == 0 && node->groups == NULL && node->children == NULL
           && node->star == NULL && node->rest == NULL) {
        trie_node_t *parent = node->parent;
        if (parent->star == node) {
            parent->star = NULL;
        } else if (parent->rest == node) {
            parent->rest = NULL;
        } else {
            child_drop(parent, node);
        }
        trie_node_free(node);
        node = parent;
    }
}

/* ---- targets ----------------------------------------------------------------------------------------------------- */

static trie_group_t *group_find(const trie_node_t *node, bytes_t queue, uint64_t hash) {
    for (map_link_t *link = map_first(node->groups, hash); link != NULL; link = link->next) {
        trie_group_t *group = trie_group(link);
        if (link->hash == hash && bytes_equal(trie_group_name(group), queue)) {
            return group;
        }
    }
    return NULL;
}

static trie_group_t *group_make(trie_node_t *node, bytes_t queue, uint64_t hash) {
    trie_group_t *group = calloc(1, sizeof(*group) + queue.size);
    if (group == NULL || map_put(&node->groups, &group->link, hash) != STATUS_OK) {
        free(group);
        return NULL;
    }
    group->name_size = queue.size;
    memcpy(group->name, queue.at, queue.size);
    return group;
}

static void group_drop(trie_node_t *node, trie_group_t *group) {
    map_take(node->groups, &group->link);
    trie_group_free(group);
    if (map_count(node->groups) == 0) {
        map_free(&node->groups);
    }
}

status_t trie_attach(trie_node_t *node, route_target_t *target, bytes_t queue) {
    if (queue.size == 0) {
        return trie_list_add(&node->plain, target);
    }
    uint64_t hash = hash_bytes(queue.at, queue.size);
    trie_group_t *group = group_find(node, queue, hash);
    if (group == NULL) {
        group = group_make(node, queue, hash);
        if (group == NULL) {
            return STATUS_NO_MEMORY;
        }
    }
    status_t status = trie_list_add(&group->members, target);
    if (group->members.count == 0) {
        group_drop(node, group);
    }
    return status;
}

void trie_detach(trie_node_t *node, route_target_t *target) {
    if (target->queue.size == 0) {
        trie_list_drop(&node->plain, target);
        return;
    }
    trie_group_t *group = group_find(node, target->queue, hash_bytes(target->queue.at, target->queue.size));
    check(group != NULL);
    trie_list_drop(&group->members, target);
    if (group->members.count == 0) {
        group_drop(node, group);
    }
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

static status_t found_add(trie_found_t *found, trie_node_t *node) {
    if (node->plain.count == 0 && node->groups == NULL) {
        return STATUS_OK;
    }
    if (array_reserve(&found->nodes, &found->capacity, found->count + 1u, FOUND_MIN, sizeof(trie_node_t *))
        != STATUS_OK) {
        return STATUS_NO_MEMORY;
    }
    found->nodes[found->count++] = node;
    return STATUS_OK;
}

/* Depth is bounded by the trie's own depth, and that by SUBJECT_TOKENS_MAX. */
static status_t find_below(trie_node_t *node, token_walk_t left, trie_found_t *found) {
    status_t status = STATUS_OK;
    while (status == STATUS_OK) {
        found->steps++;
        if (left.done) {
            return found_add(found, node);
        }
        if (node->rest != NULL) {
            status = found_add(found, node->rest);
        }
        bytes_t token = tokens_next(&left);
        if (node->star != NULL && status == STATUS_OK) {
            status = find_below(node->star, left, found);
        }
        node = child_find(node, token, node->children == NULL ? 0 : hash_bytes(token.at, token.size));
        if (node == NULL) {
            return status;
        }
    }
    return status;
}

status_t trie_find(trie_node_t *root, bytes_t subject, trie_found_t *found) {
    found->count = 0;
    if (subject_has_empty_token(subject)) {
        return STATUS_OK;
    }
    return find_below(root, tokens_of(subject), found);
}

static bool trie_list_each(const trie_list_t *list, bool (*visit)(void *context, route_target_t *target),
                           void *context) {
    for (uint32_t i = 0; i < list->count; i++) {
        if (!visit(context, list->at[i])) {
            return false;
        }
    }
    return true;
}

bool trie_each(trie_node_t *node, bool (*visit)(void *context, route_target_t *target), void *context) {
    if (node == NULL) {
        return true;
    }
    if (!trie_list_each(&node->plain, visit, context)) {
        return false;
    }
    map_walk_t groups = {0}, children = {0};
    for (map_link_t *link; (link = map_next(node->groups, &groups)) != NULL;) {
        if (!trie_list_each(&trie_group(link)->members, visit, context)) {
            return false;
        }
    }
    for (map_link_t *link; (link = map_next(node->children, &children)) != NULL;) {
        if (!trie_each(trie_child(link), visit, context)) {
            return false;
        }
    }
    return trie_each(node->star, visit, context) && trie_each(node->rest, visit, context);
}

static void trie_list_check(const trie_node_t *node, const trie_list_t *list, bytes_t queue) {
    for (uint32_t i = 0; i < list->count; i++) {
        check(list->at[i]->slot == i);
        check(list->at[i]->node == node);
        check(bytes_equal(list->at[i]->queue, queue));
    }
}

uint64_t trie_check(const trie_node_t *node) {
    if (node == NULL) {
        return 0;
    }
    uint64_t count = node->plain.count;
    trie_list_check(node, &node->plain, BYTES_NONE);
    uint32_t groups = 0, children = 0;
    map_walk_t walk = {0};
    for (map_link_t *link; (link = map_next(node->groups, &walk)) != NULL; groups++) {
        const trie_group_t *group = trie_group(link);
        check(group->members.count != 0);
        check(group_find(node, trie_group_name(group), link->hash) == group);
        trie_list_check(node, &group->members, trie_group_name(group));
        count += group->members.count;
    }
    check(groups == map_count(node->groups) && (groups != 0 || node->groups == NULL));
    walk = (map_walk_t){0};
    for (map_link_t *link; (link = map_next(node->children, &walk)) != NULL; children++) {
        const trie_node_t *child = trie_child(link);
        check(child->parent == node);
        check(child_find(node, bytes_of(child->token, child->token_size), link->hash) == child);
        count += trie_check(child);
    }
    check(children == map_count(node->children) && (children != 0 || node->children == NULL));
    check(node->parent == NULL || count + children != 0 || node->star != NULL || node->rest != NULL);
    return count + trie_check(node->star) + trie_check(node->rest);
}
