/* test_unread.c: pages of a mapped file that are not there any more, because the file ends before them: the
 * kernel's own SIGBUS. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "disk/unread.h"
#include "test.h"

#define PAGES (2 * UNREAD_PLACES)

static size_t page_size;
static int fd;
static uint8_t *map;
static unread_watch_t *watch;

static void fill(void) {
    uint8_t *page = malloc(page_size);
    CHECK(page != NULL);
    for (uint32_t i = 0; i < PAGES; i++) {
        memset(page, (int)i + 1, page_size);
        CHECK_EQ_I64((int64_t)page_size, pwrite(fd, page, page_size, (off_t)(i * page_size)));
    }
    free(page);
}

static void begin(void) {
    page_size = (size_t)sysconf(_SC_PAGESIZE);
    fd = memfd_create("unread", MFD_CLOEXEC);
    CHECK(fd >= 0);
    fill();
    map = mmap(NULL, PAGES * page_size, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED);
    watch = unread_watch(map, PAGES * page_size, fd, false);
    CHECK(watch != NULL);
}

static void end(void) {
    unread_forget(watch);
    munmap(map, PAGES * page_size);
    close(fd);
}

/* The byte in the midst of it. */
static uint8_t byte_of(uint32_t page) {
    return *(volatile uint8_t *)(map + page * page_size + page_size / 2);
}

static bool covers(uint32_t page) {
    return unread_covers(watch, map + page * page_size, page_size);
}

static void cut(uint32_t pages) {
    CHECK_EQ_I64(0, ftruncate(fd, (off_t)(pages * page_size)));
}

static void one_page(void) {
    begin();
    cut(PAGES - 1);
    CHECK_EQ_U64(0, byte_of(PAGES - 1));
    CHECK_EQ_U64(1, unread_count(watch));
    CHECK_EQ_U64((PAGES - 1) * page_size, unread_last(watch));
    CHECK(covers(PAGES - 1) && !covers(PAGES - 2));
    CHECK_EQ_U64(PAGES - 1, byte_of(PAGES - 2));
    CHECK_EQ_U64(0, byte_of(PAGES - 1));
    CHECK_EQ_U64(1, unread_count(watch)); /* the zeros are read */
    unread_again(watch);
    CHECK(!covers(PAGES - 1));
    CHECK_EQ_U64(0, byte_of(PAGES - 1)); /* not given again */
    CHECK_EQ_U64(2, unread_count(watch));
    fill();
    unread_again(watch);
    CHECK_EQ_U64(PAGES, byte_of(PAGES - 1));
    CHECK_EQ_U64(2, unread_count(watch));
    end();
}

static void more_than_are_noted(void) {
    begin();
    cut(0);
    for (uint32_t page = 0; page < PAGES; page++) {
        CHECK_EQ_U64(0, byte_of(page));
        CHECK(covers(page));
    }
    CHECK_EQ_U64(UNREAD_PLACES + 1, unread_count(watch)); /* then zeros lie everywhere */
    fill();
    unread_again(watch);
    for (uint32_t page = 0; page < PAGES; page++) {
        CHECK(!covers(page));
        CHECK_EQ_U64(page + 1, byte_of(page));
    }
    end();
}

static void no_room(void) {
    unread_watch_t *watches[UNREAD_WATCHES];
    begin();
    unsigned count = 0;
    while (count < UNREAD_WATCHES && (watches[count] = unread_watch(map, page_size, fd, false)) != NULL) {
        count++;
    }
    CHECK_EQ_U64(UNREAD_WATCHES - 1, count);
    while (count > 0) {
        unread_forget(watches[--count]);
    }
    CHECK(!unread_covers(NULL, map, page_size));
    CHECK_EQ_U64(0, unread_count(NULL));
    end();
}

int main(void) {
    RUN("a page that is not given reads as zeros, which are known as such, until it is given", one_page);
    RUN("when more are not given than are noted, nothing of the map counts as given", more_than_are_noted);
    RUN("what is not watched for want of room is no error, and covers nothing", no_room);
    return TEST_RESULT();
}
