/* Invariant: any bytes are an entry, the beginning of one, or none; slices lie inside; an entry that is written and
 * read again is the same; with fewer of its bytes the reader asks for more and never answers anything else. */
#include <stddef.h>

#include "base/check.h"
#include "wire/archive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void inside(bytes_t slice, bytes_t whole) {
    check(slice.at >= whole.at && slice.at + slice.size <= whole.at + whole.size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 4096) {
        return 0;
    }
    bytes_t whole = bytes_of(data, (uint32_t)size);
    archive_entry_t entry, again;
    uint64_t used, used_again;
    status_t status = archive_read(whole, &entry, &used);
    if (status != STATUS_OK) {
        check(status == STATUS_CORRUPT || used == 0 || used > size);
        return 0;
    }
    check(used <= size);
    inside(entry.name, whole);
    inside(entry.header, whole);
    inside(entry.payload, whole);
    buffer_t out;
    buffer_init(&out, 1 << 16);
    check(archive_write(&out, entry.seq, entry.ts, entry.name, entry.header, entry.payload) == STATUS_OK);
    check(out.size <= used); /* numbers may have been written longer than they need */
    check(archive_read(bytes_of(out.at, (uint32_t)out.size), &again, &used_again) == STATUS_OK);
    check(used_again == out.size && again.seq == entry.seq && again.ts == entry.ts);
    check(bytes_equal(again.name, entry.name) && bytes_equal(again.header, entry.header)
          && bytes_equal(again.payload, entry.payload));
    check(archive_read(bytes_of(data, (uint32_t)used - 1), &again, &used_again) == STATUS_AGAIN);
    buffer_free(&out);
    return 0;
}
