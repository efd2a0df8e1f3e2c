/* trace.c: see trace.h. Not here: who gets a message (publish.c), the words of events (control). */
#include "plane/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/abi_types.h"
#include "base/random.h"
#include "base/status.h"
#include "exchange/exchange.h"
#include "plane/import.h"
#include "plane/judge.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/pressure.h"
#include "plane/protocol.h"
#include "text/subject.h"

#define RECORDS_BYTES_MAX (1u << 20) /* of one trace: what is beyond it is not told */
#define TEXTS 4u
#define ALL_OF_THEM 100u

static bytes_t header_written(const buffer_t *buffer, status_t status) {
    return status == STATUS_OK ? bytes_of(buffer->at, (uint32_t)buffer->size) : BYTES_NONE;
}

bytes_t trace_muted_header(trace_t *trace, bytes_t header) {
    return header_written(&trace->muted_header,
                          trace_header_redirected(&trace->muted_header, header, BYTES_LITERAL("trace disabled")));
}

bytes_t trace_link_header(trace_t *trace, bytes_t header, bytes_t *hop) {
    text_t text = {0};
    if (trace->hop.size != 0) {
        text_add(&text, trace->hop);
        text_add_literal(&text, ".");
    }
    text_add_number(&text, ++trace->hops);
    if (text.size > sizeof(trace->next_hop)) {
        return BYTES_NONE;
    }
    memcpy(trace->next_hop, text.at, text.size);
    *hop = bytes_of(trace->next_hop, text.size);
    return header_written(&trace->link_header, trace_header_with_hop(&trace->link_header, header, *hop));
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

static void trace_record(plane_t *plane, trace_t *trace, uint32_t type, uint32_t fault, uint32_t kind, uint32_t account,
                         uint64_t connection, const bytes_t texts[TEXTS]) {
    uint8_t head[40] = {(uint8_t)type, (uint8_t)fault, (uint8_t)kind, 0};
    uint64_t size = sizeof(head);
    memcpy(head + 4, &account, 4);
    memcpy(head + 8, &connection, 8);
    memcpy(head + 16, &plane->now.wall_ns, 8);
    for (uint32_t i = 0; i < TEXTS; i++) {
        memcpy(head + 24 + 4 * i, &texts[i].size, 4);
        size += texts[i].size;
    }
    if (trace->records.size + size > RECORDS_BYTES_MAX
        || buffer_append(&trace->records, head, sizeof(head)) != STATUS_OK) {
        return;
    }
    for (uint32_t i = 0; i < TEXTS; i++) {
        if (buffer_append(&trace->records, texts[i].at, texts[i].size) != STATUS_OK) {
            trace->records.size = 0; /* half a record says nothing, and the rest has no meaning without it */
            return;
        }
    }
}

/* Behind the import of a stream: as the exporter calls it. */
static bytes_t trace_subscribed(const trace_t *trace, const subscription_t *one) {
    for (const shadow_t *shadow = trace->import == NULL ? NULL : one->shadows; shadow != NULL;
         shadow = shadow->next_of_holder) {
        if (shadow->import == trace->import) {
            return shadow->target.subject;
        }
    }
    return one->target.subject;
}

void trace_egress(plane_t *plane, trace_t *trace, const peer_t *peer, const subscription_t *one, uint32_t fault,
                  bytes_t hop) {
    bool client = peer->kind == CONN_CLIENT && one != NULL;
    const bytes_t texts[TEXTS] = {client ? trace_subscribed(trace, one) : BYTES_NONE,
                                  client ? one->target.queue : BYTES_NONE, hop, BYTES_NONE};
    uint32_t account = peer->account == NULL ? 0 : peer->account->js.id;
    trace_record(plane, trace, TRACE_EGRESS, fault, peer->kind, account, peer->id, texts);
}

void trace_refused(plane_t *plane, trace_t *trace, bytes_t why) {
    const bytes_t texts[TEXTS] = {BYTES_NONE, BYTES_NONE, BYTES_NONE, why};
    trace_record(plane, trace, TRACE_INGRESS, 0, 0, 0, 0, texts);
}

void trace_mapped(plane_t *plane, trace_t *trace, bytes_t to) {
    const bytes_t texts[TEXTS] = {to, BYTES_NONE, BYTES_NONE, BYTES_NONE};
    trace_record(plane, trace, TRACE_MAPPING, 0, 0, 0, 0, texts);
}

void trace_exported(plane_t *plane, trace_t *trace, const account_t *importer, bytes_t to) {
    const bytes_t texts[TEXTS] = {to, BYTES_NONE, BYTES_NONE, BYTES_NONE};
    trace_record(plane, trace, TRACE_STREAM_EXPORT, 0, 0, importer->js.id, 0, texts);
}

void trace_imported(plane_t *plane, trace_t *trace, const account_t *exporter, bytes_t from, bytes_t to) {
    const bytes_t texts[TEXTS] = {to, from, BYTES_NONE, BYTES_NONE};
    trace_record(plane, trace, TRACE_SERVICE_IMPORT, 0, 0, exporter->js.id, 0, texts);
}

void trace_stored(plane_t *plane, trace_t *trace, bytes_t stream, bytes_t subject, bool no_interest, bytes_t fault) {
    const bytes_t texts[TEXTS] = {stream, subject, BYTES_NONE, fault};
    trace_record(plane, trace, TRACE_JETSTREAM, no_interest, 0, 0, 0, texts);
}

/* ---- from its beginning to its end ------------------------------------------------------------------------------- */

static trace_t *trace_of(plane_t *plane) {
    if (plane->trace == NULL) {
        plane->trace = calloc(1, sizeof(*plane->trace));
        if (plane->trace == NULL) {
            return NULL;
        }
        buffer_init(&plane->trace->records, UINT64_C(1) << 32);
        buffer_init(&plane->trace->link_header, UINT64_C(1) << 32);
        buffer_init(&plane->trace->muted_header, UINT64_C(1) << 32);
    }
    return plane->trace;
}

void trace_free(plane_t *plane) {
    if (plane->trace != NULL) {
        buffer_free(&plane->trace->records);
        buffer_free(&plane->trace->link_header);
        buffer_free(&plane->trace->muted_header);
        free(plane->trace);
        plane->trace = NULL;
    }
}

static bool is_drawn(plane_t *plane, const account_t *account) {
    return account->trace_sampling == 0 || account->trace_sampling >= ALL_OF_THEM
           || random_below(&plane->random, ALL_OF_THEM) < account->trace_sampling;
}

static trace_verdict_t mute_trace(trace_t *trace, bytes_t before, bytes_t *header) {
    bytes_t after = trace_muted_header(trace, before);
    if (after.size == 0) {
        return TRACE_NONE;
    }
    *header = after;
    return TRACE_MUTED;
}

trace_verdict_t trace_begin(plane_t *plane, peer_t *peer, account_t *account, const op_t *op, trace_t **out,
                            bytes_t *header) {
    trace_request_t request;
    if (!trace_request_read(op->header, account->trace.size != 0, &request)) {
        return TRACE_NONE;
    }
    trace_t *trace = trace_of(plane);
    if (trace == NULL || (request.refused && request.only)) {
        return request.only ? TRACE_SKIP : TRACE_NONE;
    }
    if (request.refused) {
        return mute_trace(trace, op->header, header);
    }
    bytes_t destination = request.destination;
    if (destination.size == 0) {
        destination = account->trace;
        if (!peer->protocol->link && !is_drawn(plane, account)) {
            return mute_trace(trace, op->header, header);
        }
    }
    if (!subject_valid_literal(destination) || destination.size > SUBJECT_BYTES_MAX) {
        return request.only ? TRACE_SKIP : TRACE_NONE;
    }
    trace->told_destination = (text_t){0};
    text_add(&trace->told_destination, destination);
    trace->destination = text_bytes(&trace->told_destination);
    if (judge_publish(plane, peer, destination).name.size == 0) {
        *out = trace;
        return TRACE_DENIED;
    }
    trace->account = account;
    trace->peer = peer;
    trace->subject = op->subject;
    trace->header = op->header;
    trace->size = (uint64_t)op->header.size + op->payload.size;
    trace->hop = peer->protocol->link ? request.hop : BYTES_NONE;
    trace->hops = 0;
    trace->only = request.only;
    trace->way = BYTES_NONE;
    trace->import = NULL;
    trace->records.size = 0;
    *out = trace;
    return TRACE_ON;
}

/* The sender of a traced message has its event delayed or dropped, as with any other message to control. */
void trace_end(plane_t *plane, trace_t *trace) {
    if (pressure_room(plane, trace->peer)) {
        event_entry_t *entry = event_new(EVENT_MESSAGE_TRACE, trace->destination, trace->subject, trace->header,
                                         bytes_of(trace->records.at, (uint32_t)trace->records.size));
        if (entry != NULL) {
            entry->event.target = trace->peer->id;
            entry->event.account = trace->account->js.id;
            entry->event.code = trace->peer->kind;
            entry->event.arg = trace->size;
            entry->event.arg2 = trace->hops;
        }
        (void)pressure_offer(plane, trace->peer, entry);
    }
    trace->records.size = 0;
    buffer_trim(&trace->records, RECORDS_BYTES_MAX / 16);
}
