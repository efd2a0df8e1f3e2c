/* Lines, messages and statuses; what a row's fields are in each of the two shapes. */
#include "arrow/decode.h"

#include "text/decimal.h"
#include "text/time_text.h"

#define WORDS_MAX 6u       /* HMSG <subject> <sid> <reply> <header size> <total size> */
#define ACK_PARTS 9u       /* $JS.ACK.<stream>.<consumer>.<delivered>.<sequence>.<consumer sequence>.<time>.<pending> */
#define ACK_PARTS_LONG 11u /* the same with <domain>.<account> behind ACK, and perhaps more at the end */
#define ACK_PARTS_MAX 16u

typedef struct frame {
    bytes_t word[WORDS_MAX];
    uint32_t words;
    bool has_headers;
    uint32_t block_size, total;
} frame_t;

enum appended { STREAM, SUBJECT, SEQUENCE, TIME, PENDING, LAST, APPENDED_COUNT };

static const bytes_t APPENDED[APPENDED_COUNT] = {
    {(const uint8_t *)"Nats-Stream: ", 13},      {(const uint8_t *)"Nats-Subject: ", 14},
    {(const uint8_t *)"Nats-Sequence: ", 15},    {(const uint8_t *)"Nats-Time-Stamp: ", 17},
    {(const uint8_t *)"Nats-Num-Pending: ", 18}, {(const uint8_t *)"Nats-Last-Sequence: ", 20},
};

static bool is_blank(uint8_t c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

#define EACH_BYTE UINT64_C(0x0101010101010101)

/* Eight bytes, or as many as are left and digits behind them. */
static inline uint64_t eight_from(bytes_t text, uint32_t at) {
    uint32_t left = text.size - at;
    if (left >= 8) {
        return load_u64(text.at + at);
    }
    uint64_t bytes = 0, digits = EACH_BYTE * '0' << 8 * left;
    if (text.size >= 8) {
        return load_u64(text.at + text.size - 8) >> 8 * (8 - left) | digits;
    }
    memcpy(&bytes, text.at + at, left);
    return bytes | digits;
}

/* The places of c, at most `max` of them, the first ones; *low: there is a byte below ' '. */
static inline uint32_t places_of(bytes_t text, char c, uint32_t *place, uint32_t max, bool *low) {
    uint64_t below = 0;
    uint32_t count = 0;
    for (uint32_t at = 0; at < text.size; at += 8) {
        uint64_t bytes = eight_from(text, at), other = bytes ^ EACH_BYTE * (uint8_t)c;
        below |= (bytes - EACH_BYTE * ' ') & ~bytes;
        uint64_t found = ~(((other & EACH_BYTE * 0x7f) + EACH_BYTE * 0x7f) | other | EACH_BYTE * 0x7f);
        for (; found != 0 && count < max; found &= found - 1) {
            place[count++] = at + (uint32_t)__builtin_ctzll(found) / 8;
        }
    }
    *low = (below & EACH_BYTE * 0x80) != 0;
    return count;
}

/* Words with whatever blanks between them. */
static uint32_t line_words_any(bytes_t line, bytes_t word[WORDS_MAX]) {
    uint32_t count = 0, at = 0;
    while (at < line.size) {
        while (at < line.size && is_blank(line.at[at])) {
            at++;
        }
        uint32_t begin = at;
        while (at < line.size && !is_blank(line.at[at])) {
            at++;
        }
        if (at > begin) {
            if (count == WORDS_MAX) {
                return WORDS_MAX + 1;
            }
            word[count++] = bytes_of(line.at + begin, at - begin);
        }
    }
    return count;
}

/* A line's words, at most WORDS_MAX and one more in the count. Servers put one space between two of them. */
static uint32_t line_words(bytes_t line, bytes_t word[WORDS_MAX]) {
    uint32_t place[WORDS_MAX], begin = 0;
    bool low;
    line.size -= line.size > 0 && line.at[line.size - 1] == '\r';
    uint32_t count = places_of(line, ' ', place, WORDS_MAX, &low);
    if (low || count == WORDS_MAX || line.size == 0) {
        return line_words_any(line, word);
    }
    for (uint32_t i = 0; i <= count; i++) {
        uint32_t end = i < count ? place[i] : line.size;
        if (end == begin) { /* two in a row, or one at an end */
            return line_words_any(line, word);
        }
        word[i] = bytes_of(line.at + begin, end - begin);
        begin = end + 1;
    }
    return count + 1;
}

/* DECODE_MORE: the line announces a message, which is in *frame. */
static decode_verdict_t frame_parse(bytes_t line, frame_t *frame) {
    frame->words = line_words(line, frame->word);
    if (frame->words == 0) {
        return DECODE_CONTROL;
    }
    frame->has_headers = bytes_equal(frame->word[0], BYTES_LITERAL("HMSG"));
    if (!frame->has_headers && !bytes_equal(frame->word[0], BYTES_LITERAL("MSG"))) {
        return DECODE_CONTROL;
    }
    uint32_t least = frame->has_headers ? 5 : 4;
    if (frame->words != least && frame->words != least + 1) {
        return DECODE_BAD;
    }
    frame->block_size = 0;
    if (!decimal_parse_short(frame->word[frame->words - 1], &frame->total)) {
        return DECODE_BAD;
    }
    if (frame->has_headers
        && (!decimal_parse_short(frame->word[frame->words - 2], &frame->block_size) || frame->block_size == 0
            || frame->block_size > frame->total)) {
        return DECODE_BAD;
    }
    return DECODE_MORE;
}

/* The block's lines behind the first one, without the line ends that close it. */
static bytes_t block_lines(bytes_t block) {
    const uint8_t *first = block.size > 0 ? memmem(block.at, block.size, "\r\n", 2) : NULL;
    if (first == NULL) {
        return BYTES_NONE;
    }
    bytes_t lines = bytes_after(block, (uint32_t)(first + 2 - block.at));
    while (lines.size >= 2 && lines.at[lines.size - 1] == '\n' && lines.at[lines.size - 2] == '\r') {
        lines.size -= 2;
    }
    return lines;
}

/* The beginning of the last line. */
static uint32_t last_line(bytes_t lines) {
    uint32_t at = lines.size;
    while (at >= 2) {
        const uint8_t *newline = memrchr(lines.at, '\n', at);
        if (newline == NULL || newline == lines.at) {
            return 0;
        }
        at = (uint32_t)(newline - lines.at);
        if (newline[-1] == '\r') {
            return at + 1;
        }
    }
    return 0;
}

/* Cuts off what the server appended, which stands last, in whatever order; what is not there is without an address. */
static bytes_t appended_cut(bytes_t lines, bytes_t found[APPENDED_COUNT]) {
    memset(found, 0, APPENDED_COUNT * sizeof(found[0]));
    uint32_t expected = LAST;
    while (lines.size > 0) {
        uint32_t begin = last_line(lines), which = APPENDED_COUNT;
        bytes_t line = bytes_after(lines, begin);
        for (uint32_t i = 0; i < APPENDED_COUNT; i++) {
            uint32_t candidate = (expected + APPENDED_COUNT - i) % APPENDED_COUNT;
            if (bytes_starts(line, APPENDED[candidate])) {
                which = candidate;
                break;
            }
        }
        if (which == APPENDED_COUNT || found[which].at != NULL) {
            break;
        }
        found[which] = bytes_after(line, APPENDED[which].size);
        expected = which > 0 ? which - 1 : LAST;
        lines.size = begin >= 2 ? begin - 2 : 0;
    }
    return lines;
}

static bool contains(bytes_t whole, bytes_t part) {
    return whole.size > 0 && memmem(whole.at, whole.size, part.at, part.size) != NULL;
}

/* Where stored bytes did not end as headers do, the first appended line goes on where they end. */
static bool ends_with_stream(bytes_t block, bytes_t stored, bytes_t stream) {
    bytes_t name = APPENDED[STREAM];
    if (stored.at == NULL) {
        return false;
    }
    bytes_t before = bytes_of(block.at, (uint32_t)(stored.at + stored.size - block.at));
    if (stored.size == 0) {
        before.size -= 2; /* the first line, without its end */
    }
    if (before.size < name.size + stream.size) {
        return false;
    }
    bytes_t end = bytes_after(before, before.size - name.size - stream.size);
    return bytes_starts(end, name) && bytes_equal(bytes_after(end, name.size), stream);
}

/* DECODE_MORE: *row is the answer's. */
static decode_verdict_t answer_row(const frame_t *frame, bytes_t block, const decode_want_t *want, arrow_row_t *row) {
    if (!frame->has_headers
        || (frame->block_size == frame->total && bytes_starts(block, BYTES_LITERAL("NATS/1.0 "))
            && !contains(block, BYTES_LITERAL("\r\nNats-Sequence: ")))) {
        return DECODE_STATUS;
    }
    bytes_t found[APPENDED_COUNT];
    row->stored = appended_cut(block_lines(block), found);
    bool ours = found[STREAM].at != NULL ? bytes_equal(found[STREAM], want->stream)
                                         : ends_with_stream(block, row->stored, want->stream);
    if (!ours) {
        return DECODE_OTHER;
    }
    uint64_t sequence;
    if (found[SEQUENCE].at == NULL || found[TIME].at == NULL || !decimal_parse(found[SEQUENCE], &sequence)
        || sequence > INT64_MAX || !time_parse(found[TIME], &row->nanoseconds)) {
        return DECODE_BAD;
    }
    row->sequence = (int64_t)sequence;
    row->subject = found[SUBJECT];
    return DECODE_MORE;
}

/* The numbers at the end of a delivery's reply subject, or in front of what may follow them. */
static bool ack_parse(bytes_t reply, int64_t number[4]) {
    uint32_t dot[ACK_PARTS_MAX];
    bool low;
    uint32_t parts = places_of(reply, '.', dot, ACK_PARTS_MAX, &low) + 1;
    if (parts < ACK_PARTS) {
        return false;
    }
    uint32_t first = parts >= ACK_PARTS_LONG ? 7 : 5;
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t value;
        uint32_t begin = dot[first + i - 1] + 1, end = first + i < parts - 1 ? dot[first + i] : reply.size;
        if (!decimal_parse(bytes_of(reply.at + begin, end - begin), &value) || value > INT64_MAX) {
            return false;
        }
        number[i] = (int64_t)value;
    }
    return true;
}

static decode_verdict_t delivery_row(const frame_t *frame, bytes_t block, decode_progress_t *progress,
                                     arrow_row_t *row) {
    bool replied = frame->words == (frame->has_headers ? 6 : 5);
    if (!replied || !bytes_starts(frame->word[3], BYTES_LITERAL("$JS.ACK."))) {
        return DECODE_STATUS;
    }
    int64_t number[4];
    if (!ack_parse(frame->word[3], number)) {
        return DECODE_BAD;
    }
    if (number[1] != progress->consumer_sequence + 1) {
        return DECODE_MISSED;
    }
    row->sequence = number[0];
    row->nanoseconds = number[2];
    row->subject = frame->word[1];
    row->stored = block_lines(block);
    progress->consumer_sequence = number[1];
    progress->pending = number[3];
    return DECODE_MORE;
}

/* One message from the front. DECODE_MORE with *taken > 0: a row more. */
static decode_verdict_t decode_one(bytes_t left, const decode_want_t *want, decode_progress_t *progress,
                                   arrow_table_t *table, uint32_t *taken) {
    *taken = 0;
    const uint8_t *newline = left.size > 0 ? memchr(left.at, '\n', left.size) : NULL;
    if (newline == NULL) {
        return left.size > DECODE_LINE_MAX ? DECODE_BAD : DECODE_MORE;
    }
    frame_t frame;
    decode_verdict_t verdict = frame_parse(bytes_of(left.at, (uint32_t)(newline - left.at)), &frame);
    if (verdict != DECODE_MORE) {
        return verdict;
    }
    uint32_t body = (uint32_t)(newline + 1 - left.at);
    uint64_t size = (uint64_t)body + frame.total + 2;
    if (size > left.size) {
        return DECODE_MORE;
    }
    if (table->rows > 0 && progress->bytes + size > want->bytes_max) {
        return DECODE_FULL;
    }
    bytes_t block = bytes_of(left.at + body, frame.block_size);
    arrow_row_t row = {.data = bytes_of(left.at + body + frame.block_size, frame.total - frame.block_size)};
    decode_progress_t before = *progress;
    verdict = want->deliveries ? delivery_row(&frame, block, progress, &row) : answer_row(&frame, block, want, &row);
    if (verdict != DECODE_MORE) {
        return verdict;
    }
    if (!arrow_table_add(table, &row, want->with_headers)) {
        *progress = before;
        return table->rows > 0 ? DECODE_FULL : DECODE_ROOM;
    }
    progress->bytes += size;
    *taken = (uint32_t)size;
    return want->deliveries && (progress->pending == 0 || row.sequence >= want->last) ? DECODE_FULL : DECODE_MORE;
}

decode_verdict_t decode(bytes_t received, const decode_want_t *want, decode_progress_t *progress, arrow_table_t *table,
                        uint32_t *taken) {
    *taken = 0;
    for (;;) {
        uint32_t size;
        decode_verdict_t verdict = decode_one(bytes_after(received, *taken), want, progress, table, &size);
        *taken += size;
        if (verdict != DECODE_MORE || size == 0) {
            return verdict;
        }
        if (table->rows >= table->rows_max) {
            return DECODE_FULL;
        }
    }
}
