/* schedules.c: messages that are to do something at a time, perhaps again and again. Here: when, durably. What they do
 * is the plane's (store_hooks_t.due); how their patterns read is the plane's, too.
 *
 *     EXPIRY          (stream, due, seq | EXPIRY_SCHEDULE)    wakes, in one order with times to live
 *     RECORD_SCHEDULE (stream, seq) -> due, due as wall ns    says which of the entries is in force
 *
 * due is on the age clock: a step of the wall clock fires nothing early. An entry that is not in force (its message is
 * gone, or has been given another time) is passed over when it comes up, so that replacing a time costs no search.
 */
#include "store/schedules.h"

#include "base/check.h"
#include "store/message.h"
#include "store/overlay.h"

#define RECORD_SIZE (VALUE_CRC_SIZE + 16)
#define RETRY_NS NS_PER_SECOND
#define ASKED_NS (50 * NS_PER_MS) /* until somebody has most likely answered who was asked */
/* When a time that has passed is due: consumers that have kept up get the schedule before it is gone. nats-server's
 * timer takes 250 ms at least. */
#define SOON_NS (100 * NS_PER_MS)

static void record_key(store_key_t *key, const store_stream_t *stream, uint64_t seq) {
    uint8_t at[12];
    store_be32(at, stream->id);
    store_be64(at + 4, seq);
    key_record(key, RECORD_SCHEDULE, bytes_of(at, sizeof at));
}

static entry_outcome_t record_read(store_stream_t *stream, uint64_t seq, int64_t *due, int64_t *due_ts) {
    store_key_t key;
    bytes_t value = BYTES_NONE;
    record_key(&key, stream, seq);
    entry_outcome_t outcome = overlay_get(stream->store, DB_RECORDS, key_bytes(&key), &value);
    switch (outcome) {
    case ENTRY_UNKNOWN:
    case ENTRY_NONE:
    case ENTRY_DAMAGED: return outcome;
    case ENTRY_FOUND: break;
    }
    if (value.size != RECORD_SIZE - VALUE_CRC_SIZE) {
        return ENTRY_DAMAGED;
    }
    *due = (int64_t)load_be64(value.at);
    *due_ts = (int64_t)load_be64(value.at + 8);
    return outcome;
}

/* Has the open batch another word on it than was just read? */
static bool record_changed(store_stream_t *stream, uint64_t seq, int64_t due) {
    store_key_t key;
    bytes_t value = BYTES_NONE;
    record_key(&key, stream, seq);
    switch (overlay_find(stream->store, DB_RECORDS, key_bytes(&key), &value)) {
    case WORD_PUT: return (int64_t)load_be64(value.at) != due;
    case WORD_REMOVED: return true;
    case WORD_NONE: break;
    }
    return false;
}

static void write_at(store_stream_t *stream, uint64_t seq, int64_t due, int64_t due_ts) {
    expiry_write(stream, due, seq | EXPIRY_SCHEDULE);
    store_key_t key;
    record_key(&key, stream, seq);
    uint8_t *value = overlay_put(stream->store, DB_RECORDS, key_bytes(&key), RECORD_SIZE, true, NULL);
    store_be64(value + VALUE_CRC_SIZE, (uint64_t)due);
    store_be64(value + VALUE_CRC_SIZE + 8, (uint64_t)due_ts);
    value_seal(key_bytes(&key), value, RECORD_SIZE);
}

void schedule_write(store_stream_t *stream, uint64_t seq, int64_t due_ts, int64_t wall_now) {
    int64_t due;
    int64_t after = due_ts > wall_now + SOON_NS ? due_ts - wall_now : SOON_NS;
    if (__builtin_add_overflow(stream_age(stream), after, &due)) {
        due = INT64_MAX;
    }
    write_at(stream, seq, due, due_ts);
}

void schedule_forget(store_stream_t *stream, uint64_t seq) {
    int64_t due;
    int64_t due_ts;
    store_key_t key;
    bool known = false;
    switch (record_read(stream, seq, &due, &due_ts)) {
    case ENTRY_NONE: return;
    case ENTRY_UNKNOWN:
    case ENTRY_DAMAGED: break;
    case ENTRY_FOUND: known = true; break;
    }
    record_key(&key, stream, seq);
    overlay_delete(stream->store, DB_RECORDS, key_bytes(&key), true);
    if (!known) {
        return; /* without its record the entry is not in force */
    }
    key_expiry(&key, stream->id, due, seq | EXPIRY_SCHEDULE);
    overlay_delete(stream->store, DB_EXPIRY, key_bytes(&key), false);
}

void schedules_forget(store_stream_t *stream) {
    uint8_t id[4];
    store_key_t key;
    store_be32(id, stream->id);
    key_record(&key, RECORD_SCHEDULE, bytes_of(id, sizeof id));
    overlay_delete_prefix(stream->store, DB_RECORDS, key_bytes(&key));
}

status_t store_schedule(store_stream_t *stream, uint64_t seq, int64_t due_ts, moment_t now) {
    message_row_t found;
    bool there = false;
    switch (message_judge(message_find(stream, seq, false, &found), &found)) {
    case ENTRY_UNKNOWN: return STATUS_IO;
    case ENTRY_DAMAGED: return STATUS_CORRUPT;
    case ENTRY_NONE: break;
    case ENTRY_FOUND: there = (found.message.flags & MESSAGE_SCHEDULE) != 0; break;
    }
    if (!there) {
        return STATUS_OK;
    }
    status_t status = notes_reserve(stream, 0, 0, 1);
    if (status != STATUS_OK) {
        return status;
    }
    check(overlay_reserve(stream->store, 4) == STATUS_OK);
    schedule_forget(stream, seq); /* the room was promised before the hook was called */
    /* Later than now in any case: times that have passed, set again and again, do not hold up the tick. */
    schedule_write(stream, seq, due_ts > now.wall_ns ? due_ts : now.wall_ns + 1, now.wall_ns);
    return STATUS_OK;
}

status_t store_schedule_again(store_stream_t *stream, uint64_t seq, int64_t due_ts, moment_t now) {
    return overlay_fits(stream->store, 2 * SCHEDULE_NEED) ? store_schedule(stream, seq, due_ts, now) : STATUS_FULL;
}

entry_outcome_t store_schedule_asked(store_stream_t *stream, uint64_t seq, int64_t due_ts) {
    int64_t due;
    int64_t set_ts;
    entry_outcome_t outcome = record_read(stream, seq, &due, &set_ts);
    switch (outcome) {
    case ENTRY_UNKNOWN:
    case ENTRY_NONE:
    case ENTRY_DAMAGED: return outcome;
    case ENTRY_FOUND: break;
    }
    return set_ts == due_ts ? ENTRY_FOUND : ENTRY_NONE;
}

status_t store_schedule_over(store_stream_t *stream, uint64_t seq) {
    if (!overlay_fits(stream->store, 2 * SCHEDULE_NEED)) {
        return STATUS_FULL;
    }
    status_t status = overlay_reserve(stream->store, 4);
    if (status == STATUS_OK) {
        schedule_forget(stream, seq);
    }
    return status;
}

bool schedule_due(store_stream_t *stream, uint64_t seq, int64_t due) {
    const store_hooks_t *hooks = &stream->store->hooks;
    int64_t set;
    int64_t due_ts;
    switch (record_read(stream, seq, &set, &due_ts)) {
    case ENTRY_UNKNOWN: return false;
    case ENTRY_NONE:
    case ENTRY_DAMAGED: return true;
    case ENTRY_FOUND: break;
    }
    if (set != due) {
        return true;
    }
    if (hooks->due == NULL || !overlay_fits(stream->store, 2 * SCHEDULE_NEED)
        || notes_reserve(stream, 0, 0, 1) != STATUS_OK) {
        return false;
    }
    /* Whatever the hook writes, the end of this due time fits into the same batch. */
    overlay_promise(stream->store, 2 * SCHEDULE_NEED);
    store_due_t due_now = hooks->due(hooks->due_context, stream, seq, due_ts);
    overlay_give_back(stream->store, 2 * SCHEDULE_NEED);
    check(overlay_reserve(stream->store, 4) == STATUS_OK);
    if (!record_changed(stream, seq, due)) {
        schedule_forget(stream, seq); /* that was all */
        if (due_now != STORE_DUE_DONE) {
            /* Later; whatever expires behind it, and makes room, does not wait for it. */
            write_at(stream, seq, stream_age(stream) + (due_now == STORE_DUE_ASKED ? ASKED_NS : RETRY_NS), due_ts);
        }
    }
    return true;
}
