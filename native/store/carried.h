/* carried.h: which streams a batch carries, and up to where what they promised is shown. Both are in commit.c: the
 * watermark (commit.h) decides about the latter.
 *
 *     touched --- the batch is closed ---> flying --- it is on disk ---> waits for the watermark ---> visible, advanced
 */
#ifndef LEAFD_STORE_CARRIED_H
#define LEAFD_STORE_CARRIED_H

#include "store/store.h"

#define STREAM_PROMISE 768 /* bytes that closing a batch needs for one touched stream */
#define STREAMS_MIN 64     /* that a list of streams has room for at first */

/* A batch that is on disk, and the stream's last message in it. */
typedef struct commit_mark {
    uint64_t batch; /* 0: none */
    uint64_t last;
} commit_mark_t;

/* A stream's. */
typedef struct promise {  /* only commit.c writes to it */
    bool touched;         /* in the open batch */
    bool advanced;        /* in the list that store_advanced_next empties */
    uint64_t sealed_last; /* last_seq when the batch that is being journaled was closed */
    uint64_t visible;
    commit_mark_t oldest; /* these wait for the commit watermark */
    commit_mark_t newest;
} promise_t;

typedef struct stream_list {
    store_stream_t **at;
    uint32_t count;
    uint64_t capacity;
} stream_list_t;

typedef struct carried_streams { /* only commit.c writes to it */
    stream_list_t touched;
    stream_list_t flying;
    stream_list_t advanced;
} carried_streams_t;

LEAF_MUST_USE status_t list_add(stream_list_t *list, store_stream_t *stream);
void list_remove(stream_list_t *list, const store_stream_t *stream);

/* A stream is opened: of so many each may join the lists while it works, where nothing may fail. */
LEAF_MUST_USE status_t carried_open(store_stream_t *stream, uint32_t count);
void carried_close(store_stream_t *stream); /* it is removed */
void carried_join(store_stream_t *stream);  /* for stream_touch */
/* The open batch, of that number, closes: all that touched it write their state. */
void carried_seal(store_t *store);
/* What entries of logs did in the open batch, which a majority has: not when the batch is on disk. */
void carried_show_applied(store_t *store);
void carried_durable(store_t *store, uint64_t batch); /* it is on disk */
void carried_follow(store_t *store);                  /* shows what the watermark has reached since */
void carried_forget(store_t *store);                  /* the store closes: nobody will ask what became visible */
void carried_free(store_t *store);

#endif
