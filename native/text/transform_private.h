/* transform_private.h: a compiled transform, for transform.c (which makes it) and transform_apply.c (which runs it). */
#ifndef LEAFD_TEXT_TRANSFORM_PRIVATE_H
#define LEAFD_TEXT_TRANSFORM_PRIVATE_H

#include "text/transform.h"

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
    bytes_t text;     /* a literal, or where split() splits */
    uint32_t *tokens; /* own memory: positions in the subject */
    uint32_t count;
} piece_t;

struct transform {
    bytes_t source; /* own copies */
    bytes_t destination;
    bool everything; /* ">" to ">": any subject stays as it is */
    uint32_t source_count;
    uint32_t piece_count;
    uint32_t wildcards;
    bytes_t *source_tokens;
    uint32_t *wildcard_at; /* token position of each wildcard */
    piece_t *pieces;
};

#endif
