/* timeline.c: see timeline.h. */
#include "store/timeline.h"

#include "disk/keys.h"
#include "store/append.h"
#include "store/message.h"

void store_stream_time(store_stream_t *stream, int64_t age, int64_t wall) {
    timeline_t *timeline = &stream->timeline;
    if (!timeline->own || age > timeline->age) {
        timeline->age = age;
    }
    timeline->wall = wall;
    timeline->own = true;
}

int64_t store_stream_age(const store_stream_t *stream) {
    return stream_age(stream);
}

int64_t store_stream_wall(const store_stream_t *stream) {
    return stream_wall(stream);
}

status_t store_stream_pass(store_stream_t *stream) {
    uint32_t steps = LOOK_STEPS;
    return limits_expire_in_order(stream, stream_age(stream), &steps) ? STATUS_OK : STATUS_AGAIN;
}

status_t store_stream_settle(store_stream_t *stream) {
    uint32_t steps = LOOK_STEPS;
    if (LEAF_UNLIKELY(stream->limits.over)) {
        limits_enforce(stream, &steps);
    }
    return stream->limits.over ? STATUS_AGAIN : STATUS_OK;
}

int64_t store_stream_due(store_stream_t *stream) {
    return limits_deadline_known(stream);
}

bool store_stream_never_fits(const store_stream_t *stream, const append_t *append, uint64_t before) {
    return append->source_key.size > KEY_RECORD_MAX - 4 || append->force_seq == UINT64_MAX
           || (append->force_seq == 0 && stream->log.last_seq >= UINT64_MAX - 1 - before);
}
