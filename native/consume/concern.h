/* concern.h: which consumers of a stream a subject concerns, without asking each of a thousand.
 *
 *     filter "plant.7.>"    literal tokens before the first wildcard: "plant.7", two of them
 *     subject "plant.7.x"   its first two tokens hash to that filter's bucket
 *
 * A subject is looked up once for each number of literal tokens that any filter has. Consumers without a filter, or
 * with one that begins with a wildcard, are in the list that every subject concerns. What is found may match: the
 * consumer is asked. The index is made when it is first needed after consumers came, went or changed their filters;
 * where there are few, or is no memory, all are asked. Not here: what becomes of a match (consume.c).
 */
#ifndef LEAFD_CONSUME_CONCERN_H
#define LEAFD_CONSUME_CONCERN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "consume/consume.h"

typedef struct concern concern_t;

/* Called with a consumer whose filters match, once for each; false: no more are wanted. */
typedef bool (*concern_visit_t)(void *context, consumer_t *consumer);

/* index: made and kept by this function, NULL at first. false: the visitor wanted no more. */
bool concern_each(concern_t **index, consumer_t *const *consumers, uint32_t count, bytes_t subject,
                  concern_visit_t visit, void *context);
/* The consumers or their filters are others now: before the next concern_each. */
void concern_forget(concern_t **index);

#endif
