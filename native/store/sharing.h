/* sharing.h: a message that an entry of a ledger asks for has its header and its payload in the batches already, among
 * the entry's bytes. So its own operation names where they lie (OP_PUT_SHARED, disk/batch.h). Knows batches; knows no
 * ledger.
 *
 *     ring    | entries: .., header, payload, .. | .. | message: numbers, subject, [position, size] |
 *                            '-----------------------------------------------------'
 *
 * Both have to be freed, checkpointed and replayed together. So nothing is lent that lies before the newest boundary of
 * a checkpoint: such a message is written whole. Nor is anything with a sealer, or in a stream that is compressed,
 * since those take values in one piece.
 */
#ifndef LEAFD_STORE_SHARING_H
#define LEAFD_STORE_SHARING_H

#include <stdbool.h>
#include <stdint.h>

#include "disk/batch.h"

#define SHARED_MIN 16u /* of a message: the name of fewer is not much shorter */

typedef struct store store_t;

typedef struct sharing { /* only sharing.c writes to it */
    bool allowed;        /* META says that there may be such operations */
    uint64_t cut;        /* the boundary of the checkpoint that was begun last in this run, 0 = none was */
    bytes_t lent;        /* of the entry that is being applied, none: nothing is lent .. */
    uint64_t position;   /* .. and where they lie */
} sharing_t;

/* At a start. */
void sharing_allow(store_t *store, bool allowed);
/* A checkpoint begins, which ends there. */
void sharing_cut(store_t *store, uint64_t boundary);

/* What is appended from now on may share these, which lie in the batches at that position. 0: they do not. */
void store_lend(store_t *store, bytes_t bytes, uint64_t position);
void store_lend_end(store_t *store);
/* Does the message lie in what is lent? Then its header and payload are `rest`, at that position. */
bool sharing_holds(const store_t *store, const message_record_t *message, bytes_t *rest, uint64_t *position);

#endif
