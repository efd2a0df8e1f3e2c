/* test_store_ahead.c: the next message of one subject, or of a few, among many others, by their chains, against reading
 * all that lies between, which gives the same. The messages of a subject lie at random distances, and come, go and are
 * evicted meanwhile, as subjects do. LEAFD_DUEL_SEED replays one seed.
 */
#include "base/random.h"
#include "store_rig.h"

#define MESSAGES 24000
#define READERS 9
#define DEVICES 12
#define AGE 3000u /* messages, behind which devices have new subjects */
#define FILTERS 3
#define STEPS 60

static rig_t rig;
static store_stream_t *stream;
static uint64_t random_state;
static uint32_t put_ever;

static uint64_t below(uint64_t n) {
    return random_next(&random_state) % n;
}

typedef struct reader {
    bytes_t filters[FILTERS]; /* none behind an empty one */
    store_ahead_t ahead;
    uint64_t from;
} reader_t;

static filters_t filters_of(const reader_t *reader) {
    uint32_t count = 0;
    while (count < FILTERS && reader->filters[count].size != 0) {
        count++;
    }
    return (filters_t){.patterns = reader->filters, .count = count};
}

static void put_one(const char *subject) {
    append_t append = {.subject = text(subject), .payload = text("p")};
    CHECK_EQ_I64(APPEND_STORED, rig_append(&rig, stream, &append).verdict);
}

/* "rare" is one in 300, "some" one in 150, "row" now and then 40 in a row, "dev.<one of 12>.<age>" one in
 * 60. */
static void put_some(uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint64_t die = below(6000);
        if (die == 0) {
            for (int j = 0; j < 40; j++) {
                put_one("row");
            }
        }
        char device[32];
        snprintf(device, sizeof device, "dev.%u.%u", (unsigned)below(DEVICES), put_ever++ / AGE % 40);
        put_one(die <= 20 ? "rare" : die <= 60 ? "some" : die <= 160 ? device : "other");
    }
}

/* As far as `upto`, on from where it is; it ends before the first one that it finds once in a while, as a consumer
 * whose receiver is full. */
static void read_on(reader_t *reader, uint64_t upto) {
    stored_message_t message = {0};
    stored_message_t expected = {0};
    for (;;) {
        uint64_t plain = reader->from;
        uint32_t slices = 0;
        seek_outcome_t status;
        while ((status = store_next_ahead(stream, &reader->ahead, filters_of(reader), &reader->from, upto,
                                          (uint32_t)below(4000) + 1, &message))
               == SEEK_MORE) {
            CHECK(slices++ < MESSAGES);
            if (below(4) == 0) {
                put_some((uint32_t)below(200)); /* behind upto; the oldest ones go */
            }
        }
        seek_outcome_t wanted;
        while ((wanted = store_next(stream, filters_of(reader), &plain, upto, 5000, &expected)) == SEEK_MORE) {
        }
        CHECK_EQ_I64(wanted, status);
        if (status != SEEK_FOUND) {
            return;
        }
        CHECK_EQ_U64(expected.seq, message.seq);
        CHECK(filters_match(filters_of(reader), message.subject));
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
    for (int i = 0; i < 3 && store_next(stream, filters_of(reader), &from, UINT64_MAX, 50000, &message) == SEEK_FOUND;
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
    put_ever = 0;
    rig = (rig_t){0};
    rig_open(&rig);
    stream_config_t config = rig_config();
    config.max_msgs = MESSAGES;
    stream = rig_stream(&rig, 3, config);
    put_some(MESSAGES);
    reader_t readers[READERS] = {
        {.filters = {text("rare")}},
        {.filters = {text("some")}},
        {.filters = {text("row")}},
        {.filters = {text("rare")}},
        {.filters = {text("rare"), text("dev.5.2"), text("none")}},
        {.filters = {text("dev.7.>")}},
        {.filters = {text("dev.1.*"), text("dev.1.9"), text("row")}}, /* one subject of two filters */
        {.filters = {text("dev.>")}},                                 /* too many for the list */
        {.filters = {text("absent.>"), text("dev.3.>")}}};
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
static void far_ones_come(const char *filter, const char *const one[2]) {
    enum { APART = 150, COUNT = 300, BUDGET = 600 };
    rig = (rig_t){0};
    rig_open(&rig);
    stream = rig_stream(&rig, 3, rig_config());
    for (uint32_t i = 1; i <= APART * COUNT; i++) {
        char other[16];
        snprintf(other, sizeof other, "other.%u", (unsigned)(i % 50));
        put_one(i % APART == 0 ? i % (2 * APART) == 0 ? one[0] : one[1] : other);
    }
    rig_sync(&rig);
    rig_checkpoint(&rig);
    reader_t reader = {.filters = {text(filter)}};
    stored_message_t message;
    uint32_t calls = 0;
    for (uint64_t found = 0; found < COUNT; calls++) {
        seek_outcome_t status =
            store_next_ahead(stream, &reader.ahead, filters_of(&reader), &reader.from, UINT64_MAX, BUDGET, &message);
        CHECK(status == SEEK_FOUND || status == SEEK_MORE);
        if (status == SEEK_FOUND) {
            CHECK_EQ_U64(++found * APART, message.seq);
            reader.from = message.seq + 1;
        }
    }
    CHECK(calls < COUNT + 20); /* slices of the way back, twice */
    store_ahead_end(&reader.ahead);
    rig_close(&rig);
}

static void far_ones_come_at_once(void) {
    far_ones_come("rare", (const char *const[]){"rare", "rare"});
}

static void far_ones_of_few_subjects_come_at_once(void) {
    far_ones_come("rare.>", (const char *const[]){"rare.a", "rare.b"});
}

/* What comes while the subjects are looked through: a new one before where that is, then one more of an old one. */
static void none_is_passed_over_by_a_newer_one(void) {
    static const char *const later[] = {"dev.0", "dev.b"};
    static const uint64_t expected[] = {500, 900, 3001, 3002};
    for (uint32_t when = 0; when < 12; when++) {
        rig = (rig_t){0};
        rig_open(&rig);
        stream = rig_stream(&rig, 3, rig_config());
        for (uint32_t i = 1; i <= 3000; i++) {
            put_one(i == 500 ? "dev.a" : i == 900 ? "dev.b" : "other");
        }
        reader_t reader = {.filters = {text("dev.*")}, .from = 1};
        uint32_t count = 0;
        seek_outcome_t status = SEEK_MORE;
        for (uint32_t calls = 0; status != SEEK_NONE || calls <= when + 1; calls++) {
            stored_message_t message = {0};
            status = store_next_ahead(stream, &reader.ahead, filters_of(&reader), &reader.from, UINT64_MAX,
                                      calls == 0 ? 200 : 1, &message);
            CHECK(calls < 9000);
            if (status == SEEK_FOUND) {
                CHECK_EQ_U64(count < 4 ? expected[count] : 0, message.seq);
                count++;
                reader.from = message.seq + 1;
            }
            for (uint32_t i = 0; i < 2 && calls == when; i++) {
                put_one(later[i]);
            }
        }
        CHECK_EQ_U64(4, count);
        store_ahead_end(&reader.ahead);
        rig_close(&rig);
    }
}

int main(void) {
    RUN("the messages of one subject or a few by their chains are those of reading all, whatever comes and goes "
        "meanwhile",
        as_reading_all);
    RUN("far ones are found without reading what lies between", far_ones_come_at_once);
    RUN("so are those of a filter that few subjects match", far_ones_of_few_subjects_come_at_once);
    RUN("what comes while the subjects are looked through is found in its order", none_is_passed_over_by_a_newer_one);
    return TEST_RESULT();
}
