/* mqtt_deliver.c: a message to a client of MQTT, and what that answers.
 *
 *     from a client of MQTT of this account   as it came: topic, properties, its QoS or that of the subscription
 *     from anywhere else                      QoS 0; its reply is the response topic, its headers are properties, which
 *                                             are made once for all who get it
 *
 * A packet that is larger than the client takes is not sent (5: 3.1.2.11.4). Not here: who wants it
 * (plane/publish.c), packet identifiers and what waits for one (sessions/flight.h).
 */
#include "base/check.h"
#include "base/clock.h"
#include "mqtt/write.h"
#include "plane/account.h"
#include "plane/keeping.h"
#include "plane/output.h"
#include "route/permissions.h"
#include "sessions/carry.h"
#include "verbs/mqtt.h"
#include "verbs/mqtt_far.h"
#include "verbs/mqtt_lasting.h"
#include "verbs/mqtt_retain.h"
#include "verbs/mqtt_share.h"

/* ---- who gets a message, and how --------------------------------------------------------------------------------- */

static bool is_current(const mqtt_desk_t *desk, const publication_t *publication, const message_t *shown) {
    const mqtt_current_t *current = &desk->current;
    return current->account == publication->account && current->message->payload.at == shown->payload.at
           && current->message->payload.size == shown->payload.size;
}

static uint8_t qos_of(const subscription_t *one) {
    return (uint8_t)((one->flags & MQTT_SUB_QOS) >> MQTT_SUB_QOS_SHIFT);
}

/* Makes the properties from the headers, once for all receivers. */
static void make_properties(plane_t *plane, mqtt_desk_t *desk, const message_t *shown) {
    mqtt_made_t *made = &desk->made;
    if (made->publication == plane->publication && made->header == shown->header.at) {
        return;
    }
    made->publication = plane->publication;
    made->header = shown->header.at;
    made->failed = carry_from_headers(shown->header, &desk->properties, &made->properties, &made->carried) != STATUS_OK;
}

/* Another server of the cluster has it from a client of its own, and says its QoS. false: this one has it out of its
 * stream. A subscriber that waits for that QoS there and not here has it at once with QoS 0. */
static bool takes_from_server(plane_t *plane, mqtt_desk_t *desk, const subscription_t *one, const message_t *shown,
                              uint8_t *qos) {
    make_properties(plane, desk, shown);
    const mqtt_made_t *made = &desk->made;
    bool kept = one->peer->session->kept != NULL;
    if (made->failed) {
        return true;
    }
    if ((kept || (one->flags & MQTT_SUB_GROUPED) != 0) && mqtt_far_stored(desk, made->carried.mark)) {
        return false;
    }
    *qos = kept ? 0 : made->carried.qos;
    return true;
}

/* false: its client has not read for long. */
static bool receiver_has_room(plane_t *plane, const subscription_t *one) {
    if (!output_unread(plane, one->peer)) {
        return true;
    }
    plane->stats.mqtt_passed_over++;
    one->peer->session->reads_missed = true;
    return false;
}

bool mqtt_takes(plane_t *plane, subscription_t *one, const publication_t *publication, const message_t *shown) {
    mqtt_desk_t *desk = one->peer->session->shared;
    if (LEAF_UNLIKELY((one->flags & MQTT_SUB_READS) != 0) && is_current(desk, publication, shown)
        && desk->current.message->retain) {
        mqtt_retain_first(plane, one, shown->subject);
    }
    if ((one->flags & MQTT_SUB_NO_LOCAL) != 0 && publication->origin == one->peer) {
        desk->current.own = true;
        return false;
    }
    if ((one->flags & MQTT_SUB_WILD) != 0 && shown->subject.at[0] == '$') {
        return false;
    }
    desk->as_it_came = is_current(desk, publication, shown);
    uint8_t qos = desk->as_it_came ? desk->current.message->qos : 0, most = qos_of(one);
    if (!desk->as_it_came && most != 0 && publication->origin != NULL && publication->origin->route != NULL
        && !takes_from_server(plane, desk, one, shown, &qos)) {
        return false;
    }
    desk->qos = qos < most ? qos : most;
    bool stored = desk->qos != 0 || ((publication->flags & PUBLICATION_REPUBLISHED) != 0 && most != 0);
    if (stored && one->peer->session->kept != NULL && one->target.queue.size == 0) {
        return false; /* it comes out of the stream */
    }
    if (desk->qos == 0 && !receiver_has_room(plane, one)) {
        return false;
    }
    if (!desk->as_it_came && one->peer->session->writer.level == MQTT_5) {
        make_properties(plane, desk, shown);
    }
    return true;
}

/* ---- the packet -------------------------------------------------------------------------------------------------- */

/* The topic of a subject; empty: it has none. */
static bytes_t topic_for(bytes_t subject, uint8_t *to) {
    if (subject.size > MQTT_TOPIC_BYTES) {
        return BYTES_NONE;
    }
    bytes_t topic = bytes_of(to, topic_of_subject(subject, to));
    for (uint32_t i = 0; i < topic.size; i++) {
        if (topic.at[i] == '+' || topic.at[i] == '#') {
            return BYTES_NONE;
        }
    }
    return topic_text(topic) ? topic : BYTES_NONE;
}

bool mqtt_compose(mqtt_desk_t *desk, const session_t *session, const message_t *message, mqtt_outgoing_t *out) {
    *out = (mqtt_outgoing_t){.publish = {.topic = topic_for(message->subject, desk->topic)}};
    out->publish.payload_size = message->payload.size;
    if (session->writer.level != MQTT_5) {
        return out->publish.topic.size != 0;
    }
    out->publish.properties = &out->properties;
    out->properties = desk->made.properties;
    bytes_t response = message->reply.size == 0 ? BYTES_NONE : topic_for(message->reply, desk->response);
    if (response.size != 0) {
        mqtt_set_text(&out->properties, MQTT_RESPONSE_TOPIC, response);
    }
    return out->publish.topic.size != 0 && !desk->made.failed;
}

/* The current message. */
static bool compose_as_it_came(mqtt_desk_t *desk, const session_t *session, const subscription_t *one,
                               const message_t *message, mqtt_outgoing_t *out) {
    const mqtt_current_t *current = &desk->current;
    bool same = bytes_equal(message->subject, current->subject);
    *out =
        (mqtt_outgoing_t){.publish = {.topic = same ? current->topic : topic_for(message->subject, desk->topic),
                                      .retain = current->message->retain && (one->flags & MQTT_SUB_AS_PUBLISHED) != 0}};
    out->publish.payload_size = message->payload.size;
    if (session->writer.level == MQTT_5) {
        out->publish.properties = &out->properties;
        out->properties = current->message->properties;
        out->properties.present &= ~(1u << MQTT_TOPIC_ALIAS | 1u << MQTT_WILL_DELAY);
    }
    return out->publish.topic.size != 0;
}

static bool compose_message(mqtt_desk_t *desk, const session_t *session, const subscription_t *one,
                            const message_t *message, mqtt_outgoing_t *out) {
    bool sayable = desk->as_it_came ? compose_as_it_came(desk, session, one, message, out)
                                    : mqtt_compose(desk, session, message, out);
    out->publish.qos = desk->qos;
    out->publish.retain = out->publish.retain || desk->retained;
    if (one->id != 0) {
        mqtt_set_number(&out->properties, MQTT_SUBSCRIPTION_ID, (uint32_t)one->id);
    }
    return sayable;
}

static status_t put_publish(const mqtt_writer_t *writer, buffer_t *to, const mqtt_outgoing_t *out, bytes_t payload) {
    uint64_t before = to->size;
    status_t status = mqtt_write_publish(writer, to, &out->publish);
    if (status == STATUS_OK && payload.size != 0) {
        status = buffer_append(to, payload.at, payload.size);
    }
    if (status != STATUS_OK) {
        to->size = before;
    }
    return status;
}

/* With a short name for its topic, if the client takes one. */
static status_t put_named_message(session_t *session, buffer_t *to, mqtt_outgoing_t *out, bytes_t payload) {
    bytes_t topic = out->publish.topic;
    if (session->given.max != 0 && session->writer.level == MQTT_5) {
        bool known;
        uint32_t alias = alias_of(&session->given, topic, &known);
        if (alias != 0) {
            mqtt_set_number(&out->properties, MQTT_TOPIC_ALIAS, alias);
            out->publish.topic = known ? BYTES_NONE : topic;
        }
    }
    return put_publish(&session->writer, to, out, payload);
}

/* The place of the identifier: behind the topic. */
static uint32_t id_place(bytes_t packet, bytes_t topic) {
    bytes_t rest = bytes_after(packet, 1);
    uint32_t size;
    int taken = mqtt_take_number(&rest, &size);
    check(taken == 1);
    return packet.size - rest.size + 2 + topic.size;
}

/* The place of the message expiry: behind the identifier, the block's size, and the payload format if that is there
 * (the order is the table's). 0: there is none. */
static uint32_t expiry_place(bytes_t packet, uint32_t id_at, const mqtt_outgoing_t *out) {
    if (out->publish.properties == NULL || !mqtt_has(&out->properties, MQTT_MESSAGE_EXPIRY)) {
        return 0;
    }
    bytes_t rest = bytes_after(packet, id_at + 2);
    uint32_t size;
    int taken = mqtt_take_number(&rest, &size);
    check(taken == 1);
    uint32_t before = mqtt_has(&out->properties, MQTT_PAYLOAD_FORMAT) ? 3 : 1;
    return packet.size - rest.size + before;
}

static status_t put_waiting_message(mqtt_desk_t *desk, session_t *session, mqtt_outgoing_t *out, bytes_t payload) {
    desk->packet.size = 0;
    out->publish.id = 1;
    status_t status = put_publish(&session->writer, &desk->packet, out, payload);
    if (status != STATUS_OK) {
        return status;
    }
    bytes_t packet = bytes_of(desk->packet.at, (uint32_t)desk->packet.size);
    flight_packet_t one = {.packet = packet, .id_at = id_place(packet, out->publish.topic), .seq = out->seq};
    one.expiry_at = expiry_place(packet, one.id_at, out);
    /* Of a session that is kept they wait in the stream, whose consumer counts them. */
    one.counted = session->kept == NULL && out->seq == 0 && !desk->retained;
    if (one.counted) {
        const mqtt_limits_t *limits = &desk->plane->mqtt;
        const flight_most_t most = {.messages = limits->max_queued, .bytes = limits->max_session_bytes};
        desk->plane->stats.mqtt_passed_over += flight_bound(&session->flight, &most, packet.size);
    }
    return flight_wait(&session->flight, &one, desk->plane->now.mono_ns);
}

status_t mqtt_put(session_t *session, outq_t *to, mqtt_outgoing_t *out, bytes_t payload) {
    flight_t *flight = &session->flight;
    bool again = out->seq != 0 && flight_has(flight, out->seq);
    if (out->publish.qos == 0) {
        return put_named_message(session, &to->data, out, payload);
    }
    out->publish.id = again ? flight_id(out->seq) : flight_begin(flight, out->seq);
    if (out->publish.id == 0) {
        return put_waiting_message(session->shared, session, out, payload);
    }
    status_t status = put_named_message(session, &to->data, out, payload);
    if (status != STATUS_OK && !again) {
        flight_undo(flight, out->publish.id);
    }
    return status;
}

status_t mqtt_emit(peer_t *peer, outq_t *out, const subscription_t *one, const message_t *message) {
    session_t *session = peer->session;
    mqtt_outgoing_t outgoing;
    if (!compose_message(session->shared, session, one, message, &outgoing)) {
        return STATUS_OK; /* MQTT has no word for it */
    }
    status_t status = mqtt_put(session, out, &outgoing, message->payload);
    return status == STATUS_INVALID ? STATUS_OK : status;
}

/* Takes the age from the message's time to live (5: 3.3.2.3.3); some is left, since the message is there. */
static void age_properties(mqtt_properties_t *properties, int64_t age_ns) {
    uint32_t expiry = mqtt_number(properties, MQTT_MESSAGE_EXPIRY, 0);
    int64_t seconds = age_ns / NS_PER_SECOND;
    if (mqtt_has(properties, MQTT_MESSAGE_EXPIRY) && seconds > 0) {
        mqtt_set_number(properties, MQTT_MESSAGE_EXPIRY, seconds < expiry ? expiry - (uint32_t)seconds : 1);
    }
}

void mqtt_make(plane_t *plane, mqtt_desk_t *desk, const message_t *message, int64_t age_ns) {
    desk->made.publication = 0; /* each has headers of its own */
    make_properties(plane, desk, message);
    age_properties(&desk->made.properties, age_ns);
    desk->made.publication = 0;
}

void mqtt_deliver_retained(plane_t *plane, subscription_t *one, const message_t *message, int64_t age_ns) {
    peer_t *peer = one->peer;
    mqtt_desk_t *desk = peer->session->shared;
    bool hidden = (one->flags & MQTT_SUB_WILD) != 0 && message->subject.at[0] == '$';
    /* of a tree ("a/#") it may hear the root alone, or all but that */
    bool denied = peer->permissions != NULL && !permissions_hear(peer->permissions, message->subject);
    if (hidden || denied || message->subject.size == 0) {
        return;
    }
    uint8_t most = qos_of(one);
    mqtt_make(plane, desk, message, age_ns);
    desk->as_it_came = false;
    desk->qos = desk->made.carried.qos < most ? desk->made.carried.qos : most;
    desk->retained = true;
    mqtt_emitted(plane, peer, mqtt_emit(peer, &peer->conn.out, one, message));
    desk->retained = false;
    peer->out_msgs++;
    peer->out_bytes += message->payload.size;
    plane->stats.out_msgs++;
    plane->stats.out_bytes += message->payload.size;
}

/* ---- a message that is settled ----------------------------------------------------------------------------------- */

/* The client has that message of the stream. share: of which shared subscription it is; 0: of none. */
static void settle_stored(plane_t *plane, session_t *session, uint32_t share, uint64_t seq) {
    if (share != 0) {
        const mqtt_desk_t *desk = session->shared;
        mqtt_share_acknowledge(plane, table_find(&desk->accounts, session->client.owner), share, seq);
    } else if (session->kept != NULL) {
        mqtt_kept_acknowledge(plane, session->kept, seq);
    }
}

/* PUBREL of a session that is kept. That its client has the message is on disk before it is told to forget that it had
 * it. */
static void say_release(plane_t *plane, peer_t *peer, uint16_t id, uint32_t share, uint64_t seq) {
    session_t *session = peer->session;
    kept_t *kept = session->kept;
    bytes_t packet;
    if (!mqtt_kept_release(plane, kept, id) || !mqtt_draft(session, MQTT_PUBREL, id, &packet)) {
        peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no room for a message's state"));
        return;
    }
    settle_stored(plane, session, share, seq);
    mqtt_say_durable(plane, peer, "p", packet);
}

/* PUBREC: the client has the message. */
static void answer_received(plane_t *plane, peer_t *peer, uint16_t id) {
    session_t *session = peer->session;
    uint64_t seq;
    uint32_t share = flight_share(&session->flight, id);
    bool known = flight_received(&session->flight, id, &seq);
    mqtt_reason_t reason = known ? MQTT_REASON_SUCCESS : MQTT_REASON_ID_NOT_FOUND;
    if (session->kept == NULL || !known) {
        settle_stored(plane, session, share, seq);
        mqtt_acknowledge(plane, peer, MQTT_PUBREL, id, reason);
        return;
    }
    say_release(plane, peer, id, share, seq);
}

/* A message of QoS 2 that it may have from an earlier connection and may not hear any more. It is not sent again. If
 * its client has begun to take it, it would take the next message with this identifier for the same one, so that is
 * released. */
void mqtt_let_go(plane_t *plane, peer_t *peer, uint64_t seq) {
    flight_t *flight = &peer->session->flight;
    uint16_t id = flight_id(seq);
    if (peer->state != PEER_ADMITTED || peer->session->kept == NULL) {
        return;
    }
    if (flight_taken(flight, id)) { /* by a later one, which it has been sent */
        settle_stored(plane, peer->session, 0, seq);
    } else if (flight_release_again(flight, id) == STATUS_OK) {
        say_release(plane, peer, id, 0, seq);
    } /* without memory it comes again with the next connection */
}

/* ---- what waited for its turn ------------------------------------------------------------------------------------ */

/* Of a packet that has waited: its topic is told, and its identifier is behind that. */
static bytes_t waiting_topic(bytes_t packet, uint16_t *id) {
    bytes_t rest = bytes_after(packet, 1);
    uint32_t size;
    int taken = mqtt_take_number(&rest, &size);
    check(taken == 1);
    bytes_t topic = bytes_of(rest.at + 2, load_be16(rest.at));
    *id = load_be16(topic.at + topic.size);
    return topic;
}

/* A reload has changed what the client may hear since the message came. false: it goes, as far as it is its own. */
static bool may_still_hear(plane_t *plane, peer_t *peer, bytes_t packet) {
    session_t *session = peer->session;
    mqtt_desk_t *desk = session->shared;
    uint16_t id;
    uint32_t size;
    uint64_t seq;
    bytes_t topic = waiting_topic(packet, &id);
    bool sayable = topic_to_subject(topic, desk->subject, sizeof desk->subject, &size) == TOPIC_OK;
    if (peer->permissions == NULL || (sayable && permissions_hear(peer->permissions, bytes_of(desk->subject, size)))) {
        return true;
    }
    bool again = (packet.at[0] & MQTT_HEAD_DUP) != 0 && (packet.at[0] & MQTT_HEAD_QOS_2) != 0;
    if (again && session->kept != NULL) {
        answer_received(plane, peer, id); /* as mqtt_let_go does */
    } else if (flight_acknowledged(&session->flight, id, &seq)) {
        settle_stored(plane, session, 0, seq);
    }
    return false;
}

void mqtt_send_waiting(plane_t *plane, peer_t *peer) {
    session_t *session = peer->session;
    bytes_t packet;
    while (peer->state == PEER_ADMITTED && flight_next(&session->flight, plane->now.mono_ns, &packet)) {
        if (!session->flight.judges || may_still_hear(plane, peer, packet)) {
            mqtt_emitted(plane, peer, buffer_append(&peer->conn.out.data, packet.at, packet.size));
        }
        if (peer->state == PEER_DOOMED) {
            return; /* what waits may be gone */
        }
        flight_gone(&session->flight);
    }
    session->flight.judges = session->flight.judges && flight_waiting(&session->flight) != 0;
    if (session->flight.lags) {
        peer->next_ping_ns = plane->now.mono_ns; /* mqtt_beat goes on with it */
    }
}

/* ---- acknowledgements of a device -------------------------------------------------------------------------------- */

void mqtt_answered(plane_t *plane, peer_t *peer, const mqtt_packet_t *packet) {
    session_t *session = peer->session;
    flight_t *flight = &session->flight;
    kept_t *kept = session->kept;
    uint64_t seq;
    uint32_t share = flight_share(flight, packet->id);
    if (packet->kind == MQTT_PUBREC && packet->reason < MQTT_REASON_UNSPECIFIED) {
        answer_received(plane, peer, packet->id);
        return;
    }
    if (packet->kind == MQTT_PUBCOMP) {
        (void)flight_completed(flight, packet->id);
        if (kept != NULL && sequences_find(&kept->released, packet->id) != 0
            && mqtt_kept_note(plane, kept, RECORD_SESSION_OUT, packet->id, false)) {
            (void)sequences_take(&kept->released, packet->id);
        }
    } else if (flight_acknowledged(flight, packet->id, &seq)) {
        settle_stored(plane, session, share, seq);
    }
    mqtt_send_waiting(plane, peer);
    mqtt_retain_go_on(plane, peer);
}
