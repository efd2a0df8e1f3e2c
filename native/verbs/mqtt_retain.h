/* mqtt_retain.h: retained messages, and what else is put into a stream of ours: mqtt_retain.c. */
#ifndef LEAFD_VERBS_MQTT_RETAIN_H
#define LEAFD_VERBS_MQTT_RETAIN_H

#include "verbs/mqtt.h"

#define MQTT_RETAINED "$MQTT_rmsgs"
#define MQTT_RETAINED_SUBJECTS "$MQTT.rmsgs."
/* Asks for the stream of the account's retained messages, if it is not known whether there is one. */
void mqtt_retain_begin(plane_t *plane, account_t *account);
bool mqtt_retain_here(const mqtt_account_t *keeper); /* this server takes them in: it has them alone, or leads */
mqtt_keeps_t mqtt_retain_keeps(const peer_t *peer);
void mqtt_retain_wait(plane_t *plane, peer_t *peer); /* until that is known */
/* The stream was asked for; what that was answered. */
void mqtt_retain_made(plane_t *plane, mqtt_account_t *keeper, bytes_t payload);
/* The message becomes the one that is retained for its subject, or, without payload, none is any more. header: as it is
 * published; answers at tell. */
mqtt_reason_t mqtt_retain(plane_t *plane, mqtt_desk_t *desk, const publication_t *publication,
                          const mqtt_message_t *message);
/* A new subscription gets what is retained. pattern: of its filter, or of the level above. false: no memory. */
bool mqtt_retain_read(plane_t *plane, peer_t *peer, bytes_t sid, bytes_t pattern);
/* A message on that subject comes to the subscription, and takes the place of what is retained there. If the
 * subscription is still to be sent that, it is now. */
void mqtt_retain_first(plane_t *plane, subscription_t *one, bytes_t subject);
void mqtt_retain_durable(plane_t *plane, peer_t *peer); /* it is on disk, and can be read */
/* Takes the answer. */
void mqtt_retain_found(plane_t *plane, peer_t *peer, const message_t *message);
void mqtt_retain_forget(peer_t *peer); /* it goes, and waits no more */
/* It may have room for more: then it gets that in the next turn. */
void mqtt_retain_go_on(plane_t *plane, peer_t *peer);
void mqtt_retain_again(plane_t *plane, peer_t *peer); /* no answer has come */

/* The message under that prefix, for a stream of ours; seconds: its time to live, 0 = none; retained: it is one that
 * is, and is marked so; far: another server has the stream. It answers at tell. */
mqtt_reason_t mqtt_keep(plane_t *plane, mqtt_desk_t *desk, const publication_t *publication, const char *prefix,
                        uint32_t seconds, const mqtt_message_t *retained, bool far);
bool mqtt_is_there(bytes_t payload); /* a stream, as the answer to the request that makes it says */

#endif
