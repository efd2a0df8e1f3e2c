/* stream.c: a stream's life (open, configure, remove), its counters, and its state record.
 *
 * Record RECORD_STATE, key = stream id (after crc 4): first 8, last 8, messages 8, bytes 8, subjects 8, last ts 8, last
 * born 8, last message id size 2, last message id. Absolute, one per touched stream and batch.
 */
#include <stdlib.h>

#include "base/check.h"
#include "base/crc.h"
#include "store/dedupe.h"
#include "store/sums.h"
#include "store/follow.h"
#include "store/message.h"
#include "store/overlay.h"
#include "store/record.h"

#define STATE_FIXED_SIZE (VALUE_CRC_SIZE + 7 * 8 + 2)

_Static_assert(STREAM_PROMISE
                   >= OP_HEADER_SIZE + 5 + STATE_FIXED_SIZE + STORE_LAST_ID_MAX + OP_HEADER_SIZE + 2 * MESSAGE_KEY_SIZE,
               "closing a batch writes a state and a range for each touched stream");

uint64_t stream_message_bytes(const store_stream_t *stream, const message_record_t *message) {
    uint64_t text = (uint64_t)message->subject.size + message->header.size + message->payload.size;
    if (stream->config.storage != 0) {
        return 16 + text;
    }
    return message->header.size > 0 ? 34 + text : 30 + text; /* as nats-server's file store counts */
}

void stream_state_key(store_key_t *key, uint32_t id) {
    uint8_t at[4];
    store_be32(at, id);
    key_record(key, RECORD_STATE, bytes_of(at, 4));
}

uint32_t stream_state_write(const store_stream_t *stream, bytes_t key, uint8_t *value) {
    const uint64_t numbers[] = {stream->first_seq, stream->last_seq,          stream->messages,           stream->bytes,
                                stream->subjects,  (uint64_t)stream->last_ts, (uint64_t)stream->last_born};
    for (uint32_t i = 0; i < 7; i++) {
        store_be64(value + VALUE_CRC_SIZE + (size_t)8 * i, numbers[i]);
    }
    store_be16(value + STATE_FIXED_SIZE - 2, (uint16_t)stream->last_id_size);
    memcpy(value + STATE_FIXED_SIZE, stream->last_id, stream->last_id_size);
    value_seal(key, value, STATE_FIXED_SIZE + stream->last_id_size);
    return STATE_FIXED_SIZE + stream->last_id_size;
}

status_t stream_state_read(store_stream_t *stream, bytes_t value) {
    const uint32_t fixed = STATE_FIXED_SIZE - VALUE_CRC_SIZE;
    if (value.size < fixed || load_be16(value.at + fixed - 2) != value.size - fixed
        || value.size - fixed > STORE_LAST_ID_MAX) {
        return STATUS_CORRUPT;
    }
    stream->first_seq = load_be64(value.at);
    stream->last_seq = load_be64(value.at + 8);
    stream->messages = load_be64(value.at + 16);
    stream->bytes = load_be64(value.at + 24);
    stream->subjects = load_be64(value.at + 32);
    stream->last_ts = (int64_t)load_be64(value.at + 40);
    stream->last_born = (int64_t)load_be64(value.at + 48);
    stream->last_id_size = value.size - fixed;
    memcpy(stream->last_id, value.at + fixed, stream->last_id_size);
    return STATUS_OK;
}

void stream_touch(store_stream_t *stream) {
    if (!stream->touched) {
        stream->touched = true;
        stream->store->batches.promised += STREAM_PROMISE;
        check(list_add(&stream->store->touched, stream) == STATUS_OK); /* reserved when the stream was opened */
    }
}

/* Of subjects there may be more than messages: a damaged message that goes does not say which one it was on. */
bool stream_sound(const store_stream_t *stream) {
    return stream->first_seq != 0 && stream->last_seq < UINT64_MAX && stream->first_seq - 1 <= stream->last_seq
           && stream->messages <= stream->last_seq + 1 - stream->first_seq
           && (stream->messages > 0 || (stream->bytes == 0 && stream->first_seq == stream->last_seq + 1))
           && stream->visible <= stream->last_seq;
}

/* Nothing is removed on the word of such numbers. First is 0 from here on: no message is hidden, and a start finds that
 * the numbers are not sound, whatever else they are. */
static void stream_judge(store_stream_t *stream) {
    if (LEAF_LIKELY(stream->stopped || stream_sound(stream))) {
        return;
    }
    stream->stopped = true;
    stream->corrupt++;
    store_alarm(stream->store, ALARM_CORRUPT, stream->id, stream->last_seq,
                "the numbers of stream %u contradict each other (sequences %llu to %llu, %llu messages, %llu bytes): "
                "it takes no more writes; \"leafd store salvage\" counts again",
                stream->id, (unsigned long long)stream->first_seq, (unsigned long long)stream->last_seq,
                (unsigned long long)stream->messages, (unsigned long long)stream->bytes);
    stream->first_seq = 0;
    stream->first_known = stream->first_open = false;
}

bool stream_settle(store_stream_t *stream) {
    store_t *store = stream->store;
    stream_judge(stream);
    stream->touched = false;
    store->batches.promised -= STREAM_PROMISE;
    if (stream->first_seq > stream->swept && !stream->stopped) {
        store_key_t from;
        store_key_t to;
        key_message(&from, stream->id, stream->swept);
        key_message(&to, stream->id, stream->first_seq);
        overlay_delete_range(store, DB_MESSAGES, key_bytes(&from), key_bytes(&to));
        stream->swept = stream->first_seq;
    }
    store_key_t key;
    stream_state_key(&key, stream->id);
    check(memtable_reserve(&store->memtable, 2) == STATUS_OK);
    uint8_t *value =
        overlay_put(store, DB_RECORDS, key_bytes(&key), STATE_FIXED_SIZE + stream->last_id_size, true, NULL);
    (void)stream_state_write(stream, key_bytes(&key), value);
    return true;
}

status_t stream_notes_reserve(store_stream_t *stream, uint64_t messages, uint64_t times) {
    status_t status = places_reserve(&stream->places, messages);
    if (messages > 0 && status == STATUS_OK) {
        status = births_reserve(&stream->births, messages);
    }
    if (times > 0 && status == STATUS_OK) {
        status = expiries_reserve(&stream->expiries, times);
    }
    return status;
}

void stream_rotate(store_stream_t *stream) {
    stream->boundary = stream->last_seq + 1;
    stream->deletes[1] = stream->deletes[0];
    stream->deletes[0] = 0;
    births_rotate(&stream->births);
}

void stream_drop(store_stream_t *stream) {
    places_drop_below(&stream->places, stream->boundary);
    expiries_drop_below(&stream->expiries, stream->store->batches.freed);
    births_drop(&stream->births);
    stream->deletes[1] = 0;
    stream->expiry_next = 0;
    stream->ids_next = 0;
    if (stream->lmdb_hidden_until != 0 && stream->lmdb_hidden_until < stream->store->batches.freed) {
        stream->lmdb_hidden_until = 0;
    }
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void stream_free(store_stream_t *stream) {
    free(stream->places.at);
    free(stream->expiries.at);
    check(stream->tallies == NULL);
    follows_end(stream);
    free(stream->gaps);
    dedupe_end(stream);
    births_free(&stream->births);
    free(stream);
}

static status_t stream_load(store_stream_t *stream, bool *stored) {
    store_key_t key;
    bytes_t value = BYTES_NONE;
    stream_state_key(&key, stream->id);
    status_t status = overlay_get(stream->store, DB_RECORDS, key_bytes(&key), &value);
    *stored = status == STATUS_OK;
    if (status == STATUS_OK) {
        return stream_state_read(stream, value);
    }
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

static bool stream_is_open(const store_t *store, uint32_t id) {
    for (uint32_t i = 0; i < store->streams.count; i++) {
        if (store->streams.at[i]->id == id) {
            return true;
        }
    }
    return false;
}

status_t store_stream_unused(store_t *store, uint32_t id) {
    if (stream_is_open(store, id)) {
        return STATUS_EXISTS;
    }
    store_key_t key;
    bytes_t found = BYTES_NONE;
    bytes_t value = BYTES_NONE;
    stream_state_key(&key, id);
    status_t status = overlay_get(store, DB_RECORDS, key_bytes(&key), &value);
    if (status != STATUS_NOT_FOUND) {
        return status == STATUS_OK || status == STATUS_CORRUPT ? STATUS_EXISTS : status;
    }
    uint8_t prefix[4];
    store_be32(prefix, id);
    if (memtable_covers(&store->memtable, DB_MESSAGES, bytes_of(prefix, sizeof prefix)) != 0) {
        return STATUS_OK; /* all of it is removed, though not in LMDB yet */
    }
    /* The page with the state may be lost, too: what counts are messages. */
    key_message(&key, id, 0);
    status = env_seek(store->env, DB_MESSAGES, key_bytes(&key), &found, &value);
    if (status == STATUS_OK) {
        return found.size >= sizeof prefix && load_be32(found.at) == id ? STATUS_EXISTS : STATUS_OK;
    }
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

status_t store_stream_open(store_t *store, uint32_t id, const stream_config_t *config, moment_t now,
                           store_stream_t **out) {
    *out = NULL;
    store_clock(store, now);
    if (stream_is_open(store, id)) {
        return STATUS_EXISTS;
    }
    if (id == UINT32_MAX) {
        return STATUS_INVALID;
    }
    store_stream_t *stream = calloc(1, sizeof *stream);
    if (stream == NULL) {
        return STATUS_NO_MEMORY;
    }
    *stream = (store_stream_t){.store = store,
                               .id = id,
                               .config = *config,
                               .allowance = &store->unowned,
                               .first_seq = 1,
                               .last_born = INT64_MIN};
    bool stored = false;
    status_t status = stream_load(stream, &stored);
    if (status == STATUS_OK && !stored && !overlay_fits(store, STREAM_PROMISE)) {
        status = STATUS_FULL;
    }
    if (status == STATUS_OK && stored && store->adopted.end > 0) {
        status = adopt_stream(stream);
    }
    if (status == STATUS_OK) {
        status = lists_reserve(store, store->streams.count + 1);
    }
    if (status == STATUS_OK) {
        status = list_add(&store->streams, stream);
    }
    if (status != STATUS_OK) {
        stream_free(stream);
        return status;
    }
    if (!stored) {
        uint8_t prefix[4];
        store_be32(prefix, id);
        stream->first_seq = config->first_seq > 1 ? config->first_seq : 1;
        stream->last_seq = stream->first_seq - 1;
        stream->lmdb_hidden_until = memtable_covers(&store->memtable, DB_MESSAGES, bytes_of(prefix, 4));
        stream_touch(stream);
    }
    stream->swept = stream->first_seq;
    stream->aged = stream->first_seq;
    stream->visible = stream->last_seq;
    store->bytes += stream->bytes;
    store->messages += stream->messages;
    stream->allowance->bytes += stream->bytes;
    stream_judge(stream);
    if (stored && !stream->stopped) {
        uint32_t steps = STORE_STEP;
        /* it may have been looked for when the store was closed */
        stream->first_open = stream->messages > 0 && stream->messages <= stream->last_seq - stream->first_seq;
        limits_thin_load(stream);
        limits_enforce(stream, &steps);
    }
    store->background_at = store->now_mono;
    *out = stream;
    return STATUS_OK;
}

void store_stream_configure(store_stream_t *stream, const stream_config_t *config, moment_t now) {
    store_clock(stream->store, now);
    int64_t before = stream->config.max_msgs_per_subject;
    stream->config = *config;
    if (config->max_msgs_per_subject > 0 && (before <= 0 || config->max_msgs_per_subject < before)) {
        limits_thin(stream, stream->first_seq);
    }
    stream->expiry_next = 0;
    stream->ids_next = 0;
    stream->store->background_at = stream->store->now_mono;
    uint32_t steps = STORE_STEP;
    limits_enforce(stream, &steps);
    steps = LOOK_STEPS;
    (void)limits_expire(stream, stream->store->clock.age, &steps); /* or with the next tick */
}

static const uint32_t stream_record_kinds[] = {
    RECORD_STREAM,           RECORD_CONSUMER, RECORD_SOURCE, RECORD_CONSUMER_STATE,
    RECORD_CONSUMER_PENDING, RECORD_SCHEDULE, RECORD_THIN};
static const store_db_t stream_dbs[] = {DB_MESSAGES, DB_HEADS, DB_IDS, DB_ID_ORDER, DB_EXPIRY};

status_t store_stream_remove(store_stream_t *stream) {
    store_t *store = stream->store;
    uint8_t id[4];
    store_be32(id, stream->id);
    if (!overlay_fits(store, 1024)) {
        return STATUS_FULL;
    }
    heads_settle(store); /* gives back what the batch promised for them */
    heads_forget(&store->heads, stream->id);
    store_key_t key;
    for (size_t i = 0; i < sizeof stream_dbs / sizeof *stream_dbs; i++) {
        overlay_delete_prefix(store, stream_dbs[i], bytes_of(id, 4));
    }
    for (size_t i = 0; i < sizeof stream_record_kinds / sizeof *stream_record_kinds; i++) {
        key_record(&key, stream_record_kinds[i], bytes_of(id, 4));
        overlay_delete_prefix(store, DB_RECORDS, key_bytes(&key));
    }
    stream_state_key(&key, stream->id);
    overlay_delete(store, DB_RECORDS, key_bytes(&key), true);
    if (stream->touched) {
        store->batches.promised -= STREAM_PROMISE;
    }
    list_remove(&store->streams, stream);
    list_remove(&store->touched, stream);
    list_remove(&store->flying, stream);
    list_remove(&store->advanced, stream);
    if (store->cursor_stream == stream->id) {
        store->cursor_seq = 0;
    }
    stream_lose(stream, stream->messages, stream->bytes);
    stream_free(stream);
    return STATUS_OK;
}

void stream_release(store_stream_t *stream) {
    stream_free(stream);
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
    return stream->visible;
}

void store_stream_set_owner(store_stream_t *stream, void *owner) {
    stream->owner = owner;
}

void *store_stream_owner(const store_stream_t *stream) {
    return stream->owner;
}

void store_stream_state(const store_stream_t *stream, stream_state_t *out) {
    *out = (stream_state_t){.messages = stream->messages,
                            .bytes = stream->bytes,
                            .first_seq = stream->last_seq == 0 && !stream->purged_empty ? 0 : stream->first_seq,
                            .last_seq = stream->last_seq,
                            .last_ts = stream->last_ts,
                            .subjects = stream->subjects,
                            .corrupt = stream->corrupt};
    if (stream->messages > 0) {
        out->deleted_count = stream->last_seq - stream->first_seq + 1 - stream->messages;
        /* The first message's stamp is read when it is first asked for; that changes nothing anybody can see. */
        store_stream_t *reader = (store_stream_t *)(uintptr_t)stream;
        if (first_load(reader)) {
            out->first_ts = stream->first_ts;
        }
    }
}

uint64_t store_stream_bytes(const store_stream_t *stream) {
    return stream->bytes;
}
