/* dedupe.c: message ids and their window. An id counts for duplicate_window of elapsed time after its message, whatever
 * became of the message, and over restarts.
 *
 * A look goes to the filter (idfilter.h), then to the overlay, then to LMDB, and the age in the record decides; so
 * removing old ids is only housekeeping. It walks LMDB's id order from the oldest and takes out an id when it still
 * belongs to that sequence.
 */
#include <stdlib.h>

#include "base/check.h"
#include "base/hash.h"
#include "store/dedupe.h"
#include "store/idfilter.h"
#include "store/overlay.h"

uint64_t dedupe_need(bytes_t id) {
    return 2 * (OP_HEADER_SIZE + (uint64_t)KEY_MAX + ID_FIXED_SIZE + id.size);
}

static read_outcome_t dedupe_oldest(store_stream_t *stream, uint64_t *seq, int64_t *born, bytes_t *id);

/* Begins the filter of a stream of which this process has put no id yet. What an earlier one put is in LMDB, or in what
 * was adopted. */
static void filter_begin(store_stream_t *stream) {
    uint64_t seq;
    int64_t born;
    bytes_t id;
    stream->ids.filter = malloc(sizeof *stream->ids.filter);
    if (stream->ids.filter != NULL) {
        bool none = false;
        switch (dedupe_oldest(stream, &seq, &born, &id)) {
        case READ_NONE: none = stream->store->adopted.end == 0; break;
        case READ_UNKNOWN:
        case READ_FOUND: break;
        }
        int64_t window_ns = stream->config.duplicate_window_ns;
        idfilter_open(stream->ids.filter, window_ns, none ? INT64_MIN : stream_age(stream) + window_ns);
    }
}

void dedupe_end(store_stream_t *stream) {
    if (stream->ids.filter != NULL) {
        idfilter_close(stream->ids.filter, &stream->store->ids_bytes);
        free(stream->ids.filter);
        stream->ids.filter = NULL;
    }
}

/* NULL: no memory for it. */
static id_filter_t *filter_of(store_stream_t *stream) {
    int64_t window_ns = stream->config.duplicate_window_ns;
    if (LEAF_UNLIKELY(stream->ids.filter == NULL)) {
        filter_begin(stream);
    } else if (LEAF_UNLIKELY(stream->ids.filter->window_ns != window_ns)) {
        /* ids that were let go may count again */
        stream->ids.filter->window_ns = window_ns;
        stream->ids.filter->complete = stream_age(stream) + window_ns;
    }
    return stream->ids.filter;
}

/* Finds the message with the id, and when it was born; however long ago. */
static read_outcome_t id_find(store_stream_t *stream, bytes_t id, uint64_t *seq, int64_t *born) {
    store_key_t key;
    bytes_t value = BYTES_NONE;
    bytes_t text = BYTES_NONE;
    key_text(&key, stream->id, id);
    switch (overlay_get(stream->store, DB_IDS, key_bytes(&key), &value)) {
    case ENTRY_UNKNOWN: return READ_UNKNOWN;
    case ENTRY_NONE:
    case ENTRY_DAMAGED: return READ_NONE; /* of one that was alarmed: publishing it again is not refused */
    case ENTRY_FOUND: break;
    }
    bytes_t whole = bytes_of(value.at - VALUE_CRC_SIZE, value.size + VALUE_CRC_SIZE);
    return id_read(key_bytes(&key), whole, &text, seq, born) && bytes_equal(text, id) ? READ_FOUND : READ_NONE;
}

read_outcome_t dedupe_find(store_stream_t *stream, bytes_t id, int64_t age_now, uint64_t *seq) {
    const id_filter_t *filter = filter_of(stream);
    if (LEAF_LIKELY(filter != NULL && idfilter_absent(filter, hash_bytes(id.at, id.size), age_now))) {
        return READ_NONE;
    }
    int64_t born = 0;
    uint64_t first = 0;
    read_outcome_t outcome = id_find(stream, id, &first, &born);
    switch (outcome) {
    case READ_UNKNOWN:
    case READ_NONE: return outcome;
    case READ_FOUND: break;
    }
    if (age_now - born >= stream->config.duplicate_window_ns) {
        return READ_NONE; /* whether or not housekeeping has come by */
    }
    *seq = first;
    return READ_FOUND;
}

void dedupe_put(store_stream_t *stream, bytes_t id, uint64_t seq, int64_t born) {
    store_t *store = stream->store;
    store_key_t key;
    key_text(&key, stream->id, id);
    uint8_t *value = overlay_put(store, DB_IDS, key_bytes(&key), id_size(id), true, NULL);
    id_write(value, key_bytes(&key), id, seq, born);
    key_message(&key, stream->id, seq);
    uint32_t size = ID_ORDER_FIXED_SIZE + id.size;
    value = overlay_put(store, DB_ID_ORDER, key_bytes(&key), size, false, NULL);
    store_be64(value + VALUE_CRC_SIZE, (uint64_t)born);
    memcpy(value + ID_ORDER_FIXED_SIZE, id.at, id.size);
    value_seal(key_bytes(&key), value, size);
    id_filter_t *filter = filter_of(stream);
    if (LEAF_LIKELY(filter != NULL)) {
        idfilter_note(filter, hash_bytes(id.at, id.size), born, stream_age(stream), &store->ids_bytes);
    }
}

/* LMDB's first entry of the id order behind what is done. */
static read_outcome_t dedupe_oldest(store_stream_t *stream, uint64_t *seq, int64_t *born, bytes_t *id) {
    store_key_t from;
    bytes_t key = BYTES_NONE;
    bytes_t value = BYTES_NONE;
    if (stream->notes.hidden_until != 0) {
        return READ_NONE;
    }
    key_message(&from, stream->id, stream->ids.done);
    read_outcome_t outcome = env_seek(stream->store->env, DB_ID_ORDER, key_bytes(&from), &key, &value);
    switch (outcome) {
    case READ_UNKNOWN:
    case READ_NONE: return outcome;
    case READ_FOUND: break;
    }
    if (key.size != MESSAGE_KEY_SIZE || load_be32(key.at) != stream->id) {
        return READ_NONE;
    }
    *seq = load_be64(key.at + 4);
    *born = 0; /* damaged: out with it */
    *id = BYTES_NONE;
    if (value_sound(key, value) && value.size >= ID_ORDER_FIXED_SIZE) {
        *born = (int64_t)load_be64(value.at + VALUE_CRC_SIZE);
        *id = bytes_of(value.at + ID_ORDER_FIXED_SIZE, value.size - ID_ORDER_FIXED_SIZE);
    }
    return READ_FOUND;
}

/* false: it is not known which message the id belongs to. */
static bool dedupe_forget(store_stream_t *stream, bytes_t id, uint64_t seq) {
    store_key_t key;
    uint64_t newest = 0;
    int64_t born = 0;
    read_outcome_t outcome = id.size == 0 ? READ_NONE : id_find(stream, id, &newest, &born);
    switch (outcome) {
    case READ_UNKNOWN: return false;
    case READ_NONE: return true;
    case READ_FOUND: break;
    }
    if (newest == seq) {
        key_text(&key, stream->id, id);
        overlay_delete(stream->store, DB_IDS, key_bytes(&key), false);
    }
    return true;
}

void dedupe_expire(store_stream_t *stream, int64_t age_now, uint32_t *steps) {
    store_t *store = stream->store;
    store_key_t from;
    uint64_t before = stream->ids.done;
    if (*steps == 0 || stream->ids.next > age_now) {
        return;
    }
    stream->ids.next = INT64_MAX;
    for (; *steps > 0; (*steps)--) {
        uint64_t seq = 0;
        int64_t born = 0;
        bytes_t id = BYTES_NONE;
        bool there = false;
        switch (dedupe_oldest(stream, &seq, &born, &id)) {
        case READ_UNKNOWN: stream->ids.next = age_now; break;
        case READ_NONE: stream->ids.next = INT64_MAX; break;
        case READ_FOUND:
            there = true;
            stream->ids.next = born + stream->config.duplicate_window_ns;
            break;
        }
        if (!there || stream->ids.next > age_now || !overlay_fits(store, 4 * KEY_MAX)
            || !dedupe_forget(stream, id, seq)) {
            break;
        }
        stream->ids.done = seq + 1;
    }
    if (stream->ids.done > before) {
        store_key_t to;
        key_message(&from, stream->id, before);
        key_message(&to, stream->id, stream->ids.done);
        overlay_delete_range(store, DB_ID_ORDER, key_bytes(&from), key_bytes(&to));
    }
}

void dedupe_look_again(store_stream_t *stream) {
    stream->ids.next = 0;
}

/* Housekeeping may be late by some seconds; it need not wake anybody for each id. */
int64_t dedupe_deadline(store_stream_t *stream) {
    if (stream->config.duplicate_window_ns <= 0 || stream->ids.next == INT64_MAX) {
        /* without a window nobody moves ids_next on: a deadline in the past kept the plane awake for ever */
        return INT64_MAX;
    }
    return stream->ids.next + NS_PER_SECOND;
}
