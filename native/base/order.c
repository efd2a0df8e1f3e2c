/* order.c: see order.h. Most comparisons need only the eight bytes behind the beginning that all strings share. */
#include "base/order.h"

#include <stdlib.h>

static uint32_t alike_upto(bytes_t a, bytes_t b, uint32_t most) {
    most = a.size < most ? a.size : most;
    most = b.size < most ? b.size : most;
    uint32_t same = 0;
    while (same < most && a.at[same] == b.at[same]) {
        same++;
    }
    return same;
}

/* Shorter ones are filled up with zeros. */
static uint64_t order_head(bytes_t rest) {
    uint8_t head[8] = {0};
    if (rest.size > 0) {
        memcpy(head, rest.at, rest.size < sizeof head ? rest.size : sizeof head);
    }
    return load_be64(head);
}

static int compare(const void *a, const void *b) {
    const order_item_t *left = a, *right = b;
    if (left->head != right->head) {
        return left->head < right->head ? -1 : 1;
    }
    int order = bytes_compare(left->bytes, right->bytes);
    return order != 0 ? order : (left->rank > right->rank) - (left->rank < right->rank);
}

void order_sort(order_item_t *items, uint32_t count) {
    uint32_t same = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        same = alike_upto(items[0].bytes, items[i].bytes, same);
    }
    for (uint32_t i = 0; i < count; i++) {
        items[i].head = order_head(bytes_after(items[i].bytes, same));
    }
    if (count > 1) {
        qsort(items, count, sizeof *items, compare);
    }
}
