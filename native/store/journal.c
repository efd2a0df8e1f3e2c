/* journal.c: see journal.h. */
#include "store/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/crc.h"

#define MAGIC "leafdjnl"
#define CHUNK (UINT64_C(1) << 20)

static const journal_io_t real_io = {.write_at = pwrite, .sync = fdatasync};
static const journal_io_t *io = &real_io;

void journal_io_replace(const journal_io_t *replacement) {
    io = replacement != NULL ? replacement : &real_io;
}

static status_t status_of(int error) {
    return error == ENOSPC || error == EDQUOT || error == EFBIG ? STATUS_NO_SPACE : STATUS_IO;
}

/* direct_fd (-1: none) takes whole blocks only; the rest of a write that was cut short within one goes through fd. */
static status_t write_all(int fd, int direct_fd, const uint8_t *at, uint64_t size, uint64_t offset) {
    while (size > 0) {
        bool whole = direct_fd >= 0 && (offset | size) % JOURNAL_ALIGNMENT == 0;
        ssize_t done = io->write_at(whole ? direct_fd : fd, at, (size_t)size, (off_t)offset);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return done < 0 ? status_of(errno) : STATUS_IO;
        }
        at += done;
        size -= (uint64_t)done;
        offset += (uint64_t)done;
    }
    return STATUS_OK;
}

static status_t read_all(int fd, uint8_t *at, uint64_t size, uint64_t offset) {
    while (size > 0) {
        ssize_t done = pread(fd, at, (size_t)size, (off_t)offset);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return done < 0 ? STATUS_IO : STATUS_CORRUPT;
        }
        at += done;
        size -= (uint64_t)done;
        offset += (uint64_t)done;
    }
    return STATUS_OK;
}

/* Every block is written once: fdatasync then has no metadata to write, neither sizes nor extents that turn from reserved to
 * written. The first block comes last, so that a file that lacks the rest is not taken for a journal. */
static status_t fill(int fd, uint64_t size, const uint8_t store_id[STORE_ID_SIZE]) {
    int error = posix_fallocate(fd, 0, (off_t)(JOURNAL_START + size));
    if (error != 0 && error != EOPNOTSUPP && error != EINVAL) {
        return status_of(error);
    }
    uint8_t *zeros = calloc(1, CHUNK);
    if (zeros == NULL) {
        return STATUS_NO_MEMORY;
    }
    status_t status = STATUS_OK;
    for (uint64_t at = 0; status == STATUS_OK && at < size; at += CHUNK) {
        status = write_all(fd, -1, zeros, size - at < CHUNK ? size - at : CHUNK, JOURNAL_START + at);
    }
    if (status == STATUS_OK) {
        status = io->sync(fd) == 0 ? STATUS_OK : status_of(errno);
    }
    if (status == STATUS_OK) {
        memcpy(zeros, MAGIC, 8);
        store_be32(zeros + 8, STORE_FORMAT);
        store_be64(zeros + 16, size);
        memcpy(zeros + 24, store_id, STORE_ID_SIZE);
        store_be32(zeros + 12, crc32c(0, zeros + 16, JOURNAL_START - 16));
        status = write_all(fd, -1, zeros, JOURNAL_START, 0);
    }
    if (status == STATUS_OK) {
        status = io->sync(fd) == 0 ? STATUS_OK : status_of(errno);
    }
    free(zeros);
    return status;
}

/* STATUS_NOT_FOUND: no journal, or one whose making was cut short. */
static status_t inspect(int fd, const uint8_t store_id[STORE_ID_SIZE], uint64_t *size, const char **complaint) {
    uint8_t block[JOURNAL_START];
    status_t status = read_all(fd, block, sizeof block, 0);
    if (status == STATUS_CORRUPT) {
        return STATUS_NOT_FOUND;
    }
    if (status != STATUS_OK) {
        *complaint = "it cannot be read";
        return status;
    }
    static const uint8_t zeros[8];
    if (memcmp(block, zeros, 8) == 0) {
        return STATUS_NOT_FOUND;
    }
    if (memcmp(block, MAGIC, 8) != 0) {
        *complaint = "it is not a journal of leafd; move it away if it is not needed";
        return STATUS_CORRUPT;
    }
    if (load_be32(block + 8) > STORE_FORMAT) {
        *complaint = "it was written by a newer leafd; run that version or use another store directory";
        return STATUS_VERSION;
    }
    if (load_be32(block + 12) != crc32c(0, block + 16, JOURNAL_START - 16)) {
        *complaint = "its first block is damaged";
        return STATUS_CORRUPT;
    }
    if (memcmp(block + 24, store_id, STORE_ID_SIZE) != 0) {
        *complaint = "it belongs to another store";
        return STATUS_CORRUPT;
    }
    *size = load_be64(block + 16);
    struct stat stat;
    if (fstat(fd, &stat) != 0 || *size < BATCH_RING_MIN || *size % (64 * 1024) != 0 ||
        (uint64_t)stat.st_size < JOURNAL_START + *size) {
        *complaint = "its size is not what its first block says";
        return STATUS_CORRUPT;
    }
    return STATUS_OK;
}

bool journal_exists(const char *directory) {
    static const uint8_t zeros[8];
    uint8_t magic[sizeof zeros] = {0};
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/journal", directory);
    int fd = length > 0 && (size_t)length < sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) {
        return errno != ENOENT; /* one that cannot be read is there all the same */
    }
    ssize_t got = pread(fd, magic, sizeof magic, 0);
    close(fd);
    return got < 0 || memcmp(magic, zeros, sizeof magic) != 0;
}

status_t journal_open(journal_t *journal, const char *directory, uint64_t size, const uint8_t store_id[STORE_ID_SIZE], char *reason,
                      size_t reason_size) {
    char path[4096];
    const char *complaint = NULL;
    *journal = (journal_t){.fd = -1, .direct_fd = -1};
    int length = snprintf(path, sizeof path, "%s/journal", directory);
    if (length < 0 || (size_t)length >= sizeof path) {
        snprintf(reason, reason_size, "the path of the store directory %s is too long", directory);
        return STATUS_INVALID;
    }
    journal->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (journal->fd < 0) {
        status_t status = status_of(errno);
        snprintf(reason, reason_size, "cannot open %s: %s", path, strerror(errno));
        return status;
    }
    status_t status = inspect(journal->fd, store_id, &journal->size, &complaint);
    if (status == STATUS_NOT_FOUND) {
        journal->created = true;
        journal->size = size;
        status = fill(journal->fd, size, store_id);
        complaint = status == STATUS_NO_SPACE ? "there is no room for it on the disk" : "it cannot be written";
    }
    if (status != STATUS_OK) {
        snprintf(reason, reason_size, "cannot use the journal %s: %s", path, complaint);
        journal_close(journal);
        return status;
    }
    /* -1 where the file system cannot (tmpfs, some overlays): then the page cache it is. */
    journal->direct_fd = open(path, O_WRONLY | O_DIRECT | O_CLOEXEC);
    return STATUS_OK;
}

void journal_close(journal_t *journal) {
    if (journal->direct_fd >= 0) {
        close(journal->direct_fd);
        journal->direct_fd = -1;
    }
    if (journal->fd >= 0) {
        close(journal->fd);
        journal->fd = -1;
    }
}

status_t journal_write(journal_t *journal, const uint8_t *at, uint64_t position, uint64_t size) {
    uint64_t place = position % journal->size;
    /* Whole blocks: what lies between a batch's end and the next boundary belongs to nobody. */
    size = (size + JOURNAL_ALIGNMENT - 1) & ~(uint64_t)(JOURNAL_ALIGNMENT - 1);
    uint64_t first = journal->size - place < size ? journal->size - place : size;
    status_t status = write_all(journal->fd, journal->direct_fd, at, first, JOURNAL_START + place);
    if (status == STATUS_OK && first < size) {
        status = write_all(journal->fd, journal->direct_fd, at + first, size - first, JOURNAL_START);
    }
    return status;
}

status_t journal_sync(journal_t *journal) {
    return io->sync(journal->fd) == 0 ? STATUS_OK : status_of(errno);
}

static status_t read_circle(journal_t *journal, uint8_t *to, uint64_t position, uint64_t size) {
    uint64_t place = position % journal->size;
    uint64_t first = journal->size - place < size ? journal->size - place : size;
    status_t status = read_all(journal->fd, to, first, JOURNAL_START + place);
    if (status == STATUS_OK && first < size) {
        status = read_all(journal->fd, to + first, size - first, JOURNAL_START);
    }
    return status;
}

status_t journal_read(journal_t *journal, const batches_t *batches, uint64_t position, uint64_t number, uint32_t chain,
                      batch_header_t *header) {
    check(batches->size == journal->size);
    uint8_t *to = batches_at(batches, position);
    status_t status = read_circle(journal, to, position, JOURNAL_ALIGNMENT);
    if (status != STATUS_OK) {
        return status;
    }
    if (!batch_header_read(to, header) || header->position != position || header->number != number || header->chain != chain) {
        return STATUS_NOT_FOUND;
    }
    if (header->size > journal->size) {
        return STATUS_NOT_FOUND;
    }
    status = read_circle(journal, to, position, header->size);
    if (status != STATUS_OK) {
        return status;
    }
    if (batch_crc(to, header->size) != header->crc) {
        return STATUS_NOT_FOUND;
    }
    return header->format > STORE_FORMAT ? STATUS_VERSION : STATUS_OK;
}
