/* shown.c: see shown.h. */
#include "group/shown.h"

#include "base/abi_types.h"

_Static_assert(META_LEADER == RAFT_LEADER, "abi.h");

static meta_member_t shown_member(const group_member_t *member, moment_t now) {
    return (meta_member_t){.peer = member->member.id.peer,
                           .disk = member->member.id.disk,
                           .lag = member->lag,
                           .heard_ns = member->heard_ns == 0 ? -1 : now.mono_ns - member->heard_ns,
                           .voter = member->member.voter,
                           .copies = member->copies,
                           .trip_ns = member->trip_ns};
}

status_t group_shown(const groups_t *groups, const group_t *group, moment_t now, buffer_t *to) {
    group_look_t look = {0};
    groups_stats_t stats = groups_stats(groups);
    if (group != NULL) {
        look = group_look(group, now);
    }
    const meta_look_t shown = {.name = look.name,
                               .term = look.term,
                               .leader = look.leader.peer,
                               .voted = look.vote.peer,
                               .led_ts = look.led_wall_ns,
                               .last = look.last,
                               .last_term = look.last_term,
                               .committed = look.committed,
                               .applied = look.applied,
                               .floor = look.floor,
                               .bytes = look.bytes,
                               .frames_in = stats.frames_in,
                               .frames_out = stats.frames_out,
                               .bad = stats.bad,
                               .refused = stats.refused,
                               .election_ns = look.election_ns,
                               .role = look.role,
                               .state = look.state,
                               .leased = look.leased,
                               .members = look.count};
    status_t status = buffer_append(to, &shown, sizeof shown);
    for (uint32_t i = 0; status == STATUS_OK && i < look.count; i++) {
        const meta_member_t member = shown_member(&look.members[i], now);
        status = buffer_append(to, &member, sizeof member);
    }
    return status;
}
