/* append.c: one message in. Decides in the reference's order (tests/wire/jetstream.md, "Publishing"), then writes:
 * message, ids, expiry, source progress into the open batch, head and counters for when it closes, limits last.
 */
#include <stdlib.h>

#include "base/check.h"
#include "base/number.h"
#include "text/subject.h"
#include "store/dedupe.h"
#include "store/sums.h"
#include "store/append.h"
#include "store/follow.h"
#include "store/message.h"
#include "store/overlay.h"

#define HEADER_MAX 65535
#define NEED_MORE (UINT64_C(32) * 1024) /* what a message needs beside its own bytes, at most: need_of */
#define EVICTION_SLACK 8192             /* room for what the limits will write in the same call */
#define GROUP_ROLL 64                   /* messages that a rollup of a group takes out at once */
#define GROUP_SLACK 256                 /* each of a group's own: ops' headers, keys, its subject's head */
#define GROUP_SEARCHES 1                /* of expectations with wildcards, in one turn */

typedef struct entry {
    store_stream_t *stream;
    const append_t *append;
    message_record_t message;
    uint64_t seq;
    uint32_t times; /* entries in the index by time */
    uint64_t bytes;
    head_entry_t *head;
} entry_t;

static appended_t append_refused(append_verdict_t verdict) {
    return (appended_t){.verdict = verdict};
}

/* What is expected of a subject, or of all that a pattern matches, is held against this. */
static status_t newest_expected(store_stream_t *stream, const append_t *append, append_group_t *group,
                                uint64_t *actual) {
    bytes_t subject = append->expected_subject.size > 0 ? append->expected_subject : append->subject;
    bool at_once = group == NULL && !append->waits;
    if (stream->messages == 0 || at_once || !subject_has_wildcard(subject)) {
        return subjects_last(stream, subject, actual);
    }
    uint32_t searches = group == NULL ? 1 : (uint32_t)number_less(GROUP_SEARCHES, group->searched);
    uint32_t left = searches;
    status_t status = follow_newest(stream, subject, &left, group != NULL, actual);
    if (group != NULL) {
        group->searched += searches - left;
    }
    return status;
}

/* last_seq: of the message before it, which may be one that is about to be appended. */
static inline bool expectation_holds(store_stream_t *stream, const append_t *append, uint64_t last_seq,
                                     append_group_t *group, appended_t *out) {
    if (append->has_expected_subject_seq) {
        uint64_t actual = 0;
        status_t status = newest_expected(stream, append, group, &actual);
        if (status != STATUS_OK) {
            *out = append_refused(status == STATUS_AGAIN ? APPEND_LATER : APPEND_NO_SPACE);
            return false;
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

static bytes_t last_id(const store_stream_t *stream) {
    return bytes_of(stream->last_id, stream->last_id_size);
}

static bytes_t kept_id(bytes_t id) {
    return bytes_of(id.at, id.size < STORE_LAST_ID_MAX ? id.size : STORE_LAST_ID_MAX);
}

/* Beside what one call needs, however many it appends. */
static uint64_t need_of_one(const entry_t *entry) {
    const append_t *append = entry->append;
    uint64_t need = message_size(&entry->message) + 2 * (uint64_t)append->subject.size;
    need += append->msg_id.size > 0 ? dedupe_need(append->msg_id) : 0;
    need += append->due_ts != 0 ? SCHEDULE_NEED : 0;
    need += append->source_key.size > 0 ? 64 + (uint64_t)append->source_key.size : 0;
    return need;
}

static uint64_t need_of(const entry_t *entry) {
    return EVICTION_SLACK + STREAM_PROMISE + need_of_one(entry);
}

/* Discard new: would the message break a limit? Being one more on a subject that is full makes room by itself (old
 * goes, new comes). */
static append_verdict_t discard_new(const entry_t *entry) {
    const stream_config_t *config = &entry->stream->config;
    const store_stream_t *stream = entry->stream;
    bool subject_full =
        config->max_msgs_per_subject > 0 && entry->head->head.count >= (uint64_t)config->max_msgs_per_subject;
    bool per_subject = (config->flags & STREAM_DISCARD_NEW_PER_SUBJECT) != 0;
    if (per_subject && subject_full && entry->append->rollup == 0) {
        return APPEND_MAX_PER_SUBJECT;
    }
    if (config->max_msgs > 0 && stream->messages >= (uint64_t)config->max_msgs && !subject_full) {
        return APPEND_MAX_MSGS;
    }
    if (config->max_bytes > 0 && stream->bytes + entry->bytes > (uint64_t)config->max_bytes) {
        found_t oldest;
        status_t status = STATUS_NOT_FOUND;
        head_t head = entry->head->head;
        uint32_t steps = STORE_STEP;
        if (!subject_full
            || (status = subject_oldest(entry->stream, &head, entry->append->subject, &steps, &oldest)) != STATUS_OK) {
            return status == STATUS_IO || status == STATUS_NO_MEMORY ? APPEND_NO_SPACE : APPEND_MAX_BYTES;
        }
        if (stream_message_bytes(stream, &oldest.message) < entry->bytes) {
            return APPEND_MAX_BYTES;
        }
    }
    return APPEND_STORED;
}

/* What a batch can hold at all, so that a message that never fits is not told to come again. */
static uint64_t message_max(const store_t *store) {
    return number_least(sizes_message_max(store->batches.size), STORE_MESSAGE_MAX);
}

/* A purge or a first sequence may put a stream at the end of its numbers. They never begin again: consumers and heads
 * rely on it, and on the number behind the last one. */
static bool in_range(uint64_t seq) {
    return seq != 0 && seq < UINT64_MAX;
}

/* What does not depend on what the stream holds. */
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
    if (size + append->subject.size > message_max(stream->store) || append->subject.size > UINT16_MAX) {
        return APPEND_TOO_LARGE;
    }
    if (config->max_msg_size >= 0 && size > (uint64_t)config->max_msg_size) {
        return APPEND_TOO_LARGE;
    }
    if (append->header.size > HEADER_MAX) {
        return APPEND_HEADER_TOO_LARGE;
    }
    if (append->force_seq != 0 && append->force_seq <= stream->last_seq) {
        return APPEND_OUT_OF_ORDER;
    }
    return LEAF_UNLIKELY(stream->stopped) ? APPEND_STOPPED : in_range(entry->seq) ? APPEND_STORED : APPEND_NO_SPACE;
}

static inline bool is_duplicate(store_stream_t *stream, const append_t *append, int64_t age_now, appended_t *out) {
    if (append->msg_id.size == 0 || stream->config.duplicate_window_ns <= 0) {
        return false;
    }
    status_t status = dedupe_find(stream, append->msg_id, age_now, &out->seq);
    if (LEAF_LIKELY(status == STATUS_NOT_FOUND)) {
        return false;
    }
    out->verdict = status == STATUS_OK ? APPEND_DUPLICATE : APPEND_NO_SPACE; /* or it is not known */
    return true;
}

static inline bool may_not_roll(const store_stream_t *stream, const append_t *append) {
    uint32_t flags = stream->config.flags;
    return append->rollup != 0 && ((flags & STREAM_ALLOW_ROLLUP) == 0 || (flags & STREAM_DENY_PURGE) != 0);
}

/* Steps 2 to 16 of the reference's order that are the store's. */
static bool append_admit(entry_t *entry, int64_t age_now, appended_t *out) {
    const append_t *append = entry->append;
    store_stream_t *stream = entry->stream;
    *out = append_refused(admit_form(entry));
    if (out->verdict != APPEND_STORED || !expectation_holds(stream, append, stream->last_seq, NULL, out)) {
        return false;
    }
    if (is_duplicate(stream, append, age_now, out)) {
        return false;
    }
    if (append->has_expected_msg_id && !bytes_equal(kept_id(append->expected_msg_id), last_id(stream))) {
        *out = (appended_t){.verdict = APPEND_WRONG_LAST_MSG_ID, .last_msg_id = last_id(stream)};
        return false;
    }
    if (may_not_roll(stream, append)) {
        out->verdict = APPEND_NO_ROLLUP;
        return false;
    }
    return true;
}

/* How much may be taken so that one more message of any size finds room: in the ring, and in the open batch. Asked
 * after each message, so it is one position, which holds until the open batch is another or something was freed. */
void append_measure_room(store_t *store) {
    const batches_t *batches = &store->batches;
    store->holds = number_least(store->admits, number_least(store->resident, batches->room) / 8 * 7);
    if (store->space_trouble || store->io_trouble) {
        store->room_end = UINT64_MAX; /* publishers are to hear that they are refused, not to hang */
        return;
    }
    /* Larger ones than a batch can hold at all are refused: room is not kept for them, or there would never be any. */
    uint64_t largest = number_least(store->options.message_max, message_max(store));
    uint64_t one = number_least(number_most(largest + NEED_MORE, store->wanted), store->holds / 2);
    uint64_t open = number_less(batches->room / 2 - batches->room / SIZES_RESERVE_PART, one);
    uint64_t used = number_least(store->holds / 7 * 6, store->holds - one);
    store->room_end = number_least(batches->begin + number_least(open, store->holds / 7), batches->freed + used);
}

/* Is there no room for it in the owner's allowance? What a limit of the stream would take out for it is still there: as
 * in the reference, that makes no room. */
static inline bool lacks_allowance(const entry_t *entry, uint64_t bytes) {
    store_stream_t *stream = entry->stream;
    if (LEAF_LIKELY(!allowance_lacks(stream->allowance, bytes))) {
        return false;
    }
    allowance_refuse(stream->store, stream->allowance);
    return true;
}

/* In the ring, which disk (space.h) and memory may not be large enough to have filled. */
static bool has_room(store_t *store, uint64_t need) {
    return batches_used(&store->batches) + store->batches.promised + need <= store->holds
           && overlay_fits(store, need + store->batches.room / SIZES_RESERVE_PART);
}

static bool space_for(const entry_t *entry) {
    store_t *store = entry->stream->store;
    if (store->space_trouble || store->io_trouble
        || (store->options.max_bytes != 0 && store->bytes + entry->bytes > store->options.max_bytes)
        || stream_notes_reserve(entry->stream, 1, entry->times) != STATUS_OK) {
        return false;
    }
    uint64_t need = need_of(entry);
    return has_room(store, need) || (store_widen_for(store, need) && has_room(store, need));
}

static void write_message(entry_t *entry) {
    store_stream_t *stream = entry->stream;
    store_t *store = stream->store;
    store_key_t key;
    uint64_t position;
    key_message(&key, stream->id, entry->seq);
    uint8_t *value = overlay_put(store, DB_MESSAGES, key_bytes(&key), message_size(&entry->message), false, &position);
    message_write(value, key_bytes(&key), &entry->message);
    places_push(&stream->places, entry->seq, position);
    head_t *head = &entry->head->head;
    if (head->count == 0) {
        head->first = entry->seq;
        stream->subjects++;
        births_push(&stream->births, position);
    }
    head->last = entry->seq;
    head->count++;
    head_change(stream, entry->head);
}

void expiry_write(store_stream_t *stream, int64_t expires, uint64_t seq) {
    store_key_t key;
    uint64_t position;
    key_expiry(&key, stream->id, expires, seq);
    uint8_t *value = overlay_put(stream->store, DB_EXPIRY, key_bytes(&key), VALUE_CRC_SIZE, false, &position);
    value_seal(key_bytes(&key), value, VALUE_CRC_SIZE);
    expiries_push(&stream->expiries, (expiry_t){.expires = expires, .seq = seq, .position = position});
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

static void append_advance(entry_t *entry) {
    store_stream_t *stream = entry->stream;
    bytes_t id = kept_id(entry->append->msg_id);
    stream_touch(stream);
    stream->last_seq = entry->seq;
    stream->last_ts = entry->message.ts;
    stream->last_born = entry->message.born;
    stream->last_id_size = id.size;
    if (id.size > 0) {
        memcpy(stream->last_id, id.at, id.size);
    }
    if (entry->append->msg_id.size > 0 && stream->config.duplicate_window_ns > 0) {
        dedupe_put(stream, entry->append->msg_id, entry->seq, entry->message.born);
    }
    if (entry->append->source_key.size > 0) {
        write_source(entry);
    }
}

static void append_skip(entry_t *entry) {
    store_stream_t *stream = entry->stream;
    append_advance(entry);
    if (stream->messages == 0) {
        stream->first_seq = entry->seq + 1;
        stream->first_known = false;
    }
}

static void store_it(entry_t *entry, int64_t age_now, int64_t wall_now) {
    store_stream_t *stream = entry->stream;
    entry->message.previous = entry->head->head.count > 0 ? entry->head->head.last : 0;
    write_message(entry);
    append_advance(entry);
    if (stream->messages == 0) {
        stream->first_seq = entry->seq;
        stream->first_ts = entry->message.ts;
        stream->first_born = entry->message.born;
        stream->first_known = true;
    }
    stream_gain(stream, 1, entry->bytes);
    if (entry->append->expires_ts > 0) {
        int64_t left = entry->append->expires_ts - wall_now;
        expiry_write(stream, age_now + (left > 0 ? left : 0), entry->seq);
    }
    if (entry->append->due_ts != 0) {
        schedule_write(stream, entry->seq, entry->append->due_ts, wall_now);
    }
}

static void append_tell(const entry_t *entry) {
    store_stream_t *stream = entry->stream;
    const append_t *append = entry->append;
    store_hooks_t *hooks = &stream->store->hooks;
    if (hooks->appended != NULL) {
        hooks->appended(hooks->context, stream, entry->seq, append->subject);
    }
    if (LEAF_UNLIKELY(stream->tallies != NULL)) {
        tallies_appended(stream, entry->seq, append->subject);
    }
    if (LEAF_UNLIKELY(stream->follows != NULL)) {
        follows_appended(stream, entry->seq, append->subject);
    }
}

static void append_after(entry_t *entry) {
    store_stream_t *stream = entry->stream;
    const append_t *append = entry->append;
    append_tell(entry);
    if (stream->config.max_msgs_per_subject > 0) {
        limits_subject(stream, append->subject, LIMIT_OWN);
    }
    limits_appended(stream, LIMIT_OWN_REST);
}

/* What a rollup takes out in one step. false: there is more. */
static bool append_roll(const entry_t *entry) {
    store_purge_t purge = {.filter = entry->append->rollup == 1 ? entry->append->subject : BYTES_NONE,
                           .below_seq = entry->seq,
                           .left = entry->seq};
    uint64_t purged;
    bool more = false;
    status_t status = store_purge(entry->stream, &purge, &purged, &more);
    store_purge_end(&purge);
    return status == STATUS_OK && !more;
}

status_t append_instead(store_stream_t *stream, const found_t *found, bytes_t header, int64_t ttl_ns) {
    const clockwork_t *clock = &stream->store->clock;
    append_t append = {.subject = found->message.subject, .header = header, .expires_ts = clock->wall + ttl_ns};
    entry_t entry = {.stream = stream, .append = &append, .seq = stream->last_seq + 1};
    entry.message = (message_record_t){.subject = append.subject, .header = header};
    entry.message.ts = clock->wall < stream->last_ts ? stream->last_ts : clock->wall;
    entry.message.born = clock->age < stream->last_born ? stream->last_born : clock->age;
    entry.bytes = stream_message_bytes(stream, &entry.message);
    status_t status = stream_notes_reserve(stream, 1, 1);
    status = status == STATUS_OK ? head_fetch(stream, append.subject, &entry.head) : status;
    if (status != STATUS_OK) {
        return status;
    }
    if (!in_range(entry.seq) || !overlay_fits(stream->store, need_of(&entry))) {
        return STATUS_FULL;
    }
    store_it(&entry, clock->age, clock->wall);
    append_tell(&entry);
    status = message_remove(stream, found, true);
    check(status == STATUS_OK); /* it is not the last of its subject any more, whose head is in the cache */
    limits_appended(stream, LIMIT_OWN_REST);
    return STATUS_OK;
}

static inline void entry_begin(entry_t *entry, int64_t age_now, int64_t wall_now) {
    const append_t *append = entry->append;
    const store_stream_t *stream = entry->stream;
    entry->message =
        (message_record_t){.subject = append->subject, .header = append->header, .payload = append->payload};
    int64_t ts = append->force_ts != 0 ? append->force_ts : wall_now;
    int64_t born = age_now;
    if (append->force_ts != 0 && append->force_ts < wall_now) {
        born -= wall_now - append->force_ts; /* a mirror's message has the age that it has at its origin */
    }
    entry->message.ts = ts < stream->last_ts ? stream->last_ts : ts;
    entry->message.born = born < stream->last_born ? stream->last_born : born;
    entry->message.flags = append->expires_ts < 0 ? MESSAGE_NEVER : 0;
    entry->message.flags |= append->due_ts != 0 ? MESSAGE_SCHEDULE : 0;
    entry->times = (append->expires_ts > 0 ? 1u : 0u) + (append->due_ts != 0 ? 1u : 0u);
    entry->message.flags |= (entry->stream->config.flags & STREAM_COMPRESS) != 0 ? MESSAGE_PACK : 0;
    entry->bytes = append->skip ? 0 : stream_message_bytes(stream, &entry->message);
}

/* Its subject is full, and the one that has to go for it is far from both ends. */
static inline bool is_over_reach(const entry_t *entry) {
    const stream_config_t *config = &entry->stream->config;
    return config->max_msgs_per_subject > 0 && entry->head->head.count >= (uint64_t)config->max_msgs_per_subject
           && entry->append->waits && !oldest_in_reach(entry->stream, entry->head);
}

appended_t store_append(store_stream_t *stream, const append_t *append, moment_t now) {
    store_clock(stream->store, now);
    int64_t age_now = stream->store->clock.age;
    entry_t entry = {.stream = stream, .append = append};
    entry.seq = append->force_seq != 0 ? append->force_seq : stream->last_seq + 1;
    entry_begin(&entry, age_now, now.wall_ns);
    appended_t out;
    if (append->source_key.size > KEY_RECORD_MAX - 4 || !append_admit(&entry, age_now, &out)) {
        return append->source_key.size > KEY_RECORD_MAX - 4 ? append_refused(APPEND_NO_SPACE) : out;
    }
    if (lacks_allowance(&entry, entry.bytes)) {
        return append_refused(APPEND_NO_ALLOWANCE);
    }
    if (!space_for(&entry)) {
        return append_refused(APPEND_NO_SPACE);
    }
    out = (appended_t){.verdict = APPEND_SKIPPED, .seq = entry.seq, .ts = entry.message.ts};
    if (append->skip) {
        append_skip(&entry);
        return out;
    }
    head_entry_t *head; /* of its own: what is only known to this function stays in registers */
    status_t status = head_fetch(stream, append->subject, &head);
    entry.head = head;
    if (LEAF_UNLIKELY(status == STATUS_OK && is_over_reach(&entry))) {
        return append_refused(APPEND_LATER);
    }
    out.verdict = status != STATUS_OK           ? APPEND_NO_SPACE
                  : stream->config.discard == 1 ? discard_new(&entry)
                                                : APPEND_STORED;
    if (out.verdict != APPEND_STORED) {
        return append_refused(out.verdict);
    }
    store_it(&entry, age_now, now.wall_ns);
    append_after(&entry);
    out.rolling = append->rollup != 0 && !append_roll(&entry) ? append->rollup : 0;
    return out;
}

/* ---- several at once --------------------------------------------------------------------------------------------- */

uint64_t store_group_most(const store_t *store) {
    uint64_t most =
        number_least(message_max(store) + NEED_MORE, number_least(store->admits, store->resident / 8 * 7) / 2);
    return number_less(most, EVICTION_SLACK + STREAM_PROMISE);
}

uint64_t store_group_need(uint32_t subject_size, uint64_t message_size) {
    return GROUP_SLACK + 3 * (uint64_t)subject_size + message_size;
}

/* As the reference does it for batches: a full subject makes no room here. */
static append_verdict_t discard_group(const entry_t *entry, const append_group_t *group, uint64_t on_subject) {
    const store_stream_t *stream = entry->stream;
    const stream_config_t *config = &stream->config;
    if (config->max_msgs > 0 && stream->messages + group->count + 1 > (uint64_t)config->max_msgs) {
        return APPEND_MAX_MSGS;
    }
    if (config->max_bytes > 0 && stream->bytes + group->bytes + entry->bytes > (uint64_t)config->max_bytes) {
        return APPEND_MAX_BYTES;
    }
    bool per_subject = (config->flags & STREAM_DISCARD_NEW_PER_SUBJECT) != 0 && config->max_msgs_per_subject > 0;
    if (per_subject && entry->append->rollup == 0
        && entry->head->head.count + on_subject + 1 > (uint64_t)config->max_msgs_per_subject) {
        return APPEND_MAX_PER_SUBJECT;
    }
    return APPEND_STORED;
}

appended_t store_group_look(store_stream_t *stream, append_group_t *group, const append_t *append, uint64_t on_subject,
                            moment_t now) {
    store_clock(stream->store, now);
    int64_t age_now = stream->store->clock.age;
    uint64_t last_seq = stream->last_seq + group->count;
    entry_t entry = {.stream = stream, .append = append, .seq = last_seq + 1};
    entry_begin(&entry, age_now, now.wall_ns);
    appended_t out = append_refused(admit_form(&entry));
    if (out.verdict != APPEND_STORED) {
        return out;
    }
    if (is_duplicate(stream, append, age_now, &out)) {
        return out;
    }
    if (!expectation_holds(stream, append, last_seq, group, &out)) {
        return out;
    }
    if (may_not_roll(stream, append)) {
        return append_refused(APPEND_NO_ROLLUP);
    }
    if (lacks_allowance(&entry, group->bytes + entry.bytes)) {
        return append_refused(APPEND_NO_ALLOWANCE);
    }
    /* it is in the cache from now on: appending has no need to load it */
    status_t status = head_fetch(stream, append->subject, &entry.head);
    out.verdict = status != STATUS_OK           ? APPEND_NO_SPACE
                  : stream->config.discard == 1 ? discard_group(&entry, group, on_subject)
                                                : APPEND_STORED;
    if (out.verdict == APPEND_STORED) {
        group->count++;
        group->bytes += entry.bytes;
        group->times += entry.times;
        group->need += GROUP_SLACK + need_of_one(&entry);
    }
    return out;
}

static void group_want(store_t *store, uint64_t need) {
    if (store->wanted != need) {
        store->wanted = need;
        append_measure_room(store);
    }
}

void store_group_give_up(store_t *store) {
    group_want(store, 0);
}

status_t store_group_reserve(store_stream_t *stream, const append_group_t *group) {
    store_t *store = stream->store;
    uint64_t need = EVICTION_SLACK + STREAM_PROMISE + group->need;
    if (store->space_trouble || store->io_trouble || group->need > store_group_most(store)
        || (store->options.max_bytes != 0 && store->bytes + group->bytes > store->options.max_bytes)
        || stream_notes_reserve(stream, group->count, group->times) != STATUS_OK
        || memtable_reserve(&store->memtable, (store->batches.promised + need) / NOTE_BYTES_MIN) != STATUS_OK) {
        return STATUS_FULL;
    }
    bool fits = has_room(store, need);
    group_want(store, fits ? 0 : need);
    return fits ? STATUS_OK : STATUS_AGAIN;
}

appended_t store_group_append(store_stream_t *stream, const append_t *append, moment_t now) {
    entry_t entry = {.stream = stream, .append = append, .seq = stream->last_seq + 1};
    int64_t age_now = stream->store->clock.age;
    entry_begin(&entry, age_now, now.wall_ns);
    appended_t out = {.verdict = APPEND_SKIPPED, .seq = entry.seq, .ts = entry.message.ts};
    if (append->skip) {
        append_skip(&entry);
        return out;
    }
    head_entry_t *head;
    status_t status = head_fetch(stream, append->subject, &head);
    entry.head = head;
    check(status == STATUS_OK); /* without memory the process ends, and with it all of the group */
    store_it(&entry, age_now, now.wall_ns);
    append_tell(&entry);
    out.verdict = APPEND_STORED;
    return out;
}

bool store_group_finish(store_stream_t *stream, const append_t *append, uint64_t seq) {
    entry_t entry = {.stream = stream, .append = append, .seq = seq};
    head_t head = {0};
    /* A group may have as many rollups as messages: each takes little of this tick. */
    bool short_one = append->rollup != 1;
    if (!short_one) {
        status_t status = head_look(stream, append->subject, &head);
        short_one = status == STATUS_NOT_FOUND || (status == STATUS_OK && head.count <= GROUP_ROLL);
    }
    bool rolled = append->rollup == 0 || (short_one && append_roll(&entry));
    if (stream->config.max_msgs_per_subject > 0) {
        limits_subject(stream, append->subject, LIMIT_OWN_GROUP);
    }
    return rolled;
}

void store_group_end(store_stream_t *stream) {
    limits_appended(stream, LIMIT_OWN_REST);
}
