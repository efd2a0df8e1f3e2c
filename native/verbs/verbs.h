/* verbs.h: the protocols that a login can be in. driver/ puts them into the plane's table (plane->protocols).
 */
#ifndef LEAFD_VERBS_VERBS_H
#define LEAFD_VERBS_VERBS_H

#include "plane/protocol.h"

extern const protocol_t protocol_client;  /* client.c */
extern const protocol_t protocol_leaf;    /* leaf.c */
extern const protocol_t protocol_route;   /* route.c */
extern const protocol_t protocol_gateway; /* gateway.c */

#endif
