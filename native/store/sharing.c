/* sharing.c: see sharing.h. */
#include "store/sharing.h"

#include "store/overlay.h"

void sharing_allow(store_t *store, bool allowed) {
    store->ledgers.sharing.allowed = allowed;
}

void sharing_cut(store_t *store, uint64_t boundary) {
    store->ledgers.sharing.cut = boundary;
}

/* ---- bytes of the entry that is being applied -------------------------------------------------------------------- */

void store_lend(store_t *store, bytes_t bytes, uint64_t position) {
    sharing_t *sharing = &store->ledgers.sharing;
    bool lends = sharing->allowed && store->options.sealer == NULL && position != 0 && position >= sharing->cut;
    sharing->lent = lends ? bytes : BYTES_NONE;
    sharing->position = position;
}

void store_lend_end(store_t *store) {
    store->ledgers.sharing.lent = BYTES_NONE;
}

/* The header and the payload, where they lie in a row. */
static bool rest_in_a_row(const message_record_t *message, bytes_t *rest) {
    *rest = message->header.size > 0 ? message->header : message->payload;
    if (message->header.size > 0 && message->payload.size > 0) {
        rest->size += message->payload.size;
        return message->payload.at == message->header.at + message->header.size;
    }
    return true;
}

bool sharing_holds(const store_t *store, const message_record_t *message, bytes_t *rest, uint64_t *position) {
    const sharing_t *sharing = &store->ledgers.sharing;
    if (LEAF_LIKELY(sharing->lent.size == 0) || (message->flags & MESSAGE_PACK) != 0 || !rest_in_a_row(message, rest)
        || rest->size < SHARED_MIN) {
        return false;
    }
    uint64_t offset = (uint64_t)((uintptr_t)rest->at - (uintptr_t)sharing->lent.at); /* of others: a very large one */
    if (offset > sharing->lent.size || rest->size > sharing->lent.size - offset) {
        return false;
    }
    *position = sharing->position + offset;
    return true;
}
