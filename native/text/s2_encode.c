/* s2_encode.c: see s2_encode.h. Every element is written only where there is room for its longest form. */
#include "text/s2_encode.h"

#include <stdlib.h>

#include "base/check.h"
#include "text/s2_put.h"

#define FAST_BITS 14u
#define CHAIN_BITS 16u
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

/* ---- fast -------------------------------------------------------------------------------------------------------- */

/* The hash of five bytes. */
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

/* ---- higher levels: chains of matches ---------------------------------------------------------------------------- */

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
        if (!put_match(encoding, best.at, best.earlier, best.length, 0)) {
            return false;
        }
        at = encoding->said;
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
    put_block_size(&encoding, from.size);
    bool fits = encoder->effort == S2_EFFORT_FAST ? encode_fast(encoder, &encoding) : encode_chains(encoder, &encoding);
    encoder->base += from.size;
    fits = fits && put_literals(&encoding, from.size);
    return fits ? (uint32_t)(encoding.to - to) : 0;
}
