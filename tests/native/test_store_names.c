/* test_store_names.c: what is left of a definition that damage took from both copies: its name (disk/env_names.c,
 * store/lost.c). What clients are told: tests/crash/test_lost_definitions.py.
 */
#include "disk/env.h"
#include "store_rig.h"

#define NAMED "{\"account\":\"A\",\"created\":\"x\",\"config\":{\"name\":\"ORDERS\",\"subjects\":[\"o\"]}}"
#define NAME "{\"account\":\"A\",\"name\":\"ORDERS\"}"
#define DURABLE "{\"name\":\"c\",\"config\":{\"durable_name\":\"c \\\"1\\\"\"}}"
#define DURABLE_NAME "{\"account\":\"\",\"name\":\"c \\\"1\\\"\"}"
#define EPHEMERAL "{\"name\":\"e\",\"config\":{\"name\":\"e\"}}"

static rig_t rig;

typedef struct told {
    unsigned count;
    store_key_t key[8];
    char name[8][128];
} told_t;

static bool take(void *context, bytes_t key, bytes_t name) {
    told_t *told = context;
    CHECK(told->count < 8 && name.size < 128);
    told->key[told->count].size = key.size;
    memcpy(told->key[told->count].at, key.at, key.size);
    snprintf(told->name[told->count], 128, "%.*s", (int)name.size, (const char *)name.at);
    told->count++;
    return true;
}

static told_t lost(void) {
    told_t told = {0};
    CHECK_EQ_I64(LIST_WHOLE, store_lost_each(rig.store, BYTES_NONE, take, &told));
    return told;
}

static void put(uint32_t kind, uint32_t stream, uint32_t consumer, const char *definition) {
    uint8_t key[8];
    store_be32(key, stream);
    store_be32(key + 4, consumer);
    CHECK_EQ_I64(STATUS_OK, store_record_put(rig.store, kind, bytes_of(key, consumer != 0 ? 8 : 4), text(definition)));
}

static void begin(void) {
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    (void)rig_stream(&rig, 1, rig_config());
    put(RECORD_STREAM, 1, 0, NAMED);
    put(RECORD_STREAM, 2, 0, "not JSON");
    put(RECORD_CONSUMER, 1, 7, DURABLE);
    put(RECORD_CONSUMER, 1, 8, EPHEMERAL);
    rig_checkpoint(&rig);
}

static void again(void) {
    store_close(rig.store);
    rig_start(&rig);
}

typedef enum change { SPOIL, FORGET_NAME } change_t;

/* Another process at the closed store. */
static void change(change_t what, uint32_t kind, uint32_t stream, uint32_t consumer) {
    char reason[256];
    env_t *env;
    uint8_t at[8];
    store_key_t key, name;
    store_be32(at, stream);
    store_be32(at + 4, consumer);
    key_record(&key, kind, bytes_of(at, consumer != 0 ? 8 : 4));
    key_name(&name, key_bytes(&key));
    store_close(rig.store);
    CHECK_EQ_I64(STATUS_OK, env_open(rig.directory, 64 << 20, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    CHECK_EQ_I64(STATUS_OK, what == SPOIL ? env_write_raw(env, DB_RECORDS, key_bytes(&key), BYTES_LITERAL("spoiled"))
                                          : env_write_delete(env, DB_NAMES, key_bytes(&name)));
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    env_close(env);
    rig_start(&rig);
}

static void a_lost_definition_has_its_name(void) {
    begin();
    CHECK_EQ_U64(0, lost().count);
    change(SPOIL, RECORD_CONSUMER, 1, 7);
    change(SPOIL, RECORD_STREAM, 1, 0);
    for (int i = 0; i < 2; i++) {
        told_t told = lost();
        CHECK_EQ_U64(2, told.count);
        CHECK_EQ_U64(RECORD_STREAM, told.key[0].at[0]);
        CHECK_EQ_U64(1, load_be32(told.key[0].at + 1));
        CHECK_TEXT(NAME, told.name[0], strlen(told.name[0]));
        CHECK_EQ_U64(RECORD_CONSUMER, told.key[1].at[0]);
        CHECK_EQ_U64(7, load_be32(told.key[1].at + 5));
        CHECK_TEXT(DURABLE_NAME, told.name[1], strlen(told.name[1]));
        CHECK(rig_alarmed(&rig, "the definition of stream 1 is lost in both copies"));
        again();
    }
    rig_close(&rig);
}

static void who_has_no_name_is_not_told(void) {
    begin();
    change(SPOIL, RECORD_CONSUMER, 1, 8);
    change(SPOIL, RECORD_STREAM, 2, 0);
    CHECK_EQ_U64(0, lost().count);
    rig_close(&rig);
}

static void what_is_removed_is_not_lost(void) {
    begin();
    change(SPOIL, RECORD_STREAM, 1, 0);
    CHECK_EQ_U64(1, lost().count);
    CHECK_EQ_I64(STATUS_OK, store_stream_remove(rig_stream(&rig, 1, rig_config())));
    CHECK_EQ_U64(0, lost().count); /* not in LMDB yet */
    rig_checkpoint(&rig);
    again();
    CHECK_EQ_U64(0, lost().count);
    put(RECORD_STREAM, 1, 0, NAMED); /* and its number may be used again */
    rig_checkpoint(&rig);
    again();
    CHECK_EQ_U64(0, lost().count);
    rig_close(&rig);
}

static void a_start_gives_names(void) {
    begin();
    change(FORGET_NAME, RECORD_STREAM, 1, 0); /* as an older leafd has it; the start after it made one */
    change(SPOIL, RECORD_STREAM, 1, 0);
    told_t told = lost();
    CHECK_EQ_U64(1, told.count);
    CHECK_TEXT(NAME, told.name[0], strlen(told.name[0]));
    change(FORGET_NAME, RECORD_STREAM, 1, 0);
    CHECK_EQ_U64(0, lost().count); /* of what is lost there is nothing to make one of */
    rig_close(&rig);
}

int main(void) {
    RUN("of a definition that is lost in both copies the name is left, over restarts", a_lost_definition_has_its_name);
    RUN("what has no name, or is not durable, is not told as lost", who_has_no_name_is_not_told);
    RUN("what was removed is not lost, whether LMDB has it yet or not", what_is_removed_is_not_lost);
    RUN("a start gives a name to each definition that has none", a_start_gives_names);
    return TEST_RESULT();
}
