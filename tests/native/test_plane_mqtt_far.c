/* test_plane_mqtt_far.c: a user's stream at another server of the cluster that keeps what a client of MQTT publishes
 * here, and the other way round; the other server is played over a route, also as one that lies. Whole servers:
 * tests/interop/test_mqtt_cluster.py.
 */
#include <inttypes.h>

#include "mqtt_rig.h"
#include "stream_rig.h"

#include "gateway_rig.h"

#include "base/random.h"
#include "plane/placed.h"
#include "text/subject.h"
#include "verbs/mqtt.h"

static void open_server(const char *directory) {
    plane_limits_t limits = rig_limits(directory);
    limits.clustered = CLUSTERED_ROUTES | CLUSTERED_META;
    plane = rig_open_with(directory, limits);
    named_account(RIG_ACCOUNT, directory != NULL ? ACCOUNT_JETSTREAM : 0, "A");
    mqtt_limit(plane, MQTT_RIG_LIMITS);
    rig_admits_to = RIG_ACCOUNT;
}

static void place(const char *stream, const char *subject) {
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "A");
    rig_pack(&strings, stream);
    if (subject != NULL) rig_pack(&strings, subject);
    rig_run(plane, (plane_command_t){.op = COMMAND_PLACED, .arg = PLACED_STREAM}, &strings);
}

static void say_known(uint64_t what) {
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "");
    rig_pack(&strings, "");
    rig_run(plane, (plane_command_t){.op = COMMAND_PLACED, .arg = what}, &strings);
}

/* A route whose server wants `s.>`, and has the stream S there. */
static peer_t *other_server(void) {
    peer_t *route = route_of("S2");
    rig_feed(plane, route, "RS+ A s.>\r\n");
    rig_heard(route);
    place("S", "s.>");
    return route;
}

/* The subject for the answer, out of what was said to the other server; empty: nothing was. */
static const char *asked_at(peer_t *route) {
    static char at[100];
    const char *heard = rig_heard(route), *from = strstr(heard, "RMSG A $MQTT.N.");
    at[0] = 0;
    if (from != NULL) {
        from = strchr(from + 7, ' ') + 1;
        const char *to = strchr(from, ' ');
        CHECK(to != NULL && (size_t)(to - from) < sizeof at);
        memcpy(at, from, (size_t)(to - from));
        at[to - from] = 0;
        /* right behind it the message itself, with its mark */
        const char *message = strstr(to, "HMSG A s.a "), *mark = strrchr(at, 'm');
        CHECK(message != NULL && mark != NULL);
        char field[60];
        snprintf(field, sizeof field, "Nmqtt-Kept:%s\r\n", mark + 1);
        CHECK(strstr(message, field) != NULL);
    }
    return at;
}

static void answer(peer_t *route, const char *at, const char *payload) {
    char line[300];
    snprintf(line, sizeof line, "RMSG A %s %zu\r\n%s\r\n", at, strlen(payload), payload);
    rig_feed(plane, route, line);
}

#define KEPT "{\"stream\":\"S\",\"seq\":1}"
#define NOT_KEPT "{\"error\":{\"code\":503,\"description\":\"no room\"}}"

static void acknowledged_when_the_other_server_has_it(void) {
    open_server(NULL);
    peer_t *five = mqtt_client_5(plane), *route = other_server();
    mqtt_feed(plane, five, "32 09 0003's/a' 0001 00 'x'");
    MQTT_HEARD("", five);
    char first[100];
    snprintf(first, sizeof first, "%s", asked_at(route));
    CHECK(first[0] != 0);
    mqtt_feed(plane, five, "30 07 0003's/a' 00 'q' 32 06 0001'z' 0002 00");
    CHECK(strstr(rig_heard(route), "$MQTT.N.") == NULL); /* QoS 0, and what no stream has */
    answer(route, first, KEPT);
    MQTT_HEARD("40 02 0001 40 03 0002 10", five);
    mqtt_feed(plane, five, "34 09 0003's/a' 0001 00 'x'");
    char second[100];
    snprintf(second, sizeof second, "%s", asked_at(route));
    answer(route, first, KEPT); /* again, late: the identifier is another message's by now */
    MQTT_HEARD("", five);
    answer(route, second, NOT_KEPT);
    MQTT_HEARD("50 40 0001 97 3c 1f 0039'a limit of the server, the account or a stream is reached'", five);
    rig_close(plane);
}

static void refused_where_nobody_can_be_asked(void) {
    open_server(NULL);
    peer_t *five = mqtt_client_5(plane), *three = mqtt_client_3(plane);
    place("S", "s.>");
    mqtt_feed(plane, five, "32 09 0003's/a' 0001 00 'x'");
    MQTT_HEARD("40 40 0001 97 3c 1f 0039'a limit of the server, the account or a stream is reached'", five);
    uint64_t id = three->id;
    mqtt_feed(plane, three, "32 08 0003's/a' 0001 'x'");
    CHECK(peer_find(plane, id) == NULL);
    place("S", NULL); /* it is deleted */
    mqtt_feed(plane, five, "32 09 0003's/a' 0002 00 'x'");
    MQTT_HEARD("40 03 0002 10", five);
    rig_close(plane);
}

static void ended_when_no_answer_comes(void) {
    open_server(NULL);
    peer_t *route = other_server(), *five = mqtt_client_5(plane);
    uint64_t id = five->id;
    mqtt_feed(plane, five, "32 09 0003's/a' 0001 00 'x'");
    CHECK(asked_at(route)[0] != 0);
    for (uint32_t i = 0; i < 9; i++) {
        time_passes(NS_PER_SECOND);
    }
    CHECK(peer_find(plane, id) != NULL);
    for (uint32_t i = 0; i < 3 && peer_find(plane, id) != NULL; i++) {
        time_passes(NS_PER_SECOND);
        rig_turn(plane);
    }
    CHECK(peer_find(plane, id) == NULL);
    rig_close(plane);
}

/* At a start the table of streams has not been read yet. */
static void nobody_is_answered_before_it_is_known(void) {
    open_server(NULL);
    say_known(PLACED_UNKNOWN);
    peer_t *five = mqtt_client_5(plane);
    mqtt_feed(plane, five, "30 06 0001'z' 00 'qq' 32 09 0003's/a' 0001 00 'x'");
    MQTT_HEARD("", five);
    peer_t *route = other_server();
    CHECK(asked_at(route)[0] == 0);
    say_known(PLACED_KNOWN);
    time_passes(NS_PER_SECOND);
    core_backlog(plane);
    rig_turn(plane);
    answer(route, asked_at(route), KEPT);
    MQTT_HEARD("40 02 0001", five);
    rig_close(plane);
}

/* ---- at the server with the stream ------------------------------------------------------------------------------- */

#define AT "$MQTT.F.0000000000000001.0000000000000002.m7"
#define MESSAGE(mark) "HMSG A s.a 26 27\r\nNATS/1.0\r\nNmqtt-Kept:" mark "\r\n\r\nx\r\n"

static uint64_t stored(void) {
    stream_state_t state;
    store_stream_state(stream_find(&plane->js, 1)->store, &state);
    return state.messages;
}

static void its_stream_answers_when_it_is_on_disk(void) {
    open_server(rig_new_directory());
    peer_t *route = route_of("S2");
    rig_put_stream(plane, rig_stream);
    rig_settle(plane);
    rig_feed(plane, route, "RS+ A $MQTT.F.0000000000000001.>\r\n");
    rig_heard(route);
    rig_feed(plane, route, "RMSG A $MQTT.N.7 " AT " 0\r\n\r\n");
    rig_say(plane, route, "RMSG A s.b 1\r\ny\r\n" MESSAGE("7"));
    CHECK(strstr(rig_heard(route), AT) == NULL);
    rig_settle(plane);
    CHECK(strstr(rig_heard(route), "RMSG A " AT " ") != NULL);
    CHECK_EQ_U64(2, stored());
    rig_feed(plane, route, MESSAGE("7")); /* said once, answered once */
    rig_settle(plane);
    CHECK(strstr(rig_heard(route), AT) == NULL);
    CHECK_EQ_U64(3, stored());
    rig_close_and_remove(plane);
}

/* A server may name no other place for an answer, and no other message. */
static void a_server_that_lies_has_nobody_answered(void) {
    static const char *const lies[] = {
        "RMSG A $MQTT.N.7 inbox.1 0\r\n\r\n",
        "RMSG A $MQTT.N.7 $MQTT.A.0000000000000001.0000000000000002.1 0\r\n\r\n",
        "RMSG A $MQTT.N.7 $MQTT.F.0000000000000001.0000000000000002.m7aaaaaaaaaaaaaaaaaaaaaaaaaaa 0\r\n\r\n",
        "RMSG A $MQTT.N.8 " AT " 0\r\n\r\n",
        "RMSG A $MQTT.N.4294967303 " AT " 0\r\n\r\n",
        "RMSG A $MQTT.N.x " AT " 0\r\n\r\n",
        "RMSG A $MQTT.N. " AT " 0\r\n\r\n",
        "RMSG A $MQTT.N.7 0\r\n\r\n",
        "RMSG A $MQTT.N.0 " AT " 0\r\n\r\n",
    };
    open_server(rig_new_directory());
    peer_t *route = route_of("S2");
    rig_put_stream(plane, rig_stream);
    rig_settle(plane);
    rig_feed(plane, route, "RS+ A $MQTT.F.>\r\nRS+ A $MQTT.A.>\r\nRS+ A inbox.>\r\n");
    rig_heard(route);
    for (uint32_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        rig_feed(plane, route, lies[i]);
        rig_feed(plane, route, MESSAGE("7"));
        rig_settle(plane);
        RIG_HEARD("", route);
        CHECK_EQ_U64(i + 1, stored());
    }
    rig_feed(plane, route, "RMSG A $MQTT.N.7 " AT " 0\r\n\r\n");
    for (uint32_t i = 0; i < 8; i++) rig_feed(plane, route, MESSAGE("9"));
    rig_feed(plane, route, MESSAGE("7")); /* what was said of it is too long ago */
    rig_settle(plane);
    RIG_HEARD("", route);
    rig_close_and_remove(plane);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

#define DUEL_STREAMS 300u

/* Streams come, change and go, by a draw; a list says for each subject how many there are. */
static void as_many_streams_as_a_list_says(void) {
    static char subjects[DUEL_STREAMS][24];
    uint64_t random = 28;
    open_server(NULL);
    account_t *account = account_find(plane, RIG_ACCOUNT);
    for (uint32_t step = 0; step < 6000; step++) {
        uint32_t which = random_below(&random, DUEL_STREAMS);
        char name[24], asked[24];
        snprintf(name, sizeof name, "S%" PRIu32, which);
        snprintf(subjects[which], sizeof subjects[which],
                 random_below(&random, 2) == 0 ? "t.%" PRIu32 : "t.%" PRIu32 ".>", random_below(&random, 40));
        bool goes = random_below(&random, 3) == 0;
        place(name, goes ? NULL : subjects[which]);
        if (goes) subjects[which][0] = 0;
        snprintf(asked, sizeof asked, random_below(&random, 2) == 0 ? "t.%" PRIu32 : "t.%" PRIu32 ".x",
                 random_below(&random, 40));
        uint32_t expected = 0, found;
        for (uint32_t i = 0; i < DUEL_STREAMS; i++) {
            expected += subjects[i][0] != 0 && subject_matches(rig_text(asked), rig_text(subjects[i]));
        }
        CHECK(placed_keep(plane, account, rig_text(asked), &found));
        CHECK_EQ_U64(expected, found);
    }
    rig_close(plane);
}

int main(void) {
    RUN("a message is acknowledged when the stream of another server has it",
        acknowledged_when_the_other_server_has_it);
    RUN("a message is refused where the server with the stream is away", refused_where_nobody_can_be_asked);
    RUN("a publisher whose stream does not answer is closed after ten seconds", ended_when_no_answer_comes);
    RUN("QoS 1 waits until it is known which streams there are", nobody_is_answered_before_it_is_known);
    RUN("a stream answers another server once, when the message is on disk", its_stream_answers_when_it_is_on_disk);
    RUN("a server that lies has nobody answered in its name", a_server_that_lies_has_nobody_answered);
    RUN("the table of other servers' streams is as a list of them", as_many_streams_as_a_list_says);
    return TEST_RESULT();
}
