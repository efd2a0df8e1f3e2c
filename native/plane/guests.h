/* guests.h: what clients of servers without JetStream owe control. Their requests come by the links of those servers,
 * many clients' by one.
 *
 * A link that is not read stops everybody's messages. So no guest holds his link back: he has a share, and what he asks
 * beyond it is refused, to which there is no answer. A client's share is as large as the credit of one that is
 * connected here. An account's clients together owe no more than what those of all other accounts leave free.
 *
 * A client is known by what its server says of it (Nats-Request-Info). The shares are found by hashes, so two clients
 * may have one share of GUEST_CLIENTS. Not here: whether they are answered (agent/leafd/daemon/guests.py).
 */
#ifndef LEAFD_PLANE_GUESTS_H
#define LEAFD_PLANE_GUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "exchange/exchange.h"

#define GUEST_CLIENTS 512u
#define GUEST_ACCOUNTS 256u
#define GUESTS_OWE UINT64_MAX /* in the place of a debt's peer: the number of its guest is in that of the account */

typedef struct guests {
    owed_t all;
    owed_t clients[GUEST_CLIENTS];
    owed_t accounts[GUEST_ACCOUNTS];
} guests_t;

/* The number of the client that asks with that header, over that connection. */
uint32_t guest_of(uint64_t peer, bytes_t header);
/* Is there room for one more of his requests? owed_max: the bytes that all of control's messages may be. */
bool guest_room(const guests_t *guests, uint32_t guest, uint64_t owed_max);
void guest_owes(guests_t *guests, uint32_t guest, uint64_t size);
void guest_pays(guests_t *guests, uint32_t guest, uint64_t size);

#endif
