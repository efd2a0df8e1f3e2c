/* subjects.c: what goes by subject: heads read through cache, young and home; the subjects of a stream in order; the newest message of a
 * subject or pattern; counts. Heads change in append.c and limits.c through head_change.
 *
 * In order means: home's heads by cursor, merged with the subjects that were born young (their messages' ops, sorted when asked for).
 * Whether one still lives, and its numbers, is asked head by head, so a stale key on either side does no harm.
 */
#include <stdlib.h>

#include "base/check.h"
#include "base/subject.h"
#include "store/core.h"

#define CHAIN_COST 4  /* a step back on a chain costs about so many steps forward */
#define BACK_SCAN 256 /* messages looked at from the end before a wildcard's subjects are gone through */

static uint64_t head_promise(bytes_t subject) {
    return op_size(4 + (subject.size < KEY_TEXT_MAX ? subject.size : KEY_TEXT_MAX), head_size(subject));
}

/* From young or home. A head that fails its checksum is alarmed and taken as absent. */
static bool load(store_stream_t *stream, bytes_t subject, head_t *head) {
    store_key_t key;
    bytes_t value = BYTES_NONE;
    key_text(&key, stream->id, subject);
    if (overlay_get(stream->store, DB_HEADS, key_bytes(&key), &value) != STATUS_OK) {
        return false;
    }
    bytes_t whole = bytes_of(value.at - VALUE_CRC_SIZE, value.size + VALUE_CRC_SIZE);
    bytes_t text = BYTES_NONE;
    return head_read(key_bytes(&key), whole, &text, head) && bytes_equal(text, subject);
}

bool head_look(store_stream_t *stream, bytes_t subject, head_t *head) {
    heads_t *heads = &stream->store->heads;
    uint64_t hash = heads_hash(stream->id, subject);
    head_entry_t *entry = heads_find(heads, stream->id, subject, hash);
    if (entry == NULL) {
        if (!load(stream, subject, head)) {
            return false;
        }
        entry = heads_add(heads, stream->id, subject, hash);
        if (entry != NULL) {
            entry->head = *head;
        }
    } else {
        *head = entry->head;
    }
    return head->count > 0;
}

head_entry_t *head_fetch(store_stream_t *stream, bytes_t subject) {
    heads_t *heads = &stream->store->heads;
    uint64_t hash = heads_hash(stream->id, subject);
    head_entry_t *entry = heads_find(heads, stream->id, subject, hash);
    if (entry != NULL) {
        return entry;
    }
    if (heads->dirty_count > HEADS_MAX / 2) {
        heads_settle(stream->store);
    }
    head_t head = {0};
    bool known = load(stream, subject, &head);
    entry = heads_add(heads, stream->id, subject, hash);
    if (entry != NULL && known) {
        entry->head = head;
    }
    return entry;
}

void head_change(store_stream_t *stream, head_entry_t *entry) {
    if (heads_mark(&stream->store->heads, entry)) {
        stream->store->batches.promised += head_promise(head_subject(entry));
    }
}

void heads_settle(store_t *store) {
    for (head_entry_t *entry = heads_take_dirty(&store->heads); entry != NULL; entry = heads_take_dirty(&store->heads)) {
        bytes_t subject = head_subject(entry);
        store->batches.promised -= head_promise(subject);
        store_key_t key;
        key_text(&key, entry->stream, subject);
        check(young_reserve(&store->young, 2) == STATUS_OK);
        if (entry->head.count == 0) {
            overlay_delete(store, DB_HEADS, key_bytes(&key), true);
            heads_remove(&store->heads, entry);
            continue;
        }
        uint8_t *value = overlay_put(store, DB_HEADS, key_bytes(&key), head_size(subject), true, NULL);
        head_write(value, key_bytes(&key), subject, entry->head);
    }
}

bool filters_match(filters_t filters, bytes_t subject) {
    for (uint32_t i = 0; i < filters.count; i++) {
        if (subject_matches(subject, filters.patterns[i])) {
            return true;
        }
    }
    return filters.count == 0;
}

/* ---- in order ---- */

static bool matches_all(bytes_t pattern) {
    return pattern.size == 0 || (pattern.size == 1 && pattern.at[0] == '>');
}

/* The bytes before the first wildcard token. */
static bytes_t literal_prefix(bytes_t pattern) {
    uint32_t begin = 0;
    for (uint32_t i = 0; i <= pattern.size; i++) {
        if (i == pattern.size || pattern.at[i] == '.') {
            if (i - begin == 1 && (pattern.at[begin] == '*' || pattern.at[begin] == '>')) {
                return bytes_of(pattern.at, begin);
            }
            begin = i + 1;
        }
    }
    return pattern;
}

static int bytes_compare(bytes_t a, bytes_t b) {
    uint32_t size = a.size < b.size ? a.size : b.size;
    int order = size > 0 ? memcmp(a.at, b.at, size) : 0;
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static int compare_slices(const void *a, const void *b) {
    return bytes_compare(*(const bytes_t *)a, *(const bytes_t *)b);
}

typedef struct walk {
    store_stream_t *stream;
    bytes_t pattern;
    bytes_t after;
    bool has_after;
    bytes_t *born; /* sorted; own memory */
    uint64_t born_count;
    uint64_t born_at;
    bool home_open;
    bytes_t home; /* home's next subject, when home_open */
} walk_t;

static bool wanted(const walk_t *walk, bytes_t subject) {
    if (walk->has_after && bytes_compare(subject, walk->after) <= 0) {
        return false;
    }
    return matches_all(walk->pattern) || subject_matches(subject, walk->pattern);
}

static status_t gather_born(walk_t *walk) {
    const newcomers_t *newcomers = &walk->stream->newcomers;
    if (newcomers->count == 0) {
        return STATUS_OK;
    }
    walk->born = malloc(newcomers->count * sizeof *walk->born);
    if (walk->born == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (uint64_t i = 0; i < newcomers->count; i++) {
        op_t op;
        message_t message;
        op_read(&walk->stream->store->batches, newcomers->at[i], &op);
        if (message_read(op.value, &message) && wanted(walk, message.subject)) {
            walk->born[walk->born_count++] = message.subject;
        }
    }
    if (walk->born_count > 1) {
        qsort(walk->born, walk->born_count, sizeof *walk->born, compare_slices);
    }
    return STATUS_OK;
}

/* Takes in what the cursor stands on, goes on until it is one that is wanted. */
static void home_settle(walk_t *walk, status_t status, bytes_t key, bytes_t value, bytes_t prefix) {
    store_t *store = walk->stream->store;
    walk->home_open = false;
    while (status == STATUS_OK && key.size >= 4 && load_be32(key.at) == walk->stream->id) {
        head_t head;
        bool sound = head_read(key, value, &walk->home, &head);
        if (sound && !bytes_starts(walk->home, prefix)) {
            return;
        }
        if (sound && wanted(walk, walk->home)) {
            walk->home_open = true;
            return;
        }
        status = env_next(store->env, DB_HEADS, BYTES_NONE, &key, &value);
    }
}

static void home_open(walk_t *walk) {
    bytes_t prefix = literal_prefix(walk->pattern);
    if (walk->stream->home_hidden_until != 0) {
        return;
    }
    bytes_t from = prefix;
    if (walk->has_after && bytes_compare(walk->after, prefix) > 0) {
        from = walk->after;
    }
    store_key_t key;
    key_text(&key, walk->stream->id, bytes_of(from.at, from.size < KEY_TEXT_PREFIX ? from.size : KEY_TEXT_PREFIX));
    bytes_t found = BYTES_NONE;
    bytes_t value = BYTES_NONE;
    status_t status = env_seek(walk->stream->store->env, DB_HEADS, key_bytes(&key), &found, &value);
    home_settle(walk, status, found, value, prefix);
}

static void home_next(walk_t *walk) {
    bytes_t key = BYTES_NONE;
    bytes_t value = BYTES_NONE;
    status_t status = env_next(walk->stream->store->env, DB_HEADS, BYTES_NONE, &key, &value);
    home_settle(walk, status, key, value, literal_prefix(walk->pattern));
}

static bool walk_next(walk_t *walk, bytes_t *subject) {
    bool born = walk->born_at < walk->born_count;
    if (!born && !walk->home_open) {
        return false;
    }
    int order = !born ? 1 : !walk->home_open ? -1 : bytes_compare(walk->born[walk->born_at], walk->home);
    *subject = order <= 0 ? walk->born[walk->born_at] : walk->home;
    while (walk->born_at < walk->born_count && bytes_equal(walk->born[walk->born_at], *subject)) {
        walk->born_at++;
    }
    if (order >= 0) {
        home_next(walk);
    }
    return true;
}

void store_subjects(store_stream_t *stream, bytes_t pattern, bytes_t after, subject_visit_t visit, void *context) {
    walk_t walk = {.stream = stream, .pattern = pattern, .after = after, .has_after = after.size > 0};
    head_t head;
    if (!matches_all(pattern) && !subject_has_wildcard(pattern)) {
        if (wanted(&walk, pattern) && head_look(stream, pattern, &head)) {
            visit(context, pattern, head.count, head.last);
        }
        return;
    }
    if (stream->messages == 0 || gather_born(&walk) != STATUS_OK) {
        return;
    }
    home_open(&walk);
    bytes_t subject;
    while (walk_next(&walk, &subject)) {
        if (head_look(stream, subject, &head) && !visit(context, subject, head.count, head.last)) {
            break;
        }
    }
    free(walk.born);
}

/* ---- the newest ---- */

typedef struct newest {
    store_stream_t *stream;
    uint64_t upto;
    uint64_t seq;
} newest_t;

/* The subject's newest message at or below upto. */
static uint64_t newest_of(store_stream_t *stream, uint64_t last, uint64_t first, uint64_t upto) {
    found_t found;
    if (last <= upto) {
        return last;
    }
    if (message_find(stream, last, false, &found) != STATUS_OK) {
        return 0;
    }
    while (message_chain(stream, &found.message, first, &found) == STATUS_OK) {
        if (found.seq <= upto) {
            return found.seq;
        }
    }
    return 0;
}

static bool visit_newest(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    newest_t *newest = context;
    (void)count;
    head_t head;
    if ((last_seq > newest->seq || last_seq > newest->upto) && head_look(newest->stream, subject, &head)) {
        uint64_t seq = newest_of(newest->stream, head.last, head.first, newest->upto);
        newest->seq = seq > newest->seq ? seq : newest->seq;
    }
    return true;
}

static uint64_t newest_matching(store_stream_t *stream, bytes_t pattern, uint64_t upto) {
    uint64_t at = upto > stream->last_seq ? stream->last_seq : upto;
    for (int looked = 0; looked < BACK_SCAN; looked++) {
        found_t found;
        if (at == 0 || message_back(stream, at, &found) != STATUS_OK) {
            return 0;
        }
        if (found.sound && (matches_all(pattern) || subject_matches(found.message.subject, pattern))) {
            return found.seq;
        }
        at = found.seq - 1;
    }
    newest_t newest = {.stream = stream, .upto = upto};
    store_subjects(stream, pattern, BYTES_NONE, visit_newest, &newest);
    return newest.seq;
}

uint64_t subjects_last(store_stream_t *stream, bytes_t pattern) {
    head_t head;
    if (!subject_has_wildcard(pattern)) {
        return head_look(stream, pattern, &head) ? head.last : 0;
    }
    return newest_matching(stream, pattern, UINT64_MAX);
}

status_t store_last_by_subject(store_stream_t *stream, bytes_t pattern, uint64_t upto, stored_message_t *out) {
    head_t head;
    uint64_t seq = 0;
    if (stream->messages == 0) {
        return STATUS_NOT_FOUND;
    }
    if (!matches_all(pattern) && !subject_has_wildcard(pattern)) {
        seq = head_look(stream, pattern, &head) ? newest_of(stream, head.last, head.first, upto) : 0;
    } else {
        seq = newest_matching(stream, pattern, upto);
    }
    return seq == 0 ? STATUS_NOT_FOUND : store_read(stream, seq, out);
}

/* ---- counts ---- */

typedef struct total {
    filters_t filters;
    uint32_t which;
    uint64_t count;
} total_t;

static bool visit_total(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    total_t *total = context;
    (void)last_seq;
    for (uint32_t i = 0; i < total->which; i++) {
        if (subject_matches(subject, total->filters.patterns[i])) {
            return true; /* counted by an earlier filter */
        }
    }
    total->count += count;
    return true;
}

static uint64_t count_all(store_stream_t *stream, filters_t filters) {
    if (filters.count == 0) {
        return stream->messages;
    }
    total_t total = {.filters = filters};
    for (; total.which < filters.count; total.which++) {
        store_subjects(stream, filters.patterns[total.which], BYTES_NONE, visit_total, &total);
    }
    return total.count;
}

static uint64_t count_scan(store_stream_t *stream, filters_t filters, uint64_t from, uint64_t upto) {
    uint64_t count = 0;
    found_t found;
    while (from <= upto && message_next(stream, from, upto, false, &found) == STATUS_OK) {
        count += found.sound && filters_match(filters, found.message.subject);
        from = found.seq + 1;
    }
    return count;
}

/* One subject's messages at or above from, by its chain when that is shorter than the stretch of stream they lie in. false: not. */
static bool count_chain(store_stream_t *stream, filters_t filters, uint64_t from, uint64_t *count) {
    head_t head;
    found_t found;
    *count = 0;
    if (filters.count != 1 || subject_has_wildcard(filters.patterns[0])) {
        return false;
    }
    if (!head_look(stream, filters.patterns[0], &head) || head.last < from) {
        return true;
    }
    if (head.first >= from) {
        *count = head.count;
        return true;
    }
    if (head.count > (stream->last_seq - from) / CHAIN_COST || message_find(stream, head.last, false, &found) != STATUS_OK) {
        return false;
    }
    do {
        ++*count;
    } while (message_chain(stream, &found.message, from, &found) == STATUS_OK);
    return true;
}

uint64_t store_count(store_stream_t *stream, filters_t filters, uint64_t from) {
    uint64_t counted;
    if (stream->messages == 0 || from > stream->last_seq) {
        return 0;
    }
    if (count_chain(stream, filters, from, &counted)) {
        return counted;
    }
    uint64_t all = from <= stream->first_seq || filters.count > 0 ? count_all(stream, filters) : stream->messages;
    if (from <= stream->first_seq || all == 0) {
        return all;
    }
    uint64_t span = stream->last_seq - stream->first_seq + 1;
    if (all == stream->messages && stream->messages == span) {
        return stream->last_seq - from + 1; /* every message counts, none is missing */
    }
    if (stream->last_seq - from < from - stream->first_seq) {
        return count_scan(stream, filters, from, stream->last_seq);
    }
    uint64_t before = count_scan(stream, filters, stream->first_seq, from - 1);
    return all > before ? all - before : 0;
}
