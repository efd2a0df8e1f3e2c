/* spoiled_heads.h: the head of a subject, or a message, becomes other bytes in LMDB, while the store is closed: as a
 * page that keeps its form has them after wrong bits. Not here: pages that lose their form (test_store_pages.c).
 */
#ifndef LEAFD_TESTS_SPOILED_HEADS_H
#define LEAFD_TESTS_SPOILED_HEADS_H

#include "disk/env.h"
#include "store_rig.h"

/* Of stream 1. false: it has no head. */
static inline bool spoil_head(const rig_t *rig, bytes_t subject, uint32_t size) {
    env_t *env;
    char reason[RIG_REASON];
    uint8_t bytes[HEAD_FIXED_SIZE];
    store_key_t key;
    store_key_t room;
    bytes_t value;
    memset(bytes, 0xa5, sizeof bytes);
    CHECK(size <= sizeof bytes);
    key_text(&key, 1, subject);
    CHECK_EQ_I64(STATUS_OK, env_open(rig->directory, 64 << 20, false, &env, reason, sizeof reason));
    env_seal(env, test_sealer());
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    read_outcome_t found = env_write_get(env, DB_HEADS, key_bytes(&key), &value);
    if (found == READ_FOUND) {
        bytes_t stored = env_stored_key(env, DB_HEADS, key_bytes(&key), &room);
        CHECK_EQ_I64(STATUS_OK, env_write_raw(env, DB_HEADS, stored, bytes_of(bytes, size)));
    }
    CHECK(found != READ_UNKNOWN);
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    env_close(env);
    return found == READ_FOUND;
}

/* Likewise. */
static inline void spoil_message(const rig_t *rig, uint64_t seq) {
    static const uint8_t garbage[40] = {1, 2, 3};
    char reason[RIG_REASON];
    store_key_t key;
    env_t *env;
    key_message(&key, 1, seq);
    CHECK_EQ_I64(STATUS_OK, env_open(rig->directory, 64 << 20, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    CHECK_EQ_I64(STATUS_OK, env_write_raw(env, DB_MESSAGES, key_bytes(&key), bytes_of(garbage, sizeof garbage)));
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    env_close(env);
}

#endif
