/* transform.c: see transform.h. A destination becomes a row of pieces, one a token; applying cuts the subject into as many tokens as the
 * source has and writes piece after piece.
 *
 * Finding a function in a token is as loose as the reference's search with regular expressions is: a call may stand behind other text
 * in its braces ("{{x{{wildcard(1)}}"), its arguments reach to the last parenthesis that braces follow.
 */
#include "base/transform.h"

#include <stdlib.h>

#include "base/subject.h"

typedef enum piece_kind {
    PIECE_LITERAL = 0,
    PIECE_REST, /* '>' at the end */
    PIECE_WILDCARD,
    PIECE_PARTITION,
    PIECE_SPLIT_FROM_LEFT,
    PIECE_SPLIT_FROM_RIGHT,
    PIECE_SLICE_FROM_LEFT,
    PIECE_SLICE_FROM_RIGHT,
    PIECE_RIGHT,
    PIECE_LEFT,
    PIECE_SPLIT,
    PIECE_RANDOM,
} piece_kind_t;

typedef struct piece {
    piece_kind_t kind;
    int32_t number;
    bytes_t text;       /* a literal, or where split() splits */
    uint32_t *tokens;   /* own memory: positions in the subject */
    uint32_t count;
} piece_t;

struct transform {
    bytes_t source;     /* own copies */
    bytes_t destination;
    bool everything;    /* ">" to ">": any subject stays as it is */
    uint32_t source_count;
    uint32_t piece_count;
    uint32_t wildcards;
    bytes_t *source_tokens;
    uint32_t *wildcard_at; /* token position of each wildcard */
    piece_t *pieces;
};

static bool is_byte(bytes_t token, uint8_t byte) {
    return token.size == 1 && token.at[0] == byte;
}

static bytes_t behind(bytes_t text, uint32_t count) {
    return bytes_of(text.at + count, text.size - count);
}

/* ---- texts ---------------------------------------------------------------------------------------------------------- */

static bool is_space(uint8_t c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r';
}

static uint32_t skip_spaces(bytes_t text, uint32_t at) {
    while (at < text.size && is_space(text.at[at])) {
        at++;
    }
    return at;
}

/* Behind `name` at `at`, 0 when it is not there. A capital in the name stands for the letter in either case. */
static uint32_t skip_name(bytes_t text, uint32_t at, const char *name) {
    for (; *name != 0; name++, at++) {
        uint8_t either = *name >= 'A' && *name <= 'Z' ? 0x20 : 0;
        if (at >= text.size || (text.at[at] | either) != ((uint8_t)*name | either)) {
            return 0;
        }
    }
    return at;
}

static bool closes(bytes_t token, uint32_t at) {
    if (token.at[at] != ')') {
        return false;
    }
    at = skip_spaces(token, at + 1);
    return at + 1 < token.size && token.at[at] == '}' && token.at[at + 1] == '}';
}

/* "{{ name ( arguments ) }}" anywhere in the token. */
static bool find_call(bytes_t token, const char *name, bytes_t *arguments) {
    for (uint32_t start = 0; start + 1 < token.size; start++) {
        if (token.at[start] != '{' || token.at[start + 1] != '{') {
            continue;
        }
        uint32_t at = skip_name(token, skip_spaces(token, start + 2), name);
        at = at == 0 ? token.size : skip_spaces(token, at);
        if (at >= token.size || token.at[at] != '(') {
            continue;
        }
        uint32_t open = at + 1, end = open;
        while (end < token.size && token.at[end] != '\n') {
            end++;
        }
        while (end-- > open) {
            if (closes(token, end)) {
                *arguments = bytes_of(token.at + open, end - open);
                return true;
            }
        }
    }
    return false;
}

/* The next argument; *more says whether a comma stands behind it. */
static bytes_t next_argument(bytes_t *arguments, bool *more) {
    uint32_t size = 0;
    while (size < arguments->size && arguments->at[size] != ',') {
        size++;
    }
    bytes_t argument = bytes_of(arguments->at, size);
    *more = size < arguments->size;
    *arguments = behind(*arguments, *more ? skip_spaces(*arguments, size + 1) : size);
    return argument;
}

static bool parse_number(bytes_t text, int64_t *out) {
    uint32_t at = 0;
    bool negative = text.size != 0 && text.at[0] == '-';
    at += negative || (text.size != 0 && text.at[0] == '+');
    int64_t value = 0;
    if (at == text.size) {
        return false;
    }
    for (; at < text.size; at++) {
        uint8_t digit = (uint8_t)(text.at[at] - '0');
        if (digit > 9 || __builtin_mul_overflow(value, (int64_t)10, &value)
            || __builtin_add_overflow(value, negative ? -(int64_t)digit : (int64_t)digit, &value)) {
            return false;
        }
    }
    *out = value;
    return true;
}

static bool argument_number(bytes_t argument, int64_t *out) {
    while (argument.size != 0 && argument.at[0] == ' ') {
        argument = behind(argument, 1);
    }
    while (argument.size != 0 && argument.at[argument.size - 1] == ' ') {
        argument.size--;
    }
    return parse_number(argument, out);
}

/* ---- compiling ------------------------------------------------------------------------------------------------------- */

/* Where wildcard number `index` stands in the subject. */
static status_t place_token(const transform_t *transform, piece_t *piece, int64_t index) {
    if (index > (int64_t)transform->wildcards) {
        return STATUS_INVALID;
    }
    piece->tokens[piece->count++] = index <= 0 ? 0 : transform->wildcard_at[index - 1];
    return STATUS_OK;
}

static status_t piece_room(piece_t *piece, uint32_t count) {
    piece->tokens = calloc(count, sizeof(*piece->tokens));
    return piece->tokens == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

static status_t compile_index(const transform_t *transform, piece_t *piece, int64_t index) {
    status_t status = piece_room(piece, 1);
    return status == STATUS_OK ? place_token(transform, piece, index) : status;
}

static status_t compile_wildcard(const transform_t *transform, piece_t *piece, bytes_t arguments) {
    bool more;
    int64_t index;
    bytes_t argument = next_argument(&arguments, &more);
    return more || !argument_number(argument, &index) ? STATUS_INVALID : compile_index(transform, piece, index);
}

/* What does not fit 32 bits from below wraps around, what does not from above is refused: as in the reference. */
static bool modulus(bytes_t argument, int32_t *out) {
    int64_t number;
    if (!argument_number(argument, &number) || number > INT32_MAX) {
        return false;
    }
    uint32_t low = (uint32_t)((uint64_t)number & UINT32_MAX);
    memcpy(out, &low, sizeof(low));
    return true;
}

static status_t compile_partition(const transform_t *transform, piece_t *piece, bytes_t arguments) {
    bool wildcards = transform->wildcards != 0 || is_byte(transform->source_tokens[transform->source_count - 1], '>');
    bool more;
    if (!modulus(next_argument(&arguments, &more), &piece->number)) {
        return STATUS_INVALID;
    }
    status_t status = more ? piece_room(piece, arguments.size + 1) : STATUS_OK;
    while (more && status == STATUS_OK) {
        int64_t index;
        if (!argument_number(next_argument(&arguments, &more), &index)) {
            return STATUS_INVALID;
        }
        /* Without wildcards in the source the whole subject is hashed, whatever the numbers are. */
        status = wildcards ? place_token(transform, piece, index) : STATUS_OK;
    }
    return status;
}

static status_t compile_random(const transform_t *transform, piece_t *piece, bytes_t arguments) {
    (void)transform;
    bool more;
    bytes_t argument = next_argument(&arguments, &more);
    return more || !modulus(argument, &piece->number) ? STATUS_INVALID : STATUS_OK;
}

static status_t compile_cut(const transform_t *transform, piece_t *piece, bytes_t arguments) {
    bool more;
    int64_t index, number;
    bytes_t first = next_argument(&arguments, &more);
    if (!more) {
        return STATUS_INVALID;
    }
    bytes_t second = next_argument(&arguments, &more);
    if (more || !argument_number(first, &index) || !argument_number(second, &number) || number < INT32_MIN || number > INT32_MAX) {
        return STATUS_INVALID;
    }
    piece->number = (int32_t)number;
    return compile_index(transform, piece, index);
}

static status_t compile_split(const transform_t *transform, piece_t *piece, bytes_t arguments) {
    bool more;
    int64_t index;
    bytes_t first = next_argument(&arguments, &more);
    if (!more) {
        return STATUS_INVALID;
    }
    piece->text = next_argument(&arguments, &more);
    if (more || !argument_number(first, &index) || (piece->text.size != 0 && memchr(piece->text.at, ' ', piece->text.size) != NULL)) {
        return STATUS_INVALID;
    }
    return compile_index(transform, piece, index);
}

typedef struct function {
    const char *name;
    piece_kind_t kind;
    status_t (*compile)(const transform_t *transform, piece_t *piece, bytes_t arguments);
} function_t;

/* In the reference's order, which shows where a token holds two. */
static const function_t functions[] = {
    {"Wildcard", PIECE_WILDCARD, compile_wildcard},
    {"Partition", PIECE_PARTITION, compile_partition},
    {"SplitFromLeft", PIECE_SPLIT_FROM_LEFT, compile_cut},
    {"SplitFromRight", PIECE_SPLIT_FROM_RIGHT, compile_cut},
    {"SliceFromLeft", PIECE_SLICE_FROM_LEFT, compile_cut},
    {"SliceFromRight", PIECE_SLICE_FROM_RIGHT, compile_cut},
    {"Right", PIECE_RIGHT, compile_cut},
    {"Left", PIECE_LEFT, compile_cut},
    {"Split", PIECE_SPLIT, compile_split},
    {"Random", PIECE_RANDOM, compile_random},
};

static status_t compile_piece(const transform_t *transform, piece_t *piece, bytes_t token) {
    int64_t index;
    piece->text = token;
    if (is_byte(token, '>')) {
        piece->kind = PIECE_REST;
    } else if (token.size > 1 && token.at[0] == '$' && parse_number(behind(token, 1), &index)) {
        piece->kind = PIECE_WILDCARD;
        return compile_index(transform, piece, index);
    } else if (token.size > 4 && bytes_starts(token, BYTES_LITERAL("{{")) && token.at[token.size - 1] == '}'
               && token.at[token.size - 2] == '}') {
        bytes_t arguments;
        for (uint32_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
            if (find_call(token, functions[i].name, &arguments)) {
                piece->kind = functions[i].kind;
                return functions[i].compile(transform, piece, arguments);
            }
        }
        return STATUS_INVALID;
    }
    return STATUS_OK;
}

/* Non-empty tokens, '>' only at the end. Blanks are allowed: they stand inside functions. */
static bool shape_is_good(bytes_t pattern, bool *rest) {
    uint32_t count = subject_token_count(pattern);
    *rest = false;
    for (uint32_t i = 0; i < count; i++) {
        bytes_t token = subject_token(pattern, i);
        if (token.size == 0 || *rest) {
            return false;
        }
        *rest = is_byte(token, '>');
    }
    return count != 0;
}

static status_t compile_source(transform_t *transform) {
    transform->source_count = subject_token_count(transform->source);
    if (transform->source_count > SUBJECT_TOKENS_MAX) {
        return STATUS_INVALID;
    }
    transform->source_tokens = calloc(transform->source_count, sizeof(*transform->source_tokens));
    transform->wildcard_at = calloc(transform->source_count, sizeof(*transform->wildcard_at));
    if (transform->source_tokens == NULL || transform->wildcard_at == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < transform->source_count; i++) {
        transform->source_tokens[i] = subject_token(transform->source, i);
        if (is_byte(transform->source_tokens[i], '*')) {
            transform->wildcard_at[transform->wildcards++] = i;
        }
    }
    return STATUS_OK;
}

static status_t compile_destination(transform_t *transform, bool rest) {
    uint32_t count = subject_token_count(transform->destination);
    transform->pieces = calloc(count, sizeof(*transform->pieces));
    if (transform->pieces == NULL) {
        return STATUS_NO_MEMORY;
    }
    transform->piece_count = count;
    for (uint32_t i = 0; i < count; i++) {
        bytes_t token = subject_token(transform->destination, i);
        piece_t *piece = &transform->pieces[i];
        status_t status = is_byte(token, '*') ? STATUS_INVALID : compile_piece(transform, piece, token);
        if (status != STATUS_OK) {
            return status;
        }
        bool needs_wildcards = piece->kind >= PIECE_WILDCARD && piece->kind != PIECE_PARTITION && piece->kind != PIECE_RANDOM;
        if (needs_wildcards && transform->wildcards == 0 && !rest) {
            return STATUS_INVALID;
        }
    }
    return STATUS_OK;
}

static status_t copy_text(bytes_t text, bytes_t *out) {
    uint8_t *copy = malloc(text.size);
    if (copy == NULL) {
        return STATUS_NO_MEMORY;
    }
    memcpy(copy, text.at, text.size);
    *out = bytes_of(copy, text.size);
    return STATUS_OK;
}

status_t transform_new(bytes_t source, bytes_t destination, transform_t **out) {
    *out = NULL;
    source = source.size == 0 ? BYTES_LITERAL(">") : source;
    bool source_rest, rest;
    if (!shape_is_good(source, &source_rest) || !shape_is_good(destination, &rest) || source_rest != rest) {
        return STATUS_INVALID;
    }
    transform_t *transform = calloc(1, sizeof(*transform));
    if (transform == NULL) {
        return STATUS_NO_MEMORY;
    }
    transform->everything = is_byte(source, '>') && is_byte(destination, '>');
    status_t status = copy_text(source, &transform->source);
    if (status == STATUS_OK) {
        status = copy_text(destination, &transform->destination);
    }
    if (status == STATUS_OK) {
        status = compile_source(transform);
    }
    if (status == STATUS_OK) {
        status = compile_destination(transform, rest);
    }
    if (status != STATUS_OK) {
        transform_free(transform);
        return status;
    }
    *out = transform;
    return STATUS_OK;
}

void transform_free(transform_t *transform) {
    if (transform == NULL) {
        return;
    }
    for (uint32_t i = 0; i < transform->piece_count; i++) {
        free(transform->pieces[i].tokens);
    }
    free(transform->pieces);
    free(transform->source_tokens);
    free(transform->wildcard_at);
    free((void *)(uintptr_t)transform->source.at);
    free((void *)(uintptr_t)transform->destination.at);
    free(transform);
}

/* ---- applying -------------------------------------------------------------------------------------------------------- */

typedef struct cut {
    bytes_t whole;
    bytes_t rest; /* what '>' stands for */
    bytes_t token[SUBJECT_TOKENS_MAX];
} cut_t;

static bytes_t first_token(bytes_t subject) {
    const uint8_t *dot = memchr(subject.at, '.', subject.size);
    return dot == NULL ? subject : bytes_of(subject.at, (uint32_t)(dot - subject.at));
}

static bool cut_subject(const transform_t *transform, bytes_t subject, cut_t *cut) {
    bytes_t left = subject;
    bool more = subject.size != 0;
    cut->whole = subject;
    cut->rest = BYTES_NONE;
    for (uint32_t i = 0; i < transform->source_count; i++) {
        if (!more) {
            return false;
        }
        bytes_t wanted = transform->source_tokens[i];
        bytes_t token = first_token(left);
        if (is_byte(wanted, '>')) {
            cut->rest = left;
            cut->token[i] = token;
            return true;
        }
        if (!is_byte(wanted, '*') && !bytes_equal(wanted, token)) {
            return false;
        }
        cut->token[i] = token;
        more = token.size < left.size;
        left = behind(left, token.size + more);
    }
    return !more;
}

typedef struct writer {
    uint8_t *at;
    uint32_t size;
    uint32_t max;
    bool full;
} writer_t;

static void put(writer_t *writer, bytes_t part) {
    if (writer->full || part.size > writer->max - writer->size) {
        writer->full = true;
        return;
    }
    if (part.size != 0) {
        memcpy(writer->at + writer->size, part.at, part.size);
    }
    writer->size += part.size;
}

static void put_dot(writer_t *writer) {
    put(writer, BYTES_LITERAL("."));
}

static void put_number(writer_t *writer, uint32_t number) {
    uint8_t digits[10];
    uint32_t at = sizeof(digits);
    do {
        digits[--at] = (uint8_t)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    put(writer, bytes_of(digits + at, (uint32_t)sizeof(digits) - at));
}

/* FNV-1a of 32 bits: what partitions are made of everywhere in NATS. */
static uint32_t fnv(uint32_t hash, bytes_t text) {
    for (uint32_t i = 0; i < text.size; i++) {
        hash = (hash ^ text.at[i]) * UINT32_C(16777619);
    }
    return hash;
}

static void put_partition(writer_t *writer, const piece_t *piece, const cut_t *cut) {
    uint32_t hash = UINT32_C(2166136261);
    for (uint32_t i = 0; i < piece->count; i++) {
        hash = fnv(hash, cut->token[piece->tokens[i]]);
    }
    if (piece->count == 0) {
        hash = fnv(hash, cut->whole);
    }
    put_number(writer, piece->number == 0 ? 0 : hash % (uint32_t)piece->number);
}

static void put_random(writer_t *writer, int32_t below, uint64_t *random) {
    /* One step of splitmix64 for each use. */
    *random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = *random;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    uint32_t magnitude = below < 0 ? UINT32_C(0) - (uint32_t)below : (uint32_t)below;
    put_number(writer, magnitude == 0 ? 0 : (uint32_t)(x >> 33) % magnitude);
}

/* `first` bytes, then pieces of `size`; the last one may be shorter. */
static void put_slices(writer_t *writer, bytes_t token, uint32_t first, uint32_t size) {
    put(writer, bytes_of(token.at, first));
    for (uint32_t at = first; at < token.size;) {
        uint32_t next = token.size - at < size ? token.size - at : size;
        put_dot(writer);
        put(writer, bytes_of(token.at + at, next));
        at += next;
    }
}

static void put_cut(writer_t *writer, const piece_t *piece, bytes_t token) {
    if (piece->number <= 0 || (uint32_t)piece->number >= token.size) {
        put(writer, token);
        return;
    }
    uint32_t size = (uint32_t)piece->number;
    uint32_t odd = token.size % size;
    switch (piece->kind) {
    case PIECE_SPLIT_FROM_LEFT:
        put_slices(writer, token, size, token.size - size);
        return;
    case PIECE_SPLIT_FROM_RIGHT:
        put_slices(writer, token, token.size - size, size);
        return;
    case PIECE_SLICE_FROM_LEFT:
        put_slices(writer, token, size, size);
        return;
    case PIECE_SLICE_FROM_RIGHT:
        put_slices(writer, token, odd == 0 ? size : odd, size);
        return;
    case PIECE_RIGHT:
        put(writer, behind(token, token.size - size));
        return;
    default:
        put(writer, bytes_of(token.at, size));
    }
}

/* How many bytes the character at the front has; 1 where it is no UTF-8. */
static uint32_t character_size(bytes_t text) {
    uint8_t lead = text.at[0];
    uint32_t size = lead < 0xc2 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 1;
    if (size > text.size) {
        return 1;
    }
    for (uint32_t i = 1; i < size; i++) {
        uint8_t low = i != 1 ? 0x80 : lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
        uint8_t high = i != 1 ? 0xbf : lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
        if (text.at[i] < low || text.at[i] > high) {
            return 1;
        }
    }
    return size;
}

/* The part in front of the next separator; *more: a separator was there (an empty one stands between characters). */
static bytes_t next_part(bytes_t *left, bytes_t separator, bool *more) {
    if (separator.size == 0) {
        bytes_t part = bytes_of(left->at, character_size(*left));
        *left = behind(*left, part.size);
        *more = left->size != 0;
        return part;
    }
    const uint8_t *found = left->size == 0 ? NULL : memmem(left->at, left->size, separator.at, separator.size);
    *more = found != NULL;
    bytes_t part = *more ? bytes_of(left->at, (uint32_t)(found - left->at)) : *left;
    *left = *more ? behind(*left, part.size + separator.size) : BYTES_NONE;
    return part;
}

/* A dot stands in front of every part that is not empty, but for the first and for one behind an empty first part. */
static void put_split(writer_t *writer, bytes_t separator, bytes_t token) {
    bool more, first = true;
    bytes_t left = token;
    bytes_t part = next_part(&left, separator, &more);
    put(writer, part);
    bool silent = part.size == 0;
    for (; more; first = false) {
        part = next_part(&left, separator, &more);
        if (part.size != 0 && !(first && silent)) {
            put_dot(writer);
        }
        put(writer, part);
    }
}

static void put_piece(writer_t *writer, const piece_t *piece, const cut_t *cut, uint64_t *random) {
    switch (piece->kind) {
    case PIECE_LITERAL:
        put(writer, piece->text);
        return;
    case PIECE_REST:
        put(writer, cut->rest);
        return;
    case PIECE_WILDCARD:
        put(writer, cut->token[piece->tokens[0]]);
        return;
    case PIECE_PARTITION:
        put_partition(writer, piece, cut);
        return;
    case PIECE_RANDOM:
        put_random(writer, piece->number, random);
        return;
    case PIECE_SPLIT:
        put_split(writer, piece->text, cut->token[piece->tokens[0]]);
        return;
    case PIECE_SPLIT_FROM_LEFT:
    case PIECE_SPLIT_FROM_RIGHT:
    case PIECE_SLICE_FROM_LEFT:
    case PIECE_SLICE_FROM_RIGHT:
    case PIECE_RIGHT:
    case PIECE_LEFT:
    default:
        put_cut(writer, piece, cut->token[piece->tokens[0]]);
    }
}

status_t transform_apply(const transform_t *transform, bytes_t subject, uint64_t random, uint8_t *out, uint32_t max, uint32_t *size) {
    writer_t writer = {.at = out, .max = max};
    if (transform->everything) {
        put(&writer, subject);
    } else {
        cut_t cut;
        if (!subject_valid_literal(subject) || !cut_subject(transform, subject, &cut)) {
            return STATUS_NOT_FOUND;
        }
        for (uint32_t i = 0; i < transform->piece_count; i++) {
            if (i != 0) {
                put_dot(&writer);
            }
            put_piece(&writer, &transform->pieces[i], &cut, &random);
        }
    }
    *size = writer.size;
    return writer.full ? STATUS_FULL : STATUS_OK;
}
