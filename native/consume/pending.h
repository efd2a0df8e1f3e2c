/* pending.h: what one consumer has delivered and is not acknowledged yet, and the queue of what is to be delivered
 * again.
 *
 *     buckets (hash of the stream sequence)     rows                       order: rows joined by before/after in the
 *     [ 3 | 0 --> 2 | none | 1 ]                [0][1][2][3] free..        order of first delivery = stream order
 *
 * The head of the order holds the ack floor, so an acknowledgement takes constant time in any order. Expired rows are
 * queued again in this order, too. A row that used up its deliveries leaves the order but stays findable
 * (PENDING_EXHAUSTED): interest and work queues keep its message.
 *
 * Rows are in slabs, and with each row comes one bucket: the table grows as base/map.h says, so that no delivery waits
 * for more than its own row. 48 bytes a row and 4 of bucket, and 8 in slabs of which a row was queued, up to
 * PENDING_MAX rows. Knows no consumer, no store and no clock: due times are numbers to it.
 */
#ifndef LEAFD_CONSUME_PENDING_H
#define LEAFD_CONSUME_PENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/share.h"
#include "base/status.h"

#define PENDING_FEW 256u                /* rows that a consumer may always have */
#define PENDING_MAX (UINT32_C(1) << 24) /* rows of one consumer; delivery of new messages stops there */
#define PENDING_SLAB 1024u              /* rows; the first slab begins smaller */
#define PENDING_NONE UINT32_MAX

#define PENDING_QUEUED 1    /* waits in the redelivery queue */
#define PENDING_STORED 2    /* has a RECORD_CONSUMER_PENDING */
#define PENDING_EXHAUSTED 4 /* delivered max_deliver times: not pending any more, not acked either */
#define PENDING_FREE 8

typedef struct pending_row {
    uint64_t seq;
    uint64_t consumer_seq; /* of its first delivery */
    int64_t due_ns;        /* mono; when it is to be delivered again unless it is acked */
    uint32_t deliveries;
    uint32_t flags;
    uint32_t before, after; /* the order, or the free list */
    uint32_t next;          /* in its bucket */
} pending_row_t;

typedef struct pending_wait {
    uint32_t before, after; /* in the redelivery queue */
} pending_wait_t;

typedef struct pending_slab {
    pending_row_t *rows;
    uint32_t *buckets;     /* the first row of each; as many buckets are in use as rows were */
    pending_wait_t *waits; /* NULL until one of these rows was queued */
} pending_slab_t;

typedef struct pending {
    share_t *memory;
    uint64_t bytes; /* of it */
    pending_slab_t *slabs;
    uint64_t slab_capacity;
    uint32_t row_capacity, rows_used; /* rows 0 .. rows_used - 1 were in use at some time */
    uint32_t mask;                    /* of hashes, to a bucket */
    uint32_t free;
    uint32_t head, tail;
    uint32_t unsettled; /* first in the order that the stored state does not cover; see state.h */
    uint32_t unsettled_count;
    uint32_t looked; /* first in the order that a look at all of them has still to see; PENDING_NONE: none */
    uint32_t count;  /* in the order */
    uint32_t exhausted;
    uint32_t redelivered; /* with more than one delivery, exhausted ones included */
    uint32_t first_queued, last_queued;
    uint32_t queued;
} pending_t;

void pending_init(pending_t *pending, share_t *memory); /* memory: where rows are counted; NULL: nowhere */
void pending_free(pending_t *pending);
/* No further row can be had, or it would take memory that there is not: delivery of new messages waits. Stored rows are
 * loaded all the same. */
bool pending_is_full(const pending_t *pending);
void pending_clear(pending_t *pending); /* empties, keeps the memory */
void pending_trim(pending_t *pending);  /* when it is empty: gives much memory back */

static inline pending_row_t *pending_row(pending_t *pending, uint32_t row) {
    return &pending->slabs[row / PENDING_SLAB].rows[row % PENDING_SLAB];
}

/* PENDING_NONE when the sequence is neither pending nor exhausted. */
uint32_t pending_find(const pending_t *pending, uint64_t seq);
/* STATUS_INVALID: seq is not above every sequence in the order. */
LEAF_MUST_USE status_t pending_add(pending_t *pending, uint64_t seq, uint64_t consumer_seq, int64_t due_ns,
                                   uint32_t deliveries, uint32_t *row);
void pending_remove(pending_t *pending, uint32_t row);
void pending_exhaust(pending_t *pending, uint32_t row); /* out of the order, stays findable */
void pending_count_delivery(pending_t *pending, uint32_t row);

/* Already queued: nothing happens. */
LEAF_MUST_USE status_t pending_queue(pending_t *pending, uint32_t row);
void pending_unqueue(pending_t *pending, uint32_t row);
/* The row that is first in the redelivery queue; PENDING_NONE when it is empty. */
uint32_t pending_first_queued(const pending_t *pending);
void pending_pop_queued(pending_t *pending); /* removes the row that pending_first_queued returned from the queue */

/* Every relation between rows, order, buckets and queue; for tests. */
bool pending_sound(const pending_t *pending);

#endif
