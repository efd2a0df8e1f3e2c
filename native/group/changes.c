/* changes.c: see changes.h. */
#include "group/changes.h"

#include "base/abi_types.h"

#define HEAD 7u
#define STREAM_ID 4u
#define SEQUENCE 8u
#define KEY_MAX 12u   /* consumer, sequence */
#define ROW_NAME 4u   /* of a consumer or a session */
#define SESSION_ID 6u /* session, packet identifier */

static status_t change_write(buffer_t *changes, unsigned act, unsigned kind, bytes_t key, bytes_t value) {
    uint64_t size = HEAD + (uint64_t)key.size + value.size;
    uint8_t *at;
    if (changes->size > 0 && changes->size + size > CHANGES_MAX) {
        return STATUS_FULL;
    }
    if (buffer_reserve(changes, size, &at) != STATUS_OK) {
        return STATUS_NO_MEMORY;
    }
    at[0] = (uint8_t)act;
    at[1] = (uint8_t)kind;
    at[2] = (uint8_t)key.size;
    store_be32(at + 3, value.size);
    (void)bytes_write(bytes_write(at + HEAD, key), value);
    changes->size += size;
    return STATUS_OK;
}

status_t changes_add(buffer_t *changes, const record_change_t *change) {
    if (change->key.size < STREAM_ID || change->key.size > STREAM_ID + KEY_MAX || change->kind > UINT8_MAX) {
        return STATUS_INVALID;
    }
    return change_write(changes, change->act, change->kind, bytes_after(change->key, STREAM_ID), change->value);
}

status_t changes_add_removal(buffer_t *changes, uint64_t seq) {
    uint8_t key[SEQUENCE];
    store_be64(key, seq);
    return change_write(changes, CHANGE_REMOVE, 0, bytes_of(key, sizeof key), BYTES_NONE);
}

static bool is_removal(const record_change_t *change) {
    return (unsigned)change->act == CHANGE_REMOVE;
}

/* Of a record of that kind, behind the stream; 0: it is none of a consumer or a session. */
static uint32_t change_key_size(uint32_t kind) {
    switch (kind) {
    case RECORD_CONSUMER:
    case RECORD_CONSUMER_STATE:
    case RECORD_SESSION:
    case RECORD_SESSION_WILL: return ROW_NAME;
    case RECORD_SESSION_IN:
    case RECORD_SESSION_OUT:
    case RECORD_SESSION_SHARED: return SESSION_ID;
    case RECORD_CONSUMER_PENDING: return KEY_MAX;
    default: return 0;
    }
}

static bool change_allowed(const record_change_t *change, uint32_t key) {
    if (is_removal(change)) {
        return change->kind == 0 && key == SEQUENCE && change->value.size == 0;
    }
    uint32_t whole = change_key_size(change->kind);
    return whole != 0 && change->act >= RECORD_PUT && change->act <= RECORD_DELETE_PREFIX
           && key == (change->act == RECORD_DELETE_PREFIX ? ROW_NAME : whole)
           && (change->act == RECORD_PUT || change->value.size == 0);
}

/* The next one; its key is in `full`. false: what is there is none. */
static bool change_next(bytes_t *left, uint32_t stream_id, uint8_t full[STREAM_ID + KEY_MAX], record_change_t *change) {
    if (left->size < HEAD) {
        return false;
    }
    uint32_t key = left->at[2], value = load_be32(left->at + 3);
    *change = (record_change_t){.act = (record_act_t)left->at[0], .kind = left->at[1]};
    *left = bytes_after(*left, HEAD);
    if (key > KEY_MAX || left->size < key || left->size - key < value) {
        return false;
    }
    store_be32(full, stream_id);
    (void)bytes_write(full + STREAM_ID, bytes_of(left->at, key));
    change->key = bytes_of(full, STREAM_ID + key);
    change->value = bytes_of(left->at + key, value);
    *left = bytes_after(*left, key + value);
    return change_allowed(change, key);
}

static status_t change_do(store_stream_t *stream, const record_change_t *change) {
    if (!is_removal(change)) {
        return store_record_change(store_stream_store(stream), change);
    }
    return store_delete_any(stream, load_be64(change->key.at + STREAM_ID));
}

/* back: what was put is taken out again. */
static status_t change_all(store_stream_t *stream, bytes_t changes, bool back) {
    uint8_t full[STREAM_ID + KEY_MAX];
    record_change_t change;
    uint64_t count = 0;
    for (bytes_t left = changes; left.size > 0; count++) {
        if (!change_next(&left, store_stream_id(stream), full, &change)) {
            return STATUS_INVALID;
        }
    }
    status_t status = store_record_reserve(store_stream_store(stream), count);
    for (bytes_t left = changes; left.size > 0 && status == STATUS_OK;) {
        bool found = change_next(&left, store_stream_id(stream), full, &change); /* as above */
        if (back) {
            change = (record_change_t){.act = RECORD_DELETE, .kind = change.kind, .key = change.key};
        }
        status = found ? change_do(stream, &change) : STATUS_INVALID;
    }
    return status == STATUS_INVALID ? STATUS_FULL : status;
}

status_t changes_apply(store_stream_t *stream, bytes_t changes) {
    return change_all(stream, changes, false);
}

status_t changes_take_back(store_stream_t *stream, bytes_t changes) {
    return change_all(stream, changes, true);
}
