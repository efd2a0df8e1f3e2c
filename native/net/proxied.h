/* proxied.h: the header of the PROXY protocol (HAProxy's, versions 1 and 2) that may come before all else, as a
 * transport on the socket: it tells whom a proxy speaks for.
 *
 *     LOOKING   six bytes tell which it is; none: they stay in the socket, and are the connection's
 *     LINE      version 1: "PROXY TCP4 source destination port port\r\n", at most 107 bytes
 *     FIXED     version 2: 16 bytes, then the addresses, then what nobody looks at (SKIPPING)
 *     > DONE, or FAILED
 *
 * Not a byte behind the header is taken from the socket, since TLS looks for its first record there. What is sent is
 * not changed: a server speaks first. With DONE it has nothing left to do, and its owner takes it away. Not
 * here: who may send such a header (control), and for how long it is waited for (command/proxied.c).
 */
#ifndef LEAFD_NET_PROXIED_H
#define LEAFD_NET_PROXIED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "net/listen.h"
#include "net/transport.h"

#define PROXIED_LINE_MAX 107u
#define PROXIED_FIXED 16u
#define PROXIED_ADDRESSES_MAX 36u

typedef enum proxied_stage {
    PROXIED_LOOKING,
    PROXIED_LINE,
    PROXIED_FIXED_HEAD,
    PROXIED_ADDRESSES,
    PROXIED_SKIPPING,
    PROXIED_DONE,
    PROXIED_FAILED,
} proxied_stage_t;

typedef struct proxied {
    proxied_stage_t stage;
    uint8_t at[PROXIED_LINE_MAX]; /* of the header, as far as it came */
    uint32_t size;
    uint32_t wanted;                /* version 2: bytes in all that come before what is skipped */
    uint32_t skip;                  /* bytes to come that nobody looks at */
    char address[LISTEN_PEER_SIZE]; /* whom the proxy speaks for; "": nobody else, or there was no header */
    const char *fault;              /* of FAILED */
    /* Kept for its owner: TLS that waits for the header's end, and until when that may be. */
    bool secures;
    secure_t secure;
    bytes_t behind; /* own copy */
    int64_t until_ns;
} proxied_t;

/* NULL: no memory. */
proxied_t *proxied_new(int fd);
void proxied_drop(proxied_t *proxied);

extern const transport_t transport_proxied;

#endif
