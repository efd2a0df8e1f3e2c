/* import.h: what one account takes from another: streams and services. Private to plane/.
 *
 *   stream    a subscription in the importing account that overlaps the import's local subject has a shadow in the
 *             exporting account; a message that hits shadows of an import goes over it once, with its local subject,
 *             like over a leaf link
 *   service   a target in the importing account; a message goes over to the exporting account, and its reply becomes
 *             _R_.<exporter's six>.<six>, a row of the table of outstanding replies, which leads the answer back
 *
 *     import.c   an account's imports, as a command says them     shadow.c   shadows come and go with subscriptions
 *     cross.c    one message over an import                       reply.c    the outstanding replies
 *
 * A message crosses after everybody else of its subject had it (publish.c), so a match that is being walked stays
 * valid. Reference: tests/wire/accounts.md.
 */
#ifndef LEAFD_PLANE_IMPORT_H
#define LEAFD_PLANE_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/holders.h"
#include "base/leftover.h"
#include "base/map.h"
#include "base/status.h"
#include "plane/account.h"
#include "plane/peer.h"
#include "plane/publication.h"
#include "plane/subscription.h"
#include "route/route.h"
#include "text/rewrite.h"
#include "wire/op.h"

#define REPLY_ID_SIZE 6u
#define REPLY_SUBJECT_SIZE (REPLY_PREFIX_SIZE + REPLY_ID_SIZE)
#define REPLY_MARK_MAX 16u /* of a measured request: latency.c */
#define REPLY_SUBJECT_MAX (REPLY_SUBJECT_SIZE + REPLY_MARK_MAX)
#define REPLIES_PER_IMPORT_MAX 65536u /* outstanding; beyond it the oldest is given up, or sooner, by its share */
#define REPLY_THRESHOLD_NS (120 * NS_PER_SECOND)

typedef struct import import_t;
typedef struct shadow shadow_t;
typedef struct measure measure_t; /* latency.h */

/* One way back. */
typedef struct reply {
    map_link_t link;     /* in the table; of a spare one: to the next */
    struct reply *newer; /* of the same import */
    struct reply *older;
    struct reply *next_of_peer;
    struct reply **at_peer; /* what points here; NULL: asked from inside */
    const peer_t *peer;     /* whose list that is; NULL with it */
    import_t *import;
    account_t *requester;
    account_t *responder; /* in whose domain the subject below is published */
    measure_t *measure;   /* NULL: nobody wants to know how long it takes */
    int64_t expires_ns;
    uint32_t response; /* RESPONSE_* */
    uint32_t size;     /* of the requester's own reply subject */
    uint32_t capacity;
    uint8_t id[REPLY_ID_SIZE];
    uint8_t at[];
} reply_t;

struct import {
    leftover_t leftover; /* first: its outstanding replies, after its end */
    sink_t service;      /* services: the target in the importer's domain */
    account_t *importer;
    account_t *exporter;
    import_row_t row;
    bytes_t subject; /* the exporter's; own copies */
    bytes_t local;
    bytes_t results;  /* IMPORT_MEASURED: where it is told */
    bytes_t mark;     /* and what the replies of measured requests end with */
    rewrite_t inward; /* exporter's to local */
    rewrite_t outward;
    uint64_t publication; /* streams: the last message that hit a shadow */
    uint32_t queue_count;
    bytes_t queues[OP_QUEUES_MAX]; /* and the groups that it is for */
    shadow_t *shadows;
    reply_t *oldest;
    reply_t *newest;
    uint32_t reply_count;
    holder_t holder; /* of what they take of memory */
    uint64_t growth; /* the number of the growth that casts its shadows; 0: they are all there */
    bool ended;      /* nothing crosses it any more, in any direction */
    bool noted;      /* a message is to cross or crossing it; by a circle it may not again */
    import_t *next_crossing;
    import_t *next;
};

struct shadow {
    route_target_t target; /* first; in the exporter's domain */
    import_t *import;
    const subscription_t *subscription; /* whose shadow it is; NULL: a stream's or an ingest's */
    peer_t *leaf;                       /* a link's subscription; NULL: anybody else's */
    bool announced;
    uint32_t cost; /* of memory, about; of what is inside: 0 */
    shadow_t *next_of_holder;
    shadow_t **holder; /* head of the holder's list */
    shadow_t *next_of_import;
    shadow_t *previous_of_import;
};

/* ---- import.c ---------------------------------------------------------------------------------------------------- */

/* The shadows of what subscribes in an account already, for its new imports of streams: a part of them in each turn.
 *
 *     imports_put --> growth_some, growth_some, ... --> true: all are there, or the new imports have ended (status)
 *
 * What subscribes meanwhile has its shadows at once. */
typedef struct growth {
    uint64_t number;
    uint32_t account;
    bool inside;     /* what is no connection's has its shadows */
    uint64_t *peers; /* those that were there at the beginning */
    uint64_t count;
    uint64_t next;
    uint64_t place; /* in that peer's table */
    bool failed;    /* there was no memory for a shadow */
    status_t status;
} growth_t;

/* All imports of the account, in place of what it had, as COMMAND_IMPORTS has them. The first failure is growth's
 * status; the other imports work all the same. */
void imports_put(plane_t *plane, account_t *account, const plane_command_t *command, growth_t *growth);
void imports_free(plane_t *plane, account_t *account);
void imports_stop(plane_t *plane, account_t *account, uint64_t growth); /* the new ones, whose shadows have no memory */

/* ---- reply.c ----------------------------------------------------------------------------------------------------- */

/* A new way back from responder's domain to `to` in requester's, for which others may have ended; NULL: no memory.
 * peer: ends with it; may be NULL. */
reply_t *reply_new(plane_t *plane, import_t *import, account_t *requester, account_t *responder, bytes_t to,
                   peer_t *peer);
/* The way back that a subject published in account's domain names; NULL: none, any more. */
reply_t *reply_find(const plane_t *plane, const account_t *account, bytes_t subject);
void reply_touch(plane_t *plane, reply_t *reply);
void reply_drop(plane_t *plane, reply_t *reply);
void reply_drop_oldest(holder_t *holder, void *plane);                        /* of an import */
uint32_t reply_subject(const reply_t *reply, uint8_t out[REPLY_SUBJECT_MAX]); /* returns its size */
/* Drops replies of an import that has ended, as many as the budget has; true: none is left. */
LEAF_MUST_USE bool replies_drop_some(plane_t *plane, const import_t *import, uint32_t *budget);
/* Forgets replies of a requester that leaves, as many as the budget has; true: none is left. From the moment it is
 * doomed, none of them is found any more. */
LEAF_MUST_USE bool replies_forget_some(plane_t *plane, peer_t *peer, uint32_t *budget);
void replies_chores(plane_t *plane);                        /* it is time to look for those that expired */
void replies_expire_some(plane_t *plane, uint32_t *budget); /* as many of them as the budget has, in each turn */
void replies_free(plane_t *plane);

/* ---- shadow.c ---------------------------------------------------------------------------------------------------- */

bool shadows_drop_some(plane_t *plane, import_t *import, uint32_t *budget); /* true: that was all */
void growth_begin(plane_t *plane, const account_t *account, growth_t *growth);
bool growth_some(plane_t *plane, growth_t *growth, uint32_t *budget); /* true: that was all, and it holds nothing */
LEAF_MUST_USE status_t shadows_add(plane_t *plane, const account_t *account, const route_target_t *target);
void shadows_drop(plane_t *plane, shadow_t **holder);
void shadows_weigh(plane_t *plane, const subscription_t *subscription);
void shadow_interest(const route_target_t *target, bool *announced, peer_t **origin);

/* ---- cross.c ----------------------------------------------------------------------------------------------------- */

/* The imports and shadows that a message hit in its account; the imports are a list through themselves. */
typedef struct crossings {
    import_t *first; /* these three count only when any is set */
    import_t *last;
    bool reply;
    bool any;
} crossings_t;
/* queue: of the group that the target was chosen from, NULL for plain ones. true: it will cross there. */
bool cross_note(const plane_t *plane, const publication_t *publication, const route_target_t *target,
                const bytes_t *queue, crossings_t *crossings);
/* Over all of them; returns how many at the other sides took it. */
uint32_t cross(plane_t *plane, const publication_t *publication, const crossings_t *crossings);
#endif
