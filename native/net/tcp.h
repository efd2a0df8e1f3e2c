/* tcp.h: what the kernel knows of a TCP connection, and what it is told for one that is to live on a bad link. Not
 * here: what follows from it (plane/window.c). */
#ifndef LEAFD_NET_TCP_H
#define LEAFD_NET_TCP_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tcp_look {
    uint64_t acked;  /* bytes that the peer's kernel has acknowledged, ever */
    uint64_t held;   /* bytes that were sent or wait to be, and are not acknowledged */
    uint64_t beyond; /* about so many of these have arrived behind a gap */
    uint64_t packet; /* bytes in a full one */
    uint64_t wire;   /* bytes both ways, ever, with what TCP and IP add and what was sent again */
    uint64_t out;    /* of these, those that were sent */
    uint64_t unsent; /* bytes that the kernel was given and has not sent yet */
    int64_t round_trip_ns;
    int64_t round_trip_min_ns; /* the least of the last minutes: without queues */
    uint64_t sent;             /* bytes that were sent, and those that were sent again among them; 0: not known */
    uint64_t resent;
    uint64_t received;
    uint64_t rate; /* bytes a second that it has carried of late while there was more to send; 0: not known */
    bool recovers; /* it sends again what was lost, and has not ended with that */
} tcp_look_t;

/* false: it is not a TCP connection. */
bool tcp_look(int fd, tcp_look_t *out);
/* A number for the address of the other end, whatever its port. 0: not known. */
uint64_t tcp_place(int fd);
/* A connection over which nothing is heard is asked for a sign of life after half of that time, which costs two
 * packets. The caller has to end the connection: the kernel does so after a day. It counts from the first packet
 * of a row of losses that was sent again, whatever has arrived since. A busy line that loses 5 % has such a row for a
 * minute, at 20 % for an hour, and then one packet that is lost twice would end a connection that lives. */
void tcp_expect_life(int fd, int64_t patience_ns);
/* Before a connection is closed: what is not acknowledged after that time is not sent again any more. */
void tcp_expect_end(int fd, int64_t patience_ns);
/* A lost packet is sent again at least so often, where the kernel can be told so (Linux 6.15): when a link returns, the
 * kernel would otherwise wait as long again as it was away. */
void tcp_expect_outages(int fd, int64_t at_least_each_ns);
/* BBR sends little for a round trip or two of each ten seconds, to see the round trip without a queue. Where the queue
 * is kept short anyway that is not wanted: BBR begins anew before they are over, with the window and the least round
 * trip that there are. Without BBR nothing happens. */
void tcp_spare_probe(int fd);
/* Random loss is not taken for congestion, where the system has and permits what is needed for that (BBR). */
void tcp_expect_loss(int fd);

#endif
