/* mqtt_carry.c: the server that has a device's connection, and not its session. mqtt_carry.h has the whole.
 *
 *     CONNECT --> ADMIT --> no session here --> OPEN to all servers, again and again --> TAKEN --> SAID, TOLD
 *                                           --> this server leads now                --> as any other client
 *                                           --> nobody answers                       --> it is refused
 *
 * The device is judged, counted and shown here; its keep alive is looked after here. Packets are not read: they pass
 * as bytes. While nothing has been told to the device its OPEN may be said again, to another leader; later it is closed
 * and comes back.
 */
#include "verbs/mqtt_carry.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/copies.h"
#include "mqtt/write.h"
#include "plane/account.h"
#include "plane/backlog.h"
#include "plane/publication.h"
#include "plane/routed.h"
#include "text/text.h"
#include "verbs/mqtt_far.h"
#include "verbs/mqtt_lasting.h"
#include "verbs/mqtt_names.h"
#include "verbs/verbs.h"

#define PATIENCE_NS (5 * NS_PER_SECOND) /* for a server that has its session */
#define HEAD_MAX 5u                     /* of a packet: kind and size */
#define FLAGS_AT 7u                     /* of CONNECT, in its variable header: behind the name and the level */

typedef struct mqtt_carry {
    struct mqtt_carry *next, **at; /* of those that wait; at NULL: in no list */
    peer_t *peer;
    bytes_t connect; /* own copies; empty once it has been told something */
    bytes_t body;
    bytes_t strings;
    uint64_t route;     /* by which it goes .. */
    uint64_t home;      /* .. to that connection; 0: nobody has answered */
    uint32_t under_way; /* bytes that its home has not acted on */
    bool heard;         /* it has been told something */
    bool part;          /* .. last, a part of a packet */
    int64_t until_ns;   /* so long it waits; 0: it has not begun */
} mqtt_carry_t;

/* ---- frames ------------------------------------------------------------------------------------------------------ */

void mqtt_carry_send(plane_t *plane, peer_t *route, const carry_frame_t *frame) {
    mqtt_desk_t *desk = plane->mqtt_desk;
    buffer_t *to = &desk->frame;
    uint8_t *head;
    to->size = 0;
    if (buffer_reserve(to, CARRY_HEAD + (uint64_t)frame->rest.size, &head) != STATUS_OK) {
        peer_doom(plane, route, CLOSE_LIMIT, BYTES_LITERAL("no memory for what devices say"));
        return;
    }
    head[0] = (uint8_t)frame->kind;
    store_be64(head + 1, frame->to);
    store_be64(head + 9, frame->from);
    (void)bytes_write(head + CARRY_HEAD, frame->rest);
    to->size = CARRY_HEAD + (uint64_t)frame->rest.size;
    const publication_t publication = {
        .account = plane->mail_account,
        .message = {.subject = BYTES_LITERAL("$LC.C"), .payload = bytes_of(to->at, (uint32_t)to->size)},
        .flags = PUBLICATION_MAIL};
    publish_over_link(plane, route, &publication);
}

static peer_t *route_of(plane_t *plane, uint64_t id) {
    peer_t *route = id == 0 ? NULL : peer_find(plane, id);
    return route != NULL && route->route != NULL && plane->mail_account != NULL ? route : NULL;
}

static void say_home(plane_t *plane, const mqtt_carry_t *carry, carry_kind_t kind, bytes_t rest) {
    peer_t *route = route_of(plane, carry->route);
    if (route != NULL) {
        const carry_frame_t frame = {.kind = kind, .to = carry->home, .from = carry->peer->id, .rest = rest};
        mqtt_carry_send(plane, route, &frame);
    }
}

/* ---- before it is known where its session is --------------------------------------------------------------------- */

/* A CONNECT without its user and password, which stand at its end: its receiver is told that it was let in. */
static bytes_t without_user(const mqtt_login_t *login, bytes_t whole) {
    uint32_t left_out =
        (login->has_user ? 2 + login->user.size : 0) + (login->has_password ? 2 + login->password.size : 0);
    uint32_t head = 1;
    while (head < HEAD_MAX && head < whole.size && (whole.at[head] & 0x80u) != 0) {
        head++;
    }
    head++;
    if (whole.size < head + FLAGS_AT + 1 + left_out) {
        return BYTES_NONE;
    }
    uint32_t size = whole.size - head - left_out, at = 0;
    uint8_t *copy = malloc(HEAD_MAX + (size_t)size);
    if (copy == NULL) {
        return BYTES_NONE;
    }
    copy[at++] = whole.at[0];
    for (uint32_t left = size; at == 1 || left != 0; left >>= 7) {
        copy[at++] = (uint8_t)((left & 0x7fu) | (left >= 0x80 ? 0x80u : 0));
    }
    memcpy(copy + at, whole.at + head, size);
    copy[at + FLAGS_AT] &= (uint8_t)~(MQTT_CONNECT_USER | MQTT_CONNECT_PASSWORD);
    return bytes_of(copy, at + size);
}

void mqtt_carry_prepare(plane_t *plane, session_t *session, const mqtt_login_t *login, bytes_t whole) {
    if ((session->expiry == 0 && session->clean) || !mqtt_far_possible(plane) || plane->mail_account == NULL) {
        return;
    }
    mqtt_carry_t *carry = calloc(1, sizeof(*carry));
    if (carry == NULL) {
        return; /* where its session is elsewhere it is refused */
    }
    carry->peer = session->owner;
    carry->connect = without_user(login, whole);
    session->carry = carry;
}

static void forget_login(mqtt_carry_t *carry) {
    bytes_release(&carry->connect);
    bytes_release(&carry->body);
    bytes_release(&carry->strings);
}

static void carry_leave_line(mqtt_carry_t *carry) {
    if (carry->at != NULL) {
        *carry->at = carry->next;
        if (carry->next != NULL) {
            carry->next->at = carry->at;
        }
        carry->at = NULL;
    }
}

static void carry_line_up(mqtt_desk_t *desk, mqtt_carry_t *carry) {
    if (carry->at == NULL) {
        carry->next = desk->carries;
        carry->at = (mqtt_carry_t **)&desk->carries;
        if (carry->next != NULL) {
            carry->next->at = &carry->next;
        }
        desk->carries = carry;
    }
}

void mqtt_carry_settled(session_t *session) {
    mqtt_carry_t *carry = session->carry;
    if (carry != NULL) {
        carry_leave_line(carry);
        forget_login(carry);
        free(carry);
        session->carry = NULL;
    }
}

bool mqtt_carry_away(const session_t *session) {
    const mqtt_carry_t *carry = session->carry;
    return carry != NULL && carry->home != 0;
}

bool mqtt_carry_interrupts(const session_t *session) {
    const mqtt_carry_t *carry = session->carry;
    return carry != NULL && carry->home != 0 && carry->part;
}

void mqtt_carry_judged(plane_t *plane, peer_t *peer, bytes_t body, bytes_t strings) {
    mqtt_carry_t *carry = peer->session == NULL ? NULL : peer->session->carry;
    if (carry == NULL) {
        return;
    }
    if (carry->home != 0) { /* its home judges by the rights that it had */
        peer_doom(plane, peer, CLOSE_KICKED, BYTES_LITERAL("its rights have changed"));
        return;
    }
    bytes_release(&carry->body);
    bytes_release(&carry->strings);
    const bytes_t from[2] = {body, strings};
    bytes_t own[2];
    if (bytes_copy_all(own, from, 2)) {
        carry->body = own[0];
        carry->strings = own[1];
    }
}

/* Sizes of verdict, strings and the account's name, four bytes each, these, CONNECT. Empty: it is longer than one
 * frame. */
static bytes_t open_text(const mqtt_carry_t *carry, buffer_t *to) {
    bytes_t name = carry->peer->account->name;
    uint64_t size = 12 + (uint64_t)carry->body.size + carry->strings.size + name.size + carry->connect.size;
    uint8_t *at;
    to->size = 0;
    if (size > CARRY_CHUNK || buffer_reserve(to, size, &at) != STATUS_OK) {
        return BYTES_NONE;
    }
    store_be32(at, carry->body.size);
    store_be32(at + 4, carry->strings.size);
    store_be32(at + 8, name.size);
    (void)bytes_write(bytes_write(bytes_write(bytes_write(at + 12, carry->body), carry->strings), name),
                      carry->connect);
    return bytes_of(at, (uint32_t)size);
}

static bool say_open(plane_t *plane, const mqtt_carry_t *carry, carry_kind_t kind) {
    mqtt_desk_t *desk = plane->mqtt_desk;
    const carry_frame_t frame = {.kind = kind, .from = carry->peer->id, .rest = open_text(carry, &desk->packet)};
    if (frame.rest.size == 0) {
        return false;
    }
    for (peer_t *route = plane->routes; route != NULL; route = route->route->next_route) {
        if (route->state == PEER_ADMITTED
            && route == routed_to(plane, plane->mail_account, route->route->peer)) { /* one of each server's */
            mqtt_carry_send(plane, route, &frame);
        }
    }
    return true;
}

bool mqtt_carry_begin(plane_t *plane, peer_t *peer) {
    session_t *session = peer->session;
    mqtt_desk_t *desk = session->shared;
    mqtt_carry_t *carry = session->carry;
    bool possible = carry != NULL && carry->connect.size != 0 && carry->body.size != 0 && plane->mail_account != NULL
                    && (peer->account->flags & ACCOUNT_JETSTREAM) != 0;
    if (!possible || (carry->until_ns != 0 && plane->now.mono_ns >= carry->until_ns)) {
        return false;
    }
    bool first = carry->until_ns == 0;
    if (first) {
        carry->until_ns = plane->now.mono_ns + PATIENCE_NS;
    }
    if (carry->at == NULL) {
        if (!say_open(plane, carry, first ? CARRY_OPEN : CARRY_AGAIN)) {
            return false;
        }
        carry_line_up(desk, carry);
    }
    mqtt_hold(plane, peer);
    return true;
}

/* Looks again: this server may lead by now, or another one may have begun to. */
static void wait_on(plane_t *plane, mqtt_carry_t *carry) {
    peer_t *peer = carry->peer;
    session_t *session = peer->session;
    const mqtt_account_t *keeper = mqtt_account_of(plane, session->shared, peer->account);
    bool here = keeper != NULL && keeper->sessions == KEEPS_YES;
    if (here || plane->now.mono_ns >= carry->until_ns) {
        carry_leave_line(carry);
        mqtt_go_on(plane, peer);
        mqtt_enter(plane, peer);
        return;
    }
    if (session->expiry != 0) {
        mqtt_stream_begin(plane, peer);
    }
    (void)say_open(plane, carry, CARRY_AGAIN);
}

void mqtt_carry_chores(plane_t *plane) {
    mqtt_desk_t *desk = plane->mqtt_desk;
    mqtt_carry_t *next;
    for (mqtt_carry_t *carry = desk->carries; carry != NULL; carry = next) {
        next = carry->next;
        if (carry->peer->state == PEER_ADMITTED && !carry->peer->session->waits_keeper) {
            wait_on(plane, carry);
        }
    }
}

/* ---- its session is elsewhere ------------------------------------------------------------------------------------ */

uint32_t mqtt_carry_input(plane_t *plane, peer_t *peer, bytes_t input) {
    mqtt_carry_t *carry = peer->session->carry;
    const peer_t *route = route_of(plane, carry->route);
    uint32_t used = 0;
    while (used < input.size && carry->under_way < CARRY_WINDOW) {
        uint32_t left = input.size - used, room = CARRY_WINDOW - carry->under_way;
        uint32_t size = left < room ? left : room;
        size = size < CARRY_CHUNK ? size : CARRY_CHUNK;
        say_home(plane, carry, CARRY_SAID, bytes_of(input.at + used, size));
        carry->under_way += size;
        used += size;
    }
    if (used < input.size) {
        mqtt_hold(plane, peer);
    }
    if (route != NULL && outq_pending(&route->conn.out) > plane->behind_bytes) {
        peer_stall(plane, peer, &route->conn.out);
    }
    return used;
}

/* The device whom the frame is for; NULL: it has gone, or its home is another one. */
static mqtt_carry_t *carry_of(plane_t *plane, const peer_t *route, const carry_frame_t *frame) {
    peer_t *peer = peer_find(plane, frame->to);
    mqtt_carry_t *carry = peer == NULL || peer->session == NULL ? NULL : peer->session->carry;
    return carry != NULL && carry->home == frame->from && carry->route == route->id ? carry : NULL;
}

/* A peer that waits for nothing has a home already, and a second one lets the connection go. */
static void taken(plane_t *plane, peer_t *route, const carry_frame_t *frame) {
    peer_t *peer = peer_find(plane, frame->to);
    mqtt_carry_t *carry = peer == NULL || peer->session == NULL ? NULL : peer->session->carry;
    if (carry == NULL || carry->at == NULL || carry->home != 0) {
        uint8_t reason[4];
        store_be32(reason, CLOSE_CLIENT);
        const carry_frame_t end = {
            .kind = CARRY_END, .to = frame->from, .from = frame->to, .rest = bytes_of(reason, sizeof reason)};
        mqtt_carry_send(plane, route, &end);
        return;
    }
    carry_leave_line(carry);
    carry->route = route->id;
    carry->home = frame->from;
    peer->session->enters = false;
    mqtt_go_on(plane, peer);
}

static void told(plane_t *plane, mqtt_carry_t *carry, const carry_frame_t *frame) {
    peer_t *peer = carry->peer;
    session_t *session = peer->session;
    if (!carry->heard) {
        carry->heard = session->admitted = true;
        forget_login(carry);
        session_forget_will(session); /* its home's to publish */
        mqtt_first_beat(plane, peer);
    }
    carry->part = frame->kind == CARRY_PART;
    peer_send(plane, peer, frame->rest);
}

/* The home is lost. One that has been told nothing waits for the next leader, as long as it may. */
static void homeless(plane_t *plane, mqtt_carry_t *carry, uint32_t reason, bytes_t text) {
    peer_t *peer = carry->peer;
    carry->home = carry->route = 0;
    carry->under_way = 0;
    if (carry->heard) {
        peer_doom(plane, peer, reason, text);
        return;
    }
    peer->session->enters = true;
    if (plane->now.mono_ns < carry->until_ns) {
        carry_line_up(plane->mqtt_desk, carry);
        mqtt_hold(plane, peer);
    } else {
        mqtt_enter(plane, peer);
    }
}

static void ended(plane_t *plane, mqtt_carry_t *carry, const carry_frame_t *frame) {
    if (frame->rest.size >= 4) {
        carry->peer->session->told |= carry->heard; /* by its home */
        homeless(plane, carry, load_be32(frame->rest.at), bytes_after(frame->rest, 4));
    }
}

static void got(plane_t *plane, mqtt_carry_t *carry, const carry_frame_t *frame) {
    uint32_t size = frame->rest.size == 4 ? load_be32(frame->rest.at) : 0;
    carry->under_way -= size < carry->under_way ? size : carry->under_way;
    if (carry->peer->session->waits) {
        mqtt_go_on(plane, carry->peer);
    }
}

void mqtt_carry_frame(plane_t *plane, peer_t *route, const carry_frame_t *frame) {
    if (frame->kind == CARRY_TAKEN) {
        taken(plane, route, frame);
        return;
    }
    mqtt_carry_t *carry = carry_of(plane, route, frame);
    if (carry == NULL) {
        return;
    }
    switch (frame->kind) {
    case CARRY_TOLD:
    case CARRY_PART: told(plane, carry, frame); break;
    case CARRY_GOT: got(plane, carry, frame); break;
    case CARRY_END: ended(plane, carry, frame); break;
    case CARRY_OPEN:
    case CARRY_AGAIN:
    case CARRY_TAKEN:
    case CARRY_SAID:
    case CARRY_CAME:
    case CARRY_CLEARED:
    default: break;
    }
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

void mqtt_carry_left(plane_t *plane, peer_t *peer) {
    session_t *session = peer->session;
    mqtt_carry_t *carry = session->carry;
    if (carry == NULL) {
        return;
    }
    if (carry->home != 0) {
        text_t text = {0};
        uint8_t reason[4];
        store_be32(reason, peer->close_reason);
        text_add(&text, bytes_of(reason, sizeof reason));
        text_add(&text, peer->close_text);
        say_home(plane, carry, CARRY_END, text_bytes(&text));
        session_forget_will(session);
    }
    mqtt_carry_settled(session);
}

void mqtt_carry_route_left(plane_t *plane, const peer_t *route) {
    for (peer_t *peer = plane->all_peers; peer != NULL; peer = peer->next) {
        mqtt_carry_t *carry = peer->session == NULL || peer->state == PEER_DOOMED ? NULL : peer->session->carry;
        if (carry != NULL && carry->home != 0 && carry->route == route->id) {
            homeless(plane, carry, CLOSE_LIMIT, BYTES_LITERAL("the server that has its session is away"));
        }
    }
}

/* What came over a route under the name of such frames. */
bool mqtt_carry_take_in(plane_t *plane, peer_t *route, const account_t *account, const op_t *op) {
    if (!bytes_starts(op->subject, PUBLICATION_CARRIED_SUBJECTS) || account != plane->mail_account) {
        return false;
    }
    if (op->payload.size < CARRY_HEAD || mqtt_desk_of(plane) == NULL) {
        return true;
    }
    const carry_frame_t frame = {.kind = (carry_kind_t)op->payload.at[0],
                                 .to = load_be64(op->payload.at + 1),
                                 .from = load_be64(op->payload.at + 9),
                                 .rest = bytes_after(op->payload, CARRY_HEAD)};
    if (frame.kind == CARRY_OPEN || frame.kind == CARRY_AGAIN) {
        mqtt_carried_open(plane, route, &frame);
        return true;
    }
    if (frame.kind == CARRY_CAME || frame.kind == CARRY_CLEARED) {
        mqtt_names_frame(plane, route, &frame);
        return true;
    }
    const peer_t *peer = peer_find(plane, frame.to);
    (peer != NULL && peer->carried ? mqtt_carried_frame : mqtt_carry_frame)(plane, route, &frame);
    return true;
}

void mqtt_route_left(plane_t *plane, peer_t *route) {
    if (plane->mqtt_desk != NULL) {
        mqtt_carry_route_left(plane, route);
        mqtt_carried_route_left(plane, route);
    }
}
