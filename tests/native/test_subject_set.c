/* test_subject_set.c: sets of patterns against asking each pattern in turn. */
#include "text/subject_set.h"

#include <stdlib.h>

#include "text/subject.h"
#include "test.h"

#define PATTERNS_MAX 400
#define TEXT_MAX 64

static uint32_t random_state;

static uint32_t random_below(uint32_t bound) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 10) % bound;
}

/* Over a tiny alphabet with bytes on both sides of '.', so that much matches and prefixes are common. Some are no
 * patterns. */
static bytes_t random_subject(char *to, bool wildcards) {
    static const char *const plain[] = {"a", "b", "ab", "a-", "a0", "*x", "x>", "\001", "", ">"};
    uint32_t known = random_below(12) == 0 ? 10 : 8;
    uint32_t count = 1 + random_below(5);
    *to = 0;
    for (uint32_t i = 0; i < count; i++) {
        const char *token = wildcards && random_below(4) == 0 ? "*" : plain[random_below(known)];
        if (wildcards && i + 1 == count && random_below(6) == 0) {
            token = ">";
        }
        strcat(to, i > 0 ? "." : "");
        strcat(to, token);
    }
    return bytes_of(to, (uint32_t)strlen(to));
}

static bool any(const subject_set_t *set, bytes_t subject, bool (*holds)(bytes_t subject, bytes_t pattern)) {
    for (uint32_t i = 0; i < set->count; i++) {
        if (holds(subject, set->at[i])) {
            return true;
        }
    }
    return false;
}

static void duel(void) {
    static char texts[PATTERNS_MAX][TEXT_MAX];
    bytes_t patterns[PATTERNS_MAX];
    uint32_t answers[2] = {0, 0};
    for (uint32_t round = 0; round < 400; round++) {
        random_state = round;
        uint32_t count = random_below(round % 2 == 0 ? 24 : PATTERNS_MAX);
        bool wild = random_below(3) != 0; /* without wildcards a set says no more often */
        for (uint32_t i = 0; i < count; i++) {
            patterns[i] = random_subject(texts[i], wild && random_below(1 + round % 7) == 0);
        }
        subject_set_t set = subject_set_make(patterns, count);
        CHECK_EQ_U64(count, set.count);
        for (uint32_t i = 0; i < 200; i++) {
            char text[TEXT_MAX];
            bytes_t subject = random_subject(text, random_below(2) == 0);
            bool matches = any(&set, subject, subject_matches);
            bool covers = any(&set, subject, subject_is_subset);
            bool collides = any(&set, subject, subject_collides);
            answers[matches]++;
            if (subject_set_matches(&set, subject) != matches || subject_set_covers(&set, subject) != covers
                || subject_set_collides(&set, subject) != collides) {
                FAIL("round %u: \"%s\" among %u patterns: matches %d, covered %d, collides %d", round, text, count,
                     matches, covers, collides);
            }
        }
    }
    CHECK(answers[0] > 5000);
    CHECK(answers[1] > 5000);
}

/* Each '*' may be a '*' or a token of the pattern: followed both ways at each of 100 tokens this would never end. */
static void deep(void) {
    static char texts[64][512];
    bytes_t patterns[64];
    for (uint32_t i = 0; i < 64; i++) {
        texts[i][0] = 0;
        for (uint32_t j = 0; j < 100; j++) {
            strcat(texts[i], (i >> (j % 6) & 1) != 0 ? "*." : "a.");
        }
        strcat(texts[i], "end");
        patterns[i] = bytes_of(texts[i], (uint32_t)strlen(texts[i]));
    }
    subject_set_t set = subject_set_make(patterns, 64);
    static char literal[512], wild[512];
    for (uint32_t j = 0; j < 100; j++) {
        strcat(literal, "a.");
        strcat(wild, "*.");
    }
    strcat(literal, "other");
    strcat(wild, "other");
    CHECK(!subject_set_matches(&set, bytes_of(literal, (uint32_t)strlen(literal))));
    CHECK(!subject_set_covers(&set, bytes_of(wild, (uint32_t)strlen(wild))));
    CHECK(!subject_set_collides(&set, bytes_of(wild, (uint32_t)strlen(wild))));
}

int main(void) {
    RUN("a set of patterns, short or long, answers as each of its patterns in turn", duel);
    RUN("a deep subject among patterns that begin alike is answered at once", deep);
    return TEST_RESULT();
}
