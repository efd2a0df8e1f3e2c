/* topic.c: one pass over a topic's bytes in each direction. What each byte becomes depends on its neighbours alone:
 *
 *     '/'   at the start, or behind a separator     "/."    the level before it is empty
 *           at the end, or before another one       "./"    the level behind it is empty, and its token begins here
 *           else                                    "."
 *     '.'                                           "//"
 *
 * "./" leaves the token of the empty level open; the next '/' closes it. A topic that ends behind a "." gets the last
 * token "/". Rows: tests/native/test_topic.c, where nats-server's own answers stand.
 */
#include "text/topic.h"

#include <string.h>

static bool continues(bytes_t text, uint32_t at) {
    return at < text.size && (text.at[at] & 0xc0u) == 0x80u;
}

/* How many bytes the character at `at` has; 0: they are no character. */
static uint32_t character(bytes_t text, uint32_t at) {
    uint8_t first = text.at[at];
    if (first < 0x80) {
        return first != 0;
    }
    if (first < 0xc2 || first > 0xf4 || !continues(text, at + 1)) {
        return 0;
    }
    if (first < 0xe0) {
        return 2;
    }
    uint8_t second = text.at[at + 1];
    if (first < 0xf0) {
        bool overlong = first == 0xe0 && second < 0xa0;
        bool surrogate = first == 0xed && second > 0x9f;
        return overlong || surrogate || !continues(text, at + 2) ? 0 : 3;
    }
    bool overlong = first == 0xf0 && second < 0x90;
    bool above = first == 0xf4 && second > 0x8f;
    return overlong || above || !continues(text, at + 2) || !continues(text, at + 3) ? 0 : 4;
}

/* Are these eight bytes characters of one byte, and none of them zero? */
static bool eight_plain(const uint8_t *at) {
    static const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    return ((word | (word - ones)) & tops) == 0; /* a zero borrows from its own top bit */
}

bool topic_text(bytes_t text) {
    for (uint32_t at = 0; at < text.size;) {
        if (text.size - at >= 8 && eight_plain(text.at + at)) {
            at += 8;
            continue;
        }
        uint32_t size = character(text, at);
        if (size == 0) {
            return false;
        }
        at += size;
    }
    return true;
}

static bool unsupported(uint8_t c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == 0x7f;
}

/* Is the wildcard at `at` a whole level, and '#' the last one? */
static bool whole_level(bytes_t filter, uint32_t at) {
    bool begins = at == 0 || filter.at[at - 1] == '/';
    bool last = at + 1 == filter.size;
    return begins && (last || (filter.at[at] == '+' && filter.at[at + 1] == '/'));
}

/* The bytes of a separator; two at most, to `to`. before: what was written last, 0 = nothing. */
static uint32_t separator(bytes_t topic, uint32_t at, uint8_t before, uint8_t *to) {
    if (at == 0 || before == '.') {
        to[0] = '/';
        to[1] = '.';
        return 2;
    }
    to[0] = '.';
    to[1] = '/';
    return at + 1 == topic.size || topic.at[at + 1] == '/' ? 2 : 1;
}

static topic_verdict_t convert(bytes_t topic, bool filter, uint8_t *to, uint32_t room, uint32_t *size) {
    uint32_t written = 0;
    if (topic.size == 0) {
        return TOPIC_EMPTY;
    }
    for (uint32_t at = 0; at < topic.size; at++) {
        uint8_t c = topic.at[at];
        uint8_t piece[2] = {c, '/'};
        uint32_t pieces = 1;
        if (c == '/') {
            pieces = separator(topic, at, written == 0 ? 0 : to[written - 1], piece);
        } else if (c == '.') {
            piece[0] = '/';
            pieces = 2;
        } else if (c == '+' || c == '#') {
            if (!filter || !whole_level(topic, at)) {
                return TOPIC_WILDCARD;
            }
            piece[0] = c == '+' ? '*' : '>';
        } else if (unsupported(c)) {
            return TOPIC_UNSUPPORTED;
        }
        if (pieces > room - written) {
            return TOPIC_LONG;
        }
        for (uint32_t i = 0; i < pieces; i++) {
            to[written++] = piece[i];
        }
    }
    if (to[written - 1] == '.') {
        if (written == room) {
            return TOPIC_LONG;
        }
        to[written++] = '/';
    }
    *size = written;
    return TOPIC_OK;
}

topic_verdict_t topic_to_subject(bytes_t topic, uint8_t *to, uint32_t room, uint32_t *size) {
    return convert(topic, false, to, room, size);
}

topic_verdict_t topic_filter_to_pattern(bytes_t filter, uint8_t *to, uint32_t room, uint32_t *size) {
    return convert(filter, true, to, room, size);
}

uint32_t topic_parent(bytes_t pattern) {
    bool below = pattern.size > 2 && pattern.at[pattern.size - 1] == '>' && pattern.at[pattern.size - 2] == '.';
    return below ? pattern.size - 2 : 0;
}

bool topic_hidden(bytes_t subject, bytes_t pattern) {
    bool wild = pattern.size != 0 && (pattern.at[0] == '*' || pattern.at[0] == '>')
                && (pattern.size == 1 || pattern.at[1] == '.');
    return wild && subject.size != 0 && subject.at[0] == '$';
}

uint32_t topic_of_subject(bytes_t subject, uint8_t *to) {
    uint32_t written = 0;
    for (uint32_t at = 0; at < subject.size; at++) {
        uint8_t c = subject.at[at];
        uint8_t next = at + 1 < subject.size ? subject.at[at + 1] : 0;
        if (c == '/' && (next == '.' || next == '/')) {
            to[written++] = next == '.' ? '/' : '.';
            at++;
        } else if (c == '.') {
            to[written++] = '/';
        } else if (c != '/') { /* alone at a token's end it is that of an empty level, which has no bytes */
            to[written++] = c;
        }
    }
    return written;
}

bool topic_shared(bytes_t text, bytes_t *name, bytes_t *filter, bool *valid) {
    static const char prefix[] = "$share/";
    uint32_t start = sizeof prefix - 1;
    if (!bytes_starts(text, BYTES_LITERAL(prefix))) {
        return false;
    }
    uint32_t end = start;
    bool plain = true;
    while (end < text.size && text.at[end] != '/') {
        plain = plain && text.at[end] != '+' && text.at[end] != '#';
        end++;
    }
    *name = bytes_of(text.at + start, end - start);
    *filter = end < text.size ? bytes_after(text, end + 1) : BYTES_NONE;
    *valid = plain && name->size != 0 && filter->size != 0;
    return true;
}
