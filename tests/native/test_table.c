/* test_table.c: the table from an id to a pointer against a plain array. */
#include "base/table.h"

#include "test.h"

static void table_duel(void) {
    table_t table = {0};
    static uint64_t model[512];
    uint64_t seed = 11, count = 0;
    for (int step = 0; step < 200000; step++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t id = (seed >> 33) % 512;
        if ((seed >> 50) % 2 == 0) {
            CHECK_EQ_I64(STATUS_OK, table_put(&table, id, &model[id]));
            count += model[id] == 0;
            model[id] = 1;
        } else {
            table_drop(&table, id);
            count -= model[id];
            model[id] = 0;
        }
        uint64_t asked = (seed >> 20) % 512;
        CHECK((table_find(&table, asked) == &model[asked]) == (model[asked] == 1));
        CHECK_EQ_U64(count, table_count(&table));
    }
    table_free(&table);
}

static void emptied_while_walked(void) {
    table_t table = {0};
    static uint8_t seen[1000];
    for (uint64_t id = 0; id < 1000; id++) CHECK_EQ_I64(STATUS_OK, table_put(&table, id << 32 | id, &seen[id]));
    map_walk_t walk = {0};
    for (uint8_t *one; (one = table_next(&table, &walk)) != NULL;) {
        uint64_t id = (uint64_t)(one - seen);
        (*one)++;
        table_drop(&table, id << 32 | id);
    }
    CHECK_EQ_U64(0, table_count(&table));
    for (uint64_t id = 0; id < 1000; id++) CHECK_EQ_U64(1, seen[id]);
    table_free(&table);
}

int main(void) {
    RUN("the table of ids finds what a plain array finds", table_duel);
    RUN("a walk that removes each entry that it meets meets each one once", emptied_while_walked);
    return TEST_RESULT();
}
