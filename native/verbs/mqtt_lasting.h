/* mqtt_lasting.h: what outlives the connection of a client of MQTT: its session, the stream of messages for it, its
 * will. What the protocol's files share beside that is mqtt.h.
 */
#ifndef LEAFD_VERBS_MQTT_LASTING_H
#define LEAFD_VERBS_MQTT_LASTING_H

#include "text/ack_reply.h"
#include "verbs/mqtt.h"

/* ---- mqtt_stream.c ----------------------------------------------------------------------------------------------- */

#define MQTT_MESSAGES "$MQTT.msgs." /* their subjects */

/* Begins with a peer whose account has JetStream: the stream is asked for, if it is not known. */
void mqtt_stream_begin(plane_t *plane, peer_t *peer);
void mqtt_stream_made(plane_t *plane, mqtt_account_t *keeper, bytes_t payload); /* or was not */
/* Is it wanted for sessions? WANTED_TOO_MUCH: by more shared subscriptions than a message may have, or
 * more waits already than may; groups of those that want it are left out of the publication. */
typedef enum mqtt_wanted { WANTED_NOT = 0, WANTED, WANTED_TOO_MUCH } mqtt_wanted_t;
mqtt_wanted_t mqtt_stream_wanted(plane_t *plane, const mqtt_account_t *keeper, publication_t *publication);

/* ---- mqtt_kept.c ------------------------------------------------------------------------------------------------- */

kept_t *mqtt_kept_find(const mqtt_desk_t *desk, uint32_t account, bytes_t client);
/* One that was read from its record, or is new: with a place in the tables, and what delivers to it. */
LEAF_MUST_USE status_t mqtt_kept_add(plane_t *plane, mqtt_account_t *keeper, kept_t *kept, bool loading);
void mqtt_kept_forget(plane_t *plane, kept_t *kept); /* its memory alone */
/* Removes what is left of one whose record is lost. Its number is nobody else's, and its will comes all the same. */
LEAF_MUST_USE status_t mqtt_kept_lose(plane_t *plane, mqtt_account_t *keeper, uint32_t number);
/* Ends a kept session, and removes its records. STATUS_FULL: no room in the batch, and it is as it was. */
LEAF_MUST_USE status_t mqtt_kept_end(plane_t *plane, kept_t *kept);
LEAF_MUST_USE status_t mqtt_kept_store(plane_t *plane, kept_t *kept);
/* Takes over the session's new filters. */
LEAF_MUST_USE status_t mqtt_kept_filters(plane_t *plane, kept_t *kept, bool loading);
void mqtt_kept_attend(plane_t *plane, kept_t *kept, session_t *session);
void mqtt_kept_count(plane_t *plane, kept_t *kept); /* its memory */
/* Another connection of its client takes it. */
void mqtt_kept_hand_over(plane_t *plane, kept_t *kept);
/* Notes that the session's client has gone. */
void mqtt_kept_leave(plane_t *plane, kept_t *kept);
/* Notes that the session acknowledges a message of the stream. */
void mqtt_kept_acknowledge(plane_t *plane, kept_t *kept, uint64_t seq);
/* Another server has the session from now on: its client is sent there. */
void mqtt_send_on(plane_t *plane, const kept_t *kept);
/* RECORD_SESSION_IN, in one entry with the message that is kept next (keeping_ride). false: no room. */
bool mqtt_kept_ride(kept_t *kept, uint16_t id);
/* record: RECORD_SESSION_IN or RECORD_SESSION_OUT; there: it is to be. false: no room. */
bool mqtt_kept_note(plane_t *plane, kept_t *kept, uint32_t record, uint16_t id, bool there);
/* Notes, with RECORD_SESSION_OUT, that its client has the message with that identifier. false: no room. */
bool mqtt_kept_release(plane_t *plane, kept_t *kept, uint16_t id);
/* Takes over such a record; value: empty where damage took it. */
LEAF_MUST_USE status_t mqtt_kept_released(kept_t *kept, uint16_t id, bytes_t value);

/* ---- mqtt_receive.c ---------------------------------------------------------------------------------------------- */

/* A message out of the stream, whose parts are in desk->made. */
typedef struct mqtt_stored {
    message_t message;
    ack_reply_t place;
} mqtt_stored_t;

/* How a client gets it. */
typedef struct mqtt_terms {
    uint8_t qos;
    bool as_published;
    bool again;
    const uint32_t *identifiers;
    uint32_t count;
} mqtt_terms_t;

/* false: it is none of ours. */
bool mqtt_read_stored(plane_t *plane, const delivery_t *delivery, mqtt_stored_t *out);
/* false: it cannot be sent to that client. */
bool mqtt_send_stored(plane_t *plane, peer_t *peer, const mqtt_stored_t *stored, const mqtt_terms_t *terms);

/* ---- mqtt_will.c ------------------------------------------------------------------------------------------------- */

/* The session's client is here: the will that waited is no more, and the one that it has now is recorded with the
 * session. */
LEAF_MUST_USE status_t mqtt_will_note(plane_t *plane, peer_t *peer, kept_t *kept, bool *written);
/* A newer connection of its client ends the older one. */
void mqtt_will_taken_over(session_t *older, bool begins_anew);
/* Its connection has ended: published now, or it waits, or its client has taken leave. */
void mqtt_will_left(plane_t *plane, peer_t *peer);
/* The session ends, so what waited is published soon. STATUS_FULL: no room, and all is as it was. */
LEAF_MUST_USE status_t mqtt_will_forsake(plane_t *plane, kept_t *kept);
void mqtt_will_outlive(plane_t *plane, kept_t *kept); /* likewise, where its records are gone */
/* A record of one, at a start. */
LEAF_MUST_USE status_t mqtt_will_found(plane_t *plane, mqtt_account_t *keeper, uint32_t number, bytes_t record);
void mqtt_will_chores(plane_t *plane);
void mqtt_will_forget_all(mqtt_desk_t *desk);

/* How long a message lasts at most, in seconds; 0: for ever. One that may not wait at all (5: 3.3.2.3.3) has the
 * shortest time that a stream knows: a connected client has had it by then. */
static inline uint32_t mqtt_lasts(const mqtt_properties_t *properties) {
    uint32_t seconds = mqtt_number(properties, MQTT_MESSAGE_EXPIRY, 0);
    return seconds == 0 && mqtt_has(properties, MQTT_MESSAGE_EXPIRY) ? 1 : seconds;
}
#endif
