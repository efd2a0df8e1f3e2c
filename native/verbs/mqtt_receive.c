/* mqtt_receive.c: what a session that outlives its connection gets out of the stream.
 *
 *     delivery --> which of its subscriptions match, from their first sequence on
 *              --> none: acknowledged for it, since nobody wants it any more
 *              --> its client may not hear it any more: likewise, and released if it may have it with QoS 2
 *              --> PUBLISH with the highest QoS of them and all their identifiers; its own follows from its sequence
 *
 *     PUBACK   --> acknowledged
 *     PUBREC   --> acknowledged, and RECORD_SESSION_OUT, in one batch --> on disk --> PUBREL
 *     PUBCOMP  --> the record goes
 *
 * Not here: when it is delivered, and again (consume/), what waits for its turn (sessions/flight.h).
 */
#include "net/outq.h"
#include "plane/account.h"
#include "plane/output.h"
#include "route/permissions.h"
#include "text/subject.h"
#include "verbs/mqtt.h"
#include "verbs/mqtt_lasting.h"
#include "verbs/mqtt_share.h"
#include "verbs/verbs.h"

#define IDENTIFIERS_MAX 16u

/* The result of a session's subscriptions for one message. */
typedef struct wanted {
    uint8_t qos;
    bool any;
    bool as_published;
    uint32_t identifiers[IDENTIFIERS_MAX];
    uint32_t count;
} wanted_t;

static bool filter_matches(const kept_filter_t *filter, bytes_t subject) {
    bytes_t parent = bytes_of(filter->pattern.at, filter->parent);
    bool hidden = (filter->flags & MQTT_SUB_WILD) != 0 && subject.at[0] == '$';
    return !hidden
           && (subject_matches(subject, filter->pattern) || (parent.size != 0 && subject_matches(subject, parent)));
}

static void look_at_filters(const kept_t *kept, bytes_t subject, uint64_t seq, const carry_t *carried, wanted_t *out) {
    bool own = carried->from == kept->number;
    *out = (wanted_t){.qos = 0};
    for (uint32_t i = 0; i < kept->filter_count; i++) {
        const kept_filter_t *filter = &kept->filters[i];
        uint8_t most = (uint8_t)((filter->flags & MQTT_SUB_QOS) >> MQTT_SUB_QOS_SHIFT);
        if (filter->shared || most == 0 || seq < filter->first || (own && (filter->flags & MQTT_SUB_NO_LOCAL) != 0)
            || !filter_matches(filter, subject)) {
            continue;
        }
        uint8_t here = carried->qos < most ? carried->qos : most;
        out->any = true;
        out->qos = here > out->qos ? here : out->qos;
        out->as_published = out->as_published || (filter->flags & MQTT_SUB_AS_PUBLISHED) != 0;
        if (filter->identifier != 0 && out->count < IDENTIFIERS_MAX) {
            out->identifiers[out->count++] = filter->identifier;
        }
    }
}

/* Not from inside a delivery: at the next tick. Without memory for that it comes again. what: "a", it is acknowledged;
 * "l", it is let go. */
static void forgo_later(plane_t *plane, const peer_t *peer, const char *what, uint64_t seq) {
    text_t at;
    mqtt_answer_subject(peer->session->shared, peer, what, seq, &at);
    publish_later(
        plane,
        &(publication_t){.account = peer->account, .message = {.subject = text_bytes(&at)}, .flags = PUBLICATION_OWN});
}

/* The message itself is judged. A session has filters that were granted to another user, or before a reload, and of a
 * tree ("a/#") its client may hear the root alone, or all but that. */
static bool allowed(const peer_t *peer, bytes_t subject) {
    return peer->permissions == NULL || permissions_hear(peer->permissions, subject);
}

/* false: it takes no packet of that size (5: 3.1.2.11.4). */
static bool send(plane_t *plane, peer_t *peer, const message_t *message, mqtt_outgoing_t *out) {
    status_t status = mqtt_put(peer->session, &peer->conn.out, out, message->payload);
    if (status == STATUS_INVALID) {
        return false;
    }
    mqtt_emitted(plane, peer, status);
    peer->out_msgs++;
    peer->out_bytes += message->payload.size;
    plane->stats.out_msgs++;
    plane->stats.out_bytes += message->payload.size;
    return true;
}

bool mqtt_read_stored(plane_t *plane, const delivery_t *delivery, mqtt_stored_t *out) {
    if (!ack_reply_parse(delivery->reply, &out->place)
        || !bytes_starts(delivery->subject, BYTES_LITERAL(MQTT_MESSAGES))) {
        return false;
    }
    out->message = (message_t){.subject = bytes_after(delivery->subject, sizeof(MQTT_MESSAGES) - 1),
                               .header = delivery->header,
                               .payload = delivery->payload};
    mqtt_make(plane, plane->mqtt_desk, &out->message, plane->now.wall_ns - out->place.ts);
    return true;
}

bool mqtt_send_stored(plane_t *plane, peer_t *peer, const mqtt_stored_t *stored, const mqtt_terms_t *terms) {
    mqtt_desk_t *desk = plane->mqtt_desk;
    mqtt_outgoing_t out;
    if (!mqtt_compose(desk, peer->session, &stored->message, &out)) {
        return false;
    }
    out.publish.qos = terms->qos;
    out.publish.dup = terms->again && terms->qos != 0;
    out.publish.retain = desk->made.carried.retain && terms->as_published;
    out.seq = stored->place.stream_seq;
    if (terms->count != 0) {
        mqtt_set_number(&out.properties, MQTT_SUBSCRIPTION_ID, terms->identifiers[0]);
        out.properties.more = terms->identifiers + 1;
        out.properties.more_count = terms->count - 1;
    }
    return send(plane, peer, &stored->message, &out);
}

delivered_t mqtt_receive(plane_t *plane, void *receiver, const delivery_t *delivery) {
    kept_t *kept = receiver;
    if (is_share(kept)) {
        return mqtt_share_receive(plane, kept, delivery);
    }
    session_t *session = kept->session;
    peer_t *peer = session == NULL ? NULL : session->owner;
    mqtt_stored_t stored;
    if (peer == NULL || peer->state != PEER_ADMITTED || session->enters
        || !mqtt_read_stored(plane, delivery, &stored)) {
        return DELIVERED_NO_INTEREST;
    }
    uint64_t seq = stored.place.stream_seq;
    bool sent = flight_has(&session->flight, seq);
    if (peer_is_full(plane, peer) || (sent && flight_share(&session->flight, flight_id(seq)) != 0)) {
        return DELIVERED_FULL;
    }
    if (flight_waits(&session->flight, seq) || (sent && session->writer.level == MQTT_5)) {
        return DELIVERED;
    }
    const carry_t *carried = &((const mqtt_desk_t *)plane->mqtt_desk)->made.carried;
    wanted_t wanted;
    look_at_filters(kept, stored.message.subject, seq, carried, &wanted);
    const mqtt_terms_t terms = {.qos = wanted.qos,
                                .as_published = wanted.as_published,
                                .again = stored.place.delivered > 1 || seq <= kept->doubtful,
                                .identifiers = wanted.identifiers,
                                .count = wanted.count};
    if (wanted.any && !allowed(peer, stored.message.subject)) {
        forgo_later(plane, peer, terms.again && wanted.qos == 2 && !sent ? "l" : "a", seq);
    } else if (!wanted.any || !mqtt_send_stored(plane, peer, &stored, &terms) || wanted.qos == 0) {
        forgo_later(plane, peer, "a", seq); /* QoS 0 was published by NATS, right into the stream */
    }
    return DELIVERED;
}
