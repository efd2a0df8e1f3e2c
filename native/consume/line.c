/* line.c: the order of waiting pull requests: two rings, unsorted (a served request goes to the end) or sorted by
 * level. Nothing is searched: a sorted ring knows the last request of each level. */
#include "consume/line.h"

#include <stddef.h>
#include <string.h>

/* The request behind which one of that level goes; NULL: it becomes the first. */
static request_t *ring_place(const ring_t *ring, ring_name_t name, bool sorted, uint32_t level) {
    if (!sorted) return ring->first ? ring->first->in[name].before : NULL;
    for (uint32_t i = level + 1; i-- > 0;) {
        if (ring->last[i]) return ring->last[i];
    }
    return NULL;
}

static void ring_put(ring_t *ring, ring_name_t name, bool sorted, request_t *request) {
    request_t *behind = ring_place(ring, name, sorted, request->level);
    links_t *own = &request->in[name];
    if (!ring->first) {
        *own = (links_t){.next = request, .before = request};
    } else {
        request_t *before = behind ? behind : ring->first->in[name].before;
        *own = (links_t){.next = before->in[name].next, .before = before};
        own->next->in[name].before = before->in[name].next = request;
    }
    if (!behind) ring->first = request;
    if (sorted) ring->last[request->level] = request;
}

static void ring_take(ring_t *ring, ring_name_t name, bool sorted, request_t *request) {
    links_t *own = &request->in[name];
    if (sorted && ring->last[request->level] == request) {
        bool more = ring->first != request && own->before->level == request->level;
        ring->last[request->level] = more ? own->before : NULL;
    }
    if (ring->first == request) ring->first = own->next == request ? NULL : own->next;
    own->before->in[name].next = own->next;
    own->next->in[name].before = own->before;
}

static void awake_put(pull_line_t *line, request_t *request) {
    request->asleep = false;
    ring_put(&line->rings[RING_AWAKE], RING_AWAKE, line->sorted, request);
}

void line_join(pull_line_t *line, request_t *request) {
    ring_put(&line->rings[RING_ALL], RING_ALL, line->sorted, request);
    awake_put(line, request);
}

void line_leave(pull_line_t *line, request_t *request) {
    if (request->asleep) {
        line->asleep--;
    } else {
        ring_take(&line->rings[RING_AWAKE], RING_AWAKE, line->sorted, request);
    }
    ring_take(&line->rings[RING_ALL], RING_ALL, line->sorted, request);
}

void line_turn(pull_line_t *line, request_t *request) {
    if (line->sorted) {
        line_leave(line, request);
        line_join(line, request);
    } else { /* a ring: behind the others is where the next one is the first */
        line->rings[RING_ALL].first = request->in[RING_ALL].next;
        line->rings[RING_AWAKE].first = request->in[RING_AWAKE].next;
    }
}

void line_sleep(pull_line_t *line, request_t *request) {
    ring_take(&line->rings[RING_AWAKE], RING_AWAKE, line->sorted, request);
    request->asleep = true;
    line->asleep++;
}

void line_awaken(pull_line_t *line, uint32_t count) {
    if (line->asleep == 0) return;
    line->asleep = 0;
    line->rings[RING_AWAKE] = (ring_t){0};
    request_t *request = line->rings[RING_ALL].first;
    for (; count > 0; count--, request = line_after(request)) awake_put(line, request);
}

void line_go_on(pull_line_t *line, request_t *request) {
    if (!line->sorted) line->rings[RING_ALL].first = request;
}

void line_sort(pull_line_t *line, bool sorted, uint32_t count) {
    if (line->sorted == sorted) return;
    request_t *request = line->rings[RING_ALL].first;
    *line = (pull_line_t){.sorted = sorted};
    for (; count > 0; count--) {
        request_t *next = line_after(request);
        line_join(line, request);
        request = next;
    }
}
