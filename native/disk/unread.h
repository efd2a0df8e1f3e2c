/* unread.h: a page of a mapped file that the disk does not give. The kernel answers a read of it with SIGBUS, which
 * ends a process; on a worn SD card that is one bad block among a million good ones. So who maps a file watches the map
 * here: the handler lays a page of zeros over the failing one, notes it, and the read goes on. Zeros are no page of
 * LMDB's, and a reader asks here before the answer is believed:
 *
 *     before = unread_count(watch)
 *     ... reads in the map ...
 *     unread_count(watch) != before       something of it was not given: what was read is not known
 *     unread_covers(watch, page, size)    zeros lie there since an earlier read
 *     unread_again(watch)                 the file lies there once more, and the disk is asked when it is read: it may
 *                                         give the page now, or another one was written to that place
 *
 *     watch    UNREAD_WATCHES of the process, each a map   [ file | zeros | file ................ | zeros | file ]
 *     places   UNREAD_PLACES of a watch; when more are not given, zeros lie over all of the map
 *
 * The handler does what a signal handler may: it reads and writes atomics and makes one system call. A SIGBUS anywhere
 * else, or of a map for which there was no room, ends the process as it would without this.
 *
 * Chosen against reads by pread into buffers of our own: those would cost each page that is read a system call and a
 * copy, also where the disk is sound, and LMDB, which writes, reads through its map in any case.
 *
 * Each map has one thread that reads it and calls unread_again; LMDB's own is read by two (see env_open.c). Knows no
 * LMDB and no format.
 */
#ifndef LEAFD_DISK_UNREAD_H
#define LEAFD_DISK_UNREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"

#define UNREAD_WATCHES 192u
#define UNREAD_PLACES 32u

typedef struct unread_watch {
    atomic_uintptr_t at; /* the map's first byte; 0: not in use, 1: it is being filled in */
    atomic_uintptr_t size;
    int fd;
    bool ahead;                             /* the kernel may read ahead in this map */
    atomic_uint_fast64_t count;             /* of pages so far */
    atomic_uint covered;                    /* zeros lie somewhere */
    atomic_uint whole;                      /* .. everywhere */
    atomic_uintptr_t last;                  /* page */
    atomic_uintptr_t places[UNREAD_PLACES]; /* 0: free */
} unread_watch_t;

/* A map of all of fd, from its first byte, for reading alone. NULL: there is no room, and it is not watched. */
unread_watch_t *unread_watch(const void *at, uint64_t size, int fd, bool ahead);
/* Before it is unmapped. NULL is fine here and below. */
void unread_forget(unread_watch_t *watch);
void unread_again(unread_watch_t *watch);
bool unread_covers_some(const unread_watch_t *watch, const void *at, uint64_t size);
/* Over these pages lies a copy, as the file has them now, until they thaw: what the disk makes of them meanwhile does
 * not reach who reads in the map. For whole pages of this machine, while nobody but the caller reads them. false: they
 * are as they were. */
bool unread_freeze(unread_watch_t *watch, uint64_t offset, uint64_t size);
bool unread_thaw(unread_watch_t *watch, uint64_t offset, uint64_t size);
/* Sets the function that is called, in the signal handler, before a SIGBUS that is none of these ends the process;
 * NULL: none. */
void unread_otherwise(void (*ending)(int number));

static inline uint64_t unread_count(const unread_watch_t *watch) {
    return watch != NULL ? atomic_load_explicit(&watch->count, memory_order_relaxed) : 0;
}

static inline bool unread_covers(const unread_watch_t *watch, const void *at, uint64_t size) {
    return watch != NULL && LEAF_UNLIKELY(atomic_load_explicit(&watch->covered, memory_order_relaxed) != 0)
           && unread_covers_some(watch, at, size);
}

/* What lies in the map at that offset. */
static inline const uint8_t *unread_at(const unread_watch_t *watch, uint64_t offset) {
    return (const uint8_t *)(atomic_load(&watch->at) + (uintptr_t)offset); /* NOLINT(performance-no-int-to-ptr) */
}

/* The place of the last page that was not given, from the map's begin. */
static inline uint64_t unread_last(const unread_watch_t *watch) {
    return atomic_load(&watch->last) - atomic_load(&watch->at);
}

#endif
