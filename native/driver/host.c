/* host.c: what the plane is to JetStream: the functions of jetstream/host.h, by the plane's own.
 *
 * Not here: the call of what JetStream does with a message (publish.c), its turn (tick.c).
 */
#include "driver/host.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/status.h"
#include "consume/consume.h"
#include "exchange/exchange.h"
#include "exchange/held.h"
#include "jetstream/host.h"
#include "net/loop.h"
#include "plane/account.h"
#include "plane/authors.h"
#include "plane/link_part.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/pressure.h"
#include "plane/publication.h"
#include "plane/subscription.h"
#include "verbs/verbs.h"
#include "wire/emit.h"

/* An account_t begins with its js_account_t. */
static account_t *plane_account(js_account_t *account) {
    return (account_t *)account;
}

static js_account_t *host_account(plane_t *plane, uint32_t id) {
    account_t *account = account_find(plane, id);
    return account == NULL ? NULL : &account->js;
}

static status_t host_listen(plane_t *plane, js_account_t *account, js_role_t role, bytes_t subject, uint64_t link,
                            void *object, sink_t **out) {
    static const target_kind_t kinds[] = {
        [JS_PUBLISH] = TARGET_STREAM,    [JS_DIRECT] = TARGET_DIRECT, [JS_NEXT] = TARGET_NEXT,
        [JS_ACK] = TARGET_ACK,           [JS_FLOW] = TARGET_FLOW,     [JS_INGEST] = TARGET_INGEST,
        [JS_DIRECT_ANY] = TARGET_DIRECT,
    };
    sink_t *sink = calloc(1, sizeof(*sink));
    if (sink == NULL) {
        return STATUS_NO_MEMORY;
    }
    account_t *own = plane_account(account);
    status_t status = role == JS_DIRECT_ANY ? sink_add_grouped(plane, own, sink, kinds[role], subject,
                                                               BYTES_LITERAL(JS_DIRECT_GROUP), object)
                                            : sink_add(plane, own, sink, kinds[role], subject, link, object);
    if (status != STATUS_OK) {
        free(sink);
        return status;
    }
    *out = sink;
    return STATUS_OK;
}

static void host_unlisten(plane_t *plane, sink_t *sink) {
    sink_remove(plane, sink);
    free(sink);
}

static bytes_t host_subject(const sink_t *sink) {
    return sink->target.subject;
}

static void host_publish(plane_t *plane, js_account_t *account, bytes_t subject, bytes_t reply, bytes_t header,
                         bytes_t payload) {
    (void)publish_inside(plane, plane_account(account), subject, reply, header, payload);
}

static void host_status(plane_t *plane, js_account_t *account, const flow_t *flow, bytes_t subject, bytes_t reply,
                        bytes_t header) {
    plane->flow = flow;
    (void)publish_inside(plane, plane_account(account), subject, reply, header, BYTES_NONE);
    plane->flow = NULL;
}

static delivered_t host_deliver(plane_t *plane, js_account_t *account, const delivery_t *delivery) {
    return publish_delivery(plane, plane_account(account), delivery);
}

static bool host_interest(plane_t *plane, js_account_t *account, bytes_t subject, bytes_t group) {
    return account_interest(plane, plane_account(account), subject, group);
}

static bool host_exact_interest(plane_t *plane, js_account_t *account, bytes_t subject, bytes_t group) {
    (void)plane;
    return account_exact_interest(plane_account(account), subject, group);
}

static void host_release(plane_t *plane, const held_entry_t *entry) {
    const uint8_t *at = entry->bytes;
    publication_t publication = {.account = account_find(plane, entry->account), .flags = entry->flags};
    message_t *message = &publication.message;
    message->subject = bytes_of(at, entry->subject_size);
    message->reply = bytes_of(message->subject.at + entry->subject_size, entry->reply_size);
    message->header = bytes_of(message->reply.at + entry->reply_size, entry->header_size);
    message->payload = bytes_of(message->header.at + entry->header_size, entry->payload_size);
    publication.flags |= publication_own(message->subject);
    if ((publication.flags & PUBLICATION_REPUBLISHED) != 0) {
        mqtt_republished(plane, &publication);
    }
    (void)publish(plane, &publication);
}

static int64_t host_heard_at(plane_t *plane, uint64_t link) {
    const peer_t *peer = peer_find(plane, link);
    return peer == NULL ? 0 : peer->last_input_ns;
}

static int64_t host_heard(plane_t *plane, uint64_t link) {
    const peer_t *peer = link != 0 ? peer_find(plane, link) : NULL;
    return peer == NULL ? -1 : peer->heard_ns;
}

static int64_t host_round_trip(plane_t *plane, uint64_t link) {
    const peer_t *peer = link != 0 ? peer_find(plane, link) : NULL;
    return peer == NULL || peer->link == NULL ? 0 : peer->link->window.round_trip_min_ns;
}

static bool host_advisory_room(plane_t *plane) {
    return pressure_room(plane, NULL);
}

static void host_advise(plane_t *plane, event_entry_t *entry) {
    (void)pressure_offer(plane, NULL, entry);
}

static js_right_t host_may_fire(plane_t *plane, const js_account_t *account, const js_scheduled_t *schedule) {
    return author_right(plane, account->id, schedule);
}

static status_t host_watch(plane_t *plane, uint32_t which_store, int fd) {
    return plane->threaded ? loop_add(&plane->loop, fd, LOOP_READ, (void *)(uintptr_t)(4 + 2 * which_store))
                           : STATUS_OK;
}

const js_host_t plane_host = {
    .account = host_account,
    .listen = host_listen,
    .unlisten = host_unlisten,
    .subject = host_subject,
    .publish = host_publish,
    .status = host_status,
    .deliver = host_deliver,
    .receive = mqtt_receive,
    .opened = mqtt_stream_opened,
    .removed = mqtt_stream_removed,
    .led = mqtt_stream_led,
    .lost = mqtt_stream_lost,
    .interest = host_interest,
    .exact_interest = host_exact_interest,
    .release = host_release,
    .heard = host_heard,
    .heard_at = host_heard_at,
    .round_trip = host_round_trip,
    .advisory_room = host_advisory_room,
    .advise = host_advise,
    .may_fire = host_may_fire,
    .watch = host_watch,
    .answer_flags = PUBLICATION_UNJUDGED,
    .republish_flags = PUBLICATION_UNJUDGED | PUBLICATION_REPUBLISHED,
};
