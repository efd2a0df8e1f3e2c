/* test_store_ledger.c: ledgers in a store (store/ledger.h): against a dumb twin through crashes and checkpoints, what
 * comes to LMDB and what does not, and the budget. Damage, and the disk's id: test_ledger_damage.c. Power cuts:
 * test_store_powercut.c. Reads and allocations that fail: test_ledger_faults_memory.c.
 */
#include "base/random.h"
#include "disk/env.h"
#include "store/ledger.h"
#include "store_rig.h"

#define GROUPS 5
#define ENTRIES 400
#define BYTES_MAX 300

static rig_t rig;
static uint64_t chance;

static uint32_t below(uint32_t n) {
    return random_below(&chance, n);
}

static void begin(uint64_t journal_size) {
    rig = (rig_t){.in_memory = true, .options = {.ledgers = true, .journal_size = journal_size}};
    rig_open(&rig);
}

/* ---- a twin ------------------------------------------------------------------------------------------------------ */

typedef struct twin_entry {
    uint64_t term;
    uint8_t kind;
    uint32_t size;
    uint8_t fill;
} twin_entry_t;

typedef struct twin {
    ledger_t *ledger;
    uint64_t term, vote, floor, floor_term, applied, last;
    uint32_t members;
    twin_entry_t at[ENTRIES]; /* index % ENTRIES */
} twin_t;

static twin_t twins[GROUPS];
static uint8_t filled[BYTES_MAX];

static bytes_t filling(uint32_t size, uint8_t fill) {
    memset(filled, fill, sizeof filled);
    return bytes_of(filled, size);
}

static void same_entry(const twin_t *twin, const ledger_entry_t *entry) {
    const twin_entry_t *is = &twin->at[entry->index % ENTRIES];
    CHECK_EQ_U64(is->term, entry->term);
    CHECK_EQ_U64(is->kind, entry->kind);
    CHECK(bytes_equal(filling(is->size, is->fill), entry->bytes));
}

static void look_at(twin_t *twin) {
    ledger_t *ledger = twin->ledger;
    ledger_promise_t promise;
    ledger_entry_t entry;
    CHECK_EQ_U64(twin->floor, ledger->floor);
    CHECK_EQ_U64(twin->applied, ledger->applied);
    CHECK_EQ_U64(twin->last, ledger->last);
    CHECK_EQ_I64(READ_FOUND, store_ledger_promised(ledger, &promise));
    CHECK_EQ_U64(twin->term, promise.term);
    CHECK_EQ_U64(twin->vote, promise.vote_peer);
    CHECK_EQ_U64(twin->vote % 4, promise.patience);
    CHECK_EQ_U64(twin->vote + 1, promise.vote_disk);
    CHECK_EQ_U64(twin->floor, promise.floor);
    CHECK_EQ_U64(twin->floor_term, promise.floor_term);
    CHECK_EQ_U64(twin->members, promise.members.size);
    CHECK_EQ_I64(READ_NONE, store_ledger_get(ledger, twin->floor, &entry));
    CHECK_EQ_I64(READ_NONE, store_ledger_get(ledger, twin->last + 1, &entry));
    for (uint64_t index = twin->floor + 1; index <= twin->last; index++) {
        CHECK_EQ_I64(READ_FOUND, store_ledger_get(ledger, index, &entry));
        CHECK_EQ_U64(index, entry.index);
        same_entry(twin, &entry);
    }
}

static status_t compare_loaded(void *context, const ledger_entry_t *entry) {
    twin_t *twin = context;
    same_entry(twin, entry);
    return STATUS_OK;
}

static bool count_group(void *context, uint32_t group) {
    uint32_t *count = context;
    CHECK_EQ_U64(1000u + *count, group);
    ++*count;
    return true;
}

static void load_twins(void) {
    uint32_t count = 0;
    CHECK_EQ_I64(LIST_WHOLE, store_ledger_each(rig.store, count_group, &count));
    CHECK_EQ_U64(GROUPS, count);
    for (uint32_t i = 0; i < GROUPS; i++) {
        CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 1000 + i, compare_loaded, &twins[i], &twins[i].ledger));
        CHECK(!twins[i].ledger->foreign);
        look_at(&twins[i]);
    }
}

static void make_twins(void) {
    for (uint32_t i = 0; i < GROUPS; i++) {
        twins[i] = (twin_t){.members = 20, .vote = 0};
        CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 1000 + i, i, filling(20, 'm'), &twins[i].ledger));
        CHECK_EQ_I64(STATUS_OK, store_ledger_promise(twins[i].ledger, &(ledger_promise_t){.vote_disk = 1}));
    }
}

static void put_one(twin_t *twin) {
    const twin_entry_t is = {
        .term = twin->term, .kind = (uint8_t)below(3), .size = below(BYTES_MAX), .fill = (uint8_t)below(256)};
    const ledger_entry_t entry = {
        .index = twin->last + 1, .term = is.term, .kind = is.kind, .bytes = filling(is.size, is.fill)};
    if (twin->last - twin->floor < ENTRIES - 1 && store_ledger_put(twin->ledger, &entry) == STATUS_OK) {
        twin->at[++twin->last % ENTRIES] = is;
    }
}

static void apply_some(twin_t *twin) {
    uint64_t most = twin->last - twin->applied;
    if (most > 0 && store_ledger_touch(twin->ledger) == STATUS_OK) {
        twin->applied += 1 + below((uint32_t)most);
        store_ledger_applied(twin->ledger, twin->applied);
    }
}

static void raise_floor(twin_t *twin) {
    uint64_t to = twin->floor + below((uint32_t)(twin->applied - twin->floor) + 1);
    uint64_t term = to > twin->floor ? twin->at[to % ENTRIES].term : twin->floor_term;
    uint32_t members = below(60);
    CHECK_EQ_I64(STATUS_OK, store_ledger_floor(twin->ledger, to, term, filling(members, 'n')));
    if (to > twin->floor) {
        twin->floor = to;
        twin->floor_term = term;
        twin->members = members;
    }
}

static void do_one(twin_t *twin) {
    uint32_t dice = below(100);
    if (dice < 60) {
        put_one(twin);
    } else if (dice < 75) {
        apply_some(twin);
    } else if (dice < 82) {
        twin->last = twin->applied + below((uint32_t)(twin->last - twin->applied) + 1);
        CHECK_EQ_I64(STATUS_OK, store_ledger_cut(twin->ledger, twin->last));
    } else if (dice < 92) {
        raise_floor(twin);
    } else {
        twin->term += below(3);
        twin->vote = below(9);
        const ledger_promise_t promise = {.term = twin->term,
                                          .patience = (uint8_t)(twin->vote % 4),
                                          .vote_peer = twin->vote,
                                          .vote_disk = twin->vote + 1};
        CHECK_EQ_I64(STATUS_OK, store_ledger_promise(twin->ledger, &promise));
    }
}

static void duel(void) {
    for (uint64_t seed = 1; seed <= 6; seed++) {
        chance = seed;
        begin(0);
        make_twins();
        for (uint32_t turn = 0; turn < 400; turn++) {
            for (uint32_t n = below(12); n > 0; n--) {
                do_one(&twins[below(GROUPS)]);
            }
            uint32_t dice = below(60);
            if (dice < 20) {
                rig_sync(&rig);
            } else if (dice < 23) {
                rig_checkpoint(&rig);
            } else if (dice < 26) {
                rig_sync(&rig);
                dice == 23 ? rig_reopen(&rig) : rig_crash(&rig);
                load_twins();
            } else {
                store_tick(rig.store, rig.now);
            }
            look_at(&twins[below(GROUPS)]);
        }
        rig_close(&rig);
    }
}

/* ---- what comes to LMDB ------------------------------------------------------------------------------------------ */

static env_t *open_env(void) {
    char reason[256];
    env_t *env;
    store_close(rig.store);
    rig.store = NULL;
    CHECK_EQ_I64(STATUS_OK, env_open(rig.directory, 256 << 20, false, &env, reason, sizeof reason));
    return env;
}

static uint32_t stored_entries(env_t *env) {
    static const uint8_t lowest[] = {0};
    bytes_t key, value;
    uint32_t count = 0;
    read_outcome_t outcome = env_seek(env, DB_LEDGER, bytes_of(lowest, 1), &key, &value);
    for (; outcome == READ_FOUND; count++) {
        outcome = env_next(env, DB_LEDGER, BYTES_NONE, &key, &value);
    }
    CHECK_EQ_I64(READ_NONE, outcome);
    return count;
}

static bool says_ledgers(env_t *env) {
    bytes_t value;
    CHECK_EQ_I64(READ_FOUND, env_get(env, DB_META, text(STORE_FORMAT_KEY), &value));
    return (load_be32(value.at + VALUE_CRC_SIZE) & STORE_FORMAT_LEDGERS) != 0;
}

static bool file_has(const char *word) {
    static uint8_t file[1 << 20];
    size_t size = rig_read_at(&rig, "data.mdb", file, sizeof file, 0);
    return memmem(file, size, word, strlen(word)) != NULL;
}

static status_t ignore(void *context, const ledger_entry_t *entry) {
    (void)context;
    (void)entry;
    return STATUS_OK;
}

static void fill_up(ledger_t *ledger, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const ledger_entry_t entry = {.index = ledger->last + 1, .term = 1, .bytes = filling(100, 'e')};
        CHECK_EQ_I64(STATUS_OK, store_ledger_put(ledger, &entry));
    }
}

static void done_upto(ledger_t *ledger, uint64_t index) {
    if (index <= ledger->applied) {
        return;
    }
    CHECK_EQ_I64(STATUS_OK, store_ledger_touch(ledger));
    store_ledger_applied(ledger, index);
    CHECK_EQ_I64(STATUS_OK, store_ledger_floor(ledger, index, 1, BYTES_NONE));
}

static void lone(void) {
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "a", "b").verdict);
    rig_checkpoint(&rig);
    env_t *env = open_env();
    CHECK(!says_ledgers(env));
    CHECK_EQ_U64(0, stored_entries(env));
    env_close(env);
    CHECK(!file_has("ledger"));
    rig_start(&rig);
    rig_close(&rig);
}

static void below_the_floor(void) {
    ledger_t *ledger;
    begin(UINT64_C(16) << 20); /* one checkpoint, at the end */
    CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 7, 70, BYTES_NONE, &ledger));
    for (int round = 0; round < 40; round++) {
        fill_up(ledger, 25);
        rig_sync(&rig);
        done_upto(ledger, ledger->last);
    }
    rig_checkpoint(&rig);
    env_t *env = open_env();
    CHECK(says_ledgers(env)); /* since its start, so that the journal says nothing that an older leafd does not know */
    CHECK_EQ_U64(0, stored_entries(env));
    env_close(env);
    CHECK(!file_has("ledger"));
    rig_start(&rig);
    CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 7, ignore, NULL, &ledger));
    CHECK_EQ_U64(1000, ledger->floor);
    fill_up(ledger, 30);
    rig_checkpoint(&rig);
    done_upto(ledger, 1010);
    rig_checkpoint(&rig);
    env = open_env();
    CHECK_EQ_U64(20, stored_entries(env));
    CHECK(!env_broken(env));
    env_close(env);
    CHECK(file_has("ledger"));
    rig_start(&rig);
    rig_close(&rig);
}

/* More entries than the keeper lets wait at once. */
static void more_than_wait(void) {
    ledger_t *ledger;
    begin(UINT64_C(64) << 20);
    CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 7, 70, BYTES_NONE, &ledger));
    for (int round = 0; round < 50; round++) {
        fill_up(ledger, 1000);
        rig_sync(&rig);
        done_upto(ledger, ledger->last - 400);
    }
    rig_checkpoint(&rig);
    env_t *env = open_env();
    CHECK_EQ_U64(400, stored_entries(env));
    env_close(env);
    rig_start(&rig);
    CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 7, ignore, NULL, &ledger));
    CHECK_EQ_U64(50000, ledger->last);
    rig_close(&rig);
}

/* ---- checkpoints that wait for entries --------------------------------------------------------------------------- */

static uint64_t checkpoints(void) {
    plane_stats_t stats = {0};
    store_tick(rig.store, rig.now);
    store_stats(rig.store, &stats);
    return stats.checkpoints;
}

static void a_checkpoint_ends(uint64_t before) {
    for (int64_t until = 0; patient(&until);) {
        if (checkpoints() > before) {
            return;
        }
        usleep(200);
    }
    FAIL("the checkpoint does not end");
}

/* So many that a checkpoint is due for their size, and has begun. */
static void fill_a_checkpoint(ledger_t *ledger) {
    for (int round = 0; round < 25; round++) {
        fill_up(ledger, 400);
        rig_sync(&rig);
    }
}

/* The clock stands still, so only what goes ends the wait. */
static void waits_for_entries(void) {
    ledger_t *ledger;
    begin(UINT64_C(16) << 20);
    CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 7, 70, BYTES_NONE, &ledger));
    fill_a_checkpoint(ledger);
    CHECK(store_ledger_awaited(ledger));
    for (int i = 0; i < 100; i++) {
        CHECK_EQ_U64(0, checkpoints());
        usleep(500);
    }
    fill_up(ledger, 5); /* behind the boundary: these are not waited for */
    done_upto(ledger, ledger->last - 5);
    rig_sync(&rig);
    a_checkpoint_ends(0);
    done_upto(ledger, ledger->last);
    rig_sync(&rig);
    env_t *env = open_env();
    CHECK_EQ_U64(0, stored_entries(env));
    env_close(env);
    CHECK(!file_has("ledger"));
    rig_start(&rig);
    CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 7, ignore, NULL, &ledger));
    CHECK_EQ_U64(10005, ledger->floor);
    rig_close(&rig);
}

/* Else the next one to end would be one for what the last one left, which is due soon where nothing is written. */
static uint64_t checkpoints_when_none_runs(void) {
    rig_checkpoint(&rig);
    return checkpoints();
}

static void waits_no_longer(void) {
    ledger_t *ledger;
    begin(UINT64_C(16) << 20);
    CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 7, 70, BYTES_NONE, &ledger));
    for (int vain = 0; vain < 2; vain++) {
        uint64_t before = checkpoints_when_none_runs();
        fill_a_checkpoint(ledger);
        CHECK(store_ledger_awaited(ledger));
        rig_pass(&rig, LINGER_NS);
        a_checkpoint_ends(before);
        done_upto(ledger, ledger->last);
    }
    uint64_t before = checkpoints_when_none_runs();
    fill_a_checkpoint(ledger); /* after two that waited in vain one does not wait */
    CHECK(!store_ledger_awaited(ledger));
    a_checkpoint_ends(before);
    env_t *env = open_env();
    CHECK_EQ_U64(10000, stored_entries(env));
    env_close(env);
    rig_start(&rig);
    CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 7, ignore, NULL, &ledger));
    CHECK_EQ_U64(30000, ledger->last);
    rig_close(&rig);
}

/* While it waits, there is room for one more message of the largest size all the time. */
static void publishers_go_on(void) {
    ledger_t *ledger;
    begin(UINT64_C(16) << 20);
    rig_close(&rig);
    rig.options.message_max = 1 << 20;
    rig_start(&rig);
    CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 7, 70, BYTES_NONE, &ledger));
    for (int round = 0; round < 200 && !store_ledger_awaited(ledger); round++) {
        fill_up(ledger, 100);
        rig_sync(&rig);
    }
    CHECK(store_ledger_awaited(ledger));
    while (store_ledger_awaited(ledger)) {
        CHECK(store_room(rig.store));
        fill_up(ledger, 100);
        rig_sync(&rig);
    }
    a_checkpoint_ends(0);
    done_upto(ledger, ledger->last);
    rig_close(&rig);
}

/* What LMDB has since an earlier checkpoint is not waited for. */
static void not_for_what_is_there(void) {
    ledger_t *ledger, *still;
    begin(UINT64_C(16) << 20);
    CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 7, 70, BYTES_NONE, &ledger));
    CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 8, 80, BYTES_NONE, &still));
    fill_up(still, 1);
    rig_sync(&rig);
    rig_checkpoint(&rig);
    uint64_t before = checkpoints();
    fill_a_checkpoint(ledger);
    CHECK(store_ledger_awaited(ledger));
    CHECK(!store_ledger_awaited(still));
    done_upto(ledger, ledger->last);
    rig_sync(&rig);
    a_checkpoint_ends(before);
    rig_close(&rig);
}

static void older_leafd(void) {
    begin(0);
    env_t *env = open_env();
    CHECK(says_ledgers(env));
    env_close(env);
    rig.options.ledgers = false; /* the cluster is gone from the configuration: what was said stays */
    rig_start(&rig);
    env = open_env();
    CHECK(says_ledgers(env));
    env_close(env);
    rig_start(&rig);
    rig_close(&rig);
}

static void older_store(void) {
    uint64_t disk, again;
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    CHECK(!store_ledger_disk(rig.store, &disk));
    rig.options.ledgers = true;
    rig_reopen(&rig);
    CHECK(store_ledger_disk(rig.store, &disk));
    rig_crash(&rig);
    CHECK(store_ledger_disk(rig.store, &again));
    CHECK_EQ_U64(disk, again);
    rig_close(&rig);
}

/* ---- bounds ------------------------------------------------------------------------------------------------------ */

static void budget(void) {
    ledger_t *one, *two;
    static uint8_t large[8192];
    uint64_t put = 0;
    begin(0);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 7, 70, BYTES_NONE, &one));
    CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 8, 70, BYTES_NONE, &two));
    for (;; put++) {
        ledger_t *ledger = put % 2 == 0 ? one : two;
        const ledger_entry_t entry = {.index = ledger->last + 1, .term = 1, .bytes = bytes_of(large, sizeof large)};
        if (store_ledger_put(ledger, &entry) != STATUS_OK) {
            rig_checkpoint(&rig); /* it is not for want of room in the ring */
            if (store_ledger_put(ledger, &entry) != STATUS_OK) break;
        }
    }
    CHECK_EQ_U64((UINT64_C(1) << 20) / 4 / (sizeof large + 34), put);
    CHECK(!store_ledger_takes(rig.store, (UINT64_C(1) << 20) / 8));
    CHECK(store_ledger_takes(rig.store, sizeof large));
    for (int i = 0; i < 3000; i++) {
        append_t append = {.subject = text("s"), .payload = bytes_of(large, 1000)};
        CHECK_EQ_U64(APPEND_STORED, rig_append(&rig, stream, &append).verdict);
    }
    rig_crash(&rig);
    CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 7, ignore, NULL, &one));
    CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 8, ignore, NULL, &two));
    const ledger_entry_t more = {.index = two->last + 1, .term = 1, .bytes = bytes_of(large, sizeof large)};
    CHECK_EQ_I64(STATUS_FULL, store_ledger_put(two, &more));
    done_upto(one, 1);
    CHECK_EQ_I64(STATUS_OK, store_ledger_put(two, &more));
    CHECK_EQ_I64(STATUS_OK, store_ledger_cut(two, 0));
    CHECK_EQ_I64(STATUS_OK, store_ledger_remove(one));
    rig_checkpoint(&rig);
    rig_reopen(&rig);
    CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 7, ignore, NULL, &one));
    CHECK(one == NULL);
    CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 8, ignore, NULL, &two));
    CHECK_EQ_U64(0, two->last);
    rig_close(&rig);
}

static void thousand(void) {
    static ledger_t *ledgers[1000];
    begin(UINT64_C(8) << 20);
    for (uint32_t i = 0; i < 1000; i++) {
        CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, i + 1, i, BYTES_NONE, &ledgers[i]));
    }
    for (uint32_t round = 0; round < 8; round++) {
        for (uint32_t i = 0; i < 1000; i++) {
            fill_up(ledgers[i], 1);
            done_upto(ledgers[i], ledgers[i]->last - (i % 2 == 0 && ledgers[i]->last > 1));
        }
        round == 4 ? rig_checkpoint(&rig) : rig_sync(&rig);
    }
    rig_crash(&rig);
    for (uint32_t i = 0; i < 1000; i++) {
        CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, i + 1, ignore, NULL, &ledgers[i]));
        CHECK_EQ_U64(8, ledgers[i]->last);
        CHECK_EQ_U64(8u - (i % 2 == 0), ledgers[i]->floor);
    }
    rig_close(&rig);
}

static void interval(void) {
    ledger_t *ledger;
    rig = (rig_t){.in_memory = true, .options = {.ledgers = true, .sync_interval_ns = 3600 * NS_PER_SECOND}};
    rig_open(&rig);
    CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 7, 70, BYTES_NONE, &ledger));
    uint64_t batch = store_batch(rig.store);
    rig_sync(&rig);
    CHECK_EQ_U64(batch, store_durable(rig.store)); /* which says that it was written, no more */
    CHECK(store_ledger_synced(rig.store) < batch);
    rig_checkpoint(&rig); /* syncs first */
    store_tick(rig.store, rig.now);
    CHECK(store_ledger_synced(rig.store) >= batch);
    rig_close(&rig);
}

/* An idle store gives memory back at the end of a checkpoint, also while that note is all that a batch has. */
static void touched_alone(void) {
    ledger_t *ledger;
    begin(UINT64_C(16) << 20);
    CHECK_EQ_I64(STATUS_OK, store_ledger_make(rig.store, 7, 70, BYTES_NONE, &ledger));
    for (int i = 0; i < 90; i++) {
        fill_up(ledger, 100);
        rig_sync(&rig);
    }
    rig_pass(&rig, 6 * NS_PER_SECOND);
    for (uint64_t index = 1; index <= 2000; index++) { /* the checkpoint ends meanwhile */
        store_tick(rig.store, rig.now);
        CHECK_EQ_I64(STATUS_OK, store_ledger_touch(ledger));
        store_ledger_applied(ledger, index);
        usleep(200);
    }
    rig_sync(&rig);
    rig_crash(&rig);
    CHECK_EQ_I64(STATUS_OK, store_ledger_open(rig.store, 7, ignore, NULL, &ledger));
    CHECK_EQ_U64(2000, ledger->applied);
    rig_close(&rig);
}

int main(void) {
    RUN("a ledger is what its twin is, through checkpoints, crashes and restarts", duel);
    RUN("a store without groups has no table, no record and no word of them", lone);
    RUN("entries below the floor at a checkpoint never come to LMDB", below_the_floor);
    RUN("as many entries as do not wait are those that stay", more_than_wait);
    RUN("a large checkpoint waits for entries before it to go, and they never come to LMDB", waits_for_entries);
    RUN("publishers do not wait for a checkpoint that waits", publishers_go_on);
    RUN("a checkpoint does not wait for what LMDB has", not_for_what_is_there);
    RUN("it waits no longer than half a second, and less often where that is in vain", waits_no_longer);
    RUN("an older leafd refuses the store before the journal has an entry", older_leafd);
    RUN("an older store gets the word and an id when it is first used in a cluster", older_store);
    RUN("all ledgers together take a quarter of the journal, and streams go on", budget);
    RUN("a thousand groups are there after a crash", thousand);
    RUN("a batch that has nothing but how far a ledger is applied outlives a checkpoint's end", touched_alone);
    RUN("with a sync interval what is promised waits for the sync", interval);
    return TEST_RESULT();
}
