/* aim.c: see aim.h. */
#include "text/aim.h"

#include "text/hash8.h"
#include "text/tokens.h"

#define AIMED_SIZE 13u /* of the last token */
#define DASH_AT 8u

static aim_t read_aim(const uint8_t *at) {
    return (aim_t)at[0] << 24 | (aim_t)at[1] << 16 | (aim_t)at[2] << 8 | at[3];
}

aim_t aim_of_subject(bytes_t subject) {
    static const bytes_t families[] = {
        {(const uint8_t *)"$JSC.R.", 7}, {(const uint8_t *)"$JS.S.", 6}, {(const uint8_t *)"$JS.M.", 6}};
    for (uint32_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        uint32_t before = families[i].size;
        if (subject.size == before + AIMED_SIZE && bytes_starts(subject, families[i])) {
            const uint8_t *token = subject.at + before;
            return token[DASH_AT] == '-' && memchr(token, '.', AIMED_SIZE) == NULL ? read_aim(token + DASH_AT + 1) : 0;
        }
    }
    return 0;
}

static bool is_any(bytes_t token) {
    return token.size == 1 && token.at[0] == '*';
}

static bool is_rest(bytes_t token) {
    return token.size == 1 && token.at[0] == '>';
}

bool aim_is_beyond(bytes_t pattern, aim_t own) {
    token_walk_t walk = tokens_of(pattern);
    bytes_t token = walk.done ? BYTES_NONE : tokens_next(&walk);
    if (is_rest(token)) {
        return true;
    }
    if ((!is_any(token) && !bytes_equal(token, BYTES_LITERAL("$JS"))) || walk.done) {
        return false;
    }
    bytes_t domain = tokens_next(&walk);
    if (is_rest(domain)) {
        return true;
    }
    bytes_t api = walk.done || bytes_equal(domain, BYTES_LITERAL("API")) ? BYTES_NONE : tokens_next(&walk);
    if (!is_any(api) && !is_rest(api) && !bytes_equal(api, BYTES_LITERAL("API"))) {
        return false;
    }
    uint8_t letters[HASH8_SIZE];
    hash8(domain, letters);
    return is_any(domain) || read_aim(letters) != own;
}
