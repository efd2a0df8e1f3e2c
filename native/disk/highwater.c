/* highwater.c: see highwater.h. */
#include "disk/highwater.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/crc.h"

#define MAGIC "leafdhwm"
#define NOTE_SIZE 48
#define FILE_SIZE 4096

static uint32_t note_crc(const uint8_t note[NOTE_SIZE]) {
    uint32_t crc = crc32c(0, note, 28);
    return crc32c(crc, note + 32, NOTE_SIZE - 32);
}

static entry_outcome_t note_read(int fd, const uint8_t store_id[HIGHWATER_ID_SIZE], highwater_mark_t *found) {
    static const uint8_t zeros[NOTE_SIZE];
    uint8_t note[NOTE_SIZE] = {0};
    ssize_t got;
    do {
        got = pread(fd, note, sizeof note, 0);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        return ENTRY_UNKNOWN;
    }
    if (memcmp(note, zeros, sizeof note) == 0) {
        return ENTRY_NONE; /* its making was cut short, or nothing was noted yet */
    }
    if (memcmp(note, MAGIC, 8) != 0 || load_be32(note + 28) != note_crc(note)) {
        return ENTRY_DAMAGED;
    }
    if (memcmp(note + 32, store_id, HIGHWATER_ID_SIZE) != 0) {
        return ENTRY_NONE;
    }
    *found = (highwater_mark_t){
        .position = load_be64(note + 8), .number = load_be64(note + 16), .chain = load_be32(note + 24)};
    return ENTRY_FOUND;
}

/* A whole block, so that no note ever has to ask for room. What is one stays as it is until something is noted: it may
 * be another store's, and this start be refused for that. */
static bool highwater_fill(int fd) {
    static const uint8_t zeros[FILE_SIZE];
    return pwrite(fd, zeros, sizeof zeros, 0) == (ssize_t)sizeof zeros;
}

entry_outcome_t highwater_open(highwater_t *highwater, const char *directory, const uint8_t store_id[HIGHWATER_ID_SIZE],
                               highwater_mark_t *found) {
    char path[4096];
    *highwater = (highwater_t){.fd = -1};
    int length = snprintf(path, sizeof path, "%s/highwater", directory);
    if (length < 0 || (size_t)length >= sizeof path) {
        return ENTRY_UNKNOWN;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0) {
        return errno == ENOSPC || errno == EDQUOT ? ENTRY_NONE : ENTRY_UNKNOWN;
    }
    entry_outcome_t outcome = note_read(fd, store_id, found);
    struct stat facts;
    bool whole = fstat(fd, &facts) == 0 && facts.st_size >= FILE_SIZE;
    switch (outcome) {
    case ENTRY_NONE:
    case ENTRY_DAMAGED:
    case ENTRY_UNKNOWN: whole = whole || highwater_fill(fd); break;
    case ENTRY_FOUND: whole = true; break;
    }
    if (whole) {
        highwater->fd = fd;
    } else {
        close(fd);
    }
    return outcome;
}

void highwater_note(const highwater_t *highwater, const uint8_t store_id[HIGHWATER_ID_SIZE], highwater_mark_t mark) {
    if (highwater->fd < 0) {
        return;
    }
    uint8_t note[NOTE_SIZE];
    memcpy(note, MAGIC, 8);
    store_be64(note + 8, mark.position);
    store_be64(note + 16, mark.number);
    store_be32(note + 24, mark.chain);
    memcpy(note + 32, store_id, HIGHWATER_ID_SIZE);
    store_be32(note + 28, note_crc(note));
    (void)!pwrite(highwater->fd, note, sizeof note, 0);
}

void highwater_close(highwater_t *highwater) {
    if (highwater->fd >= 0) {
        close(highwater->fd);
        highwater->fd = -1;
    }
}
