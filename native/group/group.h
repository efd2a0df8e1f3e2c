/* group.h: one member of one group on this server: what native/raft decides, carried out on a ledger of the store
 * (store/ledger.h), and committed entries applied in their order. Knows no bytes of entries and not how messages
 * travel; all groups of a server, and the frames to and from other servers: groups.h.
 *
 *     group_propose --> entry in the open batch --> on disk --> committed --> hooks.apply --> hooks.answer
 *          |            (raft APPEND)            (raft_persisted)  (COMMIT)     \__ one batch: its effects, and the
 *          '--> ENTRIES to each member, at once           ^                         note that it is applied
 *                                                         |
 *     group_receive --> entries in the open batch --> on disk --> TAKEN to the leader
 *
 * - The plane calls group_turn before each store_tick and once behind it. Nothing here waits, and nothing is called
 *   from anywhere else.
 * - Raft's writes cannot be refused. So before it is asked anything there is room in the open batch for all that one
 *   call can write, or it is asked later. A message that finds none is lost, as on a network; of its
 *   entries those are taken that the ledger has room for, so that what it says of older ones is heard, and the leader
 *   waits a beat with the rest. What the log has already needs no room, and what is cut makes some.
 * - A message that promises something is held until the batch with the promise is on the disk.
 * - Applying refuses nothing for a reason of its own, it waits. What an entry does and the note that it is applied are
 *   in one batch, so that a start goes on behind what is done: no entry is applied twice, or passed over.
 * - An answer needs no further write: the entry is on disk, and what it did is done again from there.
 * - The floor stays below what some member lacks: the leader says with its entries what all have. When all ledgers
 *   together take more than half of their budget it is not kept for a member that lacks what was there a second ago:
 *   that one has to have a copy of the state (copy.c). For one that is less slow, publishers wait. What a leader's
 *   floor has passed is kept by nobody, whichever member lacks it.
 * - What cannot be read is not passed over: the group stands still (GROUP_UNREADABLE) until it can be read. A member
 *   whose promise cannot be read, or is that of another disk, does not start: it votes for nobody.
 */
#ifndef LEAFD_GROUP_GROUP_H
#define LEAFD_GROUP_GROUP_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "raft/frame.h"
#include "raft/raft.h"
#include "store/ledger.h"

typedef struct group group_t;

typedef enum group_state {
    GROUP_RUNS = 0,
    GROUP_WAITS,      /* for room in the store */
    GROUP_UNREADABLE, /* for an entry that cannot be read just now */
} group_state_t;

/* Of another member, about a copy. */
typedef struct group_said {
    raft_disk_t from;
    bool of_leader;     /* of this member's; else this one leads */
    raft_index_t index; /* with the state of which it has to do, 0: of none .. */
    raft_term_t log_term;
    raft_config_t members; /* .. and the members there */
    bytes_t bytes;         /* valid until the hook returns */
} group_said_t;

typedef struct group_hooks {
    void *context;
    /* Does what an entry asks for, in the open batch. false: there is no room just now, and nothing was done. The bytes
     * are its own until it returns. */
    bool (*apply)(void *context, raft_index_t index, bytes_t bytes);
    /* The state that the entries applied so far have made, for a member whose log lacks some of them; both NULL: there
     * are no copies of it. save: false: not just now. restore: puts it in the place of the state that is there, in the
     * open batch; false: there is no room just now, and nothing was done. */
    bool (*save)(void *context, buffer_t *to);
    bool (*restore)(void *context, raft_index_t index, bytes_t state);
    /* In place of these two, where a state is larger than a frame: what a member that lacks entries and its leader say
     * to each other about a copy, as bytes of the owner's. copying: a leader's, that member needs one; each second
     * until it does not. heard: what group_say said there. Both NULL: nothing. */
    void (*copying)(void *context, raft_disk_t to, moment_t now);
    void (*heard)(void *context, const group_said_t *said, moment_t now);
    /* Behind a turn of the group in which its role, what is applied, whether it is current or a copy changed, or which
     * waits; NULL: nobody wants to know. Beats are no news. */
    void (*news)(void *context);
    /* What became of a proposal, in their order. applied false: this member leads no more, and it is not known whether
     * the entry will be committed. */
    void (*answer)(void *context, uint64_t token, bool applied);
    /* Where a message to that disk is to be written, with room for `need` bytes; NULL: it cannot be sent now. A group
     * that has this disk alone never asks. */
    frame_writer_t *(*frame)(void *frame_context, raft_disk_t to, uint32_t need);
    void *frame_context;
} group_hooks_t;

typedef struct group_options {
    store_t *store;
    uint32_t number; /* of the ledger; each is used once */
    uint64_t peer;   /* this server's, not 0 */
    raft_times_t times;
    uint64_t seed; /* not 0 */
    group_hooks_t hooks;
    raft_outputs_t *outputs; /* of one call at a time, so that all groups of a thread share it; empty */
    /* group_make alone: */
    uint64_t name; /* the same at all members */
    /* The first members, this disk among them; NULL: this disk alone. Of none, it waits until a leader lets it in. */
    const raft_config_t *founders;
    bool at_once; /* the first of them leads as soon as a majority is there, and not after an election's time */
    /* There is a state already, which is that of no log: it is taken for the one after a first entry that nobody has,
     * so that a member that joins gets a copy. note: of it (group_note). Of this disk alone. */
    bool grown;
    bytes_t note;
} group_options_t;

/* A member as it is now, for reports. */
typedef struct group_member {
    raft_member_t member;
    bool self;
    bool copies;      /* it lacks entries that are gone, and needs a copy */
    int64_t heard_ns; /* mono; a follower knows it of the leader alone; 0: not in this term */
    uint64_t lag;     /* entries that it is not known to have; at the leader alone */
    int64_t trip_ns;  /* likewise; 0: not known */
} group_member_t;

typedef struct group_look {
    uint64_t name;
    raft_role_t role;
    group_state_t state;
    raft_term_t term;
    raft_disk_t self;
    raft_disk_t leader; /* peer 0: none is known */
    raft_disk_t vote;   /* in this term; peer 0: nobody's */
    int64_t led_wall_ns;
    raft_index_t last;
    raft_term_t last_term;
    raft_index_t committed;
    raft_index_t applied;
    raft_index_t floor;
    uint64_t bytes; /* of the log's entries, in the journal's form */
    int64_t election_ns;
    bool leased; /* a leader beside which there is no other now */
    uint32_t count;
    group_member_t members[RAFT_MEMBERS_MAX];
} group_look_t;

/* A new group. STATUS_EXISTS; STATUS_FULL, STATUS_AGAIN: later; STATUS_INVALID: this disk is not among the founders. */
LEAF_MUST_USE status_t group_make(const group_options_t *options, moment_t now, group_t **out);
/* One that the store has. *out NULL: it has none; STATUS_AGAIN: later; STATUS_INVALID: its promise is that of another
 * disk; any other: it cannot be read. */
LEAF_MUST_USE status_t group_open(const group_options_t *options, moment_t now, group_t **out);
/* Before the store closes. Nobody is answered any more. */
void group_close(group_t *group);
/* Closes it, and all that the disk has of it goes. STATUS_FULL: later, and it goes on as it was. */
LEAF_MUST_USE status_t group_remove(group_t *group);

/* STATUS_OK: token is answered once. STATUS_AGAIN: it does not lead, or has no room: later. STATUS_INVALID: so many
 * bytes never find room. */
LEAF_MUST_USE status_t group_propose(group_t *group, bytes_t bytes, uint64_t token);
/* A message of a frame that was meant for this disk. What finds no room is taken away from it. */
void group_receive(group_t *group, frame_message_t *received, moment_t now);
/* One change of members at a time. false: it does not lead, another change is under way, the members do not allow it,
 * or there is no room just now. */
bool group_alter(group_t *group, raft_change_t change, raft_disk_t id, moment_t now);
/* Hands the lead over. false: it does not lead, or `to` is no other voter. */
bool group_transfer(group_t *group, raft_disk_t to, moment_t now);
void group_turn(group_t *group, moment_t now);
/* mono ns of what comes next by itself, INT64_MAX: nothing does. */
int64_t group_deadline(const group_t *group);
/* Until its deadline, or a message or a proposal, no turn of it does anything. */
bool group_rests(const group_t *group);

uint64_t group_name(const group_t *group);
/* Somebody here waits for what becomes of that entry, which is applied next. */
bool group_waits_for(const group_t *group, raft_index_t index);
uint64_t group_coming(const group_t *group); /* entries of its log that it has not applied yet */
bool group_leads(const group_t *group);
/* Have this server and a majority room to apply more? Else nothing is to be proposed that adds to the state: it would
 * be agreed on and wait, and what makes room would wait behind it. */
bool group_has_room(const group_t *group);
/* It leads, and has applied all that was in the log before: what it applied is the newest that any member may have. */
bool group_ready(const group_t *group);
int64_t group_heard_ns(const group_t *group); /* mono: when it last heard a leader, or was opened */
/* The same, and no other one leads by now: what it has applied is the newest there is. */
bool group_newest(const group_t *group, moment_t now);
/* A follower's: it has applied all that its leader had committed when it last said so. */
bool group_current(const group_t *group);
/* A few bytes (LEDGER_NOTE_MAX) that are on the disk with how far it is applied: for its owner, from within apply. */
void group_note(group_t *group, bytes_t note);
bytes_t group_noted(const group_t *group);
/* Before a note that does not come from within apply. STATUS_FULL: later. */
LEAF_MUST_USE status_t group_touch(group_t *group);
/* Copies (group_hooks.heard). index: 0, or of the state that it has to do with, which is in the log or its floor.
 * false: there is no way, or not so far: lost, as on a network. */
bool group_say(group_t *group, raft_disk_t to, raft_index_t index, bytes_t bytes);
/* A leader's log is kept from there on for that member, for ten seconds or until it has it. */
void group_hold(group_t *group, raft_disk_t to, raft_index_t index, moment_t now);
/* Its state is that of no index: it takes no more entries, and applies none, until there is a copy. */
void group_halve(group_t *group, bool half);
/* The state is the one after what was said, whose rest `write` puts into the open batch; the log begins anew behind it.
 * false: write refused, or the log leads there by itself. */
bool group_restore(group_t *group, const group_said_t *said, bool (*write)(void *context), void *context, moment_t now);
/* All of its log counts as committed: for a disk that goes on without the others, whose answers nobody has any more.
 * From then on it hears nothing; its group is to be removed when that is applied, or to go on alone. */
void group_settle(group_t *group);
/* It goes on without the others under that name, which is not 0, when its log is settled and applied. STATUS_AGAIN: not
 * yet, ask again behind a turn; STATUS_INVALID: it has half of a copy, which is the state of no moment. */
LEAF_MUST_USE status_t group_alone(group_t *group, uint64_t name, moment_t now);
/* The leader that it knows, peer 0: none. */
raft_disk_t group_leader(const group_t *group);
raft_index_t group_last(const group_t *group);
raft_index_t group_floor(const group_t *group);
/* Are the members of now those after index? */
bool group_has_members(const group_t *group, raft_index_t index);
/* The ledger's. */
uint32_t group_number(const group_t *group);
group_state_t group_state(const group_t *group);
raft_index_t group_applied(const group_t *group);
/* All that is in its log is committed and applied. */
bool group_quiet(const group_t *group);
group_look_t group_look(const group_t *group, moment_t now);

#endif
