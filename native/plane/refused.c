/* refused.c: tells control what a client was refused, for the log: at most a few lines a minute for each connection, so
 * that a client which asks a million times a second costs control nothing; how many were left out comes with the next
 * one that is told.
 *
 * Not here: the refusal itself, and the -ERR that the client gets (verbs/client.c, peer.c); the text
 * of the log (control).
 */
#include "plane/refused.h"

#include "base/abi_types.h"
#include "base/bytes.h"
#include "exchange/exchange.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/protocol.h"

#define REFUSALS_TOLD 16u /* in one window */
#define REFUSALS_WINDOW_NS INT64_C(60000000000)
#define TEXT_MAX 256u /* of a subject or a queue's name; control quotes no more of it */

static bytes_t text_front(bytes_t text) {
    return bytes_of(text.at, text.size < TEXT_MAX ? text.size : TEXT_MAX);
}

void peer_refused(plane_t *plane, peer_t *peer, const violation_t *what) {
    if (peer->protocol->link) {
        return; /* a link's end its connection, with a text that is logged */
    }
    if (peer->refusals.told == 0 || plane->now.mono_ns - peer->refusals.since_ns >= REFUSALS_WINDOW_NS) {
        peer->refusals.since_ns = plane->now.mono_ns;
        peer->refusals.told = 0;
    }
    if (peer->refusals.told == REFUSALS_TOLD) {
        peer->refusals.left_out++;
        return;
    }
    event_entry_t *entry =
        event_new(EVENT_REFUSED, text_front(what->subject), text_front(what->queue), BYTES_NONE, text_front(what->sid));
    if (entry == NULL) {
        peer->refusals.left_out++;
        return;
    }
    entry->event.target = peer->id;
    entry->event.code = what->code;
    entry->event.arg = what->size;
    entry->event.arg2 = peer->refusals.left_out;
    peer->refusals.told++;
    peer->refusals.left_out = 0;
    /* Not behind the end of its connection, whose address the log names: it is few, not a message. */
    event_post(&plane->exchange, entry);
}
