/* pages.h: is a file of LMDB's sound in its structure, and what does it hold? Asked without LMDB, which believes every
 * page that it reads. */
#ifndef LEAFD_RECOVERY_PAGES_H
#define LEAFD_RECOVERY_PAGES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/status.h"

#define PAGES_SIZE_MAX 65536
/* How many pages of the file the disk refuses; stops counting behind max. */
uint64_t pages_refused(const char *path, uint64_t max, uint8_t page[PAGES_SIZE_MAX]); /* page: room for one */
/* A file may be shorter than its newest commit says (pages at its end that were freed before they were written), or it
 * was cut off. */
bool pages_cut_short(const char *path);
/* How many bits the words of the machine have that wrote it; 0: as many as here, or the file does not say. */
uint32_t pages_of_others(const char *path);
/* Reads every page that the newest commit reaches; without `all` those of the store's own records and definitions,
 * which are few. STATUS_CORRUPT: reason says what is wrong, and where (a page that the disk does not give is wrong,
 * too: LMDB would end the process over it); STATUS_IO: the file cannot be opened. */
LEAF_MUST_USE status_t pages_check(const char *path, bool all, char *reason, size_t reason_size);
/* Reads which databases there are. As pages_check. */
LEAF_MUST_USE status_t pages_roots(const char *path, char *reason, size_t reason_size);

/* The commit that the file shows first: what a copy of it begins with. */
typedef struct pages_commit {
    uint64_t number;
    uint64_t last;                 /* page */
    uint32_t page_size;            /* 0: none */
    uint8_t page[PAGES_SIZE_MAX];  /* the first that says so */
    uint8_t other[PAGES_SIZE_MAX]; /* what stands beside it, of the commit before */
} pages_commit_t;
LEAF_MUST_USE status_t pages_commit_read(const char *path, pages_commit_t *commit, char *reason, size_t reason_size);

typedef struct pages_visit {
    void *context;
    const pages_commit_t *commit; /* whose entries; NULL: the newest one's */
    /* Are the entries of this database looked at? NULL: of all. */
    bool (*wanted)(void *context, const char *database);
    /* An entry, in the order in which it lies; what is given lives until this returns. A status that is not STATUS_OK
     * ends the walk and is returned. */
    status_t (*entry)(void *context, const char *database, bytes_t key, bytes_t value);
    /* A damaged page: what it held is left out but for what proves itself, and the walk goes on. */
    void (*damaged)(void *context, size_t page, const char *what);
    /* Names the database that has entries like that one. NULL: where the name is lost, so is what it named. */
    void (*name)(void *context, bytes_t key, bytes_t value, char name[64]);
    volatile uint64_t *done; /* bytes that were read, for another thread to look at; NULL: nobody does */
} pages_visit_t;
/* Goes through all entries, around what is damaged. Fails where the file cannot be opened, and where not even its first
 * pages tell what it holds: reason says so. */
LEAF_MUST_USE status_t pages_each(const char *path, const pages_visit_t *visit, char *reason, size_t reason_size);

#endif
