/* conn.c: see conn.h. One receive and one send of the transport a connection and tick in the usual case. */
#include "net/conn.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"

/* Up to so much of rest is copied to the front of the scratch buffer; more is read into rest directly. */
#define COPY_MAX (CONN_SCRATCH_SIZE / 4)
/* Read at least so much at once into rest. */
#define REST_READ (64u * 1024u)
#define REST_KEEP (4u * 1024u)
/* One read takes at most a part of what the share of input memory has left, but never less than this, so that any line
 * fits. */
#define READ_SHARES 8u
#define READ_MIN (8u * 1024u)
#define READ_LEAST 256u /* no memory is reserved for more than has arrived, or so much */
#define DISCARD_ROUNDS 16

void conn_init(conn_t *conn, int fd, uint64_t input_max, uint64_t max_pending, const conn_shares_t *shares, void *tag) {
    *conn = (conn_t){.fd = fd, .tag = tag, .read_max = CONN_SCRATCH_SIZE, .transport = &transport_socket};
    conn->buffered.tag = tag;
    /* Everything behind a CONNECT in one read may have to wait for the verdict. */
    buffer_init(&conn->rest, input_max + CONN_SCRATCH_SIZE);
    buffer_count(&conn->rest, shares->input);
    outq_init(&conn->out, max_pending, shares->output);
}

static void end_orderly(int fd) {
    shutdown(fd, SHUT_WR);
    for (int i = 0; i < DISCARD_ROUNDS; i++) {
        /* TCP throws away what MSG_TRUNC asks for without copying it; other sockets just refuse. */
        if (recv(fd, NULL, CONN_SCRATCH_SIZE, MSG_TRUNC | MSG_DONTWAIT) <= 0) {
            break;
        }
    }
}

void conn_close(conn_t *conn, loop_t *loop) {
    bool resets = conn->resets && conn->transport == &transport_socket;
    loop_buffered(loop, &conn->buffered, false);
    conn->transport->close(conn->transport_state, conn->fd);
    conn->transport = &transport_socket;
    conn->transport_state = NULL;
    if (conn->fd >= 0) {
        if (conn->registered) {
            loop_remove(loop, conn->fd);
        }
        if (resets) {
            const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
            (void)setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        } else if (!conn->drained) {
            end_orderly(conn->fd);
        }
        close(conn->fd);
    }
    conn->fd = -1;
    conn->registered = false;
    buffer_free(&conn->rest);
    outq_free(&conn->out);
}

static status_t receive(conn_t *conn, uint8_t *to, uint64_t room, uint32_t *got) {
    size_t size = 0;
    status_t status = conn->transport->receive(conn->transport_state, conn->fd, to, (size_t)room, &size);
    if (LEAF_LIKELY(status == STATUS_OK)) {
        *got = (uint32_t)size;
        conn->bytes_in += size;
    } else if (status == STATUS_CLOSED) {
        conn->drained = conn->transport == &transport_socket;
    }
    return status;
}

/* How much to read at once. Little, while the share of input memory has little left; the memory to keep it is reserved
 * before it is read. 0: there is none now. */
static uint64_t read_room(conn_t *conn, uint64_t room) {
    const share_t *share = conn->rest.share;
    if (share == NULL) {
        return room;
    }
    uint64_t left = share->limit > share->used ? (share->limit - share->used) / READ_SHARES : 0;
    if (LEAF_LIKELY(left >= room)) {
        return room;
    }
    left = left > READ_MIN ? left : READ_MIN;
    room = left < room ? left : room;
    uint64_t arrived = conn_arrived(conn);
    arrived = arrived > READ_LEAST ? arrived : READ_LEAST;
    room = arrived < room ? arrived : room;
    uint8_t *place;
    return buffer_reserve(&conn->rest, room, &place) == STATUS_OK ? room : 0;
}

/* Into rest: it is long, or the op it begins is longer than the scratch buffer. At most as much again as is there: what
 * a peer announces and does not send costs nothing. */
static status_t read_to_rest(conn_t *conn, uint32_t need, bytes_t *input) {
    buffer_t *rest = &conn->rest;
    uint64_t room = need > rest->size ? need - rest->size : 0;
    if (room > rest->size) {
        room = rest->size;
    }
    if (room < REST_READ) {
        room = REST_READ;
    }
    if (room > rest->max - rest->size) {
        room = rest->max - rest->size;
    }
    if (room == 0) {
        return STATUS_FULL;
    }
    uint8_t *to;
    if (buffer_reserve(rest, room, &to) != STATUS_OK) {
        return STATUS_NO_MEMORY;
    }
    uint32_t got;
    status_t status = receive(conn, to, room, &got);
    if (status == STATUS_OK) {
        rest->size += got;
        *input = conn_rest(conn);
    }
    return status;
}

static status_t read_once(conn_t *conn, const conn_scratch_t *scratch, uint32_t need, bytes_t *input) {
    if (LEAF_UNLIKELY(conn->rest_used > 0)) {
        buffer_consume(&conn->rest, conn->rest_used);
        conn->rest_used = 0;
    }
    uint32_t kept = (uint32_t)conn->rest.size;
    if (LEAF_UNLIKELY(kept > COPY_MAX || need > CONN_SCRATCH_SIZE)) {
        return read_to_rest(conn, need, input);
    }
    if (LEAF_UNLIKELY(kept >= conn->read_max)) {
        return STATUS_FULL;
    }
    if (kept > 0) {
        memcpy(scratch->at, conn->rest.at, kept);
    }
    uint64_t room = read_room(conn, conn->read_max - kept);
    if (LEAF_UNLIKELY(room == 0)) {
        return STATUS_NO_MEMORY;
    }
    uint32_t got;
    status_t status = receive(conn, scratch->at + kept, room, &got);
    if (status == STATUS_OK) {
        conn->rest.size = 0;
        *input = bytes_of(scratch->at, kept + got);
    }
    return status;
}

uint64_t conn_arrived(const conn_t *conn) {
    int size = 0;
    bool some = conn->fd >= 0 && ioctl(conn->fd, FIONREAD, &size) == 0 && size > 0;
    return conn->transport->pending(conn->transport_state) + (some ? (uint64_t)size : 0);
}

bytes_t conn_rest(const conn_t *conn) {
    if (conn->rest_used == conn->rest.size) {
        return BYTES_NONE;
    }
    return bytes_of(conn->rest.at + conn->rest_used, (uint32_t)(conn->rest.size - conn->rest_used));
}

/* A message is whole while others wait for room: the next one of this connection has to ask for its own. */
static void give_way(conn_t *conn, uint32_t used) {
    const share_t *share = conn->rest.share;
    if (LEAF_UNLIKELY(used != 0 && share != NULL && share->used > share->limit)) {
        buffer_consume(&conn->rest, conn->rest_used);
        conn->rest_used = 0;
        buffer_fit(&conn->rest);
    }
}

status_t conn_keep(conn_t *conn, bytes_t input, uint32_t used) {
    check(used <= input.size);
    if (input.size > 0 && input.at == conn_rest(conn).at) {
        conn->rest_used += used;
        if (conn->rest_used == conn->rest.size) {
            conn->rest_used = conn->rest.size = 0;
        }
        give_way(conn, used);
        return STATUS_OK;
    }
    check(conn->rest.size == 0);
    if (used == input.size) {
        return STATUS_OK; /* an input of nothing has no place */
    }
    return buffer_append(&conn->rest, input.at + used, input.size - used);
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

/* Tells the loop what the core and the transport wait for, if that changed. A peer that is not read for a moment, as
 * while its login is judged, mostly sends nothing meanwhile. The loop is told when it does (conn_unasked), which is two
 * system calls less for each login. */
static status_t watch(conn_t *conn, loop_t *loop, bool unasked) {
    conn->transport_wants = conn->transport->wanted(conn->transport_state);
    loop_buffered(loop, &conn->buffered, conn->reading && conn->transport->pending(conn->transport_state) != 0);
    uint32_t wanted = (conn->reading ? LOOP_READ : 0u) | (conn->writing ? LOOP_WRITE : 0u) | conn->transport_wants;
    uint32_t kept = unasked ? 0 : conn->wanted & LOOP_READ;
    if (LEAF_LIKELY((conn->registered && conn->wanted == (wanted | kept)) || conn->fd < 0)) {
        return STATUS_OK;
    }
    status_t status =
        conn->registered ? loop_change(loop, conn->fd, wanted, conn->tag) : loop_add(loop, conn->fd, wanted, conn->tag);
    if (status == STATUS_OK) {
        conn->registered = true;
        conn->wanted = wanted;
    }
    return status;
}

status_t conn_want(conn_t *conn, loop_t *loop, bool reading) {
    conn->reading = reading;
    return watch(conn, loop, false);
}

status_t conn_unasked(conn_t *conn, loop_t *loop) {
    return watch(conn, loop, true);
}

status_t conn_read(conn_t *conn, loop_t *loop, conn_scratch_t *scratch, uint32_t need, bytes_t *input) {
    conn_scratch_turn(scratch);
    status_t status = read_once(conn, scratch, need, input);
    /* A connection that cannot be watched any more would never be read again. */
    return status == STATUS_CLOSED || watch(conn, loop, false) == STATUS_OK ? status : STATUS_CLOSED;
}

status_t conn_switch(conn_t *conn, const transport_t *transport, void *state) {
    if (conn_rest(conn).size != 0 || conn->transport->pending(conn->transport_state) != 0) {
        return STATUS_INVALID;
    }
    return conn_stack(conn, transport, state);
}

status_t conn_stack(conn_t *conn, const transport_t *transport, void *state) {
    if (outq_pending(&conn->out) != 0 || (conn->transport_wants & LOOP_WRITE) != 0) {
        return STATUS_AGAIN;
    }
    conn_cover(conn, transport, state);
    return STATUS_OK;
}

void conn_cover(conn_t *conn, const transport_t *transport, void *state) {
    conn->transport = transport;
    conn->transport_state = state;
    conn->transport_wants = transport->wanted(state);
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

/* One send of what was gathered. *all: the socket took it all. */
static status_t send_some(conn_t *conn, uint64_t *room, int64_t mono_ns, bool *all) {
    struct iovec iov[OUTQ_IOVECS];
    uint64_t gathered;
    int count = outq_gather(&conn->out, *room, iov, &gathered);
    size_t size = 0;
    if (count > 0 || conn->transport_wants != 0) {
        if (conn->transport->send(conn->transport_state, conn->fd, iov, count, &size) != STATUS_OK) {
            return STATUS_CLOSED;
        }
        conn->bytes_out += size;
        if (count > 0) {
            outq_written(&conn->out, size, mono_ns);
        }
    }
    *all = size == gathered;
    *room -= size;
    return STATUS_OK;
}

status_t conn_flush(conn_t *conn, loop_t *loop, uint64_t room, int64_t mono_ns) {
    bool all;
    do {
        if (send_some(conn, &room, mono_ns, &all) != STATUS_OK) {
            return STATUS_CLOSED;
        }
    } while (all && room != 0 && outq_pending(&conn->out) > 0);
    bool waits = outq_pending(&conn->out) > 0;
    conn->writing = waits && !all; /* otherwise there was no room, and the caller goes on */
    status_t status = watch(conn, loop, false);
    if (status != STATUS_OK) {
        return status;
    }
    return waits || (conn->transport_wants & LOOP_WRITE) != 0 ? STATUS_AGAIN : STATUS_OK;
}

void conn_idle(conn_t *conn) {
    buffer_trim(&conn->rest, REST_KEEP);
    outq_idle(&conn->out);
}
