/* flight.c: see flight.h. */
#include "sessions/flight.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"

#define HEAD 29u                        /* of what waits: id_at 4, size 4, seq 8, expiry_at 4, since 8, counted 1 */
#define COUNTED 28u                     /* the place of the last one */
#define MOVED_MIN (UINT64_C(64) * 1024) /* so much has gone before what waits behind it is moved to the front */
#define DROPPED_A_TURN 16384u
#define KEPT (UINT64_C(16) * 1024)

/* Of all who have had no message yet. Nobody writes to it. */
static flight_part_t flight_empty;

static bool flight_owns(flight_t *flight) {
    if (flight->part != &flight_empty) {
        return true;
    }
    flight_part_t *part = calloc(1, sizeof(*part));
    if (part == NULL) {
        return false;
    }
    buffer_init(&part->waiting, flight->most);
    buffer_count(&part->waiting, flight->share);
    flight->part = part;
    return true;
}

void flight_init(flight_t *flight, uint32_t window, uint64_t most, share_t *share) {
    *flight = (flight_t){.part = &flight_empty, .window = window, .most = most, .share = share};
}

void flight_free(flight_t *flight) {
    if (flight->part == &flight_empty) {
        return;
    }
    ids_free(&flight->part->sent);
    ids_free(&flight->part->released);
    sequences_free(&flight->part->sequences);
    buffer_free(&flight->part->waiting);
    free(flight->part);
}

static bool flight_has_room(const flight_t *flight) {
    return flight->part->sent.count + flight->part->released.count < flight->window;
}

uint16_t flight_id(uint64_t seq) {
    return (uint16_t)(seq % UINT16_MAX + 1);
}

bool flight_taken(const flight_t *flight, uint16_t id) {
    return ids_has(&flight->part->sent, id) || ids_has(&flight->part->released, id);
}

/* A free one; there is one, since the window is smaller than what there are. */
static uint16_t free_id(flight_t *flight) {
    uint16_t id = flight->last;
    do {
        id = id == UINT16_MAX ? 1 : (uint16_t)(id + 1);
    } while (flight_taken(flight, id));
    flight->last = id;
    return id;
}

/* 0: no memory, or another message has the one that it must have. */
static uint16_t flight_give(flight_t *flight, uint64_t seq) {
    uint16_t id = seq == 0 ? free_id(flight) : flight_id(seq);
    if (!flight_owns(flight) || flight_taken(flight, id)
        || (seq != 0 && sequences_put(&flight->part->sequences, id, seq) != STATUS_OK)) {
        return 0;
    }
    if (ids_add(&flight->part->sent, id) != STATUS_OK) {
        (void)sequences_take(&flight->part->sequences, id);
        return 0;
    }
    return id;
}

uint16_t flight_begin(flight_t *flight, uint64_t seq) {
    return flight_waiting(flight) == 0 && flight_has_room(flight) ? flight_give(flight, seq) : 0;
}

void flight_undo(flight_t *flight, uint16_t id) {
    (void)ids_take(&flight->part->sent, id);
    (void)sequences_take(&flight->part->sequences, id);
}

status_t flight_wait(flight_t *flight, const flight_packet_t *one, int64_t now_ns) {
    uint8_t *to;
    bytes_t packet = one->packet;
    if (!flight_owns(flight)) {
        return STATUS_NO_MEMORY;
    }
    check(one->id_at + 2 <= packet.size && (one->expiry_at == 0 || one->expiry_at + 4 <= packet.size));
    status_t status = buffer_reserve(&flight->part->waiting, (uint64_t)HEAD + packet.size, &to);
    if (status != STATUS_OK) {
        return status;
    }
    store_be32(to, one->id_at);
    store_be32(to + 4, packet.size);
    store_be64(to + 8, one->seq);
    store_be32(to + 16, one->expiry_at);
    store_be64(to + 20, (uint64_t)now_ns);
    to[COUNTED] = one->counted;
    flight->part->counted += one->counted;
    flight->part->counted_bytes += one->counted ? packet.size : 0;
    (void)bytes_write(to + HEAD, packet);
    flight->part->waiting.size += (uint64_t)HEAD + packet.size;
    flight->part->waiting_upto = one->seq > flight->part->waiting_upto ? one->seq : flight->part->waiting_upto;
    return STATUS_OK;
}

/* Takes the time that it has waited off its expiry. false: none is left. */
static bool has_time(uint8_t *at, int64_t now_ns) {
    uint32_t expiry_at = load_be32(at + 16);
    if (expiry_at == 0) {
        return true;
    }
    int64_t waited = (now_ns - (int64_t)load_be64(at + 20)) / NS_PER_SECOND;
    uint32_t expiry = load_be32(at + HEAD + expiry_at);
    bool left = waited < expiry;
    store_be32(at + HEAD + expiry_at, left ? expiry - (uint32_t)(waited > 0 ? waited : 0) : 1);
    store_be64(at + 20, (uint64_t)now_ns); /* if it has to wait on */
    return left;
}

bool flight_next(flight_t *flight, int64_t now_ns, bytes_t *packet) {
    flight->lags = false;
    for (uint32_t dropped = 0; flight_waiting(flight) != 0 && flight_has_room(flight);) {
        uint8_t *at = flight->part->waiting.at + flight->part->waiting_from;
        uint64_t seq = load_be64(at + 8);
        if (!has_time(at, now_ns) && seq == 0) {
            flight_gone(flight);
            flight->lags = ++dropped == DROPPED_A_TURN;
            if (flight->lags) {
                return false;
            }
            continue;
        }
        uint16_t id = flight_give(flight, seq);
        if (id == 0) {
            return false;
        }
        *packet = bytes_of(at + HEAD, load_be32(at + 4));
        store_be16(at + HEAD + load_be32(at), id);
        return true;
    }
    return false;
}

/* So many of the first bytes wait no longer. */
static void flight_move_on(flight_t *flight, uint64_t size) {
    flight->part->waiting_from += size;
    uint64_t left = flight_waiting(flight);
    if (left == 0) {
        flight->part->waiting_upto = 0;
    }
    if (left == 0 || (flight->part->waiting_from >= MOVED_MIN && flight->part->waiting_from >= left)) {
        buffer_consume(&flight->part->waiting, flight->part->waiting_from);
        flight->part->waiting_from = 0;
        buffer_trim(&flight->part->waiting, KEPT);
    }
}

void flight_gone(flight_t *flight) {
    const uint8_t *at = flight->part->waiting.at + flight->part->waiting_from;
    uint32_t size = load_be32(at + 4);
    flight->part->counted -= at[COUNTED];
    flight->part->counted_bytes -= at[COUNTED] != 0 ? size : 0;
    flight_move_on(flight, HEAD + (uint64_t)size);
}

/* What waits before it is not counted, and moves up: a part of what is retained, which is not much (mqtt_retain.c). */
static bool flight_drop_counted(flight_t *flight) {
    const buffer_t *waiting = &flight->part->waiting;
    uint64_t from = flight->part->waiting_from, at = from;
    while (at < waiting->size && waiting->at[at + COUNTED] == 0) {
        at += HEAD + (uint64_t)load_be32(waiting->at + at + 4);
    }
    if (at >= waiting->size) {
        return false;
    }
    uint32_t packet = load_be32(waiting->at + at + 4);
    uint64_t size = HEAD + (uint64_t)packet;
    memmove(waiting->at + from + size, waiting->at + from, at - from);
    flight->part->counted--;
    flight->part->counted_bytes -= packet;
    flight_move_on(flight, size);
    return true;
}

static bool flight_is_full(const flight_t *flight, const flight_most_t *most, uint32_t size) {
    const flight_part_t *part = flight->part;
    return (most->messages != 0 && part->counted >= most->messages)
           || (most->bytes != 0 && part->counted_bytes + size > most->bytes);
}

uint32_t flight_bound(flight_t *flight, const flight_most_t *most, uint32_t size) {
    uint32_t dropped = 0;
    while (flight_is_full(flight, most, size) && dropped < DROPPED_A_TURN && flight_drop_counted(flight)) {
        dropped++;
    }
    return dropped;
}

/* Messages come in the order of their sequences. One that is delivered again is below those that wait, and has gone. */
bool flight_waits(const flight_t *flight, uint64_t seq) {
    return flight_waiting(flight) != 0 && seq <= flight->part->waiting_upto && !flight_has(flight, seq);
}

bool flight_has(const flight_t *flight, uint64_t seq) {
    return sequences_find(&flight->part->sequences, flight_id(seq)) == seq;
}

bool flight_fits(const flight_t *flight, uint64_t seq) {
    return flight_waiting(flight) == 0 && flight_has_room(flight) && !flight_taken(flight, flight_id(seq));
}

void flight_mark(flight_t *flight, uint64_t seq, uint32_t share) {
    if (flight_has(flight, seq)) {
        sequences_mark(&flight->part->sequences, flight_id(seq), share);
    }
}

uint32_t flight_share(const flight_t *flight, uint16_t id) {
    return sequences_share(&flight->part->sequences, id);
}

bool flight_acknowledged(flight_t *flight, uint16_t id, uint64_t *seq) {
    *seq = sequences_take(&flight->part->sequences, id);
    return ids_take(&flight->part->sent, id);
}

bool flight_received(flight_t *flight, uint16_t id, uint64_t *seq) {
    *seq = sequences_take(&flight->part->sequences, id);
    if (!ids_take(&flight->part->sent, id)) {
        return ids_has(&flight->part->released, id); /* said again */
    }
    return ids_add(&flight->part->released, id) == STATUS_OK;
}

bool flight_completed(flight_t *flight, uint16_t id) {
    return ids_take(&flight->part->released, id);
}

status_t flight_release_again(flight_t *flight, uint16_t id) {
    status_t status = flight_owns(flight) ? ids_add(&flight->part->released, id) : STATUS_NO_MEMORY;
    return status == STATUS_EXISTS ? STATUS_OK : status;
}
