/* idfilter.c: see idfilter.h. An id sets four bits of one word: with eight ids a word about one look in thirty is in
 * vain. */
#include "store/idfilter.h"

#include <stdlib.h>
#include <string.h>

#define IDS_A_WORD 8u

/* A layer has so many words: for 1,024 ids, for 32,768, for a million. */
static const uint64_t SIZES[] = {128, 4096, 131072};
#define SIZES_COUNT (sizeof SIZES / sizeof *SIZES)

void idfilter_open(id_filter_t *filter, int64_t window_ns, int64_t complete) {
    *filter = (id_filter_t){.window_ns = window_ns, .complete = complete};
}

static void layer_free(id_layer_t *layer, uint64_t *bytes) {
    free(layer->words);
    *bytes -= layer->count * sizeof *layer->words;
}

void idfilter_close(id_filter_t *filter, uint64_t *bytes) {
    for (uint32_t i = 0; i < filter->layers; i++) {
        layer_free(&filter->layer[i], bytes);
    }
    filter->layers = 0;
}

static inline uint64_t bits_of(uint64_t hash) {
    return UINT64_C(1) << (hash & 63) | UINT64_C(1) << (hash >> 6 & 63) | UINT64_C(1) << (hash >> 12 & 63)
           | UINT64_C(1) << (hash >> 18 & 63);
}

static inline uint64_t *word_of(const id_layer_t *layer, uint64_t hash) {
    return &layer->words[hash >> 32 & (layer->count - 1)];
}

bool idfilter_absent(const id_filter_t *filter, uint64_t hash, int64_t age_now) {
    if (age_now < filter->complete) {
        return false;
    }
    uint64_t bits = bits_of(hash);
    for (uint32_t i = 0; i < filter->layers; i++) {
        const id_layer_t *layer = &filter->layer[i];
        if (age_now < layer->counts && (*word_of(layer, hash) & bits) == bits) {
            return false;
        }
    }
    return true;
}

/* Drops the filters of which no id counts any more. */
static void drop_old(id_filter_t *filter, int64_t age_now, uint64_t *bytes) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < filter->layers; i++) {
        if (filter->layer[i].counts <= age_now) {
            layer_free(&filter->layer[i], bytes);
        } else {
            filter->layer[kept++] = filter->layer[i];
        }
    }
    filter->layers = kept;
}

/* How many words the next layer is to have; 0: the last one goes on. */
static uint64_t next_size(const id_filter_t *filter, int64_t age_now) {
    if (filter->layers == 0) {
        return SIZES[0];
    }
    const id_layer_t *last = &filter->layer[filter->layers - 1];
    uint32_t at = 0;
    if (last->ids < last->count * IDS_A_WORD) {
        if (age_now - last->begun < filter->window_ns) {
            return 0;
        }
        while (at + 1 < SIZES_COUNT && SIZES[at] * IDS_A_WORD < last->ids) {
            at++;
        }
        return SIZES[at];
    }
    while (at + 1 < SIZES_COUNT && SIZES[at] <= last->count) {
        at++;
    }
    return SIZES[at];
}

static void add_layer(id_filter_t *filter, uint64_t count, int64_t age_now, uint64_t *bytes) {
    uint64_t size = count * sizeof(uint64_t);
    if (filter->layers == IDFILTER_LAYERS || *bytes + size > IDFILTER_ALL_MAX) {
        return;
    }
    uint64_t *words = calloc(count, sizeof *words);
    if (words == NULL) {
        return;
    }
    *bytes += size;
    filter->layer[filter->layers++] = (id_layer_t){.words = words, .count = count, .begun = age_now, .counts = age_now};
}

void idfilter_note(id_filter_t *filter, uint64_t hash, int64_t born, int64_t age_now, uint64_t *bytes) {
    uint64_t wanted = next_size(filter, age_now);
    if (wanted != 0) {
        drop_old(filter, age_now, bytes);
        add_layer(filter, wanted, age_now, bytes);
    }
    int64_t counts = born + filter->window_ns;
    if (filter->layers == 0) { /* no memory: not known until it does not count any more */
        filter->complete = counts > filter->complete ? counts : filter->complete;
        return;
    }
    id_layer_t *last = &filter->layer[filter->layers - 1];
    *word_of(last, hash) |= bits_of(hash);
    last->ids++;
    last->counts = counts > last->counts ? counts : last->counts;
}
