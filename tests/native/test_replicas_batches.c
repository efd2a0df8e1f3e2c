/* test_replicas_batches.c: batches of a stream that three servers keep (group/replica_batch.c), while those are killed,
 * stopped and cut off (replicas_world.h).
 *
 *     a batch is there as a whole, one message behind the other, or not at all: at each member, whoever died
 *     what was answered is there, once; what was refused is not
 *
 *     LEAFD_REPLICAS_SEEDS=1000 LEAFD_REPLICAS_SEED=7 build/dev/tests/native/test_replicas_batches
 */
#include "replicas_acts.h"

#define SHORT 5u

/* Each message says its batch, its place there, and of how many. */
static void write_place(uint8_t payload[8], uint64_t number, uint32_t place, uint32_t count) {
    store_be64(payload, number << 16 | (uint64_t)place << 8 | count);
}

static uint64_t batches;

/* New ones, others again, and lone messages between. */
static void client_of_batches(void) {
    char id[BATCH_MAX][24];
    uint8_t payload[BATCH_MAX][8];
    append_t messages[BATCH_MAX] = {0};
    bool again = batches > 0 && below(4) == 0;
    uint64_t number = again ? 1 + below((uint32_t)batches) : batches + 1;
    uint32_t count = 1 + (uint32_t)(number * 7 % SHORT);
    for (uint32_t i = 0; i < count; i++) {
        snprintf(id[i], sizeof id[i], "b%llu.%u", (unsigned long long)number, i);
        write_place(payload[i], number, i, count);
        messages[i] = (append_t){
            .subject = text(i % 2 == 0 ? "s.0" : "s.1"), .msg_id = text(id[i]), .payload = bytes_of(payload[i], 8)};
    }
    messages[0].has_expected_last_seq = below(3) == 0;
    messages[0].expected_last_seq = last_seq_somewhere();
    batches += ask_batch(messages, count, number) && !again;
}

/* The sequence of each batch's first message, 0: it is not there. Every one that has begun has come to its end. */
static void find_batches(uint64_t first_of[OPS_MAX]) {
    store_stream_t *stream = world.node[0].stream[0];
    uint64_t last = rig_state(stream).last_seq;
    memset(first_of, 0, OPS_MAX * sizeof *first_of);
    for (uint64_t seq = 1; seq <= last;) {
        stored_message_t message;
        CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, seq, &message));
        uint64_t said = load_be64(message.payload.at);
        CHECK_EQ_U64(0, said >> 8 & 0xff);
        CHECK(said >> 16 < OPS_MAX);
        CHECK_EQ_U64(0, first_of[said >> 16]); /* once */
        first_of[said >> 16] = seq;
        for (uint32_t place = 0; place < (said & 0xff); place++, seq++) {
            CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, seq, &message));
            CHECK_EQ_U64(said >> 16 << 16 | (uint64_t)place << 8 | (said & 0xff), load_be64(message.payload.at));
        }
    }
}

static uint32_t answers_agree(void) {
    static uint64_t first_of[OPS_MAX];
    uint32_t stored = 0;
    find_batches(first_of);
    for (uint64_t token = 1; token <= ops_count; token++) {
        const op_t *op = &ops[token];
        uint64_t first = first_of[op->number];
        if (op->known && op->verdict == APPEND_STORED) {
            CHECK_EQ_U64(first + (op->number * 7 % SHORT), op->seq);
            stored++;
        } else if (op->known && op->verdict == APPEND_DUPLICATE) {
            CHECK(first != 0);
        } else if (op->known) {
            CHECK_EQ_I64(APPEND_WRONG_LAST_SEQ, op->verdict);
        }
    }
    return stored;
}

static void whole_or_not_at_all(void) {
    uint64_t seed;
    uint64_t stored = 0;
    for (uint64_t left = seeds(4, &seed); left > 0; left--, seed++) {
        config = rig_config();
        begin_replicas(3, seed * 6007 + 1);
        batches = 0;
        live_rounds(client_of_batches, 12);
        stored += answers_agree();
        world_end();
    }
    CHECK(stored > 60);
}

/* ---- counters ---------------------------------------------------------------------------------------------------- */

/* A message's first 8 bytes are what it adds, and become the sum; behind them is whose it is. */
static append_verdict_t adds(void *context, const append_t *before, append_t *append) {
    static uint8_t summed[16];
    store_stream_t *stream = context;
    stored_message_t last = {.payload = BYTES_NONE};
    entry_outcome_t outcome = ENTRY_FOUND;
    if (before != NULL) {
        last.payload = before->payload;
    } else {
        outcome = store_last_by_subject(stream, append->subject, UINT64_MAX, &last);
    }
    CHECK(outcome == ENTRY_FOUND || outcome == ENTRY_NONE);
    uint64_t sum = last.payload.size == 16 ? load_be64(last.payload.at) : 0;
    CHECK_EQ_U64(16, append->payload.size);
    memcpy(summed + 8, append->payload.at + 8, 8);
    store_be64(summed, sum + load_be64(append->payload.at));
    append->payload = bytes_of(summed, sizeof summed);
    return sum > 1000000 ? APPEND_NO_INCREMENT : APPEND_STORED;
}

/* One increment or a batch of some, each of as much as says its number. */
static void client_of_counters(void) {
    uint8_t payload[BATCH_MAX][16];
    append_t messages[BATCH_MAX] = {0};
    uint32_t count = 1 + below(4);
    uint64_t number = ++batches;
    for (uint32_t i = 0; i < count; i++) {
        store_be64(payload[i], number % 90 + i);
        store_be64(payload[i] + 8, number << 16 | i << 8 | count);
        messages[i] = (append_t){.subject = text(below(2) == 0 ? "s.0" : "s.1"), .payload = bytes_of(payload[i], 16)};
    }
    (void)(count == 1 ? ask(ASK_PUBLISH, messages, 0, number) : ask_batch(messages, count, number));
}

/* Each sum is the one before it on its subject and what its message adds; what was acknowledged is among them, once. */
static uint32_t sums_agree(void) {
    static bool there[OPS_MAX];
    uint64_t sums[2] = {0};
    uint32_t stored = 0;
    memset(there, 0, sizeof there);
    for (uint64_t seq = 1; seq <= rig_state(world.node[0].stream[0]).last_seq; seq++) {
        stored_message_t message;
        CHECK_EQ_I64(ENTRY_FOUND, store_read(world.node[0].stream[0], seq, &message));
        uint64_t said = load_be64(message.payload.at + 8);
        uint64_t *sum = &sums[message.subject.at[2] - '0'];
        *sum += (said >> 16) % 90 + (said >> 8 & 0xff);
        CHECK_EQ_U64(*sum, load_be64(message.payload.at));
        CHECK((said >> 8 & 0xff) > 0 || !there[said >> 16]);
        there[said >> 16] = true;
    }
    for (uint64_t token = 1; token <= ops_count; token++) {
        CHECK(!ops[token].known || (ops[token].verdict == APPEND_STORED && there[ops[token].number]));
        stored += ops[token].known;
    }
    return stored;
}

static void sums_are_the_same(void) {
    uint64_t seed;
    uint64_t stored = 0;
    counts = adds;
    for (uint64_t left = seeds(4, &seed); left > 0; left--, seed++) {
        config = rig_config();
        begin_replicas(3, seed * 4409 + 1);
        batches = 0;
        live_rounds(client_of_counters, 12);
        stored += sums_agree();
        world_end();
    }
    CHECK(stored > 100);
    counts = NULL;
}

/* ---- what takes several turns ------------------------------------------------------------------------------------ */

#define MANY 1600u

static void publish_on(const char *subject, uint32_t count) {
    append_t append = {.subject = text(subject)};
    for (uint32_t left = count; left > 0;) {
        if (ask(ASK_PUBLISH, &append, 0, 0)) {
            left--;
        } else {
            world_step();
        }
    }
    world_until(all_heard);
}

static bool some_are_gone(void) {
    for (uint32_t at = 0; at < world.nodes; at++) {
        uint64_t messages = rig_state(world.node[at].stream[0]).messages;
        if (messages > 3 && messages < 2 * MANY) {
            return true;
        }
    }
    return false;
}

/* All servers die in the middle of the rollups of one batch, and each of them comes to its end. */
static void rollups_end_after_a_kill(void) {
    config = rig_config();
    config.flags |= STREAM_ALLOW_ROLLUP;
    begin_replicas(3, 77);
    publish_on("s.a", MANY);
    publish_on("s.b", MANY);
    world_until(all_level);
    const append_t messages[] = {
        {.subject = text("s.a"), .rollup = 1}, {.subject = text("s.c")}, {.subject = text("s.b"), .rollup = 1}};
    while (!ask_batch(messages, 3, 0)) {
        world_step();
    }
    world_until(some_are_gone);
    for (uint32_t at = 0; at < 3; at++) {
        node_kill(at);
    }
    ops_count = 0; /* nobody is answered by who is dead */
    for (uint32_t at = 0; at < 3; at++) {
        node_start(at);
    }
    world_until(all_lead);
    publish_on("s.a", 1);
    world_until(all_level);
    for (uint32_t at = 0; at < 3; at++) {
        CHECK_EQ_U64(4, rig_state(world.node[at].stream[0]).messages);
        CHECK_EQ_U64(2 * MANY + 4, rig_state(world.node[at].stream[0]).last_seq);
        CHECK_EQ_U64(digest_of(0), digest_of(at));
    }
    world_end();
}

/* ---- what refuses it --------------------------------------------------------------------------------------------- */

static append_verdict_t verdict_of(const append_t *messages, uint32_t count) {
    while (!ask_batch(messages, count, 0)) {
        world_step();
    }
    uint64_t token = ops_count;
    world_until(all_heard);
    CHECK(ops[token].known);
    return ops[token].verdict;
}

/* The last of its messages, or any other, is refused: nothing of it is stored. */
static void one_refuses_all(void) {
    config = rig_config();
    config.max_msgs = 4;
    config.discard = 1;
    config.flags &= ~(uint32_t)STREAM_ALLOW_ROLLUP;
    begin_replicas(3, 5);
    append_t messages[] = {{.subject = text("s.a"), .msg_id = text("x")}, {.subject = text("s.b")}};
    CHECK_EQ_I64(APPEND_STORED, verdict_of(messages, 2));
    CHECK_EQ_I64(APPEND_DUPLICATE, verdict_of(messages, 2));
    messages[0].msg_id = BYTES_NONE;
    messages[1].has_expected_subject_seq = true;
    messages[1].expected_subject_seq = 1;
    CHECK_EQ_I64(APPEND_WRONG_LAST_SEQ, verdict_of(messages, 2));
    messages[1].expected_subject_seq = 2;
    messages[1].rollup = 1;
    CHECK_EQ_I64(APPEND_NO_ROLLUP, verdict_of(messages, 2));
    const append_t three[] = {{.subject = text("s.c")}, {.subject = text("s.d")}, {.subject = text("s.e")}};
    CHECK_EQ_I64(APPEND_MAX_MSGS, verdict_of(three, 3));
    world_until(all_level);
    for (uint32_t at = 0; at < 3; at++) {
        CHECK_EQ_U64(2, rig_state(world.node[at].stream[0]).last_seq);
    }
    CHECK_EQ_I64(APPEND_STORED, verdict_of(three, 2));
    world_end();
}

/* The numbers of a stream end: a batch that does not fit behind the last one is refused, and nobody waits for it. */
static void numbers_end(void) {
    config = rig_config();
    begin_replicas(3, 6);
    append_t nothing = {0};
    while (!ask(ASK_PURGE, &nothing, UINT64_MAX - 2, 0)) {
        world_step();
    }
    world_until(all_heard);
    const append_t three[] = {{.subject = text("s.c")}, {.subject = text("s.d")}, {.subject = text("s.e")}};
    CHECK_EQ_I64(APPEND_NO_SPACE, verdict_of(three, 3));
    CHECK_EQ_I64(APPEND_STORED, verdict_of(three, 2));
    world_end();
}

int main(void) {
    RUN("a batch is whole at every member, or nowhere, whoever is killed, stopped or cut off", whole_or_not_at_all);
    RUN("what counters add, alone and in batches, makes the same sums at every member", sums_are_the_same);
    RUN("the rollups of a batch come to their end behind a kill of all members", rollups_end_after_a_kill);
    RUN("one message that is refused has all of its batch refused", one_refuses_all);
    RUN("a batch that the numbers of a stream do not have room for is refused, and nothing waits for it", numbers_end);
    return TEST_RESULT();
}
