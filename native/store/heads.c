/* heads.c: see heads.h. */
#include "store/heads.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/visits.h"

#define SLABS_MIN 4u /* half of it may be dirty, and nearly half kept for a group */
#define SLOTS_MIN (2 * HEADS_SLAB)
#define MOVED_AT_ONCE 8u /* with each new entry: sooner over than the larger table is full */

status_t heads_open(heads_t *heads, uint64_t memory_max) {
    uint64_t slabs = memory_max / (HEADS_SLAB * sizeof(head_entry_t));
    slabs = memory_max == 0 || slabs > HEADS_MAX / HEADS_SLAB ? HEADS_MAX / HEADS_SLAB
            : slabs > SLABS_MIN                               ? slabs
                                                              : SLABS_MIN;
    *heads = (heads_t){
        .free_list = HEADS_NONE, .dirty_first = HEADS_NONE, .keeps_for = 1, .max = (uint32_t)slabs * HEADS_SLAB};
    heads->slots = calloc(SLOTS_MIN, sizeof *heads->slots);
    heads->slot_mask = SLOTS_MIN - 1;
    return heads->slots == NULL ? STATUS_NO_MEMORY : STATUS_OK;
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
    free(heads->slots);
    free(heads->smaller);
    *heads = (heads_t){0};
}

uint64_t heads_name(heads_t *heads) {
    return ++heads->names;
}

/* Multiplies by an odd number, so that no two names come to the same. */
uint64_t heads_hash(uint64_t name, bytes_t subject) {
    return hash_bytes(subject.at, subject.size) ^ name * UINT64_C(0x9E3779B97F4A7C15);
}

static head_entry_t *find_in(const heads_t *heads, const head_slot_t *slots, uint32_t mask, uint32_t from,
                             bytes_t subject, uint64_t hash) {
    for (uint32_t i = from; slots[i].place != 0; i = (i + 1) & mask) {
        if (slots[i].hash != (uint32_t)hash) {
            continue;
        }
        head_entry_t *entry = entry_at(heads, slots[i].place - 1);
        if (entry->hash == hash && bytes_equal(head_subject(entry), subject)) {
            return entry;
        }
    }
    return NULL;
}

/* The slot at which a search begins for an entry that is still in the smaller table: none is left before `moved`. */
static uint32_t smaller_from(const heads_t *heads, uint64_t hash) {
    uint32_t wanted = (uint32_t)hash & heads->smaller_mask;
    return wanted < heads->moved ? heads->moved : wanted;
}

head_entry_t *heads_find(heads_t *heads, bytes_t subject, uint64_t hash) {
    head_entry_t *entry =
        find_in(heads, heads->slots, heads->slot_mask, (uint32_t)hash & heads->slot_mask, subject, hash);
    if (entry == NULL && LEAF_UNLIKELY(heads->smaller != NULL)) {
        entry = find_in(heads, heads->smaller, heads->smaller_mask, smaller_from(heads, hash), subject, hash);
    }
    if (entry != NULL) {
        entry->asked = true;
    }
    return entry;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static void slot_put(head_slot_t *slots, uint32_t mask, head_slot_t slot) {
    uint32_t i = slot.hash & mask;
    while (slots[i].place != 0) {
        i = (i + 1) & mask;
    }
    slots[i] = slot;
}

/* The entry's slot, or a free one. */
static uint32_t heads_slot(const head_slot_t *slots, uint32_t mask, uint32_t from, const head_entry_t *entry) {
    uint32_t i = from;
    while (slots[i].place != 0 && slots[i].place != entry->index + 1) {
        i = (i + 1) & mask;
    }
    return i;
}

/* Moves entries behind a hole up, where they may, so that no search ends too early. */
static void hole_close(head_slot_t *slots, uint32_t mask, uint32_t hole) {
    for (uint32_t i = (hole + 1) & mask; slots[i].place != 0; i = (i + 1) & mask) {
        uint32_t wanted = slots[i].hash & mask;
        if (((i - wanted) & mask) >= ((i - hole) & mask)) {
            slots[hole] = slots[i];
            hole = i;
        }
    }
    slots[hole] = (head_slot_t){0};
}

static void slot_take(heads_t *heads, const head_entry_t *entry) {
    uint32_t slot = heads_slot(heads->slots, heads->slot_mask, (uint32_t)entry->hash & heads->slot_mask, entry);
    if (heads->slots[slot].place != 0) {
        hole_close(heads->slots, heads->slot_mask, slot);
        return;
    }
    check(heads->smaller != NULL);
    slot = heads_slot(heads->smaller, heads->smaller_mask, smaller_from(heads, entry->hash), entry);
    check(heads->smaller[slot].place != 0);
    hole_close(heads->smaller, heads->smaller_mask, slot);
}

static bool slot_move(heads_t *heads) {
    visits_add(1);
    head_slot_t *slot = &heads->smaller[heads->moved++];
    if (slot->place == 0) {
        return false;
    }
    slot_put(heads->slots, heads->slot_mask, *slot);
    *slot = (head_slot_t){0};
    return true;
}

static void slots_move(heads_t *heads, uint32_t count) {
    while (count-- > 0 && heads->moved <= heads->smaller_mask) {
        (void)slot_move(heads);
    }
    if (heads->moved > heads->smaller_mask) {
        free(heads->smaller);
        heads->smaller = NULL;
    }
}

/* For `entries` of them. The slots move little by little, from the first one on. Those that begin the table may belong
 * to its end and have come round, so they move at once, up to the first free one. */
static bool slots_grow(heads_t *heads, uint32_t entries) {
    if (heads->slot_mask + 1 >= 2 * entries) {
        return true;
    }
    uint32_t size = 2 * (heads->slot_mask + 1);
    head_slot_t *slots = calloc(size, sizeof *slots);
    if (slots == NULL) {
        return false;
    }
    if (heads->smaller != NULL) { /* few, or none */
        slots_move(heads, heads->smaller_mask + 1);
    }
    heads->smaller = heads->slots;
    heads->smaller_mask = heads->slot_mask;
    heads->moved = 0;
    heads->slots = slots;
    heads->slot_mask = size - 1;
    while (slot_move(heads)) {
    }
    return true;
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

static void unlink_entry(heads_t *heads, head_entry_t *entry) {
    slot_take(heads, entry);
    free(entry->text);
    entry->text = NULL;
    entry->used = false;
    entry->next_free = heads->free_list;
    heads->free_list = entry->index;
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
        if (!entry->used || entry->dirty || entry->kept_for == heads->keeps_for) {
            continue;
        }
        if (!entry->asked) {
            unlink_entry(heads, entry);
            /* The next one's slot is on its way from memory by the time that it has to go. */
            __builtin_prefetch(&heads->slots[(uint32_t)entry_at(heads, heads->hand)->hash & heads->slot_mask]);
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
    head_entry_t *slab = slots_grow(heads, heads->count + HEADS_SLAB) ? calloc(HEADS_SLAB, sizeof *slab) : NULL;
    if (slab == NULL) {
        return heads->count > 0 && heads_evict(heads);
    }
    heads->slabs[heads->count / HEADS_SLAB] = slab;
    for (uint32_t i = HEADS_SLAB; i-- > 0;) {
        slab[i].next_free = heads->free_list;
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
    if (LEAF_UNLIKELY(heads->smaller != NULL)) {
        slots_move(heads, MOVED_AT_ONCE);
    }
    heads->free_list = entry->next_free;
    heads->added++;
    *entry = (head_entry_t){
        .hash = hash, .stream = stream, .size = subject.size, .index = index, .used = true, .text = text};
    if (subject.size > 0) {
        memcpy(text != NULL ? text : entry->room, subject.at, subject.size);
    }
    slot_put(heads->slots, heads->slot_mask, (head_slot_t){.hash = (uint32_t)hash, .place = index + 1});
    return entry;
}

bool heads_mark(heads_t *heads, head_entry_t *entry) {
    if (entry->dirty) {
        return false;
    }
    entry->dirty = true;
    entry->next_dirty = HEADS_NONE;
    if (heads->dirty_first == HEADS_NONE) {
        heads->dirty_first = entry->index;
    } else {
        entry_at(heads, heads->dirty_last)->next_dirty = entry->index;
    }
    heads->dirty_last = entry->index;
    heads->dirty_count++;
    return true;
}

void heads_keep(const heads_t *heads, head_entry_t *entry) {
    entry->kept_for = heads->keeps_for;
}

/* Where the numbers come round, an entry of an earlier group stays for one more. */
void heads_keep_none(heads_t *heads) {
    heads->keeps_for = (uint8_t)(heads->keeps_for % UINT8_MAX + 1);
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
