/* window.h: how much a leaf link may have under way, by what it has proven to carry.
 *
 *     lanes  --room-->  kernel: unsent, under way, lost  -->  the peer's kernel
 *                       |<--------- one window -------->|
 *
 * The kernel takes megabytes for a link that carries kilobytes a second, and whatever is in its queue is minutes old
 * when it arrives: a command waits behind it, a copy's answers come too late, and all of it is lost with the
 * connection. So a link that is far or slow is given no more than it has under way at its rate (bandwidth x round
 * trip), a quarter and one or two packets more; twice as much while the rate rises; WINDOW_FIRST at the beginning. What
 * has arrived behind a gap counts no longer: a lost packet does not stop the others. What has to wait does so in
 * lanes.h, where precedence chooses. A link that is near or fast has no window: nothing is asked or counted for it.
 *
 * The rate is that of the bytes that arrived while something waited. It is also what tells a slow link from a dead one.
 * Where all that waited was given, fewer bytes prove nothing but that there were no more, unless they stood in a queue.
 * A time in which nothing arrives is an outage, and proves nothing of the rate. Nor does the first round trip of a link
 * by which nothing was under way: nothing can have arrived by then. The shortest round trip is seen only while nothing
 * queues: a link that is busy all the time is given nothing for a moment now and then.
 *
 * A way may become longer while it is used. The kernel keeps its shortest round trip for five minutes, and a window
 * that is too small for the new one looks like a slow link with a queue: rate, window and round trip agree. So the time
 * of one piece after another is taken, from when it is given until it is acknowledged; half of it, if a packet was sent
 * again meanwhile, which takes a round trip more. If that is much longer than the shortest round trip, the link is let
 * run empty, and the next piece tells, alone: a queue, or the way itself.
 *
 * Lines that come one after the other in a moment go together, as one packet and one compressed piece: behind one that
 * was given, less than a packet waits for a small part of the round trip. A connection that was asked for in an outage
 * begins with the four packets that BBR has at least (RFC 5681 gives it one), and so its first answers are in these.
 *
 * A box may have ten links, for ten accounts, and has one line (trunk.h), upwards and downwards. What each may have
 * under way beyond its own rate is what all of those together may that have something waiting, and the queue that one
 * of them sees is the others': none takes it for a longer way, and they let it run empty together.
 *
 * window_learn.c has pure functions of what was seen; window.c asks the kernel.
 */
#ifndef LEAFD_PLANE_WINDOW_H
#define LEAFD_PLANE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/status.h"
#include "net/tcp.h"
#include "plane/trunk.h"

typedef struct plane plane_t;
typedef struct peer peer_t;
typedef struct precedence precedence_t;
typedef struct budget budget_t;

#define WINDOW_FIRST (16u * 1024u)
#define WINDOW_PACKET 1448u              /* bytes in a full packet, where the kernel does not say */
#define WINDOW_MAX (1024u * 1024u)       /* a link that needs more needs none */
#define WINDOW_NEAR_NS (5 * NS_PER_MS)   /* a round trip below this is near: no window, unless it turns out slow */
#define WINDOW_SLOW (256u * 1024u)       /* bytes a second of a near one below which it is slow */
#define WINDOW_LOOK_NS (100 * NS_PER_MS) /* between two looks, at least; and at least a round trip */
#define WINDOW_WAIT_MIN_NS (5 * NS_PER_MS)
#define WINDOW_WAIT_MAX_NS (100 * NS_PER_MS)
#define WINDOW_GATHER_TRIP_NS (200 * NS_PER_MS) /* from this round trip on what is less than a packet .. */
#define WINDOW_GATHER_PART 32                   /* .. waits for such a part of it, .. */
#define WINDOW_GATHER_MAX_NS (100 * NS_PER_MS)  /* .. and no longer than this, for others to go with it */
#define WINDOW_WAITS_MIN (16u * 1024u)          /* that is enough for a well packed piece */
#define WINDOW_PACKED_MAX 6u                    /* bytes that become one, at most, where a link is compressed */
#define WINDOW_LEVEL 3u
#define WINDOW_DRAIN_NS (120 * NS_PER_SECOND)  /* so long a queue may stand before it is let run empty */
#define WINDOW_PROBE_NS (8 * NS_PER_SECOND)    /* BBR looks for a shorter round trip when ten seconds are over */
#define WINDOW_CALM_NS (2 * NS_PER_SECOND)     /* where nothing is being sent again it begins anew so early */
#define WINDOW_PROBE_TRIP_NS (300 * NS_PER_MS) /* which costs a round trip or two: much, from here on */
#define WINDOW_PROBE_WORTH 3 /* so many times the least round trip is more than BBR allows for: it has to look */
#define WINDOW_LONGER 2      /* so many times the least round trip for a piece: a queue, or a longer way .. */
#define WINDOW_LONGER_NS (300 * NS_PER_MS) /* .. if that is so much, which a look sees exactly enough */
#define WINDOW_EMPTY_NS                                                                                                \
    (15 * NS_PER_SECOND) /* after an empty link has told, it tells again so late, then twice as late */
#define WINDOW_TELL_NS (60 * NS_PER_SECOND)
#define WINDOW_PATIENCE_NS (43 * NS_PER_SECOND) /* a link of which nothing is heard or acknowledged for so long .. */
#define WINDOW_AGAIN_NS (3 * NS_PER_SECOND)     /* what is lost is sent again at least so often, .. */
#define WINDOW_AGAIN_TRIPS 3                    /* .. or after so many round trips, if that is longer; .. */
#define WINDOW_OUTAGE_NS (2500 * NS_PER_MS)     /* .. in an outage so often, or after one, if that is longer */
#define WINDOW_BACK_PACKETS 2                   /* when something arrives after it so many more may be under way */
#define WINDOW_BACK_TRIPS 5                     /* in so many round trips after it TCP is back at its rate */
#define WINDOW_SPARE_TRIPS 3                    /* so many round trips after it BBR is left alone */
#define WINDOW_SILENT_NS NS_PER_SECOND          /* an outage: nothing came for a round trip, a half, and so long */
#define WINDOW_GAP_NS (3 * NS_PER_SECOND)       /* time in which nothing comes is heard time up to that */
#define WINDOW_PATIENCE_TRIPS 12                /* .. and for so many round trips is dead, .. */
#define WINDOW_ALIVE_NS                                                                                                \
    (13 * NS_PER_SECOND) /* .. if so much longer nothing has arrived at all: an idle link is asked so late; .. */
#define WINDOW_DOUBT_NS (12 * NS_PER_SECOND) /* .. so long, it is in doubt, .. */
#define WINDOW_DOUBT_TRIPS 9                 /* .. if that are so many */

typedef struct window {
    bool measured;     /* it is TCP */
    bool narrow;       /* it has a window */
    bool proven;       /* the rate was seen under load */
    bool busy;         /* something waited at the last look */
    bool dry;          /* all that waited was given since then */
    bool crowded;      /* so much waits that the link is nearly a slow consumer: it has a window, near or not */
    bool waits;        /* in plane->narrows */
    bool flows;        /* something has waited since all was given last */
    bool recovers;     /* what was lost is being sent again */
    bool counted;      /* in trunk->links */
    bool counted_busy; /* in trunk->busy */
    uint32_t doubted;  /* DOUBT_*, as control was told last */
    uint32_t among;    /* links of the same line, this one included; 0: nothing is known of a line .. */
    uint32_t beside;   /* .. those that have something waiting; 0 or 1: it is alone */
    trunk_t *trunk;    /* NULL: nothing is known of it */
    uint64_t bytes;
    uint64_t packet;
    uint64_t rate;  /* bytes a second */
    uint32_t level; /* looks in which it did not rise; WINDOW_LEVEL: that is all it carries */
    uint64_t acked;
    uint64_t arrived; /* acked, and what came behind a gap */
    int64_t looked_ns;
    int64_t begun_ns;     /* when a link by which nothing was under way was given something last */
    int64_t progress_ns;  /* when something arrived, or nothing had to */
    int64_t heard_on_ns;  /* when the peer was first heard so late after it that no loss explains it; 0: it was not */
    uint64_t heard;       /* arrived, at the last look of all, .. */
    int64_t heard_ns;     /* .. and when it was more than at the one before */
    int64_t alive_ns;     /* when something arrived, by looks a round trip apart */
    int64_t back_ns;      /* when something did after an outage */
    uint64_t acked_heard; /* acked, while the peer was heard .. */
    int64_t answered_ns;  /* .. and when more was that was sent since it is silent; 0: nothing was */
    int64_t drained_ns;   /* when no queue stood last, or was let run empty */
    int64_t resume_ns;    /* until when it is */
    int64_t spared_ns;    /* when BBR began anew last */
    int64_t again_ns;     /* what the kernel was told of how often it tries again; 0: nothing */
    int64_t round_trip_ns;
    int64_t round_trip_min_ns; /* the kernel's, or that of a way that has become longer */
    int64_t longer_ns;         /* what this way takes since it became longer; 0: the kernel knows */
    int64_t given_ns;          /* when the piece was given whose time is taken; 0: none */
    uint64_t given_end;        /* its first byte is acknowledged when more than so many are */
    uint64_t given_resent;     /* what had been sent again then: the time of a packet that was lost tells nothing */
    bool given_alone;          /* nothing else was under way */
    int64_t seen_ns;           /* when the socket was last looked at */
    int64_t gave_ns;           /* when something was last given; at first, when it began */
    bool empties;              /* it runs empty, for the next piece to tell */
    int64_t emptied_ns;        /* when it was last made to, and .. */
    int64_t empty_after_ns;    /* .. how much later it may be again, but when a piece takes much longer than .. */
    int64_t emptied_trip_ns;   /* .. it took then */
    double packed;             /* of so many bytes of ours one goes out */
    uint64_t plain_before, packed_before;
    uint64_t wire, out; /* bytes both ways, and those that were sent, ever */
    uint64_t unsent;    /* that the kernel has not sent yet */
    uint64_t pace;      /* bytes a second that may be sent; 0: any */
    double saved;       /* of these, what was not used lately, .. */
    int64_t saved_ns;
    uint64_t spent;  /* .. and out then */
    int64_t told_ns; /* when it was last said that messages are dropped, .. */
    uint64_t told;   /* .. and how many had been then */
} window_t;

/* ---- calculations ------------------------------------------------------------------------------------------------ */

/* Is so much waiting, of at most so much, that a near link needs a window? crowded: it has one for that. */
bool window_crowds(bool crowded, uint64_t waits, uint64_t most);
void window_begin(window_t *window, const tcp_look_t *look, int64_t mono_ns);
/* waiting: something waits here or in the kernel. */
void window_learn(window_t *window, const tcp_look_t *look, bool waiting, int64_t mono_ns);
/* Nothing waits any more: the link is not what limits. */
void window_dried(window_t *window);
int64_t window_patience_ns(const window_t *window);
/* At least so often what had no answer is sent again. In an outage its end is found by that. Otherwise it is so late
 * that TCP goes by its own time: to try at about the time at which answers come is the worst of all. */
int64_t window_again_ns(const window_t *window, int64_t mono_ns);
/* True when the kernel was told something else. */
bool window_again_differs(const window_t *window, int64_t mono_ns);
/* Nothing has arrived for so long that another connection may come about sooner than this one goes on. What the peer's
 * kernel has behind a gap has arrived: it is acknowledged only when the gap is closed, which takes a link as long as
 * its queue is, and again if that packet is lost, too. */
bool window_doubtful(const window_t *window, int64_t mono_ns);
/* When the peer was heard last, for window_doubt. */
void window_hears(window_t *window, int64_t heard_ns);
/* DOUBT_*, of one that is in doubt. Does it stand at the first full packet of its life? Then the peer's pings still
 * come. In an outage nothing does. */
uint32_t window_doubt(const window_t *window, const tcp_look_t *look, int64_t mono_ns);
/* Notes what is acknowledged of one that has been heard of late. */
void window_heard(window_t *window);
/* DOUBT_*, of one by which nothing came for quiet_ns, though it was asked for a sign of life. Where that has arrived
 * the peer may stand at its first full packet. In an outage nothing arrives; when it is over, the peer's turn comes. */
uint32_t window_unanswered(window_t *window, const tcp_look_t *look, int64_t quiet_ns, int64_t mono_ns);
/* Nothing has arrived for so long that the link is dead. A link that was busy is given as long, from the last sign of
 * life on, as one that was idle and had to be asked first: after an outage of 30 s TCP needs its time. */
bool window_dead(const window_t *window, int64_t write_deadline_ns, int64_t mono_ns);

/* Between two looks at the socket of one that is quiet, at least. */
static inline int64_t window_look_after(const window_t *window) {
    return window->round_trip_min_ns > WINDOW_LOOK_NS ? window->round_trip_min_ns : WINDOW_LOOK_NS;
}

/* So much may wait here before consumers stop: enough for the time until the next look at the socket, and for a piece
 * that is well packed. */
static inline uint64_t window_most(const window_t *window) {
    return window->bytes > WINDOW_WAITS_MIN ? window->bytes : WINDOW_WAITS_MIN;
}
/* Less room than this counts as no room, so that packets are full; half full where a full one takes the time of a round
 * trip. */
uint64_t window_piece(const window_t *window);
/* The bytes that a narrow window may give to the kernel now; some of them urgent. 0: none. */
uint64_t window_gives(window_t *window, const tcp_look_t *look, uint64_t waiting, uint64_t urgent, int64_t mono_ns);
/* Until when the bytes that wait are held for others to go with them: a time in the past when they are not. */
int64_t window_gathers_until(const window_t *window, uint64_t waiting);
/* True when it is time to spare the link BBR's look for a shorter round trip (net/tcp.h), which the window makes
 * itself. Sooner where nothing is being sent again: a beginning in that state would forget how much was under way. */
bool window_spares(window_t *window, bool waiting, int64_t mono_ns);

/* The bytes that a link with a pace may be sent now, of so many that wait. A quarter of a second's, or two packets, may
 * be saved up. */
uint64_t window_saved(window_t *window, uint64_t waiting, int64_t mono_ns);

/* ---- the window of a link ---------------------------------------------------------------------------------------- */

void window_admitted(plane_t *plane, peer_t *peer);
/* Notes which links a leaf link has its line together with. whole: what is at the other end, as a number; 0: not
 * known. */
void window_beside(plane_t *plane, peer_t *peer, uint64_t whole);
void window_chores(plane_t *plane, peer_t *peer);
/* The bytes that the socket of a link with lanes may be given now, which are in conn.out then; 0: none, and it is
 * flushed again when it is time. */
uint64_t window_room(plane_t *plane, peer_t *peer);
/* Notes that the link was given all that it may have, and more waits. */
void window_wait(plane_t *plane, peer_t *peer);
/* Notes that the link was given what it may have; waiting bytes may go on. */
void window_given(plane_t *plane, peer_t *peer);
void window_dropped(plane_t *plane, peer_t *peer); /* a message for which its lane has no room */
/* Sets the link's rules of precedence, which it owns then. What waits by other rules goes before what comes, also what
 * waited for a budget. */
void window_rule(plane_t *plane, peer_t *peer, precedence_t *precedence);
/* Sets the bytes that the link may still carry, and how many a second. */
LEAF_MUST_USE status_t window_afford(plane_t *plane, peer_t *peer, const budget_t *budget);
/* Slows down who publishes more than the link carries, where it carries enough for a pause to help. */
void window_pace(plane_t *plane, const peer_t *peer, peer_t *producer);
void window_turn(plane_t *plane); /* those whose time has come are flushed */
void window_forget(plane_t *plane, peer_t *peer);

#endif
