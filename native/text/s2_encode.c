/* s2_encode.c: see s2_encode.h. Every element is written only where there is room for its longest form. */
#include "text/s2_encode.h"

#include <stdlib.h>

#include "base/check.h"

#define FAST_BITS 14u
#define CHAIN_BITS 16u
#define ELEMENT_MAX 16u /* bytes of a literal's head, or of a copy with the repeat behind it */
#define MATCH_MIN 4u
#define TAIL 12u      /* no match begins in the last bytes: words are read whole */
#define SKIP_SHIFT 6u /* where nothing matches, the search takes longer and longer steps */

struct s2_encoder {
    s2_effort_t effort;
    uint32_t base;    /* place of the present block's first byte */
    uint32_t bits;    /* of the table, as many as the present block needs */
    uint32_t *heads;  /* the latest place of each hash; 0 = none */
    uint32_t *before; /* the place before that with the same hash, for each place of a block */
};

s2_encoder_t *s2_encoder_new(s2_effort_t effort) {
    s2_encoder_t *encoder = calloc(1, sizeof(*encoder));
    if (encoder == NULL) {
        return NULL;
    }
    bool chains = effort != S2_EFFORT_FAST;
    encoder->effort = effort;
    encoder->base = 1;
    encoder->heads = calloc((size_t)1 << (chains ? CHAIN_BITS : FAST_BITS), sizeof(*encoder->heads));
    encoder->before = chains ? malloc(S2_ENCODE_MAX * sizeof(*encoder->before)) : NULL;
    if (encoder->heads == NULL || (chains && encoder->before == NULL)) {
        s2_encoder_free(encoder);
        return NULL;
    }
    return encoder;
}

void s2_encoder_free(s2_encoder_t *encoder) {
    if (encoder != NULL) {
        free(encoder->heads);
        free(encoder->before);
        free(encoder);
    }
}

/* ---- what is written --------------------------------------------------------------------------------------------- */

typedef struct encoding {
    const uint8_t *in;
    uint32_t size;
    uint32_t said; /* bytes of in that are in the block */
    uint8_t *to;
    uint8_t *end;
    uint32_t offset; /* of the last copy; 0 = none yet */
} encoding_t;

static void put_block_size(encoding_t *encoding) {
    uint32_t size = encoding->size;
    for (; size >= 0x80; size >>= 7) {
        *encoding->to++ = (uint8_t)(size | 0x80);
    }
    *encoding->to++ = (uint8_t)size;
}

static void put_element_number(encoding_t *encoding, uint32_t number, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        *encoding->to++ = (uint8_t)(number >> (8 * i));
    }
}

/* What nothing was found for, up to `until`. false: no room. */
static bool put_literals(encoding_t *encoding, uint32_t until) {
    uint32_t size = until - encoding->said;
    if ((size_t)(encoding->end - encoding->to) < (size_t)size + ELEMENT_MAX) {
        return false;
    }
    if (size == 0) {
        return true;
    }
    uint32_t less = size - 1;
    uint32_t bytes = less < 60 ? 0 : less < 1u << 8 ? 1 : less < 1u << 16 ? 2 : 3;
    *encoding->to++ = (uint8_t)((bytes == 0 ? less : 59 + bytes) << 2);
    put_element_number(encoding, less, bytes);
    memcpy(encoding->to, encoding->in + encoding->said, size);
    encoding->to += size;
    encoding->said = until;
    return true;
}

/* length: at least 4. */
static void put_repeat(encoding_t *encoding, uint32_t length) {
    uint32_t more = length - 4;
    uint32_t bytes = more <= 4 ? 0 : more < 4 + (1u << 8) ? 1 : more < (1u << 8) + (1u << 16) ? 2 : 3;
    uint32_t base = bytes == 1 ? 4 : bytes == 2 ? 1u << 8 : 1u << 16;
    *encoding->to++ = (uint8_t)((bytes == 0 ? more : 4 + bytes) << 2 | 1);
    *encoding->to++ = 0;
    put_element_number(encoding, more - base, bytes);
}

/* A copy's first part has at most `most` bytes; the repeat behind it needs 4, if there is one. */
static uint32_t first_part(uint32_t length, uint32_t most) {
    return length <= most ? length : length - most < 4 ? length - 4 : most;
}

/* Of 4 or more bytes at `said`, from that far back. */
static void put_copies(encoding_t *encoding, uint32_t offset, uint32_t length) {
    encoding->said += length;
    if (offset == encoding->offset) {
        put_repeat(encoding, length);
        return;
    }
    encoding->offset = offset;
    bool near = offset < 1u << 11 && (length <= 11 || length > 64);
    uint32_t part = first_part(length, near ? 11 : 64);
    if (near) {
        *encoding->to++ = (uint8_t)((offset >> 8) << 5 | (part - 4) << 2 | 1);
        *encoding->to++ = (uint8_t)offset;
    } else {
        bool far = offset > UINT16_MAX;
        *encoding->to++ = (uint8_t)((part - 1) << 2 | (far ? 3 : 2));
        put_element_number(encoding, offset, far ? 4 : 2);
    }
    if (part < length) {
        put_repeat(encoding, length - part);
    }
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

/* How many bytes are the same at both places, at most up to in's end. */
static inline uint32_t same_bytes(const encoding_t *encoding, uint32_t earlier, uint32_t at) {
    const uint8_t *one = encoding->in + earlier, *other = encoding->in + at, *end = encoding->in + encoding->size;
    const uint8_t *from = other;
    while (end - other >= 8) {
        uint64_t differ = load_u64(one) ^ load_u64(other);
        if (differ != 0) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
            return (uint32_t)(other - from) + (uint32_t)__builtin_ctzll(differ) / 8;
#else
            return (uint32_t)(other - from) + (uint32_t)__builtin_clzll(differ) / 8;
#endif
        }
        one += 8;
        other += 8;
    }
    while (other < end && *one == *other) {
        one++;
        other++;
    }
    return (uint32_t)(other - from);
}

/* ---- fast -------------------------------------------------------------------------------------------------------- */

/* Of five bytes. */
static inline uint32_t fast_hash(uint64_t word, uint32_t bits) {
    return (uint32_t)((word << 24) * UINT64_C(889523592379) >> (64 - bits));
}

static bool encode_fast(s2_encoder_t *encoder, encoding_t *encoding) {
    const uint8_t *in = encoding->in;
    uint32_t *heads = encoder->heads, base = encoder->base, bits = encoder->bits;
    uint32_t limit = encoding->size - TAIL;
    for (uint32_t at = 1; at < limit;) {
        uint64_t word = load_u64(in + at);
        uint32_t *head = &heads[fast_hash(word, bits)];
        uint32_t place = *head, earlier;
        *head = base + at;
        if (encoding->offset != 0 && at >= encoding->offset
            && load_u32(in + at + 1 - encoding->offset) == (uint32_t)(word >> 8)) {
            at++;
            earlier = at - encoding->offset;
        } else if (place >= base && load_u32(in + (place - base)) == (uint32_t)word) {
            earlier = place - base;
        } else {
            at += 1 + ((at - encoding->said) >> SKIP_SHIFT);
            continue;
        }
        uint32_t length = MATCH_MIN + same_bytes(encoding, earlier + MATCH_MIN, at + MATCH_MIN);
        while (at > encoding->said && earlier > 0 && in[at - 1] == in[earlier - 1]) {
            at--;
            earlier--;
            length++;
        }
        if (!put_literals(encoding, at)) {
            return false;
        }
        put_copies(encoding, at - earlier, length);
        at += length;
        if (at < limit) {
            heads[fast_hash(load_u64(in + at - 2), bits)] = base + at - 2;
        }
    }
    return true;
}

/* ---- better and best --------------------------------------------------------------------------------------------- */

typedef struct match {
    uint32_t at;
    uint32_t earlier;
    uint32_t length; /* 0: none */
    int32_t saved;   /* bytes, about */
} match_t;

typedef struct effort {
    uint32_t depth;  /* earlier places that are looked at */
    uint32_t enough; /* a match so long is taken as it is */
    uint32_t ahead;  /* bytes further on at which a better one may begin */
} effort_t;

static const effort_t efforts[] = {
    [S2_EFFORT_BETTER] = {.depth = 6, .enough = 48, .ahead = 1},
    [S2_EFFORT_BEST] = {.depth = 32, .enough = 128, .ahead = 2},
};

static inline uint32_t chain_hash(uint32_t word, uint32_t bits) {
    return word * UINT32_C(2654435761) >> (32 - bits);
}

/* Places up to `until` can be found from here on. */
static uint32_t chain_add(s2_encoder_t *encoder, const encoding_t *encoding, uint32_t from, uint32_t until) {
    for (; from < until; from++) {
        uint32_t *head = &encoder->heads[chain_hash(load_u32(encoding->in + from), encoder->bits)];
        encoder->before[from] = *head;
        *head = encoder->base + from;
    }
    return from;
}

static int32_t saved_by(const encoding_t *encoding, uint32_t offset, uint32_t length) {
    int32_t cost = offset == encoding->offset          ? (length <= 8 ? 2 : 3)
                   : offset < 1u << 11 && length <= 11 ? 2
                   : offset <= UINT16_MAX              ? (length <= 64 ? 3 : 6)
                                                       : (length <= 64 ? 5 : 8);
    return (int32_t)length - cost;
}

static void consider(const encoding_t *encoding, uint32_t earlier, uint32_t at, match_t *best) {
    uint32_t length = same_bytes(encoding, earlier, at);
    if (length < MATCH_MIN) {
        return;
    }
    int32_t saved = saved_by(encoding, at - earlier, length);
    if (saved > best->saved) {
        *best = (match_t){at, earlier, length, saved};
    }
}

/* The best one that begins at `at`, if it is better than what there is. */
static void search_chain(const s2_encoder_t *encoder, const encoding_t *encoding, const effort_t *effort, uint32_t at,
                         match_t *best) {
    const uint8_t *in = encoding->in;
    uint32_t word = load_u32(in + at);
    if (encoding->offset != 0 && at >= encoding->offset && load_u32(in + at - encoding->offset) == word) {
        consider(encoding, at - encoding->offset, at, best);
    }
    uint32_t place = encoder->heads[chain_hash(word, encoder->bits)];
    for (uint32_t i = 0; i < effort->depth && place >= encoder->base; i++) {
        uint32_t earlier = place - encoder->base;
        if (earlier < at && load_u32(in + earlier) == word) {
            /* Only one that is longer can save more, but for its offset. */
            uint32_t beyond = best->at == at ? best->length : 0;
            if (beyond < MATCH_MIN || at + beyond >= encoding->size || in[earlier + beyond] == in[at + beyond]) {
                consider(encoding, earlier, at, best);
            }
        }
        if (best->length >= effort->enough) {
            return;
        }
        place = encoder->before[earlier];
    }
}

static bool encode_chains(s2_encoder_t *encoder, encoding_t *encoding) {
    const effort_t *effort = &efforts[encoder->effort];
    uint32_t limit = encoding->size - TAIL, known = 0;
    for (uint32_t at = 1; at < limit;) {
        match_t best = {.saved = 0};
        known = chain_add(encoder, encoding, known, at);
        search_chain(encoder, encoding, effort, at, &best);
        if (best.length == 0) {
            at += 1 + ((at - encoding->said) >> (SKIP_SHIFT + 2));
            continue;
        }
        /* A later one has to be worth more than what it leaves to literals. */
        for (uint32_t ahead = 1; ahead <= effort->ahead && at + ahead < limit && best.length < effort->enough;
             ahead++) {
            match_t later = {.saved = best.saved + (int32_t)(best.at == at ? 1 : 0)};
            known = chain_add(encoder, encoding, known, at + ahead);
            search_chain(encoder, encoding, effort, at + ahead, &later);
            if (later.length != 0) {
                best = later;
            }
        }
        while (best.at > encoding->said && best.earlier > 0
               && encoding->in[best.at - 1] == encoding->in[best.earlier - 1]) {
            best.at--;
            best.earlier--;
            best.length++;
        }
        if (!put_literals(encoding, best.at)) {
            return false;
        }
        put_copies(encoding, best.at - best.earlier, best.length);
        at = best.at + best.length;
        known = chain_add(encoder, encoding, known, at < limit ? at : limit);
    }
    return true;
}

/* ---- a block ----------------------------------------------------------------------------------------------------- */

/* A small block uses a small part of the table, which is then in the processor's cache. */
static void begin_block(s2_encoder_t *encoder, uint32_t size) {
    uint32_t most = encoder->effort == S2_EFFORT_FAST ? FAST_BITS : CHAIN_BITS;
    encoder->bits = 8;
    while (encoder->bits < most && size > 1u << encoder->bits) {
        encoder->bits++;
    }
    if (encoder->base > UINT32_MAX - 2 * S2_ENCODE_MAX) {
        memset(encoder->heads, 0, ((size_t)1 << most) * sizeof(*encoder->heads));
        encoder->base = 1;
    }
}

uint32_t s2_encode(s2_encoder_t *encoder, bytes_t from, uint8_t *to, uint32_t room) {
    check(from.size <= S2_ENCODE_MAX);
    if (from.size <= TAIL + 1 || room <= ELEMENT_MAX) {
        return 0;
    }
    encoding_t encoding = {.in = from.at, .size = from.size, .to = to, .end = to + room};
    begin_block(encoder, from.size);
    put_block_size(&encoding);
    bool fits = encoder->effort == S2_EFFORT_FAST ? encode_fast(encoder, &encoding) : encode_chains(encoder, &encoding);
    encoder->base += from.size;
    fits = fits && put_literals(&encoding, from.size);
    return fits ? (uint32_t)(encoding.to - to) : 0;
}
