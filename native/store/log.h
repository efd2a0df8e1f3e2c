/* log.h: the log of a stream: its numbers, and all that changes them. Only log.c writes to a log_t (tests/tidy.py); the
 * others read it.
 *
 *     first_seq                                              last_seq
 *        | message | message | (deleted) | message | (skipped) | message |     messages = 4
 *     what was below first_seq is removed by one range, when the batch closes (`swept`)
 *
 * The numbers are exact at every moment, the open batch included; an empty stream has first_seq == last_seq + 1. They
 * are in the batch that changed them, as one record:
 *
 *     RECORD_STATE, key = stream id (after crc 4): first 8, last 8, messages 8, bytes 8, subjects 8, last ts 8,
 *     last born 8, last message id size 2, last message id. Absolute, one per touched stream and batch.
 */
#ifndef LEAFD_STORE_LOG_H
#define LEAFD_STORE_LOG_H

#include "base/bytes.h"
#include "base/status.h"
#include "disk/keys.h"
#include "store/store.h"

#define LOG_ID_MAX 512
#define LOG_STATE_MAX (VALUE_CRC_SIZE + 7 * 8 + 2 + LOG_ID_MAX)

typedef struct log { /* only log.c writes to it */
    uint64_t messages;
    uint64_t bytes;
    uint64_t first_seq;
    uint64_t last_seq;
    uint64_t subjects;
    int64_t last_ts; /* of the last message: the next one is not older */
    int64_t last_born;
    int64_t first_ts; /* of the first message, when first_known */
    int64_t first_born;
    uint64_t noted; /* where the overlay has the record of them, 0 = not known */
    uint64_t swept; /* below this the batches so far have removed everything */
    bool first_known;
    bool first_open; /* no message is below first_seq, but it may have none either: the first one is being looked for */
    bool stopped;    /* its numbers (log_sound), or a consumer's, contradict each other: nothing is written any more */
    bool purged_empty; /* purged before it had a message: the reference then says first 1, not 0 */
    uint32_t last_id_size;
    uint8_t last_id[LOG_ID_MAX]; /* the message id of the last message, or its beginning */
} log_t;

/* Over all streams of a store. */
typedef struct sums { /* only log.c writes to it */
    uint64_t messages;
    uint64_t bytes;
} sums_t;

/* ---- numbers without a stream: what a start, a look and salvage have --------------------------------------------- */

void log_begin(log_t *log, uint64_t first_seq); /* empty; the first message gets that sequence */
void log_key(store_key_t *key, uint32_t id);
/* value has room for LOG_STATE_MAX bytes; returns how many it took. Read: what is behind the crc. */
uint32_t log_write(const log_t *log, bytes_t key, uint8_t *value);
LEAF_MUST_USE status_t log_read(log_t *log, bytes_t value);
LEAF_MUST_USE status_t log_read_entry(log_t *log, bytes_t key,
                                      bytes_t value); /* value: with its crc, which is judged */
/* Do the numbers fit together, as they do after every operation? */
bool log_sound(const log_t *log);
static inline uint64_t log_text_bytes(const message_record_t *message) {
    return (uint64_t)message->subject.size + message->header.size + message->payload.size;
}
/* As the reference counts a message's bytes in a stream of that storage (stream_config_t). */
static inline uint64_t log_message_bytes(uint8_t storage, const message_record_t *message) {
    return log_text_bytes(message) + (storage != 0 ? 16 : message->header.size > 0 ? 34 : 30);
}
/* Counted again, message by message. */
void log_count(log_t *log, uint64_t seq, const message_record_t *message, bool new_subject);
void log_discount(log_t *log, const message_record_t *message);
void log_lose_subject(log_t *log);
void log_lose_subjects(log_t *log); /* all of them */
/* Up to where sequences, stamps and ids were given out, as `said` has it; its counters are not taken. */
void log_follow(log_t *log, const log_t *said);
void log_set_first(log_t *log, uint64_t seq);
void log_set_empty(log_t *log);

/* ---- the log of an open stream ----------------------------------------------------------------------------------- */

void log_join(store_stream_t *stream); /* its numbers are part of the sums from now on, and judged */
void log_leave(store_stream_t *stream);
/* One more message, behind the last one. id: its message id, empty = none. */
void log_append(store_stream_t *stream, uint64_t seq, const message_record_t *message, bytes_t id, uint64_t bytes);
/* One more message, in front of others. */
void log_fill(store_stream_t *stream, uint64_t seq, const message_record_t *message, uint64_t bytes);
/* A sequence without a message. */
void log_skip(store_stream_t *stream, uint64_t seq, const message_record_t *message, bytes_t id);
/* A message less. true: it was the first, and the next one is looked for, in steps of which some are spent here; false:
 * its op is the caller's. */
bool log_remove(store_stream_t *stream, uint64_t seq, uint64_t bytes, uint32_t *steps);
/* It has got what another one has, whose numbers these are. */
void log_copied(store_stream_t *stream, const log_t *said);
/* It was counted again: so much too many were its messages and bytes. */
void log_reckoned(store_stream_t *stream, int64_t messages, int64_t bytes);
void log_subject_born(store_stream_t *stream);
/* All of them at once, and their subjects: the heads are the caller's. */
void log_remove_all(store_stream_t *stream);
/* Sets the count to nothing for messages that were counted and are nowhere: only a caller that has looked at all of the
 * stream and heard STATUS_NOT_FOUND may do so. */
void log_believe_empty(store_stream_t *stream);
/* All is purged. goes_on_at: the sequence that the next message gets, beyond the end; 0 = the one behind the last. */
void log_purged(store_stream_t *stream, uint64_t goes_on_at);
/* Do its numbers fit together? Where not, its next batch stops its writes. */
bool stream_sound(const store_stream_t *stream);
/* Judges the numbers; then they and the range below the first message go into the batch. */
void log_settle(store_stream_t *stream);
/* Makes first_ts and first_born known; false: empty, or not known now. */
bool log_first_known(store_stream_t *stream);
/* Looks for the first message from first_seq on (first_open). */
LEAF_MUST_USE seek_outcome_t log_seek_first(store_stream_t *stream, uint32_t *steps);
static inline bytes_t log_last_id(const log_t *log) {
    return bytes_of(log->last_id, log->last_id_size);
}

#endif
