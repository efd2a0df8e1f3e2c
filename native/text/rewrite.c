/* rewrite.c: both patterns are walked token by token over the texts as they came; wildcards' values are slices of the
 * subject. */
#include "text/rewrite.h"

#include "text/tokens.h"

typedef struct output {
    uint8_t *at;
    uint32_t size;
    uint32_t max;
    bool full;
} output_t;

static void output_put(output_t *output, bytes_t token) {
    uint32_t dot = output->size != 0;
    if (output->full || token.size > output->max - output->size || output->max - output->size - token.size < dot) {
        output->full = true;
        return;
    }
    if (dot != 0) {
        output->at[output->size++] = '.';
    }
    memcpy(output->at + output->size, token.at, token.size);
    output->size += token.size;
}

static status_t output_finish(const output_t *output, uint32_t *size) {
    *size = output->full ? 0 : output->size;
    return output->full ? STATUS_FULL : STATUS_OK;
}

/* How many wildcards; *rest: it ends in '>'. UINT32_MAX: '>' in the middle, or too many. */
static uint32_t count_wildcards(bytes_t pattern, bool *rest) {
    uint32_t count = 0;
    *rest = false;
    for (token_walk_t walk = tokens_of(pattern); !walk.done;) {
        bytes_t token = tokens_next(&walk);
        bool is_rest = token_is(token, '>');
        if (is_rest && !walk.done) {
            return UINT32_MAX;
        }
        *rest = is_rest;
        count += is_rest || token_is(token, '*');
    }
    return count > REWRITE_WILDCARDS_MAX ? UINT32_MAX : count;
}

status_t rewrite_make(rewrite_t *rewrite, bytes_t from, bytes_t to, bytes_t order) {
    bool from_rest, to_rest;
    uint32_t count = count_wildcards(from, &from_rest);
    if (from.size == 0 || to.size == 0 || count != order.size || count_wildcards(to, &to_rest) != count
        || from_rest != to_rest) {
        return STATUS_INVALID;
    }
    *rewrite = (rewrite_t){.from = from, .to = to, .count = count, .same = bytes_equal(from, to)};
    uint32_t seen = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (order.at[i] >= count || (seen & (1u << order.at[i])) != 0) {
            return STATUS_INVALID;
        }
        seen |= 1u << order.at[i];
        rewrite->order[i] = order.at[i];
        rewrite->same = rewrite->same && order.at[i] == i;
    }
    if (from_rest && order.at[count - 1] != count - 1) {
        return STATUS_INVALID;
    }
    return STATUS_OK;
}

rewrite_t rewrite_inverse(const rewrite_t *rewrite) {
    rewrite_t inverse = {.from = rewrite->to, .to = rewrite->from, .count = rewrite->count, .same = rewrite->same};
    for (uint32_t i = 0; i < rewrite->count; i++) {
        inverse.order[rewrite->order[i]] = (uint8_t)i;
    }
    return inverse;
}

static bool read_values(bytes_t pattern, bytes_t subject, bytes_t values[REWRITE_WILDCARDS_MAX]) {
    uint32_t count = 0;
    token_walk_t p = tokens_of(pattern), s = tokens_of(subject);
    while (!p.done && !s.done) {
        bytes_t rest = tokens_rest(&s);
        bytes_t token = tokens_next(&p);
        if (token_is(token, '>') && p.done) {
            values[count] = rest;
            return true;
        }
        bytes_t value = tokens_next(&s);
        if (token_is(token, '*')) {
            values[count++] = value;
        } else if (!bytes_equal(token, value)) {
            return false;
        }
    }
    return p.done && s.done;
}

status_t rewrite_subject(const rewrite_t *rewrite, bytes_t subject, uint8_t *out, uint32_t max, uint32_t *size) {
    output_t output = {.at = out, .max = max};
    *size = 0;
    if (rewrite->same) {
        output_put(&output, subject);
        return output_finish(&output, size);
    }
    bytes_t values[REWRITE_WILDCARDS_MAX];
    if (!read_values(rewrite->from, subject, values)) {
        return STATUS_INVALID;
    }
    uint32_t wildcard = 0;
    for (token_walk_t walk = tokens_of(rewrite->to); !walk.done;) {
        bytes_t token = tokens_next(&walk);
        bool wild = token_is(token, '*') || (token_is(token, '>') && walk.done);
        output_put(&output, wild ? values[rewrite->order[wildcard++]] : token);
    }
    return output_finish(&output, size);
}

status_t rewrite_common(bytes_t a, bytes_t b, uint8_t *out, uint32_t max, uint32_t *size) {
    output_t output = {.at = out, .max = max};
    token_walk_t wa = tokens_of(a), wb = tokens_of(b);
    *size = 0;
    while (!wa.done && !wb.done) {
        bytes_t rest_a = tokens_rest(&wa), rest_b = tokens_rest(&wb);
        bytes_t token_a = tokens_next(&wa), token_b = tokens_next(&wb);
        if (token_is(token_a, '>') && wa.done) {
            output_put(&output, rest_b);
            return output_finish(&output, size);
        }
        if (token_is(token_b, '>') && wb.done) {
            output_put(&output, rest_a);
            return output_finish(&output, size);
        }
        if (!token_is(token_a, '*') && !token_is(token_b, '*') && !bytes_equal(token_a, token_b)) {
            return STATUS_NOT_FOUND;
        }
        output_put(&output, token_is(token_a, '*') ? token_b : token_a);
    }
    return wa.done && wb.done ? output_finish(&output, size) : STATUS_NOT_FOUND;
}
