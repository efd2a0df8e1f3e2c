/* test_plane_shares.c: what connections have waiting, out and in, stays within its share of memory, and which
 * connection is closed or waits when the share is full. */
#include "plane_rig.h"

#define SHARE (UINT64_C(2) << 20)

static plane_t *plane;

static void start(void) {
    plane = rig_open(NULL, "");
    plane->limits.max_pending = 64 << 20;
    plane->memory.output.limit = SHARE;
    plane->memory.input.limit = SHARE;
}

static peer_t *reader(const char *subject) {
    peer_t *peer = rig_client(plane);
    char line[64];
    snprintf(line, sizeof line, "SUB %s 1\r\n", subject);
    rig_feed(plane, peer, line);
    return peer;
}

static void publish_times(peer_t *from, const char *subject, uint32_t times) {
    static char line[40000];
    int head = snprintf(line, sizeof line, "PUB %s 32768\r\n", subject);
    memset(line + head, 'x', 32768);
    memcpy(line + head + 32768, "\r\n", 3);
    for (uint32_t i = 0; i < times; i++) {
        rig_feed(plane, from, line);
        CHECK(plane->memory.output.used <= SHARE);
        plane->now.mono_ns += NS_PER_SECOND / 100;
    }
}

static void the_one_with_most_waiting_goes(void) {
    start();
    peer_t *publisher = rig_client(plane);
    uint64_t most = reader("a")->id, less = reader("b")->id, none = reader("c")->id;
    publish_times(publisher, "b", 8);
    publish_times(publisher, "a", 40);
    CHECK(peer_find(plane, most) != NULL);
    for (int i = 0; i < 30 && plane->stats.slow_consumers == 0; i++) {
        publish_times(publisher, "b", 1);
    }
    CHECK(peer_find(plane, most) == NULL);
    CHECK(peer_find(plane, less) != NULL);
    CHECK(peer_find(plane, none) != NULL);
    CHECK_EQ_U64(1, plane->stats.slow_consumers);
    rig_close(plane);
}

static void one_alone_is_bounded(void) {
    start();
    peer_t *publisher = rig_client(plane);
    uint64_t alone = reader("a")->id;
    publish_times(publisher, "a", 65);
    CHECK(peer_find(plane, alone) == NULL);
    CHECK_EQ_U64(1, plane->stats.slow_consumers);
    rig_close(plane);
}

static void a_link_goes_after_clients(void) {
    start();
    peer_t *publisher = rig_client(plane);
    peer_t *leaf = rig_leaf(plane, 0, "far", NULL);
    uint64_t link = leaf->id, client = reader("b")->id;
    rig_feed(plane, leaf, "LS+ a\r\n");
    publish_times(publisher, "a", 40);
    publish_times(publisher, "b", 24);
    CHECK(peer_find(plane, link) != NULL);
    CHECK(peer_find(plane, client) == NULL);
    publish_times(publisher, "a", 30);
    CHECK(peer_find(plane, link) == NULL);
    rig_close(plane);
}

/* Closing one of two gives nothing back while the other waits for the same bodies. */
static void who_waits_for_the_same_goes_together(void) {
    start();
    peer_t *publisher = rig_client(plane);
    uint64_t first = reader("a")->id, second = reader("a")->id, other = reader("b")->id;
    publish_times(publisher, "b", 4);
    publish_times(publisher, "a", 50);
    CHECK_EQ_U64(0, plane->stats.slow_consumers);
    CHECK(outq_pending(&peer_find(plane, first)->conn.out) > 50 * 32768);
    CHECK(outq_pending(&peer_find(plane, second)->conn.out) > 50 * 32768);
    publish_times(publisher, "a", 15);
    CHECK(peer_find(plane, first) == NULL);
    CHECK(peer_find(plane, second) == NULL);
    CHECK(peer_find(plane, other) != NULL);
    CHECK_EQ_U64(2, plane->stats.slow_consumers);
    rig_close(plane);
}

static void memory_comes_back(void) {
    start();
    peer_t *publisher = rig_client(plane);
    reader("a");
    peer_t *other = reader("b");
    uint64_t id = other->id;
    publish_times(publisher, "a", 40);
    publish_times(publisher, "b", 8);
    outq_written(&other->conn.out, outq_pending(&other->conn.out), 1);
    publish_times(publisher, "a", 22);
    CHECK_EQ_U64(0, plane->stats.slow_consumers);
    CHECK(peer_find(plane, id) != NULL);
    core_close(plane);
    CHECK_EQ_U64(0, plane->memory.output.used);
    CHECK_EQ_U64(0, plane->memory.input.used);
    free(plane);
}

/* The beginning of a message that fills the share; room is asked for by another connection. */
static peer_t *begin_large(void) {
    peer_t *peer = rig_client(plane);
    core_backlog(plane);
    rig_say(plane, peer, "PUB a 60000\r\n");
    static uint8_t part[50000];
    plane->memory.input.limit = 40000;
    CHECK_EQ_I64(STATUS_OK, buffer_append(&peer->conn.rest, part, sizeof part));
    peer->conn.bytes_in += sizeof part;
    peer->went_on_ns = peer->input_since_ns = plane->now.mono_ns;
    peer->went_on_bytes = peer->conn.bytes_in;
    return peer;
}

static void ask_for_room(peer_t *other, int64_t after_ns) {
    static uint8_t part[30000];
    plane->now.mono_ns += after_ns;
    other->input_since_ns = plane->now.mono_ns + 1;
    core_settle(plane);
    CHECK_EQ_I64(STATUS_FULL, buffer_append(&other->conn.rest, part, sizeof part));
}

static void silent_while_others_wait(void) {
    start();
    peer_t *large = begin_large(), *other = rig_client(plane);
    uint64_t id = large->id;
    ask_for_room(other, 0);
    ask_for_room(other, 4 * NS_PER_SECOND);
    CHECK(peer_find(plane, id) != NULL);
    plane->now.mono_ns += 2 * NS_PER_SECOND;
    CHECK_EQ_I64(STATUS_OK, buffer_append(&other->conn.rest, rig_out, 30000));
    CHECK(peer_find(plane, id) == NULL);
    rig_close(plane);
}

#define HALF 16384u

/* As much of a line or of a small message as HALF; false: it finds no room. */
static bool begin_small(peer_t *peer) {
    static uint8_t part[HALF];
    bool kept = buffer_append(&peer->conn.rest, part, sizeof part) == STATUS_OK;
    peer->went_on_ns = kept ? plane->now.mono_ns : peer->went_on_ns;
    return kept;
}

/* What is small may be begun without asking, until it comes to twice the share. Then nobody finds room until some were
 * silent for a while; a link of theirs stays longer than a client. */
static void small_and_silent(void) {
    start();
    plane->memory.input.limit = UINT64_C(10) * HALF;
    peer_t *link = rig_leaf(plane, 0, "", NULL), *clients[30];
    for (uint32_t i = 0; i < 30; i++) {
        clients[i] = rig_client(plane);
    }
    core_backlog(plane);
    uint64_t link_id = link->id, ids[30];
    CHECK(begin_small(link));
    uint32_t count = 0, there = 0;
    for (; count < 29 && begin_small(clients[count]); count++) {
        ids[count] = clients[count]->id;
        CHECK(plane->memory.input.used <= 2 * plane->memory.input.limit);
    }
    CHECK(count > 8 && count < 29);
    plane->now.mono_ns += NS_PER_SECOND / 8;
    CHECK(!begin_small(clients[29]));
    plane->now.mono_ns += NS_PER_SECOND / 8;
    CHECK(begin_small(clients[29]));
    for (uint32_t i = 0; i < count; i++) {
        there += peer_find(plane, ids[i]) != NULL;
    }
    CHECK(there > 0 && there < count);
    CHECK(peer_find(plane, link_id) != NULL);
    rig_close(plane);
}

/* Half of a message of twice that size, as a line of 10 kbit/s brings it: a packet in 1.1 s. */
#define PACKET 1400u
#define PACKET_NS (1100 * NS_PER_MS)
#define SLOW 20u
#define STALLED 60u

static status_t arrives(peer_t *peer, uint32_t size) {
    static uint8_t part[64 * 1024];
    peer->input_since_ns = peer->conn.rest.size == 0 ? plane->now.mono_ns : peer->input_since_ns;
    peer->conn.bytes_in += size;
    if (size >= PEER_DRIP || peer->conn.rest.size == 0) {
        peer->went_on_ns = plane->now.mono_ns;
        peer->went_on_bytes = peer->conn.bytes_in;
    }
    return buffer_append(&peer->conn.rest, part, size);
}

static uint32_t still_there(const uint64_t *ids, uint32_t count) {
    uint32_t there = 0;
    for (uint32_t i = 0; i < count; i++) {
        there += peer_find(plane, ids[i]) != NULL;
    }
    return there;
}

/* Senders behind slow lines, some of which have sent one packet and others eight, are silent for 3 s since one was
 * lost. Others send `size` at once and then nothing for `idle_ns`. Then more comes than there is room for. */
static void slow_beside_stalled(uint32_t packets, uint32_t size, int64_t idle_ns) {
    peer_t *slow[SLOW], *stalled[STALLED], *next = rig_client(plane);
    plane->memory.input.limit = 4 * SHARE;
    uint64_t slow_ids[SLOW], stalled_ids[STALLED];
    for (uint32_t i = 0; i < STALLED; i++) {
        stalled[i] = rig_client(plane);
        stalled_ids[i] = stalled[i]->id;
    }
    for (uint32_t i = 0; i < SLOW; i++) {
        slow[i] = rig_client(plane);
        slow_ids[i] = slow[i]->id;
    }
    core_backlog(plane);
    for (uint32_t packet = 0; packet < packets; packet++) {
        for (uint32_t i = 0; i < SLOW; i++) {
            if (packet == packets - 1 || i % 2 == 0) {
                CHECK_EQ_I64(STATUS_OK, arrives(slow[i], PACKET));
            }
        }
        plane->now.mono_ns += PACKET_NS;
    }
    plane->now.mono_ns += 3 * NS_PER_SECOND - PACKET_NS - idle_ns;
    for (uint32_t i = 0; i < STALLED; i++) {
        CHECK_EQ_I64(STATUS_OK, arrives(stalled[i], size));
    }
    plane->memory.input.limit = size > 16 * 1024 ? plane->memory.input.used : plane->memory.input.used / 2;
    plane->now.mono_ns += idle_ns;
    if (size <= 16 * 1024) { /* those who have just filled it are not silent yet */
        CHECK_EQ_I64(STATUS_FULL, arrives(next, size));
        CHECK_EQ_U64(STALLED, still_there(stalled_ids, STALLED));
        plane->now.mono_ns += NS_PER_SECOND / 4;
    }
    CHECK_EQ_I64(STATUS_OK, arrives(next, size));
    CHECK_EQ_U64(SLOW, still_there(slow_ids, SLOW));
    CHECK(still_there(stalled_ids, STALLED) < STALLED);
    CHECK(plane->memory.input.used <= 2 * plane->memory.input.limit);
    rig_close(plane);
}

static void slow_lines_beside_stalled(void) {
    start();
    slow_beside_stalled(8, 15 * 1024, NS_PER_SECOND / 10);
}

static void slow_lines_beside_large_stalled(void) {
    start();
    slow_beside_stalled(20, 32 * 1024, 5 * NS_PER_SECOND + NS_PER_MS);
}

static void not_read_while_others_wait(void) {
    start();
    peer_t *large = begin_large(), *other = rig_client(plane);
    uint64_t id = large->id;
    ask_for_room(other, 0);
    peer_hold(plane, large, WAITS_SECURE);
    plane->now.mono_ns += 60 * NS_PER_SECOND;
    core_settle(plane);
    peer_release(plane, large, WAITS_SECURE);
    ask_for_room(other, 0);
    ask_for_room(other, 4 * NS_PER_SECOND);
    CHECK(peer_find(plane, id) != NULL);
    rig_close(plane);
}

static void slow_and_not_silent(void) {
    start();
    peer_t *large = begin_large(), *other = rig_client(plane);
    uint64_t id = large->id;
    ask_for_room(other, 0);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ_I64(STATUS_OK, arrives(large, 4096));
        ask_for_room(other, 4 * NS_PER_SECOND);
    }
    CHECK(peer_find(plane, id) != NULL);
    for (int i = 0; i < 6 && peer_find(plane, id) != NULL; i++) {
        CHECK_EQ_I64(STATUS_OK, arrives(large, 1));
        plane->now.mono_ns += 2 * NS_PER_SECOND;
        status_t status = buffer_append(&other->conn.rest, rig_out, 30000);
        CHECK(status == STATUS_FULL || status == STATUS_OK);
    }
    CHECK(peer_find(plane, id) == NULL);
    rig_close(plane);
}

#define LARGE_DRIPPED 100000u

/* Two of 900 KB that drip 40 bytes each 80 ms, and a slow line that has sent 60 KB, a packet each 1.1 s: after a few
 * seconds in which another one waits the two are closed. */
static void large_drips(void) {
    start();
    static uint8_t part[900000];
    peer_t *drips[2] = {rig_client(plane), rig_client(plane)}, *slow = rig_client(plane), *other = rig_client(plane);
    uint64_t ids[2] = {drips[0]->id, drips[1]->id}, slow_id = slow->id;
    core_backlog(plane);
    other->conn.rest.max = slow->conn.rest.max = sizeof part;
    plane->memory.input.limit = 2 * SHARE;
    for (int i = 0; i < 43; i++) {
        CHECK_EQ_I64(STATUS_OK, arrives(slow, PACKET));
        plane->now.mono_ns += PACKET_NS;
    }
    for (int i = 0; i < 2; i++) {
        drips[i]->conn.rest.max = sizeof part + LARGE_DRIPPED;
        CHECK_EQ_I64(STATUS_OK, arrives(drips[i], 1));
        CHECK_EQ_I64(STATUS_OK, buffer_append(&drips[i]->conn.rest, part, sizeof part));
    }
    plane->memory.input.limit = 2 * sizeof part + 43 * PACKET;
    uint32_t turn = 0;
    status_t status = STATUS_FULL;
    for (; turn < 75 && status == STATUS_FULL; turn++) {
        plane->now.mono_ns += 80 * NS_PER_MS;
        other->input_since_ns = plane->now.mono_ns;
        for (int i = 0; i < 2 && turn < 30; i++) {
            CHECK_EQ_I64(STATUS_OK, arrives(drips[i], 40));
        }
        if (turn % 14 == 13) {
            CHECK_EQ_I64(STATUS_OK, arrives(slow, PACKET));
        }
        status = buffer_append(&other->conn.rest, part, 100000);
    }
    CHECK_EQ_I64(STATUS_OK, status);
    CHECK_EQ_U64(1, still_there(&slow_id, 1));
    CHECK_EQ_U64(0, still_there(ids, 2));
    rig_close(plane);
}

#define LINE 4000u
#define LINES 2000u

/* Lines that never end and drip have all the room; what drips in is not read for want of it. Another one that logs in
 * finds room at once, one with more after a moment. */
static void lines_that_drip(void) {
    start();
    static uint64_t ids[LINES];
    peer_t *small = rig_client(plane), *other = rig_client(plane);
    for (uint32_t i = 0; i < LINES; i++) {
        ids[i] = rig_client(plane)->id;
    }
    core_backlog(plane);
    for (uint32_t i = 0; i < LINES; i++) {
        peer_t *peer = peer_find(plane, ids[i]);
        if (arrives(peer, LINE) != STATUS_OK) {
            peer_wait(plane, peer);
        }
    }
    CHECK_EQ_I64(STATUS_FULL, arrives(other, LINE));
    CHECK_EQ_I64(STATUS_OK, arrives(small, 200));
    status_t status = STATUS_FULL;
    for (uint32_t turn = 0; turn < 40 && status == STATUS_FULL; turn++) {
        plane->now.mono_ns += STALL_NS;
        peer_unstall(plane);
        for (uint32_t i = 0; i < LINES; i++) {
            peer_wait(plane, peer_find(plane, ids[i]));
        }
        status = arrives(other, LINE);
    }
    CHECK_EQ_I64(STATUS_OK, status);
    CHECK(still_there(ids, LINES) < LINES);
    rig_close(plane);
}

static void shares_come_to_the_limit(void) {
    for (uint64_t limit = UINT64_C(32) << 20; limit < UINT64_C(1) << 40; limit += limit / 7) {
        uint64_t sum = 0;
        for (uint32_t which = 0; which < MEMORY_SHARES; which++) {
            CHECK(memory_share(limit, which) > 0);
            sum += memory_share(limit, which);
        }
        CHECK(sum <= limit);
    }
    CHECK_EQ_U64(UINT64_C(64) << 20, memory_share(UINT64_C(2) << 30, MEMORY_RING));
}

int main(void) {
    RUN("the connection with the most waiting is closed when the share of output is full, the others stay",
        the_one_with_most_waiting_goes);
    RUN("one connection alone is closed when it fills the share", one_alone_is_bounded);
    RUN("a leaf link is closed only when no client has much waiting", a_link_goes_after_clients);
    RUN("two that wait for the same large messages have them in memory once, and are closed together",
        who_waits_for_the_same_goes_together);
    RUN("memory that a connection has and does not use is taken back before anybody is closed", memory_comes_back);
    RUN("who is silent in the middle of a large message while others wait for room is closed",
        silent_while_others_wait);
    RUN("what is small and never finished comes to twice the share, then who is silent is closed", small_and_silent);
    RUN("who sends slowly over a line that loses packets stays beside who sends at once and stalls",
        slow_lines_beside_stalled);
    RUN("likewise where what is begun is large", slow_lines_beside_large_stalled);
    RUN("the time in which a connection is not read does not count against it", not_read_while_others_wait);
    RUN("a slow sender of a large message is not closed, one that sends a byte now and then is", slow_and_not_silent);
    RUN("large messages that drip are closed where others wait, and a slow line's is not", large_drips);
    RUN("lines that never end and drip leave room for who logs in", lines_that_drip);
    RUN("the shares of any limit come to that limit at most", shares_come_to_the_limit);
    return TEST_RESULT();
}
