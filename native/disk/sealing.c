/* sealing.c: see sealing.h.
 *
 * Record META "key": crc 4, version 1, state 1, cipher 1, older cipher 1 (0: none), check 16, older check 16
 * (cipher_check). The keys themselves are nowhere on the disk: they follow from what the operator gave and the store's
 * id, which the journal's first block has, too.
 */
#include "disk/sealing.h"

#include <stdio.h>

#define RECORD_VERSION 1
#define SLICE 512 /* entries sealed anew in one transaction while others wait */
#define SLICE_AT_START 4096

static bytes_t record_name(void) {
    return BYTES_LITERAL(SEALING_RECORD);
}

/* env: NULL where somebody else has the entries. */
static void seal_with(env_t *env, const sealer_t *sealer) {
    if (env != NULL) {
        env_seal(env, sealer);
    }
}

static status_t refuse(char *why, size_t why_size, status_t status, const char *text) {
    snprintf(why, why_size, "%s", text);
    return status;
}

static void take_effect(sealing_t *sealing, env_t *env) {
    if (sealing->cipher != NULL) {
        sealing->both = *cipher_sealer(sealing->cipher);
        if (sealing->state != SEALING_DONE) {
            sealing->both.older = sealing->older != NULL ? cipher_sealer(sealing->older) : NULL;
            sealing->both.older_plain = sealing->older == NULL;
        }
        sealing->sealer = &sealing->both;
    }
    seal_with(env, sealing->sealer);
}

static status_t put_record(const sealing_t *sealing, env_t *env, sealing_state_t state) {
    uint8_t value[SEALING_RECORD_SIZE] = {0};
    uint8_t *at = value + VALUE_CRC_SIZE;
    at[0] = RECORD_VERSION;
    at[1] = (uint8_t)state;
    at[2] = (uint8_t)sealing->kind;
    cipher_check(sealing->cipher, at + 4);
    if (state != SEALING_DONE && sealing->older != NULL) {
        at[3] = (uint8_t)sealing->older_kind;
        cipher_check(sealing->older, at + 4 + SEALER_HIDDEN_SIZE);
    }
    value_seal(record_name(), value, sizeof value);
    return env_write_put(env, DB_META, record_name(), bytes_of(value, sizeof value));
}

static status_t make_cipher(uint32_t kind, const uint8_t *key, uint32_t size, const uint8_t *id, cipher_t **cipher,
                            char *why, size_t why_size) {
    char text[160] = "";
    status_t status = cipher_open(kind, bytes_of(key, size), id, cipher, text, sizeof text);
    if (status != STATUS_OK) {
        snprintf(why, why_size, "cannot be encrypted: %s", text);
    }
    return status;
}

static status_t make_newer(sealing_t *sealing, uint32_t kind, const uint8_t *id, char *why, size_t why_size) {
    const plane_keys_t *keys = sealing->keys;
    cipher_close(sealing->cipher);
    sealing->kind = kind;
    return make_cipher(kind, keys->key, keys->key_size, id, &sealing->cipher, why, why_size);
}

/* The one of both keys that this check was made with, as *cipher; NULL: neither. */
static status_t find_cipher(const plane_keys_t *keys, uint32_t kind, const uint8_t *check, const uint8_t *id,
                            cipher_t **cipher, char *why, size_t why_size) {
    const uint8_t *at[] = {keys->key, keys->previous};
    uint32_t sizes[] = {keys->key_size, keys->previous_size};
    uint8_t is[SEALER_HIDDEN_SIZE];
    status_t status = STATUS_OK;
    *cipher = NULL;
    for (unsigned i = 0; status == STATUS_OK && i < 2; i++) {
        if (sizes[i] == 0) {
            continue;
        }
        status = make_cipher(kind, at[i], sizes[i], id, cipher, why, why_size);
        if (status == STATUS_OK) {
            cipher_check(*cipher, is);
            if (memcmp(is, check, sizeof is) == 0) {
                return STATUS_OK;
            }
            cipher_close(*cipher);
            *cipher = NULL;
        }
    }
    return status;
}

static bool is_key(const cipher_t *cipher, const uint8_t *check) {
    uint8_t is[SEALER_HIDDEN_SIZE];
    cipher_check(cipher, is);
    return memcmp(is, check, sizeof is) == 0;
}

status_t sealing_begin(sealing_t *sealing, env_t *env, const uint8_t id[CIPHER_SALT_SIZE], char *why, size_t why_size) {
    status_t status = STATUS_OK;
    if (sealing->keys != NULL) {
        status = make_newer(sealing, sealing->keys->cipher, id, why, why_size);
        if (status == STATUS_OK) {
            status = put_record(sealing, env, SEALING_DONE);
        }
    }
    take_effect(sealing, env);
    return status;
}

static const char other_key[] =
    "is encrypted with another key than the one given, and was not touched; give its own key, "
    "as prev_key where it is to be changed, or another store_dir";

/* All is sealed with one key: the one that was given, or the one before it. */
static status_t resume_whole(sealing_t *sealing, env_t *env, const uint8_t *record, const uint8_t *id, char *why,
                             size_t why_size) {
    const plane_keys_t *keys = sealing->keys;
    cipher_t *found = NULL;
    status_t status = find_cipher(keys, record[2], record + 4, id, &found, why, why_size);
    if (status != STATUS_OK) {
        return status;
    }
    if (found == NULL) {
        return refuse(why, why_size, STATUS_INVALID, other_key);
    }
    status = make_newer(sealing, keys->cipher, id, why, why_size);
    if (status == STATUS_OK && record[2] == sealing->kind && is_key(sealing->cipher, record + 4)) {
        cipher_close(found);
        take_effect(sealing, env);
        return STATUS_OK;
    }
    sealing->older = found;
    sealing->older_kind = record[2];
    sealing->change = true;
    sealing->sealer = cipher_sealer(found); /* until sealing_change */
    seal_with(env, sealing->sealer);
    return status;
}

/* A change of key was not at its end. */
static status_t resume_change(sealing_t *sealing, env_t *env, const uint8_t *record, const uint8_t *id, char *why,
                              size_t why_size) {
    status_t status = make_newer(sealing, record[2], id, why, why_size);
    if (status != STATUS_OK) {
        return status;
    }
    if (!is_key(sealing->cipher, record + 4)) {
        return refuse(why, why_size, STATUS_INVALID, other_key);
    }
    if (record[3] != 0) {
        const uint8_t *check = record + 4 + SEALER_HIDDEN_SIZE;
        status = find_cipher(sealing->keys, record[3], check, id, &sealing->older, why, why_size);
        sealing->older_kind = record[3];
        if (status == STATUS_OK && sealing->older == NULL) {
            return refuse(why, why_size, STATUS_INVALID,
                          "was stopped in the middle of a change of key; give the key before it as prev_key as well");
        }
    }
    sealing->state = record[1] == SEALING_TEXTS ? SEALING_TEXTS : SEALING_VALUES;
    take_effect(sealing, env);
    return status;
}

/* ---- without the record ------------------------------------------------------------------------------------------ */

/* What entries may be sealed with: the key or the one before it, by either cipher; first the one that is wanted. */
typedef struct candidates {
    cipher_t *at[ENV_SURVEYED_MAX];
    uint32_t kinds[ENV_SURVEYED_MAX];
    uint32_t count;
} candidates_t;

static status_t make_candidates(const plane_keys_t *keys, const uint8_t *id, candidates_t *made, char *why,
                                size_t why_size) {
    const uint32_t kinds[] = {keys->cipher, keys->cipher == CIPHER_AES ? CIPHER_CHACHA : CIPHER_AES};
    const uint8_t *at[] = {keys->key, keys->previous};
    uint32_t sizes[] = {keys->key_size, keys->previous_size};
    status_t status = STATUS_OK;
    *made = (candidates_t){0};
    for (unsigned i = 0; status == STATUS_OK && i < ENV_SURVEYED_MAX; i++) {
        if (sizes[i / 2] > 0) {
            made->kinds[made->count] = kinds[i % 2];
            status = make_cipher(kinds[i % 2], at[i / 2], sizes[i / 2], id, &made->at[made->count], why, why_size);
            made->count += status == STATUS_OK;
        }
    }
    return status;
}

/* The entries are sealed with the key that is wanted, with one other, or with one after the other in the middle of a
 * change. */
static void adopt_found(sealing_t *sealing, candidates_t *made, const env_survey_t *survey) {
    uint32_t older = 0;
    for (uint32_t i = 1; i < made->count; i++) {
        older = survey->opened[i] > (older > 0 ? survey->opened[older] : 0) ? i : older;
    }
    sealing->change = survey->opened[0] == 0 && older > 0;
    sealing->mend = !sealing->change;
    sealing->state = sealing->mend && (older > 0 || survey->plain > 0) ? SEALING_TEXTS : SEALING_DONE;
    sealing->cipher = made->at[0];
    sealing->kind = made->kinds[0];
    made->at[0] = NULL;
    if (older > 0) {
        sealing->older = made->at[older];
        sealing->older_kind = made->kinds[older];
        made->at[older] = NULL;
    }
}

static status_t judge_survey(const env_survey_t *survey, bool accepted, char *why, size_t why_size) {
    uint64_t opened = survey->plain;
    for (unsigned i = 0; i < ENV_SURVEYED_MAX; i++) {
        opened += survey->opened[i];
    }
    if (survey->closed == 0 || (accepted && opened > 0)) {
        return STATUS_OK;
    }
    snprintf(why, why_size,
             "is encrypted, the record that tells its key is damaged, and %llu of %llu entries open with none of the "
             "keys that were given, and was not touched; give its own key, the one before it as prev_key%s",
             (unsigned long long)survey->closed, (unsigned long long)(survey->closed + opened),
             opened > 0 ? ", or accept the loss of these entries: make an empty file accept-loss in it and start again"
                        : "");
    return STATUS_INVALID;
}

static status_t resume_without_record(sealing_t *sealing, env_t *env, const uint8_t *id, bool accepted, char *why,
                                      size_t why_size) {
    const sealer_t *sealers[ENV_SURVEYED_MAX] = {0};
    candidates_t made;
    env_survey_t survey = {0};
    status_t status = make_candidates(sealing->keys, id, &made, why, why_size);
    for (uint32_t i = 0; i < made.count; i++) {
        sealers[i] = cipher_sealer(made.at[i]);
    }
    if (status == STATUS_OK) {
        status = env_write_survey(env, sealers, made.count, &survey);
        status = status == STATUS_OK ? judge_survey(&survey, accepted, why, why_size)
                                     : refuse(why, why_size, status, "cannot be read");
    }
    if (status == STATUS_OK) {
        adopt_found(sealing, &made, &survey);
        take_effect(sealing, env);
        if (sealing->change) {
            sealing->sealer = cipher_sealer(sealing->older); /* until sealing_change */
            seal_with(env, sealing->sealer);
        }
    }
    for (uint32_t i = 0; i < made.count; i++) {
        cipher_close(made.at[i]);
    }
    return status;
}

static status_t resume_recorded(sealing_t *sealing, env_t *env, bytes_t value, const uint8_t *id, char *why,
                                size_t why_size) {
    uint8_t record[SEALING_RECORD_SIZE - VALUE_CRC_SIZE];
    memcpy(record, value.at + VALUE_CRC_SIZE, sizeof record);
    if (record[0] != RECORD_VERSION) {
        return refuse(why, why_size, STATUS_VERSION,
                      "was encrypted by a newer leafd; run that version or give another store_dir");
    }
    return record[1] == SEALING_DONE ? resume_whole(sealing, env, record, id, why, why_size)
                                     : resume_change(sealing, env, record, id, why, why_size);
}

static bool record_sound(bytes_t value) {
    return value.size == SEALING_RECORD_SIZE && value_sound(record_name(), value);
}

status_t sealing_look(sealing_t *sealing, bytes_t record, const uint8_t id[CIPHER_SALT_SIZE], char *why,
                      size_t why_size) {
    return record_sound(record)
               ? resume_recorded(sealing, NULL, record, id, why, why_size)
               : refuse(why, why_size, STATUS_CORRUPT,
                        "is encrypted, and the record that tells its key is damaged: a start of leafd with its "
                        "key makes that record anew");
}

static status_t resume_sealed(sealing_t *sealing, env_t *env, const uint8_t *id, bool accepted, char *why,
                              size_t why_size) {
    bytes_t value = BYTES_NONE;
    status_t status = env_write_get(env, DB_META, record_name(), &value);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND) {
        return refuse(why, why_size, status, "cannot be read");
    }
    return status == STATUS_OK && record_sound(value)
               ? resume_recorded(sealing, env, value, id, why, why_size)
               : resume_without_record(sealing, env, id, accepted, why, why_size);
}

status_t sealing_resume(sealing_t *sealing, env_t *env, const uint8_t id[CIPHER_SALT_SIZE], bool sealed, bool accepted,
                        char *why, size_t why_size) {
    if (sealing->keys == NULL) {
        bool wanted = sealing->sealer != NULL;
        if (sealed != wanted) {
            return refuse(why, why_size, STATUS_INVALID,
                          sealed ? "is encrypted; give its key (key in the jetstream block) or another store_dir"
                                 : "is not encrypted, but a sealer is given");
        }
        take_effect(sealing, env);
        return STATUS_OK;
    }
    if (sealed) {
        return resume_sealed(sealing, env, id, accepted, why, why_size);
    }
    sealing->change = true; /* from no key */
    return make_newer(sealing, sealing->keys->cipher, id, why, why_size);
}

/* ---- the change -------------------------------------------------------------------------------------------------- */

status_t sealing_change(sealing_t *sealing, env_t *env) {
    sealing->state = SEALING_TEXTS;
    sealing->change = false;
    status_t status = put_record(sealing, env, SEALING_TEXTS);
    take_effect(sealing, env);
    return status;
}

/* A transaction of its own. STATUS_AGAIN: some of it is done. */
static status_t slice(sealing_t *sealing, env_t *env, uint32_t index, uint32_t limit) {
    status_t status = env_write_begin(env);
    if (status != STATUS_OK) {
        return status;
    }
    status_t result = env_write_reseal(env, index, &sealing->from, limit);
    if (result != STATUS_OK && result != STATUS_AGAIN) {
        env_write_abort(env);
        return result;
    }
    status = env_write_commit(env);
    return status == STATUS_OK ? result : status;
}

static status_t end_state(sealing_t *sealing, env_t *env, sealing_state_t state) {
    status_t status = env_write_begin(env);
    if (status == STATUS_OK) {
        status = put_record(sealing, env, state);
        if (status != STATUS_OK) {
            env_write_abort(env);
            return status;
        }
        status = env_write_commit(env);
    }
    if (status == STATUS_OK) {
        sealing->state = state;
    }
    return status;
}

status_t sealing_mend(sealing_t *sealing, env_t *env) {
    bool mend = sealing->mend;
    sealing->mend = false;
    return mend ? end_state(sealing, env, sealing->state) : STATUS_OK;
}

status_t sealing_texts(sealing_t *sealing, env_t *env) {
    static const store_db_t texts[] = {DB_RECORDS, DB_HEADS, DB_IDS};
    if (sealing->state != SEALING_TEXTS) {
        return STATUS_OK;
    }
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
        status_t status;
        sealing->from.size = 0;
        do {
            status = slice(sealing, env, texts[i], SLICE_AT_START);
        } while (status == STATUS_AGAIN);
        if (status != STATUS_OK) {
            return status;
        }
    }
    sealing->from.size = 0;
    return end_state(sealing, env, SEALING_VALUES);
}

status_t sealing_step(sealing_t *sealing, env_t *env) {
    if (sealing->state != SEALING_VALUES) {
        return STATUS_OK;
    }
    if (sealing->index == DB_META) {
        sealing->index++;
    }
    status_t status = slice(sealing, env, sealing->index, SLICE);
    if (status == STATUS_OK) { /* the next database */
        sealing->index++;
        sealing->from.size = 0;
        return STATUS_AGAIN;
    }
    return status == STATUS_NOT_FOUND ? end_state(sealing, env, SEALING_DONE) : status;
}

void sealing_close(sealing_t *sealing) {
    cipher_close(sealing->cipher);
    cipher_close(sealing->older);
    sealing->cipher = sealing->older = NULL;
}
