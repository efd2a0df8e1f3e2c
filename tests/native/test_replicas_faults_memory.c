/* test_replicas_faults_memory.c: a stream of three servers, which takes messages and batches, while a read of LMDB or
 * an allocation fails, or some in a row, at each place: no member decides anything by it. Once it works again the
 * stream is the same at all members, and what was answered is there.
 */
#include "groups_faults.h"
#include "replicas_acts.h"
#include "store/copying.h"

#define KEPT 40u

static bool stored(uint64_t number, bool again, int64_t life_ns) {
    char id[24];
    char subject[8];
    uint8_t payload[8];
    append_t append = message_of(number, id, payload, subject);
    append.expires_ts = life_ns > 0 ? world.now.wall_ns + life_ns : -1;
    append.has_expected_subject_seq = again;
    return ask(ASK_PUBLISH, &append, 0, number);
}

/* Whatever a request reads is in LMDB at all members. */
static void begin_kept(void) {
    config = rig_config();
    config.max_msgs_per_subject = 12;
    begin_replicas(3, 41);
    for (uint64_t number = 1; number <= KEPT;) {
        if (stored(number, false, number % 5 == 0 ? 8 * NS_PER_SECOND : 0)) {
            number++;
        } else {
            world_step();
        }
    }
    world_until(all_heard);
    world_pass(7 * NS_PER_SECOND);
}

/* Three messages, together or not at all. The first one expects what its subject has; a second batch of that number is
 * a duplicate. */
static void ask_three(uint64_t number) {
    static char ids[3][24];
    static char subjects[3][8];
    static uint8_t payloads[3][8];
    append_t messages[3];
    for (uint32_t i = 0; i < 3; i++) {
        messages[i] = message_of(1000 * number + i, ids[i], payloads[i], subjects[i]);
    }
    messages[0].has_expected_subject_seq = number % 8 == 0;
    (void)ask_batch(messages, 3, number);
}

static void ask_all(void) {
    for (uint64_t number = KEPT - 5; number < KEPT + 15; number++) {
        (void)stored(number, number % 4 == 0, number % 3 == 0 ? NS_PER_SECOND : 0);
        if (number % 4 == 0) {
            append_t append = {.subject = text("s.1")};
            (void)ask(ASK_DELETE, &append, number - 20, 0);
            (void)ask(ASK_PURGE, &append, 0, number / 10);
            ask_three(number);
        }
        world_step();
    }
}

static unsigned run_with(fault_t fault, unsigned n) {
    begin_kept();
    fail_from(fault, n);
    for (uint32_t i = 0; i < 3; i++) { /* not everybody leads */
        ask_all();
    }
    world_pass(1500 * NS_PER_MS);
    unsigned places = counted(fault);
    heal();
    replicas_agree();
    for (uint64_t token = KEPT + 1; token <= ops_count; token++) {
        const op_t *op = &ops[token];
        CHECK(!op->known || op->kind == ASK_DELETE || op->kind == ASK_PURGE || op->verdict == APPEND_STORED
              || op->verdict == APPEND_DUPLICATE || op->verdict == APPEND_WRONG_LAST_SEQ);
    }
    uint64_t before = rig_state(world.node[0].stream[0]).last_seq;
    while (!stored(KEPT + 100, false, 0)) {
        world_step();
    }
    world_until(all_level);
    for (uint32_t at = 0; at < 3; at++) {
        CHECK_EQ_U64(before + 1, rig_state(world.node[at].stream[0]).last_seq);
    }
    world_end();
    return places;
}

/* All that a copy of the stream consists of; STATUS_OK: that is all. */
static status_t given(buffer_t *to) {
    giving_t *giving;
    uint64_t index;
    bool all = false;
    to->size = 0;
    status_t status = store_give_begin(world.node[0].stream[0], 1, 0, &giving, &index);
    while (status == STATUS_OK && !all) {
        status = store_give(giving, UINT32_MAX, to, &all);
    }
    if (giving != NULL) {
        store_give_end(giving);
    }
    return status;
}

/* What could not be read is never left out of a copy. */
static void given_whole(void) {
    buffer_t whole;
    buffer_t some;
    begin_kept();
    world_pass(25 * NS_PER_SECOND);
    buffer_init(&whole, 1 << 20);
    buffer_init(&some, 1 << 20);
    CHECK_EQ_I64(STATUS_OK, given(&whole));
    CHECK(whole.size > 1000);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        uint32_t failed = 0;
        for (unsigned n = 1, places = 1; places >= n; n++) {
            fail_from(faults[i], n);
            status_t status = given(&some);
            places = counted(faults[i]);
            heal();
            failed += status != STATUS_OK;
            if (status == STATUS_OK) {
                CHECK_BYTES(whole.at, whole.size, some.at, some.size);
            }
        }
        CHECK(failed > 0);
    }
    buffer_free(&whole);
    buffer_free(&some);
    world_end();
}

static void at_every_place(void) {
    at_each_place(run_with, 1);
}

int main(void) {
    RUN("while a read or an allocation fails, no member decides by it", at_every_place);
    RUN("while a read or an allocation fails, a copy has everything, or is none", given_whole);
    return TEST_RESULT();
}
