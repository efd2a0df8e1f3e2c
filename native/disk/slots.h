/* slots.h: which slot holds a stream's messages: a hash table from stream id to slot. env.c gives each stream's
 * messages a database of their own, and a slot is that database's place in its table. The reading and the writing
 * thread have a table each, because the writing one knows of databases that no commit has published yet. Knows numbers
 * only, no LMDB. */
#ifndef LEAFD_DISK_SLOTS_H
#define LEAFD_DISK_SLOTS_H

#include <stdint.h>

#define SLOTS_MAX 1024
#define SLOTS_TABLE (4 * SLOTS_MAX)

typedef struct slots {
    uint16_t at[SLOTS_TABLE]; /* slot + 1; 0 = empty */
    uint32_t count;           /* of ids[], those that are in the table */
} slots_t;

static inline uint32_t slots_place(const slots_t *slots, const uint32_t ids[SLOTS_MAX], uint32_t stream) {
    uint32_t i = stream * UINT32_C(2654435761) % SLOTS_TABLE;
    while (slots->at[i] != 0 && ids[slots->at[i] - 1] != stream) {
        i = (i + 1) % SLOTS_TABLE;
    }
    return i;
}

/* The stream's slot + 1; 0: it has none. */
static inline uint32_t slots_find(const slots_t *slots, const uint32_t ids[SLOTS_MAX], uint32_t stream) {
    return slots->at[slots_place(slots, ids, stream)];
}

/* Enters the slots from `count` up to `upto`, whose stream ids are in ids. */
static inline void slots_catch_up(slots_t *slots, const uint32_t ids[SLOTS_MAX], uint32_t upto) {
    for (; slots->count < upto; slots->count++) {
        slots->at[slots_place(slots, ids, ids[slots->count])] = (uint16_t)(slots->count + 1);
    }
}

#endif
