/* core.c: scenarios without JetStream: publish to one subscriber or many, request and reply. Publisher and subscriber
 * are threads of their own, as they would be processes of their own. */
#include "load.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "client.h"

/* Under way in core publish; with more a server would take the reader for a slow consumer. */
#define WINDOW_MESSAGES 65536u
#define WINDOW_BYTES (32u << 20)
/* Written at once, as clients do that gather before they write. */
#define CHUNK_MESSAGES 256u
#define CHUNK_BYTES (OUTPUT_SIZE / 2)

/* What has come of all that is expected, which the publisher looks at. */
typedef struct arrival {
    uint64_t expected;
    _Atomic uint64_t seen;
    double ended;
} arrival_t;

typedef struct reader {
    client_t client;
    size_t frame_size; /* every frame is alike */
    arrival_t arrival; /* of one that reads alone */
} reader_t;

/* So many more have come; true: all. */
static bool arrive(arrival_t *arrival, uint64_t count) {
    uint64_t seen = atomic_load_explicit(&arrival->seen, memory_order_relaxed) + count;
    atomic_store_explicit(&arrival->seen, seen, memory_order_release);
    if (seen < arrival->expected) {
        return false;
    }
    arrival->ended = seconds_now();
    if (seen != arrival->expected) {
        die("%llu messages too many", (unsigned long long)(seen - arrival->expected));
    }
    return true;
}

/* All frames have one size and only control lines come between them, so that counting costs next to nothing. */
static uint64_t count_frames(reader_t *reader) {
    client_t *client = &reader->client;
    uint64_t count = 0;
    while (client->in_end > client->in_at) {
        size_t have = client->in_end - client->in_at;
        if (client->in[client->in_at] == 'M') {
            if (have < reader->frame_size) {
                break;
            }
            client->in_at += reader->frame_size;
            count++;
            continue;
        }
        frame_t frame;
        size_t before = client->in_at;
        if (memchr(client->in + client->in_at, '\n', have) == NULL) {
            break;
        }
        if (client_next(client, &frame)) {
            client->in_at -= reader->frame_size; /* it took the message behind the control line: count that above */
        }
        if (client->in_at == before) {
            break;
        }
    }
    client_flush(client);
    return count;
}

static void *read_all(void *argument) {
    reader_t *reader = argument;
    do {
        client_fill(&reader->client, true);
    } while (!arrive(&reader->arrival, count_frames(reader)));
    return NULL;
}

static uint64_t at_most(uint64_t value, uint64_t bound) {
    return value < bound ? value : bound;
}

/* What compresses as telemetry does: names that come again, numbers that do not. */
static void put_payload(char *to, uint32_t size, uint64_t number) {
    char text[192];
    uint64_t random = (number + 1) * 0x9e3779b97f4a7c15u;
    int length = snprintf(text, sizeof text,
                          "{\"sensor\":\"hall-%u/line-%u\",\"time\":17637%08u,\"temperature\":%u.%02u,\"pressure\":%u,"
                          "\"state\":\"running\",\"unit\":\"celsius\"}",
                          (unsigned)(random & 7), (unsigned)(random >> 8 & 31), (unsigned)(number * 250 % 100000000),
                          (unsigned)(20 + (random >> 16) % 60), (unsigned)((random >> 24) % 100),
                          (unsigned)(900 + (random >> 32) % 200));
    for (uint32_t i = 0; i < size; i++) {
        to[i] = i < (uint32_t)length ? text[i] : ' ';
    }
}

typedef struct chunk {
    char *at;
    uint64_t messages;
    size_t frame_size; /* of one message's line, payload and end */
} chunk_t;

/* What a publisher says at once, again and again. */
static chunk_t make_chunk(const options_t *options) {
    char line[512];
    size_t line_size = (size_t)snprintf(line, sizeof line, "PUB %s %u\r\n", options->subject, options->size);
    chunk_t chunk = {.frame_size = line_size + options->size + 2};
    chunk.messages = at_most(CHUNK_MESSAGES, CHUNK_BYTES / chunk.frame_size);
    chunk.at = malloc(chunk.frame_size * chunk.messages);
    if (chunk.at == NULL) {
        die("no memory");
    }
    for (uint64_t i = 0; i < chunk.messages; i++) {
        char *at = chunk.at + i * chunk.frame_size;
        memcpy(at, line, line_size);
        if (options->web_port != 0) {
            put_payload(at + line_size, options->size, i);
        } else {
            memset(at + line_size, 'x', options->size);
        }
        memcpy(at + line_size + options->size, "\r\n", 2);
    }
    return chunk;
}

/* Publishes, while a thread of its own reads; each message comes `copies` times. */
static result_t publish_to(const options_t *options, arrival_t *arrival, uint32_t copies, void *(*read)(void *),
                           void *reader) {
    client_t publisher;
    client_open(&publisher, options->port);
    chunk_t chunk = make_chunk(options);
    uint64_t window = at_most(WINDOW_MESSAGES, WINDOW_BYTES / chunk.frame_size);
    pthread_t thread;
    double started = seconds_now();
    if (pthread_create(&thread, NULL, read, reader) != 0) {
        die("no thread");
    }
    for (uint64_t sent = 0; sent < options->messages;) {
        while (sent - atomic_load_explicit(&arrival->seen, memory_order_acquire) / copies > window) {
            struct timespec nap = {.tv_nsec = 50000};
            nanosleep(&nap, NULL);
        }
        uint64_t count = at_most(options->messages - sent, chunk.messages);
        client_put(&publisher, chunk.at, count * chunk.frame_size);
        client_flush_all(&publisher);
        sent += count;
    }
    pthread_join(thread, NULL);
    client_close(&publisher);
    free(chunk.at);
    return (result_t){.messages = options->messages, .seconds = arrival->ended - started};
}

/* Logs a subscriber in. Another server than the publisher's has to hear of it first, of which nothing is told here. */
static void open_reader(reader_t *reader, const options_t *options, const char *queue) {
    client_open(&reader->client, options->read_port != 0 ? options->read_port : options->port);
    client_format(&reader->client, "SUB %s %s 1\r\n", options->subject, queue);
    client_sync(&reader->client);
}

static void wait_for_interest(const options_t *options) {
    if (options->read_port != 0) {
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
}

result_t run_core(const options_t *options) {
    reader_t reader = {.arrival.expected = options->messages};
    if (options->web_port != 0) {
        client_open_web(&reader.client, options->web_port, options->deflate);
        client_format(&reader.client, "SUB %s 1\r\n", options->subject);
        client_sync(&reader.client);
    } else {
        open_reader(&reader, options, "");
        wait_for_interest(options);
    }
    char line[512];
    reader.frame_size =
        (size_t)snprintf(line, sizeof line, "MSG %s 1 %u\r\n", options->subject, options->size) + options->size + 2;
    result_t result = publish_to(options, &reader.arrival, 1, read_all, &reader);
    client_close(&reader.client);
    return result;
}

/* ---- many subscribers -------------------------------------------------------------------------------------------- */

#define CROWD_MAX 64u

typedef struct crowd {
    reader_t readers[CROWD_MAX];
    uint32_t count;
    int epoll;
    arrival_t arrival; /* at all of them together */
} crowd_t;

static void *read_crowd(void *argument) {
    crowd_t *crowd = argument;
    uint64_t come;
    do {
        struct epoll_event ready[CROWD_MAX];
        int count = epoll_wait(crowd->epoll, ready, (int)CROWD_MAX, 30000);
        if (count <= 0) {
            die("%llu messages of %llu came, then none for a while", (unsigned long long)crowd->arrival.seen,
                (unsigned long long)crowd->arrival.expected);
        }
        come = 0;
        for (int i = 0; i < count; i++) {
            reader_t *reader = ready[i].data.ptr;
            client_fill(&reader->client, false);
            come += count_frames(reader);
        }
    } while (!arrive(&crowd->arrival, come));
    return NULL;
}

static void gather_crowd(crowd_t *crowd, const options_t *options, const char *queue) {
    char line[512];
    size_t size = (size_t)snprintf(line, sizeof line, "MSG %s 1 %u\r\n", options->subject, options->size);
    if (options->connections > CROWD_MAX || (crowd->epoll = epoll_create1(0)) < 0) {
        die("at most %u subscribers, or no epoll", CROWD_MAX);
    }
    for (crowd->count = 0; crowd->count < options->connections; crowd->count++) {
        reader_t *reader = &crowd->readers[crowd->count];
        reader->frame_size = size + options->size + 2;
        open_reader(reader, options, queue);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = reader};
        if (epoll_ctl(crowd->epoll, EPOLL_CTL_ADD, reader->client.fd, &event) != 0) {
            die("epoll_ctl failed");
        }
    }
}

static result_t to_crowd(const options_t *options, const char *queue, uint32_t copies) {
    static crowd_t crowd;
    crowd.arrival.expected = options->messages * copies;
    gather_crowd(&crowd, options, queue);
    wait_for_interest(options);
    result_t result = publish_to(options, &crowd.arrival, copies, read_crowd, &crowd);
    for (uint32_t i = 0; i < crowd.count; i++) {
        client_close(&crowd.readers[i].client);
    }
    return result;
}

result_t run_fan(const options_t *options) {
    return to_crowd(options, "", options->connections);
}

result_t run_queue(const options_t *options) {
    return to_crowd(options, "workers", 1);
}

result_t run_blind(const options_t *options) {
    client_t client;
    if (options->web_port != 0) {
        client_open_web(&client, options->web_port, options->deflate);
    } else {
        client_open(&client, options->port);
    }
    chunk_t chunk = make_chunk(options);
    size_t size = chunk.messages * chunk.frame_size;
    char *frame = client.web != NULL ? web_frame(&client, chunk.at, size, &size) : chunk.at;
    double started = seconds_now();
    uint64_t sent = 0;
    for (; sent + chunk.messages <= options->messages; sent += chunk.messages) {
        client_send(&client, frame, size);
    }
    client_put(&client, chunk.at, (options->messages - sent) * chunk.frame_size);
    client_sync(&client);
    double ended = seconds_now();
    client_close(&client);
    if (frame != chunk.at) {
        free(frame);
    }
    free(chunk.at);
    return (result_t){.messages = options->messages, .seconds = ended - started};
}

typedef struct responder {
    client_t client;
    uint64_t expected;
} responder_t;

static void *respond(void *argument) {
    responder_t *responder = argument;
    uint64_t seen = 0;
    frame_t frame;
    while (seen < responder->expected) {
        client_fill(&responder->client, true);
        while (client_next(&responder->client, &frame)) {
            client_format(&responder->client, "PUB %.*s 2\r\nok\r\n", (int)frame.reply.size, frame.reply.at);
            seen++;
        }
        client_flush_all(&responder->client);
    }
    return NULL;
}

result_t run_request(const options_t *options) {
    responder_t responder = {.expected = options->messages};
    client_open(&responder.client, options->port);
    client_format(&responder.client, "SUB %s 1\r\n", options->subject);
    client_sync(&responder.client);
    client_t requester;
    client_open(&requester, options->port);
    client_format(&requester, "SUB _INBOX.load.* 1\r\n");
    client_sync(&requester);
    double *latencies = calloc(options->messages, sizeof *latencies);
    char *payload = malloc(options->size);
    pthread_t thread;
    if (latencies == NULL || payload == NULL || pthread_create(&thread, NULL, respond, &responder) != 0) {
        die("no memory or no thread");
    }
    memset(payload, 'x', options->size);
    double started = seconds_now();
    for (uint64_t i = 0; i < options->messages; i++) {
        double sent = seconds_now();
        client_format(&requester, "PUB %s _INBOX.load.%llu %u\r\n", options->subject, (unsigned long long)i,
                      options->size);
        client_put(&requester, payload, options->size);
        client_put(&requester, "\r\n", 2);
        client_flush_all(&requester);
        frame_t frame;
        while (!client_next(&requester, &frame)) {
            client_fill(&requester, true);
        }
        if (frame.payload.size != 2 || frame.header.size != 0) {
            die("not the responder's answer");
        }
        latencies[i] = (seconds_now() - sent) * 1e6;
    }
    double ended = seconds_now();
    pthread_join(thread, NULL);
    result_t result = {.messages = options->messages, .seconds = ended - started};
    latencies_tell(&result, latencies, options->messages);
    client_close(&responder.client);
    client_close(&requester);
    free(latencies);
    free(payload);
    return result;
}
