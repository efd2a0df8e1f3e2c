/* group_rig.h: a group of one member on a store of its own, whose entries become messages of a stream, for the C tests
 * of native/group. Entry n says "entry n".
 */
#ifndef LEAFD_TESTS_GROUP_RIG_H
#define LEAFD_TESTS_GROUP_RIG_H

#include "group/group.h"
#include "store_rig.h"

#define ANSWERS 4096

static rig_t rig;
static group_t *group;
static store_stream_t *stream;
static bool refuses;     /* what an entry asks for has no room */
static uint64_t applied; /* by the hook */
static uint64_t answers[ANSWERS];
static uint32_t answered;
static raft_outputs_t outputs;
static uint32_t lost; /* of these, whose outcome is not known */

static inline bool apply(void *context, raft_index_t index, bytes_t bytes) {
    (void)context;
    (void)index;
    if (refuses) {
        return false;
    }
    append_t append = {.subject = text("s"), .payload = bytes};
    appended_t done = store_append(stream, &append, rig.now);
    applied += done.verdict == APPEND_STORED;
    return done.verdict == APPEND_STORED;
}

static inline void answer(void *context, uint64_t token, bool is_applied) {
    (void)context;
    CHECK(answered < ANSWERS);
    answers[answered++] = token;
    lost += !is_applied;
}

static inline group_options_t options(uint32_t number) {
    return (group_options_t){.store = rig.store,
                             .number = number,
                             .peer = 77,
                             .name = 7700 + number,
                             .outputs = &outputs,
                             .times = {.election_ns = 1500 * NS_PER_MS,
                                       .lease_ns = 1200 * NS_PER_MS,
                                       .beat_ns = 200 * NS_PER_MS,
                                       .rest_ns = 600 * NS_PER_MS},
                             .seed = number + 1,
                             .hooks = {.apply = apply, .answer = answer}};
}

static inline void open_all(void) {
    group_options_t with = options(5);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_I64(STATUS_OK, group_open(&with, rig.now, &group));
    answered = lost = 0;
    refuses = false;
}

static inline void begin(void) {
    rig = (rig_t){.in_memory = true, .options = {.ledgers = true}};
    rig_open(&rig);
    group_options_t with = options(5);
    CHECK_EQ_I64(STATUS_OK, group_open(&with, rig.now, &group));
    CHECK(group == NULL); /* the store has none */
    CHECK_EQ_I64(STATUS_OK, group_make(&with, rig.now, &group));
    stream = rig_stream(&rig, 1, rig_config());
    answered = lost = 0;
    applied = 0;
    refuses = false;
}

static inline void end(void) {
    group_close(group);
    rig_close(&rig);
}

/* As the plane: the group, the store, the group. */
static inline void turn(void) {
    group_turn(group, rig.now);
    store_tick(rig.store, rig.now);
    group_turn(group, rig.now);
    while (store_advanced_next(rig.store) != NULL) {
    }
    struct pollfd poller = {.fd = store_wake_fd(rig.store), .events = POLLIN};
    poll(&poller, 1, 1);
}

static inline void turns_until(bool (*done)(void)) {
    for (int64_t until = 0; patient(&until);) {
        if (done()) {
            return;
        }
        turn();
        rig_pass(&rig, 20 * NS_PER_MS);
    }
    FAIL("the group does not come to it");
}

static inline bool leads(void) {
    return group_leads(group);
}

static uint32_t awaited;
static inline bool all_answered(void) {
    return answered >= awaited;
}

static inline void propose(uint64_t token) {
    char bytes[32];
    int size = snprintf(bytes, sizeof bytes, "entry %llu", (unsigned long long)token);
    status_t status = group_propose(group, bytes_of(bytes, (uint32_t)size), token);
    for (int64_t until = 0; status == STATUS_AGAIN && patient(&until);) {
        turn();
        rig_pass(&rig, NS_PER_MS);
        status = group_propose(group, bytes_of(bytes, (uint32_t)size), token);
    }
    CHECK_EQ_I64(STATUS_OK, status);
}

static inline void await(uint32_t count) {
    awaited = count;
    turns_until(all_answered);
    CHECK_EQ_U64(count, answered);
}

/* Message n is entry n, and there are so many. */
static inline void check_messages(uint64_t count) {
    CHECK_EQ_U64(count, rig_state(stream).messages);
    for (uint64_t seq = 1; seq <= count; seq++) {
        stored_message_t message;
        char bytes[32];
        int size = snprintf(bytes, sizeof bytes, "entry %llu", (unsigned long long)seq);
        CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, seq, &message));
        CHECK_BYTES(bytes, (uint32_t)size, message.payload.at, message.payload.size);
    }
}

#endif
