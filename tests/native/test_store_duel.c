/* test_store_duel.c: the store against a simple model. The model keeps every message in an array and applies the
 * reference's rules (tests/wire/jetstream.md) by walking it; the store does the same work with batches, journal,
 * checkpoints, restarts and crashes in between. After every round everything that can be asked is compared.
 * LEAFD_DUEL_SEED replays one seed, LEAFD_DUEL_ROUNDS makes it longer.
 */
#include "text/subject.h"
#include "full_disk.h"
#include "store_rig.h"

#define MESSAGES_MAX 60000
#define SUBJECTS 24

typedef struct twin_message {
    uint32_t subject;
    uint32_t size;
    uint8_t fill;
    bool alive;
    int64_t ts;
} twin_message_t;

typedef struct twin {
    stream_config_t config;
    twin_message_t at[MESSAGES_MAX]; /* by sequence */
    uint64_t first;
    uint64_t last;
    uint64_t messages;
    uint64_t bytes;
    uint64_t count[SUBJECTS];
} twin_t;

static twin_t twin;
static uint64_t random_state;
static char subjects[SUBJECTS][24];

static uint64_t random_next(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static uint64_t random_below(uint64_t n) {
    return random_next() % n;
}

static uint64_t cost(const twin_message_t *message) {
    return 30 + strlen(subjects[message->subject]) + message->size;
}

static void twin_settle_first(void) {
    while (twin.first <= twin.last && !twin.at[twin.first].alive) {
        twin.first++;
    }
}

static void twin_remove(uint64_t seq) {
    twin_message_t *message = &twin.at[seq];
    message->alive = false;
    twin.messages--;
    twin.bytes -= cost(message);
    twin.count[message->subject]--;
    twin_settle_first();
}

static uint64_t twin_oldest(uint32_t subject) {
    for (uint64_t seq = twin.first; seq <= twin.last; seq++) {
        if (twin.at[seq].alive && twin.at[seq].subject == subject) {
            return seq;
        }
    }
    return 0;
}

static append_verdict_t twin_append(uint32_t subject, uint32_t size, uint8_t fill, int64_t ts) {
    const stream_config_t *config = &twin.config;
    twin_message_t message = {.subject = subject, .size = size, .fill = fill, .alive = true, .ts = ts};
    uint64_t max_per = config->max_msgs_per_subject > 0 ? (uint64_t)config->max_msgs_per_subject : UINT64_MAX;
    uint64_t max_msgs = config->max_msgs > 0 ? (uint64_t)config->max_msgs : UINT64_MAX;
    uint64_t max_bytes = config->max_bytes > 0 ? (uint64_t)config->max_bytes : UINT64_MAX;
    if (config->discard == 1) {
        bool full = twin.count[subject] >= max_per;
        if (full && (config->flags & STREAM_DISCARD_NEW_PER_SUBJECT) != 0) {
            return APPEND_MAX_PER_SUBJECT;
        }
        if (twin.messages >= max_msgs && !full) {
            return APPEND_MAX_MSGS;
        }
        if (twin.bytes + cost(&message) > max_bytes
            && !(full && cost(&twin.at[twin_oldest(subject)]) >= cost(&message))) {
            return APPEND_MAX_BYTES;
        }
    }
    twin.at[++twin.last] = message;
    twin.messages++;
    twin.bytes += cost(&message);
    twin.count[subject]++;
    twin_settle_first();
    while (twin.count[subject] > max_per) {
        twin_remove(twin_oldest(subject));
    }
    while (twin.messages > 0 && (twin.messages > max_msgs || twin.bytes > max_bytes)) {
        twin_remove(twin.first);
    }
    return APPEND_STORED;
}

static bool matches(uint64_t seq, bytes_t filter) {
    return filter.size == 0 || subject_matches(text(subjects[twin.at[seq].subject]), filter);
}

static uint64_t twin_purge(bytes_t filter, uint64_t below, uint64_t keep) {
    uint64_t matching = 0;
    uint64_t purged = 0;
    for (uint64_t seq = twin.first; seq <= twin.last; seq++) {
        matching += twin.at[seq].alive && matches(seq, filter);
    }
    uint64_t may = matching > keep ? matching - keep : 0;
    for (uint64_t seq = twin.first; seq <= twin.last && purged < may && (below == 0 || seq < below); seq++) {
        if (twin.at[seq].alive && matches(seq, filter)) {
            twin_remove(seq);
            purged++;
        }
    }
    return purged;
}

/* ---- comparison -------------------------------------------------------------------------------------------------- */

static const char *const patterns[] = {"a.>", "a.1", "*.2", "b.*", ">", "none.x", "a.*.deep", "b.3"};

static void compare_state(store_stream_t *stream) {
    stream_state_t state;
    store_stream_state(stream, &state);
    uint64_t distinct = 0;
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        distinct += twin.count[i] > 0;
    }
    CHECK_EQ_U64(twin.messages, state.messages);
    CHECK_EQ_U64(twin.bytes, state.bytes);
    CHECK_EQ_U64(twin.last, state.last_seq);
    CHECK_EQ_U64(twin.last == 0 ? 0 : twin.first, state.first_seq);
    CHECK_EQ_U64(distinct, state.subjects);
    CHECK_EQ_U64(twin.messages > 0 ? twin.last - twin.first + 1 - twin.messages : 0, state.deleted_count);
    CHECK_EQ_I64(twin.messages > 0 ? twin.at[twin.first].ts : 0, state.first_ts);
    CHECK_EQ_U64(0, state.corrupt);
}

static void compare_message(const stored_message_t *message, uint64_t seq) {
    const twin_message_t *want = &twin.at[seq];
    CHECK_EQ_U64(seq, message->seq);
    CHECK_EQ_I64(want->ts, message->ts);
    CHECK_TEXT(subjects[want->subject], message->subject.at, message->subject.size);
    CHECK_EQ_U64(want->size, message->payload.size);
    for (uint32_t i = 0; i < message->payload.size; i++) {
        CHECK_EQ_U64(want->fill, message->payload.at[i]);
    }
}

static void compare_messages(store_stream_t *stream) {
    stored_message_t message;
    for (uint64_t seq = twin.first > 20 ? twin.first - 20 : 1; seq <= twin.last + 2; seq++) {
        bool alive = seq >= twin.first && seq <= twin.last && twin.at[seq].alive;
        CHECK_EQ_I64(alive ? STATUS_OK : STATUS_NOT_FOUND, store_read(stream, seq, &message));
        if (alive) {
            compare_message(&message, seq);
        }
    }
}

static void compare_walk(store_stream_t *stream, const char *pattern) {
    bytes_t filter = text(pattern);
    filters_t filters = {.patterns = &filter, .count = 1};
    uint64_t from = random_below(twin.last + 2);
    uint64_t upto = twin.last > 0 ? from + random_below(twin.last) : 0;
    uint64_t counted = 0;
    uint64_t start = from;
    stored_message_t message;
    for (uint64_t seq = from < twin.first ? twin.first : from; seq <= twin.last; seq++) {
        if (!twin.at[seq].alive || !matches(seq, filter)) {
            continue;
        }
        counted++;
        if (seq <= upto) {
            status_t status;
            while ((status = store_next(stream, filters, &start, upto, 7, &message)) == STATUS_AGAIN) {
            }
            CHECK_EQ_I64(STATUS_OK, status);
            compare_message(&message, seq);
            start = seq + 1;
        }
    }
    status_t status;
    while ((status = store_next(stream, filters, &start, upto, 7, &message)) == STATUS_AGAIN) {
    }
    CHECK_EQ_I64(STATUS_NOT_FOUND, status);
    CHECK_EQ_U64(counted, store_count(stream, filters, from));
}

static void compare_newest(store_stream_t *stream, const char *pattern) {
    bytes_t filter = text(pattern);
    uint64_t upto = random_below(2) == 0 ? UINT64_MAX : random_below(twin.last + 2);
    uint64_t newest = 0;
    stored_message_t message;
    for (uint64_t seq = twin.first; seq <= twin.last && seq <= upto; seq++) {
        newest = twin.at[seq].alive && matches(seq, filter) ? seq : newest;
    }
    CHECK_EQ_I64(newest > 0 ? STATUS_OK : STATUS_NOT_FOUND, store_last_by_subject(stream, filter, upto, &message));
    if (newest > 0) {
        compare_message(&message, newest);
    }
}

typedef struct listing {
    uint64_t seen;
    char last[24];
    bool failed;
} listing_t;

static bool visit_subject(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    listing_t *listing = context;
    char name[24] = {0};
    memcpy(name, subject.at, subject.size < 23 ? subject.size : 23);
    listing->failed |= strcmp(listing->last, name) >= 0;
    memcpy(listing->last, name, sizeof name);
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        if (strcmp(subjects[i], name) == 0) {
            listing->failed |= twin.count[i] != count;
            listing->failed |=
                last_seq == 0 || last_seq > twin.last || twin.at[last_seq].subject != i || !twin.at[last_seq].alive;
            listing->seen++;
        }
    }
    return true;
}

static void compare_subjects(store_stream_t *stream, const char *pattern) {
    listing_t listing = {0};
    uint64_t distinct = 0;
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        distinct += twin.count[i] > 0 && subject_matches(text(subjects[i]), text(pattern));
    }
    CHECK_EQ_I64(STATUS_OK, store_subjects(stream, text(pattern), visit_subject, &listing));
    CHECK(!listing.failed);
    CHECK_EQ_U64(distinct, listing.seen);
}

static bool visit_deleted(void *context, uint64_t seq) {
    uint64_t *next = context;
    while (*next <= twin.last && twin.at[*next].alive) {
        ++*next;
    }
    if (*next != seq) {
        *next = UINT64_MAX;
        return false;
    }
    ++*next;
    return true;
}

static void compare_all(store_stream_t *stream) {
    compare_state(stream);
    compare_messages(stream);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        compare_walk(stream, patterns[i]);
        compare_newest(stream, patterns[i]);
        compare_subjects(stream, patterns[i]);
    }
    uint64_t next = twin.first;
    uint64_t from = 0;
    status_t status;
    do {
        status = store_deleted(stream, &from, UINT64_MAX, 1 + (uint32_t)random_below(50), visit_deleted, &next);
    } while (status == STATUS_AGAIN);
    CHECK_EQ_I64(STATUS_OK, status);
    CHECK(next != UINT64_MAX);
    uint64_t seq = 0;
    uint64_t at = twin.last > 0 ? 1 + random_below(twin.last) : 0;
    uint64_t want = twin.first;
    while (want <= twin.last && (!twin.at[want].alive || twin.at[want].ts < twin.at[at].ts)) {
        want++;
    }
    if (twin.messages > 0 && at >= twin.first) {
        CHECK_EQ_I64(want <= twin.last ? STATUS_OK : STATUS_NOT_FOUND, store_seq_at_time(stream, twin.at[at].ts, &seq));
        CHECK_EQ_U64(want, seq);
    }
}

/* ---- the duel ---------------------------------------------------------------------------------------------------- */

static stream_config_t random_config(void) {
    stream_config_t config = rig_config();
    config.max_msgs = random_below(3) == 0 ? (int64_t)(1 + random_below(200)) : -1;
    config.max_bytes = random_below(3) == 0 ? (int64_t)(50 + random_below(20000)) : -1;
    config.max_msgs_per_subject = random_below(2) == 0 ? (int64_t)(1 + random_below(12)) : -1;
    config.discard = (uint8_t)random_below(2);
    if (config.discard == 1 && config.max_msgs_per_subject > 0 && random_below(2) == 0) {
        config.flags |= STREAM_DISCARD_NEW_PER_SUBJECT;
    }
    return config;
}

static void append_random(rig_t *rig, store_stream_t *stream) {
    static uint8_t payload[8192];
    uint32_t subject = (uint32_t)(random_below(4) == 0 ? random_below(SUBJECTS) : random_below(4));
    uint32_t size = (uint32_t)(random_below(50) == 0 ? random_below(sizeof payload) : random_below(100));
    uint8_t fill = (uint8_t)random_next();
    rig_pass(rig, (int64_t)random_below(1000000));
    memset(payload, fill, size);
    append_t append = {.subject = text(subjects[subject]), .payload = bytes_of(payload, size)};
    append_verdict_t want = twin_append(subject, size, fill, rig->now.wall_ns);
    appended_t got = store_append(stream, &append, rig->now);
    CHECK_EQ_U64(want, got.verdict);
    if (want == APPEND_STORED) {
        CHECK_EQ_U64(twin.last, got.seq);
    }
}

static void delete_random(store_stream_t *stream) {
    uint64_t seq = random_below(3) == 0 ? twin.last : twin.first + random_below(twin.last - twin.first + 2);
    bool alive = seq >= twin.first && seq <= twin.last && twin.at[seq].alive;
    CHECK_EQ_I64(alive ? STATUS_OK : STATUS_NOT_FOUND, store_delete(stream, seq));
    if (alive) {
        twin_remove(seq);
    }
}

static void purge_random(store_stream_t *stream) {
    static const char *const filters[] = {"", "a.1", "a.*", ">", "b.3", "*.2"};
    const char *filter = filters[random_below(6)];
    uint64_t below = random_below(3) == 0 && twin.last > 0 ? 1 + random_below(twin.last) : 0;
    uint64_t keep = below == 0 && random_below(2) == 0 ? random_below(8) : 0;
    uint64_t purged = rig_purge(stream, text(filter), below, keep);
    CHECK_EQ_U64(twin_purge(text(filter), below, keep), purged);
}

/* Ticks for a while, so that the keeper tries what it can. */
static void let_it_try(rig_t *rig) {
    for (int i = 0; i < 10; i++) {
        rig_pass(rig, 300 * NS_PER_MS);
        rig_sync(rig);
        usleep(1000);
    }
}

static void wait_for_room(rig_t *rig) {
    if (atomic_load(&full_disk_mode) != FULL_OFF) {
        return;
    }
    for (int64_t until = 0; rig_patient(&until);) {
        plane_stats_t stats = {0};
        store_tick(rig->store, rig->now);
        store_stats(rig->store, &stats);
        if (stats.refusing == 0) {
            return;
        }
        usleep(1000);
    }
    FAIL("publishers are refused for ever");
}

/* While the disk is full, and around it: nothing that needs a checkpoint to end. */
static store_stream_t *disturb_full(rig_t *rig, store_stream_t *stream) {
    if (atomic_load(&full_disk_mode) != FULL_OFF && random_below(4) == 0) {
        full_disk(FULL_OFF);
        rig_checkpoint(rig);
        wait_for_room(rig);
    } else if (atomic_load(&full_disk_mode) == FULL_OFF && random_below(3) == 0) {
        full_disk(random_below(2) == 0 ? FULL_ALL : FULL_GROWTH);
    }
    rig_sync(rig);
    uint64_t kind = random_below(4);
    if (kind == 0) {
        int mode = atomic_load(&full_disk_mode);
        full_disk(FULL_ALL); /* the copy that rig_crash makes is then of one moment */
        usleep(5000);
        rig_crash(rig);
        full_disk((full_disk_t)mode);
        wait_for_room(rig);
        return rig_stream(rig, 7, twin.config);
    }
    if (kind == 1) {
        rig_reopen(rig);
        return rig_stream(rig, 7, twin.config);
    }
    let_it_try(rig);
    return stream;
}

static store_stream_t *disturb(rig_t *rig, store_stream_t *stream) {
    uint64_t kind = random_below(12);
    if (kind < 6) {
        rig_sync(rig);
    } else if (kind < 8) {
        rig_checkpoint(rig);
    } else if (kind < 9) {
        rig_reopen(rig);
        return rig_stream(rig, 7, twin.config);
    } else if (kind < 11) {
        rig_sync(rig);
        rig_crash(rig);
        return rig_stream(rig, 7, twin.config);
    } else {
        store_tick(rig->store, rig->now);
    }
    return stream;
}

static void duel(uint64_t seed, unsigned rounds, bool full_disks) {
    rig_t rig = {0};
    random_state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    memset(&twin, 0, sizeof twin);
    twin.first = 1;
    twin.config = random_config();
    rig_open(&rig);
    store_stream_t *stream = rig_stream(&rig, 7, twin.config);
    for (unsigned round = 0; round < rounds && twin.last < MESSAGES_MAX - 2000; round++) {
        uint64_t burst = random_below(60);
        bool full = atomic_load(&full_disk_mode) != FULL_OFF;
        for (uint64_t i = 0; i < burst; i++) {
            if (!full) {
                append_random(&rig, stream);
            }
            if (random_below(twin.config.max_msgs < 0 ? 4 : 40) == 0 && twin.last > 0) {
                delete_random(stream);
            }
        }
        if (random_below(10) == 0) {
            purge_random(stream);
        }
        stream = full_disks ? disturb_full(&rig, stream) : disturb(&rig, stream);
        compare_all(stream);
    }
    full_disk(FULL_OFF);
    rig_close(&rig);
}

static void many_seeds(bool full_disks) {
    const char *seed = getenv("LEAFD_DUEL_SEED");
    const char *rounds = getenv("LEAFD_DUEL_ROUNDS");
    uint64_t from = seed != NULL ? strtoull(seed, NULL, 10) : 1;
    uint64_t to = seed != NULL ? from : full_disks ? 3 : 12;
    for (uint64_t i = from; i <= to; i++) {
        fprintf(stderr, "seed %llu\n", (unsigned long long)i);
        duel(i, rounds != NULL ? (unsigned)atoi(rounds) : 40, full_disks);
    }
}

static void restarts(void) {
    many_seeds(false);
}

static void full_disks(void) {
    many_seeds(true);
}

int main(void) {
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        snprintf(subjects[i], sizeof subjects[i], i % 5 == 4 ? "%s.%u.deep" : "%s.%u", i % 2 == 0 ? "a" : "b", i);
    }
    RUN("the store answers as a dumb twin does, through checkpoints, restarts and crashes", restarts);
    RUN("it does so while the disk is full, through restarts and crashes on it, and afterwards", full_disks);
    return TEST_RESULT();
}
