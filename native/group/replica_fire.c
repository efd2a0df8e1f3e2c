/* replica_fire.c: what a schedule of a stream of a group does (replica.h, FIRE), and that it ends.
 *
 *     is that still its time?     no: nothing, another entry did it
 *     append its message          once: the note says that it is in the stream (replica_private.h)
 *     rollup > next time, or its own message goes, or it stays without a time
 */
#include "group/replica_private.h"
#include "store/room.h"
#include "store/schedules.h"
#include "store/timeline.h"

bool replica_ends(const replica_t *replica, const append_t *append) {
    return replica->hooks.ends != NULL && replica->hooks.ends(replica->hooks.context, append);
}

bool replica_end(const replica_t *replica, const append_t *append) {
    return !replica_ends(replica, append) || replica->hooks.end(replica->hooks.context, append);
}

bool replica_took_place(const replica_t *replica) {
    append_verdict_t verdict = replica->last.appended.verdict;
    return verdict == APPEND_STORED || verdict == APPEND_SKIPPED;
}

/* A schedule's message, once; what is refused is left out. false: it waits. */
static bool append_fired(replica_t *replica, raft_index_t index, const append_t *append) {
    uint64_t size = (uint64_t)append->subject.size + append->header.size + append->payload.size;
    if (size > room_message_max(store_stream_store(replica->stream))) {
        return false; /* as of any other */
    }
    replica->last.appended = replica_append(replica, append);
    if (replica_own_reason(replica->last.appended.verdict)) {
        return replica->last.appended.verdict == APPEND_NO_SPACE && store_stream_never_fits(replica->stream, append, 0);
    }
    if (replica_took_place(replica)) {
        replica->rolling = index;
        replica->rolling_seq = replica->last.appended.seq;
    }
    return true;
}

static bool fire(replica_t *replica, raft_index_t index, const replica_fired_t *fired, const append_t *append) {
    if (replica->rolling != index) {
        switch (store_schedule_asked(replica->stream, fired->seq, fired->due_ts)) {
        case ENTRY_UNKNOWN: return false;
        case ENTRY_NONE: /* another entry did it, or it is gone */
        case ENTRY_DAMAGED: return true;
        case ENTRY_FOUND: break;
        }
        if (append != NULL && !append_fired(replica, index, append)) {
            return false;
        }
    }
    bool made = append != NULL && replica->rolling == index;
    if (made && !replica_roll(replica, index, append)) {
        return false;
    }
    moment_t at = {.wall_ns = store_stream_wall(replica->stream)};
    status_t status = fired->next_ts != 0 ? store_schedule_again(replica->stream, fired->seq, fired->next_ts, at)
                      : made              ? store_delete_any(replica->stream, fired->seq)
                                          : store_schedule_over(replica->stream, fired->seq);
    if (status != STATUS_OK) {
        return false;
    }
    replica->rolling = replica->rolling_seq = 0;
    return true;
}

status_t replica_apply_fire(replica_t *replica, raft_index_t index, bytes_t body) {
    append_t append;
    if (body.size < REPLICA_FIRE_HEAD || load_be64(body.at + 8) > INT64_MAX || load_be64(body.at + 16) > INT64_MAX) {
        return STATUS_INVALID;
    }
    const replica_fired_t fired = {.seq = load_be64(body.at),
                                   .due_ts = (int64_t)load_be64(body.at + 8),
                                   .next_ts = (int64_t)load_be64(body.at + 16)};
    bytes_t message = bytes_after(body, REPLICA_FIRE_HEAD);
    if (message.size > 0 && !entry_append_read(message, &append)) {
        return STATUS_INVALID;
    }
    return fire(replica, index, &fired, message.size > 0 ? &append : NULL) ? STATUS_OK : STATUS_AGAIN;
}
