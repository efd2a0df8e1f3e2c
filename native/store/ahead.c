/* ahead.c: the next message of one subject among many others. Reading all that lies between costs 0.2 us a message; the
 * subject's chain, from its newest message backwards, touches its own alone. The way back is gone once, in slices, and
 * the sequences nearest ahead are kept:
 *
 *     *from                    upto            the newest
 *       |  s1    s2    s3 ...  sn |  (farther ones: the way back is gone again)
 *
 * Where the chain is broken, or the subject's messages lie so close that reading is cheaper, read.c's store_next goes
 * on up to what was the newest.
 */
#include <stdlib.h>

#include "base/check.h"
#include "base/number.h"
#include "store/message.h"
#include "text/subject.h"

#define AHEAD_ROOM 240       /* sequences that are known at a time */
#define AHEAD_GAP 128        /* messages to pass over for each one, or reading is cheaper, also from a cold disk */
#define AHEAD_STEPS 16384    /* longer ways are not gone, since each AHEAD_ROOM messages want them again */
#define AHEAD_STEP_BUDGET 16 /* messages that a step back stands for */

typedef struct store_ahead_list {
    uint64_t from; /* all of the subject's messages from here .. */
    uint64_t upto; /* .. up to here are in the list; while the way back is gone: the newest */
    uint64_t at;   /* the one to look at next on the way back; 0: it has been gone */
    uint64_t steps_left;
    uint64_t fills; /* notes.h: messages were put among these since */
    uint32_t noted; /* how many went into seqs, each before the one before it, in a circle from the end */
    uint32_t next;  /* of those that are there, in their order */
    uint64_t seqs[AHEAD_ROOM];
} store_ahead_list_t;

void store_ahead_end(store_ahead_t *ahead) {
    free(ahead->list);
    *ahead = (store_ahead_t){0};
}

static uint32_t ahead_count(const store_ahead_list_t *list) {
    return list->noted < AHEAD_ROOM ? list->noted : AHEAD_ROOM;
}

static uint64_t ahead_seq(const store_ahead_list_t *list, uint32_t i) {
    return list->seqs[(AHEAD_ROOM - list->noted % AHEAD_ROOM + i) % AHEAD_ROOM];
}

/* Reading instead, up to the newest. */
static void ahead_give_up(store_ahead_t *ahead, uint64_t newest) {
    store_ahead_end(ahead);
    ahead->read_upto = newest;
}

/* false: reading is cheaper, or there is no memory. */
static bool ahead_begin(store_ahead_t *ahead, const head_t *head, uint64_t from, uint64_t fills) {
    uint64_t steps = (head->last - from) / AHEAD_GAP;
    if (ahead->list == NULL && steps > 0) {
        ahead->list = malloc(sizeof *ahead->list);
    }
    if (ahead->list == NULL || steps == 0) {
        return false;
    }
    ahead->list->from = from;
    ahead->list->upto = ahead->list->at = head->last;
    ahead->list->fills = fills;
    ahead->list->steps_left = number_least(steps, AHEAD_STEPS);
    ahead->list->noted = ahead->list->next = 0;
    return true;
}

/* One step back. STATUS_AGAIN: there are more; STATUS_NOT_FOUND: reading has to find the rest. */
static status_t ahead_step(store_stream_t *stream, store_ahead_list_t *list, uint64_t floor) {
    message_row_t found;
    if (list->steps_left-- == 0 || message_find(stream, list->at, true, &found) != STATUS_OK) {
        return STATUS_NOT_FOUND;
    }
    if ((found.message.flags & MESSAGE_GONE) == 0) {
        list->noted++;
        list->seqs[AHEAD_ROOM - 1 - (list->noted - 1) % AHEAD_ROOM] = list->at;
    }
    uint64_t before = found.message.previous;
    if (before >= list->at) {
        return STATUS_NOT_FOUND;
    }
    list->at = before;
    return before < floor ? STATUS_OK : STATUS_AGAIN;
}

/* The way back. STATUS_AGAIN: that was as far as the budget goes. */
static status_t ahead_go_back(store_stream_t *stream, store_ahead_list_t *list, const head_t *head, uint32_t budget) {
    uint64_t floor = number_most(list->from, number_most(head->first, stream->log.first_seq));
    status_t status = STATUS_AGAIN;
    for (uint32_t steps = budget / AHEAD_STEP_BUDGET + 1; status == STATUS_AGAIN && steps > 0; steps--) {
        status = ahead_step(stream, list, floor);
    }
    if (status == STATUS_OK && list->at == 0 && list->noted < head->count) {
        return STATUS_NOT_FOUND; /* a chain that ends before it has been through them all has lost its rest */
    }
    if (status == STATUS_OK) {
        list->at = 0;
        list->upto = list->noted > AHEAD_ROOM ? ahead_seq(list, AHEAD_ROOM - 1) : list->upto;
    }
    return status;
}

/* STATUS_AGAIN: the list is at its end, and *from behind it. */
static status_t ahead_take(store_stream_t *stream, store_ahead_list_t *list, uint64_t *from, uint64_t upto,
                           stored_message_t *out) {
    list->from = *from;
    for (; list->next < ahead_count(list); list->next++) {
        uint64_t seq = ahead_seq(list, list->next);
        if (seq < *from) {
            continue;
        }
        if (seq > upto) {
            return STATUS_NOT_FOUND;
        }
        status_t status = store_read(stream, seq, out);
        if (status != STATUS_NOT_FOUND && status != STATUS_CORRUPT) {
            *from = seq;
            return status;
        }
    }
    *from = number_most(*from, list->upto + 1);
    return STATUS_AGAIN;
}

static __attribute__((noinline)) status_t ahead_along(store_stream_t *stream, store_ahead_t *ahead, filters_t filters,
                                                      uint64_t *from, uint64_t upto, uint32_t budget,
                                                      stored_message_t *out) {
    if (ahead->list != NULL && (*from < ahead->list->from || ahead->list->fills != stream->notes.fills.ever)) {
        store_ahead_end(ahead); /* its reader was set back, or there are more now */
    }
    if (ahead->list != NULL && ahead->list->at == 0) {
        status_t status = ahead_take(stream, ahead->list, from, upto, out);
        if (status != STATUS_AGAIN) {
            return status;
        }
    }
    head_t head;
    status_t status = head_look(stream, filters.patterns[0], &head);
    if (status_unknown(status)) {
        return status;
    }
    if (status != STATUS_OK || head.last < *from) {
        store_ahead_end(ahead);
        return STATUS_NOT_FOUND;
    }
    if (*from > upto) {
        return STATUS_NOT_FOUND;
    }
    status = STATUS_NOT_FOUND;
    if ((ahead->list != NULL && ahead->list->at != 0) || ahead_begin(ahead, &head, *from, stream->notes.fills.ever)) {
        status = ahead_go_back(stream, ahead->list, &head, budget);
    }
    if (status == STATUS_OK) {
        return ahead_take(stream, ahead->list, from, upto, out);
    }
    if (status == STATUS_NOT_FOUND) {
        ahead_give_up(ahead, head.last);
        status = store_next(stream, filters, from, upto, budget, out);
    }
    return status;
}

status_t store_next_ahead(store_stream_t *stream, store_ahead_t *ahead, filters_t filters, uint64_t *from,
                          uint64_t upto, uint32_t budget, stored_message_t *out) {
    if (LEAF_UNLIKELY(ahead->sparse)) {
        return ahead_along(stream, ahead, filters, from, upto, budget, out);
    }
    uint64_t before = *from;
    status_t status = store_next(stream, filters, from, upto, budget, out);
    ahead->sparse = *from - before >= AHEAD_GAP && filters.count == 1 && *from > ahead->read_upto
                    && !subject_has_wildcard(filters.patterns[0]);
    return status;
}
