/* lost.c: definitions of streams and consumers that damage took, of which only the name is left (disk/env_names.c).
 *
 *     record, or its copy, is sound       it is there
 *     neither, newer ops have the key     it was deleted, or put anew: the overlay says which
 *     neither, none have                  it is lost: a definition that was deleted took its name with it
 *
 * Not here: what becomes of the name (jetstream/service.py).
 */
#include "store/overlay.h"
#include "store/record.h"

typedef enum lost { LOST, LOST_NOT, LOST_UNKNOWN } lost_t;

static lost_t definition_lost(store_t *store, bytes_t record) {
    bytes_t value = BYTES_NONE;
    switch (overlay_find(store, DB_RECORDS, record, &value)) {
    case WORD_PUT:
    case WORD_REMOVED: return LOST_NOT;
    case WORD_NONE: break;
    }
    switch (overlay_get(store, DB_RECORDS, record, &value)) {
    case ENTRY_FOUND: return LOST_NOT;
    case ENTRY_NONE:
    case ENTRY_DAMAGED: return LOST;
    case ENTRY_UNKNOWN: break;
    }
    return LOST_UNKNOWN;
}

static void definition_alarm(store_t *store, bytes_t record) {
    uint32_t id = record.size >= 5 ? load_be32(record.at + 1) : 0;
    store_damaged(store, 1);
    if (record.at[0] == RECORD_STREAM) {
        store_alarm(store, ALARM_CORRUPT, id, 0,
                    "the definition of stream %u is lost in both copies: its messages are kept and not served", id);
    } else {
        store_alarm(store, ALARM_CORRUPT, id, 0,
                    "the definition of a consumer of stream %u is lost in both copies: it is not served", id);
    }
}

/* The lost stream's name; empty: that is damaged, too. */
static status_t lost_name(store_t *store, bytes_t key, bytes_t *name) {
    bytes_t value = BYTES_NONE;
    read_outcome_t outcome = env_get(store->env, DB_NAMES, key, &value);
    *name = value_sound(key, value) ? bytes_after(value, VALUE_CRC_SIZE) : BYTES_NONE;
    return read_known(outcome);
}

/* A lost stream is served in no case; only its name is not known then. */
static void names_unread(store_t *store) {
    store_damaged(store, 1);
    store_alarm(
        store, ALARM_CORRUPT, 0, 0,
        "the names of streams and consumers that data.mdb keeps in a third place cannot be read: if definitions "
        "are lost, their names are free");
}

list_outcome_t store_lost_each(store_t *store, bytes_t after, bool (*visit)(void *context, bytes_t key, bytes_t name),
                               void *context) {
    store_key_t key;
    if (after.size >= KEY_RECORD_MAX) {
        return LIST_UNKNOWN; /* no record has such a key */
    }
    key_name(&key, after);
    for (;;) {
        bytes_t found = BYTES_NONE;
        bytes_t value = BYTES_NONE;
        if (key.size > 1) {
            key.at[key.size++] = 0; /* the least key behind it */
        }
        switch (env_seek(store->env, DB_NAMES, key_bytes(&key), &found, &value)) {
        case READ_UNKNOWN: names_unread(store); return LIST_LACKS;
        case READ_NONE: return LIST_WHOLE;
        case READ_FOUND: break;
        }
        if (found.size < 2 || found.size >= KEY_MAX || found.at[0] != RECORD_NAME) {
            return LIST_WHOLE;
        }
        key.size = found.size;
        memcpy(key.at, found.at, found.size);
        bytes_t record = bytes_after(key_bytes(&key), 1);
        lost_t lost = definition_lost(store, record);
        if (lost == LOST_UNKNOWN || (lost == LOST && lost_name(store, key_bytes(&key), &value) != STATUS_OK)) {
            return LIST_UNKNOWN;
        }
        if (lost == LOST) {
            definition_alarm(store, record);
            if (!visit(context, record, value)) {
                return LIST_WHOLE;
            }
        }
    }
}
