/* lifecycle.c: see lifecycle.h. What the files hold is brought in order before that, by native/recovery. */
#include "store/lifecycle.h"
#include "store/mending.h"

#include <stdlib.h>
#include <unistd.h>

#include "store/message.h"
#include "store/overlay.h"

store_t *store_new(const store_options_t *options) {
    store_t *store = calloc(1, sizeof *store);
    if (store == NULL) {
        return NULL;
    }
    store->options = *options;
    allowance_begin(&store->unowned, 0);
    if (!options->memory) {
        store->sealing = (sealing_t){.keys = options->keys, .sealer = options->sealer};
    }
    store->lock_fd = -1;
    store->journal.fd = store->journal.direct_fd = store->highwater.fd = -1;
    store->pipeline.pending_since = INT64_MAX;
    store->directory = strdup(options->directory);
    if (store->directory == NULL) {
        free(store);
        return NULL;
    }
    store->options.directory = store->directory;
    store->sizes =
        sizes_choose(options->max_bytes, options->journal_size, options->message_max, options->memory, sizeof(void *));
    store->sizes.ring = sizes_ring_within(store->sizes.ring, options->ring_max);
    return store;
}

static status_t load_clock(store_t *store) {
    uint8_t boot[BOOT_ID_SIZE];
    clockwork_boot(boot);
    clockwork_open(&store->clock, boot);
    bytes_t key = BYTES_LITERAL("clock");
    bytes_t value = BYTES_NONE;
    switch (overlay_find(store, DB_META, key, &value)) {
    case WORD_REMOVED:
    case WORD_NONE: break;
    case WORD_PUT:
        if (value.size == CLOCK_RECORD_SIZE) {
            clockwork_load(&store->clock, value.at);
            return STATUS_OK;
        }
        break;
    }
    value = BYTES_NONE;
    read_outcome_t outcome = env_get(store->env, DB_META, key, &value);
    if (value.size == VALUE_CRC_SIZE + CLOCK_RECORD_SIZE && value_sound(key, value)) {
        clockwork_load(&store->clock, value.at + VALUE_CRC_SIZE);
    }
    return read_known(outcome);
}

status_t store_load(store_t *store, keeper_mark_t checkpoint, keeper_mark_t end, bool clockless) {
    batches_restart(&store->batches, end.position, end.number);
    store->pipeline.durable = store->pipeline.flight_number = store->pipeline.first_batch = end.number - 1;
    store->pipeline.flight_end = store->pipeline.handed = end.position;
    memtable_open(&store->memtable, &store->batches);
    status_t status = heads_open(&store->heads, store->options.heads_max);
    if (status == STATUS_OK && checkpoint.position != end.position) {
        store->batches.freed = store->pipeline.handed = checkpoint.position;
        store->pipeline.pending_since = 0;
        status = adopt_batches(store, checkpoint.position, end.position);
    }
    if (status == STATUS_OK) {
        status = env_renew(store->env);
    }
    if (status == STATUS_OK) {
        status = load_clock(store);
        status = clockless ? STATUS_OK : status;
    }
    return status;
}

status_t store_run(store_t *store, keeper_mark_t checkpoint, keeper_mark_t end) {
    store->keeper = (keeper_t){.batches = &store->batches,
                               .journal = store->options.memory ? NULL : &store->journal,
                               .highwater = &store->highwater,
                               .env = store->env,
                               .directory = store->directory,
                               .sealing = store->sealing.state != SEALING_DONE ? &store->sealing : NULL,
                               .sync_interval_ns = store->options.sync_interval_ns,
                               .took = store->options.took,
                               .budget = store->sizes.budget,
                               .agreed = store->options.ledgers ? store->sizes.ring / LEDGER_PART : 0};
    status_t status = keeper_open(&store->keeper, checkpoint, end);
    room_open(store);
    if (checkpoint.position == end.position) {
        room_rest(store);
    }
    room_measure(store);
    return status;
}

bool store_end(store_t *store) {
    mending_end(store);
    reckon_end(store);
    if (!store_batch_empty(store)) {
        carried_forget(store);
        store_seal(store);
    }
    keeper_close(&store->keeper);
    return store->keeper.committed == atomic_load(&store->keeper.sealed);
}

void store_free(store_t *store) {
    for (uint32_t i = 0; i < store->streams.count; i++) {
        stream_release(store->streams.at[i]);
    }
    env_close(store->env);
    sealing_close(&store->sealing);
    journal_close(&store->journal);
    highwater_close(&store->highwater);
    batches_close(&store->batches);
    memtable_close(&store->memtable);
    if (store->heads.slots != NULL) {
        heads_close(&store->heads);
    }
    adopted_free(store);
    records_free(store);
    free(store->streams.at);
    carried_free(store);
    ledgers_free(store);
    if (store->lock_fd >= 0) {
        close(store->lock_fd);
    }
    free(store->directory);
    free(store);
}
