/* ack_reply.h: the reply subject of a delivered message, taken apart. Both forms are accepted:
 *
 *   v1  $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<ts>.<pending>
 *   v2  $JS.ACK.<domain|_>.<hash8(account)>.<stream>.<consumer>.<delivered>.<stream seq>.<consumer
 *       seq>.<ts>.<pending>[.<more>]
 */
#ifndef LEAFD_TEXT_ACK_REPLY_H
#define LEAFD_TEXT_ACK_REPLY_H

#include <stdbool.h>

#include "base/bytes.h"

typedef struct ack_reply {
    bytes_t stream; /* slices of the subject */
    bytes_t consumer;
    uint64_t delivered;
    uint64_t stream_seq;
    uint64_t consumer_seq;
    int64_t ts; /* ns */
    uint64_t pending;
} ack_reply_t;

/* false: it is not one. */
bool ack_reply_parse(bytes_t subject, ack_reply_t *out);

#endif
