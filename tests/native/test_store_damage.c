/* test_store_damage.c: the store when something is wrong: flipped bits in data.mdb, a full disk, writes and syncs that
 * fail, a second process, a newer format. What must hold each time: nothing wrong is served, nothing that was
 * acknowledged is lost without an alarm, and one line of the log names the fault.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "disk/env.h"
#include "disk/journal.h"
#include "store_rig.h"

static rig_t rig;

static void open_rig(void) {
    rig = (rig_t){0};
    rig_open(&rig);
}

static bool has_alarm(uint32_t code) {
    store_alarm_t alarm;
    bool seen = false;
    while (store_alarm_next(rig.store, &alarm)) {
        seen |= alarm.code == code;
    }
    return seen;
}

/* ---- flipped bits ------------------------------------------------------------------------------------------------ */

static int open_lmdb(void) {
    char path[160];
    snprintf(path, sizeof path, "%s/data.mdb", rig.directory);
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    return fd;
}

/* Where in LMDB's file these bytes are, last copy (older ones are on freed pages). */
static off_t find_in_lmdb(int fd, const char *needle) {
    static uint8_t file[8 << 20];
    ssize_t size = pread(fd, file, sizeof file, 0);
    off_t at = -1;
    for (ssize_t i = 0; i + (ssize_t)strlen(needle) <= size; i++) {
        if (memcmp(file + i, needle, strlen(needle)) == 0) {
            at = i;
        }
    }
    CHECK(at > 0);
    return at;
}

/* Where the value begins that has these bytes at its end: behind the key of the message 2 of stream 1. */
static off_t find_value(int fd, const char *payload) {
    static const uint8_t key[MESSAGE_KEY_SIZE] = {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2};
    uint8_t before[MESSAGE_KEY_SIZE + MESSAGE_FIXED_SIZE + 8];
    off_t at = find_in_lmdb(fd, payload);
    CHECK_EQ_I64(sizeof before, pread(fd, before, sizeof before, at - (off_t)sizeof before));
    size_t i = sizeof before - sizeof key;
    while (i > 0 && memcmp(before + i, key, sizeof key) != 0) {
        i--;
    }
    CHECK(memcmp(before + i, key, sizeof key) == 0);
    return at - (off_t)(sizeof before - i - sizeof key);
}

static void flip(int fd, off_t at, uint8_t mask) {
    uint8_t byte;
    CHECK_EQ_I64(1, pread(fd, &byte, 1, at));
    byte ^= mask;
    CHECK_EQ_I64(1, pwrite(fd, &byte, 1, at));
}

static void fill_three(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    rig_put(&rig, stream, "dam.a", "before-the-damage");
    rig_put(&rig, stream, "dam.b", "THE-DAMAGED-ONE");
    rig_put(&rig, stream, "dam.c", "behind-the-damage");
    rig_checkpoint(&rig);
    store_close(rig.store);
}

static void check_second_is_contained(void) {
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_DAMAGED, store_read(stream, 2, &message));
    CHECK(has_alarm(ALARM_CORRUPT));
    uint64_t from = 0;
    uint64_t seen = 0;
    while (store_next(stream, (filters_t){0}, &from, UINT64_MAX, 100, &message) == SEEK_FOUND) {
        CHECK(message.seq != 2);
        seen++;
        from = message.seq + 1;
    }
    CHECK_EQ_U64(2, seen);
    stream_state_t state;
    store_stream_state(stream, &state);
    CHECK(state.corrupt > 0);
}

static void flipped_message(void) {
    fill_three();
    int fd = open_lmdb();
    off_t payload = find_in_lmdb(fd, "THE-DAMAGED-ONE");
    off_t value = find_value(fd, "THE-DAMAGED-ONE");
    for (off_t at = value; at < payload + 15; at++) {
        uint8_t mask = (uint8_t)(1u << (at % 8));
        flip(fd, at, mask);
        rig_start(&rig);
        check_second_is_contained();
        store_close(rig.store);
        flip(fd, at, mask);
    }
    flip(fd, payload, 1);
    close(fd);
    rig_start(&rig);
    CHECK_EQ_U64(4, rig_put(&rig, rig_stream(&rig, 1, rig_config()), "dam.b", "the stream goes on").seq);
    rig_sync(&rig);
    rig_close(&rig);
}

/* The way back from the newest ends at the damaged one. */
static void broken_chain_hides_nothing(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    for (int i = 1; i <= 1000; i++) {
        rig_put(&rig, stream, i % 200 == 0 ? "dam.rare" : "dam.other", i == 600 ? "THE-DAMAGED-ONE" : "sound");
    }
    rig_checkpoint(&rig);
    store_close(rig.store);
    int fd = open_lmdb();
    flip(fd, find_in_lmdb(fd, "THE-DAMAGED-ONE"), 1);
    close(fd);
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    bytes_t filter = text("dam.rare");
    store_ahead_t ahead = {0};
    stored_message_t message;
    uint64_t from = 1, sum = 0;
    seek_outcome_t status;
    do {
        filters_t only = {.patterns = &filter, .count = 1};
        status = store_next_ahead(stream, &ahead, only, &from, UINT64_MAX, 100, &message);
        sum += status == SEEK_FOUND ? message.seq : 0;
        from += status == SEEK_FOUND;
    } while (status == SEEK_FOUND || status == SEEK_MORE);
    CHECK_EQ_U64(200 + 400 + 800 + 1000, sum);
    CHECK(has_alarm(ALARM_CORRUPT));
    store_ahead_end(&ahead);
    rig_close(&rig);
}

/* The newest of a subject goes, the one before it is damaged, and the one before that is far away. */
static void broken_chain_is_passed_in_steps(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    for (int i = 1; i <= 6000; i++) {
        append_t append = {.subject = text(i < 3 || i == 6000 ? "dam.rare" : "dam.other"),
                           .payload = text(i == 2 ? "THE-DAMAGED-ONE" : "sound")};
        CHECK_EQ_U64((uint64_t)i, rig_append(&rig, stream, &append).seq);
    }
    rig_checkpoint(&rig);
    store_close(rig.store);
    int fd = open_lmdb();
    flip(fd, find_value(fd, "THE-DAMAGED-ONE") + 5, 0x40); /* of the subject's size */
    close(fd);
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    stored_message_t message;
    uint32_t tries = 0;
    status_t status;
    while ((status = store_delete(stream, 6000)) == STATUS_AGAIN) {
        CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, 6000, &message));
        CHECK(++tries < 10);
    }
    CHECK_EQ_I64(STATUS_OK, status);
    CHECK(tries >= 2);
    CHECK_EQ_I64(ENTRY_FOUND, store_last_by_subject(stream, text("dam.rare"), UINT64_MAX, &message));
    CHECK_EQ_U64(1, message.seq);
    rig_close(&rig);
}

static void damaged_can_leave(void) {
    fill_three();
    int fd = open_lmdb();
    flip(fd, find_in_lmdb(fd, "THE-DAMAGED-ONE"), 1);
    close(fd);
    rig_start(&rig);
    stream_config_t config = rig_config();
    config.max_msgs = 1;
    store_stream_t *stream = rig_stream(&rig, 1, config);
    stream_state_t state;
    store_stream_state(stream, &state);
    CHECK_EQ_U64(1, state.messages);
    CHECK_EQ_U64(3, state.first_seq);
    rig_close(&rig);
}

static void flipped_head(void) {
    fill_three();
    int fd = open_lmdb();
    off_t key = find_in_lmdb(fd, "\x01"
                                 "dam.b"); /* stream id's last byte, subject: the key of the head */
    flip(fd, key + 6 + 10, 4);
    close(fd);
    rig_start(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_UNKNOWN, store_last_by_subject(stream, text("dam.b"), UINT64_MAX, &message));
    CHECK(has_alarm(ALARM_CORRUPT));
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, 2, &message));
    store_tick(rig.store, rig.now);
    CHECK_EQ_I64(ENTRY_FOUND, store_last_by_subject(stream, text("dam.b"), UINT64_MAX, &message));
    CHECK_EQ_U64(2, message.seq);
    CHECK(has_alarm(ALARM_CORRUPT));
    CHECK_EQ_U64(4, rig_put(&rig, stream, "dam.b", "new").seq);
    rig_checkpoint(&rig);
    store_close(rig.store);
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_I64(ENTRY_FOUND, store_last_by_subject(stream, text("dam.b"), UINT64_MAX, &message));
    CHECK_EQ_U64(4, message.seq);
    CHECK(!has_alarm(ALARM_CORRUPT));
    rig_close(&rig);
}

/* The last subject becomes another one: all keys stand in their order. */
static void flipped_key_of_head(void) {
    fill_three();
    int fd = open_lmdb();
    off_t key = find_in_lmdb(fd, "\x01"
                                 "dam.c");
    flip(fd, key + 5, 4);
    close(fd);
    rig_start(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_NONE, store_last_by_subject(stream, text("dam.d"), UINT64_MAX, &message));
    CHECK_EQ_I64(ENTRY_NONE, store_last_by_subject(stream, text("dam.bb"), UINT64_MAX, &message));
    CHECK(!has_alarm(ALARM_CORRUPT)); /* these were never there */
    CHECK_EQ_I64(ENTRY_UNKNOWN, store_last_by_subject(stream, text("dam.c"), UINT64_MAX, &message));
    CHECK(has_alarm(ALARM_CORRUPT));
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, 3, &message));
    store_tick(rig.store, rig.now);
    CHECK_EQ_I64(ENTRY_FOUND, store_last_by_subject(stream, text("dam.c"), UINT64_MAX, &message));
    CHECK_EQ_U64(3, message.seq);
    CHECK_EQ_U64(4, rig_put(&rig, stream, "dam.c", "new").seq);
    CHECK_EQ_I64(ENTRY_FOUND, store_last_by_subject(stream, text("dam.c"), UINT64_MAX, &message));
    CHECK_EQ_U64(4, message.seq);
    rig_close(&rig);
}

static void flipped_record(void) {
    open_rig();
    CHECK_EQ_I64(STATUS_OK, store_record_put(rig.store, RECORD_CONTROL, text("k1"), text("RECORD-ONE")));
    CHECK_EQ_I64(STATUS_OK, store_record_put(rig.store, RECORD_CONTROL, text("k2"), text("RECORD-TWO")));
    rig_checkpoint(&rig);
    store_close(rig.store);
    int fd = open_lmdb();
    flip(fd, find_in_lmdb(fd, "RECORD-ONE"), 1);
    close(fd);
    rig_start(&rig);
    bytes_t value;
    CHECK_EQ_I64(ENTRY_FOUND, store_record_get(rig.store, RECORD_CONTROL, text("k1"), &value));
    CHECK(bytes_equal(text("RECORD-ONE"), value));
    CHECK_EQ_I64(ENTRY_FOUND, store_record_get(rig.store, RECORD_CONTROL, text("k2"), &value));
    rig_close(&rig);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void check_refusal(status_t expected, const char *directory, const char *word) {
    char reason[512];
    store_t *store;
    store_options_t options = {.directory = directory, .journal_size = 1 << 20, .max_bytes = 1 << 30};
    CHECK_EQ_I64(expected, store_open(&options, &store, reason, sizeof reason));
    CHECK(store == NULL);
    if (strstr(reason, word) == NULL || strstr(reason, directory) == NULL || strchr(reason, '\n') != NULL) {
        FAIL("the reason is not one clear line with \"%s\": %s", word, reason);
    }
}

static void in_use(void) {
    open_rig();
    char pid[16];
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    check_refusal(STATUS_IN_USE, rig.directory, pid);
    rig_put(&rig, rig_stream(&rig, 1, rig_config()), "a", "still mine");
    rig_close(&rig);
}

static void newer_format(void) {
    open_rig();
    store_close(rig.store);
    env_t *env;
    char reason[256];
    CHECK_EQ_I64(STATUS_OK, env_open(rig.directory, 64 << 20, false, &env, reason, sizeof reason));
    uint8_t value[24] = {0};
    store_be32(value + 4, STORE_FORMAT + 1);
    value_seal(text("format"), value, sizeof value);
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    CHECK_EQ_I64(STATUS_OK, env_write_put(env, DB_META, text("format"), bytes_of(value, sizeof value)));
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    env_close(env);
    check_refusal(STATUS_VERSION, rig.directory, "newer");
    rig_remove_directory(rig.directory);
    rmdir(rig.root);
}

static void not_a_directory(void) {
    open_rig();
    char path[160];
    snprintf(path, sizeof path, "%s/lock/below", rig.directory);
    check_refusal(STATUS_IO, path, "directory");
    rig_close(&rig);
}

/* ---- full disk --------------------------------------------------------------------------------------------------- */

static void limit_files(uint64_t bytes) {
    struct rlimit limit;
    CHECK_EQ_I64(0, getrlimit(RLIMIT_FSIZE, &limit));
    limit.rlim_cur = bytes == 0 ? limit.rlim_max : bytes;
    CHECK_EQ_I64(0, setrlimit(RLIMIT_FSIZE, &limit));
}

static uint64_t append_until_refused(store_stream_t *stream, uint64_t last) {
    static char payload[2001];
    memset(payload, 'd', 2000);
    for (int i = 0; i < 200000; i++) {
        appended_t done = rig_put(&rig, stream, "disk", payload);
        if (done.verdict == APPEND_NO_SPACE && has_alarm(ALARM_DISK_FULL)) {
            return last;
        }
        if (done.verdict == APPEND_STORED) {
            last = done.seq;
        } else {
            usleep(1000);
        }
        if (i % 20 == 0 || done.verdict != APPEND_STORED) {
            store_tick(rig.store, rig.now);
            rig_pass(&rig, 50 * NS_PER_MS);
        }
    }
    FAIL("the disk never gets full");
}

static void full_disk(void) {
    signal(SIGXFSZ, SIG_IGN);
    rig = (rig_t){.options.journal_size = 2 << 20};
    rig_open(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    rig_put(&rig, stream, "disk", "first");
    rig_checkpoint(&rig);
    limit_files(4 << 20);
    uint64_t last = append_until_refused(stream, 1);
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, 1, &message));
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, last, &message));
    CHECK_EQ_I64(STATUS_OK, store_delete(stream, 2));
    CHECK_EQ_I64(STATUS_OK, store_record_put(rig.store, RECORD_CONTROL, text("k"), text("consumers go on")));
    rig_sync(&rig);
    limit_files(0);
    appended_t done = {.verdict = APPEND_NO_SPACE};
    for (int i = 0; i < 10000 && done.verdict != APPEND_STORED; i++) {
        usleep(1000);
        store_tick(rig.store, rig.now);
        done = rig_put(&rig, stream, "disk", "again");
    }
    CHECK_EQ_U64(last + 1, done.seq);
    CHECK(has_alarm(ALARM_DISK_OK));
    rig_sync(&rig);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    stream_state_t state;
    store_stream_state(stream, &state);
    CHECK_EQ_U64(last, state.messages);
    for (uint64_t seq = 1; seq <= last + 1; seq++) {
        CHECK_EQ_I64(seq == 2 ? ENTRY_NONE : ENTRY_FOUND, store_read(stream, seq, &message));
    }
    rig_close(&rig);
}

static void too_large_for_the_journal(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    static uint8_t payload[600 << 10];
    append_t append = {.subject = text("big"), .payload = bytes_of(payload, sizeof payload)};
    CHECK_EQ_U64(APPEND_TOO_LARGE, store_append(stream, &append, rig.now).verdict);
    append.payload.size = 200 << 10;
    CHECK_EQ_U64(APPEND_STORED, store_append(stream, &append, rig.now).verdict);
    rig_close(&rig);
}

static void publishers_leave_room(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    static uint8_t payload[10000];
    append_t append = {.subject = text("fill"), .payload = bytes_of(payload, sizeof payload)};
    appended_t done;
    uint64_t last = 0;
    while ((done = store_append(stream, &append, rig.now)).verdict == APPEND_STORED) {
        last = done.seq;
    }
    CHECK_EQ_U64(APPEND_NO_SPACE, done.verdict);
    for (uint64_t seq = 1; seq <= last; seq++) { /* no tick in between: all in the room that publishers had to leave */
        CHECK_EQ_I64(STATUS_OK, store_delete(stream, seq));
        CHECK_EQ_I64(STATUS_OK, store_record_put(rig.store, RECORD_CONTROL, text("state"), bytes_of(payload, 500)));
    }
    rig_close(&rig);
}

static void store_limit(void) {
    rig = (rig_t){.options.max_bytes = 1000};
    rig_open(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    static char payload[401];
    memset(payload, 'x', 400);
    CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "a", payload).verdict);
    CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "a", payload).verdict);
    CHECK_EQ_U64(APPEND_NO_SPACE, rig_put(&rig, stream, "a", payload).verdict);
    CHECK_EQ_I64(STATUS_OK, store_delete(stream, 1));
    CHECK_EQ_U64(3, rig_put(&rig, stream, "a", payload).seq);
    rig_close(&rig);
}

/* ---- failing writes and syncs ------------------------------------------------------------------------------------ */

static _Atomic int fail_write_in; /* the n-th call from now fails, 0 = none */
static _Atomic int fail_sync_in;
static _Atomic int cut_writes;

static ssize_t failing_write(int fd, const void *at, size_t size, off_t offset) {
    if (atomic_load(&fail_write_in) > 0 && atomic_fetch_sub(&fail_write_in, 1) == 1) {
        errno = EIO;
        return -1;
    }
    if (atomic_load(&cut_writes) != 0 && size > 1) {
        size = size / 2;
    }
    return pwrite(fd, at, size, offset);
}

static int failing_sync(int fd) {
    if (atomic_load(&fail_sync_in) > 0 && atomic_fetch_sub(&fail_sync_in, 1) == 1) {
        errno = EIO;
        return -1;
    }
    return fdatasync(fd);
}

static void fail_nth(_Atomic int *which, int n) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    rig_sync(&rig);
    atomic_store(which, n);
    uint64_t last = 0;
    for (int i = 0; i < 6; i++) {
        appended_t done = rig_put(&rig, stream, "io", "x");
        last = done.verdict == APPEND_STORED ? done.seq : last;
        uint64_t batch = store_batch(rig.store);
        store_tick(rig.store, rig.now);
        if (i == n - 1) { /* the one that fails: not durable until it was written again */
            CHECK(store_durable(rig.store) < batch);
        }
        rig_sync(&rig);
    }
    CHECK_EQ_I64(0, atomic_load(which));
    CHECK(has_alarm(ALARM_IO));
    CHECK(last >= 5);
    rig_sync(&rig);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    stream_state_t state;
    store_stream_state(stream, &state);
    CHECK_EQ_U64(last, state.messages);
    rig_close(&rig);
}

static void writes_and_syncs_fail(void) {
    const journal_io_t io = {.write_at = failing_write, .sync = failing_sync};
    journal_io_replace(&io);
    for (int n = 1; n <= 4; n++) {
        fail_nth(&fail_write_in, n);
        fail_nth(&fail_sync_in, n);
    }
    journal_io_replace(NULL);
}

/* A disk that loses what it could not sync: a sync that fails puts back what was there before, as a kernel does that
 * drops pages. */
#define LOST_MAX 64
static struct lost {
    int fd;
    off_t offset;
    size_t size;
    uint8_t before[8192];
} lost[LOST_MAX];
static _Atomic int lost_count;

static ssize_t losing_write(int fd, const void *at, size_t size, off_t offset) {
    if (offset >= JOURNAL_START && size <= sizeof lost->before) {
        CHECK(lost_count < LOST_MAX);
        struct lost *entry = &lost[lost_count++];
        *entry = (struct lost){.fd = fd, .offset = offset, .size = size};
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        int readable = open(path, O_RDONLY);
        CHECK_EQ_I64((int64_t)size, pread(readable, entry->before, size, offset));
        close(readable);
    }
    return pwrite(fd, at, size, offset);
}

static int losing_sync(int fd) {
    if (atomic_load(&fail_sync_in) > 0 && atomic_fetch_sub(&fail_sync_in, 1) == 1) {
        while (lost_count > 0) {
            const struct lost *entry = &lost[--lost_count];
            CHECK_EQ_I64((int64_t)entry->size, pwrite(fd, entry->before, entry->size, entry->offset));
        }
        errno = EIO;
        return -1;
    }
    lost_count = 0;
    return fdatasync(fd);
}

static void sync_at_intervals_fails(void) {
    const journal_io_t io = {.write_at = losing_write, .sync = losing_sync};
    journal_io_replace(&io);
    rig = (rig_t){.options.sync_interval_ns = 300 * NS_PER_MS};
    rig_open(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    atomic_store(&fail_sync_in, 1);
    for (int i = 0; i < 8; i++) { /* each a batch, acknowledged when it is written */
        CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "io", "x").verdict);
        rig_sync(&rig);
    }
    plane_stats_t stats = {0};
    /* one that fails, one that does not */
    for (int i = 0; i < 5000 && (stats.journal_syncs < 2 || lost_count != 0); i++) {
        usleep(1000);
        stats = (plane_stats_t){0};
        store_stats(rig.store, &stats);
    }
    CHECK_EQ_I64(0, atomic_load(&fail_sync_in));
    rig_crash(&rig);
    stream_state_t state;
    store_stream_state(rig_stream(&rig, 1, rig_config()), &state);
    CHECK_EQ_U64(8, state.messages);
    rig_close(&rig);
    journal_io_replace(NULL);
}

static void short_writes(void) {
    const journal_io_t io = {.write_at = failing_write, .sync = failing_sync};
    journal_io_replace(&io);
    atomic_store(&cut_writes, 1);
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    for (int i = 0; i < 50; i++) {
        rig_put(&rig, stream, "io", "x");
        rig_sync(&rig);
    }
    rig_crash(&rig);
    stream_state_t state;
    store_stream_state(rig_stream(&rig, 1, rig_config()), &state);
    CHECK_EQ_U64(50, state.messages);
    rig_close(&rig);
    atomic_store(&cut_writes, 0);
    journal_io_replace(NULL);
}

int main(void) {
    RUN("no flipped bit in a stored message is ever served; it is alarmed, and the stream goes on", flipped_message);
    RUN("a damaged message hides no other one of its subject, and is alarmed", broken_chain_hides_nothing);
    RUN("where damage broke a subject's chain, the message before its newest is searched in steps",
        broken_chain_is_passed_in_steps);
    RUN("a damaged message can be removed by a limit", damaged_can_leave);
    RUN("a damaged head is alarmed, reads as unknown, and is counted again", flipped_head);
    RUN("so is a head under a key that damage made of its own", flipped_key_of_head);
    RUN("a damaged record comes back from its twin", flipped_record);
    RUN("a store in use is refused with the process's number", in_use);
    RUN("a newer format is refused in one line", newer_format);
    RUN("a directory that cannot be made is refused in one line", not_a_directory);
    RUN("a full disk refuses publishers, nothing else, and heals by itself", full_disk);
    RUN("a message that no batch can hold is too large, not without space", too_large_for_the_journal);
    RUN("publishers leave room for deletions and states in the ring", publishers_leave_room);
    RUN("the store's own limit refuses publishers until something goes", store_limit);
    RUN("a write or sync that fails is tried again, and nothing is durable before", writes_and_syncs_fail);
    RUN("with a sync interval, a sync that fails has everything since the last one written again",
        sync_at_intervals_fails);
    RUN("short writes are completed", short_writes);
    return TEST_RESULT();
}
