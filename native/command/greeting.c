/* greeting.c: see greeting.h: the INFO, and how who comes gets TLS. */
#include "command/greeting.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/copies.h"
#include "command/command.h"
#include "exchange/strings.h"
#include "plane/peer.h"
#include "plane/secure.h"

#define NUMBER_MAX 21u

struct greeting {
    secure_t how; /* context 0: plain text */
    bytes_t before;
    bytes_t behind;
};

void greeting_drop(plane_listener_t *listener) {
    if (listener->greeting != NULL) {
        bytes_release(&listener->greeting->before);
        bytes_release(&listener->greeting->behind);
        free(listener->greeting);
        listener->greeting = NULL;
    }
    listener->kind &= ~(uint32_t)LISTEN_GREETED;
}

uint32_t greeting_kind(const plane_listener_t *listener) {
    bool begins = listener->kind == CONN_MQTT && !listener->secure && !listener->proxied;
    return listener->kind | (begins ? LISTEN_GREETED : 0);
}

static status_t greeting_put(plane_listener_t *listener, const secure_t *how, const bytes_t texts[2]) {
    bytes_t own[2];
    greeting_t *greeting = calloc(1, sizeof(*greeting));
    if (greeting == NULL || !bytes_copy_all(own, texts, 2)) {
        free(greeting);
        return STATUS_NO_MEMORY;
    }
    *greeting = (greeting_t){.how = *how, .before = own[0], .behind = own[1]};
    listener->greeting = greeting;
    listener->kind |= LISTEN_GREETED;
    return STATUS_OK;
}

void command_greet(plane_t *plane, const plane_command_t *command) {
    strings_t strings = strings_of(command);
    bytes_t texts[2];
    texts[0] = strings_next(&strings);
    texts[1] = strings_next(&strings);
    secure_t how;
    memcpy(&how, command->body, sizeof(how));
    for (plane_listener_t *one = plane->listeners; one != NULL; one = one->next) {
        if (one->id == command->target) {
            greeting_drop(one);
            /* Without memory control says it, as it does without a greeting. */
            command_done(plane, command, texts[0].size == 0 ? STATUS_OK : greeting_put(one, &how, texts));
            return;
        }
    }
    command_done(plane, command, STATUS_NOT_FOUND);
}

bytes_t greeting_text(const peer_t *peer, bytes_t text) {
    char number[NUMBER_MAX + 1];
    int digits = snprintf(number, sizeof number, "%llu", (unsigned long long)peer->id);
    size_t places = 0;
    for (uint32_t i = 0; i < text.size; i++) {
        places += text.at[i] == GREETING_CONNECTION || text.at[i] == GREETING_ADDRESS;
    }
    uint8_t *to = malloc(text.size + places * (NUMBER_MAX + peer->host.size));
    if (to == NULL || digits < 0) {
        free(to);
        return BYTES_NONE;
    }
    uint8_t *at = to;
    for (uint32_t i = 0; i < text.size; i++) {
        switch (text.at[i]) {
        case GREETING_CONNECTION: at = bytes_write(at, bytes_of(number, (uint32_t)digits)); break;
        case GREETING_ADDRESS: at = bytes_write(at, peer->host); break;
        default: *at++ = text.at[i];
        }
    }
    return bytes_of(to, (uint32_t)(at - to));
}

/* The host in "127.0.0.1:4222" or "[::1]:4222". */
static bytes_t host_of(bytes_t address) {
    uint32_t end = address.size;
    while (end != 0 && address.at[end - 1] != ':') {
        end--;
    }
    bytes_t host = bytes_of(address.at, end != 0 ? end - 1 : 0);
    bool brackets = host.size > 1 && host.at[0] == '[';
    return brackets ? bytes_of(host.at + 1, host.size - 2) : host;
}

void greeting_from(peer_t *peer, bytes_t address) {
    bytes_release(&peer->host);
    peer->host = bytes_copy(host_of(address));
}

void greeting_peer(plane_t *plane, peer_t *peer, const plane_listener_t *listener) {
    const greeting_t *greeting = listener->greeting;
    bytes_t before = greeting_text(peer, greeting->before), behind = greeting_text(peer, greeting->behind);
    if (before.size == 0 || (greeting->behind.size != 0 && behind.size == 0)) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a login"));
    } else if (greeting->how.context != 0) {
        secure_peer(plane, peer, &greeting->how, &(secure_texts_t){.before = before, .behind = behind});
    } else {
        peer_send_urgent(plane, peer, before);
        if (peer->excess) {
            peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("maximum connections exceeded"));
        }
    }
    bytes_release(&before);
    bytes_release(&behind);
}
