/* exchange.c: see exchange.h. */
#include "plane/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

status_t exchange_open(exchange_t *exchange) {
    *exchange = (exchange_t){0};
    exchange->commands = ring_new(EXCHANGE_COMMANDS);
    exchange->events = ring_new(EXCHANGE_EVENTS);
    if (exchange->commands == NULL || exchange->events == NULL) {
        exchange_close(exchange);
        return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

static void free_list(event_entry_t *entry) {
    while (entry != NULL) {
        event_entry_t *next = entry->next;
        free(entry);
        entry = next;
    }
}

void exchange_close(exchange_t *exchange) {
    if (exchange->commands != NULL) {
        void *entry;
        while ((entry = ring_pop(exchange->commands)) != NULL) {
            free(entry);
        }
    }
    if (exchange->events != NULL) {
        void *entry;
        while ((entry = ring_pop(exchange->events)) != NULL) {
            free(entry);
        }
    }
    free_list(exchange->waiting_first);
    free_list(exchange->polled_first);
    ring_free(exchange->commands);
    ring_free(exchange->events);
    exchange->commands = NULL;
    exchange->events = NULL;
    exchange->waiting_first = exchange->waiting_last = NULL;
    exchange->polled_first = exchange->polled_last = NULL;
}

/* ---- commands ---------------------------------------------------------------------------------------------------- */

int32_t exchange_submit(exchange_t *exchange, const plane_command_t *commands, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const plane_command_t *command = &commands[i];
        uint64_t size = sizeof(command_entry_t) + (uint64_t)command->body_size + command->extra_size;
        uint64_t waiting = atomic_load_explicit(&exchange->command_bytes, memory_order_relaxed);
        if (waiting != 0 && waiting + size > EXCHANGE_COMMAND_BYTES) {
            return (int32_t)i;
        }
        command_entry_t *entry = malloc(size);
        if (entry == NULL) {
            return (int32_t)i;
        }
        entry->command = *command;
        entry->size = size;
        entry->command.body = entry->bytes;
        entry->command.extra = entry->bytes + command->body_size;
        if (command->body_size != 0) {
            memcpy(entry->bytes, command->body, command->body_size);
        }
        if (command->extra_size != 0) {
            memcpy(entry->bytes + command->body_size, command->extra, command->extra_size);
        }
        atomic_fetch_add_explicit(&exchange->command_bytes, size, memory_order_relaxed);
        if (ring_push(exchange->commands, entry) != STATUS_OK) {
            atomic_fetch_sub_explicit(&exchange->command_bytes, size, memory_order_relaxed);
            free(entry);
            return (int32_t)i;
        }
    }
    return (int32_t)count;
}

command_entry_t *exchange_next(exchange_t *exchange) {
    return ring_pop(exchange->commands);
}

void exchange_done(exchange_t *exchange, command_entry_t *entry) {
    atomic_fetch_sub_explicit(&exchange->command_bytes, entry->size, memory_order_relaxed);
    free(entry);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static uint8_t *take(uint8_t *at, bytes_t slice, const uint8_t **to, uint32_t *size) {
    *to = at;
    *size = slice.size;
    if (slice.size != 0) {
        memcpy(at, slice.at, slice.size);
    }
    return at + slice.size;
}

event_entry_t *event_new(uint32_t kind, bytes_t subject, bytes_t reply, bytes_t header, bytes_t payload) {
    uint64_t size = sizeof(event_entry_t) + (uint64_t)subject.size + reply.size + header.size + payload.size;
    event_entry_t *entry = malloc(size);
    if (entry == NULL) {
        return NULL;
    }
    memset(&entry->event, 0, sizeof(entry->event));
    entry->event.kind = kind;
    entry->next = NULL;
    entry->size = size;
    uint8_t *at = entry->bytes;
    at = take(at, subject, &entry->event.subject, &entry->event.subject_size);
    at = take(at, reply, &entry->event.reply, &entry->event.reply_size);
    at = take(at, header, &entry->event.header, &entry->event.header_size);
    take(at, payload, &entry->event.payload, &entry->event.payload_size);
    return entry;
}

void event_pump(exchange_t *exchange) {
    while (exchange->waiting_first != NULL) {
        event_entry_t *entry = exchange->waiting_first;
        event_entry_t *next = entry->next;
        entry->next = NULL;
        if (ring_push(exchange->events, entry) != STATUS_OK) {
            entry->next = next;
            return;
        }
        exchange->waiting_first = next;
    }
    exchange->waiting_last = NULL;
}

void event_post(exchange_t *exchange, event_entry_t *entry) {
    /* Out of memory for an event that must not be lost: going on would leave control wrong for ever. */
    check(entry != NULL);
    atomic_fetch_add_explicit(&exchange->event_bytes, entry->size, memory_order_relaxed);
    if (exchange->waiting_first == NULL && ring_push(exchange->events, entry) == STATUS_OK) {
        return;
    }
    if (exchange->waiting_first == NULL) {
        exchange->waiting_first = entry;
    } else {
        exchange->waiting_last->next = entry;
    }
    exchange->waiting_last = entry;
}

bool event_room(const exchange_t *exchange) {
    return exchange->waiting_first == NULL && ring_count(exchange->events) < EXCHANGE_MESSAGES_MAX
        && atomic_load_explicit(&exchange->event_bytes, memory_order_relaxed) < EXCHANGE_EVENT_BYTES;
}

void event_offer(exchange_t *exchange, event_entry_t *entry) {
    if (entry == NULL || !event_room(exchange)) {
        exchange->dropped++;
        free(entry);
        return;
    }
    event_post(exchange, entry);
}

uint32_t exchange_poll(exchange_t *exchange, plane_event_t *events, uint32_t count_max) {
    ring_clear(exchange->events);
    uint32_t count = 0;
    while (count < count_max) {
        event_entry_t *entry = ring_pop(exchange->events);
        if (entry == NULL) {
            return count;
        }
        entry->next = NULL;
        if (exchange->polled_first == NULL) {
            exchange->polled_first = entry;
        } else {
            exchange->polled_last->next = entry;
        }
        exchange->polled_last = entry;
        events[count++] = entry->event;
    }
    /* Stopped early: the wake-up that was cleared has to be there for the rest. */
    ring_wake(exchange->events);
    return count;
}

void exchange_release(exchange_t *exchange, uint32_t count) {
    for (uint32_t i = 0; i < count && exchange->polled_first != NULL; i++) {
        event_entry_t *entry = exchange->polled_first;
        exchange->polled_first = entry->next;
        if (exchange->polled_first == NULL) {
            exchange->polled_last = NULL;
        }
        atomic_fetch_sub_explicit(&exchange->event_bytes, entry->size, memory_order_relaxed);
        free(entry);
    }
}
