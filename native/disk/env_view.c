/* env_view.c: snapshots of LMDB that stay while the plane's own moves on: for reading much of one commit, in steps.
 * See env.h.
 *
 * A view has a read transaction and its own trees. While it is open LMDB uses none of the pages again that it may
 * read, so the file grows by what is written meanwhile: its owner bounds how long.
 */
#include <stdlib.h>

#include "disk/env_lmdb.h"

typedef struct view_place {
    bool known;
    uint32_t index;
    page_db_t root;
    tree_cursor_t cursor;
} view_place_t;

struct env_view {
    env_t *env;
    MDB_txn *txn; /* NULL: LMDB was opened again since */
    trees_t trees;
    bool whole;
    view_place_t places[DB_COUNT];
    env_view_t *next;
    env_view_t **place;
};

static void view_end(env_view_t *view) {
    if (view->txn != NULL) {
        mdb_txn_abort(view->txn);
        trees_close(&view->trees);
        view->txn = NULL;
    }
}

void env_views_end(env_t *env) {
    for (env_view_t *view = env->views; view != NULL; view = view->next) {
        view_end(view);
    }
}

status_t env_view_open(env_t *env, env_view_t **out) {
    env_view_t *view = calloc(1, sizeof *view);
    *out = NULL;
    if (view == NULL || env->env == NULL) {
        free(view);
        return view == NULL ? STATUS_NO_MEMORY : STATUS_IO;
    }
    view->env = env;
    uint64_t wholes = atomic_load(&env->wholes);
    status_t status = env_read_code(mdb_txn_begin(env->env, NULL, MDB_RDONLY, &view->txn));
    view->whole = wholes % 2 == 0 && atomic_load(&env->wholes) == wholes;
    if (status != STATUS_OK) {
        free(view);
        return status;
    }
    status = trees_open(&view->trees, env_file(env), env->map_size);
    if (status == STATUS_OK) {
        view->trees.meta.page_size = env->page_size;
        view->trees.epoch = 1;
        status = trees_renew(&view->trees, mdb_txn_id(view->txn));
    }
    if (status != STATUS_OK) {
        view_end(view);
        free(view);
        return status;
    }
    view->next = env->views;
    view->place = &env->views;
    if (view->next != NULL) {
        view->next->place = &view->next;
    }
    env->views = view;
    *out = view;
    return STATUS_OK;
}

void env_set_whole(env_t *env, bool whole) {
    atomic_store(&env->wholes, whole ? 0 : 1);
}

void env_write_whole(env_t *env) {
    env->makes_whole = true;
}

bool env_view_whole(const env_view_t *view) {
    return view->whole;
}

trees_t *env_view_trees(env_view_t *view) {
    return view->txn != NULL ? &view->trees : NULL;
}

void env_view_close(env_view_t *view) {
    if (view == NULL) {
        return;
    }
    view_end(view);
    *view->place = view->next;
    if (view->next != NULL) {
        view->next->place = view->place;
    }
    free(view);
}

/* Where a database stands in the view. */
static status_t place_of(env_view_t *view, store_db_t db, bytes_t key, view_place_t **out) {
    env_t *env = view->env;
    view_place_t *place = &view->places[db];
    bool large;
    *out = place;
    if (view->txn == NULL) {
        return STATUS_IO;
    }
    uint32_t index = env_index(env, &env->read_slots, db, key);
    if (place->known && place->index == index) {
        return STATUS_OK;
    }
    place->index = index;
    place->known = false;
    status_t status = env_find_root(env, &view->trees, place->index, &place->root, &large);
    place->known = status == STATUS_OK;
    return status;
}

static read_outcome_t view_found(env_view_t *view, store_db_t db, read_outcome_t outcome, const tree_entry_t *entry,
                                 bytes_t *found, bytes_t *value) {
    switch (outcome) {
    case READ_NONE: break;
    case READ_UNKNOWN:
        env_note_unread(view->env);
        env_tell_wrong(view->env, &view->trees, view->places[db].known ? view->places[db].index : DBS_MAX);
        break;
    case READ_FOUND:
        *found = entry->key;
        *value = entry->value;
        return read_if(env_plain_of(view->env, db, entry->key, found, value));
    }
    return outcome;
}

read_outcome_t env_view_seek(env_view_t *view, store_db_t db, bytes_t key, bytes_t *found, bytes_t *value) {
    view_place_t *place;
    tree_entry_t entry = {0};
    bool stands = place_of(view, db, key, &place) == STATUS_OK;
    read_outcome_t outcome = stands ? tree_seek(&view->trees, place->root, key, &place->cursor, &entry) : READ_UNKNOWN;
    return view_found(view, db, outcome, &entry, found, value);
}

read_outcome_t env_view_next(env_view_t *view, store_db_t db, bytes_t *found, bytes_t *value) {
    view_place_t *place = &view->places[db];
    tree_entry_t entry = {0};
    bool stands = view->txn != NULL && place->known;
    read_outcome_t outcome = stands ? tree_step(&view->trees, &place->cursor, false, &entry) : READ_UNKNOWN;
    return view_found(view, db, outcome, &entry, found, value);
}

read_outcome_t env_view_get(env_view_t *view, store_db_t db, bytes_t key, bytes_t *value) {
    store_key_t room;
    bytes_t lmdb = env_stored_key(view->env, db, key, &room);
    bytes_t found = BYTES_NONE;
    view_place_t *place;
    tree_entry_t entry = {.key = lmdb};
    bool stands = place_of(view, db, key, &place) == STATUS_OK;
    read_outcome_t outcome = stands ? tree_get(&view->trees, place->root, lmdb, &entry.value) : READ_UNKNOWN;
    return view_found(view, db, outcome, &entry, &found, value);
}
