/* test_store_streams.c: many records, subjects and streams: reads that merge the overlay and LMDB, removal, more
 * subjects than the cache holds, streams side by side, removals in steps.
 */
#include "store/core.h"
#include "store_rig.h"

static rig_t rig;

static void open_rig(void) {
    rig = (rig_t){0};
    rig_open(&rig);
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

typedef struct gathered {
    char text[256];
} gathered_t;

static bool gather(void *context, bytes_t key, bytes_t value) {
    gathered_t *gathered = context;
    size_t at = strlen(gathered->text);
    snprintf(gathered->text + at, sizeof gathered->text - at, "%.*s=%.*s ", (int)key.size, (const char *)key.at,
             (int)value.size, (const char *)value.at);
    return true;
}

static void check_records(const char *expected, const char *prefix, const char *after) {
    gathered_t gathered = {0};
    CHECK_EQ_I64(LIST_WHOLE,
                 store_record_each(rig.store, RECORD_CONTROL, text(prefix), text(after), gather, &gathered));
    CHECK_TEXT(expected, gathered.text, strlen(gathered.text));
}

static void put_record(const char *key, const char *value) {
    CHECK_EQ_I64(STATUS_OK, store_record_put(rig.store, RECORD_CONTROL, text(key), text(value)));
}

static void records_merge(void) {
    open_rig();
    put_record("a1", "1");
    put_record("a2", "2");
    put_record("b1", "3");
    put_record("c1", "4");
    check_records("a1=1 a2=2 b1=3 c1=4 ", "", "");
    rig_checkpoint(&rig);
    check_records("a1=1 a2=2 b1=3 c1=4 ", "", "");
    put_record("a3", "5");
    put_record("b1", "6");
    CHECK_EQ_I64(STATUS_OK, store_record_delete(rig.store, RECORD_CONTROL, text("a1")));
    check_records("a2=2 a3=5 b1=6 c1=4 ", "", "");
    check_records("a2=2 a3=5 ", "a", "");
    check_records("b1=6 c1=4 ", "", "a3");
    CHECK_EQ_I64(STATUS_OK, store_record_delete_prefix(rig.store, RECORD_CONTROL, text("a")));
    check_records("b1=6 c1=4 ", "", "");
    put_record("a2", "7");
    check_records("a2=7 b1=6 c1=4 ", "", "");
    bytes_t value;
    CHECK_EQ_I64(ENTRY_NONE, store_record_get(rig.store, RECORD_CONTROL, text("a3"), &value));
    rig_sync(&rig);
    rig_crash(&rig);
    check_records("a2=7 b1=6 c1=4 ", "", "");
    rig_checkpoint(&rig);
    check_records("a2=7 b1=6 c1=4 ", "", "");
    rig_close(&rig);
}

static void removed_stream_leaves_nothing(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    store_stream_t *other = rig_stream(&rig, 2, rig_config());
    for (int i = 0; i < 100; i++) {
        rig_put_id(&rig, stream, "a.b", i % 2 == 0 ? "even" : "odd");
        rig_put(&rig, stream, "a.c", "x");
        rig_put(&rig, other, "a.c", "x");
    }
    bytes_t key = bytes_of("\0\0\0\1", 4);
    CHECK_EQ_I64(STATUS_OK, store_record_put(rig.store, RECORD_STREAM, key, text("{}")));
    rig_checkpoint(&rig);
    CHECK_EQ_I64(STATUS_OK, store_stream_remove(stream));
    bytes_t value;
    CHECK_EQ_I64(ENTRY_NONE, store_record_get(rig.store, RECORD_STREAM, key, &value));
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(0, rig_state(stream).last_seq);
    append_t skip = {.subject = text("a.b"), .skip = true};
    store_append(stream, &skip, rig.now);
    CHECK_EQ_U64(APPEND_STORED, rig_put_id(&rig, stream, "a.b", "even").verdict);
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_NONE, store_read(stream, 1, &message));
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, 2, &message));
    CHECK_EQ_U64(1, store_count(stream, (filters_t){0}, 0));
    rig_checkpoint(&rig);
    CHECK_EQ_I64(ENTRY_NONE, store_read(stream, 1, &message));
    CHECK_EQ_U64(1, rig_state(stream).subjects);
    CHECK_EQ_U64(100, rig_state(other).messages);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(1, rig_state(stream).messages);
    rig_close(&rig);
}

/* As a damaged page may leave it: neither the definition nor the state, but messages. */
static void number_with_data_is_taken(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 3, rig_config());
    rig_put(&rig, stream, "a.b", "x");
    CHECK_EQ_I64(STATUS_EXISTS, store_stream_unused(rig.store, 3));
    CHECK_EQ_I64(STATUS_OK, store_stream_unused(rig.store, 2));
    CHECK_EQ_I64(STATUS_OK, store_stream_unused(rig.store, 4));
    rig_checkpoint(&rig);
    rig_crash(&rig);
    CHECK_EQ_I64(STATUS_EXISTS, store_stream_unused(rig.store, 3));
    CHECK_EQ_I64(STATUS_OK, store_record_delete(rig.store, RECORD_STATE, bytes_of("\0\0\0\3", 4)));
    CHECK_EQ_I64(STATUS_EXISTS, store_stream_unused(rig.store, 3));
    rig_checkpoint(&rig);
    CHECK_EQ_I64(STATUS_EXISTS, store_stream_unused(rig.store, 3));
    CHECK_EQ_I64(STATUS_OK, store_stream_unused(rig.store, 2));
    CHECK_EQ_I64(STATUS_OK, store_stream_unused(rig.store, 4));
    rig_close(&rig);
}

static void removed_number_is_free(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 3, rig_config());
    rig_put(&rig, stream, "a.b", "x");
    rig_checkpoint(&rig);
    CHECK_EQ_I64(STATUS_OK, store_stream_remove(stream));
    CHECK_EQ_I64(STATUS_OK, store_stream_unused(rig.store, 3));
    rig_checkpoint(&rig);
    CHECK_EQ_I64(STATUS_OK, store_stream_unused(rig.store, 3));
    rig_close(&rig);
}

static void long_subjects(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    static char subject[3][1200];
    for (int i = 0; i < 3; i++) {
        memset(subject[i], 's', 1000);
        snprintf(subject[i] + 1000, 100, "%d", i);
        rig_put(&rig, stream, subject[i], "x");
    }
    rig_checkpoint(&rig);
    stored_message_t message;
    for (uint64_t i = 0; i < 3; i++) {
        CHECK_EQ_I64(ENTRY_FOUND, store_last_by_subject(stream, text(subject[i]), UINT64_MAX, &message));
        CHECK_EQ_U64(i + 1, message.seq);
    }
    CHECK_EQ_U64(3, rig_state(stream).subjects);
    rig_close(&rig);
}

static void many_subjects(void) {
    open_rig();
    rig_close(&rig);
    rig = (rig_t){.options.journal_size = 16 << 20};
    rig_open(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    char subject[32];
    for (uint32_t i = 0; i < 150000; i++) { /* more than the cache of heads holds */
        snprintf(subject, sizeof subject, "s.%u", i % 75000);
        CHECK_EQ_U64(i + 1, rig_put(&rig, stream, subject, "x").seq);
        if (i % 5000 == 0) {
            while (!store_room(rig.store)) {
                rig_sync(&rig);
            }
            rig_sync(&rig);
        }
    }
    CHECK_EQ_U64(75000, rig_state(stream).subjects);
    rig_sync(&rig);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    for (uint32_t i = 0; i < 75000; i += 371) {
        stored_message_t message;
        snprintf(subject, sizeof subject, "s.%u", i);
        CHECK_EQ_I64(ENTRY_FOUND, store_last_by_subject(stream, text(subject), UINT64_MAX, &message));
        CHECK_EQ_U64(75000 + i + 1, message.seq);
        CHECK_EQ_I64(ENTRY_FOUND, store_last_by_subject(stream, text(subject), 75000, &message));
        CHECK_EQ_U64(i + 1, message.seq);
    }
    rig_close(&rig);
}

/* Streams come and go beside each other; what is left is what the arrays say, after every restart. */
static void streams_side_by_side(void) {
    enum { IDS = 40 };
    static uint64_t last[IDS];
    static bool open[IDS];
    memset(last, 0, sizeof last);
    memset(open, 0, sizeof open);
    open_rig();
    unsigned seed = 5;
    store_stream_t *streams[IDS] = {NULL};
    for (int step = 0; step < 6000; step++) {
        uint32_t i = (uint32_t)rand_r(&seed) % IDS;
        if (!open[i]) {
            streams[i] = rig_stream(&rig, i, rig_config());
            open[i] = true;
        } else if (rand_r(&seed) % 200 == 0) {
            CHECK_EQ_I64(STATUS_OK, store_stream_remove(streams[i]));
            open[i] = false;
            last[i] = 0;
            continue;
        }
        CHECK_EQ_U64(++last[i], rig_put(&rig, streams[i], "s.x", "payload").seq);
        if (step % 50 == 0) {
            rig_sync(&rig);
        }
        if (step % 700 == 0) {
            rig_checkpoint(&rig);
        }
        if (step % 1000 == 999) {
            rig_sync(&rig);
            rig_crash(&rig);
            for (uint32_t j = 0; j < IDS; j++) {
                streams[j] = open[j] ? rig_stream(&rig, j, rig_config()) : NULL;
            }
        }
    }
    for (uint32_t i = 0; i < IDS; i++) {
        stored_message_t message;
        uint64_t from = 0;
        for (uint64_t seq = 1; open[i] && seq <= last[i]; seq++) {
            CHECK_EQ_I64(SEEK_FOUND, store_next(streams[i], (filters_t){0}, &from, UINT64_MAX, 1, &message));
            CHECK_EQ_U64(seq, message.seq);
            from++;
        }
    }
    rig_close(&rig);
}

/* Like this a large removal is applied in steps; a kill in between must not show. */
static void large_purge(void) {
    open_rig();
    rig_close(&rig);
    rig = (rig_t){.options.journal_size = 8 << 20};
    rig_open(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    for (uint32_t i = 1; i <= 120000; i++) {
        CHECK_EQ_U64(i, rig_put(&rig, stream, i % 3 == 0 ? "p.a" : "p.b", "x").seq);
        while (!store_room(rig.store)) {
            rig_sync(&rig);
        }
        if (i % 4000 == 0) {
            rig_sync(&rig);
        }
    }
    rig_checkpoint(&rig);
    uint64_t total = 0;
    uint64_t steps = 0;
    step_outcome_t step = STEP_MORE;
    store_purge_t purge = {.below_seq = 110001};
    while (step != STEP_OVER) {
        uint64_t purged;
        CHECK_EQ_I64(STATUS_OK, store_purge(stream, &purge, &purged, &step));
        total += purged;
        steps++;
        rig_sync(&rig);
    }
    CHECK_EQ_U64(110000, total);
    CHECK(steps > 10);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(10000, rig_state(stream).messages);
    CHECK_EQ_U64(110001, rig_state(stream).first_seq);
    rig_checkpoint(&rig);
    rig_reopen(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    bytes_t filter = text("p.a");
    CHECK_EQ_U64(40000 - 36666, store_count(stream, (filters_t){.patterns = &filter, .count = 1}, 0));
    rig_close(&rig);
}

/* The room that publishers leave to others is an eighth of the ring, and a payload is long: neither makes notes. */
static void small_index(void) {
    static char payload[50000];
    memset(payload, 'x', sizeof payload - 1);
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_I64(APPEND_STORED, rig_put(&rig, stream, "a", payload).verdict);
    CHECK(rig.store->memtable.current.capacity * sizeof(memtable_slot_t) < sizeof payload);
    rig_close(&rig);
}

/* More than wait for one another in a transaction, and other streams' come and go among them. */
#define IDS 18000u

static append_t with_id(char id[16], uint32_t number) {
    snprintf(id, 16, "%08x", number * 2654435761u);
    return (append_t){.subject = text("a"), .msg_id = text(id)};
}

static void check_ids(store_stream_t *stream) {
    char id[16];
    for (uint32_t number = 0; number < IDS; number += 3) {
        append_t append = with_id(id, number);
        appended_t got = store_append(stream, &append, rig.now);
        CHECK_EQ_I64(APPEND_DUPLICATE, got.verdict);
        CHECK_EQ_U64(number + 1, got.seq);
    }
}

static void ids_in_any_order(void) {
    char id[16];
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    for (uint32_t number = 0; number < IDS; number++) {
        append_t append = with_id(id, number);
        CHECK_EQ_I64(APPEND_STORED, rig_append(&rig, stream, &append).verdict);
        if (number % 2000 == 0) {
            store_stream_t *other = rig_stream(&rig, 2, rig_config());
            CHECK_EQ_I64(APPEND_STORED, rig_put_id(&rig, other, "a", "other").verdict);
            CHECK_EQ_I64(APPEND_STORED, rig_put_id(&rig, other, "a", id).verdict);
            CHECK_EQ_I64(STATUS_OK, store_stream_remove(other));
        }
    }
    check_ids(stream);
    rig_checkpoint(&rig);
    check_ids(stream);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    check_ids(stream);
    CHECK_EQ_I64(APPEND_STORED, rig_put_id(&rig, stream, "a", "other").verdict);
    CHECK_EQ_I64(APPEND_STORED, rig_put_id(&rig, rig_stream(&rig, 2, rig_config()), "a", "other").verdict);
    rig_close(&rig);
}

int main(void) {
    RUN("records are read in order through the overlay and LMDB", records_merge);
    RUN("a removed stream leaves nothing behind, even for its own id", removed_stream_leaves_nothing);
    RUN("a number under which anything is stored is not a new stream's", number_with_data_is_taken);
    RUN("the number of a removed stream is free", removed_number_is_free);
    RUN("subjects longer than a key are told apart", long_subjects);
    RUN("more subjects than the cache holds keep their heads", many_subjects);
    RUN("streams come and go side by side, over checkpoints and kills", streams_side_by_side);
    RUN("ids that come in any order are duplicates over checkpoints and kills, each in its stream", ids_in_any_order);
    RUN("a large purge goes in steps and is whole after a kill", large_purge);
    RUN("a message costs the index of what is in the overlay its own entries, not room for what is not there",
        small_index);
    return TEST_RESULT();
}
