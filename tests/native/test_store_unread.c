/* test_store_unread.c: the disk refuses pages of data.mdb, under a running store and at a start. What must hold: the
 * process lives, what lies on them is not known (and never "not there", or wrong), all else is served, it is told, and
 * what the disk gives again is served again.
 */
#include <signal.h>
#include <sys/wait.h>

#include "disk/unread.h"
#include "store_rig.h"
#include "unread_pages.h"

#define MESSAGES 260
#define LARGE 9000 /* bytes of every 20th message */

static rig_t rig;
static store_stream_t *stream;
static char large[LARGE + 1];

static const char *payload_of(uint64_t seq, char room[32]) {
    snprintf(room, 32, "payload %llu", (unsigned long long)seq);
    return seq % 20 == 0 ? large : room;
}

/* In LMDB, and out of memory. */
static void begin(void) {
    char room[32];
    unread_none();
    memset(large, 'x', LARGE);
    rig = (rig_t){.options = {.journal_size = 8 << 20}};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    for (uint64_t seq = 1; seq <= MESSAGES; seq++) {
        char subject[32];
        snprintf(subject, sizeof subject, "unread.%d", (int)seq % 90);
        CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, subject, payload_of(seq, room)).verdict);
    }
    rig_checkpoint(&rig);
}

static unsigned pages_of_file(void) {
    char path[RIG_PATH];
    struct stat file;
    rig_path(&rig, "data.mdb", path);
    CHECK_EQ_I64(0, stat(path, &file));
    return (unsigned)(file.st_size / UNREAD_PAGE);
}

static void refuse(unsigned first, unsigned count, bool stays) {
    char path[RIG_PATH];
    rig_path(&rig, "data.mdb", path);
    unread_pages(path, first, count, stays);
}

/* How many of the first messages are not known now; the others are as they were put. */
static unsigned unknown_of(uint64_t until) {
    unsigned unknown = 0;
    for (uint64_t seq = 1; seq <= until; seq++) {
        stored_message_t message;
        char room[32];
        entry_outcome_t status = store_read(stream, seq, &message);
        if (status != ENTRY_FOUND && status != ENTRY_UNKNOWN) {
            FAIL("message %llu: %s", (unsigned long long)seq, status_name(entry_status(status)));
        }
        unknown += status != ENTRY_FOUND;
        if (status == ENTRY_FOUND && !bytes_equal(message.payload, text(payload_of(seq, room)))) {
            FAIL("message %llu is another one", (unsigned long long)seq);
        }
    }
    return unknown;
}

/* The store asks the disk again each second. */
static void second(void) {
    rig_pass(&rig, NS_PER_SECOND);
    rig_sync(&rig);
}

static void each_page(void) {
    begin();
    unsigned met = 0;
    for (unsigned page = 0; page < pages_of_file(); page++) {
        refuse(page, 1, true);
        second();
        unsigned unknown = unknown_of(MESSAGES);
        met += unknown > 0;
        store_tick(rig.store, rig.now);
        CHECK(unknown == 0 || rig_alarmed(&rig, "the disk does not give it"));
        CHECK_EQ_U64(MESSAGES, rig_state(stream).messages);
        CHECK_EQ_U64(unknown, unknown_of(MESSAGES));
        unread_none();
        second();
        CHECK_EQ_U64(0, unknown_of(MESSAGES));
    }
    CHECK(met > 10);
    rig_close(&rig);
}

static void once(void) {
    begin();
    for (unsigned page = 2; page < pages_of_file(); page++) {
        refuse(page, 1, false);
        (void)unknown_of(MESSAGES);
        second();
        CHECK_EQ_U64(0, unknown_of(MESSAGES));
    }
    rig_close(&rig);
}

static void whole_disk(void) {
    begin();
    CHECK(pages_of_file() > UNREAD_PLACES + 2);
    refuse(2, pages_of_file(), true);
    second();
    CHECK_EQ_U64(MESSAGES, unknown_of(MESSAGES));
    unread_none();
    second();
    CHECK_EQ_U64(0, unknown_of(MESSAGES));
    rig_close(&rig);
}

static void one_more(uint64_t *last) {
    char room[32];
    appended_t got = rig_put(&rig, stream, "unread.1", payload_of(*last + 1, room));
    *last += got.verdict == APPEND_STORED;
    rig_sync(&rig);
}

/* The keeper tries again by itself. */
static void until_taken(uint64_t *last) {
    uint64_t before = *last;
    for (int64_t until = 0; *last == before && patient(&until);) {
        store_tick(rig.store, rig.now);
        one_more(last);
        usleep(1000);
    }
    CHECK_EQ_U64(before + 1, *last);
}

static void while_it_writes(void) {
    begin();
    unsigned pages = pages_of_file();
    uint64_t last = MESSAGES;
    for (unsigned page = 0; page < pages; page++) {
        refuse(page, 1, true);
        one_more(&last);
        rig_pass(&rig, 6 * NS_PER_SECOND); /* a checkpoint, which may not be possible now */
        rig_sync(&rig);
        usleep(2000);
        (void)unknown_of(last);
        unread_none();
        second();
        until_taken(&last);
        CHECK_EQ_U64(0, unknown_of(last));
        CHECK_EQ_U64(last, rig_state(stream).last_seq);
    }
    rig_reopen(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(0, unknown_of(last));
    rig_close(&rig);
}

/* The file of a store that was closed, to begin with anew. */
static uint8_t home[4 << 20];
static uint8_t journal[16 << 20];

static void each_page_at_a_start(void) {
    begin();
    store_close(rig.store);
    size_t size = rig_read_at(&rig, "data.mdb", home, sizeof home, 0);
    size_t rest = rig_read_at(&rig, "journal", journal, sizeof journal, 0);
    for (unsigned page = 0; page < size / UNREAD_PAGE; page++) {
        refuse(page, 1, true);
        rig_start(&rig);
        bool told = rig_alarmed(&rig, "cannot be read");
        CHECK_EQ_I64(told, rig_there(&rig, "data.mdb.damaged"));
        stream = rig_stream(&rig, 1, rig_config());
        unread_none(); /* of a file that was made anew these are other pages */
        second();
        unsigned there = 0;
        for (uint64_t seq = 1; seq <= MESSAGES; seq++) {
            stored_message_t message;
            char room[32];
            if (store_read(stream, seq, &message) == ENTRY_FOUND) {
                there++;
                CHECK(bytes_equal(message.payload, text(payload_of(seq, room))));
            }
        }
        CHECK(there == MESSAGES || told);
        CHECK(there > MESSAGES / 2);
        store_close(rig.store);
        rig.store = NULL;
        rig_remove_directory(rig.directory);
        CHECK_EQ_I64(0, mkdir(rig.directory, 0700));
        rig_write_at(&rig, "data.mdb", home, size, 0);
        rig_write_at(&rig, "journal", journal, rest, 0);
    }
    rig_close(&rig);
}

static void many_at_a_start(void) {
    char reason[RIG_REASON];
    begin();
    unsigned pages = pages_of_file();
    store_close(rig.store);
    refuse(2, pages, true);
    CHECK(rig_try(&rig, reason) != STATUS_OK);
    CHECK(!rig_there(&rig, "data.mdb.damaged"));
    unread_none();
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(0, unknown_of(MESSAGES));
    rig_close(&rig);
}

static void elsewhere(void) {
    begin();
    pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stderr) == NULL) {
            _exit(3);
        }
        volatile uint8_t *at = mmap(NULL, UNREAD_PAGE, PROT_READ, MAP_SHARED, memfd_create("nothing", 0), 0);
        _exit(at[0]);
    }
    int how;
    CHECK_EQ_I64(child, waitpid(child, &how, 0));
    CHECK(!WIFEXITED(how) || WEXITSTATUS(how) != 0); /* a sanitizer ends it otherwise */
    CHECK(rig_there(&rig, "data.mdb.suspect"));
    rig_close(&rig);
}

int main(void) {
    RUN("whichever page of data.mdb the disk refuses, the rest is served, and all of it when the disk gives it again",
        each_page);
    RUN("a page that was refused once is asked for again within a second", once);
    RUN("a disk that gives nothing more ends no process, and all is served when it is back", whole_disk);
    RUN("whichever page is refused while a checkpoint is made, nothing acknowledged is lost", while_it_writes);
    RUN("a start without one page says so, keeps the old file and serves the rest", each_page_at_a_start);
    RUN("a start without many pages is refused and changes nothing", many_at_a_start);
    RUN("a SIGBUS anywhere else ends the process, with a mark", elsewhere);
    return TEST_RESULT();
}
