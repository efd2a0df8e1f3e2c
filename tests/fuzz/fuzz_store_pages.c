/* A file of LMDB's of which the input changes bytes, empties pages, exchanges them, or takes away the end while it is
 * read. Invariants: whoever reads it without LMDB ends, in order, with an answer or with "not known"; a walk goes on in
 * the order of keys; what is handed out lies within the file's map (ASan sees it read); a look at all of it ends, too.
 *
 *     input    what 1 (0 bytes, 1 zeros, 2 another page, 3 the end), page 1, then
 *              bytes: where 2, how many 1 (up to 16), these;   another page: which 1;   zeros, the end: unused 1
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "disk/env.h"
#include "disk/reach.h"
#include "disk/tree.h"
#include "recovery/look.h"

#define MAP_SIZE (UINT64_C(16) << 20)
#define IMAGE_MAX (UINT64_C(1) << 20)
#define SMALL_PAGE 4096u
#define STEPS 4096
#define MESSAGES 60u
#define LARGE 9000u

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[] = "/tmp/leafd-fuzz-XXXXXX";
static char path[sizeof directory + 16];
static uint8_t image[IMAGE_MAX];
static uint8_t changed[IMAGE_MAX];
static uint64_t image_size;
static volatile uint8_t seen; /* what was read is read */

static void tidy(void) {
    char lock[sizeof path];
    snprintf(lock, sizeof lock, "%s/lock.mdb", directory);
    (void)unlink(lock);
    (void)unlink(path);
    (void)rmdir(directory);
}

/* ---- the file before anything is changed ------------------------------------------------------------------------- */

static void put_record(env_t *env, uint32_t kind, uint32_t stream, const char *text) {
    uint8_t at[4];
    uint8_t value[512];
    store_key_t key;
    store_be32(at, stream);
    key_record(&key, kind, bytes_of(at, sizeof at));
    uint32_t size = VALUE_CRC_SIZE + (uint32_t)strlen(text);
    memcpy(value + VALUE_CRC_SIZE, text, strlen(text));
    value_seal(key_bytes(&key), value, size);
    check(env_write_put(env, DB_RECORDS, key_bytes(&key), bytes_of(value, size)) == STATUS_OK);
}

static void put_message(env_t *env, uint32_t stream, uint64_t seq) {
    static uint8_t payload[LARGE];
    static uint8_t value[LARGE + 128];
    store_key_t key;
    const message_record_t message = {.flags = seq % 2 == 0 ? MESSAGE_BRIEF : 0,
                                      .ts = (int64_t)seq,
                                      .subject = BYTES_LITERAL("fuzz.pages"),
                                      .payload = bytes_of(payload, seq % 20 == 0 ? LARGE : 100)};
    key_message(&key, stream, seq);
    message_write(value, key_bytes(&key), &message);
    check(env_write_put(env, DB_MESSAGES, key_bytes(&key), bytes_of(value, message_size(seq, &message))) == STATUS_OK);
}

static void fill(void) {
    char reason[256];
    char text[64];
    env_t *env;
    check(env_open(directory, MAP_SIZE, false, &env, reason, sizeof reason) == STATUS_OK);
    for (uint32_t part = 0; part < 3; part++) { /* several commits, so that there is a list of free pages */
        check(env_write_begin(env) == STATUS_OK);
        for (uint32_t stream = 1; stream <= 25; stream++) {
            snprintf(text, sizeof text, "{\"account\":\"A\",\"config\":{\"name\":\"S%u\"}}", stream);
            put_record(env, RECORD_STREAM, stream, text);
        }
        for (uint64_t seq = 1 + part * (uint64_t)MESSAGES; seq <= (part + 1) * (uint64_t)MESSAGES; seq++) {
            put_message(env, 1 + (uint32_t)(seq % 2), seq);
        }
        check(env_write_commit(env) == STATUS_OK);
    }
    env_close(env);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    check(mkdtemp(directory) != NULL);
    snprintf(path, sizeof path, "%s/data.mdb", directory);
    check(atexit(tidy) == 0);
    fill();
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    check(fd >= 0);
    ssize_t got = read(fd, image, sizeof image);
    check(got > 0 && got < (ssize_t)sizeof image);
    image_size = (uint64_t)got;
    close(fd);
    return 0;
}

/* ---- what the input makes of it ---------------------------------------------------------------------------------- */

/* Returns where the file ends while it is read. */
static uint64_t change(bytes_t input) {
    uint64_t end = image_size;
    uint64_t pages = image_size / SMALL_PAGE;
    memcpy(changed, image, image_size);
    while (input.size >= 3) {
        uint8_t *page = changed + input.at[1] % pages * SMALL_PAGE;
        unsigned what = input.at[0] % 4;
        if (what == 0 && input.size >= 5) {
            uint32_t where = load_be16(input.at + 2) % SMALL_PAGE;
            uint32_t count = input.at[4] % 16 + 1;
            input = bytes_after(input, 5);
            count = count < input.size ? count : input.size;
            count = count < SMALL_PAGE - where ? count : SMALL_PAGE - where;
            memcpy(page + where, input.at, count);
            input = bytes_after(input, count);
            continue;
        }
        if (what == 1) {
            memset(page, 0, SMALL_PAGE);
        } else if (what == 2) {
            memmove(page, image + input.at[2] % pages * SMALL_PAGE, SMALL_PAGE);
        } else if (what == 3) {
            end = (uint64_t)(page - changed);
        }
        input = bytes_after(input, 3);
    }
    return end;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void read_bytes(bytes_t bytes) {
    for (uint32_t i = 0; i < bytes.size; i++) {
        seen ^= bytes.at[i];
    }
}

static void walk(trees_t *trees, page_db_t db, bool back) {
    store_key_t last = {0};
    tree_cursor_t cursor = {0};
    tree_entry_t entry;
    bool any = false;
    read_outcome_t outcome =
        back ? tree_last(trees, db, &cursor, &entry) : tree_seek(trees, db, BYTES_NONE, &cursor, &entry);
    for (unsigned i = 0; outcome == READ_FOUND && i < STEPS; i++) {
        read_bytes(entry.key);
        read_bytes(entry.value);
        check(entry.key.size <= KEY_MAX);
        int order = any ? bytes_compare(key_bytes(&last), entry.key) : 0;
        check(!any || (back ? order > 0 : order < 0));
        any = true;
        last.size = entry.key.size;
        memcpy(last.at, entry.key.at, entry.key.size);
        outcome = tree_step(trees, &cursor, back, &entry);
    }
}

static void read_database(trees_t *trees, const char *name) {
    page_db_t db;
    uint64_t large;
    bytes_t value;
    page_bounds_t span = {0};
    if (trees_find(trees, name, &db, &large) != READ_FOUND) {
        return;
    }
    walk(trees, db, false);
    walk(trees, db, true);
    for (uint64_t seq = 1; seq < 3 * (uint64_t)MESSAGES; seq += 31) {
        store_key_t key;
        key_message(&key, 1, seq);
        if (tree_get(trees, db, key_bytes(&key), &value) == READ_FOUND) {
            read_bytes(value);
        }
        (void)!tree_judge(trees, db, key_bytes(&key), &span);
    }
    (void)!tree_judge_all(trees, db, true);
}

static void reach_all(const trees_t *trees) {
    reach_t *reach;
    size_t page;
    status_t status = STATUS_AGAIN;
    check(reach_open(trees, &reach) == STATUS_OK);
    for (uint64_t steps = 0; status == STATUS_AGAIN; steps++) {
        check(steps < 16 * MAP_SIZE / SMALL_PAGE); /* each page is told of a few times at most */
        status = reach_step(reach, INT64_MAX);
        (void)reach_wrong(reach, &page);
    }
    reach_close(reach);
}

static void read_trees(int fd, uint64_t end) {
    static const char *const names[] = {"meta", "records", "record_copies", "names", "m00000001", "m00000002", "heads"};
    trees_t trees = {0};
    page_meta_t meta;
    uint64_t pages;
    check(trees_open(&trees, fd, MAP_SIZE) == STATUS_OK);
    trees.meta.page_size = SMALL_PAGE;
    check(ftruncate(fd, (off_t)end) == 0); /* what lies behind is not given any more: unread.h */
    for (size_t number = 0; number < 2; number++) {
        uint8_t first[SMALL_PAGE];
        memcpy(first, changed + number * SMALL_PAGE, SMALL_PAGE);
        trees.epoch = number; /* judged at each visit, and once */
        trees_ask_again(&trees);
        if (page_meta_read(first, number, &meta) && trees_renew(&trees, meta.commit) == STATUS_OK) {
            for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                read_database(&trees, names[i]);
            }
            (void)!trees_judge_free(&trees, &pages);
            reach_all(&trees);
        }
    }
    trees_close(&trees);
}

static void look_at_all(void) {
    static char findings[1 << 16];
    static uint8_t rows[1 << 16];
    char reason[PLANE_REASON_SIZE];
    store_facts_t facts;
    store_audit_t audit;
    int32_t status;
    store_look_t *look = plane_look_open(directory, NULL, 0, &facts, reason, &status);
    if (look != NULL) {
        (void)plane_look_records(look, rows, sizeof rows, reason);
        (void)plane_look_audit(look, &audit, findings, sizeof findings, reason);
        plane_look_close(look);
    }
    (void)!pages_check(path, true, reason, sizeof reason);
    (void)!pages_check(path, false, reason, sizeof reason);
    (void)pages_cut_short(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 2048) {
        return 0;
    }
    uint64_t end = change(bytes_of(data, (uint32_t)size));
    int fd = open(path, O_RDWR | O_TRUNC | O_CLOEXEC);
    check(fd >= 0);
    check(write(fd, changed, image_size) == (ssize_t)image_size);
    read_trees(fd, end);
    close(fd);
    look_at_all();
    return 0;
}
