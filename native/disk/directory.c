/* directory.c: see directory.h. */
#include "disk/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_MAX_SIZE 4096

static void sync_names(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

static void sync_parent(const char *path) {
    char parent[PATH_MAX_SIZE];
    int size = snprintf(parent, sizeof parent, "%s/..", path);
    if (size > 0 && (size_t)size < sizeof parent) {
        sync_names(parent);
    }
}

int directory_make(const char *path) {
    char part[PATH_MAX_SIZE];
    size_t size = strlen(path);
    if (size == 0 || size >= sizeof part) {
        return ENAMETOOLONG;
    }
    for (size_t i = 1; i <= size; i++) {
        if (path[i] != '/' && path[i] != 0) {
            continue;
        }
        memcpy(part, path, i);
        part[i] = 0;
        if (mkdir(part, 0700) == 0) {
            sync_parent(part);
        } else if (errno != EEXIST) {
            return errno;
        }
    }
    return 0;
}

void directory_sync(const char *path) {
    sync_names(path);
    sync_parent(path);
}

int directory_lock(const char *path, char holder[32]) {
    char name[PATH_MAX_SIZE];
    int length = snprintf(name, sizeof name, "%s/lock", path);
    holder[0] = 0;
    errno = ENAMETOOLONG;
    int fd = length > 0 && (size_t)length < sizeof name ? open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0) {
        return -1;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        ssize_t size = pread(fd, holder, 31, 0);
        holder[size > 0 ? size : 0] = 0;
        if (holder[0] == 0) {
            memcpy(holder, "(unknown)", sizeof "(unknown)");
        }
        close(fd);
        return -1;
    }
    char text[32];
    int size = snprintf(text, sizeof text, "%ld", (long)getpid());
    /* Without the number the lock holds all the same. */
    if (ftruncate(fd, 0) == 0) {
        (void)!pwrite(fd, text, (size_t)size, 0);
    }
    return fd;
}
