/* test_heap.c: what comes off a heap is in order, whatever went on before, and each item knows where it is. */
#include "base/heap.h"

#include "test.h"

#define MANY 2000u

typedef struct item {
    uint32_t due;
    uint64_t number;
} item_t;

static uint32_t random_state = 1;

static uint32_t random_below(uint32_t bound) {
    random_state = random_state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)random_state * bound >> 32);
}

static bool sooner(const void *one, const void *other) {
    return (*(item_t *const *)one)->due < (*(item_t *const *)other)->due;
}

static void placed(void *item, uint64_t number) {
    (*(item_t **)item)->number = number;
}

static const heap_kind_t kind = {.size = sizeof(item_t *), .sooner = sooner, .placed = placed};

static void drained(item_t **heap, uint64_t count) {
    uint32_t before = 0;
    while (count > 0) {
        for (uint64_t i = 0; i < count; i++) {
            CHECK_EQ_U64(i, heap[i]->number);
        }
        CHECK(heap[0]->due >= before);
        before = heap[0]->due;
        heap_take(&kind, heap, &count, 0);
    }
}

static void came_and_went(void) {
    static item_t items[MANY];
    static item_t *heap[MANY];
    uint64_t count = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        items[i].due = random_below(MANY / 4);
        heap[count] = &items[i];
        heap_rise(&kind, heap, count++);
        item_t *one = heap[random_below((uint32_t)count)];
        switch (random_below(4)) {
        case 0:
            one->due /= 2;
            heap_rise(&kind, heap, one->number);
            break;
        case 1:
            one->due += random_below(MANY / 4);
            heap_sink(&kind, heap, count, one->number);
            break;
        case 2: heap_take(&kind, heap, &count, one->number); break;
        default: break;
        }
    }
    CHECK(count > MANY / 2);
    drained(heap, count);
}

static void any_order(void) {
    static item_t items[MANY];
    static item_t *heap[MANY];
    for (uint32_t count = 0; count < MANY; count = count * 3 + 1) {
        for (uint32_t i = 0; i < count; i++) {
            items[i] = (item_t){.due = random_below(count), .number = i};
            heap[i] = &items[i];
        }
        heap_make(&kind, heap, count);
        drained(heap, count);
    }
}

int main(void) {
    RUN("items that came, went, and moved come off in order, and know their places", came_and_went);
    RUN("items in any order are made a heap", any_order);
    return TEST_RESULT();
}
