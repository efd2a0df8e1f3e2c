/* lag.h: how far a copy is behind its origin, as far as it knows, and how fast it comes nearer.
 *
 *     answer to the consumer's creation    so many are pending there
 *     each delivery                        so many are pending behind this one
 *     idle heartbeat                       Leafd-Pending, of a leafd; of others the second in a row that nothing stalls
 *                                          says that nothing waits
 *
 * Each is as of the moment when it was sent. Nothing is known before the first of them, and nothing of what was known
 * is made up meanwhile: a report says how old it is. Pure; what arrives is ingest.c's.
 */
#ifndef LEAFD_JETSTREAM_LAG_H
#define LEAFD_JETSTREAM_LAG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/clock.h"

#define LAG_SPAN_NS (2 * NS_PER_SECOND) /* over which a pace is measured, at least */

typedef struct lag {
    bool known;
    bool marked;  /* the pace's span has begun */
    bool paced;   /* the pace is known */
    bool leveled; /* nothing was missing at level_ns */
    bool quiet;   /* what came last was a heartbeat */
    uint64_t messages;
    int64_t learned_ns;
    int64_t level_ns;
    uint64_t mark; /* where the pace's span begins */
    int64_t mark_ns;
    double pace; /* messages a second that it came nearer, of late; negative: the origin is faster */
} lag_t;

/* Notes the messages that were pending when the consumer was made: none of them is on its way yet, so they begin no
 * span of the pace. */
void lag_begin(lag_t *behind, uint64_t messages, int64_t mono_ns);
/* messages: pending at the origin. */
void lag_learn(lag_t *behind, uint64_t messages, int64_t mono_ns);
/* A heartbeat that shows no missing tail. stalled: something may wait there. */
void lag_heartbeat(lag_t *behind, bytes_t header, bool stalled, int64_t mono_ns);
/* Fills in what of the state is known here. */
void lag_tell(const lag_t *behind, int64_t mono_ns, ingest_state_t *out);

#endif
