/* memory.c: see memory.h. The table, and what is done when the memory of connections has reached its share.
 *
 * Output. Nobody needs to wait for a reader that does not read, so: first what the sockets take is written. Then the
 * connection with the most waiting is closed as a slow consumer, as one over its own max_pending is, until there is
 * room. Clients go before leaf links, behind which many wait, unless no client has more than OUTPUT_SMALL waiting: then
 * a link is what fills the share.
 *
 * Input. Bytes that came and are not acted on yet: parts of large messages, and what a connection sent ahead while it
 * waits for something. The less the share has left, the less is read at once (conn.c). A connection whose message finds
 * no room is not read for a moment, but the message that was begun first may always be made whole: the share may be
 * passed by one message, and by INPUT_SMALL of every connection. All that is small comes to as much again as the share;
 * beyond it nothing more is read until there is room. Half of the share is for what is large also where what is small
 * has the rest.
 *
 * Closing for that room. A device behind 10 kbit/s sends a packet in 1.1 s, and where one is lost it is silent for
 * seconds: no constant tells it from a client that stalls on purpose. So the connections that have begun something and
 * are silent (INPUT_IDLE_NS where it is small; where it is large INPUT_STALLED_NS, and longer than they took to send
 * it) are ranked. The one that holds most for the least progress goes first, clients before links, until there is
 * room: the square of what it holds, times its silence, by the time in which it sent that. So 15 KB that came at once
 * have after 200 ms the rank that 15 KB of a slow line have after half a minute: a client that wants to be taken for
 * one has to be as slow. The square spares a client that has sent one packet, of which nobody knows how long it took.
 * A client that drips (PEER_DRIP) is silent, also while it is not read for want of that very room. One whose bytes wait
 * in its socket for room is not, but for INPUT_STARVED_NS: all who hold the room may be like that.
 *
 * A client that is not silent, but keeps others waiting as the sender of the oldest message, is closed when it could
 * send and sends less than INPUT_LEAST in INPUT_PATIENCE_NS, half of such a line, or takes INPUT_OLDEST_NS in all. And
 * where others have waited for INPUT_WINDOW_NS, all those clients go that have been faster than a slow line and went on
 * meanwhile by less than a 64th of what they hold: 900 KB that drip, and not 60 KB of a line that lost a packet. Or
 * else the client goes that holds most (squared) for the least of it, if it went on by less than an eighth.
 *
 * Replies. A requestor gets the answer that it can still be given: the oldest requests go first, and of the
 * one that has most of them (base/holders.h). A small reply costs 300 bytes: half of two parts is 1,700 requests that
 * are outstanding at once, at the smallest limit. The parts are those that the index of messages did without: its cache
 * alone is held to the share.
 *
 * Reports. Two parts, from the ring, are the rows of a thousand connections with the smallest limit; a larger report is
 * made alone.
 *
 * Interest. Subscriptions live as long as their connection, so what is over their share is refused, as beyond
 * max_subscriptions. A connection may have INTEREST_FEW of them in any case: a later one can still ask and be answered.
 * They have seven parts, 4,400 subscriptions of three tokens at the smallest limit, and of a large limit all that
 * shares with a bound of their own leave: most of it, on a hub. The parts come from shares that are queues: the rings
 * (7 MB at the smallest limit do for publishers that wait for the disk), output, control, batches.
 *
 * Archives. What has come of restores and is not stored yet. One part: few are restored at a time, and one alone may
 * have more (jetstream/backup/restoring.py). It is one that interest did without.
 */
#include "plane/memory.h"

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/holders.h"
#include "base/share.h"
#include "exchange/exchange.h"
#include "net/outq.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/protocol.h"

#define WHOLE 64u /* parts that the limit is divided into */
#define MIB (UINT64_C(1) << 20)

typedef enum parts {
    PARTS_RING = 14,
    PARTS_MEMORY_RING = 3,
    PARTS_OVERLAY = 5,
    PARTS_KEEPER = 5,
    PARTS_OUTPUT = 7,
    PARTS_INPUT = 6,
    PARTS_EXCHANGE = 2,
    PARTS_HELD = 2,
    PARTS_CONTROL = 3,
    PARTS_CONSUMERS = 3,
    PARTS_BATCHES = 2,
    PARTS_REPLIES = 2,
    PARTS_REPORTS = 2,
    PARTS_INTEREST = 7,
    PARTS_ARCHIVES = 1,
} parts_t;

_Static_assert(PARTS_RING + PARTS_MEMORY_RING + PARTS_OVERLAY + PARTS_KEEPER + PARTS_OUTPUT + PARTS_INPUT
                       + PARTS_EXCHANGE + PARTS_HELD + PARTS_CONTROL + PARTS_CONSUMERS + PARTS_BATCHES + PARTS_REPLIES
                       + PARTS_REPORTS + PARTS_INTEREST + PARTS_ARCHIVES
                   <= WHOLE,
               "the shares come to the limit at most");

/* most: more of it would be of no use. */
static const struct {
    uint32_t parts;
    uint64_t most;
} table[MEMORY_SHARES] = {
    [MEMORY_RING] = {PARTS_RING, 64 * MIB},               /* batches until LMDB has them, messages in it */
    [MEMORY_MEMORY_RING] = {PARTS_MEMORY_RING, 32 * MIB}, /* the same of memory streams */
    /* indexes of what is in the rings, heads of subjects */
    [MEMORY_OVERLAY] = {PARTS_OVERLAY, UINT64_MAX},
    [MEMORY_KEEPER] = {PARTS_KEEPER, UINT64_MAX}, /* pages of LMDB that a checkpoint changes */
    [MEMORY_OUTPUT] = {PARTS_OUTPUT, UINT64_MAX},
    [MEMORY_INPUT] = {PARTS_INPUT, UINT64_MAX},
    [MEMORY_EXCHANGE] = {PARTS_EXCHANGE, 64 * MIB},     /* commands and events between C and Python */
    [MEMORY_HELD] = {PARTS_HELD, UINT64_MAX},           /* answers that wait for the disk */
    [MEMORY_CONTROL] = {PARTS_CONTROL, 64 * MIB},       /* messages to Python that it is not done with */
    [MEMORY_CONSUMERS] = {PARTS_CONSUMERS, UINT64_MAX}, /* pull requests that wait, deliveries without an ack */
    [MEMORY_BATCHES] = {PARTS_BATCHES, UINT64_MAX},     /* atomic batches that are not committed */
    [MEMORY_REPLIES] = {PARTS_REPLIES, UINT64_MAX},     /* half for imports' requests, half for allow_responses */
    [MEMORY_REPORTS] = {PARTS_REPORTS, UINT64_MAX},     /* reports and listings that Python makes (holding.py) */
    [MEMORY_INTEREST] = {PARTS_INTEREST, UINT64_MAX},   /* and what the others leave of a large limit */
    [MEMORY_ARCHIVES] = {PARTS_ARCHIVES, UINT64_MAX},   /* of restores, not stored yet (holding.py) */
};

#define OUTPUT_SMALL (64u * 1024u) /* what a client that reads may have waiting */
#define INTEREST_FEW 16u           /* subscriptions that a connection may have in any case, .. */
#define INTEREST_SMALL 2048u       /* .. if they are no larger */
#define INTEREST_TELL_NS (60 * NS_PER_SECOND)
#define FREED_MUCH (16 * MIB)
#define FREED_STILL (1 * MIB)
#define CONSUMER_BYTES 5000u /* about */
#define LIKE_PART 8u
#define BEHIND_SHARES 8u
#define INPUT_SMALL (16u * 1024u)
#define INPUT_TINY 1024u /* a login; has an eighth of the share to itself */
#define INPUT_LEAST 6144u
#define INPUT_OLDEST_NS (60 * NS_PER_SECOND)
#define INPUT_WINDOW_NS (2500 * NS_PER_MS)
#define INPUT_DRIPS 64u
#define INPUT_FAST 4096u /* bytes a second: three such lines */
#define INPUT_SLOW 8u
#define INPUT_PACKET 1400u
#define INPUT_PATIENCE_NS (10 * NS_PER_SECOND)
#define INPUT_STALLED_NS (5 * NS_PER_SECOND)
#define INPUT_STARVED_NS (30 * NS_PER_SECOND)
#define INPUT_IDLE_NS (200 * NS_PER_MS)
#define INPUT_LOOK_NS (20 * NS_PER_MS)
#define INPUT_AGAIN_NS (500 * NS_PER_MS) /* who finds no room asks again much sooner */
#define RANKS 64u
#define RANK_HELD_SHIFT 8u                /* what is held is ranked by 256 bytes, .. */
#define RANK_HELD_MAX (UINT64_C(1) << 18) /* .. up to 64 MB, and times by the millisecond, .. */
#define RANK_TIME_MAX (UINT64_C(1) << 22) /* .. up to 70 minutes: no product has more than 60 bits */
#define RANK_SENDING_MS 100u              /* what came in one read took no time */

static uint64_t memory_part(uint64_t limit, uint32_t which) {
    uint64_t share = limit == 0 ? UINT64_MAX : limit / WHOLE * table[which].parts;
    return share < table[which].most ? share : table[which].most;
}

/* The memory that no share has. */
static uint64_t memory_rest(uint64_t limit) {
    uint64_t rest = limit;
    for (uint32_t which = 0; which < MEMORY_SHARES; which++) {
        rest -= which == MEMORY_INTEREST ? 0 : memory_part(limit, which);
    }
    return rest;
}

uint64_t memory_share(uint64_t limit, uint32_t which) {
    if (which >= MEMORY_SHARES) {
        return 0;
    }
    if (limit != 0 && which == MEMORY_INTEREST) {
        return memory_rest(limit);
    }
    return memory_part(limit, which);
}

uint64_t plane_memory_share(uint64_t limit, uint32_t which) {
    return memory_share(limit, which);
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

static uint64_t waits_for(const peer_t *peer) {
    const buffer_t *beside = peer->protocol->waiting == NULL ? NULL : peer->protocol->waiting(peer);
    return outq_pending(&peer->conn.out) + (beside == NULL ? 0 : beside->capacity);
}

static bool waits_in(const peer_t *peer, const buffer_t *buffer) {
    return outq_owns(&peer->conn.out, buffer)
           || (buffer != NULL && peer->protocol->waiting != NULL && peer->protocol->waiting(peer) == buffer);
}

/* The link, or the client, with the most waiting, if that is more than least. */
static peer_t *most_waiting(plane_t *plane, bool link, uint64_t least) {
    peer_t *most = NULL;
    for (peer_t *peer = plane->all_peers; peer != NULL; peer = peer->next) {
        uint64_t waiting = waits_for(peer);
        if (peer->protocol->link == link && peer->state != PEER_DOOMED && waiting > least) {
            most = peer;
            least = waiting;
        }
    }
    return most;
}

static peer_t *slowest_reader(plane_t *plane) {
    peer_t *peer = most_waiting(plane, false, OUTPUT_SMALL);
    if (peer == NULL) {
        peer = most_waiting(plane, true, OUTPUT_SMALL);
    }
    return peer != NULL ? peer : most_waiting(plane, false, 0);
}

/* Closing one gives little back when others wait for the same messages. So those of its kind that have nearly as much
 * waiting go with it, until there is room: looking for the next slowest anew each time would take long. */
static void close_likes(plane_t *plane, const share_t *share, const buffer_t *buffer, uint64_t more, bool link,
                        uint64_t waiting) {
    for (peer_t *peer = plane->all_peers; peer != NULL && !share_has(share, more); peer = peer->next) {
        if (peer->protocol->link == link && peer->state != PEER_DOOMED
            && waits_for(peer) > waiting - waiting / LIKE_PART && !waits_in(peer, buffer)) {
            peer_emit_failed(plane, peer, STATUS_FULL);
        }
    }
}

/* Writes what the sockets take, until there is room; unused memory is given back. */
static void write_for_room(plane_t *plane, const share_t *share, const buffer_t *buffer, uint64_t more) {
    for (peer_t *peer = plane->all_peers; peer != NULL && !share_has(share, more); peer = peer->next) {
        outq_t *out = &peer->conn.out;
        if (peer->state != PEER_DOOMED && outq_pending(out) > 0 && !out->backlog) {
            peer_flush(plane, peer);
        }
        if (!outq_owns(out, buffer)) {
            outq_trim(out);
        }
    }
}

static bool make_output_room(void *context, const buffer_t *buffer, uint64_t more) {
    plane_t *plane = context;
    share_t *share = &plane->memory.output;
    write_for_room(plane, share, buffer, more);
    while (!share_has(share, more) && (buffer == NULL || buffer->capacity - buffer->size < more)) {
        peer_t *peer = slowest_reader(plane);
        if (peer == NULL || waits_in(peer, buffer)) {
            return false; /* the peer itself is the slowest: the frame does not fit, which ends its connection */
        }
        uint64_t waiting = waits_for(peer);
        peer_emit_failed(plane, peer, STATUS_FULL);
        close_likes(plane, share, buffer, more, peer->protocol->link, waiting);
    }
    return true;
}

/* ---- input ------------------------------------------------------------------------------------------------------- */

/* Can it send the rest of its message? Not while it is not read, nor while what it sent waits here. A pause for memory
 * of input does not matter: those who hold that memory have it, too. */
static bool may_send(const peer_t *peer) {
    bool starved = peer->starved && peer->waits == WAITS_RECEIVER && peer->state != PEER_WAITING;
    return (peer_is_read(peer) || starved) && !peer->in_backlog && !peer->yielded;
}

/* What it has sent, ever, with what is still in its socket. */
static uint64_t input_sent(const peer_t *peer) {
    return peer->conn.bytes_in + conn_arrived(&peer->conn);
}

/* Watches the peer that holds the others up: it has INPUT_PATIENCE_NS for INPUT_LEAST more, and INPUT_OLDEST_NS in all;
 * only time counts in which it could have sent. False: it is too late. */
static bool watch_oldest(plane_t *plane, const peer_t *oldest) {
    memory_t *memory = &plane->memory;
    int64_t now_ns = plane->now.mono_ns;
    if (oldest->id != memory->oldest || oldest->input_since_ns > memory->oldest_begun_ns || !may_send(oldest)) {
        memory->oldest_begun_ns = memory->oldest_since_ns = now_ns;
        memory->oldest = oldest->id;
        memory->oldest_bytes = input_sent(oldest);
    }
    uint64_t sent = input_sent(oldest);
    if (sent > memory->oldest_bytes && sent - memory->oldest_bytes >= INPUT_LEAST) {
        memory->oldest_bytes = sent;
        memory->oldest_since_ns = now_ns;
    }
    return now_ns - memory->oldest_since_ns <= INPUT_PATIENCE_NS && now_ns - memory->oldest_begun_ns <= INPUT_OLDEST_NS;
}

/* Closes a connection for the memory of what it has begun to send; its log line says so, since it hears nothing. */
static void close_for_input(plane_t *plane, peer_t *peer) {
    buffer_free(&peer->conn.rest);
    peer->conn.rest_used = 0;
    event_alarm(&plane->exchange, ALARM_INPUT, peer->id, 0,
                BYTES_LITERAL("closed: memory_limit has no room for what clients have begun to send, and this one has"
                              " not gone on with it"));
    peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for input"));
}

/* Who may be closed for room: those of one kind who have begun something and are silent for so long. Where it is large,
 * for longer than they took to send it, too. Not the holder of `buffer`, which asks. */
typedef struct silent {
    const buffer_t *buffer;
    bool link;
    bool large;
    int64_t idle_ns;
} silent_t;

/* For how long it has sent nothing of what it owes; while it is not read it cannot. */
static int64_t input_silence_ns(const plane_t *plane, const peer_t *peer) {
    int64_t since_ns = peer->went_on_ns > peer->released_ns ? peer->went_on_ns : peer->released_ns;
    return plane->now.mono_ns - since_ns;
}

static bool input_is_silent(const plane_t *plane, const peer_t *peer, const silent_t *silent) {
    const buffer_t *rest = &peer->conn.rest;
    int64_t idle_ns = input_silence_ns(plane, peer);
    if (rest == silent->buffer || peer->protocol->link != silent->link || peer->state == PEER_DOOMED
        || idle_ns <= silent->idle_ns) {
        return false;
    }
    if (silent->large
        && (peer->starved || rest->size <= INPUT_SMALL || idle_ns <= peer->went_on_ns - peer->input_since_ns)) {
        return false;
    }
    bool too_long = peer->starved && plane->now.mono_ns - peer->last_input_ns > INPUT_STARVED_NS;
    return rest->size != 0 && may_send(peer) && (too_long || conn_arrived(&peer->conn) < PEER_DRIP);
}

static uint64_t rank_ms(int64_t ns) {
    uint64_t ms = ns > 0 ? (uint64_t)(ns / NS_PER_MS) : 0;
    return ms < RANK_TIME_MAX ? ms : RANK_TIME_MAX;
}

/* How much it holds for how little progress, as a power of two; 0: it is not among them. */
static uint32_t input_rank(const plane_t *plane, const peer_t *peer, const silent_t *silent) {
    if (!input_is_silent(plane, peer, silent)) {
        return 0;
    }
    uint64_t held = (peer->conn.rest.capacity >> RANK_HELD_SHIFT) + 1;
    held = held < RANK_HELD_MAX ? held : RANK_HELD_MAX;
    uint64_t sending = rank_ms(peer->went_on_ns - peer->input_since_ns) + RANK_SENDING_MS;
    uint64_t score = held * held * (rank_ms(input_silence_ns(plane, peer)) + 1) / sending;
    return score == 0 ? 1 : 64u - (uint32_t)__builtin_clzll(score);
}

/* Closes them in the order of their ranks, until no more than `most` of the share is used. What they do not use of
 * their memory is given back before. */
static void close_silent(plane_t *plane, const silent_t *silent, uint64_t most) {
    const share_t *share = &plane->memory.input;
    uint64_t held[RANKS] = {0};
    for (peer_t *peer = plane->all_peers; peer != NULL && share->used > most; peer = peer->next) {
        if (input_rank(plane, peer, silent) != 0) {
            buffer_fit(&peer->conn.rest);
            held[input_rank(plane, peer, silent)] += peer->conn.rest.capacity;
        }
    }
    uint32_t rank = RANKS - 1;
    for (uint64_t sum = held[rank]; rank > 1 && share->used > most && sum < share->used - most; sum += held[rank]) {
        rank--;
    }
    for (peer_t *peer = plane->all_peers; peer != NULL && share->used > most; peer = peer->next) {
        if (input_rank(plane, peer, silent) >= rank) {
            close_for_input(plane, peer);
        }
    }
}

/* Clients before links. */
static void close_all_silent(plane_t *plane, silent_t silent, uint64_t most) {
    close_silent(plane, &silent, most);
    silent.link = true;
    close_silent(plane, &silent, most);
}

/* Has there been no room for long enough that who fills it by what it has just sent is silent by now? Otherwise only
 * slow lines would be, and closed. */
static bool is_full_for_long(plane_t *plane) {
    memory_t *memory = &plane->memory;
    int64_t now_ns = plane->now.mono_ns;
    if (now_ns - memory->full_ns > INPUT_AGAIN_NS) {
        memory->full_since_ns = now_ns;
    }
    memory->full_ns = now_ns;
    return now_ns - memory->full_since_ns > INPUT_IDLE_NS && now_ns - memory->looked_ns >= INPUT_LOOK_NS;
}

static bool make_small_room(plane_t *plane, const buffer_t *buffer, uint64_t more) {
    memory_t *memory = &plane->memory;
    const share_t *share = &memory->input;
    uint64_t most = share->limit > UINT64_MAX / 2 ? UINT64_MAX : share->limit * 2;
    most -= buffer->capacity + more > INPUT_TINY ? share->limit / 8 : 0;
    if (LEAF_LIKELY(share->used + more <= most)) {
        return true;
    }
    if (!is_full_for_long(plane)) {
        return false;
    }
    memory->looked_ns = plane->now.mono_ns;
    /* Down to half of what may be small: so the next look is as far away as it takes to fill that. */
    close_all_silent(plane, (silent_t){.buffer = buffer, .idle_ns = INPUT_IDLE_NS}, share->limit / 2 * 3);
    bool has_room = share->used + more <= most;
    memory->full_since_ns = has_room ? plane->now.mono_ns : memory->full_since_ns;
    return has_room;
}

static void close_stalled(plane_t *plane, const buffer_t *buffer, uint64_t more) {
    memory_t *memory = &plane->memory;
    uint64_t limit = memory->input.limit;
    if (plane->now.mono_ns - memory->stalled_looked_ns >= INPUT_LOOK_NS) {
        memory->stalled_looked_ns = plane->now.mono_ns;
        close_all_silent(plane, (silent_t){.buffer = buffer, .large = true, .idle_ns = INPUT_STALLED_NS},
                         limit > more ? limit - more : 0);
    }
}

/* How little one that holds something large went on in the window, by what it holds, squared; 0: it did as much as an
 * eighth of that, or could not. */
static uint64_t window_rank(const plane_t *plane, const peer_t *peer, uint64_t least) {
    int64_t since_ns = plane->memory.window_since_ns;
    uint64_t held = peer->conn.rest.size, sent = input_sent(peer);
    if (held <= INPUT_SMALL || peer->state == PEER_DOOMED || peer->starved || !may_send(peer)
        || peer->input_since_ns > since_ns || peer->released_ns > since_ns) {
        return 0;
    }
    uint64_t more = sent > peer->window_bytes ? sent - peer->window_bytes : 0;
    uint64_t blocks = (held >> RANK_HELD_SHIFT) + 1;
    blocks = blocks < RANK_HELD_MAX ? blocks : RANK_HELD_MAX;
    return more < held / least ? blocks * blocks / (more / INPUT_PACKET + 1) + 1 : 0;
}

/* Did it send what it holds faster than a slow line, and drips now? A slow line's loss of a packet looks the same. */
static bool drips(const plane_t *plane, const peer_t *peer) {
    uint64_t ms = rank_ms(plane->now.mono_ns - peer->input_since_ns);
    return peer->conn.rest.size > ms * INPUT_FAST / 1000 && window_rank(plane, peer, INPUT_DRIPS) != 0;
}

/* The clients that drip, down to half of the share, or else the slowest one. */
static void close_slowest(plane_t *plane) {
    const share_t *share = &plane->memory.input;
    peer_t *slowest = NULL;
    uint64_t most = 0;
    bool some = false;
    for (peer_t *peer = plane->all_peers; peer != NULL; peer = peer->next) {
        if (peer->protocol->link) {
            continue;
        }
        uint64_t rank = window_rank(plane, peer, INPUT_SLOW);
        if (share->used > share->limit / 2 && drips(plane, peer)) {
            close_for_input(plane, peer);
            some = true;
        } else if (rank > most) {
            slowest = peer;
            most = rank;
        }
    }
    if (!some && slowest != NULL) {
        close_for_input(plane, slowest);
    }
}

/* Others wait for room. Once they have for a while, who did not go on much meanwhile is closed. */
static void watch_window(plane_t *plane) {
    memory_t *memory = &plane->memory;
    int64_t now_ns = plane->now.mono_ns;
    bool goes_on = now_ns - memory->window_full_ns <= INPUT_AGAIN_NS;
    memory->window_full_ns = now_ns;
    if (goes_on && now_ns - memory->window_since_ns < INPUT_WINDOW_NS) {
        return;
    }
    if (goes_on) {
        close_slowest(plane);
    }
    for (peer_t *peer = plane->all_peers; peer != NULL; peer = peer->next) {
        peer->window_bytes = input_sent(peer);
    }
    memory->window_since_ns = now_ns;
}

/* Half of the share is for what is large, also where what is small has all of it: who is let in there and stalls is
 * the first to be closed. */
static bool large_has(const share_t *share, uint64_t large, uint64_t more) {
    return share_has(share, more) || (large + more <= share->limit / 2 && share->used / 2 + more / 2 < share->limit);
}

static bool make_input_room(void *context, const buffer_t *buffer, uint64_t more) {
    plane_t *plane = context;
    share_t *share = &plane->memory.input;
    if (buffer->capacity + more <= INPUT_SMALL) {
        return make_small_room(plane, buffer, more);
    }
    peer_t *oldest = NULL;
    uint64_t large = 0;
    for (peer_t *peer = plane->all_peers; peer != NULL; peer = peer->next) {
        buffer_t *rest = &peer->conn.rest;
        if (rest != buffer) {
            buffer_trim(rest, 0);
        }
        large += rest->capacity > INPUT_SMALL ? rest->capacity : 0;
        if ((rest == buffer || rest->size > INPUT_SMALL) && peer->state != PEER_DOOMED
            && (oldest == NULL || peer->input_since_ns < oldest->input_since_ns)) {
            oldest = peer;
        }
    }
    if (large_has(share, large, more)) {
        return true;
    }
    if (oldest == NULL) {
        return false;
    }
    bool in_time = watch_oldest(plane, oldest);
    if (&oldest->conn.rest == buffer) {
        return true; /* the next to be whole */
    }
    close_stalled(plane, buffer, more);
    watch_window(plane);
    if (oldest->state != PEER_DOOMED && !in_time) {
        close_for_input(plane, oldest);
    }
    return share_has(share, more);
}

/* ---- interest ---------------------------------------------------------------------------------------------------- */

bool memory_for_interest(plane_t *plane, uint64_t count, uint32_t cost) {
    memory_t *memory = &plane->memory;
    if (share_has(&memory->interest, cost) || (count < INTEREST_FEW && cost <= INTEREST_SMALL)) {
        return true;
    }
    if (memory->interest_told_ns == 0 || plane->now.mono_ns - memory->interest_told_ns > INTEREST_TELL_NS) {
        memory->interest_told_ns = plane->now.mono_ns;
        event_alarm(&plane->exchange, ALARM_INTEREST, 0, 0,
                    BYTES_LITERAL("subscriptions have all of their share of memory_limit: further ones are refused"));
    }
    return false;
}

static uint64_t freeable(const plane_t *plane) {
    uint64_t consumers = plane->js.consume == NULL ? 0 : consume_count(plane->js.consume);
    return plane->memory.interest.used + consumers * CONSUMER_BYTES;
}

/* While subscriptions are freed there is next to no page that is free as a whole: they go in the order of their
 * hashes. */
bool memory_lies_free(plane_t *plane) {
    memory_t *memory = &plane->memory;
    uint64_t used = freeable(plane), before = memory->freeable_seen;
    memory->freeable_seen = used;
    if (used > memory->freeable_most) {
        memory->freeable_most = used;
    }
    if (memory->freeable_most - used < FREED_MUCH || (before > used && before - used > FREED_STILL)) {
        return false;
    }
    memory->freeable_most = used;
    return true;
}

/* ---- all shares together ----------------------------------------------------------------------------------------- */

void memory_open(plane_t *plane) {
    uint64_t limit = plane->limits.memory_limit;
    plane->memory.output =
        (share_t){.limit = memory_share(limit, MEMORY_OUTPUT), .make_room = make_output_room, .context = plane};
    plane->memory.input =
        (share_t){.limit = memory_share(limit, MEMORY_INPUT), .make_room = make_input_room, .context = plane};
    plane->memory.interest = (share_t){.limit = memory_share(limit, MEMORY_INTEREST)};
    uint64_t replies = memory_share(limit, MEMORY_REPLIES) / 2;
    holders_open(&plane->memory.replies, replies, plane);
    holders_open(&plane->memory.allowed, replies, plane);
    memory_tick(plane);
}

/* Time in which the oldest is not read does not count against it, also where nobody asks for room in that time. */
static void forgive_oldest(plane_t *plane) {
    const peer_t *oldest = plane->memory.oldest == 0 ? NULL : peer_find(plane, plane->memory.oldest);
    if (oldest == NULL) {
        plane->memory.oldest = 0;
    } else if (!may_send(oldest)) {
        plane->memory.oldest_since_ns = plane->memory.oldest_begun_ns = plane->now.mono_ns;
    }
}

/* Divides the memory that is left: the less there is, the less a peer may have waiting before its producers pause. */
void memory_tick(plane_t *plane) {
    if (LEAF_UNLIKELY(plane->memory.oldest != 0)) {
        forgive_oldest(plane);
    }
    const share_t *output = &plane->memory.output;
    uint64_t left = output->limit > output->used ? output->limit - output->used : 0;
    plane->behind_bytes = left / BEHIND_SHARES < BEHIND_BYTES ? left / BEHIND_SHARES : BEHIND_BYTES;
    plane->stats.memory_output = output->used;
    plane->stats.memory_input = plane->memory.input.used;
    plane->stats.memory_interest = plane->memory.interest.used;
    plane->stats.memory_replies = plane->memory.replies.share.used + plane->memory.allowed.share.used;
}
