/* directory.c: see directory.h. */
#include "disk/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
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
