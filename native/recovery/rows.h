/* rows.h: the messages and heads that LMDB has, read while a journal is brought into it (rebuild.c). Inside the
 * keeper's write transaction; a read that is READ_UNKNOWN or ENTRY_UNKNOWN has its reason in env_write_why.
 */
#ifndef LEAFD_RECOVERY_ROWS_H
#define LEAFD_RECOVERY_ROWS_H

#include "base/outcome.h"
#include "disk/env.h"
#include "disk/keys.h"

typedef struct rows {
    env_t *env;
    uint8_t *room; /* for what is written */
    uint64_t room_size;
} rows_t;

void rows_end(rows_t *rows);
/* NULL: no memory. */
uint8_t *rows_room(rows_t *rows, uint64_t size);
/* Zeros where there is none, or it is damaged: it is counted anew. */
LEAF_MUST_USE status_t row_head_get(rows_t *rows, uint32_t id, bytes_t subject, head_t *head);
/* A count of 0 takes it out. */
LEAF_MUST_USE status_t row_head_put(rows_t *rows, uint32_t id, bytes_t subject, head_t head);
LEAF_MUST_USE entry_outcome_t row_message_get(rows_t *rows, uint32_t id, uint64_t seq, message_record_t *message);
/* The stream's first one at or above *seq. */
LEAF_MUST_USE read_outcome_t row_message_seek(rows_t *rows, uint32_t id, uint64_t *seq);
LEAF_MUST_USE status_t row_message_put(rows_t *rows, uint32_t id, uint64_t seq, const message_record_t *message);

#endif
