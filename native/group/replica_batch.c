/* replica_batch.c: messages that a stream of a group stores together or not at all (replica.h): an atomic batch, which
 * is one entry of the log.
 *
 *     of a counter its sum, then store_group_look at each
 *                                 any refusal: nothing is stored, and that is what becomes of the batch
 *     store_group_reserve         no room: the member waits, and looks at all of them again
 *     append each > finish each   in one batch of the journal; nothing of this can fail
 *     rollups                     one after the other to their end, before the next entry
 *
 * Not here: what a client's batch may have, and what is the same for all of its messages (jetstream/atomic_commit.c).
 */
#include <stdlib.h>

#include "group/replica_private.h"
#include "store/timeline.h"

#define BATCHED_HEAD 8u

/* A message of the batch that is applied. */
typedef struct batched {
    append_t append;
    uint32_t before;     /* the place of the one before it on its subject, from 1 on; 0: there is none */
    uint32_t on_subject; /* how many of the batch come before it there */
    uint64_t place;      /* of a counter: in `made`, from 1 on, its header, and behind that its payload */
    uint64_t seq;
} batched_t;

typedef struct batch {
    batched_t *list;
    uint32_t count;
    buffer_t made;
} batch_t;

status_t replica_pack_batched(const replica_t *replica, const append_t *append, uint32_t before, buffer_t *packed) {
    entry_numbers_t numbers;
    uint64_t size = replica_fits(replica, append, &numbers);
    uint8_t *at;
    if (size == 0 || append->force_seq != 0 || !replica_takes(replica, packed->size + BATCHED_HEAD + size)) {
        return STATUS_INVALID;
    }
    status_t status = buffer_reserve(packed, BATCHED_HEAD + size, &at);
    if (status == STATUS_OK) {
        store_be32(at, (uint32_t)size);
        store_be32(at + 4, before);
        entry_append_write(at + BATCHED_HEAD, append, &numbers);
        packed->size += BATCHED_HEAD + size;
    }
    return status;
}

/* ---- reading it -------------------------------------------------------------------------------------------------- */

/* The next message's bytes. false: there is none, or what is left is no message. */
static bool batched_take(bytes_t *left, uint32_t *before, bytes_t *body) {
    uint32_t size = left->size >= BATCHED_HEAD ? load_be32(left->at) : UINT32_MAX;
    if (left->size < BATCHED_HEAD || size > left->size - BATCHED_HEAD) {
        return false;
    }
    *before = load_be32(left->at + 4);
    *body = bytes_of(left->at + BATCHED_HEAD, size);
    *left = bytes_after(*left, BATCHED_HEAD + size);
    return true;
}

/* 0: it is no batch. */
static uint32_t batched_count(bytes_t body) {
    uint32_t count = 0;
    uint32_t before;
    bytes_t one;
    while (batched_take(&body, &before, &one)) {
        count++;
    }
    return body.size == 0 ? count : 0;
}

static bool batched_read(batch_t *batch, bytes_t body) {
    bytes_t one;
    for (uint32_t i = 0; i < batch->count; i++) {
        batched_t *batched = &batch->list[i];
        if (!batched_take(&body, &batched->before, &one) || batched->before > i
            || !entry_append_read(one, &batched->append) || batched->append.force_seq != 0) {
            return false;
        }
        batched->on_subject = batched->before > 0 ? batch->list[batched->before - 1].on_subject + 1 : 0;
    }
    return true;
}

/* ---- applying it ------------------------------------------------------------------------------------------------- */

/* As it is stored. */
static append_t batched_append(const batch_t *batch, uint32_t i) {
    const batched_t *batched = &batch->list[i];
    append_t append = batched->append;
    if (batched->place > 0) {
        append.header.at = batch->made.at + batched->place - 1;
        append.payload.at = append.header.at + append.header.size;
    }
    return append;
}

/* A counter's sum, behind the one before it. */
static append_verdict_t batched_count_up(const replica_t *replica, batch_t *batch, uint32_t i) {
    const replica_hooks_t *hooks = &replica->hooks;
    batched_t *batched = &batch->list[i];
    append_t append = batched->append;
    append_t before = {0};
    if (hooks->count == NULL) {
        return APPEND_STORED;
    }
    if (batched->before > 0) {
        before = batched_append(batch, batched->before - 1);
    }
    append_verdict_t verdict = hooks->count(hooks->context, batched->before > 0 ? &before : NULL, &append);
    if (verdict != APPEND_STORED || append.payload.at == batched->append.payload.at) {
        return verdict;
    }
    uint64_t place = batch->made.size + 1;
    if (buffer_append(&batch->made, append.header.at, append.header.size) != STATUS_OK
        || buffer_append(&batch->made, append.payload.at, append.payload.size) != STATUS_OK) {
        return APPEND_LATER;
    }
    batched->append = append;
    batched->place = place;
    return verdict;
}

/* STATUS_INVALID: one of them is refused, and replica->last says why. */
static status_t batch_look(replica_t *replica, batch_t *batch, append_group_t *group) {
    for (uint32_t i = 0; i < batch->count; i++) {
        replica->last.appended = (appended_t){.verdict = batched_count_up(replica, batch, i)};
        const append_t append = batched_append(batch, i);
        if (replica->last.appended.verdict == APPEND_STORED) {
            replica->last.appended = store_group_look_timed(replica->stream, group, &append, batch->list[i].on_subject);
        }
        append_verdict_t verdict = replica->last.appended.verdict;
        if (replica_own_reason(verdict)) {
            bool never = verdict == APPEND_NO_SPACE && store_stream_never_fits(replica->stream, &append, group->count);
            return never ? STATUS_INVALID : STATUS_AGAIN;
        }
        if (verdict != APPEND_STORED) {
            return STATUS_INVALID;
        }
    }
    return STATUS_OK;
}

static void batch_store(replica_t *replica, const batch_t *batch, raft_index_t index) {
    bool rolled = true;
    for (uint32_t i = 0; i < batch->count; i++) {
        const append_t append = batched_append(batch, i);
        replica->last.appended = replica->hooks.append != NULL
                                     ? replica->hooks.append(replica->hooks.context, &append, true)
                                     : store_group_append_timed(replica->stream, &append);
        batch->list[i].seq = replica->last.appended.seq;
    }
    for (uint32_t i = 0; i < batch->count; i++) {
        rolled = store_group_finish(replica->stream, &batch->list[i].append, batch->list[i].seq) && rolled;
        rolled = rolled && !replica_ends(replica, &batch->list[i].append);
    }
    store_group_end(replica->stream);
    replica->rolling = rolled ? 0 : index;
    replica->rolling_seq = rolled ? 0 : batch->list[0].seq;
    replica->rolled = 0;
}

/* To their end. false: they wait. A start begins again with the first one, whose messages are gone then. */
static bool batch_roll(replica_t *replica, const batch_t *batch, raft_index_t index) {
    for (; replica->rolled < batch->count; replica->rolled++) {
        const append_t *append = &batch->list[replica->rolled].append;
        uint64_t seq = replica->rolling_seq + replica->rolled;
        if (append->rollup != 0
            && !replica_purging(replica, index, append->rollup == 1 ? append->subject : BYTES_NONE, seq, 0, seq)) {
            return false;
        }
        if (!replica_end(replica, append)) {
            return false;
        }
    }
    uint64_t last_seq = replica->rolling_seq + batch->count - 1;
    replica->last.appended =
        (appended_t){.verdict = APPEND_STORED, .seq = last_seq, .ts = store_stream_wall(replica->stream)};
    replica->rolling = replica->rolling_seq = 0;
    return true;
}

static status_t batch_apply(replica_t *replica, batch_t *batch, raft_index_t index) {
    if (replica->rolling != index) {
        append_group_t group = {0};
        status_t status = batch_look(replica, batch, &group);
        if (status != STATUS_OK) {
            return status == STATUS_INVALID ? STATUS_OK : status;
        }
        status = store_group_reserve(replica->stream, &group);
        replica->batch_waits = status == STATUS_AGAIN;
        if (status != STATUS_OK) {
            return STATUS_AGAIN;
        }
        batch_store(replica, batch, index);
    }
    return replica->rolling == index && !batch_roll(replica, batch, index) ? STATUS_AGAIN : STATUS_OK;
}

status_t replica_apply_batch(replica_t *replica, raft_index_t index, bytes_t body) {
    batch_t batch = {.count = batched_count(body)};
    if (batch.count == 0) {
        return STATUS_INVALID;
    }
    buffer_init(&batch.made, UINT32_MAX);
    batch.list = calloc(batch.count, sizeof *batch.list);
    if (batch.list == NULL) {
        return STATUS_AGAIN;
    }
    status_t status = batched_read(&batch, body) ? batch_apply(replica, &batch, index) : STATUS_INVALID;
    buffer_free(&batch.made);
    free(batch.list);
    return status;
}

void replica_batch_end(replica_t *replica) {
    if (replica->batch_waits) {
        store_group_give_up(store_stream_store(replica->stream));
        replica->batch_waits = false;
    }
}
