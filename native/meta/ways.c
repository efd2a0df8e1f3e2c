/* ways.c: see ways.h. */
#include "meta/ways.h"

#include <string.h>

#include "net/outq.h"
#include "plane/account.h"
#include "plane/gateway.h"
#include "plane/peer.h"
#include "plane/routed.h"

#define QUEUED_MAX (UINT64_C(4) << 20)

static bool link_has_room(const peer_t *link) {
    return link != NULL && outq_pending(&link->conn.out) <= QUEUED_MAX;
}

static const meta_way_t *ways_entry(const ways_t *ways, uint64_t server) {
    for (uint32_t i = 0; i < ways->count; i++) {
        if (ways->at[i].peer == server) {
            return &ways->at[i];
        }
    }
    return NULL;
}

status_t ways_set(ways_t *ways, const uint8_t *body, uint32_t count) {
    if (count > WAYS_MAX) {
        return STATUS_FULL;
    }
    if (count > 0) {
        memcpy(ways->at, body, count * sizeof *ways->at);
    }
    ways->count = count;
    return STATUS_OK;
}

/* To the server itself, or else to any one of its cluster. */
static peer_t *gateway_for(const ways_t *ways, const plane_t *plane, uint64_t server) {
    peer_t *link = gateway_to(plane, server);
    const meta_way_t *way = link == NULL ? ways_entry(ways, server) : NULL;
    return way == NULL ? link : gateway_into(plane, way->cluster);
}

peer_t *ways_to(const ways_t *ways, const plane_t *plane, const account_t *account, uint64_t server) {
    peer_t *link = routed_to(plane, account, server);
    link = link != NULL ? link : gateway_for(ways, plane, server);
    if (link == NULL) {
        const meta_way_t *way = ways_entry(ways, server);
        link = way == NULL || way->mate == 0 ? NULL : routed_to(plane, account, way->mate);
    }
    return link_has_room(link) ? link : NULL;
}

peer_t *ways_onward(const ways_t *ways, const plane_t *plane, const account_t *account, const peer_t *from,
                    uint64_t server) {
    peer_t *link = from->route != NULL ? gateway_for(ways, plane, server) : routed_to(plane, account, server);
    return link_has_room(link) ? link : NULL;
}

uint64_t ways_server(const peer_t *link) {
    return link->route != NULL ? link->route->peer : link->gateway->peer;
}

bool ways_speaks(const ways_t *ways, const peer_t *link, uint64_t server) {
    if (server == ways_server(link)) {
        return true;
    }
    const meta_way_t *way = ways_entry(ways, server);
    return way != NULL && (link->route != NULL || gateway_is_into(link, way->cluster));
}
