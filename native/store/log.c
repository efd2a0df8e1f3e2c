/* log.c: see log.h. Which message is first is asked of read.c, ops go into the overlay. append.c appends, limits.c
 * removes.
 */
#include "store/log.h"

#include "base/check.h"
#include "base/number.h"
#include "store/charge.h"
#include "store/core.h"
#include "store/message.h"
#include "store/overlay.h"
#include "store/reckon.h"

#define STATE_FIXED_SIZE (VALUE_CRC_SIZE + 7 * 8 + 2)
#define FIRST_STEPS 64 /* over deleted messages, when the first one goes: the rest in later turns */

_Static_assert(STREAM_PROMISE >= OP_HEADER_SIZE + 5 + LOG_STATE_MAX + OP_HEADER_SIZE + 2 * MESSAGE_KEY_SIZE,
               "closing a batch writes a state and a range for each touched stream");

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

void log_begin(log_t *log, uint64_t first_seq) {
    *log = (log_t){.first_seq = first_seq, .last_seq = first_seq - 1, .swept = first_seq, .last_born = INT64_MIN};
}

void log_key(store_key_t *key, uint32_t id) {
    uint8_t at[4];
    store_be32(at, id);
    key_record(key, RECORD_STATE, bytes_of(at, sizeof at));
}

uint32_t log_write(const log_t *log, bytes_t key, uint8_t *value) {
    const uint64_t numbers[] = {log->first_seq, log->last_seq,          log->messages,           log->bytes,
                                log->subjects,  (uint64_t)log->last_ts, (uint64_t)log->last_born};
    for (uint32_t i = 0; i < 7; i++) {
        store_be64(value + VALUE_CRC_SIZE + (size_t)8 * i, numbers[i]);
    }
    store_be16(value + STATE_FIXED_SIZE - 2, (uint16_t)log->last_id_size);
    memcpy(value + STATE_FIXED_SIZE, log->last_id, log->last_id_size);
    value_seal(key, value, STATE_FIXED_SIZE + log->last_id_size);
    return STATE_FIXED_SIZE + log->last_id_size;
}

status_t log_read_entry(log_t *log, bytes_t key, bytes_t value) {
    return value_sound(key, value) ? log_read(log, bytes_after(value, VALUE_CRC_SIZE)) : STATUS_CORRUPT;
}

status_t log_read(log_t *log, bytes_t value) {
    const uint32_t fixed = STATE_FIXED_SIZE - VALUE_CRC_SIZE;
    if (value.size < fixed || load_be16(value.at + fixed - 2) != value.size - fixed
        || value.size - fixed > LOG_ID_MAX) {
        return STATUS_CORRUPT;
    }
    *log = (log_t){.first_seq = load_be64(value.at),
                   .last_seq = load_be64(value.at + 8),
                   .messages = load_be64(value.at + 16),
                   .bytes = load_be64(value.at + 24),
                   .subjects = load_be64(value.at + 32),
                   .last_ts = (int64_t)load_be64(value.at + 40),
                   .last_born = (int64_t)load_be64(value.at + 48),
                   .last_id_size = value.size - fixed};
    memcpy(log->last_id, value.at + fixed, log->last_id_size);
    log->swept = log->first_seq;
    /* The first message may have been looked for when the store was closed. */
    log->first_open = log->messages > 0 && log->messages <= log->last_seq - log->first_seq;
    return STATUS_OK;
}

/* A log may have more subjects than messages: a damaged message that goes does not say which subject it was on. */
bool log_sound(const log_t *log) {
    return log->first_seq != 0 && log->last_seq < UINT64_MAX && log->first_seq - 1 <= log->last_seq
           && log->messages <= log->last_seq + 1 - log->first_seq
           && (log->messages > 0 || (log->bytes == 0 && log->first_seq == log->last_seq + 1))
           && log->swept <= log->first_seq && (!log->first_known || log->messages > 0);
}

static inline void log_advance(log_t *log, uint64_t seq, const message_record_t *message) {
    log->last_seq = seq;
    log->last_ts = message->ts;
    log->last_born = message->born;
}

void log_count(log_t *log, uint64_t seq, const message_record_t *message, bool new_subject) {
    log->messages++;
    log->bytes += log_message_bytes(0, message);
    log->subjects += new_subject;
    if (seq > log->last_seq) {
        log_advance(log, seq, message);
    }
}

void log_discount(log_t *log, const message_record_t *message) {
    log->messages -= log->messages > 0;
    log->bytes = number_less(log->bytes, log_message_bytes(0, message));
}

void log_lose_subject(log_t *log) {
    log->subjects -= log->subjects > 0;
}

void log_lose_subjects(log_t *log) {
    log->subjects = 0;
}

void log_follow(log_t *log, const log_t *said) {
    log->last_seq = said->last_seq;
    log->last_ts = said->last_ts;
    log->last_born = said->last_born;
    log->last_id_size = said->last_id_size;
    memcpy(log->last_id, said->last_id, said->last_id_size);
}

void log_set_first(log_t *log, uint64_t seq) {
    log->first_seq = seq;
}

void log_set_empty(log_t *log) {
    log->messages = log->bytes = 0;
    log->first_seq = log->last_seq + 1;
}

/* ---- the sums ---------------------------------------------------------------------------------------------------- */

/* All that an open stream's count of messages and bytes changes by, and with it the sums over it: of the store, and of
 * the allowance that it is charged to. */
static inline void log_gain(store_stream_t *stream, uint64_t messages, uint64_t bytes) {
    store_t *store = stream->store;
    allowance_t *allowance = stream->allowance;
    stream->log.messages += messages;
    stream->log.bytes += bytes;
    store->sums.messages += messages;
    store->sums.bytes += bytes;
    allowance->bytes += bytes * stream->copies;
    if (LEAF_UNLIKELY(allowance->bytes > allowance->near)) {
        allowance_turn(store, allowance, ALLOWANCE_LEVEL_NEAR);
    }
}

static inline void log_lose(store_stream_t *stream, uint64_t messages, uint64_t bytes) {
    store_t *store = stream->store;
    allowance_t *allowance = stream->allowance;
    stream->log.messages -= messages;
    stream->log.bytes -= bytes;
    store->sums.messages -= messages;
    store->sums.bytes -= bytes;
    allowance->bytes -= bytes * stream->copies;
    if (LEAF_UNLIKELY(allowance->bytes < allowance->clear)) {
        allowance_turn(store, allowance, ALLOWANCE_LEVEL_BELOW);
    }
}

bool stream_sound(const store_stream_t *stream) {
    return log_sound(&stream->log) && stream->promise.visible <= stream->log.last_seq;
}

/* Nothing is removed on the word of such numbers. First is 0 from here on: no message is hidden, and a start finds that
 * the numbers are not sound, whatever else they are. */
static void log_judge(store_stream_t *stream) {
    log_t *log = &stream->log;
    if (LEAF_LIKELY(log->stopped || stream_sound(stream))) {
        return;
    }
    log->stopped = true;
    stream->corrupt++;
    store_alarm(stream->store, ALARM_CORRUPT, stream->id, log->last_seq,
                "the numbers of stream %u contradict each other (sequences %llu to %llu, %llu messages, %llu bytes): "
                "it takes no more writes; \"leafd store salvage\" counts again",
                stream->id, (unsigned long long)log->first_seq, (unsigned long long)log->last_seq,
                (unsigned long long)log->messages, (unsigned long long)log->bytes);
    log->first_seq = 0;
    log->first_known = log->first_open = false;
}

void store_stream_stop(store_stream_t *stream, uint32_t consumer) {
    if (!stream->log.stopped) {
        stream->log.stopped = true;
        stream->corrupt++;
        store_alarm(
            stream->store, ALARM_CORRUPT, stream->id, stream->log.last_seq,
            "the position of consumer %u of stream %u contradicts itself: the stream takes no more writes until "
            "leafd is started again, from the last position that could be",
            consumer, stream->id);
    }
}

void log_join(store_stream_t *stream) {
    const log_t *log = &stream->log;
    stream->store->sums.messages += log->messages;
    stream->store->sums.bytes += log->bytes;
    stream->allowance->bytes += log->bytes * stream->copies;
    log_judge(stream);
}

void log_leave(store_stream_t *stream) {
    log_lose(stream, stream->log.messages, stream->log.bytes);
}

void log_settle(store_stream_t *stream) {
    log_t *log = &stream->log;
    store_t *store = stream->store;
    store_key_t key;
    log_judge(stream);
    if (log->first_seq > log->swept) { /* not where the numbers stopped it: then it is 0 */
        store_key_t to;
        key_message(&key, stream->id, log->swept);
        key_message(&to, stream->id, log->first_seq);
        overlay_delete_range(store, DB_MESSAGES, key_bytes(&key), key_bytes(&to));
        log->swept = log->first_seq;
    }
    log_key(&key, stream->id);
    check(overlay_reserve(store, 2) == STATUS_OK);
    uint8_t *value =
        overlay_put_again(store, DB_RECORDS, key_bytes(&key), STATE_FIXED_SIZE + log->last_id_size, &log->noted);
    (void)log_write(log, key_bytes(&key), value);
}

/* ---- growth ------------------------------------------------------------------------------------------------------ */

static inline void log_took(store_stream_t *stream, uint64_t seq, const message_record_t *message, bytes_t id) {
    log_t *log = &stream->log;
    stream_touch(stream);
    log_advance(log, seq, message);
    log->last_id_size = id.size < LOG_ID_MAX ? id.size : LOG_ID_MAX;
    if (id.size > 0) {
        memcpy(log->last_id, id.at, log->last_id_size);
    }
}

void log_append(store_stream_t *stream, uint64_t seq, const message_record_t *message, bytes_t id, uint64_t bytes) {
    log_t *log = &stream->log;
    log_took(stream, seq, message, id);
    if (log->messages == 0) {
        log->first_seq = seq;
        log->first_ts = message->ts;
        log->first_born = message->born;
        log->first_known = true;
    }
    log_gain(stream, 1, bytes);
}

void log_fill(store_stream_t *stream, uint64_t seq, const message_record_t *message, uint64_t bytes) {
    log_t *log = &stream->log;
    stream_touch(stream);
    if (log->messages == 0 || seq < log->first_seq) {
        log->first_seq = seq;
        log->first_ts = message->ts;
        log->first_born = message->born;
        log->first_known = true;
        log->swept = seq < log->swept ? seq : log->swept;
    }
    log_gain(stream, 1, bytes);
}

void log_skip(store_stream_t *stream, uint64_t seq, const message_record_t *message, bytes_t id) {
    log_took(stream, seq, message, id);
    if (stream->log.messages == 0) {
        stream->log.first_seq = seq + 1;
        stream->log.first_known = false;
    }
}

void log_copied(store_stream_t *stream, const log_t *said) {
    log_t *log = &stream->log;
    stream_touch(stream);
    log_follow(log, said);
    if (log->messages == 0) {
        log->first_seq = log->last_seq + 1;
        log->first_known = log->first_open = false;
    }
}

void log_subject_born(store_stream_t *stream) {
    stream->log.subjects++;
}

/* ---- removal, and the first sequence ----------------------------------------------------------------------------- */

static void alarm_lost(store_stream_t *stream, uint64_t count) {
    store_alarm(stream->store, ALARM_CORRUPT, stream->id, stream->log.last_seq,
                "stream %u has lost %llu messages: they are counted and not there", stream->id,
                (unsigned long long)count);
}

/* Before the first message others are counted, which are not there (records lost to damage): believe the room. */
static void believe_room(store_stream_t *stream) {
    const log_t *log = &stream->log;
    uint64_t room = log->last_seq + 1 - log->first_seq;
    if (LEAF_UNLIKELY(log->messages > room)) {
        alarm_lost(stream, log->messages - room);
        stream->corrupt++;
        log_lose(stream, log->messages - room, 0);
        reckon_disturb(stream);
    }
}

seek_outcome_t log_seek_first(store_stream_t *stream, uint32_t *steps) {
    log_t *log = &stream->log;
    message_row_t found;
    uint64_t from = log->first_seq;
    seek_outcome_t outcome = message_next_some(stream, &from, log->last_seq, false, steps, &found);
    bool open = log->first_open;
    log->first_known = false;
    switch (outcome) {
    case SEEK_UNKNOWN: return outcome;
    case SEEK_NONE: log->first_open = false; return outcome;
    case SEEK_MORE: break;
    case SEEK_FOUND:
        from = found.seq;
        log->first_known = found.sound;
        log->first_open = false;
        break;
    }
    if (open) {
        log->first_seq = from;
        believe_room(stream);
    }
    if (log->first_known) {
        log->first_ts = found.message.ts;
        log->first_born = found.message.born;
    }
    return outcome;
}

bool log_first_known(store_stream_t *stream) {
    uint32_t steps = FIRST_STEPS;
    if (stream->log.messages > 0 && !stream->log.first_known) {
        (void)!log_seek_first(stream, &steps);
    }
    return stream->log.messages > 0 && stream->log.first_known;
}

bool store_first_settled(const store_stream_t *stream) {
    return !stream->log.first_open;
}

static void log_lose_all(store_stream_t *stream) {
    log_t *log = &stream->log;
    stream_touch(stream);
    log_lose(stream, log->messages, log->bytes);
    log->first_known = log->first_open = false;
    log->first_seq = log->last_seq + 1;
    reckon_disturb(stream);
}

void log_reckoned(store_stream_t *stream, int64_t messages, int64_t bytes) {
    log_t *log = &stream->log;
    uint64_t less = messages > 0 ? number_least((uint64_t)messages, log->messages) : 0;
    uint64_t room = log->last_seq + 1 - log->first_seq - log->messages;
    if (less == log->messages) {
        log_lose_all(stream);
        return;
    }
    stream_touch(stream);
    log_lose(stream, less, bytes > 0 ? number_least((uint64_t)bytes, log->bytes) : 0);
    log_gain(stream, messages < 0 ? number_least((uint64_t)-messages, room) : 0, bytes < 0 ? (uint64_t)-bytes : 0);
}

void log_believe_empty(store_stream_t *stream) {
    if (stream->log.messages > 0) {
        alarm_lost(stream, stream->log.messages);
    }
    log_lose_all(stream);
}

void log_remove_all(store_stream_t *stream) {
    log_lose_all(stream);
    log_lose_subjects(&stream->log);
}

bool log_remove(store_stream_t *stream, uint64_t seq, uint64_t bytes, uint32_t *steps) {
    log_t *log = &stream->log;
    stream_touch(stream);
    log_lose(stream, 1, bytes > log->bytes || log->messages == 1 ? log->bytes : bytes);
    if (seq != log->first_seq && log->messages > 0) {
        return false;
    }
    log->first_known = false;
    log->first_open = log->messages > 0;
    log->first_seq = log->first_open ? seq + 1 : log->last_seq + 1;
    if (log->first_open) {
        uint32_t left = FIRST_STEPS;
        switch (log_seek_first(stream, &left)) {
        case SEEK_UNKNOWN:
        case SEEK_MORE:
        case SEEK_FOUND: break;
        case SEEK_NONE: log_believe_empty(stream); break;
        }
        if (LEAF_UNLIKELY(left < FIRST_STEPS - 1)) {
            *steps = (uint32_t)number_less(*steps, FIRST_STEPS - 1 - left);
        }
    }
    if (log->first_open) { /* very many deleted ones, or it is not known: first_seq is a lower bound until then */
        store_look_soon(stream->store);
    }
    return true;
}

void log_purged(store_stream_t *stream, uint64_t goes_on_at) {
    log_t *log = &stream->log;
    log->purged_empty = log->purged_empty || log->last_seq == 0;
    if (goes_on_at != 0) {
        stream_touch(stream);
        log->last_seq = goes_on_at - 1;
        log->first_seq = goes_on_at;
        log->first_known = false;
    }
}
