/* aim.h: where the answers and messages of a mirror or source are wanted, when the server that copies has no link to
 * its origin's domain itself: the subject says for which domain it is.
 *
 *     $JSC.R.<eight>-<four>   $JS.S.<eight>-<four>   $JS.M.<eight>-<four>      eight: at random
 *                                                                              four: the first of hash8 of the domain
 *
 * The server of the cluster that has the link tells that link, and no other one (plane/interest.c). Two domains with
 * the same four cost a line that is of no use. Without the four, as other servers name them, a subject is for every
 * link. The names are made in agent/leafd/links/origin.py.
 */
#ifndef LEAFD_TEXT_AIM_H
#define LEAFD_TEXT_AIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

typedef uint32_t aim_t; /* the four as a number, big-endian; 0: none */

/* domain: its hash8, big-endian; 0: none. */
static inline aim_t aim_of_domain(uint64_t domain) {
    return (aim_t)(domain >> 32);
}

aim_t aim_of_subject(bytes_t subject);
/* Does who asks for that pattern take what goes to the API of JetStream of any other domain, or pass it on? */
bool aim_is_beyond(bytes_t pattern, aim_t own);

#endif
