/* scratch.h: the memory of a thread that input is read into, for one connection after the other.
 *
 *     read into  [ MSG a ..... | MSG b ..... | MSG ]          a and b are long: queues refer to them where they are,
 *     spare      [                                 ]          and the next read goes here
 *
 * The body of a long message can be lent to the queues it goes to (base/shared.h, outq_share), which saves copying it.
 * What is lent does not change until the last queue has written it: meanwhile another buffer is read into. In the usual
 * case all is written before the next read, and one buffer, which stays in the processor's cache, is enough. Slow
 * readers keep CONN_SCRATCHES - 1 buffers at most; with none to spare nothing is lent, and messages are copied.
 *
 * Not here: who reads (conn.c), what is worth lending (plane/output.c).
 */
#ifndef LEAFD_NET_SCRATCH_H
#define LEAFD_NET_SCRATCH_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/shared.h"
#include "base/status.h"

#define CONN_SCRATCH_SIZE (256u * 1024u)
#define CONN_SCRATCHES 4

typedef struct conn_scratch {
    uint8_t *at;                       /* CONN_SCRATCH_SIZE bytes to read into */
    shared_t *buffers[CONN_SCRATCHES]; /* the first is the one with `at`; NULL: not made yet */
} conn_scratch_t;

LEAF_MUST_USE status_t conn_scratch_open(conn_scratch_t *scratch);
void conn_scratch_close(conn_scratch_t *scratch);
/* Before a read: at is memory that nobody refers to. */
void conn_scratch_turn(conn_scratch_t *scratch);
/* Lends these bytes of the last input, as a slice from *from on; the reference is the caller's. NULL: they are not in
 * the buffer, or there is none to spare. */
shared_t *conn_scratch_lend(conn_scratch_t *scratch, bytes_t bytes, uint32_t *from);
/* About once a second: gives back what is spare. */
void conn_scratch_idle(conn_scratch_t *scratch);

#endif
