/* test_store_shared.c: messages that share the bytes of the entries which ask for them (store/sharing.h), in the
 * overlay, in LMDB, after a kill, after damage of the journal, and where a checkpoint ends between the two. What must
 * hold: what is served is what the entry said, and is there wherever the journal is whole or can be put right.
 * Operations one by one are in test_late.c.
 */
#include "base/hash.h"
#include "disk/journal.h"
#include "store/ledger.h"
#include "store/sharing.h"
#include "store_rig.h"
#include "unreserved.h"

#define ENTRIES 240u
#define TOGETHER 40u
#define PAYLOAD 600u
#define ROOM (PAYLOAD + 64)
#define RING (UINT64_C(4) << 20)
#define BLOCK JOURNAL_ALIGNMENT

static rig_t rig;
static store_stream_t *stream;
static ledger_t *ledger;
static bool noise; /* payloads that nothing compresses */
static uint8_t pristine[JOURNAL_START + RING];
static uint8_t journal[JOURNAL_START + RING];
static uint8_t highwater[4096];
static uint8_t lmdb[8 << 20];
static size_t lmdb_size;

static bytes_t header_of(uint64_t seq) {
    return seq % 3 == 0 ? text("NATS/1.0\r\na: b\r\n\r\n") : BYTES_NONE;
}

static bytes_t payload_of(uint64_t seq, uint8_t to[ROOM]) {
    uint32_t size = seq % 10 == 9 ? 8 : PAYLOAD - (uint32_t)(seq % 50); /* one that is too short to be shared */
    for (uint32_t i = 0; i < size; i += 8) {
        uint64_t word[] = {noise ? seq : 0, noise ? i : i / 64};
        store_be64(to + i, noise || i == 0 ? hash_bytes((const uint8_t *)word, sizeof word) + seq : word[1]);
    }
    return bytes_of(to, size);
}

static void put_entries(uint64_t count) {
    for (; count > 0; count--) {
        uint8_t bytes[2 * ROOM], payload[ROOM];
        uint64_t seq = ledger->last + 1;
        uint8_t *end = bytes_write(bytes_write(bytes, text("an entry of ")), header_of(seq));
        end = bytes_write(end, payload_of(seq, payload));
        const ledger_entry_t entry = {.index = seq, .term = 1, .bytes = bytes_of(bytes, (uint32_t)(end - bytes))};
        CHECK_EQ_I64(STATUS_OK, store_ledger_put(ledger, &entry));
    }
}

static void apply_entries(void) {
    while (ledger->applied < ledger->last) {
        ledger_entry_t entry;
        uint64_t seq = ledger->applied + 1;
        CHECK_EQ_I64(STATUS_OK, store_ledger_touch(ledger));
        CHECK_EQ_I64(READ_FOUND, store_ledger_get(ledger, seq, &entry));
        bytes_t said = bytes_after(entry.bytes, 12);
        const append_t append = {.subject = text(seq % 2 == 0 ? "sh.a" : "sh.b"),
                                 .header = bytes_of(said.at, header_of(seq).size),
                                 .payload = bytes_after(said, header_of(seq).size)};
        store_lend(rig.store, entry.bytes, entry.position);
        CHECK_EQ_U64(seq, store_append(stream, &append, rig.now).seq);
        store_lend_end(rig.store);
        store_ledger_applied(ledger, seq);
    }
}

static void begin_store(uint64_t ring) {
    rig = (rig_t){.in_memory = true, .options = {.ledgers = true, .journal_size = ring}};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 7, 70, BYTES_NONE, &ledger));
    rig_checkpoint(&rig);
}

static void begin(bool with_noise) {
    noise = with_noise;
    begin_store(RING);
    for (uint32_t done = 0; done < ENTRIES; done += TOGETHER) {
        put_entries(TOGETHER);
        rig_sync(&rig);
        apply_entries();
        rig_sync(&rig);
    }
}

/* How many of the messages are there; each that is, is as its entry said. */
static uint64_t served(uint64_t all) {
    uint64_t count = 0;
    for (uint64_t seq = 1; seq <= all; seq++) {
        uint8_t payload[ROOM];
        stored_message_t message;
        entry_outcome_t status = store_read(stream, seq, &message);
        CHECK(status == ENTRY_FOUND || status == ENTRY_NONE);
        if (status == ENTRY_FOUND) {
            CHECK(bytes_equal(payload_of(seq, payload), message.payload));
            CHECK(bytes_equal(header_of(seq), message.header));
            CHECK(bytes_equal(text(seq % 2 == 0 ? "sh.a" : "sh.b"), message.subject));
            count++;
        }
    }
    CHECK_EQ_U64(count, rig_state(stream).messages);
    return count;
}

static uint32_t alarms(void) {
    uint32_t count = 0;
    store_alarm_t alarm;
    while (store_alarm_next(rig.store, &alarm)) {
        CHECK_EQ_U64(ALARM_CORRUPT, alarm.code);
        count++;
    }
    return count;
}

static void reopened(void (*again)(rig_t *rig)) {
    again(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(ENTRIES, served(ENTRIES));
    CHECK_EQ_U64(0, alarms());
}

static void once_in_the_journal(void) {
    for (int with_noise = 0; with_noise < 2; with_noise++) {
        plane_stats_t stats = {0};
        begin(with_noise == 1);
        CHECK_EQ_U64(ENTRIES, served(ENTRIES));
        store_stats(rig.store, &stats);
        CHECK(stats.overlay_bytes < ENTRIES * PAYLOAD * 3 / 2);
        reopened(rig_crash);
        reopened(rig_crash);
        rig_checkpoint(&rig);
        CHECK_EQ_U64(ENTRIES, served(ENTRIES));
        reopened(rig_reopen);
        rig_close(&rig);
    }
}

static uint64_t checkpoints(void) {
    plane_stats_t stats = {0};
    store_tick(rig.store, rig.now);
    store_stats(rig.store, &stats);
    return stats.checkpoints;
}

/* A checkpoint has begun, and waits at its end for entries before it. Replay begins there. */
static void whole_behind_a_boundary(void) {
    noise = true;
    begin_store(4 * RING);
    for (int round = 0; store_lingers(rig.store) == 0; round++) {
        CHECK(round < 400);
        put_entries(10);
        rig_sync(&rig);
    }
    uint64_t before = checkpoints(), waiting = ledger->last;
    put_entries(20); /* behind it: these are shared */
    rig_sync(&rig);
    apply_entries();
    rig_sync(&rig);
    CHECK_EQ_U64(before, checkpoints());
    CHECK(waiting > 20);
    rig_pass(&rig, NS_PER_SECOND); /* it waits no longer */
    for (int64_t until = 0; patient(&until) && checkpoints() == before;) {
        usleep(200);
    }
    CHECK_EQ_U64(before + 1, checkpoints());
    uint64_t all = ledger->last;
    CHECK_EQ_U64(all, served(all));
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(all, served(all));
    CHECK_EQ_U64(0, alarms());
    rig_close(&rig);
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

static void keep(void) {
    rig_kill(&rig);
    CHECK_EQ_U64(sizeof pristine, rig_read_at(&rig, "journal", pristine, sizeof pristine, 0));
    CHECK_EQ_U64(sizeof highwater, rig_read_at(&rig, "highwater", highwater, sizeof highwater, 0));
    lmdb_size = rig_read_at(&rig, "data.mdb", lmdb, sizeof lmdb, 0);
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

static void stop(void) {
    store_close(rig.store);
    rig.store = NULL;
}

/* Of each batch with entries or messages: where it begins, and its bytes there. */
typedef struct place {
    size_t begins;
    size_t size;
} place_t;

static uint32_t find_batches(place_t *places, bool squeezed) {
    uint32_t found = 0;
    batch_header_t header;
    for (size_t at = JOURNAL_START; at + BLOCK <= sizeof pristine; at += BLOCK) {
        if (batch_header_read(pristine + at, &header) && header.size > 2 * BLOCK) {
            CHECK_EQ_U64(squeezed, header.blocks != 0);
            CHECK(found < 2 * ENTRIES / TOGETHER);
            places[found++] = (place_t){at, batch_stored(&header, 0)};
        }
    }
    CHECK(found > 1);
    return found;
}

static void one_bit_is_put_right(void) {
    place_t places[2 * ENTRIES / TOGETHER];
    for (int with_noise = 0; with_noise < 2; with_noise++) {
        begin(with_noise == 1);
        keep();
        uint32_t count = find_batches(places, with_noise == 0);
        for (uint32_t i = 0; i < count; i++) {
            for (size_t byte = BATCH_HEADER_SIZE + i; byte < places[i].size; byte += 1501 * test_stride()) {
                journal[places[i].begins + byte] ^= (uint8_t)(1u << byte % 8);
                start();
                journal[places[i].begins + byte] = pristine[places[i].begins + byte];
                if (served(ENTRIES) != ENTRIES || alarms() == 0) {
                    FAIL("byte %zu of batch %u", byte, i);
                }
                stop();
            }
        }
        start();
        rig_close(&rig);
    }
}

/* What a destroyed block held is not there, neither is what shared it; both are said. The disk is another one then. */
static void a_destroyed_block(void) {
    place_t places[2 * ENTRIES / TOGETHER];
    for (int with_noise = 0; with_noise < 2; with_noise++) {
        uint64_t disk, other;
        begin(with_noise == 1);
        CHECK(store_ledger_disk(rig.store, &disk));
        keep();
        uint32_t count = find_batches(places, with_noise == 0);
        for (uint32_t i = 0; i < count; i++) {
            for (size_t block = 0; block < places[i].size / BLOCK; block += test_stride()) {
                memset(journal + places[i].begins + block * BLOCK, (int)(0xa5 * (block % 2)), BLOCK);
                start();
                memcpy(journal, pristine, sizeof journal);
                (void)served(ENTRIES);
                CHECK(alarms() > 0);
                CHECK(store_ledger_disk(rig.store, &other));
                CHECK(other != disk);
                stop();
            }
        }
        start();
        rig_close(&rig);
    }
}

int main(void) {
    RUN("a message that an entry asks for is in the journal once, and whole everywhere else", once_in_the_journal);
    RUN("one whose entry lies before the end of a checkpoint is whole in the journal, too", whole_behind_a_boundary);
    RUN("a wrong bit in the journal loses neither entries nor what shares their bytes", one_bit_is_put_right);
    RUN("what shares bytes that are lost is not there, and nothing wrong is served", a_destroyed_block);
    return TEST_RESULT();
}
