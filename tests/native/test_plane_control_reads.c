/* test_plane_control_reads.c: a read of LMDB that fails, at every place, while control asks a store that was just
 * opened for a backup, the state of a stream with what is deleted and its subjects, and the positions of
 * consumers; and while a rollup takes many messages of a stream that is published again. An answer is the one
 * without the fault, or says that it is not known; a backup has everything. Other scenes: test_plane_consumers_reads.c.
 *
 * Each run has every ninth place, from a drawn one on; LEAFD_TEST_STRIDE=1 has all.
 */
#include "plane_scenes.h"

static const uint64_t all_nine[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0};
static uint8_t payload[1 << 16]; /* of the last answer */
static uint32_t payload_size;

/* The answer, once it is known; no other refusal is right. */
static plane_event_t asked(plane_command_t command, const char *const parts[], uint32_t count) {
    unsigned tries = 0;
    for (;;) {
        command.token = 9;
        rig_run_with(plane, command, NULL, 0, parts, count);
        plane_event_t event = answer(9);
        READS_CHECK(event.status != STATUS_NOT_FOUND && event.status != STATUS_INVALID);
        if (event.status == STATUS_OK) {
            CHECK(event.payload_size <= sizeof payload);
            payload_size = event.payload_size;
            if (payload_size != 0) memcpy(payload, event.payload, payload_size);
            exchange_release(&plane->exchange, 1);
            return event;
        }
        exchange_release(&plane->exchange, 1);
        again(&tries);
    }
}

/* ---- a backup ---------------------------------------------------------------------------------------------------- */

static uint8_t whole[1 << 16]; /* without a fault */
static uint32_t whole_size;

static uint32_t export_all(uint8_t *to) {
    uint32_t size = 0;
    for (uint64_t from = 1; from != 0;) {
        from = asked((plane_command_t){.op = COMMAND_STREAM_EXPORT, .target = 1, .arg = from, .arg2 = 9}, NULL, 0).arg;
        CHECK(size + payload_size <= sizeof whole);
        memcpy(to + size, payload, payload_size);
        size += payload_size;
    }
    return size;
}

static void take_in_flight(void) {
    put_nine();
    put_consumer(false);
    say("PUB $JS.API.CONSUMER.MSG.NEXT.S.C _I.d 11\r\n{\"batch\":6}\r\n");
    for (unsigned i = 0; i < 40; i++) pass(100 * NS_PER_MS);
    whole_size = export_all(whole);
    CHECK(whole_size > 9 * 20);
}

/* The consumer is loaded, and its messages in flight go along. */
static void back_up(void) {
    static uint8_t got[sizeof whole];
    consumer_state_t state;
    uint32_t size = export_all(got);
    READS_CHECK(size == whole_size && memcmp(got, whole, size) == 0);
    put_consumer(true);
    (void)asked((plane_command_t){.op = COMMAND_CONSUMER_EXPORT, .target = 1, .arg = 1}, NULL, 0);
    READS_CHECK(payload_size == sizeof state + 6 * sizeof(pending_entry_t));
    memcpy(&state, payload, sizeof state);
    READS_CHECK(state.delivered_stream == 6 && state.floor_stream == 0);
}

static void a_backup_has_everything(void) {
    reader = rig_consumer;
    play((scene_t){"a backup", 0, -1, 0, take_in_flight, back_up, all_nine});
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

static void delete_three(void) {
    put_nine();
    for (uint64_t seq = 3; seq <= 5; seq++) {
        rig_run_with(plane, (plane_command_t){.op = COMMAND_MESSAGE_DELETE, .target = 1, .arg = seq, .token = 6}, NULL,
                     0, NULL, 0);
        CHECK_EQ_I64(STATUS_OK, answered(6));
    }
}

static void ask_for_states(void) {
    stream_state_t state;
    static const char *const patterns[] = {"s.*", "*.a", "s.c"};
    static const uint64_t subjects[] = {3, 1, 1};
    for (unsigned i = 0; i < 3; i++) {
        (void)asked((plane_command_t){.op = COMMAND_STREAM_STATE, .target = 1, .arg = i == 0}, &patterns[i], 1);
        READS_CHECK(payload_size >= sizeof state);
        memcpy(&state, payload, sizeof state);
        READS_CHECK(state.messages == 6 && state.first_seq == 1 && state.last_seq == 9 && state.deleted_count == 3);
        READS_CHECK(state.subjects_matched == subjects[i]);
    }
}

static void a_state_is_known_or_refused(void) {
    static const uint64_t seqs[] = {1, 2, 6, 7, 8, 9, 0};
    play((scene_t){"states", 0, -1, 0, delete_three, ask_for_states, seqs});
}

/* ---- positions --------------------------------------------------------------------------------------------------- */

static void list_consumers(void) {
    (void)asked((plane_command_t){.op = COMMAND_CONSUMERS_STORED, .target = 1}, NULL, 0);
    stored_consumer_t row;
    READS_CHECK(payload_size > sizeof row);
    memcpy(&row, payload, sizeof row);
    READS_CHECK(row.known && row.delivered_stream == 6);
}

static void consumers_are_listed_with_their_positions(void) {
    reader = rig_consumer;
    play((scene_t){"positions", 0, -1, 0, take_in_flight, list_consumers, all_nine});
}

/* ---- a rollup ---------------------------------------------------------------------------------------------------- */

static void put_a_subject_of_many(void) {
    char line[100];
    snprintf(line, sizeof line, "PUB s.a 1\r\nx\r\n");
    for (unsigned i = 0; i < 80; i++) say(line);
    put_plain("s.b");
}

static void roll_up(void) {
    put("s.a", "Nats-Rollup: sub\r\n", "new");
    put("s.b", "Nats-Rollup: sub\r\n", "new");
}

static void a_rollup_takes_all_that_is_older(void) {
    static const uint64_t seqs[] = {82, 83, 0};
    play((scene_t){"a rollup", STREAM_ALLOW_ROLLUP, -1, 0, put_a_subject_of_many, roll_up, seqs});
}

int main(void) {
    RUN("a backup has everything, whichever read failed", a_backup_has_everything);
    RUN("the state of a stream is known or refused, whichever read failed", a_state_is_known_or_refused);
    RUN("consumers are listed with their positions, whichever read failed", consumers_are_listed_with_their_positions);
    RUN("a rollup takes all that is older, whichever read failed", a_rollup_takes_all_that_is_older);
    return TEST_RESULT();
}
