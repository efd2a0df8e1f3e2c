/* mqtt_login.c: how clients of MQTT come and go: CONNECT, CONNACK, another one with its name, DISCONNECT, keep alive.
 *
 *     CONNECT --> session_t --> its user is known (command/known_logins.c) --> as after ADMIT
 *                           --> EVENT_LINE with the packet --> ADMIT --> the one with that name goes --> CONNACK
 *                                                          --> CLOSE --> CONNACK with the reason of CLOSE_*
 *
 * Not here: whether it may come (control), what it may do (route/permissions.h), who has that name (mqtt_names.c).
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/copies.h"
#include "base/hash.h"
#include "exchange/exchange.h"
#include "mqtt/write.h"
#include "plane/account.h"
#include "plane/memory.h"
#include "verbs/mqtt.h"
#include "verbs/mqtt_carry.h"
#include "verbs/mqtt_far.h"
#include "verbs/mqtt_lasting.h"
#include "verbs/mqtt_names.h"
#include "verbs/mqtt_retain.h"
#include "verbs/mqtt_share.h"

#define KNOWN_USER_MAX 512u /* of a login that is known, with its password */
#define TEXT_SIZE_BYTES 2u

/* ---- reasons ----------------------------------------------------------------------------------------------------- */

static mqtt_reason_t reason_of(uint32_t close, bool admitted) {
    switch (close) {
    case CLOSE_AUTHENTICATION:
    case CLOSE_PERMISSION: return MQTT_REASON_NOT_AUTHORIZED;
    case CLOSE_LIMIT:
    case CLOSE_SLOW: return MQTT_REASON_QUOTA;
    case CLOSE_SHUTDOWN: return MQTT_REASON_SHUTTING_DOWN;
    case CLOSE_KICKED: return MQTT_REASON_ADMINISTRATIVE;
    case CLOSE_STALE: return admitted ? MQTT_REASON_KEEP_ALIVE : MQTT_REASON_UNSPECIFIED;
    case CLOSE_DUPLICATE: return MQTT_REASON_TAKEN_OVER;
    case CLOSE_PROTOCOL: return MQTT_REASON_PROTOCOL;
    default: return MQTT_REASON_UNSPECIFIED;
    }
}

/* Refuses a client that takes no packet of the CONNACK's size: what it has to know must not get lost. */
static void connack_failed(plane_t *plane, peer_t *peer, status_t status) {
    if (status == STATUS_INVALID) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT,
                           BYTES_LITERAL("a maximum packet size that no CONNACK has room in"));
    }
}

static void say_connack(plane_t *plane, peer_t *peer, const mqtt_writer_t *writer, mqtt_reason_t reason,
                        const mqtt_properties_t *properties) {
    status_t status = mqtt_write_connack(writer, &peer->conn.out.data, false, reason, properties);
    connack_failed(plane, peer, status);
    mqtt_emitted(plane, peer, status);
}

/* ---- CONNECT ----------------------------------------------------------------------------------------------------- */

/* In 3.1.1's words where it is not known which it speaks: all understand them (5: 4.13). */
static void refuse_connect(plane_t *plane, peer_t *peer, mqtt_level_t level, mqtt_reason_t reason, const char *text) {
    const mqtt_writer_t writer = {.level = level == MQTT_5 ? MQTT_5 : MQTT_3_1_1, .max_packet = UINT32_MAX};
    mqtt_properties_t properties = {.present = 0};
    mqtt_set_text(&properties, MQTT_REASON_STRING, bytes_of(text, (uint32_t)strlen(text)));
    if (level == MQTT_5 || mqtt_return_code(reason) != 0) {
        say_connack(plane, peer, &writer, reason, level == MQTT_5 ? &properties : NULL);
    }
    mqtt_break(plane, peer, reason, text);
}

void mqtt_refuse_stranger(plane_t *plane, peer_t *peer, const mqtt_packet_t *packet, const mqtt_fault_t *fault) {
    mqtt_level_t level = packet->kind == MQTT_CONNECT ? packet->login.level : MQTT_UNKNOWN;
    if (level == MQTT_5 || fault->reason == MQTT_REASON_VERSION) { /* 3.1.1 closes and says nothing: MQTT-3.1.4-1 */
        refuse_connect(plane, peer, level, fault->reason, fault->text);
    } else {
        mqtt_break(plane, peer, fault->reason, fault->text);
    }
}

static bool version_allowed(const plane_t *plane, mqtt_level_t level) {
    uint32_t flag = level == MQTT_5 ? MQTT_VERSION_5 : MQTT_VERSION_3;
    return (plane->mqtt.flags & flag) != 0;
}

/* Refuses what can be refused before control is asked. false: it was refused. */
static bool acceptable(plane_t *plane, peer_t *peer, const mqtt_packet_t *packet) {
    const mqtt_login_t *login = &packet->login;
    if (!version_allowed(plane, login->level)) {
        refuse_connect(plane, peer, login->level, MQTT_REASON_VERSION, "this version of MQTT is not served");
        return false;
    }
    if (peer->excess) {
        refuse_connect(plane, peer, login->level, MQTT_REASON_QUOTA, "maximum connections exceeded");
        return false;
    }
    if (mqtt_has(&packet->properties, MQTT_AUTH_METHOD)) {
        refuse_connect(plane, peer, login->level, MQTT_REASON_METHOD, "there is no enhanced authentication");
        return false;
    }
    if (login->client.size == 0 && login->level == MQTT_3_1_1 && !login->clean) {
        refuse_connect(plane, peer, login->level, MQTT_REASON_CLIENT_ID,
                       "a session that is kept needs a client identifier");
        return false;
    }
    if (login->has_will && login->will.qos == 2 && (plane->mqtt.flags & MQTT_REJECT_QOS2) != 0) {
        refuse_connect(plane, peer, login->level, MQTT_REASON_QOS, "QoS 2 is rejected");
        return false;
    }
    return true;
}

/* What a CONNECT says of the user, as logins/known_logins.py remembers it: which of the two there are, and the end of
 * the packet, from the user's size on. false: it is longer than any that is known. */
static bool put_user(const mqtt_login_t *login, bytes_t whole, uint8_t *to, uint32_t *size) {
    uint32_t user = login->has_user ? TEXT_SIZE_BYTES + login->user.size : 0;
    uint32_t both = user + (login->has_password ? TEXT_SIZE_BYTES + login->password.size : 0);
    if (both >= KNOWN_USER_MAX) {
        return false;
    }
    to[0] = (uint8_t)((login->has_user ? MQTT_CONNECT_USER : 0) | (login->has_password ? MQTT_CONNECT_PASSWORD : 0));
    memcpy(to + 1, whole.at + whole.size - both, both);
    *size = 1 + both;
    return true;
}

/* May it be let in without asking? Of a client over TLS control needs no more than that its handshake is over; over
 * WebSocket a cookie of the request may count, which control has read. */
static bool may_be_known(const plane_t *plane, const peer_t *peer) {
    bool secured = peer->web == NULL && peer->tls != NULL && peer->secure_until_ns == 0;
    return plane->admit_known != NULL && (peer->greeted || secured);
}

/* Admits a client by a user that control has judged before. One without an identifier gets one from control. */
static bool is_known(plane_t *plane, peer_t *peer, const mqtt_login_t *login, bytes_t whole) {
    uint8_t user[KNOWN_USER_MAX];
    uint32_t size;
    return may_be_known(plane, peer) && login->client.size != 0 && put_user(login, whole, user, &size)
           && plane->admit_known(plane, peer, bytes_of(user, size), whole);
}

bool mqtt_begin_session(plane_t *plane, peer_t *peer, const mqtt_packet_t *packet) {
    const session_terms_t terms = {.window = plane->mqtt.max_ack_pending,
                                   .alias_max = plane->mqtt.topic_alias_maximum,
                                   .waiting_max = plane->limits.max_pending,
                                   .waiting = &plane->memory.output};
    mqtt_desk_t *desk = mqtt_desk_of(plane);
    session_t *session = desk == NULL ? NULL : session_new(&packet->login, &packet->properties, &terms);
    if (session == NULL) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a login"));
        return false;
    }
    session->cost = session_size(session);
    if (session->cost > MQTT_SMALL && !mqtt_room(plane, session->cost)) { /* its will */
        session_free(session);
        refuse_connect(plane, peer, packet->login.level, MQTT_REASON_QUOTA, "no memory for its will");
        return false;
    }
    session->owner = peer;
    session->shared = desk;
    plane->memory.interest.used += session->cost;
    peer->session = session;
    return true;
}

void mqtt_connect(plane_t *plane, peer_t *peer, const mqtt_packet_t *packet, bytes_t whole) {
    if (!acceptable(plane, peer, packet) || !mqtt_begin_session(plane, peer, packet)) {
        return;
    }
    mqtt_carry_prepare(plane, peer->session, &packet->login, whole);
    if (is_known(plane, peer, &packet->login, whole)) {
        return;
    }
    event_entry_t *entry = event_new(EVENT_LINE, BYTES_NONE, BYTES_NONE, BYTES_NONE, whole);
    if (entry == NULL) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a login"));
        return;
    }
    entry->event.target = peer->id;
    entry->event.code = LINE_CONNECT;
    event_post(&plane->exchange, entry);
    peer_pause(plane, peer);
}

/* ---- CONNACK ----------------------------------------------------------------------------------------------------- */

static void limit_keep_alive(const plane_t *plane, session_t *session, mqtt_properties_t *properties) {
    uint32_t most = plane->mqtt.keep_alive_max;
    if (session->writer.level == MQTT_5 && most != 0 && most <= UINT16_MAX
        && (session->keep_alive == 0 || session->keep_alive > most)) {
        session->keep_alive = (uint16_t)most;
        mqtt_set_number(properties, MQTT_SERVER_KEEP_ALIVE, most);
    }
}

/* Adds the grants that a client of 5 is told (5: 3.2.2.3). */
static void add_grants(const plane_t *plane, const peer_t *peer, session_t *session, mqtt_properties_t *properties) {
    const mqtt_limits_t *limits = &plane->mqtt;
    if (session->expiry != session->asked) {
        mqtt_set_number(properties, MQTT_SESSION_EXPIRY, session->expiry);
    }
    if (limits->receive_maximum < UINT16_MAX) {
        mqtt_set_number(properties, MQTT_RECEIVE_MAXIMUM, limits->receive_maximum);
    }
    if ((peer->account->flags & ACCOUNT_JETSTREAM) == 0) {
        mqtt_set_number(properties, MQTT_RETAIN_AVAILABLE, 0);
    }
    mqtt_set_number(properties, MQTT_MAXIMUM_PACKET, mqtt_max_packet(plane, peer));
    if (session->named.max != 0) {
        mqtt_set_number(properties, MQTT_TOPIC_ALIAS_MAXIMUM, session->named.max);
    }
    if ((limits->flags & MQTT_REJECT_QOS2) != 0) {
        mqtt_set_number(properties, MQTT_MAXIMUM_QOS, 1);
    }
    if (session->assigned) {
        mqtt_set_text(properties, MQTT_ASSIGNED_CLIENT, session->client.name);
    }
}

static void limit_expiry(const plane_t *plane, session_t *session) {
    int64_t most = plane->mqtt.session_expiry_max_ns / NS_PER_SECOND;
    session->asked = session->expiry;
    if (most > 0 && session->expiry > most) {
        session->expiry = (uint32_t)most;
    }
}

void mqtt_first_beat(const plane_t *plane, peer_t *peer) {
    int64_t patience_ns = (int64_t)peer->session->keep_alive * NS_PER_SECOND / 2 * 3;
    peer->next_ping_ns = patience_ns == 0 ? INT64_MAX : plane->now.mono_ns + patience_ns;
}

status_t mqtt_admitted(plane_t *plane, peer_t *peer, const conn_verdict_t *verdict) {
    (void)verdict;
    session_t *session = peer->session;
    if (session == NULL) {
        return STATUS_INVALID;
    }
    if (session->will != NULL && session->will->message.retain && (peer->account->flags & ACCOUNT_JETSTREAM) == 0) {
        session->told = true;
        refuse_connect(plane, peer, session->writer.level, MQTT_REASON_RETAIN,
                       "retained messages need an account with JetStream");
        return STATUS_OK;
    }
    if (session->will != NULL && session->will->message.payload.size > peer->parser.max_payload) {
        session->told = true;
        refuse_connect(plane, peer, session->writer.level, MQTT_REASON_TOO_LARGE,
                       "a will that is larger than max_payload");
        return STATUS_OK;
    }
    session->client.owner = peer->account->js.id;
    if (session->client.name.size == 0) {
        session->assigned = true;
        if (peer->after_pong.size == 0 || !session_name(session, peer->after_pong)) {
            return STATUS_NO_MEMORY;
        }
    }
    session->enters = true;
    limit_expiry(plane, session);
    if (session->expiry != 0) {
        mqtt_stream_begin(plane, peer);
    }
    mqtt_retain_begin(plane, peer->account);
    mqtt_enter(plane, peer);
    return STATUS_OK;
}

/* ---- the session of a client that logs in ------------------------------------------------------------------------ */

/* No session is kept for it: a client that CONNACK can tell so is told, one that cannot be told is not let in. Nor is
 * one whose session could not be read: its client would drop its own part of it. A client that begins without one and
 * wants none is let in: it ends that one when it begins again. */
static bool do_without(plane_t *plane, peer_t *peer) {
    session_t *session = peer->session;
    if (peer->carried) { /* its own server asks who has its session now */
        peer_doom_silently(plane, peer, CLOSE_KICKED, BYTES_LITERAL("another server has its session now"));
        return false;
    }
    const mqtt_account_t *keeper = mqtt_account_of(plane, session->shared, peer->account);
    bool elsewhere = keeper != NULL && keeper->elsewhere == KEEPS_YES;
    if (keeper != NULL && keeper->unreadable && (session->expiry != 0 || !session->clean)) {
        session->told = true;
        refuse_connect(plane, peer, session->writer.level, MQTT_REASON_UNAVAILABLE,
                       "the sessions that are kept cannot be read");
        return false;
    }
    if (session->expiry != 0 && (session->writer.level != MQTT_5 || elsewhere)) {
        session->told = true;
        refuse_connect(plane, peer, session->writer.level,
                       elsewhere ? MQTT_REASON_ANOTHER_SERVER : MQTT_REASON_UNAVAILABLE,
                       elsewhere ? "another server of the cluster keeps sessions" : "sessions are not kept");
        return false;
    }
    session->expiry = 0;
    return true;
}

/* Finds the client's session, as it was or new. *written: something of it was written. */
static status_t find_session(plane_t *plane, mqtt_account_t *keeper, session_t *session, kept_t **out, bool *written) {
    kept_t *kept = mqtt_kept_find(session->shared, session->client.owner, session->client.name);
    if (kept != NULL && session->clean) {
        status_t status = mqtt_kept_end(plane, kept);
        if (status != STATUS_OK) {
            return status;
        }
        kept = NULL;
        *written = true;
    }
    session->present = kept != NULL;
    if (kept == NULL && session->expiry != 0) {
        kept = kept_new(session->client.name);
        if (kept == NULL) {
            return STATUS_NO_MEMORY;
        }
        status_t status = mqtt_kept_add(plane, keeper, kept, false);
        if (status != STATUS_OK) {
            return status;
        }
        *written = true;
    }
    *out = kept;
    return STATUS_OK;
}

/* false: it was refused. */
static bool take_session(plane_t *plane, peer_t *peer, mqtt_account_t *keeper, bool *written) {
    session_t *session = peer->session;
    kept_t *kept = NULL;
    status_t status = find_session(plane, keeper, session, &kept, written);
    if (status != STATUS_OK) {
        session->told = true;
        plane->stats.mqtt_no_session++;
        refuse_connect(plane, peer, session->writer.level, MQTT_REASON_QUOTA, "there are too many sessions");
        return false;
    }
    if (kept == NULL) {
        return true;
    }
    mqtt_kept_attend(plane, kept, session);
    status = mqtt_will_note(plane, peer, kept, written);
    /* A crash must not count the time of the client's presence for a session that may expire, or for its will. */
    bool changed = kept->expiry != session->expiry || session->expiry != SESSION_EVER || kept->left_age_ns != 0;
    if (status == STATUS_OK && (*written || changed)) {
        kept->expiry = session->expiry;
        kept->left_age_ns = 0;
        status = mqtt_kept_store(plane, kept);
    }
    if (status != STATUS_OK) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no room for a session"));
    }
    return status == STATUS_OK;
}

/* Welcomes a client whose records are on disk, or that had none to write. */
static void welcome(plane_t *plane, peer_t *peer, bool written) {
    session_t *session = peer->session;
    mqtt_desk_t *desk = session->shared;
    mqtt_properties_t properties = {.present = 0};
    limit_keep_alive(plane, session, &properties);
    add_grants(plane, peer, session, &properties);
    session->admitted = true;
    if (peer->carried) {
        session->keep_alive = 0; /* the other server looks after it */
    }
    mqtt_first_beat(plane, peer);
    buffer_t *to = written ? &desk->packet : &peer->conn.out.data;
    desk->packet.size = 0;
    status_t status = mqtt_write_connack(&session->writer, to, session->present, MQTT_REASON_SUCCESS, &properties);
    connack_failed(plane, peer, status);
    if (status != STATUS_OK || !written) {
        mqtt_emitted(plane, peer, status);
        mqtt_entered(plane, peer);
        return;
    }
    mqtt_hold(plane, peer);
    mqtt_say_durable(plane, peer, "k", bytes_of(desk->packet.at, (uint32_t)desk->packet.size));
}

/* A will is published without a wait when its connection ends, so it is known before who keeps it. */
static bool is_unknown(plane_t *plane, mqtt_account_t *keeper, const peer_t *peer) {
    const will_t *will = peer->session->will;
    bool retains = will != NULL && will->message.retain, waits = will != NULL && will->message.qos != 0;
    return keeper->sessions == KEEPS_ASKED || mqtt_names_ask(plane, keeper, peer)
           || (retains && keeper->keeps == KEEPS_ASKED) || (waits && mqtt_far_unknown(plane, keeper, peer->account));
}

void mqtt_enter(plane_t *plane, peer_t *peer) {
    session_t *session = peer->session;
    mqtt_account_t *keeper = mqtt_account_of(plane, session->shared, peer->account);
    bool written = false;
    if (peer->state != PEER_ADMITTED) {
        return;
    }
    if (keeper == NULL) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a login"));
        return;
    }
    if (is_unknown(plane, keeper, peer)) {
        mqtt_retain_wait(plane, peer);
        return;
    }
    bool asks = session->expiry != 0 || mqtt_names_resumes(plane, keeper, peer);
    if (keeper->sessions != KEEPS_YES && ((asks && mqtt_carry_begin(plane, peer)) || !do_without(plane, peer))) {
        return;
    }
    mqtt_carry_settled(session);
    if (mqtt_names_take(plane, session) != STATUS_OK) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a login"));
        return;
    }
    if (mqtt_names_begin(plane, keeper, peer)) {
        return;
    }
    if (keeper->sessions != KEEPS_YES || take_session(plane, peer, keeper, &written)) {
        welcome(plane, peer, written);
    }
}

/* What waits for it has been judged by other rights. */
void mqtt_judged(plane_t *plane, peer_t *peer, bytes_t body, bytes_t strings) {
    mqtt_carry_judged(plane, peer, body, strings);
    if (peer->session != NULL) {
        peer->session->flight.judges = flight_waiting(&peer->session->flight) != 0;
    }
}

/* In the order of their PUBRECs (4.6.0-4). false: no memory. */
static bool release_again(plane_t *plane, peer_t *peer) {
    session_t *session = peer->session;
    const sequences_t *released = &session->kept->released;
    uint16_t *ids = sequences_in_order(released);
    bool good = ids != NULL || released->count == 0;
    for (uint32_t i = 0; good && i < released->count; i++) {
        good = flight_release_again(&session->flight, ids[i]) == STATUS_OK;
        if (good) {
            mqtt_acknowledge(plane, peer, MQTT_PUBREL, ids[i], MQTT_REASON_SUCCESS);
        }
    }
    free(ids);
    return good;
}

void mqtt_entered(plane_t *plane, peer_t *peer) {
    session_t *session = peer->session;
    session->enters = false;
    if (session->waits) {
        mqtt_go_on(plane, peer);
    }
    if (session->kept != NULL) {
        if (!release_again(plane, peer)) {
            peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a message's state"));
            return;
        }
        mqtt_resubscribe(plane, peer);
        mqtt_kept_attend(plane, session->kept, session);
    }
}

/* ---- keep alive -------------------------------------------------------------------------------------------------- */

/* Silent for one and a half times what it promised (5: 3.1.2.10). Of whom we do not read nothing is known. */
void mqtt_beat(plane_t *plane, peer_t *peer) {
    int64_t patience_ns = (int64_t)peer->session->keep_alive * NS_PER_SECOND / 2 * 3, now_ns = plane->now.mono_ns;
    mqtt_retain_go_on(plane, peer);
    if (peer->session->flight.lags) {
        mqtt_send_waiting(plane, peer);
    }
    if (patience_ns == 0) {
        peer->next_ping_ns = INT64_MAX;
    } else if (!peer_is_read(peer)) {
        peer->next_ping_ns = now_ns + patience_ns;
    } else if (now_ns - peer->last_input_ns >= patience_ns) {
        plane->stats.stale_connections++;
        peer_doom(plane, peer, CLOSE_STALE, BYTES_LITERAL("Stale Connection"));
    } else {
        peer->next_ping_ns = peer->last_input_ns + patience_ns;
    }
    if (peer->session->reads_pause || peer->session->flight.lags) {
        peer->next_ping_ns = now_ns; /* it is looked at again with the next chores */
    }
    if (mqtt_far_beat(plane, peer)) {
        mqtt_retain_again(plane, peer);
    }
}

/* ---- the end of a connection ------------------------------------------------------------------------------------- */

/* Ends a connection with its will, unless the client says otherwise. */
void mqtt_disconnect(plane_t *plane, peer_t *peer, const mqtt_packet_t *packet) {
    session_t *session = peer->session;
    bool expires = mqtt_has(&packet->properties, MQTT_SESSION_EXPIRY);
    uint32_t expiry = mqtt_number(&packet->properties, MQTT_SESSION_EXPIRY, 0);
    if (expires && session->asked == 0 && expiry != 0) { /* 5: 3.14.2.2.2: that is no DISCONNECT, and its will stays */
        mqtt_break(plane, peer, MQTT_REASON_PROTOCOL, "a session expiry where CONNECT had none");
        return;
    }
    if (packet->reason == MQTT_REASON_SUCCESS) { /* 5: 3.1.2.5: no other reason takes it back */
        session_forget_will(session);
    }
    if (expires) {
        session->expiry = expiry;
        limit_expiry(plane, session);
        if (session->kept != NULL) {
            session->kept->expiry = session->expiry;
        }
    }
    session->told = true; /* nothing comes behind its own DISCONNECT */
    peer_doom(plane, peer, CLOSE_CLIENT, BYTES_LITERAL("Client Closed"));
}

void mqtt_farewell(plane_t *plane, peer_t *peer, uint32_t reason, bytes_t text) {
    session_t *session = peer->session;
    if (session == NULL || session->told || mqtt_carry_interrupts(session)) {
        return;
    }
    session->told = true;
    mqtt_properties_t properties = {.present = 0};
    if (text.size != 0 && session->explains && topic_text(text)) {
        mqtt_set_text(&properties, MQTT_REASON_STRING, text);
    }
    mqtt_reason_t code = reason_of(reason, session->admitted);
    if (!session->admitted) {
        say_connack(plane, peer, &session->writer, code, &properties);
    } else if (reason != CLOSE_CLIENT) {
        mqtt_emitted(plane, peer, mqtt_write_disconnect(&session->writer, &peer->conn.out.data, code, &properties));
    }
}

/* Its will is the next server's, too, which has the record of it. */
void mqtt_send_on(plane_t *plane, const kept_t *kept) {
    session_t *session = kept->session;
    peer_t *peer = session->owner;
    if (kept->will_noted) {
        session_forget_will(session);
    }
    if (session->admitted && !session->told && session->writer.level == MQTT_5) {
        session->told = true;
        mqtt_emitted(plane, peer,
                     mqtt_write_disconnect(&session->writer, &peer->conn.out.data, MQTT_REASON_ANOTHER_SERVER, NULL));
    }
    peer_doom(plane, peer, CLOSE_KICKED, BYTES_LITERAL("another server has its session now"));
}

void mqtt_left(plane_t *plane, peer_t *peer) {
    session_t *session = peer->session;
    if (session == NULL) {
        return;
    }
    mqtt_carry_left(plane, peer);
    if (session->listed) {
        map_take(((mqtt_desk_t *)session->shared)->here, &session->client.link);
    }
    mqtt_retain_forget(peer);
    mqtt_will_left(plane, peer);
    if (session->kept != NULL) {
        mqtt_kept_leave(plane, session->kept);
    } else {
        mqtt_share_left(plane, session);
    }
    plane->memory.interest.used -= session->cost;
    session_free(session);
    peer->session = NULL;
}
