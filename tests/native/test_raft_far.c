/* test_raft_far.c: members whose messages need half a second and more one way: they elect one, which stays, serves and
 * has a lease, also when the way becomes long or short meanwhile. The network here delivers everything, in order and
 * late; disks write at once. What all schedules promise of patience: raft_sim.h.
 */
#include "raft/raft.h"

#include "base/random.h"
#include "raft/rest.h"
#include "raft_rig.h"
#include "test.h"

#define SPREAD UINT64_C(0x9E3779B97F4A7C15) /* members with seeds one behind the other would do the same by turns */
#define SECOND (1000 * MS)
#define STEP (10 * MS)
#define UNDER_WAY_MAX 65536u
#define MOST_MS 2000

static const raft_times_t far_times = {
    .election_ns = 1500 * MS, .lease_ns = 1200 * MS, .beat_ns = 200 * MS, .rest_ns = 600 * MS};

typedef struct letter {
    int64_t at_ns;
    raft_message_t message;
} letter_t;

typedef struct far {
    int64_t now;
    int64_t delay_ns;
    int64_t beyond_ns; /* .. and to or from the last member so much more, .. */
    int64_t stands_ns; /* .. or until then, if that is later: something was lost, and what is behind it waits */
    raft_t raft[THREE];
    bool gone[THREE];
    bool cut[THREE];   /* it lives, and nothing comes to it or from it */
    bool older[THREE]; /* its answers are those of a version that knows of no patience */
    bool pairs;        /* one beat stands for this group and many others where it rests */
    uint64_t beats;    /* of its own, .. */
    uint64_t beyond;   /* .. and those to the last member */
    uint64_t entries;  /* sent to any member */
    uint8_t kept[THREE];
    uint8_t asked; /* the most that was asked for of those */
    letter_t under_way[UNDER_WAY_MAX];
    uint64_t first, end; /* of them */
    raft_index_t proposed, committed;
    uint64_t random, seeds;
} far_t;

static far_t far;

static void far_begin(uint32_t i, bool first) {
    raft_config_t config = {.count = THREE};
    for (uint32_t j = 0; j < THREE; j++) config.at[j] = (raft_member_t){.id = disk_of(j), .voter = true};
    const raft_t *old = &far.raft[i];
    raft_start_t start = {.self = disk_of(i), .times = far_times, .seed = SPREAD * ++far.seeds, .fresh = first};
    start.configs[0] = start.configs[1] = config;
    start.first = first && i == 0;
    if (!first) {
        start.trail = old->trail;
        start.term = old->term;
        start.vote = old->vote;
        start.patience = far.kept[i];
    }
    raft_init(&far.raft[i], &start, far.now);
}

static void far_start(int64_t delay_ns, uint64_t seed) {
    memset(&far, 0, sizeof far);
    far.now = 1000 * SECOND;
    far.delay_ns = delay_ns;
    far.random = seed;
    far.seeds = seed * 1000;
    for (uint32_t i = 0; i < THREE; i++) far_begin(i, true);
}

static void far_send(const raft_message_t *message) {
    CHECK(far.end - far.first < UNDER_WAY_MAX);
    int64_t more_ns = (int64_t)random_below(&far.random, 100) * far.delay_ns / 1000;
    bool last = message->to.peer == THREE || message->from.peer == THREE;
    int64_t at_ns = far.now + far.delay_ns + more_ns + (last ? far.beyond_ns : 0);
    if (last && at_ns < far.stands_ns) at_ns = far.stands_ns;
    uint64_t at = far.end++;
    for (; far.beyond_ns != 0 && at > far.first && far.under_way[(at - 1) % UNDER_WAY_MAX].at_ns > at_ns; at--) {
        far.under_way[at % UNDER_WAY_MAX] = far.under_way[(at - 1) % UNDER_WAY_MAX];
    }
    far.under_way[at % UNDER_WAY_MAX] = (letter_t){.at_ns = at_ns, .message = *message};
}

static void far_drain(uint32_t i) {
    raft_output_t output;
    while (raft_next(&far.raft[i], &outputs, &output, far.now)) {
        if (output.action == RAFT_SAVE) far.kept[i] = output.patience;
        if (output.action == RAFT_COMMIT && output.upto > far.committed) far.committed = output.upto;
        if (output.action != RAFT_SEND) continue;
        uint32_t to = (uint32_t)output.message.to.peer - 1;
        if (far.older[i] && output.message.subject == RAFT_TAKEN) output.message.entry_term = 0;
        if (far.older[to] && output.message.patience > far.asked) far.asked = output.message.patience;
        far.beats += output.message.subject == RAFT_ENTRIES;
        far.entries += output.message.subject == RAFT_ENTRIES ? output.message.count : 0;
        far.beyond += output.message.subject == RAFT_ENTRIES && to == THREE - 1;
        far_send(&output.message);
    }
}

/* As native/group/pairs.c does it, for one group of many that change in nothing. */
static void far_pair(uint32_t to, const raft_message_t *message) {
    raft_t *raft = &far.raft[to];
    raft_message_t answer = *message;
    if (message->subject == RAFT_PAIRED) {
        if (message->granted) {
            (void)raft_confirm(raft, message->from, message->stamp_ns, far.now + far_times.rest_ns + far_times.beat_ns,
                               far.now);
        } else {
            raft_disturb(raft, message->from, message->stamp_ns, far.now);
        }
        return;
    }
    answer.subject = RAFT_PAIRED;
    answer.granted = raft_rests_under(raft, message->from);
    answer.from = message->to;
    answer.to = message->from;
    if (answer.granted) raft_hear(raft, far.now);
    far_send(&answer);
}

static void far_send_pairs(uint32_t i) {
    int64_t since_ns;
    for (uint32_t to = 0; to < THREE; to++) {
        if (!raft_rests(&far.raft[i], to, &since_ns)) continue;
        far_send(&(raft_message_t){.subject = RAFT_PAIR, .from = disk_of(i), .to = disk_of(to), .stamp_ns = far.now});
    }
}

static void far_deliver(void) {
    while (far.first < far.end && far.under_way[far.first % UNDER_WAY_MAX].at_ns <= far.now) {
        const raft_message_t message = far.under_way[far.first++ % UNDER_WAY_MAX].message;
        uint32_t to = (uint32_t)message.to.peer - 1;
        uint32_t from = (uint32_t)message.from.peer - 1;
        if (far.gone[to] || far.gone[from] || far.cut[to] || far.cut[from]) continue;
        if (message.subject == RAFT_PAIR || message.subject == RAFT_PAIRED) {
            far_pair(to, &message);
            continue;
        }
        raft_receive(&far.raft[to], &outputs, &message, far.now);
        far_drain(to);
    }
}

static const raft_t *far_leader(void) {
    const raft_t *found = NULL;
    for (uint32_t i = 0; i < THREE; i++) {
        const raft_t *raft = &far.raft[i];
        if (!far.gone[i] && raft->role == RAFT_LEADER && (found == NULL || raft->term > found->term)) found = raft;
    }
    return found;
}

static void far_step(void) {
    far.now += STEP;
    far_deliver();
    for (uint32_t i = 0; i < THREE; i++) {
        if (far.gone[i]) continue;
        if (far.pairs && far.now % far_times.rest_ns == 0) far_send_pairs(i);
        raft_tick(&far.raft[i], &outputs, far.now);
        far_drain(i);
        raft_persisted(&far.raft[i], &outputs, far.raft[i].write, far.now);
        far_drain(i);
    }
}

static void far_pass(int64_t ns) {
    for (int64_t end_ns = far.now + ns; far.now < end_ns;) far_step();
}

/* For so long one leads, always with a lease, and commits what is proposed to it each second. */
static void see_serving(int64_t ns) {
    const raft_t *one = far_leader();
    CHECK(one != NULL);
    raft_term_t term = one->term;
    raft_index_t index = 0, before = far.committed;
    for (int64_t end_ns = far.now + ns; far.now < end_ns;) {
        far_step();
        CHECK(far_leader() == one);
        CHECK_EQ_U64(term, one->term);
        CHECK(raft_leased(one, far.now));
        if (far.now % SECOND != 0) continue;
        CHECK(raft_propose(&far.raft[one->self.peer - 1], &outputs, 1, &index));
        far_drain((uint32_t)one->self.peer - 1);
    }
    CHECK(far.committed >= before + (raft_index_t)(ns / SECOND) / 2);
}

static void far_members_elect_one_that_stays(void) {
    static const int64_t delays_ms[] = {10, 200, 500, 1000, MOST_MS};
    for (uint32_t i = 0; i < sizeof delays_ms / sizeof *delays_ms; i++) {
        for (uint64_t seed = 1; seed <= 20; seed++) {
            far_start(delays_ms[i] * MS, seed);
            far_pass(60 * SECOND);
            see_serving(120 * SECOND);
        }
    }
}

static void the_way_becomes_long_and_short(void) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        far_start(MS, seed);
        far_pass(10 * SECOND);
        see_serving(10 * SECOND);
        far.delay_ns = MOST_MS * MS;
        far_pass(60 * SECOND);
        see_serving(60 * SECOND);
        far.delay_ns = MS;
        far_pass(30 * SECOND);
        CHECK_EQ_U64(0, far_leader()->patience);
        see_serving(10 * SECOND);
    }
}

/* A link that has been near, as a modem that loses its cell: whoever leads goes on, and has its lease again soon. */
static void a_leader_stays_when_the_way_jumps(void) {
    static const int64_t delays_ms[] = {1, 25, 300, 500, 800, 1000, 1500, MOST_MS};
    for (uint64_t seed = 1; seed <= 100; seed++) {
        far_start(25 * MS, seed);
        far.pairs = seed % 2 == 0;
        far_pass(20 * SECOND);
        const raft_t *one = far_leader();
        raft_term_t term = one->term;
        for (uint32_t turn = 0; turn < 20; turn++) {
            far.delay_ns = delays_ms[random_below(&far.random, sizeof delays_ms / sizeof *delays_ms)] * MS;
            int64_t then = far.now, for_ns = (1 + (int64_t)random_below(&far.random, 30)) * SECOND;
            while (far.now < then + for_ns) {
                far_step();
                CHECK(far_leader() == one);
                CHECK_EQ_U64(term, one->term);
                CHECK(raft_leased(one, far.now) || far.now < then + 10 * SECOND);
            }
        }
    }
}

/* Who has lost the others leads no longer than that, and they have another leader as soon as ever. */
static void a_leader_without_a_majority_is_one_no_longer(void) {
    for (uint64_t seed = 1; seed <= 50; seed++) {
        far_start(5 * MS, seed);
        far_pass(20 * SECOND);
        uint32_t one = (uint32_t)far_leader()->self.peer - 1;
        int64_t then = far.now;
        far.cut[one] = true;
        while (far.raft[one].role == RAFT_LEADER) {
            far_step();
            CHECK(far.now - then < 6500 * MS);
            CHECK(far.now - then < 1500 * MS || !raft_leased(&far.raft[one], far.now));
            CHECK(far.now - then < 5 * SECOND || far_leader() != &far.raft[one]);
        }
        CHECK(far.now - then >= 5500 * MS);
        far.cut[one] = false;
        far_pass(2 * SECOND);
        see_serving(10 * SECOND);
    }
}

/* Nothing is written there, and one beat stands for those of many groups: its answers tell how long the way is. */
static void a_group_at_rest_is_quick_again_when_the_way_is_short(void) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        far_start(MOST_MS * MS, seed);
        far.pairs = true;
        far_pass(120 * SECOND);
        CHECK_EQ_U64(RAFT_PATIENCE_MAX, far_leader()->patience);
        uint64_t before = far.beats;
        far_pass(60 * SECOND);
        CHECK(far.beats - before < 10); /* it rests */
        far.delay_ns = MS;
        far_pass(30 * SECOND);
        for (uint32_t i = 0; i < THREE; i++) CHECK_EQ_U64(0, far.raft[i].patience);
        before = far.beats;
        far_pass(60 * SECOND);
        CHECK(far.beats - before < 10);
        far.delay_ns = MOST_MS * MS;
        far_pass(60 * SECOND);
        CHECK_EQ_U64(RAFT_PATIENCE_MAX, far_leader()->patience);
        see_serving(60 * SECOND);
    }
}

static void far_fail(void) {
    uint32_t one = (uint32_t)far_leader()->self.peer - 1;
    far.gone[one] = true;
    for (uint32_t i = 0; i < THREE; i++) {
        if (!far.gone[i]) (void)raft_lost(&far.raft[i], far.raft[one].self.peer, far.now);
    }
}

/* A process that dies takes its connections along: the others ask as soon as they may, and agree soon. */
static void another_leads_soon_where_the_ways_to_the_leader_have_ended(void) {
    static const int64_t delays_ms[] = {1, 20, 60}, most_ms[] = {1700, 2200, 4000}; /* in half of them 1050 to 1500 */
    for (uint64_t seed = 1; seed <= 600; seed++) {
        far_start(delays_ms[seed % 3] * MS, seed);
        far.pairs = seed % 2 == 0;
        far_pass(20 * SECOND + (int64_t)random_below(&far.random, 1000) * MS / 10 * 10);
        far_fail();
        int64_t then = far.now;
        while (far_leader() == NULL) {
            far_step();
            CHECK(far.now - then < most_ms[seed % 3] * MS);
        }
        far_pass(2 * SECOND);
        see_serving(5 * SECOND);
    }
}

/* The leader of whom that is not true leads on, with its lease, and no term passes. */
static void a_way_that_ends_alone_changes_nothing(void) {
    for (uint64_t seed = 1; seed <= 50; seed++) {
        far_start(5 * MS, seed);
        far_pass(20 * SECOND);
        const raft_t *one = far_leader();
        raft_term_t term = one->term;
        for (uint32_t turn = 0; turn < 300; turn++) {
            far_pass(100 * MS);
            uint32_t i = random_below(&far.random, THREE);
            (void)raft_lost(&far.raft[i], one->self.peer, far.now);
            CHECK(raft_leased(one, far.now));
        }
        CHECK_EQ_U64(term, one->term);
        CHECK(far_leader() == one);
    }
}

/* A probe's entries fill a slow line if each beat has them again before the first answer can be there. */
static void entries_go_once_to_who_is_far(void) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        raft_index_t index = 0;
        far_start(1000 * MS, seed);
        far_pass(30 * SECOND);
        uint32_t one = (uint32_t)far_leader()->self.peer - 1, other = (one + 1) % THREE;
        far.cut[other] = true;
        far_pass(2 * SECOND);
        CHECK(raft_propose(&far.raft[one], &outputs, 10, &index)); /* on their way to both, and lost on one */
        far_drain(one);
        far_pass(5 * SECOND);
        far.entries = 0;
        far.cut[other] = false;
        far_pass(20 * SECOND);
        CHECK(far_leader() == &far.raft[one]);
        CHECK_EQ_U64(index + 9, far.raft[one].progress[other].match);
        CHECK_EQ_U64(10, far.entries);
    }
    uint64_t founding = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        far_start(1000 * MS, seed);
        far_pass(30 * SECOND);
        founding += far.entries;
        CHECK(far.raft[0].term < 10);
    }
    CHECK(founding <= 20 * 2 * 4); /* an empty one of each leader, of which there are few, to both others */
}

/* .. and by whom no vote is given before its promise is over. */
static void a_way_that_ends_ends_no_promise(void) {
    far_start(MS, 7);
    far_pass(20 * SECOND);
    uint32_t by = (uint32_t)far_leader()->self.peer - 1, one = (by + 1) % THREE, other = (by + 2) % THREE;
    raft_message_t beat = {.subject = RAFT_ENTRIES, .from = disk_of(by), .to = disk_of(one)};
    beat.term = far.raft[by].term;
    raft_receive(&far.raft[one], &outputs, &beat, far.now);
    far_drain(one);
    CHECK(raft_lost(&far.raft[one], far.raft[by].self.peer, far.now) || far.raft[one].due_ns <= far.now + 1875 * MS);
    CHECK(!raft_lost(&far.raft[one], far.raft[other].self.peer, far.now));
    CHECK(far.raft[one].due_ns >= far.now + far_times.election_ns);
    raft_message_t ask = {.subject = RAFT_PREVOTE, .from = disk_of(other), .to = disk_of(one), .term = 1000};
    ask.index = RAFT_INDEX_MAX;
    ask.log_term = 999;
    for (int64_t waits_ms = 0; waits_ms <= 1500; waits_ms += 100) {
        raft_output_t output;
        raft_receive(&far.raft[one], &outputs, &ask, far.now + waits_ms * MS);
        CHECK(raft_next(&far.raft[one], &outputs, &output, far.now + waits_ms * MS));
        CHECK_EQ_I64(waits_ms >= 1500, output.message.granted);
        CHECK(!raft_next(&far.raft[one], &outputs, &output, far.now + waits_ms * MS));
    }
}

/* Two near each other and one beyond: it is beaten less, and counts when one of the two is gone. */
static void one_beyond_the_majority_stands_in_for_who_is_gone(void) {
    uint32_t seen = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        far_start(5 * MS, seed);
        far.beyond_ns = 1000 * MS;
        far_pass(30 * SECOND);
        uint32_t one = (uint32_t)far_leader()->self.peer - 1;
        if (one == THREE - 1) continue; /* by chance the first to ask */
        seen++;
        CHECK_EQ_U64(0, far_leader()->patience);
        uint64_t before = far.beyond;
        far_pass(30 * SECOND);
        CHECK(far.beyond - before < 60); /* 200 ms apart they are 150 */
        CHECK(raft_leased(far_leader(), far.now));
        CHECK(far_leader() == &far.raft[one]);
        far.gone[1 - one] = true;
        far_pass(20 * SECOND);
        see_serving(60 * SECOND);
        CHECK(far_leader() == &far.raft[one]);
        far.gone[1 - one] = false;
        far_pass(20 * SECOND);
        CHECK_EQ_U64(0, far_leader()->patience);
    }
    CHECK(seen > 5);
}

/* Each loss costs it a few round trips, in which it keeps its leader, and so its server has one to ask. */
static void one_beyond_keeps_its_leader_over_a_loss(void) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        far_start(5 * MS, seed);
        far.beyond_ns = 1000 * MS;
        far_pass(30 * SECOND);
        const raft_t *one = far_leader(), *last = &far.raft[THREE - 1];
        if (one == last) continue;
        for (uint32_t turn = 0; turn < 20; turn++) {
            far.stands_ns = far.now + 4 * SECOND;
            for (uint32_t i = 0; i < 1200; i++) {
                far_step();
                CHECK(last->role == RAFT_FOLLOWER && last->leader.peer == one->self.peer);
                CHECK(raft_leased(one, far.now));
            }
        }
        far.gone[one->self.peer - 1] = true; /* the near one asks as soon as ever, and the last one votes */
        far_pass(12 * SECOND);
        CHECK(far_leader() != NULL);
        see_serving(20 * SECOND);
    }
}

/* As ever: a way that is not long costs no patience, and another leads in the time that it took. */
static void near_members_wait_no_longer(void) {
    for (uint64_t seed = 1; seed <= 50; seed++) {
        far_start((int64_t)random_below(&far.random, 100) * MS + MS, seed);
        far_pass(20 * SECOND);
        CHECK(far_leader() != NULL);
        for (uint32_t i = 0; i < THREE; i++) CHECK_EQ_U64(0, far.raft[i].patience);
        far.gone[far_leader()->self.peer - 1] = true;
        far_pass(6 * SECOND);
        CHECK(far_leader() != NULL);
        for (uint32_t i = 0; i < THREE; i++) CHECK_EQ_U64(0, far.raft[i].patience);
    }
}

/* Whoever starts again may have promised a leader that it does not know any more. */
static void a_promise_holds_behind_a_start(void) {
    far_start(MOST_MS * MS, 1);
    far_pass(120 * SECOND);
    uint32_t by = (uint32_t)far_leader()->self.peer - 1, one = (by + 1) % THREE, other = (by + 2) % THREE;
    CHECK_EQ_U64(RAFT_PATIENCE_MAX, far.kept[one]);
    int64_t then = far.now;
    far_begin(one, false);
    raft_message_t ask = {.subject = RAFT_PREVOTE, .from = disk_of(other), .to = disk_of(one), .term = 1000};
    ask.index = RAFT_INDEX_MAX;
    ask.log_term = 999;
    for (int64_t waits = 0; waits <= 13; waits++) {
        raft_output_t output;
        raft_receive(&far.raft[one], &outputs, &ask, then + waits * SECOND);
        CHECK(raft_next(&far.raft[one], &outputs, &output, then + waits * SECOND));
        CHECK_EQ_I64(RAFT_PREVOTED, output.message.subject);
        CHECK_EQ_I64(waits >= 12, output.message.granted);
        CHECK(!raft_next(&far.raft[one], &outputs, &output, then + waits * SECOND));
    }
}

static void an_earlier_version_is_asked_for_none(void) {
    far_start(1000 * MS, 3);
    far.older[0] = far.older[1] = far.older[2] = true;
    far_pass(120 * SECOND);
    CHECK_EQ_U64(0, far.asked);
}

/* A member that is told nothing more but by this test, and has promised as much as there is. */
static uint32_t promised_most(uint32_t *by) {
    far_start(MOST_MS * MS, 1);
    far_pass(120 * SECOND);
    *by = (uint32_t)far_leader()->self.peer - 1;
    uint32_t one = (*by + 1) % THREE;
    raft_message_t beat = {.subject = RAFT_ENTRIES, .from = disk_of(*by), .to = disk_of(one)};
    beat.term = far_leader()->term;
    beat.patience = RAFT_PATIENCE_MAX;
    raft_receive(&far.raft[one], &outputs, &beat, far.now);
    far_drain(one);
    beat.patience = 0;
    raft_receive(&far.raft[one], &outputs, &beat, far.now);
    far_drain(one);
    CHECK_EQ_U64(0, far.raft[one].patience);
    return one;
}

static void a_promise_stays_on_the_disk_while_it_holds(void) {
    uint32_t by, one = promised_most(&by);
    CHECK_EQ_U64(RAFT_PATIENCE_MAX, far.kept[one]);
    raft_message_t beat = {.subject = RAFT_ENTRIES, .from = disk_of(by), .to = disk_of(one)};
    beat.term = far.raft[by].term;
    for (int64_t passed_ms = 1000; passed_ms <= 11000; passed_ms += 500) {
        raft_receive(&far.raft[one], &outputs, &beat, far.now + passed_ms * MS);
        far_drain(one);
        CHECK_EQ_U64(passed_ms < 10500 ? RAFT_PATIENCE_MAX : 0, far.kept[one]); /* 12 s, and from then on 1.5 s */
    }
}

static void a_promise_is_kept_towards_oneself(void) {
    uint32_t by, one = promised_most(&by);
    for (int64_t passed_ms = 0; passed_ms < 12000; passed_ms += 10) {
        raft_tick(&far.raft[one], &outputs, far.now + passed_ms * MS);
        CHECK_EQ_I64(RAFT_FOLLOWER, far.raft[one].role);
        far_drain(one);
    }
    raft_tick(&far.raft[one], &outputs, far.now + 24000 * MS);
    CHECK_EQ_I64(RAFT_ASKING, far.raft[one].role);
    far_drain(one);
}

static void a_lease_is_for_as_long_as_was_promised(void) {
    far_start(MOST_MS * MS, 1);
    far_pass(120 * SECOND);
    const raft_t *one = far_leader();
    uint32_t by = (uint32_t)one->self.peer - 1, other = (by + 1) % THREE;
    CHECK_EQ_U64(RAFT_PATIENCE_MAX, one->patience);
    for (uint8_t patience = 0; patience <= RAFT_PATIENCE_MAX; patience++) {
        far.now += 11 * SECOND; /* all that was promised before is over */
        CHECK(!raft_leased(one, far.now));
        raft_message_t taken = {.subject = RAFT_TAKEN, .from = disk_of(other), .to = disk_of(by), .granted = true};
        taken.term = one->term;
        taken.stamp_ns = far.now;
        taken.entry_term = 1u + patience;
        raft_receive(&far.raft[by], &outputs, &taken, far.now);
        far_drain(by);
        CHECK(raft_leased(one, far.now + (far_times.lease_ns << patience) - 1));
        CHECK(!raft_leased(one, far.now + (far_times.lease_ns << patience)));
    }
}

/* What one beat stands for many with is for as long as the member has said that it promises. */
static void rest_is_for_the_patience_that_was_promised(void) {
    uint64_t rested[2] = {0};
    far_start(MS, 5);
    far_pass(10 * SECOND);
    for (uint32_t turn = 0; turn < 4; turn++) {
        far.delay_ns = turn % 2 == 0 ? 550 * MS : MS;
        for (int64_t end_ns = far.now + 60 * SECOND; far.now < end_ns;) {
            far_step();
            const raft_t *one = far_leader();
            for (uint32_t i = 0; one != NULL && i < THREE; i++) {
                int64_t since_ns;
                if (!raft_rests(one, i, &since_ns)) continue;
                rested[one->patience > 0]++;
                CHECK_EQ_U64(1u + one->patience, one->progress[i].promised);
            }
        }
    }
    CHECK(rested[0] > 0);
    CHECK(rested[1] > 0);
}

int main(void) {
    RUN("members up to two seconds one way elect one that stays, serves and has a lease",
        far_members_elect_one_that_stays);
    RUN("and when the way becomes long, and short again", the_way_becomes_long_and_short);
    RUN("a leader stays one when the way jumps", a_leader_stays_when_the_way_jumps);
    RUN("and is one no longer when it hears no majority", a_leader_without_a_majority_is_one_no_longer);
    RUN("also at rest", a_group_at_rest_is_quick_again_when_the_way_is_short);
    RUN("one that is beyond the majority stands in for who is gone", one_beyond_the_majority_stands_in_for_who_is_gone);
    RUN("and keeps its leader over a loss", one_beyond_keeps_its_leader_over_a_loss);
    RUN("members that are near wait no longer than ever", near_members_wait_no_longer);
    RUN("and less where the ways to the leader have ended", another_leads_soon_where_the_ways_to_the_leader_have_ended);
    RUN("one of which alone changes nothing", a_way_that_ends_alone_changes_nothing);
    RUN("and ends no promise", a_way_that_ends_ends_no_promise);
    RUN("entries go once to who is far", entries_go_once_to_who_is_far);
    RUN("a promise holds behind a start", a_promise_holds_behind_a_start);
    RUN("and on the disk", a_promise_stays_on_the_disk_while_it_holds);
    RUN("and towards oneself", a_promise_is_kept_towards_oneself);
    RUN("a lease is for as long as was promised", a_lease_is_for_as_long_as_was_promised);
    RUN("and so is what one beat stands for many with", rest_is_for_the_patience_that_was_promised);
    RUN("an earlier version is asked for no patience", an_earlier_version_is_asked_for_none);
    return TEST_RESULT();
}
