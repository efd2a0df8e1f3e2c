/* fill_rig.h: a mirror of which the origin has all, pages that are damaged, and holes that are filled: what is to be
 * true of the stream then is asked in every way. For test_store_fill.c and test_store_fill_damaged.c.
 */
#ifndef LEAFD_TESTS_FILL_RIG_H
#define LEAFD_TESTS_FILL_RIG_H

#include "disk/tree.h"
#include "store/fill.h"
#include "store_rig.h"

#define MESSAGES 1500
#define LATER 600
#define SUBJECTS 23
#define HOLES 64

static rig_t rig;
static stream_config_t config;
static uint64_t seed;

/* What the stream has, by sequence; the origin has all of it. */
static struct {
    bool there;
    bool deleted; /* by request: never to come back */
} model[MESSAGES + LATER + 1];
static uint64_t last;

static inline uint64_t draw(uint64_t below) {
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (seed >> 33) % below;
}

static inline unsigned subject_number(uint64_t seq) {
    return seq % 7 == 0 ? 0 : (unsigned)(seq * 31 % SUBJECTS); /* one is on every seventh */
}

static inline int64_t stamp_of(uint64_t seq) {
    return RIG_START + (int64_t)seq;
}

/* The origin's message. */
static inline append_t message_of(uint64_t seq, char subject[32], char payload[400]) {
    snprintf(subject, 32, "fill.%u", subject_number(seq));
    int size = snprintf(payload, 400, "message %u ", (unsigned)seq);
    memset(payload + size, 'a' + (int)(seq % 26), seq % 300);
    payload[(uint64_t)size + seq % 300] = 0;
    return (append_t){.subject = text(subject), .payload = text(payload), .force_seq = seq, .force_ts = stamp_of(seq)};
}

static inline void take(store_stream_t *stream, uint64_t seq) {
    char subject[32];
    char payload[400];
    append_t append = message_of(seq, subject, payload);
    CHECK_EQ_U64(APPEND_STORED, rig_append(&rig, stream, &append).verdict);
    model[seq].there = true;
    last = seq;
}

static inline void take_out(store_stream_t *stream, uint64_t seq) {
    status_t status;
    while ((status = store_delete(stream, seq)) == STATUS_AGAIN || status == STATUS_FULL) {
        rig_checkpoint(&rig);
    }
    CHECK_EQ_I64(STATUS_OK, status);
    model[seq].there = false;
    model[seq].deleted = true;
}

/* gaps: every eleventh sequence of the origin has no message. */
static inline void begin(stream_config_t wanted, bool gaps) {
    memset(model, 0, sizeof model);
    config = wanted;
    config.flags |= STREAM_MIRROR;
    rig = (rig_t){.in_memory = true, .options = {.journal_size = 4 << 20}};
    rig_open(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, config);
    for (uint64_t seq = 1; seq <= MESSAGES; seq++) {
        if (!gaps || seq % 11 != 0) {
            take(stream, seq);
        }
        if (seq % 100 == 0) {
            rig_sync(&rig);
        }
    }
    rig_checkpoint(&rig);
    store_close(rig.store);
    rig.store = NULL;
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

/* The page of the messages' tree, so many levels above its leaves, that leads to the sequence. */
static inline off_t page_of(uint64_t seq, uint32_t above) {
    char path[RIG_PATH];
    uint8_t first[2 * 4096];
    page_meta_t metas[2];
    trees_t trees = {0};
    tree_cursor_t cursor = {0};
    tree_entry_t entry;
    page_db_t db;
    store_key_t key;
    store_key_t stored;
    uint64_t large;
    (void)rig_read_at(&rig, "data.mdb", first, sizeof first, 0);
    CHECK(page_meta_read(first, 0, &metas[0]) && page_meta_read(first + 4096, 1, &metas[1]));
    rig_path(&rig, "data.mdb", path);
    int fd = open(path, O_RDONLY);
    CHECK_EQ_I64(STATUS_OK, trees_open(&trees, fd, 64 << 20));
    uint64_t newest = metas[0].commit > metas[1].commit ? metas[0].commit : metas[1].commit;
    CHECK_EQ_I64(STATUS_OK, trees_renew(&trees, newest));
    CHECK_EQ_I64(READ_FOUND, trees_find(&trees, "m00000001", &db, &large));
    key_message(&key, 1, seq);
    stored = key;
    CHECK_EQ_I64(READ_FOUND, tree_seek(&trees, db, key_bytes(&stored), &cursor, &entry));
    CHECK(cursor.depth > above);
    off_t at = (off_t)page_word(cursor.page[cursor.depth - 1 - above]) * 4096;
    trees_close(&trees);
    close(fd);
    return at;
}

static inline void spoil(uint64_t seq, uint32_t above) {
    static const uint8_t zeros[4096];
    rig_write_at(&rig, "data.mdb", zeros, sizeof zeros, page_of(seq, above));
}

/* ---- holes ------------------------------------------------------------------------------------------------------- */

static hole_t holes[HOLES];
static unsigned hole_count;

static inline bool note_hole(void *context, bytes_t key, bytes_t value) {
    (void)context;
    CHECK(hole_count < HOLES && hole_read(key, value, &holes[hole_count]));
    hole_count++;
    return true;
}

static inline void look_for_holes(void) {
    hole_count = 0;
    CHECK_EQ_I64(LIST_WHOLE,
                 store_record_each(rig.store, RECORD_HOLE, bytes_of("\0\0\0\1", 4), BYTES_NONE, note_hole, NULL));
}

/* What the process that holds the origin's answers does. */
static inline status_t fill(store_stream_t *stream, uint64_t upto, uint64_t seq, bool *stored) {
    char subject[32];
    char payload[400];
    append_t append = message_of(seq, subject, payload);
    status_t status;
    while ((status = store_fill(stream, upto, &append, rig.now, stored)) == STATUS_AGAIN || status == STATUS_FULL) {
        if (status == STATUS_FULL) {
            rig_checkpoint(&rig);
        }
    }
    return status;
}

static inline void nothing_at(store_stream_t *stream, uint64_t upto, uint64_t seq) {
    bool stored = true;
    const append_t none = {.force_seq = seq, .force_ts = stamp_of(seq)};
    CHECK_EQ_I64(STATUS_OK, store_fill(stream, upto, &none, rig.now, &stored));
    CHECK(!stored);
}

/* What the holes took is not there. */
static inline void model_loses(void) {
    look_for_holes();
    for (unsigned i = 0; i < hole_count; i++) {
        for (uint64_t seq = holes[i].from; seq <= holes[i].upto; seq++) {
            model[seq].there = false;
        }
    }
}

/* ---- as if nothing had happened ---------------------------------------------------------------------------------- */

static inline uint64_t newest_in_model(unsigned subject, uint64_t upto) {
    for (uint64_t seq = upto; seq > 0; seq--) {
        if (model[seq].there && subject_number(seq) == subject) {
            return seq;
        }
    }
    return 0;
}

static inline void check_message(const stored_message_t *found, uint64_t seq) {
    char subject[32];
    char payload[400];
    append_t wanted = message_of(seq, subject, payload);
    CHECK_EQ_U64(seq, found->seq);
    CHECK_EQ_I64(wanted.force_ts, found->ts);
    CHECK(bytes_equal(found->subject, wanted.subject) && bytes_equal(found->payload, wanted.payload));
}

static inline void check_by_sequence(store_stream_t *stream) {
    uint64_t count = 0;
    uint64_t first = 0;
    stored_message_t found;
    for (uint64_t seq = 1; seq <= last; seq++) {
        entry_outcome_t status = store_read(stream, seq, &found);
        CHECK_EQ_I64(model[seq].there ? ENTRY_FOUND : ENTRY_NONE, status);
        if (status == ENTRY_FOUND) {
            check_message(&found, seq);
        }
        first = first == 0 && model[seq].there ? seq : first;
        count += model[seq].there;
    }
    uint64_t from = 1;
    for (uint64_t seq = first; seq != 0 && seq <= last; seq++) {
        if (model[seq].there) {
            CHECK_EQ_I64(SEEK_FOUND, store_next(stream, (filters_t){0}, &from, UINT64_MAX, UINT32_MAX, &found));
            check_message(&found, seq);
            from = seq + 1;
        }
    }
    CHECK_EQ_U64(count, rig_state(stream).messages);
    CHECK_EQ_U64(first, rig_state(stream).first_seq);
    CHECK_EQ_U64(count, store_count(stream, (filters_t){0}, 0));
}

static inline void check_subject(store_stream_t *stream, unsigned number) {
    char subject[32];
    stored_message_t found;
    snprintf(subject, sizeof subject, "fill.%u", number);
    bytes_t pattern = text(subject);
    filters_t filters = {.patterns = &pattern, .count = 1};
    uint64_t count = 0;
    for (uint64_t seq = 1; seq <= last; seq++) {
        count += model[seq].there && subject_number(seq) == number;
    }
    CHECK_EQ_U64(count, store_count(stream, filters, 0));
    for (uint64_t upto = last; upto > 0; upto -= upto > 97 ? 97 : upto) {
        uint64_t newest = newest_in_model(number, upto);
        entry_outcome_t status = store_last_by_subject(stream, pattern, upto, &found);
        CHECK_EQ_I64(newest != 0 ? ENTRY_FOUND : ENTRY_NONE, status);
        if (newest != 0) {
            check_message(&found, newest);
        }
    }
    store_ahead_t ahead = {0};
    uint64_t from = 1;
    for (uint64_t seq = 1; seq <= last; seq++) {
        if (model[seq].there && subject_number(seq) == number) {
            seek_outcome_t status;
            do {
                status = store_next_ahead(stream, &ahead, filters, &from, UINT64_MAX, 100, &found);
            } while (status == SEEK_MORE);
            CHECK_EQ_I64(SEEK_FOUND, status);
            check_message(&found, seq);
            from = seq + 1;
        }
    }
    store_ahead_end(&ahead);
}

static inline bool count_subject(void *context, bytes_t subject, uint64_t count, uint64_t newest) {
    unsigned *seen = context;
    char copy[32] = "";
    memcpy(copy, subject.at, subject.size);
    unsigned number = (unsigned)atoi(copy + 5);
    uint64_t expected = 0;
    for (uint64_t seq = 1; seq <= last; seq++) {
        expected += model[seq].there && subject_number(seq) == number;
    }
    CHECK_EQ_U64(expected, count);
    CHECK_EQ_U64(newest_in_model(number, last), newest);
    ++*seen;
    return true;
}

static inline void check_all(store_stream_t *stream) {
    unsigned seen = 0;
    unsigned subjects = 0;
    CHECK(store_sound(rig.store));
    check_by_sequence(stream);
    for (unsigned number = 0; number < SUBJECTS; number++) {
        check_subject(stream, number);
        subjects += newest_in_model(number, last) != 0;
    }
    CHECK_EQ_I64(STATUS_OK, store_subjects(stream, text(">"), count_subject, &seen));
    CHECK_EQ_U64(subjects, seen);
    CHECK_EQ_U64(subjects, rig_state(stream).subjects);
}

/* The newest of a subject goes, again and again: which one is the newest then is known by the chain alone. */
static inline void check_chains(store_stream_t *stream) {
    for (unsigned number = 0; number < SUBJECTS; number += 5) {
        for (uint64_t newest; (newest = newest_in_model(number, last)) > MESSAGES / 4;) {
            take_out(stream, newest);
        }
    }
    check_all(stream);
    rig_checkpoint(&rig);
    check_all(stream);
}

static inline store_stream_t *crashed(void) {
    rig_crash(&rig);
    return rig_stream(&rig, 1, config);
}

#endif
