/* tick.c: the sans-IO core's life and the order of one tick.
 *
 *     input of connections, commands          (driver.c, or a test)        
 *     consume_flush > store_tick              acks' effects are in the same record as what else happened
 *     release what waited for the disk        PubAcks, double acks, completions
 *     consume_tick                            deliveries of what became visible
 *     sweep, flush                            subscriptions and peers that have to go; output
 *
 * Not here: threads, sockets and clocks (driver.c).
 */
#include <stdio.h>
#include <stdlib.h>

#include "driver/tick.h"

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/random.h"
#include "base/table.h"
#include "exchange/exchange.h"
#include "exchange/held.h"
#include "jetstream/js.h"
#include "net/compress.h"
#include "net/conn.h"
#include "plane/account.h"
#include "plane/backlog.h"
#include "plane/authors.h"
#include "command/command.h"
#include "command/greeting.h"
#include "driver/host.h"
#include "meta/meta.h"
#include "plane/import.h"
#include "plane/remote_services.h"
#include "plane/gateway.h"
#include "plane/latency.h"
#include "plane/interest.h"
#include "plane/memory.h"
#include "plane/output.h"
#include "plane/peer.h"
#include "plane/placed.h"
#include "plane/plane.h"
#include "plane/pressure.h"
#include "plane/routed.h"
#include "plane/publication.h"
#include "plane/secure.h"
#include "driver/stats.h"
#include "plane/subscription.h"
#include "plane/throttle.h"
#include "plane/trace.h"
#include "plane/web.h"
#include "plane/window.h"
#include "verbs/verbs.h"

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static const protocol_t *const protocols[] = {[CONN_CLIENT] = &protocol_client,
                                              [CONN_LEAF] = &protocol_leaf,
                                              [CONN_ROUTE] = &protocol_route,
                                              [CONN_GATEWAY] = &protocol_gateway,
                                              [CONN_MQTT] = &protocol_mqtt};

status_t core_open(plane_t *plane, const plane_limits_t *limits, const char *directory, const char *memory_directory,
                   char *reason) {
    plane->limits = *limits;
    plane->protocols = protocols;
    memory_open(plane);
    plane->next_peer = 1;
    plane->random = UINT64_C(0x2545F4914F6CDD1D) ^ (uint64_t)plane->now.mono_ns;
    for (uint32_t i = 0; i < CROSSING_DEPTH_MAX; i++) {
        buffer_init(&plane->crossing_headers[i], UINT64_C(1) << 32);
    }
    buffer_init(&plane->authored, UINT64_C(1) << 32);
    buffer_init(&plane->vouched, UINT64_C(1) << 32);
    buffer_init(&plane->unvouched, UINT64_C(1) << 32);
    /* Messages that wait in control are there a second time in Python's own form. */
    status_t status = exchange_open(&plane->exchange, memory_share(limits->memory_limit, MEMORY_EXCHANGE) / 2,
                                    memory_share(limits->memory_limit, MEMORY_CONTROL) / 2);
    if (status != STATUS_OK) {
        snprintf(reason, PLANE_REASON_SIZE, "no memory or descriptors for the rings between control and plane");
        return status;
    }
    if ((limits->clustered & (CLUSTERED_ROUTES | CLUSTERED_GATEWAYS)) != 0 && routed_open(plane) != STATUS_OK) {
        snprintf(reason, PLANE_REASON_SIZE, "no memory for the cluster's table of interest");
        return STATUS_NO_MEMORY;
    }
    if ((limits->clustered & CLUSTERED_GATEWAYS) != 0 && gateways_open(plane) != STATUS_OK) {
        snprintf(reason, PLANE_REASON_SIZE, "no memory for gateways");
        return STATUS_NO_MEMORY;
    }
    plane->advised.pattern = BYTES_LITERAL("$JS.EVENT.>");
    if (plane->routed != NULL) {
        /* What the other servers' clients listen to is not all known here. */
        atomic_store_explicit(&plane->advised.count, 1, memory_order_relaxed);
    }
    plane->mqtt_told = mqtt_told;
    plane->admit = admit_peer;
    plane->js.host = &plane_host;
    plane->js.plane = plane;
    plane->js.exchange = &plane->exchange;
    plane->js.limits = &plane->limits;
    plane->js.now = &plane->now;
    uint64_t most = limits->memory_limit;
    plane->js.ring_max[STORE_FILE] = memory_share(most, MEMORY_RING);
    plane->js.ring_max[STORE_MEMORY] = memory_share(most, MEMORY_MEMORY_RING);
    plane->js.heads_max = memory_share(most, MEMORY_OVERLAY) / 5 * 2;
    plane->js.changed_max[STORE_FILE] = memory_share(most, MEMORY_KEEPER) / 4 * 3;
    plane->js.changed_max[STORE_MEMORY] = memory_share(most, MEMORY_KEEPER) / 4;
    plane->js.consumers = (share_t){.limit = memory_share(most, MEMORY_CONSUMERS)};
    plane->js.staged = (share_t){.limit = memory_share(most, MEMORY_BATCHES)};
    plane->js.listing_max = memory_share(most, MEMORY_OUTPUT) / 2;
    plane->js.took = plane->disk_took;
    plane->js.held_max = memory_share(most, MEMORY_HELD) / 2;
    plane->js.random = random_next(&plane->random);
    status = js_open(&plane->js, directory, memory_directory, reason);
    plane->js.keys = NULL; /* the caller's, and no longer needed */
    return status;
}

void core_shutdown(plane_t *plane) {
    js_shutdown(&plane->js);
    core_settle(plane);
}

void core_close(plane_t *plane) {
    while (plane->all_peers != NULL) {
        peer_t *peer = plane->all_peers;
        peer_doom(plane, peer, CLOSE_SHUTDOWN, BYTES_NONE);
        peer_sweep_begin(plane);
        peer_sweep(plane);
    }
    subscription_sweep(plane);
    js_close_streams(&plane->js);
    map_walk_t walk = {0};
    for (subscription_t *one; (one = table_next(&plane->controls, &walk)) != NULL;) {
        subscription_kill(plane, one);
    }
    subscription_sweep(plane);
    walk = (map_walk_t){0};
    for (account_t *account; (account = table_next(&plane->accounts, &walk)) != NULL;) {
        imports_free(plane, account);
    }
    leftovers_finish(&plane->leftovers, plane);
    replies_free(plane);
    gateway_replies_free(plane);
    latency_free(plane);
    far_free(plane);
    trace_free(plane);
    mqtt_close(plane);
    meta_close(plane);
    js_close(&plane->js);
    walk = (map_walk_t){0};
    for (account_t *account; (account = table_next(&plane->accounts, &walk)) != NULL;) {
        sink_remove(plane, &account->replies);
        account_free(account);
    }
    placed_free(plane);
    routed_close(plane);
    gateways_close(plane);
    web_close(plane);
    compress_desk_close(plane->compress);
    known_forget(plane);
    authors_forget(plane);
    free(plane->authors);
    buffer_free(&plane->authored);
    buffer_free(&plane->vouched);
    buffer_free(&plane->unvouched);
    held_free(&plane->deferred);
    secure_close(plane);
    table_free(&plane->peers);
    table_free(&plane->accounts);
    table_free(&plane->controls);
    table_free(&plane->trunks); /* which ended with their links */
    exchange_close(&plane->exchange);
    for (uint32_t i = 0; i < CROSSING_DEPTH_MAX; i++) {
        buffer_free(&plane->crossing_headers[i]);
    }
    free(plane->links_room);
    plane->links_room = NULL;
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

void core_backlog(plane_t *plane) {
    backlog_run(plane);
}

static void settle_jetstream(plane_t *plane) {
    if (LEAF_UNLIKELY(plane->meta != NULL)) {
        meta_turn(plane);
    }
    js_settle_stores(&plane->js);
    if (LEAF_UNLIKELY(plane->meta != NULL)) {
        meta_turn(plane);
    }
    bool interest_changed = plane->interest_changed, drained = plane->drained;
    plane->interest_changed = plane->drained = false;
    js_settle_consumers(&plane->js, interest_changed, drained);
}

static void tick_chores(plane_t *plane) {
    if (plane->now.mono_ns < plane->next_chores_ns) {
        return;
    }
    plane->next_chores_ns = plane->now.mono_ns + CHORES_INTERVAL_NS;
    for (peer_t *peer = plane->all_peers; peer != NULL; peer = peer->next) {
        peer_chores(plane, peer);
        if (LEAF_UNLIKELY(peer->proxied != NULL)) {
            proxied_chores(plane, peer);
        }
    }
    conn_scratch_idle(&plane->input);
    js_chores(&plane->js);
    replies_chores(plane);
    latency_chores(plane);
    far_chores(plane);
    mqtt_chores(plane);
    if (plane->compress != NULL) {
        compress_desk_idle(plane->compress);
    }
}

static void sweep_and_flush(plane_t *plane) {
    peer_sweep_begin(plane);
    window_turn(plane);
    output_turn(plane);
    do {
        subscription_sweep(plane);
        peer_sweep(plane);
        output_flush(plane);
    } while (plane->dead != NULL || plane->doomed != NULL || plane->dirty != NULL);
    output_end(plane);
}

void core_settle(plane_t *plane) {
    if (plane->js.consume != NULL) {
        publish_deferred(plane);
        settle_jetstream(plane);
        throttle_tick(plane);
        plane->more = plane->more || plane->js.more || js_batch_waits(&plane->js);
        plane->js.more = false;
    }
    pressure_relieve(plane);
    peer_unstall(plane);
    interest_tell(plane);
    routed_tell(plane);
    tick_chores(plane);
    if (LEAF_UNLIKELY(plane->carried_go)) {
        mqtt_carried_go_on(plane);
    }
    if (LEAF_UNLIKELY(plane->reads_go)) {
        mqtt_retain_turn(plane);
    }
    sweep_and_flush(plane);
    event_pump(&plane->exchange, plane->now.mono_ns);
    memory_tick(plane);
    stats_publish(plane);
    plane->turns++;
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
    int64_t deadline = js_next_deadline(&plane->js), wait_ends = secure_deadline(plane);
    int64_t told = event_deadline(&plane->exchange);
    if (plane->narrows != NULL && plane->narrows_due_ns < next) {
        next = plane->narrows_due_ns;
    }
    next = deadline < next ? deadline : next;
    next = wait_ends < next ? wait_ends : next;
    next = told < next ? told : next;
    if (LEAF_UNLIKELY(plane->meta != NULL)) {
        int64_t turn = meta_deadline(plane);
        next = turn < next ? turn : next;
    }
    int64_t left = next - plane->now.mono_ns;
    return left < 0 ? 0 : left;
}
