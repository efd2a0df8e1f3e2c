/* tls_seats.c: who of those that shake hands has a seat, who stands in line for one, and who has to give his up.
 *
 *     STANDING ---- called when a seat is free ----> CALLED > SHAKING ---- the peer moves on: his silence begins anew
 *                                                                `---- silent for longer than his patience, and
 *                                                                      somebody stands in line: FAILED
 *
 * A peer behind a slow line answers after a round trip at the earliest. So his patience is PATIENCE_ROUND_TRIPS of
 * those that TCP measured when he came (one flight of ours may be lost), rounded up to TLS_PATIENCE_NS times a power of
 * two. There is a list for each: who comes, or moves on, is the last of his, and the first of each is silent longest.
 * Nobody is put out while all move on. The line costs nothing of OpenSSL's memory: what came lies in the sockets, which
 * report no more of it.
 *
 * In the line the connection with less patience goes first, unless the other one's has begun so much earlier: a
 * stranger that pretends to be far away keeps its seat for longer, and those nearby are to pass it. Connections that we
 * make need no seat, since their number is the configuration's. Not here: what is done in a seat (tls_shake.c).
 */
#include "net/tls_private.h"

#include "base/clock.h"

#define PATIENCE_ROUND_TRIPS 4

/* ---- lists ------------------------------------------------------------------------------------------------------- */

void tls_list_leave(tls_t *tls) {
    tls_list_t *list = tls->list;
    if (list == NULL) {
        return;
    }
    *(tls->previous != NULL ? &tls->previous->next : &list->first) = tls->next;
    *(tls->next != NULL ? &tls->next->previous : &list->last) = tls->previous;
    list->count--;
    tls->next = tls->previous = NULL;
    tls->list = NULL;
}

static void list_join(tls_t *tls, tls_list_t *list) {
    tls_list_leave(tls);
    tls->list = list;
    tls->previous = list->last;
    *(list->last != NULL ? &list->last->next : &list->first) = tls;
    list->last = tls;
    list->count++;
}

/* To where its wait's end belongs: at the end but for listeners with different waits. */
static void sort_in(tls_t *tls) {
    tls_list_t *list = &tls->desk->waiting;
    tls_t *before = tls->previous;
    while (before != NULL && before->until_ns > tls->until_ns) {
        before = before->previous;
    }
    if (before == tls->previous) {
        return;
    }
    list->last = tls->previous;
    list->last->next = NULL;
    tls->previous = before;
    tls->next = before != NULL ? before->next : list->first;
    tls->next->previous = tls;
    *(before != NULL ? &before->next : &list->first) = tls;
}

/* Whose time is over first; NULL: nobody is in them. */
static tls_t *first_of(const tls_list_t lists[TLS_PATIENCES]) {
    tls_t *found = NULL;
    for (uint32_t i = 0; i < TLS_PATIENCES; i++) {
        tls_t *first = lists[i].first;
        if (first != NULL && (found == NULL || first->until_ns < found->until_ns)) {
            found = first;
        }
    }
    return found;
}

uint32_t tls_desk_shaking(const tls_desk_t *desk) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < TLS_PATIENCES; i++) {
        count += desk->shaking[i].count;
    }
    return count;
}

/* ---- who waits for what ------------------------------------------------------------------------------------------ */

static int64_t patience_ns(const tls_t *tls) {
    return TLS_PATIENCE_NS << tls->patience;
}

void tls_be_patient(tls_t *tls, int64_t round_trip_ns) {
    while (tls->patience + 1u < TLS_PATIENCES && patience_ns(tls) / PATIENCE_ROUND_TRIPS < round_trip_ns) {
        tls->patience++;
    }
}

void tls_await_word(tls_t *tls) {
    tls->stage = STAGE_WAITING;
    tls->until_ns = tls->desk->now_ns + tls->wait_ns;
    list_join(tls, &tls->desk->waiting);
    sort_in(tls);
}

void tls_stand(tls_t *tls) {
    tls->stage = STAGE_STANDING;
    tls->until_ns = tls->desk->now_ns + patience_ns(tls);
    list_join(tls, &tls->desk->standing[tls->patience]);
}

void tls_sit(tls_t *tls) {
    tls->stage = STAGE_SHAKING;
    tls->until_ns = tls->desk->now_ns + patience_ns(tls);
    if ((tls->context->settings.flags & TLS_CLIENT) == 0) {
        list_join(tls, &tls->desk->shaking[tls->patience]);
    }
}

/* Whether there is a seat for one more, if need be that of a peer that was silent for too long. */
static bool make_seat(tls_desk_t *desk) {
    if (tls_desk_shaking(desk) < desk->seats) {
        return true;
    }
    tls_t *silent = first_of(desk->shaking);
    if (silent->until_ns > desk->now_ns) {
        return false;
    }
    tls_say(silent, "it was silent for %lld ms, and others wait for its place",
            (long long)((desk->now_ns - silent->until_ns + patience_ns(silent)) / NS_PER_MS));
    status_t status = tls_failed(silent);
    (void)status;
    return true;
}

bool tls_may_sit(tls_desk_t *desk) {
    return desk->spent_ns < TLS_TURN_NS && first_of(desk->standing) == NULL && make_seat(desk);
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

void tls_desk_turn(tls_desk_t *desk, int64_t mono_ns) {
    desk->now_ns = mono_ns;
    desk->spent_ns = 0;
    desk->called = false;
}

void *tls_desk_next(tls_desk_t *desk) {
    tls_t *tls = desk->waiting.first;
    if (tls != NULL && tls->until_ns <= desk->now_ns) {
        tls_list_leave(tls);
        tls->stage = STAGE_SAYING;
        return tls->tag;
    }
    tls = first_of(desk->standing);
    if (tls == NULL || (desk->called && desk->spent_ns >= TLS_TURN_NS) || !make_seat(desk)) {
        return NULL;
    }
    desk->called = true;
    tls_list_leave(tls);
    tls->stage = STAGE_CALLED;
    return tls->tag;
}

int64_t tls_desk_deadline(const tls_desk_t *desk) {
    int64_t due_ns = desk->waiting.first == NULL ? INT64_MAX : desk->waiting.first->until_ns;
    if (first_of(desk->standing) == NULL) {
        return due_ns;
    }
    int64_t seat_ns = tls_desk_shaking(desk) < desk->seats ? desk->now_ns : first_of(desk->shaking)->until_ns;
    return seat_ns < due_ns ? seat_ns : due_ns;
}
