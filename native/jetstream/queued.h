/* queued.h: messages that wait to be published to a stream, in the order in which they came. Bounded, as the
 * reference's queue is: beyond that publishers are told so. Who waits for what: waiting.c, replicated.c.
 */
#ifndef LEAFD_JETSTREAM_QUEUED_H
#define LEAFD_JETSTREAM_QUEUED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "wire/emit.h"

#define QUEUED_MESSAGES 10000u /* as the reference has it */
#define QUEUED_MOST (1u << 16) /* while a log has no room, since a member stands still that is not given up yet */
#define QUEUED_STEP 2048u      /* messages that go on in one turn */

typedef struct queued {
    buffer_t held;
    uint64_t at; /* of the first that waits */
    uint32_t count;
    uint32_t most;
} queued_t;

/* share: whose bytes they are. most: so many messages at most. */
void queued_init(queued_t *queued, share_t *share, uint32_t most);
void queued_free(queued_t *queued);
/* false: there are too many, or there is no memory. */
bool queued_put(queued_t *queued, const message_t *message);
/* The first that waits, its bytes valid until it is dropped or another is put. false: there is none. */
bool queued_first(const queued_t *queued, message_t *message);
void queued_drop(queued_t *queued); /* that one */

#endif
