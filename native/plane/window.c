/* window.c: see window.h. */
#include "plane/window.h"

#include "net/outq.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/protocol.h"

/* ---- pure -------------------------------------------------------------------------------------------------------- */

void window_begin(window_t *window, const tcp_look_t *look, int64_t mono_ns) {
    *window = (window_t){.measured = true,
                         .narrow = look->round_trip_min_ns >= WINDOW_NEAR_NS,
                         .bytes = WINDOW_FIRST,
                         .acked = look->acked,
                         .looked_ns = mono_ns,
                         .progress_ns = mono_ns,
                         .round_trip_ns = look->round_trip_ns,
                         .round_trip_min_ns = look->round_trip_min_ns};
}

static int64_t look_after(const window_t *window) {
    return window->round_trip_min_ns > WINDOW_LOOK_NS ? window->round_trip_min_ns : WINDOW_LOOK_NS;
}

/* Twice what is under way at that rate. */
static uint64_t bytes_at(uint64_t rate, int64_t round_trip_ns) {
    double bytes = 2.0 * (double)rate * (double)round_trip_ns / (double)NS_PER_SECOND;
    if (bytes < (double)WINDOW_MIN) {
        return WINDOW_MIN;
    }
    return bytes > (double)WINDOW_MAX ? (uint64_t)WINDOW_MAX + 1 : (uint64_t)bytes;
}

static void learn_rate(window_t *window, uint64_t sample) {
    /* Half of a rise at once: what was acknowledged after a stall comes in a heap, and was not carried as fast. */
    if (sample > window->rate) {
        window->rate = window->proven ? window->rate + (sample - window->rate) / 2 : sample;
    } else {
        window->rate -= (window->rate - sample) / 8;
    }
    window->proven = true;
}

static void learn_width(window_t *window) {
    if (window->narrow) {
        window->bytes = bytes_at(window->rate, window->round_trip_min_ns);
        window->narrow = window->bytes <= WINDOW_MAX
                         && (window->round_trip_min_ns >= WINDOW_NEAR_NS || window->rate < 2 * (uint64_t)WINDOW_SLOW);
    } else if (window->rate < WINDOW_SLOW) {
        window->narrow = true;
        window->bytes = bytes_at(window->rate, window->round_trip_min_ns);
        window->bytes = window->bytes < WINDOW_FIRST ? WINDOW_FIRST : window->bytes;
    }
}

void window_learn(window_t *window, const tcp_look_t *look, bool waiting, int64_t mono_ns) {
    window->round_trip_ns = look->round_trip_ns;
    window->round_trip_min_ns = look->round_trip_min_ns;
    int64_t took_ns = mono_ns - window->looked_ns;
    if (took_ns < look_after(window)) {
        return;
    }
    uint64_t moved = look->acked - window->acked;
    if (moved != 0 || look->held == 0) {
        window->progress_ns = mono_ns;
    }
    if (window->busy && waiting) {
        learn_rate(window, (uint64_t)((double)moved * (double)NS_PER_SECOND / (double)took_ns));
        learn_width(window);
    }
    window->busy = waiting;
    window->acked = look->acked;
    window->looked_ns = mono_ns;
}

int64_t window_patience_ns(const window_t *window) {
    int64_t trips_ns = window->round_trip_ns * WINDOW_PATIENCE_TRIPS;
    return trips_ns > WINDOW_PATIENCE_NS ? trips_ns : WINDOW_PATIENCE_NS;
}

bool window_dead(const window_t *window, int64_t write_deadline_ns, int64_t mono_ns) {
    int64_t patience_ns = window_patience_ns(window);
    return mono_ns - window->progress_ns >= (write_deadline_ns > patience_ns ? write_deadline_ns : patience_ns);
}

/* ---- of a link --------------------------------------------------------------------------------------------------- */

static void expect_the_worst(const peer_t *peer) {
    int64_t again_ns = peer->window.round_trip_ns * WINDOW_AGAIN_TRIPS;
    tcp_expect_loss(peer->conn.fd);
    tcp_expect_outages(peer->conn.fd, again_ns > WINDOW_AGAIN_NS ? again_ns : WINDOW_AGAIN_NS);
}

void window_admitted(plane_t *plane, peer_t *peer) {
    tcp_look_t look;
    if (!peer->protocol->link || peer->window.measured || !tcp_look(peer->conn.fd, &look)) {
        return;
    }
    window_begin(&peer->window, &look, plane->now.mono_ns);
    tcp_expect_life(peer->conn.fd, window_patience_ns(&peer->window));
    if (peer->window.narrow) {
        expect_the_worst(peer);
    }
}

/* Only what is written in small pieces is a matter of a slow link: a look for each would cost what it saves. */
static void look(plane_t *plane, peer_t *peer) {
    window_t *window = &peer->window;
    uint64_t pending = outq_pending(&peer->conn.out);
    tcp_look_t seen;
    if (plane->now.mono_ns - window->looked_ns < look_after(window) || !tcp_look(peer->conn.fd, &seen)) {
        return;
    }
    bool narrow = window->narrow;
    /* What is near has to prove that it is the link that is slow, and not this processor. */
    bool waiting = pending != 0 && (narrow || seen.held != 0);
    window_learn(window, &seen, waiting, plane->now.mono_ns);
    if (window->narrow && !narrow) {
        expect_the_worst(peer);
    }
}

void window_chores(plane_t *plane, peer_t *peer) {
    window_t *window = &peer->window;
    if (!window->measured) {
        return;
    }
    look(plane, peer);
    if (window_dead(window, plane->limits.write_deadline_ns, plane->now.mono_ns)) {
        plane->stats.stale_connections++;
        peer_doom_silently(plane, peer, CLOSE_STALE, BYTES_LITERAL("Stale Connection: nothing sent is acknowledged"));
    }
}

uint64_t window_room(plane_t *plane, peer_t *peer) {
    look(plane, peer);
    if (!peer->window.narrow) {
        return UINT64_MAX;
    }
    uint64_t held = tcp_held(peer->conn.fd);
    uint64_t room = held < peer->window.bytes ? peer->window.bytes - held : 0;
    uint64_t pending = outq_pending(&peer->conn.out);
    if (room >= WINDOW_PIECE || room >= pending || held == 0) {
        return room;
    }
    /* What the transport has begun is the loop's to report until it is written. */
    return (peer->conn.transport_wants & LOOP_WRITE) != 0 ? WINDOW_PIECE : 0;
}

/* Until about a packet more is acknowledged. */
static int64_t wait_ns(const window_t *window) {
    double wait = window->rate == 0 ? (double)WINDOW_WAIT_MAX_NS
                                    : (double)WINDOW_PIECE * (double)NS_PER_SECOND / (double)window->rate;
    if (wait > (double)WINDOW_WAIT_MAX_NS) {
        return WINDOW_WAIT_MAX_NS;
    }
    return wait < (double)WINDOW_WAIT_MIN_NS ? WINDOW_WAIT_MIN_NS : (int64_t)wait;
}

void window_wait(plane_t *plane, peer_t *peer) {
    if (peer->conn.writing) {
        /* The socket would take more, and the loop would report so for ever. */
        peer->conn.writing = false;
        if (conn_want(&peer->conn, &plane->loop, peer->conn.reading) != STATUS_OK) {
            peer_doom_silently(plane, peer, CLOSE_WRITE, BYTES_LITERAL("cannot watch the connection"));
            return;
        }
    }
    int64_t due_ns = plane->now.mono_ns + wait_ns(&peer->window);
    if (plane->narrows == NULL || due_ns < plane->narrows_due_ns) {
        plane->narrows_due_ns = due_ns;
    }
    if (!peer->window.waits) {
        peer->window.waits = true;
        peer->next_narrow = plane->narrows;
        plane->narrows = peer;
    }
}

void window_turn(plane_t *plane) {
    if (plane->narrows == NULL || plane->now.mono_ns < plane->narrows_due_ns) {
        return;
    }
    peer_t *next = plane->narrows;
    plane->narrows = NULL;
    while (next != NULL) {
        peer_t *peer = next;
        next = peer->next_narrow;
        peer->window.waits = false;
        peer_touch(plane, peer);
    }
}

void window_forget(plane_t *plane, peer_t *peer) {
    for (peer_t **at = &plane->narrows; peer->window.waits && *at != NULL; at = &(*at)->next_narrow) {
        if (*at == peer) {
            *at = peer->next_narrow;
            peer->window.waits = false;
            return;
        }
    }
}
