/* budget.h: how much a link may still carry, by rank of what waits for it (lanes.h).
 *
 *     bytes on the wire, both ways, since the connection began
 *     0 --------------- low ------ normal ------ high, urgent ---- ...
 *     |<- all of it ->|<- no bulk ->|<- only this ->|<- no messages: heartbeats, acknowledgements ->
 *
 * Control knows days, months and what earlier connections have carried (links/budgets.py): it says up to which count of
 * this connection's bytes each rank may go, and is told when a count is reached. What is over waits in its lane, or in
 * its stream, until control says another count. What never waits: the link's own lines (PING, INFO, subscriptions);
 * acknowledgements, without which messages would be sent again; what a consumer had delivered before, a window at most,
 * and its heartbeats, without which its copy would take it for dead and ask for another one.
 *
 * What is counted is what the kernel tells: bytes sent, sent again and received, TLS, WebSocket and compression as they
 * are on the wire, and 52 for the headers of TCP and IP of each packet. What comes in is counted, and nothing here can
 * hold it up but by answers to flow control and requests, which wait with what is urgent.
 *
 * Not here: how fast (window.h).
 */
#ifndef LEAFD_PLANE_BUDGET_H
#define LEAFD_PLANE_BUDGET_H

#include <stdint.h>

#include "base/abi_types.h"
#include "plane/lanes.h"

/* The lowest rank that may go at that count. NULL: there is no budget. */
lane_rank_t budget_lowest(const budget_t *budget, uint64_t wire);
/* How many bytes more may go before that is another rank; UINT64_MAX: any number. */
uint64_t budget_room(const budget_t *budget, uint64_t wire);

#endif
