/* replica_source.c: how far a source of a replicated stream has come (replica.h): a record of the stream, as the store
 * writes it with a message.
 */
#include "base/status.h"
#include "group/replica_entry.h"
#include "group/replica_private.h"
#include "store/record.h"

typedef struct source_name {
    uint8_t at[4 + SOURCE_KEY_MAX];
} source_name_t;

/* The key of the record of how far a source has come. */
static bytes_t source_name_of(const replica_t *replica, bytes_t source_key, source_name_t *name) {
    store_be32(name->at, store_stream_id(replica->stream));
    return bytes_of(name->at, (uint32_t)(bytes_write(name->at + 4, source_key) - name->at));
}

bool replica_source_came(const replica_t *replica, const append_t *append) {
    source_name_t name;
    uint8_t value[16];
    if (append->source_key.size == 0) {
        return true;
    }
    store_be64(value, append->source_seq);
    store_be64(value + 8, (uint64_t)append->source_ts);
    return store_record_put(store_stream_store(replica->stream), RECORD_SOURCE,
                            source_name_of(replica, append->source_key, &name), bytes_of(value, sizeof value))
           == STATUS_OK;
}

read_outcome_t replica_source_goes_on(const replica_t *replica, const append_t *append) {
    source_name_t name;
    bytes_t value;
    uint64_t come = 0;
    if (!append->has_source_before) {
        return READ_FOUND;
    }
    switch (store_record_get(store_stream_store(replica->stream), RECORD_SOURCE,
                             source_name_of(replica, append->source_key, &name), &value)) {
    case ENTRY_UNKNOWN:
    case ENTRY_DAMAGED:
        return READ_UNKNOWN; /* other members may have it: this one waits, and does not differ from them */
    case ENTRY_NONE: break;
    case ENTRY_FOUND: come = value.size >= 8 ? load_be64(value.at) : 0; break;
    }
    return come == append->source_before ? READ_FOUND : READ_NONE;
}
