/* jetstream.c: scenarios with a stream. One thread with epoll for all publishing connections: acks and messages of 128
 * B cost it a fraction of a microsecond each. */
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "client.h"

#define CONNECTIONS_MAX 256
#define PATIENCE_MS 30000

/* ---- publish ----------------------------------------------------------------------------------------------------- */

typedef struct publisher {
    client_t client;
    uint64_t to_send;
    uint64_t sent;
    uint64_t acked;
    uint32_t number;
} publisher_t;

static bool contains(slice_t text, const char *what) {
    return memmem(text.at, text.size, what, strlen(what)) != NULL;
}

static void check_ack(const frame_t *frame) {
    if (frame->header.size > 0 || contains(frame->payload, "\"error\"") || !contains(frame->payload, "\"seq\"")) {
        die("not an ack: %.*s%.*s", (int)frame->header.size, frame->header.at, (int)frame->payload.size,
            frame->payload.at);
    }
}

static size_t put_decimal(char *to, uint64_t v) {
    char digits[20];
    size_t count = 0;
    do {
        digits[sizeof digits - 1 - count++] = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    memcpy(to, digits + sizeof digits - count, count);
    return count;
}

/* Sends as many messages as in_flight allows. */
static void publish_more(publisher_t *publisher, const options_t *options, const char *payload) {
    char line[512];
    size_t subject_size = (size_t)snprintf(line, sizeof line, "PUB %s.%u _INBOX.load%u.", options->subject,
                                           publisher->number, publisher->number);
    while (publisher->sent < publisher->to_send && publisher->sent - publisher->acked < options->in_flight) {
        size_t at = subject_size;
        at += put_decimal(line + at, publisher->sent);
        line[at++] = ' ';
        at += put_decimal(line + at, options->size);
        memcpy(line + at, "\r\n", 2);
        client_put(&publisher->client, line, at + 2);
        client_put(&publisher->client, payload, options->size + 2);
        publisher->sent++;
    }
}

static void want(int epoll, publisher_t *publisher, bool writing, int operation) {
    struct epoll_event event = {.events = EPOLLIN | (writing ? (uint32_t)EPOLLOUT : 0u), .data.ptr = publisher};
    if (epoll_ctl(epoll, operation, publisher->client.fd, &event) != 0) {
        die("epoll_ctl failed");
    }
}

/* Acks in, messages out; how many acks came. */
static uint64_t exchange(publisher_t *publisher, const options_t *options, const char *payload) {
    uint64_t before = publisher->acked;
    frame_t frame;
    client_fill(&publisher->client, false);
    while (client_next(&publisher->client, &frame)) {
        check_ack(&frame);
        publisher->acked++;
    }
    publish_more(publisher, options, payload);
    return publisher->acked - before;
}

result_t run_publish(const options_t *options) {
    static publisher_t publishers[CONNECTIONS_MAX];
    static bool writing[CONNECTIONS_MAX];
    if (options->connections > CONNECTIONS_MAX) {
        die("at most %d connections", CONNECTIONS_MAX);
    }
    char *payload = malloc(options->size + 2);
    int epoll = epoll_create1(0);
    if (payload == NULL || epoll < 0) {
        die("no memory or no epoll");
    }
    memset(payload, 'x', options->size);
    memcpy(payload + options->size, "\r\n", 2);
    uint64_t total = 0, acked = 0;
    for (uint32_t i = 0; i < options->connections; i++) {
        publishers[i].number = i;
        publishers[i].to_send = options->messages / options->connections;
        total += publishers[i].to_send;
        client_open(&publishers[i].client, options->port);
        client_format(&publishers[i].client, "SUB _INBOX.load%u.* 1\r\n", i);
        client_sync(&publishers[i].client);
        want(epoll, &publishers[i], false, EPOLL_CTL_ADD);
    }
    double started = seconds_now();
    for (uint32_t i = 0; i < options->connections; i++) {
        publish_more(&publishers[i], options, payload);
        writing[i] = !client_flush(&publishers[i].client);
        want(epoll, &publishers[i], writing[i], EPOLL_CTL_MOD);
    }
    while (acked < total) {
        struct epoll_event ready[CONNECTIONS_MAX];
        int count = epoll_wait(epoll, ready, CONNECTIONS_MAX, PATIENCE_MS);
        if (count <= 0) {
            die("%llu acks of %llu came, then none for a while", (unsigned long long)acked, (unsigned long long)total);
        }
        for (int i = 0; i < count; i++) {
            publisher_t *publisher = ready[i].data.ptr;
            acked += exchange(publisher, options, payload);
            bool blocked = !client_flush(&publisher->client);
            if (blocked != writing[publisher->number]) {
                writing[publisher->number] = blocked;
                want(epoll, publisher, blocked, EPOLL_CTL_MOD);
            }
        }
    }
    result_t result = {.messages = total, .seconds = seconds_now() - started};
    for (uint32_t i = 0; i < options->connections; i++) {
        client_close(&publishers[i].client);
    }
    free(payload);
    return result;
}

/* ---- consume ----------------------------------------------------------------------------------------------------- */

/* The stream sequence in $JS.ACK.stream.consumer.delivered.sequence... or
 * $JS.ACK.domain.account.stream.consumer.delivered.seq... */
static uint64_t stream_sequence(slice_t reply) {
    unsigned dots = 0;
    for (size_t i = 0; i < reply.size; i++) {
        dots += reply.at[i] == '.';
    }
    unsigned skip = dots > 8 ? 7 : 5;
    size_t at = 0;
    while (skip > 0 && at < reply.size) {
        skip -= reply.at[at++] == '.';
    }
    uint64_t sequence = 0;
    while (at < reply.size && reply.at[at] >= '0' && reply.at[at] <= '9') {
        sequence = sequence * 10 + (uint64_t)(reply.at[at++] - '0');
    }
    return sequence;
}

static void check_order(const frame_t *frame, uint64_t *last) {
    uint64_t sequence = stream_sequence(frame->reply);
    if (sequence <= *last) {
        die("sequence %llu after %llu in %.*s", (unsigned long long)sequence, (unsigned long long)*last,
            (int)frame->reply.size, frame->reply.at);
    }
    *last = sequence;
}

static bool is_status(const frame_t *frame) {
    return frame->payload.size == 0 && frame->header.size > 9 && memcmp(frame->header.at, "NATS/1.0 ", 9) == 0;
}

result_t run_push(const options_t *options) {
    client_t client;
    frame_t frame;
    client_open(&client, options->port);
    client_format(&client, "SUB %s 1\r\nSUB _INBOX.create 2\r\n", options->subject);
    client_sync(&client);
    double started = seconds_now();
    client_format(&client, "PUB %s _INBOX.create %zu\r\n%s\r\n", options->api_subject, strlen(options->api_body),
                  options->api_body);
    client_flush_all(&client);
    uint64_t seen = 0, last = 0;
    while (seen < options->messages) {
        if (!client_next(&client, &frame)) {
            client_flush_all(&client);
            client_fill(&client, true);
            continue;
        }
        if (frame.sid.at[0] == '2') {
            if (contains(frame.payload, "\"error\"")) {
                die("the consumer was refused: %.*s", (int)frame.payload.size, frame.payload.at);
            }
        } else if (is_status(&frame)) {
            if (frame.reply.size > 0) { /* flow control */
                client_format(&client, "PUB %.*s 0\r\n\r\n", (int)frame.reply.size, frame.reply.at);
            }
        } else {
            check_order(&frame, &last);
            seen++;
        }
    }
    result_t result = {.messages = seen, .seconds = seconds_now() - started};
    client_close(&client);
    return result;
}

static void pull(client_t *client, const options_t *options, uint32_t count) {
    char body[128];
    int size = snprintf(body, sizeof body, "{\"batch\":%u,\"expires\":20000000000}", count);
    client_format(client, "PUB $JS.API.CONSUMER.MSG.NEXT.%s.%s _INBOX.pull %d\r\n%s\r\n", options->stream,
                  options->consumer, size, body);
}

static void ack(client_t *client, slice_t reply) {
    client_put(client, "PUB ", 4);
    client_put(client, reply.at, reply.size);
    client_put(client, " 4\r\n+ACK\r\n", 10);
}

result_t run_pull(const options_t *options) {
    client_t client;
    frame_t frame;
    client_open(&client, options->port);
    client_format(&client, "SUB _INBOX.pull 1\r\n");
    client_sync(&client);
    double started = seconds_now();
    uint64_t seen = 0, last = 0;
    uint32_t asked = options->batch; /* asked for and not here yet */
    pull(&client, options, asked);
    client_flush_all(&client);
    while (seen < options->messages) {
        if (!client_next(&client, &frame)) {
            client_flush_all(&client);
            client_fill(&client, true);
            continue;
        }
        if (is_status(&frame)) {
            die("the pull ended: %.*s", (int)frame.header.size, frame.header.at);
        }
        check_order(&frame, &last);
        ack(&client, frame.reply);
        seen++;
        asked--;
        if (asked == options->batch / 2) {
            /* As clients do: the next half is asked for before this one is read. */
            pull(&client, options, options->batch - asked);
            asked = options->batch;
        }
    }
    client_sync(&client);
    result_t result = {.messages = seen, .seconds = seconds_now() - started};
    client_close(&client);
    return result;
}

result_t run_fetch(const options_t *options) {
    client_t client;
    frame_t frame;
    uint64_t seen = 0, last = 0, fetches = 0;
    double *latencies = calloc(options->messages / options->batch + 2, sizeof *latencies);
    if (latencies == NULL) {
        die("no memory");
    }
    client_open(&client, options->port);
    client_format(&client, "SUB _INBOX.pull 1\r\n");
    client_sync(&client);
    double started = seconds_now();
    while (seen < options->messages) {
        double asked = seconds_now();
        uint64_t left = options->messages - seen;
        uint32_t count = left < options->batch ? (uint32_t)left : options->batch;
        pull(&client, options, count);
        client_flush_all(&client);
        for (uint32_t here = 0; here < count;) {
            if (!client_next(&client, &frame)) {
                client_fill(&client, true);
                continue;
            }
            if (is_status(&frame)) {
                die("the fetch ended: %.*s", (int)frame.header.size, frame.header.at);
            }
            check_order(&frame, &last);
            ack(&client, frame.reply);
            here++;
        }
        latencies[fetches++] = (seconds_now() - asked) * 1e6;
        seen += count;
    }
    client_sync(&client);
    result_t result = {.messages = seen, .seconds = seconds_now() - started};
    latencies_tell(&result, latencies, fetches);
    client_close(&client);
    free(latencies);
    return result;
}
