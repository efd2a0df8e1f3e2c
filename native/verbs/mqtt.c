/* mqtt.c: the MQTT protocol, 3.1.1 and 5: bytes to packets, and which packet may come when. The same operations as of a
 * client of NATS stand behind them.
 *
 *     GREETING    CONNECT --> control (EVENT_LINE) --> ADMIT --> CONNACK, the rest below
 *                                                  --> CLOSE --> CONNACK with the reason
 *     ADMITTED    PUBLISH, PUBREL       mqtt_publish.c       SUBSCRIBE, UNSUBSCRIBE   mqtt_subscribe.c
 *                 PUBACK .. PUBCOMP     mqtt_deliver.c       DISCONNECT               mqtt_login.c
 *
 * Not here: the packets' bytes (mqtt/), what is remembered of a client (sessions/).
 */
#include "verbs/mqtt.h"
#include "verbs/mqtt_carry.h"
#include "verbs/mqtt_retain.h"
#include "verbs/mqtt_lasting.h"
#include "verbs/mqtt_names.h"
#include "verbs/mqtt_share.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/copies.h"
#include "base/random.h"
#include "mqtt/read.h"
#include "mqtt/write.h"
#include "plane/account.h"
#include "plane/backlog.h"
#include "plane/output.h"
#include "plane/pressure.h"
#include "plane/protocol.h"
#include "plane/refused.h"
#include "plane/throttle.h"
#include "route/route.h"
#include "verbs/turn.h"
#include "verbs/verbs.h"

/* ---- the desk: what all devices share ---------------------------------------------------------------------------- */

mqtt_desk_t *mqtt_desk_of(plane_t *plane) {
    if (plane->mqtt_desk != NULL) {
        return plane->mqtt_desk;
    }
    mqtt_desk_t *desk = calloc(1, sizeof(*desk));
    if (desk == NULL) {
        return NULL;
    }
    if (map_open(&desk->here) != STATUS_OK || map_open(&desk->kept) != STATUS_OK
        || map_open(&desk->carried) != STATUS_OK) {
        map_free(&desk->here);
        map_free(&desk->kept);
        free(desk);
        return NULL;
    }
    desk->plane = plane;
    desk->key = random_next(&plane->random);
    desk->open = random_next(&plane->random);
    desk->far = random_next(&plane->random);
    desk->server = random_next(&plane->random);
    desk->released = UINT16_MAX;
    desk->mark = (uint32_t)random_next(&plane->random);
    buffer_init(&desk->header, MQTT_ASKED_BYTES);
    buffer_init(&desk->properties, MQTT_ASKED_BYTES);
    buffer_init(&desk->packet, UINT64_C(1) << 32);
    buffer_init(&desk->frame, UINT64_C(1) << 32);
    plane->mqtt_desk = desk;
    return desk;
}

void mqtt_close(plane_t *plane) {
    mqtt_desk_t *desk = plane->mqtt_desk;
    bytes_release(&plane->mqtt_domain);
    if (desk == NULL) {
        return;
    }
    map_walk_t walk = {0};
    mqtt_will_forget_all(desk);
    mqtt_names_close(desk);
    for (mqtt_account_t *one; (one = table_next(&desk->accounts, &walk)) != NULL;) {
        map_walk_t kept_walk = {0};
        for (kept_t *kept; (kept = table_next(&one->numbers, &kept_walk)) != NULL;) {
            mqtt_kept_forget(plane, kept);
        }
        mqtt_share_forget_all(plane, one);
        table_free(&one->numbers);
        table_free(&one->shares);
        sink_remove(plane, &one->far);
        sink_remove(plane, &one->sink);
        free(one);
    }
    table_free(&desk->accounts);
    map_free(&desk->here);
    map_free(&desk->kept);
    map_free(&desk->shares);
    due_free(&desk->due);
    due_free(&desk->wills);
    buffer_free(&desk->header);
    buffer_free(&desk->properties);
    buffer_free(&desk->packet);
    buffer_free(&desk->frame);
    map_free(&desk->carried);
    free(desk);
    plane->mqtt_desk = NULL;
}

/* ---- packets to a device ----------------------------------------------------------------------------------------- */

void mqtt_emitted(plane_t *plane, peer_t *peer, status_t status) {
    if (status == STATUS_OK) {
        peer_emitted(plane, peer);
    } else if (status != STATUS_INVALID) { /* it takes no packet of that size */
        peer_emit_failed(plane, peer, status);
    }
}

const mqtt_properties_t *mqtt_explained(const session_t *session, mqtt_reason_t reason, mqtt_properties_t *properties) {
    bytes_t text = mqtt_reason_text(reason);
    if (text.size == 0 || !session->explains || session->writer.level != MQTT_5) {
        return NULL;
    }
    *properties = (mqtt_properties_t){.present = 0};
    mqtt_set_text(properties, MQTT_REASON_STRING, text);
    return properties;
}

void mqtt_acknowledge(plane_t *plane, peer_t *peer, mqtt_kind_t kind, uint16_t id, mqtt_reason_t reason) {
    const session_t *session = peer->session;
    mqtt_properties_t scratch;
    mqtt_emitted(plane, peer,
                 mqtt_write_acknowledgement(&session->writer, &peer->conn.out.data, kind, id, reason,
                                            mqtt_explained(session, reason, &scratch)));
}

void mqtt_break(plane_t *plane, peer_t *peer, mqtt_reason_t reason, const char *text) {
    bytes_t why = bytes_of(text, (uint32_t)strlen(text));
    if (peer->state == PEER_DOOMED) {
        return;
    }
    peer_refused(plane, peer, &(violation_t){.code = REFUSED_PROTOCOL, .subject = why});
    if (peer->session != NULL && !peer->session->told && peer->session->writer.level == MQTT_5) {
        mqtt_properties_t properties = {.present = 0};
        mqtt_set_text(&properties, MQTT_REASON_STRING, why);
        const mqtt_properties_t *said = peer->session->explains ? &properties : NULL;
        mqtt_emitted(plane, peer, mqtt_write_disconnect(&peer->session->writer, &peer->conn.out.data, reason, said));
        peer->session->told = true;
    }
    peer_doom(plane, peer, reason == MQTT_REASON_TOO_LARGE ? CLOSE_LIMIT : CLOSE_PROTOCOL, why);
}

void mqtt_hold(plane_t *plane, peer_t *peer) {
    peer->session->waits = true;
    peer_hold(plane, peer, WAITS_SESSION);
}

void mqtt_go_on(plane_t *plane, peer_t *peer) {
    peer->session->waits = false;
    peer_release(plane, peer, WAITS_SESSION);
    backlog_add(plane, peer);
}

static status_t says_nothing(buffer_t *out, bytes_t text) {
    (void)out;
    (void)text;
    return STATUS_OK;
}

static status_t never_pings(buffer_t *out) {
    (void)out;
    return STATUS_OK;
}

static buffer_t *waits_for_window(const peer_t *peer) {
    return peer->session == NULL ? NULL : &peer->session->flight.part->waiting;
}

/* ---- input ------------------------------------------------------------------------------------------------------- */

bool mqtt_room(const plane_t *plane, uint64_t more) {
    return share_has_of(&plane->memory.interest, MQTT_EIGHTHS, more);
}

uint32_t mqtt_max_packet(const plane_t *plane, const peer_t *peer) {
    uint32_t payload = peer->account != NULL ? peer->parser.max_payload : plane->limits.max_payload;
    uint32_t most = payload < UINT32_MAX - MQTT_HEAD_BYTES ? payload + MQTT_HEAD_BYTES : UINT32_MAX;
    uint32_t wanted = plane->mqtt.max_packet;
    return wanted != 0 && wanted < most ? wanted : most;
}

static void bad_packet(plane_t *plane, peer_t *peer, const mqtt_fault_t *fault) {
    mqtt_break(plane, peer, fault->reason, fault->text);
}

static uint32_t packets_greeting(plane_t *plane, peer_t *peer, bytes_t input) {
    const mqtt_reader_t reader = {.level = MQTT_UNKNOWN, .max_packet = MQTT_GREETING_MAX};
    mqtt_packet_t packet;
    mqtt_fault_t fault;
    uint32_t used = 0, need = 0;
    if (peer->state != PEER_GREETING) {
        return 0;
    }
    packet.login.level = MQTT_UNKNOWN;
    switch (mqtt_read(&reader, input, &packet, &used, &need, &fault)) {
    case MQTT_PACKET: mqtt_connect(plane, peer, &packet, bytes_of(input.at, used)); return used;
    case MQTT_BAD: mqtt_refuse_stranger(plane, peer, &packet, &fault); return 0;
    case MQTT_MORE:
    default: return 0;
    }
}

/* false: it is to come again, later. */
static bool packet_dispatch(plane_t *plane, peer_t *peer, const mqtt_packet_t *packet) {
    switch (packet->kind) {
    case MQTT_PUBLISH: return mqtt_publish(plane, peer, packet);
    case MQTT_PUBREL: mqtt_release(plane, peer, packet); break;
    case MQTT_PUBACK:
    case MQTT_PUBREC:
    case MQTT_PUBCOMP: mqtt_answered(plane, peer, packet); break;
    case MQTT_SUBSCRIBE: return mqtt_subscribe(plane, peer, packet);
    case MQTT_UNSUBSCRIBE: mqtt_unsubscribe(plane, peer, packet); break;
    case MQTT_PINGREQ: mqtt_emitted(plane, peer, mqtt_write_pong(&peer->conn.out.data)); break;
    case MQTT_DISCONNECT: mqtt_disconnect(plane, peer, packet); break;
    case MQTT_CONNECT: mqtt_break(plane, peer, MQTT_REASON_PROTOCOL, "a second CONNECT"); break;
    case MQTT_AUTH: mqtt_break(plane, peer, MQTT_REASON_METHOD, "no enhanced authentication was begun"); break;
    case MQTT_NONE:
    case MQTT_CONNACK:
    case MQTT_SUBACK:
    case MQTT_UNSUBACK:
    case MQTT_PINGRESP:
    default: mqtt_break(plane, peer, MQTT_REASON_PROTOCOL, "a packet of a server"); break;
    }
    return true;
}

/* The packet that the input begins with. false: none that is whole, or none at all, and the peer is doomed. */
static bool first_packet(plane_t *plane, peer_t *peer, bytes_t input, mqtt_packet_t *packet, uint32_t *taken) {
    const mqtt_reader_t reader = {.level = peer->session->writer.level, .max_packet = mqtt_max_packet(plane, peer)};
    mqtt_fault_t fault;
    uint32_t need = 0;
    *taken = 0;
    mqtt_verdict_t verdict = mqtt_read(&reader, input, packet, taken, &need, &fault);
    peer->parser.need = verdict == MQTT_MORE ? need : 0;
    if (LEAF_UNLIKELY(verdict == MQTT_BAD)) {
        bad_packet(plane, peer, &fault);
    }
    return verdict == MQTT_PACKET;
}

static uint32_t packets_admitted(plane_t *plane, peer_t *peer, bytes_t input) {
    uint32_t used = 0, changes = 0;
    const uint64_t *steps = route_steps(peer->account->route);
    turn_t turn = turn_begin(plane, steps);
    mqtt_packet_t packet;
    while (peer->state == PEER_ADMITTED && (peer->waits & (WAITS_CONTROL | WAITS_STORE | WAITS_SESSION)) == 0) {
        uint32_t taken;
        if (!first_packet(plane, peer, bytes_after(input, used), &packet, &taken)
            || !packet_dispatch(plane, peer, &packet)) {
            break;
        }
        used += taken;
        changes += packet.kind == MQTT_SUBSCRIBE || packet.kind == MQTT_UNSUBSCRIBE;
        if (LEAF_UNLIKELY(changes != 0 || turn_is_over(plane, &turn))) {
            turn_yield(plane, peer);
            break;
        }
    }
    return used;
}

static uint32_t mqtt_input(plane_t *plane, peer_t *peer, bytes_t input) {
    if (LEAF_UNLIKELY(peer->state != PEER_ADMITTED)) {
        return packets_greeting(plane, peer, input);
    }
    if (LEAF_UNLIKELY(mqtt_carry_away(peer->session))) {
        return mqtt_carry_input(plane, peer, input);
    }
    uint32_t used = packets_admitted(plane, peer, input);
    if (LEAF_UNLIKELY(peer->carried)) {
        mqtt_carried_took(plane, peer, input.size - used);
    }
    return used;
}

const protocol_t protocol_mqtt = {.input = mqtt_input,
                                  .emit = mqtt_emit,
                                  .ping = never_pings,
                                  .refuse = says_nothing,
                                  .control_line_factor = 1,
                                  .pending_factor = 1,
                                  .first_ping_ns = FIRST_PING_NS,
                                  .credit = &credit_client,
                                  .admit = COMMAND_ADMIT,
                                  .judged = mqtt_judged,
                                  .admitted = mqtt_admitted,
                                  .greeting_max = MQTT_GREETING_MAX,
                                  .farewell = mqtt_farewell,
                                  .beat = mqtt_beat,
                                  .takes = mqtt_takes,
                                  .drained = mqtt_retain_go_on,
                                  .left = mqtt_left,
                                  .waiting = waits_for_window,
                                  .wire = WIRE_CLIENT};
