/* read.c: messages by sequence: one, the next, the one before, the one before on its subject; by time; what is deleted.
 * The overlay first, then LMDB through the one kept cursor. Does not change anything; subjects.c has what goes by
 * subject.
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

/* The overlay's word on a deletion: STATUS_AGAIN: none; OK: a GONE link, in found; NOT_FOUND: deleted. */
static status_t found_deleted(store_stream_t *stream, uint64_t seq, bytes_t key, message_row_t *found) {
    batch_op_t op;
    uint64_t position;
    if (stream->notes.deletes[0] + stream->notes.deletes[1] == 0
        || !memtable_find(&stream->store->memtable, DB_MESSAGES, key, &op, &position)) {
        return STATUS_AGAIN;
    }
    if (position < stream->notes.hidden_until) {
        return STATUS_AGAIN; /* of an earlier stream with this id */
    }
    if (op.kind != OP_PUT || !message_read(op.key, op.value, &found->message)) {
        return STATUS_NOT_FOUND;
    }
    *found = (message_row_t){.seq = seq, .message = found->message, .value = op.value, .sound = true};
    return STATUS_OK;
}

static status_t found_take(message_row_t *found, uint64_t seq, bytes_t key, bytes_t value, bool verify) {
    found->seq = seq;
    found->value = value;
    found->sound = (!verify || value_sound(key, value)) && message_read(key, value, &found->message);
    return found->sound ? STATUS_OK : STATUS_CORRUPT;
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
    found->value = op.value;
    found->sound = message_read(op.key, op.value, &found->message);
    check(found->sound);
}

/* false: it was deleted since. */
static bool take_alive(store_stream_t *stream, indexed_op_t at, message_row_t *found) {
    store_key_t key;
    key_message(&key, stream->id, at.seq);
    if (found_deleted(stream, at.seq, key_bytes(&key), found) != STATUS_AGAIN) {
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
static status_t message_verified(store_stream_t *stream, uint64_t seq, uint32_t verified, message_row_t *found) {
    store_t *store = stream->store;
    if (seq < stream->log.first_seq || seq > stream->log.last_seq) {
        return STATUS_NOT_FOUND;
    }
    store_key_t key;
    key_message(&key, stream->id, seq);
    status_t status = found_deleted(stream, seq, key_bytes(&key), found);
    if (status != STATUS_AGAIN) {
        return status;
    }
    if (LEAF_UNLIKELY(stream->notes.fills.count > 0) && fill_at(stream, seq, found)) {
        return STATUS_OK;
    }
    if (seq >= op_index_first(&stream->notes.by_seq)) {
        uint64_t index = op_index_find(&stream->notes.by_seq, seq);
        if (index == op_index_count(&stream->notes.by_seq)) {
            return STATUS_NOT_FOUND;
        }
        indexed_op_t at = op_index_get(&stream->notes.by_seq, index);
        if (at.seq != seq) {
            return STATUS_NOT_FOUND;
        }
        take_from_overlay(stream, at, found);
        return STATUS_OK;
    }
    if (stream->notes.hidden_until != 0) {
        return STATUS_NOT_FOUND;
    }
    bytes_t value = BYTES_NONE;
    status = env_get(store->env, DB_MESSAGES, key_bytes(&key), &value);
    return status == STATUS_OK ? found_take(found, seq, key_bytes(&key), value, value.size <= verified) : status;
}

status_t message_find(store_stream_t *stream, uint64_t seq, bool verify, message_row_t *found) {
    return message_verified(stream, seq, verify ? UINT32_MAX : 0, found);
}

status_t message_link(store_stream_t *stream, uint64_t seq, message_row_t *found) {
    return message_verified(stream, seq, STAMP_VERIFIED, found);
}

void read_forget(store_t *store) {
    store->cursor.seq = 0;
}

/* Puts the cursor on the first LMDB message of the stream at or above from. */
static inline __attribute__((always_inline)) status_t message_lmdb_step(store_stream_t *stream, uint64_t from,
                                                                        uint64_t *seq, bytes_t *key, bytes_t *value) {
    store_t *store = stream->store;
    status_t status;
    store_key_t wanted;
    key_message(&wanted, stream->id, from);
    if (store->cursor.stream == stream->id && store->cursor.seq != 0 && store->cursor.seq + 1 == from) {
        status = env_next(store->env, DB_MESSAGES, key_bytes(&wanted), key, value);
    } else {
        status = env_seek(store->env, DB_MESSAGES, key_bytes(&wanted), key, value);
    }
    store->cursor.seq = 0;
    if (status != STATUS_OK) {
        return status;
    }
    if (key->size != MESSAGE_KEY_SIZE || load_be32(key->at) != stream->id) {
        return STATUS_NOT_FOUND;
    }
    *seq = load_be64(key->at + 4);
    store->cursor.stream = stream->id;
    store->cursor.seq = *seq;
    return STATUS_OK;
}

static status_t next_in_lmdb(store_stream_t *stream, uint64_t *from, uint64_t upto, bool verify, uint32_t *budget,
                             message_row_t *found) {
    while (*from <= upto) {
        uint64_t seq = 0;
        bytes_t key = BYTES_NONE;
        bytes_t value = BYTES_NONE;
        if (*budget == 0) {
            return STATUS_AGAIN;
        }
        --*budget;
        status_t status = message_lmdb_step(stream, *from, &seq, &key, &value);
        if (status != STATUS_OK) {
            return status;
        }
        if (seq > upto) {
            return STATUS_NOT_FOUND;
        }
        *from = seq + 1;
        if (found_deleted(stream, seq, key, found) != STATUS_AGAIN) {
            continue;
        }
        if (is_link(key, value)) {
            continue;
        }
        status = found_take(found, seq, key, value, verify);
        return status == STATUS_CORRUPT ? STATUS_OK : status;
    }
    return STATUS_NOT_FOUND;
}

static status_t next_in_overlay(store_stream_t *stream, uint64_t *from, uint64_t upto, uint32_t *budget,
                                message_row_t *found) {
    for (uint64_t i = op_index_find(&stream->notes.by_seq, *from); i < op_index_count(&stream->notes.by_seq); i++) {
        indexed_op_t at = op_index_get(&stream->notes.by_seq, i);
        if (at.seq > upto) {
            break;
        }
        if (*budget == 0) {
            *from = at.seq;
            return STATUS_AGAIN;
        }
        --*budget;
        if (take_alive(stream, at, found)) {
            return STATUS_OK;
        }
    }
    return STATUS_NOT_FOUND;
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

static status_t next_alive(store_stream_t *stream, uint64_t *from, uint64_t upto, bool verify, uint32_t *budget,
                           message_row_t *found) {
    uint64_t overlay_from = op_index_first(&stream->notes.by_seq);
    if (*from < overlay_from && stream->notes.hidden_until == 0) {
        status_t status =
            next_in_lmdb(stream, from, upto < overlay_from ? upto : overlay_from - 1, verify, budget, found);
        if (status != STATUS_NOT_FOUND) {
            return status;
        }
    }
    return next_in_overlay(stream, from, upto, budget, found);
}

/* The same, where a fill lies before what was found, or in place of it. */
static status_t next_or_fill(store_stream_t *stream, uint64_t begin, uint64_t *from, uint64_t upto, status_t status,
                             message_row_t *found) {
    uint64_t to = status == STATUS_OK ? found->seq : status == STATUS_AGAIN ? *from - 1 : upto;
    message_row_t filled;
    bool unknown = status_unknown(status) && status != STATUS_AGAIN;
    if (unknown || begin > to || !fill_next(stream, begin, to, &filled)) {
        return status;
    }
    *found = filled;
    *from = filled.seq + 1;
    return STATUS_OK;
}

status_t message_next_some(store_stream_t *stream, uint64_t *from, uint64_t upto, bool verify, uint32_t *budget,
                           message_row_t *found) {
    *from = *from < stream->log.first_seq ? stream->log.first_seq : *from;
    *from = stream->gaps != NULL ? gaps_over(stream->gaps, *from) : *from;
    upto = upto > stream->log.last_seq ? stream->log.last_seq : upto;
    if (*from > upto || stream->log.messages == 0) {
        return STATUS_NOT_FOUND;
    }
    uint64_t begin = *from;
    uint32_t before = *budget;
    status_t status = next_alive(stream, from, upto, verify, budget, found);
    if (LEAF_UNLIKELY(stream->notes.fills.count > 0)) {
        return next_or_fill(stream, begin, from, upto, status, found);
    }
    if (status == STATUS_OK) {
        learn_gap(stream, begin, found->seq - 1, before - *budget);
    } else if (status == STATUS_AGAIN) {
        learn_gap(stream, begin, *from - 1, before - *budget);
    } else if (status == STATUS_NOT_FOUND) {
        learn_gap(stream, begin, upto, before - *budget);
    }
    return status;
}

static status_t back_in_lmdb(store_stream_t *stream, uint64_t *from, uint32_t *budget, message_row_t *found) {
    store_t *store = stream->store;
    while (*from >= stream->log.first_seq && *from > 0) {
        if (*budget == 0) {
            return STATUS_AGAIN;
        }
        --*budget;
        store_key_t wanted;
        key_message(&wanted, stream->id, *from);
        bytes_t key = BYTES_NONE;
        bytes_t value = BYTES_NONE;
        store->cursor.seq = 0;
        status_t status = env_seek_back(store->env, DB_MESSAGES, key_bytes(&wanted), &key, &value);
        if (status != STATUS_OK) {
            return status;
        }
        if (key.size != MESSAGE_KEY_SIZE || load_be32(key.at) != stream->id) {
            return STATUS_NOT_FOUND;
        }
        uint64_t seq = load_be64(key.at + 4);
        if (seq < stream->log.first_seq) {
            return STATUS_NOT_FOUND;
        }
        *from = seq - 1;
        if (!is_link(key, value) && found_deleted(stream, seq, key, found) == STATUS_AGAIN) {
            status = found_take(found, seq, key, value, true);
            return status == STATUS_CORRUPT ? STATUS_OK : status;
        }
    }
    return STATUS_NOT_FOUND;
}

static status_t back_alive(store_stream_t *stream, uint64_t *from, uint32_t *budget, message_row_t *found) {
    uint64_t overlay_from = op_index_first(&stream->notes.by_seq);
    if (*from >= overlay_from) {
        uint64_t i = op_index_find(&stream->notes.by_seq, *from);
        if (i == op_index_count(&stream->notes.by_seq) || op_index_get(&stream->notes.by_seq, i).seq > *from) {
            i--;
        }
        for (;; i--) {
            indexed_op_t at = op_index_get(&stream->notes.by_seq, i);
            if (at.seq < stream->log.first_seq) {
                return STATUS_NOT_FOUND;
            }
            *from = at.seq;
            if (*budget == 0) {
                return STATUS_AGAIN;
            }
            --*budget;
            if (take_alive(stream, at, found)) {
                return STATUS_OK;
            }
            if (i == 0) {
                break;
            }
        }
        *from = overlay_from - 1;
    }
    return stream->notes.hidden_until != 0 ? STATUS_NOT_FOUND : back_in_lmdb(stream, from, budget, found);
}

static status_t back_or_fill(store_stream_t *stream, uint64_t begin, uint64_t *from, status_t status,
                             message_row_t *found) {
    uint64_t to = status == STATUS_OK ? found->seq : status == STATUS_AGAIN ? *from + 1 : stream->log.first_seq;
    message_row_t filled;
    bool unknown = status_unknown(status) && status != STATUS_AGAIN;
    if (unknown || to > begin || !fill_back(stream, to, begin, &filled)) {
        return status;
    }
    *found = filled;
    *from = filled.seq - 1;
    return STATUS_OK;
}

status_t message_back_some(store_stream_t *stream, uint64_t *from, uint32_t *budget, message_row_t *found) {
    *from = *from > stream->log.last_seq ? stream->log.last_seq : *from;
    *from = stream->gaps != NULL ? gaps_back(stream->gaps, *from) : *from;
    uint64_t begin = *from;
    uint32_t before = *budget;
    status_t status = back_alive(stream, from, budget, found);
    if (LEAF_UNLIKELY(stream->notes.fills.count > 0)) {
        return back_or_fill(stream, begin, from, status, found);
    }
    if (status == STATUS_OK) {
        learn_gap(stream, found->seq + 1, begin, before - *budget);
    } else if (status == STATUS_AGAIN) {
        learn_gap(stream, *from + 1, begin, before - *budget);
    }
    return status;
}

status_t message_chain(store_stream_t *stream, const message_record_t *message, uint64_t floor, uint32_t *steps,
                       message_row_t *found) {
    uint64_t seq = message->previous;
    floor = floor < stream->log.first_seq ? stream->log.first_seq : floor;
    while (seq >= floor && seq > 0) {
        if (*steps == 0) {
            return STATUS_AGAIN;
        }
        --*steps;
        status_t status = message_find(stream, seq, false, found);
        if (status != STATUS_OK) {
            return status;
        }
        if ((found->message.flags & MESSAGE_GONE) == 0) {
            return STATUS_OK;
        }
        if (found->message.previous >= seq) {
            return STATUS_CORRUPT;
        }
        seq = found->message.previous;
    }
    return STATUS_NOT_FOUND;
}

void message_row_out(const message_row_t *found, stored_message_t *out) {
    *out = (stored_message_t){.seq = found->seq,
                              .ts = found->message.ts,
                              .subject = found->message.subject,
                              .header = found->message.header,
                              .payload = found->message.payload};
}

status_t store_read(store_stream_t *stream, uint64_t seq, stored_message_t *out) {
    message_row_t found;
    status_t status = message_find(stream, seq, true, &found);
    if (status == STATUS_CORRUPT) {
        store_corrupt(stream->store, stream, stream->id, seq, "a message");
    }
    if (status != STATUS_OK) {
        return status;
    }
    if ((found.message.flags & MESSAGE_GONE) != 0) {
        return STATUS_NOT_FOUND;
    }
    message_row_out(&found, out);
    return STATUS_OK;
}

/* Finds the range in which a filter's messages can lie: narrows [from, upto] by the heads of literal filters. false:
 * nowhere. */
static bool filters_narrow(store_stream_t *stream, filters_t filters, uint64_t *from, uint64_t *upto) {
    uint64_t lowest = UINT64_MAX;
    uint64_t highest = 0;
    if (filters.count == 0 || filters.count > 8) {
        return true;
    }
    for (uint32_t i = 0; i < filters.count; i++) {
        head_t head;
        if (subject_has_wildcard(filters.patterns[i])) {
            return true;
        }
        switch (head_look(stream, filters.patterns[i], &head)) {
        case READ_UNKNOWN: return true; /* not narrower than it was */
        case READ_NONE: break;
        case READ_FOUND:
            lowest = number_least(head.first, lowest);
            highest = number_most(head.last, highest);
            break;
        }
    }
    *from = lowest > *from ? lowest : *from;
    *upto = highest < *upto ? highest : *upto;
    return *from <= *upto;
}

status_t next_counted(store_stream_t *stream, filters_t filters, uint64_t *from, uint64_t upto, uint32_t *budget,
                      stored_message_t *out) {
    uint64_t last = upto;
    if (!filters_narrow(stream, filters, from, &last)) {
        return STATUS_NOT_FOUND;
    }
    while (*budget > 0) {
        message_row_t found;
        status_t status = message_next_some(stream, from, last, true, budget, &found);
        if (status != STATUS_OK) {
            return status;
        }
        *from = found.seq;
        if (!found.sound) {
            store_corrupt(stream->store, stream, stream->id, found.seq, "a message");
        } else if (filters_match(filters, found.message.subject)) {
            message_row_out(&found, out);
            return STATUS_OK;
        }
        *from = found.seq + 1;
    }
    return STATUS_AGAIN;
}

status_t store_next(store_stream_t *stream, filters_t filters, uint64_t *from, uint64_t upto, uint32_t budget,
                    stored_message_t *out) {
    return next_counted(stream, filters, from, upto, &budget, out);
}

/* The first record of LMDB at or after from, up to upto, whose stamp can be read; also that of a deleted message: its
 * link keeps it. STATUS_NOT_FOUND: there is none; STATUS_IO: more damaged ones than the budget lie before it. */
static status_t stamp_in_lmdb(store_stream_t *stream, uint64_t from, uint64_t upto, uint32_t *budget,
                              message_row_t *found) {
    for (;; --*budget) {
        uint64_t seq = 0;
        bytes_t key = BYTES_NONE;
        bytes_t value = BYTES_NONE;
        status_t status = message_lmdb_step(stream, from, &seq, &key, &value);
        if (status != STATUS_OK || seq > upto) {
            return status != STATUS_OK ? status : STATUS_NOT_FOUND;
        }
        if (found_take(found, seq, key, value, value.size <= STAMP_VERIFIED) == STATUS_OK) {
            return STATUS_OK;
        }
        if (*budget == 0) {
            store_note_unknown(stream->store);
            return STATUS_IO;
        }
        from = seq + 1;
    }
}

static status_t stamp_from(store_stream_t *stream, uint64_t from, uint64_t upto, uint32_t *budget,
                           message_row_t *found) {
    uint64_t overlay_from = op_index_first(&stream->notes.by_seq);
    if (from < overlay_from && stream->notes.hidden_until == 0) {
        status_t status = stamp_in_lmdb(stream, from, upto < overlay_from ? upto : overlay_from - 1, budget, found);
        if (status != STATUS_NOT_FOUND) {
            return status;
        }
    }
    uint64_t index = op_index_find(&stream->notes.by_seq, from);
    if (index == op_index_count(&stream->notes.by_seq) || op_index_get(&stream->notes.by_seq, index).seq > upto) {
        return STATUS_NOT_FOUND;
    }
    take_from_overlay(stream, op_index_get(&stream->notes.by_seq, index), found);
    return STATUS_OK;
}

/* Stamps never run backwards within a stream, whatever the clock does (append.c), and what a deleted message leaves has
 * its stamp, so the place is found by halves, by the first message of a half whose stamp can be read. What may be long
 * is the row of deleted messages behind it. */
status_t store_seq_at_time(store_stream_t *stream, int64_t ts, uint32_t budget, uint64_t *seq) {
    uint64_t high = stream->log.last_seq + 1;
    *seq = stream->log.first_seq; /* below it all is older; the place is in [*seq, high] */
    while (*seq < high) {
        uint64_t middle = *seq + (high - *seq) / 2;
        message_row_t found;
        status_t status = stamp_from(stream, middle, high - 1, &budget, &found);
        if (status_unknown(status)) {
            return status;
        }
        if (status == STATUS_OK && found.message.ts < ts) {
            *seq = found.seq + 1;
        } else {
            high = middle;
        }
    }
    while (budget > 0) {
        message_row_t found;
        status_t status = message_next_some(stream, seq, stream->log.last_seq, false, &budget, &found);
        if (status != STATUS_OK) {
            return status;
        }
        *seq = found.seq;
        if (found.sound && found.message.ts >= ts) {
            return STATUS_OK;
        }
        ++*seq;
    }
    return STATUS_AGAIN;
}

status_t store_deleted(store_stream_t *stream, uint64_t *from, uint64_t upto, uint32_t budget,
                       bool (*visit)(void *context, uint64_t seq), void *context) {
    upto = upto > stream->log.last_seq ? stream->log.last_seq : upto;
    *from = *from < stream->log.first_seq ? stream->log.first_seq : *from;
    uint32_t looks = budget; /* apart from visits: a row of links that is longer than the budget must still end */
    while (*from <= upto) {
        message_row_t found;
        uint64_t at = *from;
        status_t status = message_next_some(stream, &at, upto, false, &looks, &found);
        if (status_unknown(status) && status != STATUS_AGAIN) {
            return status;
        }
        uint64_t alive = status == STATUS_OK ? found.seq : status == STATUS_AGAIN ? at : upto + 1;
        for (; *from < alive; ++*from) {
            if (budget-- == 0) {
                return STATUS_AGAIN;
            }
            if (!visit(context, *from)) {
                return STATUS_OK;
            }
        }
        if (status == STATUS_AGAIN) {
            return status;
        }
        *from = alive + 1;
    }
    return STATUS_OK;
}
