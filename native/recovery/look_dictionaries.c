/* look_dictionaries.c: the dictionaries of a store that is looked at, for the messages that need them. All of them are
 * read when the first message asks: a look goes through all messages, and finds none of LMDB's ways to a single entry.
 */
#include <stdlib.h>

#include "base/array.h"
#include "recovery/look.h"

#define FOUND_MIN 16

static bool is_of_dictionaries(void *context, const char *database) {
    (void)context;
    store_db_t db = look_database(database);
    return db == DB_DICTIONARIES || db == DB_DICTIONARY_COPIES;
}

static status_t take_dictionary(void *context, const char *database, bytes_t key, bytes_t value) {
    store_look_t *look = context;
    look_dictionaries_t *all = &look->dictionaries;
    unsealed_t room = {0};
    dictionary_t is;
    status_t status = STATUS_OK;
    if (entry_sealed(look->sealing.sealer, look_database(database))) {
        status =
            entry_open(&room, look->sealing.sealer, SEALER_PLANE, look_database(database), key, value, NULL, &value);
    }
    if (status == STATUS_OK && key.size == DICTIONARY_KEY_SIZE && dictionary_read(key, value, &is)) {
        uint8_t *text = NULL;
        status = array_reserve(&all->at, &all->capacity, all->count + 1, FOUND_MIN, sizeof *all->at);
        text = status == STATUS_OK ? malloc(is.text.size) : NULL;
        status = text != NULL ? STATUS_OK : STATUS_NO_MEMORY;
        if (status == STATUS_OK) {
            (void)bytes_write(text, is.text);
            is.text.at = text;
            all->at[all->count++] =
                (look_dictionary_t){.stream = load_be32(key.at), .id = load_be16(key.at + 4), .is = is};
        }
    }
    unsealed_forget(&room);
    return status;
}

static void pass_by_page(void *context, size_t page, const char *what) {
    (void)context;
    (void)page;
    (void)what;
}

static status_t find_looked_at(void *context, uint32_t stream, uint32_t id, const dictionary_t **dictionary) {
    store_look_t *look = context;
    look_dictionaries_t *all = &look->dictionaries;
    if (!all->read) {
        char reason[PLANE_REASON_SIZE];
        const pages_visit_t visit = {.context = look,
                                     .commit = look->hold != NULL ? &look->commit : NULL,
                                     .name = look_name,
                                     .wanted = is_of_dictionaries,
                                     .entry = take_dictionary,
                                     .damaged = pass_by_page};
        /* A damaged dictionary is told message by message. Where the list of databases is, the walk asks what messages
         * are (look_name), and they for their dictionaries: for those that were found so far. */
        all->read = true;
        unsealed_t opened = look->unsealed; /* what is to be unpacked may lie there */
        look->unsealed = (unsealed_t){0};
        status_t status = pages_each(look->lmdb, &visit, reason, sizeof reason);
        unsealed_forget(&look->unsealed);
        look->unsealed = opened;
        if (status == STATUS_NO_MEMORY) {
            look_dictionaries_forget(look);
            return status;
        }
    }
    for (uint64_t i = 0; i < all->count; i++) { /* mostly the last one again */
        const look_dictionary_t *found = &all->at[(all->last + i) % all->count];
        if (found->stream == stream && found->id == id) {
            all->last = (all->last + i) % all->count;
            *dictionary = &found->is;
            break;
        }
    }
    return STATUS_OK;
}

status_t look_unpack(store_look_t *look, bytes_t key, bytes_t packed, bytes_t *value) {
    const finder_t finder = {.context = look, .find = find_looked_at};
    return packing_unpack(&look->unsealed, &finder, key, packed, value);
}

void look_dictionaries_forget(store_look_t *look) {
    for (uint64_t i = 0; i < look->dictionaries.count; i++) {
        free((void *)(uintptr_t)look->dictionaries.at[i].is.text.at);
    }
    free(look->dictionaries.at);
    look->dictionaries = (look_dictionaries_t){0};
}
