/* tick.c: the sans-IO core's life and the order of one tick.
 *
 *     input of connections, commands          (the driver: plane.c, or a test)
 *     consume_flush > store_tick              acks' effects are in the same record as what else happened
 *     release what waited for the disk        PubAcks, double acks, completions
 *     consume_tick                            deliveries of what became visible
 *     sweep, flush                            subscriptions and peers that have to go; output
 *
 * What does not live here: threads, sockets and clocks (plane.c).
 */
#include <stdio.h>
#include <stdlib.h>

#include "plane/tick.h"

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/status.h"
#include "consume/consume.h"
#include "net/conn.h"
#include "net/loop.h"
#include "plane/account.h"
#include "plane/command.h"
#include "plane/exchange.h"
#include "plane/held.h"
#include "plane/import.h"
#include "plane/interest.h"
#include "plane/js.h"
#include "plane/memory.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/pressure.h"
#include "plane/publication.h"
#include "plane/stats.h"
#include "plane/subscription.h"
#include "plane/table.h"
#include "store/commit.h"
#include "store/store.h"
#include "wire/emit.h"

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static status_t store_start(plane_t *plane, uint32_t which, const char *directory, char *reason) {
    store_options_t options = {
        .directory = directory,
        .max_bytes = which == STORE_FILE ? plane->limits.max_file_store : plane->limits.max_memory_store,
        .journal_size = plane->limits.journal_size,
        .ring_max = memory_share(plane->limits.memory_limit, which == STORE_FILE ? MEMORY_RING : MEMORY_MEMORY_RING),
        .message_max = plane->limits.max_payload + HEADER_BYTES_MAX,
        .heads_max = memory_share(plane->limits.memory_limit, MEMORY_OVERLAY) / 4,
        .sync_interval_ns = plane->limits.sync_interval_ns,
        .memory = which == STORE_MEMORY};
    status_t status = store_open(&options, &plane->stores[which], reason, PLANE_REASON_SIZE);
    if (status == STATUS_OK) {
        store_hooks_t hooks = consume_store_hooks(plane->consume);
        hooks.due = js_schedule_due;
        hooks.due_context = plane;
        store_set_hooks(plane->stores[which], hooks);
        int fd = store_wake_fd(plane->stores[which]);
        if (fd >= 0 && plane->threaded) {
            status = loop_add(&plane->loop, fd, LOOP_READ, (void *)(uintptr_t)(4 + 2 * which));
        }
    }
    return status;
}

status_t core_open(plane_t *plane, const plane_limits_t *limits, const char *directory, const char *memory_directory,
                   char *reason) {
    plane->limits = *limits;
    memory_open(plane);
    plane->next_peer = 1;
    plane->random = UINT64_C(0x2545F4914F6CDD1D) ^ (uint64_t)plane->now.mono_ns;
    buffer_init(&plane->scratch, UINT64_C(1) << 32);
    for (uint32_t i = 0; i < CROSSING_DEPTH_MAX; i++) {
        buffer_init(&plane->crossing_headers[i], UINT64_C(1) << 32);
    }
    status_t status = exchange_open(&plane->exchange, memory_share(limits->memory_limit, MEMORY_EXCHANGE) / 3);
    if (status != STATUS_OK) {
        snprintf(reason, PLANE_REASON_SIZE, "no memory or descriptors for the rings between control and plane");
        return status;
    }
    if (limits->jetstream == 0) {
        return STATUS_OK;
    }
    consume_out_t out = js_consume_out(plane);
    plane->consume = consume_new(&out);
    if (plane->consume == NULL) {
        snprintf(reason, PLANE_REASON_SIZE, "no memory for consumers");
        return STATUS_NO_MEMORY;
    }
    if (memory_directory != NULL) {
        plane->memory_directory = strdup(memory_directory);
        if (plane->memory_directory == NULL) {
            snprintf(reason, PLANE_REASON_SIZE, "no memory for the name of the memory store's directory");
            return STATUS_NO_MEMORY;
        }
    }
    return store_start(plane, STORE_FILE, directory, reason);
}

status_t core_memory_store(plane_t *plane) {
    if (plane->stores[STORE_MEMORY] != NULL) {
        return STATUS_OK;
    }
    if (plane->memory_directory == NULL || plane->consume == NULL) {
        return STATUS_INVALID;
    }
    char reason[PLANE_REASON_SIZE] = "";
    return store_start(plane, STORE_MEMORY, plane->memory_directory, reason);
}

void core_shutdown(plane_t *plane) {
    if (plane->consume != NULL) {
        consume_shutdown(plane->consume, plane->now);
    }
    core_settle(plane);
}

static void release_late(plane_t *plane, uint32_t which, uint64_t durable) {
    for (event_entry_t **at = &plane->late[which]; *at != NULL;) {
        event_entry_t *entry = *at;
        if (entry->batch > durable) {
            at = &entry->next;
            continue;
        }
        *at = entry->next;
        entry->next = NULL;
        event_post(&plane->exchange, entry);
    }
}

void core_close(plane_t *plane) {
    while (plane->all_peers != NULL) {
        peer_t *peer = plane->all_peers;
        peer_doom(plane, peer, CLOSE_SHUTDOWN, BYTES_NONE);
        peer_sweep_begin(plane);
        peer_sweep(plane);
    }
    subscription_sweep(plane);
    ingest_free_all(plane);
    uint32_t cursor = 0;
    for (stream_t *stream; (stream = table_next(&plane->streams, &cursor)) != NULL;) {
        stream_free(plane, stream);
    }
    cursor = 0;
    for (subscription_t *one; (one = table_next(&plane->controls, &cursor)) != NULL;) {
        subscription_kill(plane, one);
    }
    subscription_sweep(plane);
    cursor = 0;
    for (account_t *account; (account = table_next(&plane->accounts, &cursor)) != NULL;) {
        imports_free(plane, account);
    }
    replies_free(plane);
    consume_free(plane->consume);
    store_close(plane->stores[STORE_FILE]);
    store_close(plane->stores[STORE_MEMORY]);
    cursor = 0;
    for (account_t *account; (account = table_next(&plane->accounts, &cursor)) != NULL;) {
        sink_remove(plane, &account->replies);
        account_free(account);
    }
    for (uint32_t i = 0; i < 2; i++) {
        held_free(&plane->held[i]);
        release_late(plane, i, UINT64_MAX);
        plane->stores[i] = NULL;
    }
    held_free(&plane->deferred);
    plane->consume = NULL;
    table_free(&plane->peers);
    table_free(&plane->accounts);
    table_free(&plane->streams);
    table_free(&plane->controls);
    exchange_close(&plane->exchange);
    buffer_free(&plane->scratch);
    for (uint32_t i = 0; i < CROSSING_DEPTH_MAX; i++) {
        buffer_free(&plane->crossing_headers[i]);
    }
    free(plane->leafs_hit);
    free(plane->memory_directory);
    free(plane->fast); /* its batches went with their streams */
    plane->fast = NULL;
    plane->leafs_hit = NULL;
    plane->memory_directory = NULL;
}

/* ---- the tick ---------------------------------------------------------------------------------------------------- */

void core_commands(plane_t *plane) {
    plane->waiting_commands = false;
    for (uint32_t i = 0; i < COMMANDS_A_TICK && !event_crowded(&plane->exchange); i++) {
        command_entry_t *entry = exchange_next(&plane->exchange);
        if (entry == NULL) {
            return;
        }
        command_run(plane, &entry->command);
        exchange_done(&plane->exchange, entry);
    }
    /* So many for one tick, or their completions find no room: the others wait. */
    plane->waiting_commands = true;
    plane->more = plane->more || !event_crowded(&plane->exchange);
}

/* Those that wait now; who has to wait again does so until the next turn. */
void core_again(plane_t *plane) {
    peer_t *next = plane->again;
    plane->again = NULL;
    while (next != NULL) {
        peer_t *peer = next;
        next = peer->next_again;
        peer->again = false;
        peer->yielded = false;
        bytes_t input = conn_rest(&peer->conn);
        if (input.size != 0 && peer->state != PEER_DOOMED) {
            peer_act(plane, peer, input);
        }
    }
}

static void release(plane_t *plane, uint32_t which) {
    held_t *held = &plane->held[which];
    uint64_t durable = commit_watermark_all(plane->stores[which]);
    const held_entry_t *entry;
    /* What a released message stores in its turn (its subject is a stream's) waits for a batch of its own. */
    uint64_t count = held->count;
    for (; count != 0 && (entry = held_first(held, durable)) != NULL; count--) {
        if (entry->event != NULL) {
            event_post(&plane->exchange, entry->event);
        } else {
            const uint8_t *at = entry->bytes;
            publication_t publication = {.account = account_find(plane, entry->account), .flags = entry->flags};
            message_t *message = &publication.message;
            message->subject = bytes_of(at, entry->subject_size);
            message->reply = bytes_of(message->subject.at + entry->subject_size, entry->reply_size);
            message->header = bytes_of(message->reply.at + entry->reply_size, entry->header_size);
            message->payload = bytes_of(message->header.at + entry->header_size, entry->payload_size);
            (void)publish(plane, &publication);
        }
        held_pop(held);
    }
    plane->more = plane->more || held->count > count;
    if (LEAF_UNLIKELY(plane->late[which] != NULL)) {
        release_late(plane, which, durable);
    }
}

static void report_alarms(plane_t *plane, store_t *store) {
    store_alarm_t alarm;
    while (store_alarm_next(store, &alarm)) {
        event_entry_t *entry = event_new(EVENT_ALARM, BYTES_NONE, BYTES_NONE, BYTES_NONE,
                                         bytes_of(alarm.text, (uint32_t)strnlen(alarm.text, sizeof(alarm.text))));
        if (entry != NULL) {
            entry->event.code = alarm.code;
            entry->event.target = alarm.stream;
            entry->event.arg = alarm.seq;
        }
        event_post(&plane->exchange, entry);
    }
}

static void tick_stores(plane_t *plane) {
    consume_flush(plane->consume);
    for (uint32_t i = 0; i < 2; i++) {
        store_t *store = plane->stores[i];
        if (store == NULL) {
            continue;
        }
        store_tick(store, plane->now);
        release(plane, i);
        store_stream_t *stream;
        while ((stream = store_advanced_next(store)) != NULL) {
            consume_advanced(plane->consume, stream);
        }
        report_alarms(plane, store);
    }
}

static void tick_consumers(plane_t *plane) {
    if (plane->interest_changed) {
        plane->interest_changed = false;
        consume_interest_changed(plane->consume);
    }
    if (plane->drained) {
        plane->drained = false;
        consume_unblocked(plane->consume);
    }
    bool again = false;
    consume_tick(plane->consume, plane->now, &again);
    plane->more = plane->more || again;
}

/* No room for more in the ring, or for the answers that wait for the disk. */
static bool lags(const plane_t *plane, uint32_t which) {
    const store_t *store = plane->stores[which];
    return store != NULL && (!store_room(store) || plane->held[which].bytes > plane->memory.held_max);
}

static void throttle_one(plane_t *plane, peer_t *peer) {
    peer->producer = true;
    plane->throttling = true;
    if (!peer->throttled) {
        peer->throttled = true;
        peer_want(plane, peer);
    }
}

void core_fed(plane_t *plane, peer_t *peer, uint32_t which) {
    peer->producer = true;
    if (LEAF_UNLIKELY(lags(plane, which))) {
        throttle_one(plane, peer);
    }
}

bool core_waits(plane_t *plane, peer_t *peer) {
    if (peer->state == PEER_ADMITTED && (peer->producer || peer->parser.need > CONN_SCRATCH_SIZE)) {
        throttle_one(plane, peer);
        return true;
    }
    return false;
}

/* The journal lags: who feeds streams is not read for a while. Everybody else goes on. */
static void throttle(plane_t *plane) {
    bool lagging = lags(plane, STORE_FILE) || lags(plane, STORE_MEMORY);
    if (!lagging && !plane->throttling) {
        return;
    }
    plane->throttling = lagging;
    for (peer_t *peer = plane->all_peers; peer != NULL; peer = peer->next) {
        bool now = lagging && peer->producer;
        if (now != peer->throttled) {
            peer->throttled = now;
            now ? peer_want(plane, peer) : peer_again(plane, peer);
        }
    }
}

static void chores(plane_t *plane) {
    if (plane->now.mono_ns < plane->next_chores_ns) {
        return;
    }
    plane->next_chores_ns = plane->now.mono_ns + CHORES_INTERVAL_NS;
    for (peer_t *peer = plane->all_peers; peer != NULL; peer = peer->next) {
        peer_chores(plane, peer);
    }
    ingest_chores(plane);
    js_fast_chores(plane);
    replies_chores(plane);
}

static void sweep_and_flush(plane_t *plane) {
    peer_sweep_begin(plane);
    while (plane->dead != NULL || plane->doomed != NULL || plane->dirty != NULL) {
        subscription_sweep(plane);
        peer_sweep(plane);
        while (plane->dirty != NULL) {
            peer_t *peer = plane->dirty;
            plane->dirty = peer->next_dirty;
            peer->dirty = false;
            peer_flush(plane, peer);
        }
    }
}

/* Something was written behind store_tick's back (an ack into a stream, a delivery count), and no completion will wake
 * us for it. */
static bool batch_waits(const store_t *store) {
    return store != NULL && !store_batch_empty(store) && store_durable(store) + 1 >= store_batch(store);
}

void core_settle(plane_t *plane) {
    if (plane->consume != NULL) {
        publish_deferred(plane);
        jobs_step(plane);
        tick_stores(plane);
        tick_consumers(plane);
        throttle(plane);
        plane->more = plane->more || batch_waits(plane->stores[STORE_FILE]) || batch_waits(plane->stores[STORE_MEMORY]);
    }
    pressure_relieve(plane);
    peer_unstall(plane);
    interest_tell(plane);
    chores(plane);
    sweep_and_flush(plane);
    event_pump(&plane->exchange);
    memory_tick(plane);
    stats_publish(plane);
}

int64_t core_sleep_ns(const plane_t *plane) {
    if (plane->more) {
        return 0;
    }
    int64_t next = plane->next_chores_ns;
    /* Control tells nobody that it has taken something. */
    bool waits = plane->stalled != NULL || plane->held_count != 0 || plane->shut || plane->waiting_commands;
    if (waits && plane->now.mono_ns + PACE_NS < next) {
        next = plane->now.mono_ns + PACE_NS;
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (plane->stores[i] != NULL) {
            int64_t deadline = store_next_deadline(plane->stores[i]);
            next = deadline < next ? deadline : next;
        }
    }
    if (plane->consume != NULL) {
        int64_t deadline = consume_next_deadline(plane->consume);
        next = deadline < next ? deadline : next;
    }
    int64_t left = next - plane->now.mono_ns;
    return left < 0 ? 0 : left;
}
