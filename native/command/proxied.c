/* proxied.c: connections of a listener that a proxy may stand in front of: whom it speaks for is read before all else.
 *
 *     LISTEN_PROXIED > INFO goes out > header > EVENT_PROXIED > [ SECURE > TLS ] > greeting
 *                                    > none   >                 [ SECURE > TLS ] > greeting
 *                                    > bad    > EVENT_PROXIED with the fault > EVENT_CLOSED
 *
 * Not here: the header's bytes (net/proxied.h), which listeners it is for (control).
 */
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/copies.h"
#include "command/command.h"
#include "command/greeting.h"
#include "exchange/exchange.h"
#include "net/conn.h"
#include "net/proxied.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/secure.h"

#define HEADER_NS (5 * NS_PER_SECOND) /* as in nats-server */

void proxied_begin(plane_t *plane, peer_t *peer) {
    proxied_t *proxied = proxied_new(peer->conn.fd);
    if (proxied == NULL) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a PROXY protocol header"));
        return;
    }
    proxied->until_ns = plane->now.mono_ns + HEADER_NS;
    conn_cover(&peer->conn, &transport_proxied, proxied);
    peer->proxied = proxied;
}

static void tell_proxied(plane_t *plane, const peer_t *peer, const char *address, const char *fault) {
    event_entry_t *entry = event_new(EVENT_PROXIED, bytes_of(address, (uint32_t)strlen(address)), BYTES_NONE,
                                     BYTES_NONE, bytes_of(fault, (uint32_t)strlen(fault)));
    if (entry != NULL) {
        entry->event.target = peer->id;
        event_post(&plane->exchange, entry);
    }
}

static void refuse_proxied(plane_t *plane, peer_t *peer, const char *fault) {
    tell_proxied(plane, peer, "", fault);
    peer_doom_silently(plane, peer, CLOSE_PROTOCOL, BYTES_LITERAL("Error reading PROXY protocol header"));
}

/* From here on it is a connection like others. */
static void end_header(plane_t *plane, peer_t *peer, proxied_t *proxied) {
    if (proxied->address[0] != 0) {
        tell_proxied(plane, peer, proxied->address, "");
        greeting_from(peer, bytes_of(proxied->address, (uint32_t)strlen(proxied->address)));
    }
    conn_cover(&peer->conn, &transport_socket, NULL);
    peer->proxied = NULL;
    if (proxied->secures) {
        secure_texts_t texts = {.behind = proxied->behind};
        secure_peer(plane, peer, &proxied->secure, &texts);
    }
    proxied_drop(proxied);
}

void proxied_look(plane_t *plane, peer_t *peer) {
    if (peer->state == PEER_DOOMED) {
        return;
    }
    if (peer->proxied->stage == PROXIED_FAILED) {
        refuse_proxied(plane, peer, peer->proxied->fault);
    } else if (peer->proxied->stage == PROXIED_DONE) {
        end_header(plane, peer, peer->proxied);
    }
}

void proxied_chores(plane_t *plane, peer_t *peer) {
    if (peer->state != PEER_DOOMED && plane->now.mono_ns >= peer->proxied->until_ns) {
        refuse_proxied(plane, peer, "timeout");
    }
}

bool proxied_waits(plane_t *plane, peer_t *peer, const secure_t *how, const secure_texts_t *texts) {
    proxied_t *proxied = peer->proxied;
    if (proxied == NULL) {
        return false;
    }
    bytes_t behind = bytes_copy(texts->behind);
    if (texts->behind.size != 0 && behind.size == 0) {
        peer_doom_silently(plane, peer, CLOSE_TLS, BYTES_LITERAL("no memory for TLS"));
        return true;
    }
    bytes_release(&proxied->behind);
    proxied->behind = behind;
    proxied->secure = *how;
    proxied->secures = true;
    if ((how->flags & SECURE_FIRST) == 0) {
        peer_send(plane, peer, texts->before);
    }
    peer_release(plane, peer, WAITS_SECURE);
    return true;
}
