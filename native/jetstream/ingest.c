/* ingest.c: what a mirror or a source takes in: deliveries of a consumer that an origin runs for us.
 *
 *   links/ (Python) makes the consumer at the origin --INGEST_START--> a target on the deliver subject
 *   message:   in step (consumer sequence)? new (origin sequence)? --> store_append, progress in the same batch
 *   100 FlowControl Request --> answered when everything before it is on disk: the window is the back pressure
 *   100 Idle Heartbeat      --> shows a missing tail
 *   409 Consumer Deleted    --> of a leafd that has few heartbeats for us (Leafd-Heartbeat): it is over
 *   out of step, silence, refusal --> EVENT_INGEST; frames are ignored until Python starts anew
 *
 * Exactly once: a source's progress (origin sequence by "name filter destination") is a record in the message's own
 * batch; a mirror's is its last sequence. What is at or below it is dropped, so a consumer made anew may start too
 * early. Not here: how it begins and ends (ingest_life.c), what its own stream refuses (ingest_refused.c), making
 * consumers, retries. Reference:
 * tests/wire/jetstream.md, "Mirrors and sources".
 */
#include <stdlib.h>

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "text/ack_reply.h"
#include "jetstream/lag.h"
#include "jetstream/commands.h"
#include "jetstream/host.h"
#include "jetstream/ingest_private.h"
#include "jetstream/counter.h"
#include "jetstream/intake.h"
#include "jetstream/js.h"
#include "jetstream/progress.h"
#include "jetstream/replicated.h"
#include "jetstream/stream.h"
#include "store/append.h"
#include "store/store.h"
#include "text/decimal.h"
#include "text/headers.h"
#include "text/subject.h"
#include "text/text.h"
#include "text/tokens.h"
#include "text/transform.h"
#include "text/ttl.h"

static bool ingest_tell_at(js_t *js, const ingest_t *ingest, uint32_t code, status_t status, uint64_t seq) {
    event_entry_t *entry = event_new(EVENT_INGEST, BYTES_NONE, BYTES_NONE, BYTES_NONE, BYTES_NONE);
    if (entry == NULL) {
        return false;
    }
    entry->event.target = ingest->stream->id;
    entry->event.arg = ingest->slot;
    entry->event.code = code;
    entry->event.status = status;
    entry->event.arg2 = seq;
    event_post(js->exchange, entry);
    return true;
}

bool ingest_tell(js_t *js, const ingest_t *ingest, uint32_t code, status_t status) {
    return ingest_tell_at(js, ingest, code, status, ingest_kept(js, ingest).seq);
}

void ingest_fail(js_t *js, ingest_t *ingest, uint32_t code, status_t status) {
    ingest->running = false;
    /* Control starts it again, so it has to learn of it: if not now, then with the next chores. */
    ingest->untold = ingest_tell(js, ingest, code, status) ? 0 : code;
    ingest->untold_status = status;
}

/* ---- control frames ---------------------------------------------------------------------------------------------- */

/* The last token but one. */
bytes_t ingest_flow_consumer(bytes_t subject) {
    bytes_t id, consumer;
    return tokens_take_last(&subject, &id) && tokens_take_last(&subject, &consumer) ? consumer : BYTES_NONE;
}

/* A request for a consumer that was sent twice may have made two, until control has deleted one: both deliver to the
 * same subject. The other one is not acknowledged, so that it soon waits. A heartbeat does not say whose it is: one
 * that ends where the other consumer's deliveries do is taken for that one's. */
static bool ingest_is_other(const ingest_t *ingest, bytes_t flow, uint64_t delivered) {
    if (flow.size != 0) {
        return !bytes_equal(ingest_flow_consumer(flow), ingest->consumer);
    }
    return ingest->other_seq != 0 && delivered == ingest->other_seq && delivered != ingest->consumer_seq;
}

/* When all that was taken until now is on disk; at a majority, where several servers keep the stream. */
static void ingest_say(js_t *js, const ingest_t *ingest, bytes_t subject, bytes_t header) {
    if (ingest->stream->replicated != NULL) {
        replicated_say_taken(js, ingest->stream, subject, header, ingest->chained ? ingest->run : 0);
    } else {
        js_hold(js, ingest->stream, subject, header, BYTES_NONE);
    }
}

/* Held: the origin's window opens again only for what is on disk here. What it acknowledges is what this consumer has
 * delivered: one that was set back delivers again what is stored here, and to be told of more would confuse it. What
 * was taken last is said beside it: a store that was put back and has given less says behind which sequence all is new
 * (ingest_stands_back). It need not keep anything from a copy that takes that (Leafd-Copy). */
static void ingest_flow_reply(js_t *js, const ingest_t *ingest, bytes_t subject) {
    /* The deliverer chose the subject, which was not judged: it leads to consumers alone, and never to a stream or a
     * client. */
    if (!bytes_starts(subject, BYTES_LITERAL("$JS.FC.")) || !subject_storable(subject)) {
        return;
    }
    text_t header;
    header.size = 0;
    text_add_literal(&header, "NATS/1.0\r\nNats-Last-Consumer: ");
    text_add_number(&header, ingest->consumer_seq);
    text_add_literal(&header, "\r\nNats-Last-Stream: ");
    text_add_number(&header, ingest->taken_seq);
    if (ingest->durable) {
        text_add_literal(&header, "\r\nLeafd-Last-Taken: ");
        text_add_number(&header, ingest->last_seq);
    }
    if (!ingest->durable || !ingest->mirror) text_add_literal(&header, "\r\nLeafd-Copy: 1");
    text_add_literal(&header, "\r\n\r\n");
    ingest_say(js, ingest, subject, text_bytes(&header));
}

/* The origin was put back, and says that all is new behind a sequence that is below what was taken. From there on it is
 * taken; that is on disk before the answer leaves. false: there is none, and the origin asks again. */
static bool ingest_stands_back(js_t *js, ingest_t *ingest, bytes_t header) {
    bytes_t value;
    progress_t back = {0, ingest->newest_ts};
    if (ingest->mirror || !ingest->durable || !headers_find(header, BYTES_LITERAL("Leafd-New-Behind"), &value)
        || !decimal_parse(value, &back.seq) || back.seq >= ingest->last_seq) {
        return true;
    }
    if (!ingest_tell_at(js, ingest, INGEST_BACK, STATUS_OK, back.seq)) {
        return false; /* control would begin again where it was */
    }
    append_t append = {.source_key = ingest->key, .source_seq = back.seq, .source_ts = back.newest_ts};
    status_t status = ingest->stream->replicated != NULL ? ingest_propose(js, ingest, &append, back.seq)
                                                         : progress_write(js, ingest->stream, ingest->key, back);
    if (status != STATUS_OK) {
        ingest_fail(js, ingest, INGEST_REFUSED, status);
        return false;
    }
    ingest->last_seq = back.seq;
    return true;
}

/* ---- what another server's consumer waits for -------------------------------------------------------------------- */

static span_time_t span_clock(const js_t *js, const ingest_t *ingest) {
    return (span_time_t){js->now->mono_ns, js->host->heard(js->plane, ingest->link)};
}

/* Held, too. The sender chose the subject: it leads to that very consumer, and to no other one. */
static void ingest_ack(js_t *js, ingest_t *ingest, bytes_t subject, const ack_reply_t *ack) {
    if (bytes_equal(ack->stream, ingest->origin_stream) && subject_storable(subject)) {
        ingest_say(js, ingest, subject, BYTES_NONE);
    }
    span_acked(&ingest->span, ack->consumer_seq, span_clock(js, ingest));
}

static void ingest_span(js_t *js, ingest_t *ingest, bytes_t reply, const ack_reply_t *ack) {
    int64_t trip_ns = js->host->round_trip(js->plane, ingest->link);
    span_step_t step = span_took(&ingest->span, ack->consumer_seq, ack->pending, trip_ns, span_clock(js, ingest));
    if (ingest->span_by_flow) {
        return;
    }
    if (step == SPAN_ACK) {
        ingest_ack(js, ingest, reply, ack);
    } else if (step == SPAN_CHANGE) {
        ingest_fail(js, ingest, INGEST_SPAN, STATUS_OK);
    }
}

/* All that came was acknowledged by an answer to flow control, which is asked for when nothing is on its way. */
static void ingest_span_flow(js_t *js, ingest_t *ingest) {
    if (!ingest->span_by_flow) {
        return;
    }
    span_acked(&ingest->span, ingest->consumer_seq, span_clock(js, ingest));
    if (ingest->span.wanted != ingest->span.size && !ingest->span.level) {
        ingest_fail(js, ingest, INGEST_SPAN, STATUS_OK);
    }
}

/* With a heartbeat: nothing comes any more, though something waits. Where not even the first acknowledgements made room
 * the origin is not told of them, and the next consumer has no bound. */
static bool ingest_is_stuck(js_t *js, ingest_t *ingest) {
    span_t *span = &ingest->span;
    if (!span_stuck(span, span_clock(js, ingest).heard_ns)) {
        return false;
    }
    span->wanted = ingest->consumer_seq <= span->size ? 0 : span->wanted;
    ingest_fail(js, ingest, INGEST_SPAN, STATUS_OK);
    return true;
}

static void ingest_control(js_t *js, ingest_t *ingest, const message_t *message) {
    if (!bytes_starts(message->header, BYTES_LITERAL("NATS/1.0 100"))) {
        if (bytes_starts(message->header, BYTES_LITERAL("NATS/1.0 409 Consumer Deleted"))) {
            ingest_fail(js, ingest, INGEST_GAP, STATUS_OK);
        }
        return;
    }
    if (message->reply.size != 0) {
        if (ingest_is_other(ingest, message->reply, 0)) {
            return;
        }
        if (!ingest_stands_back(js, ingest, message->header)) return;
        ingest_flow_reply(js, ingest, message->reply);
        ingest_span_flow(js, ingest);
        return;
    }
    bytes_t stalled = BYTES_NONE, value;
    uint64_t delivered = 0;
    bool is_stalled = headers_find(message->header, BYTES_LITERAL("Nats-Consumer-Stalled"), &stalled);
    bool found =
        headers_find(message->header, BYTES_LITERAL("Nats-Last-Consumer"), &value) && decimal_parse(value, &delivered);
    if (ingest_is_other(ingest, stalled, delivered)) {
        return;
    }
    if (is_stalled) {
        if (!ingest_stands_back(js, ingest, message->header)) return;
        ingest_flow_reply(js, ingest, stalled);
    }
    if (ingest_is_stuck(js, ingest)) {
        return;
    }
    if (found && (delivered > ingest->consumer_seq || (ingest->durable && delivered < ingest->consumer_seq))) {
        ingest_fail(js, ingest, INGEST_GAP, STATUS_OK);
        return;
    }
    if (found && delivered == ingest->consumer_seq) {
        bool waits = stalled.size != 0 || span_waits(&ingest->span);
        lag_heartbeat(&ingest->behind, message->header, waits, js->now->mono_ns);
    }
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static bool dropped_by_mirror(bytes_t name) {
    return bytes_starts(name, BYTES_LITERAL("Nats-Expected-")) || bytes_starts(name, BYTES_LITERAL("Nats-Batch-"));
}

static bool dropped_by_source(bytes_t name) {
    return dropped_by_mirror(name) || bytes_equal(name, BYTES_LITERAL("Nats-Stream-Source"));
}

#define SOURCE_VALUE_MAX (SUBJECT_BYTES_MAX + 256u) /* of that header: names and a subject of any length we compose */

/* Nats-Stream-Source: <name> <origin seq> <filter> <destination> <origin subject>[ <identity>] */
static status_t source_header(js_t *js, const ingest_t *ingest, uint64_t seq, bytes_t subject, bytes_t header) {
    uint8_t digits[DECIMAL_MAX];
    const bytes_t parts[] = {ingest->source_head, decimal_text(digits, seq), ingest->source_tail, subject,
                             ingest->identity};
    uint64_t size = 0;
    for (uint32_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        size += parts[i].size;
    }
    if (size > SOURCE_VALUE_MAX) {
        return STATUS_FULL;
    }
    buffer_t *out = &js->scratch;
    uint64_t start = out->size;
    if (header.size != 0) {
        bool empty = false;
        status_t status = headers_copy_without(out, header, dropped_by_source, true, &empty);
        if (status != STATUS_OK) return status;
    }
    return headers_append_joined(out, start, BYTES_LITERAL("Nats-Stream-Source"), parts,
                                 sizeof(parts) / sizeof(parts[0]));
}

status_t ingest_mirror_header(js_t *js, bytes_t header, bytes_t *out) {
    if (header.size == 0 || !headers_has_prefix(header, BYTES_LITERAL("Nats-"))) {
        *out = header;
        return STATUS_OK;
    }
    bool empty = false;
    status_t status = headers_copy_without(&js->scratch, header, dropped_by_mirror, false, &empty);
    *out = bytes_of(js->scratch.at, (uint32_t)js->scratch.size);
    return status;
}

/* Applies a verdict to the position: true = go on behind this message. */
static bool ingest_settle(js_t *js, ingest_t *ingest, appended_t appended, progress_t progress) {
    switch (appended.verdict) {
    case APPEND_STORED:
    case APPEND_SKIPPED:
    case APPEND_OUT_OF_ORDER: return true;
    case APPEND_DUPLICATE:
    case APPEND_BAD_SUBJECT:
    case APPEND_TOO_LARGE:
    case APPEND_HEADER_TOO_LARGE:
        /* The message will never be stored: the progress moves without it. */
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

status_t ingest_source(js_t *js, const ingest_t *ingest, uint64_t seq, append_t *append, text_t *renamed) {
    bytes_t subject = append->subject;
    status_t status = source_header(js, ingest, seq, subject, append->header);
    append->header = bytes_of(js->scratch.at, (uint32_t)js->scratch.size);
    append->subject = ingest_renamed(js, ingest, subject, renamed);
    return status;
}

/* ---- orders in a message's headers ------------------------------------------------------------------------------- */

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

/* The subject of a schedule that comes to its end with the message; empty: of none. */
static bytes_t ingest_ends(const ingest_t *ingest, bytes_t header) {
    bytes_t value;
    bool ends = (ingest->stream->config.flags & (STREAM_ALLOW_ROLLUP | STREAM_DENY_PURGE)) == STREAM_ALLOW_ROLLUP
                && headers_find(header, BYTES_LITERAL("Nats-Schedule-Next"), &value)
                && bytes_equal(value, BYTES_LITERAL("purge"))
                && headers_find(header, BYTES_LITERAL("Nats-Scheduler"), &value);
    return ends ? value : BYTES_NONE;
}

/* After the message is stored: a longer rollup goes on as a job, and a schedule that has come to its end goes. */
static void ingest_after(js_t *js, const ingest_t *ingest, bytes_t ends, const appended_t *appended) {
    bool over = ends.size == 0 || js_schedule_end(ingest->stream, ends, appended->seq);
    if (appended->rolling != 0 || !over) {
        js_roll(js, ingest->stream, appended, over ? BYTES_NONE : ends, BYTES_NONE);
    }
}

/* Of several servers each adds it to what it has when the entry is applied (counter_applied): here it is only looked
 * at, so that what is no counter is refused in the same way. */
static status_t ingest_count(js_t *js, stream_t *stream, append_t *append) {
    append_t looked = *append;
    return counter_source(js, stream, stream->replicated != NULL ? &looked : append);
}

/* subject: at the origin, which a source's header tells. */
static void ingest_store(js_t *js, ingest_t *ingest, const ack_reply_t *ack, bytes_t subject,
                         const message_t *message) {
    text_t renamed;
    append_t append = {.subject = subject, .header = message->header, .payload = message->payload};
    progress_t progress = {ack->stream_seq, ack->ts > ingest->newest_ts ? ack->ts : ingest->newest_ts};
    js->scratch.size = 0;
    status_t status;
    if (ingest->mirror) {
        append.force_seq = ack->stream_seq;
        append.force_ts = ack->ts;
        append.subject = ingest_renamed(js, ingest, subject, &renamed);
        status = ingest_mirror_header(js, message->header, &append.header);
    } else {
        status = ingest_source(js, ingest, ack->stream_seq, &append, &renamed);
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
        status = ingest_count(js, ingest->stream, &append);
    }
    if (status != STATUS_OK) {
        ingest_fail(js, ingest, INGEST_REFUSED, status);
        return;
    }
    bool orders = headers_has_prefix(message->header, BYTES_LITERAL("Nats-"));
    bytes_t ends = orders ? ingest_ends(ingest, message->header) : BYTES_NONE;
    if (orders) {
        ingest_orders(js, ingest, message->header, ack->ts, &append);
    }
    entry_outcome_t schedule = ends.size != 0 ? js_schedule_there(ingest->stream, ends) : ENTRY_NONE;
    switch (schedule) {
    case ENTRY_UNKNOWN: /* stored, it could not be asked for once more */
        ingest_fail(js, ingest, INGEST_REFUSED, STATUS_IO);
        return;
    case ENTRY_NONE:
    case ENTRY_DAMAGED:
    case ENTRY_FOUND: break;
    }
    appended_t appended = {.verdict = APPEND_TOO_LARGE};
    if (ingest->stream->replicated != NULL) {
        status = ingest_propose(js, ingest, &append, progress.seq);
        if (status != STATUS_OK) {
            ingest_fail(js, ingest, INGEST_REFUSED, status);
            return;
        }
    } else {
        appended = append.subject.size == 0 ? appended : js_append(js, ingest->stream, &append);
        if (!ingest_settle(js, ingest, appended, progress)) {
            ingest_was_refused(js, ingest, appended.verdict);
            return;
        }
    }
    if (orders && appended.verdict == APPEND_STORED) {
        ingest_after(js, ingest, ends, &appended);
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
    /* If it is lost, only the log lacks it. */
    (void)ingest_tell_at(js, ingest, INGEST_BACK, STATUS_OK, ingest->last_seq);
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
        if (message->payload.size == 0) {
            ingest_control(js, ingest, message);
        }
        return;
    }
    if (!bytes_equal(ack.consumer, ingest->consumer)) {
        ingest->other_seq = ack.consumer_seq;
        return;
    }
    if (ack.delivered > 1 || ingest_saw(ingest, &ack)) {
        return;
    }
    if (ack.consumer_seq != ingest->consumer_seq + 1 || (ingest->durable && ack.stream_seq <= ingest->taken_seq)) {
        ingest_fail(js, ingest, INGEST_GAP, STATUS_OK);
        return;
    }
    ingest->consumer_seq = ack.consumer_seq;
    ingest->taken_seq = ack.stream_seq;
    lag_learn(&ingest->behind, ack.pending, js->now->mono_ns);
    if (first) (void)ingest_tell(js, ingest, INGEST_FIRST, STATUS_OK); /* lost: only the log and a state lack it */
    if (ack.stream_seq > ingest->last_seq || is_put_back(js, ingest, &ack)) {
        bytes_t subject = copied.size != 0 ? copied : message->subject;
        ingest_store(js, ingest, &ack, subject, message);
        ingest->behind.messages += !ingest->running; /* this one, which was not taken */
    }
    if (ingest->running) {
        ingest_span(js, ingest, message->reply, &ack);
    }
}

uint64_t ingest_origin(const ingest_t *ingest) {
    return ingest->origin;
}

bool ingest_feeds(const ingest_t *ingest, uint32_t *which_store) {
    *which_store = ingest->stream->which_store;
    return ingest->running;
}
