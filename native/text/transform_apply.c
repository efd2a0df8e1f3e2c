/* transform_apply.c: running a compiled transform: the subject is cut into as many tokens as the source has, and piece
 * after piece written. Nothing is allocated; what does not fit the caller's buffer is told, not written.
 */
#include "text/subject.h"
#include "text/tokens.h"
#include "text/transform_private.h"

typedef struct cut {
    bytes_t whole;
    bytes_t rest; /* what '>' stands for */
    bytes_t token[SUBJECT_TOKENS_MAX];
} cut_t;

static bool cut_subject(const transform_t *transform, bytes_t subject, cut_t *cut) {
    token_walk_t walk = tokens_of(subject);
    cut->whole = subject;
    cut->rest = BYTES_NONE;
    for (uint32_t i = 0; i < transform->source_count; i++) {
        if (walk.done) {
            return false;
        }
        bytes_t wanted = transform->source_tokens[i];
        bytes_t left = tokens_rest(&walk);
        bytes_t token = tokens_next(&walk);
        if (token_is(wanted, '>')) {
            cut->rest = left;
            cut->token[i] = token;
            return true;
        }
        if (!token_is(wanted, '*') && !bytes_equal(wanted, token)) {
            return false;
        }
        cut->token[i] = token;
    }
    return walk.done;
}

typedef struct writer {
    uint8_t *at;
    uint32_t size;
    uint32_t max;
    bool full;
} writer_t;

static void writer_put(writer_t *writer, bytes_t part) {
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
    writer_put(writer, BYTES_LITERAL("."));
}

static void put_number(writer_t *writer, uint32_t number) {
    uint8_t digits[10];
    uint32_t at = sizeof(digits);
    do {
        digits[--at] = (uint8_t)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    writer_put(writer, bytes_of(digits + at, (uint32_t)sizeof(digits) - at));
}

/* FNV-1a of 32 bits: what partitions are made of everywhere in NATS. */
static uint32_t fnv1a(uint32_t hash, bytes_t text) {
    for (uint32_t i = 0; i < text.size; i++) {
        hash = (hash ^ text.at[i]) * UINT32_C(16777619);
    }
    return hash;
}

static void put_partition(writer_t *writer, const piece_t *piece, const cut_t *cut) {
    uint32_t hash = UINT32_C(2166136261);
    for (uint32_t i = 0; i < piece->count; i++) {
        hash = fnv1a(hash, cut->token[piece->tokens[i]]);
    }
    if (piece->count == 0) {
        hash = fnv1a(hash, cut->whole);
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
    writer_put(writer, bytes_of(token.at, first));
    for (uint32_t at = first; at < token.size;) {
        uint32_t next = token.size - at < size ? token.size - at : size;
        put_dot(writer);
        writer_put(writer, bytes_of(token.at + at, next));
        at += next;
    }
}

static void put_cut(writer_t *writer, const piece_t *piece, bytes_t token) {
    if (piece->number <= 0 || (uint32_t)piece->number >= token.size) {
        writer_put(writer, token);
        return;
    }
    uint32_t size = (uint32_t)piece->number;
    uint32_t odd = token.size % size;
    switch (piece->kind) {
    case PIECE_SPLIT_FROM_LEFT: put_slices(writer, token, size, token.size - size); return;
    case PIECE_SPLIT_FROM_RIGHT: put_slices(writer, token, token.size - size, size); return;
    case PIECE_SLICE_FROM_LEFT: put_slices(writer, token, size, size); return;
    case PIECE_SLICE_FROM_RIGHT: put_slices(writer, token, odd == 0 ? size : odd, size); return;
    case PIECE_RIGHT: writer_put(writer, bytes_after(token, token.size - size)); return;
    default: writer_put(writer, bytes_of(token.at, size));
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
        *left = bytes_after(*left, part.size);
        *more = left->size != 0;
        return part;
    }
    const uint8_t *found = left->size == 0 ? NULL : memmem(left->at, left->size, separator.at, separator.size);
    *more = found != NULL;
    bytes_t part = *more ? bytes_of(left->at, (uint32_t)(found - left->at)) : *left;
    *left = *more ? bytes_after(*left, part.size + separator.size) : BYTES_NONE;
    return part;
}

/* A dot stands in front of every part that is not empty, but for the first and for one behind an empty first part. */
static void put_split(writer_t *writer, bytes_t separator, bytes_t token) {
    bool more, first = true;
    bytes_t left = token;
    bytes_t part = next_part(&left, separator, &more);
    writer_put(writer, part);
    bool silent = part.size == 0;
    for (; more; first = false) {
        part = next_part(&left, separator, &more);
        if (part.size != 0 && !(first && silent)) {
            put_dot(writer);
        }
        writer_put(writer, part);
    }
}

static void put_piece(writer_t *writer, const piece_t *piece, const cut_t *cut, uint64_t *random) {
    switch (piece->kind) {
    case PIECE_LITERAL: writer_put(writer, piece->text); return;
    case PIECE_REST: writer_put(writer, cut->rest); return;
    case PIECE_WILDCARD: writer_put(writer, cut->token[piece->tokens[0]]); return;
    case PIECE_PARTITION: put_partition(writer, piece, cut); return;
    case PIECE_RANDOM: put_random(writer, piece->number, random); return;
    case PIECE_SPLIT: put_split(writer, piece->text, cut->token[piece->tokens[0]]); return;
    case PIECE_SPLIT_FROM_LEFT:
    case PIECE_SPLIT_FROM_RIGHT:
    case PIECE_SLICE_FROM_LEFT:
    case PIECE_SLICE_FROM_RIGHT:
    case PIECE_RIGHT:
    case PIECE_LEFT:
    default: put_cut(writer, piece, cut->token[piece->tokens[0]]);
    }
}

status_t transform_apply(const transform_t *transform, bytes_t subject, uint64_t random, uint8_t *out, uint32_t max,
                         uint32_t *size) {
    writer_t writer = {.at = out, .max = max};
    if (transform->everything) {
        writer_put(&writer, subject);
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
