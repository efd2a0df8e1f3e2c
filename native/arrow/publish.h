/* publish.h: rows of Arrow columns to framed publishes, and the acknowledgements of those.
 *
 * A row is framed so, where `lines` are header lines with their ends and <id> is a column's or made of the digest:
 *
 *     HPUB <subject> <inbox>.<number> <header size> <total size>\r\n
 *     NATS/1.0\r\n<lines>Nats-Msg-Id: <id>\r\n\r\n<data>\r\n
 *
 *     <id>    <scope>-<digest in hex>, and .<count> behind it where equal rows came before
 *
 * agent/leafd_spark/sink/frames.py is the same in Python; tests/unit/spark hold the two to each other.
 */
#ifndef LEAFD_ARROW_PUBLISH_H
#define LEAFD_ARROW_PUBLISH_H

#include "arrow/blake2.h"

/* A column: element i lies between ends[i] and ends[i + 1], which the caller has checked. */
typedef struct publish_text {
    const int32_t *ends;
    const uint8_t *at;
} publish_text_t;

typedef struct publish_rows {
    uint32_t count;
    publish_text_t subject, lines, data;
} publish_rows_t;

typedef struct publish_ids {
    const publish_text_t *text; /* the ids themselves, or NULL: they are made of what follows */
    bytes_t scope;
    const uint8_t *digests; /* BLAKE2_DIGEST bytes a row */
    const int64_t *counts;  /* how many equal rows came before; NULL: none did */
} publish_ids_t;

/* The parts that are the same in every row. */
typedef struct publish_line {
    bytes_t inbox;
    uint64_t first; /* number of the first row's reply subject */
} publish_line_t;

/* The digest of each row's subject, lines and data. */
void publish_digests(const publish_rows_t *rows, uint8_t *digests);

/* Finds the digests that are in the table, or among those before them: their places go to `again`, their number is
 * returned. The others are in the table then. It has a power of two of slots, more than it gets digests; one of zeros
 * is empty. */
uint32_t publish_seen(uint8_t *table, uint64_t slots, const uint8_t *digests, uint32_t count, int64_t *again);

/* Fills bounds[0 .. count] with where each frame begins, and the last one ends. */
void publish_measure(const publish_rows_t *rows, const publish_ids_t *ids, const publish_line_t *line, int64_t *bounds);

/* Writes as many bytes as `publish_measure` said. */
void publish_write(const publish_rows_t *rows, const publish_ids_t *ids, const publish_line_t *line, uint8_t *to);

/* Takes acknowledgements of messages that are newly stored from the front of `received`, as many as there are and room
 * is for; what is anything else stays. Each is a message whose line begins with `prefix`, up to the dot before the
 * number. *taken says how many bytes they were; returns how many numbers. */
uint32_t publish_acknowledged(bytes_t received, bytes_t prefix, int64_t *numbers, uint32_t room, uint32_t *taken);

#endif
