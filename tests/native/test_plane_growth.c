/* test_plane_growth.c: a table that grows is no work of one turn: subscriptions of a client, what a link asks for, what
 * other links are told of, queue groups, outstanding replies. Each turn is fed a few lines; what it visits is in
 * proportion to them, however large the tables are. So is what the first link of an account costs. How a table grows:
 * test_map_memory.c.
 */
#include "base/visits.h"
#include "plane/import.h"
#include "plane/peer.h"

#include "plane_rig.h"

#define E RIG_ACCOUNT
#define I 2u
#define MANY 100000u /* more than a turn may visit, and large tables */
#define A_TURN 50u   /* lines */
/* A turn's lines find a few tables at their next bucket each, with a chain of a few entries. */
#define VISITS_MAX (A_TURN * 40u)

_Static_assert(VISITS_MAX < VISITS_A_TURN_MAX && MANY > 4 * VISITS_A_TURN_MAX, "one turn may not do all of it");

typedef int line_t(char *to, size_t room, uint32_t n);

static int line_sub(char *to, size_t room, uint32_t n) {
    return snprintf(to, room, "SUB a.%u.b %u\r\n", n, n);
}

static int line_group(char *to, size_t room, uint32_t n) {
    return snprintf(to, room, "SUB a q%u %u\r\n", n, n);
}

static int line_interest(char *to, size_t room, uint32_t n) {
    return snprintf(to, room, "LS+ a.%u\r\n", n);
}

/* other: hears of it. */
static void feed_many(plane_t *plane, peer_t *peer, line_t *line, peer_t *other) {
    static char lines[A_TURN * 80];
    uint64_t all = 0;
    (void)visits_take();
    for (uint32_t n = 0; n < MANY;) {
        size_t size = 0;
        for (uint32_t i = 0; i < A_TURN && n < MANY; i++, n++)
            size += (size_t)line(lines + size, sizeof(lines) - size, n);
        rig_feed(plane, peer, lines);
        uint64_t visits = visits_take();
        CHECK(visits <= VISITS_MAX);
        all += visits;
        if (other != NULL) rig_heard(other);
    }
    CHECK_EQ_U64(MANY, plane->stats.subscriptions);
    CHECK(all > MANY); /* growth says what it visits */
}

static void subscriptions_of_a_client(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *client = rig_client(plane);
    feed_many(plane, client, line_sub, NULL);
    rig_close(plane);
}

static void queue_groups_of_a_subject(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *client = rig_client(plane);
    feed_many(plane, client, line_group, NULL);
    rig_close(plane);
}

static void what_a_link_asks_for(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *link = rig_leaf(plane, RIG_FLAGS, "", NULL), *other = rig_leaf(plane, RIG_FLAGS, "", NULL);
    feed_many(plane, link, line_interest, other);
    rig_close(plane);
}

static uint32_t lines_heard(peer_t *peer) {
    uint32_t lines = 0;
    for (const char *at = rig_heard(peer); (at = strstr(at, "LS+ a.")) != NULL; at++) lines++;
    return lines;
}

static void the_first_link_of_an_account(void) {
    plane_t *plane = rig_open(NULL, "");
    rig_account(plane, I, ACCOUNT_LINKED, "");
    rig_admits_to = I;
    feed_many(plane, rig_client(plane), line_sub, NULL);
    peer_t *link = rig_leaf(plane, RIG_FLAGS, "", NULL);
    rig_admits_to = E;
    CHECK(visits_take() <= VISITS_MAX);
    uint32_t told = lines_heard(link);
    CHECK(told > 0 && told < MANY / 2);
    for (uint32_t turns = 0; told < MANY && turns < MANY; turns++) {
        rig_turn(plane);
        CHECK(visits_take() <= VISITS_MAX);
        told += lines_heard(link);
    }
    CHECK_EQ_U64(MANY, told);
    rig_close(plane);
}

static void outstanding_replies(void) {
    plane_t *plane = rig_open(NULL, "");
    rig_account(plane, I, 0, "");
    import_row_t row = {.account = E, .kind = IMPORT_SERVICE, .response = RESPONSE_STREAM};
    rig_strings_t strings = {.size = 0};
    for (const char *const *at = (const char *const[]){"svc", "local", "", "", "", NULL}; *at != NULL; at++)
        rig_pack(&strings, *at);
    rig_run(
        plane,
        (plane_command_t){.op = COMMAND_IMPORTS, .account = I, .body = (const uint8_t *)&row, .body_size = sizeof(row)},
        &strings);
    peer_t *answers = rig_client(plane);
    rig_feed(plane, answers, "SUB svc 1\r\n");
    rig_admits_to = I;
    peer_t *asks = rig_client(plane);
    rig_admits_to = E;
    for (uint32_t n = 0; n < REPLIES_PER_IMPORT_MAX; n++) {
        (void)visits_take();
        rig_feed(plane, asks, "PUB local _I 0\r\n\r\n");
        CHECK(visits_take() <= VISITS_MAX);
        if (n % 64 == 0) rig_heard(answers);
    }
    CHECK_EQ_U64(REPLIES_PER_IMPORT_MAX, account_find(plane, I)->imports->reply_count);
    rig_close(plane);
}

int main(void) {
    RUN("a client's subscriptions grow a table in steps", subscriptions_of_a_client);
    RUN("queue groups of one subject grow a table in steps", queue_groups_of_a_subject);
    RUN("what a link asks for, and what others are told of it, grows tables in steps", what_a_link_asks_for);
    RUN("the first link of an account does not go through all that it has", the_first_link_of_an_account);
    RUN("outstanding replies grow a table in steps", outstanding_replies);
    return TEST_RESULT();
}
