/* exchange.h: the rings between control and plane, with copies of what commands and events point to.
 *
 *   control thread: exchange_submit, exchange_poll, exchange_release, exchange_repay        plane thread:
 *                                                                                           exchange_next, event_*
 *
 *   control --commands--> plane
 *   plane --events----> control    of connections, completions: what must not be lost (event_post), and comes first
 *   plane --messages--> control    what others may send without end: API requests, advisories, traces (event_offer)
 *   control --tokens--> plane      of messages that control is done with (exchange_repay, event_settled)
 *
 * Bounds. Commands: entries by the ring, bytes by a counter. Events: each has its cause, of which there are few (a
 * connection opens, hands in one line and closes; a command is answered once), and no new causes are let in while many
 * wait (event_crowded). Messages: each is a debt from event_offer until it is repaid, wherever in control it waits
 * meanwhile. Debts are bounded by number and bytes; pressure.c gives each connection its credit and decides whom to
 * read.
 */
#ifndef LEAFD_EXCHANGE_EXCHANGE_H
#define LEAFD_EXCHANGE_EXCHANGE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/ring.h"
#include "base/status.h"

#define EXCHANGE_COMMANDS 16384u
#define EXCHANGE_EVENTS 32768u
#define EXCHANGE_EVENTS_MANY 4096u          /* that wait: no connection is accepted, no command run */
#define EXCHANGE_QUIET_NS INT64_C(20000000) /* so long what nobody waits for may take */
#define EXCHANGE_QUIET_MAX 1024u
#define EXCHANGE_MESSAGES 32768u             /* offered and not yet repaid */
#define EXCHANGE_BYTES (64u * 1024u * 1024u) /* of each kind, where memory allows it */

typedef struct event_entry event_entry_t;
struct event_entry {
    plane_event_t event;
    event_entry_t *next;
    event_entry_t *previous; /* among the quiet ones */
    uint64_t size;
    uint64_t batch; /* of a completion that waits for the disk: held.h */
    uint32_t token; /* of the ring of messages: its debt; 0 = of the other ring */
    bool alone;     /* likewise: its sender waits until it is repaid */
    uint8_t bytes[];
};

typedef struct command_entry {
    plane_command_t command;
    event_entry_t *answer; /* room for its completion; NULL: none is wanted */
    uint64_t size;
    uint8_t bytes[];
} command_entry_t;

typedef struct owed {
    uint64_t messages;
    uint64_t bytes;
} owed_t;

/* The connection that owes for a message. */
typedef struct exchange_debt {
    uint64_t peer; /* 0 = nobody's; GUESTS_OWE (plane/guests.h): account is a guest */
    uint64_t size; /* 0 = this place is free */
    uint32_t account;
    union {
        uint32_t next_free; /* of a place that is free */
        uint32_t alone;     /* of one that is not: 1: its peer is not read before it is repaid */
    };
} exchange_debt_t;

typedef struct exchange {
    ring_t *commands;
    ring_t *events;
    ring_t *messages;
    uint64_t bytes_max; /* of commands, and of events */
    uint64_t owed_max;  /* of messages that control is not done with */
    _Atomic uint64_t command_bytes;
    _Atomic uint64_t event_bytes;
    _Atomic uint64_t repaid; /* tokens that control wrote into repaid_tokens, ever */
    uint32_t *repaid_tokens; /* number i at i % EXCHANGE_MESSAGES */
    /* the plane thread's */
    event_entry_t *waiting_first; /* events that the ring has no room for */
    event_entry_t *waiting_last;
    uint32_t waiting_count;
    event_entry_t *quiet_first; /* events that nobody waits for: they go with the next one, or at quiet_until_ns */
    event_entry_t *quiet_last;
    uint32_t quiet_count;
    int64_t quiet_until_ns;
    event_entry_t *answers; /* one for each command taken and not yet answered */
    exchange_debt_t *debts; /* of token i at i - 1 */
    uint32_t debts_used;    /* the places behind were never taken, nor their memory */
    uint32_t debts_free;    /* the last place given back + 1; 0 = none */
    owed_t owed;            /* all together */
    uint64_t settled;       /* tokens taken out of repaid_tokens, ever */
    uint64_t dropped;
    /* the control thread's: polled and not yet released, oldest first */
    event_entry_t *polled_first;
    event_entry_t *polled_last;
} exchange_t;

/* bytes_max: of the commands, and of the events, that wait; owed_max: of the messages that control is not done with.
 * 0 = EXCHANGE_BYTES. One alone may be larger. */
LEAF_MUST_USE status_t exchange_open(exchange_t *exchange, uint64_t bytes_max, uint64_t owed_max);
void exchange_close(exchange_t *exchange);

int32_t exchange_submit(exchange_t *exchange, const plane_command_t *commands, uint32_t count);
/* Events first, and no message before an event that was posted before it. An EVENT_MESSAGE has its token, for
 * exchange_repay; the other messages are repaid by their release. */
uint32_t exchange_poll(exchange_t *exchange, plane_event_t *events, uint32_t count_max);
void exchange_release(exchange_t *exchange, uint32_t count);
/* Control is done with that message. Each token once; what was never given out is ignored. */
void exchange_repay(exchange_t *exchange, uint64_t token);

/* The oldest command, or NULL; give it back with exchange_done. */
command_entry_t *exchange_next(exchange_t *exchange);
void exchange_done(exchange_t *exchange, command_entry_t *entry);

/* An event with copies of the four slices (any may be empty). NULL: no memory. The caller fills in the other fields and
 * posts. */
event_entry_t *event_new(uint32_t kind, bytes_t subject, bytes_t reply, bytes_t header, bytes_t payload);
/* One in a block of malloc's that is not needed any more and has room for it. The block is the event's from then on.
 * header is not in it. */
event_entry_t *event_in(void *block, uint32_t kind, bytes_t header);
/* The completion of a command that wants one: never NULL for one that came through the ring. Without memory for the
 * slices it has none, and says STATUS_NO_MEMORY. */
event_entry_t *event_answer(exchange_t *exchange, status_t status, bytes_t subject, bytes_t header, bytes_t payload);
/* Never lost. entry NULL: nothing. */
void event_post(exchange_t *exchange, event_entry_t *entry);
/* Likewise, of what control only has to know some time: it is woken for many of them at once, or by what comes next.
 * The order is kept. */
void event_post_quietly(exchange_t *exchange, event_entry_t *entry, int64_t mono_ns);
/* Posts an EVENT_ALARM with a copy of the text. What target and arg are depends on the alarm's code (ALARM_*). */
void event_alarm(exchange_t *exchange, uint32_t code, uint64_t target, uint64_t arg, bytes_t text);
/* Takes back what was posted quietly, if control has not been given it and nothing about the same target came behind
 * it: the caller's to post again or to free. NULL: it is too late for that. */
LEAF_MUST_USE event_entry_t *event_take_back(exchange_t *exchange, uint32_t kind, uint64_t target);
int64_t event_deadline(const exchange_t *exchange); /* when the quiet ones are due; INT64_MAX: there are none */
/* A message; peer and account are who owes for it. false: no room or no memory (entry NULL), it is gone and counted. */
bool event_offer(exchange_t *exchange, event_entry_t *entry, uint64_t peer, uint32_t account);
/* Is there room for another message? Asked before the copy is made. */
bool event_room(const exchange_t *exchange);
/* Do so many events wait that what causes more has to wait, too? */
bool event_crowded(const exchange_t *exchange);
/* The next debt that control has repaid; false: none. */
bool event_settled(exchange_t *exchange, exchange_debt_t *debt);
void event_pump(exchange_t *exchange, int64_t mono_ns); /* once a tick: what waited goes into the ring */

#endif
