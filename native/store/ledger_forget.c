/* ledger_forget.c: a ledger that no group of this server takes part in: it goes, with all that the disk has of it, or,
 * where no other server has it, goes on. See ledger.h. */
#include <string.h>

#include "store/ledger_rows.h"
#include "store/record.h"

static status_t passed(void *context, const ledger_entry_t *entry) {
    (void)context;
    (void)entry;
    return STATUS_OK;
}

status_t store_ledger_forget(store_t *store, uint32_t group) {
    ledger_t *ledger = NULL;
    status_t status = store_ledger_open(store, group, passed, NULL, &ledger);
    if (status != STATUS_OK || ledger == NULL) {
        return status == STATUS_AGAIN ? STATUS_FULL : status;
    }
    status = store_ledger_remove(ledger);
    if (status != STATUS_OK) {
        store_ledger_close(ledger);
    }
    return status;
}

static status_t put_promise(store_t *store, bytes_t key, const ledger_promise_t *promise, uint64_t disk) {
    uint8_t value[PROMISE_SIZE_MAX];
    return store_record_put(store, RECORD_PROMISE, key, bytes_of(value, promise_pack(promise, disk, value)));
}

/* Can all of it be read, now that it is said to be this disk's? */
static status_t is_whole(store_t *store, uint32_t group) {
    ledger_t *ledger = NULL;
    status_t status = store_ledger_open(store, group, passed, NULL, &ledger);
    if (ledger != NULL) {
        status = ledger->foreign ? STATUS_CORRUPT : STATUS_OK;
        store_ledger_close(ledger);
    }
    return status;
}

status_t store_ledger_inherit(store_t *store, uint32_t group) {
    uint8_t number[4], members[LEDGER_MEMBERS_MAX];
    uint64_t disk = 0;
    bytes_t value = BYTES_NONE;
    ledger_promise_t promise;
    store_be32(number, group);
    bytes_t key = bytes_of(number, sizeof number);
    switch (store_record_get(store, RECORD_PROMISE, key, &value)) {
    case ENTRY_FOUND: break;
    case ENTRY_NONE: return STATUS_INVALID; /* nothing to go on with */
    case ENTRY_DAMAGED: return STATUS_CORRUPT;
    case ENTRY_UNKNOWN: return STATUS_IO;
    }
    if (!promise_unpack(value, &promise) || promise.members.size > sizeof members) {
        return STATUS_CORRUPT;
    }
    promise.members.at = memcpy(members, promise.members.at, promise.members.size);
    status_t status = entry_status(disk_get(store, &disk));
    status = status == STATUS_OK ? put_promise(store, key, &promise, disk) : status;
    if (status != STATUS_OK) {
        return status;
    }
    status_t whole = is_whole(store, group);
    status = whole == STATUS_OK ? STATUS_OK : put_promise(store, key, &promise, promise.disk);
    return whole == STATUS_OK || status == STATUS_OK ? whole : status;
}
