/* direct_last.c: of a direct get with multi_last: the last message of each subject that matches one of many filters,
 * found by walking their subjects, and sent in the order of their sequences. What a direct get is: direct.c.
 */
#include <stdlib.h>

#include "base/buffer.h"
#include "jetstream/direct_private.h"
#include "jetstream/found_seqs.h"
#include "jetstream/js.h"
#include "text/subject.h"

#define NAMES_BYTES_MAX (64u << 20)
#define MULTI_LITERALS 512u /* subjects without wildcards, in one step */

struct last_seqs {
    buffer_t filters; /* multi_last as the request has it */
    uint32_t filters_at;
    bool filters_done;
    bool literal; /* the filter at hand */
    store_walk_t *walk;
    uint32_t first; /* to be sent, and what is next */
    uint32_t next;
    bool too_many;
    bool failed;
    buffer_t names; /* subjects of the last step whose last is behind up_to: size 4, bytes */
    uint64_t names_at;
    uint64_t chain_at;
    found_seqs_t found;
};

static void direct_collect(direct_t *direct, uint64_t seq) {
    last_seqs_t *all = direct->multi;
    all->too_many = all->too_many || !found_seqs_add(&all->found, seq);
}

static bool collect_last(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    direct_t *direct = context;
    last_seqs_t *all = direct->multi;
    (void)count;
    if (last_seq <= direct->upto) {
        direct_collect(direct, last_seq);
    } else {
        uint8_t size[4];
        store_be32(size, subject.size);
        all->failed = all->failed || buffer_append(&all->names, size, 4) != STATUS_OK
                      || buffer_append(&all->names, subject.at, subject.size) != STATUS_OK;
    }
    return !all->too_many && !all->failed;
}

static bool direct_is_collected(direct_t *direct) {
    last_seqs_t *all = direct->multi;
    if (all->found.count == 0) {
        return direct_is_over(direct, "404 No Results");
    }
    if (!found_seqs_settle(&all->found)) {
        return direct_is_over(direct, "413 Too Many Results");
    }
    all->first = all->next = found_seqs_below(&all->found, direct->asked.seq);
    direct->pending = all->found.count - all->first;
    direct->stage = DIRECT_SEND_MULTI;
    return false;
}

static bool next_filter(direct_t *direct, uint32_t *at, bytes_t *filter) {
    const buffer_t *filters = &direct->multi->filters;
    return direct_request_filter(&direct->asked, bytes_of(filters->at, (uint32_t)filters->size), at, filter);
}

/* One slice of the subjects of one filter. What the last one finds is sent in this turn, before others replace it. */
static void walk_some(direct_t *direct) {
    last_seqs_t *all = direct->multi;
    bytes_t filter;
    if (all->walk == NULL) {
        all->filters_done = !next_filter(direct, &all->filters_at, &filter);
        if (all->filters_done) {
            return;
        }
        all->literal = !subject_has_wildcard(filter);
        all->walk = store_walk_open(direct->stream->store, filter);
    }
    uint32_t at = all->filters_at;
    step_outcome_t step =
        all->walk != NULL ? store_walk_step(all->walk, SEARCH_SUBJECTS, collect_last, direct) : STEP_UNKNOWN;
    switch (step) {
    case STEP_UNKNOWN: all->failed = true; break;
    case STEP_MORE: break;
    case STEP_OVER:
        store_walk_close(all->walk);
        all->walk = NULL;
        all->filters_done = !next_filter(direct, &at, &filter);
    }
}

bool direct_step_walk(direct_t *direct) {
    last_seqs_t *all = direct->multi;
    uint32_t budget = MULTI_LITERALS;
    for (all->literal = true; all->literal && !all->filters_done && budget > 0; budget--) {
        walk_some(direct);
        if (all->too_many || all->failed) {
            return direct_is_over(direct, all->too_many ? "413 Too Many Results" : DIRECT_BUSY);
        }
    }
    if (all->names.size != 0) {
        direct->stage = DIRECT_BEFORE;
    } else if (all->filters_done) {
        return direct_is_collected(direct);
    }
    return false;
}

/* A newer message took the place of what was the last on disk: that one, then, as with search_t. */
static seek_outcome_t newest_at_all(direct_t *direct, bytes_t subject) {
    direct->multi->chain_at = 0;
    direct->early = true;
    uint32_t budget = 1;
    return store_newest_of(direct->stream->store, subject, UINT64_MAX, &budget, &direct->multi->chain_at);
}

static seek_outcome_t last_of_subject_at(direct_t *direct, bytes_t subject, uint32_t *budget) {
    uint64_t *at = &direct->multi->chain_at;
    seek_outcome_t outcome = store_newest_of(direct->stream->store, subject, direct->upto, budget, at);
    switch (outcome) {
    case SEEK_UNKNOWN:
    case SEEK_MORE:
    case SEEK_FOUND: return outcome;
    case SEEK_NONE: break;
    }
    return direct->asked.up_to_seq == 0 && !direct->asked.has_up_to_time ? newest_at_all(direct, subject) : outcome;
}

/* Looks for the last message of the subject at up_to. */
bool direct_step_before(direct_t *direct) {
    last_seqs_t *all = direct->multi;
    uint32_t budget = SEARCH_SUBJECTS;
    while (all->names_at + 4 <= all->names.size) {
        bytes_t subject = bytes_of(all->names.at + all->names_at + 4, load_be32(all->names.at + all->names_at));
        switch (last_of_subject_at(direct, subject, &budget)) {
        case SEEK_MORE: return false;
        case SEEK_UNKNOWN: return direct_is_over(direct, DIRECT_BUSY);
        case SEEK_NONE: break;
        case SEEK_FOUND: direct_collect(direct, all->chain_at); break;
        }
        if (all->too_many) {
            return direct_is_over(direct, "413 Too Many Results");
        }
        all->chain_at = 0;
        all->names_at += 4 + (uint64_t)subject.size;
    }
    if (all->names_at + 4 > all->names.size) {
        all->names.size = all->names_at = 0;
        direct->stage = DIRECT_WALK;
    }
    return false;
}

bool direct_step_send_multi(direct_t *direct) {
    last_seqs_t *all = direct->multi;
    uint64_t bound = direct_bytes_bound(direct), stop = direct->bytes + DIRECT_SEND_BYTES;
    while (direct->bytes < stop) {
        if (all->next == all->found.count || direct->bytes >= bound || direct_crowded(direct)
            || (direct->asked.batch > 0 && all->next - all->first == direct->asked.batch)) {
            return direct_end_batch(direct);
        }
        stored_message_t message;
        bool there = false;
        switch (store_read(direct->stream->store, all->found.seqs[all->next], &message)) {
        case ENTRY_UNKNOWN: return false; /* the next step tries it again */
        case ENTRY_NONE:
        case ENTRY_DAMAGED: break;
        case ENTRY_FOUND: there = true; break;
        }
        all->next++;
        direct->pending--;
        if (!there) {
            continue;
        }
        direct->bytes += stored_size(&message);
        batch_place_t place = {direct->pending, direct->last_seq};
        if (!direct_answer_message(direct, &message, &place)) {
            return direct_end_batch(direct);
        }
        direct->last_seq = message.seq;
    }
    return false;
}

/* ---- its begin and its end --------------------------------------------------------------------------------------- */

static status_t upto_begin(direct_t *direct) {
    uint64_t visible = store_stream_visible(direct->stream->store);
    uint64_t end = direct->asked.up_to_seq + (direct->asked.up_to_seq != 0); /* 0: no other than what is visible */
    status_t status = direct->asked.has_up_to_time ? direct_first_at(direct, direct->asked.up_to_ts, &end) : STATUS_OK;
    direct->upto = end - 1 < visible ? end - 1 : visible;
    return status;
}

status_t direct_last_begin(direct_t *direct) {
    const direct_request_t *asked = &direct->asked;
    direct->multi = calloc(1, sizeof(*direct->multi));
    if (direct->multi == NULL) {
        return STATUS_NO_MEMORY;
    }
    buffer_init(&direct->multi->names, NAMES_BYTES_MAX);
    buffer_init(&direct->multi->filters, UINT32_MAX);
    buffer_count(&direct->multi->filters, &direct->js->filters);
    status_t status = buffer_append(&direct->multi->filters, asked->multi.at, asked->multi.size);
    return status == STATUS_OK ? upto_begin(direct) : status;
}

void direct_last_end(last_seqs_t *all) {
    if (all != NULL) {
        store_walk_close(all->walk);
        buffer_free(&all->names);
        buffer_free(&all->filters);
        free(all);
    }
}
