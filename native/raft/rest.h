/* rest.h: a group at rest, in which all members have all there is and know that it is committed. One message of the
 * caller's may then stand for the beats of any number of groups to a member (native/group/pairs.c), as long as it names
 * exactly those whose beats said `rests` and in which nothing has changed since. What it does to each of them is what a
 * beat would do.
 *
 *     leader                                             follower
 *     ENTRIES, none, commit = last --------------------> has all, and has committed it
 *     committed = match = last <----------- TAKEN, commit
 *     ENTRIES, rests: named from here on (rest_ns) ----> rest, rest_term: named from here on
 *     raft_rests() .. the caller's message ............> raft_rests_under(), raft_hear()
 *     raft_confirm() <.................................. its answer
 *
 * Both sides leave off by themselves when anything changes: an entry, a term, who leads. A member of an earlier version
 * does not say what it has committed, and so never rests.
 */
#ifndef LEAFD_RAFT_REST_H
#define LEAFD_RAFT_REST_H

#include "raft/raft.h"

/* A leader's: does it name that member, by its place, and since when? */
bool raft_rests(const raft_t *raft, uint32_t place, int64_t *since_ns);
/* A follower's: does it name this one, as `rest` of `rest_term`, when that disk sends it? */
bool raft_rests_under(const raft_t *raft, raft_disk_t leader);
/* A follower is named by what its leader has sent. */
void raft_hear(raft_t *raft, int64_t now_ns);
/* A leader is answered by a member what it has sent at stamp_ns, as naming the same. While all others rest, too, no
 * beat of this group alone is due before until_ns. true: beats are due sooner, as the way has become a longer or a
 * shorter one: how long that took tells of it, and a group at rest has no other sign. */
bool raft_confirm(raft_t *raft, raft_disk_t member, int64_t stamp_ns, int64_t until_ns, int64_t now_ns);
/* It did not name the same: that follower, or that leader's member if it was named at stamp_ns, has beats of its own
 * again. */
void raft_disturb(raft_t *raft, raft_disk_t other, int64_t stamp_ns, int64_t now_ns);
/* The next moment for beats, which all groups of a server have in common: one frame has those of many. */
int64_t raft_next_beat(int64_t every_ns, int64_t now_ns);

#endif
