/* test_journal.c: the journal's file alone: what replay takes for valid, and above all what it does not. */
#include <sys/stat.h>

#include "base/crc.h"
#include "base/random.h"
#include "disk/journal.h"
#include "store_rig.h"

#define RING (UINT64_C(1) << 20)
#define START UINT64_C(65536)

static const uint8_t id[STORE_ID_SIZE] = "0123456789abcde";
static char directory[64];
static char path[96];
static journal_t journal;
static batches_t batches;

static journal_found_t open_journal(void) {
    char reason[512];
    journal_found_t found;
    if (journal_open(&journal, directory, id, &found, reason, sizeof reason) != STATUS_OK) {
        FAIL("%s", reason);
    }
    return found;
}

static void make_journal(void) {
    char reason[512];
    if (journal_make(&journal, directory, RING, id, START, reason, sizeof reason) != STATUS_OK) {
        FAIL("%s", reason);
    }
}

static void begin(uint64_t position) {
    snprintf(directory, sizeof directory, "/tmp/leafd-journal-test.XXXXXX");
    CHECK(mkdtemp(directory) != NULL);
    snprintf(path, sizeof path, "%s/journal", directory);
    journal.sealer = test_sealer();
    CHECK_EQ_I64(JOURNAL_ABSENT, open_journal());
    make_journal();
    CHECK_EQ_I64(STATUS_OK, batches_open(&batches, RING, JOURNAL_ALIGNMENT, position, 1));
    batches_reserve(&batches, sealer_overhead(journal.sealer));
}

static void end(void) {
    journal_close(&journal);
    batches_close(&batches);
    unlink(path);
    rmdir(directory);
}

/* Seals the open batch as the journal thread would, and writes it. Returns its crc; *size as in its header. */
static uint32_t write_batch(uint32_t chain, uint32_t *size) {
    uint64_t from = batches.begin;
    batch_seal(&batches);
    uint8_t *at = batches_at(&batches, from);
    batch_header_t header;
    CHECK(batch_header_read(at, &header));
    header.chain = chain;
    batch_header_write(at, &header);
    if (journal.sealer != NULL) {
        CHECK_EQ_I64(STATUS_OK, journal_seal(&journal, at, from, header.size));
        CHECK(batch_header_read(at, &header));
        CHECK_EQ_I64(STATUS_OK, journal_write_staged(&journal, &batches, from));
    } else {
        header.crc = batch_crc(at, header.size);
        batch_header_write(at, &header);
        CHECK_EQ_I64(STATUS_OK, journal_write(&journal, at, from, batches.begin - from));
    }
    CHECK_EQ_I64(STATUS_OK, journal_sync(&journal));
    *size = header.size;
    return header.crc;
}

static void add_op(uint32_t size, uint8_t fill) {
    uint64_t position;
    memset(batch_op(&batches, OP_PUT, DB_META, text("key"), size, &position), fill, size);
}

static status_t look(uint64_t position, uint64_t number, uint32_t chain) {
    batch_header_t header;
    bool ended = false;
    status_t status = journal_read(&journal, &batches, position, number, chain, &header, &ended);
    CHECK(status == STATUS_OK || !ended);
    return ended ? STATUS_NOT_FOUND : status;
}

static void reads_back(void) {
    begin(START);
    uint32_t size;
    add_op(100, 'a');
    uint32_t first = write_batch(7, &size);
    add_op(9000, 'b');
    write_batch(first, &size);
    CHECK_EQ_I64(STATUS_OK, look(START, 1, 7));
    CHECK_EQ_I64(STATUS_OK, look(START + 4096, 2, first));
    batch_op_t op;
    uint32_t offset = BATCH_HEADER_SIZE;
    CHECK(op_next(batches_at(&batches, START + 4096), size, &offset, &op));
    CHECK_EQ_U64(9000, op.value.size);
    CHECK_EQ_U64('b', op.value.at[8999]);
    CHECK(!op_next(batches_at(&batches, START + 4096), size, &offset, &op));
    end();
}

static void wrong_place_number_chain(void) {
    begin(START);
    uint32_t size;
    add_op(100, 'a');
    uint32_t crc = write_batch(7, &size);
    CHECK_EQ_I64(STATUS_NOT_FOUND, look(START, 2, 7));
    CHECK_EQ_I64(STATUS_NOT_FOUND, look(START, 1, 8));
    CHECK_EQ_I64(STATUS_NOT_FOUND, look(START + RING, 1, 7)); /* a lap later */
    CHECK_EQ_I64(STATUS_NOT_FOUND, look(START + 4096, 2, crc));
    end();
}

static void every_flip_ends_replay(void) {
    begin(START);
    uint32_t size;
    add_op(700, 'a');
    write_batch(7, &size);
    static uint8_t good[JOURNAL_START];
    CHECK_EQ_I64(sizeof good, pread(journal.fd, good, sizeof good, (off_t)(JOURNAL_START + START)));
    for (uint32_t i = 0; i < size; i++) {
        uint8_t bad = good[i] ^ (uint8_t)(1u << (i % 8));
        CHECK_EQ_I64(1, pwrite(journal.fd, &bad, 1, (off_t)(JOURNAL_START + START + i)));
        CHECK_EQ_I64(STATUS_NOT_FOUND, look(START, 1, 7));
        CHECK_EQ_I64(1, pwrite(journal.fd, &good[i], 1, (off_t)(JOURNAL_START + START + i)));
    }
    CHECK_EQ_I64(STATUS_OK, look(START, 1, 7));
    end();
}

static void every_cut_ends_replay(void) {
    begin(START);
    uint32_t size;
    add_op(9000, 'a');
    write_batch(7, &size);
    static uint8_t good[12288];
    static uint8_t torn[12288];
    CHECK_EQ_I64(sizeof good, pread(journal.fd, good, sizeof good, (off_t)(JOURNAL_START + START)));
    for (uint32_t i = 0; i < size; i += 37) { /* written up to i, behind it what an older lap left */
        memset(torn, 'o', sizeof torn);
        memcpy(torn, good, i);
        CHECK_EQ_I64(sizeof torn, pwrite(journal.fd, torn, sizeof torn, (off_t)(JOURNAL_START + START)));
        CHECK_EQ_I64(STATUS_NOT_FOUND, look(START, 1, 7));
    }
    for (uint32_t sector = 0; sector < size; sector += 512) { /* all but one sector written */
        memcpy(torn, good, sizeof torn);
        memset(torn + sector, 0, 512);
        CHECK_EQ_I64(sizeof torn, pwrite(journal.fd, torn, sizeof torn, (off_t)(JOURNAL_START + START)));
        CHECK_EQ_I64(STATUS_NOT_FOUND, look(START, 1, 7));
    }
    CHECK_EQ_I64(sizeof good, pwrite(journal.fd, good, sizeof good, (off_t)(JOURNAL_START + START)));
    CHECK_EQ_I64(STATUS_OK, look(START, 1, 7));
    end();
}

static void wraps(void) {
    uint64_t near_end = 3 * RING - 8192;
    begin(near_end);
    uint32_t size;
    add_op(20000, 'w');
    write_batch(7, &size);
    memset(batches.at, 0, RING);
    CHECK_EQ_I64(STATUS_OK, look(near_end, 1, 7));
    batch_op_t op;
    uint32_t offset = BATCH_HEADER_SIZE;
    CHECK(op_next(batches_at(&batches, near_end), size, &offset, &op));
    CHECK_EQ_U64('w', op.value.at[19999]);
    end();
}

static void check_found(journal_found_t expected) {
    journal_t other = journal;
    CHECK_EQ_I64(expected, open_journal());
    journal_close(&journal);
    journal = other;
}

static void patch(off_t at, const void *bytes, size_t size) {
    CHECK_EQ_I64((int64_t)size, pwrite(journal.fd, bytes, size, at));
}

static void first_block(void) {
    begin(START);
    static uint8_t block[JOURNAL_START];
    CHECK_EQ_I64(sizeof block, pread(journal.fd, block, sizeof block, 0));
    patch(24, "another", 7);
    check_found(JOURNAL_HEADLESS);
    patch(0, block, sizeof block);
    patch(8, "\0\0\0\2", 4);
    check_found(JOURNAL_NEWER);
    patch(0, "#!/bin/sh", 8);
    check_found(JOURNAL_STRANGE);
    patch(0, "\0\0\0\0\0\0\0\0", 8);
    check_found(JOURNAL_BLANK);
    memcpy(block + 24, "0123456789abcdX", 15);
    uint32_t crc = crc32c(0, block + 16, JOURNAL_START - 16);
    store_be32(block + 12, crc);
    patch(0, block, sizeof block);
    check_found(JOURNAL_FOREIGN);
    end();
}

static void too_short(void) {
    begin(START);
    CHECK_EQ_I64(0, ftruncate(journal.fd, 50000));
    check_found(JOURNAL_SHORT);
    CHECK_EQ_I64(0, ftruncate(journal.fd, 500));
    check_found(JOURNAL_BLANK);
    end();
}

static void its_batches_say_whose_it_is(void) {
    begin(START);
    uint32_t size;
    add_op(100, 'a');
    uint32_t first = write_batch(0, &size);
    add_op(100, 'b');
    uint32_t second = write_batch(first, &size);
    CHECK(journal_continues(&journal, START + 4096, 1, first, id));
    CHECK(journal_continues(&journal, START + 8192, 2, second, id));
    CHECK(!journal_continues(&journal, START + 8192, 2, second ^ 1, id));
    CHECK(!journal_continues(&journal, START + 12288, 2, second, id));
    CHECK(!journal_continues(&journal, START + 4096 + RING, 1, first, id));
    end();
}

/* ---- compressed batches ------------------------------------------------------------------------------------------ */

/* Writes the open batch compressed; where it begins. */
static uint64_t write_squeezed(uint32_t chain, batch_header_t *header) {
    uint64_t from = batches.begin;
    batch_seal(&batches);
    uint8_t *at = batches_at(&batches, from);
    CHECK(batch_header_read(at, header));
    header->chain = chain;
    batch_header_write(at, header);
    CHECK(journal_squeeze(&journal, at, from, header->size));
    CHECK(batch_header_read(at, header));
    CHECK(header->blocks > 0);
    CHECK_EQ_I64(STATUS_OK, journal_write_staged(&journal, &batches, from));
    return from;
}

static void squeezed_reads_back(void) {
    begin(3 * RING - 8192); /* over the end of the circle */
    batch_header_t header;
    static uint8_t blocks[3][JOURNAL_ALIGNMENT];
    for (uint32_t i = 0; i < 300; i++) {
        add_op(100, (uint8_t)i);
    }
    uint64_t from = write_squeezed(7, &header);
    CHECK(header.blocks <= 3);
    memcpy(blocks, journal.stage.at, header.blocks * sizeof *blocks);
    journal.stage.holds = false; /* as after a refusal, with another batch compressed meanwhile */
    CHECK_EQ_I64(STATUS_OK, journal_write_staged(&journal, &batches, from));
    CHECK(memcmp(blocks, journal.stage.at, header.blocks * sizeof *blocks) == 0);
    memset(batches.at, 0, RING);
    CHECK_EQ_I64(STATUS_NOT_FOUND, look(from, 1, 8));
    CHECK_EQ_I64(STATUS_NOT_FOUND, look(from + RING, 1, 7));
    CHECK_EQ_I64(STATUS_OK, look(from, 1, 7));
    batch_op_t op;
    uint32_t offset = BATCH_HEADER_SIZE;
    for (uint32_t i = 0; i < 300; i++) {
        CHECK(op_next(batches_at(&batches, from), header.size, &offset, &op));
        CHECK_EQ_U64((uint8_t)i, op.value.at[99]);
    }
    CHECK_EQ_U64(header.size, offset);
    end();
}

static void squeezed_flips_end_replay(void) {
    begin(START);
    batch_header_t header;
    for (uint32_t i = 0; i < 100; i++) {
        add_op(100, (uint8_t)i);
    }
    write_squeezed(7, &header);
    for (uint32_t i = 0; i < header.blocks * BATCH_BLOCK; i++) {
        uint8_t byte;
        CHECK_EQ_I64(1, pread(journal.fd, &byte, 1, (off_t)(JOURNAL_START + START + i)));
        byte ^= (uint8_t)(1u << (i % 8));
        patch((off_t)(JOURNAL_START + START + i), &byte, 1);
        CHECK_EQ_I64(STATUS_NOT_FOUND, look(START, 1, 7));
        byte ^= (uint8_t)(1u << (i % 8));
        patch((off_t)(JOURNAL_START + START + i), &byte, 1);
    }
    CHECK_EQ_I64(STATUS_OK, look(START, 1, 7));
    end();
}

static void noise_stays_plain(void) {
    begin(START);
    uint64_t position;
    uint64_t state = 5;
    uint8_t *value = batch_op(&batches, OP_PUT, DB_META, text("k"), 9000, &position);
    for (uint32_t i = 0; i < 9000; i++) {
        value[i] = (uint8_t)random_next(&state);
    }
    batch_seal(&batches);
    batch_header_t header;
    uint8_t *at = batches_at(&batches, START);
    CHECK(batch_header_read(at, &header));
    CHECK(!journal_squeeze(&journal, at, START, header.size));
    CHECK(batch_header_read(at, &header));
    CHECK_EQ_U64(0, header.blocks);
    end();
}

static void blanked(void) {
    begin(START);
    uint32_t size, chain = 0;
    uint32_t crcs[4];
    for (uint32_t i = 0; i < 4; i++) {
        add_op(100, (uint8_t)i);
        crcs[i] = chain = write_batch(chain, &size);
    }
    CHECK_EQ_I64(STATUS_OK, look(START + 3 * 4096, 4, crcs[2]));
    CHECK_EQ_I64(STATUS_OK, journal_blank(&journal, START + 2 * 4096));
    CHECK_EQ_I64(STATUS_OK, look(START, 1, 0));
    CHECK_EQ_I64(STATUS_OK, look(START + 4096, 2, crcs[0]));
    CHECK_EQ_I64(STATUS_NOT_FOUND, look(START + 2 * 4096, 3, crcs[1]));
    CHECK_EQ_I64(STATUS_NOT_FOUND, look(START + 3 * 4096, 4, crcs[2]));
    end();
}

/* The newest batch takes one block of its many: of the lap before, the batches in the others are whole, and end where
 * the oldest of this lap begins. */
static void rows_end_with_the_lap(void) {
    begin(0);
    memcpy(batches.store_id, id, sizeof id);
    batches_witness(&batches, id);
    batch_header_t header;
    uint32_t size, chain = 0;
    for (uint64_t block = 0; block < RING / 4096; block++) {
        batches_free(&batches, batches.begin);
        add_op(100, 'a');
        chain = write_batch(chain, &size);
    }
    CHECK_EQ_U64(RING, batches.begin);
    batches_free(&batches, batches.begin);
    for (uint32_t i = 0; i < 400; i++) {
        add_op(100, 'b');
    }
    write_squeezed(chain, &header);
    CHECK(header.size > 10 * BATCH_BLOCK);
    CHECK_EQ_U64(1, header.blocks);
    uint64_t position, number;
    CHECK(journal_row(&journal, id, &position, &number, &chain));
    CHECK_EQ_U64(batches.begin - RING, position);
    CHECK_EQ_U64(position / 4096, number);
    end();
}

/* ---- the ring in memory ------------------------------------------------------------------------------------------ */

#define WIDE (UINT64_C(4) << 20)

/* A sealed batch whose bytes tell its place in the row; where it begins. */
static uint64_t add_batch(uint32_t number, uint32_t size) {
    uint64_t position;
    uint64_t from = batches.begin;
    CHECK(batch_fits(&batches, op_size(1, size)));
    uint8_t *value = batch_op(&batches, OP_PUT, DB_META, text("k"), size, &position);
    for (uint32_t i = 0; i < size; i++) {
        value[i] = (uint8_t)(i * 7 + number);
    }
    batch_seal(&batches);
    return from;
}

static void expect_batch(const uint8_t *at, uint32_t number, uint32_t size) {
    uint32_t offset = BATCH_HEADER_SIZE;
    batch_header_t header;
    batch_op_t op;
    CHECK(batch_header_read(at, &header));
    CHECK(op_next(at, header.size, &offset, &op));
    CHECK_EQ_U64(size, op.value.size);
    for (uint32_t i = 0; i < size; i++) {
        CHECK_EQ_U64((uint8_t)(i * 7 + number), op.value.at[i]);
    }
}

static uint64_t taken_bytes(void) {
    struct stat memory;
    CHECK_EQ_I64(0, fstat(batches.fd, &memory));
    return (uint64_t)memory.st_blocks * 512;
}

/* Wherever in the circle it is, and with a batch over its end: whoever took a batch's address before reads it there,
 * and who takes it now finds it, too, until it is freed. */
static void widens_in_use(void) {
    enum { SIZE = 300000, COUNT = 3 };
    for (uint64_t place = 0; place < WIDE; place += WIDE / 16) {
        const uint8_t *before[COUNT];
        uint64_t from[COUNT];
        CHECK_EQ_I64(STATUS_OK, batches_open(&batches, WIDE, JOURNAL_ALIGNMENT, 5 * WIDE + place, 1));
        batches_narrow(&batches, 4);
        for (uint32_t i = 0; i < COUNT; i++) {
            from[i] = add_batch(i, SIZE);
            before[i] = batches_at(&batches, from[i]);
        }
        CHECK(!batch_fits(&batches, SIZE)); /* a narrow ring is full earlier */
        CHECK(batches_widen(&batches, WIDE));
        CHECK(!batch_fits(&batches, SIZE)); /* what is in use has two addresses until it is freed */
        for (uint32_t i = 0; i < COUNT; i++) {
            expect_batch(before[i], i, SIZE);
            expect_batch(batches_at(&batches, from[i]), i, SIZE);
        }
        batches_free(&batches, batches.begin);
        for (uint32_t i = 0; i < 2 * COUNT; i++) {
            uint64_t at = add_batch(i + 10, SIZE);
            expect_batch(batches_at(&batches, at), i + 10, SIZE);
        }
        batches_close(&batches);
    }
}

static void takes_what_it_needs(void) {
    CHECK_EQ_I64(STATUS_OK, batches_open(&batches, WIDE, JOURNAL_ALIGNMENT, 0, 1));
    batches_narrow(&batches, 4);
    for (uint32_t i = 0; i < 100; i++) {
        add_batch(i, 100000);
        batches_free(&batches, batches.begin);
    }
    CHECK(taken_bytes() > 0);
    CHECK(taken_bytes() <= WIDE / 4);
    CHECK(batches_widen(&batches, WIDE));
    for (uint32_t i = 0; i < 100; i++) {
        add_batch(i, 100000);
        batches_free(&batches, batches.begin);
    }
    CHECK_EQ_U64(WIDE, taken_bytes());
    batches_narrow(&batches, 4);
    CHECK_EQ_U64(0, taken_bytes());
    CHECK_EQ_U64(WIDE / 4, batches.lap);
    batches_close(&batches);
}

int main(void) {
    RUN("batches are read back whole", reads_back);
    RUN("another place, number, chain or lap is not valid", wrong_place_number_chain);
    RUN("no flipped bit anywhere in a batch goes unseen", every_flip_ends_replay);
    RUN("a batch that was written in part is not valid, wherever it was cut", every_cut_ends_replay);
    RUN("a batch over the end of the circle is whole", wraps);
    RUN("a ring that gets more memory while it is in use keeps every byte at every address", widens_in_use);
    RUN("a ring at rest has no memory, a narrow one has a part of it", takes_what_it_needs);
    RUN("a damaged, newer, foreign or strange file is told apart", first_block);
    RUN("a file that lost its end is told apart", too_short);
    RUN("without a first block, the batches say whose journal it is", its_batches_say_whose_it_is);
    if (test_sealer() == NULL) { /* what is sealed is not compressed */
        RUN("a compressed batch is read back whole, and written again as it was", squeezed_reads_back);
        RUN("no flipped bit anywhere in it goes unseen", squeezed_flips_end_replay);
        RUN("a batch that would take as many blocks stays plain", noise_stays_plain);
        RUN("a row of batches never has more than a lap", rows_end_with_the_lap);
    }
    RUN("what is blanked is no batch any more, and what is before it still is", blanked);
    return TEST_RESULT();
}
