/* records.c: the small durable records that others keep here (definitions, consumer states, pendings, control's own).
 */
#include <stdlib.h>

#include "base/array.h"
#include "base/check.h"
#include "store/overlay.h"
#include "store/record.h"

#define NOTES_BESIDE 32 /* of all that one call notes */

static bool fits_key(bytes_t key) {
    return key.size <= KEY_RECORD_MAX;
}

bool store_record_fits(store_t *store, bytes_t value) {
    const uint64_t stream = 8192;
    return value.size <= STORE_RECORD_MAX
           && overlay_fits(store, op_size(KEY_MAX, VALUE_CRC_SIZE) + value.size + stream);
}

void records_free(store_t *store) {
    newcomers_free(&store->record_ops);
}

status_t store_record_reserve(store_t *store, uint64_t count) {
    /* Each put asks for room in the table as well, and for what was promised to the batch. */
    uint64_t notes = count + NOTES_BESIDE + store->batches.promised / NOTE_BYTES_MIN;
    status_t status = overlay_reserve(store, notes);
    return status == STATUS_OK ? newcomers_reserve(&store->record_ops, count) : status;
}

status_t store_record_put(store_t *store, uint32_t kind, bytes_t key, bytes_t value) {
    if (!fits_key(key) || value.size > STORE_RECORD_MAX) {
        return STATUS_INVALID;
    }
    store_key_t full;
    key_record(&full, kind, key);
    if (!overlay_fits(store, op_size(full.size, VALUE_CRC_SIZE + value.size))) {
        return STATUS_FULL;
    }
    if (newcomers_reserve(&store->record_ops, 1) != STATUS_OK) {
        return STATUS_NO_MEMORY;
    }
    newcomers_push(&store->record_ops, store->batches.end);
    uint8_t *to = overlay_put(store, DB_RECORDS, key_bytes(&full), VALUE_CRC_SIZE + value.size, true, NULL);
    if (value.size > 0) {
        memcpy(to + VALUE_CRC_SIZE, value.at, value.size);
    }
    value_seal(key_bytes(&full), to, VALUE_CRC_SIZE + value.size);
    return STATUS_OK;
}

status_t store_record_delete(store_t *store, uint32_t kind, bytes_t key) {
    if (!fits_key(key)) {
        return STATUS_INVALID;
    }
    store_key_t full;
    key_record(&full, kind, key);
    if (!overlay_fits(store, op_size(full.size, 0))) {
        return STATUS_FULL;
    }
    overlay_delete(store, DB_RECORDS, key_bytes(&full), true);
    return STATUS_OK;
}

status_t store_record_delete_prefix(store_t *store, uint32_t kind, bytes_t prefix) {
    if (prefix.size + 1 >= 64) {
        return STATUS_INVALID;
    }
    store_key_t full;
    key_record(&full, kind, prefix);
    if (!overlay_fits(store, op_size(full.size, full.size))) {
        return STATUS_FULL;
    }
    overlay_delete_prefix(store, DB_RECORDS, key_bytes(&full));
    return STATUS_OK;
}

status_t store_record_change(store_t *store, const record_change_t *change) {
    switch (change->act) {
    case RECORD_PUT: return store_record_put(store, change->kind, change->key, change->value);
    case RECORD_DELETE: return store_record_delete(store, change->kind, change->key);
    case RECORD_DELETE_PREFIX: return store_record_delete_prefix(store, change->kind, change->key);
    }
    return STATUS_INVALID;
}

entry_outcome_t store_record_get(store_t *store, uint32_t kind, bytes_t key, bytes_t *value) {
    if (!fits_key(key)) {
        return ENTRY_NONE;
    }
    store_key_t full;
    key_record(&full, kind, key);
    return overlay_get(store, DB_RECORDS, key_bytes(&full), value);
}

/* ---- in key order: LMDB's cursor merged with the overlay's puts -------------------------------------------------- */

static int compare_slices(const void *a, const void *b) {
    return bytes_compare(*(const bytes_t *)a, *(const bytes_t *)b);
}

typedef struct merge {
    store_t *store;
    bytes_t prefix; /* with the kind */
    bytes_t after;  /* with the kind */
    bytes_t *recent;
    uint64_t recent_count;
    uint64_t recent_room;
    uint64_t recent_at;
    store_db_t db; /* whose keys are walked: the records, or, from damage on, their copies */
    bool hidden;   /* LMDB's keys are among the overlay's */
    bool lost;     /* one was left out, and nobody was told its key */
    record_visit_t visit;
    read_outcome_t lmdb_outcome; /* READ_FOUND: `lmdb` is the next one */
    bytes_t lmdb;
} merge_t;

static bool merge_inside(const merge_t *merge, bytes_t key) {
    return bytes_starts(key, merge->prefix) && bytes_compare(key, merge->after) > 0;
}

/* A store of an older leafd may have none, and then nothing is known of what the records do not tell. */
static bool merge_has_copies(const merge_t *merge) {
    static const uint8_t lowest[] = {0};
    bytes_t key = BYTES_NONE;
    bytes_t value = BYTES_NONE;
    switch (env_seek(merge->store->env, DB_RECORD_COPIES, bytes_of(lowest, sizeof lowest), &key, &value)) {
    case READ_FOUND: return true;
    case READ_NONE:
    case READ_UNKNOWN: break;
    }
    return false;
}

static status_t merge_gather_one(merge_t *merge, bytes_t key) {
    if (!merge_inside(merge, key)) {
        return STATUS_OK;
    }
    status_t status = array_reserve(&merge->recent, &merge->recent_room, merge->recent_count + 1, 64, sizeof key);
    if (status == STATUS_OK) {
        merge->recent[merge->recent_count++] = key;
    }
    return status;
}

/* Gathers the records of which LMDB hides the texts, in an order of its own: its keys are put in order with the
 * overlay's. There are few such records. LIST_LACKS: some do not open, so their keys are not known. */
static list_outcome_t merge_gather_hidden(merge_t *merge, store_db_t db) {
    bytes_t kind = bytes_of(merge->prefix.at, 1);
    bytes_t key = BYTES_NONE;
    bytes_t value = BYTES_NONE;
    list_outcome_t gathered = LIST_WHOLE;
    read_outcome_t outcome = env_seek(merge->store->env, db, kind, &key, &value);
    while (read_goes_on(outcome) && bytes_starts(key, kind)) {
        if (value.size == 0) {
            store_corrupt(merge->store, NULL, 0, 0, "a stored record");
            gathered = LIST_LACKS;
        } else if (merge_gather_one(merge, key) != STATUS_OK) {
            return LIST_UNKNOWN;
        }
        outcome = env_next(merge->store->env, db, BYTES_NONE, &key, &value);
    }
    return read_known(outcome) == STATUS_OK ? gathered : LIST_UNKNOWN;
}

/* What one side does not give, the other one may. */
static list_outcome_t merge_gather_both(merge_t *merge) {
    list_outcome_t first = merge_gather_hidden(merge, DB_RECORDS);
    switch (first) {
    case LIST_WHOLE: return first;
    case LIST_LACKS:
    case LIST_UNKNOWN: break;
    }
    list_outcome_t copies = merge_has_copies(merge) ? merge_gather_hidden(merge, DB_RECORD_COPIES) : LIST_UNKNOWN;
    switch (copies) {
    case LIST_WHOLE:
    case LIST_LACKS: return copies;
    case LIST_UNKNOWN: break;
    }
    return first;
}

static status_t merge_gather(merge_t *merge) {
    const newcomers_t *ops = &merge->store->record_ops;
    status_t status = STATUS_OK;
    list_outcome_t gathered = merge->hidden ? merge_gather_both(merge) : LIST_WHOLE;
    switch (gathered) {
    case LIST_UNKNOWN: return STATUS_IO;
    case LIST_LACKS: merge->lost = true; break;
    case LIST_WHOLE: break;
    }
    for (int half = 0; half < HALVES; half++) {
        for (uint64_t i = 0; status == STATUS_OK && i < ops->half[half].count; i++) {
            batch_op_t op;
            op_read(&merge->store->batches, ops->half[half].at[i], &op);
            status = merge_gather_one(merge, op.key);
        }
    }
    if (status == STATUS_OK && merge->recent_count > 1) {
        qsort(merge->recent, merge->recent_count, sizeof *merge->recent, compare_slices);
    }
    return status;
}

static void merge_lmdb_take(merge_t *merge, read_outcome_t outcome, bytes_t key) {
    merge->lmdb_outcome = outcome;
    switch (outcome) {
    case READ_NONE:
    case READ_UNKNOWN: break;
    case READ_FOUND: merge->lmdb_outcome = bytes_starts(key, merge->prefix) ? READ_FOUND : READ_NONE; break;
    }
    merge->lmdb = key;
}

/* A page of the records cannot be read: from `from` on their copies are walked, which have the same keys. */
static read_outcome_t merge_turn_to_copies(merge_t *merge, bytes_t from, bytes_t *key) {
    bytes_t value = BYTES_NONE;
    if (merge->db == DB_RECORD_COPIES || !merge_has_copies(merge)) {
        return READ_UNKNOWN;
    }
    merge->db = DB_RECORD_COPIES;
    return env_seek(merge->store->env, merge->db, from, key, &value);
}

/* The next one behind `last`, or that one. */
static read_outcome_t merge_next_or_same(merge_t *merge, bytes_t last, bytes_t *key) {
    bytes_t value = BYTES_NONE;
    read_outcome_t outcome = env_next(merge->store->env, merge->db, BYTES_NONE, key, &value);
    switch (outcome) {
    case READ_FOUND:
    case READ_NONE: return outcome;
    case READ_UNKNOWN: break;
    }
    return merge_turn_to_copies(merge, last, key);
}

static void merge_lmdb_step(merge_t *merge) {
    bytes_t key = BYTES_NONE;
    read_outcome_t outcome = merge_next_or_same(merge, merge->lmdb, &key);
    if (key.size > 0 && bytes_equal(key, merge->lmdb)) {
        outcome = merge_next_or_same(merge, merge->lmdb, &key);
    }
    merge_lmdb_take(merge, outcome, key);
}

static void lmdb_begin(merge_t *merge, bytes_t after) {
    bytes_t key = BYTES_NONE;
    bytes_t value = BYTES_NONE;
    if (merge->hidden) {
        merge->lmdb_outcome = READ_NONE;
        return;
    }
    bytes_t from = bytes_compare(after, merge->prefix) > 0 ? after : merge->prefix;
    read_outcome_t outcome = env_seek(merge->store->env, merge->db, from, &key, &value);
    switch (outcome) {
    case READ_FOUND:
    case READ_NONE: break;
    case READ_UNKNOWN: outcome = merge_turn_to_copies(merge, from, &key); break;
    }
    merge_lmdb_take(merge, outcome, key);
    switch (merge->lmdb_outcome) {
    case READ_NONE:
    case READ_UNKNOWN: return;
    case READ_FOUND: break;
    }
    if (bytes_compare(key, after) <= 0) {
        merge_lmdb_step(merge);
    }
}

static read_outcome_t merge_next(merge_t *merge, bytes_t *key) {
    bool recent = merge->recent_at < merge->recent_count;
    bool stored = false;
    switch (merge->lmdb_outcome) {
    case READ_UNKNOWN: return READ_UNKNOWN;
    case READ_NONE: break;
    case READ_FOUND: stored = true; break;
    }
    if (!recent && !stored) {
        return READ_NONE;
    }
    int order = !recent ? 1 : !stored ? -1 : bytes_compare(merge->recent[merge->recent_at], merge->lmdb);
    *key = order <= 0 ? merge->recent[merge->recent_at] : merge->lmdb;
    while (merge->recent_at < merge->recent_count && bytes_equal(merge->recent[merge->recent_at], *key)) {
        merge->recent_at++;
    }
    if (order >= 0) {
        merge_lmdb_step(merge);
    }
    return READ_FOUND;
}

/* A record fails its checksum in both places, or under a key that only the damage made: then its own key is behind
 * `last` among the copies, if anywhere. false: they were looked at, and it is left out. */
static bool merge_looks_again(merge_t *merge, bytes_t last) {
    if (!merge->hidden && merge->db == DB_RECORDS && merge_has_copies(merge)) {
        merge->db = DB_RECORD_COPIES;
        lmdb_begin(merge, last);
        return true;
    }
    return false;
}

/* false: the walk is to end. */
static bool merge_lose(merge_t *merge, bytes_t key) {
    const record_visit_t *visit = &merge->visit;
    if (visit->lost != NULL) {
        return visit->lost(visit->context, bytes_of(key.at + 1, key.size - 1));
    }
    merge->lost = true;
    return true;
}

static list_outcome_t merge_visit(merge_t *merge) {
    const record_visit_t *visit = &merge->visit;
    bytes_t last = merge->after;
    bytes_t key;
    read_outcome_t outcome = READ_NONE;
    bool goes_on = true;
    while (goes_on && read_goes_on(outcome = merge_next(merge, &key))) {
        bytes_t value = BYTES_NONE;
        bool again = false;
        switch (overlay_get(merge->store, DB_RECORDS, key, &value)) {
        case ENTRY_UNKNOWN: return LIST_UNKNOWN;
        case ENTRY_NONE: break; /* deleted since LMDB had it */
        case ENTRY_DAMAGED:
            again = merge_looks_again(merge, last);
            goes_on = again || merge_lose(merge, key);
            break;
        case ENTRY_FOUND: goes_on = visit->found(visit->context, bytes_of(key.at + 1, key.size - 1), value); break;
        }
        last = again ? last : key;
    }
    if (read_known(outcome) != STATUS_OK) {
        return LIST_UNKNOWN;
    }
    return merge->lost ? LIST_LACKS : LIST_WHOLE;
}

list_outcome_t store_record_each(store_t *store, uint32_t kind, bytes_t prefix, bytes_t after,
                                 bool (*visit)(void *context, bytes_t key, bytes_t value), void *context) {
    const record_visit_t own = {.found = visit, .context = context};
    return store_record_visit(store, kind, prefix, after, &own);
}

list_outcome_t store_record_visit(store_t *store, uint32_t kind, bytes_t prefix, bytes_t after,
                                  const record_visit_t *visit) {
    store_key_t full_prefix;
    store_key_t full_after;
    if (!fits_key(prefix) || !fits_key(after)) {
        return LIST_UNKNOWN; /* no record has such a key: nobody who has read one asks so */
    }
    key_record(&full_prefix, kind, prefix);
    key_record(&full_after, kind, after);
    /* Without `after` even the record with an empty key is behind it. */
    bytes_t behind = after.size > 0 ? key_bytes(&full_after) : BYTES_NONE;
    bool hidden = env_hides(store->env) && (kind == RECORD_CONTROL || kind == RECORD_SOURCE);
    merge_t merge = {.store = store,
                     .db = DB_RECORDS,
                     .prefix = key_bytes(&full_prefix),
                     .after = behind,
                     .hidden = hidden,
                     .visit = *visit};
    list_outcome_t outcome = LIST_UNKNOWN;
    if (merge_gather(&merge) == STATUS_OK) {
        lmdb_begin(&merge, merge.after);
        outcome = merge_visit(&merge);
    }
    free(merge.recent);
    return outcome;
}
