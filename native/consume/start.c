/* start.c: where a new consumer begins, by its deliver policy, and which messages "last per subject" selects. */
#include <stdlib.h>

#include "consume/private.h"

static const bytes_t everything = {(const uint8_t *)">", 1};

static status_t selection_add(selection_t *selection, uint64_t seq) {
    if (selection->count == selection->capacity) {
        uint32_t capacity = selection->capacity ? selection->capacity * 2 : 64;
        uint64_t *larger = realloc(selection->seqs, capacity * sizeof *larger);
        if (!larger) return STATUS_NO_MEMORY;
        selection->seqs = larger;
        selection->capacity = capacity;
    }
    selection->seqs[selection->count++] = seq;
    return STATUS_OK;
}

typedef struct selecting {
    selection_t *selection;
    uint64_t above;
    bool failed;
} selecting_t;

static bool select_subject(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    (void)subject;
    (void)count;
    selecting_t *selecting = context;
    if (last_seq <= selecting->above || last_seq > selecting->selection->resume) return true;
    selecting->failed = selection_add(selecting->selection, last_seq) != STATUS_OK;
    return !selecting->failed;
}

static int ascending(const void *a, const void *b) {
    uint64_t left, right;
    memcpy(&left, a, sizeof left);
    memcpy(&right, b, sizeof right);
    return (left > right) - (left < right);
}

/* The newest message of every matching subject, above `above` and up to selection.resume. Without memory for the list the
 * consumer gets everything, which is more than was asked for, never less. */
bool consumer_select(consumer_t *consumer, uint64_t above) {
    selection_t *selection = &consumer->selection;
    selection->count = selection->next = 0;
    selecting_t selecting = {.selection = selection, .above = above};
    filters_t filters = consumer->setup.filters;
    if (filters.count == 0) filters = (filters_t){.patterns = &everything, .count = 1};
    for (uint32_t i = 0; i < filters.count && !selecting.failed; i++) {
        if (store_subjects(consumer->stream, filters.patterns[i], select_subject, &selecting) != STATUS_OK) selecting.failed = true;
    }
    if (selecting.failed) {
        selection->count = 0;
        return false;
    }
    if (selection->count > 1) qsort(selection->seqs, selection->count, sizeof *selection->seqs, ascending);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < selection->count; i++) { /* filters may overlap in what they match, although not as patterns */
        if (kept == 0 || selection->seqs[kept - 1] != selection->seqs[i]) selection->seqs[kept++] = selection->seqs[i];
    }
    selection->count = kept;
    return true;
}

static uint64_t last_match(consumer_t *consumer, uint64_t first, uint64_t last) {
    filters_t filters = consumer->setup.filters;
    if (filters.count == 0) return last > first ? last : first;
    uint64_t found = first;
    for (uint32_t i = 0; i < filters.count; i++) {
        stored_message_t message;
        if (store_last_by_subject(consumer->stream, filters.patterns[i], last, &message) == STATUS_OK && message.seq > found) {
            found = message.seq;
        }
    }
    return found;
}

void consumer_start(consumer_t *consumer) {
    stream_state_t state;
    store_stream_state(consumer->stream, &state);
    const consumer_config_t *config = &consumer->setup.config;
    uint64_t first = state.first_seq > 0 ? state.first_seq : 1;
    uint64_t start = first;
    switch (config->deliver_policy) {
    case DELIVER_LAST: start = last_match(consumer, first, state.last_seq); break;
    case DELIVER_NEW: start = state.last_seq + 1; break;
    case DELIVER_BY_START_SEQUENCE: start = config->opt_start_seq > first ? config->opt_start_seq : first; break;
    case DELIVER_BY_START_TIME:
        if (store_seq_at_time(consumer->stream, config->opt_start_ts, &start) != STATUS_OK) start = state.last_seq + 1;
        if (start < first) start = first;
        break;
    case DELIVER_LAST_PER_SUBJECT:
        consumer->selection.resume = state.last_seq;
        if (state.last_seq > 0 && consumer_select(consumer, 0)) {
            start = consumer->selection.count > 0 ? consumer->selection.seqs[0] : state.last_seq;
        } else {
            consumer->selection.resume = 0;
        }
        break;
    default: break;
    }
    consumer->cursor = consumer->selection.resume > 0 ? consumer->selection.resume + 1 : start;
    consumer->delivered_stream = consumer->floor_stream = start - 1;
    consumer->settled = consumer->acked_upto = start - 1;
}
