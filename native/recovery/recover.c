/* recover.c: at the start, a journal that is missing, not sound, or not the one that LMDB's note speaks of.
 *
 * LMDB notes how far batches were applied ("applied", keeper.c) and how the journal was used ("journal", here). From
 * both follows what a lost journal may have held:
 *
 *     note at the first batch, never used    nothing: the store was being made when power failed       make it
 *     closed in order, at the note           nothing: LMDB has it all                                  make it, with a
 *                                                                                                      warning
 *     anything else                          what was acknowledged since the last checkpoint           refuse
 *
 * A journal whose first block is damaged is recognized by its batches: one of them continues the note (position,
 * number, chain). Then the block is written anew and replay goes on.
 *
 * The operator's way past a refusal is an empty file "accept-loss" in the store directory: the next start goes on
 * without what is lost and removes the file. What was there is kept as journal.damaged-TIME, at most KEPT_MAX of them.
 */
#include "store/overlay.h"
#include "recovery/recover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"

#define KEPT_MAX 2
#define KEPT_PREFIX "journal.damaged-"
#define NAME_SIZE 64
#define UNFINISHED_MAX (1 << 20) /* no file of LMDB's is larger before its first commit */
#define USE_SIZE (VALUE_CRC_SIZE + 1 + 8)

static const char use_name[] = "journal";
static const char accept_name[] = "accept-loss";

/* ---- how the journal was used ------------------------------------------------------------------------------------ */

status_t recover_use_read(env_t *env, journal_use_t *use, uint64_t *position) {
    bytes_t key = bytes_of(use_name, sizeof use_name - 1);
    bytes_t value = BYTES_NONE;
    *use = USE_UNKNOWN;
    *position = 0;
    switch (env_write_get(env, DB_META, key, &value)) {
    case READ_UNKNOWN: return env_write_why(env);
    case READ_NONE: return STATUS_OK;
    case READ_FOUND: break;
    }
    if (value.size != USE_SIZE || !value_sound(key, value) || value.at[VALUE_CRC_SIZE] > USE_CLOSED) {
        *use = USE_SYNCED; /* the strictest reading */
        return STATUS_OK;
    }
    *use = (journal_use_t)value.at[VALUE_CRC_SIZE];
    *position = load_be64(value.at + VALUE_CRC_SIZE + 1);
    return STATUS_OK;
}

status_t recover_use_note(env_t *env, journal_use_t use, uint64_t position) {
    bytes_t key = bytes_of(use_name, sizeof use_name - 1);
    uint8_t value[USE_SIZE];
    value[VALUE_CRC_SIZE] = (uint8_t)use;
    store_be64(value + VALUE_CRC_SIZE + 1, position);
    value_seal(key, value, sizeof value);
    status_t status = env_write_begin(env);
    if (status != STATUS_OK) {
        return status;
    }
    status = env_write_put(env, DB_META, key, bytes_of(value, sizeof value));
    if (status != STATUS_OK) {
        env_write_abort(env);
        return status;
    }
    return env_write_commit(env);
}

/* ---- the disk's id ----------------------------------------------------------------------------------------------- */

status_t recover_stranger(env_t *env) {
    store_key_t key;
    key_record(&key, RECORD_DISK, BYTES_NONE);
    return env_write_delete(env, DB_RECORDS, key_bytes(&key));
}

/* Before the journal is made anew, which may have held promises. */
static status_t stranger_at_once(env_t *env) {
    status_t status = env_write_begin(env);
    status = status == STATUS_OK ? recover_stranger(env) : status;
    status = status == STATUS_OK ? env_write_commit(env) : status;
    env_write_abort(env);
    return status;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static bool lmdb_file_exists(const opening_t *opening, const char *name) {
    char path[STORE_PATH_MAX];
    struct stat stat_;
    return store_path(opening->store, name, path) && stat(path, &stat_) == 0;
}

/* Removes the oldest of those that are kept until one more may come. Names end in a time, so their order is that of
 * time. */
static void make_place(const opening_t *opening) {
    for (;;) {
        char oldest[NAME_SIZE] = "";
        unsigned count = 0;
        DIR *directory = opendir(opening->store->directory);
        if (directory == NULL) {
            return;
        }
        for (const struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
            if (strncmp(entry->d_name, KEPT_PREFIX, sizeof KEPT_PREFIX - 1) == 0 && strlen(entry->d_name) < NAME_SIZE) {
                count++;
                if (oldest[0] == 0 || strcmp(entry->d_name, oldest) < 0) {
                    memcpy(oldest, entry->d_name, strlen(entry->d_name) + 1);
                }
            }
        }
        closedir(directory);
        char path[STORE_PATH_MAX];
        if (count < KEPT_MAX || !store_path(opening->store, oldest, path) || unlink(path) != 0) {
            return;
        }
    }
}

/* The file "journal" gets a name under which it is kept; name is empty when there was none. The wall clock only names
 * it. */
static status_t set_aside(opening_t *opening, char name[NAME_SIZE]) {
    char from[STORE_PATH_MAX];
    char to[STORE_PATH_MAX];
    struct tm at;
    time_t now = time(NULL);
    name[0] = 0;
    if (!lmdb_file_exists(opening, "journal")) {
        return STATUS_OK;
    }
    make_place(opening);
    check(gmtime_r(&now, &at) != NULL);
    check(strftime(name, NAME_SIZE, KEPT_PREFIX "%Y%m%dT%H%M%SZ", &at) > 0);
    if (!store_path(opening->store, "journal", from) || !store_path(opening->store, name, to)
        || rename(from, to) != 0) {
        return opening_fail(opening, STATUS_IO, "cannot set the journal aside in", errno);
    }
    return STATUS_OK;
}

static void opening_warn(opening_t *opening, const char *what, const char *kept) {
    store_alarm(opening->store, ALARM_CORRUPT, 0, 0, "%s%s%s", what, kept[0] != 0 ? "; what was there is kept as " : "",
                kept);
}

status_t recover_refuse(opening_t *opening, status_t status, const char *what) {
    snprintf(opening->reason, opening->reason_size,
             "%s in %s: what was acknowledged since the last checkpoint may be lost; put the file back, or accept the "
             "loss with an empty "
             "file %s/%s and start again",
             what, opening->store->directory, opening->store->directory, accept_name);
    return status;
}

/* ---- decisions --------------------------------------------------------------------------------------------------- */

bool recover_unfinished(const char *directory) {
    static const uint8_t zeros[64];
    uint8_t head[sizeof zeros];
    char path[STORE_PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/data.mdb", directory);
    int fd = length > 0 && (size_t)length < sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) {
        return false;
    }
    struct stat stat_;
    bool unfinished = false;
    bool small = fstat(fd, &stat_) == 0 && stat_.st_size <= UNFINISHED_MAX;
    for (off_t page = 0; page < 2; page++) {
        ssize_t got = pread(fd, head, sizeof head, page * (off_t)sysconf(_SC_PAGESIZE));
        unfinished |= got >= 0 && (got < (ssize_t)sizeof head || memcmp(head, zeros, sizeof head) == 0);
    }
    close(fd);
    return unfinished && small;
}

static bool lmdb_exists(const opening_t *opening) {
    char path[STORE_PATH_MAX];
    struct stat stat_;
    return store_path(opening->store, "data.mdb", path) && stat(path, &stat_) == 0 && stat_.st_size > 0;
}

status_t recover_lmdb(opening_t *opening) {
    char name[NAME_SIZE];
    opening->accepted = lmdb_file_exists(opening, accept_name);
    if (opening->store->options.memory || lmdb_exists(opening) || !journal_exists(opening->store->directory)) {
        return STATUS_OK;
    }
    if (!opening->accepted) {
        return recover_refuse(opening, STATUS_CORRUPT, "data.mdb is missing or empty beside a journal");
    }
    status_t status = set_aside(opening, name);
    if (status == STATUS_OK) {
        opening_warn(opening, "data.mdb was missing and the loss is accepted: the store begins empty", name);
    }
    return status;
}

void recover_promised(opening_t *opening) {
    store_t *store = opening->store;
    switch (highwater_open(&store->highwater, store->directory, opening->store_id, &opening->promised)) {
    case ENTRY_FOUND:
    case ENTRY_NONE: return;
    case ENTRY_DAMAGED:
    case ENTRY_UNKNOWN: break;
    }
    opening->promised = (highwater_mark_t){0};
    store_damaged(store, 1);
    opening_warn(opening,
                 "the file \"highwater\" is damaged or cannot be read: that nothing is missing at the journal's end is "
                 "not certain, and the next sync writes it anew",
                 "");
}

void recover_promise(const opening_t *opening) {
    const highwater_mark_t mark = {.position = opening->position, .number = opening->number, .chain = opening->chain};
    highwater_note(&opening->store->highwater, opening->store_id, mark);
}

static const char *complaint_of(journal_found_t found) {
    switch (found) {
    case JOURNAL_ABSENT: return "the journal is missing";
    case JOURNAL_BLANK: return "the journal's first block is empty";
    case JOURNAL_STRANGE: return "the file \"journal\" is not a journal of leafd";
    case JOURNAL_HEADLESS: return "the journal's first block is damaged";
    case JOURNAL_UNREADABLE: return "the journal's first block cannot be read";
    case JOURNAL_FOREIGN: return "the journal belongs to another store";
    case JOURNAL_SHORT: return "the journal is shorter than its first block says";
    default: return "the journal cannot be used";
    }
}

static status_t recover_make(opening_t *opening) {
    store_t *store = opening->store;
    opening->made = true;
    return journal_make(&store->journal, store->directory, store->sizes.ring, opening->store_id, opening->position,
                        opening->reason, opening->reason_size);
}

static status_t make_anew(opening_t *opening, const char *why) {
    char name[NAME_SIZE];
    journal_close(&opening->store->journal);
    status_t status = set_aside(opening, name);
    if (status == STATUS_OK) {
        status = recover_make(opening);
    }
    if (status == STATUS_OK) {
        opening_warn(opening, why, name);
    }
    return status;
}

/* A first block that is blank or damaged is of this store's journal when a batch in the file continues LMDB's note. */
static bool journal_recognized(opening_t *opening, journal_found_t found) {
    bool headless = found == JOURNAL_BLANK || found == JOURNAL_STRANGE || found == JOURNAL_HEADLESS
                    || found == JOURNAL_UNREADABLE || found == JOURNAL_NEWER;
    return headless
           && journal_continues(&opening->store->journal, opening->position, opening->number, opening->chain,
                                opening->store_id);
}

status_t recover_journal(opening_t *opening) {
    store_t *store = opening->store;
    journal_found_t found = JOURNAL_SOUND;
    status_t status = journal_open(&store->journal, store->directory, opening->store_id, &found, opening->reason,
                                   opening->reason_size);
    if (status != STATUS_OK || (found == JOURNAL_SOUND && !opening->distrusted)) {
        return status;
    }
    if (opening->distrusted || opening->accepted) {
        status = stranger_at_once(store->env);
    }
    if (status != STATUS_OK) {
        return opening_fail(opening, status, "cannot write to the store in", 0);
    }
    if (opening->distrusted) {
        return make_anew(opening, "the journal cannot be told from another store's and was made anew");
    }
    bool unmade =
        opening->number == 0 && opening->use == USE_UNKNOWN && (found == JOURNAL_ABSENT || found == JOURNAL_BLANK);
    if (unmade) {
        journal_close(&store->journal);
        return recover_make(opening);
    }
    if (journal_recognized(opening, found)) {
        status = journal_head_again(&store->journal, opening->store_id);
        if (status == STATUS_OK) {
            store_damaged(store, 1);
            opening_warn(opening,
                         "the journal's first block was damaged; its batches say whose it is, and it was written anew",
                         "");
            return STATUS_OK;
        }
        return opening_fail(opening, status, "cannot write the journal's first block in", 0);
    }
    if (found == JOURNAL_NEWER) {
        journal_close(&store->journal);
        snprintf(opening->reason, opening->reason_size,
                 "the journal in %s was written by a newer leafd; run that version or use another store directory",
                 store->directory);
        return STATUS_VERSION;
    }
    /* A start without room leaves the word that the store was closed; the promise behind it tells that it is old. */
    if (opening->use == USE_CLOSED && opening->use_position == opening->position && found != JOURNAL_FOREIGN
        && opening->promised.position <= opening->position) {
        return make_anew(
            opening,
            "the journal is missing or damaged and was made anew; the store was closed in order, so nothing is lost");
    }
    if (opening->accepted && found == JOURNAL_SHORT && journal_lengthen(&store->journal)) {
        store_damaged(store, 1);
        opening_warn(
            opening,
            "the journal was cut short and the loss is accepted: what is left of it is used; what was acknowledged "
            "behind its "
            "end is lost, and removals there are undone",
            "");
        return STATUS_OK;
    }
    if (opening->accepted) {
        store_damaged(store, 1);
        return make_anew(opening, "the journal is missing or damaged and the loss is accepted: what was acknowledged "
                                  "since the last checkpoint "
                                  "is lost");
    }
    journal_close(&store->journal);
    return recover_refuse(opening, STATUS_CORRUPT, complaint_of(found));
}

static void say_damage(opening_t *opening, const char *kept) {
    const damage_t *damage = &opening->damage;
    const char *as = kept[0] != 0 ? "; what was there is kept as " : "";
    if (damage->what != NULL) {
        store_alarm(opening->store, ALARM_CORRUPT, 0, 0,
                    "%s; the loss of what was acknowledged since the last checkpoint is accepted%s%s", damage->what, as,
                    kept);
        return;
    }
    store_alarm(opening->store, ALARM_CORRUPT, 0, 0,
                "the journal is damaged from batch %llu on (position %llu): %llu batches were repaired and lost "
                "nothing, %llu lost all or part"
                "%s%s",
                (unsigned long long)damage->number, (unsigned long long)damage->position,
                (unsigned long long)damage->repaired, (unsigned long long)damage->lost, as, kept);
}

status_t recover_remake(opening_t *opening, uint64_t size) {
    store_t *store = opening->store;
    status_t status = recover_use_note(store->env, USE_CLOSED, opening->position);
    opening->use = USE_UNKNOWN; /* note_use writes it again */
    opening->made = true;
    journal_close(&store->journal);
    return status != STATUS_OK ? status
                               : journal_make(&store->journal, store->directory, size, opening->store_id,
                                              opening->position, opening->reason, opening->reason_size);
}

static bool disk_fits(const store_t *store, uint64_t size) {
    struct statvfs room;
    return statvfs(store->directory, &room) == 0 && (uint64_t)room.f_bavail * room.f_frsize > size
           && (room.f_files == 0 || room.f_favail > 0); /* some file systems do not count files */
}

status_t recover_enlarge(opening_t *opening) {
    const store_t *store = opening->store;
    uint64_t wanted = store->sizes.ring;
    uint64_t fits = sizes_message_max(store->journal.size);
    bool small = store->journal.size < wanted && store->options.message_max > fits;
    return small && disk_fits(store, 2 * wanted) ? recover_remake(opening, wanted) : STATUS_OK;
}

/* LMDB has everything now, so that it can do without the file for a moment. */
status_t recover_keep(opening_t *opening) {
    store_t *store = opening->store;
    uint64_t size = store->journal.size;
    char name[NAME_SIZE] = "";
    if (!opening->damage.seen) {
        return STATUS_OK;
    }
    bool fits = disk_fits(store, 2 * size);
    status_t status = fits ? recover_use_note(store->env, USE_CLOSED, opening->position) : STATUS_OK;
    if (fits && status == STATUS_OK) {
        opening->use = USE_CLOSED;
        opening->use_position = opening->position;
        journal_close(&store->journal);
        status = set_aside(opening, name);
        opening->made = true;
        if (status == STATUS_OK) {
            status = journal_make(&store->journal, store->directory, size, opening->store_id, opening->position,
                                  opening->reason, opening->reason_size);
        }
    }
    say_damage(opening, name);
    return status;
}

void recover_done(const opening_t *opening) {
    char path[STORE_PATH_MAX];
    if (opening->accepted && store_path(opening->store, accept_name, path)) {
        (void)unlink(path);
    }
}
