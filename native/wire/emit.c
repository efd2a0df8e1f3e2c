/* emit.c: each frame is bounded, reserved once and written front to back. */
#include "wire/emit.h"

#include "base/check.h"
#include "text/decimal.h"

const bytes_t emit_ping = {(const uint8_t *)"PING\r\n", 6};
const bytes_t emit_pong = {(const uint8_t *)"PONG\r\n", 6};
const bytes_t emit_ok = {(const uint8_t *)"+OK\r\n", 5};
const bytes_t emit_body_end = {(const uint8_t *)"\r\n", 2};

/* Like decimal_write, with a shortcut for the sizes that nearly every message has. */
static inline uint8_t *put_size(uint8_t *to, uint32_t v) {
    if (v < 10) {
        *to = (uint8_t)('0' + v);
        return to + 1;
    }
    if (v < 100) {
        to[0] = (uint8_t)('0' + v / 10);
        to[1] = (uint8_t)('0' + v % 10);
        return to + 2;
    }
    if (v < 1000) {
        to[0] = (uint8_t)('0' + v / 100);
        to[1] = (uint8_t)('0' + v / 10 % 10);
        to[2] = (uint8_t)('0' + v % 10);
        return to + 3;
    }
    return decimal_write(to, v);
}

/* Words are short: two overlapping moves are cheaper than a call. */
static inline uint8_t *emit_bytes(uint8_t *to, bytes_t what) {
    uint32_t size = what.size;
    if (size > 32) {
        memcpy(to, what.at, size);
    } else if (size >= 16) {
        memcpy(to, what.at, 16);
        memcpy(to + size - 16, what.at + size - 16, 16);
    } else if (size >= 8) {
        memcpy(to, what.at, 8);
        memcpy(to + size - 8, what.at + size - 8, 8);
    } else if (size >= 4) {
        memcpy(to, what.at, 4);
        memcpy(to + size - 4, what.at + size - 4, 4);
    } else {
        for (uint32_t i = 0; i < size; i++) {
            to[i] = what.at[i];
        }
    }
    return to + size;
}

static inline uint8_t *put_crlf(uint8_t *to) {
    to[0] = '\r';
    to[1] = '\n';
    return to + 2;
}

/* The end of a message's line: sizes, CRLF. */
static inline uint8_t *put_sizes(uint8_t *to, const message_t *message, bytes_t header) {
    if (header.size > 0) {
        to = put_size(to, header.size);
        *to++ = ' ';
    }
    to = put_size(to, header.size + message->payload.size);
    return put_crlf(to);
}

/* Puts the part behind the line: header, payload, CRLF. */
static inline uint8_t *put_body(uint8_t *to, const message_t *message, bytes_t header) {
    to = emit_bytes(to, header);
    to = emit_bytes(to, message->payload);
    return put_crlf(to);
}

/* Bound of a message's line without its subject-specific words: names, blanks, two sizes, CRLF; and of the CRLF behind
 * the body. */
static inline uint64_t line_bound(const message_t *message) {
    return (uint64_t)message->subject.size + message->reply.size + 64;
}

static inline uint64_t body_bound(const message_t *message) {
    return (uint64_t)message->header.size + message->payload.size;
}

static inline void close_frame(buffer_t *out, const uint8_t *end) {
    out->size = (uint64_t)(end - out->at);
    check(out->size <= out->capacity);
}

static inline uint8_t *put_client_line(uint8_t *to, const message_t *message, bytes_t header, bytes_t sid) {
    if (header.size > 0) {
        *to++ = 'H';
    }
    memcpy(to, "MSG ", 4);
    to = emit_bytes(to + 4, message->subject);
    *to++ = ' ';
    to = emit_bytes(to, sid);
    *to++ = ' ';
    if (message->reply.size > 0) {
        to = emit_bytes(to, message->reply);
        *to++ = ' ';
    }
    return put_sizes(to, message, header);
}

status_t emit_client_message(buffer_t *out, const message_t *message, bytes_t sid, bool headers) {
    bytes_t header = headers ? message->header : BYTES_NONE;
    uint8_t *to;
    status_t status = buffer_reserve(out, line_bound(message) + body_bound(message) + sid.size, &to);
    if (LEAF_UNLIKELY(status != STATUS_OK)) {
        return status;
    }
    close_frame(out, put_body(put_client_line(to, message, header, sid), message, header));
    return STATUS_OK;
}

uint64_t emit_client_line_size(const message_t *message, bytes_t sid) {
    return line_bound(message) + sid.size;
}

status_t emit_client_line(buffer_t *out, const message_t *message, bytes_t sid, bool headers) {
    uint8_t *to;
    status_t status = buffer_reserve(out, emit_client_line_size(message, sid), &to);
    if (status == STATUS_OK) {
        close_frame(out, put_client_line(to, message, headers ? message->header : BYTES_NONE, sid));
    }
    return status;
}

/* Subject, reply and groups, each with a blank behind it. */
static inline uint8_t *put_targets(uint8_t *to, const message_t *message, const bytes_t *queues, uint32_t queue_count) {
    to = emit_bytes(to, message->subject);
    *to++ = ' ';
    if (queue_count > 0) {
        *to++ = message->reply.size > 0 ? '+' : '|';
        *to++ = ' ';
    }
    if (message->reply.size > 0) {
        to = emit_bytes(to, message->reply);
        *to++ = ' ';
    }
    for (uint32_t i = 0; i < queue_count; i++) {
        to = emit_bytes(to, queues[i]);
        *to++ = ' ';
    }
    return to;
}

static inline uint8_t *put_leaf_line(uint8_t *to, const message_t *message, bytes_t header, const bytes_t *queues,
                                     uint32_t queue_count) {
    memcpy(to, header.size > 0 ? "HMSG " : "LMSG ", 5);
    return put_sizes(put_targets(to + 5, message, queues, queue_count), message, header);
}

uint64_t emit_leaf_line_size(const message_t *message, const bytes_t *queues, uint32_t queue_count) {
    uint64_t bound = line_bound(message);
    for (uint32_t i = 0; i < queue_count; i++) {
        bound += (uint64_t)queues[i].size + 1;
    }
    return bound;
}

status_t emit_leaf_message(buffer_t *out, const message_t *message, const bytes_t *queues, uint32_t queue_count,
                           bool headers) {
    bytes_t header = headers ? message->header : BYTES_NONE;
    uint8_t *to;
    status_t status = buffer_reserve(out, emit_leaf_line_size(message, queues, queue_count) + body_bound(message), &to);
    if (LEAF_UNLIKELY(status != STATUS_OK)) {
        return status;
    }
    close_frame(out, put_body(put_leaf_line(to, message, header, queues, queue_count), message, header));
    return STATUS_OK;
}

status_t emit_leaf_line(buffer_t *out, const message_t *message, const bytes_t *queues, uint32_t queue_count,
                        bool headers) {
    uint8_t *to;
    status_t status = buffer_reserve(out, emit_leaf_line_size(message, queues, queue_count), &to);
    if (status == STATUS_OK) {
        bytes_t header = headers ? message->header : BYTES_NONE;
        close_frame(out, put_leaf_line(to, message, header, queues, queue_count));
    }
    return status;
}

/* The end of a line of interest: subject, [queue, [weight]]. weight NULL: no interest any more. */
static uint8_t *put_interest(uint8_t *to, bytes_t subject, bytes_t queue, const uint32_t *weight) {
    to = emit_bytes(to, subject);
    if (queue.size > 0) {
        *to++ = ' ';
        to = emit_bytes(to, queue);
        if (weight != NULL) {
            *to++ = ' ';
            to = put_size(to, *weight);
        }
    }
    return put_crlf(to);
}

/* LS+ and LS-: name, subject, [queue, [weight]]. */
static status_t emit_leaf_interest(buffer_t *out, const char *name, bytes_t subject, bytes_t queue,
                                   const uint32_t *weight) {
    uint8_t *to;
    status_t status = buffer_reserve(out, (uint64_t)subject.size + queue.size + 16 + DECIMAL_MAX, &to);
    if (status != STATUS_OK) {
        return status;
    }
    memcpy(to, name, 4);
    close_frame(out, put_interest(to + 4, subject, queue, weight));
    return STATUS_OK;
}

status_t emit_leaf_sub(buffer_t *out, bytes_t subject, bytes_t queue, uint32_t weight) {
    return emit_leaf_interest(out, "LS+ ", subject, queue, &weight);
}

status_t emit_leaf_unsub(buffer_t *out, bytes_t subject, bytes_t queue) {
    return emit_leaf_interest(out, "LS- ", subject, queue, NULL);
}

/* ---- routes ------------------------------------------------------------------------------------------------------ */

/* A word and a blank; nothing for no word. */
static inline uint8_t *put_word(uint8_t *to, bytes_t word) {
    if (word.size > 0) {
        to = emit_bytes(to, word);
        *to++ = ' ';
    }
    return to;
}

uint64_t emit_route_line_size(const message_t *message, const route_names_t *names, const bytes_t *queues,
                              uint32_t queue_count) {
    return emit_leaf_line_size(message, queues, queue_count) + names->origin.size + names->account.size + 2;
}

static inline uint8_t *put_route_line(uint8_t *to, const message_t *message, const route_names_t *names,
                                      const bytes_t *queues, uint32_t queue_count) {
    bool origin = names->origin.size > 0;
    memcpy(to, origin ? "LMSG " : message->header.size > 0 ? "HMSG " : "RMSG ", 5);
    to = put_word(put_word(to + 5, names->origin), names->account);
    to = put_targets(to, message, queues, queue_count);
    if (origin && message->header.size == 0) {
        *to++ = '0'; /* it always has both sizes */
        *to++ = ' ';
    }
    return put_sizes(to, message, message->header);
}

status_t emit_route_message(buffer_t *out, const message_t *message, const route_names_t *names, const bytes_t *queues,
                            uint32_t queue_count) {
    uint8_t *to;
    uint64_t bound = emit_route_line_size(message, names, queues, queue_count) + body_bound(message);
    status_t status = buffer_reserve(out, bound, &to);
    if (LEAF_UNLIKELY(status != STATUS_OK)) {
        return status;
    }
    close_frame(out, put_body(put_route_line(to, message, names, queues, queue_count), message, message->header));
    return STATUS_OK;
}

status_t emit_route_line(buffer_t *out, const message_t *message, const route_names_t *names, const bytes_t *queues,
                         uint32_t queue_count) {
    uint8_t *to;
    status_t status = buffer_reserve(out, emit_route_line_size(message, names, queues, queue_count), &to);
    if (status == STATUS_OK) {
        close_frame(out, put_route_line(to, message, names, queues, queue_count));
    }
    return status;
}

/* weight NULL: no interest any more. */
static status_t emit_route_interest(buffer_t *out, const route_names_t *names, bool origin, bytes_t subject,
                                    bytes_t queue, const uint32_t *weight) {
    uint8_t *to;
    uint64_t bound = (uint64_t)names->origin.size + names->account.size + subject.size + queue.size + 16 + DECIMAL_MAX;
    status_t status = buffer_reserve(out, bound, &to);
    if (status != STATUS_OK) {
        return status;
    }
    *to++ = names->origin.size > 0 ? 'L' : 'R';
    *to++ = 'S';
    *to++ = weight != NULL ? '+' : '-';
    *to++ = ' ';
    to = put_word(put_word(to, origin ? names->origin : BYTES_NONE), names->account);
    close_frame(out, put_interest(to, subject, queue, weight));
    return STATUS_OK;
}

status_t emit_route_sub(buffer_t *out, const route_names_t *names, bytes_t subject, bytes_t queue, uint32_t weight) {
    return emit_route_interest(out, names, true, subject, queue, &weight);
}

status_t emit_route_unsub(buffer_t *out, const route_names_t *names, bool origin, bytes_t subject, bytes_t queue) {
    return emit_route_interest(out, names, origin, subject, queue, NULL);
}

status_t emit_err(buffer_t *out, bytes_t text) {
    uint8_t *to;
    status_t status = buffer_reserve(out, (uint64_t)text.size + 16, &to);
    if (status != STATUS_OK) {
        return status;
    }
    memcpy(to, "-ERR '", 6);
    to = emit_bytes(to + 6, text);
    *to++ = '\'';
    close_frame(out, put_crlf(to));
    return STATUS_OK;
}
