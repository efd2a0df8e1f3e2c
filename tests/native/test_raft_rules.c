/* test_raft_rules.c: the test of the tests: with any one rule of the core taken out, a promise of test_raft.c,
 * test_raft_rest.c or test_raft_far.c is broken, or the invariants of raft_sim.h find a schedule in which it was
 * needed. The core is compiled into this program once more, with the rules as switches (native/raft/private.h), and
 * without sanitizers: a core without a rule is not the one that they are to judge. A process for each rule: an
 * invariant of the core itself may end it, which is found as well.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define RAFT_RULES
#include "raft/private.h"

raft_rule_t raft_without;

#include "base/check.c"
#include "raft/elect.c"
#include "raft/follow.c"
#include "raft/member.c"
#include "raft/raft.c"
#include "raft/replicate.c"
#include "raft/rest.c"
#include "raft/trail.c"

#define main promises_moving
#include "test_raft.c"
#undef main
#define main promises_at_rest
#include "test_raft_rest.c"
#undef main
#define main promises_from_afar
#include "test_raft_far.c"
#undef main
#include "raft_sim.h"

#define STEPS 6000
#define SEEDS 10000

static const struct {
    raft_rule_t rule;
    const char *name;
} rules[] = {
    {RULE_OWN_TERM, "only entries of the own term are counted"},
    {RULE_VOTE_ON_DISK, "a vote is given when it is on the disk"},
    {RULE_ENTRIES_ON_DISK, "entries are acknowledged when they are on the disk"},
    {RULE_OWN_ON_DISK, "a leader's own entries count when they are on its disk"},
    {RULE_OWN_VOTE, "a candidate's own vote counts when it is on its disk"},
    {RULE_NEWEST_LOG, "a vote is for a log that is as new"},
    {RULE_ONE_VOTE, "one vote a term"},
    {RULE_FITTING, "the entry before those of a message has to fit"},
    {RULE_CUT_CONFLICT, "only entries that differ are cut off"},
    {RULE_COMMIT_FITTING, "a follower commits what it knows to be the leader's"},
    {RULE_ONE_CHANGE, "one change of members at a time"},
    {RULE_CHANGE_BEHIND, "a change of members comes behind an entry of the own term"},
    {RULE_CHANGE_BACK, "members go back with the entry that changed them"},
    {RULE_LIVE_LEADER, "who hears a leader grants no vote"},
    {RULE_QUIET_START, "nor who has just started"},
    {RULE_QUORUM, "who hears no majority leads no more"},
    {RULE_NO_LEASE_BEHIND, "behind a handover there is no lease"},
    {RULE_REMOVED_STANDS, "whose removal is not committed may be elected"},
    {RULE_COPY_KEEPS, "a copy takes away nothing that fits"},
    {RULE_MEMBERS_COUNT, "a member is a disk"},
    {RULE_REST_SINCE, "what stands for beats is answered for what it named when it was sent"},
    {RULE_REST_FOLLOWS, "and by who follows still"},
    {RULE_REST_PATIENCE, "and for the time for which it was named"},
    {RULE_LEASE_PROMISED, "a lease is for as long as was promised"},
    {RULE_PROMISE_LASTS, "a promise is not shortened by a later one"},
    {RULE_PROMISE_STARTS, "nor by a start"},
    {RULE_PROMISE_ON_DISK, "nor on the disk while it holds"},
    {RULE_PROMISE_SELF, "a promise is kept towards oneself"},
    {RULE_PROMISE_LOST, "and when the way to the leader has ended"},
};

static sim_t sim;

static int promises(void) {
    return promises_moving() != 0 || promises_at_rest() != 0 || promises_from_afar() != 0;
}

typedef struct finding {
    bool by_hand;
    uint64_t seed; /* 0: none */
} finding_t;

static void look(int tell) {
    finding_t finding = {.by_hand = promises() != 0};
    while (!finding.by_hand && finding.seed < SEEDS) {
        finding.seed++;
        if (write(tell, &finding, sizeof finding) != sizeof finding) _exit(2);
        if (sim_run(&sim, finding.seed, STEPS) != NULL) _exit(1);
    }
    if (finding.by_hand) _exit(write(tell, &finding, sizeof finding) == sizeof finding ? 1 : 2);
    _exit(0);
}

/* false: no fault without the rule. */
static bool find(raft_rule_t rule, finding_t *finding) {
    int pipes[2];
    *finding = (finding_t){0};
    (void)fflush(stdout);
    if (pipe(pipes) != 0) FAIL("no pipe");
    pid_t child = fork();
    if (child < 0) FAIL("no process");
    if (child == 0) {
        raft_without = rule;
        if (freopen("/dev/null", "w", stderr) == NULL || freopen("/dev/null", "w", stdout) == NULL) _exit(2);
        look(pipes[1]);
    }
    (void)close(pipes[1]);
    while (read(pipes[0], finding, sizeof *finding) == sizeof *finding) continue;
    (void)close(pipes[0]);
    int how = 0;
    if (waitpid(child, &how, 0) != child) FAIL("no child");
    return !WIFEXITED(how) || WEXITSTATUS(how) != 0;
}

static void rules_are_found_missing(void) {
    finding_t finding;
    uint32_t missed = 0;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (!find(rules[i].rule, &finding)) {
            missed++;
            printf("  without \"%s\": NOT FOUND\n", rules[i].name);
        } else if (finding.by_hand || finding.seed == 0) { /* 0: a promise has ended the process */
            printf("  without \"%s\": a promise is broken\n", rules[i].name);
        } else {
            printf("  without \"%s\": seed %" PRIu64 "\n", rules[i].name, finding.seed);
        }
    }
    CHECK_EQ_U64(0, missed);
}

int main(void) {
    if (promises() != 0) return 1; /* with all rules in place they hold */
    RUN("each rule is found missing", rules_are_found_missing);
    return TEST_RESULT();
}
