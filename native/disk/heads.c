/* heads.c: see heads.h. */
#include "disk/heads.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/hash.h"

#define BUCKETS 65536

status_t heads_open(heads_t *heads, uint64_t memory_max) {
    uint64_t slabs = memory_max / (HEADS_SLAB * sizeof(head_entry_t));
    slabs = memory_max == 0 || slabs > HEADS_MAX / HEADS_SLAB ? HEADS_MAX / HEADS_SLAB : slabs > 0 ? slabs : 1;
    *heads = (heads_t){.free_list = HEADS_NONE, .dirty_first = HEADS_NONE, .max = (uint32_t)slabs * HEADS_SLAB};
    heads->buckets = malloc(BUCKETS * sizeof *heads->buckets);
    if (heads->buckets == NULL) {
        return STATUS_NO_MEMORY;
    }
    memset(heads->buckets, 0xff, BUCKETS * sizeof *heads->buckets);
    return STATUS_OK;
}

static head_entry_t *entry_at(const heads_t *heads, uint32_t index) {
    return &heads->slabs[index / HEADS_SLAB][index % HEADS_SLAB];
}

void heads_close(heads_t *heads) {
    for (uint32_t i = 0; i < heads->count; i++) {
        free(entry_at(heads, i)->text);
    }
    for (uint32_t i = 0; i < HEADS_MAX / HEADS_SLAB; i++) {
        free(heads->slabs[i]);
    }
    free(heads->buckets);
    *heads = (heads_t){0};
}

uint64_t heads_hash(uint32_t stream, bytes_t subject) {
    return hash_bytes(subject.at, subject.size) ^ (uint64_t)stream * UINT64_C(0x9E3779B97F4A7C15);
}

head_entry_t *heads_find(heads_t *heads, uint32_t stream, bytes_t subject, uint64_t hash) {
    for (uint32_t i = heads->buckets[hash % BUCKETS]; i != HEADS_NONE;) {
        head_entry_t *entry = entry_at(heads, i);
        if (entry->hash == hash && entry->stream == stream && bytes_equal(head_subject(entry), subject)) {
            entry->asked = true;
            return entry;
        }
        i = entry->chain;
    }
    return NULL;
}

static uint32_t index_of(const heads_t *heads, const head_entry_t *entry) {
    uint32_t i = heads->buckets[entry->hash % BUCKETS];
    while (entry_at(heads, i) != entry) {
        i = entry_at(heads, i)->chain;
        check(i != HEADS_NONE);
    }
    return i;
}

static void unlink_entry(heads_t *heads, head_entry_t *entry) {
    uint32_t *from = &heads->buckets[entry->hash % BUCKETS];
    while (entry_at(heads, *from) != entry) {
        from = &entry_at(heads, *from)->chain;
        check(*from != HEADS_NONE);
    }
    uint32_t index = *from;
    *from = entry->chain;
    free(entry->text);
    entry->text = NULL;
    entry->used = false;
    entry->chain = heads->free_list;
    heads->free_list = index;
}

void heads_remove(heads_t *heads, head_entry_t *entry) {
    check(!entry->dirty);
    unlink_entry(heads, entry);
}

/* Two rounds at most: the first clears every mark, the second finds a clean entry if there is one. */
static bool heads_evict(heads_t *heads) {
    for (uint32_t step = 0; step < 2 * heads->count; step++) {
        head_entry_t *entry = entry_at(heads, heads->hand);
        heads->hand = (heads->hand + 1) % heads->count;
        if (!entry->used || entry->dirty) {
            continue;
        }
        if (!entry->asked) {
            unlink_entry(heads, entry);
            return true;
        }
        entry->asked = false;
    }
    return false;
}

static bool make_room(heads_t *heads) {
    if (heads->free_list != HEADS_NONE) {
        return true;
    }
    if (heads->count == heads->max) {
        return heads_evict(heads);
    }
    head_entry_t *slab = calloc(HEADS_SLAB, sizeof *slab);
    if (slab == NULL) {
        return heads->count > 0 && heads_evict(heads);
    }
    heads->slabs[heads->count / HEADS_SLAB] = slab;
    for (uint32_t i = HEADS_SLAB; i-- > 0;) {
        slab[i].chain = heads->free_list;
        heads->free_list = heads->count + i;
    }
    heads->count += HEADS_SLAB;
    return true;
}

head_entry_t *heads_add(heads_t *heads, uint32_t stream, bytes_t subject, uint64_t hash) {
    if (!make_room(heads)) {
        return NULL;
    }
    uint32_t index = heads->free_list;
    head_entry_t *entry = entry_at(heads, index);
    uint8_t *text = NULL;
    if (subject.size > HEADS_INLINE) {
        text = malloc(subject.size);
        if (text == NULL) {
            return NULL;
        }
    }
    heads->free_list = entry->chain;
    *entry =
        (head_entry_t){.hash = hash, .stream = stream, .size = subject.size, .used = true, .asked = true, .text = text};
    if (subject.size > 0) {
        memcpy(text != NULL ? text : entry->room, subject.at, subject.size);
    }
    uint32_t *bucket = &heads->buckets[hash % BUCKETS];
    entry->chain = *bucket;
    *bucket = index;
    return entry;
}

bool heads_mark(heads_t *heads, head_entry_t *entry) {
    if (entry->dirty) {
        return false;
    }
    entry->dirty = true;
    entry->next_dirty = heads->dirty_first;
    heads->dirty_first = index_of(heads, entry);
    heads->dirty_count++;
    return true;
}

head_entry_t *heads_take_dirty(heads_t *heads) {
    if (heads->dirty_first == HEADS_NONE) {
        return NULL;
    }
    head_entry_t *entry = entry_at(heads, heads->dirty_first);
    heads->dirty_first = entry->next_dirty;
    heads->dirty_count--;
    entry->dirty = false;
    return entry;
}

void heads_forget(heads_t *heads, uint32_t stream) {
    uint32_t *from = &heads->dirty_first;
    while (*from != HEADS_NONE) {
        head_entry_t *entry = entry_at(heads, *from);
        if (entry->stream == stream) {
            *from = entry->next_dirty;
            entry->dirty = false;
            heads->dirty_count--;
        } else {
            from = &entry->next_dirty;
        }
    }
    for (uint32_t i = 0; i < heads->count; i++) {
        head_entry_t *entry = entry_at(heads, i);
        if (entry->used && entry->stream == stream) {
            unlink_entry(heads, entry);
        }
    }
}
