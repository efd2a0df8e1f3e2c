/* append.h: a message into a stream, under the conditions that its publisher, the stream and its origin set.
 */
#ifndef LEAFD_STORE_APPEND_H
#define LEAFD_STORE_APPEND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "store/store.h"

typedef enum append_verdict {
    APPEND_STORED = 0,
    APPEND_DUPLICATE,         /* seq = the first one's */
    APPEND_SKIPPED,           /* a sequence was taken, nothing stored (interest without a consumer) */
    APPEND_WRONG_LAST_SEQ,    /* seq = the actual one                          10071 */
    APPEND_WRONG_LAST_MSG_ID, /* last_msg_id = the actual one                  10070 */
    APPEND_BAD_SUBJECT,       /* no consumer could ask for it, no list show it 10003 */
    APPEND_TOO_LARGE,         /* max_msg_size                                  10054 */
    APPEND_HEADER_TOO_LARGE,  /*                                               10097 */
    APPEND_MAX_MSGS,          /* maximum messages exceeded                     10077 */
    APPEND_MAX_BYTES,
    APPEND_MAX_PER_SUBJECT,
    APPEND_NO_ALLOWANCE, /* the account's limit                           10002 */
    APPEND_SEALED,       /*                                               10109 */
    APPEND_STOPPED,      /* the stream's numbers contradict each other    10077 */
    APPEND_NO_SPACE,     /* store limit, disk or map full                 10023 */
    APPEND_NO_ROLLUP,    /* rollup not permitted                          10111 */
    APPEND_NO_COUNTER,   /* what is there is no counter                      10172 */
    APPEND_NO_INCREMENT, /* what is added is no number, or makes it too long 10171 */
    APPEND_OUT_OF_ORDER, /* a mirror's sequence not above the last */
    APPEND_LATER,        /* nothing is decided yet: to be tried again in the next turn (append_t.waits) */
} append_verdict_t;

typedef struct append {
    bytes_t subject;
    bytes_t header; /* as it is to be stored */
    bytes_t payload;
    bytes_t msg_id; /* Nats-Msg-Id; empty = no dedupe */
    bool has_expected_last_seq;
    bool has_expected_subject_seq;
    bool has_expected_msg_id;
    uint64_t expected_last_seq;
    uint64_t expected_subject_seq;
    bytes_t expected_subject; /* empty: the message's own; may have wildcards */
    bytes_t expected_msg_id;
    uint8_t rollup;     /* 0 none, 1 sub, 2 all */
    bool skip;          /* take a sequence, store nothing */
    bool waits;         /* APPEND_LATER, where a look would take longer than a turn may */
    uint64_t force_seq; /* mirrors: the origin's sequence; 0 = next. Gaps are filled as deleted */
    int64_t force_ts;   /* mirrors: the origin's stamp; 0 = now */
    int64_t expires_ts; /* Nats-TTL: wall ns, 0 = none, -1 = never (exempt from max_age) */
    int64_t due_ts;     /* a schedule: wall ns of the first time, 0 = none, -1 = its record comes by itself */
    bytes_t source_key; /* sources: stored with the message in the same batch, see RECORD_SOURCE */
    uint64_t source_seq;
    int64_t source_ts; /* the origin's newest stamp so far */
    bool has_source_before;
    uint64_t source_before; /* of a group's log (group/replica.h): how far that source has to have come */
} append_t;

typedef struct appended {
    append_verdict_t verdict;
    uint64_t seq;
    int64_t ts;
    bytes_t last_msg_id; /* valid until the next call */
    /* the rollup (1 sub, 2 all) was only begun: store_purge of the subject or of all, below seq, has to come to its end
     * before anybody is told that it is done */
    uint8_t rolling;
} appended_t;

/* What would be said of it whatever the stream has: APPEND_STORED, or a verdict on its form. */
append_verdict_t store_append_form(store_stream_t *stream, const append_t *append);

/* Evaluates in the reference's order (tests/wire/jetstream.md) and appends to the open batch. Never fails half. */
appended_t store_append(store_stream_t *stream, const append_t *append, moment_t now);

/* The same at the stream's own time (timeline.h). */
appended_t store_append_timed(store_stream_t *stream, const append_t *append);

/* ---- appends that happen together -------------------------------------------------------------------------------- */

/* Appends that happen together: in one batch of the journal, or not at all. All of these calls come in one tick:
 *
 *     look at each > reserve > append each > finish each > end
 *
 * Until `append` nothing is changed, and from there on nothing fails. Begun with zeros. */
typedef struct append_group {
    uint64_t count;    /* that were looked at and may be appended, and what they take */
    uint64_t bytes;    /* as the stream counts them */
    uint64_t need;     /* of the open batch */
    uint64_t times;    /* entries in the index by time */
    uint32_t searched; /* expectations with wildcards that were not known */
    bool alone;        /* store_append's: a message by itself */
} append_group_t;

/* The most that `need` may be: more is never in one batch of the journal. */
uint64_t store_group_most(const store_t *store);
/* About what a message adds to `need`. */
uint64_t store_group_need(uint32_t subject_size, uint64_t message_size);
/* Could it be appended behind those that the group has? APPEND_STORED: it is counted in. Expectations and ids are held
 * against the stream as it is now, but expected_last_seq. on_subject: how many of the group have its subject.
 * APPEND_LATER: look at all of them again in the next turn. */
appended_t store_group_look(store_stream_t *stream, append_group_t *group, const append_t *append, uint64_t on_subject,
                            moment_t now);
/* The same at the stream's own time (timeline.h). */
appended_t store_group_look_timed(store_stream_t *stream, append_group_t *group, const append_t *append,
                                  uint64_t on_subject);
/* STATUS_FULL: there is no room. STATUS_AGAIN: at a later tick there will be, and until then publishers have to wait
 * for it (store_room); without a later call, give_up. */
LEAF_MUST_USE status_t store_group_reserve(store_stream_t *stream, const append_group_t *group);
void store_group_give_up(store_t *store);
appended_t store_group_append(store_stream_t *stream, const append_t *append, moment_t now);
appended_t store_group_append_timed(store_stream_t *stream, const append_t *append);
/* Finishes an append that has the sequence: its rollup's first step, and its subject's limit. false: the rollup is not
 * at its end (appended_t.rolling). */
bool store_group_finish(store_stream_t *stream, const append_t *append, uint64_t seq);
void store_group_end(store_stream_t *stream); /* the stream's limits */

#endif
