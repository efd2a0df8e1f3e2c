/* directory.h: where the planes of the C tests keep their stores, and how large a journal those have. Not in memory:
 * there a log of several servers takes proposals so fast that what is to wait for room does not always wait.
 */
#ifndef LEAFD_TESTS_DIRECTORY_H
#define LEAFD_TESTS_DIRECTORY_H

#include <stdlib.h>

#include "test.h"

/* A new store writes all of its journal, and a start reads it. Of 16 MiB, which leafd chooses, that was more than all
 * else that many a test does. */
#define DIRECTORY_JOURNAL (2u << 20)

/* A new one, whose name fits. */
static inline void directory_make(char *name, size_t size) {
    snprintf(name, size, "/tmp/leafd-test-XXXXXX");
    CHECK(mkdtemp(name) != NULL);
}

static inline void directory_remove(const char *name) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", name);
    CHECK(system(command) == 0);
}

#endif
