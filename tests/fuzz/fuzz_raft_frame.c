/* Invariant: bytes that are taken for a frame are read to their end, no message or entry lies outside them, and written
 * again they are the same. The checksum is made right first, so that what stands behind it is reached.
 */
#include <stddef.h>

#include "base/check.h"
#include "base/crc.h"
#include "fuzz_input.h"
#include "raft/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_again(frame_t frame, bytes_t bytes) {
    uint8_t *again = fuzz_copy(bytes);
    frame_writer_t writer;
    frame_message_t next;
    frame_entry_t entry;
    frame_begin(&writer, again, bytes.size, frame.from, frame.to, frame.sent_ns);
    while (frame_next(&frame, &next)) {
        check(frame_put(&writer, next.group, &next.message));
        for (uint32_t i = 0; i < next.message.count; i++) {
            check(frame_take_entry(&next.entries, &entry));
            check(frame_put_entry(&writer, entry.kind, entry.bytes));
        }
    }
    check(frame_end(&writer) == bytes.size);
    check(memcmp(again, bytes.at, bytes.size) == 0);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    frame_t frame;
    if (size > FRAME_SIZE_MAX) return 0;
    uint8_t *copy = fuzz_copy(bytes_of(data, (uint32_t)size));
    if (size >= FRAME_HEAD) {
        store_be32(copy + 48, (uint32_t)size);
        store_be32(copy + 52, crc32c(crc32c(0, copy, 52), copy + FRAME_HEAD, size - FRAME_HEAD));
    }
    bytes_t bytes = bytes_of(copy, (uint32_t)size);
    if (frame_open(&frame, bytes)) write_again(frame, bytes);
    free(copy);
    return 0;
}
