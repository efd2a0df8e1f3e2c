/* test_route.c: the routing domain against a model that compares every subscription with every subject. */
#include "route/route.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "text/subject.h"
#include "test.h"

#define TARGETS 300
#define STEPS 40000

typedef struct row {
    route_target_t target;
    bool in;
    char subject[64];
    char queue[8];
} row_t;

static uint64_t seed = 20260117;

static uint32_t random_below(uint32_t limit) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % limit;
}

static bytes_t text(const char *s) {
    return bytes_of(s, (uint32_t)strlen(s));
}

static void random_subject(char *to, bool pattern) {
    static const char *const words[] = {"a", "b", "c", "dd", "a*", "x>"};
    uint32_t tokens = 1 + random_below(4);
    to[0] = 0;
    for (uint32_t i = 0; i < tokens; i++) {
        const char *word = words[random_below(6)];
        if (pattern && random_below(4) == 0) {
            word = i + 1 == tokens && random_below(2) == 0 ? ">" : "*";
        }
        if (i != 0) {
            strcat(to, ".");
        }
        strcat(to, word);
    }
}

static uint32_t count_in(route_target_t *const *targets, uint32_t count, const route_target_t *target) {
    uint32_t times = 0;
    for (uint32_t i = 0; i < count; i++) {
        times += targets[i] == target;
    }
    return times;
}

static void compare(route_t *route, const row_t *rows, const char *subject) {
    bool once = random_below(4) == 0;
    const route_match_t *match = once ? route_match_once(route, text(subject)) : route_match(route, text(subject));
    uint32_t plain = 0, queued = 0, members = 0;
    for (uint32_t i = 0; i < TARGETS; i++) {
        const row_t *row = &rows[i];
        if (!row->in || !subject_matches(text(subject), text(row->subject))) {
            continue;
        }
        if (row->queue[0] == 0) {
            plain++;
            CHECK_EQ_U64(1, count_in(match->plain, match->plain_count, &row->target));
            continue;
        }
        queued++;
        uint32_t times = 0;
        for (uint32_t g = 0; g < match->group_count; g++) {
            uint32_t in_group = count_in(match->groups[g].members, match->groups[g].count, &row->target);
            CHECK(in_group == 0 || bytes_equal(match->groups[g].queue, text(row->queue)));
            times += in_group;
        }
        CHECK_EQ_U64(1, times);
    }
    for (uint32_t g = 0; g < match->group_count; g++) {
        members += match->groups[g].count;
        for (uint32_t h = 0; h < g; h++) {
            CHECK(!bytes_equal(match->groups[g].queue, match->groups[h].queue));
        }
    }
    CHECK_EQ_U64(plain, match->plain_count);
    CHECK_EQ_U64(queued, members);
}

static void duel(void) {
    static row_t rows[TARGETS];
    route_t *route = route_new(NULL);
    CHECK(route != NULL);
    uint64_t inside = 0;
    for (uint32_t step = 0; step < STEPS; step++) {
        row_t *row = &rows[random_below(TARGETS)];
        uint32_t dice = random_below(8);
        if (dice == 0 && !row->in) {
            random_subject(row->subject, true);
            snprintf(row->queue, sizeof(row->queue), "%s",
                     random_below(3) != 0   ? ""
                     : random_below(2) != 0 ? "q1"
                                            : "q2");
            row->target.kind = 3;
            CHECK_EQ_I64(STATUS_OK, route_add(route, &row->target, text(row->subject), text(row->queue)));
            row->in = true;
            inside++;
        } else if (dice == 1 && row->in && random_below(3) != 0) {
            route_remove(route, &row->target);
            row->in = false;
            inside--;
        } else {
            char subject[64];
            random_subject(subject, false);
            compare(route, rows, subject);
        }
        CHECK_EQ_U64(inside, route_count(route));
        if (step % 512 == 0) {
            route_check(route);
        }
    }
    for (uint32_t i = 0; i < TARGETS; i++) {
        if (rows[i].in) {
            route_remove(route, &rows[i].target);
        }
    }
    route_check(route);
    CHECK_EQ_U64(0, route_count(route));
    route_free(route);
}

static void large_fan_out(void) {
    enum { MANY = 5000 };
    route_target_t *targets = calloc(MANY, sizeof(*targets));
    route_t *route = route_new(NULL);
    CHECK(targets != NULL && route != NULL);
    for (uint32_t i = 0; i < MANY; i++) {
        CHECK_EQ_I64(STATUS_OK, route_add(route, &targets[i], text("wide.>"), BYTES_NONE));
    }
    for (uint32_t round = 0; round < 3; round++) {
        CHECK_EQ_U64(MANY, route_match(route, text("wide.x"))->plain_count);
        CHECK_EQ_U64(MANY, route_match_once(route, text("wide.z"))->plain_count);
        CHECK_EQ_U64(0, route_match(route, text("narrow.z"))->plain_count);
        CHECK_EQ_U64(MANY, route_match(route, text("wide.y"))->plain_count);
        CHECK_EQ_U64(0, route_match(route, text("wide"))->plain_count);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        route_remove(route, &targets[i]);
    }
    CHECK_EQ_U64(0, route_match(route, text("wide.x"))->plain_count);
    route_free(route);
    free(targets);
}

/* Everybody may name groups as he likes: what many cost must not be their square, and same names at several nodes are
 * one group. */
static void many_groups(void) {
    enum { MANY = 30000, NODES = 3 };
    static const char *const patterns[NODES] = {"job.*", "job.>", "job.a"};
    char name[16];
    route_target_t *targets = calloc((size_t)MANY * NODES, sizeof(*targets));
    route_t *route = route_new(NULL);
    CHECK(targets != NULL && route != NULL);
    clock_t start = clock();
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "g%u", (unsigned)i);
        for (uint32_t k = 0; k < NODES; k++) {
            CHECK_EQ_I64(STATUS_OK, route_add(route, &targets[i * NODES + k], text(patterns[k]), text(name)));
        }
    }
    const route_match_t *match = route_match(route, text("job.a"));
    CHECK_EQ_U64(MANY, match->group_count);
    for (uint32_t g = 0; g < match->group_count; g++) {
        CHECK_EQ_U64(NODES, match->groups[g].count);
        for (uint32_t k = 0; k < NODES; k++) {
            CHECK(bytes_equal(match->groups[g].queue, match->groups[g].members[k]->queue));
        }
    }
    CHECK_EQ_U64(MANY, route_match(route, text("job.b"))->group_count);
    route_check(route);
    for (uint32_t i = 0; i < MANY; i += 2) {
        route_remove(route, &targets[i * NODES]);
    }
    route_check(route);
    match = route_match(route, text("job.a"));
    CHECK_EQ_U64(MANY, match->group_count);
    uint64_t members = 0;
    for (uint32_t g = 0; g < match->group_count; g++) {
        members += match->groups[g].count;
    }
    CHECK_EQ_U64((uint64_t)MANY * NODES - MANY / 2, members);
    for (uint32_t i = 0; i < MANY * NODES; i++) {
        if (targets[i].node != NULL) {
            route_remove(route, &targets[i]);
        }
    }
    CHECK((clock() - start) / CLOCKS_PER_SEC < 5);
    CHECK_EQ_U64(0, route_match(route, text("job.a"))->group_count);
    route_check(route);
    route_free(route);
    free(targets);
}

/* Deep patterns that all match up to their last token: what looking for them costs can be told from outside, what the
 * cache knows is free. */
static void steps_are_counted(void) {
    enum { MANY = 256 };
    char pattern[64];
    route_target_t *targets = calloc(MANY, sizeof(*targets));
    route_t *route = route_new(NULL);
    CHECK(targets != NULL && route != NULL);
    const uint64_t *steps = route_steps(route);
    for (uint32_t i = 0; i < MANY; i++) {
        pattern[0] = 0;
        for (uint32_t bit = 0; bit < 8; bit++) {
            strcat(pattern, (i >> bit & 1) != 0 ? "*." : "a.");
        }
        strcat(pattern, "z");
        CHECK_EQ_I64(STATUS_OK, route_add(route, &targets[i], text(pattern), BYTES_NONE));
    }
    CHECK_EQ_U64(0, *steps);
    for (uint32_t round = 0; round < 3; round++) {
        CHECK_EQ_U64(0, route_match(route, text("a.a.a.a.a.a.a.a.y"))->plain_count);
    }
    uint64_t after = *steps;
    CHECK(after >= MANY);
    CHECK_EQ_U64(0, route_match(route, text("a.a.a.a.a.a.a.a.y"))->plain_count);
    CHECK_EQ_U64(after, *steps);
    for (uint32_t i = 0; i < MANY; i++) {
        route_remove(route, &targets[i]);
    }
    route_free(route);
    free(targets);
}

/* Each of the subjects in turn, and after each one that is asked for once, as an answer's is. Returns how many of them
 * were searched for. */
static uint32_t searched_in_turn(route_t *route, const route_target_t *targets, uint32_t count, uint32_t *once) {
    char subject[32];
    uint32_t searched = 0;
    for (uint32_t i = 0; i < count; i++) {
        snprintf(subject, sizeof subject, "bench.%u", i);
        uint64_t before = *route_steps(route);
        const route_match_t *match = route_match(route, text(subject));
        CHECK(match->plain_count == 1 && match->plain[0] == &targets[2 * i]);
        CHECK(match->group_count == 1 && match->groups[0].count == 1
              && match->groups[0].members[0] == &targets[2 * i + 1]);
        searched += *route_steps(route) != before;
        snprintf(subject, sizeof subject, "answers.%u", ++*once);
        CHECK_EQ_U64(0, route_match(route, text(subject))->plain_count);
    }
    return searched;
}

/* Four of ten were, where each subject had one place, and whether it was asked for lately was known of it or not. */
static void many_subjects_in_turn(void) {
    enum { MANY = 1000, ROUNDS = 120, FEW = MANY / 50 };
    char subject[32];
    uint32_t once = 0;
    route_target_t *targets = calloc(MANY, 2 * sizeof(*targets));
    route_t *route = route_new(NULL);
    CHECK(targets != NULL && route != NULL);
    for (uint32_t i = 0; i < 2 * MANY; i++) {
        snprintf(subject, sizeof subject, "bench.%u", i / 2);
        CHECK_EQ_I64(STATUS_OK, route_add(route, &targets[i], text(subject), i % 2 == 0 ? BYTES_NONE : text("queue")));
    }
    CHECK_EQ_U64(MANY, searched_in_turn(route, targets, MANY, &once));
    for (uint32_t round = 1; round < ROUNDS; round++) {
        (void)searched_in_turn(route, targets, MANY, &once);
    }
    uint32_t searched = searched_in_turn(route, targets, MANY, &once);
    CHECK(searched <= FEW);
    for (uint32_t i = 0; i < 2 * MANY; i++) {
        route_remove(route, &targets[i]);
    }
    route_check(route);
    route_free(route);
    free(targets);
}

static bool count_visit(void *context, route_target_t *target) {
    (void)target;
    return ++*(uint32_t *)context < 2;
}

static void odd_subjects(void) {
    route_target_t star = {0}, rest = {0}, odd = {0};
    route_t *route = route_new(NULL);
    CHECK(route != NULL);
    CHECK_EQ_I64(STATUS_INVALID, route_add(route, &star, BYTES_NONE, BYTES_NONE));
    CHECK_EQ_I64(STATUS_OK, route_add(route, &star, text("a.*"), BYTES_NONE));
    CHECK_EQ_I64(STATUS_OK, route_add(route, &rest, text("a.>"), BYTES_NONE));
    CHECK_EQ_I64(STATUS_OK, route_add(route, &odd, text("a*"), BYTES_NONE));
    CHECK_EQ_U64(2, route_match(route, text("a.*"))->plain_count);
    CHECK_EQ_U64(2, route_match(route, text("a.>"))->plain_count);
    CHECK_EQ_U64(1, route_match(route, text("a*"))->plain_count);
    CHECK_EQ_U64(0, route_match(route, text("a"))->plain_count);
    CHECK_EQ_U64(0, route_match(route, BYTES_NONE)->plain_count);
    CHECK_EQ_U64(1, route_match(route, text("a.b.c"))->plain_count);
    CHECK_EQ_U64(0, route_match(route, text("a..c"))->plain_count);
    CHECK_EQ_U64(0, route_match(route, text("a."))->plain_count);
    CHECK_EQ_U64(0, route_match(route, text(".a"))->plain_count);
    uint32_t visited = 0;
    route_each(route, count_visit, &visited);
    CHECK_EQ_U64(2, visited);
    route_remove(route, &star);
    route_remove(route, &rest);
    route_remove(route, &odd);
    route_check(route);
    route_free(route);
}

static void watched(const char *subject, uint32_t counted) {
    route_watch_t watch = {.pattern = BYTES_LITERAL("$JS.EVENT.>")};
    route_t *routes[] = {route_new(&watch), route_new(&watch)};
    route_target_t targets[2] = {{0}, {0}};
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_EQ_I64(STATUS_OK, route_add(routes[i], &targets[i], text(subject), BYTES_NONE));
    }
    CHECK_EQ_U64(2 * counted, watch.count);
    route_target_t refused = {0};
    CHECK_EQ_I64(STATUS_INVALID, route_add(routes[0], &refused, BYTES_NONE, BYTES_NONE));
    for (uint32_t i = 0; i < 2; i++) {
        route_remove(routes[i], &targets[i]);
        route_free(routes[i]);
    }
    CHECK_EQ_U64(0, watch.count);
}

static void watch_counts(void) {
    static const char *const inside[] = {"$JS.EVENT.>", "$JS.EVENT.ADVISORY.API", "$JS.>", ">", "*.*.>", "*.EVENT.*"};
    static const char *const outside[] = {"$JS.EVENT", "$JS.API.>", "$JS.box.API.>", "a.>", "*", "$JS.EVENTS.>"};
    for (uint32_t i = 0; i < sizeof(inside) / sizeof(*inside); i++) {
        watched(inside[i], 1);
    }
    for (uint32_t i = 0; i < sizeof(outside) / sizeof(*outside); i++) {
        watched(outside[i], 0);
    }
}

int main(void) {
    RUN("matching gives what comparing every subscription gives, through adds and removes", duel);
    RUN("a fan-out too large for the cache is matched all the same", large_fan_out);
    RUN("tens of thousands of queue groups on a subject cost their number, not its square", many_groups);
    RUN("what a search for deep patterns costs is counted, so that its turn can end", steps_are_counted);
    RUN("a thousand subjects in turn are found without a search, but for a few, whatever else is asked for between",
        many_subjects_in_turn);
    RUN("wildcard tokens in a published subject are ordinary tokens, and an empty token matches nothing", odd_subjects);
    RUN("a watch counts the targets of all its domains that may match its pattern, and no others", watch_counts);
    return TEST_RESULT();
}
