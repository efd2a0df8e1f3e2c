/* replica_entry.h: what is asked for of a stream of a group as bytes: the body of an APPEND (replica.h), and of each
 * message of a BATCH.
 */
#ifndef LEAFD_GROUP_REPLICA_ENTRY_H
#define LEAFD_GROUP_REPLICA_ENTRY_H

#include "store/append.h"

#define ENTRY_HEAD 18u
#define ENTRY_NUMBERS 9
#define ENTRY_TIME_MAX (UINT64_MAX >> 3) /* more is no true time: no sum of times overflows */
#define SOURCE_KEY_MAX 500u              /* as it is in jetstream/progress.h */

typedef struct entry_numbers {
    uint16_t flags;
    uint64_t at[ENTRY_NUMBERS];
} entry_numbers_t;

void entry_numbers(const append_t *append, entry_numbers_t *numbers);
/* How many bytes; 0: one of its texts is too long. */
uint64_t entry_append_size(const append_t *append, const entry_numbers_t *numbers);
void entry_append_write(uint8_t *at, const append_t *append, const entry_numbers_t *numbers);
/* Its slices are those of the bytes. false: they are no entry. */
bool entry_append_read(bytes_t left, append_t *append);

#endif
