/* env_lmdb.h: what the files of the environment share: env_open.c opens and closes it, env.c writes, env_read.c
 * and env_written.c read, env_packed.c has what is compressed, env_formats.c what META says of it. The only file that
 * includes lmdb.h, and only these and commit_hold.c include it.
 *
 * Messages lie in a database for each stream ("m" and the id in hex), not all in one: keys that are appended in the
 * midst of a tree leave every page half full behind them (measured with 8 streams of 128 B messages: 3.1 bytes of file
 * a byte of payload against 2.1, and the keeper's CPU doubled). The keeper opens a new one inside its write
 * transaction; the plane hears of it by a count that is published after the commit. When MESSAGE_DBS_MAX are in use,
 * further streams share the database "messages".
 *
 *     index    0 .. DB_COUNT-1          the databases of keys.h
 *              DB_COUNT + slot          the messages of slots[slot], slot < published
 */
#ifndef LEAFD_DISK_ENV_LMDB_H
#define LEAFD_DISK_ENV_LMDB_H

#include <errno.h>
#include <lmdb.h>
#include <stdatomic.h>

#include "base/check.h"
#include "disk/env.h"
#include "disk/packer.h"
#include "disk/slots.h"
#include "disk/tree.h"
#include "disk/willneed.h"

#define MESSAGE_DBS_MAX SLOTS_MAX
#define DBS_MAX (DB_COUNT + MESSAGE_DBS_MAX)

/* Entries up to this size are sealed by env_write_puts at once. Larger entries are sealed in LMDB's page, one by one.
 */
#define PUT_SHORT 1024
typedef struct puts {
    store_key_t keys[ENV_PUTS_MAX];
    bytes_t lmdb[ENV_PUTS_MAX];
    bytes_t sealed[ENV_PUTS_MAX]; /* empty: not sealed yet */
    sealer_item_t items[ENV_PUTS_MAX];
    uint8_t room[ENV_PUTS_MAX][PUT_SHORT];
} puts_t;

/* Keys of a database that were judged. */
typedef struct span {
    bool any;
    uint32_t of; /* database */
    store_key_t low;
    store_key_t high; /* empty: to the end */
} span_t;

/* The end of a stream, which was judged for a put behind it: LMDB has the way there in memory since. Many streams are
 * written to in turn, each at its end. */
typedef struct tail {
    uint64_t begun;     /* in this write transaction */
    uint64_t last;      /* sequence of the stream's last message in the commit before; 0: there was none */
    const uint8_t *put; /* where the last message was put; it may be there no longer */
} tail_t;

/* The keeper's knowledge of the commit before its write transaction: env_judge.c. */
typedef struct judging {
    trees_t trees;
    uint64_t epochs[DBS_MAX]; /* roots are of this write transaction .. */
    page_db_t roots[DBS_MAX];
    bool large[DBS_MAX]; /* it has large values */
    span_t spans[2];     /* .. and these keys were judged: of what is kept a second time, and of all else */
    uint64_t begun;      /* so many write transactions */
    tail_t tails[MESSAGE_DBS_MAX];
    uint8_t *kept; /* both first pages as the last commit left them */
    bool kept_any;
    page_copies_t lists; /* all pages of both lists, likewise */
    uint64_t lists_of;   /* commit whose lists are known: trees.noted has their pages; 0: none */
    uint64_t free_pages; /* on its list */
    uint64_t frozen;     /* so many of the runs that trees.noted has, its first */
    int64_t at_ns;       /* when spans began to be judged */
} judging_t;

/* The last damage, for the alarm. */
typedef struct wrong {
    atomic_uint_fast64_t count;
    atomic_uint_fast64_t page;
    _Atomic(const char *) what;
    _Atomic uint32_t stream;  /* whose own messages were on it, 0: it is no leaf of such .. */
    atomic_uint_fast64_t seq; /* .. with this one's place */
    atomic_bool right;        /* it was put right since */
} wrong_t;

/* Of the list of free pages as it was opened: env_proof.c. */
typedef struct proof {
    struct reach *reach; /* NULL: it has come to its end */
    MDB_txn *reader;     /* NULL: LMDB may use what is on the list */
} proof_t;

struct env {
    MDB_env *env;          /* NULL: it could not be opened again */
    unread_watch_t *watch; /* of LMDB's own map */
    char *directory;
    uint64_t map_size;
    bool memory;
    const sealer_t *sealer;
    bool broken; /* keeper: LMDB takes no more writes */
    MDB_dbi dbs[DBS_MAX];
    uint32_t slots[MESSAGE_DBS_MAX]; /* stream ids; written before they are published */
    _Atomic uint32_t published;
    uint32_t page_size;
    /* plane */
    MDB_txn *read;
    trees_t reading;
    tree_cursor_t readers[DBS_MAX];
    uint64_t reader_renewals[DBS_MAX];
    page_db_t roots[DBS_MAX];
    uint64_t root_renewals[DBS_MAX];
    uint64_t renewals;
    atomic_uint_fast64_t unread; /* of any thread */
    wrong_t wrong;
    atomic_bool blocked;             /* a write met a damaged page, .. */
    atomic_uint_fast64_t blocked_by; /* .. this one; 0: it is the list of free pages */
    slots_t read_slots;
    willneed_t read_ahead;
    unsealed_t read_values;
    dictionaries_t read_dictionaries; /* of this renewal */
    env_view_t *views;
    /* keeper */
    MDB_txn *write;
    uint64_t unread_before; /* .. begun: of LMDB's map */
    judging_t judging;
    proof_t proof;
    MDB_cursor *writers[DBS_MAX];
    slots_t write_slots;
    willneed_t write_ahead;
    unsealed_t written_value;    /* the last one that was read */
    status_t written_why;        /* of the last read that was not known */
    puts_t *puts;                /* NULL: no sealer, nothing put yet, or no memory */
    bool put_large[DBS_MAX];     /* a value that may have pages of its own was put in the open transaction */
    bool touches, makes_whole;   /* the open transaction changes something; all is of one moment with it */
    atomic_uint_fast64_t wholes; /* commits that were so; odd: parts have been committed since */
    dictionaries_t written_dictionaries;
    uint64_t written_version; /* they are those of this one */
    packer_t *packer;         /* NULL: nothing packed yet, or no memory */
    uint64_t packer_first;    /* 0: PACKER_FIRST */
    uint8_t *twin;            /* room for what is put a second time */
    uint32_t twin_size;
    uint32_t formats;       /* STORE_FORMAT_*: what was put .. */
    uint32_t formats_put;   /* .. what the open transaction puts of it into META .. */
    uint32_t formats_noted; /* .. and what a commit has put there */
    uint8_t formats_record[STORE_FORMAT_SIZE];
    bool formats_known; /* the record is META's */
    changed_t changed;
    uint32_t opened; /* slots in use, those of the open transaction included */
    bool has_ledger; /* there is a table of entries; in the open transaction, .. */
    bool had_ledger; /* .. and before it */
};

/* Finds the root of a database's tree; PAGE_NONE: the database is not there yet. */
status_t env_find_root(const env_t *env, trees_t *trees, uint32_t index, page_db_t *db, bool *large);
/* index: of the database whose tree was read, DBS_MAX: of none alone. */
void env_tell_wrong(env_t *env, trees_t *trees, uint32_t index);
void env_tell_page(env_t *env, size_t page, const char *what);
/* NULL: it gives nothing any more. */
trees_t *env_view_trees(env_view_t *view);
/* env_proof.c: right behind LMDB's open, once judging.trees are; what is left is the keeper's / LMDB is closed. */
status_t env_proof_begin(env_t *env);
void env_proof_end(env_t *env);
/* env_free.c: the commit of LMDB's oldest reader, or `oldest`. */
size_t env_oldest_reader(const env_t *env, size_t oldest);
/* A failed begin of a look, as ours. */
static inline status_t env_read_code(int code) {
    return code == 0 ? STATUS_OK : code == ENOMEM ? STATUS_NO_MEMORY : STATUS_IO;
}
/* From what LMDB has to what the store put. found: the key, which may change with it; NULL: it is known. */
status_t env_plain_of(env_t *env, store_db_t db, bytes_t lmdb, bytes_t *found, bytes_t *value);
/* env_view.c: none of them gives anything any more. */
void env_views_end(env_t *env);
read_outcome_t env_get_as_stored(env_t *env, store_db_t db, bytes_t key, bytes_t *value);
/* env_judge.c: before LMDB begins a write transaction, and before each of its calls on a database. */
status_t env_judge_begin(env_t *env, bool looks); /* looks: without the list of free pages */
status_t env_judge(env_t *env, uint32_t index, bytes_t lmdb);
status_t env_judge_put(env_t *env, uint32_t index, bytes_t lmdb); /* a put follows at once, or the transaction ends */
status_t env_judge_whole(env_t *env, uint32_t index);             /* as mdb_drop looks at it */
status_t env_judge_leaves(env_t *env, uint32_t index);            /* as a cursor that goes through it */
/* How many there are on the list of free pages. */
status_t env_free_pages(env_t *env, uint64_t *pages);
void env_judge_committed(env_t *env);
/* The write transaction is over, or did not begin. */
void env_judge_end(env_t *env);

static inline MDB_val env_val(bytes_t bytes) {
    return (MDB_val){.mv_size = bytes.size, .mv_data = (void *)(uintptr_t)bytes.at};
}

static inline bytes_t env_bytes(MDB_val val) {
    return bytes_of(val.mv_data, (uint32_t)val.mv_size);
}

/* The index of the database. */
static inline uint32_t env_index(const env_t *env, const slots_t *slots, store_db_t db, bytes_t key) {
    if (db != DB_MESSAGES || key.size < 4) {
        return db;
    }
    uint32_t slot = slots_find(slots, env->slots, load_be32(key.at));
    check(slot <= SLOTS_MAX);
    return slot != 0 ? DB_COUNT + slot - 1u : DB_MESSAGES;
}

static inline store_db_t env_db_of(uint32_t index) {
    return index < DB_COUNT ? (store_db_t)index : DB_MESSAGES;
}

status_t env_translate(int code);                                     /* LMDB's codes as ours */
status_t env_writer(env_t *env, uint32_t index, MDB_cursor **cursor); /* of the write transaction */
/* A read of which it is not known what it would have found: the plane says so. */
static inline void env_note_unread(env_t *env) {
    atomic_fetch_add_explicit(&env->unread, 1, memory_order_relaxed);
}
/* LMDB reports a short write as EIO; what it was is looked up. */
status_t env_commit_status(env_t *env, int code);
/* Gives a stream a database of its own, inside the write transaction; LMDB's code. */
int env_open_messages(env_t *env, MDB_txn *txn, uint32_t stream);
/* The table of entries; LMDB's code. Without MDB_CREATE there may be none. */
int env_open_ledger(env_t *env, MDB_txn *txn, unsigned int flags);
/* Nobody has put anything into that database yet, and LMDB does not have it. */
static inline bool env_lacks(const env_t *env, uint32_t index) {
    return index == DB_LEDGER && !env->has_ledger;
}
/* The transaction that opened some has ended without a commit. */
void env_forget_opened(env_t *env);

/* The database that keeps an entry of db a second time, DB_COUNT: none; env_twins.c. */
store_db_t env_twin_of(store_db_t db, bytes_t key);
status_t env_twin_put(env_t *env, store_db_t twin, bytes_t key, bytes_t value);

/* Has that record a name beside it? Puts it, behind the record (its value with the checksum): env_names.c. */
bool env_is_named(store_db_t db, bytes_t key);
status_t env_name_put(env_t *env, bytes_t key, bytes_t record);

/* A message's value that is packed, as packing_unpack says, in the room of what is read. */
LEAF_MUST_USE status_t env_unpack_read(env_t *env, bytes_t key, bytes_t packed, bytes_t *value);
LEAF_MUST_USE status_t env_unpack_written(env_t *env, bytes_t key, bytes_t packed, bytes_t *value);
/* Packs a message that is to be packed; the value is LMDB's until the next one. */
status_t env_pack(env_t *env, bytes_t key, bytes_t *value);
status_t env_drop_dictionaries(env_t *env, uint32_t slot, uint32_t stream);
/* The same where the stream, which has that database, has no message any more: a dictionary is text of messages. */
status_t env_forget_emptied(env_t *env, uint32_t opened, uint32_t stream);
/* Says in META what an older leafd has to know, inside the write transaction. */
LEAF_MUST_USE status_t env_note_formats(env_t *env);

/* What stands on a damaged page is kept beside the store, as far as there is room; the page is written over, and what
 * waited for it goes on: env_patch.c. */
void env_patch_keep(const env_t *env, size_t number, const uint8_t *page);
LEAF_MUST_USE status_t env_patch_put(env_t *env, size_t number, const uint8_t *made, uint32_t size);

#endif
