/* parse.c: one op at a time off the front of the input.
 *
 * The hot lines (PUB, HPUB, LMSG, HMSG) are recognised by one 4-byte comparison and cut into words in a single pass
 * that looks at 16 bytes a step; other ops go through the table of rows. There is no state but how far a line without
 * its end has been searched: a call with more bytes starts at the op's first byte again, at most once a line and once a
 * payload.
 *
 * Answers to odd lines are those of nats-server 2.15.1, found by trying: an op name may be wrong from its first byte
 * on, whole line or not; PING, PONG and +OK ignore the rest of their line; a line ends at LF with or without CR; CR
 * inside a line separates words; numbers have one to nine digits; the control-line limit counts from the first argument
 * to before the CRLF, blanks included. Deliberately different: PING with an endless tail is cut off at the control-line
 * limit too, a sid is at most SID_MAX bytes, and the client's verbs are unknown on all other connections.
 */
#include "wire/parse.h"

#include "base/check.h"
#include "text/blank.h"
#include "text/decimal.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define SID_MAX 64
#define WORDS_MAX (OP_QUEUES_MAX + 7)
#define SIZE_INVALID UINT32_MAX
#define STEP 16

typedef enum rest_rule {
    REST_WORDS = 0,  /* a blank must follow the name */
    REST_TEXT_BLANK, /* the same, and the rest of the line is one text */
    REST_TEXT,       /* the rest is one text, blanks before it are skipped */
    REST_IGNORED,
} rest_rule_t;

typedef struct verb {
    char name[8]; /* lower case */
    uint8_t size;
    uint8_t kinds; /* WIRE_* */
    uint8_t op;
    uint8_t rest;
} verb_t;

#define SERVER (WIRE_ROUTE | WIRE_GATEWAY)
#define ALL (WIRE_CLIENT | WIRE_LEAF | SERVER)

/* clang-format off */
static const verb_t verbs[] = {
    {"pub", 3, WIRE_CLIENT, OP_PUB, REST_WORDS},
    {"hpub", 4, WIRE_CLIENT, OP_HPUB, REST_WORDS},
    {"lmsg", 4, WIRE_LEAF, OP_LEAF_MSG, REST_WORDS},
    {"hmsg", 4, WIRE_LEAF, OP_LEAF_HMSG, REST_WORDS},
    {"sub", 3, WIRE_CLIENT, OP_SUB, REST_WORDS},
    {"unsub", 5, WIRE_CLIENT, OP_UNSUB, REST_WORDS},
    {"ls+", 3, WIRE_LEAF, OP_LEAF_SUB, REST_WORDS},
    {"ls-", 3, WIRE_LEAF, OP_LEAF_UNSUB, REST_WORDS},
    {"rmsg", 4, SERVER, OP_ROUTE_MSG, REST_WORDS},
    {"hmsg", 4, SERVER, OP_ROUTE_MSG, REST_WORDS},
    {"lmsg", 4, WIRE_ROUTE, OP_ROUTE_MSG, REST_WORDS},
    {"rs+", 3, SERVER, OP_ROUTE_SUB, REST_WORDS},
    {"rs-", 3, SERVER, OP_ROUTE_UNSUB, REST_WORDS},
    {"ls+", 3, WIRE_ROUTE, OP_ROUTE_SUB, REST_WORDS},
    {"ls-", 3, WIRE_ROUTE, OP_ROUTE_UNSUB, REST_WORDS},
    {"a+", 2, WIRE_GATEWAY, OP_ACCOUNT, REST_WORDS},
    {"a-", 2, WIRE_GATEWAY, OP_ACCOUNT, REST_WORDS},
    {"ping", 4, ALL, OP_PING, REST_IGNORED},
    {"pong", 4, ALL, OP_PONG, REST_IGNORED},
    {"connect", 7, ALL, OP_CONNECT, REST_TEXT},
    {"info", 4, ALL, OP_INFO, REST_TEXT},
    {"+ok", 3, ALL, OP_OK, REST_IGNORED},
    {"-err", 4, ALL, OP_ERR, REST_TEXT_BLANK},
};
/* clang-format on */

#define VERB_COUNT (sizeof verbs / sizeof verbs[0])

/* The words of one line. */
typedef struct words {
    uint32_t count; /* also those beyond WORDS_MAX, which are not kept */
    uint32_t end;   /* offset behind the line's LF */
    bytes_t at[WORDS_MAX];
} words_t;

void wire_parser_init(wire_parser_t *parser, wire_kind_t kind, uint32_t max_payload, uint32_t max_control_line) {
    *parser = (wire_parser_t){
        .kind = kind, .max_payload = max_payload, .max_control_line = max_control_line, .headers = kind != WIRE_CLIENT};
}

static wire_verdict_t parse_bad(wire_error_t *error, wire_error_t why) {
    *error = why;
    return WIRE_BAD;
}

static wire_verdict_t parse_more(wire_parser_t *parser, uint32_t need) {
    parser->need = need;
    return WIRE_MORE;
}

static wire_verdict_t parse_done(wire_parser_t *parser, uint32_t end, uint32_t *used) {
    parser->searched = 0;
    parser->need = 0;
    *used = end;
    return WIRE_OP;
}

/* Everything but queues[], which queue_count guards and which is too large to be cleared for each message. */
static inline void op_clear(op_t *op, op_kind_t kind) {
    op->kind = kind;
    op->subject = BYTES_NONE;
    op->reply = BYTES_NONE;
    op->queue = BYTES_NONE;
    op->sid = BYTES_NONE;
    op->body = BYTES_NONE;
    op->header = BYTES_NONE;
    op->payload = BYTES_NONE;
    op->max = 0;
    op->weight = 0;
    op->queue_count = 0;
}

/* Ends the word before `at` when `c` is a separator; true at the line's end. Other control bytes belong to words. */
static inline bool cut_word(words_t *words, const uint8_t *base, uint32_t at, uint32_t *start) {
    uint8_t c = base[at];
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') {
        return false;
    }
    if (at > *start) {
        if (LEAF_LIKELY(words->count < WORDS_MAX)) {
            words->at[words->count] = bytes_of(base + *start, at - *start);
        }
        words->count++;
    }
    *start = at + 1;
    return c == '\n';
}

/* Cuts the line from `from` on into words. false: the input ends before the line does. */
static inline bool cut_words(bytes_t input, uint32_t from, words_t *words) {
    const uint8_t *base = input.at;
    uint32_t start = from;
    uint32_t at = from;
    words->count = 0;
#if defined(__SSE2__)
    const __m128i highest = _mm_set1_epi8(' ');
    while (input.size - at >= STEP) {
        __m128i piece = _mm_loadu_si128((const __m128i *)(const void *)(base + at));
        uint32_t low = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(piece, highest), piece));
        while (low != 0) {
            uint32_t i = at + (uint32_t)__builtin_ctz(low);
            low &= low - 1;
            if (cut_word(words, base, i, &start)) {
                words->end = i + 1;
                return true;
            }
        }
        at += STEP;
    }
#endif
    for (; at < input.size; at++) {
        if (base[at] <= ' ' && cut_word(words, base, at, &start)) {
            words->end = at + 1;
            return true;
        }
    }
    return false;
}

/* One to nine digits, else SIZE_INVALID. */
static inline uint32_t word_number(bytes_t word) {
    uint32_t value;
    return decimal_parse_short(word, &value) ? value : SIZE_INVALID;
}

/* Offset of the first argument's first byte. */
static uint32_t blanks_end(bytes_t input, uint32_t at) {
    while (at < input.size && is_blank(input.at[at])) {
        at++;
    }
    return at;
}

/* Is the line that ends before `end` (offset behind LF; or the input's end, no LF yet) longer than allowed? */
static inline bool over_limit(const wire_parser_t *parser, bytes_t input, uint32_t name_size, uint32_t end,
                              bool whole) {
    if (LEAF_LIKELY(end - name_size <= parser->max_control_line)) {
        return false;
    }
    uint32_t start = blanks_end(input, name_size);
    if (start - name_size > parser->max_control_line) {
        return true; /* leading blanks do not count in the reference, which has no limit for them */
    }
    if (!whole) {
        return end - start > parser->max_control_line + 1; /* the last byte may be the CR of a CRLF */
    }
    uint32_t line_end = end - 1;
    if (line_end > start && input.at[line_end - 1] == '\r') {
        line_end--;
    }
    return line_end > start && line_end - start > parser->max_control_line;
}

/* The line has no end yet. */
static wire_verdict_t line_more(wire_parser_t *parser, bytes_t input, uint32_t name_size, wire_error_t *error) {
    if (over_limit(parser, input, name_size, input.size, false)) {
        return parse_bad(error, WIRE_ERROR_MAX_CONTROL_LINE);
    }
    parser->searched = input.size;
    return parse_more(parser, input.size + 1);
}

/* Header and payload of `size` bytes behind the control line, and the CRLF after them. */
static inline wire_verdict_t take_payload(wire_parser_t *parser, bytes_t input, uint32_t line_end, uint32_t header_size,
                                          uint32_t size, op_t *op, uint32_t *used, wire_error_t *error) {
    if (LEAF_UNLIKELY(size > parser->max_payload)) {
        parser->need = size;
        return parse_bad(error, WIRE_ERROR_MAX_PAYLOAD);
    }
    uint32_t have = input.size - line_end;
    const uint8_t *body = input.at + line_end;
    if (LEAF_UNLIKELY(have < size + 2)) {
        if (have > size && body[size] != '\r') {
            return parse_bad(error, WIRE_ERROR_UNKNOWN_OPERATION);
        }
        if (size > UINT32_MAX - 2 - line_end) {
            return parse_bad(error, WIRE_ERROR_MAX_PAYLOAD);
        }
        return parse_more(parser, line_end + size + 2);
    }
    if (LEAF_UNLIKELY(body[size] != '\r' || body[size + 1] != '\n')) {
        return parse_bad(error, WIRE_ERROR_UNKNOWN_OPERATION);
    }
    op->header = bytes_of(body, header_size);
    op->payload = bytes_of(body + header_size, size - header_size);
    return parse_done(parser, line_end + size + 2, used);
}

/* PUB subject [reply] size; HPUB subject [reply] header-size size */
static inline wire_verdict_t act_publish(wire_parser_t *parser, bytes_t input, const words_t *words, op_t *op,
                                         uint32_t *used, wire_error_t *error) {
    bool with_header = op->kind == OP_HPUB;
    uint32_t numbers = with_header ? 2 : 1;
    if (words->count < numbers + 1 || words->count > numbers + 2) {
        return parse_bad(error, WIRE_ERROR_SILENT);
    }
    if (with_header && !parser->headers) {
        return parse_bad(error, WIRE_ERROR_SILENT);
    }
    op->subject = words->at[0];
    if (words->count == numbers + 2) {
        op->reply = words->at[1];
    }
    uint32_t size = word_number(words->at[words->count - 1]);
    uint32_t header_size = with_header ? word_number(words->at[words->count - 2]) : 0;
    if (size == SIZE_INVALID || header_size > size) {
        return parse_bad(error, WIRE_ERROR_SILENT);
    }
    return take_payload(parser, input, words->end, header_size, size, op, used, error);
}

/* Words before the subject, then:
 * subject [reply] n.. | subject + reply queue.. n.. | subject '|' queue.. n.. ; n..: [header-size] size */
static inline wire_verdict_t act_link_message(wire_parser_t *parser, bytes_t input, const words_t *words,
                                              uint32_t before, bool with_header, op_t *op, uint32_t *used,
                                              wire_error_t *error) {
    uint32_t numbers = with_header ? 2 : 1;
    if (words->count < before + numbers + 1 || words->count > WORDS_MAX) {
        return parse_bad(error, WIRE_ERROR_SILENT);
    }
    if (with_header && !parser->headers) {
        return parse_bad(error, WIRE_ERROR_SILENT);
    }
    const bytes_t *at = words->at + before;
    op->subject = at[0];
    uint32_t middle = words->count - before - 1 - numbers; /* words between the subject and the numbers */
    if (middle == 1) {
        op->reply = at[1];
    } else if (middle > 1) {
        bytes_t sign = at[1];
        if (sign.size != 1 || (sign.at[0] != '+' && sign.at[0] != '|')) {
            return parse_bad(error, WIRE_ERROR_SILENT);
        }
        uint32_t first_queue = 2;
        if (sign.at[0] == '+') {
            op->reply = at[2];
            first_queue = 3;
        }
        uint32_t queue_count = words->count - before - numbers - first_queue;
        if (queue_count > OP_QUEUES_MAX) {
            return parse_bad(error, WIRE_ERROR_SILENT);
        }
        for (uint32_t i = 0; i < queue_count; i++) {
            op->queues[i] = at[first_queue + i];
        }
        op->queue_count = queue_count;
    }
    uint32_t size = word_number(words->at[words->count - 1]);
    uint32_t header_size = with_header ? word_number(words->at[words->count - 2]) : 0;
    if (size == SIZE_INVALID || header_size > size) {
        return parse_bad(error, WIRE_ERROR_SILENT);
    }
    return take_payload(parser, input, words->end, header_size, size, op, used, error);
}

static wire_verdict_t act_leaf_message(wire_parser_t *parser, bytes_t input, const words_t *words, op_t *op,
                                       uint32_t *used, wire_error_t *error) {
    return act_link_message(parser, input, words, 0, op->kind == OP_LEAF_HMSG, op, used, error);
}

/* A weight that is out of range does not end the link: too large a one counts as WEIGHT_MAX, one that is no number as
 * 1. */
static uint32_t parse_weight(bytes_t word) {
    uint64_t value;
    return decimal_parse_upto(word, WEIGHT_MAX, &value) ? (uint32_t)value : 1;
}

/* The ops without a payload; false: the arguments are wrong. */
static bool act_line(const words_t *words, op_t *op) {
    const bytes_t *at = words->at;
    switch (op->kind) {
    case OP_SUB:
        if (words->count < 2 || words->count > 3) {
            return false;
        }
        op->subject = at[0];
        op->queue = words->count == 3 ? at[1] : BYTES_NONE;
        op->sid = at[words->count - 1];
        return op->sid.size <= SID_MAX;
    case OP_UNSUB: {
        if (words->count < 1 || words->count > 2) {
            return false;
        }
        op->sid = at[0];
        uint32_t max = words->count == 2 ? word_number(at[1]) : 0;
        op->max = max == SIZE_INVALID ? 0 : max; /* the reference takes what is no number as "at once" */
        return true;
    }
    case OP_LEAF_SUB:
        if (words->count != 1 && words->count != 3) {
            return false;
        }
        op->subject = at[0];
        if (words->count == 3) {
            op->queue = at[1];
            op->weight = parse_weight(at[2]);
        }
        return true;
    case OP_LEAF_UNSUB:
        if (words->count < 1 || words->count > 2) {
            return false;
        }
        op->subject = at[0];
        op->queue = words->count == 2 ? at[1] : BYTES_NONE;
        return true;
    case OP_ACCOUNT:
        if (words->count != 1) {
            return false;
        }
        op->account = at[0];
        return true;
    default: return false;
    }
}

/* ---- routes ------------------------------------------------------------------------------------------------------ */

/* The words before the subject: the origin of a line that speaks for leafs, then the account, unless the connection is
 * of one alone. Their count, or WORDS_MAX: there are not so many. */
static uint32_t take_names(const wire_parser_t *parser, const words_t *words, bool origin, op_t *op) {
    uint32_t before = (uint32_t)origin + (uint32_t)!parser->one_account;
    op->origin = op->account = BYTES_NONE;
    if (words->count < before) {
        return WORDS_MAX;
    }
    if (origin) {
        op->origin = words->at[0];
    }
    if (!parser->one_account) {
        op->account = words->at[before - 1];
    }
    return before;
}

/* RMSG account .. size; HMSG account .. header-size size; LMSG origin account .. header-size size */
static wire_verdict_t act_route_message(wire_parser_t *parser, bytes_t input, const words_t *words, op_t *op,
                                        uint32_t *used, wire_error_t *error) {
    uint8_t letter = input.at[0] | 0x20u;
    uint32_t before = take_names(parser, words, letter == 'l', op);
    return act_link_message(parser, input, words, before, letter != 'r', op, used, error);
}

/* RS+ account subject [queue weight]; RS- account subject [queue]; LS+ and LS- with an origin before the account. */
static bool act_route_interest(const wire_parser_t *parser, uint8_t letter, const words_t *words, op_t *op) {
    bool adds = op->kind == OP_ROUTE_SUB, origin = (letter | 0x20u) == 'l' && (adds || parser->unsub_origins);
    uint32_t before = take_names(parser, words, origin, op);
    if (before >= words->count || before >= WORDS_MAX) {
        return false;
    }
    uint32_t rest = words->count - before;
    if (rest != 1 && rest != (adds ? 3 : 2)) {
        return false;
    }
    op->subject = words->at[before];
    if (rest > 1) {
        op->queue = words->at[before + 1];
    }
    if (rest == 3) {
        op->weight = parse_weight(words->at[before + 2]);
    }
    return true;
}

/* A line of words, its name recognised. */
static inline wire_verdict_t parse_words(wire_parser_t *parser, bytes_t input, op_kind_t kind, uint32_t name_size,
                                         op_t *op, uint32_t *used, wire_error_t *error) {
    words_t words;
    if (parser->searched > name_size
        && memchr(input.at + parser->searched, '\n', input.size - parser->searched) == NULL) {
        return line_more(parser, input, name_size, error);
    }
    if (LEAF_UNLIKELY(!cut_words(input, name_size, &words))) {
        return line_more(parser, input, name_size, error);
    }
    if (LEAF_UNLIKELY(over_limit(parser, input, name_size, words.end, true))) {
        return parse_bad(error, WIRE_ERROR_MAX_CONTROL_LINE);
    }
    /* When the payload is not here yet, this line is parsed again with more bytes; its end is then known. */
    parser->searched = 0;
    op_clear(op, kind);
    if (kind == OP_PUB || kind == OP_HPUB) {
        return act_publish(parser, input, &words, op, used, error);
    }
    if (kind == OP_LEAF_MSG || kind == OP_LEAF_HMSG) {
        return act_leaf_message(parser, input, &words, op, used, error);
    }
    if (kind == OP_ROUTE_MSG) {
        return act_route_message(parser, input, &words, op, used, error);
    }
    bool route = kind == OP_ROUTE_SUB || kind == OP_ROUTE_UNSUB;
    if (route ? !act_route_interest(parser, input.at[0], &words, op) : !act_line(&words, op)) {
        return parse_bad(error, WIRE_ERROR_SILENT);
    }
    return parse_done(parser, words.end, used);
}

/* A line whose rest is one text, or nothing that counts. */
static wire_verdict_t parse_text(wire_parser_t *parser, bytes_t input, const verb_t *verb, op_t *op, uint32_t *used,
                                 wire_error_t *error) {
    uint32_t from = parser->searched > verb->size ? parser->searched : verb->size;
    const uint8_t *line_end = memchr(input.at + from, '\n', input.size - from);
    if (line_end == NULL) {
        return line_more(parser, input, verb->size, error);
    }
    uint32_t end = (uint32_t)(line_end - input.at) + 1;
    if (over_limit(parser, input, verb->size, end, true)) {
        return parse_bad(error, WIRE_ERROR_MAX_CONTROL_LINE);
    }
    op_clear(op, (op_kind_t)verb->op);
    if (verb->rest != REST_IGNORED) {
        uint32_t start = blanks_end(input, verb->size);
        uint32_t stop = end - 1;
        if (stop > start && input.at[stop - 1] == '\r') {
            stop--;
        }
        op->body = bytes_of(input.at + start, stop - start);
    }
    if (op->kind == OP_ERR && op->body.size >= 2 && op->body.at[0] == '\'' && op->body.at[op->body.size - 1] == '\'') {
        op->body = bytes_of(op->body.at + 1, op->body.size - 2);
    }
    return parse_done(parser, end, used);
}

/* Does the input, as far as it goes, spell this verb? */
static bool verb_agrees(const verb_t *verb, bytes_t input) {
    uint32_t size = input.size < verb->size ? input.size : verb->size;
    for (uint32_t i = 0; i < size; i++) {
        uint8_t c = input.at[i];
        if (c >= 'A' && c <= 'Z') {
            c = (uint8_t)(c + ('a' - 'A'));
        }
        if (c != (uint8_t)verb->name[i]) {
            return false;
        }
    }
    if (input.size > verb->size && (verb->rest == REST_WORDS || verb->rest == REST_TEXT_BLANK)) {
        return is_blank(input.at[verb->size]);
    }
    return true;
}

static wire_verdict_t parse_verb(wire_parser_t *parser, bytes_t input, op_t *op, uint32_t *used, wire_error_t *error) {
    for (uint32_t i = 0; i < VERB_COUNT; i++) {
        const verb_t *verb = &verbs[i];
        if ((verb->kinds & (uint32_t)parser->kind) == 0 || !verb_agrees(verb, input)) {
            continue;
        }
        if (input.size <= verb->size) {
            return parse_more(parser, input.size + 1);
        }
        if (verb->rest == REST_WORDS) {
            return parse_words(parser, input, (op_kind_t)verb->op, verb->size, op, used, error);
        }
        return parse_text(parser, input, verb, op, used, error);
    }
    return parse_bad(error, WIRE_ERROR_UNKNOWN_OPERATION);
}

static inline uint32_t verb_four(const char text[4]) {
    uint32_t v;
    memcpy(&v, text, sizeof v);
    return v;
}

wire_verdict_t wire_parse(wire_parser_t *parser, bytes_t input, op_t *op, uint32_t *used, wire_error_t *error) {
    check(parser->searched <= input.size);
    *used = 0;
    *error = WIRE_ERROR_NONE;
    /* One byte less than needed is looked at: it may show already that the payload does not end as announced. */
    if (input.size == 0 || (parser->need > 0 && input.size < parser->need - 1)) {
        return WIRE_MORE;
    }
    if (LEAF_LIKELY(input.size > 4)) {
        uint32_t name;
        memcpy(&name, input.at, sizeof name);
        /* Upper case only: that is what clients send; other spellings go through the table. */
        if (parser->kind == WIRE_CLIENT) {
            if (name == verb_four("PUB ")) {
                return parse_words(parser, input, OP_PUB, 3, op, used, error);
            }
            if (name == verb_four("HPUB") && is_blank(input.at[4])) {
                return parse_words(parser, input, OP_HPUB, 4, op, used, error);
            }
        } else if ((parser->kind & SERVER) != 0) {
            bool message = name == verb_four("RMSG") || name == verb_four("HMSG")
                           || (name == verb_four("LMSG") && parser->kind == WIRE_ROUTE);
            if (message && is_blank(input.at[4])) {
                return parse_words(parser, input, OP_ROUTE_MSG, 4, op, used, error);
            }
        } else if ((name == verb_four("LMSG") || name == verb_four("HMSG")) && is_blank(input.at[4])) {
            return parse_words(parser, input, name == verb_four("LMSG") ? OP_LEAF_MSG : OP_LEAF_HMSG, 4, op, used,
                               error);
        }
    }
    return parse_verb(parser, input, op, used, error);
}
