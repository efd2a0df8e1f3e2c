/* tally.c: how many messages match, counted in slices and exact all the while.
 *
 * A tally knows which part of the stream it has counted; what enters or leaves that part meanwhile is told to it
 * (tallies_appended, tallies_removed) and changes its number, what enters or leaves the rest will be met, or not, when
 * the count comes there. So the number is that of the moment at which the last slice ends, and stays that of "now"
 * until the tally is closed. Ways to count, cheapest first:
 *
 *     CHAIN    one subject's messages, back along their chain, when that is much shorter than the stretch
 *     WALK     the heads of all matching subjects: the number from the first on; of everything: the stream's own
 *              counter
 *     AFTER    the messages from `from` to the end as it was         BEFORE   those below `from`, to take off the
 *                                                                             walk's number
 *
 * A message that fails its checksum is counted by its head and by the stream's counter, not by a scan; nobody can
 * deliver it.
 */
#include <stdlib.h>

#include "base/check.h"
#include "text/subject.h"
#include "text/subject_set.h"
#include "text/text.h"
#include "store/message.h"

#define CHAIN_COST 4       /* a step back on a chain costs about so many steps forward */
#define WALK_COST 4        /* and a look at a head so many */
#define WALK_OPEN_COST 128 /* to begin a walk */
#define WALK_SHORT 32      /* looks of a walk that is not the first of its slice */
#define WALK_ALWAYS 4096   /* subjects: so few are always walked, to know whether all match */

typedef enum tally_way { TALLY_CHAIN, TALLY_WALK, TALLY_AFTER, TALLY_BEFORE } tally_way_t;

struct store_tally {
    store_tally_t *next;
    store_stream_t *stream;
    filters_t filters; /* own copies; none = everything */
    uint64_t from;
    tally_way_t way;
    bool walked;    /* `all` is known */
    uint32_t which; /* the filters that are walked, up to `until`: a subject counts for its first match */
    uint32_t until;
    store_walk_t *walk;
    uint64_t all;     /* messages that match, of the subjects that were walked */
    uint64_t counted; /* in the part that was scanned, or on the chain */
    uint64_t begin;   /* the scan's part is [begin, at) and, for AFTER, what is above upto */
    uint64_t at;      /* CHAIN: the next one to look at; what is above it was counted */
    uint64_t upto;
    bytes_t patterns[];
};

/* ---- what happens meanwhile -------------------------------------------------------------------------------------- */

/* Does one of the filters [from, to) match? A part of what is sorted is sorted. */
static bool some_match(const store_tally_t *tally, uint32_t from, uint32_t to, bytes_t subject) {
    uint32_t sorted = tally->filters.sorted < to ? tally->filters.sorted : to;
    subject_set_t set = {.at = tally->patterns + from, .count = to - from, .sorted = sorted > from ? sorted - from : 0};
    return subject_set_matches(&set, subject);
}

static bool was_walked(const store_tally_t *tally, bytes_t subject) {
    return tally->walked || some_match(tally, 0, tally->which, subject)
           || (tally->walk != NULL && some_match(tally, tally->which, tally->until, subject)
               && walk_passed(tally->walk, subject));
}

static void tally_change(store_tally_t *tally, uint64_t seq, bytes_t subject, bool in) {
    if (!filters_match(tally->filters, subject)) {
        return;
    }
    uint64_t by = in ? 1 : UINT64_MAX; /* one more, one less: unsigned arithmetic wraps */
    if (tally->way == TALLY_CHAIN) {
        tally->counted += seq > tally->at && seq >= tally->from ? by : 0;
        return;
    }
    if ((tally->way == TALLY_WALK || tally->walked) && was_walked(tally, subject)) {
        tally->all += by;
    }
    bool scanned = seq >= tally->begin && seq < tally->at;
    if (tally->way == TALLY_AFTER) {
        scanned = seq >= tally->from && (scanned || seq > tally->upto);
    }
    if (scanned && (tally->way == TALLY_AFTER || tally->way == TALLY_BEFORE)) {
        tally->counted += by;
    }
}

void tallies_appended(store_stream_t *stream, uint64_t seq, bytes_t subject) {
    for (store_tally_t *tally = stream->tallies; tally != NULL; tally = tally->next) {
        tally_change(tally, seq, subject, true);
    }
}

void tallies_removed(store_stream_t *stream, const message_row_t *found) {
    if (!found->sound) {
        return; /* nobody counted it */
    }
    for (store_tally_t *tally = stream->tallies; tally != NULL; tally = tally->next) {
        tally_change(tally, found->seq, found->message.subject, false);
        if (tally->way == TALLY_CHAIN && found->seq == tally->at) {
            tally->at = found->message.previous; /* it may leave no link behind */
        }
    }
}

/* ---- ways of counting -------------------------------------------------------------------------------------------- */

static void tally_scan(store_tally_t *tally, tally_way_t way, uint64_t begin, uint64_t upto) {
    tally->way = way;
    tally->begin = tally->at = begin;
    tally->upto = upto;
    tally->counted = 0;
}

/* The stretch from `from` to the end is known to hold so many. */
static void tally_settle(store_tally_t *tally, uint64_t counted) {
    uint64_t last = tally->stream->log.last_seq;
    tally_scan(tally, TALLY_AFTER, tally->from, last);
    tally->at = last + 1 > tally->from ? last + 1 : tally->from;
    tally->counted = counted;
}

static uint64_t tally_stretch(const store_tally_t *tally) {
    return tally->stream->log.last_seq - tally->from + 1;
}

static void choose_scan(store_tally_t *tally) {
    const store_stream_t *stream = tally->stream;
    uint64_t before = tally->from - stream->log.first_seq;
    bool total = tally->filters.count == 0;
    uint64_t all = total ? stream->log.messages : tally->all;
    if ((total || tally->walked) && all == stream->log.messages
        && stream->log.messages == stream->log.last_seq - stream->log.first_seq + 1) {
        tally_settle(tally, tally_stretch(tally)); /* every message counts, none is missing */
    } else if ((total || tally->walked) && all == 0) {
        tally_settle(tally, 0);
    } else if ((total || tally->walked) && before < tally_stretch(tally)) {
        tally_scan(tally, TALLY_BEFORE, stream->log.first_seq, tally->from - 1);
    } else {
        tally_scan(tally, TALLY_AFTER, tally->from, stream->log.last_seq);
    }
}

/* One subject: its head may know, and its chain may be short. false: neither. */
static bool choose_chain(store_tally_t *tally) {
    head_t head;
    if (tally->filters.count != 1 || subject_has_wildcard(tally->filters.patterns[0])) {
        return false;
    }
    switch (head_look(tally->stream, tally->filters.patterns[0], &head)) {
    case READ_UNKNOWN: return false; /* another way may know */
    case READ_NONE: tally_settle(tally, 0); return true;
    case READ_FOUND: break;
    }
    if (head.last < tally->from) {
        tally_settle(tally, 0);
    } else if (head.first >= tally->from) {
        tally_settle(tally, head.count);
    } else if (head.count <= tally_stretch(tally) / CHAIN_COST) {
        tally->way = TALLY_CHAIN;
        tally->at = head.last;
    } else {
        return false;
    }
    return true;
}

static void tally_choose(store_tally_t *tally) {
    const store_stream_t *stream = tally->stream;
    if (stream->log.messages == 0 || tally->from > stream->log.last_seq) {
        tally_settle(tally, 0);
    } else if (tally->from <= stream->log.first_seq) {
        tally->way = TALLY_WALK;
    } else if (tally->filters.count == 0) {
        choose_scan(tally);
    } else if (!choose_chain(tally)) {
        uint64_t cost = stream->log.subjects * WALK_COST;
        uint64_t before = tally->from - stream->log.first_seq;
        if (stream->log.subjects <= WALK_ALWAYS
            || (cost < tally_stretch(tally) && before < tally_stretch(tally) - cost)) {
            tally->way = TALLY_WALK;
        } else {
            tally_scan(tally, TALLY_AFTER, tally->from, stream->log.last_seq);
        }
    }
}

/* All messages have left: none of those that there were counts, and what comes is counted as it comes. */
void tallies_emptied(store_stream_t *stream) {
    for (store_tally_t *tally = stream->tallies; tally != NULL; tally = tally->next) {
        store_walk_close(tally->walk);
        tally->walk = NULL;
        tally->walked = true;
        tally->all = 0;
        tally_settle(tally, 0);
    }
}

/* ---- slices ------------------------------------------------------------------------------------------------------ */

static step_outcome_t step_chain(store_tally_t *tally, uint32_t budget) {
    store_stream_t *stream = tally->stream;
    for (uint32_t step = 0; step < budget / CHAIN_COST + 1; step++) {
        message_row_t found;
        bool over = tally->at < tally->from || tally->at < stream->log.first_seq;
        read_outcome_t outcome = over ? READ_NONE : message_find(stream, tally->at, false, &found);
        switch (outcome) {
        case READ_UNKNOWN: return STEP_UNKNOWN;
        case READ_NONE: tally_settle(tally, tally->counted); return STEP_OVER;
        case READ_FOUND: break;
        }
        if (!found.sound || found.message.previous >= tally->at) { /* where it leads is not known */
            tally_scan(tally, TALLY_AFTER, tally->from, stream->log.last_seq);
            return STEP_MORE;
        }
        tally->counted += (found.message.flags & MESSAGE_GONE) == 0;
        tally->at = found.message.previous;
    }
    return STEP_MORE;
}

static bool visit_head(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    store_tally_t *tally = context;
    (void)last_seq;
    if (some_match(tally, tally->which, tally->until, subject) && !some_match(tally, 0, tally->which, subject)) {
        tally->all += count;
    }
    return true;
}

/* Filters that stand side by side and differ only behind a wildcard share a walk over all that begins like them: of
 * thousands, each would go through the same subjects. */
static store_walk_t *open_walk(store_tally_t *tally) {
    const bytes_t *filters = tally->patterns;
    uint8_t stem[SUBJECT_BYTES_MAX];
    bytes_t first = filters[tally->which];
    uint32_t size = subject_stem(first).size;
    tally->until = tally->which + 1;
    while (size < first.size && size < sizeof(stem) && tally->until < tally->filters.count
           && filters[tally->until].size > size && memcmp(filters[tally->until].at, first.at, size + 1) == 0
           && subject_stem(filters[tally->until]).size == size) {
        tally->until++;
    }
    if (tally->until == tally->which + 1) {
        return store_walk_open(tally->stream, first);
    }
    memcpy(stem, first.at, size);
    stem[size] = '>';
    return store_walk_open(tally->stream, bytes_of(stem, size + 1));
}

static step_outcome_t tally_walk(store_tally_t *tally, uint32_t budget) {
    uint32_t looks = budget / WALK_COST + 1;
    for (uint32_t walks = 0; tally->which < tally->filters.count; walks++, looks = WALK_SHORT) {
        if (walks > budget / WALK_OPEN_COST) {
            return STEP_MORE;
        }
        tally->walk = tally->walk == NULL ? open_walk(tally) : tally->walk;
        step_outcome_t step =
            tally->walk != NULL ? store_walk_step(tally->walk, looks, visit_head, tally) : STEP_UNKNOWN;
        switch (step) {
        case STEP_UNKNOWN:
        case STEP_MORE: return step;
        case STEP_OVER: break;
        }
        store_walk_close(tally->walk);
        tally->walk = NULL;
        tally->which = tally->until;
    }
    tally->walked = true;
    if (tally->from > tally->stream->log.first_seq) {
        choose_scan(tally);
        return STEP_MORE;
    }
    return STEP_OVER;
}

static step_outcome_t step_scan(store_tally_t *tally, uint32_t budget) {
    message_row_t found;
    while (tally->at <= tally->upto && budget > 0) {
        switch (message_next_some(tally->stream, &tally->at, tally->upto, false, &budget, &found)) {
        case SEEK_UNKNOWN: return STEP_UNKNOWN;
        case SEEK_MORE: return STEP_MORE;
        case SEEK_NONE: tally->at = tally->upto + 1; return STEP_OVER;
        case SEEK_FOUND: break;
        }
        tally->counted += found.sound && filters_match(tally->filters, found.message.subject);
        tally->at = found.seq + 1;
    }
    return tally->at > tally->upto ? STEP_OVER : STEP_MORE;
}

step_outcome_t store_tally_step(store_tally_t *tally, uint32_t budget) {
    switch (tally->way) {
    case TALLY_CHAIN: return step_chain(tally, budget);
    case TALLY_WALK: return tally->walked ? STEP_OVER : tally_walk(tally, budget);
    default: return step_scan(tally, budget);
    }
}

uint64_t store_tally_now(const store_tally_t *tally) {
    uint64_t all = tally->filters.count == 0 ? tally->stream->log.messages : tally->all;
    switch (tally->way) {
    case TALLY_WALK: return all;
    case TALLY_BEFORE: return all > tally->counted ? all - tally->counted : 0;
    default: return tally->counted;
    }
}

/* ---- opening and closing a tally --------------------------------------------------------------------------------- */

store_tally_t *store_tally_open(store_stream_t *stream, filters_t filters, uint64_t from) {
    uint64_t size = 0;
    for (uint32_t i = 0; i < filters.count; i++) {
        size += sizeof(bytes_t) + filters.patterns[i].size;
        if (subject_is_everything(filters.patterns[i])) {
            filters.count = filters.sorted = 0;
            size = 0;
        }
    }
    store_tally_t *tally = malloc(sizeof *tally + size);
    if (tally == NULL) {
        store_note_unknown(stream->store);
        return NULL;
    }
    uint8_t *text = (uint8_t *)(tally->patterns + filters.count);
    for (uint32_t i = 0; i < filters.count; i++) {
        bytes_t pattern = filters.patterns[i];
        if (pattern.size > 0) {
            memcpy(text, pattern.at, pattern.size);
        }
        tally->patterns[i] = bytes_of(text, pattern.size);
        text += pattern.size;
    }
    *tally = (store_tally_t){.next = stream->tallies,
                             .stream = stream,
                             .filters = {.patterns = tally->patterns, .count = filters.count, .sorted = filters.sorted},
                             .from = from};
    stream->tallies = tally;
    tally_choose(tally);
    return tally;
}

void store_tally_close(store_tally_t *tally) {
    if (tally == NULL) {
        return;
    }
    store_tally_t **place = &tally->stream->tallies;
    while (*place != tally) {
        check(*place != NULL);
        place = &(*place)->next;
    }
    *place = tally->next;
    store_walk_close(tally->walk);
    free(tally);
}
