/* Invariant: for any bytes, fed whole or in two pieces, a table of any small room holds rows whose columns fit it: ends
 * that rise, as many fields as rows say, and data that is of the input; no byte is taken twice.
 */
#include <stddef.h>

#include "arrow/decode.h"
#include "base/check.h"
#include "fuzz_input.h"

#define ROWS_MAX 8u
#define FIELDS_MAX 12u
#define ROOM_MAX 256u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void text_open(arrow_text_t *text, uint32_t count, uint32_t room) {
    text->ends = calloc(count + 1, sizeof(text->ends[0]));
    text->at = malloc(room > 0 ? room : 1);
    check(text->ends != NULL);
    check(text->at != NULL);
    text->size = room;
}

static void text_close(arrow_text_t *text, uint32_t used) {
    for (uint32_t i = 0; i < used; i++) {
        check(text->ends[i] <= text->ends[i + 1]);
    }
    check(text->ends[used] >= 0);
    check((uint32_t)text->ends[used] <= text->size);
    free(text->ends);
    free(text->at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input_t input = {data, size};
    uint8_t flags = fuzz_byte(&input);
    uint32_t rows = 1 + fuzz_byte(&input) % ROWS_MAX, room = fuzz_byte(&input), cut = fuzz_byte(&input);
    int64_t sequence[ROWS_MAX], nanoseconds[ROWS_MAX], origins[ROWS_MAX];
    uint8_t valid[1] = {0};
    int32_t field_ends[ROWS_MAX + 1] = {0};
    arrow_table_t table = {.rows_max = rows,
                           .fields_max = FIELDS_MAX,
                           .sequence = sequence,
                           .nanoseconds = nanoseconds,
                           .origin_sequence = origins,
                           .origin_valid = valid,
                           .field_ends = field_ends};
    arrow_text_t *text[] = {&table.subject,    &table.data, &table.origin_stream,
                            &table.origin_api, &table.key,  &table.value};
    for (uint32_t i = 0; i < 6; i++) {
        text_open(text[i], i < 4 ? rows : FIELDS_MAX, room % ROOM_MAX);
    }
    decode_want_t want = {.deliveries = (flags & 1) != 0,
                          .with_headers = (flags & 2) != 0,
                          .stream = BYTES_LITERAL("B"),
                          .bytes_max = 1024,
                          .last = 1 << 20};
    decode_progress_t progress = {0, 0, 0};
    bytes_t rest = fuzz_slice(&input, input.left);
    uint8_t *copy = fuzz_copy(rest);
    uint32_t taken = 0, more;
    uint32_t first = (flags & 4) != 0 && cut < rest.size ? cut : rest.size;
    decode_verdict_t verdict = decode(bytes_of(copy, first), &want, &progress, &table, &taken);
    check(taken <= first);
    if (verdict == DECODE_MORE && first < rest.size) {
        verdict = decode(bytes_of(copy + taken, rest.size - taken), &want, &progress, &table, &more);
        check(more <= rest.size - taken);
        taken += more;
    }
    check(verdict != DECODE_ROOM || table.rows == 0);
    check(table.rows <= rows);
    check(progress.bytes == taken);
    check(field_ends[table.rows] == (int32_t)table.fields);
    for (uint32_t i = 0; i < 6; i++) {
        text_close(text[i], i < 4 ? table.rows : table.fields);
    }
    free(copy);
    return 0;
}
