/* ask.c: requests to whoever answers, many at a time: publishes into streams, keys put and got, direct gets. One thread
 * with epoll for all connections. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "client.h"
#include "load.h"

#define CONNECTIONS_MAX 256
#define PATIENCE_MS 30000

typedef struct asker {
    client_t client;
    uint64_t begin; /* the numbers of its requests */
    uint64_t end;
    uint64_t sent;
    uint64_t answered;
    bool writing;
} asker_t;

typedef struct ask {
    const options_t *options;
    asker_t askers[CONNECTIONS_MAX];
    char *payload;
    double *times; /* of each request: when it was sent, then how long the answer took, in us */
    int epoll;
} ask_t;

static void check_answer(const frame_t *frame) {
    bool status = frame->header.size > 12 && frame->header.at[9] >= '4' && frame->header.at[9] <= '5';
    bool error = frame->payload.size > 9 && memcmp(frame->payload.at, "{\"error\":", 9) == 0;
    if (status || error) {
        die("not an answer: %.*s%.*s", (int)frame->header.size, frame->header.at, (int)frame->payload.size,
            frame->payload.at);
    }
}

static void ask_more(ask_t *ask, asker_t *asker) {
    const options_t *options = ask->options;
    uint64_t count = asker->end - asker->begin;
    while (asker->sent < count && asker->sent - asker->answered < options->in_flight) {
        uint64_t number = asker->begin + asker->sent++;
        client_format(&asker->client, "PUB %s", options->subject);
        if (options->subjects != 0) {
            client_format(&asker->client, ".%llu", (unsigned long long)(number % options->subjects));
        }
        client_format(&asker->client, " _INBOX.ask%ld.%llu %u\r\n", (long)(asker - ask->askers),
                      (unsigned long long)number, options->size);
        client_put(&asker->client, ask->payload, options->size + 2);
        ask->times[number] = seconds_now();
    }
}

static uint64_t take_answers(ask_t *ask, asker_t *asker) {
    frame_t frame;
    uint64_t before = asker->answered;
    client_fill(&asker->client, false);
    while (client_next(&asker->client, &frame)) {
        const char *dot = memrchr(frame.subject.at, '.', frame.subject.size);
        uint64_t number = dot == NULL ? UINT64_MAX : strtoull(dot + 1, NULL, 10);
        if (number < asker->begin || number >= asker->end) {
            die("an answer to nothing: %.*s", (int)frame.subject.size, frame.subject.at);
        }
        check_answer(&frame);
        ask->times[number] = (seconds_now() - ask->times[number]) * 1e6;
        asker->answered++;
    }
    return asker->answered - before;
}

static void flush(ask_t *ask, asker_t *asker) {
    bool blocked = !client_flush(&asker->client);
    struct epoll_event event = {.events = EPOLLIN | (blocked ? (uint32_t)EPOLLOUT : 0u), .data.ptr = asker};
    if (blocked != asker->writing && epoll_ctl(ask->epoll, EPOLL_CTL_MOD, asker->client.fd, &event) != 0) {
        die("epoll_ctl failed");
    }
    asker->writing = blocked;
}

static void open_askers(ask_t *ask) {
    const options_t *options = ask->options;
    uint64_t each = options->messages / options->connections;
    for (uint32_t i = 0; i < options->connections; i++) {
        asker_t *asker = &ask->askers[i];
        *asker = (asker_t){.begin = i * each, .end = (i + 1) * each};
        client_open(&asker->client, options->port);
        client_format(&asker->client, "SUB _INBOX.ask%u.* 1\r\n", i);
        client_sync(&asker->client);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = asker};
        if (epoll_ctl(ask->epoll, EPOLL_CTL_ADD, asker->client.fd, &event) != 0) {
            die("epoll_ctl failed");
        }
    }
}

result_t run_ask(const options_t *options) {
    static ask_t ask;
    uint64_t total = options->messages / options->connections * options->connections, answered = 0;
    ask = (ask_t){.options = options, .epoll = epoll_create1(0)};
    ask.payload = malloc(options->size + 2);
    ask.times = calloc(total + 1, sizeof *ask.times);
    if (options->connections > CONNECTIONS_MAX || ask.epoll < 0 || ask.payload == NULL || ask.times == NULL) {
        die("more than %d connections, no memory or no epoll", CONNECTIONS_MAX);
    }
    memset(ask.payload, 'x', options->size);
    memcpy(ask.payload + options->size, "\r\n", 2);
    open_askers(&ask);
    double started = seconds_now();
    for (uint32_t i = 0; i < options->connections; i++) {
        ask_more(&ask, &ask.askers[i]);
        flush(&ask, &ask.askers[i]);
    }
    while (answered < total) {
        struct epoll_event ready[CONNECTIONS_MAX];
        int count = epoll_wait(ask.epoll, ready, CONNECTIONS_MAX, PATIENCE_MS);
        if (count <= 0) {
            die("%llu answers of %llu came, then none for a while", (unsigned long long)answered,
                (unsigned long long)total);
        }
        for (int i = 0; i < count; i++) {
            answered += take_answers(&ask, ready[i].data.ptr);
            ask_more(&ask, ready[i].data.ptr);
            flush(&ask, ready[i].data.ptr);
        }
    }
    result_t result = {.messages = total, .seconds = seconds_now() - started};
    latencies_tell(&result, ask.times, total);
    for (uint32_t i = 0; i < options->connections; i++) {
        client_close(&ask.askers[i].client);
    }
    free(ask.payload);
    free(ask.times);
    return result;
}
