/* ingest_life.c: how a mirror or a source begins and ends to take in, and what is told of it meanwhile.
 *
 *     INGEST_START > running > INGEST_STOP, or its stream goes
 *                       `> a gap, silence, a refusal: EVENT_INGEST, and it waits for a new start
 *
 * A nats-server listens for answers to flow control for as long as a consumer is there, and its cluster tells a leaf of
 * what it listens for. So a leaf learns at once that the consumer of a copy is gone with its server: it is unwanted.
 *
 * Not here: messages (ingest.c), what its stream refuses (ingest_refused.c), consumers and retries (control, links/).
 */
#include <stdlib.h>
#include <string.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/copies.h"
#include "base/hash.h"
#include "base/map.h"
#include "exchange/strings.h"
#include "jetstream/lag.h"
#include "jetstream/commands.h"
#include "jetstream/host.h"
#include "jetstream/ingest_private.h"
#include "jetstream/js.h"
#include "jetstream/progress.h"
#include "jetstream/replicated.h"
#include "jetstream/stream.h"
#include "store/store.h"
#include "text/text.h"
#include "text/transform.h"

#define INGEST_TEXT_MAX 3072u /* of a source's header, which the origin's subject is added to */
#define INGEST_TRANSFORMS_MAX 1024u
#define PARTS 6u
#define LINK_HEARD_NS (5 * NS_PER_SECOND)
#define SHARED_LINK_NS (1 * NS_PER_SECOND) /* more patience for each that takes by the same link */

static ingest_t **ingest_place(js_t *js, const stream_t *stream, uint64_t slot) {
    ingest_t **place = &js->ingests;
    while (*place != NULL && ((*place)->stream != stream || (*place)->slot != slot)) {
        place = &(*place)->next;
    }
    return place;
}

const ingest_t *ingest_find(js_t *js, const stream_t *stream, uint64_t slot) {
    return *ingest_place(js, stream, slot);
}

static void ingest_free(js_t *js, ingest_t **place) {
    ingest_t *ingest = *place;
    *place = ingest->next;
    map_take(js->named_ingests, &ingest->named);
    if (ingest->sink != NULL) {
        js->host->unlisten(js->plane, ingest->sink);
    }
    bytes_release(&ingest->consumer);
    bytes_release(&ingest->key);
    bytes_release(&ingest->source_head);
    bytes_release(&ingest->source_tail);
    bytes_release(&ingest->identity);
    bytes_release(&ingest->origin_stream);
    for (uint32_t i = 0; i < ingest->transform_count; i++) {
        transform_free(ingest->transforms[i]);
    }
    free(ingest->transforms);
    free(ingest);
}

/* ---- silence and the end of an ingest ---------------------------------------------------------------------------- */

/* Only time counts in which its link brought something: in an outage nothing can come, and a copy's messages are not
 * what goes first afterwards. Those that share a link wait for each other. */
static bool is_silent(const js_t *js, const ingest_t *ingest) {
    int64_t since = ingest->last_frame_ns != 0 ? ingest->last_frame_ns : ingest->started_ns;
    int64_t heard_ns = js->host->heard(js->plane, ingest->link), patience_ns = ingest->silence_ns;
    if (!ingest->running || js->now->mono_ns - since <= patience_ns) return false;
    /* Its heartbeats come more often than all else by a quiet link. What a busy one brings may stand before them. */
    if (patience_ns < LINK_HEARD_NS && heard_ns - ingest->heard_ns < patience_ns) return true;
    /* Heartbeats may be further apart than that; what the link brings for itself is enough to tell that it lives. */
    patience_ns = LINK_HEARD_NS;
    /* (No longer than it takes: in an outage each of them is asked at each look.) */
    for (const ingest_t *one = js->ingests; one != NULL && heard_ns - ingest->heard_ns > patience_ns; one = one->next) {
        patience_ns += one->running && one->link == ingest->link ? SHARED_LINK_NS : 0;
    }
    return heard_ns < 0 || ingest->heard_ns < 0 || heard_ns - ingest->heard_ns > patience_ns;
}

void ingest_chores(js_t *js) {
    for (ingest_t *ingest = js->ingests; ingest != NULL; ingest = ingest->next) {
        if (is_silent(js, ingest)) {
            ingest_fail(js, ingest, INGEST_SILENT, STATUS_OK);
        }
        if (ingest->untold != 0 && ingest_tell(js, ingest, ingest->untold, ingest->untold_status)) {
            ingest->untold = 0;
        }
    }
}

void ingest_stream_removed(js_t *js, const stream_t *stream) {
    ingest_t **place = &js->ingests;
    while (*place != NULL) {
        if ((*place)->stream == stream) {
            ingest_free(js, place);
        } else {
            place = &(*place)->next;
        }
    }
}

void ingest_free_all(js_t *js) {
    while (js->ingests != NULL) {
        ingest_free(js, &js->ingests);
    }
    map_free(&js->named_ingests);
}

/* A durable consumer goes on at its stream's next leader by itself. */
void ingest_unwanted(js_t *js, uint64_t connection, bytes_t subject) {
    if (!bytes_starts(subject, BYTES_LITERAL("$JS.FC."))) {
        return;
    }
    bytes_t consumer = ingest_flow_consumer(subject);
    uint64_t hash = hash_bytes(consumer.at, consumer.size);
    for (map_link_t *link = map_first(js->named_ingests, hash); link != NULL; link = link->next) {
        ingest_t *ingest = MAP_ENTRY(link, ingest_t, named);
        if (link->hash == hash && ingest->running && !ingest->durable && ingest->origin == connection
            && bytes_equal(ingest->consumer, consumer)) {
            ingest_fail(js, ingest, INGEST_GAP, STATUS_OK);
        }
    }
}

/* The header's constant parts, put together once. parts: name, filter, destination, identity, key, the origin's
 * stream. */
static status_t ingest_name(js_t *js, ingest_t *ingest, bytes_t consumer, const bytes_t parts[PARTS]) {
    text_t head, tail, identity;
    head.size = tail.size = identity.size = 0;
    text_add(&head, parts[0]);
    text_add_literal(&head, " ");
    text_add_literal(&tail, " ");
    text_add(&tail, parts[1]);
    text_add_literal(&tail, " ");
    text_add(&tail, parts[2]);
    text_add_literal(&tail, " ");
    if (parts[3].size != 0) {
        text_add_literal(&identity, " ");
        text_add(&identity, parts[3]);
    }
    if (text_is_over(&head) || text_is_over(&tail) || text_is_over(&identity)) {
        return STATUS_INVALID;
    }
    const bytes_t wanted[PARTS] = {consumer, text_bytes(&head),     text_bytes(&tail),
                                   parts[4], text_bytes(&identity), parts[5]};
    bytes_t own[PARTS];
    if (map_open(&js->named_ingests) != STATUS_OK || !bytes_copy_all(own, wanted, PARTS)) {
        return STATUS_NO_MEMORY;
    }
    ingest->consumer = own[0];
    ingest->source_head = own[1];
    ingest->source_tail = own[2];
    ingest->key = own[3];
    ingest->identity = own[4];
    ingest->origin_stream = own[5];
    return map_put(&js->named_ingests, &ingest->named, hash_bytes(consumer.at, consumer.size)); /* open: OK */
}

/* Pairs of source and destination; one without a destination is only a filter. */
static status_t ingest_transforms(ingest_t *ingest, strings_t *strings) {
    if (!strings_more(strings)) {
        return STATUS_OK;
    }
    ingest->transforms = calloc(INGEST_TRANSFORMS_MAX, sizeof(transform_t *));
    status_t status = ingest->transforms == NULL ? STATUS_NO_MEMORY : STATUS_OK;
    while (status == STATUS_OK && strings_more(strings)) {
        bytes_t source = strings_next(strings);
        bytes_t destination = strings_next(strings);
        if (destination.size == 0) {
            continue;
        }
        transform_t *transform;
        status = ingest->transform_count == INGEST_TRANSFORMS_MAX ? STATUS_FULL
                                                                  : transform_new(source, destination, &transform);
        if (status == STATUS_OK) {
            ingest->transforms[ingest->transform_count++] = transform;
        }
    }
    return status;
}

/* Behind what is stored. Without its progress a source would take everything once more, and does not begin. */
static status_t ingest_begins(js_t *js, ingest_t *ingest, uint64_t last_sequence) {
    progress_t stored = {0};
    if (ingest->mirror) {
        stream_state_t state;
        store_stream_state(ingest->stream->store, &state);
        stored.seq = state.last_seq;
    } else {
        switch (progress_read(js, ingest->stream, ingest->key, &stored)) {
        case ENTRY_UNKNOWN: return STATUS_IO;
        case ENTRY_DAMAGED: return STATUS_CORRUPT;
        case ENTRY_NONE:
        case ENTRY_FOUND: break;
        }
    }
    ingest->run = ++js->ingest_runs;
    ingest->before_seq = stored.seq;
    ingest->last_seq = stored.seq > last_sequence ? stored.seq : last_sequence;
    ingest->newest_ts = stored.newest_ts;
    ingest->begun = stored;
    return STATUS_OK;
}

static status_t ingest_make(js_t *js, stream_t *stream, const plane_command_t *command) {
    ingest_config_t config;
    memcpy(&config, command->body, sizeof(config));
    strings_t strings = strings_of(command);
    bytes_t deliver = strings_next(&strings);
    bytes_t consumer = strings_next(&strings);
    bytes_t parts[PARTS];
    uint64_t size = 0;
    for (uint32_t i = 0; i < PARTS; i++) {
        parts[i] = strings_next(&strings);
        size += parts[i].size;
    }
    bool known = config.begins == BEGINS_NEXT || config.begins == BEGINS_TIME || config.begins == BEGINS_NEW;
    if (!known || deliver.size == 0 || consumer.size == 0 || parts[4].size > PROGRESS_KEY_MAX || size > INGEST_TEXT_MAX
        || strings_count(strings) % 2 != 0) {
        return STATUS_INVALID;
    }
    ingest_t *ingest = calloc(1, sizeof(*ingest));
    if (ingest == NULL || ingest_name(js, ingest, consumer, parts) != STATUS_OK) {
        free(ingest);
        return STATUS_NO_MEMORY;
    }
    ingest->stream = stream;
    ingest->slot = (uint32_t)command->arg;
    ingest->mirror = config.mirror != 0;
    ingest->durable = config.durable != 0;
    ingest->by_time = config.begins == BEGINS_TIME;
    ingest->spared = config.spared != 0 && config.link != 0;
    ingest->taken_seq = config.delivered_sequence;
    ingest->running = true;
    ingest->silence_ns = config.silence_ns;
    ingest->link = config.link;
    ingest->origin = config.origin;
    ingest->started_ns = js->now->mono_ns;
    if (config.pending_known != 0) {
        lag_begin(&ingest->behind, config.pending, js->now->mono_ns);
    }
    ingest->heard_ns = js->host->heard(js->plane, ingest->link);
    span_begin(&ingest->span, config.span, config.pending, (span_time_t){js->now->mono_ns, ingest->heard_ns});
    ingest->span_by_flow = config.span_by_flow != 0;
    status_t status = ingest_begins(js, ingest, config.last_sequence);
    if (status == STATUS_OK && config.begins == BEGINS_NEW && !ingest->mirror) {
        ingest->last_seq = config.last_sequence; /* until the first of them is stored, a start finds the old position */
        ingest->newest_ts = 0;
    }
    if (status == STATUS_OK) {
        status = ingest_transforms(ingest, &strings);
    }
    if (status == STATUS_OK) {
        status = js->host->listen(js->plane, stream->account, JS_INGEST, deliver, config.alone != 0 ? config.link : 0,
                                  ingest, &ingest->sink);
    }
    if (status != STATUS_OK) {
        ingest_free(js, &ingest);
        return status;
    }
    ingest_t **old = ingest_place(js, stream, command->arg);
    if (*old != NULL) {
        ingest_free(js, old);
    }
    ingest->next = js->ingests;
    js->ingests = ingest;
    return STATUS_OK;
}

static ingest_state_t ingest_state(js_t *js, const ingest_t *ingest) {
    /* An empty stream sends nothing: its answer when the consumer was made counts as heard, too. */
    bool answered = ingest->last_frame_ns != 0 || ingest->behind.known;
    bool spared = ingest->spared && ingest->running && answered;
    int64_t by_link_ns = spared ? js->host->heard_at(js->plane, ingest->link) : 0;
    int64_t last_ns = by_link_ns > ingest->last_frame_ns ? by_link_ns : ingest->last_frame_ns;
    progress_t kept = ingest_kept(js, ingest);
    ingest_state_t state = {
        .last_sequence = kept.seq,
        .newest_ts = kept.newest_ts,
        .active_ns = last_ns == 0 ? -1 : js->now->mono_ns - last_ns,
        .messages = ingest->messages,
        .bytes = ingest->bytes,
        .running = ingest->running,
        .span = span_next(&ingest->span, ingest->consumer_seq, js->host->heard(js->plane, ingest->link)),
    };
    lag_tell(&ingest->behind, js->now->mono_ns, &state);
    if (spared && state.lag == 0 && state.known_ns > state.active_ns) {
        state.known_ns = state.level_ns = state.active_ns; /* it would have been sent what came since */
    }
    return state;
}

static int slot_order(const void *left, const void *right) {
    uint64_t one, other;
    memcpy(&one, left, sizeof(one));
    memcpy(&other, right, sizeof(other));
    return one == other ? 0 : one < other ? -1 : 1;
}

/* The list is gone through once for all that are asked for: a search for each would be a thousand long. One that does
 * not run has running = STATE_UNKNOWN. */
static void ingests_look(js_t *js, const uint64_t *slots, uint32_t count, ingest_state_t *states) {
    for (uint32_t i = 0; i < count; i++) {
        states[i] = (ingest_state_t){.running = STATE_UNKNOWN};
    }
    for (const ingest_t *ingest = js->ingests; ingest != NULL; ingest = ingest->next) {
        uint64_t own = (uint64_t)ingest->stream->id << 32 | ingest->slot;
        const uint64_t *found = bsearch(&own, slots, count, sizeof(own), slot_order);
        if (found != NULL) {
            states[found - slots] = ingest_state(js, ingest);
        }
    }
}

void ingests_state(js_t *js, const plane_command_t *command) {
    uint64_t slots[USAGE_STATES_MAX];
    uint32_t count = command->body_size / (uint32_t)sizeof(*slots);
    bool right = count > 0 && count <= USAGE_STATES_MAX;
    if (right) {
        memcpy(slots, command->body, count * sizeof(*slots));
    }
    for (uint32_t i = 1; right && i < count; i++) {
        right = slots[i - 1] < slots[i];
    }
    ingest_state_t *states = right ? malloc(count * sizeof(*states)) : NULL;
    if (states == NULL) {
        js_done(js, command, right ? STATUS_NO_MEMORY : STATUS_INVALID);
        return;
    }
    ingests_look(js, slots, count, states);
    js_answer(js, command, STATUS_OK, 0, 0, bytes_of(states, count * (uint32_t)sizeof(*states)));
    free(states);
}

void ingest_forget(js_t *js, const plane_command_t *command, stream_t *stream) {
    strings_t strings = strings_of(command);
    bytes_t key = strings_next(&strings);
    if (stream->replicated != NULL && key.size <= PROGRESS_KEY_MAX && key.size > 0) {
        replicated_forget_source(js, command, stream, key);
        return;
    }
    status_t status = STATUS_INVALID;
    if (key.size <= PROGRESS_KEY_MAX) {
        status = command->arg != 0 ? progress_write(js, stream, key, (progress_t){command->arg, 0})
                                   : progress_forget(js, stream, key);
    }
    if (status != STATUS_OK) {
        js_done(js, command, status);
        return;
    }
    js_done_durable(js, command, stream->which_store, 0, BYTES_NONE);
}

void ingest_start(js_t *js, const plane_command_t *command, stream_t *stream) {
    bool elsewhere = stream->replicated != NULL && !replicated_leads(stream);
    js_done(js, command, elsewhere ? STATUS_CLOSED : ingest_make(js, stream, command));
}

/* A position that a log goes on to is told when it is there. */
static bool ingest_ends_later(js_t *js, const ingest_t *ingest, const plane_command_t *command,
                              const ingest_state_t *state) {
    bool under_way = ingest->chained && !ingest->refused && ingest->on_its_way > 0;
    return under_way && !ingest->mirror && replicated_stop_source(js, command, ingest->stream, ingest->key, state);
}

void ingest_stop(js_t *js, const plane_command_t *command, stream_t *stream) {
    ingest_t **place = ingest_place(js, stream, command->arg);
    if (*place == NULL) {
        js_done(js, command, STATUS_NOT_FOUND);
        return;
    }
    ingest_state_t state = ingest_state(js, *place);
    if (!ingest_ends_later(js, *place, command, &state)) {
        js_answer(js, command, STATUS_OK, 0, 0, bytes_of(&state, sizeof(state)));
    }
    ingest_free(js, place);
}
