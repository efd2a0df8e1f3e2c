/* append.c: messages in, one by itself or several that happen together: a publish is a group of one.
 *
 *     admit, in the reference's order (tests/wire/jetstream.md, "Publishing") > room > write > limits
 *
 * Written are message, ids, expiry and source progress into the open batch, head and counters for when it closes. Two
 * things a group of one does otherwise, as the reference does: what is expected is looked at before duplicates, and a
 * full subject makes room by itself (old goes, new comes).
 */
#include <stdlib.h>

#include "base/check.h"
#include "base/number.h"
#include "text/subject.h"
#include "store/charge.h"
#include "store/dedupe.h"
#include "store/append.h"
#include "store/follow.h"
#include "store/message.h"
#include "store/overlay.h"
#include "store/recount.h"

#define HEADER_MAX 65535
#define GROUP_ROLL 64    /* messages that a rollup of a group takes out at once */
#define GROUP_SLACK 256  /* each of a group's own: ops' headers, keys, its subject's head */
#define GROUP_SEARCHES 1 /* of expectations with wildcards, in one turn */

typedef struct entry {
    store_stream_t *stream;
    const append_t *append;
    message_record_t message;
    uint64_t seq;
    uint32_t times; /* entries in the index by time */
    uint64_t bytes;
    head_entry_t *head;
} entry_t;

/* The newest message of a subject, or of all subjects that a pattern matches, is held against the expectation. */
static step_outcome_t newest_expected(store_stream_t *stream, const append_t *append, append_group_t *group,
                                      uint64_t *actual) {
    bytes_t subject = append->expected_subject.size > 0 ? append->expected_subject : append->subject;
    bool at_once = group->alone && !append->waits;
    if (stream->log.messages == 0 || at_once || !subject_has_wildcard(subject)) {
        switch (subjects_last(stream, subject, actual)) {
        case READ_UNKNOWN: return STEP_UNKNOWN;
        case READ_NONE:
        case READ_FOUND: return STEP_OVER;
        }
    }
    uint32_t searches = (uint32_t)number_less(GROUP_SEARCHES, group->searched);
    uint32_t left = searches;
    step_outcome_t step = follow_newest(stream, subject, &left, !group->alone, actual);
    group->searched += searches - left;
    return step;
}

/* What the message needs is not known. A damaged head is counted again, and a publisher that may wait for that does. */
static append_verdict_t not_known(const store_stream_t *stream, const append_t *append, const append_group_t *group) {
    return recount_runs(stream) && (append->waits || !group->alone) ? APPEND_LATER : APPEND_NO_SPACE;
}

/* last_seq: of the message before it, which may be one that is about to be appended. */
static inline bool expectation_holds(store_stream_t *stream, const append_t *append, uint64_t last_seq,
                                     append_group_t *group, appended_t *out) {
    if (append->has_expected_subject_seq) {
        uint64_t actual = 0;
        switch (newest_expected(stream, append, group, &actual)) {
        case STEP_UNKNOWN: out->verdict = not_known(stream, append, group); return false;
        case STEP_MORE: out->verdict = APPEND_LATER; return false;
        case STEP_OVER: break;
        }
        if (actual != append->expected_subject_seq) {
            *out = (appended_t){.verdict = APPEND_WRONG_LAST_SEQ, .seq = actual};
            return false;
        }
    }
    if (append->has_expected_last_seq && append->expected_last_seq != last_seq) {
        *out = (appended_t){.verdict = APPEND_WRONG_LAST_SEQ, .seq = last_seq};
        return false;
    }
    return true;
}

static bytes_t kept_id(bytes_t id) {
    return bytes_of(id.at, id.size < LOG_ID_MAX ? id.size : LOG_ID_MAX);
}

/* Beside what one call needs, however many it appends. */
static uint64_t need_of_one(const entry_t *entry) {
    const append_t *append = entry->append;
    uint64_t need = message_most(&entry->message) + 2 * (uint64_t)append->subject.size;
    need += append->msg_id.size > 0 ? dedupe_need(append->msg_id) : 0;
    need += append->due_ts != 0 ? SCHEDULE_NEED : 0;
    need += append->source_key.size > 0 ? 64 + (uint64_t)append->source_key.size : 0;
    return need;
}

static uint64_t need_of(const entry_t *entry) {
    return ROOM_EVICTION + STREAM_PROMISE + need_of_one(entry);
}

/* Does its subject's oldest message make room for it? Where that one is far from both ends, the next try goes on from
 * where this one came to. */
static append_verdict_t takes_place_of_oldest(const entry_t *entry) {
    message_row_t oldest;
    uint32_t steps = STORE_STEP;
    switch (oldest_sought(entry->stream, entry->head, &steps, &oldest)) {
    case SEEK_UNKNOWN:
    case SEEK_MORE: return APPEND_NO_SPACE;
    case SEEK_NONE: return APPEND_MAX_BYTES;
    case SEEK_FOUND: break;
    }
    return stream_message_bytes(entry->stream, &oldest.message) < entry->bytes ? APPEND_MAX_BYTES : APPEND_STORED;
}

/* Discard new: would the message, behind those of its group, break a limit? */
static append_verdict_t discard_new(const entry_t *entry, const append_group_t *group, uint64_t on_subject) {
    const stream_config_t *config = &entry->stream->config;
    const log_t *log = &entry->stream->log;
    bool subject_full = config->max_msgs_per_subject > 0
                        && entry->head->head.count + on_subject >= (uint64_t)config->max_msgs_per_subject;
    bool per_subject = (config->flags & STREAM_DISCARD_NEW_PER_SUBJECT) != 0;
    bool refused = per_subject && subject_full && entry->append->rollup == 0;
    bool replaces = group->alone && subject_full;
    if (group->alone && refused) {
        return APPEND_MAX_PER_SUBJECT;
    }
    if (config->max_msgs > 0 && log->messages + group->count >= (uint64_t)config->max_msgs && !replaces) {
        return APPEND_MAX_MSGS;
    }
    if (config->max_bytes > 0 && log->bytes + group->bytes + entry->bytes > (uint64_t)config->max_bytes) {
        append_verdict_t verdict = replaces ? takes_place_of_oldest(entry) : APPEND_MAX_BYTES;
        if (verdict != APPEND_STORED) {
            return verdict;
        }
    }
    return refused ? APPEND_MAX_PER_SUBJECT : APPEND_STORED;
}

/* A purge or a first sequence may put a stream at the end of its numbers. They never begin again: consumers and heads
 * rely on it, and on the number behind the last one. */
static bool in_range(uint64_t seq) {
    return seq != 0 && seq < UINT64_MAX;
}

/* Judges what does not depend on the content of the stream. */
static inline append_verdict_t admit_form(const entry_t *entry) {
    const append_t *append = entry->append;
    const store_stream_t *stream = entry->stream;
    const stream_config_t *config = &stream->config;
    uint64_t size = (uint64_t)append->header.size + append->payload.size;
    if ((config->flags & STREAM_SEALED) != 0) {
        return APPEND_SEALED;
    }
    /* The one gate of the store: what has passed it is a subject. Without one, sequences are skipped. */
    if (!subject_storable(append->subject) && !(append->skip && append->subject.size == 0)) {
        return APPEND_BAD_SUBJECT;
    }
    if (size + append->subject.size > room_message_max(stream->store) || append->subject.size > UINT16_MAX) {
        return APPEND_TOO_LARGE;
    }
    if (config->max_msg_size >= 0 && size > (uint64_t)config->max_msg_size) {
        return APPEND_TOO_LARGE;
    }
    if (append->header.size > HEADER_MAX) {
        return APPEND_HEADER_TOO_LARGE;
    }
    if (append->force_seq != 0 && append->force_seq <= stream->log.last_seq) {
        return APPEND_OUT_OF_ORDER;
    }
    if (append->source_key.size > KEY_RECORD_MAX - 4) {
        return APPEND_NO_SPACE;
    }
    return LEAF_UNLIKELY(stream->log.stopped) ? APPEND_STOPPED : in_range(entry->seq) ? APPEND_STORED : APPEND_NO_SPACE;
}

append_verdict_t store_append_form(store_stream_t *stream, const append_t *append) {
    const append_t anywhere = {.subject = append->subject, .header = append->header, .payload = append->payload};
    return admit_form(&(const entry_t){.stream = stream, .append = &anywhere, .seq = 1});
}

static inline bool is_duplicate(store_stream_t *stream, const append_t *append, int64_t age_now, appended_t *out) {
    if (append->msg_id.size == 0 || stream->config.duplicate_window_ns <= 0) {
        return false;
    }
    switch (dedupe_find(stream, append->msg_id, age_now, &out->seq)) {
    case READ_NONE: return false;
    case READ_FOUND: out->verdict = APPEND_DUPLICATE; break;
    case READ_UNKNOWN: out->verdict = APPEND_NO_SPACE; break;
    }
    return true;
}

static inline bool may_not_roll(const store_stream_t *stream, const append_t *append) {
    uint32_t flags = stream->config.flags;
    return append->rollup != 0 && ((flags & STREAM_ALLOW_ROLLUP) == 0 || (flags & STREAM_DENY_PURGE) != 0);
}

/* Finds the room for that much beside the ring: disk that the owner of the store grants, and memory. What a group has
 * agreed on is not refused where publishers are (room.h). */
static inline bool space_for(store_stream_t *stream, uint64_t messages, uint64_t born, uint64_t bytes, uint64_t times) {
    const store_t *store = stream->store;
    bool full = LEAF_UNLIKELY(store->trouble.space) && (!stream->timeline.own || store->trouble.last);
    return !full && !store->trouble.io
           && (store->options.max_bytes == 0 || store->sums.bytes + bytes <= store->options.max_bytes)
           && notes_reserve(stream, messages, born, times) == STATUS_OK;
}

static inline bool room_beside(const store_stream_t *stream, uint64_t need) {
    return stream->timeline.own ? room_for_agreed(stream->store, need) : room_for(stream->store, need);
}

static inline bool space_for_one(const entry_t *entry) {
    store_t *store = entry->stream->store;
    if (!space_for(entry->stream, 1, 0, entry->bytes, entry->times)) {
        return false;
    }
    uint64_t need = need_of(entry);
    return room_beside(entry->stream, need) || (room_widen_for(store, need) && room_beside(entry->stream, need));
}

/* Returns where its operation lies. */
static inline uint64_t put_in_batch(store_t *store, bytes_t key, uint64_t seq, const message_record_t *message) {
    uint64_t position, shared;
    bytes_t rest;
    if (sharing_holds(store, message, &rest, &shared)) {
        uint32_t head = message_head_size(seq, message);
        uint8_t *value = overlay_put_shared(store, key, head + OP_SHARES_SIZE, &position);
        message_write_head(value, key, message, rest);
        op_shares(value + head, shared, rest.size);
    } else {
        uint8_t *value = overlay_put(store, DB_MESSAGES, key, message_size(seq, message), false, &position);
        message_write(value, key, message);
    }
    return position;
}

static void write_message(entry_t *entry) {
    store_stream_t *stream = entry->stream;
    store_key_t key;
    key_message(&key, stream->id, entry->seq);
    uint64_t position = put_in_batch(stream->store, key_bytes(&key), entry->seq, &entry->message);
    head_t *head = &entry->head->head;
    if (head->count == 0) {
        head->first = entry->seq;
        log_subject_born(stream);
    }
    notes_message(stream, entry->seq, position, head->count == 0);
    head->last = entry->seq;
    head->count++;
    head_change(stream, entry->head);
}

static void write_source(entry_t *entry) {
    const append_t *append = entry->append;
    uint8_t at[KEY_MAX];
    uint8_t *end = at;
    store_be32(end, entry->stream->id);
    memcpy(end + 4, append->source_key.at, append->source_key.size);
    store_key_t key;
    key_record(&key, RECORD_SOURCE, bytes_of(at, 4 + append->source_key.size));
    uint8_t *value = overlay_put(entry->stream->store, DB_RECORDS, key_bytes(&key), VALUE_CRC_SIZE + 16, true, NULL);
    store_be64(value + VALUE_CRC_SIZE, append->source_seq);
    store_be64(value + VALUE_CRC_SIZE + 8, (uint64_t)append->source_ts);
    value_seal(key_bytes(&key), value, VALUE_CRC_SIZE + 16);
}

/* Notes an append that takes a sequence. */
static inline void append_note(entry_t *entry) {
    store_stream_t *stream = entry->stream;
    if (entry->append->msg_id.size > 0 && stream->config.duplicate_window_ns > 0) {
        dedupe_put(stream, entry->append->msg_id, entry->seq, entry->message.born);
    }
    if (entry->append->source_key.size > 0) {
        write_source(entry);
    }
}

static void append_skip(entry_t *entry) {
    log_skip(entry->stream, entry->seq, &entry->message, entry->append->msg_id);
    append_note(entry);
}

static void store_it(entry_t *entry, int64_t age_now, int64_t wall_now) {
    store_stream_t *stream = entry->stream;
    entry->message.previous = entry->head->head.count > 0 ? entry->head->head.last : 0;
    write_message(entry);
    log_append(stream, entry->seq, &entry->message, entry->append->msg_id, entry->bytes);
    append_note(entry);
    if (entry->append->expires_ts > 0) {
        int64_t left = entry->append->expires_ts - wall_now;
        expiry_write(stream, age_now + (left > 0 ? left : 0), entry->seq);
    }
    if (entry->append->due_ts > 0) {
        schedule_write(stream, entry->seq, entry->append->due_ts, wall_now);
    }
}

static void append_tell(const entry_t *entry) {
    store_stream_t *stream = entry->stream;
    const append_t *append = entry->append;
    const store_hooks_t *hooks = &stream->store->hooks;
    if (hooks->appended != NULL) {
        hooks->appended(hooks->context, stream, entry->seq, append->subject, log_text_bytes(&entry->message));
    }
    if (LEAF_UNLIKELY(stream->tallies != NULL)) {
        tallies_appended(stream, entry->seq, append->subject);
    }
    if (LEAF_UNLIKELY(stream->follows != NULL)) {
        follows_appended(stream, entry->seq, append->subject);
    }
}

/* Removes what a rollup takes out in one step. false: there is more. */
static bool append_roll(const entry_t *entry) {
    store_purge_t purge = {.filter = entry->append->rollup == 1 ? entry->append->subject : BYTES_NONE,
                           .below_seq = entry->seq,
                           .left = entry->seq};
    uint64_t purged;
    step_outcome_t step;
    status_t status = store_purge(entry->stream, &purge, &purged, &step);
    store_purge_end(&purge);
    switch (step) {
    case STEP_UNKNOWN: /* a job tries it again */
    case STEP_MORE: return false;
    case STEP_OVER: break;
    }
    return status == STATUS_OK;
}

/* before: messages of its group that come before it and are not in the stream yet. */
static inline void entry_begin(entry_t *entry, uint64_t before, int64_t age_now, int64_t wall_now) {
    const append_t *append = entry->append;
    const store_stream_t *stream = entry->stream;
    entry->seq = append->force_seq != 0 ? append->force_seq : stream->log.last_seq + before + 1;
    entry->message =
        (message_record_t){.subject = append->subject, .header = append->header, .payload = append->payload};
    int64_t ts = append->force_ts != 0 ? append->force_ts : wall_now;
    int64_t born = age_now;
    if (append->force_ts != 0 && append->force_ts < wall_now) {
        born -= wall_now - append->force_ts; /* a mirror's message has the age that it has at its origin */
    }
    entry->message.ts = ts < stream->log.last_ts ? stream->log.last_ts : ts;
    entry->message.born = born < stream->log.last_born ? stream->log.last_born : born;
    entry->message.flags = entry->stream->store->brief | (append->expires_ts < 0 ? MESSAGE_NEVER : 0);
    entry->message.flags |= append->due_ts != 0 ? MESSAGE_SCHEDULE : 0;
    entry->times = (append->expires_ts > 0 ? 1u : 0u) + (append->due_ts != 0 ? 1u : 0u);
    entry->message.flags |= (entry->stream->config.flags & STREAM_COMPRESS) != 0 ? MESSAGE_PACK : 0;
    entry->bytes = append->skip ? 0 : stream_message_bytes(stream, &entry->message);
}

status_t append_instead(store_stream_t *stream, const message_row_t *found, bytes_t header, int64_t ttl_ns,
                        uint32_t *steps) {
    int64_t age = stream_age(stream);
    int64_t wall = stream_wall(stream);
    append_t append = {.subject = found->message.subject, .header = header, .expires_ts = wall + ttl_ns};
    entry_t entry = {.stream = stream, .append = &append};
    entry_begin(&entry, 0, age, wall);
    entry.message.flags = stream->store->brief;
    status_t status = notes_reserve(stream, 1, 1, 1);
    status = status == STATUS_OK ? head_fetch(stream, append.subject, &entry.head) : status;
    if (status != STATUS_OK) {
        return status;
    }
    if (!in_range(entry.seq) || !overlay_fits(stream->store, need_of(&entry))) {
        return STATUS_FULL;
    }
    store_it(&entry, age, wall);
    append_tell(&entry);
    status = message_remove(stream, found, true, steps);
    check(status == STATUS_OK); /* it is not the last of its subject any more, whose head is in the cache */
    limits_appended(stream, LIMIT_OWN_REST);
    return STATUS_OK;
}

/* The head of the message's subject. A message by itself that is its subject's first finds the room for that, too: most
 * are not, and a thousand streams have many lists. */
static inline status_t admit_subject(entry_t *entry, const append_group_t *group) {
    head_entry_t *head; /* of its own: what is only known to this function stays in registers */
    status_t status = head_fetch(entry->stream, entry->append->subject, &head);
    entry->head = head;
    bool first = status == STATUS_OK && head->head.count == 0;
    return first && group->alone ? notes_reserve(entry->stream, 0, 1, 0) : status;
}

/* True if the subject is full, and the message that has to go for the new one is far from both ends. */
static inline bool is_over_reach(const entry_t *entry) {
    const stream_config_t *config = &entry->stream->config;
    return config->max_msgs_per_subject > 0 && entry->head->head.count >= (uint64_t)config->max_msgs_per_subject
           && entry->append->waits && !oldest_in_reach(entry->stream, entry->head);
}

/* Steps 2 to 16 of the reference's order that are the store's. true: it may be stored; false: *out says why not. */
static inline __attribute__((always_inline)) bool admit(entry_t *entry, append_group_t *group, uint64_t on_subject,
                                                        int64_t age_now, appended_t *out) {
    const append_t *append = entry->append;
    store_stream_t *stream = entry->stream;
    uint64_t last_seq = stream->log.last_seq + group->count;
    out->verdict = admit_form(entry);
    if (out->verdict != APPEND_STORED || (group->alone && !expectation_holds(stream, append, last_seq, group, out))
        || is_duplicate(stream, append, age_now, out)
        || (!group->alone && !expectation_holds(stream, append, last_seq, group, out))) {
        return false;
    }
    if (append->has_expected_msg_id && !bytes_equal(kept_id(append->expected_msg_id), log_last_id(&stream->log))) {
        out->last_msg_id = log_last_id(&stream->log);
        out->verdict = APPEND_WRONG_LAST_MSG_ID;
    } else if (may_not_roll(stream, append)) {
        out->verdict = APPEND_NO_ROLLUP;
    } else if (stream_lacks(stream, group->bytes + entry->bytes)) {
        /* The messages that a limit of the stream would take out for the new one are still there: as in the reference,
         * they make no room. */
        allowance_refuse(stream->store, stream->allowance);
        out->verdict = APPEND_NO_ALLOWANCE;
    } else if (group->alone && !space_for_one(entry)) {
        out->verdict = APPEND_NO_SPACE;
    } else if (!append->skip) {
        status_t status = admit_subject(entry, group);
        out->verdict = status != STATUS_OK           ? not_known(stream, append, group)
                       : is_over_reach(entry)        ? APPEND_LATER
                       : stream->config.discard == 1 ? discard_new(entry, group, on_subject)
                                                     : APPEND_STORED;
    }
    return out->verdict == APPEND_STORED;
}

/* Puts an entry that was admitted and has room. */
static inline void append_put(entry_t *entry, int64_t age_now, int64_t wall_now, appended_t *out) {
    out->seq = entry->seq;
    out->ts = entry->message.ts;
    if (entry->append->skip) {
        out->verdict = APPEND_SKIPPED;
        append_skip(entry);
    } else {
        store_it(entry, age_now, wall_now);
        append_tell(entry);
    }
}

static inline __attribute__((always_inline)) appended_t append_at(store_stream_t *stream, const append_t *append,
                                                                  int64_t age_now, int64_t wall_now) {
    append_group_t group = {.alone = true};
    entry_t entry = {.stream = stream, .append = append};
    appended_t out = {.verdict = APPEND_STORED};
    entry_begin(&entry, 0, age_now, wall_now);
    if (!admit(&entry, &group, 0, age_now, &out)) {
        return out;
    }
    append_put(&entry, age_now, wall_now, &out);
    if (LEAF_LIKELY(out.verdict == APPEND_STORED)) {
        if (stream->config.max_msgs_per_subject > 0) {
            limits_subject(stream, append->subject, LIMIT_OWN);
        }
        limits_appended(stream, LIMIT_OWN_REST);
        out.rolling = append->rollup != 0 && !append_roll(&entry) ? append->rollup : 0;
    }
    return out;
}

appended_t store_append(store_stream_t *stream, const append_t *append, moment_t now) {
    store_clock(stream->store, now);
    return append_at(stream, append, stream->store->clock.age, now.wall_ns);
}

appended_t store_append_timed(store_stream_t *stream, const append_t *append) {
    return append_at(stream, append, stream->timeline.age, stream->timeline.wall);
}

/* ---- appends that happen together -------------------------------------------------------------------------------- */

uint64_t store_group_need(uint32_t subject_size, uint64_t message_size) {
    return GROUP_SLACK + 3 * (uint64_t)subject_size + message_size;
}

static appended_t group_look_at(store_stream_t *stream, append_group_t *group, const append_t *append,
                                uint64_t on_subject, int64_t age_now, int64_t wall_now) {
    entry_t entry = {.stream = stream, .append = append};
    entry_begin(&entry, group->count, age_now, wall_now);
    if (group->count == 0) {
        heads_let_go(stream->store);
    }
    appended_t out = {.verdict = APPEND_STORED};
    if (admit(&entry, group, on_subject, age_now, &out)) {
        if (!append->skip) {
            heads_keep(&stream->store->heads, entry.head); /* appending has no need to load it, which can fail */
        }
        group->count++;
        group->bytes += entry.bytes;
        group->times += entry.times;
        group->need += GROUP_SLACK + need_of_one(&entry);
    }
    return out;
}

appended_t store_group_look(store_stream_t *stream, append_group_t *group, const append_t *append, uint64_t on_subject,
                            moment_t now) {
    store_clock(stream->store, now);
    return group_look_at(stream, group, append, on_subject, stream->store->clock.age, now.wall_ns);
}

appended_t store_group_look_timed(store_stream_t *stream, append_group_t *group, const append_t *append,
                                  uint64_t on_subject) {
    return group_look_at(stream, group, append, on_subject, stream->timeline.age, stream->timeline.wall);
}

void store_group_give_up(store_t *store) {
    room_want(store, 0);
}

status_t store_group_reserve(store_stream_t *stream, const append_group_t *group) {
    store_t *store = stream->store;
    uint64_t need = ROOM_EVICTION + STREAM_PROMISE + group->need;
    uint64_t most = stream->timeline.own ? room_agreed_most(store) : store_group_most(store);
    if (group->need > most || !space_for(stream, group->count, group->count, group->bytes, group->times)
        || overlay_reserve(store, (store->batches.promised + need) / NOTE_BYTES_MIN) != STATUS_OK) {
        return STATUS_FULL;
    }
    bool fits = room_beside(stream, need);
    room_want(store, fits ? 0 : need);
    return fits ? STATUS_OK : STATUS_AGAIN;
}

static appended_t group_append_at(store_stream_t *stream, const append_t *append, int64_t age_now, int64_t wall_now) {
    entry_t entry = {.stream = stream, .append = append};
    entry_begin(&entry, 0, age_now, wall_now);
    if (!append->skip) {
        head_entry_t *head;
        check(head_fetch(stream, append->subject, &head) == STATUS_OK); /* it was kept when it was looked at */
        entry.head = head;
    }
    appended_t out = {.verdict = APPEND_STORED};
    append_put(&entry, age_now, wall_now, &out);
    return out;
}

appended_t store_group_append(store_stream_t *stream, const append_t *append, moment_t now) {
    return group_append_at(stream, append, stream->store->clock.age, now.wall_ns);
}

appended_t store_group_append_timed(store_stream_t *stream, const append_t *append) {
    return group_append_at(stream, append, stream->timeline.age, stream->timeline.wall);
}

bool store_group_finish(store_stream_t *stream, const append_t *append, uint64_t seq) {
    entry_t entry = {.stream = stream, .append = append, .seq = seq};
    head_t head = {0};
    /* A group may have as many rollups as messages: each takes little of this tick. */
    bool short_one = true;
    read_outcome_t outcome = append->rollup != 1 ? READ_NONE : head_look(stream, append->subject, &head);
    switch (outcome) {
    case READ_UNKNOWN: short_one = false; break; /* a job goes on with it */
    case READ_NONE: break;
    case READ_FOUND: short_one = head.count <= GROUP_ROLL; break;
    }
    bool rolled = append->rollup == 0 || (short_one && append_roll(&entry));
    if (stream->config.max_msgs_per_subject > 0) {
        limits_subject(stream, append->subject, LIMIT_OWN_GROUP);
    }
    return rolled;
}

void store_group_end(store_stream_t *stream) {
    heads_let_go(stream->store);
    limits_appended(stream, LIMIT_OWN_REST);
}
