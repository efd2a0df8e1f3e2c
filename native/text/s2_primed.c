/* s2_primed.c: see s2_primed.h.
 *
 * Dictionary and block lie in one piece, so that a match is a place like any other. The places of a block are entered
 * into the dictionary's chains as it is read, and taken out again at its end, newest first: that costs as much as the
 * block is long, and nothing of the dictionary has to be entered again.
 */
#include "text/s2_primed.h"

#include <stdlib.h>

#include "text/s2_put.h"

#define HEAD_BITS 12u
#define DEPTH 8u      /* earlier places that are looked at */
#define ENOUGH 40u    /* a match so long is taken as it is */
#define SKIP_SHIFT 6u /* where nothing matches, the search takes longer and longer steps */
#define WORD_SIZE 4u  /* what a place is found by */
#define PLACES (1u + S2_DICTIONARY_MAX + S2_PRIMED_MAX) /* place 0 stands for no place */

_Static_assert(PLACES <= UINT16_MAX, "a place has 16 bits");

struct s2_primer {
    uint32_t size;                   /* where the dictionary ends */
    uint16_t heads[1u << HEAD_BITS]; /* the latest place of each hash; 0 = none */
    uint16_t before[PLACES];         /* the place before that with the same hash */
    uint8_t at[PLACES];
};

s2_primer_t *s2_primer_new(void) {
    s2_primer_t *primer = malloc(sizeof *primer);
    if (primer != NULL) {
        s2_prime(primer, BYTES_NONE);
    }
    return primer;
}

void s2_primer_free(s2_primer_t *primer) {
    free(primer);
}

static inline uint16_t *head_of(s2_primer_t *primer, uint32_t place) {
    return &primer->heads[load_u32(primer->at + place) * UINT32_C(2654435761) >> (32 - HEAD_BITS)];
}

/* Places up to `until` can be found from here on, as far as a word stands there. */
static uint32_t enter_places(s2_primer_t *primer, uint32_t from, uint32_t until, uint32_t end) {
    for (; from < until && from + WORD_SIZE <= end; from++) {
        uint16_t *head = head_of(primer, from);
        primer->before[from] = *head;
        *head = (uint16_t)from;
    }
    return from;
}

static void leave_places(s2_primer_t *primer, uint32_t from, uint32_t until) {
    while (until > from) {
        until--;
        *head_of(primer, until) = primer->before[until];
    }
}

void s2_prime(s2_primer_t *primer, bytes_t dictionary) {
    if (dictionary.size > S2_DICTIONARY_MAX) {
        dictionary = bytes_after(dictionary, dictionary.size - S2_DICTIONARY_MAX);
    }
    memset(primer->heads, 0, sizeof primer->heads);
    primer->at[0] = 0;
    primer->size = (uint32_t)(bytes_write(primer->at + 1, dictionary) - primer->at);
    (void)enter_places(primer, 1, primer->size, primer->size);
}

typedef struct match {
    uint32_t at;
    uint32_t earlier;
    uint32_t length; /* 0: none */
    int32_t saved;   /* bytes, about */
} match_t;

static inline void consider_place(const encoding_t *encoding, uint32_t earlier, uint32_t at, match_t *best) {
    uint32_t length = same_bytes(encoding, earlier, at);
    int32_t saved = length < MATCH_MIN ? 0 : saved_by(encoding, at - earlier, length);
    if (saved > best->saved) {
        *best = (match_t){at, earlier, length, saved};
    }
}

/* The best one that begins at `at`, if it is better than what there is. */
static void search_places(s2_primer_t *primer, const encoding_t *encoding, uint32_t at, match_t *best) {
    const uint8_t *in = encoding->in;
    uint32_t word = load_u32(in + at);
    if (encoding->offset != 0 && load_u32(in + at - encoding->offset) == word) {
        consider_place(encoding, at - encoding->offset, at, best);
    }
    uint32_t place = *head_of(primer, at);
    for (uint32_t i = 0; i < DEPTH && place != 0 && best->length < ENOUGH; i++) {
        if (load_u32(in + place) == word) {
            consider_place(encoding, place, at, best);
        }
        place = primer->before[place];
    }
}

static bool encode_places(s2_primer_t *primer, encoding_t *encoding, uint32_t *entered) {
    uint32_t end = encoding->size;
    for (uint32_t at = encoding->said; at + WORD_SIZE <= end;) {
        match_t best = {.saved = 0};
        *entered = enter_places(primer, *entered, at, end);
        search_places(primer, encoding, at, &best);
        if (best.length == 0) {
            at += 1 + ((at - encoding->said) >> SKIP_SHIFT);
            continue;
        }
        if (best.length < ENOUGH && at + 1 + WORD_SIZE <= end) {
            match_t later = {.saved = best.saved + 1}; /* than it has to be worth more, for the byte left to literals */
            *entered = enter_places(primer, *entered, at + 1, end);
            search_places(primer, encoding, at + 1, &later);
            best = later.length != 0 ? later : best;
        }
        if (!put_match(encoding, best.at, best.earlier, best.length, 1)) {
            return false;
        }
        at = encoding->said;
    }
    return true;
}

uint32_t s2_encode_primed(s2_primer_t *primer, bytes_t from, uint8_t *to, uint32_t room) {
    if (from.size == 0 || from.size > S2_PRIMED_MAX || room <= ELEMENT_MAX) {
        return 0;
    }
    uint32_t begin = primer->size;
    uint32_t entered = begin > WORD_SIZE ? begin - WORD_SIZE + 1 : 1; /* the words that reach into the block */
    uint32_t first = entered;
    (void)bytes_write(primer->at + begin, from);
    encoding_t encoding = {.in = primer->at, .size = begin + from.size, .said = begin, .to = to, .end = to + room};
    put_block_size(&encoding, from.size);
    bool fits = encode_places(primer, &encoding, &entered) && put_literals(&encoding, encoding.size);
    leave_places(primer, first, entered);
    return fits ? (uint32_t)(encoding.to - to) : 0;
}
