/* sealing.c: see sealing.h.
 *
 * Record META "key": crc 4, version 1, cipher 1, check 16 (cipher_check). The keys themselves are nowhere on the disk:
 * they follow from what the operator gave and the store's id, which the journal's first block has, too.
 */
#include "disk/sealing.h"

#include <stdio.h>

#define RECORD_VERSION 1

static bytes_t record_name(void) {
    return BYTES_LITERAL(SEALING_RECORD);
}

static status_t refuse(char *why, size_t why_size, status_t status, const char *text) {
    snprintf(why, why_size, "%s", text);
    return status;
}

static void take_effect(sealing_t *sealing, env_t *env) {
    if (sealing->cipher != NULL) {
        sealing->sealer = cipher_sealer(sealing->cipher);
    }
    env_seal(env, sealing->sealer);
}

static status_t put_record(const sealing_t *sealing, env_t *env, uint32_t kind) {
    uint8_t value[SEALING_RECORD_SIZE];
    value[VALUE_CRC_SIZE] = RECORD_VERSION;
    value[VALUE_CRC_SIZE + 1] = (uint8_t)kind;
    cipher_check(sealing->cipher, value + VALUE_CRC_SIZE + 2);
    value_seal(record_name(), value, sizeof value);
    return env_write_put(env, DB_META, record_name(), bytes_of(value, sizeof value));
}

static status_t make_cipher(sealing_t *sealing, uint32_t kind, const uint8_t *id, char *why, size_t why_size) {
    char text[160] = "";
    bytes_t key = bytes_of(sealing->keys->key, sealing->keys->key_size);
    status_t status = cipher_open(kind, key, id, &sealing->cipher, text, sizeof text);
    if (status != STATUS_OK) {
        snprintf(why, why_size, "cannot be encrypted: %s", text);
    }
    return status;
}

status_t sealing_begin(sealing_t *sealing, env_t *env, const uint8_t id[CIPHER_SALT_SIZE], char *why, size_t why_size) {
    status_t status = STATUS_OK;
    if (sealing->keys != NULL) {
        status = make_cipher(sealing, sealing->keys->cipher, id, why, why_size);
        if (status == STATUS_OK) {
            status = put_record(sealing, env, sealing->keys->cipher);
        }
    }
    take_effect(sealing, env);
    return status;
}

/* The key is the one that the record speaks of? */
static status_t compare(sealing_t *sealing, env_t *env, const uint8_t *id, char *why, size_t why_size) {
    bytes_t value = BYTES_NONE;
    uint8_t is[SEALER_HIDDEN_SIZE];
    status_t status = env_write_get(env, DB_META, record_name(), &value);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND) {
        return refuse(why, why_size, status, "cannot be read");
    }
    if (status == STATUS_NOT_FOUND || value.size != SEALING_RECORD_SIZE || !value_sound(record_name(), value)) {
        return refuse(why, why_size, STATUS_CORRUPT, "is encrypted, and the record that tells its key is damaged");
    }
    if (value.at[VALUE_CRC_SIZE] != RECORD_VERSION) {
        return refuse(why, why_size, STATUS_VERSION,
                      "was encrypted by a newer leafd; run that version or give another store_dir");
    }
    status = make_cipher(sealing, value.at[VALUE_CRC_SIZE + 1], id, why, why_size);
    if (status != STATUS_OK) {
        return status;
    }
    cipher_check(sealing->cipher, is);
    return memcmp(is, value.at + VALUE_CRC_SIZE + 2, sizeof is) == 0
               ? STATUS_OK
               : refuse(why, why_size, STATUS_INVALID,
                        "is encrypted with another key than the one given, and was not touched; give its own key or "
                        "another store_dir");
}

status_t sealing_resume(sealing_t *sealing, env_t *env, const uint8_t id[CIPHER_SALT_SIZE], bool sealed, char *why,
                        size_t why_size) {
    bool wanted = sealing->keys != NULL || sealing->sealer != NULL;
    if (sealed && !wanted) {
        return refuse(why, why_size, STATUS_INVALID,
                      "is encrypted; give its key (key in the jetstream block) or another store_dir");
    }
    if (!sealed && wanted) {
        return refuse(why, why_size, STATUS_INVALID,
                      "is not encrypted, but a key is given; remove the key or give another store_dir");
    }
    status_t status = sealing->keys != NULL ? compare(sealing, env, id, why, why_size) : STATUS_OK;
    if (status == STATUS_OK) {
        take_effect(sealing, env);
    }
    return status;
}

void sealing_close(sealing_t *sealing) {
    cipher_close(sealing->cipher);
    sealing->cipher = NULL;
}
