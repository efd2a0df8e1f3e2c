/* open.c: see open.h. A start goes through directory, lock, format, environment, replay, threads; and says in one line
 * why not.
 *
 * Record META "format": format 4, store id 16. The journal carries the same id, so one is never replayed into another
 * store.
 */
#include "recovery/open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/check.h"
#include "disk/directory.h"
#include "recovery/meta.h"
#include "recovery/pages.h"
#include "recovery/salvage.h"
#include "recovery/suspect.h"
#include "store/lifecycle.h"
#include "store/overlay.h"

#define MEMORY_ALIGNMENT 64

status_t opening_fail(opening_t *opening, status_t status, const char *what, int error) {
    const char *why = error != 0 ? strerror(error) : status_name(status);
    snprintf(opening->reason, opening->reason_size, "%s %s: %s", what, opening->store->directory, why);
    return status;
}

bool store_path(const store_t *store, const char *name, char path[STORE_PATH_MAX]) {
    int size = snprintf(path, STORE_PATH_MAX, "%s/%s", store->directory, name);
    return size > 0 && size < STORE_PATH_MAX;
}

static status_t make_directory(opening_t *opening) {
    int error = directory_make(opening->store->directory);
    status_t status = error == 0 ? STATUS_OK : error == ENOSPC ? STATUS_NO_SPACE : STATUS_IO;
    return error == 0 ? status : opening_fail(opening, status, "cannot make the store directory", error);
}

static status_t lock_directory(opening_t *opening) {
    store_t *store = opening->store;
    char holder[32];
    store->lock_fd = directory_lock(store->directory, holder);
    if (store->lock_fd >= 0) {
        return STATUS_OK;
    }
    if (holder[0] == 0) {
        return opening_fail(opening, STATUS_IO, "cannot open the lock file in", errno);
    }
    snprintf(opening->reason, opening->reason_size,
             "the store in %s is in use by process %s; stop that one or give this one another store_dir",
             store->directory, holder);
    return STATUS_IN_USE;
}

static void empty_directory(const store_t *store) {
    static const char *const names[] = {"data.mdb", "lock.mdb"};
    char path[STORE_PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (store_path(store, names[i], path)) {
            (void)unlink(path); /* what cannot go shows when the environment is opened */
        }
    }
}

static const char format_name[] = STORE_FORMAT_KEY;

static status_t new_format(opening_t *opening) {
    env_t *env = opening->store->env;
    if (getrandom(opening->store_id, STORE_ID_SIZE, 0) != STORE_ID_SIZE) {
        return opening_fail(opening, STATUS_IO, "no random numbers for", errno);
    }
    opening->position = RECOVER_FIRST_POSITION;
    status_t status = env_write_begin(env);
    if (status == STATUS_OK) {
        status = meta_unseal(opening, true, false);
        if (status == STATUS_OK) {
            status = env_formats_put(env, opening->store_id, opening->store->options.sealer != NULL);
        }
        if (status != STATUS_OK) {
            env_write_abort(env);
        }
    }
    if (status == STATUS_OK) {
        status = keeper_commit(env, RECOVER_FIRST_POSITION, 0, 0);
        if (!opening->store->options.memory) {
            directory_sync(opening->store->directory); /* so that LMDB has its file before a journal says so */
        }
    }
    return status == STATUS_OK || status == STATUS_INVALID
               ? status
               : opening_fail(opening, status, "cannot write to the store in", 0);
}

static status_t check_format(opening_t *opening, bytes_t value) {
    bytes_t key = bytes_of(format_name, sizeof format_name - 1);
    store_t *store = opening->store;
    if (value.size < VALUE_CRC_SIZE + 4) {
        return opening_fail(opening, STATUS_CORRUPT, "the format record is damaged in", 0);
    }
    uint32_t format = load_be32(value.at + VALUE_CRC_SIZE);
    bool sealed = (format & STORE_FORMAT_SEALED) != 0;
    format &= ~STORE_FORMAT_FLAGS;
    if (format > STORE_FORMAT && value_sound(key, value)) {
        snprintf(
            opening->reason, opening->reason_size,
            "the store in %s has format %u, this leafd knows up to %u; run a newer leafd or give another store_dir",
            store->directory, format, STORE_FORMAT);
        return STATUS_VERSION;
    }
    if (value.size != STORE_FORMAT_SIZE || !value_sound(key, value)) {
        return opening_fail(opening, STATUS_CORRUPT, "the format record is damaged in", 0);
    }
    memcpy(opening->store_id, value.at + VALUE_CRC_SIZE + 4, STORE_ID_SIZE);
    return meta_unseal(opening, false, sealed);
}

static status_t read_meta(opening_t *opening, const meta_t *meta) {
    env_t *env = opening->store->env;
    bytes_t value = BYTES_NONE;
    status_t status = STATUS_OK;
    if (meta->has[META_FORMAT]) {
        switch (env_write_get(env, DB_META, bytes_of(format_name, sizeof format_name - 1), &value)) {
        case READ_UNKNOWN: status = opening_fail(opening, env_write_why(env), "cannot read the store in", 0); break;
        case READ_NONE: status = opening_fail(opening, STATUS_CORRUPT, "cannot read the store in", 0); break;
        case READ_FOUND: status = check_format(opening, value); break;
        }
    }
    if (status == STATUS_OK) {
        status = recover_use_read(env, &opening->use, &opening->use_position);
        opening->use = opening->use == USE_UNKNOWN && meta->strange ? USE_SYNCED : opening->use;
        opening->store->closed = opening->use == USE_CLOSED;
    }
    if (status == STATUS_OK && meta->has[META_APPLIED]) {
        status = keeper_noted(env, &opening->position, &opening->number, &opening->chain);
        if (status != STATUS_OK) {
            status = opening_fail(opening, status, "cannot read the store in", 0);
        }
    }
    return status;
}

static status_t opening_identify(opening_t *opening) {
    store_t *store = opening->store;
    meta_t meta;
    status_t status = meta_look(opening, &meta);
    if (status != STATUS_OK) {
        return status;
    }
    if (meta.empty && (store->options.memory || !journal_exists(store->directory))) {
        return new_format(opening);
    }
    status = env_write_look(store->env);
    if (status != STATUS_OK) {
        return opening_fail(opening, status, "cannot read the store in", 0);
    }
    status = read_meta(opening, &meta);
    env_write_abort(store->env);
    bool complete = meta.has[META_FORMAT] && meta.has[META_APPLIED];
    return status == STATUS_OK && !complete ? meta_replace(opening, &meta) : status;
}

/* True if the store met a damaged page, which the look before did not see: it looked only at what every start needs. */
static bool met_damage(const store_t *store) {
    uint64_t seen = 0;
    env_wrong_t wrong;
    return store->env != NULL && env_wrong(store->env, &seen, &wrong);
}

/* True if a write can wait for another start: there is no room, or a damaged page stands in its way that could not be
 * mended (mend.c has said so). What is there is served. */
static bool can_wait(const opening_t *opening, status_t status) {
    return status == STATUS_NO_SPACE || (opening->last && status == STATUS_CORRUPT && met_damage(opening->store));
}

static status_t replay_room(opening_t *opening, status_t status) {
    if (can_wait(opening, status)) {
        env_write_abort(opening->store->env);
        opening->writing = false;
        opening->no_room = true;
        return STATUS_OK;
    }
    return status;
}

/* Applies a batch of the journal. A disk that is full leaves it, and all that follow, in the ring: they belong to
 * the overlay then, as they were before the process ended, and the keeper applies them when there is room. */
static status_t replay_batch(opening_t *opening, uint32_t size) {
    store_t *store = opening->store;
    status_t status = STATUS_OK;
    if (!opening->no_room && !opening->writing) {
        status = env_write_begin(store->env);
        opening->writing = status == STATUS_OK;
    }
    if (status == STATUS_OK && !opening->no_room) {
        const uint8_t *batch = batches_at(&store->batches, opening->position);
        status = opening->rebuild != NULL ? rebuild_batch(opening->rebuild, batch, size)
                                          : apply_batch(store->env, &store->batches, batch, size, NULL);
    }
    return replay_room(opening, status);
}

/* Applies the journal's valid tail, in order, in one transaction, and what salvage.c finds behind it. */
static status_t replay_tail(opening_t *opening) {
    store_t *store = opening->store;
    status_t status = STATUS_OK;
    if (store->options.lossy) {
        opening->rebuild = rebuild_new(store);
        status = opening->rebuild != NULL ? STATUS_OK : STATUS_NO_MEMORY;
    }
    bool ended = false;
    while (status == STATUS_OK) {
        batch_header_t header;
        status = journal_read(&store->journal, &store->batches, opening->position, opening->number + 1, opening->chain,
                              &header, &ended);
        if (status != STATUS_OK || ended) {
            break;
        }
        status = replay_batch(opening, header.size);
        opening->position += batch_padded(&store->batches, header.size);
        opening->number = header.number;
        opening->chain = header.crc;
        store->replayed++;
    }
    if (ended && opening->rebuild != NULL && opening->writing) {
        status = rebuild_end(opening->rebuild);
    }
    rebuild_free(opening->rebuild);
    opening->rebuild = NULL;
    return status == STATUS_OK ? salvage_tail(opening) : status;
}

/* The disk did not give a part of the journal, and something is missing: in that part, as far as anybody can know.
 * (What it gave nothing of and is not missed lies behind the end, or before the note.) */
static bool misses_unreadable(opening_t *opening) {
    journal_t *journal = &opening->store->journal;
    uint64_t before = journal->unreadable;
    if (before == 0 || opening->accepted) {
        return false;
    }
    bool end = journal_load(journal, &opening->store->batches, opening->position, JOURNAL_ALIGNMENT) != STATUS_OK
               || journal->unreadable > before;
    return end || opening->unfinished || (opening->damage.seen && opening->damage.lost > 0);
}

/* Something of the journal is lost, and with it perhaps what this disk has promised: in the transaction that goes past
 * the damage. */
static status_t replay_stranger(opening_t *opening) {
    const damage_t *damage = &opening->damage;
    if (!damage->seen || (damage->lost == 0 && damage->what == NULL)) {
        return STATUS_OK;
    }
    status_t status = opening->writing ? STATUS_OK : env_write_begin(opening->store->env);
    opening->writing = status == STATUS_OK;
    return status == STATUS_OK ? recover_stranger(opening->store->env) : status;
}

static status_t opening_replay(opening_t *opening) {
    store_t *store = opening->store;
    opening->checkpoint =
        (keeper_mark_t){.position = opening->position, .number = opening->number + 1, .chain = opening->chain};
    opening->reason[0] = 0;
    status_t status = replay_tail(opening);
    if (status == STATUS_OK && misses_unreadable(opening)) {
        status = recover_refuse(opening, STATUS_IO, "a part of the journal cannot be read");
    }
    status = status == STATUS_OK ? replay_stranger(opening) : status;
    if (status == STATUS_OK && opening->writing) {
        status = keeper_commit(store->env, opening->position, opening->number, opening->chain);
        status = opening->damage.seen ? status : replay_room(opening, status);
    }
    if (status == STATUS_OK && opening->no_room) {
        return STATUS_OK;
    }
    if (status == STATUS_OK) {
        batches_trim(&store->batches, opening->checkpoint.position, opening->checkpoint.position + store->batches.size);
        return recover_keep(opening);
    }
    if (opening->writing) {
        env_write_abort(store->env);
    }
    const char *what = status == STATUS_NO_SPACE
                           ? "make room: the disk or the map is full, and the journal cannot be replayed into"
                           : "cannot replay the journal into the store in";
    return opening->reason[0] != 0 ? status : opening_fail(opening, status, what, 0);
}

/* Not damage: nothing of it may be set aside. */
static status_t refuse_other_words(opening_t *opening) {
    const store_t *store = opening->store;
    char path[STORE_PATH_MAX];
    uint32_t bits = store->options.memory || !store_path(store, "data.mdb", path) ? 0 : pages_of_others(path);
    if (bits == 0) return STATUS_OK;
    snprintf(opening->reason, opening->reason_size,
             "a machine of %u bits has written the store in %s, and this one cannot read it: carry its streams over "
             "with the nats command line (nats account backup there, restore here)",
             bits, store->directory);
    return STATUS_VERSION;
}

static status_t open_lmdb(opening_t *opening) {
    store_t *store = opening->store;
    status_t status = refuse_other_words(opening);
    status = status == STATUS_OK ? recover_lmdb(opening) : status;
    if (status != STATUS_OK) return status;
    /* A memory store begins empty. So does one that power failed on while it was made: the journal comes last, and
     * nothing was acknowledged without one. */
    if (store->options.memory || (!journal_exists(store->directory) && recover_unfinished(store->directory))) {
        empty_directory(store);
    }
    status = suspect_look(opening);
    if (status == STATUS_OK) { /* data.mdb may have been set aside */
        status = recover_lmdb(opening);
    }
    if (status != STATUS_OK) return status;
    suspect_watch(store);
    status = env_open(store->directory, store->sizes.map, store->options.memory, &store->env, opening->reason,
                      opening->reason_size);
    if (status == STATUS_CORRUPT) {
        suspect_mark(store);
    }
    if (status != STATUS_OK) return status;
    env_changed(store->env)->max = store->options.changed_max;
    env_pack_from(store->env, store->options.pack_from);
    return opening_identify(opening);
}

/* Mends META's record of the encryption, by the entries' own. */
static status_t mend_key(opening_t *opening) {
    env_t *env = opening->store->env;
    status_t status = env_write_begin(env);
    status = status == STATUS_OK ? sealing_mend(&opening->store->sealing, env) : status;
    status = status == STATUS_OK ? env_formats_put(env, opening->store_id, true) : status;
    status = status == STATUS_OK ? env_write_commit(env) : status;
    env_write_abort(env);
    return status;
}

static status_t change_key(opening_t *opening) {
    store_t *store = opening->store;
    status_t status = STATUS_OK;
    if (store->sealing.change) { /* the journal is made anew: it may not keep what was not encrypted */
        status = opening->no_room ? STATUS_NO_SPACE : recover_remake(opening, store->journal.size);
        if (status == STATUS_OK) {
            status = env_write_begin(store->env);
        }
        if (status == STATUS_OK) {
            status = sealing_change(&store->sealing, store->env);
            status = status == STATUS_OK ? env_formats_put(store->env, opening->store_id, true) : status;
            status = status == STATUS_OK ? env_write_commit(store->env) : status;
            env_write_abort(store->env);
        }
        store->options.sealer = store->journal.sealer = store->sealing.sealer;
        batches_reserve(&store->batches, sealer_overhead(store->options.sealer));
    }
    status = status == STATUS_OK && store->sealing.mend ? mend_key(opening) : status;
    status = status == STATUS_OK ? sealing_texts(&store->sealing, store->env) : status;
    return status == STATUS_OK ? status : opening_fail(opening, status, "cannot change the key of the store in", 0);
}

/* Without room it waits for the next start. */
static status_t level_twins(opening_t *opening) {
    store_t *store = opening->store;
    uint64_t mended = 0, made = 0, named = 0;
    status_t status = opening->no_room ? STATUS_NO_SPACE : env_write_begin(store->env);
    if (status == STATUS_OK) {
        status = env_twins_level(store->env, &mended, &made);
        status = status == STATUS_OK ? env_names_level(store->env, &named) : status;
        if (status == STATUS_OK && mended + made + named > 0) {
            status = env_write_commit(store->env);
        }
        env_write_abort(store->env);
    }
    if (status == STATUS_OK && mended > 0) {
        store_damaged(store, mended);
        store_alarm(store, ALARM_CORRUPT, 0, 0,
                    "%llu records of data.mdb were damaged: they are kept twice, and nothing of them is lost",
                    (unsigned long long)mended);
    }
    return status == STATUS_OK || can_wait(opening, status)
               ? STATUS_OK
               : opening_fail(opening, status, "cannot write to the store in", 0);
}

/* An id that is damaged on both sides is made anew: promises are then those of another disk, which is safe. */
static status_t put_disk(env_t *env, bool *anew) {
    uint64_t disk = 0;
    uint8_t made[VALUE_CRC_SIZE + sizeof disk];
    store_key_t key;
    bytes_t value = BYTES_NONE;
    key_record(&key, RECORD_DISK, BYTES_NONE);
    switch (env_write_get(env, DB_RECORDS, key_bytes(&key), &value)) {
    case READ_UNKNOWN: return env_write_why(env);
    case READ_NONE: value = BYTES_NONE; break;
    case READ_FOUND: break;
    }
    if (value_sound(key_bytes(&key), value)) {
        return STATUS_OK;
    }
    while (disk == 0) {
        if (getrandom(&disk, sizeof disk, 0) != sizeof disk) {
            return STATUS_IO;
        }
    }
    store_be64(made + VALUE_CRC_SIZE, disk);
    value_seal(key_bytes(&key), made, sizeof made);
    *anew = true;
    return env_write_put(env, DB_RECORDS, key_bytes(&key), bytes_of(made, sizeof made));
}

/* Before the journal can have an entry of a ledger, a compressed batch or a message with short numbers, META says
 * that there may be some: a leafd that does not know them refuses the store. Without room there will be none, until
 * another start. */
static status_t keep_formats(opening_t *opening) {
    store_t *store = opening->store;
    env_t *env = store->env;
    bool anew = false;
    store->brief = store->options.memory ? MESSAGE_BRIEF : 0;
    if (store->options.memory || opening->no_room) {
        return STATUS_OK;
    }
    uint32_t formats = STORE_FORMAT_BRIEF | (store->options.ledgers ? STORE_FORMAT_LEDGERS | STORE_FORMAT_SHARED : 0)
                       | (store->options.sealer == NULL ? STORE_FORMAT_SQUEEZED : 0);
    status_t status = env_write_begin(env);
    if (status == STATUS_OK && (formats & ~env_formats_said(env)) != 0) {
        env_keep_formats(env, formats);
        anew = true;
    }
    status = status == STATUS_OK && store->options.ledgers ? put_disk(env, &anew) : status;
    if (status == STATUS_OK && anew) {
        status = env_write_commit(env);
    }
    env_write_abort(env);
    store->brief = status == STATUS_OK ? MESSAGE_BRIEF : 0;
    sharing_allow(store, status == STATUS_OK && (formats & STORE_FORMAT_SHARED) != 0);
    store->journal.squeezes = status == STATUS_OK && (formats & STORE_FORMAT_SQUEEZED) != 0;
    return status == STATUS_OK || can_wait(opening, status)
               ? STATUS_OK
               : opening_fail(opening, status, "cannot write to the store in", 0);
}

static status_t open_ring(opening_t *opening, uint64_t size, uint32_t alignment) {
    store_t *store = opening->store;
    batches_close(&store->batches);
    status_t status = batches_open(&store->batches, size, alignment, opening->position, opening->number + 1);
    if (status != STATUS_OK) {
        return opening_fail(opening, status, "no memory for the batches of", 0);
    }
    if (!store->options.memory) {
        batches_reserve(&store->batches, sealer_overhead(store->options.sealer));
        batches_witness(&store->batches, opening->store_id);
    }
    return STATUS_OK;
}

static status_t open_journal(opening_t *opening) {
    store_t *store = opening->store;
    if (store->options.memory) {
        return open_ring(opening, store->sizes.ring, MEMORY_ALIGNMENT);
    }
    recover_promised(opening);
    status_t status = recover_journal(opening);
    status = status == STATUS_OK ? open_ring(opening, store->journal.size, JOURNAL_ALIGNMENT) : status;
    status = status == STATUS_OK ? opening_replay(opening) : status;
    status = status == STATUS_OK && !opening->no_room ? recover_enlarge(opening) : status;
    if (status == STATUS_OK && store->batches.size != store->journal.size) {
        status = open_ring(opening, store->journal.size, JOURNAL_ALIGNMENT);
    }
    status = status == STATUS_OK ? change_key(opening) : status;
    status = status == STATUS_OK && !store->options.memory ? level_twins(opening) : status;
    status = status == STATUS_OK ? keep_formats(opening) : status;
    if (status == STATUS_OK && opening->unclean && store->journal.squeezes) {
        store->journal.squeezes = journal_blank(&store->journal, opening->position) == STATUS_OK;
    }
    if (status == STATUS_OK && !opening->no_room) {
        recover_promise(opening);
    }
    return status;
}

/* From here on LMDB says that there is a journal, which may hold what LMDB does not. */
static status_t note_use(opening_t *opening) {
    store_t *store = opening->store;
    journal_use_t use = store->options.sync_interval_ns == 0 ? USE_SYNCED : USE_AT_INTERVALS;
    if (store->options.memory) {
        return STATUS_OK;
    }
    if (opening->made) {
        directory_sync(store->directory); /* the journal's name first */
    }
    if (opening->use == use) {
        return STATUS_OK;
    }
    status_t status = recover_use_note(store->env, use, opening->position);
    /* Without room the old word stands; that the store was closed holds only until the highwater mark or the next
     * checkpoint is past that position. */
    return status == STATUS_OK || can_wait(opening, status)
               ? STATUS_OK
               : opening_fail(opening, status, "cannot write to the store in", 0);
}

static status_t opening_start(opening_t *opening) {
    store_t *store = opening->store;
    keeper_mark_t end = {.position = opening->position, .number = opening->number + 1, .chain = opening->chain};
    keeper_mark_t checkpoint = opening->no_room ? opening->checkpoint : end;
    status_t status = store_load(store, checkpoint, end, opening->last && met_damage(store));
    if (status != STATUS_OK) {
        return opening_fail(opening, status, "cannot read the store in", 0);
    }
    env_set_whole(store->env, !opening->no_room);
    status = store_run(store, checkpoint, end);
    return status == STATUS_OK ? status : opening_fail(opening, status, "cannot start the threads of", 0);
}

static void opening_end(store_t *store) {
    env_close(store->env);
    store->env = NULL;
    suspect_unwatch(store);
    store_free(store);
}

/* A process that was killed right after a change of key has told nobody that it is whole: the next start tells it.
 * Asked before the keeper runs. */
static bool has_spare_key(const sealing_t *sealing) {
    return sealing->keys != NULL && sealing->keys->previous_size > 0 && sealing->state == SEALING_DONE;
}

/* *again: the next try mends what this one met; it was set: this is that try. */
static status_t open_once(const store_options_t *options, store_t **out, char *reason, size_t reason_size,
                          bool *again) {
    bool last = *again;
    *out = NULL;
    *again = false;
    snprintf(reason, reason_size, "no memory for the store in %s", options->directory);
    store_t *store = store_new(options);
    if (store == NULL) {
        return STATUS_NO_MEMORY;
    }
    opening_t opening = {.store = store, .reason = reason, .reason_size = reason_size, .last = last};
    status_t status = make_directory(&opening);
    if (status == STATUS_OK) {
        status = lock_directory(&opening);
    }
    if (status == STATUS_OK) {
        status = open_lmdb(&opening);
    }
    if (status == STATUS_OK) {
        status = open_journal(&opening);
    }
    if (status == STATUS_OK) {
        status = note_use(&opening);
    }
    bool spare = has_spare_key(&store->sealing);
    if (status == STATUS_OK) {
        status = opening_start(&opening);
    }
    *again = status != STATUS_OK && met_damage(store);
    if (*again || (status == STATUS_CORRUPT && store->env != NULL)) {
        suspect_mark(store);
    }
    if (status != STATUS_OK) {
        opening_end(store);
        return status;
    }
    if (spare) {
        atomic_store(&store->keeper.sealed_anew, true);
    }
    store->options.keys = store->sealing.keys = NULL;
    recover_done(&opening);
    reason[0] = 0;
    *out = store;
    return STATUS_OK;
}

status_t store_open(const store_options_t *options, store_t **out, char *reason, size_t reason_size) {
    bool again = false;
    status_t status = open_once(options, out, reason, reason_size, &again);
    return again && !options->memory ? open_once(options, out, reason, reason_size, &again) : status;
}

void store_close(store_t *store) {
    if (store == NULL) {
        return;
    }
    if (store_end(store) && !store->options.memory) {
        /* Without this word the store counts as killed, which only makes the next start more careful. */
        (void)!recover_use_note(store->env, USE_CLOSED, store->keeper.committed);
    }
    opening_end(store);
}
