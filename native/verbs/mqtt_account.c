/* mqtt_account.c: where an account's streams answer to its clients of MQTT.
 *
 *     $MQTT.A.<key>.<peer>.<identifier>    a stream has kept that message of the peer's, or not
 *     $MQTT.A.<key>.<peer>.b               what was retained before a new subscription is on disk
 *     $MQTT.A.<key>.<peer>.r               what is retained, for that subscription
 *     $MQTT.A.<key>.<peer>.k, .p           what the peer may be told is on disk: a packet, its CONNACK or another one
 *     $MQTT.A.<key>.<peer>.a<sequence>     nobody wants that message of its session any more
 *     $MQTT.A.<key>.<peer>.l<sequence>     it may not hear that message, of QoS 2, which it may have
 *     $MQTT.A.<key>.<share>.h<sequence>    likewise of a shared subscription
 *     $MQTT.A.<key>.<share>.g<sequence>    it is on disk who alone may have that message
 *     $MQTT.A.<key>.<route>.c              the session is no more that a client at the server behind it has had
 *     $MQTT.A.<open>.<account>.s, .m       the stream of retained messages, that for sessions, has been made, or not
 *     $MQTT.A.<open>.<account>.i           whether another server has that for sessions
 *     $MQTT.F.<far>.<peer>.<identifier>, .r<attempt>    as the first two, from a stream at another server (mqtt_far.c)
 *     $MQTT.F.<far>.<peer>.m<mark>         a user's stream at another server has kept that message, or not
 *
 * Nobody but us listens there, and only what this server answers gets there (PUBLICATION_OWN). To have JetStream answer
 * to such a subject a client has to know its key, which is in nothing that others hear; control hears requests as they
 * do, and so has a key of its own. Not here: what is done with the answers.
 */
#include <stdlib.h>

#include "base/hex.h"
#include "mqtt/write.h"
#include "plane/account.h"
#include "plane/keeping.h"
#include "text/decimal.h"
#include "verbs/mqtt.h"
#include "verbs/mqtt_far.h"
#include "verbs/mqtt_lasting.h"
#include "verbs/mqtt_names.h"
#include "verbs/mqtt_retain.h"
#include "verbs/mqtt_share.h"
#include "verbs/verbs.h"

#define ANSWER_SUBJECTS "$MQTT.A."
#define NUMBER_DIGITS 16u

static void add_hex_number(text_t *text, uint64_t number) {
    static const char digits[] = "0123456789abcdef";
    uint8_t at[NUMBER_DIGITS];
    for (uint32_t i = NUMBER_DIGITS; i-- != 0; number >>= 4) {
        at[i] = (uint8_t)digits[number & 15];
    }
    text_add(text, bytes_of(at, sizeof at));
}

static bool take_hex_number(bytes_t *text, uint64_t *number) {
    if (text->size < NUMBER_DIGITS) {
        return false;
    }
    *number = 0;
    for (uint32_t i = 0; i < NUMBER_DIGITS; i++) {
        int digit = hex_digit(text->at[i]);
        if (digit < 0) {
            return false;
        }
        *number = *number << 4 | (uint32_t)digit;
    }
    *text = bytes_after(*text, NUMBER_DIGITS);
    return true;
}

mqtt_account_t *mqtt_account_of(plane_t *plane, mqtt_desk_t *desk, account_t *account) {
    mqtt_account_t *found = table_find(&desk->accounts, account->js.id);
    if (found != NULL) {
        return found;
    }
    text_t text = {0};
    text_add_literal(&text, ANSWER_SUBJECTS ">");
    found = calloc(1, sizeof(*found));
    if (found == NULL || sink_add(plane, account, &found->sink, TARGET_MQTT, text_bytes(&text), 0, NULL) != STATUS_OK) {
        free(found);
        return NULL;
    }
    if (mqtt_far_begin(plane, desk, account, &found->far) != STATUS_OK
        || table_put(&desk->accounts, account->js.id, found) != STATUS_OK) {
        sink_remove(plane, &found->far);
        sink_remove(plane, &found->sink);
        free(found);
        return NULL;
    }
    return found;
}

static void compose_answer_subject(uint64_t key, uint64_t whom, const char *what, uint64_t number, text_t *text) {
    text->size = 0;
    text_add_literal(text, ANSWER_SUBJECTS);
    add_hex_number(text, key);
    text_add_literal(text, ".");
    add_hex_number(text, whom);
    text_add_literal(text, ".");
    text_add_literal(text, what);
    if (number != 0) {
        text_add_number(text, number);
    }
}

void mqtt_far_prefix(const mqtt_desk_t *desk, text_t *text) {
    text->size = 0;
    text_add(text, PUBLICATION_FAR_SUBJECTS);
    add_hex_number(text, desk->far);
}

void mqtt_answer_subject(const mqtt_desk_t *desk, const peer_t *peer, const char *what, uint64_t number, text_t *text) {
    compose_answer_subject(desk->key, peer->id, what, number, text);
}

void mqtt_share_subject(const mqtt_desk_t *desk, uint32_t share, const char *what, uint64_t seq, text_t *text) {
    compose_answer_subject(desk->key, share, what, seq, text);
}

static bool ask_api(plane_t *plane, account_t *account, const char *api, bytes_t body, const text_t *reply,
                    uint32_t flags) {
    publication_t publication = {
        .account = account,
        .message = {.subject = bytes_of(api, (uint32_t)strlen(api)), .reply = text_bytes(reply), .payload = body},
        .flags = flags};
    return publish(plane, &publication) != 0;
}

bool mqtt_ask_control(plane_t *plane, account_t *account, const char *api, bytes_t body, const char *what) {
    text_t reply;
    compose_answer_subject(plane->mqtt_desk->open, account->js.id, what, 0, &reply);
    return ask_api(plane, account, api, body, &reply, 0);
}

bool mqtt_ask_inside(plane_t *plane, peer_t *peer, const char *api, bytes_t body, const char *what) {
    text_t reply;
    mqtt_answer_subject(peer->session->shared, peer, what, 0, &reply);
    return ask_api(plane, peer->account, api, body, &reply, PUBLICATION_INSIDE);
}

void mqtt_say_durable(plane_t *plane, peer_t *peer, const char *what, bytes_t packet) {
    const mqtt_account_t *keeper =
        peer->session->kept == NULL
            ? table_find(&((mqtt_desk_t *)peer->session->shared)->accounts, peer->account->js.id)
            : peer->session->kept->keeper;
    text_t at;
    mqtt_answer_subject(peer->session->shared, peer, what, 0, &at);
    if (keeping_hold(plane, keeper->messages, text_bytes(&at), packet) != STATUS_OK) {
        peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for what waits for the disk"));
    }
}

bool mqtt_draft(const session_t *session, mqtt_kind_t kind, uint16_t id, bytes_t *packet) {
    mqtt_desk_t *desk = session->shared;
    desk->packet.size = 0;
    status_t status = mqtt_write_acknowledgement(&session->writer, &desk->packet, kind, id, MQTT_REASON_SUCCESS, NULL);
    *packet = bytes_of(desk->packet.at, (uint32_t)desk->packet.size);
    return status == STATUS_OK;
}

void mqtt_wake(plane_t *plane, mqtt_account_t *keeper) {
    session_t *waiting = keeper->waiting;
    keeper->waiting = NULL;
    while (waiting != NULL) { /* one that has to wait for more gets into the list anew */
        session_t *session = waiting;
        waiting = session->next_waiting;
        session->waits_keeper = false;
        mqtt_go_on(plane, session->owner);
        if (session->enters) {
            mqtt_enter(plane, session->owner);
        }
    }
}

static void said(plane_t *plane, peer_t *peer, bytes_t what, bytes_t packet) {
    if (peer->state != PEER_ADMITTED) {
        return;
    }
    mqtt_emitted(plane, peer, buffer_append(&peer->conn.out.data, packet.at, packet.size));
    if (bytes_equal(what, BYTES_LITERAL("k"))) {
        mqtt_entered(plane, peer);
    }
}

static mqtt_reason_t answer_reason(bytes_t payload) {
    return bytes_starts(payload, BYTES_LITERAL("{\"error\":")) ? MQTT_REASON_QUOTA : MQTT_REASON_SUCCESS;
}

static void stored(plane_t *plane, peer_t *peer, uint64_t id, bytes_t payload) {
    if (id != 0 && id <= UINT16_MAX
        && answers_told(&peer->session->answers, (uint16_t)id, (uint8_t)answer_reason(payload))) {
        mqtt_say_answers(plane, peer);
    }
}

static void stored_marked(plane_t *plane, peer_t *peer, uint64_t mark, bytes_t payload) {
    mqtt_reason_t reason = answer_reason(payload);
    if (mark <= UINT32_MAX && answers_told_mark(&peer->session->answers, (uint32_t)mark, (uint8_t)reason)) {
        mqtt_say_answers(plane, peer);
    }
}

/* From another server. */
static void told_from_afar(plane_t *plane, uint64_t key, uint64_t connection, bytes_t text,
                           const publication_t *publication) {
    uint64_t number;
    peer_t *peer = peer_find(plane, connection);
    bool read = bytes_take(&text, 'r'), marked = !read && bytes_take(&text, 'm');
    if (key != ((mqtt_desk_t *)plane->mqtt_desk)->far || peer == NULL || peer->session == NULL
        || peer->account != publication->account || !decimal_parse(text, &number)) {
        return;
    }
    if (marked) {
        stored_marked(plane, peer, number, publication->message.payload);
    } else if (!read) {
        stored(plane, peer, number, publication->message.payload);
    } else if (peer->session->reads != NULL && peer->session->reads->attempt == number) {
        mqtt_retain_found(plane, peer, &publication->message);
    }
}

void mqtt_told(plane_t *plane, const sink_t *sink, const publication_t *publication) {
    bytes_t text = bytes_after(publication->message.subject, sizeof(ANSWER_SUBJECTS) - 1);
    uint64_t id, connection, key;
    if (!take_hex_number(&text, &key) || !bytes_take(&text, '.') || !take_hex_number(&text, &connection)
        || !bytes_take(&text, '.')) {
        return;
    }
    const mqtt_desk_t *desk = plane->mqtt_desk;
    if (sink->target.kind == TARGET_MQTT_FAR) {
        told_from_afar(plane, key, connection, text, publication);
        return;
    }
    if (key == desk->open) {
        if (bytes_equal(text, BYTES_LITERAL("s"))) {
            mqtt_retain_made(plane, (mqtt_account_t *)sink, publication->message.payload);
        } else if (bytes_equal(text, BYTES_LITERAL("m"))) {
            mqtt_stream_made(plane, (mqtt_account_t *)sink, publication->message.payload);
        } else if (bytes_equal(text, BYTES_LITERAL("i"))) {
            mqtt_far_known(plane, (mqtt_account_t *)sink, publication->message.payload);
        }
        return;
    }
    if (key == desk->key && bytes_equal(text, BYTES_LITERAL("c"))) {
        mqtt_names_ended(plane, connection, publication->message.payload);
        return;
    }
    if (key == desk->key && (bytes_starts(text, BYTES_LITERAL("h")) || bytes_starts(text, BYTES_LITERAL("g")))) {
        bool done = text.at[0] == 'h';
        if (decimal_parse(bytes_after(text, 1), &id)) {
            (done ? mqtt_share_acknowledge : mqtt_share_noted)(plane, (const mqtt_account_t *)sink,
                                                               (uint32_t)connection, id);
        }
        return;
    }
    peer_t *peer = peer_find(plane, connection);
    if (key != desk->key || peer == NULL || peer->session == NULL || peer->account != publication->account) {
        return;
    }
    if (bytes_equal(text, BYTES_LITERAL("r"))) {
        mqtt_retain_found(plane, peer, &publication->message);
    } else if (bytes_equal(text, BYTES_LITERAL("b"))) {
        mqtt_retain_durable(plane, peer);
    } else if (bytes_equal(text, BYTES_LITERAL("p")) || bytes_equal(text, BYTES_LITERAL("k"))) {
        said(plane, peer, text, publication->message.payload);
    } else if (bytes_take(&text, 'l')) {
        if (decimal_parse(text, &id)) {
            mqtt_let_go(plane, peer, id);
        }
    } else if (bytes_take(&text, 'a')) {
        if (peer->session->kept != NULL && decimal_parse(text, &id)) {
            mqtt_kept_acknowledge(plane, peer->session->kept, id);
        }
    } else if (decimal_parse(text, &id)) {
        stored(plane, peer, id, publication->message.payload);
    }
}
