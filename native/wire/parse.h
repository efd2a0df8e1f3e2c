/* parse.h: bytes to ops, as a function without side effects, but for the parser's note of how far it has searched.
 *
 *   wire_parse() --> WIRE_OP    *used bytes were one op (payload and its CRLF included)
 *                --> WIRE_MORE  the op is not whole yet; call again with the same start and more bytes
 *                --> WIRE_BAD   the peer broke the protocol; *error tells how; the connection is to be closed
 *
 * The parser allocates nothing and copies nothing. max_payload and max_control_line are its only limits; a PUB whose
 * announced size is over max_payload is refused on its control line, before the payload arrives.
 */
#ifndef LEAFD_WIRE_PARSE_H
#define LEAFD_WIRE_PARSE_H

#include "base/status.h"
#include "wire/op.h"

typedef enum wire_kind { WIRE_CLIENT = 1, WIRE_LEAF = 2, WIRE_ROUTE = 4, WIRE_GATEWAY = 8 } wire_kind_t;

typedef enum wire_verdict { WIRE_OP = 1, WIRE_MORE = 0, WIRE_BAD = -1 } wire_verdict_t;

typedef enum wire_error {
    WIRE_ERROR_NONE = 0,
    WIRE_ERROR_UNKNOWN_OPERATION, /* "Unknown Protocol Operation" */
    WIRE_ERROR_SILENT,            /* closed, and told nothing: bad PUB/SUB arguments, as the reference does */
    WIRE_ERROR_MAX_PAYLOAD,       /* "Maximum Payload Violation" */
    WIRE_ERROR_MAX_CONTROL_LINE,  /* "maximum control line exceeded" */
} wire_error_t;

typedef struct wire_parser {
    wire_kind_t kind;
    uint32_t max_payload;
    uint32_t max_control_line;
    uint32_t searched; /* bytes of the unfinished line that were searched, so that a slow peer costs no second search */
    /* WIRE_MORE: at least this many bytes in all before it is worth calling again; MAX_PAYLOAD: as many were
     * announced */
    uint32_t need;
    bool headers;       /* HPUB/HMSG allowed: off for a client until its CONNECT says so, on for all others */
    bool one_account;   /* routes: lines name no account, as the connection is of one alone */
    bool unsub_origins; /* routes: LS- names the origin, too */
} wire_parser_t;

void wire_parser_init(wire_parser_t *parser, wire_kind_t kind, uint32_t max_payload, uint32_t max_control_line);

wire_verdict_t wire_parse(wire_parser_t *parser, bytes_t input, op_t *op, uint32_t *used, wire_error_t *error);

#endif
