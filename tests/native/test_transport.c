/* test_transport.c: a connection over transports that are no plain socket: one in memory, byte by byte; one that reads
 * whole records and so holds more than was asked for, as TLS does. */
#include <sys/socket.h>
#include <unistd.h>

#include "memory_transport.h"

static loop_t loop;
static conn_scratch_t scratch;

static void start(conn_t *conn, int fd) {
    CHECK_EQ_I64(STATUS_OK, loop_open(&loop));
    CHECK_EQ_I64(STATUS_OK, conn_scratch_open(&scratch));
    conn_init(conn, fd, 1 << 20, 1 << 20, &(conn_shares_t){0}, conn);
}

static void stop(conn_t *conn) {
    conn_close(conn, &loop);
    CHECK_EQ_U64(0, loop.buffered_count);
    conn_scratch_close(&scratch);
    loop_close(&loop);
}

static memory_transport_t *start_memory(conn_t *conn, size_t receive_max, size_t send_max) {
    start(conn, -1);
    memory_transport_t *memory = memory_transport(receive_max, send_max);
    CHECK_EQ_I64(STATUS_OK, conn_switch(conn, &transport_memory, memory));
    CHECK_EQ_I64(STATUS_OK, conn_want(conn, &loop, true));
    return memory;
}

static void put(memory_transport_t *memory, const char *text) {
    CHECK_EQ_I64(STATUS_OK, buffer_append(&memory->input, text, (uint32_t)strlen(text)));
}

/* Reads once and keeps all of it. */
static status_t read_on(conn_t *conn) {
    bytes_t input;
    status_t status = conn_read(conn, &loop, &scratch, 0, &input);
    if (status == STATUS_OK) {
        CHECK_EQ_I64(STATUS_OK, conn_keep(conn, input, 0));
    }
    return status;
}

static void bytes_come_and_go_one_by_one(void) {
    conn_t conn;
    memory_transport_t *memory = start_memory(&conn, 1, 1);
    put(memory, "abc");
    for (uint32_t i = 1; i <= 3; i++) {
        CHECK_EQ_I64(STATUS_OK, read_on(&conn));
        CHECK_BYTES("abc", i, conn_rest(&conn).at, conn_rest(&conn).size);
        CHECK_EQ_U64(i, conn.bytes_in);
    }
    CHECK_EQ_I64(STATUS_AGAIN, read_on(&conn));
    CHECK_EQ_I64(STATUS_OK, outq_ordered(&conn.out, BYTES_LITERAL("PING\r\n")));
    for (uint32_t i = 1; i < 6; i++) {
        CHECK_EQ_I64(STATUS_AGAIN, conn_flush(&conn, &loop, UINT64_MAX, 1));
        CHECK_EQ_U64(i, memory->output.size);
    }
    CHECK_EQ_I64(STATUS_OK, conn_flush(&conn, &loop, UINT64_MAX, 1));
    CHECK_TEXT("PING\r\n", memory->output.at, memory->output.size);
    stop(&conn);
}

static void what_a_transport_holds_is_reported(void) {
    conn_t conn;
    memory_transport_t *memory = start_memory(&conn, 1, 1);
    loop_ready_t ready[4];
    CHECK_EQ_U64(0, loop_wait(&loop, 0, ready, 4));
    put(memory, "abc");
    CHECK_EQ_I64(STATUS_OK, conn_want(&conn, &loop, true));
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQ_U64(1, loop_wait(&loop, -1, ready, 4)); /* it would never wake up otherwise */
        CHECK(ready[0].tag == &conn);
        CHECK_EQ_U64(LOOP_READ, ready[0].events);
        CHECK_EQ_I64(STATUS_OK, read_on(&conn));
    }
    CHECK_EQ_U64(0, loop_wait(&loop, 0, ready, 4));
    put(memory, "d");
    CHECK_EQ_I64(STATUS_OK, conn_want(&conn, &loop, false));
    CHECK_EQ_U64(0, loop_wait(&loop, 0, ready, 4));
    CHECK_EQ_I64(STATUS_OK, conn_want(&conn, &loop, true));
    CHECK_EQ_U64(1, loop_wait(&loop, -1, ready, 4));
    stop(&conn);
}

#define MANY 7u

static void many_that_hold_input_have_their_turns(void) {
    static conn_t conns[MANY];
    uint32_t seen[MANY] = {0};
    CHECK_EQ_I64(STATUS_OK, loop_open(&loop));
    for (uint32_t i = 0; i < MANY; i++) {
        conn_init(&conns[i], -1, 1 << 20, 1 << 20, &(conn_shares_t){0}, &conns[i]);
        memory_transport_t *memory = memory_transport(1, 1);
        put(memory, "x");
        CHECK_EQ_I64(STATUS_OK, conn_switch(&conns[i], &transport_memory, memory));
        CHECK_EQ_I64(STATUS_OK, conn_want(&conns[i], &loop, true));
    }
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK_EQ_I64(1, write(pair[1], "y", 1));
    CHECK_EQ_I64(STATUS_OK, loop_add(&loop, pair[0], LOOP_READ, &pair));
    for (uint32_t turn = 0; turn < 2 * MANY; turn++) {
        loop_ready_t ready[2];
        CHECK_EQ_U64(2, loop_wait(&loop, 0, ready, 2));
        CHECK(ready[1].tag == &pair); /* a descriptor is not kept waiting by them */
        seen[(conn_t *)ready[0].tag - conns]++;
    }
    for (uint32_t i = 0; i < MANY; i++) {
        CHECK_EQ_U64(2, seen[i]);
        conn_close(&conns[i], &loop);
        CHECK_EQ_U64(MANY - 1 - i, loop.buffered_count);
    }
    close(pair[0]);
    close(pair[1]);
    loop_close(&loop);
}

/* ---- what a transport wants -------------------------------------------------------------------------------------- */

static void what_a_transport_wants_is_watched(void) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    conn_t conn;
    start(&conn, pair[0]);
    memory_transport_t *memory = memory_transport(1, 100);
    memory->wants = LOOP_WRITE;
    CHECK_EQ_I64(STATUS_OK, conn_switch(&conn, &transport_memory, memory));
    CHECK_EQ_I64(STATUS_OK, conn_want(&conn, &loop, false));
    loop_ready_t ready[4];
    CHECK_EQ_U64(1, loop_wait(&loop, 0, ready, 4));
    CHECK_EQ_U64(LOOP_WRITE, ready[0].events);
    CHECK_EQ_U64(LOOP_READ | LOOP_WRITE, conn_ready(&conn, ready[0].events));
    CHECK_EQ_I64(STATUS_AGAIN, conn_flush(&conn, &loop, UINT64_MAX, 1)); /* it is called although nothing is queued */
    CHECK_EQ_U64(1, memory->calls);
    memory->wants = LOOP_READ;
    CHECK_EQ_I64(STATUS_OK, conn_flush(&conn, &loop, UINT64_MAX, 1));
    CHECK_EQ_U64(0, loop_wait(&loop, 0, ready, 4));
    CHECK_EQ_I64(1, write(pair[1], "x", 1));
    CHECK_EQ_U64(1, loop_wait(&loop, 0, ready, 4)); /* though the core does not read now */
    CHECK_EQ_U64(LOOP_READ | LOOP_WRITE, conn_ready(&conn, ready[0].events));
    memory->wants = 0;
    CHECK_EQ_I64(STATUS_OK, conn_flush(&conn, &loop, UINT64_MAX, 1));
    CHECK_EQ_U64(3, memory->calls);
    CHECK_EQ_I64(STATUS_OK, conn_flush(&conn, &loop, UINT64_MAX, 1));
    CHECK_EQ_U64(3, memory->calls);
    CHECK_EQ_I64(STATUS_OK, conn_unasked(&conn, &loop));
    CHECK_EQ_U64(0, loop_wait(&loop, 0, ready, 4));
    CHECK_EQ_U64(LOOP_READ, conn_ready(&conn, LOOP_READ));
    stop(&conn);
    close(pair[1]);
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

#define RECORD 16u

/* Records of 16 bytes, changed on their way: nothing of one can be had before it is whole, then all of it is here. */
typedef struct records {
    uint8_t raw[RECORD];
    uint32_t raw_size;
    uint8_t clear[RECORD];
    uint32_t clear_first;
    uint32_t clear_size;
} records_t;

static status_t records_receive(void *state, int fd, uint8_t *to, size_t room, size_t *got) {
    records_t *records = state;
    if (records->clear_first == records->clear_size) {
        size_t size = 0;
        status_t status =
            transport_socket.receive(NULL, fd, records->raw + records->raw_size, RECORD - records->raw_size, &size);
        records->raw_size += (uint32_t)size;
        if (status != STATUS_OK || records->raw_size < RECORD) {
            return status == STATUS_OK ? STATUS_AGAIN : status;
        }
        for (uint32_t i = 0; i < RECORD; i++) {
            records->clear[i] = records->raw[i] ^ 0x55;
        }
        records->raw_size = records->clear_first = 0;
        records->clear_size = RECORD;
    }
    *got = records->clear_size - records->clear_first < room ? records->clear_size - records->clear_first : room;
    *got = *got < 5 ? *got : 5;
    memcpy(to, records->clear + records->clear_first, *got);
    records->clear_first += (uint32_t)*got;
    return STATUS_OK;
}

static status_t records_send(void *state, int fd, const struct iovec *iov, int count, size_t *taken) {
    (void)state;
    return transport_socket.send(NULL, fd, iov, count, taken);
}

static size_t records_pending(const void *state) {
    const records_t *records = state;
    return records->clear_size - records->clear_first;
}

static uint32_t records_wanted(const void *state) {
    (void)state;
    return 0;
}

static void records_close(void *state, int fd) {
    (void)state;
    (void)fd;
}

static const transport_t transport_records = {records_receive, records_send, records_pending, records_wanted,
                                              records_close};

static void a_record_is_read_to_its_end(void) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    conn_t conn;
    start(&conn, pair[0]);
    records_t records = {0};
    CHECK_EQ_I64(STATUS_OK, conn_switch(&conn, &transport_records, &records));
    CHECK_EQ_I64(STATUS_OK, conn_want(&conn, &loop, true));
    const char text[] = "sixteen bytes 01sixteen bytes 02";
    uint8_t wire[2 * RECORD];
    for (uint32_t i = 0; i < sizeof wire; i++) {
        wire[i] = (uint8_t)text[i] ^ 0x55;
    }
    CHECK_EQ_I64(7, write(pair[1], wire, 7));
    CHECK_EQ_I64((int64_t)sizeof wire - 7, write(pair[1], wire + 7, sizeof wire - 7));
    loop_ready_t ready[4];
    uint32_t turns = 0;
    for (; turns < 100 && loop_wait(&loop, 0, ready, 4) != 0; turns++) {
        status_t status = read_on(&conn);
        CHECK(status == STATUS_OK || status == STATUS_AGAIN);
    }
    CHECK(turns < 100);
    CHECK_TEXT(text, conn_rest(&conn).at, conn_rest(&conn).size);
    stop(&conn);
    close(pair[1]);
}

/* ---- the switch -------------------------------------------------------------------------------------------------- */

static void a_switch_waits_for_output_and_refuses_what_came_before(void) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    conn_t conn;
    start(&conn, pair[0]);
    bool closed = false;
    memory_transport_t *memory = memory_transport(100, 100);
    memory->closed = &closed;
    CHECK_EQ_I64(STATUS_OK, outq_ordered(&conn.out, BYTES_LITERAL("INFO {}\r\n")));
    CHECK_EQ_I64(STATUS_AGAIN, conn_switch(&conn, &transport_memory, memory));
    CHECK_EQ_I64(STATUS_OK, conn_flush(&conn, &loop, UINT64_MAX, 1));
    CHECK_EQ_I64(6, write(pair[1], "PING\r\n", 6));
    CHECK_EQ_I64(STATUS_OK, read_on(&conn));
    CHECK_EQ_I64(STATUS_INVALID, conn_switch(&conn, &transport_memory, memory));
    CHECK_EQ_I64(STATUS_OK, conn_keep(&conn, conn_rest(&conn), 6));
    CHECK_EQ_I64(STATUS_OK, conn_switch(&conn, &transport_memory, memory));
    char wire[32];
    CHECK_EQ_I64(9, read(pair[1], wire, sizeof wire));
    CHECK_TEXT("INFO {}\r\n", wire, 9);
    CHECK_EQ_I64(STATUS_OK, outq_ordered(&conn.out, BYTES_LITERAL("PONG\r\n")));
    CHECK_EQ_I64(STATUS_OK, conn_flush(&conn, &loop, UINT64_MAX, 1));
    CHECK_EQ_I64(-1, read(pair[1], wire, sizeof wire));
    CHECK_TEXT("PONG\r\n", memory->output.at, memory->output.size);
    CHECK(!closed);
    stop(&conn);
    CHECK(closed);
    close(pair[1]);
}

int main(void) {
    RUN("a transport may hand over and take one byte at a time", bytes_come_and_go_one_by_one);
    RUN("input that a transport holds is reported until it is read, without any descriptor being ready",
        what_a_transport_holds_is_reported);
    RUN("of many connections with such input each has its turn, and descriptors have theirs",
        many_that_hold_input_have_their_turns);
    RUN("the loop watches for what a transport wants, whatever the core reads or writes",
        what_a_transport_wants_is_watched);
    RUN("a record that was received at once is read to its end", a_record_is_read_to_its_end);
    RUN("a transport changes once the output before it is written, and never in front of input that came before it",
        a_switch_waits_for_output_and_refuses_what_came_before);
    return TEST_RESULT();
}
