/* test_plane_protocol.c: a peer that speaks another protocol than clients and leaf links do: frames with their length
 * in front, each with the account that it is about. What is published reaches it in its own frames, and what it
 * publishes reaches everybody.
 *
 *     frame      length of the remainder, account, verb, text; one byte each but for the text
 *     verbs in   S subject     P subject=payload
 *     verbs out  M subject=payload     ? (are you there)     ! why it is refused
 */
#include "plane_rig.h"

static status_t frame(buffer_t *out, uint32_t account, char verb, bytes_t first, bytes_t second) {
    uint8_t head[3] = {(uint8_t)(2 + first.size + second.size + (second.size != 0)), (uint8_t)('0' + account),
                       (uint8_t)verb};
    status_t status = buffer_append(out, head, sizeof(head));
    if (status == STATUS_OK) status = buffer_append(out, first.at, first.size);
    if (status == STATUS_OK && second.size != 0) status = buffer_append(out, "=", 1);
    return status == STATUS_OK ? buffer_append(out, second.at, second.size) : status;
}

static void framed_act(plane_t *plane, peer_t *peer, account_t *account, char verb, bytes_t text) {
    const uint8_t *equals = memchr(text.at, '=', text.size);
    if (account == NULL) {
        peer_error(plane, peer, BYTES_LITERAL("no such account"));
    } else if (verb == 'S') {
        subscription_t *one;
        CHECK_EQ_I64(STATUS_OK, subscription_add(plane, account, &peer->table, TARGET_CLIENT, peer, text, BYTES_NONE,
                                                 BYTES_NONE, 1, 0, &one));
    } else if (verb == 'P' && equals != NULL) {
        uint32_t size = (uint32_t)(equals - text.at);
        publication_t publication = {
            .account = account,
            .message = {.subject = bytes_of(text.at, size), .payload = bytes_of(equals + 1, text.size - size - 1)},
            .origin = peer};
        (void)publish(plane, &publication);
    } else {
        peer_doom(plane, peer, CLOSE_PROTOCOL, BYTES_LITERAL("no such verb"));
    }
}

static uint32_t framed_input(plane_t *plane, peer_t *peer, bytes_t input) {
    uint32_t used = 0;
    while (peer->state == PEER_ADMITTED && used < input.size) {
        const uint8_t *at = input.at + used;
        uint32_t size = at[0];
        if (input.size - used < 1 + size) break;
        CHECK(size >= 2);
        framed_act(plane, peer, account_find(plane, at[1] - (uint32_t)'0'), (char)at[2], bytes_of(at + 3, size - 2));
        used += 1 + size;
    }
    return used;
}

static status_t framed_emit(peer_t *peer, outq_t *out, const subscription_t *one, const message_t *message) {
    (void)peer;
    return frame(&out->data, one->account->js.id, 'M', message->subject, message->payload);
}

static status_t framed_ping(buffer_t *out) {
    return frame(out, 0, '?', BYTES_NONE, BYTES_NONE);
}

static status_t framed_refuse(buffer_t *out, bytes_t text) {
    return frame(out, 0, '!', text, BYTES_NONE);
}

static const protocol_t protocol_framed = {.input = framed_input,
                                           .emit = framed_emit,
                                           .ping = framed_ping,
                                           .refuse = framed_refuse,
                                           .control_line_factor = 1,
                                           .pending_factor = 1,
                                           .first_ping_ns = FIRST_PING_NS,
                                           .wire = WIRE_CLIENT};

#define OTHER_ACCOUNT 2u

static peer_t *framed(plane_t *plane) {
    peer_t *peer = rig_peer(plane, CONN_CLIENT, "test:3");
    CHECK(peer != NULL);
    peer->protocol = &protocol_framed;
    peer_admit(plane, peer, account_find(plane, RIG_ACCOUNT), &(conn_verdict_t){.flags = RIG_FLAGS});
    core_settle(plane);
    return peer;
}

static void messages_go_both_ways(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *client = rig_client(plane), *peer = framed(plane);
    rig_feed(plane, client, "SUB from.* 1\r\nSUB both 2\r\n");
    rig_feed(plane, peer,
             "\x05"
             "1Sto"
             ""
             "x"
             "\x06"
             "1Sboth");
    rig_feed(plane, client, "PUB tox 5\r\nhello\r\nPUB both 1\r\nb\r\nPUB else 1\r\ne\r\n");
    RIG_HEARD("MSG both 2 1\r\nb\r\n", client);
    RIG_HEARD("\x0b"
              "1Mtox=hello"
              "\x08"
              "1Mboth=b",
              peer);
    rig_feed(plane, peer,
             "\x0d"
             "1Pfrom.it=hi!"
             "\x08"
             "1Pboth=B");
    RIG_HEARD("MSG from.it 1 3\r\nhi!\r\nMSG both 2 1\r\nB\r\n", client);
    RIG_HEARD("\x08"
              "1Mboth=B",
              peer);
    CHECK_EQ_U64(3, peer->out_msgs);
    CHECK_EQ_U64(7, peer->out_bytes);
    rig_close(plane);
}

static void the_account_is_the_operations(void) {
    plane_t *plane = rig_open(NULL, "");
    rig_account(plane, OTHER_ACCOUNT, 0, "");
    peer_t *here = rig_client(plane), *peer = framed(plane);
    rig_admits_to = OTHER_ACCOUNT;
    peer_t *there = rig_client(plane);
    rig_admits_to = RIG_ACCOUNT;
    rig_feed(plane, here, "SUB a 1\r\n");
    rig_feed(plane, there, "SUB a 1\r\n");
    rig_feed(plane, peer,
             "\x03"
             "1Sb"
             "\x03"
             "2Sb");
    rig_feed(plane, peer,
             "\x07"
             "1Pa=one"
             "\x07"
             "2Pa=two");
    RIG_HEARD("MSG a 1 3\r\none\r\n", here);
    RIG_HEARD("MSG a 1 3\r\ntwo\r\n", there);
    rig_feed(plane, here, "PUB b 1\r\nx\r\n");
    rig_feed(plane, there, "PUB b 1\r\ny\r\n");
    RIG_HEARD("\x05"
              "1Mb=x"
              "\x05"
              "2Mb=y",
              peer);
    rig_feed(plane, peer,
             "\x05"
             "7Pa=z");
    RIG_HEARD("\x11"
              "0!no such account",
              peer);
    CHECK_EQ_I64(PEER_ADMITTED, peer->state);
    rig_close(plane);
}

static void pings_and_refusals_are_its_own(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *peer = framed(plane);
    plane->now.mono_ns += 130 * NS_PER_SECOND;
    core_settle(plane);
    RIG_HEARD("\x02"
              "0?",
              peer);
    rig_say(plane, peer,
            "\x03"
            "1Xa");
    RIG_HEARD("\x0e"
              "0!no such verb",
              peer);
    CHECK_EQ_I64(PEER_DOOMED, peer->state);
    core_settle(plane);
    rig_close(plane);
}

static void a_slow_one_is_cut_off_like_any_other(void) {
    plane_t *plane = rig_open(NULL, "");
    plane->limits.max_pending = 1000;
    peer_t *client = rig_client(plane), *peer = framed(plane);
    rig_feed(plane, peer,
             "\x03"
             "1Sa");
    for (uint32_t i = 0; i < 30; i++) {
        rig_say(plane, client, "PUB a 50\r\n01234567890123456789012345678901234567890123456789\r\n");
    }
    CHECK_EQ_I64(PEER_DOOMED, peer->state);
    CHECK_EQ_U64(1, plane->stats.slow_consumers);
    core_settle(plane);
    rig_close(plane);
}

static void promises(void) {
    RUN("messages reach a peer of another protocol in its own frames, and leave it for everybody",
        messages_go_both_ways);
    RUN("one connection may serve many accounts: each operation names its own", the_account_is_the_operations);
    RUN("such a peer is pinged and refused in its own frames", pings_and_refusals_are_its_own);
    RUN("such a peer that does not read is cut off like any other", a_slow_one_is_cut_off_like_any_other);
}

int main(void) {
    promises();
    RIG_BYTE_BY_BYTE(promises);
    return TEST_RESULT();
}
