/* table.c: what MQTT costs where nothing is decided: a server that answers each packet from a table.
 *
 *     table PORT [FILE]
 *
 *     CONNECT   --> CONNACK          SUBSCRIBE        --> SUBACK, and who asks for plain/# gets what QoS 0 brings
 *     PUBLISH of QoS 1 --> PUBACK    PUBLISH of QoS 0 --> its bytes, unread, to all of these
 *
 * With a FILE the acknowledgements of a turn leave behind one write of 4 KB to it, past the page cache, and one sync.
 * So the kernel, the disk and the client are what is measured: nobody who keeps a promise can cost less. It takes what
 * devices.py sends and nothing else: one packet is one read, but for QoS 0. Nothing is retained, no session is kept.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tool.h"

#define PEERS_MAX 65536
#define RECEIVERS_MAX 64
#define READY_MAX 256
#define ACCEPTED_MAX 64
#define READ_BYTES (256 * 1024)
#define PAGE 4096
#define FILE_BYTES (64L * 1024 * 1024)

#define CONNECT 0x10
#define PUBLISH 0x30
#define SUBSCRIBE 0x80
#define QOS_1 0x02

typedef enum state { STRANGER = 0, KNOWN, GIVES } state_t;

typedef struct acknowledgement {
    int fd;
    uint8_t id[2];
} acknowledgement_t;

static uint8_t states[PEERS_MAX]; /* by descriptor */
static int receivers[RECEIVERS_MAX];
static int receiver_count;
static acknowledgement_t owed[READY_MAX];
static int owed_count;
static int file = -1;
static uint8_t *page;
static uint8_t input[READ_BYTES];

static void say(int fd, const uint8_t *at, size_t size) {
    while (size != 0) {
        ssize_t taken = send(fd, at, size, MSG_NOSIGNAL);
        if (taken <= 0) return; /* it has gone: its descriptor says so */
        at += taken;
        size -= (size_t)taken;
    }
}

static void relay(const uint8_t *at, size_t size) {
    for (int i = 0; i < receiver_count; i++) say(receivers[i], at, size);
}

static void leave(int fd) {
    for (int i = 0; i < receiver_count; i++) {
        if (receivers[i] == fd) receivers[i] = receivers[--receiver_count];
    }
    close(fd);
}

/* Behind the fixed header, whose size has up to four bytes. */
static const uint8_t *body_of(const uint8_t *packet) {
    const uint8_t *at = packet + 1;
    while ((*at & 0x80) != 0) at++;
    return at + 1;
}

static void owe(int fd, const uint8_t *packet) {
    const uint8_t *body = body_of(packet), *id = body + 2 + (body[0] << 8 | body[1]);
    owed[owed_count++] = (acknowledgement_t){.fd = fd, .id = {id[0], id[1]}};
}

static void grant(int fd, const uint8_t *packet) {
    const uint8_t *body = body_of(packet);
    if (body[4] == 'p' && receiver_count < RECEIVERS_MAX) receivers[receiver_count++] = fd;
    say(fd, (uint8_t[]){0x90, 3, body[0], body[1], 0}, 5);
}

static void act(int fd) {
    ssize_t size = recv(fd, input, sizeof input, 0);
    if (size <= 0) {
        leave(fd);
    } else if (states[fd] == GIVES) {
        relay(input, (size_t)size);
    } else if ((input[0] & 0xf0) == CONNECT) {
        states[fd] = KNOWN;
        say(fd, (const uint8_t[]){0x20, 2, 0, 0}, 4);
    } else if ((input[0] & 0xf0) == SUBSCRIBE) {
        grant(fd, input);
    } else if ((input[0] & 0xf0) == PUBLISH && (input[0] & QOS_1) != 0) {
        owe(fd, input);
    } else if ((input[0] & 0xf0) == PUBLISH) {
        states[fd] = GIVES;
        relay(input, (size_t)size);
    }
}

static void acknowledge(void) {
    static long at;
    if (owed_count != 0 && file >= 0) {
        if (pwrite(file, page, PAGE, at) != PAGE || fdatasync(file) != 0) die("the file: %s", strerror(errno));
        at = (at + PAGE) % FILE_BYTES;
    }
    for (int i = 0; i < owed_count; i++) {
        say(owed[i].fd, (const uint8_t[]){0x40, 2, owed[i].id[0], owed[i].id[1]}, 4);
    }
    owed_count = 0;
}

/* All of it is written once, so that a write later changes no size and no extent. */
static void open_file(const char *name) {
    file = open(name, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
    page = aligned_alloc(PAGE, PAGE);
    if (file < 0 || page == NULL) die("%s: %s", name, strerror(errno));
    memset(page, 'x', PAGE);
    for (long at = 0; at < FILE_BYTES; at += PAGE) {
        if (pwrite(file, page, PAGE, at) != PAGE) die("%s: %s", name, strerror(errno));
    }
    if (fsync(file) != 0) die("%s: %s", name, strerror(errno));
}

static int open_listener(uint16_t port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)&at, sizeof at) != 0 || listen(fd, UINT16_MAX) != 0) {
        die("port %u: %s", port, strerror(errno));
    }
    return fd;
}

static void watch(int loop, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
    if (epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) != 0) die("epoll: %s", strerror(errno));
}

static void accept_some(int loop, int listener) {
    for (int i = 0; i < ACCEPTED_MAX; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) return;
        if (fd >= PEERS_MAX) die("too many connections");
        states[fd] = STRANGER;
        watch(loop, fd);
    }
}

int main(int count, char **arguments) {
    if (count < 2 || count > 3) die("usage: table PORT [FILE]");
    if (count == 3) open_file(arguments[2]);
    int listener = open_listener((uint16_t)strtoul(arguments[1], NULL, 10)), loop = epoll_create1(EPOLL_CLOEXEC);
    watch(loop, listener);
    for (;;) {
        struct epoll_event ready[READY_MAX];
        int some = epoll_wait(loop, ready, READY_MAX, -1);
        for (int i = 0; i < some; i++) {
            if (ready[i].data.fd == listener) {
                accept_some(loop, listener);
            } else {
                act(ready[i].data.fd);
            }
        }
        acknowledge();
    }
}
