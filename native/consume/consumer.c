/* consumer.c: one consumer's life: added, configured, counted, looked at, paused, reset, timed out, removed. Where it
 * starts is in start.c, what it delivers in deliver.c. */
#include <stdlib.h>

#include "base/leftover.h"
#include "base/number.h"
#include "text/subject.h"
#include "consume/bound.h"
#include "consume/copy.h"
#include "consume/deliver.h"
#include "consume/private.h"
#include "consume/retention.h"
#include "consume/state.h"

#define HELD_NS (5 * NS_PER_SECOND) /* the answer for a new consumer may take that long */

/* ---- setup ------------------------------------------------------------------------------------------------------- */

static bytes_t copy_bytes(uint8_t **to, bytes_t from) {
    bytes_t copy = bytes_of(*to, from.size);
    if (from.size > 0) memcpy(*to, from.at, from.size);
    *to += from.size;
    return copy;
}

/* "$JS.ACK.<stream>.<name>.", of which both names are slices from then on. */
static bytes_t copy_names(uint8_t **at, consumer_setup_t *to) {
    const uint8_t *begin = *at;
    *at = bytes_write(*at, BYTES_LITERAL(ACK_PREFIX));
    to->stream_name = copy_bytes(at, to->stream_name);
    *(*at)++ = '.';
    to->name = copy_bytes(at, to->name);
    *(*at)++ = '.';
    return bytes_of(begin, (uint32_t)(*at - begin));
}

/* A copy of a setup, and what is made of it: in one allocation the back-offs, the filters' slices, then all bytes. */
typedef struct setup_copy {
    consumer_setup_t setup;
    bytes_t ack_prefix;
    uint8_t *text;
} setup_copy_t;

static status_t setup_copy(const consumer_setup_t *from, setup_copy_t *copy) {
    if (from->backoff_count > CONSUME_BACKOFF_MAX || from->stream_name.size > 255 || from->name.size > 255)
        return STATUS_INVALID;
    size_t backoff = from->backoff_count * sizeof(int64_t);
    size_t slices = from->filters.count * sizeof(bytes_t);
    size_t size = backoff + slices + ACK_PREFIX_SIZE(from->stream_name.size, from->name.size)
                  + from->deliver_subject.size + from->deliver_group.size + from->priority_groups.size;
    for (uint32_t i = 0; i < from->filters.count; i++) size += from->filters.patterns[i].size;
    uint8_t *room = malloc(size + 1);
    if (!room) return STATUS_NO_MEMORY;
    consumer_setup_t *to = &copy->setup;
    *to = *from;
    copy->text = room;
    if (backoff > 0) memcpy(room, from->backoff_ns, backoff);
    to->backoff_ns = (const int64_t *)(void *)room;
    bytes_t *patterns = (bytes_t *)(void *)(room + backoff);
    to->filters.patterns = patterns;
    uint8_t *at = room + backoff + slices;
    for (uint32_t i = 0; i < from->filters.count; i++) patterns[i] = copy_bytes(&at, from->filters.patterns[i]);
    copy->ack_prefix = copy_names(&at, to);
    to->deliver_subject = copy_bytes(&at, from->deliver_subject);
    to->deliver_group = copy_bytes(&at, from->deliver_group);
    to->priority_groups = copy_bytes(&at, from->priority_groups);
    return STATUS_OK;
}

static bool takes_everything(filters_t filters) {
    for (uint32_t i = 0; i < filters.count; i++) {
        if (bytes_equal(filters.patterns[i], BYTES_LITERAL(">"))) return true;
    }
    return filters.count == 0;
}

/* Derives the values that follow from the setup and are kept beside it. */
static void consumer_derive(consumer_t *consumer, const setup_copy_t *copy) {
    consumer->setup = copy->setup;
    consumer->ack_prefix = copy->ack_prefix;
    consumer->text = copy->text;
    if (consumer->setup.config.ack_wait_ns <= 0) consumer->setup.config.ack_wait_ns = DEFAULT_ACK_WAIT_NS;
    consumer->filter_all = takes_everything(consumer->setup.filters);
    if (consumer->filter_all) consumer->setup.filters = (filters_t){0};
    priority_configured(consumer);
}

static bool same_filters(filters_t a, filters_t b) {
    if (a.count != b.count) return false;
    for (uint32_t i = 0; i < a.count; i++) {
        if (!bytes_equal(a.patterns[i], b.patterns[i])) return false;
    }
    return true;
}

/* Does it want whatever it wanted before? */
static bool covers(filters_t wider, filters_t before) {
    subject_set_t set = {.at = wider.patterns, .count = wider.count, .sorted = wider.sorted};
    for (uint32_t i = 0; i < before.count && wider.count != 0; i++) {
        if (!subject_set_covers(&set, before.patterns[i])) return false;
    }
    return wider.count == 0 || before.count != 0;
}

/* ---- add and configure ------------------------------------------------------------------------------------------- */

/* Holds the consumer's messages until the answer has been sent, so that it comes before the first message. */
void consumer_hold(consumer_t *consumer) {
    consumer->held = true;
    consumer->not_before_ns = time_after(consumer->consume->now.mono_ns, HELD_NS);
}

static void arm_first(consumer_t *consumer) {
    consumer->active_ns = consumer->consume->now.mono_ns;
    if (consumer_is_push(consumer)) push_start(consumer);
    consumer_arm(consumer, consumer->active_ns); /* computes every deadline at the next tick */
    consumer_ready(consumer);
}

status_t consumer_add(consume_t *consume, store_stream_t *stream, const consumer_setup_t *setup, bool loading,
                      moment_t now, consumer_t **out) {
    *out = NULL;
    consume->now = now;
    consumer_t *consumer = calloc(1, sizeof *consumer);
    if (!consumer) return STATUS_NO_MEMORY;
    pending_init(&consumer->pending, consume->memory);
    consumer->expiry_due_ns = consumer->settle_due_ns = consumer->push.heartbeat_due_ns = NEVER;
    consumer->next_sequence = 1;
    consumer->consume = consume;
    consumer->pull = &consume->nobody_pulls;
    setup_copy_t copy = {0};
    status_t status = setup_copy(setup, &copy);
    if (status == STATUS_OK && !is_push(setup)) status = pull_begin(consumer);
    if (status != STATUS_OK) goto failed;
    consumer_derive(consumer, &copy);
    status = consumer_join(consume, stream, consumer);
    if (status != STATUS_OK) goto failed;
    bool found = false;
    if (loading) status = state_load(consumer, &found);
    if (status != STATUS_OK) {
        consumer_destroy(consumer);
        return status;
    }
    if (!found) {
        /* Its id may be one that another server has given out before. */
        if (!loading && (store_stream_config(stream)->flags & STREAM_REPLICATED) != 0) state_delete(consumer, false);
        consumer_start(consumer);
        state_dirty(consumer);
    }
    copy_begins(consumer, found);
    if (loading && consumer->group->sweeping) consumer->group->sweep_after_ns = time_after(now.mono_ns, SWEEP_HOLD_NS);
    if (setup->config.pause_until_ns > 0) consumer_pause(consumer, setup->config.pause_until_ns, now);
    if (setup->config.replay_policy == 1) {
        stream_state_t state;
        store_stream_state(stream, &state);
        consumer->replay_upto = state.last_seq;
    }
    if (!loading && (setup->config.flags & CONSUMER_HELD)) consumer_hold(consumer);
    arm_first(consumer);
    *out = consumer;
    return STATUS_OK;
failed:
    pull_end(consumer);
    free(copy.text);
    free(consumer);
    return status;
}

static bool same_waits(const consumer_setup_t *a, const consumer_setup_t *b) {
    return a->config.ack_wait_ns == b->config.ack_wait_ns && a->backoff_count == b->backoff_count
           && (a->backoff_count == 0
               || memcmp(a->backoff_ns, b->backoff_ns, a->backoff_count * sizeof *a->backoff_ns) == 0);
}

/* A changed ack wait counts for what is in flight, too. */
static void shift_due(consumer_t *consumer, const consumer_setup_t *old) {
    consumer_t before = {.setup = *old};
    if (same_waits(&consumer->setup, old)) return;
    pending_t *pending = &consumer->pending;
    for (uint32_t row = pending->head; row != PENDING_NONE; row = pending_row(pending, row)->after) {
        pending_row_t *here = pending_row(pending, row);
        int64_t sent_ns = here->due_ns - consumer_wait(&before, here->deliveries);
        here->due_ns = time_after(sent_ns, consumer_wait(consumer, here->deliveries));
    }
    consumer_expires_anew(consumer, pending->count > 0 ? consumer->consume->now.mono_ns : NEVER);
}

status_t consumer_configure(consumer_t *consumer, const consumer_setup_t *setup, moment_t now) {
    consumer->consume->now = now;
    consumer_setup_t old = consumer->setup;
    uint8_t *old_text = consumer->text;
    setup_copy_t fresh;
    status_t status = is_push(setup) ? STATUS_OK : pull_begin(consumer);
    if (status == STATUS_OK) status = setup_copy(setup, &fresh);
    if (status != STATUS_OK) return status;
    fresh.setup.id = old.id;
    fresh.setup.stream_id = old.stream_id;
    fresh.setup.config.pause_until_ns = old.config.pause_until_ns;
    consumer_derive(consumer, &fresh);
    concern_forget(&consumer->group->concern);
    if (!same_filters(old.filters, consumer->setup.filters)) {
        consumer->refiltered = consumer->group->strays = true;
        store_ahead_end(&consumer->ahead);
        consumer_recount(consumer);
        if (consumer->survey) survey_again(consumer); /* that was counted with the old filters */
        if (!covers(consumer->setup.filters, old.filters)) retention_sweep(consumer->group, 0, 0, now.mono_ns);
    }
    shift_due(consumer, &old);
    consumer->push.told.answering = (setup->config.flags & CONSUMER_HELD) != 0;
    if (!bytes_equal(old.deliver_subject, consumer->setup.deliver_subject)) consumer_deliver_again(consumer);
    free(old_text);
    consumer->active_ns = now.mono_ns;
    if (consumer_is_push(consumer)) push_review(consumer);
    if (setup->config.flags & CONSUMER_HELD) consumer_hold(consumer);
    consumer_arm(consumer, now.mono_ns);
    consumer_ready(consumer);
    return STATUS_OK;
}

/* ---- removal ----------------------------------------------------------------------------------------------------- */

void consumer_destroy(consumer_t *consumer) {
    consumer_leave(consumer);
    pull_free(consumer);
    pending_free(&consumer->pending);
    store_tally_close(consumer->tally);
    bound_forget(consumer);
    survey_end(consumer);
    store_ahead_end(&consumer->ahead);
    free(consumer->selection.seqs);
    pull_end(consumer);
    free(consumer->text);
    free(consumer);
}

void consumer_remove(consumer_t *consumer, moment_t now) {
    consumer->consume->now = now;
    pull_drop_all(consumer, BYTES_LITERAL("409 Consumer Deleted"), false);
    push_removed(consumer);
    state_delete(consumer, true);
    group_t *group = consumer->group;
    bool counts = consumer_counts(consumer);
    consumer_destroy(consumer);
    if (counts) retention_sweep(group, 0, 0, now.mono_ns);
}

/* ---- counts ------------------------------------------------------------------------------------------------------ */

bool consumer_matches(const consumer_t *consumer, bytes_t subject) {
    return filters_match(consumer->setup.filters, subject);
}

void consumer_recount(consumer_t *consumer) {
    store_tally_close(consumer->tally);
    consumer->tally = NULL;
    consumer->left_known = false;
    bound_forget(consumer);
}

static bool count_step(consumer_t *consumer, uint32_t budget) {
    if (consumer->left_known) return true;
    if (consumer->survey && !survey_step(consumer)) return false;
    if (!consumer->tally)
        consumer->tally = store_tally_open(consumer->stream, consumer->setup.filters, consumer->cursor);
    /* no memory: tried again in the next turn */
    if (!consumer->tally) return false;
    switch (store_tally_step(consumer->tally, budget)) {
    case STEP_UNKNOWN: /* likewise, or later: consumer_run */
    case STEP_MORE: return false;
    case STEP_OVER: break;
    }
    consumer->left = store_tally_now(consumer->tally) + consumer->selection.count - consumer->selection.next
                     - consumer->selection.lost;
    store_tally_close(consumer->tally);
    consumer->tally = NULL;
    consumer->left_known = true; /* from here on the store's hooks keep it up to date */
    bound_counted(consumer);
    return true;
}

bool consumer_counted(consumer_t *consumer) {
    if (!count_step(consumer, COUNT_BUDGET)) return false;
    if (consumer->awaited) {
        consumer->awaited = false;
        consumer->active_ns = consumer->consume->now.mono_ns;
        consumer_arm(consumer, consumer->active_ns);
    }
    return true;
}

void consumer_await(consumer_t *consumer) {
    consumer->awaited = true;
}

/* A step that cannot read, or has no memory, gets no further: it ends all the same. */
uint64_t consumer_left(consumer_t *consumer) {
    for (uint32_t steps = 0; steps < LEFT_STEPS_MAX && !count_step(consumer, UINT32_MAX); steps++) {
    }
    return consumer->left;
}

void consumer_appended(consumer_t *consumer, uint64_t seq, uint64_t size) {
    if (seq >= consumer->cursor && consumer->left_known) {
        consumer->left++;
        bound_appended(consumer, seq, size);
    }
}

static bool selection_has(const selection_t *selection, uint64_t seq) {
    uint32_t low = selection->next, high = selection->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (selection->seqs[middle] < seq) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < selection->count && selection->seqs[low] == seq;
}

bool consumer_selects(const consumer_t *consumer, uint64_t seq) {
    return selection_has(&consumer->selection, seq);
}

/* As the reference: the floor follows the lowest pending message when the one just above it went, and jumps to what was
 * delivered when nothing is left; what used up its deliveries and was not acknowledged holds it. "Just above" is the
 * lowest one in general; by consumer sequence, as the reference has it, only while something exhausted may lie below:
 * after a crash there are gaps in those sequences, and a consumer that is never idle would keep its old floor for ever.
 */
void consumer_move_floor(consumer_t *consumer, uint64_t seq, uint64_t consumer_seq) {
    pending_t *pending = &consumer->pending;
    const pending_row_t *head = pending->count > 0 ? pending_row(pending, pending->head) : NULL;
    bool lowest = pending->exhausted == 0 ? !head || seq < head->seq : consumer_seq == consumer->floor_consumer + 1;
    if (!head && pending->exhausted == 0) {
        consumer->floor_consumer = consumer->next_sequence - 1;
        consumer->floor_stream = consumer->delivered_stream;
    } else if (lowest) {
        consumer->floor_consumer = head ? head->consumer_seq - 1 : consumer_seq;
        consumer->floor_stream = head ? head->seq - 1 : seq;
    }
}

int64_t consumer_wait(const consumer_t *consumer, uint32_t deliveries) {
    uint32_t count = consumer->setup.backoff_count;
    if (count == 0) return consumer->setup.config.ack_wait_ns;
    uint32_t step = deliveries > 0 ? deliveries - 1 : 0;
    return consumer->setup.backoff_ns[step < count ? step : count - 1];
}

void consumer_advise(consumer_t *consumer, uint32_t advisory, uint64_t seq, uint64_t consumer_seq, uint64_t deliveries,
                     int64_t ack_time_ns, bytes_t text) {
    advisory_t numbers = {
        .stream_seq = seq, .consumer_seq = consumer_seq, .deliveries = deliveries, .ack_time_ns = ack_time_ns};
    consume_out_t *out = &consumer->consume->out;
    out->advise(out->context, consumer, advisory, &numbers, text);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

static bool acks_by_flow(const consumer_t *consumer) {
    return consumer->setup.config.ack_policy == ACK_FLOW_CONTROL;
}

/* The last sequence up to which a mirror or source has said that it stored all. */
static uint64_t consumer_taken(const consumer_t *consumer) {
    return acks_by_flow(consumer) ? consumer->floor_stream : consumer->push.taken;
}

void consumer_snapshot(consumer_t *consumer, moment_t now, consumer_state_t *out) {
    consume_t *consume = consumer->consume;
    consume->now = now;
    memset(out, 0, sizeof *out);
    pull_drop_without_interest(consumer);
    out->pending = consumer_left(consumer); /* first: where it starts may not be known before */
    out->delivered_consumer = consumer->next_sequence - 1;
    out->delivered_stream = consumer->delivered_stream;
    out->floor_consumer = consumer->floor_consumer;
    out->floor_stream = consumer->floor_stream;
    out->last_delivered_ts = consumer->last_delivered_wall_ns;
    out->last_acked_ts = consumer->last_acked_wall_ns;
    out->ack_pending = consumer->pending.count;
    out->redelivered = consumer->setup.config.max_deliver == 1 ? 0 : consumer->pending.redelivered;
    out->waiting = consumer->pull->requests.count;
    if (consumer_is_push(consumer)) {
        out->push_bound = push_wanted(consumer);
        out->taken = consumer_taken(consumer);
        out->untaken = acks_by_flow(consumer) ? consumer->pending.count
                                              : consumer->next_sequence - 1 - consumer->push.taken_delivery;
    }
    out->paused = consumer_paused(consumer);
    out->pinned_ts = consumer->pull->pin.since_wall_ns;
    if (out->paused) out->pause_remaining_ns = consumer->paused_until_ns - now.mono_ns;
}

bool consumer_glance(consumer_t *consumer, moment_t now, uint32_t *budget, consumer_state_t *out) {
    uint32_t looks = consumer->pull->requests.count < LOOK_MOST ? consumer->pull->requests.count : LOOK_MOST;
    leftover_pay(budget, 1 + looks);
    visits_add(1);
    if (!consumer->left_known) return false;
    consumer_snapshot(consumer, now, out);
    return true;
}

void consumer_set_owner(consumer_t *consumer, void *owner) {
    consumer->owner = owner;
}

void *consumer_owner(const consumer_t *consumer) {
    return consumer->owner;
}

const consumer_setup_t *consumer_setup(const consumer_t *consumer) {
    return &consumer->setup;
}

/* ---- pause ------------------------------------------------------------------------------------------------------- */

bool consumer_paused(const consumer_t *consumer) {
    return consumer->paused_until_ns > consumer->consume->now.mono_ns;
}

void consumer_pause(consumer_t *consumer, int64_t until_wall_ns, moment_t now) {
    consumer->consume->now = now;
    consumer->setup.config.pause_until_ns = until_wall_ns;
    if (until_wall_ns > now.wall_ns) {
        /* The wall clock is asked once, here; if it steps later, the pause keeps its length. */
        consumer->paused_until_ns = time_after(now.mono_ns, until_wall_ns - now.wall_ns);
        consumer_arm(consumer, consumer->paused_until_ns);
    } else {
        consumer->paused_until_ns = 0;
        consumer_ready(consumer);
    }
}

void consumer_spare(consumer_t *consumer, int64_t interval_ns, moment_t now) {
    consumer->consume->now = now;
    if (consumer_is_push(consumer)) push_spare(consumer, interval_ns);
}

void consumer_begin(consumer_t *consumer, moment_t now) {
    consumer->consume->now = now;
    if (!consumer->held || copy_is_asked(consumer)) return;
    consumer->held = false;
    consumer->not_before_ns = 0;
    consumer_ready(consumer);
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

/* A consumer is there for the client that has made it and asks for it at once, however short its threshold. In the
 * reference, which looks at one that is pulled from some time after it, such a one is for a quarter of a second and
 * more; one that pushes goes as soon as nobody listens. */
#define INACTIVE_MIN_NS 250000000
#define INACTIVE_PUSH_MIN_NS 50000000

/* When to look at the inactivity again; NEVER: not now. */
static int64_t inactive_due(const consumer_t *consumer) {
    int64_t threshold = consumer->setup.config.inactive_threshold_ns;
    int64_t least = consumer_is_push(consumer) ? INACTIVE_PUSH_MIN_NS : INACTIVE_MIN_NS;
    if (threshold > 0 && threshold < least) threshold = least;
    if (consumer->awaited) return NEVER;
    if (threshold <= 0 || (consumer_is_push(consumer) && consumer->push.active)) return NEVER;
    return time_after(consumer->active_ns, threshold);
}

/* True when the consumer was really not used for the whole threshold. A client that holds unacknowledged messages may
 * still be working on them. */
static bool consumer_is_inactive(consumer_t *consumer) {
    int64_t now_ns = consumer->consume->now.mono_ns;
    if (inactive_due(consumer) > now_ns) return false;
    if (consumer_is_push(consumer)) {
        push_review(consumer);
        return !consumer->push.active;
    }
    int64_t latest = pull_awaited(consumer) ? now_ns : consumer->active_ns;
    pending_t *pending = &consumer->pending;
    int64_t used_ns = now_ns - consumer->setup.config.inactive_threshold_ns; /* one that is due after it is enough */
    for (uint32_t row = pending->tail; row != PENDING_NONE && latest <= used_ns;
         row = pending_row(pending, row)->before) {
        visits_add(1);
        int64_t due_ns = pending_row(pending, row)->due_ns;
        latest = due_ns > latest ? due_ns : latest;
    }
    consumer->active_ns = latest;
    return inactive_due(consumer) <= now_ns;
}

static void consumer_vanish(consumer_t *consumer) {
    consume_t *consume = consumer->consume;
    uint32_t stream_id = consumer->setup.stream_id, id = consumer->setup.id;
    uint64_t taken = consumer_taken(consumer);
    consumer_remove(consumer, consume->now);
    consume->out.gone(consume->out.context, stream_id, id, taken);
}

bool consumer_on_time(consumer_t *consumer) {
    int64_t now_ns = consumer->consume->now.mono_ns;
    if (consumer->paused_until_ns > 0 && consumer->paused_until_ns <= now_ns) {
        consumer->paused_until_ns = 0;
        consumer_advise(consumer, ADVISORY_PAUSE_ENDED, 0, 0, 0, 0, BYTES_NONE);
    }
    if (clear_waits(consumer)) clear_acked(consumer);
    if (consumer->expiry_due_ns <= now_ns) consumer_expire(consumer);
    pending_trim(&consumer->pending);
    if (consumer_is_push(consumer)) push_on_time(consumer); /* which looks whether it waits for room */
    consumer_unblock(consumer);
    if (consumer->pull->requests.due_ns <= now_ns) pull_on_time(consumer);
    priority_on_time(consumer);
    bound_on_time(consumer);
    if (consumer->settle_due_ns <= now_ns) {
        consumer->settle_due_ns = NEVER;
        state_settle(consumer);
    }
    if (consumer_is_inactive(consumer)) {
        consumer_vanish(consumer);
        return false;
    }
    int64_t due = earlier(consumer->expiry_due_ns, consumer->pull->requests.due_ns);
    if (clear_waits(consumer)) due = earlier(due, time_after(now_ns, 1));
    due = earlier(due, earlier(consumer->push.heartbeat_due_ns, consumer->settle_due_ns));
    due = earlier(due, earlier(consumer->pull->pin.due_ns, inactive_due(consumer)));
    if (consumer->paused_until_ns > 0) due = earlier(due, consumer->paused_until_ns);
    if (consumer->not_before_ns > now_ns) due = earlier(due, consumer->not_before_ns);
    consumer_arm(consumer, due);
    consumer_ready(consumer);
    return true;
}
