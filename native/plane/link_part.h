/* link_part.h: what a leaf, a route or a gateway has and no client: a box has thousands of clients, and a link or two.
 *
 * It is there from when the connection is known to be a link's until it is freed. Here to be placed, each in its room:
 * interest.c, window.c, links_out.h, verbs/links.c, verbs/mqtt_far.c.
 */
#ifndef LEAFD_PLANE_LINK_PART_H
#define LEAFD_PLANE_LINK_PART_H

#include <stdint.h>

#include "base/bytes.h"
#include "plane/interest.h"
#include "plane/peer.h"
#include "plane/window.h"
#include "wire/op.h"

#define NOTED_BYTES_MAX 64u

/* The message that comes next over a route, or soon, and whose publisher waits until streams here have it on disk. */
typedef struct noted {
    uint32_t mark; /* 0: none */
    uint8_t left;  /* of the messages that may come before it */
    uint8_t size;
    uint8_t at[NOTED_BYTES_MAX]; /* where they answer */
} noted_t;

typedef struct link_part {
    hearing_t hearing; /* what it has been told of interest */
    /* Leafs: origin cluster and own $LDS; own copies. A route's cluster is that of the leafs which the line speaks for
     * that is being acted on, if any, and not its own: routed_speaks(). */
    bytes_t cluster;
    bytes_t lds;
    window_t window; /* how much may be under way to it */
    peer_t *next_narrow;
    /* second of its -ERR lines, how many of them control was told, and how many not */
    int64_t errors_ns;
    uint32_t errors_told;
    uint32_t errors_untold;
    noted_t noted;
    bytes_t queues[OP_QUEUES_MAX]; /* the groups that a message is for, peer->queue_count of them */
} link_part_t;

/* The cluster for which its messages speak; empty: none, or it is a client. */
static inline bytes_t link_cluster(const peer_t *peer) {
    return peer == NULL || peer->link == NULL ? BYTES_NONE : peer->link->cluster;
}

#endif
