/* load.h: what a scenario gets and what it gives. One scenario a file; load.c holds arguments and output. */
#ifndef LEAFD_BENCH_LOAD_H
#define LEAFD_BENCH_LOAD_H

#include <stdbool.h>
#include <stdint.h>

typedef struct options {
    int port;
    int read_port; /* where the subscribers of core and fan are; 0: at that port */
    int web_port;  /* of WebSocket; 0: plain connections */
    bool deflate;  /* WebSocket messages are compressed */
    uint64_t messages;
    uint32_t size; /* of a payload */
    uint32_t connections;
    uint32_t in_flight; /* messages without an answer, for each connection */
    uint32_t batch;     /* of a pull, or messages of an atomic batch */
    uint32_t subjects;  /* distinct ones, which end in a number; 0: one, which does not */
    const char *subject;
    const char *stream;
    const char *consumer;
    const char *api_subject; /* request that starts a push consumer */
    const char *api_body;
} options_t;

typedef struct result {
    uint64_t messages;
    double seconds;
    double latency_p50_us; /* 0: not measured */
    double latency_p99_us;
    double latency_p999_us;
} result_t;

/* Into result: of `count` latencies in us, which it sorts. */
void latencies_tell(result_t *result, double *latencies, uint64_t count);

/* Publishes to one subscriber; at most a window of messages is under way. Over WebSocket that is the subscriber. */
result_t run_core(const options_t *options);
/* The same to `connections` subscribers, who all get every message (fan), or share them as a queue group (queue). */
result_t run_fan(const options_t *options);
result_t run_queue(const options_t *options);
/* Publishes to nobody. */
result_t run_blind(const options_t *options);
/* Requests, one at a time, to one responder. */
result_t run_request(const options_t *options);
/* Publishes into a stream with in_flight unanswered messages on each connection; ends with the last ack. */
result_t run_publish(const options_t *options);
/* Requests with in_flight unanswered on each connection, which may be publishes into streams or direct gets; no answer
 * may be an error. */
result_t run_ask(const options_t *options);
/* Fetches of `batch` from a pull consumer, one after the other, all acked; latencies are those of a fetch. */
result_t run_fetch(const options_t *options);
/* Atomic batches of `batch` messages, in_flight of them unanswered; latencies are those of a whole batch. */
result_t run_batch(const options_t *options);
/* Reads a push consumer as an ordered consumer does: flow control answered, stream order checked. */
result_t run_push(const options_t *options);
/* Reads a pull consumer in batches, every message acked. */
result_t run_pull(const options_t *options);
/* Logs in `messages` connections, says so, and holds them until the end of stdin. */
result_t run_idle(const options_t *options);
/* Connects, shakes hands, logs in, `connections` at a time; the second one takes up the session before. */
result_t run_handshake(const options_t *options);
result_t run_resumed(const options_t *options);

#endif
