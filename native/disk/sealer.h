/* sealer.h: what stands between the store's bytes and the disk. Encryption at rest enters here (cipher.h makes a sealer
 * from a key); by default there is no sealer (NULL) and the bytes go to the disk as they are.
 *
 *     env.c      each value but those of META: sealed as it is put into LMDB, opened as it is read
 *     journal.c  each batch: its header stays as it is, its ops are sealed as the batch is written, opened at replay
 *
 * Sealing makes `overhead` bytes more of any plain text, whatever its length; a batch reserves them behind its ops
 * (batches_t.overhead). Two rules for the author of a sealer:
 *
 *   - seal is a function: the same place, name and plain text give the same bytes. The journal seals a batch again when
 *     the disk has refused it, and the checksum of the first time stands in the header of the next batch. An AEAD
 *     cipher with a synthetic nonce (RFC 5297, RFC 8452) does that; one with a counter or a random nonce does not.
 *   - open refuses what was not sealed under that place and name, so that a value cannot be moved to another key. A
 *     value that does not open comes out of env.c empty, which no value is, and is treated as one that fails its
 *     checksum.
 *
 * The plane thread opens, the keeper and the journal thread seal, all at the same time: each says which it is, and a
 * sealer keeps what the calls of one side change apart from the others'. Checksums of batches are taken over the sealed
 * bytes and say nothing of the plain ones.
 *
 * What is not sealed:
 *
 *   - META, the headers of batches, the mark of the end: positions, numbers and the store's id, no client's bytes.
 *   - Numbers in the keys of LMDB: streams, sequences, times at which something is due. A text in a key is hidden, see
 *     entry.h. What that costs: walk.c cannot begin at a pattern's literal prefix, it reads all heads of the stream.
 *   - The memory store: it is on tmpfs, and swap is the system's to encrypt.
 */
#ifndef LEAFD_DISK_SEALER_H
#define LEAFD_DISK_SEALER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/status.h"

#define SEALER_JOURNAL 255 /* the place of a batch; a value's place is its store_db_t */
#define SEALER_HIDDEN_SIZE 16

/* The side that calls. Each side is one thread at a time; while a store is opened, all of them are the thread that
 * opens it. */
typedef enum sealer_side { SEALER_PLANE = 0, SEALER_KEEPER, SEALER_JOURNALIST, SEALER_SIDES } sealer_side_t;

/* One thing to seal. to: room for plain.size + overhead bytes. It may be plain.at. */
typedef struct sealer_item {
    uint8_t place;
    bytes_t name;
    bytes_t plain;
    uint8_t *to;
} sealer_item_t;

typedef struct sealer {
    const void *context;
    uint32_t overhead;
    /* Each for itself; several in a call cost less than as many calls. */
    void (*seal)(const void *context, sealer_side_t side, const sealer_item_t *items, uint32_t count);
    /* to: room for sealed.size bytes, of which sealed.size - overhead are the plain text in the end. It may be
     * sealed.at. false: it was not sealed so; what is in `to` then says nothing. */
    bool (*open)(const void *context, sealer_side_t side, uint8_t place, bytes_t name, bytes_t sealed, uint8_t *to);
    /* Makes the keyed hash that stands for a text which cannot be sealed because it is looked for. */
    void (*hide)(const void *context, sealer_side_t side, uint8_t place, bytes_t name, bytes_t text,
                 uint8_t hidden[SEALER_HIDDEN_SIZE]);
    /* While a change of key goes on: what does not open may be sealed with this, or not at all. */
    const struct sealer *older;
    bool older_plain;
} sealer_t;

static inline uint32_t sealer_overhead(const sealer_t *sealer) {
    return sealer != NULL ? sealer->overhead : 0;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* The memory of opened values until unsealed_forget: pieces, one behind the other. */
typedef struct unsealed {
    struct unsealed_piece *newest;
} unsealed_t;

/* Room for size bytes; NULL: no memory. */
uint8_t *unsealed_room(unsealed_t *unsealed, size_t size);
/* The value in plain: empty, which no value is, where it does not open. Any other than STATUS_OK: that is not known,
 * there is no memory for it. */
LEAF_MUST_USE status_t unsealed_by(unsealed_t *unsealed, const sealer_t *sealer, sealer_side_t side, uint8_t place,
                                   bytes_t key, bytes_t value, bytes_t *plain);
/* The same, by what is older where this does not open it. What was not sealed at all comes out as it is: its checksum
 * says whether it was. */
LEAF_MUST_USE status_t unsealed_value(unsealed_t *unsealed, const sealer_t *sealer, sealer_side_t side, uint8_t place,
                                      bytes_t key, bytes_t value, bytes_t *plain);
void unsealed_forget(unsealed_t *unsealed);

/* ---- batches, as batch.h draws them ------------------------------------------------------------------------------ */

/* The batch as it goes to the disk: to has room for size + overhead bytes. Its checksum is stamped into both. */
void sealer_seal_batch(const sealer_t *sealer, uint8_t *batch, uint32_t size, uint8_t *to);
/* The other way, perhaps in place. The header has been looked at: there are size + overhead bytes. */
LEAF_MUST_USE bool sealer_open_batch(const sealer_t *sealer, const uint8_t *sealed, uint32_t size, uint8_t *to);

#endif
