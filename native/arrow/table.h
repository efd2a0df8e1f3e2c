/* table.h: the columns of a stream's messages as Arrow lays them out, in memory of the caller's.
 *
 * A text column is a run of bytes and where each element ends: element i lies between ends[i] and ends[i + 1], and
 * ends[0] is 0. Headers are a list a row: field_ends says in the same way which elements of key and value are a row's.
 *
 *     rows          0        1            2
 *     field_ends    0    2        2               3
 *     key           A  B              C
 *
 * Not here: the columns that are the same in every row, and the types: agent/leafd_spark/source/columns.py.
 */
#ifndef LEAFD_ARROW_TABLE_H
#define LEAFD_ARROW_TABLE_H

#include <stdbool.h>

#include "base/bytes.h"

typedef struct arrow_text {
    int32_t *ends; /* room for one more than there may be elements */
    uint8_t *at;
    uint32_t size; /* of the room for bytes, at most INT32_MAX */
} arrow_text_t;

typedef struct arrow_table {
    uint32_t rows_max, rows;
    uint32_t fields_max, fields;
    int64_t *sequence, *nanoseconds, *origin_sequence;
    uint8_t *origin_valid; /* a bit a row, lowest first, all 0 at first */
    int32_t *field_ends;
    arrow_text_t subject, data, origin_stream, origin_api; /* an element a row */
    arrow_text_t key, value;                               /* an element a header field */
    bool sourced;                                          /* some row has an origin */
} arrow_table_t;

/* A row before it is one of the table's. Slices into the caller's bytes. */
typedef struct arrow_row {
    int64_t sequence, nanoseconds;
    bytes_t subject, data;
    bytes_t stored; /* lines of header fields, without the version line and without what a server appended */
} arrow_row_t;

/* Adds the row, with its header fields or only where it came from. false: there is no room for it, and nothing changed
 * that counts. */
bool arrow_table_add(arrow_table_t *table, const arrow_row_t *row, bool with_headers);

#endif
