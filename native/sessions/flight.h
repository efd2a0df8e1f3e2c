/* flight.h: messages of QoS 1 and 2 on their way to one client: which packet identifiers they have, and what waits
 * because the client takes no more of them at once (MQTT 5: 4.9).
 *
 *     QoS 1    PUBLISH --> sent --PUBACK--> free
 *     QoS 2    PUBLISH --> sent --PUBREC--> released (PUBREL) --PUBCOMP--> free
 *
 *     waiting  | flight_packet_t, since, packet | ...          whole packets but for their identifier, which they get
 *                                                              when there is room for them, and the time that they have
 *
 * A message out of a stream has the identifier that follows from its sequence (modulo 65,535, plus 1), so that it has
 * the same one when it comes again, also after a crash. Where another one has it still, it waits. Others have sequence
 * 0 and get one that is free. It ends with the connection: what a session keeps beyond that is kept.h.
 */
#ifndef LEAFD_SESSIONS_FLIGHT_H
#define LEAFD_SESSIONS_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "sessions/ids.h"
#include "sessions/sequences.h"

/* One that waits, and where in it stands what is set when it goes. */
typedef struct flight_packet {
    bytes_t packet;
    uint32_t id_at;
    uint32_t expiry_at; /* of its message expiry, in seconds; 0: it has none */
    uint64_t seq;
    bool counted; /* the oldest such ones go when more wait than may (flight_bound) */
} flight_packet_t;

typedef struct flight_part {
    ids_t sent;
    ids_t released;
    sequences_t sequences; /* sequences of those in sent that have one */
    buffer_t waiting;
    uint64_t waiting_from; /* before it they have gone */
    uint64_t waiting_upto; /* the highest sequence that waits */
    uint64_t counted;      /* of those that wait, and their bytes */
    uint64_t counted_bytes;
} flight_part_t;

typedef struct flight {
    flight_part_t *part; /* own, or one that is empty and everybody's: most devices never get a message of QoS 1 or 2 */
    uint32_t window;     /* so many may be sent and released */
    uint16_t last;       /* the identifier that was given last */
    bool lags;           /* more have been dropped than a turn has time for, and the others wait for the next one */
    bool judges;         /* the caller's: what its client may hear has changed since some of those that wait came */
    uint64_t most;       /* bytes that may wait, counted in .. */
    share_t *share;
} flight_t;

/* share: where what waits is counted. most: bytes of it. */
void flight_init(flight_t *flight, uint32_t window, uint64_t most, share_t *share);
void flight_free(flight_t *flight);
/* An identifier for a message that goes now. 0: it has to wait, for room or behind others. */
uint16_t flight_begin(flight_t *flight, uint64_t seq);
/* One that has gone out with an identifier that begin gave did not get into the queue. */
void flight_undo(flight_t *flight, uint16_t id);
/* STATUS_FULL: too much waits. */
LEAF_MUST_USE status_t flight_wait(flight_t *flight, const flight_packet_t *one, int64_t now_ns);
/* What may wait of those that are counted; 0: no bound. */
typedef struct flight_most {
    uint32_t messages;
    uint64_t bytes;
} flight_most_t;

/* Drops the oldest of those that are counted, until there is room for one more of that size, or a turn's; returns how
 * many. One that is larger than all may be has room when no other one waits. */
uint32_t flight_bound(flight_t *flight, const flight_most_t *most, uint32_t size);
/* The next one that may go, with its identifier and what is left of its time (5: 3.3.2.3.3). One whose time is over is
 * dropped, unless a stream has it. false: none. Valid until flight_gone. */
bool flight_next(flight_t *flight, int64_t now_ns, bytes_t *packet);
void flight_gone(flight_t *flight);
/* Asks of a stream's message: does it wait, or has it gone with its identifier? */
bool flight_waits(const flight_t *flight, uint64_t seq);
bool flight_has(const flight_t *flight, uint64_t seq);
uint16_t flight_id(uint64_t seq); /* that it has */
bool flight_taken(const flight_t *flight, uint16_t id);
/* Could it go now, with its identifier? */
bool flight_fits(const flight_t *flight, uint64_t seq);
/* Notes that a message on its way is of that shared subscription; and of which one is it? 0: of none. */
void flight_mark(flight_t *flight, uint64_t seq, uint32_t share);
uint32_t flight_share(const flight_t *flight, uint16_t id);
/* Takes the client's answer. false: there is no such message. *seq: its sequence, 0: it has none. */
bool flight_acknowledged(flight_t *flight, uint16_t id, uint64_t *seq);
bool flight_received(flight_t *flight, uint16_t id, uint64_t *seq);
bool flight_completed(flight_t *flight, uint16_t id);
/* One that an earlier connection had released. */
LEAF_MUST_USE status_t flight_release_again(flight_t *flight, uint16_t id);

static inline uint64_t flight_waiting(const flight_t *flight) {
    return flight->part->waiting.size - flight->part->waiting_from;
}

#endif
