/* publish.h: the way of a message into a stream: its headers read, its batch, its schedule, the append, what it is
 * answered.
 */
#ifndef LEAFD_JETSTREAM_PUBLISH_H
#define LEAFD_JETSTREAM_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/status.h"
#include "jetstream/stream.h"
#include "store/append.h"
#include "store/store.h"
#include "text/request_info.h"
#include "text/text.h"
#include "text/transform.h"
#include "wire/emit.h"

#define HEADER_BYTES_MAX 65535u /* of a stored message, as in the reference */

/* ---- publish.c --------------------------------------------------------------------------------------------------- */

/* Why a message was not taken, as a PubAck tells it. */
typedef struct refusal {
    uint32_t code; /* 0 = none */
    uint32_t err_code;
    const char *text;
    bytes_t detail; /* behind the text */
    bool quoted;    /* the detail is shown in quotes */
} refusal_t;

/* The fate of a message. */
typedef enum outcome {
    OUTCOME_TAKEN,   /* appended says as what */
    OUTCOME_REFUSED, /* refusal says why */
    OUTCOME_BATCHED, /* it belongs to an atomic batch, which is to have it */
    OUTCOME_LATER,   /* nothing is decided yet: it comes again in the next turn */
} outcome_t;

/* Slices live as long as the message and this. */
typedef struct publish_result {
    outcome_t outcome;
    refusal_t refusal;
    appended_t appended;
    bytes_t counted; /* the value that a client's counter has now; empty: it is no counter */
    bytes_t ends;    /* the subject of a schedule that has yet to end with it; empty: of none */
    uint8_t digits[20];
} publish_result_t;

/* Is there more to do with it before it is done? */
static inline bool js_rolls_on(const publish_result_t *result) {
    return result->appended.rolling != 0 || result->ends.size != 0;
}

typedef enum publisher {
    PUBLISHER_CLIENT,
    PUBLISHER_FAST,   /* a fast batch: it is in no other */
    PUBLISHER_SERVER, /* the server's own: what clients may not say in their headers is not looked at */
} publisher_t;

/* Reads the headers, checks, appends. Answers nobody. */
void js_take(js_t *js, stream_t *stream, const message_t *message, publisher_t publisher, publish_result_t *result);
/* The store's verdict is none of a success: the outcome, and a refusal in the protocol's words. */
void js_name_verdict(publish_result_t *result);
void ack_text(const stream_t *stream, uint64_t seq, bool duplicate, text_t *text);    /* a PubAck */
void counted_text(const stream_t *stream, uint64_t seq, bytes_t value, text_t *text); /* one of a counter */
/* The refusal that the store would give first, so that it wins over the headers' ones. NULL: nothing. */
const refusal_t *js_refused_outright(const stream_t *stream, const message_t *message);
void js_answer_refused(js_t *js, const stream_t *stream, bytes_t reply, const refusal_t *refusal);
void js_add_refusal(text_t *text, const refusal_t *refusal); /* "error":{...} */

extern const refusal_t refused_ttl_off, refused_bad_ttl, refused_no_rollup, refused_size, refused_header, refused_space;
extern const refusal_t refused_account, refused_crowded;

void js_publish_held(js_t *js, stream_t *stream, const message_t *message); /* one that has waited, see waiting.c */

/* ---- waiting.c --------------------------------------------------------------------------------------------------- */

typedef struct later later_t;
/* The message waits for its turn; for the one that waits already and is being tried: for another one. */
void js_later(js_t *js, stream_t *stream, const message_t *message);

/* ---- rollups.c --------------------------------------------------------------------------------------------------- */

typedef struct rolls rolls_t;
rolls_t *rolls_new(uint32_t room); /* for so many; NULL: no memory */
/* The messages of a subject (empty: all) below a sequence. false: no memory. */
LEAF_MUST_USE bool rolls_add(rolls_t *rolls, bytes_t subject, uint64_t below_seq);
/* Takes them out, and sends the answer (reply empty: none) when all are done. Frees rolls. */
void js_rolls_start(js_t *js, stream_t *stream, rolls_t *rolls, bytes_t reply, bytes_t answer);
/* Likewise a schedule of that subject, which ends. */
LEAF_MUST_USE bool rolls_add_ending(rolls_t *rolls, bytes_t subject, uint64_t below_seq);
/* A rollup's removals beyond its first step, and the end of a schedule (ends empty: of none) that could not be carried
 * out at once, go in the steps of a job; the PubAck (reply empty: none) comes when it is done. */
void js_roll(js_t *js, stream_t *stream, const appended_t *appended, bytes_t ends, bytes_t reply);

/* ---- schedule.c -------------------------------------------------------------------------------------------------- */

/* The order in the "Nats-Schedule..." headers of a message. */
typedef struct schedule_order {
    int64_t due_ts;  /* a schedule, and its first time; 0 = none */
    bool add_rollup; /* it is to say that it replaces an earlier one */
    bytes_t ends;    /* the subject of a schedule that ends with this message */
} schedule_order_t;
/* Checks as the reference does. NULL: nothing to refuse. */
const refusal_t *js_schedule_read(js_t *js, const stream_t *stream, const message_t *message, schedule_order_t *order);
/* Is the newest message of the subject a schedule? STATUS_NOT_FOUND: it is not. */
LEAF_MUST_USE entry_outcome_t js_schedule_there(const stream_t *stream, bytes_t subject);
/* Purges the schedule, if one is there and older than that. false: not yet, for want of room or since it is not known:
 * js_roll, or rolls_add_ending, go on with it. */
LEAF_MUST_USE bool js_schedule_end(stream_t *stream, bytes_t subject, uint64_t below_seq);
/* The time of a schedule that a backup brings, from now on; 0: the message has no schedule. */
int64_t js_schedule_restored(bytes_t header, int64_t stored_ts, int64_t now_ts);
/* If a schedule made it, that one goes on when its header says. STATUS_FULL: no room, later. */
LEAF_MUST_USE status_t js_schedule_resume(js_t *js, stream_t *stream, bytes_t header);
/* The store's hook. */
store_due_t js_schedule_due(void *context, store_stream_t *stored, uint64_t seq, int64_t due_ts);
/* Does what is due; of a stream that several servers keep, at its leader: what is to be done is proposed. DONE: it was;
 * ASKED: very soon; LATER: in a second. */
store_due_t js_schedule_fire(js_t *js, stream_t *stream, uint64_t seq, int64_t due_ts);
/* Does a schedule end with a message that is stored? Then: it ends; false: not yet, it is to be asked again. */
bool js_schedule_ends(const stream_t *stream, bytes_t header);
LEAF_MUST_USE bool js_schedule_ended(stream_t *stream, bytes_t header);

/* ---- fast.c ------------------------------------------------------------------------------------------------------ */

bool js_in_fast_batch(bytes_t reply); /* the message says that it belongs to one */
/* The word that tells a message's place in a fast batch: its reply, or, where that leads back over an import, the
 * publisher's own. Empty: it is in none. */
static inline __attribute__((always_inline)) bytes_t js_fast_word(const message_t *message) {
    if (LEAF_UNLIKELY(js_in_fast_batch(message->reply))) {
        return message->reply;
    }
    if (LEAF_LIKELY(message->header.size == 0 || !bytes_starts(message->reply, BYTES_LITERAL("_R_.")))) {
        return BYTES_NONE;
    }
    bytes_t reply = request_info_reply(message->header);
    return js_in_fast_batch(reply) ? reply : BYTES_NONE;
}

/* said: that word. false: nothing was done, and it is to come again when what was asked of the log is known: only of a
 * stream that several servers keep. */
bool js_fast(js_t *js, stream_t *stream, const message_t *message, bytes_t said);
/* What became of an entry of a stream that several servers keep, and of what rode on it (replicated_fast). */
void js_fast_applied(js_t *js, stream_t *stream, bytes_t asked, const appended_t *appended);
/* .. of which nothing is known, since this server leads no more. */
void js_fast_lost(js_t *js, const stream_t *stream, bytes_t asked);
/* Likewise of an entry that this server has not asked for. words: as replicated_fast had them. */
void js_fast_followed(js_t *js, stream_t *stream, bytes_t words, const appended_t *appended);
/* This server begins to lead the stream, and goes on with its batches. */
void js_fast_lead(js_t *js, const stream_t *stream);
void js_fast_chores(js_t *js); /* drops what was silent for long */
void js_fast_forget(js_t *js, const stream_t *stream);

/* ---- atomic.c ---------------------------------------------------------------------------------------------------- */

void js_atomic(js_t *js, stream_t *stream, const message_t *message); /* one that says that it is in a batch */
void js_atomic_chores(js_t *js);                                      /* drops what was silent for long */
void js_atomic_forget(js_t *js, const stream_t *stream);

/* ---- append.c ---------------------------------------------------------------------------------------------------- */

/* A stream of interest takes only what a consumer wants; a mirror takes what its origin has. */
bool js_nobody_wants(js_t *js, const stream_t *stream, const append_t *append);
/* Stores a message, renamed and published again as its stream wants it. May change the append's skip. */
appended_t js_append(js_t *js, stream_t *stream, append_t *append);
/* One of a group (store_group_append), under the subject that it is stored under. */
appended_t js_append_grouped(js_t *js, stream_t *stream, append_t *append);
/* One that the log of several servers has, under the subject that it is stored under; grouped: one of a group. again:
 * it is published again as the stream wants it, by this server. */
appended_t js_append_timed(js_t *js, stream_t *stream, const append_t *append, bool grouped, bool again);
/* Under which subject that would be stored; *out may hold it. Empty: none that fits. */
bytes_t js_stored_subject(js_t *js, const stream_t *stream, bytes_t subject, text_t *out);
/* texts: source and destination of the stored subject, then those of what is published again; an empty destination is
 * none, and *out NULL when both are. STATUS_INVALID: no such transform. */
LEAF_MUST_USE status_t rewrite_new(const bytes_t texts[4], bool headers_only, stored_rewrite_t **out);
void rewrite_free(stored_rewrite_t *rewrite);
/* The subject's new name, in out; itself when the transform is not for it; empty when the name is too long. */
bytes_t js_transformed(js_t *js, const transform_t *transform, bytes_t subject, text_t *out);

/* Holds a message until the stream's open batch is on disk (memory streams: until the tick ends). */
void js_hold(js_t *js, const stream_t *stream, bytes_t subject, bytes_t header, bytes_t payload);
/* The same for a caller that has to know when there was no memory for it. */
LEAF_MUST_USE status_t js_try_hold(js_t *js, const stream_t *stream, bytes_t subject, bytes_t payload);
/* The same of what the stream publishes again. */
void js_hold_republished(js_t *js, const stream_t *stream, bytes_t subject, bytes_t header, bytes_t payload);

#endif
