/* concern.c: see concern.h. */
#include "consume/concern.h"

#include <stdlib.h>

#include "base/hash.h"
#include "consume/private.h"
#include "text/subject.h"

#define FEW 16u         /* consumers that are asked one by one */
#define LENGTHS_MAX 31u /* tokens of a prefix: bits of `lengths` */
#define NONE UINT32_MAX

typedef struct entry {
    uint64_t hash;
    consumer_t *consumer;
    uint32_t next; /* in the same bucket */
} entry_t;

struct concern {
    uint32_t lengths; /* bit n: some prefix has n tokens */
    uint32_t mask;    /* of buckets */
    uint32_t count;
    uint32_t any_count;
    uint64_t looks; /* numbers them, so that a consumer with several filters is visited once in each */
    uint32_t *buckets;
    entry_t *entries;
    consumer_t **any;
};

/* The literal tokens before the first wildcard; returns how many. */
static uint32_t prefix_of(bytes_t filter, bytes_t *prefix) {
    uint32_t tokens = 0, begin = 0;
    *prefix = BYTES_NONE;
    while (begin <= filter.size && tokens < LENGTHS_MAX) {
        uint32_t end = begin;
        while (end < filter.size && filter.at[end] != '.') end++;
        bool wild = end - begin == 1 && (filter.at[begin] == '*' || filter.at[begin] == '>');
        if (wild) break;
        *prefix = bytes_of(filter.at, end);
        tokens++;
        begin = end + 1;
    }
    return tokens;
}

static bool is_for_any(const consumer_t *consumer) {
    bytes_t prefix;
    filters_t filters = consumer->setup.filters;
    for (uint32_t i = 0; i < filters.count; i++) {
        if (prefix_of(filters.patterns[i], &prefix) == 0) return true;
    }
    return filters.count == 0;
}

static void index_filters(concern_t *index, consumer_t *consumer) {
    filters_t filters = consumer->setup.filters;
    consumer->looked = 0;
    for (uint32_t i = 0; i < filters.count; i++) {
        bytes_t prefix;
        index->lengths |= 1u << prefix_of(filters.patterns[i], &prefix);
        entry_t *entry = &index->entries[index->count];
        entry->hash = hash_bytes(prefix.at, prefix.size);
        entry->consumer = consumer;
        entry->next = index->buckets[entry->hash & index->mask];
        index->buckets[entry->hash & index->mask] = index->count++;
    }
}

static uint64_t filters_in(consumer_t *const *consumers, uint32_t count) {
    uint64_t filters = 0;
    for (uint32_t i = 0; i < count; i++) filters += consumers[i]->setup.filters.count;
    return filters;
}

/* NULL: no memory. */
static concern_t *make(consumer_t *const *consumers, uint32_t count) {
    uint64_t filters = filters_in(consumers, count);
    if (filters >= NONE / 4) return NULL;
    uint32_t buckets = 2 * FEW;
    while (buckets < 2 * filters) buckets *= 2;
    concern_t *index = calloc(1, sizeof *index);
    if (!index) return NULL;
    index->mask = buckets - 1;
    index->buckets = malloc(buckets * sizeof *index->buckets);
    index->entries = malloc((filters + 1) * sizeof *index->entries);
    index->any = malloc(count * sizeof(consumer_t *));
    if (!index->buckets || !index->entries || !index->any) {
        concern_forget(&index);
        return NULL;
    }
    for (uint32_t i = 0; i < buckets; i++) index->buckets[i] = NONE;
    for (uint32_t i = 0; i < count; i++) {
        if (is_for_any(consumers[i])) {
            index->any[index->any_count++] = consumers[i];
        } else {
            index_filters(index, consumers[i]);
        }
    }
    return index;
}

void concern_forget(concern_t **index) {
    if (!*index) return;
    free((*index)->buckets);
    free((*index)->entries);
    free((*index)->any);
    free(*index);
    *index = NULL;
}

static bool ask_each(consumer_t *const *consumers, uint32_t count, bytes_t subject, concern_visit_t visit,
                     void *context) {
    for (uint32_t i = 0; i < count; i++) {
        if (consumer_matches(consumers[i], subject) && !visit(context, consumers[i])) return false;
    }
    return true;
}

static bool ask_bucket(const concern_t *index, bytes_t prefix, bytes_t subject, concern_visit_t visit, void *context) {
    uint64_t hash = hash_bytes(prefix.at, prefix.size);
    for (uint32_t at = index->buckets[hash & index->mask]; at != NONE; at = index->entries[at].next) {
        const entry_t *entry = &index->entries[at];
        if (entry->hash != hash || entry->consumer->looked == index->looks) continue;
        entry->consumer->looked = index->looks;
        if (consumer_matches(entry->consumer, subject) && !visit(context, entry->consumer)) return false;
    }
    return true;
}

bool concern_each(concern_t **index, consumer_t *const *consumers, uint32_t count, bytes_t subject,
                  concern_visit_t visit, void *context) {
    if (!*index && count > FEW) *index = make(consumers, count);
    concern_t *made = *index;
    if (!made) return ask_each(consumers, count, subject, visit, context);
    made->looks++;
    uint32_t tokens = 0;
    for (uint32_t end = 0; end <= subject.size && made->lengths >> tokens > 1; end++) {
        if (end < subject.size && subject.at[end] != '.') continue;
        tokens++;
        bool wanted = (made->lengths >> tokens & 1u) != 0;
        if (wanted && !ask_bucket(made, bytes_of(subject.at, end), subject, visit, context)) return false;
    }
    return ask_each(made->any, made->any_count, subject, visit, context);
}
