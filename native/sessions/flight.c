/* flight.c: see flight.h. */
#include "sessions/flight.h"

#include "base/bytes.h"
#include "base/check.h"

#define HEAD 8u                         /* of what waits: two numbers of four bytes */
#define MOVED_MIN (UINT64_C(64) * 1024) /* so much has gone before what waits behind it is moved to the front */
#define KEPT (UINT64_C(16) * 1024)

void flight_init(flight_t *flight, uint32_t window, uint64_t most, share_t *share) {
    *flight = (flight_t){.window = window};
    buffer_init(&flight->waiting, most);
    buffer_count(&flight->waiting, share);
}

void flight_free(flight_t *flight) {
    ids_free(&flight->sent);
    ids_free(&flight->released);
    buffer_free(&flight->waiting);
}

static bool flight_has_room(const flight_t *flight) {
    return flight->sent.count + flight->released.count < flight->window;
}

/* A free one; there is one, since the window is smaller than what there are. 0: no memory. */
static uint16_t flight_give(flight_t *flight) {
    uint16_t id = flight->last;
    do {
        id = id == UINT16_MAX ? 1 : (uint16_t)(id + 1);
    } while (ids_has(&flight->sent, id) || ids_has(&flight->released, id));
    if (ids_add(&flight->sent, id) != STATUS_OK) {
        return 0;
    }
    flight->last = id;
    return id;
}

uint16_t flight_begin(flight_t *flight) {
    return flight_waiting(flight) == 0 && flight_has_room(flight) ? flight_give(flight) : 0;
}

void flight_undo(flight_t *flight, uint16_t id) {
    (void)ids_take(&flight->sent, id);
}

status_t flight_wait(flight_t *flight, bytes_t packet, uint32_t id_at) {
    uint8_t *to;
    check(id_at + 2 <= packet.size);
    status_t status = buffer_reserve(&flight->waiting, (uint64_t)HEAD + packet.size, &to);
    if (status != STATUS_OK) {
        return status;
    }
    store_be32(to, id_at);
    store_be32(to + 4, packet.size);
    (void)bytes_write(to + HEAD, packet);
    flight->waiting.size += (uint64_t)HEAD + packet.size;
    return STATUS_OK;
}

bool flight_next(flight_t *flight, bytes_t *packet) {
    if (flight_waiting(flight) == 0 || !flight_has_room(flight)) {
        return false;
    }
    uint16_t id = flight_give(flight);
    if (id == 0) {
        return false;
    }
    uint8_t *at = flight->waiting.at + flight->waiting_from;
    *packet = bytes_of(at + HEAD, load_be32(at + 4));
    store_be16(at + HEAD + load_be32(at), id);
    return true;
}

void flight_gone(flight_t *flight) {
    const uint8_t *at = flight->waiting.at + flight->waiting_from;
    flight->waiting_from += HEAD + (uint64_t)load_be32(at + 4);
    uint64_t left = flight_waiting(flight);
    if (left == 0 || (flight->waiting_from >= MOVED_MIN && flight->waiting_from >= left)) {
        buffer_consume(&flight->waiting, flight->waiting_from);
        flight->waiting_from = 0;
        buffer_trim(&flight->waiting, KEPT);
    }
}

bool flight_acknowledged(flight_t *flight, uint16_t id) {
    return ids_take(&flight->sent, id);
}

bool flight_received(flight_t *flight, uint16_t id) {
    if (!ids_take(&flight->sent, id)) {
        return ids_has(&flight->released, id); /* said again */
    }
    return ids_add(&flight->released, id) == STATUS_OK;
}

bool flight_completed(flight_t *flight, uint16_t id) {
    return ids_take(&flight->released, id);
}
