/* test_store_pages.c: data.mdb is damaged in its pages. What must hold: an end of the process leaves a word, no start after it ends the same way,
 * and what is not served is alarmed or refused with what to do.
 */
#include <signal.h>
#include <sys/wait.h>

#include "store/pages.h"
#include "store_rig.h"

#define MESSAGES 3000
#define PAGE 4096

static rig_t rig;
static char reason[512];

static void path_of(const char *name, char path[160]) {
    snprintf(path, 160, "%s/%s", rig.directory, name);
}

/* Some large, some removed, in two streams; checkpointed, and killed. */
static void begin(void) {
    static char large[9000];
    memset(large, 'x', sizeof large - 1);
    rig = (rig_t){.options = {.journal_size = 8 << 20}};
    rig_open(&rig);
    for (uint32_t id = 1; id <= 2; id++) {
        store_stream_t *stream = rig_stream(&rig, id, rig_config());
        for (int i = 0; i < MESSAGES; i++) {
            char subject[32];
            snprintf(subject, sizeof subject, "pages.%d.%d", (int)id, i);
            CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, subject, i % 50 == 0 ? large : "payload").verdict);
            if (i % 500 == 0) {
                rig_sync(&rig);
            }
        }
        rig_checkpoint(&rig);
    }
    rig_kill(&rig);
}

static void end(void) {
    if (rig.store != NULL) {
        rig_close(&rig);
    } else {
        rig_remove_directory(rig.directory);
        rmdir(rig.root);
    }
}

static status_t start(void) {
    rig.options.directory = rig.directory;
    return store_open(&rig.options, &rig.store, reason, sizeof reason);
}

static void zero_page(unsigned number, uint8_t kept[PAGE]) {
    static const uint8_t zeros[PAGE];
    char path[160];
    path_of("data.mdb", path);
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    CHECK_EQ_I64(PAGE, pread(fd, kept, PAGE, (off_t)number * PAGE));
    CHECK_EQ_I64(PAGE, pwrite(fd, zeros, PAGE, (off_t)number * PAGE));
    close(fd);
}

static void put_page(unsigned number, const uint8_t page[PAGE]) {
    char path[160];
    path_of("data.mdb", path);
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    CHECK_EQ_I64(PAGE, pwrite(fd, page, PAGE, (off_t)number * PAGE));
    close(fd);
}

static unsigned pages_of_file(void) {
    char path[160];
    struct stat file;
    path_of("data.mdb", path);
    CHECK_EQ_I64(0, stat(path, &file));
    return (unsigned)(file.st_size / PAGE);
}

/* The first page behind the metas whose loss is seen. */
static unsigned first_needed(void) {
    char path[160];
    uint8_t kept[PAGE];
    path_of("data.mdb", path);
    for (unsigned page = 2; page < pages_of_file(); page++) {
        zero_page(page, kept);
        bool needed = pages_check(path, reason, sizeof reason) == STATUS_CORRUPT;
        put_page(page, kept);
        if (needed) {
            return page;
        }
    }
    FAIL("no page is needed");
    return 0;
}

static void put_file(const char *name) {
    char path[160];
    path_of(name, path);
    close(open(path, O_WRONLY | O_CREAT, 0600));
}

static void check_there(const char *name, bool expected) {
    char path[160];
    path_of(name, path);
    CHECK_EQ_I64(expected, access(path, F_OK) == 0);
}

static void check_alarmed(const char *word) {
    store_alarm_t alarm;
    bool found = false;
    while (store_alarm_next(rig.store, &alarm)) {
        found |= strstr(alarm.text, word) != NULL;
    }
    CHECK(found);
}

static void test_check(void) {
    char path[160];
    uint8_t kept[PAGE];
    unsigned seen = 0;
    begin();
    path_of("data.mdb", path);
    if (pages_check(path, reason, sizeof reason) != STATUS_OK) {
        FAIL("%s", reason);
    }
    unsigned count = pages_of_file();
    for (unsigned page = 0; page < count; page++) {
        zero_page(page, kept);
        seen += pages_check(path, reason, sizeof reason) == STATUS_CORRUPT;
        put_page(page, kept);
    }
    CHECK(seen > count / 3); /* others are free, or the inside of a large value */
    end();
}

static void test_cut_off(void) {
    char path[160];
    begin();
    path_of("data.mdb", path);
    CHECK_EQ_I64(0, truncate(path, (off_t)pages_of_file() / 2 * PAGE));
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_I64(STATUS_CORRUPT, start());
        CHECK(rig.store == NULL && strstr(reason, "accept-loss") != NULL && strstr(reason, "page") != NULL);
    }
    put_file("accept-loss");
    CHECK_EQ_I64(STATUS_OK, start());
    check_alarmed("data.mdb.damaged");
    check_there("accept-loss", false);
    check_there("data.mdb.damaged", true);
    end();
}

static void test_alarmed(void) {
    uint8_t kept[PAGE];
    begin();
    unsigned page = first_needed();
    zero_page(page, kept);
    pid_t child = fork(); /* what LMDB makes of it is not ours to say */
    if (child == 0) {
        status_t status = start();
        store_alarm_t alarm;
        _exit(status != STATUS_OK ? 1 : store_alarm_next(rig.store, &alarm) ? 0 : 2);
    }
    int how;
    CHECK_EQ_I64(child, waitpid(child, &how, 0));
    CHECK(!WIFEXITED(how) || WEXITSTATUS(how) != 2);
    end();
}

static void test_mark(void) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT};
    uint8_t kept[PAGE];
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        begin();
        pid_t child = fork();
        if (child == 0) {
            (void)freopen("/dev/null", "w", stderr);
            (void)signal(signals[i], SIG_DFL); /* not a sanitizer's */
            if (start() != STATUS_OK) {
                _exit(1);
            }
            (void)raise(signals[i]);
            (void)raise(signals[i]);
            _exit(2);
        }
        int how;
        CHECK_EQ_I64(child, waitpid(child, &how, 0));
        CHECK(WIFSIGNALED(how) && WTERMSIG(how) == signals[i]);
        check_there("data.mdb.suspect", true);
        unsigned page = first_needed();
        zero_page(page, kept);
        CHECK_EQ_I64(STATUS_CORRUPT, start());
        CHECK(strstr(reason, "data.mdb") != NULL && strstr(reason, "accept-loss") != NULL);
        put_page(page, kept);
        CHECK_EQ_I64(STATUS_OK, start());
        check_there("data.mdb.suspect", false);
        end();
    }
}

int main(void) {
    RUN("every page of a sound store is found sound, and the loss of a page in use is seen", test_check);
    RUN("a data.mdb that was cut off is refused with what to do; an accepted loss begins an empty store beside what is kept", test_cut_off);
    RUN("a damaged page is alarmed by the start", test_alarmed);
    RUN("a process that ends by a signal leaves a mark: the next start is refused where data.mdb is damaged, and goes on where it is sound",
        test_mark);
    return TEST_RESULT();
}
