/* leftover.c: see leftover.h. */
#include "base/leftover.h"

void leftovers_add(leftovers_t *leftovers, leftover_t *one) {
    one->next = NULL;
    *(leftovers->last == NULL ? &leftovers->first : &leftovers->last->next) = one;
    leftovers->last = one;
}

/* A step may lead to further ends, which are added behind it. */
void leftovers_step(leftovers_t *leftovers, void *context, uint32_t *budget) {
    while (leftovers->first != NULL && *budget != 0) {
        leftover_t *one = leftovers->first;
        leftovers->first = one->next;
        leftovers->last = one->next == NULL ? NULL : leftovers->last;
        if (!one->step(one, context, budget)) {
            one->next = leftovers->first;
            leftovers->first = one;
            leftovers->last = leftovers->last == NULL ? one : leftovers->last;
        }
    }
}

void leftovers_finish(leftovers_t *leftovers, void *context) {
    while (leftovers_wait(leftovers)) {
        uint32_t budget = UINT32_MAX;
        leftovers_step(leftovers, context, &budget);
    }
}
