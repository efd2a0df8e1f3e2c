/* direct_request.h: the body of a direct get, read. Knows JSON; knows no stream. What it means: direct.c. */
#ifndef LEAFD_JETSTREAM_DIRECT_REQUEST_H
#define LEAFD_JETSTREAM_DIRECT_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

#define REQUEST_TEXT_MAX 4096u

typedef struct direct_request {
    bytes_t last_by; /* these point into text */
    bytes_t next_by;
    bytes_t
        multi; /* the array of multi_last as it is in the body, which the caller keeps; none where it has no items */
    bool has_time;
    bool has_up_to_time;
    bool no_header;
    bool uncounted; /* a reader of ours, which only wants to know whether there is more */
    uint64_t seq;
    int64_t start_ts;
    int64_t batch; /* below 0: none, but the end is told */
    uint64_t max_bytes;
    uint64_t up_to_seq;
    int64_t up_to_ts;
    uint32_t text_size; /* unescaped strings of the request */
    uint8_t text[REQUEST_TEXT_MAX];
} direct_request_t;

/* *request: zeros (but for text). false: malformed. */
bool direct_request_read(direct_request_t *request, bytes_t body);
bool direct_request_conflicts(const direct_request_t *request);
/* The next subject of multi_last, which uses the request's text until the next call; *at: offset, 0 before the first.
 * An item that can be no subject, "" too, is left out. false: there are no more. */
bool direct_request_filter(direct_request_t *request, bytes_t multi, uint32_t *at, bytes_t *filter);
/* *to is a copy of *from: its slices are to point into its own text. */
void direct_request_moved(direct_request_t *to, const direct_request_t *from);

#endif
