/* apply.c: see apply.h.
 *
 * A removal of more than DELETE_STEP entries is committed in steps. That is safe in the middle of a batch: readers stay
 * on the snapshot of the last checkpoint, and after a crash the whole batch is applied again, which changes nothing
 * that is done.
 */
#include "disk/apply.h"

#include <stdlib.h>

#include "base/check.h"

#define DELETE_STEP 50000
#define LATE_MAX 16384u /* at the worst each changes a page of its own */

static status_t apply_range(env_t *env, const batch_op_t *op) {
    for (;;) {
        uint64_t done = 0;
        status_t status = env_write_delete_range(env, (store_db_t)op->db, op->key, op->value, DELETE_STEP, &done);
        if (status != STATUS_AGAIN) {
            return status;
        }
        status = env_write_commit(env);
        if (status == STATUS_OK) {
            status = env_write_begin(env);
        }
        if (status != STATUS_OK) {
            return status;
        }
    }
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

static inline __attribute__((always_inline)) status_t apply_op(env_t *env, const batch_op_t *op) {
    switch ((op_kind_in_batch_t)op->kind) {
    case OP_PUT: return env_write_put(env, (store_db_t)op->db, op->key, op->value);
    case OP_DELETE: return env_write_delete(env, (store_db_t)op->db, op->key);
    case OP_DELETE_RANGE: return apply_range(env, op);
    }
    return STATUS_CORRUPT;
}

static status_t apply_in_rows(env_t *env, row_of_puts_t *row, const batch_op_t *op) {
    if (op->kind == OP_PUT) {
        row->at[row->count++] = (env_put_t){(store_db_t)op->db, op->key, op->value};
        return row->count == ENV_PUTS_MAX ? apply_puts(env, row) : STATUS_OK;
    }
    status_t status = apply_puts(env, row);
    return status == STATUS_OK ? apply_op(env, op) : status;
}

/* ---- ops on ids -------------------------------------------------------------------------------------------------- */

status_t late_apply(late_t *late, env_t *env) {
    status_t status = STATUS_OK;
    batch_op_t op;
    for (uint32_t i = 0; i < late->count; i++) {
        op_read_sealed(late->batches, late->at[i].rank, &op);
        late->at[i].bytes = op.key;
    }
    order_sort(late->at, late->count);
    for (uint32_t i = 0; status == STATUS_OK && i < late->count; i++) {
        op_read_sealed(late->batches, late->at[i].rank, &op);
        status = apply_op(env, &op);
    }
    late->count = 0;
    return status;
}

void late_give_back(late_t *late) {
    if (late->count == 0) {
        free(late->at);
        late->at = NULL;
    }
}

/* STATUS_AGAIN: the op cannot wait; what waits has been done before it. */
static status_t late_take(late_t *late, env_t *env, const batch_op_t *op, uint64_t position) {
    if (late->at == NULL) {
        late->at = calloc(LATE_MAX, sizeof *late->at);
    }
    if (late->at == NULL || op->kind == OP_DELETE_RANGE) {
        status_t status = late_apply(late, env);
        return status == STATUS_OK ? STATUS_AGAIN : status;
    }
    uint64_t bound = env_changed(env)->max >> (CHANGED_FRAME_BITS + 2);
    late->at[late->count++] = (order_item_t){.rank = position};
    return late->count == LATE_MAX || (bound != 0 && late->count >= bound) ? late_apply(late, env) : STATUS_OK;
}

status_t apply_batch(env_t *env, const uint8_t *batch, uint32_t size, late_t *late) {
    uint32_t offset = BATCH_HEADER_SIZE;
    bool in_rows = env_hides(env);
    batch_header_t header = {0};
    row_of_puts_t row;
    row.count = 0;
    late = in_rows || !batch_header_read(batch, &header) ? NULL : late;
    while (offset < size) {
        batch_op_t op;
        uint32_t at = offset;
        status_t status = STATUS_AGAIN;
        if (!op_next(batch, size, &offset, &op)) {
            return STATUS_CORRUPT;
        }
        if (op.db == DB_IDS && late != NULL) {
            status = late_take(late, env, &op, header.position + at);
        }
        if (status == STATUS_AGAIN) {
            status = LEAF_UNLIKELY(in_rows) ? apply_in_rows(env, &row, &op) : apply_op(env, &op);
        }
        if (status != STATUS_OK) {
            return status;
        }
    }
    return apply_puts(env, &row);
}
