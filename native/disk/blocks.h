/* blocks.h: blocks of a file that are reserved before it grows into them, so that nobody else can take them. Knows
 * files; knows no LMDB. */
#ifndef LEAFD_DISK_BLOCKS_H
#define LEAFD_DISK_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct blocks {
    int fd;            /* somebody else's */
    uint64_t reserved; /* the file has its blocks up to here; 0: not looked at yet */
    bool loose;        /* the file system cannot reserve: what is free has to do */
    uint64_t free;     /* bytes of the file system that anybody may take */
} blocks_t;

/* Bytes of the file that have blocks, those behind its end too. */
uint64_t blocks_taken(const blocks_t *blocks);
/* Sees how much is free. */
void blocks_look(blocks_t *blocks);
/* Reserves blocks up to `to`, or as far as it goes while `leave` bytes of the disk stay free for others. used: the
 * file's bytes in use. */
void blocks_reserve(blocks_t *blocks, uint64_t used, uint64_t to, uint64_t leave);
/* Has a write of `size` bytes behind the file's end failed for lack of room? By the file system, or the process's limit
 * on the size of files. */
bool blocks_exhausted(int fd, uint64_t size);

#endif
