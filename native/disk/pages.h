/* pages.h: is a file of LMDB's sound in its structure? Asked without LMDB, which believes every page that it reads. */
#ifndef LEAFD_DISK_PAGES_H
#define LEAFD_DISK_PAGES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* A file may be shorter than its newest commit says (pages at its end that were freed before they were written), or it
 * was cut off. */
bool pages_cut_short(const char *path);
/* Reads every page that the newest commit reaches. STATUS_CORRUPT: reason says what is wrong, and where (a page that
 * the disk does not give is wrong, too: LMDB would end the process over it); STATUS_IO: the file cannot be opened. */
LEAF_MUST_USE status_t pages_check(const char *path, char *reason, size_t reason_size);

#endif
