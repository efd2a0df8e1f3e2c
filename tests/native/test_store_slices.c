/* test_store_slices.c: work on a store that is done in slices, against a simple model that does it at once. Between the
 * slices messages come, go and are evicted, batches become durable, and checkpoints write subjects from the overlay to
 * LMDB. LEAFD_DUEL_SEED replays one seed.
 */
#include "base/random.h"
#include "text/subject.h"
#include "store_rig.h"

#define MESSAGES_MAX 40000
#define SUBJECTS 3000
#define TALLIES 4
#define PATTERNS 16
#define PROBE_FILTERS 24
#define FILTERS_MANY 12000

typedef struct model_message {
    uint32_t subject;
    bool alive;
} model_message_t;

static rig_t rig;
static store_stream_t *stream;
static model_message_t model[MESSAGES_MAX];
static uint64_t model_last, model_most;
static uint64_t count_of[SUBJECTS], last_of[SUBJECTS], deaths_of[SUBJECTS];
static char *subjects[SUBJECTS];
static uint64_t random_state;

static uint64_t below(uint64_t n) {
    return random_next(&random_state) % n;
}

/* Some are too long for a key, and alike in what a key keeps of them. */
static void name_subjects(void) {
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        char name[700];
        if (i % 50 == 7) {
            int size = snprintf(name, sizeof name, "long.%0560u.%u", 0u, i);
            CHECK(size > 480);
        } else {
            snprintf(name, sizeof name, "%s.%u.%u", i % 3 == 0 ? "a" : i % 3 == 1 ? "b" : "ab", i % 7, i);
        }
        free(subjects[i]);
        subjects[i] = strdup(name);
    }
}

static const char *const patterns[PATTERNS] = {"a.>",    "*.3.*", ">",     "ab.5.*", "none.*", "b.1.1",
                                               "long.>", "*.*.3", "a.0.0", "b.*.>",  "b.4.4",  "ab.1.8",
                                               "ab.2.2", "a.3.3", "*.9.*", "*.*.17"};

static bool matches(uint32_t subject, const char *pattern) {
    return subject_matches(text(subjects[subject]), text(pattern));
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

static void model_dies(uint64_t seq) {
    uint32_t subject = model[seq].subject;
    model[seq].alive = false;
    deaths_of[subject] += --count_of[subject] == 0;
    while (last_of[subject] > 0 && !(model[last_of[subject]].alive && model[last_of[subject]].subject == subject)) {
        last_of[subject]--;
    }
}

static appended_t put(const char *subject, uint8_t rollup) {
    append_t append = {.subject = text(subject), .payload = text("p"), .rollup = rollup};
    appended_t got = rig_append(&rig, stream, &append);
    CHECK_EQ_U64(APPEND_STORED, got.verdict);
    return got;
}

static void model_grows(uint32_t subject) {
    model_last++;
    model[model_last] = (model_message_t){.subject = subject, .alive = true};
    count_of[subject]++;
    last_of[subject] = model_last;
    if (model_most > 0 && count_of[subject] > model_most) {
        uint64_t oldest = 1;
        while (!(model[oldest].alive && model[oldest].subject == subject)) {
            oldest++;
        }
        model_dies(oldest);
    }
}

static void append_one(void) {
    uint32_t subject = (uint32_t)(below(3) == 0 ? below(SUBJECTS) : below(40));
    CHECK_EQ_U64(model_last + 1, put(subjects[subject], 0).seq);
    model_grows(subject);
}

static void delete_one(void) {
    uint64_t seq = below(3) == 0 ? last_of[below(12)] : 1 + below(model_last + 1);
    bool alive = seq > 0 && seq <= model_last && model[seq].alive;
    CHECK_EQ_I64(alive ? STATUS_OK : STATUS_NOT_FOUND, store_delete(stream, seq));
    if (alive) {
        model_dies(seq);
    }
}

static void disturb(void) {
    for (uint64_t i = below(12); i > 0 && model_last < MESSAGES_MAX - 2; i--) {
        append_one();
    }
    for (uint64_t i = below(6); i > 0 && model_last > 0; i--) {
        delete_one();
    }
    rig_pass(&rig, 1000000);
    if (below(6) == 0) {
        rig_sync(&rig);
    } else if (below(60) == 0) {
        rig_checkpoint(&rig);
    }
}

/* ---- tallies ----------------------------------------------------------------------------------------------------- */

typedef struct probe {
    store_tally_t *tally;
    const char *pattern[PROBE_FILTERS];
    uint32_t count;
    uint64_t from;
    bool known;
    uint32_t shown;
} probe_t;

static uint64_t model_count(const probe_t *probe) {
    uint64_t count = 0;
    for (uint64_t seq = probe->from > 0 ? probe->from : 1; seq <= model_last; seq++) {
        if (!model[seq].alive) {
            continue;
        }
        bool in = probe->count == 0;
        for (uint32_t i = 0; i < probe->count && !in; i++) {
            in = matches(model[seq].subject, probe->pattern[i]);
        }
        count += in;
    }
    return count;
}

static filters_t sorted_filters(bytes_t *filters, uint32_t count) {
    subject_set_t set = subject_set_make(filters, count);
    return (filters_t){.patterns = set.at, .count = set.count, .sorted = set.sorted};
}

static void probe_open(probe_t *probe) {
    uint64_t most = below(4) == 0 ? PROBE_FILTERS : 2;
    *probe = (probe_t){.count = (uint32_t)below(most + 1), .from = below(4) == 0 ? 0 : below(model_last + 20)};
    bytes_t filters[PROBE_FILTERS];
    for (uint32_t i = 0; i < probe->count; i++) {
        do {
            probe->pattern[i] = patterns[below(PATTERNS)];
        } while (probe->count > 2 && probe->pattern[i][0] == '>'); /* everything is one filter */
        filters[i] = text(probe->pattern[i]);
    }
    probe->tally = store_tally_open(stream, sorted_filters(filters, probe->count), probe->from);
    CHECK(probe->tally != NULL);
}

static void probe_step(probe_t *probe) {
    if (probe->tally == NULL) {
        probe_open(probe);
    }
    if (below(3) == 0) {
        return;
    }
    static const uint64_t budgets[] = {4, 4, 12, 100, 400, 20000};
    probe->known = probe->known || store_tally_step(probe->tally, 1 + (uint32_t)below(budgets[below(6)])) == STEP_OVER;
    if (!probe->known) {
        return;
    }
    CHECK_EQ_U64(model_count(probe), store_tally_now(probe->tally));
    if (++probe->shown > below(8)) {
        store_tally_close(probe->tally);
        probe->tally = NULL;
    }
}

/* ---- a walk ------------------------------------------------------------------------------------------------------ */

typedef struct walker {
    store_walk_t *walk;
    const char *pattern;
    uint64_t deaths[SUBJECTS];
    bool lived[SUBJECTS]; /* at the start */
    bool seen[SUBJECTS];
} walker_t;

static walker_t walker;

static uint32_t subject_named(bytes_t name) {
    uint32_t i = 0;
    uint32_t start = name.size;
    while (start > 0 && name.at[start - 1] != '.') {
        start--;
    }
    for (; start < name.size; start++) {
        i = i * 10 + (uint32_t)(name.at[start] - '0');
    }
    CHECK(i < SUBJECTS);
    CHECK_TEXT(subjects[i], name.at, name.size);
    return i;
}

static bool visit(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    (void)context;
    uint32_t i = subject_named(subject);
    CHECK(matches(i, walker.pattern));
    CHECK(!walker.seen[i]);
    walker.seen[i] = true;
    CHECK_EQ_U64(count_of[i], count);
    CHECK_EQ_U64(last_of[i], last_seq);
    return true;
}

static void walk_step(void) {
    if (walker.walk == NULL) {
        walker.pattern = patterns[below(PATTERNS)];
        memcpy(walker.deaths, deaths_of, sizeof walker.deaths);
        memset(walker.seen, 0, sizeof walker.seen);
        for (uint32_t i = 0; i < SUBJECTS; i++) {
            walker.lived[i] = count_of[i] > 0;
        }
        walker.walk = store_walk_open(stream, text(walker.pattern));
        CHECK(walker.walk != NULL);
    }
    step_outcome_t step = store_walk_step(walker.walk, 1 + (uint32_t)below(300), visit, NULL);
    if (step == STEP_MORE) {
        return;
    }
    CHECK_EQ_I64(STEP_OVER, step);
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        bool all_the_while = walker.lived[i] && walker.deaths[i] == deaths_of[i];
        CHECK(!all_the_while || !matches(i, walker.pattern) || walker.seen[i]);
    }
    store_walk_close(walker.walk);
    walker.walk = NULL;
}

/* ---- the newest -------------------------------------------------------------------------------------------------- */

typedef struct finder {
    bool open;
    store_newest_t newest;
    const char *pattern;
    uint64_t start; /* the last sequence then */
} finder_t;

static finder_t finder;

static void newest_step(void) {
    if (!finder.open) {
        finder = (finder_t){.open = true, .pattern = patterns[below(PATTERNS)], .start = model_last};
    }
    uint64_t seq = 0;
    seek_outcome_t outcome =
        store_newest(stream, &finder.newest, text(finder.pattern), UINT64_MAX, 1 + (uint32_t)below(300), &seq);
    if (outcome == SEEK_MORE) {
        return;
    }
    CHECK(outcome == SEEK_FOUND || outcome == SEEK_NONE);
    uint64_t there = finder.start; /* alive all the while: nothing comes back to life */
    while (there > 0 && !(model[there].alive && matches(model[there].subject, finder.pattern))) {
        there--;
    }
    if (outcome == SEEK_FOUND) {
        CHECK(seq > 0 && seq <= model_last && seq >= there);
        CHECK(matches(model[seq].subject, finder.pattern));
    } else {
        CHECK_EQ_U64(0, there);
    }
    store_newest_end(&finder.newest);
    finder.open = false;
}

/* ---- an expectation ---------------------------------------------------------------------------------------------- */

static const char *expected; /* the pattern of one that waits; NULL: none does */
static uint64_t expected_later, expected_known;

static uint64_t model_newest(const char *pattern) {
    uint64_t newest = 0;
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        bool newer = count_of[i] > 0 && last_of[i] > newest;
        newest = newer && matches(i, pattern) ? last_of[i] : newest;
    }
    return newest;
}

/* What is expected is right, or not, at the moment when it is decided. */
static void expect_step(void) {
    if (model_last >= MESSAGES_MAX - 2) {
        return;
    }
    expected = expected != NULL ? expected : patterns[below(PATTERNS)];
    uint64_t newest = model_newest(expected);
    uint32_t subject = (uint32_t)below(SUBJECTS);
    append_t append = {.subject = text(subjects[subject]),
                       .payload = text("p"),
                       .has_expected_subject_seq = true,
                       .expected_subject_seq = below(2) == 0 ? newest : below(model_last + 1),
                       .expected_subject = text(expected),
                       .waits = true};
    appended_t got = store_append(stream, &append, rig.now);
    if (got.verdict == APPEND_NO_SPACE || got.verdict == APPEND_LATER) {
        expected_later += got.verdict == APPEND_LATER;
        return;
    }
    if (append.expected_subject_seq == newest) {
        CHECK_EQ_U64(APPEND_STORED, got.verdict);
        CHECK_EQ_U64(model_last + 1, got.seq);
        model_grows(subject);
    } else {
        CHECK_EQ_U64(APPEND_WRONG_LAST_SEQ, got.verdict);
        CHECK_EQ_U64(newest, got.seq);
    }
    expected_known++;
    expected = NULL;
}

/* ---- a purge ----------------------------------------------------------------------------------------------------- */

typedef struct purger {
    bool open;
    store_purge_t purge;
    const char *filter;
    uint64_t upto;
} purger_t;

static purger_t purger;

static bool purged_by_filter(uint64_t seq) {
    return model[seq].alive && (purger.filter[0] == '\0' || matches(model[seq].subject, purger.filter));
}

/* Takes from the model what one step took: the oldest ones that match. */
static void model_purge(uint64_t some) {
    for (uint64_t seq = 1; some > 0; seq++) {
        CHECK(seq <= purger.upto);
        if (purged_by_filter(seq)) {
            model_dies(seq);
            some--;
        }
    }
}

static void purge_step(void) {
    if (!purger.open) {
        static const char *const filters[] = {"ab.>", "a.0.*", "b.1.1", "long.>", "a.0.0", ""};
        if (below(30) != 0) {
            return;
        }
        purger = (purger_t){.open = true, .filter = filters[below(6)], .upto = model_last};
        purger.purge.filter = text(purger.filter);
        purger.purge.keep = below(2) == 0 ? 1 + below(40) : 0;
        if (purger.purge.keep == 0 && below(2) == 0) {
            purger.purge.below_seq = 1 + below(model_last + 1);
            purger.upto = purger.purge.below_seq - 1;
        }
    }
    uint64_t some = 0;
    step_outcome_t step;
    CHECK_EQ_I64(STATUS_OK, store_purge(stream, &purger.purge, &some, &step));
    model_purge(some);
    if (step != STEP_OVER) {
        return;
    }
    uint64_t left = 0;
    uint64_t old = 0;
    for (uint64_t seq = 1; seq <= model_last; seq++) {
        left += purged_by_filter(seq);
        old += seq <= purger.upto && purged_by_filter(seq);
    }
    CHECK(purger.purge.keep > 0 ? old == 0 || left <= purger.purge.keep : old == 0);
    if (purger.purge.keep > 0 && some > 0 && old > 0) {
        CHECK_EQ_U64(purger.purge.keep, left);
    }
    purger.open = false;
}

/* ---- the duel ---------------------------------------------------------------------------------------------------- */

static void duel(uint64_t seed) {
    static probe_t probes[TALLIES];
    random_state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    memset(model, 0, sizeof model);
    memset(count_of, 0, sizeof count_of);
    memset(last_of, 0, sizeof last_of);
    memset(deaths_of, 0, sizeof deaths_of);
    model_last = 0;
    stream_config_t config = rig_config();
    model_most = below(2) == 0 ? 1 + below(5) : 0;
    config.max_msgs_per_subject = model_most > 0 ? (int64_t)model_most : -1;
    rig = (rig_t){0};
    rig_open(&rig);
    stream = rig_stream(&rig, 3, config);
    for (uint64_t i = below(6000); i > 0; i--) {
        append_one();
    }
    for (int round = 0; round < 1200; round++) {
        for (int i = 0; i < TALLIES; i++) {
            probe_step(&probes[i]);
        }
        walk_step();
        newest_step();
        expect_step();
        purge_step();
        disturb();
    }
    for (uint32_t i = 0; i < TALLIES; i++) {
        store_tally_close(probes[i].tally);
        probes[i].tally = NULL;
    }
    store_walk_close(walker.walk);
    walker.walk = NULL;
    store_newest_end(&finder.newest);
    finder.open = false;
    expected = NULL;
    store_purge_end(&purger.purge);
    purger.open = false;
    rig_close(&rig);
}

static void duels(void) {
    name_subjects();
    const char *one = getenv("LEAFD_DUEL_SEED");
    if (one != NULL) {
        duel(strtoull(one, NULL, 10));
    } else {
        for (uint64_t seed = 1; seed <= 6; seed++) {
            fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
            duel(seed);
        }
    }
    CHECK(one != NULL || (expected_later > 0 && expected_known > 0));
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        free(subjects[i]);
        subjects[i] = NULL;
    }
}

/* ---- one slice is bounded ---------------------------------------------------------------------------------------- */

static uint32_t visited;

static bool visit_counting(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    (void)context;
    (void)subject;
    (void)count;
    (void)last_seq;
    visited++;
    return true;
}

static void slices_are_bounded(void) {
    rig = (rig_t){0};
    rig_open(&rig);
    stream = rig_stream(&rig, 3, rig_config());
    for (uint32_t i = 0; i < 30000; i++) {
        char name[32];
        snprintf(name, sizeof name, "s.%u", i);
        (void)put(name, 0);
    }
    visited = 0;
    uint32_t steps = 0;
    store_walk_t *walk = store_walk_open(stream, text("s.*"));
    while (store_walk_step(walk, 1000, visit_counting, NULL) == STEP_MORE) {
        steps++;
        CHECK(visited <= steps * 1000);
    }
    store_walk_close(walk);
    CHECK_EQ_U64(30000, visited);
    for (uint64_t seq = 2; seq < 30000; seq++) {
        if (seq % 2000 == 0) {
            rig_checkpoint(&rig); /* room in the journal */
        }
        CHECK_EQ_I64(STATUS_OK, store_delete(stream, seq));
    }
    stored_message_t message;
    uint64_t from = 2;
    CHECK_EQ_I64(SEEK_MORE, store_next(stream, (filters_t){0}, &from, UINT64_MAX, 100, &message));
    CHECK(from > 100 && from < 30000); /* deleted ones are steps, too */
    rig_close(&rig);
}

/* The newest of a subject leaves no link behind when it goes, and a count that stands on it has to know its way all the
 * same. */
static void count_survives_what_it_stands_on(void) {
    rig = (rig_t){0};
    rig_open(&rig);
    stream = rig_stream(&rig, 3, rig_config());
    for (uint32_t i = 0; i < 400; i++) {
        (void)put(i % 20 == 0 ? "c.x" : "c.y", 0); /* c.x: 1, 21, .. 381 */
    }
    bytes_t filter = text("c.x");
    store_tally_t *tally = store_tally_open(stream, (filters_t){.patterns = &filter, .count = 1}, 100);
    CHECK_EQ_I64(STATUS_OK, store_delete(stream, 381));
    CHECK_EQ_I64(STATUS_OK, store_delete(stream, 361));
    CHECK(store_tally_step(tally, 4) == STEP_MORE); /* counts 341 and 321, stands on 301 */
    CHECK_EQ_I64(STATUS_OK, store_delete(stream, 341));
    CHECK_EQ_I64(STATUS_OK, store_delete(stream, 301));
    (void)put("c.x", 0);
    while (store_tally_step(tally, 4) != STEP_OVER) {
    }
    CHECK_EQ_U64(12, store_tally_now(tally)); /* 101, 121, .. 281, 321, 401 without what went */
    store_tally_close(tally);
    rig_close(&rig);
}

/* The subjects are gone through once, not once for each filter. */
static void thousands_of_filters(void) {
    static char texts[FILTERS_MANY][32];
    static bytes_t filters[FILTERS_MANY];
    static const char *const forms[] = {"s.*.%u", "s.%u.*", "s.1.%u"};
    rig = (rig_t){0};
    rig_open(&rig);
    stream = rig_stream(&rig, 3, rig_config());
    for (uint32_t i = 0; i < FILTERS_MANY; i++) {
        char name[32];
        snprintf(name, sizeof name, "s.%u.%u", i < FILTERS_MANY / 2 ? 1 : i, i);
        (void)put(name, 0);
    }
    for (uint32_t form = 0; form < 3; form++) {
        for (uint32_t i = 0; i < FILTERS_MANY; i++) {
            snprintf(texts[i], sizeof texts[i], forms[form], i);
            filters[i] = text(texts[i]);
        }
        filters_t many = sorted_filters(filters, FILTERS_MANY);
        for (uint64_t from = 0; from <= 1000; from += 1000) {
            clock_t start = clock();
            CHECK_EQ_U64((form == 2 ? FILTERS_MANY / 2 : FILTERS_MANY) - (from == 0 ? 0 : from - 1),
                         store_count(stream, many, from));
            CHECK((clock() - start) / CLOCKS_PER_SEC < 2);
        }
    }
    rig_close(&rig);
}

static void rollup_goes_on(void) {
    rig = (rig_t){0};
    rig_open(&rig);
    stream = rig_stream(&rig, 3, rig_config());
    for (uint32_t i = 0; i < 9000; i++) {
        (void)put(i % 2 == 0 ? "r.0" : "r.1", 0);
    }
    rig_sync(&rig);
    appended_t rolled = put("r.1", 1);
    CHECK_EQ_U64(9001, rolled.seq);
    CHECK_EQ_U64(1, rolled.rolling); /* not done with the append, and it says so */
    (void)put("r.1", 0);             /* later */
    store_purge_t purge = {.filter = text("r.1"), .below_seq = rolled.seq};
    step_outcome_t step = STEP_MORE;
    while (step != STEP_OVER) {
        uint64_t some;
        CHECK_EQ_I64(STATUS_OK, store_purge(stream, &purge, &some, &step));
        rig_sync(&rig);
    }
    bytes_t filter = text("r.1");
    CHECK_EQ_U64(2, store_count(stream, (filters_t){.patterns = &filter, .count = 1}, 0));
    stream_state_t state;
    store_stream_state(stream, &state);
    CHECK_EQ_U64(4502, state.messages);
    rig_close(&rig);
}

int main(void) {
    RUN("counts, walks, searches and purges in slices agree with a model while the stream changes", duels);
    RUN("a slice examines no more than its budget, deleted messages included", slices_are_bounded);
    RUN("a count goes on when the message that it stands on is deleted", count_survives_what_it_stands_on);
    RUN("thousands of filters are counted in little more time than one", thousands_of_filters);
    RUN("a rollup that its first step does not finish says so, and spares what came after it", rollup_goes_on);
    return TEST_RESULT();
}
