/* test_replicas_disk.c: a stream of three servers, of which one's disk refuses a write or a sync, once or some in a
 * row, at each place, whether it leads or follows: what clients heard is one history, also when that server is killed
 * then, and the stream is the same at all members. Not here: reads and allocations (test_replicas_faults_memory.c),
 * power (test_replicas_powercut.c).
 */
#include "failing_disk.h"
#include "replicas_acts.h"

#define PLACES_MAX 2000u

typedef struct refusal {
    const char *file;
    failing_t what;
} refusal_t;

static const refusal_t refusals[] = {
    {"journal", {.files = FAIL_JOURNAL, .calls = FAIL_WRITE | FAIL_SYNC, .error = EIO, .times = 1}},
    {"journal", {.files = FAIL_JOURNAL, .calls = FAIL_WRITE, .error = ENOSPC, .times = 4}},
    {"data.mdb", {.files = FAIL_HOME, .calls = FAIL_WRITE | FAIL_SYNC, .error = EIO, .times = 1}},
    {"data.mdb", {.files = FAIL_HOME, .calls = FAIL_WRITE | FAIL_SYNC, .error = ENOSPC, .times = 4}},
};

static void work(void (*client)(void), uint32_t steps) {
    for (; steps > 0; steps--) {
        if (ops_count + 2 < OPS_MAX && below(3) == 0) {
            client();
        }
        world_step();
    }
}

static void refuse_from(const refusal_t *refusal, uint32_t at, unsigned n) {
    char path[RIG_PATH];
    struct stat file;
    rig_path(&world.node[at].rig, refusal->file, path);
    CHECK_EQ_I64(0, stat(path, &file));
    failing_t now = refusal->what;
    now.from = n;
    now.inode = file.st_ino;
    failing_disk(now);
}

static uint32_t victim(bool leads) {
    while (world_leader(0) == world.nodes) {
        world_step();
    }
    return leads ? world_leader(0) : (world_leader(0) + 1) % 3;
}

/* Returns how many such calls there were. */
static unsigned run_with(const refusal_t *refusal, bool leads, unsigned n, void (*client)(void)) {
    begin_replicas(3, 1 + n);
    work(client, 100);
    uint32_t at = victim(leads);
    refuse_from(refusal, at, n);
    work(client, 200);
    world_pass(6 * NS_PER_SECOND); /* a checkpoint */
    work(client, 50);
    unsigned count = failing_disk_count();
    failing_disk((failing_t){0});
    work(client, 50);
    replicas_agree();
    node_kill(at);
    work(client, 50);
    node_start(at);
    replicas_agree();
    return count;
}

static void each_place(void (*client)(void), void (*look)(void)) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        for (int leads = 0; leads < 2; leads++) {
            unsigned n = 1;
            while (run_with(&refusals[i], leads, n, client) >= n) {
                look();
                world_end();
                n += 2 + n * 2 * test_stride(); /* what is far behind does the same again */
                CHECK(n < PLACES_MAX);
            }
            look();
            world_end();
            CHECK(n > 1);
        }
    }
}

static void one_history(void) {
    uint64_t heard = 0;
    history_agrees();
    for (uint64_t token = 1; token <= ops_count; token++) {
        heard += ops[token].known && ops[token].verdict == APPEND_STORED;
    }
    CHECK(heard > 10);
}

static void nothing_else(void) {}

static void register_of_clients(void) {
    config = rig_config();
    each_place(client_of_register, one_history);
}

static void anything(void) {
    config = config_drawn(4);
    each_place(client_of_anything, nothing_else);
}

int main(void) {
    RUN("whichever write of one disk is refused, what clients heard is one history", register_of_clients);
    RUN("whichever write of one disk is refused, all members come to the same stream", anything);
    return TEST_RESULT();
}
