/* test_replicas.c: a stream that three servers keep (group/replica.h), each on a store of its own, over a network of
 * the test (replicas_world.h): publishes, deletes, purges, limits and ages, while servers are killed, stopped and cut
 * off.
 *
 *     at one index of the log the stream is the same at every member, to each message's bytes and stamp  (digests)
 *     what was answered is there, once, in the order of time; a compare and set took place at one moment
 *                                                                                                   (history_agrees)
 *
 *     LEAFD_REPLICAS_SEEDS=1000 LEAFD_REPLICAS_SEED=7 build/dev/tests/native/test_replicas
 */
#include "replicas_acts.h"

/* ---- by chance --------------------------------------------------------------------------------------------------- */

static void compare_and_set(void) {
    uint64_t seed;
    uint64_t heard = 0;
    uint64_t wrong = 0;
    for (uint64_t left = seeds(2, &seed); left > 0; left--, seed++) {
        config = rig_config();
        if (getenv("LEAFD_REPLICAS_SEEDS") != NULL) {
            printf("seed %llu\n", (unsigned long long)seed);
        }
        begin_replicas(3, seed * 7919 + 1);
        live_rounds(client_of_register, 16);
        history_agrees();
        for (uint64_t token = 1; token <= ops_count; token++) {
            heard += ops[token].known && ops[token].verdict == APPEND_STORED;
            wrong += ops[token].known && ops[token].verdict == APPEND_WRONG_LAST_SEQ;
        }
        world_end();
    }
    CHECK(heard > 100);
    CHECK(wrong > 10);
}

static void anything(void) {
    uint64_t seed;
    for (uint64_t left = seeds(5, &seed); left > 0; left--, seed++) {
        config = config_drawn(seed);
        begin_replicas(3, seed * 104729 + 1);
        live_rounds(client_of_anything, 10);
        world_end();
    }
}

/* ---- what takes several turns ------------------------------------------------------------------------------------ */

#define MANY 1600u

static void publish_many(uint32_t count) {
    uint8_t payload[8] = {0};
    append_t append = {.subject = text("s"), .payload = bytes_of(payload, sizeof payload)};
    for (uint32_t left = count; left > 0;) {
        if (ask(ASK_PUBLISH, &append, 0, 0)) {
            left--;
        } else {
            world_step();
        }
    }
    world_until(all_heard);
}

static bool halfway(void) {
    for (uint32_t at = 0; at < world.nodes; at++) {
        uint64_t messages = rig_state(world.node[at].stream[0]).messages;
        if (messages > 1 && messages < MANY) {
            return true;
        }
    }
    return false;
}

/* Every server dies while some of them are in the middle of it, and each comes to its end once. */
static void ended_after_a_kill(uint8_t rollup, uint64_t left) {
    config = rig_config();
    begin_replicas(3, 31 + rollup);
    publish_many(MANY);
    world_until(all_level);
    append_t append = {.subject = text("s"), .rollup = rollup};
    uint64_t keep = left;
    while (!ask(rollup != 0 ? ASK_PUBLISH : ASK_PURGE, &append, 0, rollup != 0 ? 0 : keep)) {
        world_step();
    }
    world_until(halfway);
    for (uint32_t at = 0; at < 3; at++) {
        node_kill(at);
    }
    ops_count = 0; /* nobody is answered by who is dead */
    for (uint32_t at = 0; at < 3; at++) {
        node_start(at);
    }
    world_until(all_lead);
    publish_many(1);
    world_until(all_level);
    for (uint32_t at = 0; at < 3; at++) {
        CHECK_EQ_U64(left + 1, rig_state(world.node[at].stream[0]).messages);
        CHECK_EQ_U64(MANY + (rollup != 0) + 1, rig_state(world.node[at].stream[0]).last_seq);
        CHECK_EQ_U64(digest_of(0), digest_of(at));
    }
    world_end();
}

static void rollup_ends(void) {
    ended_after_a_kill(1, 1);
}

static void purge_ends(void) {
    ended_after_a_kill(0, 7);
}

/* ---- entries of who lies ----------------------------------------------------------------------------------------- */

static uint8_t *put_text(uint8_t *at, uint32_t size_bytes) {
    uint32_t size = below(4) == 0 ? 0 : 1 + below(12);
    memset(at, 0, size_bytes);
    at[size_bytes - 1] = (uint8_t)(below(200) == 0 ? 200 : size);
    at += size_bytes;
    for (uint32_t i = 0; i < size; i++) {
        at[i] = (uint8_t)"sss.01>* "[below(9)];
    }
    return at + size;
}

static uint64_t number_drawn(void) {
    const uint64_t numbers[] = {0, 1, 2, 40, UINT64_MAX, UINT64_MAX / 2, UINT64_MAX >> 3, random_next(&world.random)};
    return numbers[below(8)];
}

#define NONSENSE 900

/* Of an entry's form, mostly, with anything in it; and a piece of such a one. */
static uint32_t write_nonsense(uint8_t bytes[NONSENSE]) {
    uint8_t *at = bytes + 18;
    memset(bytes, 0, NONSENSE);
    bytes[0] = below(100) != 0;
    bytes[1] = (uint8_t)(below(100) == 0 ? 5 + below(3) : below(3) == 0 ? 2 + below(3) : 1);
    store_be64(bytes + 2, below(60) == 0 ? number_drawn() : below(100) * NS_PER_SECOND);
    store_be64(bytes + 10, below(60) == 0 ? number_drawn() : (uint64_t)world.now.wall_ns);
    if (bytes[1] == 1) {
        unsigned flags = below(3) == 0 ? below(0x1000) & 0xf7f : below(2) == 0 ? 1u << below(12) : 0;
        store_be16(at, (uint16_t)flags);
        at += 2;
        for (unsigned i = 0; i < 7; i++) {
            if ((flags >> i & 1u) != 0) {
                store_be64(at, number_drawn());
                at += 8;
            }
        }
        for (unsigned i = 0; i < 5; i++) {
            at = put_text(at, 2);
        }
        at = put_text(at, 4) + below(30);
    } else {
        store_be64(at, number_drawn());
        store_be64(at + 8, number_drawn());
        at = bytes[1] == 2 ? at + 8 : put_text(at + 8 + 7, 1);
    }
    uint32_t size = (uint32_t)(at - bytes);
    if (bytes[1] == 1 && below(3) == 0) { /* or a batch of one or two such */
        uint32_t one = size - 18;
        uint32_t count = 1 + below(2);
        memmove(bytes + 26, bytes + 18, one);
        memcpy(bytes + 34 + one, bytes + 26, one);
        store_be32(bytes + 18, below(60) == 0 ? (uint32_t)number_drawn() : one);
        store_be32(bytes + 22, below(60) == 0 ? (uint32_t)number_drawn() : 0);
        store_be32(bytes + 26 + one, one);
        store_be32(bytes + 30 + one, below(3));
        bytes[1] = 7;
        size = 18 + count * (8 + one);
    }
    return below(60) == 0 ? below(size) : size;
}

/* What is committed may be nonsense: then it does something, or stops this one member; the server goes on. */
static void nonsense(void) {
    uint8_t bytes[NONSENSE];
    uint32_t stuck = 0;
    uint32_t done = 0;
    for (uint32_t world_nr = 0; world_nr < 16; world_nr++) {
        config = config_drawn(world_nr);
        config.flags |= STREAM_ALLOW_ROLLUP;
        begin_replicas(1, 900 + world_nr);
        for (uint32_t i = 0; i < 60 && !replica_stuck(replicas[0]); i++) {
            uint32_t size = write_nonsense(bytes);
            raft_index_t before = group_applied(world.node[0].group[0]);
            ops_count++;
            if (size > 0 && group_propose(world.node[0].group[0], bytes_of(bytes, size), ops_count) == STATUS_OK) {
                groups_stir(world.node[0].groups, world.node[0].group[0]);
            }
            world_pass(4 * STEP_NS);
            done += group_applied(world.node[0].group[0]) > before;
        }
        stuck += replica_stuck(replicas[0]);
        CHECK_EQ_U64(APPEND_STORED,
                     rig_put(&world.node[0].rig, rig_stream(&world.node[0].rig, 9, rig_config()), "s", "t").verdict);
        CHECK(store_sound(world.node[0].rig.store));
        world_end();
    }
    CHECK(stuck > 6);
    CHECK(done > 30);
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

static void source_says(uint64_t seq, const char *id, const char *subject, append_verdict_t verdict) {
    const append_t append = {.subject = text(subject),
                             .msg_id = text(id),
                             .source_key = text("o"),
                             .source_seq = seq,
                             .source_ts = (int64_t)seq * 10};
    while (!ask(ASK_PUBLISH, &append, 0, seq)) {
        world_step();
    }
    uint64_t token = ops_count;
    world_until(all_heard);
    CHECK_EQ_U64(verdict, ops[token].verdict);
    world_pass(NS_PER_SECOND);
    for (uint32_t at = 0; at < 3; at++) {
        bytes_t value = BYTES_NONE;
        CHECK_EQ_I64(ENTRY_FOUND, store_record_get(world.node[at].rig.store, RECORD_SOURCE,
                                                   bytes_of((const uint8_t *)"\0\0\0\1o", 5), &value));
        CHECK_EQ_U64(16, value.size);
        CHECK_EQ_U64(seq, load_be64(value.at));
        CHECK_EQ_U64(seq * 10, load_be64(value.at + 8));
    }
}

static void source_positions(void) {
    config = rig_config();
    begin_replicas(3, 9);
    source_says(5, "x", "s.1", APPEND_STORED);
    source_says(9, "x", "s.1", APPEND_DUPLICATE);
    source_says(12, "", "", APPEND_BAD_SUBJECT);
    source_says(13, "y", "s.1", APPEND_STORED);
    CHECK_EQ_U64(2, rig_state(world.node[0].stream[0]).messages);
    world_end();
}

/* Of a source that has come to `before`. position: of all members, then. */
static void source_adds(uint64_t before, uint64_t seq, const char *subject, append_verdict_t verdict,
                        uint64_t position) {
    const append_t append = {.subject = text(subject),
                             .source_key = text("o"),
                             .source_seq = seq,
                             .source_ts = (int64_t)seq * 10,
                             .has_source_before = true,
                             .source_before = before};
    while (!ask(ASK_PUBLISH, &append, 0, seq)) {
        world_step();
    }
    uint64_t token = ops_count;
    world_until(all_heard);
    CHECK_EQ_U64(verdict, ops[token].verdict);
    world_pass(NS_PER_SECOND);
    for (uint32_t at = 0; at < 3; at++) {
        bytes_t value = BYTES_NONE;
        status_t status = entry_status(store_record_get(world.node[at].rig.store, RECORD_SOURCE,
                                                        bytes_of((const uint8_t *)"\0\0\0\1o", 5), &value));
        CHECK_EQ_I64(position == 0 ? STATUS_NOT_FOUND : STATUS_OK, status);
        CHECK_EQ_U64(position, position == 0 ? 0 : load_be64(value.at));
    }
}

static void source_in_order(void) {
    config = rig_config();
    config.discard = 1;
    config.max_msgs = 2;
    begin_replicas(3, 9);
    source_adds(4, 5, "s.1", APPEND_OUT_OF_ORDER, 0);
    source_adds(0, 5, "s.1", APPEND_STORED, 5);
    source_adds(5, 7, "s.1", APPEND_STORED, 7);
    source_adds(7, 8, "s.1", APPEND_MAX_MSGS, 7);
    CHECK(ask(ASK_DELETE, &(append_t){0}, 1, 0));
    world_until(all_heard);
    source_adds(8, 9, "s.1", APPEND_OUT_OF_ORDER, 7);
    source_adds(8, 9, "", APPEND_OUT_OF_ORDER, 7);
    source_adds(7, 8, "s.1", APPEND_STORED, 8);
    source_adds(7, 8, "s.1", APPEND_OUT_OF_ORDER, 8);
    source_adds(8, 9, "", APPEND_BAD_SUBJECT, 9);
    CHECK_EQ_U64(2, rig_state(world.node[0].stream[0]).messages);
    CHECK_EQ_U64(3, rig_state(world.node[0].stream[0]).last_seq);
    world_end();
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static void publish_some(uint32_t count) {
    char id[24];
    char subject[8];
    uint8_t payload[8];
    for (uint64_t number = 1; number <= count;) {
        append_t append = message_of(number, id, payload, subject);
        if (ask(ASK_PUBLISH, &append, 0, number)) {
            number++;
        } else {
            world_step();
        }
    }
    world_until(all_heard);
}

/* Messages age by the log's time: it stands still while nobody leads, and goes on where it was behind a start. */
static void ages_by_the_log(void) {
    config = rig_config();
    config.max_age_ns = 5 * NS_PER_SECOND;
    begin_replicas(3, 5);
    publish_some(20);
    world_pass(3 * NS_PER_SECOND);
    for (uint32_t at = 0; at < 3; at++) {
        CHECK_EQ_U64(20, rig_state(world.node[at].stream[0]).messages);
        node_kill(at);
    }
    world_pass(60 * NS_PER_SECOND);
    for (uint32_t at = 0; at < 3; at++) {
        node_start(at);
    }
    world_until(all_lead);
    CHECK_EQ_U64(20, rig_state(world.node[0].stream[0]).messages);
    world_pass(6 * NS_PER_SECOND);
    for (uint32_t at = 0; at < 3; at++) {
        CHECK_EQ_U64(0, rig_state(world.node[at].stream[0]).messages);
        CHECK_EQ_U64(20, rig_state(world.node[at].stream[0]).last_seq);
    }
    /* With nothing left that could be due nobody says what time it is. */
    world_pass(NS_PER_SECOND);
    raft_index_t last = group_look(world.node[0].group[0], world.now).last;
    world_pass(60 * NS_PER_SECOND);
    CHECK_EQ_U64(last, group_look(world.node[0].group[0], world.now).last);
    world_end();
}

static void publish_until(uint64_t number, int64_t life_ns) {
    char id[24];
    char subject[8];
    uint8_t payload[8];
    append_t append = message_of(number, id, payload, subject);
    append.expires_ts = world.now.wall_ns + life_ns;
    while (!ask(ASK_PUBLISH, &append, 0, number)) {
        world_step();
    }
    world_until(all_heard);
}

/* Two lives end at once: one that LMDB has at all members, one that it has at one member alone. Their markers get the
 * same sequences everywhere. */
static void markers_in_order(void) {
    config = rig_config();
    config.marker_ttl_ns = NS_PER_SECOND;
    begin_replicas(3, 9);
    publish_until(1, 9 * NS_PER_SECOND);
    world_pass(7 * NS_PER_SECOND); /* a checkpoint */
    publish_until(2, 2050 * NS_PER_MS);
    world_pass(100 * NS_PER_MS);
    uint32_t leader = world_leader(0);
    node_kill(others_of(leader, 1));
    node_start(others_of(leader, 1));
    world_pass(1600 * NS_PER_MS);
    CHECK_EQ_U64(2, rig_state(world.node[leader].stream[0]).last_seq);
    world.node[leader].stands_ns = world.now.mono_ns + 700 * NS_PER_MS;
    for (uint32_t step = 0; step < 300; step++) {
        world_step();
        compare_digests();
    }
    world_until(all_level);
    for (uint32_t at = 0; at < 3; at++) {
        CHECK_EQ_U64(4, rig_state(world.node[at].stream[0]).last_seq);
    }
    CHECK(compared > 4);
    world_end();
}

static bool all_have_one_more(void) {
    for (uint32_t at = 0; at < 3; at++) {
        if (rig_state(world.node[at].stream[0]).messages != 2) {
            return false;
        }
    }
    return true;
}

/* A leader's clock was a month ahead, and is put right: what comes then lives as long as it says. */
static void lives_by_the_clock_of_its_entry(void) {
    const int64_t ahead_ns = 30 * 86400 * NS_PER_SECOND;
    config = rig_config();
    begin_replicas(3, 6);
    world.now.wall_ns += ahead_ns;
    publish_until(1, 3600 * NS_PER_SECOND);
    world_until(all_level);
    world.now.wall_ns -= ahead_ns;
    publish_until(2, 8 * NS_PER_SECOND);
    world_until(all_have_one_more);
    world_pass(6 * NS_PER_SECOND);
    CHECK(all_have_one_more());
    world_pass(4 * NS_PER_SECOND);
    for (uint32_t at = 0; at < 3; at++) {
        CHECK_EQ_U64(1, rig_state(world.node[at].stream[0]).messages);
    }
    world_end();
}

int main(void) {
    RUN("what clients publish, compare and set is one history, whatever is killed, stopped or cut off",
        compare_and_set);
    RUN("a stream is the same at all members after each entry: limits, ages, purges, deletes, rollups", anything);
    RUN("a rollup of many messages ends behind a kill of all in its middle, and its message is there once",
        rollup_ends);
    RUN("a purge of many messages ends behind a kill of all in its middle", purge_ends);
    RUN("an entry that is nonsense ends no server", nonsense);
    RUN("markers of lives that end together get the same sequences at all members", markers_in_order);
    RUN("members know how far a source has come, also by what is not stored", source_positions);
    RUN("nothing of a source is stored behind what was refused, and nothing twice", source_in_order);
    RUN("messages age by the time of the log", ages_by_the_log);
    RUN("a message lives as long as it says, though a leader's clock was ahead before",
        lives_by_the_clock_of_its_entry);
    return TEST_RESULT();
}
