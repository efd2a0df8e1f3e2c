/* test_plane_consumers_reads.c: a read of LMDB that fails, while consumers are made of a store that was just opened:
 * from the newest message on, of each subject's newest, by a time behind which messages are deleted; while one is set
 * back; and while control asks for messages, and a counter counts. Each delivers what it would without the fault, each
 * once; nothing that is there is called missing. Other scenes: test_plane_scenes_reads.c.
 *
 * Each run has every ninth place, from a drawn one on; LEAFD_TEST_STRIDE=1 has all.
 */
#include "plane_scenes.h"

#define STRINGS_MAX 8

static const uint64_t all_nine[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0};

/* ---- consumers --------------------------------------------------------------------------------------------------- */

static consumer_config_t like(uint8_t policy) {
    consumer_config_t made = rig_consumer;
    made.deliver_policy = policy;
    return made;
}

/* Of these filters, which end with NULL. */
static void make(uint64_t number, const char *name, const consumer_config_t *made, const char *const *filters) {
    const char *strings[STRINGS_MAX] = {name, "{}", "", "", "", ""};
    uint32_t count = 6;
    for (; *filters != NULL; filters++) {
        CHECK(count < STRINGS_MAX);
        strings[count++] = *filters;
    }
    unsigned tries = 0;
    for (;;) {
        rig_run_with(plane, (plane_command_t){.op = COMMAND_CONSUMER_PUT, .target = 1, .arg = number, .token = 2}, made,
                     sizeof *made, strings, count);
        int32_t status = answered(2);
        READS_CHECK(status != STATUS_NOT_FOUND);
        if (status == STATUS_OK) return;
        again(&tries);
    }
}

static void take_all(void) {
    memset(delivered, 0, sizeof delivered);
    listen_to = count_deliveries;
    say("PUB $JS.API.CONSUMER.MSG.NEXT.S.C _I.d 12\r\n{\"batch\":20}\r\n");
    for (unsigned i = 0; i < 40; i++) {
        pass(50 * NS_PER_MS);
        (void)hear();
    }
    listen_to = NULL;
}

static void check_delivered(const char *expected) {
    char got[2 * STAMPS + 1] = "";
    for (unsigned seq = 1; seq < STAMPS; seq++) {
        READS_CHECK(delivered[seq] <= 1);
        if (delivered[seq] == 1) snprintf(got + strlen(got), sizeof got - strlen(got), "%x", seq);
    }
    if (strcmp(got, expected) != 0) {
        FAIL("%s, read %u fails: %s was delivered, not %s", scene->name, failing_at, got, expected);
    }
}

static void consume_newest(void) {
    const consumer_config_t made = like(DELIVER_LAST);
    make(1, "C", &made, (const char *const[]){"s.a", "s.b", NULL});
    take_all();
    check_delivered("8");
}

static void a_consumer_begins_at_the_newest(void) {
    play((scene_t){"from the newest", 0, -1, 0, put_nine, consume_newest, all_nine});
}

static void consume_newest_of_each(void) {
    const consumer_config_t made = like(DELIVER_LAST_PER_SUBJECT);
    make(1, "C", &made, (const char *const[]){"s.*", NULL});
    take_all();
    check_delivered("789");
}

static void a_consumer_has_the_newest_of_each_subject(void) {
    play((scene_t){"the newest of each", 0, -1, 0, put_nine, consume_newest_of_each, all_nine});
}

static void delete_some(void) {
    put_nine();
    for (uint64_t seq = 3; seq <= 6; seq++) {
        rig_run_with(plane, (plane_command_t){.op = COMMAND_MESSAGE_DELETE, .target = 1, .arg = seq, .token = 6}, NULL,
                     0, NULL, 0);
        CHECK_EQ_I64(STATUS_OK, answered(6));
    }
}

/* Set back to where its time lies, and not before it. */
static void consume_behind_and_go_back(void) {
    consumer_config_t made = like(DELIVER_BY_START_TIME);
    made.opt_start_ts = stamps[4];
    make(1, "C", &made, (const char *const[]){NULL});
    take_all();
    check_delivered("789");
    unsigned tries = 0;
    for (;;) {
        rig_run_with(plane,
                     (plane_command_t){.op = COMMAND_CONSUMER_RESET, .target = 1, .arg = 1, .arg2 = 8, .token = 7},
                     NULL, 0, NULL, 0);
        int32_t status = answered(7);
        READS_CHECK(status != STATUS_NOT_FOUND && status != STATUS_INVALID);
        if (status == STATUS_OK) break;
        again(&tries);
    }
    take_all();
    check_delivered("89");
}

static void a_consumer_begins_behind_deleted_messages(void) {
    static const uint64_t seqs[] = {1, 2, 7, 8, 9, 0};
    play((scene_t){"behind deleted ones", 0, -1, 0, delete_some, consume_behind_and_go_back, seqs});
}

/* ---- what control asks for --------------------------------------------------------------------------------------- */

static void ask(uint64_t mode, uint64_t sequence, unsigned stamp, const char *subject, uint64_t expected) {
    const message_query_t query = {
        .sequence = sequence, .start_ts = stamp == 0 ? 0 : stamps[stamp], .mode = (uint32_t)mode};
    unsigned tries = 0;
    for (;;) {
        rig_run_with(plane, (plane_command_t){.op = COMMAND_MESSAGE_GET, .target = 1, .token = 8}, &query, sizeof query,
                     &subject, 1);
        plane_event_t event = answer(8);
        int32_t status = event.status;
        uint64_t seq = event.arg;
        exchange_release(&plane->exchange, 1);
        READS_CHECK(status != STATUS_NOT_FOUND && status != STATUS_CORRUPT && status != STATUS_INVALID);
        if (status == STATUS_OK) {
            READS_CHECK(seq == expected);
            return;
        }
        again(&tries);
    }
}

static void ask_for_each(void) {
    ask(QUERY_SEQUENCE, 5, 0, "", 5);
    ask(QUERY_LAST_BY_SUBJECT, 0, 0, "s.a", 7);
    ask(QUERY_LAST_BY_SUBJECT, 0, 0, "s.*", 9);
    ask(QUERY_NEXT_BY_SUBJECT, 2, 0, "s.a", 4);
    ask(QUERY_NEXT_BY_SUBJECT, 0, 5, "*.c", 6);
    ask(QUERY_START_TIME, 0, 6, "", 6);
}

static void control_is_told_what_is_there(void) {
    play((scene_t){"control's gets", 0, -1, 0, put_nine, ask_for_each, all_nine});
}

/* ---- counters ---------------------------------------------------------------------------------------------------- */

static void count_three(void) {
    for (unsigned i = 0; i < 3; i++) put("s.a", "Nats-Incr: 5\r\n", "");
}

static void count_on(void) {
    stored_message_t message;
    char value[30] = "";
    unsigned tries = 0;
    put("s.a", "Nats-Incr: 2\r\n", "");
    for (;;) {
        entry_outcome_t outcome = store_read(stream_find(&plane->js, 1)->store, 4, &message);
        if (outcome == ENTRY_FOUND) break;
        READS_CHECK(outcome == ENTRY_UNKNOWN);
        again(&tries);
    }
    READS_CHECK(message.payload.size < sizeof value);
    memcpy(value, message.payload.at, message.payload.size);
    READS_CHECK(strcmp(value, "{\"val\":\"17\"}") == 0);
}

static void a_counter_counts_on(void) {
    static const uint64_t seqs[] = {1, 2, 3, 4, 0};
    play((scene_t){"a counter", STREAM_COUNTER, -1, 0, count_three, count_on, seqs});
}

int main(void) {
    RUN("a consumer begins at the newest message that it wants, whichever read failed",
        a_consumer_begins_at_the_newest);
    RUN("a consumer has each subject's newest message, whichever read failed",
        a_consumer_has_the_newest_of_each_subject);
    RUN("a consumer begins behind deleted messages, and goes back there, whichever read failed",
        a_consumer_begins_behind_deleted_messages);
    RUN("control is told what is there, whichever read failed", control_is_told_what_is_there);
    RUN("a counter counts on from what it was, whichever read failed", a_counter_counts_on);
    return TEST_RESULT();
}
