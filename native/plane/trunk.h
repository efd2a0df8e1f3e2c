/* trunk.h: links that have one line together, as those of one box for its accounts (window.h has what follows from it).
 *
 *     those that this server dialled               one line, its own
 *     those that come from one place, of one box   one line, the box's
 *     others                                       a line each: nothing is known of it
 *
 * What a box is control says (agent/leafd/links/link.py): what has enrolled as one, else what has a JetStream domain,
 * which is one server or one cluster that stands together, else the server. Boxes behind one router have an address
 * together, and lines of their own, as far as anybody knows. Lines are counted by the links that hold them, and end
 * with the last.
 */
#ifndef LEAFD_PLANE_TRUNK_H
#define LEAFD_PLANE_TRUNK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/table.h"

typedef struct trunk {
    uint64_t key;
    uint32_t holders;
    uint32_t links;     /* of these, those with a window, .. */
    uint32_t busy;      /* .. those with something waiting, .. */
    int64_t drained_ns; /* .. which ran empty last, or began to, .. */
    int64_t resume_ns;  /* .. until then */
} trunk_t;

#define TRUNK_DIALLED UINT64_C(1)

/* The line of links of that box that come from an address (tcp_place); never TRUNK_DIALLED. 0: nothing is known. */
uint64_t trunk_key(uint64_t place, uint64_t box);
/* NULL: the key is 0, or there is no memory. Then the link is alone. */
trunk_t *trunk_hold(table_t *trunks, uint64_t key);
void trunk_leave(table_t *trunks, trunk_t *trunk);
/* Is it let run empty now? One link sees for all of them when it has to be, and how long that takes. */
bool trunk_drains(trunk_t *trunk, int64_t every_ns, int64_t takes_ns, int64_t mono_ns);

#endif
