/* web.c: WebSocket for the load generator's connections, with or without permessage-deflate; and the scenario that
 * publishes over it to nobody. Frames that are sent are made once and sent again and again, so that masks and
 * compression cost the generator nothing. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <zlib.h>

#include "client.h"
#include "load.h"

#define RAW_SIZE (256u << 10)
#define FRAME_HEAD_MAX 14u
#define TAIL "\x00\x00\xff\xff"

static const unsigned char mask[4] = {0x3a, 0xc5, 0x91, 0x7e};

typedef struct web {
    bool deflate;
    /* What came and is not data yet: [raw_at, raw_end). */
    char *raw;
    size_t raw_at;
    size_t raw_end;
    size_t left; /* of the present frame's payload */
    bool compressed;
    bool final;
    z_stream inflater;
} web_t;

static void upgrade(client_t *client, bool deflate) {
    char head[4096];
    size_t size = 0;
    client_format(client,
                  "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n%s\r\n",
                  deflate ? "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; "
                            "client_no_context_takeover\r\n"
                          : "");
    client_flush_all(client);
    while (size < 4 || memcmp(head + size - 4, "\r\n\r\n", 4) != 0) {
        ssize_t got = size + 1 < sizeof head ? recv(client->fd, head + size, 1, 0) : 0;
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
            die("no answer to the WebSocket request");
        }
        if (got < 0) {
            client_wait(client->fd, POLLIN);
        } else {
            size++;
        }
    }
    head[size] = 0;
    if (strstr(head, " 101 ") == NULL || (strstr(head, "permessage-deflate") != NULL) != deflate) {
        die("the server does not take the WebSocket: %s", head);
    }
}

void web_begin(client_t *client, bool deflate) {
    upgrade(client, deflate);
    web_t *web = calloc(1, sizeof *web);
    if (web == NULL || (web->raw = malloc(RAW_SIZE)) == NULL || inflateInit2(&web->inflater, -15) != Z_OK) {
        die("no memory");
    }
    web->deflate = deflate;
    client->web = web;
}

void web_end(client_t *client) {
    web_t *web = client->web;
    if (web != NULL) {
        inflateEnd(&web->inflater);
        free(web->raw);
        free(web);
        client->web = NULL;
    }
}

/* ---- what is sent ------------------------------------------------------------------------------------------------ */

static size_t pack(const char *at, size_t size, char *to, size_t room) {
    z_stream stream = {0};
    if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        die("no memory");
    }
    stream.next_in = (Bytef *)(uintptr_t)at;
    stream.avail_in = (uInt)size;
    stream.next_out = (Bytef *)to;
    stream.avail_out = (uInt)room;
    if (deflate(&stream, Z_SYNC_FLUSH) != Z_OK || stream.avail_out == 0) {
        die("deflate failed");
    }
    size_t made = room - stream.avail_out;
    deflateEnd(&stream);
    return made - (sizeof TAIL - 1);
}

char *web_frame(const client_t *client, const char *at, size_t size, size_t *frame_size) {
    const web_t *web = client->web;
    size_t room = size + size / 8 + 1024;
    unsigned char *frame = malloc(FRAME_HEAD_MAX + room);
    if (frame == NULL) {
        die("no memory");
    }
    char *payload = malloc(room);
    bool packed = web->deflate && size > 64;
    if (payload == NULL) {
        die("no memory");
    }
    if (packed) {
        size = pack(at, size, payload, room);
    } else {
        memcpy(payload, at, size);
    }
    unsigned char *to = frame;
    *to++ = packed ? 0xc2 : 0x82;
    if (size <= 125) {
        *to++ = (unsigned char)(0x80 | size);
    } else if (size <= 0xffff) {
        *to++ = 0x80 | 126;
        *to++ = (unsigned char)(size >> 8);
        *to++ = (unsigned char)size;
    } else {
        *to++ = 0x80 | 127;
        for (int shift = 56; shift >= 0; shift -= 8) {
            *to++ = (unsigned char)((uint64_t)size >> shift);
        }
    }
    memcpy(to, mask, 4);
    to += 4;
    for (size_t i = 0; i < size; i++) {
        *to++ = (unsigned char)payload[i] ^ mask[i & 3];
    }
    free(payload);
    *frame_size = (size_t)(to - frame);
    return (char *)frame;
}

/* ---- what comes -------------------------------------------------------------------------------------------------- */

/* A frame's head; false: it is not whole. */
static bool begin_frame(web_t *web) {
    const unsigned char *at = (const unsigned char *)web->raw + web->raw_at;
    size_t have = web->raw_end - web->raw_at, head = 2;
    if (have < 2) {
        return false;
    }
    uint64_t size = at[1] & 0x7f;
    head += size == 126 ? 2 : size == 127 ? 8 : 0;
    if (have < head) {
        return false;
    }
    if (head > 2) {
        size = 0;
        for (size_t i = 2; i < head; i++) {
            size = size << 8 | at[i];
        }
    }
    if ((at[1] & 0x80) != 0 || (at[0] & 0x0f) > 2) {
        die("an unexpected frame: %02x %02x", at[0], at[1]);
    }
    if ((at[0] & 0x0f) != 0) {
        web->compressed = (at[0] & 0x40) != 0;
    }
    web->final = (at[0] & 0x80) != 0;
    web->left = size;
    web->raw_at += head;
    return true;
}

static size_t inflate_some(web_t *web, const char *at, size_t size, size_t *used, char *to, size_t room) {
    z_stream *stream = &web->inflater;
    stream->next_in = (Bytef *)(uintptr_t)at;
    stream->avail_in = (uInt)size;
    stream->next_out = (Bytef *)to;
    stream->avail_out = (uInt)room;
    int end = inflate(stream, Z_SYNC_FLUSH);
    if (end != Z_OK && end != Z_BUF_ERROR) {
        die("a compressed message is damaged");
    }
    *used = size - stream->avail_in;
    return room - stream->avail_out;
}

/* Of the present frame, from what is there. */
static size_t take_data(web_t *web, char *to, size_t room) {
    size_t have = web->raw_end - web->raw_at, used = have < web->left ? have : web->left, got;
    if (web->compressed) {
        got = inflate_some(web, web->raw + web->raw_at, used, &used, to, room);
    } else {
        used = used < room ? used : room;
        memcpy(to, web->raw + web->raw_at, used);
        got = used;
    }
    web->raw_at += used;
    web->left -= used;
    if (web->left == 0 && web->final && web->compressed) {
        size_t tail_used;
        got += inflate_some(web, TAIL, sizeof TAIL - 1, &tail_used, to + got, room - got);
        if (tail_used != sizeof TAIL - 1 || inflateReset(&web->inflater) != Z_OK) {
            die("no room for the end of a compressed message");
        }
        web->compressed = false;
    }
    return got;
}

ssize_t web_read(client_t *client, void *to, size_t room) {
    web_t *web = client->web;
    size_t got = 0;
    if (web->raw_at == web->raw_end) {
        web->raw_at = web->raw_end = 0;
    } else if (web->raw_at != 0) {
        memmove(web->raw, web->raw + web->raw_at, web->raw_end - web->raw_at);
        web->raw_end -= web->raw_at;
        web->raw_at = 0;
    }
    ssize_t size = recv(client->fd, web->raw + web->raw_end, RAW_SIZE - web->raw_end, 0);
    if (size <= 0) {
        return size;
    }
    web->raw_end += (size_t)size;
    while (web->raw_at < web->raw_end && (web->left != 0 || begin_frame(web))) {
        if (got == room) {
            die("no room for a compressed message"); /* client_fill leaves megabytes */
        }
        got += take_data(web, (char *)to + got, room - got);
    }
    if (got == 0) {
        errno = EAGAIN;
        return -1;
    }
    return (ssize_t)got;
}
