/* test_store_look.c: a store is looked at as files. What must hold: a sound one has no finding; wherever a page is
 * destroyed nothing but that is lost, and the rest comes into a new store that agrees with itself; a commit that is
 * held does not change while the store goes on.
 */
#include <sys/wait.h>

#include "recovery/look.h"
#include "store_rig.h"
#include "unreserved.h"

#define MESSAGES 400
#define STREAMS 2
#define LOGGED 30 /* messages of each that no checkpoint has */
#define PAGE 4096
#define ROOM (1 << 20)

static rig_t rig;
static store_stream_t *streams[STREAMS];
static char reason[PLANE_REASON_SIZE];
static char findings[ROOM];
static store_facts_t facts;
static store_audit_t audit;

/* Two streams with large and removed messages among others; all in LMDB, the store is closed in order. */
static void begin(void) {
    static char large[9000];
    memset(large, 'x', sizeof large - 1);
    rig = (rig_t){.in_memory = true, .options = {.journal_size = 1 << 20}};
    rig_open(&rig);
    for (uint32_t id = 1; id <= STREAMS; id++) {
        store_stream_t *stream = streams[id - 1] = rig_stream(&rig, id, rig_config());
        for (int i = 1; i <= MESSAGES; i++) {
            char subject[32];
            snprintf(subject, sizeof subject, "look.%d", i % 50);
            CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, subject, i % 40 == 0 ? large : "payload").verdict);
            if (i % 10 == 0) {
                rig_sync(&rig);
            }
        }
        CHECK_EQ_I64(STATUS_OK, store_delete(stream, 7));
        CHECK_EQ_I64(STATUS_OK, store_delete(stream, 8));
        rig_checkpoint(&rig);
    }
}

static store_look_t *look_at(uint32_t used) {
    int32_t status;
    store_look_t *look = plane_look_open(rig.directory, NULL, used, &facts, reason, &status);
    if (look == NULL) {
        FAIL("%d: %s", (int)status, reason);
    }
    return look;
}

static void close_store(void) {
    store_close(rig.store);
    rig.store = NULL;
}

static void test_sound(void) {
    begin();
    close_store();
    store_look_t *look = look_at(0);
    CHECK_EQ_I64(STATUS_OK, plane_look_audit(look, &audit, findings, ROOM, reason));
    if (audit.damaged_pages != 0 || audit.damaged_entries != 0 || findings[0] != 0) {
        FAIL("%s", findings);
    }
    CHECK_EQ_U64(STREAMS * (MESSAGES - 2), audit.messages);
    CHECK(facts.closed == 1 && facts.noted == 1 && facts.sealed == 0);
    plane_look_close(look);
    rig_close(&rig);
}

/* Rows of plane_look_records that are states: messages of all streams. */
static uint64_t messages_said(store_look_t *look) {
    static uint8_t rows[1 << 16];
    int64_t size = plane_look_records(look, rows, sizeof rows, reason);
    uint64_t messages = 0;
    CHECK(size >= 0 && (uint64_t)size <= sizeof rows);
    for (int64_t at = 0; at < size;) {
        stored_stream_t row;
        uint32_t key = load_be32(rows + at + 4);
        uint32_t value = load_be32(rows + at + 8);
        if (load_be32(rows + at) == LOOK_STATE) {
            CHECK_EQ_U64(sizeof row, value);
            memcpy(&row, rows + at + 12 + key, sizeof row);
            messages += row.messages;
        }
        at += 12 + (int64_t)key + value;
    }
    return messages;
}

static void tell(int fd) {
    CHECK_EQ_I64(1, write(fd, "x", 1));
}

static void hear(int fd) {
    char byte;
    CHECK_EQ_I64(1, read(fd, &byte, 1));
}

/* Another process, as LMDB wants it: holds, says so, and looks again when it is told that all streams are gone. */
static void hold_and_look(int from, int to) {
    store_look_t *look = look_at(1);
    uint64_t commit = facts.commit;
    CHECK_EQ_U64(STREAMS * (MESSAGES - 2), messages_said(look));
    tell(to);
    hear(from);
    CHECK_EQ_U64(STREAMS * (MESSAGES - 2), messages_said(look));
    CHECK_EQ_I64(STATUS_OK, plane_look_audit(look, &audit, findings, ROOM, reason));
    CHECK(audit.messages == STREAMS * (MESSAGES - 2) && findings[0] == 0);
    CHECK_EQ_I64(STATUS_OK, plane_look_again(look, &facts, reason));
    CHECK(facts.commit > commit);
    CHECK_EQ_U64(0, messages_said(look));
    plane_look_close(look);
}

static void test_held(void) {
    int there[2];
    int back[2];
    int how;
    begin();
    CHECK(pipe(there) == 0 && pipe(back) == 0);
    pid_t child = fork();
    if (child == 0) {
        hold_and_look(there[0], back[1]);
        _exit(0);
    }
    hear(back[0]);
    for (uint32_t id = 1; id <= STREAMS; id++) {
        store_stream_t *stream = streams[id - 1];
        CHECK_EQ_I64(STATUS_OK, store_stream_remove(stream));
        rig_checkpoint(&rig);
    }
    tell(there[1]);
    CHECK_EQ_I64(child, waitpid(child, &how, 0));
    CHECK(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    rig_close(&rig);
}

/* What the new store says of a stream, against what can be read from it. Returns the messages. */
static uint64_t agrees(uint32_t id) {
    store_stream_t *stream = rig_stream(&rig, id, rig_config());
    stream_state_t state;
    uint64_t count = 0;
    store_stream_state(stream, &state);
    for (uint64_t seq = 1; seq <= state.last_seq; seq++) {
        stored_message_t message;
        entry_outcome_t status = store_read(stream, seq, &message);
        CHECK(status == ENTRY_FOUND || status == ENTRY_NONE);
        count += status == ENTRY_FOUND;
    }
    CHECK_EQ_U64(state.messages, count);
    CHECK_EQ_U64(count, store_count(stream, (filters_t){0}, 1));
    return count;
}

/* A new store of what can be read of this one, in place of it. */
static void rescue(void) {
    char to[96];
    store_look_t *look = look_at(0);
    snprintf(to, sizeof to, "%s/%u", rig.root, ++rig.generation);
    CHECK_EQ_I64(0, mkdir(to, 0700));
    status_t status = plane_look_rescue(look, to, 1, &audit, findings, ROOM, reason);
    if (status != STATUS_OK) {
        FAIL("%s", reason);
    }
    plane_look_close(look);
    rig_copy_file(rig.directory, to, "journal");
    rig_remove_directory(rig.directory);
    snprintf(rig.directory, sizeof rig.directory, "%s", to);
    rig_write_at(&rig, "accept-loss", "", 0, 0);
    status = plane_store_settle(to, NULL, 1, findings, ROOM, reason);
    if (status != STATUS_OK) {
        FAIL("%s", reason);
    }
}

/* What comes after the last checkpoint, and is in the journal alone: messages, and the removal of two that LMDB has. */
static uint64_t log_more(void) {
    for (uint32_t id = 1; id <= STREAMS; id++) {
        for (int i = 1; i <= LOGGED; i++) {
            CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, streams[id - 1], "look.1", "logged").verdict);
        }
        CHECK_EQ_I64(STATUS_OK, store_delete(streams[id - 1], 20));
        CHECK_EQ_I64(STATUS_OK, store_delete(streams[id - 1], 21));
    }
    rig_sync(&rig);
    return STREAMS * (LOGGED - 2);
}

/* One page in `step` is destroyed in turn. logged: power fails while the journal has what LMDB has not. */
static void destroy_pages(bool logged, size_t step) {
    static uint8_t file[8 << 20];
    static uint8_t journal[2 << 20];
    static const uint8_t zeros[PAGE];
    begin();
    uint64_t all = STREAMS * (MESSAGES - 2);
    if (logged) {
        all += log_more();
    } else {
        close_store();
    }
    size_t size = rig_read_at(&rig, "data.mdb", file, sizeof file, 0);
    size_t journal_size = rig_read_at(&rig, "journal", journal, sizeof journal, 0);
    uint64_t whole = 0;
    if (logged) {
        close_store();
    }
    for (size_t page = 1; page < size / PAGE; page++) {
        rig_remove_directory(rig.directory);
        CHECK_EQ_I64(0, mkdir(rig.directory, 0700));
        rig_write_at(&rig, "journal", journal, journal_size, 0);
        rig_write_at(&rig, "data.mdb", file, size, 0);
        rig_write_at(&rig, "data.mdb", zeros, PAGE, (off_t)(page * PAGE));
        store_look_t *look = look_at(0);
        CHECK_EQ_I64(STATUS_OK, plane_look_audit(look, &audit, findings, ROOM, reason));
        plane_look_close(look);
        bool damaged = audit.damaged_pages + audit.damaged_entries > 0;
        CHECK_EQ_I64(damaged, findings[0] != 0);
        if (page % step != 1) {
            continue;
        }
        rescue();
        rig_start(&rig);
        uint64_t count = agrees(1) + agrees(2);
        CHECK(damaged || count == all);
        whole += count == all;
        close_store();
        look = look_at(0);
        CHECK_EQ_I64(STATUS_OK, plane_look_audit(look, &audit, findings, ROOM, reason));
        if (findings[0] != 0) {
            FAIL("page %zu: %s", page, findings);
        }
        plane_look_close(look);
    }
    CHECK(whole > 0);
    rig_close(&rig);
}

static void test_pages(void) {
    destroy_pages(false, 5);
}

static void test_logged_pages(void) {
    destroy_pages(true, 5);
}

/* Older versions took them; here the gate is gone around, which looks at a group and does not see them again. */
static void test_bad_subjects(void) {
    rig = (rig_t){0};
    rig_open(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    const bytes_t wrong[] = {text("a.*"), bytes_of((const uint8_t *)"a\0\"b", 4)};
    CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "a.b", "1").verdict);
    for (size_t i = 0; i < 2; i++) {
        append_t append = {.subject = wrong[i], .payload = text("1")};
        CHECK_EQ_U64(APPEND_STORED, store_group_append(stream, &append, rig.now).verdict);
    }
    rig_sync(&rig);
    rig_checkpoint(&rig);
    close_store();
    store_look_t *look = look_at(0);
    CHECK_EQ_I64(STATUS_OK, plane_look_audit(look, &audit, findings, ROOM, reason));
    plane_look_close(look);
    CHECK_EQ_U64(3, audit.messages);
    CHECK_EQ_U64(2, audit.bad_subjects);
    CHECK_EQ_U64(0, audit.damaged_pages + audit.damaged_entries);
    CHECK_TEXT("subject \"a.*\" of message 2 of stream 1 is not valid\n"
               "subject \"a\\x00\\x22b\" of message 3 of stream 1 is not valid\n",
               findings, strlen(findings));
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, 2, &message));
    CHECK(bytes_equal(wrong[0], message.subject));
    CHECK_EQ_I64(STATUS_OK, store_delete(stream, 2));
    CHECK_EQ_I64(STATUS_OK, store_delete(stream, 3));
    CHECK_EQ_U64(1, rig_state(stream).messages);
    rig_close(&rig);
}

int main(void) {
    RUN("a sound store has no finding, and its messages are counted", test_sound);
    RUN("what a held commit says does not change while the store goes on, and a look at the newest one is new",
        test_held);
    RUN("wherever a page is destroyed, the damage is named, and the rest comes into a store that agrees with itself",
        test_pages);
    RUN("so it is when the journal has messages and removals that no checkpoint has", test_logged_pages);
    RUN("messages whose subject is not valid are named, can be read, and can be deleted", test_bad_subjects);
    return TEST_RESULT();
}
