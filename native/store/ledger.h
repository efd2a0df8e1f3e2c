/* ledger.h: ledgers: the logs that groups of servers agree on, as a store keeps them. A ledger is numbered entries, a
 * promise (term, vote, floor), and how far it is applied. All of it are operations of the open batch, so that an entry,
 * what it did, and the note that it was done are durable together or not at all. Knows no server and no message of
 * theirs (native/raft, native/group).
 *
 *     floor                 applied                last
 *       |  done, still there   |  to be applied      |      put: behind last; cut: back to an index, never below floor
 *     --+----------------------+---------------------+--
 *
 *     DB_LEDGER        KEY_LEDGER 1, group 4, index 8    term 8, kind 1, bytes
 *     RECORD_PROMISE   group 4                           term 8, vote 16, floor 8, term at the floor 8, disk 8,
 *                                                    name of the group 8, members
 *     RECORD_APPLIED   group 4                           index 8, what the owner notes with it
 *     RECORD_DISK                                        8 bytes by chance
 *
 * - The floor moves by an operation in the journal, behind that of what was applied: where the floor has passed an
 *   entry, its effects are. The keeper keeps entries back until its checkpoint ends and leaves out those that a later
 *   operation removes (disk/apply.h), so that few ever come to LMDB. Where the others lie in the batches is remembered,
 *   so reading one back is no look-up.
 * - A read has three outcomes. Between floor and last there is no "none": an entry that is not there, or is damaged, is
 *   READ_UNKNOWN. It is never cut off: it may have been acknowledged, and a member that forgets what it acknowledged
 *   takes part in a majority that has it no more.
 * - A disk that has lost something (a batch that nothing put right, an accepted loss, data.mdb made anew from what
 *   could be read) gets another id at that start. The promises on it are those of another disk from then on:
 *   ledger->foreign.
 * - All ledgers together take a quarter of the journal: store_ledger_fits. It is the only bound, and the journal never
 *   waits for a ledger.
 */
#ifndef LEAFD_STORE_LEDGER_H
#define LEAFD_STORE_LEDGER_H

#include "store/lazy.h"
#include "store/linger.h"
#include "store/positions.h"
#include "store/sharing.h"
#include "store/store.h"

#define LEDGER_PART 4          /* of the journal, for all ledgers */
#define LEDGER_MEMBERS_MAX 512 /* bytes */
#define LEDGER_NOTE_MAX 48u    /* likewise */
#define LEDGER_TERM_MAX (UINT64_MAX >> 8)

typedef struct ledger_entry {
    uint64_t index;
    uint64_t term;
    uint8_t kind;
    uint64_t position; /* what store_ledger_get gives: of the bytes, in the batches; they are valid until the next
                          store_tick, writes or no writes. 0: only LMDB has them */
    bytes_t bytes;
} ledger_entry_t;

typedef struct ledger_promise {
    uint64_t term;    /* at most LEDGER_TERM_MAX */
    uint8_t patience; /* of which term leaves room */
    uint64_t vote_peer;
    uint64_t vote_disk;
    uint64_t floor; /* entries up to there are gone */
    uint64_t floor_term;
    uint64_t disk;   /* on which it was made; store_ledger_make and store_ledger_promise fill it in */
    uint64_t name;   /* of the group, among all servers */
    bytes_t members; /* at the floor, as its owner writes them; valid as what store_record_get gives */
    bytes_t note;    /* store_ledger_begin's alone: what is written with how far it is applied */
} ledger_promise_t;

typedef struct ledger { /* only ledger.c writes to it */
    store_t *store;
    uint32_t group;
    bool foreign; /* the promise is that of another disk */
    bool written; /* in this run */
    bool touched; /* how far it is applied goes into the open batch */
    bool led;     /* its entries are this server's own proposals */
    bool stopped; /* its numbers contradict each other: nothing is written any more */
    uint64_t floor;
    uint64_t applied;
    uint64_t last;
    uint64_t bytes;    /* of its entries */
    positions_t young; /* of its entries, where the batches still have them */
    uint32_t note_size;
    uint8_t note[LEDGER_NOTE_MAX];
    /* As it is on the disk or on its way there: what is to be changed of it need not be read again, which can fail. */
    ledger_promise_t promise;
    uint8_t members[LEDGER_MEMBERS_MAX]; /* the promise's */
} ledger_t;

/* A batch with operations on ledgers. */
typedef struct ledger_mark {
    uint64_t number; /* 0: none */
    uint64_t end;
} ledger_mark_t;

typedef struct ledgers { /* only ledger.c writes to it */
    ledger_t **at;
    uint64_t count;
    uint64_t room;
    ledger_t **touched;
    uint64_t touched_count;
    uint64_t touched_room;
    uint64_t bytes; /* of the entries of all */
    uint64_t led;   /* of those in ledgers that are led */
    uint64_t rooms; /* of the positions of all */
    uint64_t disk;  /* 0: not known yet */
    /* with a sync interval: batches that are in the journal and wait for its sync */
    ledger_mark_t oldest;
    ledger_mark_t newest;
    uint64_t synced;
    sharing_t sharing;
} ledgers_t;

/* Opens the ledger of a group; each entry behind the floor is shown, in order. *out NULL: there is none.
 * STATUS_AGAIN: LMDB had no room for what the journal has, later. Any other: it cannot be read, and the group must not
 * start. STATUS_IN_USE: it is open. Needs store_options.ledgers. Lives until store_ledger_remove or store_close. */
typedef status_t (*ledger_visit_t)(void *context, const ledger_entry_t *entry);
LEAF_MUST_USE status_t store_ledger_open(store_t *store, uint32_t group, ledger_visit_t visit, void *context,
                                         ledger_t **out);
/* Do its numbers fit together? Where they do not as a batch closes, an alarm says so, and there is room for nothing of
 * it from then on: it takes no entries, carries none out and promises nothing. */
bool ledger_sound(const ledger_t *ledger);
bool ledgers_sound(const store_t *store); /* all of them, and the sums over them: for store_sound */
/* One that nothing was written to since: it may be opened again. */
void store_ledger_close(ledger_t *ledger);
/* A new one, whose promise is this. With a floor, what is there is the state after it, and the log begins behind it.
 * STATUS_EXISTS; STATUS_FULL: no room, later. */
LEAF_MUST_USE status_t store_ledger_begin(store_t *store, uint32_t group, const ledger_promise_t *promise,
                                          ledger_t **out);
/* A new one, with nothing below its first entry. */
LEAF_MUST_USE static inline status_t store_ledger_make(store_t *store, uint32_t group, uint64_t name, bytes_t members,
                                                       ledger_t **out) {
    const ledger_promise_t promise = {.name = name, .members = members};
    return store_ledger_begin(store, group, &promise, out);
}
/* Of all groups that this store has a promise of, those behind `after`. false from visit ends it. */
LEAF_MUST_USE list_outcome_t store_ledger_each(store_t *store, bool (*visit)(void *context, uint32_t group),
                                               void *context);
/* READ_UNKNOWN: neither may it vote nor may it be taken for a new one. */
read_outcome_t store_ledger_promised(ledger_t *ledger, ledger_promise_t *promise);
/* READ_NONE: below or at the floor, or behind the last one. Bytes valid until the next store_tick or, unless they
 * lie in the batches, the next write. */
read_outcome_t store_ledger_get(ledger_t *ledger, uint64_t index, ledger_entry_t *entry);
/* One that is read soon is sent for, where the batches have it: it was written a round trip ago. */
void store_ledger_soon(const ledger_t *ledger, uint64_t index);

/* Room in the open batch for a promise, a cut, a floor, and so many entries with so many bytes in all; and for these in
 * the budget, which entries without bytes do not ask for: an election needs one. After a yes none of the following says
 * STATUS_FULL. */
bool store_ledger_fits(ledger_t *ledger, uint64_t entries, uint64_t bytes);
/* The same, once those behind index have been cut. */
bool store_ledger_fits_behind(ledger_t *ledger, uint64_t index, uint64_t entries, uint64_t bytes);
/* What the owner leads takes no more than half of the budget, all such ledgers together. The other half is for what
 * others lead: two leaders of two groups that had filled each other's ledgers would wait for each other. */
void store_ledger_lead(ledger_t *ledger, bool led);
/* As store_ledger_fits, within that half. */
bool store_ledger_proposes(ledger_t *ledger, uint64_t entries, uint64_t bytes);
/* Do all ledgers together take more than half of what one leader may propose? */
bool store_ledger_pressed(const store_t *store);
/* The most bytes that an entry may have to find room as a proposal, ever. Does such a one? */
uint64_t store_ledger_most(const store_t *store);
static inline bool store_ledger_takes(const store_t *store, uint64_t bytes) {
    return bytes <= store_ledger_most(store);
}
/* The entry behind the last one. */
LEAF_MUST_USE status_t store_ledger_put(ledger_t *ledger, const ledger_entry_t *entry);
/* Removes the entries behind index, which is not below what is applied. */
LEAF_MUST_USE status_t store_ledger_cut(ledger_t *ledger, uint64_t index);
/* The term, the patience and the vote of it. */
LEAF_MUST_USE status_t store_ledger_promise(ledger_t *ledger, const ledger_promise_t *change);
/* Removes the entries up to index, which is applied; its term and members are kept in the promise. */
LEAF_MUST_USE status_t store_ledger_floor(ledger_t *ledger, uint64_t index, uint64_t term, bytes_t members);
/* The state is put anew as it was after begin's floor, in place of all entries: those are gone, and it is applied up to
 * there. `write` writes it into the open batch; false: it has no room, and wrote nothing. begin: floor, floor_term and
 * members, and a name, if the group has another one from then on, else 0. STATUS_FULL: later. */
LEAF_MUST_USE status_t store_ledger_reset(ledger_t *ledger, const ledger_promise_t *begin, bool (*write)(void *context),
                                          void *context);
/* Room in the open batch for how far it is applied: before the first effect of an entry. STATUS_FULL: later. */
LEAF_MUST_USE status_t store_ledger_touch(ledger_t *ledger);
/* Up to LEDGER_NOTE_MAX bytes that are written with how far it is applied. Behind store_ledger_touch, before the tick.
 */
void store_ledger_note(ledger_t *ledger, bytes_t note);
/* The effects of all up to index are in this batch or an earlier one. Behind store_ledger_touch, before the tick. */
void store_ledger_applied(ledger_t *ledger, uint64_t index);
/* Everything of it goes; the handle is dead after it. STATUS_FULL: later. */
LEAF_MUST_USE status_t store_ledger_remove(ledger_t *ledger);
/* The same of one that is not open, as when its promise is another disk's. STATUS_OK: there is nothing of it any more;
 * STATUS_FULL: later; any other: it cannot be read, and stays. */
LEAF_MUST_USE status_t store_ledger_forget(store_t *store, uint32_t group);
/* The ledger of the disk that this one was before it lost something is this one's, and can be opened. Only where no
 * other member counts on what that disk promised. STATUS_FULL, STATUS_AGAIN: later; any other: not all of it can be
 * read, and it stays another disk's. */
LEAF_MUST_USE status_t store_ledger_inherit(store_t *store, uint32_t group);

/* Does the next tick begin a checkpoint? What is done may be removed from the journal before. */
bool store_checkpoint_soon(const store_t *store, moment_t now);
/* What is done is wanted in LMDB, for a copy: the next checkpoint does not wait as long as usual. */
void store_checkpoint_want(store_t *store);
/* Every batch up to this number is on disk, whatever the sync interval is: what a member promises waits for this. */
uint64_t store_ledger_synced(const store_t *store);
/* The disk's id, never 0. false: it cannot be read. */
bool store_ledger_disk(store_t *store, uint64_t *disk);
/* The id goes with the open batch: from the next start on, all that was promised is another disk's. STATUS_FULL: later.
 */
LEAF_MUST_USE status_t store_ledger_disown(store_t *store);

#endif
