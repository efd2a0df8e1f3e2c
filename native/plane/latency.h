/* latency.h: how long the services of an account take: requests over imports whose export is measured, and how each
 * ended. Private to plane/.
 *
 *     latency_wanted    drawn by the export's share, or the request's header asks for it
 *     latency_begin     the way back carries a measure_t from here on
 *     ended             latency_answered 200, latency_ended 408 | 503 | 504, latency_refused 400: EVENT_LATENCY
 *
 * An import without IMPORT_MEASURED pays one look at its flags for a request, and a way back without a measure one look
 * at a pointer. Not here: the event's words, and what a link's other side measured (control).
 */
#ifndef LEAFD_PLANE_LATENCY_H
#define LEAFD_PLANE_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "plane/import.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/publication.h"

#define LATENCY_REFUSED 400u
#define LATENCY_LEFT 408u    /* nobody waits for the answer any more */
#define LATENCY_NOBODY 503u  /* nobody is there to answer */
#define LATENCY_SILENCE 504u /* no answer for the export's threshold */

/* The measurement of one request that is under way. */
struct measure {
    measure_t *newer;
    measure_t *older;
    reply_t *reply;
    uint64_t requester; /* its connection; 0: asked from inside */
    moment_t asked;
    uint32_t mark_size;
    uint32_t fields_size;
    uint8_t mark[REPLY_MARK_MAX]; /* behind the reply subject, for a server that measures at the other end of a link */
    uint8_t fields[];             /* of the request's header, that asked for it */
};

/* fields: what of the header asked for it, until the next call. */
bool latency_wanted(plane_t *plane, const import_t *import, const publication_t *publication, bytes_t *fields);
/* Without memory it is not measured. */
void latency_begin(plane_t *plane, reply_t *reply, const publication_t *publication, bytes_t fields);
/* A request without a reply subject. */
void latency_refused(plane_t *plane, const import_t *import, const publication_t *publication, bytes_t fields);
/* Notes the answer to a measured request. Of answers that we gave ourselves nothing is told. */
void latency_answered(plane_t *plane, const reply_t *reply, peer_t *responder);
/* requester: the peer that is leaving, else NULL. */
void latency_ended(plane_t *plane, const reply_t *reply, peer_t *requester, uint32_t status);
/* Notes that a request's threshold passed: silence, unless the requester had gone before that was noticed. */
void latency_expired(plane_t *plane, const reply_t *reply);
void latency_forget(plane_t *plane, reply_t *reply); /* with its way back */
void latency_chores(plane_t *plane);                 /* requests whose requester no longer listens */
void latency_free(plane_t *plane);

#endif
