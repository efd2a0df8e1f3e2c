/* check.c: the end of the process when an invariant does not hold. Writes with write(2) alone: nothing else can be
 * trusted now. */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Noreturn void check_failed(const char *condition, const char *file, int line) {
    char text[512];
    int size = snprintf(text, sizeof text, "leafd: check failed: %s (%s:%d)\n", condition, file, line);
    if (size > 0) {
        size_t length = (size_t)size < sizeof text ? (size_t)size : sizeof text - 1;
        ssize_t written = write(STDERR_FILENO, text, length);
        (void)written; /* if even this write fails, there is nobody to report it to */
    }
    abort();
}
