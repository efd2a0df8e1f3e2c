/* test_replicas_notes.c: messages with writes to records in one entry (group/replica.h, NOTED), as QoS 2 of MQTT has
 * them, while three servers are killed, stopped and cut off (replicas_world.h).
 *
 *     the record is there where the message is, and nowhere else: at each member, whoever died
 *     of a message that was refused there is none
 *
 *     LEAFD_REPLICAS_SEEDS=1000 LEAFD_REPLICAS_SEED=7 build/dev/tests/native/test_replicas_notes
 */
#include "group/changes.h"
#include "replicas_acts.h"

#define KEY_SIZE 10u /* stream, session, identifier */

static uint64_t numbers;

static bytes_t key_of(uint8_t key[KEY_SIZE], uint64_t number) {
    store_be32(key, 1);
    store_be32(key + 4, 7);
    store_be16(key + 8, (uint16_t)number);
    return bytes_of(key, KEY_SIZE);
}

/* Each number once, some of them on a condition that mostly does not hold. */
static void client_of_notes(void) {
    char id[24], subject[8];
    uint8_t payload[8], key[KEY_SIZE];
    buffer_t changes;
    uint32_t at = below(world.nodes);
    node_t *node = &world.node[at];
    uint64_t token = ops_count + 1, number = numbers + 1;
    if (!node->up || node->stands_ns > world.now.mono_ns) {
        return;
    }
    append_t append = message_of(number, id, payload, subject);
    append.has_expected_last_seq = below(3) == 0;
    append.expected_last_seq = last_seq_somewhere();
    const record_change_t change = {
        .act = RECORD_PUT, .kind = RECORD_SESSION_IN, .key = key_of(key, number), .value = text("1")};
    buffer_init(&changes, UINT32_MAX);
    CHECK_EQ_I64(STATUS_OK, changes_add(&changes, &change));
    ops[token] = (op_t){.kind = ASK_PUBLISH, .asked_ns = world.now.mono_ns, .number = number};
    ops_count = token;
    bytes_t noted = bytes_of(changes.at, (uint32_t)changes.size);
    status_t status = replica_publish_noted(replicas[at], &append, noted, token, world.now);
    buffer_free(&changes);
    if (status != STATUS_OK) {
        CHECK_EQ_I64(STATUS_AGAIN, status);
        ops_count--;
        return;
    }
    numbers = number;
    groups_stir(node->groups, node->group[0]);
}

static void find_messages(uint32_t at, bool there[OPS_MAX]) {
    store_stream_t *stream = world.node[at].stream[0];
    memset(there, 0, OPS_MAX * sizeof *there);
    for (uint64_t seq = 1; seq <= rig_state(stream).last_seq; seq++) {
        stored_message_t message;
        CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, seq, &message));
        uint64_t number = load_be64(message.payload.at);
        CHECK(number > 0 && number < OPS_MAX && !there[number]);
        there[number] = true;
    }
}

static void notes_agree(uint32_t at, uint64_t *stored, uint64_t *refused) {
    static bool there[OPS_MAX];
    find_messages(at, there);
    for (uint64_t number = 1; number <= numbers; number++) {
        uint8_t key[KEY_SIZE];
        bytes_t value = BYTES_NONE;
        status_t status =
            entry_status(store_record_get(world.node[at].rig.store, RECORD_SESSION_IN, key_of(key, number), &value));
        CHECK_EQ_I64(there[number] ? STATUS_OK : STATUS_NOT_FOUND, status);
    }
    for (uint64_t token = 1; token <= ops_count; token++) {
        const op_t *op = &ops[token];
        CHECK(!op->known || there[op->number] == (op->verdict == APPEND_STORED));
        *stored += op->known && op->verdict == APPEND_STORED;
        *refused += op->known && op->verdict == APPEND_WRONG_LAST_SEQ;
    }
}

static void with_its_message_or_not_at_all(void) {
    uint64_t seed, stored = 0, refused = 0;
    for (uint64_t left = seeds(4, &seed); left > 0; left--, seed++) {
        config = rig_config();
        numbers = 0;
        begin_replicas(3, seed * 5003 + 1);
        for (uint32_t round = 0; round < 12; round++) {
            harm_some();
            for (uint32_t steps = below(below(3) == 0 ? 800 : 100); steps > 0; steps--) {
                if (below(3) == 0 && ops_count + 2 < OPS_MAX) {
                    client_of_notes();
                }
                world_step();
            }
        }
        replicas_agree();
        for (uint32_t at = 0; at < world.nodes; at++) {
            notes_agree(at, &stored, &refused);
        }
        world_end();
    }
    CHECK(stored > 60);
    CHECK(refused > 20);
}

int main(void) {
    RUN("a record that goes with a message is where that is, and nowhere else", with_its_message_or_not_at_all);
    return TEST_RESULT();
}
