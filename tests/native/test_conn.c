/* test_conn.c: a connection over a socket pair: input in any pieces, messages larger than the scratch buffer, verdicts,
 * write backlog. */
#include "net/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

#define INPUT_MAX (3u << 20)

static loop_t loop;
static conn_scratch_t scratch;
static conn_t conn;
static int peer;

static void start(uint64_t max_pending) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    CHECK_EQ_I64(STATUS_OK, loop_open(&loop));
    CHECK_EQ_I64(STATUS_OK, conn_scratch_open(&scratch));
    conn_init(&conn, pair[0], INPUT_MAX, max_pending, &(conn_shares_t){0}, &conn);
    peer = pair[1];
}

static void stop(void) {
    conn_close(&conn, &loop);
    conn_scratch_close(&scratch);
    loop_close(&loop);
    close(peer);
}

static void send_peer(const void *at, size_t size) {
    CHECK_EQ_I64((int64_t)size, write(peer, at, size));
}

static void leftovers_come_first(void) {
    start(1 << 20);
    bytes_t input;
    CHECK_EQ_I64(STATUS_AGAIN, conn_read(&conn, &loop, &scratch, 0, &input));
    send_peer("abcdef", 6);
    CHECK_EQ_I64(STATUS_OK, conn_read(&conn, &loop, &scratch, 0, &input));
    CHECK_TEXT("abcdef", input.at, input.size);
    CHECK_EQ_I64(STATUS_OK, conn_keep(&conn, input, 2));
    CHECK_EQ_I64(STATUS_AGAIN, conn_read(&conn, &loop, &scratch, 0, &input));
    CHECK_TEXT("cdef", conn_rest(&conn).at, conn_rest(&conn).size);
    send_peer("gh", 2);
    CHECK_EQ_I64(STATUS_OK, conn_read(&conn, &loop, &scratch, 0, &input));
    CHECK_TEXT("cdefgh", input.at, input.size);
    CHECK_EQ_I64(STATUS_OK, conn_keep(&conn, input, 6));
    CHECK_EQ_U64(0, conn_rest(&conn).size);
    CHECK_EQ_U64(8, conn.bytes_in);
    stop();
}

static void rest_is_there_after_a_verdict(void) {
    start(1 << 20);
    bytes_t input;
    send_peer("CONNECT PING", 12);
    CHECK_EQ_I64(STATUS_OK, conn_read(&conn, &loop, &scratch, 0, &input));
    CHECK_EQ_I64(STATUS_OK, conn_keep(&conn, input, 8));
    input = conn_rest(&conn);
    CHECK_TEXT("PING", input.at, input.size);
    CHECK_EQ_I64(STATUS_OK, conn_keep(&conn, input, 1));
    CHECK_TEXT("ING", conn_rest(&conn).at, conn_rest(&conn).size);
    stop();
}

/* Moved to the front each time, a long input that is acted upon in small parts would cost the square of its length. */
static void parts_stay_where_they_are(void) {
    static uint8_t block[5000];
    start(1 << 20);
    bytes_t input;
    memset(block, 'a', sizeof block);
    send_peer(block, sizeof block);
    CHECK_EQ_I64(STATUS_OK, conn_read(&conn, &loop, &scratch, 0, &input));
    CHECK_EQ_I64(STATUS_OK, conn_keep(&conn, input, 100));
    const uint8_t *first = conn_rest(&conn).at;
    for (uint32_t i = 0; i < 48; i++) {
        input = conn_rest(&conn);
        CHECK(input.at == first + i * 100);
        CHECK_EQ_I64(STATUS_OK, conn_keep(&conn, input, 100));
    }
    send_peer("b", 1);
    CHECK_EQ_I64(STATUS_OK, conn_read(&conn, &loop, &scratch, 0, &input));
    CHECK_EQ_U64(101, input.size);
    CHECK_TEXT("ab", input.at + 99, 2);
    CHECK_EQ_I64(STATUS_OK, conn_keep(&conn, input, 101));
    CHECK_EQ_U64(0, conn_rest(&conn).size);
    stop();
}

static uint8_t pattern(uint64_t i) {
    return (uint8_t)(i * 31 + i / 253);
}

/* The "parser" here takes blocks of `op` bytes; need is what the real one would say. */
static void any_size_arrives_whole(void) {
    static const uint32_t ops[] = {1, 100, 70000, CONN_SCRATCH_SIZE, CONN_SCRATCH_SIZE + 1, 1u << 20};
    for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++) {
        start(1 << 20);
        uint64_t total = ops[o] < 1000 ? 200000 : (uint64_t)ops[o] * 4, written = 0, seen = 0;
        uint8_t out[40000];
        while (seen < total) {
            if (written < total) {
                uint64_t size = total - written < sizeof out ? total - written : sizeof out;
                for (uint64_t i = 0; i < size; i++) {
                    out[i] = pattern(written + i);
                }
                ssize_t put = write(peer, out, (size_t)size);
                CHECK(put > 0 || errno == EAGAIN);
                written += put > 0 ? (uint64_t)put : 0;
            }
            bytes_t input;
            status_t status = conn_read(&conn, &loop, &scratch, ops[o], &input);
            if (status == STATUS_AGAIN) {
                continue;
            }
            CHECK_EQ_I64(STATUS_OK, status);
            uint32_t used = 0;
            while (input.size - used >= ops[o]) {
                for (uint32_t i = 0; i < ops[o]; i++) {
                    if (input.at[used + i] != pattern(seen + i)) {
                        FAIL("op of %u bytes: byte %llu is wrong", ops[o], (unsigned long long)(seen + i));
                    }
                }
                used += ops[o];
                seen += ops[o];
            }
            CHECK_EQ_I64(STATUS_OK, conn_keep(&conn, input, used));
        }
        conn_idle(&conn);
        CHECK(conn.rest.capacity <= 4096);
        stop();
    }
}

static void an_announced_op_costs_what_arrived(void) {
    static uint8_t block[200000];
    start(1 << 20);
    bytes_t input;
    uint64_t arrived = 0;
    for (int i = 0; i < 10; i++) {
        size_t size = i == 0 ? 300 : sizeof block / 10;
        send_peer(block, size);
        arrived += size;
        CHECK_EQ_I64(STATUS_OK, conn_read(&conn, &loop, &scratch, arrived == 300 ? 0 : 1u << 20, &input));
        CHECK_EQ_I64(STATUS_OK, conn_keep(&conn, input, 0));
        CHECK(conn.rest.capacity <= 4 * arrived + (128u << 10));
    }
    CHECK_EQ_U64(arrived, conn_rest(&conn).size);
    stop();
}

static void a_lowered_read_max_holds(void) {
    static uint8_t block[8000];
    start(1 << 20);
    conn.read_max = 1000;
    bytes_t input;
    send_peer(block, sizeof block);
    CHECK_EQ_I64(STATUS_OK, conn_read(&conn, &loop, &scratch, 0, &input));
    CHECK_EQ_U64(1000, input.size);
    CHECK_EQ_I64(STATUS_OK, conn_keep(&conn, input, 400));
    CHECK_EQ_I64(STATUS_OK, conn_read(&conn, &loop, &scratch, 0, &input));
    CHECK_EQ_U64(1000, input.size);
    CHECK_EQ_I64(STATUS_OK, conn_keep(&conn, input, 0));
    CHECK_EQ_I64(STATUS_FULL, conn_read(&conn, &loop, &scratch, 0, &input));
    conn.read_max = CONN_SCRATCH_SIZE;
    CHECK_EQ_I64(STATUS_OK, conn_read(&conn, &loop, &scratch, 0, &input));
    CHECK_EQ_U64(sizeof block - 400, input.size);
    CHECK_EQ_I64(STATUS_OK, conn_keep(&conn, input, input.size));
    stop();
}

static void an_op_without_end_is_refused(void) {
    start(1 << 20);
    uint8_t out[65536] = {0};
    status_t status = STATUS_OK;
    for (int i = 0; i < 1000 && status != STATUS_FULL; i++) {
        ssize_t put = write(peer, out, sizeof out);
        CHECK(put > 0 || errno == EAGAIN);
        bytes_t input;
        status = conn_read(&conn, &loop, &scratch, 0, &input);
        if (status == STATUS_OK) {
            CHECK(input.size <= INPUT_MAX + CONN_SCRATCH_SIZE);
            CHECK_EQ_I64(STATUS_OK, conn_keep(&conn, input, 0));
        }
    }
    CHECK_EQ_I64(STATUS_FULL, status);
    stop();
}

static void a_gone_peer_is_closed(void) {
    start(1 << 20);
    bytes_t input;
    send_peer("x", 1);
    shutdown(peer, SHUT_WR);
    CHECK_EQ_I64(STATUS_OK, conn_read(&conn, &loop, &scratch, 0, &input));
    CHECK_EQ_I64(STATUS_OK, conn_keep(&conn, input, 1));
    CHECK_EQ_I64(STATUS_CLOSED, conn_read(&conn, &loop, &scratch, 0, &input));
    close(peer);
    peer = dup(0);
    CHECK_EQ_I64(STATUS_OK, outq_ordered(&conn.out, BYTES_LITERAL("PING\r\n")));
    CHECK_EQ_I64(STATUS_CLOSED, conn_flush(&conn, &loop, UINT64_MAX, 1));
    stop();
}

/* So closing it needs two system calls less. */
static void whoever_has_ended_sends_nothing_more(void) {
    start(1 << 20);
    bytes_t input;
    send_peer("x", 1);
    shutdown(peer, SHUT_WR);
    CHECK_EQ_I64(STATUS_OK, conn_read(&conn, &loop, &scratch, 0, &input));
    CHECK_EQ_I64(STATUS_OK, conn_keep(&conn, input, 1));
    CHECK(!conn.drained);
    CHECK_EQ_I64(STATUS_CLOSED, conn_read(&conn, &loop, &scratch, 0, &input));
    CHECK(conn.drained);
    CHECK_EQ_I64(STATUS_OK, outq_ordered(&conn.out, BYTES_LITERAL("-ERR\r\n")));
    CHECK_EQ_I64(STATUS_OK, conn_flush(&conn, &loop, UINT64_MAX, 1));
    conn_close(&conn, &loop);
    char told[16];
    CHECK_EQ_I64(6, read(peer, told, sizeof told));
    CHECK_EQ_I64(0, read(peer, told, sizeof told)); /* its end, and no reset */
    stop();
}

static void backlog_waits_for_the_socket(void) {
    start(64 << 20);
    CHECK_EQ_I64(STATUS_OK, conn_want(&conn, &loop, true));
    static uint8_t frame[1 << 16];
    uint64_t queued = 0;
    do {
        for (size_t i = 0; i < sizeof frame; i++) {
            frame[i] = pattern(queued + i);
        }
        CHECK_EQ_I64(STATUS_OK, buffer_append(&conn.out.data, frame, sizeof frame));
        CHECK_EQ_I64(STATUS_OK, outq_end(&conn.out));
        queued += sizeof frame;
    } while (conn_flush(&conn, &loop, UINT64_MAX, 1) == STATUS_OK);
    loop_ready_t ready[4];
    CHECK_EQ_U64(0, loop_wait(&loop, 0, ready, 4));
    uint64_t seen = 0;
    while (seen < queued) {
        ssize_t got = read(peer, frame, 10000);
        CHECK(got > 0);
        for (ssize_t i = 0; i < got; i++) {
            CHECK(frame[i] == pattern(seen + (uint64_t)i));
        }
        seen += (uint64_t)got;
        uint32_t count = loop_wait(&loop, 0, ready, 4);
        if (count > 0) {
            CHECK(ready[0].tag == &conn);
            CHECK_EQ_U64(LOOP_WRITE, ready[0].events);
            status_t status = conn_flush(&conn, &loop, UINT64_MAX, 2);
            CHECK(status == STATUS_OK || status == STATUS_AGAIN);
        }
    }
    CHECK_EQ_U64(0, outq_pending(&conn.out));
    CHECK_EQ_U64(queued, conn.bytes_out);
    CHECK_EQ_U64(0, loop_wait(&loop, 0, ready, 4)); /* no longer asked about writing */
    stop();
}

static void a_paused_connection_is_not_reported(void) {
    start(1 << 20);
    loop_ready_t ready[4];
    CHECK_EQ_I64(STATUS_OK, conn_want(&conn, &loop, true));
    send_peer("x", 1);
    CHECK_EQ_U64(1, loop_wait(&loop, 0, ready, 4));
    CHECK_EQ_U64(LOOP_READ, ready[0].events);
    CHECK_EQ_I64(STATUS_OK, conn_want(&conn, &loop, false));
    CHECK_EQ_U64(1, loop_wait(&loop, 0, ready, 4)); /* once more, and no more when that was said */
    CHECK_EQ_I64(STATUS_OK, conn_unasked(&conn, &loop));
    CHECK_EQ_U64(0, loop_wait(&loop, 0, ready, 4));
    CHECK_EQ_I64(STATUS_OK, conn_want(&conn, &loop, true));
    CHECK_EQ_U64(1, loop_wait(&loop, 0, ready, 4));
    stop();
}

static void a_pause_without_input_changes_nothing_in_the_loop(void) {
    start(1 << 20);
    loop_ready_t ready[4];
    CHECK_EQ_I64(STATUS_OK, conn_want(&conn, &loop, true));
    int watched = loop.epoll_fd;
    loop.epoll_fd = -1; /* a call of the system would fail */
    CHECK_EQ_I64(STATUS_OK, conn_want(&conn, &loop, false));
    CHECK_EQ_I64(STATUS_OK, conn_want(&conn, &loop, true));
    CHECK_EQ_I64(STATUS_OK, conn_want(&conn, &loop, false));
    CHECK(conn_unasked(&conn, &loop) != STATUS_OK);
    loop.epoll_fd = watched;
    CHECK_EQ_I64(STATUS_OK, conn_unasked(&conn, &loop));
    send_peer("x", 1);
    CHECK_EQ_U64(0, loop_wait(&loop, 0, ready, 4));
    stop();
}

int main(void) {
    RUN("what was not used comes first in the next input", leftovers_come_first);
    RUN("what came behind a line that waits for its verdict is there afterwards", rest_is_there_after_a_verdict);
    RUN("input that waits is acted upon in parts without being moved", parts_stay_where_they_are);
    RUN("messages of any size, larger than the scratch buffer too, arrive whole", any_size_arrives_whole);
    RUN("what a peer announces and does not send takes no memory", an_announced_op_costs_what_arrived);
    RUN("a peer that may not send much yet is read no further, and refused when its line does not end",
        a_lowered_read_max_holds);
    RUN("a message that never ends is refused at the bound", an_op_without_end_is_refused);
    RUN("a peer that went away is noticed by reading and by writing, without a signal", a_gone_peer_is_closed);
    RUN("whoever has ended gets what was said last, and then the end", whoever_has_ended_sends_nothing_more);
    RUN("a backlog goes out as the socket takes it, and then writing is not asked about any more",
        backlog_waits_for_the_socket);
    RUN("a connection that waits for a verdict is not reported", a_paused_connection_is_not_reported);
    RUN("a connection that is not read for a moment costs no system call, unless something comes meanwhile",
        a_pause_without_input_changes_nothing_in_the_loop);
    return TEST_RESULT();
}
