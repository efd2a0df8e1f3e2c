/* ingest.c: what a mirror or a source takes in: deliveries of a consumer that an origin runs for us.
 *
 *   links/ (Python) makes the consumer at the origin --INGEST_START--> a target on the deliver subject
 *   message:   in step (consumer sequence)? new (origin sequence)? --> store_append, progress in the same batch
 *   100 FlowControl Request --> answered when everything before it is on disk: the window is the back pressure
 *   100 Idle Heartbeat      --> shows a missing tail
 *   out of step, silence, refusal --> EVENT_INGEST; frames are ignored until Python starts anew
 *
 * Exactly once: a source's progress (origin sequence by "name filter destination") is a record in the message's own
 * batch; a mirror's is its last sequence. What is at or below it is dropped, so a consumer made anew may start too
 * early. What does not live here: making consumers, retries, who the origin is. Reference: tests/wire/jetstream.md.
 */
#include <stdlib.h>

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/copies.h"
#include "exchange/exchange.h"
#include "exchange/strings.h"
#include "text/ack_reply.h"
#include "jetstream/behind.h"
#include "jetstream/commands.h"
#include "jetstream/host.h"
#include "jetstream/counter.h"
#include "jetstream/intake.h"
#include "jetstream/js.h"
#include "jetstream/progress.h"
#include "jetstream/publish.h"
#include "jetstream/stream.h"
#include "store/append.h"
#include "store/record.h"
#include "store/store.h"
#include "text/decimal.h"
#include "text/headers.h"
#include "text/text.h"
#include "text/transform.h"
#include "text/ttl.h"
#include "wire/emit.h"

#define INGEST_TEXT_MAX 3072u /* of a source's header, which the origin's subject is added to */
#define INGEST_TRANSFORMS_MAX 1024u
#define SHARED_LINK_NS (1 * NS_PER_SECOND) /* more patience for each that takes by the same link */

struct ingest {
    ingest_t *next;
    stream_t *stream;
    sink_t *sink; /* NULL: it does not listen */
    uint32_t slot;
    bool mirror;
    bool durable;    /* the consumer belongs to somebody who may set it back, or make it anew, at any time */
    bool by_time;    /* .. or one that begins at what is newer than what was taken */
    bool running;    /* false: a delivery was missing; it waits for a new start */
    uint32_t untold; /* INGEST_* of a failure whose event found no memory; 0 = none */
    status_t untold_status;
    bytes_t consumer; /* own copies */
    bytes_t key;
    bytes_t source_name;
    bytes_t source_tail;      /* " <filter> <destination> " */
    bytes_t identity;         /* " <identity>" or empty */
    transform_t **transforms; /* the first one that is for the subject renames it */
    uint32_t transform_count;
    uint64_t last_seq;     /* origin sequence stored last */
    int64_t newest_ts;     /* stamp of the newest message that came of the origin; 0: not known */
    uint64_t consumer_seq; /* delivered last */
    uint64_t taken_seq;    /* its origin sequence; before the first one, of what the consumer is behind */
    behind_t behind;
    uint64_t messages;
    uint64_t bytes;
    int64_t last_frame_ns; /* mono; 0 = none yet */
    int64_t heard_ns;      /* how long its link had been heard then, or at the start */
    int64_t started_ns;
    int64_t silence_ns;
    uint64_t link;   /* that its frames come by; 0: not known */
    uint64_t origin; /* the connection that answered for the origin; 0: this server */
};

static ingest_t **ingest_place(js_t *js, const stream_t *stream, uint64_t slot) {
    ingest_t **place = &js->ingests;
    while (*place != NULL && ((*place)->stream != stream || (*place)->slot != slot)) {
        place = &(*place)->next;
    }
    return place;
}

static void ingest_free(js_t *js, ingest_t **place) {
    ingest_t *ingest = *place;
    *place = ingest->next;
    if (ingest->sink != NULL) {
        js->host->unlisten(js->plane, ingest->sink);
    }
    bytes_release(&ingest->consumer);
    bytes_release(&ingest->key);
    bytes_release(&ingest->source_name);
    bytes_release(&ingest->source_tail);
    bytes_release(&ingest->identity);
    for (uint32_t i = 0; i < ingest->transform_count; i++) {
        transform_free(ingest->transforms[i]);
    }
    free(ingest->transforms);
    free(ingest);
}

/* false: no memory, control was not told. */
static bool ingest_tell(js_t *js, const ingest_t *ingest, uint32_t code, status_t status) {
    event_entry_t *entry = event_new(EVENT_INGEST, BYTES_NONE, BYTES_NONE, BYTES_NONE, BYTES_NONE);
    if (entry == NULL) {
        return false;
    }
    entry->event.target = ingest->stream->id;
    entry->event.arg = ingest->slot;
    entry->event.code = code;
    entry->event.status = status;
    entry->event.arg2 = ingest->last_seq;
    event_post(js->exchange, entry);
    return true;
}

static void ingest_fail(js_t *js, ingest_t *ingest, uint32_t code, status_t status) {
    ingest->running = false;
    /* Control starts it again, so it has to learn of it: if not now, then with the next chores. */
    ingest->untold = ingest_tell(js, ingest, code, status) ? 0 : code;
    ingest->untold_status = status;
}

/* ---- control frames ---------------------------------------------------------------------------------------------- */

/* Held: the origin's window opens again only for what is on disk here. What it acknowledges is what this consumer has
 * delivered: one that was set back delivers again what is stored here, and to be told of more would confuse it. */
static void ingest_flow_reply(js_t *js, const ingest_t *ingest, bytes_t subject) {
    text_t header;
    header.size = 0;
    text_add_literal(&header, "NATS/1.0\r\nNats-Last-Consumer: ");
    text_add_number(&header, ingest->consumer_seq);
    text_add_literal(&header, "\r\nNats-Last-Stream: ");
    text_add_number(&header, ingest->taken_seq);
    text_add_literal(&header, "\r\n\r\n");
    js_hold(js, ingest->stream, subject, text_bytes(&header), BYTES_NONE);
}

static void ingest_control(js_t *js, ingest_t *ingest, const message_t *message) {
    if (message->reply.size != 0) {
        ingest_flow_reply(js, ingest, message->reply);
        return;
    }
    bytes_t stalled = BYTES_NONE, value;
    if (headers_find(message->header, BYTES_LITERAL("Nats-Consumer-Stalled"), &stalled)) {
        ingest_flow_reply(js, ingest, stalled);
    }
    uint64_t delivered = 0;
    bool found =
        headers_find(message->header, BYTES_LITERAL("Nats-Last-Consumer"), &value) && decimal_parse(value, &delivered);
    if (found && (delivered > ingest->consumer_seq || (ingest->durable && delivered < ingest->consumer_seq))) {
        ingest_fail(js, ingest, INGEST_GAP, STATUS_OK);
        return;
    }
    if (found && delivered == ingest->consumer_seq) {
        behind_heartbeat(&ingest->behind, message->header, stalled.size != 0, js->now->mono_ns);
    }
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static bool dropped_by_mirror(bytes_t name) {
    return bytes_starts(name, BYTES_LITERAL("Nats-Expected-")) || bytes_starts(name, BYTES_LITERAL("Nats-Batch-"));
}

static bool dropped_by_source(bytes_t name) {
    return dropped_by_mirror(name) || bytes_equal(name, BYTES_LITERAL("Nats-Stream-Source"));
}

/* Nats-Stream-Source: <name> <origin seq> <filter> <destination> <origin subject>[ <identity>] */
static status_t source_header(js_t *js, const ingest_t *ingest, uint64_t seq, bytes_t subject, bytes_t header) {
    text_t value;
    value.size = 0;
    text_add(&value, ingest->source_name);
    text_add_literal(&value, " ");
    text_add_number(&value, seq);
    text_add(&value, ingest->source_tail);
    text_add(&value, subject);
    text_add(&value, ingest->identity);
    if (text_is_over(&value)) {
        return STATUS_FULL;
    }
    buffer_t *out = &js->scratch;
    uint64_t start = out->size;
    if (header.size != 0) {
        bool empty = false;
        status_t status = headers_copy_without(out, header, dropped_by_source, true, &empty);
        if (status != STATUS_OK) return status;
    }
    return headers_append(out, start, BYTES_LITERAL("Nats-Stream-Source"), text_bytes(&value));
}

static status_t mirror_header(js_t *js, bytes_t header, bytes_t *out) {
    if (header.size == 0 || !headers_has_prefix(header, BYTES_LITERAL("Nats-"))) {
        *out = header;
        return STATUS_OK;
    }
    bool empty = false;
    status_t status = headers_copy_without(&js->scratch, header, dropped_by_mirror, false, &empty);
    *out = bytes_of(js->scratch.at, (uint32_t)js->scratch.size);
    return status;
}

/* What a verdict means for the position: true = go on behind this message. */
static bool ingest_settle(js_t *js, ingest_t *ingest, appended_t appended, progress_t progress) {
    switch (appended.verdict) {
    case APPEND_STORED:
    case APPEND_SKIPPED:
    case APPEND_OUT_OF_ORDER: return true;
    case APPEND_DUPLICATE:
    case APPEND_BAD_SUBJECT:
    case APPEND_TOO_LARGE:
    case APPEND_HEADER_TOO_LARGE:
        /* It will never be stored: the progress moves without it. */
        return ingest->mirror || progress_write(js, ingest->stream, ingest->key, progress) == STATUS_OK;
    default: return false;
    }
}

static bytes_t ingest_renamed(js_t *js, const ingest_t *ingest, bytes_t subject, text_t *out) {
    for (uint32_t i = 0; i < ingest->transform_count; i++) {
        bytes_t renamed = js_transformed(js, ingest->transforms[i], subject, out);
        if (renamed.at != subject.at) {
            return renamed;
        }
    }
    return subject;
}

/* ---- what headers order ------------------------------------------------------------------------------------------ */

/* At a mirror a message has the age that it has at its origin. */
static int64_t expiry_of(const js_t *js, const ingest_t *ingest, int64_t ttl_ns, int64_t origin_ts) {
    const stream_config_t *config = &ingest->stream->config;
    int64_t wall_ns = js->now->wall_ns;
    if (config->max_msgs_per_subject != 1 && ttl_ns < config->marker_ttl_ns) {
        ttl_ns = config->marker_ttl_ns;
    }
    int64_t age_ns = ingest->mirror && wall_ns > origin_ts ? wall_ns - origin_ts : 0;
    int64_t left_ns = ttl_ns > age_ns ? ttl_ns - age_ns : 1;
    return wall_ns > INT64_MAX - left_ns ? TTL_NEVER : wall_ns + left_ns;
}

/* A rollup and a time to live hold here as at the origin, where this stream's own configuration allows them; where it
 * does not, the message is stored as it is. */
static void ingest_orders(js_t *js, const ingest_t *ingest, bytes_t header, int64_t origin_ts, append_t *append) {
    uint32_t flags = ingest->stream->config.flags;
    bytes_t value;
    int64_t ttl_ns = 0;
    if ((flags & STREAM_ALLOW_TTL) != 0 && headers_find(header, BYTES_LITERAL("Nats-TTL"), &value)
        && ttl_parse(value, &ttl_ns)) {
        append->expires_ts = ttl_ns == TTL_NEVER ? TTL_NEVER : expiry_of(js, ingest, ttl_ns, origin_ts);
    }
    if ((flags & (STREAM_ALLOW_ROLLUP | STREAM_DENY_PURGE)) == STREAM_ALLOW_ROLLUP
        && headers_find(header, BYTES_LITERAL("Nats-Rollup"), &value)) {
        append->rollup = rollup_read(value);
    }
}

/* After the message is stored: a longer rollup goes on as a job, and a schedule that has come to its end goes. */
static void ingest_after(js_t *js, const ingest_t *ingest, bytes_t header, const appended_t *appended) {
    bytes_t value;
    if (appended->rolling != 0) {
        js_roll(js, ingest->stream, appended, BYTES_NONE);
    }
    if ((ingest->stream->config.flags & (STREAM_ALLOW_ROLLUP | STREAM_DENY_PURGE)) == STREAM_ALLOW_ROLLUP
        && headers_find(header, BYTES_LITERAL("Nats-Schedule-Next"), &value)
        && bytes_equal(value, BYTES_LITERAL("purge")) && headers_find(header, BYTES_LITERAL("Nats-Scheduler"), &value)
        && value.size != 0) {
        js_schedule_end(ingest->stream, value);
    }
}

/* subject: at the origin, which a source's header tells. */
static void ingest_store(js_t *js, ingest_t *ingest, const ack_reply_t *ack, bytes_t subject,
                         const message_t *message) {
    text_t renamed;
    append_t append = {.subject = ingest_renamed(js, ingest, subject, &renamed), .payload = message->payload};
    progress_t progress = {ack->stream_seq, ack->ts > ingest->newest_ts ? ack->ts : ingest->newest_ts};
    js->scratch.size = 0;
    status_t status;
    if (ingest->mirror) {
        append.force_seq = ack->stream_seq;
        append.force_ts = ack->ts;
        status = mirror_header(js, message->header, &append.header);
    } else {
        status = source_header(js, ingest, ack->stream_seq, subject, message->header);
        append.header = bytes_of(js->scratch.at, (uint32_t)js->scratch.size);
        append.source_key = ingest->key;
        append.source_seq = progress.seq;
        append.source_ts = progress.newest_ts;
        bytes_t id;
        if (message->header.size != 0 && headers_find(message->header, BYTES_LITERAL("Nats-Msg-Id"), &id)) {
            append.msg_id = id;
        }
    }
    if (status == STATUS_FULL) {
        append.subject = BYTES_NONE; /* no room for its header: that message is too large, the next one may not be */
        status = STATUS_OK;
    } else if (status == STATUS_OK && (ingest->stream->config.flags & STREAM_COUNTER) != 0 && !ingest->mirror
               && append.subject.size != 0) {
        status = counter_source(js, ingest->stream, &append);
    }
    if (status != STATUS_OK) {
        ingest_fail(js, ingest, INGEST_REFUSED, status);
        return;
    }
    bool orders = headers_has_prefix(message->header, BYTES_LITERAL("Nats-"));
    if (orders) {
        ingest_orders(js, ingest, message->header, ack->ts, &append);
    }
    appended_t appended =
        append.subject.size == 0 ? (appended_t){.verdict = APPEND_TOO_LARGE} : js_append(js, ingest->stream, &append);
    if (!ingest_settle(js, ingest, appended, progress)) {
        ingest_fail(js, ingest, INGEST_REFUSED, appended.verdict == APPEND_NO_SPACE ? STATUS_NO_SPACE : STATUS_FULL);
        return;
    }
    if (orders && appended.verdict == APPEND_STORED) {
        ingest_after(js, ingest, message->header, &appended);
    }
    ingest->last_seq = progress.seq;
    ingest->newest_ts = progress.newest_ts;
    ingest->messages++;
    ingest->bytes += (uint64_t)message->header.size + message->payload.size;
}

/* Seen already, not counted anew: a consumer that was set back begins with 1 again, and what it delivers then may be
 * new here. Of a durable consumer nothing comes twice: an old sequence may be one of a stream that was made anew. */
static bool ingest_saw(const ingest_t *ingest, const ack_reply_t *ack) {
    return ack->consumer_seq <= ingest->consumer_seq && ack->stream_seq <= ingest->last_seq && !ingest->durable;
}

/* A sequence that was taken before, with a stamp newer than all that was: the origin is one that was put back from an
 * old copy, and this message is new. A consumer that began at a sequence may have passed over others: nothing is taken
 * of it. A mirror keeps the origin's sequences and cannot take it. */
static bool is_put_back(js_t *js, ingest_t *ingest, const ack_reply_t *ack) {
    if (ingest->mirror || ingest->newest_ts == 0 || ack->ts <= ingest->newest_ts) {
        return false;
    }
    if (!ingest->durable && !ingest->by_time) {
        ingest_fail(js, ingest, INGEST_BACK, STATUS_OK);
        return false;
    }
    ingest->last_seq = ack->stream_seq - 1;
    (void)ingest_tell(js, ingest, INGEST_BACK, STATUS_OK); /* if it is lost, only the log lacks it */
    return true;
}

void ingest_frame(js_t *js, ingest_t *ingest, const message_t *message, bytes_t copied) {
    if (!ingest->running) {
        return;
    }
    bool first = ingest->last_frame_ns == 0;
    ingest->last_frame_ns = js->now->mono_ns;
    ingest->heard_ns = js->host->heard(js->plane, ingest->link);
    ack_reply_t ack;
    if (!ack_reply_parse(message->reply, &ack)) {
        if (message->payload.size == 0 && bytes_starts(message->header, BYTES_LITERAL("NATS/1.0 100"))) {
            ingest_control(js, ingest, message);
        }
        return;
    }
    if (!bytes_equal(ack.consumer, ingest->consumer) || ack.delivered > 1 || ingest_saw(ingest, &ack)) {
        return;
    }
    if (ack.consumer_seq != ingest->consumer_seq + 1 || (ingest->durable && ack.stream_seq <= ingest->taken_seq)) {
        ingest_fail(js, ingest, INGEST_GAP, STATUS_OK);
        return;
    }
    ingest->consumer_seq = ack.consumer_seq;
    ingest->taken_seq = ack.stream_seq;
    behind_learn(&ingest->behind, ack.pending, js->now->mono_ns);
    if (first) (void)ingest_tell(js, ingest, INGEST_FIRST, STATUS_OK); /* lost: only the log and a state lack it */
    if (ack.stream_seq <= ingest->last_seq && !is_put_back(js, ingest, &ack)) {
        return;
    }
    bytes_t subject = copied.size != 0 ? copied : message->subject;
    ingest_store(js, ingest, &ack, subject, message);
    if (!ingest->running) {
        ingest->behind.messages++; /* this one, which was not taken */
    }
}

uint64_t ingest_origin(const ingest_t *ingest) {
    return ingest->origin;
}

bool ingest_feeds(const ingest_t *ingest, uint32_t *which_store) {
    *which_store = ingest->stream->which_store;
    return ingest->running;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* Only time counts in which its link brought something: in an outage nothing can come, and a copy's messages are not
 * what goes first afterwards. Those that share a link wait for each other. */
static bool is_silent(const js_t *js, const ingest_t *ingest) {
    int64_t since = ingest->last_frame_ns != 0 ? ingest->last_frame_ns : ingest->started_ns;
    int64_t heard_ns = js->host->heard(js->plane, ingest->link), patience_ns = ingest->silence_ns;
    if (!ingest->running || js->now->mono_ns - since <= patience_ns) return false;
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
}

/* The header's constant parts, put together once. parts: name, filter, destination, identity, key. */
static status_t ingest_name(ingest_t *ingest, bytes_t consumer, const bytes_t parts[5]) {
    text_t tail, identity;
    tail.size = identity.size = 0;
    text_add_literal(&tail, " ");
    text_add(&tail, parts[1]);
    text_add_literal(&tail, " ");
    text_add(&tail, parts[2]);
    text_add_literal(&tail, " ");
    if (parts[3].size != 0) {
        text_add_literal(&identity, " ");
        text_add(&identity, parts[3]);
    }
    if (text_is_over(&tail) || text_is_over(&identity)) {
        return STATUS_INVALID;
    }
    const bytes_t wanted[5] = {consumer, parts[0], text_bytes(&tail), parts[4], text_bytes(&identity)};
    bytes_t own[5];
    if (!bytes_copy_all(own, wanted, 5)) {
        return STATUS_NO_MEMORY;
    }
    ingest->consumer = own[0];
    ingest->source_name = own[1];
    ingest->source_tail = own[2];
    ingest->key = own[3];
    ingest->identity = own[4];
    return STATUS_OK;
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

static status_t ingest_make(js_t *js, stream_t *stream, const plane_command_t *command) {
    ingest_config_t config;
    memcpy(&config, command->body, sizeof(config));
    strings_t strings = strings_of(command);
    bytes_t deliver = strings_next(&strings);
    bytes_t consumer = strings_next(&strings);
    bytes_t parts[5]; /* of the source's header, and the key */
    uint64_t size = 0;
    for (uint32_t i = 0; i < 5; i++) {
        parts[i] = strings_next(&strings);
        size += parts[i].size;
    }
    if (deliver.size == 0 || consumer.size == 0 || parts[4].size > PROGRESS_KEY_MAX || size > INGEST_TEXT_MAX
        || strings_count(strings) % 2 != 0) {
        return STATUS_INVALID;
    }
    ingest_t *ingest = calloc(1, sizeof(*ingest));
    if (ingest == NULL || ingest_name(ingest, consumer, parts) != STATUS_OK) {
        free(ingest);
        return STATUS_NO_MEMORY;
    }
    ingest->stream = stream;
    ingest->slot = (uint32_t)command->arg;
    ingest->mirror = config.mirror != 0;
    ingest->durable = config.durable != 0;
    ingest->by_time = config.by_time != 0;
    ingest->taken_seq = config.delivered_sequence;
    ingest->running = true;
    ingest->silence_ns = config.silence_ns;
    ingest->link = config.link;
    ingest->origin = config.origin;
    ingest->started_ns = js->now->mono_ns;
    if (config.pending_known != 0) {
        behind_begin(&ingest->behind, config.pending, js->now->mono_ns);
    }
    ingest->heard_ns = js->host->heard(js->plane, ingest->link);
    progress_t stored = {0};
    status_t status = STATUS_OK;
    if (ingest->mirror) {
        stream_state_t state;
        store_stream_state(stream->store, &state);
        stored.seq = state.last_seq;
    } else {
        /* Without it everything would be taken once more: a source whose progress is not known does not begin. */
        status = progress_read(js, stream, ingest->key, &stored);
    }
    ingest->last_seq = stored.seq > config.last_sequence ? stored.seq : config.last_sequence;
    ingest->newest_ts = stored.newest_ts;
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

static void ingest_answer(js_t *js, const plane_command_t *command, const ingest_t *ingest) {
    if (ingest == NULL) {
        js_done(js, command, STATUS_NOT_FOUND);
        return;
    }
    ingest_state_t state = {
        .last_sequence = ingest->last_seq,
        .newest_ts = ingest->newest_ts,
        .active_ns = ingest->last_frame_ns == 0 ? -1 : js->now->mono_ns - ingest->last_frame_ns,
        .messages = ingest->messages,
        .bytes = ingest->bytes,
        .running = ingest->running,
    };
    behind_tell(&ingest->behind, js->now->mono_ns, &state);
    js_answer(js, command, STATUS_OK, 0, 0, bytes_of(&state, sizeof(state)));
}

void ingest_state(js_t *js, const plane_command_t *command, stream_t *stream) {
    ingest_answer(js, command, *ingest_place(js, stream, command->arg));
}

void ingest_forget(js_t *js, const plane_command_t *command, stream_t *stream) {
    strings_t strings = strings_of(command);
    bytes_t key = strings_next(&strings);
    status_t status = key.size > PROGRESS_KEY_MAX ? STATUS_INVALID : progress_forget(js, stream, key);
    if (status != STATUS_OK) {
        js_done(js, command, status);
        return;
    }
    js_done_durable(js, command, stream->which_store, 0, BYTES_NONE);
}

void ingest_start(js_t *js, const plane_command_t *command, stream_t *stream) {
    js_done(js, command, ingest_make(js, stream, command));
}

void ingest_stop(js_t *js, const plane_command_t *command, stream_t *stream) {
    ingest_t **place = ingest_place(js, stream, command->arg);
    ingest_answer(js, command, *place);
    if (*place != NULL) ingest_free(js, place);
}
