/* mqtt_share.c: see mqtt_share.h. */
#include "verbs/mqtt_share.h"

#include <stdlib.h>

#include "base/hash.h"
#include "plane/account.h"
#include "plane/keeping.h"
#include "plane/output.h"
#include "route/permissions.h"
#include "verbs/mqtt_lasting.h"
#include "verbs/verbs.h"

#define NUMBER_MAX UINT32_C(0x7FFFFFFE)
#define UNDER_WAY_MAX UINT16_MAX /* messages of one share; its members take fewer at once */
#define RECORD_KEY_SIZE 6u       /* number of the session, packet identifier */
#define RECORD_SIZE 12u
#define PARENT_SUFFIX BYTES_LITERAL(" fwc")

typedef struct owned {
    map_link_t link; /* by sequence */
    uint64_t seq;
    const void *owner; /* owner_of */
    uint32_t session;  /* the number of the session that has a record of it; 0: none has */
    uint8_t qos;
    bool waits; /* until that is on disk */
    bool sent;
    struct owned *next_spare;
} owned_t;

typedef struct mqtt_share {
    kept_t as;      /* first: the consumer's receiver, without a client; its one filter is the share's */
    name_link_t id; /* the text of that filter, of the account with that number */
    bytes_t group;
    uint32_t members; /* sessions that outlive their connections */
    uint32_t turn;
    bool attended;
    map_t *owned;
    owned_t *spare; /* so that a message costs no allocation */
    uint64_t owned_cost;
} mqtt_share_t;

/* A session that outlives its connection owns what it was sent beyond that, any other one does not. */
static const void *owner_of(const session_t *session) {
    return session->kept != NULL ? (const void *)session->kept : (const void *)session;
}

bytes_t mqtt_share_group(const kept_t *share) {
    return ((const mqtt_share_t *)(const void *)share)->group;
}

/* ---- what is under way ------------------------------------------------------------------------------------------- */

static uint64_t owned_hash(uint64_t seq) {
    return hash_bytes(&seq, sizeof seq);
}

static owned_t *owned_find(const mqtt_share_t *share, uint64_t seq) {
    uint64_t hash = owned_hash(seq);
    for (map_link_t *link = map_first(share->owned, hash); link != NULL; link = link->next) {
        owned_t *one = MAP_ENTRY(link, owned_t, link);
        if (one->seq == seq) {
            return one;
        }
    }
    return NULL;
}

static void make_spare(mqtt_share_t *share, owned_t *one) {
    one->next_spare = share->spare;
    share->spare = one;
}

/* NULL: no memory. */
static owned_t *own(plane_t *plane, mqtt_share_t *share, uint64_t seq, const void *owner, uint8_t qos) {
    owned_t *one = share->spare;
    if (one == NULL) {
        one = calloc(1, sizeof(*one));
        if (one == NULL) {
            return NULL;
        }
        share->owned_cost += sizeof(*one);
        plane->memory.interest.used += sizeof(*one);
    } else {
        share->spare = one->next_spare;
    }
    *one = (owned_t){.seq = seq, .owner = owner, .qos = qos};
    if (map_put(&share->owned, &one->link, owned_hash(seq)) != STATUS_OK) {
        make_spare(share, one);
        return NULL;
    }
    return one;
}

static const stream_t *share_stream(const mqtt_share_t *share) {
    return ((const mqtt_account_t *)share->as.keeper)->messages;
}

static bytes_t share_note_key(const owned_t *one, uint8_t key[RECORD_KEY_SIZE]) {
    store_be32(key, one->session);
    store_be16(key + 4, flight_id(one->seq));
    return bytes_of(key, RECORD_KEY_SIZE);
}

/* Where the batch has no room for that, a start finds a record of what has been acknowledged, which goes with its
 * session. */
static void disown(plane_t *plane, mqtt_share_t *share, owned_t *one) {
    uint8_t key[RECORD_KEY_SIZE];
    if (one->session != 0) {
        status_t status =
            keeping_drop(plane, share_stream(share), RECORD_SESSION_SHARED, share_note_key(one, key), false);
        (void)status;
    }
    map_take(share->owned, &one->link);
    make_spare(share, one);
}

/* false: no room. */
static bool note_owned(plane_t *plane, const mqtt_share_t *share, owned_t *one, uint32_t session) {
    uint8_t key[RECORD_KEY_SIZE], record[RECORD_SIZE];
    text_t at;
    one->session = session;
    store_be32(record, share->as.number);
    store_be64(record + 4, one->seq);
    if (keeping_put(plane, share_stream(share), RECORD_SESSION_SHARED, share_note_key(one, key),
                    bytes_of(record, RECORD_SIZE))
        != STATUS_OK) {
        one->session = 0;
        return false;
    }
    mqtt_share_subject(share->as.shared, share->as.number, "g", one->seq, &at);
    one->waits = keeping_hold(plane, share_stream(share), text_bytes(&at), BYTES_NONE) == STATUS_OK;
    return one->waits;
}

void mqtt_share_noted(plane_t *plane, const mqtt_account_t *keeper, uint32_t number, uint64_t seq) {
    const mqtt_share_t *share = table_find(&keeper->shares, number);
    owned_t *one = share == NULL ? NULL : owned_find(share, seq);
    if (one != NULL && one->waits) {
        one->waits = false;
        keeping_again(plane, share->as.binding, seq);
    }
}

status_t mqtt_share_found(plane_t *plane, mqtt_account_t *keeper, uint32_t number, bytes_t record) {
    if (record.size != RECORD_SIZE) {
        return STATUS_CORRUPT;
    }
    const kept_t *kept = table_find(&keeper->numbers, number);
    mqtt_share_t *share = table_find(&keeper->shares, load_be32(record.at));
    uint64_t seq = load_be64(record.at + 4);
    if (kept == NULL || share == NULL || owned_find(share, seq) != NULL) {
        return STATUS_OK; /* of shares that have ended but for their last record, or were read again */
    }
    owned_t *one = own(plane, share, seq, kept, 2);
    if (one == NULL) {
        return STATUS_NO_MEMORY;
    }
    one->session = number;
    one->sent = true; /* it may have been */
    return STATUS_OK;
}

/* ---- making and loading a shared subscription -------------------------------------------------------------------- */

static mqtt_share_t *share_find(const mqtt_desk_t *desk, uint32_t account, bytes_t text) {
    name_link_t *found = names_find(desk->shares, account, text);
    return found == NULL ? NULL : MAP_ENTRY(found, mqtt_share_t, id);
}

static void share_free(plane_t *plane, mqtt_share_t *share) {
    mqtt_desk_t *desk = share->as.shared;
    mqtt_account_t *keeper = share->as.keeper;
    map_walk_t walk = {0};
    for (map_link_t *link; (link = map_next(share->owned, &walk)) != NULL;) {
        free(MAP_ENTRY(link, owned_t, link));
    }
    map_free(&share->owned);
    for (owned_t *one = share->spare, *next; one != NULL; one = next) {
        next = one->next_spare;
        free(one);
    }
    map_take(desk->shares, &share->id.link);
    table_drop(&keeper->shares, share->as.number);
    plane->memory.interest.used -= share->as.cost + share->owned_cost;
    kept_free(&share->as); /* it is first in what was allocated */
}

/* With its place in the tables; without a consumer. */
static status_t share_new(plane_t *plane, mqtt_account_t *keeper, bytes_t text, uint32_t number, mqtt_share_t **out) {
    mqtt_desk_t *desk = plane->mqtt_desk;
    mqtt_share_t *share = calloc(1, sizeof(*share));
    kept_filter_t *filter;
    if (share == NULL) {
        return STATUS_NO_MEMORY;
    }
    share->as.shared = desk;
    share->as.keeper = keeper;
    share->id.owner = keeper->messages->account->id;
    share->as.number = number;
    status_t status = kept_put(&share->as, text, &filter);
    if (status != STATUS_OK) {
        kept_free(&share->as);
        return status;
    }
    filter->flags = 1u << MQTT_SUB_QOS_SHIFT;
    share->id.name = filter->text;
    bool valid;
    bytes_t rest;
    (void)topic_shared(filter->text, &share->group, &rest, &valid);
    status = table_put(&keeper->shares, number, share);
    if (status == STATUS_OK) {
        status = names_put(&desk->shares, &share->id);
    }
    if (status != STATUS_OK) {
        table_drop(&keeper->shares, number);
        kept_free(&share->as);
        return status;
    }
    share->as.cost = kept_size(&share->as) + sizeof(*share) - sizeof(share->as);
    plane->memory.interest.used += share->as.cost;
    keeper->last_number = number > keeper->last_number ? number : keeper->last_number;
    *out = share;
    return STATUS_OK;
}

/* number: 0 = the next one. */
static status_t share_put(plane_t *plane, mqtt_account_t *keeper, bytes_t text, uint32_t number, mqtt_share_t **out) {
    bool loading = number != 0;
    *out = share_find(plane->mqtt_desk, keeper->messages->account->id, text);
    if (*out == NULL) {
        if (!loading && keeper->last_number == NUMBER_MAX) {
            return STATUS_FULL;
        }
        status_t status = share_new(plane, keeper, text, loading ? number : keeper->last_number + 1, out);
        if (status != STATUS_OK) {
            return status;
        }
    }
    mqtt_share_t *share = *out;
    share->as.doubtful = loading ? keeping_doubtful(plane, keeper->messages) : share->as.doubtful;
    status_t status = share->as.binding != NULL ? STATUS_OK : mqtt_kept_filters(plane, &share->as, loading);
    if (status != STATUS_OK && share->members == 0) {
        share_free(plane, share);
    }
    return status;
}

static void joined(mqtt_share_t *share, kept_filter_t *filter) {
    share->members += !filter->joined;
    filter->joined = true;
    filter->flags |= MQTT_SUB_GROUPED;
    filter->first = share->as.number;
}

status_t mqtt_share_join(plane_t *plane, kept_t *kept, kept_filter_t *filter) {
    mqtt_share_t *share;
    status_t status = share_put(plane, kept->keeper, filter->text, 0, &share);
    if (status == STATUS_OK) {
        joined(share, filter);
        if (kept->session != NULL) {
            mqtt_share_woken(plane, kept->session, kept->keeper, filter->text);
        }
    }
    return status;
}

status_t mqtt_share_load(plane_t *plane, kept_t *kept, kept_filter_t *filter) {
    mqtt_share_t *share;
    if (filter->first == 0 || filter->first > NUMBER_MAX) {
        return STATUS_CORRUPT;
    }
    status_t status = share_put(plane, kept->keeper, filter->text, (uint32_t)filter->first, &share);
    if (status == STATUS_OK) {
        joined(share, filter);
    }
    return status;
}

/* A message that its owner will not get: another one may have it unless this one has had it with QoS 2
 * (5: 4.8.2-5). */
static void share_pass_on(plane_t *plane, mqtt_share_t *share, owned_t *one) {
    uint64_t seq = one->seq;
    bool gone = one->qos == 2 && one->sent;
    disown(plane, share, one);
    if (gone) {
        keeping_acknowledge(plane, share->as.binding, seq);
    } else {
        keeping_again(plane, share->as.binding, seq);
    }
}

/* What the session owns and may not get any more. What a client that is here has been sent it still answers, which the
 * server has to wait for (5: 3.10.4-3). */
static void give_up(plane_t *plane, mqtt_share_t *share, kept_t *kept) {
    session_t *session = kept->session;
    map_walk_t walk = {0};
    for (map_link_t *link; (link = map_next(share->owned, &walk)) != NULL;) {
        owned_t *one = MAP_ENTRY(link, owned_t, link);
        if (one->owner != kept || (session != NULL && one->sent)) {
            continue;
        }
        if (session != NULL) {
            flight_undo(&session->flight, flight_id(one->seq));
        }
        share_pass_on(plane, share, one);
    }
}

void mqtt_share_part(plane_t *plane, kept_t *kept, kept_filter_t *filter) {
    const mqtt_account_t *keeper = kept->keeper;
    mqtt_share_t *share = !filter->joined ? NULL : table_find(&keeper->shares, filter->first);
    if (share == NULL) {
        return;
    }
    filter->joined = false;
    filter->flags &= ~MQTT_SUB_GROUPED;
    if (--share->members != 0) {
        give_up(plane, share, kept);
        return;
    }
    consumer_binding_t *binding = share->as.binding;
    keeping_end(plane, &binding);
    share_free(plane, share);
}

void mqtt_share_end_all(plane_t *plane, kept_t *kept) {
    for (uint32_t i = 0; i < kept->filter_count; i++) {
        mqtt_share_part(plane, kept, &kept->filters[i]);
    }
}

void mqtt_share_forget(const kept_t *kept) {
    const mqtt_account_t *keeper = kept->keeper;
    for (uint32_t i = 0; i < kept->filter_count; i++) {
        mqtt_share_t *share = kept->filters[i].joined ? table_find(&keeper->shares, kept->filters[i].first) : NULL;
        if (share != NULL) {
            share->members--;
        }
    }
}

void mqtt_share_forget_all(plane_t *plane, mqtt_account_t *keeper) {
    map_walk_t walk = {0};
    for (mqtt_share_t *share; (share = table_next(&keeper->shares, &walk)) != NULL;) {
        share_free(plane, share);
    }
}

/* ---- its members come and go ------------------------------------------------------------------------------------- */

void mqtt_share_woken(plane_t *plane, const session_t *session, const mqtt_account_t *keeper, bytes_t text) {
    mqtt_share_t *share = keeper->messages == NULL || table_count(&keeper->shares) == 0
                              ? NULL
                              : share_find(session->shared, session->client.owner, text);
    if (share == NULL || share->as.binding == NULL) {
        return;
    }
    if (!share->attended) {
        share->attended = true;
        keeping_attend(plane, share->as.binding, UNDER_WAY_MAX, 0);
        return;
    }
    map_walk_t walk = {0};
    for (map_link_t *link; (link = map_next(share->owned, &walk)) != NULL;) {
        const owned_t *one = MAP_ENTRY(link, owned_t, link);
        if (one->owner == owner_of(session)) {
            keeping_again(plane, share->as.binding, one->seq);
        }
    }
    keeping_go_on(plane, share->as.binding); /* it may have waited because all others were full */
}

/* One of its messages that the session has not acknowledged. */
static void share_left_behind(plane_t *plane, const session_t *session, mqtt_share_t *share, uint64_t seq) {
    owned_t *one = owned_find(share, seq);
    if (one == NULL || one->owner != owner_of(session)) {
        return;
    }
    const kept_filter_t *filter = session->kept == NULL ? NULL : kept_find(session->kept, share->id.name);
    if (one->qos == 2 && filter != NULL && filter->joined) {
        return; /* it is for this session alone */
    }
    share_pass_on(plane, share, one);
}

void mqtt_share_left(plane_t *plane, session_t *session) {
    const mqtt_desk_t *desk = session->shared;
    const mqtt_account_t *keeper = table_find(&desk->accounts, session->client.owner);
    sequences_t *under_way = &session->flight.part->sequences;
    for (uint32_t i = 0; keeper != NULL && i < under_way->room; i++) {
        sequence_slot_t *slot = &under_way->slots[i];
        mqtt_share_t *share = slot->seq == 0 || slot->share == 0 ? NULL : table_find(&keeper->shares, slot->share);
        if (share != NULL) {
            share_left_behind(plane, session, share, slot->seq);
        }
        slot->share = 0;
    }
}

void mqtt_share_acknowledge(plane_t *plane, const mqtt_account_t *keeper, uint32_t number, uint64_t seq) {
    mqtt_share_t *share = table_find(&keeper->shares, number);
    if (share == NULL) {
        return; /* nobody has it any more */
    }
    owned_t *one = owned_find(share, seq);
    if (one != NULL) {
        disown(plane, share, one);
    }
    keeping_acknowledge(plane, share->as.binding, seq);
    keeping_go_on(plane, share->as.binding);
}

/* ---- what comes out of the stream -------------------------------------------------------------------------------- */

typedef struct candidate {
    peer_t *peer; /* NULL: none */
    const subscription_t *one;
    bool full;   /* there is one, and it takes no more now */
    bool denied; /* there is one that may not have it */
} candidate_t;

static bool is_member(const mqtt_share_t *share, const subscription_t *one) {
    bytes_t sid = bytes_of(one->sid, one->sid_size), text = share->id.name;
    return bytes_starts(sid, text)
           && (sid.size == text.size || bytes_equal(bytes_after(sid, text.size), PARENT_SUFFIX));
}

static const route_group_t *members_of(const account_t *account, const mqtt_share_t *share, bytes_t subject) {
    const route_match_t *match = route_match(account->route, subject);
    for (uint32_t i = 0; i < match->group_count; i++) {
        if (bytes_equal(match->groups[i].queue, share->group)) {
            return &match->groups[i];
        }
    }
    return NULL;
}

/* owned: its owner alone may have it; NULL: any member that has not had it from the stream already. */
static void share_consider(plane_t *plane, const subscription_t *one, const mqtt_stored_t *stored, const owned_t *owned,
                           candidate_t *out) {
    peer_t *peer = one->peer;
    const session_t *session = peer->session;
    uint64_t seq = stored->place.stream_seq;
    bool has = flight_has(&session->flight, seq); /* its identifier, at least */
    if (owned != NULL && (owner_of(session) != owned->owner || owned->waits || (has && owned->sent))) {
        return;
    }
    bool fits = flight_fits(&session->flight, seq) || (owned != NULL && has);
    if ((one->flags & SUBSCRIPTION_FILTERED) != 0
        && !permissions_deliver(peer->permissions, stored->message.subject, one->target.queue)) {
        out->denied = true;
    } else if (peer_is_full(plane, peer) || !fits) {
        out->full = true;
    } else {
        out->peer = peer;
        out->one = one;
    }
}

/* Beginning with another one each time. */
static candidate_t find_member(plane_t *plane, mqtt_share_t *share, const mqtt_stored_t *stored, const owned_t *owned) {
    candidate_t found = {.peer = NULL};
    const account_t *account = account_find(plane, share->id.owner);
    const route_group_t *group = account == NULL ? NULL : members_of(account, share, stored->message.subject);
    uint32_t count = group == NULL ? 0 : group->count;
    uint32_t start = share->turn++;
    for (uint32_t i = 0; i < count && found.peer == NULL; i++) {
        const route_target_t *target = group->members[(start + i) % count];
        const subscription_t *one = target->owner;
        if (target->kind != TARGET_CLIENT || (one->flags & SUBSCRIPTION_DEAD) != 0 || one->peer->session == NULL
            || one->peer->state != PEER_ADMITTED || one->peer->session->enters || !is_member(share, one)) {
            continue;
        }
        share_consider(plane, one, stored, owned, &found);
    }
    return found;
}

/* At the next tick, not from inside a delivery. */
static void done_later(plane_t *plane, const mqtt_share_t *share, uint64_t seq) {
    text_t at;
    mqtt_share_subject(share->as.shared, share->as.number, "h", seq, &at);
    publish_later(plane, &(publication_t){.account = account_find(plane, share->id.owner),
                                          .message = {.subject = text_bytes(&at)},
                                          .flags = PUBLICATION_OWN});
}

static void send_to(plane_t *plane, const mqtt_share_t *share, const candidate_t *to, const mqtt_stored_t *stored,
                    uint8_t qos, bool again) {
    session_t *session = to->peer->session;
    uint32_t identifier = (uint32_t)to->one->id;
    const mqtt_terms_t terms = {.qos = qos,
                                .as_published = (to->one->flags & MQTT_SUB_AS_PUBLISHED) != 0,
                                .again = again,
                                .identifiers = &identifier,
                                .count = identifier != 0};
    if (!mqtt_send_stored(plane, to->peer, stored, &terms) || qos == 0) {
        done_later(plane, share, stored->place.stream_seq); /* it takes none of that size, or does not answer */
    } else {
        flight_mark(&session->flight, stored->place.stream_seq, share->as.number);
    }
}

/* The owner has to be on disk before it has a message of QoS 2. false: no room. */
static bool share_reserve(plane_t *plane, mqtt_share_t *share, session_t *session, owned_t *one) {
    uint16_t id = flight_begin(&session->flight, one->seq);
    if (id == 0) {
        return false;
    }
    flight_mark(&session->flight, one->seq, share->as.number);
    if (!note_owned(plane, share, one, session->kept->number)) {
        flight_undo(&session->flight, id);
        return false;
    }
    return true;
}

/* A message that nobody has yet. */
static delivered_t give(plane_t *plane, mqtt_share_t *share, const candidate_t *to, const mqtt_stored_t *stored) {
    session_t *session = to->peer->session;
    const mqtt_desk_t *desk = session->shared;
    uint8_t most = (uint8_t)((to->one->flags & MQTT_SUB_QOS) >> MQTT_SUB_QOS_SHIFT);
    uint8_t qos = desk->made.carried.qos < most ? desk->made.carried.qos : most;
    if (qos != 0) {
        owned_t *one = own(plane, share, stored->place.stream_seq, owner_of(session), qos);
        bool noted = qos == 2 && session->kept != NULL;
        if (one == NULL) {
            return DELIVERED_FULL;
        }
        if (noted && !share_reserve(plane, share, session, one)) {
            disown(plane, share, one);
            return DELIVERED_FULL;
        }
        if (noted) {
            return DELIVERED; /* it comes again when that is on disk */
        }
        one->sent = true;
    }
    send_to(plane, share, to, stored, qos, stored->place.stream_seq <= share->as.doubtful);
    return DELIVERED;
}

delivered_t mqtt_share_receive(plane_t *plane, kept_t *as, const delivery_t *delivery) {
    mqtt_share_t *share = (mqtt_share_t *)(void *)as;
    mqtt_stored_t stored;
    if (!mqtt_read_stored(plane, delivery, &stored)) {
        return DELIVERED_NO_INTEREST;
    }
    owned_t *owned = owned_find(share, stored.place.stream_seq);
    candidate_t to = find_member(plane, share, &stored, owned);
    if (to.peer != NULL && owned == NULL) {
        return give(plane, share, &to, &stored);
    }
    if (to.peer != NULL) {
        bool again = owned->sent;
        owned->sent = true;
        send_to(plane, share, &to, &stored, owned->qos, again);
        return DELIVERED;
    }
    if (to.full) {
        return DELIVERED_FULL;
    }
    if (owned != NULL && !to.denied) {
        return DELIVERED; /* it has it, or gets it when it comes again */
    }
    if (to.denied) {
        done_later(plane, share, stored.place.stream_seq);
        return DELIVERED;
    }
    share->attended = false; /* until one comes */
    keeping_leave(plane, share->as.binding);
    return DELIVERED_NO_INTEREST;
}
