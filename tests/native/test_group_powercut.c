/* test_group_powercut.c: a group of one after power cuts, at any write and in any state that a disk may be left in.
 *
 *     what was answered before the cut is there, once and in its order; behind it at most what was proposed by then
 *     the group leads again and goes on; what a crash leaves of an entry is done again or was never there
 *
 * The next generation mostly begins from one of the images.
 *
 *     LEAFD_POWER_CUTS=20000 LEAFD_POWER_SEED=7 build/dev/tests/native/test_group_powercut
 */
#include "group_rig.h"
#include "powercut.h"
#include "unreserved.h"

#define IMAGES_A_GENERATION 25
#define FRESH_EACH 4
#define TICKS 60

typedef enum mark { MARK_PROPOSED = NOTE_MARK, MARK_ANSWERED } mark_t;

static powercut_chance_t chance;
static char record_root[64];
static char image_root[64];
static uint64_t proposed;

static uint64_t below(uint64_t n) {
    return powercut_next(&chance) % n;
}

static void note_answer(void *context, uint64_t token, bool is_applied) {
    (void)context;
    CHECK(is_applied);
    powercut_note(MARK_ANSWERED, token);
}

static void open_at(const char *directory) {
    char reason[512];
    rig = (rig_t){.now = {.mono_ns = NS_PER_SECOND, .wall_ns = RIG_START}};
    snprintf(rig.directory, sizeof rig.directory, "%s", directory);
    rig.options = (store_options_t){.directory = rig.directory,
                                    .journal_size = 1 << 20,
                                    .max_bytes = 1 << 28,
                                    .changed_max = 128 << 10, /* checkpoints commit in between */
                                    .checkpoint_ns = 5 * NS_PER_SECOND,
                                    .ledgers = true};
    if (store_open(&rig.options, &rig.store, reason, sizeof reason) != STATUS_OK) {
        FAIL("store_open: %s", reason);
    }
    group_options_t with = options(5);
    with.hooks.answer = note_answer;
    stream = rig_stream(&rig, 1, rig_config());
    status_t status = group_open(&with, rig.now, &group);
    if (status == STATUS_OK && group == NULL) {
        status = group_make(&with, rig.now, &group);
    }
    CHECK_EQ_I64(STATUS_OK, status);
}

static bool all_applied(void) {
    return group_leads(group) && group_quiet(group);
}

static void work(void) {
    for (int i = 0; i < TICKS; i++) {
        for (uint64_t n = below(8) == 0 ? below(60) : below(5); n > 0 && group_leads(group); n--) {
            char bytes[32];
            int size = snprintf(bytes, sizeof bytes, "entry %llu", (unsigned long long)(proposed + 1));
            if (group_propose(group, bytes_of(bytes, (uint32_t)size), proposed + 1) != STATUS_OK) {
                break;
            }
            powercut_note(MARK_PROPOSED, ++proposed);
        }
        turn();
        rig_pass(&rig, (int64_t)(below(25) == 0 ? 6 * NS_PER_SECOND : 3 * NS_PER_MS));
    }
}

static void record(const char *directory) {
    powercut_record(directory);
    open_at(directory);
    turns_until(all_applied);
    proposed = rig_state(stream).messages;
    powercut_note(MARK_PROPOSED, proposed);
    powercut_note(MARK_ANSWERED, proposed);
    work();
    bool closes = below(2) == 0;
    if (!closes) {
        pthread_mutex_lock(&powercut.lock); /* what closing does is not part of it: the cut was before */
        powercut.on = false;
        pthread_mutex_unlock(&powercut.lock);
    }
    group_close(group);
    store_close(rig.store);
    if (closes) {
        powercut_stop();
    }
}

static void check_image(uint64_t cut, const char *directory) {
    uint64_t least = 0;
    uint64_t most = 0;
    for (uint64_t i = 0; i < cut; i++) {
        const powercut_note_t *note = &powercut.notes[i];
        least = note->kind == MARK_ANSWERED ? note->offset : least;
        most = note->kind == MARK_PROPOSED ? note->offset : most;
    }
    open_at(directory);
    turns_until(all_applied);
    uint64_t count = rig_state(stream).messages;
    if (count < least || count > most) {
        FAIL("%llu entries are there; %llu were answered, %llu proposed", (unsigned long long)count,
             (unsigned long long)least, (unsigned long long)most);
    }
    check_messages(count);
    group_close(group);
    store_close(rig.store);
}

static uint64_t first_answer(void) {
    uint64_t i = 0;
    while (i < powercut.count && powercut.notes[i].kind != MARK_ANSWERED) {
        i++;
    }
    return i;
}

static void make_image(const char *directory, uint64_t cut) {
    rig_remove_directory(directory);
    CHECK(mkdir(directory, 0700) == 0);
    powercut_image(cut, (powercut_plan_t)below(PLAN_COUNT), &chance, directory);
}

static void generations(void) {
    const char *cuts = getenv("LEAFD_POWER_CUTS");
    const char *seed = getenv("LEAFD_POWER_SEED");
    unsigned left = cuts != NULL ? (unsigned)strtoul(cuts, NULL, 10) : 150;
    char directory[96];
    char image[96];
    chance.state = seed != NULL ? strtoull(seed, NULL, 10) : 1;
    snprintf(record_root, sizeof record_root, "/dev/shm/leafd-group-cut.XXXXXX");
    snprintf(image_root, sizeof image_root, "/dev/shm/leafd-group-image.XXXXXX");
    CHECK(mkdtemp(record_root) != NULL);
    CHECK(mkdtemp(image_root) != NULL);
    snprintf(directory, sizeof directory, "%s/store", record_root);
    snprintf(image, sizeof image, "%s/image", image_root);
    for (unsigned generation = 0; left > 0; generation++) {
        bool fresh = generation % FRESH_EACH == 0;
        if (fresh) {
            rig_remove_directory(directory);
            CHECK(mkdir(directory, 0700) == 0);
        } else {
            make_image(directory, below(powercut.count + 1));
        }
        record(directory);
        for (unsigned i = 0; i < IMAGES_A_GENERATION && left > 0; i++, left--) {
            /* Before its first mark a store that was there before has what its earlier life left. */
            uint64_t begin = fresh ? 0 : first_answer() + 1;
            uint64_t cut = fresh && i % 5 == 0 ? below(first_answer() + 1) : begin + below(powercut.count + 1 - begin);
            make_image(image, cut);
            check_image(cut, image);
        }
    }
    rig_remove_directory(directory);
    rig_remove_directory(image);
    rmdir(record_root);
    rmdir(image_root);
}

int main(void) {
    RUN("after a power cut what was answered is there, once and in its order, and the group goes on", generations);
    return TEST_RESULT();
}
