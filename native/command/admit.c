/* admit.c: who comes in with which rights, and what becomes of a connection whose rights change: ADMIT, ADMIT_LEAF,
 * RIGHTS, ROUTE_RIGHTS.
 *
 *     ADMIT, ADMIT_LEAF   the verdict on a login: account, limits, permissions           peer WAITING  -> ADMITTED
 *     RIGHTS              after a reload: the same login, other limits and permissions    peer ADMITTED -> ADMITTED,
 *                                                                                         with fewer
 *                         subscriptions where they are no longer allowed; or closed, where even so many are too many
 *     ROUTE_RIGHTS        the same for a route: interest that is no longer let through goes
 *     AUTHOR              what somebody who stored a schedule may do today               plane/authors.c keeps it
 *
 * A verdict that cannot be carried out (no memory, no such account) closes the connection: nobody stays with rights
 * that control took away. Not here: the verdict (control), what the lists mean (permissions.c), a link's
 * rights after its login (they never change: control closes the link, and it comes again).
 */
#include <stdlib.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/copies.h"
#include "base/leftover.h"
#include "base/status.h"
#include "base/visits.h"
#include "exchange/strings.h"
#include "plane/account.h"
#include "plane/authors.h"
#include "plane/gateway.h"
#include "plane/keeping.h"
#include "command/command.h"
#include "plane/protocol.h"
#include "plane/link_part.h"
#include "plane/peer.h"
#include "plane/placed.h"
#include "route/permissions.h"
#include "plane/plane.h"
#include "plane/refused.h"
#include "plane/routed.h"
#include "plane/subscription.h"
#include "text/hash8.h"
#include "text/text.h"

#define LISTS_MAX 65536u
#define JUDGE_COST 8u /* of a turn's SWEEP_MAX, for a subscription that may have to go */
#define JUDGED_AT_ONCE 2048u
#define TEXTS_MAX 2u
#define LINK_LISTS PERMISSION_LISTS
#define CLIENT_LISTS (PERMISSION_LISTS - 1u) /* nothing is denied to its mappings by itself */

/* Lists that each end with an empty string; those that do not come are empty. */
static status_t read_permissions(plane_t *plane, strings_t *strings, uint32_t list_count, const conn_verdict_t *verdict,
                                 permissions_t **out) {
    uint32_t max = strings->left / 4 < LISTS_MAX ? strings->left / 4 : LISTS_MAX;
    bytes_t *all = calloc(max + 1u, sizeof(*all));
    if (all == NULL) {
        return STATUS_NO_MEMORY;
    }
    permission_lists_t lists = {0};
    uint32_t used = 0;
    for (uint32_t i = 0; i < list_count; i++) {
        lists.at[i] = all + used;
        while (strings_more(strings)) {
            bytes_t pattern = strings_next(strings);
            if (pattern.size == 0) {
                break;
            }
            if (used == max) {
                free(all);
                return STATUS_INVALID;
            }
            all[used++] = pattern;
            lists.count[i]++;
        }
    }
    status_t status = permissions_new(&lists, verdict->response_max, verdict->response_ttl_ns, &plane->memory.allowed,
                                      &plane->memory.lists, out);
    free(all);
    return status;
}

/* The account that a verdict names: one that is gone takes nobody in. */
static account_t *account_of(plane_t *plane, const plane_command_t *command) {
    account_t *account = account_find(plane, command->account);
    return account == NULL || (account->flags & ACCOUNT_REMOVED) != 0 ? NULL : account;
}

static status_t read_texts(strings_t *strings, uint32_t count, bytes_t *out) {
    bytes_t wanted[TEXTS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        wanted[i] = strings_next(strings);
    }
    if (bytes_copy_all(out, wanted, count)) {
        return STATUS_OK;
    }
    memset(out, 0, count * sizeof(*out));
    return STATUS_NO_MEMORY;
}

typedef struct granted {
    conn_verdict_t verdict;
    bytes_t texts[TEXTS_MAX];
    bytes_t author;
    permissions_t *permissions;
} granted_t;

static void release_texts(granted_t *granted) {
    bytes_release(&granted->author);
    for (uint32_t i = 0; i < TEXTS_MAX; i++) {
        bytes_release(&granted->texts[i]);
    }
}

static status_t read_author(strings_t *strings, granted_t *out) {
    bytes_t author = strings_next(strings);
    out->author = bytes_copy(author);
    if (out->author.size == author.size) {
        return STATUS_OK;
    }
    permissions_free(out->permissions);
    return STATUS_NO_MEMORY;
}

/* A failure leaves nothing to free. */
static status_t read_granted(plane_t *plane, const plane_command_t *command, bool link, granted_t *out) {
    memset(out, 0, sizeof(*out));
    memcpy(&out->verdict, command->body, sizeof(out->verdict));
    strings_t strings = strings_of(command);
    status_t status = read_texts(&strings, link ? TEXTS_MAX : 1, out->texts);
    if (status == STATUS_OK) {
        status = read_permissions(plane, &strings, link ? LINK_LISTS : CLIENT_LISTS, &out->verdict, &out->permissions);
    }
    if (status == STATUS_OK && strings_more(&strings)) {
        status = read_author(&strings, out);
    }
    if (status != STATUS_OK) {
        release_texts(out);
    }
    return status;
}

void command_refuse_login(plane_t *plane, peer_t *peer, const plane_command_t *command, status_t status) {
    if (peer != NULL) {
        peer_doom(plane, peer, CLOSE_AUTHENTICATION,
                  status == STATUS_NO_MEMORY ? BYTES_LITERAL("no memory for a login")
                                             : BYTES_LITERAL("Authorization Violation"));
    }
    command_done(plane, command, status);
}

static void give_permissions(plane_t *plane, peer_t *peer, granted_t *granted) {
    permissions_leave(peer->permissions, &plane->leftovers);
    peer->permissions = granted->permissions;
    bytes_release(&peer->author);
    peer->author = granted->author;
    granted->author = BYTES_NONE;
}

static void tell_verdict(plane_t *plane, peer_t *peer, const plane_command_t *command) {
    if (peer->protocol->judged != NULL) {
        peer->protocol->judged(plane, peer, bytes_of(command->body, command->body_size),
                               bytes_of(command->extra, command->extra_size));
    }
}

/* ---- a login ----------------------------------------------------------------------------------------------------- */

static status_t admit_take_in(plane_t *plane, peer_t *peer, account_t *account, const plane_command_t *command) {
    granted_t granted;
    bool link = peer->protocol->link;
    bytes_t *const own[TEXTS_MAX] = {link ? &peer->link->cluster : &peer->after_pong, link ? &peer->link->lds : NULL};
    uint32_t text_count = link ? TEXTS_MAX : 1;
    status_t status = read_granted(plane, command, link, &granted);
    if (status != STATUS_OK) {
        return status;
    }
    for (uint32_t i = 0; i < text_count; i++) {
        bytes_release(own[i]);
        *own[i] = granted.texts[i];
    }
    give_permissions(plane, peer, &granted);
    tell_verdict(plane, peer, command);
    peer_admit(plane, peer, account, &granted.verdict);
    status = peer->protocol->admitted(plane, peer, &granted.verdict);
    if (status != STATUS_OK) {
        peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a link"));
    }
    return status;
}

bool admit_possible(plane_t *plane, const plane_command_t *verdict) {
    return account_of(plane, verdict) != NULL;
}

status_t admit_peer(plane_t *plane, peer_t *peer, const plane_command_t *verdict) {
    account_t *account = account_of(plane, verdict);
    return account == NULL ? STATUS_INVALID : admit_take_in(plane, peer, account, verdict);
}

void command_admit(plane_t *plane, const plane_command_t *command, peer_t *peer) {
    if (peer->protocol->admit != command->op || peer->state == PEER_ADMITTED) {
        command_done(plane, command, STATUS_NOT_FOUND);
        return;
    }
    status_t status = admit_peer(plane, peer, command);
    if (status != STATUS_OK) {
        command_refuse_login(plane, peer, command, status);
        return;
    }
    command_done(plane, command, STATUS_OK);
}

/* ---- another server of the cluster ------------------------------------------------------------------------------- */

/* A failure leaves nothing to free. only: the account of all its lines; NULL: each has its own. */
static status_t take_in_route(plane_t *plane, peer_t *peer, account_t *only, const plane_command_t *command) {
    route_terms_t terms;
    memcpy(&terms, command->body, sizeof(terms));
    if (terms.pool_size != 0 && terms.pool_index >= terms.pool_size && only == NULL) {
        return STATUS_INVALID;
    }
    uint32_t traces = (terms.flags & ROUTE_TRACES) != 0 ? VERDICT_TRACES : 0;
    const conn_verdict_t verdict = {.flags = VERDICT_HEADERS | traces,
                                    .max_payload = terms.max_payload,
                                    .ping_interval_ns = terms.ping_interval_ns};
    strings_t strings = strings_of(command);
    route_link_t *link = calloc(1, sizeof(*link));
    permissions_t *permissions;
    status_t status =
        link == NULL ? STATUS_NO_MEMORY : read_permissions(plane, &strings, CLIENT_LISTS, &verdict, &permissions);
    if (status != STATUS_OK) {
        free(link);
        return status;
    }
    link->only = only;
    link->pool_size = terms.pool_size;
    link->pool_index = terms.pool_index;
    link->peer = terms.peer;
    link->unsub_origins = (terms.flags & ROUTE_UNSUB_ORIGIN) != 0;
    if (strings_more(&strings)) {
        uint8_t server[HASH8_SIZE];
        hash8(strings_next(&strings), server);
        memcpy(link->server, server, sizeof(link->server));
        link->known = true;
    }
    permissions_leave(peer->permissions, &plane->leftovers);
    peer->permissions = permissions;
    peer_admit(plane, peer, NULL, &verdict);
    peer->parser.one_account = only != NULL;
    peer->parser.unsub_origins = link->unsub_origins;
    status = routed_joined(plane, peer, link);
    if (status == STATUS_OK) {
        status = peer->protocol->admitted(plane, peer, &verdict);
    } else {
        peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a route"));
    }
    return status;
}

void command_admit_route(plane_t *plane, const plane_command_t *command, peer_t *peer) {
    if (peer->protocol->admit != command->op || peer->state == PEER_ADMITTED) {
        command_done(plane, command, STATUS_NOT_FOUND);
        return;
    }
    account_t *only = command->account == 0 ? NULL : account_of(plane, command);
    bool possible = plane->routed != NULL && (command->account == 0 || only != NULL);
    status_t status = possible ? take_in_route(plane, peer, only, command) : STATUS_INVALID;
    if (status != STATUS_OK) {
        command_refuse_login(plane, peer, command, status);
        return;
    }
    command_done(plane, command, STATUS_OK);
}

/* ---- a server of another cluster --------------------------------------------------------------------------------- */

void command_gateway(plane_t *plane, const plane_command_t *command) {
    strings_t strings = strings_of(command);
    bytes_t cluster = strings_next(&strings);
    command_done(plane, command, gateways_name(plane, cluster, strings_next(&strings)));
}

static status_t take_in_gateway(plane_t *plane, peer_t *peer, const plane_command_t *command) {
    gateway_terms_t terms;
    memcpy(&terms, command->body, sizeof(terms));
    conn_verdict_t verdict = {.max_payload = terms.max_payload, .ping_interval_ns = terms.ping_interval_ns};
    verdict.flags = ((terms.flags & GATEWAY_HEADERS) != 0 ? (uint32_t)VERDICT_HEADERS : 0)
                    | ((terms.flags & GATEWAY_TRACES) != 0 ? (uint32_t)VERDICT_TRACES : 0);
    strings_t strings = strings_of(command);
    gateway_link_t *link = calloc(1, sizeof(*link));
    if (link == NULL) {
        return STATUS_NO_MEMORY;
    }
    link->outbound = (terms.flags & GATEWAY_OUTBOUND) != 0;
    link->peer = terms.peer;
    peer_admit(plane, peer, NULL, &verdict);
    status_t status = gateway_joined(plane, peer, link, strings_next(&strings));
    if (status == STATUS_OK) {
        status = peer->protocol->admitted(plane, peer, &verdict);
    }
    return status;
}

void command_admit_gateway(plane_t *plane, const plane_command_t *command, peer_t *peer) {
    if (peer->protocol->admit != command->op || peer->state == PEER_ADMITTED) {
        command_done(plane, command, STATUS_NOT_FOUND);
        return;
    }
    strings_t strings = strings_of(command);
    bool possible = plane->gateways != NULL && plane->gateways->name.size != 0 && strings_next(&strings).size != 0;
    status_t status = possible ? take_in_gateway(plane, peer, command) : STATUS_INVALID;
    if (status != STATUS_OK) {
        command_refuse_login(plane, peer, command, status);
        return;
    }
    command_done(plane, command, STATUS_OK);
}

/* ---- clients of MQTT --------------------------------------------------------------------------------------------- */

void command_mqtt(plane_t *plane, const plane_command_t *command) {
    strings_t strings = strings_of(command);
    bytes_t domain = strings_next(&strings), copy = bytes_copy(domain);
    if (copy.size != domain.size) {
        command_done(plane, command, STATUS_NO_MEMORY);
        return;
    }
    memcpy(&plane->mqtt, command->body, sizeof(plane->mqtt));
    bytes_release(&plane->mqtt_domain);
    plane->mqtt_domain = copy;
    keeping_bound(plane);
    command_done(plane, command, STATUS_OK);
}

/* ---- streams of other servers ------------------------------------------------------------------------------------ */

void command_placed(plane_t *plane, const plane_command_t *command) {
    strings_t strings = strings_of(command);
    bytes_t account = strings_next(&strings), stream = strings_next(&strings);
    status_t status = STATUS_OK;
    if (command->arg == PLACED_STREAM) {
        status = placed_put(plane, account, stream, &strings);
    } else if (command->arg == PLACED_UNKNOWN || command->arg == PLACED_KNOWN) {
        plane->placed_unknown = command->arg == PLACED_UNKNOWN;
    } else {
        status = STATUS_INVALID;
    }
    command_done(plane, command, status);
}

/* ---- other rights for the same login ----------------------------------------------------------------------------- */

static void tell_removed(plane_t *plane, peer_t *peer, const subscription_t *one) {
    bytes_t subject = one->target.subject, queue = one->target.queue, sid = bytes_of(one->sid, one->sid_size);
    text_t text;
    text.size = 0;
    text_add_literal(&text, "Permissions Violation for Subscription to \"");
    text_add_shown(&text, subject);
    if (queue.size != 0) {
        text_add_literal(&text, "\" using queue \"");
        text_add_shown(&text, queue);
    }
    text_add_literal(&text, "\" (sid \"");
    text_add_shown(&text, sid);
    text_add_literal(&text, "\")");
    peer_error(plane, peer, text_shown(&text));
    peer_refused(plane, peer, &(violation_t){.code = REFUSED_REMOVED, .subject = subject, .queue = queue, .sid = sid});
}

/* A RIGHTS whose subscriptions are being judged, a part in each turn. What the client publishes and subscribes to is
 * judged by the new rights from the first one on. */
typedef struct judging {
    leftover_t leftover; /* first */
    plane_command_t command;
    uint64_t place; /* in the table */
    uint64_t removed;
} judging_t;

/* Whether it may stay. */
static bool judge_one(plane_t *plane, peer_t *peer, subscription_t *one) {
    bool filtered = false;
    visits_add(1);
    if ((one->flags & SUBSCRIPTION_DEAD) != 0) {
        return true;
    }
    if (peer->route != NULL) {
        bool stays = peer->permissions == NULL || permissions_route_export(peer->permissions, one->target.subject);
        if (!stays) {
            subscription_kill(plane, one);
        }
        return stays;
    }
    if (peer->permissions == NULL
        || permissions_subscribe(peer->permissions, one->target.subject, one->target.queue, &filtered)) {
        one->flags = (one->flags & ~SUBSCRIPTION_FILTERED) | (filtered ? SUBSCRIPTION_FILTERED : 0u);
        return true;
    }
    subscription_kill(plane, one);
    if (peer->state == PEER_ADMITTED) { /* until its queue is full of such lines */
        tell_removed(plane, peer, one);
    }
    return false;
}

/* false: the budget is used up. */
static bool judge_some(plane_t *plane, peer_t *peer, judging_t *judging, uint32_t *budget) {
    for (; judging->place < MAP_END; judging->place = map_beyond(peer->table, judging->place)) {
        map_link_t *link = map_at(peer->table, judging->place);
        if (!leftover_pay(budget, link == NULL ? 1 : JUDGE_COST)) {
            return false;
        }
        for (; link != NULL; link = link->next) {
            judging->removed += !judge_one(plane, peer, subscription_at(link));
        }
    }
    return true;
}

static bool judging_step(leftover_t *self, void *context, uint32_t *budget) {
    judging_t *judging = (judging_t *)self;
    plane_t *plane = context;
    peer_t *peer = peer_find(plane, judging->command.target);
    bool there = peer != NULL && peer->state == PEER_ADMITTED;
    if (there && !judge_some(plane, peer, judging, budget)) {
        return false;
    }
    if (there && peer->max_subscriptions != 0 && map_count(peer->table) - peer->dead_count > peer->max_subscriptions) {
        peer_refused(plane, peer, &(violation_t){.code = REFUSED_SUBSCRIPTIONS});
        peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("maximum subscriptions exceeded"));
    }
    command_answer(plane, &judging->command, STATUS_OK, judging->removed, 0, BYTES_NONE);
    free(judging);
    return true;
}

static void judging_begin(plane_t *plane, judging_t *judging, const plane_command_t *command) {
    judging->leftover.step = judging_step;
    judging->command = *command;
    uint32_t budget = JUDGED_AT_ONCE;
    if (!judging_step(&judging->leftover, plane, &budget)) {
        leftovers_add(&plane->leftovers, &judging->leftover);
    }
}

static status_t rights_change(plane_t *plane, peer_t *peer, const plane_command_t *command) {
    granted_t granted;
    if (account_of(plane, command) != peer->account) {
        return STATUS_INVALID;
    }
    status_t status = read_granted(plane, command, false, &granted);
    if (status != STATUS_OK) {
        return status;
    }
    give_permissions(plane, peer, &granted);
    if (peer->after_pong.size != 0) {
        bytes_release(&peer->after_pong);
        peer->after_pong = granted.texts[0];
    } else {
        release_texts(&granted); /* its INFO went long ago */
    }
    peer_limit(plane, peer, &granted.verdict);
    tell_verdict(plane, peer, command);
    return STATUS_OK;
}

void command_rights(plane_t *plane, const plane_command_t *command, peer_t *peer) {
    /* One that is at its login again is judged by the new rules anyway. */
    if (peer->protocol->link || peer->state != PEER_ADMITTED) {
        command_done(plane, command, STATUS_NOT_FOUND);
        return;
    }
    judging_t *judging = calloc(1, sizeof(*judging));
    status_t status = judging == NULL ? STATUS_NO_MEMORY : rights_change(plane, peer, command);
    if (status != STATUS_OK) {
        free(judging);
        command_refuse_login(plane, peer, command, status);
        return;
    }
    judging_begin(plane, judging, command);
}

/* ---- other rights for a route ------------------------------------------------------------------------------------ */

static status_t route_rights_change(plane_t *plane, peer_t *peer, const plane_command_t *command) {
    const conn_verdict_t verdict = {.flags = 0};
    strings_t strings = strings_of(command);
    permissions_t *permissions;
    status_t status = read_permissions(plane, &strings, CLIENT_LISTS, &verdict, &permissions);
    if (status == STATUS_OK) {
        status = routed_regrant(plane, peer, command->arg == 0 ? REGRANT_OURS : REGRANT_THEIRS, permissions);
    }
    return status;
}

void command_route_rights(plane_t *plane, const plane_command_t *command, peer_t *peer) {
    if (peer->route == NULL || peer->state != PEER_ADMITTED) {
        command_done(plane, command, STATUS_NOT_FOUND);
        return;
    }
    judging_t *judging = calloc(1, sizeof(*judging));
    status_t status = judging == NULL ? STATUS_NO_MEMORY : route_rights_change(plane, peer, command);
    if (status != STATUS_OK) {
        free(judging);
        if (status == STATUS_FULL) { /* control ends the route, and makes it anew */
            command_done(plane, command, status);
        } else {
            command_refuse_login(plane, peer, command, status);
        }
        return;
    }
    if (command->arg != 0) { /* the peer's own interest is judged by what it was */
        free(judging);
        command_done(plane, command, STATUS_OK);
        return;
    }
    judging_begin(plane, judging, command);
}

/* ---- the authors of schedules ------------------------------------------------------------------------------------ */

void command_author(plane_t *plane, const plane_command_t *command) {
    conn_verdict_t verdict;
    memcpy(&verdict, command->body, sizeof(verdict));
    strings_t strings = strings_of(command);
    permissions_t *permissions;
    status_t status = read_permissions(plane, &strings, LINK_LISTS, &verdict, &permissions);
    if (status == STATUS_OK) { /* else it is asked for again */
        author_answered(plane, command->arg, (uint32_t)command->arg2 | AUTHOR_KNOWN, permissions);
    }
    command_done(plane, command, status);
}

void command_authors_forget(plane_t *plane, const plane_command_t *command) {
    authors_forget(plane);
    command_done(plane, command, STATUS_OK);
}
