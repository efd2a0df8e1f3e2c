/* test_raft.c: one member of a group, and three of them, by hand (raft_rig.h). At rest: test_raft_rest.c.
 * Schedules by chance: test_raft_sim.c.
 */
#include "raft/raft.h"

#include "raft_rig.h"

static bool alter(raft_change_t change, uint32_t i) {
    uint32_t by = leader();
    bool done = raft_alter(&rig.raft[by], &outputs, change, disk_of(i));
    drain(by);
    return done;
}

static void a_lone_member(void) {
    start(1, 1);
    rig.held[0] = true;
    pass(4000 * MS);
    CHECK_EQ_U64(RAFT_CANDIDATE, rig.raft[0].role);
    rig.held[0] = false;
    settle();
    CHECK_EQ_U64(RAFT_LEADER, rig.raft[0].role);
    rig.held[0] = true;
    raft_index_t index = propose(0, 3);
    settle();
    CHECK(rig.committed[0] < index);
    rig.held[0] = false;
    settle();
    CHECK_EQ_U64(index + 2, rig.committed[0]);
}

static void three_agree(void) {
    lead_three();
    uint32_t by = leader(), other = (by + 1) % THREE, third = (by + 2) % THREE;
    rig.held[other] = rig.held[third] = true;
    raft_index_t index = propose(by, 5);
    settle();
    CHECK(rig.committed[by] < index);
    rig.held[other] = false;
    settle();
    CHECK_EQ_U64(index + 4, rig.committed[by]);
    rig.held[third] = false;
    settle();
    pass(400 * MS);
    for (uint32_t i = 0; i < THREE; i++) CHECK_EQ_U64(index + 4, rig.committed[i]);
}

static void cut_off_member_raises_no_term(void) {
    lead_three();
    uint32_t by = leader(), off = (by + 1) % THREE;
    raft_term_t term = rig.raft[by].term;
    rig.cut[off] = true;
    pass(60000 * MS);
    CHECK_EQ_U64(term, rig.raft[off].term);
    rig.cut[off] = false;
    pass(1000 * MS);
    CHECK_EQ_U64(by, leader());
    CHECK_EQ_U64(term, rig.raft[by].term);
}

static void leader_without_majority(void) {
    lead_three();
    uint32_t by = leader();
    CHECK(raft_leased(&rig.raft[by], rig.now));
    for (uint32_t i = 0; i < THREE; i++) rig.cut[i] = i != by;
    pass(1250 * MS);
    CHECK(!raft_leased(&rig.raft[by], rig.now));
    pass(4000 * MS);
    CHECK_EQ_U64(RAFT_LEADER, rig.raft[by].role); /* their answers may be late */
    CHECK(!raft_leased(&rig.raft[by], rig.now));
    pass(1500 * MS);
    CHECK_EQ_U64(RAFT_FOLLOWER, rig.raft[by].role);
}

static void another_is_elected(void) {
    lead_three();
    uint32_t by = leader();
    raft_index_t index = propose(by, 1);
    settle();
    rig.cut[by] = true;
    pass(6000 * MS);
    uint32_t next = leader();
    CHECK(next != by);
    raft_index_t more = propose(next, 1);
    CHECK(more > index);
    settle();
    CHECK_EQ_U64(more, rig.committed[next]);
    rig.cut[by] = false;
    pass(1000 * MS);
    CHECK_EQ_U64(RAFT_FOLLOWER, rig.raft[by].role);
    CHECK_EQ_U64(more, rig.committed[by]);
}

static void what_was_not_committed_is_cut_off(void) {
    lead_three();
    uint32_t by = leader();
    rig.cut[by] = true;
    raft_index_t lost = propose(by, 7);
    settle();
    pass(6000 * MS);
    uint32_t next = leader();
    (void)propose(next, 2);
    settle();
    rig.cut[by] = false;
    pass(1000 * MS);
    CHECK(rig.committed[next] >= lost);
    CHECK_EQ_U64(rig.raft[next].trail.last, rig.raft[by].trail.last);
    CHECK_EQ_U64(trail_last_term(&rig.raft[next].trail), trail_last_term(&rig.raft[by].trail));
    CHECK_EQ_U64(rig.committed[next], rig.committed[by]);
}

static bool asks_in_vain(uint32_t voter, uint32_t who) {
    raft_message_t vote = {.subject = RAFT_VOTE,
                           .from = disk_of(who),
                           .to = disk_of(voter),
                           .term = rig.raft[voter].term + 1,
                           .index = 1000,
                           .log_term = rig.raft[voter].term + 1};
    raft_term_t term = rig.raft[voter].term;
    raft_receive(&rig.raft[voter], &outputs, &vote, rig.now);
    bool silent = outputs.queued == 0;
    drain(voter);
    rig.bag_count = 0;
    return silent && rig.raft[voter].term == term;
}

static void no_vote_beside_a_leader(void) {
    lead_three();
    uint32_t by = leader(), voter = (by + 1) % THREE, other = (by + 2) % THREE;
    CHECK(asks_in_vain(voter, other));
    CHECK(asks_in_vain(by, other));
}

static void no_vote_after_a_start(void) {
    start(THREE, THREE);
    rig.now += 1400 * MS;
    CHECK(asks_in_vain(0, 1));
    rig.now += 200 * MS;
    CHECK(!asks_in_vain(0, 1));
}

static void members_change_one_at_a_time(void) {
    lead_three();
    rig.count = 4;
    raft_start_t begin = {.self = disk_of(3), .times = times, .seed = 99};
    raft_init(&rig.raft[3], &begin, rig.now);
    raft_index_t index = propose(leader(), 200);
    CHECK(alter(RAFT_LEARN, 3));
    CHECK(!alter(RAFT_REMOVE, 0));
    settle();
    CHECK(!alter(RAFT_LEARN, 3));
    CHECK_EQ_U64(index + 200, rig.committed[3]);
    CHECK(alter(RAFT_PROMOTE, 3));
    settle();
    CHECK_EQ_U64(4, raft_members(&rig.raft[3])->count);
    CHECK(raft_members(&rig.raft[3])->at[3].voter);
    uint32_t by = leader();
    CHECK(alter(RAFT_REMOVE, by));
    settle();
    pass(6000 * MS);
    CHECK(leader() != by);
    CHECK_EQ_U64(3, raft_members(&rig.raft[leader()])->count);
}

static void removed_leader_takes_nothing_more(void) {
    lead_three();
    uint32_t by = leader();
    raft_index_t index;
    CHECK(alter(RAFT_REMOVE, by));
    CHECK(raft_propose(&rig.raft[by], &outputs, 1, &index)); /* as long as that is not committed */
    drain(by);
    settle();
    CHECK_EQ_U64(index, rig.committed[by]);
    CHECK(!raft_propose(&rig.raft[by], &outputs, 1, &index));
}

static void no_change_before_the_own_term_has_committed(void) {
    lead_three();
    uint32_t by = leader(), next = (by + 1) % THREE;
    rig.cut[by] = true;
    for (uint32_t i = 0; i < 200 && rig.raft[next].role != RAFT_LEADER; i++) {
        pass(50 * MS);
        if (rig.raft[(by + 2) % THREE].role == RAFT_LEADER) next = (by + 2) % THREE;
    }
    CHECK_EQ_U64(RAFT_LEADER, rig.raft[next].role);
    raft_t young = rig.raft[next];
    young.commit = young.own_first - 1;
    CHECK(!raft_alter(&young, &outputs, RAFT_REMOVE, disk_of(by)));
    CHECK(raft_alter(&rig.raft[next], &outputs, RAFT_REMOVE, disk_of(by)));
    drain(next);
}

static void members_go_back_with_their_entry(void) {
    lead_three();
    uint32_t by = leader();
    rig.cut[by] = true;
    CHECK(raft_alter(&rig.raft[by], &outputs, RAFT_LEARN, disk_of(4)));
    drain(by);
    CHECK_EQ_U64(4, raft_members(&rig.raft[by])->count);
    rig.last_config = (raft_config_t){0};
    pass(6000 * MS);
    (void)propose(leader(), 3);
    settle();
    rig.cut[by] = false;
    pass(1000 * MS);
    CHECK_EQ_U64(3, raft_members(&rig.raft[by])->count);
}

static void lead_is_handed_over(void) {
    lead_three();
    uint32_t by = leader(), next = (by + 1) % THREE;
    raft_index_t index;
    CHECK(raft_transfer(&rig.raft[by], disk_of(next), rig.now));
    CHECK(!raft_propose(&rig.raft[by], &outputs, 1, &index));
    CHECK(!raft_transfer(&rig.raft[by], disk_of(next), rig.now));
    pass(100 * MS);
    CHECK_EQ_U64(next, leader());
    CHECK(!raft_leased(&rig.raft[by], rig.now));
}

/* The message may arrive when the leader has long given up: its successor then needs nobody's patience. */
static void no_lease_behind_a_handover(void) {
    lead_three();
    uint32_t by = leader(), next = (by + 1) % THREE;
    CHECK(raft_leased(&rig.raft[by], rig.now));
    rig.cut[next] = true;
    CHECK(raft_transfer(&rig.raft[by], disk_of(next), rig.now));
    pass(4000 * MS);
    CHECK_EQ_U64(by, leader());
    CHECK_EQ_U64(0, rig.raft[by].successor.peer);
    CHECK(!raft_leased(&rig.raft[by], rig.now));
}

static void window_is_kept(void) {
    lead_three();
    uint32_t by = leader();
    for (uint32_t i = 0; i < THREE; i++) rig.cut[i] = i != by;
    rig.entries_sent = 0;
    (void)propose(by, 3 * RAFT_WINDOW);
    drain(by);
    CHECK(rig.entries_sent <= 2 * (RAFT_WINDOW + RAFT_ENTRIES_MAX));
    for (uint32_t at = 0; at < rig.bag_count; at++) CHECK(rig.bag[at].count <= RAFT_ENTRIES_MAX);
}

/* A member that was cut off needs entries that its leader has dropped, and is back since a second. by: that leader. */
static uint32_t far_behind(uint32_t *by) {
    lead_three();
    *by = leader();
    uint32_t off = (*by + 1) % THREE;
    rig.cut[off] = true;
    (void)propose(*by, 50);
    settle();
    raft_compact(&rig.raft[*by], rig.committed[*by]);
    rig.cut[off] = false;
    pass(1000 * MS);
    return off;
}

static void far_behind_gets_a_copy(void) {
    uint32_t by, off = far_behind(&by);
    raft_term_t term = rig.raft[by].term;
    CHECK_EQ_U64(off + 1, rig.copy_for.peer);
    CHECK(raft_copied(&rig.raft[off], &outputs, rig.committed[by], term, raft_members(&rig.raft[by])));
    drain(off);
    (void)propose(by, 1);
    pass(500 * MS);
    CHECK_EQ_U64(rig.committed[by], rig.raft[off].commit);
}

static void late_copy_takes_nothing_away(void) {
    lead_three();
    uint32_t by = leader(), other = (by + 1) % THREE;
    (void)propose(by, 10);
    settle();
    raft_t member = rig.raft[other];
    raft_index_t last = member.trail.last;
    member.commit = 0;
    CHECK(!raft_copied(&member, &outputs, 1, rig.raft[by].term, raft_members(&member)));
    outputs = (raft_outputs_t){0};
    CHECK_EQ_U64(last, member.trail.last);
    CHECK_EQ_U64(1, member.commit);
}

static void copy_is_acknowledged_at_once(void) {
    uint32_t by, off = far_behind(&by);
    CHECK(raft_copied(&rig.raft[off], &outputs, rig.committed[by], rig.raft[by].term, raft_members(&rig.raft[by])));
    rig.held[off] = true;
    drain(off);
    settle();
    CHECK_EQ_U64(RAFT_COPYING, rig.raft[by].progress[off].pace);
    rig.held[off] = false;
    settle(); /* its copy is on the disk, and no time has passed */
    CHECK_EQ_U64(RAFT_FLOWING, rig.raft[by].progress[off].pace);
    CHECK_EQ_U64(rig.committed[by], rig.raft[by].progress[off].match);
}

/* A log of entries of old terms, which nobody else has: as many round trips as there are terms, not entries. */
static void other_terms_are_left_out_at_once(void) {
    lead_three();
    uint32_t by = leader(), off = (by + 1) % THREE;
    raft_term_t term = rig.raft[by].term;
    rig.cut[off] = true;
    CHECK(trail_append(&rig.raft[by].trail, 200, term + 1)); /* what a leader of a later term had given it */
    rig.raft[by].term = term + 1;
    rig.raft[by].role = RAFT_FOLLOWER;
    rig.raft[by].firm = rig.raft[by].trail.last;
    CHECK(trail_append(&rig.raft[off].trail, 200, term));
    rig.raft[off].firm = rig.raft[off].trail.last;
    for (uint32_t i = 0; i < 200 && rig.raft[by].role != RAFT_LEADER; i++) pass(50 * MS);
    CHECK_EQ_U64(by, leader());
    rig.cut[off] = false;
    rig.messages_sent = 0;
    pass(200 * MS);
    CHECK_EQ_U64(trail_last_term(&rig.raft[by].trail), trail_last_term(&rig.raft[off].trail));
    CHECK_EQ_U64(rig.committed[by], rig.raft[off].commit);
    CHECK(rig.messages_sent < 60);
}

/* Who probes tells of a commit behind entries that the member lacks: it hears of it again when it has them. */
static void commit_is_told_with_no_beat(void) {
    start(THREE, THREE);
    for (uint32_t i = 0; i < 200 && rig.raft[0].role != RAFT_CANDIDATE; i++) {
        rig.now += 50 * MS;
        raft_tick(&rig.raft[0], &outputs, rig.now);
        drain(0);
        settle();
        if (rig.raft[0].role == RAFT_LEADER) break;
    }
    CHECK_EQ_U64(RAFT_LEADER, rig.raft[0].role);
    for (uint32_t i = 0; i < THREE; i++) CHECK_EQ_U64(rig.raft[0].trail.last, rig.committed[i]);
}

static void disk_that_was_put_back(void) {
    lead_three();
    uint32_t by = leader(), back = (by + 1) % THREE;
    raft_start_t old = {.self = disk_of(back), .times = times, .seed = 5, .term = rig.raft[by].term};
    old.configs[0] = old.configs[1] = *raft_members(&rig.raft[by]);
    (void)propose(by, 20);
    settle();
    raft_init(&rig.raft[back], &old, rig.now);
    rig.written[back] = 0;
    (void)propose(by, 1);
    pass(1000 * MS);
    CHECK_EQ_U64(rig.committed[by], rig.raft[back].commit);
}

/* A refusal that was on its way beside the acknowledgement says nothing of the disk; one of what was sent behind it
 * does. */
static void late_refusal_is_no_loss(void) {
    lead_three();
    uint32_t by = leader(), other = (by + 1) % THREE;
    raft_index_t before = rig.raft[by].trail.last;
    const raft_progress_t *progress = &rig.raft[by].progress[other];
    raft_index_t last = propose(by, 20);
    int64_t sent = rig.now;
    raft_message_t taken = {.subject = RAFT_TAKEN,
                            .from = disk_of(other),
                            .to = disk_of(by),
                            .term = rig.raft[by].term,
                            .granted = true,
                            .index = last,
                            .stamp_ns = sent};
    raft_message_t refusal = taken;
    refusal.granted = false;
    refusal.refused = last;
    refusal.index = before;
    refusal.log_term = taken.term;
    refusal.stamp_ns = sent + 20 * MS;
    rig.now = sent + 50 * MS;
    raft_receive(&rig.raft[by], &outputs, &taken, rig.now);
    drain(by);
    CHECK_EQ_U64(last, progress->match);
    raft_receive(&rig.raft[by], &outputs, &refusal, rig.now);
    drain(by);
    CHECK_EQ_U64(last, progress->match);
    refusal.stamp_ns = sent + 60 * MS;
    rig.now = sent + 80 * MS;
    raft_receive(&rig.raft[by], &outputs, &refusal, rig.now);
    drain(by);
    CHECK_EQ_U64(0, progress->match);
}

static void liars_get_nowhere(void) {
    lead_three();
    uint32_t by = leader(), other = (by + 1) % THREE;
    raft_term_t term = rig.raft[by].term;
    raft_index_t commit = rig.raft[by].commit, last = rig.raft[by].trail.last;
    raft_message_t lies[] = {
        {.subject = RAFT_TAKEN, .from = {.peer = other + 1, .disk = 4}, .term = term, .granted = true, .index = last},
        {.subject = RAFT_TAKEN, .from = {.peer = 77, .disk = 4}, .term = term + 5},
        {.subject = RAFT_TAKEN, .from = disk_of(other), .term = term, .granted = true, .index = last + 1000},
        {.subject = RAFT_TAKEN, .from = disk_of(other), .term = UINT64_MAX, .granted = true, .index = last},
        {.subject = RAFT_TAKEN, .from = disk_of(other), .term = term, .granted = true, .index = UINT64_MAX},
        {.subject = RAFT_ENTRIES, .from = disk_of(other), .term = term, .count = 9, .entry_term = term},
        {.subject = RAFT_HANDOVER, .from = disk_of(other), .term = term + 9},
        {.subject = (raft_subject_t)99, .from = disk_of(other), .term = term},
        {.subject = RAFT_VOTED, .from = disk_of(other), .term = term, .granted = true},
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        lies[i].to = disk_of(by);
        raft_receive(&rig.raft[by], &outputs, &lies[i], rig.now);
        drain(by);
        CHECK_EQ_U64(RAFT_LEADER, rig.raft[by].role);
        CHECK_EQ_U64(term, rig.raft[by].term);
        CHECK_EQ_U64(commit, rig.raft[by].commit);
    }
}

static void trail_keeps_terms(void) {
    trail_t trail;
    raft_term_t term;
    trail_init(&trail, 10, 2);
    CHECK(trail_append(&trail, 5, 3));
    CHECK(trail_append(&trail, 5, 3));
    CHECK(trail_append(&trail, 4, 7));
    CHECK(trail_term(&trail, 10, &term) && term == 2);
    CHECK(trail_term(&trail, 20, &term) && term == 3);
    CHECK(trail_term(&trail, 21, &term) && term == 7);
    CHECK(!trail_term(&trail, 9, &term));
    CHECK(!trail_term(&trail, 25, &term));
    CHECK_EQ_U64(20, trail_run_end(&trail, 11));
    CHECK_EQ_U64(21, trail_conflict(&trail, 11, 24, 3));
    CHECK_EQ_U64(0, trail_conflict(&trail, 11, 20, 3));
    CHECK_EQ_U64(20, trail_before(&trail, 24, 6));
    CHECK_EQ_U64(10, trail_before(&trail, 24, 2));
    trail_compact(&trail, 15);
    CHECK(!trail_term(&trail, 14, &term));
    CHECK(trail_term(&trail, 16, &term) && term == 3);
    trail_cut(&trail, 18);
    CHECK_EQ_U64(18, trail.last);
    CHECK_EQ_U64(3, trail_last_term(&trail));
    trail_cut(&trail, 15);
    CHECK_EQ_U64(0, trail.count);
    for (uint64_t i = 0; i < TRAIL_RUNS_MAX; i++) CHECK(trail_append(&trail, 1, 10 + i));
    CHECK(!trail_append(&trail, 1, 10 + TRAIL_RUNS_MAX));
    CHECK(trail_append(&trail, 1, 9 + TRAIL_RUNS_MAX));
}

static void first_founder_asks_again(void) {
    start(THREE, THREE);
    const raft_config_t founders = rig.raft[0].configs[1];
    for (uint32_t i = 0; i < THREE; i++) {
        raft_start_t begin = {.self = disk_of(i), .times = times, .seed = 7, .fresh = true, .first = i == 0};
        begin.configs[0] = begin.configs[1] = founders;
        raft_init(&rig.raft[i], &begin, rig.now);
    }
    rig.cut[1] = rig.cut[2] = true;
    int64_t begun = rig.now, beat = times.beat_ns;
    const int64_t asks[] = {0, beat / 8, beat / 8 + beat / 4, beat / 8 + beat / 4 + beat / 2};
    for (uint32_t i = 0; i < sizeof asks / sizeof *asks + 1; i++) {
        CHECK_EQ_I64(begun + (i < 4 ? asks[i] : asks[3] + beat), rig.raft[0].due_ns);
        uint32_t sent = rig.messages_sent;
        rig.now = rig.raft[0].due_ns;
        raft_tick(&rig.raft[0], &outputs, rig.now);
        drain(0);
        CHECK(rig.messages_sent >= sent + 2);
        settle();
    }
    rig.cut[1] = false;
    pass(2 * beat);
    CHECK_EQ_U64(RAFT_LEADER, rig.raft[0].role);
}

static void member_is_small(void) {
    CHECK(sizeof(raft_t) <= 3072); /* hundreds of groups are one member of each */
}

int main(void) {
    RUN("a lone member leads and commits when its disk has it", a_lone_member);
    RUN("three commit what two have on the disk", three_agree);
    RUN("a member that is cut off raises no term", cut_off_member_raises_no_term);
    RUN("a leader without a majority has no lease, and then leads no more", leader_without_majority);
    RUN("when the leader goes another is elected, which has all that was committed", another_is_elected);
    RUN("what was not committed is cut off", what_was_not_committed_is_cut_off);
    RUN("who hears a leader grants no vote", no_vote_beside_a_leader);
    RUN("nor who has just started", no_vote_after_a_start);
    RUN("members change one at a time: learn, promote, remove, and the leader itself", members_change_one_at_a_time);
    RUN("a leader changes no members before its own term has committed", no_change_before_the_own_term_has_committed);
    RUN("members go back when the entry that changed them is cut off", members_go_back_with_their_entry);
    RUN("the lead is handed over", lead_is_handed_over);
    RUN("who has tried to hand over has no lease any more", no_lease_behind_a_handover);
    RUN("no more is sent than the window holds, in messages of bounded size", window_is_kept);
    RUN("who needs what the log has no longer gets a copy", far_behind_gets_a_copy);
    RUN("a copy that comes late takes nothing away", late_copy_takes_nothing_away);
    RUN("a copy is acknowledged when it is on the disk, with no beat between", copy_is_acknowledged_at_once);
    RUN("entries of other terms are left out a term at a time", other_terms_are_left_out_at_once);
    RUN("all hear of a new leader's first commit, with no beat between", commit_is_told_with_no_beat);
    RUN("a disk that was put back is filled again", disk_that_was_put_back);
    RUN("a refusal that comes late is no lost disk", late_refusal_is_no_loss);
    RUN("a leader whose removal is committed takes no more entries", removed_leader_takes_nothing_more);
    RUN("answers of strangers, impossible numbers and other lies change nothing", liars_get_nowhere);
    RUN("a trail keeps the terms of a log", trail_keeps_terms);
    RUN("the first founder asks again soon, while others have no group yet", first_founder_asks_again);
    RUN("a member is small", member_is_small);
    return TEST_RESULT();
}
