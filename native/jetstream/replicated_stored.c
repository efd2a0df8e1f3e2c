/* replicated_stored.c: the consumers of a stream that several servers keep, as the records of this disk have them, for
 * reports: a server that does not lead the stream has no others (replicated.h).
 *
 *     CONSUMERS_COUNT    ids of streams              --> how many each of the first of them has
 *     CONSUMERS_STORED   stream, a consumer's number --> some of those behind it, in the order of their numbers
 *
 * Each answer is a bounded piece of work, and the next one goes on behind it.
 */
#include <stdlib.h>

#include "base/buffer.h"
#include "consume/consume.h"
#include "jetstream/commands.h"
#include "jetstream/js.h"
#include "store/record.h"

#define COUNTED_MOST 4096u  /* consumers that are counted in one turn; those of one stream may be more, */
#define COUNTED_FULL 65536u /* and are counted up to here */
#define SLICE_BYTES (64u << 10)
#define SLICE_ROWS 256u
#define ROWS_BYTES_MAX (2u * SLICE_BYTES + STORE_RECORD_MAX)

static bool count_one(void *context, bytes_t key, bytes_t value) {
    uint32_t *count = context;
    (void)key;
    (void)value;
    return ++*count < COUNTED_FULL;
}

static status_t stored_count(js_t *js, uint32_t stream, uint32_t *count) {
    uint8_t key[4];
    store_be32(key, stream);
    *count = 0;
    return list_status(store_record_each(js->stores[STORE_FILE], RECORD_CONSUMER, bytes_of(key, sizeof key), BYTES_NONE,
                                         count_one, count));
}

void consumers_count(js_t *js, const plane_command_t *command) {
    uint32_t streams = command->body_size / (uint32_t)sizeof(uint32_t), counts[USAGE_STATES_MAX];
    if (streams == 0 || streams > USAGE_STATES_MAX || js->stores[STORE_FILE] == NULL) {
        js_done(js, command, STATUS_INVALID);
        return;
    }
    uint32_t told = 0, total = 0;
    status_t status = STATUS_OK;
    while (told < streams && total < COUNTED_MOST) {
        uint32_t stream;
        memcpy(&stream, command->body + told * sizeof stream, sizeof stream);
        status = stored_count(js, stream, &counts[told]);
        if (status != STATUS_OK) {
            break; /* the next answer begins with it, and says so */
        }
        total += counts[told++];
    }
    if (told == 0) {
        js_done(js, command, status);
        return;
    }
    js_answer(js, command, STATUS_OK, 0, 0, bytes_of(counts, told * (uint32_t)sizeof *counts));
}

typedef struct listing {
    buffer_t rows;
    uint32_t count;
    uint32_t last; /* the consumer's number with which the last answer ended */
    status_t status;
    bool more;
} listing_t;

static bool list_one(void *context, bytes_t key, bytes_t value) {
    listing_t *listing = context;
    uint8_t *at;
    if (listing->count == SLICE_ROWS || listing->rows.size >= SLICE_BYTES) {
        listing->more = true;
        return false;
    }
    if (key.size != 8) {
        listing->status = STATUS_CORRUPT;
        return false;
    }
    stored_consumer_t row = {.consumer = load_be32(key.at + 4), .size = value.size};
    listing->status = buffer_reserve(&listing->rows, sizeof row + (uint64_t)value.size, &at);
    if (listing->status != STATUS_OK) {
        return false;
    }
    memcpy(at, &row, sizeof row);
    (void)bytes_write(at + sizeof row, value);
    listing->rows.size += sizeof row + value.size;
    listing->last = (uint32_t)row.consumer;
    listing->count++;
    return true;
}

/* Fills in the consumers' positions, once the walk through their definitions is over. */
static status_t fill_in(js_t *js, uint32_t stream, const listing_t *listing) {
    uint8_t *at = listing->rows.at;
    for (uint32_t i = 0; i < listing->count; i++) {
        stored_consumer_t row;
        memcpy(&row, at, sizeof row);
        switch (consume_stored(js->stores[STORE_FILE], stream, (uint32_t)row.consumer, &row)) {
        case ENTRY_UNKNOWN: return STATUS_IO;
        case ENTRY_DAMAGED: return STATUS_CORRUPT;
        case ENTRY_NONE: row.known = false; break;
        case ENTRY_FOUND: row.known = true; break;
        }
        memcpy(at, &row, sizeof row);
        at += sizeof row + row.size;
    }
    return STATUS_OK;
}

void consumers_stored(js_t *js, const plane_command_t *command, stream_t *stream) {
    uint8_t key[8];
    listing_t listing = {.status = STATUS_OK};
    if (command->arg > UINT32_MAX || js->stores[STORE_FILE] == NULL) {
        js_done(js, command, STATUS_INVALID);
        return;
    }
    buffer_init(&listing.rows, ROWS_BYTES_MAX);
    store_be32(key, stream->id);
    store_be32(key + 4, (uint32_t)command->arg);
    bytes_t after = command->arg != 0 ? bytes_of(key, sizeof key) : BYTES_NONE;
    status_t status = list_status(
        store_record_each(js->stores[STORE_FILE], RECORD_CONSUMER, bytes_of(key, 4), after, list_one, &listing));
    if (status == STATUS_OK) {
        status = listing.status == STATUS_OK ? fill_in(js, stream->id, &listing) : listing.status;
    }
    if (status == STATUS_OK) {
        uint64_t next = listing.more ? listing.last : 0;
        js_answer(js, command, STATUS_OK, next, 0, bytes_of(listing.rows.at, (uint32_t)listing.rows.size));
    } else {
        js_done(js, command, status);
    }
    buffer_free(&listing.rows);
}
