/* Invariant: whatever a stranger sends where WebSocket begins, control gets the head of one HTTP request or none, the
 * same one in whatever pieces it comes, of HTTP_HEAD_MAX bytes at most; behind an upgrade there is a WebSocket or a
 * connection that ends. */
#include <stddef.h>

#include "base/check.h"
#include "fuzz_input.h"
#include "net/websocket.h"
#include "plane/web.h"
#include "plane_rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FILLER_MAX (20u * 1024u)

typedef struct asked {
    uint8_t head[HTTP_HEAD_MAX];
    uint32_t size; /* 0: control heard of none */
} asked_t;

/* The driver's part: what came is put to what is there, as much as may be read. */
static void hand_over(plane_t *plane, uint64_t id, bytes_t sent, size_t piece) {
    for (peer_t *peer; sent.size != 0 && (peer = peer_find(plane, id)) != NULL && peer->state == PEER_GREETING;) {
        size_t room = peer->conn.read_max - (size_t)peer->conn.rest.size;
        size_t part = sent.size < piece ? sent.size : piece;
        part = part < room ? part : room;
        check(part != 0); /* it would have been refused before it was full */
        check(buffer_append(&peer->conn.rest, sent.at, part) == STATUS_OK);
        sent = bytes_after(sent, (uint32_t)part);
        bytes_t input = conn_rest(&peer->conn);
        uint32_t used = peer_input(plane, peer, input);
        check(conn_keep(&peer->conn, input, used) == STATUS_OK);
        core_settle(plane);
    }
}

static void ask(plane_t *plane, bytes_t sent, size_t piece, uint32_t flags, uint32_t kind, asked_t *asked) {
    peer_t *peer = peer_new(plane, -1, CONN_CLIENT | LISTEN_WEB, 1, BYTES_LITERAL("test:1"));
    check(peer != NULL);
    uint64_t id = peer->id;
    hand_over(plane, id, sent, piece);
    asked->size = 0;
    for (plane_event_t event; rig_event(plane, EVENT_LINE, &event);) {
        check(event.target == id && event.code == LINE_HTTP && asked->size == 0);
        check(event.payload_size >= 4 && event.payload_size <= HTTP_HEAD_MAX);
        memcpy(asked->head, event.payload, event.payload_size);
        asked->size = event.payload_size;
    }
    peer = peer_find(plane, id);
    if (peer != NULL) {
        web_upgrade(plane, peer, flags, kind, BYTES_NONE);
        check(peer->state == PEER_DOOMED
              || (peer->web != NULL && asked->size != 0 && peer->protocol != &protocol_http));
        peer_doom_silently(plane, peer, CLOSE_CLIENT, BYTES_NONE);
        core_settle(plane);
    }
    check(peer_find(plane, id) == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static plane_t *plane;
    static asked_t whole, cut;
    static uint8_t sent[FILLER_MAX + 4096];
    if (size < 4 || size > 4096) {
        return 0;
    }
    if (setjmp(test_escape) != 0) {
        abort(); /* a CHECK of the rig */
    }
    if (plane == NULL) {
        plane = rig_open(NULL, "");
    }
    fuzz_input_t input = {data, size};
    uint32_t flags = fuzz_byte(&input) & (WEBSOCKET_CLIENT | WEBSOCKET_UNMASKED | WEBSOCKET_DEFLATE);
    size_t filler = fuzz_byte(&input) * 80u, piece = 1u + fuzz_byte(&input) * 8u;
    uint32_t kind = fuzz_byte(&input) % 4;
    bytes_t rest = fuzz_slice(&input, 4096);
    memset(sent, 'x', filler);
    memcpy(sent + filler, rest.at, rest.size);
    bytes_t all = bytes_of(sent, (uint32_t)(filler + rest.size));
    ask(plane, all, SIZE_MAX, flags, kind, &whole);
    ask(plane, all, piece, flags, kind, &cut);
    check(whole.size == cut.size && memcmp(whole.head, cut.head, whole.size) == 0);
    return 0;
}
