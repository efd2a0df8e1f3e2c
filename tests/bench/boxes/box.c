/* box.c: see boxes.h. The wire of a leaf link: tests/wire/leaf.md.
 *
 *   AWAY --dial_s--> DIALLING --connected--> GREETED --INFO--> ASKED --INFO of the account--> UP
 *     `<------------------------------- the link ends, for whatever reason ------------------'
 */
#include "boxes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_SIZE (256u << 10)
#define READS_MAX 4 /* of one box in one step */
#define WORDS_MAX 8
#define NAME_SIZE 32

int box_poll = -1;
static char scratch[READ_SIZE];

static const char *const families[] = {"INFO",     "STREAM.>",  "CONSUMER.>", "DIRECT.>", "META.>",
                                       "SERVER.>", "ACCOUNT.>", "$KV.>",      "$OBJ.>"};

uint32_t box_shown(const box_t *box) {
    return options.first_number + box->number;
}

void box_init(box_t *box, uint32_t number) {
    *box = (box_t){.fd = -1, .number = number, .last_seq = options.messages};
}

/* ---- what is written --------------------------------------------------------------------------------------------- */

static void wait_for(box_t *box, bool room) {
    struct epoll_event event = {.events = EPOLLIN | (room ? EPOLLOUT : 0), .data.u32 = box->number};
    epoll_ctl(box_poll, EPOLL_CTL_MOD, box->fd, &event);
    box->waits_for_room = room;
}

void box_put_bytes(box_t *box, const char *at, size_t size) {
    if (box->fd < 0) {
        return;
    }
    if (box->out_size + size > box->out_room) {
        memmove(box->out, box->out + box->out_at, box->out_size - box->out_at);
        box->out_size -= box->out_at;
        box->out_at = 0;
        while (box->out_size + size > box->out_room) {
            box->out_room = box->out_room == 0 ? 1024 : box->out_room * 2;
        }
        box->out = realloc(box->out, box->out_room);
        if (box->out == NULL) {
            die("no memory");
        }
    }
    memcpy(box->out + box->out_size, at, size);
    box->out_size += size;
}

void box_put(box_t *box, const char *format, ...) {
    char line[4096];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (size < 0 || (size_t)size >= sizeof line) {
        die("a line is too long");
    }
    box_put_bytes(box, line, (size_t)size);
}

void box_flush(box_t *box) {
    while (box->fd >= 0 && box->out_at < box->out_size) {
        const char *at = box->out + box->out_at;
        size_t left = box->out_size - box->out_at;
        ssize_t size = box->tls != NULL ? secure_send(box, at, left) : send(box->fd, at, left, MSG_NOSIGNAL);
        if (size < 0 && errno == EAGAIN) {
            if (!box->waits_for_room && secure_wants_room(box)) {
                wait_for(box, true);
            }
            return;
        }
        if (size < 0 && errno != EINTR) {
            box_end(box);
            return;
        }
        box->out_at += size > 0 ? (size_t)size : 0;
    }
    box->out_at = box->out_size = 0;
    if (box->fd >= 0 && box->waits_for_room) {
        wait_for(box, false);
    }
}

/* ---- the link ---------------------------------------------------------------------------------------------------- */

void box_end(box_t *box) {
    if (box->fd >= 0) {
        secure_end(box);
        close(box->fd);
        figures.up -= box->state == BOX_UP;
        figures.closed += box->state == BOX_UP;
        figures.refused += box->state != BOX_UP;
    }
    origin_left(box);
    told_clear(&box->told);
    free(box->in);
    free(box->out);
    box->fd = -1;
    box->in = box->out = NULL;
    box->in_size = box->in_room = box->out_at = box->out_size = box->out_room = 0;
    box->waits_for_room = false;
    box->state = BOX_AWAY;
    box->dial_s = seconds_now() + options.reconnect_s * ((double)random() / (double)RAND_MAX);
}

void box_dial(box_t *box) {
    int port = options.ports[(box->number + box->dials++) % options.port_count];
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = options.address};
    int on = 1;
    box->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (box->fd < 0) {
        die("socket: %s", strerror(errno));
    }
    setsockopt(box->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(box->fd, (struct sockaddr *)&address, sizeof address) != 0 && errno != EINPROGRESS) {
        box_end(box);
        return;
    }
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.u32 = box->number};
    if (epoll_ctl(box_poll, EPOLL_CTL_ADD, box->fd, &event) != 0) {
        die("epoll: %s", strerror(errno));
    }
    box->waits_for_room = true;
    box->state = BOX_DIALLING;
    box->dial_s = seconds_now();
}

/* ---- what is read ------------------------------------------------------------------------------------------------ */

static slice_t field_of(slice_t line, const char *name) {
    const char *at = memmem(line.at, line.size, name, strlen(name));
    if (at == NULL) {
        return (slice_t){0};
    }
    at += strlen(name);
    const char *end = memchr(at, '"', (size_t)(line.at + line.size - at));
    return end == NULL ? (slice_t){0} : (slice_t){at, (size_t)(end - at)};
}

static size_t number_of(slice_t word) {
    size_t value = 0;
    for (size_t i = 0; i < word.size && word.at[i] >= '0' && word.at[i] <= '9'; i++) {
        value = value * 10 + (size_t)(word.at[i] - '0');
    }
    return value;
}

/* A hub that has no time says when it will have: the box comes then, as a leafd does. */
static bool is_turned_away(box_t *box, slice_t info) {
    static const char name[] = "\"try_again_s\":";
    const char *at = memmem(info.at, info.size, name, sizeof name - 1);
    if (at == NULL) {
        return false;
    }
    size_t again_s = number_of((slice_t){at + sizeof name - 1, (size_t)(info.at + info.size - at) - sizeof name + 1});
    figures.away++;
    box_end(box);
    box->dial_s += (double)again_s;
    return true;
}

static void say_connect(box_t *box, slice_t info) {
    char name[NAME_SIZE], login[KEYS_TOKEN_MAX + 512] = "";
    snprintf(name, sizeof name, "box-%u", box_shown(box));
    if (options.keys != NULL) {
        keys_login(box->number, field_of(info, "\"nonce\":\""), login, sizeof login);
        if (options.password != NULL) { /* the token of one that is not known yet */
            size_t size = strlen(login);
            snprintf(login + size, sizeof login - size, "\"pass\":\"%s\",", options.password);
        }
    } else if (options.password != NULL) {
        snprintf(login, sizeof login, "\"user\":\"%s\",\"pass\":\"%s\",", name, options.password);
    }
    if (options.tls) {
        secure_begin(box);
    }
    box_put(box,
            "CONNECT {%s\"tls_required\":%s,\"server_id\":\"SIMULATED-%s\",\"name\":\"%s\",\"cluster\":\"%s\","
            "\"headers\":true,\"jetstream\":%s,\"domain\":\"%s\",\"version\":\"2.15.1\",\"protocol\":3,"
            "\"remote_account\":\"A\",\"compress_mode\":\"not supported\"}\r\nPING\r\n",
            login, options.tls ? "true" : "false", name, name, name, options.jetstream ? "true" : "false",
            options.jetstream ? name : "");
    box->state = BOX_ASKED;
}

static void say_interest(box_t *box) {
    box_put(box, "LS+ $LDS.%022u\r\n", box_shown(box));
    for (size_t i = 0; options.jetstream && i < sizeof families / sizeof families[0]; i++) {
        box_put(box, "LS+ $JS.box-%u.API.%s\r\n", box_shown(box), families[i]);
    }
    for (uint32_t i = 0; i < options.subscriptions; i++) {
        box_put(box, "LS+ commands.box-%u.%u\r\n", box_shown(box), i);
    }
    box->state = BOX_UP;
    figures.up++;
}

static bool is_word(slice_t word, const char *text) {
    return word.size == strlen(text) && memcmp(word.at, text, word.size) == 0;
}

/* LMSG subject [reply] size, HMSG subject [reply] header-size size; with groups "+ reply groups" or "| groups". */
static void take_message(box_t *box, const slice_t *words, int count, slice_t body) {
    bool header = words[0].at[0] == 'H';
    slice_t reply = {0};
    if (count > 3 && is_word(words[2], "+")) {
        reply = words[3];
    } else if (count == (header ? 5 : 4) && !is_word(words[2], "|")) {
        reply = words[2];
    }
    size_t skip = header ? number_of(words[count - 2]) : 0;
    if (skip <= body.size) {
        origin_asked(box, words[1], reply, (slice_t){body.at + skip, body.size - skip});
    }
}

static void take_line(box_t *box, slice_t line, const slice_t *words) {
    if (is_word(words[0], "LS+")) {
        figures.told_plus++;
        if (told_add(&box->told, words[1])) {
            origin_looks(box, seconds_now());
        }
    } else if (is_word(words[0], "LS-")) {
        figures.told_minus++;
        if (told_take(&box->told, words[1])) {
            origin_looks(box, seconds_now());
        }
    } else if (is_word(words[0], "PING")) {
        box_put(box, "PONG\r\n");
    } else if (is_word(words[0], "INFO") && box->state == BOX_GREETED) {
        if (!is_turned_away(box, line)) {
            say_connect(box, line);
        }
    } else if (is_word(words[0], "INFO") && box->state == BOX_ASKED
               && memmem(line.at, line.size, "\"connect_info\":true", 19) != NULL) {
        say_interest(box);
    } else if (is_word(words[0], "-ERR")) {
        fprintf(stderr, "box-%u: %.*s\n", box_shown(box), (int)line.size, line.at);
    }
}

/* The words of a line, the last of many standing for the rest. */
static int split(slice_t line, slice_t *words) {
    int count = 0;
    const char *at = line.at, *end = line.at + line.size;
    while (at < end && count < WORDS_MAX) {
        const char *blank = memchr(at, ' ', (size_t)(end - at));
        const char *stop = blank != NULL ? blank : end;
        if (stop > at) {
            words[count++] = (slice_t){at, (size_t)(stop - at)};
        }
        at = stop + 1;
    }
    return count;
}

/* One line, or message, of what is here; how many bytes it took, 0: it is not whole. */
static size_t take_one(box_t *box, const char *at, size_t size) {
    const char *end = memchr(at, '\n', size);
    if (end == NULL) {
        return 0;
    }
    size_t whole = (size_t)(end - at) + 1;
    slice_t line = {at, whole - (whole > 1 && end[-1] == '\r' ? 2 : 1)};
    slice_t words[WORDS_MAX] = {{"", 0}, {"", 0}};
    int count = split(line, words);
    if (!is_word(words[0], "LMSG") && !is_word(words[0], "HMSG")) {
        take_line(box, line, words);
        return whole;
    }
    size_t body = number_of(words[count - 1]);
    if (size < whole + body + 2) {
        return 0;
    }
    take_message(box, words, count, (slice_t){at + whole, body});
    return whole + body + 2;
}

static void keep(box_t *box, const char *at, size_t size) {
    if (size > box->in_room) {
        box->in_room = size;
        box->in = realloc(box->in, box->in_room);
        if (box->in == NULL) {
            die("no memory");
        }
    }
    memmove(box->in, at, size);
    box->in_size = size;
}

static bool box_read(box_t *box) {
    char *to = scratch + box->in_size;
    size_t room = sizeof scratch - box->in_size;
    ssize_t got = box->tls != NULL ? secure_receive(box, to, room) : recv(box->fd, to, room, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (got <= 0) {
        box_end(box);
        return false;
    }
    figures.bytes_in += (uint64_t)got;
    memcpy(scratch, box->in != NULL ? box->in : scratch, box->in_size);
    size_t at = 0, end = box->in_size + (size_t)got, took;
    while (at < end && box->fd >= 0 && (took = take_one(box, scratch + at, end - at)) != 0) {
        at += took;
    }
    if (box->fd < 0) {
        return false;
    }
    if (at == 0 && end == sizeof scratch) {
        die("a line of box-%u is too long", box_shown(box));
    }
    keep(box, scratch + at, end - at);
    return true;
}

void box_ready(box_t *box, uint32_t events) {
    if (box->state == BOX_DIALLING) {
        int error = 0;
        socklen_t size = sizeof error;
        if (getsockopt(box->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
            box_end(box);
            return;
        }
        box->state = BOX_GREETED;
        wait_for(box, false);
    }
    /* What TLS has read already the loop does not tell of: all of it. */
    for (int reads = 0;
         (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0 && (reads < READS_MAX || box->tls != NULL) && box_read(box);
         reads++) {
    }
    box_flush(box);
}
