/* will.h: the message that a client leaves behind (5: 3.1.2.5): an own copy, and as bytes of a record. Sans-IO: when it
 * is published, and where its record is, are the caller's.
 *
 *     record    0 version 1 | 1 flags 1 | 2 size of the topic 2 | 4 size of the payload 4 | 8 topic | payload
 *               | properties, as on the wire
 *     flags     bits 0, 1: QoS; bit 2: retain
 */
#ifndef LEAFD_SESSIONS_WILL_H
#define LEAFD_SESSIONS_WILL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "mqtt/packet.h"
#include "sessions/due.h"

typedef struct will {
    due_t due;              /* when it is published, once its client is away */
    mqtt_message_t message; /* properties point into bytes, too */
    bytes_t bytes;          /* topic, payload and properties, in one piece */
    uint32_t delay;         /* seconds after its connection */
    uint32_t account;       /* of its session, once it waits .. */
    uint32_t number;        /* .. likewise .. */
    struct kept *kept;      /* .. and that; NULL: the session has ended */
} will_t;

/* NULL: no memory. */
will_t *will_new(const mqtt_message_t *message);
void will_free(will_t *will);
uint64_t will_size(const will_t *will); /* of memory, about */
LEAF_MUST_USE status_t will_write(const will_t *will, buffer_t *out);
/* NULL: no memory (*damaged false), or these are no such bytes. */
will_t *will_read(bytes_t record, bool *damaged);

#endif
