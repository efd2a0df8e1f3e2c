/* test_store_sound.c: numbers of a stream, or of a group's log, that contradict each other, whatever made them so.
 * Nothing is removed on their word, nothing is written to it any more, it is said, and salvage counts again what a
 * stream has.
 */
#include "recovery/look.h"
#include "store/core.h"
#include "store_rig.h"

#define STORED 20
#define OTHER 2 /* a stream that has no part in it */

static rig_t rig;
static store_stream_t *stream;
static store_stream_t *other;

static void open_streams(void) {
    stream = rig_stream(&rig, 1, rig_config());
    other = rig_stream(&rig, OTHER, rig_config());
}

static void begin(void) {
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    open_streams();
    for (int i = 0; i < STORED; i++) {
        CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "sound.a", "kept").verdict);
    }
    CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, other, "sound.b", "kept").verdict);
    rig_checkpoint(&rig);
}

/* What a fault of the program might do: each leaves the numbers of a stream that cannot be. */
static void first_behind_the_end(void) {
    stream->log.first_seq = stream->log.last_seq + 1;
}

static void first_beyond_the_end(void) {
    stream->log.first_seq = stream->log.last_seq + 7;
}

static void more_messages_than_sequences(void) {
    stream->log.messages = stream->log.last_seq - stream->log.first_seq + 2;
    stream->store->sums.messages++;
}

static void bytes_of_no_message(void) {
    stream->store->sums.messages -= stream->log.messages;
    stream->log.messages = 0;
    stream->log.first_seq = stream->log.last_seq + 1;
}

static void no_first_sequence(void) {
    stream->log.first_seq = 0;
}

static void an_end_that_went_back(void) {
    stream->log.last_seq = STORED / 2;
    stream->log.messages = STORED / 2;
    stream->store->sums.messages -= STORED / 2;
}

static void a_sweep_that_ran_ahead(void) {
    stream->log.swept = stream->log.first_seq + 1;
}

static void (*const faults[])(void) = {first_behind_the_end,         first_beyond_the_end, bytes_of_no_message,
                                       more_messages_than_sequences, no_first_sequence,    an_end_that_went_back,
                                       a_sweep_that_ran_ahead};

static void all_are_there(uint64_t count) {
    stored_message_t message;
    for (uint64_t seq = 1; seq <= count; seq++) {
        CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, seq, &message));
        CHECK_TEXT("kept", (const char *)message.payload.at, message.payload.size);
    }
}

static void nothing_is_written(void) {
    uint64_t purged = 0;
    step_outcome_t step;
    store_purge_t purge = {0};
    CHECK_EQ_U64(APPEND_STOPPED, rig_put(&rig, stream, "sound.a", "no").verdict);
    CHECK_EQ_I64(STATUS_IO, store_purge(stream, &purge, &purged, &step));
    CHECK_EQ_U64(0, purged);
    all_are_there(stream->log.last_seq);
    CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, other, "sound.b", "yes").verdict);
    rig_sync(&rig);
}

/* The numbers are noticed when the batch closes that is to have them. */
static void spoil(void (*fault)(void)) {
    fault();
    stream_touch(stream);
    CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, other, "sound.b", "meanwhile").verdict);
    store_tick(rig.store, rig.now);
    CHECK(rig_alarmed(&rig, "stream 1 contradict each other"));
}

/* A new store of what can be read of this one, in its place. */
static void salvage(void) {
    static char findings[1 << 16];
    char reason[PLANE_REASON_SIZE];
    char to[96];
    store_facts_t facts;
    store_audit_t audit;
    int32_t status;
    store_look_t *look = plane_look_open(rig.directory, NULL, 0, &facts, reason, &status);
    CHECK(look != NULL);
    snprintf(to, sizeof to, "%s/%u", rig.root, ++rig.generation);
    CHECK_EQ_I64(0, mkdir(to, 0700));
    CHECK_EQ_I64(STATUS_OK, plane_look_rescue(look, to, 1, &audit, findings, sizeof findings, reason));
    plane_look_close(look);
    rig_copy_file(rig.directory, to, "journal");
    rig_remove_directory(rig.directory);
    snprintf(rig.directory, sizeof rig.directory, "%s", to);
    CHECK_EQ_I64(STATUS_OK, plane_store_settle(to, NULL, 1, findings, sizeof findings, reason));
}

static void contradictions(void) {
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        begin();
        spoil(faults[i]);
        nothing_is_written();
        for (int again = 0; again < 2; again++) { /* checkpoints, and then a start, take nothing away either */
            rig_checkpoint(&rig);
            nothing_is_written();
            rig_crash(&rig);
            open_streams();
            CHECK(rig_alarmed(&rig, "stream 1 contradict each other"));
            nothing_is_written();
        }
        store_close(rig.store);
        rig.store = NULL;
        salvage();
        rig_start(&rig);
        open_streams();
        CHECK(!rig_alarmed(&rig, "contradict"));
        all_are_there(STORED);
        CHECK_EQ_U64(STORED + 1, rig_put(&rig, stream, "sound.a", "again").seq);
        rig_sync(&rig);
        rig_close(&rig);
    }
}

static void stopped_by_a_consumer(void) {
    begin();
    store_stream_stop(stream, 7);
    CHECK(rig_alarmed(&rig, "consumer 7 of stream 1 contradicts itself"));
    nothing_is_written();
    CHECK_EQ_I64(STATUS_IO, store_delete(stream, 1));
    rig_checkpoint(&rig);
    rig_crash(&rig);
    open_streams();
    CHECK(!rig_alarmed(&rig, "contradict"));
    all_are_there(STORED);
    CHECK_EQ_U64(STORED + 1, rig_put(&rig, stream, "sound.a", "again").seq);
    rig_sync(&rig);
    rig_close(&rig);
}

/* ---- logs of groups ---------------------------------------------------------------------------------------------- */

static status_t put_entry(ledger_t *ledger) {
    return store_ledger_put(ledger, &(ledger_entry_t){.index = ledger->last + 1, .term = 1, .bytes = text("entry")});
}

static void applied_beyond_the_end(ledger_t *ledger) {
    ledger->applied = ledger->last + 1;
}

static void applied_below_the_floor(ledger_t *ledger) {
    ledger->floor = ledger->applied + 1;
}

static void an_end_below_what_is_applied(ledger_t *ledger) {
    ledger->last = ledger->applied - 1;
}

static status_t never_shown(void *context, const ledger_entry_t *entry) {
    (void)context, (void)entry;
    return STATUS_OK;
}

/* Such a log is written to no more, by nobody; others go on. What was wrong on the disk, too, does not begin at the
 * next start. */
static void a_contradiction_stops_its_log(void (*fault)(ledger_t *ledger), status_t opened) {
    ledger_t *ledger = NULL, *second = NULL;
    rig = (rig_t){.in_memory = true, .options = {.ledgers = true}};
    rig_open(&rig);
    CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 2, 7, text("members"), &ledger));
    CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 3, 8, text("members"), &second));
    for (unsigned i = 0; i < 4; i++) {
        CHECK_EQ_I64(STATUS_OK, put_entry(ledger));
        CHECK_EQ_I64(STATUS_OK, put_entry(second));
    }
    CHECK_EQ_I64(STATUS_OK, store_ledger_touch(ledger));
    store_ledger_applied(ledger, 2);
    rig_checkpoint(&rig);
    CHECK_EQ_I64(STATUS_OK, store_ledger_touch(ledger));
    fault(ledger);
    CHECK_EQ_I64(STATUS_OK, put_entry(second));
    store_tick(rig.store, rig.now);
    CHECK(rig_alarmed(&rig, "the log of group 2 contradicts itself"));
    const ledger_promise_t promise = {.term = 9};
    CHECK(!store_ledger_fits(ledger, 0, 0));
    CHECK_EQ_I64(STATUS_FULL, put_entry(ledger));
    CHECK_EQ_I64(STATUS_FULL, store_ledger_promise(ledger, &promise));
    CHECK_EQ_I64(STATUS_FULL, store_ledger_touch(ledger));
    CHECK_EQ_I64(STATUS_OK, put_entry(second));
    rig_checkpoint(&rig);
    CHECK(!rig_alarmed(&rig, "contradicts itself"));
    rig_crash(&rig);
    CHECK_EQ_I64(opened, store_ledger_open(rig.store, 2, never_shown, NULL, &ledger));
    CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 3, never_shown, NULL, &second));
    CHECK_EQ_U64(6, second->last);
    CHECK(opened != STATUS_OK || (ledger->applied == 2 && ledger->last == 4 && ledger->floor == 0));
    rig_close(&rig);
}

static void contradictions_stop(void) {
    a_contradiction_stops_its_log(applied_beyond_the_end, STATUS_CORRUPT);
    a_contradiction_stops_its_log(applied_below_the_floor, STATUS_OK);
    a_contradiction_stops_its_log(an_end_below_what_is_applied, STATUS_OK);
}

int main(void) {
    RUN("numbers that contradict each other stop a stream's writes, are said, and lose nothing", contradictions);
    RUN("a consumer's position that contradicts itself stops its stream until the next start", stopped_by_a_consumer);
    RUN("a log whose numbers contradict each other is written to no more, and it is said", contradictions_stop);
    return TEST_RESULT();
}
