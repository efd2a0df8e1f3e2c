/* env_names.c: what each stream and durable consumer is called, in a tree of its own beside the definition, which is
 * kept twice (env_twins.c). Where damage takes both copies, the name tells whose they were: it is not given to another,
 * and a request for it is answered with the reason (store/lost.c). See env_lmdb.h.
 *
 *     names       RECORD_NAME 1, the record's key    crc 4, {"account":..,"name":..}
 *
 * An entry follows from the definition, in the transaction that puts or deletes it, so the journal has none. A start
 * makes those that are missing (env_names_level): that is also how a store that an older leafd has made gets its names.
 * A definition that is not JSON, or has no name, has no entry, and a consumer that is not durable needs none.
 */
#include "disk/env_lmdb.h"

#include "text/json.h"

#define NAME_RECORDS "\x01\x02"

_Static_assert(RECORD_STREAM == 1 && RECORD_CONSUMER == 2, "NAME_RECORDS");

bool env_is_named(store_db_t db, bytes_t key) {
    return db == DB_RECORDS && key.size >= 5 && key.size < KEY_MAX
           && (key.at[0] == RECORD_STREAM || key.at[0] == RECORD_CONSUMER);
}

/* A member of that kind; empty: there is none. Of a text what stands between its quotes, as it is written. */
static bytes_t member_of(bytes_t object, const char *name, json_kind_t kind) {
    json_field_t field;
    uint32_t at = 0;
    while (json_next(object, &at, &field)) {
        if (json_named(&field, name)) {
            return field.kind == kind ? field.value : BYTES_NONE;
        }
    }
    return BYTES_NONE;
}

static uint8_t *name_add(uint8_t *to, const char *text) {
    return bytes_write(to, bytes_of(text, (uint32_t)strlen(text)));
}

/* The entry's value for a record's (with its checksum); 0: it has none. */
static uint32_t name_compose(bytes_t key, bytes_t record, uint8_t value[ENV_NAME_MAX]) {
    json_error_t error;
    bytes_t definition = bytes_after(record, VALUE_CRC_SIZE);
    if (record.size <= VALUE_CRC_SIZE || !json_valid(definition, &error)) {
        return 0;
    }
    bytes_t config = member_of(definition, "config", JSON_OBJECT);
    bytes_t account = member_of(definition, "account", JSON_STRING);
    const char *called = key.at[0] == RECORD_STREAM ? "name" : "durable_name";
    bytes_t name = config.size > 0 ? member_of(config, called, JSON_STRING) : BYTES_NONE;
    if (name.size == 0 || (uint64_t)account.size + name.size > ENV_NAME_MAX - 64) {
        return 0;
    }
    uint8_t *to = name_add(value + VALUE_CRC_SIZE, "{\"account\":\"");
    to = bytes_write(to, account);
    to = name_add(to, "\",\"name\":\"");
    to = bytes_write(to, name);
    to = name_add(to, "\"}");
    return (uint32_t)(to - value);
}

uint32_t env_name_entry(bytes_t key, bytes_t record, store_key_t *name, uint8_t value[ENV_NAME_MAX]) {
    uint32_t size = env_is_named(DB_RECORDS, key) ? name_compose(key, record, value) : 0;
    if (size > 0) {
        key_name(name, key);
        value_seal(key_bytes(name), value, size);
    }
    return size;
}

status_t env_name_put(env_t *env, bytes_t key, bytes_t record) {
    uint8_t value[ENV_NAME_MAX];
    store_key_t name;
    uint32_t size = env_name_entry(key, record, &name, value);
    return size == 0 ? STATUS_OK : env_write_put(env, DB_NAMES, key_bytes(&name), bytes_of(value, size));
}

/* One that does not prove itself is made anew, too; a sealed one proves itself when it is read. */
static status_t has_name(env_t *env, bytes_t key, bool *has) {
    store_key_t name;
    key_name(&name, key);
    MDB_val k = env_val(key_bytes(&name));
    MDB_val v;
    *has = false;
    status_t status = env_judge(env, DB_NAMES, key_bytes(&name)); /* LMDB believes every page */
    if (status != STATUS_OK) {
        return status;
    }
    int code = mdb_get(env->write, env->dbs[DB_NAMES], &k, &v);
    *has = code == 0 && (env->sealer != NULL || value_sound(key_bytes(&name), env_bytes(v)));
    return code == MDB_NOTFOUND ? STATUS_OK : env_translate(code);
}

static status_t level_one(env_t *env, bytes_t key, uint64_t *made) {
    bytes_t record = BYTES_NONE;
    bool has;
    status_t status = has_name(env, key, &has);
    if (status != STATUS_OK || has) {
        return status;
    }
    switch (env_write_get(env, DB_RECORDS, key, &record)) {
    case READ_UNKNOWN: return env_write_why(env);
    case READ_NONE: return STATUS_OK;
    case READ_FOUND: break;
    }
    if (!value_sound(key, record)) {
        return STATUS_OK;
    }
    ++*made;
    return env_name_put(env, key, record);
}

status_t env_names_level(env_t *env, uint64_t *made) {
    *made = 0;
    for (const char *kind = NAME_RECORDS; *kind != 0; kind++) {
        store_key_t from = {.size = 1, .at = {(uint8_t)*kind}};
        bytes_t found = BYTES_NONE;
        read_outcome_t outcome;
        while (read_goes_on(outcome = env_write_seek(env, DB_RECORDS, key_bytes(&from), &found))) {
            if (!env_is_named(DB_RECORDS, found) || found.at[0] != (uint8_t)*kind) {
                break;
            }
            from.size = found.size;
            memcpy(from.at, found.at, found.size);
            status_t status = level_one(env, key_bytes(&from), made);
            if (status != STATUS_OK) {
                return status;
            }
            from.at[from.size++] = 0; /* the least key behind it */
        }
        switch (outcome) {
        case READ_UNKNOWN: return env_write_why(env);
        case READ_NONE:
        case READ_FOUND: break;
        }
    }
    return STATUS_OK;
}
