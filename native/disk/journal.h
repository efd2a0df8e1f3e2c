/* journal.h: the journal's file. One preallocated file, written in a circle, in step with the byte ring of batch.h: a
 * batch at position p lies at offset JOURNAL_START + p % size. Knows files and batch headers; knows no ops, no LMDB, no
 * thread.
 *
 *   offset 0       magic "leafdjnl" 8, format 4, crc 4 (over what follows), size 8, store id 16, origin 8, zeros
 *   JOURNAL_START  the circle: batches, each beginning on a 4 KiB boundary, so that writing one never writes again a
 *                  block that holds an acknowledged one (a torn write of a block could take that one along)
 *
 * Behind the last batch, when the journal has been idle for a moment, a mark: magic "leafdend" 8, position 8, number 8,
 * chain 4 (of the batch to come), crc 4, store id 16: everything before it is on disk. The next batch is written over
 * it.
 *
 * A batch may be compressed (squeeze.h) and then writes fewer blocks than its span has. The next one begins behind the
 * span all the same, and in the blocks between is what earlier laps left.
 *
 * Written past the page cache (O_DIRECT) where the file system can: the same time on the disk, a third less of the
 * processor for a batch (4 KiB: 35 us instead of 50, 100 KiB: 55 instead of 80), and no second copy of the journal in
 * memory.
 *
 * Replay walks from the position that LMDB's "applied" record names. A batch is valid there when its header says that
 * position and the next number, its chain is the crc of the batch before, and its crc holds: a torn tail fails the crc,
 * an old lap the position, a leftover of a tail that an earlier start has cut off the chain. At the first one that is
 * not valid salvage.c finds out whether it is the end or damage.
 */
#ifndef LEAFD_DISK_JOURNAL_H
#define LEAFD_DISK_JOURNAL_H

#include <stddef.h>
#include <sys/types.h>

#include "base/bytes.h"
#include "base/status.h"
#include "disk/batch.h"
#include "disk/sealer.h"
#include "disk/squeeze.h"

#define JOURNAL_START 4096
#define JOURNAL_ALIGNMENT 4096

/* The system calls of the journal, in a table so that tests can fail the n-th. */
typedef struct journal_io {
    ssize_t (*write_at)(int fd, const void *at, size_t size, off_t offset);
    int (*sync)(int fd);
} journal_io_t;
/* For tests, before any store is opened; NULL puts the real ones back. */
void journal_io_replace(const journal_io_t *io);

/* A batch as it goes to the disk, in memory of its own: sealed, or compressed. */
typedef struct journal_stage {
    uint8_t *at; /* aligned for O_DIRECT */
    uint64_t capacity;
    uint64_t position; /* of the batch that it holds */
    bool holds;
} journal_stage_t;

typedef struct journal {
    const sealer_t *sealer; /* NULL: none. The caller's, set before the journal is opened or made, and kept by both */
    journal_stage_t stage;
    int fd;
    int direct_fd; /* O_DIRECT, for writing; -1: not to be had */
    uint64_t size;
    uint64_t origin; /* the position at which it was made; 0: not known */
    uint8_t store_id[STORE_ID_SIZE];
    bool squeezes;         /* batches may be compressed: set when META says that they may be */
    s2_encoder_t *encoder; /* NULL: no batch was compressed since journal_rest */
    uint64_t unreadable;   /* blocks of the circle that the disk did not give; they were taken for zeros */
} journal_t;

typedef enum journal_found {
    JOURNAL_SOUND = 0,
    JOURNAL_ABSENT,
    JOURNAL_BLANK,      /* its first block is zeros, or not there: its making was cut short, or it was damaged */
    JOURNAL_STRANGE,    /* its first block does not begin as a journal's */
    JOURNAL_HEADLESS,   /* its first block is damaged */
    JOURNAL_FOREIGN,    /* of another store */
    JOURNAL_SHORT,      /* not as large as its first block says */
    JOURNAL_UNREADABLE, /* the disk does not give its first block */
    JOURNAL_NEWER,      /* its first block says that a newer leafd wrote it */
} journal_found_t;

/* Is there one in directory whose making came to its end? (Not: is it sound.) */
bool journal_exists(const char *directory);
/* Looks at the journal in directory. STATUS_OK: *found says what it is; it is open, for looking at, whatever it is,
 * unless absent. */
LEAF_MUST_USE status_t journal_open(journal_t *journal, const char *directory, const uint8_t store_id[STORE_ID_SIZE],
                                    journal_found_t *found, char *reason, size_t reason_size);
/* Makes one of `size` bytes, over what is there; its first batch will be at `origin`. */
LEAF_MUST_USE status_t journal_make(journal_t *journal, const char *directory, uint64_t size,
                                    const uint8_t store_id[STORE_ID_SIZE], uint64_t origin, char *reason,
                                    size_t reason_size);
/* Whose the journal in directory is, by its first block. */
bool journal_owner(const char *directory, uint8_t store_id[STORE_ID_SIZE]);
/* Finds, in a sound journal of that store, the beginning of the unbroken row of batches that ends with the newest one;
 * number and chain are those before. */
bool journal_row(journal_t *journal, const uint8_t store_id[STORE_ID_SIZE], uint64_t *position, uint64_t *number,
                 uint32_t *chain);
/* Answers for a journal that is open without a sound first block: does a batch in it end at position with that number
 * and crc, or begin there and go on from it? */
bool journal_continues(journal_t *journal, uint64_t position, uint64_t number, uint32_t chain,
                       const uint8_t store_id[STORE_ID_SIZE]);
/* Writes the first block anew. */
LEAF_MUST_USE status_t journal_head_again(journal_t *journal, const uint8_t store_id[STORE_ID_SIZE]);
/* No batch is left that says it begins at `from` or behind it: their headers are zeros, and synced. A
 * compressed batch does not write over all that an attempt before it left at its place. */
LEAF_MUST_USE status_t journal_blank(journal_t *journal, uint64_t from);
/* One that is JOURNAL_SHORT gets its length back; zeros stand for what was cut off. */
bool journal_lengthen(journal_t *journal);
void journal_close(journal_t *journal);
/* Writes size bytes (whole batches) from memory to the circle. Not durable before journal_sync. */
LEAF_MUST_USE status_t journal_write(journal_t *journal, const uint8_t *at, uint64_t position, uint64_t size);
/* With a sealer: makes the batch at position ready for the disk, which gives it its checksum; then writes it. Memory
 * for as much as the largest batch is kept until the journal is closed. */
LEAF_MUST_USE status_t journal_seal(journal_t *journal, uint8_t *batch, uint64_t position, uint32_t size);
/* Without one: compresses it, which gives it its checksum. false: it stays plain, since that would take no fewer
 * blocks, or there is no memory. */
LEAF_MUST_USE bool journal_squeeze(journal_t *journal, uint8_t *batch, uint64_t position, uint32_t size);
/* Writes such a batch. Not durable before journal_sync. */
LEAF_MUST_USE status_t journal_write_staged(journal_t *journal, const batches_t *batches, uint64_t position);
/* Nothing will be written again: the memory of compressed batches goes back. */
void journal_rest(journal_t *journal);
/* Writes the mark of the end. */
LEAF_MUST_USE status_t journal_mark(journal_t *journal, uint64_t position, uint64_t number, uint32_t chain,
                                    const uint8_t store_id[STORE_ID_SIZE]);
/* Is that a mark for position? */
bool mark_read(const uint8_t *at, uint64_t position, const uint8_t store_id[STORE_ID_SIZE], uint64_t *number,
               uint32_t *chain);
/* Reads a piece of the circle into the ring's memory as it is. */
LEAF_MUST_USE status_t journal_load(journal_t *journal, const batches_t *batches, uint64_t position, uint64_t size);
LEAF_MUST_USE status_t journal_sync(journal_t *journal);
/* Reads the batch at position into the ring's memory. *ended: there is none, the valid tail ends here. */
LEAF_MUST_USE status_t journal_read(journal_t *journal, const batches_t *batches, uint64_t position, uint64_t number,
                                    uint32_t chain, batch_header_t *header, bool *ended);

#endif
