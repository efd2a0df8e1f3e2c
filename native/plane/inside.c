/* inside.c: targets inside hand a message to JetStream, and a publisher that feeds a store waits while that lags.
 *
 * What does not live here: when they get it (publish.c), what JetStream does with it (jetstream/).
 */
#include "plane/inside.h"

#include "base/abi_types.h"
#include "jetstream/js.h"
#include "jetstream/stream.h"
#include "plane/plane.h"
#include "plane/publication.h"
#include "plane/subscription.h"
#include "plane/throttle.h"

static void note_producer(plane_t *plane, const publication_t *publication, uint32_t which_store) {
    if (publication->origin != NULL) {
        throttle_fed(plane, publication->origin, which_store);
    }
}

void inside_stream(plane_t *plane, const sink_t *sink, const publication_t *publication) {
    uint32_t which_store = ((const stream_t *)sink->object)->which_store;
    js_publish(&plane->js, sink->object, &publication->message, publication->shown);
    note_producer(plane, publication, which_store);
}

void inside_ack(plane_t *plane, const sink_t *sink, const publication_t *publication) {
    js_ack(&plane->js, sink->object, &publication->message);
}

void inside_flow(plane_t *plane, const sink_t *sink, const publication_t *publication) {
    js_flow(&plane->js, sink->object, &publication->message);
}

void inside_next(plane_t *plane, const sink_t *sink, const publication_t *publication) {
    js_next(&plane->js, sink->object, &publication->message);
}

void inside_direct(plane_t *plane, const sink_t *sink, const publication_t *publication) {
    js_direct(&plane->js, sink->object, &publication->message);
}

void inside_ingest(plane_t *plane, const sink_t *sink, const publication_t *publication) {
    uint32_t which_store;
    bool feeds = ingest_feeds(sink->object, &which_store);
    ingest_frame(&plane->js, sink->object, &publication->message, publication->shown);
    if (feeds) {
        note_producer(plane, publication, which_store);
    }
}
