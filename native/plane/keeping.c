/* keeping.c: see keeping.h. */
#include "plane/keeping.h"

#include <stdio.h>

#include "base/check.h"
#include "base/clock.h"
#include "jetstream/publish.h"
#include "jetstream/replicated.h"
#include "jetstream/binding.h"
#include "store/alarms.h"

#define CONSUMERS_FROM UINT32_C(0x80000000) /* control counts up from 1 */
#define NEVER_AGAIN_NS (INT64_C(10) * 365 * 24 * 3600 * NS_PER_SECOND)
#define PREFIX 4u

static store_t *keeping_store(const plane_t *plane, const stream_t *stream) {
    return plane->js.stores[stream->which_store];
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

static bytes_t whole_key(const stream_t *stream, bytes_t key, uint8_t to[PREFIX + KEEPING_KEY_MAX]) {
    check(key.size <= KEEPING_KEY_MAX);
    store_be32(to, stream->id);
    (void)bytes_write(to + PREFIX, key);
    return bytes_of(to, PREFIX + key.size);
}

static status_t keeping_change(plane_t *plane, const stream_t *stream, const record_change_t *change) {
    plane->js.more = true;
    return stream->replicated != NULL ? replicated_record(&plane->js, stream->id, change)
                                      : store_record_change(keeping_store(plane, stream), change);
}

status_t keeping_put(plane_t *plane, const stream_t *stream, uint32_t kind, bytes_t key, bytes_t value) {
    uint8_t whole[PREFIX + KEEPING_KEY_MAX];
    const record_change_t change = {
        .act = RECORD_PUT, .kind = kind, .key = whole_key(stream, key, whole), .value = value};
    return keeping_change(plane, stream, &change);
}

status_t keeping_ride(const stream_t *stream, uint32_t kind, bytes_t key, bytes_t value) {
    uint8_t whole[PREFIX + KEEPING_KEY_MAX];
    const record_change_t change = {
        .act = RECORD_PUT, .kind = kind, .key = whole_key(stream, key, whole), .value = value};
    return replicated_ride(stream, &change);
}

void keeping_sent(const stream_t *stream) {
    replicated_ride_end(stream);
}

status_t keeping_drop(plane_t *plane, const stream_t *stream, uint32_t kind, bytes_t key, bool all) {
    uint8_t whole[PREFIX + KEEPING_KEY_MAX];
    const record_change_t change = {
        .act = all ? RECORD_DELETE_PREFIX : RECORD_DELETE, .kind = kind, .key = whole_key(stream, key, whole)};
    return keeping_change(plane, stream, &change);
}

static bool visit_found(void *context, bytes_t key, bytes_t value) {
    const record_visit_t *visit = context;
    return visit->found(visit->context, bytes_after(key, PREFIX), value);
}

static bool visit_lost(void *context, bytes_t key) {
    const record_visit_t *visit = context;
    return visit->lost(visit->context, bytes_after(key, PREFIX));
}

list_outcome_t keeping_each(plane_t *plane, const stream_t *stream, uint32_t kind, bytes_t after,
                            const record_visit_t *visit) {
    uint8_t prefix[PREFIX], whole[PREFIX + KEEPING_KEY_MAX];
    record_visit_t given = *visit;
    const record_visit_t own = {
        .found = visit_found, .lost = visit->lost != NULL ? visit_lost : NULL, .context = &given};
    store_be32(prefix, stream->id);
    return store_record_visit(keeping_store(plane, stream), kind, bytes_of(prefix, PREFIX),
                              after.size == 0 ? BYTES_NONE : whole_key(stream, after, whole), &own);
}

void keeping_tell_lost(const plane_t *plane, const stream_t *stream, uint32_t number, const char *what) {
    store_alarm(keeping_store(plane, stream), ALARM_CORRUPT, stream->id, 0,
                "of session %u of MQTT both copies of %s are damaged: all other sessions go on", number, what);
}

status_t keeping_hold_here(plane_t *plane, const stream_t *stream, bytes_t subject, bytes_t payload) {
    plane->js.more = true;
    return js_try_hold(&plane->js, stream, subject, payload);
}

status_t keeping_hold(plane_t *plane, const stream_t *stream, bytes_t subject, bytes_t payload) {
    return stream->replicated != NULL ? replicated_hold_told(&plane->js, stream, subject, payload)
                                      : keeping_hold_here(plane, stream, subject, payload);
}

int64_t keeping_age_ns(plane_t *plane, const stream_t *stream) {
    return stream->replicated != NULL ? replicated_age(&plane->js, stream) : store_age(keeping_store(plane, stream));
}

bool keeping_shared(const stream_t *stream) {
    return stream->replicated != NULL;
}

void keeping_made(plane_t *plane, const stream_t *stream) {
    if (stream->replicated != NULL) {
        replicated_host_made(&plane->js, stream);
    }
}

uint64_t keeping_last(const stream_t *stream) {
    stream_state_t state;
    store_stream_state(stream->store, &state);
    return state.last_seq;
}

uint64_t keeping_doubtful(const plane_t *plane, const stream_t *stream) {
    bool known = stream->replicated == NULL && store_was_closed(keeping_store(plane, stream));
    return known ? 0 : keeping_last(stream);
}

uint64_t keeping_bytes(const stream_t *stream) {
    stream_state_t state;
    store_stream_state(stream->store, &state);
    return state.bytes;
}

/* ---- consumers --------------------------------------------------------------------------------------------------- */

typedef struct asking {
    bool (*visit)(void *context, void *receiver);
    void *context;
} asking_t;

static bool ask_receiver(void *context, consumer_t *consumer) {
    const asking_t *asking = context;
    const consumer_binding_t *binding = consumer_owner(consumer);
    return binding == NULL || asking->visit(asking->context, binding->receiver);
}

void keeping_wanted(plane_t *plane, const stream_t *stream, bytes_t subject,
                    bool (*visit)(void *context, void *receiver), void *context) {
    asking_t asking = {.visit = visit, .context = context};
    if (stream->binding_count != 0) {
        consume_each_wanting(plane->js.consume, stream->id, subject, ask_receiver, &asking);
    }
}

status_t keeping_consume(plane_t *plane, stream_t *stream, const keeping_consumer_t *wanted, bool loading,
                         consumer_binding_t **binding) {
    char name[32];
    int size = snprintf(name, sizeof name, "session-%u", (unsigned)wanted->number);
    subject_set_t set = subject_set_make(wanted->subjects, wanted->subject_count);
    consumer_setup_t setup = {.stream_id = stream->id,
                              .id = CONSUMERS_FROM + wanted->number,
                              .stream_name = stream->name,
                              .name = bytes_of(name, (uint32_t)size),
                              .deliver_subject = BYTES_LITERAL("$MQTT"), /* nobody is asked who listens there */
                              .filters = {.patterns = set.at, .count = set.count, .sorted = set.sorted},
                              .config = {.account = stream->account->id,
                                         .flags = CONSUMER_PUSH | CONSUMER_ATTENDED,
                                         .deliver_policy = DELIVER_NEW,
                                         .ack_policy = ACK_EXPLICIT,
                                         .max_deliver = -1,
                                         .ack_wait_ns = NEVER_AGAIN_NS,
                                         .max_ack_pending = (int32_t)wanted->max_ack_pending}};
    plane->js.more = true;
    if (*binding != NULL) {
        const consumer_config_t *config = &consumer_setup((*binding)->consumer)->config;
        setup.config.max_ack_pending = config->max_ack_pending;
        setup.config.ack_wait_ns = config->ack_wait_ns;
        return consumer_configure((*binding)->consumer, &setup, plane->now);
    }
    status_t status = binding_new(&plane->js, stream, &setup, loading, binding);
    if (status == STATUS_OK) {
        (*binding)->receiver = wanted->receiver;
    }
    return status;
}

void keeping_bound(plane_t *plane) {
    if (plane->js.consume != NULL) {
        consume_bound(plane->js.consume, plane->mqtt.max_queued, plane->mqtt.max_session_bytes);
        plane->js.more = true;
    }
}

status_t keeping_forget_consumer(plane_t *plane, const stream_t *stream, uint32_t number) {
    uint8_t key[4];
    store_be32(key, CONSUMERS_FROM + number);
    status_t status = keeping_drop(plane, stream, RECORD_CONSUMER_STATE, bytes_of(key, sizeof key), false);
    return status == STATUS_OK ? keeping_drop(plane, stream, RECORD_CONSUMER_PENDING, bytes_of(key, sizeof key), true)
                               : status;
}

void keeping_end(plane_t *plane, consumer_binding_t **binding) {
    if (*binding != NULL) {
        consumer_remove((*binding)->consumer, plane->now);
        binding_free(&plane->js, *binding);
        *binding = NULL;
    }
}

void keeping_attend(plane_t *plane, const consumer_binding_t *binding, uint32_t max_ack_pending, int64_t ack_wait_ns) {
    consumer_attend(binding->consumer, (int32_t)max_ack_pending, ack_wait_ns > 0 ? ack_wait_ns : NEVER_AGAIN_NS,
                    plane->now);
    plane->js.more = true;
}

void keeping_leave(plane_t *plane, const consumer_binding_t *binding) {
    consumer_leave_alone(binding->consumer, plane->now);
}

void keeping_again(plane_t *plane, const consumer_binding_t *binding, uint64_t seq) {
    consumer_again(binding->consumer, seq, plane->now);
    plane->js.more = true;
}

void keeping_go_on(plane_t *plane, const consumer_binding_t *binding) {
    consumer_go_on(binding->consumer, plane->now);
    plane->js.more = true;
}

void keeping_acknowledge(plane_t *plane, const consumer_binding_t *binding, uint64_t seq) {
    bool answer;
    consumer_ack(binding->consumer, seq, 0, 0, BYTES_NONE, BYTES_NONE, plane->now, &answer);
    plane->js.more = true;
}
