/* test_plane_ends.c: however much a connection or an import leaves behind, no turn goes over more of it than visits.h
 * allows: subscriptions, outstanding replies, allowed replies, thousands of connections at once. */
#include "base/visits.h"
#include "plane/import.h"
#include "plane/peer.h"

#include "plane_rig.h"

#define E RIG_ACCOUNT
#define I 2u
#define MANY 20000u /* more than a turn may visit */
#define PEERS 2000u

_Static_assert(MANY > VISITS_A_TURN_MAX && PEERS * SWEEP_PEER > VISITS_A_TURN_MAX, "one turn may not do all of it");

/* Imports of I: the service `local`, or none. */
static void imports(plane_t *plane, bool any) {
    import_row_t row = {.account = E, .kind = IMPORT_SERVICE, .response = RESPONSE_STREAM};
    rig_strings_t strings = {.size = 0};
    for (const char *const *at = (const char *const[]){"svc", "local", "", "", "", NULL}; any && *at != NULL; at++)
        rig_pack(&strings, *at);
    rig_run(plane,
            (plane_command_t){
                .op = COMMAND_IMPORTS, .account = I, .body = (const uint8_t *)&row, .body_size = any ? sizeof(row) : 0},
            &strings);
}

static plane_t *open_both(void) {
    plane_t *plane = rig_open(NULL, "");
    rig_account(plane, I, 0, "");
    imports(plane, true);
    core_settle(plane);
    return plane;
}

static peer_t *client(plane_t *plane, uint32_t account) {
    rig_admits_to = account;
    return rig_client(plane);
}

static uint32_t outstanding(plane_t *plane) {
    return account_find(plane, I)->imports->reply_count;
}

/* The turn in which something ends, and those after it. */
static void turns_within_budget(plane_t *plane) {
    uint32_t turns = 0;
    do {
        plane->more = false;
        core_settle(plane);
        CHECK(visits_take() <= VISITS_AN_END_MAX);
        turns++;
    } while (plane->more && turns < 1000);
    CHECK(turns > 1 && turns < 1000);
}

/* MANY requests of one client, which e hears and does not answer. */
static peer_t *ask_many(plane_t *plane, peer_t *e) {
    peer_t *i = client(plane, I);
    rig_feed(plane, e, "SUB svc 1\r\n");
    for (uint32_t n = 0; n < MANY; n++) {
        rig_say(plane, i, "PUB local _I 0\r\n\r\n");
        core_backlog(plane);
        core_settle(plane);
        if (n % 64 == 0) rig_heard(e);
    }
    CHECK_EQ_U64(MANY, outstanding(plane));
    (void)visits_take();
    return i;
}

/* The reply subject of what e heard last. */
static void answer_last(plane_t *plane, peer_t *e) {
    char line[128];
    const char *at = strstr(rig_heard(e), "_R_.");
    CHECK(at != NULL);
    snprintf(line, sizeof(line), "PUB %.*s 2\r\nok\r\n", (int)strcspn(at, " "), at);
    rig_feed(plane, e, line);
}

static void replies_of_who_leaves(void) {
    plane_t *plane = open_both();
    peer_doom(plane, ask_many(plane, client(plane, E)), CLOSE_CLIENT, BYTES_NONE);
    turns_within_budget(plane);
    CHECK_EQ_U64(0, outstanding(plane));
    rig_close(plane);
}

static void replies_that_expire(void) {
    plane_t *plane = open_both();
    ask_many(plane, client(plane, E));
    plane->now.mono_ns += REPLY_THRESHOLD_NS + NS_PER_SECOND;
    turns_within_budget(plane);
    CHECK_EQ_U64(0, outstanding(plane));
    rig_close(plane);
}

static void replies_of_an_import_that_ends(void) {
    plane_t *plane = open_both();
    peer_t *e = client(plane, E), *i = ask_many(plane, e), *hears = client(plane, I);
    rig_feed(plane, hears, "SUB _I 1\r\n");
    rig_feed(plane, i, "PUB local _I 0\r\n\r\n");
    (void)visits_take();
    imports(plane, false);
    CHECK(visits_take() <= VISITS_AN_END_MAX);
    CHECK(account_find(plane, I)->imports == NULL);
    answer_last(plane, e); /* nothing crosses it from now on, though most of it is still there */
    RIG_HEARD("", hears);
    CHECK(leftovers_wait(&plane->leftovers));
    turns_within_budget(plane);
    CHECK(!leftovers_wait(&plane->leftovers));
    rig_close(plane);
}

/* A stop has no later turn. */
static void a_stop_meanwhile(void) {
    plane_t *plane = open_both();
    ask_many(plane, client(plane, E));
    imports(plane, false);
    core_settle(plane);
    CHECK(leftovers_wait(&plane->leftovers));
    rig_close(plane);
}

static void subscriptions_of_who_leaves(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *peer = client(plane, E);
    for (uint32_t n = 0; n < MANY; n++) {
        char line[64];
        snprintf(line, sizeof(line), "SUB a.%u %u\r\n", n, n + 1);
        rig_feed(plane, peer, line);
    }
    (void)visits_take();
    peer_doom(plane, peer, CLOSE_CLIENT, BYTES_NONE);
    turns_within_budget(plane);
    CHECK_EQ_U64(0, plane->stats.subscriptions);
    rig_close(plane);
}

static void connections_whose_users_go(void) {
    plane_t *plane = rig_open(NULL, "");
    for (uint32_t n = 0; n < PEERS; n++) client(plane, E);
    CHECK_EQ_U64(PEERS, plane->stats.connections);
    (void)visits_take();
    for (peer_t *peer = plane->all_peers; peer != NULL; peer = peer->next)
        peer_doom(plane, peer, CLOSE_CLIENT, BYTES_NONE);
    uint64_t visits = 0;
    for (plane->more = true; plane->more;) {
        plane->more = false;
        core_settle(plane);
        uint64_t turn = visits_take();
        CHECK(turn <= VISITS_AN_END_MAX);
        visits += turn;
    }
    CHECK_EQ_U64(0, plane->stats.connections);
    CHECK(visits >= PEERS * SWEEP_PEER);
    CHECK(visits <= PEERS * (SWEEP_PEER + 2)); /* who has to wait is not looked at in each turn */
    rig_close(plane);
}

int main(void) {
    RUN("the outstanding replies of who leaves are freed in steps", replies_of_who_leaves);
    RUN("outstanding replies that expire together are freed in steps", replies_that_expire);
    RUN("an import that a reload takes away ends at once, and its outstanding replies are freed in steps",
        replies_of_an_import_that_ends);
    RUN("a stop between two of these steps frees all of it", a_stop_meanwhile);
    RUN("the subscriptions of who leaves are removed in steps", subscriptions_of_who_leaves);
    RUN("thousands of connections whose users go are closed in steps", connections_whose_users_go);
    return TEST_RESULT();
}
