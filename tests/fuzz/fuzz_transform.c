/* Invariant: any source and destination compile or are refused; a compiled transform renames a literal subject within
 * the buffer it is given, the same way each time, and only subjects that its source matches. Input: source, destination
 * and subject with a line feed between them.
 */
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "text/subject.h"
#include "text/transform.h"
#include "lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 512) {
        return 0;
    }
    bytes_t rest = bytes_of(data, (uint32_t)size);
    bytes_t source = cut_line(&rest), destination = cut_line(&rest);
    transform_t *transform;
    status_t status = transform_new(source, destination, &transform);
    check((status == STATUS_OK) == (transform != NULL));
    if (status != STATUS_OK) {
        check(status == STATUS_INVALID);
        return 0;
    }
    uint8_t out[2][300];
    uint32_t out_size[2] = {0, 0};
    status = transform_apply(transform, rest, size, out[0], sizeof(out[0]), &out_size[0]);
    check(status == transform_apply(transform, rest, size, out[1], sizeof(out[1]), &out_size[1]));
    if (status == STATUS_OK) {
        check(out_size[0] == out_size[1] && out_size[0] <= sizeof(out[0]));
        check(memcmp(out[0], out[1], out_size[0]) == 0);
        bool all = source.size == 0 || bytes_equal(source, BYTES_LITERAL(">"));
        check(all || subject_matches(rest, source));
    }
    transform_free(transform);
    return 0;
}
