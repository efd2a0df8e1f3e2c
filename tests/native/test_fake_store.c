/* test_fake_store.c: the contract of fake_store.h: random work on the fake and on the real store, and everything that
 * can be asked of both is the same. So a test of consume/ that passes over the fake says something about the store.
 *
 * Both stand in this one program: the fake's functions get names of their own before its header is read, and its
 * structs are the only bodies that this file knows of types which are opaque to it otherwise.
 */
#include "base/random.h"
#include "store_rig.h"

#define store_ahead_end fake_store_ahead_end
#define store_count fake_store_count
#define store_delete fake_store_delete
#define store_delete_any fake_store_delete_any
#define store_last_by_subject fake_store_last_by_subject
#define store_newest fake_store_newest
#define store_newest_end fake_store_newest_end
#define store_next fake_store_next
#define store_next_ahead fake_store_next_ahead
#define store_read fake_store_read
#define store_record_delete fake_store_record_delete
#define store_record_delete_prefix fake_store_record_delete_prefix
#define store_record_each fake_store_record_each
#define store_record_get fake_store_record_get
#define store_record_put fake_store_record_put
#define store_record_change fake_store_record_change
#define store_room fake_store_room
#define store_seq_at_time fake_store_seq_at_time
#define store_set_hooks fake_store_set_hooks
#define store_stream_config fake_store_stream_config
#define store_stream_id fake_store_stream_id
#define store_stream_state fake_store_stream_state
#define store_stream_store fake_store_stream_store
#define store_unknown fake_store_unknown
#define store_stream_stop fake_store_stream_stop
#define store_stream_visible fake_store_stream_visible
#define store_subjects fake_store_subjects
#define store_tally_close fake_store_tally_close
#define store_tally_now fake_store_tally_now
#define store_tally_open fake_store_tally_open
#define store_tally_step fake_store_tally_step
#define store_walk_close fake_store_walk_close
#define store_walk_open fake_store_walk_open
#define store_walk_step fake_store_walk_step
#include "fake_store.h"
#undef store_ahead_end
#undef store_count
#undef store_delete
#undef store_delete_any
#undef store_last_by_subject
#undef store_newest
#undef store_newest_end
#undef store_next
#undef store_next_ahead
#undef store_read
#undef store_record_delete
#undef store_record_delete_prefix
#undef store_record_each
#undef store_record_get
#undef store_record_put
#undef store_room
#undef store_seq_at_time
#undef store_set_hooks
#undef store_stream_config
#undef store_stream_id
#undef store_stream_state
#undef store_stream_store
#undef store_unknown
#undef store_stream_stop
#undef store_stream_visible
#undef store_subjects
#undef store_tally_close
#undef store_tally_now
#undef store_tally_open
#undef store_tally_step
#undef store_walk_close
#undef store_walk_open
#undef store_walk_step

#define STREAM_ID 5u
#define SEEN_MAX (1u << 20)
#define SEEDS 6
#define STEPS 300

static rig_t rig;
static store_t *fake;
static store_stream_t *real_stream, *fake_stream;
static uint64_t random_state;

/* What one side answered, as text; index 0 the real one, 1 the fake. */
static char seen[2][SEEN_MAX];
static size_t seen_size[2];

static uint64_t below(uint64_t n) {
    return random_next(&random_state) % n;
}

#define SAY(side, ...)                                                                                                 \
    do {                                                                                                               \
        size_t left = SEEN_MAX - seen_size[side];                                                                      \
        int said = snprintf(seen[side] + seen_size[side], left, __VA_ARGS__);                                          \
        CHECK(said >= 0 && (size_t)said < left);                                                                       \
        seen_size[side] += (size_t)said;                                                                               \
    } while (0)

static void same(void) {
    CHECK_BYTES(seen[0], seen_size[0], seen[1], seen_size[1]);
    seen_size[0] = seen_size[1] = 0;
}

static void say_message(int side, int outcome, const stored_message_t *message) {
    if (outcome != ENTRY_FOUND) {
        SAY(side, "none %d\n", outcome);
        return;
    }
    SAY(side, "%" PRIu64 " %" PRId64 " %.*s|%.*s|%.*s\n", message->seq, message->ts, (int)message->subject.size,
        (const char *)message->subject.at, (int)message->header.size,
        message->header.size ? (const char *)message->header.at : "", (int)message->payload.size,
        message->payload.size ? (const char *)message->payload.at : "");
}

/* ---- the hooks: both stores tell of each message that comes and goes --------------------------------------------- */

static int sides[2] = {0, 1};

static void on_appended(void *context, store_stream_t *stream, uint64_t seq, bytes_t subject, uint64_t size) {
    (void)stream;
    SAY(*(int *)context, "+%" PRIu64 " %" PRIu64 " %.*s\n", seq, size, (int)subject.size, (const char *)subject.at);
}

static void on_removed(void *context, store_stream_t *stream, uint64_t seq, bytes_t subject, uint64_t size) {
    (void)stream;
    SAY(*(int *)context, "-%" PRIu64 " %" PRIu64 " %.*s\n", seq, size, (int)subject.size, (const char *)subject.at);
}

/* ---- changes ----------------------------------------------------------------------------------------------------- */

static const char *const tokens[] = {"a", "b", "cc", "d"};

static void random_subject(char *out, size_t size) {
    if (below(3) == 0)
        snprintf(out, size, "%s", tokens[below(4)]);
    else
        snprintf(out, size, "%s.%s", tokens[below(4)], tokens[below(4)]);
}

static void append_both(void) {
    char subject[32], payload[32];
    random_subject(subject, sizeof subject);
    snprintf(payload, sizeof payload, "p%" PRIu64, below(1000));
    const char *header = below(2) == 0 ? "" : "NATS/1.0\r\nA: b\r\n\r\n";
    append_t append = {.subject = text(subject), .header = text(header), .payload = text(payload)};
    rig_pass(&rig, (int64_t)below(5) * 1000000);
    appended_t appended = store_append(real_stream, &append, rig.now);
    CHECK_EQ_I64(APPEND_STORED, appended.verdict);
    CHECK_EQ_U64(appended.seq, fake_append(fake_stream, subject, header, payload, appended.ts));
}

static void delete_both(void) {
    uint64_t seq = below(fake_stream->last + 3);
    bool any = below(2) == 0;
    SAY(0, "delete %d\n", (int)(any ? store_delete_any(real_stream, seq) : store_delete(real_stream, seq)));
    SAY(1, "delete %d\n", (int)(any ? fake_store_delete_any(fake_stream, seq) : fake_store_delete(fake_stream, seq)));
}

static void record_both(void) {
    uint8_t key[12] = {0, 0, 0, STREAM_ID};
    key[4] = (uint8_t)below(3);
    key[5] = (uint8_t)below(4);
    char value[40];
    snprintf(value, sizeof value, "v%" PRIu64, below(1u << 30));
    uint32_t kind = below(2) == 0 ? RECORD_CONSUMER_STATE : RECORD_CONSUMER_PENDING;
    uint32_t size = 5 + (uint32_t)below(2);
    switch (below(6)) {
    case 0:
        SAY(0, "drop %d\n", (int)store_record_delete(rig.store, kind, bytes_of(key, size)));
        SAY(1, "drop %d\n", (int)fake_store_record_delete(fake, kind, bytes_of(key, size)));
        break;
    case 1:
        SAY(0, "drop all %d\n", (int)store_record_delete_prefix(rig.store, kind, bytes_of(key, 5)));
        SAY(1, "drop all %d\n", (int)fake_store_record_delete_prefix(fake, kind, bytes_of(key, 5)));
        break;
    default:
        SAY(0, "put %d\n", (int)store_record_put(rig.store, kind, bytes_of(key, size), text(value)));
        SAY(1, "put %d\n", (int)fake_store_record_put(fake, kind, bytes_of(key, size), text(value)));
    }
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

static bool say_subject(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    SAY(*(int *)context, "subject %.*s %" PRIu64 " %" PRIu64 "\n", (int)subject.size, (const char *)subject.at, count,
        last_seq);
    return true;
}

static bool say_record(void *context, bytes_t key, bytes_t value) {
    SAY(*(int *)context, "record ");
    for (uint32_t i = 0; i < key.size; i++) SAY(*(int *)context, "%02x", key.at[i]);
    SAY(*(int *)context, " %.*s\n", (int)value.size, (const char *)value.at);
    return true;
}

static void ask_states(void) {
    stream_state_t state;
    store_stream_state(real_stream, &state);
    SAY(0, "state %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", state.messages, state.first_seq, state.last_seq);
    fake_store_stream_state(fake_stream, &state);
    SAY(1, "state %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", state.messages, state.first_seq, state.last_seq);
    SAY(0, "id %u\n", store_stream_id(real_stream));
    SAY(1, "id %u\n", fake_store_stream_id(fake_stream));
}

static void ask_messages(bytes_t pattern, filters_t filters) {
    stored_message_t message = {0};
    uint64_t seq = below(fake_stream->last + 3), upto = below(fake_stream->last + 3);
    say_message(0, (int)store_read(real_stream, seq, &message), &message);
    say_message(1, (int)fake_store_read(fake_stream, seq, &message), &message);
    uint64_t from = seq;
    seek_outcome_t outcome;
    while ((outcome = store_next(real_stream, filters, &from, upto, 3, &message)) == SEEK_MORE) {
    }
    say_message(0, (int)outcome, &message);
    from = seq;
    while ((outcome = fake_store_next(fake_stream, filters, &from, upto, 3, &message)) == SEEK_MORE) {
    }
    say_message(1, (int)outcome, &message);
    say_message(0, (int)store_last_by_subject(real_stream, pattern, upto, &message), &message);
    say_message(1, (int)fake_store_last_by_subject(fake_stream, pattern, upto, &message), &message);
    store_newest_t search = {0};
    while ((outcome = store_newest(real_stream, &search, pattern, upto, 3, &seq)) == SEEK_MORE) {
    }
    store_newest_end(&search);
    SAY(0, "newest %d %" PRIu64 "\n", (int)outcome, outcome == SEEK_FOUND ? seq : 0);
    search = (store_newest_t){0};
    while ((outcome = fake_store_newest(fake_stream, &search, pattern, upto, 3, &seq)) == SEEK_MORE) {
    }
    fake_store_newest_end(&search);
    SAY(1, "newest %d %" PRIu64 "\n", (int)outcome, outcome == SEEK_FOUND ? seq : 0);
}

static void ask_times(void) {
    int64_t ts = rig.now.wall_ns - (int64_t)below(200) * 1000000 + 1000000;
    uint64_t seq = 0;
    seek_outcome_t status = store_seq_at_time(real_stream, ts, UINT32_MAX, &seq);
    SAY(0, "at %d %" PRIu64 "\n", (int)status, status == SEEK_FOUND ? seq : 0);
    status = fake_store_seq_at_time(fake_stream, ts, UINT32_MAX, &seq);
    SAY(1, "at %d %" PRIu64 "\n", (int)status, status == SEEK_FOUND ? seq : 0);
}

static void ask_counts(bytes_t pattern, filters_t filters) {
    uint64_t from = below(fake_stream->last + 3);
    SAY(0, "count %" PRIu64 "\n", store_count(real_stream, filters, from));
    SAY(1, "count %" PRIu64 "\n", fake_store_count(fake_stream, filters, from));
    SAY(0, "subjects %d\n", (int)store_subjects(real_stream, pattern, say_subject, &sides[0]));
    SAY(1, "subjects %d\n", (int)fake_store_subjects(fake_stream, pattern, say_subject, &sides[1]));
    same();
    store_walk_t *walk = store_walk_open(real_stream, pattern);
    while (store_walk_step(walk, 2, say_subject, &sides[0]) == STEP_MORE) {
    }
    store_walk_close(walk);
    walk = fake_store_walk_open(fake_stream, pattern);
    while (fake_store_walk_step(walk, 2, say_subject, &sides[1]) == STEP_MORE) {
    }
    fake_store_walk_close(walk);
}

static void ask_records(void) {
    uint8_t key[12] = {0, 0, 0, STREAM_ID};
    key[4] = (uint8_t)below(3);
    key[5] = (uint8_t)below(4);
    for (uint32_t kind = RECORD_CONSUMER_STATE; kind <= RECORD_CONSUMER_PENDING; kind++) {
        bytes_t value;
        bytes_t whole = bytes_of(key, 6), prefix = bytes_of(key, 4 + (uint32_t)below(2)),
                after = below(2) == 0 ? BYTES_NONE : whole;
        status_t status = entry_status(store_record_get(rig.store, kind, whole, &value));
        SAY(0, "get %d %.*s\n", (int)status, status == STATUS_OK ? (int)value.size : 0,
            status == STATUS_OK ? (const char *)value.at : "");
        status = entry_status(fake_store_record_get(fake, kind, whole, &value));
        SAY(1, "get %d %.*s\n", (int)status, status == STATUS_OK ? (int)value.size : 0,
            status == STATUS_OK ? (const char *)value.at : "");
        SAY(0, "each %d\n", (int)store_record_each(rig.store, kind, prefix, after, say_record, &sides[0]));
        SAY(1, "each %d\n", (int)fake_store_record_each(fake, kind, prefix, after, say_record, &sides[1]));
        same();
    }
}

static void ask_everything(void) {
    static const char *const patterns[] = {">", "a", "*", "*.b", "a.>", "cc.*", "none", "d.d"};
    bytes_t chosen[2] = {text(patterns[below(8)]), text(patterns[below(8)])};
    filters_t filters = {.patterns = chosen, .count = (uint32_t)below(3)};
    ask_states();
    same();
    ask_messages(chosen[0], filters);
    same();
    ask_times();
    ask_counts(chosen[0], filters);
    same();
    ask_records();
}

/* ---- the duel ---------------------------------------------------------------------------------------------------- */

static void settle_both(void) {
    rig_sync(&rig);
    fake_show(fake_stream);
    SAY(0, "visible %" PRIu64 "\n", store_stream_visible(real_stream));
    SAY(1, "visible %" PRIu64 "\n", fake_store_stream_visible(fake_stream));
}

static void open_both(void) {
    rig = (rig_t){0};
    rig_open(&rig);
    fake = fake_store_new();
    real_stream = rig_stream(&rig, STREAM_ID, rig_config());
    fake_stream = fake_stream_new(fake, STREAM_ID, 0);
    fake_stream->hold = true;
    fake_stream->tally_steps = 3;
    store_set_hooks(rig.store, (store_hooks_t){.context = &sides[0], .appended = on_appended, .removed = on_removed});
    fake_store_set_hooks(fake, (store_hooks_t){.context = &sides[1], .appended = on_appended, .removed = on_removed});
    seen_size[0] = seen_size[1] = 0;
}

static void close_both(void) {
    rig_close(&rig);
    fake_store_free(fake);
}

static void alike_in_everything(void) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        random_state = seed * UINT64_C(0x9E3779B97F4A7C15);
        open_both();
        ask_everything();
        for (int i = 0; i < STEPS; i++) {
            uint64_t what = below(10);
            if (what < 5)
                append_both();
            else if (what < 7)
                delete_both();
            else if (what < 9)
                record_both();
            else
                settle_both();
            same();
            if (below(4) == 0) ask_everything();
        }
        settle_both();
        same();
        close_both();
    }
}

/* Once it has counted, a tally is right at every moment. */
static void tallies_keep_count(void) {
    random_state = 99;
    open_both();
    bytes_t pattern = text("a.>");
    filters_t filters = {.patterns = &pattern, .count = 1};
    for (int i = 0; i < 50; i++) append_both();
    store_tally_t *real = store_tally_open(real_stream, filters, 7),
                  *other = fake_store_tally_open(fake_stream, filters, 7);
    while (store_tally_step(real, 5) != STEP_OVER) {
    }
    while (fake_store_tally_step(other, 5) != STEP_OVER) {
    }
    for (int i = 0; i < 100; i++) {
        if (below(2) == 0)
            append_both();
        else
            delete_both();
        SAY(0, "tally %" PRIu64 "\n", store_tally_now(real));
        SAY(1, "tally %" PRIu64 "\n", fake_store_tally_now(other));
        same();
    }
    store_tally_close(real);
    fake_store_tally_close(other);
    close_both();
}

static void nothing_is_there_at_first(void) {
    random_state = 7;
    open_both();
    for (int i = 0; i < 20; i++) ask_everything();
    delete_both();
    same();
    close_both();
}

int main(void) {
    RUN("the fake answers everything as the store does, whatever was done before", alike_in_everything);
    RUN("the fake's tallies keep count as the store's", tallies_keep_count);
    RUN("the fake is as empty as a new store", nothing_is_there_at_first);
    return TEST_RESULT();
}
