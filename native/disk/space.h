/* space.h: how much a store may still take in, from what its files, its disk and its limit leave. Arithmetic only:
 * keeper.c looks and reserves, append.c refuses, and both threads' promise is this:
 *
 *     what lies in the ring can always be checkpointed:
 *     bytes in the ring * GROWTH + the reserve <= bytes reserved behind LMDB's last page
 *
 * The reserve is what deletions, acknowledgements and consumer states need: LMDB copies each page that it changes, so
 * that removing takes new pages before it gives any back. While the disk has plenty, free bytes of the file system
 * count like reserved ones, so that an idle box does not hold on to much; when it gets short, only reserved ones do,
 * which nobody else can take.
 *
 * Where groups have logs, what these hold at most (`agreed`) is kept from publishers, too: it is applied whatever comes
 * of it, and what makes room, a purge say, is behind it in the log. The limit does not bound it, as it does publishers.
 */
#ifndef LEAFD_DISK_SPACE_H
#define LEAFD_DISK_SPACE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum space_short {
    SPACE_ENOUGH = 0,
    SPACE_DISK,  /* the file system */
    SPACE_LIMIT, /* max_file_store, or the map */
} space_short_t;

#define SPACE_LEAVE (UINT64_C(1) << 20)    /* of the disk, for others */
#define SPACE_STOP (UINT64_C(128) << 10)   /* publishers are refused when the ring may take less than this .. */
#define SPACE_RESUME (UINT64_C(512) << 10) /* .. until it may take this */

typedef struct space {
    bool memory;         /* tmpfs: what is reserved is memory */
    bool firm;           /* blocks can be reserved */
    uint64_t ring;       /* size of the byte ring */
    uint64_t budget;     /* pages in use may come to so much */
    uint64_t used;       /* pages ever used */
    uint64_t free_pages; /* of those, bytes that the next pages can take, as far as known */
    uint64_t holes;      /* of those, bytes without blocks (holes.h) */
    uint64_t ahead;      /* reserved behind them */
    uint64_t map_left;   /* behind them in the map */
    uint64_t disk_free;
    uint64_t agreed; /* bytes of the ring */
} space_t;

uint64_t space_reserve(const space_t *space);
/* How much should be reserved behind the pages in use. */
uint64_t space_wanted(const space_t *space);
/* How much of the free pages keeps its blocks: what one full ring and the reserve take, or an eighth of what is in
 * use where that is more, so that a store which shrinks and grows does not give back and take again. */
uint64_t space_keep(const space_t *space);
/* Is so little left of the disk that these have to be there now? */
bool space_scarce(const space_t *space);
/* Bytes that publishers may hold in the ring, 0 .. 7/8 of it, and what bounds them. */
uint64_t space_admits(const space_t *space, space_short_t *by);
/* The same with what groups have agreed on, whatever the limit is. */
uint64_t space_grants(const space_t *space);

#endif
