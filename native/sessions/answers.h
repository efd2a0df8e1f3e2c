/* answers.h: the acknowledgements that a client waits for, in the order in which it published (MQTT 4.6): a PUBACK or
 * PUBREC goes when every stream that keeps the message has said so, and when all before it have gone.
 *
 *     begin(id, kind)     --> [ 7: 1 stream ] [ 8: 0 streams ] [ 9: 2 streams ]
 *     told(7, success)    --> [ 7: 0 ] [ 8: 0 ] [ 9: 2 ]     next(): 7, then 8, then none
 *
 * A ring that grows up to the number of messages that a client may have unacknowledged. Not here: the
 * packets, how the streams' answers come.
 */
#ifndef LEAFD_SESSIONS_ANSWERS_H
#define LEAFD_SESSIONS_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct answer {
    uint16_t id;
    uint8_t kind;   /* MQTT_PUBACK, MQTT_PUBREC */
    uint8_t reason; /* the first one that is none of a success, if any */
    uint32_t waits; /* for so many streams */
    uint32_t mark;  /* the name by which streams of other servers answer; 0: none does */
} answer_t;

typedef struct answers {
    answer_t *ring; /* NULL until the first one */
    uint32_t room;  /* a power of two */
    uint32_t first;
    uint32_t count;
    uint32_t acks; /* of these, PUBACKs */
} answers_t;

/* Behind all that wait. NULL: no memory. Valid until the next one. */
answer_t *answers_begin(answers_t *answers, uint16_t id, uint8_t kind);
/* A stream has answered: the oldest with that identifier that still waits. false: there is none. */
bool answers_told(answers_t *answers, uint16_t id, uint8_t reason);
/* Likewise a stream of another server: the one with that mark. */
bool answers_told_mark(answers_t *answers, uint32_t mark, uint8_t reason);
/* The oldest, taken out, if nothing keeps it. false: none, or it waits. */
bool answers_next(answers_t *answers, answer_t *out);
void answers_free(answers_t *answers);

#endif
