/* fake_store.h: store.h's functions over plain arrays, for the tests of consume/. Include it in exactly one file of a
 * test program: it defines the functions themselves, so that the linker has no reason to take the real ones.
 *
 * Simple on purpose, but strict where the real one is: a slice that was returned is freed at the next write or tick, so
 * that AddressSanitizer finds code that keeps one too long. The test decides what becomes visible and which calls fail.
 * test_fake_store.c proves that it answers as the store does.
 */
#ifndef LEAFD_TESTS_FAKE_STORE_H
#define LEAFD_TESTS_FAKE_STORE_H

#include <stdlib.h>

#include "base/check.h"
#include "text/subject.h"
#include "store/alarms.h"
#include "store/record.h"
#include "store/store.h"

/* Not every test uses every helper. */
#define HELPER static __attribute__((unused))

#define FAKE_MESSAGES_MAX 70000
#define FAKE_SCRATCH_MAX 64

typedef struct fake_message {
    bool there;
    bool damaged; /* it is there, and cannot be served */
    int64_t ts;
    char *subject;
    uint8_t *header;
    uint32_t header_size;
    uint8_t *payload;
    uint32_t payload_size;
} fake_message_t;

struct store_stream {
    store_t *store;
    uint32_t id;
    stream_config_t config;
    uint64_t first, last; /* sequences 1..last are messages[1..last] */
    uint64_t visible;
    bool hold; /* visible does not follow by itself */
    fake_message_t *messages;
    uint32_t tally_steps; /* that a count takes */
    uint32_t stopped_by;  /* the consumer that store_stream_stop was called for */
};

typedef struct fake_record {
    uint32_t kind;
    uint32_t key_size, value_size;
    uint8_t key[32];
    uint8_t *value;
} fake_record_t;

struct store {
    store_hooks_t hooks;
    fake_record_t **records; /* sorted by kind and key */
    uint32_t record_count, record_capacity;
    uint8_t *scratch[FAKE_SCRATCH_MAX];
    uint32_t scratch_count;
    uint32_t record_writes; /* puts and deletes so far */
    uint32_t fail_in;       /* the n-th record write from now fails */
    uint32_t alarms;        /* so far */
    bool full;              /* no room for a deletion */
    bool busy;              /* nor for what publishers bring */
    uint32_t stream_count;
    store_stream_t *streams[8];
};

HELPER void fake_invalidate(store_t *store) {
    for (uint32_t i = 0; i < store->scratch_count; i++) free(store->scratch[i]);
    store->scratch_count = 0;
}

HELPER bytes_t fake_lend(store_t *store, const void *at, uint32_t size) {
    if (size == 0) return BYTES_NONE;
    /* only reads since the last write: the oldest have been looked at */
    if (store->scratch_count == FAKE_SCRATCH_MAX) {
        for (uint32_t i = 0; i < FAKE_SCRATCH_MAX / 2; i++) free(store->scratch[i]);
        memmove(store->scratch, store->scratch + FAKE_SCRATCH_MAX / 2, FAKE_SCRATCH_MAX / 2 * sizeof *store->scratch);
        store->scratch_count = FAKE_SCRATCH_MAX / 2;
    }
    uint8_t *copy = malloc(size);
    check(copy);
    memcpy(copy, at, size);
    store->scratch[store->scratch_count++] = copy;
    return bytes_of(copy, size);
}

HELPER store_t *fake_store_new(void) {
    store_t *store = calloc(1, sizeof *store);
    check(store);
    return store;
}

HELPER void fake_message_free(fake_message_t *message) {
    free(message->subject);
    free(message->header);
    free(message->payload);
    *message = (fake_message_t){0};
}

HELPER void fake_record_drop(store_t *store, uint32_t place) {
    free(store->records[place]->value);
    free(store->records[place]);
    store->record_count--;
    memmove(store->records + place, store->records + place + 1, (store->record_count - place) * sizeof *store->records);
}

HELPER void fake_store_free(store_t *store) {
    fake_invalidate(store);
    for (uint32_t i = 0; i < store->stream_count; i++) {
        store_stream_t *stream = store->streams[i];
        for (uint64_t seq = 1; seq <= stream->last; seq++) fake_message_free(&stream->messages[seq]);
        free(stream->messages);
        free(stream);
    }
    while (store->record_count > 0) fake_record_drop(store, store->record_count - 1);
    free(store->records);
    free(store);
}

HELPER store_stream_t *fake_stream_new(store_t *store, uint32_t id, uint8_t retention) {
    store_stream_t *stream = calloc(1, sizeof *stream);
    check(stream);
    stream->store = store;
    stream->id = id;
    stream->config = (stream_config_t){.retention = retention, .max_msg_size = -1};
    stream->first = 1;
    stream->messages = calloc(FAKE_MESSAGES_MAX, sizeof *stream->messages);
    check(stream->messages);
    store->streams[store->stream_count++] = stream;
    return stream;
}

HELPER void *fake_copy(const void *at, size_t size) {
    void *copy = malloc(size + 1);
    check(copy);
    if (size > 0) memcpy(copy, at, size);
    ((uint8_t *)copy)[size] = 0;
    return copy;
}

/* Of its text; the stream counts 30 more. */
HELPER uint64_t fake_size(const fake_message_t *message) {
    return strlen(message->subject) + message->header_size + message->payload_size;
}

HELPER uint64_t fake_append(store_stream_t *stream, const char *subject, const char *header, const char *payload,
                            int64_t ts) {
    fake_invalidate(stream->store);
    uint64_t seq = ++stream->last;
    check(seq < FAKE_MESSAGES_MAX);
    fake_message_t *message = &stream->messages[seq];
    message->there = true;
    message->ts = ts;
    message->subject = fake_copy(subject, strlen(subject));
    message->header_size = (uint32_t)strlen(header);
    message->header = fake_copy(header, strlen(header));
    message->payload_size = (uint32_t)strlen(payload);
    message->payload = fake_copy(payload, strlen(payload));
    if (!stream->hold) stream->visible = seq;
    store_hooks_t hooks = stream->store->hooks;
    if (hooks.appended)
        hooks.appended(hooks.context, stream, seq, bytes_of(message->subject, (uint32_t)strlen(subject)),
                       fake_size(message));
    return seq;
}

HELPER void fake_show(store_stream_t *stream) {
    stream->visible = stream->last;
}

/* ---- store.h ----------------------------------------------------------------------------------------------------- */

void store_set_hooks(store_t *store, store_hooks_t hooks) {
    store->hooks = hooks;
}

uint32_t store_stream_id(const store_stream_t *stream) {
    return stream->id;
}

store_t *store_stream_store(const store_stream_t *stream) {
    return stream->store;
}

void store_alarm(store_t *store, uint32_t code, uint32_t stream, uint64_t seq, const char *format, ...) {
    (void)code;
    (void)stream;
    (void)seq;
    check(format[0] != 0);
    store->alarms++;
}

void store_note_waiting(store_t *store) {
    (void)store;
}

uint64_t store_unknown(const store_t *store) {
    (void)store;
    return 0; /* every question is answered */
}

const stream_config_t *store_stream_config(const store_stream_t *stream) {
    return &stream->config;
}

void store_stream_stop(store_stream_t *stream, uint32_t consumer) {
    stream->stopped_by = consumer;
}

uint64_t store_stream_visible(const store_stream_t *stream) {
    return stream->visible;
}

HELPER uint64_t fake_first(const store_stream_t *stream) {
    uint64_t seq = stream->first;
    while (seq <= stream->last && !stream->messages[seq].there) seq++;
    return seq;
}

void store_stream_state(const store_stream_t *stream, stream_state_t *out) {
    memset(out, 0, sizeof *out);
    out->last_seq = stream->last;
    out->first_seq = stream->last > 0 ? fake_first(stream) : 0;
    for (uint64_t seq = 1; seq <= stream->last; seq++) {
        if (!stream->messages[seq].there) continue;
        out->messages++;
        out->bytes += 30 + fake_size(&stream->messages[seq]);
    }
}

status_t store_delete(store_stream_t *stream, uint64_t seq) {
    fake_invalidate(stream->store);
    if (seq == 0 || seq > stream->last || !stream->messages[seq].there) return STATUS_NOT_FOUND;
    if (stream->store->full) return STATUS_FULL;
    fake_message_t gone = stream->messages[seq];
    stream->messages[seq] = (fake_message_t){0};
    store_hooks_t hooks = stream->store->hooks;
    if (hooks.removed)
        hooks.removed(hooks.context, stream, seq, bytes_of(gone.subject, (uint32_t)strlen(gone.subject)),
                      fake_size(&gone));
    fake_message_free(&gone);
    return STATUS_OK;
}

status_t store_delete_any(store_stream_t *stream, uint64_t seq) {
    status_t status = store_delete(stream, seq);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

HELPER void fake_fill(store_stream_t *stream, uint64_t seq, stored_message_t *out) {
    const fake_message_t *message = &stream->messages[seq];
    out->seq = seq;
    out->ts = message->ts;
    out->subject = fake_lend(stream->store, message->subject, (uint32_t)strlen(message->subject));
    out->header = fake_lend(stream->store, message->header, message->header_size);
    out->payload = fake_lend(stream->store, message->payload, message->payload_size);
}

HELPER bool fake_matches(const fake_message_t *message, filters_t filters) {
    if (!message->there) return false;
    for (uint32_t i = 0; i < filters.count; i++) {
        if (subject_matches(bytes_of(message->subject, (uint32_t)strlen(message->subject)), filters.patterns[i]))
            return true;
    }
    return filters.count == 0;
}

entry_outcome_t store_read(store_stream_t *stream, uint64_t seq, stored_message_t *out) {
    if (seq == 0 || seq > stream->last || !stream->messages[seq].there) return ENTRY_NONE;
    if (stream->messages[seq].damaged) return ENTRY_DAMAGED;
    fake_fill(stream, seq, out);
    return ENTRY_FOUND;
}

seek_outcome_t store_next(store_stream_t *stream, filters_t filters, uint64_t *from, uint64_t upto, uint32_t budget,
                          stored_message_t *out) {
    uint64_t end = upto < stream->last ? upto : stream->last;
    for (uint64_t seq = *from > 0 ? *from : 1; seq <= end; seq++) {
        if (budget-- == 0) {
            *from = seq;
            return SEEK_MORE;
        }
        if (!fake_matches(&stream->messages[seq], filters)) continue;
        fake_fill(stream, seq, out);
        *from = seq;
        return SEEK_FOUND;
    }
    return SEEK_NONE;
}

seek_outcome_t store_next_ahead(store_stream_t *stream, store_ahead_t *ahead, filters_t filters, uint64_t *from,
                                uint64_t upto, uint32_t budget, stored_message_t *out) {
    (void)ahead;
    return store_next(stream, filters, from, upto, budget, out);
}

void store_ahead_end(store_ahead_t *ahead) {
    (void)ahead;
}

entry_outcome_t store_last_by_subject(store_stream_t *stream, bytes_t pattern, uint64_t upto, stored_message_t *out) {
    filters_t filters = {.patterns = &pattern, .count = 1};
    for (uint64_t seq = upto < stream->last ? upto : stream->last; seq > 0; seq--) {
        if (!fake_matches(&stream->messages[seq], filters)) continue;
        fake_fill(stream, seq, out);
        return ENTRY_FOUND;
    }
    return ENTRY_NONE;
}

seek_outcome_t store_seq_at_time(store_stream_t *stream, int64_t ts, uint32_t budget, uint64_t *seq) {
    (void)budget;
    for (*seq = 1; *seq <= stream->last; ++*seq) {
        if (stream->messages[*seq].there && stream->messages[*seq].ts >= ts) return SEEK_FOUND;
    }
    return SEEK_NONE;
}

HELPER uint64_t store_count(store_stream_t *stream, filters_t filters, uint64_t from) {
    uint64_t count = 0;
    for (uint64_t seq = from > 0 ? from : 1; seq <= stream->last; seq++)
        count += fake_matches(&stream->messages[seq], filters);
    return count;
}

/* A tally that needs some steps before it knows; what it says then is counted when it is asked. */
struct store_tally {
    store_stream_t *stream;
    filters_t filters;
    uint64_t from;
    uint32_t steps;
};

store_tally_t *store_tally_open(store_stream_t *stream, filters_t filters, uint64_t from) {
    store_tally_t *tally = malloc(sizeof *tally);
    check(tally);
    *tally = (store_tally_t){.stream = stream, .filters = filters, .from = from, .steps = stream->tally_steps};
    return tally;
}

step_outcome_t store_tally_step(store_tally_t *tally, uint32_t budget) {
    (void)budget;
    return tally->steps == 0 || --tally->steps == 0 ? STEP_OVER : STEP_MORE;
}

uint64_t store_tally_now(const store_tally_t *tally) {
    return store_count(tally->stream, tally->filters, tally->from);
}

void store_tally_close(store_tally_t *tally) {
    free(tally);
}

/* A message's subject and sequence, to be sorted. */
typedef struct fake_subject {
    const char *subject;
    uint64_t seq;
} fake_subject_t;

HELPER int fake_subject_order(const void *left, const void *right) {
    const fake_subject_t *a = left, *b = right;
    int order = strcmp(a->subject, b->subject);
    return order != 0 ? order : (a->seq > b->seq) - (a->seq < b->seq);
}

HELPER status_t store_subjects(store_stream_t *stream, bytes_t pattern, subject_visit_t visit, void *context) {
    filters_t filters = {.patterns = &pattern, .count = 1};
    fake_subject_t *all = malloc((stream->last + 1) * sizeof *all);
    check(all);
    uint64_t found = 0;
    for (uint64_t seq = 1; seq <= stream->last; seq++) {
        if (fake_matches(&stream->messages[seq], filters))
            all[found++] = (fake_subject_t){stream->messages[seq].subject, seq};
    }
    qsort(all, found, sizeof *all, fake_subject_order);
    uint64_t count = 0;
    for (uint64_t i = 0; i < found; i++) {
        count++;
        if (i + 1 < found && strcmp(all[i].subject, all[i + 1].subject) == 0) continue;
        if (!visit(context, bytes_of((const uint8_t *)all[i].subject, (uint32_t)strlen(all[i].subject)), count,
                   all[i].seq))
            break;
        count = 0;
    }
    free(all);
    return STATUS_OK;
}

struct store_walk {
    store_stream_t *stream;
    char *pattern;
    uint32_t steps;
};

store_walk_t *store_walk_open(store_stream_t *stream, bytes_t pattern) {
    store_walk_t *walk = malloc(sizeof *walk);
    check(walk);
    *walk = (store_walk_t){
        .stream = stream, .pattern = strndup((const char *)pattern.at, pattern.size), .steps = stream->tally_steps};
    return walk;
}

step_outcome_t store_walk_step(store_walk_t *walk, uint32_t budget, subject_visit_t visit, void *context) {
    (void)budget;
    if (walk->steps > 0 && --walk->steps > 0) return STEP_MORE;
    check(store_subjects(walk->stream, bytes_of(walk->pattern, (uint32_t)strlen(walk->pattern)), visit, context)
          == STATUS_OK);
    return STEP_OVER;
}

void store_walk_close(store_walk_t *walk) {
    if (walk) free(walk->pattern);
    free(walk);
}

seek_outcome_t store_newest(store_stream_t *stream, store_newest_t *newest, bytes_t pattern, uint64_t upto,
                            uint32_t budget, uint64_t *seq) {
    (void)budget;
    stored_message_t message;
    if (newest->seq++ < stream->tally_steps) return SEEK_MORE;
    bool found = store_last_by_subject(stream, pattern, upto, &message) == ENTRY_FOUND;
    *seq = found ? message.seq : 0;
    return found ? SEEK_FOUND : SEEK_NONE;
}

void store_newest_end(store_newest_t *newest) {
    *newest = (store_newest_t){0};
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

HELPER int fake_compare(const fake_record_t *record, uint32_t kind, bytes_t key) {
    if (record->kind != kind) return record->kind < kind ? -1 : 1;
    uint32_t common = record->key_size < key.size ? record->key_size : key.size;
    int order = memcmp(record->key, key.at, common);
    if (order != 0) return order;
    return (record->key_size > key.size) - (record->key_size < key.size);
}

/* The first record that is not before the key. */
HELPER uint32_t fake_place(const store_t *store, uint32_t kind, bytes_t key) {
    uint32_t place = 0, end = store->record_count;
    while (place < end) {
        uint32_t middle = place + (end - place) / 2;
        if (fake_compare(store->records[middle], kind, key) < 0)
            place = middle + 1;
        else
            end = middle;
    }
    return place;
}

HELPER bool fake_fails(store_t *store) {
    store->record_writes++;
    return store->fail_in > 0 && --store->fail_in == 0;
}

bool store_room(const store_t *store) {
    return !store->busy;
}

status_t store_record_put(store_t *store, uint32_t kind, bytes_t key, bytes_t value) {
    fake_invalidate(store);
    if (fake_fails(store)) return STATUS_FULL;
    uint32_t place = fake_place(store, kind, key);
    bool there = place < store->record_count && fake_compare(store->records[place], kind, key) == 0;
    if (there) {
        free(store->records[place]->value);
    } else {
        if (store->record_count == store->record_capacity) {
            store->record_capacity = store->record_capacity ? store->record_capacity * 2 : 64;
            store->records = realloc(store->records, store->record_capacity * sizeof *store->records);
            check(store->records);
        }
        memmove(store->records + place + 1, store->records + place,
                (store->record_count - place) * sizeof *store->records);
        store->records[place] = malloc(sizeof *store->records[place]);
        check(store->records[place]);
        store->record_count++;
    }
    fake_record_t *record = store->records[place];
    *record = (fake_record_t){
        .kind = kind, .key_size = key.size, .value_size = value.size, .value = fake_copy(value.at, value.size)};
    check(key.size <= sizeof record->key);
    memcpy(record->key, key.at, key.size);
    return STATUS_OK;
}

status_t store_record_delete(store_t *store, uint32_t kind, bytes_t key) {
    fake_invalidate(store);
    if (fake_fails(store)) return STATUS_FULL;
    uint32_t place = fake_place(store, kind, key);
    if (place < store->record_count && fake_compare(store->records[place], kind, key) == 0)
        fake_record_drop(store, place);
    return STATUS_OK;
}

HELPER bool fake_has_prefix(const fake_record_t *record, uint32_t kind, bytes_t prefix) {
    return record->kind == kind && bytes_starts(bytes_of(record->key, record->key_size), prefix);
}

status_t store_record_delete_prefix(store_t *store, uint32_t kind, bytes_t prefix) {
    fake_invalidate(store);
    if (fake_fails(store)) return STATUS_FULL;
    for (uint32_t i = store->record_count; i-- > 0;) {
        if (fake_has_prefix(store->records[i], kind, prefix)) fake_record_drop(store, i);
    }
    return STATUS_OK;
}

status_t store_record_change(store_t *store, const record_change_t *change) {
    switch (change->act) {
    case RECORD_PUT: return store_record_put(store, change->kind, change->key, change->value);
    case RECORD_DELETE: return store_record_delete(store, change->kind, change->key);
    case RECORD_DELETE_PREFIX: return store_record_delete_prefix(store, change->kind, change->key);
    }
    return STATUS_INVALID;
}

entry_outcome_t store_record_get(store_t *store, uint32_t kind, bytes_t key, bytes_t *value) {
    uint32_t place = fake_place(store, kind, key);
    if (place >= store->record_count || fake_compare(store->records[place], kind, key) != 0) return ENTRY_NONE;
    *value = fake_lend(store, store->records[place]->value, store->records[place]->value_size);
    return ENTRY_FOUND;
}

list_outcome_t store_record_each(store_t *store, uint32_t kind, bytes_t prefix, bytes_t after,
                                 bool (*visit)(void *context, bytes_t key, bytes_t value), void *context) {
    for (uint32_t i = 0; i < store->record_count; i++) {
        const fake_record_t *record = store->records[i];
        if (!fake_has_prefix(record, kind, prefix) || (after.size > 0 && fake_compare(record, kind, after) <= 0))
            continue;
        if (!visit(context, bytes_of(record->key, record->key_size), bytes_of(record->value, record->value_size)))
            break;
    }
    return LIST_WHOLE;
}

#endif
