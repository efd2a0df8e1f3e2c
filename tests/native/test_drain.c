/* test_drain.c: a checkpoint when room is short leaves out what a later op removes, however many removals there are;
 * and the plane's side of the keeper's descriptor, between its mark and its write. What both do in a store is tested
 * there (test_store_room.c, test_store_duel.c).
 */
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "disk/drain.h"
#include "disk/keeper.h"
#include "disk/waiting.h"
#include "directory.h"
#include "test.h"

#define STREAMS 3000u /* each is defined and then removed, in one checkpoint */
#define RING (UINT64_C(4) << 20)
#define MAP (UINT64_C(64) << 20)

static char directory[] = "/tmp/leafd-test-drain-XXXXXX";

static void told(void *context) {
    ++*(unsigned *)context;
}

static void put(batches_t *batches, store_db_t db, bytes_t key, char mark) {
    uint64_t position;
    uint8_t *value = batch_op(batches, OP_PUT, db, key, VALUE_CRC_SIZE + 1, &position);
    value[VALUE_CRC_SIZE] = (uint8_t)mark;
    value_seal(key, value, VALUE_CRC_SIZE + 1);
}

static void remove_prefix(batches_t *batches, store_db_t db, uint32_t id) {
    uint8_t from[4];
    uint8_t to[4];
    uint64_t position;
    store_be32(from, id);
    store_be32(to, id + 1);
    uint8_t *end = batch_op(batches, OP_DELETE_RANGE, db, bytes_of(from, 4), sizeof to, &position);
    memcpy(end, to, sizeof to);
}

static store_key_t key_of(uint32_t id, uint8_t last) {
    store_key_t key = {.size = 5};
    store_be32(key.at, id);
    key.at[4] = last;
    return key;
}

static void what_was_removed_stays_removed(void) {
    env_t *env;
    char reason[256];
    batches_t batches;
    unsigned pieces = 0;
    CHECK(mkdtemp(directory) != NULL);
    CHECK_EQ_I64(STATUS_OK, env_open(directory, MAP, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(STATUS_OK, batches_open(&batches, RING, 4096, 0, 1));
    for (uint32_t id = 0; id < STREAMS; id++) { /* in no order of their keys */
        uint32_t mixed = id * 7u % STREAMS + 1;
        store_key_t key = key_of(mixed, 1);
        put(&batches, DB_HEADS, key_bytes(&key), 'x');
        put(&batches, DB_EXPIRY, key_bytes(&key), 'x');
        remove_prefix(&batches, DB_HEADS, mixed);
        if (mixed % 100 == 0) { /* made anew */
            put(&batches, DB_HEADS, key_bytes(&key), 'y');
        }
    }
    batch_seal(&batches);
    drain_t drain = {.env = env,
                     .batches = batches,
                     .to = batches.begin,
                     .durable = batches.begin,
                     .piece = DRAIN_PIECE,
                     .told = told,
                     .context = &pieces};
    CHECK_EQ_I64(STATUS_OK, drain_run(&drain));
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    CHECK_EQ_I64(STATUS_OK, env_renew(env));
    for (uint32_t id = 1; id <= STREAMS; id++) {
        store_key_t key = key_of(id, 1);
        bytes_t value = BYTES_NONE;
        CHECK_EQ_I64(id % 100 == 0 ? READ_FOUND : READ_NONE, env_get(env, DB_HEADS, key_bytes(&key), &value));
        CHECK(id % 100 != 0 || value.at[VALUE_CRC_SIZE] == 'y');
        CHECK_EQ_I64(READ_FOUND, env_get(env, DB_EXPIRY, key_bytes(&key), &value));
    }
    CHECK(pieces > 0);
    env_close(env);
    batches_close(&batches);
    directory_remove(directory);
}

static bool readable(int fd) {
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    return poll(&poller, 1, 0) == 1;
}

/* The keeper has set its mark, and the plane comes by before the keeper writes. */
static void a_late_write_is_read(void) {
    keeper_t *keeper = calloc(1, sizeof *keeper);
    CHECK(keeper != NULL);
    keeper->plane_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    atomic_store(&keeper->signalled, true);
    keeper_heard(keeper);
    thread_wake(keeper->plane_fd);
    CHECK(readable(keeper->plane_fd));
    keeper_heard(keeper);
    CHECK(!readable(keeper->plane_fd));
    keeper_wake_plane(keeper);
    CHECK(readable(keeper->plane_fd));
    keeper_heard(keeper);
    CHECK(!readable(keeper->plane_fd));
    close(keeper->plane_fd);
    free(keeper);
}

int main(void) {
    RUN("of 3,000 removals in one checkpoint without room, each stays one", what_was_removed_stays_removed);
    RUN("what the keeper writes after the plane came by is read, and does not wake it for ever", a_late_write_is_read);
    return TEST_RESULT();
}
