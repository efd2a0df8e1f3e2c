/* told.c: see boxes.h. Of what the hub tells only JetStream's own answers and deliveries are kept: what other boxes
 * want is counted (box.c), and would be millions. */
#include "boxes.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SIZE 16u
#define TAKEN 1u

static uint64_t hash_of(slice_t text) {
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < text.size; i++) {
        hash = (hash ^ (uint8_t)text.at[i]) * UINT64_C(0x100000001B3);
    }
    return hash > TAKEN ? hash : hash + 2;
}

static bool begins(slice_t text, const char *with) {
    size_t size = strlen(with);
    return text.size >= size && memcmp(text.at, with, size) == 0;
}

static bool is_kept(slice_t subject) {
    return begins(subject, "$JSC.R.") || begins(subject, "$JS.S.") || begins(subject, "$JS.M.")
           || begins(subject, "_GR_."); /* a request from another cluster wants its answer under such a name */
}

static bool is_pattern(slice_t subject) {
    return memchr(subject.at, '*', subject.size) != NULL || memchr(subject.at, '>', subject.size) != NULL;
}

/* Where it is, or where it belongs. */
static uint64_t *place_of(const told_t *told, uint64_t hash) {
    uint32_t at = (uint32_t)hash & (told->size - 1);
    while (told->hashes[at] != 0 && told->hashes[at] != hash) {
        at = (at + 1) & (told->size - 1);
    }
    return &told->hashes[at];
}

static void grow(told_t *told) {
    told_t old = *told;
    uint32_t live = 0;
    for (uint32_t i = 0; i < old.size; i++) {
        live += old.hashes[i] > TAKEN;
    }
    told->size = FIRST_SIZE;
    while (told->size < 4 * live) {
        told->size *= 2;
    }
    told->hashes = calloc(told->size, sizeof *told->hashes);
    if (told->hashes == NULL) {
        die("no memory");
    }
    told->used = live;
    for (uint32_t i = 0; i < old.size; i++) {
        if (old.hashes[i] > TAKEN) {
            *place_of(told, old.hashes[i]) = old.hashes[i];
        }
    }
    free(old.hashes);
}

bool told_add(told_t *told, slice_t subject) {
    if (!is_kept(subject)) {
        return false;
    }
    if (is_pattern(subject)) {
        if (told->pattern_count == sizeof told->patterns / sizeof told->patterns[0]) {
            die("more patterns of deliveries than a hub should need");
        }
        told->patterns[told->pattern_count++] = strndup(subject.at, subject.size);
        return true;
    }
    if (2 * (told->used + 1) > told->size) {
        grow(told);
    }
    uint64_t hash = hash_of(subject), *place = place_of(told, hash);
    told->used += *place == 0;
    *place = hash;
    return true;
}

bool told_take(told_t *told, slice_t subject) {
    if (!is_kept(subject)) {
        return false;
    }
    for (uint32_t i = 0; i < told->pattern_count; i++) {
        if (strlen(told->patterns[i]) == subject.size && memcmp(told->patterns[i], subject.at, subject.size) == 0) {
            free(told->patterns[i]);
            told->patterns[i] = told->patterns[--told->pattern_count];
            return true;
        }
    }
    if (told->size != 0) {
        uint64_t hash = hash_of(subject), *place = place_of(told, hash);
        *place = *place == hash ? TAKEN : *place;
    }
    return true;
}

static bool matches(const char *pattern, slice_t subject) {
    const char *at = subject.at, *end = subject.at + subject.size;
    for (;;) {
        size_t word = strcspn(pattern, ".");
        const char *dot = memchr(at, '.', (size_t)(end - at));
        size_t size = (size_t)((dot != NULL ? dot : end) - at);
        if (word == 1 && *pattern == '>') {
            return size != 0;
        }
        if (!(word == 1 && *pattern == '*') && (word != size || memcmp(pattern, at, size) != 0)) {
            return false;
        }
        if (pattern[word] == '\0' || dot == NULL) {
            return pattern[word] == '\0' && dot == NULL;
        }
        pattern += word + 1;
        at = dot + 1;
    }
}

bool told_wants(const told_t *told, slice_t subject) {
    for (uint32_t i = 0; i < told->pattern_count; i++) {
        if (matches(told->patterns[i], subject)) {
            return true;
        }
    }
    return told->size != 0 && *place_of(told, hash_of(subject)) != 0;
}

void told_clear(told_t *told) {
    free(told->hashes);
    for (uint32_t i = 0; i < told->pattern_count; i++) {
        free(told->patterns[i]);
    }
    *told = (told_t){0};
}
