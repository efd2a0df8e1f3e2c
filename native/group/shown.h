/* shown.h: a group as reports have it: meta_look_t and meta_member_t of abi.h. */
#ifndef LEAFD_GROUP_SHOWN_H
#define LEAFD_GROUP_SHOWN_H

#include "base/buffer.h"
#include "group/groups.h"

/* group NULL: there is none, and only what all groups together have is shown. */
LEAF_MUST_USE status_t group_shown(const groups_t *groups, const group_t *group, moment_t now, buffer_t *to);

#endif
