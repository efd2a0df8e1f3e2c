/* stream.c: streams: their subjects, and the commands that make and end them.
 *
 * Not here: what a stream is asked for and what is purged (stream_jobs.c), validation (control), storage
 * (store/), consumers' commands (binding.c).
 */
#include <stdlib.h>

#include "jetstream/commands.h"
#include "jetstream/stream.h"

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/copies.h"
#include "base/status.h"
#include "base/table.h"
#include "base/visits.h"
#include "consume/consume.h"
#include "exchange/strings.h"
#include "jetstream/host.h"
#include "jetstream/job.h"
#include "jetstream/js.h"
#include "jetstream/publish.h"
#include "jetstream/replicated.h"
#include "store/record.h"
#include "store/store.h"
#include "text/text.h"

stream_t *stream_find(js_t *js, uint64_t id) {
    return table_find(&js->streams, id);
}

/* ---- targets ----------------------------------------------------------------------------------------------------- */

static void drop_sinks(js_t *js, sink_t **sinks, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        js->host->unlisten(js->plane, sinks[i]);
    }
    free(sinks);
}

static void drop_direct(js_t *js, stream_t *stream, uint32_t which) {
    if (stream->direct[which] != NULL) {
        js->host->unlisten(js->plane, stream->direct[which]);
        stream->direct[which] = NULL;
    }
}

/* The subscriptions of a definition. New targets are added before old ones are dropped, so that what stays is never
 * unannounced to leaf links; and adding is what may fail, so a refused definition leaves the old ones as they were. */
typedef struct subscriptions {
    sink_t **subjects;
    uint32_t count;
    bool direct[2]; /* added by this definition */
} subscriptions_t;

static void subscriptions_undo(js_t *js, stream_t *stream, subscriptions_t *added) {
    drop_sinks(js, added->subjects, added->count);
    for (uint32_t i = 0; i < 2; i++) {
        if (added->direct[i]) {
            drop_direct(js, stream, i);
        }
    }
}

static status_t add_subjects(js_t *js, stream_t *stream, strings_t strings, subscriptions_t *added) {
    uint32_t count = strings_count(strings);
    if (count > STREAM_SUBJECTS_MAX) {
        return STATUS_FULL;
    }
    added->subjects = count > 0 ? calloc(count, sizeof(*added->subjects)) : NULL;
    if (count > 0 && added->subjects == NULL) {
        return STATUS_NO_MEMORY;
    }
    status_t status = STATUS_OK;
    while (status == STATUS_OK && added->count < count) {
        status = js->host->listen(js->plane, stream->account, JS_PUBLISH, strings_next(&strings), 0, stream,
                                  &added->subjects[added->count]);
        added->count += status == STATUS_OK;
    }
    return status;
}

static status_t add_direct(js_t *js, stream_t *stream, bytes_t name, subscriptions_t *added) {
    status_t status = STATUS_OK;
    for (uint32_t i = 0; i < 2 && status == STATUS_OK; i++) {
        if (stream->direct[i] == NULL) {
            text_t subject;
            subject.size = 0;
            text_add_literal(&subject, "$JS.API.DIRECT.GET.");
            text_add(&subject, name);
            text_add_literal(&subject, i == 0 ? "" : ".>");
            js_role_t role = stream->replicated != NULL ? JS_DIRECT_ANY : JS_DIRECT;
            status =
                js->host->listen(js->plane, stream->account, role, text_bytes(&subject), 0, stream, &stream->direct[i]);
            added->direct[i] = status == STATUS_OK;
        }
    }
    return status;
}

static status_t subscriptions_add(js_t *js, stream_t *stream, const stream_config_t *config, bytes_t name,
                                  strings_t strings, subscriptions_t *added) {
    *added = (subscriptions_t){0};
    status_t status = add_subjects(js, stream, strings, added);
    if (status == STATUS_OK && (config->flags & STREAM_ALLOW_DIRECT) != 0) {
        status = add_direct(js, stream, name, added);
    }
    if (status != STATUS_OK) {
        subscriptions_undo(js, stream, added);
    }
    return status;
}

static void subscriptions_take(js_t *js, stream_t *stream, const subscriptions_t *added) {
    drop_sinks(js, stream->subjects, stream->subject_count);
    stream->subjects = added->subjects;
    stream->subject_count = added->count;
    if ((stream->config.flags & STREAM_ALLOW_DIRECT) == 0) {
        drop_direct(js, stream, 0);
        drop_direct(js, stream, 1);
    }
}

status_t stream_listen(js_t *js, stream_t *stream, bytes_t subjects) {
    subscriptions_t added;
    const strings_t strings = {.at = subjects.at, .left = subjects.size};
    status_t status = subscriptions_add(js, stream, &stream->config, stream->name, strings, &added);
    if (status == STATUS_OK) {
        subscriptions_take(js, stream, &added);
    }
    return status;
}

void stream_unlisten(js_t *js, stream_t *stream) {
    drop_sinks(js, stream->subjects, stream->subject_count);
    stream->subjects = NULL;
    stream->subject_count = 0;
    drop_direct(js, stream, 0);
    drop_direct(js, stream, 1);
}

void stream_answer_gets(js_t *js, stream_t *stream, bool answers) {
    subscriptions_t added = {0};
    if (!answers || (stream->config.flags & STREAM_ALLOW_DIRECT) == 0) {
        drop_direct(js, stream, 0);
        drop_direct(js, stream, 1);
    } else if (add_direct(js, stream, stream->name, &added) != STATUS_OK) {
        subscriptions_undo(js, stream, &added); /* it is asked again */
    }
}

#define TEXTS 4

/* Name, domain, and what PubAcks and errors are made of. */
static status_t texts_make(bytes_t name, bytes_t domain, bytes_t out[TEXTS]) {
    text_t ack, error;
    ack.size = 0;
    text_add_literal(&ack, "{\"stream\":\"");
    text_add_escaped(&ack, name);
    if (domain.size != 0) {
        text_add_literal(&ack, "\",\"domain\":\"");
        text_add_escaped(&ack, domain);
    }
    text_add_literal(&ack, "\",\"seq\":");
    error.size = 0;
    text_add_literal(&error, ",\"stream\":\"");
    text_add_escaped(&error, name);
    text_add_literal(&error, "\",\"seq\":0}");
    const bytes_t wanted[TEXTS] = {name, domain, text_bytes(&ack), text_bytes(&error)};
    return bytes_copy_all(out, wanted, TEXTS) ? STATUS_OK : STATUS_NO_MEMORY;
}

static void texts_take(stream_t *stream, const bytes_t texts[TEXTS]) {
    bytes_t *own[TEXTS] = {&stream->name, &stream->domain, &stream->ack_prefix, &stream->error_suffix};
    for (uint32_t i = 0; i < TEXTS; i++) {
        bytes_release(own[i]);
        *own[i] = texts[i];
    }
}

void stream_free(js_t *js, stream_t *stream) {
    while (stream->bindings != NULL) {
        binding_free(js, stream->bindings);
    }
    jobs_forget(js, stream);
    js_fast_forget(js, stream);
    js_atomic_forget(js, stream);
    replicated_free(js, stream);
    ingest_forget_full(js, stream);
    stream_unlisten(js, stream);
    bytes_release(&stream->name);
    bytes_release(&stream->domain);
    bytes_release(&stream->ack_prefix);
    bytes_release(&stream->error_suffix);
    rewrite_free(stream->rewrite);
    free(stream);
}

/* ---- make, change, remove ---------------------------------------------------------------------------------------- */

static void stream_key(uint64_t id, uint8_t key[4]) {
    store_be32(key, (uint32_t)id);
}

void stream_state_of(const stream_t *stream, stream_state_t *state) {
    memset(state, 0, sizeof(*state));
    store_stream_state(stream->store, state);
    state->consumers = stream->binding_count - stream->direct_count;
}

#define LOADING_NS (5 * NS_PER_SECOND)

/* A stream without messages, subjects and a place in the table: stream_free takes it back. */
static status_t make_stream(js_t *js, const plane_command_t *command, const stream_config_t *config, stream_t **out) {
    js_account_t *account = js->host->account(js->plane, config->account);
    bool replicated = (config->flags & STREAM_REPLICATED) != 0; /* in files, as its log is, whatever it is to be in */
    uint32_t which = config->storage == 1 && !replicated ? STORE_MEMORY : STORE_FILE;
    if (account == NULL || js->consume == NULL || command->target == 0 || command->target > UINT32_MAX) {
        return STATUS_INVALID;
    }
    status_t status = which == STORE_MEMORY ? js_memory_store(js) : STATUS_OK;
    stream_t *stream = calloc(1, sizeof(*stream));
    if (stream == NULL || status != STATUS_OK) {
        free(stream);
        return status != STATUS_OK ? status : STATUS_NO_MEMORY;
    }
    stream->id = (uint32_t)command->target;
    stream->which_store = which;
    stream->account = account;
    stream->quiet_until_ns = command->arg == 1 ? js->now->mono_ns + LOADING_NS : 0;
    *out = stream;
    return STATUS_OK;
}

/* A definition, as the command has it. */
typedef struct definition {
    stream_config_t config;
    bytes_t name;
    bytes_t text; /* as control stores it */
    bytes_t domain;
    strings_t subjects;
    stored_rewrite_t *rewrite;
    bytes_t texts[TEXTS]; /* of the stream, once it takes them */
} definition_t;

static status_t definition_read(const plane_command_t *command, definition_t *definition) {
    memcpy(&definition->config, command->body, sizeof(definition->config));
    strings_t strings = strings_of(command);
    definition->name = strings_next(&strings);
    definition->text = strings_next(&strings);
    definition->domain = strings_next(&strings);
    bytes_t transforms[4];
    for (uint32_t i = 0; i < 4; i++) {
        transforms[i] = strings_next(&strings);
    }
    definition->subjects = strings;
    status_t status =
        rewrite_new(transforms, (definition->config.flags & STREAM_REPUBLISH_HEADERS) != 0, &definition->rewrite);
    return status == STATUS_OK ? texts_make(definition->name, definition->domain, definition->texts) : status;
}

/* All of it that may fail, and nothing that a stream which is there would show. */
static status_t put_stored(js_t *js, const plane_command_t *command, const definition_t *definition, stream_t *stream) {
    store_t *store = js->stores[stream->which_store];
    bool fresh = stream->store == NULL;
    bool kept = command->arg == 0;
    /* Asked first, so that what follows has room for all of it or for nothing. */
    if (kept && !store_record_fits(store, definition->text)) {
        return definition->text.size > STORE_RECORD_MAX ? STATUS_INVALID : STATUS_FULL;
    }
    status_t status = fresh && kept ? store_stream_unused(store, stream->id) : STATUS_OK;
    if (status != STATUS_OK) {
        return status;
    }
    status = fresh ? table_put(&js->streams, stream->id, stream) : STATUS_OK;
    bool listed = fresh && status == STATUS_OK;
    if (listed) {
        status = store_stream_open(store, stream->id, &definition->config, *js->now, &stream->store);
    }
    if (listed && status == STATUS_OK && (definition->config.flags & STREAM_REPLICATED) != 0) {
        status = replicated_open(js, stream, bytes_of(definition->subjects.at, definition->subjects.left));
    }
    if (status == STATUS_OK && kept) {
        uint8_t key[4];
        stream_key(stream->id, key);
        status = store_record_put(store, RECORD_STREAM, bytes_of(key, 4), definition->text);
    }
    /* Only a stream that is being made has nothing to lose: one that is loaded has its messages. */
    if (status != STATUS_OK && listed && kept && stream->store != NULL) {
        replicated_free(js, stream);
        if (store_stream_remove(stream->store) == STATUS_OK) {
            stream->store = NULL;
        }
    }
    if (status != STATUS_OK && listed) {
        table_drop(&js->streams, stream->id);
    }
    return status;
}

static void put_shown(js_t *js, const definition_t *definition, stream_t *stream, const subscriptions_t *added,
                      bool fresh) {
    if (fresh) {
        store_stream_set_owner(stream->store, stream);
    } else {
        store_stream_configure(stream->store, &definition->config, *js->now);
    }
    bool has_all = (stream->config.flags & ~definition->config.flags & STREAM_LACKS_CONSUMERS) != 0;
    stream->config = definition->config;
    if (has_all) {
        consume_judge(js->consume, stream->id, 1);
    }
    js_charge(stream);
    ingest_stream_redefined(stream);
    if ((stream->config.flags & STREAM_ALLOW_BATCHED) == 0) {
        js_fast_forget(js, stream);
    }
    if ((stream->config.flags & STREAM_ALLOW_ATOMIC) == 0) {
        js_atomic_forget(js, stream);
    }
    rewrite_free(stream->rewrite);
    stream->rewrite = definition->rewrite;
    texts_take(stream, definition->texts);
    subscriptions_take(js, stream, added);
}

/* A definition is taken as a whole or not at all: what may fail comes first, and a failure takes back what came before
 * it. */
static status_t stream_make(js_t *js, const plane_command_t *command, const definition_t *definition, stream_t **out) {
    stream_t *stream = stream_find(js, command->target);
    bool fresh = stream == NULL;
    status_t status = fresh ? make_stream(js, command, &definition->config, &stream) : STATUS_OK;
    if (status != STATUS_OK) {
        return status;
    }
    subscriptions_t added = {0};
    bool shared = (definition->config.flags & STREAM_REPLICATED) != 0;
    bool was_shared = fresh ? shared : stream->replicated != NULL;
    if (was_shared && !shared) {
        status = STATUS_INVALID;
    } else if (shared && !was_shared && stream->which_store != STORE_FILE) {
        status = STATUS_INVALID; /* it has no log there */
    } else if (shared && !was_shared) {
        status = replicated_share(js, stream, bytes_of(definition->subjects.at, definition->subjects.left));
    } else if (!shared || replicated_leads(stream)) {
        status = subscriptions_add(js, stream, &definition->config, definition->name, definition->subjects, &added);
    }
    if (status == STATUS_OK && shared && !fresh) {
        const bytes_t subjects = bytes_of(definition->subjects.at, definition->subjects.left);
        status = replicated_redefine(js, stream, definition->text, subjects);
    }
    if (status == STATUS_OK) {
        status = put_stored(js, command, definition, stream);
        if (status == STATUS_OK) {
            put_shown(js, definition, stream, &added, fresh);
        } else {
            subscriptions_undo(js, stream, &added);
        }
    }
    if (status != STATUS_OK && fresh) {
        stream_free(js, stream);
    }
    *out = stream;
    return status;
}

void stream_put(js_t *js, const plane_command_t *command) {
    definition_t definition;
    stream_t *stream = NULL;
    definition.rewrite = NULL;
    memset(definition.texts, 0, sizeof(definition.texts));
    status_t status = definition_read(command, &definition);
    bool fresh = stream_find(js, command->target) == NULL;
    if (status == STATUS_OK) {
        status = stream_make(js, command, &definition, &stream);
    }
    if (status != STATUS_OK) {
        rewrite_free(definition.rewrite);
        for (uint32_t i = 0; i < TEXTS; i++) {
            bytes_release(&definition.texts[i]);
        }
        js_done(js, command, status);
        return;
    }
    if (fresh && js->host->opened != NULL) {
        js->host->opened(js->plane, stream);
    }
    stream_state_t state;
    stream_state_of(stream, &state);
    js_done_durable(js, command, stream->which_store, 0, bytes_of(&state, sizeof(state)));
}

void stream_remove(js_t *js, const plane_command_t *command, stream_t *stream) {
    uint32_t which = stream->which_store;
    status_t status = replicated_remove(js, stream);
    if (status != STATUS_OK) {
        js_done(js, command, status);
        return;
    }
    if (js->host->removed != NULL) {
        js->host->removed(js->plane, stream);
    }
    ingest_stream_removed(js, stream);
    consume_stream_removed(js->consume, stream->id, *js->now);
    store_stream_t *stored = stream->store;
    table_drop(&js->streams, stream->id);
    stream_free(js, stream);
    status = store_stream_remove(stored);
    if (status != STATUS_OK) {
        js_done(js, command, status);
        return;
    }
    js_done_durable(js, command, which, 0, BYTES_NONE);
}

/* ---- usage ------------------------------------------------------------------------------------------------------- */

static const stream_t *asked_for(js_t *js, const plane_command_t *command, uint32_t i) {
    uint32_t id;
    memcpy(&id, command->body + (size_t)i * sizeof(id), sizeof(id));
    return stream_find(js, id);
}

/* Where the store has yet to look for the first message, STREAM_STATE waits for it: here it is not known. */
static void streams_states(js_t *js, const plane_command_t *command, uint32_t count) {
    stream_state_t *states = malloc(count * sizeof(*states));
    if (states == NULL) {
        js_done(js, command, STATUS_NO_MEMORY);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const stream_t *stream = asked_for(js, command, i);
        bool known = stream != NULL && store_first_settled(stream->store);
        visits_add(1);
        if (known) {
            stream_state_of(stream, &states[i]);
        } else {
            states[i] = (stream_state_t){.consumers = STATE_UNKNOWN};
        }
    }
    js_answer(js, command, STATUS_OK, 0, 0, bytes_of(states, count * (uint32_t)sizeof(*states)));
    free(states);
}

void stream_bytes(js_t *js, const plane_command_t *command) {
    uint32_t count = command->body_size / (uint32_t)sizeof(uint32_t);
    if (count > (command->arg != 0 ? USAGE_STATES_MAX : USAGE_STREAMS_MAX)) {
        js_done(js, command, STATUS_INVALID);
        return;
    }
    if (command->arg != 0 && count != 0) {
        streams_states(js, command, count);
        return;
    }
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        const stream_t *stream = asked_for(js, command, i);
        bytes += stream != NULL ? store_stream_bytes(stream->store) : 0;
    }
    js_answer(js, command, STATUS_OK, bytes, 0, BYTES_NONE);
}

/* ---- records of control ------------------------------------------------------------------------------------------ */

void record_put(js_t *js, const plane_command_t *command) {
    store_t *store = js->stores[STORE_FILE];
    strings_t strings = strings_of(command);
    bytes_t key = strings_next(&strings);
    bytes_t value = strings_next(&strings);
    bool valid = store != NULL && key.size != 0;
    status_t status = !valid            ? STATUS_INVALID
                      : value.size != 0 ? store_record_put(store, RECORD_CONTROL, key, value)
                                        : store_record_delete(store, RECORD_CONTROL, key);
    if (status != STATUS_OK) {
        js_done(js, command, status);
        return;
    }
    js_done_durable(js, command, STORE_FILE, 0, BYTES_NONE);
}
