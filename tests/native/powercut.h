/* powercut.h: what a disk may hold after a power cut. A recorder stands between the program and the C library, LMDB's
 * calls included, and records each write and each sync of a store's two files; from the record, images are built that a
 * cut at a given moment may leave.
 *
 *     powercut_record(directory)     from now on; what the files hold already counts as durable
 *     powercut_note(kind, value)     the test's own marks, in the same order as the writes
 *     powercut_stop()                ends it, and proves that the notes tell all that is in the files
 *     powercut_image(cut, plan, to)  the files as a cut behind `cut` notes may leave them
 *
 * The model of the disk. A sector of 512 bytes is written whole or not at all. A write is durable when a sync of its
 * file began behind it and has ended, or when it went through an O_DSYNC descriptor and has ended; O_DIRECT alone
 * promises nothing. Any sector of a file may hold, of the writes that are not durable, the first n in their order, and
 * each sector has an n of its own. A file's size lies between its durable one and the newest. A name is durable when
 * its directory was synced. Nothing is really synced here, so the disk of the machine that runs this has no say.
 *
 * One recording at a time; the recorded threads may be any number.
 */
#ifndef LEAFD_TESTS_POWERCUT_H
#define LEAFD_TESTS_POWERCUT_H

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/random.h"
#include "test.h"

#define POWERCUT_FILES 2
#define POWERCUT_SECTOR 512u
#define POWERCUT_FILE_MAX (UINT64_C(64) << 20)
#define POWERCUT_NOTES_MAX 200000

typedef enum powercut_kind {
    NOTE_WRITE = 1, /* offset, size, data */
    NOTE_SIZE,      /* the file reaches up to offset now (fallocate) */
    NOTE_SYNCED,    /* what was noted of the file before `covers` is durable */
    NOTE_DSYNCED,   /* the write that is note `covers` is durable */
    NOTE_NAMES,     /* the directory was synced */
    NOTE_MARK,      /* the test's own kinds begin here */
} powercut_kind_t;

typedef struct powercut_note {
    uint32_t kind;
    uint32_t file;
    uint64_t offset; /* of the test's notes: the value */
    uint64_t size;
    uint64_t covers;
    uint8_t *data;
} powercut_note_t;

typedef struct powercut_file {
    ino_t inode; /* 0: not seen yet */
    bool named;  /* its name was durable when the recording began */
    uint8_t *base;
    uint64_t base_size;
} powercut_file_t;

typedef struct powercut {
    pthread_mutex_t lock;
    bool on;
    char directory[128];
    powercut_file_t files[POWERCUT_FILES];
    powercut_note_t *notes;
    uint64_t count;
} powercut_t;

/* How the sectors that are not durable come out. */
typedef enum powercut_plan {
    PLAN_NONE,        /* only what is durable */
    PLAN_ALL,         /* everything */
    PLAN_SECTORS,     /* each sector by chance */
    PLAN_PAGES,       /* each 4 KiB by chance */
    PLAN_IN_ORDER,    /* writes up to one, and that one torn */
    PLAN_ALL_BUT_ONE, /* one sector of one write is missing */
    PLAN_ONE_FILE,    /* all of one file, nothing of the other */
    PLAN_RARE,        /* few sectors */
    PLAN_COUNT,
} powercut_plan_t;

static powercut_t powercut = {.lock = PTHREAD_MUTEX_INITIALIZER};
static const char *const powercut_names[POWERCUT_FILES] = {"data.mdb", "journal"};

/* ---- the recorder ------------------------------------------------------------------------------------------------ */

static powercut_note_t *powercut_add(uint32_t kind, uint32_t file) {
    if (powercut.count == POWERCUT_NOTES_MAX) {
        abort();
    }
    powercut_note_t *note = &powercut.notes[powercut.count++];
    *note = (powercut_note_t){.kind = kind, .file = file};
    return note;
}

static inline void powercut_note(uint32_t kind, uint64_t value) {
    pthread_mutex_lock(&powercut.lock);
    if (powercut.on) {
        powercut_add(kind, 0)->offset = value;
    }
    pthread_mutex_unlock(&powercut.lock);
}

static bool powercut_path(int fd, char path[256]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, 255);
    path[size > 0 ? size : 0] = 0;
    return size > 0;
}

/* -1: none of the store's. */
static int powercut_which(int fd) {
    struct stat stat;
    char path[256];
    if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode)) {
        return -1;
    }
    for (int file = 0; file < POWERCUT_FILES; file++) {
        if (powercut.files[file].inode == stat.st_ino) {
            return file;
        }
    }
    size_t length = strlen(powercut.directory);
    if (!powercut_path(fd, path) || strncmp(path, powercut.directory, length) != 0 || path[length] != '/') {
        return -1;
    }
    for (int file = 0; file < POWERCUT_FILES; file++) {
        if (strcmp(path + length + 1, powercut_names[file]) == 0) {
            powercut.files[file].inode = stat.st_ino;
            return file;
        }
    }
    return -1;
}

static void powercut_written(int fd, int file, const struct iovec *parts, int count, uint64_t offset, uint64_t done) {
    powercut_note_t *note = powercut_add(NOTE_WRITE, (uint32_t)file);
    note->offset = offset;
    note->size = done;
    note->data = malloc(done + 1);
    uint64_t at = 0;
    for (int i = 0; i < count && at < done; i++) {
        uint64_t size = parts[i].iov_len < done - at ? parts[i].iov_len : done - at;
        memcpy(note->data + at, parts[i].iov_base, size);
        at += size;
    }
    if ((fcntl(fd, F_GETFL) & O_DSYNC) != 0) {
        uint64_t covers = powercut.count - 1;
        powercut_add(NOTE_DSYNCED, (uint32_t)file)->covers = covers;
    }
}

#define POWERCUT_REAL(result, name, ...) ((result (*)(__VA_ARGS__))(uintptr_t)dlsym(RTLD_NEXT, name))

static ssize_t powercut_pwrite(int fd, const void *at, size_t size, int64_t offset) {
    ssize_t (*real)(int, const void *, size_t, int64_t) =
        POWERCUT_REAL(ssize_t, "pwrite64", int, const void *, size_t, int64_t);
    pthread_mutex_lock(&powercut.lock);
    int file = powercut.on ? powercut_which(fd) : -1;
    ssize_t done = real(fd, at, size, offset);
    if (file >= 0 && done > 0) {
        struct iovec part = {.iov_base = (void *)(uintptr_t)at, .iov_len = size};
        powercut_written(fd, file, &part, 1, (uint64_t)offset, (uint64_t)done);
    }
    pthread_mutex_unlock(&powercut.lock);
    return done;
}

static int powercut_sync(int fd) {
    struct stat stat;
    char path[256];
    pthread_mutex_lock(&powercut.lock);
    int file = powercut.on ? powercut_which(fd) : -1;
    uint64_t covers = powercut.count;
    if (powercut.on && file < 0 && fstat(fd, &stat) == 0 && S_ISDIR(stat.st_mode) && powercut_path(fd, path)
        && strcmp(path, powercut.directory) == 0) {
        powercut_add(NOTE_NAMES, 0);
    }
    pthread_mutex_unlock(&powercut.lock);
    if (file >= 0) {
        usleep(50); /* other threads get on while a disk works */
        pthread_mutex_lock(&powercut.lock);
        powercut_add(NOTE_SYNCED, (uint32_t)file)->covers = covers;
        pthread_mutex_unlock(&powercut.lock);
    }
    return 0;
}

static int powercut_allocate(int fd, int64_t offset, int64_t size) {
    int (*real)(int, int64_t, int64_t) = POWERCUT_REAL(int, "posix_fallocate64", int, int64_t, int64_t);
    pthread_mutex_lock(&powercut.lock);
    int file = powercut.on ? powercut_which(fd) : -1;
    int error = real(fd, offset, size);
    if (file >= 0 && error == 0) {
        powercut_add(NOTE_SIZE, (uint32_t)file)->offset = (uint64_t)(offset + size);
    }
    pthread_mutex_unlock(&powercut.lock);
    return error;
}

/* The names that the store and LMDB call. Headers may rename the calls of this file, so the symbols are spelt out. */
ssize_t powercut_shim_pwrite(int fd, const void *at, size_t size, long offset) __asm__("pwrite");
ssize_t powercut_shim_pwrite(int fd, const void *at, size_t size, long offset) {
    return powercut_pwrite(fd, at, size, offset);
}

ssize_t powercut_shim_pwrite64(int fd, const void *at, size_t size, int64_t offset) __asm__("pwrite64");
ssize_t powercut_shim_pwrite64(int fd, const void *at, size_t size, int64_t offset) {
    return powercut_pwrite(fd, at, size, offset);
}

ssize_t powercut_shim_writev(int fd, const struct iovec *parts, int count) __asm__("writev");
ssize_t powercut_shim_writev(int fd, const struct iovec *parts, int count) {
    ssize_t (*real)(int, const struct iovec *, int) = POWERCUT_REAL(ssize_t, "writev", int, const struct iovec *, int);
    pthread_mutex_lock(&powercut.lock);
    int file = powercut.on ? powercut_which(fd) : -1;
    off_t offset = file >= 0 ? lseek(fd, 0, SEEK_CUR) : 0;
    ssize_t done = real(fd, parts, count);
    if (file >= 0 && done > 0) {
        powercut_written(fd, file, parts, count, (uint64_t)offset, (uint64_t)done);
    }
    pthread_mutex_unlock(&powercut.lock);
    return done;
}

int powercut_shim_fdatasync(int fd) __asm__("fdatasync");
int powercut_shim_fdatasync(int fd) {
    return powercut_sync(fd);
}

int powercut_shim_fsync(int fd) __asm__("fsync");
int powercut_shim_fsync(int fd) {
    return powercut_sync(fd);
}

int powercut_shim_fallocate(int fd, long offset, long size) __asm__("posix_fallocate");
int powercut_shim_fallocate(int fd, long offset, long size) {
    return powercut_allocate(fd, offset, size);
}

int powercut_shim_fallocate64(int fd, int64_t offset, int64_t size) __asm__("posix_fallocate64");
int powercut_shim_fallocate64(int fd, int64_t offset, int64_t size) {
    return powercut_allocate(fd, offset, size);
}

/* ---- beginning and end of a recording ---------------------------------------------------------------------------- */

/* The file's bytes in memory that the caller frees; NULL: there is no such file. */
static uint8_t *powercut_load(const char *directory, int file, uint64_t *size) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, powercut_names[file]);
    *size = 0;
    int fd = open(path, O_RDONLY);
    if (fd < 0) {
        return NULL;
    }
    struct stat stat;
    CHECK(fstat(fd, &stat) == 0);
    CHECK((uint64_t)stat.st_size <= POWERCUT_FILE_MAX);
    uint8_t *bytes = malloc((size_t)stat.st_size + 1);
    ssize_t got;
    while ((got = pread(fd, bytes + *size, (size_t)stat.st_size - *size, (off_t)*size)) > 0) {
        *size += (uint64_t)got;
    }
    close(fd);
    return bytes;
}

static void powercut_forget(void) {
    for (uint64_t i = 0; i < powercut.count; i++) {
        free(powercut.notes[i].data);
    }
    for (int file = 0; file < POWERCUT_FILES; file++) {
        free(powercut.files[file].base);
        powercut.files[file] = (powercut_file_t){0};
    }
    powercut.count = 0;
}

static void powercut_record(const char *directory) {
    pthread_mutex_lock(&powercut.lock); /* stores that are not recorded may run */
    powercut_forget();
    pthread_mutex_unlock(&powercut.lock);
    if (powercut.notes == NULL) {
        powercut.notes = calloc(POWERCUT_NOTES_MAX, sizeof *powercut.notes);
    }
    snprintf(powercut.directory, sizeof powercut.directory, "%s", directory);
    for (int file = 0; file < POWERCUT_FILES; file++) {
        powercut_file_t *at = &powercut.files[file];
        at->base = powercut_load(directory, file, &at->base_size);
        at->named = at->base != NULL;
    }
    pthread_mutex_lock(&powercut.lock);
    powercut.on = true;
    pthread_mutex_unlock(&powercut.lock);
}

/* ---- images ------------------------------------------------------------------------------------------------------ */

typedef struct powercut_chance {
    uint64_t state;
} powercut_chance_t;

static uint64_t powercut_next(powercut_chance_t *chance) {
    return random_next(&chance->state);
}

typedef struct powercut_build {
    uint64_t cut;
    powercut_plan_t plan;
    powercut_chance_t *chance;
    uint64_t pivot;        /* the write that PLAN_IN_ORDER tears and PLAN_ALL_BUT_ONE robs */
    uint64_t pivot_sector; /* of that write */
    uint64_t salt;
    int file;
    bool whole_file; /* PLAN_ONE_FILE: is it this one */
    uint8_t *bytes;
    uint64_t *durable; /* a sector: behind its last durable note */
    bool *stopped;     /* a sector: a write was lost, later ones are too */
    uint64_t size_durable;
    uint64_t size_newest;
    uint64_t reached; /* end of the last sector that came out */
} powercut_build_t;

static uint64_t powercut_end(const powercut_note_t *note) {
    return note->kind == NOTE_SIZE ? note->offset : note->offset + note->size;
}

static void powercut_make_durable(powercut_build_t *build, uint64_t index) {
    const powercut_note_t *note = &powercut.notes[index];
    if (powercut_end(note) > build->size_durable) {
        build->size_durable = powercut_end(note);
    }
    for (uint64_t at = note->offset; note->kind == NOTE_WRITE && at < note->offset + note->size; at++) {
        uint64_t sector = at / POWERCUT_SECTOR;
        build->durable[sector] = index + 1;
        at = (sector + 1) * POWERCUT_SECTOR - 1;
    }
}

static void powercut_find_durable(powercut_build_t *build) {
    uint64_t done = 0;
    for (uint64_t i = 0; i < build->cut; i++) {
        const powercut_note_t *note = &powercut.notes[i];
        bool ours = note->kind < NOTE_NAMES && (int)note->file == build->file;
        if (ours && note->kind == NOTE_SYNCED) {
            for (; done < note->covers; done++) {
                const powercut_note_t *older = &powercut.notes[done];
                if ((older->kind == NOTE_WRITE || older->kind == NOTE_SIZE) && (int)older->file == build->file) {
                    powercut_make_durable(build, done);
                }
            }
        } else if (ours && note->kind == NOTE_DSYNCED) {
            powercut_make_durable(build, note->covers);
        } else if (ours && powercut_end(note) > build->size_newest) {
            build->size_newest = powercut_end(note);
        }
    }
}

static bool powercut_comes_out(powercut_build_t *build, uint64_t index, uint64_t sector) {
    const powercut_note_t *note = &powercut.notes[index];
    uint64_t nth = sector - note->offset / POWERCUT_SECTOR;
    switch (build->plan) {
    case PLAN_ALL: return true;
    case PLAN_SECTORS: return powercut_next(build->chance) % 2 != 0;
    case PLAN_RARE: return powercut_next(build->chance) % 8 == 0;
    case PLAN_PAGES: return ((sector / 8 + build->salt) * UINT64_C(0x9e3779b97f4a7c15) >> 40) % 2 != 0;
    case PLAN_IN_ORDER:
        return index < build->pivot
               || (index == build->pivot
                   && (build->salt % 2 != 0 ? nth < build->pivot_sector : nth >= build->pivot_sector));
    case PLAN_ALL_BUT_ONE: return index != build->pivot || nth != build->pivot_sector;
    case PLAN_ONE_FILE: return build->whole_file;
    default: return false;
    }
}

static void powercut_apply(powercut_build_t *build, uint64_t index) {
    const powercut_note_t *note = &powercut.notes[index];
    uint64_t end = note->offset + note->size;
    for (uint64_t at = note->offset; at < end;) {
        uint64_t sector = at / POWERCUT_SECTOR;
        uint64_t next = (sector + 1) * POWERCUT_SECTOR < end ? (sector + 1) * POWERCUT_SECTOR : end;
        bool durable = index < build->durable[sector];
        if (!durable && !build->stopped[sector]) {
            build->stopped[sector] = !powercut_comes_out(build, index, sector);
        }
        if (durable || !build->stopped[sector]) {
            memcpy(build->bytes + at, note->data + (at - note->offset), next - at);
            build->reached = next > build->reached ? next : build->reached;
        }
        at = next;
    }
}

static uint64_t powercut_size(powercut_build_t *build) {
    switch (build->plan) {
    case PLAN_NONE: return build->size_durable;
    case PLAN_ALL: return build->size_newest;
    default: break;
    }
    uint64_t reached = build->reached > build->size_durable ? build->reached : build->size_durable;
    uint64_t sizes[3] = {build->size_durable, build->size_newest, reached};
    return sizes[powercut_next(build->chance) % 3];
}

/* A write before the cut that is not durable, for the plans that want one; any, when there is none. */
static uint64_t powercut_pivot(uint64_t cut, powercut_chance_t *chance) {
    uint64_t back = powercut_next(chance) % 12;
    uint64_t found = 0;
    for (uint64_t i = cut; i-- > 0;) {
        if (powercut.notes[i].kind == NOTE_WRITE) {
            found = i;
            if (back-- == 0) {
                break;
            }
        }
    }
    return found;
}

/* The file's bytes in memory that the caller frees, as the build's plan leaves them. */
static uint8_t *powercut_build_file(powercut_build_t *build, uint64_t *size) {
    const powercut_file_t *file = &powercut.files[build->file];
    build->size_durable = build->size_newest = file->base_size;
    for (uint64_t i = 0; i < build->cut; i++) {
        const powercut_note_t *note = &powercut.notes[i];
        if ((note->kind == NOTE_WRITE || note->kind == NOTE_SIZE) && (int)note->file == build->file) {
            build->size_newest = powercut_end(note) > build->size_newest ? powercut_end(note) : build->size_newest;
        }
    }
    uint64_t sectors = build->size_newest / POWERCUT_SECTOR + 2;
    build->bytes = calloc(sectors, POWERCUT_SECTOR);
    build->durable = calloc(sectors, sizeof *build->durable);
    build->stopped = calloc(sectors, sizeof *build->stopped);
    if (file->base != NULL) {
        memcpy(build->bytes, file->base, file->base_size);
    }
    powercut_find_durable(build);
    for (uint64_t i = 0; i < build->cut; i++) {
        if (powercut.notes[i].kind == NOTE_WRITE && (int)powercut.notes[i].file == build->file) {
            powercut_apply(build, i);
        }
    }
    *size = powercut_size(build);
    free(build->durable);
    free(build->stopped);
    return build->bytes;
}

static void powercut_save(const char *directory, int file, const uint8_t *bytes, uint64_t size) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, powercut_names[file]);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    CHECK_EQ_I64((int64_t)size, write(fd, bytes, size));
    close(fd);
}

/* Is the name of the file there? Before its directory was synced, chance says. */
static bool powercut_named(const powercut_build_t *build) {
    bool seen = false;
    bool synced = false;
    for (uint64_t i = 0; i < build->cut; i++) {
        const powercut_note_t *note = &powercut.notes[i];
        bool touches = note->kind == NOTE_WRITE || note->kind == NOTE_SIZE;
        seen |= touches && (int)note->file == build->file;
        synced |= seen && note->kind == NOTE_NAMES;
    }
    if (powercut.files[build->file].named || synced) {
        return true;
    }
    return seen && (build->plan == PLAN_ALL || powercut_next(build->chance) % 4 != 0);
}

/* Writes what a cut behind the first `cut` notes may leave into the directory `to`. */
static void powercut_image(uint64_t cut, powercut_plan_t plan, powercut_chance_t *chance, const char *to) {
    powercut_build_t shared = {.cut = cut, .plan = plan, .chance = chance, .salt = powercut_next(chance)};
    uint64_t chosen = powercut_next(chance) % POWERCUT_FILES;
    shared.pivot = powercut_pivot(cut, chance);
    shared.pivot_sector =
        powercut.count > 0 ? powercut_next(chance) % (powercut.notes[shared.pivot].size / POWERCUT_SECTOR + 1) : 0;
    for (int file = 0; file < POWERCUT_FILES; file++) {
        powercut_build_t build = shared;
        uint64_t size = 0;
        build.file = file;
        build.whole_file = chosen == (uint64_t)file;
        if (powercut_named(&build)) {
            uint8_t *bytes = powercut_build_file(&build, &size);
            powercut_save(to, file, bytes, size);
            free(bytes);
        }
    }
}

static inline void powercut_stop(void) {
    pthread_mutex_lock(&powercut.lock);
    powercut.on = false;
    pthread_mutex_unlock(&powercut.lock);
    for (int file = 0; file < POWERCUT_FILES; file++) {
        powercut_chance_t chance = {.state = 1};
        powercut_build_t build = {.cut = powercut.count, .plan = PLAN_ALL, .chance = &chance, .file = file};
        uint64_t size = 0;
        uint64_t real_size = 0;
        uint8_t *bytes = powercut_build_file(&build, &size);
        uint8_t *real = powercut_load(powercut.directory, file, &real_size);
        CHECK_EQ_U64(real_size, size);
        CHECK(real_size == 0 || memcmp(real, bytes, real_size) == 0);
        free(bytes);
        free(real);
    }
}

#endif
