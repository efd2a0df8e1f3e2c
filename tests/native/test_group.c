/* test_group.c: a group of one member on a store (group/group.h): what it answers is applied once, through restarts,
 * crashes, a store without room, and entries that cannot be read. Power cuts: test_group_powercut.c.
 */
#include "base/random.h"
#include "disk/env.h"
#include "store/core.h"
#include "group_rig.h"

static void answers_in_order(void) {
    begin();
    CHECK_EQ_I64(STATUS_AGAIN, group_propose(group, text("too early"), 1));
    turns_until(leads);
    for (uint64_t token = 1; token <= 1000; token++) {
        propose(token);
        if (token % 7 == 0) {
            turn();
        }
    }
    await(1000);
    CHECK_EQ_U64(0, lost);
    for (uint32_t i = 0; i < 1000; i++) {
        CHECK_EQ_U64(i + 1, answers[i]);
    }
    check_messages(1000);
    end();
}

/* Nothing is answered before its entry is on the disk, and nothing is applied. */
static void not_before_the_disk(void) {
    begin();
    turns_until(leads);
    awaited = 0;
    turn();
    rig_sync(&rig);
    turn();
    propose(1);
    uint64_t batch = store_batch(rig.store);
    while (store_durable(rig.store) < batch) {
        group_turn(group, rig.now);
        if (store_durable(rig.store) < batch) {
            CHECK_EQ_U64(0, answered);
            CHECK_EQ_U64(0, applied);
        }
        store_tick(rig.store, rig.now);
        rig_pass(&rig, NS_PER_MS);
    }
    CHECK_EQ_U64(0, answered);
    group_turn(group, rig.now);
    CHECK_EQ_U64(1, answered);
    CHECK_EQ_U64(1, applied);
    end();
}

static bool at_rest(void) {
    return store_batch_empty(rig.store) && store_durable(rig.store) + 1 == store_batch(rig.store);
}

/* The clock stands still. What was applied is shown to consumers, though its batch is open. */
static void answered_and_shown(uint64_t token) {
    awaited = (uint32_t)token;
    propose(token);
    for (int64_t until = 0; !all_answered();) {
        CHECK(patient(&until));
        group_turn(group, rig.now);
        store_tick(rig.store, rig.now);
        group_turn(group, rig.now);
        struct pollfd poller = {.fd = store_wake_fd(rig.store), .events = POLLIN};
        poll(&poller, 1, 1);
    }
    store_tick(rig.store, rig.now);
    CHECK(!store_batch_empty(rig.store));
    CHECK(store_advanced_next(rig.store) == stream);
    CHECK_EQ_U64(token, store_stream_visible(stream));
}

static void one_sync_each(void) {
    begin();
    store_stream_time(stream, 1, RIG_START);
    turns_until(leads);
    turns_until(at_rest);
    uint64_t before = store_batch(rig.store);
    for (uint64_t token = 1; token <= 10; token++) {
        answered_and_shown(token);
        CHECK_EQ_U64(before + token, store_batch(rig.store)); /* an entry, and what the one before did */
    }
    rig_pass(&rig, LAZY_MIN_NS);
    store_tick(rig.store, rig.now);
    CHECK_EQ_U64(before + 11, store_batch(rig.store)); /* none comes: it goes by itself .. */
    answered_and_shown(11);
    store_hurry(rig.store);
    rig_sync(&rig);
    CHECK_EQ_U64(before + 13, store_batch(rig.store)); /* .. and at once when somebody waits for it */
    group_close(group);
    rig_crash(&rig);
    open_all();
    check_messages(11);
    end();
}

static void once_through_crashes(void) {
    uint64_t chance = 5, token = 0;
    begin();
    for (uint32_t round = 0; round < 40; round++) {
        turns_until(leads);
        uint32_t count = 1 + random_below(&chance, 30);
        answered = 0;
        for (uint32_t i = 0; i < count; i++) {
            propose(++token);
            if (random_below(&chance, 4) == 0) turn();
        }
        await(count);
        CHECK_EQ_U64(0, lost);
        if (random_below(&chance, 3) == 0) rig_checkpoint(&rig);
        group_close(group);
        random_below(&chance, 2) == 0 ? rig_crash(&rig) : rig_reopen(&rig);
        open_all();
        /* What was answered was applied, but the effects of the last ones may have been in no batch on the disk: the
         * entries are, and do it again once they are committed again. */
        CHECK(rig_state(stream).messages <= token);
        turns_until(leads);
        while (rig_state(stream).messages < token) {
            turn();
            rig_pass(&rig, NS_PER_MS);
        }
        check_messages(token);
    }
    end();
}

/* Without room for what an entry asks for, it waits, and later ones behind it. */
static void waits_for_room(void) {
    begin();
    turns_until(leads);
    refuses = true;
    for (uint64_t token = 1; token <= 10; token++) {
        propose(token);
    }
    for (int i = 0; i < 50; i++) {
        turn();
    }
    CHECK_EQ_I64(GROUP_WAITS, group_state(group));
    CHECK_EQ_U64(0, answered);
    refuses = false;
    await(10);
    CHECK_EQ_I64(GROUP_RUNS, group_state(group));
    check_messages(10);
    end();
}

#define HALF ((1u << 20) / 4 / 2) /* of what all logs take: a leader's share */

static bool has_room(void) {
    return store_room(rig.store);
}

/* A log that is full takes no more, and goes on when some of it is applied. */
static void full_log(void) {
    static uint8_t large[4000];
    uint32_t taken = 0;
    begin();
    turns_until(leads);
    CHECK_EQ_I64(STATUS_INVALID, group_propose(group, bytes_of(large, HALF), 1));
    refuses = true;
    for (int turns = 0; turns < 200; turns++) {
        taken += group_propose(group, bytes_of(large, sizeof large), taken + 1) == STATUS_OK;
        turn();
        rig_pass(&rig, 10 * NS_PER_MS);
    }
    CHECK_EQ_U64(HALF / (sizeof large + 34), taken);
    CHECK_EQ_U64(rig.store->ledgers.bytes, rig.store->ledgers.led);
    turns_until(has_room); /* a checkpoint may be under way */
    CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "another", "is served").verdict);
    refuses = false;
    await(taken);
    propose(taken + 1);
    await(taken + 1);
    CHECK_EQ_U64(taken + 2, rig_state(stream).messages);
    end();
}

/* In the steady state an entry is never in LMDB. */
static void not_in_lmdb(void) {
    static const uint8_t lowest[] = {0};
    char reason[256];
    env_t *env;
    bytes_t key, value;
    begin();
    turns_until(leads);
    for (uint64_t token = 1; token <= 100; token++) {
        propose(token);
    }
    await(100);
    for (int i = 0; i < 20; i++) {
        turn();
    }
    rig_pass(&rig, 6 * NS_PER_SECOND);
    for (int i = 0; i < 20; i++) {
        turn();
    }
    rig_committed(&rig);
    group_close(group);
    store_close(rig.store);
    CHECK_EQ_I64(STATUS_OK, env_open(rig.directory, 64 << 20, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(READ_NONE, env_seek(env, DB_LEDGER, bytes_of(lowest, 1), &key, &value));
    env_close(env);
    rig_start(&rig);
    open_all();
    turns_until(leads);
    check_messages(100);
    end();
}

static void another_disk(void) {
    group_options_t with;
    begin();
    turns_until(leads);
    propose(1);
    await(1);
    group_close(group);
    rig_kill(&rig);
    rig_unlink(&rig, "journal");
    rig_write_at(&rig, "accept-loss", "", 0, 0);
    rig_start(&rig);
    with = options(5);
    status_t status = group_open(&with, rig.now, &group);
    /* Nothing of it may have come to LMDB. */
    CHECK((status == STATUS_OK && group == NULL) || status == STATUS_INVALID);
    rig_close(&rig);
    begin();
    turns_until(leads);
    rig_checkpoint(&rig);
    group_close(group);
    rig_kill(&rig);
    rig_unlink(&rig, "journal");
    rig_write_at(&rig, "accept-loss", "", 0, 0);
    rig_start(&rig);
    with = options(5);
    CHECK_EQ_I64(STATUS_INVALID, group_open(&with, rig.now, &group));
    CHECK(group == NULL);
    CHECK_EQ_I64(STATUS_INVALID, group_open(&with, rig.now, &group)); /* and can be asked again */
    CHECK_EQ_I64(STATUS_EXISTS, group_make(&with, rig.now, &group));  /* no new one takes its place */
    rig_close(&rig);
}

/* Terms, kinds and members that no group writes: the store's checksums hold, so they were written on purpose. */
static void forged(void) {
    static const ledger_entry_t entries[] = {
        {.index = 1, .term = 9, .kind = RAFT_EMPTY},
        {.index = 1, .term = 0, .kind = RAFT_MEMBERS + 1},
        {.index = 1, .term = 0, .kind = RAFT_MEMBERS},
        {.index = 1, .term = UINT64_MAX, .kind = RAFT_DATA},
    };
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        ledger_t *ledger;
        uint8_t members[18] = {1, [8] = 77, [16] = 1, [17] = 1};
        rig = (rig_t){.in_memory = true, .options = {.ledgers = true}};
        rig_open(&rig);
        CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 5, 55, bytes_of(members, sizeof members), &ledger));
        CHECK_EQ_I64(STATUS_OK, store_ledger_put(ledger, &entries[i]));
        rig_sync(&rig);
        rig_crash(&rig);
        group_options_t with = options(5);
        CHECK_EQ_I64(STATUS_CORRUPT, group_open(&with, rig.now, &group));
        rig_close(&rig);
    }
}

int main(void) {
    RUN("what is proposed is answered in order, and is there", answers_in_order);
    RUN("nothing is applied or answered before its entry is on the disk", not_before_the_disk);
    RUN("who waits for each answer waits for one sync each, and consumers for none more", one_sync_each);
    RUN("what was answered is there once, whenever the process is killed", once_through_crashes);
    RUN("what an entry asks for waits for room, and later entries behind it", waits_for_room);
    RUN("a log that is full takes no more until some of it is applied", full_log);
    RUN("entries that are applied never come to LMDB", not_in_lmdb);
    RUN("a promise of another disk is not kept, and no new member takes its place", another_disk);
    RUN("a log that no member has written is not begun with", forged);
    return TEST_RESULT();
}
