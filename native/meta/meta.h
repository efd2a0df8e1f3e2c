/* meta.h: the group of all servers of a cluster with JetStream, on the plane: its table (meta_rows.h), the frames of
 * its members over routes and gateways, a turn of it in each tick. A server without it has plane->meta NULL, and pays
 * that look.
 *
 *     COMMAND_META_*  -->  group/groups.h  <-- meta_turn: before the store's tick and behind it
 *          ^                    |  ^
 *       control          frames |  | frames: route, gateway > meta_mail
 *                               v  |
 *          `$LR.<server>` in the system account, over one link, or over a few (ways.h)
 *
 * - What comes as `$LR.` over a route or a gateway is the servers' own (verbs/): no subscription gets it, and neither
 *   takes anything else there, from any publisher (PUBLICATION_MAIL). It is believed of a server that has said that
 *   it lets nobody else write letters: nats-server's clients can, those in its system account.
 * - A frame begins with "LRF1" and is the groups'; anything else is a letter for control: founding, requests.
 * - A link on which more than QUEUED_MAX waits takes nothing: what is said there is lost, and said again.
 *
 * Not here: which servers found the group, and who is let in (control); what is agreed on (raft/).
 */
#ifndef LEAFD_META_META_H
#define LEAFD_META_META_H

#include "base/buffer.h"
#include "plane/plane.h"

#define META_MEMBERS_MAX 9u

typedef struct account account_t;

/* Behind js_open. there: arg2 of COMMAND_META_OPEN. STATUS_NOT_FOUND: JetStream is off; STATUS_EXISTS; any other: the
 * disk cannot take part. */
LEAF_MUST_USE status_t meta_open(plane_t *plane, account_t *account, uint64_t peer, uint64_t *disk, uint32_t *there);
void meta_close(plane_t *plane); /* before the stores */
/* count 0: it waits until a leader lets it in. */
LEAF_MUST_USE status_t meta_found(plane_t *plane, uint64_t name, const meta_disk_t *disks, uint32_t count);
/* In the place of the group that is here, if one is. alone: of this disk, with the rows that it has, as of that index,
 * which is higher than any revision; else it waits until a leader lets it in. STATUS_AGAIN, STATUS_FULL: to be called
 * again, until it is done. */
LEAF_MUST_USE status_t meta_anew(plane_t *plane, uint64_t name, bool alone, uint64_t index);
bool meta_send(plane_t *plane, uint64_t peer, bytes_t letter);
LEAF_MUST_USE status_t meta_shown(plane_t *plane, buffer_t *to);
/* STATUS_OK: the command is answered later. */
LEAF_MUST_USE status_t meta_put(plane_t *plane, const plane_command_t *command, bytes_t key, bytes_t value);
LEAF_MUST_USE status_t meta_rows(plane_t *plane, buffer_t *to);
LEAF_MUST_USE status_t meta_transfer(plane_t *plane, uint64_t peer);
LEAF_MUST_USE status_t meta_alter(plane_t *plane, uint32_t change, const meta_disk_t *disk);
LEAF_MUST_USE status_t meta_ways(plane_t *plane, const uint8_t *ways, uint32_t count);

void meta_turn(plane_t *plane);
int64_t meta_deadline(const plane_t *plane);

#endif
