/* pressure.h: how much each connection may ask of control before it waits.
 */
#ifndef LEAFD_PLANE_PRESSURE_H
#define LEAFD_PLANE_PRESSURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "exchange/exchange.h"

typedef struct peer peer_t;

/* The credit of a protocol: what a connection may owe control before it is not read. */
typedef struct credit {
    uint32_t messages;
    uint64_t bytes;
    uint32_t crowded; /* messages, while its account or all together owe much */
    int64_t flood_ns; /* held back for so long without a pause: it is read, and refused instead. INT64_MAX = never */
} credit_t;

extern const credit_t credit_client;
extern const credit_t credit_link;

/* A message for control, of a peer (NULL: nobody's): is there room, asked before the copy; the copy, gone either way.
 * false: refused. */
bool pressure_room(plane_t *plane, const peer_t *peer);
bool pressure_offer(plane_t *plane, peer_t *peer, event_entry_t *entry); /* entry may be NULL */
/* The same, of a client of a server without JetStream: guests.h. */
bool pressure_room_guest(plane_t *plane, uint32_t guest);
bool pressure_offer_guest(plane_t *plane, uint32_t guest, event_entry_t *entry);
void pressure_relieve(plane_t *plane); /* once a tick: reads on where it may */
void pressure_chores(plane_t *plane, peer_t *peer);
void pressure_forget(plane_t *plane, peer_t *peer);

#endif
