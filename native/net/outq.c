/* outq.c: see outq.h for the picture.
 *
 * Written bytes leave `data` by moving `sent` on; the bytes behind it are moved to the front only when they are the
 * smaller part, so a slow peer costs at most two copies a byte, however much waits.
 */
#include "net/outq.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

void outq_init(outq_t *outq, uint64_t max_pending, share_t *share) {
    *outq = (outq_t){.max_pending = max_pending};
    /* outq_end decides who is a slow consumer. The buffer's own bound is larger, since it also holds bytes that are
     * written already. */
    buffer_init(&outq->data, UINT64_MAX);
    buffer_init(&outq->control, OUTQ_CONTROL_MAX);
    buffer_init(&outq->marks, UINT64_MAX);
    buffer_init(&outq->pieces, UINT64_MAX);
    buffer_count(&outq->data, share);
    buffer_count(&outq->control, share);
    buffer_count(&outq->marks, share);
    buffer_count(&outq->pieces, share);
}

static outq_piece_t *piece_at(const outq_t *outq, uint32_t i) {
    return (outq_piece_t *)(void *)outq->pieces.at + i;
}

static uint32_t piece_count(const outq_t *outq) {
    return (uint32_t)(outq->pieces.size / sizeof(outq_piece_t));
}

static uint64_t *mark_at(const outq_t *outq, uint32_t i) {
    return (uint64_t *)(void *)outq->marks.at + i;
}

static uint32_t mark_count(const outq_t *outq) {
    return (uint32_t)(outq->marks.size / sizeof(uint64_t));
}

void outq_free(outq_t *outq) {
    for (uint32_t i = outq->piece_first; i < piece_count(outq); i++) {
        shared_release(piece_at(outq, i)->shared);
    }
    buffer_free(&outq->data);
    buffer_free(&outq->control);
    buffer_free(&outq->marks);
    buffer_free(&outq->pieces);
    outq_init(outq, outq->max_pending, outq->data.share);
}

bool outq_owns(const outq_t *outq, const buffer_t *buffer) {
    return buffer == &outq->data || buffer == &outq->control || buffer == &outq->marks || buffer == &outq->pieces;
}

/* ---- what comes in ----------------------------------------------------------------------------------------------- */

status_t outq_mark(outq_t *outq) {
    uint8_t *place;
    status_t status = buffer_reserve(&outq->marks, sizeof(uint64_t), &place);
    if (status != STATUS_OK) {
        return status;
    }
    memcpy(place, &outq->data.size, sizeof(uint64_t));
    outq->marks.size += sizeof(uint64_t);
    outq->last_mark = outq->data.size;
    return STATUS_OK;
}

status_t outq_share_room(outq_t *outq, uint64_t more) {
    uint8_t *place;
    status_t status = buffer_reserve(&outq->pieces, sizeof(outq_piece_t), &place);
    return status == STATUS_OK ? buffer_reserve(&outq->data, more, &place) : status;
}

void outq_share(outq_t *outq, shared_t *shared, uint32_t from, uint32_t size) {
    check(outq->pieces.capacity - outq->pieces.size >= sizeof(outq_piece_t));
    check(from <= shared->size && size <= shared->size - from);
    outq->pieces.size += sizeof(outq_piece_t);
    *piece_at(outq, piece_count(outq) - 1) =
        (outq_piece_t){.at = outq->data.size, .shared = shared_keep(shared), .from = from, .size = size};
    outq->shared_size += size;
    /* So far back that outq_end sees to a mark behind this frame, which is long. */
    outq->last_mark = outq->data.size - OUTQ_MARK_BYTES;
}

status_t outq_move(outq_t *to, outq_t *from, uint64_t size) {
    status_t status = outq_share_room(to, size);
    if (status != STATUS_OK) {
        return status;
    }
    uint64_t at = from->sent, left = size;
    for (uint32_t i = from->piece_first; i < piece_count(from) && left > piece_at(from, i)->at - at; i++) {
        const outq_piece_t *piece = piece_at(from, i);
        check(i == from->piece_first && from->piece_sent == 0); /* a frame has one at most */
        uint64_t own = piece->at - at;
        check(buffer_append(&to->data, from->data.at + at, own) == STATUS_OK);
        outq_share(to, piece->shared, piece->from, piece->size);
        at += own;
        left -= own + piece->size;
    }
    check(buffer_append(&to->data, from->data.at + at, left) == STATUS_OK);
    outq_written(from, size, 0);
    status = outq_end(to);
    return status == STATUS_FULL ? STATUS_OK : status; /* it is there, and may be: it was taken before */
}

status_t outq_ordered(outq_t *outq, bytes_t frame) {
    status_t status = buffer_append(&outq->data, frame.at, frame.size);
    return status == STATUS_OK ? outq_end(outq) : status;
}

status_t outq_urgent(outq_t *outq, bytes_t frame) {
    status_t status = buffer_append(outq_urgent_place(outq), frame.at, frame.size);
    return status == STATUS_OK ? outq_end(outq) : status;
}

/* ---- what goes out ----------------------------------------------------------------------------------------------- */

/* The first offset at or after `sent` where a frame ends, as far as it was remembered; the end of data is one always.
 */
static uint64_t boundary(const outq_t *outq) {
    if (outq->sent == 0) {
        return 0; /* data.at always begins with a frame when nothing of it is written */
    }
    for (uint32_t i = outq->mark_first; i < mark_count(outq); i++) {
        if (*mark_at(outq, i) >= outq->sent) {
            return *mark_at(outq, i);
        }
    }
    return outq->data.size;
}

typedef struct gathering {
    struct iovec *iov;
    int count;
    uint64_t room; /* bytes that may be added yet */
} gathering_t;

/* false: nothing may be added behind it. */
static bool gather(gathering_t *gathering, const uint8_t *at, uint64_t size) {
    uint64_t some = size < gathering->room ? size : gathering->room;
    if (some != 0) {
        gathering->iov[gathering->count].iov_base = (void *)(uintptr_t)at;
        gathering->iov[gathering->count].iov_len = (size_t)some;
        gathering->count++;
        gathering->room -= some;
    }
    return gathering->room != 0 && gathering->count < OUTQ_IOVECS;
}

/* Gathers the data and pieces between these two places, from the piece *next on. */
static bool gather_between(gathering_t *gathering, const outq_t *outq, uint64_t from, uint64_t upto, uint32_t *next) {
    uint32_t count = piece_count(outq);
    for (; *next < count && piece_at(outq, *next)->at < upto; (*next)++) {
        const outq_piece_t *piece = piece_at(outq, *next);
        uint64_t written = *next == outq->piece_first ? outq->piece_sent : 0;
        if (!gather(gathering, outq->data.at + from, piece->at - from)
            || !gather(gathering, piece->shared->at + piece->from + written, piece->size - written)) {
            return false;
        }
        from = piece->at;
    }
    return gather(gathering, outq->data.at + from, upto - from);
}

int outq_gather(const outq_t *outq, uint64_t room, struct iovec iov[OUTQ_IOVECS], uint64_t *size) {
    gathering_t gathering = {.iov = iov, .count = 0, .room = room};
    uint64_t control = outq->control.size - outq->control_sent;
    uint64_t from = outq->sent;
    uint32_t next = outq->piece_first;
    bool more = true;
    if (LEAF_UNLIKELY(control > 0)) {
        if (outq->control_sent == 0 && (from = boundary(outq)) != outq->sent) {
            more = gather_between(&gathering, outq, outq->sent, from, &next);
        }
        more = more && gather(&gathering, outq->control.at + outq->control_sent, control);
    }
    if (more && from < outq->data.size) {
        (void)gather_between(&gathering, outq, from, outq->data.size, &next);
    }
    *size = room - gathering.room;
    return gathering.count;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Takes from `written` bytes those that data and pieces had up to this place; returns how many are left. */
static uint64_t take_data(outq_t *outq, uint64_t written, uint64_t upto) {
    while (outq->piece_first < piece_count(outq) && piece_at(outq, outq->piece_first)->at < upto) {
        const outq_piece_t *piece = piece_at(outq, outq->piece_first);
        uint64_t own = least(written, piece->at - outq->sent);
        outq->sent += own;
        written -= own;
        if (outq->sent < piece->at) {
            return 0;
        }
        uint64_t size = least(written, piece->size - outq->piece_sent);
        outq->piece_sent += size;
        outq->shared_size -= size;
        written -= size;
        if (outq->piece_sent < piece->size) {
            return 0;
        }
        shared_release(piece->shared);
        outq->piece_first++;
        outq->piece_sent = 0;
    }
    uint64_t own = least(written, upto - outq->sent);
    outq->sent += own;
    return written - own;
}

/* All of data is written: it starts anew. */
static void restart(outq_t *outq) {
    outq->data.size = 0;
    outq->sent = 0;
    outq->last_mark = 0;
    outq->marks.size = 0;
    outq->mark_first = 0;
    outq->pieces.size = 0;
    outq->piece_first = 0;
}

/* Drops the marks and pieces behind `sent`, and the written bytes once they are the larger part of data. */
static void compact(outq_t *outq) {
    while (outq->mark_first < mark_count(outq) && *mark_at(outq, outq->mark_first) < outq->sent) {
        outq->mark_first++;
    }
    if (outq->sent < OUTQ_KEEP_BYTES || outq->sent < outq->data.size / 2) {
        return;
    }
    /* `sent` > 0 means that data may begin inside a frame. So when a started frame is moved to the front, one byte that
     * is written already is kept in front of it. */
    uint64_t drop = outq->sent - 1;
    buffer_consume(&outq->data, drop);
    outq->sent -= drop;
    buffer_consume(&outq->marks, outq->mark_first * sizeof(uint64_t));
    outq->mark_first = 0;
    for (uint32_t i = 0; i < mark_count(outq); i++) {
        *mark_at(outq, i) -= drop;
    }
    buffer_consume(&outq->pieces, outq->piece_first * sizeof(outq_piece_t));
    outq->piece_first = 0;
    for (uint32_t i = 0; i < piece_count(outq); i++) {
        piece_at(outq, i)->at -= drop;
    }
    outq->last_mark = outq->last_mark > drop ? outq->last_mark - drop : 0;
}

void outq_written(outq_t *outq, uint64_t written, int64_t mono_ns) {
    check(written <= outq_pending(outq));
    uint64_t left = written;
    uint64_t control = outq->control.size - outq->control_sent;
    if (control > 0) {
        if (outq->control_sent == 0) {
            left = take_data(outq, left, boundary(outq));
        }
        uint64_t size = least(left, control);
        outq->control_sent += size;
        left -= size;
        if (outq->control_sent == outq->control.size) {
            outq->control.size = 0;
            outq->control_sent = 0;
        }
    }
    left = take_data(outq, left, outq->data.size);
    check(left == 0);
    if (outq->sent == outq->data.size) {
        restart(outq);
    } else {
        compact(outq);
    }
    outq->backlog = outq->data.size > 0;
    if (outq_pending(outq) == 0) {
        outq->blocked_since_ns = 0;
    } else if (written > 0 || outq->blocked_since_ns == 0) {
        outq->blocked_since_ns = mono_ns;
    }
    outq->busy = true;
}

bool outq_stalled(const outq_t *outq, int64_t mono_ns, int64_t write_deadline_ns) {
    return outq->blocked_since_ns != 0 && mono_ns - outq->blocked_since_ns >= write_deadline_ns;
}

void outq_idle(outq_t *outq) {
    if (outq->busy) {
        outq->busy = false;
        /* In use; but after a backlog most of its memory may never be needed again. */
        buffer_trim(&outq->data, OUTQ_KEEP_BYTES * 4);
        return;
    }
    outq_trim(outq);
}

void outq_trim(outq_t *outq) {
    buffer_trim(&outq->data, 0);
    buffer_trim(&outq->control, 0);
    buffer_trim(&outq->marks, 0);
    buffer_trim(&outq->pieces, 0);
}
