/* start.c: where a new consumer begins, by its deliver policy, and which messages "last per subject" selects.
 *
 * A survey goes through many subjects, or over many deleted messages, in steps. The consumer counts the messages left
 * for it behind the survey. Until then nothing is delivered, no start is written down, and retention keeps everything
 * for the consumer.
 * A message that comes meanwhile lies behind `resume`, and is delivered after the selection. A subject whose newest
 * message moved there before the survey came to it has no older one in the selection. A message that leaves meanwhile
 * is taken out at the end.
 *
 *     TIME (by start time) > FIRST ----------------------------> start
 *     LAST ----------------------------------------------------> start
 *     SUBJECTS > RUNS (sorted one by one) > MERGE > VERIFY > start
 */
#include <stdlib.h>

#include "base/array.h"
#include "consume/private.h"
#include "consume/state.h"
#include "store/alarms.h"

#define SURVEY_STEP 3328 /* subjects looked at, or messages verified, in one step */
#define SORT_RUN 4096
#define SORT_RUNS 4 /* in one step */
#define MERGE_STEP 65536
#define SELECTION_MIN 64

typedef enum stage {
    STAGE_TIME,
    STAGE_FIRST,
    STAGE_LAST,
    STAGE_SUBJECTS,
    STAGE_RUNS,
    STAGE_MERGE,
    STAGE_VERIFY
} stage_t;

struct survey {
    stage_t stage;
    bool loading; /* the stored state says where the consumer is */
    bool failed;
    uint32_t filter;
    uint64_t first;
    uint64_t found; /* TIME, FIRST, LAST */
    uint64_t above; /* SUBJECTS: only messages above this */
    store_newest_t newest;
    store_walk_t *walk;
    uint64_t *other; /* what MERGE merges into */
    uint64_t width;  /* of the runs that are in order */
    uint64_t left, right, out;
    bool removed;    /* something that may be selected left the stream */
    uint32_t looked; /* VERIFY */
    uint32_t kept;
};

static const bytes_t everything = {(const uint8_t *)">", 1};

static bytes_t filter_at(const consumer_t *consumer, uint32_t i) {
    return consumer->setup.filters.count == 0 ? everything : consumer->setup.filters.patterns[i];
}

static uint32_t filters_of(const consumer_t *consumer) {
    return consumer->setup.filters.count == 0 ? 1 : consumer->setup.filters.count;
}

/* ---- where it starts --------------------------------------------------------------------------------------------- */

static void start_at(consumer_t *consumer, uint64_t start) {
    consumer->cursor = consumer->selection.resume > 0 ? consumer->selection.resume + 1 : start;
    consumer->delivered_stream = consumer->floor_stream = start - 1;
    consumer->settled = consumer->acked_upto = start - 1;
    consumer->push.taken = start - 1; /* a mirror or source begins behind what it has */
}

void survey_end(consumer_t *consumer) {
    survey_t *survey = consumer->survey;
    if (!survey) return;
    store_newest_end(&survey->newest);
    store_walk_close(survey->walk);
    free(survey->other);
    free(survey);
    consumer->survey = NULL;
}

/* Without memory for what it takes, the consumer gets every message: more than was asked for, never less. */
static void say_every_message(const consumer_t *consumer) {
    store_alarm(store_stream_store(consumer->stream), ALARM_MEMORY, consumer->group->stream_id, 0,
                "there is no memory to look for what a deliver policy asks for, so the consumer gets every message "
                "that its filters match: %.*s",
                (int)consumer->setup.name.size, (const char *)consumer->setup.name.at);
}

static void selection_finish(consumer_t *consumer) {
    survey_t *survey = consumer->survey;
    selection_t *selection = &consumer->selection;
    uint64_t start = survey->found;
    if (survey->failed) {
        say_every_message(consumer);
        selection->count = selection->next = selection->lost = 0;
        selection->resume = survey->loading ? selection->resume : 0;
        start = survey->first;
    } else if (survey->stage > STAGE_LAST) {
        start = selection->count > 0 ? selection->seqs[0] : selection->resume;
    }
    if (!survey->loading) {
        start_at(consumer, start);
        state_dirty(consumer);
    } else if (!survey->failed) {
        consumer->cursor = selection->resume + 1;
    }
    survey_end(consumer);
}

/* ---- by time ----------------------------------------------------------------------------------------------------- */

static seek_outcome_t start_of_time(const consumer_t *consumer, uint64_t *start) {
    stream_state_t state;
    seek_outcome_t outcome =
        store_seq_at_time(consumer->stream, consumer->setup.config.opt_start_ts, SURVEY_STEP, start);
    switch (outcome) {
    case SEEK_UNKNOWN:
    case SEEK_MORE:
    case SEEK_FOUND: break;
    case SEEK_NONE: store_stream_state(consumer->stream, &state); *start = state.last_seq + 1;
    }
    return outcome;
}

/* The start time's place could not be read when the consumer was made. */
static step_outcome_t step_time(consumer_t *consumer) {
    survey_t *survey = consumer->survey;
    uint64_t start;
    switch (start_of_time(consumer, &start)) {
    case SEEK_UNKNOWN: return STEP_UNKNOWN;
    case SEEK_NONE:
    case SEEK_MORE:
    case SEEK_FOUND: break;
    }
    survey->found = start > survey->first ? start : survey->first;
    return STEP_OVER;
}

/* The first message behind deleted ones. */
static step_outcome_t step_behind(consumer_t *consumer) {
    survey_t *survey = consumer->survey;
    stored_message_t message;
    stream_state_t state;
    switch (store_next(consumer->stream, (filters_t){0}, &survey->found, UINT64_MAX, SURVEY_STEP, &message)) {
    case SEEK_UNKNOWN: return STEP_UNKNOWN;
    case SEEK_MORE: return STEP_MORE;
    case SEEK_NONE:
        store_stream_state(consumer->stream, &state);
        survey->found = state.last_seq + 1;
        break;
    case SEEK_FOUND: break;
    }
    return STEP_OVER;
}

/* ---- the newest of all ------------------------------------------------------------------------------------------- */

static step_outcome_t step_last(consumer_t *consumer) {
    survey_t *survey = consumer->survey;
    uint64_t seq = 0;
    switch (store_newest(consumer->stream, &survey->newest, filter_at(consumer, survey->filter), UINT64_MAX,
                         SURVEY_STEP, &seq)) {
    case SEEK_UNKNOWN: return STEP_UNKNOWN;
    case SEEK_MORE: return STEP_MORE;
    case SEEK_FOUND: survey->found = seq > survey->found ? seq : survey->found; break;
    case SEEK_NONE: break;
    }
    store_newest_end(&survey->newest);
    return ++survey->filter == filters_of(consumer) ? STEP_OVER : STEP_MORE;
}

/* ---- the newest of every subject --------------------------------------------------------------------------------- */

static status_t selection_add(selection_t *selection, uint64_t seq) {
    if (array_reserve(&selection->seqs, &selection->capacity, selection->count + 1u, SELECTION_MIN, sizeof(uint64_t))
        != STATUS_OK) {
        return STATUS_NO_MEMORY;
    }
    selection->seqs[selection->count++] = seq;
    return STATUS_OK;
}

static bool select_subject(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    (void)subject;
    (void)count;
    consumer_t *consumer = context;
    survey_t *survey = consumer->survey;
    if (last_seq <= survey->above || last_seq > consumer->selection.resume) return true;
    survey->failed = selection_add(&consumer->selection, last_seq) != STATUS_OK;
    return !survey->failed;
}

static step_outcome_t step_subjects(consumer_t *consumer) {
    survey_t *survey = consumer->survey;
    if (!survey->walk) survey->walk = store_walk_open(consumer->stream, filter_at(consumer, survey->filter));
    survey->failed = survey->failed || !survey->walk;
    step_outcome_t step =
        survey->walk ? store_walk_step(survey->walk, SURVEY_STEP, select_subject, consumer) : STEP_OVER;
    switch (step) {
    case STEP_UNKNOWN:
    case STEP_MORE: return step;
    case STEP_OVER: break;
    }
    store_walk_close(survey->walk);
    survey->walk = NULL;
    return survey->failed || ++survey->filter == filters_of(consumer) ? STEP_OVER : STEP_MORE;
}

static int sequence_order(const void *a, const void *b) {
    uint64_t left, right;
    memcpy(&left, a, sizeof left);
    memcpy(&right, b, sizeof right);
    return (left > right) - (left < right);
}

static step_outcome_t step_runs(consumer_t *consumer) {
    survey_t *survey = consumer->survey;
    selection_t *selection = &consumer->selection;
    for (int runs = 0; runs < SORT_RUNS && survey->out < selection->count; runs++) {
        uint64_t size = selection->count - survey->out;
        if (size > SORT_RUN) size = SORT_RUN;
        qsort(selection->seqs + survey->out, size, sizeof *selection->seqs, sequence_order);
        survey->out += size;
    }
    if (survey->out < selection->count) return STEP_MORE;
    survey->out = 0;
    survey->width = SORT_RUN;
    if (selection->count > SORT_RUN) {
        survey->other = malloc(selection->count * sizeof *survey->other);
        survey->failed = !survey->other;
    }
    return STEP_OVER;
}

/* Merges pairs of runs into runs of twice the width, until one run is left. */
static step_outcome_t step_merge(consumer_t *consumer) {
    survey_t *survey = consumer->survey;
    selection_t *selection = &consumer->selection;
    uint64_t count = selection->count;
    for (uint32_t budget = MERGE_STEP; survey->width < count; budget--) {
        uint64_t base = survey->out / (2 * survey->width) * (2 * survey->width);
        uint64_t middle = base + survey->width < count ? base + survey->width : count;
        uint64_t end = base + 2 * survey->width < count ? base + 2 * survey->width : count;
        if (budget == 0) return STEP_MORE;
        if (survey->out == base) {
            survey->left = base;
            survey->right = middle;
        }
        bool left = survey->left < middle
                    && (survey->right == end || selection->seqs[survey->left] <= selection->seqs[survey->right]);
        survey->other[survey->out++] = selection->seqs[left ? survey->left++ : survey->right++];
        if (survey->out == count) {
            uint64_t *merged = survey->other;
            survey->other = selection->seqs;
            selection->seqs = merged;
            selection->capacity = selection->count;
            survey->out = 0;
            survey->width *= 2;
        }
    }
    return STEP_OVER;
}

/* Whether the message is known to have left the stream. */
static bool has_left(consumer_t *consumer, uint64_t seq) {
    stored_message_t message;
    switch (store_read(consumer->stream, seq, &message)) {
    case ENTRY_NONE: return true;
    case ENTRY_UNKNOWN:
    case ENTRY_DAMAGED:
    case ENTRY_FOUND: break;
    }
    return false;
}

/* Filters may overlap in what they match, although not as patterns. Messages that left the stream are looked for only
 * if any did. */
static step_outcome_t step_verify(consumer_t *consumer) {
    survey_t *survey = consumer->survey;
    selection_t *selection = &consumer->selection;
    uint32_t budget = SURVEY_STEP;
    for (; survey->looked < selection->count; survey->looked++) {
        uint64_t seq = selection->seqs[survey->looked];
        if (survey->kept > 0 && selection->seqs[survey->kept - 1] == seq) continue;
        if (survey->removed && budget-- == 0) return STEP_MORE;
        if (survey->removed && has_left(consumer, seq)) continue;
        selection->seqs[survey->kept++] = seq;
    }
    selection->count = survey->kept;
    return STEP_OVER;
}

/* ---- steps of a survey ------------------------------------------------------------------------------------------- */

/* A message has left the stream. VERIFY notices by itself if it has not come to that message yet. */
void survey_removed(consumer_t *consumer, uint64_t seq) {
    survey_t *survey = consumer->survey;
    selection_t *selection = &consumer->selection;
    survey->removed = true;
    if (survey->stage == STAGE_VERIFY && survey->kept > 0
        && bsearch(&seq, selection->seqs, survey->kept, sizeof *selection->seqs, sequence_order)) {
        selection->lost++;
    }
}

/* All messages have left the stream. */
void survey_emptied(consumer_t *consumer) {
    survey_t *survey = consumer->survey;
    survey->removed = true;
    if (survey->stage == STAGE_VERIFY) consumer->selection.lost = survey->kept;
}

bool survey_step(consumer_t *consumer) {
    static step_outcome_t (*const steps[])(consumer_t *consumer) = {step_time, step_behind, step_last,  step_subjects,
                                                                    step_runs, step_merge,  step_verify};
    survey_t *survey = consumer->survey;
    for (;;) {
        switch (steps[survey->stage](consumer)) {
        case STEP_UNKNOWN: /* the store has reported the failed read */
        case STEP_MORE: return false;
        case STEP_OVER: break;
        }
        if (survey->stage == STAGE_FIRST || survey->stage == STAGE_LAST || survey->stage == STAGE_VERIFY
            || survey->failed)
            break;
        survey->stage++;
    }
    selection_finish(consumer);
    return true;
}

static void survey_begin(consumer_t *consumer, survey_t begin) {
    survey_end(consumer);
    consumer->survey = malloc(sizeof begin);
    if (!consumer->survey) {
        consumer->selection.resume = begin.loading ? consumer->selection.resume : 0;
        say_every_message(consumer);
        return;
    }
    *consumer->survey = begin;
    consumer->group->strays = true;
    (void)survey_step(consumer);
}

void survey_resume(consumer_t *consumer) {
    survey_begin(consumer, (survey_t){.stage = STAGE_SUBJECTS, .loading = true, .above = consumer->settled});
}

/* The consumer has got other filters. */
void survey_again(consumer_t *consumer) {
    if (consumer->survey->loading) {
        consumer->selection.count = consumer->selection.lost = 0;
        survey_resume(consumer);
    } else {
        consumer_start(consumer);
    }
}

bool survey_is_new(const consumer_t *consumer) {
    return consumer->survey && !consumer->survey->loading;
}

void consumer_start(consumer_t *consumer) {
    survey_end(consumer);
    consumer->selection.count = consumer->selection.next = consumer->selection.lost = 0;
    consumer->selection.resume = 0;
    stream_state_t state;
    store_stream_state(consumer->stream, &state);
    const consumer_config_t *config = &consumer->setup.config;
    uint64_t first = state.first_seq > 0 ? state.first_seq : 1;
    uint64_t start = first;
    seek_outcome_t timed = SEEK_FOUND; /* MORE: it is not below `start` */
    switch (config->deliver_policy) {
    case DELIVER_LAST:
        if (consumer->setup.filters.count == 0 && state.last_seq > first) start = state.last_seq;
        break;
    case DELIVER_NEW: start = state.last_seq + 1; break;
    case DELIVER_BY_START_SEQUENCE: start = config->opt_start_seq > first ? config->opt_start_seq : first; break;
    case DELIVER_BY_START_TIME:
        timed = start_of_time(consumer, &start);
        if (start < first) start = first;
        break;
    default: break;
    }
    start_at(consumer, start);
    switch (timed) {
    case SEEK_UNKNOWN: survey_begin(consumer, (survey_t){.stage = STAGE_TIME, .first = start, .found = start}); break;
    case SEEK_MORE: survey_begin(consumer, (survey_t){.stage = STAGE_FIRST, .first = start, .found = start}); break;
    case SEEK_NONE:
    case SEEK_FOUND: break;
    }
    if (config->deliver_policy == DELIVER_LAST && consumer->setup.filters.count > 0) {
        survey_begin(consumer, (survey_t){.stage = STAGE_LAST, .first = first, .found = first});
    } else if (config->deliver_policy == DELIVER_LAST_PER_SUBJECT && state.last_seq > 0) {
        consumer->selection.resume = state.last_seq;
        survey_begin(consumer, (survey_t){.stage = STAGE_SUBJECTS, .first = first});
    }
}
