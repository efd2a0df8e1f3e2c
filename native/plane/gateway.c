/* gateway.c: see gateway.h. Not here: what inbound gateways are told of interest (routed.c), the names
 * of replies (gateway_reply.c), the verbs of a gateway (verbs/gateway.c), who is dialled (control).
 *
 * An inbound gateway hears of an account's interest in one mode only: what is not told is not wanted. The reference
 * wants to hear that it is so, and takes no plain RS+ of an account before:
 *
 *     INFO {"gateway":ours,"gateway_cmd":2,"gateway_cmd_payload":base64(account)}     all of it comes now
 *     INFO {... "gateway_cmd":3 ...}                                                  that was all
 *     RS+ ..
 *
 * It sends nothing that was not asked for in the meantime either, so both INFO are said at once.
 */
#include <stdlib.h>

#include "plane/gateway.h"

#include "base/check.h"
#include "base/copies.h"
#include "plane/output.h"
#include "plane/plane.h"
#include "text/hash8.h"
#include "text/text.h"
#include "wire/emit.h"

#define TELL_ALL_START 2u
#define TELL_ALL_COMPLETE 3u

/* ---- who this server is ------------------------------------------------------------------------------------------ */

status_t gateways_open(plane_t *plane) {
    plane->gateways = calloc(1, sizeof(*plane->gateways));
    return plane->gateways == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

void gateways_close(plane_t *plane) {
    if (plane->gateways != NULL) {
        bytes_release(&plane->gateways->name);
        free(plane->gateways);
        plane->gateways = NULL;
    }
}

static void hash6(bytes_t name, uint8_t out[GATEWAY_HASH_SIZE]) {
    uint8_t eight[HASH8_SIZE];
    hash8(name, eight);
    memcpy(out, eight, GATEWAY_HASH_SIZE);
}

status_t gateways_name(plane_t *plane, bytes_t cluster, bytes_t server) {
    gateways_t *gateways = plane->gateways;
    if (gateways == NULL || cluster.size == 0 || server.size == 0) {
        return STATUS_INVALID;
    }
    bytes_t own;
    if (!bytes_copy_all(&own, &cluster, 1)) {
        return STATUS_NO_MEMORY;
    }
    bytes_release(&gateways->name);
    gateways->name = own;
    memcpy(gateways->prefix, "_GR_.", GATEWAY_CLUSTER_AT);
    hash6(cluster, gateways->prefix + GATEWAY_CLUSTER_AT);
    gateways->prefix[GATEWAY_SERVER_AT - 1] = '.';
    hash6(server, gateways->prefix + GATEWAY_SERVER_AT);
    gateways->prefix[GATEWAY_PREFIX_SIZE - 1] = '.';
    return STATUS_OK;
}

/* ---- ways of replies, by their names ----------------------------------------------------------------------------- */

peer_t *gateway_towards(const plane_t *plane, bytes_t subject) {
    for (peer_t *peer = plane->gateways->outbound; peer != NULL; peer = peer->gateway->next_gateway) {
        if (memcmp(subject.at + GATEWAY_CLUSTER_AT, peer->gateway->cluster, GATEWAY_HASH_SIZE) == 0) {
            return peer;
        }
    }
    return NULL;
}

peer_t *gateway_to(const plane_t *plane, uint64_t server) {
    for (peer_t *peer = plane->gateways == NULL ? NULL : plane->gateways->outbound; peer != NULL;
         peer = peer->gateway->next_gateway) {
        if (peer->gateway->peer == server && peer->gateway->up) {
            return peer;
        }
    }
    return NULL;
}

bool gateway_is_into(const peer_t *gateway, uint64_t cluster) {
    uint8_t name[HASH8_SIZE];
    store_be64(name, cluster);
    return memcmp(name, gateway->gateway->cluster, GATEWAY_HASH_SIZE) == 0;
}

peer_t *gateway_into(const plane_t *plane, uint64_t cluster) {
    for (peer_t *peer = plane->gateways == NULL ? NULL : plane->gateways->outbound; peer != NULL;
         peer = peer->gateway->next_gateway) {
        if (peer->gateway->up && peer->gateway->peer != 0 && gateway_is_into(peer, cluster)) {
            return peer;
        }
    }
    return NULL;
}

bool gateway_is_own_cluster(const plane_t *plane, bytes_t subject) {
    return memcmp(subject.at, plane->gateways->prefix, GATEWAY_SERVER_AT) == 0;
}

bool gateway_is_own_server(const plane_t *plane, bytes_t subject) {
    return memcmp(subject.at, plane->gateways->prefix, GATEWAY_PREFIX_SIZE) == 0;
}

/* ---- connections that come and go -------------------------------------------------------------------------------- */

status_t gateway_joined(plane_t *plane, peer_t *peer, gateway_link_t *link, bytes_t cluster) {
    peer_t **list = link->outbound ? &plane->gateways->outbound : &plane->gateways->inbound;
    peer->gateway = link;
    peer->server = true;
    link->plane = plane;
    hash6(cluster, link->cluster);
    link->at_gateway = list;
    link->next_gateway = *list;
    if (*list != NULL) {
        (*list)->gateway->at_gateway = &link->next_gateway;
    }
    *list = peer;
    plane->gateways->unheard++;
    if (!link->outbound) {
        routed_tell_gateway(plane, peer);
        return STATUS_OK;
    }
    plane->outbound_count++;
    link->told_all = true;
    return publish_reserve_links(plane, 0);
}

/* The longest of all: an answer comes by whichever gateway is nearest to the responder. */
static void note_far(gateways_t *gateways) {
    const peer_t *lists[] = {gateways->outbound, gateways->inbound};
    gateways->far_ns = 0;
    for (uint32_t i = 0; i < 2; i++) {
        for (const peer_t *peer = lists[i]; peer != NULL; peer = peer->gateway->next_gateway) {
            gateways->far_ns = peer->rtt_ns > gateways->far_ns ? peer->rtt_ns : gateways->far_ns;
        }
    }
}

void gateway_answered(plane_t *plane, const peer_t *peer) {
    gateways_t *gateways = plane->gateways;
    note_far(gateways);
    if (!peer->gateway->heard) {
        int64_t until_ns = plane->now.mono_ns + GATEWAY_YOUNG_TRIPS * peer->rtt_ns;
        peer->gateway->heard = true;
        gateways->unheard--;
        gateways->met_ns = until_ns > gateways->met_ns ? until_ns : gateways->met_ns;
    }
}

void gateway_left(plane_t *plane, peer_t *peer) {
    gateway_link_t *link = peer->gateway;
    *link->at_gateway = link->next_gateway;
    if (link->next_gateway != NULL) {
        link->next_gateway->gateway->at_gateway = link->at_gateway;
    }
    plane->outbound_count -= link->outbound;
    plane->gateways->unheard -= !link->heard;
    note_far(plane->gateways);
    peer->gateway = NULL;
    peer->server = false;
    table_free(&link->begun);
    free(link);
}

/* ---- what it is told of accounts --------------------------------------------------------------------------------- */

static void add_base64(text_t *text, bytes_t raw) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (uint32_t i = 0; i < raw.size; i += 3) {
        uint32_t left = raw.size - i, three = (uint32_t)raw.at[i] << 16;
        three |= left > 1 ? (uint32_t)raw.at[i + 1] << 8 : 0;
        three |= left > 2 ? raw.at[i + 2] : 0;
        const uint8_t four[4] = {(uint8_t)digits[three >> 18], (uint8_t)digits[three >> 12 & 63],
                                 left > 1 ? (uint8_t)digits[three >> 6 & 63] : (uint8_t)'=',
                                 left > 2 ? (uint8_t)digits[three & 63] : (uint8_t)'='};
        text_add(text, bytes_of(four, 4));
    }
}

static void add_command(text_t *text, const gateways_t *gateways, const account_t *account, uint32_t command) {
    text_add_literal(text, "INFO {\"gateway\":\"");
    text_add_escaped(text, gateways->name);
    text_add_literal(text, "\",\"gateway_cmd\":");
    text_add_number(text, command);
    text_add_literal(text, ",\"gateway_cmd_payload\":\"");
    add_base64(text, account->name);
    text_add_literal(text, "\"}\r\n");
}

status_t gateway_begin(peer_t *peer, const account_t *account) {
    gateway_link_t *link = peer->gateway;
    if (LEAF_LIKELY(table_find(&link->begun, account->mark) != NULL)) {
        return STATUS_OK;
    }
    text_t text = {0};
    add_command(&text, link->plane->gateways, account, TELL_ALL_START);
    add_command(&text, link->plane->gateways, account, TELL_ALL_COMPLETE);
    bytes_t both = text_bytes(&text);
    if (both.size == 0) {
        return STATUS_INVALID; /* a name of thousands of bytes: nobody hears of this account */
    }
    status_t status = table_put(&link->begun, account->mark, link);
    return status == STATUS_OK ? buffer_append(&peer->conn.out.data, both.at, both.size) : status;
}
