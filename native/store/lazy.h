/* lazy.h: a batch for which nobody waits. What committed entries of a group's log do is on the disk already, as the
 * entries; so is what a raised floor removes. A batch with nothing else stays open for a moment:
 *
 *     journal   | entry 1 | what 1 did | entry 2 | what 2 did |   who waits for each answer waits for two syncs
 *     journal   | entry 1 | what 1 did, entry 2 | ..              .. and for one
 *
 * What an entry did is shown to consumers when it is applied, since a majority has the entry: see
 * store_stream_visible. Code that holds an answer until the open batch is on the disk says so (store_hurry).
 */
#ifndef LEAFD_STORE_LAZY_H
#define LEAFD_STORE_LAZY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define LAZY_MIN_NS (2 * NS_PER_MS) /* an answer and the next request, on a network that is near */
#define LAZY_MAX_NS (20 * NS_PER_MS)

typedef struct store store_t;

typedef struct lazy { /* only lazy.c writes to it */
    uint64_t batch;   /* the open one, when an entry was last applied .. */
    uint32_t count;   /* .. and so many of its operations are what entries did */
    uint32_t begun;   /* operations in it when that began */
    bool shown;       /* all that entries did so far */
    uint64_t hurried; /* a batch that somebody waits for */
    int64_t until;    /* mono ns */
    int64_t took_ns;  /* by the last sync */
} lazy_t;

/* Somebody waits for the open batch. */
void store_hurry(store_t *store);
/* What is written between these two is of entries that are committed. */
void lazy_begin(store_t *store);
void lazy_end(store_t *store);
/* A batch is on disk, so long after it was closed. */
void lazy_durable(store_t *store, int64_t took_ns);
/* Shows what entries did to consumers. Until then no batch waits, so that this is called soon. */
void lazy_show(store_t *store);
/* Is the open batch one for which nobody waits, and its moment not over? */
bool lazy_waits(const store_t *store);

#endif
