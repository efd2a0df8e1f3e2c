/* consume_rig.h: a world for the tests of consume/: one fake store, one stream, fake time, and a receiver that records
 * what is sent, as one line of text each:
 *
 *     inbox <- subject | reply | header | payload          a delivery
 *     inbox <* reply | header                              a status
 *     advisory 2 seq cseq deliveries text                  an advisory
 *     gone 1 7[, 5 taken]                                             an ephemeral removed itself
 *
 * CRLF is shown as "~". A test says what it did and which lines it expects.
 */
#ifndef LEAFD_TESTS_CONSUME_RIG_H
#define LEAFD_TESTS_CONSUME_RIG_H

#include "fake_store.h"

#include "consume/consume.h"
#include "test.h"

#define RIG_LINES_MAX 60000
#define STREAM_ID 1
#define CONSUMER_ID 7
#define SECOND NS_PER_SECOND
#define WALL_START INT64_C(1700000000000000000)

typedef struct rig {
    store_t *store;
    store_stream_t *stream;
    consume_t *consume;
    share_t memory;
    moment_t now;
    char *lines[RIG_LINES_MAX];
    uint32_t line_count, line_next;
    char interest[8][64];               /* subjects somebody listens to; "*" = all */
    char groups[8][64];                 /* with which queue group, "" = none */
    char full[64];                      /* a receiver that takes no more */
    uint32_t full_after;                /* and takes so many before */
    delivered_t (*receive)(bytes_t to); /* what a receiver says to a message; NULL = by the fields above */
    bool quiet;                         /* do not write down, only count */
    uint64_t deliveries;
    uint32_t questions; /* how often interest was asked for */
} rig_t;

static rig_t rig;

static void rig_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#include <stdarg.h>

HELPER void rig_note(const char *format, ...) {
    char line[4096];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    check(size >= 0 && (size_t)size < sizeof line && rig.line_count < RIG_LINES_MAX);
    char *copy = malloc((size_t)size + 1);
    check(copy);
    char *to = copy;
    for (const char *at = line; *at; at++) {
        if (at[0] == '\r' && at[1] == '\n') {
            *to++ = '~';
            at++;
        } else {
            *to++ = *at;
        }
    }
    *to = 0;
    rig.lines[rig.line_count++] = copy;
}

#define SHOWN(bytes) (int)(bytes).size, (const char *)(bytes).at

HELPER bool rig_interest(void *context, uint32_t account, bytes_t subject, bytes_t group) {
    (void)context;
    (void)account;
    rig.questions++;
    for (int i = 0; i < 8; i++) {
        if (rig.interest[i][0] == 0) continue;
        bool same = rig.interest[i][0] == '*'
                    || bytes_equal(subject, bytes_of(rig.interest[i], (uint32_t)strlen(rig.interest[i])));
        if (same && bytes_equal(group, bytes_of(rig.groups[i], (uint32_t)strlen(rig.groups[i])))) return true;
    }
    return false;
}

HELPER delivered_t rig_deliver(void *context, const delivery_t *delivery) {
    if (!rig_interest(context, 0, delivery->to, delivery->group)) return DELIVERED_NO_INTEREST;
    if (rig.receive) {
        delivered_t said = rig.receive(delivery->to);
        if (said != DELIVERED) return said;
    }
    if (rig.full[0] && bytes_equal(delivery->to, bytes_of(rig.full, (uint32_t)strlen(rig.full)))
        && rig.full_after-- == 0) {
        rig.full_after = 0;
        return DELIVERED_FULL;
    }
    rig.deliveries++;
    if (!rig.quiet) {
        rig_note("%.*s <- %.*s | %.*s | %.*s | %.*s", SHOWN(delivery->to), SHOWN(delivery->subject),
                 SHOWN(delivery->reply), SHOWN(delivery->header), SHOWN(delivery->payload));
    }
    return DELIVERED;
}

HELPER void rig_status(void *context, uint32_t account, const flow_t *flow, bytes_t to, bytes_t reply, bytes_t header) {
    (void)context;
    (void)account;
    (void)flow;
    rig_note("%.*s <* %.*s | %.*s", SHOWN(to), SHOWN(reply), SHOWN(header));
}

HELPER void rig_advise(void *context, consumer_t *consumer, uint32_t advisory, const advisory_t *numbers,
                       bytes_t text) {
    (void)context;
    (void)consumer;
    rig_note("advisory %u %llu %llu %llu %lld %.*s", advisory, (unsigned long long)numbers->stream_seq,
             (unsigned long long)numbers->consumer_seq, (unsigned long long)numbers->deliveries,
             (long long)numbers->ack_time_ns, SHOWN(text));
}

HELPER void rig_gone(void *context, uint32_t stream, uint32_t consumer, uint64_t taken) {
    (void)context;
    if (taken != 0) {
        rig_note("gone %u %u, %llu taken", stream, consumer, (unsigned long long)taken);
    } else {
        rig_note("gone %u %u", stream, consumer);
    }
}

HELPER void rig_consume_start(void) {
    consume_out_t out = {.deliver = rig_deliver,
                         .status = rig_status,
                         .interest = rig_interest,
                         .exact_interest = rig_interest,
                         .advise = rig_advise,
                         .gone = rig_gone};
    rig.memory = (share_t){.limit = UINT64_MAX};
    rig.consume = consume_new(&out, &rig.memory);
    check(rig.consume);
    store_set_hooks(rig.store, consume_store_hooks(rig.consume));
}

/* What an earlier promise left (it may have ended in the middle) goes; then an empty stream with that retention. */
HELPER void rig_start(uint8_t retention) {
    consume_free(rig.consume);
    if (rig.store) fake_store_free(rig.store);
    for (uint32_t i = 0; i < rig.line_count; i++) free(rig.lines[i]);
    memset(&rig, 0, sizeof rig);
    rig.store = fake_store_new();
    rig.stream = fake_stream_new(rig.store, STREAM_ID, retention);
    rig.now = (moment_t){.mono_ns = 100 * SECOND, .wall_ns = WALL_START};
    (void)strcpy(rig.interest[0], "*");
    rig_consume_start();
}

/* The process dies and starts again: records and messages stay, nothing else. */
HELPER void rig_restart(void) {
    store_set_hooks(rig.store, (store_hooks_t){0});
    consume_free(rig.consume);
    rig.now.mono_ns = 5 * SECOND; /* the box booted anew */
    rig.now.wall_ns += SECOND;
    rig_consume_start();
}

HELPER void rig_end(void) {
    consume_free(rig.consume);
    if (rig.store) fake_store_free(rig.store);
    for (uint32_t i = 0; i < rig.line_count; i++) free(rig.lines[i]);
    memset(&rig, 0, sizeof rig);
}

HELPER bytes_t text(const char *string) {
    return bytes_of(string, (uint32_t)strlen(string));
}

HELPER consumer_setup_t rig_setup(const char *name) {
    return (consumer_setup_t){
        .stream_id = STREAM_ID,
        .id = CONSUMER_ID,
        .stream_name = BYTES_LITERAL("S"),
        .name = text(name),
        .config = {.ack_policy = ACK_EXPLICIT, .max_deliver = -1, .ack_wait_ns = 30 * SECOND, .max_ack_pending = 1000}};
}

HELPER consumer_t *rig_add(const consumer_setup_t *setup) {
    consumer_t *consumer;
    check(consumer_add(rig.consume, rig.stream, setup, false, rig.now, &consumer) == STATUS_OK);
    return consumer;
}

/* Consumer "c" with the rig's defaults. */
HELPER consumer_t *rig_add_plain(void) {
    consumer_setup_t setup = rig_setup("c");
    return rig_add(&setup);
}

HELPER consumer_t *rig_load(const consumer_setup_t *setup) {
    consumer_t *consumer;
    check(consumer_add(rig.consume, rig.stream, setup, true, rig.now, &consumer) == STATUS_OK);
    return consumer;
}

HELPER uint64_t rig_publish(const char *subject, const char *payload) {
    uint64_t seq = fake_append(rig.stream, subject, "", payload, WALL_START + (int64_t)rig.stream->last + 1);
    consume_advanced(rig.consume, rig.stream);
    return seq;
}

HELPER void rig_publish_many(const char *subject, int count) {
    for (int i = 0; i < count; i++) (void)rig_publish(subject, "x");
}

/* Ticks until there is nothing to do at once, then a flush. */
HELPER void rig_run(void) {
    bool again = true;
    for (int i = 0; again && i < 10000; i++) consume_tick(rig.consume, rig.now, &again);
    CHECK(!again);
    CHECK(consume_sound(rig.consume));
    consume_flush(rig.consume);
    fake_invalidate(rig.store);
}

/* Time passes, with every deadline on the way kept. */
HELPER void rig_pass(int64_t ns) {
    int64_t end = rig.now.mono_ns + ns;
    for (int i = 0; i < 100000; i++) {
        int64_t due = consume_next_deadline(rig.consume);
        if (due > end) break;
        if (due > rig.now.mono_ns) {
            rig.now.wall_ns += due - rig.now.mono_ns;
            rig.now.mono_ns = due;
        }
        rig_run();
    }
    rig.now.wall_ns += end - rig.now.mono_ns;
    rig.now.mono_ns = end;
    rig_run();
}

HELPER void rig_pull(consumer_t *consumer, const char *inbox, const char *body) {
    consumer_pull(consumer, text(inbox), text(body), rig.now);
    rig_run();
}

/* The ack of a delivery, as its reply subject would say it; returns whether an answer is due. */
HELPER bool rig_ack(consumer_t *consumer, uint64_t seq, uint64_t consumer_seq, const char *body) {
    bool answer;
    consumer_ack(consumer, seq, consumer_seq, 1, text(body), BYTES_LITERAL("_R"), rig.now, &answer);
    rig_run();
    return answer;
}

HELPER consumer_state_t rig_state(consumer_t *consumer) {
    consumer_state_t state;
    consumer_snapshot(consumer, rig.now, &state);
    return state;
}

/* The next line that came out, "" when there is none. */
HELPER const char *rig_next(void) {
    return rig.line_next < rig.line_count ? rig.lines[rig.line_next++] : "";
}

HELPER void rig_skip(void) {
    rig.line_next = rig.line_count;
}

#define EXPECT(line)                                                                                                   \
    do {                                                                                                               \
        const char *rig_line = rig_next();                                                                             \
        CHECK_TEXT(line, rig_line, strlen(rig_line));                                                                  \
    } while (0)
#define EXPECT_NOTHING() EXPECT("")

/* "inbox <- subject | $JS.ACK.S.<name>.<deliveries>.<seq>.<cseq>" at the start of the next line; the stamp is not
 * compared. */
#define EXPECT_DELIVERY(start)                                                                                         \
    do {                                                                                                               \
        const char *rig_line = rig_next();                                                                             \
        size_t rig_size = strlen(start);                                                                               \
        CHECK_BYTES(start, rig_size, rig_line, strlen(rig_line) < rig_size ? strlen(rig_line) : rig_size);             \
    } while (0)

#endif
