/* meta_rows.c: see meta_rows.h. */
#include "meta/meta_rows.h"

#include "base/abi_types.h"
#include "store/record.h"

#define VERSION 1u
#define CHANGE_HEAD 14u
#define ROW_HEAD 13u
#define REVISION_SIZE 8u
#define CHANGES_MAX 64u
#define RECORD_COST 128u /* of the batch, beside key and value */

typedef struct change {
    bytes_t key;
    bytes_t value;
    uint64_t revision;
    bool removes;
} change_t;

status_t meta_entry(buffer_t *to, bytes_t key, bytes_t value, uint64_t revision, bool removes) {
    uint8_t head[1 + CHANGE_HEAD] = {VERSION, removes ? META_REMOVES : 0, (uint8_t)key.size};
    if (key.size == 0 || key.size > META_KEY_MAX) {
        return STATUS_INVALID;
    }
    store_be32(head + 3, value.size);
    store_be64(head + 7, revision);
    status_t status = buffer_append(to, head, sizeof head);
    status = status == STATUS_OK ? buffer_append(to, key.at, key.size) : status;
    return status == STATUS_OK ? buffer_append(to, value.at, value.size) : status;
}

/* Takes a head off the front, and the key and the value behind it. false: they are not there. */
static bool pair_take(bytes_t *left, uint32_t head, uint32_t key, uint32_t value, change_t *change) {
    if (left->size - head < key || left->size - head - key < value) {
        return false;
    }
    change->key = bytes_of(left->at + head, key);
    change->value = bytes_of(left->at + head + key, value);
    *left = bytes_after(*left, head + key + value);
    return true;
}

/* false: that was all, or it is damaged: left then has something. */
static bool change_take(bytes_t *left, change_t *change) {
    if (left->size < CHANGE_HEAD || left->at[1] == 0) {
        return false;
    }
    *change = (change_t){.revision = load_be64(left->at + 6), .removes = (left->at[0] & META_REMOVES) != 0};
    return pair_take(left, CHANGE_HEAD, left->at[1], load_be32(left->at + 2), change);
}

/* The revision of a row; 0: there is none. false: it cannot be read. */
static bool revision_of(store_t *store, bytes_t key, uint64_t *revision) {
    bytes_t value = BYTES_NONE;
    *revision = 0;
    switch (store_record_get(store, RECORD_META, key, &value)) {
    case ENTRY_UNKNOWN:
    case ENTRY_DAMAGED: return false;
    case ENTRY_NONE: return true;
    case ENTRY_FOUND: break;
    }
    *revision = value.size >= REVISION_SIZE ? load_be64(value.at) : 0;
    return value.size >= REVISION_SIZE;
}

typedef enum judged { JUDGED_FITS, JUDGED_NOT, JUDGED_LATER } judged_t;

static judged_t judge_entry(store_t *store, bytes_t entry, meta_verdict_t *verdict, uint64_t *cost) {
    bytes_t left = bytes_after(entry, 1);
    change_t change;
    uint32_t count = 0;
    *cost = 0;
    for (; change_take(&left, &change); count++) {
        uint64_t revision;
        if (!revision_of(store, change.key, &revision)) {
            return JUDGED_LATER;
        }
        if (change.revision != META_ANY && change.revision != revision) {
            verdict->revision = revision;
            return JUDGED_NOT;
        }
        *cost += RECORD_COST + change.key.size + (uint64_t)change.value.size;
    }
    return left.size == 0 && count > 0 && count <= CHANGES_MAX ? JUDGED_FITS : JUDGED_NOT;
}

/* Room for so many records of so many bytes in all, so that none of them is refused. */
static bool rows_fit(store_t *store, uint64_t records, uint64_t cost) {
    return cost <= STORE_RECORD_MAX && store_record_reserve(store, records) == STATUS_OK
           && store_record_fits(store, (bytes_t){.size = (uint32_t)cost});
}

static status_t put_row(store_t *store, bytes_t key, bytes_t value, uint64_t revision, buffer_t *scratch) {
    uint8_t head[REVISION_SIZE];
    store_be64(head, revision);
    scratch->size = 0;
    status_t status = buffer_append(scratch, head, sizeof head);
    status = status == STATUS_OK ? buffer_append(scratch, value.at, value.size) : status;
    return status == STATUS_OK
               ? store_record_put(store, RECORD_META, key, bytes_of(scratch->at, (uint32_t)scratch->size))
               : status;
}

bool meta_rows_apply(store_t *store, uint64_t index, bytes_t entry, meta_verdict_t *verdict) {
    uint64_t cost;
    *verdict = (meta_verdict_t){0};
    /* What it does not know it does not guess: every member of this version does nothing for it. */
    judged_t judged = entry.size > 0 && entry.at[0] == VERSION ? judge_entry(store, entry, verdict, &cost) : JUDGED_NOT;
    if (judged != JUDGED_FITS) {
        return judged == JUDGED_NOT;
    }
    buffer_t scratch;
    uint8_t *place;
    buffer_init(&scratch, STORE_RECORD_MAX);
    if (!rows_fit(store, CHANGES_MAX, cost)
        || buffer_reserve(&scratch, entry.size + REVISION_SIZE, &place) != STATUS_OK) {
        buffer_free(&scratch);
        return false;
    }
    bytes_t left = bytes_after(entry, 1);
    change_t change;
    bool made = true;
    while (made && change_take(&left, &change)) {
        status_t status = change.removes ? store_record_delete(store, RECORD_META, change.key)
                                         : put_row(store, change.key, change.value, index, &scratch);
        made = status == STATUS_OK;
    }
    buffer_free(&scratch);
    *verdict = (meta_verdict_t){.made = made, .revision = index};
    return made;
}

/* ---- saving and restoring all rows ------------------------------------------------------------------------------- */

typedef struct saving {
    buffer_t *to;
    bool sound;
} saving_t;

static bool save_row(void *context, bytes_t key, bytes_t value) {
    saving_t *saving = context;
    uint8_t head[ROW_HEAD];
    saving->sound = value.size >= REVISION_SIZE && key.size > 0 && key.size <= META_KEY_MAX;
    if (!saving->sound) {
        return false;
    }
    head[0] = (uint8_t)key.size;
    store_be32(head + 1, value.size - REVISION_SIZE);
    memcpy(head + 5, value.at, REVISION_SIZE);
    bytes_t rest = bytes_after(value, REVISION_SIZE);
    saving->sound = buffer_append(saving->to, head, sizeof head) == STATUS_OK
                    && buffer_append(saving->to, key.at, key.size) == STATUS_OK
                    && buffer_append(saving->to, rest.at, rest.size) == STATUS_OK;
    return saving->sound;
}

bool meta_rows_save(store_t *store, buffer_t *to) {
    saving_t saving = {.to = to, .sound = true};
    switch (store_record_each(store, RECORD_META, BYTES_NONE, BYTES_NONE, save_row, &saving)) {
    case LIST_UNKNOWN:
    case LIST_LACKS: return false;
    case LIST_WHOLE: break;
    }
    return saving.sound;
}

static bool row_take(bytes_t *left, change_t *row) {
    if (left->size < ROW_HEAD || left->at[0] == 0) {
        return false;
    }
    *row = (change_t){.revision = load_be64(left->at + 5)};
    return pair_take(left, ROW_HEAD, left->at[0], load_be32(left->at + 1), row);
}

bool meta_rows_restore(store_t *store, bytes_t state) {
    bytes_t left = state;
    change_t row;
    uint64_t records = 0;
    uint64_t cost = 0;
    uint32_t largest = 0;
    for (; row_take(&left, &row); records++) {
        cost += RECORD_COST + row.key.size + (uint64_t)row.value.size;
        largest = row.value.size > largest ? row.value.size : largest;
    }
    buffer_t scratch;
    uint8_t *place;
    buffer_init(&scratch, STORE_RECORD_MAX);
    bool restored = left.size == 0 && rows_fit(store, records, cost)
                    && buffer_reserve(&scratch, largest + REVISION_SIZE, &place) == STATUS_OK
                    && store_record_delete_prefix(store, RECORD_META, BYTES_NONE) == STATUS_OK;
    left = state;
    while (restored && row_take(&left, &row)) {
        restored = put_row(store, row.key, row.value, row.revision, &scratch) == STATUS_OK;
    }
    buffer_free(&scratch);
    return restored;
}
