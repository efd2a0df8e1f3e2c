/* test_compress.c: S2 streams in both directions, in pieces of any size; what is refused, and what it costs. */
#include "base/buffer.h"
#include "base/crc.h"
#include "base/random.h"
#include "memory_transport.h"
#include "net/compress.h"
#include "net/loop.h"
#include "test.h"

/* ---- one end ----------------------------------------------------------------------------------------------------- */

static compress_desk_t *desk;

typedef struct side {
    memory_transport_t *wire;
    compress_t *compress;
    buffer_t heard;
    status_t end; /* of the last receive */
} side_t;

static void open_wished(side_t *side, const compress_wish_t *wish, size_t receive_max, size_t send_max) {
    *side = (side_t){.wire = memory_transport(receive_max, send_max)};
    buffer_init(&side->heard, UINT64_MAX);
    side->compress = compress_new(desk, wish, &transport_memory, side->wire);
    CHECK(side->compress != NULL);
}

static void open_side(side_t *side, uint32_t level, size_t receive_max, size_t send_max) {
    open_wished(side, &(compress_wish_t){.how = {.level = level}}, receive_max, send_max);
}

static void close_side(side_t *side) {
    transport_compress.close(side->compress, -1);
    buffer_free(&side->heard);
}

/* Until nothing is left; each receive has room for so much. */
static void hear(side_t *side, const void *at, size_t size, size_t room) {
    static uint8_t place[1 << 18];
    CHECK(room <= sizeof place);
    CHECK_EQ_I64(STATUS_OK, buffer_append(&side->wire->input, at, size));
    do {
        size_t got = 0;
        side->end = transport_compress.receive(side->compress, -1, place, room, &got);
        if (side->end == STATUS_OK) {
            CHECK(got > 0 && got <= room);
            CHECK_EQ_I64(STATUS_OK, buffer_append(&side->heard, place, got));
        }
    } while (side->end == STATUS_OK || (side->end == STATUS_AGAIN && transport_compress.pending(side->compress) != 0));
}

static void say(side_t *side, const void *text, size_t size) {
    const uint8_t *at = text;
    size_t done = 0;
    do {
        size_t third = (size - done) / 3;
        struct iovec iov[2] = {{.iov_base = (void *)(uintptr_t)(at + done), .iov_len = third},
                               {.iov_base = (void *)(uintptr_t)(at + done + third), .iov_len = size - done - third}};
        size_t taken;
        CHECK_EQ_I64(STATUS_OK, transport_compress.send(side->compress, -1, iov, done < size ? 2 : 0, &taken));
        done += taken;
    } while (done < size || (transport_compress.wanted(side->compress) & LOOP_WRITE) != 0);
}

/* ---- chunks by hand ---------------------------------------------------------------------------------------------- */

#define BEGIN "\xff\x06\x00\x00S2sTwO"

typedef struct script {
    uint8_t at[1 << 17];
    size_t size;
} script_t;

static void add(script_t *script, const void *at, size_t size) {
    CHECK(size <= sizeof script->at - script->size);
    memcpy(script->at + script->size, at, size);
    script->size += size;
}

static void add_head(script_t *script, uint8_t kind, size_t size) {
    add(script, (uint8_t[]){kind, (uint8_t)size, (uint8_t)(size >> 8), (uint8_t)(size >> 16)}, 4);
}

/* A chunk of bytes, with the checksum of those that it is to become. */
static void add_chunk(script_t *script, uint8_t kind, const void *body, size_t size, const void *made,
                      size_t made_size) {
    uint32_t crc = crc32c(0, made, made_size);
    uint32_t sum = ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
    add_head(script, kind, size + 4);
    add(script, (uint8_t[]){(uint8_t)sum, (uint8_t)(sum >> 8), (uint8_t)(sum >> 16), (uint8_t)(sum >> 24)}, 4);
    add(script, body, size);
}

static void add_raw(script_t *script, const char *text) {
    add_chunk(script, 1, text, strlen(text), text, strlen(text));
}

/* In pieces of any size, into room of any size. */
static void means(const script_t *script, const char *text) {
    static const size_t pieces[] = {1, 2, 3, 7, 100000};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        for (size_t room = 1; room <= 64; room *= 4) {
            side_t side;
            open_side(&side, COMPRESS_NONE, pieces[i], SIZE_MAX);
            hear(&side, script->at, script->size, room);
            CHECK_TEXT(text, side.heard.at, (size_t)side.heard.size);
            CHECK_EQ_I64(STATUS_AGAIN, side.end);
            CHECK_EQ_U64(0, transport_compress.pending(side.compress));
            close_side(&side);
        }
    }
}

static void chunks_mean_what_the_format_says(void) {
    static script_t script;
    add(&script, BEGIN, 10);
    add_raw(&script, "PING\r\n");
    add_chunk(&script, 0, "\x08\x0cPONG\x01\x04", 8, "PONGPONG", 8);
    add_head(&script, 0x99, 5); /* an index, nobody looks at it */
    add(&script, "index", 5);
    add(&script, BEGIN, 10); /* nats-server begins anew with each flush */
    add_head(&script, 0xfe, 3);
    add(&script, "\0\0\0", 3);
    add_chunk(&script, 1, "", 0, "", 0);
    add_raw(&script, "END");
    means(&script, "PING\r\nPONGPONGEND");
}

static void refused(const script_t *script, const char *heard, const char *why) {
    for (size_t piece = 1; piece <= 100000; piece *= 100) {
        side_t side;
        open_wished(&side, &(compress_wish_t){.stranger = true}, piece, SIZE_MAX);
        hear(&side, script->at, script->size, 64);
        CHECK_TEXT(heard, side.heard.at, (size_t)side.heard.size);
        CHECK_EQ_I64(STATUS_CLOSED, side.end);
        CHECK_TEXT(why, compress_fault(side.compress).at, compress_fault(side.compress).size);
        close_side(&side);
    }
}

/* Of who closes the connection before it has agreed. */
static void an_error_in_plain_is_heard(void) {
    static script_t script;
    script.size = 0;
    add(&script, "-ERR 'Authentication Timeout'\r\n", 31);
    means(&script, "-ERR 'Authentication Timeout'\r\n");
    script.size = 0;
    add(&script, BEGIN, 10);
    add(&script, "-ERR 'x'\r\n", 10);
    refused(&script, "", "compressed stream: a chunk is not understood");
}

static void damage_ends_the_stream_with_a_reason(void) {
    static script_t script;
    script.size = 0;
    add(&script, "PING\r\n12345", 11);
    refused(&script, "", "compressed stream: it does not begin as one of S2");
    script.size = 0;
    add(&script, "\xff\x06\x00\x00sNaPpY", 10);
    refused(&script, "", "compressed stream: it does not begin as one of S2");
    script.size = 0;
    add(&script, BEGIN, 10);
    add_raw(&script, "one");
    size_t good = script.size;
    add_chunk(&script, 1, "two", 3, "twx", 3);
    add_raw(&script, "three");
    refused(&script, "one", "compressed stream: the checksum of a block does not fit");
    script.size = good;
    add_chunk(&script, 0, "\x08\x0cPONG\x01\x05", 8, "PONGPONG", 8);
    refused(&script, "one", "compressed stream: a block is damaged");
    script.size = good;
    add_chunk(&script, 0, "\xff\xff\xff\xff\xff", 5, "", 0);
    refused(&script, "one", "compressed stream: a block is damaged");
    script.size = good;
    add_head(&script, 2, 8);
    refused(&script, "one", "compressed stream: a chunk is not understood");
    script.size = good;
    add_head(&script, 1, 3);
    refused(&script, "one", "compressed stream: a block is too large");
    script.size = good;
    add_head(&script, 1, 4 + COMPRESS_STRANGER_MAX + 1);
    refused(&script, "one", "compressed stream: a block is too large");
    script.size = good;
    add_chunk(&script, 0, "\x81\x80\x04\x00", 4, "", 0); /* of 65,537 bytes */
    refused(&script, "one", "compressed stream: a block is too large");
}

/* ---- both sides -------------------------------------------------------------------------------------------------- */

static void speak(uint32_t level, uint64_t *random) {
    static uint8_t text[700000];
    bool dull = (random_next(random) & 1) != 0;
    for (size_t i = 0; i < sizeof text; i++) text[i] = (uint8_t)(dull ? i / 100 : random_next(random) >> 24);
    side_t from, to;
    open_side(&from, level, SIZE_MAX, 1 + random_below(random, 90000));
    open_side(&to, level, 1 + random_below(random, 9000), SIZE_MAX);
    size_t done = 0;
    while (done < sizeof text) {
        size_t size = 1 + random_below(random, random_below(random, 3) == 0 ? 400000 : 200);
        size = size < sizeof text - done ? size : sizeof text - done;
        say(&from, text + done, size);
        done += size;
        hear(&to, from.wire->output.at, (size_t)from.wire->output.size, 1 + random_below(random, 200000));
        buffer_consume(&from.wire->output, from.wire->output.size);
    }
    CHECK_BYTES(text, sizeof text, to.heard.at, (size_t)to.heard.size);
    CHECK_EQ_I64(STATUS_AGAIN, to.end);
    CHECK_EQ_U64(0, transport_compress.pending(to.compress));
    close_side(&from);
    close_side(&to);
}

static void what_one_side_says_the_other_hears(void) {
    uint64_t random = 99;
    for (uint32_t level = COMPRESS_NONE; level <= COMPRESS_BEST; level++) {
        for (uint32_t round = 0; round < 6; round++) {
            speak(level, &random);
            compress_desk_idle(desk);
            compress_desk_idle(desk);
        }
    }
}

static void what_is_said_leaves_at_once_and_in_one_chunk(void) {
    for (uint32_t level = COMPRESS_NONE; level <= COMPRESS_BEST; level++) {
        static uint8_t text[1000];
        side_t side;
        open_side(&side, level, SIZE_MAX, SIZE_MAX);
        struct iovec one = {.iov_base = text, .iov_len = sizeof text};
        size_t taken = 0;
        CHECK_EQ_I64(STATUS_OK, transport_compress.send(side.compress, -1, &one, 1, &taken));
        CHECK_EQ_U64(sizeof text, taken);
        const uint8_t *out = side.wire->output.at;
        CHECK_BYTES(BEGIN, 10, out, 10);
        CHECK_EQ_U64(level == COMPRESS_NONE ? 1 : 0, out[10]);
        CHECK_EQ_U64(side.wire->output.size, 14u + (size_t)(out[11] | out[12] << 8));
        CHECK(level == COMPRESS_NONE || side.wire->output.size < 40);
        close_side(&side);
    }
}

static void the_first_bytes_go_out_as_they_are(void) {
    side_t side;
    open_wished(&side, &(compress_wish_t){.plain_left = 8, .input = BYTES_LITERAL(BEGIN "\x01\x06\x00")}, 1, 3);
    say(&side, "INFO {}\nCONNECT", 15);
    CHECK_BYTES("INFO {}\n" BEGIN, 18, side.wire->output.at, 18);
    static script_t script;
    add_raw(&script, "ok");
    hear(&side, script.at + 3, script.size - 3, 64);
    CHECK_TEXT("ok", side.heard.at, (size_t)side.heard.size);
    close_side(&side);
}

/* ---- terse lines ------------------------------------------------------------------------------------------------- */

/* What a link carries: deliveries of some consumers, core messages, control lines, payloads of any size. */
static size_t draw_frame(uint8_t *to, size_t room, uint64_t *random) {
    static uint64_t seq[4], stamp = UINT64_C(1764424595123456789);
    char line[160];
    uint32_t kind = (uint32_t)random_below(random, 8);
    size_t payload = random_below(random, 16) == 0 ? random_below(random, 90000) : random_below(random, 300);
    stamp += random_below(random, 100000);
    if (kind < 5) {
        uint64_t at = ++seq[kind & 3];
        snprintf(line, sizeof line, "LMSG d.%u $JS.ACK.T%u.c.1.%" PRIu64 ".%" PRIu64 ".%" PRIu64 ".%u@t.%u.s%u %zu\r\n",
                 kind & 3, kind & 3, 3 * at, at, stamp, 5000 - (uint32_t)(at % 5000), (uint32_t)random_below(random, 3),
                 (uint32_t)random_below(random, 3), payload);
    } else if (kind == 5) {
        snprintf(line, sizeof line, "HMSG some.subject.of.a.client.007.0 reply.%u 12 %zu\r\n",
                 (uint32_t)random_below(random, 1000), payload);
    } else {
        payload = 0;
        snprintf(line, sizeof line, kind == 6 ? "PING\r\n" : "LS+ some.subject.%u\r\n",
                 (uint32_t)random_below(random, 1000));
    }
    size_t size = strlen(line), whole = size + payload + (kind < 6 ? 2 : 0);
    if (whole > room) {
        return 0;
    }
    memcpy(to, line, size);
    for (size_t i = 0; i < payload; i++) to[size + i] = (uint8_t)(random_next(random) >> 24);
    if (kind < 6) memcpy(to + size + payload, "\r\n", 2);
    return whole;
}

static void speak_terse(const compression_t *how, uint64_t *random) {
    static uint8_t text[400000];
    size_t size = 0, more;
    while ((more = draw_frame(text + size, sizeof text - size, random)) != 0) size += more;
    side_t from, to;
    open_wished(&from, &(compress_wish_t){.how = *how}, SIZE_MAX, 1 + random_below(random, 90000));
    open_wished(&to, &(compress_wish_t){.how = *how}, 1 + random_below(random, 9000), SIZE_MAX);
    for (size_t done = 0; done < size;) {
        size_t part = 1 + random_below(random, random_below(random, 3) == 0 ? 100000 : 2000);
        part = part < size - done ? part : size - done;
        if (how->bounds != 0) compress_round_trip(from.compress, (int64_t)random_below(random, 2));
        say(&from, text + done, part);
        done += part;
        hear(&to, from.wire->output.at, (size_t)from.wire->output.size, 1 + random_below(random, 100000));
        buffer_consume(&from.wire->output, from.wire->output.size);
    }
    CHECK_BYTES(text, size, to.heard.at, (size_t)to.heard.size);
    CHECK_EQ_I64(STATUS_AGAIN, to.end);
    CHECK_EQ_U64(0, transport_compress.pending(to.compress));
    close_side(&from);
    close_side(&to);
}

static void terse_lines_are_heard_as_they_were(void) {
    uint64_t random = 2024;
    for (uint32_t level = COMPRESS_NONE; level <= COMPRESS_BEST; level++) {
        for (uint32_t round = 0; round < 4; round++) {
            speak_terse(&(compression_t){.level = level, .terse = 1}, &random);
        }
    }
}

/* Near it is not terse, far it is, and the way changes while a message is half sent. */
static void terse_begins_and_ends_with_the_round_trip(void) {
    uint64_t random = 77;
    for (uint32_t round = 0; round < 4; round++) {
        speak_terse(&(compression_t){.level = COMPRESS_NONE, .bounds = 2, .bound0_ns = 1, .terse = 1}, &random);
    }
}

static void a_copy_of_small_messages_costs_a_few_bytes_each(void) {
    side_t from;
    open_wished(&from, &(compress_wish_t){.how = {.terse = 1}}, SIZE_MAX, SIZE_MAX);
    uint64_t random = 5, stamp = UINT64_C(1764424595123456789), first = 0;
    for (uint32_t i = 0; i < 1000; i += 8) {
        static uint8_t text[8 * 400];
        size_t size = 0;
        for (uint32_t k = i; k < i + 8; k++) {
            stamp += 10000 + random_below(&random, 20000);
            size += (size_t)snprintf((char *)text + size, 160,
                                     "LMSG $JS.M.aX3 $JS.ACK.T.cP0w.1.%u.%u.%" PRIu64 ".%u@t.x 200\r\n", k + 1, k + 1,
                                     stamp, 999 - k);
            memset(text + size, 'x', 200);
            memcpy(text + size + 200, "\r\n", 2);
            size += 202;
        }
        say(&from, text, size);
        first = i == 0 ? from.wire->output.size : first;
    }
    CHECK(from.wire->output.size - first <= 992 * UINT64_C(208));
    close_side(&from);
}

static void who_has_not_agreed_to_terse_lines_hears_none(void) {
    static script_t script;
    script.size = 0;
    add(&script, BEGIN, 10);
    add_raw(&script, "one");
    add_chunk(&script, 0x41, "\x03\0\0\x03two", 7, "two", 3);
    refused(&script, "one", "compressed stream: a chunk is not understood");
}

static void ends_for(const char *why, const script_t *script) {
    for (size_t room = 1; room <= 64; room *= 8) {
        side_t side;
        open_wished(&side, &(compress_wish_t){.how = {.terse = 1}, .stranger = true}, SIZE_MAX, SIZE_MAX);
        hear(&side, script->at, script->size, room);
        CHECK_TEXT("two", side.heard.at, (size_t)side.heard.size);
        CHECK_EQ_I64(STATUS_CLOSED, side.end);
        CHECK_TEXT(why, compress_fault(side.compress).at, compress_fault(side.compress).size);
        close_side(&side);
    }
}

/* The checksum is that of the long form: what the ends remember otherwise is never heard. */
static void damage_of_terse_lines_ends_the_stream(void) {
    static script_t script;
    script.size = 0;
    add(&script, BEGIN, 10);
    add_chunk(&script, 0x41, "\x03\0\0\x03two", 7, "two", 3);
    size_t good = script.size;
    add_chunk(&script, 0x41, "\x03\0\0\x03twx", 7, "two", 3);
    ends_for("compressed stream: the checksum of a block does not fit", &script);
    script.size = good;
    add_chunk(&script, 0x41, "\x04\0\0\x03two", 7, "two", 3);
    ends_for("compressed stream: a block is damaged", &script);
    script.size = good;
    add_chunk(&script, 0x40, "\x04\0\0\x03two", 7, "two", 3);
    ends_for("compressed stream: a block is damaged", &script);
    script.size = good;
    add_chunk(&script, 0x41, "\x01\0\x01\x03two", 7, "two", 3);
    ends_for("compressed stream: a block is too large", &script);
    script.size = good;
    add_chunk(&script, 0x41, "\x01\0", 2, "two", 3);
    ends_for("compressed stream: a block is too large", &script);
}

/* ---- levels ------------------------------------------------------------------------------------------------------ */

static void the_level_follows_the_round_trip(void) {
    static const struct {
        uint32_t bounds;
        int64_t at[4];
        int64_t rtt;
        uint32_t level;
    } cases[] = {
        {3, {10, 50, 100, 0}, 1, COMPRESS_NONE},   {3, {10, 50, 100, 0}, 10, COMPRESS_NONE},
        {3, {10, 50, 100, 0}, 11, COMPRESS_FAST},  {3, {10, 50, 100, 0}, 100, COMPRESS_BETTER},
        {3, {10, 50, 100, 0}, 101, COMPRESS_BEST}, {1, {10, 0, 0, 0}, 11, COMPRESS_NONE},
        {2, {0, 10, 0, 0}, 1, COMPRESS_FAST},      {2, {0, 10, 0, 0}, 11, COMPRESS_FAST},
        {3, {0, 0, 20, 0}, 1, COMPRESS_BETTER},    {4, {0, 0, 0, 20}, 1, COMPRESS_BEST},
        {4, {1, 2, 3, 4}, 5, COMPRESS_BEST},       {0, {0}, 1, COMPRESS_BETTER},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        side_t side;
        compression_t how = {.level = COMPRESS_BETTER,
                             .bounds = cases[i].bounds,
                             .bound0_ns = cases[i].at[0],
                             .bound1_ns = cases[i].at[1],
                             .bound2_ns = cases[i].at[2],
                             .bound3_ns = cases[i].at[3]};
        open_wished(&side, &(compress_wish_t){.how = how}, SIZE_MAX, SIZE_MAX);
        compress_round_trip(side.compress, cases[i].rtt);
        CHECK_EQ_U64(cases[i].level, compress_level(side.compress));
        close_side(&side);
    }
}

/* ---- what it costs ----------------------------------------------------------------------------------------------- */

/* Thirty bytes that become four megabytes. */
static void add_bomb(script_t *script) {
    static uint8_t zeros[COMPRESS_BLOCK_MAX];
    add_chunk(script, 0,
              "\x80\x80\x80\x02" /* 4 MB */
              "\x00\x00"         /* a zero */
              "\x0e\x01\x00"     /* four, one back */
              "\x1d\x00\xf7\xff\x3e" /* the last offset again, the rest of it */,
              14, zeros, sizeof zeros);
}

static void a_bomb_is_unpacked_but_never_kept(void) {
    static script_t script;
    add(&script, BEGIN, 10);
    add_bomb(&script);
    add_bomb(&script);
    share_t held = {.limit = 1 << 20};
    side_t side;
    open_wished(&side, &(compress_wish_t){.held = &held}, SIZE_MAX, SIZE_MAX);
    hear(&side, script.at, script.size, 1 << 18);
    CHECK_EQ_I64(STATUS_AGAIN, side.end);
    CHECK_EQ_U64(2 * COMPRESS_BLOCK_MAX, side.heard.size);
    CHECK_EQ_U64(0, held.used);
    close_side(&side);
}

static void two_links_share_the_place_where_blocks_are_unpacked(void) {
    static script_t script;
    add(&script, BEGIN, 10);
    add_bomb(&script);
    side_t sides[2];
    share_t held = {.limit = 1 << 20};
    static uint8_t place[100000];
    for (uint32_t i = 0; i < 2; i++) {
        open_wished(&sides[i], &(compress_wish_t){.held = &held}, SIZE_MAX, SIZE_MAX);
        CHECK_EQ_I64(STATUS_OK, buffer_append(&sides[i].wire->input, script.at, script.size));
    }
    uint64_t got_all[2] = {0};
    while (got_all[0] + got_all[1] < 2 * COMPRESS_BLOCK_MAX) {
        for (uint32_t i = 0; i < 2; i++) {
            size_t got = 0;
            CHECK_EQ_I64(STATUS_OK, transport_compress.receive(sides[i].compress, -1, place, sizeof place, &got));
            CHECK(held.used <= 1024);
            got_all[i] += got;
        }
    }
    close_side(&sides[0]);
    close_side(&sides[1]);
    CHECK_EQ_U64(0, held.used);
}

static void what_is_announced_costs_nothing(void) {
    static script_t script;
    add(&script, BEGIN, 10);
    add_head(&script, 1, 4 + COMPRESS_BLOCK_MAX);
    add(&script, "some", 4);
    share_t held = {.limit = 1 << 20};
    side_t side;
    open_wished(&side, &(compress_wish_t){.held = &held}, SIZE_MAX, SIZE_MAX);
    hear(&side, script.at, script.size, 64);
    CHECK_EQ_I64(STATUS_AGAIN, side.end);
    CHECK(held.used <= 32 * 1024);
    static uint8_t more[200000];
    size_t said = script.size;
    while (side.end == STATUS_AGAIN && said < 8 * sizeof more) {
        hear(&side, more, sizeof more, 64);
        said += sizeof more;
        CHECK(side.end != STATUS_AGAIN || held.used <= 2 * said + 32 * 1024);
    }
    /* Beyond the share it waits: nothing is lost and nothing more is read. */
    CHECK_EQ_I64(STATUS_NO_MEMORY, side.end);
    CHECK(held.used <= held.limit);
    close_side(&side);
    CHECK_EQ_U64(0, held.used);
}

static void idle_links_have_no_buffers(void) {
    share_t held = {.limit = 1 << 20}, out = {.limit = 1 << 20};
    side_t side;
    open_wished(&side, &(compress_wish_t){.how = {.level = COMPRESS_FAST}, .held = &held, .out = &out}, 1, 1);
    say(&side, "CONNECT {}CONNECT {}CONNECT {}CONNECT {}CONNECT {}", 50);
    static script_t script;
    add(&script, BEGIN, 10);
    add_raw(&script, "some text");
    hear(&side, script.at, script.size, 4);
    CHECK_EQ_U64(0, held.used);
    CHECK_EQ_U64(0, out.used);
    close_side(&side);
}

int main(void) {
    desk = compress_desk_open();
    RUN("chunks mean what the format says, in pieces of any size", chunks_mean_what_the_format_says);
    RUN("an error in place of the stream is heard as it is", an_error_in_plain_is_heard);
    RUN("damage ends the stream with a reason, and nothing of it is heard", damage_ends_the_stream_with_a_reason);
    RUN("what one side says the other hears, at each level, in pieces of any size", what_one_side_says_the_other_hears);
    RUN("what is said leaves at once and is one chunk", what_is_said_leaves_at_once_and_in_one_chunk);
    RUN("what was queued before goes out as it is, and what came early belongs to the stream",
        the_first_bytes_go_out_as_they_are);
    RUN("terse lines are heard as they were, in pieces of any size", terse_lines_are_heard_as_they_were);
    RUN("lines are terse only while the other end is far", terse_begins_and_ends_with_the_round_trip);
    RUN("a message of 200 bytes of a copy is sent in 208", a_copy_of_small_messages_costs_a_few_bytes_each);
    RUN("a terse chunk ends a stream that has not agreed to them", who_has_not_agreed_to_terse_lines_hears_none);
    RUN("damage of terse lines ends the stream with a reason", damage_of_terse_lines_ends_the_stream);
    RUN("the level follows the round trip", the_level_follows_the_round_trip);
    RUN("a bomb is unpacked, piece by piece, and never kept", a_bomb_is_unpacked_but_never_kept);
    RUN("links share the place where blocks are unpacked", two_links_share_the_place_where_blocks_are_unpacked);
    RUN("what is announced costs nothing, and beyond the share of input nothing is read",
        what_is_announced_costs_nothing);
    RUN("an idle link has no buffers", idle_links_have_no_buffers);
    compress_desk_close(desk);
    return TEST_RESULT();
}
