/* internal_targets.c: targets inside hand a message to JetStream, and a publisher that feeds a store waits while that
 * lags. Not here: when they get it (publish.c), what JetStream does with it (jetstream/). */
#include "plane/internal_targets.h"

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/check.h"
#include "jetstream/js.h"
#include "jetstream/stream.h"
#include "plane/gateway_reply.h"
#include "plane/remote_services.h"
#include "plane/judge.h"
#include "plane/plane.h"
#include "plane/publication.h"
#include "plane/subscription.h"
#include "plane/target.h"
#include "plane/throttle.h"
#include "plane/trace.h"
#include "text/text.h"

static void note_producer(plane_t *plane, const publication_t *publication, uint32_t which_store) {
    if (publication->origin != NULL) {
        throttle_fed(plane, publication->origin, which_store);
    }
}

/* A stream that takes schedules, or that several servers keep. */
static __attribute__((noinline)) void publish_judged(plane_t *plane, const sink_t *sink,
                                                     const publication_t *publication) {
    const stream_t *stream = sink->object;
    uint32_t which_store = stream->which_store;
    message_t message = publication->message;
    if (!judge_schedule(plane, sink->object, publication, &message)) {
        return;
    }
    if ((stream->config.flags & STREAM_REPLICATED) != 0) {
        js_propose(&plane->js, sink->object, &message);
    } else {
        js_publish(&plane->js, sink->object, &message);
    }
    note_producer(plane, publication, which_store);
}

/* The stream's answer goes to the sink that wants to know that it has it, and not to the message's reply. */
static __attribute__((noinline)) void publish_told(plane_t *plane, const sink_t *sink,
                                                   const publication_t *publication) {
    publication_t told = *publication;
    const stream_t *stream = sink->object;
    told.flags &= ~PUBLICATION_TELLS;
    told.message.reply = BYTES_NONE;
    if ((stream->config.flags & STREAM_NO_ACK) == 0) {
        told.message.reply = publication->tell->at;
        publication->tell->streams++;
    }
    inside_stream(plane, sink, &told);
}

void inside_stream(plane_t *plane, const sink_t *sink, const publication_t *publication) {
    const stream_t *stream = sink->object;
    uint32_t which_store = stream->which_store;
    if (LEAF_UNLIKELY((publication->flags & PUBLICATION_TELLS) != 0)) {
        publish_told(plane, sink, publication);
        return;
    }
    if (LEAF_UNLIKELY((stream->config.flags & (STREAM_ALLOW_SCHEDULES | STREAM_REPLICATED)) != 0)) {
        publish_judged(plane, sink, publication);
        return;
    }
    js_publish(&plane->js, sink->object, &publication->message);
    note_producer(plane, publication, which_store);
}

void inside_ack(plane_t *plane, const sink_t *sink, const publication_t *publication) {
    js_ack(&plane->js, sink->object, &publication->message);
}

void inside_flow(plane_t *plane, const sink_t *sink, const publication_t *publication) {
    js_flow(&plane->js, sink->object, &publication->message);
}

void inside_measured(plane_t *plane, const sink_t *sink, const publication_t *publication) {
    far_answered(plane, sink->object, publication->origin);
}

void inside_mqtt(plane_t *plane, const sink_t *sink, const publication_t *publication) {
    if ((publication->flags & PUBLICATION_OWN) != 0) {
        plane->mqtt_told(plane, sink, publication);
    }
}

/* A pull from another cluster may wait for long: it goes by its bare name, whose interest ends with its requestor,
 * unless that interest is still on its way here. */
void inside_next(plane_t *plane, const sink_t *sink, const publication_t *publication) {
    message_t message = publication->message;
    bool whole = LEAF_UNLIKELY(plane->gateways != NULL) && gateway_is_reply(message.reply);
    if (whole && account_interest(plane, sink->account, gateway_bare(message.reply), BYTES_NONE)) {
        message.reply = gateway_bare(message.reply);
    }
    js_next(&plane->js, sink->object, &message);
}

void inside_direct(plane_t *plane, const sink_t *sink, const publication_t *publication) {
    js_direct(&plane->js, sink->object, &publication->message);
}

void inside_ingest(plane_t *plane, const sink_t *sink, const publication_t *publication) {
    uint32_t which_store;
    if (!judge_copied(plane, publication->origin, ingest_origin(sink->object), publication->copied)) {
        return;
    }
    bool feeds = ingest_feeds(sink->object, &which_store);
    ingest_frame(&plane->js, sink->object, &publication->message, publication->copied);
    if (feeds) {
        note_producer(plane, publication, which_store);
    }
}

/* Ends the trace of a stored message: consumers deliver it later. */
static void stream_traced(plane_t *plane, stream_t *stream, const publication_t *publication) {
    trace_t *trace = publication->trace;
    message_t message = publication->message;
    if (!trace->only && !judge_schedule(plane, stream, publication, &message)) {
        return;
    }
    bytes_t muted = trace->only ? BYTES_NONE : trace_muted_header(trace, message.header);
    message.header = muted.size != 0 ? muted : message.header;
    js_traced_t traced;
    js_publish_traced(&plane->js, stream, &message, trace->only, &traced);
    trace_stored(plane, trace, stream->name, text_bytes(&traced.subject), traced.no_interest,
                 text_shown(&traced.refusal));
    if (!trace->only) {
        note_producer(plane, publication, stream->which_store);
    }
}

void inside_traced(plane_t *plane, const sink_t *sink, const publication_t *publication) {
    if (!sink->in) {
        return; /* one before it may have ended it */
    }
    if (sink->target.kind == TARGET_STREAM) {
        stream_traced(plane, sink->object, publication);
    } else if (!publication->trace->only) {
        traits_of(&sink->target)->take(plane, sink, publication);
    }
}
