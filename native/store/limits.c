/* limits.c: messages out. One message's removal with all that hangs on it; the limits of a stream (per subject,
 * messages, bytes) after an append or an edit. Work that could be long goes in steps of a tick. By time: expire.c.
 */
#include "base/check.h"
#include "base/number.h"
#include "text/subject.h"
#include "store/follow.h"
#include "store/message.h"
#include "store/overlay.h"

#define LINK_HOPS 8
#define NEWEST_STEPS 4096 /* over deleted ones of a subject, when its newest goes: likewise */
#define SEEK_STEPS 2048   /* back over the stream, where damage broke a subject's chain: likewise */
#define SEEK_PATIENCE 10000
#define LOAD_STEPS 3     /* a subject's head that is read from LMDB takes as long as so many messages */
#define OLDEST_NEAR 64   /* a full subject's oldest message is not farther than that: no need to look for it twice */
#define THIN_NEED 64     /* of a record */
#define SPARE_STEPS 4096 /* in one tick, beyond what each message has of its own */

/* The end of a link: it leads over the links that lie behind it, or a row of deletions would be gone over one by one.
 */
static uint64_t link_end(store_stream_t *stream, uint64_t seq) {
    message_row_t found;
    for (uint32_t hop = 0; hop < LINK_HOPS; hop++) {
        if (!message_usable(message_find(stream, seq, true, &found), &found)
            || (found.message.flags & MESSAGE_GONE) == 0 || found.message.previous >= seq) {
            break;
        }
        seq = found.message.previous;
    }
    return seq;
}

/* Writes the link that is left of a deleted message: the place of the message before it on its subject. */
static void write_link(store_stream_t *stream, const message_row_t *found, uint64_t previous) {
    store_key_t key;
    key_message(&key, stream->id, found->seq);
    message_record_t gone = {.flags = MESSAGE_GONE | stream->store->brief,
                             .ts = found->message.ts,
                             .born = found->message.born,
                             .previous = previous};
    uint8_t *value =
        overlay_put(stream->store, DB_MESSAGES, key_bytes(&key), message_size(found->seq, &gone), true, NULL);
    message_write(value, key_bytes(&key), &gone);
    notes_deleted(stream, 1);
}

static void write_deletion(store_stream_t *stream, const message_row_t *found, bool link) {
    if (link) {
        write_link(stream, found, link_end(stream, found->message.previous));
        return;
    }
    store_key_t key;
    key_message(&key, stream->id, found->seq);
    overlay_delete(stream->store, DB_MESSAGES, key_bytes(&key), true);
    notes_deleted(stream, 1);
}

/* The newest one of the subject at or below limits.seek_at, which comes down. */
static seek_outcome_t newest_back(store_stream_t *stream, bytes_t subject, uint64_t floor, uint32_t *steps,
                                  uint64_t *seq) {
    while (stream->limits.seek_at >= floor && stream->limits.seek_at > 0) {
        message_row_t before;
        seek_outcome_t outcome = message_back_some(stream, &stream->limits.seek_at, steps, &before);
        switch (outcome) {
        case SEEK_UNKNOWN:
        case SEEK_NONE:
        case SEEK_MORE: return outcome;
        case SEEK_FOUND: break;
        }
        if (before.sound && bytes_equal(before.message.subject, subject)) {
            *seq = before.seq;
            return SEEK_FOUND;
        }
        stream->limits.seek_at = before.seq - 1;
    }
    return SEEK_NONE;
}

/* Through the stream, since damage broke the chain. How far that is is kept for one message at a time; another such
 * removal meanwhile waits, unless nobody goes on with the first one. */
static status_t newest_by_search(store_stream_t *stream, const message_row_t *found, uint64_t floor, uint32_t *steps,
                                 uint64_t *seq) {
    if (stream->limits.seek_of != found->seq) {
        if (stream->limits.seek_of != 0 && stream->limits.seek_patience-- > 0) {
            return STATUS_AGAIN;
        }
        stream->limits.seek_of = found->seq;
        stream->limits.seek_at = found->seq - 1;
    }
    stream->limits.seek_patience = SEEK_PATIENCE;
    uint32_t left = SEEK_STEPS;
    seek_outcome_t outcome = newest_back(stream, found->message.subject, floor, &left, seq);
    *steps = (uint32_t)number_less(*steps, SEEK_STEPS - left);
    switch (outcome) {
    case SEEK_UNKNOWN: return STATUS_IO;
    case SEEK_MORE: return STATUS_AGAIN;
    case SEEK_NONE: *seq = floor; break;
    case SEEK_FOUND: break;
    }
    stream->limits.seek_of = 0;
    return STATUS_OK;
}

/* The newest message of the subject below the one that goes. The chain knows; where damage broke it, the stream is
 * searched. Deleting from the newest down leaves a link for each: when there are very many, the nearest one is made
 * to lead over those that were gone over, and STATUS_AGAIN says so. */
static status_t newest_below(store_stream_t *stream, const message_row_t *found, head_t head, uint32_t *steps,
                             uint64_t *seq) {
    message_row_t before, nearest;
    uint32_t left = NEWEST_STEPS;
    seek_outcome_t outcome = message_chain(stream, &found->message, head.first, &left, &before);
    *steps = (uint32_t)number_less(*steps, number_less(NEWEST_STEPS - left, 1));
    switch (outcome) {
    case SEEK_UNKNOWN: return STATUS_IO;
    case SEEK_NONE: return newest_by_search(stream, found, head.first, steps, seq);
    case SEEK_MORE:
        if (message_usable(message_find(stream, found->message.previous, true, &nearest), &nearest)) {
            write_link(stream, &nearest, before.message.previous);
        }
        return STATUS_AGAIN;
    case SEEK_FOUND: break;
    }
    *seq = before.seq;
    return STATUS_OK;
}

/* Takes the message off its subject's head. *link: one must stay in its place. But for STATUS_OK nothing was done. */
static status_t leave_head(store_stream_t *stream, const message_row_t *found, bool oldest, uint32_t *steps,
                           bool *link) {
    *link = false;
    if (!found->sound) {
        return STATUS_OK; /* whose it was cannot be known; its head keeps a count too many */
    }
    head_entry_t *entry;
    status_t status = head_fetch(stream, found->message.subject, &entry);
    if (status != STATUS_OK || entry->head.count == 0) {
        return status;
    }
    head_t head = entry->head;
    head.count--;
    if (head.count > 0 && found->seq == head.last) {
        status = newest_below(stream, found, head, steps, &head.last);
        if (status == STATUS_OK) {
            status = head_fetch(stream, found->message.subject, &entry); /* looking may have put it out of the cache */
        }
        if (status != STATUS_OK) {
            return status;
        }
    } else if (head.count == 0) {
        log_lose_subject(&stream->log);
    } else if (oldest || found->seq <= head.first || found->seq == stream->log.first_seq) {
        head.first = found->seq + 1;
    } else {
        *link = true;
    }
    entry->head = head;
    head_change(stream, entry);
    return STATUS_OK;
}

status_t message_remove(store_stream_t *stream, const message_row_t *found, bool oldest, uint32_t *steps) {
    store_t *store = stream->store;
    uint64_t bytes = found->sound ? stream_message_bytes(stream, &found->message) : 0;
    bool link;
    uint64_t loads = store->heads.added;
    if (LEAF_UNLIKELY(stream->log.stopped)) {
        return STATUS_IO;
    }
    status_t left = leave_head(stream, found, oldest, steps, &link);
    if (LEAF_UNLIKELY(store->heads.added != loads)) {
        *steps = (uint32_t)number_less(*steps, LOAD_STEPS * (store->heads.added - loads));
    }
    if (left != STATUS_OK) {
        return left;
    }
    if (found->sound && (found->message.flags & MESSAGE_SCHEDULE) != 0) {
        schedule_forget(stream, found->seq);
    }
    if (!log_remove(stream, found->seq, bytes, steps)) {
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
        uint64_t size = found->sound ? log_text_bytes(&found->message) : 0;
        store->hooks.removed(store->hooks.context, stream, found->seq, subject, size);
    }
    return STATUS_OK;
}

/* ---- what a new message may take out ----------------------------------------------------------------------------- */

/* However many messages come in a tick: each has a few steps of its own, and they share the others. */
static uint32_t steps_begin(const store_t *store, uint32_t own) {
    return own + (uint32_t)number_less(SPARE_STEPS, store->turn.spare_spent);
}

static void steps_end(store_t *store, uint32_t own, uint32_t left) {
    store->turn.spare_spent += (uint32_t)number_less(steps_begin(store, own) - left, own);
}

/* One back along the chain. false: not in this turn; the way forward may still know. */
static bool back_one(store_stream_t *stream, uint64_t floor, uint32_t *steps, message_row_t *back) {
    switch (message_chain(stream, &back->message, floor, steps, back)) {
    case SEEK_UNKNOWN:
    case SEEK_NONE:
    case SEEK_MORE: return false;
    case SEEK_FOUND: break;
    }
    return true;
}

/* Looks from both ends at once, so the cost is twice the shorter way: forward over the stream from the head's lower
 * bound, and back along the subject's chain, whose end is known by the count. */
seek_outcome_t subject_oldest(store_stream_t *stream, head_t *head, bytes_t subject, uint32_t *steps,
                              message_row_t *found) {
    message_row_t back;
    uint64_t left = head->count;
    uint64_t floor = head->first;
    uint32_t back_steps = *steps;
    bool back_alive = message_usable(message_find(stream, head->last, false, &back), &back);
    while (*steps > 0) {
        left -= left > 0;
        if (back_alive && left == 0) {
            *found = back;
            head->first = back.seq;
            return SEEK_FOUND;
        }
        seek_outcome_t outcome = message_next_some(stream, &head->first, head->last, false, steps, found);
        switch (outcome) {
        case SEEK_UNKNOWN:
        case SEEK_NONE:
        case SEEK_MORE: return outcome;
        case SEEK_FOUND: break;
        }
        if (found->sound && bytes_equal(found->message.subject, subject)) {
            head->first = found->seq;
            return SEEK_FOUND;
        }
        head->first = found->seq + 1;
        back_alive = back_alive && back_one(stream, floor, &back_steps, &back);
    }
    return SEEK_MORE;
}

seek_outcome_t oldest_sought(store_stream_t *stream, head_entry_t *entry, uint32_t *steps, message_row_t *found) {
    head_t head = entry->head;
    seek_outcome_t outcome = subject_oldest(stream, &head, head_subject(entry), steps, found);
    if (head.first > entry->head.first) {
        entry->head.first = head.first;
        head_change(stream, entry);
    }
    return outcome;
}

bool oldest_in_reach(store_stream_t *stream, head_entry_t *entry) {
    store_t *store = stream->store;
    message_row_t found;
    if (entry->head.count == 1 || entry->head.last - entry->head.first <= OLDEST_NEAR) {
        return true;
    }
    uint32_t steps = steps_begin(store, LIMIT_OWN);
    seek_outcome_t outcome = oldest_sought(stream, entry, &steps, &found);
    steps_end(store, LIMIT_OWN, steps);
    switch (outcome) {
    case SEEK_MORE: return false;
    case SEEK_UNKNOWN:
    case SEEK_NONE: /* damage: what enforces the limit deals with it */
    case SEEK_FOUND: break;
    }
    return true;
}

/* Has the subject more than its stream allows? */
static read_outcome_t subject_surplus(store_stream_t *stream, bytes_t subject, head_t *head) {
    read_outcome_t outcome = head_look(stream, subject, head);
    switch (outcome) {
    case READ_UNKNOWN:
    case READ_NONE: return outcome;
    case READ_FOUND: break;
    }
    return head->count > (uint64_t)stream->config.max_msgs_per_subject ? READ_FOUND : READ_NONE;
}

/* Takes one message too many out of a subject. *from: no one of it is older. */
static step_outcome_t subject_step(store_stream_t *stream, bytes_t subject, uint32_t *steps, uint64_t *from) {
    message_row_t found;
    head_t head;
    switch (subject_surplus(stream, subject, &head)) {
    case READ_UNKNOWN: return STEP_UNKNOWN;
    case READ_NONE: return STEP_OVER;
    case READ_FOUND: break;
    }
    if (!overlay_fits(stream->store, REMOVAL_NEED)) {
        return STEP_UNKNOWN;
    }
    seek_outcome_t outcome = subject_oldest(stream, &head, subject, steps, &found);
    *from = head.first;
    switch (outcome) {
    case SEEK_UNKNOWN:
    case SEEK_MORE: return STEP_UNKNOWN;
    case SEEK_NONE: return STEP_OVER;
    case SEEK_FOUND: break;
    }
    return message_remove(stream, &found, true, steps) == STATUS_OK ? STEP_MORE : STEP_UNKNOWN;
}

void limits_subject(store_stream_t *stream, bytes_t subject, uint32_t own) {
    uint32_t steps = steps_begin(stream->store, own);
    uint64_t from = stream->log.first_seq;
    bool goes_on = true;
    while (goes_on) {
        switch (subject_step(stream, subject, &steps, &from)) {
        case STEP_UNKNOWN:
            limits_note_surplus(stream, from);
            goes_on = false;
            break;
        case STEP_OVER: goes_on = false; break;
        case STEP_MORE: break;
        }
    }
    steps_end(stream->store, own, steps);
}

/* ---- messages beyond a limit ------------------------------------------------------------------------------------- */

/* A limit that is lowered takes nothing from a stream that refuses what is new instead of discarding what is old. */
static bool stream_is_over(const store_stream_t *stream) {
    const stream_config_t *config = &stream->config;
    if (stream->log.messages == 0 || config->discard != 0) {
        return false;
    }
    if (config->max_msgs > 0 && stream->log.messages > (uint64_t)config->max_msgs) {
        return true;
    }
    return config->max_bytes > 0 && stream->log.bytes > (uint64_t)config->max_bytes;
}

/* false: not in this turn. */
static bool remove_first(store_stream_t *stream, uint32_t *steps) {
    message_row_t found;
    uint64_t from = stream->log.first_seq;
    if (!overlay_fits(stream->store, REMOVAL_NEED)) {
        return false;
    }
    switch (message_next_some(stream, &from, stream->log.last_seq, false, steps, &found)) {
    case SEEK_UNKNOWN:
    case SEEK_MORE: return false;
    case SEEK_NONE: log_believe_empty(stream); return true;
    case SEEK_FOUND: break;
    }
    return message_remove(stream, &found, true, steps) == STATUS_OK;
}

static void thin_key(const store_stream_t *stream, store_key_t *key) {
    uint8_t id[4];
    store_be32(id, stream->id);
    key_record(key, RECORD_THIN, bytes_of(id, sizeof id));
}

/* Written down or deleted, when there is room for that. */
static bool thin_note(store_stream_t *stream, bool goes_on) {
    store_key_t key;
    if (stream->limits.surplus_noted == goes_on || stream->store->options.memory) {
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
    stream->limits.surplus_noted = goes_on;
    return true;
}

void limits_note_surplus(store_stream_t *stream, uint64_t from) {
    if (stream->log.messages == 0) {
        return;
    }
    from = number_most(number_most(from, stream->log.first_seq), 1);
    stream->limits.surplus_from =
        stream->limits.surplus_from == 0 ? from : number_least(stream->limits.surplus_from, from);
    stream->limits.over = true;
    store_look_soon(stream->store);
    (void)thin_note(stream, true); /* or with the next step */
}

void limits_load_surplus(store_stream_t *stream) {
    store_key_t key;
    bytes_t value = BYTES_NONE;
    thin_key(stream, &key);
    switch (overlay_get(stream->store, DB_RECORDS, key_bytes(&key), &value)) {
    case ENTRY_NONE: return;
    case ENTRY_UNKNOWN: /* there may be one: going over the stream in vain does no harm */
    case ENTRY_DAMAGED:
    case ENTRY_FOUND: break;
    }
    stream->limits.surplus_noted = true;
    limits_note_surplus(stream, stream->log.first_seq);
}

/* The next message, which may be one too many. */
static step_outcome_t surplus_step(store_stream_t *stream, uint32_t *steps) {
    message_row_t found;
    head_t head;
    if (*steps == 0 || !overlay_fits(stream->store, REMOVAL_NEED) || !thin_note(stream, true)) {
        return STEP_UNKNOWN;
    }
    uint64_t from = number_most(stream->limits.surplus_from, stream->log.first_seq);
    switch (message_next_some(stream, &from, stream->log.last_seq, false, steps, &found)) {
    case SEEK_NONE: return STEP_OVER;
    case SEEK_MORE:
    case SEEK_UNKNOWN: stream->limits.surplus_from = from; return STEP_UNKNOWN; /* all up to there is gone */
    case SEEK_FOUND: break;
    }
    uint64_t loads = stream->store->heads.added;
    read_outcome_t surplus = found.sound ? subject_surplus(stream, found.message.subject, &head) : READ_NONE;
    *steps = (uint32_t)number_less(*steps, LOAD_STEPS * (stream->store->heads.added - loads));
    status_t status = STATUS_OK;
    switch (surplus) {
    case READ_UNKNOWN: return STEP_UNKNOWN;
    case READ_NONE: break;
    case READ_FOUND: status = message_remove(stream, &found, true, steps); break;
    }
    if (status != STATUS_OK) {
        return STEP_UNKNOWN;
    }
    stream->limits.surplus_from = found.seq + 1;
    return STEP_MORE;
}

/* Every message is looked at once, from the first on that may be one too many: so of a subject that has too many the
 * one at hand is the oldest. false: there was no room or no step for all of it. */
static bool remove_surplus(store_stream_t *stream, uint32_t *steps) {
    bool goes_on = stream->limits.surplus_from != 0 && stream->config.max_msgs_per_subject > 0;
    while (goes_on) {
        switch (surplus_step(stream, steps)) {
        case STEP_UNKNOWN: return false;
        case STEP_MORE: break;
        case STEP_OVER: goes_on = false; break;
        }
    }
    if (!thin_note(stream, false)) {
        return false;
    }
    stream->limits.surplus_from = 0;
    return true;
}

static inline void enforce(store_stream_t *stream, bool is_over, uint32_t *steps) {
    limits_t *limits = &stream->limits;
    limits->over = false;
    for (; is_over && !limits->over; is_over = stream_is_over(stream)) {
        limits->over = *steps == 0 || !remove_first(stream, steps);
    }
    if (LEAF_UNLIKELY(limits->surplus_from != 0 || limits->surplus_noted) && !remove_surplus(stream, steps)) {
        limits->over = true;
    }
}

void limits_enforce(store_stream_t *stream, uint32_t *steps) {
    enforce(stream, stream_is_over(stream), steps);
}

void limits_appended(store_stream_t *stream, uint32_t own) {
    bool is_over = stream_is_over(stream);
    if (LEAF_LIKELY(!is_over && stream->limits.surplus_from == 0 && !stream->limits.surplus_noted)) {
        stream->limits.over = false;
        return;
    }
    uint32_t steps = steps_begin(stream->store, own);
    enforce(stream, is_over, &steps);
    steps_end(stream->store, own, steps);
}
