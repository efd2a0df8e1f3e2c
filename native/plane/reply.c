/* reply.c: the outstanding replies of service imports: one hash table, a list by age for each import, a list for each
 * requester.
 *
 *     _R_.<six of the responding account>.<six at random>  -->  requester's account and its own reply subject
 *
 * A way back ends with its answer (singleton), with an empty message (stream, chunked), with its requester, or when
 * nothing came for the export's threshold of elapsed time. An import has at most REPLIES_PER_IMPORT_MAX of them; a
 * further one takes the oldest's place, so a requester that never gets answers harms only its own import. All together
 * have a share of memory; when it is full, the import with the most in it gives up its oldest.
 */
#include <stddef.h>
#include <stdlib.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/holders.h"
#include "base/map.h"
#include "base/random.h"
#include "base/status.h"
#include "base/table.h"
#include "base/visits.h"
#include "plane/account.h"
#include "plane/import.h"
#include "plane/latency.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/subscription.h"
#include "text/text.h"

#define SPARE_CAPACITY 128u /* reply subjects up to this size use dropped rows again */
#define SPARES_MAX 1024u
#define ROW_OVERHEAD 32u /* of an allocation, and in the table */

struct replies {
    map_t *map;
    reply_t *spare;
    uint32_t spare_count;
    bool expiring; /* some may be left that are due */
};

static uint64_t id_hash(const account_t *account, const uint8_t id[REPLY_ID_SIZE]) {
    uint64_t value = account->js.id;
    for (uint32_t i = 0; i < REPLY_ID_SIZE; i++) {
        value = value << 8 ^ value >> 48 ^ id[i];
    }
    value *= UINT64_C(0x9E3779B97F4A7C15);
    return value ^ value >> 32;
}

static reply_t *reply_of(map_link_t *link) {
    return link == NULL ? NULL : MAP_ENTRY(link, reply_t, link);
}

static reply_t *reply_lookup(const replies_t *replies, const account_t *account, const uint8_t id[REPLY_ID_SIZE]) {
    if (replies == NULL) {
        return NULL;
    }
    map_link_t *link = map_first(replies->map, id_hash(account, id));
    while (link != NULL
           && (reply_of(link)->responder != account || memcmp(reply_of(link)->id, id, REPLY_ID_SIZE) != 0)) {
        link = link->next;
    }
    return reply_of(link);
}

/* The end of the subject of a measured request. */
static bytes_t reply_mark(const reply_t *reply) {
    const measure_t *measure = reply->measure;
    return measure == NULL ? BYTES_NONE : bytes_of(measure->mark, measure->mark_size);
}

reply_t *reply_find(const plane_t *plane, const account_t *account, bytes_t subject) {
    if (subject.size < REPLY_SUBJECT_SIZE || memcmp(subject.at, account->reply_prefix, REPLY_PREFIX_SIZE) != 0) {
        return NULL;
    }
    reply_t *reply = reply_lookup(plane->replies, account, subject.at + REPLY_PREFIX_SIZE);
    if (reply != NULL && (reply->import->ended || (reply->peer != NULL && reply->peer->state == PEER_DOOMED))) {
        return NULL; /* it ended with its import or its requester, and is taken out in its turn */
    }
    bytes_t mark = reply == NULL ? BYTES_NONE : reply_mark(reply);
    return bytes_equal(bytes_of(subject.at + REPLY_SUBJECT_SIZE, subject.size - REPLY_SUBJECT_SIZE), mark) ? reply
                                                                                                           : NULL;
}

uint32_t reply_subject(const reply_t *reply, uint8_t out[REPLY_SUBJECT_MAX]) {
    bytes_t mark = reply_mark(reply);
    memcpy(out, reply->responder->reply_prefix, REPLY_PREFIX_SIZE);
    memcpy(out + REPLY_PREFIX_SIZE, reply->id, REPLY_ID_SIZE);
    if (mark.size != 0) {
        memcpy(out + REPLY_SUBJECT_SIZE, mark.at, mark.size);
    }
    return REPLY_SUBJECT_SIZE + mark.size;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static bool table_open(plane_t *plane) {
    if (plane->replies == NULL) {
        plane->replies = calloc(1, sizeof(*plane->replies));
    }
    return plane->replies != NULL && map_open(&plane->replies->map) == STATUS_OK;
}

void replies_free(plane_t *plane) {
    replies_t *replies = plane->replies;
    if (replies == NULL) {
        return;
    }
    check(map_count(replies->map) == 0);
    for (reply_t *reply = replies->spare, *next; reply != NULL; reply = next) {
        next = reply_of(reply->link.next);
        free(reply);
    }
    map_free(&replies->map);
    free(replies);
    plane->replies = NULL;
}

/* ---- one reply --------------------------------------------------------------------------------------------------- */

static uint32_t row_capacity(uint32_t size) {
    return size <= SPARE_CAPACITY ? SPARE_CAPACITY : size;
}

static uint64_t row_size(uint32_t capacity) {
    return sizeof(reply_t) + capacity + ROW_OVERHEAD;
}

static reply_t *row_new(replies_t *replies, uint32_t size) {
    if (size <= SPARE_CAPACITY && replies->spare != NULL) {
        reply_t *reply = replies->spare;
        replies->spare = reply_of(reply->link.next);
        replies->spare_count--;
        return reply;
    }
    uint32_t capacity = row_capacity(size);
    reply_t *reply = malloc(sizeof(*reply) + capacity);
    if (reply != NULL) {
        reply->capacity = capacity;
    }
    return reply;
}

static void row_free(replies_t *replies, reply_t *reply) {
    if (reply->capacity != SPARE_CAPACITY || replies->spare_count == SPARES_MAX) {
        free(reply);
        return;
    }
    reply->link.next = replies->spare == NULL ? NULL : &replies->spare->link;
    replies->spare = reply;
    replies->spare_count++;
}

static void list_put(import_t *import, reply_t *reply) {
    reply->newer = NULL;
    reply->older = import->newest;
    *(import->newest == NULL ? &import->oldest : &import->newest->newer) = reply;
    import->newest = reply;
    import->reply_count++;
}

static void list_take(reply_t *reply) {
    import_t *import = reply->import;
    *(reply->older == NULL ? &import->oldest : &reply->older->newer) = reply->newer;
    *(reply->newer == NULL ? &import->newest : &reply->newer->older) = reply->older;
    import->reply_count--;
}

static void expire_later(const plane_t *plane, reply_t *reply) {
    int64_t threshold = reply->import->row.threshold_ns;
    reply->expires_ns = plane->now.mono_ns + (threshold > 0 ? threshold : REPLY_THRESHOLD_NS);
}

void reply_touch(plane_t *plane, reply_t *reply) {
    expire_later(plane, reply);
    list_take(reply);
    list_put(reply->import, reply);
}

void reply_drop(plane_t *plane, reply_t *reply) {
    visits_add(1);
    replies_t *replies = plane->replies;
    map_take(replies->map, &reply->link);
    list_take(reply);
    if (LEAF_UNLIKELY(reply->measure != NULL)) {
        latency_forget(plane, reply);
    }
    if (reply->at_peer != NULL) {
        *reply->at_peer = reply->next_of_peer;
        if (reply->next_of_peer != NULL) {
            reply->next_of_peer->at_peer = reply->at_peer;
        }
    }
    holders_give(&plane->memory.replies, &reply->import->holder, row_size(reply->capacity));
    row_free(replies, reply);
}

void reply_drop_oldest(holder_t *holder, void *plane) {
    const import_t *import = (import_t *)((uint8_t *)holder - offsetof(import_t, holder));
    reply_drop(plane, import->oldest);
}

static void id_make(plane_t *plane, uint8_t id[REPLY_ID_SIZE]) {
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    for (uint32_t i = 0; i < REPLY_ID_SIZE; i++) {
        id[i] = (uint8_t)digits[random_below(&plane->random, 62)];
    }
}

/* The one interest that brings answers, there from an account's first request on. */
static bool listen_for_answers(plane_t *plane, account_t *account) {
    if (account->replies.in) {
        return true;
    }
    memcpy(account->reply_prefix, "_R_.", 4);
    id_make(plane, account->reply_prefix + 4);
    account->reply_prefix[REPLY_PREFIX_SIZE - 1] = '.';
    text_t subject = {0};
    text_add(&subject, bytes_of(account->reply_prefix, REPLY_PREFIX_SIZE));
    text_add_literal(&subject, ">");
    return sink_add(plane, account, &account->replies, TARGET_REPLY, text_bytes(&subject), 0, account) == STATUS_OK;
}

reply_t *reply_new(plane_t *plane, import_t *import, account_t *requester, account_t *responder, bytes_t to,
                   peer_t *peer) {
    if (!table_open(plane) || !listen_for_answers(plane, responder)) {
        return NULL;
    }
    replies_t *replies = plane->replies;
    if (import->reply_count >= REPLIES_PER_IMPORT_MAX) {
        reply_drop(plane, import->oldest);
    }
    uint64_t bytes = row_size(row_capacity(to.size));
    if (!holders_take(&plane->memory.replies, &import->holder, bytes)) {
        return NULL;
    }
    reply_t *reply = row_new(replies, to.size);
    if (reply == NULL) {
        holders_give(&plane->memory.replies, &import->holder, bytes);
        return NULL;
    }
    do {
        id_make(plane, reply->id);
    } while (reply_lookup(replies, responder, reply->id) != NULL);
    reply->import = import;
    reply->measure = NULL;
    reply->requester = requester;
    reply->responder = responder;
    reply->response = requester == import->importer ? import->row.response : RESPONSE_SINGLETON;
    reply->size = to.size;
    memcpy(reply->at, to.at, to.size);
    expire_later(plane, reply);
    list_put(import, reply);
    check(map_put(&replies->map, &reply->link, id_hash(responder, reply->id)) == STATUS_OK); /* it is open */
    reply->at_peer = NULL;
    reply->next_of_peer = NULL;
    reply->peer = peer;
    if (peer != NULL) {
        reply->at_peer = &peer->replies;
        reply->next_of_peer = peer->replies;
        if (peer->replies != NULL) {
            peer->replies->at_peer = &reply->next_of_peer;
        }
        peer->replies = reply;
    }
    return reply;
}

/* ---- the end of many replies ------------------------------------------------------------------------------------- */

bool replies_forget_some(plane_t *plane, peer_t *peer, uint32_t *budget) {
    reply_t *next;
    for (reply_t *reply = peer->replies; reply != NULL && leftover_pay(budget, SWEEP_REPLY); reply = next) {
        next = reply->next_of_peer;
        if (reply->measure != NULL) {
            latency_ended(plane, reply, peer, LATENCY_LEFT);
        }
        reply_drop(plane, reply);
    }
    return peer->replies == NULL;
}

bool replies_drop_some(plane_t *plane, const import_t *import, uint32_t *budget) {
    reply_t *next;
    for (reply_t *reply = import->oldest; reply != NULL && leftover_pay(budget, SWEEP_REPLY); reply = next) {
        next = reply->newer;
        reply_drop(plane, reply);
    }
    return import->oldest == NULL;
}

/* Drops the replies that are due, the oldest first. false: the budget did not suffice. */
static bool expire_some(plane_t *plane, const import_t *import, uint32_t *budget) {
    reply_t *next;
    for (reply_t *reply = import->oldest; reply != NULL && reply->expires_ns <= plane->now.mono_ns; reply = next) {
        if (!leftover_pay(budget, SWEEP_REPLY)) {
            return false;
        }
        next = reply->newer;
        if (reply->measure != NULL) {
            latency_expired(plane, reply);
        }
        reply_drop(plane, reply);
    }
    return true;
}

void replies_chores(plane_t *plane) {
    if (plane->replies != NULL) {
        plane->replies->expiring = map_count(plane->replies->map) != 0;
    }
}

void replies_expire_some(plane_t *plane, uint32_t *budget) {
    if (plane->replies == NULL || !plane->replies->expiring) {
        return;
    }
    map_walk_t walk = {0};
    bool all = true;
    for (account_t *account; all && (account = table_next(&plane->accounts, &walk)) != NULL;) {
        for (import_t *import = account->imports; all && import != NULL; import = import->next) {
            all = expire_some(plane, import, budget);
        }
    }
    plane->replies->expiring = !all;
    plane->more = plane->more || !all;
}
