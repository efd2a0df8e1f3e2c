/* positions.c: see positions.h. */
#include "store/positions.h"

#include <stdlib.h>

#include "base/check.h"

#define ROOM_MIN 8u
#define ROOM_KEPT 1024u /* by one that is empty: a thousand ledgers at rest have next to nothing */

static void set_room(positions_t *positions, uint64_t room) {
    if (positions->rooms != NULL) {
        *positions->rooms += room - positions->room;
    }
    positions->room = room;
}

void positions_begin(positions_t *positions, uint64_t *rooms) {
    *positions = (positions_t){.rooms = rooms};
}

static void pass_freed(positions_t *positions, uint64_t freed) {
    while (positions->count > 0 && positions_of(positions, positions->first) < freed) {
        positions->first++;
        positions->count--;
    }
}

status_t positions_reserve(positions_t *positions, uint64_t more, uint64_t freed) {
    if (LEAF_LIKELY(more <= positions->room - positions->count)) {
        return STATUS_OK;
    }
    pass_freed(positions, freed);
    uint64_t room = positions->room > 0 ? positions->room : ROOM_MIN;
    while (room - positions->count < more) {
        room *= 2;
    }
    if (room == positions->room) {
        return STATUS_OK;
    }
    positioned_t *at = malloc(room * sizeof *at);
    if (at == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (uint64_t i = 0; i < positions->count; i++) {
        uint64_t index = positions->first + i;
        at[index & (room - 1)] = positions->at[index & (positions->room - 1)];
    }
    free(positions->at);
    positions->at = at;
    set_room(positions, room);
    return STATUS_OK;
}

void positions_add(positions_t *positions, uint64_t index, uint64_t position, uint64_t bytes) {
    check(positions->count < positions->room);
    if (positions->count == 0) {
        positions->first = index;
    }
    check(index == positions->first + positions->count);
    positions->at[index & (positions->room - 1)] = (positioned_t){.position = position, .before = positions->bytes};
    positions->bytes += bytes;
    positions->count++;
}

/* Of all before the one of that index, which has a position or is behind the last. */
static uint64_t bytes_before(const positions_t *positions, uint64_t index) {
    uint64_t nth = index - positions->first;
    check(nth <= positions->count);
    return nth < positions->count ? positions->at[index & (positions->room - 1)].before : positions->bytes;
}

uint64_t positions_bytes(const positions_t *positions, uint64_t index, uint64_t upto) {
    return index > upto ? 0 : bytes_before(positions, upto + 1) - bytes_before(positions, index);
}

static void rest(positions_t *positions) {
    if (positions->count == 0 && positions->room > ROOM_KEPT) {
        positions_free(positions);
    }
}

void positions_cut(positions_t *positions, uint64_t index) {
    uint64_t kept = index < positions->first ? 0 : index - positions->first + 1;
    if (kept < positions->count) {
        positions->bytes = bytes_before(positions, positions->first + kept);
        positions->count = kept;
    }
    rest(positions);
}

void positions_pass(positions_t *positions, uint64_t index) {
    uint64_t passed = index < positions->first ? 0 : index - positions->first + 1;
    passed = passed < positions->count ? passed : positions->count;
    positions->first += passed;
    positions->count -= passed;
    rest(positions);
}

void positions_free(positions_t *positions) {
    free(positions->at);
    set_room(positions, 0);
    *positions = (positions_t){.rooms = positions->rooms};
}
