/* keeper.h: the store's two threads and what they share with the plane: positions in the byte ring of batch.h, nothing
 * else.
 *
 *     plane    sealed ------> journal thread    one write and one fdatasync for all that is sealed ------> durable
 *     plane    handed ------> keeper thread     applies batches to LMDB in one long write transaction; with a sync
 *                                               interval only those that are synced, which a checkpoint sees to
 *     plane    wanted ------> keeper thread     commits as soon as it has applied that far          ------>
 *                                                                                                   checkpointed
 *
 * Each position has one writer and only grows. eventfds wake. Both threads keep trying when the disk refuses: the bytes
 * they need stay in the ring until a checkpoint has committed, so nothing is lost by a refusal, and the plane is told
 * (trouble).
 */
#ifndef LEAFD_DISK_KEEPER_H
#define LEAFD_DISK_KEEPER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/histogram.h"
#include "disk/apply.h"
#include "disk/batch.h"
#include "disk/blocks.h"
#include "disk/env.h"
#include "disk/highwater.h"
#include "disk/holes.h"
#include "disk/journal.h"

typedef struct keeper {
    /* set before the threads start */
    const batches_t *batches; /* only its constant parts and sealed bytes are looked at */
    journal_t *journal;       /* NULL: memory store */
    const highwater_t *highwater;
    env_t *env;
    const char *directory; /* LMDB's */
    int64_t sync_interval_ns;
    histogram_t *took; /* NULL: nobody wants to know */
    uint64_t budget;   /* LMDB's pages in use may come to so much */
    uint64_t agreed;   /* what logs of groups may hold in the ring */
    int journal_fd;    /* eventfds */
    int keeper_fd;
    int plane_fd;
    /* plane --> threads */
    _Atomic uint64_t sealed;
    _Atomic uint64_t handed;
    _Atomic uint64_t wanted;
    _Atomic uint64_t freed; /* LMDB has everything before it */
    _Atomic bool stop_journal;
    _Atomic bool stop_keeper;
    /* threads --> plane */
    _Atomic bool signalled; /* plane_fd is readable, or the plane is about to look */
    _Atomic uint64_t durable;
    _Atomic uint64_t
        synced; /* of that: with a sync interval it may be less. LMDB never gets what a power cut may take */
    _Atomic uint64_t checkpointed;
    /* the journal thread reads memory from here on again; UINT64_MAX: only what it never wrote */
    _Atomic uint64_t rewriting;
    _Atomic int journal_trouble; /* status_t of the last try, STATUS_OK = fine */
    _Atomic int keeper_trouble;
    _Atomic uint64_t journal_bytes;
    _Atomic uint64_t journal_syncs;
    _Atomic uint64_t journal_rounds; /* a sign of life, whether its writes succeed or not */
    _Atomic uint64_t checkpoints;
    _Atomic uint64_t used_bytes;  /* of LMDB's file */
    _Atomic uint64_t free_bytes;  /* of those, at the last checkpoint; 0 while that matters to nobody */
    _Atomic uint64_t ahead_bytes; /* reserved behind them */
    _Atomic uint64_t disk_free;
    _Atomic uint64_t admits;  /* bytes that publishers may hold in the ring .. */
    _Atomic uint64_t grants;  /* .. and publishers with what groups have agreed on */
    _Atomic int short_by;     /* space_short_t: what bounds them */
    _Atomic bool parked;      /* LMDB has to be opened again: the keeper keeps out of it until the plane clears this */
    _Atomic bool sealed_anew; /* a change of key has come to its end, and nobody was told yet */
    _Atomic bool scattered;   /* the last checkpoint changed pages all over LMDB */
    _Atomic uint64_t pieces;  /* commits in the middle of a checkpoint: the plane has to renew its snapshot */
    /* journal thread's own */
    uint32_t chain;
    uint64_t number;          /* of the last batch */
    _Atomic uint64_t changed; /* env_changed, at the last batch */
    /* keeper thread's own */
    uint64_t applied;
    uint64_t applied_number;
    uint32_t applied_chain;
    uint64_t committed;
    uint64_t committed_number;
    uint32_t committed_chain;
    bool writing;
    struct sealing *sealing; /* a change of key to go on with, NULL: none */
    bool scarce;             /* the last try found no room: the next checkpoint is a drain */
    uint32_t piece;          /* of that */
    uint64_t removed;        /* likewise: its removals before this position are in LMDB */
    uint64_t put;            /* likewise: its puts */
    blocks_t blocks;         /* of LMDB's file */
    holes_t holes;           /* in it */
    bool disk_scarce;
    late_t late; /* of the open transaction */
    int64_t looked_at;
    int64_t gave_back_at;
    bool freed_pages; /* malloc has some since then */
    pthread_t journal_thread;
    pthread_t keeper_thread;
    bool journal_running;
    bool keeper_running;
} keeper_t;

/* The end of a row of batches: position and number of the next one, chain of the one before it. */
typedef struct keeper_mark {
    uint64_t position;
    uint64_t number;
    uint32_t chain;
} keeper_mark_t;
/* end: of what is durable. checkpoint: of that, what is in LMDB; the batches between are in the ring. */
LEAF_MUST_USE status_t keeper_open(keeper_t *keeper, keeper_mark_t checkpoint, keeper_mark_t end);
/* Lets the journal finish what is sealed and the keeper commit what is handed, then ends both. Gives up where the disk
 * refuses. */
void keeper_close(keeper_t *keeper);

#define RETRY_MS 200                     /* after a refusal by the disk */
void *keeper_journal_main(void *keeper); /* the journal thread, writer.c */
void keeper_wake_plane(keeper_t *keeper);
void keeper_took(const keeper_t *keeper, uint32_t which, int64_t since_ns); /* HISTOGRAM_SYNC or _COMMIT */
void keeper_heard(keeper_t *keeper); /* the plane, before it looks at what the threads say */
void keeper_seal(keeper_t *keeper, uint64_t position);
/* keeper_room.c, the keeper thread: publishers may not have as much of the ring as it has / how much room there is, and
 * what publishers may take of it; after a commit the free pages are counted, where that matters / a commit that changes
 * nothing, after which LMDB may use more of its free pages / a step of giving their blocks back to the file system,
 * outside a write transaction: returns ms until the next one, -1: nothing is to be done. */
bool keeper_is_bounded(const keeper_t *keeper);
void keeper_look(keeper_t *keeper, bool committed);
void keeper_age(keeper_t *keeper);
int keeper_digs(keeper_t *keeper);
/* The plane has opened LMDB again, or could not. */
void keeper_unpark(keeper_t *keeper);
void keeper_hand(keeper_t *keeper, uint64_t position, bool checkpoint);
/* The plane is done with the memory before position. false: the journal thread may be reading it just now; ask
 * again. */
bool keeper_free(keeper_t *keeper, uint64_t position);

/* Notes in LMDB how far it has come, and commits. */
LEAF_MUST_USE status_t keeper_commit(env_t *env, uint64_t position, uint64_t number, uint32_t chain);
/* Reads that note, which is there, inside a write transaction. */
LEAF_MUST_USE status_t keeper_noted(env_t *env, uint64_t *position, uint64_t *number, uint32_t *chain);

#endif
