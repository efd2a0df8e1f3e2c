/* rescue.c: plane_look_rescue and plane_store_settle of abi.h: a store is made anew of what can be read of another.
 *
 *     messages            one by one, as rebuild.c brings them in: what is derived from them (heads, chains, counters)
 *                         is counted again, so it speaks of nothing that is lost
 *     dictionaries        not at all: the new store makes its own, and what a damaged one loses is messages
 *     other entries       as they are, where their checksum holds, from the one side or the other where they are kept
 *                         twice
 *     the journal         the caller copies it; settling is a start like any other, which takes of it what it proves
 *
 * The store that is looked at is not written to. Whatever ends this in between leaves a directory that no start takes
 * for whole only by its being where no daemon looks: the caller gives it its name at the end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "recovery/look.h"
#include "recovery/open.h"
#include "recovery/salvage.h"
#include "store/lifecycle.h"

#define COMMIT_BYTES (UINT64_C(8) << 20) /* put in one transaction, which LMDB keeps in memory until it ends */
#define COMMIT_ENTRIES 20000
#define MAP_MIN (UINT64_C(1) << 30)

typedef struct rescue {
    store_look_t *look;
    store_audit_t *audit;
    findings_t findings;
    store_t *store; /* that is made: an environment and no more */
    rebuild_t *rebuild;
    bool all;
    uint64_t bytes; /* in the open transaction */
    uint64_t entries;
} rescue_t;

static void lose_page(void *context, size_t page, const char *what) {
    rescue_t *rescue = context;
    rescue->audit->damaged_pages++;
    findings_say(&rescue->findings, "data.mdb, page %zu: %s: what it held is lost, where it is kept nowhere else", page,
                 what);
    rebuild_hole(rescue->rebuild);
}

static void name_database(void *context, bytes_t key, bytes_t value, char name[64]) {
    const rescue_t *rescue = context;
    look_name(rescue->look, key, value, name);
}

static bool is_needed(void *context, const char *database) {
    const rescue_t *rescue = context;
    store_db_t db = look_database(database);
    bool taken = db != DB_COUNT && db != DB_DICTIONARIES && db != DB_DICTIONARY_COPIES && db != DB_HEADS;
    return taken && (rescue->all || look_original(db) == DB_META);
}

static status_t commit_some(rescue_t *rescue, uint32_t size) {
    env_t *env = rescue->store->env;
    rescue->bytes += size;
    rescue->entries++;
    if (rescue->bytes < COMMIT_BYTES && rescue->entries < COMMIT_ENTRIES) {
        return STATUS_OK;
    }
    rescue->bytes = rescue->entries = 0;
    status_t status = env_write_commit(env);
    return status == STATUS_OK ? env_write_begin(env) : status;
}

static status_t rescue_entry(void *context, const char *database, bytes_t key, bytes_t value) {
    rescue_t *rescue = context;
    look_entry_t entry;
    status_t status = look_open_entry(rescue->look, database, key, value, &entry);
    if (status != STATUS_OK) {
        return status;
    }
    if (!entry.sound) {
        char what[128];
        look_describe(&entry, what, sizeof what);
        rescue->audit->damaged_entries++;
        findings_say(&rescue->findings, "%s: it is damaged, and lost", what);
        return STATUS_OK;
    }
    if (look_original(entry.db) == DB_RECORDS && entry.key.size == 1 && entry.key.at[0] == RECORD_DISK) {
        return STATUS_OK; /* a store that is made anew of what could be read is another disk: store/ledger.h */
    }
    rescue->audit->entries++;
    rescue->audit->messages += entry.db == DB_MESSAGES;
    store_db_t db = look_original(entry.db);
    const batch_op_t op = {.kind = OP_PUT, .db = (uint8_t)db, .key = entry.key, .value = entry.value};
    status = rebuild_op(rescue->rebuild, &op);
    status = status == STATUS_OK ? commit_some(rescue, value.size) : status;
    return status == STATUS_CORRUPT ? STATUS_IO : status; /* what is written to is no page that is read */
}

static store_options_t options_for(const char *directory, const plane_keys_t *keys, uint64_t size) {
    uint64_t map = size > UINT64_MAX / 4 ? UINT64_MAX : 4 * size;
    return (store_options_t){.directory = directory, .keys = keys, .max_bytes = map > MAP_MIN ? map : MAP_MIN};
}

static status_t rescue_all(rescue_t *rescue, char *reason) {
    env_t *env = rescue->store->env;
    const pages_visit_t visit = {.context = rescue,
                                 .commit = rescue->look->hold != NULL ? &rescue->look->commit : NULL,
                                 .wanted = is_needed,
                                 .name = name_database,
                                 .entry = rescue_entry,
                                 .damaged = lose_page,
                                 .done = &rescue->audit->done};
    status_t status = env_write_begin(env);
    if (status == STATUS_OK) {
        status = pages_each(rescue->look->lmdb, &visit, reason, PLANE_REASON_SIZE);
    }
    status = status == STATUS_OK ? rebuild_end(rescue->rebuild) : status;
    if (status == STATUS_OK) {
        return env_write_commit(env);
    }
    env_write_abort(env);
    return status;
}

int32_t plane_look_rescue(store_look_t *look, const char *to, uint32_t all, store_audit_t *audit, char *findings,
                          uint32_t room, char *reason) {
    rescue_t rescue = {.look = look, .audit = audit, .findings = {.at = findings, .room = room}, .all = all != 0};
    store_alarm_t alarm;
    *audit = (store_audit_t){0};
    findings[0] = reason[0] = 0;
    if (look_blind(look) && all != 0) {
        snprintf(reason, PLANE_REASON_SIZE, "the store is encrypted: give its key");
        return STATUS_INVALID;
    }
    const store_options_t options = options_for(to, NULL, (look->commit.last + 1) * look->commit.page_size);
    rescue.store = store_new(&options);
    status_t status = rescue.store != NULL ? STATUS_OK : STATUS_NO_MEMORY;
    if (status == STATUS_OK) {
        status = env_open(to, rescue.store->sizes.map, false, &rescue.store->env, reason, PLANE_REASON_SIZE);
    }
    if (status == STATUS_OK) {
        env_seal(rescue.store->env, look->sealing.sealer);
        rescue.rebuild = rebuild_new(rescue.store);
        status = rescue.rebuild != NULL ? rescue_all(&rescue, reason) : STATUS_NO_MEMORY;
    }
    if (status != STATUS_OK && reason[0] == 0) {
        snprintf(reason, PLANE_REASON_SIZE, "cannot write to %s: %s", to, status_name(status));
    }
    while (rescue.store != NULL && store_alarm_next(rescue.store, &alarm)) {
        findings_say(&rescue.findings, "%s", alarm.text);
    }
    rebuild_free(rescue.rebuild);
    if (rescue.store != NULL) {
        store_free(rescue.store);
    }
    return status;
}

int32_t plane_store_settle(const char *directory, const plane_keys_t *keys, uint32_t lossy, char *findings,
                           uint32_t room, char *reason) {
    findings_t told = {.at = findings, .room = room};
    store_options_t options = options_for(directory, keys, 0);
    char path[STORE_PATH_MAX];
    struct stat file;
    store_t *store;
    findings[0] = reason[0] = 0;
    int length = snprintf(path, sizeof path, "%s/data.mdb", directory);
    if (length > 0 && (size_t)length < sizeof path && stat(path, &file) == 0) {
        options = options_for(directory, keys, (uint64_t)file.st_size);
    }
    options.lossy = lossy != 0;
    status_t status = store_open(&options, &store, reason, PLANE_REASON_SIZE);
    if (status == STATUS_OK) {
        store_alarm_t alarm;
        while (store_alarm_next(store, &alarm)) {
            findings_say(&told, "%s", alarm.text);
        }
        store_close(store);
    }
    return status;
}
