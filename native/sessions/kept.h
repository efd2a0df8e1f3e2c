/* kept.h: a session that outlives its connection: what is remembered of it while its client is away, and as bytes of a
 * record. Sans-IO: where records are, and how what waits is delivered, is the caller's.
 *
 *     kept_t      who it is, until when it is kept
 *       filters   its subscriptions
 *       received  messages of QoS 2 of the client that are here, by identifier     until PUBREL
 *       released  messages of QoS 2 to the client that it has, by identifier,      until PUBCOMP
 *                 with the order in which it said so
 *       will      the message that it leaves behind                                until its client is back
 *
 *     record    0 version 1 | 1 zero 1 | 2 size of the client identifier 2 | 4 expiry 4 | 8 left 8 | 16 filters 4
 *               20 client identifier | filters ..
 *     filter    0 flags 4 | 4 identifier 4 | 8 first 8 | 16 size 2 | 18 text
 *
 * Numbers are big-endian; the store adds its checksum. `left` is when the connection ended, on the store's age clock;
 * 0: it has not. `first` is the sequence from which on the stream's messages are the subscription's; of a shared one
 * whose flags say so, the number of what its sessions share. The two sets of
 * identifiers are records of their own, one for each, since they come and go with each message, and so is the will
 * (will.h).
 */
#ifndef LEAFD_SESSIONS_KEPT_H
#define LEAFD_SESSIONS_KEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/names.h"
#include "base/status.h"
#include "sessions/due.h"
#include "sessions/ids.h"
#include "sessions/sequences.h"
#include "sessions/will.h"

#define KEPT_FILTERS_MAX 1024u

typedef struct kept_filter {
    bytes_t text;    /* as the client named it; own copy */
    bytes_t pattern; /* behind it */
    uint32_t parent; /* so much of the pattern is a second one; 0: none is */
    uint32_t flags;  /* the caller's */
    uint32_t identifier;
    uint64_t first;
    bool shared;
    bool joined; /* it counts among those that share it; the caller's */
} kept_filter_t;

typedef struct kept {
    name_link_t client; /* the identifier (own copy), of the account with that number */
    due_t due;          /* when it expires; nothing while a client has it */
    uint32_t number;    /* among those of its account's stream */
    uint32_t expiry;    /* seconds; SESSION_EVER */
    int64_t left_age_ns;
    kept_filter_t *filters;
    uint32_t filter_count;
    uint32_t filter_room;
    bool no_local; /* a subscription does not want what its own client publishes; the caller's */
    ids_t received;
    sequences_t released;    /* identifier > order, of the caller's */
    will_t *will;            /* it waits, since its client is away */
    bool will_noted;         /* there is a record of that, or of one whose client is here */
    struct session *session; /* NULL: its client is away */
    void *shared;            /* the caller's: what all sessions share .. */
    void *keeper;            /* .. what those of its account do .. */
    void *binding;           /* .. and that delivers what it wants; NULL: it wants nothing */
    uint64_t stamp;          /* the caller's: of the connection that had it last */
    uint64_t doubtful;       /* messages up to this sequence may have been sent before it was loaded */
    uint64_t cost;           /* of memory, for the caller */
} kept_t;

/* NULL: no memory. */
kept_t *kept_new(bytes_t client);
void kept_free(kept_t *kept);
kept_filter_t *kept_find(const kept_t *kept, bytes_t text); /* NULL: it has no such subscription */
/* New, or the one that is there; what it says is the caller's to fill in. STATUS_FULL: too many; STATUS_INVALID: it is
 * no filter. */
LEAF_MUST_USE status_t kept_put(kept_t *kept, bytes_t text, kept_filter_t **out);
bool kept_drop(kept_t *kept, bytes_t text); /* false: there was none */
uint64_t kept_size(const kept_t *kept);     /* of memory, about */
/* Can it be? A fault of the program may leave what contradicts itself. */
bool kept_sound(const kept_t *kept);
/* STATUS_INVALID: it contradicts itself, and what was written of it before stays. */
LEAF_MUST_USE status_t kept_write(const kept_t *kept, buffer_t *out);
/* NULL: no memory (*damaged false), or these are no such bytes. */
kept_t *kept_read(bytes_t record, bool *damaged);

#endif
