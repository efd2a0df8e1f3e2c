/* unreserved.h: the blocks that a store reserves behind its last page are promised and not taken, for tests that open
 * stores thousands of times in memory: each time 4 MiB of it would be taken, cleared and given back, which is a fifth
 * of all that such a test does. Reservations, and what a full disk does to them, are tested in test_store_room.c,
 * test_store_duel.c, test_store_sparse.c and tests/crash. A block that is written is taken as ever, and other kinds of
 * fallocate() are the real ones.
 */
#ifndef LEAFD_TESTS_UNRESERVED_H
#define LEAFD_TESTS_UNRESERVED_H

#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Headers may rename the call of this file, so the symbol is spelt out. */
int unreserved_fallocate(int fd, int mode, int64_t offset, int64_t size) __asm__("fallocate64");
int unreserved_fallocate(int fd, int mode, int64_t offset, int64_t size) {
    return mode == FALLOC_FL_KEEP_SIZE ? 0 : (int)syscall(SYS_fallocate, fd, mode, offset, size);
}

#endif
