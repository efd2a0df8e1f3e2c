/* greeting.h: what control has said ahead, so that a connection does not have to wait for it.
 *
 *     GREET > a connection comes > INFO [ > TLS ] > CONNECT, as in a REMEMBER of before > admitted
 *                                                             another one            > EVENT_LINE, and control decides
 *
 * The first half is greeting.c, the second one known_logins.c.
 *
 * Control hears of all of it, some milliseconds later (event_post_quietly). Not here: any decision.
 */
#ifndef LEAFD_COMMAND_GREETING_H
#define LEAFD_COMMAND_GREETING_H

#include "base/abi_types.h"
#include "base/bytes.h"
#include "plane/plane.h"

/* The kind of a listener's connections, for peer_new: greeted where it has a greeting, and where none is needed. A
 * client of MQTT begins itself, so control need not hear of it before its CONNECT. */
uint32_t greeting_kind(const plane_listener_t *listener);
/* The place where a client is, which every INFO for it names. address: as in EVENT_OPENED or EVENT_PROXIED. */
void greeting_from(peer_t *peer, bytes_t address);
/* A new connection of a listener with a greeting: its INFO goes out, TLS begins. */
void greeting_peer(plane_t *plane, peer_t *peer, const plane_listener_t *listener);
void greeting_drop(plane_listener_t *listener);
/* An own copy of text with the peer's number and address in their places; BYTES_NONE: no memory. */
bytes_t greeting_text(const peer_t *peer, bytes_t text);

void known_forget(plane_t *plane);

#endif
