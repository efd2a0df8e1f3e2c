/* full_disk.h: a disk that is full for LMDB's file, whenever a test says so. Stands between the program and the C
 * library, LMDB's calls included, and refuses with ENOSPC what would need a block that the file does not have.
 *
 *     full_disk(FULL_BLOCKS)    writes go up to what fallocate gave before, or the file's size; it gives nothing,
 *                               statvfs says 0 bytes free
 *     full_disk(FULL_GROWTH)    the same, but what fallocate gave does not count
 *     full_disk(FULL_ALL)       no write at all: worse than a disk can be that keeps what it reserved
 *     full_disk(FULL_OFF)
 */
#ifndef LEAFD_TESTS_FULL_DISK_H
#define LEAFD_TESTS_FULL_DISK_H

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

typedef enum full_disk {
    FULL_OFF = 0,
    FULL_BLOCKS,
    FULL_GROWTH,
    FULL_ALL,
} full_disk_t;

static _Atomic int full_disk_mode;
static _Atomic int full_disk_refused;      /* calls, since it was set last */
static _Atomic int64_t full_disk_end;      /* of the file, when it was seen first */
static _Atomic int64_t full_disk_reserved; /* end of what fallocate gave, for a test of one store to reset */

static inline void full_disk(full_disk_t mode) {
    atomic_store(&full_disk_refused, 0);
    atomic_store(&full_disk_end, -1);
    atomic_store(&full_disk_mode, (int)mode);
}

#define FULL_DISK_REAL(result, name, ...) ((result (*)(__VA_ARGS__))(uintptr_t)dlsym(RTLD_NEXT, name))

static bool full_disk_lmdb(int fd) {
    char link[32];
    char path[256];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    path[size > 0 ? size : 0] = 0;
    return strstr(path, "/data.mdb") != NULL;
}

static bool full_disk_refuses(int fd, int64_t end) {
    int mode = atomic_load(&full_disk_mode);
    struct stat file;
    if (mode == FULL_OFF || !full_disk_lmdb(fd) || fstat(fd, &file) != 0) {
        return false;
    }
    int64_t unseen = -1;
    atomic_compare_exchange_strong(&full_disk_end, &unseen, (int64_t)file.st_size);
    if (mode != FULL_ALL && end <= atomic_load(&full_disk_end)) {
        return false;
    }
    if (mode == FULL_BLOCKS && end <= atomic_load(&full_disk_reserved)) {
        return false;
    }
    atomic_fetch_add(&full_disk_refused, 1);
    errno = ENOSPC;
    return true;
}

ssize_t full_disk_pwrite(int fd, const void *at, size_t size, long offset) __asm__("pwrite");
ssize_t full_disk_pwrite(int fd, const void *at, size_t size, long offset) {
    if (full_disk_refuses(fd, offset + (int64_t)size)) {
        return -1;
    }
    return FULL_DISK_REAL(ssize_t, "pwrite64", int, const void *, size_t, int64_t)(fd, at, size, offset);
}

ssize_t full_disk_writev(int fd, const struct iovec *parts, int count) __asm__("writev");
ssize_t full_disk_writev(int fd, const struct iovec *parts, int count) {
    int64_t end = lseek(fd, 0, SEEK_CUR);
    for (int i = 0; i < count; i++) {
        end += (int64_t)parts[i].iov_len;
    }
    if (full_disk_refuses(fd, end)) {
        return -1;
    }
    return FULL_DISK_REAL(ssize_t, "writev", int, const struct iovec *, int)(fd, parts, count);
}

/* as our own files are compiled */
int full_disk_fallocate(int fd, int mode, long offset, long size) __asm__("fallocate64");
int full_disk_fallocate(int fd, int mode, long offset, long size) {
    if (full_disk_refuses(fd, INT64_MAX)) {
        return -1;
    }
    int status = FULL_DISK_REAL(int, "fallocate64", int, int, int64_t, int64_t)(fd, mode, offset, size);
    if (status == 0 && full_disk_lmdb(fd) && offset + size > atomic_load(&full_disk_reserved)) {
        atomic_store(&full_disk_reserved, offset + size);
    }
    return status;
}

int full_disk_fstatvfs(int fd, struct statvfs *disk) __asm__("fstatvfs64");
int full_disk_fstatvfs(int fd, struct statvfs *disk) {
    int status = FULL_DISK_REAL(int, "fstatvfs64", int, struct statvfs *)(fd, disk);
    if (status == 0 && atomic_load(&full_disk_mode) != FULL_OFF) {
        disk->f_bavail = 0;
    }
    return status;
}

#endif
