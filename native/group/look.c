/* look.c: what others may know of a group: where it stands, who leads, how far each member is (see group.h). Nothing
 * here changes it. */
#include "group/group.h"

#include "group/private.h"
#include "store/room.h"

int64_t group_deadline(const group_t *group) {
    return group->raft.due_ns;
}

bool group_rests(const group_t *group) {
    return group->writing_count == 0 && group->held_count == 0
           && (group->half || group->ledger->applied == group->committed) && group->state == GROUP_RUNS;
}

uint64_t group_name(const group_t *group) {
    return group->ledger->promise.name;
}

uint64_t group_coming(const group_t *group) {
    return group->raft.trail.last - group->ledger->applied;
}

bool group_has_room(const group_t *group) {
    return !store_refuses(group->store) && !raft_lacks_room(&group->raft);
}

bool group_leads(const group_t *group) {
    return group->raft.role == RAFT_LEADER;
}

bool group_ready(const group_t *group) {
    return group_leads(group) && group->ledger->applied >= group->raft.own_first;
}

int64_t group_heard_ns(const group_t *group) {
    return group->raft.heard_ns;
}

bool group_newest(const group_t *group, moment_t now) {
    return group_ready(group) && raft_leased(&group->raft, now.mono_ns);
}

bool group_current(const group_t *group) {
    return group->raft.leader.peer != 0 && !group->half && group->told != 0 && group->ledger->applied >= group->told;
}

bytes_t group_noted(const group_t *group) {
    return bytes_of(group->ledger->note, group->ledger->note_size);
}

raft_disk_t group_leader(const group_t *group) {
    return group->raft.leader;
}

raft_index_t group_last(const group_t *group) {
    return group->raft.trail.last;
}

raft_index_t group_floor(const group_t *group) {
    return group->ledger->floor;
}

bool group_has_members(const group_t *group, raft_index_t index) {
    return group->members.index <= index;
}

uint32_t group_number(const group_t *group) {
    return group->ledger->group;
}

group_state_t group_state(const group_t *group) {
    return group->state;
}

raft_index_t group_applied(const group_t *group) {
    return group->ledger->applied;
}

bool group_quiet(const group_t *group) {
    return group->ledger->applied == group->ledger->last;
}

static group_member_t member_look(const group_t *group, uint32_t place) {
    const raft_t *raft = &group->raft;
    const raft_progress_t *progress = &raft->progress[place];
    group_member_t member = {.member = raft_members(raft)->at[place]};
    member.self = group_is_self(group, member.member.id);
    member.heard_ns = raft->role == RAFT_FOLLOWER && same_disk(member.member.id, raft->leader) ? raft->heard_ns : 0;
    if (raft->role == RAFT_LEADER && !member.self) {
        member.copies = progress->pace == RAFT_COPYING;
        member.heard_ns = progress->stamp_ns == INT64_MIN ? 0 : progress->heard_ns;
        member.lag = raft->trail.last - progress->match;
        member.trip_ns = progress->trip_ns;
    }
    return member;
}

group_look_t group_look(const group_t *group, moment_t now) {
    const raft_t *raft = &group->raft;
    group_look_t look = {.name = group_name(group),
                         .role = raft->role,
                         .state = group->state,
                         .term = raft->term,
                         .self = raft->self,
                         .leader = raft->leader,
                         .vote = raft->vote,
                         .led_wall_ns = group->led_wall_ns,
                         .last = raft->trail.last,
                         .last_term = trail_last_term(&raft->trail),
                         .committed = group->committed,
                         .applied = group->ledger->applied,
                         .floor = group->ledger->floor,
                         .bytes = group->ledger->bytes,
                         .election_ns = raft_election_ns(raft),
                         .leased = raft_leased(raft, now.mono_ns),
                         .count = raft_members(raft)->count};
    for (uint32_t i = 0; i < look.count; i++) {
        look.members[i] = member_look(group, i);
    }
    return look;
}
