/* test_sizes.c: how large the parts of a store are, computed for 64 bit and for 32 bit. */
#include "disk/batch.h"
#include "disk/sizes.h"
#include "test.h"

#define MIB (UINT64_C(1) << 20)

static const uint64_t limits[] = {0,         1, 1000, MIB, 20 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB, 100 * 1024 * MIB,
                                  UINT64_MAX};
#define LIMITS (sizeof limits / sizeof *limits)

static void narrow_fits(void) {
    for (size_t i = 0; i < LIMITS; i++) {
        for (size_t j = 0; j < LIMITS; j++) {
            store_sizes_t file = sizes_choose(limits[i], 0, limits[j], false, 4);
            store_sizes_t memory = sizes_choose(limits[j], 0, limits[i], true, 4);
            uint64_t taken = file.map + memory.map + 2 * file.ring + 2 * memory.ring;
            CHECK(taken <= 1280 * MIB);
            CHECK(sizes_choose(0, 512 * MIB, 0, false, 4).ring <= 32 * MIB);
        }
    }
}

static void parts_relate(void) {
    for (size_t i = 0; i < LIMITS; i++) {
        for (int memory = 0; memory < 2; memory++) {
            for (uint32_t pointer = 4; pointer <= 8; pointer += 4) {
                store_sizes_t sizes = sizes_choose(limits[i], 0, 64 * MIB, memory != 0, pointer);
                CHECK(sizes.ring >= BATCH_RING_MIN);
                CHECK_EQ_U64(0, sizes.ring % 65536);
                CHECK(sizes.budget < sizes.map);
                CHECK(sizes.budget > 0);
                if (limits[i] >= 64 * MIB && memory == 0) {
                    CHECK(sizes.budget + sizes.ring <= limits[i]);
                }
            }
        }
    }
}

static void journal_follows(void) {
    CHECK_EQ_U64(16 * MIB, sizes_choose(0, 0, MIB, false, 8).ring);
    CHECK_EQ_U64(16 * MIB, sizes_choose(16 * 1024 * MIB, 0, MIB, false, 8).ring);
    CHECK_EQ_U64(64 * MIB, sizes_choose(0, 0, 64 * MIB, false, 8).ring);
    CHECK_EQ_U64(64 * MIB, sizes_choose(16 * 1024 * MIB, 0, 64 * MIB, false, 8).ring);
    CHECK_EQ_U64(25 * MIB, sizes_choose(200 * MIB, 0, 64 * MIB, false, 8).ring);
    CHECK_EQ_U64(16 * MIB, sizes_choose(64 * MIB, 0, 64 * MIB, false, 8).ring);
    CHECK_EQ_U64(MIB, sizes_choose(0, 1, 64 * MIB, false, 8).ring);
}

static void messages_fit(void) {
    for (uint64_t size = 0; size <= 20 * MIB; size += 77777) {
        CHECK(sizes_message_max(sizes_choose(0, 0, size, false, 8).ring) >= size + 4096);
    }
    CHECK(sizes_message_max(16 * MIB) > 5 * MIB);
    CHECK(sizes_message_max(64 * MIB) > 23 * MIB);
}

int main(void) {
    RUN("on 32 bit both maps and both doubled rings fit 1.25 GiB, whatever the configuration says", narrow_fits);
    RUN("pages in use and journal stay within max_file_store, and the map is larger", parts_relate);
    RUN("a new journal has 16 MiB, more for larger messages, and then no more than an eighth of max_file_store",
        journal_follows);
    RUN("the largest message of max_payload fits a new journal, with its subject", messages_fit);
    return TEST_RESULT();
}
