/* mqtt_share.h: a shared subscription with a session that outlives its connection (5: 4.8.2). Its messages of QoS 1 and
 * 2 wait in the stream and reach one of its members, also when all of them are away.
 *
 *     mqtt_share_t    a consumer of the stream, as a session has one; its number is in the filter of each session
 *       owned_t       a message that a member has been sent and has not acknowledged
 *
 *     delivery --> a member that is here and has room --> PUBLISH, owned --> PUBACK, PUBREC --> acknowledged
 *              --> all are full: later             its connection ends --> QoS 1: to another one
 *              --> all are away: it waits                              --> QoS 2 of a session: to that one alone
 *
 *     RECORD_SESSION_SHARED    0 number of the share 4 | 4 sequence 8      of QoS 2 to a session: on disk before the
 *                                                                          PUBLISH, gone with the PUBREC
 *
 * Members are all clients of MQTT with that very filter. Not here: messages of QoS 0, and shared subscriptions without
 * such a session, which are queue groups as any other (plane/publish.c).
 */
#ifndef LEAFD_VERBS_MQTT_SHARE_H
#define LEAFD_VERBS_MQTT_SHARE_H

#include "verbs/mqtt.h"

/* The session has that filter now, with a QoS of 1 or 2; a share that has none yet is made. */
LEAF_MUST_USE status_t mqtt_share_join(plane_t *plane, kept_t *kept, kept_filter_t *filter);
/* The same at a start, with the number that its record says. */
LEAF_MUST_USE status_t mqtt_share_load(plane_t *plane, kept_t *kept, kept_filter_t *filter);
void mqtt_share_part(plane_t *plane, kept_t *kept, kept_filter_t *filter); /* fine if it has not joined */
/* The session ends, so that what it was sent with QoS 2 is for nobody else. */
void mqtt_share_end_all(plane_t *plane, kept_t *kept);
void mqtt_share_forget(const kept_t *kept);                         /* its memory goes, and its records stay */
void mqtt_share_forget_all(plane_t *plane, mqtt_account_t *keeper); /* the stream goes, with its consumers */
/* A client has that filter from now on. */
void mqtt_share_woken(plane_t *plane, const session_t *session, const mqtt_account_t *keeper, bytes_t text);
void mqtt_share_left(plane_t *plane, session_t *session); /* its connection goes, or is not its session's any more */
delivered_t mqtt_share_receive(plane_t *plane, kept_t *share, const delivery_t *delivery);
/* A record, at a start. number: of the session. */
LEAF_MUST_USE status_t mqtt_share_found(plane_t *plane, mqtt_account_t *keeper, uint32_t number, bytes_t record);
/* number: of the share. noted: it is on disk whose that message is. */
void mqtt_share_noted(plane_t *plane, const mqtt_account_t *keeper, uint32_t number, uint64_t seq);
void mqtt_share_acknowledge(plane_t *plane, const mqtt_account_t *keeper, uint32_t number, uint64_t seq);
bytes_t mqtt_share_group(const kept_t *share);

static inline bool is_share(const kept_t *kept) {
    return kept->client.name.size == 0;
}

/* mqtt_account.c: where an answer of a message comes: "h", it is not wanted any more; "g", it is on disk for whom it
 * is. */
void mqtt_share_subject(const mqtt_desk_t *desk, uint32_t share, const char *what, uint64_t seq, text_t *text);

#endif
