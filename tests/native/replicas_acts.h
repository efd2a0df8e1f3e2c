/* replicas_acts.h: what clients do with a replicated stream (replicas_world.h), and whether what they heard is one
 * history, for the C tests of replicas.
 */
#ifndef LEAFD_TESTS_REPLICAS_ACTS_H
#define LEAFD_TESTS_REPLICAS_ACTS_H

#include "replicas_world.h"

static inline uint64_t last_seq_somewhere(void) {
    uint32_t at = below(world.nodes);
    return world.node[at].up ? rig_state(world.node[at].stream[0]).last_seq : 0;
}

/* New ones, others again (whether they were heard of or not), and some on the condition that nothing came between. */
static inline void client_of_register(void) {
    static uint64_t numbers;
    char id[24];
    char subject[8];
    uint8_t payload[8];
    if (ops_count == 0) {
        numbers = 0;
    }
    bool again = numbers > 0 && below(4) == 0;
    uint64_t number = again ? numbers - below((uint32_t)(numbers < 20 ? numbers : 20)) : numbers + 1;
    append_t append = message_of(number, id, payload, subject);
    if (!again && below(2) == 0) {
        append.has_expected_last_seq = true;
        append.expected_last_seq = last_seq_somewhere();
        numbers += ask(ASK_SET, &append, 0, number);
    } else {
        numbers += ask(ASK_PUBLISH, &append, 0, number) && !again;
    }
}

/* Its consumers need no more of what is there; who leads has that agreed on, with a write of theirs. */
static inline void consumers_let_go(uint64_t last) {
    uint32_t at = below(world.nodes);
    node_t *node = &world.node[at];
    if (!node->up || node->stands_ns > world.now.mono_ns) {
        return;
    }
    for (uint32_t count = below(6); count > 0 && last > 0; count--) {
        status_t status = replica_remove(replicas[at], last - below(last < 30 ? (uint32_t)last : 30));
        CHECK(status == STATUS_OK || status == STATUS_AGAIN);
    }
    if (replica_changes(replicas[at])
        && replica_propose_changes(replicas[at], REPLICA_NO_TOKEN, world.now) != STATUS_OK) {
        replica_forget_changes(replicas[at]);
    }
    groups_stir(node->groups, node->group[0]);
}

/* Some messages at once, with ids of others, rollups and expectations among them. */
static inline void client_of_batch(uint64_t number, uint64_t last) {
    char id[BATCH_MAX][24];
    char subject[BATCH_MAX][8];
    uint8_t payload[BATCH_MAX][8];
    append_t messages[BATCH_MAX];
    uint32_t count = 1 + below(BATCH_MAX);
    for (uint32_t i = 0; i < count; i++) {
        messages[i] = message_of(number * BATCH_MAX + i, id[i], payload[i], subject[i]);
        snprintf(id[i], sizeof id[i], "n%u", below(400));
        messages[i].msg_id = below(8) == 0 ? text(id[i]) : BYTES_NONE;
        messages[i].skip = below(9) == 0;
        bool first = i < KEYS; /* on its subject */
        messages[i].rollup = first && below(6) == 0 && (config.flags & STREAM_ALLOW_ROLLUP) != 0 ? 1 : 0;
        messages[i].expires_ts = below(5) == 0 ? world.now.wall_ns + below(9000) * NS_PER_MS : 0;
        messages[i].has_expected_subject_seq = first && below(12) == 0;
    }
    messages[0].has_expected_last_seq = below(4) == 0;
    messages[0].expected_last_seq = last;
    (void)ask_batch(messages, count, number);
}

/* Anything, on a stream that lets go of messages for every reason there is. */
static inline void client_of_anything(void) {
    static uint64_t numbers;
    char id[24];
    char subject[8];
    uint8_t payload[8];
    uint64_t last = last_seq_somewhere();
    append_t append = message_of(++numbers, id, payload, subject);
    snprintf(id, sizeof id, "n%u", below(40)); /* some of them come again */
    append.msg_id = below(2) == 0 ? text(id) : BYTES_NONE;
    switch (below(12)) {
    case 9: client_of_batch(numbers, last); return;
    case 8: consumers_let_go(last); return;
    case 0: (void)ask(ASK_DELETE, &append, last > 0 ? last - below(last < 30 ? (uint32_t)last : 30) : 1, 0); return;
    case 1: (void)ask(ASK_PURGE, &append, below(2) == 0 ? 0 : last, below(3)); return;
    case 2: append.rollup = (config.flags & STREAM_ALLOW_ROLLUP) != 0 ? 1 : 0; break;
    case 3: append.expires_ts = world.now.wall_ns + below(9000) * NS_PER_MS; break;
    case 4: append.expires_ts = -1; break;
    case 5: append.skip = true; break;
    case 6:
        append.has_expected_subject_seq = true;
        append.expected_subject_seq = last;
        break;
    case 7: /* of a source, of which only the position is kept now and then */
        append.source_key = text("o");
        append.source_seq = numbers;
        append.source_ts = world.now.wall_ns;
        append.has_source_before = below(2) == 0; /* mostly not so */
        append.source_before = numbers - below(14);
        append.subject = below(3) == 0 ? BYTES_NONE : append.subject;
        break;
    default: break;
    }
    (void)ask(ASK_PUBLISH, &append, 0, numbers);
}

/* ---- the history of a register ----------------------------------------------------------------------------------- */

/* Of the stream in the end: whose message has that sequence, 0: there is none. */
static inline uint64_t number_at(uint64_t seq) {
    stored_message_t message;
    entry_outcome_t status = store_read(world.node[0].stream[0], seq, &message);
    CHECK(status == ENTRY_FOUND || status == ENTRY_NONE);
    return status == ENTRY_FOUND ? load_be64(message.payload.at) : 0;
}

/* Nothing was removed, so the stream is the history of what took place; each answer has to be true of one moment of it
 * between the question and the answer. */
static inline void history_agrees(void) {
    static int64_t asked_by[OPS_MAX]; /* when the message of a sequence was first asked for .. */
    static int64_t known_by[OPS_MAX]; /* .. and when somebody first heard of it */
    static uint64_t seq_of[OPS_MAX];  /* by number */
    uint64_t last = rig_state(world.node[0].stream[0]).last_seq;
    CHECK(last + 2 < OPS_MAX);
    memset(seq_of, 0, sizeof seq_of);
    for (uint64_t seq = 1; seq <= last; seq++) {
        uint64_t number = number_at(seq);
        CHECK(number > 0 && number < OPS_MAX);
        CHECK_EQ_U64(0, seq_of[number]); /* once */
        seq_of[number] = seq;
        asked_by[seq] = known_by[seq] = INT64_MAX;
    }
    known_by[last + 1] = INT64_MAX;
    asked_by[0] = 0;
    for (uint64_t token = 1; token <= ops_count; token++) {
        const op_t *op = &ops[token];
        uint64_t seq = seq_of[op->number];
        bool stored = op->known && (op->verdict == APPEND_STORED || op->verdict == APPEND_DUPLICATE);
        if (stored) {
            CHECK_EQ_U64(seq, op->seq);
            CHECK(op->kind != ASK_SET || (op->verdict == APPEND_STORED && op->expected + 1 == seq));
            known_by[seq] = op->heard_ns < known_by[seq] ? op->heard_ns : known_by[seq];
        }
        if (seq != 0 && (stored || !op->known) && op->asked_ns < asked_by[seq]) {
            asked_by[seq] = op->asked_ns;
        }
    }
    /* What was heard of before another was asked for comes before it. */
    int64_t latest = 0;
    for (uint64_t seq = 1; seq <= last; seq++) {
        CHECK(known_by[seq] >= latest);
        latest = asked_by[seq] > latest ? asked_by[seq] : latest;
    }
    for (uint64_t token = 1; token <= ops_count; token++) {
        const op_t *op = &ops[token];
        if (op->known && op->verdict == APPEND_WRONG_LAST_SEQ) {
            CHECK(op->seq != op->expected);
            CHECK(op->seq <= last && asked_by[op->seq] <= op->heard_ns);
            CHECK(known_by[op->seq + 1] >= op->asked_ns);
        }
    }
}

static inline stream_config_t config_drawn(uint64_t seed) {
    stream_config_t drawn = rig_config();
    switch (seed % 5) {
    case 0: drawn.max_msgs = 40; break;
    case 1:
        drawn.max_msgs_per_subject = 3;
        drawn.max_bytes = 2000;
        break;
    case 2: drawn.max_age_ns = 2 * NS_PER_SECOND; break;
    case 3:
        drawn.max_msgs = 30;
        drawn.discard = 1;
        drawn.duplicate_window_ns = NS_PER_SECOND;
        break;
    default: drawn.max_age_ns = 12 * NS_PER_SECOND; drawn.marker_ttl_ns = NS_PER_SECOND;
    }
    return drawn;
}

/* ---- what befalls servers ---------------------------------------------------------------------------------------- */

static inline void harm_some(void) {
    uint32_t at = below(world.nodes);
    node_t *node = &world.node[at];
    switch (below(9)) {
    case 0:
        if (node->up) {
            node_kill(at);
        }
        break;
    case 1: node->stands_ns = world.now.mono_ns + below(3000) * NS_PER_MS; break;
    case 2: cut_off(at); break;
    case 3:
    case 4: memset(world.cut, 0, sizeof world.cut); break;
    case 5: world.loss = below(300); break;
    case 6: node->slow = below(40); break;
    case 7: world.late_ns = below(200) * NS_PER_MS; break;
    default: world.loss = 0; world.late_ns = 0;
    }
    for (uint32_t other = 0; other < world.nodes; other++) {
        if (!world.node[other].up && below(3) == 0) {
            node_start(other);
        }
    }
}

static inline uint64_t seeds(uint64_t usual, uint64_t *first) {
    const char *from = getenv("LEAFD_REPLICAS_SEED");
    const char *count = getenv("LEAFD_REPLICAS_SEEDS");
    *first = from != NULL ? strtoull(from, NULL, 10) : 1;
    return count != NULL ? strtoull(count, NULL, 10) : usual;
}

#define LARGE 3000u

/* So much that a log which nobody has done with would take its whole budget. */
static inline void publish_large(uint32_t count) {
    static uint8_t payload[LARGE];
    static uint64_t numbers;
    for (uint32_t left = count; left > 0;) {
        char id[24];
        char subject[8];
        snprintf(id, sizeof id, "large %llu", (unsigned long long)numbers);
        snprintf(subject, sizeof subject, "l.%u", below(KEYS));
        append_t append = {.subject = text(subject), .msg_id = text(id), .payload = bytes_of(payload, sizeof payload)};
        append.expires_ts = below(8) == 0 ? world.now.wall_ns + below(60) * NS_PER_SECOND : 0;
        CHECK(numbers < OPS_MAX * 10);
        if (ask(ASK_PUBLISH, &append, 0, 0)) {
            numbers++;
            left--;
        } else {
            world_step();
        }
    }
    world_until(all_heard);
}

static inline uint32_t one_but(uint32_t not) {
    return (not +1 + below(2)) % 3;
}

static inline bool is_given_up(uint32_t away) {
    uint32_t leader = world_leader(0);
    group_look_t look = group_look(world.node[leader].group[0], world.now);
    return look.floor > group_applied(world.node[leader].group[0]) / 2 && away != leader;
}

/* Publishes until the logs begin behind what that one has. */
static inline void leave_behind(uint32_t away) {
    node_kill(away);
    for (uint32_t i = 0; i < 20; i++) {
        publish_large(20);
        world_pass(NS_PER_SECOND);
        if (is_given_up(away) && i >= 8) {
            return;
        }
    }
    FAIL("the logs have kept everything");
}

/* Everything is well again, and all members come to the same stream. */
static inline void replicas_agree(void) {
    world_heal();
    world_until(all_level);
    compare_digests();
    for (uint32_t at = 1; at < world.nodes; at++) {
        CHECK_EQ_U64(digest_of(0), digest_of(at));
    }
}

/* Clients go on, round after round, while members are harmed; then all come to the same stream. */
static inline void live_rounds(void (*client)(void), uint32_t rounds) {
    for (uint32_t round = 0; round < rounds; round++) {
        harm_some();
        for (uint32_t steps = below(below(3) == 0 ? 800 : 100); steps > 0; steps--) {
            if (below(3) == 0 && ops_count + 2 < OPS_MAX) {
                client();
            }
            world_step();
            if (steps % 16 == 0) {
                compare_digests();
            }
        }
    }
    replicas_agree();
    CHECK(compared > 10);
}

#endif
