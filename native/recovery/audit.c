/* audit.c: plane_look_audit of abi.h: all of a store's data.mdb is read, and what is damaged is named.
 *
 *     pages       their structure (pages.c), and that keys stand in their order: LMDB's search depends on it
 *     entries     the checksum, over key and value; with a sealer, that the value opens
 *     subjects    messages whose subject is not valid: nothing is damaged, and the store takes no more such
 *     counters    of a store that was closed in order: what a stream's state says is there
 *     names       each has its definition (disk/env_names.c), in one copy at least
 *
 * Not here: the journal. How a start would take it is found out by a start of a copy (plane_look_rescue,
 * plane_store_settle).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "recovery/look.h"
#include "text/subject.h"

#define COUNTED_MIN 64
#define DATABASE_MAX 64
#define SUBJECT_SHOWN 64 /* bytes of a subject that is not valid */
#define NAMED_KEY_MAX 16

/* A definition, or the name of one. */
typedef struct named {
    uint8_t key[NAMED_KEY_MAX]; /* the record's */
    uint32_t size;
} named_t;

typedef struct named_list {
    named_t *at;
    uint64_t count;
    uint64_t capacity;
} named_list_t;

typedef struct counted {
    uint32_t stream;
    bool stated;
    uint64_t messages;
    uint64_t bytes;
    uint64_t said_messages;
    uint64_t said_bytes;
} counted_t;

typedef struct auditing {
    store_look_t *look;
    store_audit_t *audit;
    findings_t findings;
    counted_t *streams;
    uint64_t count;
    uint64_t capacity;
    char database[DATABASE_MAX]; /* of the last entry */
    uint8_t last_key[KEY_MAX + 1];
    uint32_t last_size;
    bool disorder; /* told of this database */
    named_list_t names;
    named_list_t definitions;
} auditing_t;

static counted_t *counted_of(auditing_t *auditing, uint32_t stream) {
    for (uint64_t i = auditing->count; i > 0; i--) { /* the last one is mostly it */
        if (auditing->streams[i - 1].stream == stream) {
            return &auditing->streams[i - 1];
        }
    }
    if (array_reserve(&auditing->streams, &auditing->capacity, auditing->count + 1, COUNTED_MIN, sizeof(counted_t))
        != STATUS_OK) {
        return NULL;
    }
    auditing->streams[auditing->count] = (counted_t){.stream = stream};
    return &auditing->streams[auditing->count++];
}

static void audit_page(void *context, size_t page, const char *what) {
    auditing_t *auditing = context;
    auditing->audit->damaged_pages++;
    findings_say(&auditing->findings, "data.mdb, page %zu: %s", page, what);
}

static void audit_order(auditing_t *auditing, const char *database, bytes_t key) {
    bool same = strcmp(auditing->database, database) == 0;
    if (same && !auditing->disorder && bytes_compare(bytes_of(auditing->last_key, auditing->last_size), key) >= 0) {
        auditing->disorder = true;
        auditing->audit->damaged_pages++;
        findings_say(&auditing->findings, "data.mdb, database \"%s\": its keys do not stand in their order", database);
    }
    if (!same) {
        snprintf(auditing->database, sizeof auditing->database, "%s", database);
        auditing->disorder = false;
    }
    auditing->last_size = key.size < sizeof auditing->last_key ? key.size : (uint32_t)sizeof auditing->last_key;
    memcpy(auditing->last_key, key.at, auditing->last_size);
}

/* Escaped as in C, and cut: it may have any bytes. */
static void name_bad_subject(auditing_t *auditing, const look_entry_t *entry, bytes_t subject) {
    char shown[SUBJECT_SHOWN * 4 + 4] = "";
    size_t size = 0;
    for (uint32_t i = 0; i < subject.size && i < SUBJECT_SHOWN; i++) {
        uint8_t c = subject.at[i];
        bool plain = c >= ' ' && c < 0x7f && c != '"' && c != '\\';
        size += (size_t)snprintf(shown + size, sizeof shown - size, plain ? "%c" : "\\x%02x", c);
    }
    char what[128];
    look_describe(entry, what, sizeof what);
    auditing->audit->bad_subjects++;
    findings_say(&auditing->findings, "subject \"%s%s\" of %s is not valid", shown,
                 subject.size > SUBJECT_SHOWN ? "..." : "", what);
}

static status_t count_message(auditing_t *auditing, const look_entry_t *entry, const message_record_t *message) {
    counted_t *counted = counted_of(auditing, load_be32(entry->key.at));
    if (counted == NULL) {
        return STATUS_NO_MEMORY;
    }
    if ((message->flags & MESSAGE_GONE) == 0) {
        auditing->audit->messages++;
        counted->messages++;
        counted->bytes += log_message_bytes(0, message);
        if (!subject_storable(message->subject)) {
            name_bad_subject(auditing, entry, message->subject);
        }
    }
    return STATUS_OK;
}

static status_t count_state(auditing_t *auditing, const look_entry_t *entry) {
    counted_t *counted = counted_of(auditing, load_be32(entry->key.at + 1));
    log_t log;
    if (counted == NULL) {
        return STATUS_NO_MEMORY;
    }
    if (log_read(&log, bytes_after(entry->value, VALUE_CRC_SIZE)) == STATUS_OK) {
        counted->stated = true;
        counted->said_messages = log.messages;
        counted->said_bytes = log.bytes;
    }
    return STATUS_OK;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static status_t named_add(named_list_t *list, bytes_t key) {
    if (key.size > NAMED_KEY_MAX) {
        return STATUS_OK; /* none of ours */
    }
    status_t status = array_reserve(&list->at, &list->capacity, list->count + 1, COUNTED_MIN, sizeof(named_t));
    if (status == STATUS_OK) {
        named_t *named = &list->at[list->count++];
        *named = (named_t){.size = key.size};
        memcpy(named->key, key.at, key.size);
    }
    return status;
}

static int by_key(const void *a, const void *b) {
    const named_t *left = a;
    const named_t *right = b;
    return bytes_compare(bytes_of(left->key, left->size), bytes_of(right->key, right->size));
}

static status_t note_named(auditing_t *auditing, const look_entry_t *entry) {
    bytes_t key = entry->key;
    bool definition = look_original(entry->db) == DB_RECORDS && key.size >= 5
                      && (key.at[0] == RECORD_STREAM || key.at[0] == RECORD_CONSUMER);
    if (definition) {
        return named_add(&auditing->definitions, key);
    }
    return entry->db == DB_NAMES && key.size >= 6 ? named_add(&auditing->names, bytes_after(key, 1)) : STATUS_OK;
}

static void audit_names(auditing_t *auditing) {
    named_list_t *names = &auditing->names;
    named_list_t *definitions = &auditing->definitions;
    if (definitions->count > 0) {
        qsort(definitions->at, definitions->count, sizeof(named_t), by_key);
    }
    for (uint64_t i = 0; i < names->count; i++) {
        const named_t *named = &names->at[i];
        if (definitions->count == 0
            || bsearch(named, definitions->at, definitions->count, sizeof(named_t), by_key) == NULL) {
            auditing->audit->damaged_entries++;
            findings_say(&auditing->findings, "the definition of %sstream %u is lost in both copies",
                         named->key[0] == RECORD_CONSUMER ? "a consumer of " : "", load_be32(named->key + 1));
        }
    }
    free(names->at);
    free(definitions->at);
}

static status_t audit_entry(void *context, const char *database, bytes_t key, bytes_t value) {
    auditing_t *auditing = context;
    store_look_t *look = auditing->look;
    auditing->audit->entries++;
    audit_order(auditing, database, key);
    if (look_blind(look) && look_database(database) != DB_META) {
        return STATUS_OK;
    }
    look_entry_t entry;
    message_record_t message;
    status_t status = look_open_entry(look, database, key, value, &entry);
    if (status != STATUS_OK) {
        return status;
    }
    bool shaped = entry.db != DB_MESSAGES || message_read(entry.key, entry.value, &message);
    if (!entry.sound || !shaped) {
        char what[128];
        look_describe(&entry, what, sizeof what);
        auditing->audit->damaged_entries++;
        findings_say(&auditing->findings, "%s: its checksum does not hold", what);
        return STATUS_OK;
    }
    if (entry.db == DB_MESSAGES) {
        return count_message(auditing, &entry, &message);
    }
    status = note_named(auditing, &entry);
    if (status != STATUS_OK) {
        return status;
    }
    return entry.db == DB_RECORDS && entry.key.size == 5 && entry.key.at[0] == RECORD_STATE
               ? count_state(auditing, &entry)
               : STATUS_OK;
}

/* Batches may be applied in several commits: only a store that was closed has to agree with itself. */
static void audit_counters(auditing_t *auditing) {
    for (uint64_t i = 0; i < auditing->count; i++) {
        const counted_t *counted = &auditing->streams[i];
        if (counted->stated && (counted->messages != counted->said_messages || counted->bytes != counted->said_bytes)) {
            auditing->audit->damaged_entries++;
            findings_say(
                &auditing->findings,
                "stream %u is to have %" PRIu64 " messages of %" PRIu64 " bytes, and has %" PRIu64 " of %" PRIu64,
                counted->stream, counted->said_messages, counted->said_bytes, counted->messages, counted->bytes);
        }
    }
}

int32_t plane_look_audit(store_look_t *look, store_audit_t *audit, char *findings, uint32_t room, char *reason) {
    auditing_t auditing = {.look = look, .audit = audit, .findings = {.at = findings, .room = room}};
    const pages_visit_t visit = {.context = &auditing,
                                 .commit = look->hold != NULL ? &look->commit : NULL,
                                 .entry = audit_entry,
                                 .damaged = audit_page,
                                 .done = &audit->done};
    store_facts_t facts;
    *audit = (store_audit_t){0};
    findings[0] = 0;
    status_t status = pages_each(look->lmdb, &visit, reason, PLANE_REASON_SIZE);
    look_facts(look, &facts);
    if (status == STATUS_OK && facts.closed != 0 && !look_blind(look)) {
        audit_counters(&auditing);
    }
    audit_names(&auditing);
    free(auditing.streams);
    return status;
}
