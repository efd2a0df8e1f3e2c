/* ledger_rows.h: the bytes of a promise and of an entry in LMDB, and what is asked of a ledger's numbers: see
 * ledger.h. For ledger.c alone. */
#ifndef LEAFD_STORE_LEDGER_ROWS_H
#define LEAFD_STORE_LEDGER_ROWS_H

#include "store/ledger.h"

#define APPLIED_SIZE 8
#define PROMISE_FIXED_SIZE 56
#define PROMISE_SIZE_MAX (PROMISE_FIXED_SIZE + LEDGER_MEMBERS_MAX)

bytes_t group_key(uint32_t group, uint8_t at[4]);
/* false: the bytes are no row. Its members are bytes of the value. */
bool promise_unpack(bytes_t value, ledger_promise_t *promise);
/* Its note, or members, are bytes of what was read. */
LEAF_MUST_USE entry_outcome_t applied_get(store_t *store, uint32_t group, uint64_t *applied, bytes_t *note);
LEAF_MUST_USE entry_outcome_t promise_get(store_t *store, uint32_t group, ledger_promise_t *promise);
/* The id of the disk, which every start makes where there is none: one that is not there is ENTRY_DAMAGED, too. */
LEAF_MUST_USE entry_outcome_t disk_read(store_t *store, uint64_t *disk);
/* The same, read once (ledger.c). */
LEAF_MUST_USE entry_outcome_t disk_get(store_t *store, uint64_t *disk);
/* How many bytes. */
uint32_t promise_pack(const ledger_promise_t *promise, uint64_t disk, uint8_t value[PROMISE_SIZE_MAX]);
/* false: damaged. */
bool entry_read(bytes_t key, bytes_t value, ledger_entry_t *entry);

/* Says why it is stopped. */
void ledger_alarm(const ledger_t *ledger);

#endif
