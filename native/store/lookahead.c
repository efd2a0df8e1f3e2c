/* lookahead.c: the next message of a few subjects among many others. Reading all that lies between costs 0.2 us a
 * message; a subject's chain, from its newest message backwards, touches its own alone. Each chain is walked once, in
 * slices, one subject after the other, and the sequences nearest ahead are kept:
 *
 *     *from                    upto            the newest
 *       |  s1    s2    s3 ...  sn |  (farther ones: the chain is walked again)
 *
 * The subjects are those of the filters' heads: ten thousand devices that come back, each with `device/7/#`, would
 * otherwise read each what waits for all. Where a chain is broken, where there are many subjects, or their messages lie
 * so close that reading is cheaper, read.c's store_next goes on up to what was the newest.
 */
#include <stdlib.h>

#include "base/check.h"
#include "base/number.h"
#include "store/message.h"
#include "text/subject.h"

#define AHEAD_ROOM 240       /* sequences that are known at a time */
#define AHEAD_GAP 128        /* messages to pass over for each one, or reading is cheaper, also from a cold disk */
#define AHEAD_STEPS 16384    /* longer ways are not gone, since each AHEAD_ROOM messages want them again */
#define AHEAD_STEP_BUDGET 16 /* messages that a step back, or a look at a subject, stands for */
#define AHEAD_CHAINS 32u     /* subjects of all filters */
#define AHEAD_FILTERS 64u
#define AHEAD_LOOK (2 * AHEAD_GAP) /* messages that are read before it is known how far apart they lie */

typedef struct chain {
    uint64_t floor; /* none of its messages lies before it */
    uint64_t last;
    uint64_t count; /* as its head has it */
} chain_t;

/* Of what is done towards the list: it is there; in later turns; reading is to find the messages; not known. */
typedef enum way { WAY_DONE, WAY_MORE, WAY_READING, WAY_UNKNOWN } way_t;

typedef struct store_ahead_list {
    uint64_t from; /* all messages of the subjects from here .. */
    uint64_t upto; /* .. up to here are in the list; before it is made: the newest */
    uint64_t at;   /* the one to look at next on the way back; 0: the next chain begins */
    uint64_t steps_left;
    uint64_t fills;     /* notes.h: messages were put among these since */
    uint64_t noted_now; /* of this chain */
    store_walk_t *walk; /* of the filter whose subjects are being found; NULL: it begins */
    uint32_t filter;    /* those before it have been through */
    uint32_t chain;     /* likewise */
    uint32_t chain_count;
    uint32_t noted; /* how many are in seqs, in their order */
    uint32_t next;
    bool made;
    bool many;    /* more subjects than there is room for */
    bool dropped; /* more messages */
    bool unknown; /* a subject's head could not be read */
    chain_t chains[AHEAD_CHAINS];
    uint64_t seqs[AHEAD_ROOM];
} store_ahead_list_t;

void store_ahead_end(store_ahead_t *ahead) {
    if (ahead->list != NULL) {
        store_walk_close(ahead->list->walk);
    }
    free(ahead->list);
    *ahead = (store_ahead_t){0};
}

/* Reading instead, up to the newest. */
static void ahead_give_up(store_ahead_t *ahead, uint64_t newest) {
    store_ahead_end(ahead);
    ahead->read_upto = newest;
}

/* false: reading is cheaper, or there is no memory. */
static bool ahead_begin(store_ahead_t *ahead, uint64_t from, uint64_t newest, uint64_t fills) {
    uint64_t steps = newest < from ? 0 : (newest - from) / AHEAD_GAP;
    if (ahead->list == NULL && steps > 0) {
        ahead->list = malloc(sizeof *ahead->list);
    }
    if (ahead->list == NULL || steps == 0) {
        return false;
    }
    store_ahead_list_t *list = ahead->list;
    list->from = from;
    list->upto = newest;
    list->fills = fills;
    list->steps_left = number_least(steps, AHEAD_STEPS);
    list->walk = NULL;
    list->at = list->noted_now = 0;
    list->filter = list->chain = list->chain_count = list->noted = list->next = 0;
    list->made = list->many = list->dropped = list->unknown = false;
    return true;
}

/* ---- the subjects ------------------------------------------------------------------------------------------------ */

/* A subject that two filters have is one. */
static void ahead_add(store_ahead_list_t *list, const store_stream_t *stream, const head_t *head) {
    if (head->last < list->from) {
        return;
    }
    for (uint32_t i = 0; i < list->chain_count; i++) {
        if (list->chains[i].last == head->last) {
            return;
        }
    }
    list->many = list->chain_count == AHEAD_CHAINS;
    if (!list->many) {
        uint64_t floor = number_most(list->from, number_most(head->first, stream->log.first_seq));
        list->chains[list->chain_count++] = (chain_t){.floor = floor, .last = head->last, .count = head->count};
    }
}

typedef struct finding {
    store_stream_t *stream;
    store_ahead_list_t *list;
} finding_t;

static bool ahead_visit(void *context, bytes_t subject, uint64_t count, uint64_t last) {
    const finding_t *finding = context;
    head_t head;
    (void)count;
    read_outcome_t outcome = last < finding->list->from ? READ_NONE : head_peek(finding->stream, subject, &head);
    switch (outcome) {
    case READ_UNKNOWN: finding->list->unknown = true; return false;
    case READ_NONE: break;
    case READ_FOUND: ahead_add(finding->list, finding->stream, &head); break;
    }
    return !finding->list->many;
}

/* The subjects of one filter. */
static way_t ahead_find(store_stream_t *stream, store_ahead_list_t *list, bytes_t filter, uint32_t *steps) {
    head_t head;
    uint32_t looks = (uint32_t)number_least(*steps, list->steps_left);
    if (looks == 0) {
        return list->steps_left == 0 ? WAY_READING : WAY_MORE;
    }
    if (!subject_has_wildcard(filter)) {
        --*steps;
        list->steps_left--;
        switch (head_look(stream, filter, &head)) {
        case READ_UNKNOWN: return WAY_UNKNOWN;
        case READ_NONE: break;
        case READ_FOUND: ahead_add(list, stream, &head); break;
        }
        return WAY_DONE;
    }
    list->walk = list->walk == NULL ? store_walk_open(stream, filter) : list->walk;
    if (list->walk == NULL) {
        return WAY_READING;
    }
    finding_t finding = {.stream = stream, .list = list};
    switch (store_walk_step(list->walk, looks, ahead_visit, &finding)) {
    case STEP_MORE:
        *steps -= looks;
        list->steps_left -= looks;
        return WAY_MORE;
    case STEP_UNKNOWN: list->unknown = true; break;
    case STEP_OVER: break;
    }
    store_walk_close(list->walk);
    list->walk = NULL;
    bool unknown = list->unknown; /* which the next look begins anew, with this filter */
    list->unknown = false;
    return unknown ? WAY_UNKNOWN : WAY_DONE;
}

static way_t ahead_subjects(store_stream_t *stream, store_ahead_list_t *list, filters_t filters, uint32_t *steps) {
    way_t way = WAY_DONE;
    for (; list->filter < filters.count && way == WAY_DONE; list->filter += way == WAY_DONE) {
        way = ahead_find(stream, list, filters.patterns[list->filter], steps);
        way = list->many ? WAY_READING : way;
    }
    return way;
}

/* ---- going back along the chain ---------------------------------------------------------------------------------- */

/* In its order; the farthest gives way. */
static void ahead_note(store_ahead_list_t *list, uint64_t seq) {
    uint32_t low = 0, high = list->noted;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (list->seqs[middle] < seq) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool full = list->noted == AHEAD_ROOM;
    list->dropped |= full;
    if (full && low == AHEAD_ROOM) {
        return;
    }
    list->noted += !full;
    memmove(&list->seqs[low + 1], &list->seqs[low], (list->noted - 1 - low) * sizeof list->seqs[0]);
    list->seqs[low] = seq;
}

/* One step back. WAY_DONE: it was the chain's last. */
static way_t ahead_step(store_stream_t *stream, store_ahead_list_t *list, uint64_t floor) {
    message_row_t found;
    if (list->steps_left == 0) {
        return WAY_READING;
    }
    switch (message_judge(message_find(stream, list->at, true, &found), &found)) {
    case ENTRY_UNKNOWN: return WAY_UNKNOWN;
    case ENTRY_NONE:
    case ENTRY_DAMAGED: return WAY_READING;
    case ENTRY_FOUND: break;
    }
    list->steps_left--;
    if ((found.message.flags & MESSAGE_GONE) == 0) {
        list->noted_now++;
        if (list->at <= list->upto) { /* between it and a newer one there may be some of a subject that was not there */
            ahead_note(list, list->at);
        }
    }
    uint64_t before = found.message.previous;
    if (before >= list->at) {
        return WAY_READING;
    }
    list->at = before;
    return before < floor ? WAY_DONE : WAY_MORE;
}

/* WAY_MORE: that was as far as the budget goes. */
static way_t ahead_go_back(store_stream_t *stream, store_ahead_list_t *list, filters_t filters, uint32_t budget) {
    uint32_t steps = budget / AHEAD_STEP_BUDGET + 1;
    way_t way = ahead_subjects(stream, list, filters, &steps);
    while (way == WAY_DONE && list->chain < list->chain_count) {
        const chain_t *chain = &list->chains[list->chain];
        list->at = list->at == 0 ? chain->last : list->at;
        for (way = WAY_MORE; way == WAY_MORE && steps > 0; steps--) {
            way = ahead_step(stream, list, number_most(chain->floor, stream->log.first_seq));
        }
        if (way == WAY_DONE) {
            if (list->at == 0 && list->noted_now < chain->count) {
                return WAY_READING; /* a chain that ends before it has been through them all has lost its rest */
            }
            list->at = list->noted_now = 0;
            list->chain++;
        }
    }
    list->made = way == WAY_DONE;
    list->upto = list->made && list->dropped ? list->seqs[AHEAD_ROOM - 1] : list->upto;
    return way;
}

/* SEEK_MORE: the list is at its end, and *from behind it. */
static seek_outcome_t ahead_take(store_stream_t *stream, store_ahead_list_t *list, uint64_t *from, uint64_t upto,
                                 stored_message_t *out) {
    list->from = *from;
    for (; list->next < list->noted; list->next++) {
        uint64_t seq = list->seqs[list->next];
        if (seq < *from) {
            continue;
        }
        if (seq > upto) {
            return SEEK_NONE;
        }
        switch (store_read(stream, seq, out)) {
        case ENTRY_UNKNOWN: *from = seq; return SEEK_UNKNOWN;
        case ENTRY_FOUND: *from = seq; return SEEK_FOUND;
        case ENTRY_NONE:
        case ENTRY_DAMAGED: break;
        }
    }
    *from = number_most(*from, list->upto + 1);
    return SEEK_MORE;
}

/* ---- the newest, or the next one ahead --------------------------------------------------------------------------- */

static bool is_one_subject(filters_t filters) {
    return filters.count == 1 && !subject_has_wildcard(filters.patterns[0]);
}

/* The newest message that there may be of them. READ_NONE: none from here on. */
static read_outcome_t ahead_newest(store_stream_t *stream, filters_t filters, uint64_t from, uint64_t *newest) {
    head_t head;
    *newest = stream->log.last_seq;
    if (!is_one_subject(filters)) {
        return READ_FOUND;
    }
    read_outcome_t outcome = head_look(stream, filters.patterns[0], &head);
    switch (outcome) {
    case READ_UNKNOWN:
    case READ_NONE: *newest = 0; return outcome;
    case READ_FOUND: break;
    }
    *newest = head.last;
    return head.last < from ? READ_NONE : READ_FOUND;
}

/* Behind the newest of the list, or where there is none. */
static seek_outcome_t ahead_anew(store_stream_t *stream, store_ahead_t *ahead, filters_t filters, uint64_t *from,
                                 uint64_t upto, uint32_t budget, stored_message_t *out) {
    uint64_t newest;
    way_t way = WAY_READING;
    switch (ahead_newest(stream, filters, *from, &newest)) {
    case READ_UNKNOWN: return SEEK_UNKNOWN;
    case READ_NONE: store_ahead_end(ahead); return SEEK_NONE;
    case READ_FOUND: break;
    }
    if (*from > upto) {
        return SEEK_NONE;
    }
    bool goes = ahead->list != NULL && ahead->list->upto != 0;
    if (goes || ahead_begin(ahead, *from, newest, stream->notes.fills.ever)) {
        newest = ahead->list->upto;
        way = ahead_go_back(stream, ahead->list, filters, budget);
    }
    switch (way) {
    case WAY_UNKNOWN: return SEEK_UNKNOWN;
    case WAY_MORE: return SEEK_MORE;
    case WAY_DONE: return ahead_take(stream, ahead->list, from, upto, out);
    case WAY_READING: break;
    }
    ahead_give_up(ahead, newest);
    return store_next(stream, filters, from, upto, budget, out);
}

static __attribute__((noinline)) seek_outcome_t ahead_along(store_stream_t *stream, store_ahead_t *ahead,
                                                            filters_t filters, uint64_t *from, uint64_t upto,
                                                            uint32_t budget, stored_message_t *out) {
    if (ahead->list != NULL && (*from < ahead->list->from || ahead->list->fills != stream->notes.fills.ever)) {
        store_ahead_end(ahead); /* its reader was set back, or there are more now */
    }
    if (ahead->list != NULL && ahead->list->made) {
        seek_outcome_t outcome = ahead_take(stream, ahead->list, from, upto, out);
        switch (outcome) {
        case SEEK_UNKNOWN:
        case SEEK_NONE:
        case SEEK_FOUND: return outcome;
        case SEEK_MORE: break;
        }
        ahead->list->made = false;
        if (!ahead->list->dropped && !is_one_subject(filters)) {
            store_ahead_end(ahead); /* what came since is read, since one of them may have a new subject */
            return store_next(stream, filters, from, upto, budget, out);
        }
        ahead->list->upto = 0;
    }
    return ahead_anew(stream, ahead, filters, from, upto, budget, out);
}

/* Does that say no more than that the budget was used up? */
static inline bool is_more(seek_outcome_t outcome) {
    switch (outcome) {
    case SEEK_MORE: return true;
    case SEEK_UNKNOWN:
    case SEEK_NONE:
    case SEEK_FOUND: break;
    }
    return false;
}

seek_outcome_t store_next_ahead(store_stream_t *stream, store_ahead_t *ahead, filters_t filters, uint64_t *from,
                                uint64_t upto, uint32_t budget, stored_message_t *out) {
    if (LEAF_UNLIKELY(ahead->sparse)) {
        return ahead_along(stream, ahead, filters, from, upto, budget, out);
    }
    bool few = filters.count > 0 && filters.count <= AHEAD_FILTERS && *from >= ahead->read_upto;
    uint32_t most = few && budget > AHEAD_LOOK ? AHEAD_LOOK : budget, left = most;
    uint64_t before = *from;
    seek_outcome_t outcome = next_counted(stream, filters, from, upto, &left, out);
    uint32_t looked = most - left; /* a look at a head costs nothing */
    uint64_t passed = is_one_subject(filters) ? *from - before : looked;
    ahead->sparse = few && passed >= AHEAD_GAP && *from > ahead->read_upto;
    if (LEAF_UNLIKELY(ahead->sparse && looked < budget && is_more(outcome))) {
        return ahead_along(stream, ahead, filters, from, upto, budget - looked, out);
    }
    return outcome;
}
