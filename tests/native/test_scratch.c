/* test_scratch.c: the memory that input is read into: what of it is lent to queues stays as it is, and how much that
 * is. */
#include "net/scratch.h"

#include "test.h"

#define LONG 16384u

static conn_scratch_t scratch;

static void start(void) {
    CHECK_EQ_I64(STATUS_OK, conn_scratch_open(&scratch));
}

/* As a read of a message and its delivery to a queue. */
static shared_t *lend(uint8_t mark, uint32_t *from) {
    conn_scratch_turn(&scratch);
    memset(scratch.at, mark, CONN_SCRATCH_SIZE);
    return conn_scratch_lend(&scratch, bytes_of(scratch.at + 100, LONG), from);
}

static void stays_as_it_is(void) {
    shared_t *lent[CONN_SCRATCHES - 1];
    uint32_t from[CONN_SCRATCHES - 1], none;
    start();
    for (uint8_t i = 0; i < CONN_SCRATCHES - 1; i++) {
        lent[i] = lend(i, &from[i]);
        CHECK(lent[i] != NULL);
    }
    CHECK(lend(100, &none) == NULL); /* one is left to read into */
    CHECK(lend(101, &none) == NULL);
    for (uint8_t i = 0; i < CONN_SCRATCHES - 1; i++) {
        CHECK_EQ_U64(i, lent[i]->at[from[i]]);
        CHECK_EQ_U64(i, lent[i]->at[from[i] + LONG - 1]);
    }
    shared_release(lent[1]);
    lent[1] = lend(102, &from[1]);
    CHECK(lent[1] != NULL);
    conn_scratch_turn(&scratch);
    memset(scratch.at, 103, CONN_SCRATCH_SIZE);
    CHECK_EQ_U64(0, lent[0]->at[from[0]]);
    CHECK_EQ_U64(102, lent[1]->at[from[1]]);
    CHECK_EQ_U64(2, lent[2]->at[from[2]]);
    conn_scratch_close(&scratch);
    for (uint8_t i = 0; i < CONN_SCRATCHES - 1; i++) {
        shared_release(lent[i]); /* a queue may outlive it */
    }
}

static void takes_one_buffer_where_all_is_written(void) {
    uint32_t from;
    start();
    const uint8_t *at = scratch.at;
    for (uint8_t i = 0; i < 100; i++) {
        shared_t *first = lend(i, &from);
        shared_t *second = conn_scratch_lend(&scratch, bytes_of(scratch.at + LONG + 100, LONG), &from);
        CHECK(first != NULL && first == second);
        CHECK(first->at + from == at + LONG + 100);
        shared_release(first);
        shared_release(second);
    }
    conn_scratch_turn(&scratch);
    CHECK(scratch.at == at);
    conn_scratch_close(&scratch);
}

static void lends_only_what_it_has(void) {
    static uint8_t elsewhere[LONG];
    uint32_t from;
    start();
    CHECK(conn_scratch_lend(&scratch, bytes_of(elsewhere, LONG), &from) == NULL);
    CHECK(conn_scratch_lend(&scratch, bytes_of(scratch.at + CONN_SCRATCH_SIZE - LONG + 1, LONG), &from) == NULL);
    shared_t *last = conn_scratch_lend(&scratch, bytes_of(scratch.at + CONN_SCRATCH_SIZE - LONG, LONG), &from);
    CHECK(last != NULL);
    shared_release(last);
    conn_scratch_close(&scratch);
    CHECK(conn_scratch_lend(&scratch, bytes_of(elsewhere, LONG), &from) == NULL);
}

static void gives_back_what_is_spare(void) {
    uint32_t from;
    start();
    shared_t *lent = lend(1, &from);
    conn_scratch_idle(&scratch); /* the next read needs the spare one */
    conn_scratch_turn(&scratch);
    CHECK(scratch.buffers[1] == lent);
    conn_scratch_idle(&scratch);
    CHECK(scratch.buffers[1] == lent);
    shared_release(lent);
    conn_scratch_idle(&scratch);
    CHECK(scratch.buffers[1] == NULL);
    conn_scratch_close(&scratch);
}

int main(void) {
    RUN("what is lent stays as it is until it is given back, and one buffer is always left to read into",
        stays_as_it_is);
    RUN("where all is written before the next read one buffer is enough", takes_one_buffer_where_all_is_written);
    RUN("only what lies in the buffer is lent", lends_only_what_it_has);
    RUN("spare buffers go back, but not while the one that is read into is lent", gives_back_what_is_spare);
    return TEST_RESULT();
}
