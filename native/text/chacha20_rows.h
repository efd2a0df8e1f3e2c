/* chacha20_rows.h: the rounds of chacha20.c, which includes this once for each size of vector, with these defined:
 *
 *     ROW_SIZE           bytes of a vector; it has the same row of ROW_SIZE / 16 blocks
 *     ROWS(name)         `name` as it is called for this size
 *     ROWS_TARGET        what the processor has to know
 *     EACH(a, b, c, d)   four words within each block's part of a vector
 *
 * A block is four rows of four words: constant, key, key, counter and nonce. So what differs between blocks is one row,
 * and any 16 bytes may stand there. Columns are worked on side by side; for the diagonals the rows are turned.
 */

typedef uint32_t ROWS(row_t) __attribute__((vector_size(ROW_SIZE)));

typedef struct ROWS(blocks) {
    ROWS(row_t) a, b, c, d;
} ROWS(blocks_t);

ROWS_TARGET INLINE ROWS(row_t) ROWS(turn)(ROWS(row_t) v, int by) {
    return v << by | v >> (32 - by);
}

ROWS_TARGET INLINE void ROWS(quarters)(ROWS(blocks_t) * x) {
    x->a += x->b;
    x->d = ROWS(turn)(x->d ^ x->a, 16);
    x->c += x->d;
    x->b = ROWS(turn)(x->b ^ x->c, 12);
    x->a += x->b;
    x->d = ROWS(turn)(x->d ^ x->a, 8);
    x->c += x->d;
    x->b = ROWS(turn)(x->b ^ x->c, 7);
}

ROWS_TARGET INLINE void ROWS(double_round)(ROWS(blocks_t) * x) {
    ROWS(quarters)(x);
    x->b = SHUFFLE(ROWS(row_t), x->b, EACH(1, 2, 3, 0));
    x->c = SHUFFLE(ROWS(row_t), x->c, EACH(2, 3, 0, 1));
    x->d = SHUFFLE(ROWS(row_t), x->d, EACH(3, 0, 1, 2));
    ROWS(quarters)(x);
    x->b = SHUFFLE(ROWS(row_t), x->b, EACH(3, 0, 1, 2));
    x->c = SHUFFLE(ROWS(row_t), x->c, EACH(2, 3, 0, 1));
    x->d = SHUFFLE(ROWS(row_t), x->d, EACH(1, 2, 3, 0));
}

/* The same 16 bytes for each block. */
ROWS_TARGET INLINE ROWS(row_t) ROWS(spread)(const uint8_t *at) {
    ROWS(row_t) row;
    for (unsigned i = 0; i < ROW_SIZE; i += 16) {
        memcpy((uint8_t *)&row + i, at, 16);
    }
    return row;
}

ROWS_TARGET INLINE ROWS(blocks_t) ROWS(begin)(const ROWS(blocks_t) * same, const uint8_t *inputs) {
    ROWS(blocks_t) x = *same;
    memcpy(&x.d, inputs, ROW_SIZE);
    return x;
}

/* Adds what there was, and lays the blocks one behind the other. */
ROWS_TARGET INLINE void ROWS(end)(const ROWS(blocks_t) * x, const ROWS(blocks_t) * same, const uint8_t *inputs,
                                  uint8_t *blocks) {
    ROWS(blocks_t) first = ROWS(begin)(same, inputs);
    ROWS(row_t) rows[4] = {x->a + first.a, x->b + first.b, x->c + first.c, x->d + first.d};
    for (unsigned i = 0; i < ROW_SIZE / 16; i++) {
        for (unsigned row = 0; row < 4; row++) {
            memcpy(blocks + i * CHACHA20_BLOCK_SIZE + row * (size_t)16, (const uint8_t *)&rows[row] + i * (size_t)16,
                   16);
        }
    }
}

/* Some blocks at once, in one vector a row and in four: these keep the processor busy, one waits for itself. */
ROWS_TARGET static void ROWS(by_one)(const ROWS(blocks_t) * same, const uint8_t *inputs, uint8_t *blocks) {
    ROWS(blocks_t) x = ROWS(begin)(same, inputs);
    for (int i = 0; i < DOUBLE_ROUNDS; i++) {
        ROWS(double_round)(&x);
    }
    ROWS(end)(&x, same, inputs, blocks);
}

ROWS_TARGET static void ROWS(by_four)(const ROWS(blocks_t) * same, const uint8_t *inputs, uint8_t *blocks) {
    ROWS(blocks_t) x0 = ROWS(begin)(same, inputs);
    ROWS(blocks_t) x1 = ROWS(begin)(same, inputs + ROW_SIZE);
    ROWS(blocks_t) x2 = ROWS(begin)(same, inputs + 2 * ROW_SIZE);
    ROWS(blocks_t) x3 = ROWS(begin)(same, inputs + 3 * ROW_SIZE);
    for (int i = 0; i < DOUBLE_ROUNDS; i++) {
        ROWS(double_round)(&x0);
        ROWS(double_round)(&x1);
        ROWS(double_round)(&x2);
        ROWS(double_round)(&x3);
    }
    ROWS(end)(&x0, same, inputs, blocks);
    ROWS(end)(&x1, same, inputs + ROW_SIZE, blocks + 4 * ROW_SIZE);
    ROWS(end)(&x2, same, inputs + 2 * ROW_SIZE, blocks + 8 * ROW_SIZE);
    ROWS(end)(&x3, same, inputs + 3 * ROW_SIZE, blocks + 12 * ROW_SIZE);
}

ROWS_TARGET static void ROWS(all)(const uint8_t *key, const uint8_t *inputs, size_t count, uint8_t *blocks) {
    ROWS(blocks_t) same = {ROWS(spread)(constant), ROWS(spread)(key), ROWS(spread)(key + 16), ROWS(spread)(constant)};
    while (count >= ROW_SIZE / 4) {
        ROWS(by_four)(&same, inputs, blocks);
        inputs += 4 * ROW_SIZE;
        blocks += 16 * ROW_SIZE;
        count -= ROW_SIZE / 4;
    }
    if (count > 0) { /* four take little longer than one */
        uint8_t last[4 * ROW_SIZE] = {0};
        uint8_t room[16 * ROW_SIZE];
        memcpy(last, inputs, count * CHACHA20_INPUT_SIZE);
        if (count <= ROW_SIZE / 16) {
            ROWS(by_one)(&same, last, room);
        } else {
            ROWS(by_four)(&same, last, room);
        }
        memcpy(blocks, room, count * CHACHA20_BLOCK_SIZE);
    }
}
