/* batch.c: atomic batches, one after the other on one connection, `in_flight` of them without an answer. As with the
 * official clients the first message asks for an answer (an empty one: the batch is begun), then only the last one,
 * which commits. Latencies are from a batch's first message until that answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "load.h"

#define HEADER_MAX 128

typedef struct batches {
    const options_t *options;
    client_t client;
    char *payload;
    double *times; /* of each batch: when it was begun, then how long its answer took, in us */
    uint64_t sent;
    uint64_t answered;
} batches_t;

static void put_message(batches_t *batches, uint32_t sequence) {
    const options_t *options = batches->options;
    unsigned long long number = batches->sent;
    char header[HEADER_MAX];
    bool last = sequence == options->batch;
    int size = snprintf(header, sizeof header, "NATS/1.0\r\nNats-Batch-Id: b%llu\r\nNats-Batch-Sequence: %u\r\n%s\r\n",
                        number, sequence, last ? "Nats-Batch-Commit: 1\r\n" : "");
    client_format(&batches->client, "HPUB %s ", options->subject);
    if (sequence == 1 || last) {
        client_format(&batches->client, "_INBOX.batch.%s.%llu ", last ? "done" : "begun", number);
    }
    client_format(&batches->client, "%d %u\r\n", size, (unsigned)size + options->size);
    client_put(&batches->client, header, (size_t)size);
    client_put(&batches->client, batches->payload, options->size + 2);
}

static void batch_more(batches_t *batches, uint64_t count) {
    while (batches->sent < count && batches->sent - batches->answered < batches->options->in_flight) {
        batches->times[batches->sent] = seconds_now();
        for (uint32_t sequence = 1; sequence <= batches->options->batch; sequence++) {
            put_message(batches, sequence);
        }
        batches->sent++;
    }
}

static void take_answer(batches_t *batches, const frame_t *frame) {
    static const char begun[] = "_INBOX.batch.begun.", done[] = "_INBOX.batch.done.";
    if (frame->header.size == 0 && frame->payload.size == 0
        && memcmp(frame->subject.at, begun, sizeof begun - 1) == 0) {
        return;
    }
    bool sound = frame->subject.size > sizeof done - 1 && memcmp(frame->subject.at, done, sizeof done - 1) == 0
                 && memmem(frame->payload.at, frame->payload.size, "\"seq\"", 5) != NULL
                 && memmem(frame->payload.at, frame->payload.size, "\"error\"", 7) == NULL;
    uint64_t number = sound ? strtoull(frame->subject.at + sizeof done - 1, NULL, 10) : UINT64_MAX;
    if (number >= batches->sent) {
        die("not an answer to a batch: %.*s%.*s", (int)frame->header.size, frame->header.at, (int)frame->payload.size,
            frame->payload.at);
    }
    batches->times[number] = (seconds_now() - batches->times[number]) * 1e6;
    batches->answered++;
}

result_t run_batch(const options_t *options) {
    uint64_t count = options->messages / options->batch;
    batches_t batches = {
        .options = options, .payload = malloc(options->size + 2), .times = calloc(count + 1, sizeof(double))};
    if (count == 0 || batches.payload == NULL || batches.times == NULL) {
        die("no memory, or fewer messages than a batch has");
    }
    memset(batches.payload, 'x', options->size);
    memcpy(batches.payload + options->size, "\r\n", 2);
    client_open(&batches.client, options->port);
    client_format(&batches.client, "SUB _INBOX.batch.> 1\r\n");
    client_sync(&batches.client);
    double started = seconds_now();
    while (batches.answered < count) {
        frame_t frame;
        batch_more(&batches, count);
        client_flush_all(&batches.client);
        client_fill(&batches.client, true);
        while (client_next(&batches.client, &frame)) {
            take_answer(&batches, &frame);
        }
    }
    result_t result = {.messages = count * options->batch, .seconds = seconds_now() - started};
    latencies_tell(&result, batches.times, count);
    client_close(&batches.client);
    free(batches.payload);
    free(batches.times);
    return result;
}
