/* test_tls.c: TLS over socket pairs: what passes, what a handshake may cost, what is said when it fails. */

#include "tls_rig.h"
#include "net/loop.h"
#include "test.h"
#include <sys/ioctl.h>

#define ROOM (256u * 1024u)
#define LONG_TEXT 300000u

static tls_desk_t *desk;
static tls_pem_t pem;
static int64_t now_ns = NS_PER_SECOND;
static int64_t round_trip_ns; /* to the peers that come next */

typedef struct end {
    tls_t *tls;
    int fd;
    bool closed;
    uint32_t size; /* received */
    uint8_t *at;
} end_t;

typedef struct ends {
    tls_context_t *server_context;
    tls_context_t *client_context;
    end_t server;
    end_t client;
    int relay[2]; /* with a relay: the far ends of both */
} ends_t;

static void make_pair(int pair[2]) {
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
}

static void start_end(end_t *end, tls_context_t *context, int fd, tls_wish_t wish) {
    wish.tag = end;
    wish.round_trip_ns = round_trip_ns;
    *end = (end_t){.fd = fd, .tls = tls_new(desk, context, &wish), .at = malloc(2 * LONG_TEXT)};
    CHECK(end->tls != NULL && end->at != NULL);
}

static void start_with(ends_t *ends, tls_context_t *server, tls_context_t *client, const char *name, bool relay) {
    int near[2], far[2];
    *ends = (ends_t){.server_context = server, .client_context = client, .relay = {-1, -1}};
    CHECK(server != NULL && client != NULL);
    make_pair(near);
    if (relay) {
        make_pair(far);
        ends->relay[0] = near[1];
        ends->relay[1] = far[1];
    }
    start_end(&ends->server, server, near[0], (tls_wish_t){.flags = SECURE_FIRST});
    start_end(&ends->client, client, relay ? far[0] : near[1],
              (tls_wish_t){.name = bytes_of(name, (uint32_t)strlen(name))});
}

static void start(ends_t *ends, bool relay) {
    start_with(ends, tls_rig_context(&pem, 0, NULL, 0), tls_rig_context(&pem, TLS_CLIENT | TLS_VERIFY, NULL, 0),
               TLS_RIG_NAME, relay);
}

static void stop_end(end_t *end) {
    transport_tls.close(end->tls, end->fd);
    close(end->fd);
    free(end->at);
}

static void stop(ends_t *ends) {
    stop_end(&ends->server);
    stop_end(&ends->client);
    for (uint32_t i = 0; i < 2; i++) {
        if (ends->relay[i] >= 0) close(ends->relay[i]);
    }
    tls_context_release(ends->server_context);
    tls_context_release(ends->client_context);
    CHECK_EQ_U64(0, tls_desk_shaking(desk));
}

static void receive(end_t *end) {
    size_t got = 0;
    status_t status =
        end->closed ? STATUS_CLOSED
                    : transport_tls.receive(end->tls, end->fd, end->at + end->size, 2 * LONG_TEXT - end->size, &got);
    CHECK(status != STATUS_OK || got != 0);
    end->size += (uint32_t)got;
    end->closed = status == STATUS_CLOSED;
}

static size_t send_text(end_t *end, const void *at, size_t size) {
    struct iovec text = {.iov_base = (void *)(uintptr_t)at, .iov_len = size};
    size_t taken = 0;
    status_t status = transport_tls.send(end->tls, end->fd, &text, size != 0, &taken);
    end->closed = end->closed || status == STATUS_CLOSED;
    return taken;
}

/* As the loop does: whoever is called goes on. */
static void call(void) {
    for (end_t *end; (end = tls_desk_next(desk)) != NULL;) send_text(end, NULL, 0);
}

static void next_turn(void) {
    tls_desk_turn(desk, now_ns);
    call();
}

/* One byte each way, or what there is room for. */
static void relay(ends_t *ends, size_t most) {
    for (uint32_t i = 0; i < 2 && ends->relay[0] >= 0; i++) {
        uint8_t some[4096];
        ssize_t size = read(ends->relay[i], some, most < sizeof some ? most : sizeof some);
        if (size > 0) CHECK_EQ_I64(size, write(ends->relay[1 - i], some, (size_t)size));
    }
}

/* Turns, as the loop makes them. */
static void turn(ends_t *ends, size_t relayed) {
    next_turn();
    relay(ends, relayed);
    send_text(&ends->client, NULL, 0);
    receive(&ends->server);
    send_text(&ends->server, NULL, 0);
    receive(&ends->client);
}

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

static int arrived(const end_t *end) {
    int size = 0;
    CHECK(ioctl(end->fd, FIONREAD, &size) == 0);
    return size;
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

/* ---- many -------------------------------------------------------------------------------------------------------- */

/* Clients that say hello and nothing more. */
static void greet(ends_t *ends, tls_context_t *server, tls_context_t *client) {
    start_with(ends, server, client, TLS_RIG_NAME, false);
    next_turn();
    send_text(&ends->client, NULL, 0);
    tls_give_up(ends->client.tls); /* it needs no seat any more */
}

/* This thread's time on a processor: how long it waits for one tells nothing. */
static int64_t used_ns(void) {
    struct timespec used;
    CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0);
    return (int64_t)used.tv_sec * NS_PER_SECOND + used.tv_nsec;
}

static void handshakes_of_one_turn_take_a_bounded_time(void) {
    enum { MANY = 200 };
    static ends_t ends[MANY];
    tls_context_t *server = tls_rig_context(&pem, 0, NULL, 0);
    tls_context_t *client = tls_rig_context(&pem, TLS_CLIENT | TLS_VERIFY, NULL, 0);
    for (uint32_t i = 0; i < MANY; i++) greet(&ends[i], server, client);
    uint32_t turns = 0, seated = 0;
    for (; turns < 2 * MANY && seated < MANY; turns++) {
        uint32_t before = seated;
        tls_desk_turn(desk, now_ns);
        int64_t began_ns = used_ns();
        for (uint32_t i = 0; i < MANY && turns == 0; i++) receive(&ends[i].server);
        call();
        CHECK(used_ns() - began_ns < 500 * NS_PER_MS);
        seated = tls_desk_shaking(desk);
        CHECK(seated > before);
        CHECK(seated == MANY || tls_desk_deadline(desk) <= now_ns);
    }
    CHECK(turns > 1 && seated == MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        stop_end(&ends[i].server);
        stop_end(&ends[i].client);
    }
    tls_context_release(server);
    tls_context_release(client);
    CHECK_EQ_U64(0, tls_desk_shaking(desk));
}

/* The hello of each has come, a turn later than that of the one before. */
static void knock(ends_t *ends, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        tls_desk_turn(desk, now_ns);
        receive(&ends[i].server);
        call();
    }
}

static void crowd(ends_t *ends, uint32_t count, int64_t far_ns) {
    tls_context_t *server = tls_rig_context(&pem, 0, NULL, 0);
    tls_context_t *client = tls_rig_context(&pem, TLS_CLIENT | TLS_VERIFY, NULL, 0);
    round_trip_ns = far_ns;
    for (uint32_t i = 0; i < count; i++) greet(&ends[i], server, client);
    round_trip_ns = 0;
    tls_context_release(server); /* connections keep them */
    tls_context_release(client);
}

static void disperse(ends_t *ends, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        stop_end(&ends[i].server);
        stop_end(&ends[i].client);
    }
}

static uint32_t failed(const ends_t *ends, uint32_t count) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) found += tls_outcome(ends[i].server.tls) == TLS_FAILED;
    return found;
}

/* Its client has an answer: it has had a seat. */
static bool answered(const ends_t *ends) {
    return arrived(&ends->client) != 0;
}

static void a_silent_one_gives_its_seat_to_a_new_one(void) {
    enum { MANY = TLS_SEATS_MIN + 2 };
    static ends_t ends[MANY];
    crowd(ends, MANY, 0);
    knock(ends, MANY - 1);
    CHECK_EQ_U64(TLS_SEATS_MIN, tls_desk_shaking(desk));
    CHECK(!answered(&ends[TLS_SEATS_MIN]));
    CHECK_EQ_I64(now_ns + TLS_PATIENCE_NS, tls_desk_deadline(desk));
    now_ns += TLS_PATIENCE_NS - 1;
    next_turn();
    CHECK_EQ_U64(0, failed(ends, MANY));
    now_ns += 1;
    next_turn();
    CHECK_EQ_I64(TLS_FAILED, tls_outcome(ends[0].server.tls));
    CHECK_EQ_U64(1, failed(ends, MANY));
    CHECK(answered(&ends[TLS_SEATS_MIN]));
    CHECK_EQ_U64(TLS_SEATS_MIN, tls_desk_shaking(desk));
    CHECK_EQ_I64(INT64_MAX, tls_desk_deadline(desk));
    disperse(ends, MANY);
}

static void there_are_as_many_seats_as_memory_for_them(void) {
    enum { MANY = TLS_SEATS_MIN + 100 };
    static ends_t ends[MANY + 1];
    tls_desk_seat(desk, MANY * TLS_SEAT_BYTES);
    crowd(ends, MANY + 1, 0);
    knock(ends, MANY + 1);
    CHECK_EQ_U64(MANY, tls_desk_shaking(desk));
    now_ns += TLS_PATIENCE_NS;
    next_turn();
    CHECK_EQ_U64(MANY, tls_desk_shaking(desk));
    CHECK_EQ_I64(TLS_FAILED, tls_outcome(ends[0].server.tls));
    CHECK_EQ_U64(1, failed(ends, MANY + 1));
    tls_desk_seat(desk, 0);
    disperse(ends, MANY + 1);
}

/* With 2 s of round trip their answers cannot come earlier: others wait for them, and get the seat of whoever has come
 * to his end, or has gone. */
static void who_is_far_keeps_its_seat_while_its_answer_may_be_under_way(void) {
    enum { MORE = 20, MANY = TLS_SEATS_MIN + MORE };
    static ends_t ends[MANY];
    crowd(ends, MANY, 2 * NS_PER_SECOND);
    knock(ends, MANY);
    for (uint32_t i = 0; i < 80; i++) {
        now_ns += 100 * NS_PER_MS;
        next_turn();
    }
    CHECK_EQ_U64(0, failed(ends, MANY));
    CHECK_EQ_U64(TLS_SEATS_MIN, tls_desk_shaking(desk));
    for (uint32_t i = 0; i < MORE; i++) {
        CHECK(!answered(&ends[TLS_SEATS_MIN + i]));
        stop_end(&ends[i].server);
        next_turn();
        CHECK(answered(&ends[TLS_SEATS_MIN + i])); /* in the order in which they came */
    }
    for (uint32_t i = 0; i < MORE; i++) stop_end(&ends[i].client);
    CHECK_EQ_U64(0, failed(ends + MORE, MANY - MORE));
    disperse(ends + MORE, MANY - MORE);
}

static void who_is_near_and_silent_goes_before_who_is_far(void) {
    enum { FAR = TLS_SEATS_MIN - 3, NEAR = 6 };
    static ends_t far[FAR], near[NEAR];
    crowd(far, FAR, NS_PER_SECOND);
    crowd(near, NEAR, 0);
    knock(far, FAR);
    now_ns += 1;
    knock(near, NEAR);
    now_ns += TLS_PATIENCE_NS;
    next_turn();
    CHECK_EQ_U64(0, failed(far, FAR));
    CHECK_EQ_U64(3, failed(near, 3)); /* who came last among them has their seats */
    CHECK_EQ_U64(0, failed(near + 3, 3));
    for (uint32_t i = 3; i < NEAR; i++) CHECK(answered(&near[i]));
    disperse(far, FAR);
    disperse(near, NEAR);
}

/* Else strangers who pretend to be far away would keep out everybody for as long as their seats are theirs. But who is
 * far is not kept out by those who are near: his turn comes when he has stood there for his patience. */
static void who_is_near_passes_by_who_is_far_in_the_line(void) {
    static ends_t seated[TLS_SEATS_MIN], far[2], near[2];
    crowd(seated, TLS_SEATS_MIN, 10 * NS_PER_SECOND);
    crowd(far, 2, 10 * NS_PER_SECOND);
    crowd(near, 2, 0);
    knock(seated, TLS_SEATS_MIN);
    knock(far, 2);
    now_ns += NS_PER_SECOND;
    knock(near, 1);
    stop_end(&seated[0].server);
    next_turn();
    CHECK(answered(&near[0]) && !answered(&far[0]));
    now_ns += 64 * TLS_PATIENCE_NS - NS_PER_SECOND;
    knock(near + 1, 1);
    next_turn();
    CHECK(answered(&far[0]) && answered(&far[1]) && answered(&near[1])); /* all who were seated have been silent */
    stop_end(&seated[0].client);
    disperse(seated + 1, TLS_SEATS_MIN - 1);
    disperse(far, 2);
    disperse(near, 2);
}

static void who_stands_in_line_may_go_away(void) {
    enum { MANY = TLS_SEATS_MIN + 3 };
    static ends_t ends[MANY];
    crowd(ends, MANY, 0);
    knock(ends, MANY);
    receive(&ends[TLS_SEATS_MIN].server);
    CHECK(!ends[TLS_SEATS_MIN].server.closed);
    stop_end(&ends[TLS_SEATS_MIN].client);
    receive(&ends[TLS_SEATS_MIN].server);
    CHECK(ends[TLS_SEATS_MIN].server.closed);
    stop_end(&ends[TLS_SEATS_MIN].server);
    tls_give_up(ends[TLS_SEATS_MIN + 1].server.tls);
    now_ns += TLS_PATIENCE_NS;
    next_turn();
    CHECK_EQ_U64(1, failed(ends, TLS_SEATS_MIN));
    CHECK(answered(&ends[TLS_SEATS_MIN + 2]));
    disperse(ends, TLS_SEATS_MIN);
    disperse(ends + TLS_SEATS_MIN + 1, 2);
}

static void too_many_in_a_second_are_told_in_plain_text(void) {
    ends_t ends[2];
    tls_context_t *server = tls_rig_context(&pem, 0, NULL, 1);
    tls_context_t *client = tls_rig_context(&pem, TLS_CLIENT, NULL, 0);
    for (uint32_t i = 0; i < 2; i++) {
        greet(&ends[i], server, client);
        next_turn();
        receive(&ends[i].server);
    }
    CHECK(!tls_throttled(ends[0].server.tls));
    CHECK(tls_throttled(ends[1].server.tls));
    CHECK_EQ_U64(5, send_text(&ends[1].server, "-ERR\n", 5));
    for (uint32_t i = 0; i < 2; i++) {
        stop_end(&ends[i].server);
        stop_end(&ends[i].client);
    }
    tls_context_release(server);
    tls_context_release(client);
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
    RUN("the handshakes of one turn take a bounded time", handshakes_of_one_turn_take_a_bounded_time);
    RUN("who is silent gives its seat to a new one", a_silent_one_gives_its_seat_to_a_new_one);
    RUN("who is far keeps its seat while its answer may be under way",
        who_is_far_keeps_its_seat_while_its_answer_may_be_under_way);
    RUN("who is near and silent gives its seat before who is far", who_is_near_and_silent_goes_before_who_is_far);
    RUN("who is near passes by who is far in the line, for a while", who_is_near_passes_by_who_is_far_in_the_line);
    RUN("who stands in line may go away", who_stands_in_line_may_go_away);
    RUN("there are as many seats as there is memory for", there_are_as_many_seats_as_memory_for_them);
    RUN("who comes beyond the rate is told so in plain text", too_many_in_a_second_are_told_in_plain_text);
    tls_desk_close(desk);
    return TEST_RESULT();
}
