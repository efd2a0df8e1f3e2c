/* counter.h: streams whose messages are counters: each message adds its Nats-Incr to the last value of its subject, and
 * is stored with the sum.
 */
#ifndef LEAFD_JETSTREAM_COUNTER_H
#define LEAFD_JETSTREAM_COUNTER_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "jetstream/publish.h"
#include "jetstream/stream.h"

/* So that a PubAck can show it. */
#define COUNTER_DIGITS_MAX 3600u

extern const refusal_t refused_increment, refused_no_increment, refused_broken;

/* A client's message, `append`: its payload becomes {"val":"<sum>"}, in js->counted, and its header tells on what
 * sources have added so far, in js->sourced. last: the message before it on its subject, of which header and payload
 * count; NULL: there is none. NULL: nothing to refuse. */
const refusal_t *counter_add(js_t *js, const stream_t *stream, const stored_message_t *last, bytes_t increment,
                             append_t *append);
/* The same, behind the last message that is stored on the subject. */
const refusal_t *counter_apply(js_t *js, stream_t *stream, bytes_t subject, bytes_t increment, append_t *append);
/* What the log of several servers has, client's or source's, as each of them stores it. before: the batch's message
 * before it on its subject, as it is going to be stored; NULL: what is stored there counts. */
append_verdict_t counter_applied(js_t *js, stream_t *stream, const append_t *before, append_t *append);
/* The digits in such a payload. */
bytes_t counter_value(bytes_t payload);
/* A source's message, `append`: what it adds is what its counter has more than it had when this source's last message
 * came, which Nats-Counter-Sources tells of each. Changes header and payload, which are then in js->counted and
 * js->sourced. append->subject: as it is stored. false: it is no counter, or too large. */
LEAF_MUST_USE status_t counter_source(js_t *js, stream_t *stream, append_t *append);

#endif
