/* client.h: a NATS client small and fast enough not to be what is measured: one blocking or polled socket, no
 * allocation a message.
 *
 * Shares no code with the daemon on purpose: a mistake in its parser must not hide in the tool that judges it. Anything
 * unexpected (an -ERR, a closed connection, nothing for half a minute) ends the process with a line on stderr.
 */
#ifndef LEAFD_BENCH_CLIENT_H
#define LEAFD_BENCH_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../tool.h"

#define INPUT_SIZE (16u << 20) /* a compressed message of 64 KB may become megabytes */
#define OUTPUT_SIZE (1u << 22)

typedef struct slice {
    const char *at;
    size_t size;
} slice_t;

typedef struct frame {
    slice_t subject;
    slice_t sid;
    slice_t reply;
    slice_t header;
    slice_t payload;
} frame_t;

typedef struct client {
    int fd;
    char *in; /* [in_at, in_end) is not looked at yet */
    size_t in_at;
    size_t in_end;
    char *out; /* [out_at, out_end) is not written yet */
    size_t out_at;
    size_t out_end;
    unsigned pongs; /* how many came */
    void *tls;      /* tls.c; NULL: plain text */
    void *web;      /* web.c; NULL: no WebSocket */
    bool framed;    /* what out has is a frame of it */
} client_t;

/* What all connections of this process use: NULL, plain text. */
extern const char *client_authority;

/* Connects to the loopback port, says CONNECT (headers, not verbose) and waits for the PONG. */
void client_open(client_t *client, int port);
/* The same over WebSocket. */
void client_open_web(client_t *client, int port, bool deflate);
void client_close(client_t *client);

void client_put(client_t *client, const void *at, size_t size);
void client_format(client_t *client, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* tls.c: over the socket of a client, which gets no plain text any more. session: an earlier one's to be taken up
 * again, or NULL. */
void tls_begin(client_t *client, void *session);
/* Of a client whose handshake is over; for tls_begin, then tls_forget. */
void *tls_session(client_t *client);
void tls_forget(void *session);
/* As recv and send. */
ssize_t tls_read(client_t *client, void *to, size_t room);
ssize_t tls_write(client_t *client, const void *from, size_t size);
void tls_end(client_t *client);
/* web.c: behind the HTTP request, which this sends, come frames. */
void web_begin(client_t *client, bool deflate);
/* One frame, in memory of its own, that client_send may send any number of times. */
char *web_frame(const client_t *client, const char *at, size_t size, size_t *frame_size);
/* As recv. */
ssize_t web_read(client_t *client, void *to, size_t room);
void web_end(client_t *client);
void client_wait(int fd, short events);

/* Connects and waits for INFO, no more. */
void client_dial(client_t *client, int port);
/* Writes all of a frame, behind what was put. */
void client_send(client_t *client, const char *frame, size_t size);
/* Writes what it can; true: all is written. */
bool client_flush(client_t *client);
/* Writes everything, waiting as long as it takes. */
void client_flush_all(client_t *client);

/* The next message that is here as a whole; slices live until the next client_fill. PING is answered (into the output),
 * PONG counted, INFO skipped. false: read more. */
bool client_next(client_t *client, frame_t *frame);
/* One read; waits up to half a minute when `wait`. false: nothing came (never when waiting). */
bool client_fill(client_t *client, bool wait);
/* PING and wait for the PONG: the server has seen all that was sent. */
void client_sync(client_t *client);

#endif
