/* test_store_powercut.c: the store after power cuts, hundreds of them, at any write and in any state that a disk may be
 * left in.
 *
 * A generation records a seeded workload (powercut.h), then opens images that a cut within it may leave. The op count K
 * is a record that each op writes in its own batch, so an image says itself how far it got. What must hold for each:
 *
 *     it opens; what was durable before the cut is in K; K ends a batch; K is not beyond what was handed over by the
 *     cut every message, its bytes and stamp, and every counter are those that the live store had at K
 *     (test_store_duel.c says that those were right), ids of messages are still known, and the store goes on from there
 *
 * The next generation mostly begins from one of the images, so replay, and what a cut leaves of a replay, is cut too.
 *
 *     LEAFD_POWER_CUTS=20000 LEAFD_POWER_SEED=7 build/dev/tests/native/test_store_powercut      many more, from another
 *                                                                                               seed
 *
 * An image that fails is kept, and its place is told with the seed. Threads make two runs of one seed differ in small
 * things.
 */
#include "base/crc.h"
#include "store_rig.h"

#include "ledger_workload.h"
#include "powercut.h"
#include "unreserved.h"

#define IMAGES_A_GENERATION 40
#define FRESH_EACH 5 /* each so many generations one begins from nothing */
#define TICKS 90
#define BOUNDARIES_MAX (TICKS * 8)
#define STREAMS 3
#define PAYLOAD_MAX 40000

typedef enum mark {
    MARK_HANDED = NOTE_MARK, /* every op up to the value may be on disk from now on */
    MARK_DURABLE,            /* every op up to the value was said to be durable */
} mark_t;

/* All that can be read of a stream. */
typedef struct picture {
    uint64_t messages;
    uint64_t bytes;
    uint64_t first_seq;
    uint64_t last_seq;
    uint64_t subjects;
    uint64_t deleted;
    uint32_t digest; /* of every message's sequence, stamp, subject and payload */
} picture_t;

typedef struct boundary {
    uint64_t op; /* the last one before a tick: no other op may be the last one on disk */
    uint64_t batch;
    picture_t pictures[STREAMS];
    ledger_picture_t ledger;
    uint64_t id_op; /* whose message id must still be known, 0 = none; and that message's sequence */
    uint64_t id_seq;
} boundary_t;

static boundary_t boundaries[BOUNDARIES_MAX];
static uint32_t boundary_count;
static powercut_chance_t chance;
static rig_t rig;
static store_stream_t *streams[STREAMS];
static int64_t sync_interval_ns; /* 0: durable before acknowledged */
static boundary_t last;          /* what the op that is done now made of it */
static char record_root[64];
static char image_root[64];
static uint8_t payload[PAYLOAD_MAX];

/* The image that is looked at. */
typedef struct trial {
    unsigned generation;
    uint64_t cut;
    powercut_plan_t plan;
    powercut_chance_t chance;
} trial_t;
static trial_t trial;

static uint64_t below(uint64_t n) {
    return powercut_next(&chance) % n;
}

static stream_config_t config_of(int i) {
    stream_config_t config = rig_config();
    if (i == 1) {
        config.max_msgs = 40;
        config.max_msgs_per_subject = 3;
    }
    return config;
}

static ledger_picture_t open_streams(void) {
    ledger_picture_t loaded;
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = rig_stream(&rig, (uint32_t)i + 1, config_of(i));
    }
    open_ledger(rig.store, &loaded);
    return loaded;
}

/* STATUS of store_open; the reason goes to the log when it is not well. */
static status_t open_at(const char *directory) {
    char reason[512];
    rig = (rig_t){.now = {.mono_ns = NS_PER_SECOND, .wall_ns = RIG_START}};
    snprintf(rig.directory, sizeof rig.directory, "%s", directory);
    rig.options = (store_options_t){.directory = rig.directory,
                                    .keys = test_keys(),
                                    .journal_size = 1 << 20,
                                    .max_bytes = 1 << 28,
                                    .changed_max = 128 << 10, /* checkpoints commit in between */
                                    .checkpoint_ns = 5 * NS_PER_SECOND,
                                    .pack_from = 2 << 10,
                                    .ledgers = true,
                                    .sync_interval_ns = sync_interval_ns};
    status_t status = store_open(&rig.options, &rig.store, reason, sizeof reason);
    if (status != STATUS_OK) {
        fprintf(stderr, "  %s\n", reason);
    }
    return status;
}

/* ---- what can be read -------------------------------------------------------------------------------------------- */

typedef struct heads_sum {
    uint64_t subjects;
    uint64_t messages;
} heads_sum_t;

static bool sum_head(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    heads_sum_t *sum = context;
    (void)subject;
    (void)last_seq;
    sum->subjects++;
    sum->messages += count;
    return true;
}

/* What the heads say comes to what the stream says. */
static void check_heads(store_stream_t *stream, const stream_state_t *state) {
    heads_sum_t sum = {0};
    store_walk_t *walk = store_walk_open(stream, BYTES_NONE);
    step_outcome_t step;
    do {
        step = store_walk_step(walk, 100000, sum_head, &sum);
    } while (step == STEP_MORE);
    store_walk_close(walk);
    CHECK_EQ_I64(STEP_OVER, step);
    CHECK_EQ_U64(state->subjects, sum.subjects);
    CHECK_EQ_U64(state->messages, sum.messages);
}

static picture_t take_picture(store_stream_t *stream) {
    stream_state_t state;
    store_stream_state(stream, &state);
    picture_t picture = {
        state.messages, state.bytes, state.first_seq, state.last_seq, state.subjects, state.deleted_count, 0};
    uint64_t from = 0;
    uint64_t seen = 0;
    stored_message_t message;
    while (store_next(stream, (filters_t){0}, &from, UINT64_MAX, 100000, &message) == SEEK_FOUND) {
        uint64_t place[] = {message.seq, (uint64_t)message.ts};
        picture.digest = crc32c(picture.digest, (const uint8_t *)place, sizeof place);
        picture.digest = crc32c(picture.digest, message.subject.at, message.subject.size);
        picture.digest = crc32c(picture.digest, message.payload.at, message.payload.size);
        from = message.seq + 1;
        seen++;
    }
    CHECK_EQ_U64(state.messages, seen);
    CHECK_EQ_U64(0, state.corrupt);
    check_heads(stream, &state);
    return picture;
}

static void take_pictures(picture_t pictures[STREAMS]) {
    for (int i = 0; i < STREAMS; i++) {
        pictures[i] = take_picture(streams[i]);
    }
}

static void check_pictures(const picture_t expected[STREAMS]) {
    for (int i = 0; i < STREAMS; i++) {
        picture_t real = take_picture(streams[i]);
        CHECK_EQ_U64(expected[i].messages, real.messages);
        CHECK_EQ_U64(expected[i].bytes, real.bytes);
        CHECK_EQ_U64(expected[i].first_seq, real.first_seq);
        CHECK_EQ_U64(expected[i].last_seq, real.last_seq);
        CHECK_EQ_U64(expected[i].subjects, real.subjects);
        CHECK_EQ_U64(expected[i].deleted, real.deleted);
        CHECK_EQ_U64(expected[i].digest, real.digest);
    }
}

static uint64_t op_count(void) {
    bytes_t value;
    status_t status = entry_status(store_record_get(rig.store, RECORD_CONTROL, text("op"), &value));
    if (status == STATUS_NOT_FOUND) {
        return 0;
    }
    CHECK_EQ_I64(STATUS_OK, status);
    return load_be64(value.at);
}

/* ---- the workload ------------------------------------------------------------------------------------------------ */

static appended_t put_message(int i, uint64_t op) {
    char subject[32];
    char id[32];
    uint32_t size = (uint32_t)(below(40) == 0 ? below(PAYLOAD_MAX) : below(700));
    for (uint32_t at = 0; at < size; at++) {
        payload[at] = (uint8_t)(op * 31 + at);
    }
    snprintf(subject, sizeof subject, "s.%u", (unsigned)below(op % 2 == 0 ? 3000 : 17));
    snprintf(id, sizeof id, "id-%llu", (unsigned long long)op);
    append_t append = {
        .subject = text(subject), .payload = bytes_of(payload, size), .msg_id = i == 0 ? text(id) : BYTES_NONE};
    return store_append(streams[i], &append, rig.now);
}

static void purge(store_stream_t *stream, uint64_t keep) {
    stream_state_t state;
    store_stream_state(stream, &state);
    /* That a stream was purged before its first message is only remembered while the store is open. */
    if (state.last_seq > 0) {
        (void)rig_purge(stream, BYTES_NONE, 0, keep);
    }
}

static void remove_message(store_stream_t *stream) {
    stream_state_t state;
    store_stream_state(stream, &state);
    if (state.messages > 0) {
        status_t status = store_delete(stream, state.first_seq + below(state.last_seq - state.first_seq + 1));
        CHECK(status == STATUS_OK || status == STATUS_NOT_FOUND);
    }
}

/* Several messages that are there together or not at all, whatever of the op's own record is there. */
static void put_group(int i, uint64_t op) {
    append_group_t group = {0};
    char subject[20][32];
    append_t appends[20];
    uint64_t seqs[20];
    uint32_t count = 2 + (uint32_t)below(18);
    for (uint32_t at = 0; at < sizeof payload; at++) {
        payload[at] = (uint8_t)(op * 31 + at);
    }
    for (uint32_t n = 0; n < count; n++) {
        snprintf(subject[n], sizeof subject[n], "s.%u", (unsigned)below(17));
        appends[n] = (append_t){.subject = text(subject[n]), .payload = bytes_of(payload, (uint32_t)below(4000))};
        CHECK_EQ_U64(APPEND_STORED, store_group_look(streams[i], &group, &appends[n], 0, rig.now).verdict);
    }
    status_t status = store_group_reserve(streams[i], &group);
    if (status != STATUS_OK) {
        CHECK_EQ_I64(STATUS_AGAIN, status);
        store_group_give_up(rig.store);
        return;
    }
    for (uint32_t n = 0; n < count; n++) {
        appended_t done = store_group_append(streams[i], &appends[n], rig.now);
        CHECK_EQ_U64(APPEND_STORED, done.verdict);
        seqs[n] = done.seq;
    }
    for (uint32_t n = 0; n < count; n++) {
        CHECK(store_group_finish(streams[i], &appends[n], seqs[n]));
    }
    store_group_end(streams[i]);
}

static void do_op(uint64_t op) {
    uint64_t dice = below(100);
    int i = (int)below(STREAMS);
    if (below(4) == 0) {
        do_ledger(rig.store, op, below);
    }
    if (dice < 6) {
        put_group(i, op);
    } else if (dice < 80) {
        appended_t done = put_message(i, op);
        CHECK_EQ_U64(APPEND_STORED, done.verdict);
        if (i == 0) {
            last.id_op = op;
            last.id_seq = done.seq;
        }
    } else if (dice < 94) {
        remove_message(streams[i]);
    } else if (dice < 98) {
        purge(streams[i], below(2) * below(100));
        last.id_op = i == 0 ? 0 : last.id_op;
    } else {
        CHECK_EQ_I64(STATUS_OK, store_stream_remove(streams[2]));
        streams[2] = rig_stream(&rig, 3, config_of(2));
    }
    uint8_t value[8];
    store_be64(value, op);
    CHECK_EQ_I64(STATUS_OK, store_record_put(rig.store, RECORD_CONTROL, text("op"), bytes_of(value, sizeof value)));
    last.op = op;
}

static void add_boundary(void) {
    CHECK(boundary_count < BOUNDARIES_MAX);
    last.batch = store_batch(rig.store);
    take_pictures(last.pictures);
    last.ledger = take_ledger();
    boundaries[boundary_count++] = last;
    powercut_note(MARK_HANDED, last.op);
}

/* With a sync interval nothing is promised before the next sync; what the disk has must be in order all the same. */
static void note_durable(uint64_t op) {
    if (sync_interval_ns == 0) {
        powercut_note(MARK_DURABLE, op);
    }
}

static void tick(void) {
    store_tick(rig.store, rig.now);
    while (store_advanced_next(rig.store) != NULL) {
    }
    uint64_t durable = store_durable(rig.store);
    for (uint32_t i = boundary_count; i-- > 0;) {
        if (boundaries[i].batch <= durable) {
            note_durable(boundaries[i].op);
            break;
        }
    }
    if (below(3) != 0) {
        struct pollfd poller = {.fd = store_wake_fd(rig.store), .events = POLLIN};
        poll(&poller, 1, 1);
    }
}

static void work(void) {
    for (int i = 0; i < TICKS; i++) {
        uint64_t ops = below(8) == 0 ? below(40) : below(6);
        for (uint64_t n = 0; n < ops && store_room(rig.store); n++) {
            do_op(last.op + 1);
        }
        add_boundary();
        tick();
        rig_pass(&rig, (int64_t)(below(25) == 0 ? 6 * NS_PER_SECOND : 3 * NS_PER_MS));
    }
}

/* Records a store's life in the directory: opened as it lies there, worked with, sometimes closed in order. */
static void record(const char *directory) {
    sync_interval_ns = below(4) == 0 ? 20 * NS_PER_MS : 0;
    powercut_record(directory);
    CHECK_EQ_I64(STATUS_OK, open_at(directory));
    (void)open_streams();
    last = (boundary_t){.op = op_count()};
    boundary_count = 0;
    add_boundary();
    work();
    if (below(2) == 0) {
        store_close(rig.store);
        powercut_stop();
    } else {
        rig_sync(&rig);
        note_durable(last.op);
        while (below(2) == 0) {
            rig_pass(&rig, 6 * NS_PER_SECOND);
            rig_sync(&rig);
        }
        pthread_mutex_lock(&powercut.lock); /* what closing does is not part of it: the cut was before */
        powercut.on = false;
        pthread_mutex_unlock(&powercut.lock);
        store_close(rig.store);
    }
}

/* ---- after the cut ----------------------------------------------------------------------------------------------- */

static const boundary_t *boundary_at(uint64_t op) {
    for (uint32_t i = boundary_count; i-- > 0;) {
        if (boundaries[i].op == op) {
            return &boundaries[i];
        }
    }
    FAIL("the disk ends with op %llu, which ends no batch", (unsigned long long)op);
}

static void check_bounds(uint64_t cut, uint64_t op) {
    uint64_t durable = boundaries[0].op;
    uint64_t handed = boundaries[0].op;
    for (uint64_t i = 0; i < cut; i++) {
        const powercut_note_t *note = &powercut.notes[i];
        durable = note->kind == MARK_DURABLE ? note->offset : durable;
        handed = note->kind == MARK_HANDED ? note->offset : handed;
    }
    if (op < durable || op > handed) {
        FAIL("op %llu is on disk; up to %llu was said to be durable, %llu handed over", (unsigned long long)op,
             (unsigned long long)durable, (unsigned long long)handed);
    }
}

static void check_id(const boundary_t *boundary) {
    char id[32];
    snprintf(id, sizeof id, "id-%llu", (unsigned long long)boundary->id_op);
    append_t again = {.subject = text("s.1"), .msg_id = text(id)};
    appended_t done = store_append(streams[0], &again, rig.now);
    CHECK_EQ_U64(APPEND_DUPLICATE, done.verdict);
    CHECK_EQ_U64(boundary->id_seq, done.seq);
}

static void check_goes_on(void) {
    stream_state_t state;
    store_stream_state(streams[0], &state);
    CHECK_EQ_U64(state.last_seq + 1, rig_put(&rig, streams[0], "s.on", "on").seq);
    rig_sync(&rig);
    picture_t before[STREAMS];
    take_pictures(before);
    ledger_picture_t ledger_before = take_ledger();
    rig_reopen(&rig);
    ledger_picture_t loaded = open_streams();
    check_pictures(before);
    check_ledger(&ledger_before, &loaded);
}

static void check_image(uint64_t cut, const char *directory, bool thorough) {
    CHECK_EQ_I64(STATUS_OK, open_at(directory));
    ledger_picture_t loaded = open_streams();
    uint64_t op = op_count();
    check_bounds(cut, op);
    const boundary_t *boundary = boundary_at(op);
    check_pictures(boundary->pictures);
    check_ledger(&boundary->ledger, &loaded);
    store_alarm_t alarm;
    while (store_alarm_next(rig.store, &alarm)) {
        CHECK(strstr(alarm.text, "last write") != NULL); /* a torn one is named, and nothing is taken for damage */
    }
    plane_stats_t stats = {0};
    store_stats(rig.store, &stats);
    CHECK_EQ_U64(0, stats.corrupt_records);
    if (boundary->id_op != 0) {
        check_id(boundary);
    }
    if (thorough) {
        check_goes_on();
    }
    store_close(rig.store);
}

static uint64_t first_note(uint32_t kind) {
    uint64_t i = 0;
    while (i < powercut.count && powercut.notes[i].kind != kind) {
        i++;
    }
    return i;
}

/* Close to a mark or a sync, where things change, or anywhere. */
static uint64_t choose_cut(void) {
    uint64_t cut = below(powercut.count + 1);
    for (uint64_t tries = below(2) * 200; tries > 0 && cut > 0; tries--, cut--) {
        uint32_t kind = powercut.notes[cut - 1].kind;
        if (kind == NOTE_SYNCED || kind == NOTE_DSYNCED || kind == MARK_DURABLE) {
            return cut - below(2);
        }
    }
    return cut;
}

static void make_image(const char *directory, uint64_t cut, powercut_plan_t plan) {
    rig_remove_directory(directory);
    CHECK(mkdir(directory, 0700) == 0);
    powercut_image(cut, plan, &chance, directory);
}

static void check_generation(unsigned generation, unsigned images) {
    char directory[96];
    bool fresh = generation % FRESH_EACH == 0;
    uint64_t made = first_note(MARK_HANDED) + 2;
    snprintf(directory, sizeof directory, "%s/image", image_root);
    for (unsigned i = 0; i < images; i++) {
        trial.generation = generation;
        trial.cut = fresh && i % 2 == 0 ? below(made) : choose_cut(); /* half of them while the store is being made */
        trial.plan = (powercut_plan_t)below(PLAN_COUNT);
        trial.chance = chance;
        make_image(directory, trial.cut, trial.plan);
        check_image(trial.cut, directory, i % 4 == 0);
    }
    rig_remove_directory(directory);
}

/* Makes the image that failed once more, untouched, for whoever looks into it. */
static void keep_failed(void) {
    char directory[96];
    snprintf(directory, sizeof directory, "%s/failed", image_root);
    chance = trial.chance;
    fprintf(stderr, "  generation %u, cut behind note %llu of %llu, plan %d; the image is in %s\n", trial.generation,
            (unsigned long long)trial.cut, (unsigned long long)powercut.count, (int)trial.plan, directory);
    make_image(directory, trial.cut, trial.plan);
}

/* The next generation's beginning: an image of a cut behind the opening. */
static void choose_base(const char *directory) {
    uint64_t from = first_note(MARK_HANDED);
    uint64_t cut = from + below(powercut.count - from + 1);
    make_image(directory, cut, (powercut_plan_t)below(PLAN_COUNT));
}

static unsigned setting(const char *name, unsigned otherwise) {
    const char *text = getenv(name);
    return text != NULL ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

static void cut_anywhere(void) {
    unsigned images = setting("LEAFD_POWER_CUTS", 600);
    unsigned seed = setting("LEAFD_POWER_SEED", 1);
    char directory[96];
    chance.state = (seed + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);
    printf("        %u power cuts, seed %u\n", images, seed);
    snprintf(record_root, sizeof record_root, "/tmp/leafd-power-test.XXXXXX");
    CHECK(mkdtemp(record_root) != NULL);
    /* Images need no disk. The recording stays on one, so that O_DIRECT is taken where it is to be had. */
    snprintf(image_root, sizeof image_root, "/dev/shm/leafd-power-test.XXXXXX");
    if (mkdtemp(image_root) == NULL) {
        snprintf(image_root, sizeof image_root, "/tmp/leafd-power-image.XXXXXX");
        CHECK(mkdtemp(image_root) != NULL);
    }
    snprintf(directory, sizeof directory, "%s/store", record_root);
    for (unsigned done = 0, generation = 0; done < images; done += IMAGES_A_GENERATION, generation++) {
        if (generation % FRESH_EACH == 0) {
            rig_remove_directory(directory);
            CHECK(mkdir(directory, 0700) == 0);
        }
        record(directory);
        check_generation(generation, images - done < IMAGES_A_GENERATION ? images - done : IMAGES_A_GENERATION);
        choose_base(directory);
    }
    powercut_forget();
    free(powercut.notes);
    rig_remove_directory(directory);
    rmdir(record_root);
    rmdir(image_root);
}

int main(void) {
    RUN("after a power cut all that was durable is there, each batch whole or not at all, and the store goes on",
        cut_anywhere);
    if (test_failed_count > 0 && setjmp(test_escape) == 0) {
        keep_failed();
    }
    return TEST_RESULT();
}
