/* record.h: small durable records: definitions, states of consumers, whatever control keeps. They are in the same
 * batches as messages, so a record and what it speaks of become durable together.
 */
#ifndef LEAFD_STORE_RECORD_H
#define LEAFD_STORE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"
#include "store/store.h"

/* kind: RECORD_* of abi.h, or one of these, which stay inside C. Keys that belong to a stream begin with its id (4
 * bytes BE). */
#define RECORD_CONSUMER_STATE 10   /* key = stream id, consumer id */
#define RECORD_CONSUMER_PENDING 11 /* key = stream id, consumer id, stream seq (8 BE) */
/* sessions/kept.h: key = stream id, number of the session; of IN and OUT also a packet identifier (2 BE) */
#define RECORD_SESSION 12
#define RECORD_SESSION_IN 13
#define RECORD_SESSION_OUT 14
#define RECORD_SESSION_WILL 15   /* sessions/will.h */
#define RECORD_SESSION_SHARED 16 /* as OUT; verbs/mqtt_share.h */
#define RECORD_META 17           /* meta/meta_rows.h */

#define STORE_RECORD_MAX (UINT32_C(32) << 20)
/* Memory for so many puts before the next tick: then they are refused for want of room alone. */
LEAF_MUST_USE status_t store_record_reserve(store_t *store, uint64_t count);
LEAF_MUST_USE status_t store_record_put(store_t *store, uint32_t kind, bytes_t key, bytes_t value);
/* Is there room now for a record with this value, and for the opening and the removal of a stream beside it? */
bool store_record_fits(store_t *store, bytes_t value);
LEAF_MUST_USE status_t store_record_delete(store_t *store, uint32_t kind, bytes_t key); /* missing is fine */
LEAF_MUST_USE status_t store_record_delete_prefix(store_t *store, uint32_t kind, bytes_t prefix);
/* Overlay included. *value valid until the next store_tick or write. ENTRY_DAMAGED: in both its places, or in one while
 * it is known that the other has none. */
LEAF_MUST_USE entry_outcome_t store_record_get(store_t *store, uint32_t kind, bytes_t key, bytes_t *value);
/* One of these writes. */
typedef enum record_act { RECORD_PUT = 1, RECORD_DELETE, RECORD_DELETE_PREFIX } record_act_t;
typedef struct record_change {
    record_act_t act;
    uint32_t kind;
    bytes_t key;
    bytes_t value; /* of a put */
} record_change_t;
LEAF_MUST_USE status_t store_record_change(store_t *store, const record_change_t *change);
/* In key order, all whose key starts with prefix and is greater than `after`; false from visit ends it. LIST_LACKS:
 * one or more could be read in neither of their two places, and were left out: that they are not there is not known.
 * LIST_UNKNOWN: it ended early. */
LEAF_MUST_USE list_outcome_t store_record_each(store_t *store, uint32_t kind, bytes_t prefix, bytes_t after,
                                               bool (*visit)(void *context, bytes_t key, bytes_t value), void *context);
/* The same, with a word of each that could be read in neither place: `lost` gets its key, in its place among the
 * others, and the walk's outcome does not speak of it. (A page that cannot be read ends the walk.) */
typedef struct record_visit {
    bool (*found)(void *context, bytes_t key, bytes_t value); /* false ends it */
    bool (*lost)(void *context, bytes_t key);                 /* likewise; NULL: as in store_record_each */
    void *context;
} record_visit_t;
LEAF_MUST_USE list_outcome_t store_record_visit(store_t *store, uint32_t kind, bytes_t prefix, bytes_t after,
                                                const record_visit_t *visit);
/* The definitions that are lost, by the whole key of their record (its kind first), behind the key `after`: visit gets
 * what env_names.c kept of each, or nothing. Each is alarmed, and so is LIST_LACKS: names cannot be read. Between the
 * store's start and its first op. */
LEAF_MUST_USE list_outcome_t store_lost_each(store_t *store, bytes_t after,
                                             bool (*visit)(void *context, bytes_t key, bytes_t name), void *context);

#endif
