/* test_window_way.c: what a link is given over a line as it is, with a queue, losses and other links; time handed in.
 * Not here: windows by looks that are made up (test_window.c). */
#include "plane/window.h"

#include "test.h"

/* A line as it is: what is given stands in its queue, arrives later, and is acknowledged later still. */
typedef struct way {
    window_t window;
    tcp_look_t look;
    int64_t now, own_free_at;
    int64_t *free_at; /* when the line is */
    double rate;
    int64_t base_ns;
    struct {
        int64_t at, again_at; /* again_at: when it is sent again; 0: it is not */
        uint64_t upto;
    } acks[4096];
    int first, last;
    uint64_t given;
    int loses; /* one packet of so many; 0: none */
    int sent;
} way_t;

/* What has arrived: all of it up to the first gap, and behind that. */
static void way_arrives(way_t *way) {
    for (; way->first != way->last && way->acks[way->first].at <= way->now; way->first = (way->first + 1) % 4096) {
        way->look.acked = way->acks[way->first].upto;
    }
    uint64_t before = way->look.acked;
    way->look.beyond = 0;
    for (int at = way->first; at != way->last; at = (at + 1) % 4096) {
        way->look.beyond += way->acks[at].at <= way->now ? way->acks[at].upto - before : 0;
        before = way->acks[at].upto;
        if (way->acks[at].again_at != 0 && way->acks[at].again_at <= way->now) {
            way->acks[at].again_at = 0;
            way->look.resent += 1448;
        }
    }
    way->look.held = way->given - way->look.acked;
}

static void way_runs(way_t *way, int64_t ns, uint64_t waiting) {
    const int64_t step = 20 * NS_PER_MS;
    for (int64_t end = way->now + ns; way->now < end;) {
        way->now += step;
        way_arrives(way);
        window_learn(&way->window, &way->look, waiting != 0, way->now);
        uint64_t room = window_gives(&way->window, &way->look, waiting, 0, way->now);
        room = room < waiting ? room : waiting;
        for (uint64_t packet; room != 0; room -= packet) {
            packet = room < 1448 ? room : 1448;
            *way->free_at = *way->free_at > way->now ? *way->free_at : way->now;
            *way->free_at += (int64_t)((double)packet / way->rate * (double)NS_PER_SECOND);
            way->given += packet;
            bool lost = way->loses != 0 && ++way->sent % way->loses == 0;
            int64_t answer_ns = *way->free_at + way->base_ns;
            way->acks[way->last].again_at = lost ? answer_ns : 0;
            way->acks[way->last].at = answer_ns + (lost ? way->base_ns : 0);
            way->acks[way->last].upto = way->given;
            way->last = (way->last + 1) % 4096;
        }
        int64_t queued_ns = *way->free_at > way->now ? *way->free_at - way->now : 0;
        way->look.round_trip_ns = way->base_ns + queued_ns;
        if (way->look.round_trip_ns < way->look.round_trip_min_ns) {
            way->look.round_trip_min_ns = way->look.round_trip_ns; /* which the kernel keeps for minutes */
        }
    }
}

static way_t *way_with(double rate, int64_t base_ns) {
    static way_t ways[24];
    static int used;
    way_t *way = &ways[used++];
    way->free_at = &way->own_free_at;
    way->rate = rate;
    way->base_ns = base_ns;
    way->now = NS_PER_SECOND;
    way->look = (tcp_look_t){.packet = 1448, .round_trip_ns = base_ns, .round_trip_min_ns = base_ns};
    window_begin(&way->window, &way->look, way->now);
    return way;
}

static double way_carries(way_t *way, int64_t ns) {
    uint64_t before = way->look.acked;
    way_runs(way, ns, 1 << 20);
    return (double)(way->look.acked - before) / ((double)ns / (double)NS_PER_SECOND) / way->rate;
}

static void a_way_that_becomes_longer_is_filled_all_the_same(void) {
    way_t *way = way_with(6250, 200 * NS_PER_MS);
    way_carries(way, 30 * NS_PER_SECOND);
    CHECK(way_carries(way, 30 * NS_PER_SECOND) > 0.9);
    CHECK_EQ_I64(0, way->window.longer_ns);
    way->base_ns = 2 * NS_PER_SECOND;
    way_carries(way, 15 * NS_PER_SECOND);
    CHECK(way->look.round_trip_min_ns <= 200 * NS_PER_MS);
    CHECK(way_carries(way, 110 * NS_PER_SECOND) > 0.95);
    CHECK(way->window.longer_ns >= 1900 * NS_PER_MS && way->window.longer_ns < 3 * NS_PER_SECOND);
    way->base_ns = 200 * NS_PER_MS;
    way_carries(way, 150 * NS_PER_SECOND);
    CHECK(way->window.longer_ns < 600 * NS_PER_MS); /* or what is urgent would wait in its queue */
    CHECK(way->window.bytes < 6 * 1448);
}

/* What is sent again comes a round trip later, which is no proof of a longer way; a longer way is seen all the same. */
static void what_is_lost_makes_no_way_longer(void) {
    way_t *way = way_with(6250, 2 * NS_PER_SECOND);
    way->loses = 20;
    CHECK(way_carries(way, 110 * NS_PER_SECOND) > 0.93);
    CHECK_EQ_I64(0, way->window.emptied_ns);
    way_t *longer = way_with(6250, 200 * NS_PER_MS);
    longer->loses = 20;
    way_carries(longer, 30 * NS_PER_SECOND);
    longer->base_ns = 2 * NS_PER_SECOND;
    way_carries(longer, 30 * NS_PER_SECOND);
    CHECK(longer->look.round_trip_min_ns <= 200 * NS_PER_MS);
    CHECK(way_carries(longer, 110 * NS_PER_SECOND) > 0.9);
}

/* In the first round trip nothing can have arrived: what did by its end is no rate. */
static void a_link_that_was_idle_begins_with_its_whole_window(void) {
    const struct {
        double rate;
        int64_t round_trip_ns, idle_ns;
    } lines[] = {{6250, 2 * NS_PER_SECOND, NS_PER_SECOND},
                 {6250, 2 * NS_PER_SECOND, 2900 * NS_PER_MS},
                 {12500, NS_PER_SECOND, 700 * NS_PER_MS}};
    for (int i = 0; i < 3; i++) {
        way_t *way = way_with(lines[i].rate, lines[i].round_trip_ns);
        way_runs(way, lines[i].idle_ns, 0);
        for (int64_t end = way->now + 10 * NS_PER_SECOND; way->now < end;) {
            way_runs(way, 20 * NS_PER_MS, 1 << 20);
            CHECK(way->window.bytes >= 12500 + 1448);
        }
        CHECK(way_carries(way, 20 * NS_PER_SECOND) > 0.98);
    }
    way_t *wide = way_with(50e3, NS_PER_SECOND); /* three times 16 KB are under way */
    way_runs(wide, 1700 * NS_PER_MS, 0);
    way_runs(wide, 2 * NS_PER_SECOND, 1 << 20);
    CHECK(wide->window.bytes > 50000);
    CHECK(way_carries(wide, 20 * NS_PER_SECOND) > 0.9);
}

/* For half a minute nothing gets through; what is under way arrives in the end. */
static void an_outage_is_no_longer_way(void) {
    way_t *way = way_with(6250, 2 * NS_PER_SECOND);
    way_carries(way, 120 * NS_PER_SECOND);
    for (int i = 0; i < 3; i++) {
        for (int at = way->first; at != way->last; at = (at + 1) % 4096) {
            way->acks[at].at += 30 * NS_PER_SECOND;
        }
        *way->free_at += 30 * NS_PER_SECOND;
        int64_t trip_ns = way->look.round_trip_ns;
        for (int64_t end = way->now + 30 * NS_PER_SECOND; way->now < end;) {
            way->now += 20 * NS_PER_MS;
            way->look.round_trip_ns = trip_ns; /* which nothing changes meanwhile */
            window_learn(&way->window, &way->look, true, way->now);
        }
        int64_t back_ns = way->now;
        way_carries(way, 5 * NS_PER_SECOND);
        CHECK(way->window.emptied_ns < back_ns); /* or the contact would begin with a pause */
        CHECK(way_carries(way, 30 * NS_PER_SECOND) > 0.9);
    }
}

static void a_queue_is_no_longer_way(void) {
    way_t *way = way_with(6250, 200 * NS_PER_MS);
    way_carries(way, 300 * NS_PER_SECOND);
    CHECK(way->window.bytes < 6 * 1448);
    CHECK(way->window.longer_ns < 600 * NS_PER_MS);
}

#define BESIDE 10

/* So many links fill one line. Returns what of it is used; *most: bytes under way of all, at most. */
static double beside_carry(way_t **ways, int64_t ns, uint64_t *most) {
    uint64_t before = 0, after = 0;
    for (int i = 0; i < BESIDE; i++) {
        before += ways[i]->look.acked;
    }
    *most = 0;
    for (int64_t end = ways[0]->now + ns; ways[0]->now < end;) {
        uint64_t held = 0;
        for (int i = 0; i < BESIDE; i++) {
            way_runs(ways[i], 20 * NS_PER_MS, 1 << 20);
            held += ways[i]->given - ways[i]->look.acked;
        }
        *most = held > *most ? held : *most;
    }
    for (int i = 0; i < BESIDE; i++) {
        after += ways[i]->look.acked;
    }
    return (double)(after - before) / ((double)ns / (double)NS_PER_SECOND) / ways[0]->rate;
}

static void links_beside_each_other_fill_one_line_and_no_queue(void) {
    way_t *ways[BESIDE];
    for (int i = 0; i < BESIDE; i++) {
        ways[i] = way_with(6250, NS_PER_SECOND);
        ways[i]->free_at = &ways[0]->own_free_at;
        ways[i]->window.among = ways[i]->window.beside = BESIDE;
    }
    uint64_t most;
    (void)beside_carry(ways, 20 * NS_PER_SECOND, &most);
    CHECK(most <= (uint64_t)BESIDE * 3 * 1448); /* and not ten times 16 KB */
    CHECK(beside_carry(ways, 90 * NS_PER_SECOND, &most) > 0.95);
    CHECK(most <= 6250 * 5 / 4 + BESIDE * 1448);
    for (int i = 0; i < BESIDE; i++) {
        CHECK_EQ_I64(0, ways[i]->window.longer_ns);
    }
}

int main(void) {
    RUN("a way that becomes longer is filled as well", a_way_that_becomes_longer_is_filled_all_the_same);
    RUN("a packet that was lost is not taken for a longer way", what_is_lost_makes_no_way_longer);
    RUN("a link that was idle is not taken for slow by the round trip in which nothing can come",
        a_link_that_was_idle_begins_with_its_whole_window);
    RUN("an outage is not taken for a longer way", an_outage_is_no_longer_way);
    RUN("a queue of its own making is not taken for a longer way", a_queue_is_no_longer_way);
    RUN("links beside each other fill their line, and take each other's queue for no longer way",
        links_beside_each_other_fill_one_line_and_no_queue);
    return TEST_RESULT();
}
