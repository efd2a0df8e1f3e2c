/* progress.c: see progress.h. */
#include "jetstream/progress.h"

#include "base/abi_types.h"
#include "base/check.h"
#include "store/record.h"

#define PROGRESS_SIZE 16

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

status_t progress_read(js_t *js, const stream_t *stream, bytes_t key, progress_t *progress) {
    progress_key_t full;
    bytes_t value;
    *progress = (progress_t){0};
    entry_outcome_t outcome =
        store_record_get(js->stores[stream->which_store], RECORD_SOURCE, progress_name(stream, key, &full), &value);
    switch (outcome) {
    case ENTRY_UNKNOWN: return STATUS_IO;
    case ENTRY_NONE:
    case ENTRY_DAMAGED: return STATUS_OK;
    case ENTRY_FOUND: break;
    }
    if (value.size >= 8) {
        progress->seq = load_be64(value.at);
        progress->newest_ts = value.size >= PROGRESS_SIZE ? (int64_t)load_be64(value.at + 8) : 0;
    }
    return STATUS_OK;
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
