/* store_rig.h: a store in a directory of its own, with a clock that the test sets, for the C tests of native/store.
 *
 * rig_crash is a kill -9 without a process: what the files hold at that moment is copied and opened elsewhere, nothing
 * is closed first. The copy is what the page cache has, which is what survives a killed process.
 */
#ifndef LEAFD_TESTS_STORE_RIG_H
#define LEAFD_TESTS_STORE_RIG_H

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "patience.h"
#include "recovery/open.h"
#include "store/append.h"
#include "store/record.h"
#include "store/store.h"
#include "test.h"
#include "test_sealer.h"

#define RIG_START INT64_C(1767225600000000000) /* 2026-01-01 */
#define RIG_PATH 160
#define RIG_REASON 512

typedef struct rig {
    char root[64];
    char directory[96];
    unsigned generation;
    bool in_memory;
    store_t *store;
    moment_t now;
    store_options_t options;
} rig_t;

/* ---- files of the store's directory ------------------------------------------------------------------------------ */

static inline void rig_path(const rig_t *rig, const char *name, char path[RIG_PATH]) {
    snprintf(path, RIG_PATH, "%s/%s", rig->directory, name);
}

static inline bool rig_there(const rig_t *rig, const char *name) {
    char path[RIG_PATH];
    rig_path(rig, name, path);
    return access(path, F_OK) == 0;
}

/* Makes the file when there is none; what stands elsewhere in it stays. */
static inline void rig_write_at(const rig_t *rig, const char *name, const void *bytes, size_t size, off_t at) {
    char path[RIG_PATH];
    rig_path(rig, name, path);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0);
    CHECK_EQ_I64((int64_t)size, pwrite(fd, bytes, size, at));
    close(fd);
}

/* What the file has from `at` on, as far as there is room for it; returns how much that is. */
static inline size_t rig_read_at(const rig_t *rig, const char *name, void *bytes, size_t room, off_t at) {
    char path[RIG_PATH];
    rig_path(rig, name, path);
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0);
    ssize_t size = pread(fd, bytes, room, at);
    CHECK(size >= 0);
    close(fd);
    return (size_t)size;
}

static inline void rig_truncate(const rig_t *rig, const char *name, off_t size) {
    char path[RIG_PATH];
    rig_path(rig, name, path);
    CHECK_EQ_I64(0, truncate(path, size));
}

static inline void rig_unlink(const rig_t *rig, const char *name) {
    char path[RIG_PATH];
    rig_path(rig, name, path);
    CHECK_EQ_I64(0, unlink(path));
}

static inline void rig_move(const rig_t *rig, const char *from, const char *to) {
    char a[RIG_PATH];
    char b[RIG_PATH];
    rig_path(rig, from, a);
    rig_path(rig, to, b);
    CHECK_EQ_I64(0, rename(a, b));
}

static inline void rig_copy_file(const char *from_directory, const char *to_directory, const char *name) {
    char path[160];
    snprintf(path, sizeof path, "%s/%s", from_directory, name);
    int in = open(path, O_RDONLY);
    if (in < 0) {
        return;
    }
    snprintf(path, sizeof path, "%s/%s", to_directory, name);
    int out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(out >= 0);
    static uint8_t piece[1 << 16];
    ssize_t size;
    while ((size = read(in, piece, sizeof piece)) > 0) {
        CHECK_EQ_I64(size, write(out, piece, (size_t)size));
    }
    close(in);
    close(out);
}

/* ---- a store's life ---------------------------------------------------------------------------------------------- */

/* A start that may be refused. */
static inline status_t rig_try(rig_t *rig, char reason[RIG_REASON]) {
    rig->options.directory = rig->directory;
    rig->options.sealer = test_sealer();
    rig->options.keys = test_keys();
    rig->options.changed_max = 512 << 10; /* large checkpoints commit in between */
    rig->options.checkpoint_ns = 5 * NS_PER_SECOND;
    if (rig->options.pack_from == 0) rig->options.pack_from = 2 << 10; /* dictionaries come at once */
    return store_open(&rig->options, &rig->store, reason, RIG_REASON);
}

static inline void rig_start(rig_t *rig) {
    char reason[RIG_REASON];
    if (rig_try(rig, reason) != STATUS_OK) {
        FAIL("store_open: %s", reason);
    }
}

/* The start is refused, in one line that names the directory and has this word in it. */
static inline void rig_refused(rig_t *rig, const char *word) {
    char reason[RIG_REASON];
    CHECK(rig_try(rig, reason) != STATUS_OK);
    CHECK(rig->store == NULL);
    if (strstr(reason, word) == NULL || strstr(reason, rig->directory) == NULL || strchr(reason, '\n') != NULL) {
        FAIL("the reason is not one clear line with \"%s\": %s", word, reason);
    }
}

/* Takes every alarm that waits: is there one with this word in it? */
static inline bool rig_alarmed(rig_t *rig, const char *word) {
    store_alarm_t alarm;
    bool found = false;
    while (store_alarm_next(rig->store, &alarm)) {
        found |= strstr(alarm.text, word) != NULL;
    }
    return found;
}

static inline void rig_open(rig_t *rig) {
    if (rig->options.journal_size == 0) {
        rig->options.journal_size = 1 << 20;
    }
    if (rig->options.max_bytes == 0) {
        rig->options.max_bytes = 1 << 30; /* a map that fits beside a sanitizer's shadow */
    }
    /* Tests of many starts say that they need no disk. */
    snprintf(rig->root, sizeof rig->root, "%s/leafd-store-test.XXXXXX",
             rig->in_memory && access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    CHECK(mkdtemp(rig->root) != NULL);
    snprintf(rig->directory, sizeof rig->directory, "%s/0", rig->root);
    rig->generation = 0;
    rig->now = (moment_t){.mono_ns = NS_PER_SECOND, .wall_ns = RIG_START};
    rig_start(rig);
}

static inline void rig_remove_directory(const char *directory) {
    char path[512];
    DIR *names = opendir(directory);
    for (const struct dirent *entry; names != NULL && (entry = readdir(names)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        unlink(path);
    }
    if (names != NULL) {
        closedir(names);
    }
    rmdir(directory);
}

/* Of one that was refused or killed, too. */
static inline void rig_close(rig_t *rig) {
    store_close(rig->store);
    rig->store = NULL;
    rig_remove_directory(rig->directory);
    rmdir(rig->root);
}

static inline void rig_pass(rig_t *rig, int64_t ns) {
    rig->now.mono_ns += ns;
    rig->now.wall_ns += ns;
}

/* Ticks until everything so far is durable and visible. */
static inline void rig_sync(rig_t *rig) {
    CHECK(store_sound(rig->store));
    for (int64_t until = 0; patient(&until);) {
        store_tick(rig->store, rig->now);
        if (store_batch_empty(rig->store) && store_durable(rig->store) + 1 == store_batch(rig->store)) {
            while (store_advanced_next(rig->store) != NULL) {
            }
            return;
        }
        if (store_gathers(rig->store)) {
            rig_pass(rig, NS_PER_MS);
        }
        struct pollfd poller = {.fd = store_wake_fd(rig->store), .events = POLLIN};
        poll(&poller, 1, 1);
    }
    FAIL("the batch does not become durable");
}

/* Until the checkpoint that is due by now has committed. */
static inline void rig_committed(rig_t *rig) {
    for (int64_t until = 0; patient(&until);) {
        plane_stats_t stats = {0};
        store_tick(rig->store, rig->now);
        store_stats(rig->store, &stats);
        if (stats.overlay_bytes < 4096) {
            return;
        }
        usleep(200);
    }
    FAIL("the checkpoint does not end");
}

/* Lets time pass until a checkpoint has committed, so that reads come from LMDB. */
static inline void rig_checkpoint(rig_t *rig) {
    rig_sync(rig);
    rig_pass(rig, 6 * NS_PER_SECOND);
    rig_sync(rig);
    rig_committed(rig);
}

static inline void rig_reopen(rig_t *rig) {
    CHECK(store_sound(rig->store));
    store_close(rig->store);
    rig_start(rig);
}

/* What a kill -9 leaves, not opened: rig_start, rig_try or rig_close comes next. */
static inline void rig_kill(rig_t *rig) {
    char old[sizeof rig->directory], next[sizeof rig->directory];
    memcpy(old, rig->directory, sizeof old);
    snprintf(next, sizeof next, "%s/%u", rig->root, ++rig->generation);
    memcpy(rig->directory, next, sizeof next);
    CHECK(mkdir(rig->directory, 0700) == 0);
    rig_copy_file(old, rig->directory, "highwater"); /* before what it speaks of: a thread may be writing both */
    rig_copy_file(old, rig->directory, "data.mdb");
    rig_copy_file(old, rig->directory, "journal");
    store_close(rig->store);
    rig_remove_directory(old);
    rig->store = NULL;
}

static inline void rig_crash(rig_t *rig) {
    rig_kill(rig);
    rig_start(rig);
}

static inline stream_config_t rig_config(void) {
    return (stream_config_t){.max_msg_size = -1,
                             .max_msgs = -1,
                             .max_bytes = -1,
                             .max_msgs_per_subject = -1,
                             .duplicate_window_ns = 120 * NS_PER_SECOND,
                             .flags =
                                 STREAM_ALLOW_ROLLUP | (getenv("LEAFD_TEST_PACKED") != NULL ? STREAM_COMPRESS : 0)};
}

static inline store_stream_t *rig_stream(rig_t *rig, uint32_t id, stream_config_t config) {
    store_stream_t *stream = NULL;
    CHECK_EQ_I64(STATUS_OK, store_stream_open(rig->store, id, &config, rig->now, &stream));
    return stream;
}

static inline bytes_t text(const char *at) {
    return bytes_of(at, (uint32_t)strlen(at));
}

static inline appended_t rig_put(rig_t *rig, store_stream_t *stream, const char *subject, const char *payload) {
    append_t append = {.subject = text(subject), .payload = text(payload)};
    return store_append(stream, &append, rig->now);
}

static inline appended_t rig_put_id(rig_t *rig, store_stream_t *stream, const char *subject, const char *id) {
    append_t append = {.subject = text(subject), .payload = text("r"), .msg_id = text(id)};
    return store_append(stream, &append, rig->now);
}

static inline stream_state_t rig_state(store_stream_t *stream) {
    stream_state_t state;
    store_stream_state(stream, &state);
    return state;
}

/* As a publisher who tries again when there is no room, since the journal lags. */
static inline appended_t rig_append(rig_t *rig, store_stream_t *stream, const append_t *append) {
    appended_t got = store_append(stream, append, rig->now);
    if (got.verdict == APPEND_NO_SPACE) {
        rig_sync(rig);
        rig_checkpoint(rig);
        got = store_append(stream, append, rig->now);
    }
    return got;
}

/* Every step of a purge, with nothing in between; returns how many went. */
static inline uint64_t rig_purge(store_stream_t *stream, bytes_t filter, uint64_t below_seq, uint64_t keep) {
    store_purge_t purge = {.filter = filter, .below_seq = below_seq, .keep = keep};
    uint64_t purged = 0;
    step_outcome_t step = STEP_MORE;
    while (step == STEP_MORE) {
        uint64_t some = 0;
        CHECK_EQ_I64(STATUS_OK, store_purge(stream, &purge, &some, &step));
        purged += some;
    }
    CHECK_EQ_U64(STEP_OVER, step);
    return purged;
}

/* ---- what the store does in slices, all at once ------------------------------------------------------------------ */

/* UINT64_MAX: there was no memory for it. */
static inline uint64_t store_count(store_stream_t *stream, filters_t filters, uint64_t from) {
    store_tally_t *tally = store_tally_open(stream, filters, from);
    if (tally == NULL) {
        return UINT64_MAX;
    }
    while (store_tally_step(tally, UINT32_MAX) != STEP_OVER) {
    }
    uint64_t count = store_tally_now(tally);
    store_tally_close(tally);
    return count;
}

static inline status_t store_subjects(store_stream_t *stream, bytes_t pattern, subject_visit_t visit, void *context) {
    store_walk_t *walk = store_walk_open(stream, pattern);
    if (walk == NULL) {
        return STATUS_NO_MEMORY;
    }
    step_outcome_t step;
    do {
        step = store_walk_step(walk, UINT32_MAX, visit, context);
    } while (step == STEP_MORE);
    store_walk_close(walk);
    return step == STEP_OVER ? STATUS_OK : STATUS_IO;
}

#endif
