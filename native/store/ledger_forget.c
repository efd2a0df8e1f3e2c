/* ledger_forget.c: a ledger that no group of this server takes part in goes, with all that the disk has of it: see
 * ledger.h. */
#include "store/ledger.h"

static status_t forgotten_passed(void *context, const ledger_entry_t *entry) {
    (void)context;
    (void)entry;
    return STATUS_OK;
}

status_t store_ledger_forget(store_t *store, uint32_t group) {
    ledger_t *ledger = NULL;
    status_t status = store_ledger_open(store, group, forgotten_passed, NULL, &ledger);
    if (status != STATUS_OK || ledger == NULL) {
        return status == STATUS_AGAIN ? STATUS_FULL : status;
    }
    status = store_ledger_remove(ledger);
    if (status != STATUS_OK) {
        store_ledger_close(ledger);
    }
    return status;
}
