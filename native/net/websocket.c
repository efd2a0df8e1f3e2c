/* websocket.c: see websocket.h: the transport's operations, and the frames that are sent.
 *
 * What a server sends in plain goes out from where it is, behind the head of a frame. What is masked, compressed or cut
 * for a browser goes into frames on the thread's desk, from there to the transport below, and what that one does not
 * take is kept by the connection: it is less than DESK_OUT_SIZE, and nothing more is taken before it is gone.
 */
#include "net/websocket.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/random.h"
#include "net/loop.h"
#include "net/websocket_private.h"

/* ---- the desk: what all connections share ------------------------------------------------------------------------ */

websocket_desk_t *websocket_desk_open(void) {
    websocket_desk_t *desk = calloc(1, sizeof(*desk));
    if (desk == NULL) {
        return NULL;
    }
    desk->in = malloc(DESK_SIZE);
    desk->out = malloc(DESK_OUT_SIZE);
    desk->packed = malloc(DESK_OUT_SIZE);
    if (desk->in == NULL || desk->out == NULL || desk->packed == NULL) {
        websocket_desk_close(desk);
        return NULL;
    }
    return desk;
}

void websocket_desk_close(websocket_desk_t *desk) {
    if (desk == NULL) {
        return;
    }
    deflater_free(desk->deflater);
    inflater_free(desk->spare);
    free(desk->in);
    free(desk->out);
    free(desk->packed);
    free(desk);
}

/* ---- a connection ------------------------------------------------------------------------------------------------ */

websocket_t *websocket_new(websocket_desk_t *desk, const websocket_wish_t *wish, const transport_t *under,
                           void *under_state) {
    websocket_t *websocket = calloc(1, sizeof(*websocket));
    if (websocket == NULL) {
        return NULL;
    }
    websocket->desk = desk;
    websocket->under = under;
    websocket->under_state = under_state;
    websocket->flags = wish->flags;
    websocket->inflated_max = wish->inflated_max;
    websocket->status = CLOSE_NORMAL;
    websocket->stranger = wish->stranger;
    buffer_init(&websocket->held, UINT64_MAX);
    buffer_count(&websocket->held, wish->share);
    buffer_init(&websocket->out, UINT64_MAX);
    buffer_count(&websocket->out, wish->share);
    /* Masks are no secret, but a page must not foresee what goes over the wire (RFC 6455 10.3). */
    if (getrandom(&websocket->random, sizeof websocket->random, 0) != (ssize_t)sizeof websocket->random) {
        websocket->random = (uint64_t)(uintptr_t)websocket;
    }
    websocket->random |= 1;
    if (buffer_append(&websocket->held, wish->input.at, wish->input.size) != STATUS_OK) {
        websocket_drop(websocket);
        return NULL;
    }
    return websocket;
}

void websocket_admitted(websocket_t *websocket) {
    websocket->stranger = false;
    inflater_known(websocket->desk, websocket->inflater);
}

void websocket_drop(websocket_t *websocket) {
    inflater_give(websocket->desk, websocket->inflater);
    buffer_free(&websocket->held);
    buffer_free(&websocket->out);
    free(websocket);
}

void websocket_why(websocket_t *websocket, uint16_t status, bytes_t text) {
    if (!websocket->ended) {
        websocket->status = status;
        websocket->text = text;
    }
}

bytes_t websocket_fault(const websocket_t *websocket) {
    return websocket->fault;
}

/* ---- receiving --------------------------------------------------------------------------------------------------- */

/* Frames lose their heads where they are. */
static status_t receive_plain(websocket_t *websocket, int fd, uint8_t *to, size_t room, size_t *got) {
    size_t size = 0;
    status_t status = websocket->under->receive(websocket->under_state, fd, to, room, &size);
    if (status == STATUS_OK) {
        size_t used = websocket_frames(websocket, to, size, to, room, got);
        check(used == size || websocket->ended);
    }
    return status;
}

/* From what is held, or by way of the desk: what comes out may be more than what went in. */
static status_t receive_held(websocket_t *websocket, int fd, uint8_t *to, size_t room, size_t *got) {
    buffer_t *held = &websocket->held;
    if (held->size != 0 || websocket->inflates || websocket->ending) {
        size_t used = websocket_frames(websocket, held->at, (size_t)held->size, to, room, got);
        buffer_consume(held, used);
        buffer_trim(held, 0);
        return STATUS_OK;
    }
    size_t size = 0;
    status_t status = websocket->under->receive(websocket->under_state, fd, websocket->desk->in, DESK_SIZE, &size);
    if (status == STATUS_OK) {
        size_t used = websocket_frames(websocket, websocket->desk->in, size, to, room, got);
        if (buffer_append(held, websocket->desk->in + used, size - used) != STATUS_OK) {
            return STATUS_CLOSED;
        }
    }
    return status;
}

static status_t web_receive(void *state, int fd, uint8_t *to, size_t room, size_t *got) {
    websocket_t *websocket = state;
    *got = 0;
    if (websocket->ended) {
        return STATUS_CLOSED;
    }
    bool plain = (websocket->flags & WEBSOCKET_DEFLATE) == 0 && websocket->held.size == 0;
    status_t status = plain ? receive_plain(websocket, fd, to, room, got) : receive_held(websocket, fd, to, room, got);
    if (*got != 0) {
        return STATUS_OK; /* the end, if there is one, comes with the next call: it is pending */
    }
    if (status == STATUS_OK) {
        return websocket->ended ? STATUS_CLOSED : STATUS_AGAIN;
    }
    return status;
}

static size_t web_pending(const void *state) {
    const websocket_t *websocket = state;
    size_t own = (size_t)websocket->held.size + (websocket->inflates || websocket->ending || websocket->ended);
    return own + websocket->under->pending(websocket->under_state);
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

static uint8_t *put_head(websocket_t *websocket, uint8_t *to, uint8_t first, size_t size, uint8_t key[4]) {
    uint8_t masked = 0;
    memset(key, 0, 4);
    if ((websocket->flags & WEBSOCKET_CLIENT) != 0 && (websocket->flags & WEBSOCKET_UNMASKED) == 0) {
        uint64_t random = random_next(&websocket->random);
        memcpy(key, &random, 4);
        masked = FRAME_MASKED;
    }
    *to++ = first;
    if (size <= 125) {
        *to++ = (uint8_t)(masked | size);
    } else if (size <= UINT16_MAX) {
        *to++ = masked | 126;
        store_be16(to, (uint16_t)size);
        to += 2;
    } else {
        *to++ = masked | 127;
        store_be64(to, size);
        to += 8;
    }
    if (masked != 0) {
        memcpy(to, key, 4);
        to += 4;
    }
    return to;
}

static uint8_t *put_control(websocket_t *websocket, uint8_t *to, uint8_t opcode, const uint8_t *payload, size_t size) {
    uint8_t key[4];
    to = put_head(websocket, to, FRAME_FINAL | opcode, size, key);
    websocket_mask(to, payload, size, key, 0);
    return to + size;
}

static uint8_t *put_pong(websocket_t *websocket, uint8_t *to) {
    if (!websocket->pongs) {
        return to;
    }
    websocket->pongs = false;
    return put_control(websocket, to, OPCODE_PONG, websocket->pong, websocket->pong_size);
}

/* The bytes that are sent, from a place in them on. */
typedef struct source {
    const struct iovec *iov;
    int count;
    size_t from;
} source_t;

static void put_bytes(uint8_t *to, const source_t *source, size_t size, const uint8_t key[4]) {
    size_t from = source->from, done = 0;
    for (int i = 0; i < source->count && done < size; i++) {
        const struct iovec *one = &source->iov[i];
        if (from >= one->iov_len) {
            from -= one->iov_len;
            continue;
        }
        size_t piece = one->iov_len - from < size - done ? one->iov_len - from : size - done;
        websocket_mask(to + done, (const uint8_t *)one->iov_base + from, piece, key, done);
        done += piece;
        from = 0;
    }
}

/* Each frame a message of its own. */
static uint8_t *put_plain(websocket_t *websocket, uint8_t *to, source_t source, size_t size) {
    size_t most = (websocket->flags & WEBSOCKET_SMALL) != 0 ? WEBSOCKET_SMALL_MAX : size;
    for (size_t done = 0; done < size;) {
        size_t piece = size - done < most ? size - done : most;
        uint8_t key[4];
        to = put_head(websocket, to, FRAME_FINAL | OPCODE_BINARY, piece, key);
        put_bytes(to, &source, piece, key);
        to += piece;
        done += piece;
        source.from += piece;
    }
    return to;
}

/* One message, which may have several frames. NULL: it was not compressed. */
static uint8_t *put_compressed(websocket_t *websocket, uint8_t *to, const source_t *source, size_t size) {
    size_t packed = deflater_run(websocket->desk, source->iov, source->count, source->from, size);
    bool cut = (websocket->flags & (WEBSOCKET_SMALL | WEBSOCKET_WHOLE)) == WEBSOCKET_SMALL;
    size_t most = cut ? WEBSOCKET_SMALL_MAX : packed;
    if (packed == 0) {
        return NULL;
    }
    for (size_t done = 0; done < packed;) {
        size_t piece = packed - done < most ? packed - done : most;
        uint8_t first = done == 0 ? FRAME_COMPRESSED | OPCODE_BINARY : OPCODE_CONTINUATION;
        uint8_t key[4];
        to = put_head(websocket, to, first | (done + piece == packed ? FRAME_FINAL : 0u), piece, key);
        websocket_mask(to, websocket->desk->packed + done, piece, key, 0);
        to += piece;
        done += piece;
    }
    return to;
}

/* Keeps the part of `at` that the transport below does not take. */
static status_t pass_on(websocket_t *websocket, int fd, const uint8_t *at, size_t size) {
    struct iovec one = {.iov_base = (void *)(uintptr_t)at, .iov_len = size};
    size_t gone = 0;
    status_t status = websocket->under->send(websocket->under_state, fd, &one, size != 0, &gone);
    if (status != STATUS_OK || gone == size) {
        return status;
    }
    return buffer_append(&websocket->out, at + gone, size - gone) == STATUS_OK ? STATUS_OK : STATUS_CLOSED;
}

static status_t pass_on_kept(websocket_t *websocket, int fd) {
    buffer_t *out = &websocket->out;
    struct iovec one = {.iov_base = out->at, .iov_len = (size_t)out->size};
    size_t gone = 0;
    status_t status = websocket->under->send(websocket->under_state, fd, &one, out->size != 0, &gone);
    buffer_consume(out, gone);
    buffer_trim(out, 0);
    return status;
}

/* As many as fit on the desk, then the next ones, while the transport below takes them. */
static status_t send_from_desk(websocket_t *websocket, int fd, source_t source, size_t size, size_t *taken) {
    status_t status = STATUS_OK;
    do {
        size_t piece = size - source.from < DESK_SIZE ? size - source.from : DESK_SIZE;
        uint8_t *to = put_pong(websocket, websocket->desk->out), *behind = NULL;
        if ((websocket->flags & WEBSOCKET_DEFLATE) != 0 && piece >= DEFLATE_MIN) {
            behind = put_compressed(websocket, to, &source, piece);
        }
        to = behind != NULL ? behind : put_plain(websocket, to, source, piece);
        if (to == websocket->desk->out) {
            break;
        }
        source.from += piece;
        *taken = source.from;
        status = pass_on(websocket, fd, websocket->desk->out, (size_t)(to - websocket->desk->out));
    } while (status == STATUS_OK && websocket->out.size == 0 && *taken < size);
    return status;
}

/* One frame for all that is there, which goes out from where it is: the transport below gets a head and the caller's
 * bytes. What it does not take of these stays the caller's, which comes again with them: frame_left of them need no
 * head. */
static status_t send_in_place(websocket_t *websocket, int fd, source_t source, size_t size, size_t *taken) {
    uint8_t head[2 + CONTROL_MAX + FRAME_HEAD_MAX], key[4], *end = head;
    struct iovec some[1 + IN_PLACE_MAX] = {{.iov_base = head}};
    if (websocket->frame_left == 0) {
        end = put_pong(websocket, end);
        end = size == 0 ? end : put_head(websocket, end, FRAME_FINAL | OPCODE_BINARY, size, key);
        websocket->frame_left = size;
    }
    size_t head_size = some[0].iov_len = (size_t)(end - head), left = websocket->frame_left, gone = 0;
    int count = 1;
    for (; count <= source.count && left != 0; count++) {
        some[count] = source.iov[count - 1];
        some[count].iov_len = some[count].iov_len < left ? some[count].iov_len : left;
        left -= some[count].iov_len;
    }
    int first = head_size == 0; /* none: nothing to send is no iovec */
    status_t status = websocket->under->send(websocket->under_state, fd, some + first, count - first, &gone);
    if (status != STATUS_OK) {
        return status;
    }
    if (gone < head_size) {
        return buffer_append(&websocket->out, head + gone, head_size - gone) == STATUS_OK ? STATUS_OK : STATUS_CLOSED;
    }
    *taken = gone - head_size;
    websocket->frame_left -= *taken;
    return STATUS_OK;
}

static status_t web_send(void *state, int fd, const struct iovec *iov, int count, size_t *taken) {
    websocket_t *websocket = state;
    *taken = 0;
    status_t status = pass_on_kept(websocket, fd);
    if (status != STATUS_OK || websocket->out.size != 0) {
        return status;
    }
    source_t source = {iov, count < IN_PLACE_MAX ? count : IN_PLACE_MAX, 0};
    size_t size = 0;
    for (int i = 0; i < source.count; i++) {
        size += iov[i].iov_len;
    }
    bool masked = (websocket->flags & (WEBSOCKET_CLIENT | WEBSOCKET_UNMASKED)) == WEBSOCKET_CLIENT;
    bool in_place = !masked && (websocket->flags & (WEBSOCKET_SMALL | WEBSOCKET_DEFLATE)) == 0;
    return in_place ? send_in_place(websocket, fd, source, size, taken)
                    : send_from_desk(websocket, fd, source, size, taken);
}

static uint32_t web_wanted(const void *state) {
    const websocket_t *websocket = state;
    bool more = websocket->out.size != 0 || websocket->pongs;
    return (more ? LOOP_WRITE : 0u) | websocket->under->wanted(websocket->under_state);
}

/* The close frame goes out if there is room for it now, and not in the midst of another one. */
static void web_close(void *state, int fd) {
    websocket_t *websocket = state;
    if (websocket->out.size == 0 && websocket->frame_left == 0) {
        uint8_t payload[CONTROL_MAX];
        size_t size = 0;
        if (websocket->status != CLOSE_NO_STATUS) {
            size_t text = websocket->text.size < CONTROL_MAX - 2 ? websocket->text.size : CONTROL_MAX - 2;
            store_be16(payload, websocket->status);
            bytes_write(payload + 2, bytes_of(websocket->text.at, (uint32_t)text));
            size = 2 + text;
        }
        uint8_t *to = websocket->desk->out;
        uint8_t *end = put_control(websocket, to, OPCODE_CLOSE, payload, size);
        struct iovec one = {.iov_base = to, .iov_len = (size_t)(end - to)};
        size_t gone;
        status_t status = websocket->under->send(websocket->under_state, fd, &one, 1, &gone);
        (void)status; /* nobody is left to hear of it */
    }
    websocket->under->close(websocket->under_state, fd);
    websocket_drop(websocket);
}

const transport_t transport_websocket = {web_receive, web_send, web_pending, web_wanted, web_close};
