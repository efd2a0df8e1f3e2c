/* window_learn.c: the pure part of window.h: what a window learns of looks at its socket, and what it then lets out. */
#include "plane/window.h"

#include "base/abi_types.h"

/* A near link that is given more than it carries would reach max_pending some day, and be closed though it lives. From
 * half of it on, what is too much is dropped as on a slow link, until an eighth waits. */
#define CROWDED_FROM 2u
#define CROWDED_UNTIL 8u
#define TURN_NS (2 * WINDOW_WAIT_MIN_NS)

bool window_crowds(bool crowded, uint64_t waits, uint64_t most) {
    return waits > most / (crowded ? CROWDED_UNTIL : CROWDED_FROM);
}

void window_begin(window_t *window, const tcp_look_t *look, int64_t mono_ns) {
    *window = (window_t){.measured = true,
                         .narrow = look->round_trip_min_ns >= WINDOW_NEAR_NS,
                         .bytes = WINDOW_FIRST,
                         .packet = look->packet != 0 ? look->packet : WINDOW_PACKET,
                         .acked = look->acked,
                         .arrived = look->acked + look->beyond,
                         .looked_ns = mono_ns,
                         .progress_ns = mono_ns,
                         .back_ns = INT64_MIN / 2,
                         .alive_ns = mono_ns,
                         .gave_ns = mono_ns,
                         .drained_ns = mono_ns,
                         .packed = 1,
                         .round_trip_ns = look->round_trip_ns,
                         .round_trip_min_ns = look->round_trip_min_ns};
}

static uint64_t less(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

/* Until what was given is acknowledged, or the socket is looked at again, if that is later. */
static double under_way(const window_t *window) {
    int64_t trip_ns = window->round_trip_min_ns > TURN_NS ? window->round_trip_min_ns : TURN_NS;
    return (double)window->rate * (double)trip_ns / (double)NS_PER_SECOND;
}

static bool is_coarse(const window_t *window) {
    return window->proven && under_way(window) < (double)window->packet;
}

uint64_t window_piece(const window_t *window) {
    uint64_t quarter = window->bytes / 4;
    return is_coarse(window) ? window->packet / 2 : quarter > window->packet ? quarter : window->packet;
}

static bool is_alone(const window_t *window) {
    return window->beside < 2;
}

/* The bytes under way at the window's rate, a quarter and two packets more: one that is being sent, and one behind it.
 * Where packets are half full, one of these does. Links beside each other have these two together, and each of them a
 * packet; what one of them carries more rises as others carry less, and is no proof that the line carries more. */
static uint64_t bytes_at(const window_t *window) {
    double packet = (double)window->packet, more = (is_coarse(window) ? 1.0 : 2.0) * packet;
    double bytes = under_way(window) * (window->level < WINDOW_LEVEL && is_alone(window) ? 2.0 : 1.25);
    bytes += is_alone(window) ? more : more / window->beside;
    bytes = bytes < packet ? packet : bytes;
    return bytes > (double)WINDOW_MAX ? (uint64_t)WINDOW_MAX + 1 : (uint64_t)bytes;
}

/* Of what a link begins with, those that have a line together have a part each. */
static uint64_t bytes_allowed(const window_t *window) {
    if (window->proven || window->among < 2) {
        return window->bytes;
    }
    uint64_t part = window->bytes / window->among;
    return part > 2 * window->packet ? part : 2 * window->packet;
}

static int64_t loss_explains(const window_t *window) {
    return window->round_trip_ns * 3 / 2 + WINDOW_SILENT_NS;
}

/* Nothing of what is under way has arrived for longer than a lost packet explains. */
static bool is_outage(const window_t *window, int64_t mono_ns) {
    return mono_ns - window->progress_ns > loss_explains(window);
}

/* There was no more to carry, and what is under way is no queue: two packets may be one that was lost, and its end. */
static bool lacked(const window_t *window, const tcp_look_t *look, uint64_t sample) {
    double trip = (double)window->round_trip_min_ns / (double)NS_PER_SECOND, carried = (double)sample * trip;
    double rate = window->proven || trip <= 0 ? (double)window->rate : (double)window->bytes / trip;
    double flying = (double)less(look->held, look->beyond);
    return window->dry && (double)sample <= rate && flying <= 2 * carried + 2 * (double)window->packet;
}

static void learn_rate(window_t *window, uint64_t sample, int64_t mono_ns) {
    if (sample < window->rate && mono_ns - window->back_ns < WINDOW_BACK_TRIPS * window->round_trip_min_ns) {
        return; /* TCP begins with a packet: that is no proof that the line carries less than before the outage */
    }
    bool rises = !window->proven || sample > window->rate + window->rate / 10;
    window->level = rises && window->level < WINDOW_LEVEL ? 0 : window->level + (window->level < WINDOW_LEVEL);
    /* Half of a rise at once: what was acknowledged after a stall comes in a heap, and was not carried as fast. */
    if (sample > window->rate) {
        window->rate = window->proven ? window->rate + (sample - window->rate) / 2 : sample;
    } else {
        window->rate -= (window->rate - sample) / 8;
    }
    window->proven = true;
}

static void learn_width(window_t *window) {
    uint64_t bytes = bytes_at(window);
    if (window->narrow) {
        window->bytes = bytes;
        window->narrow = window->bytes <= WINDOW_MAX
                         && (window->crowded || window->round_trip_min_ns >= WINDOW_NEAR_NS
                             || window->rate < 2 * (uint64_t)WINDOW_SLOW);
    } else if (window->crowded || window->rate < WINDOW_SLOW) {
        window->narrow = true;
        window->bytes = bytes < WINDOW_FIRST ? WINDOW_FIRST : bytes;
    }
}

static bool is_long(int64_t trip_ns, int64_t least_ns) {
    return trip_ns > WINDOW_LONGER * least_ns && trip_ns >= WINDOW_LONGER_NS;
}

/* The time of a full packet, without the time that it takes to be sent; half of it at least. */
static int64_t travel_ns(const window_t *window, int64_t trip_ns) {
    double rate = window->rate != 0 ? (double)window->rate : 1.0;
    double sending = (double)window->packet * (double)NS_PER_SECOND / rate;
    return sending > (double)trip_ns / 2 ? trip_ns / 2 : trip_ns - (int64_t)sending;
}

/* Is it worth a pause to know? Where it is not a longer way, seldom, unless something has happened since. */
static bool asks(const window_t *window, int64_t trip_ns, int64_t mono_ns) {
    int64_t since_ns = mono_ns - window->emptied_ns;
    if (trip_ns > 2 * window->round_trip_ns && trip_ns > WINDOW_GAP_NS) {
        return false; /* an outage, or something that was lost again and again */
    }
    if (window->longer_ns != 0 && since_ns >= WINDOW_DRAIN_NS) {
        return true; /* it may be short again */
    }
    return is_long(travel_ns(window, trip_ns), window->round_trip_min_ns)
           && (since_ns >= window->empty_after_ns
               || (since_ns >= WINDOW_EMPTY_NS / 3 && trip_ns > window->emptied_trip_ns * 3 / 2));
}

static void run_empty(window_t *window, int64_t trip_ns, int64_t mono_ns) {
    int64_t after_ns = window->empty_after_ns == 0 ? WINDOW_EMPTY_NS : 2 * window->empty_after_ns;
    window->empties = true;
    window->emptied_ns = mono_ns;
    window->emptied_trip_ns = trip_ns;
    window->empty_after_ns = after_ns > WINDOW_DRAIN_NS ? WINDOW_DRAIN_NS : after_ns;
    /* By then a lost packet has been sent again. */
    window->resume_ns = mono_ns + 3 * (trip_ns < WINDOW_GAP_NS ? trip_ns : WINDOW_GAP_NS);
}

/* Nothing was learned, since a packet was lost: it is asked again soon. */
static void ask_again(window_t *window) {
    window->empties = false;
    window->emptied_trip_ns = 0;
}

/* Learns from a piece's time whether the way has become longer, or shorter again. resent: something was sent again
 * meanwhile, which came a round trip later. least_ns: the kernel's. */
static void learn_way(window_t *window, int64_t trip_ns, bool resent, int64_t least_ns, int64_t mono_ns) {
    if (window->given_alone) {
        int64_t way_ns = travel_ns(window, trip_ns);
        bool longer = is_long(way_ns, least_ns);
        if (longer && way_ns > window->longer_ns + window->longer_ns / 4) {
            window->level = 0; /* it may carry more than fitted into the window */
        }
        window->longer_ns = longer ? way_ns : 0;
        window->empties = false;
    } else if (trip_ns < window->longer_ns) {
        window->longer_ns = trip_ns;
    } else if (is_alone(window) && asks(window, resent ? trip_ns / 2 : trip_ns, mono_ns)) {
        run_empty(window, resent ? trip_ns / 2 : trip_ns, mono_ns);
    }
}

static void time_piece(window_t *window, const tcp_look_t *look, int64_t mono_ns) {
    bool told = window->given_ns != 0 && look->acked > window->given_end;
    /* A piece that waited behind others only tells that it took longer. */
    bool resent = window->given_ns != 0 && look->resent != window->given_resent;
    bool lost = resent && window->given_alone;
    int64_t trip_ns = mono_ns - window->given_ns, unseen_ns = mono_ns - window->seen_ns;
    if (told && !lost && window->proven && unseen_ns <= trip_ns / 4) {
        learn_way(window, trip_ns, resent, look->round_trip_min_ns, mono_ns);
    } else if (lost && window->empties) {
        ask_again(window);
    }
    if (told || lost) {
        window->given_ns = 0;
    }
    window->seen_ns = mono_ns;
    if (window->longer_ns <= look->round_trip_min_ns * 5 / 4) {
        window->longer_ns = 0;
    }
    window->round_trip_min_ns = window->longer_ns != 0 ? window->longer_ns : look->round_trip_min_ns;
}

/* A piece is given to the kernel. */
static void mark_piece(window_t *window, const tcp_look_t *look, int64_t mono_ns) {
    bool alone = look->held == 0 && is_alone(window);
    if (window->empties && !alone && mono_ns >= window->resume_ns) {
        ask_again(window);
    }
    if (window->given_ns == 0 || look->held == 0) {
        window->given_ns = mono_ns;
        window->given_end = look->acked + look->held;
        window->given_resent = look->resent;
        window->given_alone = alone;
    }
}

/* Notes when a link by which nothing is under way gets something to carry. */
static void note_beginning(window_t *window, const tcp_look_t *look, bool waiting, int64_t mono_ns) {
    if (waiting && !window->flows && look->held == 0) {
        window->begun_ns = mono_ns;
        window->arrived = look->acked + look->beyond;
    }
    window->flows = window->flows || waiting;
}

/* Since when something can have arrived that has not been counted. */
static int64_t counts_from(const window_t *window) {
    int64_t first_ns = window->begun_ns + window->round_trip_min_ns;
    return first_ns > window->looked_ns ? first_ns : window->looked_ns;
}

void window_learn(window_t *window, const tcp_look_t *look, bool waiting, int64_t mono_ns) {
    window->round_trip_ns = look->round_trip_ns;
    window->recovers = look->recovers;
    note_beginning(window, look, waiting, mono_ns);
    time_piece(window, look, mono_ns);
    window->packet = look->packet != 0 ? look->packet : window->packet;
    window->wire = look->wire;
    window->out = look->out;
    window->unsent = look->unsent;
    uint64_t arrived = look->acked + look->beyond;
    window->heard_ns = arrived > window->heard ? mono_ns : window->heard_ns;
    window->heard = arrived;
    int64_t look_after_ns = window_look_after(window);
    if (mono_ns - window->looked_ns < look_after_ns) {
        return;
    }
    if (look->acked != window->acked || arrived > window->arrived) {
        window->back_ns = is_outage(window, mono_ns) ? mono_ns : window->back_ns;
        window->alive_ns = mono_ns;
    }
    if (window->alive_ns == mono_ns || look->held == 0) {
        window->progress_ns = mono_ns;
    }
    window->acked = look->acked;
    uint64_t moved = arrived > window->arrived ? arrived - window->arrived : 0;
    int64_t took_ns = mono_ns - counts_from(window);
    if (window->busy && waiting && look->held != 0 && (moved == 0 || took_ns < look_after_ns / 2)) {
        return; /* the next time that something has arrived says how fast it was */
    }
    took_ns = took_ns < look_after_ns / 2 ? look_after_ns / 2 : took_ns;
    uint64_t sample = (uint64_t)((double)moved * (double)NS_PER_SECOND / (double)took_ns);
    if (window->busy && waiting && !lacked(window, look, sample)) {
        learn_rate(window, sample, mono_ns);
        learn_width(window);
    }
    window->busy = waiting;
    window->dry = false;
    window->arrived = arrived;
    window->looked_ns = mono_ns;
}

void window_dried(window_t *window) {
    window->dry = window->narrow;
    window->flows = false;
}

/* Is the queue to run empty, so that a round trip is seen without it? Then nothing but what is urgent goes for as long
 * as it takes. */
static bool drains(window_t *window, uint64_t flying, int64_t mono_ns) {
    if (flying == 0 || (flying <= window->packet && !window->empties)) {
        window->drained_ns = mono_ns;
        window->resume_ns = flying == 0 ? mono_ns : window->resume_ns;
    } else if (mono_ns - window->drained_ns > WINDOW_DRAIN_NS) {
        window->drained_ns = mono_ns;
        window->resume_ns = mono_ns + window->round_trip_ns - window->round_trip_min_ns * 7 / 8;
    }
    return mono_ns < window->resume_ns;
}

/* What was under way in an outage was lost, most of it. The first answer behind it often says that one packet was sent
 * again in vain, and TCP then takes all of them for under way: it waits for seconds, unless something comes behind them
 * by which it sees the gap. */
static bool is_back(const window_t *window, int64_t mono_ns) {
    return mono_ns - window->back_ns < window->round_trip_min_ns;
}

static uint64_t gives(window_t *window, const tcp_look_t *look, uint64_t waiting, uint64_t urgent, int64_t mono_ns) {
    uint64_t flying = less(look->held, look->beyond), piece = window_piece(window);
    uint64_t limit = drains(window, flying, mono_ns) ? 0 : bytes_allowed(window);
    if (limit != 0 && is_back(window, mono_ns)) {
        limit += WINDOW_BACK_PACKETS * window->packet;
        piece = window->packet;
    }
    uint64_t room = less(limit, flying);
    if (look->held > 4 * window->bytes) {
        return 0; /* one that is lost again and again: the peer has to keep all behind it */
    }
    if (room >= piece || room >= waiting || look->held == 0) {
        return room;
    }
    room = less(limit + window->packet, flying);
    return room < urgent ? room : urgent;
}

uint64_t window_gives(window_t *window, const tcp_look_t *look, uint64_t waiting, uint64_t urgent, int64_t mono_ns) {
    uint64_t room = gives(window, look, waiting, urgent, mono_ns);
    if (room != 0 && waiting != 0) {
        mark_piece(window, look, mono_ns);
        window->gave_ns = mono_ns;
    }
    return room;
}

int64_t window_gathers_until(const window_t *window, uint64_t waiting) {
    int64_t part_ns = window->round_trip_min_ns / WINDOW_GATHER_PART;
    bool full = (double)waiting >= (double)window->packet * window->packed;
    if (!window->narrow || full || window->round_trip_min_ns < WINDOW_GATHER_TRIP_NS) {
        return window->gave_ns;
    }
    return window->gave_ns + (part_ns < WINDOW_GATHER_MAX_NS ? part_ns : WINDOW_GATHER_MAX_NS);
}

int64_t window_patience_ns(const window_t *window) {
    int64_t trips_ns = window->round_trip_ns * WINDOW_PATIENCE_TRIPS;
    return trips_ns > WINDOW_PATIENCE_NS ? trips_ns : WINDOW_PATIENCE_NS;
}

int64_t window_again_ns(const window_t *window, int64_t mono_ns) {
    bool outage = is_outage(window, mono_ns);
    int64_t least_ns = outage ? WINDOW_OUTAGE_NS : WINDOW_AGAIN_NS;
    /* The first answer after an outage counts as one that took as long as that. */
    int64_t trip_ns = window->round_trip_ns, most_ns = 2 * window->round_trip_min_ns;
    int64_t trips_ns = (trip_ns < most_ns ? trip_ns : most_ns) * (outage ? 1 : WINDOW_AGAIN_TRIPS);
    return trips_ns > least_ns ? trips_ns : least_ns;
}

bool window_again_differs(const window_t *window, int64_t mono_ns) {
    int64_t again_ns = window_again_ns(window, mono_ns), part_ns = window->again_ns / 8;
    return window->again_ns != 0 && (again_ns > window->again_ns + part_ns || again_ns < window->again_ns - part_ns);
}

static int64_t doubt_after(const window_t *window) {
    int64_t trips_ns = window->round_trip_ns * WINDOW_DOUBT_TRIPS;
    return trips_ns > WINDOW_DOUBT_NS ? trips_ns : WINDOW_DOUBT_NS;
}

bool window_doubtful(const window_t *window, int64_t mono_ns) {
    return mono_ns - window->progress_ns >= doubt_after(window);
}

/* What came soon after the last that arrived may have been under way before an outage. */
void window_hears(window_t *window, int64_t heard_ns) {
    if (heard_ns - window->progress_ns <= loss_explains(window)) {
        window->heard_on_ns = 0;
    } else if (window->heard_on_ns == 0) {
        window->heard_on_ns = heard_ns;
    }
}

/* At the end of an outage the peer is heard before what was lost has been sent again and has arrived. */
uint32_t window_doubt(const window_t *window, const tcp_look_t *look, int64_t mono_ns) {
    bool stands = look->acked < WINDOW_FIRST && less(look->held, look->unsent) >= look->packet;
    int64_t sent_again_ns = window_again_ns(window, mono_ns) + loss_explains(window);
    bool passes = window->heard_on_ns != 0 && mono_ns - window->heard_on_ns > sent_again_ns;
    return !stands ? DOUBT_ALL : passes ? DOUBT_LARGE : DOUBT_FIRST;
}

void window_heard(window_t *window) {
    window->acked_heard = window->acked;
    window->answered_ns = 0;
}

uint32_t window_unanswered(window_t *window, const tcp_look_t *look, int64_t quiet_ns, int64_t mono_ns) {
    if (window->answered_ns == 0 && look->acked > window->acked_heard) {
        window->answered_ns = mono_ns;
    }
    bool arrives = window->answered_ns != 0 && less(look->held, look->unsent) < look->packet;
    int64_t after_ns = doubt_after(window);
    return arrives && look->received < WINDOW_FIRST && mono_ns - window->answered_ns >= after_ns
                   && quiet_ns >= WINDOW_ALIVE_NS + after_ns
               ? DOUBT_LARGE
               : DOUBT_NONE;
}

bool window_dead(const window_t *window, int64_t write_deadline_ns, int64_t mono_ns) {
    int64_t patience_ns = window_patience_ns(window);
    return mono_ns - window->progress_ns >= (write_deadline_ns > patience_ns ? write_deadline_ns : patience_ns)
           && mono_ns - window->alive_ns >= patience_ns + WINDOW_ALIVE_NS;
}

/* Not where the way has become longer than BBR allows for: it begins with the kernel's least round trip, which is that
 * of five minutes. Only where something has arrived since the look before, so not in an outage, whose end is to find it
 * with the rate that it has seen. And not in the first round trips after one: a rate that begins with one packet, and
 * with an answer that took as long as the outage, is that of a packet in seconds. */
bool window_spares(window_t *window, bool waiting, int64_t mono_ns) {
    if (!waiting || !window->narrow || window->heard_ns != mono_ns
        || mono_ns - window->back_ns < WINDOW_SPARE_TRIPS * window->round_trip_min_ns
        || window->round_trip_min_ns < WINDOW_PROBE_TRIP_NS || window->longer_ns != 0
        || window->round_trip_ns > WINDOW_PROBE_WORTH * window->round_trip_min_ns
        || mono_ns - window->spared_ns < (window->recovers ? WINDOW_PROBE_NS : WINDOW_CALM_NS)) {
        return false;
    }
    window->spared_ns = mono_ns;
    return true;
}

uint64_t window_saved(window_t *window, uint64_t waiting, int64_t mono_ns) {
    double most = (double)window->pace / 4, packet = (double)window->packet;
    packet = packet > WINDOW_PACKET ? WINDOW_PACKET : packet; /* loopback's are 64 KB */
    most = most < 2 * packet ? 2 * packet : most;
    window->saved += (double)window->pace * (double)(mono_ns - window->saved_ns) / (double)NS_PER_SECOND;
    window->saved -= (double)less(window->out, window->spent);
    window->saved = window->saved > most ? most : window->saved;
    window->saved_ns = mono_ns;
    window->spent = window->out;
    if (window->saved <= 0 || (window->saved < packet && window->saved < (double)waiting)) {
        return 0;
    }
    return (uint64_t)window->saved;
}
