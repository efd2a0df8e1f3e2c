/* plane_rig.h: the plane's core without sockets, threads and clock: bytes go into a peer, bytes come out of its queue.
 * Time stands still unless a test moves plane->now.
 *
 * With RIG_BYTE_BY_BYTE(promises) the promises are kept a second time by peers behind a transport in memory, which
 * hands over and takes one byte at a time. */
#ifndef LEAFD_TESTS_PLANE_RIG_H
#define LEAFD_TESTS_PLANE_RIG_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "jetstream/js.h"
#include "base/visits.h"
#include "plane/account.h"
#include "command/command.h"
#include "plane/protocol.h"
#include "plane/interest.h"
#include "plane/peer.h"
#include "route/permissions.h"
#include "plane/plane.h"
#include "plane/pressure.h"
#include "plane/publication.h"
#include "plane/subscription.h"
#include "driver/tick.h"
#include "verbs/mqtt.h"
#include "directory.h"
#include "memory_transport.h"
#include "test.h"

#define RIG_ACCOUNT 1u
#define RIG_FLAGS (VERDICT_ECHO | VERDICT_HEADERS | VERDICT_NO_RESPONDERS | VERDICT_PROTOCOL_1)

static char rig_out[1 << 20];
static bool rig_by_byte;
static uint32_t rig_admits_to = RIG_ACCOUNT; /* the account of who comes next */

/* No command, no input that came at once, and no end of a turn takes longer: counted in blocks of code, each of which
 * is a nanosecond or a few (base/visits.h). */
static uint64_t rig_blocks_max = 4000000;

static inline void rig_step_begins(void) {
    (void)blocks_take();
}

static inline void rig_step_ends(void) {
    uint64_t blocks = blocks_take();
    if (blocks > rig_blocks_max) {
        fprintf(stderr, "  a step of %llu blocks\n", (unsigned long long)blocks);
        FAIL("a step of the plane takes too long");
    }
}

static bytes_t rig_text(const char *text) {
    return bytes_of(text, (uint32_t)strlen(text));
}

typedef struct rig_strings {
    uint8_t at[8192];
    uint32_t size;
} rig_strings_t;

static inline void rig_pack_bytes(rig_strings_t *strings, bytes_t text) {
    for (uint32_t i = 0; i < 4; i++) strings->at[strings->size++] = (uint8_t)(text.size >> (8 * i));
    memcpy(strings->at + strings->size, text.at, text.size);
    strings->size += text.size;
}

static inline void rig_pack(rig_strings_t *strings, const char *text) {
    rig_pack_bytes(strings, rig_text(text));
}

static inline void rig_run(plane_t *plane, plane_command_t command, const rig_strings_t *strings) {
    if (strings != NULL) {
        command.extra = strings->at;
        command.extra_size = strings->size;
    }
    rig_step_begins();
    command_run(plane, &command);
    rig_step_ends();
}

static inline void rig_account(plane_t *plane, uint32_t id, uint32_t flags, const char *domain) {
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "A");
    rig_pack(&strings, domain);
    rig_run(plane, (plane_command_t){.op = COMMAND_ACCOUNT, .account = id, .arg = flags}, &strings);
}

/* What a plane of a test has; directory NULL: without JetStream. */
static inline plane_limits_t rig_limits(const char *directory) {
    return (plane_limits_t){.max_file_store = 64 << 20,
                            .journal_size = DIRECTORY_JOURNAL,
                            .max_pending = 1 << 20,
                            .write_deadline_ns = 10 * NS_PER_SECOND,
                            .ping_interval_ns = 120 * NS_PER_SECOND,
                            .ping_max = 2,
                            .max_control_line = 4096,
                            .max_payload = 64 << 10,
                            .jetstream = directory != NULL};
}

/* Without an account. */
static inline plane_t *rig_open_with(const char *directory, plane_limits_t limits) {
    plane_t *plane = calloc(1, sizeof(*plane));
    CHECK(plane != NULL);
    plane->now = clock_now();
    char reason[PLANE_REASON_SIZE] = "";
    CHECK_EQ_I64(STATUS_OK, core_open(plane, &limits, directory, NULL, reason));
    return plane;
}

/* directory NULL: without JetStream. journal_size, memory_limit: 0 = DIRECTORY_JOURNAL, no bound. */
static inline plane_t *rig_open_small(const char *directory, const char *domain, uint64_t journal_size,
                                      uint64_t memory_limit) {
    plane_limits_t limits = rig_limits(directory);
    limits.journal_size = journal_size != 0 ? journal_size : DIRECTORY_JOURNAL;
    limits.memory_limit = memory_limit;
    plane_t *plane = rig_open_with(directory, limits);
    rig_account(plane, RIG_ACCOUNT, directory != NULL ? ACCOUNT_JETSTREAM : 0, domain);
    return plane;
}

static inline plane_t *rig_open(const char *directory, const char *domain) {
    return rig_open_small(directory, domain, 0, 0);
}

static inline void rig_close(plane_t *plane) {
    core_close(plane);
    conn_scratch_close(&plane->input);
    free(plane);
}

static inline peer_t *rig_peer(plane_t *plane, uint32_t kind, const char *address) {
    peer_t *peer = peer_new(plane, -1, kind, 1, rig_text(address));
    if (peer != NULL && rig_by_byte) {
        CHECK_EQ_I64(STATUS_OK, conn_switch(&peer->conn, &transport_memory, memory_transport(1, 1)));
    }
    return peer;
}

static inline bool rig_sessions_sound(const plane_t *plane) {
    map_walk_t walk = {0};
    bool good = true;
    for (map_link_t *link; plane->mqtt_desk != NULL && (link = map_next(plane->mqtt_desk->kept, &walk)) != NULL;) {
        good = good && kept_sound((const kept_t *)(const void *)link); /* its first member's first */
    }
    return good;
}

/* A turn ends, and what must hold then holds. */
static inline void rig_turn(plane_t *plane) {
    rig_step_begins();
    core_settle(plane);
    rig_step_ends();
    for (uint32_t i = 0; i < 2; i++) CHECK(plane->js.stores[i] == NULL || store_sound(plane->js.stores[i]));
    CHECK(plane->js.consume == NULL || consume_sound(plane->js.consume));
    CHECK(rig_sessions_sound(plane));
}

/* The driver's part: reads until the transport has nothing left. */
static inline void rig_receive(plane_t *plane, peer_t *peer, const char *text) {
    memory_transport_t *memory = peer->conn.transport_state;
    CHECK_EQ_I64(STATUS_OK, buffer_append(&memory->input, text, (uint32_t)strlen(text)));
    if (plane->input.at == NULL) CHECK_EQ_I64(STATUS_OK, conn_scratch_open(&plane->input));
    bytes_t input;
    while (conn_read(&peer->conn, &plane->loop, &plane->input, peer->parser.need, &input) == STATUS_OK) {
        uint32_t used = peer_input(plane, peer, input);
        CHECK_EQ_I64(STATUS_OK, conn_keep(&peer->conn, input, used));
    }
    CHECK_EQ_U64(0, memory->input.size);
}

/* Without ending the tick: what a doomed peer was told can still be read. */
static inline void rig_say(plane_t *plane, peer_t *peer, const char *text) {
    if (peer->conn.transport == &transport_memory) {
        rig_receive(plane, peer, text);
        return;
    }
    CHECK_EQ_I64(STATUS_OK, buffer_append(&peer->conn.rest, text, strlen(text)));
    bytes_t input = conn_rest(&peer->conn);
    rig_step_begins();
    uint32_t used = peer_input(plane, peer, input);
    rig_step_ends();
    CHECK_EQ_I64(STATUS_OK, conn_keep(&peer->conn, input, used));
}

static inline void rig_feed(plane_t *plane, peer_t *peer, const char *text) {
    rig_say(plane, peer, text);
    rig_turn(plane);
}

static inline size_t rig_take_queue(outq_t *out) {
    struct iovec iov[OUTQ_IOVECS];
    size_t size = 0;
    uint64_t gathered;
    for (int count; (count = outq_gather(out, UINT64_MAX, iov, &gathered)) != 0;) {
        uint64_t written = 0;
        for (int i = 0; i < count; i++) {
            CHECK(size + iov[i].iov_len < sizeof(rig_out));
            memcpy(rig_out + size, iov[i].iov_base, iov[i].iov_len);
            size += iov[i].iov_len;
            written += iov[i].iov_len;
        }
        outq_written(out, written, 1);
    }
    return size;
}

static inline size_t rig_take_sent(conn_t *conn) {
    memory_transport_t *memory = conn->transport_state;
    loop_t none = {.epoll_fd = -1};
    while (conn_flush(conn, &none, UINT64_MAX, 1) == STATUS_AGAIN) {
    }
    size_t size = (size_t)memory->output.size;
    CHECK(size < sizeof(rig_out));
    if (size != 0) memcpy(rig_out, memory->output.at, size);
    memory->output.size = 0;
    return size;
}

/* Everything that waits to be written, which is written by that. */
static inline const char *rig_heard(peer_t *peer) {
    bool memory = peer->conn.transport == &transport_memory;
    size_t size = memory ? rig_take_sent(&peer->conn) : rig_take_queue(&peer->conn.out);
    rig_out[size] = 0;
    return rig_out;
}

#define RIG_HEARD(expected, peer)                                                                                      \
    do {                                                                                                               \
        const char *rig_heard_text = rig_heard(peer);                                                                  \
        CHECK_TEXT(expected, rig_heard_text, strlen(rig_heard_text));                                                  \
    } while (0)

static inline peer_t *rig_admit(plane_t *plane, uint32_t op, uint32_t kind, conn_verdict_t verdict,
                                const rig_strings_t *strings) {
    peer_t *peer = rig_peer(plane, kind, "test:1");
    CHECK(peer != NULL);
    rig_say(plane, peer, "CONNECT {}\r\n");
    CHECK(peer->state == PEER_WAITING);
    rig_run(plane,
            (plane_command_t){.op = op,
                              .account = rig_admits_to,
                              .target = peer->id,
                              .body = (const uint8_t *)&verdict,
                              .body_size = sizeof(verdict)},
            strings);
    CHECK(peer->state == PEER_ADMITTED);
    rig_turn(plane);
    return peer;
}

static inline peer_t *rig_client_with(plane_t *plane, conn_verdict_t verdict, const char *const lists[4]) {
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "");
    for (uint32_t i = 0; i < 4; i++) {
        if (lists != NULL && lists[i] != NULL) rig_pack(&strings, lists[i]);
        rig_pack(&strings, "");
    }
    return rig_admit(plane, COMMAND_ADMIT, CONN_CLIENT, verdict, &strings);
}

static inline peer_t *rig_client(plane_t *plane) {
    return rig_client_with(plane, (conn_verdict_t){.flags = RIG_FLAGS}, NULL);
}

/* domain: hash8 of that at its other end; NULL: it says none. */
static inline peer_t *rig_leaf_of(plane_t *plane, uint32_t flags, const char *cluster, const char *domain,
                                  const char *const lists[4]) {
    conn_verdict_t verdict = {.flags = flags | VERDICT_HEADERS};
    for (uint32_t i = 0; domain != NULL && i < 8; i++) verdict.domain = verdict.domain << 8 | (uint8_t)domain[i];
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, cluster);
    rig_pack(&strings, "$LDS.own");
    for (uint32_t i = 0; i < 4; i++) {
        if (lists != NULL && lists[i] != NULL) rig_pack(&strings, lists[i]);
        rig_pack(&strings, "");
    }
    rig_pack(&strings, ""); /* nothing is denied to mappings */
    return rig_admit(plane, COMMAND_ADMIT_LEAF, CONN_LEAF, verdict, &strings);
}

static inline peer_t *rig_leaf(plane_t *plane, uint32_t flags, const char *cluster, const char *const lists[4]) {
    return rig_leaf_of(plane, flags, cluster, NULL, lists);
}

#define RIG_BYTE_BY_BYTE(promises)                                                                                     \
    do {                                                                                                               \
        puts("-- byte by byte:");                                                                                      \
        rig_by_byte = true;                                                                                            \
        promises();                                                                                                    \
        rig_by_byte = false;                                                                                           \
    } while (0)

/* The next event of that kind, others before it are dropped; false: there is none. Control is done with each when the
 * next one is asked for. */
static inline bool rig_event(plane_t *plane, uint32_t kind, plane_event_t *event) {
    for (;;) {
        if (plane->exchange.polled_first != NULL) {
            exchange_repay(&plane->exchange, plane->exchange.polled_first->event.kind == EVENT_MESSAGE
                                                 ? plane->exchange.polled_first->token
                                                 : 0);
            exchange_release(&plane->exchange, 1);
        }
        if (exchange_poll(&plane->exchange, event, 1) == 0) return false;
        if (event->kind == kind) return true;
    }
}

#endif
