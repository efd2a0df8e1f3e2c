/* changes.c: see changes.h. */
#include "group/changes.h"

#include "base/abi_types.h"

#define HEAD 7u
#define STREAM_ID 4u
#define KEY_MAX 12u /* consumer, sequence */

status_t changes_add(buffer_t *changes, const record_change_t *change) {
    uint32_t key = change->key.size - STREAM_ID;
    uint64_t size = HEAD + key + (uint64_t)change->value.size;
    uint8_t *at;
    if (change->key.size < STREAM_ID || key > KEY_MAX || change->kind > UINT8_MAX) {
        return STATUS_INVALID;
    }
    if (changes->size > 0 && changes->size + size > CHANGES_MAX) {
        return STATUS_FULL;
    }
    if (buffer_reserve(changes, size, &at) != STATUS_OK) {
        return STATUS_NO_MEMORY;
    }
    at[0] = (uint8_t)change->act;
    at[1] = (uint8_t)change->kind;
    at[2] = (uint8_t)key;
    store_be32(at + 3, change->value.size);
    (void)bytes_write(bytes_write(at + HEAD, bytes_after(change->key, STREAM_ID)), change->value);
    changes->size += size;
    return STATUS_OK;
}

static bool change_allowed(const record_change_t *change, uint32_t key) {
    bool known = change->kind == RECORD_CONSUMER || change->kind == RECORD_CONSUMER_STATE
                 || change->kind == RECORD_CONSUMER_PENDING;
    bool whole = change->kind == RECORD_CONSUMER_PENDING && change->act != RECORD_DELETE_PREFIX;
    return known && change->act >= RECORD_PUT && change->act <= RECORD_DELETE_PREFIX && key == (whole ? KEY_MAX : 4u)
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

status_t changes_apply(store_t *store, uint32_t stream_id, bytes_t changes) {
    uint8_t full[STREAM_ID + KEY_MAX];
    record_change_t change;
    uint64_t count = 0;
    for (bytes_t left = changes; left.size > 0; count++) {
        if (!change_next(&left, stream_id, full, &change)) {
            return STATUS_INVALID;
        }
    }
    status_t status = store_record_reserve(store, count);
    for (bytes_t left = changes; left.size > 0 && status == STATUS_OK;) {
        (void)change_next(&left, stream_id, full, &change);
        status = store_record_change(store, &change);
    }
    return status == STATUS_INVALID ? STATUS_FULL : status;
}
