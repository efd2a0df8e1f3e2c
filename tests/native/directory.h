/* directory.h: where the planes of the C tests keep their stores. Most of them are asked what they do, and not what a
 * disk does: theirs are in memory. The tests of native/store that are about files say themselves where those are.
 */
#ifndef LEAFD_TESTS_DIRECTORY_H
#define LEAFD_TESTS_DIRECTORY_H

#include <stdlib.h>
#include <sys/statvfs.h>

#include "test.h"

/* A new store writes all of its journal, and a start reads it. Of 16 MiB, which leafd chooses, that was more than all
 * else that many a test does. */
#define DIRECTORY_JOURNAL (2u << 20)
#define DIRECTORY_ROOM (UINT64_C(512) << 20) /* of what is in memory: several tests run at a time */

/* A new one, whose name fits. */
static inline void directory_make(char *name, size_t size) {
    struct statvfs there;
    bool memory = statvfs("/dev/shm", &there) == 0 && (there.f_flag & ST_RDONLY) == 0
                  && (uint64_t)there.f_bavail * there.f_frsize >= DIRECTORY_ROOM;
    snprintf(name, size, "%s/leafd-test-XXXXXX", memory ? "/dev/shm" : "/tmp");
    CHECK(mkdtemp(name) != NULL);
}

static inline void directory_remove(const char *name) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", name);
    CHECK(system(command) == 0);
}

#endif
