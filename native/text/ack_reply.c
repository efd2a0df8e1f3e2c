/* ack_reply.c: see the header. Pure text; nothing here knows a consumer. */
#include "text/ack_reply.h"

#include "base/bytes.h"
#include "text/decimal.h"
#include "text/tokens.h"

#define V1_TOKENS 9u
#define V2_TOKENS 11u
#define NUMBERS 5u

bool ack_reply_parse(bytes_t subject, ack_reply_t *out) {
    static const bytes_t prefix = {(const uint8_t *)"$JS.ACK.", 8};
    if (!bytes_starts(subject, prefix)) {
        return false;
    }
    bytes_t tokens[V2_TOKENS];
    uint32_t count = 0;
    token_walk_t walk = tokens_of(subject);
    while (!walk.done && count < V2_TOKENS) {
        tokens[count++] = tokens_next(&walk);
    }
    uint32_t first;
    if (count == V1_TOKENS && walk.done) {
        first = 2;
    } else if (count == V2_TOKENS) {
        first = 4;
    } else {
        return false;
    }
    out->stream = tokens[first];
    out->consumer = tokens[first + 1];
    uint64_t values[NUMBERS];
    for (uint32_t i = 0; i < NUMBERS; i++) {
        if (!decimal_parse(tokens[first + 2 + i], &values[i])) {
            return false;
        }
    }
    out->delivered = values[0];
    out->stream_seq = values[1];
    out->consumer_seq = values[2];
    out->ts = values[3] > INT64_MAX ? INT64_MAX : (int64_t)values[3];
    out->pending = values[4];
    return true;
}
