/* pull.c: pull requests: what a client may ask, the queue of waiting requests (served round robin, a message each), and
 * the statuses that end them. Texts are compared by clients: they are those of the reference server, byte by byte. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/blank.h"
#include "text/duration.h"
#include "text/json.h"
#include "consume/deliver.h"
#include "consume/private.h"

#define WAITING_FEW 16u     /* that wait at a consumer, also while there is no memory for more */
#define REQUEST_BYTES 8192u /* more than one takes */
/* A request lives longer than it asks for by what its way takes: a client that waits as long as it asked sees its own
 * timeout first, at the reference as well, whose 408 comes about as late. */
#define GRACE_NS 500000

/* ---- statuses ---------------------------------------------------------------------------------------------------- */

static void send_status(consume_t *consume, uint32_t account, const flow_t *flow, bytes_t to, const char *text,
                        const char *rest) {
    char header[STATUS_MAX];
    int size = snprintf(header, sizeof header, "NATS/1.0 %s\r\n%s\r\n", text, rest);
    /* our own texts are short; those of JSON errors are cut to fit */
    if (size < 0 || (size_t)size >= sizeof header) return;
    consume_out_t *out = &consume->out;
    out->status(out->context, account, flow, to, BYTES_NONE, bytes_of(header, (uint32_t)size));
}

static void request_refuse(consumer_t *consumer, bytes_t reply, const char *text) {
    flow_t flow = consumer_flow(consumer, FLOW_LEFT_UNKNOWN);
    send_status(consumer->consume, consumer->setup.config.account, &flow, reply, text, "");
}

static void request_tell(consume_t *consume, uint32_t account, const flow_t *flow, const request_t *request,
                         const char *text, bool with_pending) {
    char rest[96] = "";
    if (with_pending) {
        (void)snprintf(rest, sizeof rest, "Nats-Pending-Messages: %lld\r\nNats-Pending-Bytes: %lld\r\n",
                       (long long)request->left, (long long)request->bytes_left);
    }
    send_status(consume, account, flow, bytes_of(request->reply, request->reply_size), text, rest);
}

static void request_status(consumer_t *consumer, const request_t *request, const char *text, bool with_pending) {
    flow_t flow = consumer_flow(consumer, FLOW_LEFT_UNKNOWN);
    request_tell(consumer->consume, consumer->setup.config.account, &flow, request, text, with_pending);
}

/* ---- the room for them ------------------------------------------------------------------------------------------- */

status_t pull_begin(consumer_t *consumer) {
    if (consumer->pull != &consumer->consume->nobody_pulls) return STATUS_OK;
    pull_t *pull = calloc(1, sizeof *pull);
    if (!pull) return STATUS_NO_MEMORY;
    pull->requests.due_ns = pull->pin.due_ns = NEVER;
    consumer->pull = pull;
    return STATUS_OK;
}

void pull_end(consumer_t *consumer) {
    if (consumer->pull != &consumer->consume->nobody_pulls) free(consumer->pull);
    consumer->pull = &consumer->consume->nobody_pulls;
}

/* ---- the requests ------------------------------------------------------------------------------------------------ */

/* The share of a request in `wanted`: no stream holds more messages than the cap, and the sum does not overflow. A
 * client may ask for a negative number. */
static int64_t request_share(const request_t *request) {
    int64_t left = request->left > -WANTED_MAX ? request->left : -WANTED_MAX;
    return left < WANTED_MAX ? left : WANTED_MAX;
}

static uint64_t request_size(uint32_t reply_size, uint32_t group_size) {
    return sizeof(request_t) + reply_size + group_size;
}

/* Out of the line, and freed. */
static void request_release(consume_t *consume, requests_t *requests, request_t *request) {
    visits_add(1);
    line_leave(&requests->line, request);
    requests->count--;
    consume->memory->used -= request_size(request->reply_size, request->group_size);
    free(request);
}

static void request_discard(consumer_t *consumer, request_t *request) {
    requests_t *requests = &consumer->pull->requests;
    request_t *next = requests->count > 1 ? line_after(request) : NULL;
    if (requests->looked == request) requests->looked = next;
    if (requests->judged == request) requests->judged = next;
    requests->wanted -= request_share(request);
    if (request->no_wait) requests->no_wait--;
    consumer->active_ns = consumer->consume->now.mono_ns;
    request_release(consumer->consume, requests, request);
}

typedef enum verdict { KEEP, DROP } verdict_t;

/* Asks `judge` about every request, in order; what it drops goes. */
static void requests_sift(consumer_t *consumer, verdict_t (*judge)(consumer_t *consumer, request_t *request)) {
    request_t *request = line_first(&consumer->pull->requests.line);
    for (uint32_t left = consumer->pull->requests.count; left > 0; left--) {
        request_t *next = line_after(request);
        visits_add(1);
        if (judge(consumer, request) == DROP) request_discard(consumer, request);
        request = next;
    }
}

static bool has_interest(consumer_t *consumer, const request_t *request) {
    consume_out_t *out = &consumer->consume->out;
    return out->interest(out->context, consumer->setup.config.account, bytes_of(request->reply, request->reply_size),
                         BYTES_NONE);
}

/* Drops requests whose inbox nobody subscribes to any more: looks at so many, from where the last check ended. */
static void requests_look(consumer_t *consumer, uint32_t most) {
    requests_t *requests = &consumer->pull->requests;
    request_t *request = requests->looked ? requests->looked : line_first(&requests->line);
    for (uint32_t left = most < requests->count ? most : requests->count; left > 0; left--) {
        request_t *next = line_after(request);
        requests->looked = next;
        visits_add(1);
        if (!has_interest(consumer, request)) request_discard(consumer, request);
        request = next;
    }
}

/* Each new request causes this, and a queue may be as long as the consumer was configured. So more than a few requests
 * are checked only after a pause, and a very long queue in parts. */
void pull_drop_without_interest(consumer_t *consumer) {
    requests_t *line = &consumer->pull->requests;
    if (line->count == 0) return;
    int64_t now_ns = consumer->consume->now.mono_ns;
    bool rested = line->count <= LOOK_ALWAYS || now_ns >= line->look_after_ns;
    requests_look(consumer, rested ? LOOK_MOST : LOOK_ALWAYS);
    if (rested && line->count > LOOK_ALWAYS) line->look_after_ns = time_after(now_ns, LOOK_REST_NS);
}

bool pull_awaited(consumer_t *consumer) {
    for (request_t *first; (first = line_first(&consumer->pull->requests.line)) != NULL;) {
        if (has_interest(consumer, first)) return true;
        request_discard(consumer, first);
    }
    return false;
}

/* ---- the end of all of them -------------------------------------------------------------------------------------- */

/* The requests of a consumer that is gone, or was never asked to tell them. */
typedef struct parting {
    leftover_t leftover; /* of consume_t */
    requests_t requests;
    uint32_t account;
    uint64_t flow;
    bool with_pending;
    char status[64]; /* "": they are told nothing */
} parting_t;

/* true: none is left. */
static bool parting_some(consume_t *consume, parting_t *parting, uint32_t *budget) {
    requests_t *requests = &parting->requests;
    flow_t flow = {.id = parting->flow, .left = FLOW_LEFT_UNKNOWN};
    for (request_t *request; (request = line_first(&requests->line)) != NULL && leftover_pay(budget, 1);) {
        if (parting->status[0] != 0 && !consume->closing)
            request_tell(consume, parting->account, &flow, request, parting->status, parting->with_pending);
        request_release(consume, requests, request);
    }
    return requests->count == 0;
}

static bool parting_step(leftover_t *self, void *context, uint32_t *budget) {
    if (!parting_some(context, (parting_t *)self, budget)) return false;
    free(self);
    return true;
}

/* As many as this turn has room for at once: their clients hear it before whatever ended them is answered. */
void pull_drop_all(consumer_t *consumer, bytes_t status, bool with_pending) {
    consume_t *consume = consumer->consume;
    requests_t *line = &consumer->pull->requests;
    if (line->count == 0) return;
    parting_t parting = {.leftover.step = parting_step,
                         .requests = *line,
                         .account = consumer->setup.config.account,
                         .flow = consumer_flow(consumer, FLOW_LEFT_UNKNOWN).id,
                         .with_pending = with_pending};
    (void)snprintf(parting.status, sizeof parting.status, "%.*s", (int)status.size, (const char *)status.at);
    *line = (requests_t){.line.sorted = line->line.sorted, .due_ns = NEVER, .steps = line->steps};
    consumer->active_ns = consume->now.mono_ns;
    if (parting_some(consume, &parting, &consume->ends_left)) return;
    parting_t *rest = malloc(sizeof *rest);
    if (rest) {
        *rest = parting;
        leftovers_add(&consume->leftovers, &rest->leftover);
    } else {
        uint32_t all = UINT32_MAX;
        (void)parting_some(consume, &parting, &all);
    }
}

void pull_free(consumer_t *consumer) {
    pull_drop_all(consumer, BYTES_NONE, false);
}

/* ---- the end of some of them ------------------------------------------------------------------------------------- */

static verdict_t judge_end(consumer_t *consumer, request_t *request) {
    if (!request->no_wait || (request->expires_ns != NEVER && request->delivered == 0)) return KEEP;
    request_status(consumer, request, "404 No Messages", false);
    return DROP;
}

void pull_end_of_stream(consumer_t *consumer) {
    if (consumer->pull->requests.no_wait > 0) requests_sift(consumer, judge_end);
}

static verdict_t judge_time(consumer_t *consumer, request_t *request) {
    int64_t now_ns = consumer->consume->now.mono_ns;
    requests_t *line = &consumer->pull->requests;
    if (request->expires_ns <= now_ns) {
        request_status(consumer, request, "408 Request Timeout", true);
        return DROP;
    }
    /* When any request's time comes, the reference also ends the no_wait requests that got something: also those of a
     * consumer that is at max_ack_pending. What is acknowledged later then does not go to a request that the client
     * considers over. */
    if (judge_end(consumer, request) == DROP) return DROP;
    if (request->heartbeat_due_ns <= now_ns) {
        if (!has_interest(consumer, request)) return DROP;
        idle_heartbeat(consumer, bytes_of(request->reply, request->reply_size));
        request->heartbeat_due_ns = time_after(now_ns, request->heartbeat_ns);
    }
    line->later_ns = earlier(line->later_ns, earlier(request->expires_ns, request->heartbeat_due_ns));
    return KEEP;
}

/* Looks at every request, as many in a turn as its budget has; with very many of them not before a time that keeps this
 * search at a small part of the processor's time. */
void pull_on_time(consumer_t *consumer) {
    consume_t *consume = consumer->consume;
    requests_t *line = &consumer->pull->requests;
    int64_t now_ns = consume->now.mono_ns;
    if (line->judge_left == 0) {
        int64_t soonest_ns = time_after(line->timed_ns, (int64_t)line->count * 1000);
        if (line->count > LOOK_MOST && soonest_ns > now_ns) {
            line->due_ns = soonest_ns;
            return;
        }
        line->timed_ns = now_ns;
        line->later_ns = NEVER;
        line->judge_left = line->count;
        line->judged = line_first(&line->line);
    }
    for (; line->judge_left > 0 && line->count > 0 && leftover_pay(&consume->ends_left, 1); line->judge_left--) {
        request_t *request = line->judged ? line->judged : line_first(&line->line);
        line->judged = line_after(request);
        visits_add(1);
        if (judge_time(consumer, request) == DROP) request_discard(consumer, request);
    }
    if (line->count == 0) line->judge_left = 0;
    /* In the next turn, not again in this one. */
    line->due_ns = line->judge_left > 0 ? time_after(now_ns, 1) : line->later_ns;
}

/* ---- serving ----------------------------------------------------------------------------------------------------- */

void pull_awaken(consumer_t *consumer) {
    requests_t *requests = &consumer->pull->requests;
    line_awaken(&requests->line, requests->count);
    requests->full = 0;
    requests->wakes_at = 0;
}

static void request_wait(consumer_t *consumer, request_t *request) {
    requests_t *requests = &consumer->pull->requests;
    line_sleep(&requests->line, request);
    int64_t least = request->min_unacked;
    if (least > 0 && (requests->wakes_at == 0 || least < requests->wakes_at)) requests->wakes_at = least;
}

/* Why the request ends instead of getting that message; NULL: it does not. */
static const char *request_end(const consumer_t *consumer, const request_t *request, const offer_t *offer,
                               claim_t claim) {
    if (request->expires_ns <= consumer->consume->now.mono_ns) return "408 Request Timeout";
    if (claim == CLAIM_WRONG_PIN) return "423 Nats-Wrong-Pin-Id";
    bool fits = request->bytes_left <= 0 || offer->size <= (uint64_t)request->bytes_left;
    return fits ? NULL : "409 Message Size Exceeds MaxBytes";
}

request_t *pull_next(consumer_t *consumer, const offer_t *offer) {
    requests_t *requests = &consumer->pull->requests;
    if (LEAF_UNLIKELY(priority_changed(consumer, offer))) pull_awaken(consumer);
    request_t *first = line_first(&requests->line); /* of those that stay */
    for (request_t *request; (request = line_awake(&requests->line)) != NULL;) {
        requests->steps++;
        line_go_on(&requests->line, request);
        claim_t claim = priority_claim(consumer, request, offer);
        if (claim == CLAIM_WAITS && request->expires_ns > consumer->consume->now.mono_ns) {
            request_wait(consumer, request);
            continue;
        }
        const char *end = request_end(consumer, request, offer, claim);
        bool pins = !end && priority_needs_pin(consumer);
        if (!pins && !end) return request;
        if (pins && has_interest(consumer, request)) {
            priority_pin(consumer, request);
            return request;
        }
        if (end) request_status(consumer, request, end, true);
        if (first == request) first = requests->count > 1 ? line_after(request) : NULL;
        request_discard(consumer, request);
        check(line_awake(&requests->line) != request);
    }
    if (first) line_go_on(&requests->line, first);
    return NULL;
}

void pull_served(consumer_t *consumer, request_t *request, uint64_t size) {
    requests_t *requests = &consumer->pull->requests;
    requests->wanted -= request_share(request);
    /* The reference wraps around from the lowest number to the highest. */
    request->left = (int64_t)((uint64_t)request->left - 1);
    request->delivered++;
    consumer->pull->pin.unused = false;
    if (request->heartbeat_ns > 0)
        request->heartbeat_due_ns = time_after(consumer->consume->now.mono_ns, request->heartbeat_ns);
    if (request->bytes_left > 0) {
        request->bytes_left -= (int64_t)size;
        if (request->bytes_left == 0) request->left = 0;
    }
    requests->wanted += request_share(request);
    if (request->left <= 0) {
        if (request->bytes_left > 0) request_status(consumer, request, "409 Batch Completed", true);
        request_discard(consumer, request);
    } else {
        line_turn(&requests->line, request);
        pull_joined(requests);
    }
}

void pull_lost(consumer_t *consumer, request_t *request) {
    priority_lost(consumer, request);
    request_discard(consumer, request);
}

void pull_full(consumer_t *consumer, request_t *request) {
    consumer->pull->requests.full++;
    line_sleep(&consumer->pull->requests.line, request);
    line_go_on(&consumer->pull->requests.line, line_after(request));
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

typedef struct asked {
    int64_t batch, max_bytes, expires_ns, heartbeat_ns;
    asked_priority_t priority;
    bool no_wait;
} asked_t;

typedef enum member_type { MEMBER_INTEGER, MEMBER_BOOL, MEMBER_STRING } member_type_t;

/* The members of a request: how the reference names their types in its errors, and where they go. */
typedef struct member {
    const char *name;
    const char *go_type;
    member_type_t type;
    size_t offset;
} member_t;

static const member_t members[] = {
    {"expires", "time.Duration", MEMBER_INTEGER, offsetof(asked_t, expires_ns)},
    {"batch", "int", MEMBER_INTEGER, offsetof(asked_t, batch)},
    {"max_bytes", "int", MEMBER_INTEGER, offsetof(asked_t, max_bytes)},
    {"no_wait", "bool", MEMBER_BOOL, offsetof(asked_t, no_wait)},
    {"idle_heartbeat", "time.Duration", MEMBER_INTEGER, offsetof(asked_t, heartbeat_ns)},
    {"group", "string", MEMBER_STRING, offsetof(asked_t, priority.group)},
    {"min_pending", "int64", MEMBER_INTEGER, offsetof(asked_t, priority.min_pending)},
    {"min_ack_pending", "int64", MEMBER_INTEGER, offsetof(asked_t, priority.min_unacked)},
    {"id", "string", MEMBER_STRING, offsetof(asked_t, priority.id)},
    {"priority", "int", MEMBER_INTEGER, offsetof(asked_t, priority.priority)},
};

static bool member_set(asked_t *asked, const member_t *member, const json_field_t *field) {
    uint8_t *place = (uint8_t *)asked + member->offset;
    int64_t number;
    bool truth = field->value.at[0] == 't';
    switch (member->type) {
    case MEMBER_INTEGER:
        if (field->kind != JSON_NUMBER || !json_integer(field->value, &number)) return false;
        memcpy(place, &number, sizeof number);
        return true;
    case MEMBER_BOOL:
        if (field->kind != JSON_BOOL) return false;
        memcpy(place, &truth, sizeof truth);
        return true;
    default:
        if (field->kind != JSON_STRING) return false;
        memcpy(place, &field->value, sizeof field->value);
        return true;
    }
}

static bool parse_object(bytes_t body, asked_t *asked, json_error_t *error) {
    if (!json_valid(body, error)) return false;
    asked->priority.formal = true;
    json_field_t field;
    uint32_t at = 0;
    while (json_next(body, &at, &field)) {
        for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
            const member_t *member = &members[i];
            if (!json_named(&field, member->name) || field.kind == JSON_NULL || member_set(asked, member, &field))
                continue;
            bool number = field.kind == JSON_NUMBER && member->type == MEMBER_INTEGER;
            (void)snprintf(error->text, sizeof error->text,
                           "json: cannot unmarshal %s%s%.*s into Go struct field .%s of type %s",
                           json_kind_name(field.kind), number ? " " : "",
                           number ? (int)(field.value.size < 48 ? field.value.size : 48) : 0,
                           (const char *)field.value.at, member->name, member->go_type);
            return false;
        }
    }
    if (asked->heartbeat_ns > 0
        && (asked->heartbeat_ns > INT64_MAX / 2 || asked->heartbeat_ns * 2 > asked->expires_ns)) {
        (void)snprintf(error->text, sizeof error->text, "heartbeat value too large");
        return false;
    }
    return true;
}

static bool request_parse(bytes_t body, asked_t *asked, json_error_t *error) {
    *asked = (asked_t){0};
    body = trim_white(body);
    if (body.size > 0 && body.at[0] == '{') return parse_object(body, asked, error);
    bytes_t digits = body;
    if (digits.size > 1 && digits.at[0] == '+') digits = bytes_of(digits.at + 1, digits.size - 1);
    if (!json_integer(digits, &asked->batch)) asked->batch = 1; /* anything else asks for one message */
    return true;
}

/* True if the request exceeds a limit of the consumer's configuration. */
static bool over_limits(consumer_t *consumer, const asked_t *asked, bytes_t reply) {
    const consumer_config_t *config = &consumer->setup.config;
    char text[128];
    if (config->max_batch > 0 && asked->batch > config->max_batch) {
        (void)snprintf(text, sizeof text, "409 Exceeded MaxRequestBatch of %d", config->max_batch);
    } else if (config->max_expires_ns > 0 && asked->expires_ns > config->max_expires_ns) {
        uint8_t duration[DURATION_TEXT_MAX];
        uint32_t size = duration_format(config->max_expires_ns, duration);
        (void)snprintf(text, sizeof text, "409 Exceeded MaxRequestExpires of %.*s", (int)size, (const char *)duration);
    } else if (config->max_request_bytes > 0 && asked->max_bytes > config->max_request_bytes) {
        (void)snprintf(text, sizeof text, "409 Exceeded MaxRequestMaxBytes of %d", config->max_request_bytes);
    } else {
        const char *refusal = priority_refuses(consumer, &asked->priority);
        if (!refusal) return false;
        (void)snprintf(text, sizeof text, "%s", refusal);
    }
    request_refuse(consumer, reply, text);
    return true;
}

static bool nothing_to_wait_for(consumer_t *consumer, const asked_t *asked, bytes_t reply) {
    /* it is answered when the count is known */
    if (!consumer->left_known && !consumer_counted(consumer)) return false;
    uint64_t there = consumer_left(consumer) + consumer->pending.queued;
    if (asked->expires_ns == 0 && (there == 0 || consumer_paused(consumer))) {
        request_refuse(consumer, reply, "404 No Messages");
        return true;
    }
    if (there > 0) pull_drop_without_interest(consumer);
    int64_t wanted = consumer->pull->requests.wanted;
    if (there > 0 && wanted > 0 && there < (uint64_t)wanted) {
        request_refuse(consumer, reply, "408 Requests Pending");
        return true;
    }
    return false;
}

static bool line_full(consumer_t *consumer) {
    uint32_t most = DEFAULT_MAX_WAITING;
    if (consumer->setup.config.max_waiting > 0) most = (uint32_t)consumer->setup.config.max_waiting;
    if (consumer->pull->requests.count >= WAITING_FEW && !share_has(consumer->consume->memory, REQUEST_BYTES)) {
        most = WAITING_FEW;
    }
    if (consumer->pull->requests.count >= most) pull_drop_without_interest(consumer);
    return consumer->pull->requests.count >= most;
}

static void request_enqueue(consumer_t *consumer, const asked_t *asked, bytes_t reply) {
    check(consumer->pull != &consumer->consume->nobody_pulls);
    bytes_t group = asked->priority.group;
    if (group.size > GROUP_SIZE_MAX) group = BYTES_NONE; /* of a consumer without groups, which does not look at it */
    request_t *request = malloc(request_size(reply.size, group.size));
    if (!request) {
        request_refuse(consumer, reply,
                       "409 Exceeded MaxWaiting"); /* the client asks again later, as it does for that one */
        return;
    }
    int64_t now_ns = consumer->consume->now.mono_ns;
    int64_t start_ns = asked->expires_ns > 0 ? now_ns + GRACE_NS : now_ns;
    *request =
        (request_t){.left = asked->batch,
                    .bytes_left = asked->max_bytes > 0 ? asked->max_bytes : 0,
                    .no_wait = asked->no_wait,
                    .heartbeat_ns = asked->heartbeat_ns > 0 ? asked->heartbeat_ns : 0,
                    .expires_ns = asked->expires_ns != 0 ? time_after(start_ns, asked->expires_ns) : NEVER,
                    .heartbeat_due_ns = asked->heartbeat_ns > 0 ? time_after(now_ns, asked->heartbeat_ns) : NEVER,
                    .group_size = (uint8_t)group.size,
                    .reply_size = reply.size};
    memcpy(request->reply, reply.at, reply.size);
    if (group.size > 0) memcpy(request->reply + reply.size, group.at, group.size);
    priority_enter(consumer, request, &asked->priority);
    consumer->consume->memory->used += request_size(reply.size, group.size);
    line_join(&consumer->pull->requests.line, request);
    consumer->pull->requests.count++;
    consumer->pull->requests.wanted += request_share(request);
    if (request->no_wait) consumer->pull->requests.no_wait++;
    pull_joined(&consumer->pull->requests);
    int64_t due_ns = earlier(request->expires_ns, request->heartbeat_due_ns);
    consumer->pull->requests.later_ns = earlier(consumer->pull->requests.later_ns, due_ns);
    consumer->pull->requests.due_ns = earlier(consumer->pull->requests.due_ns, due_ns);
    consumer_arm(consumer, consumer->pull->requests.due_ns);
    consumer_ready(consumer);
}

void consumer_pull(consumer_t *consumer, bytes_t reply, bytes_t body, moment_t now) {
    consumer->consume->now = now;
    if (reply.size == 0) return;
    if (consumer_is_push(consumer)) {
        request_refuse(consumer, reply, "409 Consumer is push based");
        return;
    }
    consumer->active_ns = now.mono_ns;
    asked_t asked;
    json_error_t error;
    if (!request_parse(body, &asked, &error)) {
        char text[JSON_ERROR_MAX + 24];
        (void)snprintf(text, sizeof text, "400 Bad Request - %s", error.text);
        request_refuse(consumer, reply, text);
        return;
    }
    if (over_limits(consumer, &asked, reply)) return;
    if (asked.no_wait && nothing_to_wait_for(consumer, &asked, reply)) return;
    if (line_full(consumer)) {
        if (asked.heartbeat_ns <= 0) request_refuse(consumer, reply, "409 Exceeded MaxWaiting");
        return;
    }
    request_enqueue(consumer, &asked, reply);
}
