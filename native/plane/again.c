/* again.c: see again.h. */
#include "plane/again.h"

#include "base/bytes.h"
#include "net/conn.h"
#include "plane/peer.h"
#include "plane/plane.h"

static void line_up_again(plane_t *plane, peer_t *peer) {
    peer->again = true;
    peer->next_again = NULL;
    *(plane->again == NULL ? &plane->again : &plane->again_last->next_again) = peer;
    plane->again_last = peer;
    plane->more = true;
}

void peer_again(plane_t *plane, peer_t *peer) {
    if (!peer->again) {
        line_up_again(plane, peer);
    }
    peer_want(plane, peer);
}

void again_yield(plane_t *plane, peer_t *peer) {
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
    return plane->threaded && clock_mono_ns() - since_ns > AGAIN_TIME_NS;
}

void again_run(plane_t *plane) {
    const peer_t *last = plane->again_last;
    int64_t since_ns = plane->threaded && plane->again != NULL ? clock_mono_ns() : 0;
    for (bool more = plane->again != NULL; more;) {
        peer_t *peer = plane->again;
        plane->again = peer->next_again;
        peer->again = false;
        more = peer != last;
        if (peer->yielded && peer->yielded_in == plane->turns) {
            line_up_again(plane, peer);
        } else {
            act_on_rest(plane, peer);
            more = more && !line_takes_long(plane, since_ns);
        }
    }
    plane->more = plane->more || plane->again != NULL;
}

void again_forget(plane_t *plane, peer_t *peer) {
    peer_t *before = NULL;
    for (peer_t **at = &plane->again; peer->again && *at != NULL; at = &before->next_again) {
        if (*at == peer) {
            *at = peer->next_again;
            plane->again_last = plane->again_last == peer ? before : plane->again_last;
            return;
        }
        before = *at;
    }
}
