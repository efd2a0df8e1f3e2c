/* test_replicas_copies.c: a stream of three servers, one of which lacks what no log has any more
 * (group/replica_copy.c): it was away for too long, or is new. In the end it has the same as the others, to each
 * message's stamp, and the same is a duplicate there, whatever was killed meanwhile.
 *
 *     LEAFD_REPLICAS_SEEDS=1000 LEAFD_REPLICAS_SEED=7 build/dev/tests/native/test_replicas_copies
 */
#include "group/replica_private.h"
#include "groups_powercut.h"
#include "replicas_acts.h"
#include "store/copying.h"
#include "store/record.h"

static uint32_t whose_copy;

static bool has_copy(void) {
    return replicas[whose_copy]->copier.copied > 0;
}

/* Messages come and go, and one is away. */
static void begin_with(stream_config_t drawn, uint64_t seed) {
    config = drawn;
    begin_replicas(3, seed);
    for (uint32_t steps = 0; steps < 400; steps++) {
        if (below(3) == 0) {
            client_of_anything();
        }
        world_step();
    }
    world_until(all_level);
}

/* ---- records of consumers, sessions and sources ------------------------------------------------------------------ */

static void put_records(uint32_t at, uint32_t first, uint32_t count) {
    store_t *store = world.node[at].rig.store;
    for (uint32_t i = first; i < first + count; i++) {
        static const uint8_t kinds[] = {RECORD_CONSUMER, RECORD_CONSUMER_STATE, RECORD_SOURCE, RECORD_CONSUMER_PENDING};
        static const uint8_t of_sessions[] = {RECORD_SESSION, RECORD_SESSION_IN, RECORD_SESSION_OUT,
                                              RECORD_SESSION_WILL, RECORD_SESSION_SHARED};
        uint8_t key[16];
        store_be32(key, 1);
        store_be32(key + 4, i / 4);
        store_be64(key + 8, i);
        status_t status = store_record_put(store, kinds[i % 4], bytes_of(key, i % 4 == 3 ? 16 : 8), bytes_of(key, 5));
        CHECK_EQ_I64(STATUS_OK, status);
        status = store_record_put(store, of_sessions[i % 5], bytes_of(key, 8), bytes_of(key, 8));
        CHECK_EQ_I64(STATUS_OK, status);
    }
}

static bool add_record(void *context, bytes_t key, bytes_t value) {
    uint64_t *digest = context;
    *digest = *digest * 31 + hash_bytes(key.at, key.size) + hash_bytes(value.at, value.size);
    return true;
}

static uint64_t records_of(uint32_t at) {
    uint64_t digest = 1;
    uint8_t id[4] = {0, 0, 0, 1};
    for (uint32_t kind = 0; kind < 20; kind++) {
        if (kind == RECORD_CONSUMER || kind == RECORD_CONSUMER_STATE || kind == RECORD_CONSUMER_PENDING
            || kind == RECORD_SOURCE || (kind >= RECORD_SESSION && kind <= RECORD_SESSION_SHARED)) {
            store_t *store = world.node[at].rig.store;
            CHECK_EQ_I64(LIST_WHOLE, store_record_each(store, kind, bytes_of(id, 4), BYTES_NONE, add_record, &digest));
        }
    }
    return digest;
}

static void away_for_long(void) {
    for (uint64_t seed = 0; seed < 5; seed++) {
        stream_config_t drawn = config_drawn(seed);
        drawn.flags |= seed % 2 == 0 ? STREAM_COMPRESS : 0;
        begin_with(drawn, 77 + seed);
        uint32_t away = one_but(world_leader(0));
        put_records(away, 40, 9); /* which the others have no more */
        put_records((away + 1) % 3, 10, 40);
        put_records((away + 2) % 3, 10, 40);
        leave_behind(away);
        node_start(away);
        whose_copy = away;
        for (uint32_t steps = 0; steps < 300 || !has_copy(); steps++) {
            CHECK(steps < 20000);
            if (below(4) == 0) {
                client_of_anything(); /* the copy is of a stream that goes on */
            }
            world_step();
        }
        replicas_agree();
        CHECK_EQ_U64(records_of((away + 1) % 3), records_of(away));
        CHECK(records_of(away) != 1);
        for (uint32_t steps = 0; steps < 300; steps++) {
            if (below(3) == 0) {
                client_of_anything(); /* of ids that come again, too */
            }
            world_step();
        }
        replicas_agree();
        world_end();
    }
}

/* On a far way a part is given before the one before it has arrived. */
static void parts_overlap(void) {
    begin_with(config_drawn(0), 211);
    uint32_t away = one_but(world_leader(0));
    leave_behind(away);
    world.far_ns = 300 * NS_PER_MS;
    node_start(away);
    whose_copy = away;
    uint32_t beside = 0;
    uint32_t last = UINT32_MAX;
    for (uint32_t steps = 0; !has_copy(); steps++) {
        CHECK(steps < 20000);
        uint32_t leader = world_leader(0);
        const copier_t *takes = &replicas[away]->copier;
        const copier_t *gives = leader < 3 ? &replicas[leader]->copier : NULL;
        if (gives != NULL && gives->giving != NULL && takes->part != last) {
            bool two = takes->id == gives->giving_id && gives->giving_part == takes->part + 2;
            beside += two;
            last = two ? takes->part : last;
        }
        world_step();
    }
    CHECK(beside >= 1); /* else one part would be given for each that has come */
    replicas_agree();
    world_end();
}

/* Either end dies, or both, or nobody hears the other, while the copy is on its way. */
static void harm_copy(uint32_t away) {
    for (uint32_t i = 0; i < 6; i++) {
        world_pass((1 + below(60)) * STEP_NS);
        uint32_t at = below(2) == 0 ? away : below(3);
        if (below(3) == 0) {
            world.loss = below(300);
            world.late_ns = below(400) * NS_PER_MS;
        } else if (world.node[at].up) {
            node_kill(at);
            world_pass(below(100) * STEP_NS);
            node_start(at);
        }
        if (below(3) == 0) {
            publish_large(5);
        }
    }
}

static void cut_off_copies(void) {
    const char *from = getenv("LEAFD_REPLICAS_SEED");
    const char *count = getenv("LEAFD_REPLICAS_SEEDS");
    uint64_t seed = from != NULL ? strtoull(from, NULL, 10) : 1;
    for (uint64_t left = count != NULL ? strtoull(count, NULL, 10) : 4; left > 0; left--, seed++) {
        if (count != NULL) {
            printf("seed %llu\n", (unsigned long long)seed);
        }
        begin_with(config_drawn(seed), seed * 7919);
        uint32_t away = one_but(world_leader(0));
        leave_behind(away);
        node_start(away);
        harm_copy(away);
        replicas_agree();
        publish_large(5);
        replicas_agree();
        world_end();
    }
}

/* A disk that has nothing, as a new one has, or one that was wiped. */
static void new_member(void) {
    config = config_drawn(0);
    config.max_msgs = 100;
    guest_replicas();
    begin_with_others(4, 53);
    world_until(all_lead);
    publish_large(120);
    world_pass(7 * NS_PER_SECOND);
    change_until(RAFT_LEARN, 3);
    publish_large(10);
    whose_copy = 3;
    world_until(has_copy);
    change_until(RAFT_PROMOTE, 3);
    world_until(all_level);
    replicas_agree();
    CHECK(rig_state(world.node[3].stream[0]).messages > 50);
    world_end();
}

/* A stream that has just been shared has a log that begins with its members, and nothing of it is in a snapshot yet. */
static void soon_level(void) {
    int64_t longest_ns = 0;
    for (uint64_t seed = 0; seed < 8; seed++) {
        config = config_drawn(0);
        guest_replicas();
        begin_with_others(4, 353 + seed);
        world_until(all_lead);
        publish_large(120);
        world_pass(7 * NS_PER_SECOND);
        change_until(RAFT_LEARN, 3);
        whose_copy = 3;
        int64_t begun_ns = world.now.mono_ns;
        world_until(has_copy);
        int64_t took_ns = world.now.mono_ns - begun_ns;
        longest_ns = took_ns > longest_ns ? took_ns : longest_ns;
        world_end();
    }
    CHECK(longest_ns < NS_PER_SECOND);
}

/* What its disk is left with, of any write while the copy comes, and begins again from there. */
static void power_cuts(void) {
    const char *cuts = getenv("LEAFD_POWER_CUTS");
    const char *seed = getenv("LEAFD_POWER_SEED");
    chance.state = seed != NULL ? strtoull(seed, NULL, 10) : 1;
    for (uint32_t left = cuts != NULL ? (uint32_t)strtoul(cuts, NULL, 10) / 100 : 4; left > 0; left--) {
        begin_with(config_drawn(left), powercut_next(&chance) | 1);
        uint32_t away = one_but(world_leader(0));
        leave_behind(away);
        powercut_record(world.node[away].rig.directory);
        node_start(away);
        world_pass((1 + drawn_below(800)) * STEP_NS);
        cut_power(away);
        publish_large(drawn_below(10));
        node_start(away);
        replicas_agree();
        publish_large(5);
        replicas_agree();
        world_end();
    }
}

/* ---- parts of who lies ------------------------------------------------------------------------------------------- */

typedef enum harm { HARM_NONE, HARM_BYTES, HARM_SHORT } harm_t;

static void spoil(buffer_t *part) {
    for (uint32_t i = 1 + below(4); i > 0; i--) {
        part->at[below((uint32_t)part->size)] = (uint8_t)below(256);
    }
    part->size -= below(8) == 0 ? below((uint32_t)part->size) : 0;
}

/* Another store takes what that one gives, part after part; some of them are spoiled, or the one of that number lacks
 * its last byte. *parts: how many were given. */
static status_t take_harmed(giving_t *giving, store_stream_t *to, store_t *store, harm_t harm, uint32_t *parts) {
    taking_t taking = {0};
    buffer_t part;
    bool all = false;
    status_t status = STATUS_OK;
    uint32_t shortened = *parts;
    buffer_init(&part, 1 << 20);
    for (*parts = 0; !all && status == STATUS_OK; ++*parts) {
        part.size = 0;
        CHECK_EQ_I64(STATUS_OK, store_give(giving, 2000, &part, &all));
        CHECK(part.size > 0);
        if (harm == HARM_BYTES && below(3) == 0) {
            spoil(&part);
        }
        part.size -= harm == HARM_SHORT && *parts == shortened;
        bytes_t left = bytes_of(part.at, (uint32_t)part.size);
        for (int64_t until = 0; (status = store_take(to, &taking, &left)) == STATUS_AGAIN && patient(&until);) {
            store_tick(store, world.now);
        }
    }
    status = status == STATUS_OK && !taking.whole ? STATUS_CORRUPT : status;
    status = status == STATUS_OK ? store_take_end(to, &taking) : status;
    buffer_free(&part);
    return status;
}

/* Into a new store. */
static status_t copy_harmed(const node_t *from, harm_t harm, uint32_t *parts) {
    giving_t *giving;
    raft_index_t index;
    rig_t other = {.in_memory = true};
    rig_open(&other);
    store_stream_t *to = rig_stream(&other, 1, config);
    store_stream_time(to, 0, 0);
    CHECK_EQ_I64(STATUS_OK, store_give_begin(from->stream[0], 1, 0, &giving, &index));
    status_t status = take_harmed(giving, to, other.store, harm, parts);
    if (harm == HARM_NONE) {
        CHECK_EQ_U64(rig_state(from->stream[0]).messages, rig_state(to).messages);
        CHECK_EQ_U64(rig_state(from->stream[0]).last_seq, rig_state(to).last_seq);
    }
    CHECK(stream_sound(to));
    store_give_end(giving);
    rig_close(&other);
    return status;
}

/* Frames have a checksum, so such a part is a leader's who lies: what the end says is its word. */
static void nonsense(void) {
    uint32_t parts = 0;
    begin_with(config_drawn(0), 101);
    publish_large(5);
    world_pass(25 * NS_PER_SECOND); /* LMDB has it */
    const node_t *node = &world.node[0];
    CHECK_EQ_I64(STATUS_OK, copy_harmed(node, HARM_NONE, &parts));
    CHECK(parts >= 3);
    for (uint32_t i = 0; i < parts; i++) {
        uint32_t shortened = i;
        CHECK_EQ_I64(STATUS_CORRUPT, copy_harmed(node, HARM_SHORT, &shortened));
        CHECK_EQ_U64(i + 1, shortened); /* nothing is taken behind it */
    }
    for (uint32_t i = 0; i < 120; i++) {
        uint32_t any = 0;
        status_t status = copy_harmed(node, HARM_BYTES, &any); /* another time, or another payload, fits */
        CHECK(status == STATUS_OK || status == STATUS_CORRUPT);
    }
    world_end();
}

/* A leader whose copies do not fit together is asked for three, and then each minute; it is said once. */
static void spoiled_copies_are_said(void) {
    static const uint8_t offer[] = {1, 'O'};
    static const uint8_t part[15] = {1, 'P', [9] = 1, [14] = 0xff};
    store_alarm_t alarm;
    uint32_t said = 0;
    begin_with(config_drawn(0), 99);
    uint32_t behind = one_but(world_leader(0));
    replica_t *replica = replicas[behind];
    copier_t *copier = &replica->copier;
    group_said_t word = {.of_leader = true};
    for (uint32_t copies = 1; copies <= 3; copies++) {
        word.bytes = bytes_of(offer, sizeof offer);
        copier_hear(replica, &word, world.now);
        world.now.mono_ns += NS_PER_SECOND;
        copier_turn(replica, world.now);
        CHECK(copier->asking);
        word.bytes = bytes_of(part, sizeof part);
        copier_hear(replica, &word, world.now);
        copier_turn(replica, world.now);
        CHECK_EQ_U64(copies, copier->spoiled);
        CHECK_EQ_I64(world.now.mono_ns + (copies < 3 ? 1 : 60) * NS_PER_SECOND, copier->ask_ns);
    }
    while (store_alarm_next(store_stream_store(replica->stream), &alarm)) {
        said += strstr(alarm.text, "3 copies of stream 1 that its leader gave do not fit together") != NULL;
    }
    CHECK_EQ_U64(1, said);
    world_end();
}

int main(void) {
    RUN("who was away for too long gets a copy, and is the same in the end", away_for_long);
    RUN("of a copy that comes from far away two parts are under way at once", parts_overlap);
    RUN("a copy that is cut off at either end comes to its end all the same", cut_off_copies);
    RUN("a new member gets a copy", new_member);
    RUN("a new member does not wait longer for its copy than its leader for a snapshot", soon_level);
    RUN("a copy comes to its end though the power fails at any write of it", power_cuts);
    RUN("parts of a leader who lies end no server and leave sound numbers, and no part may lack a byte", nonsense);
    RUN("copies that do not fit together are said, and asked for each minute", spoiled_copies_are_said);
    return TEST_RESULT();
}
