/* append.c: one message in. Decides in the reference's order (tests/wire/jetstream.md, "Publishing"), then writes:
 * message, ids, expiry, source progress into the open batch, head and counters for when it closes, limits last.
 */
#include <stdlib.h>

#include "base/check.h"
#include "base/number.h"
#include "text/subject.h"
#include "store/append.h"
#include "store/message.h"
#include "store/overlay.h"

#define HEADER_MAX 65535
#define NEED_MORE (UINT64_C(32) * 1024) /* what a message needs beside its own bytes, at most: need_of */
#define EVICTION_SLACK 8192             /* room for what the limits will write in the same call */

typedef struct entry {
    store_stream_t *stream;
    const append_t *append;
    message_record_t message;
    uint64_t seq;
    uint64_t bytes;
    head_entry_t *head;
} entry_t;

static appended_t append_refused(append_verdict_t verdict) {
    return (appended_t){.verdict = verdict};
}

static bool expectation_holds(store_stream_t *stream, const append_t *append, appended_t *out) {
    if (append->has_expected_subject_seq) {
        bytes_t subject = append->expected_subject.size > 0 ? append->expected_subject : append->subject;
        uint64_t actual = stream->messages > 0 ? subjects_last(stream, subject) : 0;
        if (actual != append->expected_subject_seq) {
            *out = (appended_t){.verdict = APPEND_WRONG_LAST_SEQ, .seq = actual};
            return false;
        }
    }
    if (append->has_expected_last_seq && append->expected_last_seq != stream->last_seq) {
        *out = (appended_t){.verdict = APPEND_WRONG_LAST_SEQ, .seq = stream->last_seq};
        return false;
    }
    return true;
}

static bytes_t last_id(const store_stream_t *stream) {
    return bytes_of(stream->last_id, stream->last_id_size);
}

static bytes_t kept_id(bytes_t id) {
    return bytes_of(id.at, id.size < STORE_LAST_ID_MAX ? id.size : STORE_LAST_ID_MAX);
}

static uint64_t need_of(const entry_t *entry) {
    const append_t *append = entry->append;
    uint64_t need =
        EVICTION_SLACK + STREAM_PROMISE + message_size(&entry->message) + 2 * (uint64_t)append->subject.size;
    need += append->msg_id.size > 0 ? dedupe_need(append->msg_id) : 0;
    need += append->due_ts != 0 ? SCHEDULE_NEED : 0;
    need += append->source_key.size > 0 ? 64 + (uint64_t)append->source_key.size : 0;
    return need;
}

/* Discard new: would the message break a limit? Being one more on a subject that is full makes room by itself (old
 * goes, new comes). */
static append_verdict_t discard_new(const entry_t *entry) {
    const stream_config_t *config = &entry->stream->config;
    const store_stream_t *stream = entry->stream;
    bool subject_full =
        config->max_msgs_per_subject > 0 && entry->head->head.count >= (uint64_t)config->max_msgs_per_subject;
    bool per_subject = (config->flags & STREAM_DISCARD_NEW_PER_SUBJECT) != 0;
    if (per_subject && subject_full && entry->append->rollup == 0) {
        return APPEND_MAX_PER_SUBJECT;
    }
    if (config->max_msgs > 0 && stream->messages >= (uint64_t)config->max_msgs && !subject_full) {
        return APPEND_MAX_MSGS;
    }
    if (config->max_bytes > 0 && stream->bytes + entry->bytes > (uint64_t)config->max_bytes) {
        found_t oldest;
        if (!subject_full
            || subject_oldest(entry->stream, entry->head->head, entry->append->subject, &oldest) != STATUS_OK) {
            return APPEND_MAX_BYTES;
        }
        if (stream_message_bytes(stream, &oldest.message) < entry->bytes) {
            return APPEND_MAX_BYTES;
        }
    }
    return APPEND_STORED;
}

/* What a batch can hold at all, so that a message that never fits is not told to come again. */
static uint64_t message_max(const store_t *store) {
    return number_least(sizes_message_max(store->batches.size), STORE_MESSAGE_MAX);
}

/* A purge or a first sequence may put a stream at the end of its numbers. They never begin again: consumers and heads
 * rely on it, and on the number behind the last one. */
static bool in_range(uint64_t seq) {
    return seq != 0 && seq < UINT64_MAX;
}

/* Steps 2 to 16 of the reference's order that are the store's. */
static bool append_admit(entry_t *entry, int64_t age_now, appended_t *out) {
    const append_t *append = entry->append;
    store_stream_t *stream = entry->stream;
    const stream_config_t *config = &stream->config;
    uint64_t size = (uint64_t)append->header.size + append->payload.size;
    *out = append_refused(APPEND_STORED);
    if ((config->flags & STREAM_SEALED) != 0) {
        out->verdict = APPEND_SEALED;
    } else if (size + append->subject.size > message_max(stream->store) || append->subject.size > UINT16_MAX) {
        out->verdict = APPEND_TOO_LARGE;
    } else if (config->max_msg_size >= 0 && size > (uint64_t)config->max_msg_size) {
        out->verdict = APPEND_TOO_LARGE;
    } else if (append->header.size > HEADER_MAX) {
        out->verdict = APPEND_HEADER_TOO_LARGE;
    } else if (append->force_seq != 0 && append->force_seq <= stream->last_seq) {
        out->verdict = APPEND_OUT_OF_ORDER;
    } else if (!in_range(entry->seq)) {
        out->verdict = APPEND_NO_SPACE;
    }
    if (out->verdict != APPEND_STORED || !expectation_holds(stream, append, out)) {
        return false;
    }
    if (append->msg_id.size > 0 && config->duplicate_window_ns > 0
        && dedupe_find(stream, append->msg_id, age_now, &out->seq)) {
        out->verdict = APPEND_DUPLICATE;
        return false;
    }
    if (append->has_expected_msg_id && !bytes_equal(kept_id(append->expected_msg_id), last_id(stream))) {
        *out = (appended_t){.verdict = APPEND_WRONG_LAST_MSG_ID, .last_msg_id = last_id(stream)};
        return false;
    }
    bool may_roll = (config->flags & STREAM_ALLOW_ROLLUP) != 0 && (config->flags & STREAM_DENY_PURGE) == 0;
    if (append->rollup != 0 && !may_roll) {
        out->verdict = APPEND_NO_ROLLUP;
        return false;
    }
    return true;
}

/* How much may be taken so that one more message of any size finds room: in the ring, and in the open batch. Asked
 * after each message, so it is one position, which holds until the open batch is another or something was freed. */
void append_measure_room(store_t *store) {
    const batches_t *batches = &store->batches;
    store->holds = number_least(store->admits, store->resident / 8 * 7);
    if (store->space_trouble || store->io_trouble) {
        store->room_end = UINT64_MAX; /* publishers are to hear that they are refused, not to hang */
        return;
    }
    /* Larger ones than a batch can hold at all are refused: room is not kept for them, or there would never be any. */
    uint64_t largest = number_least(store->options.message_max, message_max(store));
    uint64_t one = number_least(largest + NEED_MORE, store->holds / 2);
    uint64_t open = number_less(batches->size / 2 - batches->size / SIZES_RESERVE_PART, one);
    uint64_t used = number_least(store->holds / 7 * 6, store->holds - one);
    store->room_end = number_least(batches->begin + number_least(open, store->holds / 7), batches->freed + used);
}

static bool space_for(const entry_t *entry) {
    store_t *store = entry->stream->store;
    if (store->space_trouble || store->io_trouble) {
        return false;
    }
    if (store->options.max_bytes != 0 && store->bytes + entry->bytes > store->options.max_bytes) {
        return false;
    }
    if (places_reserve(&entry->stream->places) != STATUS_OK) {
        return false;
    }
    uint64_t need = need_of(entry);
    if (batches_used(&store->batches) + store->batches.promised + need > store->holds) {
        return false; /* the disk has no room for so much (space.h), or memory has not */
    }
    return overlay_fits(store, need + store->batches.size / SIZES_RESERVE_PART);
}

static void write_message(entry_t *entry) {
    store_stream_t *stream = entry->stream;
    store_t *store = stream->store;
    store_key_t key;
    uint64_t position;
    key_message(&key, stream->id, entry->seq);
    uint8_t *value = overlay_put(store, DB_MESSAGES, key_bytes(&key), message_size(&entry->message), false, &position);
    message_write(value, key_bytes(&key), &entry->message);
    places_push(&stream->places, entry->seq, position);
    head_t *head = &entry->head->head;
    if (head->count == 0) {
        head->first = entry->seq;
        stream->subjects++;
        /* Without memory for the note the subject is not listed until it is checkpointed; nothing else needs it. */
        (void)!births_push(&stream->births, position);
    }
    head->last = entry->seq;
    head->count++;
    head_change(stream, entry->head);
}

void expiry_write(store_stream_t *stream, int64_t expires, uint64_t seq) {
    store_key_t key;
    uint64_t position;
    key_expiry(&key, stream->id, expires, seq);
    uint8_t *value = overlay_put(stream->store, DB_EXPIRY, key_bytes(&key), VALUE_CRC_SIZE, false, &position);
    value_seal(key_bytes(&key), value, VALUE_CRC_SIZE);
    /* Without memory it comes up once it is checkpointed. */
    (void)!expiries_push(&stream->expiries, (expiry_t){.expires = expires, .seq = seq, .position = position});
}

static void write_source(entry_t *entry) {
    const append_t *append = entry->append;
    uint8_t at[KEY_MAX];
    uint8_t *end = at;
    store_be32(end, entry->stream->id);
    memcpy(end + 4, append->source_key.at, append->source_key.size);
    store_key_t key;
    key_record(&key, RECORD_SOURCE, bytes_of(at, 4 + append->source_key.size));
    uint8_t *value = overlay_put(entry->stream->store, DB_RECORDS, key_bytes(&key), VALUE_CRC_SIZE + 8, true, NULL);
    store_be64(value + VALUE_CRC_SIZE, append->source_seq);
    value_seal(key_bytes(&key), value, VALUE_CRC_SIZE + 8);
}

static void append_advance(entry_t *entry) {
    store_stream_t *stream = entry->stream;
    bytes_t id = kept_id(entry->append->msg_id);
    stream_touch(stream);
    stream->last_seq = entry->seq;
    stream->last_ts = entry->message.ts;
    stream->last_born = entry->message.born;
    stream->last_id_size = id.size;
    if (id.size > 0) {
        memcpy(stream->last_id, id.at, id.size);
    }
    if (entry->append->msg_id.size > 0 && stream->config.duplicate_window_ns > 0) {
        dedupe_put(stream, entry->append->msg_id, entry->seq, entry->message.born);
    }
    if (entry->append->source_key.size > 0) {
        write_source(entry);
    }
}

static void append_skip(entry_t *entry) {
    store_stream_t *stream = entry->stream;
    append_advance(entry);
    if (stream->messages == 0) {
        stream->first_seq = entry->seq + 1;
        stream->first_known = false;
    }
}

static void store_it(entry_t *entry, int64_t age_now, int64_t wall_now) {
    store_stream_t *stream = entry->stream;
    entry->message.previous = entry->head->head.count > 0 ? entry->head->head.last : 0;
    write_message(entry);
    append_advance(entry);
    if (stream->messages == 0) {
        stream->first_seq = entry->seq;
        stream->first_ts = entry->message.ts;
        stream->first_born = entry->message.born;
        stream->first_known = true;
    }
    stream->messages++;
    stream->bytes += entry->bytes;
    stream->store->messages++;
    stream->store->bytes += entry->bytes;
    if (entry->append->expires_ts > 0) {
        int64_t left = entry->append->expires_ts - wall_now;
        expiry_write(stream, age_now + (left > 0 ? left : 0), entry->seq);
    }
    if (entry->append->due_ts != 0) {
        schedule_write(stream, entry->seq, entry->append->due_ts, wall_now);
    }
}

static void append_tell(const entry_t *entry) {
    store_stream_t *stream = entry->stream;
    const append_t *append = entry->append;
    store_hooks_t *hooks = &stream->store->hooks;
    if (hooks->appended != NULL) {
        hooks->appended(hooks->context, stream, entry->seq, append->subject);
    }
    if (LEAF_UNLIKELY(stream->tallies != NULL)) {
        tallies_appended(stream, entry->seq, append->subject);
    }
}

static void append_after(entry_t *entry) {
    store_stream_t *stream = entry->stream;
    const append_t *append = entry->append;
    append_tell(entry);
    if (stream->config.max_msgs_per_subject > 0) {
        limits_subject(stream, append->subject);
    }
    (void)limits_enforce(stream, STORE_STEP);
}

/* What a rollup takes out in one step. false: there is more. */
static bool append_roll(const entry_t *entry) {
    store_purge_t purge = {.filter = entry->append->rollup == 1 ? entry->append->subject : BYTES_NONE,
                           .below_seq = entry->seq};
    uint64_t purged;
    bool more = false;
    status_t status = store_purge(entry->stream, &purge, &purged, &more);
    store_purge_end(&purge);
    return status == STATUS_OK && !more;
}

bool append_instead(store_stream_t *stream, const found_t *found, bytes_t header, int64_t ttl_ns) {
    const clockwork_t *clock = &stream->store->clock;
    append_t append = {.subject = found->message.subject, .header = header, .expires_ts = clock->wall + ttl_ns};
    entry_t entry = {.stream = stream, .append = &append, .seq = stream->last_seq + 1};
    entry.message = (message_record_t){.subject = append.subject, .header = header};
    entry.message.ts = clock->wall < stream->last_ts ? stream->last_ts : clock->wall;
    entry.message.born = clock->age < stream->last_born ? stream->last_born : clock->age;
    entry.bytes = stream_message_bytes(stream, &entry.message);
    entry.head = places_reserve(&stream->places) == STATUS_OK ? head_fetch(stream, append.subject) : NULL;
    if (entry.head == NULL || !in_range(entry.seq) || !overlay_fits(stream->store, need_of(&entry))) {
        return false;
    }
    store_it(&entry, clock->age, clock->wall);
    append_tell(&entry);
    message_remove(stream, found, true);
    (void)limits_enforce(stream, STORE_STEP);
    return true;
}

appended_t store_append(store_stream_t *stream, const append_t *append, moment_t now) {
    store_clock(stream->store, now);
    int64_t age_now = stream->store->clock.age;
    entry_t entry = {.stream = stream, .append = append};
    entry.seq = append->force_seq != 0 ? append->force_seq : stream->last_seq + 1;
    entry.message =
        (message_record_t){.subject = append->subject, .header = append->header, .payload = append->payload};
    int64_t ts = append->force_ts != 0 ? append->force_ts : now.wall_ns;
    int64_t born = age_now;
    if (append->force_ts != 0 && append->force_ts < now.wall_ns) {
        born -= now.wall_ns - append->force_ts; /* a mirror's message has the age that it has at its origin */
    }
    entry.message.ts = ts < stream->last_ts ? stream->last_ts : ts;
    entry.message.born = born < stream->last_born ? stream->last_born : born;
    entry.message.flags = append->expires_ts < 0 ? MESSAGE_NEVER : 0;
    entry.message.flags |= append->due_ts != 0 ? MESSAGE_SCHEDULE : 0;
    entry.bytes = append->skip ? 0 : stream_message_bytes(stream, &entry.message);
    appended_t out;
    if (append->source_key.size > KEY_RECORD_MAX - 4 || !append_admit(&entry, age_now, &out)) {
        return append->source_key.size > KEY_RECORD_MAX - 4 ? append_refused(APPEND_NO_SPACE) : out;
    }
    if (!space_for(&entry)) {
        return append_refused(APPEND_NO_SPACE);
    }
    out = (appended_t){.verdict = APPEND_SKIPPED, .seq = entry.seq, .ts = entry.message.ts};
    if (append->skip) {
        append_skip(&entry);
        return out;
    }
    entry.head = head_fetch(stream, append->subject);
    out.verdict = entry.head == NULL            ? APPEND_NO_SPACE
                  : stream->config.discard == 1 ? discard_new(&entry)
                                                : APPEND_STORED;
    if (out.verdict != APPEND_STORED) {
        return append_refused(out.verdict);
    }
    store_it(&entry, age_now, now.wall_ns);
    append_after(&entry);
    out.rolling = append->rollup != 0 && !append_roll(&entry) ? append->rollup : 0;
    return out;
}
