/* recover.h: what a start shares between its files: open.c goes through the steps, recover.c decides about a journal
 * that is not as LMDB expects it. Nobody outside native/recovery includes this.
 */
#ifndef LEAFD_RECOVERY_RECOVER_H
#define LEAFD_RECOVERY_RECOVER_H

#include "store/core.h"

/* of a store's first batch: a multiple of every alignment; 0 means "none" in places */
#define RECOVER_FIRST_POSITION UINT64_C(65536)

/* Record META "journal": how the journal was used last. */
typedef enum journal_use {
    USE_UNKNOWN = 0,      /* no record: an older leafd's store, or one whose journal never came to be */
    USE_SYNCED = 1,       /* in use, since `use_position` every batch on disk before it is acknowledged */
    USE_AT_INTERVALS = 2, /* in use, with a sync interval */
    USE_CLOSED = 3,       /* closed in order: LMDB has everything before `use_position` */
} journal_use_t;

/* The damage found in the journal's tail. */
typedef struct damage {
    bool seen;
    uint64_t position; /* of the first batch that was */
    uint64_t number;
    uint64_t lost; /* batches */
    uint64_t repaired;
    const char *what; /* NULL: batches were damaged */
} damage_t;

typedef struct opening {
    store_t *store;
    char *reason;
    size_t reason_size;
    uint8_t store_id[STORE_ID_SIZE];
    /* LMDB's note: what was applied; replay moves them on */
    uint64_t position;
    uint64_t number;
    uint32_t chain;
    bool writing; /* replay's write transaction is open */
    damage_t damage;
    journal_use_t use;
    uint64_t use_position;
    bool accepted;             /* the operator's word that a loss is accepted, see recover.c */
    bool unfinished;           /* behind replay's end something was begun that is not whole */
    bool unclean;              /* there may be whole batches behind replay's end, which nobody was promised */
    bool distrusted;           /* the journal that is there is not this LMDB's: it is set aside */
    bool made;                 /* the journal, by this start */
    bool last;                 /* a try before this one met damage, so this one has tried to mend it */
    highwater_mark_t promised; /* what was noted to be on disk; position 0: nothing is known */
    /* the note as it was before replay; all that LMDB has, when it had no room for the rest (no_room) */
    keeper_mark_t checkpoint;
    bool no_room;
    struct rebuild *rebuild; /* NULL: batches are applied as they are; else replay counts anew (options.lossy) */
} opening_t;

#define STORE_PATH_MAX 4096
/* The path of a file in the store's directory. false: it is too long. */
bool store_path(const store_t *store, const char *name, char path[STORE_PATH_MAX]);
/* Writes the reason; returns status. */
status_t opening_fail(opening_t *opening, status_t status, const char *what, int error);

/* Inside a write transaction: something is lost that groups of servers may have been promised, so the disk is no longer
 * the one that promised it (store/ledger.h). */
LEAF_MUST_USE status_t recover_stranger(env_t *env);
/* Inside a write transaction. */
LEAF_MUST_USE status_t recover_use_read(env_t *env, journal_use_t *use, uint64_t *position);
/* A transaction of its own. */
LEAF_MUST_USE status_t recover_use_note(env_t *env, journal_use_t use, uint64_t position);

/* There is a file of LMDB's in directory, but power failed while it was made: LMDB writes both its first pages unsynced
 * and refuses a file that lacks one of them. Nothing was ever committed to it. */
bool recover_unfinished(const char *directory);
/* Before LMDB is opened: refuses one that is gone where its journal is left. */
LEAF_MUST_USE status_t recover_lmdb(opening_t *opening);
/* Reads what was noted to be on disk of the journal. One that cannot be read is said, and does not stop a start. */
void recover_promised(opening_t *opening);
/* LMDB has everything up to opening->position: notes that. */
void recover_promise(const opening_t *opening);
/* Opens the journal, makes it, or refuses. */
LEAF_MUST_USE status_t recover_journal(opening_t *opening);
/* After a replay that found damage: says so, and keeps the damaged file; the store goes on with a new one. */
LEAF_MUST_USE status_t recover_keep(opening_t *opening);
/* The journal of that size anew, over what is there: LMDB has everything. */
LEAF_MUST_USE status_t recover_remake(opening_t *opening, uint64_t size);
/* The same where larger messages are to find room than the journal was made for (max_payload was raised), if the disk
 * has room. */
LEAF_MUST_USE status_t recover_enlarge(opening_t *opening);
/* A refusal that the operator can lift; returns status. */
status_t recover_refuse(opening_t *opening, status_t status, const char *what);
/* The start has succeeded: an acceptance is used up. */
void recover_done(const opening_t *opening);

#endif
