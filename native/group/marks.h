/* marks.h: what servers remember of each other's disks, so that a disk that was put back from an older image of itself
 * is noticed: it has the same id, and has forgotten what it promised.
 *
 * A store numbers its batches and never goes back. Each server tells the others how many its disk has, and they
 * remember the most. One that starts asks before it speaks with a server in any group, and believes no frame of it
 * before. If anybody has heard of more than the disk has, the disk is another one from then on: it gives up its id,
 * and the daemon begins again, as after any loss (ledger.h).
 *
 *     frame without messages    sent_ns n         my disk has n batches        each 2 s in which there are more
 *                               sent_ns n | ASKS  .. and how many have you heard of?
 *                               sent_ns -1 - n    I have heard of n of your disk
 *
 * A disk that has damaged the log of a group leaves in the same way: what it has acknowledged there it cannot give any
 * more, so the group must not count on it.
 *
 * - Only what is synced is told, so that a disk which keeps what it syncs has never told too much.
 * - An older leafd takes such a frame for an empty one. A member without an answer goes on after a while.
 * - A member that is told too little finds that by itself: it is also found where a machine was put back with its
 *   memory.
 * - Not noticed: what was promised in the last 2 s, and a disk of which all others have heard nothing since they
 *   started.
 */
#ifndef LEAFD_GROUP_MARKS_H
#define LEAFD_GROUP_MARKS_H

#include "base/clock.h"
#include "raft/frame.h"
#include "store/store.h"

typedef struct mark {
    raft_disk_t id;
    uint64_t heard;   /* the most batches that it has told of */
    bool judged;      /* it has said what it has heard of us, or does not */
    bool owes;        /* it is to be told what we have heard of it */
    int64_t asked_ns; /* 0: not yet */
    int64_t first_ns; /* when it was asked first */
} mark_t;

typedef enum marks_stage { MARKS_WELL = 0, MARKS_LEAVES, MARKS_LEFT } marks_stage_t;

typedef struct marks { /* only marks.c writes to it */
    mark_t *at;
    uint64_t count;
    uint64_t room;
    uint64_t told;   /* batches */
    int64_t tell_ns; /* no sooner again */
    int64_t due_ns;  /* of what is to be asked or answered */
    marks_stage_t stage;
    uint64_t missed;  /* so many batches of this disk somebody has heard of */
    uint32_t damaged; /* or the log of this one is damaged */
    uint64_t batch;   /* the id is gone when that is on the disk */
} marks_t;

/* How they go out. */
typedef struct marks_way {
    void *context;
    bool (*reaches)(void *context, uint64_t peer);
    void (*deliver)(void *context, uint64_t peer, bytes_t frame);
    raft_disk_t self;
} marks_way_t;

void marks_free(marks_t *marks);
/* May groups speak with that server now, and be spoken to? It is asked first, and told from then on. */
bool marks_allow(marks_t *marks, raft_disk_t id);
/* There are new members, whom marks_allow names before marks_turn. */
void marks_stir(marks_t *marks);
/* A frame without messages. member: its disk is one of a group's here; no other can have heard of what this one has. */
void marks_hear(marks_t *marks, const store_t *store, const frame_t *frame, bool member);
/* The log of that group cannot be read, since it is damaged. */
void marks_damaged(marks_t *marks, uint32_t group);
/* When marks_turn has something to do, mono ns. */
int64_t marks_deadline(const marks_t *marks, const store_t *store);
/* What is to be asked, told and answered goes out; a disk that was put back leaves. */
void marks_turn(marks_t *marks, store_t *store, const marks_way_t *way, moment_t now);
/* This disk leaves: no group does anything. */
static inline bool marks_stop(const marks_t *marks) {
    return marks->stage != MARKS_WELL;
}

#endif
