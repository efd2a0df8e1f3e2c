/* subjects.c: what goes by subject: heads read through cache, overlay and LMDB; the newest message of a subject or
 * pattern. Heads change in append.c and limits.c through head_change. All subjects in order: walk.c; counts: tally.c.
 */
#include "base/check.h"
#include "base/number.h"
#include "text/subject.h"
#include "store/message.h"
#include "store/overlay.h"
#include "store/recount.h"

#define DIRTY_MAX 4096 /* heads that wait for the end of the batch, one turn of 2 ms; fewer cost each message */
#define NAMES_BYTES_MAX (64u << 20) /* of one slice's subjects */
#define BACK_SCAN 256               /* messages looked at from the end before a wildcard's subjects are gone through */
#define BACK_STEPS 1024             /* with the deleted ones between them */

static uint64_t head_promise(bytes_t subject) {
    return op_size(4 + (subject.size < KEY_TEXT_MAX ? subject.size : KEY_TEXT_MAX), head_size(subject));
}

/* A head that fails its checksum is alarmed, and counted again: what it was is not known until then. */
static read_outcome_t head_value(store_stream_t *stream, bytes_t key, bytes_t *value) {
    store_key_t room;
    if (LEAF_UNLIKELY(recount_runs(stream))
        && recount_is_of(stream, env_stored_key(stream->store->env, DB_HEADS, key, &room))) {
        switch (overlay_find(stream->store, DB_HEADS, key, value)) {
        case WORD_PUT: return READ_FOUND;
        case WORD_REMOVED: return READ_NONE;
        case WORD_NONE: return READ_UNKNOWN;
        }
    }
    switch (overlay_get(stream->store, DB_HEADS, key, value)) {
    case ENTRY_FOUND: return READ_FOUND;
    case ENTRY_NONE: return READ_NONE;
    case ENTRY_UNKNOWN: return READ_UNKNOWN;
    case ENTRY_DAMAGED: break;
    }
    recount_begin(stream, env_stored_key(stream->store->env, DB_HEADS, key, &room), key);
    return READ_UNKNOWN;
}

/* From the overlay or LMDB. */
static read_outcome_t head_load(store_stream_t *stream, bytes_t subject, head_t *head) {
    store_key_t key;
    bytes_t value = BYTES_NONE;
    key_text(&key, stream->id, subject);
    read_outcome_t outcome = head_value(stream, key_bytes(&key), &value);
    switch (outcome) {
    case READ_UNKNOWN:
    case READ_NONE: return outcome;
    case READ_FOUND: break;
    }
    bytes_t whole = bytes_of(value.at - VALUE_CRC_SIZE, value.size + VALUE_CRC_SIZE);
    bytes_t text = BYTES_NONE;
    bool its_own = head_read(key_bytes(&key), whole, &text, head) && bytes_equal(text, subject);
    return its_own ? READ_FOUND : READ_NONE;
}

static read_outcome_t head_lives(const head_t *head) {
    return head->count > 0 ? READ_FOUND : READ_NONE;
}

bool head_cached(store_stream_t *stream, bytes_t subject, head_t *head, read_outcome_t *outcome) {
    const head_entry_t *entry = heads_find(&stream->store->heads, subject, heads_hash(stream->heads_name, subject));
    if (entry == NULL) {
        return false;
    }
    *head = entry->head;
    *outcome = head_lives(head);
    return true;
}

static read_outcome_t head_find(store_stream_t *stream, bytes_t subject, bool keep, head_t *head) {
    read_outcome_t outcome;
    if (head_cached(stream, subject, head, &outcome)) {
        return outcome;
    }
    switch (outcome = head_load(stream, subject, head)) {
    case READ_UNKNOWN:
    case READ_NONE: return outcome;
    case READ_FOUND: break;
    }
    head_entry_t *entry =
        keep ? heads_add(&stream->store->heads, stream->id, subject, heads_hash(stream->heads_name, subject)) : NULL;
    if (entry != NULL) {
        entry->head = *head;
    }
    return head_lives(head);
}

read_outcome_t head_look(store_stream_t *stream, bytes_t subject, head_t *head) {
    return head_find(stream, subject, true, head);
}

read_outcome_t head_peek(store_stream_t *stream, bytes_t subject, head_t *head) {
    return head_find(stream, subject, false, head);
}

status_t head_fetch(store_stream_t *stream, bytes_t subject, head_entry_t **entry) {
    heads_t *heads = &stream->store->heads;
    uint64_t hash = heads_hash(stream->heads_name, subject);
    *entry = heads_find(heads, subject, hash);
    if (LEAF_LIKELY(*entry != NULL)) {
        return STATUS_OK;
    }
    head_t head = {0};
    switch (head_load(stream, subject, &head)) {
    case READ_UNKNOWN: return STATUS_IO;
    case READ_NONE: head = (head_t){0}; break;
    case READ_FOUND: break;
    }
    *entry = heads_add(heads, stream->id, subject, hash);
    if (*entry == NULL) {
        return STATUS_NO_MEMORY;
    }
    (*entry)->head = head;
    return STATUS_OK;
}

/* Writes the one that was changed first. */
static void settle_one(store_t *store) {
    head_entry_t *entry = heads_take_dirty(&store->heads);
    bytes_t subject = head_subject(entry);
    overlay_give_back(store, head_promise(subject));
    store_key_t key;
    key_text(&key, entry->stream, subject);
    check(overlay_reserve(store, 2) == STATUS_OK);
    if (entry->head.count == 0) {
        overlay_delete(store, DB_HEADS, key_bytes(&key), true);
        heads_remove(&store->heads, entry);
        return;
    }
    uint8_t *value = overlay_put_again(store, DB_HEADS, key_bytes(&key), head_size(subject), &entry->noted);
    head_write(value, key_bytes(&key), subject, entry->head);
}

/* Closing a batch writes those that wait: they may be so many that it would take long, so what waits for the longest
 * time is written before. */
void head_change(store_stream_t *stream, head_entry_t *entry) {
    heads_t *heads = &stream->store->heads;
    if (!heads_mark(heads, entry)) {
        return;
    }
    overlay_promise(stream->store, head_promise(head_subject(entry)));
    if (LEAF_UNLIKELY(heads->dirty_count > number_least(DIRTY_MAX, heads->max / 2))) {
        settle_one(stream->store);
    }
}

/* What the cache has of it is what counts: it was read before the damage. */
status_t head_counted(store_stream_t *stream, bytes_t subject, head_t head) {
    heads_t *heads = &stream->store->heads;
    uint64_t hash = heads_hash(stream->heads_name, subject);
    head_entry_t *entry = heads_find(heads, subject, hash);
    if (entry == NULL) {
        entry = heads_add(heads, stream->id, subject, hash);
        if (entry == NULL) {
            return STATUS_NO_MEMORY;
        }
        entry->head = head;
    }
    stream_touch(stream);
    head_change(stream, entry);
    return STATUS_OK;
}

void heads_settle(store_t *store) {
    while (store->heads.dirty_count > 0) {
        settle_one(store);
    }
}

void heads_let_go(store_t *store) {
    heads_keep_none(&store->heads);
}

void heads_join(store_stream_t *stream) {
    stream->heads_name = heads_name(&stream->store->heads);
}

void heads_leave(store_stream_t *stream) {
    uint8_t id[4];
    heads_settle(stream->store); /* gives back what the batch promised for them */
    heads_join(stream);
    store_be32(id, stream->id);
    overlay_delete_prefix(stream->store, DB_HEADS, bytes_of(id, sizeof id));
    recount_end(stream);
}

/* ---- the newest -------------------------------------------------------------------------------------------------- */

static bool is_on(const message_row_t *found, bytes_t subject) {
    return (found->message.flags & MESSAGE_GONE) != 0 || bytes_equal(found->message.subject, subject);
}

/* The link at *at is damaged, or leads to another subject: from there down, message by message. A damaged one counts
 * for nobody. */
static seek_outcome_t newest_by_steps(store_stream_t *stream, bytes_t subject, uint64_t upto, uint32_t *budget,
                                      uint64_t *at) {
    uint64_t from = *at - 1 < upto ? *at - 1 : upto;
    uint32_t sound = 0;
    while (sound < BACK_SCAN) {
        message_row_t found;
        seek_outcome_t outcome = message_back_some(stream, &from, budget, &found);
        switch (outcome) {
        case SEEK_UNKNOWN:
        case SEEK_NONE: return outcome;
        case SEEK_MORE: return sound == 0 ? SEEK_UNKNOWN : outcome;
        case SEEK_FOUND: break;
        }
        if (!found.sound) {
            store_corrupt(stream->store, stream, stream->id, found.seq, "a message");
            continue;
        }
        *at = found.seq;
        if (bytes_equal(found.message.subject, subject)) {
            return SEEK_FOUND;
        }
        sound++;
    }
    return SEEK_MORE;
}

/* *at is the sequence to look at next. The one that stood there may have gone since, without a link if it was its
 * subject's newest: then from the head again. */
seek_outcome_t store_newest_of(store_stream_t *stream, bytes_t subject, uint64_t upto, uint32_t *budget, uint64_t *at) {
    head_t head;
    switch (head_look(stream, subject, &head)) {
    case READ_UNKNOWN: return SEEK_UNKNOWN;
    case READ_NONE: return SEEK_NONE;
    case READ_FOUND: break;
    }
    *at = *at == 0 || *at > head.last ? head.last : *at;
    for (bool first = true; *budget > 0; first = false) {
        message_row_t found;
        --*budget;
        if (*at == head.last && *at <= upto) {
            return SEEK_FOUND; /* whatever its checksum says: its reader is told */
        }
        read_outcome_t outcome =
            *at < head.first || *at < stream->log.first_seq ? READ_NONE : message_link(stream, *at, &found);
        switch (outcome) {
        case READ_UNKNOWN: return SEEK_UNKNOWN;
        case READ_NONE:
            if (!first || *at == head.last) {
                return SEEK_NONE;
            }
            *at = head.last;
            continue;
        case READ_FOUND: break;
        }
        if (!found.sound) {
            store_corrupt(stream->store, stream, stream->id, *at, "a message");
            if (*at <= upto) {
                return SEEK_FOUND; /* likewise */
            }
        }
        if (!found.sound || !is_on(&found, subject) || found.message.previous >= *at) {
            return newest_by_steps(stream, subject, upto, budget, at);
        }
        if (*at <= upto && (found.message.flags & MESSAGE_GONE) == 0) {
            return SEEK_FOUND;
        }
        *at = found.message.previous;
        if (*at == 0) {
            return SEEK_NONE;
        }
    }
    return SEEK_MORE;
}

typedef struct newest {
    store_newest_t *search;
    uint64_t upto;
    bool failed;
} newest_t;

static bool visit_newest(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    newest_t *newest = context;
    store_newest_t *search = newest->search;
    (void)count;
    if (last_seq <= newest->upto) {
        search->seq = number_most(search->seq, last_seq);
        return true;
    }
    uint8_t size[4];
    store_be32(size, subject.size);
    newest->failed = buffer_append(&search->names, size, sizeof size) != STATUS_OK
                     || buffer_append(&search->names, subject.at, subject.size) != STATUS_OK;
    return !newest->failed;
}

/* Behind `upto` lies what is not on disk yet: if the disk lags, very much, on one subject perhaps. */
static step_outcome_t newest_behind(store_stream_t *stream, store_newest_t *search, uint64_t upto, uint32_t *budget) {
    while (search->names_at < search->names.size) {
        const uint8_t *at = search->names.at + search->names_at;
        bytes_t subject = bytes_of(at + 4, load_be32(at));
        switch (store_newest_of(stream, subject, upto, budget, &search->chain_at)) {
        case SEEK_UNKNOWN: return STEP_UNKNOWN;
        case SEEK_MORE: return STEP_MORE;
        case SEEK_FOUND: search->seq = number_most(search->seq, search->chain_at); break;
        case SEEK_NONE: break;
        }
        search->chain_at = 0;
        search->names_at += 4 + (uint64_t)subject.size;
    }
    search->names.size = search->names_at = 0;
    return STEP_OVER;
}

/* Among the last few messages of the stream? SEEK_MORE: not there. */
static seek_outcome_t newest_near(store_stream_t *stream, bytes_t pattern, uint64_t upto, uint64_t *seq) {
    uint64_t at = upto > stream->log.last_seq ? stream->log.last_seq : upto;
    uint32_t steps = BACK_STEPS;
    for (int looked = 0; looked < BACK_SCAN; looked++) {
        message_row_t found;
        seek_outcome_t outcome = at == 0 ? SEEK_NONE : message_back_some(stream, &at, &steps, &found);
        switch (outcome) {
        case SEEK_UNKNOWN:
        case SEEK_NONE:
        case SEEK_MORE: return outcome;
        case SEEK_FOUND: break;
        }
        if (found.sound && (subject_is_everything(pattern) || subject_matches(found.message.subject, pattern))) {
            *seq = found.seq;
            return SEEK_FOUND;
        }
        at = found.seq - 1;
    }
    return SEEK_MORE;
}

/* One slice of the walk of all subjects that match, behind the names that the one before has left. */
static step_outcome_t newest_by_walk(store_stream_t *stream, store_newest_t *newest, uint64_t upto, uint32_t budget) {
    newest_t found = {.search = newest, .upto = upto};
    step_outcome_t step = newest_behind(stream, newest, upto, &budget);
    switch (step) {
    case STEP_UNKNOWN:
    case STEP_MORE: return step;
    case STEP_OVER: break;
    }
    step = budget > 0 ? store_walk_step(newest->walk, budget, visit_newest, &found) : STEP_MORE;
    return found.failed ? STEP_UNKNOWN : step;
}

seek_outcome_t store_newest(store_stream_t *stream, store_newest_t *newest, bytes_t pattern, uint64_t upto,
                            uint32_t budget, uint64_t *seq) {
    if (!subject_is_everything(pattern) && !subject_has_wildcard(pattern)) {
        seek_outcome_t outcome = store_newest_of(stream, pattern, upto, &budget, &newest->seq);
        *seq = newest->seq;
        return outcome;
    }
    seek_outcome_t near = newest->begun ? SEEK_MORE : newest_near(stream, pattern, upto, seq);
    newest->begun = true;
    switch (near) {
    case SEEK_UNKNOWN:
    case SEEK_NONE:
    case SEEK_FOUND: return near;
    case SEEK_MORE: break;
    }
    if (newest->walk == NULL) {
        buffer_init(&newest->names, NAMES_BYTES_MAX);
        newest->walk = store_walk_open(stream, pattern);
        return newest->walk == NULL ? SEEK_UNKNOWN : SEEK_MORE;
    }
    step_outcome_t step = newest_by_walk(stream, newest, upto, budget);
    *seq = newest->seq;
    switch (step) {
    case STEP_UNKNOWN: return SEEK_UNKNOWN;
    case STEP_MORE: return SEEK_MORE;
    case STEP_OVER: break;
    }
    return newest->names.size > 0 ? SEEK_MORE : newest->seq == 0 ? SEEK_NONE : SEEK_FOUND;
}

void store_newest_end(store_newest_t *newest) {
    store_walk_close(newest->walk);
    buffer_free(&newest->names);
    *newest = (store_newest_t){0};
}

/* However many turns that would be. */
static read_outcome_t newest_matching(store_stream_t *stream, bytes_t pattern, uint64_t upto, uint64_t *seq) {
    store_newest_t newest = {0};
    read_outcome_t outcome = READ_UNKNOWN;
    for (bool more = stream->log.messages > 0; more;) {
        more = false;
        switch (store_newest(stream, &newest, pattern, upto, UINT32_MAX, seq)) {
        case SEEK_MORE: more = true; break;
        case SEEK_NONE: outcome = READ_NONE; break;
        case SEEK_FOUND: outcome = READ_FOUND; break;
        case SEEK_UNKNOWN: break;
        }
    }
    store_newest_end(&newest);
    return stream->log.messages == 0 ? READ_NONE : outcome;
}

read_outcome_t subjects_last(store_stream_t *stream, bytes_t pattern, uint64_t *seq) {
    read_outcome_t outcome = newest_matching(stream, pattern, UINT64_MAX, seq);
    switch (outcome) {
    case READ_UNKNOWN:
    case READ_NONE: *seq = 0; break;
    case READ_FOUND: break;
    }
    return outcome;
}

entry_outcome_t store_last_by_subject(store_stream_t *stream, bytes_t pattern, uint64_t upto, stored_message_t *out) {
    uint64_t seq = 0;
    switch (newest_matching(stream, pattern, upto, &seq)) {
    case READ_UNKNOWN: return ENTRY_UNKNOWN;
    case READ_NONE: return ENTRY_NONE;
    case READ_FOUND: break;
    }
    return store_read(stream, seq, out);
}
