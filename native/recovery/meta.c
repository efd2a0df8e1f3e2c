/* meta.c: see meta.h.
 *
 *     format or key damaged              they are kept twice (env_twins.c)
 *     the note damaged                   it becomes the beginning of the unbroken row of batches that ends with the
 *                                        journal's newest. LMDB is further than that; batches are applied again. So is
 *                                        the store's id that of the journal, where both copies are lost.
 *     without such a row                 the start is refused; when the loss is accepted, the journal is set aside
 *     use of the journal, clock          the start does without
 *     key destroyed                      the entries tell which of the keys that were given it is (sealing.c)
 */
#include "recovery/meta.h"
#include "store/overlay.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#define ENTRIES_MAX 16
#define KEY_ROOM 32
#define VALUE_ROOM 64

static const struct {
    const char *name;
    uint32_t size; /* of the value */
} rows[META_COUNT] = {
    [META_FORMAT] = {STORE_FORMAT_KEY, STORE_FORMAT_SIZE},
    [META_APPLIED] = {"applied", VALUE_CRC_SIZE + 20}, /* its place, number and chain */
    [META_JOURNAL] = {"journal", VALUE_CRC_SIZE + 9},
    [META_CLOCK] = {"clock", VALUE_CRC_SIZE + CLOCK_RECORD_SIZE},
    [META_KEY] = {SEALING_RECORD, SEALING_RECORD_SIZE},
};

typedef struct entry {
    uint8_t key[KEY_ROOM];
    uint8_t value[VALUE_ROOM];
    uint32_t key_size;
    uint32_t value_size;
} entry_t;

typedef struct entries {
    entry_t at[ENTRIES_MAX];
    uint32_t count;
} entries_t;

static bytes_t name_of(unsigned row) {
    return bytes_of(rows[row].name, (uint32_t)strlen(rows[row].name));
}

static bytes_t meta_key(const entry_t *entry) {
    return bytes_of(entry->key, entry->key_size);
}

static bytes_t value_of(const entry_t *entry) {
    return bytes_of(entry->value, entry->value_size);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

static status_t meta_collect(env_t *env, entries_t *entries) {
    static const uint8_t lowest[] = {0};
    bytes_t key = BYTES_NONE;
    bytes_t value = BYTES_NONE;
    entries->count = 0;
    read_outcome_t outcome = env_seek(env, DB_META, bytes_of(lowest, sizeof lowest), &key, &value);
    while (read_goes_on(outcome) && entries->count < ENTRIES_MAX) {
        if (key.size <= KEY_ROOM && value.size <= VALUE_ROOM) {
            entry_t *entry = &entries->at[entries->count++];
            memcpy(entry->key, key.at, key.size);
            memcpy(entry->value, value.at, value.size);
            entry->key_size = key.size;
            entry->value_size = value.size;
        }
        outcome = env_next(env, DB_META, bytes_of(lowest, sizeof lowest), &key, &value);
    }
    return read_known(outcome);
}

static bool is_row(const entry_t *entry, unsigned row) {
    return bytes_equal(meta_key(entry), name_of(row));
}

static bool sound_in(const entries_t *entries, unsigned row) {
    for (uint32_t i = 0; i < entries->count; i++) {
        if (is_row(&entries->at[i], row) && value_sound(name_of(row), value_of(&entries->at[i]))) {
            return true;
        }
    }
    return false;
}

/* All of them, in a transaction of its own. */
static status_t write_anew(env_t *env, const entries_t *entries) {
    static const uint8_t lowest[] = {0};
    static const uint8_t highest[] = {0xff};
    uint64_t done;
    status_t status = env_write_begin(env);
    if (status != STATUS_OK) {
        return status;
    }
    status = env_write_delete_range(env, DB_META, bytes_of(lowest, 1), bytes_of(highest, 1), UINT64_MAX, &done);
    for (uint32_t i = 0; status == STATUS_OK && i < entries->count; i++) {
        status = env_write_put(env, DB_META, meta_key(&entries->at[i]), value_of(&entries->at[i]));
    }
    if (status == STATUS_OK) {
        return env_write_commit(env);
    }
    env_write_abort(env);
    return status;
}

/* A key beside it that is wrong can hide a record from LMDB's search. */
static status_t look_hidden(env_t *env, unsigned row, bool *hidden) {
    bytes_t value;
    read_outcome_t outcome = env_get(env, DB_META, name_of(row), &value);
    switch (outcome) {
    case READ_NONE: *hidden = true; break;
    case READ_FOUND:
    case READ_UNKNOWN: break;
    }
    return read_known(outcome);
}

/* Tells which definition was damaged, by what is left of it. */
static void tell_damaged(store_t *store, const entry_t *entry) {
    const char *name = NULL;
    for (unsigned row = 0; row < META_COUNT; row++) {
        bool named = is_row(entry, row);
        name = named || (name == NULL && entry->value_size == rows[row].size) ? rows[row].name : name;
    }
    store_damaged(store, 1);
    if (name != NULL) {
        store_alarm(store, ALARM_CORRUPT, 0, 0, "the record \"%s\" of data.mdb was damaged", name);
    } else {
        store_alarm(store, ALARM_CORRUPT, 0, 0, "a record of data.mdb was damaged");
    }
}

/* Drops entries that do not prove themselves: a name that was destroyed may stand where no search expects it, and would
 * hide what is put next. Returns how many went. */
static uint32_t drop_unsound(store_t *store, entries_t *entries) {
    uint32_t count = entries->count;
    entries->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        entry_t *entry = &entries->at[i];
        if (value_sound(meta_key(entry), value_of(entry))) {
            entries->at[entries->count++] = *entry;
        } else {
            tell_damaged(store, entry);
        }
    }
    return count - entries->count;
}

static void take_twin(env_t *env, entries_t *entries, unsigned row) {
    bytes_t value = BYTES_NONE;
    switch (env_get_twin(env, DB_META, name_of(row), &value)) {
    case READ_NONE:
    case READ_UNKNOWN: return; /* as without a twin: who needs the record fails for want of it */
    case READ_FOUND: break;
    }
    if (entries->count < ENTRIES_MAX && value.size == rows[row].size && value_sound(name_of(row), value)) {
        entry_t *entry = &entries->at[entries->count++];
        entry->key_size = name_of(row).size;
        entry->value_size = value.size;
        memcpy(entry->key, name_of(row).at, entry->key_size);
        memcpy(entry->value, value.at, value.size);
    }
}

status_t meta_look(opening_t *opening, meta_t *meta) {
    store_t *store = opening->store;
    entries_t entries;
    status_t status = meta_collect(store->env, &entries);
    uint32_t count = entries.count;
    bool unread = status != STATUS_OK; /* and could not be mended: nothing can be written there */
    bool anew = drop_unsound(store, &entries) > 0;
    *meta = (meta_t){.strange = anew || unread};
    for (unsigned row = 0; row < META_COUNT; row++) {
        if (!sound_in(&entries, row)) {
            take_twin(store->env, &entries, row);
        }
        meta->has[row] = sound_in(&entries, row);
        status = !unread && status == STATUS_OK && meta->has[row] ? look_hidden(store->env, row, &anew) : status;
    }
    for (uint32_t i = 0; i < entries.count; i++) {
        bool known = false;
        for (unsigned row = 0; row < META_COUNT; row++) {
            known |= is_row(&entries.at[i], row);
        }
        meta->strange |= !known;
    }
    meta->empty = entries.count == 0 && count == 0;
    if (unread && opening->last && meta->has[META_FORMAT]) {
        return STATUS_OK; /* the note: meta_replace */
    }
    if (status == STATUS_OK && anew) {
        status = write_anew(store->env, &entries);
    }
    return status == STATUS_OK ? status : opening_fail(opening, status, "cannot read the store in", 0);
}

/* ---- writing, unsealing and replacing ---------------------------------------------------------------------------- */

static bool find_note(opening_t *opening) {
    store_t *store = opening->store;
    journal_t journal = {.sealer = store->options.sealer};
    journal_found_t found;
    bool known =
        journal_open(&journal, store->directory, opening->store_id, &found, opening->reason, opening->reason_size)
            == STATUS_OK
        && found == JOURNAL_SOUND
        && journal_row(&journal, opening->store_id, &opening->position, &opening->number, &opening->chain);
    journal_close(&journal);
    return known;
}

static status_t meta_write(opening_t *opening, bool format, bool note) {
    env_t *env = opening->store->env;
    status_t status = env_write_begin(env);
    if (status == STATUS_OK && format) {
        status = env_formats_put(env, opening->store_id, opening->store->options.sealer != NULL);
    }
    if (status == STATUS_OK && note) {
        return keeper_commit(env, opening->position, opening->number, opening->chain);
    }
    if (status == STATUS_OK) {
        return env_write_commit(env);
    }
    env_write_abort(env);
    return status;
}

status_t meta_unseal(opening_t *opening, bool fresh, bool sealed) {
    store_t *store = opening->store;
    char why[400] = "";
    status_t status = fresh ? sealing_begin(&store->sealing, store->env, opening->store_id, why, sizeof why)
                            : sealing_resume(&store->sealing, store->env, opening->store_id, sealed, opening->accepted,
                                             why, sizeof why);
    if (status != STATUS_OK) {
        snprintf(opening->reason, opening->reason_size, "the store in %s %s", store->directory, why);
    }
    if (store->sealing.surveyed) {
        store_damaged(store, 1);
        store_alarm(store, ALARM_CORRUPT, 0, 0,
                    "the record \"key\" of data.mdb was damaged and is made anew: all that is stored was looked at");
    }
    store->options.sealer = store->journal.sealer = store->sealing.sealer;
    return status;
}

static status_t unseal_again(opening_t *opening, bool owned, bool keyed) {
    store_t *store = opening->store;
    if (keyed && !owned) {
        return opening_fail(opening, STATUS_CORRUPT,
                            "both places that tell the id of an encrypted store are damaged in", 0);
    }
    status_t status = env_write_begin(store->env);
    if (status == STATUS_OK) {
        status = meta_unseal(opening, false, keyed || (store->sealing.keys == NULL && store->sealing.sealer != NULL));
        env_write_abort(store->env);
    }
    return status;
}

status_t meta_replace(opening_t *opening, const meta_t *meta) {
    store_t *store = opening->store;
    bool format = !meta->has[META_FORMAT];
    bool note = !meta->has[META_APPLIED];
    bool owned = true;
    char what[96];
    snprintf(what, sizeof what, "the record \"%s\"%s of data.mdb is damaged",
             rows[format ? META_FORMAT : META_APPLIED].name, format && note ? " and \"applied\"" : "");
    if (format) {
        owned = journal_owner(store->directory, opening->store_id);
        if (!owned && !opening->accepted) {
            return recover_refuse(opening, STATUS_CORRUPT, what);
        }
        if (!owned && getrandom(opening->store_id, STORE_ID_SIZE, 0) != STORE_ID_SIZE) {
            return opening_fail(opening, STATUS_IO, "no random numbers for", errno);
        }
        status_t known = unseal_again(opening, owned, meta->has[META_KEY]);
        if (known != STATUS_OK) {
            return known;
        }
    }
    bool found = owned && (!note || find_note(opening));
    if (!found && !opening->accepted) {
        return recover_refuse(opening, STATUS_CORRUPT, what);
    }
    if (!found && note) {
        opening->position = RECOVER_FIRST_POSITION;
        opening->number = 0;
        opening->chain = 0;
    }
    opening->distrusted = !found;
    store_damaged(store, 1);
    if (found) {
        store_alarm(store, ALARM_CORRUPT, 0, 0, "%s: it was made anew from the journal, and nothing is lost", what);
    } else {
        store_alarm(store, ALARM_CORRUPT, 0, 0,
                    "%s and the loss is accepted: what was acknowledged since the last checkpoint is lost", what);
    }
    status_t status = meta_write(opening, format, note);
    if (status == STATUS_CORRUPT && opening->last && found) {
        return STATUS_OK; /* a page that could not be mended stands in its way: what is there is served */
    }
    return status == STATUS_OK ? status : opening_fail(opening, status, "cannot write to the store in", 0);
}
