/* unread_pages.h: pages of a store's data.mdb that the disk does not give: through its maps a read gets SIGBUS, as the
 * kernel does it, and pread gets EIO (failing_disk.h). Stands between the program and mmap.
 *
 *     unread_pages(path, 7, 1, true)     from now on, in every map of the file, also in those that are made later
 *     unread_pages(path, 7, 1, false)    once: who lays the file there again gets its bytes
 *     unread_none()                      the disk gives them again, to whoever lays the file there once more
 *
 * In the place of a bad page lies one of an empty file: there is nothing to read behind a file's end.
 */
#ifndef LEAFD_TESTS_UNREAD_PAGES_H
#define LEAFD_TESTS_UNREAD_PAGES_H

#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "failing_disk.h"

/* Sanitizers call these while they begin. */
#define UNREAD_EARLY __attribute__((no_sanitize("address", "thread", "undefined")))
#define UNREAD_MAPS 16
#define UNREAD_PAGE 4096

static struct {
    pthread_mutex_t lock;
    struct {
        uint8_t *at;
        size_t size;
        int fd;
        uint64_t inode;
    } maps[UNREAD_MAPS];
    int64_t begin;
    int64_t end;
    uint64_t inode;
    bool stays; /* also where the file is laid there once more */
    int empty;
} unread = {.lock = PTHREAD_MUTEX_INITIALIZER, .empty = -1};

#ifdef SYS_mmap2
#define UNREAD_MMAP SYS_mmap2
#define UNREAD_UNIT UNREAD_PAGE /* of its offset */
#else
#define UNREAD_MMAP SYS_mmap
#define UNREAD_UNIT 1
#endif

UNREAD_EARLY static void *unread_raw(void *at, size_t size, int protection, int flags, int fd, int64_t offset) {
    return (void *)FAILING_REAL(long, "syscall", long, ...)(UNREAD_MMAP, at, size, protection, flags, fd,
                                                            (long)(offset / UNREAD_UNIT));
}

/* Of a piece of the file that lies there. */
static void unread_break(uint8_t *at, size_t size, int64_t offset) {
    for (int64_t page = unread.begin; page < unread.end; page += UNREAD_PAGE) {
        if (page >= offset && page < offset + (int64_t)size) {
            if (unread.empty < 0) {
                unread.empty = memfd_create("nothing", 0);
            }
            (void)unread_raw(at + (page - offset), UNREAD_PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, unread.empty, 0);
        }
    }
}

static bool unread_meant(int fd) {
    struct stat file;
    return fd >= 0 && fstat(fd, &file) == 0 && file.st_ino == unread.inode;
}

static inline void unread_inode(uint64_t inode, unsigned first, unsigned count, bool stays) {
    pthread_mutex_lock(&unread.lock);
    unread.begin = (int64_t)first * UNREAD_PAGE;
    unread.end = unread.begin + (int64_t)count * UNREAD_PAGE;
    unread.stays = stays;
    unread.inode = inode;
    for (int i = 0; i < UNREAD_MAPS; i++) {
        if (unread.maps[i].at != NULL && unread.maps[i].inode == inode) {
            unread_break(unread.maps[i].at, unread.maps[i].size, 0);
        }
    }
    pthread_mutex_unlock(&unread.lock);
    failing_disk((failing_t){.files = FAIL_HOME,
                             .calls = FAIL_READ,
                             .error = EIO,
                             .begin = unread.begin,
                             .end = unread.end,
                             .inode = inode});
}

static inline void unread_pages(const char *path, unsigned first, unsigned count, bool stays) {
    struct stat file = {0};
    (void)stat(path, &file);
    unread_inode(file.st_ino, first, count, stays);
}

static inline void unread_none(void) {
    pthread_mutex_lock(&unread.lock);
    for (int i = 0; i < UNREAD_MAPS; i++) {
        if (unread.maps[i].at != NULL && unread.maps[i].inode == unread.inode && unread.end > unread.begin) {
            (void)unread_raw(unread.maps[i].at + unread.begin, (size_t)(unread.end - unread.begin), PROT_READ,
                             MAP_SHARED | MAP_FIXED, unread.maps[i].fd, unread.begin);
        }
    }
    unread.begin = unread.end = 0;
    pthread_mutex_unlock(&unread.lock);
    failing_disk((failing_t){0});
}

UNREAD_EARLY static void *unread_map(void *at, size_t size, int protection, int flags, int fd, int64_t offset) {
    /* The C library's, or a sanitizer's, which keeps a book of maps; raw where nothing but the kernel may be called. */
    void *done = (flags & MAP_FIXED) != 0 ? unread_raw(at, size, protection, flags, fd, offset)
                                          : FAILING_REAL(void *, "mmap64", void *, size_t, int, int, int,
                                                         int64_t)(at, size, protection, flags, fd, offset);
    if (fd < 0 || done == MAP_FAILED || failing_file(fd) != FAIL_HOME) {
        return done;
    }
    struct stat file = {0};
    (void)fstat(fd, &file);
    pthread_mutex_lock(&unread.lock);
    for (int i = 0; i < UNREAD_MAPS && (flags & MAP_FIXED) == 0; i++) {
        if (unread.maps[i].at == NULL) {
            unread.maps[i].at = done;
            unread.maps[i].size = size;
            unread.maps[i].fd = dup(fd);
            unread.maps[i].inode = file.st_ino;
            break;
        }
    }
    if (unread_meant(fd) && ((flags & MAP_FIXED) == 0 || unread.stays)) {
        unread_break(done, size, offset);
    }
    pthread_mutex_unlock(&unread.lock);
    return done;
}

void *unread_shim_mmap(void *at, size_t size, int protection, int flags, int fd, long offset) __asm__("mmap");
UNREAD_EARLY void *unread_shim_mmap(void *at, size_t size, int protection, int flags, int fd, long offset) {
    return unread_map(at, size, protection, flags, fd, offset);
}

void *unread_shim_mmap64(void *at, size_t size, int protection, int flags, int fd, int64_t offset) __asm__("mmap64");
UNREAD_EARLY void *unread_shim_mmap64(void *at, size_t size, int protection, int flags, int fd, int64_t offset) {
    return unread_map(at, size, protection, flags, fd, offset);
}

int unread_shim_munmap(void *at, size_t size) __asm__("munmap");
UNREAD_EARLY int unread_shim_munmap(void *at, size_t size) {
    for (int i = 0; i < UNREAD_MAPS; i++) {
        if (at != NULL && unread.maps[i].at == at) {
            pthread_mutex_lock(&unread.lock);
            close(unread.maps[i].fd);
            unread.maps[i].at = NULL;
            pthread_mutex_unlock(&unread.lock);
        }
    }
    return FAILING_REAL(int, "munmap", void *, size_t)(at, size);
}

/* disk/unread.c lays maps without the C library's mmap. */
long unread_shim_syscall(long number, ...) __asm__("syscall");
UNREAD_EARLY long unread_shim_syscall(long number, ...) {
    long a[6];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(rest, long);
    }
    va_end(rest);
    if (number == UNREAD_MMAP && (int)a[4] >= 0) {
        return (long)unread_map((void *)a[0], (size_t)a[1], (int)a[2], (int)a[3], (int)a[4],
                                (int64_t)a[5] * UNREAD_UNIT);
    }
    return FAILING_REAL(long, "syscall", long, ...)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#endif
