/* test_plane_known.c: what the plane does for who comes without asking control: INFO, and logins that are known. */
#include "command/greeting.h"
#include "mqtt_rig.h"

#define LISTENER 7u
#define CONNECT "{\"user\":\"a\",\"pass\":\"b\"}"

/* A listener without a socket; the driver's part is done here. */
static void listen_to(plane_t *plane, plane_listener_t *listener) {
    *listener = (plane_listener_t){.id = LISTENER, .kind = CONN_CLIENT};
    plane->listeners = listener;
}

static void say_greeting(plane_t *plane, const char *info) {
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, info);
    rig_pack(&strings, "");
    secure_t how = {0};
    rig_run(plane,
            (plane_command_t){
                .op = COMMAND_GREET, .target = LISTENER, .body = (const uint8_t *)&how, .body_size = sizeof(how)},
            &strings);
}

static peer_t *come(plane_t *plane, const plane_listener_t *listener, const char *address) {
    peer_t *peer = rig_peer(plane, greeting_kind(listener), address);
    CHECK(peer != NULL);
    if (listener->greeting != NULL) {
        greeting_from(peer, rig_text(address));
        greeting_peer(plane, peer, listener);
    }
    return peer;
}

static void know_of_kind(plane_t *plane, uint32_t kind, bytes_t connect, uint32_t account, const char *denied) {
    rig_strings_t strings = {.size = 0};
    rig_pack_bytes(&strings, connect);
    rig_pack(&strings, "INFO \1 \2\r\n");
    rig_pack(&strings, "");
    if (denied != NULL) {
        rig_pack(&strings, denied);
    }
    for (int i = 0; i < 3; i++) {
        rig_pack(&strings, "");
    }
    conn_verdict_t verdict = {.flags = RIG_FLAGS};
    rig_run(plane,
            (plane_command_t){.op = COMMAND_REMEMBER,
                              .account = account,
                              .arg = kind,
                              .body = (const uint8_t *)&verdict,
                              .body_size = sizeof(verdict)},
            &strings);
}

static void know(plane_t *plane, const char *connect, uint32_t account, const char *denied) {
    know_of_kind(plane, CONN_CLIENT, rig_text(connect), account, denied);
}

/* connect "": all. */
static void forget(plane_t *plane, uint32_t kind, const char *connect, uint64_t token) {
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, connect);
    rig_run(plane, (plane_command_t){.op = COMMAND_FORGET, .arg = kind, .token = token}, &strings);
}

static void end(plane_t *plane, plane_listener_t *listener) {
    greeting_drop(listener);
    plane->listeners = NULL;
    rig_close(plane);
}

static void info_is_said_at_once(void) {
    plane_t *plane = rig_open(NULL, "");
    plane_listener_t listener;
    listen_to(plane, &listener);
    say_greeting(plane, "INFO {\1,\2}\r\n");
    peer_t *peer = come(plane, &listener, "[::1]:5");
    char expected[64];
    snprintf(expected, sizeof expected, "INFO {%llu,::1}\r\n", (unsigned long long)peer->id);
    RIG_HEARD(expected, peer);
    plane_event_t event;
    plane->now.mono_ns += EXCHANGE_QUIET_NS;
    core_settle(plane);
    CHECK(rig_event(plane, EVENT_OPENED, &event));
    CHECK_EQ_U64(peer->id, event.target);
    CHECK_EQ_U64(1, event.arg2);
    say_greeting(plane, "");
    peer = come(plane, &listener, "127.0.0.1:6");
    RIG_HEARD("", peer);
    CHECK(rig_event(plane, EVENT_OPENED, &event));
    CHECK_EQ_U64(0, event.arg2);
    end(plane, &listener);
}

static void known_login_needs_no_verdict(void) {
    plane_t *plane = rig_open(NULL, "");
    plane_listener_t listener;
    listen_to(plane, &listener);
    say_greeting(plane, "INFO {}\r\n");
    know(plane, CONNECT, RIG_ACCOUNT, "secret");
    peer_t *peer = come(plane, &listener, "127.0.0.1:5");
    RIG_HEARD("INFO {}\r\n", peer);
    rig_feed(plane, peer, "CONNECT " CONNECT "\r\nPING\r\nPUB secret 0\r\n\r\n");
    CHECK(peer->state == PEER_ADMITTED && peer->account->client_count == 1);
    char expected[128];
    snprintf(expected, sizeof expected,
             "PONG\r\nINFO %llu 127.0.0.1\r\n-ERR 'Permissions Violation for Publish to \"secret\"'\r\n",
             (unsigned long long)peer->id);
    core_backlog(plane);
    RIG_HEARD(expected, peer);
    plane_event_t event;
    plane->now.mono_ns += EXCHANGE_QUIET_NS;
    core_settle(plane);
    CHECK(rig_event(plane, EVENT_CAME, &event));
    CHECK(event.target == peer->id && event.code == CONN_CLIENT && event.header_size == 0);
    CHECK_TEXT("127.0.0.1:5", (const char *)event.subject, event.subject_size);
    CHECK_TEXT(CONNECT, (const char *)event.payload, event.payload_size);
    end(plane, &listener);
}

/* Or another event about it stands behind the one that it came: then its line is an event of its own. */
static void who_was_told_of_before_is_told_of_again(void) {
    plane_t *plane = rig_open(NULL, "");
    plane_listener_t listener;
    listen_to(plane, &listener);
    say_greeting(plane, "INFO {}\r\n");
    know(plane, CONNECT, RIG_ACCOUNT, NULL);
    for (uint32_t way = 0; way < 2; way++) {
        plane_event_t event;
        peer_t *peer = come(plane, &listener, "127.0.0.1:5");
        if (way == 0) {
            plane->now.mono_ns += EXCHANGE_QUIET_NS;
            core_settle(plane);
        } else {
            event_entry_t *entry = event_new(EVENT_SECURED, BYTES_NONE, BYTES_NONE, BYTES_NONE, BYTES_NONE);
            CHECK(entry != NULL);
            entry->event.target = peer->id;
            peer_tell(plane, peer, entry);
        }
        rig_feed(plane, peer, "CONNECT " CONNECT "\r\n");
        plane->now.mono_ns += EXCHANGE_QUIET_NS;
        core_settle(plane);
        CHECK(rig_event(plane, EVENT_OPENED, &event));
        CHECK(rig_event(plane, EVENT_LINE, &event));
        CHECK(event.target == peer->id && event.code == LINE_CONNECT && event.arg == 1);
        CHECK_TEXT(CONNECT, (const char *)event.payload, event.payload_size);
    }
    end(plane, &listener);
}

/* Control is woken once. Where it has to begin (TLS) or is told of the address first, it hears at once. */
static void a_client_of_mqtt_begins_itself(void) {
    plane_t *plane = mqtt_open(NULL);
    plane_listener_t listener = {.id = LISTENER, .kind = CONN_MQTT};
    plane->listeners = &listener;
    plane_event_t event;
    peer_t *peer = come(plane, &listener, "127.0.0.1:5");
    core_settle(plane);
    CHECK(!rig_event(plane, EVENT_OPENED, &event));
    mqtt_say(plane, peer, MQTT_CONNECT_3("c"));
    CHECK(rig_event(plane, EVENT_OPENED, &event));
    CHECK(event.target == peer->id && event.arg2 == 1);
    CHECK(rig_event(plane, EVENT_LINE, &event));
    peer = come(plane, &listener, "127.0.0.1:6");
    plane->now.mono_ns += EXCHANGE_QUIET_NS;
    core_settle(plane);
    CHECK(rig_event(plane, EVENT_OPENED, &event));
    CHECK(event.target == peer->id);
    for (uint32_t way = 0; way < 2; way++) {
        listener.secure = way == 0;
        listener.proxied = way == 1;
        peer = come(plane, &listener, "127.0.0.1:7");
        CHECK(rig_event(plane, EVENT_OPENED, &event));
        CHECK(event.target == peer->id && event.arg2 == 0);
    }
    end(plane, &listener);
}

#define MQTT_USER "c0 0001'a' 0001'b'" /* as control remembers it: a user and a password, and which they are */
#define MQTT_LOGIN(flags, name, user) "10 13 0004'MQTT' 04" flags "003c 0001'" name "' 0001'" user "' 0001'b'"

/* Says that from a new connection of the listener: is control asked? It hears all that was said in any case. */
static bool mqtt_asks(plane_t *plane, const plane_listener_t *listener, const char *connect, peer_t **peer) {
    plane_event_t event;
    *peer = come(plane, listener, "127.0.0.1:5");
    mqtt_say(plane, *peer, connect);
    plane->now.mono_ns += EXCHANGE_QUIET_NS;
    core_settle(plane);
    bool in = (*peer)->state == PEER_ADMITTED;
    CHECK(rig_event(plane, in ? EVENT_CAME : EVENT_LINE, &event));
    CHECK(event.target == (*peer)->id && (in ? event.code == CONN_MQTT : event.arg == 0));
    CHECK((event.header_size != 0) == in);
    CHECK(!in || memmem(event.payload, event.payload_size, event.header + 1, event.header_size - 1) != NULL);
    mqtt_rig_bytes_t said = mqtt_bytes(connect);
    CHECK_BYTES(said.at, said.size, event.payload, event.payload_size);
    return (*peer)->state != PEER_ADMITTED;
}

/* Whoever says the same of the user is let in, whatever else CONNECT says, and with its own identifier. A client of
 * NATS that sends the same bytes is not: the user may be one of MQTT alone. */
static void a_user_of_mqtt_is_known(void) {
    plane_t *plane = mqtt_open(NULL);
    plane_listener_t listener = {.id = LISTENER, .kind = CONN_MQTT}, nats = {.id = LISTENER, .kind = CONN_CLIENT};
    plane->listeners = &listener;
    peer_t *peer, *same;
    CHECK(mqtt_asks(plane, &listener, MQTT_LOGIN("c2", "c", "a"), &peer));
    mqtt_rig_bytes_t user = mqtt_bytes(MQTT_USER), web = mqtt_bytes("c0 0001'x' 0001'b'");
    know_of_kind(plane, CONN_MQTT, bytes_of(user.at, (uint32_t)user.size), RIG_ACCOUNT, NULL);
    CHECK(!mqtt_asks(plane, &listener, MQTT_LOGIN("c2", "d", "a"), &peer));
    MQTT_HEARD("20 02 00 00", peer);
    CHECK(
        !mqtt_asks(plane, &listener, "10 1c 0004'MQTT' 04 c6 0000 0001'e' 0001'w' 0004'gone' 0001'a' 0001'b'", &peer));
    CHECK(peer->session->will != NULL);
    CHECK(!mqtt_asks(plane, &listener, MQTT_LOGIN("c2", "d", "a"), &same)); /* takes the name of the one before */
    CHECK(mqtt_asks(plane, &listener, MQTT_LOGIN("c2", "d", "x"), &peer));
    know_of_kind(plane, CONN_MQTT | KNOWN_WEB, bytes_of(web.at, (uint32_t)web.size), RIG_ACCOUNT, NULL);
    CHECK(mqtt_asks(plane, &listener, MQTT_LOGIN("c2", "d", "x"), &peer)); /* that is known of WebSocket alone */
    CHECK(mqtt_asks(plane, &listener, "10 10 0004'MQTT' 04 82 0000 0001'c' 0001'a'", &peer));
    CHECK(mqtt_asks(plane, &listener, "10 12 0004'MQTT' 04 c2 0000 0000 0001'a' 0001'b'", &peer)); /* has no name */
    char line[32] = "CONNECT ";
    memcpy(line + 8, user.at, user.size);
    memcpy(line + 8 + user.size, "\r\n", 2);
    peer = come(plane, &nats, "127.0.0.1:5");
    peer->greeted = true;
    (void)peer_input(plane, peer, bytes_of(line, (uint32_t)(8 + user.size + 2)));
    CHECK(peer->state == PEER_WAITING);
    peer = come(plane, &listener, "127.0.0.1:5");
    peer->excess = true;
    mqtt_say(plane, peer, MQTT_LOGIN("c2", "f", "a"));
    CHECK(peer->state == PEER_DOOMED);
    MQTT_HEARD("20 02 00 03", peer);
    end(plane, &listener);
}

/* (Who is let in is not asked about: that is another event.) */
static bool asks(plane_t *plane, peer_t *peer, const char *connect) {
    char line[256];
    snprintf(line, sizeof line, "CONNECT %s\r\n", connect);
    rig_feed(plane, peer, line);
    plane_event_t event;
    CHECK(peer->state == PEER_WAITING || peer->state == PEER_ADMITTED);
    bool asked = false;
    while (rig_event(plane, EVENT_LINE, &event)) {
        asked = asked || (event.target == peer->id && event.arg == 0);
    }
    CHECK(asked == (peer->state == PEER_WAITING));
    return asked;
}

static void all_others_are_asked_about(void) {
    plane_t *plane = rig_open(NULL, "");
    plane_listener_t listener;
    listen_to(plane, &listener);
    know(plane, CONNECT, RIG_ACCOUNT, NULL);
    CHECK(asks(plane, come(plane, &listener, "127.0.0.1:5"), CONNECT)); /* not greeted */
    say_greeting(plane, "INFO {}\r\n");
    CHECK(asks(plane, come(plane, &listener, "127.0.0.1:5"), "{\"user\":\"a\",\"pass\":\"c\"}"));
    CHECK(asks(plane, come(plane, &listener, "127.0.0.1:5"), "{\"user\":\"a\",\"pass\":\"b\" }"));
    CHECK(!asks(plane, come(plane, &listener, "127.0.0.1:5"), CONNECT));
    account_find(plane, RIG_ACCOUNT)->flags |= ACCOUNT_REMOVED;
    CHECK(asks(plane, come(plane, &listener, "127.0.0.1:5"), CONNECT));
    account_find(plane, RIG_ACCOUNT)->flags &= ~(uint32_t)ACCOUNT_REMOVED;
    forget(plane, CONN_CLIENT, "", 0);
    CHECK(asks(plane, come(plane, &listener, "127.0.0.1:5"), CONNECT));
    end(plane, &listener);
}

/* Control says which: as many as it likes, each once, and takes back any of them. What they take is given back. */
static void those_are_known_that_control_says(void) {
    plane_t *plane = rig_open(NULL, "");
    plane_listener_t listener;
    listen_to(plane, &listener);
    say_greeting(plane, "INFO {}\r\n");
    uint64_t before = plane->memory.interest.used;
    know(plane, "{\"user\":\"7\"}", RIG_ACCOUNT, NULL);
    uint64_t one = plane->memory.interest.used - before;
    CHECK(one != 0);
    char connect[32];
    for (int i = 0; i < 3000; i++) {
        snprintf(connect, sizeof connect, "{\"user\":\"%d\"}", i);
        know(plane, connect, RIG_ACCOUNT, NULL);
        know(plane, connect, RIG_ACCOUNT, NULL);
    }
    uint64_t known = plane->memory.interest.used;
    for (int i = 0; i < 2; i++) { /* the second one is not there any more */
        forget(plane, CONN_CLIENT, "{\"user\":\"7\"}", 0);
    }
    CHECK_EQ_U64(one, known - plane->memory.interest.used);
    forget(plane, CONN_MQTT, "{\"user\":\"8\"}", 0);
    static const int tried[] = {0, 6, 7, 8, 2999};
    for (uint32_t i = 0; i < 5; i++) {
        snprintf(connect, sizeof connect, "{\"user\":\"%d\"}", tried[i]);
        CHECK(asks(plane, come(plane, &listener, "127.0.0.1:5"), connect) == (tried[i] == 7));
    }
    forget(plane, CONN_CLIENT, "", 0);
    CHECK_EQ_U64(before, plane->memory.interest.used);
    CHECK(asks(plane, come(plane, &listener, "127.0.0.1:5"), connect));
    plane->memory.interest.limit = (before + one) * 2 - 8; /* half of it is for subscriptions */
    know(plane, connect, RIG_ACCOUNT, NULL);
    CHECK(asks(plane, come(plane, &listener, "127.0.0.1:5"), connect));
    plane->memory.interest.limit += 32;
    know(plane, connect, RIG_ACCOUNT, NULL);
    CHECK(!asks(plane, come(plane, &listener, "127.0.0.1:5"), connect));
    end(plane, &listener);
}

static void events_stay_in_order(void) {
    plane_t *plane = rig_open(NULL, "");
    plane_listener_t listener;
    listen_to(plane, &listener);
    say_greeting(plane, "INFO {}\r\n");
    know(plane, CONNECT, RIG_ACCOUNT, NULL);
    plane_event_t event;
    while (exchange_poll(&plane->exchange, &event, 1) != 0) {
        exchange_release(&plane->exchange, 1);
    }
    peer_t *peer = come(plane, &listener, "127.0.0.1:5");
    rig_feed(plane, peer, "CONNECT " CONNECT "\r\n");
    peer_doom(plane, peer, CLOSE_CLIENT, BYTES_NONE);
    core_settle(plane);
    CHECK_EQ_U64(0, exchange_poll(&plane->exchange, &event, 1)); /* control is not woken for that */
    CHECK(event_deadline(&plane->exchange) == plane->now.mono_ns + EXCHANGE_QUIET_NS);
    CHECK(core_sleep_ns(plane) <= EXCHANGE_QUIET_NS);
    forget(plane, CONN_CLIENT, "", 1);
    static const uint32_t kinds[] = {EVENT_CAME, EVENT_CLOSED, EVENT_DONE};
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQ_U64(1, exchange_poll(&plane->exchange, &event, 1));
        CHECK_EQ_U64(kinds[i], event.kind);
        exchange_release(&plane->exchange, 1);
    }
    end(plane, &listener);
}

static void promises(void) {
    RUN("control hears of a client of MQTT together with its CONNECT", a_client_of_mqtt_begins_itself);
    RUN("who says the same of its user needs no verdict with MQTT either", a_user_of_mqtt_is_known);
    RUN("who comes to a listener with a greeting gets its INFO at once, with its number and address",
        info_is_said_at_once);
    RUN("a known CONNECT is admitted without asking, with its rights, and control is told",
        known_login_needs_no_verdict);
    RUN("where control has heard of a connection, or of its handshake, the line that it is known by is told by itself",
        who_was_told_of_before_is_told_of_again);
    RUN("control is asked about a CONNECT that differs in a byte, at other listeners, of accounts that are gone, and "
        "when "
        "all was forgotten",
        all_others_are_asked_about);
    RUN("those logins are known that control says, each once, until it takes them back",
        those_are_known_that_control_says);
    RUN("control is woken for many logins at once, and hears of each before what came behind it", events_stay_in_order);
}

int main(void) {
    promises();
    RIG_BYTE_BY_BYTE(promises);
    return TEST_RESULT();
}
