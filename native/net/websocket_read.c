/* websocket_read.c: the frames that a peer sends, as a machine that takes any number of bytes at a time. */
#include <string.h>

#include "base/check.h"
#include "net/websocket_private.h"

static const uint8_t message_tail[4] = {0x00, 0x00, 0xff, 0xff};

#define MASK_PIECE 4096u

#define MASK_WORDS 8u

void websocket_mask(uint8_t *to, const uint8_t *from, size_t size, const uint8_t key[4], uint64_t at) {
    uint8_t turned[8];
    for (size_t i = 0; i < sizeof turned; i++) {
        turned[i] = key[(at + i) & 3];
    }
    uint64_t wide, words[MASK_WORDS];
    memcpy(&wide, turned, sizeof wide);
    if (wide == 0) {
        if (size != 0 && to != from) {
            memmove(to, from, size);
        }
        return;
    }
    size_t i = 0;
    for (; i + sizeof words <= size; i += sizeof words) {
        memcpy(words, from + i, sizeof words);
        for (size_t k = 0; k < MASK_WORDS; k++) {
            words[k] ^= wide;
        }
        memcpy(to + i, words, sizeof words);
    }
    for (; i < size; i++) {
        to[i] = from[i] ^ turned[i & 7];
    }
}

void websocket_fail(websocket_t *websocket, uint16_t status, bytes_t text) {
    websocket->ended = true;
    websocket->status = status;
    websocket->text = text;
    websocket->fault = text;
}

/* ---- the head ---------------------------------------------------------------------------------------------------- */

/* The fault of a frame's first two bytes; empty: none. */
static bytes_t head_fault(const websocket_t *websocket) {
    uint8_t first = websocket->head[0], second = websocket->head[1], opcode = first & FRAME_OPCODE;
    bool masked = (second & FRAME_MASKED) != 0, client = (websocket->flags & WEBSOCKET_CLIENT) != 0;
    if ((first & FRAME_RESERVED) != 0) return BYTES_LITERAL("RSV2 and RSV3 must be clear");
    if ((first & FRAME_COMPRESSED) != 0 && (websocket->flags & WEBSOCKET_DEFLATE) == 0) {
        return BYTES_LITERAL("compressed frame received without negotiated permessage-deflate");
    }
    if (client && masked) return BYTES_LITERAL("a server's frame must not be masked");
    if (!client && !masked && (websocket->flags & WEBSOCKET_UNMASKED) == 0) return BYTES_LITERAL("mask bit missing");
    switch (opcode) {
    case OPCODE_CLOSE:
    case OPCODE_PING:
    case OPCODE_PONG:
        if ((second & FRAME_LENGTH) > CONTROL_MAX) {
            return BYTES_LITERAL("control frame length bigger than maximum allowed of 125 bytes");
        }
        if ((first & FRAME_FINAL) == 0) return BYTES_LITERAL("control frame does not have final bit set");
        if ((first & FRAME_COMPRESSED) != 0) return BYTES_LITERAL("control frame must not be compressed");
        return BYTES_NONE;
    case OPCODE_TEXT:
    case OPCODE_BINARY:
        if (websocket->in_message) {
            return BYTES_LITERAL("new message started before final frame for previous message was received");
        }
        return BYTES_NONE;
    case OPCODE_CONTINUATION:
        if (!websocket->in_message || (first & FRAME_COMPRESSED) != 0) {
            return BYTES_LITERAL("invalid continuation frame");
        }
        return BYTES_NONE;
    default: return BYTES_LITERAL("unknown opcode");
    }
}

static uint8_t head_whole(const websocket_t *websocket) {
    uint8_t length = websocket->head[1] & FRAME_LENGTH;
    uint8_t more = length == 127 ? 8 : length == 126 ? 2 : 0;
    return (uint8_t)(2 + more + ((websocket->head[1] & FRAME_MASKED) != 0 ? 4 : 0));
}

static void start_payload(websocket_t *websocket) {
    const uint8_t *head = websocket->head;
    uint8_t length = head[1] & FRAME_LENGTH;
    websocket->left = length == 127 ? load_be64(head + 2) : length == 126 ? load_be16(head + 2) : length;
    if (websocket->left >> 63 != 0) {
        websocket_fail(websocket, CLOSE_WRONG, BYTES_LITERAL("invalid 64-bit payload length"));
        return;
    }
    memset(websocket->key, 0, sizeof websocket->key);
    if ((head[1] & FRAME_MASKED) != 0) {
        memcpy(websocket->key, head + websocket->head_size - 4, 4);
    }
    websocket->at = 0;
    websocket->opcode = head[0] & FRAME_OPCODE;
    websocket->final = (head[0] & FRAME_FINAL) != 0;
    websocket->head_size = 0;
    websocket->in_payload = true;
    if (websocket->opcode == OPCODE_TEXT || websocket->opcode == OPCODE_BINARY) {
        websocket->in_message = true;
        websocket->compressed = (head[0] & FRAME_COMPRESSED) != 0;
        websocket->inflated = 0;
    }
}

/* Returns how much it used. */
static size_t take_head(websocket_t *websocket, const uint8_t *in, size_t size) {
    size_t used = 0;
    while (used < size) {
        websocket->head[websocket->head_size++] = in[used++];
        if (websocket->head_size == 2) {
            bytes_t fault = head_fault(websocket);
            if (fault.size != 0) {
                websocket_fail(websocket, CLOSE_WRONG, fault);
                return used;
            }
        }
        if (websocket->head_size >= 2 && websocket->head_size == head_whole(websocket)) {
            start_payload(websocket);
            return used;
        }
    }
    return used;
}

/* ---- control frames ---------------------------------------------------------------------------------------------- */

static bool is_status(uint16_t status) {
    if (status < 1000 || status >= 5000 || (status >= 1015 && status <= 2999)) {
        return false;
    }
    return status != 1004 && status != CLOSE_NO_STATUS && status != 1006;
}

static void act_on_control(websocket_t *websocket) {
    uint8_t size = (uint8_t)websocket->at;
    switch (websocket->opcode) {
    case OPCODE_PING: /* the last one is answered, as RFC 6455 5.5.3 allows */
        memcpy(websocket->pong, websocket->control, size);
        websocket->pong_size = size;
        websocket->pongs = true;
        return;
    case OPCODE_CLOSE:
        if (size == 1) {
            websocket_fail(websocket, CLOSE_WRONG, BYTES_LITERAL("close frame payload cannot be 1 byte"));
        } else if (size >= 2 && !is_status(load_be16(websocket->control))) {
            websocket_fail(websocket, CLOSE_WRONG, BYTES_LITERAL("invalid close status code"));
        } else {
            websocket->ended = true;
            websocket->status = size >= 2 ? load_be16(websocket->control) : CLOSE_NO_STATUS;
            websocket->text = BYTES_NONE;
        }
        return;
    default: return;
    }
}

static size_t take_control(websocket_t *websocket, const uint8_t *in, size_t size) {
    size_t count = websocket->left < size ? (size_t)websocket->left : size;
    if (count != 0) {
        memcpy(websocket->control + websocket->at, in, count);
    }
    websocket->at += count;
    websocket->left -= count;
    if (websocket->left == 0) {
        websocket_mask(websocket->control, websocket->control, (size_t)websocket->at, websocket->key, 0);
        websocket->in_payload = false;
        act_on_control(websocket);
    }
    return count;
}

/* ---- data frames ------------------------------------------------------------------------------------------------- */

static size_t take_plain(websocket_t *websocket, const uint8_t *in, size_t size, uint8_t *to, size_t room) {
    size_t count = websocket->left < size ? (size_t)websocket->left : size;
    count = count < room ? count : room;
    websocket_mask(to, in, count, websocket->key, websocket->at);
    return count;
}

static bool needs_inflater(websocket_t *websocket) {
    if (websocket->inflater == NULL) {
        websocket->inflater = inflater_take(websocket->desk, websocket->held.share, websocket->stranger);
        if (websocket->inflater == NULL) {
            websocket_fail(websocket, CLOSE_TOO_BIG, BYTES_LITERAL("no memory for compressed messages"));
        }
    }
    return websocket->inflater != NULL;
}

/* Runs it and counts. Returns how much it used. */
static size_t run_inflater(websocket_t *websocket, const uint8_t *in, size_t size, uint8_t *to, size_t room,
                           size_t *got) {
    size_t used = 0, made = 0;
    inflated_t end = inflater_run(websocket->inflater, in, size, &used, to, room, &made);
    websocket->inflates = end == INFLATED_ROOM;
    websocket->inflated += made;
    *got += made;
    if (end == INFLATED_BAD) {
        websocket_fail(websocket, CLOSE_WRONG_TEXT, BYTES_LITERAL("compressed message is damaged"));
    } else if (websocket->inflated > websocket->inflated_max) {
        websocket_fail(websocket, CLOSE_TOO_BIG, BYTES_LITERAL("compressed message is too large"));
    }
    return used;
}

static size_t take_compressed(websocket_t *websocket, const uint8_t *in, size_t size, uint8_t *to, size_t room,
                              size_t *got) {
    uint8_t piece[MASK_PIECE];
    size_t count = websocket->left < size ? (size_t)websocket->left : size;
    count = count < sizeof piece ? count : sizeof piece;
    if (!needs_inflater(websocket)) {
        return 0;
    }
    websocket_mask(piece, in, count, websocket->key, websocket->at);
    return run_inflater(websocket, piece, count, to, room, got);
}

/* Drains the inflater of bytes that it was given, up to the end of a compressed message. */
static void drain_inflater(websocket_t *websocket, uint8_t *to, size_t room, size_t *got) {
    const uint8_t *tail = message_tail + sizeof message_tail - websocket->tail_left;
    size_t used = run_inflater(websocket, tail, websocket->tail_left, to + *got, room - *got, got);
    websocket->tail_left = (uint8_t)(websocket->tail_left - used);
    if (websocket->ending && websocket->tail_left == 0 && !websocket->inflates) {
        websocket->ending = false;
        inflater_give(websocket->desk, websocket->inflater);
        websocket->inflater = NULL;
    }
}

static void end_frame(websocket_t *websocket) {
    websocket->in_payload = false;
    if (!websocket->final) {
        return;
    }
    websocket->in_message = false;
    if (websocket->compressed && needs_inflater(websocket)) {
        websocket->ending = true;
        websocket->tail_left = sizeof message_tail;
    }
    websocket->compressed = false;
}

static size_t frame_data(websocket_t *websocket, const uint8_t *in, size_t size, uint8_t *to, size_t room,
                         size_t *got) {
    size_t count;
    if (websocket->compressed) {
        count = take_compressed(websocket, in, size, to + *got, room - *got, got);
    } else {
        count = take_plain(websocket, in, size, to + *got, room - *got);
        *got += count;
    }
    websocket->at += count;
    websocket->left -= count;
    return count;
}

size_t websocket_frames(websocket_t *websocket, uint8_t *in, size_t size, uint8_t *to, size_t room, size_t *got) {
    size_t used = 0;
    while (!websocket->ended) {
        if (websocket->inflates || websocket->ending) {
            if (*got == room) break;
            drain_inflater(websocket, to, room, got);
        } else if (websocket->in_payload && websocket->left == 0 && websocket->opcode < OPCODE_CLOSE) {
            end_frame(websocket);
        } else if (websocket->in_payload && websocket->opcode >= OPCODE_CLOSE) {
            if (used == size && websocket->left != 0) break;
            used += take_control(websocket, in + used, size - used);
        } else {
            if (used == size || (websocket->in_payload && *got == room)) break;
            used += websocket->in_payload ? frame_data(websocket, in + used, size - used, to, room, got)
                                          : take_head(websocket, in + used, size - used);
        }
    }
    return used;
}
