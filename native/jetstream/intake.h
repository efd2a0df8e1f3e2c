/* intake.h: what the headers of a message that is published order: conditions of its append, what is stored in place of
 * them, and the first thing that is to be refused.
 */
#ifndef LEAFD_JETSTREAM_INTAKE_H
#define LEAFD_JETSTREAM_INTAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "jetstream/publish.h"
#include "jetstream/stream.h"
#include "store/append.h"
#include "wire/emit.h"

/* The order in which the reference looks for each: of several refusals the publisher gets the first one. */
typedef enum refusal_rank {
    RANK_COUNTER = 0,
    RANK_STREAM,
    RANK_TTL_OFF,
    RANK_SUBJECT_SEQ,
    RANK_SCHEDULE,
    RANK_SOURCE,
    RANK_TTL,
} refusal_rank_t;

/* Begun with zeros. Its slices live as long as the message. */
typedef struct intake {
    append_t append;
    bytes_t increment; /* of a counter; empty: the message counts nothing */
    bool conditional;  /* it says what no increment may */
    bytes_t batch_id;  /* of an atomic batch; empty: it is in none */
    bool has_subject_seq_subject;
    uint32_t ttl_size; /* of ttl_text, which replaces the header's value; 0 = the value stays */
    uint8_t ttl_text[20];
    bytes_t expiry;  /* of MQTT, where the stream lets messages expire; Nats-TTL counts before it */
    bool scheduling; /* there are headers of schedules */
    schedule_order_t order;
    bytes_t bad_rollup;
    refusal_t refusal; /* the first one in the reference's order, among those that need no store */
    refusal_rank_t refusal_rank;
} intake_t;

/* What a message asks to be appended, as its headers order it. refusal: one that is there already; the first one that
 * needs no store, NULL: nothing to refuse. (publish.c) */
const refusal_t *intake_begin(js_t *js, const stream_t *stream, const message_t *message, publisher_t publisher,
                              const refusal_t *refusal, intake_t *intake);
/* NULL: nothing to refuse. Leaves append's subject, header and payload as they are. */
const refusal_t *intake_read(js_t *js, const stream_t *stream, const message_t *message, intake_t *intake);
/* The header as it is to be stored, with what the checks have added: the message's own, or one in js->scratch. */
bytes_t intake_header(js_t *js, const intake_t *intake, bytes_t header);
/* The value of Nats-Rollup, as append_t.rollup has it; 0: neither of the words. */
uint8_t rollup_read(bytes_t value);

#endif
