/* durables.h: a store of patch_rig.h whose stream has durable consumers, so that their names fill pages.
 */
#ifndef LEAFD_TESTS_DURABLES_H
#define LEAFD_TESTS_DURABLES_H

#include "patch_rig.h"

#define DURABLES 300u

static inline bytes_t consumer_key(unsigned i, uint8_t room[8]) {
    store_be32(room, 1);
    store_be32(room + 4, i);
    return bytes_of(room, 8);
}

static inline void put_durable(unsigned i) {
    char definition[64];
    uint8_t room[8];
    snprintf(definition, sizeof definition, "{\"config\":{\"durable_name\":\"durable-%u\"}}", i);
    CHECK_EQ_I64(STATUS_OK, store_record_put(rig.store, RECORD_CONSUMER, consumer_key(i, room), text(definition)));
}

/* For store_lost_each. */
static inline bool no_lost(void *context, bytes_t key, bytes_t name) {
    (void)context;
    FAIL("%.*s (%u) is lost", (int)name.size, (const char *)name.at, key.size);
    return false;
}

/* Another process at the closed store. forget: a definition, in both copies. */
static inline void names_are(unsigned upto, unsigned forget) {
    char reason[256];
    env_t *env;
    store_close(rig.store);
    CHECK_EQ_I64(STATUS_OK, env_open(rig.directory, 64 << 20, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    for (unsigned i = 1; i <= upto; i++) {
        uint8_t room[8];
        char wanted[64];
        store_key_t key, name;
        bytes_t value = BYTES_NONE;
        key_record(&key, RECORD_CONSUMER, consumer_key(i, room));
        key_name(&name, key_bytes(&key));
        snprintf(wanted, sizeof wanted, "{\"account\":\"\",\"name\":\"durable-%u\"}", i);
        CHECK_EQ_I64(READ_FOUND, env_get(env, DB_NAMES, key_bytes(&name), &value));
        CHECK(value_sound(key_bytes(&name), value));
        value = bytes_after(value, VALUE_CRC_SIZE);
        CHECK_BYTES(wanted, strlen(wanted), value.at, value.size);
        if (i == forget) {
            CHECK_EQ_I64(STATUS_OK, env_write_raw(env, DB_RECORDS, key_bytes(&key), BYTES_LITERAL("spoiled")));
        }
    }
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    env_close(env);
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    (void)rig_stream(&rig, 2, rig_config());
}

#endif
