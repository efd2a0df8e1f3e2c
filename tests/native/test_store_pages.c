/* test_store_pages.c: data.mdb is damaged in its pages. What must hold: a process that ends because of it leaves a
 * mark, no later start ends the same way, and what cannot be served is alarmed, or the start is refused and says what
 * to do.
 */
#include <signal.h>
#include <sys/wait.h>

#include "disk/page.h"
#include "recovery/pages.h"
#include "store/core.h"
#include "store_rig.h"

#define MESSAGES 3000
#define PAGE 4096
#define LEAF_PAGE 0x02 /* LMDB's flag, in the page's 11th byte */

static rig_t rig;
static char reason[RIG_REASON];

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

static void zero_page(unsigned number, uint8_t kept[PAGE]) {
    static const uint8_t zeros[PAGE];
    CHECK_EQ_U64(PAGE, rig_read_at(&rig, "data.mdb", kept, PAGE, (off_t)number * PAGE));
    rig_write_at(&rig, "data.mdb", zeros, PAGE, (off_t)number * PAGE);
}

static void put_page(unsigned number, const uint8_t page[PAGE]) {
    rig_write_at(&rig, "data.mdb", page, PAGE, (off_t)number * PAGE);
}

static unsigned pages_of_file(void) {
    char path[RIG_PATH];
    struct stat file;
    rig_path(&rig, "data.mdb", path);
    CHECK_EQ_I64(0, stat(path, &file));
    return (unsigned)(file.st_size / PAGE);
}

/* The first page behind the metas whose loss is seen. */
static unsigned first_needed(void) {
    char path[RIG_PATH];
    uint8_t kept[PAGE];
    rig_path(&rig, "data.mdb", path);
    for (unsigned page = 2; page < pages_of_file(); page++) {
        zero_page(page, kept);
        bool needed = pages_check(path, true, reason, sizeof reason) == STATUS_CORRUPT;
        put_page(page, kept);
        if (needed) {
            return page;
        }
    }
    FAIL("no page is needed");
    return 0;
}

static void test_check(void) {
    char path[RIG_PATH];
    uint8_t kept[PAGE];
    unsigned seen = 0;
    begin();
    rig_path(&rig, "data.mdb", path);
    if (pages_check(path, true, reason, sizeof reason) != STATUS_OK) {
        FAIL("%s", reason);
    }
    unsigned count = pages_of_file();
    for (unsigned page = 0; page < count; page++) {
        zero_page(page, kept);
        seen += pages_check(path, true, reason, sizeof reason) == STATUS_CORRUPT;
        if (page == 0) {
            CHECK_TEXT("page 0: the first page is none of LMDB's", reason, strlen(reason));
        }
        put_page(page, kept);
    }
    CHECK(seen > count / 3); /* others are free, or the inside of a large value */
    rig_close(&rig);
}

static void test_cut_off(void) {
    begin();
    rig_truncate(&rig, "data.mdb", (off_t)pages_of_file() / 2 * PAGE);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_I64(STATUS_CORRUPT, rig_try(&rig, reason));
        CHECK(rig.store == NULL && strstr(reason, "accept-loss") != NULL && strstr(reason, "page") != NULL);
    }
    rig_write_at(&rig, "accept-loss", "", 0, 0);
    CHECK_EQ_I64(STATUS_OK, rig_try(&rig, reason));
    CHECK(rig_alarmed(&rig, "data.mdb.damaged"));
    CHECK(!rig_there(&rig, "accept-loss"));
    CHECK(rig_there(&rig, "data.mdb.damaged"));
    rig_close(&rig);
}

static void test_alarmed(void) {
    uint8_t kept[PAGE];
    begin();
    unsigned page = first_needed();
    zero_page(page, kept);
    CHECK_EQ_I64(STATUS_OK, rig_try(&rig, reason));
    CHECK(rig_alarmed(&rig, "data.mdb was damaged"));
    rig_close(&rig);
}

static void test_mark(void) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT};
    uint8_t kept[PAGE];
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        begin();
        pid_t child = fork();
        if (child == 0) {
            if (freopen("/dev/null", "w", stderr) == NULL) {
                _exit(3);
            }
            (void)signal(signals[i], SIG_DFL); /* not a sanitizer's */
            if (rig_try(&rig, reason) != STATUS_OK) {
                _exit(1);
            }
            (void)raise(signals[i]);
            (void)raise(signals[i]);
            _exit(2);
        }
        int how;
        CHECK_EQ_I64(child, waitpid(child, &how, 0));
        CHECK(WIFSIGNALED(how) && WTERMSIG(how) == signals[i]);
        CHECK(rig_there(&rig, "data.mdb.suspect"));
        unsigned page = first_needed();
        zero_page(page, kept);
        CHECK_EQ_I64(STATUS_OK, rig_try(&rig, reason));
        CHECK(rig_alarmed(&rig, "made anew"));
        CHECK(rig_there(&rig, "data.mdb.damaged"));
        CHECK(!rig_there(&rig, "data.mdb.suspect"));
        rig_close(&rig);
    }
}

/* LMDB's pages begin with a number that is a word: the magic number of the first one lies 12 or 16 bytes on. */
/* The page of that stream's message in the middle; its content is gone. */
static uint64_t lose_page_of(store_stream_t *stream) {
    static uint8_t file[4 << 20];
    char subject[32];
    size_t size = rig_read_at(&rig, "data.mdb", file, sizeof file, 0);
    int word = snprintf(subject, sizeof subject, "pages.1.%d", MESSAGES / 2 + 1);
    const uint8_t *at = memmem(file, size, subject, (size_t)word);
    stored_message_t message;
    CHECK(at != NULL && size < sizeof file);
    for (; at != NULL; at = memmem(at + 1, size - (size_t)(at + 1 - file), subject, (size_t)word)) {
        uint8_t kept[PAGE];
        zero_page((unsigned)((size_t)(at - file) / PAGE), kept); /* messages, and heads of subjects */
    }
    rig_pass(&rig, 2 * NS_PER_SECOND);
    store_tick(rig.store, rig.now); /* what was judged before is judged again */
    CHECK(store_read(stream, MESSAGES / 2 + 2, &message) != ENTRY_FOUND);
    return MESSAGES / 2 + 2;
}

/* The branch above it, too: neither is made anew while the store runs. */
static void lose_branches_of(uint32_t stream) {
    unsigned pages = pages_of_file();
    for (unsigned number = 2; number < pages; number++) {
        uint8_t page[PAGE], kept[PAGE];
        CHECK_EQ_U64(PAGE, rig_read_at(&rig, "data.mdb", page, PAGE, (off_t)number * PAGE));
        bool branch = page_word(page) == number && page_kind(page) == PAGE_BRANCH && page_nodes(page) > 1;
        const uint8_t *node = branch ? page_node(page, PAGE, 1, false) : NULL;
        if (node != NULL && page_node_key(node).size == 12 && load_be32(page_node_key(node).at) == stream) {
            zero_page(number, kept);
        }
    }
}

/* As a consumer does that stands before it: for so long, so often. */
static void wait_for(store_stream_t *stream, uint64_t seq, int64_t seconds, int64_t pause_ns) {
    for (int64_t passed = 0; passed < seconds * NS_PER_SECOND; passed += pause_ns) {
        stored_message_t message;
        CHECK(store_read(stream, seq, &message) != ENTRY_FOUND);
        store_note_waiting(rig.store);
        rig_pass(&rig, pause_ns);
        store_tick(rig.store, rig.now);
    }
}

static const char *const waits = "consumers wait for messages on a damaged page";

static void test_waited_for(void) {
    begin();
    rig_start(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    lose_branches_of(1);
    uint64_t seq = lose_page_of(stream);
    wait_for(stream, seq, 9, NS_PER_SECOND / 10);
    CHECK(!rig_alarmed(&rig, waits));
    rig_pass(&rig, 10 * NS_PER_SECOND); /* nobody does */
    wait_for(stream, seq, 60, 3 * NS_PER_SECOND);
    CHECK(!rig_alarmed(&rig, waits)); /* somebody asks for it now and then */
    wait_for(stream, seq, 12, NS_PER_SECOND / 10);
    CHECK(rig_alarmed(&rig, waits));
    wait_for(stream, seq, 600, NS_PER_SECOND / 2);
    CHECK(!rig_alarmed(&rig, waits)); /* where the start does not help, all else is served in peace */
    rig_kill(&rig);
    rig_start(&rig);
    CHECK(rig_alarmed(&rig, "was damaged"));
    stored_message_t message;
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_I64(ENTRY_NONE, store_read(stream, seq, &message));
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, MESSAGES, &message));
    rig_close(&rig);
}

/* More pages than a start mends by itself. */
static void test_asked_for_by_itself(void) {
    uint8_t kept[PAGE];
    char mark[16];
    begin();
    unsigned lost = 0;
    for (unsigned page = 2; page < pages_of_file() && lost < 80; page++) {
        zero_page(page, kept);
        /* None above it, which would hide those below. */
        bool leaf = (kept[10] & LEAF_PAGE) != 0 && memmem(kept, PAGE, "payload", 7) != NULL;
        lost += leaf;
        if (!leaf) {
            put_page(page, kept);
        }
    }
    CHECK_EQ_U64(80, lost);
    rig_write_at(&rig, "data.mdb.suspect", STORE_SUSPECT_AGAIN, sizeof STORE_SUSPECT_AGAIN - 1, 0);
    CHECK_EQ_I64(STATUS_OK, rig_try(&rig, reason));
    CHECK(rig_alarmed(&rig, "more than a start mends by itself: what can be read is served"));
    CHECK(rig_there(&rig, "data.mdb.suspect"));
    CHECK_EQ_U64(0, rig_read_at(&rig, "data.mdb.suspect", mark, sizeof mark, 0));
    rig_kill(&rig);
    CHECK_EQ_I64(STATUS_CORRUPT, rig_try(&rig, reason));
    CHECK(strstr(reason, "accept-loss") != NULL);
    rig_close(&rig);
}

static void test_other_words(void) {
    uint8_t page[PAGE] = {0}, after[PAGE];
    char path[RIG_PATH];
    bool small = sizeof(size_t) == 4;
    begin();
    CHECK_EQ_U64(PAGE, rig_read_at(&rig, "data.mdb", after, PAGE, 0));
    memcpy(page + (small ? 16 : 12), after + (small ? 12 : 16), 8); /* magic number and version */
    put_page(0, page);
    rig_path(&rig, "data.mdb", path);
    CHECK_EQ_U64(small ? 64 : 32, pages_of_others(path));
    CHECK_EQ_I64(STATUS_CORRUPT, pages_check(path, true, reason, sizeof reason));
    CHECK(strstr(reason, "words of another size") != NULL);
    for (uint32_t accepted = 0; accepted < 2; accepted++) {
        rig_refused(&rig, small ? "64 bits" : "32 bits");
        CHECK_EQ_U64(PAGE, rig_read_at(&rig, "data.mdb", after, PAGE, 0));
        CHECK_BYTES(page, PAGE, after, PAGE);
        rig_write_at(&rig, "accept-loss", "", 0, 0);
    }
    rig_close(&rig);
}

/* ---- while it writes --------------------------------------------------------------------------------------------- */

#define STREAMS 150 /* their records take several pages */

static uint8_t home[4 << 20];
static uint8_t journal[16 << 20];

static void streams_open(store_stream_t *streams[STREAMS]) {
    for (uint32_t i = 0; i < STREAMS; i++) {
        streams[i] = rig_stream(&rig, i + 1, rig_config());
    }
}

/* taken: how many each has acknowledged; what cannot be judged for a damaged page is refused. */
static void one_for_each(store_stream_t *streams[STREAMS], uint64_t taken[STREAMS]) {
    for (uint32_t i = 0; i < STREAMS; i++) {
        taken[i] += rig_put(&rig, streams[i], "pages.a", "payload").verdict == APPEND_STORED;
    }
    rig_sync(&rig);
}

/* A page that says that more of it is used than there is: LMDB asserts that no such one is. */
static void overfill_page(unsigned number) {
    static const uint8_t lower_upper[4] = {0xf0, 0x0f, 0x20, 0x00};
    rig_write_at(&rig, "data.mdb", lower_upper, sizeof lower_upper, (off_t)number * PAGE + 12);
}

static void test_written_to(void) {
    store_stream_t *streams[STREAMS];
    uint64_t first[STREAMS] = {0};
    rig = (rig_t){.options = {.journal_size = 8 << 20}};
    rig_open(&rig);
    streams_open(streams);
    one_for_each(streams, first);
    rig_checkpoint(&rig);
    store_close(rig.store);
    size_t size = rig_read_at(&rig, "data.mdb", home, sizeof home, 0);
    size_t rest = rig_read_at(&rig, "journal", journal, sizeof journal, 0);
    unsigned stopped = 0;
    for (unsigned page = 2; page < size / PAGE; page += test_stride()) {
        rig_remove_directory(rig.directory);
        CHECK_EQ_I64(0, mkdir(rig.directory, 0700));
        rig_write_at(&rig, "data.mdb", home, size, 0);
        rig_write_at(&rig, "journal", journal, rest, 0);
        rig_start(&rig);
        streams_open(streams);
        uint64_t taken[STREAMS];
        memcpy(taken, first, sizeof taken);
        overfill_page(page);
        one_for_each(streams, taken);
        rig_pass(&rig, 6 * NS_PER_SECOND);
        rig_sync(&rig);
        store_close(rig.store); /* writes what it can */
        rig_start(&rig);
        stopped += rig_alarmed(&rig, "made anew");
        streams_open(streams);
        for (uint32_t i = 0; i < STREAMS; i++) {
            CHECK_EQ_U64(taken[i], rig_state(streams[i]).last_seq);
        }
        store_close(rig.store);
        rig.store = NULL;
    }
    CHECK(stopped * test_stride() > 10);
    rig_close(&rig);
}

static uint64_t many_for(store_stream_t *stream, unsigned count) {
    uint64_t taken = 0;
    for (unsigned i = 0; i < count; i++) {
        taken += rig_put(&rig, stream, "pages.a", "payload").verdict == APPEND_STORED;
    }
    rig_sync(&rig);
    return taken;
}

/* What was judged for one write transaction is judged again for the next: pages are damaged between two of them. */
static void test_written_to_again(void) {
    unsigned stopped = 0;
    unsigned pages = 3;
    for (unsigned page = 2; page < pages; page++) {
        rig = (rig_t){.options = {.journal_size = 8 << 20}};
        rig_open(&rig);
        store_stream_t *streams[2] = {rig_stream(&rig, 1, rig_config()), rig_stream(&rig, 2, rig_config())};
        uint64_t taken[2] = {0};
        for (unsigned round = 0; round < 3; round++) {
            for (unsigned i = 0; i < 2; i++) {
                taken[i] += many_for(streams[i], 100);
            }
            if (round < 2) {
                rig_checkpoint(&rig);
            }
        }
        pages = pages_of_file();
        overfill_page(page);
        rig_pass(&rig, 6 * NS_PER_SECOND);
        rig_sync(&rig);
        store_close(rig.store); /* writes what it can */
        rig_start(&rig);
        stopped += rig_alarmed(&rig, "made anew");
        for (uint32_t i = 0; i < 2; i++) {
            CHECK_EQ_U64(taken[i], rig_state(rig_stream(&rig, i + 1, rig_config())).last_seq);
        }
        rig_close(&rig);
    }
    CHECK(stopped > 2);
}

int main(void) {
    RUN("every page of a sound store is found sound, and the loss of a page in use is seen", test_check);
    RUN("a data.mdb that was cut off is refused with what to do; an accepted loss goes on with what can be read, "
        "beside "
        "what is kept",
        test_cut_off);
    RUN("a damaged page is alarmed by the start, which goes on without it", test_alarmed);
    RUN("a process that ends by a signal leaves a mark: the next start mends a damaged data.mdb, and removes the mark",
        test_mark);
    RUN("whichever page is damaged while the store runs, no write ends the process, and nothing acknowledged is lost",
        test_written_to);
    RUN("a page that is damaged between two writes stops the second one, though the first had judged it",
        test_written_to_again);
    RUN("consumers that wait for a damaged page for ten seconds have the store mended by a start, which is asked for "
        "once an hour at most",
        test_waited_for);
    RUN("a start that the process before it asks for is not refused for many damaged pages; that of somebody else is",
        test_asked_for_by_itself);
    RUN("a store of a machine with words of another size is refused in one line and stays as it is", test_other_words);
    return TEST_RESULT();
}
