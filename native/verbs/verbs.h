/* verbs.h: the protocols that a login can be in. driver/ puts them into the plane's table (plane->protocols).
 */
#ifndef LEAFD_VERBS_VERBS_H
#define LEAFD_VERBS_VERBS_H

#include "plane/protocol.h"

extern const protocol_t protocol_client;  /* client.c */
extern const protocol_t protocol_leaf;    /* leaf.c */
extern const protocol_t protocol_route;   /* route.c */
extern const protocol_t protocol_gateway; /* gateway.c */
extern const protocol_t protocol_mqtt;    /* mqtt.c */

/* mqtt.c: what JetStream answers to clients of MQTT, for plane->mqtt_told; and the end of what all of them share. */
void mqtt_told(plane_t *plane, const sink_t *sink, const publication_t *publication);
void mqtt_close(plane_t *plane);

#endif
