/* holders.c: see holders.h. */
#include "base/holders.h"

#include <stddef.h>

#include "base/check.h"
#include "base/visits.h"

#define LOOKED_AT 16u

void holders_open(holders_t *holders, uint64_t limit, void *context) {
    *holders = (holders_t){.share = {.limit = limit, .context = context}};
}

static holder_t *holder_with_most(holders_t *holders) {
    holder_t *most = holders->most == NULL ? holders->turn : holders->most;
    for (uint32_t i = 0; i < LOOKED_AT && holders->turn != NULL; i++) {
        visits_add(1);
        most = holders->turn->bytes > most->bytes ? holders->turn : most;
        holders->turn = holders->turn->next;
    }
    holders->most = most;
    return most;
}

static void holder_put(holders_t *holders, holder_t *holder) {
    holder_t *turn = holders->turn;
    if (turn == NULL) {
        holder->next = holder->previous = holder;
        holders->turn = holder;
        return;
    }
    holder->next = turn;
    holder->previous = turn->previous;
    turn->previous->next = holder;
    turn->previous = holder;
}

static void holder_take(holders_t *holders, holder_t *holder) {
    holder->next->previous = holder->previous;
    holder->previous->next = holder->next;
    if (holders->turn == holder) {
        holders->turn = holder->next == holder ? NULL : holder->next;
    }
    if (holders->most == holder) {
        holders->most = NULL;
    }
}

bool holders_take(holders_t *holders, holder_t *holder, uint64_t bytes) {
    if (bytes > holders->share.limit) {
        return false;
    }
    while (!share_has(&holders->share, bytes)) {
        holder_t *most = holder_with_most(holders);
        check(most != NULL);
        most->drop_oldest(most, holders->share.context);
    }
    if (holder->bytes == 0) {
        holder_put(holders, holder);
    }
    holder->bytes += bytes;
    holders->share.used += bytes;
    if (holders->most != NULL && holder->bytes > holders->most->bytes) {
        holders->most = holder;
    }
    return true;
}

void holders_give(holders_t *holders, holder_t *holder, uint64_t bytes) {
    check(bytes <= holder->bytes && holder->bytes <= holders->share.used);
    holder->bytes -= bytes;
    holders->share.used -= bytes;
    if (holder->bytes == 0) {
        holder_take(holders, holder);
    }
}
