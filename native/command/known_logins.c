/* known_logins.c: see greeting.h: logins that control has judged, and would judge in the same way again.
 *
 * A CONNECT that is byte for byte one of these is admitted without asking, and control is told (EVENT_LINE, arg 1). Of
 * MQTT that is what its CONNECT says of the user (verbs/mqtt_login.c), since each client has an identifier of its own.
 * Control gives only such here that depend on nothing else, for the kind of connection that it was judged on, and takes
 * all back (FORGET) before it changes its mind. There are few, each was a login that succeeded, and the newest takes
 * the place of the oldest, so that strangers cost nothing.
 */
#include <stdlib.h>

#include "command/greeting.h"

#include "base/copies.h"
#include "base/hash.h"
#include "command/command.h"
#include "exchange/exchange.h"
#include "exchange/strings.h"
#include "plane/account.h"
#include "plane/peer.h"

#define KNOWN_MAX 64u

typedef struct known {
    uint64_t hash;
    uint64_t kind;           /* CONN_*: a user may be allowed for some alone */
    bytes_t connect;         /* in own */
    plane_command_t verdict; /* an ADMIT, whose body and strings are in own */
    uint8_t *own;
    size_t own_size;
} known_t;

struct known_logins {
    uint32_t next;
    known_t at[KNOWN_MAX];
};

/* Wipes a known login, which holds passwords. */
static void wipe(known_t *known) {
    if (known->own != NULL) {
        explicit_bzero(known->own, known->own_size);
        free(known->own);
    }
    *known = (known_t){0};
}

void known_forget(plane_t *plane) {
    for (uint32_t i = 0; plane->known != NULL && i < KNOWN_MAX; i++) {
        wipe(&plane->known->at[i]);
    }
    free(plane->known);
    plane->known = NULL;
    plane->admit_known = NULL;
}

void command_forget(plane_t *plane, const plane_command_t *command) {
    known_forget(plane);
    command_done(plane, command, STATUS_OK);
}

/* In a time that says nothing of where they differ. */
static bool same_secret(bytes_t one, bytes_t other) {
    if (one.size != other.size) {
        return false;
    }
    volatile uint8_t difference = 0;
    for (uint32_t i = 0; i < one.size; i++) {
        difference |= (uint8_t)(one.at[i] ^ other.at[i]);
    }
    return difference == 0;
}

static const known_t *find(const plane_t *plane, uint64_t kind, bytes_t connect) {
    uint64_t hash = hash_bytes(connect.at, connect.size);
    for (uint32_t i = 0; i < KNOWN_MAX; i++) {
        const known_t *one = &plane->known->at[i];
        if (one->hash == hash && one->kind == kind && one->own != NULL && same_secret(one->connect, connect)) {
            return one;
        }
    }
    return NULL;
}

static status_t give_after_pong(peer_t *peer) {
    if (peer->after_pong.size == 0) {
        return STATUS_OK;
    }
    bytes_t own = greeting_text(peer, peer->after_pong);
    bytes_release(&peer->after_pong);
    peer->after_pong = own;
    return own.size != 0 ? STATUS_OK : STATUS_NO_MEMORY;
}

/* false: control is to be asked. */
static bool admit_known(plane_t *plane, peer_t *peer, bytes_t connect, bytes_t said) {
    const known_t *known = find(plane, peer->kind, connect);
    if (known == NULL || !admit_possible(plane, &known->verdict)) {
        return false;
    }
    event_entry_t *entry = event_new(EVENT_LINE, BYTES_NONE, BYTES_NONE, BYTES_NONE, said);
    if (entry == NULL) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a login"));
        return true;
    }
    entry->event.target = peer->id;
    entry->event.code = LINE_CONNECT;
    entry->event.arg = 1;
    peer_tell(plane, peer, entry);
    status_t status = admit_peer(plane, peer, &known->verdict);
    if (status == STATUS_OK) {
        status = give_after_pong(peer);
    }
    if (status != STATUS_OK) {
        peer_doom(plane, peer, CLOSE_AUTHENTICATION, BYTES_LITERAL("no memory for a login"));
    }
    return true;
}

/* The place of the same CONNECT, or the oldest. */
static known_t *place_for(plane_t *plane, uint64_t kind, bytes_t connect) {
    known_t *same = (known_t *)(uintptr_t)find(plane, kind, connect);
    return same != NULL ? same : &plane->known->at[plane->known->next++ % KNOWN_MAX];
}

void command_remember(plane_t *plane, const plane_command_t *command, account_t *account) {
    strings_t strings = strings_of(command);
    bytes_t connect = strings_next(&strings);
    size_t size = (size_t)connect.size + command->body_size + strings.left;
    uint8_t *own = malloc(size);
    if (plane->known == NULL) {
        plane->known = calloc(1, sizeof(*plane->known));
    }
    if (own == NULL || plane->known == NULL) {
        free(own);
        command_done(plane, command, STATUS_NO_MEMORY);
        return;
    }
    known_t *known = place_for(plane, command->arg, connect);
    wipe(known);
    uint8_t *body = bytes_write(own, connect);
    uint8_t *extra = bytes_write(body, bytes_of(command->body, command->body_size));
    (void)bytes_write(extra, bytes_of(strings.at, strings.left));
    *known = (known_t){.hash = hash_bytes(connect.at, connect.size),
                       .kind = command->arg,
                       .connect = bytes_of(own, connect.size),
                       .verdict = {.op = COMMAND_ADMIT,
                                   .account = account->js.id,
                                   .body = body,
                                   .body_size = command->body_size,
                                   .extra = extra,
                                   .extra_size = strings.left},
                       .own = own,
                       .own_size = size};
    plane->admit_known = admit_known;
    command_done(plane, command, STATUS_OK);
}
