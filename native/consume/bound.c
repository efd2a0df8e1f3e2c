/* bound.c: see bound.h. The bound is kept by the consumer's timer, so it holds some turns later: a turn passes over as
 * many as it may end (ENDS_A_TURN), of all consumers together. What cannot be passed over yet, since it is on no disk
 * or cannot be read, is looked at again. Its end is recorded as that of a delivery which was acknowledged: a crash
 * brings none of it back that is not still wanted by others. To weigh what waits costs a turn as much. */
#include "consume/bound.h"

#include <stdlib.h>

#include "consume/deliver.h"
#include "consume/retention.h"
#include "consume/state.h"

#define WEIGH_SCAN 64 /* messages that one step of weighing looks at */

struct weighing {
    store_ahead_t ahead;
    uint64_t at, end; /* it has those below, and those above that have come since */
    uint64_t sum;
};

void consume_bound(consume_t *consume, uint32_t most, uint64_t most_bytes) {
    if (consume->waiting_most == most && consume->weight_most == most_bytes) return;
    consume->waiting_most = most;
    consume->weight_most = most_bytes;
    consume->bound_changed = most != 0 || most_bytes != 0;
}

uint64_t consume_passed_over(const consume_t *consume) {
    return consume->passed_over;
}

void bound_changed(consume_t *consume) {
    map_walk_t walk = {0};
    consume->bound_changed = false;
    for (consumer_t *one; (one = table_next(&consume->consumers, &walk)) != NULL;) {
        if (one->setup.config.flags & CONSUMER_ATTENDED) consumer_arm(one, consume->now.mono_ns);
    }
}

/* ---- the bytes that wait ----------------------------------------------------------------------------------------- */

void bound_forget(consumer_t *consumer) {
    if (consumer->weighing == NULL) return;
    store_ahead_end(&consumer->weighing->ahead);
    free(consumer->weighing);
    consumer->weighing = NULL;
}

void bound_counted(consumer_t *consumer) {
    stream_state_t state;
    bound_nothing(consumer);
    if (consumer->left == 0) return;
    store_stream_state(consumer->stream, &state);
    consumer->weight = state.bytes;
    consumer->weight_rough = true;
}

void bound_weighed(const consumer_t *consumer, uint64_t seq, uint64_t size, bool in) {
    struct weighing *weighing = consumer->weighing;
    if (seq >= weighing->at && seq <= weighing->end) return; /* it will be met, or not */
    if (in) {
        weighing->sum += size;
    } else {
        weighing->sum -= size < weighing->sum ? size : weighing->sum;
    }
}

static bool weighing_begin(consumer_t *consumer) {
    stream_state_t state;
    struct weighing *weighing = calloc(1, sizeof *weighing);
    if (weighing == NULL) return false;
    store_stream_state(consumer->stream, &state);
    weighing->at = consumer->cursor;
    weighing->end = state.last_seq;
    consumer->weighing = weighing;
    return true;
}

/* false: it cannot go on now. */
static bool weighing_step(consumer_t *consumer) {
    stored_message_t message;
    if (consumer->weighing == NULL && !weighing_begin(consumer)) return false;
    struct weighing *weighing = consumer->weighing;
    uint64_t visible = store_stream_visible(consumer->stream);
    uint64_t upto = visible < weighing->end ? visible : weighing->end;
    uint64_t from = weighing->at > consumer->cursor ? weighing->at : consumer->cursor;
    seek_outcome_t found = from > upto ? SEEK_NONE
                                       : store_next_ahead(consumer->stream, &weighing->ahead, consumer->setup.filters,
                                                          &from, upto, WEIGH_SCAN, &message);
    switch (found) {
    case SEEK_UNKNOWN: return false;
    case SEEK_MORE: weighing->at = from; return true;
    case SEEK_FOUND:
        weighing->at = message.seq + 1;
        weighing->sum += bound_size(&message);
        return true;
    case SEEK_NONE: break;
    }
    weighing->at = from > upto ? from : upto + 1;
    if (upto < weighing->end) return false; /* the rest is on no disk yet */
    consumer->weight = weighing->sum;
    consumer->weight_rough = false;
    bound_forget(consumer);
    return true;
}

/* ---- what is too much -------------------------------------------------------------------------------------------- */

/* false: there is nothing that could be passed over now. */
static bool pass_over(consumer_t *consumer) {
    stored_message_t message;
    uint64_t from = consumer->cursor, visible = store_stream_visible(consumer->stream);
    if (from > visible) return false;
    switch (store_next_ahead(consumer->stream, &consumer->ahead, consumer->setup.filters, &from, visible, SCAN_BUDGET,
                             &message)) {
    case SEEK_UNKNOWN:
    case SEEK_NONE: return false;
    case SEEK_MORE: consumer->cursor = from; return true;
    case SEEK_FOUND: break;
    }
    uint64_t seq = message.seq;
    consumer->cursor = seq + 1;
    consumer->left--;
    bound_went(consumer, seq, bound_size(&message));
    if (seq > consumer->delivered_stream) consumer->delivered_stream = seq;
    if (seq > consumer->acked_upto) consumer->acked_upto = seq;
    consumer_move_floor(consumer, seq, consumer->next_sequence);
    state_dirty(consumer);
    consumer->consume->passed_over++;
    retention_release(consumer, seq);
    return true;
}

/* One that has too many messages need not be weighed for that. */
static bool bound_step(consumer_t *consumer) {
    uint32_t most = consumer->consume->waiting_most;
    bool many = most != 0 && consumer->left > most;
    return many || !consumer->weight_rough ? pass_over(consumer) : weighing_step(consumer);
}

void bound_on_time(consumer_t *consumer) {
    consume_t *consume = consumer->consume;
    int64_t now_ns = consume->now.mono_ns;
    bool bounded = consume->waiting_most != 0 || consume->weight_most != 0;
    if (!bounded || (consumer->setup.config.flags & CONSUMER_ATTENDED) == 0) return;
    const store_t *store = store_stream_store(consumer->stream);
    uint64_t unknown = store_unknown(store);
    if (!consumer_counted(consumer)) {
        consumer_arm(consumer, time_after(now_ns, store_unknown(store) == unknown ? NS_PER_MS : RETRY_NS));
        return;
    }
    bool more = true;
    while (more && bound_exceeded(consumer) && leftover_pay(&consume->ends_left, 1)) more = bound_step(consumer);
    if (bound_exceeded(consumer)) {
        consumer_arm(consumer, more ? time_after(now_ns, 1) : time_after(now_ns, RETRY_NS));
    } else {
        bound_forget(consumer); /* while it was weighed enough has gone */
    }
}
