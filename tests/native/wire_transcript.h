/* wire_transcript.h: what the parser made of some input, as text: one line an op, the last line how it ended. For
 * test_parse.c and the fuzzer, which compare the transcripts of the same bytes fed in different ways.
 *
 *     PUB subject=foo payload=ab            fields that are empty are not shown
 *     bad: silent
 */
#ifndef LEAFD_TESTS_WIRE_TRANSCRIPT_H
#define LEAFD_TESTS_WIRE_TRANSCRIPT_H

#include <stdlib.h>

#include "base/buffer.h"
#include "base/check.h"
#include "transcript.h"
#include "wire/parse.h"

static inline bool transcript_is_routes(const op_t *op) {
    return op->kind == OP_ROUTE_SUB || op->kind == OP_ROUTE_UNSUB || op->kind == OP_ROUTE_MSG;
}

static inline void transcript_op(buffer_t *out, const op_t *op) {
    static const char *const names[OP_KIND_COUNT] = {"NONE", "CONNECT", "INFO", "PING",  "PONG", "OK",  "ERR",
                                                     "PUB",  "HPUB",    "SUB",  "UNSUB", "LS+",  "LS-", "LMSG",
                                                     "HMSG", "RS+",     "RS-",  "RMSG",  "A"};
    transcript_text(out, names[op->kind]);
    if (transcript_is_routes(op)) {
        transcript_field(out, "origin", op->origin);
    }
    if (transcript_is_routes(op) || op->kind == OP_ACCOUNT) {
        transcript_field(out, "account", op->account);
    }
    transcript_field(out, "subject", op->subject);
    transcript_field(out, "reply", op->reply);
    transcript_field(out, "queue", op->queue);
    transcript_field(out, "sid", op->sid);
    transcript_number(out, "max", op->max);
    transcript_number(out, "weight", op->weight);
    for (uint32_t i = 0; i < op->queue_count; i++) {
        transcript_field(out, "for", op->queues[i]);
    }
    transcript_field(out, "body", op->body);
    transcript_field(out, "header", op->header);
    transcript_field(out, "payload", op->payload);
    transcript_text(out, "\n");
}

static inline const char *transcript_error(wire_error_t error) {
    switch (error) {
    case WIRE_ERROR_UNKNOWN_OPERATION: return "bad: unknown operation\n";
    case WIRE_ERROR_SILENT: return "bad: silent\n";
    case WIRE_ERROR_MAX_PAYLOAD: return "bad: max payload\n";
    case WIRE_ERROR_MAX_CONTROL_LINE: return "bad: max control line\n";
    case WIRE_ERROR_NONE: break;
    }
    return "bad without a reason\n";
}

static inline void transcript_inside(bytes_t slice, bytes_t input) {
    check(slice.size == 0 || (slice.at >= input.at && slice.at + slice.size <= input.at + input.size));
}

static inline void transcript_check_slices(const op_t *op, bytes_t input) {
    transcript_inside(op->subject, input);
    transcript_inside(op->reply, input);
    transcript_inside(op->queue, input);
    transcript_inside(op->sid, input);
    transcript_inside(op->body, input);
    transcript_inside(op->header, input);
    transcript_inside(op->payload, input);
    if (transcript_is_routes(op)) {
        transcript_inside(op->origin, input);
    }
    if (transcript_is_routes(op) || op->kind == OP_ACCOUNT) {
        transcript_inside(op->account, input);
    }
    check(op->queue_count <= OP_QUEUES_MAX);
    for (uint32_t i = 0; i < op->queue_count; i++) {
        transcript_inside(op->queues[i], input);
    }
}

/* Beside the parser's kind. */
#define WIRE_ALL (WIRE_CLIENT | WIRE_LEAF | WIRE_ROUTE | WIRE_GATEWAY)
#define TRANSCRIPT_ONE_ACCOUNT 64u
#define TRANSCRIPT_UNSUB_ORIGINS 128u

/* Feeds `input` as it would come over a socket in pieces of `step` bytes (0 = all at once). Checks on the way that
 * slices lie inside what was given, that progress is made, and that the parser never asks for less than it has. */
static inline void transcript_of(buffer_t *out, uint32_t kind, uint32_t max_payload, uint32_t max_line, bytes_t input,
                                 uint32_t step) {
    wire_parser_t parser;
    wire_parser_init(&parser, kind & WIRE_ALL, max_payload, max_line);
    parser.headers = true;
    parser.one_account = (kind & TRANSCRIPT_ONE_ACCOUNT) != 0;
    parser.unsub_origins = (kind & TRANSCRIPT_UNSUB_ORIGINS) != 0;
    op_t op;
    uint32_t start = 0;
    uint32_t have = step == 0 ? input.size : 0;
    for (;;) {
        uint32_t used;
        wire_error_t error;
        bytes_t given = bytes_of(input.at + start, have - start);
        wire_verdict_t verdict = wire_parse(&parser, given, &op, &used, &error);
        if (verdict == WIRE_BAD) {
            check(error != WIRE_ERROR_NONE);
            transcript_text(out, transcript_error(error));
            return;
        }
        if (verdict == WIRE_OP) {
            check(used > 0);
            check(used <= given.size);
            transcript_check_slices(&op, given);
            transcript_op(out, &op);
            start += used;
            continue;
        }
        check(given.size == 0 || parser.need > given.size);
        if (have == input.size) {
            transcript_text(out, start == have ? "end\n" : "more\n");
            return;
        }
        have = input.size - have < step ? input.size : have + step;
    }
}

#endif
