/* compress.c: a leaf link becomes an S2 stream, between the INFOs of its two ends.
 *
 *     we dialled:  INFO came > before: our INFO, as it is     > S2 both ways > RESUME > the peer's INFO > CONNECT
 *     it dialled:  INFO came > S2 both ways > behind: our INFO                > RESUME > CONNECT
 *
 * Not here: the stream (net/compress.h), what the INFOs say and which level is chosen (control).
 */
#include "base/abi_types.h"
#include "base/bytes.h"
#include "command/command.h"
#include "exchange/strings.h"
#include "net/compress.h"
#include "net/conn.h"
#include "net/outq.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/protocol.h"

/* Output that waits goes before the compressed stream; input that was not acted on belongs to it. */
static status_t begin_compress(plane_t *plane, peer_t *peer, const compression_t *how) {
    conn_t *conn = &peer->conn;
    if (plane->compress == NULL && (plane->compress = compress_desk_open()) == NULL) {
        return STATUS_NO_MEMORY;
    }
    bytes_t rest = conn_rest(conn);
    compress_wish_t wish = {.how = *how,
                            .stranger = !peer->dialled,
                            .input = rest,
                            .plain_left = outq_pending(&conn->out),
                            .held = &plane->memory.input,
                            .out = &plane->memory.output};
    compress_t *compress = compress_new(plane->compress, &wish, conn->transport, conn->transport_state);
    if (compress == NULL || conn_keep(conn, rest, rest.size) != STATUS_OK) {
        if (compress != NULL) compress_drop(compress);
        return STATUS_NO_MEMORY;
    }
    conn_cover(conn, &transport_compress, compress);
    peer->compress = compress;
    return STATUS_OK;
}

void command_compress(plane_t *plane, const plane_command_t *command, peer_t *peer) {
    compression_t how;
    memcpy(&how, command->body, sizeof(how));
    strings_t strings = strings_of(command);
    bytes_t before = strings_next(&strings), behind = strings_next(&strings);
    if (peer->compress != NULL) {
        compress_change(peer->compress, &how);
        command_done(plane, command, STATUS_OK);
        return;
    }
    if (!peer->protocol->link || peer->state != PEER_WAITING) {
        command_done(plane, command, STATUS_INVALID);
        return;
    }
    if (before.size != 0) {
        peer_send(plane, peer, before);
    }
    status_t status = begin_compress(plane, peer, &how);
    if (status == STATUS_OK && behind.size != 0) {
        peer_send(plane, peer, behind);
    } else if (status != STATUS_OK) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a compressed link"));
    }
    command_done(plane, command, status);
}
