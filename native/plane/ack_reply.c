/* ack_reply.c: see the header. Pure text; nothing here knows a consumer. */
#include "plane/ack_reply.h"

#define V1_TOKENS 9u
#define V2_TOKENS 11u
#define NUMBERS 5u

static bool number(bytes_t token, uint64_t *out) {
    if (token.size == 0 || token.size > 20) {
        return false;
    }
    uint64_t value = 0;
    for (uint32_t i = 0; i < token.size; i++) {
        uint8_t digit = (uint8_t)(token.at[i] - '0');
        if (digit > 9 || __builtin_mul_overflow(value, UINT64_C(10), &value) || __builtin_add_overflow(value, (uint64_t)digit, &value)) {
            return false;
        }
    }
    *out = value;
    return true;
}

bool ack_reply_parse(bytes_t subject, ack_reply_t *out) {
    static const bytes_t prefix = {(const uint8_t *)"$JS.ACK.", 8};
    if (!bytes_starts(subject, prefix)) {
        return false;
    }
    bytes_t tokens[V2_TOKENS];
    uint32_t count = 0;
    uint32_t start = 0;
    for (uint32_t i = 0; i <= subject.size && count < V2_TOKENS; i++) {
        if (i == subject.size || subject.at[i] == '.') {
            tokens[count++] = bytes_of(subject.at + start, i - start);
            start = i + 1;
        }
    }
    uint32_t first;
    if (count == V1_TOKENS && start > subject.size) {
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
        if (!number(tokens[first + 2 + i], &values[i])) {
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
