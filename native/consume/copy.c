/* copy.c: what copy.h draws. */
#include <stdio.h>

#include "base/number.h"
#include "consume/copy.h"
#include "consume/private.h"
#include "consume/state.h"
#include "store/retention.h"
#include "text/decimal.h"
#include "text/headers.h"

void copy_load(consumer_t *consumer, uint64_t stored) {
    told_t *told = &consumer->push.told;
    told->known = stored > 0;
    told->given_upto = stored > 0 ? stored - 1 : 0;
}

uint64_t copy_stored(const consumer_t *consumer) {
    const told_t *told = &consumer->push.told;
    bool away = told->asked && told->unsure && consumer->delivered_stream <= told->given_upto;
    return away && told->given_upto < COPY_STORED_MAX ? told->given_upto + 1 : 0;
}

void copy_load_passed(consumer_t *consumer, uint64_t from, uint64_t upto) {
    stream_state_t state;
    store_stream_state(consumer->stream, &state);
    if (upto > 0 && upto < state.first_seq) return;
    consumer->push.told.passed_from = from;
    consumer->push.told.passed_upto = upto;
}

void copy_begins(consumer_t *consumer, bool loaded) {
    told_t *told = &consumer->push.told;
    const stream_config_t *config = store_stream_config(consumer->stream);
    bool shared = (config->flags & STREAM_REPLICATED) != 0;
    if (!consumer_is_push(consumer) || consumer->setup.config.ack_policy != ACK_FLOW_CONTROL || shared) return;
    stream_state_t state;
    store_stream_state(consumer->stream, &state);
    told->began_at = state.last_seq;
    if (!told->known) told->given_upto = state.last_seq;
    told->asked = true;
    told->unsure = loaded;
    if (loaded) state_dirty(consumer);
}

static void note_given(consumer_t *consumer) {
    told_t *told = &consumer->push.told;
    told->given_upto = number_most(told->given_upto, consumer->delivered_stream);
}

static bool acks_remove(const consumer_t *consumer) {
    return retention_traits(store_stream_config(consumer->stream))->acks_remove;
}

static void copy_hold(consumer_t *consumer) {
    consumer_hold(consumer);
    if (!acks_remove(consumer)) return;
    consumer->not_before_ns = time_after(consumer->consume->now.mono_ns, COPY_WAIT_NS);
}

void copy_there(consumer_t *consumer) {
    if (!consumer->push.told.unsure) return;
    copy_hold(consumer);
    bool sets_back = consumer->push.copied && !consumer->push.set_back; /* and is asked behind that, or later */
    if (copy_is_waited_for(consumer) && !sets_back) push_flow_request(consumer);
}

bool copy_is_waited_for(const consumer_t *consumer) {
    return consumer->push.told.unsure && !consumer->push.told.answering;
}

void copy_gone(consumer_t *consumer) {
    told_t *told = &consumer->push.told;
    if (!told->asked) return;
    told->tells = false;
    note_given(consumer);
    if (told->notices || told->unsure || !acks_remove(consumer)) return; /* what it passes over is not lost */
    told->unsure = true;
    state_dirty(consumer);
}

void copy_set_back(consumer_t *consumer) {
    if (consumer->push.told.asked) note_given(consumer);
}

void copy_says(const consumer_t *consumer, char to[COPY_SAID_MAX]) {
    const told_t *told = &consumer->push.told;
    to[0] = 0;
    if (told->tells) {
        (void)snprintf(to, COPY_SAID_MAX, "Leafd-New-Behind: %llu\r\n", (unsigned long long)told->began_at);
    }
}

bool copy_is_asked(consumer_t *consumer) {
    told_t *told = &consumer->push.told;
    told->answering = told->tells = false;
    if (!told->unsure) return false;
    copy_hold(consumer);
    if (consumer->push.active) push_flow_request(consumer);
    return true;
}

/* What the copy took last, and whether it is one that takes from a store that was put back. */
static bool copy_took(consumer_t *consumer, bytes_t header, uint64_t *seq) {
    bytes_t mark, last;
    bool takes = headers_find(header, BYTES_LITERAL("Leafd-Copy"), &mark);
    bool says = headers_find(header, BYTES_LITERAL("Leafd-Last-Taken"), &last) && decimal_parse(last, seq);
    consumer->push.told.notices = takes;
    return takes && says;
}

void copy_answers(consumer_t *consumer, bytes_t header, uint64_t seq, uint64_t consumer_seq) {
    told_t *told = &consumer->push.told;
    if (!told->unsure) return;
    bool hears = copy_took(consumer, header, &seq), was_told = told->tells;
    uint64_t had = hears ? number_most(told->began_at, told->given_upto) : told->given_upto;
    bool further = seq > had && seq > consumer->delivered_stream && seq < COPY_STORED_MAX;
    told->tells = further && hears && !was_told && consumer->delivered_stream <= told->began_at;
    if (told->tells) {
        consumer_hold(consumer);
        consumer->not_before_ns = time_after(consumer->consume->now.mono_ns, COPY_WAIT_NS);
        push_flow_request(consumer);
        return;
    }
    told->unsure = false;
    if (further && (!told->notices || was_told)) {
        consumer_advise(consumer, ADVISORY_PUT_BACK, seq, told->given_upto, 0, 0, BYTES_NONE);
        consumer_pass(consumer, seq, consumer_seq);
    }
    state_dirty(consumer);
    consumer_begin(consumer, consumer->consume->now);
}
