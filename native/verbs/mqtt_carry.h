/* mqtt_carry.h: a client of MQTT at one server of a cluster, whose session another one has.
 *
 *     device <--> its server: login, rights, keep alive        mqtt_carry.c
 *                   | ^
 *       what it says| | what it is told                        `$LC.` in the system account, over one route
 *                   v |
 *                 home: the server that leads the account's sessions; a peer there without a socket, mqtt_carried.c
 *
 *     OPEN   to all servers: verdict, CONNECT without user and password       AGAIN   likewise, said again
 *     TAKEN  the one that has the sessions answers
 *     SAID   bytes of the device, as they came      GOT   so many bytes of these need not be waited for any more
 *     TOLD   bytes for the device, up to the end of a packet                  PART    likewise, and it goes on
 *     END    of the connection, at either end: reason and text
 *     CAME   clients are here, and older connections of theirs end       CLEARED   no session of its is left
 *
 * Each begins with its kind and two numbers of eight bytes: the connection at the receiver (0: not known yet), and the
 * one at the sender. A number is believed only of the route that the connection goes by, so no server speaks for the
 * devices of another one. When that route ends both ends of the connection do.
 *
 * Not here: who has the sessions, and how they are kept (mqtt_stream.c, plane/keeping.h); messages that go there
 * alone (mqtt_far.c); CAME and CLEARED (mqtt_names.c).
 */
#ifndef LEAFD_VERBS_MQTT_CARRY_H
#define LEAFD_VERBS_MQTT_CARRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "verbs/mqtt.h"

#define CARRY_HEAD 17u
#define CARRY_CHUNK (32u * 1024u)   /* bytes of a connection in one frame */
#define CARRY_WINDOW (128u * 1024u) /* that a device has said and its home has not acted on */

typedef enum carry_kind {
    CARRY_OPEN = 'O',
    CARRY_AGAIN = 'R',
    CARRY_TAKEN = 'T',
    CARRY_SAID = 'S',
    CARRY_GOT = 'G',
    CARRY_TOLD = 'W',
    CARRY_PART = 'P',
    CARRY_END = 'E',
    CARRY_CAME = 'C',
    CARRY_CLEARED = 'D',
} carry_kind_t;

typedef struct carry_frame {
    carry_kind_t kind;
    uint64_t to;   /* connection at the receiver */
    uint64_t from; /* at the sender */
    bytes_t rest;
} carry_frame_t;

/* ---- mqtt_carry.c: the device's server --------------------------------------------------------------------------- */

/* Remembers the CONNECT of a client that asks for a session, which may be at another server. */
void mqtt_carry_prepare(plane_t *plane, session_t *session, const mqtt_login_t *login, bytes_t whole);
/* The verdict on it, as it came; for protocol_t. */
void mqtt_carry_judged(plane_t *plane, peer_t *peer, bytes_t body, bytes_t strings);
/* It has no session here: true: it waits for the server that has, and is not answered yet. */
bool mqtt_carry_begin(plane_t *plane, peer_t *peer);
/* What it has said goes to its home. Returns how much. */
uint32_t mqtt_carry_input(plane_t *plane, peer_t *peer, bytes_t input);
bool mqtt_carry_away(const session_t *session);       /* its session is at another server, which knows of it */
bool mqtt_carry_interrupts(const session_t *session); /* what it was told last was not a whole packet */
void mqtt_carry_settled(session_t *session);          /* it is served here */
void mqtt_carry_left(plane_t *plane, peer_t *peer);
void mqtt_carry_chores(plane_t *plane);
void mqtt_carry_route_left(plane_t *plane, const peer_t *route);
void mqtt_carry_frame(plane_t *plane, peer_t *route, const carry_frame_t *frame);
/* Puts a frame into that route's queue. */
void mqtt_carry_send(plane_t *plane, peer_t *route, const carry_frame_t *frame);

/* ---- mqtt_login.c ------------------------------------------------------------------------------------------------ */

/* The session for that CONNECT. false: no memory, and the peer is doomed. */
bool mqtt_begin_session(plane_t *plane, peer_t *peer, const mqtt_packet_t *packet);
void mqtt_first_beat(const plane_t *plane, peer_t *peer); /* its keep alive begins */

/* ---- mqtt_carried.c: the server that has its session ------------------------------------------------------------- */

void mqtt_carried_open(plane_t *plane, peer_t *route, const carry_frame_t *frame);
void mqtt_carried_frame(plane_t *plane, peer_t *route, const carry_frame_t *frame);
/* It has acted on its input, but for so many bytes. */
void mqtt_carried_took(plane_t *plane, peer_t *peer, uint32_t left);
void mqtt_carried_route_left(plane_t *plane, const peer_t *route);
void mqtt_carried_go_on(plane_t *plane); /* a route that was behind has room again */

#endif
