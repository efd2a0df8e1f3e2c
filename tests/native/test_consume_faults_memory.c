/* test_consume_faults_memory.c: a read of LMDB that fails, or an allocation, at each place, while consumers of a store
 * that was just opened take messages and acknowledge them: what is removed by interest, from a work queue, and over the
 * bound of what waits; a selection of which a message goes meanwhile; a position that is another consumer's. What an
 * acknowledgement was answered for is not delivered again, what a consumer still wants stays, floors are where they
 * would be without the fault, after a kill as well. Consumers behind a plane: test_plane_consumers_reads.c.
 *
 * Each run has some of the places, from a drawn one on; LEAFD_TEST_STRIDE=1 has all.
 */
#include "consume/consume.h"
#include "failing_place.h"
#include "kept_store.h"
#include "quiet_host.h"
#include "spoiled_heads.h"
#include "unreserved.h"

#define STREAM_ID 1
#define MESSAGES 12u /* s.a and s.b by turns */
#define CONSUMERS_MAX 20u
#define TRIES 60u
#define PLACES_MAX 4000u
#define CI_STRIDE 7u
#define ALL_SEQS 0xfffu
#define OF_A 0x555u /* 1, 3 .. */
#define OF_B 0xaaau

typedef struct scene {
    const char *name;
    uint8_t retention;
    void (*before)(void);
    void (*during)(void);
    void (*after)(void); /* and after a kill */
    void (*last)(void);  /* with nothing failing any more, or NULL */
} scene_t;

static rig_t rig;
static const scene_t *scene;
static consume_t *consume;
static share_t memory = {.limit = UINT64_MAX};
static store_stream_t *stream;
static stream_config_t config;
static consumer_setup_t setups[CONSUMERS_MAX + 1]; /* by number; of those that there are */
static bytes_t patterns[CONSUMERS_MAX + 1];
static consumer_t *consumers[CONSUMERS_MAX + 1];
static uint32_t consumer_count;
static uint32_t delivered[CONSUMERS_MAX + 1]; /* sets of sequences: 1 is bit 0 */
static uint32_t acked[CONSUMERS_MAX + 1];     /* and answered */
static uint64_t consumer_seqs[CONSUMERS_MAX + 1][MESSAGES + 2];

/* ---- what fails -------------------------------------------------------------------------------------------------- */

#define SCENE_CHECK(condition) PLACE_CHECK(scene->name, condition)

/* ---- the world of the consumers ---------------------------------------------------------------------------------- */

static uint32_t bit_of(uint64_t seq) {
    CHECK(seq >= 1 && seq <= MESSAGES);
    return 1u << (seq - 1);
}

static delivered_t deliver(void *context, const delivery_t *delivery) {
    (void)context;
    unsigned long long seq, sequence;
    char reply[200];
    uint32_t number = consumer_setup(delivery->consumer)->id;
    (void)snprintf(reply, sizeof reply, "%.*s", (int)delivery->reply.size, (const char *)delivery->reply.at);
    SCENE_CHECK(sscanf(reply, "$JS.ACK.S.c.%*u.%llu.%llu.", &seq, &sequence) == 2);
    SCENE_CHECK((acked[number] & bit_of(seq)) == 0);
    delivered[number] |= bit_of(seq);
    consumer_seqs[number][seq] = sequence;
    return DELIVERED;
}

/* With `durable`, until everything is on disk. */
static void tick(bool durable) {
    bool again = true;
    for (int i = 0; again && i < 100; i++) consume_tick(consume, rig.now, &again);
    SCENE_CHECK(consume_sound(consume));
    consume_flush(consume);
    if (durable) {
        rig_sync(&rig);
    } else {
        store_tick(rig.store, rig.now);
        while (store_advanced_next(rig.store)) {
        }
    }
    consume_advanced(consume, stream);
    again = true;
    for (int i = 0; again && i < 100; i++) consume_tick(consume, rig.now, &again);
}

static void wait_a_while(unsigned ticks) {
    for (unsigned i = 0; i < ticks; i++) {
        rig_pass(&rig, 200 * NS_PER_MS);
        tick(i + 1 == ticks);
    }
}

static void again(unsigned *tries) {
    SCENE_CHECK(++*tries < TRIES);
    wait_a_while(1);
}

static void put_consumer(uint32_t number, bool loading) {
    unsigned tries = 0;
    for (;;) {
        status_t put = consumer_add(consume, stream, &setups[number], loading, rig.now, &consumers[number]);
        SCENE_CHECK(put != STATUS_NOT_FOUND && put != STATUS_CORRUPT && put != STATUS_INVALID);
        if (put == STATUS_OK) return;
        again(&tries);
    }
}

static void open_all(bool loading) {
    static const consume_out_t out = {.deliver = deliver,
                                      .status = quiet_status,
                                      .interest = quiet_interest,
                                      .exact_interest = quiet_interest,
                                      .advise = quiet_advise,
                                      .gone = quiet_gone};
    consume = consume_new(&out, &memory);
    CHECK(consume != NULL);
    store_set_hooks(rig.store, consume_store_hooks(consume));
    stream = rig_stream(&rig, STREAM_ID, config);
    if (!loading) rig_sync(&rig);
}

static void load_all(void) {
    for (uint32_t number = 1; number <= consumer_count; number++) put_consumer(number, true);
}

static consumer_setup_t setup_of(uint32_t number) {
    return (consumer_setup_t){
        .stream_id = STREAM_ID,
        .id = number,
        .stream_name = BYTES_LITERAL("S"),
        .name = BYTES_LITERAL("c"),
        .config = {
            .ack_policy = ACK_EXPLICIT, .max_deliver = -1, .ack_wait_ns = 90 * NS_PER_SECOND, .max_ack_pending = 1000}};
}

/* NULL: of all subjects. */
static uint32_t describe(const char *filter) {
    uint32_t number = ++consumer_count;
    CHECK(number <= CONSUMERS_MAX);
    setups[number] = setup_of(number);
    if (filter != NULL) {
        patterns[number] = text(filter);
        setups[number].filters = (filters_t){.patterns = &patterns[number], .count = 1};
    }
    return number;
}

static void publish_all(void) {
    for (unsigned i = 0; i < MESSAGES; i++) {
        append_t append = {.subject = text(i % 2 == 0 ? "s.a" : "s.b"), .payload = text("payload")};
        CHECK_EQ_U64(APPEND_STORED, store_append(stream, &append, rig.now).verdict);
    }
    tick(true);
}

static void pull(uint32_t number, const char *body) {
    consumer_pull(consumers[number], BYTES_LITERAL("in"), text(body), rig.now);
    tick(false);
}

static consumer_state_t state_of(uint32_t number) {
    consumer_state_t out;
    consumer_snapshot(consumers[number], rig.now, &out);
    return out;
}

static void ack_delivered(uint32_t number) {
    uint32_t now = 0;
    for (uint64_t seq = 1; seq <= MESSAGES; seq++) {
        bool answer = false;
        if ((delivered[number] & ~acked[number] & bit_of(seq)) == 0) continue;
        consumer_ack(consumers[number], seq, consumer_seqs[number][seq], 1, BYTES_LITERAL("+ACK"), BYTES_LITERAL("r"),
                     rig.now, &answer);
        if (answer) now |= bit_of(seq);
    }
    tick(true);
    acked[number] |= now; /* they are on the disk */
}

/* Until all of these are delivered and acknowledged. */
static void take(uint32_t number, uint32_t wanted) {
    unsigned tries = 0;
    while (acked[number] != wanted) {
        pull(number, "{\"batch\":20,\"expires\":100000000}");
        ack_delivered(number);
        if (acked[number] != wanted) again(&tries);
    }
}

static bool is_stored(uint32_t expected) {
    if (rig_state(stream).messages != (uint64_t)__builtin_popcount(expected)) return false;
    for (uint64_t seq = 1; seq <= MESSAGES; seq++) {
        stored_message_t message;
        if ((expected & bit_of(seq)) != 0 && store_read(stream, seq, &message) != ENTRY_FOUND) return false;
    }
    return true;
}

/* ---- how a scene is played --------------------------------------------------------------------------------------- */

static bool play_copy(unsigned n, unsigned times) {
    memset(delivered, 0, sizeof delivered);
    memset(acked, 0, sizeof acked);
    copy_kept_store(&rig);
    rig_start(&rig);
    open_all(true);
    rig_sync(&rig);
    (void)rig_alarmed(&rig, "");
    fail_from(n, times);
    scene->during();
    bool reached = counted() >= n;
    heal();
    wait_a_while(40); /* a sweep that was stored waits for consumers */
    scene->after();
    SCENE_CHECK(fault != READ || !reached || rig_alarmed(&rig, "reading"));
    consume_free(consume);
    rig_crash(&rig);
    open_all(true);
    load_all();
    wait_a_while(40);
    scene->after();
    if (scene->last != NULL) scene->last();
    consume_free(consume);
    drop_copy(&rig);
    return reached;
}

static unsigned stride(void) {
    return getenv("LEAFD_TEST_STRIDE") != NULL ? test_stride() : CI_STRIDE;
}

static unsigned first_place(void) {
    return 1 + (unsigned)time(NULL) % stride();
}

static void play(const scene_t *next) {
    scene = next;
    fault = READ;
    failing_at = 0;
    consumer_count = 0;
    memset(delivered, 0, sizeof delivered);
    memset(acked, 0, sizeof acked);
    config = rig_config();
    config.retention = scene->retention;
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    open_all(false);
    scene->before();
    rig_checkpoint(&rig);
    consume_free(consume);
    store_close(rig.store);
    rig.store = NULL;
    keep_store(&rig);
    for (; fault < FAULTS; fault++) {
        unsigned most = 0;
        for (unsigned n = first_place(); play_copy(n, 1); n += stride()) {
            most = n;
            SCENE_CHECK(n < PLACES_MAX);
        }
        for (unsigned n = first_place(); n <= most; n += stride()) (void)play_copy(n, 3);
        printf("%s: %u of %s\n", scene->name, most, fault_names[fault]);
    }
    drop_kept_store(&rig);
}

static void make_all(void) {
    for (uint32_t number = 1; number <= consumer_count; number++) put_consumer(number, false);
    publish_all();
}

/* ---- interest ---------------------------------------------------------------------------------------------------- */

static void make_two(void) {
    (void)describe(NULL);
    (void)describe("s.b");
    make_all();
}

static void make_many(void) {
    static const char *const others[] = {"x.a", "x.b", "x.c", "x.d", "x.e", "x.f", "x.g", "x.h",
                                         "x.i", "x.j", "x.k", "x.l", "x.m", "x.n", "x.o", "x.p"};
    (void)describe(NULL);
    (void)describe("s.b");
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++) (void)describe(others[i]);
    make_all();
}

static void take_as_first(void) {
    load_all();
    take(1, ALL_SEQS);
}

static void second_has_its_own(void) {
    SCENE_CHECK(is_stored(OF_B));
    SCENE_CHECK(state_of(1).floor_stream == MESSAGES && state_of(1).ack_pending == 0);
    SCENE_CHECK(state_of(2).floor_stream == 0);
}

static void take_as_second(void) {
    take(2, OF_B);
    wait_a_while(5);
    SCENE_CHECK(is_stored(0));
}

static void what_another_one_wants_stays(void) {
    play(&(scene_t){"two want it", 1, make_two, take_as_first, second_has_its_own, take_as_second});
    play(&(scene_t){"one of many wants it", 1, make_many, take_as_first, second_has_its_own, take_as_second});
}

/* ---- a work queue ------------------------------------------------------------------------------------------------ */

/* All are delivered, and none is acknowledged. */
static void make_and_deliver(void) {
    uint32_t number = describe("s.*");
    setups[number].config.ack_policy = ACK_ALL;
    make_all();
    pull(number, "20");
    CHECK_EQ_U64(ALL_SEQS, delivered[number]);
    for (unsigned i = 0; i < 10; i++) {
        rig_pass(&rig, NS_PER_SECOND);
        tick(true); /* each has a record */
    }
    patterns[number] = text("s.a"); /* from the next start on */
}

/* Of what it has delivered it wants a half no more; all are acknowledged at once. */
static void narrow_and_ack(void) {
    patterns[1] = text("s.*");
    load_all();
    patterns[1] = text("s.a");
    unsigned tries = 0;
    for (;;) {
        status_t changed = consumer_configure(consumers[1], &setups[1], rig.now);
        SCENE_CHECK(changed != STATUS_INVALID && changed != STATUS_NOT_FOUND);
        if (changed == STATUS_OK) break;
        again(&tries);
    }
    bool answer = false;
    consumer_ack(consumers[1], MESSAGES, MESSAGES, 1, BYTES_LITERAL("+ACK"), BYTES_LITERAL("r"), rig.now, &answer);
    SCENE_CHECK(answer);
    tick(true);
    acked[1] = ALL_SEQS;
}

static void the_queue_is_empty(void) {
    SCENE_CHECK(is_stored(0));
    SCENE_CHECK(state_of(1).ack_pending == 0 && state_of(1).floor_stream == MESSAGES);
}

static void what_is_acknowledged_leaves_the_queue(void) {
    play(&(scene_t){"a narrowed queue", 2, make_and_deliver, narrow_and_ack, the_queue_is_empty, NULL});
}

/* ---- the bound of what waits ------------------------------------------------------------------------------------- */

static uint64_t bytes_most; /* 0: two messages are the bound */
static void make_attended(void) {
    uint32_t number = describe("s.a");
    setups[number].config.flags = CONSUMER_ATTENDED;
    make_all();
}

static void bound_it(void) {
    load_all();
    consume_bound(consume, bytes_most == 0 ? 2 : 0, bytes_most);
    wait_a_while(6);
}

static void two_are_left(void) {
    consume_bound(consume, bytes_most == 0 ? 2 : 0, bytes_most);
    wait_a_while(3);
    SCENE_CHECK(state_of(1).pending == 2);
    SCENE_CHECK(state_of(1).floor_stream == 7);
    SCENE_CHECK(is_stored(ALL_SEQS));
}

static void the_bound_takes_the_oldest(void) {
    for (bytes_most = 0; bytes_most <= 25; bytes_most += 25) /* of ten each */
        play(&(scene_t){"a bound", 0, make_attended, bound_it, two_are_left, NULL});
}

/* ---- the newest of each ------------------------------------------------------------------------------------------ */

static bool all_are_said;
static void select_and_delete(void) {
    all_are_said = false;
    consumer_count = 0;
    uint32_t number = describe("s.*");
    setups[number].config.deliver_policy = DELIVER_LAST_PER_SUBJECT;
    put_consumer(number, false);
    unsigned tries = 0;
    status_t deleted;
    while ((deleted = store_delete(stream, MESSAGES)) != STATUS_OK) {
        SCENE_CHECK(deleted != STATUS_NOT_FOUND && deleted != STATUS_CORRUPT);
        again(&tries);
    }
    for (tries = 0; (acked[1] & bit_of(MESSAGES - 1)) == 0;) {
        pull(number, "{\"batch\":20,\"expires\":100000000}");
        ack_delivered(number);
        if ((acked[1] & bit_of(MESSAGES - 1)) == 0) again(&tries);
    }
}

/* Of s.b perhaps the one before. Without memory for the list all are delivered, and an alarm says so. */
static void newest_were_chosen(void) {
    wait_a_while(2);
    uint32_t chosen = bit_of(MESSAGES - 1) | bit_of(MESSAGES - 2) | bit_of(MESSAGES);
    if (fault == ALLOCATION && rig_alarmed(&rig, "no memory to look for")) all_are_said = true;
    SCENE_CHECK((delivered[1] & ~chosen) == 0 || all_are_said);
    SCENE_CHECK(state_of(1).pending <= 1 && is_stored(ALL_SEQS - bit_of(MESSAGES)));
}

static void a_selection_loses_only_what_went(void) {
    play(&(scene_t){"a selection", 0, publish_all, select_and_delete, newest_were_chosen, NULL});
}

/* ---- another one's position -------------------------------------------------------------------------------------- */

static pending_entry_t rows[MESSAGES];

static void make_in_flight(void) {
    uint32_t number = describe(NULL);
    make_all();
    pull(number, "20");
    for (uint64_t seq = 1; seq <= MESSAGES; seq += 2) {
        bool answer;
        consumer_ack(consumers[1], seq, seq, 1, BYTES_LITERAL("+ACK"), BYTES_LITERAL("r"), rig.now, &answer);
    }
    for (unsigned i = 0; i < 10; i++) {
        rig_pass(&rig, NS_PER_SECOND);
        tick(true);
    }
    CHECK_EQ_U64(MESSAGES / 2, consumer_export(consumers[1], 0, rig.now, rows, MESSAGES));
}

static status_t import_second(void) {
    consumer_state_t position = state_of(1);
    put_consumer(2, false);
    status_t imported = consumer_import(consumers[2], &position, rig.now);
    if (imported == STATUS_OK) imported = consumer_import_rows(consumers[2], rows, 0, MESSAGES / 2, rig.now);
    if (imported == STATUS_OK) {
        consumer_import_end(consumers[2], rig.now);
        return STATUS_OK;
    }
    consumer_remove(consumers[2], rig.now);
    return imported;
}

static void import_until_it_does(void) {
    consumer_count = 1;
    load_all();
    (void)describe(NULL);
    unsigned tries = 0;
    status_t imported;
    while ((imported = import_second()) != STATUS_OK) {
        SCENE_CHECK(imported != STATUS_INVALID && imported != STATUS_NOT_FOUND && imported != STATUS_CORRUPT);
        again(&tries);
    }
    stored_consumer_t stored;
    entry_outcome_t outcome = consume_stored(rig.store, STREAM_ID, 1, &stored);
    SCENE_CHECK(outcome != ENTRY_NONE && outcome != ENTRY_DAMAGED);
    SCENE_CHECK(outcome != ENTRY_FOUND || stored.floor_stream == 1);
}

static void both_stand_there(void) {
    for (uint32_t number = 1; number <= 2; number++) {
        SCENE_CHECK(state_of(number).ack_pending == MESSAGES / 2 && state_of(number).floor_stream == 1);
        SCENE_CHECK(state_of(number).pending == 0);
    }
}

static void take_as_both(void) {
    rig_pass(&rig, 100 * NS_PER_SECOND);
    for (uint32_t number = 1; number <= 2; number++) take(number, OF_B);
}

static void a_position_is_taken_over_whole(void) {
    play(&(scene_t){"a position", 0, make_in_flight, import_until_it_does, both_stand_there, take_as_both});
}

/* Nobody has said to be done with it: it is in flight there as well. */
static void a_damaged_message_is_taken_over_as_well(void) {
    static const scene_t alone = {.name = "a damaged message"};
    scene = &alone;
    failing_at = 0;
    consumer_count = 0;
    memset(delivered, 0, sizeof delivered);
    memset(acked, 0, sizeof acked);
    config = rig_config();
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    open_all(false);
    make_in_flight();
    rig_checkpoint(&rig);
    consume_free(consume);
    store_close(rig.store);
    rig.store = NULL;
    spoil_message(&rig, 4);
    rig_start(&rig);
    open_all(true);
    load_all();
    (void)describe(NULL);
    CHECK_EQ_I64(STATUS_OK, import_second());
    tick(true);
    CHECK_EQ_U64(MESSAGES / 2, state_of(1).ack_pending);
    CHECK_EQ_U64(MESSAGES / 2, state_of(2).ack_pending);
    CHECK_EQ_U64(1, state_of(2).floor_stream);
    consume_free(consume);
    rig_close(&rig);
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static void make_one(void) {
    (void)describe(NULL);
    make_all();
}

/* The first request has no room for any message, which ends it while the message waits. */
static void ask_for_too_few_bytes(void) {
    load_all();
    unsigned tries = 0;
    while (acked[1] != ALL_SEQS) {
        consumer_pull(consumers[1], BYTES_LITERAL("small"), text("{\"batch\":5,\"max_bytes\":1,\"expires\":100000000}"),
                      rig.now);
        pull(1, "{\"batch\":5,\"expires\":100000000}");
        ack_delivered(1);
        again(&tries);
    }
}

static void all_are_acknowledged(void) {
    SCENE_CHECK(state_of(1).floor_stream == MESSAGES && state_of(1).ack_pending == 0 && state_of(1).pending == 0);
    SCENE_CHECK(is_stored(ALL_SEQS));
}

static void a_request_that_ends_costs_no_message(void) {
    play(&(scene_t){"too few bytes", 0, make_one, ask_for_too_few_bytes, all_are_acknowledged, NULL});
}

int main(void) {
    RUN("what another consumer wants stays, whichever read or allocation failed", what_another_one_wants_stays);
    RUN("what is acknowledged leaves its work queue, also if its filter was narrowed",
        what_is_acknowledged_leaves_the_queue);
    RUN("the bound of what waits takes the oldest, and no others", the_bound_takes_the_oldest);
    RUN("a selection loses only what went", a_selection_loses_only_what_went);
    RUN("another consumer's position is taken over whole", a_position_is_taken_over_whole);
    RUN("a damaged message stays in flight where the position is taken over", a_damaged_message_is_taken_over_as_well);
    RUN("a request that ends costs no message", a_request_that_ends_costs_no_message);
    return TEST_RESULT();
}
