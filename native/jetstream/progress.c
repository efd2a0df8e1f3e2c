/* progress.c: see progress.h. */
#include "jetstream/progress.h"

#include "base/abi_types.h"
#include "base/check.h"
#include "store/record.h"
#include "store/store.h"
#include "text/decimal.h"
#include "text/headers.h"

#define PROGRESS_SIZE 16
#define LOOK_MAX 1024u /* of a stream's newest messages, within one turn */

typedef struct progress_key {
    uint8_t at[4 + PROGRESS_KEY_MAX];
    uint32_t size;
} progress_key_t;

static bytes_t progress_name(const stream_t *stream, bytes_t key, progress_key_t *full) {
    check(key.size <= PROGRESS_KEY_MAX);
    store_be32(full->at, stream->id);
    if (key.size != 0) {
        memcpy(full->at + 4, key.at, key.size);
    }
    full->size = 4 + key.size;
    return bytes_of(full->at, full->size);
}

/* ---- what messages tell ------------------------------------------------------------------------------------------ */

static bool next_word(bytes_t *text, bytes_t *word) {
    uint32_t size = 0;
    while (size < text->size && text->at[size] != ' ') {
        size++;
    }
    *word = bytes_of(text->at, size);
    *text = bytes_after(*text, size < text->size ? size + 1 : size);
    return size != 0;
}

bool progress_named(bytes_t header, uint8_t *at, bytes_t *key, uint64_t *seq) {
    bytes_t value, number, parts[3];
    if (!headers_find(header, BYTES_LITERAL("Nats-Stream-Source"), &value) || !next_word(&value, &parts[0])
        || !next_word(&value, &number) || !next_word(&value, &parts[1]) || !next_word(&value, &parts[2])
        || !decimal_parse(number, seq)
        || (uint64_t)parts[0].size + parts[1].size + parts[2].size + 2 > PROGRESS_KEY_MAX) {
        return false;
    }
    uint8_t *end = bytes_write(at, parts[0]);
    *end++ = ' ';
    end = bytes_write(end, parts[1]);
    *end++ = ' ';
    end = bytes_write(end, parts[2]);
    *key = bytes_of(at, (uint32_t)(end - at));
    return true;
}

/* Behind a sequence without a message nobody knows whether a later one of that source was removed there: to take it
 * once more would double it. */
static entry_outcome_t progress_by_messages(const stream_t *stream, bytes_t key, progress_t *progress) {
    uint8_t at[PROGRESS_KEY_MAX];
    stream_state_t state;
    store_stream_state(stream->store, &state);
    for (uint64_t seq = state.last_seq; seq >= state.first_seq && state.last_seq - seq < LOOK_MAX && seq != 0; seq--) {
        stored_message_t message;
        bytes_t named;
        switch (store_read(stream->store, seq, &message)) {
        case ENTRY_UNKNOWN: return ENTRY_UNKNOWN;
        case ENTRY_NONE:
        case ENTRY_DAMAGED: return ENTRY_DAMAGED;
        case ENTRY_FOUND: break;
        }
        if (progress_named(message.header, at, &named, &progress->seq) && bytes_equal(named, key)) {
            return ENTRY_FOUND;
        }
        progress->seq = 0;
    }
    return ENTRY_DAMAGED;
}

/* ---- the record -------------------------------------------------------------------------------------------------- */

entry_outcome_t progress_read(js_t *js, const stream_t *stream, bytes_t key, progress_t *progress) {
    progress_key_t full;
    bytes_t value;
    *progress = (progress_t){0};
    entry_outcome_t outcome =
        store_record_get(js->stores[stream->which_store], RECORD_SOURCE, progress_name(stream, key, &full), &value);
    switch (outcome) {
    case ENTRY_UNKNOWN:
    case ENTRY_NONE: return outcome;
    case ENTRY_DAMAGED: return progress_by_messages(stream, key, progress);
    case ENTRY_FOUND: break;
    }
    if (value.size >= 8) {
        progress->seq = load_be64(value.at);
        progress->newest_ts = value.size >= PROGRESS_SIZE ? (int64_t)load_be64(value.at + 8) : 0;
    }
    return outcome;
}

status_t progress_write(js_t *js, const stream_t *stream, bytes_t key, progress_t progress) {
    progress_key_t full;
    uint8_t value[PROGRESS_SIZE];
    store_be64(value, progress.seq);
    store_be64(value + 8, (uint64_t)progress.newest_ts);
    return store_record_put(js->stores[stream->which_store], RECORD_SOURCE, progress_name(stream, key, &full),
                            bytes_of(value, sizeof value));
}

status_t progress_forget(js_t *js, const stream_t *stream, bytes_t key) {
    progress_key_t full;
    return store_record_delete(js->stores[stream->which_store], RECORD_SOURCE, progress_name(stream, key, &full));
}
