/* test_store_salvage.c: damage in the journal's tail, after a kill. LEAFD_EVERY_BIT=1 flips every bit, not one in a few
 * bytes. What must hold wherever it is: nothing wrong is served, what is derived from messages agrees with them, and an
 * alarm names every acknowledged message that is no longer served.
 */
#include "disk/journal.h"
#include "store_rig.h"
#include "unreserved.h"

#define EARLIER 4
#define BLOCK JOURNAL_ALIGNMENT

static rig_t rig;
static store_stream_t *stream;
static uint8_t pristine[JOURNAL_START + (4 << 20)]; /* the journal as the kill left it */
static size_t journal_size;
static uint8_t highwater[4096];
static uint8_t lmdb[8 << 20];
static size_t lmdb_size;

static void put(const char *subject, uint64_t i) {
    char id[32];
    char payload[64];
    snprintf(id, sizeof id, "id-%llu", (unsigned long long)i);
    snprintf(payload, sizeof payload, "payload-%llu", (unsigned long long)i);
    append_t append = {.subject = text(subject), .payload = text(payload), .msg_id = text(id)};
    CHECK_EQ_U64(i, store_append(stream, &append, rig.now).seq);
    rig_sync(&rig);
}

static void take_files(void) {
    rig_kill(&rig);
    CHECK(rig_read_at(&rig, "journal", pristine, sizeof pristine, 0) > 0);
    CHECK_EQ_U64(sizeof highwater, rig_read_at(&rig, "highwater", highwater, sizeof highwater, 0));
    lmdb_size = rig_read_at(&rig, "data.mdb", lmdb, sizeof lmdb, 0);
}

static void begin_in(uint64_t ring) {
    rig = (rig_t){.in_memory = true, .options.journal_size = ring};
    journal_size = JOURNAL_START + ring;
    rig_open(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    for (uint64_t i = 1; i <= EARLIER; i++) {
        put("sal.a", i);
    }
    rig_checkpoint(&rig);
}

static void begin(void) {
    begin_in(1 << 20);
}

static void put_back(const uint8_t *journal) {
    rig_remove_directory(rig.directory);
    CHECK_EQ_I64(0, mkdir(rig.directory, 0700));
    rig_write_at(&rig, "journal", journal, journal_size, 0);
    rig_write_at(&rig, "data.mdb", lmdb, lmdb_size, 0);
}

/* The files as a power cut may leave them, with this journal: no high-water mark came out. */
static void start_with(const uint8_t *journal) {
    put_back(journal);
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
}

/* The files as the kill left them, with this journal and this high-water mark. */
static void start_with_mark(const uint8_t *journal, const uint8_t *mark) {
    put_back(journal);
    rig_write_at(&rig, "highwater", mark, sizeof highwater, 0);
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
}

/* Where the last copy of these bytes is in the journal. */
static size_t find(const char *needle) {
    size_t at = 0;
    for (size_t i = JOURNAL_START; i + strlen(needle) <= journal_size; i++) {
        at = memcmp(pristine + i, needle, strlen(needle)) == 0 ? i : at;
    }
    CHECK(at > 0);
    return at;
}

static uint32_t alarms(void) {
    uint32_t count = 0;
    store_alarm_t alarm;
    while (store_alarm_next(rig.store, &alarm)) {
        CHECK_EQ_U64(ALARM_CORRUPT, alarm.code);
        count++;
    }
    plane_stats_t stats = {0};
    store_stats(rig.store, &stats);
    CHECK_EQ_I64(count > 0, stats.corrupt_records > 0);
    return count;
}

/* ---- what is derived agrees with the messages -------------------------------------------------------------------- */

static bool compare_subject(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    uint64_t *subjects = context;
    uint64_t from = 0;
    uint64_t seen = 0;
    uint64_t last = 0;
    stored_message_t message;
    filters_t only = {.patterns = &subject, .count = 1};
    while (store_next(stream, only, &from, UINT64_MAX, 100000, &message) == SEEK_FOUND) {
        seen++;
        last = message.seq;
        from = message.seq + 1;
    }
    CHECK_EQ_U64(seen, count);
    CHECK_EQ_U64(last, last_seq);
    CHECK_EQ_I64(ENTRY_FOUND, store_last_by_subject(stream, subject, UINT64_MAX, &message));
    CHECK_EQ_U64(last, message.seq);
    ++*subjects;
    return true;
}

static uint64_t check_agrees(void) {
    stream_state_t state;
    stored_message_t message;
    uint64_t from = 0;
    uint64_t seen = 0;
    uint64_t subjects = 0;
    store_stream_state(stream, &state);
    while (store_next(stream, (filters_t){0}, &from, UINT64_MAX, 100000, &message) == SEEK_FOUND) {
        char payload[64];
        snprintf(payload, sizeof payload, "payload-%llu", (unsigned long long)message.seq);
        CHECK(bytes_equal(text(payload), message.payload));
        CHECK(seen > 0 || message.seq == state.first_seq);
        CHECK(message.seq <= state.last_seq);
        seen++;
        from = message.seq + 1;
    }
    CHECK_EQ_U64(seen, state.messages);
    CHECK_EQ_I64(STATUS_OK, store_subjects(stream, text(">"), compare_subject, &subjects));
    CHECK_EQ_U64(subjects, state.subjects);
    return seen;
}

static void check_goes_on(uint64_t next) {
    put("sal.on", next);
    uint64_t before = check_agrees();
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(0, alarms());
    CHECK_EQ_U64(before, check_agrees());
}

/* ---- one message of sixty ---------------------------------------------------------------------------------------- */

#define MESSAGES 60

static void begin_sixty(void) {
    begin_in(4 << 20); /* so that all of them are in the journal */
    for (uint64_t i = EARLIER + 1; i <= EARLIER + MESSAGES; i++) {
        put(i % 3 == 0 ? "sal.a" : i % 3 == 1 ? "sal.b" : "sal.c", i);
    }
    take_files();
}

static void one_bit(void) {
    static uint8_t journal[sizeof pristine];
    begin_sixty();
    memcpy(journal, pristine, sizeof journal);
    journal[find("payload-35") + 3] ^= 1;
    start_with(journal);
    CHECK_EQ_U64(EARLIER + MESSAGES, check_agrees());
    CHECK(alarms() > 0);
    check_goes_on(EARLIER + MESSAGES + 1);
    rig_close(&rig);
}

static void several_bits(void) {
    static uint8_t journal[sizeof pristine];
    begin_sixty();
    memcpy(journal, pristine, sizeof journal);
    memset(journal + find("payload-35"), 'x', 7);
    start_with(journal);
    CHECK_EQ_U64(EARLIER + MESSAGES - 1, check_agrees());
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_NONE, store_read(stream, 35, &message));
    CHECK(alarms() > 1); /* the journal, and the stream with its sequence */
    append_t again = {.subject = text("sal.a"), .msg_id = text("id-60")};
    CHECK_EQ_U64(APPEND_DUPLICATE, store_append(stream, &again, rig.now).verdict);
    check_goes_on(EARLIER + MESSAGES + 1);
    rig_close(&rig);
}

static void whole_blocks(void) {
    static uint8_t journal[sizeof pristine];
    begin_sixty();
    size_t block = find("payload-35") / BLOCK * BLOCK;
    for (size_t blocks = 1; blocks <= 3; blocks++) {
        for (int fill = 0; fill < 2; fill++) {
            memcpy(journal, pristine, sizeof journal);
            memset(journal + block, fill == 0 ? 0 : 0xa5, blocks * BLOCK);
            start_with(journal);
            CHECK_EQ_U64(EARLIER + MESSAGES - blocks, check_agrees());
            store_alarm_t alarm;
            bool named = false;
            while (store_alarm_next(rig.store, &alarm)) {
                named |= alarm.stream == 1 && alarm.seq == 35;
            }
            CHECK(named);
            check_goes_on(EARLIER + MESSAGES + 1);
            store_close(rig.store);
        }
    }
    rig.store = NULL;
    rig_close(&rig);
}

static void kept_once(void) {
    static uint8_t journal[sizeof pristine];
    begin_sixty();
    memcpy(journal, pristine, sizeof journal);
    memset(journal + find("payload-35"), 'x', 7);
    start_with(journal);
    DIR *names = opendir(rig.directory);
    char path[512] = "";
    for (const struct dirent *entry; (entry = readdir(names)) != NULL;) {
        if (strncmp(entry->d_name, "journal.damaged-", 16) == 0) {
            snprintf(path, sizeof path, "%s/%s", rig.directory, entry->d_name);
        }
    }
    closedir(names);
    static uint8_t kept[sizeof pristine];
    int fd = open(path, O_RDONLY);
    CHECK_EQ_I64((int64_t)journal_size, read(fd, kept, sizeof kept));
    close(fd);
    CHECK(memcmp(kept, journal, journal_size) == 0);
    rig_close(&rig);
}

/* The state of before the hole said how many subjects there are; the range of heads says that none is left. */
static void purged_behind_a_hole(void) {
    static uint8_t journal[sizeof pristine];
    begin_in(4 << 20);
    for (uint64_t i = EARLIER + 1; i <= EARLIER + MESSAGES; i++) {
        put(i % 3 == 0 ? "sal.a" : i % 3 == 1 ? "sal.b" : "sal.c", i);
    }
    CHECK_EQ_U64(EARLIER + MESSAGES, rig_purge(stream, BYTES_NONE, 0, 0));
    rig_sync(&rig);
    put("sal.b", EARLIER + MESSAGES + 1);
    put("sal.d", EARLIER + MESSAGES + 2);
    take_files();
    memcpy(journal, pristine, sizeof journal);
    memset(journal + find("payload-35"), 'x', 7);
    start_with(journal);
    CHECK_EQ_U64(2, check_agrees());
    CHECK(alarms() > 0);
    check_goes_on(EARLIER + MESSAGES + 3);
    rig_close(&rig);
}

/* ---- every byte -------------------------------------------------------------------------------------------------- */

/* Messages, a deletion in the middle, a purge, a record; each a batch. */
static void begin_varied(void) {
    begin();
    uint64_t seq = EARLIER;
    put("sal.a", ++seq);
    put("sal.b", ++seq);
    CHECK_EQ_I64(STATUS_OK, store_delete(stream, EARLIER + 1));
    rig_sync(&rig);
    put("sal.b", ++seq);
    (void)rig_purge(stream, BYTES_NONE, 3, 0);
    rig_sync(&rig);
    CHECK_EQ_I64(STATUS_OK, store_record_put(rig.store, RECORD_CONTROL, text("k"), text("RECORD")));
    rig_sync(&rig);
    put("sal.a", ++seq);
    take_files();
}

static uint64_t batches_found(size_t *begins, size_t *sizes) {
    uint64_t count = 0;
    batch_header_t header;
    for (size_t at = JOURNAL_START; at + BLOCK <= journal_size; at += BLOCK) {
        if (batch_header_read(pristine + at, &header)
            && header.position % (journal_size - JOURNAL_START) == at - JOURNAL_START) {
            begins[count] = at;
            sizes[count++] = header.size;
        }
    }
    return count;
}

static void every_flip(void) {
    static uint8_t journal[sizeof pristine];
    static size_t begins[1024];
    static size_t sizes[1024];
    begin_varied();
    uint64_t count = batches_found(begins, sizes);
    start_with(pristine);
    uint64_t expected = check_agrees();
    CHECK_EQ_U64(0, alarms());
    store_close(rig.store);
    memcpy(journal, pristine, sizeof journal);
    uint64_t needed = count - 7; /* the ones before are in LMDB */
    const char *every = getenv("LEAFD_EVERY_BIT");
    for (uint64_t batch = needed; batch < count; batch++) {
        for (size_t bit = 0; bit < sizes[batch] * 8; bit += test_stride()) {
            bool chosen = bit % 8 == (bit / 8) % 8 && (bit / 8 < BATCH_HEADER_SIZE || bit / 8 % 5 == batch % 5);
            if (every == NULL && !chosen) {
                continue;
            }
            size_t at = begins[batch] + bit / 8;
            journal[at] ^= (uint8_t)(1u << (bit % 8));
            start_with(journal);
            journal[at] = pristine[at];
            stored_message_t message;
            bytes_t value;
            if (check_agrees() != expected || alarms() == 0 || store_read(stream, EARLIER + 4, &message) != ENTRY_FOUND
                || store_record_get(rig.store, RECORD_CONTROL, text("k"), &value) != ENTRY_FOUND) {
                FAIL("batch %llu, byte %zu, bit %zu", (unsigned long long)batch, bit / 8, bit % 8);
            }
            store_close(rig.store);
        }
    }
    rig.store = NULL;
    rig_close(&rig);
}

static void every_sector(void) {
    static uint8_t journal[sizeof pristine];
    static size_t begins[1024];
    static size_t sizes[1024];
    begin_sixty();
    uint64_t count = batches_found(begins, sizes);
    memcpy(journal, pristine, sizeof journal);
    /* behind the last there is none that would tell */
    for (uint64_t batch = count - MESSAGES; batch < count - 1; batch++) {
        memset(journal + begins[batch], batch % 2 == 0 ? 0 : 0x5a, 512);
        start_with(journal);
        memcpy(journal + begins[batch], pristine + begins[batch], 512);
        CHECK(check_agrees() >= EARLIER + MESSAGES - 1);
        CHECK(alarms() > 0);
        store_close(rig.store);
    }
    rig.store = NULL;
    rig_close(&rig);
}

/* ---- the last batch ---------------------------------------------------------------------------------------------- */

static bool marked(void) {
    CHECK(rig_read_at(&rig, "journal", pristine, sizeof pristine, 0) > 0);
    for (size_t at = JOURNAL_START; at + BLOCK <= journal_size; at += BLOCK) {
        if (memcmp(pristine + at, "leafdend", 8) == 0) {
            return true;
        }
    }
    return false;
}

static void last_batch(void) {
    static uint8_t journal[sizeof pristine];
    begin();
    put("sal.b", EARLIER + 1);
    for (int i = 0; i < 5000 && !marked(); i++) {
        usleep(1000);
    }
    CHECK(marked());
    take_files();
    memcpy(journal, pristine, sizeof journal);
    memset(journal + find("payload-5") / BLOCK * BLOCK, 0, BLOCK);
    start_with(journal);
    CHECK_EQ_U64(EARLIER, check_agrees());
    CHECK(alarms() > 0);
    rig_close(&rig);
}

static void unfinished_write(void) {
    static uint8_t journal[sizeof pristine];
    begin();
    put("sal.b", EARLIER + 1);
    take_files();
    memcpy(journal, pristine, sizeof journal);
    memset(journal + find("payload-5"), 'z', 9);
    memset(journal + (find("payload-5") / BLOCK + 1) * BLOCK, 0, BLOCK); /* the mark, if there is one */
    start_with(journal);
    CHECK_EQ_U64(EARLIER, check_agrees());
    bool told = false;
    for (store_alarm_t alarm; store_alarm_next(rig.store, &alarm);) {
        told |= strstr(alarm.text, "last write") != NULL;
    }
    CHECK(told);
    rig_close(&rig);
}

/* ---- the high-water mark ----------------------------------------------------------------------------------------- */

/* The alarm that says how many batches are lost. */
static uint64_t lost_batches(void) {
    uint64_t lost = 0;
    for (store_alarm_t alarm; store_alarm_next(rig.store, &alarm);) {
        const char *said = strstr(alarm.text, "lost nothing, ");
        lost = said != NULL ? strtoull(said + strlen("lost nothing, "), NULL, 10) : lost;
    }
    return lost;
}

/* One batch a message, and one block a batch. */
static void end_gone(void) {
    static uint8_t journal[sizeof pristine];
    begin_sixty();
    char last[32];
    snprintf(last, sizeof last, "payload-%d", EARLIER + MESSAGES);
    size_t end = find(last) / BLOCK * BLOCK + BLOCK;
    for (size_t blocks = 1; blocks <= 16; blocks++) {
        for (int fill = 0; fill < 2; fill++) {
            memcpy(journal, pristine, sizeof journal);
            memset(journal + end, 0, BLOCK); /* the mark of the end, if there is one */
            memset(journal + end - blocks * BLOCK, fill == 0 ? 0 : 0xa5, blocks * BLOCK);
            start_with_mark(journal, highwater);
            CHECK_EQ_U64(EARLIER + MESSAGES - blocks, check_agrees());
            CHECK_EQ_U64(blocks, lost_batches());
            check_goes_on(EARLIER + MESSAGES + 1 - blocks);
            store_close(rig.store);
        }
    }
    rig.store = NULL;
    rig_close(&rig);
}

static void end_there(void) {
    begin_sixty();
    start_with_mark(pristine, highwater);
    CHECK_EQ_U64(EARLIER + MESSAGES, check_agrees());
    CHECK_EQ_U64(0, alarms());
    check_goes_on(EARLIER + MESSAGES + 1);
    rig_close(&rig);
}

static void mark_damaged(void) {
    uint8_t mark[sizeof highwater];
    begin_sixty();
    for (size_t at = 0; at < 48; at++) {
        memcpy(mark, highwater, sizeof mark);
        mark[at] ^= 8;
        start_with_mark(pristine, mark);
        CHECK_EQ_U64(EARLIER + MESSAGES, check_agrees());
        /* of another store, as far as anybody can see, it is not damaged: but its checksum knows better */
        CHECK_EQ_U64(1, alarms());
        check_goes_on(EARLIER + MESSAGES + 1);
        store_close(rig.store);
    }
    rig.store = NULL;
    rig_close(&rig);
}

static void both_older(void) {
    static uint8_t old[sizeof lmdb];
    static uint8_t old_journal[sizeof pristine];
    begin();
    rig_kill(&rig);
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    size_t old_size = rig_read_at(&rig, "data.mdb", old, sizeof old, 0);
    CHECK(rig_read_at(&rig, "journal", old_journal, sizeof old_journal, 0) > 0);
    for (uint64_t i = EARLIER + 1; i <= 400; i++) { /* more than once around */
        put("sal.a", i);
        if (i % 50 == 0) {
            rig_checkpoint(&rig);
        }
    }
    take_files();
    rig_write_at(&rig, "journal", old_journal, journal_size, 0);
    rig_truncate(&rig, "data.mdb", 0);
    rig_write_at(&rig, "data.mdb", old, old_size, 0);
    char reason[RIG_REASON];
    CHECK_EQ_I64(STATUS_CORRUPT, rig_try(&rig, reason));
    CHECK(strstr(reason, "highwater") != NULL);
    rig_write_at(&rig, "accept-loss", "", 0, 0);
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK(alarms() > 0);
    check_goes_on(EARLIER + 1);
    rig_close(&rig);
}

/* ---- files of different times ------------------------------------------------------------------------------------ */

static void older_journal(void) {
    static uint8_t old[sizeof pristine];
    begin();
    CHECK(rig_read_at(&rig, "journal", old, sizeof old, 0) > 0);
    for (uint64_t i = EARLIER + 1; i <= EARLIER + 40; i++) {
        put("sal.a", i);
    }
    rig_checkpoint(&rig);
    put("sal.a", EARLIER + 41);
    take_files();
    rig_write_at(&rig, "journal", old, journal_size, 0);
    char reason[RIG_REASON];
    CHECK_EQ_I64(STATUS_CORRUPT, rig_try(&rig, reason));
    CHECK(strstr(reason, "older copy") != NULL);
    start_with(pristine);
    CHECK_EQ_U64(EARLIER + 41, check_agrees());
    CHECK_EQ_U64(0, alarms());
    rig_close(&rig);
}

static void older_lmdb(void) {
    static uint8_t old[sizeof lmdb];
    begin();
    size_t old_size = rig_read_at(&rig, "data.mdb", old, sizeof old, 0);
    for (uint64_t i = EARLIER + 1; i <= 400; i++) { /* more than once around */
        put("sal.a", i);
        if (i % 50 == 0) {
            rig_checkpoint(&rig);
        }
    }
    take_files();
    rig_truncate(&rig, "data.mdb", 0);
    rig_write_at(&rig, "data.mdb", old, old_size, 0);
    char reason[RIG_REASON];
    CHECK_EQ_I64(STATUS_CORRUPT, rig_try(&rig, reason));
    CHECK(strstr(reason, "older than its journal") != NULL);
    rig_close(&rig);
}

/* ---- what a client can put into a payload ------------------------------------------------------------------------ */

/* A payload with whole batches in it, at every block, as if it were a journal: without the store's id they count for
 * nothing. */
static void forged(void) {
    static uint8_t journal[sizeof pristine];
    static uint8_t payload[64 << 10];
    begin();
    uint64_t guess = UINT64_C(65536);
    for (size_t at = 0; at + 4096 <= sizeof payload; at += 64) {
        batch_header_t header = {
            .position = guess + at / 64 * 4096, .number = 99, .size = BATCH_HEADER_SIZE, .format = STORE_FORMAT};
        batch_header_write(payload + at, &header);
        header.crc = batch_crc(payload + at, BATCH_HEADER_SIZE);
        batch_header_write(payload + at, &header);
    }
    append_t append = {.subject = text("sal.b"), .payload = bytes_of(payload, sizeof payload)};
    CHECK_EQ_U64(APPEND_STORED, store_append(stream, &append, rig.now).verdict);
    rig_sync(&rig);
    take_files();
    memcpy(journal, pristine, sizeof journal);
    size_t first = 0;
    size_t begins[1024];
    size_t sizes[1024];
    first = (size_t)batches_found(begins, sizes);
    CHECK(first > 0);
    memset(journal + begins[EARLIER], 0, 512); /* torn: its first sector did not come out */
    start_with(journal);
    CHECK_EQ_U64(EARLIER, check_agrees());
    rig_close(&rig);
}

int main(void) {
    RUN("one wrong bit in message 31 of 60 loses none of them, and is alarmed", one_bit);
    RUN("a message whose bytes are destroyed is lost alone, and named", several_bits);
    RUN("blocks that are destroyed lose what was in them, and what is behind them is served", whole_blocks);
    RUN("the damaged journal is kept as it was", kept_once);
    RUN("behind a hole a purge of everything leaves what came after it, and counts it right", purged_behind_a_hole);
    RUN("no wrong bit in any needed batch goes unsaid or loses anything", every_flip);
    RUN("no destroyed sector before the last batch goes unsaid", every_sector);
    RUN("a moment after the last batch its loss is noticed, too", last_batch);
    RUN("a last write that is not whole is told, too: nobody can say whether power cut it short", unfinished_write);
    RUN("an older copy of the journal is refused", older_journal);
    RUN("after a kill the loss of the last 1 to 16 batches is told, with how many", end_gone);
    RUN("a high-water mark that the journal reaches says nothing", end_there);
    RUN("a damaged high-water mark is told, and loses nothing", mark_damaged);
    RUN("older copies of both files are refused beside the mark of what came after them", both_older);
    RUN("an older copy of data.mdb is refused when the journal has gone on without it", older_lmdb);
    RUN("batches in a payload are no batches", forged);
    return TEST_RESULT();
}
