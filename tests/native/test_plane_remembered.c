/* test_plane_remembered.c: what peers make the plane remember has a share of memory, and who loses what when the share
 * is full. */
#include "plane_rig.h"
#include "plane/import.h"

#define E RIG_ACCOUNT
#define I 8u
#define J 9u
#define SHARE (64u << 10)
#define LONG 1000

static plane_t *plane;

/* The account's import of E's service. */
static void import_service(uint32_t account) {
    import_row_t row = {.account = E, .kind = IMPORT_SERVICE, .response = RESPONSE_SINGLETON};
    rig_strings_t strings = {.size = 0};
    rig_account(plane, account, 0, "");
    for (const char *const *at = (const char *const[]){"svc", "svc", "", "", "", NULL}; *at != NULL; at++)
        rig_pack(&strings, *at);
    rig_run(plane,
            (plane_command_t){
                .op = COMMAND_IMPORTS, .account = account, .body = (const uint8_t *)&row, .body_size = sizeof(row)},
            &strings);
}

static peer_t *client(uint32_t account) {
    rig_admits_to = account;
    return rig_client(plane);
}

static void start(void) {
    plane = rig_open(NULL, "");
    import_service(I);
    import_service(J);
    core_settle(plane);
    plane->memory.replies.share.limit = SHARE;
    plane->memory.allowed.share.limit = SHARE;
}

static void end(void) {
    rig_admits_to = RIG_ACCOUNT;
    core_close(plane);
    CHECK_EQ_U64(0, plane->memory.replies.share.used);
    CHECK_EQ_U64(0, plane->memory.allowed.share.used);
    CHECK_EQ_U64(0, map_count(plane->memory.lists.sets));
    conn_scratch_close(&plane->input);
    free(plane);
}

/* Requests to subject whose replies are long. */
static void request_times(peer_t *from, const char *subject, uint32_t times) {
    static char line[LONG + 100];
    static const char x[LONG] = {[0 ... LONG - 1] = 'x'};
    for (uint32_t i = 0; i < times; i++) {
        snprintf(line, sizeof(line), "PUB %s r.%u.%.*s 0\r\n\r\n", subject, i, LONG, x);
        rig_feed(plane, from, line);
        CHECK(plane->memory.replies.share.used <= SHARE);
        CHECK(plane->memory.allowed.share.used <= SHARE);
    }
}

static uint32_t outstanding(uint32_t account) {
    return account_find(plane, account)->imports->reply_count;
}

/* The reply of the last request that it heard. */
static void last_reply(peer_t *responder, char out[LONG + 100]) {
    const char *said = rig_heard(responder);
    const char *last = NULL;
    for (const char *at = said; (at = strstr(at, "MSG svc 1 ")) != NULL; at++) last = at;
    CHECK(last != NULL);
    snprintf(out, LONG + 100, "%.*s", (int)strcspn(last + 10, " "), last + 10);
}

static void import_with_the_most(void) {
    start();
    peer_t *responder = client(E), *flood = client(I), *other = client(J);
    rig_feed(plane, responder, "SUB svc 1\r\n");
    rig_feed(plane, other, "SUB r 1\r\nPUB svc r 0\r\n\r\n");
    char first[LONG + 100], line[LONG + 200];
    last_reply(responder, first);
    for (int i = 0; i < 4; i++) {
        request_times(flood, "svc", 50);
        (void)rig_heard(responder);
    }
    uint32_t kept = outstanding(I);
    CHECK(kept > 40 && kept < 64);
    CHECK_EQ_U64(1, outstanding(J));
    snprintf(line, sizeof(line), "PUB %s 2\r\nok\r\n", first);
    rig_feed(plane, responder, line);
    RIG_HEARD("MSG r 1 2\r\nok\r\n", other);
    end();
}

/* It answers: in an exchange with one request at a time nothing is lost in the middle of the flood. */
static void newest_are_kept(void) {
    start();
    peer_t *responder = client(E), *flood = client(I);
    char last[LONG + 100], line[LONG + 200];
    rig_feed(plane, responder, "SUB svc 1\r\n");
    request_times(flood, "svc", 200);
    rig_feed(plane, flood, "SUB r 1\r\nPUB svc r 0\r\n\r\n");
    last_reply(responder, last);
    snprintf(line, sizeof(line), "PUB %s 2\r\nok\r\n", last);
    rig_feed(plane, responder, line);
    RIG_HEARD("MSG r 1 2\r\nok\r\n", flood);
    end();
}

static peer_t *responder_of_requests(void) {
    static const char *const lists[4] = {"nothing", "", "", ""};
    rig_admits_to = E;
    return rig_client_with(plane, (conn_verdict_t){.flags = RIG_FLAGS, .response_max = 1}, lists);
}

static void connection_with_the_most(void) {
    start();
    peer_t *a = responder_of_requests(), *b = responder_of_requests(), *asks = client(E);
    rig_feed(plane, a, "SUB a 1\r\n");
    rig_feed(plane, b, "SUB b 1\r\n");
    rig_feed(plane, asks, "SUB one 1\r\nSUB last 2\r\nPUB b one 0\r\n\r\n");
    for (int i = 0; i < 4; i++) {
        request_times(asks, "a", 100);
        (void)rig_heard(a);
    }
    rig_feed(plane, asks, "PUB a last 0\r\n\r\n");
    (void)rig_heard(a);
    CHECK(plane->memory.allowed.share.used > SHARE / 4 * 3);
    rig_feed(plane, b, "PUB one 1\r\n1\r\n");
    rig_feed(plane, a, "PUB last 1\r\n2\r\n");
    RIG_HEARD("MSG one 1 1\r\n1\r\nMSG last 2 1\r\n2\r\n", asks);
    static char first[LONG + 100];
    static const char x[LONG] = {[0 ... LONG - 1] = 'x'};
    snprintf(first, sizeof(first), "PUB r.0.%.*s 1\r\n3\r\n", LONG, x);
    rig_feed(plane, a, first);
    CHECK(strstr(rig_heard(a), "-ERR 'Permissions Violation for Publish to \"r.0.") != NULL);
    end();
}

/* As many as one connection may have: the next one takes the oldest's place, not its own. */
static void as_many_as_one_may_have(void) {
    start();
    plane->memory.allowed.share.limit = 16u << 20;
    peer_t *a = responder_of_requests(), *asks = client(E);
    rig_feed(plane, a, "SUB a 1\r\n");
    rig_feed(plane, asks, "SUB r.> 1\r\n");
    char line[64];
    for (uint32_t i = 0; i <= 16384; i++) {
        snprintf(line, sizeof(line), "PUB a r.%u 0\r\n\r\n", i);
        rig_say(plane, asks, line);
        if (i % 1000 == 0) {
            rig_turn(plane);
            (void)rig_heard(a);
        }
    }
    rig_turn(plane);
    (void)rig_heard(a);
    rig_feed(plane, a, "PUB r.16384 0\r\n\r\nPUB r.1 0\r\n\r\nPUB r.0 0\r\n\r\n");
    RIG_HEARD("MSG r.16384 1 0\r\n\r\nMSG r.1 1 0\r\n\r\n", asks);
    RIG_HEARD("-ERR 'Permissions Violation for Publish to \"r.0\"'\r\n", a);
    end();
}

static peer_t *user_of(const char *allowed, const char *denied) {
    const char *const lists[4] = {allowed, denied, "", ""};
    rig_admits_to = E;
    return rig_client_with(plane, (conn_verdict_t){.flags = RIG_FLAGS}, lists);
}

static void same_lists_are_there_once(void) {
    start();
    peer_t *a = user_of("a.>", "a.no"), *b = user_of("a.>", "a.no"), *c = user_of("a.>a", "no"), *hears = client(E);
    CHECK_EQ_U64(2, map_count(plane->memory.lists.sets));
    rig_feed(plane, hears, "SUB > 1\r\n");
    peer_doom(plane, a, CLOSE_CLIENT, BYTES_NONE);
    rig_turn(plane);
    rig_turn(plane);
    CHECK_EQ_U64(2, map_count(plane->memory.lists.sets));
    rig_feed(plane, b, "PUB a.b 1\r\nx\r\nPUB a.no 1\r\nx\r\n");
    RIG_HEARD("-ERR 'Permissions Violation for Publish to \"a.no\"'\r\n", b);
    rig_feed(plane, c, "PUB a.b 1\r\nx\r\n");
    RIG_HEARD("-ERR 'Permissions Violation for Publish to \"a.b\"'\r\n", c);
    RIG_HEARD("MSG a.b 1 1\r\nx\r\n", hears);
    peer_doom(plane, b, CLOSE_CLIENT, BYTES_NONE);
    rig_turn(plane);
    rig_turn(plane);
    CHECK_EQ_U64(1, map_count(plane->memory.lists.sets));
    end();
}

/* So many, from a number on: how many of them are refused. */
static uint32_t refused_of(peer_t *peer, bool link, uint32_t from, uint32_t count) {
    char line[64];
    uint32_t refused = 0;
    for (uint32_t i = from; i < from + count; i++) {
        if (link) {
            snprintf(line, sizeof(line), "LS+ some.long.subject.%u\r\n", i);
        } else {
            snprintf(line, sizeof(line), "SUB some.long.subject.%u %u\r\n", i, i);
        }
        rig_feed(plane, peer, line);
        refused += strstr(rig_heard(peer), "-ERR 'maximum subscriptions exceeded'\r\n") != NULL;
    }
    return refused;
}

static void subscriptions_have_a_share(void) {
    start();
    plane->memory.interest.limit = SHARE;
    peer_t *many = client(E), *later = client(E);
    uint32_t refused = refused_of(many, false, 0, 200);
    CHECK(refused > 100 && refused < 190);
    CHECK(plane->memory.interest.used <= SHARE);
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_ALARM, &event));
    CHECK_EQ_U64(ALARM_INTEREST, event.code);
    CHECK(!rig_event(plane, EVENT_ALARM, &event)); /* one line for all of them */
    CHECK_EQ_U64(4, refused_of(later, false, 0, 20));
    peer_doom(plane, later, CLOSE_CLIENT, BYTES_NONE);
    rig_turn(plane);
    rig_feed(plane, many, "UNSUB 0\r\nUNSUB 1\r\nUNSUB 2\r\nUNSUB 3\r\nUNSUB 4\r\nUNSUB 5\r\nUNSUB 6\r\nUNSUB 7\r\n");
    CHECK_EQ_U64(0, refused_of(many, false, 1000, 7));
    rig_admits_to = RIG_ACCOUNT;
    peer_t *link = rig_leaf(plane, 0, "far", NULL);
    uint64_t id = link->id;
    (void)rig_heard(link);
    CHECK(refused_of(link, true, 0, 100) > 80);
    CHECK(peer_find(plane, id) != NULL);
    core_close(plane);
    CHECK_EQ_U64(0, plane->memory.interest.used);
    conn_scratch_close(&plane->input);
    free(plane);
}

int main(void) {
    RUN("when the share of replies is full, the import with the most of them loses its oldest, others none",
        import_with_the_most);
    RUN("who asks while the share of replies is full is answered all the same", newest_are_kept);
    RUN("when the share of allowed replies is full, the connection with the most of them loses its oldest, others none",
        connection_with_the_most);
    RUN("beyond the replies that one connection may send, its oldest goes", as_many_as_one_may_have);
    RUN("beyond the share of subscriptions further ones are refused, but a few of each connection; what ends makes "
        "room",
        subscriptions_have_a_share);
    RUN("connections with the same permission lists have them once, until the last of them leaves",
        same_lists_are_there_once);
    return TEST_RESULT();
}
