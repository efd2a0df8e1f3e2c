/* test_store_allowance.c: what the streams of one owner may have in a store: exact to the byte, whatever puts messages
 * in and takes them out. Counts are nats-server 2.15.1's: 30 bytes, subject and payload (34 with a header).
 */
#include "base/number.h"
#include "store_rig.h"

static rig_t rig;
static allowance_t owner;

#define TEN "0123456789"
#define SIZE 41 /* of TEN on a subject of one letter */

static store_stream_t *charged(uint32_t id, stream_config_t config) {
    store_stream_t *stream = rig_stream(&rig, id, config);
    store_stream_charge(stream, &owner);
    return stream;
}

static store_stream_t *start(stream_config_t config, uint64_t limit) {
    rig = (rig_t){0};
    rig_open(&rig);
    allowance_begin(&owner, 7);
    store_allow(rig.store, &owner, limit, 0);
    return charged(1, config);
}

static append_verdict_t put(store_stream_t *stream, const char *subject) {
    append_verdict_t verdict = rig_put(&rig, stream, subject, TEN).verdict;
    CHECK(store_sound(rig.store));
    return verdict;
}

/* There is room for so many messages and for no more. */
static void takes(store_stream_t *stream, const char *subject, unsigned count) {
    while (count-- > 0) CHECK_EQ_U64(APPEND_STORED, put(stream, subject));
    CHECK_EQ_U64(APPEND_NO_ALLOWANCE, put(stream, subject));
}

static void exact_to_the_byte(void) {
    for (unsigned less = 0; less < 2; less++) {
        store_stream_t *stream = start(rig_config(), 3 * SIZE - less);
        takes(stream, "a", 3 - less);
        CHECK_EQ_U64((3 - less) * SIZE, owner.bytes);
        CHECK_EQ_U64(3 - less, rig_state(stream).last_seq); /* what is refused takes no sequence */
        append_t skip = {.subject = text("a"), .skip = true};
        CHECK_EQ_U64(APPEND_SKIPPED,
                     store_append(stream, &skip, rig.now).verdict); /* nobody wants it: no room needed */
        rig_close(&rig);
    }
}

static void over_all_streams_of_the_owner(void) {
    store_stream_t *one = start(rig_config(), 4 * SIZE);
    store_stream_t *two = charged(2, rig_config());
    allowance_t other_owner;
    allowance_begin(&other_owner, 8);
    store_stream_t *other = rig_stream(&rig, 3, rig_config());
    store_stream_charge(other, &other_owner);
    CHECK_EQ_U64(APPEND_STORED, put(one, "a"));
    takes(two, "b", 3);
    CHECK_EQ_U64(APPEND_NO_ALLOWANCE, put(one, "a"));
    CHECK_EQ_U64(APPEND_STORED, put(other, "a"));
    CHECK_EQ_U64(SIZE, other_owner.bytes);
    CHECK_EQ_I64(STATUS_OK, store_stream_remove(two));
    CHECK(store_sound(rig.store));
    takes(one, "a", 3);
    rig_close(&rig);
}

static void a_removal_makes_room_for_as_much(void) {
    store_stream_t *stream = start(rig_config(), 5 * SIZE);
    takes(stream, "a", 5);
    CHECK_EQ_I64(STATUS_OK, store_delete(stream, 3));
    takes(stream, "b", 1);
    CHECK_EQ_U64(3, rig_purge(stream, text("a"), 5, 0));
    takes(stream, "b", 3);
    CHECK_EQ_U64(3, rig_purge(stream, BYTES_NONE, 0, 2));
    takes(stream, "a", 3);
    CHECK_EQ_U64(5, rig_purge(stream, BYTES_NONE, 0, 0));
    CHECK_EQ_U64(0, owner.bytes);
    takes(stream, "a", 5);
    rig_close(&rig);
}

/* As nats-server has it: what a limit of the stream, or a rollup, would take out for it is still there. */
static void limits_of_the_stream_make_no_room_for_what_comes(void) {
    stream_config_t config = rig_config();
    config.max_msgs = 3;
    config.max_msgs_per_subject = 2;
    store_stream_t *stream = start(config, 2 * SIZE);
    takes(stream, "a", 2);
    CHECK_EQ_U64(2, rig_state(stream).messages);
    CHECK_EQ_U64(APPEND_NO_ALLOWANCE, put(stream, "a"));
    append_t rollup = {.subject = text("a"), .payload = text(TEN), .rollup = 2};
    CHECK_EQ_U64(APPEND_NO_ALLOWANCE, store_append(stream, &rollup, rig.now).verdict);
    store_allow(rig.store, &owner, 3 * SIZE, 0);
    CHECK_EQ_U64(APPEND_STORED, put(stream, "a"));
    CHECK_EQ_U64(2 * SIZE, owner.bytes);
    CHECK_EQ_U64(APPEND_STORED, store_append(stream, &rollup, rig.now).verdict);
    CHECK_EQ_U64(SIZE, owner.bytes);
    rig_close(&rig);
}

static void time_makes_room(void) {
    stream_config_t config = rig_config();
    config.max_age_ns = 10 * NS_PER_SECOND;
    config.flags |= STREAM_ALLOW_TTL;
    store_stream_t *stream = start(config, 3 * SIZE);
    append_t one = {.subject = text("a"), .payload = text(TEN), .expires_ts = rig.now.wall_ns + 2 * NS_PER_SECOND};
    CHECK_EQ_U64(APPEND_STORED, store_append(stream, &one, rig.now).verdict);
    takes(stream, "b", 2);
    rig_pass(&rig, 3 * NS_PER_SECOND);
    rig_sync(&rig);
    takes(stream, "b", 1);
    rig_pass(&rig, 20 * NS_PER_SECOND);
    rig_sync(&rig);
    CHECK_EQ_U64(0, owner.bytes);
    takes(stream, "b", 3);
    rig_close(&rig);
}

/* A marker is larger than what it takes the place of; beyond the allowance the message goes without one. */
static void a_marker_does_not_exceed_it(void) {
    stream_config_t config = rig_config();
    config.flags |= STREAM_ALLOW_TTL;
    config.marker_ttl_ns = 90 * NS_PER_SECOND;
    config.max_age_ns = 5 * NS_PER_SECOND;
    store_stream_t *stream = start(config, 30 * SIZE);
    for (char subject[2] = "a"; subject[0] <= 'z'; subject[0]++) CHECK_EQ_U64(APPEND_STORED, put(stream, subject));
    takes(stream, "z", 4);
    for (int i = 0; i < 7; i++) {
        rig_pass(&rig, NS_PER_SECOND);
        rig_sync(&rig);
        CHECK(owner.bytes <= owner.limit);
    }
    uint64_t markers = rig_state(stream).messages;
    CHECK(markers > 2 && markers < 26);
    CHECK_EQ_U64(markers, rig_state(stream).subjects);
    CHECK_EQ_U64(0, rig_state(stream).bytes % markers); /* they are alike: markers, and nothing else */
    rig_pass(&rig, 100 * NS_PER_SECOND);
    rig_sync(&rig);
    CHECK_EQ_U64(0, owner.bytes);
    rig_close(&rig);
}

static void over_a_restart_and_a_kill(void) {
    store_stream_t *stream = start(rig_config(), 5 * SIZE);
    takes(stream, "a", 5);
    CHECK_EQ_I64(STATUS_OK, store_delete(stream, 2));
    for (int i = 0; i < 3; i++) {
        rig_sync(&rig);
        if (i == 1) rig_checkpoint(&rig);
        if (i == 0) {
            rig_reopen(&rig);
        } else {
            rig_crash(&rig);
        }
        allowance_begin(&owner, 7);
        stream = charged(1, rig_config());
        CHECK_EQ_U64(4 * SIZE, owner.bytes);
        store_allow(rig.store, &owner, 5 * SIZE, 0);
        takes(stream, "b", 1);
        CHECK_EQ_I64(STATUS_OK, store_delete(stream, rig_state(stream).last_seq));
    }
    rig_close(&rig);
}

static void a_group_is_whole_or_nothing(void) {
    store_stream_t *stream = start(rig_config(), 5 * SIZE);
    CHECK_EQ_U64(APPEND_STORED, put(stream, "a"));
    append_t append = {.subject = text("a"), .payload = text(TEN)};
    append_group_t group = {0};
    for (int i = 0; i < 4; i++)
        CHECK_EQ_U64(APPEND_STORED, store_group_look(stream, &group, &append, 0, rig.now).verdict);
    CHECK_EQ_U64(APPEND_NO_ALLOWANCE, store_group_look(stream, &group, &append, 0, rig.now).verdict);
    CHECK_EQ_U64(SIZE, owner.bytes);
    CHECK_EQ_I64(STATUS_OK, store_group_reserve(stream, &group));
    for (int i = 0; i < 4; i++) CHECK_EQ_U64(APPEND_STORED, store_group_append(stream, &append, rig.now).verdict);
    store_group_end(stream);
    CHECK_EQ_U64(5 * SIZE, owner.bytes);
    CHECK_EQ_U64(APPEND_NO_ALLOWANCE, put(stream, "a"));
    rig_close(&rig);
}

/* What a stream of memory counts is less: 16 bytes a message. */
static void each_kind_of_store_counts_as_it_does(void) {
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    allowance_begin(&owner, 7);
    store_allow(rig.store, &owner, 2 * 27, 0);
    stream_config_t config = rig_config();
    config.storage = 1;
    takes(charged(1, config), "a", 2);
    rig_close(&rig);
}

static void tells(uint32_t level) {
    allowance_t *told = store_allowance_next(rig.store);
    CHECK(told == &owner);
    CHECK_EQ_U64(level, told->level);
    CHECK(store_allowance_next(rig.store) == NULL);
}

static void a_crossing_is_told_once(void) {
    store_stream_t *stream = start(rig_config(), 20 * SIZE);
    for (int i = 0; i < 16; i++) CHECK_EQ_U64(APPEND_STORED, put(stream, "a"));
    CHECK(store_allowance_next(rig.store) == NULL); /* exactly 80 % */
    CHECK_EQ_U64(APPEND_STORED, put(stream, "a"));
    tells(ALLOWANCE_LEVEL_NEAR);
    for (uint64_t seq = 1; seq <= 2; seq++) { /* between 75 and 80 %: back and forth is no news */
        CHECK_EQ_I64(STATUS_OK, store_delete(stream, seq));
        CHECK_EQ_U64(APPEND_STORED, put(stream, "a"));
    }
    CHECK(store_allowance_next(rig.store) == NULL);
    takes(stream, "a", 3);
    CHECK_EQ_U64(APPEND_NO_ALLOWANCE, put(stream, "a"));
    tells(ALLOWANCE_LEVEL_FULL);
    CHECK_EQ_U64(5, rig_purge(stream, BYTES_NONE, 0, 15));
    CHECK(store_allowance_next(rig.store) == NULL); /* exactly 75 % */
    CHECK_EQ_U64(1, rig_purge(stream, BYTES_NONE, 0, 14));
    tells(ALLOWANCE_LEVEL_BELOW);
    takes(stream, "a", 6);
    tells(ALLOWANCE_LEVEL_FULL); /* both levels since it was asked: the last one counts */
    rig_close(&rig);
}

static void another_limit_counts_at_once(void) {
    store_stream_t *stream = start(rig_config(), UINT64_MAX);
    for (int i = 0; i < 10; i++) CHECK_EQ_U64(APPEND_STORED, put(stream, "a"));
    store_allow(rig.store, &owner, 4 * SIZE, 0);
    CHECK_EQ_U64(10, rig_state(stream).messages); /* nothing goes */
    tells(ALLOWANCE_LEVEL_NEAR);
    CHECK_EQ_U64(APPEND_NO_ALLOWANCE, put(stream, "a"));
    CHECK_EQ_U64(6, rig_purge(stream, BYTES_NONE, 0, 4));
    CHECK_EQ_U64(APPEND_NO_ALLOWANCE, put(stream, "a"));
    CHECK_EQ_U64(1, rig_purge(stream, BYTES_NONE, 0, 3));
    takes(stream, "a", 1);
    store_allow(rig.store, &owner, 6 * SIZE, 0);
    takes(stream, "a", 2);
    store_allow(rig.store, &owner, UINT64_MAX, 0);
    for (int i = 0; i < 10; i++) CHECK_EQ_U64(APPEND_STORED, put(stream, "a"));
    store_allow(rig.store, &owner, 0, 0);
    CHECK_EQ_U64(16, rig_purge(stream, BYTES_NONE, 0, 0));
    CHECK_EQ_U64(APPEND_NO_ALLOWANCE, put(stream, "a"));
    rig_close(&rig);
}

/* Against a twin that adds up what each stream says, whatever happens to three streams of one owner. */
static void never_exceeded(void) {
    stream_config_t config = rig_config();
    config.flags |= STREAM_ALLOW_TTL;
    config.marker_ttl_ns = 3 * NS_PER_SECOND;
    config.max_age_ns = 8 * NS_PER_SECOND;
    store_stream_t *streams[3] = {start(config, 4000)};
    config.max_msgs = 20;
    config.max_msgs_per_subject = 3;
    streams[1] = charged(2, config);
    config.max_bytes = 1000;
    config.discard = 1;
    streams[2] = charged(3, config);
    uint64_t seed = 20261123;
    unsigned refused = 0;
    static const char *const subjects[] = {"a", "b", "c.d", "e"};
    static const uint8_t payload[200];
    for (int round = 0; round < 4000; round++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        uint64_t draw = seed >> 33;
        store_stream_t *stream = streams[draw % 3];
        append_t append = {.subject = text(subjects[draw / 3 % 4]),
                           .payload = bytes_of(payload, (uint32_t)(draw / 12 % 200)),
                           .header = draw % 5 == 0 ? text("NATS/1.0\r\nA: b\r\n\r\n") : BYTES_NONE,
                           .rollup = draw % 31 == 0 ? (uint8_t)(1 + draw % 2) : 0,
                           .expires_ts = draw % 7 == 0 ? rig.now.wall_ns + NS_PER_SECOND : 0};
        uint64_t before = owner.bytes;
        uint64_t size =
            (append.header.size > 0 ? 34u : 30u) + append.subject.size + append.header.size + append.payload.size;
        append_verdict_t verdict = store_append(stream, &append, rig.now).verdict;
        refused += verdict == APPEND_NO_ALLOWANCE;
        CHECK(verdict == APPEND_NO_ALLOWANCE ? before + size > 4000 : before + size <= 4000);
        if (draw % 11 == 0) (void)!store_delete(stream, rig_state(stream).first_seq);
        if (draw % 97 == 0) (void)rig_purge(stream, text(subjects[draw % 4]), 0, 0);
        if (draw % 13 == 0) {
            rig_pass(&rig, NS_PER_SECOND / 2);
            rig_sync(&rig);
        }
        uint64_t sum = 0;
        for (int i = 0; i < 3; i++) sum += store_stream_bytes(streams[i]);
        CHECK_EQ_U64(sum, owner.bytes);
        CHECK(sum <= 4000);
    }
    CHECK(refused > 100);
    rig_close(&rig);
}

int main(void) {
    RUN("an owner's streams take messages up to the last byte of what they may have, and not one more",
        exact_to_the_byte);
    RUN("all streams of an owner count together, those of others do not", over_all_streams_of_the_owner);
    RUN("what is deleted, purged or removed makes room for as much", a_removal_makes_room_for_as_much);
    RUN("a message that only a limit of its stream would make room for is refused",
        limits_of_the_stream_make_no_room_for_what_comes);
    RUN("what expires makes room", time_makes_room);
    RUN("delete markers never exceed it", a_marker_does_not_exceed_it);
    RUN("a restart and a kill count what is there", over_a_restart_and_a_kill);
    RUN("a group has room for all of it, or is not stored", a_group_is_whole_or_nothing);
    RUN("a stream of memory counts its own way", each_kind_of_store_counts_as_it_does);
    RUN("80 % and a refusal are told once, and again after it fell below 75 %", a_crossing_is_told_once);
    RUN("another limit counts at once and removes nothing", another_limit_counts_at_once);
    RUN("it is never exceeded, and what fits is taken, whatever happens to its streams", never_exceeded);
    return TEST_RESULT();
}
