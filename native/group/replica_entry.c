/* replica_entry.c: see replica_entry.h. */
#include "group/replica_entry.h"

/* Each has a number of 8 bytes, but for the last ones. */
#define HAS_LAST_SEQ 1u
#define HAS_SUBJECT_SEQ 2u
#define HAS_EXPIRES 4u
#define HAS_FORCE_SEQ 8u
#define HAS_FORCE_TS 16u
#define HAS_SOURCE_SEQ 32u
#define HAS_SOURCE_TS 64u
#define HAS_DUE 128u
#define NUMBERS ENTRY_NUMBERS
#define TEXTS 5u
#define IS_SKIP 256u
#define IS_ROLLUP_SUBJECT 512u
#define IS_ROLLUP_ALL 1024u
#define HAS_MSG_ID 2048u
#define HAS_SOURCE_BEFORE 4096u /* the ninth number */
#define FLAGS 0x1fffu
#define ANY_NUMBER (0xffu | HAS_SOURCE_BEFORE) /* most entries have none */

static unsigned number_flag(unsigned nth) {
    return nth == NUMBERS - 1 ? HAS_SOURCE_BEFORE : 1u << nth;
}

void entry_numbers(const append_t *append, entry_numbers_t *numbers) {
    uint64_t *at = numbers->at;
    *numbers =
        (entry_numbers_t){.at = {append->expected_last_seq, append->expected_subject_seq, (uint64_t)append->expires_ts,
                                 append->force_seq, (uint64_t)append->force_ts, append->source_seq,
                                 (uint64_t)append->source_ts, (uint64_t)append->due_ts, append->source_before}};
    unsigned flags = append->has_expected_last_seq ? HAS_LAST_SEQ : 0;
    flags |= append->has_expected_subject_seq ? HAS_SUBJECT_SEQ : 0;
    flags |= append->has_source_before ? HAS_SOURCE_BEFORE : 0;
    bool some = (at[2] | at[3] | at[4] | at[5] | at[6] | at[7]) != 0;
    for (unsigned i = 2; some && i < NUMBERS - 1; i++) {
        flags |= at[i] != 0 ? number_flag(i) : 0;
    }
    flags |= append->skip ? IS_SKIP : 0;
    flags |= append->rollup == 1 ? IS_ROLLUP_SUBJECT : append->rollup != 0 ? IS_ROLLUP_ALL : 0;
    flags |= append->has_expected_msg_id ? HAS_MSG_ID : 0;
    numbers->flags = (uint16_t)flags;
}

/* Of an append, those whose sizes have two bytes, in their order. */
typedef struct short_texts {
    bytes_t at[TEXTS];
} short_texts_t;

static inline short_texts_t short_texts(const append_t *append) {
    return (short_texts_t){
        {append->subject, append->msg_id, append->expected_msg_id, append->expected_subject, append->source_key}};
}

uint64_t entry_append_size(const append_t *append, const entry_numbers_t *numbers) {
    uint64_t size = 2 + 4 + (uint64_t)append->header.size + append->payload.size;
    const short_texts_t texts = short_texts(append);
    for (unsigned i = 0; (numbers->flags & ANY_NUMBER) != 0 && i < NUMBERS; i++) {
        size += (numbers->flags & number_flag(i)) != 0 ? 8 : 0;
    }
    for (unsigned i = 0; i < TEXTS; i++) {
        if (texts.at[i].size > UINT16_MAX) {
            return 0;
        }
        size += 2 + (uint64_t)texts.at[i].size;
    }
    return size;
}

void entry_append_write(uint8_t *at, const append_t *append, const entry_numbers_t *numbers) {
    store_be16(at, numbers->flags);
    at += 2;
    const short_texts_t texts = short_texts(append);
    for (unsigned i = 0; (numbers->flags & ANY_NUMBER) != 0 && i < NUMBERS; i++) {
        if ((numbers->flags & number_flag(i)) != 0) {
            store_be64(at, numbers->at[i]);
            at += 8;
        }
    }
    for (unsigned i = 0; i < TEXTS; i++) {
        store_be16(at, (uint16_t)texts.at[i].size);
        at = bytes_write(at + 2, texts.at[i]);
    }
    store_be32(at, append->header.size);
    (void)bytes_write(bytes_write(at + 4, append->header), append->payload);
}

_Static_assert(2 * (TEXTS - 1) == sizeof(uint64_t), "their sizes are one word");

static inline bool part_take(bytes_t *left, uint32_t size, bytes_t *out) {
    if (size > left->size) {
        return false;
    }
    *out = bytes_of(left->at, size);
    *left = bytes_after(*left, size);
    return true;
}

/* Most messages have a subject and none of the other texts: four sizes that are 0. */
static bool short_texts_take(bytes_t *left, bytes_t texts[TEXTS]) {
    const uint32_t others = 2 * (TEXTS - 1);
    bytes_t part = BYTES_NONE;
    uint32_t subject = left->size >= 2 ? load_be16(left->at) : UINT16_MAX;
    if (left->size >= 2 + subject + others && load_u64(left->at + 2 + subject) == 0) {
        texts[0] = bytes_of(left->at + 2, subject);
        *left = bytes_after(*left, 2 + subject + others);
        return true;
    }
    for (unsigned i = 0; i < TEXTS; i++) {
        if (!part_take(left, 2, &part) || !part_take(left, load_be16(part.at), &texts[i])) {
            return false;
        }
    }
    return texts[TEXTS - 1].size <= SOURCE_KEY_MAX;
}

bool entry_append_read(bytes_t left, append_t *append) {
    bytes_t part = BYTES_NONE;
    uint64_t numbers[NUMBERS] = {0};
    if (!part_take(&left, 2, &part)) {
        return false;
    }
    unsigned flags = load_be16(part.at);
    for (unsigned i = 0; (flags & ANY_NUMBER) != 0 && i < NUMBERS; i++) {
        if ((flags & number_flag(i)) != 0) {
            if (!part_take(&left, 8, &part)) {
                return false;
            }
            numbers[i] = load_be64(part.at);
        }
    }
    bytes_t texts[TEXTS] = {{0}};
    bytes_t header = BYTES_NONE;
    bool sane = (flags & ~FLAGS) == 0 && (numbers[2] <= ENTRY_TIME_MAX || numbers[2] == UINT64_MAX)
                && numbers[4] <= ENTRY_TIME_MAX && numbers[7] <= INT64_MAX;
    if (!sane || !short_texts_take(&left, texts) || !part_take(&left, 4, &part)
        || !part_take(&left, load_be32(part.at), &header)) {
        return false;
    }
    *append = (append_t){.subject = texts[0],
                         .msg_id = texts[1],
                         .expected_msg_id = texts[2],
                         .expected_subject = texts[3],
                         .source_key = texts[4],
                         .header = header,
                         .payload = left,
                         .has_expected_last_seq = (flags & HAS_LAST_SEQ) != 0,
                         .has_expected_subject_seq = (flags & HAS_SUBJECT_SEQ) != 0,
                         .has_expected_msg_id = (flags & HAS_MSG_ID) != 0,
                         .has_source_before = (flags & HAS_SOURCE_BEFORE) != 0,
                         .skip = (flags & IS_SKIP) != 0,
                         .rollup = (flags & IS_ROLLUP_ALL) != 0       ? 2
                                   : (flags & IS_ROLLUP_SUBJECT) != 0 ? 1
                                                                      : 0,
                         .expected_last_seq = numbers[0],
                         .expected_subject_seq = numbers[1],
                         .expires_ts = (int64_t)numbers[2],
                         .force_seq = numbers[3],
                         .force_ts = (int64_t)numbers[4],
                         .source_seq = numbers[5],
                         .source_ts = (int64_t)numbers[6],
                         .due_ts = (int64_t)numbers[7],
                         .source_before = numbers[8]};
    return true;
}
