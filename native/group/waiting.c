/* waiting.c: requests that wait at a member for the fate of an entry that it has proposed (group.h): in the order of
 * the entries, each answered once, when it is applied or can no longer be.
 */
#include "base/array.h"
#include "group/private.h"

#define WAITING_MIN 16
#define WAITING_MAX 65536u

status_t waiting_reserve(group_t *group) {
    if (group->waiting_first > 0 && group->waiting_first * 2 >= group->waiting_count) {
        group->waiting_count -= group->waiting_first;
        memmove(group->waiting, group->waiting + group->waiting_first, group->waiting_count * sizeof *group->waiting);
        group->waiting_first = 0;
    }
    return group->waiting_count - group->waiting_first >= WAITING_MAX
               ? STATUS_FULL
               : array_reserve(&group->waiting, &group->waiting_room, group->waiting_count + 1, WAITING_MIN,
                               sizeof *group->waiting);
}

void answer_upto(group_t *group, raft_index_t index, bool applied) {
    while (group->waiting_first < group->waiting_count && group->waiting[group->waiting_first].index <= index) {
        group->hooks.answer(group->hooks.context, group->waiting[group->waiting_first++].token, applied);
    }
}

bool group_waits_for(const group_t *group, raft_index_t index) {
    return group->waiting_first < group->waiting_count && group->waiting[group->waiting_first].index == index;
}
