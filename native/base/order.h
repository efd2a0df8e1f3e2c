/* order.h: puts byte strings in their order, many that begin alike. Knows nothing of what they belong to.
 */
#ifndef LEAFD_BASE_ORDER_H
#define LEAFD_BASE_ORDER_H

#include "base/bytes.h"

typedef struct order_item {
    uint64_t rank; /* of two equal strings the one with the lower rank comes first */
    bytes_t bytes;
    uint64_t head; /* order_sort's own */
} order_item_t;

void order_sort(order_item_t *items, uint32_t count);

#endif
