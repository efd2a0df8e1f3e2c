/* read.c: messages by sequence: one, the next, the one before, the one before on its subject; stamps. The overlay
 * first, then LMDB through the one kept cursor. Does not change anything; scan.c has what readers ask, subjects.c what
 * goes by subject.
 *
 *     sequences   first_seq ............ the overlay's first ............ last_seq
 *                 |---- LMDB (cursor) ---|---- by_seq -> ops ------|
 *                 deletions out of the middle: notes in the overlay for both parts, GONE links in LMDB; long
 *                 rows of them are remembered once somebody has gone over them (gaps.h)
 *                 messages put into holes (fill.c): a short list of the overlay, asked before both parts
 */
#include <stdlib.h>

#include "base/check.h"
#include "text/subject.h"
#include "store/gaps.h"
#include "store/message.h"
#include "store/overlay.h"

#define STAMP_VERIFIED (16u << 10) /* a larger one would be read whole for its checksum */

/* Does the overlay say that it was deleted? *outcome: a GONE link, in found, or nothing. */
static bool found_deleted(store_stream_t *stream, uint64_t seq, bytes_t key, message_row_t *found,
                          read_outcome_t *outcome) {
    batch_op_t op;
    uint64_t position;
    if (stream->notes.deletes[0] + stream->notes.deletes[1] == 0
        || !memtable_find(&stream->store->memtable, DB_MESSAGES, key, &op, &position)) {
        return false;
    }
    if (position < stream->notes.hidden_until) {
        return false; /* of an earlier stream with this id */
    }
    if (op.kind != OP_PUT || !message_read(op.key, op.value, &found->message)) {
        *outcome = READ_NONE;
        return true;
    }
    *found = (message_row_t){.seq = seq, .message = found->message, .sound = true};
    *outcome = READ_FOUND;
    return true;
}

static void found_take(message_row_t *found, uint64_t seq, bytes_t key, bytes_t value, bool verify) {
    found->seq = seq;
    found->sound = (!verify || value_sound(key, value)) && message_read(key, value, &found->message);
    if (LEAF_UNLIKELY(!found->sound)) {
        found->message = (message_record_t){0};
    }
}

/* A link that a deletion left. Its checksum is looked at, so that a flipped bit cannot make a message vanish
 * silently. */
static bool is_link(bytes_t key, bytes_t value) {
    return value.size > VALUE_CRC_SIZE && (value.at[VALUE_CRC_SIZE] & MESSAGE_GONE) != 0 && value_sound(key, value);
}

static void take_from_overlay(store_stream_t *stream, indexed_op_t at, message_row_t *found) {
    batch_op_t op;
    op_read(&stream->store->batches, at.position, &op);
    found->seq = at.seq;
    found->sound = op_message(&stream->store->batches, &op, &found->message);
    check(found->sound);
}

/* false: it was deleted since. */
static bool take_alive(store_stream_t *stream, indexed_op_t at, message_row_t *found) {
    store_key_t key;
    read_outcome_t deleted;
    key_message(&key, stream->id, at.seq);
    if (found_deleted(stream, at.seq, key_bytes(&key), found, &deleted)) {
        return false;
    }
    take_from_overlay(stream, at, found);
    return true;
}

/* ---- what was put, or written anew, in front of others ----------------------------------------------------------- */

void read_filled(store_stream_t *stream) {
    free(stream->gaps);
    stream->gaps = NULL;
}

/* An entry written anew there is newer than the one that was found. */
static bool fill_at(store_stream_t *stream, uint64_t seq, message_row_t *found) {
    const notes_t *notes = &stream->notes;
    uint32_t i = notes_fill_from(notes, seq);
    if (i == notes->fills.count || notes->fills.at[i].seq != seq) {
        return false;
    }
    take_from_overlay(stream, notes->fills.at[i], found);
    return true;
}

/* The first one alive in [from, to]. */
static bool fill_next(store_stream_t *stream, uint64_t from, uint64_t to, message_row_t *found) {
    const fills_t *fills = &stream->notes.fills;
    for (uint32_t i = notes_fill_from(&stream->notes, from); i < fills->count && fills->at[i].seq <= to; i++) {
        if (take_alive(stream, fills->at[i], found)) {
            return true;
        }
    }
    return false;
}

static bool fill_back(store_stream_t *stream, uint64_t from, uint64_t to, message_row_t *found) {
    const fills_t *fills = &stream->notes.fills;
    uint32_t i = notes_fill_from(&stream->notes, to + 1);
    while (i > 0 && fills->at[i - 1].seq >= from) {
        if (take_alive(stream, fills->at[--i], found)) {
            return true;
        }
    }
    return false;
}

/* ---- by sequence ------------------------------------------------------------------------------------------------- */

/* verified: the checksum of what is no larger is looked at. */
static read_outcome_t message_verified(store_stream_t *stream, uint64_t seq, uint32_t verified, message_row_t *found) {
    store_t *store = stream->store;
    read_outcome_t outcome;
    if (seq < stream->log.first_seq || seq > stream->log.last_seq) {
        return READ_NONE;
    }
    store_key_t key;
    key_message(&key, stream->id, seq);
    if (found_deleted(stream, seq, key_bytes(&key), found, &outcome)) {
        return outcome;
    }
    if (LEAF_UNLIKELY(stream->notes.fills.count > 0) && fill_at(stream, seq, found)) {
        return READ_FOUND;
    }
    if (seq >= op_index_first(&stream->notes.by_seq)) {
        uint64_t index = op_index_find(&stream->notes.by_seq, seq);
        if (index == op_index_count(&stream->notes.by_seq)) {
            return READ_NONE;
        }
        indexed_op_t at = op_index_get(&stream->notes.by_seq, index);
        if (at.seq != seq) {
            return READ_NONE;
        }
        take_from_overlay(stream, at, found);
        return READ_FOUND;
    }
    if (stream->notes.hidden_until != 0) {
        return READ_NONE;
    }
    bytes_t value = BYTES_NONE;
    outcome = env_get(store->env, DB_MESSAGES, key_bytes(&key), &value);
    switch (outcome) {
    case READ_UNKNOWN:
    case READ_NONE: break;
    case READ_FOUND: found_take(found, seq, key_bytes(&key), value, value.size <= verified); break;
    }
    return outcome;
}

read_outcome_t message_find(store_stream_t *stream, uint64_t seq, bool verify, message_row_t *found) {
    return message_verified(stream, seq, verify ? UINT32_MAX : 0, found);
}

read_outcome_t message_link(store_stream_t *stream, uint64_t seq, message_row_t *found) {
    return message_verified(stream, seq, STAMP_VERIFIED, found);
}

void read_forget(store_t *store) {
    store->cursor.seq = 0;
}

/* Puts the cursor on the first LMDB message of the stream at or above from. */
static inline __attribute__((always_inline)) read_outcome_t message_lmdb_step(store_stream_t *stream, uint64_t from,
                                                                              uint64_t *seq, bytes_t *key,
                                                                              bytes_t *value) {
    store_t *store = stream->store;
    read_outcome_t outcome;
    store_key_t wanted;
    key_message(&wanted, stream->id, from);
    if (store->cursor.stream == stream->id && store->cursor.seq != 0 && store->cursor.seq + 1 == from) {
        outcome = env_next(store->env, DB_MESSAGES, key_bytes(&wanted), key, value);
    } else {
        outcome = env_seek(store->env, DB_MESSAGES, key_bytes(&wanted), key, value);
    }
    store->cursor.seq = 0;
    switch (outcome) {
    case READ_NONE:
    case READ_UNKNOWN: return outcome;
    case READ_FOUND: break;
    }
    if (key->size != MESSAGE_KEY_SIZE || load_be32(key->at) != stream->id) {
        return READ_NONE;
    }
    *seq = load_be64(key->at + 4);
    store->cursor.stream = stream->id;
    store->cursor.seq = *seq;
    return READ_FOUND;
}

static seek_outcome_t next_in_lmdb(store_stream_t *stream, uint64_t *from, uint64_t upto, bool verify, uint32_t *budget,
                                   message_row_t *found) {
    while (*from <= upto) {
        uint64_t seq = 0;
        bytes_t key = BYTES_NONE;
        bytes_t value = BYTES_NONE;
        if (*budget == 0) {
            return SEEK_MORE;
        }
        --*budget;
        switch (message_lmdb_step(stream, *from, &seq, &key, &value)) {
        case READ_UNKNOWN: return SEEK_UNKNOWN;
        case READ_NONE: return SEEK_NONE;
        case READ_FOUND: break;
        }
        if (seq > upto) {
            return SEEK_NONE;
        }
        *from = seq + 1;
        read_outcome_t deleted;
        if (found_deleted(stream, seq, key, found, &deleted) || is_link(key, value)) {
            continue;
        }
        found_take(found, seq, key, value, verify);
        return SEEK_FOUND;
    }
    return SEEK_NONE;
}

static seek_outcome_t next_in_overlay(store_stream_t *stream, uint64_t *from, uint64_t upto, uint32_t *budget,
                                      message_row_t *found) {
    for (uint64_t i = op_index_find(&stream->notes.by_seq, *from); i < op_index_count(&stream->notes.by_seq); i++) {
        indexed_op_t at = op_index_get(&stream->notes.by_seq, i);
        if (at.seq > upto) {
            break;
        }
        if (*budget == 0) {
            *from = at.seq;
            return SEEK_MORE;
        }
        --*budget;
        if (take_alive(stream, at, found)) {
            return SEEK_FOUND;
        }
    }
    return SEEK_NONE;
}

/* No message has a sequence of [from, to], as `steps` steps have shown. */
static void learn_gap(store_stream_t *stream, uint64_t from, uint64_t to, uint32_t steps) {
    if (LEAF_LIKELY(steps < GAP_STEPS) || stream->store->trouble.unreadable) {
        return;
    }
    stream->gaps = stream->gaps != NULL ? stream->gaps : calloc(1, sizeof *stream->gaps);
    if (stream->gaps != NULL) { /* without memory for it they are gone over again */
        gaps_learn(stream->gaps, from, to, stream->log.first_seq);
    }
}

static seek_outcome_t next_alive(store_stream_t *stream, uint64_t *from, uint64_t upto, bool verify, uint32_t *budget,
                                 message_row_t *found) {
    uint64_t overlay_from = op_index_first(&stream->notes.by_seq);
    if (*from < overlay_from && stream->notes.hidden_until == 0) {
        seek_outcome_t outcome =
            next_in_lmdb(stream, from, upto < overlay_from ? upto : overlay_from - 1, verify, budget, found);
        switch (outcome) {
        case SEEK_FOUND:
        case SEEK_MORE:
        case SEEK_UNKNOWN: return outcome;
        case SEEK_NONE: break;
        }
    }
    return next_in_overlay(stream, from, upto, budget, found);
}

/* The same, where a fill lies before what was found, or in place of it. */
static seek_outcome_t next_or_fill(store_stream_t *stream, uint64_t begin, uint64_t *from, uint64_t upto,
                                   seek_outcome_t outcome, message_row_t *found) {
    uint64_t to = upto;
    message_row_t filled;
    switch (outcome) {
    case SEEK_UNKNOWN: return outcome;
    case SEEK_FOUND: to = found->seq; break;
    case SEEK_MORE: to = *from - 1; break;
    case SEEK_NONE: break;
    }
    if (begin > to || !fill_next(stream, begin, to, &filled)) {
        return outcome;
    }
    *found = filled;
    *from = filled.seq + 1;
    return SEEK_FOUND;
}

seek_outcome_t message_next_some(store_stream_t *stream, uint64_t *from, uint64_t upto, bool verify, uint32_t *budget,
                                 message_row_t *found) {
    *from = *from < stream->log.first_seq ? stream->log.first_seq : *from;
    *from = stream->gaps != NULL ? gaps_over(stream->gaps, *from) : *from;
    upto = upto > stream->log.last_seq ? stream->log.last_seq : upto;
    if (*from > upto || stream->log.messages == 0) {
        return SEEK_NONE;
    }
    uint64_t begin = *from;
    uint32_t before = *budget;
    seek_outcome_t outcome = next_alive(stream, from, upto, verify, budget, found);
    if (LEAF_UNLIKELY(stream->notes.fills.count > 0)) {
        return next_or_fill(stream, begin, from, upto, outcome, found);
    }
    switch (outcome) {
    case SEEK_FOUND: learn_gap(stream, begin, found->seq - 1, before - *budget); break;
    case SEEK_MORE: learn_gap(stream, begin, *from - 1, before - *budget); break;
    case SEEK_NONE: learn_gap(stream, begin, upto, before - *budget); break;
    case SEEK_UNKNOWN: break;
    }
    return outcome;
}

static seek_outcome_t back_in_lmdb(store_stream_t *stream, uint64_t *from, uint32_t *budget, message_row_t *found) {
    store_t *store = stream->store;
    while (*from >= stream->log.first_seq && *from > 0) {
        if (*budget == 0) {
            return SEEK_MORE;
        }
        --*budget;
        store_key_t wanted;
        key_message(&wanted, stream->id, *from);
        bytes_t key = BYTES_NONE;
        bytes_t value = BYTES_NONE;
        store->cursor.seq = 0;
        switch (env_seek_back(store->env, DB_MESSAGES, key_bytes(&wanted), &key, &value)) {
        case READ_UNKNOWN: return SEEK_UNKNOWN;
        case READ_NONE: return SEEK_NONE;
        case READ_FOUND: break;
        }
        if (key.size != MESSAGE_KEY_SIZE || load_be32(key.at) != stream->id) {
            return SEEK_NONE;
        }
        uint64_t seq = load_be64(key.at + 4);
        if (seq < stream->log.first_seq) {
            return SEEK_NONE;
        }
        *from = seq - 1;
        read_outcome_t deleted;
        if (!is_link(key, value) && !found_deleted(stream, seq, key, found, &deleted)) {
            found_take(found, seq, key, value, true);
            return SEEK_FOUND;
        }
    }
    return SEEK_NONE;
}

static seek_outcome_t back_alive(store_stream_t *stream, uint64_t *from, uint32_t *budget, message_row_t *found) {
    uint64_t overlay_from = op_index_first(&stream->notes.by_seq);
    if (*from >= overlay_from) {
        uint64_t i = op_index_find(&stream->notes.by_seq, *from);
        if (i == op_index_count(&stream->notes.by_seq) || op_index_get(&stream->notes.by_seq, i).seq > *from) {
            i--;
        }
        for (;; i--) {
            indexed_op_t at = op_index_get(&stream->notes.by_seq, i);
            if (at.seq < stream->log.first_seq) {
                return SEEK_NONE;
            }
            *from = at.seq;
            if (*budget == 0) {
                return SEEK_MORE;
            }
            --*budget;
            if (take_alive(stream, at, found)) {
                return SEEK_FOUND;
            }
            if (i == 0) {
                break;
            }
        }
        *from = overlay_from - 1;
    }
    return stream->notes.hidden_until != 0 ? SEEK_NONE : back_in_lmdb(stream, from, budget, found);
}

static seek_outcome_t back_or_fill(store_stream_t *stream, uint64_t begin, uint64_t *from, seek_outcome_t outcome,
                                   message_row_t *found) {
    uint64_t to = stream->log.first_seq;
    message_row_t filled;
    switch (outcome) {
    case SEEK_UNKNOWN: return outcome;
    case SEEK_FOUND: to = found->seq; break;
    case SEEK_MORE: to = *from + 1; break;
    case SEEK_NONE: break;
    }
    if (to > begin || !fill_back(stream, to, begin, &filled)) {
        return outcome;
    }
    *found = filled;
    *from = filled.seq - 1;
    return SEEK_FOUND;
}

seek_outcome_t message_back_some(store_stream_t *stream, uint64_t *from, uint32_t *budget, message_row_t *found) {
    *from = *from > stream->log.last_seq ? stream->log.last_seq : *from;
    *from = stream->gaps != NULL ? gaps_back(stream->gaps, *from) : *from;
    uint64_t begin = *from;
    uint32_t before = *budget;
    seek_outcome_t outcome = back_alive(stream, from, budget, found);
    if (LEAF_UNLIKELY(stream->notes.fills.count > 0)) {
        return back_or_fill(stream, begin, from, outcome, found);
    }
    switch (outcome) {
    case SEEK_FOUND: learn_gap(stream, found->seq + 1, begin, before - *budget); break;
    case SEEK_MORE: learn_gap(stream, *from + 1, begin, before - *budget); break;
    case SEEK_NONE:
    case SEEK_UNKNOWN: break;
    }
    return outcome;
}

seek_outcome_t message_chain(store_stream_t *stream, const message_record_t *message, uint64_t floor, uint32_t *steps,
                             message_row_t *found) {
    uint64_t seq = message->previous;
    floor = floor < stream->log.first_seq ? stream->log.first_seq : floor;
    while (seq >= floor && seq > 0) {
        if (*steps == 0) {
            return SEEK_MORE;
        }
        --*steps;
        switch (message_find(stream, seq, false, found)) {
        case READ_UNKNOWN: return SEEK_UNKNOWN;
        case READ_NONE: return SEEK_NONE;
        case READ_FOUND: break;
        }
        if (!found->sound) {
            return SEEK_NONE;
        }
        if ((found->message.flags & MESSAGE_GONE) == 0) {
            return SEEK_FOUND;
        }
        if (found->message.previous >= seq) {
            return SEEK_NONE;
        }
        seq = found->message.previous;
    }
    return SEEK_NONE;
}

/* ---- by time ----------------------------------------------------------------------------------------------------- */

static read_outcome_t stamp_in_lmdb(store_stream_t *stream, uint64_t from, uint64_t upto, uint32_t *budget,
                                    message_row_t *found) {
    for (;; --*budget) {
        uint64_t seq = 0;
        bytes_t key = BYTES_NONE;
        bytes_t value = BYTES_NONE;
        read_outcome_t outcome = message_lmdb_step(stream, from, &seq, &key, &value);
        switch (outcome) {
        case READ_UNKNOWN:
        case READ_NONE: return outcome;
        case READ_FOUND: break;
        }
        if (seq > upto) {
            return READ_NONE;
        }
        found_take(found, seq, key, value, value.size <= STAMP_VERIFIED);
        if (found->sound) {
            return READ_FOUND;
        }
        if (*budget == 0) {
            store_note_unknown(stream->store);
            return READ_UNKNOWN;
        }
        from = seq + 1;
    }
}

read_outcome_t message_stamp(store_stream_t *stream, uint64_t from, uint64_t upto, uint32_t *budget,
                             message_row_t *found) {
    uint64_t overlay_from = op_index_first(&stream->notes.by_seq);
    if (from < overlay_from && stream->notes.hidden_until == 0) {
        read_outcome_t outcome =
            stamp_in_lmdb(stream, from, upto < overlay_from ? upto : overlay_from - 1, budget, found);
        switch (outcome) {
        case READ_UNKNOWN:
        case READ_FOUND: return outcome;
        case READ_NONE: break;
        }
    }
    uint64_t index = op_index_find(&stream->notes.by_seq, from);
    if (index == op_index_count(&stream->notes.by_seq) || op_index_get(&stream->notes.by_seq, index).seq > upto) {
        return READ_NONE;
    }
    take_from_overlay(stream, op_index_get(&stream->notes.by_seq, index), found);
    return READ_FOUND;
}
