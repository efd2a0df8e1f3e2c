/* verbs.h: the protocols that a login can be in. driver/ puts them into the plane's table (plane->protocols).
 */
#ifndef LEAFD_VERBS_VERBS_H
#define LEAFD_VERBS_VERBS_H

#include "plane/plane.h"
#include "plane/protocol.h"

extern const protocol_t protocol_client;  /* client.c */
extern const protocol_t protocol_leaf;    /* leaf.c */
extern const protocol_t protocol_route;   /* route.c */
extern const protocol_t protocol_gateway; /* gateway.c */
extern const protocol_t protocol_mqtt;    /* mqtt.c */

/* mqtt.c: what JetStream answers to clients of MQTT, for plane->mqtt_told; and the end of what all of them share. */
void mqtt_told(plane_t *plane, const sink_t *sink, const publication_t *publication);
void mqtt_close(plane_t *plane);
/* mqtt_far.c: does a publisher at that server wait until streams here have that message? tell: it. */
bool mqtt_far_noted(peer_t *peer, const op_t *op, struct tell *tell);
/* A route's message for an account's streams for MQTT, their answer, or what is said before a message; false: none. */
bool mqtt_far_take_in(plane_t *plane, peer_t *peer, account_t *account, const op_t *op);
/* mqtt_carry.c: what is said for a client whose session another server has; false: it is none of that. */
bool mqtt_carry_take_in(plane_t *plane, peer_t *route, const account_t *account, const op_t *op);
void mqtt_carried_go_on(plane_t *plane); /* plane->carried_go */
void mqtt_retain_turn(plane_t *plane);   /* plane->reads_go */
void mqtt_route_left(plane_t *plane, peer_t *route);
void mqtt_route_came(plane_t *plane); /* mqtt_names.c: it is up */
/* Tells sessions: a stream was opened, or is about to go; a delivery to one (kept_t); now and then. */
void mqtt_stream_opened(plane_t *plane, stream_t *stream);
void mqtt_stream_removed(plane_t *plane, stream_t *stream);
bool mqtt_stream_led(plane_t *plane, stream_t *stream); /* host.h */
void mqtt_stream_lost(plane_t *plane, stream_t *stream);
delivered_t mqtt_receive(plane_t *plane, void *receiver, const delivery_t *delivery);
void mqtt_chores(plane_t *plane);
void mqtt_republished(plane_t *plane, publication_t *publication);

#endif
