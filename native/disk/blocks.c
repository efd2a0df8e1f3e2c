/* blocks.c: see blocks.h. */
#include "disk/blocks.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define LOW (UINT64_C(1) << 20)
#define STEP (UINT64_C(64) << 10)

/* Blocks of [from, to); what has them already costs nothing. */
static bool blocks_allocate(blocks_t *blocks, uint64_t from, uint64_t to) {
    if (fallocate(blocks->fd, FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(to - from)) == 0) {
        blocks->reserved = to;
        return true;
    }
    blocks->loose = blocks->loose || errno == EOPNOTSUPP || errno == ENOSYS;
    return false;
}

uint64_t blocks_taken(const blocks_t *blocks) {
    struct stat file;
    return fstat(blocks->fd, &file) == 0 ? (uint64_t)file.st_blocks * 512 : 0;
}

/* Finds the blocks that an earlier process reserved and that are still there. */
static void blocks_find(blocks_t *blocks, uint64_t used) {
    uint64_t had = blocks_taken(blocks);
    uint64_t more = had > used ? (had - used) / STEP * STEP : 0;
    if (had < used) { /* holes.h: they stay */
        blocks->reserved = used;
        return;
    }
    while (!blocks->loose && !blocks_allocate(blocks, 0, used + more)) {
        if (more == 0) {
            blocks->reserved = used;
            return;
        }
        more = more / 2 / STEP * STEP; /* some of the blocks were the file system's own */
    }
}

void blocks_look(blocks_t *blocks) {
    struct statvfs disk;
    blocks->free = fstatvfs(blocks->fd, &disk) == 0 ? (uint64_t)disk.f_bavail * disk.f_frsize : 0;
}

void blocks_reserve(blocks_t *blocks, uint64_t used, uint64_t to, uint64_t leave) {
    if (blocks->reserved == 0) {
        blocks_find(blocks, used);
        blocks_look(blocks);
    }
    if (blocks->loose || to <= blocks->reserved) {
        return;
    }
    uint64_t more = (to - blocks->reserved + STEP - 1) / STEP * STEP;
    uint64_t most = blocks->free > leave ? blocks->free - leave : 0;
    more = more < most ? more : most / STEP * STEP;
    if (more > 0 && blocks_allocate(blocks, blocks->reserved, blocks->reserved + more)) {
        blocks->free -= more;
    }
}

bool blocks_exhausted(int fd, uint64_t size) {
    struct statvfs disk;
    struct stat file;
    struct rlimit limit;
    if (fstatvfs(fd, &disk) == 0 && (uint64_t)disk.f_bavail * disk.f_frsize < LOW) {
        return true;
    }
    return fstat(fd, &file) == 0 && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
           && (uint64_t)file.st_size + size > (uint64_t)limit.rlim_cur;
}
