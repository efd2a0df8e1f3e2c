/* outq.h: what waits to be written to one connection. Sans-IO: bytes go in, iovecs come out, progress is reported back.
 *
 *   data     |.... written ....|== rest of a started frame ==|== whole frames ====|===================|
 *            0                 sent                          ^ next mark          ^ next piece        size
 *   control  |== urgent frames ==|     goes out at that mark, in front of the whole frames
 *   pieces   |== shared bytes ==|                            goes out at that place, between the bytes of data
 *
 * Frames are put straight into `data` (emit_*(&outq->data, ...)) and ended with outq_end(), which remembers where
 * frames end, at most one mark for each OUTQ_MARK_BYTES, so that an urgent frame can overtake a backlog without tearing
 * a frame.
 *
 * Shared bytes (outq_share): the body of a large message that goes to many is in memory once, and each queue has a
 * piece, which refers to it. All that waits counts against max_pending; the bytes themselves are counted once, where
 * they were made. A piece stands inside a frame, with bytes of data before and behind it, so that a frame's end is
 * always a place in data.
 *
 * Urgent frames (outq_urgent): PING, PONG, INFO, -ERR. With no backlog, that is, when everything from before this tick
 * is written, they are put in order behind the data, so a client that flushes sees what it saw with the reference: MSG,
 * then PONG. Only when the peer reads too slowly do they overtake. A PONG after an UNSUB must be sent
 * with outq_ordered(): clients drain a subscription by UNSUB and PING and take the PONG for the end of its messages.
 *
 * Not here: sockets (conn.c) and any knowledge of what the frames mean.
 */
#ifndef LEAFD_NET_OUTQ_H
#define LEAFD_NET_OUTQ_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/shared.h"
#include "base/status.h"

#define OUTQ_MARK_BYTES 1024            /* frames between two marks are together at least so long */
#define OUTQ_CONTROL_MAX (256u * 1024u) /* urgent bytes that may wait; more means the peer floods us with PINGs */
#define OUTQ_KEEP_BYTES (64u * 1024u)   /* capacity kept while the connection is busy */
#define OUTQ_IOVECS 72                  /* of one gathering; with shared pieces more may be left */

typedef struct outq_piece {
    uint64_t at; /* it goes out when data is written up to here */
    shared_t *shared;
    uint32_t from; /* its slice of that */
    uint32_t size;
} outq_piece_t;

typedef struct outq {
    buffer_t data;        /* emit into this, then outq_end() */
    uint64_t sent;        /* bytes of data already written; data.at[sent] is the next one */
    uint64_t last_mark;   /* offset in data of the last mark (or 0) */
    buffer_t marks;       /* uint64_t: offsets in data where a frame ends, ascending */
    uint32_t mark_first;  /* marks before this one are behind `sent` */
    uint32_t piece_first; /* pieces before this one are written and released */
    buffer_t pieces;      /* outq_piece_t, by place */
    uint64_t piece_sent;  /* bytes of the first one that are written */
    uint64_t shared_size; /* of all pieces together, still to be written */
    bool backlog;         /* the last flush left data behind */
    bool busy;            /* something was queued since the last outq_idle */
    buffer_t control;
    uint64_t control_sent;
    uint64_t max_pending;
    int64_t blocked_since_ns; /* monotonic time of the last write while something waits; 0 = nothing waits */
} outq_t;

/* share: where its memory is counted; NULL: nowhere. Allocates nothing. */
void outq_init(outq_t *outq, uint64_t max_pending, share_t *share);
void outq_free(outq_t *outq); /* as after outq_init */

static inline uint64_t outq_pending(const outq_t *outq) {
    return (outq->data.size - outq->sent) + (outq->control.size - outq->control_sent) + outq->shared_size;
}

/* Is it memory of this queue? */
bool outq_owns(const outq_t *outq, const buffer_t *buffer);

/* Slow path of outq_end. */
LEAF_MUST_USE status_t outq_mark(outq_t *outq);

/* Ends the frame that was just emitted into data. STATUS_FULL: more than max_pending waits, the peer is a slow consumer
 * and the connection is to be closed (the frame is in the queue all the same). */
LEAF_MUST_USE static inline status_t outq_end(outq_t *outq) {
    if (outq->data.size - outq->last_mark >= OUTQ_MARK_BYTES) {
        status_t status = outq_mark(outq);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return outq_pending(outq) > outq->max_pending ? STATUS_FULL : STATUS_OK;
}

/* A frame with shared bytes: room for it first, then `data` up to the place, outq_share, the rest of the frame into
 * data (at least one byte), outq_end. The room is for one piece and for `more` bytes in data. */
LEAF_MUST_USE status_t outq_share_room(outq_t *outq, uint64_t more);
/* The slice comes next, behind what is in data. Takes a reference. */
void outq_share(outq_t *outq, shared_t *shared, uint32_t from, uint32_t size);

/* More than three quarters of max_pending wait: time to slow down who produces for this connection. */
static inline bool outq_crowded(const outq_t *outq) {
    return outq_pending(outq) > outq->max_pending - outq->max_pending / 4;
}

/* One whole control frame, in order behind the data. STATUS_FULL as outq_end. */
LEAF_MUST_USE status_t outq_ordered(outq_t *outq, bytes_t frame);
/* The buffer in which an urgent frame is emitted, then outq_end(). */
static inline buffer_t *outq_urgent_place(outq_t *outq) {
    return outq->backlog || outq->control.size > 0 ? &outq->control : &outq->data;
}
/* One whole control frame, in front of a backlog if there is one. STATUS_FULL: OUTQ_CONTROL_MAX reached, close the
 * connection. */
LEAF_MUST_USE status_t outq_urgent(outq_t *outq, bytes_t frame);

/* The first `size` bytes that wait in `from`, one whole frame, go behind what waits in `to`. An error: nothing moved.
 */
LEAF_MUST_USE status_t outq_move(outq_t *to, outq_t *from, uint64_t size);

/* Gathers the bytes to write next, in order, at most `room` of them; returns how many iovecs (0 = nothing waits). Valid
 * until the queue is touched. *size: bytes of all of them. */
int outq_gather(const outq_t *outq, uint64_t room, struct iovec iov[OUTQ_IOVECS], uint64_t *size);
/* `written` bytes of what outq_gather showed are gone (0 = the socket takes nothing now). */
void outq_written(outq_t *outq, uint64_t written, int64_t mono_ns);
/* Has something waited for longer than the deadline without any byte going out? */
bool outq_stalled(const outq_t *outq, int64_t mono_ns, int64_t write_deadline_ns);
/* When nothing waits: gives its memory back at once. */
void outq_trim(outq_t *outq);
/* Called about once a second: gives memory back when nothing was queued since the last call. */
void outq_idle(outq_t *outq);

#endif
