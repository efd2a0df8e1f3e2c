/* heads.h: the bounded cache of subject heads (first, last, count of one subject in one stream), and the list of those
 * that the open batch has changed. Knows no batch and no LMDB: subjects.c loads into it, store.c empties the list when
 * a batch closes.
 *
 * HEADS_MAX entries in slabs that come as needed, a table from hash to entry, and a clock hand that frees an entry
 * nobody asked for since it last came by; one that came once and was never asked for goes first, so that a row of new
 * subjects does not drive out those in use. A dirty entry stays, and one that is kept for a group of appends.
 *
 * The table is open addressing with linear probing and has enough of each hash to look for an entry, and to take one
 * out, without touching any other: the entries of 65,536 subjects are more memory than a processor's caches hold. When
 * it grows, the smaller table stays beside it, is asked second, and each new entry moves a few slots of it.
 *
 * Each set of heads has a name, which no other had before or gets later. All of a stream's heads go at once when the
 * stream gets another name: those of the old one are found by nobody, and the hand comes by.
 */
#ifndef LEAFD_STORE_HEADS_H
#define LEAFD_STORE_HEADS_H

#include "base/bytes.h"
#include "base/status.h"
#include "disk/keys.h"

#define HEADS_MAX 65536
#define HEADS_SLAB 512
#define HEADS_INLINE 72
#define HEADS_NONE UINT32_MAX

typedef struct head_entry {
    uint64_t hash;
    head_t head;
    uint64_t noted;  /* only subjects.c: where the overlay has it, 0 = not known */
    uint32_t stream; /* whose it is written as; never asked when one is looked for */
    uint32_t size;
    uint32_t index;      /* its own */
    uint32_t next_free;  /* while it is not used */
    uint32_t next_dirty; /* next of the open batch's changes */
    bool used;
    bool asked; /* since the hand came by */
    bool dirty;
    uint8_t kept_for; /* the group of that number; 0: none */
    uint8_t *text;    /* own memory when the subject is longer than the room below */
    uint8_t room[HEADS_INLINE];
} head_entry_t;

typedef struct head_slot {
    uint32_t hash;  /* its lower half */
    uint32_t place; /* of the entry, + 1; 0 = free */
} head_slot_t;

typedef struct heads {
    head_entry_t *slabs[HEADS_MAX / HEADS_SLAB];
    head_slot_t *slots;
    uint32_t slot_mask;   /* there is one more of them: a power of two, at least twice the entries */
    head_slot_t *smaller; /* the table before it grew, while entries are left there; else NULL */
    uint32_t smaller_mask;
    uint32_t moved;     /* of its slots: those before it are free */
    uint32_t count;     /* entries made so far */
    uint32_t max;       /* a multiple of HEADS_SLAB, at most HEADS_MAX */
    uint32_t free_list; /* through next_free */
    uint32_t hand;
    uint32_t dirty_first; /* the one that was marked first */
    uint32_t dirty_last;
    uint32_t dirty_count;
    uint8_t keeps_for; /* entries of this group stay */
    uint64_t added;    /* ever */
    uint64_t names;    /* ever */
} heads_t;

/* memory_max: of the entries, 0 = HEADS_MAX of them. */
LEAF_MUST_USE status_t heads_open(heads_t *heads, uint64_t memory_max);
void heads_close(heads_t *heads);
static inline bytes_t head_subject(const head_entry_t *entry) {
    return bytes_of(entry->text != NULL ? entry->text : entry->room, entry->size);
}
uint64_t heads_name(heads_t *heads); /* a new one */
/* The hash of a subject under a name: for one subject it tells every name from every other. */
uint64_t heads_hash(uint64_t name, bytes_t subject);
head_entry_t *heads_find(heads_t *heads, bytes_t subject, uint64_t hash);
/* A new entry with a zero head; NULL: no memory, or every entry is dirty or kept. May throw another clean one out. */
head_entry_t *heads_add(heads_t *heads, uint32_t stream, bytes_t subject, uint64_t hash);
/* true: it was clean before. */
bool heads_mark(heads_t *heads, head_entry_t *entry);
/* Takes the one that was marked first off the dirty list, NULL when there is none. */
head_entry_t *heads_take_dirty(heads_t *heads);
void heads_remove(heads_t *heads, head_entry_t *entry); /* not a dirty one */
/* The entry stays until the next heads_keep_none, whatever comes; for as many as SLABS_MIN has room for. */
void heads_keep(const heads_t *heads, head_entry_t *entry);
void heads_keep_none(heads_t *heads);

static inline uint64_t heads_bytes(const heads_t *heads) {
    return heads->count * sizeof(head_entry_t) + (heads->slot_mask + UINT64_C(1)) * sizeof(head_slot_t)
           + (heads->smaller == NULL ? 0 : (heads->smaller_mask + UINT64_C(1)) * sizeof(head_slot_t));
}

#endif
