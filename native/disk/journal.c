/* journal.c: see journal.h. */
#include "disk/journal.h"

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
#define LENGTHENED_MAX (UINT64_C(1) << 30)

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

/* Every block is written once: fdatasync then has no metadata to write, neither sizes nor extents that turn from
 * reserved to written. The first block comes last, so that a file that lacks the rest is not taken for a journal. */
static status_t write_head(const journal_t *journal, const uint8_t store_id[STORE_ID_SIZE]) {
    uint8_t block[JOURNAL_START] = {0};
    memcpy(block, MAGIC, 8);
    store_be32(block + 8, STORE_FORMAT);
    store_be64(block + 16, journal->size);
    memcpy(block + 24, store_id, STORE_ID_SIZE);
    store_be64(block + 40, journal->origin);
    store_be32(block + 12, crc32c(0, block + 16, JOURNAL_START - 16));
    status_t status = write_all(journal->fd, -1, block, JOURNAL_START, 0);
    if (status == STATUS_OK) {
        status = io->sync(journal->fd) == 0 ? STATUS_OK : status_of(errno);
    }
    return status;
}

static status_t fill(const journal_t *journal, const uint8_t store_id[STORE_ID_SIZE]) {
    static const uint8_t blank[JOURNAL_START];
    int fd = journal->fd;
    uint64_t size = journal->size;
    int error = posix_fallocate(fd, 0, (off_t)(JOURNAL_START + size));
    if (error != 0 && error != EOPNOTSUPP && error != EINVAL) {
        return status_of(error);
    }
    uint8_t *zeros = calloc(1, CHUNK);
    if (zeros == NULL) {
        return STATUS_NO_MEMORY;
    }
    status_t status = write_all(fd, -1, blank, JOURNAL_START, 0);
    for (uint64_t at = 0; status == STATUS_OK && at < size; at += CHUNK) {
        status = write_all(fd, -1, zeros, size - at < CHUNK ? size - at : CHUNK, JOURNAL_START + at);
    }
    if (status == STATUS_OK) {
        status = io->sync(fd) == 0 ? STATUS_OK : status_of(errno);
    }
    if (status == STATUS_OK) {
        status = write_head(journal, store_id);
    }
    free(zeros);
    return status;
}

static bool size_fits(int fd, uint64_t size) {
    struct stat stat;
    return fstat(fd, &stat) == 0 && size >= BATCH_RING_MIN && size % (64 * 1024) == 0
           && (uint64_t)stat.st_size >= JOURNAL_START + size;
}

static void inspect(journal_t *journal, const uint8_t store_id[STORE_ID_SIZE], journal_found_t *found) {
    static const uint8_t zeros[8];
    uint8_t block[JOURNAL_START];
    status_t status = read_all(journal->fd, block, sizeof block, 0);
    if (status == STATUS_CORRUPT || (status == STATUS_OK && memcmp(block, zeros, 8) == 0)) {
        *found = JOURNAL_BLANK;
        return;
    }
    if (status != STATUS_OK) {
        *found = JOURNAL_UNREADABLE;
        return;
    }
    bool sound = load_be32(block + 12) == crc32c(0, block + 16, JOURNAL_START - 16);
    if (memcmp(block, MAGIC, 8) != 0) {
        *found = JOURNAL_STRANGE;
    } else if (sound && load_be32(block + 8) > STORE_FORMAT) {
        *found = JOURNAL_NEWER; /* or the number is damaged, which no checksum covers: its batches tell */
    } else if (!sound) {
        *found = JOURNAL_HEADLESS;
    } else if (memcmp(block + 24, store_id, STORE_ID_SIZE) != 0) {
        *found = JOURNAL_FOREIGN;
    } else if (!size_fits(journal->fd, load_be64(block + 16))) {
        *found = JOURNAL_SHORT;
        journal->size = load_be64(block + 16);
        journal->origin = load_be64(block + 40);
    } else {
        *found = JOURNAL_SOUND;
        journal->size = load_be64(block + 16);
        journal->origin = load_be64(block + 40);
    }
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

static status_t path_of(const char *directory, char path[4096], char *reason, size_t reason_size) {
    int length = snprintf(path, 4096, "%s/journal", directory);
    if (length < 0 || length >= 4096) {
        snprintf(reason, reason_size, "the path of the store directory %s is too long", directory);
        return STATUS_INVALID;
    }
    return STATUS_OK;
}

status_t journal_open(journal_t *journal, const char *directory, const uint8_t store_id[STORE_ID_SIZE],
                      journal_found_t *found, char *reason, size_t reason_size) {
    char path[4096];
    *journal = (journal_t){.sealer = journal->sealer, .fd = -1, .direct_fd = -1};
    memcpy(journal->store_id, store_id, STORE_ID_SIZE);
    *found = JOURNAL_ABSENT;
    status_t status = path_of(directory, path, reason, reason_size);
    if (status != STATUS_OK) {
        return status;
    }
    journal->fd = open(path, O_RDWR | O_CLOEXEC);
    if (journal->fd < 0 && errno == ENOENT) {
        return STATUS_OK;
    }
    if (journal->fd < 0) {
        status = status_of(errno);
        snprintf(reason, reason_size, "cannot open %s: %s", path, strerror(errno));
        return status;
    }
    inspect(journal, store_id, found);
    /* -1 where the file system cannot (tmpfs, some overlays): then the page cache it is. */
    journal->direct_fd = open(path, O_WRONLY | O_DIRECT | O_CLOEXEC);
    return STATUS_OK;
}

status_t journal_make(journal_t *journal, const char *directory, uint64_t size, const uint8_t store_id[STORE_ID_SIZE],
                      uint64_t origin, char *reason, size_t reason_size) {
    char path[4096];
    *journal = (journal_t){.sealer = journal->sealer, .fd = -1, .direct_fd = -1, .size = size, .origin = origin};
    memcpy(journal->store_id, store_id, STORE_ID_SIZE);
    status_t status = path_of(directory, path, reason, reason_size);
    if (status != STATUS_OK) {
        return status;
    }
    journal->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (journal->fd < 0) {
        status = status_of(errno);
        snprintf(reason, reason_size, "cannot open %s: %s", path, strerror(errno));
        return status;
    }
    status = fill(journal, store_id);
    if (status != STATUS_OK) {
        snprintf(reason, reason_size, "cannot use the journal %s: %s", path,
                 status == STATUS_NO_SPACE ? "there is no room for it on the disk" : "it cannot be written");
        journal_close(journal);
        return status;
    }
    journal->direct_fd = open(path, O_WRONLY | O_DIRECT | O_CLOEXEC);
    return STATUS_OK;
}

/* A disk that does not give a piece mostly lacks one block of it. What it lacks is zeros here, which are no batch:
 * salvage.c sees whether that is missed, and open.c whether a start may go on without it. */
static status_t read_blocks(journal_t *journal, uint8_t *to, uint64_t size, uint64_t offset) {
    status_t status = read_all(journal->fd, to, size, offset);
    for (uint64_t at = 0; status == STATUS_IO && at < size; at += JOURNAL_ALIGNMENT) {
        uint64_t piece = size - at < JOURNAL_ALIGNMENT ? size - at : JOURNAL_ALIGNMENT;
        if (read_all(journal->fd, to + at, piece, offset + at) != STATUS_OK) {
            memset(to + at, 0, piece);
            journal->unreadable++;
        }
    }
    return status == STATUS_IO ? STATUS_OK : status;
}

static status_t read_circle(journal_t *journal, uint8_t *to, uint64_t position, uint64_t size) {
    uint64_t place = position % journal->size;
    uint64_t first = journal->size - place < size ? journal->size - place : size;
    status_t status = read_blocks(journal, to, first, JOURNAL_START + place);
    if (status == STATUS_OK && first < size) {
        status = read_blocks(journal, to + first, size - first, JOURNAL_START);
    }
    return status;
}

static bool header_at(const journal_t *journal, uint64_t place, batch_header_t *header) {
    uint8_t at[BATCH_HEADER_SIZE];
    return read_all(journal->fd, at, sizeof at, JOURNAL_START + place) == STATUS_OK && batch_header_read(at, header)
           && header->position % journal->size == place
           && header->size + (uint64_t)sealer_overhead(journal->sealer) <= journal->size;
}

/* Bytes from the begin of a batch of that size to the begin of the next one. */
static uint64_t journal_span(const journal_t *journal, uint32_t size) {
    uint64_t sealed = (uint64_t)size + sealer_overhead(journal->sealer);
    return (sealed + JOURNAL_ALIGNMENT - 1) / JOURNAL_ALIGNMENT * JOURNAL_ALIGNMENT;
}

static status_t journal_unsqueeze(const journal_t *journal, uint8_t *batch, const batch_header_t *header) {
    uint8_t *plain = malloc(header->size);
    if (plain == NULL) {
        return STATUS_NO_MEMORY;
    }
    uint32_t salt = squeeze_salt(journal->store_id, header->position);
    bool opens = squeeze_open(salt, batch, batch_stored(header, 0), plain, header->size);
    if (opens) {
        memcpy(batch, plain, header->size);
    }
    free(plain);
    return opens ? STATUS_OK : STATUS_CORRUPT;
}

/* Makes it plain, in place. STATUS_CORRUPT: it is none of this journal. */
static status_t journal_plain(const journal_t *journal, uint8_t *batch, const batch_header_t *header) {
    if (header->blocks != 0) {
        return journal->sealer != NULL ? STATUS_CORRUPT : journal_unsqueeze(journal, batch, header);
    }
    bool opens = journal->sealer == NULL || sealer_open_batch(journal->sealer, batch, header->size, batch);
    return opens ? STATUS_OK : STATUS_CORRUPT;
}

/* Is it whole, and that store's? */
static bool is_of(journal_t *journal, uint64_t position, const batch_header_t *header,
                  const uint8_t store_id[STORE_ID_SIZE]) {
    uint32_t size = batch_stored(header, sealer_overhead(journal->sealer));
    uint8_t *batch = malloc(journal_span(journal, header->size));
    uint64_t durable;
    bool ours = batch != NULL && read_circle(journal, batch, position, size) == STATUS_OK
                && batch_crc(batch, size) == header->crc && journal_plain(journal, batch, header) == STATUS_OK
                && witness_read(batch, header->size, store_id, &durable);
    free(batch);
    return ours;
}

bool journal_continues(journal_t *journal, uint64_t position, uint64_t number, uint32_t chain,
                       const uint8_t store_id[STORE_ID_SIZE]) {
    struct stat stat;
    batch_header_t header;
    if (fstat(journal->fd, &stat) != 0 || (uint64_t)stat.st_size < JOURNAL_START
        || !size_fits(journal->fd, (uint64_t)stat.st_size - JOURNAL_START)) {
        return false;
    }
    journal->size = (uint64_t)stat.st_size - JOURNAL_START;
    if (header_at(journal, position % journal->size, &header) && header.position == position
        && header.number == number + 1 && header.chain == chain && header.format <= STORE_FORMAT) {
        /* Of a store without a checkpoint the note says nothing that others' would not: the first batch's witness does.
 */
        return number > 0 || is_of(journal, position, &header, store_id);
    }
    for (uint64_t place = 0; number > 0 && place < journal->size; place += JOURNAL_ALIGNMENT) {
        if (header_at(journal, place, &header) && header.number == number && header.crc == chain
            && header.format <= STORE_FORMAT && header.position + journal_span(journal, header.size) == position) {
            return true;
        }
    }
    return false;
}

bool journal_owner(const char *directory, uint8_t store_id[STORE_ID_SIZE]) {
    uint8_t block[JOURNAL_START];
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/journal", directory);
    int fd = length > 0 && (size_t)length < sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    bool sound = fd >= 0 && read_all(fd, block, sizeof block, 0) == STATUS_OK && memcmp(block, MAGIC, 8) == 0
                 && load_be32(block + 12) == crc32c(0, block + 16, JOURNAL_START - 16);
    if (fd >= 0) {
        close(fd);
    }
    if (sound) {
        memcpy(store_id, block + 24, STORE_ID_SIZE);
    }
    return sound;
}

static int by_number(const void *a, const void *b) {
    const batch_header_t *left = a;
    const batch_header_t *right = b;
    return (left->number > right->number) - (left->number < right->number);
}

bool journal_row(journal_t *journal, const uint8_t store_id[STORE_ID_SIZE], uint64_t *position, uint64_t *number,
                 uint32_t *chain) {
    size_t count = 0;
    batch_header_t *found = calloc((size_t)(journal->size / JOURNAL_ALIGNMENT), sizeof *found);
    for (uint64_t place = 0; found != NULL && place < journal->size; place += JOURNAL_ALIGNMENT) {
        batch_header_t header;
        if (header_at(journal, place, &header) && header.format <= STORE_FORMAT
            && is_of(journal, header.position, &header, store_id)) {
            found[count++] = header;
        }
    }
    if (count == 0) {
        free(found);
        return false;
    }
    qsort(found, count, sizeof *found, by_number);
    size_t first = count - 1;
    uint64_t newest = found[first].position + journal_span(journal, found[first].size);
    while (first > 0) {
        const batch_header_t *before = &found[first - 1];
        if (newest - before->position > journal->size) {
            break; /* of an earlier lap: what a compressed batch does not write of its span is still there */
        }
        uint64_t end = before->position + journal_span(journal, before->size);
        if (before->number + 1 != found[first].number || before->crc != found[first].chain
            || end != found[first].position) {
            break;
        }
        first--;
    }
    *position = found[first].position;
    *number = found[first].number - 1;
    *chain = found[first].chain;
    free(found);
    return true;
}

status_t journal_head_again(journal_t *journal, const uint8_t store_id[STORE_ID_SIZE]) {
    return write_head(journal, store_id);
}

status_t journal_sync(journal_t *journal) {
    return io->sync(journal->fd) == 0 ? STATUS_OK : status_of(errno);
}

status_t journal_blank(journal_t *journal, uint64_t from) {
    static const uint8_t zeros[BATCH_HEADER_SIZE];
    status_t status = STATUS_OK;
    bool any = false;
    for (uint64_t place = 0; status == STATUS_OK && place < journal->size; place += JOURNAL_ALIGNMENT) {
        batch_header_t header;
        if (header_at(journal, place, &header) && header.position >= from) {
            status = write_all(journal->fd, -1, zeros, sizeof zeros, JOURNAL_START + place);
            any = true;
        }
    }
    return status == STATUS_OK && any ? journal_sync(journal) : status;
}

bool journal_lengthen(journal_t *journal) {
    bool possible =
        journal->size <= LENGTHENED_MAX && posix_fallocate(journal->fd, 0, (off_t)(JOURNAL_START + journal->size)) == 0;
    return possible && size_fits(journal->fd, journal->size);
}

static void stage_free(journal_t *journal) {
    free(journal->stage.at);
    journal->stage = (journal_stage_t){0};
}

void journal_rest(journal_t *journal) {
    if (journal->encoder != NULL) {
        stage_free(journal);
        s2_encoder_free(journal->encoder);
        journal->encoder = NULL;
    }
}

void journal_close(journal_t *journal) {
    journal_rest(journal);
    stage_free(journal);
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

static bool stage_holds(journal_t *journal, uint64_t span) {
    journal_stage_t *stage = &journal->stage;
    stage->holds = false;
    if (span > stage->capacity) {
        void *at = NULL;
        stage_free(journal);
        if (posix_memalign(&at, JOURNAL_ALIGNMENT, (size_t)span) != 0) {
            return false;
        }
        *stage = (journal_stage_t){.at = at, .capacity = span};
    }
    return true;
}

status_t journal_seal(journal_t *journal, uint8_t *batch, uint64_t position, uint32_t size) {
    journal_stage_t *stage = &journal->stage;
    uint64_t span = journal_span(journal, size);
    if (!stage_holds(journal, span)) {
        return STATUS_NO_MEMORY;
    }
    sealer_seal_batch(journal->sealer, batch, size, stage->at);
    uint32_t sealed = size + journal->sealer->overhead;
    memset(stage->at + sealed, 0, (size_t)(span - sealed));
    stage->position = position;
    stage->holds = true;
    return STATUS_OK;
}

bool journal_squeeze(journal_t *journal, uint8_t *batch, uint64_t position, uint32_t size) {
    journal_stage_t *stage = &journal->stage;
    batch_header_t header;
    uint32_t room = (uint32_t)journal_span(journal, size) - BATCH_BLOCK;
    if (journal->encoder == NULL) {
        journal->encoder = s2_encoder_new(S2_EFFORT_FAST);
    }
    if (journal->encoder == NULL || !stage_holds(journal, room)) {
        return false;
    }
    uint32_t salt = squeeze_salt(journal->store_id, position);
    uint32_t squeezed = squeeze_batch(journal->encoder, salt, batch, size, stage->at, room);
    if (squeezed == 0) {
        return false;
    }
    check(batch_header_read(batch, &header));
    header.blocks = (squeezed + BATCH_BLOCK - 1) / BATCH_BLOCK;
    memset(stage->at + squeezed, 0, header.blocks * BATCH_BLOCK - squeezed);
    batch_header_write(stage->at, &header);
    header.crc = batch_crc(stage->at, header.blocks * BATCH_BLOCK);
    batch_header_write(stage->at, &header);
    batch_header_write(batch, &header);
    stage->position = position;
    stage->holds = true;
    return true;
}

/* What is in the ring, as it goes to the disk. A compressed one is the same as before: its checksum is in the next. */
static status_t stage_again(journal_t *journal, uint8_t *batch, const batch_header_t *header) {
    batch_header_t now;
    if (header->blocks == 0) {
        return journal_seal(journal, batch, header->position, header->size);
    }
    if (!journal_squeeze(journal, batch, header->position, header->size)) {
        return STATUS_NO_MEMORY;
    }
    check(batch_header_read(batch, &now));
    check(now.crc == header->crc);
    return STATUS_OK;
}

status_t journal_write_staged(journal_t *journal, const batches_t *batches, uint64_t position) {
    uint8_t *batch = batches_at(batches, position);
    batch_header_t header;
    check(batch_header_read(batch, &header));
    status_t status = STATUS_OK;
    if (!journal->stage.holds || journal->stage.position != position) { /* after a refusal: the same bytes again */
        status = stage_again(journal, batch, &header);
    }
    uint32_t size = batch_stored(&header, sealer_overhead(journal->sealer));
    return status == STATUS_OK ? journal_write(journal, journal->stage.at, position, size) : status;
}

#define MARK_MAGIC "leafdend"
#define MARK_SIZE 48

status_t journal_mark(journal_t *journal, uint64_t position, uint64_t number, uint32_t chain,
                      const uint8_t store_id[STORE_ID_SIZE]) {
    _Alignas(JOURNAL_ALIGNMENT) uint8_t block[JOURNAL_ALIGNMENT] = {0};
    memcpy(block, MARK_MAGIC, 8);
    store_be64(block + 8, position);
    store_be64(block + 16, number);
    store_be32(block + 24, chain);
    memcpy(block + 32, store_id, STORE_ID_SIZE);
    store_be32(block + 28, crc32c(0, block, MARK_SIZE));
    return write_all(journal->fd, journal->direct_fd, block, sizeof block, JOURNAL_START + position % journal->size);
}

bool mark_read(const uint8_t *at, uint64_t position, const uint8_t store_id[STORE_ID_SIZE], uint64_t *number,
               uint32_t *chain) {
    uint8_t copy[MARK_SIZE];
    memcpy(copy, at, sizeof copy);
    uint32_t crc = load_be32(copy + 28);
    memset(copy + 28, 0, 4);
    if (memcmp(copy, MARK_MAGIC, 8) != 0 || load_be64(copy + 8) != position
        || memcmp(copy + 32, store_id, STORE_ID_SIZE) != 0 || crc32c(0, copy, sizeof copy) != crc) {
        return false;
    }
    *number = load_be64(copy + 16);
    *chain = load_be32(copy + 24);
    return true;
}

status_t journal_load(journal_t *journal, const batches_t *batches, uint64_t position, uint64_t size) {
    return read_circle(journal, batches_at(batches, position), position, size);
}

status_t journal_read(journal_t *journal, const batches_t *batches, uint64_t position, uint64_t number, uint32_t chain,
                      batch_header_t *header, bool *ended) {
    check(batches->size == journal->size);
    uint8_t *to = batches_at(batches, position);
    *ended = false;
    status_t status = read_circle(journal, to, position, JOURNAL_ALIGNMENT);
    if (status != STATUS_OK) {
        return status;
    }
    *ended = !batch_header_read(to, header) || header->position != position || header->number != number
             || header->chain != chain || (uint64_t)header->size + sealer_overhead(journal->sealer) > journal->size;
    if (*ended) {
        return STATUS_OK;
    }
    uint32_t size = batch_stored(header, sealer_overhead(journal->sealer));
    status = read_circle(journal, to, position, size);
    *ended = status == STATUS_OK && batch_crc(to, size) != header->crc;
    if (status != STATUS_OK || *ended) {
        return status;
    }
    if (header->format > STORE_FORMAT) {
        return STATUS_VERSION;
    }
    status = journal_plain(journal, to, header);
    *ended = status == STATUS_CORRUPT;
    return *ended ? STATUS_OK : status;
}
