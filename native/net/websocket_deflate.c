/* websocket_deflate.c: permessage-deflate by zlib, without context takeover: each message begins anew. */
#define ZLIB_CONST
#include <stdlib.h>
#include <zlib.h>

#include "base/check.h"
#include "net/websocket_private.h"

#define WINDOW_BITS (-15) /* deflate without zlib's head; the largest window, which a peer may use */
#define MEMORY_LEVEL 5    /* less to clear for each message than by 8, and no larger results: 15 % less at 128 bytes */
#define INFLATER_SIZE (44u * 1024u) /* with its window, as zlib says */
#define STRANGERS_PART 4u           /* of the share: what strangers may have in inflaters */
#define SYNC_TAIL 4u                /* of a flushed block, which the message leaves out */

struct inflater {
    z_stream stream;
    share_t *share;
    bool stranger; /* counted in desk->strangers */
};

struct deflater {
    z_stream stream;
};

void inflater_free(inflater_t *inflater) {
    if (inflater != NULL) {
        inflateEnd(&inflater->stream);
        free(inflater);
    }
}

/* One fits whatever the share is, so that somebody can log in. */
static bool strangers_have_room(const websocket_desk_t *desk, const share_t *share) {
    return desk->strangers < INFLATER_SIZE || desk->strangers + INFLATER_SIZE <= share->limit / STRANGERS_PART;
}

inflater_t *inflater_take(websocket_desk_t *desk, share_t *share, bool stranger) {
    if (share != NULL && (!share_has(share, INFLATER_SIZE) || (stranger && !strangers_have_room(desk, share)))) {
        return NULL;
    }
    inflater_t *inflater = desk->spare;
    desk->spare = NULL;
    if (inflater == NULL) {
        inflater = calloc(1, sizeof(*inflater));
        if (inflater == NULL || inflateInit2(&inflater->stream, WINDOW_BITS) != Z_OK) {
            free(inflater);
            return NULL;
        }
    } else if (inflateReset(&inflater->stream) != Z_OK) {
        inflater_free(inflater);
        return NULL;
    }
    inflater->share = share;
    if (share != NULL) {
        share->used += INFLATER_SIZE;
        inflater->stranger = stranger;
        desk->strangers += stranger ? INFLATER_SIZE : 0;
    }
    return inflater;
}

void inflater_known(websocket_desk_t *desk, inflater_t *inflater) {
    if (inflater != NULL && inflater->stranger) {
        inflater->stranger = false;
        desk->strangers -= INFLATER_SIZE;
    }
}

void inflater_give(websocket_desk_t *desk, inflater_t *inflater) {
    if (inflater == NULL) {
        return;
    }
    inflater_known(desk, inflater);
    if (inflater->share != NULL) {
        inflater->share->used -= INFLATER_SIZE;
        inflater->share = NULL;
    }
    if (desk->spare == NULL) {
        desk->spare = inflater;
    } else {
        inflater_free(inflater);
    }
}

inflated_t inflater_run(inflater_t *inflater, const uint8_t *in, size_t size, size_t *used, uint8_t *to, size_t room,
                        size_t *got) {
    z_stream *stream = &inflater->stream;
    check(size <= UINT32_MAX && room <= UINT32_MAX);
    stream->next_in = in;
    stream->avail_in = (uInt)size;
    stream->next_out = to;
    stream->avail_out = (uInt)room;
    int end = Z_OK;
    while (stream->avail_out != 0 && (end == Z_OK || end == Z_STREAM_END)) {
        if (end == Z_STREAM_END) { /* a message may have several final blocks */
            if (stream->avail_in == 0) break;
            end = inflateReset(stream);
            if (end != Z_OK) break;
        }
        end = inflate(stream, Z_SYNC_FLUSH);
        if (end == Z_OK && stream->avail_in == 0 && stream->avail_out != 0) break;
    }
    *used = size - stream->avail_in;
    *got = room - stream->avail_out;
    if (end != Z_OK && end != Z_STREAM_END && end != Z_BUF_ERROR) {
        return INFLATED_BAD;
    }
    return stream->avail_out == 0 ? INFLATED_ROOM : INFLATED_MORE;
}

void deflater_free(deflater_t *deflater) {
    if (deflater != NULL) {
        deflateEnd(&deflater->stream);
        free(deflater);
    }
}

static deflater_t *deflater_of(websocket_desk_t *desk) {
    if (desk->deflater != NULL) {
        return deflateReset(&desk->deflater->stream) == Z_OK ? desk->deflater : NULL;
    }
    deflater_t *made = calloc(1, sizeof(*made));
    if (made == NULL
        || deflateInit2(&made->stream, Z_BEST_SPEED, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL, Z_DEFAULT_STRATEGY)
               != Z_OK) {
        free(made);
        return NULL;
    }
    desk->deflater = made;
    return made;
}

size_t deflater_run(websocket_desk_t *desk, const struct iovec *iov, int count, size_t from, size_t size) {
    deflater_t *deflater = deflater_of(desk);
    if (deflater == NULL) {
        return 0;
    }
    z_stream *stream = &deflater->stream;
    stream->next_out = desk->packed;
    stream->avail_out = DESK_OUT_SIZE;
    for (int i = 0; i < count && size != 0; i++) {
        size_t skipped = from < iov[i].iov_len ? from : iov[i].iov_len;
        size_t piece = iov[i].iov_len - skipped < size ? iov[i].iov_len - skipped : size;
        from -= skipped;
        size -= piece;
        stream->next_in = (const uint8_t *)iov[i].iov_base + skipped;
        stream->avail_in = (uInt)piece;
        if (piece != 0 && (deflate(stream, Z_NO_FLUSH) != Z_OK || stream->avail_in != 0)) {
            return 0;
        }
    }
    stream->avail_in = 0;
    if (deflate(stream, Z_SYNC_FLUSH) != Z_OK || stream->avail_out == 0) {
        return 0;
    }
    size_t made = DESK_OUT_SIZE - stream->avail_out;
    return made > SYNC_TAIL ? made - SYNC_TAIL : 0;
}
