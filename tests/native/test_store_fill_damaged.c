/* test_store_fill_damaged.c: pages of a mirror's messages were made anew while the store ran (store/mending.c), and
 * what was on them comes back from the origin. What must hold: it takes the place of what is damaged, and no number
 * changes.
 */
#include "fill_rig.h"

/* ---- pages that were made anew while the store ran --------------------------------------------------------------- */

static bool is_damaged(store_stream_t *stream, uint64_t seq) {
    stored_message_t found;
    return store_read(stream, seq, &found) == ENTRY_DAMAGED;
}

/* Three pages: two side by side, and one by itself. */
static store_stream_t *made_anew(void) {
    static const uint64_t places[] = {700, 720, 300};
    rig_start(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, config);
    for (unsigned i = 0; i < 3; i++) {
        stored_message_t found;
        spoil(places[i], 0);
        rig_pass(&rig, NS_PER_SECOND);
        store_tick(rig.store, rig.now);
        CHECK_EQ_I64(ENTRY_UNKNOWN, store_read(stream, places[i], &found));
        for (int ticks = 0; ticks < 100; ticks++) {
            store_tick(rig.store, rig.now);
        }
        CHECK(rig_alarmed(&rig, "it was made anew"));
        CHECK(is_damaged(stream, places[i]));
    }
    return stream;
}

/* In the order of their sequences, as who asks the origin does. */
static void made_anew_and_filled(stream_config_t wanted, bool crashes) {
    begin(wanted, false);
    store_stream_t *stream = made_anew();
    uint64_t messages = rig_state(stream).messages, bytes = rig_state(stream).bytes;
    unsigned came = 0;
    look_for_holes();
    CHECK_EQ_U64(3, hole_count);
    while (hole_count > 0) {
        hole_t hole = holes[0];
        for (uint64_t seq = hole.from; seq <= hole.upto; seq++) {
            bool stored = false;
            CHECK_EQ_I64(STATUS_OK, fill(stream, hole.upto, seq, &stored));
            came += stored;
            if (crashes && draw(9) == 0) {
                rig_sync(&rig);
                stream = crashed();
            }
        }
        look_for_holes();
    }
    CHECK(came > 20);
    CHECK_EQ_U64(messages, rig_state(stream).messages);
    CHECK_EQ_U64(bytes, rig_state(stream).bytes);
    check_all(stream);
    rig_checkpoint(&rig);
    check_all(stream);
    store_close(rig.store);
    rig_start(&rig);
    stream = rig_stream(&rig, 1, config);
    check_all(stream);
    check_chains(stream);
    rig_close(&rig);
}

static void what_was_made_anew_comes_back(void) {
    made_anew_and_filled(rig_config(), false);
    made_anew_and_filled(rig_config(), true);
    stream_config_t limited = rig_config();
    limited.max_msgs = MESSAGES;
    limited.discard = 1;
    made_anew_and_filled(limited, false);
}

/* What the origin has no more stays damaged, and is counted. */
static void what_does_not_come_back_is_damaged(void) {
    begin(rig_config(), false);
    store_stream_t *stream = made_anew();
    look_for_holes();
    hole_t hole = holes[0];
    for (uint64_t seq = hole.from; seq <= hole.upto; seq += 2) {
        bool stored = false;
        CHECK_EQ_I64(STATUS_OK, fill(stream, hole.upto, seq, &stored));
        CHECK(stored);
    }
    CHECK(!is_damaged(stream, hole.from) && is_damaged(stream, hole.from + 1) && !is_damaged(stream, hole.from + 2));
    CHECK_EQ_U64(MESSAGES, rig_state(stream).messages);
    rig_close(&rig);
}

int main(void) {
    RUN("a page that was made anew has all its messages again, and all numbers are as they were",
        what_was_made_anew_comes_back);
    RUN("what the origin has no more stays damaged", what_does_not_come_back_is_damaged);
    return TEST_RESULT();
}
