/* group.h: one member of one group on this server: what native/raft decides, carried out on a ledger of the store
 * (store/ledger.h), and committed entries applied in their order. Knows no bytes of entries and not how messages
 * travel. Today a group has one member: it commits by itself, behind the same rules as many would.
 *
 *     group_propose --> entry in the open batch --> on disk --> committed --> hooks.apply --> hooks.answer
 *                       (raft APPEND)            (raft_persisted)  (COMMIT)     \__ one batch: its effects, and the
 *                                                                                   note that it is applied
 *
 * - The plane calls group_turn before each store_tick and once behind it. Nothing here waits, and nothing is called
 *   from anywhere else.
 * - Raft's writes cannot be refused. So before it is asked anything there is room in the open batch for all that one
 *   call can write, or it is asked later.
 * - Applying refuses nothing for a reason of its own, it waits. What an entry does and the note that it is applied are
 *   in one batch, so that a start goes on behind what is done: no entry is applied twice, or passed over.
 * - An answer needs no further write: the entry is on disk, and what it did is done again from there.
 * - What cannot be read is not passed over: the group stands still (GROUP_UNREADABLE) until it can be read. A member
 *   whose promise cannot be read, or is that of another disk, does not start: it votes for nobody.
 */
#ifndef LEAFD_GROUP_GROUP_H
#define LEAFD_GROUP_GROUP_H

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "raft/raft.h"
#include "store/ledger.h"

typedef struct group group_t;

typedef enum group_state {
    GROUP_RUNS = 0,
    GROUP_WAITS,      /* for room in the store */
    GROUP_UNREADABLE, /* for an entry that cannot be read just now */
} group_state_t;

typedef struct group_hooks {
    void *context;
    /* Does what an entry asks for, in the open batch. false: there is no room just now, and nothing was done. The bytes
     * are its own until it returns. */
    bool (*apply)(void *context, raft_index_t index, bytes_t bytes);
    /* What became of a proposal, in their order. applied false: this member leads no more, and it is not known whether
     * the entry will be committed. */
    void (*answer)(void *context, uint64_t token, bool applied);
} group_hooks_t;

typedef struct group_options {
    store_t *store;
    uint32_t number; /* of the ledger; each is used once */
    uint64_t peer;   /* this server's, not 0 */
    raft_times_t times;
    uint64_t seed; /* not 0 */
    group_hooks_t hooks;
} group_options_t;

/* A new group, this disk its only member. STATUS_EXISTS; STATUS_FULL, STATUS_AGAIN: later. */
LEAF_MUST_USE status_t group_make(const group_options_t *options, moment_t now, group_t **out);
/* One that the store has. STATUS_NOT_FOUND; STATUS_AGAIN: later; STATUS_INVALID: its promise is that of another disk;
 * any other: it cannot be read. */
LEAF_MUST_USE status_t group_open(const group_options_t *options, moment_t now, group_t **out);
/* Before the store closes. Nobody is answered any more. */
void group_close(group_t *group);

/* STATUS_OK: token is answered once. STATUS_AGAIN: it does not lead, or has no room: later. STATUS_INVALID: so many
 * bytes never find room. */
LEAF_MUST_USE status_t group_propose(group_t *group, bytes_t bytes, uint64_t token, moment_t now);
void group_turn(group_t *group, moment_t now);
/* mono ns of what comes next by itself, INT64_MAX: nothing does. */
int64_t group_deadline(const group_t *group);

bool group_leads(const group_t *group);
group_state_t group_state(const group_t *group);
raft_index_t group_applied(const group_t *group);
/* All that is in its log is committed and applied. */
bool group_quiet(const group_t *group);

#endif
