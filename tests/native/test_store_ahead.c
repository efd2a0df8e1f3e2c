/* test_store_ahead.c: the next message of one subject among many others, by its chain, against reading all that lies
 * between, which gives the same. The messages of a subject lie at random distances, and come, go and are evicted
 * meanwhile. LEAFD_DUEL_SEED replays one seed.
 */
#include "base/random.h"
#include "store_rig.h"

#define MESSAGES 24000
#define READERS 4
#define STEPS 60

static rig_t rig;
static store_stream_t *stream;
static uint64_t random_state;

static uint64_t below(uint64_t n) {
    return random_next(&random_state) % n;
}

typedef struct reader {
    bytes_t filter;
    store_ahead_t ahead;
    uint64_t from;
} reader_t;

static filters_t filters_of(const reader_t *reader) {
    return (filters_t){.patterns = &reader->filter, .count = 1};
}

static void put_one(const char *subject) {
    append_t append = {.subject = text(subject), .payload = text("p")};
    CHECK_EQ_I64(APPEND_STORED, rig_append(&rig, stream, &append).verdict);
}

/* "rare" is one in 300, "some" one in 150, "row" now and then 40 in a row. */
static void put_some(uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint64_t die = below(6000);
        if (die == 0) {
            for (int j = 0; j < 40; j++) {
                put_one("row");
            }
        }
        put_one(die <= 20 ? "rare" : die <= 60 ? "some" : "other");
    }
}

/* As far as `upto`, on from where it is; it ends before the first one that it finds once in a while, as a consumer
 * whose receiver is full. */
static void read_on(reader_t *reader, uint64_t upto) {
    stored_message_t message = {0};
    stored_message_t expected = {0};
    for (;;) {
        uint64_t plain = reader->from;
        status_t wanted;
        while ((wanted = store_next(stream, filters_of(reader), &plain, upto, 5000, &expected)) == STATUS_AGAIN) {
        }
        uint32_t slices = 0;
        status_t status;
        while ((status = store_next_ahead(stream, &reader->ahead, filters_of(reader), &reader->from, upto,
                                          (uint32_t)below(4000) + 1, &message))
               == STATUS_AGAIN) {
            CHECK(slices++ < MESSAGES);
        }
        CHECK_EQ_I64(wanted, status);
        if (status != STATUS_OK) {
            return;
        }
        CHECK_EQ_U64(expected.seq, message.seq);
        CHECK(bytes_equal(message.subject, reader->filter));
        CHECK_EQ_U64(message.seq, reader->from);
        if (below(20) == 0) {
            return;
        }
        reader->from = message.seq + 1;
    }
}

static void change_something(reader_t readers[READERS]) {
    stream_state_t state;
    store_stream_state(stream, &state);
    for (uint64_t i = below(300); i > 0; i--) {
        (void)!store_delete(stream, state.first_seq + below(state.last_seq - state.first_seq + 1));
    }
    reader_t *reader = &readers[below(READERS)];
    stored_message_t message;
    uint64_t from = reader->from;
    for (int i = 0; i < 3 && store_next(stream, filters_of(reader), &from, UINT64_MAX, 50000, &message) == STATUS_OK;
         i++) {
        CHECK_EQ_I64(STATUS_OK, store_delete(stream, message.seq)); /* one that it has found already */
        from = message.seq + 1;
    }
    switch (below(6)) {
    case 0: readers[below(READERS)].from = state.first_seq + below(500); break; /* set back */
    case 1:
        rig_sync(&rig);
        rig_checkpoint(&rig);
        break;
    default: put_some((uint32_t)below(600)); break;
    }
}

static void as_reading_all(void) {
    uint64_t seed = (uint64_t)time(NULL);
    seed = getenv("LEAFD_DUEL_SEED") != NULL ? strtoull(getenv("LEAFD_DUEL_SEED"), NULL, 10) : seed;
    printf("        LEAFD_DUEL_SEED=%llu\n", (unsigned long long)seed);
    random_state = seed * 2 + 1;
    rig = (rig_t){0};
    rig_open(&rig);
    stream_config_t config = rig_config();
    config.max_msgs = MESSAGES;
    stream = rig_stream(&rig, 3, config);
    put_some(MESSAGES);
    reader_t readers[READERS] = {
        {.filter = text("rare")}, {.filter = text("some")}, {.filter = text("row")}, {.filter = text("rare")}};
    for (int step = 0; step < STEPS; step++) {
        stream_state_t state;
        store_stream_state(stream, &state);
        uint64_t upto = below(3) == 0 ? state.last_seq : state.first_seq + below(MESSAGES);
        for (int i = 0; i < READERS; i++) {
            read_on(&readers[i], upto);
        }
        change_something(readers);
    }
    for (int i = 0; i < READERS; i++) {
        store_ahead_end(&readers[i].ahead);
    }
    rig_close(&rig);
}

/* More than are remembered at a time. */
static void far_ones_come_at_once(void) {
    enum { APART = 150, COUNT = 300, BUDGET = 600 };
    rig = (rig_t){0};
    rig_open(&rig);
    stream = rig_stream(&rig, 3, rig_config());
    for (uint32_t i = 1; i <= APART * COUNT; i++) {
        put_one(i % APART == 0 ? "rare" : "other");
    }
    rig_sync(&rig);
    rig_checkpoint(&rig);
    reader_t reader = {.filter = text("rare")};
    stored_message_t message;
    uint32_t calls = 0;
    for (uint64_t found = 0; found < COUNT; calls++) {
        status_t status =
            store_next_ahead(stream, &reader.ahead, filters_of(&reader), &reader.from, UINT64_MAX, BUDGET, &message);
        CHECK(status == STATUS_OK || status == STATUS_AGAIN);
        if (status == STATUS_OK) {
            CHECK_EQ_U64(++found * APART, message.seq);
            reader.from = message.seq + 1;
        }
    }
    CHECK(calls < COUNT + 20); /* slices of the way back, twice */
    store_ahead_end(&reader.ahead);
    rig_close(&rig);
}

int main(void) {
    RUN("one subject's messages by its chain are those of reading all, whatever comes and goes meanwhile",
        as_reading_all);
    RUN("far ones are found without reading what lies between", far_ones_come_at_once);
    return TEST_RESULT();
}
