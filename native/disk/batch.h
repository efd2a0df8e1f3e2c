/* batch.h: the byte ring in which batches are built, journaled, kept until they are checkpointed, and given back. Knows
 * positions and ops; knows no file, no LMDB, no stream.
 *
 * One ring of memory is the overlay's data: the plane appends ops at its end, the journal thread writes sealed
 * batches from it to the file, the keeper applies durable ones from it to LMDB, and a committed checkpoint gives its
 * bytes back. Positions are bytes since the store was made; they only grow, and position % size is the place in memory
 * and in the journal's file alike.
 *
 *        freed           applied        durable         sealed          end
 *          |  checkpointed  |  for keeper   |  for journal  |  open batch  |
 *     -----+----------------+---------------+---------------+--------------+------> positions
 *      plane               keeper          journal         plane (the only writer of bytes)
 *
 * The memory is mapped twice, one after the other, so a batch is contiguous wherever it begins. Bytes never move, so an
 * op is addressed by its position until it is freed.
 *
 * A narrow ring has memory for a part of itself, `lap`: so much may be between freed and end. It becomes wider while it
 * is in use: what is in use then is at its old address as well as at its new one until it is freed, so others may have
 * taken that address just before; up to then no more of the ring is used than before (`room`).
 *
 *   batch  = header, ops.., zeros up to the next multiple of the alignment
 *   header = magic 4, crc 4 (over the rest of header and ops), position 8, number 8, size 4 (header and ops), chain 4
 *   (crc of
 *            the batch before), count 4, blocks 3, format 1. blocks: 0, or the batch is compressed on the disk and has
 *            so many there (squeeze.h); crc then covers these
 *            The last op of a journaled batch is its witness: a DELETE of a key of META that is never there, "batch",
 *            store id 16, durable 8. When the batch was written, everything before the position `durable` was on disk.
 *            (An op, and one without effect, so that a leafd which knows of no witness replays it.) See salvage.c.
 *   op     = kind 1, db 1, key size 2, value size 4, key, value
 *              PUT           the value of the key is this
 *              DELETE        the key is gone
 *              DELETE_RANGE  keys from `key` (included) to `value` (excluded) are gone
 *              PUT_SHARED    of a message: its value is `value` but for the last 12 bytes, and then the bytes that
 *                            these name, which an earlier op has: position 8, size 4
 *
 * Effects are absolute: applying a batch twice, or a tail of batches again, ends in the same state.
 *
 * What an op shares is not freed before it, and is applied and replayed with it: no checkpoint ends between the two.
 * The writer of one sees to that (store/sharing.h).
 */
#ifndef LEAFD_DISK_BATCH_H
#define LEAFD_DISK_BATCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/bytes.h"
#include "base/status.h"
#include "disk/keys.h"

#define BATCH_MAGIC UINT32_C(0x4c66426a)
#define BATCH_HEADER_SIZE 40
#define BATCH_BLOCK 4096u /* of the disk */
#define OP_HEADER_SIZE 8
#define WITNESS_ID_SIZE 16
#define WITNESS_KEY_SIZE (5 + WITNESS_ID_SIZE + 8)
#define WITNESS_SIZE (OP_HEADER_SIZE + WITNESS_KEY_SIZE)
#define BATCH_OVERHEAD_MAX 256 /* with a witness still well below the alignment of a journaled batch */
#define BATCH_RING_MIN (UINT64_C(1) << 20)

typedef enum op_kind_in_batch {
    OP_PUT = 1,
    OP_DELETE = 2,
    OP_DELETE_RANGE = 3,
    OP_PUT_SHARED = 4,
} op_kind_in_batch_t;

#define OP_SHARES_SIZE 12u

typedef struct batch_op {
    uint8_t kind;
    uint8_t db;
    bytes_t key;
    bytes_t value;
} batch_op_t;

typedef struct batch_header {
    uint64_t position;
    uint64_t number;
    uint32_t crc;
    uint32_t size;
    uint32_t chain;
    uint32_t count;
    uint32_t blocks;
    uint32_t format;
} batch_header_t;

typedef struct batches {
    uint8_t *at;
    uint64_t size;        /* of the circle in the file: position % size is the place there */
    _Atomic uint64_t lap; /* of the circle in memory: size divided by a power of two. The plane's, others read it */
    uint64_t room;        /* so much of it may be in use */
    uint64_t wide_from;   /* when everything before it is freed that is all of it */
    int fd;               /* the memory */
    uint32_t alignment;
    bool witnessed; /* constant once batches are sealed */
    uint8_t store_id[WITNESS_ID_SIZE];
    uint32_t count;    /* ops in the open batch */
    uint64_t freed;    /* memory (and journal) before this may be written over */
    uint64_t begin;    /* where the open batch's header goes */
    uint64_t end;      /* behind its last op; == begin + BATCH_HEADER_SIZE when it is empty */
    uint64_t number;   /* of the open batch */
    uint32_t overhead; /* of a sealed batch: so many bytes lie behind its ops, see sealer.h */
    uint32_t tail;     /* that, and the witness */
    uint64_t promised; /* bytes that closing the open batch will need on top */
} batches_t;

/* size: a multiple of 64 KiB. position, number: where the first batch goes. */
LEAF_MUST_USE status_t batches_open(batches_t *batches, uint64_t size, uint32_t alignment, uint64_t position,
                                    uint64_t number);
/* Everything before position is done with; the next batch goes there. After replay. */
void batches_restart(batches_t *batches, uint64_t position, uint64_t number);
void batches_close(batches_t *batches);
/* Nothing is in it: from now on it has memory for size / part bytes, a power of two, and none of its pages are taken.
 * Where the system refuses it stays as wide as it is. */
void batches_narrow(batches_t *batches, uint32_t part);
/* Memory for `lap` bytes, some times as much as now. Others may read meanwhile, nobody may write. false: the system
 * refuses. */
bool batches_widen(batches_t *batches, uint64_t lap);
/* Frees the bytes before position, which are done with. */
void batches_free(batches_t *batches, uint64_t position);
/* Batches leave so much room behind their ops for being sealed. Before the first one. */
void batches_reserve(batches_t *batches, uint32_t overhead);
/* Batches carry a witness from now on. */
void batches_witness(batches_t *batches, const uint8_t store_id[WITNESS_ID_SIZE]);

static inline uint8_t *batches_at(const batches_t *batches, uint64_t position) {
    return batches->at + position % atomic_load_explicit(&batches->lap, memory_order_relaxed);
}
static inline bool batch_is_empty(const batches_t *batches) {
    return batches->count == 0;
}
static inline uint64_t batch_open_size(const batches_t *batches) {
    return batches->end - batches->begin;
}
static inline uint64_t batches_used(const batches_t *batches) {
    return batches->end - batches->freed;
}
static inline uint64_t op_size(uint32_t key_size, uint32_t value_size) {
    return OP_HEADER_SIZE + (uint64_t)key_size + value_size;
}

/* Would `need` more bytes fit, with what is promised? */
bool batch_fits(const batches_t *batches, uint64_t need);
/* Appends an op and returns where its value is to be written. The caller has asked batch_fits. *position: the op's. */
uint8_t *batch_op(batches_t *batches, op_kind_in_batch_t kind, store_db_t db, bytes_t key, uint32_t value_size,
                  uint64_t *position);
/* Writes the header (all but crc and chain, which the journal fills in) and opens the next batch behind it. */
void batch_seal(batches_t *batches);
/* Into the witness of a sealed batch. */
void witness_stamp(uint8_t *batch, uint32_t size, uint64_t durable);
/* Does the batch end with a witness of that store? */
bool witness_read(const uint8_t *batch, uint32_t size, const uint8_t store_id[WITNESS_ID_SIZE], uint64_t *durable);
/* Gives memory before `position` back to the system when that is worth it (idle). */
void batches_trim(batches_t *batches, uint64_t from, uint64_t to);

void op_read(const batches_t *batches, uint64_t position, batch_op_t *op);
/* The same for the keeper, of what is sealed and not freed: looks at nothing that the batches' own thread changes. */
void op_read_sealed(const batches_t *batches, uint64_t position, batch_op_t *op);
/* Walks the ops of a batch in memory: offset begins at BATCH_HEADER_SIZE. false: malformed. */
bool op_next(const uint8_t *batch, uint32_t batch_size, uint32_t *offset, batch_op_t *op);

/* Behind the head of a value that is written: it shares so many bytes at that position. */
void op_shares(uint8_t *to, uint64_t position, uint32_t size);
/* The two parts of a put's value; the second is empty but for OP_PUT_SHARED. false: it shares what no ring has. */
bool op_parts(const batches_t *batches, const batch_op_t *op, bytes_t *head, bytes_t *rest);
static inline bool op_puts(const batch_op_t *op) {
    return op->kind == OP_PUT || op->kind == OP_PUT_SHARED;
}
/* Of a put: do the lengths of its message add up? */
bool op_message(const batches_t *batches, const batch_op_t *op, message_record_t *message);
/* Of a put: does its checksum hold? */
bool op_sound(const batches_t *batches, const batch_op_t *op);

/* Every op of a batch that begins at position / of the sealed batches in [from, to), which lie in the ring. The first
 * status that is not STATUS_OK ends the walk and is returned; STATUS_CORRUPT: malformed. */
typedef status_t (*op_visit_t)(void *context, const batch_op_t *op, uint64_t position);
LEAF_MUST_USE status_t batch_each(const uint8_t *batch, uint32_t size, uint64_t position, op_visit_t visit,
                                  void *context);
LEAF_MUST_USE status_t batches_each(const batches_t *batches, uint64_t from, uint64_t to, op_visit_t visit,
                                    void *context);
/* The header of the last batch in [from, to), which holds at least one. */
void batches_last(const batches_t *batches, uint64_t from, uint64_t to, batch_header_t *header);

void batch_header_write(uint8_t *to, const batch_header_t *header);
/* false: not a header. A compressed batch takes no more blocks than a plain one would. */
bool batch_header_read(const uint8_t *at, batch_header_t *header);
/* The checksum of a sealed batch; size includes what sealing has added. */
uint32_t batch_crc(const uint8_t *batch, uint32_t size);
/* Its bytes on the disk, which its checksum covers; overhead: of a sealed one. */
static inline uint32_t batch_stored(const batch_header_t *header, uint32_t overhead) {
    return header->blocks != 0 ? header->blocks * BATCH_BLOCK : header->size + overhead;
}
static inline uint64_t batch_padded(const batches_t *batches, uint32_t size) {
    return ((uint64_t)size + batches->overhead + batches->alignment - 1) / batches->alignment * batches->alignment;
}

#endif
