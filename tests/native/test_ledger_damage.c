/* test_ledger_damage.c: ledgers of which something is damaged or lost, and the disk's id (store/ledger.h). What this
 * disk promised is never taken for nothing, and what another disk promised is in nobody's way.
 */
#include "disk/env.h"
#include "store/ledger.h"
#include "store/timeline.h"
#include "store_rig.h"

static rig_t rig;

static void begin(void) {
    rig = (rig_t){.in_memory = true, .options = {.ledgers = true}};
    rig_open(&rig);
}

static env_t *open_env(void) {
    char reason[256];
    env_t *env;
    store_close(rig.store);
    rig.store = NULL;
    CHECK_EQ_I64(STATUS_OK, env_open(rig.directory, 256 << 20, false, &env, reason, sizeof reason));
    return env;
}

static status_t ignore(void *context, const ledger_entry_t *entry) {
    (void)context;
    (void)entry;
    return STATUS_OK;
}

static void fill_up(ledger_t *ledger, uint32_t count) {
    static const uint8_t bytes[100] = "an entry";
    for (uint32_t i = 0; i < count; i++) {
        const ledger_entry_t entry = {.index = ledger->last + 1, .term = 1, .bytes = bytes_of(bytes, sizeof bytes)};
        CHECK_EQ_I64(STATUS_OK, store_ledger_put(ledger, &entry));
    }
}

typedef enum harm {
    HARM_NONE,
    SPOIL_ENTRY,
    LOSE_ENTRY,
    LOSE_ALL,
    SPOIL_PROMISE,
    SPOIL_APPLIED,
    SPOIL_DISK,
    HARMS
} harm_t;

/* with_id: and the disk's id goes, as it does where a start finds that something is lost. */
static void harm(harm_t what, bool with_id) {
    static const uint8_t group[] = {0, 0, 0, 7};
    store_key_t key, end;
    uint64_t done;
    env_t *env = open_env();
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    key_ledger(&key, 7, what == LOSE_ALL ? 0 : 5);
    key_ledger(&end, 7, what == LOSE_ALL ? 100 : 6);
    if (what == SPOIL_ENTRY) {
        CHECK_EQ_I64(STATUS_OK, env_write_raw(env, DB_LEDGER, key_bytes(&key), text("spoiled, and long enough")));
    } else if (what == HARM_NONE) {
    } else if (what <= LOSE_ALL) {
        CHECK_EQ_I64(STATUS_OK, env_write_delete_range(env, DB_LEDGER, key_bytes(&key), key_bytes(&end), 100, &done));
        CHECK_EQ_U64(what == LOSE_ALL ? 10 : 1, done);
    } else { /* both copies */
        key_record(&key,
                   what == SPOIL_PROMISE   ? RECORD_PROMISE
                   : what == SPOIL_APPLIED ? RECORD_APPLIED
                                           : RECORD_DISK,
                   what == SPOIL_DISK ? BYTES_NONE : bytes_of(group, 4));
        CHECK_EQ_I64(STATUS_OK, env_write_raw(env, DB_RECORDS, key_bytes(&key), text("spoiled")));
    }
    if (with_id) {
        key_record(&key, RECORD_DISK, BYTES_NONE);
        CHECK_EQ_I64(STATUS_OK, env_write_delete(env, DB_RECORDS, key_bytes(&key)));
    }
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    env_close(env);
    rig_start(&rig);
}

static void begin_harmed(harm_t what, bool with_id) {
    ledger_t *ledger;
    begin();
    CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 7, 70, BYTES_NONE, &ledger));
    CHECK_EQ_I64(STATUS_OK,
                 store_ledger_promise(ledger, &(ledger_promise_t){.term = 3, .vote_peer = 1, .vote_disk = 2}));
    fill_up(ledger, 10);
    CHECK_EQ_I64(STATUS_OK, store_ledger_touch(ledger));
    store_ledger_applied(ledger, 3);
    rig_checkpoint(&rig);
    harm(what, with_id);
}

/* It asks for nothing of the log, which is to go. */
static void harmed_of_another_disk(void) {
    for (harm_t what = SPOIL_ENTRY; what < SPOIL_PROMISE; what++) {
        ledger_t *ledger;
        begin_harmed(what, true);
        CHECK_EQ_I64(STATUS_CORRUPT, store_ledger_inherit(rig.store, 7));
        CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 7, ignore, NULL, &ledger));
        CHECK(ledger->foreign);
        CHECK_EQ_I64(STATUS_OK, store_ledger_remove(ledger));
        rig_checkpoint(&rig);
        CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 7, 71, BYTES_NONE, &ledger));
        rig_close(&rig);
    }
}

/* What no other server has goes on with all that its log has, also after the next start. */
static void inherited(void) {
    ledger_t *ledger;
    ledger_entry_t entry;
    CHECK_EQ_I64(STATUS_OK, (begin_harmed(HARM_NONE, true), store_ledger_open(rig.store, 7, ignore, NULL, &ledger)));
    CHECK(ledger->foreign);
    CHECK_EQ_I64(STATUS_IN_USE, store_ledger_inherit(rig.store, 7));
    store_ledger_close(ledger);
    CHECK_EQ_I64(STATUS_INVALID, store_ledger_inherit(rig.store, 8));
    CHECK_EQ_I64(STATUS_OK, store_ledger_inherit(rig.store, 7));
    for (int start = 0; start < 2; start++) {
        CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 7, ignore, NULL, &ledger));
        CHECK(!ledger->foreign);
        CHECK_EQ_U64(3, ledger->promise.term);
        CHECK_EQ_U64(3, ledger->applied);
        CHECK_EQ_U64(10, ledger->last);
        CHECK(store_ledger_get(ledger, 10, &entry) == READ_FOUND);
        rig_checkpoint(&rig);
        if (start == 0) {
            rig_reopen(&rig);
        }
    }
    rig_close(&rig);
}

static void harmed(void) {
    for (harm_t what = SPOIL_ENTRY; what < HARMS; what++) {
        ledger_t *ledger;
        begin_harmed(what, false);
        status_t status = store_ledger_open(rig.store, 7, ignore, NULL, &ledger);
        if (what == SPOIL_DISK) {
            CHECK_EQ_I64(STATUS_OK, status);
            CHECK(ledger->foreign);
        } else {
            CHECK_EQ_I64(STATUS_CORRUPT, status);
            CHECK(ledger == NULL);
            CHECK(store_ledger_make(rig.store, 7, 70, BYTES_NONE, &ledger) != STATUS_OK);
        }
        CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 8, 70, BYTES_NONE, &ledger)); /* others are well */
        rig_close(&rig);
    }
}

static void promiseless(void) {
    for (uint32_t applied = 0; applied < 2; applied++) {
        ledger_t *ledger;
        uint8_t group[4] = {0, 0, 0, 7};
        begin();
        CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 7, 70, BYTES_NONE, &ledger));
        if (applied == 0) {
            fill_up(ledger, 3);
            CHECK_EQ_I64(STATUS_OK, store_record_delete(rig.store, RECORD_APPLIED, bytes_of(group, 4)));
        }
        CHECK_EQ_I64(STATUS_OK, store_record_delete(rig.store, RECORD_PROMISE, bytes_of(group, 4)));
        rig_checkpoint(&rig);
        rig_reopen(&rig);
        CHECK_EQ_I64(STATUS_EXISTS, store_ledger_make(rig.store, 7, 70, BYTES_NONE, &ledger));
        CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 7, ignore, NULL, &ledger));
        CHECK(ledger->foreign);
        CHECK_EQ_I64(STATUS_OK, store_ledger_remove(ledger));
        rig_checkpoint(&rig);
        rig_reopen(&rig);
        CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 7, 71, BYTES_NONE, &ledger));
        rig_close(&rig);
    }
}

/* While the store runs, and before anybody has asked for the id. What is known to be lost is not tried for ever. */
static void lost_id(void) {
    ledger_t *ledger;
    for (int spoiled = 0; spoiled < 2; spoiled++) {
        begin();
        CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 7, 70, BYTES_NONE, &ledger));
        rig_checkpoint(&rig);
        rig_reopen(&rig);
        CHECK_EQ_I64(STATUS_OK, spoiled ? store_record_put(rig.store, RECORD_DISK, BYTES_NONE, text("spoiled"))
                                        : store_record_delete(rig.store, RECORD_DISK, BYTES_NONE));
        CHECK_EQ_I64(STATUS_CORRUPT, store_ledger_open(rig.store, 7, ignore, NULL, &ledger));
        CHECK(ledger == NULL);
        rig_close(&rig);
    }
}

static void lost_batch(void) {
    uint8_t garbage[64];
    uint64_t disk, other;
    ledger_t *ledger;
    memset(garbage, 0x5a, sizeof garbage);
    begin();
    CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 7, 70, BYTES_NONE, &ledger));
    CHECK(store_ledger_disk(rig.store, &disk));
    for (uint64_t term = 1; term < 8; term++) {
        CHECK_EQ_I64(STATUS_OK, store_ledger_promise(
                                    ledger, &(ledger_promise_t){.term = term, .vote_peer = 1, .vote_disk = disk}));
        rig_sync(&rig);
    }
    rig_kill(&rig);
    rig_write_at(&rig, "journal", garbage, sizeof garbage,
                 4096 + 65536 + 3 * 4096 + 40); /* its batch of term 3, about */
    rig_start(&rig);
    CHECK(store_ledger_disk(rig.store, &other));
    CHECK(other != disk);
    CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 7, ignore, NULL, &ledger));
    CHECK(ledger->foreign);
    rig_reopen(&rig);
    CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 7, ignore, NULL, &ledger));
    CHECK(ledger->foreign);
    rig_close(&rig);
}

static void accepted_loss(void) {
    uint64_t disk, other;
    begin();
    CHECK(store_ledger_disk(rig.store, &disk));
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "a", "b").verdict);
    rig_sync(&rig);
    rig_kill(&rig);
    rig_unlink(&rig, "journal");
    rig_write_at(&rig, "accept-loss", "", 0, 0);
    rig_start(&rig);
    CHECK(store_ledger_disk(rig.store, &other));
    CHECK(other != disk);
    rig_close(&rig);
}

/* A page of data.mdb was damaged, and a start makes the file anew of what can be read. */
static void mended(void) {
    static uint8_t file[4 << 20], garbage[4096];
    uint64_t disk, other;
    ledger_t *ledger;
    begin();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 7, 70, BYTES_NONE, &ledger));
    CHECK(store_ledger_disk(rig.store, &disk));
    for (int i = 0; i < 500; i++) {
        CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "a", "a payload of this test").verdict);
    }
    fill_up(ledger, 3);
    rig_checkpoint(&rig);
    store_close(rig.store);
    size_t size = rig_read_at(&rig, "data.mdb", file, sizeof file, 0);
    const uint8_t *page = memmem(file, size, "a payload of this test", 22);
    CHECK(test_sealer() != NULL || page != NULL);
    if (page != NULL) { /* sealed, it cannot be told which one it is */
        memset(garbage, 0x5a, sizeof garbage);
        rig_write_at(&rig, "data.mdb", garbage, sizeof garbage, (page - file) / 4096 * 4096);
    }
    rig_write_at(&rig, "data.mdb.suspect", "", 0, 0);
    rig_start(&rig);
    CHECK(store_ledger_disk(rig.store, &other));
    CHECK_EQ_U64(page != NULL, other != disk);
    CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 7, ignore, NULL, &ledger));
    CHECK_EQ_U64(page != NULL, ledger->foreign);
    CHECK_EQ_U64(page != NULL ? 0 : 3, ledger->last);
    rig_close(&rig);
}

typedef enum met { MET_PAGE, MET_MESSAGE, MET_SHARED, MET_SHARED_PAGE, MET_SHARED_GAPS, METS } met_t;

/* One of 500 messages is damaged: a reader of all of them passes it over where nobody has it any more, and stops before
 * it where others have it. */
static void passes_over(store_stream_t *stream, bool lone) {
    stored_message_t message;
    uint64_t from = 1, seen = 0;
    seek_outcome_t outcome = SEEK_FOUND;
    while ((outcome = store_next(stream, (filters_t){0}, &from, 500, 10, &message)) == SEEK_FOUND) {
        CHECK_EQ_U64(from, message.seq);
        seen++;
        from++;
    }
    CHECK_EQ_I64(lone ? SEEK_NONE : SEEK_UNKNOWN, outcome);
    CHECK(lone ? seen == 499 : seen < 499 && seen == from - 1);
    CHECK(lone || store_read(stream, from, &message) == ENTRY_UNKNOWN);
}

/* A page with messages, or one message of it, is damaged while the store runs. A stream that goes by a log's time is
 * copied without a start, unless it is not known which messages had been on the page. */
static void met_while_it_runs(met_t what, uint32_t groups) {
    static const char told[] = "and they are copied from there";
    static const char copied[] = "it is copied from there once all of them are up";
    static uint8_t file[4 << 20];
    ledger_t *ledger;
    stored_message_t message;
    begin();
    stream_config_t config = rig_config();
    config.replicas = what >= MET_SHARED ? 3 : 1;
    store_stream_t *stream = rig_stream(&rig, 1, config);
    for (uint32_t group = 1; group <= groups; group++) {
        CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, group, 70 + group, BYTES_NONE, &ledger));
    }
    for (int i = 0; i < 500; i++) {
        CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "a", "a payload of this test").verdict);
    }
    rig_checkpoint(&rig);
    if (what == MET_SHARED_GAPS) {
        CHECK_EQ_I64(STATUS_OK, store_delete(stream, 250));
        rig_checkpoint(&rig);
    }
    bool shared = what >= MET_SHARED, page = what != MET_MESSAGE && what != MET_SHARED;
    if (shared) {
        store_stream_time(stream, 1, 1);
    }
    size_t size = rig_read_at(&rig, "data.mdb", file, sizeof file, 0);
    const uint8_t *at = memmem(file, size, "a payload of this test", 22);
    CHECK(test_sealer() != NULL || at != NULL);
    if (at != NULL) { /* sealed, it cannot be told where it is */
        off_t where = page ? (at - file) / 4096 * 4096 : at - file;
        (void)rig_alarmed(&rig, "");
        rig_write_at(&rig, "data.mdb", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 15, where);
        for (uint64_t seq = 1; seq <= 500; seq++) {
            entry_outcome_t status = store_read(stream, seq, &message);
            CHECK(status != ENTRY_NONE || seq == 250);
        }
        CHECK(page || rig_alarmed(&rig, copied) == shared);
        if (!page) {
            passes_over(stream, !shared);
        }
        bool asked_copy = false, asked_start = false;
        for (int i = 0; i < 400; i++) {
            store_alarm_t alarm;
            rig_pass(&rig, NS_PER_SECOND / 100);
            CHECK(store_read(stream, 1, &message) != ENTRY_NONE);
            store_tick(rig.store, rig.now);
            while (store_alarm_next(rig.store, &alarm)) {
                CHECK(!asked_start || strstr(alarm.text, told) == NULL); /* once */
                asked_start |= strstr(alarm.text, told) != NULL;
                asked_copy |= strstr(alarm.text, copied) != NULL;
            }
        }
        CHECK(asked_start == (what == MET_SHARED_GAPS && groups > 1));
        CHECK(asked_copy == (what == MET_SHARED_PAGE));
        if (what == MET_SHARED_PAGE) {
            passes_over(stream, false);
        }
    }
    rig_kill(&rig);
    rig_close(&rig);
}

static void met_while_it_leads(void) {
    for (uint32_t groups = 1; groups < 3; groups++) {
        for (met_t what = 0; what < METS; what++) {
            met_while_it_runs(what, groups);
        }
    }
}

int main(void) {
    RUN("what is damaged or missing is not taken for the end of the log nor for a new member", harmed);
    RUN("what is damaged of another disk's log is in nobody's way, and goes", harmed_of_another_disk);
    RUN("what no other server has goes on on a disk of another id", inherited);
    RUN("what is there without a promise is no new member, and goes", promiseless);
    RUN("of a disk whose id is lost while it runs, the log is damaged", lost_id);
    RUN("a disk that has lost a batch is a stranger from then on", lost_batch);
    RUN("a disk whose loss was accepted is a stranger", accepted_loss);
    RUN("a disk whose data.mdb was made anew of what could be read is a stranger", mended);
    RUN("damage that is met asks for a start where other servers have the streams, too", met_while_it_leads);
    return TEST_RESULT();
}
