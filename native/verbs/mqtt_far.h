/* mqtt_far.h: an account's streams for MQTT that another server of the cluster has: mqtt_far.c. */
#ifndef LEAFD_VERBS_MQTT_FAR_H
#define LEAFD_VERBS_MQTT_FAR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"
#include "plane/plane.h"
#include "text/text.h"
#include "verbs/mqtt.h"

/* May another server have the streams of an account? */
bool mqtt_far_possible(const plane_t *plane);
uint32_t mqtt_far_replicas(const plane_t *plane); /* of a stream of ours that is made */
LEAF_MUST_USE status_t mqtt_far_begin(plane_t *plane, const mqtt_desk_t *desk, account_t *account, sink_t *sink);
/* The first two tokens where answers from elsewhere come, and their key (mqtt_account.c). */
void mqtt_far_prefix(const mqtt_desk_t *desk, text_t *text);
/* true: it is being asked, and mqtt_wake() says when it is known. */
bool mqtt_far_unknown(plane_t *plane, mqtt_account_t *keeper, account_t *account);
void mqtt_far_known(plane_t *plane, mqtt_account_t *keeper, bytes_t payload);
/* Where an account's sessions are. */
typedef enum mqtt_where { WHERE_HERE = 0, WHERE_FAR, WHERE_AWAY } mqtt_where_t;
/* HERE: or nowhere; AWAY: at another server, which cannot be reached. */
LEAF_MUST_USE mqtt_where_t mqtt_far_sessions(plane_t *plane, mqtt_account_t *keeper, const account_t *account);
/* This server leads a stream no more: clients that wait for its answer are not left waiting. */
void mqtt_far_lost(plane_t *plane, const stream_t *stream);
/* Control asks a server that may have died, so what it does not answer soon is asked again: devices wait for it. */
void mqtt_far_chores(plane_t *plane);
bool mqtt_far_retains(plane_t *plane, const account_t *account); /* can that one be reached? */
uint32_t mqtt_far_mark(mqtt_desk_t *desk);                       /* of the next message for streams elsewhere */
/* true: it is not known yet which streams other servers have, and mqtt_wake() says when it is. */
bool mqtt_far_untold(const plane_t *plane, mqtt_desk_t *desk);
/* Says to the servers that the publication will go to, right before it does, where so many streams of theirs answer.
 * Its mark is the last one. false: it goes to none. */
LEAF_MUST_USE bool mqtt_far_note(plane_t *plane, const publication_t *publication, uint32_t streams);
/* prefix: of the stream's subjects. */
void mqtt_far_keep(plane_t *plane, const publication_t *publication, const char *prefix);
/* Asks for a part of what is retained, and does so again later if no answer has come. */
void mqtt_far_ask(plane_t *plane, peer_t *peer, const char *api, bytes_t body);
void mqtt_far_later(plane_t *plane, peer_t *peer); /* the part is asked for again then */
/* Ends a connection that waits for too long. true: what is retained has to be asked for again. */
bool mqtt_far_beat(plane_t *plane, peer_t *peer);
/* Has a message with that mark come for the sessions here? */
bool mqtt_far_stored(const mqtt_desk_t *desk, uint32_t mark);

#endif
