/* web.c: a connection that begins with HTTP: its head goes to control, which decides; then it speaks WebSocket.
 *
 *     LISTEN_WEB > [ TLS ] > head of a request > EVENT_LINE, LINE_HTTP > UPGRADE > client or leaf link
 *                                                                      > SEND an error, CLOSE
 *     we dial > [ TLS ] > SEND a request > head of an answer > EVENT_LINE, LINE_HTTP > UPGRADE > leaf link
 *
 * Before that nothing is kept but a head of HTTP_HEAD_MAX bytes. Not here: what heads say (control),
 * frames (net/websocket.h).
 */
#include "plane/web.h"

#include <string.h>

#include "base/abi_types.h"
#include "base/status.h"
#include "exchange/exchange.h"
#include "net/conn.h"
#include "net/outq.h"
#include "net/websocket.h"
#include "plane/peer.h"
#include "plane/protocol.h"

#define INFLATED_PAYLOADS 8u /* of max_payload may be in one compressed message */

/* ---- the head ---------------------------------------------------------------------------------------------------- */

/* The end of the empty line behind a head; 0: it has not come. */
static uint32_t head_end(bytes_t input) {
    const uint8_t *end = memmem(input.at, input.size, "\r\n\r\n", 4);
    return end == NULL ? 0 : (uint32_t)(end - input.at) + 4;
}

/* A head is text: a record of TLS or MQTT's CONNECT is not, and its sender waits for an answer. */
static bool is_text(bytes_t input) {
    return input.size == 0 || input.at[0] >= ' ' || input.at[0] == '\r' || input.at[0] == '\n';
}

static uint32_t http_input(plane_t *plane, peer_t *peer, bytes_t input) {
    if (peer->state != PEER_GREETING) {
        return 0;
    }
    if (!is_text(input)) {
        peer_doom_silently(plane, peer, CLOSE_PROTOCOL, BYTES_LITERAL("no HTTP: TLS, maybe, and there is none here"));
        return 0;
    }
    uint32_t end = head_end(input);
    if (end > HTTP_HEAD_MAX || (end == 0 && input.size >= HTTP_HEAD_MAX)) {
        peer_doom_silently(plane, peer, CLOSE_PROTOCOL, BYTES_LITERAL("the HTTP head is too long"));
        return 0;
    }
    if (end == 0) {
        return 0;
    }
    event_entry_t *entry = event_new(EVENT_LINE, BYTES_NONE, BYTES_NONE, BYTES_NONE, bytes_of(input.at, end));
    if (entry == NULL) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a login"));
        return 0;
    }
    entry->event.target = peer->id;
    entry->event.code = LINE_HTTP;
    event_post(&plane->exchange, entry);
    peer_pause(plane, peer);
    return end;
}

static status_t http_says_nothing(buffer_t *out) {
    (void)out;
    return STATUS_OK;
}

static status_t http_refuses_silently(buffer_t *out, bytes_t text) {
    (void)out;
    (void)text;
    return STATUS_OK;
}

static status_t http_emits_nothing(peer_t *peer, outq_t *out, const subscription_t *one, const message_t *message) {
    (void)peer;
    (void)out;
    (void)one;
    (void)message;
    return STATUS_INVALID;
}

const protocol_t protocol_http = {.input = http_input,
                                  .emit = http_emits_nothing,
                                  .ping = http_says_nothing,
                                  .refuse = http_refuses_silently,
                                  .control_line_factor = 1,
                                  .pending_factor = 1,
                                  .first_ping_ns = INT64_MAX / 2,
                                  .credit = &credit_client,
                                  .greeting_max = HTTP_HEAD_MAX,
                                  .wire = WIRE_CLIENT};

/* ---- the upgrade to WebSocket ------------------------------------------------------------------------------------ */

static bytes_t stack(plane_t *plane, peer_t *peer, uint32_t flags) {
    conn_t *conn = &peer->conn;
    bytes_t rest = conn_rest(conn);
    if (rest.size != 0 && (flags & WEBSOCKET_CLIENT) == 0) {
        return BYTES_LITERAL("client sent data before handshake is complete");
    }
    if (plane->web == NULL && (plane->web = websocket_desk_open()) == NULL) {
        return BYTES_LITERAL("no memory for a WebSocket");
    }
    websocket_wish_t wish = {.flags = flags,
                             .inflated_max = (uint64_t)plane->limits.max_payload * INFLATED_PAYLOADS,
                             .input = rest,
                             .share = &plane->memory.input,
                             .stranger = (flags & WEBSOCKET_CLIENT) == 0};
    websocket_t *websocket = websocket_new(plane->web, &wish, conn->transport, conn->transport_state);
    if (websocket == NULL || conn_keep(conn, rest, rest.size) != STATUS_OK) {
        if (websocket != NULL) websocket_drop(websocket);
        return BYTES_LITERAL("no memory for a WebSocket");
    }
    if (conn_stack(conn, &transport_websocket, websocket) != STATUS_OK) {
        websocket_drop(websocket);
        return BYTES_LITERAL("the answer to the HTTP request does not get through");
    }
    peer->web = websocket;
    return BYTES_NONE;
}

void web_upgrade(plane_t *plane, peer_t *peer, uint32_t flags, uint32_t kind, bytes_t answer) {
    bool known = kind == CONN_CLIENT || kind == CONN_LEAF || kind == CONN_MQTT;
    if (!known || peer->protocol != &protocol_http || peer->state != PEER_WAITING) {
        peer_doom_silently(plane, peer, CLOSE_PROTOCOL, BYTES_LITERAL("no HTTP request came before the upgrade"));
        return;
    }
    if (answer.size != 0) {
        peer_send(plane, peer, answer);
        peer_flush(plane, peer);
    }
    bytes_t why = peer->state == PEER_DOOMED ? BYTES_NONE : stack(plane, peer, flags);
    if (why.size != 0) {
        peer_doom_silently(plane, peer, CLOSE_PROTOCOL, why);
    } else if (peer->state != PEER_DOOMED && peer_becomes(plane, peer, kind) != STATUS_OK) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a login"));
    } else if (kind == CONN_MQTT && (flags & WEB_KNOWN) != 0) {
        peer->greeted = true;
    }
}

/* ---- the end of a connection ------------------------------------------------------------------------------------- */

void web_farewell(peer_t *peer) {
    if (peer->web == NULL) {
        return;
    }
    uint16_t status;
    switch (peer->close_reason) {
    case CLOSE_CLIENT: status = 1000; break;
    case CLOSE_PROTOCOL: status = 1002; break;
    case CLOSE_AUTHENTICATION:
    case CLOSE_SLOW:
    case CLOSE_LIMIT:
    case CLOSE_PERMISSION: status = 1008; break;
    case CLOSE_STALE:
    case CLOSE_WRITE:
    case CLOSE_SHUTDOWN: status = 1001; break;
    default: status = 1011;
    }
    websocket_why(peer->web, status, peer->close_text);
}

bytes_t web_fault(const peer_t *peer) {
    return peer->web == NULL ? BYTES_NONE : websocket_fault(peer->web);
}

void web_close(plane_t *plane) {
    websocket_desk_close(plane->web);
    plane->web = NULL;
}
