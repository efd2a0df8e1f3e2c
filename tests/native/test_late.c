/* test_late.c: ops that wait for the end of a checkpoint (disk/apply.h) leave in LMDB what they leave when each is done
 * at once: the last one of a key counts, and removals of single keys and of ranges stand where they stood among them.
 * So does what shares bytes of an earlier one (disk/batch.h).
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/random.h"
#include "disk/apply.h"
#include "disk/drain.h"
#include "directory.h"
#include "test.h"

#define KEYS 3000u /* of each kind; more than there is room for at first */
#define KINDS 4u
#define CHECKPOINTS 6u
#define BATCHES 20u
#define OPS 600u
#define RING (UINT64_C(16) << 20)
#define MAP (UINT64_C(64) << 20)

static char directory[] = "/tmp/leafd-test-late-XXXXXX";
static uint8_t truth[KINDS][KEYS]; /* the mark of what is there, 0 = nothing */

static store_db_t db_of(uint32_t kind) {
    static const store_db_t dbs[KINDS] = {DB_HEADS, DB_IDS, DB_RECORDS, DB_RECORDS};
    return dbs[kind];
}

/* States of streams, which wait, and records of another kind, which do not. */
static store_key_t key_of(uint32_t kind, uint32_t number) {
    store_key_t key = {0};
    uint8_t id[4];
    store_be32(id, number);
    if (db_of(kind) == DB_RECORDS) {
        key_record(&key, kind == 2 ? RECORD_STATE : RECORD_THIN, bytes_of(id, sizeof id));
    } else {
        memcpy(key.at, id, sizeof id);
        key.at[4] = 's';
        key.size = 5;
    }
    return key;
}

static void put(batches_t *batches, uint32_t kind, uint32_t number, uint8_t mark) {
    uint64_t position;
    store_key_t key = key_of(kind, number);
    uint8_t *value = batch_op(batches, OP_PUT, db_of(kind), key_bytes(&key), VALUE_CRC_SIZE + 1, &position);
    value[VALUE_CRC_SIZE] = mark;
    value_seal(key_bytes(&key), value, VALUE_CRC_SIZE + 1);
    truth[kind][number] = mark;
}

static void take(batches_t *batches, uint32_t kind, uint32_t number) {
    uint64_t position;
    store_key_t key = key_of(kind, number);
    (void)batch_op(batches, OP_DELETE, db_of(kind), key_bytes(&key), 0, &position);
    truth[kind][number] = 0;
}

static void take_range(batches_t *batches, uint32_t kind, uint32_t from, uint32_t to) {
    uint64_t position;
    store_key_t first = key_of(kind, from), end = key_of(kind, to);
    uint8_t *at = batch_op(batches, OP_DELETE_RANGE, db_of(kind), key_bytes(&first), end.size, &position);
    memcpy(at, end.at, end.size);
    memset(truth[kind] + from, 0, to - from);
}

/* A range of records that begins before the first state. */
static void take_first_states(batches_t *batches, uint32_t to) {
    static const uint8_t from[] = {RECORD_STATE - 1};
    uint64_t position;
    store_key_t end = key_of(2, to);
    uint8_t *at = batch_op(batches, OP_DELETE_RANGE, DB_RECORDS, bytes_of(from, sizeof from), end.size, &position);
    memcpy(at, end.at, end.size);
    memset(truth[2], 0, to);
}

/* Some keys again and again, others once; a removal of one in ten, of a range in two hundred. */
static void draw(batches_t *batches, uint64_t *seed) {
    for (uint32_t i = 0; i < OPS; i++) {
        uint32_t kind = random_below(seed, KINDS);
        uint32_t number = random_below(seed, random_below(seed, 2) == 0 ? 20 : KEYS - 40);
        uint32_t what = random_below(seed, 200);
        if (what == 0) {
            take_range(batches, kind, number, number + 1 + random_below(seed, 30));
        } else if (what == 1) {
            take_first_states(batches, number % 40);
        } else if (what < 20) {
            take(batches, kind, number);
        } else {
            put(batches, kind, number, (uint8_t)(1 + random_below(seed, 255)));
        }
    }
}

static void as_the_truth(env_t *env) {
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        for (uint32_t number = 0; number < KEYS; number++) {
            store_key_t key = key_of(kind, number);
            bytes_t value = BYTES_NONE;
            read_outcome_t outcome = env_get(env, db_of(kind), key_bytes(&key), &value);
            CHECK_EQ_I64(truth[kind][number] != 0 ? READ_FOUND : READ_NONE, outcome);
            CHECK(outcome != READ_FOUND || value.at[VALUE_CRC_SIZE] == truth[kind][number]);
        }
    }
}

static uint64_t apply_all(env_t *env, batches_t *batches, uint64_t from, late_t *late) {
    while (from < batches->begin) {
        const uint8_t *batch = batches_at(batches, from);
        batch_header_t header;
        CHECK(batch_header_read(batch, &header));
        CHECK_EQ_I64(STATUS_OK, apply_batch(env, batches, batch, header.size, late));
        from += batch_padded(batches, header.size);
    }
    return from;
}

static store_key_t entry_key(uint64_t index) {
    store_key_t key;
    key_ledger(&key, 7, index);
    return key;
}

static void put_entry(batches_t *batches, uint64_t index) {
    uint64_t position;
    store_key_t key = entry_key(index);
    uint8_t *value = batch_op(batches, OP_PUT, DB_LEDGER, key_bytes(&key), LEDGER_FIXED_SIZE, &position);
    memset(value, 0, LEDGER_FIXED_SIZE);
    value_seal(key_bytes(&key), value, LEDGER_FIXED_SIZE);
}

static void take_entries(batches_t *batches, uint64_t from, uint64_t to) {
    uint64_t position;
    store_key_t first = entry_key(from), end = entry_key(to);
    uint8_t *at = batch_op(batches, OP_DELETE_RANGE, DB_LEDGER, key_bytes(&first), end.size, &position);
    memcpy(at, end.at, end.size);
}

/* Of the entries 1..count those from `first` on are in LMDB. */
static void entries_there(env_t *env, uint64_t first, uint64_t count) {
    for (uint64_t index = 1; index <= count; index++) {
        store_key_t key = entry_key(index);
        bytes_t value = BYTES_NONE;
        CHECK_EQ_I64(index < first ? READ_NONE : READ_FOUND, env_get(env, DB_LEDGER, key_bytes(&key), &value));
    }
}

static void commit_late(env_t *env, late_t *late) {
    CHECK_EQ_I64(STATUS_OK, late_apply(late, env));
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    CHECK_EQ_I64(STATUS_OK, env_renew(env));
}

static void entries_look_ahead(void) {
    env_t *env;
    char reason[256];
    batches_t batches;
    memcpy(directory + sizeof directory - 7, "XXXXXX", 6);
    CHECK(mkdtemp(directory) != NULL);
    CHECK_EQ_I64(STATUS_OK, env_open(directory, MAP, true, &env, reason, sizeof reason));
    CHECK_EQ_I64(STATUS_OK, batches_open(&batches, RING, 4096, 0, 1));
    late_t late = {.batches = &batches};
    for (uint64_t index = 1; index <= 100; index++) {
        put_entry(&batches, index);
    }
    batch_seal(&batches);
    uint64_t boundary = batches.begin;
    put_entry(&batches, 101);
    take_entries(&batches, 1, 41);
    batch_seal(&batches);
    uint64_t synced = batches.begin;
    take_entries(&batches, 41, 61); /* not synced: it may be lost */
    batch_seal(&batches);
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    const uint8_t *batch = batches_at(&batches, 0);
    batch_header_t header;
    CHECK(batch_header_read(batch, &header));
    CHECK_EQ_I64(STATUS_OK, apply_batch(env, &batches, batch, header.size, &late));
    CHECK_EQ_I64(STATUS_OK, late_look_ahead(&late, boundary, synced));
    commit_late(env, &late);
    entries_there(env, 41, 100);
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env)); /* the later ones do again what was seen of them */
    CHECK_EQ_U64(batches.begin, apply_all(env, &batches, boundary, &late));
    commit_late(env, &late);
    entries_there(env, 61, 101);
    late_forget(&late);
    late_give_back(&late);
    env_close(env);
    batches_close(&batches);
    directory_remove(directory);
}

/* ---- messages that share bytes ---------------------------------------------------------------------------------- */

static void nothing(void *context) {
    (void)context;
}

static void drain_all(env_t *env, const batches_t *batches, uint64_t from) {
    drain_t drain = {.env = env,
                     .batches = *batches,
                     .from = from,
                     .to = batches->begin,
                     .durable = batches->begin,
                     .piece = DRAIN_PIECE_MIN,
                     .removed = from,
                     .put = from,
                     .told = nothing};
    CHECK_EQ_I64(STATUS_OK, drain_run(&drain));
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    CHECK_EQ_I64(STATUS_OK, env_renew(env));
}

#define SHARED_SIZE 300u

/* Where the header and the payload lie: the bytes of another operation. */
static uint64_t put_shared(batches_t *batches, uint64_t seq, const uint8_t *bytes, uint64_t position) {
    uint64_t at;
    store_key_t key;
    const message_record_t message = {.flags = MESSAGE_BRIEF,
                                      .ts = 1,
                                      .born = 2,
                                      .subject = BYTES_LITERAL("a.subject"),
                                      .header = bytes_of(bytes, 20),
                                      .payload = bytes_of(bytes + 20, SHARED_SIZE - 20)};
    key_message(&key, 3, seq);
    uint32_t head = message_head_size(seq, &message);
    uint8_t *value = batch_op(batches, OP_PUT_SHARED, DB_MESSAGES, key_bytes(&key), head + OP_SHARES_SIZE, &at);
    message_write_head(value, key_bytes(&key), &message, bytes_of(bytes, SHARED_SIZE));
    op_shares(value + head, position, SHARED_SIZE);
    return at;
}

static void whole_in_lmdb(bool without_room) {
    env_t *env;
    char reason[256];
    batches_t batches;
    batch_op_t op;
    memcpy(directory + sizeof directory - 7, "XXXXXX", 6);
    CHECK(mkdtemp(directory) != NULL);
    CHECK_EQ_I64(STATUS_OK, env_open(directory, MAP, true, &env, reason, sizeof reason));
    CHECK_EQ_I64(STATUS_OK, batches_open(&batches, RING, 4096, 0, 1));
    for (uint64_t seq = 1; seq <= 200; seq++) {
        uint64_t position;
        store_key_t key = entry_key(seq);
        uint8_t *value =
            batch_op(&batches, OP_PUT, DB_LEDGER, key_bytes(&key), LEDGER_FIXED_SIZE + SHARED_SIZE, &position);
        memset(value, (int)seq, LEDGER_FIXED_SIZE + SHARED_SIZE);
        value_seal(key_bytes(&key), value, LEDGER_FIXED_SIZE + SHARED_SIZE);
        uint64_t at = put_shared(&batches, seq, value + LEDGER_FIXED_SIZE,
                                 position + OP_HEADER_SIZE + LEDGER_KEY_SIZE + LEDGER_FIXED_SIZE);
        op_read(&batches, at, &op);
        CHECK(op_sound(&batches, &op));
        if (seq % 10 == 0) {
            batch_seal(&batches);
        }
    }
    if (without_room) {
        drain_all(env, &batches, 0);
    } else {
        late_t late = {.batches = &batches};
        CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
        CHECK_EQ_U64(batches.begin, apply_all(env, &batches, 0, &late));
        commit_late(env, &late);
        late_give_back(&late);
    }
    for (uint64_t seq = 1; seq <= 200; seq++) {
        store_key_t key;
        bytes_t value = BYTES_NONE;
        message_record_t message;
        key_message(&key, 3, seq);
        CHECK_EQ_I64(STATUS_OK, env_get(env, DB_MESSAGES, key_bytes(&key), &value));
        CHECK(value_sound(key_bytes(&key), value) && message_read(key_bytes(&key), value, &message));
        CHECK(message.header.size == 20 && message.payload.size == SHARED_SIZE - 20);
        CHECK(message.header.at[0] == (uint8_t)seq && message.payload.at[SHARED_SIZE - 21] == (uint8_t)seq);
    }
    env_close(env);
    batches_close(&batches);
    directory_remove(directory);
}

static void shared_bytes(void) {
    whole_in_lmdb(false);
    whole_in_lmdb(true);
}

/* What lies elsewhere than in the ring is not looked at. */
static void shares_nothing(void) {
    static uint8_t bytes[SHARED_SIZE];
    batches_t batches;
    batch_op_t op;
    message_record_t message;
    CHECK_EQ_I64(STATUS_OK, batches_open(&batches, RING, 4096, 0, 1));
    op_read(&batches, put_shared(&batches, 1, bytes, 4096), &op);
    CHECK(op_message(&batches, &op, &message)); /* zeros, as the bytes are */
    CHECK(op_sound(&batches, &op));
    uint8_t *shares = batches_at(&batches, batches.end) - OP_SHARES_SIZE;
    shares[3] = 0x55; /* a position far behind all that there is: some place of the ring */
    CHECK(op_message(&batches, &op, &message));
    store_be32(shares + 8, UINT32_MAX);
    CHECK(!op_message(&batches, &op, &message));
    CHECK(!op_sound(&batches, &op));
    op.value.size = OP_SHARES_SIZE - 1;
    CHECK(!op_message(&batches, &op, &message));
    batches_close(&batches);
}

static void play(uint64_t seed, bool heads_wait, uint64_t changed_max) {
    env_t *env;
    char reason[256];
    batches_t batches;
    memset(truth, 0, sizeof truth);
    memcpy(directory + sizeof directory - 7, "XXXXXX", 6);
    CHECK(mkdtemp(directory) != NULL);
    CHECK_EQ_I64(STATUS_OK, env_open(directory, MAP, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(STATUS_OK, batches_open(&batches, RING, 4096, 0, 1));
    late_t late = {.batches = &batches, .heads_wait = heads_wait};
    uint64_t applied = 0, waited = 0;
    env_changed(env)->max = changed_max;
    for (uint32_t i = 0; i < CHECKPOINTS; i++) {
        for (uint32_t j = 0; j < BATCHES; j++) {
            draw(&batches, &seed);
            batch_seal(&batches);
        }
        CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
        applied = apply_all(env, &batches, applied, &late);
        CHECK(late.states.count < KEYS && late.heads.count < KEYS); /* each key once */
        waited += late.states.count;
        CHECK_EQ_I64(STATUS_OK, late_apply(&late, env));
        CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
        CHECK_EQ_I64(STATUS_OK, env_renew(env));
        batches_free(&batches, applied);
        as_the_truth(env);
        late_give_back(&late);
    }
    CHECK(waited > 100);
    env_close(env);
    batches_close(&batches);
    directory_remove(directory);
}

static void the_last_one_counts(void) {
    play(1, true, 0);
}

static void heads_at_once(void) {
    play(2, false, 0);
}

static void commits_in_between(void) {
    play(3, true, 64 << 10);
}

int main(void) {
    RUN("of ops that wait the last one of each key counts", the_last_one_counts);
    RUN("the same while heads do not wait", heads_at_once);
    RUN("the same when a transaction may change little and commits in between", commits_in_between);
    RUN("an entry of a ledger that a synced batch removes later never comes to LMDB", entries_look_ahead);
    RUN("a message that shares bytes is whole in LMDB", shared_bytes);
    RUN("one that shares what no ring has is none", shares_nothing);
    return TEST_RESULT();
}
