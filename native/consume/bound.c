/* bound.c: see bound.h. The bound is kept by the consumer's timer, so it holds some turns later: a turn passes over as
 * many as it may end (ENDS_A_TURN), of all consumers together. What cannot be passed over yet, since it is on no disk
 * or cannot be read, is looked at again. Its end is recorded as that of a delivery which was acknowledged: a crash
 * brings none of it back that is not still wanted by others. */
#include "consume/bound.h"

#include "consume/deliver.h"
#include "consume/retention.h"
#include "consume/state.h"

void consume_bound(consume_t *consume, uint32_t most) {
    if (consume->waiting_most == most) return;
    consume->waiting_most = most;
    consume->bound_changed = most != 0;
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
    if (seq > consumer->delivered_stream) consumer->delivered_stream = seq;
    if (seq > consumer->acked_upto) consumer->acked_upto = seq;
    consumer_move_floor(consumer, seq, consumer->next_sequence);
    state_dirty(consumer);
    consumer->consume->passed_over++;
    retention_release(consumer, seq);
    return true;
}

void bound_on_time(consumer_t *consumer) {
    uint32_t most = consumer->consume->waiting_most;
    int64_t now_ns = consumer->consume->now.mono_ns;
    if (most == 0 || (consumer->setup.config.flags & CONSUMER_ATTENDED) == 0) return;
    const store_t *store = store_stream_store(consumer->stream);
    uint64_t unknown = store_unknown(store);
    if (!consumer_counted(consumer)) {
        consumer_arm(consumer, time_after(now_ns, store_unknown(store) == unknown ? NS_PER_MS : RETRY_NS));
        return;
    }
    bool more = true;
    while (more && consumer->left > most && leftover_pay(&consumer->consume->ends_left, 1)) more = pass_over(consumer);
    if (consumer->left > most) consumer_arm(consumer, more ? time_after(now_ns, 1) : time_after(now_ns, RETRY_NS));
}
