/* test_willneed.c: pages are in memory before a reader comes to them, when those before came in a row, and not
 * otherwise.
 */
#include "disk/willneed.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

#define PAGE 4096u
#define PAGES 512u
#define PATIENCE 2000 /* ms that the disk may take */

static char *map;

static bool in_memory(unsigned page) {
    unsigned char resident = 0;
    CHECK_EQ_I64(0, mincore(map + (size_t)page * PAGE, PAGE, &resident));
    return (resident & 1) != 0;
}

/* A file of which the page cache has nothing, mapped as LMDB maps its own. false: its file system is memory. */
static bool begin(void) {
    static uint8_t page[PAGE];
    char path[] = "/var/tmp/leafd-willneed-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    unlink(path);
    for (unsigned i = 0; i < PAGES; i++) {
        page[0] = (uint8_t)i;
        CHECK_EQ_I64(PAGE, write(fd, page, PAGE));
    }
    CHECK_EQ_I64(0, fsync(fd));
    CHECK_EQ_I64(0, posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
    map = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    CHECK(map != MAP_FAILED);
    CHECK_EQ_I64(0, madvise(map, (size_t)PAGES * PAGE, MADV_RANDOM));
    return !in_memory(0);
}

/* Where all of it is in memory there is nothing to see. */
static void end(void) {
    munmap(map, (size_t)PAGES * PAGE);
}

static bool soon_in_memory(unsigned page) {
    for (int i = 0; i < PATIENCE && !in_memory(page); i++) {
        usleep(1000);
    }
    return in_memory(page);
}

static void read_page(willneed_t *willneed, unsigned page) {
    const char *at = map + (size_t)page * PAGE;
    CHECK_EQ_U64((uint8_t)page, (uint8_t)*at);
    willneed_note(willneed, at + 100);
}

static void pages_in_a_row(void) {
    willneed_t willneed = {0};
    if (!begin()) {
        end();
        return;
    }
    for (unsigned page = 10; page < 20; page++) {
        read_page(&willneed, page + page / 4);
    }
    CHECK(soon_in_memory(40));
    CHECK(!in_memory(300));
    end();
}

static void single_pages(void) {
    static const unsigned pages[] = {400, 100, 300, 7, 200, 450, 150, 350, 250, 60};
    willneed_t willneed = {0};
    if (!begin()) {
        end();
        return;
    }
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        read_page(&willneed, pages[i]);
    }
    usleep(50000);
    unsigned count = 0;
    for (unsigned page = 0; page < PAGES; page++) {
        count += in_memory(page);
    }
    CHECK_EQ_U64(sizeof pages / sizeof *pages, count);
    end();
}

static void two_readers(void) {
    willneed_t willneed = {0};
    if (!begin()) {
        end();
        return;
    }
    for (unsigned page = 0; page < 10; page++) {
        read_page(&willneed, 10 + page);
        read_page(&willneed, 200 + page);
    }
    CHECK(soon_in_memory(40) && soon_in_memory(240));
    end();
}

int main(void) {
    RUN("the next pages of a row are there before they are read", pages_in_a_row);
    RUN("of pages somewhere each comes alone", single_pages);
    RUN("two readers of different parts have a row each", two_readers);
    return TEST_RESULT();
}
