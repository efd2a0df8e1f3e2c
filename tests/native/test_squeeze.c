/* test_squeeze.c: batches on their way to the journal and back, compressed: what comes out is what went in, whatever
 * else lies there is refused or passed over. The journal's file is in test_journal.c, damage to a store in
 * test_store_salvage.c. */
#include <stdlib.h>

#include "base/crc.h"
#include "base/random.h"
#include "disk/squeeze.h"
#include "test.h"

#define ROOM (SQUEEZE_MAX + 4096)
#define SALT UINT32_C(0x5eed5a17)

static s2_encoder_t *encoder;
static uint8_t batch[ROOM];
static uint32_t size;
static uint8_t stored[ROOM];
static uint8_t out[ROOM];
static uint8_t other[ROOM];
static uint64_t chance = 7;

static void begin(void) {
    encoder = s2_encoder_new(S2_EFFORT_FAST);
    CHECK(encoder != NULL);
    memset(batch, 0, sizeof batch);
    batch_header_t header = {.position = 65536, .number = 3, .chain = 9, .format = STORE_FORMAT};
    batch_header_write(batch, &header);
    size = BATCH_HEADER_SIZE;
}

static void end(void) {
    s2_encoder_free(encoder);
}

/* A message's op: `noise` of its value's bytes are drawn by chance, the rest repeats. */
static void add_op(uint32_t value_size, uint32_t noise) {
    uint8_t *to = batch + size;
    memset(to, 0, OP_HEADER_SIZE);
    to[0] = OP_PUT;
    to[1] = DB_MESSAGES;
    store_be16(to + 2, MESSAGE_KEY_SIZE);
    store_be32(to + 4, value_size);
    store_be32(to + OP_HEADER_SIZE, 1);
    store_be64(to + OP_HEADER_SIZE + 4, size);
    uint8_t *value = to + OP_HEADER_SIZE + MESSAGE_KEY_SIZE;
    for (uint32_t i = 0; i < value_size; i++) {
        value[i] = i < noise ? (uint8_t)random_next(&chance) : (uint8_t)(i * 7);
    }
    size += OP_HEADER_SIZE + MESSAGE_KEY_SIZE + value_size;
    CHECK(size <= SQUEEZE_MAX);
}

static uint32_t squeezed(void) {
    return squeeze_batch(encoder, SALT, batch, size, stored, sizeof stored);
}

static void comes_back(void) {
    for (uint32_t round = 0; round < 60; round++) {
        begin();
        uint32_t ops = 1 + random_below(&chance, 400);
        for (uint32_t i = 0; i < ops; i++) {
            uint32_t value = 20 + random_below(&chance, round % 3 == 0 ? 1200 : 300);
            add_op(value, random_below(&chance, value));
        }
        uint32_t took = squeezed();
        CHECK(took > 0);
        memset(out, 0xee, sizeof out);
        CHECK(squeeze_open(SALT, stored, took, out, size));
        CHECK(memcmp(out, batch, size) == 0);
        CHECK_EQ_U64(0xee, out[size]);
        end();
    }
}

static void large_ops_come_back(void) {
    static const uint32_t sizes[] = {SQUEEZE_PIECE - 20, SQUEEZE_PIECE, 100000, S2_ENCODE_MAX, 300000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (uint32_t noise = 0; noise <= sizes[i]; noise += sizes[i]) {
            begin();
            add_op(50, 10);
            add_op(sizes[i], noise);
            add_op(50, 10);
            uint32_t took = squeezed();
            CHECK(took > 0);
            CHECK(squeeze_open(SALT, stored, took, out, size));
            CHECK(memcmp(out, batch, size) == 0);
            end();
        }
    }
}

static void same_bytes_each_time(void) {
    static uint8_t again[ROOM];
    begin();
    for (uint32_t i = 0; i < 300; i++) {
        add_op(200, 60);
    }
    uint32_t took = squeezed();
    for (uint32_t i = 0; i < 5; i++) { /* others meanwhile */
        (void)s2_encode(encoder, bytes_of(stored, took), again, sizeof again);
        CHECK_EQ_U64(took, squeeze_batch(encoder, SALT, batch, size, again, sizeof again));
        CHECK(memcmp(again, stored, took) == 0);
    }
    end();
}

static void stays_within_room(void) {
    begin();
    for (uint32_t i = 0; i < 40; i++) {
        add_op(200, 150);
    }
    uint32_t took = squeezed();
    uint8_t *exact = malloc(took);
    CHECK(exact != NULL);
    CHECK_EQ_U64(0, squeeze_batch(encoder, SALT, batch, size, exact, took - 1));
    for (uint32_t room = 0; room < took; room += 1 + room / 16) {
        uint8_t *less = malloc(room + 1);
        CHECK(less != NULL);
        CHECK_EQ_U64(0, squeeze_batch(encoder, SALT, batch, size, less, room));
        free(less);
    }
    free(exact);
    end();
}

static void other_salts_open_nothing(void) {
    begin();
    for (uint32_t i = 0; i < 40; i++) {
        add_op(200, 50);
    }
    uint32_t took = squeezed(), offset = BATCH_HEADER_SIZE, plain;
    bool skipped;
    CHECK(!squeeze_open(SALT + 1, stored, took, out, size));
    CHECK(!squeeze_piece(SALT + 1, bytes_of(stored, took), &offset, out, ROOM, &plain, &skipped));
    const uint8_t one[WITNESS_ID_SIZE] = "0123456789abcde", two[WITNESS_ID_SIZE] = "0123456789abcdf";
    CHECK(squeeze_salt(one, 4096) != squeeze_salt(two, 4096));
    CHECK(squeeze_salt(one, 4096) != squeeze_salt(one, 8192));
    end();
}

/* Ops of all sound pieces, one behind the other, from BATCH_HEADER_SIZE of `out` on. Returns their end; *gaps: between
 * them. */
static uint32_t gather(uint32_t took, uint32_t *gaps) {
    uint32_t offset = BATCH_HEADER_SIZE, filled = BATCH_HEADER_SIZE, plain = 0;
    bool skipped = false;
    *gaps = 0;
    while (squeeze_piece(SALT, bytes_of(stored, took), &offset, out + filled, ROOM - filled, &plain, &skipped)) {
        filled += plain;
        *gaps += skipped;
    }
    return filled;
}

static void damage_costs_its_piece(void) {
    begin();
    for (uint32_t i = 0; i < 600; i++) {
        add_op(200, 90);
    }
    uint32_t took = squeezed(), gaps;
    CHECK_EQ_U64(size, gather(took, &gaps));
    CHECK_EQ_U64(0, gaps);
    CHECK(memcmp(out + BATCH_HEADER_SIZE, batch + BATCH_HEADER_SIZE, size - BATCH_HEADER_SIZE) == 0);
    for (uint32_t at = BATCH_HEADER_SIZE; at < took; at += 97) {
        stored[at] ^= 0x10;
        uint32_t end_of = gather(took, &gaps);
        CHECK(!squeeze_open(SALT, stored, took, other, size)); /* as a whole it is refused */
        CHECK(end_of < size);
        CHECK(end_of >= size - SQUEEZE_PIECE);
        uint32_t offset = BATCH_HEADER_SIZE, count = 0;
        batch_op_t op;
        while (offset < end_of) {
            CHECK(op_next(out, end_of, &offset, &op)); /* whole ops, none of them another than before */
            uint64_t was = load_be64(op.key.at + 4);
            CHECK(memcmp(op.key.at, batch + was + OP_HEADER_SIZE, op.key.size + op.value.size) == 0);
            count++;
        }
        CHECK(count >= 600 - SQUEEZE_PIECE / 200);
        stored[at] ^= 0x10;
    }
    end();
}

static void bytes_by_chance_are_refused(void) {
    begin();
    for (uint32_t i = 0; i < 100; i++) {
        add_op(200, 30);
    }
    uint32_t took = squeezed();
    for (uint32_t round = 0; round < 3000; round++) {
        uint32_t cut = BATCH_HEADER_SIZE + random_below(&chance, took - BATCH_HEADER_SIZE);
        uint8_t *copy = malloc(took), *to = malloc(size);
        CHECK(copy != NULL && to != NULL);
        memcpy(copy, stored, took);
        for (uint32_t i = 0; i < 1 + round % 5; i++) {
            copy[BATCH_HEADER_SIZE + random_below(&chance, took - BATCH_HEADER_SIZE)] ^=
                (uint8_t)(1 + random_below(&chance, 255));
        }
        if (memcmp(copy, stored, took) != 0) {
            CHECK(!squeeze_open(SALT, copy, took, to, size));
        }
        CHECK(!squeeze_open(SALT, stored, cut, to, size));
        free(copy);
        free(to);
    }
    end();
}

/* A piece whose checksum holds and whose block says another size, as only a fault of our own could make it. */
static void wrong_sizes_are_refused(void) {
    begin();
    add_op(2000, 0);
    uint32_t took = squeezed();
    uint8_t *piece = stored + BATCH_HEADER_SIZE;
    uint32_t packed = load_be32(piece + 4);
    CHECK(packed < 2000);
    store_be32(piece, load_be32(piece) - 1);
    store_be32(piece + 8, crc32c(crc32c(SALT, piece, 8), piece + 12, packed));
    CHECK(!squeeze_open(SALT, stored, took, out, size));
    CHECK(!squeeze_open(SALT, stored, took, out, size - 1));
    end();
}

int main(void) {
    RUN("a batch that was compressed is the same when it is opened", comes_back);
    RUN("so is one with ops larger than a piece, and than what is compressed at all", large_ops_come_back);
    RUN("a batch makes the same bytes each time: it may be written again after a refusal", same_bytes_each_time);
    RUN("what does not fit into its room writes nothing behind it and is refused", stays_within_room);
    RUN("of another store, or from another position, nothing is taken", other_salts_open_nothing);
    RUN("a damaged byte costs the ops of one piece, and the others are as they were", damage_costs_its_piece);
    RUN("a batch with other bytes, or cut short, is refused", bytes_by_chance_are_refused);
    RUN("a piece that opens to another size than it says is refused", wrong_sizes_are_refused);
    return TEST_RESULT();
}
