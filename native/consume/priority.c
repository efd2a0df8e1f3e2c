/* priority.c: which of a consumer's pull requests may have the next message, by the policy of its priority groups.
 *
 *     overflow       a request is served only while as much is pending, or unacknowledged, as it names
 *     prioritized    the lowest number first: the order of the line (line.h), nothing is decided here
 *     pinned_client  the first request that is served pins its client. The client gets an id with each message and
 *                    names the id in its next requests. Other clients wait until the pinned one has not pulled for the
 *                    priority timeout, or is unpinned
 *
 * As in the reference, a consumer may have several groups and has one pin, whichever group got it. A pin is not stored:
 * a start begins without one. */
#include "consume/private.h"

#define PIN_STALE UINT64_MAX /* a request named an id when nobody was pinned */

static uint32_t policy_of(const consumer_t *consumer) {
    return consumer->setup.config.priority_policy;
}

static bool is_group(const consumer_t *consumer, bytes_t name) {
    bytes_t left = consumer->setup.priority_groups;
    while (left.size > 0) {
        const uint8_t *blank = memchr(left.at, ' ', left.size);
        uint32_t size = blank ? (uint32_t)(blank - left.at) : left.size;
        if (bytes_equal(bytes_of(left.at, size), name)) return true;
        uint32_t used = blank ? size + 1 : size;
        left = bytes_of(left.at + used, left.size - used);
    }
    return false;
}

/* ---- pins -------------------------------------------------------------------------------------------------------- */

static void pin_end(consumer_t *consumer) {
    consumer->pull->pin.number = 0;
    consumer->pull->pin.due_ns = NEVER;
    consumer->pull->pin.since_wall_ns = 0;
    pull_awaken(consumer);
}

static void pin_prolong(consumer_t *consumer) {
    consumer->pull->pin.due_ns = time_after(consumer->consume->now.mono_ns, consumer->setup.config.priority_timeout_ns);
    consumer_arm(consumer, consumer->pull->pin.due_ns);
}

/* An id is two random numbers of 64 bits, written in 11 digits each. */
static void pin_name(consumer_t *consumer) {
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    uint64_t number = 0;
    for (uint32_t i = 0; i < PIN_ID_SIZE; i++) {
        if (i % (PIN_ID_SIZE / 2) == 0) number = consume_random(consumer->consume);
        consumer->pull->pin.id[i] = (uint8_t)digits[number % 62];
        number /= 62;
    }
}

bool priority_pins(const consumer_t *consumer) {
    return policy_of(consumer) == PRIORITY_PINNED;
}

bool priority_needs_pin(const consumer_t *consumer) {
    return priority_pins(consumer) && consumer->pull->pin.number == 0;
}

bytes_t consumer_pin_id(const consumer_t *consumer) {
    return consumer->pull->pin.number ? bytes_of(consumer->pull->pin.id, PIN_ID_SIZE) : BYTES_NONE;
}

/* A request that is a plain number names no group: it is served, and pins nobody. */
void priority_pin(consumer_t *consumer, request_t *request) {
    pin_t *pin = &consumer->pull->pin;
    if (request->group_size == 0) return;
    request->pin = pin->number = ++pin->given;
    pin->since_wall_ns = consumer->consume->now.wall_ns;
    pin->unused = true;
    pin->group_size = request->group_size;
    memcpy(pin->group, request->reply + request->reply_size, request->group_size);
    pin_name(consumer);
    pin_prolong(consumer);
    uint8_t text[GROUP_SIZE_MAX + 1 + PIN_ID_SIZE];
    uint8_t *at = bytes_write(text, bytes_of(pin->group, pin->group_size));
    *at++ = ' ';
    at = bytes_write(at, bytes_of(pin->id, PIN_ID_SIZE));
    consumer_advise(consumer, ADVISORY_PINNED, 0, 0, 0, 0, bytes_of(text, (uint32_t)(at - text)));
}

void priority_lost(consumer_t *consumer, const request_t *lost) {
    if (consumer->pull->pin.number != 0 && consumer->pull->pin.unused && lost->pin == consumer->pull->pin.number)
        pin_end(consumer);
}

void priority_on_time(consumer_t *consumer) {
    pin_t *pin = &consumer->pull->pin;
    if (pin->due_ns > consumer->consume->now.mono_ns) return;
    pin_end(consumer);
    consumer_advise(consumer, ADVISORY_UNPINNED, 0, 0, 0, 0, bytes_of(pin->group, pin->group_size));
}

void consumer_unpin(consumer_t *consumer, moment_t now) {
    consumer->consume->now = now;
    pin_end(consumer);
    consumer_ready(consumer);
}

void priority_configured(consumer_t *consumer) {
    if (!priority_pins(consumer)) pin_end(consumer);
    requests_t *requests = &consumer->pull->requests;
    line_sort(&requests->line, policy_of(consumer) == PRIORITY_PRIORITIZED, requests->count);
    if (requests->judge_left > 0) requests->judge_left = requests->count;
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

const char *priority_refuses(consumer_t *consumer, const asked_priority_t *asked) {
    uint32_t policy = policy_of(consumer);
    if (!asked->formal) return NULL;
    if ((asked->min_pending != 0 || asked->min_unacked != 0) && policy != PRIORITY_OVERFLOW)
        return "400 Bad Request - Not a Overflow Priority consumer";
    if (asked->id.size > 0 && policy != PRIORITY_PINNED)
        return "400 Bad Request - Not a Pinned Client Priority consumer";
    if (asked->priority < 0 || asked->priority > 9) return "400 Bad Request - Priority must be between 0 and 9";
    if (policy == PRIORITY_NONE) return NULL;
    if (asked->group.size == 0) return "400 Bad Request - Priority Group missing";
    if (asked->group.size > GROUP_SIZE_MAX || !is_group(consumer, asked->group))
        return "400 Bad Request - Invalid Priority Group";
    if (consumer->pull->pin.number == 0 || asked->id.size == 0) return NULL;
    if (!bytes_equal(asked->id, consumer_pin_id(consumer))) return "423 Nats-Pin-Id mismatch";
    pin_prolong(consumer);
    return NULL;
}

void priority_enter(const consumer_t *consumer, request_t *request, const asked_priority_t *asked) {
    request->level = asked->formal ? (uint8_t)asked->priority : LEVELS - 1;
    request->min_pending = asked->min_pending;
    request->min_unacked = asked->min_unacked;
    if (asked->id.size > 0) request->pin = consumer->pull->pin.number ? consumer->pull->pin.number : PIN_STALE;
}

/* ---- serving ----------------------------------------------------------------------------------------------------- */

static bool reached(int64_t least, uint64_t here) {
    return least > 0 && (uint64_t)least <= here;
}

static claim_t claim_overflow(const request_t *request, const offer_t *offer) {
    if (request->min_pending <= 0 && request->min_unacked <= 0) return CLAIM_SERVED;
    bool enough = reached(request->min_pending, offer->pending) || reached(request->min_unacked, offer->unacked);
    return enough ? CLAIM_SERVED : CLAIM_WAITS;
}

claim_t priority_claim(const consumer_t *consumer, const request_t *request, const offer_t *offer) {
    switch (policy_of(consumer)) {
    case PRIORITY_OVERFLOW: return claim_overflow(request, offer);
    case PRIORITY_PINNED:
        if (request->pin == consumer->pull->pin.number) return CLAIM_SERVED;
        return request->pin == 0 ? CLAIM_WAITS : CLAIM_WRONG_PIN;
    default: return CLAIM_SERVED;
    }
}

/* More may be pending than before, and a request of a low number whose receiver was full goes before others again. */
bool priority_begins_anew(const consumer_t *consumer) {
    return policy_of(consumer) == PRIORITY_OVERFLOW || policy_of(consumer) == PRIORITY_PRIORITIZED;
}

/* In a turn, what is pending becomes less, and what is unacknowledged more. */
bool priority_changed(const consumer_t *consumer, const offer_t *offer) {
    return policy_of(consumer) == PRIORITY_OVERFLOW && reached(consumer->pull->requests.wakes_at, offer->unacked);
}
