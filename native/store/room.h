/* room.h: room in the ring of batches: how much publishers may take, and how much of it is in memory.
 *
 *     freed                                      end                     room.end
 *       |  waits for a checkpoint  | open batch  |  publishers ..       |  one more of any size | deletions, records
 *
 * What a group has agreed on is applied where publishers are refused already, until the disk has no more: what makes
 * room, a purge say, comes behind it in the log (disk/space.h). A member says so to its leader (store_tight) as soon as
 * the ring has more than publishers may hold there. What comes after that is no more than what the logs may hold.
 *
 * At rest the ring is narrow: it has memory for a part of itself, which stays in the processor's cache, and gives back
 * what it does not need (batch.h).
 */
#ifndef LEAFD_STORE_ROOM_H
#define LEAFD_STORE_ROOM_H

#include "store/store.h"

#define ROOM_ONE_MORE (UINT64_C(32) * 1024) /* what a message needs beside its own bytes, at most */
#define ROOM_EVICTION 8192                  /* for what the limits will write in the same call */
/* A checkpoint begins when this part of a narrow ring's memory waits for it: the rest takes the messages that come
 * meanwhile. With half of it a message writes 3 % less, and publishing is 10 % slower for a sixth more of processor
 * time. */
#define CHECKPOINT_PART_NARROW 4
#define WIDEN_PART 4 /* and it becomes wider when so much of it was not enough */

typedef struct room { /* only room.c writes to it */
    uint64_t grants; /* bytes that may be in the ring with what groups have agreed on, for what the disk has room for */
    uint64_t admits; /* .. and that publishers may hold there .. */
    uint64_t holds;  /* .. for what memory has room for, too */
    uint64_t most;   /* .. without what is kept for one more: then they wait */
    uint64_t resident; /* of the ring, in memory: all of it, but where the journal is larger than options.ring_max */
    uint64_t end;      /* store_room: while the open batch, with what is promised, ends before it */
    uint64_t largest;  /* message that room is kept for */
    uint64_t wanted;   /* what an append_group_t waits for, 0 = none */
    uint64_t largest_refused; /* the most that did not fit since it was last looked at */
    uint64_t trimmed;         /* position at which memory was given back */
    uint32_t narrowed;        /* at rest there is memory for this part of the ring; 1 = it is never narrow */
} room_t;

/* Publishers are refused, for lack of room or since writing fails; or would be, were what is in the ring in LMDB. */
bool store_refuses(const store_t *store);
bool store_tight(const store_t *store);

void room_open(store_t *store);
void room_take(store_t *store);    /* what the keeper knows of the disk */
void room_measure(store_t *store); /* for store_room, when the open batch or what there is room for changes */
/* The largest message that a batch can hold at all. */
uint64_t room_message_max(const store_t *store);
bool room_for(store_t *store, uint64_t need);
/* The same for what a group has agreed on. */
bool room_for_agreed(store_t *store, uint64_t need);
/* So much at most, whatever the ring has. */
uint64_t room_agreed_most(const store_t *store);
void room_want(store_t *store, uint64_t need); /* publishers leave so much */
void room_cramped(store_t *store, uint64_t need);
/* Did the last checkpoint's changes lie all over LMDB, as subjects and ids in any order do? */
bool room_is_spread(const store_t *store);
/* The journal thread has nothing in its hands just now. */
void room_widen(store_t *store);
/* So large a message does not fit into a narrow ring. false: it cannot be widened just now, but is soon. */
bool room_widen_for(store_t *store, uint64_t need);
void room_rest(store_t *store); /* gives the ring's memory back, and makes it narrow */
/* A checkpoint is there. */
void room_give_back(store_t *store);
/* Everything is in LMDB, and nothing is open. */
bool room_is_drained(const store_t *store);
/* Then. */
void room_trim(store_t *store);
bool room_trim_pays(const store_t *store);

#endif
