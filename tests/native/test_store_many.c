/* test_store_many.c: a store of very many streams. What goes by time is looked at stream by stream, in parts of a turn,
 * and no stream is passed by, whichever come and go meanwhile.
 */
#include "base/visits.h"
#include "store_rig.h"

#define STREAMS 5000u
#define MAX_AGE_NS (10 * NS_PER_SECOND)
#define PART_MAX 2048u /* of 5,000: two parts at least */

static rig_t rig;
static store_stream_t *streams[2 * STREAMS];
static uint32_t count;

static void open_one(void) {
    stream_config_t config = rig_config();
    config.max_age_ns = MAX_AGE_NS;
    config.duplicate_window_ns = 0;
    streams[count] = rig_stream(&rig, count + 1, config);
    count++;
}

static void put_one(uint32_t i) {
    CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, streams[i], "a", "p").verdict);
}

static void begin(void) {
    rig.options.journal_size = 64 << 20;
    rig.in_memory = true;
    rig_open(&rig);
    count = 0;
    while (count < STREAMS) {
        open_one();
        put_one(count - 1);
        if (count % 500 == 0) {
            rig_sync(&rig);
        }
    }
}

static uint64_t kept(void) {
    uint64_t messages = 0;
    for (uint32_t i = 0; i < count; i++) {
        messages += streams[i] != NULL ? rig_state(streams[i]).messages : 0;
    }
    return messages;
}

/* Turns with next to no time in between, until nothing is due any more. */
static uint32_t turns_until_rest(uint32_t each, void (*meanwhile)(uint32_t turn)) {
    uint32_t turn = 0;
    for (int64_t until = 0; patient(&until);) {
        turn++;
        (void)visits_take();
        store_tick(rig.store, rig.now);
        uint64_t visits = visits_take();
        CHECK(visits <= each);
        if (meanwhile != NULL) {
            meanwhile(turn);
        }
        if (store_next_deadline(rig.store) > rig.now.mono_ns && store_batch_empty(rig.store)) {
            return turn;
        }
        if (store_gathers(rig.store)) {
            rig_pass(&rig, NS_PER_MS);
        }
        struct pollfd poller = {.fd = store_wake_fd(rig.store), .events = POLLIN};
        poll(&poller, 1, 1); /* for the journal's thread */
    }
    FAIL("the look at all streams does not end");
}

static void looked_at_in_parts(void) {
    begin();
    rig_pass(&rig, MAX_AGE_NS / 2);
    CHECK(turns_until_rest(PART_MAX, NULL) > 1);
    CHECK_EQ_U64(STREAMS, kept());
    rig_close(&rig);
}

static void all_of_it_goes(void) {
    begin();
    rig_pass(&rig, MAX_AGE_NS + NS_PER_SECOND);
    CHECK(turns_until_rest(PART_MAX, NULL) > 1);
    CHECK_EQ_U64(0, kept());
    rig_close(&rig);
}

static void come_and_go(uint32_t turn) {
    if (turn <= 40) {
        uint32_t leaves = turn * 97 % STREAMS;
        CHECK_EQ_I64(STATUS_OK, store_stream_remove(streams[leaves]));
        streams[leaves] = NULL;
        open_one();
        put_one(count - 1);
    }
}

static void while_streams_come_and_go(void) {
    begin();
    rig_pass(&rig, MAX_AGE_NS + NS_PER_SECOND);
    (void)turns_until_rest(PART_MAX, come_and_go);
    CHECK_EQ_U64(count - STREAMS, kept()); /* those that came are young */
    rig_pass(&rig, MAX_AGE_NS + NS_PER_SECOND);
    (void)turns_until_rest(PART_MAX, NULL);
    CHECK_EQ_U64(0, kept());
    rig_close(&rig);
}

static void a_new_stream_costs_no_look(void) {
    begin();
    rig_pass(&rig, NS_PER_SECOND);
    (void)turns_until_rest(PART_MAX, NULL);
    (void)visits_take();
    for (uint32_t i = 0; i < 50; i++) {
        open_one();
        store_tick(rig.store, rig.now);
    }
    CHECK(visits_take() <= STREAMS);
    rig_close(&rig);
}

int main(void) {
    RUN("5,000 streams are looked at in parts, and the look ends", looked_at_in_parts);
    RUN("what is over in each of 5,000 streams goes, in parts", all_of_it_goes);
    RUN("no stream is passed by while others come and go", while_streams_come_and_go);
    RUN("a stream that is made has no look at all others", a_new_stream_costs_no_look);
    return TEST_RESULT();
}
