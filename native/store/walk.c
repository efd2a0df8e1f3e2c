/* walk.c: the subjects of a stream in order, in slices that may lie ticks apart.
 *
 *     LMDB's heads by cursor ------------------+
 *     run of newcomers, sorted ----------------+--> merge --> examined one by one --> visit, when it matches and lives
 *     run of newcomers, sorted ----------------+
 *
 * Between two slices there is only `after`: the place in the order of the last subject that was examined. Subjects born
 * in the overlay and subjects in LMDB are one set at any moment (a checkpoint moves some from the runs into LMDB), so
 * what lies behind `after` is always complete: a subject that lives through the whole walk is visited exactly once,
 * with its numbers at that moment. What is born or dies meanwhile behind `after` is seen, what does so before it is
 * not; for the sum of one moment (tally.c) there is walk_passed.
 *
 * The order is that of LMDB's keys: bytes, and for subjects too long for a key their cut form; in a sealed store the
 * hash that hides the subject (entry.h), and the walk sees all heads of the stream. Newcomers are sorted by runs of
 * BIRTH_RUN, when a walk first needs them, so that neither a publish nor a slice pays for more than a few runs.
 */
#include <stdlib.h>

#include "base/array.h"
#include "base/check.h"
#include "base/heap.h"
#include "text/subject.h"
#include "store/message.h"
#include "store/overlay.h"
#include "store/recount.h"

#define SORTS_A_STEP 8 /* runs, at most so many are put in order in one slice */

/* A subject, and its place in the order: by `hash` when it is hidden. */
typedef struct rank {
    bytes_t subject;
    bool hidden;
    uint8_t hash[SEALER_HIDDEN_SIZE];
} rank_t;

typedef struct branch {
    int half; /* of the newcomers */
    uint64_t at;
    uint64_t end;
    rank_t rank;
} branch_t;

struct store_walk {
    store_stream_t *stream;
    bytes_t pattern; /* own, behind the struct */
    bytes_t prefix;  /* every match begins with it; short enough for a key; none where LMDB hides subjects */
    bool all;
    bool literal;
    bool over;
    bool moved; /* `after` counts */
    uint32_t after_size;
    uint8_t after[KEY_TEXT_MAX];
    branch_t *branches; /* a heap by rank */
    uint64_t branch_count;
    uint64_t branch_capacity;
    read_outcome_t lmdb; /* READ_FOUND: the cursor stands on `lmdb_key`; READ_NONE: it is at its end */
    bytes_t lmdb_key;
    bytes_t lmdb_value;
    rank_t lmdb_rank;
    head_t lmdb_head;
};

/* ---- order ------------------------------------------------------------------------------------------------------- */

static rank_t rank_of(const store_stream_t *stream, bytes_t subject) {
    rank_t rank = {.subject = subject};
    if (LEAF_UNLIKELY(env_hides(stream->store->env))) {
        store_key_t plain;
        store_key_t room;
        key_text(&plain, stream->id, subject);
        bytes_t stored = env_stored_key(stream->store->env, DB_HEADS, key_bytes(&plain), &room);
        rank.hidden = stored.size == 4 + SEALER_HIDDEN_SIZE;
        memcpy(rank.hash, stored.at + 4, rank.hidden ? sizeof rank.hash : 0);
    }
    return rank;
}

/* The bytes that LMDB's key has of it behind the stream. */
static bytes_t order_of(const rank_t *rank, store_key_t *room) {
    if (rank->hidden) {
        return bytes_of(rank->hash, sizeof rank->hash);
    }
    if (!key_text_is_cut(rank->subject)) {
        return rank->subject;
    }
    key_text(room, 0, rank->subject);
    return bytes_of(room->at + 4, room->size - 4);
}

static int rank_compare(const rank_t *a, const rank_t *b) {
    store_key_t rooms[2];
    return bytes_compare(order_of(a, &rooms[0]), order_of(b, &rooms[1]));
}

static bytes_t literal_prefix(bytes_t pattern) {
    bytes_t stem = subject_stem(pattern);
    return bytes_of(stem.at, stem.size < KEY_TEXT_PREFIX ? stem.size : KEY_TEXT_PREFIX);
}

static bool lies_ahead(const store_walk_t *walk, const rank_t *rank) {
    store_key_t room;
    bytes_t order = order_of(rank, &room);
    return walk->moved ? bytes_compare(order, bytes_of(walk->after, walk->after_size)) > 0
                       : bytes_compare(order, walk->prefix) >= 0;
}

static void walk_remember(store_walk_t *walk, const rank_t *rank) {
    store_key_t room;
    bytes_t order = order_of(rank, &room);
    check(order.size <= sizeof walk->after);
    if (order.size > 0) {
        memcpy(walk->after, order.at, order.size);
    }
    walk->after_size = order.size;
    walk->moved = true;
}

bool walk_passed(const store_walk_t *walk, bytes_t subject) {
    if (walk->over || !walk->moved) {
        return walk->over;
    }
    rank_t rank = rank_of(walk->stream, subject);
    return !lies_ahead(walk, &rank);
}

/* ---- newcomers --------------------------------------------------------------------------------------------------- */

static bytes_t born_subject(const store_stream_t *stream, int half, uint64_t index) {
    batch_op_t op;
    message_record_t message;
    op_read(&stream->store->batches, stream->notes.births.list.half[half].at[index], &op);
    return op_message(&stream->store->batches, &op, &message) ? message.subject : BYTES_NONE;
}

typedef struct born {
    rank_t rank;
    uint64_t position;
} born_t;

static int born_compare(const void *a, const void *b) {
    return rank_compare(&((const born_t *)a)->rank, &((const born_t *)b)->rank);
}

static rank_t born_rank(const store_stream_t *stream, int half, uint64_t index) {
    return rank_of(stream, born_subject(stream, half, index));
}

static void sort_run(store_stream_t *stream, int half, run_t *run) {
    born_t born[BIRTH_RUN];
    uint64_t *positions = stream->notes.births.list.half[half].at + run->begin;
    uint64_t count = run->end - run->begin;
    check(count <= BIRTH_RUN);
    for (uint64_t i = 0; i < count; i++) {
        born[i] = (born_t){.rank = born_rank(stream, half, run->begin + i), .position = positions[i]};
    }
    qsort(born, count, sizeof *born, born_compare);
    for (uint64_t i = 0; i < count; i++) {
        positions[i] = born[i].position;
    }
    run->sorted = true;
}

/* false: there are more to sort than one slice may. */
static bool sort_runs(store_stream_t *stream) {
    births_t *births = &stream->notes.births;
    uint32_t sorted = 0;
    for (int half = 0; half < HALVES; half++) {
        for (uint64_t i = 0; i < births->runs[half].count; i++) {
            if (births->runs[half].at[i].sorted) {
                continue;
            }
            if (sorted++ == SORTS_A_STEP) {
                return false;
            }
            sort_run(stream, half, &births->runs[half].at[i]);
        }
    }
    return true;
}

static bool branch_sooner(const void *one, const void *other) {
    return rank_compare(&((const branch_t *)one)->rank, &((const branch_t *)other)->rank) < 0;
}

static const heap_kind_t by_rank = {.size = sizeof(branch_t), .sooner = branch_sooner};

/* Puts the branch on its next subject, or takes it out. */
static void branch_next(store_walk_t *walk) {
    branch_t *top = &walk->branches[0];
    top->at++;
    if (top->at < top->end) {
        top->rank = born_rank(walk->stream, top->half, top->at);
        if (bytes_starts(top->rank.subject, walk->prefix)) {
            heap_sink(&by_rank, walk->branches, walk->branch_count, 0);
            return;
        }
    }
    heap_take(&by_rank, walk->branches, &walk->branch_count, 0);
}

static void branch_add(store_walk_t *walk, int half, const run_t *run) {
    uint64_t low = run->begin;
    uint64_t high = run->end;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        rank_t rank = born_rank(walk->stream, half, middle);
        if (lies_ahead(walk, &rank)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    if (low == run->end) {
        return;
    }
    branch_t branch = {.half = half, .at = low, .end = run->end, .rank = born_rank(walk->stream, half, low)};
    if (bytes_starts(branch.rank.subject, walk->prefix)) {
        walk->branches[walk->branch_count++] = branch;
    }
}

static status_t open_branches(store_walk_t *walk) {
    const births_t *births = &walk->stream->notes.births;
    walk->branch_count = 0;
    uint64_t runs = births->runs[OLDER].count + births->runs[NEWER].count;
    status_t status = array_reserve(&walk->branches, &walk->branch_capacity, runs, 1, sizeof(branch_t));
    if (status != STATUS_OK) {
        return status;
    }
    for (int half = 0; half < HALVES; half++) {
        for (uint64_t i = 0; i < births->runs[half].count; i++) {
            branch_add(walk, half, &births->runs[half].at[i]);
        }
    }
    heap_make(&by_rank, walk->branches, walk->branch_count);
    return STATUS_OK;
}

/* ---- LMDB -------------------------------------------------------------------------------------------------------- */

/* The subject of a record that cannot be read as a head: its key has it, or the overlay, under that key; what the
 * record itself says is not asked. Else it is alarmed, and counted again. */
static read_outcome_t subject_unreadable(const store_walk_t *walk, bytes_t stored, bytes_t *subject) {
    store_stream_t *stream = walk->stream;
    bytes_t plain = env_hides(stream->store->env) ? BYTES_NONE : stored;
    bytes_t newer = BYTES_NONE;
    head_t head;
    if (env_hides(stream->store->env) && recount_key(stream, stored, &plain) && plain.size == 0) {
        return READ_NONE; /* no message has such a subject */
    }
    overlay_word_t word = plain.size > 0 ? overlay_find(stream->store, DB_HEADS, plain, &newer) : WORD_NONE;
    switch (word) {
    case WORD_REMOVED: return READ_NONE;
    case WORD_PUT:
        newer = bytes_of(newer.at - VALUE_CRC_SIZE, newer.size + VALUE_CRC_SIZE);
        return head_read(plain, newer, subject, &head) ? READ_FOUND : READ_UNKNOWN;
    case WORD_NONE: break;
    }
    if (plain.size > 0 && plain.size < 4 + KEY_TEXT_MAX) {
        *subject = bytes_of(plain.at + 4, plain.size - 4);
        return READ_FOUND;
    }
    if (!recount_is_of(stream, stored)) {
        store_corrupt(stream->store, stream, stream->id, 0, "an index entry");
    }
    recount_begin(stream, stored, plain);
    return READ_UNKNOWN;
}

/* Was it passed by the slice before? Its place in the order is known, whatever it says. */
static bool lies_behind(const store_walk_t *walk, bytes_t stored) {
    return walk->moved && bytes_compare(bytes_after(stored, 4), bytes_of(walk->after, walk->after_size)) <= 0;
}

/* The first record behind those of the walk. Damage may have made its key of one of them: then they are not known to be
 * all before that one is found. */
static read_outcome_t walk_edge(const store_walk_t *walk, bytes_t key, bytes_t value) {
    store_stream_t *stream = walk->stream;
    bool hides = env_hides(stream->store->env);
    bytes_t newer = BYTES_NONE;
    bytes_t plain = BYTES_NONE;
    if (LEAF_LIKELY(value_sound(key, value)) || (recount_key(stream, key, &plain) && plain.size == 0)) {
        return READ_NONE;
    }
    overlay_word_t word = hides ? WORD_NONE : overlay_find(stream->store, DB_HEADS, key, &newer);
    switch (word) {
    case WORD_PUT:
    case WORD_REMOVED: return READ_NONE;
    case WORD_NONE: break;
    }
    if (!recount_is_of(stream, key)) {
        store_corrupt(stream->store, stream, stream->id, 0, "an index entry");
    }
    bool own = !hides && key.size >= 4 && load_be32(key.at) == stream->id;
    recount_begin(stream, key, own ? key : BYTES_NONE);
    return READ_UNKNOWN;
}

/* Takes in what the cursor stands on. Where that cannot be read as a head, the walk goes no farther than to there until
 * the subject is known. */
static void walk_lmdb_take(store_walk_t *walk, read_outcome_t outcome, bytes_t key, bytes_t value) {
    while (read_goes_on(outcome) && key.size >= 4 && load_be32(key.at) == walk->stream->id) {
        bytes_t subject = BYTES_NONE;
        bool is_head = head_read(key, value, &subject, &walk->lmdb_head);
        if (!is_head && !lies_behind(walk, key) && read_known(subject_unreadable(walk, key, &subject)) != STATUS_OK) {
            walk->lmdb = READ_UNKNOWN;
            return;
        }
        if (is_head || subject.size > 0) {
            walk->lmdb_rank = rank_of(walk->stream, subject);
            walk->lmdb = bytes_starts(subject, walk->prefix) ? READ_FOUND : walk_edge(walk, key, value);
            walk->lmdb_key = key;
            walk->lmdb_value = is_head ? value : BYTES_NONE; /* whose checksum holds for nobody */
            return;
        }
        outcome = env_next(walk->stream->store->env, DB_HEADS, BYTES_NONE, &key, &value);
    }
    walk->lmdb = outcome;
    switch (outcome) {
    case READ_NONE:
    case READ_UNKNOWN: break;
    case READ_FOUND: walk->lmdb = walk_edge(walk, key, value); break;
    }
}

static void lmdb_next(store_walk_t *walk) {
    bytes_t key = BYTES_NONE;
    bytes_t value = BYTES_NONE;
    read_outcome_t outcome = env_next(walk->stream->store->env, DB_HEADS, BYTES_NONE, &key, &value);
    walk_lmdb_take(walk, outcome, key, value);
}

/* All heads that the stream had have gone, and LMDB does not know it yet: those that came since are newcomers. */
static bool lmdb_is_behind(const store_stream_t *stream) {
    uint8_t id[4];
    store_be32(id, stream->id);
    return stream->notes.hidden_until != 0
           || memtable_covers(&stream->store->memtable, DB_HEADS, bytes_of(id, sizeof id)) != 0;
}

static void lmdb_open(store_walk_t *walk) {
    walk->lmdb = READ_NONE;
    if (lmdb_is_behind(walk->stream)) {
        return;
    }
    bytes_t from = walk->moved ? bytes_of(walk->after, walk->after_size) : walk->prefix;
    store_key_t wanted = {.size = 4 + from.size};
    store_be32(wanted.at, walk->stream->id);
    if (from.size > 0) {
        memcpy(wanted.at + 4, from.at, from.size);
    }
    bytes_t key = BYTES_NONE;
    bytes_t value = BYTES_NONE;
    read_outcome_t outcome = env_seek(walk->stream->store->env, DB_HEADS, key_bytes(&wanted), &key, &value);
    walk_lmdb_take(walk, outcome, key, value);
    while (read_goes_on(walk->lmdb) && !lies_ahead(walk, &walk->lmdb_rank)) {
        lmdb_next(walk);
    }
}

/* ---- the walk along subjects ------------------------------------------------------------------------------------- */

static read_outcome_t walk_subject_lives(const store_walk_t *walk, bytes_t subject, bool from_lmdb, head_t *head) {
    store_stream_t *stream = walk->stream;
    bytes_t value = BYTES_NONE;
    read_outcome_t cached;
    if (head_cached(stream, subject, head, &cached)) {
        return cached;
    }
    bool counts = false;
    overlay_word_t word = from_lmdb ? overlay_find(stream->store, DB_HEADS, walk->lmdb_key, &value) : WORD_PUT;
    switch (word) {
    case WORD_PUT:
    case WORD_REMOVED: break;
    case WORD_NONE: counts = value_sound(walk->lmdb_key, walk->lmdb_value); break;
    }
    if (!counts) {
        return head_peek(stream, subject, head);
    }
    *head = walk->lmdb_head;
    return head->count > 0 ? READ_FOUND : READ_NONE;
}

/* The next one in the order, off the heap and the cursor. */
static read_outcome_t walk_examine(store_walk_t *walk, rank_t *rank, bool *alive, head_t *head) {
    bool in_overlay = walk->branch_count > 0;
    bool in_lmdb = false;
    switch (walk->lmdb) {
    case READ_UNKNOWN: return READ_UNKNOWN;
    case READ_NONE: break;
    case READ_FOUND: in_lmdb = true; break;
    }
    if (!in_overlay && !in_lmdb) {
        return READ_NONE;
    }
    int order = !in_overlay ? 1 : !in_lmdb ? -1 : rank_compare(&walk->branches[0].rank, &walk->lmdb_rank);
    rank_t next = order <= 0 ? walk->branches[0].rank : walk->lmdb_rank;
    bool wanted = walk->all || subject_matches(next.subject, walk->pattern);
    *alive = false;
    read_outcome_t outcome = wanted ? walk_subject_lives(walk, next.subject, order >= 0, head) : READ_NONE;
    switch (outcome) {
    case READ_UNKNOWN: return READ_UNKNOWN;
    case READ_NONE: break;
    case READ_FOUND: *alive = true; break;
    }
    *rank = next;
    while (walk->branch_count > 0 && bytes_equal(walk->branches[0].rank.subject, rank->subject)) {
        branch_next(walk);
    }
    if (order >= 0) {
        lmdb_next(walk);
    }
    return READ_FOUND;
}

step_outcome_t store_walk_step(store_walk_t *walk, uint32_t budget, subject_visit_t visit, void *context) {
    head_t head;
    if (walk->over) {
        return STEP_OVER;
    }
    if (walk->literal || walk->stream->log.messages == 0) {
        read_outcome_t outcome = walk->literal ? head_look(walk->stream, walk->pattern, &head) : READ_NONE;
        switch (outcome) {
        case READ_UNKNOWN: return STEP_UNKNOWN;
        case READ_NONE: break;
        case READ_FOUND: visit(context, walk->pattern, head.count, head.last); break;
        }
        walk->over = true;
        return STEP_OVER;
    }
    if (!sort_runs(walk->stream)) {
        return STEP_MORE;
    }
    if (open_branches(walk) != STATUS_OK) {
        store_note_unknown(walk->stream->store);
        return STEP_UNKNOWN;
    }
    lmdb_open(walk);
    rank_t rank = {0};
    bool alive;
    uint32_t examined = 0;
    read_outcome_t outcome = READ_FOUND;
    while (!walk->over && examined < budget && read_goes_on(outcome = walk_examine(walk, &rank, &alive, &head))) {
        examined++;
        walk->over = alive && !visit(context, rank.subject, head.count, head.last);
    }
    step_outcome_t step = STEP_MORE;
    switch (outcome) {
    case READ_UNKNOWN: step = STEP_UNKNOWN; break;
    case READ_NONE: walk->over = true; break;
    case READ_FOUND: break;
    }
    if (!walk->over && examined > 0) {
        walk_remember(walk, &rank);
    }
    return walk->over ? STEP_OVER : step;
}

store_walk_t *store_walk_open(store_stream_t *stream, bytes_t pattern) {
    store_walk_t *walk = malloc(sizeof *walk + pattern.size);
    if (walk == NULL) {
        store_note_unknown(stream->store);
        return NULL;
    }
    uint8_t *text = (uint8_t *)(walk + 1);
    if (pattern.size > 0) {
        memcpy(text, pattern.at, pattern.size);
    }
    *walk = (store_walk_t){.stream = stream, .pattern = bytes_of(text, pattern.size)};
    walk->all = subject_is_everything(pattern);
    walk->literal = !walk->all && !subject_has_wildcard(pattern);
    walk->prefix = env_hides(stream->store->env) ? BYTES_NONE : literal_prefix(walk->pattern);
    return walk;
}

void store_walk_close(store_walk_t *walk) {
    if (walk != NULL) {
        free(walk->branches);
        free(walk);
    }
}
