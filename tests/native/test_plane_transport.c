/* test_plane_transport.c: the driver (driver.c) over a transport that holds records and has a handshake: what comes in
 * through real sockets and a real loop, turn by turn, without the thread. */
#include <sys/socket.h>

#include "driver/tick.h"
#include "plane_rig.h"

/* Records of 64 bytes over a socket; both sides say hello first. Each record is received as a whole and handed over in
 * small pieces, so its remainder is pending while the socket has nothing. */
#define RECORD_SIZE 64u
#define PIECE 7u

typedef struct shaking {
    uint8_t record[RECORD_SIZE];
    uint32_t size;  /* received of it */
    uint32_t taken; /* handed over; counts once it is whole */
    bool greeted;   /* our hello is sent */
    bool met;       /* theirs has come */
} shaking_t;

static status_t shake(shaking_t *shaking, int fd) {
    if (!shaking->greeted) {
        struct iovec hello = {.iov_base = (void *)(uintptr_t)"?", .iov_len = 1};
        size_t sent = 0;
        status_t status = transport_socket.send(NULL, fd, &hello, 1, &sent);
        if (status != STATUS_OK || sent == 0) return status;
        shaking->greeted = true;
    }
    if (!shaking->met) {
        uint8_t byte;
        size_t got;
        status_t status = transport_socket.receive(NULL, fd, &byte, 1, &got);
        if (status == STATUS_CLOSED || (status == STATUS_OK && byte != '!')) return STATUS_CLOSED;
        shaking->met = status == STATUS_OK;
    }
    return STATUS_OK;
}

static status_t shaking_receive(void *state, int fd, uint8_t *to, size_t room, size_t *got) {
    shaking_t *shaking = state;
    if (shake(shaking, fd) != STATUS_OK) return STATUS_CLOSED;
    if (!shaking->met) return STATUS_AGAIN;
    if (shaking->size < RECORD_SIZE) {
        size_t size = 0;
        status_t status =
            transport_socket.receive(NULL, fd, shaking->record + shaking->size, RECORD_SIZE - shaking->size, &size);
        shaking->size += (uint32_t)size;
        if (status != STATUS_OK || shaking->size < RECORD_SIZE) return status == STATUS_OK ? STATUS_AGAIN : status;
    }
    size_t left = RECORD_SIZE - shaking->taken;
    *got = left < room ? left : room;
    *got = *got < PIECE ? *got : PIECE;
    memcpy(to, shaking->record + shaking->taken, *got);
    shaking->taken += (uint32_t)*got;
    if (shaking->taken == RECORD_SIZE) shaking->size = shaking->taken = 0;
    return STATUS_OK;
}

static status_t shaking_send(void *state, int fd, const struct iovec *iov, int count, size_t *taken) {
    shaking_t *shaking = state;
    *taken = 0;
    status_t status = shake(shaking, fd);
    return status == STATUS_OK && shaking->met ? transport_socket.send(NULL, fd, iov, count, taken) : status;
}

static size_t shaking_pending(const void *state) {
    const shaking_t *shaking = state;
    return shaking->size == RECORD_SIZE ? RECORD_SIZE - shaking->taken : 0;
}

static uint32_t shaking_wanted(const void *state) {
    const shaking_t *shaking = state;
    return !shaking->greeted ? LOOP_WRITE : !shaking->met ? LOOP_READ : 0;
}

static void shaking_close(void *state, int fd) {
    (void)fd;
    free(state);
}

static const transport_t transport_shaking = {shaking_receive, shaking_send, shaking_pending, shaking_wanted,
                                              shaking_close};

/* ---- the promises ------------------------------------------------------------------------------------------------ */

static plane_t *open_plane(void) {
    plane_limits_t limits = {.max_pending = 1 << 20,
                             .write_deadline_ns = 10 * NS_PER_SECOND,
                             .ping_interval_ns = 120 * NS_PER_SECOND,
                             .ping_max = 2,
                             .max_control_line = 4096,
                             .max_payload = 64 << 10};
    char reason[PLANE_REASON_SIZE];
    int32_t status;
    plane_t *plane = plane_open(&limits, NULL, NULL, NULL, reason, &status);
    CHECK(plane != NULL);
    rig_account(plane, RIG_ACCOUNT, 0, "");
    return plane;
}

static peer_t *connect_to(plane_t *plane, int *far) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    peer_t *peer = peer_new(plane, pair[0], CONN_CLIENT, 1, rig_text("test:1"));
    CHECK(peer != NULL);
    shaking_t *shaking = calloc(1, sizeof(*shaking));
    CHECK(shaking != NULL);
    CHECK_EQ_I64(STATUS_OK, conn_switch(&peer->conn, &transport_shaking, shaking));
    *far = pair[1];
    return peer;
}

static void turns(plane_t *plane, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        plane->more = true; /* does not sleep */
        plane_turn(plane);
    }
}

static void hear(int fd, const char *expected) {
    char at[512];
    ssize_t size = read(fd, at, sizeof at);
    CHECK_TEXT(expected, at, size > 0 ? (size_t)size : 0);
}

static void admit(plane_t *plane, peer_t *peer) {
    rig_strings_t strings = {.size = 0};
    conn_verdict_t verdict = {.flags = RIG_FLAGS};
    for (uint32_t i = 0; i < 5; i++) rig_pack(&strings, "");
    rig_run(plane,
            (plane_command_t){.op = COMMAND_ADMIT,
                              .account = RIG_ACCOUNT,
                              .target = peer->id,
                              .body = (const uint8_t *)&verdict,
                              .body_size = sizeof(verdict)},
            &strings);
    CHECK_EQ_I64(PEER_ADMITTED, peer->state);
}

static void a_record_is_acted_upon_to_its_end(void) {
    plane_t *plane = open_plane();
    int far;
    peer_t *peer = connect_to(plane, &far);
    CHECK_EQ_I64(STATUS_OK, conn_flush(&peer->conn, &plane->loop, UINT64_MAX, 1)); /* lets it begin */
    turns(plane, 3);
    hear(far, "?");
    CHECK_EQ_I64(1, write(far, "!", 1));
    const char wire[] = "CONNECT {}\r\nPING\r\nSUB a 1\r\nPUB a 2\r\nhi\r\nPUB a 5\r\nagain\r\nPING\r\nPUB a 42\r\n"
                        "the end of the second of the two records!!\r\nPING\r\nPING\r\n";
    CHECK_EQ_U64(2 * RECORD_SIZE, strlen(wire));
    CHECK_EQ_I64(2 * RECORD_SIZE, write(far, wire, strlen(wire)));
    /* The remainder of the record is not read while the verdict is out, and does not keep the thread busy. */
    turns(plane, 10);
    CHECK_EQ_I64(PEER_WAITING, peer->state);
    hear(far, "");
    CHECK_EQ_U64(0, plane->loop.buffered_count);
    admit(plane, peer);
    turns(plane, 40);
    hear(far, "PONG\r\nMSG a 1 2\r\nhi\r\nMSG a 1 5\r\nagain\r\nPONG\r\nMSG a 1 42\r\nthe end of the second of the two "
              "records!!\r\n"
              "PONG\r\nPONG\r\n");
    close(far);
    turns(plane, 2);
    CHECK_EQ_U64(0, plane->stats.connections);
    plane_close(plane);
}

static void a_handshake_goes_on_while_nothing_is_read(void) {
    plane_t *plane = open_plane();
    int far;
    peer_t *peer = connect_to(plane, &far);
    peer_hold(plane, peer, WAITS_SECURE);
    CHECK_EQ_I64(STATUS_OK, outq_ordered(&peer->conn.out, BYTES_LITERAL("INFO {}\r\n")));
    peer_touch(plane, peer);
    turns(plane, 3);
    hear(far, "?");
    turns(plane, 3);
    hear(far, "");
    CHECK_EQ_I64(1, write(far, "!", 1));
    turns(plane, 3);
    hear(far, "INFO {}\r\n");
    close(far);
    plane_close(plane);
}

int main(void) {
    RUN("a record that is received at once is acted upon to its end, across a verdict, without another byte coming",
        a_record_is_acted_upon_to_its_end);
    RUN("a handshake goes on, and what waits behind it goes out, while the connection is not read",
        a_handshake_goes_on_while_nothing_is_read);
    return TEST_RESULT();
}
