/* client.c: see client.h. */
#include "client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 30000
#define WORDS_MAX 5
#define INFO_MAX 8192

const char *client_authority;

void client_wait(int fd, short events) {
    struct pollfd waiting = {.fd = fd, .events = events};
    int count = poll(&waiting, 1, PATIENCE_MS);
    if (count == 0) {
        die("nothing happened for %d s", PATIENCE_MS / 1000);
    }
    if (count < 0 && errno != EINTR) {
        die("poll: %s", strerror(errno));
    }
}

/* INFO, and not a byte of what is behind it. */
static void read_info(int fd) {
    char line[INFO_MAX];
    for (bool whole = false; !whole;) {
        ssize_t size = recv(fd, line, sizeof line, MSG_PEEK);
        if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
            die("no INFO");
        }
        if (size < 0) {
            client_wait(fd, POLLIN);
            continue;
        }
        const char *end = memchr(line, '\n', (size_t)size);
        whole = end != NULL;
        size_t part = whole ? (size_t)(end - line) + 1 : (size_t)size;
        if (recv(fd, line, part, 0) != (ssize_t)part) {
            die("no INFO");
        }
    }
}

static void dial(client_t *client, int port) {
    *client = (client_t){.fd = socket(AF_INET, SOCK_STREAM, 0), .in = malloc(INPUT_SIZE), .out = malloc(OUTPUT_SIZE)};
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (client->fd < 0 || client->in == NULL || client->out == NULL) {
        die("no socket or no memory");
    }
    if (connect(client->fd, (struct sockaddr *)&address, sizeof address) != 0) {
        die("connect to port %d: %s", port, strerror(errno));
    }
    int on = 1;
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(client->fd, F_SETFL, O_NONBLOCK);
}

void client_dial(client_t *client, int port) {
    dial(client, port);
    read_info(client->fd);
}

static void say_connect(client_t *client) {
    client_format(
        client, "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true,\"protocol\":1,"
                "\"lang\":\"c\",\"version\":\"1\",\"name\":\"load\"}\r\n");
    client_sync(client);
}

void client_open(client_t *client, int port) {
    client_dial(client, port);
    if (client_authority != NULL) {
        tls_begin(client, NULL);
    }
    say_connect(client);
}

void client_open_web(client_t *client, int port, bool deflate) {
    dial(client, port);
    web_begin(client, deflate);
    say_connect(client);
}

void client_close(client_t *client) {
    tls_end(client);
    web_end(client);
    close(client->fd);
    free(client->in);
    free(client->out);
}

void client_put(client_t *client, const void *at, size_t size) {
    if (client->framed) {
        client_flush_all(client);
    }
    if (client->out_at == client->out_end) {
        client->out_at = client->out_end = 0;
    }
    if (size > OUTPUT_SIZE) {
        die("%zu bytes at once are too many", size);
    }
    if (size > OUTPUT_SIZE - client->out_end) {
        client_flush_all(client);
    }
    memcpy(client->out + client->out_end, at, size);
    client->out_end += size;
}

void client_format(client_t *client, const char *format, ...) {
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (size < 0 || (size_t)size >= sizeof text) {
        die("a line is too long");
    }
    client_put(client, text, (size_t)size);
}

/* What was put becomes a frame. */
static void frame_output(client_t *client) {
    size_t size;
    char *frame = web_frame(client, client->out, client->out_end, &size);
    if (size > OUTPUT_SIZE) {
        die("%zu bytes are too many for a frame", size);
    }
    memcpy(client->out, frame, size);
    client->out_end = size;
    client->framed = true;
    free(frame);
}

void client_send(client_t *client, const char *frame, size_t size) {
    client_flush_all(client);
    client->framed = client->web != NULL;
    memcpy(client->out, frame, size);
    client->out_end = size;
    client_flush_all(client);
}

bool client_flush(client_t *client) {
    if (client->web != NULL && !client->framed && client->out_end != 0) {
        frame_output(client);
    }
    while (client->out_at < client->out_end) {
        const char *from = client->out + client->out_at;
        size_t left = client->out_end - client->out_at;
        ssize_t size = client->tls != NULL ? tls_write(client, from, left) : send(client->fd, from, left, MSG_NOSIGNAL);
        if (size < 0) {
            if (errno == EAGAIN || errno == EINTR) {
                return false;
            }
            die("send: %s", strerror(errno));
        }
        client->out_at += (size_t)size;
    }
    client->out_at = client->out_end = 0;
    client->framed = false;
    return true;
}

void client_flush_all(client_t *client) {
    while (!client_flush(client)) {
        client_wait(client->fd, POLLOUT);
    }
}

bool client_fill(client_t *client, bool wait) {
    if (client->in_at == client->in_end) {
        client->in_at = client->in_end = 0;
    } else if (INPUT_SIZE - client->in_end < INPUT_SIZE / 2) {
        memmove(client->in, client->in + client->in_at, client->in_end - client->in_at);
        client->in_end -= client->in_at;
        client->in_at = 0;
    }
    if (client->in_end == INPUT_SIZE) {
        die("a frame is larger than the input buffer");
    }
    for (;;) {
        char *to = client->in + client->in_end;
        size_t room = INPUT_SIZE - client->in_end;
        ssize_t size = client->tls != NULL   ? tls_read(client, to, room)
                       : client->web != NULL ? web_read(client, to, room)
                                             : recv(client->fd, to, room, 0);
        if (size > 0) {
            client->in_end += (size_t)size;
            return true;
        }
        if (size == 0) {
            die("the server closed the connection");
        }
        if (errno != EAGAIN && errno != EINTR) {
            die("recv: %s", strerror(errno));
        }
        if (!wait) {
            return false;
        }
        client_wait(client->fd, POLLIN);
    }
}

static size_t number(slice_t word) {
    size_t value = 0;
    for (size_t i = 0; i < word.size; i++) {
        value = value * 10 + (size_t)(word.at[i] - '0');
    }
    return value;
}

/* The words of a line behind its name. */
static int cut(const char *at, const char *end, slice_t words[WORDS_MAX]) {
    int count = 0;
    while (at < end) {
        while (at < end && *at == ' ') {
            at++;
        }
        const char *start = at;
        while (at < end && *at != ' ') {
            at++;
        }
        if (at > start) {
            if (count == WORDS_MAX) {
                die("too many words in a line");
            }
            words[count++] = (slice_t){start, (size_t)(at - start)};
        }
    }
    return count;
}

/* MSG subject sid [reply] size; HMSG subject sid [reply] header-size size. Returns the frame's size, 0 when it is not
 * whole. */
static size_t message(client_t *client, const char *line, const char *end, frame_t *frame) {
    bool with_header = *line == 'H';
    slice_t words[WORDS_MAX];
    int count = cut(line + (with_header ? 5 : 4), end, words);
    int numbers = with_header ? 2 : 1;
    if (count < 2 + numbers || count > 3 + numbers) {
        die("not a message: %.*s", (int)(end - line), line);
    }
    size_t size = number(words[count - 1]);
    size_t header_size = with_header ? number(words[count - 2]) : 0;
    const char *body = end + 2;
    if ((size_t)(client->in + client->in_end - body) < size + 2 || header_size > size) {
        return 0;
    }
    *frame = (frame_t){.subject = words[0],
                       .sid = words[1],
                       .header = {body, header_size},
                       .payload = {body + header_size, size - header_size}};
    if (count == 3 + numbers) {
        frame->reply = words[2];
    }
    return (size_t)(body + size + 2 - line);
}

bool client_next(client_t *client, frame_t *frame) {
    for (;;) {
        const char *line = client->in + client->in_at;
        size_t have = client->in_end - client->in_at;
        const char *end = have > 0 ? memchr(line, '\n', have) : NULL;
        if (end == NULL) {
            return false;
        }
        size_t line_size = (size_t)(end - line) + 1;
        if (*line == 'M' || *line == 'H') {
            size_t size = message(client, line, end - 1, frame);
            client->in_at += size;
            return size > 0;
        }
        if (line_size >= 4 && memcmp(line, "PING", 4) == 0) {
            client_put(client, "PONG\r\n", 6);
        } else if (line_size >= 4 && memcmp(line, "PONG", 4) == 0) {
            client->pongs++;
        } else if (*line == '-') {
            die("server says %.*s", (int)line_size - 2, line);
        }
        client->in_at += line_size;
    }
}

void client_sync(client_t *client) {
    unsigned before = client->pongs;
    client_put(client, "PING\r\n", 6);
    client_flush_all(client);
    frame_t frame;
    while (client->pongs == before) {
        if (client_next(client, &frame)) {
            continue; /* a message that came in between is nobody's here */
        }
        if (client->pongs == before) {
            client_fill(client, true);
        }
    }
}
