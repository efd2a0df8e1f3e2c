/* exchange.h: the two rings between control and plane, with copies of what commands and events point to.
 *
 *   control thread: exchange_submit, exchange_poll, exchange_release        plane thread: exchange_next, event_*
 *
 * Bounds: entries by the rings' size, bytes by two counters. When events pile up, EVENT_MESSAGE is dropped and counted; all
 * others wait in a list of the plane's own until the ring has room: a lost EVENT_CLOSED or EVENT_DONE would never be repaired.
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
#define EXCHANGE_EVENTS 65536u
#define EXCHANGE_MESSAGES_MAX 32768u                   /* more events than this waiting: messages are dropped   */
#define EXCHANGE_COMMAND_BYTES (64u * 1024u * 1024u)
#define EXCHANGE_EVENT_BYTES (64u * 1024u * 1024u)

typedef struct event_entry event_entry_t;
struct event_entry {
    plane_event_t event;
    event_entry_t *next;
    uint64_t size;
    uint8_t bytes[];
};

typedef struct command_entry {
    plane_command_t command;
    uint64_t size;
    uint8_t bytes[];
} command_entry_t;

typedef struct exchange {
    ring_t *commands;
    ring_t *events;
    _Atomic uint64_t command_bytes;
    _Atomic uint64_t event_bytes;
    /* the plane thread's */
    event_entry_t *waiting_first;
    event_entry_t *waiting_last;
    uint64_t dropped;
    /* the control thread's: polled and not yet released, oldest first */
    event_entry_t *polled_first;
    event_entry_t *polled_last;
} exchange_t;

LEAF_MUST_USE status_t exchange_open(exchange_t *exchange);
void exchange_close(exchange_t *exchange);

int32_t exchange_submit(exchange_t *exchange, const plane_command_t *commands, uint32_t count);
uint32_t exchange_poll(exchange_t *exchange, plane_event_t *events, uint32_t count_max);
void exchange_release(exchange_t *exchange, uint32_t count);

/* The oldest command, or NULL; give it back with exchange_done. */
command_entry_t *exchange_next(exchange_t *exchange);
void exchange_done(exchange_t *exchange, command_entry_t *entry);

/* An event with copies of the four slices (any may be empty). NULL: no memory. The caller fills in the other fields and posts. */
event_entry_t *event_new(uint32_t kind, bytes_t subject, bytes_t reply, bytes_t header, bytes_t payload);
void event_post(exchange_t *exchange, event_entry_t *entry);
/* May drop it (EVENT_MESSAGE). */
void event_offer(exchange_t *exchange, event_entry_t *entry);
/* Is there room for another message? Asked before the copy is made. */
bool event_room(const exchange_t *exchange);
void event_pump(exchange_t *exchange); /* once a tick: what waited goes into the ring */

#endif
