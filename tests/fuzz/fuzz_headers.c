/* Invariant: for any bytes as a block, every field that is walked over is found by its name (the first of that name); a
 * copy without "Nats-" fields has none and has all the others; a field added to a copy is there and changes no other.
 */
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "text/headers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool drop_nats(bytes_t name) {
    return bytes_starts(name, BYTES_LITERAL("Nats-"));
}

/* Fields of both blocks are the same, as far as they are not dropped; `added` may come last in b. */
static void same_fields(bytes_t a, bytes_t b, bool dropping, bytes_t added) {
    uint32_t at_a = 0, at_b = 0;
    bytes_t name_a, value_a, name_b, value_b;
    while (headers_next(a, &at_a, &name_a, &value_a)) {
        if (dropping && drop_nats(name_a)) {
            continue;
        }
        check(headers_next(b, &at_b, &name_b, &value_b));
        check(bytes_equal(name_a, name_b));
        check(bytes_equal(value_a, value_b));
    }
    if (added.size > 0) {
        check(headers_next(b, &at_b, &name_b, &value_b));
        check(bytes_equal(name_b, added));
    }
    check(!headers_next(b, &at_b, &name_b, &value_b));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 4096) {
        return 0;
    }
    bytes_t block = bytes_of(data, (uint32_t)size);
    uint32_t cursor = 0;
    bytes_t name, value, first;
    while (headers_next(block, &cursor, &name, &value)) {
        check(name.size > 0);
        check(cursor <= block.size);
        check(headers_find(block, name, &first));
        check(headers_has_prefix(block, name));
    }
    buffer_t copy;
    buffer_init(&copy, 1 << 16);
    bool empty;
    check(headers_copy_without(&copy, block, drop_nats, true, &empty) == STATUS_OK);
    check(empty == (copy.size == 0));
    bytes_t copied = bytes_of(copy.at, (uint32_t)copy.size);
    check(!headers_has_prefix(copied, BYTES_LITERAL("Nats-")));
    same_fields(block, copied, true, BYTES_NONE);
    buffer_t longer;
    buffer_init(&longer, 1 << 16);
    check(buffer_append(&longer, copy.at, copy.size) == STATUS_OK);
    bytes_t added = BYTES_LITERAL("Nats-Sequence");
    check(headers_append(&longer, 0, added, BYTES_LITERAL("22")) == STATUS_OK);
    same_fields(copied, bytes_of(longer.at, (uint32_t)longer.size), false, added);
    buffer_free(&copy);
    buffer_free(&longer);
    return 0;
}
