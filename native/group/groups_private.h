/* groups_private.h: all groups of a server, for the files of this room that speak of many of them at once: groups.c and
 * pairs.c.
 */
#ifndef LEAFD_GROUP_GROUPS_PRIVATE_H
#define LEAFD_GROUP_GROUPS_PRIVATE_H

#include "group/groups.h"
#include "group/marks.h"
#include "group/private.h"
#include "raft/rest.h"

/* Groups by the first bits of their names, which are by chance: what changes in one leaves the others' alone. */
#define SHELF_BITS 3u
#define SHELVES (1u << SHELF_BITS)

/* The frame that is being written for a server. */
typedef struct outgoing {
    uint64_t peer;
    raft_disk_t to;
    uint8_t *at;
    uint32_t room;
    frame_writer_t writer; /* at NULL: none is begun */
} outgoing_t;

typedef struct seat {
    group_t *group;
    uint64_t name;  /* the group's: looking for one of a thousand touches no group */
    int64_t due_ns; /* no deadline of the group's comes before: nor does a look for those that are due */
    bool awake;
} seat_t;

/* What the groups of a shelf at rest come to. */
typedef struct tally {
    uint64_t count;
    uint64_t sum; /* of a number for each, made of its name, term and last entry */
} tally_t;

/* Another server, to whose disk groups that are led here are at rest. */
typedef struct pair {
    raft_disk_t id;
    int64_t slow_ns; /* an answer took so long that beats are not spared until then */
    int64_t due_ns;
    tally_t shelves[SHELVES];
} pair_t;

struct groups {
    store_t *store;
    raft_disk_t self;
    groups_hooks_t hooks;
    raft_outputs_t outputs;
    moment_t now;
    int64_t due_ns;   /* of the first of them */
    bool stirred;     /* one is awake */
    uint64_t lingers; /* store_lingers, when all had a turn for that */
    seat_t *seats;    /* by name, ascending */
    uint64_t count;
    uint64_t room;
    outgoing_t *outgoing;
    uint64_t outgoing_count;
    uint64_t outgoing_room;
    uint64_t session; /* by chance, of this start; 0: there is no group yet */
    int64_t pairs_due_ns;
    pair_t *pairs;
    uint64_t pair_count;
    uint64_t pair_room;
    groups_stats_t stats;
    marks_t marks;
};

/* groups.c */
/* The first seat whose group's name is not below `name`. */
uint64_t seat_at(const groups_t *groups, uint64_t name);
/* groups_hooks.frame of each group. */
frame_writer_t *groups_frame(void *context, raft_disk_t to, uint32_t need);
/* Its deadline may be nearer now. */
void groups_due(groups_t *groups, seat_t *seat);

/* pairs.c */
/* Behind the turns of groups, whose own messages come first in their frames. */
void pairs_turn(groups_t *groups, moment_t now);
/* RAFT_PAIR, RAFT_PAIRED. */
void pairs_receive(groups_t *groups, const frame_message_t *received, moment_t now);

#endif
