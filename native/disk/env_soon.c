/* env_soon.c: what a put that comes soon is going to read is sent for from memory. Nothing else happens, so where it is
 * wrong it is for nothing. See env_lmdb.h.
 *
 * Of a thousand streams in turn, each has left the processor's cache when its turn comes: LMDB's cursor, which takes
 * several lines of the cache, and the end of the stream's last page.
 */
#include "disk/env_lmdb.h"

#define LINE 64 /* of the processor's cache */
/* where LMDB 0.9 has a cursor's stack of pages, and the places in them */
#define CURSOR_PAGES 64
#define CURSOR_PLACES 328

void env_write_soon(const env_t *env, store_db_t db, bytes_t key) {
    uint32_t index = env_index(env, &env->write_slots, db, key);
    if (index < DB_COUNT) {
        return;
    }
    const uint8_t *cursor = (const uint8_t *)env->writers[index];
    const uint8_t *put = env->judging.tails[index - DB_COUNT].put;
    if (LEAF_LIKELY(cursor != NULL && put != NULL)) {
        __builtin_prefetch(cursor, 1);
        __builtin_prefetch(cursor + CURSOR_PAGES);
        __builtin_prefetch(cursor + CURSOR_PLACES);
        for (uint32_t line = 1; line <= 3; line++) { /* the next one lies in front of the last */
            __builtin_prefetch(put - (size_t)line * LINE, 1);
        }
    }
}
