/* Invariant: whatever bytes an entry of a stream's log has, from another server or from the disk, a member applies it,
 * waits or stops there. Two members that apply the same entries, one of them with a batch for each, end with the same
 * verdicts, messages and records. What another stream has stays as it is. Bytes that are taken for an entry's or a
 * promise's row lie inside what was given.
 */
#include <stddef.h>

#include "base/check.h"
#include "base/hash.h"
#include "fuzz_input.h"
#include "group/replica.h"
#include "store/ledger_rows.h"
#include "store_rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ENTRIES_MAX 24u
#define ENTRY_MAX 4096u
#define OTHER_STREAM 1u

typedef struct member {
    rig_t rig;
    raft_outputs_t outputs;
    store_stream_t *stream;
    group_t *group;
    replica_t *replica;
    group_hooks_t hooks;
} member_t;

static member_t members[2]; /* the first has a batch for each entry */
static uint32_t stream_id = OTHER_STREAM;

static bytes_t other_key(uint8_t key[8]) {
    store_be32(key, OTHER_STREAM);
    store_be32(key + 4, 1);
    return bytes_of(key, 8);
}

/* ---- members ----------------------------------------------------------------------------------------------------- */

static void member_open(member_t *member) {
    uint8_t key[8];
    member->rig = (rig_t){.in_memory = true, .options = {.ledgers = true, .journal_size = 4 << 20}};
    rig_open(&member->rig);
    (void)rig_stream(&member->rig, OTHER_STREAM, rig_config());
    check(store_record_put(member->rig.store, RECORD_CONSUMER, other_key(key), BYTES_LITERAL("another's"))
          == STATUS_OK);
}

static void no_answer(void *context, uint64_t token, const replica_outcome_t *outcome) {
    (void)context;
    (void)token;
    (void)outcome;
}

static void member_begin(member_t *member, uint8_t limits) {
    stream_config_t config = rig_config();
    config.max_msgs = limits % 4 != 0 ? limits % 4 * 3 : 0;
    config.max_msgs_per_subject = limits / 4 % 3;
    config.max_age_ns = limits / 12 % 2 * NS_PER_SECOND;
    member->stream = rig_stream(&member->rig, stream_id, config);
    member->replica = replica_open(member->stream, (replica_hooks_t){.answered = no_answer});
    check(member->replica != NULL);
    group_options_t options = {.store = member->rig.store,
                               .number = stream_id + 1,
                               .peer = 7,
                               .name = stream_id,
                               .seed = 1,
                               .times = {.election_ns = 1500, .lease_ns = 1200, .beat_ns = 200},
                               .outputs = &member->outputs};
    replica_hook(member->replica, &options.hooks);
    member->hooks = options.hooks;
    check(group_make(&options, member->rig.now, &member->group) == STATUS_OK);
    replica_join(member->replica, member->group);
}

static void member_end(member_t *member) {
    uint8_t key[8];
    bytes_t value = BYTES_NONE;
    rig_sync(&member->rig);
    check(store_sound(member->rig.store));
    check(store_record_get(member->rig.store, RECORD_CONSUMER, other_key(key), &value) == ENTRY_FOUND);
    check(bytes_equal(value, BYTES_LITERAL("another's")));
    replica_close(member->replica);
    check(group_remove(member->group) == STATUS_OK);
    check(store_stream_remove(member->stream) == STATUS_OK);
    rig_sync(&member->rig);
}

/* false: it waits, or is stuck. */
static bool member_apply(member_t *member, uint64_t index, bytes_t entry, bool alone) {
    bool applied = false;
    for (uint32_t tries = 0; tries < 3 && !applied && !replica_stuck(member->replica); tries++) {
        check(group_touch(member->group) == STATUS_OK);
        applied = member->hooks.apply(member->hooks.context, index, entry);
        if (!applied && !replica_stuck(member->replica)) {
            rig_checkpoint(&member->rig); /* it may wait for room */
        } else if (alone) {
            rig_sync(&member->rig);
        }
    }
    return applied;
}

/* ---- what they have ---------------------------------------------------------------------------------------------- */

static bool hash_record(void *context, bytes_t key, bytes_t value) {
    uint64_t *hash = context;
    *hash = *hash * 31 + hash_bytes(key.at, key.size);
    *hash = *hash * 31 + hash_bytes(value.at, value.size);
    return true;
}

static uint64_t digest_of(const member_t *member) {
    static const uint32_t kinds[] = {RECORD_CONSUMER, RECORD_CONSUMER_STATE, RECORD_CONSUMER_PENDING};
    stream_state_t state = rig_state(member->stream);
    uint8_t key[4];
    uint64_t hash = hash_bytes((const uint8_t *)&state.last_seq, sizeof state.last_seq) + state.messages + state.bytes;
    for (uint64_t seq = state.first_seq; state.messages > 0 && seq <= state.last_seq && seq < state.first_seq + 100;
         seq++) {
        stored_message_t message;
        if (store_read(member->stream, seq, &message) == ENTRY_FOUND) {
            hash = hash * 31 + seq + (uint64_t)message.ts;
            hash = hash * 31 + hash_bytes(message.subject.at, message.subject.size);
            hash = hash * 31 + hash_bytes(message.header.at, message.header.size);
            hash = hash * 31 + hash_bytes(message.payload.at, message.payload.size);
        }
    }
    store_be32(key, stream_id);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        status_t status = list_status(
            store_record_each(member->rig.store, kinds[i], bytes_of(key, sizeof key), BYTES_NONE, hash_record, &hash));
        check(status == STATUS_OK || status == STATUS_NOT_FOUND);
    }
    return hash;
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

static bytes_t some(fuzz_input_t *input) {
    return fuzz_slice(input, fuzz_byte(input) % 24);
}

/* An append as a leader packs it, whatever its parts are. false: no leader does. */
static bool pack_append(fuzz_input_t *input, buffer_t *packed) {
    uint8_t flags = fuzz_byte(input);
    append_t append = {.subject = some(input), .rollup = flags & 3};
    append.msg_id = (flags & 4) != 0 ? some(input) : BYTES_NONE;
    append.header = (flags & 8) != 0 ? some(input) : BYTES_NONE;
    append.has_expected_last_seq = (flags & 16) != 0;
    append.expected_last_seq = append.has_expected_last_seq ? fuzz_number(input) : 0;
    append.source_key = (flags & 32) != 0 ? some(input) : BYTES_NONE;
    append.source_seq = append.source_key.size != 0 ? fuzz_number(input) : 0;
    append.expires_ts = (flags & 64) != 0 ? (int64_t)fuzz_number(input) : 0;
    append.force_seq = (flags & 128) != 0 ? fuzz_byte(input) : 0;
    append.payload = some(input);
    return replica_pack(members[0].replica, &append, packed) == STATUS_OK;
}

/* How many bytes: the head with this time, behind it what the input says. */
static uint32_t compose(fuzz_input_t *input, uint64_t age, uint8_t entry[ENTRY_MAX]) {
    uint8_t how = fuzz_byte(input);
    if (how == 255) { /* without a head */
        bytes_t raw = fuzz_slice(input, fuzz_byte(input));
        return (uint32_t)(bytes_write(entry, raw) - entry);
    }
    entry[0] = 1;
    entry[1] = how % 8;
    store_be64(entry + 2, age);
    store_be64(entry + 10, (uint64_t)RIG_START + age);
    if (how >= 128) {
        buffer_t packed;
        uint8_t change = fuzz_byte(input), with = fuzz_byte(input);
        buffer_init(&packed, ENTRY_MAX);
        entry[1] = 1;
        bool made = pack_append(input, &packed) && packed.size <= ENTRY_MAX - 18;
        uint32_t size = made ? (uint32_t)packed.size : 0;
        (void)bytes_write(entry + 18, bytes_of(packed.at, size));
        if (change < size) {
            entry[18 + change] ^= with;
        }
        buffer_free(&packed);
        return 18 + size;
    }
    bytes_t raw = fuzz_slice(input, fuzz_byte(input));
    return (uint32_t)(bytes_write(entry + 18, raw) - entry);
}

static bool within(bytes_t part, bytes_t whole) {
    return part.size == 0 || (part.at >= whole.at && part.at + part.size <= whole.at + whole.size);
}

/* The same bytes as rows of LMDB, whose checksum is right. */
static void read_rows(bytes_t bytes) {
    ledger_promise_t promise = {0};
    ledger_entry_t entry = {0};
    store_key_t key;
    key_ledger(&key, 7, bytes.size);
    uint8_t *copy = fuzz_copy(bytes);
    bytes_t value = bytes_of(copy, bytes.size);
    check(!promise_unpack(value, &promise) || within(promise.members, value));
    if (value.size >= VALUE_CRC_SIZE) {
        value_seal(key_bytes(&key), copy, value.size);
    }
    bool taken = value.size >= VALUE_CRC_SIZE && entry_read(key_bytes(&key), value, &entry);
    check(!taken || (entry.index == bytes.size && within(entry.bytes, value)));
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t composed[ENTRY_MAX];
    fuzz_input_t input = {data, size};
    uint64_t age = 0;
    if (setjmp(test_escape) != 0) {
        abort(); /* a CHECK of the rig */
    }
    if (members[0].rig.store == NULL) {
        member_open(&members[0]);
        member_open(&members[1]);
    }
    read_rows(bytes_of(data, (uint32_t)size));
    stream_id++;
    uint8_t limits = fuzz_byte(&input);
    member_begin(&members[0], limits);
    member_begin(&members[1], limits);
    bool goes_on = true;
    for (uint64_t index = 1; goes_on && input.left > 0 && index <= ENTRIES_MAX; index++) {
        age += (uint64_t)fuzz_byte(&input) * NS_PER_MS;
        uint32_t count = compose(&input, age, composed);
        uint8_t *entry = fuzz_copy(bytes_of(composed, count));
        goes_on = member_apply(&members[0], index, bytes_of(entry, count), true);
        check(member_apply(&members[1], index, bytes_of(entry, count), false) == goes_on);
        check(replica_stuck(members[0].replica) == replica_stuck(members[1].replica));
        free(entry);
    }
    rig_sync(&members[1].rig);
    check(digest_of(&members[0]) == digest_of(&members[1]));
    member_end(&members[0]);
    member_end(&members[1]);
    return 0;
}
