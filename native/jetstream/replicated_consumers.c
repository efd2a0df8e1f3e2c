/* replicated_consumers.c: the consumers of a stream that several servers keep, which are its leader's (replicated.h).
 *
 *     consume/ changes a record --> replica_change --.
 *     an acknowledgement, a command that waits ------+--> once a tick: one entry of the log --> committed --> answered
 *
 * Without room in the log both wait for it, as publishes do. An answer goes into an entry that has all that was changed
 * before it was asked for: while consume/ still holds some of it back, it waits for a later one.
 */
#include "jetstream/replicated.h"

#include "base/buffer.h"
#include "group/changes.h"
#include "group/replica.h"
#include "jetstream/asked.h"
#include "jetstream/commands.h"
#include "jetstream/js.h"
#include "jetstream/replicated_private.h"
#include "jetstream/binding.h"

#define TAKEN_MOST (ASKED_MAX / sizeof(asked_t)) /* of messages that a source brought, and wait for room in the log */
#define HELD_AGAIN_NS (20 * NS_PER_MS)

/* What there was goes into the log, to make room. */
static bool changes_make_room(js_t *js, replicated_t *replicated) {
    if (replica_propose_changes(replicated->replica, REPLICA_NO_TOKEN, *js->now) != STATUS_OK) {
        return false;
    }
    groups_stir(js->groups, replicated->group);
    return true;
}

/* change NULL: the message with that sequence is let go. */
static status_t change_once(replicated_t *replicated, const record_change_t *change, uint64_t seq) {
    return change != NULL ? replica_change(replicated->replica, change) : replica_remove(replicated->replica, seq);
}

static status_t replicated_change(js_t *js, uint32_t stream_id, const record_change_t *change, uint64_t seq) {
    const stream_t *stream = stream_find(js, stream_id);
    if (!replicated_leads(stream)) {
        return STATUS_AGAIN;
    }
    replicated_t *replicated = stream->replicated;
    status_t status = change_once(replicated, change, seq);
    replicated_wake(replicated, ROW_CHANGES);
    return status == STATUS_FULL && changes_make_room(js, replicated) ? change_once(replicated, change, seq) : status;
}

status_t replicated_record(void *context, uint32_t stream_id, const record_change_t *change) {
    return replicated_change(context, stream_id, change, 0);
}

status_t replicated_let_go(void *context, uint32_t stream_id, uint64_t seq) {
    return replicated_change(context, stream_id, NULL, seq);
}

bool replicated_complete_stream(void *context, uint32_t stream_id) {
    const stream_t *stream = stream_find(context, stream_id);
    return replicated_leads(stream) && stream->replicated->complete;
}

uint64_t replicated_coming(void *context, uint32_t stream_id) {
    const stream_t *stream = stream_find(context, stream_id);
    if (!replicated_leads(stream)) {
        return 0;
    }
    const replicated_t *replicated = stream->replicated;
    return replica_coming(replicated->replica) + (asked_empty(&replicated->taken) ? 0 : TAKEN_MOST);
}

static void consumers_are_here(js_t *js, replicated_t *replicated) {
    replicated->complete = replicated->control_made && !replicated->host_makes;
    if (replicated->complete) {
        consume_judge(js->consume, replicated->stream->id, replicated->led_from);
    }
}

void stream_consumers_made(js_t *js, const plane_command_t *command, stream_t *stream) {
    replicated_t *replicated = stream->replicated;
    if (replicated_leads(stream) && command->arg == replicated->lead) {
        replicated->control_made = true;
        consumers_are_here(js, replicated);
    }
    js_done(js, command, replicated == NULL ? STATUS_INVALID : STATUS_OK);
}

void replicated_host_made(js_t *js, const stream_t *stream) {
    replicated_t *replicated = stream->replicated;
    if (replicated_leads(stream) && replicated->host_makes) {
        replicated->host_makes = false;
        consumers_are_here(js, replicated);
    }
}

static void flush_one(js_t *js, replicated_t *replicated) {
    bool asked = !asked_empty(&replicated->held) && consume_flushed(js->consume);
    if (!replicated->leads || (!asked && !replica_changes(replicated->replica))) {
        return;
    }
    uint64_t before = asked_size(&replicated->asked);
    uint64_t token = asked ? asked_put_all(&replicated->asked, &replicated->held) : 0;
    status_t status = replica_propose_changes(replicated->replica, token != 0 ? token : REPLICA_NO_TOKEN, *js->now);
    if (status == STATUS_OK) {
        groups_stir(js->groups, replicated->group);
    }
    if (token != 0 && status == STATUS_OK) {
        asked_clear(&replicated->held);
    } else if (token != 0) {
        asked_unput(&replicated->asked, before);
    }
}

void replicated_flush(js_t *js) {
    replicated_t *left = replicated_row(js, ROW_CHANGES);
    for (replicated_t *one; (one = replicated_next_of(&left, ROW_CHANGES)) != NULL;) {
        flush_one(js, one);
        if (!asked_empty(&one->held) || replica_changes(one->replica)) {
            replicated_wake(one, ROW_CHANGES);
            replicated_due(one, js->now->mono_ns + HELD_AGAIN_NS); /* a turn, at whose end it is tried again */
        }
    }
}

void replicated_hold(js_t *js, const stream_t *stream, bytes_t reply) {
    status_t status = replicated_say(stream->replicated, &stream->replicated->held, reply, BYTES_NONE);
    replicated_wake(stream->replicated, ROW_CHANGES);
    (void)status; /* no confirmation: the client acknowledges again */
    js->more = true;
}

status_t replicated_hold_told(js_t *js, const stream_t *stream, bytes_t subject, bytes_t payload) {
    replicated_wake(stream->replicated, ROW_CHANGES);
    js->more = true;
    return replicated_tell_host(stream->replicated, subject, payload);
}

status_t replicated_ride(const stream_t *stream, const record_change_t *change) {
    return replicated_leads(stream) ? changes_add(&stream->replicated->riding, change) : STATUS_AGAIN;
}

void replicated_ride_end(const stream_t *stream) {
    if (stream->replicated != NULL) {
        stream->replicated->riding.size = 0;
    }
}

int64_t replicated_age(const js_t *js, const stream_t *stream) {
    return replica_age(stream->replicated->replica, *js->now);
}

status_t replicated_complete(js_t *js, const plane_command_t *command, const stream_t *stream, uint64_t arg,
                             bytes_t payload) {
    const plane_command_t kept = command_kept(command);
    uint8_t *at;
    buffer_t *scratch = &js->scratch;
    scratch->size = 0;
    if (buffer_reserve(scratch, sizeof kept + sizeof arg + payload.size, &at) != STATUS_OK) {
        return STATUS_NO_MEMORY;
    }
    memcpy(at, &kept, sizeof kept);
    memcpy(at + sizeof kept, &arg, sizeof arg);
    (void)bytes_write(at + sizeof kept + sizeof arg, payload);
    bytes_t bytes = bytes_of(at, (uint32_t)(sizeof kept + sizeof arg) + payload.size);
    replicated_wake(stream->replicated, ROW_CHANGES);
    return asked_ride(&stream->replicated->held, ASKED_DONE, bytes);
}

bool replicated_tell(const replicated_t *replicated, uint32_t code, uint32_t consumer, bytes_t definition) {
    event_entry_t *entry = event_new(EVENT_LED, BYTES_NONE, BYTES_NONE, BYTES_NONE, definition);
    if (entry == NULL) {
        return false;
    }
    entry->event.code = code;
    entry->event.target = replicated->stream->id;
    entry->event.arg = consumer;
    event_post(replicated->js->exchange, entry);
    return true;
}

typedef struct telling {
    replicated_t *replicated;
    bool told;
    bool some; /* it has consumers */
} telling_t;

static bool tell_consumer(void *context, bytes_t key, bytes_t value) {
    telling_t *telling = context;
    telling->told = key.size == 8 && replicated_tell(telling->replicated, LED_CONSUMER, load_be32(key.at + 4), value);
    telling->some = true;
    return telling->told;
}

/* Its position, then its key. An older leafd has written no stamp (progress.h). */
static bool tell_source(void *context, bytes_t key, bytes_t value) {
    telling_t *telling = context;
    uint8_t *at, position[16] = {0};
    buffer_t *scratch = &telling->replicated->js->scratch;
    scratch->size = 0;
    telling->told = (value.size == sizeof position || value.size == 8) && key.size > 4
                    && buffer_reserve(scratch, sizeof position + (uint64_t)key.size, &at) == STATUS_OK;
    if (telling->told) {
        (void)bytes_write(position, value);
        const uint8_t *end = bytes_write(bytes_write(at, bytes_of(position, sizeof position)), bytes_after(key, 4));
        telling->told = replicated_tell(telling->replicated, LED_SOURCE, 0, bytes_of(at, (uint32_t)(end - at)));
    }
    return telling->told;
}

bool replicated_tell_consumers(replicated_t *replicated) {
    uint8_t key[4];
    stream_state_t state;
    telling_t telling = {.replicated = replicated, .told = true};
    store_be32(key, replicated->stream->id);
    if (!replicated_tell(replicated, LED_HERE, 0, BYTES_NONE)) {
        return false;
    }
    store_stream_state(replicated->stream->store, &state);
    replicated->led_from = state.last_seq + 1;
    replicated->lead++;
    store_t *store = replicated->js->stores[STORE_FILE];
    bytes_t own = bytes_of(key, sizeof key);
    status_t status = list_status(store_record_each(store, RECORD_CONSUMER, own, BYTES_NONE, tell_consumer, &telling));
    if (status == STATUS_OK && telling.told) {
        status = list_status(store_record_each(store, RECORD_SOURCE, own, BYTES_NONE, tell_source, &telling));
    }
    bool read = status == STATUS_OK;
    replicated->complete = replicated->control_made = read && !telling.some;
    return read && telling.told && replicated_tell(replicated, LED_WHOLE, replicated->lead, BYTES_NONE);
}

void replicated_tell_lost(replicated_t *replicated) {
    replicated->untold = !replicated_tell(replicated, LED_NO_MORE, 0, BYTES_NONE);
}

void replicated_lose_consumers(js_t *js, replicated_t *replicated) {
    stream_t *stream = replicated->stream;
    replicated->complete = replicated->control_made = replicated->host_makes = false;
    replicated->riding.size = 0;
    if (js->host->lost != NULL) {
        js->host->lost(js->plane, stream);
    }
    consume_stream_left(js->consume, stream->id, *js->now);
    while (stream->bindings != NULL) {
        binding_free(js, stream->bindings);
    }
    ingest_stream_removed(js, stream);
    replicated_forget(js, &replicated->taken);
    replica_forget_changes(replicated->replica);
    replicated_forget(js, &replicated->held);
    replicated_tell_lost(replicated);
}
