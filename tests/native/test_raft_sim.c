/* test_raft_sim.c: a group agrees, whatever happens to its messages, disks, clocks and members: by chance, a seed a
 * run. LEAFD_RAFT_SEEDS=n runs n of them, LEAFD_RAFT_SEED=n that one alone. Many more: test_raft_schedules.c.
 */
#include <stdlib.h>

#include "raft_sim.h"
#include "test.h"

#ifndef SEEDS
#define SEEDS 500
#endif
#define STEPS 6000
#define HOURS 24 /* of the members' time in small steps, in 100,000 schedules */

static sim_t sim;

static void run(uint64_t seed) {
    const char *fault = sim_run(&sim, seed, STEPS);
    if (fault != NULL) FAIL("seed %" PRIu64 ": %s", seed, fault);
}

static void invariants_hold(void) {
    const char *one = getenv("LEAFD_RAFT_SEED"), *many = getenv("LEAFD_RAFT_SEEDS");
    uint64_t totals[9] = {0};
    int64_t watched = 0, passed = 0;
    uint64_t count = many != NULL ? strtoull(many, NULL, 10) : SEEDS;
    if (one != NULL) {
        run(strtoull(one, NULL, 10));
        return;
    }
    for (uint64_t seed = 1; seed <= count; seed++) {
        run(seed);
        totals[0] += sim.elections;
        totals[1] += sim.commits;
        totals[2] += sim.changes;
        totals[3] += sim.copies;
        totals[4] += sim.crashes;
        totals[5] += sim.leases;
        totals[6] += sim.heard;
        totals[7] += sim.patient;
        totals[8] += sim.lost;
        watched += sim.watched / MS;
        passed += sim.time / MS;
    }
    printf("  %" PRIu64 " runs: %" PRIu64 " elections, %" PRIu64 " entries committed, %" PRIu64
           " changes of members, %" PRIu64 " copies, %" PRIu64 " crashes, %" PRIu64 " beats for many heard\n",
           count, totals[0], totals[1], totals[2], totals[3], totals[4], totals[6]);
    printf("  %" PRId64 " hours of their time, of which %" PRId64 " in steps of 60 ms at most\n", passed / 3600000,
           watched / 3600000);
    /* A run in which nothing happens proves nothing. */
    for (uint32_t i = 0; i < 9; i++) CHECK(totals[i] > count / 4);
    CHECK(watched > (int64_t)count * HOURS * 3600000 / 100000);
}

int main(void) {
    RUN("leaders, logs, commits and leases are as Raft promises, by any schedule", invariants_hold);
    return TEST_RESULT();
}
