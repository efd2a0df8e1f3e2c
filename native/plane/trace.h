/* trace.h: what became of one message on this server, for the sender that asked for it (Nats-Trace-Dest): an event to
 * control, which tells it in the reference's words.
 *
 *   dispatch > trace_begin > publish_traced > trace_egress ... > trace_end > EVENT_MESSAGE_TRACE
 *
 * A record of the event's payload, little-endian:
 *
 *   u8 type   u8 fault   u8 kind   u8 0   u32 account   u64 connection   u64 wall ns   u32 x 4 sizes   four texts
 *
 * There is one trace at a time. It costs a message without those headers nothing but the search of them.
 */
#ifndef LEAFD_PLANE_TRACE_H
#define LEAFD_PLANE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "plane/account.h"
#include "plane/publication.h"
#include "plane/subscription.h"
#include "text/text.h"
#include "text/trace_request.h"
#include "wire/op.h"

#define TRACE_HOP_MAX 256u

struct trace {
    account_t *account; /* of the connection that it came from */
    peer_t *peer;
    bytes_t subject; /* as it came */
    bytes_t header;
    uint64_t size;
    bytes_t hop;
    bytes_t destination;
    bytes_t way;            /* the destination as it is called behind an import; empty: the same */
    const import_t *import; /* of a stream, that the message is going over */
    uint32_t hops;
    bool only;
    text_t told_destination;
    uint8_t next_hop[TRACE_HOP_MAX];
    buffer_t records;
    buffer_t link_header;
    buffer_t muted_header;
};

typedef enum trace_verdict {
    TRACE_NONE = 0, /* publish it as any other */
    TRACE_SKIP,     /* nobody gets it */
    TRACE_DENIED,   /* nobody gets it, and its sender may not publish to the destination */
    TRACE_ON,
    TRACE_MUTED /* with *header, in which links read that there is nothing to trace */
} trace_verdict_t;

/* TRACE_ON: *trace is to be ended. op has a header. */
trace_verdict_t trace_begin(plane_t *plane, peer_t *peer, account_t *account, const op_t *op, trace_t **trace,
                            bytes_t *header);
void trace_end(plane_t *plane, trace_t *trace);
void trace_free(plane_t *plane);

/* fault: TRACE_FAULT_* */
void trace_egress(plane_t *plane, trace_t *trace, const peer_t *peer, const subscription_t *one, uint32_t fault,
                  bytes_t hop);
/* The message came in and went nowhere. */
void trace_refused(plane_t *plane, trace_t *trace, bytes_t why);
void trace_mapped(plane_t *plane, trace_t *trace, bytes_t to);
void trace_exported(plane_t *plane, trace_t *trace, const account_t *importer, bytes_t to);
void trace_imported(plane_t *plane, trace_t *trace, const account_t *exporter, bytes_t from, bytes_t to);
void trace_stored(plane_t *plane, trace_t *trace, bytes_t stream, bytes_t subject, bool no_interest, bytes_t fault);
/* The header for the next link, and which hop that is; empty: no memory. */
bytes_t trace_link_header(trace_t *trace, bytes_t header, bytes_t *hop);
/* The same header, in which nobody finds a trace to take part in. */
bytes_t trace_muted_header(trace_t *trace, bytes_t header);

#endif
