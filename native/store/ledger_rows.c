/* ledger_rows.c: see ledger_rows.h. */
#include "store/ledger_rows.h"

#include "base/check.h"
#include "store/core.h"
#include "store/record.h"

bytes_t group_key(uint32_t group, uint8_t at[4]) {
    store_be32(at, group);
    return bytes_of(at, 4);
}

bool promise_unpack(bytes_t value, ledger_promise_t *promise) {
    if (value.size < PROMISE_FIXED_SIZE || value.size > PROMISE_SIZE_MAX) {
        return false;
    }
    *promise = (ledger_promise_t){.term = load_be64(value.at) & LEDGER_TERM_MAX,
                                  .patience = value.at[0],
                                  .vote_peer = load_be64(value.at + 8),
                                  .vote_disk = load_be64(value.at + 16),
                                  .floor = load_be64(value.at + 24),
                                  .floor_term = load_be64(value.at + 32),
                                  .disk = load_be64(value.at + 40),
                                  .name = load_be64(value.at + 48),
                                  .members = bytes_after(value, PROMISE_FIXED_SIZE)};
    return true;
}

entry_outcome_t applied_get(store_t *store, uint32_t group, uint64_t *applied, bytes_t *note) {
    uint8_t at[4];
    bytes_t value = BYTES_NONE;
    entry_outcome_t outcome = store_record_get(store, RECORD_APPLIED, group_key(group, at), &value);
    switch (outcome) {
    case ENTRY_NONE:
    case ENTRY_DAMAGED:
    case ENTRY_UNKNOWN: return outcome;
    case ENTRY_FOUND: break;
    }
    if (value.size < APPLIED_SIZE || value.size > APPLIED_SIZE + LEDGER_NOTE_MAX) {
        return ENTRY_DAMAGED;
    }
    *applied = load_be64(value.at);
    *note = bytes_after(value, APPLIED_SIZE);
    return ENTRY_FOUND;
}

entry_outcome_t promise_get(store_t *store, uint32_t group, ledger_promise_t *promise) {
    uint8_t at[4];
    bytes_t value = BYTES_NONE;
    entry_outcome_t outcome = store_record_get(store, RECORD_PROMISE, group_key(group, at), &value);
    switch (outcome) {
    case ENTRY_NONE:
    case ENTRY_DAMAGED:
    case ENTRY_UNKNOWN: return outcome;
    case ENTRY_FOUND: break;
    }
    return promise_unpack(value, promise) ? ENTRY_FOUND : ENTRY_DAMAGED;
}

read_outcome_t store_ledger_promised(ledger_t *ledger, ledger_promise_t *promise) {
    switch (promise_get(ledger->store, ledger->group, promise)) {
    case ENTRY_UNKNOWN:
    case ENTRY_DAMAGED:
    case ENTRY_NONE: break;
    case ENTRY_FOUND: return READ_FOUND;
    }
    return READ_UNKNOWN;
}

uint32_t promise_pack(const ledger_promise_t *promise, uint64_t disk, uint8_t value[PROMISE_SIZE_MAX]) {
    check(promise->members.size <= LEDGER_MEMBERS_MAX);
    check(promise->term <= LEDGER_TERM_MAX);
    store_be64(value, promise->term | (uint64_t)promise->patience << 56);
    store_be64(value + 8, promise->vote_peer);
    store_be64(value + 16, promise->vote_disk);
    store_be64(value + 24, promise->floor);
    store_be64(value + 32, promise->floor_term);
    store_be64(value + 40, disk);
    store_be64(value + 48, promise->name);
    const uint8_t *end = bytes_write(value + PROMISE_FIXED_SIZE, promise->members);
    return (uint32_t)(end - value);
}

bool entry_read(bytes_t key, bytes_t value, ledger_entry_t *entry) {
    if (key.size != LEDGER_KEY_SIZE || value.size < LEDGER_FIXED_SIZE || !value_sound(key, value)) {
        return false;
    }
    *entry = (ledger_entry_t){.index = load_be64(key.at + 5),
                              .term = load_be64(value.at + 4),
                              .kind = value.at[12],
                              .bytes = bytes_after(value, LEDGER_FIXED_SIZE)};
    return true;
}

typedef struct groups {
    bool (*visit)(void *context, uint32_t group);
    void *context;
    bool sound;
} groups_t;

static bool group_visit(void *context, bytes_t key, bytes_t value) {
    groups_t *groups = context;
    (void)value;
    groups->sound = groups->sound && key.size == 4;
    return groups->sound && groups->visit(groups->context, load_be32(key.at));
}

list_outcome_t store_ledger_each(store_t *store, bool (*visit)(void *context, uint32_t group), void *context) {
    groups_t groups = {.visit = visit, .context = context, .sound = true};
    list_outcome_t outcome = store_record_each(store, RECORD_PROMISE, BYTES_NONE, BYTES_NONE, group_visit, &groups);
    return groups.sound ? outcome : LIST_UNKNOWN;
}

entry_outcome_t disk_read(store_t *store, uint64_t *disk) {
    bytes_t value = BYTES_NONE;
    entry_outcome_t outcome = store_record_get(store, RECORD_DISK, BYTES_NONE, &value);
    *disk = 0;
    switch (outcome) {
    case ENTRY_UNKNOWN: return outcome;
    case ENTRY_DAMAGED:
    case ENTRY_NONE: return ENTRY_DAMAGED;
    case ENTRY_FOUND: break;
    }
    *disk = value.size == sizeof *disk ? load_be64(value.at) : 0;
    return *disk != 0 ? ENTRY_FOUND : ENTRY_DAMAGED;
}

bool store_ledger_disk(store_t *store, uint64_t *disk) {
    switch (disk_get(store, disk)) {
    case ENTRY_UNKNOWN:
    case ENTRY_DAMAGED:
    case ENTRY_NONE: break;
    case ENTRY_FOUND: return true;
    }
    return false;
}

status_t store_ledger_disown(store_t *store) {
    return store_record_delete(store, RECORD_DISK, BYTES_NONE);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

uint64_t ledgers_memory(const store_t *store) {
    return store->ledgers.rooms * sizeof(positioned_t);
}

bool ledger_sound(const ledger_t *ledger) {
    return ledger->floor <= ledger->applied && ledger->applied <= ledger->last && ledger->last < UINT64_MAX
           && (ledger->last > ledger->floor || ledger->bytes == 0);
}

void ledger_alarm(const ledger_t *ledger) {
    store_alarm(ledger->store, ALARM_CORRUPT, ledger->group - 1, ledger->applied,
                "the log of group %u contradicts itself (%llu is its floor, %llu is carried out, %llu is its last "
                "entry): this server takes no part in the group any more",
                ledger->group, (unsigned long long)ledger->floor, (unsigned long long)ledger->applied,
                (unsigned long long)ledger->last);
}

bool ledgers_sound(const store_t *store) {
    uint64_t bytes = 0, led = 0;
    bool good = true;
    for (uint64_t i = 0; i < store->ledgers.count; i++) {
        const ledger_t *ledger = store->ledgers.at[i];
        good = good && (ledger->stopped || ledger_sound(ledger));
        bytes += ledger->bytes;
        led += ledger->led ? ledger->bytes : 0;
    }
    return good && bytes == store->ledgers.bytes && led == store->ledgers.led;
}
