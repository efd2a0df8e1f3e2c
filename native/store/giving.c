/* giving.c: the sender's side of copying.h. */
#include <stdlib.h>

#include "base/check.h"
#include "store/copying.h"
#include "store/core.h"
#include "store/record.h"

#define GIVE_STEPS 4096u /* rows that one call looks at */
#define GIVE_SOURCES_STEP 256u
#define GIVE_RECORD (1u + 3 * 8 + 1 + 2 * 2 + 2 * 4)
const uint8_t copied_kinds[COPIED_KINDS] = {
    RECORD_CONSUMER,   RECORD_CONSUMER_STATE, RECORD_CONSUMER_PENDING, RECORD_SCHEDULE,       RECORD_SESSION,
    RECORD_SESSION_IN, RECORD_SESSION_OUT,    RECORD_SESSION_WILL,     RECORD_SESSION_SHARED, RECORD_SOURCE};
#define APPLIED_MIN (VALUE_CRC_SIZE + 8u)

typedef enum phase {
    GIVE_DEFINITION,
    GIVE_RUNS,
    GIVE_ROWS,
    GIVE_RECORDS,
    GIVE_SOURCES,
    GIVE_EXPIRY,
    GIVE_END,
    GIVE_OVER
} phase_t;

/* Where it stands among the rows of one of the tables whose keys begin so; the row is read. */
typedef struct row {
    uint8_t prefix[5];
    uint32_t prefix_size;
    bool known;
    bool there;
    bytes_t key;
    bytes_t value;
    store_key_t from; /* where it is read from, in the next call */
} row_t;

struct giving {
    store_stream_t *stream;
    env_view_t *view;
    uint64_t have_seq;
    phase_t phase;
    uint64_t run_from; /* 0: no run is open */
    uint64_t run_upto;
    row_t messages;
    row_t ids;
    row_t records;
    row_t expiry;
    uint32_t kind;                  /* of records: which of them */
    uint8_t source[KEY_RECORD_MAX]; /* the last one that was given .. */
    uint32_t source_size;           /* .. 0: none yet */
    uint32_t numbers_size;
    uint32_t note_size;
    uint8_t numbers[LOG_STATE_MAX];
    uint8_t note[LEDGER_NOTE_MAX];
};

/* ---- the snapshot ------------------------------------------------------------------------------------------------ */

/* The record without its checksum. */
static entry_outcome_t give_record(const giving_t *giving, uint32_t kind, uint32_t number, bytes_t *value) {
    uint8_t at[4];
    store_key_t key;
    store_be32(at, number);
    key_record(&key, kind, bytes_of(at, sizeof at));
    switch (env_view_get(giving->view, DB_RECORDS, key_bytes(&key), value)) {
    case READ_UNKNOWN: return ENTRY_UNKNOWN;
    case READ_NONE: return ENTRY_NONE;
    case READ_FOUND: break;
    }
    if (!value_sound(key_bytes(&key), *value)) {
        return ENTRY_DAMAGED;
    }
    *value = bytes_after(*value, VALUE_CRC_SIZE);
    return ENTRY_FOUND;
}

/* One that a checkpoint has from when it has the stream. STATUS_AGAIN: none had the stream yet. */
static status_t give_record_of_stream(const giving_t *giving, uint32_t kind, uint32_t number, bytes_t *value) {
    switch (give_record(giving, kind, number, value)) {
    case ENTRY_UNKNOWN: return STATUS_IO;
    case ENTRY_DAMAGED: return STATUS_CORRUPT;
    case ENTRY_NONE: return STATUS_AGAIN;
    case ENTRY_FOUND: break;
    }
    return STATUS_OK;
}

static status_t give_look(giving_t *giving, uint32_t group, uint64_t *index) {
    bytes_t applied = BYTES_NONE;
    bytes_t numbers = BYTES_NONE;
    status_t status = give_record_of_stream(giving, RECORD_APPLIED, group, &applied);
    status = status == STATUS_OK ? give_record_of_stream(giving, RECORD_STATE, giving->stream->id, &numbers) : status;
    if (status != STATUS_OK) {
        return status;
    }
    if (applied.size < APPLIED_MIN - VALUE_CRC_SIZE || applied.size - 8 > sizeof giving->note
        || numbers.size > sizeof giving->numbers) {
        return STATUS_CORRUPT;
    }
    *index = load_be64(applied.at);
    giving->note_size = applied.size - 8;
    (void)bytes_write(giving->note, bytes_after(applied, 8));
    giving->numbers_size = numbers.size;
    (void)bytes_write(giving->numbers, numbers);
    return STATUS_OK;
}

static void row_begin(row_t *row, bytes_t prefix) {
    *row = (row_t){.prefix_size = prefix.size};
    (void)bytes_write(row->prefix, prefix);
    row->from.size = prefix.size;
    (void)bytes_write(row->from.at, prefix);
}

static void records_begin(giving_t *giving) {
    uint8_t prefix[5] = {copied_kinds[giving->kind]};
    store_be32(prefix + 1, giving->stream->id);
    row_begin(&giving->records, bytes_of(prefix, sizeof prefix));
}

status_t store_give_begin(store_stream_t *stream, uint32_t group, uint64_t have_seq, giving_t **out, uint64_t *index) {
    store_t *store = stream->store;
    *out = NULL;
    if (store->pipeline.boundary != 0) {
        return STATUS_AGAIN; /* what LMDB has may end in the midst of a batch */
    }
    giving_t *giving = calloc(1, sizeof *giving);
    if (giving == NULL) {
        return STATUS_NO_MEMORY;
    }
    *giving = (giving_t){.stream = stream, .have_seq = have_seq};
    uint8_t id[4];
    store_be32(id, stream->id);
    row_begin(&giving->messages, bytes_of(id, sizeof id));
    row_begin(&giving->ids, bytes_of(id, sizeof id));
    key_message(&giving->ids.from, stream->id, have_seq < UINT64_MAX ? have_seq + 1 : have_seq);
    row_begin(&giving->expiry, bytes_of(id, sizeof id));
    records_begin(giving);
    status_t status = env_view_open(store->env, &giving->view);
    status = status == STATUS_OK ? give_look(giving, group, index) : status;
    if (status != STATUS_OK) {
        store_give_end(giving);
        return status;
    }
    *out = giving;
    return STATUS_OK;
}

void store_give_end(giving_t *giving) {
    if (giving != NULL) {
        env_view_close(giving->view);
        free(giving);
    }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* What was read is one of its rows, or there are no more. */
static status_t row_judge(row_t *row, read_outcome_t outcome) {
    row->known = row->there = false;
    switch (outcome) {
    case READ_UNKNOWN: return STATUS_IO;
    case READ_NONE: break;
    case READ_FOUND:
        row->there = row->key.size >= row->prefix_size && memcmp(row->key.at, row->prefix, row->prefix_size) == 0;
        break;
    }
    row->known = true;
    return row->there && !value_sound(row->key, row->value) ? STATUS_CORRUPT : STATUS_OK;
}

/* The row where it stands; the one that was read already in this call, if nobody has taken it. */
static status_t row_look(giving_t *giving, row_t *row, store_db_t db) {
    return row->known ? STATUS_OK
                      : row_judge(row, env_view_seek(giving->view, db, key_bytes(&row->from), &row->key, &row->value));
}

/* Goes behind the row. Its key, and what follows it in the order of keys, is where the next call begins: what was read
 * does not live so long. */
static status_t row_step(giving_t *giving, row_t *row, store_db_t db) {
    check(row->key.size <= KEY_MAX);
    row->from.size = row->key.size + 1;
    *bytes_write(row->from.at, row->key) = 0;
    return row_judge(row, env_view_next(giving->view, db, &row->key, &row->value));
}

/* Of messages or ids. */
static status_t row_of_seq(giving_t *giving, row_t *row, store_db_t db) {
    status_t status = row_look(giving, row, db);
    return status == STATUS_OK && row->there && row->key.size != MESSAGE_KEY_SIZE ? STATUS_CORRUPT : status;
}

static uint64_t row_seq(const row_t *row) {
    return row->there ? load_be64(row->key.at + 4) : UINT64_MAX;
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

static status_t give_pair(buffer_t *to, char what, uint64_t first, uint64_t second) {
    uint8_t at[17];
    at[0] = (uint8_t)what;
    store_be64(at + 1, first);
    store_be64(at + 9, second);
    return buffer_append(to, at, sizeof at);
}

static status_t give_definition(giving_t *giving, buffer_t *to) {
    bytes_t definition = BYTES_NONE;
    uint8_t at[5] = {'D'};
    switch (give_record(giving, RECORD_STREAM, giving->stream->id, &definition)) {
    case ENTRY_UNKNOWN: return STATUS_IO;
    case ENTRY_DAMAGED: return STATUS_CORRUPT;
    case ENTRY_NONE: definition = BYTES_NONE; break; /* control does not know it, as in tests: nothing is said of it */
    case ENTRY_FOUND: break;
    }
    giving->phase = GIVE_RUNS;
    store_be32(at + 1, definition.size);
    status_t status = buffer_append(to, at, sizeof at);
    return status == STATUS_OK ? buffer_append(to, definition.at, definition.size) : status;
}

static status_t run_close(giving_t *giving, buffer_t *to) {
    uint64_t from = giving->run_from;
    giving->run_from = 0;
    return from != 0 ? give_pair(to, 'R', from, giving->run_upto) : STATUS_OK;
}

static status_t give_run(giving_t *giving, buffer_t *to) {
    message_record_t message;
    status_t status = row_of_seq(giving, &giving->messages, DB_MESSAGES);
    uint64_t seq = row_seq(&giving->messages);
    if (status != STATUS_OK) {
        return status;
    }
    if (seq > giving->have_seq) {
        giving->phase = GIVE_ROWS;
        return run_close(giving, to);
    }
    if (!message_read(giving->messages.key, giving->messages.value, &message)) {
        return STATUS_CORRUPT;
    }
    bool there = (message.flags & MESSAGE_GONE) == 0;
    if (giving->run_from != 0 && (!there || seq != giving->run_upto + 1)) {
        status = run_close(giving, to);
    }
    if (there) {
        giving->run_from = giving->run_from == 0 ? seq : giving->run_from;
        giving->run_upto = seq;
    }
    return status == STATUS_OK ? row_step(giving, &giving->messages, DB_MESSAGES) : status;
}

static status_t give_message(const row_t *row, bytes_t id, buffer_t *to) {
    message_record_t message;
    uint8_t *at;
    if (!message_read(row->key, row->value, &message)) {
        return STATUS_CORRUPT;
    }
    uint64_t size = GIVE_RECORD + (uint64_t)id.size + message.subject.size + message.header.size + message.payload.size;
    status_t status = buffer_reserve(to, size, &at);
    if (status != STATUS_OK) {
        return status;
    }
    at[0] = 'M';
    store_be64(at + 1, row_seq(row));
    store_be64(at + 9, (uint64_t)message.ts);
    store_be64(at + 17, (uint64_t)message.born);
    at[25] = message.flags & (MESSAGE_NEVER | MESSAGE_SCHEDULE);
    store_be16(at + 26, (uint16_t)id.size);
    store_be16(at + 28, (uint16_t)message.subject.size);
    store_be32(at + 30, message.header.size);
    store_be32(at + 34, message.payload.size);
    at = bytes_write(bytes_write(at + GIVE_RECORD, id), message.subject);
    (void)bytes_write(bytes_write(at, message.header), message.payload);
    to->size += size;
    return STATUS_OK;
}

static status_t give_id(uint64_t seq, int64_t born, bytes_t id, buffer_t *to) {
    uint8_t at[19];
    at[0] = 'I';
    store_be64(at + 1, seq);
    store_be64(at + 9, (uint64_t)born);
    store_be16(at + 17, (uint16_t)id.size);
    status_t status = buffer_append(to, at, sizeof at);
    return status == STATUS_OK ? buffer_append(to, id.at, id.size) : status;
}

static bool is_gone(const row_t *row) {
    message_record_t message;
    return row->there && message_read(row->key, row->value, &message) && (message.flags & MESSAGE_GONE) != 0;
}

/* The next message or id by their sequence, or both where they have the same. */
static status_t give_row(giving_t *giving, buffer_t *to) {
    row_t *messages = &giving->messages;
    row_t *ids = &giving->ids;
    bytes_t id = BYTES_NONE;
    int64_t born = 0;
    status_t status = row_of_seq(giving, messages, DB_MESSAGES);
    status = status == STATUS_OK ? row_of_seq(giving, ids, DB_ID_ORDER) : status;
    if (status != STATUS_OK) {
        return status;
    }
    uint64_t seq = row_seq(messages) < row_seq(ids) ? row_seq(messages) : row_seq(ids);
    if (seq == UINT64_MAX) {
        giving->phase = GIVE_RECORDS;
        return STATUS_OK;
    }
    bool message = row_seq(messages) == seq;
    bool named = row_seq(ids) == seq;
    if (named && (ids->value.size < ID_ORDER_FIXED_SIZE || ids->value.size - ID_ORDER_FIXED_SIZE > UINT16_MAX)) {
        return STATUS_CORRUPT;
    }
    if (named) {
        born = (int64_t)load_be64(ids->value.at + VALUE_CRC_SIZE);
        id = bytes_after(ids->value, ID_ORDER_FIXED_SIZE);
    }
    if (message && !is_gone(messages)) {
        status = give_message(messages, id, to);
    } else if (named) {
        status = give_id(seq, born, id, to);
    }
    status = status == STATUS_OK && message ? row_step(giving, messages, DB_MESSAGES) : status;
    return status == STATUS_OK && named ? row_step(giving, ids, DB_ID_ORDER) : status;
}

static status_t give_kept(uint32_t kind, bytes_t key, bytes_t value, buffer_t *to) {
    uint8_t at[8] = {'C', (uint8_t)kind};
    store_be16(at + 2, (uint16_t)key.size);
    store_be32(at + 4, value.size);
    status_t status = buffer_append(to, at, sizeof at);
    status = status == STATUS_OK ? buffer_append(to, key.at, key.size) : status;
    return status == STATUS_OK ? buffer_append(to, value.at, value.size) : status;
}

static status_t give_consumer(giving_t *giving, buffer_t *to) {
    row_t *row = &giving->records;
    status_t status = row_look(giving, row, DB_RECORDS);
    if (status != STATUS_OK) {
        return status;
    }
    if (!row->there) {
        giving->kind++;
        if (giving->kind == COPIED_KINDS) {
            giving->phase = GIVE_EXPIRY;
        } else if (copied_kinds[giving->kind] == RECORD_SOURCE && env_hides(giving->stream->store->env)) {
            giving->phase = GIVE_SOURCES;
        } else {
            records_begin(giving);
        }
        return STATUS_OK;
    }
    status =
        give_kept(row->prefix[0], bytes_after(row->key, row->prefix_size), bytes_after(row->value, VALUE_CRC_SIZE), to);
    return status == STATUS_OK ? row_step(giving, row, DB_RECORDS) : status;
}

typedef struct sources {
    giving_t *giving;
    buffer_t *to;
    uint32_t left;
    status_t status;
} sources_t;

static bool give_source(void *context, bytes_t key, bytes_t value) {
    sources_t *sources = context;
    sources->status = give_kept(RECORD_SOURCE, bytes_after(key, 4), value, sources->to);
    sources->giving->source_size = key.size;
    (void)bytes_write(sources->giving->source, key);
    return --sources->left > 0 && sources->status == STATUS_OK;
}

/* Of a sealed store, whose keys are in another order in the snapshot: as they are now. */
static status_t give_sources(giving_t *giving, buffer_t *to) {
    sources_t sources = {.giving = giving, .to = to, .left = GIVE_SOURCES_STEP};
    uint8_t id[4];
    store_be32(id, giving->stream->id);
    list_outcome_t outcome = store_record_each(giving->stream->store, RECORD_SOURCE, bytes_of(id, sizeof id),
                                               bytes_of(giving->source, giving->source_size), give_source, &sources);
    switch (outcome) {
    case LIST_UNKNOWN:
    case LIST_LACKS: return list_status(outcome);
    case LIST_WHOLE: break;
    }
    giving->phase = sources.left > 0 ? GIVE_EXPIRY : GIVE_SOURCES;
    return sources.status;
}

static status_t give_expiry(giving_t *giving, buffer_t *to) {
    row_t *row = &giving->expiry;
    status_t status = row_look(giving, row, DB_EXPIRY);
    if (status != STATUS_OK) {
        return status;
    }
    if (!row->there) {
        giving->phase = GIVE_END;
        return STATUS_OK;
    }
    if (row->key.size != EXPIRY_KEY_SIZE) {
        return STATUS_CORRUPT;
    }
    status = give_pair(to, 'X', load_be64(row->key.at + 4), load_be64(row->key.at + 12));
    return status == STATUS_OK ? row_step(giving, row, DB_EXPIRY) : status;
}

static status_t give_sized(bytes_t bytes, buffer_t *to) {
    uint8_t size[2];
    store_be16(size, (uint16_t)bytes.size);
    status_t status = buffer_append(to, size, sizeof size);
    return status == STATUS_OK ? buffer_append(to, bytes.at, bytes.size) : status;
}

static status_t give_end(giving_t *giving, buffer_t *to) {
    giving->phase = GIVE_OVER;
    status_t status = buffer_append(to, "E", 1);
    status = status == STATUS_OK ? give_sized(bytes_of(giving->numbers, giving->numbers_size), to) : status;
    return status == STATUS_OK ? give_sized(bytes_of(giving->note, giving->note_size), to) : status;
}

static status_t give_next(giving_t *giving, buffer_t *to) {
    switch (giving->phase) {
    case GIVE_DEFINITION: return give_definition(giving, to);
    case GIVE_RUNS: return give_run(giving, to);
    case GIVE_ROWS: return give_row(giving, to);
    case GIVE_RECORDS: return give_consumer(giving, to);
    case GIVE_SOURCES: return give_sources(giving, to);
    case GIVE_EXPIRY: return give_expiry(giving, to);
    case GIVE_END: return give_end(giving, to);
    case GIVE_OVER: break;
    }
    return STATUS_OK;
}

status_t store_give(giving_t *giving, uint32_t most, buffer_t *to, bool *all) {
    status_t status = STATUS_OK;
    giving->messages.known = giving->ids.known = giving->records.known = giving->expiry.known = false;
    for (uint32_t step = 0; status == STATUS_OK && giving->phase != GIVE_OVER && step < GIVE_STEPS && to->size < most;
         step++) {
        status = give_next(giving, to);
    }
    *all = giving->phase == GIVE_OVER;
    return status;
}
