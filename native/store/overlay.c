/* overlay.c: ops into the open batch with their notes in the memtable, reads through the overlay into LMDB, and the
 * alarms that reads raise.
 *
 * Every writer asks overlay_fits first, with all it may need; after a yes nothing in here can fail, so no change is
 * left half done.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/check.h"
#include "base/number.h"
#include "store/overlay.h"

#define NOTES_FOR_ONE_CALL 16

bool overlay_fits(store_t *store, uint64_t need) {
    /* Also for what closing the batch writes: that may not fail. Not for all of `need`: most of it is a message's own
     * bytes, or room that is left to others, and makes no notes. */
    uint64_t notes = NOTES_FOR_ONE_CALL + store->batches.promised / NOTE_BYTES_MIN;
    if (memtable_reserve(&store->memtable, notes) != STATUS_OK) {
        return false;
    }
    bool fits = batch_fits(&store->batches, need);
    store->cramped = fits ? store->cramped : number_most(store->cramped, need);
    return fits;
}

uint8_t *overlay_put(store_t *store, store_db_t db, bytes_t key, uint32_t value_size, bool note, uint64_t *position) {
    uint64_t at;
    uint8_t *value = batch_op(&store->batches, OP_PUT, db, key, value_size, &at);
    if (note) {
        memtable_note(&store->memtable, db, key, at);
    }
    if (position != NULL) {
        *position = at;
    }
    return value;
}

void overlay_delete(store_t *store, store_db_t db, bytes_t key, bool note) {
    uint64_t position;
    batch_op(&store->batches, OP_DELETE, db, key, 0, &position);
    if (note) {
        memtable_note(&store->memtable, db, key, position);
    }
}

static uint64_t delete_range(store_t *store, store_db_t db, bytes_t from, bytes_t to) {
    uint64_t position;
    uint8_t *end = batch_op(&store->batches, OP_DELETE_RANGE, db, from, to.size, &position);
    memcpy(end, to.at, to.size);
    return position;
}

void overlay_delete_range(store_t *store, store_db_t db, bytes_t from, bytes_t to) {
    delete_range(store, db, from, to);
}

void overlay_delete_prefix(store_t *store, store_db_t db, bytes_t prefix) {
    store_key_t end = {.size = prefix.size};
    memcpy(end.at, prefix.at, prefix.size);
    /* The smallest key behind all that begin with prefix. */
    while (end.size > 0 && end.at[end.size - 1] == 0xff) {
        end.size--;
    }
    check(end.size > 0);
    end.at[end.size - 1]++;
    uint64_t position = delete_range(store, db, prefix, key_bytes(&end));
    memtable_note_prefix(&store->memtable, db, prefix, position);
}

status_t overlay_find(store_t *store, store_db_t db, bytes_t key, bytes_t *value) {
    batch_op_t op;
    uint64_t position;
    uint64_t covered = 0;
    if ((store->memtable.prefix_sizes[0] | store->memtable.prefix_sizes[1]) != 0) {
        covered = memtable_covers(&store->memtable, db, key);
    }
    if (!memtable_find(&store->memtable, db, key, &op, &position) || position < covered) {
        return covered != 0 ? STATUS_NOT_FOUND : STATUS_AGAIN;
    }
    if (op.kind != OP_PUT) {
        return STATUS_NOT_FOUND;
    }
    *value = bytes_of(op.value.at + VALUE_CRC_SIZE, op.value.size - VALUE_CRC_SIZE);
    return STATUS_OK;
}

status_t overlay_get(store_t *store, store_db_t db, bytes_t key, bytes_t *value) {
    status_t status = overlay_find(store, db, key, value);
    if (status != STATUS_AGAIN) {
        return status;
    }
    bytes_t stored = BYTES_NONE;
    status = env_get(store->env, db, key, &stored);
    if (status != STATUS_OK) {
        return status;
    }
    if (!value_sound(key, stored)) {
        uint32_t stream = key.size >= 5 && db == DB_RECORDS ? load_be32(key.at + 1)
                          : key.size >= 4                   ? load_be32(key.at)
                                                            : 0;
        store_corrupt(store, NULL, stream, 0, db == DB_RECORDS ? "a stored record" : "an index entry");
        return STATUS_CORRUPT;
    }
    *value = bytes_of(stored.at + VALUE_CRC_SIZE, stored.size - VALUE_CRC_SIZE);
    return STATUS_OK;
}

void store_alarm(store_t *store, uint32_t code, uint32_t stream, uint64_t seq, const char *format, ...) {
    if (store->alarm_count == STORE_ALARMS_MAX) {
        store->alarms_dropped++;
        return;
    }
    store_alarm_t *alarm = &store->alarms[(store->alarm_begin + store->alarm_count) % STORE_ALARMS_MAX];
    store->alarm_count++;
    *alarm = (store_alarm_t){.code = code, .stream = stream, .seq = seq};
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(alarm->text, sizeof alarm->text, format, arguments);
    va_end(arguments);
}

/* Was that alarmed lately? A consumer asks again for what is pending; and an advisory that follows from an alarm may be
 * stored in the very stream whose index is damaged. */
static bool alarm_was_told(store_t *store, uint32_t stream, uint64_t seq) {
    seq = seq > 0 ? seq : UINT64_MAX;
    for (uint32_t i = 0; i < STORE_TOLD_MAX; i++) {
        if (store->told[i].seq == seq && store->told[i].stream == stream) {
            return true;
        }
    }
    store->told[store->told_next].stream = stream;
    store->told[store->told_next].seq = seq;
    store->told_next = (store->told_next + 1) % STORE_TOLD_MAX;
    return false;
}

void store_corrupt(store_t *store, store_stream_t *stream, uint32_t stream_id, uint64_t seq, const char *what) {
    if (stream != NULL) {
        stream->corrupt++; /* each time: a backup sees by it that it lacks something */
    }
    bool again = alarm_was_told(store, stream_id, seq);
    store->corrupt += !again || seq == 0;
    if (again) {
        return;
    }
    store_alarm(store, ALARM_CORRUPT, stream_id, seq,
                "%s of stream %u fails its checksum (sequence %llu); it is not served", what, stream_id,
                (unsigned long long)seq);
}

static status_t list_reserve(stream_list_t *list, uint32_t count) {
    return array_reserve(&list->at, &list->capacity, count, STREAMS_MIN, sizeof(store_stream_t *));
}

status_t lists_reserve(store_t *store, uint32_t count) {
    stream_list_t *lists[] = {&store->touched, &store->flying, &store->advanced};
    status_t status = STATUS_OK;
    for (uint32_t i = 0; i < 3 && status == STATUS_OK; i++) {
        status = list_reserve(lists[i], count);
    }
    return status;
}

status_t list_add(stream_list_t *list, store_stream_t *stream) {
    status_t status = list_reserve(list, list->count + 1);
    if (status != STATUS_OK) {
        return status;
    }
    list->at[list->count++] = stream;
    return STATUS_OK;
}

void list_remove(stream_list_t *list, const store_stream_t *stream) {
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->at[i] == stream) {
            list->at[i] = list->at[--list->count];
            return;
        }
    }
}
