/* directory.h: where the planes of the C tests keep their stores, and how large a journal those have. Not in memory:
 * there a log of several servers takes proposals so fast that what is to wait for room does not always wait.
 */
#ifndef LEAFD_TESTS_DIRECTORY_H
#define LEAFD_TESTS_DIRECTORY_H

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "test.h"

/* A new store writes all of its journal, and a start reads it. Of 16 MiB, which leafd chooses, that was more than all
 * else that many a test does. */
#define DIRECTORY_JOURNAL (2u << 20)

/* A new one, whose name fits. */
static inline void directory_make(char *name, size_t size) {
    snprintf(name, size, "/tmp/leafd-test-XXXXXX");
    CHECK(mkdtemp(name) != NULL);
}

/* Likewise in memory, where there is such a place: for whoever opens thousands of stores and has no use for a disk. A
 * store that is made there and left takes 20 ms; the syncs of one on a disk that others use take 300. */
static inline void directory_make_in_memory(char *name, size_t size) {
    snprintf(name, size, "%s/leafd-test-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    CHECK(mkdtemp(name) != NULL);
}

/* One with files alone in it, by no shell. */
static inline void directory_remove_files(const char *name) {
    DIR *names = opendir(name);
    CHECK(names != NULL);
    for (const struct dirent *entry; (entry = readdir(names)) != NULL;) {
        (void)unlinkat(dirfd(names), entry->d_name, 0); /* not "." and ".." */
    }
    closedir(names);
    CHECK(rmdir(name) == 0);
}

static inline void directory_remove(const char *name) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", name);
    CHECK(system(command) == 0);
}

#endif
