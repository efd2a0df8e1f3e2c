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
    buffer_count(&outq->data, share);
    buffer_count(&outq->control, share);
}

void outq_free(outq_t *outq) {
    buffer_free(&outq->data);
    buffer_free(&outq->control);
    free(outq->marks);
    outq_init(outq, outq->max_pending, outq->data.share);
}

status_t outq_mark(outq_t *outq) {
    if (outq->mark_count == outq->mark_capacity) {
        uint32_t capacity = outq->mark_capacity > 0 ? outq->mark_capacity * 2 : 64;
        uint64_t *marks = realloc(outq->marks, capacity * sizeof *marks);
        if (marks == NULL) {
            return STATUS_NO_MEMORY;
        }
        outq->marks = marks;
        outq->mark_capacity = capacity;
    }
    outq->marks[outq->mark_count++] = outq->data.size;
    outq->last_mark = outq->data.size;
    return STATUS_OK;
}

status_t outq_ordered(outq_t *outq, bytes_t frame) {
    status_t status = buffer_append(&outq->data, frame.at, frame.size);
    return status == STATUS_OK ? outq_end(outq) : status;
}

status_t outq_urgent(outq_t *outq, bytes_t frame) {
    status_t status = buffer_append(outq_urgent_place(outq), frame.at, frame.size);
    return status == STATUS_OK ? outq_end(outq) : status;
}

/* The first offset at or after `sent` where a frame ends, as far as it was remembered; the end of data is one always.
 */
static uint64_t boundary(const outq_t *outq) {
    if (outq->sent == 0) {
        return 0; /* data.at always begins with a frame when nothing of it is written */
    }
    for (uint32_t i = outq->mark_first; i < outq->mark_count; i++) {
        if (outq->marks[i] >= outq->sent) {
            return outq->marks[i];
        }
    }
    return outq->data.size;
}

static int add(struct iovec *iov, int count, const uint8_t *at, uint64_t size) {
    if (size == 0) {
        return count;
    }
    iov[count].iov_base = (void *)(uintptr_t)at;
    iov[count].iov_len = (size_t)size;
    return count + 1;
}

int outq_gather(const outq_t *outq, struct iovec iov[OUTQ_IOVECS]) {
    uint64_t control = outq->control.size - outq->control_sent;
    uint64_t first = 0;
    if (control > 0 && outq->control_sent == 0) {
        first = boundary(outq) - outq->sent;
    }
    int count = 0;
    if (first > 0) {
        count = add(iov, count, outq->data.at + outq->sent, first);
    }
    if (control > 0) {
        count = add(iov, count, outq->control.at + outq->control_sent, control);
    }
    uint64_t from = outq->sent + first;
    if (from < outq->data.size) {
        count = add(iov, count, outq->data.at + from, outq->data.size - from);
    }
    return count;
}

static uint64_t take_data(outq_t *outq, uint64_t written, uint64_t at_most) {
    uint64_t size = written < at_most ? written : at_most;
    outq->sent += size;
    return written - size;
}

/* All of data is written: it starts anew. */
static void restart(outq_t *outq) {
    outq->data.size = 0;
    outq->sent = 0;
    outq->last_mark = 0;
    outq->mark_first = 0;
    outq->mark_count = 0;
}

/* Drops the marks behind `sent`, and the written bytes once they are the larger part of data. */
static void compact(outq_t *outq) {
    while (outq->mark_first < outq->mark_count && outq->marks[outq->mark_first] < outq->sent) {
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
    uint32_t kept = outq->mark_count - outq->mark_first;
    for (uint32_t i = 0; i < kept; i++) {
        outq->marks[i] = outq->marks[outq->mark_first + i] - drop;
    }
    outq->mark_first = 0;
    outq->mark_count = kept;
    outq->last_mark = outq->last_mark > drop ? outq->last_mark - drop : 0;
}

void outq_written(outq_t *outq, uint64_t written, int64_t mono_ns) {
    check(written <= outq_pending(outq));
    uint64_t left = written;
    uint64_t control = outq->control.size - outq->control_sent;
    if (control > 0) {
        if (outq->control_sent == 0) {
            left = take_data(outq, left, boundary(outq) - outq->sent);
        }
        uint64_t size = left < control ? left : control;
        outq->control_sent += size;
        left -= size;
        if (outq->control_sent == outq->control.size) {
            outq->control.size = 0;
            outq->control_sent = 0;
        }
    }
    left = take_data(outq, left, outq->data.size - outq->sent);
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
    if (outq->data.size == 0 && outq->marks != NULL) {
        free(outq->marks);
        outq->marks = NULL;
        outq->mark_capacity = 0;
    }
}
