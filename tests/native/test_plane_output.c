/* test_plane_output.c: large messages to many: in memory once, written in turns of a bounded length, while others are
 * served. The driver (driver.c) runs turn by turn, without its thread; transports in memory take what they are let. */
#include <sys/socket.h>

#include "plane/output.h"
#include "driver/tick.h"
#include "mqtt_rig.h"

#define READERS 40u
#define PAYLOAD (1u << 20)
#define HEAD "MSG big 1 1048576\r\n"
#define FRAME (sizeof(HEAD) - 1 + PAYLOAD + 2)

static plane_t *plane;
static peer_t *readers[READERS];
static int far_ends[READERS + 10];
static uint32_t far_count;
static char line[PAYLOAD + 100];

static void open_plane(void) {
    plane_limits_t limits = {.max_pending = 64 << 20,
                             .write_deadline_ns = 10 * NS_PER_SECOND,
                             .ping_interval_ns = 120 * NS_PER_SECOND,
                             .ping_max = 2,
                             .max_control_line = 4096,
                             .max_payload = PAYLOAD};
    char reason[PLANE_REASON_SIZE];
    int32_t status;
    plane = plane_open(&limits, NULL, NULL, NULL, reason, &status);
    CHECK(plane != NULL);
    rig_account(plane, RIG_ACCOUNT, 0, "");
}

static void close_plane(void) {
    plane_close(plane);
    while (far_count > 0) close(far_ends[--far_count]);
}

static void turn(void) {
    plane->more = true; /* does not sleep */
    plane_turn(plane);
}

/* A connection with a descriptor, which is always ready, whose transport takes at most so many bytes a call. */
static peer_t *connection(size_t send_max, uint32_t kind) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    far_ends[far_count++] = pair[1];
    peer_t *peer = peer_new(plane, pair[0], kind, 1, rig_text("test:1"));
    CHECK(peer != NULL);
    CHECK_EQ_I64(STATUS_OK, conn_switch(&peer->conn, &transport_memory, memory_transport(1 << 20, send_max)));
    return peer;
}

static peer_t *client(size_t send_max, uint32_t flags, const char *subscription) {
    peer_t *peer = connection(send_max, CONN_CLIENT);
    rig_say(plane, peer, "CONNECT {}\r\n");
    rig_strings_t strings = {.size = 0};
    conn_verdict_t verdict = {.flags = flags};
    for (uint32_t i = 0; i < 5; i++) rig_pack(&strings, "");
    rig_run(plane,
            (plane_command_t){.op = COMMAND_ADMIT,
                              .account = RIG_ACCOUNT,
                              .target = peer->id,
                              .body = (const uint8_t *)&verdict,
                              .body_size = sizeof(verdict)},
            &strings);
    peer->next_ping_ns = INT64_MAX; /* the first one would come after 2 s, which a slow machine needs */
    rig_say(plane, peer, subscription);
    turn();
    return peer;
}

static const buffer_t *heard_by(const peer_t *peer) {
    return &((memory_transport_t *)peer->conn.transport_state)->output;
}

static void open_readers(size_t send_max) {
    open_plane();
    for (uint32_t i = 0; i < READERS; i++) readers[i] = client(send_max, RIG_FLAGS, "SUB big 1\r\n");
}

static void publish_big(peer_t *from) {
    int head = snprintf(line, sizeof line, "PUB big %u\r\n", PAYLOAD);
    for (uint32_t i = 0; i < PAYLOAD; i++) line[(uint32_t)head + i] = (char)('a' + i % 23);
    memcpy(line + head + PAYLOAD, "\r\n", 3);
    rig_say(plane, from, line);
}

static uint64_t heard_by_all(void) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < READERS; i++) sum += heard_by(readers[i])->size;
    return sum;
}

static void a_turn_is_bounded(void) {
    open_readers(SIZE_MAX);
    publish_big(client(SIZE_MAX, RIG_FLAGS, ""));
    CHECK(plane->memory.output.used > PAYLOAD);
    CHECK(plane->memory.output.used < PAYLOAD + READERS * 4096);
    uint64_t before = 0;
    uint32_t count = 0;
    for (; before < READERS * FRAME && count < 10000; count++) {
        turn();
        uint64_t after = heard_by_all();
        CHECK(after - before <= OUTPUT_TURN);
        before = after;
    }
    CHECK(count >= READERS * FRAME / OUTPUT_TURN);
    for (uint32_t i = 0; i < READERS; i++) {
        const buffer_t *heard = heard_by(readers[i]);
        CHECK_EQ_U64(FRAME, heard->size);
        CHECK(memcmp(heard->at, HEAD, sizeof(HEAD) - 1) == 0);
        CHECK(memcmp(heard->at + sizeof(HEAD) - 1, line + 17, PAYLOAD + 2) == 0);
    }
    CHECK(plane->memory.output.used < READERS * 8192);
    close_plane();
}

static void others_are_served_meanwhile(void) {
    open_readers(SIZE_MAX);
    peer_t *other = client(SIZE_MAX, RIG_FLAGS, "");
    publish_big(client(SIZE_MAX, RIG_FLAGS, ""));
    rig_say(plane, other, "PING\r\n");
    turn();
    CHECK(heard_by_all() < READERS * FRAME);
    CHECK_TEXT("PONG\r\n", heard_by(other)->at, heard_by(other)->size);
    close_plane();
}

static uint32_t place_of(const peer_t *peer) {
    return ((memory_transport_t *)peer->conn.transport_state)->place;
}

static void who_has_few_bytes_is_first(void) {
    open_plane();
    peer_t *much = client(SIZE_MAX, RIG_FLAGS, "SUB wide 1\r\n");
    peer_t *few = client(SIZE_MAX, RIG_FLAGS, "SUB wide.few 1\r\n");
    peer_t *publisher = client(SIZE_MAX, RIG_FLAGS, "");
    char wide[2 * OUTPUT_FEW];
    int head = sprintf(wide, "PUB wide %u\r\n", OUTPUT_FEW);
    memset(wide + head, 'w', OUTPUT_FEW);
    strcpy(wide + head + OUTPUT_FEW, "\r\n");
    for (uint32_t last = 0; last < 2; last++) {
        rig_say(plane, publisher, last == 0 ? wide : "PUB wide.few 0\r\n\r\n");
        rig_say(plane, publisher, last == 0 ? "PUB wide.few 0\r\n\r\n" : wide);
        turn();
        CHECK(place_of(few) < place_of(much));
    }
    close_plane();
}

/* The next message is acted on when everybody in the line has had a turn, so what waits for one is a few messages. */
static void a_publisher_waits_for_the_line(void) {
    open_readers(SIZE_MAX);
    peer_t *publisher = client(SIZE_MAX, RIG_FLAGS, "");
    publish_big(publisher);
    uint64_t sent = 1;
    for (uint32_t i = 0; i < 1000000 && sent < 10; i++) {
        turn();
        if (!peer_waits(publisher, WAITS_RECEIVER)) {
            publish_big(publisher);
            sent++;
        }
        for (uint32_t j = 0; j < READERS; j++) CHECK(outq_pending(&readers[j]->conn.out) <= 4 * FRAME);
    }
    CHECK_EQ_U64(10, sent);
    close_plane();
}

/* Who has much to hear and takes little of it at once does not keep those behind it waiting. */
static void nobody_is_passed_over(void) {
    open_readers(1000);
    peer_t *fast = client(SIZE_MAX, RIG_FLAGS, "SUB big 2\r\n");
    publish_big(client(SIZE_MAX, RIG_FLAGS, ""));
    for (uint32_t i = 0; i < 100 && heard_by(fast)->size < FRAME; i++) turn();
    CHECK_EQ_U64(FRAME, heard_by(fast)->size);
    for (uint32_t i = 0; i < READERS; i++) CHECK(heard_by(readers[i])->size >= 1000);
    close_plane();
}

static void publish_when_read(peer_t *publisher) {
    for (uint32_t i = 0; i < 1000000 && peer_waits(publisher, WAITS_RECEIVER); i++) turn();
    publish_big(publisher);
}

/* What waits for one that has read nothing for a while, after so many further messages. */
static uint64_t waits_unread(peer_t *reader, peer_t *publisher, uint32_t further) {
    ((memory_transport_t *)reader->conn.transport_state)->send_max = 0;
    publish_big(publisher);
    publish_when_read(publisher);
    for (uint32_t i = 0; i < 1000000 && peer_waits(publisher, WAITS_RECEIVER); i++) turn();
    CHECK(outq_pending(&reader->conn.out) > BEHIND_BYTES);
    for (uint32_t i = 0; i < further; i++) {
        reader->conn.out.blocked_since_ns = plane->now.mono_ns - 2 * OUTPUT_UNREAD_NS;
        publish_big(publisher);
        CHECK(!peer_waits(publisher, WAITS_RECEIVER));
        turn();
    }
    return outq_pending(&reader->conn.out);
}

static void nobody_waits_for_one_that_reads_nothing(void) {
    open_plane();
    peer_t *reader = client(SIZE_MAX, RIG_FLAGS, "SUB big 1\r\n"), *publisher = client(SIZE_MAX, RIG_FLAGS, "");
    CHECK(waits_unread(reader, publisher, 4) > 5 * FRAME);
    reader->conn.out.blocked_since_ns = plane->now.mono_ns - OUTPUT_UNREAD_NS / 2;
    publish_big(publisher);
    CHECK(peer_waits(publisher, WAITS_RECEIVER));
    close_plane();
}

/* The loop says when a socket takes more: until then nothing is tried. */
static void a_full_socket_is_left_alone(void) {
    open_plane();
    peer_t *reader = client(SIZE_MAX, RIG_FLAGS, "SUB big 1\r\n"), *publisher = client(SIZE_MAX, RIG_FLAGS, "");
    memory_transport_t *transport = reader->conn.transport_state;
    static char bytes[1 << 16];
    while (write(reader->conn.fd, bytes, sizeof bytes) > 0) continue;
    transport->send_max = 0;
    publish_big(publisher);
    for (uint32_t i = 0; i < 100 && !reader->conn.writing; i++) turn();
    CHECK(reader->conn.writing);
    uint32_t tried = transport->sends;
    for (uint32_t i = 0; i < 3; i++) {
        publish_when_read(publisher);
        turn();
    }
    CHECK_EQ_U64(tried, transport->sends);
    CHECK_EQ_U64(4 * FRAME, outq_pending(&reader->conn.out));
    transport->send_max = SIZE_MAX;
    while (read(far_ends[0], bytes, sizeof bytes) > 0) continue;
    for (uint32_t i = 0; i < 10000 && heard_by(reader)->size < 4 * FRAME; i++) turn();
    CHECK_EQ_U64(4 * FRAME, heard_by(reader)->size);
    close_plane();
}

/* Nobody promised it those of QoS 0: they are left out until it reads. Those of QoS 1 were promised. */
static void of_qos_0_it_gets_no_more(void) {
    open_plane();
    mqtt_limit(plane, MQTT_RIG_LIMITS);
    peer_t *publisher = client(SIZE_MAX, RIG_FLAGS, ""), *reader = connection(SIZE_MAX, CONN_MQTT);
    mqtt_say(plane, reader, MQTT_CONNECT_3("c"));
    mqtt_admit(plane, reader, "", NULL);
    mqtt_say(plane, reader, "82 08 0001 0003'big' 01");
    for (uint32_t i = 0; i < 3; i++) turn();
    uint64_t waits = waits_unread(reader, publisher, 4);
    CHECK(waits < 3 * FRAME);
    CHECK_EQ_U64(4, plane->stats.mqtt_passed_over);
    peer_t *promised = connection(SIZE_MAX, CONN_MQTT);
    mqtt_say(plane, promised, MQTT_CONNECT_3("d"));
    mqtt_admit(plane, promised, "", NULL);
    reader->conn.out.blocked_since_ns = plane->now.mono_ns - 2 * OUTPUT_UNREAD_NS;
    mqtt_say(plane, promised, "32 08 0003'big' 0001 'x'");
    CHECK_EQ_U64(waits + 10, outq_pending(&reader->conn.out));
    ((memory_transport_t *)reader->conn.transport_state)->send_max = SIZE_MAX;
    for (uint32_t i = 0; i < 10000 && outq_pending(&reader->conn.out) != 0; i++) turn();
    uint64_t heard = heard_by(reader)->size;
    publish_when_read(publisher);
    for (uint32_t i = 0; i < 10000 && heard_by(reader)->size <= heard + PAYLOAD; i++) turn();
    CHECK(heard_by(reader)->size > heard + PAYLOAD);
    CHECK_EQ_U64(4, plane->stats.mqtt_passed_over);
    close_plane();
}

static void one_that_goes_leaves_the_line(void) {
    open_readers(1000);
    publish_big(client(SIZE_MAX, RIG_FLAGS, ""));
    turn();
    for (uint32_t i = 0; i < READERS; i++) {
        peer_doom(plane, readers[(i * 7) % READERS], CLOSE_CLIENT, BYTES_NONE);
        turn();
    }
    for (uint32_t i = 0; i < READERS; i++) turn();
    CHECK_EQ_U64(1, plane->stats.connections);
    CHECK(plane->output.first == NULL);
    CHECK(plane->memory.output.used < 8192);
    close_plane();
}

static bool all_are_written_to(void) {
    for (uint32_t i = 0; i < READERS; i++) {
        if (!readers[i]->conn.writing) return false;
    }
    return true;
}

/* Freeing what the kernel has queued for a reader takes long. */
static void full_ones_are_closed_a_few_a_turn(void) {
    open_readers(1000);
    publish_big(client(SIZE_MAX, RIG_FLAGS, ""));
    for (uint32_t i = 0; i < 10000 && !all_are_written_to(); i++) turn(); /* each as long as a slow machine lets it */
    CHECK(all_are_written_to());
    for (uint32_t i = 0; i < READERS; i++) peer_emit_failed(plane, readers[i], STATUS_FULL);
    CHECK(plane->memory.output.used < 8192);
    turn();
    CHECK(plane->stats.connections > READERS - 5);
    for (uint32_t i = 0; i < READERS; i++) turn();
    CHECK_EQ_U64(1, plane->stats.connections);
    close_plane();
}

/* ---- the bytes --------------------------------------------------------------------------------------------------- */

#define HEADER_SIZE 6000
#define BODY_SIZE 5000

/* Such a frame, as its receiver is to have it. */
static void check_frame(peer_t *peer, const char *head, bool with_header) {
    static char expected[20000];
    int size = snprintf(expected, sizeof expected, "%s", head);
    if (with_header) {
        size += snprintf(expected + size, sizeof expected - (size_t)size, "NATS/1.0\r\nA: ");
        memset(expected + size, 'h', HEADER_SIZE - 17);
        size += HEADER_SIZE - 17;
        memcpy(expected + size, "\r\n\r\n", 4);
        size += 4;
    }
    memset(expected + size, 'p', BODY_SIZE);
    memcpy(expected + size + BODY_SIZE, "\r\n", 3);
    RIG_HEARD(expected, peer);
}

static void each_has_it_as_it_needs_it(void) {
    plane = rig_open(NULL, "");
    peer_t *with = rig_client(plane), *group = rig_client(plane), *leaf = rig_leaf(plane, 0, "far", NULL);
    peer_t *without = rig_client_with(plane, (conn_verdict_t){.flags = RIG_FLAGS & ~VERDICT_HEADERS}, NULL);
    rig_feed(plane, with, "SUB a 1\r\n");
    rig_feed(plane, without, "SUB * 22\r\n");
    rig_feed(plane, group, "SUB a q 3\r\n");
    rig_feed(plane, leaf, "LS+ a\r\n");
    (void)rig_heard(leaf);
    static char frame[20000];
    int size = snprintf(frame, sizeof frame, "HPUB a r %d %d\r\nNATS/1.0\r\nA: ", HEADER_SIZE, HEADER_SIZE + BODY_SIZE);
    memset(frame + size, 'h', HEADER_SIZE - 17);
    size += HEADER_SIZE - 17;
    memcpy(frame + size, "\r\n\r\n", 4);
    memset(frame + size + 4, 'p', BODY_SIZE);
    memcpy(frame + size + 4 + BODY_SIZE, "\r\n", 3);
    rig_feed(plane, rig_client(plane), frame);
    check_frame(with, "HMSG a 1 r 6000 11000\r\n", true);
    check_frame(without, "MSG a 22 r 5000\r\n", false);
    check_frame(group, "HMSG a 3 r 6000 11000\r\n", true);
    check_frame(leaf, "HMSG a r 6000 11000\r\n", true);
    CHECK(plane->memory.output.used < 8192);
    rig_close(plane);
}

/* ---- from where it was read -------------------------------------------------------------------------------------- */

#define LONG_ONES 24u
#define LONG_SIZE 16384u
#define LONG_HEADER "NATS/1.0\r\nA: 1\r\n\r\n"
#define LONG_HEADER_SIZE ((uint32_t)sizeof(LONG_HEADER) - 1)

/* The i-th message behind its first line; every other one has a header. Returns its end. */
static char *put_long(char *to, uint32_t i, bool headers) {
    if (headers && i % 2 != 0) {
        memcpy(to, LONG_HEADER, LONG_HEADER_SIZE);
        to += LONG_HEADER_SIZE;
    }
    memset(to, 'a' + (int)i, LONG_SIZE);
    memcpy(to + LONG_SIZE, "\r\n", 3);
    return to + LONG_SIZE + 2;
}

static void publish_long(peer_t *from, uint32_t i) {
    int head = i % 2 != 0
                   ? snprintf(line, sizeof line, "HPUB long %u %u\r\n", LONG_HEADER_SIZE, LONG_HEADER_SIZE + LONG_SIZE)
                   : snprintf(line, sizeof line, "PUB long %u\r\n", LONG_SIZE);
    (void)put_long(line + head, i, true);
    rig_say(plane, from, line);
}

static void check_long_ones(const peer_t *reader, uint32_t sid, bool headers) {
    static char expected[LONG_ONES * (LONG_SIZE + 100)];
    char *to = expected;
    for (uint32_t i = 0; i < LONG_ONES; i++) {
        to += headers && i % 2 != 0
                  ? sprintf(to, "HMSG long %u %u %u\r\n", sid, LONG_HEADER_SIZE, LONG_HEADER_SIZE + LONG_SIZE)
                  : sprintf(to, "MSG long %u %u\r\n", sid, LONG_SIZE);
        to = put_long(to, i, headers);
    }
    for (uint32_t i = 0; i < 10000 && heard_by(reader)->size < (size_t)(to - expected); i++) turn();
    CHECK_BYTES(expected, to - expected, heard_by(reader)->at, heard_by(reader)->size);
}

static void long_ones_arrive_as_sent(void) {
    peer_t *publishers[LONG_ONES / 4];
    open_plane();
    peer_t *fast = client(SIZE_MAX, RIG_FLAGS & ~VERDICT_HEADERS, "SUB long 1\r\n");
    for (uint32_t i = 0; i < LONG_ONES / 4; i++) publishers[i] = client(SIZE_MAX, RIG_FLAGS, "");
    for (uint32_t i = 0; i < LONG_ONES; i++) {
        publish_long(publishers[i % (LONG_ONES / 4)], i);
        if (i == 0) {
            CHECK(fast->conn.out.shared_size == LONG_SIZE && plane->memory.output.used < LONG_SIZE); /* not copied */
        }
        if (i % (LONG_ONES / 4) == LONG_ONES / 4 - 1) turn();
    }
    check_long_ones(fast, 1, false);
    close_plane();
    open_plane();
    peer_t *slow = client(1000, RIG_FLAGS, "SUB long 1\r\n");
    for (uint32_t i = 0; i < LONG_ONES; i++) publish_long(client(SIZE_MAX, RIG_FLAGS, ""), i);
    check_long_ones(slow, 1, true);
    close_plane();
}

int main(void) {
    RUN("a megabyte to forty is in memory once, and each turn of the loop writes a bounded part of it",
        a_turn_is_bounded);
    RUN("who has little waiting is written in each turn", others_are_served_meanwhile);
    RUN("who has few bytes waiting is written before others", who_has_few_bytes_is_first);
    RUN("a publisher pauses until everybody in the line has had a turn", a_publisher_waits_for_the_line);
    RUN("one whose socket takes all of it is not kept waiting by those whose sockets take little",
        nobody_is_passed_over);
    RUN("nobody waits for one whose socket takes nothing", nobody_waits_for_one_that_reads_nothing);
    RUN("a socket that is full is left alone until it takes more, and then gets all", a_full_socket_is_left_alone);
    RUN("and of QoS 0 it gets no more until it reads again", of_qos_0_it_gets_no_more);
    RUN("a connection that is closed leaves the line and lets go of what it shares", one_that_goes_leaves_the_line);
    RUN("connections whose sockets are full are closed a few in a turn", full_ones_are_closed_a_few_a_turn);
    RUN("a shared body has its header for who understands it and none for others", each_has_it_as_it_needs_it);
    RUN("long messages are not copied, and arrive as they were sent, whoever is read next and however slow their "
        "reader is",
        long_ones_arrive_as_sent);
    return TEST_RESULT();
}
