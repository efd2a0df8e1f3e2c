/* mqtt_publish.c: what a client of MQTT publishes, and what it is answered.
 *
 *     QoS 0    PUBLISH --> publish
 *     QoS 1    PUBLISH --> publish --> streams keep it --> their answers, when it is on disk --> PUBACK
 *                                  --> none does                                             --> PUBACK
 *     QoS 2    the same with PUBREC; its identifier is remembered until PUBREL, and a PUBLISH that comes again with it
 *              is answered and not published
 *
 * Answers go in the order of the messages (sessions/answers.h). Not here: to whom it goes
 * (plane/publish.c), where streams answer (mqtt_account.c), what is retained (mqtt_retain.c).
 */
#include <stdlib.h>

#include "base/check.h"
#include "base/hex.h"
#include "mqtt/write.h"
#include "plane/account.h"
#include "plane/keeping.h"
#include "plane/mapping.h"
#include "plane/output.h"
#include "plane/placed.h"
#include "plane/refused.h"
#include "plane/throttle.h"
#include "route/permissions.h"
#include "sessions/carry.h"
#include "text/decimal.h"
#include "text/subject.h"
#include "text/text.h"
#include "verbs/mqtt.h"
#include "verbs/mqtt_far.h"
#include "verbs/mqtt_lasting.h"
#include "verbs/mqtt_retain.h"
#include "verbs/verbs.h"

#define OWN_SUBJECTS BYTES_LITERAL("$MQTT.")

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void say_answer(plane_t *plane, peer_t *peer, const answer_t *answer) {
    session_t *session = peer->session;
    plane->stats.mqtt_not_stored += answer->reason == MQTT_REASON_QUOTA;
    if (answer->reason >= MQTT_REASON_UNSPECIFIED) {
        if (answer->kind == MQTT_PUBREC) {
            (void)ids_take(session_received(session), answer->id);
            if (session->kept != NULL) {
                (void)mqtt_kept_note(plane, session->kept, RECORD_SESSION_IN, answer->id, false);
            }
        }
        if (session->writer.level != MQTT_5) { /* it cannot be told, and has to send it again */
            peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("a message was not stored"));
            return;
        }
    }
    mqtt_acknowledge(plane, peer, (mqtt_kind_t)answer->kind, answer->id, (mqtt_reason_t)answer->reason);
}

void mqtt_say_answers(plane_t *plane, peer_t *peer) {
    answer_t answer;
    bool any = false;
    while (peer->state == PEER_ADMITTED && answers_next(&peer->session->answers, &answer)) {
        say_answer(plane, peer, &answer);
        any = true;
    }
    if (any && peer->session->far_since_ns != 0) {
        peer->session->far_since_ns = peer->session->answers.count == 0 ? 0 : plane->now.mono_ns;
        peer->session->far_placed = peer->session->far_placed && peer->session->far_since_ns != 0;
    }
    if (any && peer->session->waits) {
        mqtt_go_on(plane, peer);
    }
}

/* ---- what it publishes ------------------------------------------------------------------------------------------- */

/* A message on its way: where it goes, and where it is said that it has been kept. */
typedef struct sending {
    peer_t *peer; /* NULL: it has gone */
    account_t *account;
    const mqtt_message_t *message;
    bytes_t topic;
    bytes_t named;   /* the topic as a subject .. */
    bytes_t subject; /* .. and what the account's mappings make of it */
    bytes_t reply;
    tell_t tell;
    bool noted; /* that it came, in one entry with the message that sessions are to have */
} sending_t;

static mqtt_reason_t sending_subject(plane_t *plane, mqtt_desk_t *desk, sending_t *sending, text_t *mapped) {
    uint32_t size = 0;
    topic_verdict_t verdict = topic_to_subject(sending->topic, desk->subject, sizeof(desk->subject), &size);
    bytes_t subject = bytes_of(desk->subject, size);
    if (verdict != TOPIC_OK || !subject_valid_literal(subject)) {
        return MQTT_REASON_TOPIC;
    }
    if (bytes_starts(subject, OWN_SUBJECTS)) {
        return MQTT_REASON_NOT_AUTHORIZED;
    }
    bytes_t response = mqtt_text(&sending->message->properties, MQTT_RESPONSE_TOPIC);
    sending->reply = BYTES_NONE;
    if (mqtt_has(&sending->message->properties, MQTT_RESPONSE_TOPIC)) {
        verdict = topic_to_subject(response, desk->reply, sizeof(desk->reply), &size);
        sending->reply = bytes_of(desk->reply, size);
        if (verdict != TOPIC_OK || !subject_valid_literal(sending->reply)) {
            return MQTT_REASON_TOPIC;
        }
    }
    sending->named = subject;
    sending->subject = subject;
    if (LEAF_UNLIKELY(may_be_mapped(sending->account, subject))) {
        sending->subject = mapped_subject(plane, sending->account, subject, mapped);
    }
    return MQTT_REASON_SUCCESS;
}

static bool topic_reserved(bytes_t subject) {
    return bytes_starts(subject, BYTES_LITERAL("_GR_.")) || bytes_starts(subject, BYTES_LITERAL("$NRG."))
           || bytes_starts(subject, BYTES_LITERAL("$GR."));
}

static bool reply_reserved(bytes_t reply) {
    return bytes_starts(reply, BYTES_LITERAL("_R_.")) || bytes_starts(reply, BYTES_LITERAL("_GR_."))
           || bytes_starts(reply, BYTES_LITERAL("$JS.ACK.")) || bytes_starts(reply, BYTES_LITERAL("$GR."));
}

static bool publish_permitted(plane_t *plane, peer_t *peer, const sending_t *sending) {
    bytes_t subject = sending->subject, reply = sending->reply;
    bool allowed =
        !topic_reserved(subject)
        && (peer->permissions == NULL || permissions_publish(peer->permissions, subject, plane->now.mono_ns));
    if (!allowed) {
        peer_refused(plane, peer, &(violation_t){.code = REFUSED_PUBLISH, .subject = subject});
        return false;
    }
    if (reply.size != 0 && reply_reserved(reply)) {
        peer_refused(plane, peer, &(violation_t){.code = REFUSED_REPLY, .subject = reply});
        return false;
    }
    return true;
}

/* What it says of itself, into desk->header. */
static bool compose_header(mqtt_desk_t *desk, const sending_t *sending, bool to_be_marked) {
    const mqtt_message_t *message = sending->message;
    const kept_t *own = sending->peer == NULL ? NULL : sending->peer->session->kept;
    const carry_t carried = {.qos = message->qos,
                             .from = own != NULL && own->no_local ? own->number : 0,
                             .mark = to_be_marked ? mqtt_far_mark(desk) : 0};
    desk->header.size = 0;
    return carry_to_headers(&desk->header, &carried, &message->properties) == STATUS_OK;
}

/* Of QoS 2, where the session of its client is kept by several servers: a leader that dies leaves the message and that
 * it came, or neither. */
static mqtt_reason_t keep_for_sessions(plane_t *plane, mqtt_desk_t *desk, const publication_t *publication,
                                       sending_t *sending, uint16_t id) {
    const mqtt_message_t *message = sending->message;
    uint32_t expiry = mqtt_lasts(&message->properties);
    kept_t *kept = sending->peer == NULL || message->qos != 2 ? NULL : sending->peer->session->kept;
    const mqtt_account_t *keeper = kept == NULL ? NULL : kept->keeper;
    bool rides = keeper != NULL && keeping_shared(keeper->messages);
    uint32_t streams = sending->tell.streams;
    if (rides && !mqtt_kept_ride(kept, id)) {
        return MQTT_REASON_QUOTA;
    }
    mqtt_reason_t reason =
        mqtt_keep(plane, desk, publication, MQTT_MESSAGES, expiry, message->retain ? message : NULL, false);
    if (rides) {
        keeping_sent(keeper->messages);
        sending->noted = sending->tell.streams != streams; /* it has got there */
    }
    return reason;
}

/* To all who want it. That there are none is told where it is known (5: 3.4.2.1), and as by mosquitto for QoS 1 only:
 * its PUBREC comes before it passes the message on. */
static mqtt_reason_t send_message(plane_t *plane, mqtt_desk_t *desk, sending_t *sending, uint16_t id) {
    const mqtt_message_t *message = sending->message;
    text_t answer;
    mqtt_account_t *keeper = mqtt_account_of(plane, desk, sending->account);
    uint32_t placed = 0;                                               /* streams of other servers that keep it */
    if (keeper == NULL || (message->qos != 0 && keeper->unreadable)) { /* a session may have to have it */
        return MQTT_REASON_QUOTA;
    }
    mqtt_where_t where = message->qos == 0 ? WHERE_HERE : mqtt_far_sessions(plane, keeper, sending->account);
    if (where == WHERE_AWAY && id != 0) { /* a will goes to local subscribers all the same */
        return MQTT_REASON_QUOTA;
    }
    if (message->qos != 0 && id != 0 && !placed_keep(plane, sending->account, sending->subject, &placed)) {
        return MQTT_REASON_QUOTA;
    }
    if (!compose_header(desk, sending, where == WHERE_FAR || placed != 0)) {
        return MQTT_REASON_QUOTA;
    }
    publication_t publication = {.account = sending->account,
                                 .message = {.subject = sending->subject,
                                             .reply = sending->reply,
                                             .header = bytes_of(desk->header.at, (uint32_t)desk->header.size),
                                             .payload = message->payload},
                                 .origin = sending->peer,
                                 .tell = &sending->tell};
    if (message->qos != 0 && id != 0) {
        mqtt_answer_subject(desk, sending->peer, "", id, &answer);
        sending->tell.at = text_bytes(&answer);
        publication.flags |= PUBLICATION_TELLS;
    }
    mqtt_wanted_t wanted = message->qos == 0 ? WANTED_NOT : mqtt_stream_wanted(plane, keeper, &publication);
    if (wanted == WANTED_TOO_MUCH) {
        return MQTT_REASON_QUOTA;
    }
    if (placed != 0 && !mqtt_far_note(plane, &publication, placed)) {
        return MQTT_REASON_QUOTA;
    }
    const mqtt_message_t *retained = message->retain ? message : NULL;
    uint32_t expiry = mqtt_lasts(&message->properties);
    if (where == WHERE_FAR) { /* before it comes there for subscribers */
        mqtt_reason_t reason = mqtt_keep(plane, desk, &publication, MQTT_MESSAGES, expiry, retained, true);
        if (reason != MQTT_REASON_SUCCESS) {
            sending->tell.streams = 0; /* it goes to nobody who could answer */
            return reason;
        }
    }
    desk->current = (mqtt_current_t){
        .account = sending->account, .message = message, .topic = sending->topic, .subject = sending->named};
    bool told = publish(plane, &publication) == 0 && wanted != WANTED && placed == 0 && where != WHERE_FAR
                && !desk->current.own && message->qos == 1;
    desk->current = (mqtt_current_t){.account = NULL};
    if (wanted == WANTED) {
        mqtt_reason_t reason = keep_for_sessions(plane, desk, &publication, sending, id);
        if (reason != MQTT_REASON_SUCCESS) {
            return reason;
        }
    }
    mqtt_reason_t reason = message->retain && keeper->keeps == KEEPS_YES
                               ? mqtt_retain(plane, desk, &publication, message)
                               : MQTT_REASON_SUCCESS;
    return reason == MQTT_REASON_SUCCESS && told ? MQTT_REASON_NO_SUBSCRIBERS : reason;
}

static mqtt_reason_t judge_and_send(plane_t *plane, mqtt_desk_t *desk, sending_t *sending, uint16_t id) {
    text_t mapped;
    mqtt_reason_t reason = sending_subject(plane, desk, sending, &mapped);
    if (reason != MQTT_REASON_SUCCESS || sending->subject.size == 0) {
        return reason; /* or its mappings lead nowhere */
    }
    if (!publish_permitted(plane, sending->peer, sending)) {
        return MQTT_REASON_NOT_AUTHORIZED;
    }
    return send_message(plane, desk, sending, id);
}

/* ---- PUBLISH ----------------------------------------------------------------------------------------------------- */

/* Finds the topic, by name or by alias. false: the connection is closed. */
static bool find_topic(plane_t *plane, peer_t *peer, const mqtt_message_t *message, bytes_t *topic) {
    session_t *session = peer->session;
    *topic = message->topic;
    if (!mqtt_has(&message->properties, MQTT_TOPIC_ALIAS)) {
        if (topic->size == 0) {
            mqtt_break(plane, peer, MQTT_REASON_PROTOCOL, "a PUBLISH without a topic");
        }
        return topic->size != 0;
    }
    uint32_t alias = mqtt_number(&message->properties, MQTT_TOPIC_ALIAS, 0);
    if (alias > session->named.max) {
        mqtt_break(plane, peer, MQTT_REASON_TOPIC_ALIAS, "a topic alias above the maximum");
        return false;
    }
    if (topic->size == 0) {
        *topic = alias_topic(&session->named, alias);
        if (topic->size == 0) {
            mqtt_break(plane, peer, MQTT_REASON_PROTOCOL, "a topic alias that was not set");
        }
        return topic->size != 0;
    }
    uint64_t before = session_size(session);
    if (!mqtt_room(plane, topic->size) || alias_set(&session->named, alias, *topic) != STATUS_OK) {
        mqtt_break(plane, peer, MQTT_REASON_QUOTA, "no memory for a topic alias");
        return false;
    }
    session->cost += session_size(session) - before;
    plane->memory.interest.used += session_size(session) - before;
    return true;
}

/* May it publish that now? false: it is closed. */
static bool in_order(plane_t *plane, peer_t *peer, const mqtt_packet_t *packet) {
    session_t *session = peer->session;
    const mqtt_message_t *message = &packet->message;
    if (message->payload.size > peer->parser.max_payload) {
        mqtt_break(plane, peer, MQTT_REASON_TOO_LARGE, "Maximum Payload Violation");
        return false;
    }
    if (message->retain && mqtt_retain_keeps(peer) == KEEPS_NO) {
        mqtt_break(plane, peer, MQTT_REASON_RETAIN, "retained messages need an account with JetStream");
        return false;
    }
    if (message->qos == 2 && (plane->mqtt.flags & MQTT_REJECT_QOS2) != 0) {
        mqtt_break(plane, peer, MQTT_REASON_QOS, "QoS 2 is rejected");
        return false;
    }
    uint32_t open = session->answers.acks + session_received(session)->count;
    if (message->qos != 0 && session->writer.level == MQTT_5 && open >= plane->mqtt.receive_maximum
        && !ids_has(session_received(session), packet->id)) {
        mqtt_break(plane, peer, MQTT_REASON_RECEIVE_MAXIMUM, "more messages than the receive maximum");
        return false;
    }
    return true;
}

/* The packet, and those behind it, wait for a store or a receiver, or for answers: 3.1.1 has no receive maximum, and a
 * repeated identifier of QoS 2 is within that of 5. */
static bool has_to_wait(plane_t *plane, peer_t *peer, mqtt_desk_t *desk, const mqtt_packet_t *packet, bytes_t topic) {
    session_t *session = peer->session;
    bool retains = packet->message.retain && mqtt_retain_keeps(peer) == KEEPS_ASKED;
    mqtt_account_t *keeper = table_find(&desk->accounts, peer->account->js.id);
    bool unknown = packet->message.qos != 0 && keeper != NULL
                   && (keeper->sessions == KEEPS_ASKED || mqtt_far_unknown(plane, keeper, peer->account)
                       || mqtt_far_untold(plane, desk));
    if (retains || unknown) {
        mqtt_retain_wait(plane, peer);
        return true;
    }
    if (packet->message.qos != 0 && session->answers.count >= plane->mqtt.receive_maximum) {
        mqtt_hold(plane, peer);
        return true;
    }
    if (LEAF_LIKELY(!(plane->throttling | plane->output.lags))) {
        return false;
    }
    uint32_t size = 0;
    if (topic_to_subject(topic, desk->subject, sizeof(desk->subject), &size) != TOPIC_OK) {
        return false;
    }
    op_t *op = &desk->op;
    op->kind = OP_HPUB;
    op->subject = bytes_of(desk->subject, size);
    op->payload = packet->message.payload;
    return (plane->output.lags && output_holds(plane, peer, op)) || throttle_holds(plane, peer, op);
}

/* In its turn, when all streams have answered. */
static void answer_publish(plane_t *plane, peer_t *peer, const mqtt_packet_t *packet, mqtt_reason_t reason,
                           const tell_t *tell) {
    mqtt_kind_t kind = packet->message.qos == 1 ? MQTT_PUBACK : MQTT_PUBREC;
    answer_t *one = answers_begin(&peer->session->answers, packet->id, (uint8_t)kind);
    if (one == NULL) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for an answer"));
        return;
    }
    one->reason = (uint8_t)reason;
    one->waits = tell->streams;
    one->mark = tell->mark;
    mqtt_say_answers(plane, peer);
}

/* In the batch or entry that has the message, so that after a crash both are there or neither. */
static bool note_received(plane_t *plane, peer_t *peer, sending_t *sending, uint16_t id) {
    session_t *session = peer->session;
    kept_t *kept = session->kept;
    if (ids_add(session_received(session), id) != STATUS_OK) {
        return false;
    }
    if (kept == NULL || sending->noted) {
        return true;
    }
    if (!mqtt_kept_note(plane, kept, RECORD_SESSION_IN, id, true)) {
        return false;
    }
    text_t at;
    mqtt_answer_subject(session->shared, peer, "", id, &at);
    const mqtt_account_t *keeper = kept->keeper;
    sending->tell.streams++;
    return keeping_hold(plane, keeper->messages, text_bytes(&at), BYTES_NONE) == STATUS_OK;
}

bool mqtt_publish(plane_t *plane, peer_t *peer, const mqtt_packet_t *packet) {
    session_t *session = peer->session;
    mqtt_desk_t *desk = session->shared;
    const mqtt_message_t *message = &packet->message;
    sending_t sending = {.peer = peer, .account = peer->account, .message = message};
    if (!in_order(plane, peer, packet) || !find_topic(plane, peer, message, &sending.topic)) {
        return true;
    }
    if (has_to_wait(plane, peer, desk, packet, sending.topic)) {
        return false;
    }
    uint64_t size = message->payload.size;
    peer->in_msgs++;
    peer->in_bytes += size;
    plane->stats.in_msgs++;
    plane->stats.in_bytes += size;
    mqtt_reason_t reason = MQTT_REASON_SUCCESS;
    bool again = message->qos == 2 && ids_has(session_received(session), packet->id);
    if (!again) {
        reason = judge_and_send(plane, desk, &sending, packet->id);
        if (reason == MQTT_REASON_SUCCESS && message->qos == 2 && !note_received(plane, peer, &sending, packet->id)) {
            peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a packet identifier"));
            return true;
        }
    }
    if (peer->state != PEER_ADMITTED) {
        return true;
    }
    if (reason == MQTT_REASON_TOPIC && (message->qos == 0 || session->writer.level != MQTT_5)) {
        mqtt_break(plane, peer, reason, "a topic that no subject can carry");
    } else if (message->qos != 0) {
        bool told = session->writer.level == MQTT_5 || reason != MQTT_REASON_NOT_AUTHORIZED;
        answer_publish(plane, peer, packet, told ? reason : MQTT_REASON_SUCCESS, &sending.tell);
    }
    return true;
}

/* The release of an identifier is on disk before the client may use it anew. A client that is back in its session may
 * not have heard of that, and says it again, which is no fault then (5: 3.7.2.1); clients take 0x92 for one. */
void mqtt_release(plane_t *plane, peer_t *peer, const mqtt_packet_t *packet) {
    session_t *session = peer->session;
    kept_t *kept = session->kept;
    bool known = ids_take(session_received(session), packet->id);
    bytes_t answer;
    if (kept != NULL && known) {
        if (!mqtt_kept_note(plane, kept, RECORD_SESSION_IN, packet->id, false)
            || !mqtt_draft(session, MQTT_PUBCOMP, packet->id, &answer)) {
            peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no room for a message's state"));
            return;
        }
        mqtt_say_durable(plane, peer, "p", answer);
        return;
    }
    mqtt_reason_t reason = known || session->present ? MQTT_REASON_SUCCESS : MQTT_REASON_ID_NOT_FOUND;
    mqtt_acknowledge(plane, peer, MQTT_PUBCOMP, packet->id, reason);
}

/* ---- the will ---------------------------------------------------------------------------------------------------- */

bool mqtt_will_permitted(plane_t *plane, peer_t *peer, const mqtt_message_t *will) {
    sending_t sending = {.account = peer->account, .message = will, .topic = will->topic};
    text_t mapped;
    return sending_subject(plane, peer->session->shared, &sending, &mapped) == MQTT_REASON_SUCCESS
           && publish_permitted(plane, peer, &sending);
}

void mqtt_publish_will(plane_t *plane, account_t *account, const mqtt_message_t *will) {
    sending_t sending = {.account = account, .message = will, .topic = will->topic};
    text_t mapped;
    if (sending_subject(plane, plane->mqtt_desk, &sending, &mapped) == MQTT_REASON_SUCCESS
        && sending.subject.size != 0) {
        (void)send_message(plane, plane->mqtt_desk, &sending, 0);
    }
}
