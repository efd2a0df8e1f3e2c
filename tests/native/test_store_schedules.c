/* test_store_schedules.c: when a schedule fires, over restarts, checkpoints and steps of the wall clock. */
#include "store/schedules.h"
#include "store_rig.h"

#define S NS_PER_SECOND
#define FIRED_MAX 64

static rig_t rig;

/* What the hook heard, and what it is to do. */
static struct {
    uint32_t count;
    uint64_t seqs[FIRED_MAX];
    int64_t meant[FIRED_MAX];
    int64_t every_ns; /* 0 = once */
    bool not_now;
    uint32_t asks; /* so often it asks somebody first */
} heard;

static store_due_t on_due(void *context, store_stream_t *stream, uint64_t seq, int64_t due_ts) {
    rig_t *world = context;
    if (heard.not_now) {
        return STORE_DUE_LATER;
    }
    if (heard.asks > 0) {
        heard.asks--;
        return STORE_DUE_ASKED;
    }
    CHECK(heard.count < FIRED_MAX);
    heard.seqs[heard.count] = seq;
    heard.meant[heard.count++] = due_ts;
    rig_put(world, stream, "made", "x");
    if (heard.every_ns != 0) {
        CHECK_EQ_I64(STATUS_OK, store_schedule(stream, seq, world->now.wall_ns + heard.every_ns, world->now));
    }
    return STORE_DUE_DONE;
}

static store_stream_t *stream_here(void) {
    store_set_hooks(rig.store, (store_hooks_t){.due = on_due, .due_context = &rig});
    return rig_stream(&rig, 1, rig_config());
}

static store_stream_t *start(void) {
    rig = (rig_t){0};
    memset(&heard, 0, sizeof heard);
    rig_open(&rig);
    return stream_here();
}

static store_stream_t *restart(void) {
    rig_crash(&rig);
    return stream_here();
}

static uint64_t plan(store_stream_t *stream, int64_t in_ns) {
    append_t append = {.subject = text("plan"), .payload = text("p"), .due_ts = rig.now.wall_ns + in_ns, .rollup = 1};
    appended_t done = store_append(stream, &append, rig.now);
    CHECK_EQ_U64(APPEND_STORED, done.verdict);
    return done.seq;
}

static void pass(int64_t ns) {
    rig_pass(&rig, ns);
    rig_sync(&rig);
}

static uint64_t messages(store_stream_t *stream) {
    stream_state_t state;
    store_stream_state(stream, &state);
    return state.messages;
}

static void once(void) {
    store_stream_t *stream = start();
    int64_t due_ts = rig.now.wall_ns + 10 * S;
    (void)plan(stream, 10 * S);
    rig_sync(&rig);
    pass(9 * S);
    CHECK_EQ_U64(0, heard.count);
    pass(S);
    CHECK_EQ_U64(1, heard.count);
    CHECK_EQ_U64(1, heard.seqs[0]);
    CHECK_EQ_I64(due_ts, heard.meant[0]);
    CHECK_EQ_U64(2, messages(stream));
    pass(100 * S);
    rig_checkpoint(&rig);
    pass(100 * S);
    stream = restart();
    pass(100 * S);
    CHECK_EQ_U64(1, heard.count);
    CHECK_EQ_U64(2, messages(stream));
    rig_close(&rig);
}

static void deadline_is_told(void) {
    store_stream_t *stream = start();
    (void)plan(stream, 10 * S);
    rig_sync(&rig);
    for (int i = 0; i < 200 && heard.count == 0; i++) {
        int64_t left = store_next_deadline(rig.store) - rig.now.mono_ns;
        CHECK(left < 11 * S);
        pass(left > 0 ? left : 0);
    }
    CHECK_EQ_U64(1, heard.count);
    CHECK(rig.now.wall_ns < RIG_START + 11 * S);
    rig_close(&rig);
}

/* Far more often than there are checkpoints: entries of an old time come up again from LMDB, and must be passed over.
 */
static void again_and_again(void) {
    store_stream_t *stream = start();
    heard.every_ns = 2 * S;
    (void)plan(stream, 2 * S);
    rig_sync(&rig);
    for (uint32_t i = 1; i <= 20; i++) {
        pass(S);
        CHECK_EQ_U64(i - 1, heard.count);
        pass(S);
        CHECK_EQ_U64(i, heard.count);
        if (i % 3 == 0) {
            int64_t before = rig.now.mono_ns;
            heard.not_now = true; /* a checkpoint lets time pass; nothing is to fire in it */
            rig_checkpoint(&rig);
            heard.not_now = false;
            pass(S);
            CHECK_EQ_U64(i + 1, heard.count); /* what was due meanwhile, once */
            CHECK(rig.now.mono_ns - before >= 6 * S);
            i++;
        }
    }
    CHECK_EQ_U64(1, heard.seqs[heard.count - 1]);
    rig_close(&rig);
}

static void over_kills(void) {
    store_stream_t *stream = start();
    heard.every_ns = 10 * S;
    (void)plan(stream, 10 * S);
    rig_sync(&rig);
    stream = restart(); /* from the journal */
    pass(9 * S);
    CHECK_EQ_U64(0, heard.count);
    pass(S);
    CHECK_EQ_U64(1, heard.count);
    CHECK_EQ_U64(2, messages(stream)); /* what it made, and its next time, are of one batch */
    stream = restart();
    pass(9 * S);
    CHECK_EQ_U64(1, heard.count);
    CHECK_EQ_U64(2, messages(stream));
    pass(S);
    CHECK_EQ_U64(2, heard.count);
    rig_checkpoint(&rig);
    stream = restart();      /* from LMDB */
    rig_pass(&rig, 100 * S); /* down for long: once */
    pass(S);
    CHECK_EQ_U64(3, heard.count);
    pass(9 * S);
    CHECK_EQ_U64(3, heard.count);
    pass(S);
    CHECK_EQ_U64(4, heard.count);
    rig_close(&rig);
}

/* Dies with the batch in hand that nobody made durable: neither the made message nor the end of the schedule is there.
 */
static void dies_while_firing(void) {
    store_stream_t *stream = start();
    (void)plan(stream, 10 * S);
    rig_sync(&rig);
    rig_pass(&rig, 10 * S);
    rig_crash(&rig);
    stream = stream_here();
    CHECK_EQ_U64(1, messages(stream));
    pass(S);
    CHECK_EQ_U64(1, heard.count);
    CHECK_EQ_U64(2, messages(stream));
    rig_close(&rig);
}

static void wall_clock_steps(void) {
    store_stream_t *stream = start();
    heard.every_ns = 10 * S;
    (void)plan(stream, 10 * S);
    rig_sync(&rig);
    rig.now.wall_ns += 3600 * S;
    pass(9 * S);
    CHECK_EQ_U64(0, heard.count);
    rig.now.wall_ns -= 86400 * S;
    pass(S);
    CHECK_EQ_U64(1, heard.count);
    rig.now.wall_ns += 2 * 86400 * S;
    pass(9 * S);
    CHECK_EQ_U64(1, heard.count);
    pass(S);
    CHECK_EQ_U64(2, heard.count);
    rig_close(&rig);
}

static void replaced_and_removed(void) {
    store_stream_t *stream = start();
    (void)plan(stream, 10 * S);
    CHECK_EQ_U64(2, plan(stream, 30 * S)); /* in place of the first */
    rig_checkpoint(&rig);
    pass(14 * S);
    CHECK_EQ_U64(0, heard.count);
    pass(10 * S);
    CHECK_EQ_U64(1, heard.count);
    CHECK_EQ_U64(2, heard.seqs[0]);
    uint64_t gone = plan(stream, 10 * S);
    rig_checkpoint(&rig);
    CHECK_EQ_I64(STATUS_OK, store_delete(stream, gone));
    pass(20 * S);
    CHECK_EQ_U64(1, heard.count);
    (void)plan(stream, 10 * S);
    CHECK_EQ_I64(STATUS_OK, store_stream_remove(stream));
    rig_sync(&rig);
    pass(20 * S);
    stream = rig_stream(&rig, 1, rig_config());
    (void)plan(stream, 1000 * S); /* the same sequence as the very first one */
    rig_sync(&rig);
    pass(100 * S);
    CHECK_EQ_U64(1, heard.count);
    rig_close(&rig);
}

/* Who is asked answers in milliseconds, and nobody waits a second for that. */
static void asked_first(void) {
    store_stream_t *stream = start();
    (void)plan(stream, 10 * S);
    rig_sync(&rig);
    heard.asks = 3;
    pass(10 * S);
    CHECK_EQ_U64(0, heard.count);
    for (uint32_t i = 0; i < 10; i++) {
        pass(S / 50);
    }
    CHECK_EQ_U64(1, heard.count);
    CHECK_EQ_U64(0, heard.asks);
    pass(10 * S);
    CHECK_EQ_U64(1, heard.count);
    rig_close(&rig);
}

static void not_now(void) {
    store_stream_t *stream = start();
    (void)plan(stream, 10 * S);
    append_t append = {.subject = text("short"), .expires_ts = rig.now.wall_ns + 10 * S + 1};
    store_append(stream, &append, rig.now);
    rig_sync(&rig);
    heard.not_now = true;
    pass(11 * S);
    CHECK_EQ_U64(1, messages(stream)); /* what expires behind it does not wait */
    pass(20 * S);
    rig_checkpoint(&rig);
    CHECK(store_next_deadline(rig.store) > rig.now.mono_ns); /* nor does it go round and round */
    stream = restart();
    heard.not_now = false;
    pass(2 * S);
    CHECK_EQ_U64(1, heard.count);
    CHECK_EQ_I64(RIG_START + 10 * S, heard.meant[0]);
    rig_close(&rig);
}

static void with_a_life_of_its_own(void) {
    store_stream_t *stream = start();
    append_t append = {
        .subject = text("plan"), .due_ts = rig.now.wall_ns + 20 * S, .expires_ts = rig.now.wall_ns + 10 * S};
    store_append(stream, &append, rig.now);
    rig_sync(&rig);
    pass(10 * S);
    CHECK_EQ_U64(0, messages(stream));
    pass(20 * S);
    CHECK_EQ_U64(0, heard.count);
    rig_close(&rig);
}

/* ---- many at once ------------------------------------------------------------------------------------------------ */

#define MANY 500u
#define A_TICK 80u /* schedules that one tick fires, and a few */
#define SOON_NS (100 * NS_PER_MS)

static store_due_t on_due_many(void *context, store_stream_t *stream, uint64_t seq, int64_t due_ts) {
    (void)stream, (void)seq, (void)due_ts;
    (*(uint32_t *)context)++;
    return STORE_DUE_DONE;
}

/* Of the open batch, which is closed in a tick. */
static void use_up_the_room(store_stream_t *stream) {
    static uint8_t filling[16384];
    append_t append = {.subject = text("filling"), .payload = bytes_of(filling, sizeof filling)};
    for (uint32_t i = 0; store_room(rig.store); i++) {
        CHECK(i < 1000);
        CHECK_EQ_U64(APPEND_STORED, store_append(stream, &append, rig.now).verdict);
    }
}

static void take_turns(bool crowded) {
    store_stream_t *streams[3] = {start(), rig_stream(&rig, 2, rig_config()), rig_stream(&rig, 3, rig_config())};
    uint32_t fired = 0;
    store_set_hooks(rig.store, (store_hooks_t){.due = on_due_many, .due_context = &fired});
    append_t mortal = {.subject = text("mortal"), .payload = text("x"), .expires_ts = rig.now.wall_ns + 10 * S};
    for (uint32_t i = 0; i < MANY; i++) {
        char subject[16];
        (void)snprintf(subject, sizeof subject, "plan.%u", i);
        append_t append = {.subject = text(subject), .payload = text("p"), .due_ts = rig.now.wall_ns + 10 * S};
        CHECK_EQ_U64(APPEND_STORED, store_append(streams[i % 2], &append, rig.now).verdict);
        for (uint32_t each = 0; each < 8; each++)
            CHECK_EQ_U64(APPEND_STORED, store_append(streams[2], &mortal, rig.now).verdict);
        if (i % 50 == 49) rig_sync(&rig);
    }
    rig.now.mono_ns += 11 * S;
    rig.now.wall_ns += 11 * S;
    if (crowded) use_up_the_room(rig_stream(&rig, 4, rig_config()));
    uint32_t ticks = 0, waits = 0;
    for (uint32_t before = 0; fired < MANY || messages(streams[2]) > 0; before = fired) {
        uint64_t alive = messages(streams[2]);
        store_tick(rig.store, rig.now);
        CHECK(fired - before <= A_TICK);
        CHECK(alive - messages(streams[2]) <= 1100);
        CHECK(++ticks < 100);
        int64_t deadline = store_next_deadline(rig.store);
        if (deadline > rig.now.mono_ns && (fired < MANY || messages(streams[2]) > 0)) {
            /* The open batch was full, since the journal was behind: soon again, not at once. */
            CHECK(deadline <= rig.now.mono_ns + SOON_NS);
            rig_sync(&rig);
            rig.now.wall_ns += deadline - rig.now.mono_ns;
            rig.now.mono_ns = deadline;
            waits++;
        }
    }
    CHECK(waits > 0 || !crowded);
    rig_close(&rig);
}

static void many_take_turns(void) {
    take_turns(false);
}

static void without_room_they_wait(void) {
    take_turns(true);
}

int main(void) {
    RUN("a schedule is due once, when its time has passed, and never again after restarts", once);
    RUN("sleeping until the told deadline fires it in time", deadline_is_told);
    RUN("one that repeats is due each time once, over any number of checkpoints", again_and_again);
    RUN("what a schedule did and its next time survive a kill together; what was missed counts once", over_kills);
    RUN("a kill before the batch is durable undoes all of it, and it is due again", dies_while_firing);
    RUN("no step of the wall clock makes it early or late", wall_clock_steps);
    RUN("a replaced, deleted or forgotten schedule is not due", replaced_and_removed);
    RUN("a schedule for which somebody is asked fires within a fraction of a second of the answer", asked_first);
    RUN("who has no room for it now is asked again, and holds up nothing else", not_now);
    RUN("a schedule whose message expires first is not due", with_a_life_of_its_own);
    RUN("however many schedules and messages are due at once, a tick does a part of them, and the next ones the rest",
        many_take_turns);
    RUN("what is due and finds no room is tried again soon, not at once", without_room_they_wait);
    return TEST_RESULT();
}
