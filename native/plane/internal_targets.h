/* internal_targets.h: what a target inside does with a message: the column `take` of target.h. */
#ifndef LEAFD_PLANE_INTERNAL_TARGETS_H
#define LEAFD_PLANE_INTERNAL_TARGETS_H

#include "base/abi_types.h"

typedef struct sink sink_t;
typedef struct publication publication_t;

void inside_stream(plane_t *plane, const sink_t *sink, const publication_t *publication);
void inside_ack(plane_t *plane, const sink_t *sink, const publication_t *publication);
void inside_flow(plane_t *plane, const sink_t *sink, const publication_t *publication);
void inside_next(plane_t *plane, const sink_t *sink, const publication_t *publication);
void inside_direct(plane_t *plane, const sink_t *sink, const publication_t *publication);
void inside_ingest(plane_t *plane, const sink_t *sink, const publication_t *publication);
void inside_mqtt(plane_t *plane, const sink_t *sink, const publication_t *publication);
void inside_measured(plane_t *plane, const sink_t *sink, const publication_t *publication);
/* Any of them, with a message that is traced, or only traced. */
void inside_traced(plane_t *plane, const sink_t *sink, const publication_t *publication);

#endif
