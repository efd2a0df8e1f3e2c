/* test_store_fill.c: pages of a mirror's messages are lost, and what was on them is put back where it was. What must
 * hold: the stream is as if nothing had happened, in every way it can be asked, whatever ends the process meanwhile;
 * what was removed stays removed; limits hold.
 */
#include "fill_rig.h"

/* ---- what is promised -------------------------------------------------------------------------------------------- */

static store_stream_t *start(void) {
    rig_start(&rig);
    CHECK(rig_alarmed(&rig, "it was made anew"));
    store_stream_t *stream = rig_stream(&rig, 1, config);
    model_loses();
    CHECK(hole_count > 0);
    check_all(stream);
    return stream;
}

/* A fill that was not on disk when the process ended is done again. */
static store_stream_t *fill_all(store_stream_t *stream, bool crashes) {
    look_for_holes();
    while (hole_count > 0) {
        hole_t hole = holes[draw(hole_count)];
        uint64_t upto = hole.upto;
        for (uint64_t seq = hole.from; seq <= upto; seq++) {
            bool stored = false;
            CHECK_EQ_I64(STATUS_OK, fill(stream, upto, seq, &stored));
            model[seq].there |= stored;
            if (crashes && draw(9) == 0) {
                rig_sync(&rig);
                stream = crashed();
            }
        }
        look_for_holes();
    }
    return stream;
}

static void none_is_left(store_stream_t *stream) {
    look_for_holes();
    CHECK_EQ_U64(0, hole_count);
    for (uint64_t seq = 1; seq <= last; seq++) {
        CHECK(model[seq].there || model[seq].deleted);
    }
    check_all(stream);
    rig_checkpoint(&rig);
    check_all(stream);
    stream = crashed();
    check_all(stream);
    check_chains(stream);
    rig_close(&rig);
}

static void where(uint64_t seq, uint32_t above, bool crashes) {
    begin(rig_config(), false);
    spoil(seq, above);
    store_stream_t *stream = start();
    for (unsigned i = 0; i < hole_count; i++) {
        CHECK(holes[i].certain);
    }
    for (uint64_t later = MESSAGES + 1; later <= MESSAGES + 30; later++) {
        take(stream, later);
    }
    stream = fill_all(stream, crashes);
    for (uint64_t later = last + 1; later <= MESSAGES + 60; later++) {
        take(stream, later);
    }
    rig_sync(&rig);
    none_is_left(stream);
}

static void a_page_in_the_middle(void) {
    where(MESSAGES / 2, 0, false);
}

static void the_first_page(void) {
    where(1, 0, false);
}

static void the_last_page(void) {
    where(MESSAGES, 0, false);
}

static void two_pages(void) {
    begin(rig_config(), false);
    spoil(MESSAGES / 3, 0);
    spoil(MESSAGES / 2, 0);
    none_is_left(fill_all(start(), false));
}

static void with_crashes(void) {
    for (uint64_t seq = 100; seq < MESSAGES; seq += 250) {
        where(seq, 0, true);
    }
}

/* Backwards and at random is never asked for; a hole that is gone takes nothing. */
static void in_order_only(void) {
    bool stored;
    begin(rig_config(), false);
    spoil(MESSAGES / 2, 0);
    store_stream_t *stream = start();
    hole_t hole = holes[0];
    CHECK_EQ_I64(STATUS_INVALID, fill(stream, hole.upto, hole.upto + 1, &stored));
    CHECK_EQ_I64(STATUS_OK, fill(stream, hole.upto, hole.from + 1, &stored));
    CHECK(stored);
    CHECK_EQ_I64(STATUS_INVALID, fill(stream, hole.upto, hole.from, &stored));
    CHECK_EQ_I64(STATUS_INVALID, fill(stream, hole.upto, hole.from + 1, &stored));
    nothing_at(stream, hole.upto, hole.upto);
    CHECK_EQ_I64(STATUS_NOT_FOUND, fill(stream, hole.upto, hole.from + 2, &stored));
    model[hole.from + 1].there = true;
    check_all(stream);
    rig_close(&rig);
}

/* What somebody removed from the page that was lost cannot be told from what was lost. */
static void with_removed_ones_on_it(void) {
    begin(rig_config(), false);
    rig_start(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, config);
    take_out(stream, MESSAGES / 2);
    rig_checkpoint(&rig);
    store_close(rig.store);
    spoil(MESSAGES / 2, 0);
    stream = start();
    for (unsigned i = 0; i < hole_count; i++) {
        CHECK(!holes[i].certain);
    }
    check_all(stream);
    rig_close(&rig);
}

static void a_purge_ends_it(void) {
    bool stored;
    begin(rig_config(), false);
    spoil(MESSAGES / 2, 0);
    store_stream_t *stream = start();
    uint64_t upto = holes[0].upto;
    CHECK_EQ_I64(STATUS_OK, store_holes_forget(stream));
    CHECK_EQ_I64(STATUS_NOT_FOUND, fill(stream, upto, holes[0].from, &stored));
    look_for_holes();
    CHECK_EQ_U64(0, hole_count);
    rig_close(&rig);
}

/* Filled ones go as others do, before and after a checkpoint. */
static void what_was_filled_is_removed(void) {
    begin(rig_config(), false);
    spoil(MESSAGES / 2, 0);
    store_stream_t *stream = start();
    hole_t hole = holes[0];
    for (uint64_t seq = hole.from; seq <= hole.upto; seq++) {
        bool stored;
        CHECK_EQ_I64(STATUS_OK, fill(stream, hole.upto, seq, &stored));
        CHECK(stored);
        model[seq].there = true;
        if (seq % 3 == 0) {
            take_out(stream, seq);
        }
        if (seq % 4 == 0 && seq > hole.from && model[seq - 1].there) {
            take_out(stream, seq - 1);
        }
    }
    check_all(stream);
    none_is_left(stream);
}

static void limits_hold(void) {
    stream_config_t limited = rig_config();
    limited.max_msgs = MESSAGES;
    begin(limited, false);
    spoil(1, 0);
    store_stream_t *stream = start();
    uint64_t lost = MESSAGES - rig_state(stream).messages;
    CHECK(lost > 2 && lost < LATER);
    for (uint64_t later = MESSAGES + 1; later <= MESSAGES + lost; later++) {
        take(stream, later); /* it is full again: what was lost would have gone by now */
    }
    stream = fill_all(stream, false);
    check_all(stream);
    rig_close(&rig);
}

static void age_holds(void) {
    stream_config_t aged = rig_config();
    aged.max_age_ns = 3600 * NS_PER_SECOND;
    begin(aged, false);
    spoil(MESSAGES / 2, 0);
    store_stream_t *stream = start();
    bool stored = true;
    hole_t hole = holes[0];
    CHECK_EQ_I64(STATUS_OK, fill(stream, hole.upto, hole.from, &stored));
    CHECK(stored);
    rig_pass(&rig, 3700 * NS_PER_SECOND);
    CHECK_EQ_I64(STATUS_OK, fill(stream, hole.upto, hole.from + 1, &stored));
    CHECK(!stored);
    for (int i = 0; i < 100 && rig_state(stream).messages > 0; i++) {
        rig_sync(&rig);
        rig_pass(&rig, NS_PER_SECOND);
    }
    CHECK_EQ_U64(0, rig_state(stream).messages);
    rig_close(&rig);
}

static void by_subject(void) {
    stream_config_t limited = rig_config();
    limited.max_msgs_per_subject = 5;
    begin(limited, false);
    rig_start(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, config);
    for (uint64_t seq = 1; seq <= MESSAGES; seq++) {
        stored_message_t found;
        model[seq].there = store_read(stream, seq, &found) == ENTRY_FOUND;
    }
    store_close(rig.store);
    spoil(MESSAGES - 30, 0);
    bool before[MESSAGES + LATER + 1];
    for (uint64_t seq = 1; seq <= MESSAGES; seq++) {
        before[seq] = model[seq].there;
    }
    stream = fill_all(start(), false);
    for (uint64_t seq = 1; seq <= MESSAGES; seq++) {
        stored_message_t found;
        model[seq].there = store_read(stream, seq, &found) == ENTRY_FOUND;
        CHECK_EQ_U64(before[seq], model[seq].there);
    }
    check_all(stream);
    rig_checkpoint(&rig);
    check_all(stream);
    rig_close(&rig);
}

int main(void) {
    RUN("a page in the middle is lost, and what was on it is put back", a_page_in_the_middle);
    RUN("the first page", the_first_page);
    RUN("the last page, with newer messages behind it", the_last_page);
    RUN("two pages", two_pages);
    RUN("the process ends again and again while it goes on", with_crashes);
    RUN("a hole is filled from its begin to its end, once", in_order_only);
    RUN("a hole whose page had removed messages is not certain", with_removed_ones_on_it);
    RUN("a purge ends it", a_purge_ends_it);
    RUN("what was filled is removed as any other message", what_was_filled_is_removed);
    RUN("a full stream does not take what its limit would have taken out", limits_hold);
    RUN("nor what is too old by now", age_holds);
    RUN("nor what its subject's limit would have taken out", by_subject);
    return TEST_RESULT();
}
