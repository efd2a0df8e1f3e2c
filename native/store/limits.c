/* limits.c: messages out. One message's removal with all that hangs on it; the limits of a stream (per subject,
 * messages, bytes) after an append or an edit; max_age and per-message expiry on the age clock. Work that could be long
 * goes in steps of a tick.
 */
#include "base/check.h"
#include "base/number.h"
#include "text/subject.h"
#include "store/sums.h"
#include "store/follow.h"
#include "store/message.h"
#include "store/overlay.h"

#define LINK_HOPS 8
#define FIRST_STEPS 64    /* over deleted messages, when the first one goes: the rest in later turns */
#define NEWEST_STEPS 4096 /* over deleted ones of a subject, when its newest goes: likewise */
#define SEEK_STEPS 2048   /* back over the stream, where damage broke a subject's chain: likewise */
#define SEEK_PATIENCE 10000
#define LOAD_STEPS 3     /* a subject's head that is read from LMDB takes as long as so many messages */
#define OLDEST_NEAR 64   /* a full subject's oldest message is not farther than that: no need to look for it twice */
#define THIN_NEED 64     /* of a record */
#define SPARE_STEPS 4096 /* in one tick, beyond what each message has of its own */

status_t first_seek(store_stream_t *stream, uint32_t *steps) {
    found_t found;
    uint64_t from = stream->first_seq;
    status_t status = message_next_some(stream, &from, stream->last_seq, false, steps, &found);
    if (stream->first_open && (status == STATUS_OK || status == STATUS_AGAIN)) {
        stream->first_seq = status == STATUS_OK ? found.seq : from;
    }
    stream->first_open = stream->first_open && status == STATUS_AGAIN;
    stream->first_known = status == STATUS_OK && found.sound;
    if (stream->first_known) {
        stream->first_ts = found.message.ts;
        stream->first_born = found.message.born;
    }
    return status;
}

bool first_load(store_stream_t *stream) {
    uint32_t steps = FIRST_STEPS;
    if (stream->messages == 0) {
        return false;
    }
    if (!stream->first_known) {
        (void)!first_seek(stream, &steps);
    }
    return stream->first_known;
}

bool store_first_settled(const store_stream_t *stream) {
    return !stream->first_open;
}

/* The first message is gone: the next one that lives is first now. Returns the steps over deleted ones. */
static uint32_t advance_first(store_stream_t *stream, uint64_t gone) {
    uint32_t steps = FIRST_STEPS;
    stream->first_known = false;
    stream->first_open = stream->messages > 0;
    stream->first_seq = gone + 1;
    status_t status = stream->first_open ? first_seek(stream, &steps) : STATUS_NOT_FOUND;
    if (status != STATUS_OK && status != STATUS_AGAIN) {
        stream->first_seq = stream->last_seq + 1;
    }
    if (stream->first_open) {
        stream->store->background_at = stream->store->now_mono;
    }
    return (uint32_t)number_less(FIRST_STEPS - steps, 1);
}

/* Where a link is to lead: over those that lie behind it, or a row of deletions would be gone over one by one. */
static uint64_t link_end(store_stream_t *stream, uint64_t seq) {
    found_t found;
    for (uint32_t hop = 0; hop < LINK_HOPS; hop++) {
        if (message_find(stream, seq, true, &found) != STATUS_OK || (found.message.flags & MESSAGE_GONE) == 0
            || found.message.previous >= seq) {
            break;
        }
        seq = found.message.previous;
    }
    return seq;
}

/* What is left of the deleted message: where the one before it on its subject is. */
static void write_link(store_stream_t *stream, const found_t *found, uint64_t previous) {
    store_key_t key;
    key_message(&key, stream->id, found->seq);
    message_record_t gone = {
        .flags = MESSAGE_GONE, .ts = found->message.ts, .born = found->message.born, .previous = previous};
    uint8_t *value = overlay_put(stream->store, DB_MESSAGES, key_bytes(&key), message_size(&gone), true, NULL);
    message_write(value, key_bytes(&key), &gone);
    stream->deletes[0]++;
}

static void write_deletion(store_stream_t *stream, const found_t *found, bool link) {
    if (link) {
        write_link(stream, found, link_end(stream, found->message.previous));
        return;
    }
    store_key_t key;
    key_message(&key, stream->id, found->seq);
    overlay_delete(stream->store, DB_MESSAGES, key_bytes(&key), true);
    stream->deletes[0]++;
}

/* Through the stream, since damage broke the chain. How far that is is kept for one message at a time; who wants to
 * remove another such message meanwhile waits, unless nobody goes on with the first one. */
static status_t newest_by_search(store_stream_t *stream, const found_t *found, uint64_t floor, uint64_t *seq) {
    if (stream->seek_of != found->seq) {
        if (stream->seek_of != 0 && stream->seek_patience-- > 0) {
            return STATUS_AGAIN;
        }
        stream->seek_of = found->seq;
        stream->seek_at = found->seq - 1;
    }
    stream->seek_patience = SEEK_PATIENCE;
    uint32_t steps = SEEK_STEPS;
    status_t status = STATUS_NOT_FOUND;
    *seq = floor;
    while (stream->seek_at >= floor && stream->seek_at > 0) {
        found_t before;
        status = message_back_some(stream, &stream->seek_at, &steps, &before);
        if (status != STATUS_OK) {
            break;
        }
        if (before.sound && bytes_equal(before.message.subject, found->message.subject)) {
            *seq = before.seq;
            break;
        }
        stream->seek_at = before.seq - 1;
    }
    stream->removal_steps += SEEK_STEPS - steps;
    if (status == STATUS_AGAIN) {
        return STATUS_AGAIN;
    }
    stream->seek_of = 0;
    return STATUS_OK;
}

/* The newest message of the subject below the one that goes. The chain knows; where damage broke it, the stream is
 * searched. Who deletes from the newest down leaves a link for each: when there are very many, the nearest one is made
 * to lead over those that were gone over, and STATUS_AGAIN says so. */
static status_t newest_below(store_stream_t *stream, const found_t *found, head_t head, uint64_t *seq) {
    found_t before, nearest;
    uint32_t steps = NEWEST_STEPS;
    status_t status = message_chain(stream, &found->message, head.first, &steps, &before);
    stream->removal_steps += (uint32_t)number_less(NEWEST_STEPS - steps, 1);
    if (status == STATUS_AGAIN && message_find(stream, found->message.previous, true, &nearest) == STATUS_OK) {
        write_link(stream, &nearest, before.message.previous);
        return STATUS_AGAIN;
    }
    if (status != STATUS_OK) {
        return newest_by_search(stream, found, head.first, seq);
    }
    *seq = before.seq;
    return STATUS_OK;
}

/* Takes the message off its subject's head. *link: one must stay in its place. STATUS_AGAIN: nothing was done. */
static status_t leave_head(store_stream_t *stream, const found_t *found, bool oldest, bool *link) {
    *link = false;
    if (!found->sound) {
        return STATUS_OK; /* whose it was cannot be known; its head keeps a count too many */
    }
    head_entry_t *entry = head_fetch(stream, found->message.subject);
    if (entry == NULL || entry->head.count == 0) {
        return STATUS_OK;
    }
    head_t head = entry->head;
    head.count--;
    if (head.count == 0) {
        stream->subjects -= stream->subjects > 0;
    } else if (found->seq == head.last) {
        if (newest_below(stream, found, head, &head.last) == STATUS_AGAIN) {
            return STATUS_AGAIN;
        }
    } else if (oldest || found->seq <= head.first || found->seq == stream->first_seq) {
        head.first = found->seq + 1;
    } else {
        *link = true;
    }
    entry = head_fetch(stream, found->message.subject);
    if (entry != NULL) {
        entry->head = head;
        head_change(stream, entry);
    }
    return STATUS_OK;
}

bool message_remove(store_stream_t *stream, const found_t *found, bool oldest) {
    store_t *store = stream->store;
    uint64_t bytes = found->sound ? stream_message_bytes(stream, &found->message) : 0;
    bool link;
    uint64_t loads = store->heads.added;
    stream->removal_steps = 0;
    status_t left = leave_head(stream, found, oldest, &link);
    stream->removal_steps += LOAD_STEPS * (uint32_t)(store->heads.added - loads);
    if (left == STATUS_AGAIN) {
        return false;
    }
    stream_touch(stream);
    if (found->sound && (found->message.flags & MESSAGE_SCHEDULE) != 0) {
        schedule_forget(stream, found->seq);
    }
    stream_lose(stream, 1, bytes > stream->bytes || stream->messages == 1 ? stream->bytes : bytes);
    if (found->seq == stream->first_seq || stream->messages == 0) {
        stream->removal_steps += advance_first(stream, found->seq);
    } else {
        write_deletion(stream, found, link);
    }
    if (LEAF_UNLIKELY(stream->tallies != NULL)) {
        tallies_removed(stream, found);
    }
    if (LEAF_UNLIKELY(stream->follows != NULL)) {
        follows_removed(stream, found->seq);
    }
    if (store->hooks.removed != NULL) {
        bytes_t subject = found->sound ? found->message.subject : BYTES_NONE;
        store->hooks.removed(store->hooks.context, stream, found->seq, subject);
    }
    return true;
}

/* Of the steps that a look at what is due may make; those over deleted messages count, too. false: as above */
static bool remove_counted(store_stream_t *stream, const found_t *found, uint32_t *steps) {
    bool gone = message_remove(stream, found, true);
    *steps = (uint32_t)number_less(*steps, stream->removal_steps);
    return gone;
}

/* ---- what a new message may take out ----------------------------------------------------------------------------- */

/* However many messages come in a tick: each has a few steps of its own, and they share the others. */
static uint32_t steps_begin(const store_t *store, uint32_t own) {
    return own + (uint32_t)number_less(SPARE_STEPS, store->spare_spent);
}

static void steps_end(store_t *store, uint32_t own, uint32_t left) {
    store->spare_spent += (uint32_t)number_less(steps_begin(store, own) - left, own);
}

/* Looks from both ends at once, so the cost is twice the shorter way: forward over the stream from the head's lower
 * bound, and back along the subject's chain, whose end is known by the count. */
status_t subject_oldest(store_stream_t *stream, head_t *head, bytes_t subject, uint32_t *steps, found_t *found) {
    found_t back;
    uint64_t left = head->count;
    uint64_t floor = head->first;
    uint32_t back_steps = *steps;
    bool back_alive = message_find(stream, head->last, false, &back) == STATUS_OK;
    while (*steps > 0) {
        left -= left > 0;
        if (back_alive && left == 0) {
            *found = back;
            head->first = back.seq;
            return STATUS_OK;
        }
        status_t status = message_next_some(stream, &head->first, head->last, false, steps, found);
        if (status != STATUS_OK) {
            return status;
        }
        if (found->sound && bytes_equal(found->message.subject, subject)) {
            head->first = found->seq;
            return STATUS_OK;
        }
        head->first = found->seq + 1;
        back_alive = back_alive && message_chain(stream, &back.message, floor, &back_steps, &back) == STATUS_OK;
    }
    return STATUS_AGAIN;
}

bool oldest_in_reach(store_stream_t *stream, head_entry_t *entry) {
    store_t *store = stream->store;
    head_t head = entry->head;
    found_t found;
    if (head.count == 1 || head.last - head.first <= OLDEST_NEAR) {
        return true;
    }
    uint32_t steps = steps_begin(store, LIMIT_OWN);
    status_t status = subject_oldest(stream, &head, head_subject(entry), &steps, &found);
    steps_end(store, LIMIT_OWN, steps);
    /* damage: what enforces the limit deals with it */
    if ((status == STATUS_OK || status == STATUS_AGAIN) && head.first > entry->head.first) {
        entry->head.first = head.first;
        head_change(stream, entry);
    }
    return status != STATUS_AGAIN;
}

void limits_subject(store_stream_t *stream, bytes_t subject, uint32_t own) {
    head_t head;
    uint32_t steps = steps_begin(stream->store, own);
    status_t status = STATUS_OK;
    while (status == STATUS_OK && head_look(stream, subject, &head)
           && head.count > (uint64_t)stream->config.max_msgs_per_subject) {
        found_t found;
        status = overlay_fits(stream->store, REMOVAL_NEED) ? subject_oldest(stream, &head, subject, &steps, &found)
                                                           : STATUS_AGAIN;
        if (status == STATUS_OK && !remove_counted(stream, &found, &steps)) {
            status = STATUS_AGAIN;
        }
    }
    steps_end(stream->store, own, steps);
    if (status == STATUS_AGAIN) {
        limits_thin(stream, head.first);
    }
}

void limits_appended(store_stream_t *stream, uint32_t own) {
    uint32_t steps = steps_begin(stream->store, own);
    limits_enforce(stream, &steps);
    steps_end(stream->store, own, steps);
}

/* ---- what is over ------------------------------------------------------------------------------------------------ */

/* A limit that is lowered takes nothing from a stream that refuses what is new instead of discarding what is old. */
static bool stream_is_over(const store_stream_t *stream) {
    const stream_config_t *config = &stream->config;
    if (stream->messages == 0 || config->discard != 0) {
        return false;
    }
    if (config->max_msgs > 0 && stream->messages > (uint64_t)config->max_msgs) {
        return true;
    }
    return config->max_bytes > 0 && stream->bytes > (uint64_t)config->max_bytes;
}

/* false: not in this turn. */
static bool remove_first(store_stream_t *stream, uint32_t *steps) {
    found_t found;
    uint64_t from = stream->first_seq;
    if (!overlay_fits(stream->store, REMOVAL_NEED)) {
        return false;
    }
    status_t status = message_next_some(stream, &from, stream->last_seq, false, steps, &found);
    if (status == STATUS_OK) {
        return remove_counted(stream, &found, steps);
    }
    if (status == STATUS_NOT_FOUND) {
        /* The counters promise a message that is not there (a record lost to damage): believe the messages. */
        stream_touch(stream);
        stream_lose(stream, stream->messages, stream->bytes);
        (void)advance_first(stream, stream->last_seq);
        return true;
    }
    return false;
}

static void thin_key(const store_stream_t *stream, store_key_t *key) {
    uint8_t id[4];
    store_be32(id, stream->id);
    key_record(key, RECORD_THIN, bytes_of(id, sizeof id));
}

/* Written down or deleted, when there is room for that. */
static bool thin_note(store_stream_t *stream, bool goes_on) {
    store_key_t key;
    if (stream->thin_noted == goes_on || stream->store->options.memory) {
        return true;
    }
    if (!overlay_fits(stream->store, THIN_NEED)) {
        return false;
    }
    thin_key(stream, &key);
    if (goes_on) {
        uint8_t *value = overlay_put(stream->store, DB_RECORDS, key_bytes(&key), VALUE_CRC_SIZE, true, NULL);
        value_seal(key_bytes(&key), value, VALUE_CRC_SIZE);
    } else {
        overlay_delete(stream->store, DB_RECORDS, key_bytes(&key), true);
    }
    stream->thin_noted = goes_on;
    return true;
}

void limits_thin(store_stream_t *stream, uint64_t from) {
    if (stream->messages == 0) {
        return;
    }
    from = number_most(number_most(from, stream->first_seq), 1);
    stream->thin_at = stream->thin_at == 0 ? from : number_least(stream->thin_at, from);
    stream->over_limit = true;
    stream->store->background_at = stream->store->now_mono;
    (void)thin_note(stream, true); /* or with the next step */
}

void limits_thin_load(store_stream_t *stream) {
    store_key_t key;
    bytes_t value = BYTES_NONE;
    thin_key(stream, &key);
    stream->thin_noted = overlay_get(stream->store, DB_RECORDS, key_bytes(&key), &value) == STATUS_OK;
    if (stream->thin_noted) {
        limits_thin(stream, stream->first_seq);
    }
}

/* Every message is looked at once, from the first on that may be one too many: so of a subject that has too many the
 * one at hand is the oldest. false: there was no room or no step for all of it. */
static bool thin(store_stream_t *stream, uint32_t *steps) {
    uint64_t most = (uint64_t)stream->config.max_msgs_per_subject;
    while (stream->thin_at != 0 && stream->config.max_msgs_per_subject > 0) {
        found_t found;
        head_t head;
        if (*steps == 0 || !overlay_fits(stream->store, REMOVAL_NEED) || !thin_note(stream, true)) {
            return false;
        }
        uint64_t from = number_most(stream->thin_at, stream->first_seq);
        status_t status = message_next_some(stream, &from, stream->last_seq, false, steps, &found);
        if (status == STATUS_AGAIN) {
            stream->thin_at = from;
            return false;
        }
        if (status != STATUS_OK) {
            break;
        }
        uint64_t loads = stream->store->heads.added;
        bool over = found.sound && head_look(stream, found.message.subject, &head) && head.count > most;
        *steps = (uint32_t)number_less(*steps, LOAD_STEPS * (stream->store->heads.added - loads));
        if (over && !remove_counted(stream, &found, steps)) {
            return false;
        }
        stream->thin_at = found.seq + 1;
    }
    if (!thin_note(stream, false)) {
        return false;
    }
    stream->thin_at = 0;
    return true;
}

void limits_enforce(store_stream_t *stream, uint32_t *steps) {
    stream->over_limit = false;
    while (!stream->over_limit && stream_is_over(stream)) {
        stream->over_limit = *steps == 0 || !remove_first(stream, steps);
    }
    if (LEAF_UNLIKELY(stream->thin_at != 0 || stream->thin_noted) && !thin(stream, steps)) {
        stream->over_limit = true;
    }
}

/* ---- age and expiry ---------------------------------------------------------------------------------------------- */

/* Walks from the oldest message on. Stamps ascend, so the first one that is young enough ends it; exempt ones are
 * stepped over once. */
static bool expire_aged(store_stream_t *stream, int64_t age_now, uint32_t *steps) {
    int64_t limit = age_now - stream->config.max_age_ns;
    if (first_load(stream) && stream->aged <= stream->first_seq && stream->first_born > limit) {
        return true;
    }
    while (*steps > 0) {
        found_t found;
        uint64_t from = stream->aged > stream->first_seq ? stream->aged : stream->first_seq;
        status_t status = message_next_some(stream, &from, stream->last_seq, false, steps, &found);
        if (status == STATUS_AGAIN) {
            stream->aged = from; /* all of these are gone */
        }
        if (status != STATUS_OK) {
            return true;
        }
        bool exempt = found.sound && (found.message.flags & MESSAGE_NEVER) != 0;
        if (found.sound && !exempt && found.message.born > limit) {
            return true;
        }
        if (!exempt) {
            if (!marker_or_remove(stream, &found)) {
                return false;
            }
            *steps = (uint32_t)number_less(*steps, stream->removal_steps);
        }
        stream->aged = found.seq + 1;
    }
    return true;
}

/* LMDB's first expiry entry behind what is done. */
static status_t lmdb_expiry(store_stream_t *stream, int64_t *expires, uint64_t *seq) {
    store_key_t from;
    bytes_t key = BYTES_NONE;
    bytes_t value = BYTES_NONE;
    if (stream->lmdb_hidden_until != 0) {
        return STATUS_NOT_FOUND;
    }
    key_expiry(&from, stream->id, stream->expiry_done, stream->expiry_done_seq + 1);
    status_t status = env_seek(stream->store->env, DB_EXPIRY, key_bytes(&from), &key, &value);
    if (status != STATUS_OK) {
        return status;
    }
    if (key.size != EXPIRY_KEY_SIZE || load_be32(key.at) != stream->id) {
        return STATUS_NOT_FOUND;
    }
    *expires = (int64_t)load_be64(key.at + 4);
    *seq = load_be64(key.at + 12);
    return STATUS_OK;
}

static bool expire_one(store_stream_t *stream, int64_t expires, uint64_t seq) {
    found_t found;
    stream->removal_steps = 0;
    if ((seq & EXPIRY_SCHEDULE) != 0) {
        return schedule_due(stream, seq & ~EXPIRY_SCHEDULE, expires);
    }
    if (message_find(stream, seq, false, &found) != STATUS_OK || (found.message.flags & MESSAGE_GONE) != 0) {
        return true;
    }
    return marker_or_remove(stream, &found);
}

/* Firing a schedule is a message put together and stored, and a look at its pattern. A marker is stored, too. */
static void steps_spend(const store_stream_t *stream, uint32_t *steps, uint64_t seq) {
    uint32_t cost = (seq & EXPIRY_SCHEDULE) != 0 ? LOOK_STEPS_SCHEDULE : stream->config.marker_ttl_ns > 0 ? 4 : 1;
    *steps = (uint32_t)number_less(*steps, cost + stream->removal_steps);
}

static bool expire_in_lmdb(store_stream_t *stream, int64_t age_now, uint32_t *steps) {
    int64_t expires = INT64_MAX;
    uint64_t seq = 0;
    bool any = false;
    bool room = true;
    store_key_t from;
    key_expiry(&from, stream->id, stream->expiry_done, stream->expiry_done_seq);
    for (; *steps > 0; steps_spend(stream, steps, seq)) {
        if (lmdb_expiry(stream, &expires, &seq) != STATUS_OK) {
            expires = INT64_MAX;
            break;
        }
        if (expires > age_now) {
            break;
        }
        room = overlay_fits(stream->store, REMOVAL_NEED) && expire_one(stream, expires, seq);
        if (!room) {
            break;
        }
        stream->expiry_done = expires;
        stream->expiry_done_seq = seq;
        any = true;
    }
    stream->expiry_next = expires;
    if (any) {
        store_key_t to;
        key_expiry(&to, stream->id, stream->expiry_done, stream->expiry_done_seq + 1);
        overlay_delete_range(stream->store, DB_EXPIRY, key_bytes(&from), key_bytes(&to));
    }
    return room;
}

bool limits_expire(store_stream_t *stream, int64_t age_now, uint32_t *steps) {
    bool room = stream->config.max_age_ns <= 0 || stream->messages == 0 || expire_aged(stream, age_now, steps);
    while (*steps > 0 && stream->expiries.count > 0 && stream->expiries.at[0].expires <= age_now) {
        /* A marker's own expiry and a schedule's next time go into this heap meanwhile, always below the root: they are
         * still to come. */
        expiry_t first = stream->expiries.at[0];
        if (!overlay_fits(stream->store, REMOVAL_NEED) || !expire_one(stream, first.expires, first.seq)) {
            return false;
        }
        expiries_pop(&stream->expiries);
        steps_spend(stream, steps, first.seq);
    }
    if (*steps > 0 && stream->expiry_next <= age_now) {
        return expire_in_lmdb(stream, age_now, steps) && room;
    }
    return room;
}

/* The next message that max_age will take, as far as it is known without looking: where the walk stands. */
static int64_t aged_deadline(store_stream_t *stream) {
    found_t found;
    if (stream->config.max_age_ns <= 0 || stream->messages == 0) {
        return INT64_MAX;
    }
    if (stream->aged <= stream->first_seq && first_load(stream)) {
        return stream->first_born + stream->config.max_age_ns;
    }
    uint32_t steps = FIRST_STEPS;
    uint64_t from = stream->aged;
    status_t status = message_next_some(stream, &from, stream->last_seq, false, &steps, &found);
    if (status != STATUS_OK) {
        return status == STATUS_AGAIN ? 0 : INT64_MAX; /* not known yet: the next look goes on */
    }
    return found.sound ? found.message.born + stream->config.max_age_ns : 0;
}

int64_t limits_deadline(store_stream_t *stream) {
    int64_t deadline = aged_deadline(stream);
    if (stream->expiries.count > 0 && stream->expiries.at[0].expires < deadline) {
        deadline = stream->expiries.at[0].expires;
    }
    return stream->expiry_next < deadline ? stream->expiry_next : deadline;
}
