/* hearing.h: how far a leaf link has been told who wants what, and what links of its cluster have asked for together.
 * Written and read by interest.c alone; here because every connection holds one.
 */
#ifndef LEAFD_PLANE_HEARING_H
#define LEAFD_PLANE_HEARING_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hearing {
    bool told_all;
    uint64_t told_below; /* until then: entries whose hash is below this */
    uint64_t mates_look; /* number of the look that the weight is of */
    uint64_t mates_weight;
    struct peer *next_mate;     /* ring of links with the same cluster; NULL = alone */
    struct peer *next_newcomer; /* in plane->newcomers until told_all */
} hearing_t;

#endif
