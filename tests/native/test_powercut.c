/* test_powercut.c: the contract of powercut.h, held against real files: whatever the program wrote, an image of the
 * fake disk is a state that a real disk could have been left in, and has everything that was synced.
 *
 * Beside each op the real files are read. A sector of an image of the cut behind op k must then be as that sector was
 * behind some op from its last sync up to k: of no other time, and never older than the sync.
 */
#include "powercut.h"

#define OPS 48
#define ROUNDS 6
#define FILE_MAX (UINT64_C(96) << 10)
#define SECTORS (FILE_MAX / POWERCUT_SECTOR)

typedef struct real {
    uint8_t bytes[FILE_MAX];
    uint64_t size;
} real_t;

static real_t real[POWERCUT_FILES][OPS + 1]; /* behind each op; 0: at the beginning */
static uint64_t notes[OPS + 1];
static unsigned synced[POWERCUT_FILES][OPS + 1][SECTORS]; /* the op that the sector is no older than */
static unsigned size_synced[POWERCUT_FILES][OPS + 1];
static char directory[64];
static char image[64];
static int plain[POWERCUT_FILES];
static int durable[POWERCUT_FILES]; /* O_DSYNC, as LMDB writes its metas */
static powercut_chance_t chance;

static uint64_t below(uint64_t n) {
    return powercut_next(&chance) % n;
}

static void read_file(const char *from, int file, real_t *to) {
    uint64_t size = 0;
    uint8_t *bytes = powercut_load(from, file, &size);
    CHECK(size <= FILE_MAX);
    memset(to, 0, sizeof *to);
    to->size = size;
    if (bytes != NULL) {
        memcpy(to->bytes, bytes, size);
    }
    free(bytes);
}

static void promise_all(int file, unsigned op) {
    for (unsigned sector = 0; sector < SECTORS; sector++) {
        synced[file][op][sector] = op;
    }
    size_synced[file][op] = op;
}

static void write_one(int file, unsigned op) {
    static uint8_t bytes[8192];
    static uint8_t more[4096];
    uint64_t size = 1 + below(sizeof bytes);
    uint64_t at = below(FILE_MAX - sizeof bytes - sizeof more);
    memset(bytes, (int)(1 + op), sizeof bytes);
    memset(more, (int)(128 + op), sizeof more);
    bool dsync = below(4) == 0;
    int fd = dsync ? durable[file] : plain[file];
    if (below(2) == 0) {
        CHECK_EQ_I64((int64_t)size, pwrite(fd, bytes, size, (off_t)at));
    } else {
        struct iovec parts[2] = {{.iov_base = bytes, .iov_len = size},
                                 {.iov_base = more, .iov_len = 1 + below(sizeof more)}};
        CHECK_EQ_I64((int64_t)at, lseek(fd, (off_t)at, SEEK_SET));
        size += parts[1].iov_len;
        CHECK_EQ_I64((int64_t)size, writev(fd, parts, 2));
    }
    for (uint64_t sector = at / POWERCUT_SECTOR; dsync && sector <= (at + size - 1) / POWERCUT_SECTOR; sector++) {
        synced[file][op][sector] = op;
    }
    if (dsync && at + size >= real[file][op - 1].size) {
        size_synced[file][op] = op;
    }
}

static void do_one(unsigned op) {
    int file = (int)below(POWERCUT_FILES);
    for (int each = 0; each < POWERCUT_FILES; each++) {
        memcpy(synced[each][op], synced[each][op - 1], sizeof synced[each][op]);
        size_synced[each][op] = size_synced[each][op - 1];
    }
    uint64_t kind = below(10);
    if (kind < 7) {
        write_one(file, op);
    } else if (kind < 9) {
        CHECK_EQ_I64(0, kind == 7 ? fdatasync(plain[file]) : fsync(plain[file]));
        promise_all(file, op);
    } else {
        CHECK_EQ_I64(0, posix_fallocate(plain[file], 0, (off_t)below(FILE_MAX)));
    }
    notes[op] = powercut.count;
    for (int each = 0; each < POWERCUT_FILES; each++) {
        read_file(directory, each, &real[each][op]);
    }
}

static bool same(int file, unsigned op, unsigned sector, const real_t *found) {
    return memcmp(real[file][op].bytes + sector * POWERCUT_SECTOR, found->bytes + sector * POWERCUT_SECTOR,
                  POWERCUT_SECTOR)
           == 0;
}

static void check_image(unsigned op, powercut_plan_t plan, int file) {
    static real_t found;
    read_file(image, file, &found);
    CHECK(found.size <= real[file][op].size);
    CHECK(found.size >= real[file][size_synced[file][op]].size);
    CHECK(plan != PLAN_ALL || found.size == real[file][op].size);
    for (unsigned sector = 0; sector < found.size / POWERCUT_SECTOR; sector++) {
        unsigned oldest = synced[file][op][sector];
        unsigned newest = plan == PLAN_NONE ? oldest : op;
        unsigned as = plan == PLAN_ALL ? op : oldest;
        while (as < newest && !same(file, as, sector, &found)) {
            as++;
        }
        if (!same(file, as, sector, &found)) {
            FAIL("op %u, plan %d, file %d, sector %u: as at no time since op %u", op, (int)plan, file, sector, oldest);
        }
    }
}

static void begin(uint64_t seed) {
    char path[128];
    chance.state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    snprintf(directory, sizeof directory, "/tmp/leafd-powercut.XXXXXX");
    snprintf(image, sizeof image, "/tmp/leafd-powercut.XXXXXX");
    CHECK(mkdtemp(directory) != NULL && mkdtemp(image) != NULL);
    for (int file = 0; file < POWERCUT_FILES; file++) {
        snprintf(path, sizeof path, "%s/%s", directory, powercut_names[file]);
        plain[file] = open(path, O_RDWR | O_CREAT, 0600);
        durable[file] = open(path, O_RDWR | O_DSYNC);
        CHECK(plain[file] >= 0 && durable[file] >= 0);
        CHECK_EQ_I64(5, pwrite(plain[file], "begin", 5, 3000)); /* before the recording: durable */
        memset(synced[file][0], 0, sizeof synced[file][0]);
        size_synced[file][0] = 0;
        read_file(directory, file, &real[file][0]);
    }
    powercut_record(directory);
}

static void end(void) {
    char path[128];
    for (int file = 0; file < POWERCUT_FILES; file++) {
        close(plain[file]);
        close(durable[file]);
        snprintf(path, sizeof path, "%s/%s", directory, powercut_names[file]);
        unlink(path);
        snprintf(path, sizeof path, "%s/%s", image, powercut_names[file]);
        unlink(path);
    }
    rmdir(directory);
    rmdir(image);
}

static void images(void) {
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        begin(seed);
        for (unsigned op = 1; op <= OPS; op++) {
            do_one(op);
        }
        powercut_stop(); /* proves that the notes tell all that is in the real files */
        for (unsigned op = 1; op <= OPS; op++) {
            for (int plan = 0; plan < PLAN_COUNT; plan++) {
                powercut_image(notes[op], (powercut_plan_t)plan, &chance, image);
                for (int file = 0; file < POWERCUT_FILES; file++) {
                    check_image(op, (powercut_plan_t)plan, file);
                }
            }
        }
        end();
    }
}

/* The checks above would hold for a disk that never loses anything, too. */
static void images_differ(void) {
    static real_t found;
    unsigned lost = 0;
    unsigned kept = 0;
    begin(99);
    for (unsigned op = 1; op <= OPS; op++) {
        do_one(op);
    }
    powercut_stop();
    for (unsigned op = 1; op <= OPS; op++) {
        powercut_image(notes[op], PLAN_SECTORS, &chance, image);
        read_file(image, 0, &found);
        for (unsigned sector = 0; sector < found.size / POWERCUT_SECTOR; sector++) {
            bool newest = same(0, op, sector, &found);
            lost += !newest;
            kept += newest && !same(0, synced[0][op][sector], sector, &found);
        }
    }
    CHECK(lost > 0);
    CHECK(kept > 0);
    end();
}

int main(void) {
    RUN("each sector of an image is as the real file had it at some time since its last sync", images);
    RUN("what was not synced is lost in some images and kept in others", images_differ);
    return TEST_RESULT();
}
