/* push.c: what only push consumers have: interest in the deliver subject, the flow control window, the rate limit, and
 * heartbeats (whose text pull requests share). */
#include <stdio.h>

#include "base/visits.h"
#include "consume/copy.h"
#include "consume/deliver.h"
#include "consume/private.h"
#include "text/decimal.h"
#include "text/headers.h"

static const char base62[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

static bool flow_controlled(const consumer_t *consumer) {
    return (consumer->setup.config.flags & CONSUMER_FLOW_CONTROL) != 0;
}

/* Whether a mirror or source made the consumer. Such a copy is told more than others are, and its answers say what it
 * has stored. */
static bool copies(const consumer_t *consumer) {
    const consumer_config_t *config = &consumer->setup.config;
    return (config->flags & CONSUMER_DIRECT) != 0 || config->ack_policy == ACK_FLOW_CONTROL;
}

/* Whether a copy took deliveries behind the last one that it was asked about. It says how far it is only when asked. */
static bool tail_untold(const consumer_t *consumer) {
    if (!copies(consumer) || !flow_controlled(consumer)) return false;
    return consumer->next_sequence - 1 != consumer->push.taken_delivery;
}

/* The time until a copy may be asked how far it is. One that is spared heartbeats is asked with the next of them. */
static int64_t until_asked(const consumer_t *consumer) {
    const push_t *push = &consumer->push;
    int64_t at_ns = time_after(push->flow_asked_ns, push->outstanding >= TOLD_LEAST_BYTES ? TOLD_NS : TOLD_LATE_NS);
    int64_t wait_ns = at_ns - consumer->consume->now.mono_ns;
    return wait_ns < TOLD_NS ? TOLD_NS : wait_ns;
}

/* The time between two heartbeats. A heartbeat also asks for acknowledgements that have not come and tells how much
 * waits: those that do are not spared. */
static int64_t heartbeat_interval(const consumer_t *consumer) {
    int64_t spared_ns = consumer->push.spared_ns, configured_ns = consumer->setup.config.idle_heartbeat_ns;
    bool unsettled = consumer->setup.config.ack_policy == ACK_FLOW_CONTROL && consumer->pending.count > 0;
    bool level = consumer->left_known ? consumer->left == 0 : consumer->ended;
    if (configured_ns <= 0 || spared_ns <= configured_ns || unsettled || !level) return configured_ns;
    if (!tail_untold(consumer)) return spared_ns;
    return consumer->push.flow_open ? configured_ns : until_asked(consumer);
}

static void heartbeat_later(consumer_t *consumer) {
    int64_t interval_ns = heartbeat_interval(consumer);
    if (interval_ns <= 0) return;
    consumer->push.put_off = false;
    consumer->push.heartbeat_due_ns = time_after(consumer->consume->now.mono_ns, interval_ns);
    consumer_arm(consumer, consumer->push.heartbeat_due_ns);
}

/* Whether there is something to deliver, for which the link has no room now. */
static bool heartbeat_put_off(consumer_t *consumer) {
    push_t *push = &consumer->push;
    int64_t interval_ns = heartbeat_interval(consumer);
    bool queued = consumer->serving == SERVING_BLOCKED || consumer->serving == SERVING_READY;
    if (push->put_off || !queued || !copies(consumer) || interval_ns >= QUEUED_NS) return false;
    push->put_off = true;
    push->heartbeat_due_ns = time_after(consumer->consume->now.mono_ns, QUEUED_NS - interval_ns);
    consumer_arm(consumer, push->heartbeat_due_ns);
    return true;
}

static int64_t rate_burst(const consumer_t *consumer) {
    int32_t largest = store_stream_config(consumer->stream)->max_msg_size;
    return largest > 0 ? largest : RATE_BURST_DEFAULT;
}

void push_start(consumer_t *consumer) {
    consumer->push.window = FLOW_WINDOW_MIN;
    consumer->push.flow_asked_ns = consumer->consume->now.mono_ns;
    consumer->push.tokens = rate_burst(consumer);
    consumer->push.tokens_at_ns = consumer->consume->now.mono_ns;
    push_review(consumer);
}

/* As in the reference, a subscription with wildcards does not count, so one of a stream or of an import starts no
 * consumer's deliveries. */
bool push_wanted(const consumer_t *consumer) {
    if (consumer->setup.config.flags & CONSUMER_ATTENDED) return consumer->push.attended;
    const consume_out_t *out = &consumer->consume->out;
    return out->exact_interest(out->context, consumer->setup.config.account, consumer->setup.deliver_subject,
                               consumer->setup.deliver_group);
}

void push_review(consumer_t *consumer) {
    visits_add(1);
    bool interest = push_wanted(consumer);
    if (interest == consumer->push.active) return;
    consumer->push.active = interest;
    consumer->active_ns = consumer->consume->now.mono_ns;
    if (interest) {
        /* The new subscriber has nothing of this consumer in its buffers. */
        consumer->push.outstanding = consumer->push.covered = 0;
        consumer->push.flow_open = false;
        /* A copy sets its consumer back, and may subscribe first: what is delivered before that is thrown away. */
        if (consumer->push.copied && !consumer->push.set_back) consumer_hold(consumer);
        copy_there(consumer);
        heartbeat_later(consumer);
        consumer_ready(consumer);
    } else {
        consumer->push.heartbeat_due_ns = NEVER;
        consumer->push.spared_ns = 0;
        consumer->push.set_back = false;
        copy_gone(consumer);
        consumer_arm(consumer, time_after(consumer->active_ns, consumer->setup.config.inactive_threshold_ns));
    }
}

void consumer_attend(consumer_t *consumer, int32_t max_ack_pending, int64_t ack_wait_ns, moment_t now) {
    consumer->consume->now = now;
    consumer->push.attended = true;
    consumer->setup.config.max_ack_pending = max_ack_pending;
    consumer->setup.config.ack_wait_ns = ack_wait_ns;
    push_review(consumer);
    consumer_deliver_again(consumer);
    consumer_ready(consumer);
}

void consumer_leave_alone(consumer_t *consumer, moment_t now) {
    consumer->consume->now = now;
    consumer->push.attended = false;
    push_review(consumer);
}

void consumer_again(consumer_t *consumer, uint64_t seq, moment_t now) {
    consumer->consume->now = now;
    uint32_t row = pending_find(&consumer->pending, seq);
    if (row == PENDING_NONE || pending_row(&consumer->pending, row)->flags & PENDING_QUEUED) return;
    if (pending_queue(&consumer->pending, row) == STATUS_OK) {
        consumer_ready(consumer);
        return;
    }
    pending_row(&consumer->pending, row)->due_ns = time_after(now.mono_ns, RETRY_NS); /* no memory */
    consumer_expires_by(consumer, time_after(now.mono_ns, RETRY_NS));
    consumer_arm(consumer, consumer->expiry_due_ns);
}

void consumer_go_on(consumer_t *consumer, moment_t now) {
    consumer->consume->now = now;
    consumer_unblock(consumer);
    consumer_ready(consumer);
}

/* ---- heartbeats -------------------------------------------------------------------------------------------------- */

static int flow_subject(const consumer_t *consumer, char *to, size_t size) {
    bytes_t stream = consumer->setup.stream_name, name = consumer->setup.name;
    return snprintf(to, size, "$JS.FC.%.*s.%.*s.%.*s", (int)stream.size, (const char *)stream.at, (int)name.size,
                    (const char *)name.at, FLOW_ID_SIZE, (const char *)consumer->push.flow_id);
}

void idle_heartbeat(consumer_t *consumer, bytes_t to) {
    char header[1024], said[COPY_SAID_MAX];
    int size = snprintf(
        header, sizeof header, "NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %llu\r\nNats-Last-Stream: %llu\r\n",
        (unsigned long long)(consumer->next_sequence - 1), (unsigned long long)consumer->delivered_stream);
    if (consumer->push.flow_open) {
        size += snprintf(header + size, sizeof header - (size_t)size, "Nats-Consumer-Stalled: ");
        size += flow_subject(consumer, header + size, sizeof header - (size_t)size);
        copy_says(consumer, said);
        size += snprintf(header + size, sizeof header - (size_t)size, "\r\n%s", said);
    }
    if (copies(consumer) && consumer->left_known) {
        size += snprintf(header + size, sizeof header - (size_t)size, "Leafd-Pending: %llu\r\n",
                         (unsigned long long)consumer->left);
    }
    size += snprintf(header + size, sizeof header - (size_t)size, "\r\n");
    consume_out_t *out = &consumer->consume->out;
    flow_t flow = consumer_flow(consumer, FLOW_LEFT_UNKNOWN);
    out->status(out->context, consumer->setup.config.account, &flow, to, BYTES_NONE, bytes_of(header, (uint32_t)size));
}

/* Over a slow link half a window is minutes, and until then nobody here would know how far the copy is. */
static bool asks_how_far(const consumer_t *consumer, int64_t bytes) {
    const push_t *push = &consumer->push;
    if (!tail_untold(consumer) || push->flow_open) return false;
    int64_t since_ns = consumer->consume->now.mono_ns - push->flow_asked_ns;
    return (push->outstanding >= bytes && since_ns >= TOLD_NS) || since_ns >= TOLD_LATE_NS;
}

void push_on_time(consumer_t *consumer) {
    if (consumer->push.heartbeat_due_ns > consumer->consume->now.mono_ns || heartbeat_put_off(consumer)) return;
    idle_heartbeat(consumer, consumer->setup.deliver_subject);
    bool owed = consumer->pending.count > 0 || copy_is_waited_for(consumer);
    bool acks = consumer->setup.config.ack_policy == ACK_FLOW_CONTROL && owed && !consumer->push.flow_open;
    if (acks || asks_how_far(consumer, TOLD_LEAST_BYTES)) {
        push_flow_request(consumer);
    }
    heartbeat_later(consumer);
}

void push_spare(consumer_t *consumer, int64_t interval_ns) {
    consumer->push.spared_ns = interval_ns > 0 ? interval_ns : 0;
    if (consumer->push.active) heartbeat_later(consumer);
}

void push_set_back(consumer_t *consumer) {
    consumer->push.copied = consumer->setup.config.ack_policy == ACK_FLOW_CONTROL;
    consumer->push.set_back = true;
    push_spare(consumer, 0); /* the one who asked for it may have gone */
}

void push_removed(consumer_t *consumer) {
    if (consumer->push.spared_ns <= 0) return;
    consume_out_t *out = &consumer->consume->out;
    flow_t flow = consumer_flow(consumer, FLOW_LEFT_UNKNOWN);
    out->status(out->context, consumer->setup.config.account, &flow, consumer->setup.deliver_subject, BYTES_NONE,
                BYTES_LITERAL("NATS/1.0 409 Consumer Deleted\r\n\r\n"));
}

/* ---- flow control ------------------------------------------------------------------------------------------------ */

bool push_window_open(const consumer_t *consumer) {
    return !flow_controlled(consumer) || consumer->push.outstanding <= consumer->push.window;
}

void push_flow_request(consumer_t *consumer) {
    push_t *push = &consumer->push;
    for (size_t i = 0; i < FLOW_ID_SIZE; i++)
        push->flow_id[i] = (uint8_t)base62[(consume_random(consumer->consume) >> 16) % 62];
    push->flow_open = true;
    push->flow_asked_ns = consumer->consume->now.mono_ns;
    push->covered = push->outstanding;
    char subject[ACK_PREFIX_MAX + FLOW_ID_SIZE];
    int size = flow_subject(consumer, subject, sizeof subject);
    consume_out_t *out = &consumer->consume->out;
    flow_t flow = consumer_flow(consumer, FLOW_LEFT_UNKNOWN);
    char header[64 + COPY_SAID_MAX], said[COPY_SAID_MAX];
    copy_says(consumer, said);
    int header_size = snprintf(header, sizeof header, "NATS/1.0 100 FlowControl Request\r\n%s\r\n", said);
    out->status(out->context, consumer->setup.config.account, &flow, consumer->setup.deliver_subject,
                bytes_of(subject, (uint32_t)size), bytes_of(header, (uint32_t)header_size));
}

void push_sent(consumer_t *consumer, uint64_t size) {
    push_t *push = &consumer->push;
    if (consumer->setup.config.rate_limit_bps > 0) push->tokens -= (int64_t)size;
    if (!flow_controlled(consumer)) return;
    push->outstanding += (int64_t)size;
    if (!push->flow_open) {
        if (asks_how_far(consumer, TOLD_BYTES) || push->outstanding > push->window / 2) push_flow_request(consumer);
    } else if (push->outstanding - push->covered >= push->window) {
        push->covered += (int64_t)size;
    }
}

void push_counted(consumer_t *consumer) {
    int64_t interval_ns = heartbeat_interval(consumer), before_ns = consumer->push.heartbeat_due_ns;
    if (interval_ns <= 0) return;
    consumer->push.put_off = false;
    consumer->push.heartbeat_due_ns = time_after(consumer->consume->now.mono_ns, interval_ns);
    /* when it moves to a later time the timer need not be set */
    if (consumer->push.heartbeat_due_ns < before_ns) consumer_arm(consumer, consumer->push.heartbeat_due_ns);
}

/* 0 when it is not there. */
static uint64_t header_sequence(bytes_t header, bytes_t name) {
    bytes_t value;
    uint64_t seq;
    return headers_find(header, name, &value) && decimal_parse(value, &seq) ? seq : 0;
}

/* Up to where the answer acknowledges. A mirror or source says what it has stored, which is more than was delivered
 * after the consumer was set back: all that was, then, if it says that it has seen the last delivery. */
static uint64_t flow_acknowledged(const consumer_t *consumer, bytes_t header) {
    if (consumer->setup.config.ack_policy != ACK_FLOW_CONTROL) return 0;
    uint64_t seq = header_sequence(header, BYTES_LITERAL("Nats-Last-Stream"));
    if (seq <= consumer->delivered_stream) return seq;
    bool all = header_sequence(header, BYTES_LITERAL("Nats-Last-Consumer")) == consumer->next_sequence - 1;
    return all ? consumer->delivered_stream : 0;
}

static void note_taken(consumer_t *consumer, bytes_t header) {
    uint64_t seq = header_sequence(header, BYTES_LITERAL("Nats-Last-Stream"));
    uint64_t delivery = header_sequence(header, BYTES_LITERAL("Nats-Last-Consumer"));
    if (delivery >= consumer->next_sequence || delivery < consumer->push.taken_delivery
        || seq > consumer->delivered_stream || seq < consumer->push.taken) {
        return;
    }
    consumer->push.taken = seq;
    consumer->push.taken_delivery = delivery;
}

void consumer_flow_reply(consumer_t *consumer, bytes_t id, bytes_t header, moment_t now) {
    push_t *push = &consumer->push;
    consumer->consume->now = now;
    /* only the newest counts */
    if (!push->flow_open || !bytes_equal(id, bytes_of(push->flow_id, FLOW_ID_SIZE))) return;
    push->flow_open = false;
    copy_answers(consumer, header, header_sequence(header, BYTES_LITERAL("Nats-Last-Stream")),
                 header_sequence(header, BYTES_LITERAL("Nats-Last-Consumer")));
    bool wide = push->covered > push->window / 2;
    push->outstanding = push->outstanding > push->covered ? push->outstanding - push->covered : 0;
    push->covered = 0;
    if (wide && push->window < FLOW_WINDOW_MAX) push->window *= 2;
    note_taken(consumer, header);
    if (push->spared_ns > 0 && push->active) heartbeat_later(consumer); /* nothing to ask any more, or all the sooner */
    uint64_t seq = flow_acknowledged(consumer, header);
    if (seq > consumer->floor_stream) acknowledge_upto(consumer, seq, 0);
    consumer_ready(consumer);
}

/* ---- rate limit: a bucket of bytes that fills at the rate -------------------------------------------------------- */

int64_t push_rate_wait(consumer_t *consumer, uint64_t size) {
    push_t *push = &consumer->push;
    int64_t rate = (int64_t)(consumer->setup.config.rate_limit_bps / 8);
    if (rate <= 0) return 0;
    int64_t now_ns = consumer->consume->now.mono_ns, burst = rate_burst(consumer);
    double gained = (double)(now_ns - push->tokens_at_ns) * (double)rate / (double)NS_PER_SECOND;
    if (gained >= 1) {
        double tokens = (double)push->tokens + gained;
        push->tokens = tokens > (double)burst ? burst : (int64_t)tokens;
        push->tokens_at_ns = now_ns;
    }
    int64_t wanted = (int64_t)size < burst ? (int64_t)size : burst;
    if (push->tokens >= wanted) return 0;
    return (int64_t)((double)(wanted - push->tokens) * (double)NS_PER_SECOND / (double)rate) + 1;
}
