/* mqtt_carried.c: the server that has a device's session, and not its connection. mqtt_carry.h has the whole.
 *
 * The device is a peer as any other client of MQTT, but that its transport is frames over a route: what it is told goes
 * there when its queue is written, and what it says is put behind what it has not acted on yet. It was let in by the
 * other server, whose verdict came with OPEN. Control hears nothing of it here.
 *
 * A route that is behind takes nothing more for it, so that its own queue fills, and its publishers wait as for any
 * slow receiver. The other server never sends more than CARRY_WINDOW beyond what was acted on (GOT).
 */
#include <stdlib.h>

#include "base/hash.h"
#include "mqtt/read.h"
#include "plane/account.h"
#include "plane/backlog.h"
#include "plane/named.h"
#include "plane/output.h"
#include "plane/publication.h"
#include "text/text.h"
#include "verbs/mqtt_carry.h"
#include "verbs/mqtt_lasting.h"
#include "verbs/verbs.h"

#define ROUTE_FULL (UINT64_C(1) << 20) /* bytes that wait for a route which takes nothing more for such peers */
#define GOT_LEAST (CARRY_WINDOW / 4)
#define OPEN_HEAD 12u

typedef struct guest {
    map_link_t link; /* in desk->carried, by the connection at its own server */
    plane_t *plane;
    peer_t *peer;
    uint64_t route; /* by which it goes */
    uint64_t device;
    uint64_t got; /* bytes of it that came, but for those that the other server knows of */
    bool ends;    /* its connection is gone: when what it said is acted on it goes, too */
    uint32_t reason;
} guest_t;

static peer_t *carried_route(const guest_t *guest) {
    peer_t *route = peer_find(guest->plane, guest->route);
    return route != NULL && route->route != NULL && guest->plane->mail_account != NULL ? route : NULL;
}

static void guest_say(const guest_t *guest, peer_t *route, carry_kind_t kind, bytes_t rest) {
    const carry_frame_t frame = {.kind = kind, .to = guest->device, .from = guest->peer->id, .rest = rest};
    mqtt_carry_send(guest->plane, route, &frame);
}

/* ---- its transport ----------------------------------------------------------------------------------------------- */

static status_t receives(void *state, int fd, uint8_t *to, size_t room, size_t *got) {
    (void)state;
    (void)fd;
    (void)to;
    (void)room;
    *got = 0;
    return STATUS_AGAIN;
}

static status_t sends(void *state, int fd, const struct iovec *iov, int count, size_t *taken) {
    const guest_t *guest = state;
    peer_t *route = carried_route(guest);
    uint64_t left = outq_pending(&guest->peer->conn.out);
    (void)fd;
    *taken = 0;
    if (route == NULL) {
        return STATUS_CLOSED;
    }
    for (int i = 0; i < count; i++) {
        bytes_t piece = bytes_of(iov[i].iov_base, (uint32_t)iov[i].iov_len);
        while (piece.size != 0) {
            /* The last that it is told goes in any case. */
            if (outq_pending(&route->conn.out) > ROUTE_FULL && guest->peer->state != PEER_DOOMED) {
                guest->plane->carried_wait = true;
                return STATUS_OK;
            }
            bytes_t part = bytes_of(piece.at, piece.size < CARRY_CHUNK ? piece.size : CARRY_CHUNK);
            *taken += part.size;
            guest_say(guest, route, *taken == left ? CARRY_TOLD : CARRY_PART, part);
            piece = bytes_after(piece, part.size);
        }
    }
    return STATUS_OK;
}

static size_t has_pending(const void *state) {
    (void)state;
    return 0;
}

static uint32_t wants(const void *state) {
    (void)state;
    return 0;
}

static void closes(void *state, int fd) {
    guest_t *guest = state;
    mqtt_desk_t *desk = guest->plane->mqtt_desk;
    peer_t *route = carried_route(guest);
    (void)fd;
    if (route != NULL && desk != NULL) {
        text_t text = {0};
        uint8_t reason[4];
        store_be32(reason, guest->peer->close_reason);
        text_add(&text, bytes_of(reason, sizeof reason));
        text_add(&text, guest->peer->close_text);
        guest_say(guest, route, CARRY_END, text_bytes(&text));
    }
    if (desk != NULL) {
        map_take(desk->carried, &guest->link);
    }
    free(guest);
}

static const transport_t transport_carried = {
    .receive = receives, .send = sends, .pending = has_pending, .wanted = wants, .close = closes};

/* ---- it comes ---------------------------------------------------------------------------------------------------- */

static uint64_t device_hash(uint64_t route, uint64_t device) {
    return hash_bytes((const uint8_t *)&device, sizeof device) ^ route;
}

static bool guest_is_known(const mqtt_desk_t *desk, uint64_t route, uint64_t device) {
    uint64_t hash = device_hash(route, device);
    for (const map_link_t *link = map_first(desk->carried, hash); link != NULL; link = link->next) {
        const guest_t *one = MAP_ENTRY(link, const guest_t, link);
        if (one->device == device && one->route == route) {
            return true;
        }
    }
    return false;
}

/* NULL: no memory. */
static peer_t *make_peer(plane_t *plane, const peer_t *route, uint64_t device) {
    mqtt_desk_t *desk = plane->mqtt_desk;
    guest_t *guest = calloc(1, sizeof(*guest));
    if (guest == NULL || map_put(&desk->carried, &guest->link, device_hash(route->id, device)) != STATUS_OK) {
        free(guest);
        return NULL;
    }
    *guest = (guest_t){.link = guest->link, .plane = plane, .route = route->id, .device = device};
    guest->peer = peer_new_carried(plane, CONN_MQTT);
    if (guest->peer == NULL) {
        map_take(desk->carried, &guest->link);
        free(guest);
        return NULL;
    }
    conn_cover(&guest->peer->conn, &transport_carried, guest);
    return guest->peer;
}

typedef struct opened {
    bytes_t body, strings, name, connect;
} opened_t;

static bool read_open(bytes_t text, opened_t *out) {
    if (text.size < OPEN_HEAD) {
        return false;
    }
    uint32_t body = load_be32(text.at), strings = load_be32(text.at + 4), name = load_be32(text.at + 8);
    uint64_t all = (uint64_t)OPEN_HEAD + body + strings + name;
    if (all >= text.size || body != sizeof(conn_verdict_t)) {
        return false;
    }
    out->body = bytes_of(text.at + OPEN_HEAD, body);
    out->strings = bytes_of(out->body.at + body, strings);
    out->name = bytes_of(out->strings.at + strings, name);
    out->connect = bytes_after(text, (uint32_t)all);
    return true;
}

static bool guest_connect(bytes_t text, mqtt_packet_t *packet) {
    const mqtt_reader_t reader = {.level = MQTT_UNKNOWN, .max_packet = MQTT_GREETING_MAX};
    mqtt_fault_t fault;
    uint32_t used = 0, need = 0;
    return mqtt_read(&reader, text, packet, &used, &need, &fault) == MQTT_PACKET && packet->kind == MQTT_CONNECT
           && used == text.size;
}

static void let_in(plane_t *plane, peer_t *peer, const account_t *account, const opened_t *opened) {
    const plane_command_t verdict = {.op = COMMAND_ADMIT,
                                     .account = account->js.id,
                                     .target = peer->id,
                                     .body = opened->body.at,
                                     .body_size = opened->body.size,
                                     .extra = opened->strings.at,
                                     .extra_size = opened->strings.size};
    if (plane->admit(plane, peer, &verdict) != STATUS_OK) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a login"));
    }
}

void mqtt_carried_open(plane_t *plane, peer_t *route, const carry_frame_t *frame) {
    mqtt_desk_t *desk = plane->mqtt_desk;
    opened_t opened;
    mqtt_packet_t packet;
    if (!read_open(frame->rest, &opened)
        || (frame->kind == CARRY_AGAIN && guest_is_known(desk, route->id, frame->from))) {
        return;
    }
    account_t *account = named_account(plane, opened.name);
    const mqtt_account_t *keeper = account == NULL ? NULL : table_find(&desk->accounts, account->js.id);
    bool here = keeper != NULL && keeper->messages != NULL && !keeper->unreadable;
    if (!here || !guest_connect(opened.connect, &packet)) {
        return; /* another server has its session, or it is refused where it is */
    }
    peer_t *peer = make_peer(plane, route, frame->from);
    if (peer == NULL) {
        return; /* it is asked again */
    }
    const guest_t *guest = peer->conn.transport_state;
    guest_say(guest, route, CARRY_TAKEN, BYTES_NONE);
    if (mqtt_begin_session(plane, peer, &packet)) {
        let_in(plane, peer, account, &opened);
    }
}

/* ---- what it says ------------------------------------------------------------------------------------------------ */

static void tell_got(guest_t *guest, uint64_t size) {
    uint8_t number[4];
    peer_t *route = carried_route(guest);
    if (route != NULL) {
        store_be32(number, (uint32_t)size);
        guest->got -= size;
        guest_say(guest, route, CARRY_GOT, bytes_of(number, sizeof number));
    }
}

void mqtt_carried_took(plane_t *plane, peer_t *peer, uint32_t left) {
    guest_t *guest = peer->conn.transport_state;
    uint64_t unread = peer_is_read(peer) ? 0 : left; /* part of a packet does not count: its end has to come */
    if (guest->got >= GOT_LEAST + unread) {
        tell_got(guest, guest->got - unread);
    }
    if (guest->ends && peer_is_read(peer) && !peer->yielded) {
        peer_doom_silently(plane, peer, guest->reason, BYTES_LITERAL("Client Closed"));
    }
}

static void says(plane_t *plane, guest_t *guest, bytes_t text) {
    conn_t *conn = &guest->peer->conn;
    if (conn->rest_used != 0) {
        buffer_consume(&conn->rest, conn->rest_used);
        conn->rest_used = 0;
    }
    if (buffer_append(&conn->rest, text.at, text.size) != STATUS_OK) {
        peer_doom(plane, guest->peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for input"));
        return;
    }
    guest->got += text.size;
    conn->bytes_in += text.size;
    backlog_add(plane, guest->peer);
}

void mqtt_carried_frame(plane_t *plane, peer_t *route, const carry_frame_t *frame) {
    peer_t *peer = peer_find(plane, frame->to);
    guest_t *guest = peer->conn.transport_state;
    if (guest->route != route->id || guest->device != frame->from) {
        return;
    }
    if (frame->kind == CARRY_SAID) {
        says(plane, guest, frame->rest);
    } else if (frame->kind == CARRY_END && frame->rest.size >= 4) {
        guest->ends = true;
        guest->reason = load_be32(frame->rest.at);
        if (conn_rest(&peer->conn).size == 0) {
            peer_doom_silently(plane, peer, guest->reason, bytes_after(frame->rest, 4));
        } else {
            backlog_add(plane, peer);
        }
    }
}

/* ---- routes ------------------------------------------------------------------------------------------------------ */

void mqtt_carried_route_left(plane_t *plane, const peer_t *route) {
    for (peer_t *peer = plane->all_peers; peer != NULL; peer = peer->next) {
        const guest_t *guest = peer->carried ? peer->conn.transport_state : NULL;
        if (guest != NULL && guest->route == route->id) {
            peer_doom_silently(plane, peer, CLOSE_CLIENT, BYTES_LITERAL("the server that it is at is away"));
        }
    }
}

void mqtt_carried_go_on(plane_t *plane) {
    plane->carried_go = false;
    for (peer_t *peer = plane->all_peers; peer != NULL; peer = peer->next) {
        if (peer->carried && peer->conn.writing) {
            output_ready(plane, peer);
        }
    }
}
