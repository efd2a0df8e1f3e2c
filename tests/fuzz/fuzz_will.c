/* Invariant: a record of a will is read, or refused, whatever its bytes are; and one that was read is the same when it
 * is written and read again.
 */
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "sessions/will.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    bool damaged;
    buffer_t first, second;
    if (size > 65536) {
        return 0;
    }
    will_t *will = will_read(bytes_of(data, (uint32_t)size), &damaged);
    if (will == NULL) {
        return 0;
    }
    check(!damaged);
    check(will->message.topic.size != 0 && will->message.qos <= 2);
    check(will_size(will) > will->message.topic.size + will->message.payload.size);
    buffer_init(&first, 1 << 20);
    buffer_init(&second, 1 << 20);
    check(will_write(will, &first) == STATUS_OK);
    will_t *again = will_read(bytes_of(first.at, (uint32_t)first.size), &damaged);
    check(again != NULL && again->delay == will->delay);
    check(will_write(again, &second) == STATUS_OK);
    check(first.size == second.size);
    check(memcmp(first.at, second.at, (size_t)first.size) == 0);
    buffer_free(&first);
    buffer_free(&second);
    will_free(again);
    will_free(will);
    return 0;
}
