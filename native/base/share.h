/* share.h: a share of the process's memory: what is counted against it, and its bound. The count changes where memory
 * is allocated and released (buffer.c), not with each message. Only one thread uses a share. Which shares there are:
 * plane/memory.h. */
#ifndef LEAFD_BASE_SHARE_H
#define LEAFD_BASE_SHARE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct buffer buffer_t;

typedef struct share {
    uint64_t used;
    uint64_t limit;
    /* Called when `buffer` (NULL: something else) needs `more` bytes and the share has fewer left. It may empty
     * buffers, this one too (its memory stays); false: the buffer cannot have them. NULL: never. */
    bool (*make_room)(void *context, const buffer_t *buffer, uint64_t more);
    void *context;
} share_t;

static inline bool share_has(const share_t *share, uint64_t more) {
    return share->used <= share->limit && more <= share->limit - share->used;
}

/* Likewise, where only so many eighths of it may be used. */
static inline bool share_has_of(const share_t *share, uint32_t eighths, uint64_t more) {
    uint64_t limit = share->limit / 8 * eighths;
    return share->used <= limit && more <= limit - share->used;
}

#endif
