/* test_websocket.c: frames in both directions, in pieces of any size; the examples of RFC 6455 and RFC 7692; what is
 * refused, and what it costs. */
#include "base/buffer.h"
#include "base/random.h"
#include "net/loop.h"
#include "net/websocket.h"
#include "test.h"

/* ---- what is under it: takes and hands over at most so many bytes a call ----------------------------------------- */

typedef struct wire {
    buffer_t in;
    buffer_t out;
    size_t receive_max;
    size_t send_max;
    bool closed;
} wire_t;

static status_t wire_receive(void *state, int fd, uint8_t *to, size_t room, size_t *got) {
    wire_t *wire = state;
    (void)fd;
    size_t size = wire->in.size < room ? (size_t)wire->in.size : room;
    size = size < wire->receive_max ? size : wire->receive_max;
    if (size == 0) return STATUS_AGAIN;
    memcpy(to, wire->in.at, size);
    buffer_consume(&wire->in, size);
    *got = size;
    return STATUS_OK;
}

static status_t wire_send(void *state, int fd, const struct iovec *iov, int count, size_t *taken) {
    wire_t *wire = state;
    (void)fd;
    *taken = 0;
    for (int i = 0; i < count && *taken < wire->send_max; i++) {
        size_t room = wire->send_max - *taken, size = iov[i].iov_len < room ? iov[i].iov_len : room;
        CHECK_EQ_I64(STATUS_OK, buffer_append(&wire->out, iov[i].iov_base, size));
        *taken += size;
    }
    return STATUS_OK;
}

static size_t wire_pending(const void *state) {
    return (size_t)((const wire_t *)state)->in.size;
}

static uint32_t wire_wanted(const void *state) {
    (void)state;
    return 0;
}

static void wire_close(void *state, int fd) {
    (void)fd;
    ((wire_t *)state)->closed = true;
}

static const transport_t transport_wire = {wire_receive, wire_send, wire_pending, wire_wanted, wire_close};

/* ---- one end ----------------------------------------------------------------------------------------------------- */

static websocket_desk_t *desk;

typedef struct side {
    wire_t wire;
    websocket_t *websocket;
    buffer_t heard;
    status_t end; /* of the last receive */
} side_t;

static void open_side(side_t *side, uint32_t flags, size_t receive_max, size_t send_max) {
    *side = (side_t){.wire = {.receive_max = receive_max, .send_max = send_max}};
    buffer_init(&side->wire.in, UINT64_MAX);
    buffer_init(&side->wire.out, UINT64_MAX);
    buffer_init(&side->heard, UINT64_MAX);
    websocket_wish_t wish = {.flags = flags, .inflated_max = 1 << 20};
    side->websocket = websocket_new(desk, &wish, &transport_wire, &side->wire);
    CHECK(side->websocket != NULL);
}

static void close_side(side_t *side) {
    if (side->websocket != NULL) {
        transport_websocket.close(side->websocket, -1);
        CHECK(side->wire.closed);
    }
    buffer_free(&side->wire.in);
    buffer_free(&side->wire.out);
    buffer_free(&side->heard);
}

/* Until nothing is left; each receive has room for so much. */
static void hear(side_t *side, const void *at, size_t size, size_t room) {
    uint8_t place[512];
    CHECK(room <= sizeof place);
    CHECK_EQ_I64(STATUS_OK, buffer_append(&side->wire.in, at, size));
    do {
        size_t got = 0;
        side->end = transport_websocket.receive(side->websocket, -1, place, room, &got);
        if (side->end == STATUS_OK) {
            CHECK(got > 0 && got <= room);
            CHECK_EQ_I64(STATUS_OK, buffer_append(&side->heard, place, got));
        }
    } while (side->end == STATUS_OK
             || (side->end == STATUS_AGAIN && transport_websocket.pending(side->websocket) != 0));
}

static void say(side_t *side, const uint8_t *at, size_t size) {
    size_t done = 0;
    do {
        struct iovec iov[2] = {{.iov_base = (void *)(uintptr_t)(at + done), .iov_len = (size - done) / 3},
                               {.iov_base = (void *)(uintptr_t)(at + done + (size - done) / 3),
                                .iov_len = size - done - (size - done) / 3}};
        size_t taken;
        CHECK_EQ_I64(STATUS_OK, transport_websocket.send(side->websocket, -1, iov, done < size ? 2 : 0, &taken));
        done += taken;
    } while (done < size || (transport_websocket.wanted(side->websocket) & LOOP_WRITE) != 0);
}

/* ---- the RFCs' examples ------------------------------------------------------------------------------------------ */

#define FRAME(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})

static void means(uint32_t flags, const uint8_t *frame, size_t size, const char *text) {
    static const size_t pieces[] = {1, 2, 3, 7, 512};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        for (size_t room = 1; room <= 16; room *= 4) {
            side_t side;
            open_side(&side, flags, pieces[i], SIZE_MAX);
            hear(&side, frame, size, room);
            CHECK_TEXT(text, side.heard.at, (size_t)side.heard.size);
            CHECK_EQ_I64(STATUS_AGAIN, side.end);
            close_side(&side);
        }
    }
}

static void the_examples_of_the_rfcs(void) {
    uint32_t to_client = WEBSOCKET_CLIENT, packed = WEBSOCKET_CLIENT | WEBSOCKET_DEFLATE;
    means(to_client, FRAME(0x81, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f), "Hello");
    means(0, FRAME(0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58), "Hello");
    means(to_client, FRAME(0x01, 0x03, 0x48, 0x65, 0x6c, 0x80, 0x02, 0x6c, 0x6f), "Hello");
    means(to_client, FRAME(0x82, 0x7e, 0x00, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f), "Hello");
    means(to_client, FRAME(0x82, 0x7f, 0, 0, 0, 0, 0, 0, 0, 5, 0x48, 0x65, 0x6c, 0x6c, 0x6f), "Hello");
    means(to_client, FRAME(0x82, 0x00, 0x82, 0x01, 0x48), "H");
    means(packed, FRAME(0xc1, 0x07, 0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00), "Hello");
    means(packed, FRAME(0x41, 0x03, 0xf2, 0x48, 0xcd, 0x80, 0x04, 0xc9, 0xc9, 0x07, 0x00), "Hello");
    means(packed, FRAME(0xc1, 0x0b, 0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00), "Hello");
    means(packed, FRAME(0xc1, 0x08, 0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00), "Hello");
    means(packed, FRAME(0xc1, 0x0d, 0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00),
          "Hello");
    means(packed,
          FRAME(0xc1, 0x07, 0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x81, 0x01, '!', 0xc1, 0x07, 0xf2, 0x48, 0xcd,
                0xc9, 0xc9, 0x07, 0x00),
          "Hello!Hello");
    means(packed, FRAME(0xc1, 0x01, 0x00, 0x81, 0x01, '!'), "!");
}

static void control_frames_may_come_between_the_parts_of_a_message(void) {
    means(WEBSOCKET_CLIENT, FRAME(0x01, 0x03, 0x48, 0x65, 0x6c, 0x8a, 0x02, 1, 2, 0x80, 0x02, 0x6c, 0x6f), "Hello");
    side_t side;
    open_side(&side, 0, 1, 1);
    hear(&side, FRAME(0x89, 0x82, 1, 2, 3, 4, 'a' ^ 1, 'b' ^ 2, 0x89, 0x81, 0, 0, 0, 0, 'c'), 16);
    CHECK_EQ_U64(LOOP_WRITE, transport_websocket.wanted(side.websocket));
    say(&side, NULL, 0);
    CHECK_BYTES("\x8a\x01"
                "c",
                3, side.wire.out.at, (size_t)side.wire.out.size);
    CHECK_EQ_U64(0, transport_websocket.wanted(side.websocket));
    CHECK_EQ_U64(0, side.heard.size);
    close_side(&side);
}

/* ---- both sides -------------------------------------------------------------------------------------------------- */

static void speak(uint32_t from_flags, uint32_t to_flags, uint64_t *random) {
    static uint8_t text[200000];
    bool dull = (random_next(random) & 1) != 0;
    for (size_t i = 0; i < sizeof text; i++) text[i] = (uint8_t)(dull ? i / 100 : random_next(random) >> 24);
    side_t from, to;
    open_side(&from, from_flags, SIZE_MAX, 1 + random_below(random, 90000));
    open_side(&to, to_flags, 1 + random_below(random, 9000), SIZE_MAX);
    size_t done = 0;
    while (done < sizeof text) {
        size_t size = 1 + random_below(random, random_below(random, 3) == 0 ? 100000 : 200);
        size = size < sizeof text - done ? size : sizeof text - done;
        say(&from, text + done, size);
        done += size;
        hear(&to, from.wire.out.at, (size_t)from.wire.out.size, 1 + random_below(random, 512));
        buffer_consume(&from.wire.out, from.wire.out.size);
    }
    CHECK_BYTES(text, sizeof text, to.heard.at, (size_t)to.heard.size);
    CHECK_EQ_I64(STATUS_AGAIN, to.end);
    CHECK_EQ_U64(0, transport_websocket.pending(to.websocket));
    close_side(&from);
    close_side(&to);
}

static void what_one_side_says_the_other_hears(void) {
    static const uint32_t shared[] = {0,
                                      WEBSOCKET_DEFLATE,
                                      WEBSOCKET_UNMASKED,
                                      WEBSOCKET_DEFLATE | WEBSOCKET_UNMASKED,
                                      WEBSOCKET_SMALL,
                                      WEBSOCKET_SMALL | WEBSOCKET_DEFLATE,
                                      WEBSOCKET_SMALL | WEBSOCKET_WHOLE | WEBSOCKET_DEFLATE};
    uint64_t random = 17;
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
        speak(shared[i] | WEBSOCKET_CLIENT, shared[i], &random);
        speak(shared[i], shared[i] | WEBSOCKET_CLIENT, &random);
    }
}

static void a_browser_gets_small_frames(void) {
    static uint8_t text[3 * WEBSOCKET_SMALL_MAX];
    side_t side;
    open_side(&side, WEBSOCKET_SMALL, SIZE_MAX, SIZE_MAX);
    say(&side, text, sizeof text);
    const uint8_t head[] = {0x82, 126, WEBSOCKET_SMALL_MAX >> 8, WEBSOCKET_SMALL_MAX & 255};
    CHECK_EQ_U64(3 * (sizeof head + WEBSOCKET_SMALL_MAX), side.wire.out.size);
    for (size_t i = 0; i < 3; i++) {
        CHECK_BYTES(head, sizeof head, side.wire.out.at + i * (sizeof head + WEBSOCKET_SMALL_MAX), sizeof head);
    }
    close_side(&side);
}

static void a_few_bytes_are_not_compressed(void) {
    side_t side;
    open_side(&side, WEBSOCKET_DEFLATE, SIZE_MAX, SIZE_MAX);
    static const uint8_t text[65];
    say(&side, text, 64);
    CHECK_EQ_U64(0x82, side.wire.out.at[0]);
    CHECK_EQ_U64(2 + 64, side.wire.out.size);
    say(&side, text, 65);
    CHECK_EQ_U64(0xc2, side.wire.out.at[2 + 64]);
    close_side(&side);
}

static void what_came_behind_the_answer_is_heard_first(void) {
    side_t side;
    open_side(&side, WEBSOCKET_CLIENT, SIZE_MAX, SIZE_MAX);
    websocket_drop(side.websocket);
    websocket_wish_t wish = {.flags = WEBSOCKET_CLIENT, .input = BYTES_LITERAL("\x82\x03ING\x82\x02")};
    side.websocket = websocket_new(desk, &wish, &transport_wire, &side.wire);
    CHECK_EQ_U64(7, transport_websocket.pending(side.websocket));
    hear(&side, "FO", 2, 2);
    CHECK_TEXT("INGFO", side.heard.at, (size_t)side.heard.size);
    close_side(&side);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* It hears nothing of it, and says why. */
static void refuses(uint32_t flags, uint16_t status, const char *why, const uint8_t *frame, size_t size) {
    for (size_t piece = 1; piece <= 512; piece *= 8) {
        side_t side;
        open_side(&side, flags, piece, SIZE_MAX);
        hear(&side, frame, size, 16);
        CHECK_EQ_I64(STATUS_CLOSED, side.end);
        CHECK_TEXT(why, websocket_fault(side.websocket).at, websocket_fault(side.websocket).size);
        transport_websocket.close(side.websocket, -1);
        side.websocket = NULL;
        if ((flags & WEBSOCKET_CLIENT) == 0) {
            CHECK_EQ_U64(0x88, side.wire.out.at[0]);
            CHECK_EQ_U64(2 + strlen(why), side.wire.out.at[1]);
            CHECK_EQ_U64(status, load_be16(side.wire.out.at + 2));
            CHECK_TEXT(why, side.wire.out.at + 4, (size_t)side.wire.out.size - 4);
        }
        close_side(&side);
    }
}

static void what_is_no_frame_ends_with_the_reason(void) {
    uint32_t unmasked = WEBSOCKET_UNMASKED, packed = WEBSOCKET_UNMASKED | WEBSOCKET_DEFLATE;
    refuses(0, 1002, "mask bit missing", FRAME(0x82, 0x01, 'a'));
    refuses(WEBSOCKET_CLIENT, 1002, "a server's frame must not be masked", FRAME(0x82, 0x81, 1, 2, 3, 4, 'a'));
    refuses(unmasked, 1002, "RSV2 and RSV3 must be clear", FRAME(0xa2, 0x01, 'a'));
    refuses(unmasked, 1002, "compressed frame received without negotiated permessage-deflate", FRAME(0xc2, 0x01, 'a'));
    refuses(unmasked, 1002, "unknown opcode", FRAME(0x83, 0x01, 'a'));
    refuses(unmasked, 1002, "unknown opcode", FRAME(0x8b, 0x00));
    refuses(unmasked, 1002, "invalid continuation frame", FRAME(0x80, 0x01, 'a'));
    refuses(packed, 1002, "invalid continuation frame", FRAME(0x02, 0x00, 0xc0, 0x01, 'a'));
    refuses(unmasked, 1002, "new message started before final frame for previous message was received",
            FRAME(0x02, 0x00, 0x82, 0x01, 'b'));
    refuses(unmasked, 1002, "control frame does not have final bit set", FRAME(0x09, 0x00));
    refuses(packed, 1002, "control frame must not be compressed", FRAME(0xc9, 0x00));
    refuses(unmasked, 1002, "control frame length bigger than maximum allowed of 125 bytes", FRAME(0x89, 126, 0, 126));
    refuses(unmasked, 1002, "invalid 64-bit payload length", FRAME(0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0));
    refuses(unmasked, 1002, "close frame payload cannot be 1 byte", FRAME(0x88, 1, 3));
    refuses(unmasked, 1002, "invalid close status code", FRAME(0x88, 2, 0x03, 0xed));
    refuses(unmasked, 1002, "invalid close status code", FRAME(0x88, 2, 0x13, 0x88));
    refuses(packed, 1007, "compressed message is damaged", FRAME(0xc2, 0x04, 0xff, 0xff, 0xff, 0xff));
}

static void a_close_frame_is_answered_with_its_status(void) {
    side_t side;
    open_side(&side, 0, 1, SIZE_MAX);
    hear(&side, FRAME(0x82, 0x81, 0, 0, 0, 0, 'a', 0x88, 0x84, 0, 0, 0, 0, 0x0b, 0xb8, 'o', 'k', 0x82, 0x81), 16);
    CHECK_TEXT("a", side.heard.at, (size_t)side.heard.size);
    CHECK_EQ_I64(STATUS_CLOSED, side.end);
    transport_websocket.close(side.websocket, -1);
    side.websocket = NULL;
    CHECK_BYTES("\x88\x02\x0b\xb8", 4, side.wire.out.at, (size_t)side.wire.out.size);
    close_side(&side);
}

static void the_end_says_why_unless_a_frame_is_half_sent(void) {
    side_t side;
    open_side(&side, 0, 1, SIZE_MAX);
    websocket_why(side.websocket, 1008, BYTES_LITERAL("Authentication Timeout"));
    transport_websocket.close(side.websocket, -1);
    side.websocket = NULL;
    CHECK_TEXT("\x88\x18\x03\xf0"
               "Authentication Timeout",
               side.wire.out.at, (size_t)side.wire.out.size);
    close_side(&side);
    open_side(&side, 0, 1, 3);
    struct iovec one = {.iov_base = (void *)(uintptr_t)"abcdef", .iov_len = 6};
    size_t taken;
    CHECK_EQ_I64(STATUS_OK, transport_websocket.send(side.websocket, -1, &one, 1, &taken));
    transport_websocket.close(side.websocket, -1);
    side.websocket = NULL;
    CHECK_TEXT("\x82\x06"
               "a",
               side.wire.out.at, (size_t)side.wire.out.size);
    close_side(&side);
}

/* ---- what it costs ----------------------------------------------------------------------------------------------- */

/* 2 MiB of zeros in some kilobytes. */
#define BOMB_SIZE 32768u

static size_t bomb(uint8_t *to) {
    static uint8_t zeros[1 << 16];
    side_t side;
    size_t size = 0;
    open_side(&side, WEBSOCKET_DEFLATE, SIZE_MAX, SIZE_MAX);
    say(&side, zeros, sizeof zeros);
    const uint8_t *frame = side.wire.out.at;
    size_t head = frame[1] < 126 ? 2 : 4, packed = (size_t)side.wire.out.size - head;
    for (uint32_t i = 0; i < 32; i++) { /* each flushed block stands for itself, so 32 make one message */
        to[size++] = i == 0 ? 0x42 : i < 31 ? 0x00 : 0x80;
        to[size++] = 126;
        store_be16(to + size, (uint16_t)(packed + 4));
        memcpy(to + size + 2, frame + head, packed);
        memcpy(to + size + 2 + packed, "\x00\x00\xff\xff", 4);
        size += 2 + packed + 4;
        CHECK(size < BOMB_SIZE - 1024);
    }
    close_side(&side);
    return size;
}

static void a_compressed_message_becomes_no_more_than_it_may(void) {
    static uint8_t frames[BOMB_SIZE];
    size_t size = bomb(frames);
    side_t side;
    open_side(&side, WEBSOCKET_UNMASKED | WEBSOCKET_DEFLATE, SIZE_MAX, SIZE_MAX);
    hear(&side, frames, size, 512);
    CHECK_EQ_I64(STATUS_CLOSED, side.end);
    CHECK_TEXT("compressed message is too large", websocket_fault(side.websocket).at,
               websocket_fault(side.websocket).size);
    CHECK(side.heard.size <= (1 << 20) + 512);
    close_side(&side);
}

static void strangers_leave_inflaters_to_users(void) {
    share_t share = {.limit = 8 * 44 * 1024};
    websocket_wish_t wish = {
        .flags = WEBSOCKET_UNMASKED | WEBSOCKET_DEFLATE, .inflated_max = 1 << 20, .share = &share, .stranger = true};
    side_t sides[5];
    for (uint32_t i = 0; i < 5; i++) {
        open_side(&sides[i], 0, SIZE_MAX, SIZE_MAX);
        websocket_drop(sides[i].websocket);
        sides[i].websocket = websocket_new(desk, &wish, &transport_wire, &sides[i].wire);
        if (i == 3) {
            websocket_admitted(sides[i].websocket); /* a user, while strangers have all that they may */
        }
        if (i == 4) {
            websocket_admitted(sides[0].websocket); /* whose inflater is no stranger's any more */
        }
        hear(&sides[i], FRAME(0x41, 0x03, 0xf2, 0x48, 0xcd), 16);
        CHECK_EQ_I64(i == 2 ? STATUS_CLOSED : STATUS_AGAIN, sides[i].end);
    }
    close_side(&sides[2]);
    CHECK_EQ_U64(4 * 44 * 1024, share.used);
    for (uint32_t i = 0; i < 5; i++) {
        if (i != 2) {
            close_side(&sides[i]);
        }
    }
    CHECK_EQ_U64(0, share.used);
}

static void inflaters_count_and_are_given_back(void) {
    share_t share = {.limit = 100000};
    websocket_wish_t wish = {.flags = WEBSOCKET_UNMASKED | WEBSOCKET_DEFLATE, .inflated_max = 1 << 20, .share = &share};
    side_t sides[3];
    for (uint32_t i = 0; i < 3; i++) {
        open_side(&sides[i], 0, SIZE_MAX, SIZE_MAX);
        websocket_drop(sides[i].websocket);
        sides[i].websocket = websocket_new(desk, &wish, &transport_wire, &sides[i].wire);
        hear(&sides[i], FRAME(0x41, 0x03, 0xf2, 0x48, 0xcd), 16);
        CHECK_EQ_I64(i < 2 ? STATUS_AGAIN : STATUS_CLOSED, sides[i].end);
    }
    hear(&sides[0], FRAME(0x80, 0x04, 0xc9, 0xc9, 0x07, 0x00), 16);
    CHECK_TEXT("Hello", sides[0].heard.at, (size_t)sides[0].heard.size);
    close_side(&sides[2]);
    CHECK_EQ_U64(44 * 1024, share.used);
    close_side(&sides[0]);
    close_side(&sides[1]);
    CHECK_EQ_U64(0, share.used);
}

int main(void) {
    desk = websocket_desk_open();
    RUN("the frames of RFC 6455 and RFC 7692 mean what these say, in pieces of any size", the_examples_of_the_rfcs);
    RUN("control frames may come between the parts of a message; the last ping is answered",
        control_frames_may_come_between_the_parts_of_a_message);
    RUN("what one side says the other one hears: masked or not, compressed or not, in pieces of any size",
        what_one_side_says_the_other_hears);
    RUN("a browser gets frames of at most 4 KiB", a_browser_gets_small_frames);
    RUN("64 bytes are not compressed, 65 are", a_few_bytes_are_not_compressed);
    RUN("what came behind the answer to the request is heard first", what_came_behind_the_answer_is_heard_first);
    RUN("what is no frame ends the connection with the reason", what_is_no_frame_ends_with_the_reason);
    RUN("a close frame is answered with its status, after what came before it",
        a_close_frame_is_answered_with_its_status);
    RUN("the end says why, unless a frame is half sent", the_end_says_why_unless_a_frame_is_half_sent);
    RUN("a compressed message becomes no more than it may", a_compressed_message_becomes_no_more_than_it_may);
    RUN("the memory of compressed messages that have not ended is counted and bounded",
        inflaters_count_and_are_given_back);
    RUN("strangers leave inflaters to those who have logged in", strangers_leave_inflaters_to_users);
    websocket_desk_close(desk);
    return TEST_RESULT();
}
