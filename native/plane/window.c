/* window.c: see window.h. */
#include "plane/window.h"

#include <stdlib.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "exchange/exchange.h"
#include "net/outq.h"
#include "plane/budget.h"
#include "plane/lanes.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/protocol.h"

/* A near link that is given more than it carries would reach max_pending some day, and be closed though it lives. From
 * half of it on, what is too much is dropped as on a slow link, until an eighth waits. */
#define CROWDED_FROM 2u
#define CROWDED_UNTIL 8u
#define TURN_NS (2 * WINDOW_WAIT_MIN_NS)

/* ---- pure -------------------------------------------------------------------------------------------------------- */

void window_begin(window_t *window, const tcp_look_t *look, int64_t mono_ns) {
    *window = (window_t){.measured = true,
                         .narrow = look->round_trip_min_ns >= WINDOW_NEAR_NS,
                         .bytes = WINDOW_FIRST,
                         .packet = look->packet != 0 ? look->packet : WINDOW_PACKET,
                         .acked = look->acked,
                         .arrived = look->acked + look->beyond,
                         .looked_ns = mono_ns,
                         .progress_ns = mono_ns,
                         .alive_ns = mono_ns,
                         .drained_ns = mono_ns,
                         .packed = 1,
                         .round_trip_ns = look->round_trip_ns,
                         .round_trip_min_ns = look->round_trip_min_ns};
}

static int64_t look_after(const window_t *window) {
    return window->round_trip_min_ns > WINDOW_LOOK_NS ? window->round_trip_min_ns : WINDOW_LOOK_NS;
}

/* Until what was given is acknowledged, or the socket is looked at again, if that is later. */
static double under_way(const window_t *window) {
    int64_t trip_ns = window->round_trip_min_ns > TURN_NS ? window->round_trip_min_ns : TURN_NS;
    return (double)window->rate * (double)trip_ns / (double)NS_PER_SECOND;
}

static bool is_coarse(const window_t *window) {
    return window->proven && under_way(window) < (double)window->packet;
}

uint64_t window_piece(const window_t *window) {
    uint64_t quarter = window->bytes / 4;
    return is_coarse(window) ? window->packet / 2 : quarter > window->packet ? quarter : window->packet;
}

/* The bytes under way at the window's rate, a quarter and two packets more: one that is being sent, and one behind it.
 * Where packets are half full, one of these does. */
static uint64_t bytes_at(const window_t *window) {
    double bytes = under_way(window) * (window->level < WINDOW_LEVEL ? 2.0 : 1.25)
                   + (is_coarse(window) ? 1.0 : 2.0) * (double)window->packet;
    return bytes > (double)WINDOW_MAX ? (uint64_t)WINDOW_MAX + 1 : (uint64_t)bytes;
}

static void learn_rate(window_t *window, uint64_t sample) {
    bool rises = !window->proven || sample > window->rate + window->rate / 10;
    window->level = rises && window->level < WINDOW_LEVEL ? 0 : window->level + (window->level < WINDOW_LEVEL);
    /* Half of a rise at once: what was acknowledged after a stall comes in a heap, and was not carried as fast. */
    if (sample > window->rate) {
        window->rate = window->proven ? window->rate + (sample - window->rate) / 2 : sample;
    } else {
        window->rate -= (window->rate - sample) / 8;
    }
    window->proven = true;
}

static void learn_width(window_t *window) {
    uint64_t bytes = bytes_at(window);
    if (window->narrow) {
        window->bytes = bytes;
        window->narrow = window->bytes <= WINDOW_MAX
                         && (window->crowded || window->round_trip_min_ns >= WINDOW_NEAR_NS
                             || window->rate < 2 * (uint64_t)WINDOW_SLOW);
    } else if (window->crowded || window->rate < WINDOW_SLOW) {
        window->narrow = true;
        window->bytes = bytes < WINDOW_FIRST ? WINDOW_FIRST : bytes;
    }
}

static bool is_long(int64_t trip_ns, int64_t least_ns) {
    return trip_ns > WINDOW_LONGER * least_ns && trip_ns >= WINDOW_LONGER_NS;
}

/* The time of a full packet, without the time that it takes to be sent; half of it at least. */
static int64_t travel_ns(const window_t *window, int64_t trip_ns) {
    double rate = window->rate != 0 ? (double)window->rate : 1.0;
    double sending = (double)window->packet * (double)NS_PER_SECOND / rate;
    return sending > (double)trip_ns / 2 ? trip_ns / 2 : trip_ns - (int64_t)sending;
}

/* Is it worth a pause to know? Where it is not a longer way, seldom, unless something has happened since. */
static bool asks(const window_t *window, int64_t trip_ns, int64_t mono_ns) {
    int64_t since_ns = mono_ns - window->emptied_ns;
    if (trip_ns > 2 * window->round_trip_ns && trip_ns > WINDOW_GAP_NS) {
        return false; /* an outage, or something that was lost again and again */
    }
    if (window->longer_ns != 0 && since_ns >= WINDOW_DRAIN_NS) {
        return true; /* it may be short again */
    }
    return is_long(travel_ns(window, trip_ns), window->round_trip_min_ns)
           && (since_ns >= window->empty_after_ns
               || (since_ns >= WINDOW_EMPTY_NS / 3 && trip_ns > window->emptied_trip_ns * 3 / 2));
}

static void run_empty(window_t *window, int64_t trip_ns, int64_t mono_ns) {
    int64_t after_ns = window->empty_after_ns == 0 ? WINDOW_EMPTY_NS : 2 * window->empty_after_ns;
    window->empties = true;
    window->emptied_ns = mono_ns;
    window->emptied_trip_ns = trip_ns;
    window->empty_after_ns = after_ns > WINDOW_DRAIN_NS ? WINDOW_DRAIN_NS : after_ns;
    /* By then a lost packet has been sent again. */
    window->resume_ns = mono_ns + 3 * (trip_ns < WINDOW_GAP_NS ? trip_ns : WINDOW_GAP_NS);
}

/* Nothing was learned, since a packet was lost: it is asked again soon. */
static void ask_again(window_t *window) {
    window->empties = false;
    window->emptied_trip_ns = 0;
}

/* Learns from a piece's time whether the way has become longer, or shorter again. least_ns: the kernel's. */
static void learn_way(window_t *window, int64_t trip_ns, int64_t least_ns, int64_t mono_ns) {
    if (window->given_alone) {
        int64_t way_ns = travel_ns(window, trip_ns);
        bool longer = is_long(way_ns, least_ns);
        if (longer && way_ns > window->longer_ns + window->longer_ns / 4) {
            window->level = 0; /* it may carry more than fitted into the window */
        }
        window->longer_ns = longer ? way_ns : 0;
        window->empties = false;
    } else if (trip_ns < window->longer_ns) {
        window->longer_ns = trip_ns;
    } else if (asks(window, trip_ns, mono_ns)) {
        run_empty(window, trip_ns, mono_ns);
    }
}

static void time_piece(window_t *window, const tcp_look_t *look, int64_t mono_ns) {
    bool told = window->given_ns != 0 && look->acked > window->given_end;
    /* A piece that waited behind others only tells that it took longer. */
    bool lost = window->given_ns != 0 && window->given_alone && look->resent != window->given_resent;
    int64_t trip_ns = mono_ns - window->given_ns, unseen_ns = mono_ns - window->seen_ns;
    if (told && !lost && window->proven && unseen_ns <= trip_ns / 4) {
        learn_way(window, trip_ns, look->round_trip_min_ns, mono_ns);
    } else if (lost && window->empties) {
        ask_again(window);
    }
    if (told || lost) {
        window->given_ns = 0;
    }
    window->seen_ns = mono_ns;
    if (window->longer_ns <= look->round_trip_min_ns * 5 / 4) {
        window->longer_ns = 0;
    }
    window->round_trip_min_ns = window->longer_ns != 0 ? window->longer_ns : look->round_trip_min_ns;
}

/* A piece is given to the kernel. */
static void mark_piece(window_t *window, const tcp_look_t *look, int64_t mono_ns) {
    bool alone = look->held == 0;
    if (window->empties && !alone && mono_ns >= window->resume_ns) {
        ask_again(window);
    }
    if (window->given_ns == 0 || alone) {
        window->given_ns = mono_ns;
        window->given_end = look->acked + look->held;
        window->given_resent = look->resent;
        window->given_alone = alone;
    }
}

void window_learn(window_t *window, const tcp_look_t *look, bool waiting, int64_t mono_ns) {
    window->round_trip_ns = look->round_trip_ns;
    time_piece(window, look, mono_ns);
    window->packet = look->packet != 0 ? look->packet : window->packet;
    window->wire = look->wire;
    window->out = look->out;
    window->unsent = look->unsent;
    int64_t took_ns = mono_ns - window->looked_ns;
    if (took_ns < look_after(window)) {
        return;
    }
    uint64_t arrived = look->acked + look->beyond;
    if (look->acked != window->acked || arrived > window->arrived) {
        window->alive_ns = mono_ns;
    }
    if (window->alive_ns == mono_ns || look->held == 0) {
        window->progress_ns = mono_ns;
    }
    window->acked = look->acked;
    uint64_t moved = arrived > window->arrived ? arrived - window->arrived : 0;
    if (window->busy && waiting && moved == 0 && look->held != 0) {
        return; /* the next time that something has arrived says how fast it was */
    }
    if (window->busy && waiting) {
        learn_rate(window, (uint64_t)((double)moved * (double)NS_PER_SECOND / (double)took_ns));
        learn_width(window);
    }
    window->busy = waiting;
    window->arrived = arrived;
    window->looked_ns = mono_ns;
}

/* Is the queue to run empty, so that a round trip is seen without it? Then nothing but what is urgent goes for as long
 * as it takes. */
static bool drains(window_t *window, uint64_t flying, int64_t mono_ns) {
    if (flying == 0 || (flying <= window->packet && !window->empties)) {
        window->drained_ns = mono_ns;
        window->resume_ns = flying == 0 ? mono_ns : window->resume_ns;
    } else if (mono_ns - window->drained_ns > WINDOW_DRAIN_NS) {
        window->drained_ns = mono_ns;
        window->resume_ns = mono_ns + window->round_trip_ns - window->round_trip_min_ns * 7 / 8;
    }
    return mono_ns < window->resume_ns;
}

static uint64_t less(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

static uint64_t gives(window_t *window, const tcp_look_t *look, uint64_t waiting, uint64_t urgent, int64_t mono_ns) {
    uint64_t flying = less(look->held, look->beyond);
    uint64_t limit = drains(window, flying, mono_ns) ? 0 : window->bytes;
    uint64_t room = less(limit, flying);
    if (look->held > 4 * window->bytes) {
        return 0; /* one that is lost again and again: the peer has to keep all behind it */
    }
    if (room >= window_piece(window) || room >= waiting || look->held == 0) {
        return room;
    }
    room = less(limit + window->packet, flying);
    return room < urgent ? room : urgent;
}

uint64_t window_gives(window_t *window, const tcp_look_t *look, uint64_t waiting, uint64_t urgent, int64_t mono_ns) {
    uint64_t room = gives(window, look, waiting, urgent, mono_ns);
    if (room != 0 && waiting != 0) {
        mark_piece(window, look, mono_ns);
    }
    return room;
}

int64_t window_patience_ns(const window_t *window) {
    int64_t trips_ns = window->round_trip_ns * WINDOW_PATIENCE_TRIPS;
    return trips_ns > WINDOW_PATIENCE_NS ? trips_ns : WINDOW_PATIENCE_NS;
}

bool window_doubtful(const window_t *window, int64_t mono_ns) {
    int64_t trips_ns = window->round_trip_ns * WINDOW_DOUBT_TRIPS;
    return mono_ns - window->progress_ns >= (trips_ns > WINDOW_DOUBT_NS ? trips_ns : WINDOW_DOUBT_NS);
}

bool window_dead(const window_t *window, int64_t write_deadline_ns, int64_t mono_ns) {
    int64_t patience_ns = window_patience_ns(window);
    return mono_ns - window->progress_ns >= (write_deadline_ns > patience_ns ? write_deadline_ns : patience_ns)
           && mono_ns - window->alive_ns >= patience_ns + WINDOW_ALIVE_NS;
}

/* Not where the way has become longer than BBR allows for: it begins with the kernel's least round trip, which is that
 * of five minutes. */
bool window_spares(window_t *window, bool waiting, int64_t mono_ns) {
    if (!waiting || !window->narrow || window->round_trip_min_ns < WINDOW_PROBE_TRIP_NS || window->longer_ns != 0
        || window->round_trip_ns > WINDOW_PROBE_WORTH * window->round_trip_min_ns
        || mono_ns - window->spared_ns < WINDOW_PROBE_NS) {
        return false;
    }
    window->spared_ns = mono_ns;
    return true;
}

uint64_t window_saved(window_t *window, uint64_t waiting, int64_t mono_ns) {
    double most = (double)window->pace / 4, packet = (double)window->packet;
    packet = packet > WINDOW_PACKET ? WINDOW_PACKET : packet; /* loopback's are 64 KB */
    most = most < 2 * packet ? 2 * packet : most;
    window->saved += (double)window->pace * (double)(mono_ns - window->saved_ns) / (double)NS_PER_SECOND;
    window->saved -= (double)less(window->out, window->spent);
    window->saved = window->saved > most ? most : window->saved;
    window->saved_ns = mono_ns;
    window->spent = window->out;
    if (window->saved <= 0 || (window->saved < packet && window->saved < (double)waiting)) {
        return 0;
    }
    return (uint64_t)window->saved;
}

/* ---- of a link --------------------------------------------------------------------------------------------------- */

static void expect_the_worst(const peer_t *peer) {
    int64_t again_ns = peer->window.round_trip_ns * WINDOW_AGAIN_TRIPS;
    tcp_expect_loss(peer->conn.fd);
    tcp_expect_outages(peer->conn.fd, again_ns > WINDOW_AGAIN_NS ? again_ns : WINDOW_AGAIN_NS);
}

/* Puts the waiting output into lanes, or takes it out of them. Without memory it stays as it is. */
static void line_up(plane_t *plane, peer_t *peer) {
    bool lanes = peer->window.narrow || peer->window.pace != 0 || peer->budget != NULL;
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
    if (!peer->protocol->link || peer->window.measured || !tcp_look(peer->conn.fd, &look)) {
        return;
    }
    window_begin(&peer->window, &look, plane->now.mono_ns);
    tcp_expect_life(peer->conn.fd, window_patience_ns(&peer->window));
    if (peer->window.narrow) {
        expect_the_worst(peer);
        line_up(plane, peer);
    }
}

/* The bytes that wait, except those that wait for a budget. */
static uint64_t waiting_of(const peer_t *peer) {
    return outq_pending(&peer->conn.out) + (peer->lanes == NULL ? 0 : lanes_going(peer->lanes));
}

/* Holds what the budget no longer permits, or lets it go; tells control when it wanted to hear of it. */
static void reckon(plane_t *plane, peer_t *peer) {
    budget_t *budget = peer->budget;
    uint64_t wire = peer->window.wire;
    if (budget == NULL) {
        return;
    }
    if (peer->lanes != NULL) {
        lanes_hold(peer->lanes, budget_lowest(budget, wire + peer->window.unsent));
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
    window_t *window = &peer->window;
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

static void learn(plane_t *plane, peer_t *peer, const tcp_look_t *seen) {
    window_t *window = &peer->window;
    bool narrow = window->narrow;
    /* A near link has to prove that it is the link that is slow, and not this processor. */
    uint64_t waits = waiting_of(peer), most = peer->conn.out.max_pending;
    bool waiting = waits != 0 && (narrow || seen->held != 0);
    window->crowded = waits > most / (window->crowded ? CROWDED_UNTIL : CROWDED_FROM);
    window_learn(window, seen, waiting, plane->now.mono_ns);
    learn_packed(peer, seen);
    if (window->narrow && !narrow) {
        expect_the_worst(peer);
    }
    if (window_spares(window, waiting, plane->now.mono_ns)) {
        tcp_spare_probe(peer->conn.fd);
    }
    line_up(plane, peer);
    reckon(plane, peer);
}

/* Tells control of a link that we dialled, which may dial another one beside it. */
static void tell_doubt(plane_t *plane, peer_t *peer) {
    window_t *window = &peer->window;
    bool doubted = window_doubtful(window, plane->now.mono_ns);
    if (!peer->dialled || peer->state != PEER_ADMITTED || doubted == window->doubted) {
        return;
    }
    event_entry_t *entry = event_new(EVENT_DOUBTED, BYTES_NONE, BYTES_NONE, BYTES_NONE, BYTES_NONE);
    if (entry != NULL) { /* else at the next look */
        entry->event.target = peer->id;
        entry->event.arg = doubted;
        event_post(&plane->exchange, entry);
        window->doubted = doubted;
    }
}

void window_chores(plane_t *plane, peer_t *peer) {
    window_t *window = &peer->window;
    tcp_look_t seen;
    if (!window->measured) {
        return;
    }
    if (plane->now.mono_ns - window->looked_ns >= look_after(window) && tcp_look(peer->conn.fd, &seen)) {
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
    return chosen > room && chosen - room <= peer->window.packet ? chosen : room;
}

uint64_t window_room(plane_t *plane, peer_t *peer) {
    window_t *window = &peer->window;
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
    if (window->narrow) {
        room = window_gives(window, &seen, waiting, urgent, plane->now.mono_ns);
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

void window_given(plane_t *plane, peer_t *peer) {
    if (peer->full && peer->lanes != NULL && lanes_drained(peer->lanes, window_most(&peer->window))) {
        plane->drained = true;
        plane->more = true;
    }
    if (waiting_of(peer) != 0) {
        window_wait(plane, peer);
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
    if (!peer->window.measured || !tcp_look(peer->conn.fd, &seen)) {
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
    pace_anew(&peer->window, budget->pace, plane->now.mono_ns);
    if (peer->lanes != NULL && peer->budget == NULL) {
        lanes_hold(peer->lanes, LANE_LOW);
    }
    learn(plane, peer, &seen);
    peer_touch(plane, peer);
    return STATUS_OK;
}

void window_dropped(plane_t *plane, peer_t *peer) {
    window_t *window = &peer->window;
    if (window->told_ns != 0 && plane->now.mono_ns - window->told_ns < WINDOW_TELL_NS) {
        return;
    }
    uint64_t dropped = lanes_dropped(peer->lanes);
    event_entry_t *entry = event_new(EVENT_ALARM, BYTES_NONE, BYTES_NONE, BYTES_NONE,
                                     BYTES_LITERAL("more than the link carries: messages are dropped"));
    if (entry != NULL) {
        entry->event.code = ALARM_DROPPED;
        entry->event.target = peer->id;
        entry->event.arg = dropped > window->told ? dropped - window->told : 0;
    }
    event_post(&plane->exchange, entry);
    window->told_ns = plane->now.mono_ns;
    window->told = dropped;
}

void window_pace(plane_t *plane, const peer_t *peer, peer_t *producer) {
    uint64_t waiting = lanes_going(peer->lanes);
    if (producer == NULL || waiting < LANE_MAX / 4 || peer->window.rate < LANE_MAX / 4) {
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
