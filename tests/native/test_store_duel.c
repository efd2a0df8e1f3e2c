/* test_store_duel.c: the store against a simple model. The model keeps every message in an array and applies the
 * reference's rules (tests/wire/jetstream.md) by walking it; the store does the same work with batches, journal,
 * checkpoints, restarts and crashes in between. After every round everything that can be asked is compared.
 * LEAFD_DUEL_SEED replays one seed, LEAFD_DUEL_ROUNDS makes it longer.
 */
#include "base/random.h"
#include "text/subject.h"
#include "full_disk.h"
#include "store_rig.h"

#define MESSAGES_MAX 60000
#define SUBJECTS 24

typedef struct model_message {
    uint32_t subject;
    uint32_t size;
    uint8_t fill;
    bool alive;
    int64_t ts;
} model_message_t;

typedef struct model {
    stream_config_t config;
    model_message_t at[MESSAGES_MAX]; /* by sequence */
    uint64_t first;
    uint64_t last;
    uint64_t messages;
    uint64_t bytes;
    uint64_t count[SUBJECTS];
} model_t;

static model_t model;
static uint64_t random_state;
static char subjects[SUBJECTS][24];

static uint64_t chance(void) {
    return random_next(&random_state);
}

static uint64_t chance_below(uint64_t n) {
    return chance() % n;
}

static uint64_t cost(const model_message_t *message) {
    return 30 + strlen(subjects[message->subject]) + message->size;
}

static void model_settle_first(void) {
    while (model.first <= model.last && !model.at[model.first].alive) {
        model.first++;
    }
}

static void model_remove(uint64_t seq) {
    model_message_t *message = &model.at[seq];
    message->alive = false;
    model.messages--;
    model.bytes -= cost(message);
    model.count[message->subject]--;
    model_settle_first();
}

static uint64_t model_oldest(uint32_t subject) {
    for (uint64_t seq = model.first; seq <= model.last; seq++) {
        if (model.at[seq].alive && model.at[seq].subject == subject) {
            return seq;
        }
    }
    return 0;
}

static append_verdict_t model_append(uint32_t subject, uint32_t size, uint8_t fill, int64_t ts) {
    const stream_config_t *config = &model.config;
    model_message_t message = {.subject = subject, .size = size, .fill = fill, .alive = true, .ts = ts};
    uint64_t max_per = config->max_msgs_per_subject > 0 ? (uint64_t)config->max_msgs_per_subject : UINT64_MAX;
    uint64_t max_msgs = config->max_msgs > 0 ? (uint64_t)config->max_msgs : UINT64_MAX;
    uint64_t max_bytes = config->max_bytes > 0 ? (uint64_t)config->max_bytes : UINT64_MAX;
    if (config->discard == 1) {
        bool full = model.count[subject] >= max_per;
        if (full && (config->flags & STREAM_DISCARD_NEW_PER_SUBJECT) != 0) {
            return APPEND_MAX_PER_SUBJECT;
        }
        if (model.messages >= max_msgs && !full) {
            return APPEND_MAX_MSGS;
        }
        if (model.bytes + cost(&message) > max_bytes
            && !(full && cost(&model.at[model_oldest(subject)]) >= cost(&message))) {
            return APPEND_MAX_BYTES;
        }
    }
    model.at[++model.last] = message;
    model.messages++;
    model.bytes += cost(&message);
    model.count[subject]++;
    model_settle_first();
    while (model.count[subject] > max_per) {
        model_remove(model_oldest(subject));
    }
    while (model.messages > 0 && (model.messages > max_msgs || model.bytes > max_bytes)) {
        model_remove(model.first);
    }
    return APPEND_STORED;
}

static bool matches(uint64_t seq, bytes_t filter) {
    return filter.size == 0 || subject_matches(text(subjects[model.at[seq].subject]), filter);
}

static uint64_t model_purge(bytes_t filter, uint64_t below, uint64_t keep) {
    uint64_t matching = 0;
    uint64_t purged = 0;
    for (uint64_t seq = model.first; seq <= model.last; seq++) {
        matching += model.at[seq].alive && matches(seq, filter);
    }
    uint64_t may = matching > keep ? matching - keep : 0;
    for (uint64_t seq = model.first; seq <= model.last && purged < may && (below == 0 || seq < below); seq++) {
        if (model.at[seq].alive && matches(seq, filter)) {
            model_remove(seq);
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
        distinct += model.count[i] > 0;
    }
    CHECK_EQ_U64(model.messages, state.messages);
    CHECK_EQ_U64(model.bytes, state.bytes);
    CHECK_EQ_U64(model.last, state.last_seq);
    CHECK_EQ_U64(model.last == 0 ? 0 : model.first, state.first_seq);
    CHECK_EQ_U64(distinct, state.subjects);
    CHECK_EQ_U64(model.messages > 0 ? model.last - model.first + 1 - model.messages : 0, state.deleted_count);
    CHECK_EQ_I64(model.messages > 0 ? model.at[model.first].ts : 0, state.first_ts);
    CHECK_EQ_U64(0, state.corrupt);
}

static void compare_message(const stored_message_t *message, uint64_t seq) {
    const model_message_t *want = &model.at[seq];
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
    for (uint64_t seq = model.first > 20 ? model.first - 20 : 1; seq <= model.last + 2; seq++) {
        bool alive = seq >= model.first && seq <= model.last && model.at[seq].alive;
        CHECK_EQ_I64(alive ? ENTRY_FOUND : ENTRY_NONE, store_read(stream, seq, &message));
        if (alive) {
            compare_message(&message, seq);
        }
    }
}

static void compare_walk(store_stream_t *stream, const char *pattern) {
    bytes_t filter = text(pattern);
    filters_t filters = {.patterns = &filter, .count = 1};
    uint64_t from = chance_below(model.last + 2);
    uint64_t upto = model.last > 0 ? from + chance_below(model.last) : 0;
    uint64_t counted = 0;
    uint64_t start = from;
    stored_message_t message;
    for (uint64_t seq = from < model.first ? model.first : from; seq <= model.last; seq++) {
        if (!model.at[seq].alive || !matches(seq, filter)) {
            continue;
        }
        counted++;
        if (seq <= upto) {
            seek_outcome_t status;
            while ((status = store_next(stream, filters, &start, upto, 7, &message)) == SEEK_MORE) {
            }
            CHECK_EQ_I64(SEEK_FOUND, status);
            compare_message(&message, seq);
            start = seq + 1;
        }
    }
    seek_outcome_t status;
    while ((status = store_next(stream, filters, &start, upto, 7, &message)) == SEEK_MORE) {
    }
    CHECK_EQ_I64(SEEK_NONE, status);
    CHECK_EQ_U64(counted, store_count(stream, filters, from));
}

static void compare_newest(store_stream_t *stream, const char *pattern) {
    bytes_t filter = text(pattern);
    uint64_t upto = chance_below(2) == 0 ? UINT64_MAX : chance_below(model.last + 2);
    uint64_t newest = 0;
    stored_message_t message;
    for (uint64_t seq = model.first; seq <= model.last && seq <= upto; seq++) {
        newest = model.at[seq].alive && matches(seq, filter) ? seq : newest;
    }
    CHECK_EQ_I64(newest > 0 ? ENTRY_FOUND : ENTRY_NONE, store_last_by_subject(stream, filter, upto, &message));
    if (newest > 0) {
        compare_message(&message, newest);
    }
}

typedef struct listing {
    uint64_t seen;
    bool met[SUBJECTS];
    char last[24];
    bool failed;
} listing_t;

static bool visit_subject(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    listing_t *listing = context;
    char name[24] = {0};
    memcpy(name, subject.at, subject.size < 23 ? subject.size : 23);
    listing->failed |=
        getenv("LEAFD_TEST_SEALED") == NULL && strcmp(listing->last, name) >= 0; /* else: by hidden keys */
    memcpy(listing->last, name, sizeof name);
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        if (strcmp(subjects[i], name) == 0) {
            listing->failed |= model.count[i] != count || listing->met[i];
            listing->met[i] = true;
            listing->failed |=
                last_seq == 0 || last_seq > model.last || model.at[last_seq].subject != i || !model.at[last_seq].alive;
            listing->seen++;
        }
    }
    return true;
}

static void compare_subjects(store_stream_t *stream, const char *pattern) {
    listing_t listing = {0};
    uint64_t distinct = 0;
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        distinct += model.count[i] > 0 && subject_matches(text(subjects[i]), text(pattern));
    }
    CHECK_EQ_I64(STATUS_OK, store_subjects(stream, text(pattern), visit_subject, &listing));
    CHECK(!listing.failed);
    CHECK_EQ_U64(distinct, listing.seen);
}

static bool visit_deleted(void *context, uint64_t seq) {
    uint64_t *next = context;
    while (*next <= model.last && model.at[*next].alive) {
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
    uint64_t next = model.first;
    uint64_t from = 0;
    step_outcome_t step;
    do {
        step = store_deleted(stream, &from, UINT64_MAX, 1 + (uint32_t)chance_below(50), visit_deleted, &next);
    } while (step == STEP_MORE);
    CHECK_EQ_I64(STEP_OVER, step);
    CHECK(next != UINT64_MAX);
    uint64_t seq = 0;
    uint64_t at = model.last > 0 ? 1 + chance_below(model.last) : 0;
    uint64_t want = model.first;
    while (want <= model.last && (!model.at[want].alive || model.at[want].ts < model.at[at].ts)) {
        want++;
    }
    if (model.messages > 0 && at >= model.first) {
        CHECK_EQ_I64(want <= model.last ? SEEK_FOUND : SEEK_NONE,
                     store_seq_at_time(stream, model.at[at].ts, UINT32_MAX, &seq));
        CHECK_EQ_U64(want, want <= model.last ? seq : want);
    }
}

/* ---- the duel ---------------------------------------------------------------------------------------------------- */

static stream_config_t random_config(void) {
    stream_config_t config = rig_config();
    config.max_msgs = chance_below(3) == 0 ? (int64_t)(1 + chance_below(200)) : -1;
    config.max_bytes = chance_below(3) == 0 ? (int64_t)(50 + chance_below(20000)) : -1;
    config.max_msgs_per_subject = chance_below(2) == 0 ? (int64_t)(1 + chance_below(12)) : -1;
    config.discard = (uint8_t)chance_below(2);
    if (config.discard == 1 && config.max_msgs_per_subject > 0 && chance_below(2) == 0) {
        config.flags |= STREAM_DISCARD_NEW_PER_SUBJECT;
    }
    return config;
}

static void append_random(rig_t *rig, store_stream_t *stream) {
    static uint8_t payload[8192];
    uint32_t subject = (uint32_t)(chance_below(4) == 0 ? chance_below(SUBJECTS) : chance_below(4));
    uint32_t size = (uint32_t)(chance_below(50) == 0 ? chance_below(sizeof payload) : chance_below(100));
    uint8_t fill = (uint8_t)chance();
    rig_pass(rig, (int64_t)chance_below(1000000));
    memset(payload, fill, size);
    append_t append = {.subject = text(subjects[subject]), .payload = bytes_of(payload, size)};
    append_verdict_t want = model_append(subject, size, fill, rig->now.wall_ns);
    appended_t got = store_append(stream, &append, rig->now);
    CHECK_EQ_U64(want, got.verdict);
    if (want == APPEND_STORED) {
        CHECK_EQ_U64(model.last, got.seq);
    }
}

static void delete_random(store_stream_t *stream) {
    uint64_t seq = chance_below(3) == 0 ? model.last : model.first + chance_below(model.last - model.first + 2);
    bool alive = seq >= model.first && seq <= model.last && model.at[seq].alive;
    CHECK_EQ_I64(alive ? STATUS_OK : STATUS_NOT_FOUND, store_delete(stream, seq));
    if (alive) {
        model_remove(seq);
    }
}

static void purge_random(store_stream_t *stream) {
    static const char *const filters[] = {"", "a.1", "a.*", ">", "b.3", "*.2"};
    const char *filter = filters[chance_below(6)];
    uint64_t below = chance_below(3) == 0 && model.last > 0 ? 1 + chance_below(model.last) : 0;
    uint64_t keep = below == 0 && chance_below(2) == 0 ? chance_below(8) : 0;
    uint64_t purged = rig_purge(stream, text(filter), below, keep);
    CHECK_EQ_U64(model_purge(text(filter), below, keep), purged);
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
    for (int64_t until = 0; patient(&until);) {
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
    if (atomic_load(&full_disk_mode) != FULL_OFF && chance_below(4) == 0) {
        full_disk(FULL_OFF);
        rig_checkpoint(rig);
        wait_for_room(rig);
    } else if (atomic_load(&full_disk_mode) == FULL_OFF && chance_below(3) == 0) {
        full_disk(chance_below(2) == 0 ? FULL_ALL : FULL_GROWTH);
    }
    rig_sync(rig);
    uint64_t kind = chance_below(4);
    if (kind == 0) {
        int mode = atomic_load(&full_disk_mode);
        full_disk(FULL_ALL); /* the copy that rig_crash makes is then of one moment */
        usleep(5000);
        rig_crash(rig);
        full_disk((full_disk_t)mode);
        wait_for_room(rig);
        return rig_stream(rig, 7, model.config);
    }
    if (kind == 1) {
        rig_reopen(rig);
        return rig_stream(rig, 7, model.config);
    }
    let_it_try(rig);
    return stream;
}

static store_stream_t *disturb(rig_t *rig, store_stream_t *stream) {
    uint64_t kind = chance_below(12);
    if (kind < 6) {
        rig_sync(rig);
    } else if (kind < 8) {
        rig_checkpoint(rig);
    } else if (kind < 9) {
        rig_reopen(rig);
        return rig_stream(rig, 7, model.config);
    } else if (kind < 11) {
        rig_sync(rig);
        rig_crash(rig);
        return rig_stream(rig, 7, model.config);
    } else {
        store_tick(rig->store, rig->now);
    }
    return stream;
}

static void duel(uint64_t seed, unsigned rounds, bool full_disks) {
    rig_t rig = {0};
    random_state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    memset(&model, 0, sizeof model);
    model.first = 1;
    model.config = random_config();
    rig_open(&rig);
    store_stream_t *stream = rig_stream(&rig, 7, model.config);
    for (unsigned round = 0; round < rounds && model.last < MESSAGES_MAX - 2000; round++) {
        uint64_t burst = chance_below(60);
        bool full = atomic_load(&full_disk_mode) != FULL_OFF;
        for (uint64_t i = 0; i < burst; i++) {
            if (!full) {
                append_random(&rig, stream);
            }
            if (chance_below(model.config.max_msgs < 0 ? 4 : 40) == 0 && model.last > 0) {
                delete_random(stream);
            }
        }
        if (chance_below(10) == 0) {
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
    RUN("the store answers as a dumb model does, through checkpoints, restarts and crashes", restarts);
    RUN("it does so while the disk is full, through restarts and crashes on it, and afterwards", full_disks);
    return TEST_RESULT();
}
