/* state.c: writing and reading what state.h draws. */
#include "consume/copy.h"
#include "consume/deliver.h"
#include "consume/retention.h"
#include "consume/state.h"
#include "base/array.h"
#include "base/number.h"
#include "base/visits.h"
#include "store/record.h"
#include "store/retention.h"

#include <stdlib.h>

typedef struct orphan {
    store_t *store;
    uint8_t key[16];
} orphan_t;

#define ORPHANS_MIN 64
#define UNSETTLED_MAX 4096   /* rows of a consumer that are not stored yet; beyond it some are with each flush */
#define SETTLED_A_FLUSH 1024 /* of a consumer, but for those before an acknowledged one */
#define ORPHANS_A_FLUSH 2048
#define ORPHANS_MAX 65536 /* beyond that a record is left behind, and loading removes it */

static store_t *store_of(const consumer_t *consumer) {
    return store_stream_store(consumer->stream);
}

/* Where several servers keep the stream, they agree on it first. */
static status_t change_record(consume_t *consume, store_stream_t *stream, const record_change_t *change) {
    if (LEAF_UNLIKELY((store_stream_config(stream)->flags & STREAM_REPLICATED) != 0)) {
        return consume->out.record(consume->out.context, store_stream_id(stream), change);
    }
    return store_record_change(store_stream_store(stream), change);
}

static status_t state_put_row(const consumer_t *consumer, uint32_t kind, bytes_t key, bytes_t value) {
    const record_change_t change = {.act = RECORD_PUT, .kind = kind, .key = key, .value = value};
    return change_record(consumer->consume, consumer->stream, &change);
}

static void key_make(uint8_t key[16], const consumer_t *consumer, uint64_t seq) {
    store_be32(key, consumer->group->stream_id);
    store_be32(key + 4, consumer->setup.id);
    store_be64(key + 8, seq);
}

bool state_lasts(const store_stream_t *stream) {
    const stream_config_t *config = store_stream_config(stream);
    return config->storage == 0 || (config->flags & STREAM_REPLICATED) != 0;
}

bool state_kept(const consumer_t *consumer) {
    return (consumer->setup.config.flags & (CONSUMER_MEMORY | CONSUMER_DIRECT)) == 0 && state_lasts(consumer->stream);
}

void state_dirty(consumer_t *consumer) {
    if (consumer->dirty || !state_kept(consumer)) return;
    consumer->dirty = true;
    consumer->next_dirty = consumer->consume->dirty;
    consumer->consume->dirty = consumer;
}

static bool state_crowded(const consumer_t *consumer) {
    return consumer->pending.unsettled_count > UNSETTLED_MAX && state_kept(consumer);
}

void state_lazy(consumer_t *consumer) {
    if (LEAF_UNLIKELY(state_crowded(consumer)) && store_room(store_of(consumer))) state_dirty(consumer);
    if (consumer->settle_due_ns != NEVER || !state_kept(consumer)) return;
    consumer->settle_due_ns = time_after(consumer->consume->now.mono_ns, SETTLE_NS);
    consumer_arm(consumer, consumer->settle_due_ns);
}

/* ---- pending ----------------------------------------------------------------------------------------------------- */

static status_t row_write(consumer_t *consumer, const pending_row_t *row) {
    uint8_t key[16], value[STATE_PENDING_SIZE];
    moment_t now = consumer->consume->now;
    int64_t left_ns = row->due_ns > now.mono_ns ? row->due_ns - now.mono_ns : 0;
    int64_t wait_ns = consumer_wait(consumer, row->deliveries);
    key_make(key, consumer, row->seq);
    store_be64(value, row->consumer_seq);
    store_be64(value + 8, (uint64_t)time_after(now.wall_ns, left_ns));
    store_be64(value + 16, (uint64_t)(left_ns > wait_ns ? left_ns : wait_ns));
    store_be32(value + 24, row->deliveries);
    store_be32(value + 28, row->flags & PENDING_EXHAUSTED ? STATE_PENDING_EXHAUSTED : 0);
    return state_put_row(consumer, RECORD_CONSUMER_PENDING, bytes_of(key, sizeof key), bytes_of(value, sizeof value));
}

void state_row_changed(consumer_t *consumer, uint32_t row) {
    const pending_row_t *here = pending_row(&consumer->pending, row);
    if (!(here->flags & PENDING_STORED) || !state_kept(consumer)) return;
    /* When the store refuses, the record keeps an older count: the message is delivered once more than it should be,
     * after a crash. */
    if (row_write(consumer, here) != STATUS_OK) state_lazy(consumer);
}

/* If the record cannot be deleted now, a crash makes the message come twice, and nothing worse; loading finds the
 * record again. */
static void record_forget(consume_t *consume, store_stream_t *stream, record_act_t act, uint32_t kind, bytes_t key) {
    const record_change_t change = {.act = act, .kind = kind, .key = key};
    status_t status = change_record(consume, stream, &change);
    (void)status;
}

void state_row_gone(consumer_t *consumer, uint32_t row) {
    const pending_row_t *here = pending_row(&consumer->pending, row);
    if (!(here->flags & PENDING_STORED) || !state_kept(consumer)) return;
    /* Where acks remove messages, the record goes once it is known that the message will go (retention.c). */
    if (retention_traits(store_stream_config(consumer->stream))->acks_remove && state_orphan(consumer, here->seq))
        return;
    uint8_t key[16];
    key_make(key, consumer, here->seq);
    record_forget(consumer->consume, consumer->stream, RECORD_DELETE, RECORD_CONSUMER_PENDING,
                  bytes_of(key, sizeof key));
}

bool state_orphan(consumer_t *consumer, uint64_t seq) {
    consume_t *consume = consumer->consume;
    if (!state_kept(consumer)) return true;
    if (consume->orphan_count == ORPHANS_MAX
        || array_reserve(&consume->orphans, &consume->orphan_capacity, consume->orphan_count + 1u, ORPHANS_MIN,
                         sizeof(orphan_t))
               != STATUS_OK) {
        return false;
    }
    orphan_t *orphan = &consume->orphans[consume->orphan_count++];
    orphan->store = store_of(consumer);
    key_make(orphan->key, consumer, seq);
    return true;
}

bool state_flush_orphans(consume_t *consume) {
    uint32_t kept = 0, i = 0;
    for (; i < consume->orphan_count && i - kept < ORPHANS_A_FLUSH; i++) {
        visits_add(1);
        orphan_t orphan = consume->orphans[i];
        const group_t *group = table_find(&consume->groups, load_be32(orphan.key));
        bytes_t key = bytes_of(orphan.key, sizeof orphan.key);
        if (group && !retention_recorded(group)) {
            consume->orphans[kept++] = orphan;
        } else if (group) {
            record_forget(consume, group->stream, RECORD_DELETE, RECORD_CONSUMER_PENDING, key);
        } else {
            status_t status = store_record_delete(orphan.store, RECORD_CONSUMER_PENDING, key);
            (void)status; /* likewise */
        }
    }
    if (i > kept)
        memmove(&consume->orphans[kept], &consume->orphans[i], (consume->orphan_count - i) * sizeof(orphan_t));
    consume->orphan_count -= i - kept;
    return kept == 0;
}

void state_drop_orphans(consume_t *consume, uint32_t stream_id) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < consume->orphan_count; i++) {
        orphan_t orphan = consume->orphans[i];
        if (load_be32(orphan.key) != stream_id) consume->orphans[kept++] = orphan;
    }
    consume->orphan_count = kept;
}

/* ---- state ------------------------------------------------------------------------------------------------------- */

/* Every matching message up to here was delivered. */
static uint64_t state_covers(const consumer_t *consumer) {
    if (consumer->selection.next < consumer->selection.count) return consumer->delivered_stream;
    return consumer->cursor - 1;
}

static status_t settle_rows(consumer_t *consumer, uint64_t upto) {
    pending_t *pending = &consumer->pending;
    if (consumer->clear_order && upto <= consumer->cleared_upto) return STATUS_OK; /* the floor says it of these */
    while (pending->unsettled != PENDING_NONE && pending_row(pending, pending->unsettled)->seq <= upto) {
        pending_row_t *row = pending_row(pending, pending->unsettled);
        status_t status = row_write(consumer, row);
        if (status != STATUS_OK) return status;
        row->flags |= PENDING_STORED;
        pending->unsettled = row->after;
        pending->unsettled_count--;
        visits_add(1);
    }
    return STATUS_OK;
}

static status_t state_write(consumer_t *consumer, uint64_t upto) {
    uint8_t key[16], value[STATE_SIZE_PASSED];
    const told_t *told = &consumer->push.told;
    bool passed = told->passed_from > 0;
    key_make(key, consumer, 0);
    memset(value, 0, sizeof value);
    store_be64(value, copy_stored(consumer)); /* whose highest byte is the version's */
    value[0] = passed ? STATE_VERSION_PASSED : STATE_VERSION;
    store_be64(value + 8, consumer->next_sequence - 1);
    store_be64(value + 16, consumer->delivered_stream < upto ? consumer->delivered_stream : upto);
    store_be64(value + 24, consumer->floor_consumer);
    store_be64(value + 32, consumer->floor_stream < upto ? consumer->floor_stream : upto);
    store_be64(value + 40, (uint64_t)consumer->last_delivered_wall_ns);
    store_be64(value + 48, (uint64_t)consumer->last_acked_wall_ns);
    store_be64(value + 56, upto);
    bool selecting = consumer->survey || consumer->selection.next < consumer->selection.count;
    store_be64(value + 64, selecting ? consumer->selection.resume : 0);
    store_be64(value + 72, told->passed_from);
    store_be64(value + 80, told->passed_upto);
    uint32_t size = passed ? STATE_SIZE_PASSED : STATE_SIZE;
    return state_put_row(consumer, RECORD_CONSUMER_STATE, bytes_of(key, 8), bytes_of(value, size));
}

/* Up to where one flush stores rows. There are more. */
static uint64_t state_step(consumer_t *consumer) {
    pending_t *pending = &consumer->pending;
    uint32_t row = pending->unsettled;
    for (uint32_t i = 1; i < SETTLED_A_FLUSH; i++) row = pending_row(pending, row)->after;
    return pending_row(pending, row)->seq;
}

/* Up to where this flush goes. What is acknowledged is in it; of the rest as much as one has time for. */
static uint64_t state_upto(consumer_t *consumer) {
    uint64_t covers = state_covers(consumer);
    if (consumer->setup.config.ack_policy == ACK_NONE || consumer->consume->stopping) return covers;
    uint64_t acked = number_most(consumer->settled, consumer->acked_upto);
    /* Work that can wait leaves the room to work that cannot; and rows that are being removed come before the rest. */
    if (consumer->clear_order || !store_room(store_of(consumer))) return acked;
    uint64_t upto = state_crowded(consumer) ? covers : number_least(consumer->settle_upto, covers);
    if (consumer->pending.unsettled_count > SETTLED_A_FLUSH) upto = number_least(upto, state_step(consumer));
    return number_most(upto, acked);
}

static void settle_on(consumer_t *consumer) {
    if (store_room(store_of(consumer))) {
        state_dirty(consumer);
        return;
    }
    consumer->settle_due_ns = time_after(consumer->consume->now.mono_ns, RETRY_NS);
    consumer_arm(consumer, consumer->settle_due_ns);
}

void state_settle(consumer_t *consumer) {
    consumer->settle_upto = state_covers(consumer);
    settle_on(consumer);
}

bool state_flush(consumer_t *consumer) {
    if (!state_kept(consumer) || survey_is_new(consumer)) return true; /* where it starts is not known yet */
    if (LEAF_UNLIKELY(!consumer_sound(consumer))) {
        store_stream_stop(consumer->stream, consumer->setup.id);
        return true; /* the disk keeps the last position that could be */
    }
    uint64_t upto = state_upto(consumer);
    if (settle_rows(consumer, upto) != STATUS_OK || state_write(consumer, upto) != STATUS_OK) {
        state_dirty(consumer); /* with a later batch, then */
        return false;
    }
    consumer->settled = upto;
    if (upto >= number_least(consumer->settle_upto, state_covers(consumer))) consumer->settle_upto = 0;
    if (consumer->settle_upto > 0 || state_crowded(consumer)) settle_on(consumer);
    if (consumer->pending.unsettled == PENDING_NONE) consumer->settle_due_ns = NEVER;
    return true;
}

void state_delete(consumer_t *consumer, bool definition_too) {
    if (!state_kept(consumer)) return;
    uint8_t key[16];
    key_make(key, consumer, 0);
    bytes_t name = bytes_of(key, 8);
    consume_t *consume = consumer->consume;
    /* An id is never given out again. */
    record_forget(consume, consumer->stream, RECORD_DELETE_PREFIX, RECORD_CONSUMER_PENDING, name);
    record_forget(consume, consumer->stream, RECORD_DELETE, RECORD_CONSUMER_STATE, name);
    if (definition_too) record_forget(consume, consumer->stream, RECORD_DELETE, RECORD_CONSUMER, name);
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

typedef struct loading {
    consumer_t *consumer;
    uint64_t first_seq;
    status_t status;
} loading_t;

static bool load_row(void *context, bytes_t key, bytes_t value) {
    loading_t *loading = context;
    consumer_t *consumer = loading->consumer;
    if (key.size != 16 || value.size != STATE_PENDING_SIZE) {
        loading->status = STATUS_CORRUPT;
        return false;
    }
    uint64_t seq = load_be64(key.at + 8);
    bool exhausted = load_be32(value.at + 28) & STATE_PENDING_EXHAUSTED;
    /* Of ack all nothing below the floor is pending; what a crash kept from being removed is acknowledged. */
    bool acked = !exhausted && consumer->setup.config.ack_policy != ACK_EXPLICIT && seq <= consumer->floor_stream;
    if (seq < loading->first_seq || seq > consumer->settled || acked) {
        (void)state_orphan(consumer, seq); /* or the next start finds it again */
        return true;
    }
    moment_t now = consumer->consume->now;
    int64_t due_wall_ns = (int64_t)load_be64(value.at + 8), wait_ns = (int64_t)load_be64(value.at + 16);
    int64_t left_ns = due_wall_ns > now.wall_ns ? due_wall_ns - now.wall_ns : 0;
    if (left_ns > wait_ns) left_ns = wait_ns;
    uint32_t row;
    loading->status = pending_add(&consumer->pending, seq, load_be64(value.at), time_after(now.mono_ns, left_ns),
                                  load_be32(value.at + 24), &row);
    if (loading->status != STATUS_OK) return false;
    pending_row(&consumer->pending, row)->flags |= PENDING_STORED;
    consumer->pending.unsettled_count--;
    if (exhausted) pending_exhaust(&consumer->pending, row);
    return true;
}

static status_t load_rows(consumer_t *consumer) {
    uint8_t key[16];
    key_make(key, consumer, 0);
    stream_state_t state;
    store_stream_state(consumer->stream, &state);
    loading_t loading = {.consumer = consumer, .first_seq = state.first_seq, .status = STATUS_OK};
    status_t status = list_status(store_record_each(store_of(consumer), RECORD_CONSUMER_PENDING, bytes_of(key, 8),
                                                    BYTES_NONE, load_row, &loading));
    consumer->pending.unsettled = PENDING_NONE;
    consumer_expires_anew(consumer, consumer->consume->now.mono_ns);
    return status == STATUS_OK ? loading.status : status;
}

static bool value_is_newer(bytes_t value) {
    return value.size > 0 && value.at[0] > STATE_VERSION_PASSED;
}

/* ENTRY_UNKNOWN: or a newer leafd has written it. */
static entry_outcome_t state_read(store_t *store, bytes_t key, bytes_t *value) {
    entry_outcome_t outcome = store_record_get(store, RECORD_CONSUMER_STATE, key, value);
    switch (outcome) {
    case ENTRY_UNKNOWN:
    case ENTRY_NONE:
    case ENTRY_DAMAGED: return outcome;
    case ENTRY_FOUND: break;
    }
    if (value_is_newer(*value)) return ENTRY_UNKNOWN;
    bool plain = value->size == STATE_SIZE && value->at[0] == STATE_VERSION;
    bool passed = value->size == STATE_SIZE_PASSED && value->at[0] == STATE_VERSION_PASSED;
    return plain || passed ? ENTRY_FOUND : ENTRY_DAMAGED;
}

entry_outcome_t consume_stored(store_t *store, uint32_t stream_id, uint32_t consumer_id, stored_consumer_t *out) {
    uint8_t key[8];
    bytes_t value;
    store_be32(key, stream_id);
    store_be32(key + 4, consumer_id);
    entry_outcome_t outcome = state_read(store, bytes_of(key, sizeof key), &value);
    switch (outcome) {
    case ENTRY_UNKNOWN:
    case ENTRY_NONE:
    case ENTRY_DAMAGED: return outcome;
    case ENTRY_FOUND: break;
    }
    out->delivered_consumer = load_be64(value.at + 8);
    out->delivered_stream = load_be64(value.at + 16);
    out->floor_consumer = load_be64(value.at + 24);
    out->floor_stream = load_be64(value.at + 32);
    out->last_delivered_ts = (int64_t)load_be64(value.at + 40);
    out->last_acked_ts = (int64_t)load_be64(value.at + 48);
    return outcome;
}

status_t state_load(consumer_t *consumer, bool *found) {
    *found = false;
    if (!state_kept(consumer)) return STATUS_OK;
    uint8_t key[16];
    key_make(key, consumer, 0);
    bytes_t value = BYTES_NONE;
    switch (state_read(store_of(consumer), bytes_of(key, 8), &value)) {
    case ENTRY_UNKNOWN: return value_is_newer(value) ? STATUS_VERSION : STATUS_IO;
    case ENTRY_DAMAGED: return STATUS_CORRUPT;
    case ENTRY_NONE: return STATUS_OK;
    case ENTRY_FOUND: break;
    }
    *found = true;
    copy_load(consumer, load_be64(value.at) & COPY_STORED_MAX);
    if (value.size == STATE_SIZE_PASSED) {
        copy_load_passed(consumer, load_be64(value.at + 72), load_be64(value.at + 80));
    }
    consumer->next_sequence = load_be64(value.at + 8) + 1;
    consumer->delivered_stream = load_be64(value.at + 16);
    consumer->floor_consumer = load_be64(value.at + 24);
    consumer->floor_stream = load_be64(value.at + 32);
    consumer->last_delivered_wall_ns = (int64_t)load_be64(value.at + 40);
    consumer->last_acked_wall_ns = (int64_t)load_be64(value.at + 48);
    consumer->settled = consumer->acked_upto = load_be64(value.at + 56);
    consumer->selection.resume = load_be64(value.at + 64);
    consumer->cursor = consumer->settled + 1;
    if (consumer->selection.resume > consumer->settled) survey_resume(consumer);
    status_t status = load_rows(consumer);
    if (status != STATUS_OK) return status;
    /* what was in flight and not settled is gone: nothing lies below the floor */
    if (consumer->pending.count + consumer->pending.exhausted == 0) {
        consumer->floor_consumer = consumer->next_sequence - 1;
        consumer->floor_stream = consumer->delivered_stream;
    }
    return STATUS_OK;
}

/* ---- sweeps ------------------------------------------------------------------------------------------------------ */

static void sweep_key(uint8_t key[8], const group_t *group) {
    store_be32(key, group->stream_id);
    store_be32(key + 4, SWEEP_ID);
}

entry_outcome_t sweep_read(group_t *group, uint64_t *from, uint64_t *upto, bytes_t *owed) {
    uint8_t key[8];
    bytes_t value;
    sweep_key(key, group);
    entry_outcome_t outcome =
        store_record_get(store_stream_store(group->stream), RECORD_CONSUMER_STATE, bytes_of(key, sizeof key), &value);
    switch (outcome) {
    case ENTRY_UNKNOWN:
    case ENTRY_NONE:
    case ENTRY_DAMAGED: return outcome;
    case ENTRY_FOUND: break;
    }
    if (value.size < SWEEP_SIZE || value.size % 8 != 0 || value.size > SWEEP_SIZE + 8 * OWED_MAX) return ENTRY_DAMAGED;
    *owed = bytes_after(value, SWEEP_SIZE);
    *from = load_be64(value.at);
    *upto = load_be64(value.at + 8);
    group->sweep_stored = true;
    return ENTRY_FOUND;
}

void sweep_write(group_t *group) {
    if (!state_lasts(group->stream)) return;
    uint8_t key[8], value[SWEEP_SIZE + 8 * OWED_MAX];
    sweep_key(key, group);
    store_be64(value, group->sweep_from);
    store_be64(value + 8, group->sweep_upto);
    for (uint32_t i = 0; i < group->owed_count; i++) store_be64(value + SWEEP_SIZE + (size_t)i * 8, group->owed[i]);
    const record_change_t change = {.act = RECORD_PUT,
                                    .kind = RECORD_CONSUMER_STATE,
                                    .key = bytes_of(key, sizeof key),
                                    .value = bytes_of(value, SWEEP_SIZE + 8 * group->owed_count)};
    status_t status = change_record(group->consume, group->stream, &change);
    if (status != STATUS_OK) return; /* the next flush tries again */
    group->sweep_stored = true;
    group->sweep_changed = false;
}

void sweep_delete(group_t *group) {
    uint8_t key[8];
    sweep_key(key, group);
    record_forget(group->consume, group->stream, RECORD_DELETE, RECORD_CONSUMER_STATE, bytes_of(key, sizeof key));
    group->sweep_stored = group->sweep_changed = false;
}
