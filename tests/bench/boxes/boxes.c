/* boxes.c: see boxes.h. One thread, one epoll, steps that are bounded: EVENTS_MAX sockets, DIALS new connections.
 *
 *   stdin    publish N      each stream has N more messages
 *            drop           every link ends, and comes back as after a hub's death
 *            first N        only the first N boxes dial from now on (all, at the start)
 *   stdout   a line of JSON every REPORT_S, and one at once for each command; ends with stdin */
#include "boxes.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_MAX 256
#define TICK_S 0.01
#define BEATS_S 0.1
#define REPORT_S 0.02
#define INFO_S 20 /* a hub that says nothing for so long is dialled again, as by a leafd that knows another server */
#define STDIN UINT32_MAX

options_t options = {.count = 10, .size = 128, .reconnect_s = 1.0, .dials = 64, .jetstream = true};
figures_t figures;
static box_t *boxes;
static uint32_t dialling; /* the first so many boxes dial */

static void report(void) {
    uint32_t whole = 0;
    for (uint32_t i = 0; i < options.count; i++) {
        whole += origin_is_whole(&boxes[i]);
    }
    printf("{\"at\":%.4f,\"up\":%llu,\"whole\":%u,\"made\":%llu,\"deleted\":%llu,\"expired\":%llu,\"delivered\":%llu,"
           "\"unwanted\":%llu,"
           "\"told\":%llu,\"untold\":%llu,\"bytes\":%llu,\"closed\":%llu,\"refused\":%llu,\"away\":%llu}\n",
           seconds_now(), (unsigned long long)figures.up, whole, (unsigned long long)figures.made,
           (unsigned long long)figures.deleted, (unsigned long long)figures.expired,
           (unsigned long long)figures.delivered, (unsigned long long)figures.unwanted,
           (unsigned long long)figures.told_plus, (unsigned long long)figures.told_minus,
           (unsigned long long)figures.bytes_in, (unsigned long long)figures.closed,
           (unsigned long long)figures.refused, (unsigned long long)figures.away);
    fflush(stdout);
}

/* ---- commands ---------------------------------------------------------------------------------------------------- */

static void command(const char *line) {
    unsigned long long number = 0;
    if (sscanf(line, "publish %llu", &number) == 1) {
        for (uint32_t i = 0; i < options.count; i++) {
            origin_publish(&boxes[i], number);
            box_flush(&boxes[i]);
        }
    } else if (sscanf(line, "first %llu", &number) == 1 && number <= options.count) {
        dialling = (uint32_t)number;
        for (uint32_t i = dialling; i < options.count; i++) {
            box_end(&boxes[i]);
        }
    } else if (strcmp(line, "drop") == 0) {
        for (uint32_t i = 0; i < options.count; i++) {
            box_end(&boxes[i]);
        }
    } else {
        die("unknown command: %s", line);
    }
    report();
}

static void read_commands(void) {
    static char line[256];
    static size_t size;
    char c;
    ssize_t got;
    while ((got = read(STDIN_FILENO, &c, 1)) == 1) {
        if (c == '\n') {
            line[size] = '\0';
            size = 0;
            command(line);
        } else if (size + 1 < sizeof line) {
            line[size++] = c;
        }
    }
    if (got == 0) {
        exit(0);
    }
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static void dial_some(double now_s) {
    static uint32_t next;
    uint32_t begun = 0;
    for (uint32_t looked = 0; looked < dialling && begun < options.dials; looked++) {
        box_t *box = &boxes[next = (next + 1) % dialling];
        if ((box->state == BOX_DIALLING || box->state == BOX_GREETED) && now_s >= box->dial_s + INFO_S) {
            box_end(box);
        }
        if (box->state == BOX_AWAY && box->dial_s <= now_s) {
            box_dial(box);
            begun++;
        }
    }
}

static void beat_all(double now_s) {
    for (uint32_t i = 0; i < options.count; i++) {
        if (boxes[i].consumers != NULL) {
            origin_beat(&boxes[i], now_s);
            box_flush(&boxes[i]);
        }
    }
}

static _Noreturn void run(void) {
    struct epoll_event events[EVENTS_MAX];
    double tick_s = 0, beats_s = 0, report_s = 0;
    for (;;) {
        int count = epoll_wait(box_poll, events, EVENTS_MAX, (int)(TICK_S * 1000));
        for (int i = 0; i < count; i++) {
            uint32_t number = events[i].data.u32;
            if (number == STDIN) {
                read_commands();
            } else if (boxes[number].fd >= 0) {
                box_ready(&boxes[number], events[i].events);
            }
        }
        double now_s = seconds_now();
        if (now_s >= tick_s) {
            dial_some(now_s);
            tick_s = now_s + TICK_S;
        }
        if (now_s >= beats_s) {
            beat_all(now_s);
            beats_s = now_s + BEATS_S;
        }
        if (now_s >= report_s) {
            report();
            report_s = now_s + REPORT_S;
        }
    }
}

static void add_port(int port) {
    if (port <= 0 || options.port_count == PORTS_MAX) {
        die("--port is given for one to %d servers", PORTS_MAX);
    }
    options.ports[options.port_count++] = port;
}

static void read_arguments(int count, char **arguments) {
    static const struct option names[] = {{"port", required_argument, NULL, 'p'},
                                          {"address", required_argument, NULL, 'a'},
                                          {"count", required_argument, NULL, 'n'},
                                          {"subscriptions", required_argument, NULL, 's'},
                                          {"size", required_argument, NULL, 'b'},
                                          {"messages", required_argument, NULL, 'm'},
                                          {"reconnect", required_argument, NULL, 'r'},
                                          {"dials", required_argument, NULL, 'd'},
                                          {"keys", required_argument, NULL, 'k'},
                                          {"password", required_argument, NULL, 'w'},
                                          {"tls", no_argument, NULL, 't'},
                                          {"no-jetstream", no_argument, NULL, 'j'},
                                          {"first", required_argument, NULL, 'f'},
                                          {"first-number", required_argument, NULL, 'i'},
                                          {NULL, 0, NULL, 0}};
    int option;
    options.address = htonl(INADDR_LOOPBACK);
    dialling = UINT32_MAX;
    while ((option = getopt_long(count, arguments, "", names, NULL)) != -1) {
        switch (option) {
        case 'p': add_port(atoi(optarg)); break;
        case 'a': options.address = inet_addr(optarg); break;
        case 'n': options.count = (uint32_t)atoi(optarg); break;
        case 's': options.subscriptions = (uint32_t)atoi(optarg); break;
        case 'b': options.size = (uint32_t)atoi(optarg); break;
        case 'm': options.messages = (uint64_t)atoll(optarg); break;
        case 'r': options.reconnect_s = atof(optarg); break;
        case 'd': options.dials = (uint32_t)atoi(optarg); break;
        case 'k': options.keys = optarg; break;
        case 'w': options.password = optarg; break;
        case 't': options.tls = true; break;
        case 'j': options.jetstream = false; break;
        case 'f': dialling = (uint32_t)atoi(optarg); break;
        case 'i': options.first_number = (uint32_t)atoi(optarg); break;
        default: die("unknown option");
        }
    }
    if (options.port_count == 0 || options.count == 0 || options.size > 65536) {
        die("--port and --count are needed, and --size is at most 65,536");
    }
    dialling = dialling < options.count ? dialling : options.count;
}

int main(int count, char **arguments) {
    read_arguments(count, arguments);
    signal(SIGPIPE, SIG_IGN); /* of OpenSSL's writes */
    if (options.keys != NULL) {
        keys_read(options.keys, options.count);
    }
    boxes = calloc(options.count, sizeof *boxes);
    box_poll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = STDIN};
    if (boxes == NULL || box_poll < 0 || epoll_ctl(box_poll, EPOLL_CTL_ADD, STDIN_FILENO, &event) != 0) {
        die("no memory, or stdin is a file");
    }
    fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    for (uint32_t i = 0; i < options.count; i++) {
        box_init(&boxes[i], i);
    }
    run();
}
