/* exchange.h: the rings between control and plane, with copies of what commands and events point to.
 *
 *   control thread: exchange_submit, exchange_poll, exchange_release        plane thread: exchange_next, event_*
 *
 *   control --commands--> plane
 *   plane --events----> control    of connections, completions: what must not be lost (event_post), and comes first
 *   plane --messages--> control    what others may send without end: API requests, advisories, traces (event_offer)
 *
 * Bounds. Commands: entries by the ring, bytes by a counter. Events: each has its cause, of which there are few (a connection opens,
 * hands in one line and closes; a command is answered once), and no new causes are let in while many wait (event_crowded). Messages: by
 * number and bytes; pressure.c counts whose they are and stops reading who has many, so that others find room; what finds none
 * is refused and counted.
 */
#ifndef LEAFD_PLANE_EXCHANGE_H
#define LEAFD_PLANE_EXCHANGE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/ring.h"
#include "base/status.h"

#define EXCHANGE_COMMANDS 16384u
#define EXCHANGE_EVENTS 32768u
#define EXCHANGE_EVENTS_MANY 4096u                      /* that wait: no connection is accepted, no command run   */
#define EXCHANGE_MESSAGES 16384u                        /* posted and not yet released                            */
#define EXCHANGE_COMMAND_BYTES (64u * 1024u * 1024u)
#define EXCHANGE_EVENT_BYTES (64u * 1024u * 1024u)
#define EXCHANGE_MESSAGE_BYTES (64u * 1024u * 1024u)

typedef struct event_entry event_entry_t;
struct event_entry {
    plane_event_t event;
    event_entry_t *next;
    uint64_t size;
    uint64_t batch;                                     /* of a completion that waits for the disk: held.h        */
    bool message;                                       /* of the ring of messages                                */
    uint8_t bytes[];
};

typedef struct command_entry {
    plane_command_t command;
    event_entry_t *answer;                              /* room for its completion; NULL: none is wanted          */
    uint64_t size;
    uint8_t bytes[];
} command_entry_t;

/* Whose a message is: paid back when control releases it. */
typedef struct exchange_debt {
    uint64_t peer;                                      /* 0 = nobody's                                           */
    uint32_t account;
    uint32_t size;
} exchange_debt_t;

typedef struct exchange {
    ring_t *commands;
    ring_t *events;
    ring_t *messages;
    _Atomic uint64_t command_bytes;
    _Atomic uint64_t event_bytes;
    _Atomic uint64_t message_bytes;
    _Atomic uint64_t released;                          /* messages, ever                                         */
    /* the plane thread's */
    event_entry_t *waiting_first;                       /* events that the ring has no room for                   */
    event_entry_t *waiting_last;
    uint32_t waiting_count;
    event_entry_t *answers;                             /* one for each command taken and not yet answered        */
    exchange_debt_t *debts;                             /* of message i at i % EXCHANGE_MESSAGES                  */
    uint64_t posted;                                    /* messages, ever                                         */
    uint64_t settled;                                   /* of them: paid back                                     */
    uint64_t dropped;
    /* the control thread's: polled and not yet released, oldest first */
    event_entry_t *polled_first;
    event_entry_t *polled_last;
} exchange_t;

LEAF_MUST_USE status_t exchange_open(exchange_t *exchange);
void exchange_close(exchange_t *exchange);

int32_t exchange_submit(exchange_t *exchange, const plane_command_t *commands, uint32_t count);
/* Events first; messages only where wanted. */
uint32_t exchange_poll(exchange_t *exchange, plane_event_t *events, uint32_t count_max, bool messages);
void exchange_release(exchange_t *exchange, uint32_t count);

/* The oldest command, or NULL; give it back with exchange_done. */
command_entry_t *exchange_next(exchange_t *exchange);
void exchange_done(exchange_t *exchange, command_entry_t *entry);

/* An event with copies of the four slices (any may be empty). NULL: no memory. The caller fills in the other fields and posts. */
event_entry_t *event_new(uint32_t kind, bytes_t subject, bytes_t reply, bytes_t header, bytes_t payload);
/* The completion of a command that wants one: never NULL for one that came through the ring. Without memory for the slices it has none,
 * and says STATUS_NO_MEMORY. */
event_entry_t *event_answer(exchange_t *exchange, status_t status, bytes_t subject, bytes_t header, bytes_t payload);
/* Never lost. entry NULL: nothing. */
void event_post(exchange_t *exchange, event_entry_t *entry);
/* A message; peer and account are whose it is. false: no room or no memory (entry NULL), it is gone and counted. */
bool event_offer(exchange_t *exchange, event_entry_t *entry, uint64_t peer, uint32_t account);
/* Is there room for another message? Asked before the copy is made. */
bool event_room(const exchange_t *exchange);
/* Do so many events wait that what causes more has to wait, too? */
bool event_crowded(const exchange_t *exchange);
/* The next message that control has released; false: none. */
bool event_settled(exchange_t *exchange, exchange_debt_t *debt);
void event_pump(exchange_t *exchange); /* once a tick: what waited goes into the ring */

#endif
