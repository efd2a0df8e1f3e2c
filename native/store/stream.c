/* stream.c: a stream's life (open, configure, remove) and what is asked of it as a whole. Its numbers: log.c.
 */
#include <stdlib.h>

#include "base/check.h"
#include "base/number.h"
#include "store/charge.h"
#include "store/dedupe.h"
#include "store/follow.h"
#include "store/message.h"
#include "store/overlay.h"
#include "store/record.h"
#include "store/recount.h"

void stream_rotate(store_stream_t *stream) {
    notes_rotate(stream);
    expire_rotate(stream);
}

void stream_drop(store_stream_t *stream) {
    notes_drop(stream);
    expire_drop(stream);
    dedupe_look_again(stream);
}

/* ---- opening and closing a stream -------------------------------------------------------------------------------- */

void stream_release(store_stream_t *stream) {
    check(stream->tallies == NULL);
    notes_free(stream);
    expire_free(stream);
    follows_end(stream);
    free(stream->gaps);
    recount_end(stream);
    reckon_leave(stream);
    dedupe_end(stream);
    free(stream);
}

static status_t stream_load(store_stream_t *stream, bool *stored) {
    store_key_t key;
    bytes_t value = BYTES_NONE;
    log_key(&key, stream->id);
    entry_outcome_t outcome = overlay_get(stream->store, DB_RECORDS, key_bytes(&key), &value);
    *stored = false;
    switch (outcome) {
    case ENTRY_UNKNOWN:
    case ENTRY_DAMAGED: return entry_status(outcome);
    case ENTRY_NONE: return STATUS_OK;
    case ENTRY_FOUND: break;
    }
    *stored = true;
    return log_read(&stream->log, value);
}

store_stream_t *stream_with(const store_t *store, uint32_t id) {
    for (uint32_t i = 0; i < store->streams.count; i++) {
        if (store->streams.at[i]->id == id) {
            return store->streams.at[i];
        }
    }
    return NULL;
}

status_t store_stream_unused(store_t *store, uint32_t id) {
    if (stream_with(store, id) != NULL) {
        return STATUS_EXISTS;
    }
    store_key_t key;
    bytes_t found = BYTES_NONE;
    bytes_t value = BYTES_NONE;
    log_key(&key, id);
    switch (overlay_get(store, DB_RECORDS, key_bytes(&key), &value)) {
    case ENTRY_UNKNOWN: return STATUS_IO;
    case ENTRY_DAMAGED:
    case ENTRY_FOUND: return STATUS_EXISTS;
    case ENTRY_NONE: break;
    }
    uint8_t prefix[4];
    store_be32(prefix, id);
    if (memtable_covers(&store->memtable, DB_MESSAGES, bytes_of(prefix, sizeof prefix)) != 0) {
        return STATUS_OK; /* all of it is removed, though not in LMDB yet */
    }
    /* The page with the state may be lost, too: what counts are messages. */
    key_message(&key, id, 0);
    switch (env_seek(store->env, DB_MESSAGES, key_bytes(&key), &found, &value)) {
    case READ_UNKNOWN: return STATUS_IO;
    case READ_NONE: return STATUS_OK;
    case READ_FOUND: break;
    }
    return found.size >= sizeof prefix && load_be32(found.at) == id ? STATUS_EXISTS : STATUS_OK;
}

status_t store_stream_open(store_t *store, uint32_t id, const stream_config_t *config, moment_t now,
                           store_stream_t **out) {
    *out = NULL;
    store_clock(store, now);
    if (stream_with(store, id) != NULL) {
        return STATUS_EXISTS;
    }
    if (id == UINT32_MAX) {
        return STATUS_INVALID;
    }
    store_stream_t *stream = calloc(1, sizeof *stream);
    if (stream == NULL) {
        return STATUS_NO_MEMORY;
    }
    stream->store = store;
    stream->id = id;
    stream->config = *config;
    stream->allowance = &store->unowned;
    stream->copies = copies_of(config);
    heads_join(stream);
    bool stored = false;
    status_t status = stream_load(stream, &stored);
    if (status == STATUS_OK && !stored && !overlay_fits(store, STREAM_PROMISE)) {
        status = STATUS_FULL;
    }
    if (status == STATUS_OK && stored && store->adopted.end > 0) {
        status = adopt_stream(stream);
    }
    if (!stored) {
        log_begin(&stream->log, number_most(config->first_seq, 1));
        (void)notes_hide(stream);
    }
    if (status == STATUS_OK) {
        status = carried_open(stream, store->streams.count + 1);
    }
    if (status == STATUS_OK) {
        status = list_add(&store->streams, stream);
    }
    if (status != STATUS_OK) {
        stream_release(stream);
        return status;
    }
    if (!stored) {
        stream_touch(stream);
    }
    expire_open(stream);
    log_join(stream);
    if (stored && !stream->log.stopped) {
        uint32_t steps = STORE_STEP;
        limits_load_surplus(stream);
        limits_enforce(stream, &steps);
    }
    store_look_over(store);
    if (stored) {
        store_look_soon(store); /* a new one has nothing, and its first batch comes before its first deadline */
    }
    *out = stream;
    return STATUS_OK;
}

void store_stream_configure(store_stream_t *stream, const stream_config_t *config, moment_t now) {
    store_clock(stream->store, now);
    int64_t before = stream->config.max_msgs_per_subject;
    stream->config = *config;
    allowance_weigh(stream);
    if (config->max_msgs_per_subject > 0 && (before <= 0 || config->max_msgs_per_subject < before)) {
        limits_note_surplus(stream, stream->log.first_seq);
    }
    expire_look_again(stream);
    dedupe_look_again(stream);
    store_look_soon(stream->store);
    uint32_t steps = STORE_STEP;
    limits_enforce(stream, &steps);
    steps = LOOK_STEPS;
    if (!stream->timeline.own) {
        (void)limits_expire(stream, stream->store->clock.age, &steps); /* or with the next tick */
    }
}

static const uint32_t stream_record_kinds[] = {
    RECORD_STREAM,      RECORD_CONSUMER,     RECORD_SOURCE,        RECORD_CONSUMER_STATE, RECORD_CONSUMER_PENDING,
    RECORD_SCHEDULE,    RECORD_THIN,         RECORD_HOLE,          RECORD_SESSION,        RECORD_SESSION_IN,
    RECORD_SESSION_OUT, RECORD_SESSION_WILL, RECORD_SESSION_SHARED};
static const store_db_t stream_dbs[] = {DB_MESSAGES, DB_IDS, DB_ID_ORDER, DB_EXPIRY}; /* heads: heads_leave */

status_t store_stream_remove(store_stream_t *stream) {
    store_t *store = stream->store;
    uint8_t id[4];
    store_be32(id, stream->id);
    if (!overlay_fits(store, 1024)) {
        return STATUS_FULL;
    }
    heads_leave(stream);
    store_key_t key;
    for (size_t i = 0; i < sizeof stream_dbs / sizeof *stream_dbs; i++) {
        overlay_delete_prefix(store, stream_dbs[i], bytes_of(id, 4));
    }
    for (size_t i = 0; i < sizeof stream_record_kinds / sizeof *stream_record_kinds; i++) {
        key_record(&key, stream_record_kinds[i], bytes_of(id, 4));
        overlay_delete_prefix(store, DB_RECORDS, key_bytes(&key));
    }
    log_key(&key, stream->id);
    overlay_delete(store, DB_RECORDS, key_bytes(&key), true);
    list_remove(&store->streams, stream);
    store_look_over(store);
    carried_close(stream);
    read_forget(store);
    store_stream_kept(stream, UINT64_MAX);
    log_leave(stream);
    stream_release(stream);
    return STATUS_OK;
}

/* ---- looks ------------------------------------------------------------------------------------------------------- */

uint32_t store_stream_id(const store_stream_t *stream) {
    return stream->id;
}

store_t *store_stream_store(const store_stream_t *stream) {
    return stream->store;
}

const stream_config_t *store_stream_config(const store_stream_t *stream) {
    return &stream->config;
}

uint64_t store_stream_visible(const store_stream_t *stream) {
    /* What is applied of a log a majority has on its disks: nothing takes it back. */
    return LEAF_UNLIKELY(stream->timeline.own) ? stream->log.last_seq : stream->promise.visible;
}

void store_stream_set_owner(store_stream_t *stream, void *owner) {
    stream->owner = owner;
}

void *store_stream_owner(const store_stream_t *stream) {
    return stream->owner;
}

void store_stream_state(const store_stream_t *stream, stream_state_t *out) {
    *out = (stream_state_t){.messages = stream->log.messages,
                            .bytes = stream->log.bytes,
                            .first_seq =
                                stream->log.last_seq == 0 && !stream->log.purged_empty ? 0 : stream->log.first_seq,
                            .last_seq = stream->log.last_seq,
                            .last_ts = stream->log.last_ts,
                            .subjects = stream->log.subjects,
                            .corrupt = stream->corrupt};
    if (stream->log.messages > 0) {
        out->deleted_count = stream->log.last_seq - stream->log.first_seq + 1 - stream->log.messages;
        /* The first message's stamp is read when it is first asked for; that changes nothing anybody can see. */
        store_stream_t *reader = (store_stream_t *)(uintptr_t)stream;
        if (log_first_known(reader)) {
            out->first_ts = stream->log.first_ts;
        }
    }
}

uint64_t store_stream_bytes(const store_stream_t *stream) {
    return stream->log.bytes;
}
