/* raft_pairs.h: what stands for the beats of groups at rest, as simulated members send and answer it (raft_world.h).
 * The group is one of many: those that are not simulated are named and answered as they should be.
 */
#ifndef LEAFD_TESTS_RAFT_PAIRS_H
#define LEAFD_TESTS_RAFT_PAIRS_H

#include "raft/rest.h"
#include "raft_world.h"

/* Of each member, by chance with this group among those that are named. */
static void send_pairs(sim_t *sim, node_t *node) {
    int64_t since_ns;
    const raft_config_t *members = raft_members(&node->raft);
    for (uint32_t i = 0; node->raft.role == RAFT_LEADER && i < members->count; i++) {
        bool named = raft_rests(&node->raft, i, &since_ns);
        parcel_t parcel = {.message = {.subject = RAFT_PAIR, .from = node->id, .to = members->at[i].id}};
        parcel.message.commit = named ? 1 : 0;
        parcel.message.log_term = named ? node->raft.term : 0;
        parcel.message.index = named ? node->raft.trail.last : 0;
        parcel.message.stamp_ns = clock_of(sim, node);
        if (!same_disk(members->at[i].id, node->id)) bag_put(sim, &parcel);
    }
}

static void deliver_pair(sim_t *sim, node_t *node, const raft_message_t *message) {
    raft_t *raft = &node->raft;
    if (!same_disk(message->to, node->id)) return;
    if (message->subject == RAFT_PAIRED) {
        if (raft->role == RAFT_LEADER && message->granted) {
            int64_t now_ns = clock_of(sim, node);
            (void)raft_confirm(raft, message->from, message->stamp_ns, now_ns + 800 * MS, now_ns);
        } else if (raft->role == RAFT_LEADER) {
            raft_disturb(raft, message->from, message->stamp_ns, clock_of(sim, node));
        }
        return;
    }
    parcel_t answer = {.message = *message};
    bool mine = raft_rests_under(raft, message->from);
    bool same =
        message->commit == 0 ? !mine : mine && message->log_term == raft->rest_term && message->index == raft->rest;
    if (mine && same) {
        raft_hear(raft, clock_of(sim, node));
        sim->heard++;
    } else if (mine) {
        raft_disturb(raft, message->from, 0, clock_of(sim, node));
    }
    answer.message.subject = RAFT_PAIRED;
    answer.message.granted = same;
    answer.message.from = node->id;
    answer.message.to = message->from;
    bag_put(sim, &answer);
}

#endif
