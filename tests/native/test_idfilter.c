/* test_idfilter.c: an id that counts is never said to be absent, whatever came before and after it. */
#include "store/idfilter.h"

#include "base/hash.h"
#include "test.h"

#define SECOND INT64_C(1000000000)
#define IDS 60000u

static uint64_t hash_of(uint32_t id) {
    return hash_bytes(&id, sizeof id);
}

static uint32_t random_state;

static uint32_t random_below(uint32_t bound) {
    random_state = random_state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)random_state * bound >> 32);
}

static void never_wrong(void) {
    static int64_t born[IDS];
    for (uint32_t seed = 1; seed <= 4; seed++) {
        random_state = seed;
        int64_t window_ns = (int64_t)seed * 10 * SECOND, age = 0;
        uint64_t bytes = 0;
        id_filter_t filter;
        idfilter_open(&filter, window_ns, INT64_MIN);
        for (uint32_t id = 0; id < IDS; id++) {
            /* an import's ids were born before */
            born[id] = random_below(10) == 0 ? age - random_below(20) * SECOND : age;
            idfilter_note(&filter, hash_of(id), born[id], age, &bytes);
            for (uint32_t look = 0; look < 4; look++) {
                uint32_t other = random_below(id + 1);
                CHECK(age - born[other] >= window_ns || !idfilter_absent(&filter, hash_of(other), age));
            }
            age += random_below(2000) == 0 ? random_below(30) * SECOND : random_below(1000) * 1000;
        }
        CHECK(bytes <= 4 * 4096 * 8);
        idfilter_close(&filter, &bytes);
        CHECK_EQ_U64(0, bytes);
    }
}

static void mostly_right(void) {
    uint64_t bytes = 0;
    uint32_t in_vain = 0;
    id_filter_t filter;
    idfilter_open(&filter, 120 * SECOND, INT64_MIN);
    for (uint32_t id = 0; id < IDS; id++) {
        idfilter_note(&filter, hash_of(id), 0, 0, &bytes);
        in_vain += !idfilter_absent(&filter, hash_of(IDS + id), 0);
    }
    CHECK(in_vain < IDS / 10);
    CHECK(bytes < 2u << 20);
    CHECK(idfilter_absent(&filter, hash_of(0), 120 * SECOND));
    idfilter_close(&filter, &bytes);
}

static void bounded(void) {
    enum { FILTERS = 20 };
    static id_filter_t filter[FILTERS];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < FILTERS; i++) {
        idfilter_open(&filter[i], 120 * SECOND, INT64_MIN);
        for (uint32_t id = 0; id < 40000; id++) {
            idfilter_note(&filter[i], hash_of(id), 0, 0, &bytes);
        }
        CHECK(bytes <= IDFILTER_ALL_MAX);
        for (uint32_t id = 0; id < 40000; id += 7) {
            CHECK(!idfilter_absent(&filter[i], hash_of(id), 0));
        }
    }
    for (uint32_t i = 0; i < FILTERS; i++) {
        idfilter_close(&filter[i], &bytes);
    }
    CHECK_EQ_U64(0, bytes);
}

static void without_memory(void) {
    uint64_t bytes = IDFILTER_ALL_MAX;
    id_filter_t filter;
    idfilter_open(&filter, 10 * SECOND, INT64_MIN);
    CHECK(idfilter_absent(&filter, hash_of(1), SECOND));
    idfilter_note(&filter, hash_of(1), SECOND, SECOND, &bytes);
    CHECK(!idfilter_absent(&filter, hash_of(1), SECOND));
    CHECK(!idfilter_absent(&filter, hash_of(1), 11 * SECOND - 1));
    CHECK(idfilter_absent(&filter, hash_of(1), 11 * SECOND));
    idfilter_close(&filter, &bytes);
}

static void from_before(void) {
    id_filter_t filter;
    uint64_t bytes = 0;
    idfilter_open(&filter, 10 * SECOND, 15 * SECOND);
    CHECK(!idfilter_absent(&filter, hash_of(1), 15 * SECOND - 1));
    CHECK(idfilter_absent(&filter, hash_of(1), 15 * SECOND));
    idfilter_close(&filter, &bytes);
}

int main(void) {
    hash_seed(1);
    RUN("an id within its window is never absent, in whatever order and at whatever times ids come", never_wrong);
    RUN("nearly every id that was not there is absent, and so is each after its window", mostly_right);
    RUN("the filters of many streams stay within their memory, and right", bounded);
    RUN("ids for which there is no memory are not absent until their window is over", without_memory);
    RUN("nothing is absent while ids from before the filter count", from_before);
    return TEST_RESULT();
}
