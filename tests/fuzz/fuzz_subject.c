/* Invariant: for any two subjects, if a is a subset of b then whatever literal matches a matches b; if a literal
 * matches both they collide; tokens joined by dots give the subject again. Input: three subjects with a line feed
 * between them.
 */
#include <stddef.h>

#include "base/check.h"
#include "text/subject.h"
#include "lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void tokens_join_to_the_subject(bytes_t subject) {
    uint32_t at = 0;
    uint32_t count = subject_token_count(subject);
    for (uint32_t i = 0; i < count; i++) {
        bytes_t token = subject_token(subject, i);
        check(token.at == subject.at + at);
        at += token.size;
        check(i + 1 == count || subject.at[at] == '.');
        at += i + 1 < count;
    }
    check(at == subject.size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 256) {
        return 0;
    }
    bytes_t rest = bytes_of(data, (uint32_t)size);
    bytes_t a = cut_line(&rest), b = cut_line(&rest), literal = cut_line(&rest);
    tokens_join_to_the_subject(a);
    if (subject_valid_literal(a)) {
        check(subject_valid_pattern(a));
        check(!subject_has_wildcard(a));
        check(subject_matches(a, a));
    }
    if (!subject_valid_pattern(a) || !subject_valid_pattern(b)) {
        return 0;
    }
    bool in_a = subject_matches(literal, a), in_b = subject_matches(literal, b);
    check(subject_is_subset(a, a));
    check(subject_collides(a, a));
    check(subject_collides(a, b) == subject_collides(b, a));
    if (subject_is_subset(a, b)) {
        check(!in_a || in_b);
        check(subject_collides(a, b));
    }
    if (in_a && in_b) {
        check(subject_collides(a, b));
    }
    return 0;
}
