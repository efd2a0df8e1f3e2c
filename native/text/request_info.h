/* request_info.h: the header field with which a request over a service import says who asks.
 */
#ifndef LEAFD_TEXT_REQUEST_INFO_H
#define LEAFD_TEXT_REQUEST_INFO_H

#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"

typedef struct request_info {
    bytes_t account;
    bytes_t service; /* the account whose import it came through, where that is another one; may be empty */
    int64_t rtt_ns;  /* 0 = unknown */
} request_info_t;

/* Into out, in place of what it has: the header block with Nats-Request-Info, instead of what somebody else may have
 * written there. */
LEAF_MUST_USE status_t request_info_header(buffer_t *out, bytes_t header, const request_info_t *info);

#endif
