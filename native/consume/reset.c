/* reset.c: consumers that are set to another sequence, by a request or by what their copy says. */
#include "consume/copy.h"
#include "consume/deliver.h"
#include "consume/private.h"
#include "consume/retention.h"
#include "consume/state.h"

#define RESET_STEP 4096 /* deleted messages that a reset goes over */

/* STATUS_INVALID: it may not be set there. */
static status_t reset_allowed(consumer_t *consumer, uint64_t seq) {
    uint64_t start;
    switch (consumer->setup.config.deliver_policy) {
    case DELIVER_ALL: return STATUS_OK;
    case DELIVER_BY_START_SEQUENCE: return seq >= consumer->setup.config.opt_start_seq ? STATUS_OK : STATUS_INVALID;
    case DELIVER_BY_START_TIME:
        /* Nothing is that new, or much is deleted before it: the caller has seen that it is not below the next
         * message. */
        switch (store_seq_at_time(consumer->stream, consumer->setup.config.opt_start_ts, RESET_STEP, &start)) {
        case SEEK_UNKNOWN: return STATUS_IO;
        case SEEK_NONE:
        case SEEK_MORE: return STATUS_OK;
        case SEEK_FOUND: return seq < start ? STATUS_INVALID : STATUS_OK;
        }
        return STATUS_IO;
    default: return STATUS_INVALID;
    }
}

/* Releases the messages of an interest stream that the consumer was moved past, unless others want them; a work queue
 * keeps them. */
static void release_skipped(consumer_t *consumer, uint64_t seq) {
    stream_state_t state;
    store_stream_state(consumer->stream, &state);
    if (retention_by_interest(consumer->group) && seq > 1 && seq - 1 <= state.last_seq) {
        retention_acked_range(consumer, 1, seq - 1);
    }
}

/* Whether a sweep may still have to remove what the consumer has acknowledged. Of an interest stream it may be wanted
 * anew, and where the consumer passed over something, the floor does not tell. */
static bool acked_goes_on(const consumer_t *consumer) {
    const consumer_config_t *config = &consumer->setup.config;
    bool by_floor = config->ack_policy == ACK_ALL || config->ack_policy == ACK_FLOW_CONTROL;
    bool passed = consumer->push.told.passed_from > 0;
    return by_floor && !passed && consumer->group->sweeping && !retention_by_interest(consumer->group);
}

/* The next delivery is the first message from seq on, behind so many deliveries. */
static void consumer_stand_at(consumer_t *consumer, uint64_t seq, uint64_t deliveries) {
    survey_end(consumer);
    state_delete(consumer, false);
    pending_clear(&consumer->pending);
    consumer->cleared_upto = consumer->clear_at = 0;
    consumer->clear_exhausted = consumer->clear_order = consumer->expiring = consumer->again_all = false;
    consumer->selection.count = consumer->selection.next = consumer->selection.lost = 0;
    consumer->selection.resume = 0;
    copy_set_back(consumer);
    if (seq <= consumer->push.told.passed_upto) consumer->push.told.passed_upto = 0;
    if (acked_goes_on(consumer)) consumer->push.told.acked_before = consumer->floor_stream;
    consumer->cursor = seq;
    consumer->next_sequence = deliveries + 1;
    consumer->delivered_stream = consumer->floor_stream = seq - 1;
    consumer->settled = consumer->acked_upto = seq - 1;
    consumer->settle_upto = 0;
    consumer->floor_consumer = deliveries;
    consumer->last_delivered_wall_ns = consumer->last_acked_wall_ns = 0;
    consumer_recount(consumer);
    consumer_expires_anew(consumer, NEVER);
    state_dirty(consumer);
}

void consumer_pass(consumer_t *consumer, uint64_t seq, uint64_t deliveries) {
    if (consumer->push.told.passed_upto == 0) consumer->push.told.passed_from = consumer->floor_stream + 1;
    consumer_stand_at(consumer, seq + 1, deliveries);
    consumer->push.told.passed_upto = seq;
    consumer_ready(consumer);
}

status_t consumer_reset(consumer_t *consumer, uint64_t seq, moment_t now, uint64_t *reset_seq) {
    consumer->consume->now = now;
    if (seq == 0) {
        seq = consumer->floor_stream + 1;
    } else {
        status_t status = reset_allowed(consumer, seq);
        if (status != STATUS_OK) return status;
    }
    consumer_stand_at(consumer, seq, 0);
    if (consumer_is_push(consumer)) {
        consumer_hold(consumer);
        consumer->push.told.answering = true;
        push_set_back(consumer);
    }
    consumer_ready(consumer);
    release_skipped(consumer, seq);
    *reset_seq = seq;
    return STATUS_OK;
}
