/* groups.h: all groups that this server is a member of, and the frames (raft/frame.h) by which they speak to those of
 * other servers. One frame a turn and server has the messages of all groups for it.
 *
 *     hooks.deliver(peer, frame) <-- one frame a server --+-- group (group.h)
 *     groups_receive(peer, frame) --> by its name --------+-- group
 *
 * - Which server sent a frame is for the network to say: one that names another sender is dropped and counted, as is
 *   one for another disk. A program that may write to the network between servers could do anything in their name.
 * - One beat a pair of servers stands for those of all groups at rest (pairs.c).
 * - Nothing waits for a way: a frame that cannot be delivered is lost, and raft says it again.
 * - A turn goes to the groups in which something happens, and to those that are due, at most each 10 ms; before a
 *   checkpoint to all of them.
 */
#ifndef LEAFD_GROUP_GROUPS_H
#define LEAFD_GROUP_GROUPS_H

#include "group/group.h"

typedef struct groups groups_t;

typedef struct groups_hooks {
    void *context;
    /* Returns whether a way to that server takes a frame now. */
    bool (*reaches)(void *context, uint64_t peer);
    /* The frame's bytes are valid until it returns. */
    void (*deliver)(void *context, uint64_t peer, bytes_t frame);
} groups_hooks_t;

typedef struct groups_stats {
    uint64_t groups;
    uint64_t frames_in;
    uint64_t frames_out;
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t bad;     /* frames that are damaged, of another sender than they say, or for another disk */
    uint64_t unknown; /* messages for groups that are not here */
    uint64_t refused; /* messages without a way, or without memory for their frame */
} groups_stats_t;

/* peer: this server's, not 0. STATUS_IO: the disk's id cannot be read. */
LEAF_MUST_USE status_t groups_open(store_t *store, uint64_t peer, groups_hooks_t hooks, groups_t **out);
/* Closes every group of it, too; before the store closes. */
void groups_close(groups_t *groups);
/* As group_make and group_open; store, peer, outputs and hooks.frame of the options are filled in here. STATUS_EXISTS:
 * a group of that name is open. It is closed with groups_leave alone. */
LEAF_MUST_USE status_t groups_make(groups_t *groups, group_options_t options, moment_t now, group_t **out);
LEAF_MUST_USE status_t groups_load(groups_t *groups, group_options_t options, moment_t now, group_t **out);
/* groups_load has said STATUS_CORRUPT of it: this disk becomes another one, as after any loss (marks.h). */
void groups_damaged(groups_t *groups, uint32_t number);
void groups_leave(groups_t *groups, group_t *group);
/* The same, and all that the disk has of it. STATUS_FULL: later; it goes on as it was. */
LEAF_MUST_USE status_t groups_remove(groups_t *groups, group_t *group);
/* As group_alone; STATUS_EXISTS: a group of that name is open. */
LEAF_MUST_USE status_t groups_alone(groups_t *groups, group_t *group, uint64_t name, moment_t now);
group_t *groups_named(const groups_t *groups, uint64_t name);
group_t *groups_next(const groups_t *groups, const group_t *before); /* NULL: the first, the end */

/* What the daemon's groups go by. */
extern const raft_times_t groups_times;

/* A frame that came from that server. */
void groups_receive(groups_t *groups, uint64_t peer, bytes_t frame, moment_t now);
/* There is no way to that server any more: its groups need another leader, perhaps. */
void groups_lost(groups_t *groups, uint64_t peer, moment_t now);
/* What was proposed to a group, or asked of it, is carried on by the next turn. */
void groups_stir(groups_t *groups, group_t *group);
/* Before each store_tick and once behind it. */
void groups_turn(groups_t *groups, moment_t now);
int64_t groups_deadline(const groups_t *groups);

raft_disk_t groups_self(const groups_t *groups);
groups_stats_t groups_stats(const groups_t *groups);

#endif
