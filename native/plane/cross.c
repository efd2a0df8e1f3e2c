/* cross.c: one message over the imports that it hit, and who is at the other side.
 *
 *     stream   exporter -- subject made local --> importer: subscriptions, streams; never on from there
 *     service  importer -- subject made the exporter's, Nats-Request-Info, reply renamed --> exporter: everybody,
 *              further imports too
 *     reply    responder -- the requester's own reply subject --> requester
 *
 * Depth is bounded, and an import that a message is to cross already isn't entered again, so a circle ends where it
 * closes. Reference: tests/wire/accounts.md.
 */
#include <stdlib.h>

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/copies.h"
#include "base/status.h"
#include "consume/consume.h"
#include "jetstream/publish.h"
#include "plane/account.h"
#include "plane/gateway.h"
#include "plane/import.h"
#include "plane/latency.h"
#include "plane/mapping.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/publication.h"
#include "plane/subscription.h"
#include "plane/target.h"
#include "plane/trace.h"
#include "route/route.h"
#include "text/request_info.h"
#include "text/rewrite.h"
#include "text/text.h"
#include "wire/op.h"

#define LOOK_MAX 16u /* imports of one subject that are looked through */

/* ---- services ---------------------------------------------------------------------------------------------------- */

status_t peer_describe(peer_t *peer, const description_t *description) {
    description_t *made = calloc(1, sizeof(*made));
    if (made == NULL || !bytes_copy_all(made->parts, description->parts, DESCRIPTION_PARTS)) {
        free(made);
        return STATUS_NO_MEMORY;
    }
    peer_undescribe(peer);
    peer->description = made;
    return STATUS_OK;
}

void peer_undescribe(peer_t *peer) {
    for (uint32_t i = 0; peer->description != NULL && i < DESCRIPTION_PARTS; i++) {
        bytes_release(&peer->description->parts[i]);
    }
    free(peer->description);
    peer->description = NULL;
}

/* How much is told of the requestor: the first import that a request crosses decides about all of it, each about the
 * server. */
static uint32_t told_flags(const publication_t *publication, const import_t *import) {
    uint32_t flags = publication->flags & (PUBLICATION_SHARED | PUBLICATION_PLACED);
    if (publication->requester == NULL && (import->row.flags & IMPORT_DETAILED) != 0) {
        flags |= PUBLICATION_SHARED;
    }
    return (import->row.flags & IMPORT_PLACED) != 0 ? flags | PUBLICATION_PLACED : flags;
}

/* The header block with the requestor. */
static status_t header_with_info(plane_t *plane, const publication_t *publication, const import_t *import,
                                 const requester_t *requester, bytes_t *out) {
    buffer_t *buffer = &plane->crossing_headers[plane->crossing_depth - 1];
    const peer_t *origin = publication->origin;
    request_info_t info = {.account = requester->account->name,
                           .service = requester->account != import->importer ? import->importer->name : BYTES_NONE,
                           .rtt_ns = origin == NULL ? 0 : origin->rtt_ns,
                           .reply = requester->reply};
    uint32_t told = told_flags(publication, import);
    if (LEAF_UNLIKELY(told != 0) && origin != NULL && origin->description != NULL) {
        const description_t *all = origin->description;
        if ((told & PUBLICATION_SHARED) != 0) {
            info.who = *all;
        } else {
            info.who.parts[DESCRIPTION_PLACE] = all->parts[DESCRIPTION_PLACE];
        }
    }
    status_t status = request_info_header(buffer, publication->message.header, &info);
    *out = bytes_of(buffer->at, (uint32_t)buffer->size);
    return status;
}

static uint32_t publish_over(plane_t *plane, publication_t *crossing) {
    return crossing->trace != NULL ? publish_traced(plane, crossing) : publish(plane, crossing);
}

/* Behind an import that is not for traces the message goes on without one; what was only to be traced does not. */
static uint32_t publish_untraced(plane_t *plane, publication_t *crossing, bool muted) {
    trace_t *trace = crossing->trace;
    crossing->trace = NULL;
    if (muted) {
        bytes_t header = trace_muted_header(trace, crossing->message.header);
        crossing->message.header = header.size != 0 ? header : crossing->message.header;
    }
    return trace->only ? 0 : publish(plane, crossing);
}

/* A trace at the other side goes to a subject that leads back to the account where it was asked for. */
static uint32_t publish_service(plane_t *plane, import_t *import, const publication_t *publication,
                                publication_t *crossing) {
    trace_t *trace = crossing->trace;
    if (trace == NULL) {
        return publish(plane, crossing);
    }
    trace_imported(plane, trace, import->exporter, publication->message.subject, crossing->message.subject);
    if ((import->row.flags & IMPORT_TRACED) == 0) {
        return publish_untraced(plane, crossing, true);
    }
    bytes_t before = trace->way, to = before.size != 0 ? before : trace->destination;
    reply_t *reply = reply_new(plane, import, import->importer, import->exporter, to, publication->origin);
    if (reply == NULL) {
        return publish_untraced(plane, crossing, true);
    }
    uint8_t way[REPLY_SUBJECT_MAX];
    reply->response = RESPONSE_STREAM;
    trace->way = bytes_of(way, reply_subject(reply, way));
    buffer_t header;
    buffer_init(&header, UINT64_C(1) << 32);
    uint32_t taken = 0, hops = trace->hops;
    if (trace_header_redirected(&header, crossing->message.header, trace->way) == STATUS_OK) {
        crossing->message.header = bytes_of(header.at, (uint32_t)header.size);
        taken = publish_traced(plane, crossing);
    }
    buffer_free(&header);
    reply = trace->hops == hops ? reply_find(plane, import->exporter, trace->way) : NULL;
    if (reply != NULL) {
        reply_drop(plane, reply); /* it went over no link, so nobody else has anything to tell */
    }
    trace->way = before;
    return taken;
}

/* Answers to acknowledgements would not find the consumer if they had another name. */
static bool keeps_its_reply(bytes_t reply) {
    return reply.size == 0 || bytes_starts(reply, BYTES_LITERAL("$JS.ACK."));
}

/* Gives the crossing message a reply of the exporter's, where it has one. false: no memory. */
static bool way_back(plane_t *plane, import_t *import, const publication_t *publication, publication_t *crossing,
                     uint8_t back[REPLY_SUBJECT_MAX]) {
    bytes_t to = publication->message.reply, fields = BYTES_NONE;
    bool measured = LEAF_UNLIKELY((import->row.flags & IMPORT_MEASURED) != 0)
                    && latency_wanted(plane, import, publication, &fields);
    if (keeps_its_reply(to)) {
        if (measured && to.size == 0) {
            latency_refused(plane, import, publication, fields);
        }
        return true;
    }
    reply_t *reply = reply_new(plane, import, import->importer, import->exporter, to, publication->origin);
    if (reply == NULL) {
        return false;
    }
    if (measured) {
        latency_begin(plane, reply, publication, fields);
    }
    crossing->message.reply = bytes_of(back, reply_subject(reply, back));
    return true;
}

static uint32_t cross_service(plane_t *plane, import_t *import, const publication_t *publication,
                              const requester_t *requester) {
    text_t subject, elsewhere;
    publication_t crossing = *publication;
    if (rewrite_subject(&import->outward, publication->message.subject, subject.at, sizeof(subject.at), &subject.size)
            != STATUS_OK
        || header_with_info(plane, publication, import, requester, &crossing.message.header) != STATUS_OK) {
        return 0;
    }
    crossing.account = import->exporter;
    crossing.message.body = NULL; /* its header is another one */
    crossing.requester = requester;
    crossing.message.subject = text_bytes(&subject);
    if (may_be_mapped(import->exporter, crossing.message.subject)) {
        crossing.message.subject = mapped_subject(plane, import->exporter, crossing.message.subject, &elsewhere);
        if (crossing.message.subject.size == 0) {
            return 0;
        }
    }
    crossing.flags = (publication->flags & (PUBLICATION_DEFER | PUBLICATION_UNJUDGED)) | PUBLICATION_SERVICE
                     | told_flags(publication, import);
    crossing.queue_count = 0;
    uint8_t back[REPLY_SUBJECT_MAX];
    if (!way_back(plane, import, publication, &crossing, back)) {
        return 0;
    }
    uint32_t taken = publish_service(plane, import, publication, &crossing);
    reply_t *left = taken == 0 && crossing.message.reply.at == back
                        ? reply_find(plane, import->exporter, crossing.message.reply)
                        : NULL;
    if (left != NULL) {
        if (LEAF_UNLIKELY(left->measure != NULL)) {
            latency_ended(plane, left, publication->origin, LATENCY_NOBODY);
        }
        reply_drop(plane, left);
    }
    return taken;
}

/* The publisher's own reply stays known in all accounts, where a stream has to read it. */
static uint32_t cross_request(plane_t *plane, import_t *import, const publication_t *publication) {
    if (publication->requester != NULL) {
        return cross_service(plane, import, publication, publication->requester);
    }
    bytes_t reply = publication->message.reply;
    requester_t first = {.account = import->importer, .reply = js_in_fast_batch(reply) ? reply : BYTES_NONE};
    return cross_service(plane, import, publication, &first);
}

/* ---- replies ----------------------------------------------------------------------------------------------------- */

static uint32_t cross_reply(plane_t *plane, const publication_t *publication) {
    bytes_t named = publication->message.subject;
    reply_t *reply = reply_find(plane, publication->account, named);
    if (reply == NULL) {
        return 0;
    }
    text_t subject = {0};
    text_add(&subject, bytes_of(reply->at, reply->size));
    publication_t crossing = *publication;
    crossing.account = reply->requester;
    crossing.message.subject = text_bytes(&subject);
    crossing.flags = (publication->flags & PUBLICATION_DEFER) | PUBLICATION_SERVICE | PUBLICATION_UNJUDGED;
    crossing.queue_count = 0;
    /* An answer may itself want one: its way back leads to the responder here. */
    uint8_t back[REPLY_SUBJECT_MAX];
    if (!keeps_its_reply(publication->message.reply)) {
        const reply_t *further = reply_new(plane, reply->import, reply->responder, reply->requester,
                                           publication->message.reply, publication->origin);
        if (further == NULL) {
            return 0;
        }
        crossing.message.reply = bytes_of(back, reply_subject(further, back));
    }
    if (crossing.trace != NULL) {
        trace_imported(plane, crossing.trace, crossing.account, named, crossing.message.subject);
    }
    uint32_t taken = publish_over(plane, &crossing);
    reply = reply_find(plane, publication->account, named);
    if (reply == NULL) {
        return taken;
    }
    if (LEAF_UNLIKELY(reply->measure != NULL)) {
        if (taken != 0) {
            latency_answered(plane, reply, publication->origin);
        } else {
            latency_ended(plane, reply, NULL, LATENCY_LEFT);
        }
    }
    bool last = reply->response == RESPONSE_SINGLETON
                || (publication->message.header.size == 0 && publication->message.payload.size == 0);
    if (taken == 0 || last) {
        reply_drop(plane, reply);
    } else {
        reply_touch(plane, reply);
    }
    return taken;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

static uint32_t cross_stream(plane_t *plane, const import_t *import, const publication_t *publication) {
    text_t subject;
    if (rewrite_subject(&import->inward, publication->message.subject, subject.at, sizeof(subject.at), &subject.size)
        != STATUS_OK) {
        return 0;
    }
    bytes_t queues[OP_QUEUES_MAX];
    publication_t crossing = *publication;
    crossing.account = import->importer;
    crossing.exported = publication->message.subject;
    crossing.message.subject = text_bytes(&subject);
    if (!bytes_equal(crossing.message.subject, crossing.exported)) {
        crossing.shown.name = BYTES_NONE; /* the importer's name for it is what its subscribers see */
    }
    crossing.queue_count = import->queue_count;
    crossing.queues = queues;
    memcpy(queues, import->queues, import->queue_count * sizeof(*queues));
    crossing.flags = (publication->flags & PUBLICATION_DEFER) | PUBLICATION_FROM_LINK | PUBLICATION_IMPORTED;
    if (crossing.trace != NULL) {
        trace_exported(plane, crossing.trace, import->importer, crossing.message.subject);
        if ((import->row.flags & IMPORT_TRACED) == 0) {
            return publish_untraced(plane, &crossing, false) + publication->trace->only;
        }
        crossing.trace->import = import;
    }
    uint32_t taken = publish_over(plane, &crossing);
    if (crossing.trace != NULL) {
        crossing.trace->import = NULL;
    }
    return taken;
}

uint32_t cross(plane_t *plane, const publication_t *publication, const crossings_t *crossings) {
    bool deep = plane->crossing_depth == CROSSING_DEPTH_MAX;
    uint32_t taken = 0;
    plane->crossing_depth += !deep;
    for (import_t *import = crossings->first, *next; import != NULL; import = next) {
        next = import->next_crossing;
        if (!deep) {
            taken += import->row.kind == IMPORT_STREAM ? cross_stream(plane, import, publication)
                                                       : cross_request(plane, import, publication);
        }
        import->noted = false;
    }
    if (crossings->reply && !deep) {
        taken += cross_reply(plane, publication);
    }
    plane->crossing_depth -= !deep;
    return taken;
}

static void note_import(crossings_t *crossings, import_t *import) {
    import->noted = true;
    import->next_crossing = NULL;
    *(crossings->first == NULL ? &crossings->first : &crossings->last->next_crossing) = import;
    crossings->last = import;
}

static bool note_shadow(const plane_t *plane, const shadow_t *shadow, const bytes_t *queue, crossings_t *crossings) {
    const subscription_t *subscription = shadow->subscription;
    if (subscription != NULL
        && ((subscription->flags & SUBSCRIPTION_DEAD) != 0
            || (subscription->peer != NULL && subscription->peer->state != PEER_ADMITTED))) {
        return false;
    }
    import_t *import = shadow->import;
    if (import->ended) {
        return false; /* its shadows go in steps */
    }
    if (import->publication != plane->publication) {
        if (import->noted) {
            return false;
        }
        import->publication = plane->publication;
        import->queue_count = 0;
        note_import(crossings, import);
    }
    if (queue != NULL && import->queue_count < OP_QUEUES_MAX) {
        import->queues[import->queue_count++] = *queue;
    }
    return true;
}

bool cross_note(const plane_t *plane, const publication_t *publication, const route_target_t *target,
                const bytes_t *queue, crossings_t *crossings) {
    if ((publication->flags & (PUBLICATION_INSIDE | PUBLICATION_IMPORTED)) != 0) {
        return false;
    }
    if (!crossings->any) {
        *crossings = (crossings_t){.any = true};
    }
    if (target->kind == TARGET_REPLY) {
        crossings->reply = true;
        return true;
    }
    if (target->kind == TARGET_SHADOW) {
        return (publication->flags & PUBLICATION_SERVICE) == 0 && note_shadow(plane, target->owner, queue, crossings);
    }
    import_t *import = ((const sink_t *)target->owner)->object;
    if (import->noted) {
        return false;
    }
    note_import(crossings, import);
    return true;
}

/* ---- who is at the other side ------------------------------------------------------------------------------------ */

/* As publish() does: what came over a stream import goes no further, what came back to a requester only to a further
 * one. */
typedef enum follow { FOLLOW_NOTHING = 0, FOLLOW_REPLIES, FOLLOW_ALL } follow_t;

typedef struct other_sides {
    const import_t *imports[LOOK_MAX];
    uint32_t count;
    bool reply;
} other_sides_t;

/* false: it is nothing that leads elsewhere. */
static bool note_other_side(other_sides_t *others, const route_target_t *target, follow_t follow) {
    if (target->kind == TARGET_REPLY) {
        others->reply = follow != FOLLOW_NOTHING;
        return true;
    }
    if (target->kind != TARGET_SHADOW) {
        return false;
    }
    if (follow != FOLLOW_ALL) {
        return true;
    }
    const import_t *import = ((const shadow_t *)target->owner)->import;
    if (import->ended) {
        return true;
    }
    for (uint32_t i = 0; i < others->count; i++) {
        if (others->imports[i] == import) {
            return true;
        }
    }
    if (others->count == LOOK_MAX) {
        return false; /* one of many: somebody is there; a full one among them is cut off like any slow consumer */
    }
    others->imports[others->count++] = import;
    return true;
}

/* The receivers that may get a message: the plain targets, or the members of one group. */
typedef struct receivers {
    route_target_t *const *at;
    uint32_t count;
} receivers_t;

static receivers_t receivers_of(const route_match_t *match, bytes_t group) {
    if (group.size == 0) {
        return (receivers_t){.at = match->plain, .count = match->plain_count};
    }
    for (uint32_t i = 0; i < match->group_count; i++) {
        if (bytes_equal(match->groups[i].queue, group)) {
            return (receivers_t){.at = match->groups[i].members, .count = match->groups[i].count};
        }
    }
    return (receivers_t){.at = NULL, .count = 0};
}

static delivered_t look_in(plane_t *plane, account_t *account, bytes_t subject, bytes_t group, follow_t follow,
                           uint32_t depth);

static delivered_t look_over(plane_t *plane, const other_sides_t *others, account_t *account, bytes_t subject,
                             bytes_t group, uint32_t depth) {
    delivered_t found = DELIVERED_NO_INTEREST;
    for (uint32_t i = 0; i < others->count; i++) {
        text_t local;
        if (rewrite_subject(&others->imports[i]->inward, subject, local.at, sizeof(local.at), &local.size)
            != STATUS_OK) {
            continue;
        }
        delivered_t there =
            look_in(plane, others->imports[i]->importer, text_bytes(&local), group, FOLLOW_NOTHING, depth + 1);
        if (there == DELIVERED_FULL) {
            return there;
        }
        found = there == DELIVERED ? there : found;
    }
    const reply_t *reply = others->reply ? reply_find(plane, account, subject) : NULL;
    if (reply != NULL) {
        delivered_t there =
            look_in(plane, reply->requester, bytes_of(reply->at, reply->size), BYTES_NONE, FOLLOW_REPLIES, depth + 1);
        found = there == DELIVERED_NO_INTEREST ? found : there;
    }
    return found;
}

/* The match is read to its end before another domain is asked: that might be this one again, and its memory used
 * anew. */
static delivered_t look_in(plane_t *plane, account_t *account, bytes_t subject, bytes_t group, follow_t follow,
                           uint32_t depth) {
    const route_match_t *match = route_match(account->route, subject);
    receivers_t receivers = receivers_of(match, group);
    bool found = group.size == 0 && match->group_count != 0;
    other_sides_t others = {.count = 0, .reply = false};
    bool full = false;
    for (uint32_t i = 0; i < receivers.count && !full; i++) {
        const route_target_t *target = receivers.at[i];
        if (traits_of(target)->jetstream) {
            continue;
        }
        if (traits_of(target)->peer) {
            full = peer_is_full(plane, ((const subscription_t *)target->owner)->peer);
        }
        found = !note_other_side(&others, target, follow) || found;
    }
    if (full) {
        return DELIVERED_FULL;
    }
    if ((others.count != 0 || others.reply) && depth < CROSSING_DEPTH_MAX) {
        delivered_t over = look_over(plane, &others, account, subject, group, depth);
        if (over != DELIVERED_NO_INTEREST) {
            return over;
        }
    }
    return found ? DELIVERED : DELIVERED_NO_INTEREST;
}

/* The gateway by which a whole name of a reply leaves; NULL: the subject is no such name, or the way is gone. */
static peer_t *whole_name_way(const plane_t *plane, bytes_t subject) {
    peer_t *peer = plane->gateways == NULL || !gateway_is_reply(subject) ? NULL : gateway_towards(plane, subject);
    return peer != NULL && peer->state == PEER_ADMITTED ? peer : NULL;
}

delivered_t look_at_receivers(plane_t *plane, account_t *account, bytes_t subject, bytes_t group) {
    peer_t *back = whole_name_way(plane, subject);
    if (LEAF_UNLIKELY(back != NULL)) {
        return peer_is_full(plane, back) ? DELIVERED_FULL : DELIVERED;
    }
    return look_in(plane, account, subject, group, FOLLOW_ALL, 0);
}

static bool interest_in(plane_t *plane, account_t *account, bytes_t subject, bytes_t group, uint32_t depth) {
    const route_match_t *match = route_match(account->route, subject);
    receivers_t receivers = receivers_of(match, group);
    if (group.size != 0) {
        return receivers.count != 0;
    }
    bool reply_only = false;
    for (uint32_t i = 0; i < receivers.count; i++) {
        const route_target_t *target = receivers.at[i];
        if (target->kind != TARGET_REPLY && !traits_of(target)->jetstream) {
            return true;
        }
        reply_only = reply_only || target->kind == TARGET_REPLY;
    }
    const reply_t *reply = reply_only && depth < CROSSING_DEPTH_MAX ? reply_find(plane, account, subject) : NULL;
    return reply != NULL
           && interest_in(plane, reply->requester, bytes_of(reply->at, reply->size), BYTES_NONE, depth + 1);
}

bool account_interest(plane_t *plane, account_t *account, bytes_t subject, bytes_t group) {
    return whole_name_way(plane, subject) != NULL || interest_in(plane, account, subject, group, 0);
}

bool account_exact_interest(const account_t *account, bytes_t subject, bytes_t group) {
    receivers_t receivers = receivers_of(route_match(account->route, subject), group);
    for (uint32_t i = 0; i < receivers.count; i++) {
        if (bytes_equal(receivers.at[i]->subject, subject) && !traits_of(receivers.at[i])->jetstream) {
            return true;
        }
    }
    return false;
}
