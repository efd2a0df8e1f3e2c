/* boxes.h: thousands of simulated leaves in one process: what the files of the simulator know of each other.
 *
 *   boxes.c   arguments, the loop, commands from stdin, a line of figures on stdout
 *   box.c     one leaf: dials, logs in, reads lines, writes them
 *   origin.c  the stream of a leaf: consumers that the hub makes of it, what they deliver
 *   told.c    which subjects of JetStream's own the hub has said it wants
 *   keys.c    logins with nkeys and with JWTs
 *   secure.c  TLS
 *
 * Shares no code with the daemon on purpose, as load/ does not. A leaf does what a server would: it answers and
 * delivers only where the hub has told interest, so a hub that forgets to tell it stays without its messages.
 */
#ifndef LEAFD_BENCH_BOXES_H
#define LEAFD_BENCH_BOXES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../tool.h"

#define PORTS_MAX 8

typedef struct slice {
    const char *at;
    size_t size;
} slice_t;

/* Hashes of literal subjects that were told, and the few patterns. 0 = an empty place, 1 = one that was taken back. */
typedef struct told {
    uint64_t *hashes;
    uint32_t size; /* a power of two, or 0 */
    uint32_t used; /* with what was taken back */
    char *patterns[8];
    uint32_t pattern_count;
} told_t;

typedef struct consumer {
    struct consumer *next;
    char *name;
    char *deliver;
    uint64_t next_seq;  /* of the stream */
    uint64_t delivered; /* by this consumer */
    bool wanted;        /* the hub has told interest in what it delivers */
    double beats_s;     /* between heartbeats */
    double stays_s;     /* without interest */
    double beat_s;      /* when a heartbeat is due; not wanted: when it expires */
} consumer_t;

typedef enum box_state { BOX_AWAY = 0, BOX_DIALLING, BOX_GREETED, BOX_ASKED, BOX_UP } box_state_t;

typedef struct box {
    int fd;          /* -1: none */
    uint32_t number; /* its place; the hub knows it as box-<first_number + number> */
    uint32_t dials;  /* so far */
    box_state_t state;
    bool waits_for_room; /* the socket is full */
    double dial_s;       /* AWAY: when it dials */
    char *in;            /* a line, or message, that is not whole yet */
    size_t in_size, in_room;
    char *out; /* [out_at, out_size) is not written yet */
    size_t out_at, out_size, out_room;
    void *tls; /* of OpenSSL; NULL: not yet, or none */
    told_t told;
    consumer_t *consumers;
    uint64_t last_seq;
} box_t;

typedef struct options {
    uint32_t address;     /* of the hub, as the network has it */
    int ports[PORTS_MAX]; /* of the servers there: each dial goes to the next one */
    uint32_t port_count;
    uint32_t count;
    uint32_t first_number;  /* the first box's */
    uint32_t subscriptions; /* of each box's own, beside those of its JetStream */
    uint32_t size;          /* of a payload */
    uint64_t messages;      /* that each stream has at first */
    double reconnect_s;     /* a box dials so long after its link's end, or any time before */
    uint32_t dials;         /* that begin in one step */
    bool jetstream;
    bool tls;
    const char *password; /* of the users that are called as the boxes are; NULL: none */
    const char *keys;     /* file: public key, seed in hexadecimal, JWT or "-", a line for each box */
} options_t;

/* Of all boxes since the start. */
typedef struct figures {
    uint64_t up, closed, refused;
    uint64_t away; /* told when to come again */
    uint64_t told_plus, told_minus, bytes_in;
    uint64_t made, deleted, expired, delivered, unwanted;
} figures_t;

extern options_t options;
extern figures_t figures;

/* box.c */
uint32_t box_shown(const box_t *box); /* its name, and its domain, are box-<that> */
void box_init(box_t *box, uint32_t number);
void box_dial(box_t *box);
void box_ready(box_t *box, uint32_t events); /* of epoll */
void box_end(box_t *box);
void box_put(box_t *box, const char *format, ...) __attribute__((format(printf, 2, 3)));
void box_put_bytes(box_t *box, const char *at, size_t size);
void box_flush(box_t *box);
extern int box_poll; /* the epoll that boxes are in */

/* origin.c */
void origin_asked(box_t *box, slice_t subject, slice_t reply, slice_t body);
void origin_looks(box_t *box, double now_s); /* interest has changed */
void origin_publish(box_t *box, uint64_t count);
void origin_beat(box_t *box, double now_s);
void origin_left(box_t *box);
bool origin_is_whole(const box_t *box); /* one consumer is wanted, and has delivered all */

/* told.c */
/* Whether it is one that is kept. */
bool told_add(told_t *told, slice_t subject);
bool told_take(told_t *told, slice_t subject);
bool told_wants(const told_t *told, slice_t subject);
void told_clear(told_t *told);

/* secure.c. As recv and send are: -1 with EAGAIN where nothing goes on until the socket is ready. */
void secure_begin(box_t *box);
void secure_end(box_t *box);
ssize_t secure_receive(box_t *box, void *to, size_t room);
ssize_t secure_send(box_t *box, const void *from, size_t size);
bool secure_wants_room(const box_t *box); /* not what the hub has to say first */

/* keys.c: the fields of CONNECT that answer a nonce. */
#define KEYS_TOKEN_MAX 2048
void keys_read(const char *path, uint32_t count);
void keys_login(uint32_t number, slice_t nonce, char *to, size_t room);

#endif
