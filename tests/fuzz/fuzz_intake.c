/* Invariant: whatever headers, payload and last message a message that is published has, it is refused or understood;
 * what was understood lies in the message's own memory; a sum is a counter again, and 0 added to it leaves it as it is.
 *
 *   | flags 2 | header size 2 | payload size 1 | last header size 1 | header | payload | last header | last payload |
 */
#include "jetstream/intake.h"

#include <string.h>

#include "base/abi_types.h"
#include "base/check.h"
#include "fuzz_input.h"
#include "jetstream/counter.h"
#include "jetstream/js.h"
#include "text/headers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static js_t *js_open_once(void) {
    static js_t js;
    static plane_limits_t limits = {.max_payload = 64 << 10};
    static moment_t now = {.wall_ns = INT64_C(1700000000000000000)};
    if (js.limits == NULL) {
        buffer_init(&js.scratch, 1 << 24);
        buffer_init(&js.counted, 1 << 24);
        buffer_init(&js.sourced, 1 << 24);
        js.limits = &limits;
        js.now = &now;
    }
    return &js;
}

static void check_inside(bytes_t part, bytes_t whole) {
    check(part.size == 0 || (part.at >= whole.at && part.at + part.size <= whole.at + whole.size));
}

static void check_sum(js_t *js, const stream_t *stream, const stored_message_t *last, bytes_t increment) {
    append_t append = {.subject = BYTES_LITERAL("s.a")};
    if (counter_add(js, stream, last, increment, &append) != NULL) {
        return;
    }
    bytes_t value = counter_value(append.payload);
    check(value.size != 0 && value.size <= COUNTER_DIGITS_MAX);
    bytes_t payload = bytes_of(fuzz_copy(append.payload), append.payload.size);
    bytes_t header = bytes_of(fuzz_copy(append.header), append.header.size);
    stored_message_t again = {.header = header, .payload = payload};
    append_t same = {.subject = BYTES_LITERAL("s.a")};
    check(counter_add(js, stream, &again, BYTES_LITERAL("0"), &same) == NULL);
    check(bytes_equal(payload, same.payload));
    free((void *)(uintptr_t)payload.at);
    free((void *)(uintptr_t)header.at);
}

static void read_message(js_t *js, const stream_t *stream, const message_t *message, const stored_message_t *last) {
    intake_t intake;
    memset(&intake, 0, sizeof(intake));
    const refusal_t *refusal = intake_read(js, stream, message, &intake);
    check_inside(intake.increment, message->header);
    check_inside(intake.batch_id, message->header);
    check_inside(intake.append.msg_id, message->header);
    check_inside(intake.append.expected_subject, message->header);
    if (refusal == NULL) {
        bytes_t header = intake_header(js, &intake, message->header);
        check(header.size <= message->header.size + 64);
    }
    if (intake.increment.size != 0) {
        check_sum(js, stream, last, intake.increment);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input_t input = {data, size};
    stream_t stream;
    memset(&stream, 0, sizeof(stream));
    stream.name = BYTES_LITERAL("S");
    stream.config.max_msg_size = -1;
    stream.config.flags = fuzz_byte(&input);
    stream.config.flags |= (uint32_t)fuzz_byte(&input) << 8;
    size_t header_size = fuzz_byte(&input);
    header_size |= (size_t)fuzz_byte(&input) << 8;
    size_t payload_size = fuzz_byte(&input), last_size = fuzz_byte(&input);
    uint8_t *parts[4];
    bytes_t slices[4];
    const size_t sizes[4] = {header_size, payload_size, last_size, input.left};
    for (uint32_t i = 0; i < 4; i++) {
        slices[i] = fuzz_slice(&input, sizes[i]);
        parts[i] = fuzz_copy(slices[i]);
        slices[i] = bytes_of(parts[i], slices[i].size);
    }
    message_t message = {.subject = BYTES_LITERAL("s.a"), .header = slices[0], .payload = slices[1]};
    stored_message_t last = {.header = slices[2], .payload = slices[3]};
    read_message(js_open_once(), &stream, &message, last.payload.size != 0 ? &last : NULL);
    for (uint32_t i = 0; i < 4; i++) {
        free(parts[i]);
    }
    return 0;
}
