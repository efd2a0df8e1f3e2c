/* sequences.c: see sequences.h. */
#include "sessions/sequences.h"

#include <stdlib.h>

#define ROOM_FIRST 16u

/* The slot of an identifier, or the free one for it. */
static uint32_t sequence_slot(const sequences_t *sequences, uint16_t id) {
    uint32_t slot = id * UINT32_C(0x9E3779B1) >> 8 & (sequences->room - 1);
    while (sequences->slots[slot].seq != 0 && sequences->slots[slot].id != id) {
        slot = (slot + 1) & (sequences->room - 1);
    }
    return slot;
}

static status_t sequences_grow(sequences_t *sequences) {
    sequences_t wider = {.room = sequences->room == 0 ? ROOM_FIRST : sequences->room * 2, .count = sequences->count};
    wider.slots = calloc(wider.room, sizeof(*wider.slots));
    if (wider.slots == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < sequences->room; i++) {
        if (sequences->slots[i].seq != 0) {
            wider.slots[sequence_slot(&wider, sequences->slots[i].id)] = sequences->slots[i];
        }
    }
    free(sequences->slots);
    *sequences = wider;
    return STATUS_OK;
}

status_t sequences_put(sequences_t *sequences, uint16_t id, uint64_t seq) {
    if (2 * (sequences->count + 1) > sequences->room && sequences_grow(sequences) != STATUS_OK) {
        return STATUS_NO_MEMORY;
    }
    sequence_slot_t *place = &sequences->slots[sequence_slot(sequences, id)];
    sequences->count += place->seq == 0;
    *place = (sequence_slot_t){.seq = seq, .id = id};
    return STATUS_OK;
}

uint64_t sequences_find(const sequences_t *sequences, uint16_t id) {
    return sequences->room == 0 ? 0 : sequences->slots[sequence_slot(sequences, id)].seq;
}

void sequences_mark(const sequences_t *sequences, uint16_t id, uint32_t share) {
    if (sequences_find(sequences, id) != 0) {
        sequences->slots[sequence_slot(sequences, id)].share = share;
    }
}

uint32_t sequences_share(const sequences_t *sequences, uint16_t id) {
    return sequences_find(sequences, id) == 0 ? 0 : sequences->slots[sequence_slot(sequences, id)].share;
}

/* Entries behind it, up to the next free slot, are put anew: one of them may have passed over this one. */
uint64_t sequences_take(sequences_t *sequences, uint16_t id) {
    uint64_t seq = sequences_find(sequences, id);
    if (seq == 0) {
        return 0;
    }
    uint32_t slot = sequence_slot(sequences, id);
    sequences->slots[slot].seq = 0;
    sequences->count--;
    uint32_t mask = sequences->room - 1;
    for (slot = (slot + 1) & mask; sequences->slots[slot].seq != 0; slot = (slot + 1) & mask) {
        sequence_slot_t moved = sequences->slots[slot];
        sequences->slots[slot].seq = 0;
        sequences->slots[sequence_slot(sequences, moved.id)] = moved;
    }
    return seq;
}

static int by_sequence(const void *left, const void *right) {
    const sequence_slot_t *a = left, *b = right;
    return (a->seq > b->seq) - (a->seq < b->seq);
}

uint16_t *sequences_in_order(const sequences_t *sequences) {
    sequence_slot_t *taken = sequences->count == 0 ? NULL : malloc(sequences->count * sizeof(*taken));
    uint16_t *ids = taken == NULL ? NULL : malloc(sequences->count * sizeof(*ids));
    uint32_t count = 0;
    for (uint32_t i = 0; ids != NULL && i < sequences->room; i++) {
        if (sequences->slots[i].seq != 0) {
            taken[count++] = sequences->slots[i];
        }
    }
    if (count != 0) {
        qsort(taken, count, sizeof(*taken), by_sequence);
    }
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = taken[i].id;
    }
    free(taken);
    return ids;
}

void sequences_free(sequences_t *sequences) {
    free(sequences->slots);
    *sequences = (sequences_t){0};
}
