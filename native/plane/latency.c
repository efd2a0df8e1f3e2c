/* latency.c: see latency.h. Reference: tests/interop/test_latency.py. */
#include "plane/latency.h"

#include <stdlib.h>
#include <string.h>

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/check.h"
#include "base/random.h"
#include "base/status.h"
#include "exchange/exchange.h"
#include "plane/pressure.h"
#include "plane/protocol.h"
#include "text/request_info.h"
#include "text/sample_request.h"

#define ALL_OF_THEM 100u
#define LOOK_AT_ONCE 1024u /* requests whose requester is looked for in one turn */

struct latencies {
    measure_t *newest;
    measure_t *oldest;
    measure_t *next; /* to be looked at */
    buffer_t fields;
    buffer_t told; /* a latency_t, and both connections as JSON */
};

static latencies_t *latencies_of(plane_t *plane) {
    if (plane->latencies == NULL) {
        plane->latencies = calloc(1, sizeof(*plane->latencies));
        if (plane->latencies != NULL) {
            buffer_init(&plane->latencies->fields, SAMPLE_FIELDS_MAX);
            buffer_init(&plane->latencies->told, UINT64_C(1) << 32);
        }
    }
    return plane->latencies;
}

void latency_free(plane_t *plane) {
    if (plane->latencies != NULL) {
        check(plane->latencies->oldest == NULL);
        buffer_free(&plane->latencies->fields);
        buffer_free(&plane->latencies->told);
        free(plane->latencies);
        plane->latencies = NULL;
    }
}

/* ---- a request --------------------------------------------------------------------------------------------------- */

bool latency_wanted(plane_t *plane, const import_t *import, const publication_t *publication, bytes_t *fields) {
    latencies_t *latencies = latencies_of(plane);
    uint32_t share = import->row.sampling;
    *fields = BYTES_NONE;
    if (latencies == NULL) {
        return false;
    }
    if (share >= ALL_OF_THEM || (share != 0 && random_below(&plane->random, ALL_OF_THEM) < share)) {
        return true;
    }
    bool asked = sample_request_read(publication->message.header, &latencies->fields);
    *fields = bytes_of(latencies->fields.at, (uint32_t)latencies->fields.size);
    return asked;
}

void latency_begin(plane_t *plane, reply_t *reply, const publication_t *publication, bytes_t fields) {
    latencies_t *latencies = plane->latencies;
    measure_t *measure = malloc(sizeof(*measure) + fields.size);
    if (measure == NULL) {
        return;
    }
    bytes_t mark = reply->import->mark;
    *measure = (measure_t){.reply = reply,
                           .requester = publication->origin == NULL ? 0 : publication->origin->id,
                           .asked = plane->now,
                           .mark_size = mark.size,
                           .fields_size = fields.size,
                           .older = latencies->newest};
    if (mark.size != 0) {
        memcpy(measure->mark, mark.at, mark.size);
    }
    if (fields.size != 0) {
        memcpy(measure->fields, fields.at, fields.size);
    }
    *(latencies->newest == NULL ? &latencies->oldest : &latencies->newest->newer) = measure;
    latencies->newest = measure;
    reply->measure = measure;
}

void latency_forget(plane_t *plane, reply_t *reply) {
    latencies_t *latencies = plane->latencies;
    measure_t *measure = reply->measure;
    if (latencies->next == measure) {
        latencies->next = measure->newer;
    }
    *(measure->older == NULL ? &latencies->oldest : &measure->older->newer) = measure->newer;
    *(measure->newer == NULL ? &latencies->newest : &measure->newer->older) = measure->older;
    free(measure);
    reply->measure = NULL;
}

/* ---- the end of a measured request ------------------------------------------------------------------------------- */

/* As Nats-Request-Info has it; with everything that is known of it, or without. */
static bool add_connection(buffer_t *out, const peer_t *peer, const account_t *account, bool whole, uint32_t *size) {
    uint64_t before = out->size;
    if (peer != NULL && peer->account != NULL) {
        account = peer->account;
    }
    request_info_t info = {.account = account->name, .rtt_ns = peer == NULL ? 0 : peer->rtt_ns};
    if (whole && peer != NULL && peer->description != NULL) {
        info.who = *peer->description;
    }
    bool added = request_info_json(out, &info) == STATUS_OK;
    *size = (uint32_t)(out->size - before);
    return added;
}

typedef struct ended {
    const import_t *import;
    uint32_t status;
    const peer_t *requester;
    const account_t *requesters;
    peer_t *responder;
    bytes_t reply;
    bytes_t fields;
} ended_t;

/* The peer that caused an event has it delayed or dropped, as with any other message to control. */
static void latency_tell(plane_t *plane, const ended_t *ended, latency_t latency, peer_t *cause) {
    if (!pressure_room(plane, cause)) {
        return;
    }
    buffer_t *told = &plane->latencies->told;
    bool shared = (ended->import->row.flags & IMPORT_DETAILED) != 0;
    told->size = 0;
    bool whole = buffer_append(told, (const uint8_t *)&latency, sizeof(latency)) == STATUS_OK
                 && add_connection(told, ended->requester, ended->requesters, shared, &latency.requester_size)
                 && (ended->responder == NULL
                     || add_connection(told, ended->responder, ended->import->exporter, true, &latency.responder_size));
    if (!whole) {
        return;
    }
    memcpy(told->at, &latency, sizeof(latency));
    event_entry_t *entry = event_new(EVENT_LATENCY, ended->import->results, ended->reply, ended->fields,
                                     bytes_of(told->at, (uint32_t)told->size));
    if (entry != NULL) {
        entry->event.account = ended->import->exporter->js.id;
        entry->event.code = ended->status;
        entry->event.arg = ended->responder == NULL ? 0 : ended->responder->kind;
    }
    (void)pressure_offer(plane, cause, entry);
}

static int64_t not_below_zero(int64_t value) {
    return value < 0 ? 0 : value;
}

static ended_t ended_of(plane_t *plane, const reply_t *reply, uint32_t status) {
    const measure_t *measure = reply->measure;
    return (ended_t){.import = reply->import,
                     .status = status,
                     .requester = measure->requester == 0 ? NULL : peer_find(plane, measure->requester),
                     .requesters = reply->requester,
                     .fields = bytes_of(measure->fields, measure->fields_size)};
}

/* The reference's sums: of each connection half a round trip there and half a round trip back. Time is that of turns,
 * between which a request and its answer lie, so of our own time (system_ns) nothing is seen. */
void latency_answered(plane_t *plane, const reply_t *reply, peer_t *responder) {
    if (responder == NULL || (reply->import->row.flags & IMPORT_MEASURED) == 0) {
        return;
    }
    uint8_t named[REPLY_SUBJECT_MAX];
    ended_t ended = ended_of(plane, reply, 200);
    ended.responder = responder;
    ended.reply = bytes_of(named, reply_subject(reply, named));
    int64_t asking_ns = ended.requester == NULL ? 0 : ended.requester->rtt_ns, answering_ns = responder->rtt_ns;
    int64_t took_ns = plane->now.mono_ns - reply->measure->asked.mono_ns;
    latency_t latency = {.start_wall_ns = reply->measure->asked.wall_ns - asking_ns,
                         .service_ns = not_below_zero(took_ns - answering_ns),
                         .total_ns = asking_ns + took_ns};
    latency_tell(plane, &ended, latency, responder);
}

void latency_ended(plane_t *plane, const reply_t *reply, peer_t *requester, uint32_t status) {
    if ((reply->import->row.flags & IMPORT_MEASURED) == 0) {
        return;
    }
    ended_t ended = ended_of(plane, reply, status);
    ended.requester = requester != NULL ? requester : ended.requester;
    int64_t asking_ns = ended.requester == NULL ? 0 : ended.requester->rtt_ns;
    latency_tell(plane, &ended, (latency_t){.start_wall_ns = reply->measure->asked.wall_ns - asking_ns}, requester);
}

void latency_refused(plane_t *plane, const import_t *import, const publication_t *publication, bytes_t fields) {
    peer_t *origin = publication->origin;
    ended_t ended = {.import = import,
                     .status = LATENCY_REFUSED,
                     .requester = origin,
                     .requesters = publication->requester != NULL ? publication->requester->account : import->importer,
                     .fields = fields};
    int64_t asking_ns = origin == NULL ? 0 : origin->rtt_ns;
    latency_tell(plane, &ended, (latency_t){.start_wall_ns = plane->now.wall_ns - asking_ns}, origin);
}

static bool is_awaited(plane_t *plane, const reply_t *reply) {
    bytes_t subject = bytes_of(reply->at, reply->size);
    return account_interest(plane, reply->requester, subject, BYTES_NONE)
           || route_match(reply->requester->route, subject)->group_count != 0;
}

void latency_expired(plane_t *plane, const reply_t *reply) {
    latency_ended(plane, reply, NULL, is_awaited(plane, reply) ? LATENCY_SILENCE : LATENCY_LEFT);
}

void latency_chores(plane_t *plane) {
    latencies_t *latencies = plane->latencies;
    if (latencies == NULL || latencies->oldest == NULL) {
        return;
    }
    measure_t *measure = latencies->next != NULL ? latencies->next : latencies->oldest;
    for (uint32_t i = 0; i < LOOK_AT_ONCE && measure != NULL; i++) {
        reply_t *reply = measure->reply;
        measure = measure->newer;
        if (!is_awaited(plane, reply)) {
            latency_ended(plane, reply, NULL, LATENCY_LEFT);
            reply_drop(plane, reply);
        }
    }
    latencies->next = measure;
}
