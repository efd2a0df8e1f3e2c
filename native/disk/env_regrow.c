/* env_regrow.c: a damaged page is made anew in its place of what other pages have, while the store runs, and nothing of
 * it is lost. See env.h.
 *
 *     a branch    all pages - used - free = the orphans, and those among them to which no other orphan leads hung from
 *                 it: their first keys and numbers are what it had
 *     a leaf of   the twin has the same entries under the same keys: those between the keys of the pages above are
 *     records     what it had
 *     .. heads,   follow from the messages, names from the definitions, and each of the tables of ids from the other
 *     ids, names  one: store/derive.c gives the entries. An entry that stays away had nothing to follow from
 *     the first   its entry says how large the value is; what the page has of the value stays, and a checksum says
 *     of a value  whether that is still it
 *
 * The database's own record says how many branches and leaves it has. As many have to be reached or found, or the page
 * is left alone: something else is damaged, too, or that page is not the one that is missing. As in env_patch.c it is
 * written only when all that the commit uses was gone over, and nothing else uses it. Entries that follow from others
 * are made of a commit that is of one moment (env_view_whole).
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/array.h"
#include "disk/entry.h"
#include "disk/env_lmdb.h"
#include "disk/reach.h"
#include "disk/waiting.h"

#define CHILDREN_MIN 64
#define CHILDREN_MAX 65536u
#define ENTRIES_MAX 1024u /* of a page */
#define PAGES_AT_ONCE 16u /* between two looks at the time */

/* An entry of the leaf that is made, as LMDB is to have it. */
typedef struct given {
    uint32_t key_size;
    uint32_t value_size;
    uint8_t *at; /* the key, then the value; own memory */
} given_t;

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
    env_supply_t supply;
    given_t *given;
    uint64_t given_count;
    uint64_t given_capacity;
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

status_t env_regrow_begin(env_t *env, uint64_t page, env_supply_t supply, env_regrow_t **out) {
    env_regrow_t *regrow = calloc(1, sizeof *regrow);
    *out = NULL;
    if (regrow == NULL) {
        return STATUS_NO_MEMORY;
    }
    *regrow = (env_regrow_t){.env = env, .page = (size_t)page, .at = 2, .supply = supply};
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
        for (uint64_t i = 0; i < regrow->given_count; i++) {
            free(regrow->given[i].at);
        }
        free(regrow->given);
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
    const trees_t *trees = env_view_trees(regrow->view);
    uint32_t size = trees->meta.page_size, value_size = regrow->place.value_size;
    const uint8_t *page = trees->map + regrow->page * (uint64_t)size;
    return sound_page(regrow, regrow->page, true, (page_bounds_t){0}) != NULL
           || sound_page(regrow, regrow->page, false, (page_bounds_t){0}) != NULL
           || (value_size > 0 && page_overflow_judge(page, size, regrow->page, value_size, false) == NULL);
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

/* ---- a leaf whose entries are given ------------------------------------------------------------------------------ */

/* Of the leaf's database; DB_COUNT: nobody knows from what its entries follow. */
static store_db_t derived_db(const char *name) {
    return strcmp(name, "heads") == 0      ? DB_HEADS
           : strcmp(name, "ids") == 0      ? DB_IDS
           : strcmp(name, "id_order") == 0 ? DB_ID_ORDER
           : strcmp(name, "names") == 0    ? DB_NAMES
                                           : DB_COUNT;
}

env_view_t *env_regrow_view(const env_regrow_t *regrow) {
    return regrow->view;
}

bool env_regrow_spans(const env_regrow_t *regrow, uint32_t stream) {
    bytes_t low = low_of(regrow), high = high_of(regrow);
    return (low.size < 4 || load_be32(low.at) <= stream) && (high.size < 4 || stream <= load_be32(high.at));
}

bool env_regrow_holds(const env_regrow_t *regrow, store_db_t db, bytes_t key) {
    store_key_t room;
    return in_bounds(regrow, env_stored_key(regrow->env, db, key, &room));
}

uint64_t env_regrow_entries(const env_regrow_t *regrow) {
    return regrow->place.entries;
}

/* LMDB lays a larger entry on pages of its own. */
static bool lies_in_leaf(const env_regrow_t *regrow, uint64_t key_size, uint64_t value_size) {
    uint32_t size = env_view_trees(regrow->view)->meta.page_size;
    return PAGE_NODE_HEAD + key_size + value_size <= (((size - PAGE_HEAD) / 2) & ~UINT64_C(1)) - 2;
}

status_t env_regrow_give(env_regrow_t *regrow, store_db_t db, bytes_t key, bytes_t value) {
    const sealer_t *sealer = regrow->env->sealer;
    bool sealed = entry_sealed(sealer, db);
    store_key_t room;
    bytes_t lmdb = env_stored_key(regrow->env, db, key, &room);
    uint32_t size = sealed ? entry_size(sealer, db, key, value) : value.size;
    if (regrow->given_count == ENTRIES_MAX || env_view_trees(regrow->view) == NULL
        || !lies_in_leaf(regrow, lmdb.size, size)) {
        return STATUS_FULL;
    }
    status_t status =
        array_reserve(&regrow->given, &regrow->given_capacity, regrow->given_count + 1, CHILDREN_MIN, sizeof(given_t));
    uint8_t *at = status == STATUS_OK ? malloc((size_t)lmdb.size + size) : NULL;
    if (at == NULL) {
        return STATUS_NO_MEMORY;
    }
    uint8_t *to = bytes_write(at, lmdb);
    if (sealed) {
        sealer_item_t item = entry_item(db, key, bytes_of(at, lmdb.size), value, to);
        sealer->seal(sealer->context, SEALER_PLANE, &item, 1);
    } else {
        (void)bytes_write(to, value);
    }
    regrow->given[regrow->given_count++] = (given_t){.key_size = lmdb.size, .value_size = size, .at = at};
    return STATUS_OK;
}

static int given_by_key(const void *a, const void *b) {
    const given_t *left = a, *right = b;
    return bytes_compare(bytes_of(left->at, left->key_size), bytes_of(right->at, right->key_size));
}

/* LMDB knows no leaf without an entry: one that proves nothing is there then, which its reader takes for damage. */
static status_t make_given(env_regrow_t *regrow, uint8_t *made, const char **what) {
    static const uint8_t nothing[VALUE_CRC_SIZE];
    const trees_t *trees = env_view_trees(regrow->view);
    page_entry_t entries[ENTRIES_MAX];
    uint32_t count = (uint32_t)regrow->given_count;
    if (count > 1) {
        qsort(regrow->given, count, sizeof(given_t), given_by_key);
    }
    for (uint32_t i = 0; i < count; i++) {
        const given_t *given = &regrow->given[i];
        entries[i] = (page_entry_t){.key = bytes_of(given->at, given->key_size),
                                    .value = bytes_of(given->at + given->key_size, given->value_size)};
    }
    if (count == 0 && regrow->place.low_size > 0) {
        entries[count++] = (page_entry_t){.key = low_of(regrow), .value = bytes_of(nothing, sizeof nothing)};
    }
    *what = "of what its entries follow from";
    return page_make(made, trees->meta.page_size, regrow->page, true, entries, count) ? STATUS_OK : STATUS_INVALID;
}

/* ---- the first page of a large value ----------------------------------------------------------------------------- */

/* Whose message it is: the key says so in a database of messages. */
static void tell_message(const env_regrow_t *regrow, env_regrown_t *regrown) {
    bytes_t key = low_of(regrow);
    bytes_t value = BYTES_NONE;
    const char *name = regrow->place.name;
    bool own = name[0] == 'm' && (strlen(name) == strlen("m00000001") || strcmp(name, "messages") == 0);
    if (own && key.size == MESSAGE_KEY_SIZE) {
        regrown->message = true;
        regrown->stream = load_be32(key.at);
        regrown->seq = load_be64(key.at + 4);
        switch (env_view_get(regrow->view, DB_MESSAGES, key, &value)) {
        case READ_UNKNOWN:
        case READ_NONE: regrown->lost = true; break;
        case READ_FOUND: regrown->lost = !value_sound(key, value); break;
        }
    }
}

static status_t regrow_large(env_regrow_t *regrow, uint8_t *made, env_regrown_t *regrown) {
    const trees_t *trees = env_view_trees(regrow->view);
    uint32_t size = trees->meta.page_size;
    const uint8_t *page = trees->map + regrow->page * (uint64_t)size;
    memcpy(made, page, size);
    page_overflow_make(made, size, regrow->page, regrow->place.value_size);
    env_patch_keep(regrow->env, regrow->page, page);
    status_t status = env_patch_put(regrow->env, regrow->page, made, size);
    if (status == STATUS_OK) {
        regrown->how = "of its entry, as the first page of a large value";
        tell_message(regrow, regrown);
    }
    return status;
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

static status_t regrow_finish(env_regrow_t *regrow, env_regrown_t *regrown) {
    const reach_place_t *place = &regrow->place;
    uint8_t *made = calloc(1, env_view_trees(regrow->view)->meta.page_size);
    status_t status;
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    if (place->value_size > 0) {
        status = regrow_large(regrow, made, regrown);
    } else {
        status = place->below > 0                      ? make_branch(regrow, made, &regrown->how)
                 : derived_db(place->name) != DB_COUNT ? make_given(regrow, made, &regrown->how)
                                                       : make_twin(regrow, made, &regrown->how);
        status = status == STATUS_OK ? write_made(regrow, made) : status;
    }
    free(made);
    return status;
}

/* STATUS_OK: all entries are given, or none need be. */
static status_t step_supply(env_regrow_t *regrow, int64_t until_ns) {
    const reach_place_t *place = &regrow->place;
    store_db_t db = place->below == 0 && place->value_size == 0 ? derived_db(place->name) : DB_COUNT;
    if (db == DB_COUNT) {
        return STATUS_OK;
    }
    if (db != DB_NAMES && !env_view_whole(regrow->view)) { /* a name is written in one transaction with its record */
        return STATUS_EXISTS;
    }
    status_t status = regrow->supply.step(regrow->supply.context, regrow, db, until_ns);
    return status == STATUS_OK || status == STATUS_AGAIN ? status : STATUS_INVALID;
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

status_t env_regrow_step(env_regrow_t *regrow, int64_t until_ns, env_regrown_t *regrown) {
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
    status_t status = step_supply(regrow, until_ns);
    return status == STATUS_OK ? regrow_finish(regrow, regrown) : status;
}
