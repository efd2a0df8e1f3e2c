/* interest.c: what leaf links are told about who wants what, and when.
 *
 *   entry (subject, queue):  local   weight of targets here      spokes  weight from links whose hub we are
 *                            hubs    weight from our own hubs, and from routes and gateways (routed.h, gateway.h)
 *                            leafs   weight from routes on behalf of leafs of other servers
 *
 *   what link L sees:        L is our hub:  local + spokes
 *                            L is isolated: local, in a cluster + hubs
 *                            else:          local + spokes + hubs + leafs - its own - that of links of its cluster,
 *                                           here or behind routes
 *
 * A plain subject is told when the sum L sees leaves or reaches zero, a queue group whenever it changes (LS+ carries
 * the absolute weight). No state is kept for a link: before and after of a change say what to send. Permissions of a
 * link never change in its life, so they filter both sides alike. The table exists from an account's beginning where
 * links may come (ACCOUNT_LINKED), else from its first leaf link on.
 * A target that names one link, by which alone its messages can come, is told to that link and is in no entry. One that
 * names a domain (text/aim.h) is told to links to it, and to those that ask for APIs of others.
 *
 * A new link is told in slices, in the order of the entries' places in the map (base/map.h), which they keep however
 * much it grows meanwhile. Of changes it hears when they are behind the place that it has got to; what is before it
 * will be told as it is then. An isolated link goes through the entries that have something of here, which are in a map
 * of their own. Reference: tests/wire/leaf.md.
 */
#include <stdlib.h>

#include "plane/interest.h"

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/status.h"
#include "base/visits.h"
#include "plane/account.h"
#include "plane/import.h"
#include "plane/link_part.h"
#include "plane/mapping.h"
#include "plane/peer.h"
#include "route/permissions.h"
#include "plane/plane.h"
#include "plane/publication.h"
#include "plane/routed.h"
#include "plane/subscription.h"
#include "plane/target.h"
#include "route/route.h"
#include "text/text.h"
#include "wire/emit.h"
#include "wire/op.h"

typedef struct interest_entry {
    map_link_t link;
    map_link_t here; /* while is_here */
    uint64_t local;
    uint64_t spokes;
    uint64_t hubs;
    uint64_t leafs;
    uint32_t subject_size;
    uint32_t queue_size;
    aim_t aim;
    uint8_t bytes[];
} interest_entry_t;

struct interest {
    map_t *all;
    map_t *here; /* those that have something of here, in a cluster also of its other servers */
    const plane_t *plane;
    uint64_t aimed; /* of all */
    bool clustered;
    bool failed; /* while it is made: no memory for all of it */
};

static bytes_t entry_subject(const interest_entry_t *entry) {
    return bytes_of(entry->bytes, entry->subject_size);
}

static bytes_t entry_queue(const interest_entry_t *entry) {
    return bytes_of(entry->bytes + entry->subject_size, entry->queue_size);
}

static uint64_t target_link(const route_target_t *target) {
    return traits_of(target)->subscription ? ((const subscription_t *)target->owner)->only
                                           : ((const sink_t *)target->owner)->link;
}

bool interest_is_announced(const route_target_t *target) {
    bool announced;
    peer_t *origin;
    switch ((target_told_t)traits_of(target)->told) {
    case TOLD_ALWAYS: return true;
    case TOLD_AS_ITS_ORIGIN: shadow_interest(target, &announced, &origin); return announced;
    case TOLD_TO_ITS_LINK: return target_link(target) == 0;
    case TOLD_TO_SERVERS:
    case TOLD_NEVER:
    default: return false;
    }
}

/* What other servers ask for is so, too, where this one serves streams with them: leafs reach them all by its API. */
bool interest_is_for_servers(const plane_t *plane, const route_target_t *target) {
    bool server = target->kind == TARGET_ROUTE || target->kind == TARGET_GATEWAY;
    return traits_of(target)->told == TOLD_TO_SERVERS
           || (server && (plane->limits.clustered & CLUSTERED_META) != 0 && interest_asks_stream(target->subject));
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static interest_entry_t *interest_entry(map_link_t *link) {
    return MAP_ENTRY(link, interest_entry_t, link);
}

static interest_entry_t *entry_find(const interest_t *interest, uint64_t hash, bytes_t subject, bytes_t queue) {
    for (map_link_t *link = map_first(interest->all, hash); link != NULL; link = link->next) {
        interest_entry_t *entry = interest_entry(link);
        if (link->hash == hash && bytes_equal(entry_subject(entry), subject)
            && bytes_equal(entry_queue(entry), queue)) {
            return entry;
        }
    }
    return NULL;
}

static interest_entry_t *entry_make(interest_t *interest, uint64_t hash, bytes_t subject, bytes_t queue) {
    interest_entry_t *entry = calloc(1, sizeof(*entry) + subject.size + queue.size);
    if (entry == NULL || map_put(&interest->all, &entry->link, hash) != STATUS_OK) {
        free(entry);
        return NULL;
    }
    entry->subject_size = subject.size;
    entry->queue_size = queue.size;
    entry->aim = aim_of_subject(subject);
    interest->aimed += entry->aim != 0;
    memcpy(entry->bytes, subject.at, subject.size);
    if (queue.size != 0) {
        memcpy(entry->bytes + subject.size, queue.at, queue.size);
    }
    return entry;
}

/* Does it come from where our own hubs, and other servers, do not hear of it? */
static bool is_beyond(const peer_t *origin) {
    return peer_is_hub(origin) || origin->server;
}

/* Does a route speak for leafs of other servers? */
static bool is_for_leafs(const peer_t *origin) {
    return origin->server && origin->link->hearing.cluster != 0;
}

/* The part of an entry in which a target of that origin counts. */
static uint64_t *entry_part(interest_entry_t *entry, const peer_t *origin) {
    if (origin == NULL) {
        return &entry->local;
    }
    return is_for_leafs(origin) ? &entry->leafs : is_beyond(origin) ? &entry->hubs : &entry->spokes;
}

/* May an isolated link have to be told of it? */
static bool is_here(const interest_t *interest, const interest_entry_t *entry) {
    return entry->local != 0 || (interest->clustered && entry->hubs != 0);
}

static void part_set(interest_t *interest, interest_entry_t *entry, uint64_t *part, uint64_t weight) {
    bool was = is_here(interest, entry);
    *part = weight;
    bool is = is_here(interest, entry);
    if (was && !is) {
        map_take(interest->here, &entry->here);
    } else if (!was && is) {
        check(map_put(&interest->here, &entry->here, entry->link.hash) == STATUS_OK); /* interest_start opened it */
    }
}

static interest_entry_t *entry_for(interest_t *interest, bytes_t subject, bytes_t queue) {
    uint64_t hash = subscription_hash(subject, queue);
    interest_entry_t *entry = entry_find(interest, hash, subject, queue);
    return entry != NULL ? entry : entry_make(interest, hash, subject, queue);
}

status_t interest_reserve(account_t *account, bytes_t subject, bytes_t queue) {
    return account->interest == NULL || entry_for(account->interest, subject, queue) != NULL ? STATUS_OK
                                                                                             : STATUS_NO_MEMORY;
}

static void entry_drop(interest_t *interest, interest_entry_t *entry) {
    map_take(interest->all, &entry->link);
    interest->aimed -= entry->aim != 0;
    free(entry);
}

void interest_free(interest_t *interest) {
    if (interest == NULL) {
        return;
    }
    map_walk_t walk = {0};
    for (map_link_t *link; (link = map_next(interest->all, &walk)) != NULL;) {
        free(interest_entry(link));
    }
    map_free(&interest->all);
    map_free(&interest->here);
    free(interest);
}

/* ---- what a link sees -------------------------------------------------------------------------------------------- */

static bool same_cluster(const peer_t *a, const peer_t *b) {
    return a->link != NULL && b->link != NULL && a->link->hearing.cluster != 0
           && a->link->hearing.cluster == b->link->hearing.cluster && bytes_equal(a->link->cluster, b->link->cluster);
}

static uint64_t cluster_hash(bytes_t cluster) {
    return cluster.size == 0 ? 0 : hash_bytes(cluster.at, cluster.size) | 1u;
}

void interest_speaks(peer_t *route, bytes_t cluster) {
    routed_speaks(route, cluster);
    route->link->hearing.cluster = cluster_hash(cluster);
}

static uint64_t weight_of(const peer_t *peer, bytes_t subject, bytes_t queue) {
    const subscription_t *one = subscription_find(peer->table, peer->account, BYTES_NONE, subject, queue);
    return one == NULL ? 0 : one->target.weight;
}

/* How much others want of one entry, asked of many links in turn. What is counted for a whole cluster is kept with the
 * question's number in each of its links. */
typedef struct question {
    const interest_entry_t *entry;
    const peer_t *changing; /* its table may not tell the truth at this moment: it counts for nothing; NULL: none is */
    uint64_t number;
} question_t;

static question_t question_of(plane_t *plane, const interest_entry_t *entry, const peer_t *changing) {
    return (question_t){.entry = entry, .changing = changing, .number = ++plane->interest_looks};
}

/* The weight that the links of a cluster have asked for together. Counted once for all of them: a thousand boxes may
 * call their clusters alike. */
static uint64_t own_weight(peer_t *peer, bytes_t subject, bytes_t queue, const question_t *question) {
    if (peer->link->hearing.next_mate == NULL) {
        return peer == question->changing ? 0 : weight_of(peer, subject, queue);
    }
    if (peer->link->hearing.mates_look == question->number) {
        return peer->link->hearing.mates_weight;
    }
    uint64_t own = 0;
    peer_t *mate = peer;
    do {
        own += mate == question->changing ? 0 : weight_of(mate, subject, queue);
        mate = mate->link->hearing.next_mate;
    } while (mate != peer);
    do {
        mate->link->hearing.mates_look = question->number;
        mate->link->hearing.mates_weight = own;
        mate = mate->link->hearing.next_mate;
    } while (mate != peer);
    return own;
}

static uint64_t seen_by(plane_t *plane, peer_t *peer, const question_t *question) {
    const interest_entry_t *entry = question->entry;
    bool clustered = plane->routed != NULL;
    if (peer_is_isolated(peer)) {
        return entry->local + (peer_is_hub(peer) || !clustered ? 0 : entry->hubs);
    }
    uint64_t sum = entry->local + entry->spokes;
    if (peer_is_hub(peer)) {
        return sum;
    }
    sum += entry->hubs + entry->leafs;
    bytes_t subject = entry_subject(entry), queue = entry_queue(entry);
    uint64_t own = own_weight(peer, subject, queue, question);
    if (LEAF_UNLIKELY(clustered)) {
        own += routed_weight(plane, peer->account, link_cluster(peer), subject, queue);
    }
    return sum > own ? sum - own : 0;
}

/* Answers to another cluster, which come up from leafs under their whole names (gateway_reply.h). */
static const bytes_t whole_names = {(const uint8_t *)"_GR_.>", 6};

/* Loops are found by our own $LDS, which each leaf hears. That of another leaf is a subject like others: a leaf that is
 * told of it could say it in turn, and that leaf would take our link for a loop and stay away. */
static bool may_ask(const peer_t *peer, bytes_t subject) {
    return peer->permissions == NULL || bytes_equal(subject, peer->link->lds) || bytes_equal(subject, whole_names)
           || bytes_starts(subject, BYTES_LITERAL("_R_.")) || permissions_leaf_ask(peer->permissions, subject);
}

static void interest_line(plane_t *plane, peer_t *peer, bytes_t subject, bytes_t queue, uint64_t weight) {
    if (peer->state == PEER_DOOMED || !may_ask(peer, subject)) {
        return;
    }
    buffer_t *out = &peer->conn.out.data;
    status_t status = weight != 0
                          ? emit_leaf_sub(out, subject, queue, weight > WEIGHT_MAX ? WEIGHT_MAX : (uint32_t)weight)
                          : emit_leaf_unsub(out, subject, queue);
    if (status != STATUS_OK) {
        peer_emit_failed(plane, peer, status);
        return;
    }
    plane->told++;
    peer_emitted(plane, peer);
}

void interest_tell_link(plane_t *plane, uint64_t link, bytes_t subject, bytes_t queue, uint32_t weight) {
    peer_t *peer = peer_find(plane, link);
    if (peer != NULL && peer->at_leaf != NULL) {
        interest_line(plane, peer, subject, queue, weight);
    }
}

/* Is it for links to other domains? Each of a thousand boxes would hear of the copies of all others. */
static bool is_for_others(const hearing_t *hearing, const interest_entry_t *entry) {
    return entry->aim != 0 && hearing->aim != 0 && entry->aim != hearing->aim && !hearing->leads_on;
}

/* The entry is as it stands without the weight that changes. The link that changes it is told nothing. */
static void tell_change(plane_t *plane, peer_t *peer, const question_t *question, uint32_t before, uint32_t after) {
    const interest_entry_t *entry = question->entry;
    const peer_t *origin = question->changing;
    bool sees =
        origin == NULL || (peer != origin && !same_cluster(peer, origin) && !(peer_is_hub(peer) && is_beyond(origin)));
    if (!sees || is_for_others(&peer->link->hearing, entry)
        || (!peer->link->hearing.told_all && map_place(entry->link.hash) >= peer->link->hearing.told_below)) {
        return;
    }
    uint64_t others = seen_by(plane, peer, question);
    uint64_t was = others + before, is = others + after;
    if (entry->queue_size != 0 ? was != is : (was == 0) != (is == 0)) {
        interest_line(plane, peer, entry_subject(entry), entry_queue(entry), is);
    }
}

void interest_change(plane_t *plane, account_t *account, bytes_t subject, bytes_t queue, peer_t *origin,
                     uint32_t before, uint32_t after) {
    interest_t *interest = account->interest;
    if (interest == NULL || before == after) {
        return;
    }
    interest_entry_t *entry = entry_find(interest, subscription_hash(subject, queue), subject, queue);
    check(entry != NULL);
    uint64_t *part = entry_part(entry, origin), others = *part - before;
    bool isolated_see = origin == NULL || (origin->server && !is_for_leafs(origin));
    check(*part >= before);
    part_set(interest, entry, part, others);
    question_t question = question_of(plane, entry, origin);
    for (peer_t *peer = account->leafs; peer != NULL; peer = peer->next_leaf) {
        tell_change(plane, peer, &question, before, after);
    }
    for (peer_t *peer = isolated_see ? account->isolated : NULL; peer != NULL; peer = peer->next_leaf) {
        tell_change(plane, peer, &question, before, after);
    }
    part_set(interest, entry, part, others + after);
    if (entry->local + entry->spokes + entry->hubs + entry->leafs == 0) {
        entry_drop(interest, entry);
    }
}

/* ---- links that come and go -------------------------------------------------------------------------------------- */

static bool count_local(void *context, route_target_t *target) {
    interest_t *interest = context;
    bool server = target->kind == TARGET_ROUTE || target->kind == TARGET_GATEWAY;
    visits_add(1);
    if ((traits_of(target)->order == ORDER_LINK && !server) || !interest_is_announced(target)
        || interest_is_for_servers(interest->plane, target)) {
        return true;
    }
    /* Dead ones, too: the sweep will take them off again. */
    interest_entry_t *entry = entry_for(interest, target->subject, target->queue);
    if (entry == NULL) {
        interest->failed = true;
        return false;
    }
    peer_t *origin = server ? ((const subscription_t *)target->owner)->peer : NULL;
    if (traits_of(target)->told == TOLD_AS_ITS_ORIGIN) {
        bool announced;
        shadow_interest(target, &announced, &origin);
    }
    bool leafs = target->kind == TARGET_ROUTE && ((const subscription_t *)target->owner)->sid_size != 0;
    uint64_t *part = leafs ? &entry->leafs : entry_part(entry, origin);
    part_set(interest, entry, part, *part + target->weight);
    return true;
}

/* There is no link yet that could be told. */
static status_t interest_start(plane_t *plane, account_t *account) {
    interest_t *interest = calloc(1, sizeof(*interest));
    if (interest == NULL) {
        return STATUS_NO_MEMORY;
    }
    interest->plane = plane;
    interest->clustered = plane->routed != NULL;
    if (map_open(&interest->here) != STATUS_OK) {
        interest_free(interest);
        return STATUS_NO_MEMORY;
    }
    account->interest = interest;
    route_each(account->route, count_local, interest);
    status_t status = interest->failed ? STATUS_NO_MEMORY : mappings_announce(plane, account);
    if (status == STATUS_OK) {
        status = interest_announce_domain(plane, account);
    }
    if (status != STATUS_OK) {
        interest_free(interest);
        account->interest = NULL;
    }
    return status;
}

status_t interest_expect_links(plane_t *plane, account_t *account) {
    return account->interest != NULL ? STATUS_OK : interest_start(plane, account);
}

static void leafs_put(peer_t **list, peer_t *peer) {
    peer->at_leaf = list;
    peer->next_leaf = *list;
    if (*list != NULL) {
        (*list)->at_leaf = &peer->next_leaf;
    }
    *list = peer;
}

static void leafs_take(peer_t *peer) {
    *peer->at_leaf = peer->next_leaf;
    if (peer->next_leaf != NULL) {
        peer->next_leaf->at_leaf = peer->at_leaf;
    }
    peer->at_leaf = NULL;
}

/* The links of one cluster that hear of others are a ring; one that is alone is in none. */
static void join_mates(const account_t *account, peer_t *peer) {
    for (peer_t *other = account->leafs; other != NULL; other = other->next_leaf) {
        if (other != peer && same_cluster(other, peer)) {
            peer->link->hearing.next_mate =
                other->link->hearing.next_mate == NULL ? other : other->link->hearing.next_mate;
            other->link->hearing.next_mate = peer;
            return;
        }
    }
}

static void leave_mates(peer_t *peer) {
    peer_t *before = peer->link->hearing.next_mate;
    if (before == NULL) {
        return;
    }
    while (before->link->hearing.next_mate != peer) {
        before = before->link->hearing.next_mate;
    }
    before->link->hearing.next_mate = peer->link->hearing.next_mate == before ? NULL : peer->link->hearing.next_mate;
    peer->link->hearing.next_mate = NULL;
}

static void tell_entry(plane_t *plane, peer_t *peer, const interest_entry_t *entry) {
    question_t question = question_of(plane, entry, NULL);
    uint64_t weight = is_for_others(&peer->link->hearing, entry) ? 0 : seen_by(plane, peer, &question);
    if (weight != 0) {
        interest_line(plane, peer, entry_subject(entry), entry_queue(entry), weight);
    }
}

void interest_leaf_asks(plane_t *plane, peer_t *peer, bytes_t pattern) {
    hearing_t *hearing = &peer->link->hearing;
    const interest_t *interest = peer->account->interest;
    if (hearing->aim == 0 || hearing->leads_on || !aim_is_beyond(pattern, hearing->aim)) {
        return;
    }
    hearing->leads_on = true;
    map_walk_t walk = {0};
    for (map_link_t *link; interest->aimed != 0 && (link = map_next(interest->all, &walk)) != NULL;) {
        if (interest_entry(link)->aim != 0) {
            tell_entry(plane, peer, interest_entry(link));
        }
    }
}

/* One bucket; returns what it cost. */
static uint32_t tell_bucket(plane_t *plane, peer_t *peer, map_link_t *link) {
    uint32_t cost = 1, each = peer->link->hearing.next_mate == NULL ? 1 : peer->account->leaf_count;
    for (; link != NULL; link = link->next) {
        const interest_entry_t *entry =
            peer_is_isolated(peer) ? MAP_ENTRY(link, interest_entry_t, here) : interest_entry(link);
        tell_entry(plane, peer, entry);
        cost += each;
    }
    return cost;
}

/* true: it has been told all. */
static bool tell_more(plane_t *plane, peer_t *peer, uint32_t *budget) {
    const interest_t *interest = peer->account->interest;
    const map_t *map = peer_is_isolated(peer) ? interest->here : interest->all;
    uint64_t place = peer->link->hearing.told_below;
    while (place < MAP_END && *budget != 0 && peer->state != PEER_DOOMED) {
        uint32_t cost = tell_bucket(plane, peer, map_at(map, place));
        *budget -= cost < *budget ? cost : *budget;
        place = map_beyond(map, place);
    }
    peer->link->hearing.told_all = place == MAP_END;
    peer->link->hearing.told_below = place;
    return peer->link->hearing.told_all || peer->state == PEER_DOOMED;
}

status_t interest_leaf_joined(plane_t *plane, peer_t *peer, uint64_t domain) {
    account_t *account = peer->account;
    status_t status = publish_reserve_links(plane, account->leaf_count + 1);
    if (status == STATUS_OK) {
        status = interest_expect_links(plane, account);
    }
    if (status != STATUS_OK) {
        return status;
    }
    leafs_put(peer_is_isolated(peer) ? &account->isolated : &account->leafs, peer);
    account->leaf_count++;
    peer->link->hearing.cluster = cluster_hash(peer->link->cluster);
    peer->link->hearing.next_mate = NULL;
    peer->link->hearing.aim = aim_of_domain(domain);
    if (!peer_is_isolated(peer)) {
        join_mates(account, peer);
    }
    if (peer->link->lds.size != 0) {
        interest_line(plane, peer, peer->link->lds, BYTES_NONE, 1);
    }
    if (plane->gateways != NULL) {
        interest_line(plane, peer, whole_names, BYTES_NONE, 1);
    }
    /* A link of an ordinary account hears everything here, before the PONG that tells it that it may begin. */
    uint32_t budget = TELL_FIRST;
    if (!tell_more(plane, peer, &budget)) {
        peer->link->hearing.next_newcomer = plane->newcomers;
        plane->newcomers = peer;
    }
    return STATUS_OK;
}

void interest_tell(plane_t *plane) {
    uint32_t budget = TELL_MAX;
    for (peer_t **at = &plane->newcomers; *at != NULL;) {
        peer_t *peer = *at;
        if (budget == 0) {
            plane->more = true;
            return;
        }
        /* a slow link holds nobody up, and goes on when it is drained */
        if (peer_is_full(plane, peer)) {
            at = &peer->link->hearing.next_newcomer;
        } else if (tell_more(plane, peer, &budget)) {
            *at = peer->link->hearing.next_newcomer;
        }
    }
}

/* Forgets a leaf whose subscriptions are gone already. */
void interest_leaf_left(plane_t *plane, peer_t *peer) {
    account_t *account = peer->account;
    for (peer_t **at = &plane->newcomers; !peer->link->hearing.told_all && *at != NULL;
         at = &(*at)->link->hearing.next_newcomer) {
        if (*at == peer) {
            *at = peer->link->hearing.next_newcomer;
            break;
        }
    }
    if (peer->at_leaf == NULL) {
        return;
    }
    leafs_take(peer);
    account->leaf_count--;
    leave_mates(peer);
}
