/* test_store_sparse.c: streams of which few messages are left, far apart. What goes over the rest goes in steps, and
 * ends where it would have ended at once.
 */
#include "store/core.h"
#include "store/gaps.h"
#include "store_rig.h"

#define MANY 24000

static rig_t rig;
static store_stream_t *stream;

static appended_t put(const char *subject, bool waits) {
    append_t append = {.subject = text(subject), .payload = text("p"), .waits = waits};
    return rig_append(&rig, stream, &append);
}

static void open_stream(stream_config_t config) {
    rig = (rig_t){0};
    rig_open(&rig);
    stream = rig_stream(&rig, 3, config);
}

static void turn(void) {
    rig_pass(&rig, 1000000);
    store_tick(rig.store, rig.now);
}

static void delete_from_to(uint64_t from, uint64_t to) {
    for (uint64_t seq = from; seq <= to; seq++) {
        if (seq % 2000 == 0) {
            rig_checkpoint(&rig); /* room in the journal */
        }
        CHECK_EQ_I64(STATUS_OK, store_delete(stream, seq));
    }
}

static uint64_t first_seq(void) {
    stream_state_t state;
    store_stream_state(stream, &state);
    return state.first_seq;
}

/* As a queue whose first message is stuck, and is done last. checkpointed: the deletions are in LMDB, or not yet. */
static void first_goes_last(bool checkpointed) {
    open_stream(rig_config());
    for (uint32_t i = 0; i < MANY; i++) {
        CHECK_EQ_U64(APPEND_STORED, put("w", true).verdict);
    }
    delete_from_to(2, MANY - 1);
    if (checkpointed) {
        rig_checkpoint(&rig);
    }
    CHECK_EQ_I64(STATUS_OK, store_delete(stream, 1));
    CHECK(!store_first_settled(stream));
    CHECK(first_seq() > 1 && first_seq() < MANY);
    uint32_t turns = 0;
    while (!store_first_settled(stream)) {
        turn();
        CHECK(++turns < MANY);
    }
    CHECK(turns > 2);
    CHECK_EQ_U64(MANY, first_seq());
    rig_close(&rig);
}

static void a_stuck_one(void) {
    first_goes_last(false);
    first_goes_last(true);
}

/* A limit lets the oldest go; the rows of deleted ones between them take their turns. */
static void limits_go_on(void) {
    open_stream(rig_config());
    for (uint32_t i = 0; i < MANY; i++) {
        CHECK_EQ_U64(APPEND_STORED, put("w", true).verdict);
    }
    delete_from_to(2, MANY / 2);
    delete_from_to(MANY / 2 + 2, MANY - 1); /* 1, 6001 and 12000 are left */
    stream_config_t config = rig_config();
    config.max_msgs = 1;
    store_stream_configure(stream, &config, rig.now);
    CHECK(first_seq() < MANY);
    for (uint32_t turns = 0; first_seq() < MANY; turns++) {
        turn();
        CHECK(turns < MANY);
    }
    stream_state_t state;
    store_stream_state(stream, &state);
    CHECK_EQ_U64(1, state.messages);
    CHECK_EQ_U64(MANY, state.first_seq);
    rig_close(&rig);
}

static uint64_t messages(void) {
    stream_state_t state;
    store_stream_state(stream, &state);
    return state.messages;
}

/* 12,000 messages of ten subjects and one of an eleventh at their beginning; then a subject may have two. */
static void a_lowered_limit(bool killed) {
    stream_config_t config = rig_config();
    open_stream(config);
    CHECK_EQ_U64(APPEND_STORED, put("alone", true).verdict);
    for (uint32_t i = 0; i < MANY; i++) {
        char name[32];
        snprintf(name, sizeof name, "o.%u", i % 10);
        CHECK_EQ_U64(APPEND_STORED, put(name, true).verdict);
    }
    config.max_msgs_per_subject = 2;
    store_stream_configure(stream, &config, rig.now);
    CHECK(messages() > MANY / 2);
    if (killed) {
        rig_sync(&rig);
        rig_kill(&rig);
        rig_start(&rig);
        stream = rig_stream(&rig, 3, config);
    }
    for (uint32_t turns = 0; messages() > 21; turns++) {
        turn();
        CHECK(turns < MANY);
    }
    for (uint32_t turns = 0; turns < 100; turns++) {
        turn();
    }
    CHECK_EQ_U64(21, messages());
    CHECK_EQ_U64(1, first_seq());
    stored_message_t found;
    CHECK_EQ_I64(ENTRY_NONE, store_read(stream, MANY + 1 - 20, &found));
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, MANY + 2 - 20, &found));
    rig_close(&rig);
}

static void lowered_limits(void) {
    a_lowered_limit(false);
    a_lowered_limit(true);
}

/* 6,000 subjects with one message, and a last one with 6: on average they have not too many. */
static void a_limit_that_few_exceed(void) {
    stream_config_t config = rig_config();
    open_stream(config);
    for (uint32_t i = 0; i < MANY / 2 + 6; i++) {
        char name[32];
        snprintf(name, sizeof name, "o.%u", i < MANY / 2 ? i : MANY / 2);
        CHECK_EQ_U64(APPEND_STORED, put(name, true).verdict);
    }
    config.max_msgs_per_subject = 2;
    store_stream_configure(stream, &config, rig.now);
    CHECK_EQ_U64(MANY / 2 + 6, messages());
    for (uint32_t kills = 0; kills < 2; kills++) {
        rig_sync(&rig);
        rig_kill(&rig);
        rig_start(&rig);
        stream = rig_stream(&rig, 3, config);
    }
    for (uint32_t turns = 0; messages() > MANY / 2 + 2; turns++) {
        turn();
        CHECK(turns < MANY);
    }
    rig_close(&rig);
}

/* While a lowered limit is being enforced each new message takes out a few, and not all that are too many. */
static void publishers_go_on(void) {
    stream_config_t config = rig_config();
    open_stream(config);
    for (uint32_t i = 0; i < MANY; i++) {
        CHECK_EQ_U64(APPEND_STORED, put("s", true).verdict);
    }
    config.max_msgs_per_subject = 1;
    store_stream_configure(stream, &config, rig.now);
    uint64_t before = messages();
    CHECK(before > MANY / 2);
    for (uint32_t i = 0; i < 10; i++) {
        CHECK_EQ_U64(APPEND_STORED, put("s", true).verdict);
    }
    CHECK(before - messages() < 6000); /* of the tick, and of each of the ten */
    config.max_msgs_per_subject = -1;
    config.max_msgs = 1;
    before = messages();
    store_stream_configure(stream, &config, rig.now);
    for (uint32_t i = 0; i < 100; i++) {
        CHECK_EQ_U64(APPEND_STORED, put("s", true).verdict);
    }
    CHECK(before - messages() < 6000);
    for (uint32_t turns = 0; messages() > 1; turns++) {
        turn();
        CHECK(turns < MANY);
    }
    CHECK_EQ_U64(MANY + 110, first_seq());
    rig_close(&rig);
}

/* Deleted from the newest down, each is a link to the one before it; then the last one of the subject goes. */
static void the_newest_goes_last(bool checkpointed) {
    stored_message_t message;
    open_stream(rig_config());
    for (uint32_t i = 0; i < MANY; i++) {
        CHECK_EQ_U64(APPEND_STORED, put("w", true).verdict);
    }
    for (uint64_t seq = MANY - 1; seq > 2; seq--) {
        if (seq % 2000 == 0) {
            rig_checkpoint(&rig);
        }
        CHECK_EQ_I64(STATUS_OK, store_delete(stream, seq));
    }
    if (checkpointed) {
        rig_checkpoint(&rig);
    }
    status_t status;
    uint32_t tries = 0;
    while ((status = store_delete(stream, MANY)) == STATUS_AGAIN) {
        CHECK_EQ_U64(3, messages());
        CHECK_EQ_I64(ENTRY_FOUND, store_last_by_subject(stream, text("w"), UINT64_MAX, &message));
        CHECK_EQ_U64(MANY, message.seq);
        CHECK(++tries < 10);
    }
    CHECK_EQ_I64(STATUS_OK, status);
    CHECK(tries >= 2);
    CHECK_EQ_I64(ENTRY_FOUND, store_last_by_subject(stream, text("w"), UINT64_MAX, &message));
    CHECK_EQ_U64(2, message.seq);
    CHECK_EQ_U64(2, messages());
    rig_close(&rig);
}

static void downwards(void) {
    the_newest_goes_last(false);
    the_newest_goes_last(true);
}

/* 5,000 of a subject at the end, the one that has to go at the beginning, the other subjects between. */
static void a_full_subject(void) {
    stream_config_t config = rig_config();
    config.max_msgs_per_subject = 5000;
    open_stream(config);
    (void)put("s", true);
    (void)put("s", true);
    for (uint32_t i = 0; i < MANY; i++) {
        char name[32];
        snprintf(name, sizeof name, "o.%u", i % 100);
        (void)put(name, true);
    }
    for (uint32_t i = 0; i < 4998; i++) {
        CHECK_EQ_U64(APPEND_STORED, put("s", true).verdict);
    }
    CHECK_EQ_U64(APPEND_STORED, put("s", true).verdict); /* 1 goes: it is the first of all */
    CHECK_EQ_U64(2, first_seq());
    CHECK_EQ_U64(APPEND_STORED, put("s", true).verdict); /* 2 goes, and the next one is behind all the others */
    CHECK_EQ_U64(3, first_seq());
    uint32_t tries = 0;
    while (put("s", true).verdict == APPEND_LATER) {
        CHECK(++tries < MANY);
    }
    CHECK(tries > 1);
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_NONE, store_read(stream, MANY + 3, &message));
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, MANY + 4, &message));
    CHECK_EQ_U64(APPEND_STORED, put("s", true).verdict); /* where it stands is known now */
    CHECK_EQ_I64(ENTRY_NONE, store_read(stream, MANY + 4, &message));
    rig_close(&rig);
}

/* As above, for who cannot wait: a message of a source, and the messages of a group. */
static void full_for_who_cannot_wait(bool grouped) {
    stream_config_t config = rig_config();
    config.max_msgs_per_subject = 5000;
    open_stream(config);
    (void)put("s", true);
    for (uint32_t i = 0; i < MANY; i++) {
        char name[32];
        snprintf(name, sizeof name, "o.%u", i % 100);
        (void)put(name, true);
    }
    for (uint32_t i = 0; i < 4999; i++) {
        CHECK_EQ_U64(APPEND_STORED, put("s", true).verdict);
    }
    CHECK_EQ_U64(APPEND_STORED, put("s", true).verdict); /* the first of all went */
    append_t append = {.subject = text("s"), .payload = text("p")};
    uint64_t before = messages();
    if (grouped) {
        append_group_t group = {0};
        CHECK_EQ_U64(APPEND_STORED, store_group_look(stream, &group, &append, 0, rig.now).verdict);
        CHECK_EQ_U64(APPEND_STORED, store_group_look(stream, &group, &append, 1, rig.now).verdict);
        CHECK_EQ_I64(STATUS_OK, store_group_reserve(stream, &group));
        uint64_t one = store_group_append(stream, &append, rig.now).seq;
        uint64_t two = store_group_append(stream, &append, rig.now).seq;
        CHECK(store_group_finish(stream, &append, one));
        CHECK(store_group_finish(stream, &append, two));
        store_group_end(stream);
    } else {
        CHECK_EQ_U64(APPEND_STORED, rig_append(&rig, stream, &append).verdict);
        CHECK_EQ_U64(APPEND_STORED, rig_append(&rig, stream, &append).verdict);
    }
    CHECK_EQ_U64(before + 2, messages()); /* those that have to go are not found yet */
    rig_sync(&rig);
    rig_crash(&rig);
    stream = rig_stream(&rig, 3, config);
    for (uint32_t turns = 0; messages() > before; turns++) {
        turn();
        CHECK(turns < MANY);
    }
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_NONE, store_read(stream, MANY + 3, &message));
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, MANY + 4, &message));
    rig_close(&rig);
}

static void nobody_waits(void) {
    full_for_who_cannot_wait(false);
    full_for_who_cannot_wait(true);
}

/* max_age goes over what is deleted in turns, too, and takes what lies behind. */
static void ages_go_on(void) {
    stream_config_t config = rig_config();
    config.max_age_ns = INT64_C(3600000000000);
    open_stream(config);
    append_t forever = {.subject = text("w"), .payload = text("p"), .expires_ts = -1};
    CHECK_EQ_U64(APPEND_STORED, store_append(stream, &forever, rig.now).verdict);
    for (uint32_t i = 1; i < MANY; i++) {
        CHECK_EQ_U64(APPEND_STORED, put("w", true).verdict);
    }
    delete_from_to(2, MANY - 1);
    rig_pass(&rig, config.max_age_ns + 1);
    stored_message_t message;
    for (uint32_t turns = 0; store_read(stream, MANY, &message) == ENTRY_FOUND; turns++) {
        turn();
        CHECK(turns < MANY);
    }
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, 1, &message));
    rig_close(&rig);
}

/* Of all but the first and the last the stamps are those of deleted messages. In the middle the clock steps back. */
static void a_time_is_found(bool checkpointed) {
    open_stream(rig_config());
    for (uint32_t i = 1; i <= MANY; i++) {
        CHECK_EQ_U64(APPEND_STORED, put("w", true).verdict);
        rig_pass(&rig, 1000);
        rig.now.wall_ns -= i == MANY / 2 ? 3600 * NS_PER_SECOND : 0;
    }
    stored_message_t message;
    uint64_t seq = 0;
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, MANY / 2, &message));
    int64_t middle = message.ts;
    CHECK_EQ_I64(SEEK_FOUND, store_seq_at_time(stream, middle, 10, &seq));
    CHECK_EQ_U64(MANY / 2, seq);
    CHECK_EQ_I64(SEEK_NONE, store_seq_at_time(stream, middle + 1, 10, &seq)); /* stamps stood still */
    delete_from_to(2, MANY - 1);
    if (checkpointed) {
        rig_checkpoint(&rig);
    }
    uint32_t tries = 0;
    while (store_seq_at_time(stream, RIG_START + 1, 4000, &seq) == SEEK_MORE) {
        CHECK(seq < MANY && ++tries < 10);
    }
    CHECK(tries > 2);
    CHECK_EQ_U64(MANY, seq);
    CHECK_EQ_I64(SEEK_FOUND, store_seq_at_time(stream, middle, 10, &seq)); /* the row is known now */
    CHECK_EQ_U64(MANY, seq);
    CHECK_EQ_I64(SEEK_FOUND, store_seq_at_time(stream, 0, 10, &seq));
    CHECK_EQ_U64(1, seq);
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, MANY, &message));
    CHECK_EQ_I64(SEEK_NONE, store_seq_at_time(stream, message.ts + 1, 10, &seq));
    rig_close(&rig);
}

static void times_are_found(void) {
    a_time_is_found(false);
    a_time_is_found(true);
}

static bool count_two(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    (void)subject, (void)last_seq;
    *(uint32_t *)context += count == 2;
    return true;
}

/* Each subject twice in one batch: of its first change some are written before its second. */
static void few_heads_wait(void) {
    rig = (rig_t){.options.journal_size = 16 << 20};
    rig_open(&rig);
    stream = rig_stream(&rig, 3, rig_config());
    for (uint32_t i = 0; i < 12000; i++) {
        char name[32];
        snprintf(name, sizeof name, "o.%u", i % 6000);
        append_t append = {.subject = text(name), .payload = text("p")};
        CHECK_EQ_U64(APPEND_STORED, store_append(stream, &append, rig.now).verdict);
        CHECK(rig.store->heads.dirty_count <= 4096);
    }
    rig_sync(&rig);
    rig_crash(&rig);
    stream = rig_stream(&rig, 3, rig_config());
    uint32_t two = 0;
    CHECK_EQ_I64(STATUS_OK, store_subjects(stream, text(">"), count_two, &two));
    CHECK_EQ_U64(6000, two);
    rig_close(&rig);
}

static uint64_t newest_in_steps(const char *pattern, uint64_t upto, uint32_t *steps) {
    store_newest_t newest = {0};
    uint64_t seq = 0;
    seek_outcome_t status;
    for (*steps = 0; (status = store_newest(stream, &newest, text(pattern), upto, 1000, &seq)) == SEEK_MORE;) {
        CHECK(++*steps < 100);
    }
    store_newest_end(&newest);
    CHECK_EQ_I64(SEEK_FOUND, status);
    return seq;
}

/* 20,000 of one subject wait for the disk; before them is what others have, and more than is looked at from the end. */
static void the_disk_lags(void) {
    rig = (rig_t){.options.journal_size = 16 << 20};
    rig_open(&rig);
    stream = rig_stream(&rig, 3, rig_config());
    for (uint32_t i = 0; i < 2003; i++) {
        static const char *const first[] = {"a.0", "a.1", "a.2"};
        CHECK_EQ_U64(APPEND_STORED, put(i < 3 ? first[i] : "noise", true).verdict);
    }
    rig_sync(&rig);
    uint64_t visible = store_stream_visible(stream);
    append_t append = {.subject = text("a.0"), .payload = text("p")};
    for (uint32_t i = 0; i < 20000; i++) {
        CHECK_EQ_U64(APPEND_STORED, store_append(stream, &append, rig.now).verdict);
    }
    uint32_t steps;
    CHECK_EQ_U64(2003, visible);
    CHECK_EQ_U64(3, newest_in_steps("a.*", visible, &steps));
    CHECK(steps >= 20);
    CHECK_EQ_U64(1, newest_in_steps("a.0", visible, &steps));
    CHECK(steps >= 19);
    CHECK_EQ_U64(22003, newest_in_steps("a.*", UINT64_MAX, &steps));
    CHECK_EQ_U64(0, steps);
    rig_close(&rig);
}

static void rows_are_joined(void) {
    gaps_t gaps = {0};
    gaps_learn(&gaps, 100, 199, 1);
    gaps_learn(&gaps, 300, 399, 1);
    CHECK_EQ_U64(99, gaps_over(&gaps, 99));
    CHECK_EQ_U64(200, gaps_over(&gaps, 100));
    CHECK_EQ_U64(99, gaps_back(&gaps, 199));
    gaps_learn(&gaps, 200, 299, 1);
    CHECK_EQ_U64(1, gaps.count);
    CHECK_EQ_U64(400, gaps_over(&gaps, 150));
    CHECK_EQ_U64(99, gaps_back(&gaps, 399));
    for (uint64_t i = 0; i < 2 * (uint64_t)GAPS_MAX; i++) {
        gaps_learn(&gaps, 1000 * (i + 1), 1000 * (i + 1) + 10 * i, 1);
    }
    CHECK_EQ_U64(GAPS_MAX, gaps.count); /* the longest */
    CHECK_EQ_U64(400, gaps_over(&gaps, 150));
    CHECK_EQ_U64(1000 * 2 * GAPS_MAX + 10 * (2 * GAPS_MAX - 1) + 1, gaps_over(&gaps, 1000 * 2 * GAPS_MAX));
}

int main(void) {
    RUN("when the first message goes, and very many behind it are deleted, the next one is found in steps",
        a_stuck_one);
    RUN("a limit for each subject that is lowered takes their oldest messages in steps, after a kill as well",
        lowered_limits);
    RUN("and so does one that few subjects exceed, after two kills", a_limit_that_few_exceed);
    RUN("meanwhile a message takes out a few, and not all at once", publishers_go_on);
    RUN("when a subject's newest message goes, and very many before it are deleted, its next newest is found in steps",
        downwards);
    RUN("limits go over what is deleted in steps, and take what they have to", limits_go_on);
    RUN("a full subject whose oldest message is far from both ends says so until it is found", a_full_subject);
    RUN("a message of a source or of a batch takes the place of such a one later, after a kill as well", nobody_waits);
    RUN("max_age goes over what is deleted in steps, and takes what lies behind", ages_go_on);
    RUN("the first message from a time on is found behind very many deleted ones in steps, whatever the clock did",
        times_are_found);
    RUN("the newest on disk is found in steps, however much lies behind it that is not on disk yet", the_disk_lags);
    RUN("of the subjects that a batch changes a bounded number waits for its end, and none is wrong after a kill",
        few_heads_wait);
    RUN("rows of deleted messages that touch are one, and the longest are remembered", rows_are_joined);
    return TEST_RESULT();
}
