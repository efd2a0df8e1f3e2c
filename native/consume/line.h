/* line.h: the pull requests that wait at a consumer, in the order in which they are served. What a request asks for,
 * and when it ends, is in pull.c; which of them may have a message, in priority.c.
 *
 * Two rings hold them: all requests, and those awake. A request sleeps when it was found that it cannot be served in
 * this turn (its receiver is full, another client is pinned), so that one that can be served, among many that cannot,
 * is found at once.
 */
#ifndef LEAFD_CONSUME_LINE_H
#define LEAFD_CONSUME_LINE_H

#include <stdbool.h>
#include <stdint.h>

#define LEVELS 11u /* priorities 0 to 9, and behind them requests that name none */

typedef struct request request_t;

typedef enum ring_name { RING_ALL, RING_AWAKE, RINGS } ring_name_t;

typedef struct links {
    request_t *next, *before;
} links_t;

struct request {
    links_t in[RINGS];
    int64_t expires_ns; /* mono, NEVER */
    int64_t heartbeat_ns;
    int64_t heartbeat_due_ns; /* mono, NEVER */
    int64_t left;             /* messages still wanted */
    int64_t bytes_left;       /* 0 = no limit was asked for */
    uint64_t delivered;
    int64_t min_pending, min_unacked; /* overflow: served from so many on; 0 = not asked for */
    uint64_t pin;                     /* number of the pin that its client named, or got by it; 0 = none */
    bool no_wait;
    bool asleep;
    uint8_t level;
    uint8_t group_size; /* of its priority group's name, which stands behind the reply */
    uint32_t reply_size;
    uint8_t reply[];
};

typedef struct ring {
    request_t *first;        /* the next to be served */
    request_t *last[LEVELS]; /* sorted lines only: the last one of each level, NULL = none */
} ring_t;

typedef struct pull_line {
    ring_t rings[RINGS];
    uint32_t asleep; /* how many are */
    bool sorted;     /* lowest level first; otherwise in turn, a message each */
} pull_line_t;

static inline request_t *line_first(const pull_line_t *line) {
    return line->rings[RING_ALL].first;
}
static inline request_t *line_awake(const pull_line_t *line) {
    return line->rings[RING_AWAKE].first;
}
static inline request_t *line_after(const request_t *request) { /* the first one comes after the last */
    return request->in[RING_ALL].next;
}

void line_join(pull_line_t *line, request_t *request); /* behind all others of its level */
void line_leave(pull_line_t *line, request_t *request);
void line_turn(pull_line_t *line, request_t *request);  /* it was served, and wants more: behind the others */
void line_sleep(pull_line_t *line, request_t *request); /* one that is awake */
void line_awaken(pull_line_t *line, uint32_t count);    /* all; count: of the line's requests */
/* An unsorted line goes on with that one: those before it have been passed over. */
void line_go_on(pull_line_t *line, request_t *request);
void line_sort(pull_line_t *line, bool sorted, uint32_t count);

#endif
