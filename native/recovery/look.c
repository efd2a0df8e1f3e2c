/* look.c: see look.h, and plane_look_* of abi.h. */
#include "recovery/look.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"

#define TRIES 1000 /* a commit that is read while the next but one is made is read again */
#define ROW_HEAD 12

_Static_assert(LOOK_STATE == RECORD_STATE, "abi.h and keys.h");
_Static_assert(LOOK_META_MAX >= SEALING_RECORD_SIZE, "every record of META finds room");

/* ---- entries ----------------------------------------------------------------------------------------------------- */

store_db_t look_database(const char *name) {
    static const char *const names[DB_COUNT] = {
        "meta",         "records",           "messages",      "heads",       "ids",   "id_order", "expiry",
        "dictionaries", "dictionary_copies", "record_copies", "meta_copies", "names", "ledger"};
    for (int db = 0; db < DB_COUNT; db++) {
        if (strcmp(name, names[db]) == 0) {
            return (store_db_t)db;
        }
    }
    return name[0] == 'm' && strspn(name + 1, "0123456789abcdef") == 8 && name[9] == 0 ? DB_MESSAGES : DB_COUNT;
}

store_db_t look_original(store_db_t db) {
    return db == DB_RECORD_COPIES ? DB_RECORDS : db == DB_META_COPIES ? DB_META : db;
}

bool look_blind(const store_look_t *look) {
    return look->sealing.sealer == NULL && look->format.size > 0
           && (load_be32(look->format.value + VALUE_CRC_SIZE) & STORE_FORMAT_SEALED) != 0;
}

status_t look_open_entry(store_look_t *look, const char *database, bytes_t key, bytes_t value, look_entry_t *entry) {
    const sealer_t *sealer = look->sealing.sealer;
    status_t status = STATUS_OK;
    *entry = (look_entry_t){.db = look_database(database), .key = key, .value = value};
    if (entry->db == DB_COUNT) {
        return STATUS_OK;
    }
    unsealed_forget(&look->unsealed);
    store_db_t as = look_original(entry->db);
    if (entry_sealed(sealer, as)) {
        status = entry_open(&look->unsealed, sealer, SEALER_PLANE, as, key, value, &entry->key, &entry->value);
    }
    if (status == STATUS_OK && packing_done(entry->db, entry->value)) {
        status = look_unpack(look, entry->key, entry->value, &entry->value);
    }
    entry->sound = status == STATUS_OK && entry->value.size >= VALUE_CRC_SIZE && value_sound(entry->key, entry->value);
    return status;
}

static bool look_opens(store_look_t *look, const char *database, bytes_t key, bytes_t value) {
    look_entry_t entry;
    message_record_t message;
    return look_open_entry(look, database, key, value, &entry) == STATUS_OK && entry.sound
           && (entry.db != DB_MESSAGES || message_read(entry.key, entry.value, &message));
}

/* Names an entry by the form of its key, and where that is not enough by its value. Heads are no use to anybody who
 * asks: they are counted again. */
void look_name(void *context, bytes_t key, bytes_t value, char name[64]) {
    store_look_t *look = context;
    bool large = value.size == 0;
    bool of_stream = key.size > 4 && key.at[0] == 0;
    const char *is = "";
    dictionary_t dictionary;
    if (of_stream && key.size == MESSAGE_KEY_SIZE && (large || look_opens(look, "m00000000", key, value))) {
        snprintf(name, 64, "m%08x", load_be32(key.at));
        return;
    }
    if (of_stream && key.size == MESSAGE_KEY_SIZE && look_opens(look, "id_order", key, value)) {
        is = "id_order";
    } else if (of_stream && key.size == EXPIRY_KEY_SIZE && look_opens(look, "expiry", key, value)) {
        is = "expiry";
    } else if (of_stream && key.size == DICTIONARY_KEY_SIZE
               && (large || look_opens(look, "dictionaries", key, value) || dictionary_read(key, value, &dictionary))) {
        is = "dictionaries";
    } else if (of_stream && value.size >= ID_FIXED_SIZE && value.size != HEAD_FIXED_SIZE
               && look_opens(look, "ids", key, value)) {
        is = "ids";
    } else if (key.size > 0 && key.at[0] != 0) {
        is = key.at[0] >= 'a' && key.at[0] <= 'z' ? "meta"
             : key.at[0] == RECORD_NAME           ? "names"
             : key.at[0] == KEY_LEDGER            ? "ledger"
                                                  : "records";
    }
    snprintf(name, 64, "%s", is);
}

/* ---- findings ---------------------------------------------------------------------------------------------------- */

void findings_say(findings_t *findings, const char *format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    size = size < (int)sizeof line - 1 ? size : (int)sizeof line - 2;
    if (size < 0 || findings->room - findings->size < (uint32_t)size + 2) {
        return;
    }
    for (int i = 0; i < size; i++) {
        line[i] = (char)(line[i] == '\n' ? ' ' : line[i]);
    }
    memcpy(findings->at + findings->size, line, (size_t)size);
    findings->size += (uint32_t)size;
    findings->at[findings->size++] = '\n';
    findings->at[findings->size] = 0;
}

static void describe_record(bytes_t key, char *to, size_t size) {
    uint32_t stream = key.size >= 5 ? load_be32(key.at + 1) : 0;
    switch (key.size > 0 ? key.at[0] : 0) {
    case RECORD_STREAM: snprintf(to, size, "definition of stream %u", stream); break;
    case RECORD_CONSUMER: snprintf(to, size, "definition of a consumer of stream %u", stream); break;
    case RECORD_CONTROL: snprintf(to, size, "a record of the server's own"); break;
    case RECORD_SOURCE: snprintf(to, size, "position of a source of stream %u", stream); break;
    case RECORD_STATE: snprintf(to, size, "state of stream %u", stream); break;
    case RECORD_SCHEDULE: snprintf(to, size, "a schedule of stream %u", stream); break;
    case RECORD_HOLE: snprintf(to, size, "a mark that stream %u has lost messages to damage", stream); break;
    case RECORD_THIN: snprintf(to, size, "a mark that subjects of stream %u are held to their limit", stream); break;
    case RECORD_PROMISE: snprintf(to, size, "promise of a member of group %u", stream); break;
    case RECORD_APPLIED: snprintf(to, size, "how far group %u is applied", stream); break;
    case RECORD_DISK: snprintf(to, size, "the id of the disk"); break;
    default: snprintf(to, size, "state of a consumer of stream %u", stream);
    }
}

void look_describe(const look_entry_t *entry, char *to, size_t size) {
    bytes_t key = entry->key;
    uint32_t stream = key.size >= 4 ? load_be32(key.at) : 0;
    switch (entry->db) {
    case DB_META: snprintf(to, size, "record \"%.*s\" of the store itself", (int)key.size, key.at); break;
    case DB_RECORDS: describe_record(key, to, size); break;
    case DB_MESSAGES:
        snprintf(to, size, "message %llu of stream %u",
                 key.size == MESSAGE_KEY_SIZE ? (unsigned long long)load_be64(key.at + 4) : 0, stream);
        break;
    case DB_HEADS: snprintf(to, size, "the count of a subject of stream %u", stream); break;
    case DB_IDS:
    case DB_ID_ORDER: snprintf(to, size, "a message id of stream %u", stream); break;
    case DB_EXPIRY: snprintf(to, size, "the time to live of a message of stream %u", stream); break;
    case DB_RECORD_COPIES:
    case DB_META_COPIES: snprintf(to, size, "one of two copies of a record"); break;
    case DB_NAMES: snprintf(to, size, "the name of a stream or consumer, beside its definition"); break;
    case DB_DICTIONARIES:
    case DB_DICTIONARY_COPIES:
        snprintf(to, size, "one of two copies of dictionary %u of stream %u, which compressed messages need",
                 key.size == DICTIONARY_KEY_SIZE ? load_be16(key.at + 4) : 0u, stream);
        break;
    case DB_LEDGER:
        snprintf(to, size, "entry %llu of group %u",
                 key.size == LEDGER_KEY_SIZE ? (unsigned long long)load_be64(key.at + 5) : 0,
                 key.size == LEDGER_KEY_SIZE ? load_be32(key.at + 1) : 0);
        break;
    case DB_COUNT: snprintf(to, size, "an entry of no database of ours");
    }
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bool is_meta(void *context, const char *database) {
    (void)context;
    return look_original(look_database(database)) == DB_META;
}

static status_t take_meta(void *context, const char *database, bytes_t key, bytes_t value) {
    store_look_t *look = context;
    const struct {
        const char *name;
        look_meta_t *to;
    } rows[] = {
        {"format", &look->format}, {"applied", &look->applied}, {"journal", &look->journal}, {"key", &look->key}};
    (void)database;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bytes_t name = bytes_of(rows[i].name, (uint32_t)strlen(rows[i].name));
        if (bytes_equal(key, name) && value.size >= VALUE_CRC_SIZE && value.size <= LOOK_META_MAX
            && value_sound(key, value)) {
            memcpy(rows[i].to->value, value.at, value.size);
            rows[i].to->size = value.size;
        }
    }
    return STATUS_OK;
}

static void pass_by(void *context, size_t page, const char *what) {
    (void)context;
    (void)page;
    (void)what;
}

void look_facts(const store_look_t *look, store_facts_t *facts) {
    const uint8_t *format = look->format.value + VALUE_CRC_SIZE;
    const uint8_t *applied = look->applied.value + VALUE_CRC_SIZE;
    *facts = (store_facts_t){
        .commit = look->commit.number, .pages = look->commit.last + 1, .page_size = look->commit.page_size};
    if (look->format.size == VALUE_CRC_SIZE + 4 + STORE_ID_SIZE) {
        facts->format = load_be32(format) & ~STORE_FORMAT_FLAGS;
        facts->sealed = (load_be32(format) & STORE_FORMAT_SEALED) != 0;
        facts->opened = facts->sealed && look->sealing.sealer != NULL;
        facts->id_high = load_be64(format + 4);
        facts->id_low = load_be64(format + 12);
    }
    if (look->applied.size == VALUE_CRC_SIZE + 20) {
        facts->position = load_be64(applied);
        facts->number = load_be64(applied + 8);
    }
    facts->noted = facts->format != 0 && facts->position != 0;
    if (look->journal.size == VALUE_CRC_SIZE + 9) {
        facts->closed = look->journal.value[VALUE_CRC_SIZE] == USE_CLOSED
                        && load_be64(look->journal.value + VALUE_CRC_SIZE + 1) == facts->position;
    }
}

/* The commit, and the records that say what the rest is. */
static status_t read_commit(store_look_t *look, char *reason) {
    status_t status = STATUS_OK;
    for (unsigned i = 0; i < TRIES; i++) {
        status = look->hold != NULL ? hold_newest(look->hold) : STATUS_OK;
        if (status == STATUS_OK) {
            status = pages_commit_read(look->lmdb, &look->commit, reason, PLANE_REASON_SIZE);
        }
        if (look->hold == NULL || (status == STATUS_OK && look->commit.number == hold_commit(look->hold))) {
            break;
        }
    }
    if (status == STATUS_OK && look->hold != NULL && look->commit.number != hold_commit(look->hold)) {
        snprintf(reason, PLANE_REASON_SIZE, "it is written too fast to be held");
        return STATUS_AGAIN;
    }
    look->format.size = look->applied.size = look->journal.size = look->key.size = 0;
    look_dictionaries_forget(look);
    const pages_visit_t visit = {.context = look,
                                 .commit = &look->commit,
                                 .wanted = is_meta,
                                 .name = look_name,
                                 .entry = take_meta,
                                 .damaged = pass_by};
    return status == STATUS_OK ? pages_each(look->lmdb, &visit, reason, PLANE_REASON_SIZE) : status;
}

static status_t find_key(store_look_t *look, char *reason) {
    if (look->format.size == 0 || (load_be32(look->format.value + VALUE_CRC_SIZE) & STORE_FORMAT_SEALED) == 0
        || look->sealing.keys == NULL) {
        return STATUS_OK;
    }
    char why[400] = "";
    status_t status = sealing_look(&look->sealing, bytes_of(look->key.value, look->key.size),
                                   look->format.value + VALUE_CRC_SIZE + 4, why, sizeof why);
    if (status != STATUS_OK) {
        snprintf(reason, PLANE_REASON_SIZE, "the store %s", why);
    }
    return status;
}

store_look_t *plane_look_open(const char *directory, const plane_keys_t *keys, uint32_t used, store_facts_t *facts,
                              char *reason, int32_t *status) {
    store_look_t *look = calloc(1, sizeof *look);
    status_t result = look != NULL ? STATUS_OK : STATUS_NO_MEMORY;
    reason[0] = 0;
    int length = look != NULL ? snprintf(look->lmdb, sizeof look->lmdb, "%s/data.mdb", directory) : 0;
    if (look != NULL && (length < 0 || (size_t)length >= sizeof look->lmdb)) {
        snprintf(reason, PLANE_REASON_SIZE, "the path is too long");
        result = STATUS_INVALID;
    }
    if (result == STATUS_OK) {
        look->sealing.keys = keys;
    }
    if (result == STATUS_OK && used != 0) {
        result = hold_open(directory, &look->hold, reason, PLANE_REASON_SIZE);
    }
    result = result == STATUS_OK ? read_commit(look, reason) : result;
    result = result == STATUS_OK ? find_key(look, reason) : result;
    *status = result;
    if (result != STATUS_OK) {
        plane_look_close(look);
        return NULL;
    }
    look_dictionaries_forget(look); /* without the key none was to be had */
    look->sealing.keys = NULL;      /* they are the caller's */
    look_facts(look, facts);
    return look;
}

int32_t plane_look_again(store_look_t *look, store_facts_t *facts, char *reason) {
    status_t status = read_commit(look, reason);
    if (status == STATUS_OK) {
        look_facts(look, facts);
    }
    return status;
}

void plane_look_close(store_look_t *look) {
    if (look != NULL) {
        hold_close(look->hold);
        sealing_close(&look->sealing);
        unsealed_forget(&look->unsealed);
        look_dictionaries_forget(look);
        free(look);
    }
}

const uint8_t *plane_look_page(const store_look_t *look, uint32_t number) {
    return number == look->commit.number % 2 ? look->commit.page : look->commit.other;
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

typedef struct listing {
    store_look_t *look;
    uint8_t *out;
    uint64_t room;
    uint64_t size;
} listing_t;

static void list_bytes(listing_t *listing, const void *at, uint32_t size) {
    if (listing->size + size <= listing->room) {
        memcpy(listing->out + listing->size, at, size);
    }
    listing->size += size;
}

static void list_row(listing_t *listing, bytes_t key, const void *value, uint32_t size) {
    uint8_t head[ROW_HEAD];
    store_be32(head, key.at[0]);
    store_be32(head + 4, key.size - 1);
    store_be32(head + 8, size);
    list_bytes(listing, head, sizeof head);
    list_bytes(listing, key.at + 1, key.size - 1);
    list_bytes(listing, value, size);
}

static bool is_records(void *context, const char *database) {
    (void)context;
    return look_database(database) == DB_RECORDS;
}

static status_t list_record(void *context, const char *database, bytes_t key, bytes_t value) {
    listing_t *listing = context;
    look_entry_t entry;
    status_t status = look_open_entry(listing->look, database, key, value, &entry);
    if (status != STATUS_OK || !entry.sound || entry.key.size < 1) {
        return status;
    }
    bytes_t content = bytes_after(entry.value, VALUE_CRC_SIZE);
    uint8_t kind = entry.key.at[0];
    if (kind == RECORD_STREAM || kind == RECORD_CONSUMER) {
        list_row(listing, entry.key, content.at, content.size);
    } else if (kind == RECORD_STATE) {
        log_t log;
        if (log_read(&log, content) == STATUS_OK) {
            const stored_stream_t row = {log.first_seq, log.last_seq, log.messages,
                                         log.bytes,     log.subjects, log.last_ts};
            list_row(listing, entry.key, &row, sizeof row);
        }
    }
    return STATUS_OK;
}

int64_t plane_look_records(store_look_t *look, uint8_t *out, uint64_t room, char *reason) {
    listing_t listing = {.look = look, .out = out, .room = room};
    const pages_visit_t visit = {
        .context = &listing, .commit = &look->commit, .wanted = is_records, .entry = list_record, .damaged = pass_by};
    status_t status = pages_each(look->lmdb, &visit, reason, PLANE_REASON_SIZE);
    return status == STATUS_OK ? (int64_t)listing.size : status;
}
