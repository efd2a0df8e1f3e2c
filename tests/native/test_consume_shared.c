/* test_consume_shared.c: what interest and work queue streams remove where several servers keep them
 * (STREAM_REPLICATED): a removal is asked of the log, whose part this test plays, and takes place when that has it.
 */
#include "consume_rig.h"

#define INTEREST 1
#define WORK_QUEUE 2
#define ASKED_MOST 64

static struct {
    uint64_t asked[ASKED_MOST]; /* removals that the log does not have yet */
    uint32_t asked_count, sweeps;
    bool full, incomplete;
    uint64_t coming;
} journal;

static status_t log_record(void *context, uint32_t stream, const record_change_t *change) {
    (void)context;
    CHECK_EQ_U64(STREAM_ID, stream);
    bool sweep = change->act == RECORD_PUT && change->kind == RECORD_CONSUMER_STATE && change->key.size == 8
                 && load_be32(change->key.at + 4) == UINT32_MAX;
    journal.sweeps += sweep;
    return store_record_change(rig.store, change);
}

static status_t log_remove(void *context, uint32_t stream, uint64_t seq) {
    (void)context;
    CHECK_EQ_U64(STREAM_ID, stream);
    if (journal.full) return STATUS_AGAIN;
    check(journal.asked_count < ASKED_MOST);
    journal.asked[journal.asked_count++] = seq;
    return STATUS_OK;
}

static bool log_complete(void *context, uint32_t stream) {
    (void)context;
    (void)stream;
    return !journal.incomplete;
}

static uint64_t log_coming(void *context, uint32_t stream) {
    (void)context;
    (void)stream;
    return journal.coming;
}

/* The log has all that was asked of it. */
static uint32_t agree(void) {
    uint32_t count = journal.asked_count;
    for (uint32_t i = 0; i < count; i++) CHECK_EQ_I64(STATUS_OK, store_delete(rig.stream, journal.asked[i]));
    journal.asked_count = 0;
    rig_run();
    return count;
}

static void begin(uint8_t retention) {
    memset(&journal, 0, sizeof journal);
    rig_start(retention);
    consume_free(rig.consume);
    consume_out_t out = {.deliver = rig_deliver,
                         .status = rig_status,
                         .interest = rig_interest,
                         .exact_interest = rig_interest,
                         .advise = rig_advise,
                         .gone = rig_gone,
                         .record = log_record,
                         .remove = log_remove,
                         .complete = log_complete,
                         .coming = log_coming};
    rig.consume = consume_new(&out, &rig.memory);
    check(rig.consume);
    store_set_hooks(rig.store, consume_store_hooks(rig.consume));
    rig.stream->config.flags |= STREAM_REPLICATED;
}

static consumer_t *named(const char *name) {
    consumer_setup_t setup = rig_setup(name);
    setup.id += (uint8_t)name[0];
    return rig_add(&setup);
}

static uint64_t stored(void) {
    stream_state_t state;
    store_stream_state(rig.stream, &state);
    return state.messages;
}

static void acknowledged(void) {
    begin(WORK_QUEUE);
    consumer_t *a = named("a");
    rig_publish_many("s", 3);
    rig_pull(a, "in", "3");
    rig_ack(a, 2, 2, "");
    rig_ack(a, 1, 1, "+TERM");
    CHECK_EQ_U64(3, stored());
    CHECK_EQ_U64(2, agree());
    CHECK_EQ_U64(1, stored());
    CHECK_EQ_U64(0, journal.asked_count);
    CHECK_EQ_U64(0, rig_state(a).pending);
    CHECK_EQ_U64(1, rig_state(a).ack_pending);
}

static void no_room_for(uint8_t storage) {
    begin(WORK_QUEUE);
    rig.stream->config.storage = storage;
    consumer_t *a = named("a");
    rig_publish_many("s", 2);
    rig_pull(a, "in", "2");
    journal.full = true;
    rig_ack(a, 1, 1, "");
    CHECK_EQ_U64(0, journal.asked_count);
    CHECK(journal.sweeps > 0);
    journal.full = false;
    rig_pass(SECOND);
    CHECK_EQ_U64(1, agree());
    CHECK_EQ_U64(1, stored());
}

static void no_room(void) {
    no_room_for(0);
    no_room_for(1); /* in memory, which several servers keep in files */
}

static void consumers_missing(void) {
    begin(INTEREST);
    journal.incomplete = true;
    consumer_t *a = named("a");
    rig_publish_many("s", 4);
    rig_pull(a, "in", "4");
    rig_ack(a, 1, 1, "");
    rig_ack(a, 2, 2, "");
    rig_pass(SECOND);
    CHECK_EQ_U64(0, journal.asked_count);
    consumer_t *b = named("b"); /* which needs them, too */
    journal.incomplete = false;
    rig_pass(SECOND);
    CHECK_EQ_U64(0, journal.asked_count);
    rig_pull(b, "in", "1");
    rig_ack(b, 1, 1, "");
    CHECK_EQ_U64(1, agree());
    CHECK_EQ_U64(3, stored());
}

static void taken_before(void) {
    begin(INTEREST);
    journal.incomplete = true;
    consumer_setup_t setup = rig_setup("a");
    bytes_t filter = text("s.a");
    setup.filters = (filters_t){.patterns = &filter, .count = 1};
    (void)rig_add(&setup);
    rig_publish_many("s.a", 2);
    rig_publish_many("s.b", 2); /* which nobody wants: that was not known */
    journal.incomplete = false;
    rig_pass(SECOND);
    CHECK_EQ_U64(0, journal.asked_count);
    consume_judge(rig.consume, STREAM_ID, 1);
    rig_pass(SECOND);
    CHECK_EQ_U64(2, agree());
    CHECK_EQ_U64(2, stored());
}

static void still_coming(void) {
    begin(INTEREST);
    consumer_t *a = named("a");
    (void)named("b");
    rig_publish_many("s", 1);
    rig_pull(a, "in", "1");
    rig_ack(a, 1, 1, "");
    journal.coming = 2; /* asked for while both were there */
    consumer_remove(consume_find(rig.consume, STREAM_ID, rig_setup("b").id + 'b'), rig.now);
    rig_pass(SECOND);
    CHECK_EQ_U64(1, agree());
    consumer_remove(a, rig.now);
    rig_pass(SECOND);
    rig_publish_many("s", 1);
    rig_pass(SECOND);
    journal.coming = 0; /* the other one was a duplicate */
    rig_pass(SECOND);
    CHECK_EQ_U64(1, agree());
    CHECK_EQ_U64(0, stored());
    CHECK_EQ_I64(INT64_MAX, consume_next_deadline(rig.consume));
}

int main(void) {
    RUN("what is acknowledged is there until the log has its removal, and goes once", acknowledged);
    RUN("without room in the log a removal is asked for again, also by who leads next", no_room);
    RUN("nothing of a stream of interest goes while a consumer of it may be missing", consumers_missing);
    RUN("what was taken in before the consumers were known goes, if none of them wants it", taken_before);
    RUN("a message that was on its way while its last consumer went goes, too", still_coming);
    rig_end();
    return TEST_RESULT();
}
