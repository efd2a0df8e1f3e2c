/* transform.c: compiling a transform: a destination becomes a row of pieces, one a token. Running it is
 * transform_apply.c's.
 *
 * A function is found in a token as loosely as the reference finds it with regular expressions. A call may stand behind
 * other text in its braces ("{{x{{wildcard(1)}}"). Its arguments reach to the last parenthesis before closing braces.
 */
#include <stdlib.h>

#include "text/decimal.h"
#include "text/subject.h"
#include "text/tokens.h"
#include "text/transform_private.h"

/* ---- texts ------------------------------------------------------------------------------------------------------- */

static bool is_space(uint8_t c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r';
}

static uint32_t skip_spaces(bytes_t text, uint32_t at) {
    while (at < text.size && is_space(text.at[at])) {
        at++;
    }
    return at;
}

/* The position behind `name`, which is looked for at `at`; 0: it is not there. A capital in the name stands for the
 * letter in either case. */
static uint32_t skip_name(bytes_t text, uint32_t at, const char *name) {
    for (; *name != 0; name++, at++) {
        uint8_t either = *name >= 'A' && *name <= 'Z' ? 0x20 : 0;
        if (at >= text.size || (text.at[at] | either) != ((uint8_t)*name | either)) {
            return 0;
        }
    }
    return at;
}

static bool token_closes(bytes_t token, uint32_t at) {
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
            if (token_closes(token, end)) {
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
    *arguments = bytes_after(*arguments, *more ? skip_spaces(*arguments, size + 1) : size);
    return argument;
}

static bool parse_number(bytes_t text, int64_t *out) {
    bool plus = text.size > 1 && text.at[0] == '+' && text.at[1] != '-';
    return decimal_parse_signed(plus ? bytes_after(text, 1) : text, out);
}

static bool argument_number(bytes_t argument, int64_t *out) {
    while (argument.size != 0 && argument.at[0] == ' ') {
        argument = bytes_after(argument, 1);
    }
    while (argument.size != 0 && argument.at[argument.size - 1] == ' ') {
        argument.size--;
    }
    return parse_number(argument, out);
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */

/* The place of wildcard number `index` in the subject. */
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

/* As in the reference, a number above INT32_MAX is refused, and one below INT32_MIN wraps around. */
static bool argument_modulus(bytes_t argument, int32_t *out) {
    int64_t number;
    if (!argument_number(argument, &number) || number > INT32_MAX) {
        return false;
    }
    uint32_t low = (uint32_t)((uint64_t)number & UINT32_MAX);
    memcpy(out, &low, sizeof(low));
    return true;
}

static status_t compile_partition(const transform_t *transform, piece_t *piece, bytes_t arguments) {
    bool wildcards = transform->wildcards != 0 || token_is(transform->source_tokens[transform->source_count - 1], '>');
    bool more;
    if (!argument_modulus(next_argument(&arguments, &more), &piece->number)) {
        return STATUS_INVALID;
    }
    status_t status = more ? piece_room(piece, arguments.size + 1) : STATUS_OK;
    while (more && status == STATUS_OK) {
        int64_t index;
        if (!argument_number(next_argument(&arguments, &more), &index)) {
            return STATUS_INVALID;
        }
        /* A source without wildcards has the whole subject hashed, whatever the numbers are. */
        status = wildcards ? place_token(transform, piece, index) : STATUS_OK;
    }
    return status;
}

static status_t compile_random(const transform_t *transform, piece_t *piece, bytes_t arguments) {
    (void)transform;
    bool more;
    bytes_t argument = next_argument(&arguments, &more);
    return more || !argument_modulus(argument, &piece->number) ? STATUS_INVALID : STATUS_OK;
}

static status_t compile_cut(const transform_t *transform, piece_t *piece, bytes_t arguments) {
    bool more;
    int64_t index, number;
    bytes_t first = next_argument(&arguments, &more);
    if (!more) {
        return STATUS_INVALID;
    }
    bytes_t second = next_argument(&arguments, &more);
    if (more || !argument_number(first, &index) || !argument_number(second, &number) || number < INT32_MIN
        || number > INT32_MAX) {
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
    if (more || !argument_number(first, &index)
        || (piece->text.size != 0 && memchr(piece->text.at, ' ', piece->text.size) != NULL)) {
        return STATUS_INVALID;
    }
    return compile_index(transform, piece, index);
}

typedef struct function {
    const char *name;
    piece_kind_t kind;
    status_t (*compile)(const transform_t *transform, piece_t *piece, bytes_t arguments);
} function_t;

/* The order is the reference's, which matters where a token holds two functions. */
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
    if (token_is(token, '>')) {
        piece->kind = PIECE_REST;
    } else if (token.size > 1 && token.at[0] == '$' && parse_number(bytes_after(token, 1), &index)) {
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
        *rest = token_is(token, '>');
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
        if (token_is(transform->source_tokens[i], '*')) {
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
        status_t status = token_is(token, '*') ? STATUS_INVALID : compile_piece(transform, piece, token);
        if (status != STATUS_OK) {
            return status;
        }
        bool needs_wildcards =
            piece->kind >= PIECE_WILDCARD && piece->kind != PIECE_PARTITION && piece->kind != PIECE_RANDOM;
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
    transform->everything = token_is(source, '>') && token_is(destination, '>');
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
