/* priority.h: consumers with priority groups: which of the waiting pull requests may have the next message, and who is
 * pinned. A consumer without them comes here only to hear that everybody may.
 */
#ifndef LEAFD_CONSUME_PRIORITY_H
#define LEAFD_CONSUME_PRIORITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "consume/consume.h"
#include "consume/line.h"

#define GROUP_SIZE_MAX 16u

/* The client that alone is served, by the policy pinned_client. */
typedef struct pin {
    uint64_t number; /* 0 = nobody is pinned */
    uint64_t given;  /* how many there were */
    int64_t due_ns;  /* mono, when it is lost unless its client pulls; NEVER = nobody is pinned */
    int64_t since_wall_ns;
    bool unused; /* nothing was delivered by it yet */
    uint8_t group_size;
    uint8_t group[GROUP_SIZE_MAX]; /* for the advisory of its end */
    uint8_t id[PIN_ID_SIZE];       /* what its client names it by */
} pin_t;

/* The fields of a pull request that concern this room. */
typedef struct asked_priority {
    int64_t min_pending, min_unacked, priority;
    bytes_t group, id;
    bool formal; /* the request was an object; a plain number names no group, and is asked for none */
} asked_priority_t;

/* A message that looks for a request. */
typedef struct offer {
    uint64_t size;
    uint64_t pending; /* undelivered messages, this one included */
    uint64_t unacked; /* without this one */
} offer_t;

typedef enum claim {
    CLAIM_SERVED,    /* it may have the message */
    CLAIM_WAITS,     /* others may, in this turn */
    CLAIM_WRONG_PIN, /* it names a pin that is over */
} claim_t;

/* Why a request is refused, NULL: it is not. One that names the current pin keeps it. */
const char *priority_refuses(consumer_t *consumer, const asked_priority_t *asked);
void priority_enter(const consumer_t *consumer, request_t *request, const asked_priority_t *asked);
claim_t priority_claim(const consumer_t *consumer, const request_t *request, const offer_t *offer);
/* May it be that a request which sleeps would be served now? */
bool priority_changed(const consumer_t *consumer, const offer_t *offer);
/* Another turn begins: may those be served now that could not in the last one? */
bool priority_begins_anew(const consumer_t *consumer);
bool priority_pins(const consumer_t *consumer);                  /* its messages carry the pin's id */
bool priority_needs_pin(const consumer_t *consumer);             /* and nobody is pinned */
void priority_pin(consumer_t *consumer, request_t *request);     /* the request that is served next */
void priority_lost(consumer_t *consumer, const request_t *lost); /* nobody listens to it */
void priority_on_time(consumer_t *consumer);
void priority_configured(consumer_t *consumer);

#endif
