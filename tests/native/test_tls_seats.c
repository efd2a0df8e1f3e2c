/* test_tls_seats.c: many connections that shake hands at a time: what a turn may cost, who has a seat, who waits for
 * one, and who has to give his up. Time is the test's. */
#include "tls_ends.h"

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

/* The hello of each has come, a turn later than that of the one before it. */
static void knock(ends_t *ends, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        tls_desk_turn(desk, now_ns);
        receive(&ends[i].server);
        call();
    }
    turns();
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
    turns();
    CHECK_EQ_U64(0, failed(ends, MANY));
    now_ns += 1;
    turns();
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
    turns();
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
        turns();
    }
    CHECK_EQ_U64(0, failed(ends, MANY));
    CHECK_EQ_U64(TLS_SEATS_MIN, tls_desk_shaking(desk));
    for (uint32_t i = 0; i < MORE; i++) {
        CHECK(!answered(&ends[TLS_SEATS_MIN + i]));
        stop_end(&ends[i].server);
        turns();
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
    turns();
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
    turns();
    CHECK(answered(&near[0]) && !answered(&far[0]));
    now_ns += 64 * TLS_PATIENCE_NS - NS_PER_SECOND;
    knock(near + 1, 1);
    turns();
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
    turns();
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
    signal(SIGPIPE, SIG_IGN);
    if (tls_desk_open(&desk) != STATUS_OK) return 1;
    tls_rig_certificate(&pem, 300);
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
