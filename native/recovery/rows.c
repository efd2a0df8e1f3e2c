/* rows.c: see rows.h. */
#include "recovery/rows.h"

#include <stdlib.h>

void rows_end(rows_t *rows) {
    free(rows->room);
    *rows = (rows_t){0};
}

uint8_t *rows_room(rows_t *rows, uint64_t size) {
    if (size > rows->room_size) {
        uint8_t *at = realloc(rows->room, (size_t)size);
        if (at == NULL) {
            return NULL;
        }
        rows->room = at;
        rows->room_size = size;
    }
    return rows->room;
}

status_t row_head_get(rows_t *rows, uint32_t id, bytes_t subject, head_t *head) {
    store_key_t key;
    bytes_t value = BYTES_NONE;
    bytes_t text = BYTES_NONE;
    *head = (head_t){0};
    key_text(&key, id, subject);
    switch (env_write_get(rows->env, DB_HEADS, key_bytes(&key), &value)) {
    case READ_UNKNOWN: return env_write_why(rows->env);
    case READ_NONE: return STATUS_OK;
    case READ_FOUND: break;
    }
    if (!value_sound(key_bytes(&key), value) || !head_read(key_bytes(&key), value, &text, head)
        || !bytes_equal(text, subject)) {
        *head = (head_t){0};
    }
    return STATUS_OK;
}

status_t row_head_put(rows_t *rows, uint32_t id, bytes_t subject, head_t head) {
    store_key_t key;
    key_text(&key, id, subject);
    if (head.count == 0) {
        return env_write_delete(rows->env, DB_HEADS, key_bytes(&key));
    }
    uint32_t size = head_size(subject);
    uint8_t *value = rows_room(rows, size);
    if (value == NULL) {
        return STATUS_NO_MEMORY;
    }
    head_write(value, key_bytes(&key), subject, head);
    return env_write_put(rows->env, DB_HEADS, key_bytes(&key), bytes_of(value, size));
}

entry_outcome_t row_message_get(rows_t *rows, uint32_t id, uint64_t seq, message_record_t *message) {
    store_key_t key;
    bytes_t value = BYTES_NONE;
    key_message(&key, id, seq);
    switch (env_write_get(rows->env, DB_MESSAGES, key_bytes(&key), &value)) {
    case READ_UNKNOWN: return ENTRY_UNKNOWN;
    case READ_NONE: return ENTRY_NONE;
    case READ_FOUND: break;
    }
    bool sound = value_sound(key_bytes(&key), value) && message_read(key_bytes(&key), value, message);
    return sound ? ENTRY_FOUND : ENTRY_DAMAGED;
}

read_outcome_t row_message_seek(rows_t *rows, uint32_t id, uint64_t *seq) {
    store_key_t key;
    bytes_t found = BYTES_NONE;
    key_message(&key, id, *seq);
    read_outcome_t outcome = env_write_seek(rows->env, DB_MESSAGES, key_bytes(&key), &found);
    switch (outcome) {
    case READ_NONE:
    case READ_UNKNOWN: return outcome;
    case READ_FOUND: break;
    }
    if (found.size != MESSAGE_KEY_SIZE || memcmp(found.at, key.at, 4) != 0) {
        return READ_NONE;
    }
    *seq = load_be64(found.at + 4);
    return READ_FOUND;
}

status_t row_message_put(rows_t *rows, uint32_t id, uint64_t seq, const message_record_t *message) {
    uint32_t size = message_size(seq, message);
    uint8_t *value = rows_room(rows, size);
    if (value == NULL) {
        return STATUS_NO_MEMORY;
    }
    store_key_t key;
    key_message(&key, id, seq);
    message_write(value, key_bytes(&key), message);
    return env_write_put(rows->env, DB_MESSAGES, key_bytes(&key), bytes_of(value, size));
}
