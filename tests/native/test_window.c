/* test_window.c: what a link is given, by what was seen of it; with looks and time handed in. Not here: lines as they
 * are (test_window_way.c). */
#include "plane/window.h"

#include "base/abi_types.h"
#include "test.h"

typedef struct line {
    window_t window;
    double rate; /* bytes a second that it carries */
    int64_t round_trip_ns;
    int64_t now;
    tcp_look_t look;
} line_t;

static line_t line_of(double rate, int64_t round_trip_ns) {
    line_t line = {.rate = rate, .round_trip_ns = round_trip_ns, .now = NS_PER_SECOND};
    line.look = (tcp_look_t){.packet = 1448, .round_trip_ns = round_trip_ns, .round_trip_min_ns = round_trip_ns};
    window_begin(&line.window, &line.look, line.now);
    return line;
}

/* Time in which a sender that always has more is given all that the window allows. */
static void loaded(line_t *line, int64_t ns) {
    const int64_t step = 20 * NS_PER_MS;
    for (int64_t end = line->now + ns; line->now < end;) {
        line->now += step;
        double trip = (double)line->round_trip_ns / (double)NS_PER_SECOND;
        double held = line->window.narrow ? (double)line->window.bytes : 4e6;
        double rate = trip > 0 && held / trip < line->rate ? held / trip : line->rate;
        line->look.acked += (uint64_t)(rate * (double)step / (double)NS_PER_SECOND);
        line->look.held = (uint64_t)held;
        window_learn(&line->window, &line->look, true, line->now);
    }
}

static void begins_small(void) {
    line_t far = line_of(6250, 2 * NS_PER_SECOND);
    CHECK(far.window.narrow);
    CHECK_EQ_U64(16 * 1024, far.window.bytes);
    line_t near = line_of(1e9, NS_PER_MS / 10);
    CHECK(!near.window.narrow);
}

static void follows_what_was_carried(void) {
    const struct {
        double rate;
        int64_t round_trip_ns;
    } lines[] = {{6250, 2 * NS_PER_SECOND}, {125e3, 200 * NS_PER_MS}, {20e3, NS_PER_SECOND}};
    for (int i = 0; i < 3; i++) {
        line_t line = line_of(lines[i].rate, lines[i].round_trip_ns);
        loaded(&line, 120 * NS_PER_SECOND);
        double under_way = lines[i].rate * (double)lines[i].round_trip_ns / (double)NS_PER_SECOND;
        CHECK(line.window.narrow);
        CHECK((double)line.window.bytes > 1.1 * under_way && (double)line.window.bytes < 1.4 * under_way + 3 * 1448);
    }
}

static void wide_ones_have_none(void) {
    line_t fat = line_of(50e6, 100 * NS_PER_MS);
    CHECK(fat.window.narrow);
    loaded(&fat, 3 * NS_PER_SECOND);
    CHECK(!fat.window.narrow);
    line_t near = line_of(1e9, NS_PER_MS / 10);
    loaded(&near, 10 * NS_PER_SECOND);
    CHECK(!near.window.narrow);
    line_t serial = line_of(6250, NS_PER_MS);
    loaded(&serial, 10 * NS_PER_SECOND);
    CHECK(serial.window.narrow);
}

static void near_ones_with_a_long_queue_have_one(void) {
    line_t lan = line_of(2.5e6, NS_PER_MS);
    loaded(&lan, 60 * NS_PER_SECOND);
    CHECK(!lan.window.narrow);
    lan.window.crowded = true; /* half of max_pending waits */
    loaded(&lan, 2 * NS_PER_SECOND);
    CHECK(lan.window.narrow);
    CHECK((double)lan.window.bytes >= 2.5e6 * 1e-3);
    lan.window.crowded = false;
    loaded(&lan, 2 * NS_PER_SECOND);
    CHECK(!lan.window.narrow);
}

/* Half of what may wait is crowded, and then an eighth is, still: a link does not change with each look. */
static void crowded_begins_at_a_half_and_ends_at_an_eighth(void) {
    const uint64_t most = 64u << 20;
    CHECK(!window_crowds(false, most / 2, most));
    CHECK(window_crowds(false, most / 2 + 1, most));
    CHECK(window_crowds(true, most / 2, most));
    CHECK(window_crowds(true, most / 8 + 1, most));
    CHECK(!window_crowds(true, most / 8, most));
    CHECK(!window_crowds(false, most / 8 + 1, most));
    CHECK(!window_crowds(false, 0, 0));
}

/* An outage is an outage; a link that never had a full packet through, and has one under way, may have met a way that
 * carries none. */
static void a_first_full_packet_that_stands_is_told_from_silence(void) {
    window_t window = {.round_trip_ns = 2 * NS_PER_SECOND, .progress_ns = 100 * NS_PER_SECOND};
    const int64_t since_ns = 112 * NS_PER_SECOND;
    window_hears(&window, 105 * NS_PER_SECOND);
    tcp_look_t look = {.packet = 1448, .acked = 900, .held = 1448};
    CHECK_EQ_U64(DOUBT_LARGE, window_doubt(&window, &look, since_ns));
    look.unsent = 1; /* of which the kernel has sent no full packet */
    CHECK_EQ_U64(DOUBT_ALL, window_doubt(&window, &look, since_ns));
    look = (tcp_look_t){.packet = 1448, .acked = 900, .held = 6};
    CHECK_EQ_U64(DOUBT_ALL, window_doubt(&window, &look, since_ns));
    look = (tcp_look_t){.packet = 1448, .acked = WINDOW_FIRST, .held = 20000};
    CHECK_EQ_U64(DOUBT_ALL, window_doubt(&window, &look, since_ns));
}

/* What was under way from the peer when an outage began still comes, a trip later; and then nothing. At its end the
 * peer is heard at once, and what was lost arrives when it has been sent again. */
static void an_outage_with_a_first_full_packet_under_way_is_none_that_stands(void) {
    window_t window = {.round_trip_ns = 2 * NS_PER_SECOND, .progress_ns = 100 * NS_PER_SECOND};
    const tcp_look_t look = {.packet = 1448, .acked = 900, .held = 1448};
    const int64_t back_ns = 122 * NS_PER_SECOND, again_ns = 6500 * NS_PER_MS;
    window_hears(&window, 90 * NS_PER_SECOND);
    CHECK_EQ_U64(DOUBT_FIRST, window_doubt(&window, &look, 112 * NS_PER_SECOND));
    window_hears(&window, 104 * NS_PER_SECOND);
    CHECK_EQ_U64(DOUBT_FIRST, window_doubt(&window, &look, back_ns));
    window_hears(&window, back_ns);
    CHECK_EQ_U64(DOUBT_FIRST, window_doubt(&window, &look, back_ns));
    window_hears(&window, back_ns + again_ns);
    CHECK_EQ_U64(DOUBT_FIRST, window_doubt(&window, &look, back_ns + again_ns));
    CHECK_EQ_U64(DOUBT_LARGE, window_doubt(&window, &look, back_ns + again_ns + 1));
    window.progress_ns = back_ns + again_ns;
    window_hears(&window, back_ns + again_ns + NS_PER_SECOND);
    CHECK_EQ_U64(DOUBT_FIRST, window_doubt(&window, &look, back_ns + 2 * again_ns + NS_PER_SECOND));
}

/* Of one that was heard last when time began. */
static uint32_t unanswered(window_t *window, const tcp_look_t *look, int64_t quiet_ns) {
    return window_unanswered(window, look, quiet_ns, quiet_ns);
}

/* A ping arrives, and neither its answer nor anything else comes: the peer may stand at its first full packet. */
static void a_peer_that_stands_at_its_first_full_packet_is_told_from_a_busy_one(void) {
    window_t near = {.round_trip_ns = NS_PER_MS, .acked = 894};
    window_t far = {.round_trip_ns = 2 * NS_PER_SECOND, .acked = 894};
    tcp_look_t look = {.packet = 1448, .acked = 900, .received = 700};
    window_heard(&near);
    window_heard(&far);
    CHECK_EQ_U64(DOUBT_NONE, unanswered(&near, &look, 13 * NS_PER_SECOND));
    CHECK_EQ_U64(DOUBT_NONE, unanswered(&near, &look, 25 * NS_PER_SECOND - 1));
    CHECK_EQ_U64(DOUBT_LARGE, unanswered(&near, &look, 25 * NS_PER_SECOND));
    CHECK_EQ_U64(DOUBT_NONE, unanswered(&far, &look, 13 * NS_PER_SECOND));
    CHECK_EQ_U64(DOUBT_NONE, unanswered(&far, &look, 31 * NS_PER_SECOND - 1));
    CHECK_EQ_U64(DOUBT_LARGE, unanswered(&far, &look, 31 * NS_PER_SECOND));
    look.held = 6; /* one ping more */
    CHECK_EQ_U64(DOUBT_LARGE, unanswered(&near, &look, 25 * NS_PER_SECOND));
    look.held = 1448; /* whose packets do not arrive either */
    CHECK_EQ_U64(DOUBT_NONE, unanswered(&near, &look, 25 * NS_PER_SECOND));
    look = (tcp_look_t){.packet = 1448, .acked = 900, .received = WINDOW_FIRST};
    CHECK_EQ_U64(DOUBT_NONE, unanswered(&near, &look, 25 * NS_PER_SECOND));
}

/* A ping is sent in the outage, and arrives with its end; what the peer has lost it sends again a moment later. */
static void an_outage_is_no_peer_that_stands_at_its_first_full_packet(void) {
    window_t far = {.round_trip_ns = 2 * NS_PER_SECOND, .acked = 900};
    tcp_look_t look = {.packet = 1448, .acked = 900, .received = 700, .held = 14};
    window_heard(&far);
    for (int second = 13; second < 50; second++) {
        CHECK_EQ_U64(DOUBT_NONE, unanswered(&far, &look, second * NS_PER_SECOND));
    }
    look.acked = 914;
    look.held = 0;
    for (int second = 50; second < 68; second++) {
        CHECK_EQ_U64(DOUBT_NONE, unanswered(&far, &look, second * NS_PER_SECOND));
    }
    CHECK_EQ_U64(DOUBT_LARGE, unanswered(&far, &look, 68 * NS_PER_SECOND)); /* it had its time */
    far.acked = 914;
    window_heard(&far);
    CHECK_EQ_U64(DOUBT_NONE, unanswered(&far, &look, 68 * NS_PER_SECOND));
}

static void idle_time_proves_nothing(void) {
    line_t line = line_of(20e3, NS_PER_SECOND);
    loaded(&line, 60 * NS_PER_SECOND);
    uint64_t before = line.window.bytes;
    line.look.held = 0;
    for (int i = 0; i < 100; i++) {
        line.now += NS_PER_SECOND;
        window_learn(&line.window, &line.look, false, line.now);
    }
    CHECK_EQ_U64(before, line.window.bytes);
    CHECK(!window_dead(&line.window, 10 * NS_PER_SECOND, line.now));
}

static void a_stall_is_no_proof_of_speed(void) {
    line_t line = line_of(6250, 2 * NS_PER_SECOND);
    loaded(&line, 120 * NS_PER_SECOND);
    uint64_t before = line.window.bytes;
    line.now += 8 * NS_PER_SECOND; /* a retransmission, and then all of it at once */
    window_learn(&line.window, &line.look, true, line.now);
    line.now += 2 * NS_PER_SECOND;
    line.look.acked += 62500;
    window_learn(&line.window, &line.look, true, line.now);
    CHECK(line.window.bytes < 4 * before);
    loaded(&line, 40 * NS_PER_SECOND);
    CHECK(line.window.bytes < before + before / 5);
}

/* No contact for a minute: the window is as before when it is back. */
static void an_outage_proves_nothing(void) {
    line_t line = line_of(6250, 2 * NS_PER_SECOND);
    loaded(&line, 120 * NS_PER_SECOND);
    uint64_t before = line.window.bytes;
    for (int i = 0; i < 600; i++) {
        line.now += NS_PER_SECOND / 10;
        window_learn(&line.window, &line.look, true, line.now);
    }
    loaded(&line, 2 * NS_PER_SECOND);
    CHECK(line.window.bytes > before - before / 4 && line.window.bytes < before + before / 4);
}

/* 5 % of the packets are lost: what is behind them has arrived, and others are sent in their place. */
static void a_gap_stops_nobody(void) {
    line_t line = line_of(6250, 2 * NS_PER_SECOND);
    loaded(&line, 120 * NS_PER_SECOND);
    window_t *window = &line.window;
    tcp_look_t look = {.held = window->bytes, .packet = 1448};
    CHECK_EQ_U64(0, window_gives(window, &look, 1 << 20, 0, line.now));
    look.beyond = window->bytes / 2;
    CHECK(window_gives(window, &look, 1 << 20, 0, line.now) >= window->bytes / 2 - 1);
    look.held = 5 * window->bytes; /* not for ever: the peer has to keep it */
    look.beyond = look.held - 1448;
    CHECK_EQ_U64(0, window_gives(window, &look, 1 << 20, 0, line.now));
}

static void little_goes_at_once(void) {
    line_t line = line_of(6250, 2 * NS_PER_SECOND);
    loaded(&line, 120 * NS_PER_SECOND);
    window_t *window = &line.window;
    tcp_look_t look = {.held = window->bytes, .packet = 1448};
    CHECK_EQ_U64(100, window_gives(window, &look, 1 << 20, 100, line.now));
    look.held = window->bytes + 1448;
    CHECK_EQ_U64(0, window_gives(window, &look, 1 << 20, 100, line.now));
    look.held = window->bytes - 100; /* room, but not for a full packet */
    CHECK_EQ_U64(0, window_gives(window, &look, 1 << 20, 0, line.now));
    CHECK_EQ_U64(100, window_gives(window, &look, 60, 0, line.now));
}

/* Lines that come one after the other are one packet, where a packet takes long; what fills one waits for nothing. */
static void what_follows_soon_goes_together(void) {
    line_t line = line_of(6250, 2 * NS_PER_SECOND);
    int64_t later_ns = line.now + 2 * NS_PER_SECOND / 32;
    CHECK_EQ_I64(later_ns, window_gathers_until(&line.window, 100)); /* a link's first lines, too */
    CHECK_EQ_I64(line.now, window_gathers_until(&line.window, 1448));
    line.now = later_ns + NS_PER_SECOND;
    CHECK(window_gathers_until(&line.window, 100) < line.now); /* nothing was given for long: it goes at once */
    CHECK(window_gives(&line.window, &line.look, 100, 0, line.now) >= 100);
    CHECK_EQ_I64(line.now + 2 * NS_PER_SECOND / 32, window_gathers_until(&line.window, 100));
    line.window.packed = 4; /* of four bytes one goes out */
    CHECK(window_gathers_until(&line.window, 4 * 1448 - 1) > line.now);
    CHECK_EQ_I64(line.now, window_gathers_until(&line.window, 4 * 1448));
}

static void only_far_links_wait_for_more(void) {
    line_t line = line_of(6250, 199 * NS_PER_MS);
    CHECK_EQ_I64(line.now, window_gathers_until(&line.window, 100));
    line = line_of(6250, 20 * NS_PER_SECOND);
    CHECK_EQ_I64(line.now + 100 * NS_PER_MS, window_gathers_until(&line.window, 100));
}

static void a_queue_runs_empty_now_and_then(void) {
    line_t line = line_of(6250, 2 * NS_PER_SECOND);
    loaded(&line, 20 * NS_PER_SECOND);
    window_t *window = &line.window;
    window->round_trip_ns = 2500 * NS_PER_MS;
    tcp_look_t look = {.held = window->bytes - 6000, .packet = 1448};
    int64_t now = line.now + 130 * NS_PER_SECOND;
    CHECK_EQ_U64(0, window_gives(window, &look, 1 << 20, 0, now));
    CHECK_EQ_U64(0, window_gives(window, &look, 1 << 20, 0, now + 500 * NS_PER_MS));
    CHECK(window_gives(window, &look, 1 << 20, 0, now + 800 * NS_PER_MS) >= 6000);
    CHECK(window_gives(window, &look, 1 << 20, 0, now + 100 * NS_PER_SECOND) >= 6000);
}

/* Whatever else it could carry: 2,000 bytes a second, full packets where more waits. */
static void a_pace_is_kept(void) {
    window_t window = {.measured = true, .pace = 2000, .packet = 1448};
    uint64_t gone = 0;
    int64_t now = 0;
    for (; now < 60 * NS_PER_SECOND; now += 20 * NS_PER_MS) {
        uint64_t room = window_saved(&window, 1 << 20, now);
        CHECK(room == 0 || room >= 1448);
        gone += room;
        window.out += room;
    }
    CHECK(gone <= 60 * 2000 && gone > 59 * 2000 - 1448);
    now += 3600 * NS_PER_SECOND; /* what was not used is not saved up */
    CHECK(window_saved(&window, 1 << 20, now) <= 2 * 1448);
    window.out += 2 * 1448 - 100;
    CHECK_EQ_U64(0, window_saved(&window, 1 << 20, now));
    CHECK_EQ_U64(100, window_saved(&window, 60, now));
}

static void slow_is_not_dead(void) {
    line_t line = line_of(100, 2 * NS_PER_SECOND);
    for (int i = 0; i < 3600; i++) {
        line.now += NS_PER_SECOND;
        line.look.held = 1 << 20;
        line.look.acked += i % 40 == 0 ? 100 : 0;
        window_learn(&line.window, &line.look, true, line.now);
        CHECK(!window_dead(&line.window, 10 * NS_PER_SECOND, line.now));
    }
    for (int i = 0; i < 60; i++) {
        line.now += NS_PER_SECOND;
        window_learn(&line.window, &line.look, true, line.now);
    }
    CHECK(window_dead(&line.window, 10 * NS_PER_SECOND, line.now));
    CHECK(!window_dead(&line.window, 100 * NS_PER_SECOND, line.now));
}

/* The first packet is lost, and lost again when it is sent again: what is acknowledged stays, what has come grows. */
static void what_arrives_behind_a_gap_is_a_sign_of_life(void) {
    line_t line = line_of(2500, 500 * NS_PER_MS);
    loaded(&line, 10 * NS_PER_SECOND);
    line.look.held = 1 << 20;
    for (int second = 0; second < 120; second++) {
        line.now += NS_PER_SECOND;
        line.look.beyond += second % 10 == 0 ? 1448 : 0;
        window_learn(&line.window, &line.look, true, line.now);
        CHECK(!window_doubtful(&line.window, line.now));
        CHECK(!window_dead(&line.window, 10 * NS_PER_SECOND, line.now));
    }
    line.look.beyond -= 1448; /* packets are smaller now: nothing has arrived */
    int64_t stopped = line.now;
    for (int second = 1; second <= 60; second++) {
        line.now = stopped + second * NS_PER_SECOND;
        window_learn(&line.window, &line.look, true, line.now);
    }
    CHECK(window_dead(&line.window, 10 * NS_PER_SECOND, line.now));
}

/* Seconds from the last sign of life until it is dead; idle: so many of them nothing had to arrive. */
static int lives(int idle) {
    line_t line = line_of(6250, 500 * NS_PER_MS);
    loaded(&line, 10 * NS_PER_SECOND);
    line.look.held = 0;
    int64_t stopped = line.now;
    for (int second = 1; second < 120; second++) {
        line.now = stopped + second * NS_PER_SECOND;
        line.look.held = second <= idle ? 0 : 100;
        window_learn(&line.window, &line.look, second > idle, line.now);
        if (window_dead(&line.window, 10 * NS_PER_SECOND, line.now)) {
            return second;
        }
    }
    return 0;
}

static void busy_and_idle_links_live_as_long(void) {
    CHECK_EQ_I64(56, lives(0));
    CHECK_EQ_I64(56, lives(13));
    CHECK_EQ_I64(30 + 43, lives(30));
}

static void a_link_is_in_doubt_while_nothing_arrives(void) {
    line_t line = line_of(6250, NS_PER_SECOND);
    loaded(&line, 30 * NS_PER_SECOND);
    CHECK(!window_doubtful(&line.window, line.now));
    int64_t stopped = line.now;
    for (int second = 1; second <= 20; second++) {
        line.now = stopped + second * NS_PER_SECOND;
        window_learn(&line.window, &line.look, true, line.now);
        CHECK(window_doubtful(&line.window, line.now) == (second >= 12));
    }
    line.look.acked += 100;
    line.now += NS_PER_SECOND;
    window_learn(&line.window, &line.look, true, line.now);
    CHECK(!window_doubtful(&line.window, line.now));
    line_t far = line_of(6250, 3 * NS_PER_SECOND); /* an answer may take so long */
    far.look.held = 1;
    CHECK(!window_doubtful(&far.window, far.now + 26 * NS_PER_SECOND));
    CHECK(window_doubtful(&far.window, far.now + 27 * NS_PER_SECOND));
}

static void a_long_trip_is_spared_what_a_short_one_is_not(void) {
    line_t far = line_of(6250, 2 * NS_PER_SECOND), near = line_of(6250, 200 * NS_PER_MS);
    int spared = 0;
    far.window.recovers = true;
    for (int second = 0; second < 60; second++) {
        far.now += NS_PER_SECOND;
        near.now += NS_PER_SECOND;
        CHECK(!window_spares(&far.window, false, far.now)); /* while nothing waits it may look */
        CHECK(!window_spares(&near.window, true, near.now));
        far.window.heard_ns = far.now;
        spared += window_spares(&far.window, true, far.now);
    }
    CHECK(spared >= 7 && spared <= 8); /* BBR looks after ten seconds each time */
    far.now += 60 * NS_PER_SECOND;
    far.window.heard_ns = far.now;
    far.window.round_trip_ns = 7 * NS_PER_SECOND; /* a modem that has fallen back to an older network */
    CHECK(!window_spares(&far.window, true, far.now));
    far.window.round_trip_ns = 2 * NS_PER_SECOND;
    far.window.narrow = false;
    CHECK(!window_spares(&far.window, true, far.now));
    far.window.narrow = true;
    CHECK(window_spares(&far.window, true, far.now));
}

/* BBR that begins anew while it sends again what was lost goes on with what is under way in that moment. */
static void bbr_begins_anew_where_nothing_is_sent_again(void) {
    line_t far = line_of(6250, 2 * NS_PER_SECOND);
    loaded(&far, 10 * NS_PER_SECOND);
    CHECK(window_spares(&far.window, true, far.now));
    far.look.recovers = true;
    loaded(&far, 5 * NS_PER_SECOND);
    CHECK(!window_spares(&far.window, true, far.now));
    far.look.recovers = false;
    loaded(&far, 20 * NS_PER_MS);
    CHECK(window_spares(&far.window, true, far.now));
    far.look.recovers = true; /* all the time: before it looks for a shorter round trip it does all the same */
    loaded(&far, 7 * NS_PER_SECOND);
    CHECK(!window_spares(&far.window, true, far.now));
    loaded(&far, NS_PER_SECOND);
    CHECK(window_spares(&far.window, true, far.now));
}

static void an_outage_is_tried_more_often_than_a_loss(void) {
    line_t cell = line_of(6250, 2 * NS_PER_SECOND), satellites = line_of(6250, 5 * NS_PER_SECOND);
    CHECK_EQ_I64(6 * NS_PER_SECOND, window_again_ns(&cell.window, cell.now));
    CHECK_EQ_I64(15 * NS_PER_SECOND, window_again_ns(&satellites.window, cell.now));
    CHECK(!window_again_differs(&cell.window, cell.now)); /* nobody was told anything */
    cell.window.again_ns = window_again_ns(&cell.window, cell.now);
    CHECK(!window_again_differs(&cell.window, cell.now + 4 * NS_PER_SECOND)); /* a packet may be lost */
    int64_t later = cell.now + 5 * NS_PER_SECOND;
    CHECK(window_again_differs(&cell.window, later));
    CHECK_EQ_I64(2500 * NS_PER_MS, window_again_ns(&cell.window, later));
    CHECK_EQ_I64(5 * NS_PER_SECOND, window_again_ns(&satellites.window, cell.now + 10 * NS_PER_SECOND));
    cell.window.again_ns = window_again_ns(&cell.window, later);
    cell.window.progress_ns = later; /* the line is back */
    CHECK(window_again_differs(&cell.window, later));
    cell.window.again_ns = window_again_ns(&cell.window, later);
    cell.window.round_trip_ns = 4 * NS_PER_SECOND;
    CHECK(window_again_differs(&cell.window, later));
}

static void a_slow_start_after_an_outage_is_no_slow_line(void) {
    line_t line = line_of(6250, 2 * NS_PER_SECOND);
    loaded(&line, 120 * NS_PER_SECOND);
    uint64_t before = line.window.bytes;
    for (int64_t end = line.now + 30 * NS_PER_SECOND; line.now < end; line.now += 100 * NS_PER_MS) {
        window_learn(&line.window, &line.look, true, line.now);
    }
    line.look.acked += 1448;
    window_learn(&line.window, &line.look, true, line.now);
    line.rate = 6250.0 / 4;
    loaded(&line, 7 * NS_PER_SECOND);
    CHECK_EQ_U64(before, line.window.bytes);
    loaded(&line, 60 * NS_PER_SECOND); /* it is slower than it was */
    CHECK(line.window.bytes < before / 2 + 2 * 1448);
}

/* TCP sees what was lost in an outage by what comes behind it. */
static void something_goes_as_soon_as_a_line_is_back(void) {
    line_t line = line_of(6250, 2 * NS_PER_SECOND);
    loaded(&line, 60 * NS_PER_SECOND);
    uint64_t bytes = line.window.bytes;
    CHECK(bytes / 4 > 2 * 1448); /* a piece, of a link that flows */
    line.look.held = bytes;
    for (int64_t end = line.now + 30 * NS_PER_SECOND; line.now < end;) {
        line.now += 100 * NS_PER_MS;
        window_learn(&line.window, &line.look, true, line.now);
        CHECK_EQ_U64(0, window_gives(&line.window, &line.look, 1 << 20, 0, line.now));
    }
    line.look.acked += 1448;
    line.look.held = bytes - 1448;
    line.now += 100 * NS_PER_MS;
    window_learn(&line.window, &line.look, true, line.now);
    CHECK_EQ_U64(3 * 1448, window_gives(&line.window, &line.look, 1 << 20, 0, line.now));
    line.look.held = bytes + 2 * 1448;
    CHECK_EQ_U64(0, window_gives(&line.window, &line.look, 1 << 20, 0, line.now));
    line.look.held = bytes - 1448; /* a trip later it is a link as any other */
    line.now += 2 * NS_PER_SECOND;
    CHECK_EQ_U64(0, window_gives(&line.window, &line.look, 1 << 20, 0, line.now));
}

static void what_bbr_knows_is_kept_over_an_outage(void) {
    line_t far = line_of(6250, 2 * NS_PER_SECOND);
    loaded(&far, 30 * NS_PER_SECOND);
    for (int64_t back = far.now + 30 * NS_PER_SECOND; far.now < back;) {
        far.now += 100 * NS_PER_MS;
        window_learn(&far.window, &far.look, true, far.now);
        CHECK(!window_spares(&far.window, true, far.now));
    }
    for (int64_t back = far.now; far.now < back + 8 * NS_PER_SECOND; far.now += 500 * NS_PER_MS) {
        far.look.acked += 1448;
        window_learn(&far.window, &far.look, true, far.now);
        CHECK(far.now - back >= 6 * NS_PER_SECOND || !window_spares(&far.window, true, far.now));
    }
    CHECK(window_spares(&far.window, true, far.window.heard_ns));
}

/* Its last byte is acknowledged at once, and that is seen a second later. */
static void what_is_seen_late_is_no_longer_way(void) {
    line_t line = line_of(125e3, 50 * NS_PER_MS);
    for (int i = 0; i < 60; i++) {
        CHECK(window_gives(&line.window, &line.look, 6, 6, line.now) >= 6);
        line.look.held = 6;
        line.now += NS_PER_SECOND;
        line.look.held = 0;
        line.look.acked += 6;
        window_learn(&line.window, &line.look, false, line.now);
    }
    CHECK_EQ_I64(50 * NS_PER_MS, line.window.round_trip_min_ns);
}

/* Answers of an API, one a round trip: each is all there is. size: of one; stands: bytes of them not acknowledged. */
static void answers(line_t *line, int64_t ns, uint64_t size, uint64_t stands) {
    for (int64_t end = line->now + ns; line->now < end; line->now += line->round_trip_ns * 11 / 10) {
        line->look.acked += size;
        line->look.held = stands;
        window_learn(&line->window, &line->look, true, line->now);
        window_dried(&line->window);
    }
}

static void what_little_there_is_proves_no_slow_link(void) {
    line_t line = line_of(50e3, NS_PER_SECOND);
    answers(&line, 20 * NS_PER_SECOND, 500, 0);
    CHECK_EQ_U64(WINDOW_FIRST, line.window.bytes);
    loaded(&line, 30 * NS_PER_SECOND);
    uint64_t before = line.window.bytes;
    answers(&line, 60 * NS_PER_SECOND, 500, 0);
    CHECK_EQ_U64(before, line.window.bytes);
    answers(&line, 60 * NS_PER_SECOND, 3000, 20000); /* which stand in a queue: it is slower than it was */
    CHECK(line.window.bytes < before / 4);
}

int main(void) {
    RUN("a far link begins with 16 KB, a near one has no window", begins_small);
    RUN("the window is what the link has under way, a quarter and two packets", follows_what_was_carried);
    RUN("an outage does not make a link slow", an_outage_proves_nothing);
    RUN("an outage is tried more often than what is lost otherwise", an_outage_is_tried_more_often_than_a_loss);
    RUN("a slow start after an outage does not make a link slow", a_slow_start_after_an_outage_is_no_slow_line);
    RUN("what BBR knows is kept over an outage, and in the first round trips after it",
        what_bbr_knows_is_kept_over_an_outage);
    RUN("a packet or two go as soon as a line is back, so that TCP sees what was lost",
        something_goes_as_soon_as_a_line_is_back);
    RUN("answers that are all there is do not make a link slow", what_little_there_is_proves_no_slow_link);
    RUN("an answer that is seen late makes no way longer", what_is_seen_late_is_no_longer_way);
    RUN("what was lost does not stop what comes behind it", a_gap_stops_nobody);
    RUN("a message that is urgent does not wait for room for a packet", little_goes_at_once);
    RUN("lines that follow soon go together, unless they fill a packet", what_follows_soon_goes_together);
    RUN("a link that is not far waits for no other lines", only_far_links_wait_for_more);
    RUN("a queue that stands for minutes is let run empty", a_queue_runs_empty_now_and_then);
    RUN("a link that carries much has no window, a near one that is slow gets one", wide_ones_have_none);
    RUN("a near link of which max_pending is nearly reached has a window until the queue is short again",
        near_ones_with_a_long_queue_have_one);
    RUN("from half of max_pending on a link is crowded, until an eighth waits",
        crowded_begins_at_a_half_and_ends_at_an_eighth);
    RUN("a link that stands at its first full packet is told from one that is silent",
        a_first_full_packet_that_stands_is_told_from_silence);
    RUN("an outage that takes the first full packet is not taken for a way that loses each of them",
        an_outage_with_a_first_full_packet_under_way_is_none_that_stands);
    RUN("so is a peer that stands at its own", a_peer_that_stands_at_its_first_full_packet_is_told_from_a_busy_one);
    RUN("an outage of a link by which little came yet is not taken for that",
        an_outage_is_no_peer_that_stands_at_its_first_full_packet);
    RUN("a pace is kept, whatever the link could carry", a_pace_is_kept);
    RUN("time without load changes nothing", idle_time_proves_nothing);
    RUN("what comes in a heap after a stall does not make a link fast", a_stall_is_no_proof_of_speed);
    RUN("a link is in doubt while nothing arrives of what was sent", a_link_is_in_doubt_while_nothing_arrives);
    RUN("what arrives behind a gap keeps a link from doubt", what_arrives_behind_a_gap_is_a_sign_of_life);
    RUN("a link that was busy is given as long as an idle one", busy_and_idle_links_live_as_long);
    RUN("of a link that is far BBR is made to begin anew before it looks",
        a_long_trip_is_spared_what_a_short_one_is_not);
    RUN("and as soon as nothing is being sent again", bbr_begins_anew_where_nothing_is_sent_again);
    RUN("a link is dead when nothing is acknowledged, however slow it is", slow_is_not_dead);
    return TEST_RESULT();
}
