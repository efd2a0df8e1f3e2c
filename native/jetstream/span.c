/* span.c: see span.h. */
#include "jetstream/span.h"

void span_begin(span_t *span, uint32_t size, uint64_t pending, span_time_t now) {
    *span = (span_t){.size = size, .wanted = size, .acked_ns = now.heard_ns, .room = now};
    span->awaited = pending >= size ? size : 0;
    span->took_ns = now.heard_ns;
    span->level = pending == 0;
}

static uint32_t bounded(uint64_t size) {
    return size < SPAN_MIN ? SPAN_MIN : size > SPAN_MAX ? SPAN_MAX : (uint32_t)size;
}

static void span_learn(span_t *span, int64_t trip_ns, span_time_t now) {
    int64_t took_ns = now.mono_ns - span->room.mono_ns, heard_ns = now.heard_ns - span->room.heard_ns;
    span->wanted = span->size;
    if (took_ns < SPAN_SHORT_TRIPS * trip_ns) {
        span->wanted = bounded((uint64_t)span->size * (took_ns < trip_ns / 4 * 5 ? SPAN_LEAP : SPAN_STEP));
    } else if (heard_ns > SPAN_LONG_TRIPS * trip_ns && heard_ns > SPAN_LONG_NS) {
        /* So that it takes about three. */
        double part = 2 * (double)trip_ns / (double)(heard_ns - trip_ns);
        uint32_t fits = bounded((uint64_t)(span->size * part));
        span->wanted = fits < span->size / SPAN_LEAP ? span->size / SPAN_LEAP : fits;
    }
}

span_step_t span_took(span_t *span, uint64_t seq, uint64_t pending, int64_t trip_ns, span_time_t now) {
    if (span->size == 0) {
        return SPAN_WAIT;
    }
    span->took_ns = now.heard_ns;
    if (span->awaited != 0 && seq >= span->awaited) {
        if (seq == span->awaited && trip_ns > 0) {
            span_learn(span, trip_ns, now);
        }
        span->awaited = 0;
    }
    span->level = pending == 0;
    if (span->level) {
        span->awaited = 0;
        return SPAN_ACK; /* where nothing waits no bound is too small */
    }
    if (span->wanted != span->size) {
        return seq >= span->acked + span->size ? SPAN_CHANGE : SPAN_WAIT;
    }
    return seq - span->acked >= (span->size < SPAN_PART ? 1 : span->size / SPAN_PART) ? SPAN_ACK : SPAN_WAIT;
}

void span_acked(span_t *span, uint64_t seq, span_time_t now) {
    span->acked = seq;
    span->acked_ns = now.heard_ns;
    if (span->awaited == 0 && !span->level) {
        span->awaited = seq + span->size;
        span->room = now;
    }
}

bool span_stuck(const span_t *span, int64_t heard_ns) {
    int64_t since_ns = span->acked_ns > span->took_ns ? span->acked_ns : span->took_ns;
    return span_waits(span) && heard_ns - since_ns > SPAN_LOST_NS;
}

uint32_t span_next(const span_t *span, uint64_t seq, int64_t heard_ns) {
    bool in_vain = seq == 0 && span_waits(span) && heard_ns - span->acked_ns > SPAN_LOST_NS / 2;
    return in_vain ? bounded(span->size / 2) : span->wanted;
}
