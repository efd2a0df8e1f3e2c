/* Invariant: any body of a direct get is read or is refused; every text that was read lies in the request's own memory,
 * its list of subjects ends, and a copy of it says the same.
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
    inside(request, request->last_by);
    inside(request, request->next_by);
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
        uint32_t at = 0;
        uint32_t count = 0;
        bytes_t filter;
        while (direct_request_filter(&copy, request.multi, &at, &filter)) {
            inside(&copy, filter);
            check(++count <= size);
        }
        check(direct_request_conflicts(&copy) == direct_request_conflicts(&request));
    }
    free(body);
    return 0;
}
