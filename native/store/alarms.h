/* alarms.h: what the store has to say to people, a bounded queue of alarms; and to the next start.
 */
#ifndef LEAFD_STORE_ALARMS_H
#define LEAFD_STORE_ALARMS_H

#include "store/store.h"

#define STORE_ALARMS_MAX 64
#define STORE_TOLD_MAX 64
#define STORE_SUSPECT "data.mdb.suspect" /* file: the next start reads all of that .. */
#define STORE_SUSPECT_AGAIN "again"      /* .. in it: and is asked for by the process before it, which could serve */

struct hole; /* fill.h */

typedef struct alarms {                 /* only alarms.c writes to it */
    store_alarm_t at[STORE_ALARMS_MAX]; /* circular */
    uint32_t begin;
    uint32_t count;
    uint64_t dropped;
    uint64_t damage; /* that was met .. */
    uint64_t owned;  /* .. of which so much was in streams that are open, or is mended: no start mends it */
    /* A damaged message is alarmed once, not each time that it is asked for. */
    struct {
        uint32_t stream;
        uint64_t seq;
    } told[STORE_TOLD_MAX];
    uint32_t told_next;
} alarms_t;

void store_alarm(store_t *store, uint32_t code, uint32_t stream, uint64_t seq, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* The stream has a hole from now on (fill.h), so that what was there is fetched again. Nothing is logged. */
void store_tell_hole(store_t *store, uint32_t stream, const struct hole *hole);
/* So much damage was met, whatever is said of it. */
void store_damaged(store_t *store, uint64_t count);
/* Damage was met of which nothing is left. */
void store_damage_mended(store_t *store);
/* Something fails its checksum: counted and alarmed. stream: NULL when it is not open, or not at hand. */
void store_corrupt(store_t *store, store_stream_t *stream, uint32_t stream_id, uint64_t seq, const char *what);
/* The same of a record, by its whole key. */
void store_corrupt_record(store_t *store, bytes_t key);
/* Other servers have the stream, too: what is damaged here is copied from them. */
bool stream_is_shared(const store_stream_t *stream);
/* Such a stream is to be copied, once in a while at most. Any other is left alone. */
void store_ask_for_copy(store_stream_t *stream);

#endif
