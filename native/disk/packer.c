/* packer.c: see packer.h. */
#include "disk/packer.h"

#include <stdlib.h>

#include "base/number.h"
#include "disk/slots.h"

#define TRIAL_BYTES (UINT64_C(1) << 20)
#define TRIAL_BYTES_MAX (UINT64_C(16) << 20)
#define SAMPLES 64
#define SAMPLES_BYTES (96u << 10)
#define SAMPLES_MIN 8 /* that a dictionary is judged by */
#define TEXT_MIN 256  /* a shorter dictionary is not worth its record */
#define WORTH_SAVED 8 /* a new one makes messages smaller by one part of so many */
#define ID_MAX (UINT16_MAX - 1)

/* The packer's knowledge of a stream. */
typedef struct habit {
    bool known;        /* its dictionaries were looked for */
    uint32_t id;       /* of the one in use, 0: none */
    uint32_t newest;   /* the greatest id that was given */
    uint32_t messages; /* put since the last trial */
    uint64_t bytes;
    uint64_t due; /* bytes at which the next one is */
} habit_t;

typedef struct primed {
    uint32_t slot; /* 0: none */
    uint32_t id;
    uint64_t used;
    dictionary_t is; /* but its text */
    s2_primer_t *primer;
} primed_t;

struct packer {
    s2_encoder_t *encoder;
    uint64_t first;
    uint64_t uses;
    bool calm; /* the last transaction was committed */
    primed_t primed[PACKER_PRIMED];
    habit_t habits[SLOTS_MAX + 1];
    uint8_t record[DICTIONARY_VALUE_MAX];
    uint8_t at[PACKED_MAX];
};

packer_t *packer_new(uint64_t first) {
    packer_t *packer = calloc(1, sizeof *packer);
    if (packer != NULL) {
        packer->first = first;
        packer->calm = true;
        packer->encoder = s2_encoder_new(S2_EFFORT_FAST);
    }
    return packer;
}

void packer_free(packer_t *packer) {
    if (packer != NULL) {
        for (uint32_t i = 0; i < PACKER_PRIMED; i++) {
            s2_primer_free(packer->primed[i].primer);
        }
        s2_encoder_free(packer->encoder);
        free(packer);
    }
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

/* STATUS_OK with *sound false: the copy is not there, or it is damaged, or the disk does not give all of it. The value
 * stays until env's next read or write. */
static status_t copy_read(env_t *env, uint32_t stream, uint32_t id, uint32_t copy, dictionary_t *dictionary,
                          bytes_t *value, bool *sound) {
    store_key_t key;
    key_dictionary(&key, stream, id);
    uint64_t before;
    *sound = false;
    switch (env_write_get(env, dictionary_db(copy), key_bytes(&key), value)) {
    case READ_UNKNOWN: return env_write_why(env);
    case READ_NONE: break;
    case READ_FOUND:
        before = env_value_look(env);
        *sound = dictionary_read(key_bytes(&key), *value, dictionary);
        *sound = env_value_given(env, *value, before) && *sound;
        break;
    }
    return STATUS_OK;
}

static status_t copy_find(env_t *env, uint32_t stream, uint32_t id, dictionary_t *dictionary, bool *sound) {
    bytes_t value;
    status_t status = copy_read(env, stream, id, 0, dictionary, &value, sound);
    return status == STATUS_OK && !*sound ? copy_read(env, stream, id, 1, dictionary, &value, sound) : status;
}

static status_t copy_put(env_t *env, uint32_t copy, uint32_t stream, uint32_t id, bytes_t value) {
    store_key_t key;
    key_dictionary(&key, stream, id);
    return env_write_put(env, dictionary_db(copy), key_bytes(&key), value);
}

/* A copy that is damaged is made again of the other one. */
static status_t copies_mend(packer_t *packer, env_t *env, uint32_t stream, uint32_t id, bool *sound) {
    bool whole[DICTIONARY_COPIES];
    uint32_t size = 0;
    for (uint32_t copy = 0; copy < DICTIONARY_COPIES; copy++) {
        dictionary_t dictionary;
        bytes_t value;
        status_t status = copy_read(env, stream, id, copy, &dictionary, &value, &whole[copy]);
        if (status != STATUS_OK) {
            return status;
        }
        if (whole[copy]) {
            size = value.size;
            memcpy(packer->record, value.at, value.size);
        }
    }
    *sound = whole[0] || whole[1];
    if (!*sound || (whole[0] && whole[1])) {
        return STATUS_OK;
    }
    return copy_put(env, whole[0] ? 1 : 0, stream, id, bytes_of(packer->record, size));
}

static status_t copies_delete(env_t *env, uint32_t stream, uint32_t id) {
    store_key_t key;
    key_dictionary(&key, stream, id);
    status_t status = env_write_delete(env, DB_DICTIONARIES, key_bytes(&key));
    return status == STATUS_OK ? env_write_delete(env, DB_DICTIONARY_COPIES, key_bytes(&key)) : status;
}

/* *id: the first one behind it, in either database; 0: none. */
static status_t id_after(env_t *env, uint32_t stream, uint32_t *id) {
    uint32_t least = 0, from = *id + 1;
    for (uint32_t copy = 0; from <= ID_MAX && copy < DICTIONARY_COPIES; copy++) {
        store_key_t key;
        bytes_t found = BYTES_NONE;
        key_dictionary(&key, stream, from);
        switch (env_write_seek(env, dictionary_db(copy), key_bytes(&key), &found)) {
        case READ_UNKNOWN: return env_write_why(env);
        case READ_NONE:
        case READ_FOUND: break;
        }
        if (found.size == DICTIONARY_KEY_SIZE && load_be32(found.at) == stream) {
            uint32_t there = load_be16(found.at + 4);
            least = least == 0 || there < least ? there : least;
        }
    }
    *id = least;
    return STATUS_OK;
}

/* ---- what a stream has ------------------------------------------------------------------------------------------- */

static status_t habit_learn(packer_t *packer, env_t *env, uint32_t stream, habit_t *habit) {
    habit_t learned = {.known = true, .due = packer->first};
    uint32_t id = 0;
    status_t status = id_after(env, stream, &id);
    while (status == STATUS_OK && id != 0) {
        bool sound;
        status = copies_mend(packer, env, stream, id, &sound);
        if (status == STATUS_OK) {
            learned.newest = id;
            learned.id = sound ? id : 0;
            learned.due = sound ? TRIAL_BYTES : packer->first;
            status = id_after(env, stream, &id);
        }
    }
    *habit = status == STATUS_OK ? learned : (habit_t){0};
    return status;
}

/* The place for another encoder: a free one, or that of the stream that has not come for longest. NULL: no memory. */
static primed_t *primed_place(packer_t *packer) {
    primed_t *oldest = &packer->primed[0];
    for (uint32_t i = 1; i < PACKER_PRIMED && oldest->slot != 0; i++) {
        primed_t *other = &packer->primed[i];
        oldest = other->slot == 0 || other->used < oldest->used ? other : oldest;
    }
    if (oldest->primer == NULL) {
        oldest->primer = s2_primer_new();
    }
    oldest->slot = 0;
    return oldest->primer != NULL ? oldest : NULL;
}

static void primed_take(primed_t *primed, uint32_t slot, uint32_t id, const dictionary_t *dictionary) {
    s2_prime(primed->primer, dictionary->text);
    primed->slot = slot;
    primed->id = id;
    primed->is = *dictionary;
    primed->is.text = BYTES_NONE;
}

/* *found NULL: it is damaged, or there is no memory for its encoder, which a message can do without. */
static status_t primed_for(packer_t *packer, env_t *env, uint32_t slot, uint32_t stream, uint32_t id,
                           const primed_t **found) {
    *found = NULL;
    for (uint32_t i = 0; i < PACKER_PRIMED; i++) {
        if (packer->primed[i].slot == slot && packer->primed[i].id == id) {
            packer->primed[i].used = ++packer->uses;
            *found = &packer->primed[i];
            return STATUS_OK;
        }
    }
    dictionary_t dictionary;
    bool sound;
    status_t status = copy_find(env, stream, id, &dictionary, &sound);
    primed_t *primed = status == STATUS_OK && sound ? primed_place(packer) : NULL;
    if (primed != NULL) {
        primed_take(primed, slot, id, &dictionary);
        primed->used = ++packer->uses;
        *found = primed;
    }
    return status;
}

static void primed_forget(packer_t *packer, uint32_t slot) {
    for (uint32_t i = 0; i < PACKER_PRIMED; i++) {
        if (slot == 0 || packer->primed[i].slot == slot) {
            packer->primed[i].slot = 0;
        }
    }
}

/* ---- trying a dictionary ----------------------------------------------------------------------------------------- */

typedef struct trial {
    packer_t *packer;
    env_t *env;
    uint32_t slot;
    uint32_t stream;
    uint64_t seq; /* of the message that is put */
    habit_t *habit;
    uint32_t count;
    uint32_t used;
    dictionary_t made;
    bytes_t samples[SAMPLES]; /* newest first: subject, header, payload */
    uint8_t at[SAMPLES_BYTES];
    uint8_t text[DICTIONARY_TEXT_MAX];
    uint8_t block[MESSAGE_FIXED_SIZE + S2_PRIMED_MAX];
} trial_t;

/* One as it was sent, unless there is no room for it. */
static void take_sample(trial_t *trial, bytes_t key, bytes_t value) {
    message_record_t message;
    if (!value_sound(key, value) || !message_read(key, value, &message) || (message.flags & MESSAGE_GONE) != 0) {
        return;
    }
    bytes_t sample = message_text(value, &message);
    if (sample.size == 0 || sample.size > S2_PRIMED_MAX || sample.size > SAMPLES_BYTES - trial->used) {
        return;
    }
    if (trial->count == 0) {
        trial->made.ts = message.ts;
        trial->made.gap = (int64_t)((uint64_t)message.born - (uint64_t)message.ts);
    }
    trial->samples[trial->count++] = bytes_of(trial->at + trial->used, sample.size);
    trial->used = (uint32_t)(bytes_write(trial->at + trial->used, sample) - trial->at);
}

/* The stream's first message at or above `from`. */
static read_outcome_t seek_message(const trial_t *trial, uint64_t from, uint64_t *seq) {
    store_key_t key;
    bytes_t found = BYTES_NONE;
    key_message(&key, trial->stream, from);
    read_outcome_t outcome = env_write_seek(trial->env, DB_MESSAGES, key_bytes(&key), &found);
    switch (outcome) {
    case READ_NONE:
    case READ_UNKNOWN: return outcome;
    case READ_FOUND: break;
    }
    if (found.size != MESSAGE_KEY_SIZE || load_be32(found.at) != trial->stream) {
        return READ_NONE;
    }
    *seq = load_be64(found.at + 4);
    return READ_FOUND;
}

/* Evenly among those that came since the last trial. One that cannot be read is no sample. */
static void take_samples(trial_t *trial) {
    uint64_t span = trial->habit->messages > SAMPLES ? trial->habit->messages : SAMPLES;
    uint64_t last = trial->seq;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint64_t back = 1 + span * i / SAMPLES;
        uint64_t seq = 0;
        store_key_t key;
        bytes_t value = BYTES_NONE;
        switch (seek_message(trial, trial->seq > back ? trial->seq - back : 1, &seq)) {
        case READ_UNKNOWN:
        case READ_NONE: break;
        case READ_FOUND: last = seq < last ? seq : last; break;
        }
        if (seq != last) {
            continue;
        }
        key_message(&key, trial->stream, last);
        switch (env_write_get(trial->env, DB_MESSAGES, key_bytes(&key), &value)) {
        case READ_UNKNOWN:
        case READ_NONE: break;
        case READ_FOUND: take_sample(trial, key_bytes(&key), value); break;
        }
    }
}

/* Makes a text of every other sample, the newest at the end. */
static void make_text(trial_t *trial) {
    uint32_t left = DICTIONARY_TEXT_MAX;
    for (uint32_t i = 0; i < trial->count; i += 2) {
        bytes_t sample = trial->samples[i];
        if (sample.size <= left) {
            left -= sample.size;
            (void)bytes_write(trial->text + left, sample);
        }
    }
    trial->made.text = bytes_of(trial->text + left, DICTIONARY_TEXT_MAX - left);
}

static uint32_t sample_size(trial_t *trial, const primed_t *primed, bytes_t sample) {
    uint32_t size = primed != NULL ? s2_encode_primed(primed->primer, sample, trial->block, sample.size)
                    : trial->packer->encoder != NULL
                        ? s2_encode(trial->packer->encoder, sample, trial->block, sample.size)
                        : 0;
    return size != 0 ? size : sample.size;
}

/* Does it pay? */
static bool trial_pays(trial_t *trial, const primed_t *made, const primed_t *now) {
    uint64_t before = 0, after = 0;
    uint32_t judged = 0;
    for (uint32_t i = 1; i < trial->count; i += 2, judged++) {
        before += sample_size(trial, now, trial->samples[i]);
        after += sample_size(trial, made, trial->samples[i]);
    }
    return judged >= SAMPLES_MIN && after < before - before / WORTH_SAVED;
}

/* Removes the dictionaries of which all messages are gone. *count: of the others. */
static status_t prune(trial_t *trial, uint32_t *count) {
    uint64_t first = trial->seq;
    switch (seek_message(trial, 0, &first)) {
    case READ_UNKNOWN: return env_write_why(trial->env); /* the first message may be older than every dictionary */
    case READ_NONE:
    case READ_FOUND: break;
    }
    first = number_least(first, trial->seq);
    *count = 0;
    uint32_t next = 0;
    status_t status = id_after(trial->env, trial->stream, &next);
    while (status == STATUS_OK && next != 0) {
        uint32_t id = next;
        dictionary_t newer = {0};
        bool sound = false;
        status = id_after(trial->env, trial->stream, &next);
        if (status == STATUS_OK && next != 0) {
            status = copy_find(trial->env, trial->stream, next, &newer, &sound);
        }
        if (status == STATUS_OK && sound && newer.from <= first) {
            status = copies_delete(trial->env, trial->stream, id);
        } else {
            ++*count;
        }
    }
    return status;
}

/* A journal that is applied again comes to messages that are there already. */
static bool is_last(const trial_t *trial) {
    uint64_t seq;
    switch (seek_message(trial, trial->seq, &seq)) {
    case READ_NONE: return true;
    case READ_UNKNOWN:
    case READ_FOUND: break;
    }
    return false;
}

static status_t adopt(trial_t *trial) {
    packer_t *packer = trial->packer;
    uint32_t id = trial->habit->newest + 1, size = 0;
    store_key_t key;
    key_dictionary(&key, trial->stream, id);
    trial->made.from = trial->seq;
    size = dictionary_write(packer->record, key_bytes(&key), &trial->made);
    status_t status = STATUS_OK;
    for (uint32_t copy = 0; status == STATUS_OK && copy < DICTIONARY_COPIES; copy++) {
        status = copy_put(trial->env, copy, trial->stream, id, bytes_of(packer->record, size));
    }
    if (status == STATUS_OK) {
        primed_forget(packer, trial->slot);
        trial->habit->id = trial->habit->newest = id;
    }
    return status;
}

static status_t hold_trial(trial_t *trial) {
    primed_t made = {.primer = s2_primer_new()};
    const primed_t *now = NULL;
    uint32_t count = 0;
    if (made.primer == NULL) {
        return STATUS_OK;
    }
    take_samples(trial);
    make_text(trial);
    status_t status = STATUS_OK;
    if (trial->habit->id != 0) {
        status = primed_for(trial->packer, trial->env, trial->slot, trial->stream, trial->habit->id, &now);
    }
    s2_prime(made.primer, trial->made.text);
    bool pays = trial->made.text.size >= TEXT_MIN && trial_pays(trial, &made, now);
    s2_primer_free(made.primer);
    status = status == STATUS_OK ? prune(trial, &count) : status;
    uint64_t due = trial->habit->due * 2;
    if (status == STATUS_OK && pays && count < PACKER_LIVE_MAX && trial->habit->newest < ID_MAX && is_last(trial)) {
        status = adopt(trial);
        due = TRIAL_BYTES;
    }
    trial->habit->messages = 0;
    trial->habit->bytes = 0;
    trial->habit->due = due < TRIAL_BYTES_MAX ? due : TRIAL_BYTES_MAX;
    return status;
}

static status_t packer_try(packer_t *packer, env_t *env, uint32_t slot, bytes_t key, habit_t *habit) {
    trial_t *trial = malloc(sizeof *trial);
    if (trial == NULL) {
        return STATUS_OK;
    }
    trial->packer = packer;
    trial->env = env;
    trial->slot = slot;
    trial->stream = load_be32(key.at);
    trial->seq = load_be64(key.at + 4);
    trial->habit = habit;
    trial->count = trial->used = 0;
    trial->made = (dictionary_t){0};
    status_t status = hold_trial(trial);
    free(trial);
    return status;
}

/* ---- a message --------------------------------------------------------------------------------------------------- */

static status_t pack_for_stream(packer_t *packer, env_t *env, uint32_t slot, bytes_t key, bytes_t *value) {
    habit_t *habit = &packer->habits[slot];
    uint32_t stream = load_be32(key.at);
    status_t status = habit->known ? STATUS_OK : habit_learn(packer, env, stream, habit);
    habit->messages++;
    habit->bytes += value->size;
    if (status == STATUS_OK && habit->bytes > habit->due && packer->calm) {
        status = packer_try(packer, env, slot, key, habit);
    }
    const primed_t *primed = NULL;
    if (status == STATUS_OK && habit->id != 0 && value->size <= MESSAGE_FIXED_SIZE + S2_PRIMED_MAX) {
        status = primed_for(packer, env, slot, stream, habit->id, &primed);
    }
    *value = primed != NULL ? packing_prime(primed->primer, &primed->is, habit->id, key, *value, packer->at)
                            : packing_pack(packer->encoder, *value, packer->at);
    return status;
}

status_t packer_pack(packer_t *packer, env_t *env, uint32_t slot, bytes_t key, bytes_t *value) {
    if (packer == NULL) {
        return STATUS_OK;
    }
    if (slot != 0 && key.size == MESSAGE_KEY_SIZE) {
        return pack_for_stream(packer, env, slot, key, value);
    }
    *value = packing_pack(packer->encoder, *value, packer->at);
    return STATUS_OK;
}

status_t packer_drop(packer_t *packer, env_t *env, uint32_t slot, uint32_t stream) {
    store_key_t from;
    store_key_t to;
    uint64_t done;
    key_dictionary(&from, stream, 0);
    key_dictionary(&to, stream, UINT16_MAX);
    status_t status = STATUS_OK;
    for (uint32_t copy = 0; status == STATUS_OK && copy < DICTIONARY_COPIES; copy++) {
        status = env_write_delete_range(env, dictionary_db(copy), key_bytes(&from), key_bytes(&to), UINT64_MAX, &done);
    }
    if (packer != NULL) {
        packer->habits[slot] = (habit_t){.known = true, .due = TRIAL_BYTES}; /* a queue may become empty often */
        primed_forget(packer, slot);
    }
    return status;
}

void packer_ended(packer_t *packer, bool committed) {
    if (packer != NULL) {
        packer->calm = committed;
    }
    if (packer != NULL && !committed) {
        memset(packer->habits, 0, sizeof packer->habits);
        primed_forget(packer, 0);
    }
}
