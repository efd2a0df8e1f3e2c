/* test_tls.c: TLS over socket pairs: what passes, what is said when it fails. Not here: many at a time
 * (test_tls_seats.c). */

#include "net/loop.h"
#include "tls_ends.h"

static bool both(const ends_t *ends, tls_outcome_t outcome) {
    return tls_outcome(ends->server.tls) == outcome && tls_outcome(ends->client.tls) == outcome;
}

static void shake(ends_t *ends, size_t relayed) {
    for (uint32_t i = 0; i < 20000 && !both(ends, TLS_OPEN) && !ends->server.closed; i++) turn(ends, relayed);
    if (!both(ends, TLS_OPEN)) {
        FAIL("no handshake: %.*s / %.*s", (int)tls_reason(ends->server.tls).size,
             (const char *)tls_reason(ends->server.tls).at, (int)tls_reason(ends->client.tls).size,
             (const char *)tls_reason(ends->client.tls).at);
    }
}

/* ---- what passes ------------------------------------------------------------------------------------------------- */

static void pass(ends_t *ends, end_t *from, end_t *to, const uint8_t *text, uint32_t size, size_t relayed) {
    size_t sent = 0;
    to->size = 0;
    for (uint32_t i = 0; i < 2000000 && to->size < size; i++) {
        if (sent < size) sent += send_text(from, text + sent, size - sent);
        turn(ends, relayed);
    }
    CHECK_BYTES(text, size, to->at, to->size);
}

static void text_passes_both_ways(void) {
    ends_t ends;
    uint8_t *text = malloc(LONG_TEXT);
    CHECK(text != NULL);
    for (uint32_t i = 0; i < LONG_TEXT; i++) text[i] = (uint8_t)(i * 31 + i / 251);
    start(&ends, false);
    shake(&ends, SIZE_MAX);
    const uint32_t sizes[] = {1, 2, 16383, 16384, 16385, LONG_TEXT};
    for (uint32_t i = 0; i < 6; i++) {
        pass(&ends, &ends.server, &ends.client, text, sizes[i], SIZE_MAX);
        pass(&ends, &ends.client, &ends.server, text, sizes[i], SIZE_MAX);
    }
    free(text);
    stop(&ends);
}

/* The ticket leaves with the answer to what came with the handshake's end; without an answer it leaves all the same. */
static void a_ticket_leaves_with_the_first_answer(void) {
    static const char ping[] = "PING", pong[] = "PONG";
    for (uint32_t answered = 0; answered < 2; answered++) {
        ends_t ends;
        start(&ends, false);
        for (uint32_t i = 0; i < 100 && tls_outcome(ends.client.tls) != TLS_OPEN; i++) {
            next_turn();
            receive(i % 2 == 0 ? &ends.client : &ends.server);
        }
        CHECK(tls_outcome(ends.server.tls) == TLS_GOING);
        CHECK_EQ_U64(sizeof ping, send_text(&ends.client, ping, sizeof ping));
        next_turn();
        receive(&ends.server);
        CHECK_BYTES(ping, sizeof ping, ends.server.at, ends.server.size);
        CHECK_EQ_I64(0, arrived(&ends.client));
        CHECK(transport_tls.wanted(ends.server.tls) == LOOP_WRITE);
        size_t answer = answered != 0 ? sizeof pong : 0;
        CHECK_EQ_U64(answer, send_text(&ends.server, pong, answer));
        CHECK(arrived(&ends.client) > (int)answer);
        CHECK(transport_tls.wanted(ends.server.tls) == 0);
        receive(&ends.client);
        CHECK_BYTES(pong, (uint32_t)answer, ends.client.at, ends.client.size);
        pass(&ends, &ends.client, &ends.server, (const uint8_t *)ping, sizeof ping, 0);
        stop(&ends);
    }
}

static void bytes_may_come_one_by_one(void) {
    ends_t ends;
    start(&ends, true);
    shake(&ends, 1);
    pass(&ends, &ends.server, &ends.client, (const uint8_t *)"INFO {}\r\n", 9, 1);
    pass(&ends, &ends.client, &ends.server, (const uint8_t *)"CONNECT {}\r\nPING\r\n", 18, 1);
    stop(&ends);
}

static void little_room_loses_nothing(void) {
    ends_t ends;
    uint8_t text[5000];
    for (uint32_t i = 0; i < sizeof text; i++) text[i] = (uint8_t)(i % 253);
    start(&ends, false);
    shake(&ends, SIZE_MAX);
    for (uint32_t i = 0; i < 50; i++) CHECK_EQ_U64(100, send_text(&ends.client, text + 100 * i, 100));
    for (uint32_t i = 0; i < 5000 && ends.server.size < sizeof text; i++) {
        size_t got = 0;
        status_t status =
            transport_tls.receive(ends.server.tls, ends.server.fd, ends.server.at + ends.server.size, 7, &got);
        CHECK(status == STATUS_OK || status == STATUS_AGAIN);
        ends.server.size += (uint32_t)got;
    }
    CHECK_BYTES(text, sizeof text, ends.server.at, ends.server.size);
    CHECK_EQ_U64(0, transport_tls.pending(ends.server.tls));
    stop(&ends);
}

static void the_end_is_seen_behind_the_last_byte(void) {
    ends_t ends;
    start(&ends, false);
    shake(&ends, SIZE_MAX);
    ends.server.size = 0;
    CHECK_EQ_U64(4, send_text(&ends.client, "last", 4));
    transport_tls.close(ends.client.tls, ends.client.fd);
    receive(&ends.server);
    CHECK_BYTES("last", 4, ends.server.at, ends.server.size);
    CHECK(!ends.server.closed);
    CHECK(transport_tls.pending(ends.server.tls) != 0);
    receive(&ends.server);
    CHECK(ends.server.closed);
    ends.client.tls = tls_new(desk, ends.client_context, &(tls_wish_t){.flags = 0});
    stop(&ends);
}

static void taken_up_again(uint32_t server_flags) {
    ends_t first, second;
    tls_facts_t facts;
    start_with(&first, tls_rig_context(&pem, server_flags, NULL, 0),
               tls_rig_context(&pem, TLS_CLIENT | TLS_VERIFY, NULL, 0), TLS_RIG_NAME, false);
    shake(&first, SIZE_MAX);
    turn(&first, SIZE_MAX); /* the ticket comes behind the handshake */
    tls_facts(first.client.tls, &facts);
    CHECK(!facts.resumed && facts.version == 0x0304 && facts.certificate.size != 0);
    uint64_t full = facts.bytes_in + facts.bytes_out;
    tls_facts_free(&facts);
    CHECK(shutdown(first.server.fd, SHUT_RDWR) == 0); /* the link is cut: nobody says goodbye */
    receive(&first.client);
    CHECK(first.client.closed);
    stop_end(&first.server);
    stop_end(&first.client);
    start_with(&second, first.server_context, first.client_context, TLS_RIG_NAME, false);
    shake(&second, SIZE_MAX);
    tls_facts(second.client.tls, &facts);
    CHECK(facts.resumed && facts.bytes_in + facts.bytes_out < full);
    tls_facts_free(&facts);
    stop(&second);
}

static void a_session_is_taken_up_again(void) {
    taken_up_again(0);
    taken_up_again(TLS_VERIFY);
}

/* ---- what does not ----------------------------------------------------------------------------------------------- */

static void fails(tls_context_t *server, tls_context_t *client, const char *name, bool at_server, const char *why) {
    ends_t ends;
    start_with(&ends, server, client, name, false);
    for (uint32_t i = 0; i < 20; i++) turn(&ends, SIZE_MAX);
    bytes_t reason = tls_reason(at_server ? ends.server.tls : ends.client.tls);
    char text[TLS_REASON_SIZE + 1] = "";
    memcpy(text, reason.at, reason.size);
    if (strstr(text, why) == NULL) FAIL("expected \"%s\" in \"%s\"", why, text);
    CHECK(at_server ? ends.server.closed : ends.client.closed);
    stop(&ends);
}

static void a_failure_is_told_in_one_line(void) {
    static const char no_pin[] = "0000000000000000000000000000000000000000000000000000000000000000";
    tls_pem_t other, expired;
    tls_rig_certificate(&other, 300);
    tls_rig_certificate(&expired, -30);
    fails(tls_rig_context(&pem, 0, NULL, 0), tls_rig_context(&pem, TLS_CLIENT | TLS_VERIFY, NULL, 0), "else.example",
          false, "it is not of else.example (CN=rig, valid from");
    fails(tls_rig_context(&pem, 0, NULL, 0), tls_rig_context(&other, TLS_CLIENT | TLS_VERIFY, NULL, 0), TLS_RIG_NAME,
          false, "self-signed certificate");
    fails(tls_rig_context(&expired, 0, NULL, 0), tls_rig_context(&expired, TLS_CLIENT | TLS_VERIFY, NULL, 0),
          TLS_RIG_NAME, false, "certificate has expired (CN=rig, valid from");
    fails(tls_rig_context(&expired, 0, NULL, 0), tls_rig_context(&expired, TLS_CLIENT | TLS_VERIFY, NULL, 0),
          TLS_RIG_NAME, true, "our certificate has expired (CN=rig, valid from");
    fails(tls_rig_context(&pem, TLS_VERIFY, no_pin, 0), tls_rig_context(&pem, TLS_CLIENT, NULL, 0), TLS_RIG_NAME, true,
          "certificate not pinned");
    fails(tls_rig_context(&pem, TLS_VERIFY, NULL, 0), tls_rig_context(&other, TLS_CLIENT, NULL, 0), TLS_RIG_NAME, true,
          "the peer's certificate is refused");
}

static void what_is_no_handshake_costs_nothing(void) {
    static const char *const begins[] = {"CONNECT {}\r\n", "GET / HTTP/1.1\r\n", "\x16\x05garbage",
                                         "\x16\x03\x01\xff\xff...", "\x16\x03\x01\x00\x00..."};
    for (uint32_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        ends_t ends;
        start(&ends, false);
        size_t size = i == 4 ? 7 : strlen(begins[i]);
        CHECK_EQ_I64(size, write(ends.client.fd, begins[i], size));
        receive(&ends.server);
        CHECK(ends.server.closed);
        CHECK_EQ_I64(TLS_FAILED, tls_outcome(ends.server.tls));
        CHECK(tls_reason(ends.server.tls).size != 0);
        CHECK_EQ_U64(0, tls_desk_shaking(desk));
        stop(&ends);
    }
}

static void half_a_record_waits_without_a_seat(void) {
    ends_t ends;
    start(&ends, false);
    static const uint8_t half[] = {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc};
    for (uint32_t i = 0; i < sizeof half; i++) {
        CHECK_EQ_I64(1, write(ends.client.fd, half + i, 1));
        receive(&ends.server);
        CHECK(!ends.server.closed);
        CHECK_EQ_U64(0, tls_desk_shaking(desk));
    }
    CHECK_EQ_I64(LOOP_READ, transport_tls.wanted(ends.server.tls));
    tls_give_up(ends.server.tls);
    CHECK_EQ_I64(TLS_FAILED, tls_outcome(ends.server.tls));
    stop(&ends);
}

/* ---- raw clients ------------------------------------------------------------------------------------------------- */

static SSL *raw_client(SSL_CTX **context, int version, int fd) {
    *context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_max_proto_version(*context, version);
    SSL *ssl = SSL_new(*context);
    SSL_set_fd(ssl, fd);
    SSL_set_connect_state(ssl);
    return ssl;
}

static void a_renegotiation_is_refused(void) {
    ends_t ends;
    SSL_CTX *context;
    start(&ends, false);
    SSL *ssl = raw_client(&context, TLS1_2_VERSION, ends.client.fd);
    for (uint32_t i = 0; i < 20 && SSL_do_handshake(ssl) != 1; i++) {
        next_turn();
        receive(&ends.server);
    }
    CHECK_EQ_I64(TLS_OPEN, tls_outcome(ends.server.tls));
    CHECK_EQ_I64(1, SSL_renegotiate(ssl));
    bool again = false;
    for (uint32_t i = 0; i < 20 && !again; i++) {
        again = SSL_do_handshake(ssl) == 1;
        receive(&ends.server);
        CHECK_EQ_U64(0, tls_desk_shaking(desk));
    }
    CHECK(!again || !SSL_renegotiate_pending(ssl));
    tls_facts_t facts;
    tls_facts(ends.server.tls, &facts);
    CHECK_EQ_U64(0x0303, facts.version);
    tls_facts_free(&facts);
    SSL_free(ssl);
    SSL_CTX_free(context);
    stop(&ends);
}

static void updates_of_keys_that_nobody_reads_are_bounded(void) {
    ends_t ends;
    SSL_CTX *context;
    start(&ends, false);
    SSL *ssl = raw_client(&context, TLS1_3_VERSION, ends.client.fd);
    for (uint32_t i = 0; i < 20 && tls_outcome(ends.server.tls) != TLS_OPEN; i++) {
        (void)SSL_do_handshake(ssl);
        next_turn(); /* what was left of the last one may be no time at all on a busy machine */
        receive(&ends.server);
    }
    CHECK_EQ_I64(TLS_OPEN, tls_outcome(ends.server.tls));
    for (uint32_t i = 0; i < 100000 && !ends.server.closed; i++) {
        if (SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) == 1) (void)SSL_write(ssl, "x", 1);
        ends.server.size = 0;
        receive(&ends.server);
    }
    CHECK(ends.server.closed);
    SSL_free(ssl);
    SSL_CTX_free(context);
    stop(&ends);
}

/* A record of 27 bytes each: without a bound one turn would follow thousands. */
static void updates_of_keys_in_one_turn_are_bounded(void) {
    for (uint32_t many = TLS_UPDATES_MAX; many <= TLS_UPDATES_MAX + 1; many++) {
        ends_t ends;
        SSL_CTX *context;
        start(&ends, false);
        SSL *ssl = raw_client(&context, TLS1_3_VERSION, ends.client.fd);
        for (uint32_t i = 0; i < 20 && tls_outcome(ends.server.tls) != TLS_OPEN; i++) {
            (void)SSL_do_handshake(ssl);
            next_turn();
            receive(&ends.server);
        }
        for (uint32_t i = 0; i < many; i++) {
            CHECK(SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1 && SSL_do_handshake(ssl) == 1);
        }
        CHECK(SSL_write(ssl, "x", 1) == 1);
        ends.server.size = 0;
        receive(&ends.server);
        CHECK_EQ_I64(many > TLS_UPDATES_MAX, ends.server.closed);
        CHECK_EQ_U64(many > TLS_UPDATES_MAX ? 0 : 1, ends.server.size);
        SSL_free(ssl);
        SSL_CTX_free(context);
        stop(&ends);
    }
}

int main(void) {
    signal(SIGPIPE, SIG_IGN); /* the raw clients write with write() */
    if (tls_desk_open(&desk) != STATUS_OK) return 1;
    tls_rig_certificate(&pem, 300);
    RUN("text of any size passes both ways", text_passes_both_ways);
    RUN("a ticket leaves with the first answer, or without one", a_ticket_leaves_with_the_first_answer);
    RUN("bytes may come one by one, of the handshake too", bytes_may_come_one_by_one);
    RUN("a reader with little room loses nothing", little_room_loses_nothing);
    RUN("the end of a connection is seen behind its last byte", the_end_is_seen_behind_the_last_byte);
    RUN("a session is taken up again with fewer bytes", a_session_is_taken_up_again);
    RUN("why a handshake failed is told in one line", a_failure_is_told_in_one_line);
    RUN("what does not begin as a handshake is refused before OpenSSL sees it", what_is_no_handshake_costs_nothing);
    RUN("half a first record takes no seat", half_a_record_waits_without_a_seat);
    RUN("a renegotiation is refused", a_renegotiation_is_refused);
    RUN("updates of keys whose answers nobody reads end the connection", updates_of_keys_that_nobody_reads_are_bounded);
    RUN("as many updates of keys as make a turn long end the connection", updates_of_keys_in_one_turn_are_bounded);
    tls_desk_close(desk);
    return TEST_RESULT();
}
