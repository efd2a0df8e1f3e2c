/* secure.c: TLS for connections: the contexts that control made, the connections that get one, and what a handshake's
 * end means for a peer.
 *
 *     LISTEN_SECURE > peer is not read > SECURE > transport_tls > EVENT_SECURED > greeting
 *                                                              > EVENT_CLOSED with the reason
 *
 * Not here: handshakes (net/tls.h), the commands (command/secure.c), files and when to use TLS
 * (control).
 */
#include "plane/secure.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/copies.h"
#include "exchange/exchange.h"
#include "base/table.h"
#include "net/conn.h"
#include "net/tcp.h"
#include "net/tls.h"
#include "plane/output.h"
#include "plane/peer.h"

#define SEATS_SHARE 4u /* of memory_limit, beside it: a thousand devices of a slow line come back at the same moment */

/* ---- contexts ---------------------------------------------------------------------------------------------------- */

status_t secure_put(plane_t *plane, uint64_t number, tls_context_t *context) {
    tls_context_t *before = table_find(&plane->tls_contexts, number);
    status_t status = plane->tls != NULL ? STATUS_OK : tls_desk_open(&plane->tls);
    if (status == STATUS_OK) {
        tls_desk_seat(plane->tls, plane->limits.memory_limit / SEATS_SHARE);
    }
    if (status == STATUS_OK && context != NULL) {
        status = table_put(&plane->tls_contexts, number, context);
    }
    if (status != STATUS_OK) {
        tls_context_release(context);
        return status;
    }
    if (context == NULL) {
        table_drop(&plane->tls_contexts, number);
    }
    tls_context_release(before);
    return STATUS_OK;
}

void secure_close(plane_t *plane) {
    map_walk_t walk = {0};
    for (tls_context_t *context; (context = table_next(&plane->tls_contexts, &walk)) != NULL;) {
        tls_context_release(context);
    }
    table_free(&plane->tls_contexts);
    tls_desk_close(plane->tls);
    plane->tls = NULL;
}

/* ---- a connection's handshake ------------------------------------------------------------------------------------ */

/* Puts TLS between socket and peer; the text that goes before it is sent at once, if it can be: it is a line at most.
 */
static status_t put_transport(plane_t *plane, peer_t *peer, tls_t *tls) {
    peer_flush(plane, peer);
    return peer->state == PEER_DOOMED ? STATUS_CLOSED : conn_switch(&peer->conn, &transport_tls, tls);
}

static status_t begin(plane_t *plane, peer_t *peer, const secure_t *how, const secure_texts_t *texts) {
    tls_context_t *context = table_find(&plane->tls_contexts, how->context);
    if (context == NULL || peer->tls != NULL) {
        return STATUS_INVALID;
    }
    tcp_look_t line;
    tls_wish_t wish = {.flags = how->flags,
                       .wait_ns = how->wait_ns,
                       .before = texts->before,
                       .name = texts->name,
                       .share = &plane->memory.output,
                       .tag = peer,
                       .round_trip_ns = tcp_look(peer->conn.fd, &line) ? line.round_trip_ns : 0};
    tls_t *tls = tls_new(plane->tls, context, &wish);
    bytes_t kept = bytes_copy(texts->behind);
    if (tls == NULL || (texts->behind.size != 0 && kept.size == 0)) {
        if (tls != NULL) {
            transport_tls.close(tls, -1);
        }
        return STATUS_NO_MEMORY;
    }
    status_t status = put_transport(plane, peer, tls);
    if (status != STATUS_OK) {
        transport_tls.close(tls, -1);
        bytes_release(&kept);
        return status;
    }
    peer->tls = tls;
    peer->behind = kept;
    peer->secure_until_ns = plane->now.mono_ns + tls_context_timeout_ns(context) + how->wait_ns;
    peer_release(plane, peer, WAITS_SECURE);
    peer_flush(plane, peer); /* lets it begin */
    return STATUS_OK;
}

void secure_peer(plane_t *plane, peer_t *peer, const secure_t *how, const secure_texts_t *texts) {
    if (peer->excess) {
        peer_send_urgent(plane, peer, texts->before);
        peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("maximum connections exceeded"));
        return;
    }
    status_t status = begin(plane, peer, how, texts);
    if (status != STATUS_OK) {
        peer_doom_silently(plane, peer, CLOSE_TLS,
                           status == STATUS_NO_MEMORY ? BYTES_LITERAL("no memory for TLS")
                           : status == STATUS_INVALID ? BYTES_LITERAL("input came before the TLS handshake")
                                                      : BYTES_LITERAL("output was left before the TLS handshake"));
    }
}

static void tell_secured(plane_t *plane, peer_t *peer) {
    tls_facts_t facts = {0};
    bool plain = tls_outcome(peer->tls) == TLS_PLAIN;
    if (!plain) {
        tls_facts(peer->tls, &facts);
    }
    bytes_t cipher = plain ? BYTES_NONE : bytes_of(facts.cipher, (uint32_t)strlen(facts.cipher));
    event_entry_t *entry = event_new(EVENT_SECURED, cipher, BYTES_NONE, facts.chain, facts.certificate);
    if (entry == NULL) {
        tls_facts_free(&facts);
        peer_doom_silently(plane, peer, CLOSE_TLS, BYTES_LITERAL("no memory for a login"));
        return;
    }
    entry->event.target = peer->id;
    bool first = !plain && !tls_said_before(peer->tls);
    entry->event.code =
        (plain ? SECURED_PLAIN : 0u) | (facts.resumed ? SECURED_RESUMED : 0u) | (first ? SECURED_FIRST : 0u);
    entry->event.arg = facts.version;
    entry->event.arg2 = facts.bytes_in + facts.bytes_out;
    peer_tell(plane, peer, entry);
    tls_facts_free(&facts);
    if (peer->behind.size != 0 && !tls_said_before(peer->tls)) {
        peer_send(plane, peer, peer->behind);
    }
    bytes_release(&peer->behind);
}

bool secure_late(plane_t *plane, peer_t *peer) {
    if (plane->now.mono_ns < peer->secure_until_ns || !tls_hurries(peer->tls)) {
        return false;
    }
    tls_give_up(peer->tls);
    secure_look(plane, peer);
    return peer->state == PEER_DOOMED;
}

void secure_look(plane_t *plane, peer_t *peer) {
    if (peer->secure_until_ns == 0 || peer->state == PEER_DOOMED) {
        return;
    }
    switch (tls_outcome(peer->tls)) {
    case TLS_GOING: return;
    case TLS_OPEN:
    case TLS_PLAIN:
        peer->secure_until_ns = 0;
        tell_secured(plane, peer);
        return;
    case TLS_FAILED:
    default: peer->secure_until_ns = 0;
    }
    if (tls_throttled(peer->tls)) {
        peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("Connection throttling is active. Please try again later."));
    } else {
        peer_doom_silently(plane, peer, CLOSE_TLS, tls_reason(peer->tls));
    }
}

bytes_t secure_reason(const peer_t *peer) {
    return peer->tls == NULL ? BYTES_NONE : tls_reason(peer->tls);
}

/* Thousands may be late at once: so many end in a turn, the others in the next ones. */
#define LATE_MAX 128u

void secure_chores(plane_t *plane, peer_t *peer) {
    if (plane->now.mono_ns >= peer->secure_until_ns) {
        if (plane->late_left == 0) {
            plane->next_chores_ns = plane->now.mono_ns + NS_PER_MS;
            return;
        }
        plane->late_left--;
        tls_give_up(peer->tls);
    }
    secure_look(plane, peer); /* another may have taken its place */
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

void secure_turn(plane_t *plane) {
    if (plane->tls == NULL) {
        return;
    }
    plane->late_left = LATE_MAX;
    tls_desk_turn(plane->tls, plane->now.mono_ns);
}

void secure_call(plane_t *plane) {
    if (plane->tls == NULL) {
        return;
    }
    for (peer_t *peer; (peer = tls_desk_next(plane->tls)) != NULL;) {
        peer_flush(plane, peer);
    }
}

int64_t secure_deadline(const plane_t *plane) {
    return plane->tls == NULL ? INT64_MAX : tls_desk_deadline(plane->tls);
}
