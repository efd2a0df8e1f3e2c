/* failing_disk.h: a disk whose writes, syncs or reads fail as a test says. Stands between the program and the C
 * library, LMDB's calls included, for a store's two files.
 *
 *     failing_disk((failing_t){.files = FAIL_HOME, .calls = FAIL_SYNC, .error = EIO, .from = 3})     from the third
 *                                                                                                    call on, for good
 *     failing_disk((failing_t){ ..., .times = 1})                                                    that call alone
 *     failing_disk((failing_t){ ..., .begin = 4096, .end = 8192})                                    calls that touch
 *                                                                                                    these bytes
 *     failing_disk((failing_t){ ..., .calls = FAIL_SYNC, .slow = true})       a sync that does not end until the next
 *                                                                             one of these calls; then it is done
 *     failing_disk((failing_t){0})                                                                   it works again
 *
 * failing_disk_count() says how many calls would have been such ones: a test goes on until its n-th was not reached.
 * What LMDB reads through its map is not seen here.
 */
#ifndef LEAFD_TESTS_FAILING_DISK_H
#define LEAFD_TESTS_FAILING_DISK_H

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FAIL_HOME = 1, FAIL_JOURNAL = 2, FAIL_BOTH = 3 };
enum { FAIL_WRITE = 1, FAIL_SYNC = 2, FAIL_READ = 4 };

typedef struct failing {
    int files;
    int calls;
    int error;
    unsigned from;  /* 0 and 1: the first */
    unsigned times; /* 0: for good */
    int64_t begin;
    int64_t end;    /* 0: wherever */
    uint64_t inode; /* 0: of whichever file of that name */
    bool slow;      /* a sync does not fail, it takes as long as this is set */
} failing_t;

static struct {
    pthread_mutex_t lock;
    failing_t now;
    unsigned count;
} failing = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool failing_slow(void) {
    pthread_mutex_lock(&failing.lock);
    bool slow = failing.now.slow;
    pthread_mutex_unlock(&failing.lock);
    return slow;
}

static inline void failing_disk(failing_t now) {
    pthread_mutex_lock(&failing.lock);
    failing.now = now;
    failing.count = 0;
    pthread_mutex_unlock(&failing.lock);
}

static inline unsigned failing_disk_count(void) {
    pthread_mutex_lock(&failing.lock);
    unsigned count = failing.count;
    pthread_mutex_unlock(&failing.lock);
    return count;
}

#define FAILING_REAL(result, name, ...) ((result (*)(__VA_ARGS__))(uintptr_t)dlsym(RTLD_NEXT, name))

static int failing_file(int fd) {
    char link[32];
    char path[256];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    path[size > 0 ? size : 0] = 0;
    const char *name = strrchr(path, '/');
    if (name == NULL) {
        return 0;
    }
    return strcmp(name, "/data.mdb") == 0 ? FAIL_HOME : strcmp(name, "/journal") == 0 ? FAIL_JOURNAL : 0;
}

static bool failing_now(int call, int fd, int64_t offset, int64_t size) {
    bool fails = false;
    pthread_mutex_lock(&failing.lock);
    const failing_t *now = &failing.now;
    struct stat file;
    bool meant = now->inode == 0 || (fstat(fd, &file) == 0 && file.st_ino == now->inode);
    bool touched = now->end == 0 || (offset < now->end && offset + size > now->begin);
    if ((now->calls & call) != 0 && meant && touched && (now->files & failing_file(fd)) != 0) {
        unsigned from = now->from > 0 ? now->from : 1;
        failing.count++;
        fails = failing.count >= from && (now->times == 0 || failing.count < from + now->times);
    }
    if (fails) {
        errno = now->error;
    }
    pthread_mutex_unlock(&failing.lock);
    return fails;
}

/* The names that the store and LMDB call. Headers may rename the calls of this file, so the symbols are spelt out. */
static ssize_t failing_write(int fd, const void *at, size_t size, int64_t offset) {
    if (failing_now(FAIL_WRITE, fd, offset, (int64_t)size)) {
        return -1;
    }
    return FAILING_REAL(ssize_t, "pwrite64", int, const void *, size_t, int64_t)(fd, at, size, offset);
}

static ssize_t failing_read(int fd, void *at, size_t size, int64_t offset) {
    if (failing_now(FAIL_READ, fd, offset, (int64_t)size)) {
        return -1;
    }
    return FAILING_REAL(ssize_t, "pread64", int, void *, size_t, int64_t)(fd, at, size, offset);
}

ssize_t failing_shim_pwrite(int fd, const void *at, size_t size, long offset) __asm__("pwrite");
ssize_t failing_shim_pwrite(int fd, const void *at, size_t size, long offset) {
    return failing_write(fd, at, size, offset);
}

ssize_t failing_shim_pwrite64(int fd, const void *at, size_t size, int64_t offset) __asm__("pwrite64");
ssize_t failing_shim_pwrite64(int fd, const void *at, size_t size, int64_t offset) {
    return failing_write(fd, at, size, offset);
}

ssize_t failing_shim_pread(int fd, void *at, size_t size, long offset) __asm__("pread");
ssize_t failing_shim_pread(int fd, void *at, size_t size, long offset) {
    return failing_read(fd, at, size, offset);
}

ssize_t failing_shim_pread64(int fd, void *at, size_t size, int64_t offset) __asm__("pread64");
ssize_t failing_shim_pread64(int fd, void *at, size_t size, int64_t offset) {
    return failing_read(fd, at, size, offset);
}

ssize_t failing_shim_writev(int fd, const struct iovec *parts, int count) __asm__("writev");
ssize_t failing_shim_writev(int fd, const struct iovec *parts, int count) {
    int64_t size = 0;
    for (int i = 0; i < count; i++) {
        size += (int64_t)parts[i].iov_len;
    }
    if (failing_now(FAIL_WRITE, fd, lseek(fd, 0, SEEK_CUR), size)) {
        return -1;
    }
    return FAILING_REAL(ssize_t, "writev", int, const struct iovec *, int)(fd, parts, count);
}

int failing_shim_fdatasync(int fd) __asm__("fdatasync");
int failing_shim_fdatasync(int fd) {
    bool met = failing_now(FAIL_SYNC, fd, 0, INT64_MAX);
    bool slow = met && failing_slow();
    while (slow && failing_slow()) {
        usleep(1000);
    }
    return met && !slow ? -1 : FAILING_REAL(int, "fdatasync", int)(fd);
}

#endif
