/* test_plane_trunk.c: the links of one box share its line downwards, in a plane whose clock and whose kernel are the
 * test's: tcp_look and tcp_place tell of one line with a queue. What a window makes of its figures is in
 * test_window_way.c, which links share a line in test_trunk.c. */
#include "net/tcp.h"
#include "plane/lanes.h"
#include "plane/link_part.h"
#include "plane/window.h"
#include "plane_rig.h"

#define LINKS 10
#define RATE 6250 /* bytes a second: 50 kbit/s */
#define TRIP_NS NS_PER_SECOND
#define STEP_NS (20 * NS_PER_MS)
#define PACKET 1448
#define WAITS (32u * 1024u) /* so much waits for each link all the time */
#define PAYLOAD 1000
#define FD_FIRST (-10) /* of no descriptor: the links' numbers for tcp_look */

bool __wrap_tcp_look(int fd, tcp_look_t *out);
uint64_t __wrap_tcp_place(int fd);

/* ---- the line ---------------------------------------------------------------------------------------------------- */

typedef struct piece {
    int64_t at_ns; /* when it is acknowledged */
    uint64_t upto;
} piece_t;

typedef struct end {
    peer_t *peer; /* NULL: it has ended */
    uint64_t given, acked;
    piece_t under_way[1024];
    uint32_t first, last;
} end_t;

static plane_t *plane;
static peer_t *client;
static end_t ends[LINKS + 1];
static uint64_t place;
static int64_t line_free_ns;

bool __wrap_tcp_look(int fd, tcp_look_t *out) {
    *out = (tcp_look_t){.packet = PACKET, .round_trip_ns = TRIP_NS, .round_trip_min_ns = TRIP_NS};
    if (fd <= FD_FIRST) {
        const end_t *end = &ends[FD_FIRST - fd];
        int64_t queued_ns = line_free_ns - plane->now.mono_ns;
        out->acked = end->acked;
        out->held = end->given - end->acked;
        out->round_trip_ns += queued_ns > 0 ? queued_ns : 0;
    }
    return true;
}

uint64_t __wrap_tcp_place(int fd) {
    (void)fd;
    return place;
}

static void arrive(end_t *end) {
    for (; end->first != end->last && end->under_way[end->first % 1024].at_ns <= plane->now.mono_ns; end->first++) {
        end->acked = end->under_way[end->first % 1024].upto;
    }
}

/* What the driver does: as much as the window has room for goes to the line, packet by packet. */
static void give(end_t *end) {
    conn_t *conn = &end->peer->conn;
    memory_transport_t *memory = conn->transport_state;
    loop_t none = {.epoll_fd = -1};
    uint64_t room = end->peer->lanes == NULL ? UINT64_MAX : window_room(plane, end->peer);
    if (room == 0 || conn_flush(conn, &none, room, plane->now.mono_ns) == STATUS_CLOSED) {
        return;
    }
    for (uint64_t left = memory->output.size, part; left != 0; left -= part) {
        part = left < PACKET ? left : PACKET;
        line_free_ns = line_free_ns > plane->now.mono_ns ? line_free_ns : plane->now.mono_ns;
        line_free_ns += (int64_t)(part * (uint64_t)NS_PER_SECOND / RATE);
        end->given += part;
        CHECK(end->last - end->first < 1024);
        end->under_way[end->last++ % 1024] = (piece_t){line_free_ns + TRIP_NS, end->given};
    }
    memory->output.size = 0;
    if (end->peer->lanes != NULL) window_given(plane, end->peer);
}

static uint64_t waits_for(const peer_t *peer) {
    return outq_pending(&peer->conn.out) + (peer->lanes == NULL ? 0 : lanes_going(peer->lanes));
}

static void publish_enough(void) {
    static char text[PAYLOAD + 64];
    snprintf(text, sizeof text, "PUB x %d\r\n%0*d\r\n", PAYLOAD, PAYLOAD, 0);
    for (uint32_t i = 0; i <= LINKS; i++) {
        if (ends[i].peer != NULL && waits_for(ends[i].peer) < WAITS) {
            rig_say(plane, client, text);
            return;
        }
    }
}

/* Returns what of the line was used; *most: what all had under way at once, at most. */
static double run_for(int64_t ns, uint64_t *most) {
    uint64_t before = 0, after = 0;
    *most = 0;
    for (uint32_t i = 0; i <= LINKS; i++) before += ends[i].acked;
    for (int64_t over_ns = plane->now.mono_ns + ns; plane->now.mono_ns < over_ns;) {
        uint64_t held = 0;
        plane->now.mono_ns += STEP_NS;
        publish_enough();
        rig_turn(plane);
        for (uint32_t i = 0; i <= LINKS; i++) {
            arrive(&ends[i]);
            if (ends[i].peer == NULL) continue;
            ends[i].peer->last_input_ns = plane->now.mono_ns; /* it answers as it should */
            give(&ends[i]);
            held += ends[i].given - ends[i].acked;
        }
        *most = held > *most ? held : *most;
    }
    for (uint32_t i = 0; i <= LINKS; i++) after += ends[i].acked;
    return (double)(after - before) / RATE / ((double)ns / (double)NS_PER_SECOND);
}

/* ---- the links --------------------------------------------------------------------------------------------------- */

static void link_up(uint32_t number, uint64_t from, uint64_t whole) {
    rig_strings_t strings = {.size = 0};
    conn_verdict_t verdict = {.flags = VERDICT_HEADERS, .whole = whole};
    rig_pack(&strings, "l");
    rig_pack(&strings, "$LDS.own");
    for (uint32_t i = 0; i < 5; i++) rig_pack(&strings, "");
    place = from;
    peer_t *peer = rig_admit(plane, COMMAND_ADMIT_LEAF, CONN_LEAF, verdict, &strings);
    rig_feed(plane, peer, "LS+ x\r\n");
    rig_heard(peer);
    CHECK_EQ_I64(STATUS_OK, conn_switch(&peer->conn, &transport_memory, memory_transport(SIZE_MAX, SIZE_MAX)));
    peer->conn.fd = FD_FIRST - (int)number;
    ends[number] = (end_t){.peer = peer};
}

static void link_down(uint32_t number) {
    peer_doom_silently(plane, ends[number].peer, CLOSE_CLIENT, BYTES_LITERAL("over"));
    ends[number].peer = NULL;
    rig_turn(plane);
}

static void (*promise)(void);

static void on_a_plane(void) {
    plane = rig_open(NULL, "");
    client = rig_client(plane);
    memset(ends, 0, sizeof ends);
    line_free_ns = 0;
    promise();
    rig_close(plane);
}

static void ten_links_of_a_box_have_one_window(void) {
    uint64_t most;
    for (uint32_t i = 0; i < LINKS; i++) link_up(i, 7, 70);
    (void)run_for(20 * NS_PER_SECOND, &most);
    CHECK(run_for(90 * NS_PER_SECOND, &most) > 0.95);
    CHECK(most <= RATE * 5 / 4 + LINKS * PACKET); /* and not ten times RATE */
    for (uint32_t i = 0; i < LINKS; i++) CHECK_EQ_U64(LINKS, ends[i].peer->link->window.beside);
}

static void the_share_of_a_link_that_ends_is_the_others(void) {
    uint64_t most;
    for (uint32_t i = 0; i < LINKS; i++) link_up(i, 7, 70);
    (void)run_for(40 * NS_PER_SECOND, &most);
    for (uint32_t i = 1; i < LINKS; i++) link_down(i);
    (void)run_for(20 * NS_PER_SECOND, &most);
    CHECK(run_for(30 * NS_PER_SECOND, &most) > 0.95);
    CHECK(most <= RATE * 5 / 4 + 4 * PACKET); /* with the end of a last one, and a frame */
    CHECK(ends[0].peer->link->window.beside < 2);
}

/* It is told apart by its address, and by what it has proven to be, which is in the number (links/link.py). */
static void who_is_not_that_box_has_no_share(void) {
    uint64_t most;
    for (uint32_t i = 0; i < LINKS; i++) link_up(i, 7, 70);
    link_up(LINKS, 8, 70);
    (void)run_for(20 * NS_PER_SECOND, &most);
    for (uint32_t i = 0; i < LINKS; i++) CHECK_EQ_U64(LINKS, ends[i].peer->link->window.beside);
    CHECK(ends[LINKS].peer->link->window.beside < 2);
    link_down(LINKS);
    link_up(LINKS, 7, 71);
    (void)run_for(20 * NS_PER_SECOND, &most);
    for (uint32_t i = 0; i < LINKS; i++) CHECK_EQ_U64(LINKS, ends[i].peer->link->window.beside);
    CHECK(ends[LINKS].peer->link->window.beside < 2);
}

#define RUN_ON(text, function)                                                                                         \
    do {                                                                                                               \
        promise = function;                                                                                            \
        RUN(text, on_a_plane);                                                                                         \
    } while (0)

int main(void) {
    RUN_ON("ten links of a box fill its line and have one window together", ten_links_of_a_box_have_one_window);
    RUN_ON("what a link had that ends is the others'", the_share_of_a_link_that_ends_is_the_others);
    RUN_ON("a link from another place, or of another box, has no share of it", who_is_not_that_box_has_no_share);
    return TEST_RESULT();
}
