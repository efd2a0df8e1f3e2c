/* mqtt_names.c: who has a client identifier. One connection has it, at whichever server of a cluster: an older one ends
 * when a newer one comes (MQTT-3.1.4-3).
 *
 *     a client is let in  --> the one here ends --> CAME to all servers --> the one there ends, if it is the older one
 *     .. that begins anew --> CAME, where sessions are at another server: it ends what it had --> CLEARED --> CONNACK
 *     a route comes up    --> CAME for all that are here, some in each step
 *
 *     CAME      0 the server 8 | for each: 0 stamp 8 | 8 flags 1 | 9 sizes 2, 2 | account, identifier
 *               from: the connection that waits for CLEARED; 0: none does
 *     CLEARED   0 stamp 8, at which that session was last used: it is said again with a later one; 0: it is no more
 *
 * The older of two is the one with the smaller stamp: nanoseconds of its server's clock when it came, but always more
 * than any stamp that this server has made or heard. So a client that goes from one server to another has a larger one
 * there, whatever their clocks say; only of two that came while their servers did not hear of each other the clocks
 * decide. Both servers compare the same two, so one stays. What is said when a route comes up ends connections and no
 * session. Not here: who serves a session (mqtt_carry.h).
 */
#include "verbs/mqtt_names.h"

#include <stdlib.h>

#include "base/clock.h"
#include "plane/account.h"
#include "plane/keeping.h"
#include "plane/named.h"
#include "plane/output.h"
#include "plane/routed.h"
#include "verbs/mqtt_far.h"
#include "verbs/mqtt_lasting.h"

#define SERVER_BYTES 8u
#define ENTRY_HEAD 13u
#define BEGINS_ANEW 1u /* flag of an entry: what is kept of it is to end */
#define STAMP_MAX (UINT64_C(1) << 63)
#define TELL_STEP 4096u                 /* clients that a route hears of in one step */
#define BEHIND (UINT64_C(1) << 20)      /* bytes of a route's queue: it hears of them later */
#define PATIENCE_NS (2 * NS_PER_SECOND) /* for the server with the sessions; elections are shorter */
#define NOBODY_NS (60 * NS_PER_SECOND)  /* where it has not answered it is not waited for again */

/* A client that waits for CLEARED. */
typedef struct clearing {
    struct clearing *next;
    uint64_t peer;
    int64_t until_ns;
} clearing_t;

/* ---- stamps ------------------------------------------------------------------------------------------------------ */

static uint64_t next_stamp(const plane_t *plane, mqtt_desk_t *desk) {
    uint64_t now = plane->now.wall_ns > 0 ? (uint64_t)plane->now.wall_ns : 0;
    desk->stamp = now > desk->stamp ? now : desk->stamp + 1;
    return desk->stamp;
}

uint64_t mqtt_names_now(const plane_t *plane) {
    return mqtt_far_possible(plane) ? next_stamp(plane, plane->mqtt_desk) : 0;
}

static void hear_stamp(mqtt_desk_t *desk, uint64_t stamp) {
    desk->stamp = stamp > desk->stamp ? stamp : desk->stamp;
}

/* ---- here -------------------------------------------------------------------------------------------------------- */

static session_t *find_client(const mqtt_desk_t *desk, uint32_t account, bytes_t client) {
    name_link_t *found = names_find(desk->here, account, client);
    return found == NULL ? NULL : MAP_ENTRY(found, session_t, client);
}

/* here: the newer one is here, and takes what is kept. */
static void end_older(plane_t *plane, mqtt_desk_t *desk, session_t *older, bool begins_anew, bool here) {
    map_take(desk->here, &older->client.link);
    older->listed = false;
    mqtt_will_taken_over(older, begins_anew);
    if (older->kept != NULL && here) {
        mqtt_kept_hand_over(plane, older->kept);
    }
    peer_doom(plane, older->owner, CLOSE_DUPLICATE, BYTES_LITERAL("another client has come with its identifier"));
}

/* ---- what others are told ---------------------------------------------------------------------------------------- */

/* Those who have a name that we gave, which is nobody else's, are not told of. */
static bool name_is_told(const session_t *session) {
    return !session->assigned && session->stamp != 0;
}

/* false: it is longer than a frame, or there is no memory. */
static bool add_entry(const session_t *session, bool begins_anew, buffer_t *to) {
    const peer_t *peer = session->owner;
    bytes_t account = peer->account->name;
    uint64_t size = ENTRY_HEAD + (uint64_t)account.size + session->client.name.size;
    uint8_t *at;
    if (to->size + size > CARRY_CHUNK || account.size > UINT16_MAX || session->client.name.size > UINT16_MAX
        || buffer_reserve(to, size, &at) != STATUS_OK) {
        return false;
    }
    store_be64(at, session->stamp);
    at[8] = begins_anew ? BEGINS_ANEW : 0;
    store_be16(at + 9, (uint16_t)account.size);
    store_be16(at + 11, (uint16_t)session->client.name.size);
    (void)bytes_write(bytes_write(at + ENTRY_HEAD, account), session->client.name);
    to->size += size;
    return true;
}

static bool begin_frame(const mqtt_desk_t *desk, buffer_t *to) {
    uint8_t *at;
    to->size = 0;
    if (buffer_reserve(to, SERVER_BYTES, &at) != STATUS_OK) {
        return false;
    }
    store_be64(at, desk->server);
    to->size = SERVER_BYTES;
    return true;
}

/* The next server's route; NULL: that was all. One of each server's is told. */
static peer_t *next_server(const plane_t *plane, peer_t *route) {
    route = route == NULL ? plane->routes : route->route->next_route;
    while (route != NULL
           && (route->state != PEER_ADMITTED || route != routed_to(plane, plane->mail_account, route->route->peer))) {
        route = route->route->next_route;
    }
    return route;
}

static void tell_all_later(mqtt_desk_t *desk) {
    desk->telling = true;
    desk->tell_place = 0;
}

/* One that is behind hears of it when it is not. */
static void tell_servers(plane_t *plane, uint64_t from, bytes_t text) {
    const carry_frame_t frame = {.kind = CARRY_CAME, .from = from, .rest = text};
    for (peer_t *route = next_server(plane, NULL); route != NULL; route = next_server(plane, route)) {
        if (outq_pending(&route->conn.out) > BEHIND) {
            tell_all_later(plane->mqtt_desk);
        } else {
            mqtt_carry_send(plane, route, &frame);
        }
    }
}

static void tell_of(plane_t *plane, const session_t *session, uint64_t from, bool begins_anew) {
    mqtt_desk_t *desk = plane->mqtt_desk;
    if (plane->mail_account != NULL && plane->routes != NULL && name_is_told(session)
        && begin_frame(desk, &desk->packet) && add_entry(session, begins_anew, &desk->packet)) {
        tell_servers(plane, from, bytes_of(desk->packet.at, (uint32_t)desk->packet.size));
    }
}

status_t mqtt_names_take(plane_t *plane, session_t *session) {
    mqtt_desk_t *desk = session->shared;
    session_t *older = find_client(desk, session->client.owner, session->client.name);
    if (older == session) {
        return STATUS_OK; /* it has waited since */
    }
    if (older != NULL) {
        end_older(plane, desk, older, session->clean, true);
    }
    status_t status = names_put(&desk->here, &session->client);
    session->listed = status == STATUS_OK;
    if (mqtt_far_possible(plane)) {
        session->stamp = next_stamp(plane, desk);
    }
    return status;
}

static bool is_any_behind(const plane_t *plane) {
    for (const peer_t *route = plane->routes; route != NULL; route = route->route->next_route) {
        if (outq_pending(&route->conn.out) > BEHIND) {
            return true;
        }
    }
    return false;
}

static void tell_frame(plane_t *plane, mqtt_desk_t *desk) {
    if (desk->packet.size > SERVER_BYTES) {
        tell_servers(plane, 0, bytes_of(desk->packet.at, (uint32_t)desk->packet.size));
    }
}

static void tell_some(plane_t *plane, mqtt_desk_t *desk) {
    uint32_t left = TELL_STEP;
    desk->telling = plane->mail_account != NULL && plane->routes != NULL && begin_frame(desk, &desk->packet);
    for (; desk->telling && left != 0 && desk->tell_place < MAP_END;
         desk->tell_place = map_beyond(desk->here, desk->tell_place)) {
        for (map_link_t *link = map_at(desk->here, desk->tell_place); link != NULL; link = link->next) {
            const session_t *session = MAP_ENTRY(link, const session_t, client.link);
            left -= left != 0;
            if (!name_is_told(session) || add_entry(session, false, &desk->packet)) {
                continue;
            }
            tell_frame(plane, desk);
            if (!begin_frame(desk, &desk->packet) || !add_entry(session, false, &desk->packet)) {
                desk->packet.size = 0;
            }
        }
    }
    tell_frame(plane, desk);
    desk->telling = desk->telling && desk->tell_place < MAP_END;
}

void mqtt_route_came(plane_t *plane) {
    if (plane->mqtt_desk != NULL) {
        tell_all_later(plane->mqtt_desk);
    }
}

/* ---- what others tell -------------------------------------------------------------------------------------------- */

typedef struct entry {
    uint64_t stamp;
    bool begins_anew;
    bytes_t account, client;
} entry_t;

static bool take_entry(bytes_t *text, entry_t *out) {
    if (text->size < ENTRY_HEAD) {
        return false;
    }
    uint32_t account = load_be16(text->at + 9), client = load_be16(text->at + 11);
    *out = (entry_t){.stamp = load_be64(text->at), .begins_anew = (text->at[8] & BEGINS_ANEW) != 0};
    if (out->stamp >= STAMP_MAX || text->size - ENTRY_HEAD < account + client) {
        return false;
    }
    out->account = bytes_of(text->at + ENTRY_HEAD, account);
    out->client = bytes_of(out->account.at + account, client);
    *text = bytes_after(*text, ENTRY_HEAD + account + client);
    return true;
}

static void say_cleared(plane_t *plane, peer_t *route, uint64_t connection, uint64_t stamp) {
    uint8_t number[8];
    if (connection == 0) {
        return;
    }
    store_be64(number, stamp);
    const carry_frame_t frame = {.kind = CARRY_CLEARED, .to = connection, .rest = bytes_of(number, sizeof number)};
    mqtt_carry_send(plane, route, &frame);
}

/* Says so when it is on disk. Without room for that it says nothing, and is asked again. */
static void clear(plane_t *plane, peer_t *route, uint64_t connection, const mqtt_account_t *keeper, kept_t *kept) {
    text_t subject;
    uint8_t number[8];
    store_be64(number, connection);
    mqtt_answer_subject(plane->mqtt_desk, route, "c", 0, &subject);
    if (mqtt_kept_end(plane, kept) == STATUS_OK) {
        status_t status = keeping_hold(plane, keeper->messages, text_bytes(&subject), bytes_of(number, sizeof number));
        (void)status; /* it is asked again, and is no more by then */
    }
}

static void begin_anew(plane_t *plane, peer_t *route, uint64_t connection, const account_t *account,
                       const entry_t *entry) {
    mqtt_desk_t *desk = plane->mqtt_desk;
    const mqtt_account_t *keeper = table_find(&desk->accounts, account->js.id);
    if (keeper == NULL || keeper->messages == NULL || keeper->sessions != KEEPS_YES) {
        return; /* another server has the sessions, or will tell of them soon */
    }
    kept_t *kept = mqtt_kept_find(desk, account->js.id, entry->client);
    if (kept == NULL) {
        say_cleared(plane, route, connection, 0);
    } else if (kept->stamp >= entry->stamp) { /* it was used since, or this server cannot tell */
        say_cleared(plane, route, connection, kept->stamp);
    } else {
        clear(plane, route, connection, keeper, kept);
    }
}

static void came(plane_t *plane, peer_t *route, uint64_t server, uint64_t connection, const entry_t *entry) {
    mqtt_desk_t *desk = plane->mqtt_desk;
    const account_t *account = named_account(plane, entry->account);
    if (account == NULL) {
        return;
    }
    session_t *own = find_client(desk, account->js.id, entry->client);
    bool is_younger =
        own != NULL && (own->stamp > entry->stamp || (own->stamp == entry->stamp && desk->server > server));
    if (is_younger) {
        if (begin_frame(desk, &desk->packet) && add_entry(own, false, &desk->packet)) {
            const carry_frame_t told = {.kind = CARRY_CAME,
                                        .rest = bytes_of(desk->packet.at, (uint32_t)desk->packet.size)};
            mqtt_carry_send(plane, route, &told);
        }
        return;
    }
    if (own != NULL) {
        end_older(plane, desk, own, entry->begins_anew, false);
    }
    if (entry->begins_anew) {
        begin_anew(plane, route, connection, account, entry);
    }
}

void mqtt_names_ended(plane_t *plane, uint64_t route, bytes_t text) {
    peer_t *peer = peer_find(plane, route);
    if (peer != NULL && peer->route != NULL && plane->mail_account != NULL && text.size == 8) {
        say_cleared(plane, peer, load_be64(text.at), 0);
    }
}

/* ---- a client that is not kept, where sessions are elsewhere ----------------------------------------------------- */

static bool concerns(const plane_t *plane, const peer_t *peer) {
    const session_t *session = peer->session;
    return session->expiry == 0 && !session->assigned && !session->cleared && !peer->carried
           && plane->mail_account != NULL && plane->routes != NULL && mqtt_far_possible(plane);
}

bool mqtt_names_ask(plane_t *plane, mqtt_account_t *keeper, const peer_t *peer) {
    return concerns(plane, peer) && mqtt_far_unknown(plane, keeper, peer->account);
}

bool mqtt_names_resumes(plane_t *plane, mqtt_account_t *keeper, const peer_t *peer) {
    return !peer->session->clean && concerns(plane, peer) && keeper->sessions != KEEPS_YES
           && mqtt_far_sessions(plane, keeper, peer->account) != WHERE_HERE;
}

/* false: no memory. */
static bool clearing_line_up(plane_t *plane, mqtt_desk_t *desk, peer_t *peer) {
    clearing_t *clearing = malloc(sizeof(*clearing));
    if (clearing == NULL) {
        return false;
    }
    *clearing = (clearing_t){.next = desk->clearing, .peer = peer->id, .until_ns = plane->now.mono_ns + PATIENCE_NS};
    desk->clearing = clearing;
    peer->session->clears = true;
    mqtt_hold(plane, peer);
    return true;
}

bool mqtt_names_begin(plane_t *plane, mqtt_account_t *keeper, peer_t *peer) {
    session_t *session = peer->session;
    if (session->cleared) {
        return false;
    }
    bool anew = session->clean && keeper->sessions != KEEPS_YES && concerns(plane, peer)
                && mqtt_far_sessions(plane, keeper, peer->account) != WHERE_HERE;
    bool answers = keeper->nobody_ns == 0 || plane->now.mono_ns - keeper->nobody_ns >= NOBODY_NS;
    bool waits = anew && answers && clearing_line_up(plane, session->shared, peer);
    tell_of(plane, session, waits ? peer->id : 0, anew);
    return waits;
}

static void names_enter(plane_t *plane, peer_t *peer) {
    peer->session->clears = false;
    peer->session->cleared = true;
    mqtt_go_on(plane, peer);
    mqtt_enter(plane, peer);
}

static void cleared(plane_t *plane, uint64_t connection, uint64_t stamp) {
    peer_t *peer = peer_find(plane, connection);
    session_t *session = peer == NULL ? NULL : peer->session;
    if (session == NULL || !session->clears || stamp >= STAMP_MAX) {
        return;
    }
    if (stamp != 0) {
        hear_stamp(session->shared, stamp);
        session->stamp = next_stamp(plane, session->shared);
        tell_of(plane, session, peer->id, true);
        return;
    }
    mqtt_account_t *keeper = table_find(&((mqtt_desk_t *)session->shared)->accounts, session->client.owner);
    if (keeper != NULL) {
        keeper->nobody_ns = 0;
    }
    names_enter(plane, peer);
}

/* false: it waits no more. */
static bool clears_on(plane_t *plane, const clearing_t *clearing) {
    peer_t *peer = peer_find(plane, clearing->peer);
    session_t *session = peer == NULL || peer->state != PEER_ADMITTED ? NULL : peer->session;
    if (session == NULL || !session->clears) {
        return false;
    }
    mqtt_account_t *keeper = mqtt_account_of(plane, session->shared, peer->account);
    bool here = keeper != NULL && keeper->sessions == KEEPS_YES;
    if (!here && plane->now.mono_ns < clearing->until_ns) {
        tell_of(plane, session, peer->id, true);
        return true;
    }
    if (!here && keeper != NULL) {
        keeper->nobody_ns = plane->now.mono_ns;
    }
    names_enter(plane, peer);
    return false;
}

void mqtt_names_chores(plane_t *plane) {
    mqtt_desk_t *desk = plane->mqtt_desk;
    clearing_t *left = desk->clearing, *next;
    desk->clearing = NULL;
    for (; left != NULL; left = next) {
        next = left->next;
        if (clears_on(plane, left)) {
            left->next = desk->clearing;
            desk->clearing = left;
        } else {
            free(left);
        }
    }
    if (desk->telling && !is_any_behind(plane)) {
        tell_some(plane, desk);
    }
}

void mqtt_names_close(mqtt_desk_t *desk) {
    for (clearing_t *next; desk->clearing != NULL; desk->clearing = next) {
        next = ((clearing_t *)desk->clearing)->next;
        free(desk->clearing);
    }
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

void mqtt_names_frame(plane_t *plane, peer_t *route, const carry_frame_t *frame) {
    mqtt_desk_t *desk = plane->mqtt_desk;
    bytes_t text = frame->rest;
    entry_t entry;
    if (frame->kind == CARRY_CLEARED) {
        if (text.size == 8) {
            cleared(plane, frame->to, load_be64(text.at));
        }
        return;
    }
    if (text.size < SERVER_BYTES || text.size > CARRY_CHUNK) {
        return;
    }
    uint64_t server = load_be64(text.at);
    text = bytes_after(text, SERVER_BYTES);
    while (take_entry(&text, &entry)) {
        hear_stamp(desk, entry.stamp);
        came(plane, route, server, frame->from, &entry);
    }
}
