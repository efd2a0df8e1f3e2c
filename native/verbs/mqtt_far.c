/* mqtt_far.c: an account's streams for MQTT that another server of the cluster has: `$MQTT_msgs`, of what sessions wait
 * for, and `$MQTT_rmsgs`, of what is retained.
 *
 *     PUBLISH at this server      --> $MQTT.msgs.<subject>, over the route whose server wants that --> its stream
 *     its stream has it on disk   --> $MQTT.F.<key>.<peer>.<identifier>, over the route back        --> PUBACK, PUBREC
 *     nobody can be asked, or no answer comes    --> the message is refused, or its connection ends: it comes again
 *
 * A session's messages come out of the stream, so the copy that goes to subscribers at once must not come to it as
 * well. It has a mark, which the server with the stream remembers: it hears first of what it is to store, by the same
 * route. Sessions themselves are at the server with their stream alone: a client that wants one elsewhere is refused.
 *
 * A stream of the user's is told likewise what is said before a message, and answers when it has it (plane/placed.h):
 *
 *     PUBLISH at this server      --> $MQTT.N.<mark>, with the subject for the answer, to each server with receivers
 *                                 --> the message, with its mark, as to any receiver
 *     each stream that keeps it   --> $MQTT.F.<key>.<peer>.m<mark>, over the route back             --> PUBACK, PUBREC
 *
 * Control says whether there is such a stream. So a server that is away is not taken for a stream that is not there,
 * nor a client that listens to those subjects for a stream. The stream's place is known by that interest: all servers
 * that want these subjects are sent the message, and one of them has the stream. Not here: what is retained as a
 * message, and the parts of a read (mqtt_retain.c).
 */
#include "base/check.h"
#include "plane/account.h"
#include "plane/keeping.h"
#include "plane/link_part.h"
#include "plane/routed.h"
#include "route/route.h"
#include "sessions/carry.h"
#include "text/decimal.h"
#include "text/headers.h"
#include "verbs/links.h"
#include "verbs/mqtt.h"
#include "verbs/mqtt_far.h"
#include "verbs/mqtt_lasting.h"
#include "verbs/mqtt_retain.h"
#include "verbs/verbs.h"

#define INFO "$JS.API.STREAM.INFO.$MQTT_msgs"
#define PATIENCE_NS (10 * NS_PER_SECOND) /* for an answer of another server */
#define LOOK_NS NS_PER_SECOND            /* meanwhile it is looked whether one can come */
#define CONTROL_PATIENCE_NS (3 * NS_PER_SECOND)
#define ASKED_NS (NS_PER_SECOND / 10)
#define NOTES BYTES_LITERAL("$MQTT.N.")
#define NOTED_MESSAGES 8u /* that may come between what is said of one, and that one */
#define READ_PATIENCE_NS (3 * NS_PER_SECOND)

bool mqtt_far_possible(const plane_t *plane) {
    return (plane->limits.clustered & CLUSTERED_META) != 0;
}

uint32_t mqtt_far_replicas(const plane_t *plane) {
    return mqtt_far_possible(plane) && plane->mqtt.replicas > 1 ? plane->mqtt.replicas : 1;
}

status_t mqtt_far_begin(plane_t *plane, const mqtt_desk_t *desk, account_t *account, sink_t *sink) {
    text_t text = {0};
    if (!mqtt_far_possible(plane)) {
        return STATUS_OK;
    }
    mqtt_far_prefix(desk, &text);
    text_add_literal(&text, ".>");
    return sink_add(plane, account, sink, TARGET_MQTT_FAR, text_bytes(&text), 0, NULL);
}

/* ---- does another server keep such a stream? --------------------------------------------------------------------- */

static bool routed_wants(plane_t *plane, const account_t *account) {
    return routed_wanting(plane, account, BYTES_LITERAL(MQTT_MESSAGES ">"), NULL) != 0;
}

bool mqtt_far_retains(plane_t *plane, const account_t *account) {
    return routed_wanting(plane, account, BYTES_LITERAL(MQTT_RETAINED_SUBJECTS ">"), NULL) != 0;
}

/* That interest may be a client's that listens there, and no stream's. So control is asked when there is
 * somebody who does, and while there is, now and then. */
static bool is_to_ask(plane_t *plane, const mqtt_account_t *keeper, const account_t *account) {
    if (keeper->messages != NULL || !mqtt_far_possible(plane)) {
        return false;
    }
    return keeper->elsewhere == KEEPS_UNKNOWN
           || (keeper->elsewhere == KEEPS_NO && routed_wants(plane, account)
               && (!keeper->elsewhere_wanted || plane->now.mono_ns - keeper->elsewhere_ns >= ASKED_NS));
}

bool mqtt_far_unknown(plane_t *plane, mqtt_account_t *keeper, account_t *account) {
    if (LEAF_UNLIKELY(is_to_ask(plane, keeper, account))) {
        bool asks = (account->flags & ACCOUNT_JETSTREAM) != 0;
        keeper->elsewhere_ns = plane->now.mono_ns;
        keeper->elsewhere_wanted = routed_wants(plane, account);
        keeper->elsewhere = asks ? KEEPS_ASKED : KEEPS_NO; /* it may be answered before the request has returned */
        if (asks && !mqtt_ask_control(plane, account, INFO, BYTES_NONE, "i")) {
            keeper->elsewhere = KEEPS_UNKNOWN;
        }
    }
    return keeper->elsewhere == KEEPS_ASKED;
}

void mqtt_far_known(plane_t *plane, mqtt_account_t *keeper, bytes_t payload) {
    static const char none[] = "\"err_code\":10059";
    bool missing = payload.size != 0 && memmem(payload.at, payload.size, none, sizeof none - 1) != NULL;
    if (keeper->elsewhere == KEEPS_ASKED) {
        keeper->elsewhere = missing ? KEEPS_NO : KEEPS_YES;
        mqtt_wake(plane, keeper);
    }
}

bool mqtt_far_untold(const plane_t *plane, mqtt_desk_t *desk) {
    desk->untold |= plane->placed_unknown;
    return plane->placed_unknown;
}

/* Its connection is looked at again when an answer should have come. */
static void expect_answer(const plane_t *plane, peer_t *peer, int64_t patience_ns) {
    int64_t due_ns = plane->now.mono_ns + patience_ns;
    peer->next_ping_ns = due_ns < peer->next_ping_ns ? due_ns : peer->next_ping_ns;
}

/* A former leader answers nobody: where no answer comes the client is closed, and says it again. */
static void look_after_the_waiting(const plane_t *plane, const mqtt_desk_t *desk, mqtt_account_t *keeper) {
    uint32_t account = keeper->sink.account->js.id;
    map_walk_t walk = {0};
    keeper->lost = false;
    for (map_link_t *link; (link = map_next(desk->here, &walk)) != NULL;) {
        session_t *session = MAP_ENTRY(link, session_t, client.link);
        if (session->client.owner == account && session->answers.count != 0 && session->far_since_ns == 0) {
            session->far_since_ns = plane->now.mono_ns;
            expect_answer(plane, session->owner, LOOK_NS);
        }
    }
}

void mqtt_far_lost(plane_t *plane, const stream_t *stream) {
    const mqtt_desk_t *desk = plane->mqtt_desk;
    mqtt_account_t *keeper = desk == NULL ? NULL : table_find(&desk->accounts, stream->account->id);
    if (keeper != NULL) {
        keeper->lost = true;
    }
}

void mqtt_far_chores(plane_t *plane) {
    mqtt_desk_t *desk = plane->mqtt_desk;
    int64_t before_ns = plane->now.mono_ns - CONTROL_PATIENCE_NS;
    map_walk_t walk = {0};
    if (!mqtt_far_possible(plane)) {
        return;
    }
    bool told = desk->untold && !plane->placed_unknown;
    desk->untold &= plane->placed_unknown;
    for (mqtt_account_t *keeper; (keeper = table_next(&desk->accounts, &walk)) != NULL;) {
        if (keeper->lost) {
            look_after_the_waiting(plane, desk, keeper);
        }
        if (told) {
            mqtt_wake(plane, keeper);
        }
        if (keeper->elsewhere == KEEPS_ASKED && keeper->elsewhere_ns <= before_ns) {
            keeper->elsewhere = KEEPS_UNKNOWN;
            (void)mqtt_far_unknown(plane, keeper, keeper->sink.account);
        }
        if (keeper->keeps == KEEPS_ASKED && keeper->keeps_ns <= before_ns) {
            mqtt_retain_begin(plane, keeper->sink.account);
        }
    }
}

mqtt_where_t mqtt_far_sessions(plane_t *plane, mqtt_account_t *keeper, const account_t *account) {
    if (LEAF_LIKELY(keeper->messages != NULL || keeper->elsewhere != KEEPS_YES)) {
        return WHERE_HERE;
    }
    if (routed_wants(plane, account)) {
        return WHERE_FAR;
    }
    keeper->elsewhere = KEEPS_UNKNOWN; /* it may have been deleted: control is asked when the next message comes */
    return WHERE_AWAY;
}

/* ---- notes to the server with the sessions ----------------------------------------------------------------------- */

uint32_t mqtt_far_mark(mqtt_desk_t *desk) {
    desk->mark = desk->mark == UINT32_MAX ? 1 : desk->mark + 1;
    return desk->mark;
}

/* The subject where an answer comes to this server, at another one. */
static void name_there(const mqtt_desk_t *desk, bytes_t here, text_t *there) {
    there->size = 0;
    mqtt_far_prefix(desk, there);
    if (here.size > there->size) { /* both prefixes have one size */
        text_add(there, bytes_after(here, there->size));
    }
}

void mqtt_far_keep(plane_t *plane, const publication_t *publication, const char *prefix) {
    publication_t sent = *publication;
    text_t reply = {0}, pattern = {0};
    text_add_literal(&pattern, prefix);
    text_add_literal(&pattern, ">");
    sent.flags &= ~(PUBLICATION_TELLS | PUBLICATION_WITHOUT);
    if ((publication->flags & PUBLICATION_TELLS) != 0) {
        peer_t *peer = publication->origin;
        session_t *session = peer->session;
        name_there(session->shared, publication->tell->at, &reply);
        sent.message.reply = text_bytes(&reply);
        publication->tell->streams++;
        session->far_since_ns = session->far_since_ns == 0 ? plane->now.mono_ns : session->far_since_ns;
        expect_answer(plane, peer, LOOK_NS);
    }
    (void)routed_wanting(plane, publication->account, text_bytes(&pattern), &sent);
}

bool mqtt_far_note(plane_t *plane, const publication_t *publication, uint32_t streams) {
    peer_t *peer = publication->origin;
    session_t *session = peer->session;
    const mqtt_desk_t *desk = session->shared;
    text_t subject = {0}, here, reply;
    text_add(&subject, NOTES);
    text_add_number(&subject, desk->mark);
    mqtt_answer_subject(desk, peer, "m", desk->mark, &here);
    name_there(desk, text_bytes(&here), &reply);
    publication_t note = {.account = publication->account,
                          .message = {.subject = text_bytes(&subject), .reply = text_bytes(&reply)}};
    const route_match_t *match = route_match(publication->account->route, publication->message.subject);
    bool any = false;
    for (uint32_t i = 0; i < match->plain_count; i++) {
        const subscription_t *one = match->plain[i]->owner;
        if (match->plain[i]->kind == TARGET_ROUTE && (one->flags & SUBSCRIPTION_DEAD) == 0
            && one->peer->state == PEER_ADMITTED) {
            publish_over_link(plane, one->peer, &note);
            any = true;
        }
    }
    if (any) {
        publication->tell->streams += streams;
        publication->tell->mark = desk->mark;
        session->far_placed = true;
        session->far_since_ns = session->far_since_ns == 0 ? plane->now.mono_ns : session->far_since_ns;
        expect_answer(plane, peer, LOOK_NS);
    }
    return any;
}

void mqtt_far_later(plane_t *plane, peer_t *peer) {
    peer->session->reads->asked_ns = plane->now.mono_ns;
    expect_answer(plane, peer, READ_PATIENCE_NS);
}

void mqtt_far_ask(plane_t *plane, peer_t *peer, const char *api, bytes_t body) {
    session_t *session = peer->session;
    retained_read_t *read = session->reads;
    text_t here, reply;
    read->attempt++;
    mqtt_far_later(plane, peer);
    mqtt_answer_subject(session->shared, peer, "r", read->attempt, &here);
    name_there(session->shared, text_bytes(&here), &reply);
    publication_t asked = {
        .account = peer->account,
        .message = {.subject = bytes_of(api, (uint32_t)strlen(api)), .reply = text_bytes(&reply), .payload = body}};
    (void)routed_wanting(plane, peer->account, BYTES_LITERAL(MQTT_RETAINED_SUBJECTS ">"), &asked);
}

/* The server that was to store a message has gone, and its answer with it. */
static bool answerer_is_gone(plane_t *plane, const peer_t *peer) {
    const mqtt_desk_t *desk = peer->session->shared;
    const mqtt_account_t *keeper = table_find(&desk->accounts, peer->account->js.id);
    if (peer->session->far_placed) {
        return plane->routes == NULL;
    }
    return keeper == NULL || (keeper->elsewhere == KEEPS_YES && !routed_wants(plane, peer->account))
           || (!mqtt_retain_here(keeper) && !mqtt_far_retains(plane, peer->account));
}

/* Has the time come for an answer that there should have been? */
bool mqtt_far_beat(plane_t *plane, peer_t *peer) {
    const session_t *session = peer->session;
    int64_t now_ns = plane->now.mono_ns;
    if (session->far_since_ns != 0
        && (now_ns - session->far_since_ns >= PATIENCE_NS || answerer_is_gone(plane, peer))) {
        peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("another server did not store a message"));
        return false;
    }
    if (session->far_since_ns != 0) {
        expect_answer(plane, peer, LOOK_NS);
    }
    if (session->reads == NULL || session->reads->asked_ns == 0 || session->reads_pause) {
        return false;
    }
    int64_t left_ns = session->reads->asked_ns + READ_PATIENCE_NS - now_ns;
    if (left_ns > 0) {
        expect_answer(plane, peer, left_ns);
    }
    return left_ns <= 0;
}

/* ---- notes from another server ----------------------------------------------------------------------------------- */

/* Is there room for what sessions here wait for? As where it is published by one of ours. */
static bool sessions_have_room(const plane_t *plane, const account_t *account) {
    const mqtt_desk_t *desk = plane->mqtt_desk;
    const mqtt_account_t *keeper = desk == NULL ? NULL : table_find(&desk->accounts, account->js.id);
    uint64_t most = plane->mqtt.max_queued_bytes;
    return keeper == NULL || keeper->messages == NULL || most == 0 || keeping_bytes(keeper->messages) < most;
}

/* It is believed only where it says of an answer that it goes to a server. */
static void note_next(peer_t *peer, const op_t *op) {
    noted_t *noted = &peer->link->noted;
    uint64_t mark;
    if (decimal_parse(bytes_after(op->subject, NOTES.size), &mark) && mark <= UINT32_MAX
        && op->reply.size <= sizeof(noted->at) && bytes_starts(op->reply, PUBLICATION_FAR_SUBJECTS)) {
        noted->mark = (uint32_t)mark;
        noted->left = NOTED_MESSAGES;
        noted->size = (uint8_t)op->reply.size;
        memcpy(noted->at, op->reply.at, op->reply.size);
    }
}

bool mqtt_far_noted(peer_t *peer, const op_t *op, tell_t *tell) {
    noted_t *noted = &peer->link->noted;
    bytes_t value;
    uint64_t mark;
    bool is = headers_find(op->header, BYTES_LITERAL(CARRY_KEPT), &value) && decimal_parse(value, &mark)
              && mark == noted->mark;
    if (is) {
        tell->at = bytes_of(noted->at, noted->size);
    }
    noted->left--;
    noted->mark = is || noted->left == 0 ? 0 : noted->mark;
    return is;
}

static void note_mark(mqtt_desk_t *desk, bytes_t header) {
    bytes_t value;
    uint64_t mark;
    if (headers_find(header, BYTES_LITERAL(CARRY_KEPT), &value) && decimal_parse(value, &mark) && mark <= UINT32_MAX) {
        desk->marks[desk->marks_at++ % MQTT_MARKS] = (uint32_t)mark;
    }
}

bool mqtt_far_stored(const mqtt_desk_t *desk, uint32_t mark) {
    for (uint32_t i = 0; mark != 0 && i < MQTT_MARKS; i++) {
        if (desk->marks[i] == mark) {
            return true;
        }
    }
    return false;
}

bool mqtt_far_take_in(plane_t *plane, peer_t *peer, account_t *account, const op_t *op) {
    static const char full[] = "{\"error\":{\"code\":503,\"description\":\"no room for what sessions wait for\"}}";
    bool messages = bytes_starts(op->subject, BYTES_LITERAL(MQTT_MESSAGES));
    bool answer = bytes_starts(op->subject, PUBLICATION_FAR_SUBJECTS);
    if (bytes_starts(op->subject, NOTES)) {
        note_next(peer, op);
        return true;
    }
    if (!messages && !answer && !bytes_starts(op->subject, BYTES_LITERAL(MQTT_RETAINED_SUBJECTS))) {
        return false;
    }
    if (messages && !sessions_have_room(plane, account)) {
        (void)publish_inside(plane, account, op->reply, BYTES_NONE, BYTES_NONE, bytes_of(full, sizeof full - 1));
        return true;
    }
    if (messages && plane->mqtt_desk != NULL) {
        note_mark(plane->mqtt_desk, op->header);
    }
    publication_t publication = {
        .account = account,
        .message = {.subject = op->subject, .reply = op->reply, .header = op->header, .payload = op->payload},
        .origin = peer,
        .flags = PUBLICATION_INSIDE | (answer ? PUBLICATION_OWN : 0u)};
    (void)publish(plane, &publication);
    return true;
}
