/* Invariant: any body of a direct get is read or is refused; every text that was read lies in the request's own memory,
 * its lists keep to their bounds, and a copy of it says the same.
 */
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "fuzz_input.h"
#include "jetstream/direct_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void inside(const direct_request_t *request, bytes_t text) {
    check(text.size == 0 || (text.at >= request->text && text.at + text.size <= request->text + request->text_size));
}

static void all_inside(const direct_request_t *request) {
    check(request->text_size <= sizeof(request->text));
    check(request->multi_count <= MULTI_FILTERS_MAX);
    inside(request, request->last_by);
    inside(request, request->next_by);
    for (uint32_t i = 0; i < request->multi_count; i++) {
        inside(request, request->multi[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static direct_request_t request, copy;
    if (size > 8192) {
        return 0;
    }
    fuzz_input_t input = {data, size};
    uint8_t *body = fuzz_copy(fuzz_slice(&input, size));
    memset(&request, 0, offsetof(direct_request_t, text));
    if (direct_request_read(&request, bytes_of(body, (uint32_t)size))) {
        all_inside(&request);
        copy = request;
        direct_request_moved(&copy, &request);
        all_inside(&copy);
        check(bytes_equal(copy.last_by, request.last_by) && bytes_equal(copy.next_by, request.next_by));
        for (uint32_t i = 0; i < request.multi_count; i++) {
            check(bytes_equal(copy.multi[i], request.multi[i]));
        }
        check(direct_request_conflicts(&copy) == direct_request_conflicts(&request));
    }
    free(body);
    return 0;
}
