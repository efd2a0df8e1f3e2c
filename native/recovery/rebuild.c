/* rebuild.c: what a journal says, brought into LMDB when a batch before it, or a part of LMDB, is lost.
 *
 * A batch's effects are absolute and count on those before it: heads and counters would speak of messages that are
 * lost. So behind a hole only messages and removals are taken from the batches, and what is derived from them is
 * counted again as they come:
 *
 *     messages put, removed, swept     one by one: the head of the subject, its chain, the stream's counters
 *     heads                            not taken, but that all of them go, where all messages do
 *     state of a stream                last sequence, stamps and last id are taken (no sequence is given out twice),
 *                                      the first sequence sweeps what lies below it; messages, bytes and subjects are
 *                                      counted
 *     all else                         as it is
 *
 * A gap in the sequences of a stream just behind a hole is what the hole held of it (or what was skipped or removed
 * there): it is named in an alarm and counted as corrupt. A removal that was in the hole is undone: the message is
 * there again.
 */
#include <stdlib.h>

#include "base/array.h"
#include "base/number.h"
#include "store/fill.h"
#include "store/overlay.h"
#include "recovery/rows.h"
#include "recovery/salvage.h"

#define STREAM_ALARMS_MAX 40 /* leaves room in the queue for others */
#define HOLES_MAX 4096       /* that are kept; more are named, and not filled again */

/* Sequences of a stream that damage took, or that had been removed before. */
typedef struct lost_range {
    uint32_t stream;
    uint64_t from;
    uint64_t upto;
} lost_range_t;

typedef struct rebuilt {
    uint32_t id;
    uint32_t hole;      /* the newest hole that its sequences were compared behind */
    uint64_t lost_from; /* a gap that is not told yet; 0: none */
    uint64_t lost_upto;
    uint64_t seen;    /* the last sequence that something was found at, a link too */
    uint64_t floor;   /* the first sequence that its state tells */
    uint64_t missing; /* so many messages its state counts and are not there */
    log_t log;
} rebuilt_t;

struct rebuild {
    store_t *store;
    env_t *env;
    rebuilt_t *streams;
    uint32_t count;
    uint64_t capacity;
    uint32_t holes;
    lost_range_t *lost;
    uint64_t lost_count;
    uint64_t lost_capacity;
    uint32_t alarms;
    bool journal; /* what comes is of the journal */
    rows_t rows;
};

rebuild_t *rebuild_new(store_t *store) {
    rebuild_t *rebuild = calloc(1, sizeof *rebuild);
    if (rebuild != NULL) {
        rebuild->store = store;
        rebuild->env = rebuild->rows.env = store->env;
    }
    return rebuild;
}

void rebuild_free(rebuild_t *rebuild) {
    if (rebuild != NULL) {
        free(rebuild->streams);
        free(rebuild->lost);
        rows_end(&rebuild->rows);
    }
    free(rebuild);
}

void rebuild_hole(rebuild_t *rebuild) {
    rebuild->holes++;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

static status_t stream_of(rebuild_t *rebuild, uint32_t id, rebuilt_t **out) {
    for (uint32_t i = 0; i < rebuild->count; i++) {
        if (rebuild->streams[i].id == id) {
            *out = &rebuild->streams[i];
            return STATUS_OK;
        }
    }
    if (array_reserve(&rebuild->streams, &rebuild->capacity, rebuild->count + 1u, STREAMS_MIN, sizeof(rebuilt_t))
        != STATUS_OK) {
        return STATUS_NO_MEMORY;
    }
    rebuilt_t *rebuilt = &rebuild->streams[rebuild->count];
    rebuilt->id = id;
    rebuilt->hole = 0;
    rebuilt->lost_from = rebuilt->lost_upto = rebuilt->missing = rebuilt->seen = rebuilt->floor = 0;
    log_begin(&rebuilt->log, 1);
    store_key_t key;
    bytes_t value = BYTES_NONE;
    log_key(&key, id);
    status_t status = STATUS_OK;
    switch (env_write_get(rebuild->env, DB_RECORDS, key_bytes(&key), &value)) {
    case READ_UNKNOWN: status = env_write_why(rebuild->env); break;
    case READ_NONE: break;
    case READ_FOUND:
        if (value_sound(key_bytes(&key), value)) {
            (void)!log_read(&rebuilt->log, bytes_after(value, VALUE_CRC_SIZE)); /* else it stays empty */
        }
        break;
    }
    if (status != STATUS_OK) {
        return status;
    }
    rebuild->count++;
    *out = rebuilt;
    return STATUS_OK;
}

static void forget_stream(rebuild_t *rebuild, uint32_t id) {
    for (uint32_t i = 0; i < rebuild->count; i++) {
        if (rebuild->streams[i].id == id) {
            rebuild->count--;
            memmove(&rebuild->streams[i], &rebuild->streams[rebuild->count], sizeof(rebuilt_t));
            return;
        }
    }
}

static void rebuild_lost(rebuild_t *rebuild, uint32_t stream, uint64_t from, uint64_t upto) {
    if (rebuild->lost_count < HOLES_MAX
        && array_reserve(&rebuild->lost, &rebuild->lost_capacity, rebuild->lost_count + 1, STREAMS_MIN,
                         sizeof(lost_range_t))
               == STATUS_OK) {
        rebuild->lost[rebuild->lost_count++] = (lost_range_t){.stream = stream, .from = from, .upto = upto};
    }
}

/* Sequences up to `next` are accounted for; what lies between them and the last one is missing when a hole came in
 * between. */
static void rebuild_compare(rebuild_t *rebuild, rebuilt_t *rebuilt, uint64_t next) {
    uint64_t expected = number_most(rebuilt->log.last_seq, rebuilt->seen) + 1;
    if (rebuilt->hole != rebuild->holes && next > expected) {
        rebuilt->lost_from = rebuilt->lost_from == 0 ? expected : rebuilt->lost_from;
        rebuilt->lost_upto = next - 1;
        rebuild_lost(rebuild, rebuilt->id, expected, next - 1);
    }
    rebuilt->hole = rebuild->holes;
    rebuilt->seen = number_most(rebuilt->seen, next - 1);
}

static void tell_lost(rebuild_t *rebuild, rebuilt_t *rebuilt) {
    uint64_t from = number_most(rebuilt->lost_from, rebuilt->log.first_seq);
    if (rebuilt->lost_from == 0 || from > rebuilt->lost_upto) {
        rebuilt->lost_from = 0;
        return;
    }
    store_damaged(rebuild->store, rebuilt->lost_upto - from + 1);
    rebuilt->lost_from = 0;
    if (rebuild->alarms < STREAM_ALARMS_MAX) {
        rebuild->alarms++;
        store_alarm(rebuild->store, ALARM_CORRUPT, rebuilt->id, from,
                    "messages %llu to %llu of stream %u were in a damaged part of the store: they are lost, or had "
                    "been removed",
                    (unsigned long long)from, (unsigned long long)rebuilt->lost_upto, rebuilt->id);
    }
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* A checkpoint that was cut short may have put the message alone (apply.h): the state and the head that are there do
 * not know of it then. */
static status_t put_message(rebuild_t *rebuild, rebuilt_t *rebuilt, uint64_t seq, const message_record_t *given) {
    message_record_t message = *given; /* its slices lie in the ring */
    message_record_t there = {0};
    head_t head;
    rebuild_compare(rebuild, rebuilt, seq);
    bool is_there = false;
    switch (row_message_get(&rebuild->rows, rebuilt->id, seq, &there)) {
    case ENTRY_UNKNOWN: return env_write_why(rebuild->env);
    case ENTRY_DAMAGED: return STATUS_OK;
    case ENTRY_NONE: break;
    case ENTRY_FOUND: is_there = true; break;
    }
    if ((is_there && (there.flags & MESSAGE_GONE) != 0)
        || (rebuild->journal && (message.flags & MESSAGE_FILLED) != 0 && seq <= rebuilt->log.last_seq)) {
        return STATUS_OK; /* of the latter the hole is there still, or again, and is filled once more */
    }
    status_t status = row_head_get(&rebuild->rows, rebuilt->id, message.subject, &head);
    if (status != STATUS_OK) {
        return status;
    }
    bool counted = is_there && seq <= rebuilt->log.last_seq;
    bool new_subject = head.count == 0;
    message.previous = head.count > 0 && head.last < seq ? head.last : 0;
    if (!is_there || new_subject || head.last < seq) {
        head.first = new_subject ? seq : head.first;
        head.last = seq > head.last ? seq : head.last;
        head.count++;
        status = row_head_put(&rebuild->rows, rebuilt->id, message.subject, head);
    }
    if (status == STATUS_OK && !is_there) {
        status = row_message_put(&rebuild->rows, rebuilt->id, seq, &message);
    }
    if (status == STATUS_OK && !counted) {
        log_count(&rebuilt->log, seq, &message, new_subject);
    }
    return status;
}

/* *newest: the newest one below `at` on the subject's chain that is alive; 0: the chain does not say. */
static status_t newest_before(rebuild_t *rebuild, uint32_t id, uint64_t at, head_t head, uint64_t *newest) {
    *newest = 0;
    while (at >= head.first && at != 0) {
        message_record_t message;
        switch (row_message_get(&rebuild->rows, id, at, &message)) {
        case ENTRY_UNKNOWN: return env_write_why(rebuild->env);
        case ENTRY_NONE:
        case ENTRY_DAMAGED: return STATUS_OK;
        case ENTRY_FOUND: break;
        }
        if ((message.flags & MESSAGE_GONE) == 0) {
            *newest = at;
            return STATUS_OK;
        }
        at = message.previous;
    }
    return STATUS_OK;
}

/* Takes one off its head, which it begins, ends or is within. */
static status_t drop_from_head(rebuild_t *rebuild, rebuilt_t *rebuilt, uint64_t seq, uint64_t previous,
                               bytes_t subject) {
    head_t head;
    status_t status = row_head_get(&rebuild->rows, rebuilt->id, subject, &head);
    if (status != STATUS_OK || head.count == 0) {
        return status;
    }
    head.count--;
    if (head.count == 0) {
        log_lose_subject(&rebuilt->log);
    }
    if (seq == head.last) {
        uint64_t before;
        status = newest_before(rebuild, rebuilt->id, previous, head, &before);
        head.last = before != 0 ? before : head.first;
    } else if (seq <= head.first) {
        head.first = seq + 1;
    }
    return status == STATUS_OK ? row_head_put(&rebuild->rows, rebuilt->id, subject, head) : status;
}

/* Takes it off its head and the counters; the caller takes it out of the database. */
static status_t drop_message(rebuild_t *rebuild, rebuilt_t *rebuilt, uint64_t seq) {
    message_record_t message;
    switch (row_message_get(&rebuild->rows, rebuilt->id, seq, &message)) {
    case ENTRY_UNKNOWN: return env_write_why(rebuild->env);
    case ENTRY_NONE:
    case ENTRY_DAMAGED: return STATUS_OK;
    case ENTRY_FOUND: break;
    }
    if ((message.flags & MESSAGE_GONE) != 0) {
        return STATUS_OK;
    }
    log_discount(&rebuilt->log, &message);
    uint8_t *copy = malloc((size_t)message.subject.size + 1); /* LMDB's memory moves with the next write */
    if (copy == NULL) {
        return STATUS_NO_MEMORY;
    }
    memcpy(copy, message.subject.at, message.subject.size);
    bytes_t subject = bytes_of(copy, message.subject.size);
    status_t status = drop_from_head(rebuild, rebuilt, seq, message.previous, subject);
    free(copy);
    return status;
}

static status_t raw_range(rebuild_t *rebuild, const batch_op_t *op) {
    uint64_t done;
    return env_write_delete_range(rebuild->env, (store_db_t)op->db, op->key, op->value, UINT64_MAX, &done);
}

static status_t rebuild_sweep(rebuild_t *rebuild, rebuilt_t *rebuilt, uint64_t from, uint64_t to) {
    store_key_t key;
    store_key_t end;
    uint64_t seq = from;
    read_outcome_t outcome;
    while (read_goes_on(outcome = row_message_seek(&rebuild->rows, rebuilt->id, &seq)) && seq < to) {
        status_t status = drop_message(rebuild, rebuilt, seq);
        if (status != STATUS_OK) {
            return status;
        }
        seq++;
    }
    switch (outcome) {
    case READ_UNKNOWN: return env_write_why(rebuild->env);
    case READ_NONE:
    case READ_FOUND: break;
    }
    key_message(&key, rebuilt->id, from);
    key_message(&end, rebuilt->id, to);
    const batch_op_t op = {
        .kind = OP_DELETE_RANGE, .db = DB_MESSAGES, .key = key_bytes(&key), .value = key_bytes(&end)};
    return raw_range(rebuild, &op);
}

/* ---- ops --------------------------------------------------------------------------------------------------------- */

static status_t rebuild_raw(rebuild_t *rebuild, const batch_op_t *op) {
    switch ((op_kind_in_batch_t)op->kind) {
    case OP_PUT: return env_write_put(rebuild->env, (store_db_t)op->db, op->key, op->value);
    case OP_DELETE: return env_write_delete(rebuild->env, (store_db_t)op->db, op->key);
    case OP_DELETE_RANGE: return raw_range(rebuild, op);
    case OP_PUT_SHARED: break; /* a message's, which is not put as it is */
    }
    return STATUS_CORRUPT;
}

static status_t take_message(rebuild_t *rebuild, const batch_op_t *op) {
    uint32_t id = load_be32(op->key.at);
    if (op->kind == OP_DELETE_RANGE && op->key.size == 4) {
        forget_stream(rebuild, id); /* all of the stream goes */
        return rebuild_raw(rebuild, op);
    }
    rebuilt_t *rebuilt = NULL;
    status_t status = stream_of(rebuild, id, &rebuilt);
    if (status != STATUS_OK) {
        return status;
    }
    uint64_t seq = load_be64(op->key.at + 4);
    if (op->kind == OP_DELETE_RANGE) {
        return rebuild_sweep(rebuild, rebuilt, seq, load_be64(op->value.at + 4));
    }
    message_record_t message = {0};
    if (op->kind == OP_PUT_SHARED && !op_sound(&rebuild->store->batches, op)) {
        rebuilt->hole = 0; /* what it shares was lost */
        return STATUS_OK;
    }
    if (op_puts(op) && op_message(&rebuild->store->batches, op, &message) && (message.flags & MESSAGE_GONE) == 0) {
        return put_message(rebuild, rebuilt, seq, &message);
    }
    if (op->kind == OP_PUT && !rebuild->journal) { /* there it may be a message's that was in a hole of the journal */
        rebuild_compare(rebuild, rebuilt, seq);
        rebuilt->seen = number_most(rebuilt->seen, seq);
    }
    status = drop_message(rebuild, rebuilt, seq);
    return status == STATUS_OK ? rebuild_raw(rebuild, op) : status;
}

static status_t take_state(rebuild_t *rebuild, const batch_op_t *op) {
    rebuilt_t *rebuilt = NULL;
    status_t status = stream_of(rebuild, load_be32(op->key.at + 1), &rebuilt);
    log_t said;
    if (status == STATUS_OK) {
        status = log_read(&said, bytes_after(op->value, VALUE_CRC_SIZE));
    }
    if (status != STATUS_OK || said.last_seq < rebuilt->log.last_seq) {
        return status;
    }
    rebuild_compare(rebuild, rebuilt, said.last_seq + 1);
    log_follow(&rebuilt->log, &said);
    rebuilt->floor = said.first_seq;
    rebuilt->missing = log_sound(&said) ? number_less(said.messages, rebuilt->log.messages) : 0;
    /* Numbers that contradict each other sweep nothing. */
    if (log_sound(&said) && said.first_seq > rebuilt->log.first_seq) {
        status = rebuild_sweep(rebuild, rebuilt, rebuilt->log.first_seq, said.first_seq);
        log_set_first(&rebuilt->log, said.first_seq);
    }
    tell_lost(rebuild, rebuilt);
    return status;
}

/* All of a stream's at once: its messages go in the same batch, as its range of messages says. */
static status_t lose_heads(rebuild_t *rebuild, const batch_op_t *op) {
    rebuilt_t *rebuilt = NULL;
    status_t status = stream_of(rebuild, load_be32(op->key.at), &rebuilt);
    if (status == STATUS_OK) {
        log_lose_subjects(&rebuilt->log);
        status = raw_range(rebuild, op);
    }
    return status;
}

static bool is_state(const batch_op_t *op) {
    return op->db == DB_RECORDS && op->key.size == 5 && op->key.at[0] == RECORD_STATE;
}

static bool is_hole(const batch_op_t *op) {
    return op->db == DB_RECORDS && op->key.size > 0 && op->key.at[0] == RECORD_HOLE;
}

/* Can there be such an op? Asked before anything is done: what LMDB says of a write is never taken for the answer. */
static bool op_fits(const rebuild_t *rebuild, const batch_op_t *op) {
    const batches_t *batches = &rebuild->store->batches;
    message_record_t message;
    log_t said;
    bool puts = op_puts(op);
    if (puts
        && (op->value.size < VALUE_CRC_SIZE
            || (is_state(op) && log_read(&said, bytes_after(op->value, VALUE_CRC_SIZE)) != STATUS_OK))) {
        return false;
    }
    if (op->db != DB_MESSAGES || (op->kind == OP_DELETE_RANGE && op->key.size == 4)) {
        return true;
    }
    bool lost = op->kind == OP_PUT_SHARED && !op_sound(batches, op); /* what it shares: take_message */
    return op->key.size == MESSAGE_KEY_SIZE && (!puts || lost || op_message(batches, op, &message))
           && (op->kind != OP_DELETE_RANGE || op->value.size == MESSAGE_KEY_SIZE);
}

static status_t rebuild_take(rebuild_t *rebuild, const batch_op_t *op) {
    if (op->db == DB_MESSAGES) {
        return take_message(rebuild, op);
    }
    if (op->db == DB_HEADS) {
        return op->kind == OP_DELETE_RANGE && op->key.size == 4 ? lose_heads(rebuild, op) : STATUS_OK;
    }
    if (is_state(op) && op->kind == OP_PUT) {
        return take_state(rebuild, op);
    }
    if (rebuild->journal && op->kind != OP_DELETE_RANGE && is_hole(op)) {
        return STATUS_OK; /* what was put into it was not taken, above */
    }
    if (is_state(op) && op->kind == OP_DELETE) {
        forget_stream(rebuild, load_be32(op->key.at + 1));
    }
    return rebuild_raw(rebuild, op);
}

status_t rebuild_op(rebuild_t *rebuild, const batch_op_t *op) {
    return op_fits(rebuild, op) ? rebuild_take(rebuild, op) : STATUS_OK;
}

static status_t take_of_batch(void *context, const batch_op_t *op, uint64_t position) {
    (void)position;
    return op_fits(context, op) ? rebuild_take(context, op) : STATUS_CORRUPT;
}

status_t rebuild_batch(rebuild_t *rebuild, const uint8_t *batch, uint32_t size) {
    rebuild->journal = true;
    return batch_each(batch, size, 0, take_of_batch, rebuild);
}

/* Only puts prove themselves. Without a sound structure it is not even sure that what looks like an op is one (a
 * payload may hold anything), so only what stands before the damage is taken, and of that what concerns messages. */
status_t rebuild_pieces(rebuild_t *rebuild, const uint8_t *batch, uint32_t end, bool whole) {
    uint32_t offset = BATCH_HEADER_SIZE;
    status_t status = STATUS_OK;
    batch_op_t op;
    rebuild->journal = true;
    while (status == STATUS_OK && offset < end && op_next(batch, end, &offset, &op)) {
        bool sound = op_puts(&op) && op_sound(&rebuild->store->batches, &op);
        if (op_puts(&op) && !sound && !whole) {
            break;
        }
        if (!sound || !op_fits(rebuild, &op) || (!whole && op.db != DB_MESSAGES && !is_state(&op))) {
            continue;
        }
        rebuilt_t *rebuilt = NULL;
        if (op.db == DB_MESSAGES && (status = stream_of(rebuild, load_be32(op.key.at), &rebuilt)) == STATUS_OK) {
            rebuilt->hole = 0; /* any gap in here may be damage */
        }
        status = status == STATUS_OK ? rebuild_take(rebuild, &op) : status;
    }
    return status;
}

/* ---- finishing a store ------------------------------------------------------------------------------------------- */

static status_t finish_stream(rebuild_t *rebuild, rebuilt_t *rebuilt) {
    log_t *log = &rebuilt->log;
    store_key_t key;
    tell_lost(rebuild, rebuilt);
    uint64_t seq = log->first_seq;
    bool counts = false;
    read_outcome_t outcome = READ_NONE;
    while (log->messages > 0 && !counts
           && read_goes_on(outcome = row_message_seek(&rebuild->rows, rebuilt->id, &seq))) {
        message_record_t message;
        switch (row_message_get(&rebuild->rows, rebuilt->id, seq, &message)) {
        case ENTRY_UNKNOWN: return env_write_why(rebuild->env);
        case ENTRY_NONE:
        case ENTRY_DAMAGED: counts = true; break;
        case ENTRY_FOUND: counts = (message.flags & MESSAGE_GONE) == 0; break;
        }
        seq += counts ? 0 : 1;
    }
    switch (outcome) {
    case READ_UNKNOWN: return env_write_why(rebuild->env);
    case READ_NONE: log_set_empty(log); break;
    case READ_FOUND: log_set_first(log, seq); break;
    }
    uint8_t *value = rows_room(&rebuild->rows, LOG_STATE_MAX);
    if (value == NULL) {
        return STATUS_NO_MEMORY;
    }
    log_key(&key, rebuilt->id);
    uint32_t size = log_write(log, key_bytes(&key), value);
    return env_write_put(rebuild->env, DB_RECORDS, key_bytes(&key), bytes_of(value, size));
}

/* Keeps a stream's holes: a stream with an origin asks it for what is missing there (links/holes.py). All of a stream's
 * sequences that are missing had a message if there are as many of them as messages. */
static status_t keep_holes(rebuild_t *rebuild, const rebuilt_t *rebuilt) {
    uint64_t absent = 0;
    status_t status = STATUS_OK;
    for (uint64_t i = 0; i < rebuild->lost_count; i++) {
        lost_range_t *lost = &rebuild->lost[i];
        bool its_own = lost->stream == rebuilt->id;
        lost->from = its_own ? number_most(lost->from, number_most(rebuilt->floor, 1)) : lost->from;
        absent += its_own ? number_less(lost->upto + 1, lost->from) : 0;
    }
    for (uint64_t i = 0; status == STATUS_OK && i < rebuild->lost_count; i++) {
        const lost_range_t *lost = &rebuild->lost[i];
        const hole_t hole = {.from = lost->from, .upto = lost->upto, .certain = absent == rebuilt->missing};
        uint8_t at[HOLE_KEY_SIZE];
        uint8_t value[VALUE_CRC_SIZE + HOLE_SIZE];
        store_key_t key;
        if (lost->stream != rebuilt->id || lost->from > lost->upto) {
            continue;
        }
        hole_key(at, lost->stream, lost->upto);
        key_record(&key, RECORD_HOLE, bytes_of(at, sizeof at));
        hole_write(value + VALUE_CRC_SIZE, &hole);
        value_seal(key_bytes(&key), value, sizeof value);
        status = env_write_put(rebuild->env, DB_RECORDS, key_bytes(&key), bytes_of(value, sizeof value));
    }
    return status;
}

/* A stream whose definition is lost has messages that nobody is shown. */
static status_t check_definition(rebuild_t *rebuild, uint32_t id) {
    uint8_t at[4];
    store_key_t key;
    bytes_t value = BYTES_NONE;
    store_be32(at, id);
    key_record(&key, RECORD_STREAM, bytes_of(at, sizeof at));
    switch (env_write_get(rebuild->env, DB_RECORDS, key_bytes(&key), &value)) {
    case READ_UNKNOWN: return env_write_why(rebuild->env);
    case READ_FOUND: return STATUS_OK;
    case READ_NONE: break;
    }
    if (rebuild->alarms < STREAM_ALARMS_MAX) {
        rebuild->alarms++;
        store_alarm(rebuild->store, ALARM_CORRUPT, id, 0,
                    "the definition of stream %u was in a damaged part of the store and is lost: its messages are "
                    "kept, but not served",
                    id);
    }
    return STATUS_OK;
}

status_t rebuild_end(rebuild_t *rebuild) {
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < rebuild->count; i++) {
        status = finish_stream(rebuild, &rebuild->streams[i]);
        status = status == STATUS_OK ? keep_holes(rebuild, &rebuild->streams[i]) : status;
        status = status == STATUS_OK ? check_definition(rebuild, rebuild->streams[i].id) : status;
    }
    return status;
}
