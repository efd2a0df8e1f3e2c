/* unread_preload.c: for LD_PRELOAD: a disk that does not give one page of a store's data.mdb, to a daemon as it is. The
 * file that LEAFD_UNREAD names says which: "INODE PAGE"; it is looked at each 50 ms. What then happens, see
 * tests/native/unread_pages.h.
 */
#include <stdlib.h>

#include "../native/unread_pages.h"

static bool look(const char *path, uint64_t *inode, unsigned *page) {
    unsigned long long number = 0;
    FILE *file = fopen(path, "r");
    bool told = file != NULL && fscanf(file, "%llu %u", &number, page) == 2;
    if (file != NULL) {
        fclose(file);
    }
    *inode = number;
    return told;
}

static void *poll_it(void *context) {
    const char *path = context;
    uint64_t inode;
    unsigned page;
    while (!look(path, &inode, &page)) {
        usleep(50000);
    }
    unread_inode(inode, page, 1, true);
    return NULL;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("LEAFD_UNREAD");
    uint64_t inode;
    unsigned page;
    pthread_t thread;
    if (path == NULL) {
        return;
    }
    if (look(path, &inode, &page)) {
        unread_inode(inode, page, 1, true);
    } else if (pthread_create(&thread, NULL, poll_it, (void *)(uintptr_t)path) == 0) {
        pthread_detach(thread);
    }
}
