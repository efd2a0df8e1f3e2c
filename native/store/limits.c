/* limits.c: messages out. One message's removal with all that hangs on it; the limits of a stream (per subject,
 * messages, bytes) after an append or an edit; max_age and per-message expiry on the age clock. Work that could be long
 * goes in steps of a tick.
 */
#include "base/check.h"
#include "base/number.h"
#include "text/subject.h"
#include "store/follow.h"
#include "store/message.h"
#include "store/overlay.h"

#define LINK_HOPS 8
#define FIRST_STEPS 64    /* over deleted messages, when the first one goes: the rest in later turns */
#define OLDEST_STEPS 4096 /* when a full subject's oldest message is looked for: likewise */

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
static uint64_t advance_first(store_stream_t *stream, uint64_t gone) {
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
    return number_less(FIRST_STEPS - steps, 1);
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

static void write_deletion(store_stream_t *stream, const found_t *found, bool link) {
    store_t *store = stream->store;
    store_key_t key;
    key_message(&key, stream->id, found->seq);
    if (link) {
        message_record_t gone = {.flags = MESSAGE_GONE,
                                 .ts = found->message.ts,
                                 .born = found->message.born,
                                 .previous = link_end(stream, found->message.previous)};
        uint8_t *value = overlay_put(store, DB_MESSAGES, key_bytes(&key), message_size(&gone), true, NULL);
        message_write(value, key_bytes(&key), &gone);
    } else {
        overlay_delete(store, DB_MESSAGES, key_bytes(&key), true);
    }
    stream->deletes[0]++;
}

/* The newest message of the subject below `seq`. The chain knows; where damage broke it, the stream is searched. */
static uint64_t newest_below(store_stream_t *stream, const found_t *found, head_t head) {
    found_t before;
    if (message_chain(stream, &found->message, head.first, &before) == STATUS_OK) {
        return before.seq;
    }
    uint64_t at = found->seq;
    while (at > head.first && message_back(stream, at - 1, &before) == STATUS_OK) {
        if (before.sound && bytes_equal(before.message.subject, found->message.subject)) {
            return before.seq;
        }
        at = before.seq;
    }
    return head.first;
}

/* Takes the message off its subject's head. Returns whether a link must stay in its place. */
static bool leave_head(store_stream_t *stream, const found_t *found, bool oldest) {
    if (!found->sound) {
        return false; /* whose it was cannot be known; its head keeps a count too many */
    }
    head_entry_t *entry = head_fetch(stream, found->message.subject);
    if (entry == NULL || entry->head.count == 0) {
        return false;
    }
    head_t head = entry->head;
    bool link = false;
    head.count--;
    if (head.count == 0) {
        stream->subjects -= stream->subjects > 0;
    } else if (found->seq == head.last) {
        head.last = newest_below(stream, found, head);
    } else if (oldest || found->seq <= head.first || found->seq == stream->first_seq) {
        head.first = found->seq + 1;
    } else {
        link = true;
    }
    entry = head_fetch(stream, found->message.subject);
    if (entry != NULL) {
        entry->head = head;
        head_change(stream, entry);
    }
    return link;
}

void message_remove(store_stream_t *stream, const found_t *found, bool oldest) {
    store_t *store = stream->store;
    uint64_t bytes = found->sound ? stream_message_bytes(stream, &found->message) : 0;
    stream_touch(stream);
    if (found->sound && (found->message.flags & MESSAGE_SCHEDULE) != 0) {
        schedule_forget(stream, found->seq);
    }
    bool link = leave_head(stream, found, oldest);
    stream->messages--;
    store->messages--;
    bytes = bytes > stream->bytes || stream->messages == 0 ? stream->bytes : bytes;
    stream->bytes -= bytes;
    store->bytes -= bytes;
    stream->removal_steps = 0;
    if (found->seq == stream->first_seq || stream->messages == 0) {
        stream->removal_steps = (uint32_t)advance_first(stream, found->seq);
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
}

/* Looks from both ends at once, so the cost is twice the shorter way: forward over the stream from the head's lower
 * bound, and back along the subject's chain, whose end is known by the count. */
status_t subject_oldest(store_stream_t *stream, head_t head, bytes_t subject, found_t *found) {
    found_t back;
    uint64_t left = head.count;
    uint64_t from = head.first;
    bool back_alive = message_find(stream, head.last, false, &back) == STATUS_OK;
    for (;;) {
        left -= left > 0;
        if (back_alive && left == 0) {
            *found = back;
            return STATUS_OK;
        }
        status_t status = message_next(stream, from, head.last, false, found);
        if (status != STATUS_OK) {
            return status;
        }
        if (found->sound && bytes_equal(found->message.subject, subject)) {
            return STATUS_OK;
        }
        from = found->seq + 1;
        back_alive = back_alive && message_chain(stream, &back.message, head.first, &back) == STATUS_OK;
    }
}

bool oldest_in_reach(store_stream_t *stream, head_entry_t *entry) {
    head_t head = entry->head;
    uint32_t steps = OLDEST_STEPS;
    uint64_t from = head.first;
    if (head.count <= OLDEST_STEPS || head.last - head.first <= OLDEST_STEPS) {
        return true; /* from one end or from the other */
    }
    while (steps > 0) {
        found_t found;
        status_t status = message_next_some(stream, &from, head.last, false, &steps, &found);
        if (status != STATUS_OK && status != STATUS_AGAIN) {
            return true; /* damage: what enforces the limit deals with it */
        }
        if (status == STATUS_OK && found.sound && bytes_equal(found.message.subject, head_subject(entry))) {
            from = found.seq;
            break;
        }
        from = status == STATUS_OK ? found.seq + 1 : from;
    }
    if (from > head.first) {
        entry->head.first = from;
        head_change(stream, entry);
    }
    return steps > 0;
}

void limits_subject(store_stream_t *stream, bytes_t subject) {
    head_t head;
    while (head_look(stream, subject, &head) && head.count > (uint64_t)stream->config.max_msgs_per_subject) {
        found_t found;
        if (!overlay_fits(stream->store, REMOVAL_NEED) || subject_oldest(stream, head, subject, &found) != STATUS_OK) {
            return;
        }
        message_remove(stream, &found, true);
    }
}

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
        message_remove(stream, &found, true);
        *steps = (uint32_t)number_less(*steps, stream->removal_steps);
        return true;
    }
    if (status == STATUS_NOT_FOUND) {
        /* The counters promise a message that is not there (a record lost to damage): believe the messages. */
        stream_touch(stream);
        stream->store->messages -= stream->messages;
        stream->store->bytes -= stream->bytes;
        stream->messages = stream->bytes = 0;
        (void)advance_first(stream, stream->last_seq);
        return true;
    }
    return false;
}

void limits_thin(store_stream_t *stream) {
    stream->thin_at = stream->messages > 0 ? number_most(stream->first_seq, 1) : 0;
}

/* Every message is looked at once, from the first on: so of a subject that has too many the one at hand is the oldest.
 * false: there was no room or no step for all of it. */
static bool thin(store_stream_t *stream, uint32_t *steps) {
    uint64_t most = (uint64_t)stream->config.max_msgs_per_subject;
    while (stream->thin_at != 0 && stream->config.max_msgs_per_subject > 0) {
        found_t found;
        head_t head;
        if (*steps == 0 || !overlay_fits(stream->store, REMOVAL_NEED)) {
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
        stream->thin_at = found.seq + 1;
        if (found.sound && head_look(stream, found.message.subject, &head) && head.count > most) {
            message_remove(stream, &found, true);
            *steps = (uint32_t)number_less(*steps, stream->removal_steps);
        }
    }
    stream->thin_at = 0;
    return true;
}

void limits_enforce(store_stream_t *stream, uint32_t *steps) {
    stream->over_limit = !thin(stream, steps);
    while (stream_is_over(stream)) {
        if (*steps == 0 || !remove_first(stream, steps)) {
            stream->over_limit = true;
            break;
        }
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
    if ((seq & EXPIRY_SCHEDULE) != 0) {
        return schedule_due(stream, seq & ~EXPIRY_SCHEDULE, expires);
    }
    if (message_find(stream, seq, false, &found) != STATUS_OK || (found.message.flags & MESSAGE_GONE) != 0) {
        return true;
    }
    return marker_or_remove(stream, &found);
}

/* Firing a schedule is a message put together and stored, and a look at its pattern. */
static void steps_spend(uint32_t *steps, uint64_t seq) {
    uint32_t cost = (seq & EXPIRY_SCHEDULE) != 0 ? LOOK_STEPS_SCHEDULE : 1;
    *steps -= cost < *steps ? cost : *steps;
}

static bool expire_in_lmdb(store_stream_t *stream, int64_t age_now, uint32_t *steps) {
    int64_t expires = INT64_MAX;
    uint64_t seq = 0;
    bool any = false;
    bool room = true;
    store_key_t from;
    key_expiry(&from, stream->id, stream->expiry_done, stream->expiry_done_seq);
    for (; *steps > 0; steps_spend(steps, seq)) {
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
        steps_spend(steps, first.seq);
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
