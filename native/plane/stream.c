/* stream.c: streams in the plane: their subjects, and the commands that make and end them.
 *
 * What does not live here: what a stream is asked for and what is purged (stream_jobs.c), validation (control), storage (store/),
 * consumers' commands (consumer.c).
 */
#include <stdlib.h>

#include "plane/js.h"

stream_t *stream_find(plane_t *plane, uint64_t id) {
    return table_find(&plane->streams, id);
}

void command_done_durable(plane_t *plane, const plane_command_t *command, uint32_t which_store, uint64_t arg, bytes_t payload) {
    if (command->token == 0) {
        return;
    }
    event_entry_t *entry = event_new(EVENT_DONE, BYTES_NONE, BYTES_NONE, BYTES_NONE, payload);
    check(entry != NULL);
    entry->event.token = command->token;
    entry->event.account = command->account;
    entry->event.target = command->target;
    entry->event.arg = arg;
    status_t status = held_event(&plane->held[which_store], store_batch(plane->stores[which_store]), entry);
    check(status == STATUS_OK);
}

/* ---- targets --------------------------------------------------------------------------------------------------------- */

static void drop_sinks(plane_t *plane, sink_t *sinks, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        sink_remove(plane, &sinks[i]);
    }
    free(sinks);
}

/* New ones in before old ones out: what stays is never unannounced to leaf links. */
static status_t set_subjects(plane_t *plane, stream_t *stream, strings_t *strings) {
    sink_t *sinks = calloc(STREAM_SUBJECTS_MAX, sizeof(*sinks));
    uint32_t count = 0;
    status_t status = sinks == NULL ? STATUS_NO_MEMORY : STATUS_OK;
    while (status == STATUS_OK && strings_more(strings)) {
        bytes_t subject = strings_next(strings);
        status = count == STREAM_SUBJECTS_MAX ? STATUS_FULL
                                              : sink_add(plane, stream->account, &sinks[count], TARGET_STREAM, subject, stream, 0);
        count += status == STATUS_OK;
    }
    if (status != STATUS_OK) {
        drop_sinks(plane, sinks, count);
        return status;
    }
    drop_sinks(plane, stream->subjects, stream->subject_count);
    stream->subjects = NULL;
    stream->subject_count = 0;
    if (count == 0) {
        free(sinks);
        return STATUS_OK;
    }
    /* The routing domain knows these by address: an array of the exact size needs them taken out once more. */
    sink_t *exact = calloc(count, sizeof(*exact));
    if (exact == NULL) {
        stream->subjects = sinks;
        stream->subject_count = count;
        return STATUS_OK;
    }
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        status = sink_add(plane, stream->account, &exact[i], TARGET_STREAM, sinks[i].target.subject, stream, 0);
    }
    drop_sinks(plane, sinks, count);
    stream->subjects = exact;
    stream->subject_count = count;
    return status;
}

static status_t set_direct(plane_t *plane, stream_t *stream) {
    bool wanted = (stream->config.flags & STREAM_ALLOW_DIRECT) != 0;
    for (uint32_t i = 0; i < 2; i++) {
        if (!wanted) {
            sink_remove(plane, &stream->direct[i]);
        } else if (!stream->direct[i].in) {
            text_t subject;
            subject.size = 0;
            text_add_literal(&subject, "$JS.API.DIRECT.GET.");
            text_add(&subject, stream->name);
            text_add_literal(&subject, i == 0 ? "" : ".>");
            status_t status = sink_add(plane, stream->account, &stream->direct[i], TARGET_DIRECT, text_bytes(&subject), stream, 0);
            if (status != STATUS_OK) {
                return status;
            }
        }
    }
    return STATUS_OK;
}

static void set_texts(stream_t *stream, bytes_t name, bytes_t domain) {
    bytes_release(&stream->name);
    bytes_release(&stream->domain);
    bytes_release(&stream->ack_prefix);
    bytes_release(&stream->error_suffix);
    stream->name = bytes_copy(name);
    stream->domain = bytes_copy(domain);
    text_t text;
    text.size = 0;
    text_add_literal(&text, "{\"stream\":\"");
    text_add(&text, name);
    if (domain.size != 0) {
        text_add_literal(&text, "\",\"domain\":\"");
        text_add(&text, domain);
    }
    text_add_literal(&text, "\",\"seq\":");
    stream->ack_prefix = bytes_copy(text_bytes(&text));
    text.size = 0;
    text_add_literal(&text, ",\"stream\":\"");
    text_add(&text, name);
    text_add_literal(&text, "\",\"seq\":0}");
    stream->error_suffix = bytes_copy(text_bytes(&text));
}

void stream_free(plane_t *plane, stream_t *stream) {
    while (stream->seats != NULL) {
        seat_free(plane, stream->seats);
    }
    jobs_forget(plane, stream);
    js_fast_forget(plane, stream);
    drop_sinks(plane, stream->subjects, stream->subject_count);
    sink_remove(plane, &stream->direct[0]);
    sink_remove(plane, &stream->direct[1]);
    bytes_release(&stream->name);
    bytes_release(&stream->domain);
    bytes_release(&stream->ack_prefix);
    bytes_release(&stream->error_suffix);
    rewrite_free(stream->rewrite);
    free(stream);
}

/* ---- make, change, remove ------------------------------------------------------------------------------------------------ */

static void stream_key(uint64_t id, uint8_t key[4]) {
    store_be32(key, (uint32_t)id);
}

void stream_state_of(const stream_t *stream, stream_state_t *state) {
    memset(state, 0, sizeof(*state));
    store_stream_state(stream->store, state);
    state->consumers = 0;
    for (const consumer_seat_t *seat = stream->seats; seat != NULL; seat = seat->next_seat) {
        state->consumers += (consumer_setup(seat->consumer)->config.flags & CONSUMER_DIRECT) == 0;
    }
}

#define LOADING_NS (5 * NS_PER_SECOND)

static status_t make_stream(plane_t *plane, const plane_command_t *command, const stream_config_t *config, stream_t **out) {
    account_t *account = account_find(plane, config->account);
    uint32_t which = config->storage == 1 ? STORE_MEMORY : STORE_FILE;
    if (account == NULL || plane->consume == NULL || command->target == 0 || command->target > UINT32_MAX) {
        return STATUS_INVALID;
    }
    status_t status = which == STORE_MEMORY ? core_memory_store(plane) : STATUS_OK;
    stream_t *stream = calloc(1, sizeof(*stream));
    if (stream == NULL || status != STATUS_OK) {
        free(stream);
        return status != STATUS_OK ? status : STATUS_NO_MEMORY;
    }
    stream->id = (uint32_t)command->target;
    stream->which_store = which;
    stream->account = account;
    status = store_stream_open(plane->stores[which], stream->id, config, plane->now, &stream->store);
    if (status == STATUS_OK) {
        status = table_put(&plane->streams, stream->id, stream);
    }
    if (status != STATUS_OK) {
        free(stream);
        return status;
    }
    stream->quiet_until_ns = command->arg == 1 ? plane->now.mono_ns + LOADING_NS : 0;
    store_stream_set_owner(stream->store, stream);
    *out = stream;
    return STATUS_OK;
}

static void stream_put(plane_t *plane, const plane_command_t *command) {
    stream_config_t config;
    if (command->body_size != sizeof(config)) {
        command_done(plane, command, STATUS_INVALID);
        return;
    }
    memcpy(&config, command->body, sizeof(config));
    strings_t strings = strings_of(command);
    bytes_t name = strings_next(&strings);
    bytes_t definition = strings_next(&strings);
    bytes_t domain = strings_next(&strings);
    bytes_t transforms[4];
    for (uint32_t i = 0; i < 4; i++) {
        transforms[i] = strings_next(&strings);
    }
    rewrite_t *rewrite;
    status_t status = rewrite_new(transforms, (config.flags & STREAM_REPUBLISH_HEADERS) != 0, &rewrite);
    stream_t *stream = stream_find(plane, command->target);
    if (status == STATUS_OK && stream == NULL) {
        status = make_stream(plane, command, &config, &stream);
    } else if (status == STATUS_OK) {
        store_stream_configure(stream->store, &config, plane->now);
    }
    if (status != STATUS_OK) {
        rewrite_free(rewrite);
        command_done(plane, command, status);
        return;
    }
    stream->config = config;
    if ((config.flags & STREAM_ALLOW_BATCHED) == 0) {
        js_fast_forget(plane, stream);
    }
    rewrite_free(stream->rewrite);
    stream->rewrite = rewrite;
    set_texts(stream, name, domain);
    status = set_subjects(plane, stream, &strings);
    if (status == STATUS_OK) {
        status = set_direct(plane, stream);
    }
    if (status == STATUS_OK && command->arg == 0) {
        uint8_t key[4];
        stream_key(stream->id, key);
        status = store_record_put(plane->stores[stream->which_store], RECORD_STREAM, bytes_of(key, 4), definition);
    }
    if (status != STATUS_OK) {
        command_done(plane, command, status);
        return;
    }
    stream_state_t state;
    stream_state_of(stream, &state);
    command_done_durable(plane, command, stream->which_store, 0, bytes_of(&state, sizeof(state)));
}

static void stream_remove(plane_t *plane, const plane_command_t *command, stream_t *stream) {
    uint32_t which = stream->which_store;
    ingest_stream_removed(plane, stream);
    consume_stream_removed(plane->consume, stream->id, plane->now);
    store_stream_t *stored = stream->store;
    table_drop(&plane->streams, stream->id);
    stream_free(plane, stream);
    status_t status = store_stream_remove(stored);
    if (status != STATUS_OK) {
        command_done(plane, command, status);
        return;
    }
    command_done_durable(plane, command, which, 0, BYTES_NONE);
}

/* ---- records of control ---------------------------------------------------------------------------------------------------------------- */

static void record_change(plane_t *plane, const plane_command_t *command) {
    store_t *store = plane->stores[STORE_FILE];
    strings_t strings = strings_of(command);
    bytes_t key = strings_next(&strings);
    status_t status = store == NULL || key.size == 0 ? STATUS_INVALID
                    : command->op == COMMAND_RECORD_PUT ? store_record_put(store, RECORD_CONTROL, key, strings_next(&strings))
                                                        : store_record_delete(store, RECORD_CONTROL, key);
    if (status != STATUS_OK) {
        command_done(plane, command, status);
        return;
    }
    command_done_durable(plane, command, STORE_FILE, 0, BYTES_NONE);
}

bool command_stream(plane_t *plane, const plane_command_t *command) {
    if (command->op == COMMAND_RECORD_PUT || command->op == COMMAND_RECORD_DELETE) {
        record_change(plane, command);
        return true;
    }
    if (command->op < COMMAND_STREAM_PUT || command->op > COMMAND_MESSAGE_DELETE) {
        return false;
    }
    if (command->op == COMMAND_STREAM_PUT) {
        stream_put(plane, command);
        return true;
    }
    stream_t *stream = stream_find(plane, command->target);
    if (stream == NULL) {
        command_done(plane, command, STATUS_NOT_FOUND);
        return true;
    }
    static void (*const run[])(plane_t *plane, const plane_command_t *command, stream_t *stream) = {
        stream_remove, stream_state, stream_purge, message_get, message_delete};
    run[command->op - COMMAND_STREAM_REMOVE](plane, command, stream);
    return true;
}
