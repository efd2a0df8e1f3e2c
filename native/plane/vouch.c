/* vouch.c: see vouch.h. */
#include "plane/vouch.h"

#include <string.h>

#include "base/buffer.h"
#include "jetstream/js.h"
#include "plane/gateway.h"
#include "plane/judge.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/publication.h"
#include "plane/routed.h"
#include "text/headers.h"

#define PREFACE BYTES_LITERAL(VOUCH_PREFACE)
#define NAME BYTES_LITERAL(VOUCH_NAME)
#define LINE_END BYTES_LITERAL("\r\n")

static bool is_believed(const peer_t *link) {
    return (link->route != NULL && link->route->peer != 0) || (link->gateway != NULL && link->gateway->peer != 0);
}

bool vouch_concerns(const peer_t *link, const publication_t *publication) {
    bytes_t header = publication->message.header;
    return is_believed(link)
           && (bytes_starts(header, VOUCH_LINE) || headers_has_prefix(header, BYTES_LITERAL("Nats-Schedule")));
}

/* What is behind the preface and such lines; the first one's value. A forger may have written several: the
 * next one would stand in front. */
static bytes_t behind_lines(bytes_t header, bytes_t *value) {
    bytes_t rest = bytes_after(header, PREFACE.size);
    *value = BYTES_NONE;
    for (bool first = true; bytes_starts(rest, NAME); first = false) {
        bytes_t said = bytes_after(rest, NAME.size);
        const uint8_t *end = memchr(said.at, '\r', said.size);
        uint32_t size = end != NULL ? (uint32_t)(end - said.at) : said.size;
        *value = first ? bytes_of(said.at, size) : *value;
        rest = said.size - size >= LINE_END.size ? bytes_after(said, size + LINE_END.size) : BYTES_NONE;
    }
    return rest;
}

static bool header_put(buffer_t *out, bytes_t bytes) {
    return buffer_append(out, bytes.at, bytes.size) == STATUS_OK;
}

bool vouch_for(plane_t *plane, publication_t *publication) {
    message_t *message = &publication->message;
    buffer_t *out = &plane->vouched;
    bytes_t header = message->header, forged, author;
    if (!bytes_starts(header, PREFACE)) {
        return true; /* nobody vouches for what has no plain header */
    }
    bytes_t rest = behind_lines(header, &forged);
    bool known = judge_author(plane, publication, &author);
    out->size = 0;
    bool made = header_put(out, known ? VOUCH_LINE : PREFACE)
                && (!known || (header_put(out, author) && header_put(out, LINE_END))) && header_put(out, rest);
    message->header = bytes_of(out->at, (uint32_t)out->size);
    message->body = NULL; /* which has the header as it came */
    return made;
}

bool vouch_take(plane_t *plane, const peer_t *link, publication_t *publication, op_t *op) {
    buffer_t *out = &plane->unvouched;
    bytes_t author;
    bytes_t rest = behind_lines(op->header, &author);
    out->size = 0;
    if (!header_put(out, PREFACE) || !header_put(out, rest) || !header_put(out, author)) {
        return false;
    }
    op->header = bytes_of(out->at, PREFACE.size + rest.size);
    if (is_believed(link)) {
        publication->author = bytes_of(out->at + PREFACE.size + rest.size, author.size);
        publication->vouched_in = publication->account;
    }
    publication->message.header = op->header;
    return true;
}
