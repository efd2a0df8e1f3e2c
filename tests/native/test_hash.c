/* test_hash.c: what the in-memory tables rely on: same bytes same hash, and an even distribution of typical subjects.
 */
#include "base/hash.h"

#include <stdlib.h>

#include "test.h"

#define BUCKETS 4096u
#define NAMES 40960u

static void repeatable_and_seeded(void) {
    hash_seed(1);
    uint64_t first = hash_bytes("orders.eu.1", 11);
    CHECK_EQ_U64(first, hash_bytes("orders.eu.1", 11));
    hash_seed(2);
    CHECK(hash_bytes("orders.eu.1", 11) != first);
    hash_seed(1);
    CHECK_EQ_U64(first, hash_bytes("orders.eu.1", 11));
}

static void only_the_bytes_count(void) {
    hash_seed(3);
    uint8_t padded[64 + 8];
    uint8_t text[64];
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (uint8_t)(i * 37);
    }
    for (size_t size = 0; size <= sizeof text; size++) {
        for (size_t shift = 0; shift < 8; shift++) {
            memset(padded, (int)shift, sizeof padded);
            memcpy(padded + shift, text, size);
            CHECK_EQ_U64(hash_bytes(text, size), hash_bytes(padded + shift, size));
        }
    }
}

static void every_bit_counts(void) {
    hash_seed(4);
    uint8_t text[40] = {0};
    for (size_t size = 1; size <= sizeof text; size++) {
        uint64_t before = hash_bytes(text, size);
        for (size_t bit = 0; bit < size * 8; bit++) {
            text[bit / 8] ^= (uint8_t)(1u << (bit % 8));
            CHECK(hash_bytes(text, size) != before);
            text[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        }
        CHECK(size == 1 || hash_bytes(text, size - 1) != before);
    }
}

static void even_spread(void) {
    hash_seed(5);
    static uint32_t low[BUCKETS], high[BUCKETS];
    memset(low, 0, sizeof low);
    memset(high, 0, sizeof high);
    for (uint32_t i = 0; i < NAMES; i++) {
        char name[64];
        int size = snprintf(name, sizeof name, "telemetry.station-%u.temperature", i);
        uint64_t hash = hash_bytes(name, (size_t)size);
        low[hash % BUCKETS]++;
        high[hash >> 52]++;
    }
    /* Ten in a bucket on average; 35 is beyond anything an even spread shows in so many buckets. */
    for (uint32_t i = 0; i < BUCKETS; i++) {
        CHECK(low[i] < 35);
        CHECK(high[i] < 35);
    }
}

int main(void) {
    RUN("the same bytes hash alike under one seed and differently under another", repeatable_and_seeded);
    RUN("neither the place in memory nor what lies around the bytes changes the hash", only_the_bytes_count);
    RUN("each single bit and the length change the hash", every_bit_counts);
    RUN("names that differ in a number spread evenly over buckets, by low bits and by high ones", even_spread);
    return TEST_RESULT();
}
