/* sealing.c: see sealing.h.
 *
 * Record META "key": crc 4, version 1, state 1, cipher 1, older cipher 1 (0: none), key 8, tag 8, older key 8, zeros 8.
 * "key" tells one key from another, "tag" is the newer key's over all else that the record says (cipher_check). The
 * keys themselves are nowhere on the disk: they follow from what the operator gave and the store's id, which the
 * journal's first block has, too.
 *
 * What META says is sealed by nobody else, and an attacker with the disk in his hands writes checksums as well as
 * leafd. What he could gain is that entries in plain are believed, his own. So they are believed in two cases only: the
 * tag proves that a change from no key goes on, or no entry at all opens with the keys. Version 1 had 16 bytes of "key"
 * and no tag: it is believed but where it says such a change.
 */
#include "disk/sealing.h"

#include <stdio.h>

#define RECORD_VERSION 2
#define RECORD_UNTAGGED 1 /* the version before */
#define RECORD_BODY (SEALING_RECORD_SIZE - VALUE_CRC_SIZE)
#define KEY_AT 4
#define HALF (SEALER_HIDDEN_SIZE / 2)
#define OLDER_AT (KEY_AT + SEALER_HIDDEN_SIZE)
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

/* The newer key's, over all but the crc and itself. */
static void record_tag(const cipher_t *cipher, const uint8_t *record, uint8_t tag[SEALER_HIDDEN_SIZE]) {
    uint8_t said[RECORD_BODY];
    memcpy(said, record, sizeof said);
    memset(said + KEY_AT + HALF, 0, HALF);
    cipher_check(cipher, bytes_of(said, sizeof said), tag);
}

static void put_key(const cipher_t *cipher, uint8_t *to) {
    uint8_t is[SEALER_HIDDEN_SIZE];
    cipher_check(cipher, BYTES_NONE, is);
    memcpy(to, is, HALF);
}

static status_t put_record(const sealing_t *sealing, env_t *env, sealing_state_t state) {
    uint8_t value[SEALING_RECORD_SIZE] = {0};
    uint8_t tag[SEALER_HIDDEN_SIZE];
    uint8_t *at = value + VALUE_CRC_SIZE;
    at[0] = RECORD_VERSION;
    at[1] = (uint8_t)state;
    at[2] = (uint8_t)sealing->kind;
    put_key(sealing->cipher, at + KEY_AT);
    if (state != SEALING_DONE && sealing->older != NULL) {
        at[3] = (uint8_t)sealing->older_kind;
        put_key(sealing->older, at + OLDER_AT);
    }
    record_tag(sealing->cipher, at, tag);
    memcpy(at + KEY_AT + HALF, tag, HALF);
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

/* at: KEY_AT or OLDER_AT. */
static bool is_key(const cipher_t *cipher, const uint8_t *record, unsigned at) {
    uint8_t is[SEALER_HIDDEN_SIZE];
    cipher_check(cipher, BYTES_NONE, is);
    return memcmp(is, record + at, record[0] == RECORD_UNTAGGED ? SEALER_HIDDEN_SIZE : HALF) == 0;
}

/* The newer key is `cipher`: is what the record says its word? */
static bool is_true(const cipher_t *cipher, const uint8_t *record) {
    uint8_t tag[SEALER_HIDDEN_SIZE];
    if (record[0] == RECORD_UNTAGGED) {
        return record[1] == SEALING_DONE || record[3] != 0;
    }
    record_tag(cipher, record, tag);
    return memcmp(tag, record + KEY_AT + HALF, HALF) == 0;
}

/* The one of both keys that the record has there, as *cipher; NULL: neither. */
static status_t find_cipher(const plane_keys_t *keys, uint32_t kind, const uint8_t *record, unsigned at,
                            const uint8_t *id, cipher_t **cipher, char *why, size_t why_size) {
    const uint8_t *given[] = {keys->key, keys->previous};
    uint32_t sizes[] = {keys->key_size, keys->previous_size};
    status_t status = STATUS_OK;
    *cipher = NULL;
    for (unsigned i = 0; status == STATUS_OK && i < 2; i++) {
        if (sizes[i] == 0) {
            continue;
        }
        status = make_cipher(kind, given[i], sizes[i], id, cipher, why, why_size);
        if (status == STATUS_OK) {
            if (is_key(*cipher, record, at)) {
                return STATUS_OK;
            }
            cipher_close(*cipher);
            *cipher = NULL;
        }
    }
    return status;
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
    status_t status = find_cipher(keys, record[2], record, KEY_AT, id, &found, why, why_size);
    if (status != STATUS_OK) {
        return status;
    }
    if (found == NULL) {
        return refuse(why, why_size, STATUS_INVALID, other_key);
    }
    if (!is_true(found, record)) {
        cipher_close(found);
        return STATUS_CORRUPT;
    }
    status = make_newer(sealing, keys->cipher, id, why, why_size);
    if (status == STATUS_OK && record[2] == sealing->kind && is_key(sealing->cipher, record, KEY_AT)) {
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
    if (!is_key(sealing->cipher, record, KEY_AT)) {
        return refuse(why, why_size, STATUS_INVALID, other_key);
    }
    if (!is_true(sealing->cipher, record)) {
        cipher_close(sealing->cipher);
        sealing->cipher = NULL;
        return STATUS_CORRUPT;
    }
    if (record[3] != 0) {
        status = find_cipher(sealing->keys, record[3], record, OLDER_AT, id, &sealing->older, why, why_size);
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

/* ---- a change of keys whose record is lost ----------------------------------------------------------------------- */

/* The keys and ciphers that entries may be sealed with: the key or the one before it, by either cipher; first the one
 * that is wanted. */
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
 * change. What is in plain is not believed: nothing says that it is the store's own. */
static void adopt_found(sealing_t *sealing, candidates_t *made, const env_survey_t *survey) {
    uint32_t older = 0;
    for (uint32_t i = 1; i < made->count; i++) {
        older = survey->opened[i] > (older > 0 ? survey->opened[older] : 0) ? i : older;
    }
    sealing->change = survey->opened[0] == 0 && older > 0;
    sealing->mend = !sealing->change;
    sealing->surveyed = true;
    sealing->state = sealing->mend && older > 0 ? SEALING_TEXTS : SEALING_DONE;
    sealing->cipher = made->at[0];
    sealing->kind = made->kinds[0];
    made->at[0] = NULL;
    if (older > 0) {
        sealing->older = made->at[older];
        sealing->older_kind = made->kinds[older];
        made->at[older] = NULL;
    }
}

static uint64_t count_opened(const env_survey_t *survey) {
    uint64_t opened = 0;
    for (unsigned i = 0; i < ENV_SURVEYED_MAX; i++) {
        opened += survey->opened[i];
    }
    return opened;
}

static status_t judge_survey(const env_survey_t *survey, bool accepted, char *why, size_t why_size) {
    uint64_t opened = count_opened(survey);
    uint64_t lost = survey->closed + survey->plain;
    if (lost == 0 || (accepted && opened > 0)) {
        return STATUS_OK;
    }
    snprintf(why, why_size,
             "is encrypted, the record that tells its key is damaged, %llu of %llu entries open with none of the keys "
             "that were given (%llu are not encrypted at all), and was not touched; give its own key, the one before "
             "it as prev_key%s",
             (unsigned long long)lost, (unsigned long long)(lost + opened), (unsigned long long)survey->plain,
             opened > 0 ? ", or accept the loss of these entries: make an empty file accept-loss in it and start again"
                        : "");
    return STATUS_INVALID;
}

static status_t take_survey(env_t *env, const candidates_t *made, env_survey_t *survey, char *why, size_t why_size) {
    const sealer_t *sealers[ENV_SURVEYED_MAX] = {0};
    for (uint32_t i = 0; i < made->count; i++) {
        sealers[i] = cipher_sealer(made->at[i]);
    }
    status_t status = env_write_survey(env, sealers, made->count, survey);
    return status == STATUS_OK ? status : refuse(why, why_size, status, "cannot be read");
}

/* Nothing that can be believed tells which key it is. plain: META says that there is none. */
static status_t resume_without_record(sealing_t *sealing, env_t *env, const uint8_t *id, bool plain, bool accepted,
                                      char *why, size_t why_size) {
    candidates_t made;
    env_survey_t survey = {0};
    status_t status = make_candidates(sealing->keys, id, &made, why, why_size);
    status = status == STATUS_OK ? take_survey(env, &made, &survey, why, why_size) : status;
    if (status == STATUS_OK && plain && count_opened(&survey) == 0) {
        sealing->change = true; /* from no key */
        status = make_newer(sealing, sealing->keys->cipher, id, why, why_size);
    } else if (status == STATUS_OK) {
        status = judge_survey(&survey, accepted, why, why_size);
        if (status == STATUS_OK) {
            adopt_found(sealing, &made, &survey);
            take_effect(sealing, env);
        }
        if (status == STATUS_OK && sealing->change) {
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
    uint8_t record[RECORD_BODY];
    memcpy(record, value.at + VALUE_CRC_SIZE, sizeof record);
    if (record[0] > RECORD_VERSION) {
        return refuse(why, why_size, STATUS_VERSION,
                      "was encrypted by a newer leafd; run that version or give another store_dir");
    }
    return record[1] == SEALING_DONE ? resume_whole(sealing, env, record, id, why, why_size)
                                     : resume_change(sealing, env, record, id, why, why_size);
}

static bool is_kind(uint8_t kind) {
    return kind == CIPHER_AES || kind == CIPHER_CHACHA;
}

static bool record_sound(bytes_t value) {
    if (value.size != SEALING_RECORD_SIZE || !value_sound(record_name(), value)) {
        return false;
    }
    const uint8_t *record = value.at + VALUE_CRC_SIZE;
    return record[0] > RECORD_VERSION
           || (record[0] >= RECORD_UNTAGGED && is_kind(record[2]) && (record[3] == 0 || is_kind(record[3])));
}

status_t sealing_look(sealing_t *sealing, bytes_t record, const uint8_t id[CIPHER_SALT_SIZE], char *why,
                      size_t why_size) {
    status_t status = record_sound(record) ? resume_recorded(sealing, NULL, record, id, why, why_size) : STATUS_CORRUPT;
    return status != STATUS_CORRUPT ? status
                                    : refuse(why, why_size, STATUS_CORRUPT,
                                             "is encrypted, and the record that tells its key is damaged: a start of "
                                             "leafd with its key makes that record anew");
}

static status_t resume_sealed(sealing_t *sealing, env_t *env, const uint8_t *id, bool accepted, char *why,
                              size_t why_size) {
    bytes_t value = BYTES_NONE;
    switch (env_write_get(env, DB_META, record_name(), &value)) {
    case READ_UNKNOWN: return refuse(why, why_size, env_write_why(env), "cannot be read");
    case READ_NONE: value = BYTES_NONE; break; /* made anew, as a damaged one */
    case READ_FOUND: break;
    }
    status_t status = record_sound(value) ? resume_recorded(sealing, env, value, id, why, why_size) : STATUS_CORRUPT;
    return status != STATUS_CORRUPT ? status : resume_without_record(sealing, env, id, false, accepted, why, why_size);
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
    return sealed ? resume_sealed(sealing, env, id, accepted, why, why_size)
                  : resume_without_record(sealing, env, id, true, accepted, why, why_size);
}

/* ---- a change of keys -------------------------------------------------------------------------------------------- */

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
    sealing->mend = false;
    return put_record(sealing, env, sealing->state);
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
    if (sealing->index >= env_databases(env)) {
        return end_state(sealing, env, SEALING_DONE);
    }
    status_t status = slice(sealing, env, sealing->index, SLICE);
    if (status == STATUS_OK) { /* the next database */
        sealing->index++;
        sealing->from.size = 0;
        return STATUS_AGAIN;
    }
    return status;
}

void sealing_close(sealing_t *sealing) {
    cipher_close(sealing->cipher);
    cipher_close(sealing->older);
    sealing->cipher = sealing->older = NULL;
}
