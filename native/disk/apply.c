/* apply.c: see apply.h.
 *
 * A commit in the middle, even of a batch, is safe: LMDB's note of how far it has come is not moved by it. Readers stay
 * on the snapshot of the last checkpoint, and after a crash all since then is applied again, which changes nothing that
 * is done.
 */
#include "disk/apply.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/check.h"
#include "base/hash.h"

#define DELETE_STEP 50000
#define LATE_MIN 1024u
#define AHEAD 2 /* messages: the first one's are there by then */
#define LINE 64u
#define COMING 512u /* bytes of a batch that are sent for ahead */
#define SHORT_KEY_MAX 7u
#define LONG_KEY UINT64_C(0xff) /* no size of a short one */

static status_t commit_in_between(env_t *env) {
    status_t status = env_write_commit(env);
    return status == STATUS_OK ? env_write_begin(env) : status;
}

static status_t apply_range(env_t *env, const batch_op_t *op) {
    for (;;) {
        uint64_t done = 0;
        status_t status = env_write_delete_range(env, (store_db_t)op->db, op->key, op->value, DELETE_STEP, &done);
        if (status == STATUS_AGAIN) {
            status = commit_in_between(env);
        } else {
            return status;
        }
        if (status != STATUS_OK) {
            return status;
        }
    }
}

/* A store with a sealer has none of these, unless an op was written before it had one. */
static status_t apply_joined(env_t *env, const batch_op_t *op, bytes_t head, bytes_t rest) {
    uint8_t *at = malloc((size_t)head.size + rest.size + 1);
    if (at == NULL) {
        return STATUS_NO_MEMORY;
    }
    const uint8_t *end = bytes_write(bytes_write(at, head), rest);
    status_t status = env_write_put(env, (store_db_t)op->db, op->key, bytes_of(at, (uint32_t)(end - at)));
    free(at);
    return status;
}

static status_t apply_shared(env_t *env, const batches_t *batches, const batch_op_t *op) {
    bytes_t head = BYTES_NONE, rest = BYTES_NONE;
    if (!op_parts(batches, op, &head, &rest)) {
        return STATUS_CORRUPT;
    }
    return LEAF_UNLIKELY(env_hides(env)) ? apply_joined(env, op, head, rest)
                                         : env_write_message(env, op->key, head, rest);
}

/* Puts in a row, which a sealer seals in one call. */
typedef struct row_of_puts {
    env_put_t at[ENV_PUTS_MAX];
    uint32_t count;
} row_of_puts_t;

static status_t apply_puts(env_t *env, row_of_puts_t *row) {
    status_t status = row->count > 0 ? env_write_puts(env, row->at, row->count) : STATUS_OK;
    row->count = 0;
    return status;
}

status_t apply_put(env_t *env, const batches_t *batches, const batch_op_t *op) {
    return LEAF_LIKELY(op->kind == OP_PUT) ? env_write_put(env, (store_db_t)op->db, op->key, op->value)
                                           : apply_shared(env, batches, op);
}

static inline __attribute__((always_inline)) status_t apply_op(env_t *env, const batches_t *batches,
                                                               const batch_op_t *op) {
    switch ((op_kind_in_batch_t)op->kind) {
    case OP_PUT: return env_write_put(env, (store_db_t)op->db, op->key, op->value);
    case OP_DELETE: return env_write_delete(env, (store_db_t)op->db, op->key);
    case OP_DELETE_RANGE: return apply_range(env, op);
    case OP_PUT_SHARED: return apply_shared(env, batches, op);
    }
    return STATUS_CORRUPT;
}

static status_t apply_in_rows(env_t *env, const batches_t *batches, row_of_puts_t *row, const batch_op_t *op) {
    if (op->kind == OP_PUT) {
        row->at[row->count++] = (env_put_t){(store_db_t)op->db, op->key, op->value};
        return row->count == ENV_PUTS_MAX ? apply_puts(env, row) : STATUS_OK;
    }
    status_t status = apply_puts(env, row);
    return status == STATUS_OK ? apply_op(env, batches, op) : status;
}

/* ---- ops that wait ----------------------------------------------------------------------------------------------- */

static void late_row_empty(late_row_t *row) {
    if (row->count != 0 && row->places != NULL) {
        memset(row->places, 0, (size_t)row->size * sizeof *row->places);
    }
    row->count = 0;
}

static bool late_is_last(const late_row_t *row, uint32_t i) {
    return i + 1 == row->count || !bytes_equal(row->at[i].bytes, row->at[i + 1].bytes);
}

/* Sorts by key, and equal keys by position: the later op comes last. */
static void late_sort(const late_t *late, late_row_t *row) {
    batch_op_t op;
    for (uint32_t i = 0; i < row->count; i++) {
        op_read_sealed(late->batches, row->at[i].rank, &op);
        row->at[i].bytes = op.key;
    }
    order_sort(row->at, row->count);
}

static status_t late_apply_row(const late_t *late, late_row_t *row, env_t *env) {
    status_t status = STATUS_OK;
    batch_op_t op;
    late_sort(late, row);
    for (uint32_t i = 0; status == STATUS_OK && i < row->count; i++) {
        if (!late_is_last(row, i)) {
            continue;
        }
        op_read_sealed(late->batches, row->at[i].rank, &op);
        status = apply_op(env, late->batches, &op);
        if (status == STATUS_OK && changed_full(env_changed(env))) {
            status = commit_in_between(env);
        }
    }
    late_row_empty(row);
    return status;
}

/* Leaves those entries behind which no removal comes: few, so that few are to be sorted. */
static void late_drop_removed(late_t *late) {
    late_row_t *row = &late->entries;
    const range_t *last = NULL;
    batch_op_t op;
    uint32_t stay = 0;
    ranges_sort(&late->removed);
    for (uint32_t i = 0; i < row->count; i++) {
        op_read_sealed(late->batches, row->at[i].rank, &op);
        if (!ranges_hold(&late->removed, DB_LEDGER, op.key, row->at[i].rank, &last)) {
            row->at[stay++] = row->at[i];
        }
    }
    row->count = stay;
    late->removed.count = 0;
}

static status_t late_apply_entries(late_t *late, env_t *env) {
    if (late->entries.count == 0) {
        late->removed.count = 0;
        return STATUS_OK;
    }
    late_drop_removed(late);
    return late_apply_row(late, &late->entries, env);
}

status_t late_apply(late_t *late, env_t *env) {
    status_t status = late_apply_row(late, &late->ids, env);
    status = status == STATUS_OK ? late_apply_row(late, &late->heads, env) : status;
    status = status == STATUS_OK ? late_apply_row(late, &late->states, env) : status;
    return status == STATUS_OK ? late_apply_entries(late, env) : status;
}

void late_forget(late_t *late) {
    late_row_empty(&late->ids);
    late_row_empty(&late->heads);
    late_row_empty(&late->states);
    late_row_empty(&late->entries);
    late->removed.count = 0;
}

static void late_row_give_back(late_row_t *row) {
    if (row->count == 0) {
        free(row->at);
        free(row->places);
        *row = (late_row_t){0};
    }
}

void late_give_back(late_t *late) {
    late_row_give_back(&late->ids);
    late_row_give_back(&late->heads);
    late_row_give_back(&late->states);
    late_row_give_back(&late->entries);
    if (late->removed.count == 0) {
        ranges_free(&late->removed);
    }
}

/* A short key, as a stream's state has, is told from all others by this number alone: nobody has to look at the op that
 * waits, which lies far back in the ring. */
static uint64_t late_number(bytes_t key) {
    uint64_t number = 0;
    if (key.size > SHORT_KEY_MAX) {
        return hash_bytes(key.at, key.size) | LONG_KEY;
    }
    memcpy(&number, key.at, key.size);
    return number << 8 | key.size;
}

static uint32_t late_place(const late_row_t *row, uint64_t number) {
    return (uint32_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (row->size - 1);
}

static void places_put(const late_row_t *row, uint64_t hash, uint32_t number) {
    uint32_t place = late_place(row, hash);
    while (row->places[place] != 0) {
        place = (place + 1) & (row->size - 1);
    }
    row->places[place] = number + 1;
}

/* The place for all keys that there is room for. Without memory for it each op waits for itself. */
static void places_follow(late_row_t *row) {
    uint32_t size = (uint32_t)row->room * 2;
    if (LEAF_LIKELY(row->size == size)) {
        return;
    }
    free(row->places);
    row->places = calloc(size, sizeof *row->places);
    row->size = row->places != NULL ? size : 0;
    for (uint32_t i = 0; row->places != NULL && i < row->count; i++) {
        places_put(row, row->at[i].head, i);
    }
}

/* The one with that key, which waits already; NULL: none is known. */
static order_item_t *late_same(const late_t *late, const late_row_t *row, bytes_t key, uint64_t hash) {
    batch_op_t op;
    if (row->places == NULL) {
        return NULL;
    }
    for (uint32_t place = late_place(row, hash); row->places[place] != 0; place = (place + 1) & (row->size - 1)) {
        order_item_t *item = &row->at[row->places[place] - 1];
        if (item->head != hash) {
            continue;
        }
        if (key.size <= SHORT_KEY_MAX) {
            return item;
        }
        op_read_sealed(late->batches, item->rank, &op);
        if (bytes_equal(op.key, key)) {
            return item;
        }
    }
    return NULL;
}

/* STATUS_AGAIN: the op cannot wait; what waits has been done before it. */
static status_t late_take(late_t *late, late_row_t *row, env_t *env, const batch_op_t *op, uint64_t position) {
    if (op->kind == OP_DELETE_RANGE
        || array_reserve(&row->at, &row->room, row->count + 1, LATE_MIN, sizeof *row->at) != STATUS_OK) {
        status_t status = late_apply_row(late, row, env);
        return status == STATUS_OK ? STATUS_AGAIN : status;
    }
    places_follow(row);
    uint64_t hash = late_number(op->key);
    order_item_t *same = late_same(late, row, op->key, hash);
    if (same != NULL) {
        same->rank = position;
        return STATUS_OK;
    }
    if (row->places != NULL) {
        places_put(row, hash, row->count);
    }
    row->at[row->count++] = (order_item_t){.rank = position, .head = hash};
    return row->count == LATE_MAX ? late_apply_row(late, row, env) : STATUS_OK;
}

/* The same for a ledger. What a removal takes of LMDB goes at once: nothing that waits is there yet. */
static status_t late_take_entry(late_t *late, env_t *env, const batch_op_t *op, uint64_t position) {
    late_row_t *row = &late->entries;
    bool waits = op->kind == OP_PUT
                 && array_reserve(&row->at, &row->room, row->count + 1, LATE_MIN, sizeof *row->at) == STATUS_OK;
    bool noted =
        op->kind == OP_DELETE_RANGE && (row->count == 0 || ranges_add(&late->removed, op, position) == STATUS_OK);
    if (!waits) {
        status_t status = noted ? STATUS_OK : late_apply_entries(late, env);
        return status == STATUS_OK ? STATUS_AGAIN : status;
    }
    row->at[row->count++] = (order_item_t){.rank = position};
    if (row->count < LATE_MAX) {
        return STATUS_OK;
    }
    late_drop_removed(late);
    return row->count < LATE_MAX / 2 ? STATUS_OK : late_apply_entries(late, env);
}

static status_t note_removal(void *context, const batch_op_t *op, uint64_t position) {
    late_t *late = context;
    bool removes = op->kind == OP_DELETE_RANGE && op->db == DB_LEDGER;
    return removes ? ranges_add(&late->removed, op, position) : STATUS_OK;
}

status_t late_look_ahead(late_t *late, uint64_t from, uint64_t to) {
    return late->entries.count > 0 && from < to ? batches_each(late->batches, from, to, note_removal, late) : STATUS_OK;
}

/* A range of records may have states in it: they are done before it. */
static bool late_is_state(const batch_op_t *op) {
    return op->kind == OP_DELETE_RANGE || (op->key.size > 0 && op->key.at[0] == RECORD_STATE);
}

static late_row_t *late_row_of(late_t *late, const batch_op_t *op) {
    switch (op->db) {
    case DB_IDS: return &late->ids;
    case DB_HEADS: return late->heads_wait ? &late->heads : NULL;
    case DB_RECORDS: return late_is_state(op) ? &late->states : NULL;
    default: return NULL;
    }
}

/* Lets an op wait. STATUS_AGAIN: it is to be done now. hides: keys with a text have another order in LMDB. */
static inline status_t late_look(late_t *late, env_t *env, bool hides, const batch_op_t *op, uint64_t position) {
    if (LEAF_UNLIKELY(op->db == DB_LEDGER)) {
        return late_take_entry(late, env, op, position);
    }
    late_row_t *waiting = hides ? NULL : late_row_of(late, op);
    return waiting != NULL ? late_take(late, waiting, env, op, position) : STATUS_AGAIN;
}

/* Another thread wrote the batch, so its bytes are not in this processor's cache, and to wait for an op's first ones
 * takes as long as all else about it. So many are sent for as the op took. */
static inline void send_for(const uint8_t *batch, uint32_t size, uint32_t from, uint32_t to) {
    if (to - from > COMING || size - to < COMING) {
        return;
    }
    for (; from < to; from += LINE) {
        __builtin_prefetch(batch + from + COMING);
    }
}

/* What messages that come soon need is sent for. */
static inline void look_ahead(const env_t *env, const uint8_t *batch, uint32_t size, uint32_t *ahead) {
    batch_op_t op;
    if (op_next(batch, size, ahead, &op) && op.db == DB_MESSAGES) {
        env_write_soon(env, DB_MESSAGES, op.key);
    }
}

status_t apply_batch(env_t *env, const batches_t *batches, const uint8_t *batch, uint32_t size, late_t *late) {
    uint32_t offset = BATCH_HEADER_SIZE;
    uint32_t ahead = late != NULL && late->heads_wait ? BATCH_HEADER_SIZE : size; /* what is changed lies far apart */
    bool in_rows = env_hides(env);
    batch_header_t header = {0};
    row_of_puts_t row;
    row.count = 0;
    late = !batch_header_read(batch, &header) ? NULL : late;
    for (uint32_t i = 0; i < AHEAD && ahead < size; i++) {
        look_ahead(env, batch, size, &ahead);
    }
    while (offset < size) {
        batch_op_t op;
        uint32_t at = offset;
        status_t status = STATUS_AGAIN;
        if (!op_next(batch, size, &offset, &op)) {
            return STATUS_CORRUPT;
        }
        send_for(batch, size, at, offset);
        if (ahead < size) {
            look_ahead(env, batch, size, &ahead);
        }
        if (late != NULL) {
            status = late_look(late, env, in_rows, &op, header.position + at);
        }
        if (status == STATUS_AGAIN) {
            status = LEAF_UNLIKELY(in_rows) ? apply_in_rows(env, batches, &row, &op) : apply_op(env, batches, &op);
        }
        if (status != STATUS_OK) {
            return status;
        }
    }
    return apply_puts(env, &row);
}
