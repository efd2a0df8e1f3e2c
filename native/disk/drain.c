/* drain.c: see drain.h. */
#include "disk/drain.h"

#include <stdlib.h>

#include "base/array.h"
#include "disk/memtable.h"

#define ROW_STEP 64    /* entries of a removed range that count as one op of a piece */
#define RANGES_MIN 256 /* removed ranges that there is room for at first */

typedef struct range {
    uint8_t db;
    bytes_t from;
    bytes_t to;
    bytes_t reach;     /* once they are in order: the highest `to` of the part that this one is the middle of */
    uint64_t position; /* puts before it are gone */
} range_t;

typedef struct work {
    drain_t *drain;
    memtable_t newest; /* of each key, the last op among all durable ones */
    range_t *ranges;
    uint64_t range_count;
    uint64_t range_room;
    uint64_t range_end[DB_COUNT]; /* once they are in order: behind those of each database */
    uint32_t done;                /* in the open piece */
} work_t;

/* ---- what comes later -------------------------------------------------------------------------------------------- */

static status_t add_range(work_t *work, const batch_op_t *op, uint64_t position) {
    if (work->range_count > 0) {
        range_t *last = &work->ranges[work->range_count - 1];
        if (last->db == op->db && op->db == DB_MESSAGES && bytes_equal(last->to, op->key)) {
            last->to = op->value; /* a stream's first message moves on: sequences below never come back */
            last->position = position;
            return STATUS_OK;
        }
    }
    status_t status =
        array_reserve(&work->ranges, &work->range_room, work->range_count + 1, RANGES_MIN, sizeof(range_t));
    if (status == STATUS_OK) {
        work->ranges[work->range_count++] =
            (range_t){.db = op->db, .from = op->key, .to = op->value, .position = position};
    }
    return status;
}

static int range_order(const void *a, const void *b) {
    const range_t *left = a;
    const range_t *right = b;
    return left->db != right->db ? (left->db > right->db) - (left->db < right->db)
                                 : bytes_compare(left->from, right->from);
}

/* In order the ranges are a tree: the middle of a part is its root. A part whose highest end lies below a key has none
 * that holds it. */
static bytes_t ranges_reach(range_t *ranges, uint64_t begin, uint64_t end) {
    uint64_t middle = begin + (end - begin) / 2;
    bytes_t reach = ranges[middle].to;
    bytes_t below = begin < middle ? ranges_reach(ranges, begin, middle) : reach;
    bytes_t above = middle + 1 < end ? ranges_reach(ranges, middle + 1, end) : reach;
    reach = bytes_compare(below, reach) > 0 ? below : reach;
    reach = bytes_compare(above, reach) > 0 ? above : reach;
    ranges[middle].reach = reach;
    return reach;
}

/* Does one of them, noted behind the position, hold the key? */
static bool ranges_hold(const range_t *ranges, uint64_t begin, uint64_t end, bytes_t key, uint64_t position) {
    while (begin < end) {
        uint64_t middle = begin + (end - begin) / 2;
        const range_t *range = &ranges[middle];
        if (bytes_compare(range->reach, key) <= 0) {
            return false;
        }
        if (ranges_hold(ranges, begin, middle, key, position)) {
            return true;
        }
        if (bytes_compare(range->from, key) > 0) {
            return false;
        }
        if (range->position > position && bytes_compare(key, range->to) < 0) {
            return true;
        }
        begin = middle + 1;
    }
    return false;
}

static void ranges_sort(work_t *work) {
    if (work->range_count > 0) {
        qsort(work->ranges, work->range_count, sizeof *work->ranges, range_order);
    }
    uint64_t end = 0;
    for (uint32_t db = 0; db < DB_COUNT; db++) {
        uint64_t begin = end;
        while (end < work->range_count && work->ranges[end].db == db) {
            end++;
        }
        work->range_end[db] = end;
        if (begin < end) {
            (void)ranges_reach(work->ranges, begin, end);
        }
    }
}

static status_t drain_note(void *context, const batch_op_t *op, uint64_t position) {
    work_t *work = context;
    if (op->kind == OP_DELETE_RANGE) {
        return add_range(work, op, position);
    }
    status_t status = memtable_reserve(&work->newest, 1);
    if (status == STATUS_OK) {
        memtable_note(&work->newest, (store_db_t)op->db, op->key, position);
    }
    return status;
}

static bool drain_op_stays(const work_t *work, const batch_op_t *op, uint64_t position) {
    batch_op_t last;
    uint64_t last_position;
    if (memtable_find(&work->newest, (store_db_t)op->db, op->key, &last, &last_position) && last_position > position) {
        return false;
    }
    uint64_t begin = op->db == 0 ? 0 : work->range_end[op->db - 1];
    return !ranges_hold(work->ranges, begin, work->range_end[op->db], op->key, position);
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
    if (op->kind == OP_PUT || position < work->drain->removed) {
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
    if (op->kind != OP_PUT || position < work->drain->put || !drain_op_stays(work, op, position)) {
        return STATUS_OK;
    }
    status_t status = env_write_put(work->drain->env, (store_db_t)op->db, op->key, op->value);
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
        ranges_sort(work);
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
    free(work.ranges);
    return status;
}
