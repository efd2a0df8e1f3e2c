/* known_logins.c: see greeting.h: logins that control has judged, and would judge in the same way again.
 *
 * A CONNECT that is byte for byte one of these is admitted without asking, and control is told (EVENT_CAME, or
 * EVENT_LINE where it has heard of the connection before). Of MQTT that is what its CONNECT says of the user
 * (verbs/mqtt_login.c), since each client has an identifier of its own. Control gives only such here that depend on
 * nothing else, for the kind of connection that it was judged on, and takes all back (FORGET) before it changes its
 * mind. How many there may be is control's to say, which takes back the oldest; each was a login that succeeded, so
 * strangers cost nothing.
 */
#include <stdlib.h>

#include "command/greeting.h"

#include "base/copies.h"
#include "base/hash.h"
#include "base/map.h"
#include "command/command.h"
#include "exchange/exchange.h"
#include "exchange/strings.h"
#include "plane/account.h"
#include "plane/peer.h"

#define SHARE_EIGHTHS 4u /* of the share: subscriptions have the rest in any case */

typedef struct known {
    map_link_t link;         /* by hash_bytes(connect) */
    uint64_t kind;           /* CONN_*, KNOWN_WEB: a user may be allowed for some alone */
    bytes_t connect;         /* in own */
    plane_command_t verdict; /* an ADMIT, whose body and strings are in own */
    size_t size;             /* of the whole, for the share and for wiping */
    uint8_t own[];
} known_t;

struct known_logins {
    map_t *map;
};

/* Drops a known login, and wipes it, since it holds passwords. */
static void drop_known(plane_t *plane, known_t *known) {
    map_take(plane->known->map, &known->link);
    plane->memory.interest.used -= known->size;
    explicit_bzero(known, known->size);
    free(known);
}

void known_forget(plane_t *plane) {
    if (plane->known != NULL) {
        map_walk_t walk = {0};
        for (map_link_t *link; (link = map_next(plane->known->map, &walk)) != NULL;) {
            drop_known(plane, MAP_ENTRY(link, known_t, link));
        }
        map_free(&plane->known->map);
    }
    free(plane->known);
    plane->known = NULL;
    plane->admit_known = NULL;
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

static known_t *find(const plane_t *plane, uint64_t kind, bytes_t connect) {
    uint64_t hash = hash_bytes(connect.at, connect.size);
    for (map_link_t *link = map_first(plane->known->map, hash); link != NULL; link = link->next) {
        known_t *one = MAP_ENTRY(link, known_t, link);
        if (link->hash == hash && one->kind == kind && same_secret(one->connect, connect)) {
            return one;
        }
    }
    return NULL;
}

static void drop_same(plane_t *plane, uint64_t kind, bytes_t connect) {
    known_t *same = plane->known == NULL ? NULL : find(plane, kind, connect);
    if (same != NULL) {
        drop_known(plane, same);
    }
}

void command_forget(plane_t *plane, const plane_command_t *command) {
    strings_t strings = strings_of(command);
    bytes_t connect = strings_next(&strings);
    if (connect.size == 0) {
        known_forget(plane);
    } else {
        drop_same(plane, command->arg, connect);
    }
    command_done(plane, command, STATUS_OK);
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

/* What control is told of one who is let in by `connect`. NULL: no memory. */
static event_entry_t *let_in_event(plane_t *plane, const peer_t *peer, bytes_t connect, bytes_t said) {
    bytes_t named = connect.at == said.at ? BYTES_NONE : connect;
    event_entry_t *opened = event_take_back(&plane->exchange, EVENT_OPENED, peer->id);
    bytes_t address = opened == NULL ? BYTES_NONE : bytes_of(opened->event.subject, opened->event.subject_size);
    event_entry_t *entry = event_new(opened == NULL ? EVENT_LINE : EVENT_CAME, address, BYTES_NONE, named, said);
    if (entry == NULL) {
        event_post_quietly(&plane->exchange, opened, plane->now.mono_ns);
        return NULL;
    }
    entry->event.target = peer->id;
    entry->event.code = opened == NULL ? LINE_CONNECT : peer->kind;
    entry->event.arg = 1;
    free(opened);
    return entry;
}

/* false: control is to be asked. */
static bool admit_known(plane_t *plane, peer_t *peer, bytes_t connect, bytes_t said) {
    const known_t *known = find(plane, peer->kind | (peer->web != NULL ? KNOWN_WEB : 0u), connect);
    if (known == NULL || !admit_possible(plane, &known->verdict)) {
        return false;
    }
    event_entry_t *entry = let_in_event(plane, peer, connect, said);
    if (entry == NULL) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a login"));
        return true;
    }
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

static status_t keep_known(plane_t *plane, known_t *known) {
    if (plane->known == NULL) {
        plane->known = calloc(1, sizeof(*plane->known));
    }
    if (plane->known == NULL) {
        return STATUS_NO_MEMORY;
    }
    drop_same(plane, known->kind, known->connect);
    if (!share_has_of(&plane->memory.interest, SHARE_EIGHTHS, known->size)) {
        return STATUS_FULL; /* control is asked each time */
    }
    status_t status = map_put(&plane->known->map, &known->link, hash_bytes(known->connect.at, known->connect.size));
    if (status == STATUS_OK) {
        plane->memory.interest.used += known->size;
        plane->admit_known = admit_known;
    }
    return status;
}

void command_remember(plane_t *plane, const plane_command_t *command, account_t *account) {
    strings_t strings = strings_of(command);
    bytes_t connect = strings_next(&strings);
    size_t size = sizeof(known_t) + connect.size + command->body_size + strings.left;
    known_t *known = malloc(size);
    if (known == NULL) {
        command_done(plane, command, STATUS_NO_MEMORY);
        return;
    }
    *known = (known_t){.kind = command->arg, .connect = bytes_of(known->own, connect.size), .size = size};
    uint8_t *body = bytes_write(known->own, connect);
    uint8_t *extra = bytes_write(body, bytes_of(command->body, command->body_size));
    (void)bytes_write(extra, bytes_of(strings.at, strings.left));
    known->verdict = (plane_command_t){.op = COMMAND_ADMIT,
                                       .account = account->js.id,
                                       .body = body,
                                       .body_size = command->body_size,
                                       .extra = extra,
                                       .extra_size = strings.left};
    status_t status = keep_known(plane, known);
    if (status != STATUS_OK) {
        explicit_bzero(known, size);
        free(known);
    }
    command_done(plane, command, status);
}
