/* origin.c: see boxes.h. The stream T of each box, of messages that are all alike, as the side that a hub sources or
 * mirrors from sees it: a consumer that is made, messages, heartbeats, a consumer that is deleted.
 *
 *     made --interest in what it delivers--> wanted --interest's end--> not wanted --inactive_threshold--> gone
 *
 * What a real server does beyond that and the hub does not see is left out: flow control (the streams are short),
 * acknowledgements (nobody asks for them). */
#include "boxes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEAT_S 1.0    /* where the hub does not ask for another time */
#define EXPIRY_S 10.0 /* likewise */
#define CONFIG_MAX 2048
#define STAMP UINT64_C(1790000000000000000)

static slice_t text_of(slice_t body, const char *name) {
    const char *at = memmem(body.at, body.size, name, strlen(name));
    if (at == NULL) {
        return (slice_t){"", 0};
    }
    at += strlen(name);
    const char *end = memchr(at, '"', (size_t)(body.at + body.size - at));
    return end == NULL ? (slice_t){"", 0} : (slice_t){at, (size_t)(end - at)};
}

static uint64_t number_of(slice_t body, const char *name) {
    const char *at = memmem(body.at, body.size, name, strlen(name)), *end = body.at + body.size;
    uint64_t value = 0;
    for (at = at == NULL ? end : at + strlen(name); at < end && *at >= '0' && *at <= '9'; at++) {
        value = value * 10 + (uint64_t)(*at - '0');
    }
    return value;
}

/* The object behind "config": as it stands. */
static slice_t config_of(slice_t body) {
    const char *at = memmem(body.at, body.size, "\"config\":{", 10), *end = body.at + body.size;
    if (at == NULL) {
        return (slice_t){"{}", 2};
    }
    int depth = 0;
    for (const char *c = at += 9; c < end; c++) {
        depth += *c == '{' ? 1 : *c == '}' ? -1 : 0;
        if (depth == 0) {
            return (slice_t){at, (size_t)(c - at) + 1};
        }
    }
    return (slice_t){"{}", 2};
}

static void consumer_free(consumer_t *consumer) {
    free(consumer->name);
    free(consumer->deliver);
    free(consumer);
}

static void drop(consumer_t **at) {
    consumer_t *gone = *at;
    *at = gone->next;
    consumer_free(gone);
}

static void drop_named(box_t *box, slice_t name) {
    for (consumer_t **at = &box->consumers; *at != NULL;) {
        if (strlen((*at)->name) == name.size && memcmp((*at)->name, name.at, name.size) == 0) {
            drop(at);
        } else {
            at = &(*at)->next;
        }
    }
}

void origin_left(box_t *box) {
    while (box->consumers != NULL) {
        drop(&box->consumers);
    }
}

/* ---- deliveries -------------------------------------------------------------------------------------------------- */

static void deliver(box_t *box, consumer_t *consumer, double now_s) {
    static char payload[65536 + 2];
    if (payload[0] == '\0') {
        memset(payload, 'x', sizeof payload);
    }
    memcpy(payload + options.size, "\r\n", 2);
    while (consumer->next_seq <= box->last_seq) {
        uint64_t seq = consumer->next_seq++;
        box_put(box, "LMSG %s $JS.ACK.T.%s.1.%llu.%llu.%llu.%llu@t.box-%u %u\r\n", consumer->deliver, consumer->name,
                (unsigned long long)seq, (unsigned long long)++consumer->delivered,
                (unsigned long long)(STAMP + seq * 1000), (unsigned long long)(box->last_seq - seq), box_shown(box),
                options.size);
        box_put_bytes(box, payload, options.size + 2);
        figures.delivered++;
    }
    memset(payload + options.size, 'x', 2);
    consumer->beat_s = now_s + consumer->beats_s;
}

void origin_looks(box_t *box, double now_s) {
    for (consumer_t *one = box->consumers; one != NULL; one = one->next) {
        bool wanted = told_wants(&box->told, (slice_t){one->deliver, strlen(one->deliver)});
        if (wanted && !one->wanted) {
            deliver(box, one, now_s);
        } else if (!wanted && one->wanted) {
            one->beat_s = now_s + one->stays_s;
        }
        one->wanted = wanted;
    }
}

void origin_beat(box_t *box, double now_s) {
    char header[256];
    for (consumer_t **at = &box->consumers, *one; (one = *at) != NULL;) {
        bool due = now_s >= one->beat_s;
        if (due && !one->wanted) {
            drop(at);
            figures.expired++;
            continue;
        }
        at = &one->next;
        if (!due) {
            continue;
        }
        int size = snprintf(header, sizeof header,
                            "NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %llu\r\nNats-Last-Stream: %llu\r\n\r\n",
                            (unsigned long long)one->delivered, (unsigned long long)(one->next_seq - 1));
        box_put(box, "HMSG %s %d %d\r\n%s\r\n", one->deliver, size, size, header);
        one->beat_s = now_s + one->beats_s;
    }
}

void origin_publish(box_t *box, uint64_t count) {
    box->last_seq += count;
    double now_s = seconds_now();
    for (consumer_t *one = box->consumers; one != NULL; one = one->next) {
        if (one->wanted) {
            deliver(box, one, now_s);
        }
    }
}

bool origin_is_whole(const box_t *box) {
    uint32_t wanted = 0, level = 0;
    for (const consumer_t *one = box->consumers; one != NULL; one = one->next) {
        wanted += one->wanted;
        level += one->wanted && one->next_seq > box->last_seq;
    }
    return box->state == BOX_UP && wanted == 1 && level == 1;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static void answer(box_t *box, slice_t reply, const char *body) {
    if (reply.size == 0 || !told_wants(&box->told, reply)) {
        figures.unwanted++;
        return;
    }
    box_put(box, "LMSG %.*s %zu\r\n", (int)reply.size, reply.at, strlen(body));
    box_put_bytes(box, body, strlen(body));
    box_put_bytes(box, "\r\n", 2);
}

static void make(box_t *box, slice_t reply, slice_t body) {
    static char text[CONFIG_MAX + 1024];
    slice_t config = config_of(body), to = text_of(config, "\"deliver_subject\":\""),
            name = text_of(config, "\"name\":\"");
    consumer_t *consumer = calloc(1, sizeof *consumer);
    if (consumer == NULL || config.size > CONFIG_MAX) {
        die("a request for a consumer that is too large");
    }
    uint64_t start = number_of(config, "\"opt_start_seq\":"), beats_ns = number_of(config, "\"idle_heartbeat\":"),
             stays_ns = number_of(config, "\"inactive_threshold\":");
    consumer->beats_s = beats_ns != 0 ? (double)beats_ns / 1e9 : BEAT_S;
    consumer->stays_s = stays_ns != 0 ? (double)stays_ns / 1e9 : EXPIRY_S;
    consumer->next_seq = start != 0 ? start : 1;
    consumer->deliver = strndup(to.at, to.size);
    if (name.size != 0) {
        consumer->name = strndup(name.at, name.size);
    } else if (asprintf(&consumer->name, "c%llu", (unsigned long long)figures.made) < 0) {
        die("no memory");
    }
    uint64_t first = consumer->next_seq, pending = first <= box->last_seq ? box->last_seq - first + 1 : 0;
    snprintf(
        text, sizeof text,
        "{\"type\":\"io.nats.jetstream.api.v1.consumer_create_response\",\"stream_name\":\"T\",\"name\":\"%s\","
        "\"created\":\"2026-01-01T00:00:00Z\",\"config\":%.*s,\"delivered\":{\"consumer_seq\":0,\"stream_seq\":%llu},"
        "\"ack_floor\":{\"consumer_seq\":0,\"stream_seq\":%llu},\"num_ack_pending\":0,\"num_redelivered\":0,"
        "\"num_waiting\":0,\"num_pending\":%llu,\"push_bound\":true}",
        consumer->name, (int)config.size, config.at, (unsigned long long)(first - 1), (unsigned long long)(first - 1),
        (unsigned long long)pending);
    figures.made++;
    drop_named(box, (slice_t){consumer->name, strlen(consumer->name)}); /* who asks again for one has it anew */
    answer(box, reply, text);
    consumer->next = box->consumers;
    box->consumers = consumer;
    consumer->beat_s = seconds_now() + consumer->stays_s;
    origin_looks(box, seconds_now());
}

static void delete(box_t *box, slice_t subject, slice_t reply) {
    const char *dot = memrchr(subject.at, '.', subject.size);
    drop_named(box, (slice_t){dot + 1, (size_t)(subject.at + subject.size - dot) - 1});
    figures.deleted++;
    if (reply.size != 0) {
        answer(box, reply, "{\"type\":\"io.nats.jetstream.api.v1.consumer_delete_response\",\"success\":true}");
    }
}

void origin_asked(box_t *box, slice_t subject, slice_t reply, slice_t body) {
    if (memmem(subject.at, subject.size, ".API.CONSUMER.CREATE.T", 22) != NULL) {
        make(box, reply, body);
    } else if (memmem(subject.at, subject.size, ".API.CONSUMER.DELETE.T.", 23) != NULL) {
        delete(box, subject, reply);
    } else if (memmem(subject.at, subject.size, ".API.STREAM.INFO.T", 18) != NULL) {
        char text[512];
        snprintf(
            text, sizeof text,
            "{\"type\":\"io.nats.jetstream.api.v1.stream_info_response\",\"config\":{\"name\":\"T\"},"
            "\"created\":\"2026-01-01T00:00:00Z\",\"state\":{\"messages\":%llu,\"first_seq\":1,\"last_seq\":%llu}}",
            (unsigned long long)box->last_seq, (unsigned long long)box->last_seq);
        answer(box, reply, text);
    }
}
