/* jetstream.c: JetStream opens and closes, and its turn: stores, what waited for them, consumers.
 *
 * Not here: the order of a whole tick (driver/tick.c).
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/table.h"
#include "consume/consume.h"
#include "exchange/answer.h"
#include "exchange/exchange.h"
#include "exchange/held.h"
#include "jetstream/job.h"
#include "jetstream/js.h"
#include "jetstream/open_batches.h"
#include "jetstream/publish.h"
#include "jetstream/replicated.h"
#include "jetstream/stream.h"
#include "recovery/open.h"
#include "store/commit.h"
#include "store/lazy.h"
#include "store/store.h"

#define FILTERS_BYTES_MAX (UINT64_C(64) << 20)

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static status_t store_start(js_t *js, uint32_t which, const char *directory, char *reason) {
    const plane_limits_t *limits = js->limits;
    store_options_t options = {.directory = directory,
                               .max_bytes = which == STORE_FILE ? limits->max_file_store : limits->max_memory_store,
                               .journal_size = limits->journal_size,
                               .ring_max = js->ring_max[which],
                               .message_max = limits->max_payload + HEADER_BYTES_MAX,
                               .heads_max = js->heads_max,
                               .changed_max = js->changed_max[which],
                               .sync_interval_ns = limits->sync_interval_ns,
                               .memory = which == STORE_MEMORY,
                               .ledgers = which == STORE_FILE && (limits->clustered & CLUSTERED_META) != 0,
                               .took = which == STORE_FILE ? js->took : NULL,
                               .keys = js->keys};
    status_t status = store_open(&options, &js->stores[which], reason, PLANE_REASON_SIZE);
    if (status != STATUS_OK) {
        return status;
    }
    store_hooks_t hooks = consume_store_hooks(js->consume);
    hooks.due = js_schedule_due;
    hooks.due_context = js;
    store_set_hooks(js->stores[which], hooks);
    int fd = store_wake_fd(js->stores[which]);
    return fd >= 0 ? js->host->watch(js->plane, which, fd) : STATUS_OK;
}

status_t js_open(js_t *js, const char *directory, const char *memory_directory, char *reason) {
    buffer_init(&js->scratch, UINT64_C(1) << 32);
    buffer_init(&js->counted, UINT64_C(1) << 32);
    buffer_init(&js->sourced, UINT64_C(1) << 32);
    js->replicas_due_ns = INT64_MAX;
    js->jobs_due_ns = INT64_MAX;
    js->filters = (share_t){.limit = FILTERS_BYTES_MAX};
    if (js->limits->jetstream == 0) {
        return STATUS_OK;
    }
    consume_out_t out = js_consume_out(js);
    js->consume = consume_new(&out, &js->consumers);
    if (js->consume == NULL) {
        snprintf(reason, PLANE_REASON_SIZE, "no memory for consumers");
        return STATUS_NO_MEMORY;
    }
    if (memory_directory != NULL) {
        js->memory_directory = strdup(memory_directory);
        if (js->memory_directory == NULL) {
            snprintf(reason, PLANE_REASON_SIZE, "no memory for the name of the memory store's directory");
            return STATUS_NO_MEMORY;
        }
    }
    return store_start(js, STORE_FILE, directory, reason);
}

status_t js_memory_store(js_t *js) {
    if (js->stores[STORE_MEMORY] != NULL) {
        return STATUS_OK;
    }
    if (js->memory_directory == NULL || js->consume == NULL) {
        return STATUS_INVALID;
    }
    char reason[PLANE_REASON_SIZE] = "";
    return store_start(js, STORE_MEMORY, js->memory_directory, reason);
}

void js_shutdown(js_t *js) {
    if (js->consume != NULL) {
        consume_shutdown(js->consume, *js->now);
    }
}

static void release_late(js_t *js, uint32_t which, uint64_t durable) {
    for (event_entry_t **at = &js->late[which]; *at != NULL;) {
        event_entry_t *entry = *at;
        if (entry->batch > durable) {
            at = &entry->next;
            continue;
        }
        *at = entry->next;
        entry->next = NULL;
        event_post(js->exchange, entry);
    }
}

void js_close_streams(js_t *js) {
    ingest_free_all(js);
    map_walk_t walk = {0};
    for (stream_t *stream; (stream = table_next(&js->streams, &walk)) != NULL;) {
        stream_free(js, stream);
    }
    table_free(&js->streams);
    table_free(&js->bindings);
}

void js_close(js_t *js) {
    consume_free(js->consume);
    for (uint32_t i = 0; i < 2; i++) {
        store_close(js->stores[i]);
        held_free(&js->held[i]);
        release_late(js, i, UINT64_MAX);
        js->stores[i] = NULL;
    }
    buffer_free(&js->scratch);
    free(js->memory_directory);
    open_batches_free(&js->fast); /* its batches went with their streams */
    open_batches_free(&js->atomic);
    buffer_free(&js->counted);
    buffer_free(&js->sourced);
    js->consume = NULL;
    js->memory_directory = NULL;
}

/* ---- a turn ------------------------------------------------------------------------------------------------------ */

static void release_held(js_t *js, uint32_t which) {
    held_t *held = &js->held[which];
    uint64_t durable = commit_watermark_all(js->stores[which]);
    const held_entry_t *entry;
    /* Messages that a released message stores in its turn (its subject is a stream's) wait for a batch of their own. */
    uint64_t count = held->count;
    for (; count != 0 && (entry = held_first(held, durable)) != NULL; count--) {
        if (entry->event != NULL) {
            event_post(js->exchange, entry->event);
        } else {
            js->host->release(js->plane, entry);
        }
        held_pop(held);
    }
    js->more = js->more || held->count > count;
    if (LEAF_UNLIKELY(js->late[which] != NULL)) {
        release_late(js, which, durable);
    }
}

static void report_alarms(js_t *js, store_t *store) {
    store_alarm_t alarm;
    while (store_alarm_next(store, &alarm)) {
        event_entry_t *entry = event_new(EVENT_ALARM, BYTES_NONE, BYTES_NONE, BYTES_NONE,
                                         bytes_of(alarm.text, (uint32_t)strnlen(alarm.text, sizeof(alarm.text))));
        if (entry != NULL) {
            entry->event.code = alarm.code;
            entry->event.target = alarm.stream;
            entry->event.arg = alarm.seq;
            entry->event.arg2 = alarm.upto;
            entry->event.token = alarm.certain;
        }
        event_post(js->exchange, entry);
    }
}

void js_settle_stores(js_t *js) {
    jobs_step(js);
    consume_flush(js->consume);
    replicated_flush(js);
    for (uint32_t i = 0; i < 2; i++) {
        store_t *store = js->stores[i];
        if (store == NULL) {
            continue;
        }
        store_tick(store, *js->now);
        release_held(js, i);
        store_stream_t *stream;
        while ((stream = store_advanced_next(store)) != NULL) {
            consume_advanced(js->consume, stream);
        }
        report_alarms(js, store);
    }
    ingest_tell_rooms(js);
    js_tell_allowances(js);
}

void js_settle_consumers(js_t *js, bool interest_changed, bool unblocked) {
    if (interest_changed) {
        consume_interest_changed(js->consume);
    }
    if (unblocked) {
        consume_unblocked(js->consume);
    }
    bool again = false;
    consume_tick(js->consume, *js->now, &again);
    js->more = js->more || again;
}

/* Something was written behind store_tick's back (an ack into a stream, a delivery count), and no completion will wake
 * us for it. */
static bool batch_waits(const store_t *store) {
    return store != NULL && !store_batch_empty(store) && store_durable(store) + 1 >= store_batch(store)
           && !store_gathers(store);
}

bool js_batch_waits(const js_t *js) {
    return batch_waits(js->stores[STORE_FILE]) || batch_waits(js->stores[STORE_MEMORY]);
}

void js_chores(js_t *js) {
    ingest_chores(js);
    js_fast_chores(js);
    js_atomic_chores(js);
}

int64_t js_next_deadline(const js_t *js) {
    int64_t next = js->consume != NULL ? consume_next_deadline(js->consume) : INT64_MAX;
    next = js->jobs_due_ns < next ? js->jobs_due_ns : next;
    for (uint32_t i = 0; i < 2; i++) {
        if (js->stores[i] != NULL) {
            int64_t deadline = store_next_deadline(js->stores[i]);
            next = deadline < next ? deadline : next;
        }
    }
    return next;
}

void js_stats(js_t *js, plane_stats_t *stats) {
    if (js->consume != NULL) {
        stats->consumers = consume_count(js->consume);
        stats->mqtt_passed_over += consume_passed_over(js->consume); /* beside those of the plane */
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (js->stores[i] != NULL) {
            store_stats(js->stores[i], stats);
            stats->memory_held += js->held[i].bytes;
        }
    }
    stats->streams = table_count(&js->streams); /* in place of what the stores have added up */
}

/* ---- commands ---------------------------------------------------------------------------------------------------- */

void js_done(js_t *js, const plane_command_t *command, status_t status) {
    exchange_complete(js->exchange, command, status);
}

void js_answer(js_t *js, const plane_command_t *command, status_t status, uint64_t arg, uint64_t arg2,
               bytes_t payload) {
    exchange_answer(js->exchange, command, status, arg, arg2, payload);
}

void js_hold_event(js_t *js, uint32_t which_store, event_entry_t *entry) {
    entry->batch = store_batch(js->stores[which_store]);
    store_hurry(js->stores[which_store]);
    if (held_event(&js->held[which_store], entry->batch, entry) != STATUS_OK) {
        entry->next = js->late[which_store];
        js->late[which_store] = entry;
    }
}

void js_done_durable(js_t *js, const plane_command_t *command, uint32_t which_store, uint64_t arg, bytes_t payload) {
    if (command->token == 0) {
        return;
    }
    event_entry_t *entry = event_answer(js->exchange, STATUS_OK, BYTES_NONE, BYTES_NONE, payload);
    if (entry == NULL) {
        return; /* only without the ring of commands, whose entries bring their own */
    }
    entry->event.token = command->token;
    entry->event.account = command->account;
    entry->event.target = command->target;
    entry->event.arg = arg;
    js_hold_event(js, which_store, entry);
}
