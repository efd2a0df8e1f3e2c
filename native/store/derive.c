/* derive.c: see derive.h. All streams that may have an entry on the page are gone through, one after the other.
 */
#include "store/derive.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/number.h"
#include "disk/waiting.h"
#include "store/core.h"

#define ROWS_MIN 64
#define ROWS_MAX 1024u   /* more than a page has */
#define ROWS_AT_ONCE 64u /* between two looks at the time */

/* A head, or an id with the newest message that has it. */
typedef struct derived {
    uint64_t hash; /* of its key */
    store_key_t key;
    bytes_t text; /* own memory */
    head_t head;
    int64_t born;
} derived_t;

struct derive {
    const store_t *store;
    uint32_t stream; /* that is gone through; 0: the next one is to be found .. */
    uint32_t done;   /* .. behind this one */
    bool stands;     /* the view's cursor is at a row of its */
    log_t said;
    derived_t *rows;
    uint64_t count;
    uint64_t capacity;
    uint8_t *value; /* room for one */
    uint64_t value_size;
    uint64_t named; /* names that definitions have */
};

derive_t *derive_new(const store_t *store) {
    derive_t *derive = calloc(1, sizeof *derive);
    if (derive != NULL) {
        derive->store = store;
    }
    return derive;
}

static void derived_forget(derive_t *derive) {
    for (uint64_t i = 0; i < derive->count; i++) {
        free((void *)(uintptr_t)derive->rows[i].text.at);
    }
    derive->count = 0;
}

void derive_free(derive_t *derive) {
    if (derive != NULL) {
        derived_forget(derive);
        free(derive->rows);
        free(derive->value);
    }
    free(derive);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* The row of a text whose entry belongs on the page; a new one has a count of 0. NULL: *status says why not, and
 * STATUS_OK that it belongs elsewhere. */
static derived_t *derived_of(derive_t *derive, const env_regrow_t *regrow, store_db_t db, uint32_t stream, bytes_t text,
                             status_t *status) {
    store_key_t key;
    key_text(&key, stream, text);
    *status = STATUS_OK;
    if (!env_regrow_holds(regrow, db, key_bytes(&key))) {
        return NULL;
    }
    uint64_t hash = hash_bytes(key.at, key.size);
    for (uint64_t i = 0; i < derive->count; i++) {
        if (derive->rows[i].hash == hash && bytes_equal(key_bytes(&derive->rows[i].key), key_bytes(&key))) {
            return &derive->rows[i];
        }
    }
    *status = derive->count == ROWS_MAX
                  ? STATUS_FULL
                  : array_reserve(&derive->rows, &derive->capacity, derive->count + 1, ROWS_MIN, sizeof *derive->rows);
    uint8_t *copy = *status == STATUS_OK ? malloc((size_t)text.size + 1) : NULL;
    if (copy == NULL) {
        *status = *status == STATUS_OK ? STATUS_NO_MEMORY : *status;
        return NULL;
    }
    (void)bytes_write(copy, text);
    derived_t *row = &derive->rows[derive->count++];
    *row = (derived_t){.hash = hash, .key = key, .text = bytes_of(copy, text.size)};
    return row;
}

static uint8_t *derived_room(derive_t *derive, uint64_t size) {
    return array_reserve(&derive->value, &derive->value_size, size, KEY_MAX, 1) == STATUS_OK ? derive->value : NULL;
}

static status_t derived_give(derive_t *derive, env_regrow_t *regrow, store_db_t db, const derived_t *row) {
    uint32_t size = db == DB_HEADS ? head_size(row->text) : id_size(row->text);
    uint8_t *value = derived_room(derive, size);
    if (value == NULL) {
        return STATUS_NO_MEMORY;
    }
    if (db == DB_HEADS) {
        head_write(value, key_bytes(&row->key), row->text, row->head);
    } else {
        id_write(value, key_bytes(&row->key), row->text, row->head.last, row->born);
    }
    return env_regrow_give(regrow, db, key_bytes(&row->key), bytes_of(value, size));
}

static status_t derived_give_all(derive_t *derive, env_regrow_t *regrow, store_db_t db) {
    status_t status = STATUS_OK;
    for (uint64_t i = 0; status == STATUS_OK && i < derive->count; i++) {
        status = derived_give(derive, regrow, db, &derive->rows[i]);
    }
    derived_forget(derive);
    return status;
}

/* ---- what they follow from --------------------------------------------------------------------------------------- */

static store_db_t source_of(store_db_t db) {
    return db == DB_HEADS ? DB_MESSAGES : db == DB_IDS ? DB_ID_ORDER : DB_IDS;
}

static status_t derive_head(derive_t *derive, const env_regrow_t *regrow, uint32_t stream, bytes_t key, bytes_t value) {
    message_record_t message;
    status_t status;
    uint64_t seq = key.size == MESSAGE_KEY_SIZE ? load_be64(key.at + 4) : 0;
    if (seq < derive->said.first_seq || seq > derive->said.last_seq || !value_sound(key, value)
        || !message_read(key, value, &message) || (message.flags & MESSAGE_GONE) != 0) {
        return STATUS_OK;
    }
    derived_t *row = derived_of(derive, regrow, DB_HEADS, stream, message.subject, &status);
    if (row != NULL) {
        row->head.first = row->head.count == 0 ? seq : row->head.first;
        row->head.last = seq;
        row->head.count++;
    }
    return status;
}

static status_t derive_id(derive_t *derive, const env_regrow_t *regrow, uint32_t stream, bytes_t key, bytes_t value) {
    status_t status;
    if (key.size != MESSAGE_KEY_SIZE || !value_sound(key, value) || value.size <= ID_ORDER_FIXED_SIZE) {
        return STATUS_OK;
    }
    derived_t *row = derived_of(derive, regrow, DB_IDS, stream, bytes_after(value, ID_ORDER_FIXED_SIZE), &status);
    uint64_t seq = load_be64(key.at + 4);
    if (row != NULL && seq >= row->head.last) {
        row->head.last = seq;
        row->born = (int64_t)load_be64(value.at + VALUE_CRC_SIZE);
    }
    return status;
}

static status_t derive_order(derive_t *derive, env_regrow_t *regrow, uint32_t stream, bytes_t key, bytes_t value) {
    store_key_t to;
    bytes_t id = BYTES_NONE;
    uint64_t seq;
    int64_t born;
    if (!value_sound(key, value) || !id_read(key, value, &id, &seq, &born)) {
        return STATUS_OK;
    }
    key_message(&to, stream, seq);
    if (!env_regrow_holds(regrow, DB_ID_ORDER, key_bytes(&to))) {
        return STATUS_OK;
    }
    uint32_t size = ID_ORDER_FIXED_SIZE + id.size;
    uint8_t *room = derived_room(derive, size);
    if (room == NULL) {
        return STATUS_NO_MEMORY;
    }
    store_be64(room + VALUE_CRC_SIZE, (uint64_t)born);
    (void)bytes_write(room + ID_ORDER_FIXED_SIZE, id);
    value_seal(key_bytes(&to), room, size);
    return env_regrow_give(regrow, DB_ID_ORDER, key_bytes(&to), bytes_of(room, size));
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* READ_NONE: it is newer than that commit. */
static read_outcome_t derive_begin(derive_t *derive, const env_regrow_t *regrow, store_db_t db, uint32_t stream) {
    store_key_t key;
    bytes_t value = BYTES_NONE;
    derive->stream = stream;
    derive->stands = false;
    if (db != DB_HEADS) {
        return READ_FOUND;
    }
    log_key(&key, stream);
    read_outcome_t outcome = env_view_get(env_regrow_view(regrow), DB_RECORDS, key_bytes(&key), &value);
    switch (outcome) {
    case READ_UNKNOWN:
    case READ_NONE: return outcome;
    case READ_FOUND: break;
    }
    return read_if(log_read_entry(&derive->said, key_bytes(&key), value));
}

/* In the order of their numbers, for others come and go meanwhile. 0: there is none. */
static uint32_t derive_next_stream(const derive_t *derive, const env_regrow_t *regrow) {
    const store_t *store = derive->store;
    uint32_t next = 0;
    for (uint32_t i = 0; i < store->streams.count; i++) {
        uint32_t id = store->streams.at[i]->id;
        bool later = id > derive->done && (next == 0 || id < next);
        next = later && env_regrow_spans(regrow, id) ? id : next;
    }
    return next;
}

/* The next entry of the stream's. */
static read_outcome_t source_next(derive_t *derive, const env_regrow_t *regrow, store_db_t db, bytes_t *key,
                                  bytes_t *value) {
    env_view_t *view = env_regrow_view(regrow);
    store_key_t from;
    key_message(&from, derive->stream, db == DB_MESSAGES ? derive->said.first_seq : 0);
    bytes_t first = bytes_of(from.at, db == DB_IDS ? 4 : from.size);
    read_outcome_t outcome =
        derive->stands ? env_view_next(view, db, key, value) : env_view_seek(view, db, first, key, value);
    derive->stands = false;
    switch (outcome) {
    case READ_UNKNOWN:
    case READ_NONE: return outcome;
    case READ_FOUND: break;
    }
    derive->stands = true;
    return key->size > 4 && load_be32(key->at) == derive->stream ? READ_FOUND : READ_NONE;
}

/* One entry; behind the last one of the stream nothing. */
static status_t derive_some(derive_t *derive, env_regrow_t *regrow, store_db_t db, uint32_t stream) {
    bytes_t key = BYTES_NONE, value = BYTES_NONE;
    read_outcome_t outcome = derive->stream != 0 ? READ_FOUND : derive_begin(derive, regrow, db, stream);
    switch (outcome) {
    case READ_UNKNOWN:
    case READ_NONE: break;
    case READ_FOUND: outcome = source_next(derive, regrow, source_of(db), &key, &value); break;
    }
    switch (outcome) {
    case READ_UNKNOWN: return STATUS_IO;
    case READ_NONE:
        derive->done = stream;
        derive->stream = 0;
        return STATUS_OK;
    case READ_FOUND: break;
    }
    return db == DB_HEADS ? derive_head(derive, regrow, stream, key, value)
           : db == DB_IDS ? derive_id(derive, regrow, stream, key, value)
                          : derive_order(derive, regrow, stream, key, value);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

_Static_assert(RECORD_CONSUMER == RECORD_STREAM + 1, "definitions lie side by side");

/* The next definition of the commit. */
static read_outcome_t definition_next(derive_t *derive, const env_regrow_t *regrow, bytes_t *key, bytes_t *value) {
    static const uint8_t first[] = {RECORD_STREAM};
    env_view_t *view = env_regrow_view(regrow);
    read_outcome_t outcome = derive->stands
                                 ? env_view_next(view, DB_RECORDS, key, value)
                                 : env_view_seek(view, DB_RECORDS, bytes_of(first, sizeof first), key, value);
    switch (outcome) {
    case READ_UNKNOWN:
    case READ_NONE: return outcome;
    case READ_FOUND: break;
    }
    derive->stands = true;
    return key->size > 0 && key->at[0] <= RECORD_CONSUMER ? READ_FOUND : READ_NONE;
}

static status_t derive_name(derive_t *derive, env_regrow_t *regrow, bytes_t key, bytes_t record) {
    uint8_t value[ENV_NAME_MAX];
    store_key_t name;
    if (!value_sound(key, record)) {
        return STATUS_CORRUPT; /* its copy may have it: a start makes both alike */
    }
    uint32_t size = env_name_entry(key, record, &name, value);
    derive->named += size > 0;
    return size > 0 && env_regrow_holds(regrow, DB_NAMES, key_bytes(&name))
               ? env_regrow_give(regrow, DB_NAMES, key_bytes(&name), bytes_of(value, size))
               : STATUS_OK;
}

static status_t derive_names(derive_t *derive, env_regrow_t *regrow, int64_t until_ns) {
    bytes_t key = BYTES_NONE, record = BYTES_NONE;
    read_outcome_t outcome;
    uint32_t done = 0;
    while (read_goes_on(outcome = definition_next(derive, regrow, &key, &record))) {
        status_t status = derive_name(derive, regrow, key, record);
        if (status != STATUS_OK) {
            return status;
        }
        if (++done % ROWS_AT_ONCE == 0 && thread_elapsed_ns() >= until_ns) {
            return STATUS_AGAIN;
        }
    }
    switch (outcome) {
    case READ_UNKNOWN: return STATUS_IO;
    case READ_NONE:
    case READ_FOUND: break;
    }
    return derive->named == env_regrow_entries(regrow) ? STATUS_OK : STATUS_CORRUPT;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static status_t derive_step(void *context, env_regrow_t *regrow, store_db_t db, int64_t until_ns) {
    derive_t *derive = context;
    if (db == DB_NAMES) {
        return derive_names(derive, regrow, until_ns);
    }
    for (uint32_t i = 1;; i++) {
        uint32_t stream = derive->stream != 0 ? derive->stream : derive_next_stream(derive, regrow);
        if (stream == 0) {
            break;
        }
        status_t status = derive_some(derive, regrow, db, stream);
        if (status != STATUS_OK) {
            return status;
        }
        if (i % ROWS_AT_ONCE == 0 && thread_elapsed_ns() >= until_ns) {
            return STATUS_AGAIN;
        }
    }
    return db != DB_ID_ORDER ? derived_give_all(derive, regrow, db) : STATUS_OK;
}

env_supply_t derive_supply(derive_t *derive) {
    return (env_supply_t){.step = derive_step, .context = derive};
}
