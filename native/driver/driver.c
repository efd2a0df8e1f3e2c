/* driver.c: the thread around the core: epoll, sockets, the clock; and the functions of abi.h.
 *
 * One turn: wait; read each ready connection once and act on its input; commands; core_settle. Tags of the loop: a
 * peer's address, a listener's address with the lowest bit set, or one of the small numbers below.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "plane/plane.h"
#include "plane/protocol.h"

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/ring.h"
#include "base/status.h"
#include "command/command.h"
#include "exchange/exchange.h"
#include "jetstream/js.h"
#include "command/greeting.h"
#include "net/compress.h"
#include "net/conn.h"
#include "net/listen.h"
#include "net/loop.h"
#include "plane/output.h"
#include "plane/peer.h"
#include "plane/secure.h"
#include "plane/web.h"
#include "driver/stats.h"
#include "driver/tick.h"
#include "store/record.h"
#include "verbs/turn.h"

#define TAG_COMMANDS ((void *)2)
#define TAG_SMALL_MAX 16u

typedef struct plane_thread {
    pthread_t id;
    bool started;
    int64_t heap_look_ns; /* when it is next asked whether memory lies free */
} plane_thread_t;

#define READY_LOOK 8u    /* so many ready ones between two looks at the clock, .. */
#define READY_WORK 1024u /* .. or so much of what they do: verbs/turn.h */
#define READY_TIME_NS (5 * NS_PER_MS)
#define LARGE_BLOCK (256 * 1024)
#define HEAP_AHEAD (192 * 1024) /* less than LARGE_BLOCK */
#define HEAP_AHEAD_FOR 32u      /* connections that come one after the other: it has room for them */
#define HEAP_LOOK_NS (500 * NS_PER_MS)
#define HEAP_PAUSE 64           /* so many times what it took to give memory back, until that is done again */
#define LINK_MEMORY (8u * 1024) /* of memory_limit that a connection from a server may take before it says anything */
#define LINKS_LEAST 64u
#define FDS_KEPT 100 /* of RLIMIT_NOFILE, for files and monitoring; clients leave some more (host/descriptors.py) */
#define FDS_LEAST 64
#define EXCESS_MAX 16u /* connections beyond the limit that live until they have been told */

uint32_t plane_abi(void) {
    return PLANE_ABI;
}

/* ---- ready descriptors ------------------------------------------------------------------------------------------- */

/* Connections of the kind that a listener takes, and how many there may be. Servers are no clients: max_connections
 * counts none of them, as in nats-server, and they have what memory_limit has room for. */
typedef struct occupied {
    uint64_t now;
    uint64_t most;
} occupied_t;

static bool takes_servers(const plane_listener_t *listener) {
    uint32_t kind = listener->kind & ~(uint32_t)LISTEN_GREETED; /* with LISTEN_WEB the first line tells */
    return kind == CONN_LEAF || kind == CONN_ROUTE || kind == CONN_GATEWAY;
}

static occupied_t occupied_by(const plane_t *plane, const plane_listener_t *listener) {
    const plane_limits_t *limits = &plane->limits;
    uint64_t clients = limits->max_connections != 0 ? limits->max_connections : UINT32_MAX;
    if (!takes_servers(listener)) {
        return (occupied_t){.now = plane->stats.connections - plane->links, .most = clients};
    }
    uint64_t links = limits->memory_limit != 0 ? limits->memory_limit / LINK_MEMORY : UINT32_MAX;
    return (occupied_t){.now = plane->links, .most = links > LINKS_LEAST ? links : LINKS_LEAST};
}

/* glibc lets the heap of a thread grow by what is asked for, in pages, with a system call each: for each connection
 * that came it was one or two. So it grows by many pages first. Until they are used they are no memory. */
static void grow_heap(void) {
#ifdef __GLIBC__
    void *volatile ahead = malloc(HEAP_AHEAD);
    free(ahead);
#endif
}

/* A connection that has ended counts until the turn's end. One that comes behind it waits for its place that long. */
static bool place_is_coming(const plane_t *plane, const plane_listener_t *listener) {
    occupied_t occupied = occupied_by(plane, listener);
    return occupied.now >= occupied.most && (plane->doomed != NULL || plane->leaving != NULL);
}

static void accept_some(plane_t *plane, plane_listener_t *listener) {
    for (uint32_t i = 0; i < LISTEN_ACCEPT_MAX && !event_crowded(&plane->exchange); i++) {
        if (LEAF_UNLIKELY(place_is_coming(plane, listener))) {
            return;
        }
        int fd = -1;
        char address[LISTEN_PEER_SIZE] = "";
        status_t status = listener_accept(&listener->listener, &fd, address);
        if (status == STATUS_FULL) {
            continue;
        }
        if (status != STATUS_OK) {
            return;
        }
        /* Beyond the limit a few are told so; the others get no descriptor that the rest of the process may need. */
        occupied_t occupied = occupied_by(plane, listener);
        if (occupied.now >= occupied.most + EXCESS_MAX || fd >= plane->fd_most) {
            close(fd);
            continue;
        }
        if (i % HEAP_AHEAD_FOR == 0) {
            grow_heap();
        }
        bytes_t from = bytes_of(address, (uint32_t)strlen(address));
        peer_t *peer = peer_new(plane, fd, greeting_kind(listener), listener->id, from);
        if (peer == NULL) {
            close(fd);
            return;
        }
        if (listener->proxied) {
            proxied_begin(plane, peer);
        }
        peer->excess = occupied.now >= occupied.most;
        if (!peer->protocol->link) {
            greeting_from(peer, from);
        }
        if (listener->greeting != NULL) {
            greeting_peer(plane, peer, listener);
        } else if (listener->secure) {
            peer_hold(plane, peer, WAITS_SECURE);
        }
    }
}

static void closed_by_peer(plane_t *plane, peer_t *peer) {
    bytes_t reason = secure_reason(peer), fault = web_fault(peer);
    if (reason.size != 0) {
        peer_doom_silently(plane, peer, CLOSE_TLS, reason);
    } else if (fault.size != 0) {
        peer_doom_silently(plane, peer, CLOSE_PROTOCOL, fault);
    } else if (peer->compress != NULL && compress_fault(peer->compress).size != 0) {
        peer_doom_silently(plane, peer, CLOSE_PROTOCOL, compress_fault(peer->compress));
    } else {
        peer_doom_silently(plane, peer, CLOSE_CLIENT, BYTES_LITERAL("Client Closed"));
    }
}

static void read_peer(plane_t *plane, peer_t *peer) {
    bytes_t input;
    status_t status = conn_read(&peer->conn, &plane->loop, &plane->input, peer->parser.need, &input);
    if (LEAF_UNLIKELY(peer->secure_until_ns != 0)) {
        secure_look(plane, peer);
    }
    if (LEAF_UNLIKELY(peer->proxied != NULL)) {
        proxied_look(plane, peer);
    }
    switch (status) {
    case STATUS_OK: peer_act(plane, peer, input); return;
    case STATUS_AGAIN: return;
    case STATUS_FULL:
        peer_doom(plane, peer, CLOSE_LIMIT,
                  peer->state == PEER_GREETING ? BYTES_LITERAL("maximum control line exceeded")
                                               : BYTES_LITERAL("Maximum Payload Violation"));
        return;
    case STATUS_NO_MEMORY: peer_wait(plane, peer); return;
    case STATUS_CLOSED:
    default: closed_by_peer(plane, peer);
    }
}

static void ready_peer(plane_t *plane, peer_t *peer, uint32_t events) {
    if ((events & LOOP_READ) != 0 && !peer->conn.reading) {
        peer_unasked(plane, peer);
    }
    if (peer->state == PEER_DOOMED || (LEAF_UNLIKELY(peer->secure_until_ns != 0) && secure_late(plane, peer))) {
        return;
    }
    events = conn_ready(&peer->conn, events);
    if ((events & LOOP_WRITE) != 0) {
        output_ready(plane, peer);
    }
    if (peer->in_backlog || peer->yielded) {
        return; /* what it sent before comes first: core_backlog. Reading more instead would go on until rest is full */
    }
    if ((events & LOOP_READ) != 0 && peer->reading && peer->state != PEER_DOOMED) {
        read_peer(plane, peer);
        return;
    }
    if ((events & LOOP_ERROR) != 0 && peer->state != PEER_DOOMED) {
        if (peer->reading) {
            read_peer(plane, peer);
        } else {
            peer_doom_silently(plane, peer, CLOSE_CLIENT, BYTES_LITERAL("Client Closed"));
        }
    }
}

static void ready_one(plane_t *plane, const loop_ready_t *ready) {
    uintptr_t tag = (uintptr_t)ready->tag;
    if (ready->tag == TAG_COMMANDS) {
        ring_clear(plane->exchange.commands);
    } else if ((tag & 1u) != 0) {
        accept_some(plane, (plane_listener_t *)(tag & ~(uintptr_t)1));
    } else if (tag > TAG_SMALL_MAX) {
        ready_peer(plane, ready->tag, ready->events);
    }
    /* A store's completion: store_tick takes it. */
}

/* Each of 256 may be costly (a connection comes, or goes, or publishes to a thousand): a connection that is not reached
 * in time is reported again. Where that is so, a turn does not begin with those whom the one before began with. */
static void handle_ready(plane_t *plane, const loop_ready_t *ready, uint32_t count) {
    static const uint64_t no_steps = 0;
    uint32_t first = plane->ready_cut && count != 0 ? (uint32_t)(random_next(&plane->random) % count) : 0;
    uint64_t look = work_done(plane, &no_steps) + READY_WORK;
    plane->ready_cut = false;
    for (uint32_t i = 0; i < count && !plane->ready_cut; i++) {
        ready_one(plane, &ready[(first + i) % count]);
        uint64_t done = work_done(plane, &no_steps);
        if (i % READY_LOOK == READY_LOOK - 1 || done >= look) {
            look = done + READY_WORK;
            plane->ready_cut = clock_mono_ns() - plane->now.mono_ns > READY_TIME_NS && i + 1 < count;
        }
    }
}

/* What a million subscriptions leave are 550 MB, which glibc would keep: some that live on lie among them. To give it
 * back takes 40 ms of one turn. */
static void heap_look(plane_t *plane) {
    plane_thread_t *thread = plane->thread;
    if (LEAF_LIKELY(plane->now.mono_ns < thread->heap_look_ns)) {
        return;
    }
    int64_t took = 0;
    if (memory_lies_free(plane)) {
        plane_give_back();
        took = clock_mono_ns() - plane->now.mono_ns;
    }
    thread->heap_look_ns = plane->now.mono_ns + HEAP_LOOK_NS + HEAP_PAUSE * took;
}

void plane_turn(plane_t *plane) {
    loop_ready_t ready[LOOP_READY_MAX];
    uint32_t count = loop_wait(&plane->loop, core_sleep_ns(plane), ready, LOOP_READY_MAX);
    plane->now = clock_now();
    plane->more = false;
    secure_turn(plane);
    plane->input_work = TURN_WORK / (count + 1) < INPUT_WORK_MIN ? INPUT_WORK_MIN : TURN_WORK / (count + 1);
    handle_ready(plane, ready, count);
    secure_call(plane);
    core_commands(plane);
    core_backlog(plane);
    core_settle(plane);
    heap_look(plane);
    stats_tick(plane, (uint64_t)(clock_now().mono_ns - plane->now.mono_ns));
}

static void close_everything(plane_t *plane) {
    while (plane->listeners != NULL) {
        plane_listener_t *listener = plane->listeners;
        plane->listeners = listener->next;
        loop_remove(&plane->loop, listener->listener.fd);
        listener_close(&listener->listener);
        greeting_drop(listener);
        free(listener);
    }
    core_shutdown(plane);
    for (peer_t *peer = plane->all_peers; peer != NULL; peer = peer->next) {
        peer_doom(plane, peer, CLOSE_SHUTDOWN, BYTES_NONE);
    }
    core_settle(plane);
}

static void *plane_main(void *argument) {
    plane_t *plane = argument;
    while (!atomic_load_explicit(&plane->stopping, memory_order_acquire)) {
        plane_turn(plane);
    }
    close_everything(plane);
    return NULL;
}

/* ---- abi.h ------------------------------------------------------------------------------------------------------- */

static plane_t *open_failed(plane_t *plane, status_t status, int32_t *out) {
    *out = (int32_t)status;
    if (plane != NULL) {
        core_close(plane);
        conn_scratch_close(&plane->input);
        loop_close(&plane->loop);
        free(plane->thread);
        free(plane);
    }
    return NULL;
}

/* Large buffers come from the system and go back to it at once: glibc would raise the size from which it does so to
 * that of the first one that was freed, and keep the others in heaps with holes. Small ones are joined with their
 * neighbours when they are freed: glibc would gather them, and the next larger block, for a connection that came,
 * joined all that hundreds of thousands of subscriptions had left: 13 ms of one turn. */
static void freed_blocks_go_back(void) {
#ifdef __GLIBC__
    (void)mallopt(M_MXFAST, 0);
    (void)mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK);
    (void)mallopt(M_TRIM_THRESHOLD, 4 * LARGE_BLOCK);
#endif
}

void plane_give_back(void) {
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

/* The kernel gives the lowest number that is free. */
static int descriptors_most(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > INT32_MAX) {
        return INT32_MAX;
    }
    int most = (int)limit.rlim_cur - FDS_KEPT;
    return most > FDS_LEAST ? most : FDS_LEAST;
}

void plane_hide(void) {
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* it cannot fail */
}

plane_t *plane_open(const plane_limits_t *limits, const plane_keys_t *keys, const char *directory,
                    const char *memory_directory, char *reason, int32_t *status) {
    *status = STATUS_OK;
    reason[0] = 0;
    freed_blocks_go_back();
    plane_t *plane = calloc(1, sizeof(*plane));
    if (plane == NULL) {
        snprintf(reason, PLANE_REASON_SIZE, "no memory for the plane");
        return open_failed(NULL, STATUS_NO_MEMORY, status);
    }
    plane->threaded = true;
    plane->fd_most = descriptors_most();
    plane->js.keys = keys;
    plane->now = clock_now();
    plane->loop.epoll_fd = -1;
    plane->thread = calloc(1, sizeof(*plane->thread));
    status_t result = plane->thread == NULL ? STATUS_NO_MEMORY : loop_open(&plane->loop);
    if (result == STATUS_OK) {
        result = conn_scratch_open(&plane->input);
    }
    if (result != STATUS_OK) {
        snprintf(reason, PLANE_REASON_SIZE, "no memory or descriptors for the plane: %s", strerror(errno));
        return open_failed(plane, result, status);
    }
    result = core_open(plane, limits, directory, memory_directory, reason);
    if (result == STATUS_OK) {
        result = loop_add(&plane->loop, ring_wake_fd(plane->exchange.commands), LOOP_READ, TAG_COMMANDS);
    }
    if (result != STATUS_OK) {
        if (reason[0] == 0) {
            snprintf(reason, PLANE_REASON_SIZE, "the plane did not open: %s", status_name(result));
        }
        return open_failed(plane, result, status);
    }
    stats_publish(plane);
    return plane;
}

int32_t plane_start(plane_t *plane) {
    /* Signals are control's, but for those that the thread raises itself by what it does: disk/unread.h. */
    static const int own[] = {SIGBUS, SIGSEGV, SIGABRT, SIGFPE, SIGILL};
    sigset_t all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        sigdelset(&all, own[i]);
    }
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&plane->thread->id, NULL, plane_main, plane);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    plane->thread->started = error == 0;
    if (error == 0) {
        (void)pthread_setname_np(plane->thread->id, "leafd-plane");
    }
    return error == 0 ? STATUS_OK : STATUS_NO_MEMORY;
}

void plane_stop(plane_t *plane) {
    if (plane->thread->started) {
        atomic_store_explicit(&plane->stopping, true, memory_order_release);
        ring_wake(plane->exchange.commands);
        pthread_join(plane->thread->id, NULL);
        plane->thread->started = false;
    }
}

void plane_close(plane_t *plane) {
    if (plane == NULL) {
        return;
    }
    plane_stop(plane);
    core_close(plane);
    conn_scratch_close(&plane->input);
    loop_close(&plane->loop);
    free(plane->thread);
    free(plane);
}

int plane_wake_fd(plane_t *plane) {
    return ring_wake_fd(plane->exchange.events);
}

int32_t plane_submit(plane_t *plane, const plane_command_t *commands, uint32_t count) {
    return exchange_submit(&plane->exchange, commands, count);
}

uint32_t plane_poll(plane_t *plane, plane_event_t *events, uint32_t count_max) {
    return exchange_poll(&plane->exchange, events, count_max);
}

void plane_release(plane_t *plane, uint32_t count) {
    exchange_release(&plane->exchange, count);
}

void plane_repay(plane_t *plane, uint64_t token) {
    exchange_repay(&plane->exchange, token);
}

typedef struct record_look {
    uint8_t *key;
    uint32_t *key_size;
    uint8_t *value;
    uint64_t value_max;
    int64_t result;
} record_look_t;

static bool take_record(void *context, bytes_t key, bytes_t value) {
    record_look_t *look = context;
    memcpy(look->key, key.at, key.size);
    *look->key_size = key.size;
    look->result = value.size;
    if (value.size <= look->value_max && value.size != 0) {
        memcpy(look->value, value.at, value.size);
    }
    return false;
}

static bool pass_record(void *context, bytes_t key, bytes_t value) {
    (void)context, (void)key, (void)value;
    return true;
}

int64_t plane_record_next(plane_t *plane, uint32_t kind, const uint8_t *after, uint32_t after_size, uint8_t *key,
                          uint32_t *key_size, uint8_t *value, uint64_t value_max) {
    store_t *store = plane->js.stores[STORE_FILE];
    record_look_t look = {key, key_size, value, value_max, -1};
    if (store == NULL) {
        return -1;
    }
    bytes_t behind = bytes_of(after, after_size);
    list_outcome_t outcome = kind == RECORD_LOST
                                 ? store_lost_each(store, behind, take_record, &look)
                                 : store_record_each(store, kind, BYTES_NONE, behind, take_record, &look);
    switch (outcome) {
    case LIST_UNKNOWN: return -2;
    case LIST_LACKS: /* (names that cannot be read are said, and end the list of what is lost) */
        return look.result >= 0 ? look.result : kind == RECORD_LOST ? -1 : -3;
    case LIST_WHOLE: break;
    }
    if (look.result >= 0) {
        return look.result;
    }
    if (kind != RECORD_LOST) { /* the end; were some left out before? */
        outcome = store_record_each(store, kind, BYTES_NONE, BYTES_NONE, pass_record, NULL);
    }
    switch (outcome) { /* what was not found is not known to be missing but for LIST_WHOLE */
    case LIST_UNKNOWN: return -2;
    case LIST_LACKS: return -3;
    case LIST_WHOLE: break;
    }
    return -1;
}
