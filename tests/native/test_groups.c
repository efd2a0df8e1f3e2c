/* test_groups.c: groups of several members, each on a store of its own, over a network of the test (groups_world.h):
 * what was answered is in all logs, once and in its order, whoever is killed, stopped or cut off. Power cuts:
 * test_groups_powercut.c;
 * copies of the state: test_groups_copies.c; many groups at rest: test_groups_pairs.c.
 *
 *     LEAFD_GROUPS_SEEDS=1000 LEAFD_GROUPS_SEED=7 build/dev/tests/native/test_groups
 */
#include "group/private.h"
#include "groups_acts.h"

static void one_log(void) {
    for (uint32_t nodes = 1; nodes <= 5; nodes += 2) {
        begin(nodes);
        propose_some(1500, 40);
        world_until(all_answered);
        CHECK_EQ_U64(1500, world.answered + world.lost);
        world_agree();
        world_end();
    }
}

/* While a majority cannot be reached, nothing is answered. Others have another leader soon, and the one before is none
 * after four times an election's time: until then the answers may only be late. */
static void no_majority(void) {
    begin(3);
    uint32_t leader = world_leader(0);
    cut_off(leader);
    for (uint32_t i = 0; i < 10; i++) {
        CHECK(world_propose(leader, 0, 8));
    }
    world_pass(1300 * NS_PER_MS);
    CHECK(!group_look(world.node[leader].group[0], world.now).leased);
    killed = leader;
    world_until(lead_elsewhere);
    CHECK(world_propose(leader, 0, 8));
    world_pass(5 * NS_PER_SECOND);
    CHECK_EQ_U64(0, world.answered);
    CHECK(!world_propose(leader, 0, 8));
    propose_some(20, 8);
    world_pass(NS_PER_SECOND);
    CHECK_EQ_U64(20, world.answered);
    world_agree();
    /* The eleven were cut from the log: 20 and the leaders' empty ones are all that there is. */
    CHECK_EQ_U64(20, rig_state(world.node[leader].stream[0]).messages);
    world_end();
}

/* An answer comes when a second disk has the entry, and not when it was sent there. */
static void not_before_two_disks(void) {
    begin(3);
    uint32_t leader = world_leader(0);
    world_pass(NS_PER_SECOND);
    for (uint32_t nth = 1; nth < 3; nth++) {
        world.node[others_of(leader, nth)].stands_ns = world.now.mono_ns + 800 * NS_PER_MS;
    }
    CHECK(world_propose(leader, 0, 8));
    world_pass(700 * NS_PER_MS);
    CHECK_EQ_U64(0, world.answered);
    CHECK_EQ_U64(0, rig_state(world.node[leader].stream[0]).messages);
    world_pass(500 * NS_PER_MS);
    CHECK_EQ_U64(1, world.answered);
    world_end();
}

static void leader_killed(void) {
    begin(3);
    for (int round = 0; round < 6; round++) {
        propose_some(50, 100);
        world_until(all_answered);
        killed = world_leader(0);
        node_kill(killed);
        int64_t before_ns = world.now.mono_ns;
        world_until(lead_elsewhere);
        CHECK(world.now.mono_ns - before_ns < 6 * NS_PER_SECOND);
        propose_some(50, 100);
        world_until(all_answered);
        node_start(killed);
        world_until(all_level);
    }
    CHECK_EQ_U64(600, world.answered + world.lost);
    world_agree();
    world_end();
}

static void all_killed(void) {
    begin(3);
    for (int round = 0; round < 6; round++) {
        propose_some(40, 100);
        world_until(all_answered);
        for (uint32_t at = 0; at < 3; at++) {
            node_kill(at);
        }
        world_pass(NS_PER_SECOND);
        for (uint32_t at = 0; at < 3; at++) {
            node_start((at + (uint32_t)round) % 3);
        }
        world_until(all_level);
    }
    CHECK_EQ_U64(240, world.answered + world.lost);
    world_agree();
    world_end();
}

/* What one lacks is kept for it, also by those who do not lead; and let go when it has it. */
static void kept_for_who_is_away(void) {
    begin(3);
    uint32_t leader = world_leader(0);
    uint32_t away = others_of(leader, 1);
    node_kill(away);
    propose_some(1000, 20);
    world_until(all_answered);
    world_pass(12 * NS_PER_SECOND); /* two checkpoints */
    for (uint32_t nth = 0; nth < 3; nth++) {
        const node_t *node = &world.node[others_of(leader, nth)];
        CHECK(!node->up || group_look(node->group[0], world.now).floor <= 2);
    }
    /* Who has led dies, and the next one has what is needed. */
    node_kill(leader);
    node_start(away);
    world_until(all_level);
    node_start(leader);
    world_until(all_level);
    world_pass(12 * NS_PER_SECOND);
    for (uint32_t at = 0; at < 3; at++) {
        group_look_t look = group_look(world.node[at].group[0], world.now);
        CHECK_EQ_U64(look.last, look.floor);
    }
    world_agree();
    world_end();
}

/* More than one frame takes, and entries as large as the journal lets them be. */
static void large_entries(void) {
    begin(3);
    world_pass(NS_PER_SECOND);
    uint32_t leader = world_leader(0);
    killed = others_of(leader, 1);
    node_kill(killed);
    propose_some(3, 40000);
    world_until(all_answered);
    node_start(killed);
    world_until(all_level);
    propose_some(200, 9000);
    world_until(all_answered);
    propose_some(30, 60000);
    world_until(all_answered);
    world_agree();
    world_end();
}

/* As much as its ledger may hold, of which nothing is committed. (A leader proposes half of it; the other half would be
 * that of others. Here it is as if all were.) */
static void fill(uint32_t at) {
    int64_t until_ns = world.now.mono_ns + NS_PER_SECOND;
    store_ledger_lead(world.node[at].group[0]->ledger, false);
    while (world.now.mono_ns < until_ns) {
        while (world_propose(at, 0, 4000) || world_propose(at, 0, 8)) {
        }
        world_step();
    }
    CHECK(world.tokens >= 60);
    CHECK_EQ_U64(0, world.answered);
}

/* Who led has a full log that no other has, and what the next leader says is to come in its place. */
static void full_log_gives_way(void) {
    begin(3);
    killed = world_leader(0);
    cut_off(killed);
    fill(killed);
    world_until(lead_elsewhere);
    propose_some(20, 8);
    memset(world.cut, 0, sizeof world.cut);
    world_until(all_level);
    CHECK_EQ_U64(20, world.answered);
    world_agree();
    world_end();
}

/* All have a full log and nobody has heard that all have it: the first word of the next leader needs no room. */
static void full_logs_are_committed(void) {
    begin(3);
    killed = world_leader(0);
    for (uint32_t nth = 1; nth < 3; nth++) {
        world.cut[others_of(killed, nth)][killed] = true;
    }
    fill(killed);
    world_until(lead_elsewhere);
    memset(world.cut, 0, sizeof world.cut);
    world_until(all_level);
    CHECK_EQ_U64(0, world.answered);
    world_agree();
    uint64_t applied = 0;
    for (uint64_t token = 1; token <= world.tokens; token++) {
        applied += world.proposals[token].applied_at != 0;
    }
    CHECK(applied >= 60);
    world_end();
}

/* A leader whose disk lags needs what only the others have when it comes back: it counts among those it is kept for. */
static void kept_for_a_slow_leader(void) {
    begin(3);
    killed = world_leader(0);
    propose_some(10, 8);
    world_until(all_answered);
    world_pass(NS_PER_SECOND);
    world.node[killed].slow = 1000000;
    propose_some(400, 200);
    world_pass(NS_PER_SECOND);
    raft_index_t last = group_look(world.node[killed].group[0], world.now).last;
    node_kill(killed);
    world.node[killed].slow = 0;
    for (uint32_t nth = 1; nth < 3; nth++) {
        CHECK_EQ_U64(last, group_look(world.node[others_of(killed, nth)].group[0], world.now).last);
    }
    world_until(lead_elsewhere);
    node_start(killed);
    world_until(all_level);
    CHECK_EQ_U64(0, world.copies);
    world_agree();
    world_end();
}

/* How many frames a second there are for three seconds, while the leader has its lease all the time. */
static uint64_t frames_at_rest(void) {
    world_pass(2 * NS_PER_SECOND);
    uint64_t frames = world.frames;
    for (int i = 0; i < 600; i++) {
        world_step();
        CHECK(group_look(world.node[world_leader(0)].group[0], world.now).leased);
    }
    return (world.frames - frames) / 3;
}

static void beats_at_rest(void) {
    begin(3);
    world_until(all_level);
    CHECK(frames_at_rest() <= 8);    /* each 600 ms, two beats and their answers */
    world.late_ns = 600 * NS_PER_MS; /* .. but each 200 ms where answers are late, or the lease would end between */
    CHECK(frames_at_rest() >= 12);
    world_end();
}

static bool handed_over(void) {
    return world_leader(0) == killed;
}

static void hands_over(void) {
    begin(3);
    for (uint32_t round = 0; round < 6; round++) {
        propose_some(20, 8);
        uint32_t leader = world_leader(0);
        killed = others_of(leader, 1 + round % 2);
        CHECK(!group_transfer(world.node[killed].group[0], world.node[leader].id, world.now));
        CHECK(group_transfer(world.node[leader].group[0], world.node[killed].id, world.now));
        groups_stir(world.node[leader].groups, world.node[leader].group[0]);
        int64_t before_ns = world.now.mono_ns;
        world_until(handed_over);
        CHECK(world.now.mono_ns - before_ns < 500 * NS_PER_MS);
    }
    world_agree();
    world_end();
}

static void make_at_once(uint32_t at) {
    group_options_t options = world_options(at, 0);
    options.at_once = true;
    world.node[at].stream[0] = rig_stream(&world.node[at].rig, 1, rig_config());
    CHECK_EQ_I64(STATUS_OK, groups_make(world.node[at].groups, options, world.now, &world.node[at].group[0]));
}

/* The first founder leads as soon as another one is there, long before an election is due. Who starts again waits. */
static void founded_at_once(void) {
    world_begin(3, 0, 31);
    make_at_once(0);
    world_pass(NS_PER_SECOND);
    CHECK_EQ_I64(RAFT_ASKING, group_look(world.node[0].group[0], world.now).role);
    make_at_once(1);
    world_pass(500 * NS_PER_MS);
    CHECK(group_look(world.node[0].group[0], world.now).leased);
    make_at_once(2);
    world_pass(500 * NS_PER_MS);
    CHECK_EQ_U64(1, group_look(world.node[2].group[0], world.now).leader.peer);
    world.groups = 1;
    node_kill(0);
    node_start(0);
    world_pass(NS_PER_SECOND);
    CHECK(group_look(world.node[0].group[0], world.now).role != RAFT_LEADER);
    world_until(all_lead);
    propose_some(10, 8);
    world_agree();
    world_end();
}

/* A fourth and a fifth server come, the first leader goes; each is killed in between. */
static void members_change(void) {
    begin_with_others(5, 23);
    world_until(all_lead);
    propose_some(20, 30);
    for (uint32_t at = 3; at < 5; at++) {
        change_until(RAFT_LEARN, at);
        node_kill(at);
        node_start(at);
        change_until(RAFT_PROMOTE, at);
        propose_some(20, 30);
    }
    world_until(all_level);
    CHECK_EQ_U64(5, group_look(world.node[3].group[0], world.now).count);
    uint32_t first = world_leader(0);
    change_until(RAFT_REMOVE, first);
    killed = first;
    world_until(lead_elsewhere);
    propose_some(100, 30);
    for (uint32_t at = 0; at < 5; at++) {
        node_kill(at);
        node_start(at);
    }
    world_until(lead_elsewhere);
    uint64_t answered = world.answered;
    propose_some(10, 30);
    world_pass(NS_PER_SECOND);
    CHECK_EQ_U64(answered + 10, world.answered);
    CHECK_EQ_U64(4, group_look(world.node[world_leader(0)].group[0], world.now).count);
    /* Who was removed leads no more, and has at most what it had. */
    CHECK(!group_leads(world.node[first].group[0]));
    CHECK(rig_state(world.node[first].stream[0]).messages <= 160);
    world_end();
}

/* A frame is taken from the server that the network says it is from, when it is whole and for this disk. */
static void forged_frames(void) {
    uint8_t bytes[FRAME_HEAD + 2 * FRAME_MESSAGE_HEAD];
    frame_writer_t writer;
    begin(3);
    uint32_t leader = world_leader(0);
    node_t *node = &world.node[leader];
    raft_term_t term = group_look(node->group[0], world.now).term;
    raft_disk_t other = world.node[others_of(leader, 1)].id;
    raft_disk_t stranger = {.peer = other.peer, .disk = other.disk + 1};
    const struct {
        raft_disk_t from;
        raft_disk_t to;
        uint64_t sent_by;
        uint64_t group;
        uint64_t bad;
        uint64_t unknown;
    } cases[] = {
        {other, node->id, other.peer, 500, 0, 0},
        {other, node->id, other.peer, 501, 0, 1},
        {other, node->id, node->id.peer, 500, 1, 0},
        {other, {.peer = node->id.peer, .disk = node->id.disk + 1}, other.peer, 500, 1, 0},
        {other, other, other.peer, 500, 1, 0},
        {stranger, node->id, other.peer, 500, 0, 0}, /* no member: its word does not count */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const raft_message_t answer = {.subject = RAFT_TAKEN, .term = term, .granted = true, .index = 1000000};
        groups_stats_t before = groups_stats(node->groups);
        frame_begin(&writer, bytes, sizeof bytes, cases[i].from, cases[i].to, 0);
        CHECK(frame_put(&writer, cases[i].group, &answer));
        uint32_t size = frame_end(&writer);
        groups_receive(node->groups, cases[i].sent_by, bytes_of(bytes, size), world.now);
        groups_stats_t after = groups_stats(node->groups);
        CHECK_EQ_U64(cases[i].bad, after.bad - before.bad);
        CHECK_EQ_U64(cases[i].unknown, after.unknown - before.unknown);
        for (uint32_t at = 0; at < size; at++) {
            bytes[at] ^= 1;
            groups_receive(node->groups, cases[i].sent_by, bytes_of(bytes, size), world.now);
            bytes[at] ^= 1;
        }
        CHECK_EQ_U64(size + after.bad, groups_stats(node->groups).bad);
    }
    propose_some(10, 8);
    world_until(all_answered);
    world_agree();
    world_end();
}

/* ---- by chance --------------------------------------------------------------------------------------------------- */

static uint32_t below(uint32_t n) {
    return random_below(&world.random, n);
}

static void harm(void) {
    uint32_t at = below(world.nodes);
    node_t *node = &world.node[at];
    switch (below(13)) {
    case 0:
    case 1:
        if (node->up) {
            node_kill(at);
        }
        break;
    case 2: node->stands_ns = world.now.mono_ns + below(4000) * NS_PER_MS; break;
    case 3: world.cut[at][below(world.nodes)] = true; break;
    case 4: cut_off(at); break;
    case 5:
    case 6: memset(world.cut, 0, sizeof world.cut); break;
    case 7: world.loss = below(400); break;
    case 8: world.twice = below(300); break;
    case 9: world.late_ns = below(600) * NS_PER_MS; break;
    case 10: node->refuses = below(2) == 0; break;
    case 11: node->slow = below(2) == 0 ? 0 : below(60); break;
    default: world.loss = world.twice = 0; world.late_ns = 0;
    }
}

static void mend(void) {
    for (uint32_t at = 0; at < world.nodes; at++) {
        if (!world.node[at].up && below(3) == 0) {
            node_start(at);
        }
    }
}

static void live(uint64_t seed) {
    world_begin(seed % 3 == 0 ? 5 : 3, 1 + (uint32_t)seed % GROUPS_MAX, seed * 2654435761 + 1);
    world_until(all_lead);
    for (int round = 0; round < 30; round++) {
        harm();
        /* Sometimes long enough for an election. */
        for (uint32_t steps = below(below(3) == 0 ? 1200 : 120); steps > 0; steps--) {
            uint32_t group = below(world.groups);
            for (uint32_t count = below(4); count > 0; count--) {
                (void)world_propose(below(world.nodes), group, 8 + below(seed % 4 == 1 ? 3000 : 60));
            }
            world_step();
        }
        mend();
    }
    world_agree();
    world_end();
}

static void by_chance(void) {
    const char *seeds = getenv("LEAFD_GROUPS_SEEDS");
    const char *first = getenv("LEAFD_GROUPS_SEED");
    uint64_t seed = first != NULL ? strtoull(first, NULL, 10) : 1;
    uint64_t answered = 0;
    uint64_t copies = 0;
    for (uint64_t left = seeds != NULL ? strtoull(seeds, NULL, 10) : 6; left > 0; left--, seed++) {
        if (seeds != NULL) {
            printf("seed %llu: %llu answered before it\n", (unsigned long long)seed, (unsigned long long)answered);
            fflush(stdout);
        }
        live(seed);
        answered += world.answered;
        copies += world.copies;
    }
    if (seeds != NULL) {
        printf("%llu copies\n", (unsigned long long)copies);
    }
    CHECK(answered > 0);
}

/* ---- a member that lies ------------------------------------------------------------------------------------------ */

static uint64_t near(uint64_t number) {
    uint64_t others[] = {
        0, 1, number + 1, number, number > 3 ? number - 1 - below(3) : 0, number + below(600), UINT64_C(1) << 40};
    return others[below(sizeof others / sizeof *others)];
}

/* Right in form, and anything in content; mostly what a member could say now. */
static uint32_t write_lie(const node_t *node, const group_look_t *look, raft_disk_t liar, uint8_t *bytes,
                          uint32_t room) {
    frame_writer_t writer;
    uint8_t members[FRAME_MEMBERS_SIZE_MAX];
    raft_message_t lie = {.subject = (raft_subject_t)(1 + below(RAFT_PAIRED)),
                          .term = below(3) == 0 ? near(look->term) : look->term,
                          .index = near(look->last),
                          .log_term = near(look->term),
                          .entry_term = near(look->term),
                          .granted = below(2) == 0,
                          .handover = below(2) == 0,
                          .commit = near(look->committed),
                          .refused = near(look->last),
                          .stamp_ns = (int64_t)near((uint64_t)world.now.mono_ns)};
    frame_begin(&writer, bytes, room, liar, node->id, 0);
    bool of_pair = lie.subject == RAFT_PAIR || lie.subject == RAFT_PAIRED;
    CHECK(frame_put(&writer, of_pair ? below(3) : 500, &lie));
    bool copy = lie.subject == RAFT_STATE;
    for (uint32_t count = lie.subject == RAFT_ENTRIES || copy ? below(4) : 0; count > 0; count--) {
        raft_kind_t kind = copy && below(4) != 0 ? count == 2 ? RAFT_MEMBERS : RAFT_DATA : (raft_kind_t)below(3);
        raft_config_t config = world.founders;
        config.count = below(4);
        uint32_t size = kind == RAFT_MEMBERS ? frame_write_members(members, &config)
                        : kind == RAFT_DATA  ? below(100)
                                             : 0;
        CHECK(frame_put_entry(&writer, kind, bytes_of(members, size)));
    }
    return frame_end(&writer);
}

/* What a member of the group says may be wrong and end the group, but not the server. */
static void lies(void) {
    static uint8_t bytes[4096];
    for (uint64_t seed = 1; seed <= 12; seed++) {
        world_begin(3, 0, seed * 7919);
        for (uint32_t at = 0; at < 3; at++) {
            group_options_t options = world_options(at, 0);
            options.hooks.apply = nothing_to_apply;
            options.hooks.save = NULL;
            options.hooks.restore = nothing_to_apply;
            CHECK_EQ_I64(STATUS_OK, groups_make(world.node[at].groups, options, world.now, &world.node[at].group[0]));
        }
        world_pass(4 * NS_PER_SECOND);
        raft_disk_t liar = world.node[seed % 3].id;
        node_t *node = &world.node[(seed + 1) % 3];
        for (uint32_t i = 0; i < 4000; i++) {
            group_look_t look = group_look(node->group[0], world.now);
            uint32_t size = write_lie(node, &look, liar, bytes, sizeof bytes);
            groups_receive(node->groups, liar.peer, bytes_of(bytes, size), world.now);
            if (i % 8 == 0) {
                world_step();
            }
        }
        CHECK_EQ_U64(0, groups_stats(node->groups).bad);
        CHECK(groups_stats(node->groups).frames_in >= 4000);
        CHECK_EQ_U64(APPEND_STORED, rig_put(&node->rig, rig_stream(&node->rig, 9, rig_config()), "s", "t").verdict);
        world_end();
    }
}

int main(void) {
    RUN("what is proposed is in the logs of all, once and in order", one_log);
    RUN("without a majority nothing is answered, and the lead ends", no_majority);
    RUN("an answer waits for the disk of a majority", not_before_two_disks);
    RUN("a leader is killed, and what it had answered is there", leader_killed);
    RUN("all are killed, and what was answered is there", all_killed);
    RUN("what a member lacks is kept for it until it has it", kept_for_who_is_away);
    RUN("entries that no frame takes at once, and large ones", large_entries);
    RUN("a log that is full of what nobody else has gives way to that of the next leader", full_log_gives_way);
    RUN("logs that are full of what nobody knows to be committed are committed by the next leader",
        full_logs_are_committed);
    RUN("a group at rest beats less often, and keeps its lease", beats_at_rest);
    RUN("what a leader's own disk lacks is kept for it", kept_for_a_slow_leader);
    RUN("the lead is handed over at once", hands_over);
    RUN("a new group is led at once, and who starts again waits", founded_at_once);
    RUN("members come and go", members_change);
    RUN("frames of others than they say, for another disk, or damaged do nothing", forged_frames);
    RUN("what a lying member says ends no server", lies);
    RUN("kills, stops, cuts, loss, repetition and delay by chance: all logs are one", by_chance);
    return TEST_RESULT();
}
