/* target.c: the rows of target.h. */
#include "plane/target.h"

#include "plane/internal_targets.h"
#include "plane/publication.h"

#define NOT_FOR_JETSTREAM (PUBLICATION_IMPORTED | PUBLICATION_UNJUDGED)

const target_traits_t target_traits[TARGET_KIND_COUNT] = {
    [TARGET_CLIENT] = {.order = ORDER_QUEUE,
                       .told = TOLD_ALWAYS,
                       .withheld = PUBLICATION_INSIDE,
                       .subscription = true,
                       .peer = true,
                       .casts_shadows = true,
                       .routed = true},
    [TARGET_LEAF] = {.order = ORDER_LINK,
                     .told = TOLD_ALWAYS,
                     .withheld = PUBLICATION_INSIDE,
                     .subscription = true,
                     .peer = true,
                     .casts_shadows = true,
                     .routed = true},
    [TARGET_ROUTE] =
        {.order = ORDER_LINK, .told = TOLD_ALWAYS, .withheld = PUBLICATION_INSIDE, .subscription = true, .peer = true},
    [TARGET_GATEWAY] =
        {.order = ORDER_LINK, .told = TOLD_ALWAYS, .withheld = PUBLICATION_INSIDE, .subscription = true, .peer = true},
    [TARGET_CONTROL] = {.order = ORDER_QUEUE,
                        .told = TOLD_TO_ITS_LINK,
                        .withheld = PUBLICATION_INSIDE,
                        .subscription = true,
                        .casts_shadows = true,
                        .routed = true},
    [TARGET_API] = {.order = ORDER_QUEUE,
                    .told = TOLD_ALWAYS,
                    .withheld = PUBLICATION_INSIDE | NOT_FOR_JETSTREAM,
                    .subscription = true,
                    .jetstream = true},
    /* A message that the server sends to a subject of a peer's choice makes no stream. */
    [TARGET_TEMPLATE] = {.order = ORDER_QUEUE,
                         .told = TOLD_ALWAYS,
                         .withheld = PUBLICATION_INSIDE | PUBLICATION_UNJUDGED,
                         .subscription = true,
                         .casts_shadows = true},
    [TARGET_STREAM] = {.order = ORDER_INSIDE,
                       .told = TOLD_ALWAYS,
                       .withheld = PUBLICATION_OWN,
                       .take = inside_stream,
                       .feeds = true,
                       .casts_shadows = true,
                       .routed = true},
    [TARGET_ACK] = {.order = ORDER_INSIDE,
                    .told = TOLD_ALWAYS,
                    .withheld = NOT_FOR_JETSTREAM,
                    .take = inside_ack,
                    .jetstream = true,
                    .routed = true},
    /* A mirror of ours answers so, and nothing but the pace hangs on it. */
    [TARGET_FLOW] = {.order = ORDER_INSIDE,
                     .told = TOLD_ALWAYS,
                     .withheld = PUBLICATION_IMPORTED,
                     .take = inside_flow,
                     .routed = true},
    /* Links reach these two through the domain's own subjects; the stream may be at another server. */
    [TARGET_NEXT] = {.order = ORDER_INSIDE,
                     .told = TOLD_TO_SERVERS,
                     .withheld = NOT_FOR_JETSTREAM,
                     .take = inside_next,
                     .jetstream = true,
                     .routed = true},
    [TARGET_DIRECT] = {.order = ORDER_INSIDE,
                       .told = TOLD_TO_SERVERS,
                       .withheld = NOT_FOR_JETSTREAM,
                       .take = inside_direct,
                       .jetstream = true,
                       .routed = true},
    [TARGET_INGEST] =
        {.order = ORDER_INSIDE, .told = TOLD_TO_ITS_LINK, .take = inside_ingest, .feeds = true, .casts_shadows = true},
    [TARGET_MQTT] = {.order = ORDER_INSIDE, .told = TOLD_NEVER, .withheld = PUBLICATION_IMPORTED, .take = inside_mqtt},
    [TARGET_MEASURED] = {.order = ORDER_INSIDE, .told = TOLD_NEVER, .take = inside_measured},
    /* A message that crosses to another account may feed a stream there. */
    [TARGET_SERVICE] = {.order = ORDER_CROSS, .told = TOLD_ALWAYS, .withheld = PUBLICATION_IMPORTED, .feeds = true},
    [TARGET_REPLY] = {.order = ORDER_CROSS, .told = TOLD_ALWAYS, .withheld = PUBLICATION_IMPORTED, .routed = true},
    [TARGET_SHADOW] = {.order = ORDER_CROSS,
                       .told = TOLD_AS_ITS_ORIGIN,
                       .withheld = PUBLICATION_IMPORTED,
                       .feeds = true,
                       .routed = true},
};
