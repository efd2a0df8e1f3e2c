/* ledger.c: see ledger.h. */
#include "store/ledger.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/check.h"
#include "store/ledger_rows.h"
#include "store/overlay.h"
#include "store/record.h"

#define LEDGERS_MIN 16
#define APPLIED_OP (OP_HEADER_SIZE + 5 + VALUE_CRC_SIZE + APPLIED_SIZE + LEDGER_NOTE_MAX)
#define APPLIED_PROMISE (3 * NOTE_BYTES_MIN) /* more than the op takes, so that its note finds room, too */
#define LEDGER_OP_SIZE (OP_HEADER_SIZE + LEDGER_KEY_SIZE + LEDGER_FIXED_SIZE)
#define SOON 256u  /* bytes of an entry, 64 at a time */
#define NOTES 32   /* of all that one call notes */
#define PROMISES 2 /* likewise; these, a cut and a floor are its bytes: */
#define LEDGER_CALL                                                                                                    \
    (PROMISES * (OP_HEADER_SIZE + 5 + VALUE_CRC_SIZE + PROMISE_FIXED_SIZE + LEDGER_MEMBERS_MAX) + 2 * 64)

_Static_assert(APPLIED_OP <= APPLIED_PROMISE, "what is promised is enough");

/* ---- records ----------------------------------------------------------------------------------------------------- */

/* One that is new. */
static status_t promise_write(store_t *store, uint32_t group, const ledger_promise_t *promise) {
    uint8_t key[4];
    uint8_t value[PROMISE_SIZE_MAX];
    uint32_t size = promise_pack(promise, store->ledgers.disk, value);
    return store_record_put(store, RECORD_PROMISE, group_key(group, key), bytes_of(value, size));
}

/* In place of the one that is there. The caller has room for it. */
static void promise_rewrite(ledger_t *ledger, const ledger_promise_t *promise) {
    store_t *store = ledger->store;
    uint8_t at[4];
    uint8_t value[PROMISE_SIZE_MAX];
    store_key_t key;
    uint32_t size = promise_pack(promise, store->ledgers.disk, value);
    key_record(&key, RECORD_PROMISE, group_key(ledger->group, at));
    uint8_t *to = overlay_put(store, DB_RECORDS, key_bytes(&key), VALUE_CRC_SIZE + size, true, NULL);
    memcpy(to + VALUE_CRC_SIZE, value, size);
    value_seal(key_bytes(&key), to, VALUE_CRC_SIZE + size);
}

static entry_outcome_t applied_read(ledger_t *ledger) {
    bytes_t note = BYTES_NONE;
    entry_outcome_t outcome = applied_get(ledger->store, ledger->group, &ledger->applied, &note);
    store_ledger_note(ledger, note);
    return outcome;
}

static void applied_write(const ledger_t *ledger) { /* the caller has room for it */
    uint8_t at[4];
    store_key_t key;
    uint32_t size = VALUE_CRC_SIZE + APPLIED_SIZE + ledger->note_size;
    key_record(&key, RECORD_APPLIED, group_key(ledger->group, at));
    uint8_t *value = overlay_put(ledger->store, DB_RECORDS, key_bytes(&key), size, true, NULL);
    store_be64(value + VALUE_CRC_SIZE, ledger->applied);
    (void)bytes_write(value + VALUE_CRC_SIZE + APPLIED_SIZE, bytes_of(ledger->note, ledger->note_size));
    value_seal(key_bytes(&key), value, size);
}

entry_outcome_t disk_get(store_t *store, uint64_t *disk) {
    entry_outcome_t outcome = store->ledgers.disk != 0 ? ENTRY_FOUND : disk_read(store, &store->ledgers.disk);
    *disk = store->ledgers.disk;
    return outcome;
}

/* ---- a ledger's life --------------------------------------------------------------------------------------------- */

static ledger_t *ledger_of(const store_t *store, uint32_t group) {
    for (uint64_t i = 0; i < store->ledgers.count; i++) {
        if (store->ledgers.at[i]->group == group) {
            return store->ledgers.at[i];
        }
    }
    return NULL;
}

static status_t ledger_new(store_t *store, uint32_t group, ledger_t **out) {
    ledgers_t *ledgers = &store->ledgers;
    uint64_t count = ledgers->count + 1;
    status_t status = array_reserve(&ledgers->at, &ledgers->room, count, LEDGERS_MIN, sizeof *ledgers->at);
    if (status == STATUS_OK) {
        status = array_reserve(&ledgers->touched, &ledgers->touched_room, count, LEDGERS_MIN, sizeof *ledgers->touched);
    }
    *out = status == STATUS_OK ? calloc(1, sizeof **out) : NULL;
    if (*out == NULL) {
        return STATUS_NO_MEMORY;
    }
    (*out)->store = store;
    (*out)->group = group;
    positions_begin(&(*out)->young, &ledgers->rooms);
    return STATUS_OK;
}

/* All that LMDB has of it, which is all that there is: one behind the other, up to the last. */
static status_t entries_load(ledger_t *ledger, ledger_visit_t visit, void *context) {
    store_t *store = ledger->store;
    store_key_t from;
    bytes_t key = BYTES_NONE;
    bytes_t value = BYTES_NONE;
    key_ledger(&from, ledger->group, 0);
    read_outcome_t outcome = env_seek(store->env, DB_LEDGER, key_bytes(&from), &key, &value);
    while (read_goes_on(outcome) && bytes_starts(key, bytes_of(from.at, 5))) {
        ledger_entry_t entry;
        if (!entry_read(key, value, &entry) || entry.index != ledger->last + 1) {
            return STATUS_CORRUPT;
        }
        ledger->last = entry.index;
        ledger->bytes += LEDGER_OP_SIZE + (uint64_t)entry.bytes.size;
        status_t status = visit(context, &entry);
        if (status != STATUS_OK) {
            return status;
        }
        outcome = env_next(store->env, DB_LEDGER, BYTES_NONE, &key, &value);
    }
    return read_known(outcome);
}

static void promise_keep(ledger_t *ledger, const ledger_promise_t *promise) {
    ledger->promise = *promise;
    if (promise->members.size > 0) {
        memmove(ledger->members, promise->members.at, promise->members.size);
    }
    ledger->promise.members.at = ledger->members;
}

/* A promise that is missing beside what belongs to it went with a damaged page. The disk has another id for that. */
static status_t load_unpromised(ledger_t *ledger, entry_outcome_t applied, bool *there) {
    store_key_t from;
    bytes_t key = BYTES_NONE;
    bytes_t value = BYTES_NONE;
    switch (applied) {
    case ENTRY_UNKNOWN:
    case ENTRY_DAMAGED: return entry_status(applied);
    case ENTRY_FOUND: ledger->foreign = true; return STATUS_OK;
    case ENTRY_NONE: break;
    }
    key_ledger(&from, ledger->group, 0);
    switch (env_seek(ledger->store->env, DB_LEDGER, key_bytes(&from), &key, &value)) {
    case READ_UNKNOWN: return STATUS_IO;
    case READ_NONE: *there = false; break;
    case READ_FOUND: *there = ledger->foreign = bytes_starts(key, bytes_of(from.at, 5)); break;
    }
    return STATUS_OK;
}

/* Of another disk's nothing is asked but that it goes: damage of its log is in nobody's way. STATUS_CORRUPT is for what
 * is known to be damaged, since the disk then gives up its id (group/marks.h); what could not be read is STATUS_IO. */
static status_t ledger_load(ledger_t *ledger, ledger_visit_t visit, void *context, bool *there) {
    store_t *store = ledger->store;
    ledger_promise_t promise = {0};
    uint64_t disk;
    status_t known = entry_status(disk_get(store, &disk));
    if (known != STATUS_OK) {
        return known;
    }
    entry_outcome_t applied = applied_read(ledger);
    entry_outcome_t promised = promise_get(store, ledger->group, &promise);
    switch (promised) {
    case ENTRY_UNKNOWN:
    case ENTRY_DAMAGED: return entry_status(promised);
    case ENTRY_NONE: return load_unpromised(ledger, applied, there);
    case ENTRY_FOUND: break;
    }
    promise_keep(ledger, &promise);
    ledger->foreign = promise.disk != disk;
    ledger->floor = ledger->last = promise.floor;
    if (ledger->foreign) {
        ledger->applied = promise.floor;
        return STATUS_OK;
    }
    switch (applied) {
    case ENTRY_UNKNOWN: return STATUS_IO;
    case ENTRY_DAMAGED:
    case ENTRY_NONE: return STATUS_CORRUPT;
    case ENTRY_FOUND: break;
    }
    status_t status = entries_load(ledger, visit, context);
    if (status != STATUS_OK) {
        return status == STATUS_AGAIN ? STATUS_IO : status;
    }
    return ledger_sound(ledger) ? STATUS_OK : STATUS_CORRUPT;
}

status_t store_ledger_open(store_t *store, uint32_t group, ledger_visit_t visit, void *context, ledger_t **out) {
    ledgers_t *ledgers = &store->ledgers;
    check(store->options.ledgers);
    *out = NULL;
    if (ledger_of(store, group) != NULL) {
        return STATUS_IN_USE;
    }
    if (store->adopted.end > store->batches.freed) {
        return STATUS_AGAIN;
    }
    status_t status = ledger_new(store, group, out);
    if (status != STATUS_OK) {
        return status;
    }
    bool there = true;
    status = ledger_load(*out, visit, context, &there);
    if (status != STATUS_OK || !there) {
        free(*out);
        *out = NULL;
        return status;
    }
    ledgers->bytes += (*out)->bytes;
    ledgers->at[ledgers->count++] = *out;
    return STATUS_OK;
}

static status_t nothing_there(void *context, const ledger_entry_t *entry) {
    (void)context, (void)entry;
    return STATUS_EXISTS;
}

status_t store_ledger_begin(store_t *store, uint32_t group, const ledger_promise_t *promise, ledger_t **out) {
    status_t status = store_ledger_open(store, group, nothing_there, NULL, out);
    if (*out != NULL) { /* an empty one */
        store_ledger_close(*out);
        *out = NULL;
        status = STATUS_EXISTS;
    }
    status = status == STATUS_OK && !overlay_fits(store, LEDGER_CALL + APPLIED_OP) ? STATUS_FULL : status;
    if (status != STATUS_OK) {
        return status == STATUS_IN_USE ? STATUS_EXISTS : status;
    }
    status = ledger_new(store, group, out);
    status = status == STATUS_OK ? promise_write(store, group, promise) : status;
    if (status != STATUS_OK) {
        free(*out);
        *out = NULL;
        return status;
    }
    (*out)->floor = (*out)->applied = (*out)->last = promise->floor;
    store_ledger_note(*out, promise->note);
    applied_write(*out);
    promise_keep(*out, promise);
    (*out)->written = true;
    store->ledgers.at[store->ledgers.count++] = *out;
    return STATUS_OK;
}

/* One's entries have grown by so many bytes, or fewer (modulo 2^64). */
static void ledger_count(ledger_t *ledger, uint64_t bytes) {
    ledger->bytes += bytes;
    ledger->store->ledgers.bytes += bytes;
    ledger->store->ledgers.led += ledger->led ? bytes : 0;
}

static void ledger_end(ledger_t *ledger) {
    ledgers_t *ledgers = &ledger->store->ledgers;
    uint64_t i = 0;
    ledger_count(ledger, 0 - ledger->bytes);
    while (ledgers->at[i] != ledger) i++;
    ledgers->at[i] = ledgers->at[--ledgers->count];
    positions_free(&ledger->young);
    free(ledger);
}

void store_ledger_close(ledger_t *ledger) {
    check(!ledger->written);
    ledger_end(ledger);
}

status_t store_ledger_remove(ledger_t *ledger) {
    store_t *store = ledger->store;
    ledgers_t *ledgers = &store->ledgers;
    uint8_t at[4];
    store_key_t key;
    if (!overlay_fits(store, LEDGER_CALL)) {
        return STATUS_FULL;
    }
    key_ledger(&key, ledger->group, 0);
    overlay_delete_prefix(store, DB_LEDGER, bytes_of(key.at, 5));
    check(store_record_delete(store, RECORD_PROMISE, group_key(ledger->group, at)) == STATUS_OK);
    check(store_record_delete(store, RECORD_APPLIED, group_key(ledger->group, at)) == STATUS_OK);
    if (ledger->touched) {
        uint64_t i = 0;
        while (ledgers->touched[i] != ledger) i++;
        ledgers->touched[i] = ledgers->touched[--ledgers->touched_count];
        overlay_give_back(store, APPLIED_PROMISE);
    }
    ledger_end(ledger);
    return STATUS_OK;
}

void ledgers_free(store_t *store) {
    for (uint64_t i = 0; i < store->ledgers.count; i++) {
        positions_free(&store->ledgers.at[i]->young);
        free(store->ledgers.at[i]);
    }
    free(store->ledgers.at);
    free(store->ledgers.touched);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Of one that LMDB alone has, or the overlay by its key; without its crc. */
static bool stored_value(const ledger_t *ledger, uint64_t index, bytes_t *value) {
    store_key_t key;
    key_ledger(&key, ledger->group, index);
    switch (overlay_get(ledger->store, DB_LEDGER, key_bytes(&key), value)) {
    case ENTRY_UNKNOWN:
    case ENTRY_DAMAGED:
    case ENTRY_NONE: break;
    case ENTRY_FOUND: return value->size >= LEDGER_FIXED_SIZE - VALUE_CRC_SIZE;
    }
    return false;
}

/* position: of its bytes, which never move, where the batches have them; 0 else. */
read_outcome_t store_ledger_get(ledger_t *ledger, uint64_t index, ledger_entry_t *entry) {
    const batches_t *batches = &ledger->store->batches;
    uint64_t at = positions_of(&ledger->young, index);
    bool young = at != 0 && at >= batches->freed;
    bytes_t value = BYTES_NONE;
    if (index <= ledger->floor || index > ledger->last) {
        return READ_NONE;
    }
    if (LEAF_LIKELY(young)) {
        batch_op_t op;
        op_read(batches, at, &op);
        value = bytes_after(op.value, VALUE_CRC_SIZE);
    } else if (!stored_value(ledger, index, &value)) {
        return READ_UNKNOWN;
    }
    entry->index = index;
    entry->term = load_be64(value.at);
    entry->kind = value.at[8];
    entry->position = young ? at + LEDGER_OP_SIZE : 0;
    entry->bytes = bytes_after(value, LEDGER_FIXED_SIZE - VALUE_CRC_SIZE);
    return READ_FOUND;
}

void store_ledger_soon(const ledger_t *ledger, uint64_t index) {
    uint64_t position = positions_of(&ledger->young, index);
    for (uint64_t line = 0; position != 0 && line < SOON; line += 64) {
        __builtin_prefetch(batches_at(&ledger->store->batches, position) + line);
    }
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static uint64_t ledgers_budget(const store_t *store) {
    return store->journal.size / LEDGER_PART;
}

static uint64_t led_budget(const store_t *store) {
    return ledgers_budget(store) / 2;
}

bool store_ledger_pressed(const store_t *store) {
    return store->ledgers.bytes > led_budget(store) / 2;
}

uint64_t store_ledger_most(const store_t *store) {
    return number_less(number_least(led_budget(store), room_message_max(store)), LEDGER_OP_SIZE);
}

void store_ledger_lead(ledger_t *ledger, bool led) {
    if (ledger->led != led) {
        ledger->store->ledgers.led += led ? ledger->bytes : 0 - ledger->bytes;
        ledger->led = led;
    }
}

/* Of the entries in (after, upto]. Those that have no position count as far as they can be read. */
static uint64_t entries_bytes(ledger_t *ledger, uint64_t after, uint64_t upto) {
    uint64_t bytes = 0, index = after + 1;
    for (; index <= upto && positions_of(&ledger->young, index) == 0; index++) {
        ledger_entry_t entry;
        switch (store_ledger_get(ledger, index, &entry)) {
        case READ_UNKNOWN:
        case READ_NONE: break;
        case READ_FOUND: bytes += LEDGER_OP_SIZE + (uint64_t)entry.bytes.size; break;
        }
    }
    return bytes + positions_bytes(&ledger->young, index, upto);
}

bool store_ledger_fits_behind(ledger_t *ledger, uint64_t index, uint64_t entries, uint64_t bytes) {
    store_t *store = ledger->store;
    uint64_t need = entries * LEDGER_OP_SIZE + bytes;
    uint64_t stays = store->ledgers.bytes - (index < ledger->last ? entries_bytes(ledger, index, ledger->last) : 0);
    bool within = bytes == 0 || stays + need <= ledgers_budget(store);
    return within && !ledger->stopped && overlay_fits(store, need + LEDGER_CALL)
           && overlay_reserve(store, NOTES) == STATUS_OK
           && positions_reserve(&ledger->young, entries, store->batches.freed) == STATUS_OK;
}

bool store_ledger_fits(ledger_t *ledger, uint64_t entries, uint64_t bytes) {
    return store_ledger_fits_behind(ledger, ledger->last, entries, bytes);
}

bool store_ledger_proposes(ledger_t *ledger, uint64_t entries, uint64_t bytes) {
    uint64_t needs = ledger->store->ledgers.led + entries * LEDGER_OP_SIZE + bytes;
    return needs <= led_budget(ledger->store) && store_ledger_fits(ledger, entries, bytes);
}

status_t store_ledger_put(ledger_t *ledger, const ledger_entry_t *entry) {
    store_t *store = ledger->store;
    store_key_t key;
    uint64_t position;
    check(entry->index == ledger->last + 1);
    if (!store_ledger_fits(ledger, 1, entry->bytes.size)) {
        return STATUS_FULL;
    }
    key_ledger(&key, ledger->group, entry->index);
    uint32_t size = LEDGER_FIXED_SIZE + entry->bytes.size;
    uint8_t *value = overlay_put(store, DB_LEDGER, key_bytes(&key), size, false, &position);
    positions_add(&ledger->young, entry->index, position, LEDGER_OP_SIZE + (uint64_t)entry->bytes.size);
    store_be64(value + 4, entry->term);
    value[12] = entry->kind;
    (void)bytes_write(value + LEDGER_FIXED_SIZE, entry->bytes);
    value_seal(key_bytes(&key), value, size);
    ledger->last = entry->index;
    ledger_count(ledger, LEDGER_OP_SIZE + (uint64_t)entry->bytes.size);
    ledger->written = true;
    return STATUS_OK;
}

/* Removes what lies in (after, upto], which begins at the floor or ends with the last. One that cannot be read counts
 * on until the ledger is empty: too much rather than too little. */
static void entries_remove(ledger_t *ledger, uint64_t after, uint64_t upto) {
    store_t *store = ledger->store;
    store_key_t from;
    store_key_t to;
    uint64_t bytes = entries_bytes(ledger, after, upto);
    bytes = after == ledger->floor && upto == ledger->last ? ledger->bytes : bytes;
    ledger_count(ledger, 0 - bytes);
    key_ledger(&from, ledger->group, after + 1);
    key_ledger(&to, ledger->group, upto + 1);
    overlay_delete_range(store, DB_LEDGER, key_bytes(&from), key_bytes(&to));
    ledger->written = true;
}

status_t store_ledger_cut(ledger_t *ledger, uint64_t index) {
    check(index >= ledger->applied);
    if (index >= ledger->last) {
        return STATUS_OK;
    }
    if (ledger->stopped || !overlay_fits(ledger->store, LEDGER_CALL)) {
        return STATUS_FULL;
    }
    entries_remove(ledger, index, ledger->last);
    positions_cut(&ledger->young, index);
    ledger->last = index;
    return STATUS_OK;
}

/* Writes the promise with what `change` says. */
static status_t promise_change(ledger_t *ledger, const ledger_promise_t *change, bool floor) {
    store_t *store = ledger->store;
    ledger_promise_t promise = ledger->promise;
    if (ledger->stopped || !overlay_fits(store, LEDGER_CALL)) {
        return STATUS_FULL;
    }
    if (floor) {
        promise.floor = change->floor;
        promise.floor_term = change->floor_term;
        promise.members = change->members;
        promise.name = change->name != 0 ? change->name : promise.name;
    } else {
        promise.term = change->term;
        promise.patience = change->patience;
        promise.vote_peer = change->vote_peer;
        promise.vote_disk = change->vote_disk;
    }
    promise_rewrite(ledger, &promise);
    promise_keep(ledger, &promise);
    ledger->written = true;
    return STATUS_OK;
}

status_t store_ledger_promise(ledger_t *ledger, const ledger_promise_t *change) {
    check(!ledger->foreign);
    return promise_change(ledger, change, false);
}

status_t store_ledger_floor(ledger_t *ledger, uint64_t index, uint64_t term, bytes_t members) {
    check(index <= ledger->applied);
    if (index <= ledger->floor) {
        return STATUS_OK;
    }
    const ledger_promise_t change = {.floor = index, .floor_term = term, .members = members};
    lazy_begin(ledger->store);
    status_t status = promise_change(ledger, &change, true);
    if (status == STATUS_OK) {
        entries_remove(ledger, ledger->floor, index);
        positions_pass(&ledger->young, index);
        ledger->floor = index;
        lazy_end(ledger->store);
    }
    return status;
}

status_t store_ledger_reset(ledger_t *ledger, const ledger_promise_t *begin, bool (*write)(void *context),
                            void *context) {
    store_t *store = ledger->store;
    check(begin->floor > ledger->applied);
    check(!ledger->foreign);
    if (store_ledger_touch(ledger) != STATUS_OK || !overlay_fits(store, LEDGER_CALL)) {
        return STATUS_FULL;
    }
    /* So that what the state takes of the batch leaves room for this. */
    overlay_promise(store, LEDGER_CALL);
    bool written = write(context);
    overlay_give_back(store, LEDGER_CALL);
    if (!written) {
        return STATUS_FULL;
    }
    check(promise_change(ledger, begin, true) == STATUS_OK); /* first: it asks for the room that is left for both */
    entries_remove(ledger, ledger->floor, ledger->last);
    positions_pass(&ledger->young, ledger->last);
    ledger->floor = ledger->applied = ledger->last = begin->floor;
    return STATUS_OK;
}

status_t store_ledger_touch(ledger_t *ledger) {
    store_t *store = ledger->store;
    lazy_begin(store);
    if (ledger->touched) {
        return STATUS_OK;
    }
    if (ledger->stopped || !overlay_fits(store, 2 * APPLIED_PROMISE)) {
        return STATUS_FULL;
    }
    overlay_promise(store, APPLIED_PROMISE);
    store->ledgers.touched[store->ledgers.touched_count++] = ledger;
    ledger->touched = ledger->written = true;
    return STATUS_OK;
}

void store_ledger_note(ledger_t *ledger, bytes_t note) {
    check(note.size <= LEDGER_NOTE_MAX);
    ledger->note_size = note.size;
    (void)bytes_write(ledger->note, note);
}

void store_ledger_applied(ledger_t *ledger, uint64_t index) {
    check(ledger->touched);
    check(index > ledger->applied);
    check(index <= ledger->last);
    ledger->applied = index;
    lazy_end(ledger->store);
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

void ledgers_settle(store_t *store) {
    ledgers_t *ledgers = &store->ledgers;
    for (uint64_t i = 0; i < ledgers->touched_count; i++) {
        ledger_t *ledger = ledgers->touched[i];
        overlay_give_back(store, APPLIED_PROMISE);
        if (LEAF_UNLIKELY(!ledger->stopped && !ledger_sound(ledger))) {
            ledger->stopped = true; /* what it is written as keeps a start from it, or is right */
            ledger_alarm(ledger);
        }
        applied_write(ledger);
        ledger->touched = false;
    }
    ledgers->touched_count = 0;
}

void ledgers_sealed(store_t *store, uint64_t number, uint64_t end) {
    ledgers_t *ledgers = &store->ledgers;
    ledger_mark_t *mark = ledgers->oldest.number == 0 ? &ledgers->oldest : &ledgers->newest;
    *mark = (ledger_mark_t){.number = number, .end = end};
}

void ledgers_follow(store_t *store) {
    ledgers_t *ledgers = &store->ledgers;
    uint64_t synced = atomic_load_explicit(&store->keeper.synced, memory_order_acquire);
    for (int i = 0; i < 2 && ledgers->oldest.number != 0 && ledgers->oldest.end <= synced; i++) {
        ledgers->synced = ledgers->oldest.number;
        ledgers->oldest = ledgers->newest;
        ledgers->newest = (ledger_mark_t){0};
    }
}

uint64_t store_ledger_synced(const store_t *store) {
    return store->options.sync_interval_ns == 0 ? store->pipeline.durable : store->ledgers.synced;
}
