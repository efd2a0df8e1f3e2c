/* window.c: see window.h. */
#include "plane/window.h"

#include <stdlib.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "exchange/exchange.h"
#include "net/outq.h"
#include "plane/budget.h"
#include "plane/lanes.h"
#include "plane/link_part.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/protocol.h"

static void expect_outages(const plane_t *plane, const peer_t *peer) {
    window_t *window = &peer->link->window;
    window->again_ns = window_again_ns(window, plane->now.mono_ns);
    tcp_expect_outages(peer->conn.fd, window->again_ns);
}

static void expect_the_worst(const plane_t *plane, const peer_t *peer) {
    tcp_expect_loss(peer->conn.fd);
    expect_outages(plane, peer);
}

/* Puts the waiting output into lanes, or takes it out of them. Without memory it stays as it is. */
static void line_up(plane_t *plane, peer_t *peer) {
    bool lanes = peer->link->window.narrow || peer->link->window.pace != 0 || peer->budget != NULL;
    if (lanes && peer->lanes == NULL) {
        peer->lanes = lanes_new(&plane->memory.output);
    } else if (!lanes && peer->lanes != NULL && lanes_join(peer->lanes, &peer->conn.out) == STATUS_OK) {
        lanes_free(peer->lanes);
        peer->lanes = NULL;
        plane->drained = plane->drained || peer->full;
        peer->full = false;
        peer_touch(plane, peer);
    }
}

void window_admitted(plane_t *plane, peer_t *peer) {
    tcp_look_t look;
    if (!peer->protocol->link || peer->link->window.measured || !tcp_look(peer->conn.fd, &look)) {
        return;
    }
    window_begin(&peer->link->window, &look, plane->now.mono_ns);
    tcp_expect_life(peer->conn.fd, window_patience_ns(&peer->link->window));
    if (peer->link->window.narrow) {
        expect_the_worst(plane, peer);
        line_up(plane, peer);
    }
}

void window_beside(plane_t *plane, peer_t *peer, uint64_t whole) {
    window_t *window = &peer->link->window;
    if (window->measured && window->trunk == NULL) {
        uint64_t key = peer->dialled ? TRUNK_DIALLED : trunk_key(tcp_place(peer->conn.fd), whole);
        window->trunk = trunk_hold(&plane->trunks, key);
    }
}

/* The bytes that wait, except those that wait for a budget. */
static uint64_t waiting_of(const peer_t *peer) {
    return outq_pending(&peer->conn.out) + (peer->lanes == NULL ? 0 : lanes_going(peer->lanes));
}

/* Holds what the budget no longer permits, or lets it go; tells control when it wanted to hear of it. */
static void reckon(plane_t *plane, peer_t *peer) {
    budget_t *budget = peer->budget;
    uint64_t wire = peer->link->window.wire;
    if (budget == NULL) {
        return;
    }
    if (peer->lanes != NULL) {
        lanes_hold(peer->lanes, budget_lowest(budget, wire + peer->link->window.unsent));
    }
    event_entry_t *entry =
        wire < budget->tell ? NULL : event_new(EVENT_CARRIED, BYTES_NONE, BYTES_NONE, BYTES_NONE, BYTES_NONE);
    if (entry != NULL) { /* else at the next look */
        entry->event.target = peer->id;
        entry->event.arg = wire;
        event_post(&plane->exchange, entry);
        budget->tell = UINT64_MAX;
    }
}

/* How many of our bytes become one of the kernel's. */
static void learn_packed(peer_t *peer, const tcp_look_t *seen) {
    window_t *window = &peer->link->window;
    uint64_t given = seen->acked + seen->held;
    uint64_t packed = given - window->packed_before, plain = peer->conn.bytes_out - window->plain_before;
    if (peer->compress == NULL || packed < window->packet) {
        return;
    }
    double ratio = (double)plain / (double)packed;
    ratio = ratio < 1 ? 1 : ratio > WINDOW_PACKED_MAX ? WINDOW_PACKED_MAX : ratio;
    window->packed += (ratio - window->packed) / 4;
    window->packed_before = given;
    window->plain_before = peer->conn.bytes_out;
}

static void count_narrow(bool *counted, bool counts, uint32_t *of_all) {
    *of_all += counts == *counted ? 0 : counts ? 1 : UINT32_MAX;
    *counted = counts;
}

/* How many links the line has, as far as this one matters. */
static void count_beside(window_t *window, bool counts, bool busy) {
    trunk_t *trunk = window->trunk;
    if (trunk != NULL) {
        count_narrow(&window->counted, counts, &trunk->links);
        count_narrow(&window->counted_busy, counts && busy, &trunk->busy);
        window->among = counts ? trunk->links : 0;
        window->beside = counts ? trunk->busy : 0;
    }
}

/* Links beside each other let their line run empty at the same time. */
static bool drains_together(const window_t *window, int64_t mono_ns) {
    int64_t takes_ns = window->round_trip_ns - window->round_trip_min_ns * 7 / 8;
    return window->beside >= 2 && trunk_drains(window->trunk, WINDOW_DRAIN_NS, takes_ns, mono_ns);
}

static void learn(plane_t *plane, peer_t *peer, const tcp_look_t *seen) {
    window_t *window = &peer->link->window;
    bool narrow = window->narrow;
    /* A near link has to prove that it is the link that is slow, and not this processor. */
    uint64_t waits = waiting_of(peer), most = peer->conn.out.max_pending;
    bool waiting = waits != 0 && (narrow || seen->held != 0);
    window->crowded = window_crowds(window->crowded, waits, most);
    window_learn(window, seen, waiting, plane->now.mono_ns);
    count_beside(window, window->narrow, waiting || window->busy);
    learn_packed(peer, seen);
    if (window->narrow && !narrow) {
        expect_the_worst(plane, peer);
    } else if (window_again_differs(window, plane->now.mono_ns)) {
        expect_outages(plane, peer);
    }
    if (window_spares(window, waiting, plane->now.mono_ns)) {
        tcp_spare_probe(peer->conn.fd);
    }
    line_up(plane, peer);
    reckon(plane, peer);
}

static uint32_t doubt_of(const plane_t *plane, const peer_t *peer) {
    int64_t now = plane->now.mono_ns, quiet_ns = now - peer->last_input_ns;
    bool doubtful = window_doubtful(&peer->link->window, now);
    tcp_look_t seen;
    window_hears(&peer->link->window, peer->last_input_ns);
    if (quiet_ns < WINDOW_ALIVE_NS) {
        window_heard(&peer->link->window);
    }
    if (!doubtful && (peer->pings_out == 0 || quiet_ns < WINDOW_ALIVE_NS)) {
        return DOUBT_NONE;
    }
    if (!tcp_look(peer->conn.fd, &seen)) {
        return doubtful ? DOUBT_ALL : DOUBT_NONE;
    }
    return doubtful ? window_doubt(&peer->link->window, &seen, now)
                    : window_unanswered(&peer->link->window, &seen, quiet_ns, now);
}

/* Tells control of a link that we dialled, which may dial another one beside it; and of one that stands at its first
 * full packet, whichever end dialled. */
static void tell_doubt(plane_t *plane, peer_t *peer) {
    window_t *window = &peer->link->window;
    if (peer->state != PEER_ADMITTED) {
        return;
    }
    uint32_t doubt = doubt_of(plane, peer);
    doubt = peer->dialled || doubt == DOUBT_LARGE ? doubt : DOUBT_NONE;
    if (doubt == window->doubted) {
        return;
    }
    event_entry_t *entry = event_new(EVENT_DOUBTED, BYTES_NONE, BYTES_NONE, BYTES_NONE, BYTES_NONE);
    if (entry != NULL) { /* else at the next look */
        entry->event.target = peer->id;
        entry->event.arg = doubt;
        event_post(&plane->exchange, entry);
        window->doubted = doubt;
    }
}

void window_chores(plane_t *plane, peer_t *peer) {
    window_t *window = &peer->link->window;
    tcp_look_t seen;
    if (!window->measured) {
        return;
    }
    if (plane->now.mono_ns - window->looked_ns >= window_look_after(window) && tcp_look(peer->conn.fd, &seen)) {
        learn(plane, peer, &seen);
    }
    tell_doubt(plane, peer);
    if (window_dead(window, plane->limits.write_deadline_ns, plane->now.mono_ns)) {
        plane->stats.stale_connections++;
        peer_doom_silently(plane, peer, CLOSE_STALE, BYTES_LITERAL("Stale Connection: nothing sent is acknowledged"));
    }
}

/* Whole frames that are chosen now, and no fewer bytes than there is room for, if so many wait. */
static uint64_t choose(peer_t *peer, uint64_t room) {
    outq_t *out = &peer->conn.out;
    lanes_fill(peer->lanes, out, room, LANE_LOW);
    uint64_t chosen = outq_pending(out);
    /* The end of the last one goes with it, unless it is a large one. */
    return chosen > room && chosen - room <= peer->link->window.packet ? chosen : room;
}

/* What a peer is told that has to go has no time. */
static int64_t gathers_until(const peer_t *peer) {
    const window_t *window = &peer->link->window;
    return peer->state == PEER_ADMITTED ? window_gathers_until(window, waiting_of(peer)) : window->gave_ns;
}

uint64_t window_room(plane_t *plane, peer_t *peer) {
    window_t *window = &peer->link->window;
    tcp_look_t seen;
    if (!tcp_look(peer->conn.fd, &seen)) {
        return choose(peer, UINT64_MAX);
    }
    learn(plane, peer, &seen);
    if (peer->lanes == NULL) {
        return UINT64_MAX;
    }
    /* A large frame that was begun is nothing that anybody waits for. */
    uint64_t begun = outq_pending(&peer->conn.out);
    uint64_t going = lanes_going(peer->lanes), urgent = lanes_ranked(peer->lanes, LANE_NORMAL);
    urgent = (urgent < going ? urgent : going) + (begun > window->packet ? 0 : begun);
    urgent = urgent > window->packet ? 0 : urgent;
    uint64_t waiting = waiting_of(peer), room = UINT32_MAX;
    if (gathers_until(peer) > plane->now.mono_ns) {
        room = 0;
    } else if (window->narrow) {
        room = !drains_together(window, plane->now.mono_ns)
                   ? window_gives(window, &seen, waiting, urgent, plane->now.mono_ns)
               : seen.held == 0 ? urgent
                                : 0;
    }
    if (window->pace != 0) {
        uint64_t saved = window_saved(window, waiting, plane->now.mono_ns);
        room = saved < room ? saved : room;
    }
    if (peer->budget != NULL) {
        uint64_t left = budget_room(peer->budget, window->wire + window->unsent);
        room = left < room ? left : room;
    }
    if (room == 0) {
        /* A record that the transport has begun is the loop's to report until it is written. */
        return (peer->conn.transport_wants & LOOP_WRITE) != 0 ? window->packet : 0;
    }
    return choose(peer, (uint64_t)((double)room * window->packed));
}

/* Until about a part of a packet more has arrived. */
static int64_t wait_ns(const window_t *window) {
    double wait = window->rate == 0 ? (double)WINDOW_WAIT_MAX_NS
                                    : (double)window->packet / 8 * (double)NS_PER_SECOND / (double)window->rate;
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
    int64_t due_ns = gathers_until(peer);
    due_ns = due_ns > plane->now.mono_ns ? due_ns : plane->now.mono_ns + wait_ns(&peer->link->window);
    if (plane->narrows == NULL || due_ns < plane->narrows_due_ns) {
        plane->narrows_due_ns = due_ns;
    }
    if (!peer->link->window.waits) {
        peer->link->window.waits = true;
        peer->link->next_narrow = plane->narrows;
        plane->narrows = peer;
    }
}

void window_given(plane_t *plane, peer_t *peer) {
    if (peer->full && peer->lanes != NULL && lanes_drained(peer->lanes, window_most(&peer->link->window))) {
        plane->drained = true;
        plane->more = true;
    }
    if (waiting_of(peer) != 0) {
        window_wait(plane, peer);
    } else {
        window_dried(&peer->link->window);
    }
}

void window_rule(plane_t *plane, peer_t *peer, precedence_t *precedence) {
    if (peer->lanes != NULL && lanes_join(peer->lanes, &peer->conn.out) != STATUS_OK) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for another precedence"));
    }
    precedence_free(peer->precedence);
    peer->precedence = precedence;
    peer_touch(plane, peer);
}

static void pace_anew(window_t *window, uint64_t pace, int64_t mono_ns) {
    if (pace != window->pace) {
        window->pace = pace;
        window->saved_ns = mono_ns;
        window->spent = window->out;
    }
}

status_t window_afford(plane_t *plane, peer_t *peer, const budget_t *budget) {
    bool bounded = budget->urgent != UINT64_MAX || budget->high != UINT64_MAX || budget->normal != UINT64_MAX
                   || budget->low != UINT64_MAX || budget->tell != UINT64_MAX;
    tcp_look_t seen;
    if (!peer->link->window.measured || !tcp_look(peer->conn.fd, &seen)) {
        return STATUS_OK; /* nothing counts its bytes: it is in memory */
    }
    if (!bounded) {
        free(peer->budget);
        peer->budget = NULL;
    } else if (peer->budget == NULL && (peer->budget = calloc(1, sizeof(*budget))) == NULL) {
        return STATUS_NO_MEMORY;
    } else {
        *peer->budget = *budget;
    }
    pace_anew(&peer->link->window, budget->pace, plane->now.mono_ns);
    if (peer->lanes != NULL && peer->budget == NULL) {
        lanes_hold(peer->lanes, LANE_LOW);
    }
    learn(plane, peer, &seen);
    peer_touch(plane, peer);
    return STATUS_OK;
}

void window_dropped(plane_t *plane, peer_t *peer) {
    window_t *window = &peer->link->window;
    if (window->told_ns != 0 && plane->now.mono_ns - window->told_ns < WINDOW_TELL_NS) {
        return;
    }
    uint64_t dropped = lanes_dropped(peer->lanes);
    event_alarm(&plane->exchange, ALARM_DROPPED, peer->id, dropped > window->told ? dropped - window->told : 0,
                BYTES_LITERAL("more than the link carries: messages are dropped"));
    window->told_ns = plane->now.mono_ns;
    window->told = dropped;
}

void window_pace(plane_t *plane, const peer_t *peer, peer_t *producer) {
    uint64_t waiting = lanes_going(peer->lanes);
    if (producer == NULL || waiting < LANE_MAX / 4 || peer->link->window.rate < LANE_MAX / 4) {
        return;
    }
    if (waiting < LANE_MAX / 2) {
        peer_stall(plane, producer, &peer->conn.out);
    } else {
        peer_wait(plane, producer);
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
        next = peer->link->next_narrow;
        peer->link->window.waits = false;
        peer_touch(plane, peer);
    }
}

void window_forget(plane_t *plane, peer_t *peer) {
    if (peer->link != NULL) {
        count_beside(&peer->link->window, false, false);
        trunk_leave(&plane->trunks, peer->link->window.trunk);
        peer->link->window.trunk = NULL;
    }
    for (peer_t **at = &plane->narrows; peer->link != NULL && peer->link->window.waits && *at != NULL;
         at = &(*at)->link->next_narrow) {
        if (*at == peer) {
            *at = peer->link->next_narrow;
            peer->link->window.waits = false;
            return;
        }
    }
}
