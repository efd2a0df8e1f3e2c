/* test_holders.c: who gives up its oldest when a share of memory is full. */
#include "base/holders.h"

#include "test.h"

#define MANY 64u

typedef struct owner {
    holder_t holder; /* first */
    uint64_t row;    /* all of its rows are of this size */
    uint64_t rows;
    uint64_t given_up;
} owner_t;

static holders_t holders;
static owner_t owners[MANY];

static void give_up(holder_t *holder, void *context) {
    owner_t *owner = (owner_t *)holder;
    CHECK(context == &holders);
    CHECK(owner->rows != 0);
    owner->rows--;
    owner->given_up++;
    holders_give(&holders, holder, owner->row);
}

static void start(uint64_t limit) {
    holders_open(&holders, limit, &holders);
    for (uint32_t i = 0; i < MANY; i++) owners[i] = (owner_t){.holder.drop_oldest = give_up, .row = 1};
}

static void take(owner_t *owner, uint64_t rows) {
    for (uint64_t i = 0; i < rows; i++) {
        CHECK(holders_take(&holders, &owner->holder, owner->row));
        owner->rows++;
        CHECK_EQ_U64(owner->rows * owner->row, owner->holder.bytes);
        CHECK(holders.share.used <= holders.share.limit);
    }
}

static void the_largest_gives_up(void) {
    start(100);
    take(&owners[0], 90);
    take(&owners[1], 10);
    take(&owners[1], 30);
    CHECK_EQ_U64(30, owners[0].given_up);
    CHECK_EQ_U64(0, owners[1].given_up);
    take(&owners[2], 20);
    CHECK_EQ_U64(0, owners[2].given_up);
    CHECK_EQ_U64(40, owners[0].rows);
    CHECK_EQ_U64(40, owners[1].rows);
}

static void one_alone_gives_up_its_own(void) {
    start(100);
    take(&owners[0], 250);
    CHECK_EQ_U64(150, owners[0].given_up);
    CHECK_EQ_U64(100, holders.share.used);
}

static void too_large_for_all(void) {
    start(100);
    take(&owners[0], 10);
    CHECK(!holders_take(&holders, &owners[1].holder, 101));
    CHECK_EQ_U64(0, owners[0].given_up);
    CHECK(holders_take(&holders, &owners[1].holder, 100));
    CHECK_EQ_U64(10, owners[0].given_up);
}

/* Also while others come and go: the small ones keep what they have. */
static void one_that_floods_among_many(void) {
    start(1000);
    uint64_t seed = 7;
    for (uint32_t step = 0; step < 20000; step++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        owner_t *small = &owners[1 + (seed >> 33) % (MANY - 1)];
        if (small->rows < 5) {
            take(small, 1);
        } else {
            small->rows--;
            holders_give(&holders, &small->holder, 1);
        }
        take(&owners[0], 3);
    }
    for (uint32_t i = 1; i < MANY; i++) CHECK_EQ_U64(0, owners[i].given_up);
    CHECK(owners[0].given_up > 50000);
}

int main(void) {
    RUN("the holder with the most gives up its oldest", the_largest_gives_up);
    RUN("a holder that is alone gives up its own oldest", one_alone_gives_up_its_own);
    RUN("what is larger than the share is refused, and nobody gives anything up for it", too_large_for_all);
    RUN("one that floods loses nothing of the others, however many come and go", one_that_floods_among_many);
    return TEST_RESULT();
}
