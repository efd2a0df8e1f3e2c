/* env_packed.c: the environment's values of compressed messages, which have a dictionary beside them. See env_lmdb.h.
 */
#include <errno.h>

#include "disk/entry.h"
#include "disk/env_lmdb.h"

/* ---- out of LMDB ------------------------------------------------------------------------------------------------- */

/* One side reads dictionaries. */
typedef struct fetching {
    env_t *env;
    sealer_side_t side;
    unsealed_t room;
} fetching_t;

static status_t fetch_written(env_t *env, store_db_t db, bytes_t key, bytes_t *value) {
    MDB_val k = env_val(key);
    MDB_val v = {0};
    status_t status = env_judge(env, db, key);
    int code = status == STATUS_OK ? mdb_get(env->write, env->dbs[db], &k, &v) : 0;
    status = status == STATUS_OK && code != MDB_NOTFOUND ? env_read_code(code) : status;
    *value = code == 0 && status == STATUS_OK ? env_bytes(v) : BYTES_NONE;
    if (status != STATUS_OK) {
        env_note_unread(env); /* said, though the other copy may serve */
    }
    return status;
}

static status_t fetch_dictionary(void *context, store_db_t db, bytes_t key, bytes_t *value) {
    fetching_t *fetching = context;
    const sealer_t *sealer = fetching->env->sealer;
    *value = BYTES_NONE;
    status_t status = fetching->side == SEALER_PLANE ? read_known(env_get_as_stored(fetching->env, db, key, value))
                                                     : fetch_written(fetching->env, db, key, value);
    if (status != STATUS_OK || value->size == 0) {
        return status;
    }
    return entry_sealed(sealer, db) ? entry_open(&fetching->room, sealer, fetching->side, db, key, *value, NULL, value)
                                    : STATUS_OK;
}

static status_t find_to_read(void *context, uint32_t stream, uint32_t id, const dictionary_t **found) {
    env_t *env = context;
    fetching_t fetching = {.env = env, .side = SEALER_PLANE};
    status_t status =
        dictionaries_find(&env->read_dictionaries, stream, id, env->renewals, fetch_dictionary, &fetching, found);
    unsealed_forget(&fetching.room);
    return status;
}

static status_t find_to_write(void *context, uint32_t stream, uint32_t id, const dictionary_t **found) {
    env_t *env = context;
    fetching_t fetching = {.env = env, .side = SEALER_KEEPER};
    status_t status = dictionaries_find(&env->written_dictionaries, stream, id, env->written_version, fetch_dictionary,
                                        &fetching, found);
    unsealed_forget(&fetching.room);
    return status;
}

status_t env_unpack_read(env_t *env, bytes_t key, bytes_t packed, bytes_t *value) {
    const finder_t finder = {.context = env, .find = find_to_read};
    return packing_unpack(&env->read_values, &finder, key, packed, value);
}

status_t env_unpack_written(env_t *env, bytes_t key, bytes_t packed, bytes_t *value) {
    const finder_t finder = {.context = env, .find = find_to_write};
    return packing_unpack(&env->written_value, &finder, key, packed, value);
}

/* ---- into LMDB --------------------------------------------------------------------------------------------------- */

status_t env_pack(env_t *env, bytes_t key, bytes_t *value) {
    if (env->packer == NULL) {
        env->packer = packer_new(env->packer_first != 0 ? env->packer_first : PACKER_FIRST);
    }
    uint32_t slot = slots_find(&env->write_slots, env->slots, load_be32(key.at));
    const uint8_t *before = value->at;
    status_t status = packer_pack(env->packer, env, slot, key, value);
    if (value->at != before) {
        env->formats |= STORE_FORMAT_PACKED | (packing_primed(*value) ? STORE_FORMAT_PRIMED : 0);
    }
    return status;
}

status_t env_drop_dictionaries(env_t *env, uint32_t slot, uint32_t stream) {
    env->written_version++;
    return packer_drop(env->packer, env, slot, stream);
}

status_t env_forget_emptied(env_t *env, uint32_t opened, uint32_t stream) {
    MDB_stat messages;
    MDB_stat dictionaries;
    int code = mdb_stat(env->write, env->dbs[DB_COUNT + opened], &messages);
    code = code == 0 ? mdb_stat(env->write, env->dbs[DB_DICTIONARIES], &dictionaries) : code;
    if (code != 0 || messages.ms_entries != 0 || dictionaries.ms_entries == 0) {
        return env_translate(code);
    }
    return env_drop_dictionaries(env, opened + 1, stream);
}
