/* test_plane_pressure.c: the credit of connections for what they ask of control. Numbers are exact: no time passes but
 * where a test moves the clock. */
#include "plane_rig.h"

#define CREDIT 64u
#define LEAF_CREDIT 512u

static uint64_t tokens[EXCHANGE_MESSAGES]; /* what control has taken and is not done with, oldest first */
static uint32_t token_count;
static uint32_t payers[EXCHANGE_MESSAGES];

static plane_t *open_asked(void) {
    plane_t *plane = rig_open(NULL, "");
    token_count = 0;
    for (uint32_t account = 1; account <= 3; account++) {
        if (account != RIG_ACCOUNT) rig_account(plane, account, 0, "");
        rig_strings_t strings = {.size = 0};
        rig_pack(&strings, "$API.>");
        rig_pack(&strings, "");
        rig_run(plane, (plane_command_t){.op = COMMAND_SUBSCRIBE, .account = account, .target = 70 + account},
                &strings);
    }
    return plane;
}

static peer_t *client_of(plane_t *plane, uint32_t account) {
    rig_admits_to = account;
    peer_t *peer = rig_client(plane);
    rig_admits_to = RIG_ACCOUNT;
    (void)rig_heard(peer);
    return peer;
}

/* Control takes over what waits, as into a queue of its own. */
static uint32_t take_over(plane_t *plane) {
    uint32_t taken = 0;
    plane_event_t event;
    while (exchange_poll(&plane->exchange, &event, 1) != 0) {
        if (event.kind == EVENT_MESSAGE) {
            payers[token_count] = event.code;
            tokens[token_count++] = event.token;
            taken++;
        }
        exchange_release(&plane->exchange, 1);
    }
    return taken;
}

/* Control is done with the oldest ones. */
static void repay(plane_t *plane, uint32_t count) {
    CHECK(count <= token_count);
    for (uint32_t i = 0; i < count; i++) exchange_repay(&plane->exchange, tokens[i]);
    token_count -= count;
    memmove(tokens, tokens + count, token_count * sizeof(*tokens));
    core_settle(plane);
    core_backlog(plane);
}

static void ask(plane_t *plane, peer_t *peer, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) rig_feed(plane, peer, "PUB $API.x 2\r\n{}\r\n");
}

static void held_until_half_is_paid(void) {
    plane_t *plane = open_asked();
    peer_t *flood = client_of(plane, 1), *other = client_of(plane, 1);
    ask(plane, flood, CREDIT - 1);
    CHECK(!peer_waits(flood, WAITS_CONTROL));
    ask(plane, flood, 1000 - CREDIT + 1);
    CHECK(peer_waits(flood, WAITS_CONTROL));
    CHECK_EQ_U64(CREDIT, flood->owed.messages);
    CHECK_EQ_U64((1000 - CREDIT) * 18, conn_rest(&flood->conn).size);
    CHECK_EQ_U64(CREDIT, take_over(plane));
    core_settle(plane);
    CHECK(peer_waits(flood, WAITS_CONTROL)); /* that control has read them is not enough */
    rig_feed(plane, other, "PUB $API.y 2\r\n{}\r\nPING\r\n");
    CHECK(!peer_waits(other, WAITS_CONTROL));
    RIG_HEARD("PONG\r\n", other);
    repay(plane, CREDIT / 2);
    CHECK(peer_waits(flood, WAITS_CONTROL));
    CHECK_EQ_U64(CREDIT / 2, flood->owed.messages);
    repay(plane, 1);
    CHECK_EQ_U64(CREDIT, flood->owed.messages); /* read again, up to its credit */
    uint32_t asked = CREDIT + 1;
    while (token_count + take_over(plane) != 0) {
        repay(plane, token_count);
        asked++;
    }
    CHECK(asked > CREDIT + 1);
    CHECK(!peer_waits(flood, WAITS_CONTROL));
    CHECK_EQ_U64(0, flood->owed.messages);
    CHECK_EQ_U64(0, flood->owed.bytes);
    CHECK_EQ_U64(0, flood->account->owed.messages);
    CHECK_EQ_U64(0, flood->account->owed.bytes);
    CHECK_EQ_U64(0, conn_rest(&flood->conn).size);
    CHECK_EQ_U64(0, plane->exchange.dropped);
    CHECK_EQ_U64(0, plane->held_count);
    rig_close(plane);
}

static void its_output_goes_on(void) {
    plane_t *plane = open_asked();
    peer_t *flood = client_of(plane, 1), *other = client_of(plane, 1);
    rig_feed(plane, flood, "SUB a 1\r\n");
    ask(plane, flood, CREDIT + 10);
    CHECK(peer_waits(flood, WAITS_CONTROL));
    rig_feed(plane, other, "PUB a 1\r\nx\r\n");
    RIG_HEARD("MSG a 1 1\r\nx\r\n", flood);
    rig_close(plane);
}

static void gone_while_it_owes(void) {
    plane_t *plane = open_asked();
    peer_t *flood = client_of(plane, 1);
    account_t *account = flood->account;
    ask(plane, flood, CREDIT + 10);
    CHECK_EQ_U64(CREDIT, take_over(plane));
    peer_doom(plane, flood, CLOSE_CLIENT, BYTES_NONE);
    core_settle(plane);
    CHECK_EQ_U64(0, plane->held_count);
    CHECK_EQ_U64(CREDIT, account->owed.messages); /* control still has them */
    repay(plane, CREDIT);
    CHECK_EQ_U64(0, account->owed.messages);
    CHECK_EQ_U64(0, plane->exchange.owed.messages);
    rig_close(plane);
}

/* Sixteen connections that flood owe what an account may before it is crowded. */
static void crowded_account(void) {
    plane_t *plane = open_asked();
    peer_t *floods[16];
    for (uint32_t i = 0; i < 16; i++) {
        floods[i] = client_of(plane, 1);
        ask(plane, floods[i], 2 * CREDIT);
        CHECK_EQ_U64(CREDIT, floods[i]->owed.messages);
    }
    peer_t *mate = client_of(plane, 1), *other = client_of(plane, 2);
    ask(plane, mate, 3);
    CHECK_EQ_U64(1, mate->owed.messages);
    CHECK(peer_waits(mate, WAITS_CONTROL));
    ask(plane, other, 2 * CREDIT);
    CHECK_EQ_U64(CREDIT, other->owed.messages);
    CHECK_EQ_U64(17 * CREDIT + 1, take_over(plane));
    CHECK_EQ_U64(1, payers[16 * CREDIT]);
    CHECK_EQ_U64(2, payers[16 * CREDIT + 1]);
    exchange_repay(&plane->exchange, tokens[16 * CREDIT]);
    core_settle(plane);
    core_backlog(plane);
    CHECK_EQ_U64(1, mate->owed.messages); /* its next one */
    CHECK_EQ_U64(0, plane->exchange.dropped);
    repay(plane, 16 * CREDIT);
    CHECK_EQ_U64(16 * CREDIT, mate->account->owed.messages); /* they were read again, until it was crowded again */
    rig_close(plane);
}

static uint64_t offered(plane_t *plane, peer_t *peer, uint32_t count, uint32_t size) {
    static uint8_t payload[1 << 20];
    uint64_t taken = 0;
    for (uint32_t i = 0; i < count && pressure_room(plane, peer); i++) {
        taken += pressure_offer(plane, peer,
                                event_new(EVENT_MESSAGE, BYTES_NONE, BYTES_NONE, BYTES_NONE, bytes_of(payload, size)));
    }
    return taken;
}

static void room_is_left(void) {
    plane_t *plane = open_asked();
    peer_t *one = client_of(plane, 1), *two = client_of(plane, 2), *three = client_of(plane, 3);
    CHECK_EQ_U64(EXCHANGE_MESSAGES / 2, offered(plane, one, EXCHANGE_MESSAGES, 0));
    CHECK_EQ_U64(EXCHANGE_MESSAGES / 4, offered(plane, two, EXCHANGE_MESSAGES, 0));
    CHECK_EQ_U64(EXCHANGE_MESSAGES / 8, offered(plane, three, EXCHANGE_MESSAGES, 0));
    CHECK_EQ_U64(3, plane->exchange.dropped);
    CHECK_EQ_U64(1024, offered(plane, NULL, EXCHANGE_MESSAGES, 0)); /* advisories */
    CHECK_EQ_U64(EXCHANGE_MESSAGES * 7 / 8, plane->exchange.owed.messages - 1024);
    rig_close(plane);
}

static void room_is_left_in_bytes(void) {
    plane_t *plane = open_asked();
    peer_t *one = client_of(plane, 1), *two = client_of(plane, 2);
    uint64_t most = plane->exchange.owed_max >> 20;
    CHECK_EQ_U64(most / 2, offered(plane, one, EXCHANGE_MESSAGES, 1 << 20));
    CHECK_EQ_U64(most / 4, offered(plane, two, EXCHANGE_MESSAGES, 1 << 20));
    rig_close(plane);
}

static peer_t *leaf_of(plane_t *plane) {
    peer_t *leaf = rig_leaf(plane, 0, "", NULL);
    (void)rig_heard(leaf);
    return leaf;
}

static void ask_by_link(plane_t *plane, peer_t *leaf, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) rig_say(plane, leaf, "LMSG $API.x 2\r\n{}\r\n");
    core_settle(plane);
}

static void links_are_held_back_not_cut(void) {
    plane_t *plane = open_asked();
    plane->limits.ping_interval_ns = NS_PER_SECOND;
    peer_t *leaf = leaf_of(plane);
    plane->now.mono_ns += 2 * NS_PER_SECOND;
    core_settle(plane);
    RIG_HEARD("PING\r\n", leaf);
    ask_by_link(plane, leaf, LEAF_CREDIT + 5);
    CHECK(peer_waits(leaf, WAITS_CONTROL));
    CHECK_EQ_U64(LEAF_CREDIT, take_over(plane));
    for (uint32_t i = 0; i < 4; i++) {
        plane->now.mono_ns += NS_PER_SECOND;
        core_settle(plane);
    }
    CHECK(leaf->state == PEER_ADMITTED);
    CHECK(peer_waits(leaf, WAITS_CONTROL));
    repay(plane, LEAF_CREDIT);
    CHECK_EQ_U64(5, take_over(plane));
    CHECK_EQ_U64(0, plane->exchange.dropped);
    rig_close(plane);
}

static void endless_floods_of_links(void) {
    plane_t *plane = open_asked();
    peer_t *leaf = leaf_of(plane), *other = client_of(plane, 1);
    rig_feed(plane, other, "SUB a 1\r\n");
    (void)rig_heard(leaf);
    ask_by_link(plane, leaf, LEAF_CREDIT + 5);
    CHECK(peer_waits(leaf, WAITS_CONTROL));
    CHECK_EQ_U64(LEAF_CREDIT, take_over(plane));
    plane->now.mono_ns += 6 * NS_PER_SECOND; /* and nothing is answered */
    core_settle(plane);
    core_backlog(plane);
    CHECK(!peer_waits(leaf, WAITS_CONTROL));
    CHECK_EQ_U64(5, plane->exchange.dropped);
    (void)rig_heard(other);
    rig_feed(plane, leaf, "LMSG a 1\r\nx\r\n");
    RIG_HEARD("MSG a 1 1\r\nx\r\n", other);
    repay(plane, 10);
    ask_by_link(plane, leaf, 12);
    CHECK_EQ_U64(7, plane->exchange.dropped);
    CHECK_EQ_U64(10, take_over(plane));
    /* It has caught up: the next flood is waited for again. */
    repay(plane, LEAF_CREDIT);
    ask_by_link(plane, leaf, LEAF_CREDIT + 5);
    CHECK(peer_waits(leaf, WAITS_CONTROL));
    CHECK_EQ_U64(7, plane->exchange.dropped);
    rig_close(plane);
}

int main(void) {
    RUN("a connection that owes its credit is not read until half of it is paid, and loses nothing",
        held_until_half_is_paid);
    RUN("who is held back gets what is sent to him", its_output_goes_on);
    RUN("who leaves owing is forgotten, and the account owes until it is paid", gone_while_it_owes);
    RUN("in a crowded account each connection has one request under way, and another account does not notice",
        crowded_account);
    RUN("an account owes no more than all others leave free, so a newcomer finds room", room_is_left);
    RUN("so it is with bytes", room_is_left_in_bytes);
    RUN("a leaf link that is held back is not cut as stale", links_are_held_back_not_cut);
    RUN("a link that floods for seconds is read again, and what exceeds its credit is refused",
        endless_floods_of_links);
    return TEST_RESULT();
}
