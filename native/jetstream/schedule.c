/* schedule.c: scheduled messages: what their headers may say, and what a schedule does when it is due.
 *
 *     publish with Nats-Schedule --> checks > stored with its first time (store/schedules.c)
 *                                                   |  due
 *     the target's new message, the schedule's next time or its end  <--  one batch
 *
 * A schedule is its subject's last message. It fires on elapsed time: a step of the wall clock makes nothing early;
 * after a step, and after a time of being down, what was missed is made up for once.
 *
 * Of a stream that several servers keep the leader does the same, but for the last step: what its log is to have
 * (replicated_fire).
 */
#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "jetstream/js.h"
#include "jetstream/publish.h"
#include "jetstream/replicated.h"
#include "jetstream/stream.h"
#include "store/retention.h"
#include "store/schedules.h"
#include "store/store.h"
#include "text/headers.h"
#include "text/schedule.h"
#include "text/subject.h"
#include "text/text.h"
#include "text/time_text.h"
#include "text/ttl.h"
#include "text/zone.h"
#include "wire/emit.h"

#define NAME(text) BYTES_LITERAL("Nats-" text)
#define ENDS BYTES_LITERAL("purge")
#define MESSAGE_MAX (UINT64_C(64) << 20)
#define END_STEPS_MAX 16
#define FULL_WAIT_NS (5 * NS_PER_SECOND) /* a single firing that its account has no room for is tried again */

static const refusal_t refused_off = {400, 10188, "message schedules is disabled", {NULL, 0}, false};
static const refusal_t refused_pattern = {400, 10189, "message schedules pattern is invalid", {NULL, 0}, false};
static const refusal_t refused_target = {400, 10190, "message schedules target is invalid", {NULL, 0}, false};
static const refusal_t refused_ttl = {400, 10191, "message schedules invalid per-message TTL", {NULL, 0}, false};
static const refusal_t refused_rollup = {400, 10192, "message schedules invalid rollup", {NULL, 0}, false};
static const refusal_t refused_source = {400, 10203, "message schedules source is invalid", {NULL, 0}, false};
static const refusal_t refused_scheduler = {400, 10212, "message schedules invalid scheduler", {NULL, 0}, false};
static const refusal_t refused_zone = {400, 10223, "message schedules time zone is invalid", {NULL, 0}, false};

/* A missing field reads as an empty one. */
static bytes_t schedule_field(bytes_t header, bytes_t name) {
    bytes_t value;
    return headers_find(header, name, &value) ? value : BYTES_NONE;
}

/* The pattern's next time behind `base_ns`, in the zone that the message names; *zone may be NULL, the caller closes
 * it. */
static const refusal_t *next_time(bytes_t header, int64_t base_ns, int64_t now_ns, zone_t **zone, int64_t *next_ns,
                                  bool *repeats) {
    bytes_t name;
    *zone = NULL;
    if (headers_find(header, NAME("Schedule-Time-Zone"), &name)) {
        *zone = zone_open(name);
        if (*zone == NULL) {
            return &refused_zone;
        }
    }
    bytes_t pattern = schedule_field(header, NAME("Schedule"));
    *next_ns = 0;
    if (pattern.size != 0 && !schedule_next(pattern, *zone, base_ns, now_ns, next_ns, repeats)) {
        return &refused_pattern;
    }
    return NULL;
}

/* ---- a publish --------------------------------------------------------------------------------------------------- */

static bool in_stream(const js_t *js, const stream_t *stream, bytes_t subject) {
    for (uint32_t i = 0; i < stream->subject_count; i++) {
        if (subject_collides(js->host->subject(stream->subjects[i]), subject)) {
            return true;
        }
    }
    return false;
}

/* The message has a pattern, and the stream takes schedules. */
static const refusal_t *check_schedule(const js_t *js, const stream_t *stream, bytes_t subject, bytes_t header,
                                       bool *add_rollup) {
    bytes_t ttl = schedule_field(header, NAME("Schedule-TTL"));
    bytes_t rollup = schedule_field(header, NAME("Schedule-Rollup"));
    bytes_t target = schedule_field(header, NAME("Schedule-Target"));
    bytes_t source = schedule_field(header, NAME("Schedule-Source"));
    bytes_t own_rollup = schedule_field(header, NAME("Rollup"));
    int64_t ns;
    if (ttl.size != 0 && !ttl_parse(ttl, &ns)) {
        return &refused_ttl;
    }
    if (rollup.size != 0 && !bytes_equal(rollup, BYTES_LITERAL("sub"))) {
        return &refused_rollup;
    }
    if (ttl.size != 0 && (stream->config.flags & STREAM_ALLOW_TTL) == 0) {
        return &refused_ttl_off;
    }
    if (target.size == 0 || !subject_valid_literal(target) || bytes_equal(target, subject)) {
        return &refused_target;
    }
    if (source.size != 0
        && (bytes_equal(source, target) || bytes_equal(source, subject) || !subject_valid_literal(source))) {
        return &refused_source;
    }
    if (!in_stream(js, stream, target)) {
        return &refused_target;
    }
    if (source.size != 0 && !in_stream(js, stream, source)) {
        return &refused_source;
    }
    *add_rollup = own_rollup.size == 0;
    bool sub = own_rollup.size == 3 && strncasecmp((const char *)own_rollup.at, "sub", 3) == 0;
    return *add_rollup || sub ? NULL : &refused_rollup;
}

/* The headers that the server puts on what a schedule makes: a client may only use them to end a schedule. */
static const refusal_t *check_end(const stream_t *stream, bytes_t subject, bytes_t header, bytes_t *ends) {
    bytes_t next = schedule_field(header, NAME("Schedule-Next"));
    bytes_t scheduler = schedule_field(header, NAME("Scheduler"));
    stored_message_t last;
    if (next.size == 0) {
        return scheduler.size == 0 ? NULL : &refused_scheduler;
    }
    if (!bytes_equal(next, ENDS) || scheduler.size == 0 || bytes_equal(scheduler, subject)
        || !subject_valid_literal(scheduler)) {
        return &refused_scheduler;
    }
    if ((stream->config.flags & STREAM_ALLOW_SCHEDULES) == 0) {
        return &refused_off;
    }
    /* A schedule that no longer exists has ended already. */
    const refusal_t *refusal = NULL;
    switch (store_last_by_subject(stream->store, scheduler, UINT64_MAX, &last)) {
    case ENTRY_FOUND:
        if (schedule_field(last.header, NAME("Schedule")).size == 0) {
            return &refused_scheduler;
        }
        break;
    case ENTRY_UNKNOWN: refusal = &refused_space; break;
    case ENTRY_NONE:
    case ENTRY_DAMAGED: break;
    }
    *ends = scheduler; /* where that is not known, too: what a schedule makes itself is not refused */
    return refusal;
}

const refusal_t *js_schedule_read(js_t *js, const stream_t *stream, const message_t *message, schedule_order_t *order) {
    bool takes = (stream->config.flags & STREAM_ALLOW_SCHEDULES) != 0;
    bool add_rollup = false, repeats;
    int64_t due_ts, now_ns = js->now->wall_ns;
    zone_t *zone;
    text_t name;
    bytes_t subject = js_stored_subject(js, stream, message->subject, &name);
    const refusal_t *refusal = next_time(message->header, now_ns, now_ns, &zone, &due_ts, &repeats);
    zone_close(zone);
    if (refusal != NULL || due_ts != 0) {
        refusal = !takes            ? &refused_off
                  : refusal != NULL ? refusal
                                    : check_schedule(js, stream, subject, message->header, &add_rollup);
    }
    if (refusal == NULL) {
        refusal = check_end(stream, subject, message->header, &order->ends);
    }
    if (refusal == NULL) {
        order->due_ts = due_ts;
        order->add_rollup = due_ts != 0 && add_rollup;
    }
    return refusal;
}

bool js_schedule_named(bytes_t header, js_schedule_names_t *names) {
    if (!headers_has_prefix(header, NAME("Schedule"))) {
        return false;
    }
    *names = (js_schedule_names_t){.target = schedule_field(header, NAME("Schedule-Target")),
                                   .source = schedule_field(header, NAME("Schedule-Source")),
                                   .ended = schedule_field(header, NAME("Scheduler"))};
    return true;
}

bool js_schedule_names(const stream_t *stream, bytes_t header, js_schedule_names_t *names) {
    if ((stream->config.flags & STREAM_ALLOW_SCHEDULES) == 0 || !js_schedule_named(header, names)) {
        return false;
    }
    names->granted = (stream->config.flags & STREAM_GRANTS_SCHEDULES) != 0;
    return true;
}

void js_schedule_refuse(js_t *js, const stream_t *stream, bytes_t reply, js_schedule_name_t which) {
    js_answer_refused(js, stream, reply,
                      which == SCHEDULE_TARGET   ? &refused_target
                      : which == SCHEDULE_SOURCE ? &refused_source
                                                 : &refused_scheduler);
}

/* The last message of a subject, which is a schedule or none. */
static entry_outcome_t schedule_of(const stream_t *stream, bytes_t subject, stored_message_t *last) {
    if (!subject_storable(subject)) {
        return ENTRY_NONE; /* a copy's origin may name anything */
    }
    entry_outcome_t outcome = store_last_by_subject(stream->store, subject, UINT64_MAX, last);
    switch (outcome) {
    case ENTRY_UNKNOWN:
    case ENTRY_NONE:
    case ENTRY_DAMAGED: return outcome;
    case ENTRY_FOUND: break;
    }
    return schedule_field(last->header, NAME("Schedule")).size == 0 ? ENTRY_NONE : outcome;
}

entry_outcome_t js_schedule_there(const stream_t *stream, bytes_t subject) {
    stored_message_t last;
    return schedule_of(stream, subject, &last);
}

bool js_schedule_end(stream_t *stream, bytes_t subject, uint64_t below_seq) {
    store_purge_t purge = {.filter = subject, .below_seq = below_seq, .left = below_seq};
    uint64_t purged;
    step_outcome_t step = STEP_MORE;
    bool goes_on = true;
    switch (js_schedule_there(stream, subject)) {
    case ENTRY_UNKNOWN: return false;
    case ENTRY_NONE:
    case ENTRY_DAMAGED: return true;
    case ENTRY_FOUND: break;
    }
    /* there is one message: a schedule replaces what its subject had */
    for (uint32_t steps = 0; goes_on && steps < END_STEPS_MAX; steps++) {
        step = store_purge(stream->store, &purge, &purged, &step) == STATUS_OK ? step : STEP_UNKNOWN;
        switch (step) {
        case STEP_UNKNOWN:
        case STEP_OVER: goes_on = false; break;
        case STEP_MORE: break;
        }
    }
    store_purge_end(&purge);
    switch (step) {
    case STEP_UNKNOWN:
    case STEP_MORE: break;
    case STEP_OVER: return true;
    }
    return false;
}

bool js_schedule_ends(const stream_t *stream, bytes_t header) {
    return (stream->config.flags & STREAM_ALLOW_SCHEDULES) != 0
           && bytes_equal(schedule_field(header, NAME("Schedule-Next")), ENDS)
           && schedule_field(header, NAME("Scheduler")).size != 0;
}

bool js_schedule_ended(stream_t *stream, bytes_t header) {
    bytes_t scheduler = schedule_field(header, NAME("Scheduler"));
    stored_message_t last;
    switch (schedule_of(stream, scheduler, &last)) {
    case ENTRY_UNKNOWN:
    case ENTRY_DAMAGED: return false;
    case ENTRY_NONE: return true;
    case ENTRY_FOUND: break;
    }
    /* there is no other: it replaced what its subject had */
    return store_delete_any(stream->store, last.seq) == STATUS_OK;
}

/* ---- a backup ---------------------------------------------------------------------------------------------------- */

int64_t js_schedule_restored(bytes_t header, int64_t stored_ts, int64_t now_ts) {
    zone_t *zone;
    int64_t due_ts;
    bool repeats;
    const refusal_t *refusal = next_time(header, stored_ts, now_ts, &zone, &due_ts, &repeats);
    zone_close(zone);
    return refusal == NULL ? due_ts : 0;
}

status_t js_schedule_resume(js_t *js, stream_t *stream, bytes_t header) {
    bytes_t scheduler = schedule_field(header, NAME("Scheduler"));
    int64_t next_ts;
    stored_message_t last;
    if (scheduler.size == 0 || !time_parse(schedule_field(header, NAME("Schedule-Next")), &next_ts)) {
        return STATUS_OK;
    }
    switch (store_last_by_subject(stream->store, scheduler, UINT64_MAX, &last)) {
    case ENTRY_UNKNOWN: return STATUS_IO;
    case ENTRY_NONE:
    case ENTRY_DAMAGED: return STATUS_OK;
    case ENTRY_FOUND: break;
    }
    return store_schedule_again(stream->store, last.seq, next_ts, *js->now);
}

/* ---- firing a schedule ------------------------------------------------------------------------------------------- */

typedef struct firing {
    js_t *js;
    stream_t *stream;
    uint64_t seq;
    int64_t due_ts;
    buffer_t room;     /* own copies: what the store lends does not live as long as this takes */
    bytes_t scheduler; /* the schedule's subject */
    bytes_t header;    /* the schedule's */
    bool repeats;
    int64_t next_ts;
    uint8_t next_text[TIME_TEXT_MAX + 6];
    uint32_t next_size;
} firing_t;

static bool left_behind(bytes_t name) {
    return bytes_starts(name, NAME("Schedule")) || bytes_starts(name, NAME("Expected-"))
           || bytes_equal(name, NAME("Msg-Id")) || bytes_equal(name, NAME("TTL")) || bytes_equal(name, NAME("Rollup"));
}

/* As Go writes a time of that zone: 2026-11-21T05:00:00+01:00. */
static void write_next(firing_t *firing, const zone_t *zone) {
    int64_t offset = zone_offset(zone, firing->next_ts / NS_PER_SECOND);
    uint8_t *at = firing->next_text;
    uint32_t size = time_format(firing->next_ts + offset * NS_PER_SECOND, at);
    if (offset != 0) {
        int64_t minutes = (offset < 0 ? -offset : offset) / 60;
        at += size - 1; /* the Z */
        *at++ = offset < 0 ? '-' : '+';
        *at++ = (uint8_t)('0' + minutes / 600);
        *at++ = (uint8_t)('0' + minutes / 60 % 10);
        *at++ = ':';
        *at++ = (uint8_t)('0' + minutes % 60 / 10);
        *at++ = (uint8_t)('0' + minutes % 10);
        size += 5;
    }
    firing->next_size = size;
}

static status_t firing_keep(buffer_t *room, bytes_t *bytes) {
    uint8_t *to;
    status_t status = buffer_reserve(room, bytes->size, &to);
    if (status == STATUS_OK && bytes->size != 0) {
        memcpy(to, bytes->at, bytes->size);
        room->size += bytes->size;
        *bytes = bytes_of(to, bytes->size);
    }
    return status;
}

/* The header block of what the schedule makes, at the end of `room`. */
static status_t firing_headers(firing_t *firing, bytes_t original, bytes_t *header) {
    buffer_t *room = &firing->room;
    uint64_t start = room->size;
    bool empty = false;
    const bytes_t added[][2] = {
        {NAME("Scheduler"), firing->scheduler},
        {NAME("Schedule-Next"), firing->repeats ? bytes_of(firing->next_text, firing->next_size) : ENDS},
        {NAME("TTL"), schedule_field(firing->header, NAME("Schedule-TTL"))},
        {NAME("Rollup"), schedule_field(firing->header, NAME("Schedule-Rollup"))},
    };
    status_t status = original.size == 0 ? STATUS_OK : headers_copy_without(room, original, left_behind, true, &empty);
    for (uint32_t i = 0; status == STATUS_OK && i < 4; i++) {
        status = added[i][1].size == 0 ? STATUS_OK : headers_append(room, start, added[i][0], added[i][1]);
    }
    *header = bytes_of(room->at + start, (uint32_t)(room->size - start));
    return status;
}

/* The schedule, where it is in force. A later message on the subject ends one, unless a schedule made it: of one that
 * is damaged nobody knows. A schedule that is damaged itself is one that other servers may have. */
static read_outcome_t firing_schedule(const firing_t *firing, stored_message_t *schedule) {
    store_stream_t *store = firing->stream->store;
    stored_message_t last;
    switch (store_read(store, firing->seq, schedule)) {
    case ENTRY_UNKNOWN: return READ_UNKNOWN;
    case ENTRY_NONE: return READ_NONE;
    case ENTRY_DAMAGED: return firing->stream->replicated != NULL ? READ_UNKNOWN : READ_NONE;
    case ENTRY_FOUND: break;
    }
    switch (store_last_by_subject(store, schedule->subject, UINT64_MAX, &last)) {
    case ENTRY_UNKNOWN:
    case ENTRY_DAMAGED: return READ_UNKNOWN;
    case ENTRY_NONE: return READ_NONE;
    case ENTRY_FOUND: break;
    }
    bool goes_on = last.seq == firing->seq || schedule_field(last.header, NAME("Scheduler")).size != 0;
    return goes_on ? READ_FOUND : READ_NONE;
}

/* Room for all copies at once, so that no slice into it moves. */
static status_t firing_gather(firing_t *firing, stored_message_t *schedule, message_t *message) {
    stored_message_t source = *schedule;
    bytes_t from = schedule_field(schedule->header, NAME("Schedule-Source"));
    uint8_t *unused;
    if (from.size != 0) {
        switch (store_last_by_subject(firing->stream->store, from, UINT64_MAX, &source)) {
        case ENTRY_UNKNOWN:
        case ENTRY_DAMAGED: return STATUS_IO;       /* until it is put back, deleted, or there is a newer one */
        case ENTRY_NONE: source = *schedule; break; /* nothing there yet, or any more: its own content */
        case ENTRY_FOUND: break;
        }
    }
    uint64_t size = 2 * ((uint64_t)schedule->subject.size + schedule->header.size + source.header.size)
                    + source.payload.size + 1024;
    status_t status = buffer_reserve(&firing->room, size, &unused);
    firing->scheduler = schedule->subject;
    firing->header = schedule->header;
    message->payload = source.payload;
    bytes_t *kept[] = {&firing->scheduler, &firing->header, &source.header, &message->payload};
    for (uint32_t i = 0; status == STATUS_OK && i < 4; i++) {
        status = firing_keep(&firing->room, kept[i]);
    }
    if (status == STATUS_OK) {
        message->subject = schedule_field(firing->header, NAME("Schedule-Target"));
        status = firing_headers(firing, source.header, &message->header);
    }
    return status;
}

/* What the log is to have of it. message NULL: it makes none. */
static bool firing_propose(const firing_t *firing, const message_t *message) {
    const replica_fired_t fired = {
        .seq = firing->seq, .due_ts = firing->due_ts, .next_ts = firing->repeats ? firing->next_ts : 0};
    return replicated_fire(firing->js, firing->stream, &fired, message) == STATUS_OK;
}

/* Ends this firing: on to the next, if the schedule repeats. */
static bool firing_next(const firing_t *firing) {
    if (firing->stream->replicated != NULL) {
        return firing_propose(firing, NULL);
    }
    if (!firing->repeats) {
        return true;
    }
    return store_schedule(firing->stream->store, firing->seq, firing->next_ts, *firing->js->now) == STATUS_OK;
}

/* A schedule without an author was stored where nobody logs in, or by an older leafd: promises.md. */
static js_right_t firing_right(const firing_t *firing, const stored_message_t *schedule) {
    const stream_t *stream = firing->stream;
    const js_scheduled_t what = {.author = schedule_field(schedule->header, SCHEDULE_AUTHOR),
                                 .subject = schedule->subject,
                                 .target = schedule_field(schedule->header, NAME("Schedule-Target")),
                                 .source = schedule_field(schedule->header, NAME("Schedule-Source")),
                                 .stream = stream->id};
    if (what.author.size == 0 || (stream->config.flags & STREAM_GRANTS_SCHEDULES) != 0) {
        return JS_RIGHT_YES;
    }
    return firing->js->host->may_fire(firing->js->plane, stream->account, &what);
}

/* false: no room now, or what it is made of is not known. */
static bool firing_run(firing_t *firing, stored_message_t *schedule) {
    message_t message = {0};
    publish_result_t result;
    moment_t now = *firing->js->now;
    if (firing_gather(firing, schedule, &message) != STATUS_OK) {
        return false;
    }
    if (firing->stream->replicated != NULL) {
        if (!store_stream_lacks(firing->stream->store, message.subject, message.header, message.payload)) {
            return firing_propose(firing, &message);
        }
        firing->next_ts = firing->repeats ? firing->next_ts : now.wall_ns + FULL_WAIT_NS;
        firing->repeats = true;
        return firing_propose(firing, NULL);
    }
    js_take(firing->js, firing->stream, &message, PUBLISHER_SERVER, &result);
    if (result.outcome == OUTCOME_REFUSED && result.refusal.err_code == refused_space.err_code) {
        return false;
    }
    if (result.outcome == OUTCOME_REFUSED && result.refusal.err_code == refused_account.err_code && !firing->repeats) {
        /* Not false: what expires behind it may be what makes room for it. */
        return store_schedule(firing->stream->store, firing->seq, now.wall_ns + FULL_WAIT_NS, now) == STATUS_OK;
    }
    if (result.outcome == OUTCOME_TAKEN && js_rolls_on(&result)) {
        js_roll(firing->js, firing->stream, &result.appended, result.ends, BYTES_NONE);
    }
    /* A message that the stream refuses for good is left out; a schedule that repeats goes on all the same. */
    return firing_next(firing);
}

store_due_t js_schedule_fire(js_t *js, stream_t *stream, uint64_t seq, int64_t due_ts) {
    firing_t firing = {.js = js, .stream = stream, .seq = seq, .due_ts = due_ts};
    moment_t now = *js->now;
    stored_message_t schedule;
    zone_t *zone;
    if (stream->subject_count == 0) {
        return STORE_DUE_LATER; /* without subjects it is still being restored: it could be neither mirror nor source */
    }
    /* Without its consumers a stream of interest would think that nobody wants what is made. */
    if (retention_traits(&stream->config)->only_wanted && now.mono_ns < stream->quiet_until_ns) {
        return STORE_DUE_LATER;
    }
    bool sealed = (stream->config.flags & STREAM_SEALED) != 0;
    read_outcome_t found = sealed ? READ_NONE : firing_schedule(&firing, &schedule);
    switch (found) {
    case READ_UNKNOWN: return STORE_DUE_LATER;
    case READ_NONE: return firing_next(&firing) ? STORE_DUE_DONE : STORE_DUE_LATER;
    case READ_FOUND: break;
    }
    const refusal_t *refusal = next_time(schedule.header, due_ts, now.wall_ns, &zone, &firing.next_ts, &firing.repeats);
    bool done = true, fires = refusal == NULL && firing.next_ts != 0;
    js_right_t right = fires ? firing_right(&firing, &schedule) : JS_RIGHT_NO;
    firing.repeats = firing.repeats && fires;
    if (fires && (right == JS_RIGHT_UNKNOWN || right == JS_RIGHT_ASKED)) {
        done = false;
    } else if (right == JS_RIGHT_NO) {
        done = firing_next(&firing);
    } else {
        write_next(&firing, zone);
        buffer_init(&firing.room, MESSAGE_MAX);
        done = firing_run(&firing, &schedule);
        buffer_free(&firing.room);
    }
    zone_close(zone);
    return done ? STORE_DUE_DONE : right == JS_RIGHT_ASKED ? STORE_DUE_ASKED : STORE_DUE_LATER;
}

/* Of several servers each has the same time of the log here, and the same answer: that it is asked again in a second.
 * What is done is the leader's to propose; with that it has another time, or none. */
store_due_t js_schedule_due(void *context, store_stream_t *stored, uint64_t seq, int64_t due_ts) {
    stream_t *stream = store_stream_owner(stored);
    if (stream == NULL) {
        return STORE_DUE_LATER;
    }
    if (stream->replicated != NULL) {
        replicated_ripe(stream, seq, due_ts);
        return STORE_DUE_LATER;
    }
    return js_schedule_fire(context, stream, seq, due_ts);
}
