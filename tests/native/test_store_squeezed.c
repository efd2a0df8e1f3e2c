/* test_store_squeezed.c: a store whose journal has compressed batches, after a kill and after damage. What must hold:
 * what was acknowledged is there, or is not there and is named; nothing wrong is served. The bytes of such a batch are
 * in test_squeeze.c, damage to plain ones in test_store_salvage.c. */
#include "disk/journal.h"
#include "store_rig.h"
#include "unreserved.h"

#define EARLIER 3
#define TOGETHER 1000 /* messages of the batch */
#define LATER 2
#define ALL (EARLIER + TOGETHER + LATER)
#define RING (UINT64_C(4) << 20)
#define BLOCK JOURNAL_ALIGNMENT

static rig_t rig;
static store_stream_t *stream;
static uint8_t pristine[JOURNAL_START + RING]; /* the journal as the kill left it */
static uint8_t journal[JOURNAL_START + RING];
static uint8_t highwater[4096];
static uint8_t lmdb[8 << 20];
static size_t lmdb_size;
static size_t begins;         /* of the compressed batch */
static batch_header_t header; /* its */

static bytes_t payload_of(uint64_t seq, char to[256]) {
    int size = snprintf(to, 256,
                        "{\"sensor\":\"press-%llu\",\"state\":\"running\",\"unit\":\"celsius\",\"value\":%llu,"
                        "\"site\":\"plant\",\"id\":\"%016llx%016llx\"}",
                        (unsigned long long)(seq % 10), (unsigned long long)(seq * 7919 % 1000),
                        (unsigned long long)(seq * UINT64_C(0x9e3779b97f4a7c15)),
                        (unsigned long long)(seq * seq * UINT64_C(0xd6e8feb86659fd93)));
    return bytes_of(to, (uint32_t)size);
}

static void put(uint64_t seq) {
    char room[256];
    const append_t append = {.subject = text(seq % 2 == 0 ? "sq.a" : "sq.b"), .payload = payload_of(seq, room)};
    CHECK_EQ_U64(seq, store_append(stream, &append, rig.now).seq);
}

static void find_batch(void) {
    uint32_t found = 0;
    batch_header_t each;
    for (size_t at = JOURNAL_START; at + BLOCK <= sizeof pristine; at += BLOCK) {
        if (batch_header_read(pristine + at, &each) && each.blocks != 0) {
            found++;
            begins = at;
            header = each;
        }
    }
    CHECK_EQ_U64(1, found);
    CHECK(header.blocks > 3);
    CHECK(header.blocks * BLOCK < header.size / 2);
}

static void begin(void) {
    rig = (rig_t){.in_memory = true, .options.journal_size = RING};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    for (uint64_t seq = 1; seq <= ALL; seq++) {
        put(seq);
        if (seq <= EARLIER || seq >= EARLIER + TOGETHER) {
            rig_sync(&rig);
        }
        if (seq == EARLIER) {
            rig_checkpoint(&rig);
        }
    }
    rig_kill(&rig);
    CHECK_EQ_U64(sizeof pristine, rig_read_at(&rig, "journal", pristine, sizeof pristine, 0));
    CHECK_EQ_U64(sizeof highwater, rig_read_at(&rig, "highwater", highwater, sizeof highwater, 0));
    lmdb_size = rig_read_at(&rig, "data.mdb", lmdb, sizeof lmdb, 0);
    find_batch();
    memcpy(journal, pristine, sizeof journal);
}

static void start(void) {
    rig_remove_directory(rig.directory);
    CHECK_EQ_I64(0, mkdir(rig.directory, 0700));
    rig_write_at(&rig, "journal", journal, sizeof journal, 0);
    rig_write_at(&rig, "data.mdb", lmdb, lmdb_size, 0);
    rig_write_at(&rig, "highwater", highwater, sizeof highwater, 0);
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
}

static void end(void) {
    rig_close(&rig);
}

/* How many messages are there; each that is, is as it was. */
static uint64_t served(void) {
    uint64_t count = 0;
    for (uint64_t seq = 1; seq <= ALL; seq++) {
        stored_message_t message;
        char room[256];
        entry_outcome_t status = store_read(stream, seq, &message);
        if (status == ENTRY_FOUND) {
            CHECK(bytes_equal(payload_of(seq, room), message.payload));
            CHECK(bytes_equal(text(seq % 2 == 0 ? "sq.a" : "sq.b"), message.subject));
            count++;
        } else {
            CHECK_EQ_I64(ENTRY_NONE, status);
            CHECK(seq > EARLIER && seq <= EARLIER + TOGETHER); /* no other batch was hit */
        }
    }
    stream_state_t state;
    store_stream_state(stream, &state);
    CHECK_EQ_U64(count, state.messages);
    CHECK_EQ_U64(ALL, state.last_seq);
    return count;
}

/* Alarms; *stream_named: one says which messages of the stream are lost. */
static uint32_t alarms(bool *stream_named) {
    uint32_t count = 0;
    store_alarm_t alarm;
    *stream_named = false;
    while (store_alarm_next(rig.store, &alarm)) {
        CHECK_EQ_U64(ALARM_CORRUPT, alarm.code);
        *stream_named |= alarm.stream == 1;
        count++;
    }
    return count;
}

static void all_is_there_after_a_kill(void) {
    bool named;
    begin();
    start();
    CHECK_EQ_U64(ALL, served());
    CHECK_EQ_U64(0, alarms(&named));
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(ALL, served());
    CHECK_EQ_U64(0, alarms(&named));
    end();
}

static void one_bit_is_put_right(void) {
    begin();
    size_t bits = (size_t)header.blocks * BLOCK * 8;
    for (size_t bit = 0; bit < bits; bit += (bit < BATCH_HEADER_SIZE * 8 ? 3 : 19001) * test_stride()) {
        bool named;
        journal[begins + bit / 8] ^= (uint8_t)(1u << bit % 8);
        start();
        journal[begins + bit / 8] = pristine[begins + bit / 8];
        if (served() != ALL || alarms(&named) == 0 || named) {
            FAIL("bit %zu", bit);
        }
        store_close(rig.store);
        rig.store = NULL;
    }
    start();
    end();
}

static void a_block_costs_what_it_held(void) {
    begin();
    for (uint32_t block = 0; block < header.blocks; block++) {
        for (int fill = 0; fill < 2; fill++) {
            bool named;
            memset(journal + begins + (size_t)block * BLOCK, fill == 0 ? 0 : 0xa5, BLOCK);
            start();
            memcpy(journal, pristine, sizeof journal);
            uint64_t count = served();
            CHECK(count < ALL);
            CHECK(alarms(&named) > 1);
            CHECK(named);
            if (block > 0) { /* at most two pieces reach into a block */
                CHECK(count >= ALL - 2 * SQUEEZE_PIECE / 150);
            }
            store_close(rig.store);
            rig.store = NULL;
        }
    }
    start();
    end();
}

/* Power failed while the batch was written: of one behind it, whole, nobody was promised anything. */
static void what_was_dropped_is_blanked(void) {
    begin();
    size_t place = begins + 2 * BLOCK;
    uint64_t next = header.position + (header.size + BLOCK - 1) / BLOCK * BLOCK;
    batch_header_t whole;
    CHECK(batch_header_read(journal + JOURNAL_START + next % RING, &whole));
    CHECK(whole.size < BLOCK);
    memcpy(journal + place, journal + JOURNAL_START + next % RING, BLOCK);
    memset(journal + place + BLOCK, 0, sizeof journal - place - BLOCK);
    memset(journal + begins, 0, BLOCK);
    whole.position = header.position + 2 * BLOCK;
    batch_header_write(journal + place, &whole);
    witness_stamp(journal + place, whole.size, header.position);
    whole.crc = batch_crc(journal + place, whole.size);
    batch_header_write(journal + place, &whole);
    memset(highwater, 0, sizeof highwater);
    start();
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, EARLIER, &message));
    CHECK_EQ_I64(ENTRY_NONE, store_read(stream, EARLIER + 1, &message));
    CHECK_EQ_U64(sizeof journal, rig_read_at(&rig, "journal", journal, sizeof journal, 0));
    CHECK(!batch_header_read(journal + place, &whole));
    for (uint64_t seq = EARLIER + 1; seq <= ALL; seq++) { /* once more, and shorter */
        put(seq);
    }
    rig_sync(&rig);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(ALL, served());
    end();
}

int main(void) {
    RUN("what was acknowledged in a compressed batch is there after a kill, and after another",
        all_is_there_after_a_kill);
    RUN("a wrong bit anywhere in it loses nothing, and is said", one_bit_is_put_right);
    RUN("a destroyed block costs no more than the messages that it held, and they are named",
        a_block_costs_what_it_held);
    RUN("a whole batch behind one that power cut short is gone from the journal after the next start",
        what_was_dropped_is_blanked);
    return TEST_RESULT();
}
