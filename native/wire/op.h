/* op.h: one parsed protocol line of the NATS client, leaf, route or gateway protocol, as plain data.
 *
 * The parser (parse.c) turns bytes into an op and knows no account, permission or connection; slices point into the
 * caller's input and are valid as long as that is. plane/ acts on ops. Reference: client protocol of nats-server 2.15.
 */
#ifndef LEAFD_WIRE_OP_H
#define LEAFD_WIRE_OP_H

#include <stdbool.h>

#include "base/bytes.h"

typedef enum op_kind {
    OP_NONE = 0,
    OP_CONNECT, /* body = JSON                                                              client, leaf (accepting) */
    OP_INFO,    /* body = JSON                                                              leaf */
    OP_PING,
    OP_PONG,
    OP_OK,
    OP_ERR,         /* body = text between the quotes                                           leaf (soliciting) */
    OP_PUB,         /* subject, reply, payload                                                  client */
    OP_HPUB,        /* subject, reply, header, payload                                          client */
    OP_SUB,         /* subject, queue, sid                                                      client */
    OP_UNSUB,       /* sid, max (0 = none)                                                      client */
    OP_LEAF_SUB,    /* LS+ subject [queue weight]                                            leaf */
    OP_LEAF_UNSUB,  /* LS- subject [queue]                                                   leaf */
    OP_LEAF_MSG,    /* LMSG subject [reply] size | subject + reply q.. size | subject '|' q.. size   leaf */
    OP_LEAF_HMSG,   /* HMSG, the same shapes with a header length                            leaf */
    OP_ROUTE_SUB,   /* RS+ account subject [queue weight]; LS+ with an origin before it       route */
    OP_ROUTE_UNSUB, /* RS- account subject [queue]; LS- with an origin before it             route */
    OP_ROUTE_MSG,   /* RMSG account, HMSG account, LMSG origin account: then as for leafs     route */
                    /* and, without an origin, the three of a route                           gateway */
    OP_ACCOUNT,     /* A+ account, A- account: which of both is not told                        gateway */
    OP_KIND_COUNT
} op_kind_t;

/* groups of one message that a link names: a user may have many on a subject, and more end the link */
#define OP_QUEUES_MAX 256
#define WEIGHT_MAX 999999999u /* of a queue group on a link: what nine digits hold; the reference reads no more */

typedef struct op {
    op_kind_t kind;
    bytes_t subject;
    bytes_t reply;
    bytes_t queue;   /* SUB, LS+, LS- */
    bytes_t sid;     /* client's own text, at most 64 bytes */
    bytes_t body;    /* CONNECT, INFO: JSON; ERR: text */
    bytes_t header;  /* whole header block "NATS/1.0...\r\n\r\n", empty when there is none */
    bytes_t payload; /* without header */
    uint64_t max;    /* UNSUB: deliveries; 0 = at once */
    uint32_t weight; /* LS+ with a queue, at most WEIGHT_MAX */
    uint32_t queue_count;
    bytes_t queues[OP_QUEUES_MAX]; /* LMSG/HMSG/RMSG with targets */
    /* The operation's account, of OP_ROUTE_* and OP_ACCOUNT alone; not written for others. */
    bytes_t account; /* empty: that of the connection */
    bytes_t origin;  /* the cluster of leafs that the line speaks for; empty: of none */
} op_t;

#endif
