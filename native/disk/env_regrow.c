/* env_regrow.c: a damaged page is made anew in its place of what other pages have, while the store runs, and nothing of
 * it is lost. See env.h.
 *
 *     a branch    all pages - used - free = the orphans, and those among them to which no other orphan leads hung from
 *                 it: their first keys and numbers are what it had
 *     a leaf of   the twin has the same entries under the same keys: those between the keys of the pages above are
 *     records     what it had
 *
 * The database's own record says how many branches and leaves it has. As many have to be reached or found, or the page
 * is left alone: something else is damaged, too, or that page is not the one that is missing. As in env_patch.c it is
 * written only when all that the commit uses was gone over, and nothing else uses it.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/array.h"
#include "disk/env_lmdb.h"
#include "disk/reach.h"
#include "disk/waiting.h"

#define CHILDREN_MIN 64
#define CHILDREN_MAX 65536u
#define ENTRIES_MAX 1024u /* of a page */
#define PAGES_AT_ONCE 16u /* between two looks at the time */

/* An orphan that may hang from the page. */
typedef struct child {
    size_t page;
    bool below; /* another orphan leads to it */
    uint32_t key_size;
    uint8_t key[REACH_KEY_MAX]; /* the first one below it */
} child_t;

struct env_regrow {
    env_t *env;
    env_view_t *view;
    reach_t *reach;
    bool reached;
    reach_place_t place;
    size_t page;
    size_t at; /* the next one that may be an orphan */
    uint64_t branches;
    uint64_t leaves;
    child_t *children;
    uint64_t count;
    uint64_t capacity;
};

/* The disk may give it another time, with all that it has. */
static bool is_given(const env_regrow_t *regrow) {
    const trees_t *trees = env_view_trees(regrow->view);
    uint64_t size = trees->meta.page_size;
    if (regrow->page > trees->meta.last || (regrow->page + 1) * size > trees->file_size) {
        return false;
    }
    const uint8_t *page = trees->map + regrow->page * size;
    (void)*(const volatile uint8_t *)page;
    return !unread_covers(trees->watch, page, size);
}

status_t env_regrow_begin(env_t *env, uint64_t page, env_regrow_t **out) {
    env_regrow_t *regrow = calloc(1, sizeof *regrow);
    *out = NULL;
    if (regrow == NULL) {
        return STATUS_NO_MEMORY;
    }
    *regrow = (env_regrow_t){.env = env, .page = (size_t)page, .at = 2};
    status_t status = env->memory || page < 2 ? STATUS_INVALID : env_view_open(env, &regrow->view);
    status = status == STATUS_OK && !is_given(regrow) ? STATUS_INVALID : status;
    status = status == STATUS_OK ? reach_open(env_view_trees(regrow->view), &regrow->reach) : status;
    if (status != STATUS_OK) {
        env_regrow_end(regrow);
        return status;
    }
    reach_expect(regrow->reach, (size_t)page);
    *out = regrow;
    return STATUS_OK;
}

void env_regrow_end(env_regrow_t *regrow) {
    if (regrow != NULL) {
        reach_close(regrow->reach);
        env_view_close(regrow->view);
        free(regrow->children);
    }
    free(regrow);
}

static bytes_t low_of(const env_regrow_t *regrow) {
    return bytes_of(regrow->place.low, regrow->place.low_size);
}

static bytes_t high_of(const env_regrow_t *regrow) {
    return bytes_of(regrow->place.high, regrow->place.high_size);
}

/* A page of the commit, if it is sound. NULL: it is not. */
static const uint8_t *sound_page(const env_regrow_t *regrow, size_t number, bool leaf, page_bounds_t bounds) {
    const trees_t *trees = env_view_trees(regrow->view);
    uint64_t size = trees->meta.page_size;
    uint64_t before = unread_count(trees->watch);
    if (number < 2 || number > trees->meta.last || (number + 1) * size > trees->file_size) {
        return NULL;
    }
    const uint8_t *page = trees->map + number * size;
    bool sound = page_judge(page, (uint32_t)size, number, trees->meta.last, leaf, bounds) == NULL;
    return sound && unread_count(trees->watch) == before && !unread_covers(trees->watch, page, size) ? page : NULL;
}

/* What the page itself looks like: one that is sound as it stands is another's. */
static bool looks_sound(const env_regrow_t *regrow) {
    return sound_page(regrow, regrow->page, true, (page_bounds_t){0}) != NULL
           || sound_page(regrow, regrow->page, false, (page_bounds_t){0}) != NULL;
}

/* ---- a branch ---------------------------------------------------------------------------------------------------- */

/* The first key below a page, through so many levels. false: a page on the way is damaged. */
static bool first_key(const env_regrow_t *regrow, size_t number, unsigned below, child_t *child) {
    uint32_t size = env_view_trees(regrow->view)->meta.page_size;
    for (;; below--) {
        const uint8_t *page = sound_page(regrow, number, below == 0, (page_bounds_t){0});
        if (page == NULL) {
            return false;
        }
        const uint8_t *node = page_node(page, size, 0, below == 0);
        if (below > 0) {
            number = page_node_child(node);
            continue;
        }
        bytes_t key = page_node_key(node);
        child->key_size = key.size <= REACH_KEY_MAX ? key.size : 0;
        (void)bytes_write(child->key, bytes_of(key.at, child->key_size));
        return child->key_size > 0;
    }
}

static bool in_bounds(const env_regrow_t *regrow, bytes_t key) {
    bytes_t low = low_of(regrow), high = high_of(regrow);
    return (low.size == 0 || bytes_compare(low, key) <= 0) && (high.size == 0 || bytes_compare(key, high) < 0);
}

/* An orphan: one of the tree's, or nobody's. */
static status_t orphan_take(env_regrow_t *regrow, size_t number) {
    unsigned level = regrow->place.below - 1; /* of the page's children */
    const uint8_t *leaf = sound_page(regrow, number, true, (page_bounds_t){0});
    const uint8_t *branch = leaf == NULL ? sound_page(regrow, number, false, (page_bounds_t){0}) : NULL;
    regrow->leaves += leaf != NULL;
    regrow->branches += branch != NULL;
    if ((level == 0 && leaf == NULL) || (level > 0 && branch == NULL)) {
        return STATUS_OK;
    }
    if (regrow->count == CHILDREN_MAX
        || array_reserve(&regrow->children, &regrow->capacity, regrow->count + 1, CHILDREN_MIN, sizeof(child_t))
               != STATUS_OK) {
        return STATUS_NO_MEMORY;
    }
    regrow->children[regrow->count++] = (child_t){.page = number};
    return STATUS_OK;
}

static int children_by_page(const void *a, const void *b) {
    const child_t *left = a, *right = b;
    return (left->page > right->page) - (left->page < right->page);
}

static int children_by_key(const void *a, const void *b) {
    const child_t *left = a, *right = b;
    return bytes_compare(bytes_of(left->key, left->key_size), bytes_of(right->key, right->key_size));
}

/* Leaves no orphan to which another one leads. They stand in the order of their numbers. */
static void drop_grandchildren(env_regrow_t *regrow) {
    uint32_t size = env_view_trees(regrow->view)->meta.page_size;
    uint64_t kept = 0;
    for (uint64_t i = 0; regrow->place.below > 1 && i < regrow->count; i++) {
        const uint8_t *page = sound_page(regrow, regrow->children[i].page, false, (page_bounds_t){0});
        for (uint32_t node = 0; page != NULL && node < page_nodes(page); node++) {
            const child_t wanted = {.page = page_node_child(page_node(page, size, node, false))};
            child_t *found = bsearch(&wanted, regrow->children, regrow->count, sizeof wanted, children_by_page);
            if (found != NULL) {
                found->below = true;
            }
        }
    }
    for (uint64_t i = 0; i < regrow->count; i++) {
        if (!regrow->children[i].below) {
            regrow->children[kept++] = regrow->children[i];
        }
    }
    regrow->count = kept;
}

/* Each has its keys behind those of the one before, as far as the page itself says. */
static bool children_fit(const env_regrow_t *regrow) {
    bool leaf = regrow->place.below == 1;
    for (uint64_t i = 0; i < regrow->count; i++) {
        const child_t *child = &regrow->children[i], *next = &regrow->children[i + 1];
        const page_bounds_t bounds = {.low = bytes_of(child->key, child->key_size),
                                      .high = i + 1 < regrow->count ? bytes_of(next->key, next->key_size)
                                                                    : high_of(regrow)};
        if (!in_bounds(regrow, bounds.low) || sound_page(regrow, child->page, leaf, bounds) == NULL) {
            return false;
        }
    }
    return regrow->count > 1;
}

static status_t make_branch(env_regrow_t *regrow, uint8_t *made, const char **what) {
    uint32_t size = env_view_trees(regrow->view)->meta.page_size;
    const reach_place_t *place = &regrow->place;
    page_entry_t entries[ENTRIES_MAX];
    if (place->seen_branches + regrow->branches != place->branches
        || place->seen_leaves + regrow->leaves != place->leaves) {
        return STATUS_INVALID;
    }
    drop_grandchildren(regrow);
    if (regrow->count > ENTRIES_MAX) {
        return STATUS_INVALID;
    }
    for (uint64_t i = 0; i < regrow->count; i++) {
        if (!first_key(regrow, regrow->children[i].page, place->below - 1, &regrow->children[i])) {
            return STATUS_INVALID;
        }
    }
    if (regrow->count > 1) {
        qsort(regrow->children, (size_t)regrow->count, sizeof(child_t), children_by_key);
    }
    if (!children_fit(regrow)) {
        return STATUS_INVALID;
    }
    for (uint64_t i = 0; i < regrow->count; i++) {
        const child_t *child = &regrow->children[i];
        entries[i] = (page_entry_t){.key = bytes_of(child->key, child->key_size), .child = child->page};
    }
    *what = "of the pages that hung from it";
    return page_make(made, size, regrow->page, false, entries, (uint32_t)regrow->count) ? STATUS_OK : STATUS_INVALID;
}

/* ---- a leaf of what is kept twice -------------------------------------------------------------------------------- */

/* The name of the database that has the same entries; NULL: none has. */
static const char *twin_name(const char *name) {
    static const char *const twins[] = {"records", "record_copies"};
    return strcmp(name, twins[0]) == 0 ? twins[1] : strcmp(name, twins[1]) == 0 ? twins[0] : NULL;
}

static status_t make_twin(env_regrow_t *regrow, uint8_t *made, const char **what) {
    trees_t *trees = env_view_trees(regrow->view);
    const char *name = twin_name(regrow->place.name);
    page_entry_t entries[ENTRIES_MAX];
    uint32_t count = 0;
    uint64_t large = 0;
    page_db_t db;
    tree_cursor_t cursor = {0};
    tree_entry_t entry;
    read_outcome_t outcome = name != NULL ? trees_find(trees, name, &db, &large) : READ_NONE;
    switch (outcome) {
    case READ_UNKNOWN: break;
    case READ_NONE: return STATUS_INVALID;
    case READ_FOUND:
        if (large > 0) {
            return STATUS_INVALID; /* those have pages of their own */
        }
        outcome = tree_seek(trees, db, low_of(regrow), &cursor, &entry);
        break;
    }
    while (read_goes_on(outcome) && in_bounds(regrow, entry.key)) {
        if (count == ENTRIES_MAX) {
            return STATUS_INVALID;
        }
        entries[count++] = (page_entry_t){.key = entry.key, .value = entry.value};
        outcome = tree_step(trees, &cursor, false, &entry);
    }
    if (read_known(outcome) != STATUS_OK) {
        trees->wrong = NULL; /* the twin is damaged, too, and who reads it tells of it */
        return STATUS_INVALID;
    }
    *what = "of what is kept a second time";
    return page_make(made, trees->meta.page_size, regrow->page, true, entries, count) ? STATUS_OK : STATUS_INVALID;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static status_t write_made(env_regrow_t *regrow, const uint8_t *made) {
    const trees_t *trees = env_view_trees(regrow->view);
    uint32_t size = trees->meta.page_size;
    const page_bounds_t bounds = {.low = low_of(regrow), .high = high_of(regrow)};
    if (page_judge(made, size, regrow->page, trees->meta.last, regrow->place.below == 0, bounds) != NULL) {
        return STATUS_INVALID;
    }
    env_patch_keep(regrow->env, regrow->page, trees->map + regrow->page * (uint64_t)size);
    return env_patch_put(regrow->env, regrow->page, made, size);
}

static status_t regrow_finish(env_regrow_t *regrow, const char **what) {
    uint8_t *made = calloc(1, env_view_trees(regrow->view)->meta.page_size);
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    status_t status = regrow->place.below > 0 ? make_branch(regrow, made, what) : make_twin(regrow, made, what);
    status = status == STATUS_OK ? write_made(regrow, made) : status;
    free(made);
    return status;
}

static status_t step_reach(env_regrow_t *regrow, int64_t until_ns) {
    status_t status = reach_step(regrow->reach, until_ns);
    if (status == STATUS_AGAIN) {
        return status;
    }
    bool alone = status == STATUS_OK && reach_is_apart(regrow->reach) && reach_place(regrow->reach, &regrow->place)
                 && regrow->place.name[0] != 0 && !looks_sound(regrow);
    regrow->reached = true;
    return alone ? STATUS_AGAIN : STATUS_INVALID;
}

status_t env_regrow_step(env_regrow_t *regrow, int64_t until_ns, const char **what) {
    const trees_t *trees = env_view_trees(regrow->view);
    if (trees == NULL) {
        return STATUS_INVALID; /* LMDB was opened again */
    }
    if (!regrow->reached) {
        return step_reach(regrow, until_ns);
    }
    for (uint32_t i = 1; regrow->place.below > 0 && regrow->at <= trees->meta.last; i++, regrow->at++) {
        if (reach_is_orphan(regrow->reach, regrow->at)) {
            status_t status = orphan_take(regrow, regrow->at);
            if (status != STATUS_OK) {
                return status;
            }
        }
        if (i % PAGES_AT_ONCE == 0 && thread_elapsed_ns() >= until_ns) {
            regrow->at++;
            return STATUS_AGAIN;
        }
    }
    return regrow_finish(regrow, what);
}
