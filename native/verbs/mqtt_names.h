/* mqtt_names.h: who has a client identifier, at this server and at the others of its cluster: mqtt_names.c. */
#ifndef LEAFD_VERBS_MQTT_NAMES_H
#define LEAFD_VERBS_MQTT_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "verbs/mqtt.h"
#include "verbs/mqtt_carry.h"

/* The session's connection has its identifier from now on; an older one ends, also at another server. */
LEAF_MUST_USE status_t mqtt_names_take(plane_t *plane, session_t *session);
/* It is not kept, but one with its identifier may be, at another server. true: that is asked, and known first. */
bool mqtt_names_ask(plane_t *plane, mqtt_account_t *keeper, const peer_t *peer);
/* Tells the other servers that it is here. true: it begins anew, and waits until the server with the sessions has ended
 * what it had; then mqtt_enter comes again. */
bool mqtt_names_begin(plane_t *plane, mqtt_account_t *keeper, peer_t *peer);
/* Another server may have a session of its, with which it goes on although it will not be kept (5: 3.1.2.4). */
bool mqtt_names_resumes(plane_t *plane, mqtt_account_t *keeper, const peer_t *peer);
uint64_t mqtt_names_now(const plane_t *plane); /* a stamp that is later than all that were heard of */
void mqtt_names_frame(plane_t *plane, peer_t *route, const carry_frame_t *frame);
/* What a session had is no more, which is on disk. text: connection at the server behind the route. */
void mqtt_names_ended(plane_t *plane, uint64_t route, bytes_t text);
void mqtt_names_chores(plane_t *plane);
void mqtt_names_close(mqtt_desk_t *desk);

#endif
