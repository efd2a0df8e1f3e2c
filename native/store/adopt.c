/* adopt.c: a start on a full disk. The journal's tail finds no room in LMDB, so it stays in the ring, and what the
 * process before had in memory about it is made anew: notes in the overlay, each stream's ops by sequence, births and
 * expiries. From there on all is as in a running store whose keeper has no room: publishers are refused, the rest goes
 * on, and a checkpoint ends it.
 */
#include <stdlib.h>

#include "base/array.h"
#include "base/check.h"
#include "store/message.h"
#include "store/overlay.h"

#define ADOPTED_MIN 4096

static status_t adopted_add(adopted_t *adopted, const batch_op_t *op, uint64_t position) {
    if (array_reserve(&adopted->at, &adopted->capacity, adopted->count + 1, ADOPTED_MIN, sizeof(adoptee_t))
        != STATUS_OK) {
        return STATUS_NO_MEMORY;
    }
    adopted->at[adopted->count++] = (adoptee_t){.stream = load_be32(op->key.at), .db = op->db, .position = position};
    return STATUS_OK;
}

/* A range that ends right behind all keys that begin with its own key: written by overlay_delete_prefix. */
static bool is_prefix(const batch_op_t *op) {
    store_key_t end;
    return op->key.size < 64 && prefix_end(op->key, &end) && bytes_equal(key_bytes(&end), op->value);
}

static status_t adopt_note(store_t *store, const batch_op_t *op, uint64_t position) {
    status_t status = memtable_reserve(&store->memtable, 1);
    if (status == STATUS_OK) {
        memtable_note(&store->memtable, (store_db_t)op->db, op->key, position);
    }
    return status;
}

static status_t adopt_put(store_t *store, const batch_op_t *op, uint64_t position) {
    message_record_t message;
    switch ((store_db_t)op->db) {
    case DB_MESSAGES:
        if (!op_message(&store->batches, op, &message)) {
            return STATUS_CORRUPT;
        }
        if ((message.flags & MESSAGE_GONE) == 0) {
            return adopted_add(&store->adopted, op, position);
        }
        store->adopted.deletes++;
        return adopt_note(store, op, position);
    case DB_EXPIRY:
        return op->key.size == EXPIRY_KEY_SIZE ? adopted_add(&store->adopted, op, position) : STATUS_CORRUPT;
    case DB_RECORDS: {
        status_t status = newcomers_reserve(&store->record_ops, 1);
        if (status == STATUS_OK) {
            newcomers_push(&store->record_ops, position);
            status = adopt_note(store, op, position);
        }
        return status;
    }
    case DB_ID_ORDER:
    case DB_LEDGER: return STATUS_OK; /* only looked at in LMDB; a ledger is opened when LMDB has it all */
    case DB_META:
    case DB_HEADS:
    case DB_IDS:
    case DB_DICTIONARIES:
    case DB_DICTIONARY_COPIES:
    case DB_RECORD_COPIES:
    case DB_META_COPIES:
    case DB_NAMES:
    case DB_COUNT: break;
    }
    return adopt_note(store, op, position);
}

static status_t adopt_op(void *context, const batch_op_t *op, uint64_t position) {
    store_t *store = context;
    if (op_puts(op)) {
        return adopt_put(store, op, position);
    }
    if (op->kind == OP_DELETE) {
        store->adopted.deletes += op->db == DB_MESSAGES;
        return adopt_note(store, op, position);
    }
    if (!is_prefix(op)) {
        return STATUS_OK; /* a stream's first sequence, or what came up before: its state and its records say so */
    }
    status_t status = memtable_reserve(&store->memtable, 1);
    if (status == STATUS_OK) {
        memtable_note_prefix(&store->memtable, (store_db_t)op->db, op->key, position);
    }
    return status;
}

static int by_stream(const void *a, const void *b) {
    const adoptee_t *left = a;
    const adoptee_t *right = b;
    if (left->stream != right->stream) {
        return left->stream < right->stream ? -1 : 1;
    }
    return (left->position > right->position) - (left->position < right->position);
}

status_t adopt_batches(store_t *store, uint64_t from, uint64_t to) {
    status_t status = batches_each(&store->batches, from, to, adopt_op, store);
    store->adopted.end = to;
    if (status == STATUS_OK && store->adopted.count > 1) {
        qsort(store->adopted.at, store->adopted.count, sizeof *store->adopted.at, by_stream);
    }
    return status;
}

/* ---- a stream's part --------------------------------------------------------------------------------------------- */

static status_t adopt_message(store_stream_t *stream, const batch_op_t *op, uint64_t position) {
    message_record_t message;
    uint64_t seq = load_be64(op->key.at + 4);
    check(op_message(&stream->store->batches, op, &message));
    status_t status = notes_reserve(stream, 1, 1, 0);
    if (status != STATUS_OK) {
        return status;
    }
    if ((message.flags & MESSAGE_FILLED) != 0) {
        status = notes_reserve_fills(stream);
        if (status == STATUS_OK) {
            notes_fill(stream, seq, position);
        }
        if (status == STATUS_OK && message.previous == 0) {
            notes_born(stream, position);
        }
        return status;
    }
    notes_message(stream, seq, position,
                  message.previous == 0); /* none before it on its subject: that was born with it */
    return STATUS_OK;
}

status_t adopt_stream(store_stream_t *stream) {
    store_t *store = stream->store;
    adopted_t *adopted = &store->adopted;
    uint64_t hidden = notes_hide(stream);
    uint64_t low = 0;
    uint64_t high = adopted->count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (adopted->at[middle].stream < stream->id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    notes_deleted(stream, adopted->deletes);
    for (; low < adopted->count && adopted->at[low].stream == stream->id; low++) {
        batch_op_t op;
        uint64_t position = adopted->at[low].position;
        if (position < hidden) {
            continue; /* of an earlier stream with this id */
        }
        op_read(&store->batches, position, &op);
        status_t status = STATUS_OK;
        if (adopted->at[low].db == DB_MESSAGES) {
            status = adopt_message(stream, &op, position);
        } else {
            expiry_t entry = {.expires = (int64_t)load_be64(op.key.at + 4), .seq = load_be64(op.key.at + 12)};
            status = notes_reserve(stream, 0, 0, 1);
            if (status == STATUS_OK) {
                expiry_adopt(stream, entry);
            }
        }
        if (status != STATUS_OK) {
            return status;
        }
    }
    if (store->pipeline.boundary != 0) {
        stream_rotate(stream); /* a checkpoint that covers all of this has begun already */
    }
    return STATUS_OK;
}

void adopted_drop(store_t *store) {
    if (store->batches.freed >= store->adopted.end) {
        adopted_free(store);
    }
}

void adopted_free(store_t *store) {
    free(store->adopted.at);
    store->adopted = (adopted_t){0};
}
