/* test_archive.c: entries of a backup: bytes by hand, what was written is read, every cut and what cannot be. */
#include "wire/archive.h"

#include <stdlib.h>

#include "test.h"

static void bytes_by_hand(void) {
    buffer_t out;
    buffer_init(&out, 1 << 20);
    CHECK_EQ_I64(STATUS_OK,
                 archive_write(&out, 300, -2, BYTES_LITERAL("s.a"), BYTES_LITERAL("h"), BYTES_LITERAL("pp")));
    CHECK_BYTES("\x03\x03\xac\x02\x01\x02s.ahpp", 12, out.at, out.size);
    out.size = 0;
    CHECK_EQ_I64(STATUS_OK, archive_write(&out, 0, 0, BYTES_NONE, BYTES_NONE, BYTES_NONE));
    CHECK_BYTES("\0\0\0\0\0", 5, out.at, out.size);
    buffer_free(&out);
}

static void there_and_back(void) {
    const uint64_t seqs[] = {0, 1, 127, 128, UINT32_MAX, UINT64_MAX};
    const int64_t times[] = {0, 1, -1, 1700000000000000000, INT64_MAX, INT64_MIN};
    for (uint32_t i = 0; i < 6; i++) {
        buffer_t out;
        buffer_init(&out, 1 << 20);
        CHECK_EQ_I64(STATUS_OK, archive_write(&out, seqs[i], times[i], BYTES_LITERAL("subject"), BYTES_LITERAL("head"),
                                              BYTES_LITERAL("body")));
        uint8_t *exact = malloc(out.size);
        memcpy(exact, out.at, out.size);
        archive_entry_t entry;
        uint64_t used;
        CHECK_EQ_I64(STATUS_OK, archive_read(bytes_of(exact, (uint32_t)out.size), &entry, &used));
        CHECK_EQ_U64(out.size, used);
        CHECK_EQ_U64(seqs[i], entry.seq);
        CHECK_EQ_I64(times[i], entry.ts);
        CHECK_TEXT("subject", entry.name.at, entry.name.size);
        CHECK_TEXT("head", entry.header.at, entry.header.size);
        CHECK_TEXT("body", entry.payload.at, entry.payload.size);
        for (uint32_t cut = 0; cut < out.size; cut++) {
            uint8_t *part = malloc(cut + 1);
            memcpy(part, exact, cut);
            CHECK_EQ_I64(STATUS_AGAIN, archive_read(bytes_of(part, cut), &entry, &used));
            CHECK(used == 0 || used == out.size);
            CHECK(used != 0 || cut < out.size - 15);
            free(part);
        }
        free(exact);
        buffer_free(&out);
    }
}

static status_t read(const char *bytes, uint32_t size) {
    archive_entry_t entry;
    uint64_t used;
    return archive_read(bytes_of(bytes, size), &entry, &used);
}

static void what_cannot_be(void) {
    /* A name of more than a megabyte, sizes of more than 63 bits, numbers of more than 64. */
    CHECK_EQ_I64(STATUS_CORRUPT, read("\x81\x80\x40\0\1\0\0", 7));
    CHECK_EQ_I64(STATUS_AGAIN, read("\x80\x80\x40\0\1\0\0", 7));
    CHECK_EQ_I64(STATUS_CORRUPT, read("\1\0\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\0a", 15));
    CHECK_EQ_I64(STATUS_CORRUPT, read("\1\0\1\xff\xff\xff\xff\xff\xff\xff\xff\x7f\1a", 14));
    CHECK_EQ_I64(STATUS_CORRUPT, read("\xff\xff\xff\xff\xff\xff\xff\xff\xff\2", 10));
    CHECK_EQ_I64(STATUS_CORRUPT, read("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 11));
}

int main(void) {
    RUN("an entry has the bytes that the format draws", bytes_by_hand);
    RUN("what was written is read again, and every cut of it asks for more", there_and_back);
    RUN("sizes and numbers that cannot be are refused before anything is made of them", what_cannot_be);
    return TEST_RESULT();
}
