/* stream.c: streams in the plane: their subjects, and the commands that make, read, purge and end them.
 *
 * A purge may take longer than a tick may: it is a job that goes on in bounded steps, and its command is completed at the end.
 * What does not live here: validation (control), storage (store/), consumers' commands (consumer.c).
 */
#include <stdlib.h>

#include "plane/js.h"

#define SUBJECTS_LISTED_MAX 100000u
#define SCAN_BUDGET 65536u

struct purge_job {
    purge_job_t *next;
    stream_t *stream;
    plane_command_t command; /* body and extra are not kept */
    bytes_t filter;          /* own copy                    */
    uint64_t purged;
};

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
    stream_purges_forget(plane, stream);
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

static void state_of(const stream_t *stream, stream_state_t *state) {
    memset(state, 0, sizeof(*state));
    store_stream_state(stream->store, state);
    state->consumers = 0;
    for (const consumer_seat_t *seat = stream->seats; seat != NULL; seat = seat->next_seat) {
        state->consumers += (consumer_setup(seat->consumer)->config.flags & CONSUMER_DIRECT) == 0;
    }
}

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
    state_of(stream, &state);
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

/* ---- state ------------------------------------------------------------------------------------------------------------------ */

typedef struct listing {
    buffer_t *out;
    uint64_t skip;
    uint64_t matched;
    uint64_t listed;
    bool failed;
} listing_t;

static bool list_deleted(void *context, uint64_t seq) {
    listing_t *listing = context;
    uint8_t le[8];
    for (uint32_t i = 0; i < 8; i++) {
        le[i] = (uint8_t)(seq >> (8 * i));
    }
    listing->failed = buffer_append(listing->out, le, 8) != STATUS_OK;
    listing->listed++;
    return !listing->failed;
}

static bool list_subject(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    (void)last_seq;
    listing_t *listing = context;
    if (listing->matched++ < listing->skip || listing->listed >= SUBJECTS_LISTED_MAX) {
        return true;
    }
    uint8_t head[4], tail[8];
    for (uint32_t i = 0; i < 8; i++) {
        tail[i] = (uint8_t)(count >> (8 * i));
    }
    for (uint32_t i = 0; i < 4; i++) {
        head[i] = (uint8_t)(subject.size >> (8 * i));
    }
    listing->failed = buffer_append(listing->out, head, 4) != STATUS_OK || buffer_append(listing->out, subject.at, subject.size) != STATUS_OK
                   || buffer_append(listing->out, tail, 8) != STATUS_OK;
    listing->listed++;
    return !listing->failed;
}

static void stream_state(plane_t *plane, const plane_command_t *command, stream_t *stream) {
    stream_state_t state;
    state_of(stream, &state);
    strings_t strings = strings_of(command);
    bytes_t filter = strings_next(&strings);
    buffer_t *out = &plane->scratch;
    out->size = 0;
    status_t status = buffer_append(out, &state, sizeof(state));
    listing_t listing = {.out = out};
    if (status == STATUS_OK && command->arg == 1) {
        store_deleted(stream->store, list_deleted, &listing);
        state.deleted_count = listing.listed;
    }
    if (status == STATUS_OK && filter.size != 0) {
        listing = (listing_t){.out = out, .skip = command->arg2, .failed = listing.failed};
        store_subjects(stream->store, filter, BYTES_NONE, list_subject, &listing);
        state.subjects_matched = listing.matched;
    }
    if (status != STATUS_OK || listing.failed || out->size > UINT32_MAX) {
        command_done(plane, command, STATUS_NO_MEMORY);
        return;
    }
    memcpy(out->at, &state, sizeof(state));
    command_answer(plane, command, STATUS_OK, 0, 0, bytes_of(out->at, (uint32_t)out->size));
    buffer_trim(out, 0);
}

/* ---- purge --------------------------------------------------------------------------------------------------------------------- */

/* true: the job is over. */
static bool purge_step(plane_t *plane, purge_job_t *job) {
    uint64_t purged = 0;
    bool more = false;
    status_t status = store_purge(job->stream->store, job->filter, job->command.arg, job->command.arg2, &purged, &more);
    job->purged += purged;
    if (status == STATUS_OK && more) {
        plane->more = true;
        return false;
    }
    if (status != STATUS_OK) {
        command_done(plane, &job->command, status);
    } else {
        command_done_durable(plane, &job->command, job->stream->which_store, job->purged, BYTES_NONE);
    }
    return true;
}

static void purge_free(purge_job_t *job) {
    bytes_release(&job->filter);
    free(job);
}

void stream_purges_step(plane_t *plane) {
    for (purge_job_t **at = &plane->purges; *at != NULL;) {
        purge_job_t *job = *at;
        if (purge_step(plane, job)) {
            *at = job->next;
            purge_free(job);
        } else {
            at = &job->next;
        }
    }
}

void stream_purges_forget(plane_t *plane, const stream_t *stream) {
    for (purge_job_t **at = &plane->purges; *at != NULL;) {
        purge_job_t *job = *at;
        if (job->stream != stream) {
            at = &job->next;
            continue;
        }
        command_done(plane, &job->command, STATUS_NOT_FOUND);
        *at = job->next;
        purge_free(job);
    }
}

static void stream_purge(plane_t *plane, const plane_command_t *command, stream_t *stream) {
    purge_job_t *job = calloc(1, sizeof(*job));
    if (job == NULL) {
        command_done(plane, command, STATUS_NO_MEMORY);
        return;
    }
    strings_t strings = strings_of(command);
    job->stream = stream;
    job->command = *command;
    job->command.body = job->command.extra = NULL;
    job->command.body_size = job->command.extra_size = 0;
    job->filter = bytes_copy(strings_next(&strings));
    if (purge_step(plane, job)) {
        purge_free(job);
        return;
    }
    job->next = plane->purges;
    plane->purges = job;
}

/* ---- one message ------------------------------------------------------------------------------------------------------------------ */

static status_t next_by_subject(stream_t *stream, uint64_t from, bytes_t subject, uint64_t visible, stored_message_t *out) {
    filters_t filters = {.patterns = &subject, .count = subject.size == 0 ? 0 : 1};
    status_t status = STATUS_OK;
    if (subject.size != 0) {
        /* The newest match is found by the subjects' heads: a subject that is not there, or no more, costs no scan. */
        status = store_last_by_subject(stream->store, subject, visible, out);
        if (status != STATUS_OK || out->seq < from) {
            return status == STATUS_OK ? STATUS_NOT_FOUND : status;
        }
        visible = out->seq;
    }
    do {
        status = store_next(stream->store, filters, &from, visible, SCAN_BUDGET, out);
    } while (status == STATUS_AGAIN);
    return status;
}

static status_t find_message(stream_t *stream, const message_query_t *query, bytes_t subject, stored_message_t *out) {
    uint64_t visible = store_stream_visible(stream->store);
    uint64_t from = query->sequence == 0 ? 1 : query->sequence;
    if (query->start_ts != 0 && (query->mode == QUERY_NEXT_BY_SUBJECT || query->mode == QUERY_START_TIME)) {
        status_t status = store_seq_at_time(stream->store, query->start_ts, &from);
        if (status != STATUS_OK) {
            return status;
        }
    }
    switch (query->mode) {
    case QUERY_SEQUENCE:
        return query->sequence > visible ? STATUS_NOT_FOUND : store_read(stream->store, query->sequence, out);
    case QUERY_LAST_BY_SUBJECT:
        return store_last_by_subject(stream->store, subject, visible, out);
    case QUERY_NEXT_BY_SUBJECT:
        return next_by_subject(stream, from, subject, visible, out);
    case QUERY_START_TIME:
        return next_by_subject(stream, from, BYTES_NONE, visible, out);
    default:
        return STATUS_INVALID;
    }
}

static void message_get(plane_t *plane, const plane_command_t *command, stream_t *stream) {
    message_query_t query;
    if (command->body_size != sizeof(query)) {
        command_done(plane, command, STATUS_INVALID);
        return;
    }
    memcpy(&query, command->body, sizeof(query));
    strings_t strings = strings_of(command);
    stored_message_t message;
    status_t status = find_message(stream, &query, strings_next(&strings), &message);
    if (status != STATUS_OK) {
        command_done(plane, command, status);
        return;
    }
    event_entry_t *entry = event_new(EVENT_DONE, message.subject, BYTES_NONE, message.header, message.payload);
    if (entry != NULL) {
        entry->event.token = command->token;
        entry->event.target = command->target;
        entry->event.arg = message.seq;
        entry->event.arg2 = (uint64_t)message.ts;
    }
    event_post(&plane->exchange, entry);
}

static void message_delete(plane_t *plane, const plane_command_t *command, stream_t *stream) {
    status_t status = store_delete(stream->store, command->arg);
    if (status != STATUS_OK) {
        command_done(plane, command, status);
        return;
    }
    command_done_durable(plane, command, stream->which_store, 0, BYTES_NONE);
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
