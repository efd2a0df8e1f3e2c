/* placed.h: streams of other servers of the cluster, as control knows them, by account and subject.
 *
 *     control --> COMMAND_PLACED: account, stream, subjects
 *     placed_keep(account, subject)    how many of them keep a message on that subject
 *
 * A client that is told when its message is on disk waits for these, too. A server that is away has its streams all the
 * same, which nobody's interest would show. A stream of several servers is in the table of each; where it is led here
 * it answers as any stream of this server, and is not counted. Not here: how they are asked (verbs/mqtt_far.c).
 */
#ifndef LEAFD_PLANE_PLACED_H
#define LEAFD_PLANE_PLACED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"
#include "exchange/strings.h"
#include "plane/account.h"
#include "plane/plane.h"

typedef struct placed placed_t;

/* subjects: what is left of the strings; none: there is no such stream any more. After an error it is not there. */
LEAF_MUST_USE status_t placed_put(plane_t *plane, bytes_t account, bytes_t stream, strings_t *subjects);
/* false: that could not be found out. */
LEAF_MUST_USE bool placed_keep(const plane_t *plane, const account_t *account, bytes_t subject, uint32_t *count);
void placed_free(plane_t *plane);

#endif
