/* test_order.c: the order of byte strings is that of memcmp, and equal ones keep theirs. */
#include "base/order.h"

#include "test.h"

#define MANY 3000u
#define SIZE_MAX_HERE 40u

static uint32_t random_state = 1;

static uint32_t random_below(uint32_t bound) {
    random_state = random_state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)random_state * bound >> 32);
}

static void in_order(uint32_t alike, uint32_t letters) {
    static uint8_t text[MANY][SIZE_MAX_HERE];
    static order_item_t items[MANY];
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t size = alike + random_below(SIZE_MAX_HERE - alike + 1);
        for (uint32_t at = 0; at < size; at++) {
            text[i][at] = (uint8_t)(at < alike ? 7 : random_below(letters) * 255 / letters);
        }
        items[i] = (order_item_t){.rank = i, .bytes = bytes_of(text[i], size)};
    }
    order_sort(items, MANY);
    bool seen[MANY] = {false};
    for (uint32_t i = 0; i < MANY; i++) {
        CHECK(!seen[items[i].rank]);
        seen[items[i].rank] = true;
        if (i > 0) {
            int order = bytes_compare(items[i - 1].bytes, items[i].bytes);
            CHECK(order < 0 || (order == 0 && items[i - 1].rank < items[i].rank));
        }
    }
}

static void strings(void) {
    in_order(0, 255);
    in_order(0, 2);
    in_order(21, 16);
    in_order(35, 2);
}

static void few(void) {
    order_item_t item = {.rank = 3, .bytes = BYTES_LITERAL("a")};
    order_sort(&item, 0);
    order_sort(&item, 1);
    CHECK_EQ_U64(3, item.rank);
    order_item_t empty[2] = {{.rank = 2, .bytes = BYTES_NONE}, {.rank = 1, .bytes = BYTES_NONE}};
    order_sort(empty, 2);
    CHECK_EQ_U64(1, empty[0].rank);
}

int main(void) {
    RUN("strings come in the order of memcmp, shorter ones first, equal ones by rank", strings);
    RUN("none, one, and empty strings are in order", few);
    return TEST_RESULT();
}
