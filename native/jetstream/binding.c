/* binding.c: the binding of a consumer (consumer_binding_t): the subjects that reach it, and the commands that make and
 * end one.
 *
 *   $JS.API.CONSUMER.MSG.NEXT.<s>.<c> --> consumer_pull          $JS.FC.<s>.<c>.<id> --> consumer_flow_reply
 *   $JS.ACK.<s>.<c>.<5 numbers> (and the v2 form) --> consumer_ack, its answer held until the batch is on disk
 *   consume/ --> deliveries, statuses, advisories, the end of an ephemeral
 *
 * Each consumer has targets of its own, so that what is sent to one that does not exist is a 503 like anywhere else.
 * Not here: decisions about deliveries (consume/), validation (Python). Reference: tests/wire/jetstream.md.
 */
#include <stdlib.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/status.h"
#include "consume/consume.h"
#include "exchange/exchange.h"
#include "exchange/strings.h"
#include "text/ack_reply.h"
#include "jetstream/commands.h"
#include "jetstream/host.h"
#include "jetstream/job.h"
#include "jetstream/js.h"
#include "jetstream/publish.h"
#include "jetstream/replicated.h"
#include "jetstream/binding.h"
#include "jetstream/stream.h"
#include "store/record.h"
#include "store/store.h"
#include "text/hash8.h"
#include "text/headers.h"
#include "text/subject_set.h"
#include "text/text.h"
#include "text/tokens.h"
#include "wire/emit.h"

static uint64_t binding_key(const stream_t *stream, uint64_t id) {
    return (uint64_t)stream->id << 32 | id;
}

consumer_binding_t *binding_find(js_t *js, const stream_t *stream, uint64_t id) {
    return id > UINT32_MAX ? NULL : table_find(&js->bindings, binding_key(stream, id));
}

/* Into its stream's list and the table of all. */
static status_t binding_link(js_t *js, stream_t *stream, consumer_binding_t *binding) {
    status_t status = table_put(&js->bindings, binding_key(stream, binding->id), binding);
    if (status != STATUS_OK) {
        return status;
    }
    binding->next_binding = stream->bindings;
    binding->place = &stream->bindings;
    if (binding->next_binding != NULL) {
        binding->next_binding->place = &binding->next_binding;
    }
    stream->bindings = binding;
    stream->binding_count++;
    return STATUS_OK;
}

static void binding_unlink(js_t *js, const consumer_binding_t *binding) {
    table_drop(&js->bindings, binding_key(binding->stream, binding->id));
    *binding->place = binding->next_binding;
    if (binding->next_binding != NULL) {
        binding->next_binding->place = binding->place;
    }
    binding->stream->binding_count--;
    binding->stream->direct_count -= binding->direct;
}

/* Notes that the consumer's configuration is new. */
static void binding_note(consumer_binding_t *binding) {
    bool direct = (consumer_setup(binding->consumer)->config.flags & CONSUMER_DIRECT) != 0;
    binding->stream->direct_count += (uint32_t)direct - (uint32_t)binding->direct;
    binding->direct = direct;
}

void binding_free(js_t *js, consumer_binding_t *binding) {
    sink_t *const sinks[] = {binding->next, binding->ack[0], binding->ack[1], binding->flow[0], binding->flow[1]};
    for (uint32_t i = 0; i < sizeof(sinks) / sizeof(*sinks); i++) {
        if (sinks[i] != NULL) {
            js->host->unlisten(js->plane, sinks[i]);
        }
    }
    binding_unlink(js, binding);
    free(binding->farewell);
    free(binding);
}

/* ---- targets ----------------------------------------------------------------------------------------------------- */

static void subject_of(text_t *text, const stream_t *stream, const char *prefix, bool v2, bytes_t consumer,
                       const char *tail) {
    text->size = 0;
    text_add_literal(text, prefix);
    if (v2) {
        text_add(text, stream->domain.size != 0 ? stream->domain : BYTES_LITERAL("_"));
        text_add_literal(text, ".");
        text_add(text, bytes_of(stream->account->hash8, 8));
        text_add_literal(text, ".");
    }
    text_add(text, stream->name);
    text_add_literal(text, ".");
    text_add(text, consumer);
    text_add_literal(text, tail);
}

static status_t binding_listen(js_t *js, consumer_binding_t *binding, bytes_t name, const consumer_config_t *config) {
    stream_t *stream = binding->stream;
    const js_host_t *host = js->host;
    text_t subject;
    subject_of(&subject, stream, "$JS.API.CONSUMER.MSG.NEXT.", false, name, "");
    status_t status =
        host->listen(js->plane, stream->account, JS_NEXT, text_bytes(&subject), 0, binding, &binding->next);
    bool acks = config->ack_policy == ACK_ALL || config->ack_policy == ACK_EXPLICIT;
    for (uint32_t v2 = 0; v2 < 2 && acks && status == STATUS_OK; v2++) {
        subject_of(&subject, stream, "$JS.ACK.", v2 != 0, name, v2 != 0 ? ".*.*.*.*.>" : ".*.*.*.*.*");
        status = host->listen(js->plane, stream->account, JS_ACK, text_bytes(&subject), 0, binding, &binding->ack[v2]);
    }
    bool flow = (config->flags & CONSUMER_FLOW_CONTROL) != 0;
    for (uint32_t v2 = 0; v2 < 2 && flow && status == STATUS_OK; v2++) {
        subject_of(&subject, stream, "$JS.FC.", v2 != 0, name, ".*");
        status =
            host->listen(js->plane, stream->account, JS_FLOW, text_bytes(&subject), 0, binding, &binding->flow[v2]);
    }
    return status;
}

void js_next(js_t *js, consumer_binding_t *binding, const message_t *message) {
    if (message->reply.size == 0) {
        return;
    }
    if (js_level_too_high(message->header)) {
        js_say(js, binding->stream->account, message->reply, BYTES_LITERAL("NATS/1.0 412 Required Api Level\r\n\r\n"),
               BYTES_NONE);
        return;
    }
    consumer_pull(binding->consumer, message->reply, message->payload, *js->now);
    js->more = true;
}

void js_ack(js_t *js, consumer_binding_t *binding, const message_t *message) {
    ack_reply_t ack;
    if (!ack_reply_parse(message->subject, &ack)) {
        return;
    }
    bool answer = false;
    bytes_t reply = message->reply;
    consumer_ack(binding->consumer, ack.stream_seq, ack.consumer_seq, ack.delivered, message->payload, reply, *js->now,
                 &answer);
    if (answer && reply.size != 0) {
        /* The ack's effects have to be in the batch that the answer waits for. */
        if (binding->stream->replicated != NULL) {
            replicated_hold(js, binding->stream, reply);
        } else {
            consume_flush(js->consume);
            js_hold(js, binding->stream, reply, BYTES_NONE, BYTES_NONE);
        }
    }
    js->more = true;
}

void js_flow(js_t *js, consumer_binding_t *binding, const message_t *message) {
    bytes_t subject = message->subject;
    bytes_t id = subject;
    (void)tokens_take_last(&subject, &id);
    consumer_flow_reply(binding->consumer, id, message->header, *js->now);
    js->more = true;
}

/* ---- what consume/ says ------------------------------------------------------------------------------------------ */

static delivered_t out_deliver(void *context, const delivery_t *delivery) {
    const js_t *js = context;
    const consumer_binding_t *binding = consumer_owner(delivery->consumer);
    if (LEAF_UNLIKELY(binding->receiver != NULL)) {
        return js->host->receive(js->plane, binding->receiver, delivery);
    }
    return js->host->deliver(js->plane, binding->stream->account, delivery);
}

static void out_status(void *context, uint32_t account_id, const flow_t *flow, bytes_t to, bytes_t reply,
                       bytes_t header) {
    js_t *js = context;
    js_account_t *account = js->host->account(js->plane, account_id);
    if (account != NULL) {
        js->host->status(js->plane, account, flow, to, reply, header);
    }
}

static bool out_interest(void *context, uint32_t account_id, bytes_t subject, bytes_t group) {
    js_t *js = context;
    js_account_t *account = js->host->account(js->plane, account_id);
    return account != NULL && js->host->interest(js->plane, account, subject, group);
}

static bool out_exact_interest(void *context, uint32_t account_id, bytes_t subject, bytes_t group) {
    js_t *js = context;
    js_account_t *account = js->host->account(js->plane, account_id);
    return account != NULL && js->host->exact_interest(js->plane, account, subject, group);
}

static void out_advise(void *context, consumer_t *consumer, uint32_t advisory, const advisory_t *numbers,
                       bytes_t text) {
    js_t *js = context;
    const consumer_binding_t *binding = consumer_owner(consumer);
    if (!js->host->advisory_room(js->plane)) {
        return;
    }
    event_entry_t *entry = event_new(EVENT_ADVISORY, text, BYTES_NONE, BYTES_NONE, bytes_of(numbers, sizeof(*numbers)));
    if (entry == NULL) {
        return;
    }
    entry->event.code = advisory;
    entry->event.target = binding->stream->id;
    entry->event.arg = binding->id;
    js->host->advise(js->plane, entry);
}

static void definition_key(uint8_t key[8], uint32_t stream, uint32_t consumer) {
    store_be32(key, stream);
    store_be32(key + 4, consumer);
}

/* Where several servers keep the stream, they agree on it first. */
static status_t binding_record(js_t *js, const stream_t *stream, const record_change_t *change) {
    return stream->replicated != NULL ? replicated_record(js, stream->id, change)
                                      : store_record_change(js->stores[stream->which_store], change);
}

static void out_gone(void *context, uint32_t stream_id, uint32_t consumer_id, uint64_t taken) {
    js_t *js = context;
    stream_t *stream = stream_find(js, stream_id);
    consumer_binding_t *binding = stream == NULL ? NULL : binding_find(js, stream, consumer_id);
    if (binding == NULL) {
        return;
    }
    uint8_t key[8];
    definition_key(key, stream_id, consumer_id);
    const record_change_t change = {.act = RECORD_DELETE, .kind = RECORD_CONSUMER, .key = bytes_of(key, sizeof(key))};
    if (binding_record(js, stream, &change) != STATUS_OK) {
        /* The definition stays until the next start. Its consumer is idle then, and is removed again. */
        js->more = true;
    }
    event_entry_t *entry = binding->farewell;
    check(entry != NULL); /* an attended one has no time after which it goes */
    binding->farewell = NULL;
    binding_free(js, binding);
    entry->event.target = stream_id;
    entry->event.arg = consumer_id;
    entry->event.arg2 = taken;
    event_post(js->exchange, entry);
}

consume_out_t js_consume_out(js_t *js) {
    return (consume_out_t){
        .context = js,
        .deliver = out_deliver,
        .status = out_status,
        .interest = out_interest,
        .exact_interest = out_exact_interest,
        .advise = out_advise,
        .gone = out_gone,
        .record = replicated_record,
        .remove = replicated_let_go,
        .complete = replicated_complete_stream,
        .coming = replicated_coming,
    };
}

/* ---- what waits for a count -------------------------------------------------------------------------------------- */

/* A consumer's state has the number of messages that are left. When that has to be counted first, the command waits;
 * nothing is delivered before, so its answer is the state "before any delivery" all the same. */
typedef struct state_job {
    job_t job;
    plane_command_t command; /* without body and extra */
    binding_answer_t answer;
    uint64_t seq; /* of a reset */
} state_job_t;

static bool binding_state_step(js_t *js, job_t *base) {
    state_job_t *job = (state_job_t *)base;
    consumer_binding_t *binding = binding_find(js, base->stream, job->command.arg);
    if (binding == NULL) {
        js_done(js, &job->command, STATUS_NOT_FOUND);
        return true;
    }
    if (!consumer_counted(binding->consumer)) {
        return false;
    }
    job->answer(js, &job->command, binding, job->seq);
    return true;
}

static void binding_state_end(js_t *js, job_t *base, status_t status) {
    state_job_t *job = (state_job_t *)base;
    if (status != STATUS_OK) {
        js_done(js, &job->command, status);
    }
    free(job);
}

void binding_when_counted(js_t *js, const plane_command_t *command, const consumer_binding_t *binding,
                          binding_answer_t answer, uint64_t seq) {
    state_job_t *job = calloc(1, sizeof(*job));
    if (job == NULL) {
        js_done(js, command, STATUS_NO_MEMORY);
        return;
    }
    job->job = (job_t){.stream = binding->stream, .step = binding_state_step, .end = binding_state_end};
    job->command = *command;
    job->command.body = job->command.extra = NULL;
    job->command.body_size = job->command.extra_size = 0;
    job->answer = answer;
    job->seq = seq;
    job_start(js, &job->job);
}

#define STATES_BUDGET 4096u /* consumers, and requests of theirs, that are looked at in one turn */
#define STATE_ANSWER_MAX (sizeof(consumer_state_t) + PIN_ID_SIZE)

static bytes_t binding_state_answer(js_t *js, const consumer_binding_t *binding, uint8_t out[STATE_ANSWER_MAX]) {
    consumer_state_t state;
    consumer_snapshot(binding->consumer, *js->now, &state);
    memcpy(out, &state, sizeof(state));
    return bytes_of(out, (uint32_t)(bytes_write(out + sizeof(state), consumer_pin_id(binding->consumer)) - out));
}

static void answer_state(js_t *js, const plane_command_t *command, consumer_binding_t *binding, uint64_t seq) {
    uint8_t answer[STATE_ANSWER_MAX];
    js_answer(js, command, STATUS_OK, seq, 0, binding_state_answer(js, binding, answer));
}

/* When what the command has changed is on disk; at a majority, where several servers keep the stream. */
static void done_kept(js_t *js, const plane_command_t *command, const stream_t *stream, uint64_t arg, bytes_t payload) {
    if (stream->replicated == NULL) {
        js_done_durable(js, command, stream->which_store, arg, payload);
        return;
    }
    status_t status = replicated_complete(js, command, stream, arg, payload);
    if (status != STATUS_OK) {
        js_done(js, command, status);
    }
}

static void answer_durable_state(js_t *js, const plane_command_t *command, consumer_binding_t *binding, uint64_t seq) {
    uint8_t answer[STATE_ANSWER_MAX];
    js->more = true;
    done_kept(js, command, binding->stream, seq, binding_state_answer(js, binding, answer));
}

/* ---- commands ---------------------------------------------------------------------------------------------------- */

static status_t binding_filters(const strings_t *strings, consumer_parts_t *parts) {
    strings_t left = *strings;
    uint32_t count = strings_count(left);
    parts->filters = NULL;
    if (count != 0) {
        parts->filters = calloc(count, sizeof(*parts->filters));
        if (parts->filters == NULL) {
            return STATUS_NO_MEMORY;
        }
        for (uint32_t i = 0; i < count; i++) {
            parts->filters[i] = strings_next(&left);
        }
    }
    subject_set_t set = subject_set_make(parts->filters, count);
    parts->setup.filters = (filters_t){.patterns = set.at, .count = set.count, .sorted = set.sorted};
    return STATUS_OK;
}

status_t binding_parts(const plane_command_t *command, const stream_t *stream, consumer_parts_t *parts) {
    memset(parts, 0, sizeof(*parts)); /* first: the caller frees what it points to, however this ends */
    memcpy(&parts->setup.config, command->body, sizeof(consumer_config_t));
    strings_t strings = strings_of(command);
    parts->setup.stream_id = stream->id;
    parts->setup.id = (uint32_t)command->arg;
    parts->setup.stream_name = stream->name;
    parts->setup.name = strings_next(&strings);
    parts->definition = strings_next(&strings);
    parts->setup.deliver_subject = strings_next(&strings);
    parts->setup.deliver_group = strings_next(&strings);
    bytes_t backoff = strings_next(&strings);
    parts->setup.priority_groups = strings_next(&strings);
    if (parts->setup.name.size == 0 || backoff.size % 8 != 0 || backoff.size / 8 > CONSUME_BACKOFF_MAX) {
        return STATUS_INVALID;
    }
    parts->setup.backoff_count = backoff.size / 8;
    if (backoff.size != 0) {
        memcpy(parts->backoff, backoff.at, backoff.size);
    }
    parts->setup.backoff_ns = parts->backoff;
    return binding_filters(&strings, parts);
}

/* One that is stored is loaded again, so nothing of it may go from the disk. */
static void binding_give_up(js_t *js, const consumer_binding_t *binding, bool loading) {
    if (loading) {
        consumer_destroy(binding->consumer);
    } else {
        consumer_remove(binding->consumer, *js->now);
    }
}

status_t binding_new(js_t *js, stream_t *stream, const consumer_setup_t *setup, bool loading,
                     consumer_binding_t **out) {
    consumer_binding_t *binding = calloc(1, sizeof(*binding));
    /* The host of an attended one acknowledges for its receiver, and ends it: control never hears of it. */
    bool attended = (setup->config.flags & CONSUMER_ATTENDED) != 0;
    event_entry_t *farewell =
        attended ? NULL : event_new(EVENT_CONSUMER_GONE, BYTES_NONE, BYTES_NONE, BYTES_NONE, BYTES_NONE);
    if (binding == NULL || (farewell == NULL && !attended)) {
        free(binding);
        free(farewell);
        return STATUS_NO_MEMORY;
    }
    binding->farewell = farewell;
    binding->stream = stream;
    binding->id = setup->id;
    status_t status = consumer_add(js->consume, stream->store, setup, loading, *js->now, &binding->consumer);
    if (status == STATUS_OK) {
        status = binding_link(js, stream, binding);
        if (status != STATUS_OK) {
            binding_give_up(js, binding, loading);
        }
    }
    if (status != STATUS_OK) {
        free(farewell);
        free(binding);
        return status;
    }
    binding_note(binding);
    consumer_set_owner(binding->consumer, binding);
    if (!attended) {
        status = binding_listen(js, binding, setup->name, &setup->config);
    }
    if (status != STATUS_OK) {
        binding_give_up(js, binding, loading);
        binding_free(js, binding);
        return status;
    }
    *out = binding;
    return STATUS_OK;
}

status_t binding_define(js_t *js, const stream_t *stream, uint64_t id, uint32_t flags, bytes_t definition) {
    if ((flags & (CONSUMER_MEMORY | CONSUMER_DIRECT)) != 0) {
        return STATUS_OK; /* gone after a restart by design */
    }
    uint8_t key[8];
    definition_key(key, stream->id, (uint32_t)id);
    const record_change_t change = {
        .act = RECORD_PUT, .kind = RECORD_CONSUMER, .key = bytes_of(key, sizeof(key)), .value = definition};
    return binding_record(js, stream, &change);
}

void binding_put(js_t *js, const plane_command_t *command, stream_t *stream) {
    consumer_parts_t parts = {0};
    status_t status = binding_parts(command, stream, &parts);
    if (status == STATUS_OK && stream->replicated != NULL && !replicated_leads(stream)) {
        status = STATUS_CLOSED;
    }
    consumer_binding_t *binding = status == STATUS_OK ? binding_find(js, stream, command->arg) : NULL;
    bool loading = command->arg2 == 1, fresh = binding == NULL;
    if (status == STATUS_OK && !fresh) {
        int64_t paused_until = consumer_setup(binding->consumer)->config.pause_until_ns;
        status = consumer_configure(binding->consumer, &parts.setup, *js->now);
        binding_note(binding);
        /* A pause is changed by putting the definition that says so, so that both are durable together. */
        if (status == STATUS_OK && parts.setup.config.pause_until_ns != paused_until) {
            consumer_pause(binding->consumer, parts.setup.config.pause_until_ns, *js->now);
        }
    } else if (status == STATUS_OK) {
        status = binding_new(js, stream, &parts.setup, loading, &binding);
    }
    if (status == STATUS_OK && !loading) {
        status = binding_define(js, stream, command->arg, parts.setup.config.flags, parts.definition);
    }
    if (status != STATUS_OK && fresh && binding != NULL) { /* nobody knows of it: it would take others' requests */
        consumer_remove(binding->consumer, *js->now);
        binding_free(js, binding);
    }
    free(parts.filters);
    if (status != STATUS_OK) {
        js_done(js, command, status);
        return;
    }
    js->more = true;
    consumer_await(binding->consumer);
    binding_when_counted(js, command, binding, answer_durable_state, 0);
}

void binding_remove(js_t *js, const plane_command_t *command, consumer_binding_t *binding) {
    stream_t *stream = binding->stream;
    uint8_t key[8];
    definition_key(key, stream->id, binding->id);
    const record_change_t change = {.act = RECORD_DELETE, .kind = RECORD_CONSUMER, .key = bytes_of(key, sizeof(key))};
    status_t status = binding_record(js, stream, &change);
    if (status != STATUS_OK) {
        js_done(js, command, status);
        return;
    }
    consumer_remove(binding->consumer, *js->now);
    binding_free(js, binding);
    done_kept(js, command, stream, 0, BYTES_NONE);
}

void binding_state(js_t *js, const plane_command_t *command, consumer_binding_t *binding) {
    binding_when_counted(js, command, binding, answer_state, 0);
}

/* Of so many of them, from the first on, as one turn has time for. */
void bindings_state(js_t *js, const plane_command_t *command) {
    uint32_t count = command->body_size / (uint32_t)sizeof(consumer_place_t);
    if (count == 0 || count > USAGE_STATES_MAX) {
        js_done(js, command, STATUS_INVALID);
        return;
    }
    consumer_state_t *states = malloc(count * sizeof(*states));
    if (states == NULL) {
        js_done(js, command, STATUS_NO_MEMORY);
        return;
    }
    uint32_t budget = STATES_BUDGET, told = 0;
    for (; told < count && budget > 0; told++) {
        consumer_place_t place;
        memcpy(&place, command->body + told * sizeof(place), sizeof(place));
        const stream_t *stream = stream_find(js, place.stream);
        consumer_binding_t *binding = stream != NULL ? binding_find(js, stream, place.consumer) : NULL;
        if (binding == NULL || !consumer_glance(binding->consumer, *js->now, &budget, &states[told])) {
            states[told] = (consumer_state_t){.push_bound = STATE_UNKNOWN};
        }
    }
    js_answer(js, command, STATUS_OK, 0, 0, bytes_of(states, told * (uint32_t)sizeof(*states)));
    free(states);
}

void binding_pause(js_t *js, const plane_command_t *command, consumer_binding_t *binding) {
    consumer_pause(binding->consumer, (int64_t)command->arg2, *js->now);
    js_done(js, command, STATUS_OK);
}

void binding_unpin(js_t *js, const plane_command_t *command, consumer_binding_t *binding) {
    consumer_unpin(binding->consumer, *js->now);
    js->more = true;
    js_done(js, command, STATUS_OK);
}

void binding_begin(js_t *js, const plane_command_t *command, consumer_binding_t *binding) {
    consumer_begin(binding->consumer, *js->now);
    js->more = true;
    js_done(js, command, STATUS_OK);
}

void binding_spare(js_t *js, const plane_command_t *command, consumer_binding_t *binding) {
    consumer_spare(binding->consumer, (int64_t)command->arg2, *js->now);
    js_done(js, command, STATUS_OK);
}

void binding_reset(js_t *js, const plane_command_t *command, consumer_binding_t *binding) {
    uint64_t seq = 0;
    status_t status = consumer_reset(binding->consumer, command->arg2, *js->now, &seq);
    if (status != STATUS_OK) {
        js_done(js, command, status);
        return;
    }
    js->more = true;
    binding_when_counted(js, command, binding, answer_durable_state, seq);
}
