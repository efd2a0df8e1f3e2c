/* env.h: the LMDB environment, and the only door to LMDB. Databases by store_db_t, keys and values as bytes, LMDB's
 * errors as status_t. Knows nothing of what the bytes mean.
 *
 * Two sides. Reading (env_get, env_seek ..): the plane thread, in one read transaction that env_renew moves to the
 * newest commit; what reads hand out lives until then, and with a sealer until env_forget. Writing (env_write_*): the
 * keeper thread alone, in one write transaction at a time. LMDB is used in its own safe mode: a commit is on disk when
 * env_write_commit returns, never MDB_WRITEMAP, never MDB_NOSYNC but for memory stores.
 */
#ifndef LEAFD_DISK_ENV_H
#define LEAFD_DISK_ENV_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/outcome.h"
#include "disk/changed.h"
#include "disk/keys.h"
#include "disk/sealer.h"

typedef struct env env_t;

typedef struct env_usage {
    uint64_t map_bytes;
    uint64_t used_bytes; /* pages ever used; free ones among them are not counted out */
    uint64_t free_bytes; /* known only after env_usage_exact */
} env_usage_t;

LEAF_MUST_USE status_t env_open(const char *directory, uint64_t map_size, bool memory, env_t **out, char *reason,
                                size_t reason_size);
/* From now on entries but those of META are sealed. sealer: NULL = none; the caller's, until env_close. */
void env_seal(env_t *env, const sealer_t *sealer);
/* Before anything is put. The first dictionary of a compressed stream comes so many bytes later (packer.h); 0: as many
 * as pay. */
void env_pack_from(env_t *env, uint64_t first);
void env_close(env_t *env);

/* A write to its first pages that fails ends LMDB's work: reads go on in the snapshot that is there, writes are
 * STATUS_IO until it is opened again. The keeper thread asks. */
bool env_broken(const env_t *env);
/* Both threads' business: neither may be in any other call. On failure reads and writes are STATUS_IO until it is tried
 * again. */
LEAF_MUST_USE status_t env_reopen(env_t *env);

/* ---- plane thread ------------------------------------------------------------------------------------------------ */
/* On failure the old snapshot stays. */
LEAF_MUST_USE status_t env_renew(env_t *env);
/* Pages that were judged in this snapshot are judged once more when they are read: what memory had of them may come
 * from the disk again. Each costs its checksum, so it is for once a second. */
void env_judge_again(env_t *env);
/* Forgets the values that were read so far, which no caller needs any more. With a sealer they take memory until then.
 */
void env_forget(env_t *env);
LEAF_MUST_USE read_outcome_t env_get(env_t *env, store_db_t db, bytes_t key, bytes_t *value);
/* The same from where it is kept a second time, where the first could not be used. */
LEAF_MUST_USE read_outcome_t env_get_twin(env_t *env, store_db_t db, bytes_t key, bytes_t *value);
/* Right behind an env_get that found nothing: does the entry stand there under another key, which damage made of its
 * own? Then its value proves itself under this one. Where keys still stand in their order, no page shows that. With a
 * sealer: false. */
bool env_has_renamed(env_t *env, bytes_t key);
/* The first entry at or after key / the next one behind the cursor of key's database / the last one at or before key.
 * One cursor for each database, kept between calls. Messages: only those of the stream that key begins with are sure to
 * be found. The order is LMDB's, and with a sealer that is not the order of keys with a text (entry.h): there `key` is
 * one as env_stored_key gives it. An entry that does not open: an empty value, and its key is not known. */
LEAF_MUST_USE read_outcome_t env_seek(env_t *env, store_db_t db, bytes_t key, bytes_t *found, bytes_t *value);
LEAF_MUST_USE read_outcome_t env_next(env_t *env, store_db_t db, bytes_t key, bytes_t *found, bytes_t *value);
LEAF_MUST_USE read_outcome_t env_seek_back(env_t *env, store_db_t db, bytes_t key, bytes_t *found, bytes_t *value);

/* A snapshot of the last commit that stays, for one stream: its messages are found in it, and what lies in databases of
 * all streams. What reads hand out lives until it is closed, and with a sealer until env_forget. Once LMDB was opened
 * again it gives nothing any more (STATUS_IO). Closed before env_close. */
typedef struct env_view env_view_t;
LEAF_MUST_USE status_t env_view_open(env_t *env, env_view_t **out);
/* Is all of it of one moment? A commit within a checkpoint has a part of what belongs together. */
bool env_view_whole(const env_view_t *view);
void env_view_close(env_view_t *view);
LEAF_MUST_USE read_outcome_t env_view_get(env_view_t *view, store_db_t db, bytes_t key, bytes_t *value);
LEAF_MUST_USE read_outcome_t env_view_seek(env_view_t *view, store_db_t db, bytes_t key, bytes_t *found,
                                           bytes_t *value);
LEAF_MUST_USE read_outcome_t env_view_next(env_view_t *view, store_db_t db, bytes_t *found, bytes_t *value);

/* Was a damaged page met since *seen? Which one, and what is wrong with it. */
typedef struct env_wrong {
    uint64_t page;
    const char *what;
    uint32_t stream; /* it is a leaf of this one's own messages, and has, or should have, .. */
    uint64_t seq;    /* .. this one. 0: it is another page */
    bool right;      /* it was put right since */
} env_wrong_t;
bool env_wrong(env_t *env, uint64_t *seen, env_wrong_t *wrong);

/* A damaged leaf of a stream's own messages is made anew in its place, by the plane: what its page still has stays, and
 * where each of its sequences had a message, each other one gets an entry that proves nothing, which is a damaged
 * message to all who read it (env_patch.c). begin: STATUS_INVALID: it is no such leaf; STATUS_EXISTS: it is not
 * damaged any more. step: until that time (thread_elapsed_ns); STATUS_AGAIN: there is more to do; STATUS_CORRUPT: it
 * may be another's page. */
typedef struct env_patch env_patch_t;
LEAF_MUST_USE status_t env_patch_begin(env_t *env, const env_wrong_t *wrong, env_patch_t **out);
LEAF_MUST_USE status_t env_patch_step(env_patch_t *patch, int64_t until_ns);
/* Sequences that may be on it: from low on (0: that is not known), and below high (0: up to the stream's end in that
 * commit). */
void env_patch_range(const env_patch_t *patch, uint64_t *low, uint64_t *high);
/* An entry of the commit in which it was met. */
LEAF_MUST_USE read_outcome_t env_patch_get(env_patch_t *patch, store_db_t db, bytes_t key, bytes_t *value);
/* each: all sequences from `from` on and before `below` had a message. *kept: so many are there still. STATUS_FULL:
 * their entries do not fit. */
LEAF_MUST_USE status_t env_patch_write(env_patch_t *patch, uint64_t from, uint64_t below, bool each, uint32_t *kept);
void env_patch_end(env_patch_t *patch); /* NULL is fine */
/* Another page is made anew in its place, from what is elsewhere (env_regrow.c): a branch, from the pages that hung
 * from it; a leaf of what is kept a second time, from there; one whose entries follow from others, of what `step`
 * gives; the first page of a large value, whose entry says how large it is. */
typedef struct env_regrow env_regrow_t;
typedef struct env_supply {
    /* Gives the entries of that leaf, in any order. STATUS_AGAIN: in several calls. */
    status_t (*step)(void *context, env_regrow_t *regrow, store_db_t db, int64_t until_ns);
    void *context;
} env_supply_t;
typedef struct env_regrown {
    const char *how; /* it was made */
    bool message;    /* the page was of this one's payload .. */
    bool lost;       /* .. which does not prove itself any more. But for that nothing is lost */
    uint32_t stream;
    uint64_t seq;
} env_regrown_t;
LEAF_MUST_USE status_t env_regrow_begin(env_t *env, uint64_t page, env_supply_t supply, env_regrow_t **out);
/* As above. STATUS_INVALID: it is another page, or something is missing. STATUS_EXISTS: behind the next
 * checkpoint. */
LEAF_MUST_USE status_t env_regrow_step(env_regrow_t *regrow, int64_t until_ns, env_regrown_t *regrown);
void env_regrow_end(env_regrow_t *regrow); /* NULL is fine */
/* For the supplier: the commit; may an entry of that stream be on the page, and belongs this key there? */
env_view_t *env_regrow_view(const env_regrow_t *regrow);
bool env_regrow_spans(const env_regrow_t *regrow, uint32_t stream);
bool env_regrow_holds(const env_regrow_t *regrow, store_db_t db, bytes_t key);
uint64_t env_regrow_entries(const env_regrow_t *regrow); /* that the page's database has */
LEAF_MUST_USE status_t env_regrow_give(env_regrow_t *regrow, store_db_t db, bytes_t key, bytes_t value);
/* A damaged page stands in the way of what is to be written. */
bool env_blocked(const env_t *env);
uint64_t env_unread(const env_t *env); /* reads so far of which it was not known */

/* A key as LMDB orders it; in room, or the key itself. */
bytes_t env_stored_key(const env_t *env, store_db_t db, bytes_t key, store_key_t *room);
/* Are texts in keys hidden? */
bool env_hides(const env_t *env);

/* ---- keeper thread (and the opening thread before it) ------------------------------------------------------------ */
LEAF_MUST_USE status_t env_write_begin(env_t *env);
/* The same for a caller that only looks (env_write_get) and ends it with env_write_abort. The list of free pages is
 * left out. */
LEAF_MUST_USE status_t env_write_look(env_t *env);
/* Is the list of free pages true? Until that is known, what is written makes the file grow. Goes on with it until then
 * (thread_elapsed_ns), or to its end. STATUS_AGAIN: there is more to do. STATUS_CORRUPT: it is not, and the store is to
 * be mended (env_blocked). */
LEAF_MUST_USE status_t env_proof_step(env_t *env, int64_t until_ns);
LEAF_MUST_USE status_t env_proof_whole(env_t *env);
/* How long an open may take for it; for tests. */
void env_proof_at_open(int64_t ns);
/* In a write transaction that has lasted a while: pages that were judged before are judged once more when they are
 * used. */
void env_write_lasts(env_t *env, int64_t now_ns);
/* A put there is the next but one or so: what it needs is sent for, and nothing else happens. */
void env_write_soon(const env_t *env, store_db_t db, bytes_t key);
LEAF_MUST_USE status_t env_write_put(env_t *env, store_db_t db, bytes_t key, bytes_t value);
/* A message whose value is in two places. Without a sealer, and not one that is to be compressed. */
LEAF_MUST_USE status_t env_write_message(env_t *env, bytes_t key, bytes_t head, bytes_t rest);
/* Several, in this order; with a sealer that costs less than one by one. */
typedef struct env_put {
    store_db_t db;
    bytes_t key;
    bytes_t value;
} env_put_t;
#define ENV_PUTS_MAX 32
LEAF_MUST_USE status_t env_write_puts(env_t *env, const env_put_t *puts, uint32_t count);
LEAF_MUST_USE status_t env_write_delete(env_t *env, store_db_t db, bytes_t key);
/* Deletes at most `limit` entries of [from, to); *done counts them; STATUS_AGAIN: there are more. Neither ends within a
 * text. */
LEAF_MUST_USE status_t env_write_delete_range(env_t *env, store_db_t db, bytes_t from, bytes_t to, uint64_t limit,
                                              uint64_t *done);
/* Why the last env_write_get or env_write_seek was READ_UNKNOWN, to be handed up. Never STATUS_OK. */
LEAF_MUST_USE status_t env_write_why(const env_t *env);
/* The value lives until the next call of this or the next write. */
LEAF_MUST_USE read_outcome_t env_write_get(env_t *env, store_db_t db, bytes_t key, bytes_t *value);
/* Around a look at such a value: false: the disk does not give all of it. LMDB reads no more of it than where it is, so
 * the write may go on; and what is put in its place lies elsewhere. */
uint64_t env_value_look(const env_t *env);
LEAF_MUST_USE bool env_value_given(env_t *env, bytes_t value, uint64_t before);
/* The first key at or after key; valid until the next write. */
LEAF_MUST_USE read_outcome_t env_write_seek(env_t *env, store_db_t db, bytes_t key, bytes_t *found);
/* A change of key: seals with the sealer of now what is still sealed with the older one, or not at all, among at most
 * `limit` entries of a database from *from on (empty: from the first). STATUS_AGAIN: there are more, from *from on;
 * Databases are counted: those of keys.h, then those of streams. */
uint32_t env_databases(const env_t *env);
LEAF_MUST_USE status_t env_write_reseal(env_t *env, uint32_t index, store_key_t *from, uint32_t limit);
/* Counts the entries that each of up to ENV_SURVEYED_MAX sealers opens; looks at all of them. */
#define ENV_SURVEYED_MAX 4
typedef struct env_survey {
    uint64_t opened[ENV_SURVEYED_MAX]; /* each entry counts for the first that opens it */
    uint64_t plain;                    /* sound as they are */
    uint64_t closed;                   /* neither */
} env_survey_t;
LEAF_MUST_USE status_t env_write_survey(env_t *env, const sealer_t *const *sealers, uint32_t count,
                                        env_survey_t *survey);
/* Makes what is kept twice alike on both sides: so many entries came back from their twins, and so many got one. */
LEAF_MUST_USE status_t env_twins_level(env_t *env, uint64_t *mended, uint64_t *made);
/* Gives a name to each definition that has none beside it: so many. */
LEAF_MUST_USE status_t env_names_level(env_t *env, uint64_t *made);
/* The entry that a record of a stream or consumer has in NAMES, of the record's value with its checksum. Returns the
 * size of its value; 0: it has none. */
#define ENV_NAME_MAX 4096 /* names are short; where escapes make them longer, there is no entry */
uint32_t env_name_entry(bytes_t key, bytes_t record, store_key_t *name, uint8_t value[ENV_NAME_MAX]);
/* What META says of the store: whose it is, and what it may have beside what was said before. Inside a write
 * transaction. Where that cannot be read, it may have all. */
LEAF_MUST_USE status_t env_formats_put(env_t *env, const uint8_t id[STORE_ID_SIZE], bool sealed);
/* META says with the next commit that there may be these (STORE_FORMAT_*): before the journal has any. */
void env_keep_formats(env_t *env, uint32_t formats);
/* What META says now, within a write transaction. 0 where that cannot be read, which is noted: a commit adds to what
 * META says, so saying it once more changes nothing. */
uint32_t env_formats_said(env_t *env);
/* As LMDB is to have it: sealed and packed already, or not at all. */
LEAF_MUST_USE status_t env_write_raw(env_t *env, store_db_t db, bytes_t key, bytes_t value);
changed_t *env_changed(env_t *env); /* by the open transaction; its bound is set before the keeper begins */
/* With the commit of the open transaction all is of one moment; without it, what that changed is a part. */
void env_write_whole(env_t *env);
/* The same of what is there, when nothing writes yet. */
void env_set_whole(env_t *env, bool whole);
LEAF_MUST_USE status_t env_write_commit(env_t *env);
void env_write_abort(env_t *env);
void env_usage(env_t *env, env_usage_t *usage);
/* Counts the free pages of the last commit too (reads the free list, so only where it matters). But for STATUS_OK the
 * count stays as it was. Outside a write
 * transaction. */
LEAF_MUST_USE status_t env_usage_exact(env_t *env, env_usage_t *usage);
/* Up to max runs of free pages from *place on (zeros: from the front), in the order in which LMDB takes them: such as
 * no reader needs, nor a start after a crash. Fewer than max: that was all. Keeper thread, outside a write
 * transaction. */
typedef struct env_run {
    uint64_t offset; /* in the file */
    uint64_t size;
} env_run_t;
typedef struct env_free_place {
    uint64_t commit;
    uint64_t index;
} env_free_place_t;
LEAF_MUST_USE status_t env_free_runs(env_t *env, env_free_place_t *place, env_run_t *runs, uint32_t max,
                                     uint32_t *count);
int env_file(env_t *env); /* LMDB's own descriptor of its file, -1: none */

#endif
