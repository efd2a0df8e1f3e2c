/* asked.h: requests that wait for the log of a stream that several servers keep, in the order in which it was asked.
 *
 *     asked_put --> token --> proposed --> the log answers that token --> asked_take: this one, and its riders
 *
 * An entry is what it is, and bytes that its owner knows. One without a token of its own rides: it is answered with the
 * one before. Not here: what is proposed, and what is answered (replicated.c).
 */
#ifndef LEAFD_JETSTREAM_ASKED_H
#define LEAFD_JETSTREAM_ASKED_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"

#define ASKED_MAX (UINT64_C(16) << 20) /* bytes of what waits for one log */

typedef struct asked {
    uint64_t token; /* 0: it rides */
    uint32_t what;  /* its owner's */
    uint32_t size;
} asked_t;

typedef struct asked_queue {
    buffer_t bytes;
    uint64_t at; /* of the first */
    uint64_t token;
} asked_queue_t;

void asked_init(asked_queue_t *queue);
void asked_free(asked_queue_t *queue);
static inline bool asked_empty(const asked_queue_t *queue) {
    return queue->at == queue->bytes.size;
}
/* The next token; 0: there is no room. */
uint64_t asked_put(asked_queue_t *queue, uint32_t what, bytes_t bytes);
LEAF_MUST_USE status_t asked_ride(asked_queue_t *queue, uint32_t what, bytes_t bytes);
/* All that rides in `from` goes behind what is here, the first of it with a token, which it returns; 0: there is no
 * room. Nothing is taken out of `from`. */
uint64_t asked_put_all(asked_queue_t *queue, const asked_queue_t *from);
/* What was put last was not proposed: `size` is what there was of it before. */
uint64_t asked_size(const asked_queue_t *queue);
void asked_unput(asked_queue_t *queue, uint64_t size);
/* The first one. Its bytes are valid until something is put. false: there is none. */
bool asked_first(const asked_queue_t *queue, asked_t *head, bytes_t *bytes);
bool asked_take(asked_queue_t *queue, asked_t *head, bytes_t *bytes);
/* Likewise, if it rides. */
bool asked_take_rider(asked_queue_t *queue, asked_t *head, bytes_t *bytes);
void asked_clear(asked_queue_t *queue);
void asked_trim(asked_queue_t *queue); /* memory is given back, once nothing waits */

#endif
