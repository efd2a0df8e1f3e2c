/* remote_services.c: see remote_services.h. Reference: tests/interop/test_latency.py. */
#include "plane/remote_services.h"

#include <stdlib.h>

#include "base/abi_types.h"
#include "base/clock.h"
#include "exchange/exchange.h"
#include "plane/peer.h"
#include "plane/pressure.h"

#define REQUESTS_MAX 4096u /* beyond them the oldest is given up */
#define SILENCE_NS (120 * NS_PER_SECOND)

struct far_request {
    sink_t sink; /* on the reply's subject */
    far_request_t *newer;
    far_request_t *older;
    int64_t asked_ns;
};

struct far_requests {
    far_request_t *newest;
    far_request_t *oldest;
    uint32_t count;
};

static void far_drop(plane_t *plane, far_request_t *request) {
    far_requests_t *all = plane->far;
    sink_remove(plane, &request->sink);
    *(request->older == NULL ? &all->oldest : &request->older->newer) = request->newer;
    *(request->newer == NULL ? &all->newest : &request->newer->older) = request->older;
    all->count--;
    free(request);
}

void far_begin(plane_t *plane, account_t *account, bytes_t reply) {
    if (plane->far == NULL) {
        plane->far = calloc(1, sizeof(*plane->far));
    }
    far_requests_t *all = plane->far;
    far_request_t *request = calloc(1, sizeof(*request));
    if (all == NULL || request == NULL
        || sink_add(plane, account, &request->sink, TARGET_MEASURED, reply, 0, request) != STATUS_OK) {
        free(request);
        return;
    }
    request->asked_ns = plane->now.mono_ns;
    request->older = all->newest;
    *(all->newest == NULL ? &all->oldest : &all->newest->newer) = request;
    all->newest = request;
    if (++all->count > REQUESTS_MAX) {
        far_drop(plane, all->oldest);
    }
}

void far_answered(plane_t *plane, far_request_t *request, peer_t *responder) {
    if (responder != NULL && responder->kind == CONN_CLIENT && pressure_room(plane, responder)) {
        event_entry_t *entry =
            event_new(EVENT_LATENCY_FAR, request->sink.target.subject, BYTES_NONE, BYTES_NONE, BYTES_NONE);
        if (entry != NULL) {
            entry->event.target = responder->id;
            entry->event.account = request->sink.account->js.id;
            entry->event.arg = (uint64_t)(plane->now.mono_ns - request->asked_ns);
            entry->event.arg2 = (uint64_t)responder->rtt_ns;
        }
        (void)pressure_offer(plane, responder, entry);
    }
    far_drop(plane, request);
}

void far_chores(plane_t *plane) {
    while (plane->far != NULL && plane->far->oldest != NULL
           && plane->now.mono_ns - plane->far->oldest->asked_ns >= SILENCE_NS) {
        far_drop(plane, plane->far->oldest);
    }
}

void far_free(plane_t *plane) {
    while (plane->far != NULL && plane->far->oldest != NULL) {
        far_drop(plane, plane->far->oldest);
    }
    free(plane->far);
    plane->far = NULL;
}
