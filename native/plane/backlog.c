/* backlog.c: see backlog.h. */
#include "plane/backlog.h"

#include "base/bytes.h"
#include "net/conn.h"
#include "plane/peer.h"
#include "plane/plane.h"

static void line_up_again(plane_t *plane, peer_t *peer) {
    peer->in_backlog = true;
    peer->next_backlog = NULL;
    *(plane->backlog == NULL ? &plane->backlog : &plane->backlog_last->next_backlog) = peer;
    plane->backlog_last = peer;
    plane->more = true;
}

void backlog_add(plane_t *plane, peer_t *peer) {
    if (!peer->in_backlog) {
        line_up_again(plane, peer);
    }
    peer_want(plane, peer);
}

void backlog_yield(plane_t *plane, peer_t *peer) {
    peer->yielded = true;
    peer->yielded_in = plane->turns;
}

static void act_on_rest(plane_t *plane, peer_t *peer) {
    peer->yielded = false;
    bytes_t input = conn_rest(&peer->conn);
    if (input.size != 0 && peer->state != PEER_DOOMED) {
        peer_act(plane, peer, input);
    }
}

static bool line_takes_long(const plane_t *plane, int64_t since_ns) {
    return plane->threaded && clock_mono_ns() - since_ns > BACKLOG_TIME_NS;
}

void backlog_run(plane_t *plane) {
    const peer_t *last = plane->backlog_last;
    int64_t since_ns = plane->threaded && plane->backlog != NULL ? clock_mono_ns() : 0;
    for (bool more = plane->backlog != NULL; more;) {
        peer_t *peer = plane->backlog;
        plane->backlog = peer->next_backlog;
        peer->in_backlog = false;
        more = peer != last;
        if (peer->yielded && peer->yielded_in == plane->turns) {
            line_up_again(plane, peer);
        } else {
            act_on_rest(plane, peer);
            more = more && !line_takes_long(plane, since_ns);
        }
    }
    plane->more = plane->more || plane->backlog != NULL;
}

void backlog_forget(plane_t *plane, peer_t *peer) {
    peer_t *before = NULL;
    for (peer_t **at = &plane->backlog; peer->in_backlog && *at != NULL; at = &before->next_backlog) {
        if (*at == peer) {
            *at = peer->next_backlog;
            plane->backlog_last = plane->backlog_last == peer ? before : plane->backlog_last;
            return;
        }
        before = *at;
    }
}
