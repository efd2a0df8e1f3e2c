/* subject_set.c: see subject_set.h. Not here: what a pattern means (subject.c); patterns that come and
 * go (route/). */
#include "text/subject_set.h"

#include <stdlib.h>

#include "text/subject.h"

/* ---- order ------------------------------------------------------------------------------------------------------- */

/* The end of a token sorts before every byte of one, so that a token's patterns are not parted by those of a longer
 * token. */
static uint32_t byte_rank(uint8_t c) {
    return c == '.' ? 0 : c + 1u;
}

static int by_tokens(const void *left, const void *right) {
    const bytes_t *a = left, *b = right;
    uint32_t shorter = a->size < b->size ? a->size : b->size;
    uint32_t i = 0;
    while (i < shorter && a->at[i] == b->at[i]) {
        i++;
    }
    if (i == shorter) {
        return a->size == b->size ? 0 : a->size < b->size ? -1 : 1;
    }
    return byte_rank(a->at[i]) < byte_rank(b->at[i]) ? -1 : 1;
}

/* Valid, and no deeper than the walks below go. */
static bool is_sortable(bytes_t pattern) {
    return subject_valid_pattern(pattern) && subject_token_count(pattern) <= SUBJECT_TOKENS_MAX;
}

subject_set_t subject_set_make(bytes_t *at, uint32_t count) {
    subject_set_t set = {.at = at, .count = count};
    if (count <= SUBJECT_SET_SMALL) {
        return set;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (is_sortable(at[i])) {
            bytes_t pattern = at[i];
            at[i] = at[set.sorted];
            at[set.sorted++] = pattern;
        }
    }
    qsort(at, set.sorted, sizeof(*at), by_tokens);
    return set;
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

/* Patterns [from, to) that begin alike; their next token begins at `depth`. Those that have none come first. */
typedef struct range {
    uint32_t from;
    uint32_t to;
    uint32_t depth;
} range_t;

/* How the pattern's token at depth compares to the token; a pattern without one is less than any. */
static int compare_at(bytes_t pattern, uint32_t depth, bytes_t token) {
    if (depth > pattern.size) {
        return -1;
    }
    for (uint32_t i = 0; i < token.size; i++) {
        if (depth + i == pattern.size) {
            return -1;
        }
        if (pattern.at[depth + i] != token.at[i]) {
            return byte_rank(pattern.at[depth + i]) < byte_rank(token.at[i]) ? -1 : 1;
        }
    }
    uint32_t end = depth + token.size;
    return end == pattern.size || pattern.at[end] == '.' ? 0 : 1;
}

/* The first in [from, to) whose token compares above `order`. */
static uint32_t range_bisect(const subject_set_t *set, uint32_t from, range_t range, bytes_t token, int order) {
    uint32_t to = range.to;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        if (compare_at(set->at[middle], range.depth, token) > order) {
            to = middle;
        } else {
            from = middle + 1;
        }
    }
    return from;
}

/* The part of the range that goes on with the token. false: none. */
static bool range_narrow(const subject_set_t *set, range_t range, bytes_t token, range_t *out) {
    uint32_t from = range_bisect(set, range.from, range, token, -1);
    if (from == range.to || compare_at(set->at[from], range.depth, token) != 0) {
        return false;
    }
    *out = (range_t){
        .from = from, .to = range_bisect(set, from + 1, range, token, 0), .depth = range.depth + token.size + 1};
    return true;
}

/* Is one of them a whole pattern here? */
static bool has_end(const subject_set_t *set, range_t range) {
    return set->at[range.from].size + 1 == range.depth;
}

static bytes_t next_token(bytes_t *left) {
    uint32_t size = 0;
    while (size < left->size && left->at[size] != '.') {
        size++;
    }
    bytes_t token = bytes_of(left->at, size);
    *left = size == left->size ? BYTES_NONE : bytes_of(left->at + size + 1, left->size - size - 1);
    return token;
}

static bool is_wildcard(bytes_t token, uint8_t wildcard) {
    return token.size == 1 && token.at[0] == wildcard;
}

static bool has_rest(const subject_set_t *set, range_t range) {
    range_t rest;
    return range_narrow(set, range, BYTES_LITERAL(">"), &rest);
}

/* ---- look-ups ---------------------------------------------------------------------------------------------------- */

/* literal: a '>' at the end of the subject is a token as any other. No token of it is empty. */
static bool range_covers(const subject_set_t *set, range_t range, bytes_t left, bool literal) {
    for (;;) {
        if (has_rest(set, range)) {
            return true;
        }
        bytes_t token = next_token(&left);
        bool last = left.at == NULL;
        if (!literal && last && is_wildcard(token, '>')) {
            return false;
        }
        range_t below;
        if (!is_wildcard(token, '*') && range_narrow(set, range, BYTES_LITERAL("*"), &below)
            && (last ? has_end(set, below) : range_covers(set, below, left, literal))) {
            return true;
        }
        if (!range_narrow(set, range, token, &range)) {
            return false;
        }
        if (last) {
            return has_end(set, range);
        }
    }
}

static bool range_collides(const subject_set_t *set, range_t range, bytes_t left);

/* All tokens of the range, one after the other. */
static bool any_collided(const subject_set_t *set, range_t range, bytes_t left) {
    uint32_t from = range_bisect(set, range.from, range, BYTES_NONE, -1);
    while (from < range.to) {
        bytes_t pattern = set->at[from];
        bytes_t rest = bytes_of(pattern.at + range.depth, pattern.size - range.depth);
        bytes_t token = next_token(&rest);
        range_t below = {
            .from = from, .to = range_bisect(set, from + 1, range, token, 0), .depth = range.depth + token.size + 1};
        if (left.at == NULL ? has_end(set, below) : range_collides(set, below, left)) {
            return true;
        }
        from = below.to;
    }
    return false;
}

static bool range_collides(const subject_set_t *set, range_t range, bytes_t left) {
    for (;;) {
        if (has_rest(set, range)) {
            return true;
        }
        bytes_t token = next_token(&left);
        bool last = left.at == NULL;
        if (is_wildcard(token, '*')) {
            return any_collided(set, range, left);
        }
        if (last && is_wildcard(token, '>')) {
            return set->at[range.to - 1].size >= range.depth;
        }
        range_t below;
        if (range_narrow(set, range, BYTES_LITERAL("*"), &below)
            && (last ? has_end(set, below) : range_collides(set, below, left))) {
            return true;
        }
        if (!range_narrow(set, range, token, &range)) {
            return false;
        }
        if (last) {
            return has_end(set, range);
        }
    }
}

static range_t all_of(const subject_set_t *set) {
    return (range_t){.from = 0, .to = set->sorted, .depth = 0};
}

bool subject_set_matches(const subject_set_t *set, bytes_t literal) {
    for (uint32_t i = set->sorted; i < set->count; i++) {
        if (subject_matches(literal, set->at[i])) {
            return true;
        }
    }
    return set->sorted != 0 && !subject_has_empty_token(literal) && range_covers(set, all_of(set), literal, true);
}

bool subject_set_covers(const subject_set_t *set, bytes_t pattern) {
    for (uint32_t i = set->sorted; i < set->count; i++) {
        if (subject_is_subset(pattern, set->at[i])) {
            return true;
        }
    }
    return set->sorted != 0 && !subject_has_empty_token(pattern) && range_covers(set, all_of(set), pattern, false);
}

bool subject_set_collides(const subject_set_t *set, bytes_t pattern) {
    /* A text that is not a pattern is compared one by one: only that tells its meaning. */
    bool valid = set->sorted != 0 && subject_valid_pattern(pattern);
    for (uint32_t i = valid ? set->sorted : 0; i < set->count; i++) {
        if (subject_collides(pattern, set->at[i])) {
            return true;
        }
    }
    return valid && range_collides(set, all_of(set), pattern);
}
