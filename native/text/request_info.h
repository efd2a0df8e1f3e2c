/* request_info.h: the header field with which a request over a service import says who asks.
 */
#ifndef LEAFD_TEXT_REQUEST_INFO_H
#define LEAFD_TEXT_REQUEST_INFO_H

#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"

/* The description of a connection beyond its account: parts of a JSON object's members, each with the comma that it
 * needs there; any may be empty. */
#define DESCRIPTION_BEFORE 0u  /* the account: start, host, id */
#define DESCRIPTION_BETWEEN 1u /* the account and the round-trip time: user, name, lang, ver */
#define DESCRIPTION_PLACE 2u   /* server, cluster */
#define DESCRIPTION_BEHIND 3u  /* jwt, issuer_key, name_tag, tags, kind, client_type */
#define DESCRIPTION_PARTS 4u
typedef struct description {
    bytes_t parts[DESCRIPTION_PARTS];
} description_t;

typedef struct request_info {
    bytes_t account;
    bytes_t service; /* the account whose import it came through, where that is another one; may be empty */
    int64_t rtt_ns;  /* 0 = unknown */
    description_t who;
    bytes_t reply; /* the requester's own reply subject, where a stream has to know it; may be empty */
} request_info_t;

/* Behind what out has: the object. */
LEAF_MUST_USE status_t request_info_json(buffer_t *out, const request_info_t *info);
/* The reply of such a header; empty: it says none. */
bytes_t request_info_reply(bytes_t header);
/* All that such a header says, and the account of it; both empty where there is none that can be read. */
void request_info_read(bytes_t header, bytes_t *info, bytes_t *account);

/* Into out, in place of what it has: the header block's fields with Nats-Request-Info, instead of what somebody else
 * may have written there. What is not well-formed in the block is left out. */
LEAF_MUST_USE status_t request_info_header(buffer_t *out, bytes_t header, const request_info_t *info);

#endif
