/* authors.h: what those who stored a schedule may do when it fires, which may be long after they left. Control is
 * asked, and its answers are kept until it changes its mind.
 *
 *     a schedule is stored --author_note--> asked, so that the answer is there when it fires
 *     it fires --author_right--> YES | NO | ASKED: tried again by the store very soon | UNKNOWN: in a second
 *     EVENT_AUTHOR --> control --COMMAND_AUTHOR--> kept        a reload, an account's JWT: COMMAND_AUTHORS_FORGET
 *
 * The author's name stands in the stored header Nats-Schedule-Author, which judge.c writes. Not here:
 * an author's user (control), what becomes of a schedule that may not fire (jetstream/schedule.c).
 */
#ifndef LEAFD_PLANE_AUTHORS_H
#define LEAFD_PLANE_AUTHORS_H

#include "jetstream/host.h"
#include "plane/plane.h"

typedef struct permissions permissions_t; /* route/permissions.h */

void author_note(plane_t *plane, uint32_t account, bytes_t author);
js_right_t author_right(plane_t *plane, uint32_t account, const js_scheduled_t *schedule);
/* Control's answer; permissions is taken over. arg: AUTHOR_*. */
void author_answered(plane_t *plane, uint64_t ticket, uint32_t rights, permissions_t *permissions);
void authors_forget(plane_t *plane);

#endif
