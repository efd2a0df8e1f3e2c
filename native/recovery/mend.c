/* mend.c: a start makes a sound data.mdb of a damaged one. What can be read goes into a new file as rescue.c brings it;
 * what was derived is counted again, what is kept twice comes from the other side, what hung from a lost page is found
 * without it (orphans.c). What is lost is named, stream by stream.
 *
 *     mending/data.mdb      is made; whatever ends the process leaves a folder that the next start removes
 *     data.mdb.damaged      a second name of what was there
 *     data.mdb              the new file, by one rename
 *
 * A page that the disk refuses, three times, is one more that is damaged: without it a box goes on, and what the disk
 * gives of it another time is in what is kept. With more than MENDED_MAX of them, or a quarter of the file, it is not
 * the page, and nothing is mended unasked: the disk may give it all another time.
 *
 * The journal is replayed into it as into any other, but counted anew (options.lossy). It takes room and time for all
 * that is stored, so a few damaged pages are mended by any start, and many only by one whose loss is accepted.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "disk/directory.h"
#include "recovery/look.h"
#include "recovery/pages.h"
#include "recovery/salvage.h"
#include "store/overlay.h"

#define MENDED_MAX 16 /* pages */
#define PAGE_USUAL 4096
#define FINDINGS_ROOM 8192
#define LINES_MAX 24 /* of the findings, as alarms: others are to find room, too */

typedef struct mending {
    opening_t *opening;
    char folder[STORE_PATH_MAX];
    char made[STORE_PATH_MAX];
    char lock[STORE_PATH_MAX];
    char lmdb[STORE_PATH_MAX];
    char kept[STORE_PATH_MAX];
    store_audit_t audit;
    char findings[FINDINGS_ROOM];
    char reason[PLANE_REASON_SIZE];
    uint8_t page[PAGES_SIZE_MAX];
} mending_t;

static bool mending_paths(mending_t *mending) {
    const store_t *store = mending->opening->store;
    return store_path(store, "mending", mending->folder) && store_path(store, "mending/data.mdb", mending->made)
           && store_path(store, "mending/lock.mdb", mending->lock) && store_path(store, "data.mdb", mending->lmdb)
           && store_path(store, "data.mdb.damaged", mending->kept);
}

static void mending_clear(const mending_t *mending) {
    (void)unlink(mending->made);
    (void)unlink(mending->lock);
    (void)rmdir(mending->folder);
}

static status_t mending_fill(mending_t *mending) {
    const store_t *store = mending->opening->store;
    store_facts_t facts;
    int32_t status = STATUS_OK;
    store_look_t *look = plane_look_open(store->directory, store->options.keys, 0, &facts, mending->reason, &status);
    if (look == NULL || mkdir(mending->folder, 0700) != 0) {
        plane_look_close(look);
        return look == NULL && status != STATUS_CORRUPT ? (status_t)status : STATUS_IO;
    }
    status =
        plane_look_rescue(look, mending->folder, 1, &mending->audit, mending->findings, FINDINGS_ROOM, mending->reason);
    plane_look_close(look);
    return status == STATUS_CORRUPT ? STATUS_IO : (status_t)status;
}

/* True if the disk refuses more than a page or two. */
static bool disk_fails(mending_t *mending) {
    struct stat file;
    uint64_t refused = mending->opening->accepted ? 0 : pages_refused(mending->lmdb, MENDED_MAX, mending->page);
    bool much = refused > 0 && stat(mending->lmdb, &file) == 0 && refused > (uint64_t)file.st_size / PAGE_USUAL / 4;
    return refused > MENDED_MAX || much;
}

static status_t mending_swap(const mending_t *mending) {
    char lock[STORE_PATH_MAX];
    (void)unlink(mending->kept);
    if (link(mending->lmdb, mending->kept) != 0 || rename(mending->made, mending->lmdb) != 0) {
        return STATUS_IO;
    }
    if (store_path(mending->opening->store, "lock.mdb", lock)) {
        (void)unlink(lock); /* it counts the commits of the other file */
    }
    directory_sync(mending->opening->store->directory);
    return STATUS_OK;
}

static void mending_tell(mending_t *mending, const char *what) {
    store_t *store = mending->opening->store;
    char *rest = NULL;
    uint32_t lines = 0;
    store_damaged(store, 1);
    store_alarm(store, ALARM_CORRUPT, 0, 0,
                "data.mdb was damaged (%s): it was made anew of what could be read (%llu messages), and what was there "
                "is kept as data.mdb.damaged",
                what, (unsigned long long)mending->audit.messages);
    for (char *line = strtok_r(mending->findings, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        if (++lines <= LINES_MAX) {
            store_alarm(store, ALARM_CORRUPT, 0, 0, "%s", line);
        }
    }
    if (lines > LINES_MAX) {
        store_alarm(store, ALARM_CORRUPT, 0, 0, "data.mdb has lost more: %u further lines are left out",
                    lines - LINES_MAX);
    }
}

status_t mend_store(opening_t *opening, const char *what) {
    store_t *store = opening->store;
    mending_t *mending = calloc(1, sizeof *mending);
    if (mending == NULL) {
        return STATUS_NO_MEMORY;
    }
    mending->opening = opening;
    status_t status = mending_paths(mending) ? STATUS_OK : STATUS_IO;
    if (status == STATUS_OK) {
        mending_clear(mending);
        status = disk_fails(mending) ? STATUS_CORRUPT : mending_fill(mending);
        if (status == STATUS_OK && mending->audit.damaged_pages > MENDED_MAX && !opening->accepted) {
            status = STATUS_CORRUPT;
        }
        status = status == STATUS_OK ? mending_swap(mending) : status;
        mending_clear(mending);
    }
    if (status == STATUS_OK) {
        store->options.lossy = true;
        mending_tell(mending, what);
    } else if (status != STATUS_CORRUPT) {
        store_damaged(store, 1);
        store_alarm(store, ALARM_CORRUPT, 0, 0,
                    "data.mdb is damaged (%s) and cannot be made anew (%s): what can be read is served", what,
                    mending->reason[0] != 0 ? mending->reason : status_name(status));
    }
    free(mending);
    return status;
}
