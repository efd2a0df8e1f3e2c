/* survivor.c: a member whose group has lost its majority for good goes on alone.
 *
 *     settle   it hears nothing any more, and all of its log counts as committed: it may have been answered
 *     alone    when that is applied, the log begins anew behind it: under another name, with this disk as a lone member
 *
 * What the state is stays as it is: it is the state behind an entry that nobody has, so a server that is let in gets a
 * copy. Those of the old group that come back know the old name alone: nothing that they say is for this one. Both is
 * one operation of the open batch, so that a disk has the old group or the new one. Not here: whether that is to be
 * done.
 */
#include "base/check.h"
#include "group/private.h"

void group_settle(group_t *group) {
    group->committed = group->raft.trail.last;
    group->deaf = true;
}

static bool alone_written(void *context) {
    (void)context;
    return true;
}

status_t group_alone(group_t *group, uint64_t name, moment_t now) {
    raft_t *raft = &group->raft;
    uint8_t bytes[FRAME_MEMBERS_SIZE_MAX];
    raft_index_t index = group->ledger->last + 1;
    check(name != 0);
    if (group->half || index > RAFT_INDEX_MAX) {
        return STATUS_INVALID;
    }
    if (!group_quiet(group) || group->raft.role == RAFT_LEADER) {
        group_settle(group);
        return STATUS_AGAIN; /* one that leads hears no majority, and does not for long */
    }
    const raft_config_t self = {.index = index, .count = 1, .at = {{.id = raft->self, .voter = true}}};
    const ledger_promise_t begin = {.floor = index,
                                    .floor_term = trail_last_term(&raft->trail),
                                    .members = bytes_of(bytes, frame_write_members(bytes, &self)),
                                    .name = name};
    if (store_ledger_reset(group->ledger, &begin, alone_written, NULL) != STATUS_OK) {
        return STATUS_AGAIN;
    }
    group->members = self;
    group->committed = index;
    group->everybody = group->told = 0;
    group->held_count = 0;
    group->deaf = false;
    check(raft_copied(raft, group->out, index, begin.floor_term, &self));
    carry_out_all(group, now);
    return STATUS_OK;
}
