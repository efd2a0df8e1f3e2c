/* trie.c: see trie.h. */
#include "route/trie.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/check.h"
#include "base/hash.h"
#include "text/subject.h"
#include "text/tokens.h"

#define TRIE_CHILDREN_FIRST 4u
#define TRIE_GROUPS_FIRST 2u
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

/* A list that moves in memory has to point at its own inline slot again. */
static void trie_list_moved(trie_list_t *list) {
    if (list->capacity == 1) {
        list->at = &list->one;
    }
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

trie_node_t *trie_node_new(trie_node_t *parent, bytes_t token, uint64_t hash) {
    trie_node_t *node = calloc(1, sizeof(*node) + token.size);
    if (node == NULL) {
        return NULL;
    }
    node->parent = parent;
    node->hash = hash;
    node->token_size = token.size;
    if (token.size != 0) {
        memcpy(node->token, token.at, token.size);
    }
    return node;
}

void trie_node_free(trie_node_t *node) {
    if (node == NULL) {
        return;
    }
    for (uint32_t i = 0; node->children != NULL && i <= node->mask; i++) {
        trie_node_free(node->children[i]);
    }
    free(node->children);
    trie_node_free(node->star);
    trie_node_free(node->rest);
    for (uint32_t i = 0; i < node->group_capacity; i++) {
        trie_list_free(&node->groups[i].members);
        free((void *)(uintptr_t)node->groups[i].queue.at);
    }
    free(node->groups);
    trie_list_free(&node->plain);
    free(node);
}

static trie_node_t *child_find(const trie_node_t *node, bytes_t token, uint64_t hash) {
    if (node->children == NULL) {
        return NULL;
    }
    for (uint32_t i = (uint32_t)hash & node->mask;; i = (i + 1) & node->mask) {
        trie_node_t *child = node->children[i];
        if (child == NULL) {
            return NULL;
        }
        if (child->hash == hash && child->token_size == token.size && memcmp(child->token, token.at, token.size) == 0) {
            return child;
        }
    }
}

static void child_place(trie_node_t **children, uint32_t mask, trie_node_t *child) {
    uint32_t i = (uint32_t)child->hash & mask;
    while (children[i] != NULL) {
        i = (i + 1) & mask;
    }
    children[i] = child;
}

static status_t child_add(trie_node_t *node, trie_node_t *child) {
    uint32_t size = node->children == NULL ? 0 : node->mask + 1;
    if ((uint64_t)(node->child_count + 1) * 4 > (uint64_t)size * 3) {
        uint32_t grown_size = size == 0 ? TRIE_CHILDREN_FIRST : size * 2;
        trie_node_t **grown = calloc(grown_size, sizeof(trie_node_t *));
        if (grown == NULL) {
            return STATUS_NO_MEMORY;
        }
        for (uint32_t i = 0; i < size; i++) {
            if (node->children[i] != NULL) {
                child_place(grown, grown_size - 1, node->children[i]);
            }
        }
        free(node->children);
        node->children = grown;
        node->mask = grown_size - 1;
    }
    child_place(node->children, node->mask, child);
    node->child_count++;
    return STATUS_OK;
}

static void child_drop(trie_node_t *node, trie_node_t *child) {
    uint32_t i = (uint32_t)child->hash & node->mask;
    while (node->children[i] != child) {
        check(node->children[i] != NULL);
        i = (i + 1) & node->mask;
    }
    node->children[i] = NULL;
    node->child_count--;
    /* Moves entries back that had probed past this slot. */
    for (uint32_t j = (i + 1) & node->mask; node->children[j] != NULL; j = (j + 1) & node->mask) {
        trie_node_t *moved = node->children[j];
        node->children[j] = NULL;
        child_place(node->children, node->mask, moved);
    }
    if (node->child_count == 0) {
        free(node->children);
        node->children = NULL;
        node->mask = 0;
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
            next = trie_node_new(node, token, hash);
            if (next == NULL || (slot == NULL && child_add(node, next) != STATUS_OK)) {
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
    while (node->parent != NULL && node->plain.count == 0 && node->group_count == 0 && node->child_count == 0
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

/* The group's slot, or the free slot that it would take; the table always has one. */
static trie_group_t *group_slot(trie_group_t *groups, uint32_t capacity, bytes_t queue, uint64_t hash) {
    uint32_t i = (uint32_t)hash & (capacity - 1);
    while (groups[i].queue.size != 0 && (groups[i].hash != hash || !bytes_equal(groups[i].queue, queue))) {
        i = (i + 1) & (capacity - 1);
    }
    return &groups[i];
}

static trie_group_t *group_find(trie_node_t *node, bytes_t queue) {
    if (node->group_count == 0) {
        return NULL;
    }
    trie_group_t *group = group_slot(node->groups, node->group_capacity, queue, hash_bytes(queue.at, queue.size));
    return group->queue.size == 0 ? NULL : group;
}

static void group_move(trie_group_t *to, trie_group_t *from) {
    *to = *from;
    trie_list_moved(&to->members);
    memset(from, 0, sizeof(*from));
}

static status_t groups_grow(trie_node_t *node) {
    uint32_t capacity = node->group_capacity == 0 ? TRIE_GROUPS_FIRST : node->group_capacity * 2;
    trie_group_t *grown = calloc(capacity, sizeof(*grown));
    if (grown == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < node->group_capacity; i++) {
        trie_group_t *group = &node->groups[i];
        if (group->queue.size != 0) {
            group_move(group_slot(grown, capacity, group->queue, group->hash), group);
        }
    }
    free(node->groups);
    node->groups = grown;
    node->group_capacity = capacity;
    return STATUS_OK;
}

static trie_group_t *trie_group_make(trie_node_t *node, bytes_t queue) {
    if ((uint64_t)(node->group_count + 1) * 4 > (uint64_t)node->group_capacity * 3 && groups_grow(node) != STATUS_OK) {
        return NULL;
    }
    uint8_t *copy = malloc(queue.size);
    if (copy == NULL) {
        return NULL;
    }
    memcpy(copy, queue.at, queue.size);
    uint64_t hash = hash_bytes(queue.at, queue.size);
    trie_group_t *group = group_slot(node->groups, node->group_capacity, queue, hash);
    group->queue = bytes_of(copy, queue.size);
    group->hash = hash;
    node->group_count++;
    return group;
}

static void group_drop(trie_node_t *node, trie_group_t *group) {
    trie_list_free(&group->members);
    free((void *)(uintptr_t)group->queue.at);
    memset(group, 0, sizeof(*group));
    if (--node->group_count == 0) {
        free(node->groups);
        node->groups = NULL;
        node->group_capacity = 0;
        return;
    }
    /* Moves entries back that had probed past this slot. */
    uint32_t mask = node->group_capacity - 1, i = (uint32_t)(group - node->groups);
    for (uint32_t j = (i + 1) & mask; node->groups[j].queue.size != 0; j = (j + 1) & mask) {
        trie_group_t moved = {0};
        group_move(&moved, &node->groups[j]);
        group_move(group_slot(node->groups, node->group_capacity, moved.queue, moved.hash), &moved);
    }
}

status_t trie_attach(trie_node_t *node, route_target_t *target, bytes_t queue) {
    if (queue.size == 0) {
        return trie_list_add(&node->plain, target);
    }
    trie_group_t *group = group_find(node, queue);
    if (group == NULL) {
        group = trie_group_make(node, queue);
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
    trie_group_t *group = group_find(node, target->queue);
    check(group != NULL);
    trie_list_drop(&group->members, target);
    if (group->members.count == 0) {
        group_drop(node, group);
    }
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

static status_t found_add(trie_found_t *found, trie_node_t *node) {
    if (node->plain.count == 0 && node->group_count == 0) {
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
    for (uint32_t i = 0; i < node->group_capacity; i++) {
        if (!trie_list_each(&node->groups[i].members, visit, context)) {
            return false;
        }
    }
    for (uint32_t i = 0; node->children != NULL && i <= node->mask; i++) {
        if (!trie_each(node->children[i], visit, context)) {
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
    uint32_t groups = 0;
    for (uint32_t i = 0; i < node->group_capacity; i++) {
        trie_group_t *group = &node->groups[i];
        if (group->queue.size == 0) {
            check(group->members.count == 0);
            continue;
        }
        groups++;
        check(group->members.count != 0);
        check(group_slot(node->groups, node->group_capacity, group->queue, group->hash) == group);
        trie_list_check(node, &group->members, group->queue);
        count += group->members.count;
    }
    check(groups == node->group_count);
    uint32_t children = 0;
    for (uint32_t i = 0; node->children != NULL && i <= node->mask; i++) {
        const trie_node_t *child = node->children[i];
        if (child != NULL) {
            children++;
            check(child->parent == node);
            check(child_find(node, bytes_of(child->token, child->token_size), child->hash) == child);
            count += trie_check(child);
        }
    }
    check(children == node->child_count);
    check(node->parent == NULL || count + children != 0 || node->star != NULL || node->rest != NULL);
    return count + trie_check(node->star) + trie_check(node->rest);
}
