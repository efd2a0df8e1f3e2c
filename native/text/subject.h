/* subject.h: the NATS subject as a value: validate, compare, match. Knows no subscriptions and no accounts.
 *
 * A subject is tokens joined by '.'; in a subscription a whole token '*' matches one token and a last token '>' matches
 * one or more. In a published subject '*' and '>' are ordinary bytes.
 */
#ifndef LEAFD_TEXT_SUBJECT_H
#define LEAFD_TEXT_SUBJECT_H

#include <stdbool.h>

#include "base/bytes.h"

#define SUBJECT_TOKENS_MAX 256 /* deeper subjects are refused where subscriptions are made */

/* Legal as a subscription: non-empty tokens, no blank, tab, CR or LF, '>' only last. "foo*.x" is a legal literal. Other
 * control bytes are legal, as in the reference. */
bool subject_valid_pattern(bytes_t subject);
/* Legal as a pedantic publish: as above, and no wildcard tokens. */
bool subject_valid_literal(bytes_t subject);
/* Legal for a message that a stream is to keep: as above, without NUL. */
bool subject_storable(bytes_t subject);
bool subject_has_wildcard(bytes_t pattern);
/* The part of a pattern before its first wildcard, with the dot; all of it when there is none. */
bytes_t subject_stem(bytes_t pattern);
/* As a filter, where an empty one stands for everything. */
static inline bool subject_is_everything(bytes_t filter) {
    return filter.size == 0 || (filter.size == 1 && filter.at[0] == '>');
}
/* Such a subject is legal to publish and matches nothing, not even '>'. The empty subject is one. */
static inline bool subject_has_empty_token(bytes_t subject) {
    uint8_t before = '.';
    for (uint32_t i = 0; i < subject.size; i++) {
        if (subject.at[i] == '.' && before == '.') {
            return true;
        }
        before = subject.at[i];
    }
    return before == '.';
}
uint32_t subject_token_count(bytes_t subject);
/* Token number i (0-based), BYTES_NONE when there are fewer. */
bytes_t subject_token(bytes_t subject, uint32_t i);
/* Does the literal subject match the pattern? Every token of `literal` is taken as is ('*' is no wildcard there); a
 * literal with an empty token matches nothing. */
bool subject_matches(bytes_t literal, bytes_t pattern);
/* Is every subject that `inner` matches matched by `outer` too? */
bool subject_is_subset(bytes_t inner, bytes_t outer);
/* Can one literal subject match both patterns? */
bool subject_collides(bytes_t a, bytes_t b);

#endif
