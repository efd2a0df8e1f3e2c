/* test_raft_rest.c: members of a group at rest (raft_rig.h), for which one message of the caller's stands in place of
 * beats: when it does, what it renews, and what ends that. Many groups: test_groups_pairs.c.
 */
#include "raft/rest.h"

#include "raft_rig.h"

#define REST_NS (600 * MS)

static bool by_pair(uint32_t by, uint32_t i, int64_t stamp_ns) {
    int64_t since_ns;
    raft_t *follower = &rig.raft[i];
    bool named = raft_rests(&rig.raft[by], i, &since_ns);
    bool mine = raft_rests_under(follower, disk_of(by));
    bool same = named == mine
                && (!mine || (follower->rest_term == rig.raft[by].term && follower->rest == rig.raft[by].trail.last));
    if (!same) {
        raft_disturb(follower, disk_of(by), stamp_ns, rig.now);
        raft_disturb(&rig.raft[by], disk_of(i), stamp_ns, rig.now);
    } else if (mine) {
        raft_hear(follower, rig.now);
        (void)raft_confirm(&rig.raft[by], disk_of(i), stamp_ns, rig.now + REST_NS + 200 * MS, rig.now);
    }
    return same && mine;
}

static uint32_t three_at_rest(void) {
    times.rest_ns = REST_NS;
    lead_three();
    times.rest_ns = 0;
    uint32_t by = leader();
    for (uint32_t i = 0; i < THREE; i++) CHECK(i == by || by_pair(by, i, rig.now));
    return by;
}

/* Ten seconds in which nothing is sent but by the caller, who loses no lease by that. */
static void rest_is_silent(void) {
    uint32_t by = three_at_rest(), sent = rig.messages_sent;
    for (uint32_t round = 0; round < 17; round++) {
        for (uint32_t i = 0; i < THREE; i++) CHECK(i == by || by_pair(by, i, rig.now));
        pass(REST_NS);
        CHECK(raft_leased(&rig.raft[by], rig.now));
    }
    CHECK_EQ_U64(sent, rig.messages_sent);
    CHECK_EQ_U64(by, leader());
    pass(2000 * MS); /* .. and without the caller it beats by itself again */
    CHECK(rig.messages_sent > sent);
    CHECK(raft_leased(&rig.raft[by], rig.now));
}

static void one_away_ends_it(void) {
    uint32_t by = three_at_rest(), away = (by + 1) % THREE, there = (by + 2) % THREE;
    rig.cut[away] = true;
    for (uint32_t round = 0; round < 5; round++) {
        (void)by_pair(by, there, rig.now);
        pass(REST_NS);
    }
    int64_t since_ns;
    CHECK(!raft_rests(&rig.raft[by], away, &since_ns)); /* as what it starts again, nobody knows */
    uint32_t sent = rig.messages_sent;
    for (uint32_t round = 0; round < 5; round++) {
        CHECK(by_pair(by, there, rig.now));
        pass(REST_NS);
    }
    CHECK(rig.messages_sent - sent >= 20); /* to the one that is away, each 200 ms */
    rig.cut[away] = false;
    pass(1000 * MS);
    CHECK_EQ_U64(by, leader());
    CHECK(by_pair(by, away, rig.now));
}

static void entry_ends_it(void) {
    uint32_t by = three_at_rest(), other = (by + 1) % THREE;
    int64_t since_ns;
    raft_index_t index = propose(by, 1);
    CHECK(!raft_rests(&rig.raft[by], other, &since_ns));
    settle();
    CHECK(!raft_rests_under(&rig.raft[other], disk_of(by)));
    CHECK_EQ_U64(index, rig.committed[by]);
    pass(1000 * MS);
    CHECK(by_pair(by, other, rig.now)); /* at rest again, with one more */
    CHECK_EQ_U64(index, rig.raft[other].rest);
}

/* An answer to what was sent before the member was named says nothing of this group. */
static void answer_is_for_what_it_named(void) {
    uint32_t by = three_at_rest(), other = (by + 1) % THREE;
    int64_t since_ns;
    (void)propose(by, 1);
    settle();
    for (uint32_t i = 0; i < THREE; i++) rig.cut[i] = i != by; /* the last that they have heard */
    int64_t heard_ns = rig.now;
    rig.raft[by].times.rest_ns = REST_NS;
    while (!raft_rests(&rig.raft[by], other, &since_ns) && rig.now < heard_ns + 1000 * MS) pass(50 * MS);
    CHECK(raft_rests(&rig.raft[by], other, &since_ns)); /* told so by what is lost */
    CHECK(since_ns > heard_ns);
    (void)raft_confirm(&rig.raft[by], disk_of(other), since_ns - 1, rig.now + REST_NS, rig.now);
    rig.now = heard_ns + times.lease_ns;
    CHECK(!raft_leased(&rig.raft[by], rig.now));
}

/* A follower that has voted for another leader is not named by what the one before sends, and renews no lease of it. */
static void follows_still(void) {
    uint32_t by = three_at_rest(), voter = (by + 1) % THREE, other = (by + 2) % THREE;
    raft_message_t vote = {.subject = RAFT_VOTE,
                           .from = disk_of(other),
                           .to = disk_of(voter),
                           .term = rig.raft[by].term + 1,
                           .index = rig.raft[by].trail.last,
                           .log_term = rig.raft[by].term,
                           .handover = true};
    raft_receive(&rig.raft[voter], &outputs, &vote, rig.now);
    drain(voter);
    CHECK_EQ_U64(other + 1, rig.raft[voter].vote.peer);
    CHECK(!raft_rests_under(&rig.raft[voter], disk_of(by)));
    CHECK(!by_pair(by, voter, rig.now));
}

/* It does not say what it has committed, so it has beats of its own for ever. */
static void earlier_version_never_rests(void) {
    uint32_t by = three_at_rest(), old = (by + 1) % THREE;
    int64_t since_ns;
    (void)propose(by, 1);
    drain(by);
    for (uint32_t round = 0; round < 40; round++) {
        rig.now += 50 * MS;
        for (uint32_t i = 0; i < rig.count; i++) {
            raft_tick(&rig.raft[i], &outputs, rig.now);
            drain(i);
        }
        for (uint32_t more = 0; more < 8; more++) {
            for (uint32_t i = 0; i < rig.bag_count; i++) {
                if (rig.bag[i].subject == RAFT_TAKEN && same_disk(rig.bag[i].from, disk_of(old))) rig.bag[i].commit = 0;
            }
            settle_once();
        }
        CHECK(!raft_rests(&rig.raft[by], old, &since_ns));
    }
    CHECK(raft_rests(&rig.raft[by], (by + 2) % THREE, &since_ns));
    CHECK(raft_leased(&rig.raft[by], rig.now));
}

/* Two seconds with pairs for every member. Those that are `tight` say so in all their answers, as their owners do. */
static void round_with_tight(uint32_t by, const bool tight[THREE]) {
    for (uint32_t round = 0; round < 40; round++) {
        rig.now += 50 * MS;
        for (uint32_t i = 0; i < rig.count; i++) {
            raft_tick(&rig.raft[i], &outputs, rig.now);
            drain(i);
            if (i != by && round % 12 == 0) (void)by_pair(by, i, rig.now);
        }
        for (uint32_t more = 0; more < 8; more++) {
            for (uint32_t i = 0; i < rig.bag_count; i++) {
                raft_message_t *message = &rig.bag[i];
                if (message->subject == RAFT_TAKEN) message->tight = tight[message->from.peer - 1];
            }
            settle_once();
        }
    }
}

/* Nobody else would tell its leader that it has room again: at rest no member says anything of its own. */
static void without_room_never_rests(void) {
    uint32_t by = three_at_rest(), one = (by + 1) % THREE, two = (by + 2) % THREE;
    bool tight[THREE] = {false};
    int64_t since_ns;
    tight[one] = true;
    (void)propose(by, 1);
    drain(by);
    round_with_tight(by, tight);
    CHECK(!raft_rests(&rig.raft[by], one, &since_ns));
    CHECK(raft_rests(&rig.raft[by], two, &since_ns));
    CHECK(!raft_lacks_room(&rig.raft[by])); /* it and the other one are a majority */
    tight[two] = true;
    (void)propose(by, 1);
    drain(by);
    round_with_tight(by, tight);
    CHECK(!raft_rests(&rig.raft[by], two, &since_ns));
    CHECK(raft_lacks_room(&rig.raft[by]));
    tight[two] = false;
    round_with_tight(by, tight);
    CHECK(!raft_lacks_room(&rig.raft[by]));
    CHECK(raft_rests(&rig.raft[by], two, &since_ns));
    CHECK_EQ_U64(by, leader());
}

int main(void) {
    RUN("at rest nothing is sent but by the caller, and the lease goes on", rest_is_silent);
    RUN("while one is away it has beats of its own", one_away_ends_it);
    RUN("an entry ends it, and it begins again behind", entry_ends_it);
    RUN("an answer renews no lease of a group that was not named when it was asked for", answer_is_for_what_it_named);
    RUN("who has voted for another leader is not named by the one before", follows_still);
    RUN("a member of an earlier version never rests", earlier_version_never_rests);
    RUN("a member without room never rests, and is heard when it has room again", without_room_never_rests);
    return TEST_RESULT();
}
