/* suspect.c: see suspect.h.
 *
 * Values have checksums, LMDB's pages have none: it follows a damaged page to wherever that points, and the process
 * ends by SIGSEGV, by SIGBUS or by an assertion of LMDB's, at every start again. So the end says a word and leaves an
 * empty file "data.mdb.suspect", and the next start reads every page itself (pages.c) before LMDB does. (A page that
 * the disk does not give ends nothing: disk/unread.h. To a start it is one more that is damaged.)
 *
 *     sound                 the file is removed, the start goes on
 *     damaged               a sound file is made of what can be read (mend.c)
 *     in many places        the start is refused, unless the loss is accepted; or what can be read is served, where
 *                           the process before has served it and has asked for the start by itself
 *
 * A small store is looked at in every start, and of a large one the pages that the start itself needs.
 */
#include "recovery/suspect.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "disk/unread.h"
#include "recovery/pages.h"
#include "recovery/salvage.h"

#define LOOK_ALWAYS (UINT64_C(32) << 20) /* bytes that are read in some milliseconds */

static const char lmdb_name[] = "data.mdb";
static const char mark_name[] = STORE_SUSPECT;

static void make_mark(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) {
        close(fd);
    }
}

void suspect_mark(const store_t *store) {
    char path[STORE_PATH_MAX];
    if (!store->options.memory && store_path(store, mark_name, path)) {
        make_mark(path);
    }
}

/* ---- the end of a process ---------------------------------------------------------------------------------------- */

static const int faults[] = {SIGSEGV, SIGABRT}; /* and SIGBUS: disk/unread.h */
#define FAULTS (sizeof faults / sizeof *faults)

static struct sigaction before[FAULTS];
static char watched[STORE_PATH_MAX]; /* the mark's path; empty: no store is watched */

/* Nothing but what a signal handler may call. What came before the watch (a core dump, a sanitizer's report) comes
 * after it. */
static void on_fault(int number) {
    static const char text[] = "leafd: the process ends by a fault or an assertion; damage in the store's data.mdb can "
                               "cause one, so the next start "
                               "reads all of that file before it is used\n";
    ssize_t done = write(STDERR_FILENO, text, sizeof text - 1);
    (void)done;
    make_mark(watched);
    for (size_t i = 0; i < FAULTS; i++) {
        if (faults[i] == number) {
            (void)sigaction(number, &before[i], NULL);
        }
    }
    if (number == SIGABRT) {
        (void)raise(number);
    }
}

void suspect_watch(const store_t *store) {
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
    if (store->options.memory || watched[0] != 0 || !store_path(store, mark_name, watched)) {
        return;
    }
    unread_otherwise(on_fault);
    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < FAULTS; i++) {
        (void)sigaction(faults[i], &action, &before[i]);
    }
}

void suspect_unwatch(const store_t *store) {
    char path[STORE_PATH_MAX];
    if (store->options.memory || watched[0] == 0 || !store_path(store, mark_name, path) || strcmp(path, watched) != 0) {
        return;
    }
    unread_otherwise(NULL);
    for (size_t i = 0; i < FAULTS; i++) {
        (void)sigaction(faults[i], &before[i], NULL);
    }
    watched[0] = 0;
}

/* ---- a start ----------------------------------------------------------------------------------------------------- */

static status_t refuse_damage(opening_t *opening, const char *what) {
    snprintf(opening->reason, opening->reason_size,
             "data.mdb in %s is damaged (%s), more than a start mends by itself: restore the directory from a backup, "
             "or accept the loss of what cannot be read with an empty file %s/accept-loss and start again",
             opening->store->directory, what, opening->store->directory);
    return STATUS_CORRUPT;
}

/* The content of any other page that can be read is served. */
static status_t refuse_roots(opening_t *opening, const char *what) {
    snprintf(opening->reason, opening->reason_size,
             "data.mdb in %s is damaged (%s) where it says what it holds, and no sound file can be put in its place: "
             "make room on the disk, or copy the directory to a disk that takes it, and start again",
             opening->store->directory, what);
    return STATUS_CORRUPT;
}

/* Takes the word out of the mark: a start that somebody else asks for is refused. */
static bool asked_by_itself(const char *mark) {
    char word[sizeof STORE_SUSPECT_AGAIN] = "";
    int fd = open(mark, O_RDWR | O_CLOEXEC);
    if (fd < 0) return false;
    bool asked = read(fd, word, sizeof word - 1) > 0 && strcmp(word, STORE_SUSPECT_AGAIN) == 0;
    (void)!ftruncate(fd, 0);
    close(fd);
    return asked;
}

static void tell_unmended(store_t *store, const char *what) {
    store_damaged(store, 1);
    store_alarm(store, ALARM_CORRUPT, 0, 0,
                "data.mdb is damaged (%s), more than a start mends by itself: what can be read is served until leafd "
                "is stopped; restore the directory from a backup, or accept the loss with an empty file %s/accept-loss",
                what, store->directory);
}

status_t suspect_look(opening_t *opening) {
    store_t *store = opening->store;
    char lmdb[STORE_PATH_MAX];
    char mark[STORE_PATH_MAX];
    char what[256];
    struct stat file;
    if (store->options.memory || !store_path(store, lmdb_name, lmdb) || !store_path(store, mark_name, mark)
        || stat(lmdb, &file) != 0 || file.st_size == 0) {
        return STATUS_OK;
    }
    bool cut = pages_cut_short(lmdb); /* by a copy that was not finished: there may be a whole one */
    bool all = cut || access(mark, F_OK) == 0 || (uint64_t)file.st_size <= LOOK_ALWAYS;
    bool served = asked_by_itself(mark) && !cut;
    status_t status = pages_check(lmdb, all, what, sizeof what);
    if (status == STATUS_CORRUPT) {
        status = cut && !opening->accepted ? STATUS_CORRUPT : mend_store(opening, what);
        if (status == STATUS_CORRUPT && !served) {
            return refuse_damage(opening, what);
        }
        if (status == STATUS_CORRUPT) {
            tell_unmended(store, what);
        }
        if (status != STATUS_OK && pages_roots(lmdb, what, sizeof what) == STATUS_CORRUPT) {
            return refuse_roots(opening, what);
        }
    }
    if (status == STATUS_OK) {
        (void)unlink(mark);
    }
    return STATUS_OK; /* what else is wrong is said where it is opened */
}
