/* env_formats.c: META's record of formats: what a leafd has to know to be let in, and whose the store is (keys.h). One
 * file writes it. What it says is known from the first time that it was read or written: should its bytes be other ones
 * later, it is written as it was, and a record that nobody has seen sound is never written with a new checksum. See
 * env_lmdb.h.
 */
#include "disk/env_lmdb.h"

static bytes_t formats_key(void) {
    return BYTES_LITERAL(STORE_FORMAT_KEY);
}

/* READ_NONE: a store that is being made. */
static read_outcome_t formats_find(env_t *env) {
    bytes_t value = BYTES_NONE;
    if (env->formats_known) {
        return READ_FOUND;
    }
    read_outcome_t outcome = env_write_get(env, DB_META, formats_key(), &value);
    bool sound = false;
    switch (outcome) {
    case READ_UNKNOWN: break;
    case READ_NONE: return outcome;
    case READ_FOUND: sound = value.size == STORE_FORMAT_SIZE && value_sound(formats_key(), value); break;
    }
    if (!sound) {
        env_note_unread(env);
        return READ_UNKNOWN;
    }
    memcpy(env->formats_record, value.at, STORE_FORMAT_SIZE);
    env->formats_known = true;
    return outcome;
}

static uint32_t formats_of(const env_t *env) {
    return load_be32(env->formats_record + VALUE_CRC_SIZE);
}

static status_t formats_write(env_t *env, const uint8_t id[STORE_ID_SIZE], uint32_t formats) {
    uint8_t value[STORE_FORMAT_SIZE];
    store_be32(value + VALUE_CRC_SIZE, formats);
    memcpy(value + VALUE_CRC_SIZE + 4, id, STORE_ID_SIZE);
    value_seal(formats_key(), value, sizeof value);
    status_t status = env_write_put(env, DB_META, formats_key(), bytes_of(value, sizeof value));
    if (status == STATUS_OK) {
        memcpy(env->formats_record, value, sizeof value);
        env->formats_known = true;
    }
    return status;
}

status_t env_formats_put(env_t *env, const uint8_t id[STORE_ID_SIZE], bool sealed) {
    uint32_t kept = 0;
    switch (formats_find(env)) {
    case READ_UNKNOWN: kept = STORE_FORMAT_KEPT; break; /* it may have all: a leafd that knows less is kept out */
    case READ_NONE: break;
    case READ_FOUND: kept = formats_of(env) & STORE_FORMAT_KEPT; break;
    }
    return formats_write(env, id, STORE_FORMAT | STORE_FORMAT_TWICE | kept | (sealed ? STORE_FORMAT_SEALED : 0));
}

status_t env_note_formats(env_t *env) {
    switch (formats_find(env)) {
    case READ_UNKNOWN: return STATUS_CORRUPT;
    case READ_NONE: return STATUS_OK; /* it gets its formats later */
    case READ_FOUND: break;
    }
    env->formats_put = env->formats;
    return formats_write(env, env->formats_record + VALUE_CRC_SIZE + 4, formats_of(env) | env->formats);
}

void env_keep_formats(env_t *env, uint32_t formats) {
    env->formats |= formats;
}

uint32_t env_formats_said(env_t *env) {
    switch (formats_find(env)) {
    case READ_UNKNOWN:
    case READ_NONE: break;
    case READ_FOUND: return formats_of(env);
    }
    return 0;
}
