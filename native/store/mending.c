/* mending.c: a damaged page of data.mdb was met, by a read or by what is to be written.
 *
 *     a leaf of a stream's own messages     made anew in its place, in moments, by steps of a turn (disk/env_patch.c):
 *                                           what is still there stays
 *       .. that has each of its sequences   each other one is a damaged message from then on
 *       .. with messages removed            the others are lost, or had been removed: nobody knows which
 *     a branch, and a leaf of records       made anew of other pages, and nothing is lost (disk/env_regrow.c)
 *     a leaf of heads, of message ids, or   made anew of the entries that they follow from (derive.h), likewise
 *     of names
 *     the first page of a large value       made anew of its entry; where the value does not prove itself any more its
 *                                           message is damaged from then on
 *     lists of pages and of databases       put right by the keeper, which has them in memory (disk/env_judge.c)
 *     any other page                        what is on it is not known until a start mends the store (recovery/mend.c);
 *                                           the start is asked for when writes or consumers stand before it
 *     .. of a stream that others have       likewise; then it is copied from them (alarms.h). With messages removed a
 *                                           start makes this disk another one, and all of these are copied
 *
 * Whether each sequence had a message is what the stream's numbers say: as many messages as there are sequences from
 * the first to the last. Where some were removed from the middle, which ones is not known without their page, and what
 * would be told as damaged may have been removed. The stream's numbers and heads are counted again then (reckon.h).
 *
 * A stream that has an origin fetches from there what was on the page: the hole is noted as a start would (fill.h).
 */
#include "store/mending.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"
#include "disk/waiting.h"
#include "store/core.h"
#include "store/fill.h"
#include "store/ledger.h"
#include "store/reckon.h"
#include "store/record.h"

#define MEND_AGAIN_NS (120 * NS_PER_SECOND)
#define WAITS_NS (10 * NS_PER_SECOND)    /* so long consumers wait for a damaged page before a start is asked for .. */
#define WAITS_GAP_NS (2 * NS_PER_SECOND) /* .. and tell it as often at least .. */
#define WAITS_AGAIN_NS (3600 * NS_PER_SECOND) /* .. and it is not asked for again before */
#define LEDGERS_OWN 1                         /* the log of the group of all servers; others are of streams */
#define PATCH_STEP_NS (2 * NS_PER_MS)

void store_note_waiting(store_t *store) {
    trouble_t *trouble = &store->trouble;
    bool begins = store->turn.now_mono - trouble->waits_at > WAITS_GAP_NS;
    trouble->waits_at = store->turn.now_mono;
    trouble->waits_since = begins ? trouble->waits_at : trouble->waits_since;
}

/* ---- a start that mends ------------------------------------------------------------------------------------------ */

/* word: STORE_SUSPECT_AGAIN, or nothing. Where it is not written the start is as any other. */
static void mark_suspect(const store_t *store, const char *word) {
    char path[4096];
    int size = snprintf(path, sizeof path, "%s/" STORE_SUSPECT, store->directory);
    int fd = size > 0 && (size_t)size < sizeof path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd >= 0) {
        (void)!write(fd, word, strlen(word));
        close(fd);
    }
}

/* Not a second time at once: where a start does not help, what can be read is served. */
static bool may_begin_again(store_t *store) {
    bool may = store->turn.now_mono >= store->trouble.mend_at && !store->options.memory;
    store->trouble.mend_at = may ? store->turn.now_mono + MEND_AGAIN_NS : store->trouble.mend_at;
    return may;
}

/* A page that is damaged hides what is on it until a start mends the store. Nobody may be there to start it. Consumers
 * have waited from waits_since to waits_at; before waits_told none is asked for again for them. */
static void ask_for_start(store_t *store) {
    const trouble_t *trouble = &store->trouble;
    int64_t now = store->turn.now_mono;
    bool blocked = env_blocked(store->env);
    bool waits = now - trouble->waits_at <= WAITS_GAP_NS && trouble->waits_at - trouble->waits_since >= WAITS_NS
                 && now >= trouble->waits_told;
    if ((!blocked && !waits) || !may_begin_again(store)) {
        return;
    }
    store->trouble.waits_told = now + WAITS_AGAIN_NS;
    mark_suspect(store, STORE_SUSPECT_AGAIN);
    store_alarm(store, blocked ? ALARM_MEND : ALARM_WAITS, 0, 0,
                blocked ? "a damaged page is in the way of what is to be written to %s: the store is opened anew and "
                          "mended"
                        : "consumers wait for messages on a damaged page of %s: the store is opened anew and mended, "
                          "once a day at most",
                store->directory);
}

/* What is on the page cannot be read. It is told once, and the next start reads all of the file first. */
static void tell_wrong(store_t *store, uint64_t page, const char *what) {
    if (page + 1 != store->trouble.wrong_page) {
        store->trouble.wrong_page = page + 1;
        store_damaged(store, 1);
        store_alarm(store, ALARM_CORRUPT, 0, 0,
                    "data.mdb, page %llu: %s: it is damaged, and what it holds cannot be read until a start mends it",
                    (unsigned long long)page, what);
        if (!store->options.memory) {
            mark_suspect(store, "");
        }
    }
    ask_for_start(store);
}

/* ---- a leaf that is made anew ------------------------------------------------------------------------------------ */

/* Has each sequence from the first to the last a message? */
static bool is_dense(const store_stream_t *stream) {
    const log_t *log = &stream->log;
    return log->messages > 0 && !log->stopped && log->messages == log->last_seq - log->first_seq + 1
           && stream->notes.fills.count == 0;
}

/* true: it is under way, or that page was made anew already. */
static bool begin_patch(store_t *store, const env_wrong_t *wrong) {
    patching_t *patching = &store->patching;
    const store_stream_t *stream = stream_with(store, wrong->stream);
    bool fit = stream != NULL && !store->options.memory && !stream->log.stopped
               && (!stream_is_shared(stream) || is_dense(stream)) && wrong->page + 1 != store->trouble.wrong_page;
    if (!fit) {
        return false;
    }
    status_t status = env_patch_begin(store->env, wrong, &patching->patch);
    patching->page = wrong->page;
    patching->what = wrong->what;
    patching->stream = wrong->stream;
    return status == STATUS_OK || status == STATUS_EXISTS;
}

/* A leaf that was made anew, and what it was of. */
typedef struct patched {
    uint64_t from;
    uint64_t below;
    bool each; /* all of these had a message */
    uint32_t kept;
} patched_t;

/* Of the last leaf: behind the stream's last sequence, in the commit in which it was met. 0: that is not known. */
static uint64_t end_in_commit(env_patch_t *patch, const store_stream_t *stream) {
    store_key_t key;
    bytes_t value = BYTES_NONE;
    log_t said;
    log_key(&key, stream->id);
    switch (env_patch_get(patch, DB_RECORDS, key_bytes(&key), &value)) {
    case READ_UNKNOWN:
    case READ_NONE: return 0;
    case READ_FOUND: break;
    }
    return log_read_entry(&said, key_bytes(&key), value) == STATUS_OK ? said.last_seq + 1 : 0;
}

/* Only sequences that are the stream's are damaged from then on; of what lies below its first one an entry is left. */
static status_t write_patch(store_t *store, const store_stream_t *stream, patched_t *patched) {
    env_patch_t *patch = store->patching.patch;
    uint64_t low, high;
    env_patch_range(patch, &low, &high);
    high = high != 0 ? high : end_in_commit(patch, stream);
    if (high == 0) {
        return STATUS_CORRUPT;
    }
    patched->from = number_most(low, stream->log.first_seq);
    patched->from = number_least(patched->from, high - 1);
    patched->below = high;
    patched->each = is_dense(stream) && high <= stream->log.last_seq + 1;
    if (stream_is_shared(stream) && !patched->each) {
        return STATUS_CORRUPT; /* its leader would leave out what is lost */
    }
    return env_patch_write(patch, patched->from, high, patched->each, &patched->kept);
}

/* Its origin is asked for what the hole had; nobody is, where there is none. Without room it stays damaged. */
static void note_hole(store_stream_t *stream, const patched_t *patched) {
    uint8_t key[HOLE_KEY_SIZE];
    uint8_t value[HOLE_SIZE];
    const hole_t hole = {.from = patched->from, .upto = patched->below - 1, .certain = patched->each};
    hole_key(key, stream->id, hole.upto);
    hole_write(value, &hole);
    status_t status =
        store_record_put(stream->store, RECORD_HOLE, bytes_of(key, sizeof key), bytes_of(value, HOLE_SIZE));
    if (status == STATUS_OK) {
        store_tell_hole(stream->store, stream->id, &hole);
        reckon_hole(stream, true);
    }
}

static void tell_patched(store_t *store, uint32_t stream, const patched_t *patched) {
    const patching_t *patching = &store->patching;
    unsigned long long page = patching->page, first = patched->from, last = patched->below - 1;
    if (patched->each) {
        store_alarm(store, ALARM_CORRUPT, stream, patched->from,
                    "data.mdb, page %llu: %s: it was made anew; of messages %llu to %llu of stream %u, which were on "
                    "it, %llu are damaged from now on",
                    page, patching->what, first, last, stream,
                    (unsigned long long)(patched->below - patched->from - patched->kept));
    } else {
        store_alarm(store, ALARM_CORRUPT, stream, patched->from,
                    "data.mdb, page %llu: %s: it was made anew; of messages %llu to %llu of stream %u, %u that were "
                    "on it are still there, and the others are lost, or had been removed",
                    page, patching->what, first, last, stream, patched->kept);
    }
}

/* What is lost comes from an origin, or from the other servers that have the stream; else it is counted. */
static void make_up(store_stream_t *stream, const patched_t *patched) {
    if (stream_is_shared(stream)) {
        store_ask_for_copy(stream);
    } else {
        note_hole(stream, patched);
        reckon_want(stream);
    }
}

static void end_patch(store_t *store, status_t status) {
    patching_t *patching = &store->patching;
    store_stream_t *stream = stream_with(store, patching->stream);
    patched_t patched = {0};
    status = status == STATUS_OK && stream == NULL ? STATUS_CLOSED : status;
    status = status == STATUS_OK ? write_patch(store, stream, &patched) : status;
    mending_end(store);
    if (status != STATUS_OK) {
        tell_wrong(store, patching->page, patching->what);
        return;
    }
    store_damage_mended(store);
    tell_patched(store, stream->id, &patched);
    if (!patched.each || patched.kept < patched.below - patched.from) {
        make_up(stream, &patched);
    }
}

void mending_end(store_t *store) {
    env_patch_end(store->patching.patch);
    env_regrow_end(store->patching.regrow);
    derive_free(store->patching.derive);
    store->patching.patch = NULL;
    store->patching.regrow = NULL;
    store->patching.derive = NULL;
}

/* ---- another page ------------------------------------------------------------------------------------------------ */

/* true: it is under way. What a leaf of messages had is nowhere else. */
static bool begin_regrow(store_t *store, const env_wrong_t *wrong) {
    patching_t *patching = &store->patching;
    if (store->options.memory || wrong->stream != 0 || wrong->page + 1 == store->trouble.wrong_page) {
        return false;
    }
    patching->page = wrong->page;
    patching->what = wrong->what;
    patching->derive = derive_new(store);
    if (patching->derive == NULL) {
        return false;
    }
    status_t status = env_regrow_begin(store->env, wrong->page, derive_supply(patching->derive), &patching->regrow);
    if (status != STATUS_OK) {
        mending_end(store);
    }
    return status == STATUS_OK;
}

/* The page was of a message's payload, which is lost. */
static void lose_message(store_t *store, const env_regrown_t *regrown) {
    store_stream_t *stream = stream_with(store, regrown->stream);
    const patched_t patched = {.from = regrown->seq, .below = regrown->seq + 1, .each = true};
    store_damage_mended(store);
    tell_patched(store, regrown->stream, &patched);
    if (stream != NULL && regrown->seq >= stream->log.first_seq) {
        make_up(stream, &patched);
    }
}

static void end_regrow(store_t *store, status_t status, const env_regrown_t *regrown) {
    const patching_t *patching = &store->patching;
    mending_end(store);
    if (status == STATUS_EXISTS && !env_blocked(store->env)) {
        store_checkpoint_want(store); /* the page is met again behind that */
    } else if (status != STATUS_OK) {
        tell_wrong(store, patching->page, patching->what);
    } else if (regrown->lost) {
        lose_message(store, regrown);
    } else {
        store_damage_mended(store);
        store_alarm(store, ALARM_CORRUPT, 0, 0, "data.mdb, page %llu: %s: it was made anew %s, and nothing is lost",
                    (unsigned long long)patching->page, patching->what, regrown->how);
    }
}

/* ---- each tick --------------------------------------------------------------------------------------------------- */

/* LMDB's file has a page that is not sound. Returns whether one was met since that a start is to mend. */
static bool take_wrong(store_t *store) {
    env_wrong_t wrong;
    bool news = env_wrong(store->env, &store->trouble.wrongs, &wrong);
    if (LEAF_LIKELY(!news) || mending_runs(&store->patching)) {
        return false; /* another one is met again by what needs it */
    }
    if (wrong.right) {
        store_damage_mended(store);
        store_alarm(store, ALARM_CORRUPT, 0, 0, "data.mdb, page %llu: %s, and was put right: nothing is lost",
                    (unsigned long long)wrong.page, wrong.what);
        return false;
    }
    if (begin_patch(store, &wrong) || begin_regrow(store, &wrong)) {
        return false;
    }
    tell_wrong(store, wrong.page, wrong.what);
    return true;
}

/* Streams of groups are whole at other servers. The leader of one of them must not stand still before what it cannot
 * read, nor leave it out. What is damaged in a stream alone is copied from there without a start (ALARM_SHARED). */
static void take_shared(store_t *store, bool wrong) {
    uint64_t damage = store->alarms.damage - store->alarms.owned;
    bool met = wrong || damage != store->trouble.damage;
    store->trouble.damage = damage;
    if (met && store->ledgers.count > LEDGERS_OWN && may_begin_again(store)) {
        mark_suspect(store, STORE_SUSPECT_AGAIN);
        store_alarm(store, ALARM_MEND, 0, 0,
                    "damage was met in %s, where streams are that other servers have, too: the store is opened anew "
                    "and mended, and they are copied from there",
                    store->directory);
    }
}

void mending_tick(store_t *store) {
    bool wrong = take_wrong(store);
    if (LEAF_UNLIKELY(store->patching.patch != NULL)) {
        status_t status = env_patch_step(store->patching.patch, thread_elapsed_ns() + PATCH_STEP_NS);
        if (status != STATUS_AGAIN) {
            end_patch(store, status);
        }
    }
    if (LEAF_UNLIKELY(store->patching.regrow != NULL)) {
        env_regrown_t regrown = {0};
        status_t status = env_regrow_step(store->patching.regrow, thread_elapsed_ns() + PATCH_STEP_NS, &regrown);
        if (status != STATUS_AGAIN) {
            end_regrow(store, status, &regrown);
        }
    }
    take_shared(store, wrong);
}
