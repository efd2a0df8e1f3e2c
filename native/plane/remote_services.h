/* remote_services.h: services here whose requests came over a link, from a server that measures them: its replies
 * end with a mark. It knows what a request took as a whole; what the service took of it is measured here, from the
 * request's coming to the first answer of a client, and told by EVENT_LATENCY_FAR.
 *
 * An account without ACCOUNT_SERVES pays one look at its flags for a message of a link. Not here: what
 * is measured for imports of ours (latency.c).
 */
#ifndef LEAFD_PLANE_REMOTE_SERVICES_H
#define LEAFD_PLANE_REMOTE_SERVICES_H

#include <stdbool.h>

#include "base/bytes.h"
#include "plane/plane.h"
#include "plane/publication.h"
#include "plane/subscription.h"

typedef struct far_request far_request_t;

/* Does the server that the message came from measure it? */
static inline bool far_is_marked(bytes_t reply) {
    return reply.size > 15 && reply.at[reply.size - 1] == 'T' && reply.at[reply.size - 2] == '.'
           && bytes_starts(reply, BYTES_LITERAL("_R_."));
}
/* Somebody here has got the request. Without memory it is not measured. */
void far_begin(plane_t *plane, account_t *account, bytes_t reply);
/* Takes the answer to a request of another server: a message published to its reply. */
void far_answered(plane_t *plane, far_request_t *request, peer_t *responder);
void far_chores(plane_t *plane); /* those that nobody answered for long */
void far_free(plane_t *plane);

#endif
