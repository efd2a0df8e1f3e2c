/* env_proof.c: proves that the pages are free which LMDB's list of free pages names. LMDB writes over these, and a
 * number that became another one while the daemon was down is as sound as any to look at. So before LMDB takes a page
 * off the list, all that the newest commit uses is held against it (reach.h). See env_lmdb.h.
 *
 *     env_open        for AT_OPEN_NS
 *     the keeper      in steps, between two transactions; in one go when a write finds no room
 *     until then      LMDB takes no page off the list: a reader seems to need the first commit there was. The file
 *                     grows by what is written meanwhile, and what the commit uses stays as it is
 *     a page is both  it stays so, and the store is opened anew and mended (env_blocked)
 *
 * From then on nothing but LMDB changes the list: env_judge.c. A store that is looked at whole in each start
 * (native/recovery) is proven here once more, in a millisecond or two.
 *
 * The reader is one of LMDB's own, whose commit in LMDB's table (lock.mdb) becomes the first one. Chosen against writes
 * that wait for the proof: on a cold SD card that would be a second for some gigabytes. Where the table looks otherwise
 * than it does in LMDB 0.9, the open waits for the proof.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/number.h"
#include "disk/env_lmdb.h"
#include "disk/reach.h"
#include "disk/waiting.h"

#define AT_OPEN_NS (20 * NS_PER_MS)
#define ROOM_SHORT (UINT64_C(64) << 20) /* with less, what the list has may be needed by the open itself */
#define FIRST_COMMIT 1u                 /* LMDB takes no entry off its list while this is the oldest reader */
#define READER_ROOM 64u                 /* bytes of a reader in LMDB's table: a line of the processor's cache */

static atomic_int_fast64_t at_open_ns = AT_OPEN_NS;

void env_proof_at_open(int64_t ns) {
    atomic_store(&at_open_ns, ns);
}

/* ---- the reader -------------------------------------------------------------------------------------------------- */

/* As LMDB writes it. */
typedef struct reader {
    volatile size_t commit;
    pid_t process;
    pthread_t thread;
} reader_t;

/* Ours in the table, which lies behind a head of as many such rooms as that takes. NULL: there is none. */
static reader_t *reader_of(uint8_t *table, uint64_t size, size_t commit) {
    for (uint64_t at = 0; at + READER_ROOM <= size; at += READER_ROOM) {
        reader_t *reader = (reader_t *)(void *)(table + at);
        if (reader->commit == commit && reader->process == getpid() && pthread_equal(reader->thread, pthread_self())) {
            return reader;
        }
    }
    return NULL;
}

/* true: LMDB itself sees it. */
static bool reader_ages(env_t *env, uint8_t *table, uint64_t size) {
    reader_t *reader = reader_of(table, size, mdb_txn_id(env->proof.reader));
    if (reader != NULL) {
        reader->commit = FIRST_COMMIT;
    }
    return reader != NULL && env_oldest_reader(env, SIZE_MAX) == FIRST_COMMIT;
}

static bool hold_all(env_t *env) {
    char path[4096];
    struct stat file;
    bool held = false;
    int length = snprintf(path, sizeof path, "%s/lock.mdb", env->directory);
    int fd = length > 0 && (size_t)length < sizeof path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) {
        return false;
    }
    bool begun = mdb_txn_begin(env->env, NULL, MDB_RDONLY, &env->proof.reader) == 0;
    if (!begun) {
        env_note_unread(env);
    }
    if (begun && fstat(fd, &file) == 0) {
        void *table = mmap(NULL, (size_t)file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (table != MAP_FAILED) {
            held = reader_ages(env, table, (uint64_t)file.st_size);
            (void)munmap(table, (size_t)file.st_size);
        }
    }
    close(fd);
    return held;
}

/* ---- the proof --------------------------------------------------------------------------------------------------- */

static bool room_is_short(const env_t *env) {
    struct statvfs disk;
    uint64_t used = ((uint64_t)env->judging.trees.meta.last + 1) * env->page_size;
    return number_less(env->map_size, used) < ROOM_SHORT || fstatvfs(env->judging.trees.fd, &disk) != 0
           || (uint64_t)disk.f_bavail * disk.f_frsize < ROOM_SHORT;
}

void env_proof_end(env_t *env) {
    reach_close(env->proof.reach);
    if (env->proof.reader != NULL) {
        mdb_txn_abort(env->proof.reader);
    }
    env->proof = (proof_t){0};
}

status_t env_proof_step(env_t *env, int64_t until_ns) {
    size_t page;
    if (LEAF_LIKELY(env->proof.reach == NULL)) {
        return STATUS_OK;
    }
    status_t status = reach_step(env->proof.reach, until_ns);
    const char *wrong = reach_wrong(env->proof.reach, &page);
    if (status == STATUS_CORRUPT) { /* who hears of the damage asks for this next */
        atomic_store(&env->blocked_by, 0);
        atomic_store_explicit(&env->blocked, true, memory_order_release);
    }
    if (wrong != NULL) {
        env_tell_page(env, page, wrong);
    }
    if (status == STATUS_CORRUPT) { /* the reader stays */
        reach_close(env->proof.reach);
        env->proof.reach = NULL;
    } else if (status == STATUS_OK) {
        env_proof_end(env);
    }
    return status;
}

status_t env_proof_whole(env_t *env) {
    status_t status = STATUS_AGAIN;
    while (status == STATUS_AGAIN) {
        status = env_proof_step(env, INT64_MAX);
    }
    return status;
}

status_t env_proof_begin(env_t *env) {
    trees_t *trees = &env->judging.trees;
    MDB_envinfo info;
    mdb_env_info(env->env, &info);
    status_t status = trees_renew(trees, info.me_last_txnid);
    if (status != STATUS_OK || trees->meta.free_list.root == PAGE_NONE) {
        return status;
    }
    status = reach_open(trees, &env->proof.reach);
    if (status != STATUS_OK) {
        return status;
    }
    bool waits = !hold_all(env) || room_is_short(env);
    int64_t until_ns = thread_elapsed_ns() + atomic_load(&at_open_ns);
    do {
        status = env_proof_step(env, waits ? INT64_MAX : until_ns);
    } while (status == STATUS_AGAIN && (waits || thread_elapsed_ns() < until_ns));
    return STATUS_OK; /* what was found is told */
}
