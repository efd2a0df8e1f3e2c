/* test_subject.c: subjects against tables taken from nats-server 2.15.1's answers, and a comparison with a naive
 * matcher that cuts everything into arrays of tokens. Seeds are fixed; a failing check prints the values. */
#include "text/subject.h"

#include <stdlib.h>

#include "test.h"

#define TOKENS 16

static bytes_t text(const char *c) {
    return bytes_of(c, (uint32_t)strlen(c));
}

typedef struct naive {
    uint32_t count;
    char token[TOKENS][8];
} naive_t;

static naive_t naive_cut(const char *subject) {
    naive_t cut = {.count = 1};
    uint32_t size = 0;
    for (const char *c = subject; *c != 0; c++) {
        if (*c == '.') {
            cut.token[cut.count - 1][size] = 0;
            cut.count++;
            size = 0;
        } else {
            cut.token[cut.count - 1][size++] = *c;
        }
    }
    cut.token[cut.count - 1][size] = 0;
    return cut;
}

static bool naive_is(const naive_t *cut, uint32_t i, const char *what) {
    return strcmp(cut->token[i], what) == 0;
}

static bool naive_matches(const char *literal, const char *pattern) {
    naive_t l = naive_cut(literal), p = naive_cut(pattern);
    for (uint32_t i = 0; i < l.count; i++) {
        if (l.token[i][0] == 0) {
            return false;
        }
    }
    for (uint32_t i = 0; i < p.count; i++) {
        if (naive_is(&p, i, ">") && i + 1 == p.count) {
            return i < l.count;
        }
        if (i >= l.count || (!naive_is(&p, i, "*") && strcmp(l.token[i], p.token[i]) != 0)) {
            return false;
        }
    }
    return l.count == p.count;
}

static uint32_t random_state;

static uint32_t random_below(uint32_t bound) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 10) % bound;
}

/* A valid pattern (or, without wildcards, literal) over a tiny alphabet, so that matches are common. */
static void random_subject(char *to, bool wildcards) {
    static const char *const plain[] = {"a", "b", "ab", "*x", "x>"};
    uint32_t count = 1 + random_below(4);
    *to = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t pick = random_below(wildcards ? 8 : 5);
        const char *token = pick < 5 ? plain[pick] : "*";
        if (wildcards && i + 1 == count && random_below(4) == 0) {
            token = ">";
        }
        if (i > 0) {
            strcat(to, ".");
        }
        strcat(to, token);
    }
}

static void validity_as_the_reference(void) {
    static const char *const good[] = {"a",      "a.b",     "foo.*",  "foo.>", ">",          "*",        "*.*",
                                       "foo*.x", "foo.a>b", "foo.>x", "a.**",  "foo\001bar", "f\303\244"};
    static const char *const wrong[] = {"", ".", "a.", ".a", "a..b", ">.a", "a.>.b", "a b", "a\tb", "a\r", "a\n.b"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (!subject_valid_pattern(text(good[i]))) {
            FAIL("\"%s\" is legal", good[i]);
        }
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (subject_valid_pattern(text(wrong[i])) || subject_valid_literal(text(wrong[i]))) {
            FAIL("\"%s\" is not legal", wrong[i]);
        }
    }
    CHECK(subject_valid_literal(text("foo*.x>")));
    CHECK(!subject_valid_literal(text("foo.*")));
    CHECK(!subject_valid_literal(text("foo.>")));
    CHECK(!subject_valid_literal(text(">.foo")));
}

static void storable(void) {
    static const char *const good[] = {"a", "a.b", "foo*.x", "foo.a>b", "a.**", "*a.>>", "f\303\244", "foo\001bar"};
    static const char *const wrong[] = {"",    ".",     "a.",    ".a",  "a..b", "*",   ">",    "a.*",
                                        "*.a", "a.*.b", "a.>.b", "a.>", "a b",  "a\t", "a\rb", "\na"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (!subject_storable(text(good[i]))) {
            FAIL("\"%s\" is a subject", good[i]);
        }
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (subject_storable(text(wrong[i]))) {
            FAIL("\"%s\" is none", wrong[i]);
        }
    }
    CHECK(!subject_storable(bytes_of((const uint8_t *)"a.b\0c", 5)));
}

static void tokens_by_number(void) {
    bytes_t subject = text("a.bc..d");
    CHECK_EQ_U64(4, subject_token_count(subject));
    CHECK_EQ_U64(0, subject_token_count(BYTES_NONE));
    CHECK(bytes_equal(subject_token(subject, 0), text("a")));
    CHECK(bytes_equal(subject_token(subject, 1), text("bc")));
    CHECK_EQ_U64(0, subject_token(subject, 2).size);
    CHECK(bytes_equal(subject_token(subject, 3), text("d")));
    CHECK_EQ_U64(0, subject_token(subject, 4).size);
    CHECK_EQ_U64(0, subject_token(BYTES_NONE, 0).size);
    CHECK(subject_has_wildcard(text("a.*.b")));
    CHECK(subject_has_wildcard(text("a.>")));
    CHECK(!subject_has_wildcard(text("a*.b>.c")));
    CHECK(bytes_equal(subject_stem(text("a.b.*.c")), text("a.b.")));
    CHECK(bytes_equal(subject_stem(text(">")), BYTES_NONE));
    CHECK(bytes_equal(subject_stem(text("a*.b>.c")), text("a*.b>.c")));
    CHECK(subject_is_everything(text(">")) && subject_is_everything(BYTES_NONE) && !subject_is_everything(text("*")));
}

static void matching_by_table(void) {
    CHECK(subject_matches(text("foo.bar"), text("foo.bar")));
    CHECK(subject_matches(text("foo.bar"), text("foo.*")));
    CHECK(subject_matches(text("foo.bar.baz"), text("foo.>")));
    CHECK(subject_matches(text("foo"), text(">")));
    CHECK(subject_matches(text("foo.*"), text("foo.*")));
    CHECK(subject_matches(text("foo.>"), text("foo.*")));
    CHECK(!subject_matches(text("foo"), text("foo.>")));
    CHECK(!subject_matches(text("foo.bar"), text("foo")));
    CHECK(!subject_matches(text("foo"), text("foo.bar")));
    CHECK(!subject_matches(text("foo.*"), text("foo.bar")));
    /* Asked: PUB foo..x, .foo and foo. reach no subscription, not even ">". */
    CHECK(!subject_matches(text("foo..x"), text(">")));
    CHECK(!subject_matches(text(".foo"), text(">")));
    CHECK(!subject_matches(text("foo."), text("foo.*")));
    CHECK(!subject_matches(text(""), text(">")));
}

static void matching_duel(void) {
    for (random_state = 1; random_state < 20; random_state++) {
        uint32_t seed = random_state;
        for (int round = 0; round < 20000; round++) {
            char literal[64], pattern[64];
            random_subject(literal, random_below(8) == 0);
            random_subject(pattern, true);
            if (subject_matches(text(literal), text(pattern)) != naive_matches(literal, pattern)) {
                FAIL("seed %u: \"%s\" against \"%s\"", seed, literal, pattern);
            }
        }
        random_state = seed;
    }
}

/* All literals of one to five tokens over an alphabet that covers every token random_subject makes, and one it never
 * makes. */
static uint32_t every_literal(char literals[][32], uint32_t max) {
    static const char *const tokens[] = {"a", "b", "q"};
    uint32_t count = 0;
    for (uint32_t length = 1; length <= 5; length++) {
        uint32_t combinations = 1;
        for (uint32_t i = 0; i < length; i++) {
            combinations *= 3;
        }
        for (uint32_t c = 0; c < combinations && count < max; c++) {
            uint32_t rest = c;
            literals[count][0] = 0;
            for (uint32_t i = 0; i < length; i++) {
                if (i > 0) {
                    strcat(literals[count], ".");
                }
                strcat(literals[count], tokens[rest % 3]);
                rest /= 3;
            }
            count++;
        }
    }
    return count;
}

static void random_small_pattern(char *to) {
    static const char *const tokens[] = {"a", "b", "*"};
    uint32_t count = 1 + random_below(4);
    *to = 0;
    for (uint32_t i = 0; i < count; i++) {
        strcat(to, i > 0 ? "." : "");
        strcat(to, i + 1 == count && random_below(3) == 0 ? ">" : tokens[random_below(3)]);
    }
}

static void relations_mean_what_they_say(void) {
    static char literals[400][32];
    uint32_t literal_count = every_literal(literals, 400);
    CHECK_EQ_U64(363, literal_count);
    random_state = 99;
    for (int round = 0; round < 3000; round++) {
        char a[64], b[64];
        random_small_pattern(a);
        random_small_pattern(b);
        bool subset = true, collides = false;
        for (uint32_t i = 0; i < literal_count; i++) {
            bool in_a = naive_matches(literals[i], a), in_b = naive_matches(literals[i], b);
            subset = subset && (!in_a || in_b);
            collides = collides || (in_a && in_b);
        }
        if (subject_is_subset(text(a), text(b)) != subset) {
            FAIL("subset of \"%s\" in \"%s\" should be %d", a, b, subset);
        }
        if (subject_collides(text(a), text(b)) != collides) {
            FAIL("collision of \"%s\" and \"%s\" should be %d", a, b, collides);
        }
    }
}

int main(void) {
    RUN("what is stored has a subject without wildcards, blanks and NUL, and no empty token", storable);
    RUN("subjects are legal or not as nats-server has them", validity_as_the_reference);
    RUN("tokens are found by their number, and wildcards only as whole tokens", tokens_by_number);
    RUN("a published subject matches as nats-server matches it", matching_by_table);
    RUN("matching agrees with a naive matcher on random subjects", matching_duel);
    RUN("subset and collision say what enumerating all short subjects says", relations_mean_what_they_say);
    return TEST_RESULT();
}
