/* leftover.h: what an end leaves to be done: thousands of rows to free, of waiting clients to tell. The end itself is
 * at once, nobody finds any more what ended; the rest is done in steps, as much in a turn as its budget has.
 *
 *     end --> leftovers_add --> leftovers_step, leftovers_step, ... --> its step() frees it
 *
 * In the order in which they came. The owner of a list calls leftovers_step in each turn, does not sleep while it is
 * not empty, and ends it with leftovers_finish.
 */
#ifndef LEAFD_BASE_LEFTOVER_H
#define LEAFD_BASE_LEFTOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct leftover leftover_t;

/* The first member of what it is for. */
struct leftover {
    leftover_t *next;
    /* Does as much as the budget has and takes that off. true: that was all, and it freed itself. */
    bool (*step)(leftover_t *self, void *context, uint32_t *budget);
};

typedef struct leftovers {
    leftover_t *first;
    leftover_t *last;
} leftovers_t;

void leftovers_add(leftovers_t *leftovers, leftover_t *one);
void leftovers_step(leftovers_t *leftovers, void *context, uint32_t *budget);
void leftovers_finish(leftovers_t *leftovers, void *context); /* all of it, now */

static inline bool leftovers_wait(const leftovers_t *leftovers) {
    return leftovers->first != NULL;
}

/* A loop over what ended calls it for each element: false when the budget is used up. */
static inline bool leftover_pay(uint32_t *budget, uint32_t cost) {
    if (*budget == 0) {
        return false;
    }
    *budget -= cost < *budget ? cost : *budget;
    return true;
}

#endif
