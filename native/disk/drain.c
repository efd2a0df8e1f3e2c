/* drain.c: see drain.h. */
#include "disk/drain.h"

#include "disk/apply.h"
#include "disk/memtable.h"
#include "disk/ranges.h"

#define ROW_STEP 64 /* entries of a removed range that count as one op of a piece */

typedef struct work {
    drain_t *drain;
    memtable_t newest; /* of each key, the last op among all durable ones */
    ranges_t ranges;
    const range_t *holder; /* of the last key that is gone; NULL: none */
    uint32_t done;         /* in the open piece */
} work_t;

/* ---- ops that a later one takes back ----------------------------------------------------------------------------- */

static status_t drain_note(void *context, const batch_op_t *op, uint64_t position) {
    work_t *work = context;
    if (op->kind == OP_DELETE_RANGE) {
        return ranges_add(&work->ranges, op, position);
    }
    status_t status = memtable_reserve(&work->newest, 1);
    if (status == STATUS_OK) {
        memtable_note(&work->newest, (store_db_t)op->db, op->key, position);
    }
    return status;
}

static bool drain_op_stays(work_t *work, const batch_op_t *op, uint64_t position) {
    batch_op_t last;
    uint64_t last_position;
    if (memtable_find(&work->newest, (store_db_t)op->db, op->key, &last, &last_position) && last_position > position) {
        return false;
    }
    return !ranges_hold(&work->ranges, (store_db_t)op->db, op->key, position, &work->holder);
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static status_t end_piece(work_t *work) {
    status_t status = env_write_commit(work->drain->env);
    work->done = 0;
    if (status == STATUS_OK) {
        work->drain->told(work->drain->context);
        status = env_write_begin(work->drain->env);
    }
    return status;
}

static status_t drain_count(work_t *work, uint64_t ops) {
    work->done += (uint32_t)ops;
    return work->done >= work->drain->piece ? end_piece(work) : STATUS_OK;
}

/* Entries in a row take the same few pages however many they are: LMDB uses a page that they emptied for the next one
 * that it copies. Small pieces would only take more; the list of what they freed wants pages in one piece, which bounds
 * them. */
static status_t remove_range(work_t *work, const batch_op_t *op) {
    for (;;) {
        uint64_t done = 0;
        status_t status = env_write_delete_range(work->drain->env, (store_db_t)op->db, op->key, op->value,
                                                 (uint64_t)work->drain->piece * ROW_STEP, &done);
        if (status != STATUS_AGAIN) {
            return status == STATUS_OK ? drain_count(work, 1) : status;
        }
        status = end_piece(work);
        if (status != STATUS_OK) {
            return status;
        }
    }
}

static status_t drain_take_out(void *context, const batch_op_t *op, uint64_t position) {
    work_t *work = context;
    if (op_puts(op) || position < work->drain->removed) {
        return STATUS_OK;
    }
    if (op->kind == OP_DELETE_RANGE) {
        return remove_range(work, op);
    }
    status_t status = env_write_delete(work->drain->env, (store_db_t)op->db, op->key);
    return status == STATUS_OK ? drain_count(work, 1) : status;
}

static status_t put_in(void *context, const batch_op_t *op, uint64_t position) {
    work_t *work = context;
    if (!op_puts(op) || position < work->drain->put || !drain_op_stays(work, op, position)) {
        return STATUS_OK;
    }
    status_t status = apply_put(work->drain->env, &work->drain->batches, op);
    if (status == STATUS_OK && work->done + 1 >= work->drain->piece) {
        status = end_piece(work);
        work->drain->put = status == STATUS_OK ? position + 1 : work->drain->put;
        return status;
    }
    work->done++;
    return status;
}

static status_t drain_apply(work_t *work) {
    drain_t *drain = work->drain;
    const batches_t *batches = &drain->batches;
    batch_header_t last;
    batches_last(batches, drain->from, drain->to, &last);
    drain->number = last.number;
    drain->chain = last.crc;
    status_t status = batches_each(batches, drain->from, drain->durable, drain_note, work);
    if (status == STATUS_OK) {
        ranges_sort(&work->ranges);
        status = env_write_begin(drain->env);
    }
    if (status == STATUS_OK) {
        status = batches_each(batches, drain->from, drain->durable, drain_take_out, work);
    }
    if (status == STATUS_OK && work->done > 0) {
        status = end_piece(work);
    }
    if (status == STATUS_OK) {
        drain->removed = drain->durable;
    }
    return status == STATUS_OK ? batches_each(batches, drain->from, drain->to, put_in, work) : status;
}

status_t drain_run(drain_t *drain) {
    work_t work = {.drain = drain};
    memtable_open(&work.newest, &drain->batches);
    status_t status = drain_apply(&work);
    memtable_close(&work.newest);
    ranges_free(&work.ranges);
    return status;
}
