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

/* Any status but STATUS_OK: it is not known. */
static status_t definition_lost(store_t *store, bytes_t record, bool *lost) {
    bytes_t value = BYTES_NONE;
    *lost = false;
    if (overlay_find(store, DB_RECORDS, record, &value) != STATUS_AGAIN) {
        return STATUS_OK;
    }
    status_t status = overlay_get(store, DB_RECORDS, record, &value);
    *lost = status == STATUS_NOT_FOUND || status == STATUS_CORRUPT;
    return *lost ? STATUS_OK : status;
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
    status_t status = env_get(store->env, DB_NAMES, key, &value);
    *name = status == STATUS_OK && value_sound(key, value) ? bytes_after(value, VALUE_CRC_SIZE) : BYTES_NONE;
    return status_unknown(status) ? status : STATUS_OK;
}

/* A lost stream is served in no case; only its name is not known then. */
static void names_unread(store_t *store) {
    store_damaged(store, 1);
    store_alarm(
        store, ALARM_CORRUPT, 0, 0,
        "the names of streams and consumers that data.mdb keeps in a third place cannot be read: if definitions "
        "are lost, their names are free");
}

status_t store_lost_each(store_t *store, bytes_t after, bool (*visit)(void *context, bytes_t key, bytes_t name),
                         void *context) {
    store_key_t key;
    if (after.size >= KEY_RECORD_MAX) {
        return STATUS_INVALID;
    }
    key_name(&key, after);
    for (;;) {
        bytes_t found = BYTES_NONE;
        bytes_t value = BYTES_NONE;
        bool lost = false;
        if (key.size > 1) {
            key.at[key.size++] = 0; /* the least key behind it */
        }
        status_t status = env_seek(store->env, DB_NAMES, key_bytes(&key), &found, &value);
        if (status_unknown(status)) {
            names_unread(store);
            return STATUS_OK;
        }
        if (status != STATUS_OK || found.size < 2 || found.size >= KEY_MAX || found.at[0] != RECORD_NAME) {
            return STATUS_OK;
        }
        key.size = found.size;
        memcpy(key.at, found.at, found.size);
        bytes_t record = bytes_after(key_bytes(&key), 1);
        status = definition_lost(store, record, &lost);
        if (status == STATUS_OK && lost) {
            status = lost_name(store, key_bytes(&key), &value);
        }
        if (status != STATUS_OK) {
            return status;
        }
        if (lost) {
            definition_alarm(store, record);
        }
        if (lost && !visit(context, record, value)) {
            return STATUS_OK;
        }
    }
}
