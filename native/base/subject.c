/* subject.c: subjects as values. All walks are token by token over the bytes as they came; nothing is copied.
 *
 * As the reference does: a published subject with an empty token ("a..b", ".a", "a.") matches no pattern at all, and control
 * bytes other than the ones that end a word on the wire are ordinary bytes.
 */
#include "base/subject.h"

typedef struct walk {
    const uint8_t *at;
    const uint8_t *end;
    bool done; /* the token handed out last was the last one */
} walk_t;

static walk_t walk_over(bytes_t subject) {
    return (walk_t){.at = subject.at, .end = subject.at + subject.size, .done = false};
}

static bytes_t walk_next(walk_t *walk) {
    const uint8_t *start = walk->at;
    const uint8_t *dot = start;
    while (dot != walk->end && *dot != '.') {
        dot++;
    }
    walk->done = dot == walk->end;
    walk->at = walk->done ? dot : dot + 1;
    return bytes_of(start, (uint32_t)(dot - start));
}

static bool is_token(bytes_t token, uint8_t wildcard) {
    return token.size == 1 && token.at[0] == wildcard;
}

static bool has_separator(bytes_t token) {
    for (uint32_t i = 0; i < token.size; i++) {
        uint8_t c = token.at[i];
        if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
            return true;
        }
    }
    return false;
}

static bool valid(bytes_t subject, bool wildcards) {
    if (subject.size == 0) {
        return false;
    }
    walk_t walk = walk_over(subject);
    while (!walk.done) {
        bytes_t token = walk_next(&walk);
        if (token.size == 0 || has_separator(token)) {
            return false;
        }
        if (is_token(token, '*') && !wildcards) {
            return false;
        }
        if (is_token(token, '>') && (!wildcards || !walk.done)) {
            return false;
        }
    }
    return true;
}

bool subject_valid_pattern(bytes_t subject) {
    return valid(subject, true);
}

bool subject_valid_literal(bytes_t subject) {
    return valid(subject, false);
}

bool subject_has_wildcard(bytes_t pattern) {
    walk_t walk = walk_over(pattern);
    while (!walk.done) {
        bytes_t token = walk_next(&walk);
        if (is_token(token, '*') || is_token(token, '>')) {
            return true;
        }
    }
    return false;
}

uint32_t subject_token_count(bytes_t subject) {
    uint32_t count = subject.size > 0 ? 1 : 0;
    for (uint32_t i = 0; i < subject.size; i++) {
        count += subject.at[i] == '.';
    }
    return count;
}

bytes_t subject_token(bytes_t subject, uint32_t i) {
    if (subject.size == 0) {
        return BYTES_NONE;
    }
    walk_t walk = walk_over(subject);
    for (;;) {
        bytes_t token = walk_next(&walk);
        if (i == 0) {
            return token;
        }
        if (walk.done) {
            return BYTES_NONE;
        }
        i--;
    }
}

/* The rest of a literal behind the walk, as '>' takes it: at least one token, none of them empty. */
static bool rest_is_whole(walk_t walk) {
    while (!walk.done) {
        if (walk_next(&walk).size == 0) {
            return false;
        }
    }
    return true;
}

bool subject_matches(bytes_t literal, bytes_t pattern) {
    if (literal.size == 0 || pattern.size == 0) {
        return false;
    }
    walk_t l = walk_over(literal);
    walk_t p = walk_over(pattern);
    for (;;) {
        bytes_t pattern_token = walk_next(&p);
        if (is_token(pattern_token, '>') && p.done) {
            return rest_is_whole(l);
        }
        bytes_t literal_token = walk_next(&l);
        if (literal_token.size == 0) {
            return false;
        }
        if (!is_token(pattern_token, '*') && !bytes_equal(literal_token, pattern_token)) {
            return false;
        }
        if (l.done || p.done) {
            return l.done && p.done;
        }
    }
}

bool subject_is_subset(bytes_t inner, bytes_t outer) {
    if (inner.size == 0 || outer.size == 0) {
        return false;
    }
    walk_t i = walk_over(inner);
    walk_t o = walk_over(outer);
    for (;;) {
        bytes_t outer_token = walk_next(&o);
        if (is_token(outer_token, '>') && o.done) {
            return rest_is_whole(i);
        }
        bytes_t inner_token = walk_next(&i);
        if (inner_token.size == 0) {
            return false;
        }
        if (is_token(inner_token, '>') && i.done) {
            return false; /* takes any number of tokens, outer does not */
        }
        if (!is_token(outer_token, '*') && !bytes_equal(inner_token, outer_token)) {
            return false;
        }
        if (i.done || o.done) {
            return i.done && o.done;
        }
    }
}

bool subject_collides(bytes_t a, bytes_t b) {
    if (a.size == 0 || b.size == 0) {
        return false;
    }
    walk_t wa = walk_over(a);
    walk_t wb = walk_over(b);
    for (;;) {
        bytes_t token_a = walk_next(&wa);
        bytes_t token_b = walk_next(&wb);
        bool rest = (is_token(token_a, '>') && wa.done) || (is_token(token_b, '>') && wb.done);
        if (rest) {
            return true; /* both still have at least this token; valid patterns only */
        }
        bool any = is_token(token_a, '*') || is_token(token_b, '*');
        if (!any && !bytes_equal(token_a, token_b)) {
            return false;
        }
        if (wa.done || wb.done) {
            return wa.done && wb.done;
        }
    }
}
