/* test_plane_vouch.c: who stores a schedule at another server of the cluster (plane/vouch.h): its name goes with the
 * message to servers that are believed, and is believed of these alone. Whoever listens there does not see it. */
#include "stream_rig.h"

#include "route_rig.h"
#include "text/headers.h"

#define AT "Nats-Schedule: @every 1h\r\n"
#define FORGED "Leafd-Schedule-Author: root\r\n"

static const route_terms_t believed = {.flags = ROUTE_UNSUB_ORIGIN, .peer = 7};
static const route_terms_t other = {.flags = ROUTE_UNSUB_ORIGIN};

static peer_t *named(const char *author, const char *allow) {
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "");
    if (allow[0] != 0) {
        rig_pack(&strings, allow);
    }
    for (uint32_t i = 0; i < 4; i++) {
        rig_pack(&strings, "");
    }
    rig_pack(&strings, author);
    return rig_admit(plane, COMMAND_ADMIT, CONN_CLIENT, (conn_verdict_t){.flags = RIG_FLAGS}, &strings);
}

static void send(peer_t *peer, const char *verb, const char *fields) {
    char header[256], line[512];
    int size = snprintf(header, sizeof header, "NATS/1.0\r\n%s\r\n", fields);
    snprintf(line, sizeof line, "%s s.x _I.r %d %d\r\n%sx\r\n", verb, size, size + 1, header);
    rig_feed(plane, peer, line);
}

/* What a route hears of a client's message with those fields. */
static void told(peer_t *route, peer_t *client, const char *fields, const char *expected) {
    char line[512];
    send(client, "HPUB", fields);
    int size = (int)strlen(expected) + 12;
    snprintf(line, sizeof line, "HMSG A s.x _I.r %d %d\r\nNATS/1.0\r\n%s\r\nx\r\n", size, size + 1, expected);
    RIG_HEARD(line, route);
}

static void told_to_the_believed(void) {
    peer_t *route = route_with(0, believed, NULL), *stranger = route_with(0, other, NULL);
    rig_feed(plane, route, "RS+ A s.>\r\n");
    rig_feed(plane, stranger, "RS+ A s.>\r\n");
    (void)rig_heard(route);
    (void)rig_heard(stranger);
    peer_t *user = named("alice", ""), *few = named("bob", "s.x"), *none = client_of(RIG_ACCOUNT);
    told(route, user, AT "Nats-Schedule-Target: s.t\r\n",
         "Leafd-Schedule-Author: alice\r\n" AT "Nats-Schedule-Target: s.t\r\n");
    told(route, few, AT "Nats-Schedule-Target: s.t\r\n",
         "Leafd-Schedule-Author: -\r\n" AT "Nats-Schedule-Target: s.t\r\n");
    told(route, none, AT "Nats-Schedule-Target: s.t\r\n",
         "Leafd-Schedule-Author: \r\n" AT "Nats-Schedule-Target: s.t\r\n");
    told(route, few, "Leafd-Schedule-Author: root\r\nNats-Scheduler: s.p\r\n",
         "Leafd-Schedule-Author: -\r\nNats-Scheduler: s.p\r\n");
    told(route, few, "Leafd-Schedule-Author: root\r\nA: b\r\n", "A: b\r\n");
    told(route, few, FORGED FORGED "A: b\r\n", "A: b\r\n");
    told(route, few, FORGED FORGED "Nats-Scheduler: s.p\r\n", "Leafd-Schedule-Author: -\r\nNats-Scheduler: s.p\r\n");
    told(route, user, "Leafd-Schedule-Author: a\rX" FORGED "A: b\r\n", "A: b\r\n");
    told(route, user, "A: b\r\n", "A: b\r\n");
    (void)rig_heard(stranger);
    told(stranger, user, AT "Nats-Schedule-Target: s.t\r\n", AT "Nats-Schedule-Target: s.t\r\n");
}

static uint64_t messages(void) {
    stream_state_t state;
    store_stream_state(stream_find(&plane->js, 1)->store, &state);
    return state.messages;
}

/* By that route, into a stream that takes schedules. */
static void comes(peer_t *route, const char *fields) {
    send(route, "HMSG A", fields);
    rig_settle(plane);
}

static void believed_of_these_alone(void) {
    plane_limits_t limits = rig_limits(rig_new_directory());
    limits.clustered = CLUSTERED_ROUTES;
    plane = rig_open_with(rig_directory, limits);
    named_account(RIG_ACCOUNT, ACCOUNT_JETSTREAM, "A");
    rig_admits_to = RIG_ACCOUNT;
    stream_config_t config = rig_stream;
    config.flags |= STREAM_ALLOW_SCHEDULES | STREAM_ALLOW_ROLLUP;
    rig_put_stream(plane, config);
    rig_settle(plane);
    peer_t *route = route_with(0, believed, NULL), *stranger = route_with(0, other, NULL);
    peer_t *client = client_of(RIG_ACCOUNT);
    rig_feed(plane, client, "SUB s.> 1\r\n");
    rig_feed(plane, route, "RS+ A _I.>\r\n");
    comes(route, "Leafd-Schedule-Author: alice\r\n" AT "Nats-Schedule-Target: s.t\r\n");
    CHECK_EQ_U64(1, messages());
    RIG_HEARD("HMSG s.x 1 _I.r 65 66\r\nNATS/1.0\r\n" AT "Nats-Schedule-Target: s.t\r\n\r\nx\r\n", client);
    stored_message_t message;
    bytes_t author;
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream_find(&plane->js, 1)->store, 1, &message));
    CHECK(headers_find(message.header, SCHEDULE_AUTHOR, &author));
    CHECK(bytes_equal(rig_text("alice"), author));
    CHECK(!headers_has_prefix(message.header, rig_text("Leafd-")));
    (void)rig_heard(route);
    comes(route, "Leafd-Schedule-Author: -\r\n" AT "Nats-Schedule-Target: s.t\r\n");
    CHECK(strstr(rig_heard(route), "10190") != NULL);
    comes(route, AT "Nats-Schedule-Target: s.t\r\n");
    CHECK(strstr(rig_heard(route), "10190") != NULL);
    comes(stranger, "Leafd-Schedule-Author: alice\r\n" AT "Nats-Schedule-Target: s.t\r\n");
    comes(stranger, FORGED FORGED AT "Nats-Schedule-Target: s.t\r\n");
    CHECK_EQ_U64(1, messages());
    rig_close_and_remove(plane);
}

int main(void) {
    RUN_CLUSTERED("a server that is believed is told who sends a schedule and may use its names, and no other is",
                  told_to_the_believed);
    RUN("that is believed of such a server alone, and seen by nobody who listens", believed_of_these_alone);
    return TEST_RESULT();
}
