/* subject.c: subjects as values. All walks are token by token over the bytes as they came; nothing is copied.
 *
 * As the reference does: a published subject with an empty token ("a..b", ".a", "a.") matches no pattern at all, and
 * control bytes other than the ones that end a word on the wire are ordinary bytes.
 */
#include "text/subject.h"

#include "text/tokens.h"

static bool has_separator(bytes_t token) {
    for (uint32_t i = 0; i < token.size; i++) {
        uint8_t c = token.at[i];
        if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
            return true;
        }
    }
    return false;
}

static bool subject_is_valid(bytes_t subject, bool wildcards) {
    if (subject.size == 0) {
        return false;
    }
    token_walk_t walk = tokens_of(subject);
    while (!walk.done) {
        bytes_t token = tokens_next(&walk);
        if (token.size == 0 || has_separator(token)) {
            return false;
        }
        if (token_is(token, '*') && !wildcards) {
            return false;
        }
        if (token_is(token, '>') && (!wildcards || !walk.done)) {
            return false;
        }
    }
    return true;
}

bool subject_valid_pattern(bytes_t subject) {
    return subject_is_valid(subject, true);
}

bool subject_valid_literal(bytes_t subject) {
    return subject_is_valid(subject, false);
}

/* One walk, since every message that is stored is asked. */
bool subject_storable(bytes_t subject) {
    bool token_begins = true;
    for (uint32_t i = 0; i < subject.size; i++) {
        switch (subject.at[i]) {
        case 0:
        case ' ':
        case '\t':
        case '\r':
        case '\n': return false;
        case '.':
            if (token_begins) {
                return false;
            }
            token_begins = true;
            break;
        case '*':
        case '>':
            if (token_begins && (i + 1 == subject.size || subject.at[i + 1] == '.')) {
                return false;
            }
            token_begins = false;
            break;
        default: token_begins = false;
        }
    }
    return !token_begins;
}

bytes_t subject_stem(bytes_t pattern) {
    token_walk_t walk = tokens_of(pattern);
    while (!walk.done) {
        bytes_t token = tokens_next(&walk);
        if (token_is(token, '*') || token_is(token, '>')) {
            return bytes_of(pattern.at, (uint32_t)(token.at - pattern.at));
        }
    }
    return pattern;
}

bool subject_has_wildcard(bytes_t pattern) {
    return subject_stem(pattern).size < pattern.size;
}

uint32_t subject_token_count(bytes_t subject) {
    return subject.size == 0 ? 0 : 1 + tokens_count_dots(subject.at, subject.at + subject.size);
}

bytes_t subject_token(bytes_t subject, uint32_t i) {
    for (token_walk_t walk = tokens_of(subject); !walk.done; i--) {
        bytes_t token = tokens_next(&walk);
        if (i == 0) {
            return token;
        }
    }
    return BYTES_NONE;
}

/* The rest of a literal behind the walk, as '>' takes it: at least one token, none of them empty. */
static bool rest_is_whole(token_walk_t walk) {
    while (!walk.done) {
        if (tokens_next(&walk).size == 0) {
            return false;
        }
    }
    return true;
}

bool subject_matches(bytes_t literal, bytes_t pattern) {
    if (literal.size == 0 || pattern.size == 0) {
        return false;
    }
    token_walk_t l = tokens_of(literal);
    token_walk_t p = tokens_of(pattern);
    for (;;) {
        bytes_t pattern_token = tokens_next(&p);
        if (token_is(pattern_token, '>') && p.done) {
            return rest_is_whole(l);
        }
        bytes_t literal_token = tokens_next(&l);
        if (literal_token.size == 0) {
            return false;
        }
        if (!token_is(pattern_token, '*') && !bytes_equal(literal_token, pattern_token)) {
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
    token_walk_t i = tokens_of(inner);
    token_walk_t o = tokens_of(outer);
    for (;;) {
        bytes_t outer_token = tokens_next(&o);
        if (token_is(outer_token, '>') && o.done) {
            return rest_is_whole(i);
        }
        bytes_t inner_token = tokens_next(&i);
        if (inner_token.size == 0) {
            return false;
        }
        if (token_is(inner_token, '>') && i.done) {
            return false; /* takes any number of tokens, outer does not */
        }
        if (!token_is(outer_token, '*') && !bytes_equal(inner_token, outer_token)) {
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
    token_walk_t wa = tokens_of(a);
    token_walk_t wb = tokens_of(b);
    for (;;) {
        bytes_t token_a = tokens_next(&wa);
        bytes_t token_b = tokens_next(&wb);
        bool rest = (token_is(token_a, '>') && wa.done) || (token_is(token_b, '>') && wb.done);
        if (rest) {
            return true; /* both still have at least this token; valid patterns only */
        }
        bool any = token_is(token_a, '*') || token_is(token_b, '*');
        if (!any && !bytes_equal(token_a, token_b)) {
            return false;
        }
        if (wa.done || wb.done) {
            return wa.done && wb.done;
        }
    }
}
