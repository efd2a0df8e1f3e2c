/* asked.c: see asked.h. */
#include "jetstream/asked.h"

#include <string.h>

#define ASKED_KEEP (UINT64_C(64) << 10)

void asked_init(asked_queue_t *queue) {
    *queue = (asked_queue_t){0};
    buffer_init(&queue->bytes, ASKED_MAX);
}

void asked_free(asked_queue_t *queue) {
    buffer_free(&queue->bytes);
    queue->at = 0;
}

uint64_t asked_size(const asked_queue_t *queue) {
    return queue->bytes.size - queue->at;
}

static status_t asked_add(asked_queue_t *queue, const asked_t *head, bytes_t bytes) {
    uint8_t *at;
    if (queue->at > ASKED_KEEP && queue->at * 2 >= queue->bytes.size) {
        buffer_consume(&queue->bytes, queue->at);
        queue->at = 0;
    }
    status_t status = buffer_reserve(&queue->bytes, sizeof *head + bytes.size, &at);
    if (status == STATUS_OK) {
        memcpy(at, head, sizeof *head);
        (void)bytes_write(at + sizeof *head, bytes);
        queue->bytes.size += sizeof *head + bytes.size;
    }
    return status;
}

uint64_t asked_put(asked_queue_t *queue, uint32_t what, bytes_t bytes) {
    const asked_t head = {.token = queue->token + 1, .what = what, .size = bytes.size};
    return asked_add(queue, &head, bytes) == STATUS_OK ? ++queue->token : 0;
}

status_t asked_ride(asked_queue_t *queue, uint32_t what, bytes_t bytes) {
    const asked_t head = {.what = what, .size = bytes.size};
    return asked_add(queue, &head, bytes);
}

static void asked_at(const asked_queue_t *queue, uint64_t at, asked_t *head, bytes_t *bytes) {
    memcpy(head, queue->bytes.at + at, sizeof *head);
    *bytes = bytes_of(queue->bytes.at + at + sizeof *head, head->size);
}

uint64_t asked_put_all(asked_queue_t *queue, const asked_queue_t *from) {
    uint64_t before = asked_size(queue), token = 0;
    for (uint64_t at = from->at; at < from->bytes.size;) {
        asked_t head;
        bytes_t bytes;
        asked_at(from, at, &head, &bytes);
        head.token = token == 0 ? queue->token + 1 : 0;
        if (asked_add(queue, &head, bytes) != STATUS_OK) {
            queue->bytes.size = queue->at + before;
            return 0;
        }
        token = queue->token + 1;
        at += sizeof head + bytes.size;
    }
    queue->token += token != 0;
    return token;
}

void asked_unput(asked_queue_t *queue, uint64_t size) {
    queue->bytes.size = queue->at + size;
    queue->token--;
}

bool asked_first(const asked_queue_t *queue, asked_t *head, bytes_t *bytes) {
    if (asked_empty(queue)) {
        return false;
    }
    asked_at(queue, queue->at, head, bytes);
    return true;
}

bool asked_take(asked_queue_t *queue, asked_t *head, bytes_t *bytes) {
    if (!asked_first(queue, head, bytes)) {
        return false;
    }
    queue->at += sizeof *head + head->size;
    return true;
}

bool asked_take_rider(asked_queue_t *queue, asked_t *head, bytes_t *bytes) {
    return asked_first(queue, head, bytes) && head->token == 0 && asked_take(queue, head, bytes);
}

void asked_trim(asked_queue_t *queue) {
    if (asked_empty(queue)) {
        queue->at = queue->bytes.size = 0;
        buffer_trim(&queue->bytes, ASKED_KEEP);
    }
}

void asked_clear(asked_queue_t *queue) {
    queue->at = queue->bytes.size;
    asked_trim(queue);
}
