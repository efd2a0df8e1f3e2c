/* peer.c: one connection's life: greeting, verdict, admitted, doomed; its output, pings, deadlines and end.
 *
 *   GREETING --line--> WAITING --RESUME--> GREETING          ADMITTED --CONNECT again--> WAITING
 *                      WAITING --ADMIT---> ADMITTED          any --> DOOMED --sweep--> gone
 *
 * Not here: what the verbs mean (verbs/), sockets' reading (driver.c).
 */
#include <stdlib.h>

#include "plane/peer.h"

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/copies.h"
#include "base/table.h"
#include "exchange/exchange.h"
#include "net/compress.h"
#include "net/conn.h"
#include "net/outq.h"
#include "net/tcp.h"
#include "net/websocket.h"
#include "plane/account.h"
#include "plane/backlog.h"
#include "plane/link_part.h"
#include "plane/memory.h"
#include "plane/plane.h"
#include "plane/pressure.h"
#include "plane/protocol.h"
#include "plane/refused.h"
#include "plane/secure.h"
#include "plane/throttle.h"
#include "plane/web.h"
#include "route/route.h"
#include "wire/emit.h"
#include "wire/op.h"
#include "wire/parse.h"

#define SLOW_TEXT BYTES_LITERAL("Slow Consumer (Pending Bytes)")
#define ROWS_BYTES 1024u   /* of a connection's subscriptions, kept for reports of those that have gone */
#define ROWS_BUCKETS 4096u /* looked at for them */
#define LINK_PING_NS (13 * NS_PER_SECOND) /* of the end that dialled a link; .. */
#define LINK_PINGED_NS                                                                                                 \
    (14 * NS_PER_SECOND) /* .. the other one leaves it to that, for so long and a round trip. With the
                                              patience of a near link (window.h) it is dead within a minute */
#define LINK_TRIP_MAX_NS (10 * NS_PER_SECOND)

peer_t *peer_find(plane_t *plane, uint64_t id) {
    peer_t *peer = table_find(&plane->peers, id);
    return peer == NULL || peer->state == PEER_DOOMED ? NULL : peer;
}

void peer_tell(plane_t *plane, const peer_t *peer, event_entry_t *entry) {
    if (peer->greeted) {
        event_post_quietly(&plane->exchange, entry, plane->now.mono_ns);
    } else {
        event_post(&plane->exchange, entry);
    }
}

static uint64_t input_max(const plane_t *plane, uint32_t max_payload) {
    return (uint64_t)plane->limits.max_control_line * LEAF_CONTROL_LINE_FACTOR + max_payload + PEER_INPUT_SLACK;
}

/* The longest line before the login. Whom we dialled ourselves may send an INFO as long as later. */
static uint32_t greeting_line_max(const plane_t *plane, const peer_t *peer) {
    uint32_t line = plane->limits.max_control_line;
    if (peer->dialled) {
        return line * LEAF_CONTROL_LINE_FACTOR;
    }
    return line > GREETING_LINE_MIN ? line : GREETING_LINE_MIN;
}

static uint32_t admitted_line_max(const plane_t *plane, const peer_t *peer) {
    return plane->limits.max_control_line * peer->protocol->control_line_factor;
}

/* Expects a stranger's greeting, which costs one line, and the rest of the same read. */
static void expect_greeting(plane_t *plane, peer_t *peer) {
    uint32_t line = peer->protocol->greeting_max != 0 ? peer->protocol->greeting_max : greeting_line_max(plane, peer);
    wire_parser_init(&peer->parser, peer->protocol->wire, 0, line);
    peer->conn.read_max = line < CONN_SCRATCH_SIZE - GREETING_SLACK ? line + GREETING_SLACK : CONN_SCRATCH_SIZE;
}

/* The one place where control's name of a kind chooses what holds for it. */
static const protocol_t *protocol_of(const plane_t *plane, uint32_t kind) {
    return plane->protocols[kind >= CONN_LEAF && kind <= CONN_MQTT ? kind : CONN_CLIENT];
}

status_t peer_becomes(plane_t *plane, peer_t *peer, uint32_t kind) {
    const protocol_t *protocol = protocol_of(plane, kind);
    if (protocol->link && peer->link == NULL && (peer->link = calloc(1, sizeof(*peer->link))) == NULL) {
        return STATUS_NO_MEMORY;
    }
    plane->links += (uint32_t)(protocol->link && !peer->protocol->link);
    peer->kind = kind;
    peer->protocol = protocol;
    peer->conn.out.max_pending = plane->limits.max_pending * protocol->pending_factor;
    expect_greeting(plane, peer);
    peer->state = PEER_GREETING;
    peer_want(plane, peer);
    return STATUS_OK;
}

peer_t *peer_new(plane_t *plane, int fd, uint32_t kind, uint64_t listener, bytes_t address) {
    peer_t *peer = calloc(1, sizeof(*peer));
    if (peer == NULL) {
        return NULL;
    }
    peer->id = plane->next_peer;
    buffer_init(&peer->rows_at_end, ROWS_BYTES);
    peer->kind = kind & ~(uint32_t)(LISTEN_WEB | LISTEN_GREETED);
    peer->greeted = (kind & LISTEN_GREETED) != 0;
    peer->protocol = (kind & LISTEN_WEB) != 0 ? &protocol_http : protocol_of(plane, peer->kind);
    peer->link = peer->protocol->link ? calloc(1, sizeof(*peer->link)) : NULL;
    event_entry_t *entry = event_new(EVENT_OPENED, address, BYTES_NONE, BYTES_NONE, BYTES_NONE);
    if ((peer->protocol->link && peer->link == NULL) || entry == NULL
        || table_put(&plane->peers, peer->id, peer) != STATUS_OK) {
        free(entry);
        free(peer->link);
        free(peer);
        return NULL;
    }
    plane->next_peer++;
    const plane_limits_t *limits = &plane->limits;
    uint64_t max_pending = limits->max_pending * peer->protocol->pending_factor;
    conn_shares_t shares = {.input = &plane->memory.input, .output = &plane->memory.output};
    conn_init(&peer->conn, fd, input_max(plane, limits->max_payload), max_pending, &shares, peer);
    peer->dialled = listener == 0;
    peer->state = PEER_GREETING;
    expect_greeting(plane, peer);
    peer->start_wall_ns = plane->now.wall_ns;
    peer->last_wall_ns = plane->now.wall_ns;
    peer->last_input_ns = peer->went_on_ns = plane->now.mono_ns;
    peer->next_ping_ns = INT64_MAX;
    peer->next = plane->all_peers;
    if (peer->next != NULL) {
        peer->next->previous = peer;
    }
    plane->all_peers = peer;
    plane->stats.connections++;
    plane->links += (uint32_t)peer->protocol->link;
    plane->stats.total_connections++;
    entry->event.target = peer->id;
    entry->event.code = peer->kind;
    entry->event.arg = listener;
    entry->event.arg2 = peer->greeted;
    tcp_look_t look;
    entry->event.token = peer->protocol->link && tcp_look(fd, &look) ? (uint64_t)look.round_trip_ns : 0;
    peer_tell(plane, peer, entry);
    peer_want(plane, peer);
    return peer;
}

/* It is greeted, so what control would be told of it is still there to be taken back. */
peer_t *peer_new_carried(plane_t *plane, uint32_t kind) {
    peer_t *peer = peer_new(plane, -1, kind | LISTEN_GREETED, 1, BYTES_NONE);
    if (peer == NULL) {
        return NULL;
    }
    free(event_take_back(&plane->exchange, EVENT_OPENED, peer->id));
    peer->carried = true;
    plane->carried++;
    plane->stats.connections--;
    plane->stats.total_connections--;
    return peer;
}

void peer_hold(plane_t *plane, peer_t *peer, peer_waits_t reason) {
    peer->waits |= (uint8_t)reason;
    peer_want(plane, peer);
}

void peer_release(plane_t *plane, peer_t *peer, peer_waits_t reason) {
    peer->waits &= (uint8_t)~reason;
    if (!peer->starved || reason != WAITS_RECEIVER) {
        peer->released_ns = plane->now.mono_ns;
    }
    peer_want(plane, peer);
}

account_t *operation_account(plane_t *plane, peer_t *peer, const op_t *op) {
    const protocol_t *protocol = peer->protocol;
    return protocol->account != NULL ? protocol->account(plane, peer, op) : peer->account;
}

/* ---- input ------------------------------------------------------------------------------------------------------- */

uint32_t peer_input(plane_t *plane, peer_t *peer, bytes_t input) {
    if (peer->protocol->link) {
        int64_t gap_ns = plane->now.mono_ns - peer->last_input_ns;
        peer->heard_ns += gap_ns < WINDOW_GAP_NS ? gap_ns : WINDOW_GAP_NS;
    }
    peer->last_input_ns = plane->now.mono_ns;
    if (LEAF_UNLIKELY(plane->throttling) && throttle_waits(plane, peer)) {
        return 0;
    }
    return peer->protocol->input(plane, peer, input);
}

void peer_act(plane_t *plane, peer_t *peer, bytes_t input) {
    uint32_t used = peer_input(plane, peer, input);
    bool begins = used != 0 || !peer->begun;
    if (begins) {
        peer->input_since_ns = plane->now.mono_ns;
    }
    if (begins || peer->conn.bytes_in - peer->went_on_bytes >= PEER_DRIP) {
        peer->went_on_ns = plane->now.mono_ns;
        peer->went_on_bytes = peer->conn.bytes_in;
    }
    peer->begun = used < input.size;
    peer->starved = false;
    if (conn_keep(&peer->conn, input, used) != STATUS_OK) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for input"));
    }
}

void peer_pause(plane_t *plane, peer_t *peer) {
    peer->state = PEER_WAITING;
    peer_want(plane, peer);
}

void peer_resume(plane_t *plane, peer_t *peer) {
    if (peer->state == PEER_WAITING) {
        peer->state = PEER_GREETING;
        backlog_add(plane, peer);
    }
}

static int64_t ping_interval(const plane_t *plane, const peer_t *peer) {
    return peer->ping_interval_ns > 0 ? peer->ping_interval_ns : plane->limits.ping_interval_ns;
}

void peer_limit(plane_t *plane, peer_t *peer, const conn_verdict_t *verdict) {
    peer->flags = verdict->flags;
    peer->max_subscriptions = verdict->max_subscriptions;
    peer->expires_wall_ns = verdict->expires_wall_ns;
    peer->ping_interval_ns = verdict->ping_interval_ns;
    if (peer->next_ping_ns != INT64_MAX && peer->next_ping_ns - plane->now.mono_ns > ping_interval(plane, peer)) {
        peer->next_ping_ns = plane->now.mono_ns + ping_interval(plane, peer);
    }
    peer->parser.max_payload = verdict->max_payload != 0 ? verdict->max_payload : plane->limits.max_payload;
    peer->parser.headers = peer->protocol->link || (verdict->flags & VERDICT_HEADERS) != 0;
    uint64_t room = input_max(plane, peer->parser.max_payload);
    if (peer->conn.rest.max < room) {
        peer->conn.rest.max = room;
    }
}

void peer_admit(plane_t *plane, peer_t *peer, account_t *account, const conn_verdict_t *verdict) {
    if (peer->account != NULL && !peer->protocol->link && peer->account != account) {
        peer->account->client_count--;
        peer->account = NULL;
    }
    if (peer->account == NULL && !peer->protocol->link) {
        account->client_count++;
    }
    peer->account = account;
    peer->parser.max_control_line = admitted_line_max(plane, peer);
    peer->conn.read_max = CONN_SCRATCH_SIZE;
    peer_limit(plane, peer, verdict);
    if (peer->compress != NULL) {
        compress_admitted(peer->compress);
    }
    if (peer->web != NULL) {
        websocket_admitted(peer->web);
    }
    peer->state = PEER_ADMITTED;
    window_admitted(plane, peer);
    if (peer->rtt_ns == 0 && !peer->protocol->link) {
        /* Until a PONG tells better, as in the reference: the time that the handshake took. */
        int64_t took = plane->now.wall_ns - peer->start_wall_ns;
        peer->rtt_ns = took > 1000 ? took : 1000;
    }
    int64_t own = peer->ping_interval_ns, first = peer->protocol->first_ping_ns;
    peer->next_ping_ns = plane->now.mono_ns + (own > 0 && own < first ? own : first);
    backlog_add(plane, peer);
}

static void peer_watched(plane_t *plane, peer_t *peer, status_t status) {
    if (status != STATUS_OK) {
        peer_doom_silently(plane, peer, CLOSE_WRITE, BYTES_LITERAL("cannot watch the connection"));
    }
}

void peer_want(plane_t *plane, peer_t *peer) {
    if (!plane->threaded || peer->conn.fd < 0) {
        return;
    }
    bool reading = peer_is_read(peer);
    if (reading != peer->reading || !peer->conn.registered) {
        peer->reading = reading;
        peer_watched(plane, peer, conn_want(&peer->conn, &plane->loop, reading));
    }
}

void peer_unasked(plane_t *plane, peer_t *peer) {
    peer_watched(plane, peer, conn_unasked(&peer->conn, &plane->loop));
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

void peer_emit_failed(plane_t *plane, peer_t *peer, status_t status) {
    if (peer->state == PEER_DOOMED) {
        return;
    }
    if (status == STATUS_FULL) {
        plane->stats.slow_consumers++;
        event_alarm(&plane->exchange, ALARM_SLOW, peer->id, 0, BYTES_LITERAL("slow consumer: pending bytes"));
        bool taken = outq_pending(&peer->conn.out) == 0;
        outq_free(&peer->conn.out); /* nothing of it is sent any more, and others may need the memory now */
        buffer_t *beside = peer->protocol->waiting == NULL ? NULL : peer->protocol->waiting(peer);
        if (beside != NULL) {
            buffer_free(beside);
            if (taken) { /* its socket has room: it reads, and does not acknowledge, and can be told */
                peer_doom(plane, peer, CLOSE_SLOW, SLOW_TEXT);
                return;
            }
        }
    }
    peer_doom_silently(plane, peer, status == STATUS_FULL ? CLOSE_SLOW : CLOSE_WRITE, SLOW_TEXT);
}

void peer_emitted(plane_t *plane, peer_t *peer) {
    status_t status = outq_end(&peer->conn.out);
    peer_touch(plane, peer);
    if (status != STATUS_OK) {
        peer_emit_failed(plane, peer, status);
    }
}

/* In order behind what is queued. */
void peer_send(plane_t *plane, peer_t *peer, bytes_t frame) {
    status_t status = outq_ordered(&peer->conn.out, frame);
    peer_touch(plane, peer);
    if (status != STATUS_OK) {
        peer_emit_failed(plane, peer, status);
    }
}

/* A control frame: in order as long as the peer keeps up, in front of what it is behind with otherwise. */
void peer_send_urgent(plane_t *plane, peer_t *peer, bytes_t frame) {
    status_t status = outq_urgent(&peer->conn.out, frame);
    peer_touch(plane, peer);
    if (status != STATUS_OK) {
        peer_emit_failed(plane, peer, status);
    }
}

static void emitted_or_failed(plane_t *plane, peer_t *peer, status_t status) {
    if (status == STATUS_OK) {
        peer_emitted(plane, peer);
    } else {
        peer_emit_failed(plane, peer, status);
    }
}

void peer_error(plane_t *plane, peer_t *peer, bytes_t text) {
    emitted_or_failed(plane, peer, peer->protocol->refuse(outq_urgent_place(&peer->conn.out), text));
}

void peer_pong(plane_t *plane, peer_t *peer) {
    /* A client that drains a subscription takes the PONG for the end of its messages. */
    void (*send)(plane_t *, peer_t *, bytes_t) = peer->drains ? peer_send : peer_send_urgent;
    peer->drains = false;
    send(plane, peer, emit_pong);
    if (peer->after_pong.size != 0) {
        send(plane, peer, peer->after_pong);
        bytes_release(&peer->after_pong);
    }
}

void peer_ponged(plane_t *plane, peer_t *peer) {
    if (peer->pings_out != 0) {
        peer->rtt_ns = plane->now.mono_ns - peer->ping_sent_ns;
        if (peer->compress != NULL) {
            compress_round_trip(peer->compress, peer->rtt_ns);
        }
    }
    peer->pings_out = 0;
}

static void pause_for(plane_t *plane, peer_t *peer, int64_t pause_ns) {
    if (!peer_waits(peer, WAITS_RECEIVER)) {
        peer->stalled_until_ns = plane->now.mono_ns + pause_ns;
        peer->next_stalled = plane->stalled;
        plane->stalled = peer;
        peer_hold(plane, peer, WAITS_RECEIVER);
    }
}

/* Back-pressure: a producer whose receiver has more queued than it reads is not read for a moment. The pause is long
 * when the receiver is about to be cut off, so that no burst does that, and short when it is merely behind, so that the
 * queue stays small enough for the processor's cache. */
void peer_stall(plane_t *plane, peer_t *producer, const outq_t *receiver) {
    pause_for(plane, producer, outq_crowded(receiver) ? STALL_NS : PACE_NS);
}

void peer_wait(plane_t *plane, peer_t *peer) {
    peer->starved = true;
    pause_for(plane, peer, STALL_NS);
}

void peer_unstall(plane_t *plane) {
    if (plane->output.under_way) {
        return;
    }
    int64_t until = plane->now.mono_ns + (plane->pace_over ? PACE_NS : 0);
    plane->pace_over = false;
    for (peer_t **at = &plane->stalled; *at != NULL;) {
        peer_t *peer = *at;
        if (peer->stalled_until_ns > until) {
            at = &peer->next_stalled;
            continue;
        }
        *at = peer->next_stalled;
        peer_release(plane, peer, WAITS_RECEIVER);
        if (peer->yielded) {
            backlog_add(plane, peer);
        }
    }
}

/* ---- chores ------------------------------------------------------------------------------------------------------ */

/* The ping of the end that dialled, and its answer, serve both ends: the other one pings when they are overdue. If both
 * had the same patience, a link that is a second away would always have two of them. */
static int64_t link_quiet_ns(const peer_t *peer) {
    int64_t trip_ns = peer->link->window.round_trip_ns;
    return peer->dialled ? LINK_PING_NS : LINK_PINGED_NS + (trip_ns < LINK_TRIP_MAX_NS ? trip_ns : LINK_TRIP_MAX_NS);
}

/* Twice as much over a far or slow link by which what we send still arrives: the other kernel may wait before it sends
 * anew, after an outage as long again as that was (Linux before 6.15, nats-server). */
static int64_t ping_patience_ns(const plane_t *plane, const peer_t *peer) {
    const window_t *window = &peer->link->window;
    int64_t patience_ns = window_patience_ns(window);
    bool alive = window->measured && window->narrow && plane->now.mono_ns - window->alive_ns < patience_ns;
    return alive ? 2 * patience_ns : patience_ns;
}

/* A link is dead when nothing came for its patience after a ping: counting pings would end one whose answers wait
 * behind much else. */
static bool link_pings(plane_t *plane, peer_t *peer) {
    int64_t now = plane->now.mono_ns, quiet_ns = now - peer->last_input_ns, after_ns = link_quiet_ns(peer);
    int64_t patience_ns = ping_patience_ns(plane, peer);
    if (!peer_is_read(peer)) {
        peer->next_ping_ns = now + after_ns;
        return false;
    }
    if (quiet_ns < after_ns && peer->ping_sent_ns != 0) {
        peer->next_ping_ns = peer->last_input_ns + after_ns;
        return false;
    }
    if (peer->pings_out != 0 && quiet_ns >= after_ns + patience_ns) {
        plane->stats.stale_connections++;
        peer_doom(plane, peer, CLOSE_STALE, BYTES_LITERAL("Stale Connection"));
        return false;
    }
    int64_t dead_ns = peer->last_input_ns + after_ns + patience_ns;
    peer->next_ping_ns = dead_ns > now && dead_ns < now + after_ns ? dead_ns : now + after_ns;
    return true;
}

static bool pings(plane_t *plane, peer_t *peer) {
    const plane_limits_t *limits = &plane->limits;
    int64_t now = plane->now.mono_ns;
    bool first = peer->ping_sent_ns == 0;
    int64_t interval = ping_interval(plane, peer);
    if (peer->protocol->link && interval > LINK_PING_NS) {
        return link_pings(plane, peer);
    }
    peer->next_ping_ns = now + interval;
    /* A peer that sent something lately is alive, and one that we do not read cannot say so; the first ping measures
     * the round trip all the same. */
    if (!first && (!peer_is_read(peer) || now - peer->last_input_ns < interval)) {
        return false;
    }
    if (peer->pings_out + 1 > limits->ping_max) {
        plane->stats.stale_connections++;
        peer_doom(plane, peer, CLOSE_STALE, BYTES_LITERAL("Stale Connection"));
        return false;
    }
    return true;
}

void peer_ping(plane_t *plane, peer_t *peer) {
    if (peer->protocol->beat != NULL) {
        peer->protocol->beat(plane, peer);
        return;
    }
    if (!pings(plane, peer)) {
        return;
    }
    peer->pings_out++;
    peer->ping_sent_ns = plane->now.mono_ns;
    emitted_or_failed(plane, peer, peer->protocol->ping(outq_urgent_place(&peer->conn.out)));
}

void peer_look(const plane_t *plane, peer_t *peer) {
    uint64_t active = peer->in_msgs + peer->out_msgs + map_count(peer->table);
    if (active != peer->active) {
        peer->active = active;
        peer->last_wall_ns = plane->now.wall_ns;
    }
}

void peer_chores(plane_t *plane, peer_t *peer) {
    if (peer->state == PEER_DOOMED) {
        return;
    }
    peer_look(plane, peer);
    pressure_chores(plane, peer);
    if (peer->secure_until_ns != 0) {
        secure_chores(plane, peer);
    }
    if (peer->link != NULL && peer->link->window.measured) {
        window_chores(plane, peer);
    } else if (outq_stalled(&peer->conn.out, plane->now.mono_ns, plane->limits.write_deadline_ns)) {
        peer_emit_failed(plane, peer, STATUS_FULL);
        return;
    }
    if (peer->state == PEER_ADMITTED && plane->now.mono_ns >= peer->next_ping_ns) {
        peer_ping(plane, peer);
    }
    if (peer->expires_wall_ns != 0 && plane->now.wall_ns >= peer->expires_wall_ns) {
        peer_doom(plane, peer, CLOSE_AUTHENTICATION, BYTES_LITERAL("User Authentication Expired"));
    }
    conn_idle(&peer->conn);
}

/* ---- the end of a peer ------------------------------------------------------------------------------------------- */

/* Keeps the first of a peer's subscriptions for later reports. */
static void keep_rows(peer_t *peer) {
    status_t status = peer->protocol->link ? STATUS_FULL : STATUS_OK;
    uint64_t at = 0;
    for (uint32_t i = 0; status == STATUS_OK && at < MAP_END && i < ROWS_BUCKETS; i++) {
        status = subscription_rows(&peer->rows_at_end, map_at(peer->table, at));
        at = map_beyond(peer->table, at);
    }
}

static void peer_end(plane_t *plane, peer_t *peer, uint32_t reason, bytes_t text) {
    peer_look(plane, peer);
    peer->state = PEER_DOOMED;
    peer->subscriptions_at_end = map_count(peer->table) - peer->dead_count;
    keep_rows(peer);
    peer->close_reason = reason;
    peer->close_text = bytes_copy(text);
    peer->next_doomed = plane->doomed;
    plane->doomed = peer;
    plane->more = true;
    peer_want(plane, peer);
}

void peer_doom(plane_t *plane, peer_t *peer, uint32_t reason, bytes_t text) {
    if (peer->state == PEER_DOOMED) {
        return;
    }
    if (peer->protocol->farewell != NULL) {
        peer->protocol->farewell(plane, peer, reason, text);
        if (peer->state == PEER_DOOMED) {
            return; /* what it was to be told has no room */
        }
    } else if (text.size != 0) {
        if (peer->protocol->refuse(outq_urgent_place(&peer->conn.out), text) == STATUS_OK) {
            status_t status = outq_end(&peer->conn.out);
            (void)status; /* it is closed anyway */
        }
    }
    peer_end(plane, peer, reason, text);
}

void peer_doom_silently(plane_t *plane, peer_t *peer, uint32_t reason, bytes_t text) {
    if (peer->state != PEER_DOOMED) {
        peer->silent = true;
        peer_end(plane, peer, reason, text);
    }
}
