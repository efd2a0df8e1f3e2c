/* test_consume_survey.c: a consumer that begins with the last of every subject, in a stream of so many subjects that
 * finding them takes many steps, over the real store: what is published and deleted between the steps is neither missed
 * nor delivered twice, and the count of what is left is exact.
 */
#include <stdlib.h>

#include "consume/consume.h"
#include "quiet_host.h"
#include "store_rig.h"

#define SUBJECTS 20000
#define MESSAGES_MAX 60000

static rig_t rig;
static consume_t *consume;
static share_t memory = {.limit = UINT64_MAX};
static store_stream_t *stream;
static consumer_t *consumer;
static uint64_t last_seq, start_seq;
static uint32_t subject_of[MESSAGES_MAX];
static bool alive[MESSAGES_MAX], came[MESSAGES_MAX];
static uint64_t deliveries, previous;

static delivered_t deliver(void *context, const delivery_t *delivery) {
    (void)context;
    unsigned long long seq;
    char reply[256];
    (void)snprintf(reply, sizeof reply, "%.*s", (int)delivery->reply.size, (const char *)delivery->reply.at);
    CHECK(sscanf(reply, "$JS.ACK.S.c.%*u.%llu.", &seq) == 1);
    CHECK(seq < MESSAGES_MAX && seq > previous && alive[seq]);
    came[seq] = true;
    previous = seq;
    deliveries++;
    return DELIVERED;
}

static void publish(uint32_t subject) {
    char name[32];
    snprintf(name, sizeof name, "k.%u", subject);
    appended_t got = rig_put(&rig, stream, name, "x");
    if (got.verdict == APPEND_NO_SPACE) {
        rig_checkpoint(&rig);
        got = rig_put(&rig, stream, name, "x");
    }
    CHECK_EQ_U64(++last_seq, got.seq);
    subject_of[last_seq] = subject;
    alive[last_seq] = true;
}

static void delete(uint64_t seq) {
    if (store_delete(stream, seq) == STATUS_OK) alive[seq] = false;
}

static consumer_setup_t setup_of(uint8_t policy, const filters_t filters) {
    return (consumer_setup_t){
        .stream_id = 1,
        .id = 2,
        .stream_name = BYTES_LITERAL("S"),
        .name = BYTES_LITERAL("c"),
        .filters = filters,
        .config = {
            .ack_policy = ACK_NONE, .max_deliver = -1, .deliver_policy = policy, .ack_wait_ns = 30 * NS_PER_SECOND}};
}

static void begin(uint8_t policy, const filters_t filters) {
    static const consume_out_t out = {.deliver = deliver,
                                      .status = quiet_status,
                                      .interest = quiet_interest,
                                      .exact_interest = quiet_interest,
                                      .advise = quiet_advise,
                                      .gone = quiet_gone};
    memset(alive, 0, sizeof alive);
    memset(came, 0, sizeof came);
    last_seq = deliveries = previous = 0;
    rig = (rig_t){0};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    /* the order of subjects is not that of messages */
    for (uint32_t i = 0; i < SUBJECTS; i++) publish((uint32_t)(i * UINT64_C(7919) % SUBJECTS));
    for (uint32_t i = 0; i < 3000; i++) publish(i * 3);
    rig_sync(&rig);
    consume = consume_new(&out, &memory);
    store_set_hooks(rig.store, consume_store_hooks(consume));
    consumer_setup_t setup = setup_of(policy, filters);
    start_seq = last_seq;
    CHECK_EQ_I64(STATUS_OK, consumer_add(consume, stream, &setup, false, rig.now, &consumer));
}

static void end(void) {
    consume_free(consume);
    rig_close(&rig);
}

static void deliver_all(void) {
    bool again = true;
    consumer_pull(consumer, BYTES_LITERAL("in"), BYTES_LITERAL("1000000"), rig.now);
    while (again) {
        consume_flush(consume);
        rig_sync(&rig);
        consume_advanced(consume, stream);
        consume_tick(consume, rig.now, &again);
    }
}

/* Up to where it began: no other than the last of each subject, as it was then; beyond: everything. */
static void check_delivered(void) {
    static uint64_t last_of[SUBJECTS];
    memset(last_of, 0, sizeof last_of);
    for (uint64_t seq = 1; seq <= last_seq; seq++) {
        if (alive[seq]) last_of[subject_of[seq]] = seq;
    }
    for (uint64_t seq = 1; seq <= last_seq; seq++) {
        if (seq > start_seq) CHECK(came[seq] == alive[seq]);
        if (last_of[subject_of[seq]] == seq) CHECK(came[seq]); /* every subject's last comes, whenever it did */
    }
}

static void last_of_each(void) {
    uint64_t random = 88172645463325252u;
    begin(DELIVER_LAST_PER_SUBJECT, (filters_t){0});
    uint32_t steps = 0;
    while (!consumer_counted(consumer)) {
        for (int i = 0; i < 40; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            if (i % 2 == 0) {
                publish((uint32_t)(random >> 33) % SUBJECTS);
            } else {
                delete(1 + (random >> 33) % last_seq);
            }
        }
        if (++steps % 3 == 0) rig_sync(&rig);
    }
    CHECK(steps > 5);
    consumer_state_t state;
    consumer_snapshot(consumer, rig.now, &state);
    deliver_all();
    CHECK_EQ_U64(state.pending, deliveries);
    for (uint64_t seq = start_seq + 1; seq <= last_seq; seq++) CHECK(came[seq] == alive[seq]);
    consumer_snapshot(consumer, rig.now, &state);
    CHECK_EQ_U64(0, state.pending);
    end();
}

static void last_of_each_undisturbed(void) {
    begin(DELIVER_LAST_PER_SUBJECT, (filters_t){0});
    while (!consumer_counted(consumer)) {
    }
    for (uint32_t i = 0; i < 100; i++) publish(i);
    deliver_all();
    CHECK_EQ_U64(SUBJECTS + 100, deliveries);
    check_delivered();
    end();
}

static void last_of_all(void) {
    bytes_t filter = text("k.*");
    bytes_t none = text("none.*");
    begin(DELIVER_LAST, (filters_t){.patterns = &none, .count = 1});
    while (!consumer_counted(consumer)) {
    }
    consumer_state_t state;
    consumer_snapshot(consumer, rig.now, &state);
    CHECK_EQ_U64(0, state.pending);
    CHECK_EQ_U64(0, state.delivered_stream);
    end();
    begin(DELIVER_LAST, (filters_t){.patterns = &filter, .count = 1});
    deliver_all();
    CHECK_EQ_U64(1, deliveries);
    CHECK(came[start_seq]);
    end();
}

/* Killed while it still looks, it begins anew; and a consumer that goes while it looks leaves nothing
 * (AddressSanitizer). */
static void goes_in_the_middle(void) {
    begin(DELIVER_LAST_PER_SUBJECT, (filters_t){0});
    CHECK(!consumer_counted(consumer));
    consume_flush(consume);
    rig_sync(&rig);
    consume_free(consume);
    rig_crash(&rig);
    static const consume_out_t out = {.deliver = deliver,
                                      .status = quiet_status,
                                      .interest = quiet_interest,
                                      .exact_interest = quiet_interest,
                                      .advise = quiet_advise,
                                      .gone = quiet_gone};
    consume = consume_new(&out, &memory);
    store_set_hooks(rig.store, consume_store_hooks(consume));
    stream = rig_stream(&rig, 1, rig_config());
    consumer_setup_t setup = setup_of(DELIVER_LAST_PER_SUBJECT, (filters_t){0});
    CHECK_EQ_I64(STATUS_OK, consumer_add(consume, stream, &setup, true, rig.now, &consumer));
    CHECK(!consumer_counted(consumer));
    CHECK_EQ_I64(STATUS_OK, consumer_configure(consumer, &setup, rig.now));
    deliver_all();
    CHECK_EQ_U64(SUBJECTS, deliveries);
    consumer_remove(consumer, rig.now);
    CHECK_EQ_I64(STATUS_OK, consumer_add(consume, stream, &setup, false, rig.now, &consumer));
    CHECK(!consumer_counted(consumer));
    consumer_remove(consumer, rig.now);
    end();
}

/* From a time on that lies before very many deleted messages. Meanwhile more come, and go. */
static void from_a_time(void) {
    begin(DELIVER_ALL, (filters_t){0});
    consumer_remove(consumer, rig.now);
    rig_pass(&rig, NS_PER_SECOND);
    int64_t since = rig.now.wall_ns;
    for (uint32_t i = 0; i < 14000; i++) publish(0); /* each leaves a link */
    for (uint64_t seq = start_seq + 1; seq <= last_seq - 2; seq++) {
        if (seq % 2000 == 0) rig_checkpoint(&rig);
        delete(seq);
    }
    consumer_setup_t setup = setup_of(DELIVER_BY_START_TIME, (filters_t){0});
    setup.config.opt_start_ts = since;
    CHECK_EQ_I64(STATUS_OK, consumer_add(consume, stream, &setup, false, rig.now, &consumer));
    CHECK(!consumer_counted(consumer));
    delete(last_seq - 1);
    publish(7);
    while (!consumer_counted(consumer)) {
    }
    consumer_state_t state;
    consumer_snapshot(consumer, rig.now, &state);
    CHECK_EQ_U64(2, state.pending);
    CHECK_EQ_U64(last_seq - 2, state.delivered_stream);
    uint64_t reset = 0;
    CHECK_EQ_I64(STATUS_INVALID, consumer_reset(consumer, start_seq, rig.now, &reset));
    CHECK_EQ_I64(STATUS_OK, consumer_reset(consumer, last_seq - 1, rig.now, &reset));
    previous = 0;
    deliver_all();
    CHECK_EQ_U64(2, deliveries);
    end();
}

int main(void) {
    RUN("the last of each subject, found in steps while the stream changes, is what is left and what comes",
        last_of_each);
    RUN("what is published after the last of each were found comes behind them", last_of_each_undisturbed);
    RUN("the last of a pattern, found in steps or not at all", last_of_all);
    RUN("a consumer that begins at a time finds its first message behind very many deleted ones in steps", from_a_time);
    RUN("a consumer that is killed or removed while it looks begins anew or leaves nothing", goes_in_the_middle);
    return TEST_RESULT();
}
